//! `worker-handoff`: chooses each packet's worker by its flow.
//!
//! Reads: `l2`, `length`, `rx_interface`. Writes: nothing of the packet. Next: along the arc
//! `device-input`, on the worker that was chosen.

use graph::{Buffers, Context, EdgeIndex, Map, NodeSpec, PerInterface, Snapshot, VECTOR_SIZE, Vector, edge};
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
    fn edge_of(&self, hash: u32) -> EdgeIndex {
        self.edges[((u64::from(hash) * self.edges.len() as u64) >> 32) as usize]
    }
}

pub const NODE: &str = "worker-handoff";

pub fn spec() -> NodeSpec {
    NodeSpec { name: NODE.into(), edges: &[], counters: &[], trace }
}

pub struct WorkerHandoff {
    shares: PerInterface<Shares>,
}

impl WorkerHandoff {
    pub fn new(shares: PerInterface<Shares>) -> WorkerHandoff {
        WorkerHandoff { shares }
    }
}

impl Map for WorkerHandoff {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let of = |interface| self.shares.get(cx.round, interface);
        match vector.one_rx_interface() {
            Some(interface) => share_out(of(interface), cx.buffers, vector, 0..vector.len()),
            None => {
                for i in 0..vector.len() {
                    share_out(of(vector.rx_interfaces()[i]), cx.buffers, vector, i..i + 1);
                }
            }
        }
    }
}

/// Sets the edges of packets of one interface.
fn share_out(shares: Option<&Shares>, buffers: &mut Buffers, vector: &mut Vector, range: std::ops::Range<usize>) {
    // Hand-off may have been disabled on this interface since the packets arrived.
    let columns = vector.columns();
    let Some(shares) = shares else { return columns.edge[range].fill(edge::CONTINUE) };
    let (frames, sides) = vector.l2_frames(buffers, range.clone());
    let (mut others, mut count) = ([0; VECTOR_SIZE], 0);
    for (i, (length, edge)) in sides.length.iter().zip(sides.edge.iter_mut()).enumerate() {
        match shares.hasher.of_plain(frames.bytes(i), usize::from(*length)) {
            Some(hash) => *edge = shares.edge_of(hash),
            None => {
                others[count] = (range.start + i) as u8;
                count += 1;
            }
        }
    }
    // More of these frames is looked at.
    let columns = vector.columns();
    for i in others[..count].iter().map(|i| usize::from(*i)) {
        let bytes = buffers.bytes(columns.packets[i]);
        let start = columns.l2[i] as usize;
        let length = (columns.length[i] as usize).min(HEAD).min(bytes.len() - start);
        columns.edge[i] = shares.edge_of(shares.hasher.of_frame(&bytes[start..start + length]));
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    match edge::worker_of(snapshot.edge) {
        Some(worker) => writeln!(f, "  worker-handoff: sw_if_index {}, to worker {worker}", snapshot.row.rx_interface)?,
        None => writeln!(f, "  worker-handoff: sw_if_index {}, stays", snapshot.row.rx_interface)?,
    }
    writeln!(f, "{}", Summary::ethernet(snapshot.l2()).indented(2))
}
