//! `pg-stall`: holds its worker up. For seeing what the rest of the router does meanwhile.
//!
//! Reads: nothing. Writes: nothing. Next: packets end here.

use graph::{Context, Map, NodeSpec, Snapshot, Vector};
use std::fmt;
use std::time::Duration;

graph::edges! {
    pub enum Edge {
        /// Packets of a stream whose `node` is `pg-stall`. They end after they have stalled their worker for the
        /// configured time (`packet-generator stall`).
        Done => end "stalled as they were told to",
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "pg-stall".into(), edges: Edge::EDGES, counters: &[], trace }
}

#[derive(Default)]
pub struct Stall {
    /// For each vector.
    pub time: Duration,
}

impl Map for Stall {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) {
        std::thread::sleep(self.time);
        vector.set_edges(Edge::Done.into());
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "{}", wire::pretty::Summary::ethernet(snapshot.l2()).indented(2))
}
