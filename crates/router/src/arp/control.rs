//! Neighbours as control keeps them: learned, static, being asked for, ageing.
//!
//! A neighbour that packets wait for is asked for at once and again each second, three
//! times in all; then its packets are refused. A learned neighbour is asked directly
//! after [`MAX_AGE`] and forgotten when it does not answer.

use super::resolve::Resolve;
use super::{Event, NeighbourKey};
use crate::ip4::control::{Path, Source, Way};
use crate::{Error, Router};
use graph::InterfaceIndex;
use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};
use wire::arp::{self, Arp, Operation};
use wire::ethernet::EtherType;
use wire::{MacAddress, Prefix4};

/// Most neighbours.
pub const MAX_NEIGHBOURS: usize = 50_000;
/// Requests before giving up, and the time between them (RFC 1122 2.3.2.1: at most one
/// a second).
pub const REQUESTS: u32 = 3;
pub const REQUEST_INTERVAL: Duration = Duration::from_secs(1);
/// How long a learned neighbour is trusted without hearing from it.
pub const MAX_AGE: Duration = Duration::from_secs(1200);

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
}

#[derive(Debug, Clone, Copy)]
pub struct Neighbour {
    pub state: State,
    /// When it was last heard of or made.
    pub since: Instant,
    /// When something is to be done about it.
    due: Option<Instant>,
}

/// All neighbours.
#[derive(Debug, Default)]
pub struct Neighbours {
    by_key: BTreeMap<NeighbourKey, Neighbour>,
    /// The same that have something due, the soonest first: an event or a tick must not
    /// cost a look at all of them.
    agenda: BTreeSet<(Instant, NeighbourKey)>,
}

impl Neighbours {
    /// The Ethernet address of a neighbour, when it is known.
    pub fn mac_of(&self, key: &NeighbourKey) -> Option<MacAddress> {
        match self.by_key.get(key)?.state {
            State::Known { mac, .. } | State::Probing { mac, .. } => Some(mac),
            State::Incomplete { .. } => None,
        }
    }

    fn put(&mut self, key: NeighbourKey, neighbour: Neighbour) {
        self.take(&key);
        self.agenda.extend(neighbour.due.map(|due| (due, key)));
        self.by_key.insert(key, neighbour);
    }

    fn take(&mut self, key: &NeighbourKey) -> Option<Neighbour> {
        let neighbour = self.by_key.remove(key)?;
        if let Some(due) = neighbour.due {
            self.agenda.remove(&(due, *key));
        }
        Some(neighbour)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&NeighbourKey, &Neighbour)> {
        self.by_key.iter()
    }

    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    /// When [`Router::tick`] has something to do here.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.agenda.first().map(|(due, _)| *due)
    }
}

/// The route to a neighbour itself.
fn host_route(key: &NeighbourKey) -> (Prefix4, Vec<Path>) {
    let prefix = Prefix4::new(key.address, 32).expect("32 is a length");
    let way = Way::Via { next_hop: key.address, interface: Some(key.interface) };
    (prefix, vec![Path::new(way)])
}

impl Router {
    /// Takes in what a worker saw of a neighbour.
    pub(crate) fn handle_neighbour(&mut self, event: Event) {
        match event {
            Event::Resolve(key) => self.resolve_neighbour(key),
            Event::Learned(key, mac) => {
                // The interface may have changed since the worker looked.
                if !self.is_on_link(&key) {
                    return;
                }
                if let Err(error) = self.set_neighbour(key, mac, false) {
                    log::warn!("neighbour {} not learned: {error}", key.address);
                }
            }
        }
    }

    /// Makes a neighbour known: by an operator (`is_static`) or by what it said.
    ///
    /// # Errors
    /// When there is no such interface, the address is no host's, or there are too many.
    pub fn set_neighbour(&mut self, key: NeighbourKey, mac: MacAddress, is_static: bool) -> Result<(), Error> {
        let interface = self.interfaces.get(key.interface)?;
        if interface.is_loopback() {
            return Err(Error::NoNeighbours(interface.name.clone()));
        }
        // 0.0.0.0 would name the glean of the interface's own networks.
        if key.address.is_unspecified() || key.address.is_multicast() || key.address.is_broadcast() {
            return Err(Error::BadNeighbourAddress(key.address));
        }
        if mac.is_multicast() || mac.is_zero() {
            return Err(Error::BadNeighbourMac(mac));
        }
        let before = self.neighbours.by_key.get(&key).copied();
        if let Some(Neighbour { state: State::Known { is_static: true, .. }, .. }) = before
            && !is_static
        {
            return Ok(()); // what an operator said is not overridden from the wire
        }
        if before.is_none() && self.neighbours.len() >= MAX_NEIGHBOURS {
            return Err(Error::TooManyNeighbours);
        }
        let now = Instant::now();
        let known = self.neighbours.mac_of(&key);
        let due = (!is_static).then_some(now + MAX_AGE);
        self.neighbours.put(key, Neighbour { state: State::Known { mac, is_static }, since: now, due });
        if known == Some(mac) {
            return Ok(());
        }
        self.refresh_adjacencies(key.interface, Some(key.address));
        if known.is_none() {
            let (prefix, paths) = host_route(&key);
            // Beside that of a neighbour of this address on another interface.
            if let Err(error) = self.add_route(prefix, Source::Neighbour, paths, false) {
                self.neighbours.take(&key);
                self.refresh_adjacencies(key.interface, Some(key.address));
                self.for_waiting(key, Resolve::refuse);
                return Err(error);
            }
        }
        self.for_waiting(key, Resolve::release);
        Ok(())
    }

    /// Forgets a neighbour.
    ///
    /// # Errors
    /// When there is none.
    pub fn remove_neighbour(&mut self, key: NeighbourKey) -> Result<(), Error> {
        self.neighbours.take(&key).ok_or(Error::NoSuchNeighbour(key.address))?;
        let (prefix, paths) = host_route(&key);
        // It has none while it was never resolved; another interface's may.
        let _ = self.remove_route(prefix, Source::Neighbour, &paths);
        self.refresh_adjacencies(key.interface, Some(key.address));
        self.for_waiting(key, Resolve::refuse);
        Ok(())
    }

    /// Forgets the neighbours of an interface; static ones only when it goes away.
    pub(crate) fn flush_neighbours(&mut self, interface: InterfaceIndex, also_static: bool) {
        let gone = |(key, neighbour): &(&NeighbourKey, &Neighbour)| {
            let is_static = matches!(neighbour.state, State::Known { is_static: true, .. });
            key.interface == interface && (also_static || !is_static)
        };
        let keys: Vec<NeighbourKey> = self.neighbours.iter().filter(gone).map(|(key, _)| *key).collect();
        for key in keys {
            let _ = self.remove_neighbour(key);
        }
    }

    /// Tells both nodes that hold packets, on all workers.
    fn for_waiting(&self, key: NeighbourKey, act: fn(&mut Resolve, NeighbourKey)) {
        for node in [self.nodes.arp.arp, self.nodes.arp.glean] {
            self.graph.call(|_| {
                Box::new(move |core| {
                    if let Some(resolve) = core.node::<Resolve>(node) {
                        act(resolve, key);
                    }
                })
            });
        }
    }

    /// Packets wait for a neighbour.
    fn resolve_neighbour(&mut self, key: NeighbourKey) {
        if self.neighbours.mac_of(&key).is_some() {
            return self.for_waiting(key, Resolve::release);
        }
        if !self.is_on_link(&key)
            || (self.neighbours.len() >= MAX_NEIGHBOURS && !self.neighbours.by_key.contains_key(&key))
        {
            return self.for_waiting(key, Resolve::refuse);
        }
        let now = Instant::now();
        // Another worker's packets may wait already: then it has been asked for.
        if !self.neighbours.by_key.contains_key(&key) {
            let state = State::Incomplete { asked: 0 };
            self.neighbours.put(key, Neighbour { state, since: now, due: Some(now) });
            self.advance(key, now);
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
            State::Known { mac, .. } => (0, mac),
        };
        if asked >= REQUESTS {
            let _ = self.remove_neighbour(key);
            return;
        }
        neighbour.state = match neighbour.state {
            State::Incomplete { .. } => State::Incomplete { asked: asked + 1 },
            State::Known { mac, .. } | State::Probing { mac, .. } => State::Probing { mac, asked: asked + 1 },
        };
        neighbour.due = Some(now + REQUEST_INTERVAL);
        self.neighbours.put(key, neighbour);
        self.send_arp_request(key, to);
    }

    /// Asks on the wire; `to` everybody, or directly.
    fn send_arp_request(&self, key: NeighbourKey, to: MacAddress) {
        let Ok(interface) = self.interfaces.get(key.interface) else { return };
        let Some(us) = self.interfaces.address_towards(key.interface, key.address) else { return };
        let request = Arp {
            operation: Operation::Request,
            sender_mac: interface.mac,
            sender_ip: us,
            target_mac: MacAddress::ZERO,
            target_ip: key.address,
        };
        self.send_arp(key.interface, to, &request);
    }

    /// Tells the network an address of ours (RFC 5227 2.3), so that hosts that knew it
    /// elsewhere find us.
    pub(crate) fn announce(&self, interface: InterfaceIndex, address: Ipv4Addr) {
        let Some(known) = self.interfaces.get(interface).ok().filter(|known| !known.is_loopback()) else { return };
        let announcement = Arp {
            operation: Operation::Request,
            sender_mac: known.mac,
            sender_ip: address,
            target_mac: MacAddress::ZERO,
            target_ip: address,
        };
        self.send_arp(interface, MacAddress::BROADCAST, &announcement);
    }

    fn send_arp(&self, interface: InterfaceIndex, to: MacAddress, message: &Arp) {
        let Ok(header) = self.interfaces.get(interface).map(|known| known.link_header(to, EtherType::ARP)) else {
            return;
        };
        let mut payload = [0; arp::LEN];
        message.emit(&mut payload);
        self.inject(interface, &header, &payload);
    }
}
