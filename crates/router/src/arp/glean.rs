//! `ip4-glean`: packets to a host of an attached network that is not known yet.
//!
//! Reads: nothing; `target`, the glean, tells `ip4-arp` that the next hop is the packet's
//! own destination. Next: `ip4-arp`, where packets for one neighbour wait in one queue,
//! whatever route they came by.

use graph::{Context, Map, NodeSpec, Vector};

graph::edges! {
    pub enum Edge {
        Arp => next "ip4-arp",
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-glean".into(), edges: Edge::EDGES, counters: &[], trace: super::resolve::trace }
}

pub struct Glean;

impl Map for Glean {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) {
        vector.set_edges(Edge::Arp.into());
    }
}
