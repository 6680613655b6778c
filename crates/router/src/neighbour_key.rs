//! How neighbours are named.

use graph::InterfaceIndex;
use std::net::IpAddr;
use wire::Family;

/// A neighbour: an address on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NeighbourKey {
    pub interface: InterfaceIndex,
    pub address: IpAddr,
}

impl NeighbourKey {
    pub fn new(interface: InterfaceIndex, address: impl Into<IpAddr>) -> NeighbourKey {
        NeighbourKey { interface, address: address.into() }
    }

    pub fn family(&self) -> Family {
        Family::of(self.address)
    }
}
