//! `ip4-ttl-floor`: drops packets whose time to live is below the floor of the interface that received them.
//!
//! Reads: `rx_interface`, and the IPv4 header. Writes: nothing. Next: along the arc, or `error-drop`.

use graph::{Context, CounterTable, Map, NodeSpec, PerInterface, Snapshot, Vector, edge};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    pub enum Edge {
        /// The packet would expire within few hops, which the operator does not want to see.
        Low => warn "too few hops left",
    }
}

pub const NODE: &str = "ip4-ttl-floor";

pub fn spec() -> NodeSpec {
    NodeSpec { name: NODE.into(), edges: Edge::EDGES, counters: &[], trace }
}

pub struct TtlFloor {
    floors: PerInterface<u8>,
    low: Arc<CounterTable>,
}

impl TtlFloor {
    pub fn new(floors: PerInterface<u8>, low: Arc<CounterTable>) -> TtlFloor {
        TtlFloor { floors, low }
    }
}

impl Map for TtlFloor {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let row = vector.row(i);
            let floor = self.floors.get(cx.round, row.rx_interface);
            let header = wire::ipv4::Header::new_unchecked(&cx.buffers.bytes(row.packet)[row.l3 as usize..]);
            let is_low = floor.is_some_and(|floor| header.ttl() < *floor);
            if is_low {
                self.low.add(cx.thread, row.rx_interface.0 as usize, 0, 1);
            }
            vector.set_edge(i, if is_low { Edge::Low.into() } else { edge::CONTINUE });
        }
    }
}

fn trace(_: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  time to live against the floor")
}
