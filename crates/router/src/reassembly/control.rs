//! Control's part: the limits.

use super::node::LocalReassembly;
use super::{Limits, Shown};
use crate::Router;
use graph::Core;

/// What control knows of reassembly.
#[derive(Debug, Default)]
pub struct Reassembly {
    pub limits: Limits,
}

/// A worker's datagrams in progress.
#[derive(Debug, Default)]
pub struct InProgress {
    pub datagrams: usize,
    pub buffers: usize,
    /// The oldest of them.
    pub oldest: Vec<Shown>,
}

impl Router {
    /// Sets the limits of reassembly, on all workers.
    pub fn set_reassembly_limits(&mut self, limits: Limits) {
        self.reassembly.limits = limits;
        let node = self.nodes.reassembly.local;
        self.graph.call(|_| {
            Box::new(move |core| {
                if let Some(node) = core.node::<LocalReassembly>(node) {
                    node.set_limits(limits);
                }
            })
        });
    }

    /// What each worker has in progress, with at most so many datagrams of each; none of one that does not answer.
    pub fn reassemblies(&self, most: usize) -> Vec<Option<InProgress>> {
        let node = self.nodes.reassembly.local;
        let ask = |worker| {
            let look = move |core: &mut Core| core.node::<LocalReassembly>(node).map(|node| node.shown(most));
            let (datagrams, buffers, oldest) = self.graph.ask(worker, look).ok()?.unwrap_or_default();
            Some(InProgress { datagrams, buffers, oldest })
        };
        (0..self.graph.workers()).map(ask).collect()
    }
}
