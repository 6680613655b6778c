//! ARP (RFC 826): who has which Ethernet address.
//!
//! Workers answer requests ([`input`]) and hold packets for unknown neighbours
//! ([`resolve`]); they tell control what they saw as [`Event`]s. Control keeps the
//! neighbours, asks for them, and ages them ([`control`]).

pub mod cli;
pub(crate) mod config;
pub mod control;
mod input;
pub mod resolve;

use crate::capability::{self, Capability, Stage};
use crate::events::EventSender;
use crate::interface::SharedFacts;
use crate::ip4::on_link::OnLink;
use graph::{Behaviour, Graph, GraphError, InterfaceIndex, NodeIndex};
use std::net::Ipv4Addr;
use tables::{Lookup4, ObjectHandle};
use wire::MacAddress;

/// For `show plugins` and `show features`.
pub(crate) const CAPABILITY: Capability = Capability {
    name: "arp",
    description: "Address Resolution Protocol (RFC 826)",
    stages: &[
        Stage::new("arp", "arp-input", capability::when_addressed),
        Stage::new("ip4-glean", "ip4-glean", capability::when_addressed),
        Stage::new("ip4-arp", "ip4-arp", capability::when_addressed),
    ],
};

/// A neighbour: an address on an interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NeighbourKey {
    pub interface: InterfaceIndex,
    pub address: Ipv4Addr,
}

/// What workers tell control about neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Packets wait for this neighbour.
    Resolve(NeighbourKey),
    /// This neighbour said that it has this address.
    Learned(NeighbourKey, MacAddress),
}

/// Nodes that control talks to.
pub(crate) struct Nodes {
    pub arp: NodeIndex,
    pub glean: NodeIndex,
}

/// Registers the capability's nodes.
///
/// # Errors
/// When the graph is full.
pub(crate) fn register(
    graph: &mut Graph,
    facts: &SharedFacts,
    fib: &Lookup4,
    objects: &ObjectHandle,
    events: &EventSender,
) -> Result<Nodes, GraphError> {
    let (shared, routes, sender) = (facts.clone(), OnLink::new(fib, objects), events.clone());
    graph.register(input::spec(), move |_| {
        Behaviour::Map(Box::new(input::ArpInput::new(shared.clone(), routes.clone(), sender.clone())))
    })?;
    let mut resolver = |name: &str| {
        let (objects, events) = (objects.clone(), events.clone());
        graph.register(resolve::spec(name), move |_| {
            Behaviour::Expand(Box::new(resolve::Resolve::new(objects.clone(), events.clone())))
        })
    };
    Ok(Nodes { arp: resolver("ip4-arp")?, glean: resolver("ip4-glean")? })
}
