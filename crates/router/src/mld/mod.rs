//! Multicast Listener Discovery (RFC 3810, RFC 2710): which groups are listened to on a link.
//!
//! Switches that look into it ("snooping") pass frames to a group on only to who has said that it listens: a router
//! that does not say so for the groups of its own addresses is not found by its neighbours. So control reports them
//! ([`control`]), answers queries, and, where an operator wants it, asks itself ([`querier`]), as such switches need
//! one who does. What others say is read by a node ([`input`]). Nothing is routed to groups.

pub mod cli;
pub(crate) mod config;
pub mod control;
mod input;
pub mod querier;
mod send;

use crate::capability::{Capability, Stage};
use crate::events::EventSender;
use crate::interface::SharedViews;
use graph::{Behaviour, Graph, GraphError, InterfaceIndex};
use std::net::Ipv6Addr;
use wire::mld::Query;

/// For `show plugins` and `show features`.
pub(crate) const CAPABILITY: Capability = Capability {
    name: "mld",
    description: "Multicast Listener Discovery (RFC 3810): own groups are reported, queries answered and sent",
    stages: &[Stage::new("ip6-listeners", "icmp6-multicast-listener", crate::ip6::when_enabled)],
};

/// What workers tell control of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A router asks.
    Query(InterfaceIndex, Ipv6Addr, Query),
    /// Somebody listens to a group.
    Listens(InterfaceIndex, Ipv6Addr),
    /// Somebody does no longer.
    Leaves(InterfaceIndex, Ipv6Addr),
}

/// Registers the capability's node.
///
/// # Errors
/// When the graph is full.
pub(crate) fn register(graph: &mut Graph, view: &SharedViews, events: &EventSender) -> Result<(), GraphError> {
    let (view, events) = (view.clone(), events.clone());
    graph.register(input::spec(), move |_| {
        Behaviour::Map(Box::new(input::MldInput::new(view.clone(), events.clone())))
    })?;
    Ok(())
}
