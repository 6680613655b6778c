//! Addresses of interfaces, and the routes that they bring.

mod ip4;
mod ip6;

pub use ip6::local_route;

use crate::Router;
use crate::interface::standing::Standing;
use crate::ip::control::Path;
use graph::InterfaceIndex;
use std::collections::BTreeMap;
use std::net::IpAddr;
use wire::{Family, Prefix};

/// Most addresses of an interface, of each family.
pub const MAX_ADDRESSES: usize = 64;

/// Why an interface cannot have an address.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    #[error("too many addresses on one interface (at most {max})", max = MAX_ADDRESSES)]
    TooMany,
}

crate::codes! { AddressError {
    TooMany => "address-too-many",
} }

impl Router {
    /// The routes that all addresses of an interface bring, each once.
    pub(crate) fn connected_of(&self, index: InterfaceIndex, family: Family) -> BTreeMap<Prefix, Path> {
        let Ok(interface) = self.interfaces.get(index) else { return BTreeMap::new() };
        match family {
            Family::Ip4 => {
                let routes = interface.addresses.iter().flat_map(|prefix| ip4::connected_routes(index, *prefix));
                routes.map(|(prefix, path)| (prefix.into(), path)).collect()
            }
            Family::Ip6 => {
                let is_ours = |address: IpAddr| match address {
                    IpAddr::V6(address) => {
                        !matches!(interface.ip6.standing.get(&address), Some(Standing::Duplicate(_)))
                    }
                    IpAddr::V4(_) => true,
                };
                let routes = interface.ip6.addresses.iter().flat_map(|prefix| ip6::connected_routes(index, *prefix));
                routes.filter(|(prefix, _)| is_ours(prefix.address())).collect()
            }
        }
    }

    /// The addresses of an interface are in another table: next hops on their networks are found there.
    pub(crate) fn addresses_moved(&mut self, index: InterfaceIndex, family: Family) {
        let Ok(interface) = self.interfaces.get(index) else { return };
        let networks: Vec<Prefix> = interface.stated_and_found(family).map(Prefix::network).collect();
        networks.into_iter().for_each(|network| self.install_hops_in(network));
    }
}
