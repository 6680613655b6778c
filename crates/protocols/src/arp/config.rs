//! What operators said of ARP as the commands that say it.

use router::Router;
use router::capability::Statement;

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    let policy = router.neighbours.policy();
    if policy.accepts_unknown {
        into.push(Statement::new("set arp accept enable".into(), "set arp accept disable".into()));
    }
    for range in &policy.proxied {
        let range = format!("start {} end {}", range.start, range.end);
        into.push(Statement::new(format!("set arp proxy {range}"), format!("set arp proxy del {range}")));
    }
}
