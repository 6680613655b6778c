//! ARP (RFC 826): who has which Ethernet address.
//!
//! Workers answer requests ([`input`]) and hold packets for unknown neighbours
//! ([`resolve`]); they tell control what is news as [`Event`]s. Control keeps the
//! neighbours, asks for them, and ages them ([`control`]); what it knows is in a table
//! for workers ([`table`]), what operators set in another ([`policy`]).

pub mod cli;
pub(crate) mod config;
pub mod control;
mod glean;
mod input;
mod limit;
pub mod policy;
pub mod resolve;
mod table;

use crate::capability::{self, Capability, Stage};
use crate::events::EventSender;
use crate::interface::SharedFacts;
use crate::ip4::Fibs;
use crate::ip4::on_link::OnLink;
use control::Neighbours;
use graph::{Behaviour, Graph, GraphError, InterfaceIndex, NodeIndex};
use policy::{Policy, SharedPolicy};
use rcu::Published;
use resolve::Resolve;
use std::net::Ipv4Addr;
use std::sync::Arc;
use table::Table;
use tables::ObjectHandle;
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
    /// Somebody said that it has this address, which is ours.
    Conflict(NeighbourKey, MacAddress),
}

/// Nodes that control talks to.
pub(crate) struct Nodes {
    pub arp: NodeIndex,
}

/// Registers the capability's nodes; gives control's side of what they share.
///
/// # Errors
/// When the graph is full.
pub(crate) fn register(
    graph: &mut Graph,
    facts: &SharedFacts,
    fibs: &Fibs,
    objects: &ObjectHandle,
    events: &EventSender,
) -> Result<(Nodes, Neighbours), GraphError> {
    let table = Table::new(graph.domain());
    let policy: SharedPolicy = Arc::new(Published::new(graph.domain(), Policy::default()));
    let tables = input::Tables {
        facts: facts.clone(),
        neighbours: table.shared(),
        policy: policy.clone(),
        fibs: fibs.clone(),
        objects: objects.clone(),
        routes: OnLink::new(fibs, objects),
    };
    let sender = events.clone();
    graph.register(input::spec(), move |_| {
        Behaviour::Map(Box::new(input::ArpInput::new(tables.clone(), sender.clone())))
    })?;
    let (objects, gleaned, events) = (objects.clone(), objects.clone(), events.clone());
    let (known, shared_policy) = (table.shared(), policy.clone());
    let share = graph.pool().capacity() as usize / graph.workers();
    let arp = graph.register(resolve::spec(), move |_| {
        let resolve = Resolve::new(objects.clone(), events.clone(), known.clone(), shared_policy.clone(), share);
        Behaviour::Expand(Box::new(resolve))
    })?;
    let known = table.shared();
    graph.register(glean::spec(), move |_| {
        Behaviour::Map(Box::new(glean::Glean::new(known.clone(), gleaned.clone())))
    })?;
    Ok((Nodes { arp }, Neighbours::new(table, policy)))
}
