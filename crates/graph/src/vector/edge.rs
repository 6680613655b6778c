//! Reserved edges, beyond any list.

use crate::index::EdgeIndex;
/// The device has sent the packet: free the buffer.
pub const SENT: EdgeIndex = 0xffff;
/// The node has taken the packet (only *expand* nodes may).
pub const TAKEN: EdgeIndex = 0xfffe;
/// The device sends the packet from where it lies, and its driver frees the buffers then.
pub const LENT: EdgeIndex = 0xfffd;
/// To the next node of the packet's chain of features ([`crate::chains`]).
pub const CONTINUE: EdgeIndex = 0xfffc;
/// The packet is dropped by the error whose number is in `target` ([`crate::drops`]).
pub(crate) const DROPPED: EdgeIndex = 0xfffb;
/// Most edges of one node.
pub const MAX: usize = 0xff00;
/// Workers that can be named in an edge.
pub const MAX_WORKERS: usize = 0xf0;

/// To the next node of the packet's chain, on this worker.
pub const fn continue_on(worker: usize) -> EdgeIndex {
    assert!(worker < MAX_WORKERS);
    MAX as EdgeIndex + worker as EdgeIndex
}

/// The worker that [`continue_on`] names.
pub const fn worker_of(edge: EdgeIndex) -> Option<usize> {
    let worker = (edge as usize).wrapping_sub(MAX);
    if worker < MAX_WORKERS { Some(worker) } else { None }
}
