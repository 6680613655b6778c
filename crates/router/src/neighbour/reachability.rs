//! Whether a known neighbour is still there (Neighbor Unreachability Detection, RFC 4861 7.3).
//!
//! A neighbour that answered counts as reachable for a while. Then it is stale, and the next packet to it starts a
//! delay. Within the delay an answer to another request may confirm the neighbour; at the end of the delay it is asked.
//! Stale neighbours without packets are asked when they are old ([`Limits::age`]). IPv4 neighbours do not become stale
//! before that.

use super::NeighbourKey;
use super::known::{Limits, Neighbour, Neighbours, State};
use crate::{Router, random};
use std::time::{Duration, Instant};
use wire::Family;

/// From the first packet to a stale neighbour until the neighbour is asked (RFC 4861 10, DELAY_FIRST_PROBE_TIME).
pub const DELAY: Duration = Duration::from_secs(5);
/// The most seconds for which an answer may count (RFC 4861 6.2.1, AdvReachableTime).
pub const MAX_REACHABLE: u32 = 3600;

impl Neighbours {
    /// Whether known neighbours of a family become stale after some time.
    pub(super) fn doubts(&self, family: Family) -> bool {
        self.limits(family).reachable > 0
    }

    /// When the next step is due for a neighbour that was last heard of at `since`, and has this state.
    pub(super) fn due(&self, family: Family, state: State, since: Instant) -> Option<Instant> {
        let Limits { age, reachable, .. } = self.limits(family);
        let age = (age > 0).then(|| Duration::from_secs(age.into()));
        let after = match state {
            State::Known { is_static: false, .. } if reachable > 0 => {
                let time = reachable_time(Duration::from_secs(reachable.into()));
                Some(age.map_or(time, |age| age.min(time)))
            }
            State::Known { is_static: false, .. } | State::Stale { .. } => age,
            _ => None,
        };
        after.map(|after| since + after)
    }
}

/// A random time between 0.5 and 1.5 times the configured one, so that neighbours that answered together are not asked
/// together (RFC 4861 6.3.2).
fn reachable_time(base: Duration) -> Duration {
    base / 2 + random::time_up_to(base)
}

impl Router {
    /// Called when packets are sent to a neighbour that was stale when the worker read its state.
    pub(super) fn neighbour_used(&mut self, key: NeighbourKey, now: Instant) {
        let Some(neighbour) = self.neighbours.get(&key).copied() else { return };
        let State::Stale { mac } = neighbour.state else { return };
        if !self.is_confirmed(key, neighbour) {
            self.move_neighbour(key, Neighbour { state: State::Delay { mac }, due: Some(now + DELAY), ..neighbour });
        }
    }

    /// Another station claims a neighbour's address, without the override flag (RFC 4861 7.2.5).
    pub(super) fn doubt_neighbour(&mut self, key: NeighbourKey) {
        if let Some(neighbour) = self.neighbours.get(&key).copied()
            && let State::Known { mac, is_static: false } = neighbour.state
            && self.neighbours.doubts(key.family())
        {
            self.fall_stale(key, Neighbour { state: State::Stale { mac }, ..neighbour });
        }
    }

    pub(super) fn fall_stale(&mut self, key: NeighbourKey, neighbour: Neighbour) {
        let due = self.neighbours.due(key.family(), neighbour.state, neighbour.since);
        self.move_neighbour(key, Neighbour { due, ..neighbour });
    }

    /// Whether workers have heard an answer since the neighbour's state was last updated. If so, it becomes reachable.
    pub(super) fn is_confirmed(&mut self, key: NeighbourKey, mut neighbour: Neighbour) -> bool {
        let Some(mac) = neighbour.state.mac().filter(|_| self.neighbours.reckon(&key, &mut neighbour)) else {
            return false;
        };
        neighbour.state = State::Known { mac, is_static: false };
        neighbour.due = self.neighbours.due(key.family(), neighbour.state, neighbour.since);
        self.move_neighbour(key, neighbour);
        true
    }

    /// Stores the new state of a neighbour. While it is stale, its packets take another edge.
    pub(super) fn move_neighbour(&mut self, key: NeighbourKey, neighbour: Neighbour) {
        let was_stale = self.neighbours.is_stale(&key);
        self.neighbours.put(key, neighbour);
        if was_stale != self.neighbours.is_stale(&key) {
            self.refresh_adjacencies(key.interface, Some(key.address));
        }
    }
}
