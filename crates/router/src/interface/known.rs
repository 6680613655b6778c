//! Interfaces as control knows them.

use super::book::ViewBook;
use super::exit::Edges;
use super::ip6::Ip6View;
use super::numbers::Numbers;
use super::queues::{ReceiveQueue, TransmitQueues};
use super::sub::{Demux, Sub};
use super::{InterfaceConfig, Mtus};
use super::{ip4, ip6};
use crate::Error;
use crate::table_index::TableIndex;
use drivers::{Carries, Link, TxOffloads};
use graph::MAX_INTERFACES;
use graph::{InterfaceIndex, NodeIndex};
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::net::Ipv6Addr;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use wire::ethernet::EtherType;
use wire::vlan::{LinkHeader, Tags};
use wire::{Family, MacAddress, Prefix, Prefix4, Prefix6};

/// An interface.
pub struct Interface {
    pub index: InterfaceIndex,
    pub name: String,
    pub driver: &'static str,
    pub carries: Carries,
    pub description: String,
    /// The host interface that it lies on, if any.
    pub host: Option<String>,
    /// How it was created; none: the program created it from a device.
    pub creation: Option<Box<dyn InterfaceConfig>>,
    pub mac: MacAddress,
    /// The device's own address, or the parent's. It applies again when an operator's address is removed.
    pub(crate) device_mac: MacAddress,
    /// Extra Ethernet addresses whose frames it accepts.
    pub secondary_macs: Vec<MacAddress>,
    /// Promiscuous mode: the device is asked for every frame that it sees.
    pub promiscuous: bool,
    /// Longest network-layer packet: of any protocol, of IPv4 and of IPv6. It follows from `mtus` and from what the
    /// device carries.
    pub mtu: u16,
    pub ip4_mtu: u16,
    pub ip6_mtu: u16,
    /// The same for a packet with its labels.
    pub mpls_mtu: u16,
    pub mtus: Mtus,
    /// The device's own MTU when it was opened, or the parent's.
    pub(crate) device_mtu: u16,
    /// The Ethernet address that an operator set.
    pub stated_mac: Option<MacAddress>,
    /// It has an address of its own, which is not that of the device or parent.
    pub(crate) mac_is_set: bool,
    pub admin_up: bool,
    /// Whether an operator set it up. Others may have set it otherwise since ([`super::found`]).
    pub stated_up: bool,
    /// The operators' IPv4 settings.
    pub ip4: ip4::Settings,
    /// The same for IPv6.
    pub ip6: ip6::Settings,
    /// An operator's own label for the interface, when its name does not say enough.
    pub tag: Option<String>,
    /// It accepts labelled packets.
    pub mpls: bool,
    /// It takes packets to all groups.
    pub all_groups: bool,
    pub addresses: Vec<Prefix4>,
    /// Those of its addresses of both families that no operator stated: another capability found them, such as the
    /// DHCP client.
    pub found: BTreeSet<Prefix>,
    /// It takes part in IPv4 before it has an address: a capability looks for one.
    pub awaits_address: bool,
    /// The interface whose addresses it uses, when it is unnumbered.
    pub lender: Option<InterfaceIndex>,
    /// The VLAN tags that its frames carry.
    pub tags: Tags,
    /// What makes it a sub-interface, when it is one.
    pub sub: Option<Sub>,
    /// Finds the owner of its frames; present since it first had a sub-interface.
    pub(crate) demux: Option<Arc<Demux>>,
    pub link: Box<dyn Link>,
    /// The last state that its link reported ([`super::link_watch`]).
    pub(crate) link_is_up: bool,
    pub(crate) edges: Edges,
    /// What its device completes by itself: checksums, segmentation.
    pub finishes: TxOffloads,
    /// Empty: its device receives nothing.
    pub receive_queues: Vec<ReceiveQueue>,
    pub transmit_queues: TransmitQueues,
    pub input_node: &'static str,
    pub output_node: NodeIndex,
    pub tx_node: NodeIndex,
}

impl Interface {
    /// Whether it is set up; for a sub-interface, also whether packets can leave by its parent.
    pub fn is_up(&self) -> bool {
        self.admin_up && self.sub.as_ref().is_none_or(|sub| sub.parent_up)
    }

    /// Whether packets can leave by it.
    pub fn is_usable(&self) -> bool {
        self.is_up() && self.link_is_up
    }

    /// The table of its sub-interfaces, if it ever had one.
    pub fn sub_interfaces(&self) -> Option<&Arc<Demux>> {
        self.demux.as_ref()
    }

    /// Whether nobody stated it: it is no configuration.
    pub fn is_found(&self) -> bool {
        self.sub.as_ref().is_some_and(|sub| sub.is_found)
    }

    /// Whether it had a carrier at the last look; a sub-interface has its parent's ([`Interfaces::link_up`]).
    pub fn link_up(&self) -> bool {
        self.link_is_up
    }

    /// Whether it has a wire, which could be unplugged.
    pub(crate) fn has_wire(&self) -> bool {
        !self.receive_queues.is_empty()
    }

    /// The name of a sub-interface without its number; for other interfaces, their own name.
    pub fn parent_name(&self) -> &str {
        match &self.sub {
            Some(_) => self.name.rsplit_once('.').map_or(&self.name, |(parent, _)| parent),
            None => &self.name,
        }
    }

    /// Whether it takes part in IPv4.
    pub fn is_ip4_enabled(&self) -> bool {
        !self.addresses.is_empty() || self.lender.is_some() || self.awaits_address
    }

    /// The IPv4 addresses that operators gave it.
    pub(crate) fn stated_addresses(&self) -> impl Iterator<Item = &Prefix4> {
        self.addresses.iter().filter(|prefix| !self.found.contains(&Prefix::from(**prefix)))
    }

    /// The same of IPv6.
    pub fn stated_addresses6(&self) -> impl Iterator<Item = &Prefix6> {
        self.ip6.addresses.iter().filter(|prefix| !self.found.contains(&Prefix::from(**prefix)))
    }

    /// The same, for one family.
    pub(crate) fn stated_networks(&self, family: Family) -> Box<dyn Iterator<Item = Prefix> + '_> {
        match family {
            Family::Ip4 => Box::new(self.stated_addresses().copied().map(Prefix::from)),
            Family::Ip6 => Box::new(self.stated_addresses6().copied().map(Prefix::from)),
        }
    }

    /// Its addresses of a family with their networks, without the link-local one.
    pub(crate) fn stated_and_found(&self, family: Family) -> Box<dyn Iterator<Item = Prefix> + '_> {
        match family {
            Family::Ip4 => Box::new(self.addresses.iter().copied().map(Prefix::from)),
            Family::Ip6 => Box::new(self.ip6.addresses.iter().copied().map(Prefix::from)),
        }
    }

    /// Its addresses of a family with their networks, including the link-local one.
    pub fn networks(&self, family: Family) -> Box<dyn Iterator<Item = Prefix> + '_> {
        match family {
            Family::Ip4 => Box::new(self.addresses.iter().copied().map(Prefix::from)),
            Family::Ip6 => {
                let link_local = self.ip6.link_local.map(ip6::link_local_network);
                Box::new(self.ip6.addresses.iter().copied().chain(link_local).map(Prefix::from))
            }
        }
    }

    /// The source address for IPv6 to a peer: one of the peer's scope, on the peer's network if there is one.
    pub fn address6_towards(&self, peer: Ipv6Addr) -> Option<Ipv6Addr> {
        let view = Ip6View::new(&self.ip6);
        view.address_towards(peer).or(view.used_link_local())
    }

    /// The table of its addresses of a family, and of the packets that it receives.
    pub fn table(&self, family: Family) -> TableIndex {
        match family {
            Family::Ip4 => self.ip4.table,
            Family::Ip6 => self.ip6.table,
        }
    }

    pub(crate) fn table_mut(&mut self, family: Family) -> &mut TableIndex {
        match family {
            Family::Ip4 => &mut self.ip4.table,
            Family::Ip6 => &mut self.ip6.table,
        }
    }

    /// The table that an operator stated.
    pub fn stated_table(&self, family: Family) -> TableIndex {
        match family {
            Family::Ip4 => self.ip4.stated_table,
            Family::Ip6 => self.ip6.stated_table,
        }
    }

    pub(crate) fn stated_table_mut(&mut self, family: Family) -> &mut TableIndex {
        match family {
            Family::Ip4 => &mut self.ip4.stated_table,
            Family::Ip6 => &mut self.ip6.stated_table,
        }
    }

    /// The longest packet of a family that leaves by it.
    pub fn ip_mtu(&self, family: Family) -> u16 {
        match family {
            Family::Ip4 => self.ip4_mtu,
            Family::Ip6 => self.ip6_mtu,
        }
    }

    /// Changes its Ethernet address, if the device accepts it.
    pub(super) fn change_mac(&mut self, mac: MacAddress, is_set: bool) -> Result<(), Error> {
        let before = (self.mac, self.mac_is_set);
        (self.mac, self.mac_is_set) = (mac, is_set);
        self.apply_filter().inspect_err(|_| (self.mac, self.mac_is_set) = before)
    }

    /// Whether other stations are behind it.
    pub fn has_neighbours(&self) -> bool {
        self.carries.neighbours
    }

    /// Its number among the devices of its driver: the end of the address that its device had when it was opened.
    fn device_number(&self) -> u32 {
        let [_, _, number @ ..] = self.device_mac.0;
        u32::from_be_bytes(number)
    }

    /// The link header in front of a network header that it sends to a station.
    pub fn link_header(&self, to: MacAddress, ethertype: EtherType) -> LinkHeader {
        self.tags.link_header(to, self.mac, ethertype)
    }
}

/// All interfaces, by index.
#[derive(Default)]
pub struct Interfaces {
    /// Boxed: most indices that were ever given out are free again.
    slots: Vec<Option<Box<Interface>>>,
    names: HashMap<String, InterfaceIndex>,
    /// What only one interface can have ([`InterfaceConfig::claims`]), and which interface has it.
    claims: HashMap<String, InterfaceIndex>,
    /// The sub-interfaces of each parent that has some.
    subs: HashMap<InterfaceIndex, BTreeSet<InterfaceIndex>>,
    pub book: RefCell<ViewBook>,
    /// The numbers of each driver's devices.
    devices: HashMap<&'static str, Numbers>,
    /// The numbers at the end of names and claims, by the stems before them, for stems that were asked for.
    stems: HashMap<Vec<String>, Numbers>,
    last_index: usize,
    /// How many receive queues each worker polls. Workers beyond the end poll none.
    polled: Vec<usize>,
    /// Indices that packets may still carry, the oldest first.
    pub(super) retired: VecDeque<Retired>,
}

/// Stems whose lowest free numbers are remembered; when there are more, all are found anew.
const MAX_STEMS: usize = 64;

/// Splits a name or a claim into its stem and the number at its end, if it has one.
fn numbered(name: &str) -> Option<(&str, u32)> {
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    Some((stem, name[stem.len()..].parse().ok()?))
}

/// The index of an interface that is gone.
pub(super) struct Retired {
    pub(super) index: usize,
    /// No worker processes a packet of this interface any more, and none is on its way between two workers.
    pub(super) is_settled: Arc<AtomicBool>,
    pub(super) since: Instant,
}

/// How long nodes may hold packets (pending for ARP, in reassembly) of an interface that was removed.
const HELD: Duration = Duration::from_secs(60);

impl Interfaces {
    /// # Errors
    /// When there is no interface of this index.
    pub fn get(&self, index: InterfaceIndex) -> Result<&Interface, Error> {
        self.slots.get(index.0 as usize).and_then(Option::as_deref).ok_or_else(|| unknown(index))
    }

    pub fn get_mut(&mut self, index: InterfaceIndex) -> Result<&mut Interface, Error> {
        self.book.get_mut().touch(index);
        let slot = self.slots.get_mut(index.0 as usize).and_then(Option::as_deref_mut);
        slot.ok_or_else(|| unknown(index))
    }

    /// # Errors
    /// When there is no interface of this name.
    pub fn find(&self, name: &str) -> Result<InterfaceIndex, Error> {
        self.names.get(name).copied().ok_or_else(|| Error::NoSuchInterface(name.into()))
    }

    /// Adds a new interface under its index and name.
    pub(super) fn put(&mut self, interface: Interface) {
        let (index, at) = (interface.index, interface.index.0 as usize);
        self.book.get_mut().touch(index);
        self.names.insert(interface.name.clone(), index);
        if interface.sub.is_none() {
            self.devices.entry(interface.driver).or_default().take(interface.device_number());
        }
        if let Some(sub) = &interface.sub {
            self.subs.entry(sub.parent).or_default().insert(index);
        }
        if self.slots.len() <= at {
            self.slots.resize_with(at + 1, || None);
        }
        interface.receive_queues.iter().for_each(|queue| *self.polled_by(queue.thread) += 1);
        self.slots[at] = Some(Box::new(interface));
    }

    fn polled_by(&mut self, worker: usize) -> &mut usize {
        self.polled.resize(self.polled.len().max(worker + 1), 0);
        &mut self.polled[worker]
    }

    /// How many receive queues each of so many workers polls.
    pub(super) fn polled(&self, workers: usize) -> Vec<usize> {
        (0..workers).map(|worker| self.polled.get(worker).copied().unwrap_or_default()).collect()
    }

    /// Moves a queue from one worker's count to another's.
    pub(super) fn move_queue(&mut self, from: usize, to: usize) {
        *self.polled_by(from) -= 1;
        *self.polled_by(to) += 1;
    }

    /// Removes an interface.
    pub(super) fn take(&mut self, index: InterfaceIndex) -> Option<Box<Interface>> {
        let interface = self.slots.get_mut(index.0 as usize)?.take()?;
        interface.receive_queues.iter().for_each(|queue| *self.polled_by(queue.thread) -= 1);
        self.book.get_mut().touch(index);
        self.forget_name(&interface.name);
        if interface.sub.is_none() {
            self.devices.entry(interface.driver).or_default().give_back(interface.device_number());
        }
        for claim in interface.creation.iter().flat_map(|creation| creation.claims()) {
            if self.claims.get(&claim) == Some(&index) {
                self.claims.remove(&claim);
                self.may_be_free(&claim);
            }
        }
        if let Some(sub) = &interface.sub
            && let Some(subs) = self.subs.get_mut(&sub.parent)
        {
            subs.remove(&index);
        }
        self.subs.remove(&index);
        Some(interface)
    }

    /// Renames an interface, and returns the name that it had. The new one must be free.
    pub(super) fn rename(&mut self, index: InterfaceIndex, name: &str) -> Result<String, Error> {
        let before = std::mem::replace(&mut self.get_mut(index)?.name, name.into());
        self.forget_name(&before);
        self.names.insert(name.into(), index);
        Ok(before)
    }

    fn forget_name(&mut self, name: &str) {
        self.names.remove(name);
        self.may_be_free(name);
    }

    /// A name or a claim is free now.
    fn may_be_free(&mut self, text: &str) {
        let Some((stem, number)) = numbered(text) else { return };
        let with_it = self.stems.iter_mut().filter(|(stems, _)| stems.iter().any(|one| one == stem));
        with_it.for_each(|(_, numbers)| numbers.may_be_free(number));
    }

    /// The lowest number that behind each of these stems makes neither the name of an interface nor what an interface
    /// claims.
    pub fn free_number(&mut self, stems: &[&str]) -> u32 {
        let (names, claims) = (&self.names, &self.claims);
        let is_taken = |text: String| names.contains_key(&text) || claims.contains_key(&text);
        if self.stems.len() >= MAX_STEMS {
            self.stems.clear();
        }
        let numbers = self.stems.entry(stems.iter().map(ToString::to_string).collect()).or_default();
        numbers.lowest_free(|number| !stems.iter().any(|stem| is_taken(format!("{stem}{number}"))))
    }

    /// The lowest number that no device of a driver has.
    pub fn free_device(&mut self, driver: &'static str) -> u32 {
        self.devices.entry(driver).or_default().lowest_free(|_| true)
    }

    /// Records how an interface was created.
    pub(super) fn made_by(&mut self, index: InterfaceIndex, creation: Box<dyn InterfaceConfig>) -> Result<(), Error> {
        self.claims.extend(creation.claims().into_iter().map(|claim| (claim, index)));
        self.get_mut(index)?.creation = Some(creation);
        Ok(())
    }

    /// The interface that has what only one can have.
    pub fn claimed(&self, claim: &str) -> Option<&Interface> {
        self.get(*self.claims.get(claim)?).ok()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Interface> {
        self.slots.iter().filter_map(Option::as_deref)
    }

    /// The interfaces after `last` in the order of their indices, or all.
    pub fn behind(&self, last: Option<InterfaceIndex>) -> impl Iterator<Item = &Interface> {
        let from = last.map_or(0, |last| last.0 as usize + 1);
        self.slots.get(from..).into_iter().flatten().filter_map(Option::as_deref)
    }

    pub fn sub_interfaces_of(&self, parent: InterfaceIndex) -> impl Iterator<Item = &Interface> {
        self.subs.get(&parent).into_iter().flatten().filter_map(|sub| self.get(*sub).ok())
    }

    /// The sub-interfaces of a parent after `last`, or all.
    pub fn sub_interfaces_behind(
        &self,
        parent: InterfaceIndex,
        last: Option<InterfaceIndex>,
    ) -> impl Iterator<Item = &Interface> {
        let from = last.map_or(Bound::Unbounded, Bound::Excluded);
        let subs = self.subs.get(&parent).into_iter().flat_map(move |subs| subs.range((from, Bound::Unbounded)));
        subs.filter_map(|sub| self.get(*sub).ok())
    }

    /// Whether there is a carrier; for a sub-interface, its parent's.
    pub fn link_up(&self, interface: &Interface) -> bool {
        let parent = interface.sub.as_ref().and_then(|sub| self.get(sub.parent).ok());
        parent.unwrap_or(interface).link_up()
    }

    /// The next free index after the one given out last. An index is reused only when no packet can carry it any more,
    /// and when all others have been used: a packet must not meet another interface under its own interface's index.
    pub(super) fn free_index(&mut self, now: Instant) -> Result<InterfaceIndex, Error> {
        let may_be_met = |gone: &Retired| {
            !gone.is_settled.load(Ordering::Acquire) || now.saturating_duration_since(gone.since) < HELD
        };
        while self.retired.front().is_some_and(|gone| !may_be_met(gone)) {
            self.retired.pop_front();
        }
        let all = || (self.last_index + 1..MAX_INTERFACES).chain(1..=self.last_index);
        let is_empty = |index: &usize| self.slots.get(*index).is_none_or(Option::is_none);
        // 0 stays free: it is VPP's local0, and the value of metadata that was never set.
        let mut index = all().find(is_empty);
        if self.retired.iter().any(|gone| Some(gone.index) == index) {
            let retired: HashSet<usize> = self.retired.iter().map(|gone| gone.index).collect();
            index = all().find(|index| is_empty(index) && !retired.contains(index));
        }
        self.last_index = index.ok_or(Error::TooManyInterfaces)?;
        Ok(InterfaceIndex(self.last_index as u32))
    }
}

#[cold]
fn unknown(index: InterfaceIndex) -> Error {
    Error::NoSuchInterface(format!("#{index}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_comes_back_when_no_packet_can_carry_it() {
        let mut interfaces = Interfaces { last_index: MAX_INTERFACES - 2, ..Interfaces::default() };
        let start = Instant::now();
        let settled: Vec<Arc<AtomicBool>> = (1..MAX_INTERFACES).map(|_| Arc::default()).collect();
        for (index, is_settled) in (1..MAX_INTERFACES).zip(&settled) {
            interfaces.retired.push_back(Retired { index, is_settled: is_settled.clone(), since: start });
        }
        let next = |interfaces: &mut Interfaces, seconds| {
            interfaces.free_index(start + Duration::from_secs(seconds)).map(|index| index.0).ok()
        };
        assert_eq!(next(&mut interfaces, 61), None, "a worker has not come to it");
        settled[..2].iter().for_each(|settled| settled.store(true, Ordering::Relaxed));
        assert_eq!(next(&mut interfaces, 59), None, "a node may hold one");
        assert_eq!(next(&mut interfaces, 60), Some(1));
        assert_eq!(next(&mut interfaces, 60), Some(2));
        assert_eq!(interfaces.retired.len(), MAX_INTERFACES - 3);
    }
}
