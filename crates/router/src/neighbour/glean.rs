//! `ip4-glean`, `ip6-glean`: packets onto the wire of an interface, each to the host that it names.
//!
//! Reads: `target`, the glean, and the destination. Writes: `target`, the host's adjacency, when it is known, or the
//! interface, when the host is this router itself. In the interface's own table both have routes of their own; in other
//! tables, and on links of their own, they have not. Next: `ip4-local` or `ip6-local` with what is for this router. All
//! else goes to `ip4-rewrite` or `ip6-rewrite`, whether the host is known or not: what must not be forwarded is refused
//! there before anybody asks for a neighbour. From there packets to hosts that are not known go to `ip4-arp` or
//! `ip6-discover-neighbor`, where those for one neighbour wait in one queue, whatever route they came by.

use super::NeighbourKey;
use super::resolve::{destination, trace, trace6};
use super::table::Shared;
use crate::interface::SharedViews;
use crate::ip::class;
use graph::{Context, InterfaceIndex, Map, NodeSpec, Vector};
use std::net::IpAddr;
use std::sync::Arc;
use tables::{Leaf, ObjectHandle};
use wire::Family;

graph::edges! {
    pub enum Edge {
        Rewrite => next "ip4-rewrite",
        Local => next "ip4-local",
    }
}

/// The same of `ip6-glean`.
mod edge6 {
    graph::edges! {
        pub enum Edge like super::Edge {
            Rewrite => next "ip6-rewrite",
            Local => next "ip6-local",
        }
    }
}

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
    view: SharedViews,
}

impl Glean {
    pub fn new(family: Family, known: Arc<Shared>, objects: ObjectHandle, view: SharedViews) -> Glean {
        Glean { family, known, objects, view }
    }

    /// Where a host on the wire of an interface is, when that is known.
    fn find(&self, cx: &Context<'_>, interface: InterfaceIndex, host: IpAddr) -> Option<(Leaf, Edge)> {
        let adjacency = || self.adjacency(cx, interface, host).map(|leaf| (leaf, Edge::Rewrite));
        let itself =
            || self.is_itself(cx, interface, host).then(|| (Leaf::new(class::RECEIVE, interface.0), Edge::Local));
        adjacency().or_else(itself)
    }

    fn is_itself(&self, cx: &Context<'_>, interface: InterfaceIndex, host: IpAddr) -> bool {
        self.view.load(cx.round).get(interface).is_some_and(|view| match host {
            IpAddr::V4(host) => view.owns(host),
            IpAddr::V6(host) => view.ip6.owns(host) || view.ip6.is_anycast(host),
        })
    }

    fn adjacency(&self, cx: &Context<'_>, interface: InterfaceIndex, host: IpAddr) -> Option<Leaf> {
        let key = NeighbourKey::new(interface, host);
        let object = self.known.get(cx.round, &key)?.adjacency()?;
        let adjacency = self.objects.get(cx.round, object);
        let next_hop: IpAddr = match self.family {
            Family::Ip4 => adjacency.next_hop().into(),
            Family::Ip6 => adjacency.next_hop6().into(),
        };
        let is_its_own = adjacency.interface() == interface.0 && next_hop == host;
        is_its_own.then(|| Leaf::new(class::ADJACENCY, object))
    }
}

impl Map for Glean {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        vector.set_edges(Edge::Rewrite.into());
        for i in 0..vector.len() {
            let row = vector.row(i);
            let interface = InterfaceIndex(self.objects.get(cx.round, Leaf(row.target).index()).interface());
            if let Some((leaf, edge)) = self.find(cx, interface, destination(self.family, cx, &row)) {
                vector.columns().target[i] = leaf.0;
                vector.set_edge(i, edge.into());
            }
        }
    }
}
