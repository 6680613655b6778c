//! `ip4-local`: packets to an address of this router.
//!
//! What this router itself sends to one of its addresses comes here too: a ping of our own
//! address is answered as anybody's.
//!
//! Reads: protocol and fragment bits. Next: `ip4-icmp-input`; for what nobody listens to,
//! `ip4-icmp-error` with the reason.

use crate::icmp::Report;
use graph::{Context, Map, NodeSpec, Vector};
use wire::batch::check;
use wire::icmpv4::unreachable;
use wire::ipv4::{self, Protocol};

graph::edges! {
    pub enum Edge {
        Icmp => next "ip4-icmp-input",
        IcmpError => next "ip4-icmp-error",
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
            } else if protocol == Protocol::ICMP {
                Edge::Icmp
            } else {
                // RFC 1122 3.2.2.1: no such port, or no such protocol.
                let code = match protocol {
                    Protocol::UDP | Protocol::TCP => unreachable::PORT,
                    _ => unreachable::PROTOCOL,
                };
                vector.set_scratch(i, Report::unreachable(code).into());
                Edge::IcmpError
            };
            vector.set_edge(i, to.into());
        }
    }
}
