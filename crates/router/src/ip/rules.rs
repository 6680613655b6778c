//! Checks and rules of IPv4 that operators set on an interface: the source check ([`super::source_check`]), and
//! whether directed broadcasts are sent on.

use crate::interface::{self, Interface};
use crate::ip::source_check;
use crate::statement::Statement;
use crate::{Error, Router};
use command::{Args, Command, CommandSet, Done, reply};
use graph::InterfaceIndex;
use wire::Family;

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
