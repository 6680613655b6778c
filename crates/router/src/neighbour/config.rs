//! The operator's neighbour settings, as the commands that configure them. Learned neighbours are no configuration.

use super::NeighbourKey;
use super::known::{Limits, State};
use super::policy::Rates;
use crate::Router;
use crate::interface;
use crate::listing::PAGE;
use crate::statement::{Statement, Statements};
use wire::Family;

/// How many neighbours there may be, how long they live, and the rates of requests.
pub(crate) fn limits(router: &Router, into: &mut Vec<Statement>) {
    for (family, word, rate) in [(Family::Ip4, "ip4", "set arp rate"), (Family::Ip6, "ip6", "set ip6 nd rate")] {
        let limits = router.neighbours.limits(family);
        if limits != Limits::of(family) {
            let Limits { limit, interface_limit, age, reachable, recycle } = limits;
            let recycle = if recycle { "recycle" } else { "norecycle" };
            let path = format!("set ip neighbor-config {word}");
            let reachable = if family == Family::Ip6 { format!("reachable-time {reachable} ") } else { String::new() };
            let line = format!("{path} limit {limit} interface-limit {interface_limit} age {age} {reachable}{recycle}");
            into.push(Statement::new(line, format!("{path} default")).replaced_by_itself());
        }
        let rates = router.neighbours.policy().rates[family];
        if rates != Rates::default() {
            let Rates { requests, replies, learning } = rates;
            let line = format!("{rate} requests {requests} replies {replies} learning {learning}");
            into.push(Statement::new(line, format!("{rate} default")).replaced_by_itself());
        }
    }
}

/// The neighbours that operators configured.
pub(crate) fn statements() -> Box<dyn Statements> {
    Box::new(Told { last: None })
}

struct Told {
    /// The neighbour after which to continue.
    last: Option<NeighbourKey>,
}

impl Statements for Told {
    fn go_on(&mut self, router: &Router, into: &mut Vec<Statement>) -> bool {
        let last = self.last.take();
        for (key, neighbour) in router.neighbours.behind(last, None).take(PAGE) {
            self.last = Some(*key);
            let State::Known { mac, is_static: true } = neighbour.state else { continue };
            if neighbour.is_found {
                continue;
            }
            let Ok(interface) = router.interfaces.get(key.interface) else { continue };
            let (name, address) = (&interface.name, key.address);
            let fib = if neighbour.no_fib_entry { " no-fib-entry" } else { "" };
            let line = format!("ip neighbor {name} {address} {mac}{fib}");
            let statement = Statement::new(line, format!("ip neighbor del {name} {address}")).replaced_by_itself();
            into.push(statement.needing(interface::config::removal(name)));
        }
        self.last.is_some()
    }
}
