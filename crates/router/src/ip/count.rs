//! Packets and bytes of the routes that an operator has counted. Other routes cost nothing.
//!
//! A counted route has a leaf of its own, for a slot in [`CounterSlots`]. The slot holds the leaf that the packets
//! take. So these packets take one node more, and no other packet is affected.

use super::control::{Ip, leaf_of, way_of};
use super::entry::{Entry, MultiSourceEntries};
use super::leaving::Leaving;
use super::path_list::PathLists;
use super::route::TableIndex;
use crate::ip::route::RouteError;
use crate::{Error, Router};
use graph::directory::{Column, Of};
use graph::{CounterTable, Graph};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::ip::class;
use tables::Leaf;
use wire::{Family, Prefix};

/// The most routes that can be counted.
pub const MAX_COUNTED: usize = 4096;
const PACKETS: usize = 0;
const BYTES: usize = 1;

/// The state that workers and the control thread share: where each counted route leads, and its counts.
#[derive(Clone)]
pub struct CounterSlots {
    leaves: Arc<[AtomicU32]>,
    counts: Arc<CounterTable>,
}

impl CounterSlots {
    pub(crate) fn new(graph: &mut Graph) -> io::Result<CounterSlots> {
        let leaves = (0..MAX_COUNTED).map(|_| AtomicU32::new(Leaf::MISS.0)).collect();
        const COLUMNS: &[Column] = &[Column::packets("packets"), Column::bytes("bytes")];
        let (workers, of) = (graph.workers(), Of::Other(MAX_COUNTED));
        let help = "Packets forwarded by routes that are counted.";
        let counts = graph.directory.table("/net/route/counted", workers, of, COLUMNS, help)?;
        Ok(CounterSlots { leaves, counts })
    }

    /// Counts a packet.
    #[inline]
    pub(crate) fn count(&self, thread: usize, counted: Leaf, bytes: u32) {
        let place = counted.index() as usize % MAX_COUNTED;
        self.counts.add(thread, place, PACKETS, 1);
        self.counts.add(thread, place, BYTES, bytes.into());
    }

    /// Where a counted leaf leads. The returned leaf stays valid for the round.
    #[inline]
    pub fn leads_to(&self, counted: Leaf) -> Leaf {
        Leaf(self.leaves[counted.index() as usize % MAX_COUNTED].load(Ordering::Acquire))
    }
}

/// The control thread's record of the counted routes.
pub(super) struct Counted {
    pub places: CounterSlots,
    by_route: BTreeMap<(TableIndex, Prefix), u32>,
    free: Vec<u32>,
    leaving: Leaving<u32>,
}

impl Counted {
    pub fn new(places: CounterSlots) -> Counted {
        let free = (0..MAX_COUNTED as u32).rev().collect();
        Counted { places, by_route: BTreeMap::new(), free, leaving: Leaving::default() }
    }

    /// The slot of a prefix whose packets are counted.
    #[inline]
    pub fn place(&self, table: TableIndex, key: Prefix) -> Option<u32> {
        if self.by_route.is_empty() { None } else { self.by_route.get(&(table, key)).copied() }
    }

    pub fn counts_none(&self) -> bool {
        self.by_route.is_empty()
    }

    /// Sets where a counted route leads from now on. While a route leads nowhere, no packet reads its slot.
    pub fn lead(&self, place: u32, to: Leaf) {
        if to != Leaf::MISS {
            self.places.leaves[place as usize].store(to.0, Ordering::Release);
        }
    }

    /// A prefix's number after a change: marked as counted if its packets are to be counted, with its slot leading
    /// where the prefix leads now.
    #[inline]
    pub fn keep(
        &self,
        table: TableIndex,
        key: Prefix,
        entry: Entry,
        lists: &PathLists,
        several: &mut MultiSourceEntries,
    ) -> Entry {
        let Some(place) = self.place(table, key) else { return entry };
        let entry = several.count(entry, place);
        self.lead(place, way_of(lists, several, entry.0));
        entry
    }

    pub fn iter(&self) -> impl Iterator<Item = (TableIndex, Prefix, u32)> + '_ {
        self.by_route.iter().map(|((table, key), place)| (*table, *key, *place))
    }
}

/// Packets of a route, and their bytes from the network header on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    pub packets: u64,
    pub bytes: u64,
}

impl Ip {
    /// The counts of a prefix, or `None` when it is not counted.
    pub fn counts(&self, table: TableIndex, prefix: impl Into<Prefix>) -> Option<Counts> {
        self.counts_of(table, prefix.into())
    }

    pub(super) fn counts_of(&self, table: TableIndex, key: Prefix) -> Option<Counts> {
        let place = self.counted.place(table, key)? as usize;
        let counts = &self.counted.places.counts;
        Some(Counts { packets: counts.sum(place, PACKETS), bytes: counts.sum(place, BYTES) })
    }

    /// The prefixes that are counted.
    pub fn counted(&self) -> impl Iterator<Item = (TableIndex, Prefix)> + '_ {
        self.counted.iter().map(|(table, prefix, _)| (table, prefix))
    }

    /// Resets all counters to zero.
    pub fn clear_counts(&self) {
        self.counted.places.counts.clear(self.counted.iter().map(|(.., place)| place as usize));
    }

    /// Forgets which routes of a table were counted. The table is empty by now.
    pub(super) fn forget_counted(&mut self, graph: &Graph, family: Family, table: TableIndex) {
        let Counted { by_route, leaving, .. } = &mut self.counted;
        by_route.retain(|(of, prefix), place| {
            let is_of_it = *of == table && prefix.family() == family;
            if is_of_it {
                leaving.add(graph, *place);
            }
            !is_of_it
        });
    }

    /// Gives a prefix another number that stands for the same paths.
    fn renumber(&mut self, table: TableIndex, key: Prefix, entry: Entry) {
        let Ip { tables, lists, several, .. } = self;
        let table = tables.get_mut(key.family(), table);
        let leaf = |value| leaf_of(lists, several, value);
        let done = table.fib.insert(key, entry.0, leaf).and_then(|()| table.fib.repaint(key, leaf));
        table.is_stale |= done.is_err();
    }
}

impl Router {
    /// Starts or stops counting the packets to a prefix, whether there is a route to it now or not.
    ///
    /// # Errors
    /// When too many routes are counted.
    pub fn count_route(&mut self, table: TableIndex, prefix: impl Into<Prefix>, is_counted: bool) -> Result<(), Error> {
        let key = prefix.into().network();
        let known = self.ip.counted.place(table, key);
        self.has_stated(key.family(), table);
        let ip = &mut self.ip;
        match (known, is_counted) {
            (None, true) => {
                let Counted { places, by_route, free, leaving } = &mut ip.counted;
                free.extend(leaving.settled());
                let place = free.pop().ok_or(RouteError::TooManyCounted)?;
                places.counts.clear([place as usize]);
                by_route.insert((table, key), place);
                if let Some(value) = ip.fib(key.family(), table).get(key) {
                    let Ip { lists, several, counted, .. } = ip;
                    let entry = counted.keep(table, key, Entry(value), lists, several);
                    ip.renumber(table, key, entry);
                }
            }
            (Some(place), false) => {
                ip.counted.by_route.remove(&(table, key));
                if let Some(value) = ip.fib(key.family(), table).get(key) {
                    let entry = ip.several.do_not_count(Entry(value));
                    ip.renumber(table, key, entry);
                }
                ip.counted.leaving.add(&self.graph, place);
            }
            _ => {}
        }
        Ok(())
    }
}

/// The leaf of a slot.
pub(super) fn leaf_at(place: u32) -> Leaf {
    Leaf::new(class::COUNTED, place)
}
