//! Who listens to whom, as commands.

use super::control::Spans;
use router::Router;
use router::capability::Statement;
use router::interface::config::removal;

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    for (source, sessions) in router.state::<Spans>().iter() {
        let Ok(source) = router.interfaces.get(source) else { continue };
        for session in sessions {
            let Ok(destination) = router.interfaces.get(session.destination) else { continue };
            let command = format!("set interface span {} destination {}", source.name, destination.name);
            let made = Statement::new(format!("{command} {}", session.directions()), format!("{command} disable"));
            into.push(made.needing(removal(&source.name)).needing(removal(&destination.name)).replaced_by_itself());
        }
    }
}
