//! `ip4-route-counters`, `ip6-route-counters`: count the packets of routes for which that was asked ([`super::count`]).
//!
//! Reads: `target` (a counted leaf). Writes: `target`, what the route leads to. Next: by its kind.

use super::count::CounterSlots;
use super::leaves::{Forwarding, dispatch, trace_leaf};
use graph::{Context, Map, NodeSpec, Vector};
use std::marker::PhantomData;
use tables::Leaf;

pub fn spec<L: Forwarding>() -> NodeSpec {
    NodeSpec { name: L::COUNTERS.into(), edges: L::EDGES, counters: &[], trace: trace_leaf::<L> }
}

pub struct RouteCounters<L>(CounterSlots, PhantomData<L>);

impl<L> RouteCounters<L> {
    pub fn new(places: CounterSlots) -> RouteCounters<L> {
        RouteCounters(places, PhantomData)
    }
}

impl<L: Forwarding> Map for RouteCounters<L> {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let columns = vector.columns();
        for (i, target) in columns.target.iter_mut().enumerate() {
            let counted = Leaf(*target);
            let bytes = columns.length[i].saturating_sub(columns.l3[i].saturating_sub(columns.l2[i]));
            self.0.count(cx.thread, counted, bytes.into());
            *target = self.0.leads_to(counted).0;
        }
        dispatch::<L>(vector);
    }
}
