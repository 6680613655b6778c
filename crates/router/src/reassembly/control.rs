//! Control's part: the limits.

use super::node::LocalReassembly;
use super::{Limits, Shown};
use crate::Router;
use graph::Core;
use wire::Family;

/// What control knows of reassembly.
#[derive(Debug)]
pub struct Reassembly {
    ip4: Limits,
    ip6: Limits,
}

impl Default for Reassembly {
    fn default() -> Reassembly {
        Reassembly { ip4: Limits::of(Family::Ip4), ip6: Limits::of(Family::Ip6) }
    }
}

impl Reassembly {
    pub fn limits(&self, family: Family) -> Limits {
        match family {
            Family::Ip4 => self.ip4,
            Family::Ip6 => self.ip6,
        }
    }
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
    /// Sets the limits of a family's reassembly, on all workers.
    pub fn set_reassembly_limits(&mut self, family: Family, limits: Limits) {
        match family {
            Family::Ip4 => self.reassembly.ip4 = limits,
            Family::Ip6 => self.reassembly.ip6 = limits,
        }
        let node = self.nodes.reassembly.of(family);
        self.graph.call(|_| {
            Box::new(move |core| {
                if let Some(node) = core.node::<LocalReassembly>(node) {
                    node.set_limits(limits);
                }
            })
        });
    }

    /// What each worker has in progress, with at most so many datagrams of each; none of one that does not answer.
    pub fn reassemblies(&self, family: Family, most: usize) -> Vec<Option<InProgress>> {
        let node = self.nodes.reassembly.of(family);
        let ask = |worker| {
            let look = move |core: &mut Core| core.node::<LocalReassembly>(node).map(|node| node.shown(most));
            let (datagrams, buffers, oldest) = self.graph.ask(worker, look).ok()?.unwrap_or_default();
            Some(InProgress { datagrams, buffers, oldest })
        };
        (0..self.graph.workers()).map(ask).collect()
    }
}
