//! IPv4 addresses of interfaces.

use super::MAX_ADDRESSES;
use crate::addresses::AddressError;
use crate::interface::InterfaceError;
use crate::ip::control::{Path, PathAction, Source};
use crate::notice::{Change, Notice};
use crate::{Error, Router};
use graph::InterfaceIndex;
use wire::{Family, Prefix, Prefix4};

impl Router {
    /// Adds an address with its network. The first one is the primary.
    ///
    /// # Errors
    /// When there is no such interface, the address is no host's, or it or its network is
    /// on an interface already.
    pub fn add_address(&mut self, index: InterfaceIndex, prefix: Prefix4) -> Result<(), Error> {
        self.check_stated_there(index, prefix.into())?;
        self.operation(|router| {
            router.put_address(index, prefix)?;
            router.has_stated_in_table(index, Family::Ip4);
            Ok(())
        })
    }

    pub(crate) fn put_address(&mut self, index: InterfaceIndex, prefix: Prefix4) -> Result<(), Error> {
        if self.is_now_stated(index, prefix.into())? {
            return Ok(());
        }
        self.check_new_address(index, prefix)?;
        let (up, table) = (self.interfaces.get(index)?.is_up(), self.table_of(index, Family::Ip4));
        self.interfaces.get_mut(index)?.addresses.push(prefix);
        for (route, path) in connected_routes(index, prefix) {
            if let Err(error) = self.add_route_in(table, route, Source::Interface, vec![path], true) {
                self.interfaces.get_mut(index)?.addresses.retain(|known| *known != prefix);
                self.withdraw_connected(index, prefix);
                return Err(error);
            }
        }
        self.publish_facts();
        // Next hops on the new network work from now on.
        self.install_hops_in(prefix.network().into());
        self.install_itself(index, [prefix.address().into()]);
        if up {
            self.announce(index, prefix.address().into());
        }
        self.say(Notice::AddressAdded { interface: index, address: prefix.into() });
        Ok(())
    }

    /// Refuses an address that an interface cannot have as things stand.
    pub fn check_new_address(&self, index: InterfaceIndex, prefix: Prefix4) -> Result<(), Error> {
        let interface = self.interfaces.get(index)?;
        self.check_borrows_nothing(interface)?;
        check_host_address(prefix)?;
        self.allows(Change::Address { interface: index, address: prefix.address().into() })?;
        if let Some(sub) = interface.sub.as_ref().filter(|sub| sub.takes.tags().is_none()) {
            return Err(InterfaceError::NoStation { name: interface.name.clone(), takes: sub.takes }.into());
        }
        if interface.addresses.len() >= MAX_ADDRESSES {
            return Err(AddressError::TooMany.into());
        }
        // Who it is that has it is for the message only.
        if !self.interfaces.book.borrow().meets_network(interface.ip4.table, prefix.network().into()) {
            return Ok(());
        }
        for other in self.interfaces.iter().filter(|other| other.ip4.table == interface.ip4.table) {
            for known in &other.addresses {
                let same_address = known.address() == prefix.address();
                let overlaps = known.contains_prefix(prefix.network()) || prefix.contains_prefix(known.network());
                // Further addresses on one network of one interface are secondary ones.
                let secondary = other.index == index && known.network() == prefix.network();
                if same_address || (overlaps && !secondary) {
                    return Err(match *known == prefix && other.index == index {
                        true => Error::AddressThere { prefix: prefix.into(), name: other.name.clone() },
                        false => Error::AddressTaken {
                            wanted: prefix.into(),
                            taken: (*known).into(),
                            name: other.name.clone(),
                        },
                    });
                }
            }
        }
        Ok(())
    }

    /// Removes an address.
    ///
    /// # Errors
    /// When the interface does not have it.
    pub fn remove_address(&mut self, index: InterfaceIndex, prefix: Prefix4) -> Result<(), Error> {
        self.operation(|router| router.take_address(index, prefix))
    }

    fn take_address(&mut self, index: InterfaceIndex, prefix: Prefix4) -> Result<(), Error> {
        self.interfaces.get(index)?;
        self.allows(Change::NoAddress { interface: index, address: prefix.into() })?;
        let interface = self.interfaces.get_mut(index)?;
        let before = interface.addresses.len();
        interface.addresses.retain(|known| *known != prefix);
        if interface.addresses.len() == before {
            return Err(Error::NoSuchAddress { prefix: prefix.into(), name: interface.name.clone() });
        }
        interface.found.remove(&prefix.into());
        self.publish_facts();
        self.withdraw_connected(index, prefix);
        self.forget_detached_neighbours(index);
        self.install_hops_in(prefix.network().into());
        self.install_itself(index, [prefix.address().into()]);
        let waiting = self.unresolved_in(prefix.network().into());
        if waiting > 0 {
            log::warn!("{waiting} routes wait for next hops on {}: its address is gone", prefix.network());
        }
        self.say(Notice::AddressRemoved { interface: index, address: prefix.into() });
        Ok(())
    }

    /// Removes all addresses that operators gave an interface.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn remove_addresses(&mut self, index: InterfaceIndex) -> Result<(), Error> {
        // The secondary ones first, so that the primary one does not change under them.
        let addresses: Vec<Prefix4> = self.interfaces.get(index)?.stated_addresses().copied().collect();
        addresses.into_iter().rev().try_for_each(|prefix| self.remove_address(index, prefix))
    }

    /// Removes the routes of an address that the interface has no more.
    fn withdraw_connected(&mut self, index: InterfaceIndex, prefix: Prefix4) {
        let Ok(interface) = self.interfaces.get(index) else { return };
        let (rest, interface_table) = (interface.addresses.clone(), interface.ip4.table);
        for (route, path) in connected_routes(index, prefix) {
            // A secondary address on the same network keeps it.
            let still = rest.iter().any(|kept| connected_routes(index, *kept).iter().any(|(other, _)| *other == route));
            if still {
                continue;
            }
            match self.remove_route_in(interface_table, route, Source::Interface, &[path]) {
                // An address that could not be added whole has not brought all of them.
                Ok(()) | Err(Error::NoSuchRoute(_)) => {}
                Err(error) => log::error!("route {route} is not up to date: {error}"),
            }
        }
    }

    /// Learned neighbours that are on no network of the interface any more.
    pub(crate) fn forget_detached_neighbours(&mut self, index: InterfaceIndex) {
        let Ok(interface) = self.interfaces.get(index) else { return };
        let networks: Vec<Prefix> = Family::ALL.into_iter().flat_map(|family| interface.networks(family)).collect();
        let keys: Vec<_> = self
            .neighbours
            .of_interface(index)
            .filter(|(key, neighbour)| {
                !neighbour.state.is_static() && !networks.iter().any(|network| network.contains(key.address))
            })
            .map(|(key, _)| *key)
            .collect();
        for key in keys {
            let _ = self.remove_neighbour(key);
            self.breathe();
        }
    }
}

/// RFC 1812 5.3.7: addresses that no host may have.
fn check_host_address(prefix: Prefix4) -> Result<(), Error> {
    let address = prefix.address();
    let first = address.octets()[0];
    let is_host = first != 0 && first < 224 && !address.is_loopback();
    let is_edge = prefix.length() < 31 && (address == prefix.first() || address == prefix.last());
    if is_host && prefix.length() > 0 && !is_edge { Ok(()) } else { Err(Error::BadAddress(prefix.into())) }
}

/// The routes that an address brings: its network, itself, and, where the network has
/// them, its first and last address (RFC 3021: /31 has none).
pub(super) fn connected_routes(index: InterfaceIndex, prefix: Prefix4) -> Vec<(Prefix4, Path)> {
    let host = |address| Prefix4::new(address, 32).expect("32 is a length");
    let mut routes = vec![(host(prefix.address()), Path::new(PathAction::Local(index)))];
    if prefix.length() < 32 {
        routes.push((prefix.network(), Path::new(PathAction::Attached(index))));
    }
    if prefix.length() < 31 {
        routes.push((host(prefix.first()), Path::new(PathAction::Drop)));
        routes.push((host(prefix.last()), Path::new(PathAction::Broadcast(index))));
    }
    routes
}
