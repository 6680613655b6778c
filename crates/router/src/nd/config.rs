//! What operators set of Neighbor Discovery, as the commands that set it.

use crate::Router;
use crate::config::Statement;

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    if !router.detection.has_default() {
        let line = format!("set ip6 dad transmits {}", router.detection.transmits);
        into.push(Statement::new(line, "set ip6 dad default".into()).replaced_by_itself());
    }
}
