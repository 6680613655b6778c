//! `ip6-stale-neighbor`: packets to neighbours that were not confirmed lately (RFC 4861 7.3.3).
//!
//! They go on at once; the first makes an event for control, which asks the neighbour when nothing else has confirmed
//! it a little later. From then on the adjacency does not lead here.
//!
//! Reads: `target`, the adjacency, whose link header the packet has. Writes: `tx_interface`. Next:
//! `interface-output`.

use super::resolve::trace6;
use super::table::Shared;
use super::{Event, NeighbourKey};
use crate::events::EventSender;
use graph::{Context, InterfaceIndex, Map, NodeSpec, Vector};
use std::sync::Arc;
use tables::{Leaf, ObjectHandle};

graph::edges! {
    pub enum Edge {
        Output => next "interface-output",
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip6-stale-neighbor".into(), edges: Edge::EDGES, counters: &[], trace: trace6 }
}

pub struct StaleNeighbour {
    known: Arc<Shared>,
    objects: ObjectHandle,
    events: EventSender<Event>,
}

impl StaleNeighbour {
    pub fn new(known: Arc<Shared>, objects: ObjectHandle, events: EventSender<Event>) -> StaleNeighbour {
        StaleNeighbour { known, objects, events }
    }
}

impl Map for StaleNeighbour {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let object = self.objects.get(cx.round, Leaf(vector.targets()[i]).index());
            let key = NeighbourKey::new(InterfaceIndex(object.interface()), object.next_hop6());
            if let Some(entry) = self.known.get(cx.round, &key)
                && entry.take_doubt()
                && self.events.try_send(Event::Used(key)).is_err()
            {
                entry.doubt_again();
            }
            vector.set_tx_interface(i, key.interface);
            vector.set_edge(i, Edge::Output.into());
        }
    }
}
