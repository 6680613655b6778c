//! `ip4-route-counters`: packets and bytes of the routes for which that was asked. Others cost nothing.
//!
//! Reads: `target` (a counted leaf). Writes: `target`, what the route leads to. Next: by its kind.
//!
//! A counted route has a leaf of its own, of a place in [`Places`]; what the place says is where its packets go. So
//! they take one node more, and no other packet does anything for it.

use super::control::{Ip4, key_of, leaf_of, prefix_of, table_mut, way_of};
use super::entry::{Entry, Several};
use super::leaving::Leaving;
use super::lookup::{self, Edge};
use super::path_list::PathLists;
use super::route::TableIndex;
use crate::{Error, Router};
use graph::{Context, CounterTable, Graph, Map, NodeSpec, Vector};
use serde::Serialize;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use tables::fib4::Key;
use tables::{Leaf, kind};
use wire::Prefix4;

/// Most routes that are counted.
pub const MAX_COUNTED: usize = 4096;
const PACKETS: usize = 0;
const BYTES: usize = 1;

/// What workers and control share: where each counted route leads, and its counts.
#[derive(Clone)]
pub struct Places {
    leaves: Arc<[AtomicU32]>,
    counts: Arc<CounterTable>,
}

impl Places {
    pub(crate) fn new(workers: usize) -> io::Result<Places> {
        let leaves = (0..MAX_COUNTED).map(|_| AtomicU32::new(Leaf::MISS.0)).collect();
        Ok(Places { leaves, counts: CounterTable::new("ip4-routes", workers, MAX_COUNTED, 2)? })
    }

    /// Where a counted leaf leads. What that names stays valid for the round.
    #[inline]
    pub fn leads_to(&self, counted: Leaf) -> Leaf {
        Leaf(self.leaves[counted.index() as usize % MAX_COUNTED].load(Ordering::Acquire))
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-route-counters".into(), edges: Edge::EDGES, counters: &[], trace: lookup::trace_leaf }
}

pub struct RouteCounters(Places);

impl RouteCounters {
    pub fn new(places: Places) -> RouteCounters {
        RouteCounters(places)
    }
}

impl Map for RouteCounters {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let columns = vector.columns();
        for (i, target) in columns.target.iter_mut().enumerate() {
            let counted = Leaf(*target);
            let bytes = columns.length[i].saturating_sub(columns.l3[i].saturating_sub(columns.l2[i]));
            let place = counted.index() as usize % MAX_COUNTED;
            self.0.counts.add(cx.thread, place, PACKETS, 1);
            self.0.counts.add(cx.thread, place, BYTES, bytes.into());
            *target = self.0.leads_to(counted).0;
        }
        lookup::dispatch(vector);
    }
}

/// Control's book of them.
pub(super) struct Counted {
    pub places: Places,
    by_route: BTreeMap<(TableIndex, Key), u32>,
    free: Vec<u32>,
    leaving: Leaving<u32>,
}

impl Counted {
    pub fn new(places: Places) -> Counted {
        let free = (0..MAX_COUNTED as u32).rev().collect();
        Counted { places, by_route: BTreeMap::new(), free, leaving: Leaving::default() }
    }

    /// The place of a prefix whose packets are counted.
    #[inline]
    pub fn place(&self, table: TableIndex, key: Key) -> Option<u32> {
        if self.by_route.is_empty() { None } else { self.by_route.get(&(table, key)).copied() }
    }

    /// Says where a counted route leads from now on. While it leads nowhere nobody asks.
    pub fn lead(&self, place: u32, to: Leaf) {
        if to != Leaf::MISS {
            self.places.leaves[place as usize].store(to.0, Ordering::Release);
        }
    }

    /// A prefix's number after a change: counted if it is to be, and its place leading where it does now.
    #[inline]
    pub fn keep(&self, table: TableIndex, key: Key, entry: Entry, lists: &PathLists, several: &mut Several) -> Entry {
        let Some(place) = self.place(table, key) else { return entry };
        let entry = several.count(entry, place);
        self.lead(place, way_of(lists, several, entry.0));
        entry
    }

    pub fn iter(&self) -> impl Iterator<Item = (TableIndex, Key, u32)> + '_ {
        self.by_route.iter().map(|((table, key), place)| (*table, *key, *place))
    }
}

/// Packets of a route, and their bytes from the IPv4 header on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct Counts {
    pub packets: u64,
    pub bytes: u64,
}

impl Ip4 {
    /// What was counted of a prefix; none when it is not counted.
    pub fn counts(&self, table: TableIndex, prefix: Prefix4) -> Option<Counts> {
        self.counts_of(table, key_of(prefix))
    }

    pub(super) fn counts_of(&self, table: TableIndex, key: Key) -> Option<Counts> {
        let place = self.counted.place(table, key)? as usize;
        let counts = &self.counted.places.counts;
        Some(Counts { packets: counts.sum(place, PACKETS), bytes: counts.sum(place, BYTES) })
    }

    /// The prefixes that are counted.
    pub fn counted(&self) -> impl Iterator<Item = (TableIndex, Prefix4)> + '_ {
        self.counted.iter().map(|(table, key, _)| (table, prefix_of(key)))
    }

    /// Has all counters read zero.
    pub fn clear_counts(&self) {
        self.counted.places.counts.clear(self.counted.iter().map(|(.., place)| place as usize));
    }

    /// Forgets which routes of a table were counted, of which none is there any more.
    pub(super) fn forget_counted(&mut self, graph: &Graph, table: TableIndex) {
        let Counted { by_route, leaving, .. } = &mut self.counted;
        by_route.retain(|(of, _), place| {
            if *of == table {
                leaving.add(graph, *place);
            }
            *of != table
        });
    }

    /// Gives a prefix another number that stands for the same paths.
    fn renumber(&mut self, table: TableIndex, key: Key, entry: Entry) {
        let Ip4 { tables, lists, several, .. } = self;
        let fib = &mut table_mut(tables, table).fib;
        let leaf = |value| leaf_of(lists, several, value);
        // One that is there always has room.
        let _ = fib.insert(key, entry.0, leaf);
        fib.repaint(key, leaf);
    }
}

impl Router {
    /// Has the packets to a prefix counted from now on, or no longer, whether there is a route to it now or not.
    ///
    /// # Errors
    /// When too many are counted.
    pub fn count_route(&mut self, table: TableIndex, prefix: Prefix4, is_counted: bool) -> Result<(), Error> {
        let key = key_of(prefix.network());
        let known = self.ip4.counted.place(table, key);
        let ip4 = &mut self.ip4;
        match (known, is_counted) {
            (None, true) => {
                let Counted { places, by_route, free, leaving } = &mut ip4.counted;
                free.extend(leaving.settled());
                let place = free.pop().ok_or(Error::TooManyCounted)?;
                places.counts.clear([place as usize]);
                by_route.insert((table, key), place);
                if let Some(value) = ip4.fib(table).get(key) {
                    let Ip4 { lists, several, counted, .. } = ip4;
                    let entry = counted.keep(table, key, Entry(value), lists, several);
                    ip4.renumber(table, key, entry);
                }
            }
            (Some(place), false) => {
                ip4.counted.by_route.remove(&(table, key));
                if let Some(value) = ip4.fib(table).get(key) {
                    let entry = ip4.several.do_not_count(Entry(value));
                    ip4.renumber(table, key, entry);
                }
                ip4.counted.leaving.add(&self.graph, place);
            }
            _ => {}
        }
        Ok(())
    }
}

/// A leaf of a place.
pub(super) fn leaf_at(place: u32) -> Leaf {
    Leaf::new(kind::COUNTED, place)
}
