//! Features that do nothing, to measure what an arc costs.

use graph::{Behaviour, Context, Feature, InterfaceIndex, Map, NodeSpec, Vector, edge};
use router::Router;
use wire::Family;

/// Most features at a time.
pub const MOST: u16 = 8;
const NODES: [&str; MOST as usize] = [
    "bench-feature-1",
    "bench-feature-2",
    "bench-feature-3",
    "bench-feature-4",
    "bench-feature-5",
    "bench-feature-6",
    "bench-feature-7",
    "bench-feature-8",
];

struct Nothing;

impl Map for Nothing {
    #[inline]
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) {
        vector.set_edges(edge::CONTINUE);
    }
}

/// Puts so many features on the way of the packets that an interface receives.
///
/// # Errors
/// When the graph is full.
pub fn enable(
    router: &mut Router,
    family: Family,
    count: u16,
    interface: InterfaceIndex,
) -> Result<(), graph::GraphError> {
    let arc = match family {
        Family::Ip4 => "ip4-unicast",
        Family::Ip6 => "ip6-unicast",
    };
    for node in NODES.into_iter().take(count.into()) {
        let spec = NodeSpec { name: node.into(), edges: &[], counters: &[], trace: |_, _| Ok(()) };
        router.graph.register(spec, |_| Behaviour::Map(Box::new(Nothing)))?;
        router.graph.register_feature(Feature { arc, node, after: &[], before: &[] })?;
        router.graph.set_feature(arc, node, interface, true)?;
    }
    Ok(())
}
