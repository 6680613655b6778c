//! Many routes at once: what a routing daemon says after it has started, or a file of routes.
//!
//! A batch costs a fraction of as many single operations: lists of paths are found once, prefixes that lie together
//! are changed together, and next hops are looked at when all is done.

use super::control::{Table, key_of, leaf_of, list_ref, prefix_of, table_mut};
use super::count::Counted;
use super::entry::{Entry, Several, Share};
use super::path_list::{ListId, PathLists};
use super::route::{MAX_PATHS, Path, Source, TableIndex, Way};
use super::vrf::TableError;
use crate::{Error, Router};
use std::collections::{BTreeMap, BTreeSet};
use tables::Leaf;
use tables::fib4::{Key, Routes};
use wire::Prefix4;

/// Instead of a list's number: the route goes away.
const REMOVE: u32 = u32::MAX;

/// Changes to be made together, of one source in one table.
#[derive(Debug, Clone, Default)]
pub struct Batch {
    table: TableIndex,
    lists: Vec<Vec<Path>>,
    changes: Vec<(Key, u32)>,
    /// Routes go afterwards for which these come: the table's limit was looked at before.
    pub(super) is_resync: bool,
}

/// A list of paths within a [`Batch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paths(u32);

impl Batch {
    /// Changes of a table; those of `Batch::default` are the default one's.
    pub fn in_table(table: TableIndex) -> Batch {
        Batch { table, ..Batch::default() }
    }

    /// Paths that routes of this batch may have.
    pub fn paths(&mut self, paths: Vec<Path>) -> Paths {
        self.lists.push(super::control::join_paths(Vec::new(), paths));
        Paths(self.lists.len() as u32 - 1)
    }

    /// Makes these the paths of a route, new or not. Of the same prefix the last change counts.
    pub fn put(&mut self, prefix: Prefix4, paths: Paths) {
        self.changes.push((key_of(prefix.network()), paths.0));
    }

    /// Takes a route away.
    pub fn remove(&mut self, prefix: Prefix4) {
        self.changes.push((key_of(prefix.network()), REMOVE));
    }

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }
}

/// What became of a [`Batch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    pub added: usize,
    /// Had paths of this source already.
    pub replaced: usize,
    pub removed: usize,
    /// Were to be removed and not there.
    pub missing: usize,
    /// Found no room, were beyond the table's limit, or would have led through themselves; they are as they were.
    pub refused: usize,
}

/// Carries a batch out on the table's numbers.
struct Merge<'a> {
    lists: &'a mut PathLists,
    several: &'a mut Several,
    counted: &'a Counted,
    table: TableIndex,
    ids: &'a [ListId],
    /// Prefixes by which each list reaches its next hops.
    over: &'a [Vec<Key>],
    source: Source,
    fresh: bool,
    /// How many prefixes there are, and may be.
    prefixes: usize,
    limit: usize,
    outcome: Outcome,
    unused: BTreeSet<ListId>,
}

impl Routes<u32> for Merge<'_> {
    #[inline]
    fn leaf(&self, value: u32) -> Leaf {
        leaf_of(self.lists, self.several, value)
    }

    #[inline]
    fn merge(&mut self, key: Key, value: Option<u32>, change: u32) -> Option<u32> {
        let list = (change != REMOVE).then(|| self.ids[change as usize]);
        let is_new = list.is_some() && value.is_none();
        if list.is_some() && self.over[change as usize].contains(&key) || is_new && self.prefixes >= self.limit {
            self.outcome.refused += 1;
            return value;
        }
        let share = list.map(|list| Share { source: self.source, list, fresh: self.fresh });
        let (after, before) = self.several.set(value.map(Entry), self.source, share);
        self.prefixes = self.prefixes + usize::from(is_new) - usize::from(value.is_some() && after.is_none());
        let after = after.map(|after| self.counted.keep(self.table, key, after, self.lists, self.several));
        let counter = match (before, list) {
            (None, Some(_)) => &mut self.outcome.added,
            (Some(_), Some(_)) => &mut self.outcome.replaced,
            (Some(_), None) => &mut self.outcome.removed,
            (None, None) => &mut self.outcome.missing,
        };
        *counter += 1;
        let before = before.map(|share| share.list);
        if before != list {
            list.into_iter().for_each(|list| self.lists.add_user(list, key));
            if let Some(before) = before
                && self.lists.remove_user(before, key) == 0
            {
                self.unused.insert(before);
            }
        }
        after.map(|entry| entry.0)
    }

    fn refuse(&mut self, _: Key, change: u32) {
        match change {
            REMOVE => self.outcome.missing += 1,
            _ => self.outcome.refused += 1,
        }
    }
}

/// Takes those changes out that give a /32 a path onto an interface: such a route leads to that very host, so that
/// its list is not shared. They are made one by one. Of a prefix that has such a change only the last one stays.
fn take_hosts(batch: &mut Batch) -> Vec<(Key, u32)> {
    let is_onto = |paths: &Vec<Path>| paths.iter().any(|path| matches!(path.way, Way::Attached(_)));
    let onto: Vec<bool> = batch.lists.iter().map(is_onto).collect();
    if !onto.contains(&true) {
        return Vec::new();
    }
    let is_host = |change: &(Key, u32)| change.0.length() == 32 && onto.get(change.1 as usize) == Some(&true);
    let hosts: BTreeSet<Key> = batch.changes.iter().filter(|change| is_host(change)).map(|(key, _)| *key).collect();
    let last: BTreeMap<Key, u32> = batch.changes.iter().copied().filter(|(key, _)| hosts.contains(key)).collect();
    batch.changes.retain(|(key, _)| !hosts.contains(key));
    let (hosts, others): (Vec<_>, Vec<_>) = last.into_iter().partition(is_host);
    batch.changes.extend(others);
    hosts
}

impl Router {
    /// Carries a batch of changes out, of one source in one table that is there.
    ///
    /// # Errors
    /// When paths name an interface that does not exist, there are too many, or they cannot be had; then nothing
    /// has changed. What is refused of single routes is counted.
    pub fn change_routes(&mut self, source: Source, mut batch: Batch) -> Result<Outcome, Error> {
        let table = batch.table;
        for paths in &batch.lists {
            self.check_paths(table, paths)?;
            if paths.len() > MAX_PATHS {
                return Err(Error::TooManyPaths);
            }
        }
        let hosts = take_hosts(&mut batch);
        let mut ids: Vec<ListId> = Vec::with_capacity(batch.lists.len());
        for paths in &batch.lists {
            match self.acquire_list(list_ref(table, None, source, paths)) {
                Ok(id) => ids.push(id),
                Err(error) => {
                    ids.into_iter().for_each(|id| self.drop_unused(id));
                    return Err(error);
                }
            }
        }
        let over: Vec<Vec<Key>> = ids.iter().map(|id| self.led_over(*id, table)).collect();
        let ip4 = &mut self.ip4;
        let known = table_mut(&mut ip4.tables, table);
        let limit = if batch.is_resync { usize::MAX } else { known.limit_of(source) };
        let Table { fib, fresh, .. } = known;
        let mut merge = Merge {
            lists: &mut ip4.lists,
            several: &mut ip4.several,
            counted: &ip4.counted,
            table,
            ids: &ids,
            over: &over,
            source,
            fresh: fresh[source as usize],
            prefixes: fib.len(),
            limit,
            outcome: Outcome::default(),
            unused: ids.iter().copied().collect(),
        };
        fib.change(&mut batch.changes, &mut merge);
        let Merge { mut outcome, unused, .. } = merge;
        self.after_changes(&batch.changes);
        for (key, paths) in hosts {
            let was_there = self.ip4.shares(table, key).any(|share| share.source == source);
            let paths = batch.lists[paths as usize].clone();
            match self.add_route_in(table, prefix_of(key), source, paths, true) {
                Ok(()) if was_there => outcome.replaced += 1,
                Ok(()) => outcome.added += 1,
                Err(_) => outcome.refused += 1,
            }
        }
        unused.into_iter().for_each(|list| self.drop_unused(list));
        self.ip4.have_gone += outcome.removed;
        Ok(outcome)
    }

    /// Refuses a batch that, in the place of all that the API has in its table, would bring that beyond its limit.
    pub(super) fn check_room_for(&self, batch: &Batch) -> Result<(), Error> {
        let Some(limit) = self.ip4.limit(batch.table) else { return Ok(()) };
        let is_others = |value| self.ip4.several.shares(Entry(value)).any(|share| share.source != Source::Api);
        let fib = self.ip4.fib(batch.table);
        let mut others = 0;
        fib.each(|_, value| others += usize::from(is_others(value)));
        let wanted: BTreeSet<Key> = batch.changes.iter().map(|(key, _)| *key).collect();
        let new = wanted.into_iter().filter(|key| !fib.get(*key).is_some_and(is_others)).count();
        match others + new > limit {
            true => Err(TableError::Limit { id: self.ip4.id_of(batch.table), limit }.into()),
            false => Ok(()),
        }
    }

    /// Next hops may be reached by routes that changed, or no longer.
    fn after_changes(&mut self, changes: &[(Key, u32)]) {
        let dependents = &self.ip4.dependents;
        let lists: BTreeSet<ListId> = if dependents.hops() <= changes.len() {
            dependents.all().collect()
        } else {
            changes.iter().flat_map(|(key, _)| dependents.of_hops_in(*key)).collect()
        };
        self.refresh_lists(lists);
    }

    /// From now on a source says again which routes it wants in a table; those that it has not said when
    /// [`Router::end_resync`] comes go away. Until then all are used as before.
    pub fn begin_resync(&mut self, table: TableIndex, source: Source) {
        let fresh = &mut table_mut(&mut self.ip4.tables, table).fresh[source as usize];
        *fresh = !*fresh;
        let fresh = *fresh;
        // What an earlier one, broken off, has marked already is to be said again too.
        let Some(marked) = self.routes_marked(table, source, fresh) else { return };
        for key in marked {
            let ip4 = &mut self.ip4;
            let fib = &mut table_mut(&mut ip4.tables, table).fib;
            let Some(entry) = fib.get(key).map(Entry) else { continue };
            let share = ip4.several.shares(entry).find(|share| share.source == source);
            let share = share.map(|share| Share { fresh: !fresh, ..share });
            let (after, _) = ip4.several.set(Some(entry), source, share);
            if let Some(after) = after {
                // It leads where it led.
                let _ = fib.insert(key, after.0, |value| leaf_of(&ip4.lists, &ip4.several, value));
            }
        }
    }

    /// Takes away the routes that a source has not said since [`Router::begin_resync`]. Gives how many.
    pub fn end_resync(&mut self, table: TableIndex, source: Source) -> usize {
        let fresh = table_mut(&mut self.ip4.tables, table).fresh[source as usize];
        let stale = self.routes_marked(table, source, !fresh).unwrap_or_default();
        let batch = Batch {
            table,
            lists: Vec::new(),
            is_resync: true,
            changes: stale.into_iter().map(|key| (key, REMOVE)).collect(),
        };
        self.change_routes(source, batch).map_or(0, |outcome| outcome.removed)
    }

    /// Prefixes of a source with one of the two marks; none when there are none.
    fn routes_marked(&self, table: TableIndex, source: Source, fresh: bool) -> Option<Vec<Key>> {
        let mut keys = Vec::new();
        self.ip4.fib(table).each(|key, value| {
            if self.ip4.several.shares(Entry(value)).any(|share| share.source == source && share.fresh == fresh) {
                keys.push(key);
            }
        });
        (!keys.is_empty()).then_some(keys)
    }
}
