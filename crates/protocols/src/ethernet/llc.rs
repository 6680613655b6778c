//! `llc-input`: frames with an IEEE 802.3 length, classified by their IEEE 802.2 (LLC) header.
//!
//! It ends the arc `l2-input`, by which frames of unknown ethertypes come, too.
//!
//! Reads: `l2`, `l3` (at the LLC header), `length`. Writes: nothing. Next: `snap-input`; all other frames are punted,
//! counted by interface and by protocol. No node takes punted frames yet.

use super::head;
use graph::{Context, CounterTable, Map, NodeSpec, Row, Snapshot, Vector};
use std::fmt;
use std::sync::Arc;
use wire::ethernet::EtherType;

graph::edges! {
    pub enum Edge {
        Snap => next "snap-input",
        /// The length field of the frame says that fewer bytes follow than the three of an LLC header (IEEE 802.2,
        /// 3.2). The sender is broken.
        Truncated => warn "llc header truncated",
        /// The frame carries a switch's spanning tree protocol (IEEE 802.1D 9.2), which this router does not process.
        /// Normal on a port of a switch. To stop these frames, turn spanning tree off on the switch's port.
        SpanningTree => note "punted: llc spanning tree (sap 0x42)",
        /// The frame carries IS-IS or another protocol of the OSI network layer (ISO/IEC TR 9577). This router does
        /// not process it yet.
        Osi => note "punted: llc osi network layer (sap 0xfe)",
        /// The frame carries NetBIOS over LLC from an old host. This router does not process it.
        Netbios => note "punted: llc netbios (sap 0xf0)",
        /// The frame carries IPX over LLC from an old host. This router does not process it.
        Ipx => note "punted: llc ipx (sap 0xe0)",
        /// The frame is a test or an exchange of identities between link layers (IEEE 802.2, 6.6 and 6.7). This
        /// router does not answer it.
        NullSap => note "punted: llc null sap (0x00)",
        /// The LLC frame is for a service access point that this router does not know. `show trace` or a capture
        /// shows the frame.
        Unknown => note "punted: unknown llc ssap/dsap",
        /// The LLC frame claims to carry SNAP (SAP 0xaa), but is not unnumbered information (RFC 1042). This router
        /// does not support link-layer connections.
        Control => note "punted: llc control != 0x3",
        /// The frame carries a protocol that this router does not process, such as LLDP, and no feature of its
        /// interface took it. Normal.
        UnknownType => note "unknown ethernet type",
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "llc-input".into(), edges: Edge::EDGES, counters: &[], trace }
}

pub struct LlcInput {
    /// Punted packets, by receiving interface.
    punts: Arc<CounterTable>,
}

impl LlcInput {
    pub fn new(punts: Arc<CounterTable>) -> LlcInput {
        LlcInput { punts }
    }
}

const SNAP: u8 = 0xaa;
/// Unnumbered information.
const UI: u8 = 0x03;

fn kind(header: &[u8]) -> Edge {
    let &[dsap, ssap, control, ..] = header else { return Edge::Truncated };
    // The lowest bit of the source distinguishes commands from responses.
    let ssap = ssap & !1;
    match (dsap, ssap) {
        (SNAP, SNAP) if control == UI => Edge::Snap,
        (SNAP, SNAP) => Edge::Control,
        (0x42, 0x42) => Edge::SpanningTree,
        (0xfe, 0xfe) => Edge::Osi,
        (0xf0, 0xf0) => Edge::Netbios,
        (0xe0, 0xe0) => Edge::Ipx,
        (0x00, _) => Edge::NullSap,
        _ => Edge::Unknown,
    }
}

/// Whether the frame has an ethertype in place of a length (IEEE 802.3, 3.2.6).
fn has_ethertype(cx: &Context<'_>, row: &Row) -> bool {
    let bytes = cx.buffers.bytes(row.packet);
    let word = |at: usize| EtherType(u16::from_be_bytes([bytes[at], bytes[at + 1]]));
    (row.l3 as usize).checked_sub(2).is_some_and(|at| !word(at).is_length())
}

impl Map for LlcInput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let row = vector.row(i);
            let to = if has_ethertype(cx, &row) { Edge::UnknownType } else { kind(head(cx, &row)) };
            if !matches!(to, Edge::Snap | Edge::Truncated | Edge::UnknownType) {
                self.punts.add(cx.thread, row.rx_interface.0 as usize, 0, 1);
            }
            vector.set_edge(i, to.into());
        }
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    let bytes = snapshot.l3();
    match bytes {
        [dsap, ssap, control, ..] => writeln!(f, "  LLC: dsap 0x{dsap:02x} ssap 0x{ssap:02x} control 0x{control:02x}"),
        _ => writeln!(f, "  LLC: truncated"),
    }
}
