//! Commands for router advertisements: those of VPP, and those for RFC 4191 and RFC 8106, which VPP does not have.

use super::control::{self, Advertising};
use super::settings::{MAX_INITIAL, MAX_INITIAL_INTERVAL, PrefixSettings, Settings, SettingsError, written};
use command::{Args, Command, CommandError, CommandSet, Done, Reply, fail, reply};
use router::Router;
use router::interface::Interface;
use serde::Serialize;
use std::fmt;
use std::net::Ipv6Addr;
use std::time::Instant;
use wire::Prefix6;
use wire::nd::{FOREVER, Preference};

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "IPv6 router advertisements",
        "Router advertisements tell the hosts of a link about prefixes, routers and name servers (RFC 4861, 8106). \
         The router sends none until `ip6 nd e0 no ra-suppress`. Times are in seconds, except `ra-reachable-time` \
         and `ra-retransmit-timer` (milliseconds). `no` restores the default.",
    );
    set.add(
        Command::new(
            &format!(
                "ip6 nd <interface:interface> [no] {{\
                 prefix {{<prefix:prefix6> | default : of}} [{{<valid:u32> <preferred:u32> | infinite : for}}] \
                 {{{{ [no-advertise] | [off-link] | [no-autoconfig] | [no-onlink] }}}} | \
                 rdnss <server:ip6> [{{lifetime <lifetime:u32> | infinite : for}}] | \
                 dnssl <name:word> [{{lifetime <lifetime:u32> | infinite : for}}] | \
                 {{{{ [ra-suppress] | [ra-cease] | [ra-managed-config-flag] | [ra-other-config-flag] | \
                 [ra-suppress-link-layer] | [ra-send-unicast] | [ra-lifetime [<router-lifetime:u32 0..9000>]] | \
                 [ra-interval [<max:u32 4..1800> [<min:u32 3..1350>]]] | \
                 [ra-initial [<count:u32 1..{MAX_INITIAL}> <interval:u32 1..{MAX_INITIAL_INTERVAL}>]] | \
                 [ra-preference [{{high | medium | low : preference}}]] | [ra-hop-limit [<hops:u32 0..255>]] | \
                 [ra-reachable-time [<reachable:u32 0..3600000>]] | [ra-retransmit-timer [<retransmit:u32>]] }}}}}}"
            ),
            "Configure the router advertisements of a link: prefixes, name servers, times. Or stop them.",
            set_advertising,
        )
        .configures()
        .example("ip6 nd e0 no ra-suppress")
        .example("ip6 nd e0 ra-interval 60 30 ra-lifetime 180 ra-preference high")
        .example("ip6 nd e0 prefix 2001:db8:0:1::/64 infinite no-autoconfig")
        .example("ip6 nd e0 rdnss 2001:db8::53 lifetime 600"),
    );
    set.add(
        Command::new(
            "show ip6 ra [<interface:interface>]",
            "Show the router advertisements that are sent, and the routers whose advertisements were received.",
            |router: &mut Router, args: &Args| {
                let only = args.optional_text("interface").map(|name| router.interfaces.find(name)).transpose()?;
                let chosen = router
                    .interfaces
                    .iter()
                    .filter(|interface| interface.ip6.is_enabled() && interface.has_neighbours())
                    .filter(|interface| only.is_none_or(|only| only == interface.index));
                reply(Shown { interfaces: chosen.map(|interface| shown(router, interface)).collect() })
            },
        )
        .example("show ip6 ra e0"),
    );
}

fn set_advertising(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let index = router.interfaces.find(args.text("interface")?)?;
    let mut settings = router.state::<Advertising>().settings(index);
    if args.flag("prefix") {
        set_prefix(&mut settings, args)?;
    } else if args.flag("rdnss") {
        let server: Ipv6Addr = args.parse("server")?;
        set_time(&mut settings.servers, server, args)?;
    } else if args.flag("dnssl") {
        let name = args.text("name")?.trim_end_matches('.').to_ascii_lowercase();
        set_time(&mut settings.search, name, args)?;
    } else {
        set_flags_and_times(&mut settings, args)?;
    }
    control::set(router, index, settings)?;
    reply(Done)
}

fn set_prefix(settings: &mut Settings, args: &Args) -> Result<(), CommandError> {
    let of: Option<Prefix6> = args.optional("prefix")?;
    let of = of.map(|prefix| prefix.network());
    if args.flag("no") {
        return match of {
            None => {
                settings.default_prefix = PrefixSettings::default();
                Ok(())
            }
            Some(prefix) => match settings.prefixes.remove(&prefix) {
                Some(_) => Ok(()),
                None => Err(not_there(prefix)),
            },
        };
    }
    let default = if of.is_some() { settings.default_prefix } else { PrefixSettings::default() };
    let (valid, preferred) = match args.optional_text("for") {
        Some("infinite") => (FOREVER, FOREVER),
        Some(_) => (args.parse("valid")?, args.parse("preferred")?),
        None => (default.valid, default.preferred),
    };
    let said = PrefixSettings {
        valid,
        preferred,
        is_advertised: default.is_advertised && !args.flag("no-advertise"),
        on_link: default.on_link && !args.flag("off-link") && !args.flag("no-onlink"),
        autonomous: default.autonomous && !args.flag("no-autoconfig"),
    };
    match of {
        None => settings.default_prefix = said,
        Some(prefix) => drop(settings.prefixes.insert(prefix, said)),
    }
    Ok(())
}

fn not_there(what: impl fmt::Display) -> CommandError {
    router::Error::from(SettingsError::NotThere(what.to_string())).into()
}

/// Adds or removes a name server or a search name with its lifetime.
fn set_time<K: Ord + fmt::Display>(
    all: &mut std::collections::BTreeMap<K, Option<u32>>,
    one: K,
    args: &Args,
) -> Result<(), CommandError> {
    if args.flag("no") {
        return match all.remove(&one) {
            Some(_) => Ok(()),
            None => Err(not_there(one)),
        };
    }
    let lifetime = match args.optional_text("for") {
        Some("infinite") => Some(FOREVER),
        _ => args.optional("lifetime")?,
    };
    all.insert(one, lifetime);
    Ok(())
}

fn set_flags_and_times(settings: &mut Settings, args: &Args) -> Result<(), CommandError> {
    let (default, no) = (Settings::default(), args.flag("no"));
    let mut is_something = false;
    let mut said = |word: &str| {
        let is_said = args.flag(word);
        is_something |= is_said;
        is_said
    };
    if said("ra-suppress") || said("ra-cease") {
        settings.is_suppressed = !no;
    }
    if said("ra-managed-config-flag") {
        settings.managed = !no;
    }
    if said("ra-other-config-flag") {
        settings.other = !no;
    }
    if said("ra-suppress-link-layer") {
        settings.tells_link_address = no;
    }
    if said("ra-send-unicast") {
        settings.answers_directly = !no;
    }
    if said("ra-lifetime") {
        settings.lifetime = value(args, "ra-lifetime", "router-lifetime")?;
    }
    if said("ra-interval") {
        settings.max_interval = value(args, "ra-interval", "max")?.unwrap_or(default.max_interval);
        settings.min_interval = args.optional("min")?;
    }
    if said("ra-initial") {
        settings.initial_count = value(args, "ra-initial", "count")?.unwrap_or(default.initial_count);
        settings.initial_interval = args.optional("interval")?.unwrap_or(default.initial_interval);
    }
    if said("ra-preference") {
        let of = value::<String>(args, "ra-preference", "preference")?;
        settings.preference = of.as_deref().map_or(default.preference, preference);
    }
    if said("ra-hop-limit") {
        settings.hop_limit = value(args, "ra-hop-limit", "hops")?.unwrap_or(default.hop_limit);
    }
    if said("ra-reachable-time") {
        settings.reachable = value(args, "ra-reachable-time", "reachable")?.unwrap_or(default.reachable);
    }
    if said("ra-retransmit-timer") {
        settings.retransmit = value(args, "ra-retransmit-timer", "retransmit")?.unwrap_or(default.retransmit);
    }
    if is_something {
        Ok(())
    } else {
        fail("nothing said: 'prefix', 'rdnss', 'dnssl' or a word that begins with 'ra-'")
    }
}

/// The value after a word: `None` with `no`, and required without it.
fn value<T: std::str::FromStr>(args: &Args, word: &str, name: &str) -> Result<Option<T>, CommandError>
where
    T::Err: fmt::Display,
{
    match (args.flag("no"), args.optional(name)?) {
        (true, None) => Ok(None),
        (false, Some(value)) => Ok(Some(value)),
        (true, Some(_)) => fail(format!("'no {word}' takes no value: it goes back to what holds when nothing is said")),
        (false, None) => fail(format!("'{word}' needs a value")),
    }
}

fn preference(word: &str) -> Preference {
    match word {
        "high" => Preference::High,
        "low" => Preference::Low,
        _ => Preference::Medium,
    }
}

/// The word for a preference in commands.
pub(super) fn preference_word(preference: Preference) -> &'static str {
    match preference {
        Preference::High => "high",
        Preference::Medium => "medium",
        Preference::Low => "low",
    }
}

#[derive(Serialize)]
struct ShownPrefix {
    prefix: String,
    valid: u32,
    preferred: u32,
    on_link: bool,
    autonomous: bool,
}

#[derive(Serialize)]
struct ShownOther {
    address: String,
    mac: String,
    /// Seconds since its last advertisement.
    age: f64,
    lifetime: u16,
    preference: &'static str,
}

#[derive(Serialize)]
struct ShownInterface {
    name: String,
    advertises: bool,
    is_suppressed: bool,
    /// Seconds until the next advertisement to all hosts.
    next: Option<f64>,
    sent: u64,
    solicitations: u64,
    interval: [u16; 2],
    lifetime: u16,
    preference: &'static str,
    managed: bool,
    other_config: bool,
    hop_limit: u8,
    mtu: u16,
    prefixes: Vec<ShownPrefix>,
    /// With lifetimes in seconds.
    rdnss: Vec<(String, u32)>,
    dnssl: Vec<(String, u32)>,
    other_routers: Vec<ShownOther>,
}

fn shown(router: &Router, interface: &Interface) -> ShownInterface {
    let settings = router.state::<Advertising>().settings(interface.index);
    let advertiser = router.state::<Advertising>().advertiser(interface.index);
    let now = router.state::<Advertising>().now();
    let since = |then: Instant| now.saturating_duration_since(then).as_secs_f64();
    let usual = u32::from(settings.usual_lifetime());
    let prefixes = super::message::prefixes(interface, &settings).into_iter().map(|prefix| {
        let of = settings.of_prefix(prefix);
        let (valid, preferred, on_link) = (of.valid, of.preferred, of.on_link);
        ShownPrefix { prefix: prefix.to_string(), valid, preferred, on_link, autonomous: of.autonomous }
    });
    let others = router.state::<Advertising>().others(interface.index).map(|(address, other)| ShownOther {
        address: address.to_string(),
        mac: other.mac.to_string(),
        age: since(other.heard),
        lifetime: other.told.lifetime,
        preference: preference_word(other.told.preference),
    });
    ShownInterface {
        name: interface.name.clone(),
        advertises: advertiser.is_some(),
        is_suppressed: settings.is_suppressed,
        next: advertiser.map(|advertiser| advertiser.due.saturating_duration_since(now).as_secs_f64()),
        sent: advertiser.map_or(0, |advertiser| advertiser.sent),
        solicitations: advertiser.map_or(0, |advertiser| advertiser.asked),
        interval: [settings.least_interval(), settings.max_interval],
        lifetime: settings.lifetime.unwrap_or(settings.usual_lifetime()),
        preference: preference_word(settings.preference),
        managed: settings.managed,
        other_config: settings.other,
        hop_limit: settings.hop_limit,
        mtu: interface.ip6_mtu,
        prefixes: prefixes.collect(),
        rdnss: settings.servers.iter().map(|(one, time)| (one.to_string(), time.unwrap_or(usual))).collect(),
        dnssl: settings.search.iter().map(|(one, time)| (one.clone(), time.unwrap_or(usual))).collect(),
        other_routers: others.collect(),
    }
}

#[derive(Serialize)]
struct Shown {
    interfaces: Vec<ShownInterface>,
}

impl fmt::Display for ShownInterface {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match (self.advertises, self.is_suppressed) {
            (true, _) => "advertised",
            (false, true) => "suppressed",
            (false, false) => "wanted, but the interface cannot be used yet",
        };
        writeln!(f, "{}: router advertisements are {state}", self.name)?;
        if !self.is_suppressed {
            let [least, most] = self.interval;
            write!(f, "  sent {}, solicitations {}, every {least} to {most} s", self.sent, self.solicitations)?;
            match self.next {
                Some(next) => writeln!(f, ", next in {next:.0} s")?,
                None => writeln!(f)?,
            }
            writeln!(f, "  default router for {} s, preference {}", self.lifetime, self.preference)?;
            let yes = |is_set: bool| if is_set { "yes" } else { "no" };
            let (managed, other) = (yes(self.managed), yes(self.other_config));
            writeln!(f, "  managed {managed}, other {other}, hop limit {}, mtu {}", self.hop_limit, self.mtu)?;
            for ShownPrefix { prefix, valid, preferred, on_link, autonomous } in &self.prefixes {
                write!(f, "  prefix {prefix} valid {} preferred {}", written(*valid), written(*preferred))?;
                write!(f, "{}", if *on_link { "" } else { " no-onlink" })?;
                writeln!(f, "{}", if *autonomous { "" } else { " no-autoconfig" })?;
            }
            for (server, time) in &self.rdnss {
                writeln!(f, "  rdnss {server} lifetime {}", written(*time))?;
            }
            for (name, time) in &self.dnssl {
                writeln!(f, "  dnssl {name} lifetime {}", written(*time))?;
            }
        }
        for ShownOther { address, mac, age, lifetime, preference } in &self.other_routers {
            writeln!(
                f,
                "  other router {address} {mac} lifetime {lifetime} preference {preference}, heard {age:.0} s ago"
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.interfaces.is_empty() {
            return writeln!(f, "No interface takes part in IPv6");
        }
        self.interfaces.iter().try_for_each(|interface| interface.fmt(f))
    }
}
