//! `ip4-punt`: packets for the host's own control plane. No host interface takes them
//! yet: they end here, counted by interface and by name.

use graph::{Context, CounterTable, Map, NodeSpec, Vector};
use std::sync::Arc;

graph::edges! {
    pub enum Edge {
        NoHost => drop "punted, but no host interface takes it",
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-punt".into(), edges: Edge::EDGES, counters: &[], trace: crate::headers::trace_ip4 }
}

pub struct Ip4Punt {
    /// Punted packets, by receiving interface.
    punts: Arc<CounterTable>,
}

impl Ip4Punt {
    pub fn new(punts: Arc<CounterTable>) -> Ip4Punt {
        Ip4Punt { punts }
    }
}

impl Map for Ip4Punt {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for rx in vector.rx_interfaces() {
            self.punts.add(cx.thread, rx.0 as usize, 0, 1);
        }
        vector.set_edges(Edge::NoHost.into());
    }
}
