//! Hand-off: an interface's packets are shared out among workers by flow, right after they were
//! received. For devices that cannot do it themselves, or cannot look into the tunnels that carry
//! the flows: one worker polls, several do the work.
//!
//! `worker-handoff` stands between a device's input node and `ethernet-input`; interfaces whose
//! packets stay do not pass it. All packets of a flow go to one worker, in the order in which they
//! came. What a worker has no room for is dropped by name.

pub(crate) mod cli;
pub(crate) mod config;
pub(crate) mod control;
mod node;

pub use control::Handoff;
pub use node::Shares;

use crate::capability::{Capability, Stage};
use crate::interface::{Interface, SharedViews};
use graph::{Behaviour, EdgeIndex, Graph, GraphError};

/// For `show plugins` and `show features`.
pub(crate) const CAPABILITY: Capability = Capability {
    name: "handoff",
    description: "Packets of an interface shared out among workers by flow",
    flags: 0,
    stages: &[Stage::new("device-input", "worker-handoff", shared_out)],
};

fn shared_out(interface: &Interface) -> Option<String> {
    interface.handoff.as_ref().map(|handoff| format!("workers {handoff}"))
}

/// What control needs to know of the node.
pub(crate) struct Nodes {
    /// The edge to each worker.
    pub edges: Vec<EdgeIndex>,
}

/// Registers the capability's node.
///
/// # Errors
/// When the graph is full.
pub(crate) fn register(graph: &mut Graph, view: &SharedViews) -> Result<Nodes, GraphError> {
    let view = view.clone();
    let node =
        graph.register(node::spec(), move |_| Behaviour::Map(Box::new(node::WorkerHandoff::new(view.clone()))))?;
    let edges = (0..graph.workers()).map(|worker| graph.connect_to_worker(node, "ethernet-input", worker));
    Ok(Nodes { edges: edges.collect::<Result<_, _>>()? })
}
