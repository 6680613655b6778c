//! Which frames an interface asks its device for: those for its own address, for extra ones,
//! for groups; or all.

use super::Interface;
use crate::interface::InterfaceError;
use crate::{Error, Router};
use drivers::StationFilter;
use graph::InterfaceIndex;
use wire::MacAddress;

/// Most extra addresses of an interface.
pub const MAX_SECONDARY_MACS: usize = 16;

impl Interface {
    fn filter(&self) -> StationFilter {
        let stations = std::iter::once(self.mac).chain(self.secondary_macs.iter().copied()).collect();
        StationFilter { stations, promiscuous: self.promiscuous }
    }

    /// An address is an interface's own or an extra one.
    pub(super) fn check_not_secondary(&self, mac: MacAddress) -> Result<(), Error> {
        match self.secondary_macs.contains(&mac) {
            true => Err(Error::MacIsSecondary { mac, name: self.name.clone() }),
            false => Ok(()),
        }
    }

    /// What a device brings is set where the device is.
    fn check_has_device(&self) -> Result<(), Error> {
        match self.sub.is_some() {
            true => Err(Error::NoDevice { name: self.name.clone(), parent: self.parent_name().to_string() }),
            false => Ok(()),
        }
    }

    /// Has the device bring what the interface takes.
    pub(super) fn apply_filter(&mut self) -> Result<(), Error> {
        let filter = self.filter();
        self.link.set_filter(&filter).map_err(|source| Error::Device { name: self.name.clone(), source })
    }
}

impl Router {
    /// Has an interface take frames for another address, too, or no longer.
    ///
    /// # Errors
    /// When there is no such interface, the address is no station's, it is there already or not
    /// there, there are too many, or the device refuses; then nothing has changed.
    pub fn set_secondary_mac(&mut self, index: InterfaceIndex, mac: MacAddress, present: bool) -> Result<(), Error> {
        let interface = self.interfaces.get_mut(index)?;
        interface.check_has_device()?;
        let name = || interface.name.clone();
        let known = interface.secondary_macs.contains(&mac);
        match present {
            true if mac.is_multicast() || mac.is_zero() => return Err(Error::BadInterfaceMac(mac)),
            true if known || mac == interface.mac => return Err(Error::MacThere { mac, name: name() }),
            true if interface.secondary_macs.len() >= MAX_SECONDARY_MACS => {
                return Err(InterfaceError::TooManyMacs(name()).into());
            }
            false if !known => return Err(Error::NoSuchMac { mac, name: name() }),
            _ => {}
        }
        let before = interface.secondary_macs.clone();
        match present {
            true => interface.secondary_macs.push(mac),
            false => interface.secondary_macs.retain(|other| *other != mac),
        }
        if let Err(error) = interface.apply_filter() {
            interface.secondary_macs = before;
            return Err(error);
        }
        self.publish_facts();
        Ok(())
    }

    /// Has the device bring every frame that it sees, or only those that the interface takes.
    ///
    /// # Errors
    /// When there is no such interface or the device refuses; then nothing has changed.
    pub fn set_promiscuous(&mut self, index: InterfaceIndex, promiscuous: bool) -> Result<(), Error> {
        let interface = self.interfaces.get_mut(index)?;
        interface.check_has_device()?;
        let before = std::mem::replace(&mut interface.promiscuous, promiscuous);
        interface.apply_filter().inspect_err(|_| interface.promiscuous = before)
    }
}
