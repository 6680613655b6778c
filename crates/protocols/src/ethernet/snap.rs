//! `snap-input`: LLC frames, classified by an organization's protocol number (IEEE 802, 9.5; RFC 1042).
//!
//! Reads: `l2`, `l3` (at the LLC header), `length`. Writes: nothing. Next: none; every frame is punted, counted by
//! interface and by organization. No node takes punted frames yet.

use super::head;
use graph::{Context, CounterTable, Map, NodeSpec, Snapshot, Vector};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    pub enum Edge {
        /// The length field of the frame says that fewer bytes follow than the eight of the LLC and SNAP headers (RFC
        /// 1042). The sender is broken.
        Truncated => warn "snap header truncated",
        /// The frame carries an EtherType in SNAP (RFC 1042), such as IP from hosts that do not use Ethernet II. This
        /// router does not process it. Set such hosts to Ethernet II (RFC 1122 2.3.3).
        EtherType => note "punted: snap ethertype (oui 00:00:00)",
        /// The frame carries CDP, VTP, PVST+, UDLD or another Cisco protocol, which this router does not process.
        /// Normal next to Cisco devices.
        Cisco => note "punted: snap cisco (oui 00:00:0c)",
        /// The frame carries AppleTalk from an old host. This router does not process it.
        Apple => note "punted: snap appletalk (oui 08:00:07)",
        /// The frame carries a protocol of an organization that this router does not know. `show trace` or a capture
        /// shows the frame.
        Unknown => note "punted: unknown oui/snap protocol",
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "snap-input".into(), edges: Edge::EDGES, counters: &[], trace }
}

pub struct SnapInput {
    /// Punted packets, by receiving interface.
    punts: Arc<CounterTable>,
}

impl SnapInput {
    pub fn new(punts: Arc<CounterTable>) -> SnapInput {
        SnapInput { punts }
    }
}

fn kind(header: &[u8]) -> Edge {
    let &[_, _, _, a, b, c, _, _, ..] = header else { return Edge::Truncated };
    match [a, b, c] {
        [0, 0, 0] => Edge::EtherType,
        [0, 0, 0x0c] => Edge::Cisco,
        [0x08, 0, 0x07] => Edge::Apple,
        _ => Edge::Unknown,
    }
}

impl Map for SnapInput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let row = vector.row(i);
            let to = kind(head(cx, &row));
            if to != Edge::Truncated {
                self.punts.add(cx.thread, row.rx_interface.0 as usize, 0, 1);
            }
            vector.set_edge(i, to.into());
        }
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    match snapshot.l3() {
        [_, _, _, a, b, c, d, e, ..] => writeln!(f, "  SNAP: oui {a:02x}:{b:02x}:{c:02x} protocol 0x{d:02x}{e:02x}"),
        _ => writeln!(f, "  SNAP: truncated"),
    }
}
