//! Router advertisements (RFC 4861 section 6.2): what tells hosts of a link which prefixes, which router and which
//! name servers (RFC 8106) they have.
//!
//! Control speaks, by a timer for each interface and when hosts ask ([`control`]); what is said is in [`settings`],
//! how it is written in [`message`]. Nothing is said unless an operator wants it: a router that is plugged into
//! somebody's network must not become the default router of its hosts (RFC 4861 6.2.1, AdvSendAdvertisements).

pub mod cli;
pub(crate) mod config;
pub mod control;
mod message;
pub mod settings;

pub use settings::{PrefixSettings, Settings, SettingsError};

use graph::InterfaceIndex;
use std::net::Ipv6Addr;
use wire::MacAddress;
use wire::nd::RouterAdvertisement;

/// What workers tell control of routers and hosts on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// A host asks which routers there are; with its address and Ethernet address when it tells both.
    Solicited(InterfaceIndex, Option<(Ipv6Addr, MacAddress)>),
    /// Another router speaks.
    Heard(InterfaceIndex, Ipv6Addr, MacAddress, RouterAdvertisement),
}
