//! ICMP for IPv6 (RFC 4443): echo is answered, errors are sent.

mod error;
mod input;

pub use error::Report;

use crate::capability::{Capability, Stage};
use crate::icmp::SharedPolicy;
use crate::interface::SharedFacts;
use crate::ip::Fibs6;
use graph::{Behaviour, Graph, GraphError};
use tables::ObjectHandle;

/// For `show plugins` and `show features`.
pub(crate) const CAPABILITY: Capability = Capability {
    name: "icmp6",
    description: "Internet Control Message Protocol for IPv6 (RFC 4443): echo, errors",
    stages: &[
        Stage::new("ip6-local", "ip6-icmp-input", crate::ip6::when_enabled),
        Stage::new("ip6-error", "ip6-icmp-error", crate::ip6::when_enabled),
    ],
};

/// Registers the capability's nodes.
///
/// # Errors
/// When the graph is full.
pub(crate) fn register(
    graph: &mut Graph,
    facts: &SharedFacts,
    policy: &SharedPolicy,
    fibs: &Fibs6,
    objects: &ObjectHandle,
) -> Result<(), GraphError> {
    let seen = facts.clone();
    graph.register(input::spec(), move |_| Behaviour::Map(Box::new(input::Icmp6Input::new(seen.clone()))))?;
    let (facts, policy, fibs, objects) = (facts.clone(), policy.clone(), fibs.clone(), objects.clone());
    let error = move || error::Icmp6Error::new(fibs.clone(), objects.clone(), facts.clone(), policy.clone());
    graph.register(error::spec(), move |_| Behaviour::Map(Box::new(error())))?;
    Ok(())
}
