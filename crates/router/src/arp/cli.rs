//! Commands on neighbours, as VPP has them.

use super::policy::{Policy, Range, Rates};
use crate::Router;
use crate::neighbour::NeighbourKey;
use crate::neighbour::control::{Limits, Neighbour, State};
use command::table::centred;
use command::{Args, Command, CommandError, CommandSet, Done, Reply, Text, fail, reply};
use graph::InterfaceIndex;
use serde::Serialize;
use std::fmt;
use wire::Family;

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "Neighbours",
        "Who is on the wire: learned by ARP or Neighbor Discovery, or told. Flags in listings: `S` static, `D` learned, `N` without a route of \
         its own, `A` aged and being asked again, `P` not answered yet, `F` did not answer. See [neighbours](neighbours.md).",
    );
    let paths = [
        ("ip neighbor", "ip", "100.64.1.2"),
        ("set ip neighbor", "ip", "100.64.1.2"),
        ("ip6 neighbor", "ip6", "2001:db8:0:1::1"),
        ("set ip6 neighbor", "ip6", "2001:db8:0:1::1"),
    ];
    for (path, kind, example) in paths {
        set.add(
            Command::new(
                &format!(
                    "{path} {{del <interface:interface> <address:{kind}> [<mac:mac>] | flush [<interface:interface>] | \
                     [static] <interface:interface> <address:{kind}> <mac:mac> {{{{ [static] | [no-fib-entry] }}}} : what}}"
                ),
                "Make a neighbour known, or forget it; or forget what was learned.",
                set_neighbour,
            )
            .configures()
            .example(&format!("{path} e0 {example} 50:7c:6f:20:30:70")),
        );
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
        set.add(Command::new(
            &format!("{path} [<interface:interface>]"),
            "The neighbours of interfaces.",
            move |router: &mut Router, args: &Args| show_neighbours(router, args, family, false),
        ));
    }
    for (family, word) in [(Family::Ip4, "ip4"), (Family::Ip6, "ip6")] {
        set.add(Command::new(
            &format!("show {word} neighbor-sorted"),
            "The neighbours of interfaces, the longest unheard first.",
            move |router: &mut Router, args: &Args| show_neighbours(router, args, Some(family), true),
        ));
    }
    set.add(
        Command::new(
            "clear ip neighbors [<interface:interface>]",
            "Forget the neighbours that were learned; static ones stay.",
            |router: &mut Router, args: &Args| flush(router, args.optional_text("interface")),
        )
        .example("clear ip neighbors e0"),
    );
    register_limits(set);
    register_proxy(set);
    register_conflicts(set);
    register_arping(set);
}

fn register_limits(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "set ip neighbor-config ip4 {default | {{ [limit <limit:u32 1..1000000>] | [age <age:u32>] | [recycle] | \
             [norecycle] | [interface-limit <each:u32 1..1000000>] }} : what}",
            "Set how many neighbours there may be, in all and on one interface; after how many seconds one that is not heard \
             of is asked again (0: never); and whether, when there are too many, the one longest unheard makes room.",
            |router: &mut Router, args: &Args| {
                let now = router.neighbours.limits();
                let limits = match args.optional_text("what") {
                    Some("default") => Limits::default(),
                    _ => Limits {
                        limit: args.optional("limit")?.unwrap_or(now.limit),
                        interface_limit: args.optional("each")?.unwrap_or(now.interface_limit),
                        age: args.optional("age")?.unwrap_or(now.age),
                        recycle: !args.flag("norecycle") && (args.flag("recycle") || now.recycle),
                    },
                };
                if args.flag("recycle") && args.flag("norecycle") {
                    return fail("either recycle or norecycle");
                }
                router.set_neighbour_limits(limits)?;
                reply(Done)
            },
        )
        .configures()
        .example("set ip neighbor-config ip4 limit 20000 age 600 recycle"),
    );
    set.add(Command::new(
        "show ip neighbor-config",
        "The limits of neighbours, the rates of ARP, and how often they were met.",
        |router: &mut Router, _: &Args| {
            let neighbours = &router.neighbours;
            let Limits { limit, interface_limit, age, recycle } = neighbours.limits();
            let Policy { rates, accepts_unknown, .. } = *neighbours.policy();
            reply(ShowConfig {
                limit,
                interface_limit,
                age,
                recycle,
                requests: rates.requests,
                replies: rates.replies,
                learning: rates.learning,
                accept: accepts_unknown,
                refused: neighbours.refused,
                recycled: neighbours.recycled,
            })
        },
    ));
    set.add(
        Command::new(
            "set arp rate {default | {{ [requests <requests:u32 1..1000000>] | [replies <replies:u32 1..1000000>] | \
             [learning <learning:u32 1..1000000>] }} : what}",
            "Set what ARP may do a second on each interface: neighbours to begin to ask for, answers to give, news to learn.",
            |router: &mut Router, args: &Args| {
                let now = router.neighbours.policy().rates;
                let rates = match args.optional_text("what") {
                    Some("default") => Rates::default(),
                    _ => Rates {
                        requests: args.optional("requests")?.unwrap_or(now.requests),
                        replies: args.optional("replies")?.unwrap_or(now.replies),
                        learning: args.optional("learning")?.unwrap_or(now.learning),
                    },
                };
                router.set_arp_rates(rates);
                reply(Done)
            },
        )
        .configures()
        .example("set arp rate requests 200"),
    );
    set.add(
        Command::new(
            "set arp accept {enable|disable : state}",
            "Learn the neighbours that announce themselves, or only those that were asked for or ask for us (the default).",
            |router: &mut Router, args: &Args| {
                router.set_arp_accept(args.text("state")? == "enable");
                reply(Done)
            },
        )
        .configures(),
    );
}

fn register_proxy(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "set arp proxy {{ [del] | [table-id <table:u32>] | start <start:ip4> | end <end:ip4> }}",
            "Addresses that are answered for on interfaces with proxy ARP, as far as they are routed elsewhere (RFC 1027).",
            |router: &mut Router, args: &Args| {
                if let Some(table @ 1..) = args.optional::<u32>("table")? {
                    return fail(format!("no such table: {table} (there is only 0)"));
                }
                let range = Range { start: args.parse("start")?, end: args.parse("end")? };
                match args.flag("del") {
                    false => router.add_proxied(range)?,
                    true => router.remove_proxied(range)?,
                }
                reply(Done)
            },
        )
        .configures()
        .example("set arp proxy start 100.64.1.10 end 100.64.1.20")
        .example("set arp proxy del start 100.64.1.10 end 100.64.1.20"),
    );
    set.add(
        Command::new(
            "set interface proxy-arp <interface:interface> {enable|on|disable|off : state}",
            "Answer ARP requests for the addresses of `set arp proxy' on an interface, or not.",
            |router: &mut Router, args: &Args| {
                let index = router.interfaces.find(args.text("interface")?)?;
                router.set_proxy_arp(index, matches!(args.text("state")?, "enable" | "on"))?;
                reply(Done)
            },
        )
        .configures()
        .example("set interface proxy-arp e0 enable"),
    );
    set.add(Command::new(
        "show arp proxy",
        "Addresses that are answered for, and the interfaces on which they are.",
        |router: &mut Router, _: &Args| {
            let ranges = router.neighbours.policy().proxied.iter();
            let ranges = ranges.map(|range| ShownRange { start: range.start.to_string(), end: range.end.to_string() });
            let interfaces = router.interfaces.iter().filter(|interface| interface.proxy_arp);
            let interfaces = interfaces.map(|interface| interface.name.clone()).collect();
            reply(ShowProxy { ranges: ranges.collect(), interfaces })
        },
    ));
}

fn register_conflicts(set: &mut CommandSet<Router>) {
    set.add(Command::new(
        "show arp conflicts",
        "Stations that claimed an address of ours, and how often it was defended (RFC 5227).",
        |router: &mut Router, _: &Args| {
            let conflicts = router.neighbours.conflicts().map(|(key, conflict)| ShownConflict {
                age: conflict.last.elapsed().as_secs_f64(),
                ip: key.address.to_string(),
                mac: conflict.mac.to_string(),
                defended: conflict.defended,
                interface: name_of(router, key.interface),
            });
            reply(ShowConflicts { conflicts: conflicts.collect() })
        },
    ));
    set.add(Command::new(
        "clear arp conflicts",
        "Forget the conflicts seen so far.",
        |router: &mut Router, _: &Args| {
            router.clear_conflicts();
            reply(Done)
        },
    ));
}

fn register_arping(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "arping gratuitous <address:ip4> <interface:interface>",
            "Announce an address on an interface, so that hosts that knew it elsewhere find us.",
            |router: &mut Router, args: &Args| {
                let index = router.interfaces.find(args.text("interface")?)?;
                let interface = router.interfaces.get(index)?;
                if !interface.admin_up {
                    return fail(format!("{0} is down: `set interface state {0} up' first", interface.name));
                }
                let address = args.parse("address")?;
                router.announce(index, address);
                reply(Text(format!("Sending 1 GARP to {address}\n")))
            },
        )
        .example("arping gratuitous 100.64.1.1 e0"),
    );
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

fn name_of(router: &Router, interface: InterfaceIndex) -> String {
    router.interfaces.get(interface).map_or("?".into(), |interface| interface.name.clone())
}

fn show_neighbours(
    router: &mut Router,
    args: &Args,
    family: Option<Family>,
    by_age: bool,
) -> Result<Box<dyn Reply>, CommandError> {
    let only = args.optional_text("interface").map(|name| router.interfaces.find(name)).transpose()?;
    let neighbours = &router.neighbours;
    let of_family = |(key, _): &(&NeighbourKey, &Neighbour)| family.is_none_or(|family| key.family() == family);
    let shown = |(key, neighbour): (&NeighbourKey, &Neighbour)| {
        let (state, mac) = match neighbour.state {
            State::Known { mac, is_static: true } => ("S", mac.to_string()),
            State::Known { mac, .. } => ("D", mac.to_string()),
            State::Probing { mac, .. } => ("D", mac.to_string()),
            State::Incomplete { .. } => ("P", "incomplete".into()),
            State::Silent => ("F", "no answer".into()),
        };
        let no_fib = if neighbour.no_fib_entry { "N" } else { "" };
        let aged = if matches!(neighbour.state, State::Probing { .. }) { "A" } else { "" };
        ShownNeighbour {
            age: neighbours.age(key, neighbour).as_secs_f64(),
            ip: key.address.to_string(),
            flags: format!("{state}{no_fib}{aged}"),
            mac,
            interface: name_of(router, key.interface),
        }
    };
    let mut neighbors: Vec<ShownNeighbour> = match only {
        Some(interface) => neighbours.of_interface(interface).filter(of_family).map(shown).collect(),
        None => neighbours.iter().filter(of_family).map(shown).collect(),
    };
    if by_age {
        neighbors.sort_by(|a, b| b.age.total_cmp(&a.age));
    }
    reply(ShowNeighbours { neighbors })
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
    neighbors: Vec<ShownNeighbour>,
}

impl fmt::Display for ShowNeighbours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // VPP's columns, to the space.
        writeln!(
            f,
            "     Age                       IP                    Flags      Ethernet              Interface       "
        )?;
        for n in &self.neighbors {
            let (ip, flags, mac) = (centred(&n.ip, 40), centred(&n.flags, 6), centred(&n.mac, 20));
            writeln!(f, "{:>12.4}{ip}{flags}{mac}{}", n.age, n.interface)?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct ShowConfig {
    limit: u32,
    interface_limit: u32,
    age: u32,
    recycle: bool,
    requests: u32,
    replies: u32,
    learning: u32,
    accept: bool,
    refused: u64,
    recycled: u64,
}

impl fmt::Display for ShowConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The first two lines are VPP's.
        writeln!(f, "ip4:")?;
        writeln!(f, "  limit:{}, age:{}, recycle:{}", self.limit, self.age, self.recycle as u8)?;
        writeln!(f, "  interface-limit:{}, accept:{}", self.interface_limit, self.accept as u8)?;
        let (requests, replies, learning) = (self.requests, self.replies, self.learning);
        writeln!(f, "  a second on an interface: requests:{requests}, replies:{replies}, learning:{learning}")?;
        writeln!(f, "  so far: refused:{}, recycled:{}", self.refused, self.recycled)
    }
}

#[derive(Serialize)]
struct ShownRange {
    start: String,
    end: String,
}

#[derive(Serialize)]
struct ShowProxy {
    ranges: Vec<ShownRange>,
    interfaces: Vec<String>,
}

impl fmt::Display for ShowProxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // VPP's lines, but for the last.
        let none = if self.ranges.is_empty() { " nothing" } else { "" };
        writeln!(f, "Proxy arps enabled for:{none}")?;
        for range in &self.ranges {
            writeln!(f, "Fib_index 0   {} - {} ", range.start, range.end)?;
        }
        if !self.interfaces.is_empty() {
            writeln!(f, "On: {}", self.interfaces.join(", "))?;
        }
        Ok(())
    }
}

#[derive(Serialize)]
struct ShownConflict {
    /// Seconds since it was seen last.
    age: f64,
    ip: String,
    mac: String,
    /// How often we announced the address because of it.
    defended: u32,
    interface: String,
}

#[derive(Serialize)]
struct ShowConflicts {
    conflicts: Vec<ShownConflict>,
}

impl fmt::Display for ShowConflicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (age, ip, mac) = (centred("Age", 12), centred("IP", 20), centred("Ethernet", 20));
        writeln!(f, "{age}{ip}{mac}{}Interface", centred("Defended", 10))?;
        for c in &self.conflicts {
            let (ip, mac, defended) = (centred(&c.ip, 20), centred(&c.mac, 20), centred(&c.defended.to_string(), 10));
            writeln!(f, "{:>12.4}{ip}{mac}{defended}{}", c.age, c.interface)?;
        }
        Ok(())
    }
}
