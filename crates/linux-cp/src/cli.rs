//! Commands on the Linux control plane, as VPP has them.

use crate::audit::{self, Audit, What};
use crate::control;
use crate::error::LcpError;
use crate::from_linux;
use crate::pair::OWN_NAMESPACE;
use crate::params::Param;
use crate::state::{Pair, Pairs};
use command::{Args, Command, CommandError, CommandSet, Done, Reply, fail, reply};
use graph::InterfaceIndex;
use router::Router;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

type Answer = Result<Box<dyn Reply>, CommandError>;

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "The Linux control plane",
        "A pair gives an interface of the router a second side in Linux, an ordinary network interface there. Linux \
         gets what is for the router: packets to its addresses and to groups, ARP, Neighbor Discovery, other \
         protocols. What Linux sends leaves by the router's interface.",
    );
    set.add(
        Command::new(
            "lcp create <interface:interface> host-if <host:word> [netns {clear | <namespace:netns> : where}]",
            "Make a pair: an interface in Linux for an interface of the router. It is down at first. `netns clear` is \
             the namespace of the router itself.",
            |router: &mut Router, args: &Args| {
                let phy = match args.optional("index")?.map(InterfaceIndex) {
                    Some(index) => router.interfaces.get(index)?.index,
                    None => router.interfaces.find(args.text("interface")?)?,
                };
                let own = args.optional_text("where").filter(|word| *word == OWN_NAMESPACE);
                let namespace = args.optional_text("namespace").or(own);
                control::create(router, phy, args.text("host")?, namespace)?;
                reply(Done)
            },
        )
        .also("lcp create sw_if_index <index:u32> host-if <host:word> [netns {clear | <namespace:netns> : where}]")
        .configures()
        .example("lcp create e0 host-if xe0")
        .example("lcp create e0 host-if xe0 netns dataplane"),
    );
    set.add(
        Command::new(
            "lcp delete <interface:interface>",
            "Remove a pair with its interface in Linux.",
            |router: &mut Router, args: &Args| {
                let phy = router.interfaces.find(args.text("interface")?)?;
                control::delete(router, phy)?;
                reply(Done)
            },
        )
        .configures()
        .example("lcp delete e0"),
    );
    set.add(
        Command::new(
            "lcp default netns {clear | default | <namespace:netns> : which}",
            "Set the network namespace of pairs that are made later and name none: `clear` is that of the router \
             itself, `default` what startup.conf says.",
            set_default,
        )
        .also("lcp default clear netns")
        .configures()
        .example("lcp default netns dataplane"),
    );
    set.add(
        Command::new(
            "lcp lcp-sync {on | off : state}",
            "Have the state, the MTU and the addresses of interfaces in Linux follow those of the router's, or not.",
            |router: &mut Router, args: &Args| {
                control::set_sync(router, matches!(args.text("state")?, "on" | "enable"));
                reply(Done)
            },
        )
        .also("lcp lcp-sync {enable | disable : state}")
        .configures(),
    );
    set.add(
        Command::new(
            "lcp lcp-auto-subint {on | off : state}",
            "Give each sub-interface of an interface that has a pair one by itself, or not. Its name in Linux is that \
             of the parent's pair with the number of the sub-interface.",
            |router: &mut Router, args: &Args| {
                control::set_subs(router, matches!(args.text("state")?, "on" | "enable"));
                reply(Done)
            },
        )
        .also("lcp lcp-auto-subint {enable | disable : state}")
        .configures(),
    );
    register_params(set);
    set.add(
        Command::new("show lcp [phy <interface:interface>]", "Show the pairs, or that of one interface.", show)
            .example("show lcp"),
    );
    set.add(
        Command::new(
            "show lcp netlink",
            "Show how the router follows Linux in each network namespace: messages, routes, changes that wait, \
             messages that Linux dropped (`overruns`), looks at all routes, and how long routes took.",
            |router: &mut Router, _: &Args| reply(show_netlink(router)),
        )
        .example("show lcp netlink"),
    );
    set.add(
        Command::new(
            "show lcp audit",
            "Read all that Linux has, and name what the router has otherwise: routes and addresses.",
            |router: &mut Router, _: &Args| match audit::audit(router) {
                Ok(audit) => reply(audit),
                Err(error) => fail(error),
            },
        )
        .example("show lcp audit"),
    );
    set.add(
        Command::new(
            "lcp audit repair",
            "Read all that Linux has, name what the router has otherwise, and set it right.",
            |router: &mut Router, _: &Args| match audit::audit(router) {
                Ok(audit) => {
                    audit::repair(router, &audit);
                    reply(audit)
                }
                Err(error) => fail(error),
            },
        )
        .example("lcp audit repair"),
    );
    set.add(
        Command::new(
            "lcp resync",
            "Look at everything that Linux has, and take over what differs. After an overrun this happens by itself.",
            |router: &mut Router, _: &Args| {
                from_linux::look_at_all(router);
                reply(Done)
            },
        )
        .example("lcp resync"),
    );
}

fn register_params(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "lcp param {{ [route-no-paths {on|off|enable|disable : no-paths}] | \
             [lcp-sync-unnumbered {on|off|enable|disable : unnumbered}] | \
             [del-static-on-link-down {on|off|enable|disable : static}] | \
             [del-dynamic-on-link-down {on|off|enable|disable : dynamic}] }}",
            "Set how pairs are. `route-no-paths`: packets of routes by interfaces that only Linux has go to Linux. \
             `lcp-sync-unnumbered`: with `lcp-sync`, interfaces in Linux have the addresses that the router's \
             interfaces borrow, too. The others have no effect: routes of a link that is down always go, as they do in \
             Linux.",
            |router: &mut Router, args: &Args| {
                let named = [
                    ("no-paths", Param::RouteNoPaths),
                    ("unnumbered", Param::SyncUnnumbered),
                    ("static", Param::DelStatic),
                    ("dynamic", Param::DelDynamic),
                ];
                if named.iter().all(|(name, _)| args.optional_text(name).is_none()) {
                    let words = Param::ALL.map(Param::word).join(", ");
                    return fail(format!("nothing is set: name one of {words}, and on or off"));
                }
                for (name, param) in named {
                    if let Some(state) = args.optional_text(name) {
                        control::set_param(router, param, matches!(state, "on" | "enable"));
                    }
                }
                reply(Done)
            },
        )
        .configures()
        .example("lcp param route-no-paths on"),
    );
    set.add(
        Command::new(
            "lcp lcp-sync-unnumbered {on|off|enable|disable : state}",
            "The same as `lcp param lcp-sync-unnumbered`.",
            |router: &mut Router, args: &Args| {
                control::set_param(router, Param::SyncUnnumbered, matches!(args.text("state")?, "on" | "enable"));
                reply(Done)
            },
        )
        .configures()
        .example("lcp lcp-sync-unnumbered on"),
    );
    for word in ["enable", "disable"] {
        let help = match word {
            "enable" => {
                "Give Linux frames of an Ethernet type, as VPP has it. Linux gets frames of all types that the router \
                 does not know anyway; the command is there for files of VPP."
            }
            _ => "Take a type off the list of `show lcp ethertype`. Linux gets its frames as before.",
        };
        let work = move |router: &mut Router, args: &Args| {
            let given = args.text("ethertype")?;
            let Some(ethertype) = ethertype_of(given) else {
                return fail(format!("'{given}' is no Ethernet type: a number from 0x0600 to 0xffff, such as 0x88cc"));
            };
            let listed = &mut router.state_mut::<Pairs>().params.ethertypes;
            if word == "enable" {
                listed.insert(ethertype)
            } else {
                listed.remove(&ethertype)
            };
            reply(Done)
        };
        set.add(
            Command::new(&format!("lcp ethertype {word} <ethertype:word>"), help, work)
                .configures()
                .example(&format!("lcp ethertype {word} 0x88cc")),
        );
    }
    set.add(
        Command::new(
            "show lcp ethertype",
            "Show the Ethernet types of `lcp ethertype enable`.",
            |router: &mut Router, _: &Args| {
                let ethertypes = router.state::<Pairs>().params.ethertypes.iter().copied().collect();
                reply(ShowEthertypes { ethertypes })
            },
        )
        .example("show lcp ethertype"),
    );
}

/// The number of an Ethernet type, or one of VPP's names (vnet/ethernet/types.def).
fn ethertype_of(text: &str) -> Option<u16> {
    let number = match text.to_ascii_uppercase().as_str() {
        "IP4" => 0x0800,
        "ARP" => 0x0806,
        "IP6" => 0x86dd,
        "MPLS" => 0x8847,
        "802_1_LLDP" => 0x88cc,
        "SLOW_PROTOCOLS" => 0x8809,
        _ => match text.strip_prefix("0x") {
            Some(hex) => u16::from_str_radix(hex, 16).ok()?,
            None => text.parse().ok()?,
        },
    };
    (number >= 0x0600).then_some(number)
}

#[derive(Serialize)]
struct ShowEthertypes {
    ethertypes: Vec<u16>,
}

impl fmt::Display for ShowEthertypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ethertypes.is_empty() {
            return writeln!(f, "no types are listed; Linux gets frames of all that the router does not know");
        }
        self.ethertypes.iter().try_for_each(|ethertype| writeln!(f, "{ethertype:#06x}"))
    }
}

fn set_default(router: &mut Router, args: &Args) -> Answer {
    let namespace = match args.optional_text("namespace") {
        Some(namespace) => Some(namespace.to_string()),
        None if args.optional_text("which") == Some("default") => {
            router.state::<Pairs>().startup_namespace().map(str::to_string)
        }
        None => None,
    };
    control::set_default_namespace(router, namespace);
    reply(Done)
}

fn show(router: &mut Router, args: &Args) -> Answer {
    let pairs = router.state::<Pairs>();
    let only = args.optional_text("interface").map(|name| router.interfaces.find(name)).transpose()?;
    if only.is_some_and(|phy| pairs.of(phy).is_none()) {
        return fail(LcpError::NoPair(args.text("interface")?.into()).to_string());
    }
    let chosen = pairs.iter().enumerate().filter(|(_, pair)| only.is_none_or(|phy| phy == pair.phy));
    let name = |index: InterfaceIndex| router.interfaces.get(index).map_or_else(|_| "?".into(), |it| it.name.clone());
    let shown = |(number, pair): (usize, &Pair)| ShownPair {
        index: number,
        phy: name(pair.phy),
        tap: name(pair.tap),
        host: pair.host.clone(),
        namespace: pair.namespace.clone(),
        kind: if pair.vlan.is_some() { "vlan" } else { "tap" },
    };
    let default_namespace = pairs.default_namespace().map(str::to_string);
    let (lcp_auto_subint, lcp_sync) = (pairs.makes_subs(), pairs.is_synchronous());
    let params = Param::ALL.map(|param| (param.word(), pairs.params.is_on(param))).into();
    let pairs = chosen.map(shown).collect();
    reply(ShowLcp { default_namespace, lcp_auto_subint, lcp_sync, params, pairs })
}

#[derive(Serialize)]
struct ShownPair {
    index: usize,
    /// The router's interface.
    phy: String,
    /// The interface of the router that leads to Linux.
    tap: String,
    /// The name in Linux.
    host: String,
    namespace: Option<String>,
    /// `vlan`: a VLAN link above the side of the parent. `tap`: all others.
    kind: &'static str,
}

#[derive(Serialize)]
struct ShowLcp {
    default_namespace: Option<String>,
    lcp_auto_subint: bool,
    lcp_sync: bool,
    params: BTreeMap<&'static str, bool>,
    pairs: Vec<ShownPair>,
}

impl fmt::Display for ShowLcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "lcp default netns '{}'", self.default_namespace.as_deref().unwrap_or("<unset>"))?;
        let state = |on: bool| if on { "on" } else { "off" };
        writeln!(f, "lcp lcp-auto-subint {}", state(self.lcp_auto_subint))?;
        writeln!(f, "lcp lcp-sync {}", state(self.lcp_sync))?;
        let params = [Param::SyncUnnumbered, Param::DelStatic, Param::DelDynamic, Param::RouteNoPaths];
        for word in params.map(Param::word) {
            writeln!(f, "lcp {word} {}", state(self.params.get(word).is_some_and(|on| *on)))?;
        }
        for ShownPair { index, phy, tap, host, namespace, kind } in &self.pairs {
            write!(f, "itf-pair: [{index}] {phy} {tap} {host} type {kind}")?;
            match namespace {
                Some(namespace) => writeln!(f, " netns {namespace}")?,
                None => writeln!(f)?,
            }
        }
        Ok(())
    }
}

/// Rows in the order of the names of namespaces.
#[derive(Serialize)]
struct ShownNetlink {
    namespace: Option<String>,
    /// Whether its routes are the router's.
    routes_taken: bool,
    links: usize,
    messages: u64,
    malformed: u64,
    not_followed: u64,
    overruns: u64,
    looks: u64,
    stale: u64,
    prefixes: u64,
    backlog: u64,
    batches: u64,
    routes: u64,
    refused: u64,
    lag_us: u64,
    longest_lag_us: u64,
}

#[derive(Serialize)]
struct ShowNetlink(Vec<ShownNetlink>);

fn show_netlink(router: &Router) -> ShowNetlink {
    let pairs = router.state::<Pairs>();
    let links = |namespace: &Option<String>| pairs.iter().filter(|pair| pair.namespace == *namespace).count();
    let shown = from_linux::counts(pairs).map(|(namespace, counts)| ShownNetlink {
        namespace: namespace.clone(),
        routes_taken: pairs.routes_of.as_ref() == Some(namespace),
        links: links(namespace),
        messages: counts.messages.get(),
        malformed: counts.malformed.get(),
        not_followed: counts.not_followed.get(),
        overruns: counts.overruns.get(),
        looks: counts.looks.get(),
        stale: counts.stale.get(),
        prefixes: counts.prefixes.get(),
        backlog: counts.backlog.get(),
        batches: counts.batches.get(),
        routes: counts.routes.get(),
        refused: counts.refused.get(),
        lag_us: counts.lag.get(),
        longest_lag_us: counts.longest_lag.get(),
    });
    ShowNetlink(shown.collect())
}

impl fmt::Display for ShowNetlink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return writeln!(f, "no pairs: Linux is not followed");
        }
        let milliseconds = |us: u64| us as f64 / 1000.0;
        for shown in &self.0 {
            let name = shown.namespace.as_deref().unwrap_or("of the router");
            let routes = if shown.routes_taken { "taken" } else { "not taken" };
            writeln!(f, "namespace {name}: links {}, routes are {routes}", shown.links)?;
            let ShownNetlink { messages, malformed, not_followed, .. } = shown;
            writeln!(f, "  messages {messages}, malformed {malformed}, not followed {not_followed}")?;
            let ShownNetlink { prefixes, backlog, batches, routes, refused, .. } = shown;
            writeln!(f, "  prefixes {prefixes}, backlog {backlog}")?;
            writeln!(f, "  batches {batches}, changes {routes}, refused {refused}")?;
            let ShownNetlink { overruns, looks, stale, .. } = shown;
            writeln!(f, "  overruns {overruns}, resyncs {looks}, stale routes found {stale}")?;
            let (lag, longest) = (milliseconds(shown.lag_us), milliseconds(shown.longest_lag_us));
            writeln!(f, "  lag {lag:.1} ms, longest {longest:.1} ms")?;
        }
        Ok(())
    }
}

impl fmt::Display for Audit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.namespace.as_deref().unwrap_or("of the router");
        let Audit { routes, addresses, differences, .. } = self;
        writeln!(f, "namespace {name}: routes {routes}, addresses {addresses}, differences {differences}")?;
        for difference in &self.named {
            let what = match difference.what {
                What::Missing => "missing",
                What::Stale => "stale",
                What::Differs => "differs",
            };
            writeln!(f, "  {what}: {}", difference.of)?;
        }
        match differences - self.named.len() {
            0 => Ok(()),
            more => writeln!(f, "  and {more} more"),
        }
    }
}
