//! `linux-cp-xc`: what Linux sends by its side of a pair leaves by the router's interface, as it is.
//!
//! Linux has looked up the route and resolved the next hop already.
//!
//! Reads: `rx_interface`. Writes: `tx_interface`; of packets whose checksum is not finished, `l3`. Next:
//! `interface-output`; along the arc with frames of an interface that is no pair's.

use crate::state::Way;
use graph::{CounterTable, Map, NodeSpec, PerInterface, Snapshot, Vector, edge, flag};
use router::headers::network_header;
use std::fmt;
use std::sync::Arc;

pub const NODE: &str = "linux-cp-xc";

graph::edges! {
    pub enum Edge {
        Out => next "interface-output",
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: NODE.into(), edges: Edge::EDGES, counters: &[], trace }
}

pub struct FromHost {
    ways: PerInterface<Way>,
    /// By the router's interface.
    taken: Arc<CounterTable>,
}

impl FromHost {
    pub fn new(ways: PerInterface<Way>, taken: Arc<CounterTable>) -> FromHost {
        FromHost { ways, taken }
    }
}

impl Map for FromHost {
    fn process(&mut self, cx: &mut graph::Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let mut row = vector.row(i);
            let Some(way) = self.ways.get(cx.round, row.rx_interface) else {
                vector.set_edge(i, edge::CONTINUE);
                continue;
            };
            self.taken.add(cx.thread, way.to.0 as usize, 0, 1);
            self.taken.add(cx.thread, way.to.0 as usize, 1, row.length.into());
            if row.flags & flag::OFFLOAD != 0 {
                row.l3 = network_header(cx, &row);
            }
            row.set_tx_interface(way.to);
            vector.set_row(i, row);
            vector.set_edge(i, Edge::Out.into());
        }
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  lcp-xc: from Linux to sw_if_index {}", snapshot.row.tx_interface())
}
