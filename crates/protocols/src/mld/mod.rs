//! Multicast Listener Discovery (RFC 3810, RFC 2710): which groups are listened to on a link.
//!
//! Snooping switches forward frames for a group only to stations that have reported it. A router that does not report
//! the groups of its own addresses is not found by its neighbours. So the control thread reports them ([`control`]) and
//! answers queries. Where the operator wants it, it also sends queries ([`querier`]), because such switches need a
//! querier on the link. A node reads the reports of other stations ([`input`]). The router forwards no group traffic.

pub mod cli;
pub(crate) mod config;
pub mod control;
mod input;
pub mod querier;
mod send;

pub use control::{listen_anew, report_all};

use control::Listening;
use graph::{Behaviour, InterfaceIndex};
use router::capability::{Chapter, Description, Farewell, Notice, Part, Parting, Phase, Stage, Starting, Tick};
use router::{Error, Router};
use std::net::Ipv6Addr;
use wire::Family;
use wire::mld::Query;

pub const CAPABILITY: Description = Description {
    name: "mld",
    description: "Multicast Listener Discovery (RFC 3810): own groups are reported, queries answered and sent",
    start,
    nodes: &["icmp6-multicast-listener"],
    // Nothing is said on a link that goes down with its port: the router comes back to its groups.
    hears,
    farewells: &[Farewell { when: &[Parting::Exit, Parting::Ip6], say: control::leave_groups }],
    commands: cli::register,
    statements: &[(Phase::OnInterfaces, Part::Few(config::statements))],
    ticks: &[Tick::new(control::tick_listening, |router| router.state::<Listening>().next_due())],
    chapters: &[Chapter {
        stage: Stage::Network,
        title: "Multicast listeners",
        about: "Listeners to IPv6 multicast groups (MLD, RFC 3810).",
        nodes: &["icmp6-multicast-listener"],
    }],
    ..Description::NONE
};

fn hears(router: &mut Router, notice: &Notice) {
    match notice {
        Notice::Leaving(interface) => router.state_mut::<Listening>().forget(*interface),
        Notice::AddressRemoved { interface, address } if address.family() == Family::Ip6 => {
            control::listen_anew(router, *interface);
        }
        _ => {}
    }
}

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

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    starting.own(Listening::default());
    let (view, events) = (starting.core.view.clone(), starting.events(control::handle_listening));
    starting.graph.register(input::spec(), move |_| {
        Behaviour::Map(Box::new(input::MldInput::new(view.clone(), events.clone())))
    })?;
    Ok(())
}
