//! ICMP for IPv4 (RFC 792): echo is answered, errors are sent.

mod error;
mod input;

pub use error::Report;

use crate::capability::{self, Capability, Stage};
use crate::interface::SharedFacts;
use graph::{Behaviour, Graph, GraphError};

/// For `show plugins` and `show features`.
pub(crate) const CAPABILITY: Capability = Capability {
    name: "icmp",
    description: "Internet Control Message Protocol (RFC 792): echo, errors",
    stages: &[
        Stage::new("ip4-local", "ip4-icmp-input", capability::when_up),
        Stage::new("ip4-error", "ip4-icmp-error", capability::when_up),
    ],
};

/// Registers the capability's nodes.
///
/// # Errors
/// When the graph is full.
pub fn register(graph: &mut Graph, facts: &SharedFacts) -> Result<(), GraphError> {
    graph.register(input::spec(), |_| Behaviour::Map(Box::new(input::EchoInput)))?;
    let facts = facts.clone();
    graph.register(error::spec(), move |_| Behaviour::Map(Box::new(error::IcmpError::new(facts.clone()))))?;
    Ok(())
}
