//! `ip4-glean`: packets onto the wire of an interface, each to the host that it names.
//!
//! Reads: `target`, the glean, and the destination. Writes: `target`, the host's adjacency, when it is known: in the
//! interface's own table known hosts have routes of their own, in others they have not. Next: `ip4-rewrite`; or
//! `ip4-arp`, where packets for one neighbour wait in one queue, whatever route they came by.

use super::NeighbourKey;
use super::table::Shared;
use graph::{Context, InterfaceIndex, Map, NodeSpec, Vector};
use std::sync::Arc;
use tables::{Leaf, ObjectHandle, kind};

graph::edges! {
    pub enum Edge {
        Rewrite => next "ip4-rewrite",
        Arp => next "ip4-arp",
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-glean".into(), edges: Edge::EDGES, counters: &[], trace: super::resolve::trace }
}

pub struct Glean {
    known: Arc<Shared>,
    objects: ObjectHandle,
}

impl Glean {
    pub fn new(known: Arc<Shared>, objects: ObjectHandle) -> Glean {
        Glean { known, objects }
    }

    fn adjacency(&self, cx: &Context<'_>, glean: Leaf, host: u32) -> Option<Leaf> {
        let interface = self.objects.get(cx.round, glean.index()).interface();
        let key = NeighbourKey { interface: InterfaceIndex(interface), address: host.into() };
        let object = self.known.get(cx.round, &key)?.adjacency()?;
        let adjacency = self.objects.get(cx.round, object);
        let is_its_own = adjacency.interface() == interface && adjacency.next_hop() == host;
        is_its_own.then(|| Leaf::new(kind::ADJACENCY, object))
    }
}

impl Map for Glean {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let row = vector.row(i);
            let at = row.l3 as usize + 16;
            let bytes = &cx.buffers.bytes(row.packet)[at..at + 4];
            let host = u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
            let found = self.adjacency(cx, Leaf(row.target), host);
            if let Some(leaf) = found {
                vector.columns().target[i] = leaf.0;
            }
            vector.set_edge(i, if found.is_some() { Edge::Rewrite } else { Edge::Arp }.into());
        }
    }
}
