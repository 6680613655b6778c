//! The interfaces on which the router is an MLD querier, as the commands that configure it.

use super::querier;
use router::Router;
use router::capability::Statement;
use router::interface::config::removal;

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    for interface in
        router.interfaces.iter().filter(|interface| querier::mld_querier(router, interface.index).is_some())
    {
        let line = |how: &str| format!("set ip6 mld querier {} {how}", interface.name);
        into.push(Statement::new(line("enable"), line("disable")).needing(removal(&interface.name)));
    }
}
