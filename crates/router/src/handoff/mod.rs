//! Hand-off: an interface's packets are shared out among workers by flow, right after they were
//! received. For devices that cannot do it themselves, or cannot look into the tunnels that carry
//! the flows: one worker polls, several do the work.
//!
//! `worker-handoff` is a feature of the arc `device-input`; packets of interfaces that stay do not pass it. All
//! packets of a flow go to one worker, in the order in which they came. What a worker has no room for is dropped by
//! name.

pub(crate) mod cli;
pub(crate) mod config;
pub(crate) mod control;
mod node;

pub use control::Handoff;
pub use node::Shares;

use crate::capability::{Description, FeatureSpec};
use crate::config::{Part, Phase};
use crate::interface::{Interface, SharedViews};
use graph::{Behaviour, Graph, GraphError};

pub(crate) const CAPABILITY: Description = Description {
    name: "handoff",
    description: "Packets of an interface shared out among workers by flow",
    nodes: &["worker-handoff"],
    features: &[FeatureSpec::new("device-input", "worker-handoff", shared_out)],
    commands: cli::register,
    statements: &[(Phase::OnInterfaces, Part::Few(config::statements))],
    ..Description::NONE
};

fn shared_out(interface: &Interface) -> String {
    interface.handoff.as_ref().map_or(String::new(), |handoff| format!("workers {handoff}"))
}

/// Registers the capability's node.
///
/// # Errors
/// When the graph is full.
pub(crate) fn register(graph: &mut Graph, view: &SharedViews) -> Result<(), GraphError> {
    let view = view.clone();
    graph.register(node::spec(), move |_| Behaviour::Map(Box::new(node::WorkerHandoff::new(view.clone()))))?;
    Ok(())
}
