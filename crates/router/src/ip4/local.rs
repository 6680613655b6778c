//! `ip4-local`: packets to an address of this router.
//!
//! What this router itself sends to one of its addresses comes here too: a ping of our own
//! address is answered as anybody's.
//!
//! Reads: protocol and fragment bits. Next: by protocol; what no node here takes goes to `ip4-punt`
//! with the reason in the scratch word.

use super::Unclaimed;
use graph::{Context, Map, NodeSpec, Vector};
use wire::batch::check;
use wire::ipv4::{self, Protocol};

graph::edges! {
    pub enum Edge {
        Icmp => next "ip4-icmp-input",
        Udp => next "ip4-udp-lookup",
        Unclaimed => next "ip4-punt",
        /// A part of a packet to this router itself, such as of a ping longer than the MTU. Send smaller packets.
        Fragment => drop "fragment to this router (no reassembly)",
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-local".into(), edges: Edge::EDGES, counters: &[], trace: crate::headers::trace_ip4 }
}

pub struct Ip4Local;

impl Map for Ip4Local {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let row = vector.row(i);
            let protocol = ipv4::Header::new_unchecked(&cx.buffers.bytes(row.packet)[row.l3 as usize..]).protocol();
            let to = if row.flags & check::FRAGMENT != 0 {
                Edge::Fragment
            } else {
                match protocol {
                    Protocol::ICMP => Edge::Icmp,
                    Protocol::UDP => Edge::Udp,
                    protocol => {
                        let is_tcp = protocol == Protocol::TCP;
                        let reason = if is_tcp { Unclaimed::Segment } else { Unclaimed::Protocol };
                        vector.set_scratch(i, reason.into());
                        Edge::Unclaimed
                    }
                }
            };
            vector.set_edge(i, to.into());
        }
    }
}
