//! What operators may set of reassembly, for each family.

use serde::Serialize;
use wire::Family;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// How long the fragments of a datagram may take, in milliseconds.
    pub timeout: u32,
    /// Datagrams in progress on a worker.
    pub max_reassemblies: u32,
    /// Fragments of one datagram.
    pub max_reassembly_length: u32,
    /// Datagrams in progress from one source.
    pub max_per_source: u32,
    /// Buffers that a worker's datagrams take; a quarter of all buffers at most.
    pub max_buffers: u32,
    /// How often datagrams are looked over for those whose time is up, in milliseconds.
    pub expire_walk_interval: u32,
}

impl Limits {
    /// As at start.
    pub fn of(family: Family) -> Limits {
        Limits {
            timeout: match family {
                // As Linux (ipfrag_time).
                Family::Ip4 => 30_000,
                // RFC 8200 section 4.5.
                Family::Ip6 => 60_000,
            },
            // As VPP.
            max_reassemblies: 1024,
            // Of the longest datagram over the least MTU of IPv4, 68 (RFC 791): 48 bytes each.
            max_reassembly_length: 1366,
            max_per_source: 64,
            max_buffers: 2048,
            expire_walk_interval: 1000,
        }
    }
}
