//! What operators set for workers: rates, whom to believe, for whom to answer.

use crate::by_family::ByFamily;
use crate::{Error, Router};
use rcu::Published;
use std::net::Ipv4Addr;
use std::sync::Arc;
use wire::Family;

/// Bound of each rate.
pub const MAX_RATE: u32 = 1_000_000;
/// Most ranges of proxied addresses.
pub const MAX_RANGES: usize = 1024;

/// Addresses that are answered for on interfaces with proxy ARP, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    pub start: Ipv4Addr,
    pub end: Ipv4Addr,
}

/// How much ARP or Neighbor Discovery may do, a second on each interface and by each worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rates {
    /// Neighbours that packets begin to wait for.
    pub requests: u32,
    /// Answers.
    pub replies: u32,
    /// What was heard and is news to control.
    pub learning: u32,
}

impl Default for Rates {
    fn default() -> Rates {
        Rates { requests: 1000, replies: 2000, learning: 1000 }
    }
}

/// All of it, as it is published.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policy {
    pub rates: ByFamily<Rates>,
    /// Announcements by ARP of unknown neighbours make them known.
    pub accepts_unknown: bool,
    /// Sorted by start.
    pub proxied: Vec<Range>,
}

impl Policy {
    pub fn is_proxied(&self, address: Ipv4Addr) -> bool {
        self.proxied.iter().any(|range| (range.start..=range.end).contains(&address))
    }
}

pub type SharedPolicy = Arc<Published<Policy>>;

impl Router {
    fn change_policy(&mut self, change: impl FnOnce(&mut Policy)) {
        change(&mut self.neighbours.policy);
        self.neighbours.shared_policy.publish(self.neighbours.policy.clone());
    }

    /// Sets how much ARP or Neighbor Discovery may do.
    pub fn set_neighbour_rates(&mut self, family: Family, rates: Rates) {
        self.change_policy(|policy| policy.rates[family] = rates);
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
            return Err(RangeError::Empty(range.start, range.end).into());
        }
        let proxied = &self.neighbours.policy.proxied;
        match proxied.binary_search(&range) {
            Ok(_) => Err(RangeError::There(range.start, range.end).into()),
            Err(_) if proxied.len() >= MAX_RANGES => Err(RangeError::TooMany.into()),
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
            return Err(RangeError::NotThere(range.start, range.end).into());
        };
        self.change_policy(|policy| {
            policy.proxied.remove(at);
        });
        Ok(())
    }
}

/// Why addresses are not answered for as wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RangeError {
    #[error("{0} to {1} is no range of addresses: it ends before it starts")]
    Empty(Ipv4Addr, Ipv4Addr),
    #[error("{0} to {1} is there already")]
    There(Ipv4Addr, Ipv4Addr),
    #[error("no such range: {0} to {1} (show arp proxy lists them)")]
    NotThere(Ipv4Addr, Ipv4Addr),
    #[error("too many ranges (at most {max})", max = MAX_RANGES)]
    TooMany,
}

crate::codes! { RangeError {
    Empty => "proxy-arp-empty",
    There => "proxy-arp-there",
    NotThere => "proxy-arp-not-there",
    TooMany => "proxy-arp-too-many",
} }
