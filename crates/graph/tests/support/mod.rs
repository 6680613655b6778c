//! Nodes of graphs that tests step by hand.
#![allow(dead_code)] // each file of tests uses some of it

use quiver_graph::node::{Context, Map, NodeSpec, Source, Wake};
use quiver_graph::*;
use std::sync::{Arc, Mutex};

pub fn silent(_: &Snapshot, _: &mut dyn std::fmt::Write) -> std::fmt::Result {
    Ok(())
}

pub fn spec(name: &str, edges: &'static [EdgeSpec]) -> NodeSpec {
    NodeSpec { name: name.into(), edges, counters: &[], trace: silent }
}

/// Sends `vectors` vectors of `size`, packet n of a vector having target n.
pub struct Feed {
    pub vectors: usize,
    pub size: usize,
    pub route: fn(usize) -> EdgeIndex,
}

impl Source for Feed {
    fn poll(&mut self, cx: &mut Context<'_>, out: &mut Vector) {
        if self.vectors == 0 {
            return;
        }
        self.vectors -= 1;
        for n in 0..self.size {
            let Some(packet) = cx.buffers.allocate_one() else {
                return;
            };
            let row = Row { packet, target: n as u32, l2: 256, l3: 256, length: 60, ..Row::default() };
            out.push(row, (self.route)(n));
        }
    }
    fn wake(&self) -> Wake<'_> {
        if self.vectors > 0 { Wake::Poll } else { Wake::Never }
    }
}

pub struct To(pub EdgeIndex);
impl Map for To {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) {
        vector.set_edges(self.0);
    }
}

/// Remembers the order in which packets came.
pub struct Sink(pub Arc<Mutex<Vec<u32>>>);
impl Map for Sink {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) {
        self.0.lock().unwrap().extend(vector.targets());
        vector.set_edges(edge::SENT);
    }
}
