//! What operators said of neighbours as the commands that say it. Learned ones are no
//! configuration.

use super::policy::Rates;
use crate::Router;
use crate::config::Statement;
use crate::interface;
use crate::neighbour::control::{Limits, State};

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    let limits = router.neighbours.limits();
    if limits != Limits::default() {
        let Limits { limit, interface_limit, age, recycle } = limits;
        let recycle = if recycle { "recycle" } else { "norecycle" };
        let line =
            format!("set ip neighbor-config ip4 limit {limit} interface-limit {interface_limit} age {age} {recycle}");
        into.push(Statement::new(line, "set ip neighbor-config ip4 default".into()).replaced_by_itself());
    }
    let policy = router.neighbours.policy();
    if policy.rates != Rates::default() {
        let Rates { requests, replies, learning } = policy.rates;
        let line = format!("set arp rate requests {requests} replies {replies} learning {learning}");
        into.push(Statement::new(line, "set arp rate default".into()).replaced_by_itself());
    }
    if policy.accepts_unknown {
        into.push(Statement::new("set arp accept enable".into(), "set arp accept disable".into()));
    }
    for range in &policy.proxied {
        let range = format!("start {} end {}", range.start, range.end);
        into.push(Statement::new(format!("set arp proxy {range}"), format!("set arp proxy del {range}")));
    }
    for (key, neighbour) in router.neighbours.iter() {
        let State::Known { mac, is_static: true } = neighbour.state else { continue };
        let Ok(interface) = router.interfaces.get(key.interface) else { continue };
        let (name, address) = (&interface.name, key.address);
        let fib = if neighbour.no_fib_entry { " no-fib-entry" } else { "" };
        let line = format!("ip neighbor {name} {address} {mac}{fib}");
        let statement = Statement::new(line, format!("ip neighbor del {name} {address}")).replaced_by_itself();
        into.push(statement.needing(interface::config::removal(name)));
    }
}
