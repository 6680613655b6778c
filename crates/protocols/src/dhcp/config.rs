//! DHCP clients as the commands that make them. What they lease is not stated.

use super::DhcpClients;
use router::Router;
use router::capability::Statement;
use router::interface;
use router::interface::config::removal;

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    for (index, client) in router.state::<DhcpClients>().iter() {
        let Ok(interface) = router.interfaces.get(index) else { continue };
        let name = &interface.name;
        let hostname = client.hostname.as_ref().map_or(String::new(), |hostname| format!(" hostname {hostname}"));
        let line = format!("set dhcp client intfc {name}{hostname}");
        let statement = Statement::new(line, format!("set dhcp client del intfc {name}"));
        let statement = interface::config::in_table(interface, statement.needing(removal(name)));
        into.push(statement.replaced_by_itself());
    }
}
