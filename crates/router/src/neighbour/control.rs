//! The control thread's part in neighbours: learns them, asks for them, lets them age.
//!
//! When packets wait for a neighbour, the router asks for it at once and then each second, three times in all. After
//! that it refuses the packets, and does not ask again for [`SILENCE`]. When a learned neighbour has not been heard of
//! for the configured age, the router asks it directly, and forgets it if it does not answer (RFC 1122 2.3.2.1). IPv6
//! neighbours that packets are sent to are asked much sooner ([`super::reachability`]).

use super::known::{Limits, Neighbour, State};
use super::resolve::Resolve;
use super::{Event, Evidence, NeighbourKey};
use crate::ip::class;
use crate::ip::control::{Path, PathAction, Source};
use crate::{Error, Router, check_memory};
use graph::InterfaceIndex;
use std::collections::{BTreeSet, HashMap};
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};
use tables::{Leaf, Replacement};
use wire::{Family, MacAddress, Prefix};

/// Requests before giving up, and the time between them (RFC 1122 2.3.2.1: at most one a second).
pub const REQUESTS: u32 = 3;
pub const REQUEST_INTERVAL: Duration = Duration::from_secs(1);
/// How long the router does not ask again for a neighbour that did not answer.
pub const SILENCE: Duration = Duration::from_secs(5);
/// The most silent neighbours that are remembered.
pub const MAX_SILENT: usize = 4096;
/// Whether a neighbour's address is valid on its link only: no table has a route to it.
fn is_of_its_link(key: &NeighbourKey) -> bool {
    matches!(key.address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// The host route of a neighbour.
fn host_route(key: &NeighbourKey) -> (Prefix, Vec<Path>) {
    let way = PathAction::Via { next_hop: key.address, interface: Some(key.interface) };
    (Prefix::host(key.address), vec![Path::new(way)])
}

/// How a neighbour is kept, as [`Neighbour`] says.
#[derive(Clone, Copy)]
struct Held {
    no_fib_entry: bool,
    is_found: bool,
}

/// Neighbours that are processed in one part when all are processed.
const PART: usize = 4096;

impl Router {
    /// Handles a worker's report about a neighbour.
    pub fn handle_neighbour(&mut self, event: Event) {
        self.operation(|router| router.take_event(event));
    }

    fn take_event(&mut self, event: Event) {
        match event {
            Event::Resolve(key) => self.resolve_neighbour(key),
            Event::Conflict(key, mac) => self.conflict(key, mac, self.neighbours.now()),
            Event::Used(key) => self.neighbour_used(key, self.neighbours.now()),
            Event::Doubted(key) => self.doubt_neighbour(key),
            Event::Learned(key, mac, evidence) => {
                // The interface may have changed since the worker's check.
                if !self.is_on_link(&key) {
                    return;
                }
                if let Err(error) = self.learn_neighbour(key, mac, evidence) {
                    self.neighbours.of_family[key.family()].met.refused += 1;
                    // A neighbour that was not asked for is not silent.
                    let state = self.neighbours.by_key.get(&key).map(|neighbour| neighbour.state);
                    if matches!(state, Some(State::Incomplete { .. })) {
                        self.fall_silent(key, self.neighbours.now());
                    }
                    if let Some(others) = self.neighbours.refusals_told.pass(Instant::now()) {
                        log::warn!("neighbour {} not learned: {error}{others}", key.address);
                    }
                }
            }
        }
    }

    /// Learns a neighbour from its message.
    fn learn_neighbour(&mut self, key: NeighbourKey, mac: MacAddress, evidence: Evidence) -> Result<(), Error> {
        let before = self.neighbours.by_key.get(&key).copied();
        // A configured neighbour is not overridden by messages.
        if before.is_some_and(|before| before.state.is_static()) {
            return Ok(());
        }
        let known = before.and_then(|before| before.state.mac());
        if let Some(old) = known
            && old != mac
            && let Some(others) = self.neighbours.moves_told.pass(Instant::now())
        {
            let name = self.interfaces.get(key.interface).map_or("?", |interface| &interface.name);
            log::info!("neighbour {} on {name} has the Ethernet address {mac} now, {old} before{others}", key.address);
        }
        let state = match evidence {
            Evidence::Hearsay if known == Some(mac) => return Ok(()), // neither new nor an answer
            Evidence::Hearsay if self.neighbours.doubts(key.family()) => State::Stale { mac },
            _ => State::Known { mac, is_static: false },
        };
        self.make_known(
            key,
            state,
            Held { no_fib_entry: before.is_some_and(|before| before.no_fib_entry), is_found: false },
        )
    }

    /// Adds or changes a neighbour: as an operator (`is_static`), or as if it had sent a message.
    ///
    /// # Errors
    /// When there is no such interface, the address cannot be a host's, or there are too many neighbours.
    pub fn set_neighbour(&mut self, key: NeighbourKey, mac: MacAddress, is_static: bool) -> Result<(), Error> {
        match is_static {
            true => self.set_static_neighbour(key, mac, false),
            false => self.operation(|router| router.learn_neighbour(key, mac, Evidence::Reachable)),
        }
    }

    /// Adds or changes a neighbour as an operator. With `no_fib_entry` it gets no host route.
    ///
    /// # Errors
    /// When there is no such interface, the address cannot be a host's, or there are too many neighbours.
    pub fn set_static_neighbour(
        &mut self,
        key: NeighbourKey,
        mac: MacAddress,
        no_fib_entry: bool,
    ) -> Result<(), Error> {
        self.operation(|router| router.state_neighbour(key, mac, Held { no_fib_entry, is_found: false }))
    }

    /// Adds or changes a static neighbour that no operator stated: it is no configuration. One that an operator stated
    /// stays as it is.
    ///
    /// # Errors
    /// When there is no such interface, the address cannot be a host's, or there are too many neighbours.
    pub fn add_found_neighbour(&mut self, key: NeighbourKey, mac: MacAddress) -> Result<(), Error> {
        match self.neighbours.by_key.get(&key).is_some_and(|known| known.state.is_static() && !known.is_found) {
            true => Ok(()),
            false => {
                self.operation(|router| router.state_neighbour(key, mac, Held { no_fib_entry: false, is_found: true }))
            }
        }
    }

    /// Forgets a static neighbour that no operator stated, if there is one.
    pub fn remove_found_neighbour(&mut self, key: NeighbourKey) {
        if self.neighbours.by_key.get(&key).is_some_and(|known| known.is_found) {
            let _ = self.remove_neighbour(key);
        }
    }

    /// Forgets the static neighbours of an interface that no operator stated, but for some.
    pub fn remove_found_neighbours(&mut self, interface: InterfaceIndex, but: &BTreeSet<IpAddr>) {
        let all = self.neighbours.of_interface(interface);
        let goes = all.filter(|(key, neighbour)| neighbour.is_found && !but.contains(&key.address));
        let keys: Vec<NeighbourKey> = goes.map(|(key, _)| *key).collect();
        self.operation(|router| keys.into_iter().for_each(|key| drop(router.remove_neighbour(key))));
    }

    fn state_neighbour(&mut self, key: NeighbourKey, mac: MacAddress, held: Held) -> Result<(), Error> {
        check_memory()?;
        let state = State::Known { mac, is_static: true };
        self.check_neighbour(&key, mac)?;
        let before = self.neighbours.by_key.get(&key).copied();
        if before.is_some_and(|before| before.state.mac().is_some() && before.no_fib_entry != held.no_fib_entry) {
            self.remove_neighbour(key)?;
        }
        self.make_known(key, state, held)
    }

    /// Refuses a neighbour that cannot exist.
    fn check_neighbour(&self, key: &NeighbourKey, mac: MacAddress) -> Result<(), Error> {
        let interface = self.interfaces.get(key.interface)?;
        if !interface.has_neighbours() {
            return Err(Error::NoNeighbours(interface.name.clone()));
        }
        // 0.0.0.0 would be the glean of the interface's own networks.
        let is_broadcast = key.address == Ipv4Addr::BROADCAST;
        // The workers' table stores IPv4 addresses as IPv4-mapped IPv6 addresses.
        let is_mapped = matches!(key.address, IpAddr::V6(address) if address.to_ipv4_mapped().is_some());
        if key.address.is_unspecified() || key.address.is_multicast() || is_broadcast || is_mapped {
            return Err(Error::BadNeighbourAddress(key.address));
        }
        match mac.is_multicast() || mac.is_zero() {
            true => Err(Error::BadNeighbourMac(mac)),
            false => Ok(()),
        }
    }

    fn make_known(&mut self, key: NeighbourKey, state: State, held: Held) -> Result<(), Error> {
        let Held { no_fib_entry, is_found } = held;
        let mac = state.mac().expect("what is made known is");
        self.check_neighbour(&key, mac)?;
        let known = self.neighbours.mac_of(&key);
        let was_stale = self.neighbours.is_stale(&key);
        if known.is_none()
            && let Some(oldest) = self.neighbours.in_the_way(key.interface, key.family())?
        {
            self.neighbours.of_family[key.family()].met.recycled += 1;
            self.remove_neighbour(oldest)?;
        }
        if let Some(larger) = self.neighbours.table.larger() {
            let larger = self.aside(larger);
            self.neighbours.table.adopt(larger);
        }
        let now = self.neighbours.now();
        let due = self.neighbours.due(key.family(), state, now);
        self.neighbours.put(
            key,
            Neighbour { state, since: now, no_fib_entry, is_found, reckoned: self.neighbours.table.heard(&key), due },
        );
        if known == Some(mac) && was_stale == self.neighbours.is_stale(&key) {
            return Ok(());
        }
        if known.is_some() {
            self.refresh_adjacencies(key.interface, Some(key.address));
            return Ok(());
        }
        // No packet may overtake the pending ones. So the host route comes first: it leads to where they wait, and
        // packets that arrive now wait behind them.
        self.neighbours.becoming_known = Some(key);
        let (prefix, paths) = host_route(&key);
        // Beside the route of a neighbour with this address on another interface.
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
            // Next hops of routes may be known from now on.
            self.install_hops_in(prefix);
            return Ok(());
        }
        self.add_route_in(self.table_of(key.interface, key.family()), prefix, Source::Neighbour, paths, false)
    }

    /// Releases the packets that wait for a neighbour, and sends later packets directly to it. The receiving worker
    /// does both between two rounds, so that the held packets go before those that it receives next.
    fn release_waiting(&mut self, key: NeighbourKey) {
        let mut adjacencies = self.prepare_adjacencies(key);
        let node = self.resolver(key.family()).node;
        self.graph.call(|_| {
            let adjacencies = std::mem::take(&mut adjacencies);
            Box::new(move |core| {
                adjacencies.into_iter().for_each(Replacement::carry_out);
                if let Some(resolve) = core.node::<Resolve>(node) {
                    resolve.release(key);
                }
            })
        });
    }

    /// Forgets a neighbour.
    ///
    /// # Errors
    /// When there is no such neighbour.
    pub fn remove_neighbour(&mut self, key: NeighbourKey) -> Result<(), Error> {
        self.operation(|router| {
            router.neighbours.take(&key).ok_or(Error::NoSuchNeighbour(key.address))?;
            router.forget_ways_to(key);
            Ok(())
        })
    }

    /// Removes what depends on a neighbour that is not known any more.
    fn forget_ways_to(&mut self, key: NeighbourKey) {
        let (prefix, paths) = host_route(&key);
        // A neighbour that was never resolved has no route, but one on another interface may have it.
        let table = self.table_of(key.interface, key.family());
        if is_of_its_link(&key) || self.remove_route_in(table, prefix, Source::Neighbour, &paths).is_err() {
            self.install_hops_in(prefix);
        }
        self.let_go_adjacency(key);
        self.refresh_adjacencies(key.interface, Some(key.address));
        self.for_waiting(key, Resolve::refuse);
    }

    /// Makes a neighbour's adjacency known to workers: routes of other tables onto its link lead to it as well.
    fn hold_adjacency(&mut self, key: NeighbourKey) -> Result<(), Error> {
        let object = self.share_adjacency(key)?;
        self.neighbours.adjacencies.insert(key, object);
        self.neighbours.table.set_adjacency(&key, object);
        Ok(())
    }

    /// Releases the adjacency of a neighbour that workers do not know any more.
    fn let_go_adjacency(&mut self, key: NeighbourKey) {
        if let Some(object) = self.neighbours.adjacencies.remove(&key) {
            self.ip.release(Leaf::new(class::ADJACENCY, object));
        }
    }

    /// Called when a neighbour did not answer: refuses the packets that wait for it, and does not ask for it again for
    /// a while.
    fn fall_silent(&mut self, key: NeighbourKey, now: Instant) {
        self.neighbours.take(&key);
        if self.neighbours.silent < MAX_SILENT {
            let due = Some(now + SILENCE);
            self.neighbours.put(
                key,
                Neighbour { state: State::Silent, since: now, no_fib_entry: false, is_found: false, reckoned: 0, due },
            );
        }
        self.forget_ways_to(key);
    }

    /// Sets how many neighbours of a family there may be, and for how long. Known neighbours stay.
    ///
    /// # Errors
    /// When operators have configured more static neighbours than that.
    pub fn set_neighbour_limits(&mut self, family: Family, limits: Limits) -> Result<(), Error> {
        let of_family = |(key, _): &(&NeighbourKey, &Neighbour)| key.family() == family;
        let mut stated: HashMap<InterfaceIndex, usize> = HashMap::new();
        for (key, _) in self.neighbours.iter().filter(of_family).filter(|(_, neighbour)| neighbour.state.is_static()) {
            *stated.entry(key.interface).or_default() += 1;
        }
        let (all, most) = (stated.values().sum(), stated.values().copied().max().unwrap_or(0));
        for (stated, limit) in [(all, limits.limit), (most, limits.interface_limit)] {
            if stated > limit as usize {
                return Err(Error::MoreNeighboursStated { stated, limit: limit as usize });
            }
        }
        let before = std::mem::replace(&mut self.neighbours.of_family[family].limits, limits);
        if (before.age, before.reachable) == (limits.age, limits.reachable) {
            return Ok(());
        }
        let learned = |neighbour: &Neighbour| {
            matches!(neighbour.state, State::Known { is_static: false, .. } | State::Stale { .. })
        };
        let known = self.neighbours.iter().filter(of_family).filter(|(_, neighbour)| learned(neighbour));
        let keys: Vec<NeighbourKey> = known.map(|(key, _)| *key).collect();
        for key in keys {
            let mut neighbour = self.neighbours.by_key[&key];
            neighbour.due = self.neighbours.due(family, neighbour.state, neighbour.since);
            self.neighbours.put(key, neighbour);
            self.breathe();
        }
        Ok(())
    }

    /// Forgets the learned neighbours of one interface or of all.
    pub fn flush_learned(&mut self, interface: Option<InterfaceIndex>) {
        self.operation(|router| match interface {
            Some(interface) => router.flush_neighbours(interface, false),
            None => {
                let all: Vec<InterfaceIndex> = router.interfaces.iter().map(|interface| interface.index).collect();
                all.into_iter().for_each(|interface| router.flush_neighbours(interface, false));
            }
        });
    }

    /// Forgets the neighbours of an interface; static ones only when the interface is deleted.
    pub(crate) fn flush_neighbours(&mut self, interface: InterfaceIndex, also_static: bool) {
        let mut behind = None;
        loop {
            let some = self.neighbours.behind(behind, Some(interface)).take(PART);
            let some: Vec<(NeighbourKey, bool)> =
                some.map(|(key, neighbour)| (*key, neighbour.state.is_static())).collect();
            let Some(last) = some.last() else { break };
            behind = Some(last.0);
            for (key, _) in some.into_iter().filter(|(_, is_static)| also_static || !is_static) {
                let _ = self.remove_neighbour(key);
                self.breathe();
            }
            self.breathe();
        }
        if also_static {
            self.neighbours.conflicts.forget(interface);
        }
    }

    /// Sends a message to the node that holds packets, on all workers.
    fn for_waiting(&self, key: NeighbourKey, act: fn(&mut Resolve, NeighbourKey)) {
        let node = self.resolver(key.family()).node;
        self.graph.call(|_| {
            Box::new(move |core| {
                if let Some(resolve) = core.node::<Resolve>(node) {
                    act(resolve, key);
                }
            })
        });
    }

    /// Asks for a neighbour on the link, unless it is known. Packets may wait for it, or a command may need it.
    pub fn resolve_neighbour(&mut self, key: NeighbourKey) {
        let known = self.neighbours.by_key.get(&key);
        // Otherwise packets to a neighbour without a host route would return here endlessly.
        if known.is_some_and(|known| known.no_fib_entry && known.state.mac().is_some()) {
            return self.for_waiting(key, Resolve::refuse);
        }
        match known.map(|neighbour| neighbour.state) {
            // Packets may already wait on another worker; then a request was sent.
            Some(State::Incomplete { .. }) => {}
            Some(State::Silent) => self.for_waiting(key, Resolve::refuse),
            Some(_) => self.for_waiting(key, Resolve::release),
            None if !self.is_on_link(&key) => self.for_waiting(key, Resolve::refuse),
            None => {
                let now = self.neighbours.now();
                let state = State::Incomplete { asked: 0 };
                self.neighbours.put(
                    key,
                    Neighbour { state, since: now, no_fib_entry: false, is_found: false, reckoned: 0, due: Some(now) },
                );
                self.advance(key, now);
            }
        }
    }

    /// Does what is due for neighbours.
    pub(crate) fn tick_neighbours(&mut self, now: Instant) {
        self.neighbours.ticked = now;
        self.operation(|router| {
            // Each step makes the neighbour due later, or removes it.
            while let Some(&(due, key)) = router.neighbours.agenda.first()
                && due <= now
            {
                router.advance(key, now);
                router.breathe();
            }
        });
    }

    /// The next step for a neighbour that is due: asks for it, or gives up.
    fn advance(&mut self, key: NeighbourKey, now: Instant) {
        let Some(mut neighbour) = self.neighbours.by_key.get(&key).copied() else { return };
        let family = key.family();
        let (asked, to) = match neighbour.state {
            State::Incomplete { asked } => (asked, MacAddress::BROADCAST),
            State::Probing { mac, asked } => (asked, mac),
            State::Known { mac, .. } | State::Stale { mac } | State::Delay { mac } => {
                // Workers may have heard of it in the meantime.
                if self.is_confirmed(key, neighbour) {
                    return;
                }
                if matches!(neighbour.state, State::Known { .. }) && self.neighbours.doubts(family) {
                    neighbour.state = State::Stale { mac };
                    return self.fall_stale(key, neighbour);
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
        neighbour.state = match neighbour.state.mac() {
            Some(mac) => State::Probing { mac, asked: asked + 1 },
            None => State::Incomplete { asked: asked + 1 },
        };
        neighbour.due = Some(now + REQUEST_INTERVAL);
        self.move_neighbour(key, neighbour);
        (self.resolver(family).ask)(self, key, to);
    }
}
