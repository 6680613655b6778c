//! `ip4-glean`, `ip6-glean`: packets onto the wire of an interface, each to the host that it names.
//!
//! Reads: `target`, the glean, and the destination. Writes: `target`, the host's adjacency, when it is known: in the
//! interface's own table known hosts have routes of their own, in others, and on links of their own, they have not. Next:
//! `ip4-rewrite` or `ip6-rewrite`, whether the host is known or not: what must not be forwarded is refused there before
//! anybody asks for a neighbour. From there packets to hosts that are not known go to `ip4-arp` or `ip6-discover-neighbor`,
//! where those for one neighbour wait in one queue, whatever route they came by.

use super::NeighbourKey;
use super::resolve::{destination, trace, trace6};
use super::table::Shared;
use graph::{Context, InterfaceIndex, Map, NodeSpec, Vector};
use std::net::IpAddr;
use std::sync::Arc;
use tables::{Leaf, ObjectHandle, kind};
use wire::Family;

graph::edges! {
    pub enum Edge {
        Rewrite => next "ip4-rewrite",
    }
}

/// The same of `ip6-glean`.
mod edge6 {
    graph::edges! {
        pub enum Edge {
            Rewrite => next "ip6-rewrite",
        }
    }
}

const _: () = assert!(Edge::Rewrite as u16 == edge6::Edge::Rewrite as u16);

pub fn spec(family: Family) -> NodeSpec {
    match family {
        Family::Ip4 => NodeSpec { name: "ip4-glean".into(), edges: Edge::EDGES, counters: &[], trace },
        Family::Ip6 => NodeSpec { name: "ip6-glean".into(), edges: edge6::Edge::EDGES, counters: &[], trace: trace6 },
    }
}

pub struct Glean {
    family: Family,
    known: Arc<Shared>,
    objects: ObjectHandle,
}

impl Glean {
    pub fn new(family: Family, known: Arc<Shared>, objects: ObjectHandle) -> Glean {
        Glean { family, known, objects }
    }

    fn adjacency(&self, cx: &Context<'_>, glean: Leaf, host: IpAddr) -> Option<Leaf> {
        let interface = self.objects.get(cx.round, glean.index()).interface();
        let key = NeighbourKey::new(InterfaceIndex(interface), host);
        let object = self.known.get(cx.round, &key)?.adjacency()?;
        let adjacency = self.objects.get(cx.round, object);
        let next_hop: IpAddr = match self.family {
            Family::Ip4 => adjacency.next_hop().into(),
            Family::Ip6 => adjacency.next_hop6().into(),
        };
        let is_its_own = adjacency.interface() == interface && next_hop == host;
        is_its_own.then(|| Leaf::new(kind::ADJACENCY, object))
    }
}

impl Map for Glean {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let row = vector.row(i);
            let found = self.adjacency(cx, Leaf(row.target), destination(self.family, cx, &row));
            if let Some(leaf) = found {
                vector.columns().target[i] = leaf.0;
            }
        }
        vector.set_edges(Edge::Rewrite.into());
    }
}
