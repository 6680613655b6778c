//! What finds the neighbours of a family: ARP or Neighbor Discovery.

use super::NeighbourKey;
use crate::Router;
use crate::by_family::ByFamily;
use graph::{InterfaceIndex, NodeIndex};
use std::net::IpAddr;
use wire::{Family, MacAddress};

/// How neighbours of a family are found.
#[derive(Debug, Clone, Copy)]
pub struct Resolver {
    /// The node that holds packets for unknown neighbours ([`super::resolve`]).
    pub node: NodeIndex,
    /// Asks for a neighbour: its own Ethernet address, or all stations if that is the broadcast address.
    pub ask: fn(&Router, NeighbourKey, MacAddress),
    /// Announces one of this router's addresses on an interface.
    pub announce: fn(&Router, InterfaceIndex, IpAddr),
}

/// One for each family, from the capability that finds its neighbours.
pub type Resolvers = ByFamily<Option<Resolver>>;

impl Router {
    /// # Panics
    /// When no capability finds neighbours of this family.
    pub(super) fn resolver(&self, family: Family) -> Resolver {
        self.state::<Resolvers>()[family].expect("neighbours of both families are found by a capability")
    }

    /// Announces one of this router's addresses on an interface.
    pub(crate) fn announce(&self, interface: InterfaceIndex, address: IpAddr) {
        (self.resolver(Family::of(address)).announce)(self, interface, address);
    }
}
