//! `ip4-local`: packets to an address of this router.
//!
//! Packets that this router sends to its own addresses come here too. So a ping of our own address is answered like any
//! other.
//!
//! Packets from another host are dropped when their source is one of our addresses, or has no route back.
//!
//! Reads: protocol and fragment bits. Writes: for UDP, the length of the IPv4 header into scratch. Next:
//! fragments to reassembly, from where the whole datagram returns here; other packets by protocol; packets that no node
//! here takes to `ip4-punt`, with the reason in scratch. Where features are enabled on the arc `ip4-local`, packets
//! pass these first, and `ip4-local-end-of-arc` sends them on by protocol.

use graph::{ArcIndex, Context, Map, NodeSpec, Vector};
use router::headers::PayloadAt;
pub use router::ip::source::{Fault, Sources};
pub use router::reply::unclaimed::Unclaimed;
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
        Features => arc "ip4-local",
    }
}

/// The name of the node behind the features of the arc.
pub const END_OF_ARC: &str = "ip4-local-end-of-arc";

mod end {
    graph::edges! {
        pub enum Edge {
            Icmp => next "ip4-icmp-input",
            Udp => next "ip4-udp-lookup",
            Unclaimed => next "ip4-punt",
        }
    }
}

const _: () = assert!(
    Edge::Icmp as u16 == end::Edge::Icmp as u16
        && Edge::Udp as u16 == end::Edge::Udp as u16
        && Edge::Unclaimed as u16 == end::Edge::Unclaimed as u16
);

pub fn end_spec() -> NodeSpec {
    NodeSpec { name: END_OF_ARC.into(), edges: end::Edge::EDGES, counters: &[], trace: router::headers::trace_ip4 }
}

/// `ip4-local-end-of-arc`.
pub struct EndOfArc;

impl Map for EndOfArc {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let to = deliver(cx, vector, i);
            vector.set_edge(i, to.into());
        }
    }
}

/// Where a whole packet goes, by its protocol.
fn deliver(cx: &Context<'_>, vector: &mut Vector, i: usize) -> Edge {
    let row = vector.row(i);
    let header = ipv4::Header::new_unchecked(&cx.buffers.bytes(row.packet)[row.l3 as usize..]);
    let length = header.header_len() as u32;
    let reason = match header.protocol() {
        Protocol::ICMP => return Edge::Icmp,
        Protocol::UDP => {
            vector.leave(i, PayloadAt(length));
            return Edge::Udp;
        }
        Protocol::TCP => Unclaimed::Segment { at: length },
        _ => Unclaimed::Protocol { named_at: 0 },
    };
    vector.leave(i, reason);
    Edge::Unclaimed
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-local".into(), edges: Edge::EDGES, counters: &[], trace: router::headers::trace_ip4 }
}

pub struct Ip4Local {
    sources: Sources<Lookup4>,
    arc: ArcIndex,
}

impl Ip4Local {
    pub fn new(sources: Sources<Lookup4>, arc: ArcIndex) -> Ip4Local {
        Ip4Local { sources, arc }
    }
}

impl Map for Ip4Local {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let faults = self.sources.judge(cx, vector);
        for (i, fault) in faults[..vector.len()].iter().enumerate() {
            let row = vector.row(i);
            let header = ipv4::Header::new_unchecked(&cx.buffers.bytes(row.packet)[row.l3 as usize..]);
            // Groups come here only where somebody is a member of all.
            let to_all = header.dst().is_broadcast() || header.dst().is_multicast();
            let to = if *fault == Some(Fault::Ours) {
                Edge::Spoofed
            } else if *fault == Some(Fault::Unreachable) && !to_all {
                // The sender of a broadcast may have no address yet (RFC 2131 4.1).
                Edge::SourceMiss
            } else if row.flags & check::FRAGMENT != 0 {
                Edge::Fragment
            } else if let Some(chain) = cx.chain(self.arc, row.rx_interface) {
                vector.begin_one(i, chain);
                continue;
            } else {
                deliver(cx, vector, i)
            };
            vector.set_edge(i, to.into());
        }
    }
}
