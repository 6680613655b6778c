//! Who listens to whom, as commands.

use crate::Router;
use crate::config::Statement;
use crate::interface::config::removal;

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    for source in router.interfaces.iter() {
        for session in &source.span {
            let Ok(destination) = router.interfaces.get(session.destination) else { continue };
            let command = format!("set interface span {} destination {}", source.name, destination.name);
            let made = Statement::new(format!("{command} {}", session.directions()), format!("{command} disable"));
            into.push(made.needing(removal(&source.name)).needing(removal(&destination.name)).replaced_by_itself());
        }
    }
}
