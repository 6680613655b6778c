//! Indexes over all interfaces, updated so that a change of one interface costs the same however many there are. They
//! hold the table of views, the views that changed since it was published, and what is looked up across interfaces.

use super::{Interface, InterfaceView, Interfaces, ViewTable};
use crate::table_index::TableIndex;
use graph::InterfaceIndex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use wire::{Family, Prefix};

#[derive(Default)]
pub struct ViewBook {
    /// Interfaces that may have changed since views were published.
    touched: BTreeSet<InterfaceIndex>,
    table: ViewTable,
    /// For each unnumbered interface, the one whose addresses it uses. `borrowers` holds the same pairs, by lender
    /// first.
    lenders: HashMap<InterfaceIndex, InterfaceIndex>,
    borrowers: BTreeSet<(InterfaceIndex, InterfaceIndex)>,
    /// By family and routing table: the interfaces that are up and take part in it.
    members: [BTreeMap<TableIndex, BTreeSet<InterfaceIndex>>; Family::ALL.len()],
    /// By family: the interfaces that are up and have addresses of their own, loopbacks first.
    speakers: [BTreeSet<(bool, InterfaceIndex)>; Family::ALL.len()],
    /// Each interface's networks, with their tables.
    networks: HashMap<InterfaceIndex, Vec<(TableIndex, Prefix)>>,
    /// All networks by their first address, each with its last address and its interface. The networks of one table do
    /// not overlap.
    by_first: BTreeMap<(TableIndex, IpAddr), (IpAddr, InterfaceIndex)>,
    /// The broadcast addresses of the IPv4 networks, in order.
    broadcasts: Arc<Vec<(TableIndex, Ipv4Addr)>>,
    /// The IPv4 tables of interfaces, by index, up to the last interface outside the default table.
    tables: Arc<Vec<TableIndex>>,
}

impl ViewBook {
    /// Notes that an interface may change, was created, or is removed.
    pub fn touch(&mut self, index: InterfaceIndex) {
        self.touched.insert(index);
    }

    /// Takes the interfaces that may have changed: those that were touched, and those that borrow their addresses.
    pub fn take_touched(&mut self, interfaces: &Interfaces) -> BTreeSet<InterfaceIndex> {
        let mut touched = std::mem::take(&mut self.touched);
        for index in &touched {
            let lender = interfaces.get(*index).ok().and_then(|interface| interface.lender);
            let before = match lender {
                Some(lender) => self.lenders.insert(*index, lender),
                None => self.lenders.remove(index),
            };
            before.map(|before| self.borrowers.remove(&(before, *index)));
            self.borrowers.extend(lender.map(|lender| (lender, *index)));
        }
        let more: Vec<_> = touched.iter().flat_map(|lender| self.borrowers_of(*lender)).collect();
        touched.extend(more);
        touched
    }

    /// The interfaces that borrow another's addresses, as of the last call of `take_touched`.
    fn borrowers_of(&self, lender: InterfaceIndex) -> impl Iterator<Item = InterfaceIndex> {
        let all = (lender, InterfaceIndex(0))..=(lender, InterfaceIndex(u32::MAX));
        self.borrowers.range(all).map(|(_, borrower)| *borrower)
    }

    /// Includes all interfaces that borrow the lender's addresses, and perhaps some that do not.
    pub fn may_borrow_from(&self, lender: InterfaceIndex) -> impl Iterator<Item = InterfaceIndex> {
        self.borrowers_of(lender).chain(self.touched.iter().copied())
    }

    /// Updates the indexes with an interface as it is now; none: it was removed. Returns whether its view has changed.
    pub fn put(&mut self, index: InterfaceIndex, now: Option<(&Interface, InterfaceView)>) -> bool {
        self.put_networks(index, now.as_ref().map(|(interface, _)| *interface));
        for family in Family::ALL {
            let speakers = &mut self.speakers[family as usize];
            speakers.remove(&(false, index));
            speakers.remove(&(true, index));
            if let Some((interface, _)) = &now {
                let has_some = match family {
                    Family::Ip4 => !interface.addresses.is_empty(),
                    Family::Ip6 => !interface.ip6.addresses.is_empty(),
                };
                if interface.is_up() && has_some {
                    speakers.insert((interface.has_neighbours(), index));
                }
            }
        }
        let (before, now) = (self.table.shared(index), now.map(|(_, view)| view));
        if before.as_deref() == now.as_ref() {
            return false;
        }
        for family in Family::ALL {
            let members = &mut self.members[family as usize];
            if let Some(table) = before.as_ref().and_then(|view| view.takes_part(family)) {
                let of_table = members.entry(table).or_default();
                of_table.remove(&index);
                if of_table.is_empty() {
                    members.remove(&table);
                }
            }
            if let Some(table) = now.as_ref().and_then(|view| view.takes_part(family)) {
                members.entry(table).or_default().insert(index);
            }
            let first = |(table, all): (&TableIndex, &BTreeSet<InterfaceIndex>)| Some((*table, *all.first()?));
            self.table.set_members(family, members.iter().filter_map(first));
        }
        self.table.set(index, now.map(Arc::new));
        true
    }

    fn put_networks(&mut self, index: InterfaceIndex, now: Option<&Interface>) {
        let (at, table) = (index.0 as usize, now.map_or(TableIndex::DEFAULT, |interface| interface.ip4.table));
        if self.tables.get(at).copied().unwrap_or_default() != table {
            let tables = Arc::make_mut(&mut self.tables);
            tables.resize(tables.len().max(at + 1), TableIndex::DEFAULT);
            tables[at] = table;
        }
        let networks: Vec<(TableIndex, Prefix)> = now.map_or_else(Vec::new, |interface| {
            let ip4 = interface.addresses.iter().map(|network| (table, Prefix::from(*network)));
            let ip6 = interface.ip6.addresses.iter().map(|network| (interface.ip6.table, Prefix::from(*network)));
            ip4.chain(ip6).collect()
        });
        if self.networks.get(&index).map_or(&[][..], |before| before) == networks {
            return;
        }
        let broadcast = |network: Prefix| match network.last() {
            IpAddr::V4(last) if network.length() < 31 => Some(last),
            _ => None,
        };
        for (table, network) in self.networks.remove(&index).unwrap_or_default() {
            let key = (table, network.first());
            if self.by_first.get(&key).is_some_and(|(_, owner)| *owner == index) {
                self.by_first.remove(&key);
            }
            let at = broadcast(network).and_then(|last| self.broadcasts.binary_search(&(table, last)).ok());
            at.map(|at| Arc::make_mut(&mut self.broadcasts).remove(at));
        }
        for (table, network) in networks.iter().copied() {
            self.by_first.insert((table, network.first()), (network.last(), index));
            if let Some(last) = broadcast(network) {
                let at = self.broadcasts.binary_search(&(table, last)).unwrap_or_else(|at| at);
                Arc::make_mut(&mut self.broadcasts).insert(at, (table, last));
            }
        }
        if !networks.is_empty() {
            self.networks.insert(index, networks);
        }
    }

    pub fn table(&self) -> &ViewTable {
        &self.table
    }

    /// The broadcast addresses of all IPv4 networks, in order.
    pub fn broadcasts(&self) -> &Arc<Vec<(TableIndex, Ipv4Addr)>> {
        &self.broadcasts
    }

    /// The IPv4 tables of interfaces, by index, up to the last interface outside the default table.
    pub fn tables(&self) -> &Arc<Vec<TableIndex>> {
        &self.tables
    }

    /// The first interface that is up and has an address of its own in a family; a loopback if there is one.
    pub fn speaker(&self, family: Family) -> Option<InterfaceIndex> {
        self.speakers[family as usize].first().map(|(_, index)| *index)
    }

    /// Whether a network overlaps one of a table.
    pub fn meets_network(&self, table: TableIndex, network: Prefix) -> bool {
        self.last_before(table, network.last()).is_some_and(|(last, _)| last >= network.first())
    }

    /// Includes all interfaces that have a network around an address of a table, and perhaps some that do not.
    /// Link-local networks, which are on every link, do not count.
    pub fn may_be_around(&self, table: TableIndex, address: IpAddr) -> impl Iterator<Item = InterfaceIndex> {
        let owner = self.last_before(table, address).filter(|(last, _)| *last >= address).map(|(_, owner)| owner);
        owner.into_iter().chain(self.touched.iter().copied())
    }

    /// The last network of a table that begins at or before an address.
    fn last_before(&self, table: TableIndex, address: IpAddr) -> Option<(IpAddr, InterfaceIndex)> {
        let ((of, first), found) = self.by_first.range(..=(table, address)).next_back()?;
        // Every IPv4 address sorts before every IPv6 address.
        ((*of, Family::of(*first)) == (table, Family::of(address))).then_some(*found)
    }
}
