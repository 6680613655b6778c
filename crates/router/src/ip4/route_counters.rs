//! `ip4-route-counters`: counts the packets of routes for which that was asked ([`crate::ip::count`]).
//!
//! Reads: `target` (a counted leaf). Writes: `target`, what the route leads to. Next: by its kind.

use super::lookup::{self, Edge};
use crate::ip::count::Places;
use graph::{Context, Map, NodeSpec, Vector};
use tables::Leaf;

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-route-counters".into(), edges: Edge::EDGES, counters: &[], trace: lookup::trace_leaf }
}

pub struct RouteCounters(Places);

impl RouteCounters {
    pub fn new(places: Places) -> RouteCounters {
        RouteCounters(places)
    }
}

impl Map for RouteCounters {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let columns = vector.columns();
        for (i, target) in columns.target.iter_mut().enumerate() {
            let counted = Leaf(*target);
            let bytes = columns.length[i].saturating_sub(columns.l3[i].saturating_sub(columns.l2[i]));
            self.0.count(cx.thread, counted, bytes.into());
            *target = self.0.leads_to(counted).0;
        }
        lookup::dispatch(vector);
    }
}
