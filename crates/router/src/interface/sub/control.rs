//! The control side of sub-interfaces.

use super::{Found, Vid, VlanMatch, output};
use crate::interface::Interface;
use crate::interface::InterfaceError;
use crate::interface::control::Way;
use crate::notice::Notice;
use crate::{Error, Router};
use drivers::{Carries, Device, Link, REFUSED, Transmit, TxOffloads};
use graph::{Behaviour, Buffers, InterfaceIndex, NodeIndex, Vector};
use std::sync::Arc;
use wire::ethernet::EtherType;

/// What makes an interface a sub-interface.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sub {
    pub parent: InterfaceIndex,
    /// The number after its parent's name.
    pub id: u32,
    pub takes: VlanMatch,
    /// Whether packets can leave by its parent.
    pub parent_up: bool,
    /// Whether somebody else than an operator made it, for example Linux. It is no configuration.
    pub is_found: bool,
}

impl Sub {
    /// The command that creates it.
    pub fn command(&self, parent: &str) -> String {
        if self.takes == by_number(self.id) {
            return format!("create sub-interfaces {parent} {}", self.id);
        }
        format!("create sub-interfaces {parent} {} {}", self.id, self.takes)
    }
}

/// The match of a sub-interface for which only a number is given: the VLAN of that number.
pub fn by_number(id: u32) -> VlanMatch {
    let outer = Vid::Is(u16::try_from(id).unwrap_or(u16::MAX));
    VlanMatch::Tagged { outer_type: EtherType::VLAN, outer, inner: None, exact: true }
}

/// The first number of sub-interfaces whose own number is taken: beyond those of any two tags.
const FIRST_FREE: u32 = 50_000_000;

/// The number of a sub-interface that is known by its tags alone: the VLAN identifier, and behind it the inner one in
/// four digits.
fn number_of(takes: &VlanMatch) -> Option<u32> {
    match *takes {
        VlanMatch::Tagged { outer: Vid::Is(outer), inner: None, .. } => Some(outer.into()),
        VlanMatch::Tagged { outer: Vid::Is(outer), inner: Some(Vid::Is(inner)), .. } => {
            Some(u32::from(outer) * 10_000 + u32::from(inner))
        }
        _ => None,
    }
}

/// The name of a sub-interface.
pub fn name_of(parent: &str, id: u32) -> String {
    format!("{parent}.{id}")
}

/// A sub-interface has no transmit queue: its output leads to its parent's.
struct NoQueue;

impl Transmit for NoQueue {
    fn transmit(&mut self, _: &mut Buffers, vector: &mut Vector) {
        vector.set_edges(REFUSED);
    }
}

/// The parent has the carrier.
struct NoLink;

impl Link for NoLink {
    fn is_up(&self) -> bool {
        true
    }
}

impl Router {
    /// Creates a sub-interface; it starts administratively down.
    ///
    /// # Errors
    /// When there is no such parent or it is a sub-interface itself, the name is taken, another sub-interface matches
    /// the same frames, or a table is full; then nothing has changed.
    pub fn create_sub_interface(
        &mut self,
        parent: InterfaceIndex,
        id: u32,
        takes: VlanMatch,
    ) -> Result<InterfaceIndex, Error> {
        let above = self.interfaces.get(parent)?;
        if above.sub.is_some() {
            return Err(Error::SubInterfaceOfOne(above.name.clone()));
        }
        let name = name_of(&above.name, id);
        // An operator states one that was found.
        if let Ok(index) = self.interfaces.find(&name)
            && let Ok(known) = self.interfaces.get(index)
            && known.sub.as_ref().is_some_and(|sub| sub.is_found && sub.takes == takes)
        {
            self.set_found(index, false);
            return Ok(index);
        }
        self.check_new_name(&name)?;
        if let Some(other) = above.demux.as_ref().and_then(|demux| demux.who_takes(&takes))
            && let other = self.interfaces.get(other)?
            && let Some(sub) = &other.sub
        {
            return Err(
                InterfaceError::FramesTaken { wanted: takes, takes: sub.takes, name: other.name.clone() }.into()
            );
        }
        let device = Device {
            driver: "sub-interface",
            // It is known by its tags, also above a device that has no neighbours itself.
            carries: Carries::LINK,
            input_node: "",
            description: takes.to_string(),
            host: None,
            mac: above.mac,
            mtu: above.mtu,
            finishes: TxOffloads { checksum: true, segmentation: true },
            receive: Vec::new(),
            transmit: Box::new(NoQueue),
            link: Box::new(NoLink),
        };
        let sub = Sub { parent, id, takes, parent_up: above.is_usable(), is_found: false };
        self.operation(|router| {
            let index = router.add_interface(&name, device, Way::Above(sub))?;
            if router.interfaces.get(parent)?.demux.is_none() {
                router.interfaces.get_mut(parent)?.demux = Some(Arc::default());
                router.publish_facts();
            }
            router.refresh_frames_of(index);
            Ok(index)
        })
    }

    /// Creates a sub-interface that no operator stated, under a number that follows from its tags, unless it is taken.
    /// It is stated when an operator states anything about it.
    ///
    /// # Errors
    /// As [`Router::create_sub_interface`].
    pub fn create_found_sub_interface(
        &mut self,
        parent: InterfaceIndex,
        takes: VlanMatch,
    ) -> Result<InterfaceIndex, Error> {
        let above = self.interfaces.get(parent)?.name.clone();
        let is_free = |id: &u32| self.interfaces.find(&name_of(&above, *id)).is_err();
        let id = number_of(&takes).filter(is_free).or_else(|| (FIRST_FREE..).find(is_free)).unwrap_or(FIRST_FREE);
        self.operation(|router| {
            let index = router.create_sub_interface(parent, id, takes)?;
            router.set_found(index, true);
            Ok(index)
        })
    }

    fn set_found(&mut self, index: InterfaceIndex, is_found: bool) {
        if let Ok(Interface { sub: Some(sub), .. }) = self.interfaces.get_mut(index) {
            sub.is_found = is_found;
        }
    }

    /// An operator stated something about the interface of this name. If it is one that was found, it is stated, too.
    pub fn is_stated_with(&mut self, name: &str) {
        let found = self.interfaces.find(name).ok();
        let found = found.filter(|index| self.interfaces.get(*index).is_ok_and(Interface::is_found));
        if let Some(index) = found {
            self.set_found(index, false);
        }
    }

    /// Removes a sub-interface.
    ///
    /// # Errors
    /// When it is not a sub-interface.
    pub fn delete_sub_interface(&mut self, index: InterfaceIndex) -> Result<(), Error> {
        let interface = self.interfaces.get(index)?;
        if interface.sub.is_none() {
            return Err(Error::NoSubInterface(interface.name.clone()));
        }
        self.delete_interface(index)
    }

    /// Registers the output side of a sub-interface: its own node. After it comes its parent's output and device.
    pub(crate) fn register_sub_output(
        &mut self,
        name: &str,
        index: InterfaceIndex,
        parent: InterfaceIndex,
    ) -> Result<(NodeIndex, NodeIndex), Error> {
        let above = self.interfaces.get(parent)?;
        let (next, tx_node) = (format!("{}-output", above.name), above.tx_node);
        let (view, tx) = (self.view.clone(), self.counters.tx.clone());
        let node = self.graph.register(output::spec(name), move |_| {
            Behaviour::Map(Box::new(output::SubOutput::new(index, view.clone(), tx.clone())))
        })?;
        let edge = self.graph.connect(node, &next).inspect_err(|_| self.graph.remove(node))?;
        assert_eq!(edge, output::PARENT);
        Ok((tx_node, node))
    }

    /// Updates the parent's table with a sub-interface: its index, state and address.
    fn refresh_frames_of(&self, index: InterfaceIndex) {
        let Ok(interface) = self.interfaces.get(index) else { return };
        let Some(sub) = &interface.sub else { return };
        let Ok(parent) = self.interfaces.get(sub.parent) else { return };
        let Some(demux) = &parent.demux else { return };
        let own_mac = interface.mac != parent.mac;
        demux.set(&sub.takes, Found::new(index, &sub.takes, interface.admin_up, own_mac));
    }

    /// Removes a sub-interface from its parent's table: its frames have no owner any more.
    pub(crate) fn forget_frames_of(&self, sub: &Sub) {
        if let Some(demux) = self.interfaces.get(sub.parent).ok().and_then(|parent| parent.demux.as_ref()) {
            demux.clear(&sub.takes);
        }
    }

    /// Applies a change of an interface's state. Returns the interface itself and the sub-interfaces that follow it,
    /// each with whether it is up now.
    pub(crate) fn state_changed(&mut self, index: InterfaceIndex) -> Vec<(InterfaceIndex, bool)> {
        let Ok(interface) = self.interfaces.get(index) else { return Vec::new() };
        let up = interface.is_usable();
        let mut changed = vec![(index, interface.is_up())];
        for sub in self.subs_of(index) {
            let Ok(interface) = self.interfaces.get_mut(sub) else { continue };
            if let Some(sub) = &mut interface.sub {
                sub.parent_up = up;
            }
            if interface.admin_up {
                changed.push((sub, up));
            }
        }
        self.refresh_frames_of(index);
        changed
    }

    fn subs_of(&self, parent: InterfaceIndex) -> Vec<InterfaceIndex> {
        self.interfaces.sub_interfaces_of(parent).map(|sub| sub.index).collect()
    }

    /// Applies a change of an interface's Ethernet address. The interface, and sub-interfaces without an address of
    /// their own, send from the new one.
    pub(crate) fn mac_changed(&mut self, index: InterfaceIndex) {
        let changed = self.operation(|router| router.use_new_mac(index));
        // Neighbours that know the old address learn the new one. An address that was leased to the old one is gone.
        changed.into_iter().for_each(|index| self.announce_all(index));
    }

    /// Returns the interfaces that have another address now.
    fn use_new_mac(&mut self, index: InterfaceIndex) -> Vec<InterfaceIndex> {
        let Ok(mac) = self.interfaces.get(index).map(|interface| interface.mac) else { return Vec::new() };
        let mut changed = vec![index];
        for sub in self.subs_of(index) {
            let Ok(interface) = self.interfaces.get_mut(sub) else { continue };
            interface.device_mac = mac;
            if !interface.mac_is_set {
                interface.mac = mac;
                changed.push(sub);
            }
        }
        // After a change of the parent's address, a sub-interface's own address may equal it, or not any more.
        self.subs_of(index).into_iter().chain([index]).for_each(|sub| self.refresh_frames_of(sub));
        self.publish_facts();
        for index in changed.iter().copied() {
            self.settle_link_local(index);
            self.refresh_adjacencies(index, None);
        }
        changed.iter().for_each(|index| self.say(Notice::Mac(*index)));
        changed
    }

    /// Applies a change of an interface's MTU: its sub-interfaces have the same or a lower one.
    pub(crate) fn mtu_changed(&mut self, index: InterfaceIndex) {
        let Ok(mtu) = self.interfaces.get(index).map(|interface| interface.mtu) else { return };
        let subs = self.subs_of(index);
        for sub in subs.iter().copied() {
            let Ok(interface) = self.interfaces.get_mut(sub) else { continue };
            interface.device_mtu = mtu;
            interface.settle_mtus();
            self.refresh_adjacencies(sub, None);
        }
        std::iter::once(index).chain(subs).for_each(|index| self.say(Notice::Mtu(index)));
    }

    /// The sub-interfaces of an interface, with their output nodes, and with their names if the interface is called
    /// `name`.
    pub(crate) fn names_below(&self, index: InterfaceIndex, name: &str) -> Vec<(InterfaceIndex, NodeIndex, String)> {
        let renamed = |sub: &Interface| {
            let id = sub.sub.as_ref().map_or(0, |sub| sub.id);
            (sub.index, sub.output_node, name_of(name, id))
        };
        self.interfaces.sub_interfaces_of(index).map(renamed).collect()
    }
}
