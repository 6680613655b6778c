//! What somebody else than an operator found for an interface: a DHCP client, or Linux. It is in use like what is
//! stated, and it is no configuration.

use super::Mtus;
use super::control::check_mac;
use super::ip6::check_link_local;
use crate::notice::Change;
use crate::{Error, Router};
use graph::InterfaceIndex;
use std::net::Ipv6Addr;
use wire::{MacAddress, Prefix};

impl Router {
    /// Adds an address of either family, with its network, that nobody stated.
    ///
    /// # Errors
    /// As for one that is stated.
    pub fn add_found_address(&mut self, index: InterfaceIndex, prefix: Prefix) -> Result<(), Error> {
        self.operation(|router| {
            match prefix {
                Prefix::V4(prefix) => router.put_address(index, prefix)?,
                Prefix::V6(prefix) => router.put_address6(index, prefix)?,
            }
            router.interfaces.get_mut(index)?.found.insert(prefix);
            Ok(())
        })
    }

    /// Removes an address of either family, whether it was found or stated.
    ///
    /// # Errors
    /// When the interface does not have it.
    pub fn remove_found_address(&mut self, index: InterfaceIndex, prefix: Prefix) -> Result<(), Error> {
        match prefix {
            Prefix::V4(prefix) => self.remove_address(index, prefix),
            Prefix::V6(prefix) => self.remove_address6(index, prefix),
        }
    }

    /// An operator states an address: one that was found is stated from now on, unless its finder keeps it. Whether it
    /// was there.
    pub(crate) fn is_now_stated(&mut self, index: InterfaceIndex, prefix: Prefix) -> Result<bool, Error> {
        if !self.interfaces.get(index)?.found.contains(&prefix) || self.is_kept(index, prefix) {
            return Ok(false);
        }
        Ok(self.interfaces.get_mut(index)?.found.remove(&prefix))
    }

    /// Whether the capability that found an address keeps it: nobody else can take it away.
    pub fn is_kept(&self, index: InterfaceIndex, prefix: Prefix) -> bool {
        self.allows(Change::NoAddress { interface: index, address: prefix }).is_err()
    }

    /// Sets an interface up or down. What operators stated is in force again when they state it anew.
    ///
    /// # Errors
    /// As [`Router::set_admin`].
    pub fn follow_admin(&mut self, index: InterfaceIndex, up: bool) -> Result<(), Error> {
        self.operation(|router| router.change_admin(index, up))
    }

    /// Sets the Ethernet address; none: what is stated, or the device's own.
    ///
    /// # Errors
    /// As [`Router::set_mac`].
    pub fn follow_mac(&mut self, index: InterfaceIndex, mac: Option<MacAddress>) -> Result<(), Error> {
        mac.map_or(Ok(()), check_mac)?;
        let interface = self.interfaces.get_mut(index)?;
        let is_set = mac.is_some() || interface.stated_mac.is_some();
        let mac = mac.or(interface.stated_mac).unwrap_or(interface.device_mac);
        if interface.mac == mac {
            return Ok(());
        }
        interface.check_not_secondary(mac)?;
        interface.change_mac(mac, is_set)?;
        self.mac_changed(index);
        Ok(())
    }

    /// Sets the largest packet of any protocol; none: what is stated, or what the link carries.
    ///
    /// # Errors
    /// As [`Router::set_mtu`].
    pub fn follow_mtu(&mut self, index: InterfaceIndex, mtu: Option<u16>) -> Result<(), Error> {
        super::mtu::check(mtu)?;
        let followed = |mtus: Mtus| Mtus { found: mtu, ..mtus };
        self.check_ip6_fits(index, followed(self.interfaces.get(index)?.mtus))?;
        self.change_mtus(index, |mtus| *mtus = followed(*mtus))
    }

    /// Sets the link-local address, and enables IPv6 for it. None: IPv6 is enabled only if something else says so,
    /// with the address that was stated, or that of the Ethernet address.
    ///
    /// # Errors
    /// When there is no such interface, the address is none of that kind, or the interface cannot have IPv6.
    pub fn follow_link_local(&mut self, index: InterfaceIndex, address: Option<Ipv6Addr>) -> Result<(), Error> {
        address.map_or(Ok(()), check_link_local)?;
        self.operation(|router| {
            if address.is_some() {
                router.join_ip6(index)?;
            }
            router.interfaces.get_mut(index)?.ip6.found_link_local = address;
            router.leave_ip6(index);
            router.settle_link_local(index);
            Ok(())
        })
    }
}
