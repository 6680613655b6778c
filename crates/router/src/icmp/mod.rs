//! ICMP for IPv4 (RFC 792): echo is answered, errors are sent, hosts are pinged.

pub mod cli;
mod error;
mod input;
pub mod ping;
mod request;

pub(crate) use error::LIMIT;
pub use error::Report;
pub(crate) use input::OUR_TTL;

use crate::capability::{self, Capability, Stage};
use crate::events::EventSender;
use crate::interface::SharedFacts;
use graph::{Behaviour, Graph, GraphError, NodeIndex};

/// Nodes that control talks to.
pub(crate) struct Nodes {
    pub input: NodeIndex,
    pub requests: NodeIndex,
}

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
pub(crate) fn register(graph: &mut Graph, facts: &SharedFacts, events: &EventSender) -> Result<Nodes, GraphError> {
    let sender = events.clone();
    let input =
        graph.register(input::spec(), move |_| Behaviour::Map(Box::new(input::EchoInput::new(sender.clone()))))?;
    let facts = facts.clone();
    graph.register(error::spec(), move |_| Behaviour::Map(Box::new(error::IcmpError::new(facts.clone()))))?;
    let sender = events.clone();
    let requests = graph
        .register(request::spec(), move |_| Behaviour::Expand(Box::new(request::EchoRequests::new(sender.clone()))))?;
    Ok(Nodes { input, requests })
}
