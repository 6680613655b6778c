//! ICMP for IPv4 (RFC 792): echo is answered, errors are sent.

mod error;
mod input;

pub use error::Report;

use crate::interface::SharedFacts;
use graph::{Behaviour, Graph, GraphError};

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
