//! Sockets as the commands that make them; interfaces are stated with all others.

use super::Memif;
use router::Router;
use router::capability::Statement;

/// The command that removes a socket: what interfaces name it by.
pub(crate) fn removal(id: u32) -> String {
    format!("delete memif socket id {id}")
}

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    for (id, filename) in router.state::<Memif>().sockets().filter(|(id, _)| *id != 0) {
        let mut made = Statement::new(format!("create memif socket id {id} filename {filename}"), removal(id));
        made.claims = vec![format!("memif socket {filename}")];
        into.push(made);
    }
}
