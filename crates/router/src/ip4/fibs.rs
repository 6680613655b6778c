//! The routing tables as nodes read them. A packet is looked up in the table of the interface that it came by; a
//! route may send it on to another table ([`super::lookup`]).

use super::count::Places;
use super::route::TableIndex;
use crate::interface::SharedFacts;
use graph::InterfaceIndex;
use rcu::{Published, Round};
use std::ops::Range;
use std::sync::Arc;
use tables::{Leaf, Lookup4, fib4::Ahead, kind};

/// The tables by index, as control publishes them; none where there is none.
pub(crate) type SharedTables = Arc<Published<Vec<Option<Lookup4>>>>;

/// Most tables in which one packet is looked up: routes that send packets from table to table may form a circle.
pub(crate) const MAX_TABLES_IN_A_ROW: u32 = 4;

/// For nodes: all tables, and which of them is whose.
#[derive(Clone)]
pub struct Fibs {
    tables: SharedTables,
    facts: SharedFacts,
    places: Places,
}

impl Fibs {
    pub(crate) fn new(tables: SharedTables, facts: SharedFacts, places: Places) -> Fibs {
        Fibs { tables, facts, places }
    }

    /// The table of the packets of an interface.
    pub fn index_of(&self, round: &Round<'_>, rx: InterfaceIndex) -> TableIndex {
        self.facts.load(round).get(rx).map_or(TableIndex::DEFAULT, |facts| facts.ip4_table)
    }

    fn table<'a>(&'a self, round: &'a Round<'_>, index: TableIndex) -> Option<&'a Lookup4> {
        self.tables.load(round).get(index.0 as usize)?.as_ref()
    }

    /// Who asks for the slots of a large table early.
    #[inline]
    pub fn ahead<'a>(&'a self, round: &'a Round<'_>, index: TableIndex) -> Option<Ahead<'a>> {
        self.table(round, index)?.ahead(round)
    }

    /// Replaces each address by its leaf in the table of the interface that its packet came by.
    #[inline]
    pub fn lookup_batch(&self, round: &Round<'_>, rx: &[InterfaceIndex], addresses: &mut [u32]) {
        if let [Some(only)] = &self.tables.load(round)[..] {
            return only.lookup_batch(round, addresses);
        }
        self.in_runs(round, rx, addresses, |table, run| table.lookup_batch(round, run));
    }

    /// What packets from there would take to these addresses, with the tables followed to which routes lead; with
    /// `but_default` only by routes longer than the default route.
    pub fn way_back(&self, round: &Round<'_>, rx: &[InterfaceIndex], addresses: &mut [u32], but_default: bool) {
        let mut asked = [0; graph::VECTOR_SIZE];
        asked[..addresses.len()].copy_from_slice(addresses);
        match but_default {
            true => self.in_runs(round, rx, addresses, |table, run| table.lookup_batch_but_default(round, run)),
            false => self.lookup_batch(round, rx, addresses),
        }
        for (leaf, asked) in addresses.iter_mut().zip(asked) {
            *leaf = self.follow(round, Leaf(*leaf), asked, but_default).0;
        }
    }

    /// The leaf for one address, in the table of an interface's packets; the tables followed to which routes lead.
    pub fn lookup(&self, round: &Round<'_>, rx: InterfaceIndex, address: u32) -> Leaf {
        let leaf = self.lookup_in(round, self.index_of(round, rx), address);
        self.follow(round, leaf, address, false)
    }

    /// The default route's, for that address.
    pub fn default_route(&self, round: &Round<'_>, rx: InterfaceIndex, address: u32) -> Leaf {
        let table = self.table(round, self.index_of(round, rx));
        self.follow(round, table.map_or(Leaf::MISS, |table| table.default_route(round)), address, false)
    }

    /// The leaf for one address in a table.
    pub fn lookup_in(&self, round: &Round<'_>, table: TableIndex, address: u32) -> Leaf {
        self.table(round, table).map_or(Leaf::MISS, |table| table.lookup(round, address))
    }

    /// Replaces addresses by their leaves in a table.
    pub fn lookup_batch_in(&self, round: &Round<'_>, table: TableIndex, addresses: &mut [u32]) {
        match self.table(round, table) {
            Some(table) => table.lookup_batch(round, addresses),
            None => addresses.fill(Leaf::MISS.0),
        }
    }

    /// Where a leaf leads in the end: counted or not, through other tables or not.
    pub fn follow(&self, round: &Round<'_>, mut leaf: Leaf, address: u32, but_default: bool) -> Leaf {
        let mut tables = 1;
        loop {
            leaf = match leaf.kind() {
                kind::COUNTED => self.places.leads_to(leaf),
                kind::LOOKUP if tables == MAX_TABLES_IN_A_ROW => return Leaf::MISS,
                kind::LOOKUP => {
                    tables += 1;
                    let table = self.table(round, TableIndex(leaf.index() as u16));
                    let mut found = [address];
                    match (table, but_default) {
                        (None, _) => found = [Leaf::MISS.0],
                        (Some(table), false) => table.lookup_batch(round, &mut found),
                        (Some(table), true) => table.lookup_batch_but_default(round, &mut found),
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
        rx: &[InterfaceIndex],
        addresses: &mut [u32],
        lookup: impl Fn(&Lookup4, &mut [u32]),
    ) {
        for (index, run) in runs(rx, |rx| self.index_of(round, rx)) {
            match self.table(round, index) {
                Some(table) => lookup(table, &mut addresses[run]),
                None => addresses[run].fill(Leaf::MISS.0),
            }
        }
    }
}

/// Neighbours with something in common. What is common is asked for when the value changes.
pub(super) fn runs<T: Copy + PartialEq, U: Copy + PartialEq>(
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
