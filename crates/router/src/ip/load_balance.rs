//! `ip4-load-balance`, `ip6-load-balance`: select one of several paths by the flow's hash.
//!
//! Reads: `target` (a load-balance leaf), addresses and ports; for IPv6 also the flow label. Writes: `target`, the
//! path's leaf. Next: by its kind.

use super::flow_hash;
use super::leaves::{Forwarding, dispatch, trace_leaf};
use graph::vector::one_value;
use graph::{Context, Map, NodeSpec, VECTOR_SIZE, Vector};
use std::marker::PhantomData;
use tables::{Leaf, ObjectHandle};

pub fn spec<L: Forwarding>() -> NodeSpec {
    NodeSpec { name: L::LOAD_BALANCE.into(), edges: L::EDGES, counters: &[], trace: trace_leaf::<L> }
}

pub struct LoadBalance<L> {
    objects: ObjectHandle,
    /// Differs between routers, so that routers in a row do not all select the same paths.
    seed: u32,
    family: PhantomData<L>,
}

impl<L> LoadBalance<L> {
    pub fn new(objects: ObjectHandle, seed: u32) -> LoadBalance<L> {
        LoadBalance { objects, seed, family: PhantomData }
    }
}

impl<L: Forwarding> Map for LoadBalance<L> {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let objects = self.objects.load(cx.round);
        // A route through another one has a balance even over one path.
        if let Some(leaf) = one_value(vector.targets())
            && let Some(only) = objects.get(Leaf(leaf).index()).only_bucket()
        {
            vector.columns().target.fill(only.0);
            return dispatch::<L>(vector);
        }
        let (frames, sides) = vector.l3_frames(cx.buffers);
        let mut hashes = [0; VECTOR_SIZE];
        L::flow_hashes(&frames, sides.flags, self.seed, &mut hashes[..frames.len()]);
        let object = |leaf: u32| objects.get(Leaf(leaf).index());
        // A table may distinguish flows by other fields ([`super::flow_hash`]).
        let by = |flow: u16, i: usize| {
            L::flow_hash_by(flow_hash::fields_of(flow), frames.bytes(i), sides.flags[i], self.seed)
        };
        if let Some(leaf) = one_value(sides.target) {
            let object = object(leaf);
            if object.flow() != 0 {
                (0..frames.len()).for_each(|i| hashes[i] = by(object.flow(), i));
            }
            sides.target.iter_mut().zip(hashes).for_each(|(leaf, hash)| *leaf = object.bucket(hash).0);
        } else {
            for (i, (leaf, hash)) in sides.target.iter_mut().zip(hashes).enumerate() {
                let object = object(*leaf);
                let hash = if object.flow() == 0 { hash } else { by(object.flow(), i) };
                *leaf = object.bucket(hash).0;
            }
        }
        dispatch::<L>(vector);
    }
}
