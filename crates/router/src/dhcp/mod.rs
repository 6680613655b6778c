//! DHCP client (RFC 2131): an interface gets its address from the network.
//!
//! Workers read what servers say ([`input`]) and tell control, which keeps the clients and speaks for
//! them ([`control`]). A leased address is the interface's like any other, but no configuration: what an
//! operator stated is that there is a client.

pub mod cli;
pub(crate) mod config;
pub mod control;
mod input;

pub use control::DhcpClients;
pub(crate) use input::SharedClients;

use crate::capability::{Description, Tick};
use crate::config::{Part, Phase};
use crate::events::EventSender;
use graph::{Behaviour, Graph, GraphError, InterfaceIndex};
use input::ClientTable;
use rcu::Published;
use std::net::Ipv4Addr;
use std::sync::Arc;
use wire::MacAddress;
use wire::dhcp::Kind;

pub(crate) const CAPABILITY: Description = Description {
    name: "dhcp",
    description: "DHCP client (RFC 2131)",
    nodes: &[input::NAME],
    commands: cli::register,
    statements: &[(Phase::Services, Part::Few(config::statements))],
    ticks: &[Tick::new(|router, now| router.tick_dhcp(now), |router| router.dhcp.next_due())],
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

/// Registers the capability's node; gives the table of clients that it reads.
///
/// # Errors
/// When the graph is full.
pub(crate) fn register(graph: &mut Graph, events: &EventSender<Event>) -> Result<SharedClients, GraphError> {
    let clients: SharedClients = Arc::new(Published::new(graph.domain(), ClientTable::default()));
    let (shared, events) = (clients.clone(), events.clone());
    graph.register(input::spec(), move |_| {
        Behaviour::Map(Box::new(input::DhcpInput::new(shared.clone(), events.clone())))
    })?;
    Ok(clients)
}
