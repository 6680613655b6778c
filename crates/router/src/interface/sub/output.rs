//! `NAME-output` of a sub-interface: counts what it hands to its parent.
//!
//! Reads: `length`. Next: its parent's output; the tags are in the link header already.

use crate::interface::SharedViews;
use graph::{Context, CounterTable, EdgeIndex, InterfaceIndex, Map, NodeSpec, Snapshot, Vector};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    /// The edge to the parent's output follows.
    pub enum Edge {
        /// A packet was to leave through a sub-interface that was set down a moment ago, or whose parent was. Set it
        /// up (`set interface state`). Routes through it come back by themselves.
        Down => warn "interface is down",
    }
}

/// The edge to the parent's output.
pub const PARENT: EdgeIndex = Edge::EDGES.len() as EdgeIndex;

pub fn spec(name: &str) -> NodeSpec {
    NodeSpec { name: format!("{name}-output"), edges: Edge::EDGES, counters: &[], trace }
}

pub struct SubOutput {
    index: InterfaceIndex,
    view: SharedViews,
    /// Packets and bytes sent, by interface.
    tx: Arc<CounterTable>,
}

impl SubOutput {
    pub fn new(index: InterfaceIndex, view: SharedViews, tx: Arc<CounterTable>) -> SubOutput {
        SubOutput { index, view, tx }
    }
}

impl Map for SubOutput {
    #[inline]
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        if !self.view.load(cx.round).get(self.index).is_some_and(|view| view.up) {
            return vector.set_edges(Edge::Down.into());
        }
        let at = self.index.0 as usize;
        self.tx.add(cx.thread, at, 0, vector.len() as u64);
        self.tx.add(cx.thread, at, 1, vector.bytes());
        vector.set_edges(PARENT);
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "{}", wire::pretty::Summary::ethernet(snapshot.l2()).indented(2))
}
