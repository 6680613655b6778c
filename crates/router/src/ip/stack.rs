//! Which interfaces put a header in front of their packets, and where the header leads.

use super::fix_up::{FixUp, FixUpNumber, FixUps, in_object};
use crate::by_family::ByFamily;
use crate::interface::Interface;
use crate::interface::exit::Exit;
use crate::ip::class;
use crate::ip::control::{Ip, Path, PathAction, TableIndex};
use crate::ip::path_list::{ListId, ListRef, Of, User};
use crate::{Error, Router};
use graph::InterfaceIndex;
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use tables::object::{MAX_LONG_REWRITE, ObjectsFull};
use tables::{Leaf, Midchain, Object};
use wire::{Family, ipv4, ipv6};

/// The times to live that a header may have. One more is the highest that fits the byte.
pub const TTLS: RangeInclusive<u8> = 1..=254;

/// The edges of midchains' node for headers of each family.
pub struct OuterEdges(pub ByFamily<u16>);

/// What an interface puts in front of the IP packets that routes send onto it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Encapsulation {
    /// From its IPv4 header (without options) or IPv6 header on, as on the wire. What differs from packet to packet is
    /// up to `fix_up`.
    pub header: Vec<u8>,
    pub fix_up: Option<FixUpNumber>,
    /// Where the header's destination is looked up.
    pub table: TableIndex,
}

/// A header that cannot be put in front of packets.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncapsulationError {
    #[error("a header of {0} bytes: must have an IPv4 or IPv6 header, and at most {MAX_LONG_REWRITE} bytes in all")]
    Length(usize),
    #[error("a header that is neither IPv4 without options nor IPv6")]
    Version,
    #[error("a header with a time to live of {0}: must be {min} to {max}", min = TTLS.start(), max = TTLS.end())]
    Ttl(u8),
    #[error("the header's destination cannot be looked up: there is no such table")]
    NoTable,
    #[error("too many functions that complete headers (at most {max})", max = super::fix_up::MAX_FIX_UPS)]
    TooManyFixUps,
}

crate::codes! { EncapsulationError {
    Length => "encapsulation-length",
    Version => "encapsulation-version",
    Ttl => "encapsulation-ttl",
    NoTable => "encapsulation-no-table",
    TooManyFixUps => "encapsulation-too-many-fix-ups",
} }

impl Encapsulation {
    fn check(&self) -> Result<(IpAddr, Vec<u8>), EncapsulationError> {
        let mut header = self.header.clone();
        let least = match header.first() {
            Some(0x45) => ipv4::HEADER_LEN,
            Some(first) if first >> 4 == 6 => ipv6::HEADER_LEN,
            _ => return Err(EncapsulationError::Version),
        };
        if !(least..=MAX_LONG_REWRITE).contains(&header.len()) {
            return Err(EncapsulationError::Length(header.len()));
        }
        let check = |ttl: u8| if TTLS.contains(&ttl) { Ok(ttl + 1) } else { Err(EncapsulationError::Ttl(ttl)) };
        // `ip4-rewrite` takes one away again, as from any packet that it forwards.
        let destination = if least == ipv4::HEADER_LEN {
            let mut inside = ipv4::Header::new_unchecked(&mut header[..]);
            let ttl = check(inside.ttl())?;
            inside.set_ttl(ttl);
            inside.fill_checksum();
            inside.dst().into()
        } else {
            let mut inside = ipv6::Header::new_unchecked(&mut header[..]);
            let ttl = check(inside.hop_limit())?;
            inside.set_hop_limit(ttl);
            inside.dst().into()
        };
        Ok((destination, header))
    }
}

/// An interface's encapsulation as it is written, and the list that leads to its destination.
#[derive(Debug)]
struct Stacked {
    stated: Encapsulation,
    header: Vec<u8>,
    family: Family,
    list: ListId,
}

/// All interfaces with an encapsulation.
#[derive(Debug, Default)]
pub(crate) struct Stacks {
    by_interface: BTreeMap<InterfaceIndex, Stacked>,
    by_list: BTreeSet<(ListId, InterfaceIndex)>,
    /// Lists that could lead on, but only to themselves.
    refused: BTreeSet<ListId>,
    /// Lists that not all midchains on them follow yet.
    behind: BTreeSet<ListId>,
}

impl Stacks {
    pub fn is_stacked(&self, interface: InterfaceIndex) -> bool {
        self.by_interface.contains_key(&interface)
    }

    /// The lists that have no way because it would lead through themselves.
    pub fn refused(&self) -> impl Iterator<Item = ListId> + '_ {
        self.refused.iter().copied()
    }

    /// A list goes.
    pub fn forget(&mut self, list: ListId) {
        self.refused.remove(&list);
        self.behind.remove(&list);
    }

    /// The interfaces whose headers go where a list leads.
    pub fn on(&self, list: ListId) -> impl Iterator<Item = InterfaceIndex> + '_ {
        let all = (list, InterfaceIndex(0))..=(list, InterfaceIndex(u32::MAX));
        self.by_list.range(all).map(|(_, interface)| *interface)
    }

    /// Each interface with the list that leads to its header's destination.
    pub fn iter(&self) -> impl Iterator<Item = (InterfaceIndex, ListId)> + '_ {
        self.by_interface.iter().map(|(interface, stacked)| (*interface, stacked.list))
    }
}

fn list_ref(family: Family, table: TableIndex, paths: &[Path]) -> ListRef<'_> {
    ListRef { of: Of::Underlay(family), table, host: None, holds_itself: false, paths }
}

impl Ip {
    /// Whether a leaf leads into a tunnel whose way is a list, by however many tunnels in between.
    fn leads_into(&self, leaf: Leaf, id: ListId) -> bool {
        let onto = |leaf: Leaf| {
            let key = self.adjacency_of(leaf).filter(|key| key.is_stacked)?;
            self.stacks.by_interface.get(&key.neighbour.interface).map(|stacked| stacked.list)
        };
        let mut left: Vec<ListId> = onto(leaf).into_iter().collect();
        let mut seen = BTreeSet::new();
        while let Some(list) = left.pop() {
            if list == id {
                return true;
            }
            if seen.insert(list) {
                left.extend(self.lists.get(list).members.iter().filter_map(|(leaf, _)| onto(*leaf)));
            }
        }
        false
    }
}

impl Router {
    /// Registers a function that completes headers; `name` is for `show` commands.
    ///
    /// # Errors
    /// When there are too many.
    pub fn register_fix_up(&mut self, name: &'static str, function: FixUp) -> Result<FixUpNumber, Error> {
        self.state::<Arc<FixUps>>().add(name, function).ok_or_else(|| EncapsulationError::TooManyFixUps.into())
    }

    /// Has an interface put a header in front of all IP packets that routes send onto it, and send them on by the way
    /// to the header's destination. It replaces the header that it had before in one step.
    ///
    /// # Errors
    /// When the header makes no sense, or there is no room; then nothing has changed.
    pub fn encapsulate(&mut self, index: InterfaceIndex, stated: Encapsulation) -> Result<(), Error> {
        self.interfaces.get(index)?;
        let (destination, header) = stated.check()?;
        let family = Family::of(destination);
        if !self.ip.has_table(family, stated.table) {
            return Err(EncapsulationError::NoTable.into());
        }
        let paths = [Path::new(PathAction::Via { next_hop: destination, interface: None })];
        let list = self.acquire_list(list_ref(family, stated.table, &paths), None)?;
        self.ip.lists.add_user(list, || User::Tunnel(index));
        self.ip.stacks.by_list.insert((list, index));
        let before = self.ip.stacks.by_interface.insert(index, Stacked { stated, header, family, list });
        // First the lists, which may lead through themselves now, or not any more.
        let due = [list].into_iter().chain(self.ip.stacks.refused()).collect();
        self.refresh_lists(due);
        self.install_by(index);
        if let Some(before) = before {
            let (before_list, done) = (before.list, self.refresh_adjacencies(index, None));
            if !done {
                self.ip.stacks.by_interface.insert(index, before);
                self.refresh_adjacencies(index, None);
            }
            if before_list == list {
                // It is counted twice now.
                self.ip.lists.remove_user(list, || User::Tunnel(index));
            } else {
                self.leave_underlay(if done { before_list } else { list }, index);
            }
            if !done {
                return Err(ObjectsFull.into());
            }
        }
        Ok(())
    }

    /// Whether an interface's packets leave by others.
    pub fn is_tunnel(&self, index: InterfaceIndex) -> bool {
        self.ip.tunnels.contains_key(&index) || self.ip.stacks.is_stacked(index)
    }

    /// The name of an interface whose header's destination is looked up in a table.
    pub(crate) fn tunnel_in(&self, family: Family, table: TableIndex) -> Option<String> {
        let mut all = self.ip.stacks.by_interface.iter();
        let (index, _) = all.find(|(_, stacked)| (stacked.family, stacked.stated.table) == (family, table))?;
        self.interfaces.get(*index).ok().map(|interface| interface.name.clone())
    }

    /// The header that an interface puts in front of packets.
    pub fn encapsulation(&self, index: InterfaceIndex) -> Option<&Encapsulation> {
        self.ip.stacks.by_interface.get(&index).map(|stacked| &stacked.stated)
    }

    /// Has an interface put nothing in front of packets, for instance because it goes.
    pub fn stop_encapsulating(&mut self, index: InterfaceIndex) {
        let Some(stacked) = self.ip.stacks.by_interface.remove(&index) else { return };
        self.install_by(index);
        self.leave_underlay(stacked.list, index);
    }

    fn leave_underlay(&mut self, list: ListId, index: InterfaceIndex) {
        self.ip.stacks.by_list.remove(&(list, index));
        self.ip.lists.remove_user(list, || User::Tunnel(index));
        self.drop_unused(list);
    }

    /// Takes the ways off a list that lead into tunnels whose own way is this list: packets would get one header after
    /// the other.
    pub(crate) fn refuse_loops(&mut self, id: ListId, members: &mut Vec<(Leaf, f64)>) {
        let (stays, goes): (Vec<_>, Vec<_>) = members.drain(..).partition(|(leaf, _)| !self.ip.leads_into(*leaf, id));
        *members = stays;
        match goes.is_empty() {
            true => self.ip.stacks.refused.remove(&id),
            false => self.ip.stacks.refused.insert(id),
        };
        goes.into_iter().for_each(|(leaf, _)| self.ip.release(leaf));
    }

    /// A list leads elsewhere: the midchains on it follow. False: there is no room to change all of them now.
    pub(crate) fn restack(&mut self, list: ListId) -> bool {
        let on: Vec<InterfaceIndex> = self.ip.stacks.on(list).collect();
        let mut all = true;
        for interface in on {
            all &= self.refresh_adjacencies(interface, None);
            self.breathe();
        }
        if !all {
            self.ip.stacks.behind.insert(list);
        }
        all
    }

    /// Tries again to have all midchains follow their lists; whether they do.
    pub(crate) fn restack_rest(&mut self) -> bool {
        let behind = std::mem::take(&mut self.ip.stacks.behind);
        let mut all = true;
        for list in behind {
            all &= self.restack(list);
        }
        all
    }

    /// The object for packets of a family that get an interface's header; `None` when it has none.
    pub(crate) fn midchain_of(&self, interface: &Interface, inside: Family) -> Option<Object> {
        let stacked = self.ip.stacks.by_interface.get(&interface.index)?;
        let room = u16::MAX - MAX_LONG_REWRITE as u16;
        Some(Object::Midchain(Midchain {
            edge: self.ip.rewrite_edges(Exit::Ip(inside)).midchain?,
            out: self.state::<OuterEdges>().0[stacked.family],
            mtu: interface.ip_mtu(inside).min(room),
            interface: interface.index.0,
            next_hop: inside.unspecified(),
            rewrite: stacked.header.clone(),
            fix_up: in_object(stacked.stated.fix_up),
            next: self.ip.lists.leaf(stacked.list),
            owner: stacked.stated.table.0,
        }))
    }

    /// `next:0 flags:[fixup-NAME] BYTES` and where the header leads, for `show` commands.
    pub(crate) fn midchain_text(&self, interface: InterfaceIndex) -> Option<String> {
        let stacked = self.ip.stacks.by_interface.get(&interface)?;
        let fix_up = stacked
            .stated
            .fix_up
            .map_or(String::new(), |number| format!("fixup-{}", self.state::<Arc<FixUps>>().name(number)));
        let bytes: String = stacked.stated.header.iter().map(|byte| format!("{byte:02x}")).collect();
        let next = self.ip.lists.leaf(stacked.list);
        let to = self.leaf_of_list_text(stacked.family, next);
        Some(format!(
            "next:{} flags:[{fix_up}] {bytes}\n        stacked-on:\n          {}",
            self.state::<OuterEdges>().0[stacked.family],
            to.replace('\n', "\n          ")
        ))
    }

    /// Where a header leads. Of a midchain in turn only the interface: tunnels may lead into tunnels.
    fn leaf_of_list_text(&self, family: Family, leaf: Leaf) -> String {
        match leaf.class() {
            class::MIDCHAIN => {
                let interface = self.ip.neighbour_of(leaf).and_then(|key| self.interfaces.get(key.interface).ok());
                format!("[@{}]: midchain on {}", leaf.index(), interface.map_or("?", |interface| &interface.name))
            }
            class::MISS => "[@0]: dpo-drop".into(),
            class::LOAD_BALANCE => {
                let buckets = self.ip.buckets(leaf).unwrap_or_default();
                let mut lines = vec![format!("[@{}]: load-balance buckets:{}", leaf.index(), buckets.len())];
                let each = buckets.iter().enumerate();
                lines.extend(each.map(|(at, leaf)| format!("  [{at}] {}", self.leaf_of_list_text(family, *leaf))));
                lines.join("\n")
            }
            _ => self.adjacency_text(family, leaf),
        }
    }
}
