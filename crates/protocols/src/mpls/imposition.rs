//! `ip4-mpls-label-imposition-uniform` and the same of IPv6: labels that say what the packet inside says of its hops
//! and its class (RFC 3443 5.2, uniform model). Labels of the pipe model are as they are in the adjacency, and need
//! no node.
//!
//! Reads: `target`, the adjacency, whose link header and labels the packet has; `l3`. Writes: time to live and
//! traffic class of the labels; `tx_interface`. Next: `interface-output`, by
//! `ip6-stale-neighbor` when the next hop was not confirmed lately.

use graph::{Context, InterfaceIndex, Map, NodeSpec, Vector};
use router::ip::marks::Marks;
use tables::{Leaf, ObjectHandle};
use wire::Family;

graph::edges! {
    pub enum Edge {
        Output => next "interface-output",
        Stale => next "ip6-stale-neighbor",
    }
}

pub fn spec(family: Family) -> NodeSpec {
    let name = match family {
        Family::Ip4 => "ip4-mpls-label-imposition-uniform",
        Family::Ip6 => "ip6-mpls-label-imposition-uniform",
    };
    NodeSpec { name: name.into(), edges: Edge::EDGES, counters: &[], trace: router::headers::trace_of(family) }
}

pub struct Imposition {
    family: Family,
    objects: ObjectHandle,
}

impl Imposition {
    pub fn new(family: Family, objects: ObjectHandle) -> Imposition {
        Imposition { family, objects }
    }
}

impl Map for Imposition {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let objects = self.objects.load(cx.round);
        for i in 0..vector.len() {
            let object = objects.get(Leaf(vector.targets()[i]).index());
            let marks = Marks::of(object.owner());
            let (mut frames, _) = vector.l3_frames(cx.buffers);
            frames.copy_to_labels(i, self.family == Family::Ip6, marks.copies);
            vector.set_tx_interface(i, InterfaceIndex(object.interface()));
            vector.set_edge(i, if marks.is_stale { Edge::Stale } else { Edge::Output }.into());
        }
    }
}
