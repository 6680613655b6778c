//! The operator's settings of ICMP.

use graph::InterfaceIndex;
use router::capability::Notice;
use router::rate::Limit;
pub use router::reply::policy::{DEFAULT_LIMIT, Policy, SharedPolicy, Switches};
use router::{Error, Router};
use std::net::{Ipv4Addr, Ipv6Addr};
use wire::Family;

/// Bounds of the operator's settings.
pub const MAX_RATE: u32 = 1_000_000;
pub const MAX_BURST: u32 = 100_000;

/// The control thread's ICMP state.
pub struct Icmp {
    policy: SharedPolicy,
    pub(crate) limit: Limit,
    redirects: Switches,
    redirects6: Switches,
}

impl Icmp {
    pub(super) fn new(policy: SharedPolicy) -> Icmp {
        Icmp { policy, limit: DEFAULT_LIMIT, redirects: Switches::default(), redirects6: Switches::default() }
    }

    pub(crate) fn limit_is_set(&self) -> bool {
        self.limit != DEFAULT_LIMIT
    }

    /// Interfaces whose hosts get redirects of a family to better next hops.
    pub fn redirects(&self, family: Family) -> impl Iterator<Item = InterfaceIndex> + '_ {
        match family {
            Family::Ip4 => self.redirects.iter(),
            Family::Ip6 => self.redirects6.iter(),
        }
    }

    fn redirects_mut(&mut self, family: Family) -> &mut Switches {
        match family {
            Family::Ip4 => &mut self.redirects,
            Family::Ip6 => &mut self.redirects6,
        }
    }
}

/// Sets how many ICMP errors, and how many TCP resets, each worker sends a second, and how many at once after a
/// pause. The commands check the bounds. `None` restores the default.
pub fn set_icmp_limit(router: &mut Router, limit: Option<(u32, u32)>) {
    router.state_mut::<Icmp>().limit = limit.map_or(DEFAULT_LIMIT, |(per_second, burst)| Limit { per_second, burst });
    publish_icmp_policy(router);
}

/// Whether hosts on an interface get redirects to better next hops (RFC 792, RFC 4861).
///
/// # Errors
/// When there is no such interface.
pub fn set_redirects(router: &mut Router, family: Family, index: InterfaceIndex, on: bool) -> Result<(), Error> {
    router.interfaces.get(index)?;
    router.state_mut::<Icmp>().redirects_mut(family).switch(index, on);
    publish_icmp_policy(router);
    Ok(())
}

/// RFC 1812 5.2.7.2, 4.3.2.4: the router's address when an interface has none.
pub fn router_id(router: &Router) -> Option<Ipv4Addr> {
    let speaker = router.interfaces.book.borrow().speaker(Family::Ip4)?;
    router.interfaces.get(speaker).ok()?.addresses.first().map(|own| own.address())
}

/// The same for IPv6: an address that is valid beyond its link.
pub fn router_id6(router: &Router) -> Option<Ipv6Addr> {
    let speaker = router.interfaces.book.borrow().speaker(Family::Ip6)?;
    router.interfaces.get(speaker).ok()?.ip6.addresses.first().map(|own| own.address())
}

/// Publishes the state that ICMP errors depend on, after a change of it or of interfaces.
pub(crate) fn publish_icmp_policy(router: &Router) {
    let (broadcasts, tables) = {
        let book = router.interfaces.book.borrow();
        (book.broadcasts().clone(), book.tables().clone())
    };
    let icmp = router.state::<Icmp>();
    let (redirects, redirects6) = (icmp.redirects.clone(), icmp.redirects6.clone());
    let (limit, router_id, router_id6) = (icmp.limit, router_id(router), router_id6(router));
    icmp.policy.publish(Policy { limit, router_id, router_id6, broadcasts, tables, redirects, redirects6 });
}

pub(super) fn hears(router: &mut Router, notice: &Notice) {
    if let Notice::Leaving(gone) = notice {
        let icmp = router.state_mut::<Icmp>();
        Family::ALL.into_iter().for_each(|family| icmp.redirects_mut(family).switch(*gone, false));
    }
}
