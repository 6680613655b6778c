//! What of the router's state its ICMP errors depend on: published whole by control, borrowed by nodes for a
//! round.

use crate::ip::control::TableIndex;
use crate::rate::Limit;
use graph::InterfaceIndex;
use rcu::Published;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Policy {
    /// Errors, and TCP resets, that a worker sends at most.
    pub limit: Limit,
    /// What errors are sent from when the interface by which they leave has no address: the first one of the first
    /// loopback interface that is up, else of the first interface that is.
    pub router_id: Option<Ipv4Addr>,
    /// The same of IPv6: the first global address of that interface.
    pub router_id6: Option<Ipv6Addr>,
    /// The broadcast addresses of attached networks, each with the routing table of its interface, in order.
    pub broadcasts: Vec<(TableIndex, Ipv4Addr)>,
    /// The routing tables of interfaces, by index; beyond, it is the default one.
    pub tables: Vec<TableIndex>,
    /// Interfaces whose hosts are told of better next hops.
    pub redirects: Switches,
    /// The same of IPv6.
    pub redirects6: Switches,
}

/// On which interfaces something is switched on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Switches {
    /// By index; empty when there are none.
    interfaces: Vec<bool>,
}

impl Switches {
    /// Whether there is any.
    #[inline]
    pub fn any(&self) -> bool {
        !self.interfaces.is_empty()
    }

    #[inline]
    pub fn on(&self, interface: InterfaceIndex) -> bool {
        self.interfaces.get(interface.0 as usize).copied().unwrap_or(false)
    }
}

impl FromIterator<InterfaceIndex> for Switches {
    fn from_iter<I: IntoIterator<Item = InterfaceIndex>>(on: I) -> Switches {
        let mut interfaces = Vec::new();
        for index in on {
            let index = index.0 as usize;
            interfaces.resize(interfaces.len().max(index + 1), false);
            interfaces[index] = true;
        }
        Switches { interfaces }
    }
}

/// The policy as control publishes it.
pub(crate) type SharedPolicy = Arc<Published<Policy>>;

impl Policy {
    /// Whether packets to this address that came by `rx` are for all hosts of an attached network.
    pub fn is_broadcast(&self, rx: InterfaceIndex, address: Ipv4Addr) -> bool {
        let table = self.tables.get(rx.0 as usize).copied().unwrap_or_default();
        self.broadcasts.binary_search(&(table, address)).is_ok()
    }
}
