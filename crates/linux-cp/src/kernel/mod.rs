//! The routes of a network namespace as Linux has them, as far as its messages say, and what of them the router has not
//! heard yet.
//!
//! Linux says most changes, but not all: when an interface goes down, its IPv4 routes and next-hop objects go without a
//! word (`net/ipv4/fib_semantics.c`, `net/ipv4/nexthop.c`). So this does the same, and the reader looks at all routes
//! afterwards. A look compares: a route that is as before costs the router nothing.

mod daemon;
mod paths;
mod prefixes;
mod targets;
#[cfg(test)]
mod tests;

use crate::netlink::message::{FLAG_APPEND, FLAG_REPLACE, Message};
use crate::netlink::next_hop::{self, NextHop};
use crate::netlink::route::{self, Hop, NotFollowed, Route, TABLE_MAIN, Target};
use graph::InterfaceIndex;
use prefixes::{Changed, Place, Prefixes};
use router::ip::bulk::{Batch, Paths};
use router::ip::route::TableIndex;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use targets::Targets;
use wire::{Family, Prefix, Prefix4, Prefix6};

/// The router's interfaces, by the numbers of their sides in Linux.
pub type Links = HashMap<u32, InterfaceIndex>;

/// The routes of a table of Linux.
#[derive(Default)]
pub struct Table {
    v4: Prefixes<Prefix4>,
    v6: Prefixes<Prefix6>,
}

/// Does something with the prefixes of the family of one of them.
macro_rules! in_family {
    ($table:expr, $prefix:expr, $known:ident, $key:ident => $do:expr) => {
        match $prefix {
            Prefix::V4($key) => {
                let $known = &mut $table.v4;
                $do
            }
            Prefix::V6($key) => {
                let $known = &mut $table.v6;
                $do
            }
        }
    };
}
use in_family;

impl Table {
    fn forwards(&self, prefix: Prefix) -> Option<u32> {
        match prefix {
            Prefix::V4(prefix) => self.v4.forwards(prefix),
            Prefix::V6(prefix) => self.v6.forwards(prefix),
        }
    }

    fn len(&self, family: Family) -> usize {
        match family {
            Family::Ip4 => self.v4.len(),
            Family::Ip6 => self.v6.len(),
        }
    }

    fn prefixes(&self, family: Family) -> Box<dyn Iterator<Item = Prefix> + '_> {
        match family {
            Family::Ip4 => Box::new(self.v4.keys().map(Prefix::from)),
            Family::Ip6 => Box::new(self.v6.keys().map(Prefix::from)),
        }
    }
}

/// Prefixes that were taken for the router, of each table and family.
pub type Taken = Vec<(u32, Family, Vec<Prefix>)>;

/// A prefix in a table of Linux.
pub type Key = (u32, Prefix);

/// The tables of the router that follow tables of Linux, by the numbers that these have there.
pub type Followed = BTreeMap<(u32, Family), TableIndex>;

/// Prefixes that the router has to hear of, of one family in one table. Some may be there twice.
#[derive(Default)]
struct Waiting {
    prefixes: Vec<Prefix>,
    /// When they are so many, those that are there twice are taken out.
    most: usize,
}

impl Waiting {
    fn push(&mut self, prefix: Prefix) {
        self.prefixes.push(prefix);
        if self.prefixes.len() >= self.most {
            self.prefixes.sort_unstable();
            self.prefixes.dedup();
            self.most = (2 * self.prefixes.len()).max(1 << 16);
        }
    }
}

/// The routes of a namespace. Those of tables that no table of the router follows are known, too: one may follow them
/// later.
pub struct Kernel {
    tables: BTreeMap<u32, Table>,
    followed: Followed,
    /// Packets of routes without a way for the router go to Linux.
    no_paths: bool,
    /// The tables of VRFs, by the numbers of their links.
    vrfs: BTreeMap<u32, u32>,
    targets: Targets,
    objects: HashMap<u32, NextHop>,
    waiting: BTreeMap<(u32, Family), Waiting>,
    /// Targets that lead elsewhere now: the router has to hear of all their routes.
    moved: BTreeSet<u32>,
    /// While a look goes on: the routes that messages were about since it began. What messages say is newer.
    touched: Option<HashSet<(u32, Prefix, u32)>>,
}

/// Only the main table, which the router's default one follows.
pub fn main_table() -> Followed {
    Family::ALL.map(|family| ((TABLE_MAIN, family), TableIndex::DEFAULT)).into()
}

impl Default for Kernel {
    /// One whose main table the router's default one follows.
    fn default() -> Kernel {
        let (tables, vrfs, targets, objects, waiting, moved) = Default::default();
        Kernel {
            tables,
            followed: main_table(),
            no_paths: false,
            vrfs,
            targets,
            objects,
            waiting,
            moved,
            touched: None,
        }
    }
}

impl Kernel {
    /// How many prefixes of a family there are in tables that are followed.
    pub fn len(&self, family: Family) -> usize {
        let followed = self.tables.iter().filter(|(table, _)| self.follows(**table, family));
        followed.map(|(_, known)| known.len(family)).sum()
    }

    /// Whether a table of the router follows one of Linux.
    pub fn follows(&self, table: u32, family: Family) -> bool {
        self.followed.contains_key(&(table, family))
    }

    /// A new one that follows the same tables.
    pub fn anew(&self) -> Kernel {
        Kernel {
            followed: self.followed.clone(),
            vrfs: self.vrfs.clone(),
            no_paths: self.no_paths,
            ..Kernel::default()
        }
    }

    /// Other tables than before are followed, or by other ones of the router: these are empty.
    pub fn follow(&mut self, followed: &Followed) {
        let before = std::mem::replace(&mut self.followed, followed.clone());
        let is_same = |place: &(u32, Family)| before.get(place) == followed.get(place);
        self.waiting.retain(|place, _| is_same(place));
        for place in followed.keys().filter(|place| !is_same(place)) {
            let Some(known) = self.tables.get(&place.0) else { continue };
            let waiting = self.waiting.entry(*place).or_default();
            known.prefixes(place.1).for_each(|prefix| waiting.push(prefix));
        }
        // Routes lead into them, too.
        let differs = |table: u32| Family::ALL.into_iter().any(|family| !is_same(&(table, family)));
        let into = self.vrfs.iter().filter(|(_, table)| differs(**table)).map(|(link, _)| *link).collect();
        self.links_changed(&into);
    }

    /// Packets of routes without a way for the router go to Linux, or are dropped.
    pub fn set_no_paths(&mut self, on: bool) {
        if std::mem::replace(&mut self.no_paths, on) != on {
            self.moved.extend(self.targets.iter().map(|(number, _)| number));
        }
    }

    /// A link is the device of a VRF with this table; none: it is no VRF, or is gone.
    pub fn set_vrf(&mut self, link: u32, table: Option<u32>) {
        let before = match table {
            Some(table) => self.vrfs.insert(link, table),
            None => self.vrfs.remove(&link),
        };
        if before != table {
            self.links_changed(&BTreeSet::from([link]));
        }
    }

    pub fn vrfs(&self) -> &BTreeMap<u32, u32> {
        &self.vrfs
    }

    /// How many changes the router has not heard of, at most.
    pub fn backlog(&self) -> usize {
        self.waiting.values().map(|waiting| waiting.prefixes.len()).sum::<usize>() + self.moved.len()
    }

    /// Takes the place of another: what the router has of that one, and this has not, is to go.
    pub fn forget(&mut self, other: &Kernel) {
        self.followed.extend(&other.followed);
        // Some of what goes there has gone already, and the router has not heard of it.
        for ((table, family), theirs) in &other.waiting {
            let waiting = self.waiting.entry((*table, *family)).or_default();
            theirs.prefixes.iter().for_each(|prefix| waiting.push(*prefix));
        }
        for place in other.followed.keys() {
            let Some(known) = other.tables.get(&place.0) else { continue };
            let waiting = self.waiting.entry(*place).or_default();
            known.prefixes(place.1).for_each(|prefix| waiting.push(prefix));
        }
    }

    /// A message about a route or a next-hop object: an answer to a look, or a change.
    ///
    /// # Errors
    /// When it is malformed, or about a route that is not followed.
    pub fn hear(&mut self, message: &Message<'_>, is_answer: bool) -> Result<(), NotFollowed> {
        match message.kind {
            next_hop::NEW => next_hop::parse(message.payload).map(|(id, object)| self.set_object(id, object))?,
            next_hop::DELETE => next_hop::parse(message.payload).map(|(id, _)| self.remove_object(id))?,
            route::NEW if is_answer => match route::parse(message.payload)? {
                route if self.is_left_out(&route) => return Err(NotFollowed::Other),
                route => self.see(&route),
            },
            route::NEW => match route::parse(message.payload) {
                Ok(route) if self.is_left_out(&route) => return Err(NotFollowed::Other),
                Ok(route) if self.add(&route, message.flags) => {}
                Ok(_) => return Err(NotFollowed::Other),
                Err(why) => {
                    self.replaced(message);
                    return Err(why);
                }
            },
            route::DELETE => self.remove(&route::parse(message.payload)?),
            _ => return Err(NotFollowed::Other),
        }
        Ok(())
    }

    /// Networks of addresses are of use only if packets to them may go to Linux.
    fn is_left_out(&self, route: &Route) -> bool {
        !self.no_paths && matches!(route.target, Target::Connected(_))
    }

    /// Whether a link goes without a word of all routes that go with it: those with other ways, too; and, where packets
    /// go to Linux, any.
    pub fn may_take_along(&self, link: u32) -> bool {
        let names = |target: &Target| match target {
            Target::Hops(hops) => (self.no_paths || hops.len() > 1) && hops.iter().any(|hop| hop.link == link),
            Target::Object(id) => self.hops_of(*id).iter().any(|(hop, _)| hop.link == link),
            _ => false,
        };
        self.targets.iter().any(|(_, target)| names(target))
    }

    /// Whether packets of routes without a way for the router go to Linux.
    pub fn has_no_paths(&self) -> bool {
        self.no_paths
    }

    /// A route that is not followed may have taken the place of one that was.
    fn replaced(&mut self, message: &Message<'_>) {
        let Some(key) = route::key(message.payload).filter(|_| message.flags & FLAG_REPLACE != 0) else { return };
        if let Some(touched) = &mut self.touched {
            touched.insert(key);
        }
        let (table, prefix, metric) = key;
        let Some(known) = self.tables.get_mut(&table) else { return };
        let is_v6 = prefix.family() == Family::Ip6;
        let goes = |entry: &prefixes::Entry, gone: usize| entry.metric == metric && (is_v6 || gone == 0);
        let changed = in_family!(known, prefix, known, key => known.remove_where(key, goes));
        self.note(table, prefix, changed);
    }

    /// Linux says that there is a route. Whether it is one that is followed.
    pub fn add(&mut self, route: &Route, flags: u16) -> bool {
        let Route { table, prefix, metric, .. } = *route;
        let is_followed = self.follows(table, prefix.family());
        if let Some(touched) = &mut self.touched {
            touched.insert((table, prefix, metric));
        }
        // Said again, because its next-hop object is another one now.
        let is_it =
            |entry: &prefixes::Entry| entry.metric == metric && self.targets.get(entry.target()) == Some(&route.target);
        if flags & FLAG_REPLACE != 0
            && let Some(known) = self.tables.get_mut(&table)
            && in_family!(known, prefix, known, key => known.all(key).iter().any(is_it))
        {
            return is_followed;
        }
        let place = match prefix {
            Prefix::V6(_) if flags & FLAG_REPLACE != 0 => Place::ReplacesAll,
            Prefix::V6(key) => match self.grows(key, route) {
                Some(before) => {
                    let target = self.targets.hold(&route.target);
                    let known = self.tables.entry(table).or_default();
                    let changed = known.v6.lead(key, metric, before, target);
                    self.note(table, prefix, changed);
                    return is_followed;
                }
                None => Place::Last,
            },
            Prefix::V4(_) if flags & FLAG_REPLACE != 0 => Place::Replaces,
            Prefix::V4(_) if flags & FLAG_APPEND != 0 => Place::Last,
            Prefix::V4(_) => Place::First,
        };
        let target = self.targets.hold(&route.target);
        let known = self.tables.entry(table).or_default();
        let changed = in_family!(known, prefix, known, key => known.add(key, metric, target, place));
        self.note(table, prefix, changed);
        is_followed
    }

    /// All ways of an IPv6 route are said at once, whatever of them is new (net/ipv6/route.c): the target of the route
    /// that has some of them already. Ways of other kinds are routes of their own, even of the same metric.
    fn grows(&self, key: Prefix6, route: &Route) -> Option<u32> {
        let known = self.tables.get(&route.table)?.v6.all(key).iter().filter(|entry| entry.metric == route.metric);
        let mut targets = known.map(|entry| entry.target());
        targets.find(|number| match (self.targets.get(*number), &route.target) {
            (Some(Target::Hops(some)), Target::Hops(all)) => some.iter().all(|hop| has_way(all, hop)),
            (Some(known), target) => known == target,
            (None, _) => false,
        })
    }

    /// A look sees a route.
    pub fn see(&mut self, route: &Route) {
        let Route { table, prefix, metric, .. } = *route;
        let is_newer = |touched: &HashSet<_>| touched.contains(&(table, prefix, metric));
        if self.touched.as_ref().is_some_and(is_newer) {
            return;
        }
        let target = self.targets.hold(&route.target);
        let known = self.tables.entry(table).or_default();
        let (is_new, changed) = in_family!(known, prefix, known, key => known.see(key, metric, target));
        if !is_new {
            self.targets.let_go(target);
        }
        self.note(table, prefix, changed);
    }

    /// Linux says that a route is gone, or ways of one.
    pub fn remove(&mut self, route: &Route) {
        let Route { table, prefix, metric, .. } = *route;
        if let Some(touched) = &mut self.touched {
            touched.insert((table, prefix, metric));
        }
        let Some(known) = self.tables.get_mut(&table) else { return };
        let changed = match prefix {
            Prefix::V4(key) => {
                let target = self.targets.find(&route.target);
                let is_it = |entry: &prefixes::Entry| entry.metric == metric && Some(entry.target()) == target;
                match known.v4.all(key).iter().any(is_it) {
                    true => known.v4.remove(key, metric, target.unwrap_or_default()),
                    // Linux may name its ways in another form than when it was added.
                    false => known.v4.remove_where(key, |entry, gone| gone == 0 && entry.metric == metric),
                }
            }
            Prefix::V6(key) => {
                let all = known.v6.all(key).iter().filter(|entry| entry.metric == metric);
                let all: Vec<u32> = all.map(|entry| entry.target()).collect();
                match left_of(&self.targets, &all, &route.target) {
                    Some((before, Some(rest))) => {
                        let rest = self.targets.hold(&rest);
                        known.v6.lead(key, metric, before, rest)
                    }
                    Some((before, None)) => known.v6.remove(key, metric, before),
                    None => Changed::default(),
                }
            }
        };
        self.note(table, prefix, changed);
    }

    fn note(&mut self, table: u32, prefix: Prefix, changed: Changed) {
        changed.gone.into_iter().for_each(|target| self.targets.let_go(target));
        if changed.forwarding_changed && self.follows(table, prefix.family()) {
            self.waiting.entry((table, prefix.family())).or_default().push(prefix);
        }
    }

    /// A next-hop object is there, or another than before.
    pub fn set_object(&mut self, id: u32, object: NextHop) {
        if self.objects.get(&id) != Some(&object) {
            self.objects.insert(id, object);
            self.object_moved(id);
        }
    }

    /// A next-hop object is gone. Its routes go with it, and groups lose it, without a word.
    pub fn remove_object(&mut self, id: u32) {
        self.remove_objects(&BTreeSet::from([id]));
    }

    /// All objects are looked at: these are gone if they are not said again.
    pub fn objects(&self) -> BTreeSet<u32> {
        self.objects.keys().copied().collect()
    }

    pub fn remove_objects(&mut self, gone: &BTreeSet<u32>) {
        if gone.is_empty() {
            return;
        }
        let mut gone = gone.clone();
        gone.iter().for_each(|id| drop(self.objects.remove(id)));
        let mut smaller = Vec::new();
        for (id, object) in &mut self.objects {
            let NextHop::Group(members) = object else { continue };
            let before = members.len();
            members.retain(|(member, _)| !gone.contains(member));
            if members.len() != before {
                smaller.push((*id, members.is_empty()));
            }
        }
        for (id, is_empty) in smaller {
            match is_empty {
                true => {
                    self.objects.remove(&id);
                    gone.insert(id);
                }
                false => self.object_moved(id),
            }
        }
        let is_gone = |target: &Target| matches!(target, Target::Object(id) if gone.contains(id));
        let targets: HashSet<u32> =
            self.targets.iter().filter(|(_, target)| is_gone(target)).map(|(number, _)| number).collect();
        Family::ALL.into_iter().for_each(|family| self.remove_routes_to(&targets, family));
    }

    fn object_moved(&mut self, id: u32) {
        let has_it = |object: &NextHop| matches!(object, NextHop::Group(all) if all.iter().any(|(one, _)| *one == id));
        let mut ids: BTreeSet<u32> =
            self.objects.iter().filter(|(_, object)| has_it(object)).map(|(group, _)| *group).collect();
        ids.insert(id);
        let targets = ids.into_iter().filter_map(|id| self.targets.find(&Target::Object(id)));
        self.moved.extend(targets);
    }

    fn remove_routes_to(&mut self, targets: &HashSet<u32>, family: Family) {
        if targets.is_empty() {
            return;
        }
        let mut going: Vec<(u32, Prefix)> = Vec::new();
        for (table, known) in &self.tables {
            going.extend(known.prefixes(family).map(|prefix| (*table, prefix)));
        }
        for (table, prefix) in going {
            let Some(known) = self.tables.get_mut(&table) else { continue };
            let leads_there = |entry: &prefixes::Entry, _: usize| targets.contains(&entry.target());
            let changed = in_family!(known, prefix, known, key => known.remove_where(key, leads_there));
            self.note(table, prefix, changed);
        }
    }

    /// An interface has no carrier: its next-hop objects are gone without a word. Its other routes stay.
    pub fn carrier_lost(&mut self, link: u32) {
        let of_link = |object: &NextHop| matches!(object, NextHop::Hop(hop) if hop.link == link);
        let objects = self.objects.iter().filter(|(_, object)| of_link(object)).map(|(id, _)| *id).collect();
        self.remove_objects(&objects);
    }

    /// Interfaces went down, or are gone: what Linux does then without a word.
    pub fn links_down(&mut self, links: &BTreeSet<u32>) {
        links.iter().for_each(|link| self.carrier_lost(*link));
        // A route goes with the last of its ways.
        let is_dead = |target: &Target| match target {
            Target::Hops(hops) => hops.iter().all(|hop| links.contains(&hop.link)),
            Target::Connected(link) => links.contains(link),
            _ => false,
        };
        let dead = self.targets.iter().filter(|(_, target)| is_dead(target)).map(|(number, _)| number).collect();
        // Of IPv6 routes it says so.
        self.remove_routes_to(&dead, Family::Ip4);
    }

    /// Other interfaces of Linux than before are the router's: the router has to hear of routes by these.
    pub fn links_changed(&mut self, changed: &BTreeSet<u32>) {
        let is_by = |hop: &Hop| changed.contains(&hop.link);
        let is_by_object = |id: &u32| self.hops_of(*id).iter().any(|(hop, _)| is_by(hop));
        let by_them = self.targets.iter().filter(|(_, target)| match target {
            Target::Hops(hops) => hops.iter().any(is_by),
            Target::Object(id) => is_by_object(id),
            Target::Connected(link) => changed.contains(link),
            _ => false,
        });
        let by_them: Vec<u32> = by_them.map(|(number, _)| number).collect();
        self.moved.extend(by_them);
    }

    /// A look at all routes begins. Until it ends, messages about single routes are newer than what it sees.
    pub fn begin_look(&mut self) {
        self.touched = Some(HashSet::new());
        for table in self.tables.values_mut() {
            table.v4.begin_look();
            table.v6.begin_look();
        }
    }

    /// It has seen all routes of a family: the others are gone. Gives how many went, and whether that was all: routes
    /// beside which messages changed others meanwhile stay until the next look.
    pub fn end_look(&mut self, family: Family) -> (usize, bool) {
        let mut gone: Vec<(u32, Prefix, u32, u32)> = Vec::new();
        for (number, table) in &self.tables {
            match family {
                Family::Ip4 => {
                    gone.extend(table.v4.unseen().into_iter().map(|(at, m, to)| (*number, at.into(), m, to)))
                }
                Family::Ip6 => {
                    gone.extend(table.v6.unseen().into_iter().map(|(at, m, to)| (*number, at.into(), m, to)))
                }
            }
        }
        // Of those that messages were about the look may have seen only a part.
        let all = gone.len();
        if let Some(touched) = &self.touched {
            gone.retain(|(table, prefix, metric, _)| !touched.contains(&(*table, *prefix, *metric)));
        }
        let is_all = gone.len() == all;
        for (table, prefix, metric, target) in &gone {
            let Some(known) = self.tables.get_mut(table) else { continue };
            let changed = in_family!(known, *prefix, known, key => known.remove(key, *metric, *target));
            self.note(*table, *prefix, changed);
        }
        for table in self.tables.values_mut().filter(|_| is_all) {
            match family {
                Family::Ip4 => table.v4.end_look(),
                Family::Ip6 => table.v6.end_look(),
            }
        }
        (gone.len(), is_all)
    }

    /// The look is over.
    pub fn finish_look(&mut self) {
        self.touched = None;
    }

    /// Changes for the router, at most this many, and the prefixes that they are about.
    pub fn take(&mut self, links: &Links, most: usize) -> (Vec<(u32, Batch)>, Taken) {
        self.spread_moved();
        let mut batches = Vec::new();
        let mut room = most;
        let mut taken = Taken::new();
        for ((table, family), waiting) in &mut self.waiting {
            let some = waiting.prefixes.len().min(room);
            room -= some;
            let rest = waiting.prefixes.len() - some;
            taken.push((*table, *family, waiting.prefixes.split_off(rest)));
        }
        self.waiting.retain(|_, waiting| !waiting.prefixes.is_empty());
        for (number, family, prefixes) in &taken {
            let (Some(index), false) = (self.followed.get(&(*number, *family)), prefixes.is_empty()) else { continue };
            let mut batch = Batch::new(*family, *index);
            let mut lists: HashMap<u32, Option<Paths>> = HashMap::new();
            for prefix in prefixes.iter().copied() {
                let target = self.tables.get(number).and_then(|table| table.forwards(prefix));
                let paths = target.and_then(|target| {
                    *lists.entry(target).or_insert_with(|| {
                        let paths = self.paths(target, links, (*index, *family));
                        (!paths.is_empty()).then(|| batch.paths(paths))
                    })
                });
                match paths {
                    Some(paths) => batch.put(prefix, paths),
                    None => batch.remove(prefix),
                }
            }
            batches.push((*number, batch));
        }
        (batches, taken)
    }

    /// The router did not take what was taken for it: it hears of all of it again.
    pub fn give_back(&mut self, taken: Taken) {
        for (table, family, prefixes) in taken {
            if !self.follows(table, family) {
                continue;
            }
            let waiting = self.waiting.entry((table, family)).or_default();
            prefixes.into_iter().for_each(|prefix| waiting.push(prefix));
        }
    }

    /// The router hears of these prefixes again, whether there are routes for them or not.
    pub fn say_again(&mut self, prefixes: &[Key]) {
        for (table, prefix) in prefixes {
            if !self.follows(*table, prefix.family()) {
                continue;
            }
            self.waiting.entry((*table, prefix.family())).or_default().push(*prefix);
        }
    }

    /// The prefixes of targets that lead elsewhere now wait.
    fn spread_moved(&mut self) {
        if self.moved.is_empty() {
            return;
        }
        let moved = std::mem::take(&mut self.moved);
        for place in self.followed.keys() {
            let Some(table) = self.tables.get(&place.0) else { continue };
            let leads_there = |prefix: &Prefix| table.forwards(*prefix).is_some_and(|to| moved.contains(&to));
            let waiting = self.waiting.entry(*place).or_default();
            table.prefixes(place.1).filter(leads_there).for_each(|prefix| waiting.push(prefix));
        }
    }
}

fn has_way(hops: &[Hop], hop: &Hop) -> bool {
    hops.iter().any(|one| (one.link, one.gateway) == (hop.link, hop.gateway))
}

/// Which of the targets loses what is gone, and what is left of it; none: nothing.
fn left_of(targets: &Targets, all: &[u32], gone: &Target) -> Option<(u32, Option<Target>)> {
    if let Some(same) = targets.find(gone).filter(|number| all.contains(number)) {
        return Some((same, None));
    }
    let without = |number: &u32| match (targets.get(*number), gone) {
        (Some(Target::Hops(hops)), Target::Hops(gone)) => {
            let rest: Vec<Hop> = hops.iter().filter(|hop| !has_way(gone, hop)).cloned().collect();
            // Ways that the route did not have say nothing about those that it has.
            let is_it = rest.len() < hops.len();
            is_it.then(|| (*number, (!rest.is_empty()).then_some(Target::Hops(rest))))
        }
        _ => None,
    };
    // Linux may name the only one of its metric in another form than when it was added.
    all.iter().find_map(without).or(match all {
        [only] if !matches!(targets.get(*only), Some(Target::Hops(_))) => Some((*only, None)),
        _ => None,
    })
}
