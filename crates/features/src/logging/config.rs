//! What commands have set of the log, as the commands that set it. What `startup.conf`
//! says is there again by itself.

use router::Router;
use router::capability::Statement;

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    into.extend(super::of(router).configuration().into_iter().map(|line| {
        let undo = match line.strip_prefix("set logging class ").and_then(|rest| rest.split_once(' ')) {
            Some((class, _)) => {
                format!("set logging class {class} level default syslog-level default rate-limit default")
            }
            None => format!("{} default", line.rsplit_once(' ').map_or("", |(setting, _)| setting)),
        };
        Statement::new(line, undo)
    }));
}
