//! What operators set of Neighbor Discovery, as the commands that set it.

use super::dad::Detection;
use super::proxy;
use router::Router;
use router::capability::Statement;
use router::interface::config::removal;

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    if !router.state::<Detection>().has_default() {
        let line = format!("set ip6 dad transmits {}", router.state::<Detection>().transmits);
        into.push(Statement::new(line, "set ip6 dad default".into()).replaced_by_itself());
    }
}

/// Hosts that are answered for, behind interfaces with their addresses and tables.
pub(crate) fn proxied(router: &Router, into: &mut Vec<Statement>) {
    for (index, host) in proxy::proxied_hosts(router) {
        let Ok(interface) = router.interfaces.get(index) else { continue };
        let line = format!("set ip6 nd proxy {host} {}", interface.name);
        let undo = format!("{line} del");
        into.push(Statement::new(line, undo).needing(removal(&interface.name)));
    }
}
