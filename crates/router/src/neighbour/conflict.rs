//! Stations that claim an address of ours (RFC 5227 2.4): it is defended, but not more often than two stations that
//! both do so could bear.

use super::NeighbourKey;
use crate::Router;
use crate::interface::standing::Detecting;
use graph::InterfaceIndex;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};
use wire::{Family, MacAddress};

/// RFC 5227 2.4: no more than one announcement in this time defends an address.
pub const DEFEND_INTERVAL: Duration = Duration::from_secs(10);
/// Conflicts that are remembered.
pub const MAX_CONFLICTS: usize = 256;

/// A station that claimed an address of ours.
#[derive(Debug, Clone, Copy)]
pub struct Conflict {
    pub mac: MacAddress,
    pub last: Instant,
    /// When we announced the address to defend it, and how often so far.
    pub defended_at: Instant,
    pub defended: u32,
}

/// The latest claims, one for each address.
#[derive(Debug, Default)]
pub struct Conflicts(BTreeMap<NeighbourKey, Conflict>);

impl Conflicts {
    pub fn iter(&self) -> impl Iterator<Item = (&NeighbourKey, &Conflict)> {
        self.0.iter()
    }

    /// Remembers a claim. Gives whether the address is to be defended now.
    fn note(&mut self, key: NeighbourKey, mac: MacAddress, now: Instant) -> bool {
        if !self.0.contains_key(&key) && self.0.len() >= MAX_CONFLICTS {
            let oldest = self.0.iter().min_by_key(|(_, conflict)| conflict.last).map(|(key, _)| *key);
            oldest.map(|key| self.0.remove(&key));
        }
        let before = self.0.get(&key).copied();
        let defends = before.is_none_or(|b| now.saturating_duration_since(b.defended_at) >= DEFEND_INTERVAL);
        let defended = before.map_or(0, |before| before.defended) + defends as u32;
        let defended_at = before.filter(|_| !defends).map_or(now, |before| before.defended_at);
        self.0.insert(key, Conflict { mac, last: now, defended_at, defended });
        defends
    }

    /// An interface goes away.
    pub(super) fn forget(&mut self, interface: InterfaceIndex) {
        self.0.retain(|key, _| key.interface != interface);
    }
}

impl Router {
    /// Somebody claims an address of ours.
    pub(super) fn conflict(&mut self, key: NeighbourKey, mac: MacAddress, now: Instant) {
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
            && let Some(detector) = self.state::<Detecting>().0
            && (detector.claimed)(self, key.interface, address, mac)
        {
            return;
        }
        if self.neighbours.conflicts.note(key, mac, now) {
            log::warn!("{mac} on {name} claims {}, which is ours: two hosts have one address", key.address);
            self.announce(key.interface, key.address);
        }
    }

    /// Forgets the conflicts seen so far.
    pub fn clear_conflicts(&mut self) {
        self.neighbours.conflicts.0.clear();
    }
}
