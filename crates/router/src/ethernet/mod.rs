//! Ethernet: what arrives is checked, its IPv4 header examined in the same pass, and
//! handed to the protocol that its ethertype names.

mod input;

use crate::interface::SharedFacts;
use graph::{Behaviour, Graph, GraphError, NodeIndex};

/// Registers the capability's nodes.
///
/// # Errors
/// When the graph is full.
pub fn register(graph: &mut Graph, facts: &SharedFacts) -> Result<NodeIndex, GraphError> {
    let facts = facts.clone();
    graph.register(input::spec(), move |_| Behaviour::Map(Box::new(input::EthernetInput::new(facts.clone()))))
}
