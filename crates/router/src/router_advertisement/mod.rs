//! Router advertisements (RFC 4861 section 6.2): they tell the hosts of a link which prefixes, which router and which
//! name servers (RFC 8106) to use.
//!
//! The control thread sends them, by a timer for each interface and when hosts ask ([`control`]). Their contents are in
//! [`settings`], their encoding in [`message`]. The router sends none unless an operator enables them: a router that is
//! connected to an existing network must not become the default router of its hosts (RFC 4861 6.2.1,
//! AdvSendAdvertisements).

pub mod cli;
pub(crate) mod config;
pub mod control;
mod message;
pub mod settings;

pub use settings::{PrefixSettings, Settings, SettingsError};

use crate::Router;
use crate::capability::{Description, Farewell, Parting, Tick};
use crate::config::{Part, Phase};
use graph::InterfaceIndex;
use std::net::Ipv6Addr;
use wire::MacAddress;
use wire::nd::RouterAdvertisement;

pub(crate) const CAPABILITY: Description = Description {
    name: "router-advertisement",
    description: "Routers advertise prefixes and themselves to IPv6 hosts (RFC 4861)",
    farewells: &[Farewell { when: &[Parting::Down, Parting::Deleted, Parting::Exit], say: Router::cease_advertising }],
    commands: cli::register,
    statements: &[(Phase::OnInterfaces, Part::Few(config::statements))],
    ticks: &[Tick::new(|router, now| router.tick_advertising(now), |router| router.advertising.next_due())],
    ..Description::NONE
};

/// What workers report to the control thread about routers and hosts on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A host sent a solicitation; with its address and its Ethernet address when it contains both.
    Solicited(InterfaceIndex, Option<(Ipv6Addr, MacAddress)>),
    /// Another router sent an advertisement.
    Heard(InterfaceIndex, Ipv6Addr, MacAddress, RouterAdvertisement),
}
