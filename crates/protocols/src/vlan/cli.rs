//! Commands on sub-interfaces, as VPP has them.

use command::{Args, Command, CommandError, CommandSet, Done, Reply, Text, fail, reply};
use router::Router;
pub use router::interface::sub::{Vid, VlanMatch, by_number, name_of};
use std::ops::RangeInclusive;
use wire::ethernet::EtherType;
use wire::vlan::{MAX_VID, MIN_VID};

type Answer = Result<Box<dyn Reply>, CommandError>;

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "Sub-interfaces",
        "A sub-interface receives the frames of its parent that carry certain VLAN tags, and sends frames with these \
         tags. A number alone means the 802.1Q VLAN of that number. `exact-match` matches frames with exactly these \
         tags; only such a sub-interface, or an `untagged` one, can have addresses. `default` receives tagged frames \
         that match no other sub-interface.",
    );
    set.add(
        Command::new(
            "create sub-interfaces <interface:interface> <id:word> [{default | untagged | dot1q {<vid:u32 1..4094> \
             | any : outer} [inner-dot1q {<innervid:u32 1..4094> | any : inner}] [exact-match] | dot1ad {<vid:u32 \
             1..4094> | any : outer} [inner-dot1q {<innervid:u32 1..4094> | any : inner}] [exact-match] : kind}]",
            "Create a sub-interface by its VLAN tags, or several of a range of VLANs (`100-110`).",
            create,
        )
        .configures()
        .example("create sub-interfaces e0 100")
        .example("create sub-interfaces e0 20 dot1ad 10 inner-dot1q 20 exact-match")
        .example("create sub-interfaces e0 200-210"),
    );
    set.add(
        Command::new(
            "delete sub-interface <interface:interface>",
            "Remove a sub-interface with its routes and neighbours.",
            |router: &mut Router, args: &Args| {
                let index = router.interfaces.find(args.text("interface")?)?;
                router.delete_sub_interface(index)?;
                reply(Done)
            },
        )
        .configures()
        .example("delete sub-interface e0.100"),
    );
}

fn create(router: &mut Router, args: &Args) -> Answer {
    let parent = router.interfaces.find(args.text("interface")?)?;
    let text = args.text("id")?;
    let takes = takes(args)?;
    let ids = match text.split_once('-') {
        Some((first, last)) if takes.is_none() => number(first)?..=number(last)?,
        Some(_) => return fail(format!("'{text}' is a range: its sub-interfaces are named by their VLANs alone")),
        None => number(text)?..=number(text)?,
    };
    if ids.is_empty() {
        return fail(format!("'{text}' has no VLAN in it"));
    }
    if takes.is_none() && !(within(&ids)) {
        return fail(format!(
            "{text}: VLANs are {MIN_VID} to {MAX_VID} (0 only tells a priority, 4095 is reserved); another number \
             needs its tags named"
        ));
    }
    // All of a range or none.
    let mut made = Vec::new();
    for id in ids {
        match router.create_sub_interface(parent, id, takes.unwrap_or_else(|| by_number(id))) {
            Ok(index) => made.push((index, id)),
            Err(error) => {
                for (index, _) in made {
                    router.delete_interface(index)?;
                }
                return Err(error.into());
            }
        }
    }
    let above = &router.interfaces.get(parent)?.name;
    reply(Text(made.iter().map(|(_, id)| name_of(above, *id) + "\n").collect()))
}

fn number(text: &str) -> Result<u32, CommandError> {
    text.parse()
        .map_err(|_| CommandError::new(format!("'{text}' is no number of a sub-interface (like 100 or 100-110)")))
}

fn within(ids: &RangeInclusive<u32>) -> bool {
    *ids.start() >= MIN_VID.into() && *ids.end() <= MAX_VID.into()
}

/// The frames that are asked for; none when a number has to do.
fn takes(args: &Args) -> Result<Option<VlanMatch>, CommandError> {
    let vid = |kind: &str, name: &str| -> Result<Option<Vid>, CommandError> {
        match args.optional_text(kind) {
            None => Ok(None),
            Some("any") => Ok(Some(Vid::Any)),
            Some(_) => Ok(Some(Vid::Is(args.parse(name)?))),
        }
    };
    let outer_type = match args.optional_text("kind") {
        None => return Ok(None),
        Some("default") => return Ok(Some(VlanMatch::Default)),
        Some("untagged") => return Ok(Some(VlanMatch::Untagged)),
        Some("dot1ad") => EtherType::QINQ,
        Some(_) => EtherType::VLAN,
    };
    let outer = vid("outer", "vid")?.unwrap_or(Vid::Any);
    let inner = vid("inner", "innervid")?;
    Ok(Some(VlanMatch::Tagged { outer_type, outer, inner, exact: args.flag("exact-match") }))
}
