//! `ip4-midchain-tx`, `ip6-midchain-tx`: send packets on by their new header.
//!
//! Reads: `target`, the leaf where the header's destination leads. Next: by the leaf's class.

use crate::midchain::node::Inner;
use graph::{Context, Map, NodeSpec, Vector};
use router::ip::leaves::{dispatch, trace_leaf};
use std::marker::PhantomData;

pub fn spec<L: Inner>() -> NodeSpec {
    NodeSpec { name: L::TX.into(), edges: L::EDGES, counters: &[], trace: trace_leaf::<L> }
}

pub struct Tx<L>(PhantomData<L>);

impl<L> Tx<L> {
    pub fn new() -> Tx<L> {
        Tx(PhantomData)
    }
}

impl<L: Inner> Map for Tx<L> {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) {
        dispatch::<L>(vector);
    }
}
