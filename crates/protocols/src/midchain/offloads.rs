//! `ip4-midchain-offloads`, `ip6-midchain-offloads`: do what the sender of a packet left to its device, before a header
//! hides the packet from all devices.
//!
//! Reads: `flags`, offloads. Next: back to `ip4-midchain` or `ip6-midchain`.

use super::node::Inner;
use graph::{Expand, Expansion, NodeSpec, Snapshot, Vector, flag};
use router::interface::output::{COUNTERS, Finish, finish_offloads};
use std::fmt;

graph::edges! {
    pub enum Edge {
        Midchain => next "ip4-midchain",
        /// The sender asked its virtual NIC for a checksum or a segmentation that does not fit the packet. The guest
        /// or host driver is broken or hostile.
        Malformed => drop "offload request makes no sense",
        /// All packet buffers are in use (`show buffers`). Increase `buffers-per-numa` in startup.conf.
        NoBuffer => drop "no free buffer to segment into",
    }
}

/// The same for IPv6.
pub mod edge6 {
    graph::edges! {
        pub enum Edge like super::Edge {
            Midchain => next "ip6-midchain",
            /// The sender asked its virtual NIC for a checksum or a segmentation that does not fit the packet. The
            /// guest or host driver is broken or hostile.
            Malformed => drop "offload request makes no sense",
            /// All packet buffers are in use (`show buffers`). Increase `buffers-per-numa` in startup.conf.
            NoBuffer => drop "no free buffer to segment into",
        }
    }
}

pub fn spec<L: Inner>() -> NodeSpec {
    NodeSpec { name: L::OFFLOADS.into(), edges: L::OFFLOADS_EDGES, counters: COUNTERS, trace }
}

pub struct Offloads;

impl Expand for Offloads {
    fn process(&mut self, x: &mut Expansion<'_, '_>, vector: &mut Vector) {
        let finish = Finish { malformed: Edge::Malformed.into(), no_buffer: Edge::NoBuffer.into() };
        finish_offloads(x, vector, &finish, |row, _| row.flags & flag::OFFLOAD, |row| (row, Edge::Midchain.into()));
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  {} bytes", snapshot.row.length)
}
