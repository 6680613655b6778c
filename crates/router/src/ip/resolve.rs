//! Resolves path lists to what packets follow: when a list is made, and again when something changes that it depends
//! on.
//!
//! A next hop on an attached network is a neighbour. Any other next hop is reached through the longest route to it,
//! except the default route (as in routing daemons) and routes onto interfaces that are down. That route is chosen even
//! if its own next hop is not reached. So the dependencies follow from the routes alone, in whatever order they were
//! added. A next hop that depends on itself is not reached. A list takes over the single paths of the route: load
//! balances do not nest, and a packet reads two objects at most.
//!
//! Next hops may be reached by routes whose next hops are reached by routes, up to sixteen in turn. A next hop that
//! needs more is not reached. So a change affects only lists within sixteen steps, and not a chain without end.

use super::adjacency::{AdjacencyKey, Inside};
use super::balance::{self, Spread};
use super::control::{Ip, leaf_of, way_of};
use super::entry::Entry;
use super::hops::insisted;
use super::path_list::{ListId, ListKey, ListRef, MOST_IN_TURN, Of, User};
use super::route::{Hop, Path, PathAction, Source, TableIndex};
use super::table::{PART, TableFull};
use crate::interface::ip6::subnet_router_anycast;
use crate::ip::labels::out::{OutLabel, on_top};
use crate::ip::labels::pop;
use crate::neighbour_key::NeighbourKey;
use crate::{Error, Router};
use graph::InterfaceIndex;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr};

use crate::ip::class;
use crate::ip::labels::key::LabelAction;
use tables::object::{LoadBalance, MAX_BUCKETS, ObjectsFull};
use tables::{Leaf, Object};
use wire::mpls::StackEntry;
use wire::{Family, Prefix};

/// Single paths with their weights. The holder has a reference to each path.
type Members = Vec<(Leaf, f64)>;

/// What paths lead to at present.
#[derive(Default)]
struct Found {
    members: Members,
    /// Whether a next hop is on no attached network.
    is_recursive: bool,
    /// How many routes in turn reach the next hops.
    in_turn: u8,
    /// Next hops that depend on another route than before.
    moved: Vec<Hop>,
}

/// Lists of many prefixes that have changed while lookups do not find the change yet, by the table of their prefixes;
/// and the leaves and objects that lookups still find.
#[derive(Default)]
pub(super) struct Painting {
    lists: HashMap<(Family, TableIndex), BTreeSet<ListId>>,
    leaves: Vec<Leaf>,
    objects: Vec<u32>,
}

/// The result of resolving a list again.
struct Changed {
    /// It leads elsewhere, in other proportions, or by more or fewer routes in turn.
    members: bool,
    /// Next hops may depend on it now, or may no longer.
    standing: bool,
    /// Next hops that depend on another route than before.
    moved: Vec<Hop>,
}

/// Whether a route may take over a path of another one. Paths that end the route cannot be taken over: to this router,
/// onto a network, and into another table.
fn leads_on(leaf: Leaf) -> bool {
    matches!(leaf.class(), class::ADJACENCY | class::MIDCHAIN | class::DROP | class::UNREACHABLE | class::PROHIBIT)
}

/// The same for a configured path, whatever the state of its links: see [`leads_on`].
fn may_lead_on(way: &PathAction) -> bool {
    match way {
        PathAction::Via { .. } | PathAction::ViaIn { .. } | PathAction::OnLink { .. } | PathAction::Attached(_) => true,
        PathAction::Drop | PathAction::Unreachable | PathAction::Prohibit => true,
        PathAction::Lookup(_) | PathAction::LookupIn(..) | PathAction::LookupLabel(_) => false,
        PathAction::Broadcast(_) | PathAction::Local(_) | PathAction::LocalAnywhere => false,
        PathAction::Punt | PathAction::Object(_) => false,
    }
}

/// The host route that holds a next hop on the link.
fn on_link_route(key: NeighbourKey) -> (Prefix, Path) {
    (Prefix::host(key.address), Path::new(PathAction::OnLink { next_hop: key.address, interface: key.interface }))
}

impl Ip {
    /// Whether next hops may depend on a list: one that works, or that may work once its own next hops are reached.
    fn may_carry(&self, id: ListId) -> bool {
        self.lists.leaf(id) != Leaf::MISS || self.lists.get(id).is_recursive
    }

    /// The route that a next hop depends on, and whether the next hop is reached by it.
    pub(super) fn through(&self, hop: Hop) -> Option<(Prefix, bool)> {
        let (key, list) = self.dependents.hop(hop)?.through?;
        Some((key, self.lists.leaf(list) != Leaf::MISS && !self.leads_through(list, hop)))
    }

    /// The neighbours by which a next hop that depends on a route is reached.
    pub fn reached_by(&self, hop: Hop) -> impl Iterator<Item = NeighbourKey> + '_ {
        let through = self.dependents.hop(hop).and_then(|state| state.through);
        let list = through.map(|(_, list)| list).filter(|list| !self.leads_through(*list, hop));
        let members = list.into_iter().flat_map(|list| &self.lists.get(list).members);
        members.filter(|(leaf, _)| leaf.class() == class::ADJACENCY).filter_map(|(leaf, _)| self.neighbour_of(*leaf))
    }

    /// Every next hop that a list needs, with the route through which it is reached: its own next hops, and those of
    /// these routes, as many in turn as are allowed.
    fn needed_by(&self, list: ListId) -> Vec<(Hop, Option<Prefix>)> {
        let (mut seen, mut left, mut needed) = (BTreeSet::from([list]), VecDeque::from([(list, 0)]), Vec::new());
        // Breadth first, so that each list is reached by the shortest way to it.
        while let Some((list, in_turn)) = left.pop_front() {
            if in_turn > MOST_IN_TURN {
                continue;
            }
            let key = &self.lists.get(list).key;
            for path in &*key.paths {
                if let PathAction::Attached(interface) = path.way {
                    let onto = self.tunnels.get(&interface).filter(|list| seen.insert(**list));
                    left.extend(onto.map(|list| (*list, in_turn + 1)));
                }
                let Some(hop) = path.way.open_hop(key.table) else { continue };
                let through = self.dependents.hop(hop).and_then(|state| state.through);
                needed.push((hop, through.map(|(key, _)| key)));
                let through = through.map(|(_, list)| list).filter(|list| seen.insert(*list));
                left.extend(through.map(|list| (list, in_turn + 1)));
            }
        }
        needed
    }

    /// An existing list of these paths that keeps the flows of the list `before` on their paths.
    fn known_list(&self, wanted: &ListRef<'_>, before: Option<ListId>) -> Option<ListId> {
        if before.is_some_and(|before| self.lists.get(before).key.as_ref() == *wanted) {
            return before;
        }
        let past = before.map(|before| self.lists.spread(before)).unwrap_or_default();
        let mut variants = self.lists.variants(wanted);
        let first = variants.next()?;
        // A single path takes all flows, from whatever paths they come.
        if past.buckets.len() < 2 || self.lists.get(first).balance.is_none() {
            return Some(first);
        }
        let variants: Vec<_> =
            [first].into_iter().chain(variants).map(|id| (id, self.lists.spread(id).buckets)).collect();
        balance::that_fits(&variants, &self.lists.get(first).members, past)
    }

    /// Updates lookups to what the number of a prefix stands for now.
    fn repaint(&mut self, of: TableIndex, prefix: Prefix) -> Result<(), TableFull> {
        let Ip { tables, lists, several, .. } = self;
        tables.get_mut(prefix.family(), of).fib.repaint(prefix, |value| leaf_of(lists, several, value))
    }

    fn leads_through(&self, list: ListId, hop: Hop) -> bool {
        self.needed_by(list).iter().any(|(needed, _)| *needed == hop)
    }
}

impl Router {
    /// A list of these paths for a prefix, a label or a tunnel that had the list `before`. Flows stay on the paths that
    /// both lists have. If no such list exists, it is made and resolved.
    pub fn acquire_list(&mut self, wanted: ListRef<'_>, before: Option<ListId>) -> Result<ListId, Error> {
        if let Some(id) = self.ip.known_list(&wanted, before) {
            return Ok(id);
        }
        let past = before.map(|before| self.ip.lists.spread(before)).unwrap_or_default();
        let (past_members, past_buckets) = (past.members.to_vec(), past.buckets.to_vec());
        let key = wanted.to_key();
        let mut held = Vec::new();
        for neighbour in insisted(&key) {
            if let Err(error) = self.hold_on_link(neighbour) {
                held.into_iter().for_each(|key| self.let_go_on_link(key));
                return Err(error);
            }
            held.push(neighbour);
        }
        let Some(id) = self.ip.lists.add(key.clone()) else {
            held.into_iter().for_each(|key| self.let_go_on_link(key));
            return Err(Error::TooManyPathLists);
        };
        self.ip.dependents.add(id, &key);
        self.ip.customs.hold(&key.paths);
        match self.refresh_list_from(id, Spread { members: &past_members, buckets: &past_buckets }) {
            Ok(_) => Ok(id),
            Err(error) => {
                self.drop_unused(id);
                Err(error)
            }
        }
    }

    /// Removes a list if nothing uses it.
    pub fn drop_unused(&mut self, id: ListId) {
        if !self.ip.lists.is_there(id) || self.ip.lists.get(id).users() > 0 {
            return;
        }
        let list = self.ip.lists.remove(id).expect("it is there");
        self.ip.stacks.forget(id);
        self.ip.customs.let_go(&list.key.paths);
        for hop in &list.carries {
            if let Some(state) = self.ip.dependents.hop_mut(*hop) {
                state.through = None;
            }
        }
        for (hop, through) in self.ip.dependents.remove(id, &list.key) {
            if self.ip.lists.is_there(through) {
                self.ip.lists.get_mut(through).carries.remove(&hop);
            }
        }
        if let Some((object, _)) = list.balance {
            self.ip.balances.remove(&object);
            self.ip.objects.remove(object);
        }
        list.swap.into_iter().for_each(|way| self.ip.release(way.leaf));
        list.members.iter().for_each(|(leaf, _)| self.ip.release(*leaf));
        insisted(&list.key).into_iter().for_each(|neighbour| self.let_go_on_link(neighbour));
        // No route depends on a list without users, but a next hop may have been resolved in the meantime.
        let waiting: BTreeSet<ListId> = list.carries.iter().flat_map(|hop| self.ip.dependents.of_hop(*hop)).collect();
        if !waiting.is_empty() {
            self.refresh_lists(waiting);
        }
    }

    /// Makes a neighbour reachable for a list that requires it, by a route of its own. The route also makes `arp-reply`
    /// accept messages from that neighbour.
    fn hold_on_link(&mut self, key: NeighbourKey) -> Result<(), Error> {
        if !self.ip.dependents.insist(key) {
            return Ok(());
        }
        let (table, (prefix, path)) = (self.table_of(key.interface, key.family()), on_link_route(key));
        self.add_route_in(table, prefix, Source::OnLink, vec![path], false).inspect_err(|_| {
            self.ip.dependents.relent(key);
        })
    }

    fn let_go_on_link(&mut self, key: NeighbourKey) {
        if !self.ip.dependents.relent(key) {
            return;
        }
        let (table, (prefix, path)) = (self.table_of(key.interface, key.family()), on_link_route(key));
        if let Err(error) = self.remove_route_in(table, prefix, Source::OnLink, &[path]) {
            log::error!("route {prefix} is not up to date: {error}");
        }
    }

    /// Resolves lists again, and everything that depends on lists that changed.
    pub(crate) fn refresh_lists(&mut self, due: BTreeSet<ListId>) {
        self.refresh_each(due);
        self.paint();
    }

    fn refresh_each(&mut self, mut due: BTreeSet<ListId>) {
        // Each iteration follows from a change, and changes end. Should they not end, the limit keeps the router from
        // standing still.
        let mut patience = 64 * (self.ip.lists.count() + 64);
        while let Some(id) = due.pop_first() {
            if !self.ip.lists.is_there(id) {
                continue;
            }
            self.breathe();
            patience -= 1;
            if patience == 0 {
                return log::error!("next hops depend on each other and do not come to rest: see 'show ip fib detail'");
            }
            match self.refresh_list(id) {
                Ok(changed) => self.add_dependents(id, &changed, &mut due),
                Err(error) => log::error!("routes are not up to date: {error}"),
            }
        }
    }

    fn add_dependents(&self, id: ListId, changed: &Changed, due: &mut BTreeSet<ListId>) {
        let list = self.ip.lists.get(id);
        let dependents = &self.ip.dependents;
        let on = |id: ListId| {
            let list = self.ip.lists.get(id);
            let onto = match list.key.of {
                Of::Tunnel(index) => Some(index),
                _ => None,
            };
            let hops = list.carries.iter().flat_map(|hop| dependents.of_hop(*hop));
            hops.chain(onto.into_iter().flat_map(|index| dependents.of_interface(index)))
        };
        if !changed.moved.is_empty() {
            // Loops may appear or disappear anywhere along the chain.
            let begin: Vec<ListId> = changed.moved.iter().flat_map(|hop| dependents.of_hop(*hop)).collect();
            let mut seen: BTreeSet<ListId> = begin.iter().copied().collect();
            let mut left: VecDeque<(ListId, u8)> = begin.into_iter().map(|list| (list, 0)).collect();
            while let Some((list, in_turn)) = left.pop_front() {
                if in_turn < MOST_IN_TURN {
                    left.extend(on(list).filter(|list| seen.insert(*list)).map(|list| (list, in_turn + 1)));
                }
            }
            due.extend(seen);
        } else if changed.members {
            due.extend(on(id));
        }
        if changed.members && matches!(list.key.of, Of::Underlay(_)) {
            due.extend(self.ip.stacks.refused());
        }
        if changed.standing && dependents.hops() > 0 {
            match list.few_users() {
                Some(users) => {
                    let prefixes = users.iter().filter_map(User::prefix);
                    due.extend(prefixes.flat_map(|prefix| dependents.of_hops_in(prefix)));
                }
                // No next hop depends on a label.
                None if list.key.of.family().is_none() => {}
                None => due.extend(dependents.all()),
            }
        }
    }

    /// Resolves a list in the present state, and updates its prefixes.
    fn refresh_list(&mut self, id: ListId) -> Result<Changed, Error> {
        self.refresh_list_from(id, Spread::default())
    }

    /// The same for a new list whose first prefix had its flows spread over `past`.
    fn refresh_list_from(&mut self, id: ListId, past: Spread<'_>) -> Result<Changed, Error> {
        let key = self.ip.lists.get(id).key.clone();
        let Found { mut members, is_recursive, in_turn, moved } = self.members_of(&key)?;
        if matches!(key.of, Of::Underlay(_)) {
            self.refuse_loops(id, &mut members);
        }
        let list = self.ip.lists.get(id);
        let stood = self.ip.may_carry(id);
        let (leaf_before, balance_before) = (self.ip.lists.leaf(id), list.balance.clone());
        let members_changed = list.members != members;
        let turn_changed = list.in_turn != in_turn;
        let is_news = in_turn > MOST_IN_TURN && turn_changed;
        let members_before = list.members.clone();
        let past = match &balance_before {
            Some((_, buckets)) => Spread { members: &members_before, buckets },
            None => past,
        };
        let (leaf, balance) = match &members[..] {
            [] => (Leaf::MISS, None),
            [(leaf, _)] if key.paths.len() == 1 && !is_recursive => (*leaf, None),
            // A label needs no load balance for one path, because its entry is quickly rewritten.
            [(leaf, _)] if key.of.family().is_none() => (*leaf, None),
            _ if !members_changed && balance_before.is_some() => (leaf_before, balance_before.clone()),
            _ => match self.balance_over(&members, balance_before.as_ref(), past, self.ip.flow_of(&key)) {
                Ok((object, buckets)) => (Leaf::new(class::LOAD_BALANCE, object), Some((object, buckets))),
                Err(full) => {
                    members.iter().for_each(|(leaf, _)| self.ip.release(*leaf));
                    return Err(full.into());
                }
            },
        };
        if let Some((object, _)) = &balance {
            self.ip.balances.insert(*object, id);
        }
        let new_object = balance.as_ref().map(|(object, _)| *object);
        let swap = if matches!(key.of, Of::Labels { .. }) { self.swap_of(leaf) } else { None };
        let list = self.ip.lists.get_mut(id);
        let swap_before = std::mem::replace(&mut list.swap, swap);
        list.balance = balance;
        list.is_recursive = is_recursive;
        list.in_turn = in_turn;
        let left = std::mem::replace(&mut list.members, members);
        self.ip.lists.set_leaf(id, leaf);
        let is_painted = (leaf == leaf_before && swap == swap_before) || self.repaint_users(id);
        let object = balance_before.map(|(object, _)| object).filter(|object| new_object != Some(*object));
        object.map(|object| self.ip.balances.remove(&object));
        let leaves = left.iter().map(|(leaf, _)| *leaf).chain(swap_before.map(|way| way.leaf));
        if is_painted {
            // Lookups no longer find the old leaves.
            leaves.for_each(|leaf| self.ip.release(leaf));
            object.into_iter().for_each(|object| self.ip.objects.remove(object));
        } else {
            self.ip.painting.leaves.extend(leaves);
            self.ip.painting.objects.extend(object);
        }
        let standing = self.ip.may_carry(id) != stood;
        if is_news && let Some(hop) = key.paths.iter().find_map(|path| path.way.open_hop(key.table)) {
            log::warn!("{} is reached by more than {MOST_IN_TURN} routes in turn: what hangs on it waits", hop.0);
        }
        Ok(Changed { members: members_changed || turn_changed || leaf != leaf_before, standing, moved })
    }

    /// An object that spreads flows over some paths: the existing one if it has room, changed in one step.
    fn balance_over(
        &mut self,
        members: &[(Leaf, f64)],
        before: Option<&(u32, Vec<Leaf>)>,
        past: Spread<'_>,
        flow: u16,
    ) -> Result<(u32, Vec<Leaf>), ObjectsFull> {
        let buckets = balance::buckets(members, past);
        let object_of = |buckets: &[Leaf]| Object::LoadBalance(LoadBalance { buckets: buckets.to_vec(), flow });
        match before {
            Some((object, known)) if *known == buckets => Ok((*object, buckets)),
            Some((object, _)) if buckets.len() <= self.ip.objects.room(*object) => {
                self.ip.objects.replace(*object, &object_of(&buckets))?;
                Ok((*object, buckets))
            }
            _ => {
                // With room for all buckets that there may ever be, because the object's place in the table never
                // changes.
                let object = self
                    .ip
                    .objects
                    .insert_with_room(&object_of(&buckets), tables::object::lines_of_buckets(MAX_BUCKETS))?;
                Ok((object, buckets))
            }
        }
    }

    /// Updates lookups to a list's new leaf, and returns whether that is done. If many prefixes use the list,
    /// [`Router::paint`] does it later, and until then the old leaf stays valid.
    fn repaint_users(&mut self, id: ListId) -> bool {
        let Ip { tables, lists, several, counted, labels, .. } = &mut self.ip;
        let list = lists.get(id);
        let family = match list.key.of {
            Of::Prefixes(family) => family,
            Of::Labels { table, .. } => {
                labels.lead(table, list, id, lists.label_way(id));
                return true;
            }
            // The routes that lead onto the tunnel are resolved again.
            Of::Tunnel(_) => return true,
            Of::Underlay(_) => return self.restack(id),
        };
        let of_table = list.key.table;
        let Some(users) = list.few_users() else {
            self.ip.painting.lists.entry((family, of_table)).or_default().insert(id);
            return false;
        };
        let table = tables.get_mut(family, of_table);
        for (of, prefix, place) in counted.iter() {
            if (prefix.family(), of) != (family, list.key.table) {
                continue;
            }
            let uses = |value: &u32| several.shares(Entry(*value)).any(|share| share.list == id);
            if let Some(value) = table.fib.get(prefix).filter(uses) {
                counted.lead(place, way_of(lists, several, value));
            }
        }
        let leaf = |value| leaf_of(lists, several, value);
        let done = users.iter().filter_map(User::prefix).try_for_each(|prefix| table.fib.repaint(prefix, leaf));
        self.note_painted((family, of_table), done);
        true
    }

    fn note_painted(&mut self, (family, table): (Family, TableIndex), done: Result<(), TableFull>) {
        if let Err(error) = done {
            self.ip.tables.get_mut(family, table).is_stale = true;
            log::error!("routes are not up to date, which is tried again: {error}");
        }
    }

    /// Updates lookups to the new leaves of lists with many prefixes: goes through all prefixes of a table once, in
    /// parts, for any number of lists. After that lookups no longer find the old leaves.
    pub(super) fn paint(&mut self) {
        let Painting { lists, leaves, objects } = std::mem::take(&mut self.ip.painting);
        for (place, lists) in lists {
            let mut is_due = vec![false; lists.last().map_or(0, |last| last.0 as usize + 1)];
            lists.iter().for_each(|id| is_due[id.0 as usize] = true);
            let done = self.repaint_many_users(place, |id| is_due.get(id.0 as usize).is_some_and(|is_due| *is_due));
            self.note_painted(place, done);
        }
        if !self.restack_rest() {
            // Midchains still lead there, and will be tried again.
            self.ip.painting.leaves.extend(leaves);
            self.ip.painting.objects.extend(objects);
            return;
        }
        for leaf in leaves {
            self.ip.release(leaf);
            self.breathe();
        }
        objects.into_iter().for_each(|object| self.ip.objects.remove(object));
    }

    fn repaint_many_users(
        &mut self,
        (family, of): (Family, TableIndex),
        is_due: impl Fn(ListId) -> bool,
    ) -> Result<(), TableFull> {
        let Ip { tables, lists, several, counted, .. } = &mut self.ip;
        for (table, prefix, place) in counted.iter() {
            if (prefix.family(), table) != (family, of) {
                continue;
            }
            let uses = |value: &u32| several.shares(Entry(*value)).any(|share| is_due(share.list));
            if let Some(value) = tables.get_mut(family, of).fib.get(prefix).filter(uses) {
                counted.lead(place, way_of(lists, several, value));
            }
        }
        let default = Prefix::default_of(family);
        let is_default = self.ip.shares(of, default).any(|share| is_due(share.list));
        let shown = self.ip.fib(family, of).get(default).map_or(Leaf::MISS, |value| self.ip.leaf(value));
        let goes = shown == Leaf::MISS;
        // A new default route comes first, and a removed one goes last. So no address is without a route if it has one
        // before and after.
        if is_default && !goes {
            self.ip.repaint(of, default)?;
        }
        let mut behind = None;
        loop {
            let Ip { tables, lists, several, .. } = &mut self.ip;
            let uses = |value| several.shares(Entry(value)).any(|share| is_due(share.list));
            let fib = &mut tables.get_mut(family, of).fib;
            behind = fib.repaint_part(behind, PART, uses, |value| leaf_of(lists, several, value))?;
            if behind.is_none() {
                break;
            }
            self.breathe();
        }
        if is_default && goes { self.ip.repaint(of, default) } else { Ok(()) }
    }

    /// The working single paths of a list with the best preference, each once.
    fn members_of(&mut self, key: &ListKey) -> Result<Found, Error> {
        let mut found: Vec<(Leaf, f64, u8)> = Vec::new();
        let (mut is_recursive, mut in_turn, mut moved) = (false, 0, Vec::new());
        for path in &*key.paths {
            match self.resolve_path(key, path) {
                Ok(part) => {
                    is_recursive |= part.is_recursive;
                    in_turn = in_turn.max(part.in_turn);
                    moved.extend(part.moved);
                    found.extend(part.members.into_iter().map(|(leaf, weight)| (leaf, weight, path.preference)));
                }
                Err(error) => {
                    found.iter().for_each(|(leaf, ..)| self.ip.release(*leaf));
                    return Err(error);
                }
            }
        }
        let best = found.iter().map(|(.., preference)| *preference).min();
        let mut members = Members::new();
        for (leaf, weight, preference) in found {
            if Some(preference) != best {
                self.ip.release(leaf);
            } else if let Some((_, sum)) = members.iter_mut().find(|(known, _)| *known == leaf) {
                // The same path twice becomes one path with both weights.
                *sum += weight;
                self.ip.release(leaf);
            } else {
                members.push((leaf, weight));
            }
        }
        // With more paths than buckets, the heaviest are used.
        if members.len() > MAX_BUCKETS {
            members.sort_by(|a, b| b.1.total_cmp(&a.1));
            let left = members.split_off(MAX_BUCKETS);
            left.iter().for_each(|(leaf, _)| self.ip.release(*leaf));
        }
        Ok(Found { members, is_recursive, in_turn, moved })
    }

    /// What one path leads to at present; nothing when it does not work.
    fn resolve_path(&mut self, key: &ListKey, path: &Path) -> Result<Found, Error> {
        // A weight of 0 counts as 1.
        let weight = f64::from(path.weight.max(1));
        let one = |leaf: Option<Leaf>| leaf.map(|leaf| (leaf, weight)).into_iter().collect();
        let mut moved = Vec::new();
        let leaf = match path.way {
            PathAction::Drop => Some(Leaf::new(class::DROP, 0)),
            PathAction::Punt => Some(Leaf::new(class::PUNT, 0)),
            PathAction::Object(id) => self.ip.customs.name(id).map(|_| id.leaf()),
            PathAction::Unreachable => Some(Leaf::new(class::UNREACHABLE, 0)),
            PathAction::Prohibit => Some(Leaf::new(class::PROHIBIT, 0)),
            // No interface has the index 0.
            PathAction::LocalAnywhere => Some(Leaf::new(class::RECEIVE, 0)),
            PathAction::Lookup(table) => Some(Leaf::new(class::LOOKUP, table.0.into())),
            PathAction::LookupIn(family, table) => {
                let is_uniform = path.labels.as_ref().is_some_and(|stated| stated.is_uniform);
                Some(pop::into_table(family, Some(table), is_uniform))
            }
            PathAction::LookupLabel(table) => Some(Leaf::new(class::LOOKUP, table.0.into())),
            PathAction::Local(index) => self.is_usable(index).then(|| Leaf::new(class::RECEIVE, index.0)),
            PathAction::Attached(interface) if self.ip.tunnels.contains_key(&interface) => {
                let list = self.ip.tunnels[&interface];
                let through =
                    if self.is_usable(interface) { self.ip.lists.get(list).members.clone() } else { Members::new() };
                let members = self.members_through(key, path, through, Some(interface))?;
                let sum: f64 = members.iter().map(|(_, weight)| weight).sum();
                let scaled = members.into_iter().map(|(leaf, part)| (leaf, weight * part / sum));
                let in_turn = self.one_more(list);
                return Ok(Found { members: scaled.collect(), is_recursive: true, in_turn, moved });
            }
            // A route out of another table may lead to the router itself.
            PathAction::Attached(interface) if key.host.is_some_and(|host| self.is_itself(interface, host)) => {
                self.is_usable(interface).then(|| Leaf::new(class::RECEIVE, interface.0))
            }
            // An attached host is a neighbour, known or not.
            PathAction::Attached(interface) if key.host.is_some() => {
                let next_hop = key.host.expect("just looked at");
                self.lead_to(key, path, NeighbourKey { interface, address: next_hop }, (&[], None))?
            }
            PathAction::Attached(interface) => {
                let Some(family) = key.of.family() else { return Ok(Found::default()) };
                // No host is behind a loopback: its packets leave without a neighbour and end there.
                let is_empty = self.interfaces.get(interface).is_ok_and(|interface| !interface.has_neighbours());
                let neighbour = NeighbourKey { interface, address: family.unspecified() };
                if self.ip.stacks.is_stacked(interface) {
                    self.lead_to(key, path, neighbour, (&[], None))?
                } else {
                    self.share_if_usable(neighbour, if is_empty { class::ADJACENCY } else { class::GLEAN })?
                }
            }
            PathAction::Broadcast(interface) => {
                let sent_on = self.interfaces.get(interface)?.ip4.directed_broadcast;
                if !sent_on || !self.is_usable(interface) {
                    return Ok(Found { members: one(Some(Leaf::new(class::BROADCAST, 0))), ..Found::default() });
                }
                self.share_if_usable(NeighbourKey { interface, address: Ipv4Addr::BROADCAST.into() }, class::ADJACENCY)?
            }
            PathAction::OnLink { next_hop, interface } => {
                self.lead_to(key, path, NeighbourKey { interface, address: next_hop }, (&[], None))?
            }
            PathAction::Via { .. } | PathAction::ViaIn { .. } => match self.way_for(key, path) {
                Some(neighbour) => {
                    if let Some(hop) = path.way.open_hop(key.table)
                        && self.lead_through(hop, None)
                    {
                        moved.push(hop);
                    }
                    self.lead_to(key, path, neighbour, (&[], None))?
                }
                None => {
                    let Some(hop) = path.way.open_hop(key.table) else { return Ok(Found::default()) };
                    let (members, in_turn, has_moved) = self.resolve_through(key, path, hop)?;
                    let sum: f64 = members.iter().map(|(_, weight)| weight).sum();
                    let scaled = members.into_iter().map(|(leaf, part)| (leaf, weight * part / sum));
                    moved.extend(has_moved.then_some(hop));
                    return Ok(Found { members: scaled.collect(), is_recursive: true, in_turn, moved });
                }
            },
        };
        Ok(Found { members: one(leaf), is_recursive: false, in_turn: 0, moved })
    }

    /// The neighbour to which a path by a next hop leads directly.
    fn way_for(&self, key: &ListKey, path: &Path) -> Option<NeighbourKey> {
        match key.of {
            Of::Underlay(_) => self.way_of_end(&path.way, key.table),
            _ => self.way_of(&path.way, key.table),
        }
    }

    fn share_if_usable(&mut self, key: NeighbourKey, kind: u8) -> Result<Option<Leaf>, Error> {
        if !self.is_usable(key.interface) {
            return Ok(None);
        }
        self.share_adjacency(key).map(|object| Some(Leaf::new(kind, object)))
    }

    /// For a label that is swapped for one other and nothing else: the object that all swaps to this neighbour share.
    /// It is held from now on.
    fn swap_of(&mut self, leaf: Leaf) -> Option<LabelAction> {
        let key = self.ip.adjacency_of(leaf).filter(|key| key.inside == Inside::Labelled)?;
        let [label] = key.push[..] else { return None };
        if !label.copies {
            return None;
        }
        let any = OutLabel { entry: StackEntry(0), copies: true };
        let key = AdjacencyKey { push: vec![any], ..key.clone() };
        let object = self.share_adjacency(key).ok()?;
        Some(LabelAction { leaf: Leaf::new(class::SWAP, object), beside: label.entry.0 })
    }

    /// The leaf for a path's packets to a neighbour, with labels on top of the path's own, and by a tunnel if one is
    /// given. `None` when packets cannot go there.
    fn lead_to(
        &mut self,
        key: &ListKey,
        path: &Path,
        neighbour: NeighbourKey,
        (over, tunnel): (&[OutLabel], Option<InterfaceIndex>),
    ) -> Result<Option<Leaf>, Error> {
        if !self.is_usable(neighbour.interface) {
            return Ok(None);
        }
        let stated = path.labels.as_deref();
        let own = stated.map_or(Vec::new(), |stated| stated.pushed(matches!(key.of, Of::Labels { .. })));
        let is_uniform = stated.is_some_and(|stated| stated.is_uniform);
        let mut adjacency = AdjacencyKey::from(neighbour);
        let is_popped = matches!(key.of, Of::Labels { is_bottom: true, .. }) && own.is_empty();
        match key.of {
            Of::Prefixes(family) | Of::Underlay(family) => adjacency.inside = Inside::Ip(family),
            Of::Labels { .. } if is_popped => {}
            Of::Tunnel(_) => {}
            Of::Labels { .. } => adjacency.inside = Inside::Labelled,
        }
        adjacency.push = on_top(over, &own);
        adjacency.tunnel = tunnel;
        adjacency.is_uniform = is_uniform && adjacency.inside == Inside::Labelled && adjacency.push.is_empty();
        if !adjacency.push.is_empty() && !self.has_room_for_labels(neighbour.interface, adjacency.push.len()) {
            log::warn!("{} labels to {}: more than fit a link header", adjacency.push.len(), neighbour.address);
            return Ok(None);
        }
        let is_stacked = self.ip.stacks.is_stacked(neighbour.interface);
        if is_stacked {
            let Some(stacked) = adjacency.stacked() else {
                log::warn!("labels to {}: its interface takes IP packets only", neighbour.address);
                return Ok(None);
            };
            adjacency = stacked;
        }
        let object = self.share_adjacency(adjacency)?;
        Ok(Some(match is_popped {
            true => pop::by_adjacency(neighbour.family(), object, is_uniform),
            false if is_stacked => Leaf::new(class::MIDCHAIN, object),
            false => Leaf::new(class::ADJACENCY, object),
        }))
    }

    /// How many routes in turn reach a next hop that depends on a list.
    fn one_more(&self, through: ListId) -> u8 {
        (self.ip.lists.get(through).in_turn + 1).min(MOST_IN_TURN + 1)
    }

    /// The single paths of the route that a next hop depends on, for a path's packets; how many routes in turn reach
    /// it; and whether it depended on another route before.
    fn resolve_through(&mut self, key: &ListKey, path: &Path, hop: Hop) -> Result<(Members, u8, bool), Error> {
        let found = self.route_to_hop(hop);
        let changed = self.lead_through(hop, found);
        let Some((_, list)) = found.filter(|(_, list)| !self.ip.leads_through(*list, hop)) else {
            return Ok((Members::new(), 0, changed));
        };
        let in_turn = self.one_more(list);
        if in_turn > MOST_IN_TURN {
            return Ok((Members::new(), in_turn, changed));
        }
        let members = &self.ip.lists.get(list).members;
        let through: Members = members.iter().filter(|(leaf, _)| leads_on(*leaf)).copied().collect();
        Ok((self.members_through(key, path, through, None)?, in_turn, changed))
    }

    /// The single paths of another list, for a path's packets, by a tunnel if one is given.
    fn members_through(
        &mut self,
        key: &ListKey,
        path: &Path,
        through: Members,
        tunnel: Option<InterfaceIndex>,
    ) -> Result<Members, Error> {
        let mut members = Members::new();
        for (leaf, weight) in through {
            let leaf = match self.ip.adjacency_of(leaf).cloned() {
                Some(way) => match self.lead_to(key, path, way.neighbour, (&way.push, tunnel.or(way.tunnel))) {
                    Ok(leaf) => leaf,
                    Err(error) => {
                        members.iter().for_each(|(leaf, _)| self.ip.release(*leaf));
                        return Err(error);
                    }
                },
                None => Some(leaf),
            };
            members.extend(leaf.map(|leaf| (leaf, weight)));
        }
        Ok(members)
    }

    /// Whether a configured route leads on to a next hop that is on no attached network. The present state of links
    /// does not matter, so that only the configuration decides what may be configured. The default route does not
    /// count, nor does a route that depends on the next hop itself.
    pub(super) fn is_routed(&self, hop: Hop) -> bool {
        let (address, table) = hop;
        let Some(fib) = self.ip.find_fib(Family::of(address), table) else { return false };
        let leads = |list: ListId| {
            let mut paths = self.ip.lists.get(list).key.paths.iter();
            paths.any(|path| may_lead_on(&path.way)) && !self.ip.leads_through(list, hop)
        };
        let found = fib.longest(address, |key, value| {
            let mut shares = self.ip.several.shares(Entry(value)).filter(|_| key.length() > 0);
            shares.next().map(|first| leads(first.list) || shares.any(|share| leads(share.list)))
        });
        found == Some(true)
    }

    /// The route that a next hop depends on, and the list that the route follows.
    pub(super) fn route_to_hop(&self, hop: Hop) -> Option<(Prefix, ListId)> {
        let (address, table) = hop;
        if self.check_against_addresses(hop, None).is_err() {
            return None;
        }
        self.ip.find_fib(Family::of(address), table)?.longest(address, |key, value| {
            let mut shares = self.ip.several.shares(Entry(value)).filter(|_| key.length() > 0);
            shares.find(|share| self.ip.may_carry(share.list)).map(|share| (key, share.list))
        })
    }

    /// Records the route through which a next hop is reached. Returns whether it has changed.
    fn lead_through(&mut self, hop: Hop, through: Option<(Prefix, ListId)>) -> bool {
        let Some(state) = self.ip.dependents.hop_mut(hop) else { return false };
        let before = std::mem::replace(&mut state.through, through);
        if before == through {
            return false;
        }
        if let Some((_, list)) = before.filter(|(_, list)| self.ip.lists.is_there(*list)) {
            self.ip.lists.get_mut(list).carries.remove(&hop);
        }
        if let Some((_, list)) = through {
            self.ip.lists.get_mut(list).carries.insert(hop);
        }
        true
    }

    /// Whether a list reaches its next hops through the route to a prefix.
    pub(super) fn leads_over(&self, list: ListId, table: TableIndex, key: Prefix) -> bool {
        self.ip.needed_by(list).iter().any(|((_, of), through)| *of == table && *through == Some(key))
    }

    /// The prefixes of a table through whose routes a list reaches its next hops.
    pub(super) fn led_over(&self, list: ListId, family: Family, table: TableIndex) -> Vec<Prefix> {
        let needed = self.ip.needed_by(list).into_iter().filter(|((_, of), _)| *of == table);
        needed.filter_map(|(_, through)| through).filter(|prefix| prefix.family() == family).collect()
    }

    /// Updates the routes whose next hops are in a network that was added or removed.
    pub(crate) fn install_hops_in(&mut self, network: Prefix) {
        self.refresh_hops_in(network);
        self.paint();
    }

    /// Resolves the lists with next hops in a network again, part by part.
    pub(super) fn refresh_hops_in(&mut self, network: Prefix) {
        let mut behind = None;
        loop {
            let (lists, last) = self.ip.dependents.some_of_hops_in(network, behind, PART);
            self.refresh_each(lists);
            if last.is_none() {
                return;
            }
            behind = last;
        }
    }

    /// Resolves the lists that name an interface again, part by part. `which` removes the lists to skip from each part.
    fn refresh_by(&mut self, index: InterfaceIndex, mut which: impl FnMut(&Router, &mut BTreeSet<ListId>)) {
        let mut behind = None;
        loop {
            let mut lists = self.ip.dependents.some_of_interface(index, behind, PART);
            behind = lists.last().copied();
            if behind.is_none() {
                return;
            }
            which(self, &mut lists);
            self.breathe();
            self.refresh_each(lists);
        }
    }

    /// Updates the routes onto an interface whose prefix is an address that the interface has gained or lost.
    pub(crate) fn install_itself(&mut self, index: InterfaceIndex, addresses: impl IntoIterator<Item = IpAddr>) {
        let addresses: Vec<IpAddr> = addresses.into_iter().collect();
        self.refresh_by(index, |router, lists| {
            let host_of = |list: ListId| router.ip.lists.get(list).key.host;
            lists.retain(|list| host_of(*list).is_some_and(|host| addresses.contains(&host)));
        });
        self.paint();
    }

    /// Whether an address is an interface's own, or the anycast address of all routers on one of its networks.
    fn is_itself(&self, index: InterfaceIndex, address: IpAddr) -> bool {
        let Ok(interface) = self.interfaces.get(index) else { return false };
        match address {
            IpAddr::V4(address) => interface.addresses.iter().any(|own| own.address() == address),
            IpAddr::V6(address) => {
                let mut own = interface.ip6.addresses.iter();
                own.any(|own| own.address() == address || subnet_router_anycast(own) == Some(address))
            }
        }
    }

    /// Updates the routes that lead by an interface whose state has changed: those that name it, and those with next
    /// hops in its networks.
    pub fn install_by(&mut self, index: InterfaceIndex) {
        let mut networks: Vec<Prefix> = match self.interfaces.get(index) {
            Ok(interface) => Family::ALL.into_iter().flat_map(|family| interface.networks(family)).collect(),
            Err(_) => Vec::new(),
        };
        self.refresh_by(index, |router, lists| {
            let paths_of = |list: ListId| &router.ip.lists.get(list).key.paths;
            let is_onto = |list: &&ListId| paths_of(**list).iter().any(|path| path.way == PathAction::Attached(index));
            networks.extend(lists.iter().filter(is_onto).flat_map(|list| router.ip.users_of(*list)));
        });
        networks.into_iter().for_each(|network| self.refresh_hops_in(network));
        self.paint();
    }
}
