//! `control-input`: frames that control sends, ready for the wire.
//!
//! Next: `interface-output`, with the interface in `tx_interface`.

use graph::buffer::{DATA_SIZE, HEADROOM};
use graph::{CounterSpec, Expand, Expansion, InterfaceIndex, NodeSpec, Row, Severity, Snapshot, Vector, flag};
use std::fmt;

graph::edges! {
    pub enum Edge {
        Output => next "interface-output",
    }
}

const COUNTERS: &[CounterSpec] = &[CounterSpec(
    "no free buffer",
    Severity::Error,
    "All packet buffers are in use (`show buffers`). Increase `buffers-per-numa` in startup.conf.",
)];

/// Holds frames between control's call and the next turn of the node.
#[derive(Default)]
pub struct Inject {
    /// Each with the bytes of its link header.
    frames: Vec<(InterfaceIndex, Vec<u8>, usize)>,
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "control-input".into(), edges: Edge::EDGES, counters: COUNTERS, trace }
}

impl Inject {
    /// Control: send this frame, which begins with so many bytes of link header.
    ///
    /// # Panics
    /// When it is longer than a buffer, or shorter than its header.
    pub fn send(&mut self, interface: InterfaceIndex, frame: Vec<u8>, header: usize) {
        assert!(frame.len() <= DATA_SIZE && header <= frame.len());
        self.frames.push((interface, frame, header));
    }
}

impl Expand for Inject {
    fn process(&mut self, x: &mut Expansion<'_, '_>, _: &mut Vector) {
        for (interface, frame, header) in std::mem::take(&mut self.frames) {
            let Some(packet) = x.cx.buffers.allocate_one() else {
                x.cx.count(0, 1);
                continue;
            };
            x.cx.buffers.bytes_mut(packet)[HEADROOM..HEADROOM + frame.len()].copy_from_slice(&frame);
            let mut row = Row {
                packet,
                rx_interface: interface,
                flags: flag::ORIGINATED,
                l2: HEADROOM as u16,
                l3: (HEADROOM + header) as u16,
                length: frame.len() as u16,
                ..Row::default()
            };
            row.set_tx_interface(interface);
            x.originate(row, Edge::Output.into());
        }
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "{}", wire::pretty::Summary::ethernet(snapshot.l2()).indented(2))
}
