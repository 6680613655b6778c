//! What operators say of the sources of packets: how an interface checks them, by the family of the packets.

pub use crate::interface::source_check::{Mode, SourceCheck};

use super::arcs::names;
use crate::interface::{self, Interface};
use crate::statement::Statement;
use crate::{Error, Router};
use command::{Args, Command, Done, reply};
use graph::InterfaceIndex;
use wire::Family;

impl Router {
    /// Has the sources of packets of a family checked that an interface receives, or not.
    ///
    /// # Errors
    /// When there is no such interface, or there are too many different chains of features.
    pub fn set_source_check(
        &mut self,
        index: InterfaceIndex,
        family: Family,
        check: Option<SourceCheck>,
    ) -> Result<(), Error> {
        self.interfaces.get(index)?;
        let node = match family {
            Family::Ip4 => "ip4-rx-urpf",
            Family::Ip6 => "ip6-rx-urpf",
        };
        // Without a rule for the interface, the feature passes everything on.
        for arc in names(family) {
            self.graph.set_feature(arc, node, index, check.is_some())?;
        }
        let interface = self.interfaces.get_mut(index)?;
        match family {
            Family::Ip4 => interface.ip4.source_check = check,
            Family::Ip6 => interface.ip6.source_check = check,
        }
        self.publish_facts();
        Ok(())
    }
}

fn check_of(interface: &Interface, family: Family) -> Option<SourceCheck> {
    match family {
        Family::Ip4 => interface.ip4.source_check,
        Family::Ip6 => interface.ip6.source_check,
    }
}

/// What the command calls a family.
fn word(family: Family) -> &'static str {
    match family {
        Family::Ip4 => "ip4",
        Family::Ip6 => "ip6",
    }
}

/// `set urpf` of a family.
pub fn command(family: Family) -> Command<Router> {
    let word = word(family);
    let command = Command::new(
        &format!("set urpf {word} [rx] {{off | loose | strict : mode}} <interface:interface> [allow-default]"),
        "Check the source address of packets that an interface receives (uRPF): there must be a route back (loose), \
         by this interface (strict). The default route counts only with `allow-default`.",
        move |router: &mut Router, args: &Args| {
            let index = router.interfaces.find(args.text("interface")?)?;
            let allow_default = args.flag("allow-default");
            let check = |mode| Some(SourceCheck { mode, allow_default });
            let check = match args.text("mode")? {
                "loose" => check(Mode::Loose),
                "strict" => check(Mode::Strict),
                _ => None,
            };
            router.set_source_check(index, family, check)?;
            reply(Done)
        },
    );
    // Until VPP 19.08, for IPv4.
    let command = match family {
        Family::Ip4 => command
            .also("set interface ip source-check <interface:interface> {strict | loose | del : mode}")
            .also("set urpf [rx] {off | loose | strict : mode} <interface:interface> [allow-default]")
            .also("set urpf <interface:interface> [rx] {off | loose | strict : mode} [allow-default]"),
        Family::Ip6 => command,
    };
    command
        .configures()
        .example(&format!("set urpf {word} rx strict e0"))
        .example(&format!("set urpf {word} rx loose e1 allow-default"))
}

pub(crate) fn statements(interface: &Interface, into: &mut Vec<Statement>) {
    let name = &interface.name;
    for family in Family::ALL {
        let Some(SourceCheck { mode, allow_default }) = check_of(interface, family) else { continue };
        let (word, mode) = (word(family), SourceCheck { mode, allow_default: false });
        let tail = if allow_default { " allow-default" } else { "" };
        let line = format!("set urpf {word} rx {mode} {name}{tail}");
        let undo = format!("set urpf {word} rx off {name}");
        into.push(Statement::new(line, undo).needing(interface::config::removal(name)).replaced_by_itself());
    }
}
