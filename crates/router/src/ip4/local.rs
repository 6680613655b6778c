//! `ip4-local`: packets to an address of this router.
//!
//! Packets that this router sends to its own addresses come here too. So a ping of our own address is answered like any
//! other.
//!
//! Packets from another host are dropped when their source is one of our addresses, or has no route back.
//!
//! Reads: protocol and fragment bits. Writes: for UDP, the length of the IPv4 header into scratch. Next:
//! fragments to reassembly, from where the whole datagram returns here; other packets by protocol; packets that no node
//! here takes to `ip4-punt`, with the reason in scratch.

use crate::headers::PayloadAt;
use crate::ip::source::{Fault, Sources};
use crate::punt::Unclaimed;
use graph::{Context, Map, NodeSpec, Vector};
use tables::Lookup4;
use wire::batch::check;
use wire::ipv4::{self, Protocol};

graph::edges! {
    pub enum Edge {
        Icmp => next "ip4-icmp-input",
        Udp => next "ip4-udp-lookup",
        Unclaimed => next "ip4-punt",
        /// A packet to this router came from outside with one of the router's own addresses as its source. The sender
        /// forges addresses, or another station has an address of this router (RFC 1812 5.3.8).
        Spoofed => warn "ip4 spoofed local-address packet drops",
        /// A packet to this router came from a source to which the router has no route, so it could not be answered.
        /// The source is forged, or a route back is missing (`show ip fib`).
        SourceMiss => warn "ip4 source lookup miss",
        Fragment => next "ip4-local-full-reassembly",
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-local".into(), edges: Edge::EDGES, counters: &[], trace: crate::headers::trace_ip4 }
}

pub struct Ip4Local {
    sources: Sources<Lookup4>,
}

impl Ip4Local {
    pub fn new(sources: Sources<Lookup4>) -> Ip4Local {
        Ip4Local { sources }
    }
}

impl Map for Ip4Local {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let faults = self.sources.judge(cx, vector);
        for (i, fault) in faults[..vector.len()].iter().enumerate() {
            let row = vector.row(i);
            let header = ipv4::Header::new_unchecked(&cx.buffers.bytes(row.packet)[row.l3 as usize..]);
            let (protocol, to_all) = (header.protocol(), header.dst().is_broadcast());
            let length = header.header_len() as u32;
            let to = if *fault == Some(Fault::Ours) {
                Edge::Spoofed
            } else if *fault == Some(Fault::Unreachable) && !to_all {
                // The sender of a broadcast may have no address yet (RFC 2131 4.1).
                Edge::SourceMiss
            } else if row.flags & check::FRAGMENT != 0 {
                Edge::Fragment
            } else {
                match protocol {
                    Protocol::ICMP => Edge::Icmp,
                    Protocol::UDP => {
                        vector.leave(i, PayloadAt(length));
                        Edge::Udp
                    }
                    protocol => {
                        let reason = match protocol {
                            Protocol::TCP => Unclaimed::Segment { at: length },
                            _ => Unclaimed::Protocol { named_at: 0 },
                        };
                        vector.leave(i, reason);
                        Edge::Unclaimed
                    }
                }
            };
            vector.set_edge(i, to.into());
        }
    }
}
