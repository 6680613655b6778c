//! `span-output`: copies what an interface sends, as it goes to the device.
//!
//! Reads: `tx_interface`, offloads. Writes: nothing of the packet. Next: along the arc `interface-output`; copies go to
//! the outputs of the listeners.

use super::mirror::{self, COUNTERS};
use super::{Listeners, MIRRORED, OUTPUT};
use graph::{Expand, Expansion, NodeSpec, PerInterface, Snapshot, Vector, edge};
use std::fmt;

pub fn spec() -> NodeSpec {
    NodeSpec { name: OUTPUT.into(), edges: &[], counters: COUNTERS, trace }
}

pub struct SpanOutput {
    listeners: PerInterface<Listeners>,
}

impl SpanOutput {
    pub fn new(listeners: PerInterface<Listeners>) -> SpanOutput {
        SpanOutput { listeners }
    }
}

impl Expand for SpanOutput {
    fn process(&mut self, x: &mut Expansion<'_, '_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let row = vector.row(i);
            if let Some(listeners) = self.listeners.get(x.cx.round, row.tx_interface())
                && row.flags & MIRRORED == 0
            {
                mirror::copy(x, &row, &listeners.tx);
            }
        }
        vector.set_edges(edge::CONTINUE);
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  SPAN: mirrored from sw_if_index {}, tx", snapshot.row.tx_interface())
}
