//! `span-input`: copies what an interface receives, as it came.
//!
//! Reads: `l2`, `length`, `rx_interface`, offloads. Writes: nothing of the packet. Next:
//! along the arc `device-input`; copies go to the outputs of the listeners.

use super::mirror::{self, COUNTERS};
use super::{INPUT, Listeners};
use graph::{Expand, Expansion, NodeSpec, PerInterface, Row, Snapshot, Vector, edge, flag};
use std::fmt;
use wire::ethernet::{EtherType, HEADER_LEN};

/// Bytes of a VLAN tag, and how many are looked past.
const TAG: u16 = 4;
const MAX_TAGS: u16 = 2;

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
                row.l3 = network_header(x, &row);
                mirror::copy(x, &row, &listeners.rx);
            }
        }
        vector.set_edges(edge::CONTINUE);
    }
}

/// Where the network header is, from which what is left to do is counted.
fn network_header(x: &Expansion<'_, '_>, row: &Row) -> u16 {
    let first = row.l2 + HEADER_LEN as u16;
    if row.flags & flag::OFFLOAD == 0 {
        return first;
    }
    let bytes = x.cx.buffers.bytes(row.packet);
    let is_tag = |at: u16| EtherType(u16::from_be_bytes([bytes[at as usize - 2], bytes[at as usize - 1]])).is_tag();
    let tags = (0..MAX_TAGS).take_while(|tags| is_tag(first + tags * TAG)).count() as u16;
    first + tags * TAG
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  SPAN: mirrored from sw_if_index {}, rx", snapshot.row.rx_interface)
}
