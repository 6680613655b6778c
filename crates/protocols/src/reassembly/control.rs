//! Control's part: the limits.

use super::node::LocalReassembly;
use super::{Limits, Shown};
use graph::{Core, NodeIndex};
use router::Router;
use router::by_family::ByFamily;
use wire::Family;

/// What control knows of reassembly.
#[derive(Debug)]
pub struct Reassembly {
    limits: ByFamily<Limits>,
    nodes: ByFamily<NodeIndex>,
}

impl Reassembly {
    pub(super) fn new(nodes: ByFamily<NodeIndex>) -> Reassembly {
        Reassembly { limits: ByFamily { ip4: Limits::of(Family::Ip4), ip6: Limits::of(Family::Ip6) }, nodes }
    }

    pub fn limits(&self, family: Family) -> Limits {
        self.limits[family]
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

/// Sets the limits of a family's reassembly, on all workers.
pub fn set_reassembly_limits(router: &mut Router, family: Family, limits: Limits) {
    let reassembly = router.state_mut::<Reassembly>();
    reassembly.limits[family] = limits;
    let node = reassembly.nodes[family];
    router.graph.call(|_| {
        Box::new(move |core| {
            if let Some(node) = core.node::<LocalReassembly>(node) {
                node.set_limits(limits);
            }
        })
    });
}

/// What each worker has in progress, with at most so many datagrams of each; none of one that does not answer.
pub fn reassemblies(router: &Router, family: Family, most: usize) -> Vec<Option<InProgress>> {
    let node = router.state::<Reassembly>().nodes[family];
    let ask = |worker| {
        let look = move |core: &mut Core| core.node::<LocalReassembly>(node).map(|node| node.shown(most));
        let (datagrams, buffers, oldest) = router.graph.ask(worker, look).ok()?.unwrap_or_default();
        Some(InProgress { datagrams, buffers, oldest })
    };
    (0..router.graph.workers()).map(ask).collect()
}
