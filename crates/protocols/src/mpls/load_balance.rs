//! `mpls-load-balance`: picks one path of several by the flow's hash: of the entropy label, else of the top label and
//! what is inside the stack (RFC 6790, RFC 7325 2.4.5).
//!
//! Reads: `target` (a load-balance leaf), the label stack, and addresses and ports inside. Writes: `target`, the
//! path's leaf. Next: by its kind.

use super::lookup::{EDGES, dispatch, trace};
use graph::{Context, Map, NodeSpec, Vector};
use tables::{Leaf, ObjectHandle};
use wire::flow::FlowHasher;

pub fn spec() -> NodeSpec {
    NodeSpec { name: "mpls-load-balance".into(), edges: EDGES, counters: &[], trace }
}

pub struct MplsLoadBalance {
    objects: ObjectHandle,
    /// Differs between routers, so that those in a row do not all pick alike.
    hasher: FlowHasher,
}

impl MplsLoadBalance {
    pub fn new(objects: ObjectHandle, seed: u32) -> MplsLoadBalance {
        MplsLoadBalance { objects, hasher: FlowHasher::new(seed.into(), false) }
    }
}

impl Map for MplsLoadBalance {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let objects = self.objects.load(cx.round);
        let (frames, sides) = vector.l3_frames(cx.buffers);
        for (i, target) in sides.target.iter_mut().enumerate() {
            let hash = self.hasher.of_stack(frames.bytes(i));
            *target = objects.get(Leaf(*target).index()).bucket(hash).0;
        }
        dispatch(vector);
    }
}
