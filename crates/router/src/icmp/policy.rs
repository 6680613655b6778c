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
    /// Interfaces whose hosts are told of better next hops, by index; empty when there are none.
    pub redirects: Vec<bool>,
}

/// The policy as control publishes it.
pub(crate) type SharedPolicy = Arc<Published<Policy>>;

impl Policy {
    /// Whether hosts on this interface are told of better next hops.
    #[inline]
    pub fn redirects_on(&self, interface: InterfaceIndex) -> bool {
        self.redirects.get(interface.0 as usize).copied().unwrap_or(false)
    }

    /// Whether packets to this address that came by `rx` are for all hosts of an attached network.
    pub fn is_broadcast(&self, rx: InterfaceIndex, address: Ipv4Addr) -> bool {
        let table = self.tables.get(rx.0 as usize).copied().unwrap_or_default();
        self.broadcasts.binary_search(&(table, address)).is_ok()
    }
}
