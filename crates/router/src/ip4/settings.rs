//! What operators say of IPv4 on an interface: the operations, and the commands that state it.

use crate::capability::Statement;
use crate::interface::{self, Interface};
use crate::ip::control::TableIndex;
use crate::ip::source_check::{self, SourceCheck};
use crate::{Error, Router};
use command::{Args, Command, CommandSet, Done, reply};
use graph::InterfaceIndex;
use wire::Family;

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
        "Optional checks and forwarding rules of an interface; see [IPv4](ip4.md) for the checks that always apply.",
    );
    set.add(source_check::command(Family::Ip4));
    set.add(
        Command::new(
            "set interface ip directed-broadcast <interface:interface> {enable|disable:state}",
            "Forward directed broadcasts from other links to the hosts of an interface's networks, or discard them \
             (the default, RFC 2644).",
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
    if interface.ip4.directed_broadcast {
        let line = format!("set interface ip directed-broadcast {name} enable");
        let undo = format!("set interface ip directed-broadcast {name} disable");
        into.push(Statement::new(line, undo).needing(interface::config::removal(name)).replaced_by_itself());
    }
}
