//! Punting as the commands that set it.

use super::Punts;
use super::control::word;
use graph::InterfaceIndex;
use router::Router;
use router::capability::Statement;
use router::interface::config::removal;
use wire::Family;

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    for family in Family::ALL {
        of_family(router, family, into);
    }
}

fn of_family(router: &Router, family: Family, into: &mut Vec<Statement>) {
    let ip = word(family);
    let name = |index: InterfaceIndex| router.interfaces.get(index).map(|interface| interface.name.clone());
    for (rx, redirect) in router.state::<Punts>().iter(family) {
        let (Ok(tx), Ok(rx)) = (name(redirect.interface), rx.map(name).transpose()) else { continue };
        let from = rx.as_deref().unwrap_or("all");
        let line = format!("{ip} punt redirect add rx {from} via {} {tx}", redirect.next_hop);
        let statement = Statement::new(line, format!("{ip} punt redirect del rx {from}"));
        // Not replaced by itself: the router may get the address that was the host's.
        let mut statement = statement.needing(removal(&tx));
        statement.needs.extend(rx.as_deref().map(removal));
        into.push(statement);
    }
    if let Some(rate) = router.state::<Punts>().rate(family) {
        let line = format!("set {ip} punt rate {rate}");
        into.push(Statement::new(line, format!("set {ip} punt rate default")).replaced_by_itself());
    }
}
