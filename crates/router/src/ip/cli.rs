//! Commands on IPv4 routes, as VPP has them.

use super::change::{RouteChange, StatedPath, Verb};
use super::next_hop::NextHopError;
use super::route::{Path, PathAction, Source, TableIndex};
use super::vrf::table;
use crate::ip::labels::words::{OUT_LABELS, out_labels};
use crate::table_index::word;
use crate::{Error, Router};
use command::{Args, Command, CommandError, CommandSet, Done, Reply, fail, reply};
use std::net::IpAddr;
use wire::{Family, Prefix};

/// In which table, and so many prefixes of one length side by side: what control does in a second or two. Files may
/// have more.
const WHERE: &str = "{{ [table <table:u32>] | [count <count:u32 1..1000000>] }}";

/// A path: a next hop with or without its interface, an interface alone, or what else
/// can be done with a packet.
const VIA: &str = "via {drop | blackhole | punt | local | receive | unreachable | unreach | null-send-unreach | \
 prohibit | null-send-prohibit | ip4-lookup-in-table <other:u32> | ip6-lookup-in-table <other6:u32> | <hop:ip> \
 [{next-hop-table <hop-table:u32> | <interface:interface>}] [{onlink | offlink : insist}] | <onto:interface> : way}";
/// What else is said of it.
const SHARE: &str = "[weight <weight:u32 1..255>] [preference <preference:u32 0..255>]";

/// Paths with words of VPP's for what resolves a next hop.
fn paths_of_vpp(how_many: &str) -> String {
    let via = VIA.replace("{onlink | offlink : insist}", &format!("{{onlink | offlink | {RESOLVED_BY} : insist}}"));
    format!("({via} {OUT_LABELS} {SHARE} : paths){how_many}")
}

const RESOLVED_BY: &str = "resolve-via-attached | resolve-via-connected | resolve-via-host";

/// A command on routes in the orders of words that VPP takes: `table` and `count` on either side of the prefix.
fn spelled_as_vpp(command: Command<Router>, path: &str, how_many: &str) -> Command<Router> {
    let paths = paths_of_vpp(how_many);
    command
        .also(&format!("{path} {WHERE} <prefix:prefix> {paths}"))
        .also(&format!("{path} <prefix:prefix> {WHERE} {paths}"))
        .also(&format!("{path} count <count:u32 1..1000000> <prefix:prefix> table <table:u32> {paths}"))
}

pub fn register(set: &mut CommandSet<Router>) {
    super::rules::register(set);
    set.section(
        "Routes",
        "The paths of a route share its traffic by weight and flow. A path leads to a next hop, to an attached \
         network (an interface alone), or ends: `drop` discards packets, `unreachable` answers with ICMP host \
         unreachable, `prohibit` with administratively prohibited, `local` delivers to the router itself, `punt` to \
         the host (`ip punt redirect`). A next hop on no attached network is resolved by the longest route to it, \
         except the default route. Of paths with different `preference`, the router uses those with the lowest \
         number of which at least one works. `count` adds as many consecutive prefixes.",
    );
    let add_paths = Command::new(
        &format!("ip route add {WHERE} <prefix:prefix> ({VIA} {OUT_LABELS} {SHARE} : paths)+"),
        "Add paths to a route.",
        |router: &mut Router, args: &Args| change_routes(router, args, Verb::Add),
    );
    let add_paths = spelled_as_vpp(spelled_as_vpp(add_paths, "ip route add", "+"), "ip route", "+");
    set.add(
        add_paths
            .configures()
            .example("ip route add 16.0.0.0/24 via 100.64.1.2")
            .example("ip route add 10.0.0.0/8 via 100.64.1.2 weight 3 via 100.64.2.2 e1")
            .example("ip route add 2000::/3 via 2001:db8:0:1::1")
            .example("ip route add 48.0.0.0/24 via 100.64.2.2 e1 out-labels 17 18")
            .example("ip route add 192.0.2.0/24 via drop"),
    );
    set.add(
        Command::new(
            &format!("ip route replace {WHERE} <prefix:prefix> ({VIA} {OUT_LABELS} {SHARE} : paths)+"),
            "Replace all paths of a route in one step. The route is added if it does not exist.",
            |router: &mut Router, args: &Args| change_routes(router, args, Verb::Replace),
        )
        .configures()
        .example("ip route replace 16.0.0.0/24 via 100.64.2.2"),
    );
    let take_paths = Command::new(
        &format!("ip route del {WHERE} <prefix:prefix> ({VIA} {OUT_LABELS} {SHARE} : paths)*"),
        "Remove paths from a route, or the whole route.",
        |router: &mut Router, args: &Args| change_routes(router, args, Verb::Remove),
    );
    set.add(spelled_as_vpp(take_paths, "ip route del", "*").configures().example("ip route del 16.0.0.0/24"));
    super::load::register(set);
    super::flow_hash::register(set);
    register_tables(set);
    register_accounts(set);
    super::show::register(set);
}

fn register_tables(set: &mut CommandSet<Router>) {
    set.section(
        "Routing tables",
        "Besides the default table 0 there can be others (VRFs), each with its own prefixes and interfaces. A route \
         leads from one table into another by `via NEXT-HOP next-hop-table N`, `via INTERFACE`, or `via \
         ip4-lookup-in-table N`. IPv6 has its own tables; tables of both families with the same number belong \
         together.",
    );
    for family in Family::ALL {
        let (word, name) = (word(family), name(family));
        set.add(
            change(
                &format!("{word} table add <table:u32>"),
                &format!("Create an {name} routing table."),
                move |router, id| router.add_table(family, id).map(drop),
            )
            .also(&format!("{word} table <table:u32>"))
            .example(&format!("{word} table add 10")),
        );
        set.add(
            change(
                &format!("{word} table del <table:u32>"),
                &format!("Remove an {name} routing table and its routes. No interface may belong to it."),
                move |router, id| router.remove_table(family, id),
            )
            .example(&format!("{word} table del 10")),
        );
        set.add(
            Command::new(
                &format!("set interface {word} table <interface:interface> <table:u32>"),
                &format!("Assign an interface to an {name} routing table. It must have no {name} address."),
                move |router: &mut Router, args: &Args| {
                    let index = router.interfaces.find(args.text("interface")?)?;
                    router.set_interface_table(index, family, table(router, family, args)?)?;
                    reply(Done)
                },
            )
            .configures()
            .example(&format!("set interface {word} table e0 10")),
        );
    }
}

fn change(
    words: &str,
    help: &str,
    change: impl Fn(&mut Router, u32) -> Result<(), Error> + Send + Sync + 'static,
) -> Command<Router> {
    Command::new(words, help, move |router: &mut Router, args: &Args| {
        change(router, args.parse("table")?)?;
        reply(Done)
    })
    .configures()
}

/// What texts call a family.
pub fn name(family: Family) -> &'static str {
    match family {
        Family::Ip4 => "IPv4",
        Family::Ip6 => "IPv6",
    }
}

fn register_accounts(set: &mut CommandSet<Router>) {
    for family in Family::ALL {
        let (word, name) = (word(family), name(family));
        set.add(
            Command::new(
                &format!("set {word} table max-routes {{<limit:u32 1..> | unlimited : value}} [table <table:u32>]"),
                &format!("Limit the number of prefixes of an {name} routing table. Prefixes that exist already stay."),
                move |router: &mut Router, args: &Args| {
                    let limit: Option<u32> = args.optional("limit")?;
                    router.limit_table(family, table(router, family, args)?, limit.map(|limit| limit as usize));
                    reply(Done)
                },
            )
            .configures()
            .example(&format!("set {word} table max-routes 1500000")),
        );
        let (prefix, example) = match family {
            Family::Ip4 => ("prefix4", "16.0.0.0/24"),
            Family::Ip6 => ("prefix6", "2001:db8::/32"),
        };
        set.add(
            Command::new(
                &format!(
                    "set {word} route counters <prefix:{prefix}> {{enable | disable : switch}} [table <table:u32>]"
                ),
                "Count the packets and bytes that use the route to exactly this prefix, whatever its paths.",
                move |router: &mut Router, args: &Args| {
                    let (prefix, table): (Prefix, _) = (args.parse("prefix")?, table(router, family, args)?);
                    router.count_route(table, prefix, args.text("switch")? == "enable")?;
                    reply(Done)
                },
            )
            .configures()
            .example(&format!("set {word} route counters {example} enable")),
        );
    }
    set.add(Command::new(
        "clear ip route counters",
        "Reset the counters of all routes of both families.",
        |router: &mut Router, _| {
            router.ip.clear_counts();
            reply(Done)
        },
    ));
}

/// Changes the operators' routes to as many prefixes as the command says, or none of them.
fn change_routes(router: &mut Router, args: &Args, verb: Verb) -> Result<Box<dyn Reply>, CommandError> {
    let (table, paths) = of_route(router, args)?;
    let (first, count) = (args.parse("prefix")?, args.optional("count")?.unwrap_or(1));
    router.state_routes(&RouteChange { verb, source: Source::Config, table, first, count, paths })?;
    reply(Done)
}

/// What a command says of a route: its table, and its paths.
fn of_route(router: &Router, args: &Args) -> Result<(TableIndex, Vec<StatedPath>), CommandError> {
    let prefix: Prefix = args.parse("prefix")?;
    let family = prefix.family();
    let table = table(router, family, args)?;
    let path = |path: &Args| {
        let named = |name: &str| path.optional_text(name).map(|name| router.interfaces.find(name)).transpose();
        let insist = path.optional_text("insist");
        let labels = out_labels(path)?;
        let way = match path.text("way")? {
            // VPP's and Linux's words beside ours.
            "drop" | "blackhole" => PathAction::Drop,
            "punt" => PathAction::Punt,
            "unreachable" | "unreach" | "null-send-unreach" => PathAction::Unreachable,
            "prohibit" | "null-send-prohibit" => PathAction::Prohibit,
            "local" | "receive" => PathAction::LocalAnywhere,
            "ip4-lookup-in-table" if family == Family::Ip4 => {
                PathAction::Lookup(router.find_table(family, path.parse("other")?)?)
            }
            "ip6-lookup-in-table" if family == Family::Ip6 => {
                PathAction::Lookup(router.find_table(family, path.parse("other6")?)?)
            }
            "ip4-lookup-in-table" | "ip6-lookup-in-table" => {
                return fail(format!("{prefix} is of the other family: it cannot be looked up in such a table"));
            }
            _ => match (path.optional::<IpAddr>("hop")?, named("interface")?) {
                (Some(_), None) if insist.is_some_and(|word| word.starts_with("resolve-via-")) => {
                    return fail(
                        "a next hop without its interface is reached as the longest route to it says, whatever that is \
                         (resolve-via-...): name the interface",
                    );
                }
                (Some(hop), None) if insist == Some("onlink") => {
                    return Err(Error::from(NextHopError::OnWhichLink { hop }).into());
                }
                (Some(next_hop), Some(interface)) if insist == Some("onlink") => {
                    PathAction::OnLink { next_hop, interface }
                }
                (Some(next_hop), None) if path.optional_text("hop-table").is_some() => {
                    let table = router.find_table(Family::of(next_hop), path.parse("hop-table")?)?;
                    PathAction::ViaIn { next_hop, table }
                }
                (Some(next_hop), interface) => PathAction::Via { next_hop, interface },
                (None, _) => PathAction::Attached(router.interfaces.find(path.text("onto")?)?),
            },
        };
        let weight = path.optional("weight")?.unwrap_or(1);
        let preference = path.optional("preference")?.unwrap_or(0);
        let path = Path { way, weight, preference, labels };
        Ok(StatedPath { path, may_be_off_link: insist == Some("offlink") })
    };
    Ok((table, args.groups("paths").map(path).collect::<Result<_, CommandError>>()?))
}
