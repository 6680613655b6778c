//! The routing tables of both families as the control thread keeps them.
//!
//! A route is a prefix and, from each source, a list of paths. Lookups find the leaf of the best source whose list has
//! a working path: an adjacency, a glean, or a load balance over several. Prefixes share lists ([`super::path_list`]),
//! so that a route costs a few bytes ([`super::entry`]), and a change of a next hop changes one object
//! ([`super::resolve`]).

use super::adjacency::Adjacencies;
use super::count::{self, Counted, CounterSlots};
use super::edges::AllEdges;
use super::entry::{Entry, MultiSourceEntries, Share};
use super::fibs::SharedTables;
use super::hops::Dependents;
use super::leaving::Leaving;
use super::objects::CustomObjects;
use super::path_list::{ListId, ListRef, Of, PathLists, User};
use super::resolve::Painting;
use super::route::Hop;
pub use super::route::{LabelTableIndex, MAX_PATHS, Path, PathAction, Route, Source, TableIndex};
use super::stack::Stacks;
use super::table::{Fib, PART, Table, TableFull, Vrfs};
use super::vrf::TableError;
use crate::chunks::Chunks;
use crate::ip::labels::control::MplsError;
use crate::ip::labels::table::LabelTables;
use crate::ip::objects::ObjectError;
use crate::ip::route::RouteError;
use crate::neighbour_key::NeighbourKey;
use crate::unsaid::UnsaidRoutes;
use crate::{Error, Router};
use graph::InterfaceIndex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::IpAddr;
use std::time::{Duration, Instant};
use tables::ObjectHandle;
use tables::fib4::Memory;
use tables::{Fib4, Fib6, Leaf, Lookup4, Lookup6, Objects};
use wire::{Family, Prefix};

/// Memory is freed when no route was removed for this long.
pub const TRIM_AFTER: Duration = Duration::from_secs(30);
const DEFAULT: TableIndex = TableIndex::DEFAULT;

/// The control thread's routing state of both families.
pub struct Ip {
    pub(super) tables: Vrfs,
    /// The tables as they were last published for the nodes, and where.
    known4: Chunks<Lookup4>,
    known6: Chunks<Lookup6>,
    shared4: SharedTables<Lookup4>,
    shared6: SharedTables<Lookup6>,
    pub(super) leaving: Leaving<TableIndex>,
    /// Whether tables accept more routes than their limits, until this is reset.
    pub knows_no_limit: bool,
    /// Routes that were removed since the last check, and when memory is to be freed.
    pub(crate) have_gone: usize,
    trim_due: Option<Instant>,
    pub(super) counted: Counted,
    pub lists: PathLists,
    pub(super) several: MultiSourceEntries,
    pub(super) dependents: Dependents,
    pub(super) adjacencies: Adjacencies,
    pub labels: LabelTables,
    /// The list of each tunnel's paths.
    pub tunnels: BTreeMap<InterfaceIndex, ListId>,
    /// Interfaces that put a header in front of packets.
    pub(crate) stacks: Stacks,
    pub(crate) rewrite_edges: AllEdges,
    /// Objects of other capabilities.
    pub customs: CustomObjects,
    /// The list of each load balance.
    pub(super) balances: HashMap<u32, ListId>,
    /// Changed lists whose prefixes are to be updated together in the lookup tables.
    pub(super) painting: Painting,
    pub objects: Objects,
    pub(crate) unsaid: UnsaidRoutes,
}

/// The leaf that a table's number stands for.
#[inline]
pub(super) fn leaf_of(lists: &PathLists, several: &MultiSourceEntries, value: u32) -> Leaf {
    match Entry(value).only() {
        Some(share) => lists.leaf(share.list),
        None => match (way_of(lists, several, value), several.counted_at(Entry(value))) {
            (Leaf::MISS, _) => Leaf::MISS,
            (_, Some(place)) => count::leaf_at(place),
            (leaf, None) => leaf,
        },
    }
}

/// Where the packets of a table's number go, whether they are counted or not.
pub(super) fn way_of(lists: &PathLists, several: &MultiSourceEntries, value: u32) -> Leaf {
    let mut leaves = several.shares(Entry(value)).map(|share| lists.leaf(share.list));
    leaves.find(|leaf| *leaf != Leaf::MISS).unwrap_or(Leaf::MISS)
}

impl Ip {
    /// Begins with the default tables, which are published.
    pub(crate) fn new(
        (fib4, shared4): (Fib4, SharedTables<Lookup4>),
        (fib6, shared6): (Fib6, SharedTables<Lookup6>),
        labels: LabelTables,
        objects: Objects,
        places: CounterSlots,
    ) -> Ip {
        let mut tables = Vrfs::default();
        tables.add(DEFAULT, 0, Table::new(Fib::V4(fib4.into())));
        tables.add(DEFAULT, 0, Table::new(Fib::V6(fib6.into())));
        let mut ip = Ip {
            tables,
            known4: Chunks::default(),
            known6: Chunks::default(),
            shared4,
            shared6,
            leaving: Leaving::default(),
            knows_no_limit: false,
            have_gone: 0,
            trim_due: None,
            counted: Counted::new(places),
            lists: PathLists::default(),
            several: MultiSourceEntries::default(),
            dependents: Dependents::default(),
            adjacencies: Adjacencies::default(),
            labels,
            tunnels: BTreeMap::new(),
            stacks: Stacks::default(),
            rewrite_edges: AllEdges::new(),
            customs: CustomObjects::default(),
            balances: HashMap::new(),
            painting: Painting::default(),
            objects,
            unsaid: UnsaidRoutes::default(),
        };
        Family::ALL.into_iter().for_each(|family| ip.publish_table(family, DEFAULT));
        ip
    }

    /// Publishes to the nodes which table has this index, or that none has.
    pub(super) fn publish_table(&mut self, family: Family, index: TableIndex) {
        let at = index.0 as usize;
        match (family, self.tables.get(family, index).map(|table| &table.fib)) {
            (_, Some(Fib::V4(fib))) => self.known4.set(at, Some(fib.handle())),
            (_, Some(Fib::V6(fib))) => self.known6.set(at, Some(fib.handle())),
            (Family::Ip4, None) => self.known4.set(at, None),
            (Family::Ip6, None) => self.known6.set(at, None),
        }
        match family {
            Family::Ip4 => self.shared4.publish(self.known4.clone()),
            Family::Ip6 => self.shared6.publish(self.known6.clone()),
        }
    }

    /// The table with an identifier.
    pub fn find_table(&self, family: Family, id: u32) -> Option<TableIndex> {
        self.tables.find(id).filter(|index| self.tables.get(family, *index).is_some())
    }

    /// The limit of a table's prefixes, if one is set.
    pub fn limit(&self, family: Family, table: TableIndex) -> Option<usize> {
        self.tables.get(family, table)?.limit
    }

    /// All tables of a family, with the identifiers that operators use.
    pub fn table_ids(&self, family: Family) -> impl Iterator<Item = (TableIndex, u32)> + use<> {
        let mut ids: Vec<_> = self.tables.of(family).map(|(index, id, _)| (index, id)).collect();
        ids.sort_unstable_by_key(|(_, id)| *id);
        ids.into_iter()
    }

    /// The identifier that operators use for a table.
    pub fn id_of(&self, table: TableIndex) -> u32 {
        self.tables.id_of(table).unwrap_or(0)
    }

    /// The default IPv4 table's routes.
    pub fn routes(&self) -> Routes<'_> {
        self.routes_in(Family::Ip4, DEFAULT)
    }

    /// The routes of an existing table.
    pub fn routes_in(&self, family: Family, table: TableIndex) -> Routes<'_> {
        Routes { ip: self, family, table }
    }

    /// The route that packets to `address` take in a table.
    pub fn longest_match(&self, table: TableIndex, address: IpAddr) -> Option<(Prefix, Route)> {
        let used = |prefix: Prefix, value| (self.leaf(value) != Leaf::MISS).then_some((prefix, value));
        let (prefix, value) = self.find_fib(Family::of(address), table)?.longest(address, used)?;
        Some((prefix, self.route(value)))
    }

    /// Whether there is a table of a family.
    pub fn has_table(&self, family: Family, table: TableIndex) -> bool {
        self.find_fib(family, table).is_some()
    }

    pub(super) fn find_fib(&self, family: Family, table: TableIndex) -> Option<&Fib> {
        self.tables.get(family, table).map(|table| &table.fib)
    }

    /// # Panics
    /// When there is no such table. The tables of interfaces and lists, and those that callers have from
    /// [`Router::find_table`], exist.
    pub(super) fn fib(&self, family: Family, table: TableIndex) -> &Fib {
        self.find_fib(family, table).expect("tables in use are there")
    }

    pub(super) fn leaf(&self, value: u32) -> Leaf {
        leaf_of(&self.lists, &self.several, value)
    }

    /// The route of a prefix, given by its number.
    fn route(&self, value: u32) -> Route {
        let shares = self.several.shares(Entry(value));
        let sources = shares.map(|share| (share.source, self.lists.get(share.list).key.paths.to_vec()));
        Route { sources: sources.collect(), installed: Some(self.leaf(value)).filter(|leaf| *leaf != Leaf::MISS) }
    }

    /// The shares of all sources in a prefix.
    pub(super) fn shares(&self, table: TableIndex, prefix: Prefix) -> impl Iterator<Item = Share> + '_ {
        let value = self.fib(prefix.family(), table).get(prefix);
        value.into_iter().flat_map(|value| self.several.shares(Entry(value)))
    }

    /// The list that a source has for a prefix. If it has none, the list that the prefix's packets follow now.
    pub(super) fn list_before(&self, table: TableIndex, prefix: Prefix, source: Source) -> Option<ListId> {
        let own = self.shares(table, prefix).find(|share| share.source == source);
        let used = || self.shares(table, prefix).find(|share| self.lists.leaf(share.list) != Leaf::MISS);
        own.or_else(used).map(|share| share.list)
    }

    /// The lists of the routes that contain an address, the longest prefix first.
    pub(super) fn lists_around(&self, (address, table): Hop) -> Vec<ListId> {
        let mut lists = Vec::new();
        if let Some(fib) = self.find_fib(Family::of(address), table) {
            fib.longest(address, |_, value| {
                lists.extend(self.several.shares(Entry(value)).map(|share| share.list));
                None::<()>
            });
        }
        lists
    }

    /// Lists whose paths name an interface.
    pub fn lists_by(&self, interface: InterfaceIndex) -> impl Iterator<Item = ListId> + use<> {
        self.dependents.of_interface(interface).collect::<Vec<_>>().into_iter()
    }

    /// A part of [`Ip::lists_by`]: the first lists after `behind`.
    pub(crate) fn some_lists_by(&self, interface: InterfaceIndex, behind: Option<ListId>) -> BTreeSet<ListId> {
        self.dependents.some_of_interface(interface, behind, PART)
    }

    /// Whether a route requires that a neighbour is on the link.
    pub(super) fn is_insisted(&self, key: &NeighbourKey) -> bool {
        self.dependents.is_on_link(key)
    }

    /// The leaves of a load balance, when `leaf` is one.
    pub fn buckets(&self, leaf: Leaf) -> Option<&[Leaf]> {
        let list = self.balances.get(&leaf.index()).filter(|_| leaf.class() == super::class::LOAD_BALANCE)?;
        self.lists.get(*list).balance.as_ref().map(|(_, buckets)| buckets.as_slice())
    }

    /// The leaves of all path lists, of whatever routes, whether they are in use or are backup paths.
    pub fn leaves(&self) -> impl Iterator<Item = Leaf> {
        self.lists.iter().flat_map(|(id, list)| {
            let members = list.members.iter().map(|(leaf, _)| *leaf);
            members.chain([self.lists.leaf(id)]).chain(list.swap.map(|way| way.leaf))
        })
    }

    /// Forwarding objects, for nodes of other capabilities.
    pub fn object_handle(&self) -> ObjectHandle {
        self.objects.handle()
    }

    /// Forwarding objects in use.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    /// Bytes of a table.
    pub fn memory_of(&self, family: Family, table: TableIndex) -> Memory {
        self.fib(family, table).memory()
    }

    /// Bytes of all tables.
    pub fn memory(&self) -> Memory {
        let all = self.tables.all().map(|table| table.fib.memory());
        all.fold(Memory { lookup: 0, prefixes: 0 }, |sum, memory| Memory {
            lookup: sum.lookup + memory.lookup,
            prefixes: sum.prefixes + memory.prefixes,
        })
    }

    /// Sets or removes a source's share in a prefix: in the table, in the users of lists, and in what lookups find.
    /// Returns the share that the source had before.
    ///
    /// # Errors
    /// When the table has no room; then nothing has changed.
    fn put(
        &mut self,
        table: TableIndex,
        prefix: Prefix,
        source: Source,
        list: Option<ListId>,
    ) -> Result<Option<ListId>, TableFull> {
        let Ip { tables, lists, several, counted, .. } = self;
        let Table { fib, fresh, .. } = tables.get_mut(prefix.family(), table);
        let entry = fib.get(prefix).map(Entry);
        let old = entry.map_or(Leaf::MISS, |entry| leaf_of(lists, several, entry.0));
        let share = list.map(|list| Share { source, list, fresh: fresh[source as usize] });
        let (after, before) = several.set(entry, source, share);
        let after = after.map(|after| counted.keep(table, prefix, after, lists, several));
        let leaf = |value| leaf_of(lists, several, value);
        // The shelved shares have changed already, so the table cannot know what that number stood for.
        let was_shared = entry.is_some_and(|entry| entry.only().is_none());
        let done = match after {
            Some(after) if was_shared && leaf(after.0) != old => {
                fib.insert(prefix, after.0, leaf).and_then(|()| fib.repaint(prefix, leaf))
            }
            Some(after) => fib.insert(prefix, after.0, leaf),
            None => fib.remove(prefix, leaf),
        };
        if let Err(full) = done {
            // The number is the same as before, because the place that was given up last is reused first.
            let (put_back, _) = several.set(after, source, before);
            if let Some(put_back) = put_back {
                let put_back = counted.keep(table, prefix, put_back, lists, several);
                let _ = fib.insert(prefix, put_back.0, |value| leaf_of(lists, several, value));
            }
            return Err(full);
        }
        let before = before.map(|share| share.list);
        if before != list {
            list.into_iter().for_each(|list| lists.add_user(list, || prefix.into()));
            if let Some(before) = before {
                lists.remove_user(before, || prefix.into());
            }
            self.unsaid.note(source, table, prefix);
        }
        Ok(before)
    }

    /// How many routes of a source wait for a working path.
    pub fn unresolved(&self, source: Source) -> usize {
        let mut count = 0;
        for table in self.tables.all() {
            table.fib.each(|_, value| {
                let waits = |share: Share| share.source == source && self.lists.leaf(share.list) == Leaf::MISS;
                count += usize::from(self.several.shares(Entry(value)).any(waits));
            });
        }
        count
    }

    /// Fits memory to the present routes. Unused memory is freed only when no route was removed for a while, because
    /// the routes of a restarting neighbour come back. Returns whether memory was freed; the caller then does the same
    /// for its own tables.
    pub(crate) fn fit_memory(&mut self, now: Instant) -> bool {
        let Ip { tables, lists, several, labels, adjacencies, objects, .. } = self;
        for table in tables.all_mut() {
            table.fib.settle();
            if std::mem::take(&mut table.is_stale) {
                let done = table.fib.repaint_where(|_| true, |value| leaf_of(lists, several, value));
                table.is_stale = done.is_err();
            }
        }
        if std::mem::take(&mut self.have_gone) > 0 {
            self.trim_due = Some(now + TRIM_AFTER);
        }
        let is_due = self.trim_due.take_if(|due| *due <= now).is_some();
        if is_due {
            tables.all_mut().for_each(|table| table.fib.trim(|value| leaf_of(lists, several, value)));
            labels.trim();
            lists.trim();
            adjacencies.trim();
            objects.trim();
        }
        is_due
    }

    /// When memory is to be freed.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.trim_due
    }

    /// Compares what lookups find with what the routes say, and the recorded users of lists with the real ones.
    ///
    /// # Errors
    /// The first difference.
    pub fn audit(&self) -> Result<(), String> {
        let mut users: HashMap<ListId, Vec<User>> = HashMap::new();
        for (index, list) in &self.tunnels {
            users.entry(*list).or_default().push(User::Tunnel(*index));
        }
        for (index, list) in self.stacks.iter() {
            users.entry(list).or_default().push(User::Tunnel(index));
        }
        for (_, table) in self.labels.iter() {
            for (key, route) in table.routes() {
                users.entry(route.list).or_default().push(key.into());
                let (said, shown) = (self.lists.label_way(route.list), table.shown(key));
                if said != shown {
                    return Err(format!("{key:?}: lookups find {shown:?}, the route says {said:?}"));
                }
            }
        }
        for table in self.tables.all() {
            for (key, value) in table.fib.iter() {
                let shares = self.several.shares(Entry(value));
                shares.for_each(|share| users.entry(share.list).or_default().push(key.into()));
                for address in [key.address(), key.last()] {
                    let leads = |_, value| Some(self.leaf(value)).filter(|leaf| *leaf != Leaf::MISS);
                    let said = table.fib.longest(address, leads).unwrap_or(Leaf::MISS);
                    if table.fib.shown(address).is_some_and(|shown| shown != said) {
                        let shown = table.fib.shown(address);
                        return Err(format!("{address}: lookups find {shown:?}, routes say {said:?}"));
                    }
                }
            }
        }
        for (id, list) in self.lists.iter() {
            let mut named = users.remove(&id).unwrap_or_default();
            if named.len() != list.users() {
                return Err(format!("{id:?} counts {} users, not {named:?}", list.users()));
            }
            if let Some(few) = list.few_users() {
                let mut few = few.to_vec();
                few.sort();
                named.sort();
                if few != named {
                    return Err(format!("{id:?} knows {few:?}, not {named:?}"));
                }
            }
        }
        users.into_keys().next().map_or(Ok(()), |id| Err(format!("{id:?} is used and is not there")))
    }

    /// The prefixes that use a list. Labels may use it as well.
    pub(super) fn users_of(&self, id: ListId) -> Vec<Prefix> {
        let list = self.lists.get(id);
        if let Some(few) = list.few_users() {
            return few.iter().filter_map(User::prefix).collect();
        }
        let mut keys = Vec::new();
        let Some(family) = list.key.of.family() else { return keys };
        self.fib(family, list.key.table).each(|key, value| {
            if self.several.shares(Entry(value)).any(|share| share.list == id) {
                keys.push(key);
            }
        });
        keys
    }
}

/// The routes of a table, in the order of addresses, and of one address the shorter prefix first.
#[derive(Clone, Copy)]
pub struct Routes<'a> {
    ip: &'a Ip,
    family: Family,
    table: TableIndex,
}

impl<'a> Routes<'a> {
    fn fib(self) -> &'a Fib {
        self.ip.fib(self.family, self.table)
    }

    pub fn len(self) -> usize {
        self.fib().len()
    }

    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// How many routes there are of each prefix length, from 0 on.
    pub fn lengths(self) -> &'a [usize] {
        self.fib().lengths()
    }

    fn number_of(self, prefix: Prefix) -> Option<u32> {
        self.fib().get(prefix.network()).filter(|_| prefix.family() == self.family)
    }

    /// The route of exactly this prefix.
    pub fn get(self, prefix: impl Into<Prefix>) -> Option<Route> {
        self.number_of(prefix.into()).map(|value| self.ip.route(value))
    }

    pub fn contains_key(self, prefix: impl Into<Prefix>) -> bool {
        self.number_of(prefix.into()).is_some()
    }

    pub fn iter(self) -> impl Iterator<Item = (Prefix, Route)> + 'a {
        self.fib().iter().map(move |(prefix, value)| (prefix, self.ip.route(value)))
    }

    pub fn keys(self) -> impl Iterator<Item = Prefix> + 'a {
        self.fib().iter().map(|(prefix, _)| prefix)
    }

    pub fn values(self) -> impl Iterator<Item = Route> + 'a {
        self.iter().map(|(_, route)| route)
    }
}

impl std::fmt::Debug for Routes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Router {
    /// [`Router::add_route_in`] of the default table.
    ///
    /// # Errors
    /// As there.
    pub fn add_route(
        &mut self,
        prefix: impl Into<Prefix>,
        source: Source,
        paths: Vec<Path>,
        replace: bool,
    ) -> Result<(), Error> {
        self.add_route_in(DEFAULT, prefix, source, paths, replace)
    }

    /// [`Router::remove_route_in`] of the default table.
    ///
    /// # Errors
    /// As there.
    pub fn remove_route(&mut self, prefix: impl Into<Prefix>, source: Source, paths: &[Path]) -> Result<(), Error> {
        self.remove_route_in(DEFAULT, prefix, source, paths)
    }

    /// Adds paths to the route that a source has for a prefix in a table, and makes the route if there is none. With
    /// `replace` these paths become the route's only ones.
    ///
    /// # Errors
    /// When a path names an interface that does not exist, there are too many paths, the route would lead
    /// through itself, or a table is full; then nothing has changed.
    pub fn add_route_in(
        &mut self,
        table: TableIndex,
        prefix: impl Into<Prefix>,
        source: Source,
        paths: Vec<Path>,
        replace: bool,
    ) -> Result<(), Error> {
        let prefix = prefix.into().network();
        self.operation(|router| router.change_route(table, prefix, source, paths, replace))
    }

    fn change_route(
        &mut self,
        table: TableIndex,
        prefix: Prefix,
        source: Source,
        paths: Vec<Path>,
        replace: bool,
    ) -> Result<(), Error> {
        self.ip.fib(prefix.family(), table).prepare(prefix);
        self.check_paths(table, &paths)?;
        if replace {
            return self.put_route(table, prefix, source, join_paths(Vec::new(), paths), true);
        }
        let had = self.ip.shares(table, prefix).find(|share| share.source == source);
        let known = match had {
            Some(had) => self.ip.lists.get(had.list).key.paths.to_vec(),
            _ => Vec::new(),
        };
        self.put_route(table, prefix, source, join_paths(known, paths), true)
    }

    /// Refuses paths by interfaces that do not exist, and lookups that would continue in the same table.
    pub fn check_paths(&self, table: TableIndex, paths: &[Path]) -> Result<(), Error> {
        for path in paths {
            if let Some(index) = path.way.interface() {
                self.interfaces.get(index)?;
            }
            if let PathAction::Object(id) = path.way
                && self.ip.customs.name(id).is_none()
            {
                return Err(ObjectError::NotThere(id).into());
            }
            if path.way == PathAction::Lookup(table) {
                return Err(TableError::IntoItself(self.ip.id_of(table)).into());
            }
            if let PathAction::Attached(index) = path.way
                && path.labels.is_some()
                && !self.ip.tunnels.contains_key(&index)
            {
                return Err(MplsError::LabelsWithoutHop.into());
            }
        }
        Ok(())
    }

    /// Removes paths from a source's route, or the whole route when no paths are given.
    ///
    /// # Errors
    /// When there is no such route or path.
    pub fn remove_route_in(
        &mut self,
        table: TableIndex,
        prefix: impl Into<Prefix>,
        source: Source,
        paths: &[Path],
    ) -> Result<(), Error> {
        let prefix = prefix.into().network();
        self.operation(|router| router.take_paths(table, prefix, source, paths))
    }

    fn take_paths(&mut self, table: TableIndex, prefix: Prefix, source: Source, paths: &[Path]) -> Result<(), Error> {
        self.ip.fib(prefix.family(), table).prepare(prefix);
        let had = self.ip.shares(table, prefix).find(|share| share.source == source);
        let list = had.ok_or(Error::NoSuchRoute(prefix))?.list;
        let before = &self.ip.lists.get(list).key.paths;
        let named = |path: &Path| paths.iter().any(|gone| gone.means(path));
        if !paths.iter().all(|gone| before.iter().any(|path| gone.means(path))) {
            return Err(Error::NoSuchPath(prefix));
        }
        let left: Vec<Path> = before.iter().filter(|path| !(paths.is_empty() || named(path))).cloned().collect();
        if !left.is_empty() {
            return self.put_route(table, prefix, source, left, false);
        }
        self.ip.put(table, prefix, source, None)?;
        self.ip.have_gone += 1;
        self.after_change(prefix, Some(list));
        Ok(())
    }

    /// Restores a route that a source had before.
    ///
    /// # Errors
    /// When there is no more room for it.
    pub(super) fn restore_route(
        &mut self,
        table: TableIndex,
        prefix: Prefix,
        source: Source,
        paths: Vec<Path>,
    ) -> Result<(), Error> {
        self.put_route(table, prefix.network(), source, paths, false)
    }

    /// Gives a source's route other paths and updates all that depends on it, or changes nothing.
    fn put_route(
        &mut self,
        table: TableIndex,
        prefix: Prefix,
        source: Source,
        paths: Vec<Path>,
        is_more: bool,
    ) -> Result<(), Error> {
        if paths.len() > MAX_PATHS {
            return Err(RouteError::TooManyPaths.into());
        }
        let limit = self.ip.tables.get_mut(prefix.family(), table).limit_of(source);
        let has_limit = is_more && !self.ip.knows_no_limit;
        let fib = self.ip.fib(prefix.family(), table);
        if has_limit && fib.len() >= limit && fib.get(prefix).is_none() {
            return Err(TableError::Limit { id: self.ip.id_of(table), limit }.into());
        }
        let before = self.ip.list_before(table, prefix, source);
        let list = self.acquire_list(list_ref(table, prefix, source, &paths), before)?;
        // Fewer paths are never refused: the route then waits for a next hop.
        if is_more && self.ip.lists.get(list).is_recursive && self.leads_over(list, table, prefix) {
            self.drop_unused(list);
            return Err(Error::RouteLoop(prefix));
        }
        match self.ip.put(table, prefix, source, Some(list)) {
            Ok(before) => {
                self.after_change(prefix, before.filter(|before| *before != list));
                Ok(())
            }
            Err(full) => {
                self.drop_unused(list);
                Err(full.into())
            }
        }
    }

    /// Called when the paths of a prefix have changed; the old list may be unused now.
    fn after_change(&mut self, key: Prefix, gone: Option<ListId>) {
        // Next hops may be reached by this prefix now, or no longer.
        self.install_hops_in(key);
        gone.into_iter().for_each(|gone| self.drop_unused(gone));
    }

    /// Paths that name an interface, by table, prefix and source.
    pub(crate) fn routes_by(&self, index: InterfaceIndex) -> Vec<(TableIndex, Prefix, Source, Vec<Path>)> {
        self.routes_of(index, self.ip.dependents.of_interface(index))
    }

    /// The same for some of the lists that name the interface.
    pub(crate) fn routes_of(
        &self,
        index: InterfaceIndex,
        lists: impl IntoIterator<Item = ListId>,
    ) -> Vec<(TableIndex, Prefix, Source, Vec<Path>)> {
        let mut found = Vec::new();
        for list in lists {
            let list_key = &self.ip.lists.get(list).key;
            let names = |path: &&Path| path.way.interface() == Some(index);
            let paths: Vec<Path> = list_key.paths.iter().filter(names).cloned().collect();
            for key in self.ip.users_of(list) {
                for share in self.ip.shares(list_key.table, key).filter(|share| share.list == list) {
                    found.push((list_key.table, key, share.source, paths.clone()));
                }
            }
        }
        found
    }

    /// The number of routes with next hops in a network that have no working path.
    pub(crate) fn unresolved_in(&mut self, network: Prefix) -> usize {
        let (mut behind, mut unresolved) = (None, BTreeSet::new());
        loop {
            let (lists, last) = self.ip.dependents.some_of_hops_in(network, behind, PART);
            unresolved.extend(lists.into_iter().filter(|list| self.ip.lists.leaf(*list) == Leaf::MISS));
            if last.is_none() {
                return unresolved.into_iter().map(|list| self.ip.lists.get(list).users()).sum();
            }
            behind = last;
            self.breathe();
        }
    }
}

/// Adds paths to a list of paths. A path that is already in the list gets the new weight and preference.
pub fn join_paths(mut known: Vec<Path>, more: Vec<Path>) -> Vec<Path> {
    if known.is_empty() && more.len() == 1 {
        return more;
    }
    for path in more {
        match known.iter_mut().find(|known| known.is_same(&path)) {
            Some(known) => *known = path,
            None => known.push(path),
        }
    }
    known
}

/// The properties by which the paths of a source for a prefix share a list with other prefixes.
pub(super) fn list_ref(table: TableIndex, prefix: Prefix, source: Source, paths: &[Path]) -> ListRef<'_> {
    let is_host = prefix.is_host() && paths.iter().any(|path| matches!(path.way, PathAction::Attached(_)));
    let host = is_host.then(|| prefix.address());
    ListRef { of: Of::Prefixes(prefix.family()), table, host, holds_itself: source == Source::OnLink, paths }
}
