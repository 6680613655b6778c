//! How long packets may be: what a link carries, what operators allow on it, and what of
//! both counts for a protocol. The smallest that applies does.

use super::Interface;
use super::control::{MAX_MTU, MIN_MTU};
use super::ip6::Ip6Error;
use crate::interface::InterfaceError;
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
    /// The largest IPv6 packet.
    pub ip6: Option<u16>,
    /// The largest packet with its labels.
    pub mpls: Option<u16>,
    /// Another capability found that this is the largest packet of any protocol: it goes before `packet`.
    pub found: Option<u16>,
}

impl Interface {
    /// The largest payload of a frame: what the device carries, else what was set.
    pub fn link_mtu(&self) -> u16 {
        self.link.mtu().or(self.mtus.link).unwrap_or(self.device_mtu).min(MAX_MTU)
    }

    /// What no packet may be longer than, when the device or an operator has such a bound.
    fn bound(&self) -> Option<u16> {
        let parent = self.sub.as_ref().map(|_| self.device_mtu);
        [self.mtus.link, self.link.mtu(), parent].into_iter().flatten().min()
    }

    /// Takes in what was set.
    pub(crate) fn settle_mtus(&mut self) {
        let bound = self.bound().unwrap_or(MAX_MTU);
        self.mtu = self.mtus.found.or(self.mtus.packet).unwrap_or(self.link_mtu()).min(bound).max(MIN_MTU);
        self.ip4_mtu = self.mtus.ip4.map_or(self.mtu, |mtu| mtu.min(self.mtu));
        self.ip6_mtu = self.mtus.ip6.map_or(self.mtu, |mtu| mtu.min(self.mtu));
        self.mpls_mtu = self.mtus.mpls.map_or(self.mtu, |mtu| mtu.min(self.mtu));
    }
}

pub(super) fn check(mtu: Option<u16>) -> Result<(), Error> {
    match mtu {
        Some(mtu) if !(MIN_MTU..=MAX_MTU).contains(&mtu) => Err(InterfaceError::BadMtu(mtu).into()),
        _ => Ok(()),
    }
}

impl Router {
    /// Sets the largest payload of a link's frames, on the device as well. None: the device's
    /// own, as it was found.
    ///
    /// # Errors
    /// When there is no such interface, the value is out of range or too small for IPv6 on it, or the device refuses;
    /// then nothing has changed.
    pub fn set_link_mtu(&mut self, index: InterfaceIndex, mtu: Option<u16>) -> Result<(), Error> {
        check(mtu)?;
        let interface = self.interfaces.get_mut(index)?;
        if interface.sub.is_some() {
            return Err(Error::NoLink { name: interface.name.clone(), parent: interface.parent_name().into() });
        }
        let wanted = mtu.unwrap_or(interface.device_mtu);
        self.check_ip6_fits(index, Mtus { link: Some(wanted), ..self.interfaces.get(index)?.mtus })?;
        let interface = self.interfaces.get_mut(index)?;
        // Set again, too: the device may have another by now.
        if mtu.is_some() || interface.mtus.link.is_some() {
            let refused = |source| Error::LinkMtuRefused { mtu: wanted, name: interface.name.clone(), source };
            interface.link.set_mtu(wanted).map_err(refused)?;
        }
        self.change_mtus(index, |mtus| mtus.link = mtu)
    }

    /// Sets the largest network-layer packet. Where the link carries less, that counts as long as
    /// it does: so links may change, and a configuration be stated, in any order.
    ///
    /// # Errors
    /// When there is no such interface, or the value is out of range or too small for IPv6 on it.
    pub fn set_mtu(&mut self, index: InterfaceIndex, mtu: u16) -> Result<(), Error> {
        check(Some(mtu))?;
        let stated = |mtus: Mtus| Mtus { packet: Some(mtu), found: None, ..mtus };
        self.check_ip6_fits(index, stated(self.interfaces.get(index)?.mtus))?;
        self.change_mtus(index, |mtus| *mtus = stated(*mtus))
    }

    /// Why an interface does not take packets as long as operators said, when it does not.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn mtu_advice(&self, index: InterfaceIndex) -> Result<Option<String>, Error> {
        let interface = self.interfaces.get(index)?;
        let (name, parent) = (&interface.name, interface.parent_name());
        let Some(wanted) = interface.mtus.packet.filter(|wanted| *wanted > interface.mtu) else { return Ok(None) };
        let bound = interface.mtu;
        Ok(Some(match interface.sub {
            Some(_) => format!(
                "{name} takes packets of up to {bound} bytes for now, as its parent {parent} does: see 'set \
                 interface mtu \
                 {wanted} {parent}' and 'set interface mtu packet {wanted} {parent}'\n"
            ),
            None => format!(
                "{name} takes packets of up to {bound} bytes for now, as its link does: 'set interface mtu {wanted} \
                 {name}' \
                 changes the link\n"
            ),
        }))
    }

    /// Goes back to what the link carries.
    ///
    /// # Errors
    /// When there is no such interface.
    pub fn reset_mtu(&mut self, index: InterfaceIndex) -> Result<(), Error> {
        self.change_mtus(index, |mtus| (mtus.packet, mtus.found) = (None, None))
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

    /// The same of IPv6, whose packets every link is to carry when they have 1280 bytes (RFC 8200 section 5).
    ///
    /// # Errors
    /// When there is no such interface or the value is out of range.
    pub fn set_ip6_mtu(&mut self, index: InterfaceIndex, mtu: Option<u16>) -> Result<(), Error> {
        if let Some(mtu) = mtu.filter(|mtu| *mtu < wire::ipv6::MIN_MTU) {
            return Err(Error::BadIp6Mtu(mtu));
        }
        check(mtu)?;
        self.change_mtus(index, |mtus| mtus.ip6 = mtu)
    }

    /// The same of packets with their labels.
    ///
    /// # Errors
    /// When there is no such interface or the value is out of range.
    pub fn set_mpls_mtu(&mut self, index: InterfaceIndex, mtu: Option<u16>) -> Result<(), Error> {
        check(mtu)?;
        self.change_mtus(index, |mtus| mtus.mpls = mtu)
    }

    /// Whether IPv6 could stay on an interface, and on those on it, with other settings (RFC 8200 section 5).
    pub(super) fn check_ip6_fits(&self, index: InterfaceIndex, mtus: Mtus) -> Result<(), Error> {
        let interface = self.interfaces.get(index)?;
        // A device that is to carry something else does so then.
        let carried = interface.sub.as_ref().map(|_| interface.device_mtu).or(mtus.link).or(interface.link.mtu());
        let packet = |mtus: &Mtus| mtus.found.or(mtus.packet);
        let within = |mtus: &Mtus, most: u16| packet(mtus).unwrap_or(most).min(most);
        let mtu = within(&mtus, carried.unwrap_or_else(|| interface.link_mtu().max(packet(&mtus).unwrap_or(0))));
        let subs = self.interfaces.sub_interfaces_of(index).map(|sub| (sub, within(&sub.mtus, mtu), sub.mtus.ip6));
        for (interface, mtu, ip6) in std::iter::once((interface, mtu, mtus.ip6)).chain(subs) {
            let mtu = ip6.unwrap_or(mtu).min(mtu);
            if interface.ip6.is_enabled() && mtu < wire::ipv6::MIN_MTU {
                return Err(Ip6Error::WouldNotFit { name: interface.name.clone(), mtu }.into());
            }
        }
        Ok(())
    }

    pub(super) fn change_mtus(&mut self, index: InterfaceIndex, change: impl FnOnce(&mut Mtus)) -> Result<(), Error> {
        let interface = self.interfaces.get_mut(index)?;
        change(&mut interface.mtus);
        interface.settle_mtus();
        self.refresh_adjacencies(index, None);
        self.mtu_changed(index);
        Ok(())
    }
}
