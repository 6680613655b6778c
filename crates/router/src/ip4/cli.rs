//! Commands on IPv4 routes, as VPP has them.

use super::control::{Path, Route, Source, Way};
use super::next_hop::NextHopError;
use crate::{Error, Router};
use command::{Args, Command, CommandError, CommandSet, Done, Reply, fail, reply};
use serde::Serialize;
use std::fmt;
use std::net::Ipv4Addr;
use tables::Leaf;
use wire::Prefix4;

/// So many prefixes of one length, side by side: what control does in a second or two. Files may have more.
const COUNT: &str = "[count <count:u32 1..1000000>]";

/// A path: a next hop with or without its interface, an interface alone, or what else
/// can be done with a packet.
const VIA: &str = "via {drop | blackhole | punt | local | receive | unreachable | unreach | null-send-unreach | prohibit | null-send-prohibit | <hop:ip4> [<interface:interface>] [{onlink | offlink : insist}] | <onto:interface> : way} [weight <weight:u32 1..255>] [preference <preference:u32 0..255>]";

pub fn register(set: &mut CommandSet<Router>) {
    super::settings::register(set);
    set.section(
        "Routes",
        "Several paths share the traffic by weight and flow. A path leads to a next hop, onto an attached network (an \
         interface alone), or nowhere: `drop` discards, `unreachable` refuses with an ICMP error (host unreachable), `prohibit` \
         with another (administratively prohibited), `local` is for the \
         router itself, `punt` is for the host (`ip punt redirect`). A next hop that is on no attached network is reached as the longest \
         route to it says, the default route not counted. Of paths with different `preference` those with the lowest number are used \
         of which one works. `count` is for as many prefixes side by side.",
    );
    set.add(
        Command::new(
            &format!("ip route add {COUNT} <prefix:prefix4> ({VIA} : paths)+"),
            "Add paths to a route.",
            |router: &mut Router, args: &Args| add(router, args, false),
        )
        .configures()
        .example("ip route add 16.0.0.0/24 via 100.64.1.2")
        .example("ip route add 10.0.0.0/8 via 100.64.1.2 weight 3 via 100.64.2.2 e1")
        .example("ip route add 192.0.2.0/24 via drop"),
    );
    set.add(
        Command::new(
            &format!("ip route replace {COUNT} <prefix:prefix4> ({VIA} : paths)+"),
            "Make these the only paths of a route, new or not, in one step.",
            |router: &mut Router, args: &Args| add(router, args, true),
        )
        .configures()
        .example("ip route replace 16.0.0.0/24 via 100.64.2.2"),
    );
    set.add(
        Command::new(
            &format!("ip route del {COUNT} <prefix:prefix4> ({VIA} : paths)*"),
            "Take paths off a route, or remove it.",
            |router: &mut Router, args: &Args| {
                let paths = paths(router, args, false)?;
                let before = |router: &Router, prefix| router.ip4.routes().get(&prefix);
                change_each(router, args, before, |router, prefix| router.remove_route(prefix, Source::Config, &paths))
            },
        )
        .configures()
        .example("ip route del 16.0.0.0/24"),
    );
    super::load::register(set);
    set.add(
        Command::new(
            "show ip fib [{summary | memory | <prefix:prefix4> | <address:ip4> : what}] [detail]",
            "The IPv4 routing table, or what is known of one destination.",
            show_fib,
        )
        .example("show ip fib 16.0.0.9")
        .example("show ip fib summary"),
    );
}

fn add(router: &mut Router, args: &Args, replace: bool) -> Result<Box<dyn Reply>, CommandError> {
    let paths = paths(router, args, true)?;
    let before = |router: &Router, prefix| router.ip4.routes().get(&prefix);
    change_each(router, args, before, |router, prefix| router.add_route(prefix, Source::Config, paths.clone(), replace))
}

/// Changes the operators' routes to as many prefixes as the command says, or none of them.
fn change_each(
    router: &mut Router,
    args: &Args,
    before: impl Fn(&Router, Prefix4) -> Option<Route>,
    mut change: impl FnMut(&mut Router, Prefix4) -> Result<(), Error>,
) -> Result<Box<dyn Reply>, CommandError> {
    let first: Prefix4 = args.parse("prefix")?;
    let count = args.optional::<u32>("count")?.unwrap_or(1);
    if count == 1 {
        change(router, first)?;
        return reply(Done);
    }
    let step = 1u64 << (32 - u32::from(first.length()));
    let begin = u64::from(u32::from(first.network().address()));
    if begin + step * u64::from(count) > 1 << 32 {
        return fail(format!("{count} prefixes from {first} on are more than there are addresses"));
    }
    let mut done: Vec<(Prefix4, Option<Route>)> = Vec::new();
    for number in 0..u64::from(count) {
        let prefix = Prefix4::new(((begin + step * number) as u32).into(), first.length())?;
        let was = before(router, prefix);
        match change(router, prefix) {
            Ok(()) => done.push((prefix, was)),
            Err(error) => {
                take_back(router, done);
                return Err(error.into());
            }
        }
    }
    reply(Done)
}

fn take_back(router: &mut Router, done: Vec<(Prefix4, Option<Route>)>) {
    for (prefix, was) in done.into_iter().rev() {
        let paths = was.and_then(|mut route| route.sources.remove(&Source::Config));
        let result = match paths {
            Some(paths) => router.add_route(prefix, Source::Config, paths, true),
            None => router.remove_route(prefix, Source::Config, &[]),
        };
        if let Err(error) = result {
            log::error!("route {prefix} is not as it was: {error}");
        }
    }
}

/// What a command says of paths. Those that are stated are checked, unless it says `offlink`.
fn paths(router: &Router, args: &Args, are_stated: bool) -> Result<Vec<Path>, CommandError> {
    let path = |path: &Args| {
        let named = |name: &str| path.optional_text(name).map(|name| router.interfaces.find(name)).transpose();
        let insist = path.optional_text("insist");
        let way = match path.text("way")? {
            // VPP's and Linux's words beside ours.
            "drop" | "blackhole" => Way::Drop,
            "punt" => Way::Punt,
            "unreachable" | "unreach" | "null-send-unreach" => Way::Unreachable,
            "prohibit" | "null-send-prohibit" => Way::Prohibit,
            "local" | "receive" => Way::LocalAnywhere,
            _ => match (path.optional::<Ipv4Addr>("hop")?, named("interface")?) {
                (Some(hop), None) if insist == Some("onlink") => {
                    return Err(Error::from(NextHopError::OnWhichLink { hop }).into());
                }
                (Some(next_hop), Some(interface)) if insist == Some("onlink") => Way::OnLink { next_hop, interface },
                (Some(next_hop), interface) => Way::Via { next_hop, interface },
                (None, _) => Way::Attached(router.interfaces.find(path.text("onto")?)?),
            },
        };
        let weight = path.optional("weight")?.unwrap_or(1);
        let path = Path { way, weight, preference: path.optional("preference")?.unwrap_or(0) };
        if are_stated {
            router.check_next_hop_of(&path, insist == Some("offlink"))?;
        }
        Ok(path)
    };
    args.groups("paths").map(path).collect()
}

fn show_fib(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    match args.optional_text("what") {
        Some("summary") => {
            let used = (0u8..).zip(*router.ip4.routes().lengths()).filter(|(_, count)| *count > 0);
            reply(Summary { lengths: used.map(|(length, count)| LengthCount { length, count }).collect() })
        }
        Some("memory") => reply(Memory { table: 0, bytes: router.ip4.memory().lookup + router.ip4.memory().prefixes }),
        Some(_) => {
            let found = match args.optional::<Prefix4>("prefix")? {
                Some(prefix) => {
                    let prefix = prefix.network();
                    router.ip4.routes().get(&prefix).map(|route| (prefix, route))
                }
                None => router.ip4.longest_match(args.parse("address")?),
            };
            match (found, args.optional::<Prefix4>("prefix")?) {
                (Some((prefix, route)), _) => {
                    reply(ShowFib { details: true, routes: vec![shown(router, &prefix, &route)] })
                }
                (None, Some(prefix)) => {
                    fail(format!("no route {prefix} (`show ip fib {}' shows the one that is taken)", prefix.address()))
                }
                (None, None) => fail("no route to this address"),
            }
        }
        None => {
            let routes = router.ip4.routes().iter().map(|(prefix, route)| shown(router, &prefix, &route)).collect();
            reply(ShowFib { details: args.flag("detail"), routes })
        }
    }
}

#[derive(Serialize)]
struct ShownPath {
    path: String,
    weight: u8,
    preference: u8,
    resolved: bool,
}

#[derive(Serialize)]
struct ShownSource {
    source: &'static str,
    paths: Vec<ShownPath>,
}

#[derive(Serialize)]
struct ShownBucket {
    first: usize,
    last: usize,
    to: String,
}

#[derive(Serialize)]
struct ShownRoute {
    prefix: String,
    sources: Vec<ShownSource>,
    object: u32,
    buckets: Vec<ShownBucket>,
}

fn shown_path(path: &Path, text: String, resolved: bool) -> ShownPath {
    ShownPath { path: text, weight: path.weight, preference: path.preference, resolved }
}

fn shown(router: &Router, prefix: &Prefix4, route: &Route) -> ShownRoute {
    let interface_name =
        |index| router.interfaces.get(index).map_or("?".to_string(), |interface| interface.name.clone());
    let is_up = |index| router.is_usable(index);
    let path = |path: &Path| {
        let (text, resolved) = match path.way {
            Way::Via { next_hop, interface } => {
                let leads = router.way_to_hop(next_hop, interface);
                let through = router.ip4.through(next_hop).filter(|_| leads.is_none() && interface.is_none());
                if let Some((prefix, leads)) = through {
                    return shown_path(path, format!("recursive: via {next_hop} in {prefix}"), leads);
                }
                let name = leads.or(interface).map_or_else(|| why_none(router, next_hop), interface_name);
                (format!("attached-nexthop: {next_hop} {name}"), leads.is_some())
            }
            Way::OnLink { next_hop, interface } => {
                let name = interface_name(interface);
                (format!("attached-nexthop: {next_hop} {name} cfg-flags:onlink"), is_up(interface))
            }
            Way::Attached(index) => (format!("attached: {}", interface_name(index)), is_up(index)),
            Way::Broadcast(index) => (format!("broadcast: {}", interface_name(index)), true),
            Way::Local(index) => (format!("receive: {}", interface_name(index)), is_up(index)),
            Way::LocalAnywhere => ("receive".into(), true),
            Way::Drop => ("special: cfg-flags:drop".into(), true),
            Way::Punt => ("special: cfg-flags:punt".into(), true),
            Way::Unreachable => ("special: cfg-flags:icmp-unreach".into(), true),
            Way::Prohibit => ("special: cfg-flags:icmp-prohibit".into(), true),
        };
        shown_path(path, text, resolved)
    };
    let sources = route
        .sources
        .iter()
        .map(|(source, paths)| ShownSource { source: source.name(), paths: paths.iter().map(path).collect() });
    let leaves: Vec<Leaf> = match route.installed {
        None => vec![],
        Some(leaf) => router.ip4.buckets(leaf).map_or(vec![leaf], <[Leaf]>::to_vec),
    };
    let mut buckets: Vec<ShownBucket> = Vec::new();
    let mut previous = None;
    for (at, leaf) in leaves.into_iter().enumerate() {
        if previous == Some(leaf) {
            buckets.last_mut().expect("there was a previous one").last = at;
        } else {
            buckets.push(ShownBucket { first: at, last: at, to: router.adjacency_text(leaf) });
            previous = Some(leaf);
        }
    }
    ShownRoute {
        prefix: prefix.to_string(),
        sources: sources.collect(),
        object: route.installed.map_or(0, Leaf::index),
        buckets,
    }
}

#[derive(Serialize)]
struct ShowFib {
    #[serde(skip)]
    details: bool,
    routes: Vec<ShownRoute>,
}

impl fmt::Display for ShowFib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ipv4-VRF:0, fib_index:0, flow hash:[src dst sport dport proto ]")?;
        for route in &self.routes {
            writeln!(f, "{}", route.prefix)?;
            if self.details {
                for source in &route.sources {
                    writeln!(f, "  {}", source.source)?;
                    for path in &source.paths {
                        let state = if path.resolved { "resolved" } else { "unresolved" };
                        writeln!(
                            f,
                            "    path: weight={} pref={} {} oper-flags:{state}",
                            path.weight, path.preference, path.path
                        )?;
                    }
                }
                writeln!(f, " forwarding:")?;
            }
            if route.buckets.is_empty() {
                writeln!(f, "  unresolved")?;
                continue;
            }
            writeln!(f, "  unicast-ip4-chain")?;
            let count = route.buckets.last().map_or(0, |bucket| bucket.last + 1);
            writeln!(f, "  [@0]: dpo-load-balance: [proto:ip4 index:{} buckets:{count}]", route.object)?;
            for bucket in &route.buckets {
                match bucket.last > bucket.first {
                    true => writeln!(f, "    [{}-{}] {}", bucket.first, bucket.last, bucket.to)?,
                    false => writeln!(f, "    [{}] {}", bucket.first, bucket.to)?,
                }
            }
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct LengthCount {
    length: u8,
    count: usize,
}

#[derive(Serialize)]
struct Summary {
    lengths: Vec<LengthCount>,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ipv4-VRF:0, fib_index:0, flow hash:[src dst sport dport proto ]")?;
        writeln!(f, "    Prefix length         Count     ")?;
        for LengthCount { length, count } in &self.lengths {
            writeln!(f, "{length:>20}{count:>16}")?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct Memory {
    table: u32,
    bytes: usize,
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "ipv4-VRF:{} bytes:{}", self.table, self.bytes)
    }
}

/// Why a next hop is not reached at present.
fn why_none(router: &Router, next_hop: Ipv4Addr) -> String {
    match router.attached_interface(next_hop) {
        Some(interface) if !interface.is_usable() => format!("({}: link or interface is down)", interface.name),
        _ => "(no attached network)".into(),
    }
}
