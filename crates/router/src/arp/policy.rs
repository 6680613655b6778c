//! What operators set for workers: rates, whom to believe, for whom to answer.

use rcu::Published;
use std::net::Ipv4Addr;
use std::sync::Arc;

/// Most ranges of proxied addresses.
pub const MAX_RANGES: usize = 1024;

/// Addresses that are answered for on interfaces with proxy ARP, both ends included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Range {
    pub start: Ipv4Addr,
    pub end: Ipv4Addr,
}

/// How much ARP may do, a second on each interface and by each worker.
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
    pub rates: Rates,
    /// Announcements of unknown neighbours make them known.
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
