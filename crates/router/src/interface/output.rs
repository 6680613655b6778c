//! The output side of interfaces.
//!
//! [`Output`] (`NAME-output`): the last stop before the device. It completes what the device cannot (checksums,
//! segmentation) and drops packets of an interface that is down. Reads: `flags`, offloads. Writes: the interface into
//! `tx_interface` for `span-output`. Next: `NAME-tx`, by way of `span-output` when the interface is mirrored.
//!
//! [`Demultiplex`] (`interface-output`): for nodes that pick an interface by number. Reads: `tx_interface`. Next: that
//! interface's output.

use super::SharedViews;
use crate::span::MIRRORED;
use drivers::TxOffloads;
use drivers::offload::{self, OffloadError};
use graph::{
    Context, CounterSpec, EdgeIndex, Expand, Expansion, InterfaceIndex, Map, NodeSpec, Row, Severity, Snapshot, Vector,
    edge, flag,
};
use std::fmt;
use wire::ethernet::EtherType;

graph::edges! {
    pub enum OutputEdge {
        /// Packets for an interface that is administratively down. They were on their way when it went down, or are
        /// copies for a SPAN destination that is down. Set it up with `set interface state NAME up`.
        Down => warn "interface is down",
        /// The sender asked its virtual NIC for a checksum or a segmentation that does not fit the packet. The guest
        /// or host driver is broken or hostile.
        Malformed => drop "offload request makes no sense",
        /// All packet buffers are in use (`show buffers`). Increase `buffers-per-numa` in startup.conf.
        NoBuffer => drop "no free buffer to segment into",
        Span => next "span-output",
    }
}

const COUNTERS: &[CounterSpec] = &[
    CounterSpec(
        "checksums finished",
        Severity::Info,
        "The router computed a checksum that the sender had left to its NIC, because the device does not compute it. \
         This costs time, but is harmless.",
    ),
    CounterSpec(
        "packets segmented",
        Severity::Info,
        "The router segmented a packet that was longer than the link allows and that the sender had left to its NIC \
         to segment. This costs time, but is harmless.",
    ),
];
const CHECKSUMS: usize = 0;
const SEGMENTED: usize = 1;

/// `NAME-output` of one interface.
pub struct Output {
    index: InterfaceIndex,
    view: SharedViews,
    finishes: TxOffloads,
    /// The edge to the tx node.
    tx: EdgeIndex,
}

impl Output {
    pub fn new(index: InterfaceIndex, view: SharedViews, finishes: TxOffloads, tx: EdgeIndex) -> Output {
        Output { index, view, finishes, tx }
    }

    pub fn spec(name: &str) -> NodeSpec {
        NodeSpec { name: format!("{name}-output"), edges: OutputEdge::EDGES, counters: COUNTERS, trace }
    }

    /// The flags of work that this device leaves to the router.
    fn unfinished(&self) -> u32 {
        (if self.finishes.checksum { 0 } else { flag::PARTIAL_CHECKSUM })
            | (if self.finishes.segmentation { 0 } else { flag::SEGMENTED })
    }

    /// A finished packet and its edge: to the device, or to `span-output` when the interface is mirrored.
    #[inline]
    fn onward(&self, row: Row, mirrored: bool) -> (Row, EdgeIndex) {
        if !mirrored || row.flags & MIRRORED != 0 {
            return (row, self.tx);
        }
        let mut row = row;
        row.set_tx_interface(self.index);
        (row, OutputEdge::Span.into())
    }

    /// Sends a vector on when the interface is mirrored.
    #[cold]
    fn mirror(&self, vector: &mut Vector) {
        for i in 0..vector.len() {
            let (row, to) = self.onward(vector.row(i), true);
            vector.set_row(i, row);
            vector.set_edge(i, to);
        }
    }

    /// Finishes packets one by one, in order.
    #[cold]
    fn finish(&self, x: &mut Expansion<'_, '_>, vector: &mut Vector, mirrored: bool) {
        for i in 0..vector.len() {
            let mut row = vector.row(i);
            vector.set_edge(i, edge::TAKEN);
            let todo = row.flags & if is_labelled(x.cx, &row) { flag::OFFLOAD } else { self.unfinished() };
            if todo & flag::SEGMENTED != 0 {
                let mut parts = Vec::new();
                match offload::segment(x.cx.buffers, &row, &mut |part| parts.push(part)) {
                    Ok(_) => {
                        x.cx.count(SEGMENTED, 1);
                        for part in parts {
                            let (part, to) = self.onward(part, mirrored);
                            x.originate(part, to);
                        }
                        x.consume(row.packet);
                    }
                    Err(OffloadError::NoBuffer) => x.emit(row, OutputEdge::NoBuffer.into()),
                    Err(_) => x.emit(row, OutputEdge::Malformed.into()),
                }
                continue;
            }
            if todo & flag::PARTIAL_CHECKSUM != 0 {
                if offload::finish_checksum(x.cx.buffers, &mut row).is_err() {
                    x.emit(row, OutputEdge::Malformed.into());
                    continue;
                }
                x.cx.count(CHECKSUMS, 1);
            }
            let (row, to) = self.onward(row, mirrored);
            x.emit(row, to);
        }
    }
}

impl Expand for Output {
    #[inline]
    fn process(&mut self, x: &mut Expansion<'_, '_>, vector: &mut Vector) {
        let Some(view) = self.view.load(x.cx.round).get(self.index).filter(|view| view.up) else {
            return vector.set_edges(OutputEdge::Down.into());
        };
        let mirrored = !view.span.tx.is_empty();
        let todo = vector.any_flags() & flag::OFFLOAD;
        if todo != 0 && (todo & self.unfinished() != 0 || (0..vector.len()).any(|i| is_labelled(x.cx, &vector.row(i))))
        {
            return self.finish(x, vector, mirrored);
        }
        if mirrored {
            return self.mirror(vector);
        }
        vector.set_edges(self.tx);
    }
}

/// Whether labels precede a packet's network header: no device looks behind labels to complete anything.
pub(crate) fn is_labelled(cx: &Context<'_>, row: &Row) -> bool {
    let header = &cx.buffers.bytes(row.packet)[row.l2 as usize..];
    let types = [12, 16, 20].map(|at| EtherType(u16::from_be_bytes([header[at], header[at + 1]])));
    types.into_iter().find(|ethertype| !ethertype.is_tag()) == Some(EtherType::MPLS)
}

graph::edges! {
    pub enum DemultiplexEdge {
        /// A packet that this router made was for an interface that was deleted in the meantime. A few at that moment
        /// are normal.
        Gone => note "no such interface",
    }
}

/// `interface-output`.
pub struct Demultiplex {
    view: SharedViews,
}

impl Demultiplex {
    pub fn new(view: SharedViews) -> Demultiplex {
        Demultiplex { view }
    }

    pub fn spec() -> NodeSpec {
        NodeSpec { name: "interface-output".into(), edges: DemultiplexEdge::EDGES, counters: &[], trace }
    }
}

impl Map for Demultiplex {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let view = self.view.load(cx.round);
        for i in 0..vector.len() {
            let interface = vector.tx_interface(i);
            let to = view.get(interface).map_or(DemultiplexEdge::Gone.into(), |view| view.output);
            vector.set_edge(i, to);
        }
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "{}", wire::pretty::Summary::ethernet(snapshot.l2()).indented(2))
}
