//! Neighbours: the hosts on the links, and their Ethernet addresses. The same for both families; the protocols that ask
//! for them are in `protocols::arp` and `protocols::nd`.
//!
//! Workers hold packets for unknown neighbours ([`resolve`]) and report changes to the control thread as [`Event`]s.
//! The control thread keeps the neighbours ([`known`]), asks for them and ages them ([`control`]), and publishes them
//! in a table for workers ([`table`]). It also defends our addresses against other stations that claim them
//! ([`conflict`]).

pub mod arping;
pub mod cli;
pub(crate) mod config;
pub mod conflict;
pub mod control;
pub mod glean;
pub mod known;
pub mod learn;
pub mod limit;
pub mod policy;
pub mod reachability;
pub mod resolve;
pub mod resolver;
pub mod stale;
pub mod table;

use wire::MacAddress;

pub use crate::neighbour_key::NeighbourKey;

/// What a message of a neighbour proves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// The neighbour answered: packets reach it, and its packets reach us.
    Reachable,
    /// The neighbour sent a message: its packets reach us (RFC 4861 7.2.3).
    Hearsay,
}

/// What workers report to the control thread about neighbours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// Packets wait for this neighbour.
    Resolve(NeighbourKey),
    /// This neighbour said that it has this address.
    Learned(NeighbourKey, MacAddress, Evidence),
    /// Packets are sent to a neighbour that was not confirmed lately.
    Used(NeighbourKey),
    /// Another station may have the address of this neighbour.
    Doubted(NeighbourKey),
    /// Another station claims this address, which is ours.
    Conflict(NeighbourKey, MacAddress),
}
