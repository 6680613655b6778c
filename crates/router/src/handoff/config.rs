//! Hand-off, as the commands that set it.

use crate::Router;
use crate::config::Statement;
use crate::interface::config::removal;

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    for interface in router.interfaces.iter() {
        if let Some(handoff) = &interface.handoff {
            let command = format!("set interface handoff {}", interface.name);
            let set = Statement::new(format!("{command} workers {handoff}"), format!("{command} disable"));
            into.push(set.needing(removal(&interface.name)).replaced_by_itself());
        }
    }
}
