//! ARP (RFC 826): the Ethernet addresses of IPv4 neighbours.
//!
//! Workers answer requests and learn from the messages of neighbours ([`input`]), within the limits that operators set
//! ([`policy`]). The control thread sends requests and announcements ([`send`]). The neighbours themselves are in
//! [`crate::neighbour`].

pub mod cli;
pub(crate) mod config;
mod input;
mod send;

use crate::capability::{Chapter, Description, Stage};
use crate::config::{Part, Phase};
use crate::events::EventSender;
use crate::interface::SharedViews;
use crate::ip::Fibs4;
use crate::ip::on_link::OnLink;
use crate::neighbour;
use crate::neighbour::glean::{self, Glean};
use crate::neighbour::known::Neighbours;
use crate::neighbour::policy::{Policy, SharedPolicy};
use crate::neighbour::resolve::{self, Resolve};
use crate::neighbour::table::Table;
use graph::{Behaviour, Graph, GraphError, NodeIndex};

use rcu::Published;
use std::sync::Arc;
use tables::ObjectHandle;
use wire::Family;

pub(crate) const CAPABILITY: Description = Description {
    name: "arp",
    description: "Address Resolution Protocol (RFC 826)",
    nodes: &["arp-input", "ip4-glean", "ip4-arp"],
    commands: cli::register,
    statements: &[(Phase::Neighbours, Part::Few(config::statements))],
    chapters: &[Chapter {
        stage: Stage::Network,
        title: "ARP",
        about: "Questions and answers about neighbours (RFC 826), and packets that wait for an answer.",
        nodes: &["arp-input", "ip4-glean", "ip4-arp"],
    }],
    ..Description::NONE
};

/// Nodes that the control thread sends messages to.
pub(crate) struct Nodes {
    pub arp: NodeIndex,
}

/// Registers the capability's nodes; returns the control thread's side of what they share.
///
/// # Errors
/// When the graph is full.
pub(crate) fn register(
    graph: &mut Graph,
    view: &SharedViews,
    fibs: &Fibs4,
    objects: &ObjectHandle,
    events: &EventSender<neighbour::Event>,
) -> Result<(Nodes, Neighbours), GraphError> {
    let table = Table::new(graph.domain());
    let policy: SharedPolicy = Arc::new(Published::new(graph.domain(), Policy::default()));
    let tables = input::Tables {
        view: view.clone(),
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
    let arp = graph.register(resolve::spec(Family::Ip4), move |_| {
        let resolve =
            Resolve::new(Family::Ip4, objects.clone(), events.clone(), known.clone(), shared_policy.clone(), share);
        Behaviour::Expand(Box::new(resolve))
    })?;
    let (known, view) = (table.shared(), view.clone());
    graph.register(glean::spec(Family::Ip4), move |_| {
        Behaviour::Map(Box::new(Glean::new(Family::Ip4, known.clone(), gleaned.clone(), view.clone())))
    })?;
    Ok((Nodes { arp }, Neighbours::new(table, policy)))
}
