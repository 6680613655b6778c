//! What operators say of IPv4 on an interface: the operations, and the commands that state it.

use super::source::{Mode, SourceCheck};
use crate::config::Statement;
use crate::interface::{self, Interface};
use crate::ip::control::TableIndex;
use crate::{Error, Router};
use command::{Args, Command, CommandSet, Done, reply};
use graph::InterfaceIndex;

/// Of one interface.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// The table of its addresses, and of the packets that it receives.
    pub table: TableIndex,
    /// How the sources of received packets are checked.
    pub source_check: Option<SourceCheck>,
    /// Packets from elsewhere to all hosts of its networks are sent on (RFC 2644).
    pub directed_broadcast: bool,
}

impl Router {
    /// Has the sources of packets checked that an interface receives, or not.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn set_source_check(&mut self, index: InterfaceIndex, check: Option<SourceCheck>) -> Result<(), Error> {
        self.interfaces.get_mut(index)?.ip4.source_check = check;
        self.publish_facts();
        Ok(())
    }

    /// Has packets from elsewhere to all hosts of an interface's networks sent on, or not.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn set_directed_broadcast(&mut self, index: InterfaceIndex, sent_on: bool) -> Result<(), Error> {
        self.interfaces.get_mut(index)?.ip4.directed_broadcast = sent_on;
        self.install_by(index);
        Ok(())
    }
}

pub(crate) fn register(set: &mut CommandSet<Router>) {
    set.section(
        "IPv4 on interfaces",
        "What is checked and sent on there, besides what is always checked; see [IPv4](ip4.md).",
    );
    set.add(
        Command::new(
            "set urpf ip4 [rx] {off | loose | strict : mode} <interface:interface> [allow-default]",
            "Check the sources of packets that an interface receives: is there a route back (loose), by that interface \
             (strict); the default route counts when it is allowed.",
            |router: &mut Router, args: &Args| {
                let index = router.interfaces.find(args.text("interface")?)?;
                let allow_default = args.flag("allow-default");
                let check = |mode| Some(SourceCheck { mode, allow_default });
                let check = match args.text("mode")? {
                    "loose" => check(Mode::Loose),
                    "strict" => check(Mode::Strict),
                    _ => None,
                };
                router.set_source_check(index, check)?;
                reply(Done)
            },
        )
        .configures()
        .example("set urpf ip4 rx strict e0")
        .example("set urpf ip4 rx loose e1 allow-default"),
    );
    set.add(
        Command::new(
            "set interface ip directed-broadcast <interface:interface> {enable|disable:state}",
            "Send packets from elsewhere to all hosts of an interface's networks on, or discard them (RFC 2644); they \
             are discarded unless enabled.",
            |router: &mut Router, args: &Args| {
                let index = router.interfaces.find(args.text("interface")?)?;
                router.set_directed_broadcast(index, args.text("state")? == "enable")?;
                reply(Done)
            },
        )
        .configures()
        .example("set interface ip directed-broadcast e0 enable"),
    );
}

pub(crate) fn statements(interface: &Interface, into: &mut Vec<Statement>) {
    let name = &interface.name;
    let needs = interface::config::removal(name);
    if let Some(SourceCheck { mode, allow_default }) = interface.ip4.source_check {
        let mode = SourceCheck { mode, allow_default: false };
        let tail = if allow_default { " allow-default" } else { "" };
        let line = format!("set urpf ip4 rx {mode} {name}{tail}");
        let undo = format!("set urpf ip4 rx off {name}");
        into.push(Statement::new(line, undo).needing(needs.clone()).replaced_by_itself());
    }
    if interface.ip4.directed_broadcast {
        let line = format!("set interface ip directed-broadcast {name} enable");
        let undo = format!("set interface ip directed-broadcast {name} disable");
        into.push(Statement::new(line, undo).needing(needs).replaced_by_itself());
    }
}
