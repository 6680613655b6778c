//! Neighbor Discovery for IPv6 (RFC 4861): the Ethernet addresses of IPv6 neighbours.
//!
//! Workers answer solicitations and learn from the messages of neighbours ([`input`]), and tell hosts of better next
//! hops ([`redirect`]). The control thread sends solicitations and announcements ([`send`]). It probes the link for
//! each of this router's addresses before it uses the address ([`dad`]). The router answers for hosts behind other
//! interfaces ([`proxy`]). The neighbours themselves are in [`crate::neighbour`].

pub mod cli;
pub(crate) mod config;
pub mod dad;
mod input;
pub mod proxy;
mod redirect;
mod send;

pub(crate) use input::finish;

use crate::capability::{Chapter, Description, Stage, Tick};
use crate::config::{Part, Phase};
use crate::events::EventSender;
use crate::icmp::SharedPolicy;
use crate::icmp::redirect::{Redirect, Tables};
use crate::interface::SharedViews;
use crate::ip::Fibs6;
use crate::ip::on_link::OnLink;
use crate::neighbour;
use crate::neighbour::glean::{self, Glean};
use crate::neighbour::known::Neighbours;
use crate::neighbour::resolve::{self, Resolve};
use crate::neighbour::stale::{self, StaleNeighbour};
use graph::{Behaviour, Graph, GraphError, InterfaceIndex, NodeIndex};
use std::net::Ipv6Addr;
use tables::ObjectHandle;
use wire::nd::RouterAdvertisement;
use wire::{Family, MacAddress};

pub(crate) const CAPABILITY: Description = Description {
    name: "nd",
    description: "Neighbor Discovery for IPv6 (RFC 4861)",
    nodes: &["icmp6-neighbor-discovery", "ip6-glean", "ip6-discover-neighbor", "ip6-redirect", "ip6-stale-neighbor"],
    commands: cli::register,
    statements: &[(Phase::Basics, Part::Few(config::statements)), (Phase::Proxies, Part::Few(config::proxied))],
    ticks: &[Tick::new(|router, now| router.tick_detection(now), |router| router.detection.next_due()).before_links()],
    chapters: &[Chapter {
        stage: Stage::Network,
        title: "Neighbor Discovery",
        about: "IPv6 neighbours (RFC 4861), and packets that wait for an answer.",
        nodes: &[
            "icmp6-neighbor-discovery",
            "ip6-glean",
            "ip6-discover-neighbor",
            "ip6-redirect",
            "ip6-stale-neighbor",
        ],
    }],
    ..Description::NONE
};

/// What workers report to the control thread about routers and hosts on a link. `router_advertisement` handles it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterEvent {
    /// A host sent a solicitation; with its address and its Ethernet address when it contains both.
    Solicited(InterfaceIndex, Option<(Ipv6Addr, MacAddress)>),
    /// Another router sent an advertisement.
    Heard(InterfaceIndex, Ipv6Addr, MacAddress, RouterAdvertisement),
}

/// Nodes that the control thread sends messages to.
pub(crate) struct Nodes {
    pub discover: NodeIndex,
}

/// Registers the capability's nodes.
///
/// # Errors
/// When the graph is full.
pub(crate) fn register(
    graph: &mut Graph,
    view: &SharedViews,
    policy: &SharedPolicy,
    fibs: &Fibs6,
    objects: &ObjectHandle,
    neighbours: &Neighbours,
    (events, of_routers): (&EventSender<neighbour::Event>, &EventSender<RouterEvent>),
) -> Result<Nodes, GraphError> {
    let tables = input::Tables {
        view: view.clone(),
        neighbours: neighbours.shared(),
        policy: neighbours.shared_policy(),
        routes: OnLink::new(fibs, objects),
    };
    let redirecting = Tables { objects: objects.clone(), view: view.clone(), policy: policy.clone() };
    graph.register(redirect::spec(), move |_| {
        Behaviour::Expand(Box::new(Redirect::<redirect::Advice6>::new(redirecting.clone())))
    })?;
    let (sender, of_routers) = (events.clone(), of_routers.clone());
    graph.register(input::spec(), move |_| {
        Behaviour::Map(Box::new(input::NdInput::new(tables.clone(), sender.clone(), of_routers.clone())))
    })?;
    let (known, used, sender) = (neighbours.shared(), objects.clone(), events.clone());
    graph.register(stale::spec(), move |_| {
        Behaviour::Map(Box::new(StaleNeighbour::new(known.clone(), used.clone(), sender.clone())))
    })?;
    let (held, gleaned, events) = (objects.clone(), objects.clone(), events.clone());
    let (known, policy) = (neighbours.shared(), neighbours.shared_policy());
    let share = graph.pool().capacity() as usize / graph.workers();
    let discover = graph.register(resolve::spec(Family::Ip6), move |_| {
        let resolve = Resolve::new(Family::Ip6, held.clone(), events.clone(), known.clone(), policy.clone(), share);
        Behaviour::Expand(Box::new(resolve))
    })?;
    let (known, view) = (neighbours.shared(), view.clone());
    graph.register(glean::spec(Family::Ip6), move |_| {
        Behaviour::Map(Box::new(Glean::new(Family::Ip6, known.clone(), gleaned.clone(), view.clone())))
    })?;
    Ok(Nodes { discover })
}
