//! Reassembly (RFC 791 section 3.2, RFC 815) of datagrams that come to the router in fragments.
//!
//! Only what is for the router itself is put together: a router that forwards passes fragments
//! on as they are. [`datagrams`] has the rules, [`node`] the graph's node with its timer,
//! [`control`] the limits.

pub mod cli;
pub(crate) mod config;
pub mod control;
mod datagrams;
mod node;

pub use control::Reassembly;
pub use datagrams::{Limits, Shown};

use crate::capability::{self, Capability, Stage};
use crate::ip::Fibs4;
use graph::{Behaviour, Graph, GraphError, NodeIndex};

/// For `show plugins` and `show features`.
pub(crate) const CAPABILITY: Capability = Capability {
    name: "reassembly",
    description: "Reassembly of fragmented datagrams to the router (RFC 815)",
    stages: &[Stage::new("ip4-reassembly", node::NAME, capability::when_up)],
};

/// Nodes that control talks to.
pub(crate) struct Nodes {
    pub local: NodeIndex,
}

/// Registers the capability's nodes.
///
/// # Errors
/// When the graph is full.
pub(crate) fn register(graph: &mut Graph, fibs: &Fibs4) -> Result<Nodes, GraphError> {
    // A quarter of the packet memory at most: fragments must not starve the rest.
    let most = graph.pool().capacity() as usize / 4 / graph.workers();
    let fibs = fibs.clone();
    let node = move || node::LocalReassembly::new(fibs.clone(), most);
    let local = graph.register(node::spec(), move |_| Behaviour::Expand(Box::new(node())))?;
    Ok(Nodes { local })
}
