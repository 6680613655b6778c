//! The output side of interfaces.
//!
//! [`Output`] (`NAME-output`): the last stop before the device. It completes what the device cannot (checksums,
//! segmentation) and drops packets of an interface that is down. Reads: `flags`, offloads. Writes: `tx_interface`, for
//! features. Next: `NAME-tx`; along the arc `interface-output` where features are enabled.
//!
//! [`Demultiplex`] (`interface-output`): for nodes that pick an interface by number. Reads: `tx_interface`. Next: that
//! interface's output.
//!
//! [`ArcEnd`] (`interface-output-arc-end`): behind the features of an interface that sends. Reads: `tx_interface`.
//! Next: `NAME-tx`.

use super::SharedViews;
use drivers::TxOffloads;
use drivers::offload::{self, OffloadError};
use graph::{
    ArcIndex, Context, CounterSpec, Cursor, EdgeIndex, Expand, Expansion, InterfaceIndex, Lazy, Map, NodeSpec, Row,
    Severity, Snapshot, Vector, edge, flag,
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
        Features => arc "interface-output",
    }
}

/// Of nodes that finish packets.
pub const COUNTERS: &[CounterSpec] = &[
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
    arc: ArcIndex,
    /// The edge to the tx node, as soon as there is one.
    tx: EdgeIndex,
}

impl Output {
    /// `arc`: [`OUTPUT_ARC`].
    pub fn new(index: InterfaceIndex, view: SharedViews, finishes: TxOffloads, arc: ArcIndex) -> Output {
        Output { index, view, finishes, arc, tx: OutputEdge::Down.into() }
    }

    /// The edge to the tx node.
    pub fn set_tx(&mut self, tx: EdgeIndex) {
        self.tx = tx;
    }

    pub fn spec(name: &str) -> NodeSpec {
        NodeSpec { name: format!("{name}-output"), edges: OutputEdge::EDGES, counters: COUNTERS, trace }
    }

    /// The flags of work that this device leaves to the router.
    fn unfinished(&self) -> u32 {
        (if self.finishes.checksum { 0 } else { flag::PARTIAL_CHECKSUM })
            | (if self.finishes.segmentation { 0 } else { flag::SEGMENTED })
    }

    /// A finished packet and its edge: to the device, or along a chain of features.
    #[inline]
    fn onward(&self, mut row: Row, chain: Option<Cursor>) -> (Row, EdgeIndex) {
        let Some(chain) = chain else { return (row, self.tx) };
        row.set_tx_interface(self.index);
        row.begin(chain);
        (row, edge::CONTINUE)
    }

    /// Finishes packets one by one, in order.
    #[cold]
    fn finish(&self, x: &mut Expansion<'_, '_>, vector: &mut Vector, chain: Option<Cursor>) {
        let edges = Finish { malformed: OutputEdge::Malformed.into(), no_buffer: OutputEdge::NoBuffer.into() };
        let todo = |row: &Row, cx: &Context<'_>| {
            row.flags & if is_labelled(cx, row) { flag::OFFLOAD } else { self.unfinished() }
        };
        finish_offloads(x, vector, &edges, todo, |row| self.onward(row, chain));
    }
}

/// The edges of a node that finishes packets, for those that cannot be finished.
pub struct Finish {
    pub malformed: EdgeIndex,
    pub no_buffer: EdgeIndex,
}

/// Does the work that packets' flags ask for, one packet after the other: `todo` selects flags of a packet, and
/// `onward` sends a finished one on. The node has [`COUNTERS`].
pub fn finish_offloads(
    x: &mut Expansion<'_, '_>,
    vector: &mut Vector,
    edges: &Finish,
    todo: impl Fn(&Row, &Context<'_>) -> u32,
    onward: impl Fn(Row) -> (Row, EdgeIndex),
) {
    for i in 0..vector.len() {
        let mut row = vector.row(i);
        vector.set_edge(i, edge::TAKEN);
        let todo = todo(&row, x.cx);
        if todo & flag::SEGMENTED != 0 {
            let mut parts = Vec::new();
            match offload::segment(x.cx.buffers, &row, &mut |part| parts.push(part)) {
                Ok(_) => {
                    x.cx.count(SEGMENTED, 1);
                    for part in parts {
                        let (part, to) = onward(part);
                        x.originate(part, to);
                    }
                    x.consume(row.packet);
                }
                Err(OffloadError::NoBuffer) => x.emit(row, edges.no_buffer),
                Err(_) => x.emit(row, edges.malformed),
            }
            continue;
        }
        if todo & flag::PARTIAL_CHECKSUM != 0 {
            if offload::finish_checksum(x.cx.buffers, &mut row).is_err() {
                x.emit(row, edges.malformed);
                continue;
            }
            x.cx.count(CHECKSUMS, 1);
        }
        let (row, to) = onward(row);
        x.emit(row, to);
    }
}

impl Expand for Output {
    #[inline]
    fn process(&mut self, x: &mut Expansion<'_, '_>, vector: &mut Vector) {
        if !self.view.load(x.cx.round).get(self.index).is_some_and(|view| view.up) {
            return vector.set_edges(OutputEdge::Down.into());
        }
        let chain = x.cx.chain(self.arc, self.index);
        let todo = vector.any_flags() & flag::OFFLOAD;
        if todo != 0 && (todo & self.unfinished() != 0 || (0..vector.len()).any(|i| is_labelled(x.cx, &vector.row(i))))
        {
            return self.finish(x, vector, chain);
        }
        if chain.is_some() {
            vector.lazy_mut(Lazy::TxInterface).fill(self.index.0);
        }
        vector.send_all(chain, self.tx);
    }
}

/// Whether labels precede a packet's network header: no device looks behind labels to complete anything.
pub fn is_labelled(cx: &Context<'_>, row: &Row) -> bool {
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

/// The arc of packets that leave by an interface, complete as its device gets them.
pub const OUTPUT_ARC: &str = "interface-output";
/// The node in which it ends.
pub const OUTPUT_ARC_END: &str = "interface-output-arc-end";

graph::edges! {
    /// Edges to tx nodes follow this.
    pub enum ArcEndEdge {
        /// The packet's interface was deleted while the packet was on its way out. A few at that moment are normal.
        Gone => note "no such interface",
    }
}

/// `interface-output-arc-end`.
pub struct ArcEnd {
    view: SharedViews,
}

impl ArcEnd {
    pub fn new(view: SharedViews) -> ArcEnd {
        ArcEnd { view }
    }

    pub fn spec() -> NodeSpec {
        NodeSpec { name: OUTPUT_ARC_END.into(), edges: ArcEndEdge::EDGES, counters: &[], trace }
    }
}

impl Map for ArcEnd {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let view = self.view.load(cx.round);
        let way = |to: u32| view.get(InterfaceIndex(to)).map_or(ArcEndEdge::Gone.into(), |view| view.tx);
        match vector.one_lazy(Lazy::TxInterface) {
            Some(to) => vector.set_edges(way(to)),
            None => {
                for i in 0..vector.len() {
                    vector.set_edge(i, way(vector.tx_interface(i).0));
                }
            }
        }
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "{}", wire::pretty::Summary::ethernet(snapshot.l2()).indented(2))
}
