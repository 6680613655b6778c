//! Commands on neighbours, as VPP has them.

use super::NeighbourKey;
use super::known::{Limits, MAX_LIMIT, Met, Neighbour, State};
use super::policy::{MAX_RATE, Rates};
use super::reachability::MAX_REACHABLE;
use crate::Router;
use crate::listing::{Listing, PAGE, Pages};
use command::table::centred;
use command::{Args, Command, CommandError, CommandSet, Done, Reply, fail, reply};
use graph::InterfaceIndex;
use serde::Serialize;
use std::fmt;
use wire::Family;

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "Neighbours",
        "The hosts and routers on each link: learned by ARP or Neighbor Discovery, or static. Flags in listings: `S` \
         static, `D` learned, `N` without a route of its own, `O` stale, `W` stale and in use (asked soon), `A` \
         being probed, `P` incomplete (no answer yet), `F` failed (no answer). See [neighbours](neighbours.md).",
    );
    let paths = [
        ("ip neighbor", "ip", "100.64.1.2"),
        ("set ip neighbor", "ip", "100.64.1.2"),
        ("ip6 neighbor", "ip6", "2001:db8:0:1::1"),
        ("set ip6 neighbor", "ip6", "2001:db8:0:1::1"),
    ];
    for (path, kind, example) in paths {
        let body = |path: &str| {
            format!(
                "{path} {{del <interface:interface> <address:{kind}> [<mac:mac>] | flush [<interface:interface>] | \
                     [static] <interface:interface> <address:{kind}> <mac:mac> {{{{ [static] | [no-fib-entry] }}}} \
                     : what}}"
            )
        };
        let mut command =
            Command::new(&body(path), "Add or remove a neighbour; or flush the learned ones.", set_neighbour);
        if path == "set ip neighbor" {
            command = command.also(&body("set ip arp")); // until VPP 19.08
        }
        set.add(command.configures().example(&format!("{path} e0 {example} 50:7c:6f:20:30:70")));
    }
    let paths = [
        ("show ip neighbors", None),
        ("show ip neighbor", None),
        ("show ip4 neighbors", Some(Family::Ip4)),
        ("show ip4 neighbor", Some(Family::Ip4)),
        ("show arp", Some(Family::Ip4)),
        ("show ip6 neighbors", Some(Family::Ip6)),
        ("show ip6 neighbor", Some(Family::Ip6)),
    ];
    for (path, family) in paths {
        let mut command = Command::new(
            &format!("{path} [<interface:interface>]"),
            "Show the neighbours of interfaces.",
            move |router: &mut Router, args: &Args| show_neighbours(router, args, family, false),
        );
        if path == "show arp" {
            command = command.also("show ip arp [<interface:interface>]");
        }
        set.add(command);
    }
    for (family, word) in [(Family::Ip4, "ip4"), (Family::Ip6, "ip6")] {
        set.add(Command::new(
            &format!("show {word} neighbor-sorted"),
            "Show the neighbours of interfaces, the oldest first.",
            move |router: &mut Router, args: &Args| show_neighbours(router, args, Some(family), true),
        ));
    }
    set.add(
        Command::new(
            "clear ip neighbors [<interface:interface>]",
            "Remove learned neighbours. Static ones stay.",
            |router: &mut Router, args: &Args| flush(router, args.optional_text("interface")),
        )
        .example("clear ip neighbors e0"),
    );
    register_limits(set);
    register_rates(set);
}

fn register_limits(set: &mut CommandSet<Router>) {
    for (family, word) in [(Family::Ip4, "ip4"), (Family::Ip6, "ip6")] {
        let path = format!("set ip neighbor-config {word}");
        let (reachable, doubt) = match family {
            Family::Ip4 => (String::new(), ""),
            Family::Ip6 => (
                format!("[reachable-time <reachable:u32 0..{MAX_REACHABLE}>] | "),
                "the time for which it counts as reachable after an answer (0: as long as `age`), ",
            ),
        };
        set.add(
            Command::new(
                &format!(
                    "{path} {{default | {{{{ [limit <limit:u32 1..{MAX_LIMIT}>] | [age <age:u32>] | \
                     {reachable}[recycle] | [norecycle] | \
                     [interface-limit <each:u32 1..{MAX_LIMIT}>] }}}} : what}}"
                ),
                &format!(
                    "Limit the number of neighbours, in all and on each interface. Set the age in seconds after \
                     which a \
                     silent neighbour is probed (0: never), {doubt}and whether the oldest neighbour is recycled \
                     when the \
                     limit is reached."
                ),
                move |router: &mut Router, args: &Args| set_limits(router, args, family),
            )
            .configures()
            .example(&format!("{path} limit 20000 age 600 recycle")),
        );
    }
    set.add(Command::new(
        "show ip neighbor-config",
        "Show the limits of neighbours, the rates of ARP and Neighbor Discovery, and how often they were reached.",
        |router: &mut Router, _: &Args| {
            let neighbours = &router.neighbours;
            let of_family = |family: Family| {
                let Limits { limit, interface_limit, age, reachable, recycle } = neighbours.limits(family);
                let Met { refused, recycled } = neighbours.met(family);
                let Rates { requests, replies, learning } = neighbours.policy().rates[family];
                let accept = (family == Family::Ip4).then_some(neighbours.policy().accepts_unknown);
                ShownConfig {
                    limit,
                    interface_limit,
                    age,
                    reachable: (family == Family::Ip6).then_some(reachable),
                    recycle,
                    requests,
                    replies,
                    learning,
                    accept,
                    refused,
                    recycled,
                }
            };
            reply(ShowConfig { ip4: of_family(Family::Ip4), ip6: of_family(Family::Ip6) })
        },
    ));
}

fn set_limits(router: &mut Router, args: &Args, family: Family) -> Result<Box<dyn Reply>, CommandError> {
    let now = router.neighbours.limits(family);
    let limits = match args.optional_text("what") {
        Some("default") => Limits::of(family),
        _ => Limits {
            limit: args.optional("limit")?.unwrap_or(now.limit),
            interface_limit: args.optional("each")?.unwrap_or(now.interface_limit),
            age: args.optional("age")?.unwrap_or(now.age),
            reachable: args.optional("reachable")?.unwrap_or(now.reachable),
            recycle: !args.flag("norecycle") && (args.flag("recycle") || now.recycle),
        },
    };
    if args.flag("recycle") && args.flag("norecycle") {
        return fail("either recycle or norecycle");
    }
    router.set_neighbour_limits(family, limits)?;
    reply(Done)
}

fn register_rates(set: &mut CommandSet<Router>) {
    for (family, path, name) in
        [(Family::Ip4, "set arp rate", "ARP"), (Family::Ip6, "set ip6 nd rate", "Neighbor Discovery")]
    {
        set.add(
            Command::new(
                &format!(
                    "{path} {{default | {{{{ [requests <requests:u32 1..{MAX_RATE}>] | [replies <replies:u32 \
                     1..{MAX_RATE}>] | \
                     [learning <learning:u32 1..{MAX_RATE}>] }}}} : what}}"
                ),
                &format!(
                    "Limit {name} on each interface, per second: new neighbours to ask for, replies to send, \
                     changes to \
                     learn."
                ),
                move |router: &mut Router, args: &Args| {
                    let now = router.neighbours.policy().rates[family];
                    let rates = match args.optional_text("what") {
                        Some("default") => Rates::default(),
                        _ => Rates {
                            requests: args.optional("requests")?.unwrap_or(now.requests),
                            replies: args.optional("replies")?.unwrap_or(now.replies),
                            learning: args.optional("learning")?.unwrap_or(now.learning),
                        },
                    };
                    router.set_neighbour_rates(family, rates);
                    reply(Done)
                },
            )
            .configures()
            .example(&format!("{path} requests 200")),
        );
    }
}

fn set_neighbour(router: &mut Router, args: &Args) -> Result<Box<dyn Reply>, CommandError> {
    let what = args.text("what")?;
    if what == "flush" {
        return flush(router, args.optional_text("interface"));
    }
    let interface = router.interfaces.find(args.text("interface")?)?;
    let key = NeighbourKey { interface, address: args.parse("address")? };
    if what == "del" {
        router.remove_neighbour(key)?;
    } else {
        router.set_static_neighbour(key, args.parse("mac")?, args.flag("no-fib-entry"))?;
    }
    reply(Done)
}

fn flush(router: &mut Router, interface: Option<&str>) -> Result<Box<dyn Reply>, CommandError> {
    let interface = interface.map(|name| router.interfaces.find(name)).transpose()?;
    router.flush_learned(interface);
    reply(Done)
}

pub fn name_of(router: &Router, interface: InterfaceIndex) -> String {
    router.interfaces.get(interface).map_or("?".into(), |interface| interface.name.clone())
}

fn show_neighbours(
    router: &mut Router,
    args: &Args,
    family: Option<Family>,
    by_age: bool,
) -> Result<Box<dyn Reply>, CommandError> {
    let only = args.optional_text("interface").map(|name| router.interfaces.find(name)).transpose()?;
    let neighbors = if by_age {
        let mut all: Vec<ShownNeighbour> = Vec::new();
        let mut pages = NeighbourPages { family, only, last: None };
        while let Some(page) = pages.next(router) {
            all.extend(page);
        }
        all.sort_by(|a, b| b.age.total_cmp(&a.age));
        Listing::Whole(all)
    } else {
        Listing::new(router, move || NeighbourPages { family, only, last: None })
    };
    reply(ShowNeighbours { neighbors })
}

/// Neighbours, page by page.
struct NeighbourPages {
    family: Option<Family>,
    only: Option<InterfaceIndex>,
    /// Behind which to go on.
    last: Option<NeighbourKey>,
}

impl Pages for NeighbourPages {
    type Entry = ShownNeighbour;

    fn next(&mut self, router: &Router) -> Option<Vec<ShownNeighbour>> {
        let page: Vec<_> = router.neighbours.behind(self.last, self.only).take(PAGE).collect();
        self.last = Some(*page.last()?.0);
        let wanted = page.into_iter().filter(|(key, _)| self.family.is_none_or(|family| key.family() == family));
        Some(wanted.map(|(key, neighbour)| shown(router, key, neighbour)).collect())
    }
}

fn shown(router: &Router, key: &NeighbourKey, neighbour: &Neighbour) -> ShownNeighbour {
    let (state, mac) = match neighbour.state {
        State::Known { mac, is_static: true } => ("S", mac.to_string()),
        State::Known { mac, .. } | State::Stale { mac } | State::Delay { mac } | State::Probing { mac, .. } => {
            ("D", mac.to_string())
        }
        State::Incomplete { .. } => ("P", "incomplete".into()),
        State::Silent => ("F", "no answer".into()),
    };
    let no_fib = if neighbour.no_fib_entry { "N" } else { "" };
    let doubt = match neighbour.state {
        State::Stale { .. } => "O",
        State::Delay { .. } => "W",
        State::Probing { .. } => "A",
        _ => "",
    };
    ShownNeighbour {
        age: router.neighbours.age(key, neighbour).as_secs_f64(),
        ip: key.address.to_string(),
        flags: format!("{state}{no_fib}{doubt}"),
        mac,
        interface: name_of(router, key.interface),
    }
}

#[derive(Serialize)]
struct ShownNeighbour {
    /// Seconds since it was last heard of, or made known.
    age: f64,
    ip: String,
    flags: String,
    mac: String,
    interface: String,
}

#[derive(Serialize)]
struct ShowNeighbours {
    neighbors: Listing<NeighbourPages>,
}

impl fmt::Display for ShowNeighbours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // VPP's columns, to the space.
        writeln!(
            f,
            "     Age                       IP                    Flags      Ethernet              Interface       "
        )?;
        self.neighbors.try_each(|n| {
            let (ip, flags, mac) = (centred(&n.ip, 40), centred(&n.flags, 6), centred(&n.mac, 20));
            writeln!(f, "{:>12.4}{ip}{flags}{mac}{}", n.age, n.interface)
        })
    }
}

#[derive(Serialize)]
struct ShownConfig {
    limit: u32,
    interface_limit: u32,
    age: u32,
    /// Of Neighbor Discovery.
    #[serde(skip_serializing_if = "Option::is_none")]
    reachable: Option<u32>,
    recycle: bool,
    requests: u32,
    replies: u32,
    learning: u32,
    /// Of ARP.
    #[serde(skip_serializing_if = "Option::is_none")]
    accept: Option<bool>,
    refused: u64,
    recycled: u64,
}

#[derive(Serialize)]
struct ShowConfig {
    ip4: ShownConfig,
    ip6: ShownConfig,
}

impl fmt::Display for ShowConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, of) in [("ip4", &self.ip4), ("ip6", &self.ip6)] {
            // The first two lines are VPP's.
            writeln!(f, "{name}:")?;
            writeln!(f, "  limit:{}, age:{}, recycle:{}", of.limit, of.age, of.recycle as u8)?;
            write!(f, "  interface-limit:{}", of.interface_limit)?;
            of.accept.map_or(Ok(()), |accept| write!(f, ", accept:{}", accept as u8))?;
            of.reachable.map_or(Ok(()), |seconds| write!(f, ", reachable-time:{seconds}"))?;
            let ShownConfig { requests, replies, learning, .. } = of;
            writeln!(f, "\n  a second on an interface: requests:{requests}, replies:{replies}, learning:{learning}")?;
            writeln!(f, "  so far: refused:{}, recycled:{}", of.refused, of.recycled)?;
        }
        Ok(())
    }
}
