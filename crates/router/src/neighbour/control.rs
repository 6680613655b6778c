//! Neighbours as control keeps them: learned, static, being asked for, ageing.
//!
//! A neighbour that packets wait for is asked for at once and again each second, three
//! times in all; then its packets are refused, and for [`SILENCE`] it is not asked again.
//! A learned neighbour is asked directly when it has not been heard of for the configured
//! age, and forgotten when it does not answer (RFC 1122 2.3.2.1).
//!
//! What is known is kept twice: here, and for workers in [`super::table`].

use super::resolve::Resolve;
use super::table::{Shared, Table, Word};
use super::{Event, NeighbourKey};
use crate::arp::policy::{MAX_RANGES, Policy, Range, Rates, SharedPolicy};
use crate::ip::control::{Path, Source, Way};
use crate::{Error, Router};
use graph::{InterfaceIndex, NodeIndex, time};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tables::{Leaf, kind};
use wire::{Family, MacAddress, Prefix};

/// Bounds of the limits on neighbours.
pub const MAX_LIMIT: u32 = 1_000_000;
/// Requests before giving up, and the time between them (RFC 1122 2.3.2.1: at most one
/// a second).
pub const REQUESTS: u32 = 3;
pub const REQUEST_INTERVAL: Duration = Duration::from_secs(1);
/// How long a neighbour that did not answer is not asked again.
pub const SILENCE: Duration = Duration::from_secs(5);
/// Silent neighbours that are remembered.
pub const MAX_SILENT: usize = 4096;
/// RFC 5227 2.4: no more than one announcement in this time defends an address.
pub const DEFEND_INTERVAL: Duration = Duration::from_secs(10);
/// Conflicts that are remembered.
pub const MAX_CONFLICTS: usize = 256;
/// How often the log hears of what may come by the thousand.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// What is known of a neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Packets wait; that many requests were sent.
    Incomplete {
        asked: u32,
    },
    Known {
        mac: MacAddress,
        is_static: bool,
    },
    /// Known, but old: asked directly that many times.
    Probing {
        mac: MacAddress,
        asked: u32,
    },
    /// Asked for in vain a short while ago.
    Silent,
}

impl State {
    fn mac(&self) -> Option<MacAddress> {
        match *self {
            State::Known { mac, .. } | State::Probing { mac, .. } => Some(mac),
            State::Incomplete { .. } | State::Silent => None,
        }
    }

    pub fn is_static(&self) -> bool {
        matches!(self, State::Known { is_static: true, .. })
    }

    /// The same for workers.
    fn word(&self) -> Word {
        match *self {
            State::Incomplete { .. } => Word::INCOMPLETE,
            State::Known { mac, is_static } => Word::known(mac, is_static),
            State::Probing { mac, .. } => Word::probed(mac),
            State::Silent => Word::FAILED,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Neighbour {
    pub state: State,
    /// When it was last told of or made; [`Neighbours::age`] is the time since it was heard.
    pub since: Instant,
    /// It is a next hop for routes only, and has no route of its own.
    pub no_fib_entry: bool,
    /// What workers had heard (ticks) is in `since`.
    reckoned: u64,
    /// When something is to be done about it.
    due: Option<Instant>,
}

/// How many neighbours there may be, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// In all.
    pub limit: u32,
    /// On one interface: a network that is full of names must not push out the others.
    pub interface_limit: u32,
    /// How long a learned neighbour is trusted without hearing from it (seconds); 0: for
    /// ever.
    pub age: u32,
    /// When there are too many, the one that was silent longest makes room.
    pub recycle: bool,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { limit: 50_000, interface_limit: 16_384, age: 1200, recycle: false }
    }
}

/// A station that claimed an address of ours.
#[derive(Debug, Clone, Copy)]
pub struct Conflict {
    pub mac: MacAddress,
    pub last: Instant,
    /// When we announced the address to defend it, and how often so far.
    pub defended_at: Instant,
    pub defended: u32,
}

/// What is known of an interface's neighbours as a whole. Those that packets wait for or
/// that are silent do not count: they come and go, and are few.
#[derive(Debug, Default)]
struct OfInterface {
    known: u32,
    /// Learned ones, the longest unheard first.
    learned: BTreeSet<(Instant, IpAddr)>,
}

/// All neighbours.
pub struct Neighbours {
    by_key: BTreeMap<NeighbourKey, Neighbour>,
    /// The same that have something due, the soonest first: an event or a tick must not
    /// cost a look at all of them.
    agenda: BTreeSet<(Instant, NeighbourKey)>,
    by_interface: HashMap<InterfaceIndex, OfInterface>,
    known: u32,
    silent: usize,
    table: Table,
    limits: Limits,
    pub(crate) policy: Policy,
    shared_policy: SharedPolicy,
    conflicts: BTreeMap<NeighbourKey, Conflict>,
    /// Neighbours that were not learned as there are too many, and that made room.
    pub refused: u64,
    pub recycled: u64,
    refusals_told: Throttle,
    moves_told: Throttle,
    /// Known, but workers do not use it yet, see [`Router::make_known`].
    becoming_known: Option<NeighbourKey>,
    /// Of those that have a route.
    adjacencies: HashMap<NeighbourKey, u32>,
}

/// Lets one message pass now and then, and counts the others.
#[derive(Debug, Default)]
struct Throttle {
    last: Option<Instant>,
    untold: u64,
}

impl Throttle {
    /// How many were held back since the last, when one may be told.
    fn pass(&mut self, now: Instant) -> Option<u64> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < LOG_INTERVAL) {
            self.untold += 1;
            return None;
        }
        self.last = Some(now);
        Some(std::mem::take(&mut self.untold))
    }
}

/// `, and 3 others`, or nothing.
fn and_others(untold: u64) -> String {
    if untold == 0 { String::new() } else { format!(" (and {untold} more that were not told)") }
}

impl Neighbours {
    pub(crate) fn new(table: Table, shared_policy: SharedPolicy) -> Neighbours {
        Neighbours {
            by_key: BTreeMap::new(),
            agenda: BTreeSet::new(),
            by_interface: HashMap::new(),
            known: 0,
            silent: 0,
            table,
            limits: Limits::default(),
            policy: Policy::default(),
            shared_policy,
            conflicts: BTreeMap::new(),
            refused: 0,
            recycled: 0,
            refusals_told: Throttle::default(),
            moves_told: Throttle::default(),
            becoming_known: None,
            adjacencies: HashMap::new(),
        }
    }

    /// What workers know, and what operators set, for their nodes.
    pub(crate) fn shared(&self) -> Arc<Shared> {
        self.table.shared()
    }

    pub(crate) fn shared_policy(&self) -> SharedPolicy {
        self.shared_policy.clone()
    }

    /// Adjacencies that workers know.
    pub fn adjacencies(&self) -> impl Iterator<Item = u32> + '_ {
        self.adjacencies.values().copied()
    }

    /// The Ethernet address of a neighbour, when it is known.
    pub fn mac_of(&self, key: &NeighbourKey) -> Option<MacAddress> {
        self.by_key.get(key)?.state.mac()
    }

    /// The same, when workers may use it already.
    pub(crate) fn mac_in_use(&self, key: &NeighbourKey) -> Option<MacAddress> {
        self.mac_of(key).filter(|_| self.becoming_known.as_ref() != Some(key))
    }

    fn put(&mut self, key: NeighbourKey, neighbour: Neighbour) {
        self.remove(&key);
        self.table.set(&key, neighbour.state.word());
        self.agenda.extend(neighbour.due.map(|due| (due, key)));
        if neighbour.state.mac().is_some() {
            let of_interface = self.by_interface.entry(key.interface).or_default();
            of_interface.known += 1;
            self.known += 1;
            if !neighbour.state.is_static() {
                of_interface.learned.insert((neighbour.since, key.address));
            }
        }
        self.silent += (neighbour.state == State::Silent) as usize;
        self.by_key.insert(key, neighbour);
    }

    /// Takes it out for good.
    fn take(&mut self, key: &NeighbourKey) -> Option<Neighbour> {
        self.table.remove(key);
        self.remove(key)
    }

    /// Takes it out of all but the workers' table.
    fn remove(&mut self, key: &NeighbourKey) -> Option<Neighbour> {
        let neighbour = self.by_key.remove(key)?;
        if let Some(due) = neighbour.due {
            self.agenda.remove(&(due, *key));
        }
        if neighbour.state.mac().is_some() {
            let of_interface = self.by_interface.get_mut(&key.interface).expect("it was counted");
            of_interface.known -= 1;
            of_interface.learned.remove(&(neighbour.since, key.address));
            if of_interface.known == 0 {
                self.by_interface.remove(&key.interface);
            }
            self.known -= 1;
        }
        self.silent -= (neighbour.state == State::Silent) as usize;
        Some(neighbour)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&NeighbourKey, &Neighbour)> {
        self.by_key.iter()
    }

    /// Those of one interface.
    pub fn of_interface(&self, interface: InterfaceIndex) -> impl Iterator<Item = (&NeighbourKey, &Neighbour)> {
        let first = NeighbourKey::new(interface, Ipv4Addr::UNSPECIFIED);
        let last = NeighbourKey::new(interface, Ipv6Addr::from([0xff; 16]));
        self.by_key.range(first..=last)
    }

    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub fn limits(&self) -> Limits {
        self.limits
    }

    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    pub fn conflicts(&self) -> impl Iterator<Item = (&NeighbourKey, &Conflict)> {
        self.conflicts.iter()
    }

    /// When it was last heard of: told, or seen by a worker since.
    fn heard(&self, key: &NeighbourKey, neighbour: &Neighbour) -> Instant {
        let ticks = self.table.heard(key);
        if ticks == neighbour.reckoned {
            return neighbour.since;
        }
        let ago = Duration::from_secs_f64(time::seconds(time::ticks().saturating_sub(ticks)));
        Instant::now().checked_sub(ago).map_or(neighbour.since, |seen| seen.max(neighbour.since))
    }

    /// Puts into `since` what workers have heard; whether that was news.
    fn reckon(&self, key: &NeighbourKey, neighbour: &mut Neighbour) -> bool {
        let before = (neighbour.since, neighbour.reckoned);
        neighbour.since = self.heard(key, neighbour);
        neighbour.reckoned = self.table.heard(key);
        before != (neighbour.since, neighbour.reckoned)
    }

    /// How long it has not been heard of.
    pub fn age(&self, key: &NeighbourKey, neighbour: &Neighbour) -> Duration {
        self.heard(key, neighbour).elapsed()
    }

    fn due_for_age(&self, since: Instant) -> Option<Instant> {
        (self.limits.age > 0).then(|| since + Duration::from_secs(self.limits.age.into()))
    }

    /// What has to go so that one more may become known on an interface.
    fn in_the_way(&mut self, interface: InterfaceIndex) -> Result<Option<NeighbourKey>, Error> {
        let of_interface = self.by_interface.get(&interface).map_or(0, |of_interface| of_interface.known);
        if of_interface < self.limits.interface_limit && self.known < self.limits.limit {
            return Ok(None);
        }
        let too_many = match of_interface >= self.limits.interface_limit {
            true => Error::TooManyNeighboursHere(self.limits.interface_limit),
            false => Error::TooManyNeighbours(self.limits.limit),
        };
        // Over a limit that was lowered: one less would not do.
        if !self.limits.recycle || of_interface > self.limits.interface_limit || self.known > self.limits.limit {
            return Err(too_many);
        }
        // When the whole table is full, the interface that has most gives one up.
        let from = if of_interface >= self.limits.interface_limit {
            interface
        } else {
            let learned = |(_, of_interface): &(&InterfaceIndex, &OfInterface)| of_interface.learned.len();
            *self.by_interface.iter().max_by_key(learned).ok_or(too_many)?.0
        };
        self.oldest_of(from).map(Some).ok_or(match of_interface >= self.limits.interface_limit {
            true => Error::TooManyNeighboursHere(self.limits.interface_limit),
            false => Error::TooManyNeighbours(self.limits.limit),
        })
    }

    /// The learned neighbour of an interface that was silent longest.
    fn oldest_of(&mut self, interface: InterfaceIndex) -> Option<NeighbourKey> {
        /// Those heard of since they were put in line go back to its end: so many are looked
        /// at, then whoever is first has to go.
        const LOOKS: usize = 16;
        for _ in 0..LOOKS {
            let (_, address) = *self.by_interface.get(&interface)?.learned.first()?;
            let key = NeighbourKey { interface, address };
            let mut neighbour = self.by_key[&key];
            if !self.reckon(&key, &mut neighbour) {
                return Some(key);
            }
            if let State::Known { .. } = neighbour.state {
                neighbour.due = self.due_for_age(neighbour.since);
            }
            self.put(key, neighbour);
        }
        let (_, address) = *self.by_interface.get(&interface)?.learned.first()?;
        Some(NeighbourKey { interface, address })
    }

    /// When [`Router::tick`] has something to do here.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.agenda.first().map(|(due, _)| *due)
    }
}

/// Whether a neighbour's address says nothing beyond its link: no table has a route to it.
fn is_of_its_link(key: &NeighbourKey) -> bool {
    matches!(key.address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// The route to a neighbour itself.
fn host_route(key: &NeighbourKey) -> (Prefix, Vec<Path>) {
    let way = Way::Via { next_hop: key.address, interface: Some(key.interface) };
    (Prefix::host(key.address), vec![Path::new(way)])
}

impl Router {
    /// Takes in what a worker saw of a neighbour.
    pub(crate) fn handle_neighbour(&mut self, event: Event) {
        match event {
            Event::Resolve(key) => self.resolve_neighbour(key),
            Event::Conflict(key, mac) => self.conflict(key, mac, Instant::now()),
            Event::Learned(key, mac) => {
                // The interface may have changed since the worker looked.
                if !self.is_on_link(&key) {
                    return;
                }
                if let Err(error) = self.learn_neighbour(key, mac) {
                    self.neighbours.refused += 1;
                    // Who was not asked for has not been silent.
                    let state = self.neighbours.by_key.get(&key).map(|neighbour| neighbour.state);
                    if matches!(state, Some(State::Incomplete { .. })) {
                        self.fall_silent(key, Instant::now());
                    }
                    if let Some(untold) = self.neighbours.refusals_told.pass(Instant::now()) {
                        log::warn!("neighbour {} not learned: {error}{}", key.address, and_others(untold));
                    }
                }
            }
        }
    }

    /// Makes a neighbour known by what it said.
    fn learn_neighbour(&mut self, key: NeighbourKey, mac: MacAddress) -> Result<(), Error> {
        let before = self.neighbours.by_key.get(&key).copied();
        // What an operator said is not overridden from the wire.
        if before.is_some_and(|before| before.state.is_static()) {
            return Ok(());
        }
        let known = before.and_then(|before| before.state.mac());
        if let Some(old) = known
            && old != mac
            && let Some(untold) = self.neighbours.moves_told.pass(Instant::now())
        {
            let name = self.interfaces.get(key.interface).map_or("?", |interface| &interface.name);
            let others = and_others(untold);
            log::info!("neighbour {} on {name} has the Ethernet address {mac} now, {old} before{others}", key.address);
        }
        let state = State::Known { mac, is_static: false };
        self.make_known(key, state, before.is_some_and(|before| before.no_fib_entry))
    }

    /// Makes a neighbour known: by an operator (`is_static`) or by what it said.
    ///
    /// # Errors
    /// When there is no such interface, the address is no host's, or there are too many.
    pub fn set_neighbour(&mut self, key: NeighbourKey, mac: MacAddress, is_static: bool) -> Result<(), Error> {
        match is_static {
            true => self.set_static_neighbour(key, mac, false),
            false => self.learn_neighbour(key, mac),
        }
    }

    /// Makes a neighbour known, as an operator says. With `no_fib_entry` it gets no route of
    /// its own.
    ///
    /// # Errors
    /// When there is no such interface, the address is no host's, or there are too many.
    pub fn set_static_neighbour(
        &mut self,
        key: NeighbourKey,
        mac: MacAddress,
        no_fib_entry: bool,
    ) -> Result<(), Error> {
        let state = State::Known { mac, is_static: true };
        self.check_neighbour(&key, mac)?;
        let before = self.neighbours.by_key.get(&key).copied();
        if before.is_some_and(|before| before.state.mac().is_some() && before.no_fib_entry != no_fib_entry) {
            self.remove_neighbour(key)?;
        }
        self.make_known(key, state, no_fib_entry)
    }

    /// Whether there can be such a neighbour.
    fn check_neighbour(&self, key: &NeighbourKey, mac: MacAddress) -> Result<(), Error> {
        let interface = self.interfaces.get(key.interface)?;
        if interface.is_loopback() {
            return Err(Error::NoNeighbours(interface.name.clone()));
        }
        // 0.0.0.0 would name the glean of the interface's own networks.
        let is_broadcast = key.address == Ipv4Addr::BROADCAST;
        // The table of workers keeps IPv4 addresses as IPv6 maps them.
        let is_mapped = matches!(key.address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some());
        if key.address.is_unspecified() || key.address.is_multicast() || is_broadcast || is_mapped {
            return Err(Error::BadNeighbourAddress(key.address));
        }
        match mac.is_multicast() || mac.is_zero() {
            true => Err(Error::BadNeighbourMac(mac)),
            false => Ok(()),
        }
    }

    fn make_known(&mut self, key: NeighbourKey, state: State, no_fib_entry: bool) -> Result<(), Error> {
        let mac = state.mac().expect("what is made known is");
        self.check_neighbour(&key, mac)?;
        let known = self.neighbours.mac_of(&key);
        if known.is_none()
            && let Some(oldest) = self.neighbours.in_the_way(key.interface)?
        {
            self.neighbours.recycled += 1;
            self.remove_neighbour(oldest)?;
        }
        let now = Instant::now();
        let due = if state.is_static() { None } else { self.neighbours.due_for_age(now) };
        self.neighbours
            .put(key, Neighbour { state, since: now, no_fib_entry, reckoned: self.neighbours.table.heard(&key), due });
        if known == Some(mac) {
            return Ok(());
        }
        if known.is_some() {
            self.refresh_adjacencies(key.interface, Some(key.address));
            return Ok(());
        }
        // Nothing may overtake the packets that wait. First its own route comes, which leads
        // to where they wait: what arrives now waits behind them.
        self.neighbours.becoming_known = Some(key);
        let (prefix, paths) = host_route(&key);
        // Beside that of a neighbour of this address on another interface.
        let routed = if no_fib_entry {
            Ok(())
        } else {
            self.hold_adjacency(key)
                .and_then(|()| self.add_host_route(key, prefix, paths))
                .inspect_err(|_| self.let_go_adjacency(key))
        };
        self.neighbours.becoming_known = None;
        if let Err(error) = routed {
            self.neighbours.take(&key);
            self.for_waiting(key, Resolve::refuse);
            return Err(error);
        }
        self.release_waiting(key);
        if no_fib_entry {
            self.install_hops_in(prefix);
        }
        Ok(())
    }

    fn add_host_route(&mut self, key: NeighbourKey, prefix: Prefix, paths: Vec<Path>) -> Result<(), Error> {
        if is_of_its_link(&key) {
            // Next hops that routes name are known from now on.
            self.install_hops_in(prefix);
            return Ok(());
        }
        self.add_route_in(self.table_of(key.interface, key.family()), prefix, Source::Neighbour, paths, false)
    }

    /// Lets go what waits for a neighbour that has become known, and has packets go straight
    /// to it from now on. The worker that receives does both between two rounds, and what was
    /// held goes before what it then receives.
    fn release_waiting(&mut self, key: NeighbourKey) {
        let mut adjacency = self.prepare_adjacency(key);
        let node = self.waiting_node(key.family());
        self.graph.call(|_| {
            let adjacency = adjacency.take();
            Box::new(move |core| {
                if let Some(adjacency) = adjacency {
                    adjacency.carry_out();
                }
                if let Some(resolve) = core.node::<Resolve>(node) {
                    resolve.release(key);
                }
            })
        });
    }

    /// Forgets a neighbour.
    ///
    /// # Errors
    /// When there is none.
    pub fn remove_neighbour(&mut self, key: NeighbourKey) -> Result<(), Error> {
        self.neighbours.take(&key).ok_or(Error::NoSuchNeighbour(key.address))?;
        self.forget_ways_to(key);
        Ok(())
    }

    /// What was built on a neighbour that is known no more.
    fn forget_ways_to(&mut self, key: NeighbourKey) {
        let (prefix, paths) = host_route(&key);
        // It has none while it was never resolved; another interface's may.
        let table = self.table_of(key.interface, key.family());
        if is_of_its_link(&key) || self.remove_route_in(table, prefix, Source::Neighbour, &paths).is_err() {
            self.install_hops_in(prefix);
        }
        self.let_go_adjacency(key);
        self.refresh_adjacencies(key.interface, Some(key.address));
        self.for_waiting(key, Resolve::refuse);
    }

    /// Has workers know a neighbour's adjacency: routes of other tables onto its wire lead to it, too.
    fn hold_adjacency(&mut self, key: NeighbourKey) -> Result<(), Error> {
        let object = self.share_adjacency(key)?;
        self.neighbours.adjacencies.insert(key, object);
        self.neighbours.table.set_adjacency(&key, object);
        Ok(())
    }

    /// Workers do not know the neighbour any more.
    fn let_go_adjacency(&mut self, key: NeighbourKey) {
        if let Some(object) = self.neighbours.adjacencies.remove(&key) {
            self.ip.release(Leaf::new(kind::ADJACENCY, object));
        }
    }

    /// A neighbour did not answer: what waits for it is refused, and it is left alone for a
    /// while.
    fn fall_silent(&mut self, key: NeighbourKey, now: Instant) {
        self.neighbours.take(&key);
        if self.neighbours.silent < MAX_SILENT {
            let due = Some(now + SILENCE);
            self.neighbours
                .put(key, Neighbour { state: State::Silent, since: now, no_fib_entry: false, reckoned: 0, due });
        }
        self.forget_ways_to(key);
    }

    /// Somebody claims an address of ours (RFC 5227 2.4): it is defended, but not more often
    /// than two stations that both do so could bear.
    fn conflict(&mut self, key: NeighbourKey, mac: MacAddress, now: Instant) {
        let ours = |interface: &crate::interface::Interface| {
            let owns = match key.address {
                // Borrowed ones are ours, too.
                IpAddr::V4(address) => {
                    self.interfaces.addresses_of(interface).iter().any(|prefix| prefix.address() == address)
                }
                IpAddr::V6(_) => interface.networks(Family::Ip6).any(|prefix| prefix.address() == key.address),
            };
            interface.admin_up && owns
        };
        let Some(name) = self.interfaces.get(key.interface).ok().filter(|i| ours(i)).map(|i| i.name.clone()) else {
            return;
        };
        if let IpAddr::V6(address) = key.address
            && self.address_is_claimed(key.interface, address, mac)
        {
            return;
        }
        let conflicts = &mut self.neighbours.conflicts;
        if !conflicts.contains_key(&key) && conflicts.len() >= MAX_CONFLICTS {
            let oldest = conflicts.iter().min_by_key(|(_, conflict)| conflict.last).map(|(key, _)| *key);
            oldest.map(|key| conflicts.remove(&key));
        }
        let before = conflicts.get(&key).copied();
        let defends = before.is_none_or(|b| now.saturating_duration_since(b.defended_at) >= DEFEND_INTERVAL);
        let defended = before.map_or(0, |before| before.defended) + defends as u32;
        let defended_at = before.filter(|_| !defends).map_or(now, |before| before.defended_at);
        conflicts.insert(key, Conflict { mac, last: now, defended_at, defended });
        if defends {
            log::warn!("{mac} on {name} claims {}, which is ours: two hosts have one address", key.address);
            match key.address {
                IpAddr::V4(address) => self.announce(key.interface, address),
                IpAddr::V6(address) => self.announce6(key.interface, address),
            }
        }
    }

    /// Forgets the conflicts seen so far.
    pub fn clear_conflicts(&mut self) {
        self.neighbours.conflicts.clear();
    }

    /// Sets how many neighbours there may be and for how long. Those that are known stay.
    ///
    /// # Errors
    /// When operators have stated more than that.
    pub fn set_neighbour_limits(&mut self, limits: Limits) -> Result<(), Error> {
        let mut stated: HashMap<InterfaceIndex, usize> = HashMap::new();
        for (key, _) in self.neighbours.iter().filter(|(_, neighbour)| neighbour.state.is_static()) {
            *stated.entry(key.interface).or_default() += 1;
        }
        let (all, most) = (stated.values().sum(), stated.values().copied().max().unwrap_or(0));
        for (stated, limit) in [(all, limits.limit), (most, limits.interface_limit)] {
            if stated > limit as usize {
                return Err(Error::MoreNeighboursStated { stated, limit: limit as usize });
            }
        }
        let age_changes = self.neighbours.limits.age != limits.age;
        self.neighbours.limits = limits;
        if !age_changes {
            return Ok(());
        }
        let learned = |neighbour: &Neighbour| matches!(neighbour.state, State::Known { is_static: false, .. });
        let keys: Vec<NeighbourKey> = self.neighbours.iter().filter(|(_, n)| learned(n)).map(|(key, _)| *key).collect();
        for key in keys {
            let mut neighbour = self.neighbours.by_key[&key];
            neighbour.due = self.neighbours.due_for_age(neighbour.since);
            self.neighbours.put(key, neighbour);
        }
        Ok(())
    }

    fn change_policy(&mut self, change: impl FnOnce(&mut Policy)) {
        change(&mut self.neighbours.policy);
        self.neighbours.shared_policy.publish(self.neighbours.policy.clone());
    }

    pub fn set_arp_rates(&mut self, rates: Rates) {
        self.change_policy(|policy| policy.rates = rates);
    }

    /// Whether announcements of unknown neighbours are learned.
    pub fn set_arp_accept(&mut self, accepts: bool) {
        self.change_policy(|policy| policy.accepts_unknown = accepts);
    }

    /// Adds addresses to answer for on interfaces with proxy ARP.
    ///
    /// # Errors
    /// When the range is empty, there already, or one too many.
    pub fn add_proxied(&mut self, range: Range) -> Result<(), Error> {
        if range.start > range.end {
            return Err(Error::EmptyRange(range.start, range.end));
        }
        let proxied = &self.neighbours.policy.proxied;
        match proxied.binary_search(&range) {
            Ok(_) => Err(Error::RangeThere(range.start, range.end)),
            Err(_) if proxied.len() >= MAX_RANGES => Err(Error::TooManyRanges),
            Err(at) => {
                self.change_policy(|policy| policy.proxied.insert(at, range));
                Ok(())
            }
        }
    }

    /// # Errors
    /// When there is no such range.
    pub fn remove_proxied(&mut self, range: Range) -> Result<(), Error> {
        let Ok(at) = self.neighbours.policy.proxied.binary_search(&range) else {
            return Err(Error::NoSuchRange(range.start, range.end));
        };
        self.change_policy(|policy| {
            policy.proxied.remove(at);
        });
        Ok(())
    }

    /// Forgets what was learned, on one interface or on all.
    pub fn flush_learned(&mut self, interface: Option<InterfaceIndex>) {
        match interface {
            Some(interface) => self.flush_neighbours(interface, false),
            None => {
                let all: Vec<InterfaceIndex> = self.interfaces.iter().map(|interface| interface.index).collect();
                all.into_iter().for_each(|interface| self.flush_neighbours(interface, false));
            }
        }
    }

    /// Forgets the neighbours of an interface; static ones only when it goes away.
    pub(crate) fn flush_neighbours(&mut self, interface: InterfaceIndex, also_static: bool) {
        let gone = |(_, neighbour): &(&NeighbourKey, &Neighbour)| also_static || !neighbour.state.is_static();
        let keys: Vec<NeighbourKey> =
            self.neighbours.of_interface(interface).filter(gone).map(|(key, _)| *key).collect();
        for key in keys {
            let _ = self.remove_neighbour(key);
        }
        if also_static {
            self.neighbours.conflicts.retain(|key, _| key.interface != interface);
        }
    }

    /// The node that holds packets for unknown neighbours.
    fn waiting_node(&self, family: Family) -> NodeIndex {
        match family {
            Family::Ip4 => self.nodes.arp.arp,
            Family::Ip6 => self.nodes.nd.discover,
        }
    }

    /// Tells the node that holds packets, on all workers.
    fn for_waiting(&self, key: NeighbourKey, act: fn(&mut Resolve, NeighbourKey)) {
        let node = self.waiting_node(key.family());
        self.graph.call(|_| {
            Box::new(move |core| {
                if let Some(resolve) = core.node::<Resolve>(node) {
                    act(resolve, key);
                }
            })
        });
    }

    /// Packets wait for a neighbour.
    fn resolve_neighbour(&mut self, key: NeighbourKey) {
        let known = self.neighbours.by_key.get(&key);
        // Packets to one that has no route of its own would come back here for ever.
        if known.is_some_and(|known| known.no_fib_entry && known.state.mac().is_some()) {
            return self.for_waiting(key, Resolve::refuse);
        }
        match known.map(|neighbour| neighbour.state) {
            // Another worker's packets may wait already: then it has been asked for.
            Some(State::Incomplete { .. }) => {}
            Some(State::Silent) => self.for_waiting(key, Resolve::refuse),
            Some(_) => self.for_waiting(key, Resolve::release),
            None if !self.is_on_link(&key) => self.for_waiting(key, Resolve::refuse),
            None => {
                let now = Instant::now();
                let state = State::Incomplete { asked: 0 };
                self.neighbours
                    .put(key, Neighbour { state, since: now, no_fib_entry: false, reckoned: 0, due: Some(now) });
                self.advance(key, now);
            }
        }
    }

    /// Does what is due about neighbours.
    pub(crate) fn tick_neighbours(&mut self, now: Instant) {
        // Each step moves the neighbour's time on, or ends it.
        while let Some(&(due, key)) = self.neighbours.agenda.first()
            && due <= now
        {
            self.advance(key, now);
        }
    }

    /// The next step for a neighbour whose time has come: ask, or give up.
    fn advance(&mut self, key: NeighbourKey, now: Instant) {
        let Some(mut neighbour) = self.neighbours.by_key.get(&key).copied() else { return };
        let (asked, to) = match neighbour.state {
            State::Incomplete { asked } => (asked, MacAddress::BROADCAST),
            State::Probing { mac, asked } => (asked, mac),
            State::Known { mac, .. } => {
                // Workers may have heard of it since.
                if self.neighbours.reckon(&key, &mut neighbour) {
                    neighbour.due = self.neighbours.due_for_age(neighbour.since);
                    return self.neighbours.put(key, neighbour);
                }
                (0, mac)
            }
            State::Silent => {
                self.neighbours.take(&key);
                return;
            }
        };
        if asked >= REQUESTS {
            match neighbour.state {
                State::Incomplete { .. } => self.fall_silent(key, now),
                _ => drop(self.remove_neighbour(key)),
            }
            return;
        }
        neighbour.state = match neighbour.state {
            State::Known { mac, .. } | State::Probing { mac, .. } => State::Probing { mac, asked: asked + 1 },
            _ => State::Incomplete { asked: asked + 1 },
        };
        neighbour.due = Some(now + REQUEST_INTERVAL);
        self.neighbours.put(key, neighbour);
        match key.family() {
            Family::Ip4 => self.send_arp_request(key, to),
            Family::Ip6 => self.send_solicitation(key, to),
        }
    }
}
