//! `worker-handoff`: chooses each packet's worker by its flow.
//!
//! Reads: `l2`, `length`, `rx_interface`. Writes: nothing of the packet. Next: along the arc
//! `device-input`, on the worker that was chosen.

use crate::interface::{SharedViews, ViewTable};
use graph::{Buffers, Context, EdgeIndex, InterfaceIndex, Map, NodeSpec, Snapshot, Vector, edge};
use std::fmt;
use wire::flow::FlowHasher;
use wire::pretty::Summary;

/// How many bytes of a frame the flow hash may read. They cover more than two tags, a stack of labels or a tunnel, and
/// two headers.
const HEAD: usize = 192;

/// The workers that share an interface's packets, as the node sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shares {
    pub hasher: FlowHasher,
    /// The edges to the workers, each for an equal share of flows.
    pub edges: Vec<EdgeIndex>,
}

impl Shares {
    #[inline]
    fn edge_of(&self, frame: &[u8]) -> EdgeIndex {
        let hash = u64::from(self.hasher.of_frame(frame));
        self.edges[((hash * self.edges.len() as u64) >> 32) as usize]
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "worker-handoff".into(), edges: &[], counters: &[], trace }
}

pub struct WorkerHandoff {
    view: SharedViews,
}

impl WorkerHandoff {
    pub fn new(view: SharedViews) -> WorkerHandoff {
        WorkerHandoff { view }
    }
}

impl Map for WorkerHandoff {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let table = self.view.load(cx.round);
        match vector.one_rx_interface() {
            Some(interface) => share_out(table, interface, cx.buffers, vector, 0..vector.len()),
            None => {
                for i in 0..vector.len() {
                    share_out(table, vector.rx_interfaces()[i], cx.buffers, vector, i..i + 1);
                }
            }
        }
    }
}

/// Sets the edges of packets of one interface.
fn share_out(
    table: &ViewTable,
    interface: InterfaceIndex,
    buffers: &Buffers,
    vector: &mut Vector,
    range: std::ops::Range<usize>,
) {
    // Hand-off may have been disabled on this interface since the packets arrived.
    let shares = table.get(interface).and_then(|view| view.handoff.as_ref());
    let columns = vector.columns();
    let Some(shares) = shares else { return columns.edge[range].fill(edge::CONTINUE) };
    for i in range {
        let bytes = buffers.bytes(columns.packets[i]);
        let start = columns.l2[i] as usize;
        let length = (columns.length[i] as usize).min(HEAD).min(bytes.len() - start);
        columns.edge[i] = shares.edge_of(&bytes[start..start + length]);
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    match edge::worker_of(snapshot.edge) {
        Some(worker) => writeln!(f, "  worker-handoff: sw_if_index {}, to worker {worker}", snapshot.row.rx_interface)?,
        None => writeln!(f, "  worker-handoff: sw_if_index {}, stays", snapshot.row.rx_interface)?,
    }
    writeln!(f, "{}", Summary::ethernet(snapshot.l2()).indented(2))
}
