//! `span-output`: copies what an interface sends, as it goes to the device.
//!
//! Reads: `tx_interface`, offloads. Writes: nothing of the packet. Next: along the arc `interface-output`; copies go to
//! the outputs of the listeners.

use super::MIRRORED;
use super::mirror::{self, COUNTERS};
use crate::interface::SharedViews;
use graph::{Expand, Expansion, NodeSpec, Snapshot, Vector, edge};
use std::fmt;

pub fn spec() -> NodeSpec {
    NodeSpec { name: "span-output".into(), edges: &[], counters: COUNTERS, trace }
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
            if let Some(view) = table.get(row.tx_interface())
                && row.flags & MIRRORED == 0
            {
                mirror::copy(x, &row, &view.span.tx);
            }
        }
        vector.set_edges(edge::CONTINUE);
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  SPAN: mirrored from sw_if_index {}, tx", snapshot.row.tx_interface())
}
