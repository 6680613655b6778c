//! `span-input`: copies what an interface receives, as it came.
//!
//! Reads: `l2`, `length`, `rx_interface`, offloads. Writes: nothing of the packet. Next:
//! along the arc `device-input`; copies go to the outputs of the listeners.

use super::mirror::{self, COUNTERS};
use super::{INPUT, Listeners};
use graph::{Expand, Expansion, NodeSpec, PerInterface, Snapshot, Vector, edge};
use router::headers::network_header;
use std::fmt;

pub fn spec() -> NodeSpec {
    NodeSpec { name: INPUT.into(), edges: &[], counters: COUNTERS, trace }
}

pub struct SpanInput {
    listeners: PerInterface<Listeners>,
}

impl SpanInput {
    pub fn new(listeners: PerInterface<Listeners>) -> SpanInput {
        SpanInput { listeners }
    }
}

impl Expand for SpanInput {
    fn process(&mut self, x: &mut Expansion<'_, '_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let mut row = vector.row(i);
            if let Some(listeners) = self.listeners.get(x.cx.round, row.rx_interface) {
                row.l3 = network_header(x.cx, &row);
                mirror::copy(x, &row, &listeners.rx);
            }
        }
        vector.set_edges(edge::CONTINUE);
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  SPAN: mirrored from sw_if_index {}, rx", snapshot.row.rx_interface)
}
