//! IPv6 on interfaces: whether they take part, their addresses, and the routes that those bring.

use super::MAX_ADDRESSES;
use crate::addresses::AddressError;
use crate::farewell::Parting;
use crate::interface::InterfaceError;
use crate::interface::ip6::{Ip6Error, Settings, check_link_local, link_local_network, subnet_router_anycast};
use crate::interface::standing::Detecting;
use crate::ip::class;
use crate::ip::control::{Path, PathAction, Source, TableIndex};
use crate::neighbour_key::NeighbourKey;
use crate::notice::{Change, Notice};
use crate::{Error, Router};
use graph::InterfaceIndex;
use std::net::Ipv6Addr;
use tables::Leaf;
use wire::ipv6::MIN_MTU;
use wire::{Family, Prefix, Prefix6, nd};

impl Router {
    /// Has an interface take part in IPv6 without an address of more than its link.
    ///
    /// # Errors
    /// When there is no such interface, or its link does not carry what IPv6 needs.
    pub fn enable_ip6(&mut self, index: InterfaceIndex) -> Result<(), Error> {
        self.operation(|router| router.state_ip6(index))
    }

    fn state_ip6(&mut self, index: InterfaceIndex) -> Result<(), Error> {
        self.join_ip6(index)?;
        self.interfaces.get_mut(index)?.ip6.is_stated = true;
        Ok(())
    }

    /// Has an interface no longer take part in IPv6; or only while it has addresses, when it was to without. Gives
    /// whether it still does.
    ///
    /// # Errors
    /// When there is no such interface, it does not take part, or does because it has addresses.
    pub fn disable_ip6(&mut self, index: InterfaceIndex) -> Result<bool, Error> {
        self.operation(|router| router.unstate_ip6(index))
    }

    fn unstate_ip6(&mut self, index: InterfaceIndex) -> Result<bool, Error> {
        let interface = self.interfaces.get_mut(index)?;
        let name = interface.name.clone();
        if !interface.ip6.is_enabled() {
            return Err(Ip6Error::NotEnabled { name }.into());
        }
        let was_stated = std::mem::take(&mut interface.ip6.is_stated);
        match (interface.ip6.addresses.is_empty(), was_stated) {
            (true, _) => self.leave_ip6(index),
            (false, true) => return Ok(true),
            (false, false) => return Err(Ip6Error::HasAddresses { name }.into()),
        }
        Ok(self.interfaces.get(index)?.ip6.is_enabled())
    }

    /// Chooses the link-local address of an interface, or goes back to that of its Ethernet address.
    ///
    /// # Errors
    /// When there is no such interface, it takes no part in IPv6, or the address is none of that kind.
    pub fn set_link_local(&mut self, index: InterfaceIndex, address: Option<Ipv6Addr>) -> Result<(), Error> {
        self.operation(|router| router.change_link_local(index, address))
    }

    fn change_link_local(&mut self, index: InterfaceIndex, address: Option<Ipv6Addr>) -> Result<(), Error> {
        let interface = self.interfaces.get(index)?;
        if !interface.ip6.is_enabled() {
            return Err(Ip6Error::NotEnabled { name: interface.name.clone() }.into());
        }
        address.map_or(Ok(()), check_link_local)?;
        if let Some(address) = address {
            self.allows(Change::Address { interface: index, address: address.into() })?;
        }
        let interface = self.interfaces.get_mut(index)?;
        interface.ip6.stated_link_local = address;
        self.settle_link_local(index);
        Ok(())
    }

    /// Brings the link-local address in line with the Ethernet address, or with what was stated.
    pub(crate) fn settle_link_local(&mut self, index: InterfaceIndex) {
        let Ok(interface) = self.interfaces.get_mut(index) else { return };
        if !interface.ip6.is_enabled() {
            return;
        }
        let chosen = interface.ip6.found_link_local.or(interface.ip6.stated_link_local);
        let address = chosen.unwrap_or(nd::link_local(interface.mac));
        if interface.ip6.link_local != Some(address) {
            self.part_without_waiting(index, Parting::Readdressed);
            let Ok(interface) = self.interfaces.get_mut(index) else { return };
            let before = interface.ip6.link_local.replace(address);
            before.into_iter().for_each(|before| self.end_detection(index, before));
            self.publish_facts();
            // A next hop may have been our own address, or be so now.
            self.install_by(index);
            self.detect_duplicates(index, &[address]);
            if let Some(before) = before {
                self.say(Notice::AddressRemoved { interface: index, address: link_local_network(before).into() });
            }
            self.say(Notice::AddressAdded { interface: index, address: link_local_network(address).into() });
        }
    }

    /// Has an interface take part in IPv6, if it does not.
    pub(crate) fn join_ip6(&mut self, index: InterfaceIndex) -> Result<(), Error> {
        let interface = self.interfaces.get(index)?;
        if interface.ip6.is_enabled() {
            return Ok(());
        }
        if let Some(sub) = interface.sub.as_ref().filter(|sub| sub.takes.tags().is_none()) {
            return Err(InterfaceError::NoStation { name: interface.name.clone(), takes: sub.takes }.into());
        }
        let mtu = interface.ip6_mtu;
        if mtu < MIN_MTU {
            return Err(Ip6Error::LinkTooSmall { name: interface.name.clone(), mtu }.into());
        }
        let (address, has_neighbours) = (nd::link_local(interface.mac), interface.has_neighbours());
        let on_link = match has_neighbours {
            true => Some(self.share_adjacency(NeighbourKey::new(index, Ipv6Addr::UNSPECIFIED))?),
            false => None,
        };
        let ip6 = &mut self.interfaces.get_mut(index)?.ip6;
        (ip6.link_local, ip6.on_link) = (Some(address), on_link);
        self.publish_facts();
        // Link-local next hops work from now on.
        self.install_by(index);
        self.detect_duplicates(index, &[address]);
        self.say(Notice::AddressAdded { interface: index, address: link_local_network(address).into() });
        Ok(())
    }

    /// Has an interface take part no longer, when nothing says that it should.
    pub(crate) fn leave_ip6(&mut self, index: InterfaceIndex) {
        let Ok(interface) = self.interfaces.get_mut(index) else { return };
        let Settings { is_stated, found_link_local, addresses, .. } = &interface.ip6;
        if *is_stated || found_link_local.is_some() || !addresses.is_empty() {
            return;
        }
        // From the address that hosts know it by, while it has that.
        self.part_without_waiting(index, Parting::Readdressed);
        self.part_without_waiting(index, Parting::Ip6);
        let Ok(interface) = self.interfaces.get_mut(index) else { return };
        let Settings { link_local, stated_link_local, on_link, .. } = &mut interface.ip6;
        // What was stated of an interface that takes part could not be stated again of one that does not.
        let before = link_local.take();
        *stated_link_local = None;
        let on_link = on_link.take();
        before.into_iter().for_each(|before| self.end_detection(index, before));
        self.publish_facts();
        self.forget_detached_neighbours(index);
        self.install_by(index);
        on_link.into_iter().for_each(|object| self.ip.release(Leaf::new(class::GLEAN, object)));
        if let Some(before) = before {
            self.say(Notice::AddressRemoved { interface: index, address: link_local_network(before).into() });
        }
    }

    /// Adds an address with its network; the interface takes part in IPv6 with its first.
    ///
    /// # Errors
    /// When there is no such interface, the address is no station's, or it or its network is on an interface already.
    pub fn add_address6(&mut self, index: InterfaceIndex, prefix: Prefix6) -> Result<(), Error> {
        self.check_stated_there(index, prefix.into())?;
        self.operation(|router| {
            router.put_address6(index, prefix)?;
            router.has_stated_in_table(index, Family::Ip6);
            Ok(())
        })
    }

    pub(crate) fn put_address6(&mut self, index: InterfaceIndex, prefix: Prefix6) -> Result<(), Error> {
        if self.is_now_stated(index, prefix.into())? {
            return Ok(());
        }
        self.check_new_address6(index, prefix)?;
        self.join_ip6(index)?;
        let table = self.table_of(index, Family::Ip6);
        self.interfaces.get_mut(index)?.ip6.addresses.push(prefix);
        for (route, path) in connected_routes(index, prefix) {
            if let Err(error) = self.add_route_in(table, route, Source::Interface, vec![path], true) {
                self.interfaces.get_mut(index)?.ip6.addresses.retain(|known| *known != prefix);
                self.withdraw_connected6(index, table, prefix);
                self.leave_ip6(index);
                return Err(error);
            }
        }
        self.publish_facts();
        // Next hops on the new network work from now on.
        self.install_hops_in(prefix.network().into());
        self.install_itself(index, [prefix.address(), prefix.network().address()].map(Into::into));
        self.detect_duplicates(index, &[prefix.address()]);
        self.say(Notice::AddressAdded { interface: index, address: prefix.into() });
        Ok(())
    }

    fn check_new_address6(&self, index: InterfaceIndex, prefix: Prefix6) -> Result<(), Error> {
        let interface = self.interfaces.get(index)?;
        let address = prefix.address();
        let embeds_ip4 = matches!(u128::from(address) >> 32, 0 | 0xffff);
        if address.is_multicast() || embeds_ip4 || prefix.length() == 0 {
            return Err(Ip6Error::BadAddress(prefix).into());
        }
        if address.is_unicast_link_local() {
            return Err(Ip6Error::LinkLocal(prefix).into());
        }
        self.allows(Change::Address { interface: index, address: address.into() })?;
        if interface.ip6.addresses.len() >= MAX_ADDRESSES {
            return Err(AddressError::TooMany.into());
        }
        // Who it is that has it is for the message only.
        if !self.interfaces.book.borrow().meets_network(interface.ip6.table, prefix.network().into()) {
            return Ok(());
        }
        for other in self.interfaces.iter().filter(|other| other.ip6.table == interface.ip6.table) {
            for known in &other.ip6.addresses {
                let same_address = known.address() == address;
                let overlaps = known.contains_prefix(prefix.network()) || prefix.contains_prefix(known.network());
                // Further addresses on one network of one interface are secondary ones.
                let secondary = other.index == index && known.network() == prefix.network();
                if same_address || (overlaps && !secondary) {
                    let (wanted, taken, name) = (prefix.into(), (*known).into(), other.name.clone());
                    return Err(match *known == prefix && other.index == index {
                        true => Error::AddressThere { prefix: wanted, name },
                        false => Error::AddressTaken { wanted, taken, name },
                    });
                }
            }
        }
        Ok(())
    }

    /// Removes an address. An interface whose last one goes takes part in IPv6 no longer, unless that was stated.
    ///
    /// # Errors
    /// When the interface does not have it.
    pub fn remove_address6(&mut self, index: InterfaceIndex, prefix: Prefix6) -> Result<(), Error> {
        self.operation(|router| router.take_address6(index, prefix))
    }

    fn take_address6(&mut self, index: InterfaceIndex, prefix: Prefix6) -> Result<(), Error> {
        let interface = self.interfaces.get_mut(index)?;
        let before = interface.ip6.addresses.len();
        interface.ip6.addresses.retain(|known| *known != prefix);
        if interface.ip6.addresses.len() == before {
            return Err(Error::NoSuchAddress { prefix: prefix.into(), name: interface.name.clone() });
        }
        interface.found.remove(&prefix.into());
        let table = interface.ip6.table;
        self.end_detection(index, prefix.address());
        self.publish_facts();
        self.withdraw_connected6(index, table, prefix);
        self.forget_detached_neighbours(index);
        self.install_hops_in(prefix.network().into());
        self.install_itself(index, [prefix.address(), prefix.network().address()].map(Into::into));
        let waiting = self.unresolved_in(prefix.network().into());
        if waiting > 0 {
            log::warn!("{waiting} routes wait for next hops on {}: its address is gone", prefix.network());
        }
        self.leave_ip6(index);
        self.say(Notice::AddressRemoved { interface: index, address: prefix.into() });
        Ok(())
    }

    /// Removes all addresses of an interface.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn remove_addresses6(&mut self, index: InterfaceIndex) -> Result<(), Error> {
        let addresses = self.interfaces.get(index)?.ip6.addresses.clone();
        addresses.into_iter().rev().try_for_each(|prefix| self.remove_address6(index, prefix))
    }

    /// An interface goes away.
    pub(crate) fn forget_ip6(&mut self, index: InterfaceIndex) {
        if let Err(error) = self.remove_addresses6(index) {
            log::error!("IPv6 addresses of an interface that is removed: {error}");
        }
        let Ok(interface) = self.interfaces.get_mut(index) else { return };
        interface.ip6.is_stated = false;
        interface.ip6.found_link_local = None;
        self.leave_ip6(index);
    }

    /// Removes the routes of an address that the interface has no more.
    fn withdraw_connected6(&mut self, index: InterfaceIndex, table: TableIndex, prefix: Prefix6) {
        let Ok(interface) = self.interfaces.get(index) else { return };
        let rest = interface.ip6.addresses.clone();
        for (route, path) in connected_routes(index, prefix) {
            // A secondary address on the same network keeps it.
            let still = rest.iter().any(|kept| connected_routes(index, *kept).iter().any(|(other, _)| *other == route));
            if still {
                continue;
            }
            match self.remove_route_in(table, route, Source::Interface, &[path]) {
                // An address that could not be added whole has not brought all of them.
                Ok(()) | Err(Error::NoSuchRoute(_)) => {}
                Err(error) => log::error!("route {route} is not up to date: {error}"),
            }
        }
    }
}

/// What Duplicate Address Detection is asked to do, if there is any.
impl Router {
    /// Addresses are new, or those of an interface that is usable again: whether other stations have them.
    fn detect_duplicates(&mut self, index: InterfaceIndex, addresses: &[Ipv6Addr]) {
        if let Some(detector) = self.state::<Detecting>().0 {
            (detector.begin)(self, index, addresses);
        }
    }

    /// The same for all addresses of an interface.
    pub(crate) fn detect_all_duplicates(&mut self, index: InterfaceIndex) {
        let Ok(interface) = self.interfaces.get(index) else { return };
        let of_networks = interface.ip6.addresses.iter().map(|prefix| prefix.address());
        let addresses: Vec<_> = of_networks.chain(interface.ip6.link_local).collect();
        self.detect_duplicates(index, &addresses);
    }

    /// An interface is usable no more.
    pub(crate) fn suspend_detection(&mut self, index: InterfaceIndex) {
        if let Some(detector) = self.state::<Detecting>().0 {
            (detector.suspend)(self, index);
        }
    }

    /// An address is removed from an interface.
    fn end_detection(&mut self, index: InterfaceIndex, address: Ipv6Addr) {
        if let Some(detector) = self.state::<Detecting>().0 {
            (detector.end)(self, index, address);
        }
    }
}

/// The routes that an address brings: its network, itself, and the anycast address of the network's routers.
pub(super) fn connected_routes(index: InterfaceIndex, prefix: Prefix6) -> Vec<(Prefix, Path)> {
    let mut routes = vec![local_route(index, prefix.address())];
    let anycast = subnet_router_anycast(&prefix).filter(|anycast| *anycast != prefix.address());
    routes.extend(anycast.map(|anycast| local_route(index, anycast)));
    if prefix.length() < Prefix6::MAX_LENGTH {
        routes.push((prefix.network().into(), Path::new(PathAction::Attached(index))));
    }
    routes
}

/// The route to an address of an interface itself.
pub fn local_route(index: InterfaceIndex, address: Ipv6Addr) -> (Prefix, Path) {
    (Prefix::host(address.into()), Path::new(PathAction::Local(index)))
}
