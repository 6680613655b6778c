//! Interfaces, as the commands that create and configure them.

use super::Interface;
use crate::Router;
use crate::listing::PAGE;
use crate::statement::{Statement, Statements};
use crate::table_index;
use crate::table_index::TableIndex;
use graph::InterfaceIndex;
use wire::{Family, Prefix};

/// The command that removes an interface. Other statements refer to the interface by it.
pub fn removal(name: &str) -> String {
    format!("delete interface {name}")
}

/// The command that takes an address away.
pub fn address_removal(name: &str, prefix: impl Into<Prefix>) -> String {
    format!("set interface ip address del {name} {}", prefix.into())
}

/// Interfaces in the order of their indices, each with its settings and its sub-interfaces. Tunnels come after all
/// other interfaces, because they lead over them. Unnumbered settings come last, when all lenders exist.
pub(crate) fn statements() -> Box<dyn Statements> {
    Box::new(InterfaceStatements { turn: Turn::Devices, last: None, parent: None })
}

struct InterfaceStatements {
    turn: Turn,
    /// The last interface that was stated.
    last: Option<InterfaceIndex>,
    /// The interface whose sub-interfaces come now, and the last one stated. Sub-interfaces come after their parent,
    /// even where a reused index is lower than the parent's.
    parent: Option<(InterfaceIndex, Option<InterfaceIndex>)>,
}

enum Turn {
    Devices,
    Tunnels,
    /// Those that follow another, of any kind.
    Followers,
    Borrowers,
}

impl InterfaceStatements {
    /// States sub-interfaces until there are `most` statements. Returns whether there may be more.
    fn sub_interfaces(&mut self, router: &Router, into: &mut Vec<Statement>, most: usize) -> bool {
        let Some((parent, last)) = self.parent.take() else { return false };
        for sub in router.interfaces.sub_interfaces_behind(parent, last) {
            of_interface(router, sub, into);
            if into.len() >= most {
                self.parent = Some((parent, Some(sub.index)));
                return true;
            }
        }
        false
    }
}

impl Statements for InterfaceStatements {
    fn go_on(&mut self, router: &Router, into: &mut Vec<Statement>) -> bool {
        let most = into.len() + PAGE;
        if self.sub_interfaces(router, into, most) {
            return true;
        }
        for interface in router.interfaces.behind(self.last) {
            self.last = Some(interface.index);
            let is_tunnel = router.ip.tunnels.contains_key(&interface.index);
            let follows = interface.creation.as_ref().is_some_and(|creation| creation.follows().is_some());
            match self.turn {
                Turn::Followers if follows => of_interface(router, interface, into),
                _ if follows => {}
                Turn::Borrowers => of_borrower(router, interface, into),
                Turn::Devices if interface.sub.is_none() && !is_tunnel => {
                    of_maker(router, interface, into);
                    of_interface(router, interface, into);
                    self.parent = Some((interface.index, None));
                }
                Turn::Tunnels if interface.sub.is_none() && is_tunnel => {
                    of_maker(router, interface, into);
                    of_interface(router, interface, into);
                    self.parent = Some((interface.index, None));
                }
                Turn::Devices | Turn::Tunnels | Turn::Followers => {}
            }
            if self.sub_interfaces(router, into, most) || into.len() >= most {
                return true;
            }
        }
        self.last = None;
        self.turn = match self.turn {
            Turn::Devices => Turn::Tunnels,
            Turn::Tunnels => Turn::Followers,
            Turn::Followers => Turn::Borrowers,
            Turn::Borrowers => return false,
        };
        true
    }
}

/// What makes an interface that has no options of a kind.
fn of_maker(router: &Router, interface: &Interface, into: &mut Vec<Statement>) {
    if interface.creation.is_none() {
        router.capabilities.iter().for_each(|capability| (capability.makes)(router, interface, into));
    }
}

fn of_borrower(router: &Router, interface: &Interface, into: &mut Vec<Statement>) {
    let Some(lender) = interface.lender.and_then(|lender| router.interfaces.get(lender).ok()) else { return };
    let (name, lender) = (&interface.name, &lender.name);
    let line = format!("set interface unnumbered {name} use {lender}");
    // Not replaced in one step: the old lender may be about to borrow itself, which it can only when it lends nothing.
    let statement = Statement::new(line, format!("set interface unnumbered del {name}"));
    let mut statement = in_table(interface, statement.needing(removal(name)).needing(removal(lender)));
    if interface.ip4.stated_table != TableIndex::DEFAULT {
        statement.needs.push(table_index::table_reset(Family::Ip4, lender));
    }
    into.push(statement);
}

/// Makes a statement depend on the interface's table: it comes after the table is set, and goes before it is reset.
pub fn in_table(interface: &Interface, mut statement: Statement) -> Statement {
    // The first address is the primary one, so their order counts.
    statement.series = Some(format!("addresses of {}", interface.name));
    if interface.ip4.stated_table != TableIndex::DEFAULT {
        statement.needs.push(table_index::table_reset(Family::Ip4, &interface.name));
    }
    statement
}

fn of_interface(router: &Router, interface: &Interface, into: &mut Vec<Statement>) {
    if interface.is_found() {
        return;
    }
    let (name, ip) = (&interface.name, &router.ip);
    if let Some(creation) = &interface.creation {
        let mut made = Statement::new(creation.command(name), creation.undo(name));
        made.claims = creation.claims();
        made.needs.extend(creation.needs());
        into.push(made);
        if creation.follows().is_some() {
            return;
        }
    }
    if let Some(sub) = &interface.sub {
        let parent = interface.parent_name().to_string();
        into.push(Statement::new(sub.command(&parent), removal(name)).needing(removal(&parent)));
    }
    let setting = |line: String, undo: String| Statement::new(line, undo).needing(removal(name)).replaced_by_itself();
    for (number, queue) in interface.receive_queues.iter().enumerate() {
        if queue.is_placed {
            let command = format!("set interface rx-placement {name} queue {number}");
            into.push(setting(format!("{command} worker {}", queue.thread), format!("{command} default")));
        }
        if queue.mode != queue.usual_mode() {
            let command = format!("set interface rx-mode {name} queue {number}");
            let usual = queue.usual_mode().name();
            into.push(setting(format!("{command} {}", queue.mode.name()), format!("{command} {usual}")));
        }
    }
    // The link's MTU first: it must be large enough for the others.
    let mtus = [
        ("", interface.mtus.link),
        ("packet ", interface.mtus.packet),
        ("ip4 ", interface.mtus.ip4),
        ("ip6 ", interface.mtus.ip6),
        ("mpls ", interface.mtus.mpls),
    ];
    for (of, mtu) in mtus {
        if let Some(mtu) = mtu {
            let undo = format!("set interface mtu {of}default {name}");
            into.push(setting(format!("set interface mtu {of}{mtu} {name}"), undo));
        }
    }
    if let Some(mac) = interface.stated_mac {
        let line = format!("set interface mac address {name} {mac}");
        into.push(setting(line, format!("set interface mac address {name} default")));
    }
    for mac in &interface.secondary_macs {
        let line = format!("set interface secondary-mac-address {name} {mac}");
        into.push(Statement::new(line.clone(), format!("{line} del")).needing(removal(name)));
    }
    if interface.promiscuous {
        let line = format!("set interface promiscuous on {name}");
        into.push(setting(line, format!("set interface promiscuous off {name}")));
    }
    if interface.ip4.stated_table != TableIndex::DEFAULT {
        let id = ip.id_of(interface.ip4.stated_table);
        let mut table =
            Statement::new(format!("set interface ip table {name} {id}"), table_index::table_reset(Family::Ip4, name));
        table.series = Some(format!("addresses of {name}"));
        into.push(table.needing(removal(name)).needing(table_index::removal(Family::Ip4, id)));
    }
    for prefix in interface.stated_addresses() {
        let line = format!("set interface ip address {name} {prefix}");
        let address = Statement::new(line, address_removal(name, *prefix)).needing(removal(name));
        into.push(in_table(interface, address));
    }
    router.capabilities.iter().for_each(|capability| (capability.settings)(router, interface, into));
    if let Some(tag) = &interface.tag {
        let line = format!("set interface tag {name} {tag}");
        into.push(setting(line, format!("set interface tag del {name}")));
    }
    if interface.stated_up {
        let line = format!("set interface state {name} up");
        into.push(setting(line, format!("set interface state {name} down")));
    }
}
