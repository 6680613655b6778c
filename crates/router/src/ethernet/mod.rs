//! Ethernet: what arrives is checked, its IPv4 header examined in the same pass, and
//! handed to the protocol that its ethertype names.

mod input;

use crate::capability::{self, Capability, Stage};
use crate::interface::SharedFacts;
use graph::{Behaviour, Graph, GraphError, NodeIndex};

/// For `show plugins` and `show features`.
pub(crate) const CAPABILITY: Capability = Capability {
    name: "ethernet",
    description: "Ethernet frames in, their IPv4 headers examined in the same pass",
    stages: &[Stage::new("device-input", "ethernet-input", capability::when_up)],
};

/// Registers the capability's nodes.
///
/// # Errors
/// When the graph is full.
pub fn register(graph: &mut Graph, facts: &SharedFacts) -> Result<NodeIndex, GraphError> {
    let facts = facts.clone();
    graph.register(input::spec(), move |_| Behaviour::Map(Box::new(input::EthernetInput::new(facts.clone()))))
}
