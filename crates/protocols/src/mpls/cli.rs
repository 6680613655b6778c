//! Commands on MPLS, as VPP has them.

use super::tunnel;
use command::{Args, Command, CommandError, CommandSet, Done, Text, fail, reply};
use router::ip::change::{StatedPath, Verb, paths_of};
use router::ip::control::{LabelTableIndex, Path, PathAction, Source};
use router::ip::labels::change::{LabelChange, Place};
use router::ip::labels::words::{OUT_LABELS, out_labels};
use router::ip::next_hop::NextHopError;
use router::{Error, Router};
use std::net::IpAddr;
use wire::Family;

/// How flows are shared out among paths, and which go before others.
const SHARE: &str = "[weight <weight:u32 1..255>] [preference <preference:u32 0..255>]";

/// In which table, and how many labels side by side.
const WHERE: &str = "{{ [table <table:u32>] | [count <count:u32 1..1048560>] }}";
/// Which labels: at the bottom of stacks, above others, or both.
const WHICH: &str = "[{eos | non-eos : before}] <label:u32 0..1048575> [{eos | non-eos : behind}]";
/// What is done with them.
const PATH: &str = "{via {drop | blackhole | ip4-lookup-in-table <other:u32> | ip6-lookup-in-table <other6:u32> | \
 mpls-lookup-in-table <labels:u32> | <hop:ip> [{next-hop-table <hop-table:u32> | <interface:interface>}] [{onlink | \
 offlink : insist}] | <onto:interface> : way} | ip4-lookup-in-table <alone:u32> | ip6-lookup-in-table <alone6:u32> \
 | mpls-lookup-in-table <labels-alone:u32> : how}";

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "MPLS",
        "Received labels are looked up in an MPLS table (create it first: `mpls table add 0`), on interfaces with \
         MPLS enabled. A label can have different paths at the bottom of the stack (`eos`) and above other labels \
         (`non-eos`); without either word a command means both. A path without `out-labels` removes the label: the \
         packet inside goes to the next hop, or is looked up in a table. With `out-labels`, the last of them \
         replaces the label, and the others are pushed on top. Routes push labels with the same words. `uniform` \
         copies TTL and traffic class between the labels and the packet inside (RFC 3443); otherwise labels have \
         their own `ttl` (64) and `exp` (0).",
    );
    set.add(
        table("mpls table add <table:u32>", "Create an MPLS table. Packets are looked up in table 0.", |router, id| {
            router.add_label_table(id).map(drop)
        })
        .also("mpls table <table:u32>")
        .example("mpls table add 0"),
    );
    set.add(
        table("mpls table del <table:u32>", "Remove an MPLS table and its labels.", Router::remove_label_table)
            .example("mpls table del 0"),
    );
    set.add(
        Command::new(
            "set interface mpls <interface:interface> {enable | disable : switch}",
            "Enable MPLS on an interface: accept the labelled packets that it receives. Or drop them.",
            |router: &mut Router, args: &Args| {
                let index = router.interfaces.find(args.text("interface")?)?;
                router.set_mpls(index, args.text("switch")? == "enable")?;
                reply(Done)
            },
        )
        .configures()
        .example("set interface mpls e0 enable"),
    );
    set.add(
        Command::new(
            &format!("mpls local-label add {WHERE} {WHICH} ({PATH} {OUT_LABELS} {SHARE} : paths)+"),
            "Add a label with its paths, or add paths to a label.",
            |router: &mut Router, args: &Args| change(router, args, Verb::Add),
        )
        .also(&format!("mpls local-label {WHERE} {WHICH} ({PATH} {OUT_LABELS} {SHARE} : paths)+"))
        .configures()
        .example("mpls local-label add 16 eos via 100.64.2.2 e1 out-labels 17")
        .example("mpls local-label add 16 eos via 100.64.2.2 e1")
        .example("mpls local-label add 100 eos via ip4-lookup-in-table 10"),
    );
    set.add(
        Command::new(
            &format!("mpls local-label replace {WHERE} {WHICH} ({PATH} {OUT_LABELS} {SHARE} : paths)+"),
            "Replace all paths of a label in one step. The label is added if it does not exist.",
            |router: &mut Router, args: &Args| change(router, args, Verb::Replace),
        )
        .configures()
        .example("mpls local-label replace 16 eos via 100.64.1.2 e0 out-labels 18"),
    );
    set.add(
        Command::new(
            &format!("mpls local-label del {WHERE} {WHICH} ({PATH} {OUT_LABELS} : paths)*"),
            "Remove paths from a label, or the whole label.",
            |router: &mut Router, args: &Args| change(router, args, Verb::Remove),
        )
        .configures()
        .example("mpls local-label del 16 eos"),
    );
    register_tunnels(set);
    super::show::register(set);
}

fn register_tunnels(set: &mut CommandSet<Router>) {
    set.section(
        "MPLS tunnels",
        "An MPLS tunnel is an interface that leads into a label-switched path. `ip route add ... via mpls-tunnel0` \
         sends packets of either family into it.",
    );
    set.add(
        Command::new(
            &format!("mpls tunnel add [<tunnel:interface>] ({PATH} {OUT_LABELS} {SHARE} : paths)*"),
            "Create an MPLS tunnel over paths with labels, or add paths to one.",
            |router: &mut Router, args: &Args| {
                let (name, paths) = (args.optional_text("tunnel"), checked_paths(router, args)?);
                if let Some(index) = name.and_then(|name| router.interfaces.find(name).ok()) {
                    tunnel::add_tunnel_paths(router, index, paths, false)?;
                    return reply(Done);
                }
                let index = tunnel::add_tunnel(router, name, paths)?;
                reply(Text(format!("{}\n", router.interfaces.get(index)?.name)))
            },
        )
        .also(&format!("mpls tunnel ({PATH} {OUT_LABELS} {SHARE} : paths)+"))
        .configures()
        .example("mpls tunnel add via 100.64.2.2 e1 out-labels 17 18"),
    );
    set.add(
        Command::new(
            &format!("mpls tunnel replace <tunnel:interface> ({PATH} {OUT_LABELS} {SHARE} : paths)*"),
            "Replace all paths of an MPLS tunnel in one step.",
            |router: &mut Router, args: &Args| {
                let (index, paths) = (router.interfaces.find(args.text("tunnel")?)?, checked_paths(router, args)?);
                tunnel::add_tunnel_paths(router, index, paths, true)?;
                reply(Done)
            },
        )
        .configures()
        .example("mpls tunnel replace mpls-tunnel0 via 100.64.1.2 e0 out-labels 19"),
    );
    set.add(
        Command::new(
            &format!("mpls tunnel del <tunnel:interface> ({PATH} {OUT_LABELS} : paths)*"),
            "Remove paths from an MPLS tunnel, or the whole tunnel.",
            |router: &mut Router, args: &Args| {
                let (index, paths) = (router.interfaces.find(args.text("tunnel")?)?, paths_of(&paths(router, args)?));
                tunnel::tunnel_paths(router, index)?;
                match paths.is_empty() {
                    true => router.delete_interface(index)?,
                    false => tunnel::remove_tunnel_paths(router, index, &paths)?,
                }
                reply(Done)
            },
        )
        .configures()
        .example("mpls tunnel del mpls-tunnel0"),
    );
}

fn table(
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

/// The table that a command is about.
fn table_of(router: &Router, args: &Args) -> Result<LabelTableIndex, CommandError> {
    Ok(router.find_label_table(args.optional("table")?.unwrap_or(0))?)
}

/// Changes the operators' labels as the command says.
fn change(router: &mut Router, args: &Args, verb: Verb) -> Result<Box<dyn command::Reply>, CommandError> {
    let table = table_of(router, args)?;
    let paths = paths(router, args)?;
    let (first, count) = (args.parse("label")?, args.optional("count")?.unwrap_or(1));
    let place = match (args.optional_text("before"), args.optional_text("behind")) {
        (Some(_), Some(_)) => return fail("'eos' or 'non-eos' once: before the label or behind it"),
        (Some("eos"), _) | (_, Some("eos")) => Place::Bottom,
        (Some(_), _) | (_, Some(_)) => Place::Above,
        _ => Place::Either,
    };
    router.state_labels(&LabelChange { verb, source: Source::Config, table, first, count, place, paths })?;
    reply(Done)
}

/// The paths of a tunnel that a command states.
fn checked_paths(router: &Router, args: &Args) -> Result<Vec<Path>, CommandError> {
    let stated = paths(router, args)?;
    router.check_paths_of_labels(&stated)?;
    Ok(paths_of(&stated))
}

/// What a command says of a label's paths.
fn paths(router: &Router, args: &Args) -> Result<Vec<StatedPath>, CommandError> {
    let path = |path: &Args| {
        let interface = path.optional_text("interface").map(|name| router.interfaces.find(name)).transpose()?;
        let insist = path.optional_text("insist");
        // With 'via' or without it.
        let number = |name: &str, alone: &str| path.optional(name)?.map_or_else(|| path.parse(alone), Ok);
        let table = |family, name, alone| Ok::<_, CommandError>(router.find_table(family, number(name, alone)?)?);
        let way = match path.optional_text("way").map_or_else(|| path.text("how"), Ok)? {
            "drop" | "blackhole" => PathAction::Drop,
            "ip4-lookup-in-table" => PathAction::LookupIn(Family::Ip4, table(Family::Ip4, "other", "alone")?),
            "ip6-lookup-in-table" => PathAction::LookupIn(Family::Ip6, table(Family::Ip6, "other6", "alone6")?),
            "mpls-lookup-in-table" => {
                PathAction::LookupLabel(router.find_label_table(number("labels", "labels-alone")?)?)
            }
            _ if !path.has("hop") => PathAction::Attached(router.interfaces.find(path.text("onto")?)?),
            _ => {
                let next_hop: IpAddr = path.parse("hop")?;
                match interface {
                    None if insist == Some("onlink") => {
                        return Err(Error::from(NextHopError::OnWhichLink { hop: next_hop }).into());
                    }
                    Some(interface) if insist == Some("onlink") => PathAction::OnLink { next_hop, interface },
                    None if path.has("hop-table") => {
                        PathAction::ViaIn { next_hop, table: table(Family::of(next_hop), "hop-table", "hop-table")? }
                    }
                    _ => PathAction::Via { next_hop, interface },
                }
            }
        };
        let weight = path.optional("weight")?.unwrap_or(1);
        let preference = path.optional("preference")?.unwrap_or(0);
        let path = Path { way, weight, preference, labels: out_labels(path)? };
        Ok(StatedPath { path, may_be_off_link: insist == Some("offlink") })
    };
    args.groups("paths").map(path).collect()
}
