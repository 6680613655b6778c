//! Which routes rest on what: the way from a next hop, or an interface, to the routes that name it.
//! A link that dies, an address that goes, must cost what hangs on it, and not a look at a million
//! routes.

use super::control::{Path, Route, Way};
use crate::arp::NeighbourKey;
use graph::InterfaceIndex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::Ipv4Addr;
use wire::Prefix4;

#[derive(Debug, Default)]
pub(super) struct Dependents {
    by_hop: BTreeMap<Ipv4Addr, BTreeSet<Prefix4>>,
    by_interface: HashMap<InterfaceIndex, BTreeSet<Prefix4>>,
    /// Routes onto an interface, by their length: where a next hop may be found attached.
    attached: BTreeMap<u8, usize>,
    /// How many routes insist that a neighbour is on the link.
    on_link: HashMap<NeighbourKey, usize>,
}

/// What a route names, each thing once.
struct Names {
    hops: BTreeSet<Ipv4Addr>,
    interfaces: BTreeSet<InterfaceIndex>,
    is_attached: bool,
}

impl Names {
    fn of(route: &Route) -> Names {
        let mut names = Names { hops: BTreeSet::new(), interfaces: BTreeSet::new(), is_attached: false };
        for path in route.sources.values().flatten() {
            match path.way {
                Way::Via { next_hop, interface } => {
                    names.hops.insert(next_hop);
                    names.interfaces.extend(interface);
                }
                Way::OnLink { interface, .. } | Way::Local(interface) | Way::Broadcast(interface) => {
                    names.interfaces.insert(interface);
                }
                Way::Attached(interface) => {
                    names.interfaces.insert(interface);
                    names.is_attached = true;
                }
                Way::LocalAnywhere | Way::Drop | Way::Punt | Way::Unreachable | Way::Prohibit => {}
            }
        }
        names
    }
}

/// Whether nothing is left of a set without a prefix.
fn forget(of: Option<&mut BTreeSet<Prefix4>>, prefix: Prefix4) -> bool {
    of.is_some_and(|set| {
        set.remove(&prefix);
        set.is_empty()
    })
}

impl Dependents {
    /// Takes in what a route names from now on.
    pub fn add(&mut self, prefix: Prefix4, route: &Route) {
        let names = Names::of(route);
        for hop in names.hops {
            self.by_hop.entry(hop).or_default().insert(prefix);
        }
        for interface in names.interfaces {
            self.by_interface.entry(interface).or_default().insert(prefix);
        }
        if names.is_attached {
            *self.attached.entry(prefix.length()).or_default() += 1;
        }
    }

    /// Forgets what it named: before it changes.
    pub fn remove(&mut self, prefix: Prefix4, route: &Route) {
        let names = Names::of(route);
        for hop in names.hops {
            if forget(self.by_hop.get_mut(&hop), prefix) {
                self.by_hop.remove(&hop);
            }
        }
        for interface in names.interfaces {
            if forget(self.by_interface.get_mut(&interface), prefix) {
                self.by_interface.remove(&interface);
            }
        }
        if names.is_attached
            && let Some(routes) = self.attached.get_mut(&prefix.length())
        {
            *routes -= 1;
        }
    }

    /// Routes with a next hop in a network.
    pub fn of_hops_in(&self, network: Prefix4) -> impl Iterator<Item = Prefix4> {
        let hops = self.by_hop.range(network.first()..=network.last());
        hops.flat_map(|(_, prefixes)| prefixes.iter().copied())
    }

    /// Routes that name an interface.
    pub fn of_interface(&self, interface: InterfaceIndex) -> impl Iterator<Item = Prefix4> {
        self.by_interface.get(&interface).into_iter().flatten().copied()
    }

    /// Prefixes that hold an address and may be attached, the longest first.
    pub fn attached_around(&self, address: Ipv4Addr) -> impl Iterator<Item = Prefix4> {
        let lengths = self.attached.iter().rev().filter(|(_, routes)| **routes > 0);
        lengths.map(move |(&length, _)| Prefix4::new(address, length).expect("a length up to 32").network())
    }

    /// One more route insists; whether it is the first.
    pub fn insist(&mut self, key: NeighbourKey) -> bool {
        let routes = self.on_link.entry(key).or_default();
        *routes += 1;
        *routes == 1
    }

    /// One route less; whether it was the last.
    pub fn relent(&mut self, key: NeighbourKey) -> bool {
        let Some(routes) = self.on_link.get_mut(&key) else { return false };
        *routes -= 1;
        let was_last = *routes == 0;
        if was_last {
            self.on_link.remove(&key);
        }
        was_last
    }

    pub fn is_on_link(&self, key: &NeighbourKey) -> bool {
        self.on_link.contains_key(key)
    }
}

/// The neighbours that some paths insist on.
pub(super) fn insisted(paths: &[Path]) -> BTreeSet<NeighbourKey> {
    let key = |path: &Path| match path.way {
        Way::OnLink { next_hop, interface } => Some(NeighbourKey { interface, address: next_hop }),
        _ => None,
    };
    paths.iter().filter_map(key).collect()
}
