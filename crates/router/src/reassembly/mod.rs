//! Reassembly (RFC 791 section 3.2, RFC 815) of datagrams that come to the router in fragments.
//!
//! Only what is for the router itself is put together: a router that forwards passes fragments
//! on as they are. [`datagrams`] has the rules, [`node`] the graph's node, [`control`] the
//! limits and the clock.

pub mod cli;
pub(crate) mod config;
pub mod control;
mod datagrams;
mod node;

pub use control::Reassembly;
pub use datagrams::{Limits, Shown};

use crate::capability::{self, Capability, Stage};
use crate::events::EventSender;
use graph::{Behaviour, Graph, GraphError, NodeIndex};

/// For `show plugins` and `show features`.
pub(crate) const CAPABILITY: Capability = Capability {
    name: "reassembly",
    description: "Reassembly of fragmented datagrams to the router (RFC 815)",
    stages: &[Stage::new("ip4-reassembly", node::NAME, capability::when_up)],
};

/// What workers tell control: each its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A datagram is in progress: somebody has to look at the clock.
    Began(usize),
    /// None is any more.
    Idle(usize),
}

/// Nodes that control talks to.
pub(crate) struct Nodes {
    pub local: NodeIndex,
}

/// Registers the capability's nodes.
///
/// # Errors
/// When the graph is full.
pub(crate) fn register(graph: &mut Graph, events: &EventSender) -> Result<Nodes, GraphError> {
    let sender = events.clone();
    // A quarter of the packet memory at most: fragments must not starve the rest.
    let most = graph.pool().capacity() as usize / 4 / graph.workers();
    let local = graph.register(node::spec(), move |worker| {
        Behaviour::Expand(Box::new(node::LocalReassembly::new(worker, most, sender.clone())))
    })?;
    Ok(Nodes { local })
}
