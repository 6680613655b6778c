//! How long packets may be: what a link carries, what operators allow on it, and what of
//! both counts for a protocol. The smallest that applies does.

use super::Interface;
use super::control::{MAX_MTU, MIN_MTU};
use crate::{Error, Router};
use graph::InterfaceIndex;

/// What operators set; nothing: the next one below counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mtus {
    /// The largest payload of the link's frames.
    pub link: Option<u16>,
    /// The largest network-layer packet of any protocol.
    pub packet: Option<u16>,
    /// The largest IPv4 packet.
    pub ip4: Option<u16>,
}

impl Interface {
    /// The largest payload of a frame: what was set, else what the device carries.
    pub fn link_mtu(&self) -> u16 {
        self.mtus.link.or_else(|| self.link.mtu()).unwrap_or(self.device_mtu).min(MAX_MTU)
    }

    /// What no packet may be longer than, when the device or an operator has such a bound.
    fn bound(&self) -> Option<u16> {
        let parent = self.sub.as_ref().map(|_| self.device_mtu);
        [self.mtus.link, self.link.mtu(), parent].into_iter().flatten().min()
    }

    /// Takes in what was set.
    pub(crate) fn settle_mtus(&mut self) {
        let bound = self.bound().unwrap_or(MAX_MTU);
        self.mtu = self.mtus.packet.unwrap_or(self.link_mtu()).min(bound).max(MIN_MTU);
        self.ip4_mtu = self.mtus.ip4.map_or(self.mtu, |mtu| mtu.min(self.mtu));
    }
}

fn check(mtu: Option<u16>) -> Result<(), Error> {
    match mtu {
        Some(mtu) if !(MIN_MTU..=MAX_MTU).contains(&mtu) => Err(Error::BadMtu(mtu)),
        _ => Ok(()),
    }
}

impl Router {
    /// Sets the largest payload of a link's frames, on the device as well. None: the device's
    /// own, as it was found.
    ///
    /// # Errors
    /// When there is no such interface, the value is out of range, or the device refuses; then
    /// nothing has changed.
    pub fn set_link_mtu(&mut self, index: InterfaceIndex, mtu: Option<u16>) -> Result<(), Error> {
        check(mtu)?;
        let interface = self.interfaces.get_mut(index)?;
        if interface.sub.is_some() {
            return Err(Error::NoLink { name: interface.name.clone(), parent: interface.parent_name().into() });
        }
        if mtu != interface.mtus.link {
            let wanted = mtu.unwrap_or(interface.device_mtu);
            let refused = |source| Error::LinkMtuRefused { mtu: wanted, name: interface.name.clone(), source };
            interface.link.set_mtu(wanted).map_err(refused)?;
        }
        self.change_mtus(index, |mtus| mtus.link = mtu)
    }

    /// Sets the largest network-layer packet.
    ///
    /// # Errors
    /// When there is no such interface, the value is out of range, or the link carries no
    /// packets as long as that.
    pub fn set_mtu(&mut self, index: InterfaceIndex, mtu: u16) -> Result<(), Error> {
        check(Some(mtu))?;
        let interface = self.interfaces.get(index)?;
        if let Some(bound) = interface.bound().filter(|bound| *bound < mtu) {
            return Err(Error::MtuBeyondLink { mtu, bound, name: interface.parent_name().into() });
        }
        self.change_mtus(index, |mtus| mtus.packet = Some(mtu))
    }

    /// Goes back to what the link carries.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn reset_mtu(&mut self, index: InterfaceIndex) -> Result<(), Error> {
        self.change_mtus(index, |mtus| mtus.packet = None)
    }

    /// Sets the largest IPv4 packet, or lets all protocols' count. Where that is smaller, it
    /// counts all the same.
    ///
    /// # Errors
    /// When there is no such interface or the value is out of range.
    pub fn set_ip4_mtu(&mut self, index: InterfaceIndex, mtu: Option<u16>) -> Result<(), Error> {
        check(mtu)?;
        self.change_mtus(index, |mtus| mtus.ip4 = mtu)
    }

    fn change_mtus(&mut self, index: InterfaceIndex, change: impl FnOnce(&mut Mtus)) -> Result<(), Error> {
        let interface = self.interfaces.get_mut(index)?;
        change(&mut interface.mtus);
        interface.settle_mtus();
        self.refresh_adjacencies(index, None);
        self.mtu_changed(index);
        Ok(())
    }
}
