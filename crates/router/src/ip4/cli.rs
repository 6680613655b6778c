//! Commands on IPv4 routes, as VPP has them.

use super::next_hop::NextHopError;
use super::route::{Path, Route, Source, TableIndex, Way};
use super::vrf::table;
use crate::{Error, Router};
use command::{Args, Command, CommandError, CommandSet, Done, Reply, fail, reply};
use std::net::Ipv4Addr;
use wire::Prefix4;

/// In which table, and so many prefixes of one length side by side: what control does in a second or two. Files may
/// have more.
const WHERE: &str = "{{ [table <table:u32>] | [count <count:u32 1..1000000>] }}";

/// A path: a next hop with or without its interface, an interface alone, or what else
/// can be done with a packet.
const VIA: &str = "via {drop | blackhole | punt | local | receive | unreachable | unreach | null-send-unreach | prohibit | null-send-prohibit | ip4-lookup-in-table <other:u32> | <hop:ip4> [{next-hop-table <hop-table:u32> | <interface:interface>}] [{onlink | offlink : insist}] | <onto:interface> : way} [weight <weight:u32 1..255>] [preference <preference:u32 0..255>]";

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
            &format!("ip route add {WHERE} <prefix:prefix4> ({VIA} : paths)+"),
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
            &format!("ip route replace {WHERE} <prefix:prefix4> ({VIA} : paths)+"),
            "Make these the only paths of a route, new or not, in one step.",
            |router: &mut Router, args: &Args| add(router, args, true),
        )
        .configures()
        .example("ip route replace 16.0.0.0/24 via 100.64.2.2"),
    );
    set.add(
        Command::new(
            &format!("ip route del {WHERE} <prefix:prefix4> ({VIA} : paths)*"),
            "Take paths off a route, or remove it.",
            |router: &mut Router, args: &Args| {
                let (table, paths) = (table(router, args)?, paths(router, args, false)?);
                change_each(router, args, table, |router, prefix| {
                    router.remove_route_in(table, prefix, Source::Config, &paths)
                })
            },
        )
        .configures()
        .example("ip route del 16.0.0.0/24"),
    );
    super::load::register(set);
    register_tables(set);
    register_accounts(set);
    super::show::register(set);
}

fn register_tables(set: &mut CommandSet<Router>) {
    set.section(
        "Routing tables",
        "Beside the default one, table 0: each with prefixes of its own, and the interfaces that belong to it (VRF). A route leads \
         from one into another by `via NEXT-HOP next-hop-table N', `via INTERFACE', or `via ip4-lookup-in-table N'.",
    );
    let change = |words: &str, help: &str, change: fn(&mut Router, u32) -> Result<(), Error>| {
        Command::new(words, help, move |router: &mut Router, args: &Args| {
            change(router, args.parse("table")?)?;
            reply(Done)
        })
        .configures()
    };
    set.add(
        change("ip table add <table:u32>", "Make a routing table.", |router, id| router.add_table(id).map(drop))
            .example("ip table add 10"),
    );
    set.add(
        change(
            "ip table del <table:u32>",
            "Remove a routing table to which no interface belongs, with its routes.",
            Router::remove_table,
        )
        .example("ip table del 10"),
    );
    set.add(
        Command::new(
            "set interface ip table <interface:interface> <table:u32>",
            "Have an interface without addresses belong to a routing table.",
            |router: &mut Router, args: &Args| {
                let index = router.interfaces.find(args.text("interface")?)?;
                router.set_interface_table(index, table(router, args)?)?;
                reply(Done)
            },
        )
        .configures()
        .example("set interface ip table e0 10"),
    );
}

fn register_accounts(set: &mut CommandSet<Router>) {
    set.add(
        Command::new(
            "set ip table max-routes {<limit:u32 1..> | unlimited : value} [table <table:u32>]",
            "Let operators and programs bring a routing table to so many prefixes at most. Those that are there stay.",
            |router: &mut Router, args: &Args| {
                let limit: Option<u32> = args.optional("limit")?;
                router.limit_table(table(router, args)?, limit.map(|limit| limit as usize));
                reply(Done)
            },
        )
        .configures()
        .example("set ip table max-routes 1500000"),
    );
    set.add(
        Command::new(
            "set ip route counters <prefix:prefix4> {enable | disable : switch} [table <table:u32>]",
            "Count the packets and bytes that take the route to exactly this prefix, whatever its paths become.",
            |router: &mut Router, args: &Args| {
                router.count_route(table(router, args)?, args.parse("prefix")?, args.text("switch")? == "enable")?;
                reply(Done)
            },
        )
        .configures()
        .example("set ip route counters 16.0.0.0/24 enable"),
    );
    set.add(Command::new(
        "clear ip route counters",
        "Have the counters of all routes read zero.",
        |router: &mut Router, _| {
            router.ip4.clear_counts();
            reply(Done)
        },
    ));
}

fn add(router: &mut Router, args: &Args, replace: bool) -> Result<Box<dyn Reply>, CommandError> {
    let (table, paths) = (table(router, args)?, paths(router, args, true)?);
    change_each(router, args, table, |router, prefix| {
        router.add_route_in(table, prefix, Source::Config, paths.clone(), replace)
    })
}

/// Changes the operators' routes to as many prefixes as the command says, or none of them.
fn change_each(
    router: &mut Router,
    args: &Args,
    table: TableIndex,
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
        let was = router.ip4.routes_in(table).get(&prefix);
        match change(router, prefix) {
            Ok(()) => done.push((prefix, was)),
            Err(error) => {
                take_back(router, table, done);
                return Err(error.into());
            }
        }
    }
    reply(Done)
}

fn take_back(router: &mut Router, table: TableIndex, done: Vec<(Prefix4, Option<Route>)>) {
    for (prefix, was) in done.into_iter().rev() {
        let paths = was.and_then(|mut route| route.sources.remove(&Source::Config));
        let result = match paths {
            Some(paths) => router.restore_route(table, prefix, Source::Config, paths),
            None => router.remove_route_in(table, prefix, Source::Config, &[]),
        };
        if let Err(error) = result {
            log::error!("route {prefix} is not as it was: {error}");
        }
    }
}

/// What a command says of paths. Those that are stated are checked, unless it says `offlink`.
fn paths(router: &Router, args: &Args, are_stated: bool) -> Result<Vec<Path>, CommandError> {
    let table = table(router, args)?;
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
            "ip4-lookup-in-table" => Way::Lookup(router.find_table(path.parse("other")?)?),
            _ => match (path.optional::<Ipv4Addr>("hop")?, named("interface")?) {
                (Some(hop), None) if insist == Some("onlink") => {
                    return Err(Error::from(NextHopError::OnWhichLink { hop }).into());
                }
                (Some(next_hop), Some(interface)) if insist == Some("onlink") => Way::OnLink { next_hop, interface },
                (Some(next_hop), None) if path.optional_text("hop-table").is_some() => {
                    Way::ViaIn { next_hop, table: router.find_table(path.parse("hop-table")?)? }
                }
                (Some(next_hop), interface) => Way::Via { next_hop, interface },
                (None, _) => Way::Attached(router.interfaces.find(path.text("onto")?)?),
            },
        };
        let weight = path.optional("weight")?.unwrap_or(1);
        let path = Path { way, weight, preference: path.optional("preference")?.unwrap_or(0) };
        if are_stated {
            router.check_next_hop_of(table, &path, insist == Some("offlink"))?;
        }
        Ok(path)
    };
    args.groups("paths").map(path).collect()
}
