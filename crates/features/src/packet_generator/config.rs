//! Streams as the commands that make them. Whether one runs is no configuration: it is
//! started, and ends.

use router::Router;
use router::capability::Statement;
use router::interface;

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    for stream in super::streams(router) {
        let Ok(interface) = router.interfaces.get(stream.interface) else { continue };
        let mut lines = vec![format!("name {}", stream.name), format!("interface {}", interface.name)];
        lines.extend(stream.definition.iter().cloned());
        let body: Vec<String> = lines.iter().map(|line| format!("  {line}\n")).collect();
        let line = format!("packet-generator new {{\n{}}}", body.concat());
        let undo = format!("packet-generator delete {}", stream.name);
        into.push(Statement::new(line, undo).needing(interface::config::removal(&interface.name)));
    }
}
