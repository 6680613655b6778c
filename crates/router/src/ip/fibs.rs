//! The routing tables as nodes read them. A packet is looked up in the table of the interface that it came by; a
//! route may send it on to another table.

use super::count::CounterSlots;
use super::route::TableIndex;
use crate::chunks::Chunks;
use crate::interface::{InterfaceView, SharedViews};
use crate::ip::class;
use crate::table_index::{named, own_table};
use graph::{InterfaceIndex, Row, VECTOR_SIZE};
use rcu::{Published, Round};
use std::ops::Range;
use std::sync::Arc;
use tables::object::ObjectRef;
use tables::{Leaf, Lookup4, Lookup6, ObjectHandle, fib4::Ahead};
use wire::Family;

/// The tables of a family by index, as control publishes them; none where there is none.
pub(crate) type SharedTables<L> = Arc<Published<Chunks<L>>>;

/// Most tables in which one packet is looked up: routes that send packets from table to table may form a circle.
pub const MAX_TABLES_IN_A_ROW: u32 = 4;

/// In which tables packets are to be looked up.
#[derive(Clone, Copy)]
pub struct Whose<'a> {
    /// The interfaces that received them.
    pub rx: &'a [InterfaceIndex],
    /// Their tables, where these are others than their interfaces'.
    pub tables: Option<&'a [u32]>,
}

/// The data side of a table of either family. Addresses are in host order.
pub trait Lookup: Clone + Send + Sync + 'static {
    type Address: Copy + PartialEq + Default + Send;
    const FAMILY: Family;

    /// The table of the packets that an interface receives.
    fn table_of(view: &InterfaceView) -> TableIndex;
    fn find(&self, round: &Round<'_>, address: Self::Address) -> Leaf;
    fn find_all(&self, round: &Round<'_>, addresses: &[Self::Address], leaves: &mut [u32]);
    /// The same in a table without its default route.
    fn find_all_but_default(&self, round: &Round<'_>, addresses: &[Self::Address], leaves: &mut [u32]);
    fn default_of(&self, round: &Round<'_>) -> Leaf;
    /// The neighbour of an adjacency.
    fn next_hop(adjacency: &ObjectRef<'_>) -> Self::Address;
}

impl Lookup for Lookup4 {
    type Address = u32;
    const FAMILY: Family = Family::Ip4;

    #[inline]
    fn table_of(view: &InterfaceView) -> TableIndex {
        view.ip4_table
    }

    fn find(&self, round: &Round<'_>, address: u32) -> Leaf {
        self.lookup(round, address)
    }

    #[inline]
    fn find_all(&self, round: &Round<'_>, addresses: &[u32], leaves: &mut [u32]) {
        leaves.copy_from_slice(addresses);
        self.lookup_batch(round, leaves);
    }

    fn find_all_but_default(&self, round: &Round<'_>, addresses: &[u32], leaves: &mut [u32]) {
        leaves.copy_from_slice(addresses);
        self.lookup_batch_but_default(round, leaves);
    }

    fn default_of(&self, round: &Round<'_>) -> Leaf {
        self.default_route(round)
    }

    fn next_hop(adjacency: &ObjectRef<'_>) -> u32 {
        adjacency.next_hop().into()
    }
}

impl Lookup for Lookup6 {
    type Address = u128;
    const FAMILY: Family = Family::Ip6;

    #[inline]
    fn table_of(view: &InterfaceView) -> TableIndex {
        view.ip6.table
    }

    fn find(&self, round: &Round<'_>, address: u128) -> Leaf {
        self.lookup(round, address)
    }

    #[inline]
    fn find_all(&self, round: &Round<'_>, addresses: &[u128], leaves: &mut [u32]) {
        self.lookup_batch(round, addresses, leaves);
    }

    fn find_all_but_default(&self, round: &Round<'_>, addresses: &[u128], leaves: &mut [u32]) {
        self.lookup_batch_but_default(round, addresses, leaves);
    }

    fn default_of(&self, round: &Round<'_>) -> Leaf {
        self.default_route(round)
    }

    fn next_hop(adjacency: &ObjectRef<'_>) -> u128 {
        adjacency.next_hop6().into()
    }
}

/// For nodes: all tables of a family, and which of them is whose.
#[derive(Clone)]
pub struct Fibs<L: Lookup> {
    tables: SharedTables<L>,
    view: SharedViews,
    places: CounterSlots,
}

pub type Fibs4 = Fibs<Lookup4>;
pub type Fibs6 = Fibs<Lookup6>;

impl<L: Lookup> Fibs<L> {
    pub(crate) fn new(tables: SharedTables<L>, view: SharedViews, places: CounterSlots) -> Fibs<L> {
        Fibs { tables, view, places }
    }

    /// The table of the packets of an interface.
    pub fn index_of(&self, round: &Round<'_>, rx: InterfaceIndex) -> TableIndex {
        self.view.load(round).get(rx).map_or(TableIndex::DEFAULT, L::table_of)
    }

    /// The table to look a packet up in.
    pub fn index_for(&self, round: &Round<'_>, row: &Row) -> TableIndex {
        own_table(row).unwrap_or_else(|| self.index_of(round, row.rx_interface))
    }

    fn table<'a>(&'a self, round: &'a Round<'_>, index: TableIndex) -> Option<&'a L> {
        self.tables.load(round).get(index.0 as usize)
    }

    /// The leaf of each address in its packet's table.
    #[inline]
    pub fn lookup_batch(&self, round: &Round<'_>, whose: Whose<'_>, addresses: &[L::Address], leaves: &mut [u32]) {
        if let Some(only) = self.tables.load(round).only() {
            return only.find_all(round, addresses, leaves);
        }
        self.in_runs(round, whose, addresses, leaves, |table, run, leaves| table.find_all(round, run, leaves));
    }

    /// What packets from there would take to these addresses, with the tables followed to which routes lead; with
    /// `but_default` only by routes longer than the default route.
    pub fn way_back(
        &self,
        round: &Round<'_>,
        whose: Whose<'_>,
        addresses: &[L::Address],
        leaves: &mut [u32],
        but_default: bool,
    ) {
        match but_default {
            true => self.in_runs(round, whose, addresses, leaves, |table, run, leaves| {
                table.find_all_but_default(round, run, leaves);
            }),
            false => self.lookup_batch(round, whose, addresses, leaves),
        }
        for (leaf, address) in leaves.iter_mut().zip(addresses) {
            *leaf = self.follow(round, Leaf(*leaf), *address, but_default).0;
        }
    }

    /// The leaf for one address in a table; the tables followed to which routes lead.
    pub fn lookup(&self, round: &Round<'_>, table: TableIndex, address: L::Address) -> Leaf {
        let leaf = self.lookup_in(round, table, address);
        self.follow(round, leaf, address, false)
    }

    /// The same; over several paths the first one, so that one address always has the same.
    pub fn first_way(&self, round: &Round<'_>, table: TableIndex, address: L::Address, objects: &ObjectHandle) -> Leaf {
        let leaf = self.lookup(round, table, address);
        match leaf.class() {
            class::LOAD_BALANCE => objects.get(round, leaf.index()).bucket(0),
            _ => leaf,
        }
    }

    /// The default route's of a table, for that address.
    pub fn default_route(&self, round: &Round<'_>, table: TableIndex, address: L::Address) -> Leaf {
        let table = self.table(round, table);
        self.follow(round, table.map_or(Leaf::MISS, |table| table.default_of(round)), address, false)
    }

    /// The leaf for one address in a table.
    pub fn lookup_in(&self, round: &Round<'_>, table: TableIndex, address: L::Address) -> Leaf {
        self.table(round, table).map_or(Leaf::MISS, |table| table.find(round, address))
    }

    /// The leaves of addresses in a table.
    pub fn lookup_batch_in(&self, round: &Round<'_>, table: TableIndex, addresses: &[L::Address], leaves: &mut [u32]) {
        match self.table(round, table) {
            Some(table) => table.find_all(round, addresses, leaves),
            None => leaves.fill(Leaf::MISS.0),
        }
    }

    /// Where a leaf leads in the end: counted or not, through other tables or not.
    pub fn follow(&self, round: &Round<'_>, mut leaf: Leaf, address: L::Address, but_default: bool) -> Leaf {
        let mut tables = 1;
        loop {
            leaf = match leaf.class() {
                class::COUNTED => self.places.leads_to(leaf),
                class::LOOKUP if tables == MAX_TABLES_IN_A_ROW => return Leaf::MISS,
                class::LOOKUP => {
                    tables += 1;
                    let table = self.table(round, TableIndex(leaf.index() as u16));
                    let mut found = [Leaf::MISS.0];
                    match (table, but_default) {
                        (None, _) => {}
                        (Some(table), false) => table.find_all(round, &[address], &mut found),
                        (Some(table), true) => table.find_all_but_default(round, &[address], &mut found),
                    }
                    Leaf(found[0])
                }
                _ => return leaf,
            };
        }
    }

    /// Has neighbours in a vector looked up together that are of one table.
    fn in_runs(
        &self,
        round: &Round<'_>,
        whose: Whose<'_>,
        addresses: &[L::Address],
        leaves: &mut [u32],
        lookup: impl Fn(&L, &[L::Address], &mut [u32]),
    ) {
        self.by_table(round, whose, |index, run| match self.table(round, index) {
            Some(table) => lookup(table, &addresses[run.clone()], &mut leaves[run]),
            None => leaves[run].fill(Leaf::MISS.0),
        });
    }
}

impl<L: Lookup> Fibs<L> {
    /// Neighbours in a vector that are of one table, with that table.
    #[inline]
    fn by_table(&self, round: &Round<'_>, whose: Whose<'_>, mut each: impl FnMut(TableIndex, Range<usize>)) {
        let of_interfaces = runs(whose.rx, |rx| self.index_of(round, rx));
        let Some(marks) = whose.tables else { return of_interfaces.for_each(|(index, run)| each(index, run)) };
        let mut found = [TableIndex::DEFAULT; VECTOR_SIZE];
        for (index, run) in of_interfaces {
            found[run].fill(index);
        }
        for (found, mark) in found.iter_mut().zip(marks) {
            *found = named(*mark).unwrap_or(*found);
        }
        runs(&found[..marks.len()], |index| index).for_each(|(index, run)| each(index, run));
    }
}

impl Fibs4 {
    /// Who asks for the slots of a large table early.
    #[inline]
    pub fn ahead<'a>(&'a self, round: &'a Round<'_>, index: TableIndex) -> Option<Ahead<'a>> {
        self.table(round, index)?.ahead(round)
    }

    /// [`Fibs::lookup_batch`], which replaces each address by its leaf.
    #[inline]
    pub fn lookup_batch_in_place(&self, round: &Round<'_>, whose: Whose<'_>, addresses: &mut [u32]) {
        if let Some(only) = self.tables.load(round).only() {
            return only.lookup_batch(round, addresses);
        }
        self.by_table(round, whose, |index, run| match self.table(round, index) {
            Some(table) => table.lookup_batch(round, &mut addresses[run]),
            None => addresses[run].fill(Leaf::MISS.0),
        });
    }
}

/// Neighbours with something in common. What is common is asked for when the value changes.
pub fn runs<T: Copy + PartialEq, U: Copy + PartialEq>(
    values: &[T],
    of: impl Fn(T) -> U,
) -> impl Iterator<Item = (U, Range<usize>)> {
    let mut begin = 0;
    std::iter::from_fn(move || {
        let mut last = *values.get(begin)?;
        let common = of(last);
        let mut end = begin + 1;
        while let Some(&value) = values.get(end) {
            if value != last && of(value) != common {
                break;
            }
            (last, end) = (value, end + 1);
        }
        let run = begin..end;
        begin = end;
        Some((common, run))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_of_what_is_common() {
        let found: Vec<_> = runs(&[1, 1, 3, 5, 2, 4, 4, 7], |value| value % 2).collect();
        assert_eq!(found, [(1, 0..4), (0, 4..7), (1, 7..8)]);
        assert_eq!(runs(&[] as &[u8], |value| value).count(), 0);
    }
}
