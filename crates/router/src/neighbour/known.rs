//! All neighbours and their states: by key, by when something is due, and by interface for its limit.
//!
//! The state exists twice: here, and for workers in [`super::table`].

use super::NeighbourKey;
use super::conflict::Conflicts;
use super::policy::{Policy, SharedPolicy};
use super::table::{Table, Word};
use crate::Error;
use crate::by_family::ByFamily;
use crate::rate::Throttle;
use crate::unsaid::UnsaidNeighbours;
use graph::{InterfaceIndex, time};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::Bound;
use std::time::{Duration, Instant};
use wire::{Family, MacAddress};

/// Bounds of the limits on neighbours.
pub const MAX_LIMIT: u32 = 1_000_000;

/// The state of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Packets wait; `asked` requests were sent.
    Incomplete { asked: u32 },
    /// Reachable (RFC 4861 7.3.2), or configured by an operator.
    Known { mac: MacAddress, is_static: bool },
    /// Known, but not confirmed lately, and no packet was sent to it since.
    Stale { mac: MacAddress },
    /// Stale, and packets are sent to it: it will be asked soon.
    Delay { mac: MacAddress },
    /// Known, but stale or old: it was asked directly that many times.
    Probing { mac: MacAddress, asked: u32 },
    /// It did not answer a short while ago.
    Silent,
}

impl State {
    pub(super) fn mac(&self) -> Option<MacAddress> {
        match *self {
            State::Known { mac, .. } | State::Stale { mac } | State::Delay { mac } | State::Probing { mac, .. } => {
                Some(mac)
            }
            State::Incomplete { .. } | State::Silent => None,
        }
    }

    /// Why packets to it wait, or go nowhere.
    pub fn why_unresolved(&self) -> Option<String> {
        match self {
            State::Incomplete { asked } => Some(format!("asked {asked} times, no answer yet")),
            State::Silent => Some("no neighbour answers".into()),
            _ => None,
        }
    }

    pub fn is_static(&self) -> bool {
        matches!(self, State::Known { is_static: true, .. })
    }

    /// The same state in the form for workers.
    fn word(&self) -> Word {
        match *self {
            State::Incomplete { .. } => Word::INCOMPLETE,
            State::Known { mac, is_static } => Word::known(mac, is_static),
            State::Stale { mac } => Word::stale(mac),
            State::Delay { mac } => Word::known(mac, false),
            State::Probing { mac, .. } => Word::probed(mac),
            State::Silent => Word::FAILED,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Neighbour {
    pub state: State,
    /// When its state was last confirmed or set; [`Neighbours::age`] is the time since it was heard of.
    pub since: Instant,
    /// Whether it is only a next hop for routes, and has no host route.
    pub no_fib_entry: bool,
    /// A static one that no operator stated: Linux has it.
    pub is_found: bool,
    /// The time at which workers heard of it (ticks) that `since` already includes.
    pub(super) reckoned: u64,
    /// When the next step is due.
    pub(super) due: Option<Instant>,
}

/// How many neighbours of a family there may be, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// In total.
    pub limit: u32,
    /// On one interface: hosts that invent addresses on one network must not push out the others' neighbours.
    pub interface_limit: u32,
    /// After how many seconds without a message a learned neighbour is asked, and forgotten if it does not answer; 0:
    /// never.
    pub age: u32,
    /// How many seconds after its last answer a neighbour counts as reachable. After that it is asked when packets are
    /// sent to it ([`super::reachability`]). 0: always.
    pub reachable: u32,
    /// Whether the neighbour that was silent longest makes room when there are too many.
    pub recycle: bool,
}

impl Limits {
    /// The default limits.
    pub const fn of(family: Family) -> Limits {
        let reachable = match family {
            Family::Ip4 => 0,
            // RFC 4861 10, REACHABLE_TIME.
            Family::Ip6 => 30,
        };
        Limits { limit: 50_000, interface_limit: 16_384, age: 1200, reachable, recycle: false }
    }
}

/// The totals of an interface's neighbours. Neighbours that packets wait for, or that are silent, do not count: they
/// come and go, and are few.
#[derive(Debug, Default)]
struct OfInterface {
    known: u32,
    /// The learned ones, in the order in which they were last heard of, the oldest first.
    learned: BTreeSet<(Instant, IpAddr)>,
}

/// The totals of a family's neighbours, on all interfaces.
#[derive(Debug)]
pub(super) struct OfFamily {
    pub limits: Limits,
    known: u32,
    pub met: Met,
}

impl OfFamily {
    fn new(family: Family) -> OfFamily {
        OfFamily { limits: Limits::of(family), known: 0, met: Met::default() }
    }
}

/// How often limits were reached.
#[derive(Debug, Clone, Copy, Default)]
pub struct Met {
    /// Neighbours that were not learned because there are too many.
    pub refused: u64,
    /// Neighbours that were removed to make room.
    pub recycled: u64,
}

/// All neighbours.
pub struct Neighbours {
    pub(super) by_key: BTreeMap<NeighbourKey, Neighbour>,
    /// Those with a next step that is due, the soonest first: an event or a tick must not cost a search through all.
    pub(super) agenda: BTreeSet<(Instant, NeighbourKey)>,
    by_interface: HashMap<(InterfaceIndex, Family), OfInterface>,
    pub(super) of_family: ByFamily<OfFamily>,
    pub(super) silent: usize,
    pub(super) table: Table,
    pub(crate) policy: Policy,
    pub(super) shared_policy: SharedPolicy,
    pub(super) conflicts: Conflicts,
    pub(super) refusals_told: Throttle,
    pub(super) moves_told: Throttle,
    /// A neighbour that is known, but that workers do not use yet, see [`crate::Router::make_known`].
    pub(super) becoming_known: Option<NeighbourKey>,
    pub(super) ticked: Instant,
    /// The adjacencies of neighbours that have a route.
    pub(super) adjacencies: HashMap<NeighbourKey, u32>,
    pub(crate) unsaid: UnsaidNeighbours,
}

impl Neighbours {
    pub(crate) fn new(table: Table, shared_policy: SharedPolicy) -> Neighbours {
        Neighbours {
            by_key: BTreeMap::new(),
            agenda: BTreeSet::new(),
            by_interface: HashMap::new(),
            of_family: ByFamily { ip4: OfFamily::new(Family::Ip4), ip6: OfFamily::new(Family::Ip6) },
            silent: 0,
            table,
            policy: Policy::default(),
            shared_policy,
            conflicts: Conflicts::default(),
            refusals_told: Throttle::default(),
            moves_told: Throttle::default(),
            becoming_known: None,
            ticked: Instant::now(),
            adjacencies: HashMap::new(),
            unsaid: UnsaidNeighbours::default(),
        }
    }

    /// Frees the memory of removed neighbours.
    pub(crate) fn trim(&mut self) {
        self.table.trim();
        self.adjacencies.shrink_to_fit();
    }

    /// Adjacencies that workers know.
    pub fn adjacencies(&self) -> impl Iterator<Item = u32> + '_ {
        self.adjacencies.values().copied()
    }

    pub fn get(&self, key: &NeighbourKey) -> Option<&Neighbour> {
        self.by_key.get(key)
    }

    /// The Ethernet address of a neighbour, when it is known.
    pub fn mac_of(&self, key: &NeighbourKey) -> Option<MacAddress> {
        self.by_key.get(key)?.state.mac()
    }

    /// The same, if workers may use it already.
    pub(crate) fn mac_in_use(&self, key: &NeighbourKey) -> Option<MacAddress> {
        self.mac_of(key).filter(|_| self.becoming_known.as_ref() != Some(key))
    }

    /// Whether it is stale, so that workers report the next packet to it to the control thread.
    pub(crate) fn is_stale(&self, key: &NeighbourKey) -> bool {
        self.by_key.get(key).is_some_and(|neighbour| matches!(neighbour.state, State::Stale { .. }))
    }

    pub(super) fn put(&mut self, key: NeighbourKey, neighbour: Neighbour) {
        let before = self.remove(&key);
        if before.and_then(|before| before.state.mac()) != neighbour.state.mac() {
            self.unsaid.note(key);
        }
        self.table.set(&key, neighbour.state.word());
        self.agenda.extend(neighbour.due.map(|due| (due, key)));
        if neighbour.state.mac().is_some() {
            let of_interface = self.by_interface.entry((key.interface, key.family())).or_default();
            of_interface.known += 1;
            self.of_family[key.family()].known += 1;
            if !neighbour.state.is_static() {
                of_interface.learned.insert((neighbour.since, key.address));
            }
        }
        self.silent += (neighbour.state == State::Silent) as usize;
        self.by_key.insert(key, neighbour);
    }

    /// Removes a neighbour completely.
    pub(super) fn take(&mut self, key: &NeighbourKey) -> Option<Neighbour> {
        self.table.remove(key);
        let gone = self.remove(key)?;
        if gone.state.mac().is_some() {
            self.unsaid.note(*key);
        }
        Some(gone)
    }

    /// Removes it from everything but the workers' table.
    fn remove(&mut self, key: &NeighbourKey) -> Option<Neighbour> {
        let neighbour = self.by_key.remove(key)?;
        if let Some(due) = neighbour.due {
            self.agenda.remove(&(due, *key));
        }
        if neighbour.state.mac().is_some() {
            let of_interface = self.by_interface.get_mut(&(key.interface, key.family())).expect("it was counted");
            of_interface.known -= 1;
            of_interface.learned.remove(&(neighbour.since, key.address));
            if of_interface.known == 0 {
                self.by_interface.remove(&(key.interface, key.family()));
            }
            self.of_family[key.family()].known -= 1;
        }
        self.silent -= (neighbour.state == State::Silent) as usize;
        Some(neighbour)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&NeighbourKey, &Neighbour)> {
        self.by_key.iter()
    }

    /// The neighbours of one interface.
    pub fn of_interface(&self, interface: InterfaceIndex) -> impl Iterator<Item = (&NeighbourKey, &Neighbour)> {
        let first = NeighbourKey::new(interface, Ipv4Addr::UNSPECIFIED);
        let last = NeighbourKey::new(interface, Ipv6Addr::from([0xff; 16]));
        self.by_key.range(first..=last)
    }

    /// The neighbours after a given one, or all; of all interfaces or of one.
    pub fn behind(
        &self,
        last: Option<NeighbourKey>,
        only: Option<InterfaceIndex>,
    ) -> impl Iterator<Item = (&NeighbourKey, &Neighbour)> {
        let first = only.map(|interface| NeighbourKey::new(interface, Ipv4Addr::UNSPECIFIED));
        let from = match last {
            Some(last) => Bound::Excluded(last),
            None => first.map_or(Bound::Unbounded, Bound::Included),
        };
        let of = self.by_key.range((from, Bound::Unbounded));
        of.take_while(move |(key, _)| only.is_none_or(|only| only == key.interface))
    }

    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub fn limits(&self, family: Family) -> Limits {
        self.of_family[family].limits
    }

    /// How often the limits of a family were reached.
    pub fn met(&self, family: Family) -> Met {
        self.of_family[family].met
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    pub fn conflicts(&self) -> &Conflicts {
        &self.conflicts
    }

    /// When it was last heard of: by the control thread, or by a worker since.
    fn heard(&self, key: &NeighbourKey, neighbour: &Neighbour) -> Instant {
        let ticks = self.table.heard(key);
        if ticks == neighbour.reckoned {
            return neighbour.since;
        }
        let (now, now_ticks) = (Instant::now(), time::ticks());
        let between = Duration::from_secs_f64(time::seconds(now_ticks.abs_diff(ticks)));
        // A worker's clock may be ahead of this one.
        let seen = if ticks > now_ticks { now.checked_add(between) } else { now.checked_sub(between) };
        seen.map_or(neighbour.since, |seen| seen.max(neighbour.since))
    }

    /// When a worker last heard of a neighbour, in ticks of its clock.
    pub(super) fn heard_at(&self, key: &NeighbourKey) -> u64 {
        self.table.heard(key)
    }

    /// Updates `since` with what workers have heard. Returns whether that was news.
    pub(super) fn reckon(&self, key: &NeighbourKey, neighbour: &mut Neighbour) -> bool {
        let before = (neighbour.since, neighbour.reckoned);
        neighbour.since = self.heard(key, neighbour);
        neighbour.reckoned = self.table.heard(key);
        before != (neighbour.since, neighbour.reckoned)
    }

    /// The time since it was last heard of.
    pub fn age(&self, key: &NeighbourKey, neighbour: &Neighbour) -> Duration {
        self.now().saturating_duration_since(self.heard(key, neighbour))
    }

    /// The neighbour to remove so that another one of the family can be added on an interface, if any.
    pub(super) fn in_the_way(
        &mut self,
        interface: InterfaceIndex,
        family: Family,
    ) -> Result<Option<NeighbourKey>, Error> {
        let OfFamily { limits, known, .. } = self.of_family[family];
        let here = self.by_interface.get(&(interface, family)).map_or(0, |of_interface| of_interface.known);
        let is_full_here = here >= limits.interface_limit;
        if !is_full_here && known < limits.limit {
            return Ok(None);
        }
        let too_many = || match is_full_here {
            true => Error::TooManyNeighboursHere(limits.interface_limit),
            false => Error::TooManyNeighbours(limits.limit),
        };
        // Above a limit that was lowered, it is not enough to remove one.
        if !limits.recycle || here > limits.interface_limit || known > limits.limit {
            return Err(too_many());
        }
        // When the whole table is full, the interface with the most neighbours gives up one.
        let most = |(_, of_interface): &(&(InterfaceIndex, Family), &OfInterface)| of_interface.learned.len();
        let from = match is_full_here {
            true => interface,
            false => {
                let of_family = self.by_interface.iter().filter(|((_, of), _)| *of == family);
                of_family.max_by_key(most).ok_or_else(too_many)?.0.0
            }
        };
        self.oldest_of(from, family).map(Some).ok_or_else(too_many)
    }

    /// The learned neighbour of a family on an interface that was silent longest.
    fn oldest_of(&mut self, interface: InterfaceIndex, family: Family) -> Option<NeighbourKey> {
        /// Neighbours that were heard of since they were sorted move to the end. After so many of these, the first one
        /// is removed in any case.
        const LOOKS: usize = 16;
        for _ in 0..LOOKS {
            let (_, address) = *self.by_interface.get(&(interface, family))?.learned.first()?;
            let key = NeighbourKey { interface, address };
            let mut neighbour = self.by_key[&key];
            if !self.reckon(&key, &mut neighbour) {
                return Some(key);
            }
            if let State::Known { .. } | State::Stale { .. } = neighbour.state {
                neighbour.due = self.due(family, neighbour.state, neighbour.since);
            }
            self.put(key, neighbour);
        }
        let (_, address) = *self.by_interface.get(&(interface, family))?.learned.first()?;
        Some(NeighbourKey { interface, address })
    }

    /// The time, never before that of the last tick.
    pub(super) fn now(&self) -> Instant {
        Instant::now().max(self.ticked)
    }

    /// When [`Router::tick`] next has work here.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.agenda.first().map(|(due, _)| *due)
    }
}
