//! Local delivery: who of this router takes a packet that is for it.
//!
//! `ip4-local` tells protocols apart. UDP goes on by its port: capabilities register nodes for
//! ports ([`crate::Router::listen_udp`]). What nobody takes goes to `ip4-punt`, and when the host does not want
//! it either it is answered: TCP by a reset, the rest by an ICMP error.

pub mod cli;
pub mod control;
mod tcp_reset;
mod udp;

pub use control::UdpListeners;
pub(crate) use udp::{PortTable, SharedPorts};

use crate::capability::{self, Capability, Stage};
use crate::icmp::SharedPolicy;
use graph::{Behaviour, Graph, GraphError, NodeIndex};

/// For `show plugins` and `show features`.
pub(crate) const CAPABILITY: Capability = Capability {
    name: "local",
    description: "Local delivery: UDP ports, TCP resets",
    stages: &[
        Stage::new("ip4-udp-lookup", "ip4-udp-lookup", capability::when_up),
        Stage::new("tcp4-reset", "tcp4-reset", capability::when_up),
    ],
};

/// Nodes that control talks to.
pub(crate) struct Nodes {
    pub udp: NodeIndex,
}

/// Registers the capability's nodes.
///
/// # Errors
/// When the graph is full.
pub(crate) fn register(graph: &mut Graph, ports: &SharedPorts, policy: &SharedPolicy) -> Result<Nodes, GraphError> {
    let ports = ports.clone();
    let udp = graph.register(udp::spec(), move |_| Behaviour::Map(Box::new(udp::UdpLookup::new(ports.clone()))))?;
    let policy = policy.clone();
    graph.register(tcp_reset::spec(), move |_| Behaviour::Map(Box::new(tcp_reset::TcpReset::new(policy.clone()))))?;
    Ok(Nodes { udp })
}
