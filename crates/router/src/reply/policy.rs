//! The state of the router that its ICMP errors depend on. The control thread publishes it as a whole, and nodes borrow
//! it for a round.

use crate::chunks::Chunks;
use crate::rate::Limit;
use crate::table_index::TableIndex;
use graph::InterfaceIndex;
use rcu::Published;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// The most errors, and TCP resets, that a worker sends unless an operator sets another limit: enough for a traceroute
/// of every host behind it at once, without a burst that fills a queue.
pub const DEFAULT_LIMIT: Limit = Limit { per_second: 1000, burst: 100 };

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// The most errors, and TCP resets, that a worker sends.
    pub limit: Limit,
    /// The source of errors when the interface by which they leave has no address: the first address of the first
    /// loopback interface that is up, else of the first interface that is up.
    pub router_id: Option<Ipv4Addr>,
    /// The same for IPv6: the first global address of that interface.
    pub router_id6: Option<Ipv6Addr>,
    /// The broadcast addresses of attached networks, each with the routing table of its interface, in order.
    pub broadcasts: Arc<Vec<(TableIndex, Ipv4Addr)>>,
    /// The routing tables of interfaces, by index; for an index beyond, the default table.
    pub tables: Arc<Vec<TableIndex>>,
    /// Interfaces whose hosts get redirects to better next hops.
    pub redirects: Switches,
    /// The same for IPv6.
    pub redirects6: Switches,
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            limit: DEFAULT_LIMIT,
            router_id: None,
            router_id6: None,
            broadcasts: Arc::default(),
            tables: Arc::default(),
            redirects: Switches::default(),
            redirects6: Switches::default(),
        }
    }
}

/// The interfaces on which something is switched on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Switches {
    /// By index.
    interfaces: Chunks<()>,
}

impl Switches {
    /// Whether it is on anywhere.
    #[inline]
    pub fn any(&self) -> bool {
        self.interfaces.any()
    }

    #[inline]
    pub fn on(&self, interface: InterfaceIndex) -> bool {
        self.interfaces.get(interface.0 as usize).is_some()
    }

    pub fn switch(&mut self, interface: InterfaceIndex, on: bool) {
        self.interfaces.set(interface.0 as usize, on.then_some(()));
    }

    /// The interfaces on which it is on.
    pub fn iter(&self) -> impl Iterator<Item = InterfaceIndex> {
        self.interfaces.numbered().map(|(number, ())| InterfaceIndex(number as u32))
    }
}

/// The policy as the control thread publishes it.
pub type SharedPolicy = Arc<Published<Policy>>;

impl Policy {
    /// Whether packets to this address that came by `rx` are directed broadcasts of an attached network.
    pub fn is_broadcast(&self, rx: InterfaceIndex, address: Ipv4Addr) -> bool {
        let table = self.tables.get(rx.0 as usize).copied().unwrap_or_default();
        self.broadcasts.binary_search(&(table, address)).is_ok()
    }
}
