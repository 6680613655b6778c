//! Hand-off, as the commands that set it.

use super::control::Handoffs;
use router::Router;
use router::capability::Statement;
use router::interface::config::removal;

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    for (index, handoff) in router.state::<Handoffs>().iter() {
        let Ok(interface) = router.interfaces.get(index) else { continue };
        let command = format!("set interface handoff {}", interface.name);
        let set = Statement::new(format!("{command} workers {handoff}"), format!("{command} disable"));
        into.push(set.needing(removal(&interface.name)).replaced_by_itself());
    }
}
