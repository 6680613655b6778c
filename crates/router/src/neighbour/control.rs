//! What control does about neighbours: learns them, asks for them, lets them age.
//!
//! A neighbour that packets wait for is asked for at once and again each second, three
//! times in all; then its packets are refused, and for [`SILENCE`] it is not asked again.
//! A learned neighbour is asked directly when it has not been heard of for the configured
//! age, and forgotten when it does not answer (RFC 1122 2.3.2.1); IPv6's, that packets are sent
//! to, much sooner ([`super::reachability`]).

use super::known::{Limits, Neighbour, State};
use super::resolve::Resolve;
use super::{Event, Evidence, NeighbourKey};
use crate::ip::control::{Path, PathAction, Source};
use crate::{Error, Router, check_memory};
use graph::{InterfaceIndex, NodeIndex};
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};
use tables::{Leaf, Replacement, kind};
use wire::{Family, MacAddress, Prefix};

/// Requests before giving up, and the time between them (RFC 1122 2.3.2.1: at most one
/// a second).
pub const REQUESTS: u32 = 3;
pub const REQUEST_INTERVAL: Duration = Duration::from_secs(1);
/// How long a neighbour that did not answer is not asked again.
pub const SILENCE: Duration = Duration::from_secs(5);
/// Silent neighbours that are remembered.
pub const MAX_SILENT: usize = 4096;
/// Whether a neighbour's address says nothing beyond its link: no table has a route to it.
fn is_of_its_link(key: &NeighbourKey) -> bool {
    matches!(key.address, IpAddr::V6(address) if address.is_unicast_link_local())
}

/// The route to a neighbour itself.
fn host_route(key: &NeighbourKey) -> (Prefix, Vec<Path>) {
    let way = PathAction::Via { next_hop: key.address, interface: Some(key.interface) };
    (Prefix::host(key.address), vec![Path::new(way)])
}

/// Neighbours that are looked at in one go when all are.
const PART: usize = 4096;

impl Router {
    /// Takes in what a worker saw of a neighbour.
    pub(crate) fn handle_neighbour(&mut self, event: Event) {
        match event {
            Event::Resolve(key) => self.resolve_neighbour(key),
            Event::Conflict(key, mac) => self.conflict(key, mac, self.neighbours.now()),
            Event::Used(key) => self.neighbour_used(key, self.neighbours.now()),
            Event::Doubted(key) => self.doubt_neighbour(key),
            Event::Learned(key, mac, evidence) => {
                // The interface may have changed since the worker looked.
                if !self.is_on_link(&key) {
                    return;
                }
                if let Err(error) = self.learn_neighbour(key, mac, evidence) {
                    self.neighbours.of_family[key.family()].met.refused += 1;
                    // Who was not asked for has not been silent.
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

    /// Makes a neighbour known by what it said.
    fn learn_neighbour(&mut self, key: NeighbourKey, mac: MacAddress, evidence: Evidence) -> Result<(), Error> {
        let before = self.neighbours.by_key.get(&key).copied();
        // What an operator said is not overridden from the wire.
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
        self.make_known(key, state, before.is_some_and(|before| before.no_fib_entry))
    }

    /// Makes a neighbour known: by an operator (`is_static`) or by what it said.
    ///
    /// # Errors
    /// When there is no such interface, the address is no host's, or there are too many.
    pub fn set_neighbour(&mut self, key: NeighbourKey, mac: MacAddress, is_static: bool) -> Result<(), Error> {
        match is_static {
            true => self.set_static_neighbour(key, mac, false),
            false => self.learn_neighbour(key, mac, Evidence::Reachable),
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
        check_memory()?;
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
        self.neighbours
            .put(key, Neighbour { state, since: now, no_fib_entry, reckoned: self.neighbours.table.heard(&key), due });
        if known == Some(mac) && was_stale == self.neighbours.is_stale(&key) {
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
        let mut adjacencies = self.prepare_adjacencies(key);
        let node = self.waiting_node(key.family());
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

    /// Sets how many neighbours of a family there may be and for how long. Those that are known stay.
    ///
    /// # Errors
    /// When operators have stated more than that.
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

    /// Asks for a neighbour on the link, unless it is known: packets wait for it, or somebody else wants to know.
    pub fn resolve_neighbour(&mut self, key: NeighbourKey) {
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
                let now = self.neighbours.now();
                let state = State::Incomplete { asked: 0 };
                self.neighbours
                    .put(key, Neighbour { state, since: now, no_fib_entry: false, reckoned: 0, due: Some(now) });
                self.advance(key, now);
            }
        }
    }

    /// Does what is due about neighbours.
    pub(crate) fn tick_neighbours(&mut self, now: Instant) {
        self.neighbours.ticked = now;
        // Each step moves the neighbour's time on, or ends it.
        while let Some(&(due, key)) = self.neighbours.agenda.first()
            && due <= now
        {
            self.advance(key, now);
            self.breathe();
        }
    }

    /// The next step for a neighbour whose time has come: ask, or give up.
    fn advance(&mut self, key: NeighbourKey, now: Instant) {
        let Some(mut neighbour) = self.neighbours.by_key.get(&key).copied() else { return };
        let family = key.family();
        let (asked, to) = match neighbour.state {
            State::Incomplete { asked } => (asked, MacAddress::BROADCAST),
            State::Probing { mac, asked } => (asked, mac),
            State::Known { mac, .. } | State::Stale { mac } | State::Delay { mac } => {
                // Workers may have heard of it since.
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
        match family {
            Family::Ip4 => self.send_arp_request(key, to),
            Family::Ip6 => self.send_solicitation(key, to),
        }
    }
}
