//! On which interfaces the router answers ARP requests for others (RFC 1027), as operators said. For whom: `set arp
//! proxy`.

use graph::{InterfaceIndex, PerInterface};
use router::capability::{Notice, Statement};
use router::interface::Interface;
use router::interface::config::removal;
use router::{Error, Router};
use std::collections::BTreeSet;

/// The interfaces on which it is enabled.
pub(super) struct Proxies {
    on: BTreeSet<InterfaceIndex>,
    /// The same for nodes.
    published: PerInterface<()>,
}

impl Proxies {
    pub fn new(published: PerInterface<()>) -> Proxies {
        Proxies { on: BTreeSet::new(), published }
    }

    pub fn is_on(&self, interface: InterfaceIndex) -> bool {
        self.on.contains(&interface)
    }
}

/// Answers requests that come by an interface for others, or no longer.
///
/// # Errors
/// When there is no such interface.
pub fn set(router: &mut Router, interface: InterfaceIndex, answers: bool) -> Result<(), Error> {
    router.interfaces.get(interface)?;
    let proxies = router.state_mut::<Proxies>();
    proxies.published.set(interface, answers.then_some(()));
    match answers {
        true => proxies.on.insert(interface),
        false => proxies.on.remove(&interface),
    };
    Ok(())
}

pub(super) fn hears(router: &mut Router, notice: &Notice) {
    if let Notice::Gone { interface, .. } = notice {
        router.state_mut::<Proxies>().on.remove(interface);
    }
}

pub(super) fn settings(router: &Router, interface: &Interface, into: &mut Vec<Statement>) {
    if router.state::<Proxies>().is_on(interface.index) {
        let command = format!("set interface proxy-arp {}", interface.name);
        let statement = Statement::new(format!("{command} enable"), format!("{command} disable"));
        into.push(statement.needing(removal(&interface.name)).replaced_by_itself());
    }
}
