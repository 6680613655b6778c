//! DHCP client (RFC 2131): an interface gets its address from the network.
//!
//! Workers read what servers say ([`input`]) and tell control, which keeps the clients and speaks for
//! them ([`control`]). A leased address is the interface's like any other, but no configuration: what an
//! operator stated is that there is a client.

mod cli;
mod config;
mod control;
mod input;

pub use control::{Client, DhcpClients, DhcpError, Lease, State, remove_client, set_client};

use graph::{Behaviour, InterfaceIndex};
use router::capability::{Chapter, Description, Farewell, Notice, Part, Parting, Phase, Stage, Starting, Tick};
use router::{Error, Router};
use std::net::Ipv4Addr;
use wire::MacAddress;
use wire::dhcp::Kind;

pub const CAPABILITY: Description = Description {
    name: "dhcp",
    log_classes: &[("dhcp", "dhcp")],
    codes: &[DhcpError::CODES],
    description: "DHCP client (RFC 2131)",
    nodes: &[input::NAME],
    start,
    hears,
    allows: control::allows,
    // A lease outlives an interface that is down (RFC 2131 3.2).
    farewells: &[Farewell { when: &[Parting::Deleted, Parting::Exit], say: control::release_lease }],
    commands: cli::register,
    statements: &[(Phase::Services, Part::Few(config::statements))],
    ticks: &[Tick::new(control::tick, |router| router.state::<DhcpClients>().next_due())],
    chapters: &[Chapter { stage: Stage::Local, title: "UDP and TCP", about: "", nodes: &[input::NAME] }],
    ..Description::NONE
};

/// Most of a server's text that the log shows.
const MAX_TEXT: usize = 32;
/// Most routers that are looked at for one that can be used.
const MAX_ROUTERS: usize = 8;
/// Most name servers that are kept.
const MAX_NAME_SERVERS: usize = 3;

/// What a server said to a client of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    pub interface: InterfaceIndex,
    pub transaction: u32,
    pub kind: Kind,
    /// Whose frame it came in: the server's, or that of the router or relay on the way to it.
    pub station: MacAddress,
    pub yours: Ipv4Addr,
    pub server: Option<Ipv4Addr>,
    pub lease_time: Option<u32>,
    pub renewal_time: Option<u32>,
    pub rebinding_time: Option<u32>,
    pub mask: Option<Ipv4Addr>,
    /// Those that it names, the one that it prefers first.
    pub routers: [Option<Ipv4Addr>; MAX_ROUTERS],
    pub name_servers: [Option<Ipv4Addr>; MAX_NAME_SERVERS],
    /// What it says to people; zeros follow.
    pub text: [u8; MAX_TEXT],
}

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let (events, clients) = (starting.events(control::handle), starting.per_interface());
    starting.own(control::DhcpClients::new(clients.clone()));
    let node = move |_| Behaviour::Map(Box::new(input::DhcpInput::new(clients.clone(), events.clone())));
    starting.graph.register(input::spec(), node)?;
    Ok(())
}

fn hears(router: &mut Router, notice: &Notice) {
    match notice {
        Notice::State { interface, .. } => control::link_changed(router, *interface),
        Notice::Mac(interface) => control::mac_changed(router, *interface),
        Notice::Leaving(interface) => control::forget(router, *interface),
        _ => {}
    }
}
