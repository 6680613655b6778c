//! Many routes at once: the routes of a routing daemon that has just started, or of a file.
//!
//! A batch costs a fraction of as many single operations. Path lists are looked up once, neighbouring prefixes are
//! changed together, and next hops are resolved once at the end.

use super::control::{Ip, leaf_of};
use super::count::Counted;
use super::entry::{Entry, MultiSourceEntries, Share, Shelved};
use super::path_list::{ListId, ListRef, Of, PathLists};
use super::route::{MAX_PATHS, Path, PathAction, Source, TableIndex};
use super::table::{Fib, Key, PART, Table};
use super::vrf::TableError;
use crate::ip::route::RouteError;
use crate::unsaid::UnsaidRoutes;
use crate::{Error, Router};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use tables::{Leaf, fib4, fib6};
use wire::{Family, Prefix};

/// The most heap that a change may take, including what it leaves behind: the prefix in the tree, its list, its paths.
const ROUTE_BYTES: usize = 256;
/// In place of a list's number: the route is removed.
const REMOVE: u32 = u32::MAX;

/// Changes of one source in one table, to be made together.
#[derive(Debug, Clone)]
pub struct Batch {
    table: TableIndex,
    lists: Vec<Vec<Path>>,
    changes: Changes,
    /// Whether the routes that these replace are removed afterwards; the table's limit was checked before.
    pub(super) is_resync: bool,
}

/// Prefixes in the form of their table, each with the number of its list within the batch.
#[derive(Debug, Clone)]
enum Changes {
    V4(Vec<(fib4::Key, u32)>),
    V6(Vec<(fib6::Key, u32)>),
}

/// Evaluates an expression for the changes of either family.
macro_rules! of_either {
    ($changes:expr, $inner:ident => $value:expr) => {
        match $changes {
            Changes::V4($inner) => $value,
            Changes::V6($inner) => $value,
        }
    };
}

impl Changes {
    fn new(family: Family) -> Changes {
        match family {
            Family::Ip4 => Changes::V4(Vec::new()),
            Family::Ip6 => Changes::V6(Vec::new()),
        }
    }

    fn family(&self) -> Family {
        match self {
            Changes::V4(_) => Family::Ip4,
            Changes::V6(_) => Family::Ip6,
        }
    }

    fn len(&self) -> usize {
        of_either!(self, changes => changes.len())
    }

    #[inline]
    fn push(&mut self, prefix: Prefix, change: u32) {
        of_either!(self, changes => changes.push((Key::of(prefix), change)));
    }

    fn prefixes(&self) -> Box<dyn Iterator<Item = Prefix> + '_> {
        of_either!(self, changes => Box::new(changes.iter().map(|(key, _)| key.prefix())))
    }
}

/// A list of paths within a [`Batch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Paths(u32);

impl Batch {
    /// An empty batch for a table of a family.
    pub fn new(family: Family, table: TableIndex) -> Batch {
        Batch { table, lists: Vec::new(), changes: Changes::new(family), is_resync: false }
    }

    pub fn family(&self) -> Family {
        self.changes.family()
    }

    pub fn table(&self) -> TableIndex {
        self.table
    }

    /// Adds a list of paths that routes of this batch may use.
    pub fn paths(&mut self, paths: Vec<Path>) -> Paths {
        self.lists.push(super::control::join_paths(Vec::new(), paths));
        Paths(self.lists.len() as u32 - 1)
    }

    /// Gives a route these paths, whether it is new or not. The last change of a prefix counts.
    ///
    /// # Panics
    /// When the prefix is of another family.
    #[inline]
    pub fn put(&mut self, prefix: impl Into<Prefix>, paths: Paths) {
        self.changes.push(prefix.into(), paths.0);
    }

    /// Removes a route.
    ///
    /// # Panics
    /// When the prefix is of another family.
    pub fn remove(&mut self, prefix: impl Into<Prefix>) {
        self.changes.push(prefix.into(), REMOVE);
    }

    /// The changes in their order: the paths of each prefix, or none where it is removed.
    pub fn iter(&self) -> impl Iterator<Item = (Prefix, Option<&[Path]>)> {
        let lists = of_either!(&self.changes, changes => changes.iter().map(|(_, list)| *list).collect::<Vec<u32>>());
        let paths = |list: u32| (list != REMOVE).then(|| &self.lists[list as usize][..]);
        self.changes.prefixes().zip(lists).map(move |(prefix, list)| (prefix, paths(list)))
    }

    /// How many changes there are.
    pub fn len(&self) -> usize {
        self.changes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// An empty batch for the default IPv4 table.
impl Default for Batch {
    fn default() -> Batch {
        Batch::new(Family::Ip4, TableIndex::DEFAULT)
    }
}

/// The result of a [`Batch`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Outcome {
    pub added: usize,
    /// Routes that had paths of this source already.
    pub replaced: usize,
    pub removed: usize,
    /// Routes to be removed that did not exist.
    pub missing: usize,
    /// Routes that found no room, were beyond the table's limit, or would have led through themselves. They did not
    /// change.
    pub refused: usize,
}

impl Outcome {
    /// The sum of both.
    fn and(self, other: Outcome) -> Outcome {
        Outcome {
            added: self.added + other.added,
            replaced: self.replaced + other.replaced,
            removed: self.removed + other.removed,
            missing: self.missing + other.missing,
            refused: self.refused + other.refused,
        }
    }
}

/// A batch with all that it needs to be carried out.
struct Prepared {
    batch: Batch,
    /// Host routes with a path onto an interface. They are changed one by one.
    hosts: Vec<(Prefix, u32)>,
    /// The lists of the batch, by their numbers in it.
    ids: Vec<ListId>,
}

/// What a batch is to do.
#[derive(Clone, Copy)]
struct Job<'a> {
    table: TableIndex,
    ids: &'a [ListId],
    source: Source,
    fresh: bool,
    /// How many prefixes there are, and how many are allowed.
    prefixes: usize,
    limit: usize,
}

/// How far a batch has been carried out.
struct Progress {
    outcome: Outcome,
    /// Lists that may no longer be in use.
    unused: BTreeSet<ListId>,
}

/// The table and the source of a batch.
struct Place<'a> {
    table: TableIndex,
    source: Source,
    is_resync: bool,
    ids: &'a [ListId],
    /// The prefixes through which each list reaches its next hops.
    over: &'a [Vec<Prefix>],
}

/// Prefixes of a family that are merged into its tables.
trait Merged: Key {
    fn change(fib: &mut Fib, changes: &[(Self, u32)], merge: &mut Merge<'_, Self>);
}

impl Merged for fib4::Key {
    fn change(fib: &mut Fib, changes: &[(fib4::Key, u32)], merge: &mut Merge<'_, fib4::Key>) {
        let Fib::V4(fib) = fib else { unreachable!("tables are found by their family") };
        fib.change_sorted(changes, merge);
    }
}

impl Merged for fib6::Key {
    fn change(fib: &mut Fib, changes: &[(fib6::Key, u32)], merge: &mut Merge<'_, fib6::Key>) {
        let Fib::V6(fib) = fib else { unreachable!("tables are found by their family") };
        fib.change_sorted(changes, merge);
    }
}

/// How many of the first changes are made together.
fn length_of_part<K: Key>(changes: &[(K, u32)]) -> usize {
    let Some((last, _)) = changes.get(PART - 1).copied() else { return changes.len() };
    // Changes of one prefix are made together. So are changes in one place of the table, unless they are very many.
    let near = changes[PART..].iter().take(PART).take_while(|(key, _)| K::are_near(*key, last)).count();
    let more = if near < PART { near } else { 0 };
    let last = changes[PART + more - 1].0;
    PART + more + changes[PART + more..].iter().take_while(|(key, _)| *key == last).count()
}

/// Carries a batch out in the numbers that the table stores.
struct Merge<'a, K> {
    job: Job<'a>,
    /// The prefixes through which each list reaches its next hops.
    over: Vec<Vec<K>>,
    lists: &'a mut PathLists,
    several: &'a mut MultiSourceEntries,
    counted: &'a Counted,
    unsaid: &'a mut UnsaidRoutes,
    outcome: Outcome,
    unused: BTreeSet<ListId>,
    /// The shelved entries of changed prefixes, to restore them when there is no room for a change.
    shelved: Vec<(u32, Shelved)>,
}

impl<'a, K: Key> Merge<'a, K> {
    fn new(
        job: Job<'a>,
        over: &[Vec<Prefix>],
        lists: &'a mut PathLists,
        several: &'a mut MultiSourceEntries,
        counted: &'a Counted,
        unsaid: &'a mut UnsaidRoutes,
    ) -> Merge<'a, K> {
        let over = over.iter().map(|prefixes| prefixes.iter().map(|prefix| K::of(*prefix)).collect()).collect();
        let (outcome, unused) = (Outcome::default(), BTreeSet::new());
        Merge { job, over, lists, several, counted, unsaid, outcome, unused, shelved: Vec::new() }
    }

    #[inline]
    fn leaf_of(&self, value: u32) -> Leaf {
        leaf_of(self.lists, self.several, value)
    }

    #[inline]
    fn merge_one(&mut self, key: K, value: Option<u32>, change: u32) -> Option<u32> {
        let list = (change != REMOVE).then(|| self.job.ids[change as usize]);
        let is_new = list.is_some() && value.is_none();
        if list.is_some() && self.over[change as usize].contains(&key) || is_new && self.job.prefixes >= self.job.limit
        {
            self.outcome.refused += 1;
            return value;
        }
        let share = list.map(|list| Share { source: self.job.source, list, fresh: self.job.fresh });
        let (after, before) = self.several.set(value.map(Entry), self.job.source, share);
        self.job.prefixes = self.job.prefixes + usize::from(is_new) - usize::from(value.is_some() && after.is_none());
        let after = after.map(|after| match self.counted.counts_none() {
            true => after,
            false => self.counted.keep(self.job.table, key.prefix(), after, self.lists, self.several),
        });
        let counter = match (before, list) {
            (None, Some(_)) => &mut self.outcome.added,
            (Some(_), Some(_)) => &mut self.outcome.replaced,
            (Some(_), None) => &mut self.outcome.removed,
            (None, None) => &mut self.outcome.missing,
        };
        *counter += 1;
        self.moved(key, before.map(|share| share.list), list);
        after.map(|entry| entry.0)
    }

    /// Records that a prefix follows another list than before.
    #[inline]
    fn moved(&mut self, key: K, before: Option<ListId>, list: Option<ListId>) {
        if before == list {
            return;
        }
        self.unsaid.note(self.job.source, self.job.table, key.prefix());
        list.into_iter().for_each(|list| self.lists.add_user(list, || key.prefix().into()));
        if let Some(before) = before
            && self.lists.remove_user(before, || key.prefix().into()) == 0
        {
            self.unused.insert(before);
        }
    }
}

impl fib4::Routes<u32> for Merge<'_, fib4::Key> {
    #[inline]
    fn leaf(&self, value: u32) -> Leaf {
        self.leaf_of(value)
    }

    #[inline]
    fn merge(&mut self, key: fib4::Key, value: Option<u32>, change: u32) -> Option<u32> {
        self.merge_one(key, value, change)
    }

    fn refuse(&mut self, _: fib4::Key, change: u32) {
        match change {
            REMOVE => self.outcome.missing += 1,
            _ => self.outcome.refused += 1,
        }
    }
}

impl fib6::Routes<u32> for Merge<'_, fib6::Key> {
    #[inline]
    fn leaf(&self, value: u32) -> Leaf {
        self.leaf_of(value)
    }

    #[inline]
    fn merge(&mut self, key: fib6::Key, value: Option<u32>, change: u32) -> Option<u32> {
        // A number that stands for a place on the shelf keeps its meaning until the batch is done.
        self.shelved.extend(value.and_then(|value| Some((value, self.several.shelved(Entry(value))?))));
        self.merge_one(key, value, change)
    }

    fn refuse(&mut self, key: fib6::Key, before: Option<u32>, after: Option<u32>, change: u32) {
        let list = (change != REMOVE).then(|| self.job.ids[change as usize]);
        // A change that was refused before has changed nothing.
        if list.is_some() && (after.is_none() || self.over[change as usize].contains(&key)) {
            return;
        }
        if let Some(at) = self.shelved.iter().rposition(|(number, _)| Some(*number) == before) {
            let (number, shelved) = self.shelved.swap_remove(at);
            self.several.put_back(Entry(number), shelved);
        }
        after.filter(|after| Some(*after) != before).into_iter().for_each(|after| self.several.give_up(Entry(after)));
        let before = before.map(Entry);
        let had = before.and_then(|entry| self.several.shares(entry).find(|share| share.source == self.job.source));
        let had = had.map(|share| share.list);
        if let Some(entry) = before {
            self.counted.keep(self.job.table, key.prefix(), entry, self.lists, self.several);
        }
        let counter = match (had, list) {
            (None, Some(_)) => &mut self.outcome.added,
            (Some(_), Some(_)) => &mut self.outcome.replaced,
            (Some(_), None) => &mut self.outcome.removed,
            (None, None) => return,
        };
        *counter -= 1;
        self.outcome.refused += 1;
        self.job.prefixes = self.job.prefixes + usize::from(after.is_none()) - usize::from(before.is_none());
        self.moved(key, list, had);
    }
}

/// Takes out the changes that give a host route a path onto an interface. Such a route leads to that very host, so its
/// list cannot be shared, and it is changed on its own. If a prefix has such a change, only its last change stays.
fn take_hosts<K: Key>(lists: &[Vec<Path>], changes: &mut Vec<(K, u32)>) -> Vec<(Prefix, u32)> {
    let is_onto = |paths: &Vec<Path>| paths.iter().any(|path| matches!(path.way, PathAction::Attached(_)));
    let onto: Vec<bool> = lists.iter().map(is_onto).collect();
    if !onto.contains(&true) {
        return Vec::new();
    }
    let is_host = |(key, change): &(K, u32)| key.prefix().is_host() && onto.get(*change as usize) == Some(&true);
    let hosts: BTreeSet<K> = changes.iter().filter(|change| is_host(change)).map(|(key, _)| *key).collect();
    let last: BTreeMap<K, u32> = changes.iter().copied().filter(|(key, _)| hosts.contains(key)).collect();
    changes.retain(|(key, _)| !hosts.contains(key));
    let (hosts, others): (Vec<_>, Vec<_>) = last.into_iter().partition(is_host);
    changes.extend(others);
    hosts.into_iter().map(|(key, change)| (key.prefix(), change)).collect()
}

impl Router {
    /// Carries out a batch of changes, of one source in one existing table.
    ///
    /// # Errors
    /// When paths name an interface that does not exist, there are too many paths, or a list of them cannot be made;
    /// then nothing has changed. Single routes that are refused are counted in the result.
    pub fn change_routes(&mut self, source: Source, batch: Batch) -> Result<Outcome, Error> {
        self.change_all_routes(source, vec![batch])
    }

    /// Carries out several batches: all of them or none.
    ///
    /// # Errors
    /// As [`Router::change_routes`].
    pub fn change_all_routes(&mut self, source: Source, batches: Vec<Batch>) -> Result<Outcome, Error> {
        self.operation(|router| router.change_all(source, batches))
    }

    fn change_all(&mut self, source: Source, batches: Vec<Batch>) -> Result<Outcome, Error> {
        let mut ready = Vec::with_capacity(batches.len());
        for batch in batches {
            match self.prepare(source, batch) {
                Ok(prepared) => ready.push(prepared),
                Err(error) => {
                    ready.into_iter().flat_map(|prepared| prepared.ids).for_each(|id| self.drop_unused(id));
                    return Err(error);
                }
            }
        }
        let outcomes = ready.into_iter().map(|prepared| self.carry_out(source, prepared));
        Ok(outcomes.fold(Outcome::default(), Outcome::and))
    }

    /// Allocates all that a batch needs. After that nothing can prevent the batch from being carried out.
    fn prepare(&mut self, source: Source, mut batch: Batch) -> Result<Prepared, Error> {
        let (table, family) = (batch.table, batch.family());
        let coming = of_either!(&batch.changes, changes => changes.iter().filter(|(_, list)| *list != REMOVE).count());
        if coming > 0 && !heap::room_for(coming.saturating_mul(ROUTE_BYTES)) {
            return Err(Error::NoMemory);
        }
        for paths in &batch.lists {
            self.check_paths(table, paths)?;
            if paths.len() > MAX_PATHS {
                return Err(RouteError::TooManyPaths.into());
            }
        }
        let hosts = of_either!(&mut batch.changes, changes => take_hosts(&batch.lists, changes));
        let mut ids: Vec<ListId> = Vec::with_capacity(batch.lists.len());
        for paths in &batch.lists {
            let wanted =
                ListRef { of: Of::Prefixes(family), table, host: None, holds_itself: source == Source::OnLink, paths };
            match self.acquire_list(wanted, None) {
                Ok(id) => ids.push(id),
                Err(error) => {
                    ids.into_iter().for_each(|id| self.drop_unused(id));
                    return Err(error);
                }
            }
        }
        match self.keep_flows(source, &mut batch, &mut ids) {
            Ok(()) => Ok(Prepared { batch, hosts, ids }),
            Err(error) => {
                ids.into_iter().for_each(|id| self.drop_unused(id));
                Err(error)
            }
        }
    }

    /// Keeps flows on their paths when a prefix goes from several paths to several paths: it then follows a list made
    /// for the prefix's previous list. The batch gets one more number for each such previous list.
    fn keep_flows(&mut self, source: Source, batch: &mut Batch, ids: &mut Vec<ListId>) -> Result<(), Error> {
        let (table, family) = (batch.table, batch.family());
        let spreads: Vec<bool> = ids.iter().map(|id| self.ip.lists.get(*id).members.len() > 1).collect();
        if !spreads.contains(&true) {
            return Ok(());
        }
        let mut numbers: HashMap<(u32, ListId), u32> = HashMap::new();
        let mut from: Vec<(u32, ListId)> = Vec::new();
        of_either!(&mut batch.changes, changes => for part in changes.chunks_mut(PART) {
            let ip = &self.ip;
            for (key, change) in part.iter_mut().filter(|(_, change)| spreads.get(*change as usize) == Some(&true)) {
                let Some(before) = ip.list_before(table, key.prefix(), source) else { continue };
                if before == ids[*change as usize] || ip.lists.spread(before).buckets.len() < 2 {
                    continue;
                }
                *change = *numbers.entry((*change, before)).or_insert_with_key(|came| {
                    from.push(*came);
                    (ids.len() + from.len() - 1) as u32
                });
            }
            self.breathe();
        });
        for (number, before) in from {
            let paths = &batch.lists[number as usize];
            let holds_itself = source == Source::OnLink;
            let wanted = ListRef { of: Of::Prefixes(family), table, host: None, holds_itself, paths };
            ids.push(self.acquire_list(wanted, Some(before))?);
        }
        Ok(())
    }

    fn carry_out(&mut self, source: Source, prepared: Prepared) -> Outcome {
        let Prepared { mut batch, hosts, ids } = prepared;
        let (table, family) = (batch.table, batch.family());
        let over: Vec<Vec<Prefix>> = ids.iter().map(|id| self.led_over(*id, family, table)).collect();
        let place = Place { table, source, is_resync: batch.is_resync, ids: &ids, over: &over };
        let Progress { mut outcome, unused } = match &mut batch.changes {
            Changes::V4(changes) => self.merge_all(&place, family, changes),
            Changes::V6(changes) => self.merge_all(&place, family, changes),
        };
        self.after_changes(&batch.changes);
        for (prefix, paths) in hosts {
            self.breathe();
            let was_there = self.ip.shares(table, prefix).any(|share| share.source == source);
            let paths = batch.lists[paths as usize].clone();
            match self.add_route_in(table, prefix, source, paths, true) {
                Ok(()) if was_there => outcome.replaced += 1,
                Ok(()) => outcome.added += 1,
                Err(_) => outcome.refused += 1,
            }
        }
        unused.into_iter().for_each(|list| self.drop_unused(list));
        self.ip.have_gone += outcome.removed;
        outcome
    }

    /// Changes the prefixes of a table in parts.
    fn merge_all<K: Merged>(&mut self, place: &Place<'_>, family: Family, changes: &mut Vec<(K, u32)>) -> Progress {
        let mut progress = Progress { outcome: Outcome::default(), unused: place.ids.iter().copied().collect() };
        K::sort(changes);
        // A new default route comes first, and a removed one goes last. So no address is without a route if it has one
        // before and after.
        let is_default = |(key, _): &(K, u32)| key.prefix().length() == 0;
        let defaults: Vec<(K, u32)> = changes.iter().copied().filter(is_default).collect();
        let goes = defaults.last().is_some_and(|(_, change)| *change == REMOVE);
        if !goes {
            self.merge_part(place, family, &defaults, &mut progress);
        }
        if !defaults.is_empty() {
            changes.retain(|change| !is_default(change));
        }
        let mut rest = &changes[..];
        while !rest.is_empty() {
            let (part, behind) = rest.split_at(length_of_part(rest));
            self.merge_part(place, family, part, &mut progress);
            rest = behind;
            self.breathe();
        }
        if goes {
            self.merge_part(place, family, &defaults, &mut progress);
        }
        // The later search for next hops needs the default routes as well.
        changes.extend(defaults);
        progress
    }

    /// Changes some prefixes of a table, in their order.
    fn merge_part<K: Merged>(
        &mut self,
        place: &Place<'_>,
        family: Family,
        changes: &[(K, u32)],
        progress: &mut Progress,
    ) {
        if changes.is_empty() {
            return;
        }
        let Place { table, source, is_resync, ids, over } = *place;
        let Ip { tables, lists, several, counted, unsaid, .. } = &mut self.ip;
        let known = tables.get_mut(family, table);
        let limit = if is_resync { usize::MAX } else { known.limit_of(source) };
        let Table { fib, fresh, .. } = known;
        let job = Job { table, ids, source, fresh: fresh[source as usize], prefixes: fib.len(), limit };
        several.begin_batch();
        let mut merge = Merge::new(job, over, lists, several, counted, unsaid);
        K::change(fib, changes, &mut merge);
        let Merge { outcome, unused, .. } = merge;
        several.end_batch();
        // Lookups of neighbouring prefixes may have been written between a change and its undoing.
        known.is_stale |= family == Family::Ip6 && outcome.refused > 0;
        progress.outcome = progress.outcome.and(outcome);
        progress.unused.extend(unused);
    }

    /// Refuses a batch that would bring its table beyond the limit if it replaced all routes that the API has there.
    pub(super) fn check_room_for(&self, batch: &Batch) -> Result<(), Error> {
        let Some(limit) = self.ip.limit(batch.family(), batch.table) else { return Ok(()) };
        let is_others = |value| self.ip.several.shares(Entry(value)).any(|share| share.source != Source::Api);
        let fib = self.ip.fib(batch.family(), batch.table);
        let mut others = 0;
        fib.each(|_, value| others += usize::from(is_others(value)));
        let wanted: BTreeSet<Prefix> = batch.changes.prefixes().collect();
        let new = wanted.into_iter().filter(|prefix| !fib.get(*prefix).is_some_and(is_others)).count();
        match others + new > limit {
            true => Err(TableError::Limit { id: self.ip.id_of(batch.table), limit }.into()),
            false => Ok(()),
        }
    }

    /// Resolves next hops again, because their routes may have changed.
    fn after_changes(&mut self, changes: &Changes) {
        if self.ip.dependents.hops() <= changes.len() {
            Family::ALL.into_iter().for_each(|family| self.refresh_hops_in(Prefix::default_of(family)));
        } else {
            changes.prefixes().for_each(|prefix| self.refresh_hops_in(prefix));
        }
        self.paint();
    }

    /// Begins a resync: from now on a source states again which routes it wants in a table. [`Router::end_resync`]
    /// removes the routes that it has not stated by then. Until then all routes stay in use.
    pub fn begin_resync(&mut self, family: Family, table: TableIndex, source: Source) {
        let fresh = &mut self.ip.tables.get_mut(family, table).fresh[source as usize];
        *fresh = !*fresh;
        let fresh = *fresh;
        // Routes that an earlier, interrupted resync has marked must be stated again, too.
        let Some(marked) = self.routes_marked(family, table, source, fresh) else { return };
        for prefix in marked {
            self.breathe();
            let Ip { tables, several, lists, .. } = &mut self.ip;
            let fib = &mut tables.get_mut(family, table).fib;
            let Some(entry) = fib.get(prefix).map(Entry) else { continue };
            let share = several.shares(entry).find(|share| share.source == source);
            let share = share.map(|share| Share { fresh: !fresh, ..share });
            let (after, _) = several.set(Some(entry), source, share);
            if let Some(after) = after {
                // The route leads where it led before.
                let _ = fib.insert(prefix, after.0, |value| leaf_of(lists, several, value));
            }
        }
    }

    /// Removes the routes that a source has not stated since [`Router::begin_resync`]. Returns how many.
    pub fn end_resync(&mut self, family: Family, table: TableIndex, source: Source) -> usize {
        let fresh = self.ip.tables.get_mut(family, table).fresh[source as usize];
        let mut batch = Batch { is_resync: true, ..Batch::new(family, table) };
        let stale = self.routes_marked(family, table, source, !fresh).unwrap_or_default();
        stale.into_iter().for_each(|prefix| batch.remove(prefix));
        self.change_routes(source, batch).map_or(0, |outcome| outcome.removed)
    }

    /// The prefixes of a source with one of the two marks, or `None` when there are none.
    fn routes_marked(&self, family: Family, table: TableIndex, source: Source, fresh: bool) -> Option<Vec<Prefix>> {
        let mut marked = Vec::new();
        self.ip.fib(family, table).each(|prefix, value| {
            if self.ip.several.shares(Entry(value)).any(|share| share.source == source && share.fresh == fresh) {
                marked.push(prefix);
            }
        });
        (!marked.is_empty()).then_some(marked)
    }
}
