//! `span-output`: copies what an interface sends, as it goes to the device.
//!
//! Reads: `tx_interface`, offloads. Writes: nothing of the packet. Next:
//! the interface's tx node; copies go to the outputs of the listeners.

use super::mirror::{self, COUNTERS};
use crate::interface::SharedViews;
use graph::{Expand, Expansion, NodeSpec, Snapshot, Vector};
use std::fmt;

graph::edges! {
    /// Edges to tx nodes and to listeners' outputs follow this.
    pub enum Edge {
        /// The packet's interface was deleted while the packet was on its way out. A few at that moment are normal.
        Gone => note "no such interface",
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "span-output".into(), edges: Edge::EDGES, counters: COUNTERS, trace }
}

pub struct SpanOutput {
    view: SharedViews,
}

impl SpanOutput {
    pub fn new(view: SharedViews) -> SpanOutput {
        SpanOutput { view }
    }
}

impl Expand for SpanOutput {
    fn process(&mut self, x: &mut Expansion<'_, '_>, vector: &mut Vector) {
        let table = self.view.load(x.cx.round);
        for i in 0..vector.len() {
            let row = vector.row(i);
            let edge = match table.get(row.tx_interface()) {
                Some(view) => {
                    mirror::copy(x, &row, &view.span.tx);
                    view.span.wire
                }
                None => Edge::Gone.into(),
            };
            vector.set_edge(i, edge);
        }
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  SPAN: mirrored from sw_if_index {}, tx", snapshot.row.tx_interface())
}
