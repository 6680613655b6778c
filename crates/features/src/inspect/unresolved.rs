//! Neighbours without an answer, for `show errors` and `show trace`: those that packets wait for, and those that did
//! not answer recently.

use graph::Snapshot;
use router::Router;
use router::neighbour::NeighbourKey;
use router::neighbour::known::State;
use serde::Serialize;
use std::fmt;
use std::net::IpAddr;
use tables::Leaf;
use wire::{ipv4, ipv6};

/// Most neighbours that are named; the rest are only counted.
const MOST: usize = 20;

/// A neighbour that packets cannot be sent to.
#[derive(Serialize)]
pub(super) struct Unresolved {
    address: IpAddr,
    interface: String,
    /// How many requests were sent while packets wait. None: the router gave up a short while ago.
    asked: Option<u32>,
}

impl Unresolved {
    fn of(router: &Router, key: &NeighbourKey) -> Option<Unresolved> {
        let asked = match router.neighbours.get(key)?.state {
            State::Incomplete { asked } => Some(asked),
            State::Silent => None,
            _ => return None,
        };
        Some(Unresolved { address: key.address, interface: name_of(router, key), asked })
    }

    fn node(&self) -> &'static str {
        if self.address.is_ipv4() { "ip4-arp" } else { "ip6-discover-neighbor" }
    }
}

impl fmt::Display for Unresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unresolved { address, interface, asked } = self;
        write!(f, "{}: ", self.node())?;
        match asked {
            Some(asked) => write!(f, "waiting for {address} on {interface}, asked {}", times(*asked)),
            None => write!(f, "{address} on {interface} did not answer"),
        }
    }
}

fn times(count: u32) -> String {
    match count {
        1 => "once".into(),
        count => format!("{count} times"),
    }
}

fn name_of(router: &Router, key: &NeighbourKey) -> String {
    router.interfaces.get(key.interface).map_or_else(|_| "(removed)".into(), |interface| interface.name.clone())
}

/// All of them, those that packets wait for first.
#[derive(Serialize)]
pub(super) struct AllUnresolved {
    named: Vec<Unresolved>,
    /// How many are not named.
    others: usize,
}

impl AllUnresolved {
    pub fn of(router: &Router) -> AllUnresolved {
        let is_one = |state| matches!(state, State::Incomplete { .. } | State::Silent);
        let all = router.neighbours.iter().filter(|(_, neighbour)| is_one(neighbour.state));
        let mut keys: Vec<_> = all.map(|(key, neighbour)| (neighbour.state == State::Silent, *key)).collect();
        keys.sort();
        let named: Vec<Unresolved> =
            keys.iter().take(MOST).filter_map(|(_, key)| Unresolved::of(router, key)).collect();
        AllUnresolved { others: keys.len() - named.len(), named }
    }
}

impl fmt::Display for AllUnresolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.named.iter().try_for_each(|neighbour| writeln!(f, "{neighbour}"))?;
        match self.others {
            0 => Ok(()),
            others => {
                writeln!(f, "{others} more neighbours without an answer: 'show ip neighbors', 'show ip6 neighbors'")
            }
        }
    }
}

/// What a traced packet waits for, or waited for, at a node that resolves neighbours.
pub(super) fn waiting(router: &Router, step: &Snapshot) -> String {
    let hop = router.ip.neighbour_of(Leaf(step.row.target));
    // On a connected route the neighbour is the packet's own destination.
    let key = hop.and_then(|key| match key.address.is_unspecified() {
        true => destination(step).map(|address| NeighbourKey { address, ..key }),
        false => Some(key),
    });
    match key {
        Some(key) => match Unresolved::of(router, &key) {
            Some(Unresolved { address, interface, asked: Some(asked) }) => {
                format!("waiting for {address} on {interface}, asked {}", times(asked))
            }
            _ => format!("waiting for {} on {}", key.address, name_of(router, &key)),
        },
        None => "waiting for a neighbour whose route is gone".into(),
    }
}

/// The destination of a packet by its IP header.
fn destination(step: &Snapshot) -> Option<IpAddr> {
    let packet = step.l3();
    match packet.first()? >> 4 {
        4 => Some(ipv4::Header::new_unchecked(packet.get(..ipv4::HEADER_LEN)?).dst().into()),
        6 => Some(ipv6::Header::new_unchecked(packet.get(..ipv6::HEADER_LEN)?).dst().into()),
        _ => None,
    }
}
