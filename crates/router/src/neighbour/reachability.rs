//! Whether a known neighbour is still there (Neighbor Unreachability Detection, RFC 4861 7.3).
//!
//! Who answered is taken to be reachable for a while; then it is stale: the next packet to it starts a delay, in
//! which it may be confirmed by an answer to something else, and at whose end it is asked. Stale neighbours that
//! nobody sends to are asked when they are old ([`Limits::age`]). IPv4's are not doubted before that.

use super::NeighbourKey;
use super::known::{Limits, Neighbour, Neighbours, State};
use crate::{Router, random};
use std::time::{Duration, Instant};
use wire::Family;

/// From the first packet to a stale neighbour until it is asked (RFC 4861 10, DELAY_FIRST_PROBE_TIME).
pub const DELAY: Duration = Duration::from_secs(5);
/// Most seconds for which an answer may be trusted (RFC 4861 6.2.1, AdvReachableTime).
pub const MAX_REACHABLE: u32 = 3600;

impl Neighbours {
    /// Whether known neighbours of a family are doubted after some time.
    pub(super) fn doubts(&self, family: Family) -> bool {
        self.limits(family).reachable > 0
    }

    /// When something is to be done about a neighbour that is in this state since it was heard.
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

/// Between half and one and a half of what is set, so that those who answered together are not asked together (RFC 4861
/// 6.3.2).
fn reachable_time(base: Duration) -> Duration {
    base / 2 + random::time_up_to(base)
}

impl Router {
    /// Packets are sent to a neighbour that was stale when a worker looked.
    pub(super) fn neighbour_used(&mut self, key: NeighbourKey, now: Instant) {
        let Some(neighbour) = self.neighbours.get(&key).copied() else { return };
        let State::Stale { mac } = neighbour.state else { return };
        if !self.is_confirmed(key, neighbour) {
            self.move_neighbour(key, Neighbour { state: State::Delay { mac }, due: Some(now + DELAY), ..neighbour });
        }
    }

    /// Another station said that it has a neighbour's address, without claiming to be the newer one (RFC 4861 7.2.5).
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

    /// Whether workers have heard an answer since a neighbour was looked at last. Then it is reachable.
    pub(super) fn is_confirmed(&mut self, key: NeighbourKey, mut neighbour: Neighbour) -> bool {
        let Some(mac) = neighbour.state.mac().filter(|_| self.neighbours.reckon(&key, &mut neighbour)) else {
            return false;
        };
        neighbour.state = State::Known { mac, is_static: false };
        neighbour.due = self.neighbours.due(key.family(), neighbour.state, neighbour.since);
        self.move_neighbour(key, neighbour);
        true
    }

    /// Puts down what is known of a neighbour from now on. Its packets go by another way while it is stale.
    pub(super) fn move_neighbour(&mut self, key: NeighbourKey, neighbour: Neighbour) {
        let was_stale = self.neighbours.is_stale(&key);
        self.neighbours.put(key, neighbour);
        if was_stale != self.neighbours.is_stale(&key) {
            self.refresh_adjacencies(key.interface, Some(key.address));
        }
    }
}
