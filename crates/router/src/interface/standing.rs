//! Why an address of an interface is not in use: Duplicate Address Detection says so.

use crate::Router;
use graph::InterfaceIndex;
use std::fmt;
use std::net::Ipv6Addr;
use wire::MacAddress;

/// A random value in a probe, by which the sender recognises the probe when the link reflects it (RFC 7527).
pub type Nonce = [u8; 6];

/// Why one of our addresses is not in use. All addresses without a standing are in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// The router is probing the link.
    Tentative(Nonce),
    /// This station has the address.
    Duplicate(MacAddress),
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Standing::Tentative(_) => f.write_str("tentative"),
            Standing::Duplicate(mac) => write!(f, "duplicate, {mac} has it"),
        }
    }
}

/// How it is found out whether other stations have an address of ours (RFC 4862 section 5.4).
#[derive(Debug, Clone, Copy)]
pub struct Detector {
    /// Begins with addresses that are new, or those of an interface that is usable again.
    pub begin: fn(&mut Router, InterfaceIndex, &[Ipv6Addr]),
    /// Ends all of an interface that is usable no more.
    pub suspend: fn(&mut Router, InterfaceIndex),
    /// Ends that of an address which the interface has no more.
    pub end: fn(&mut Router, InterfaceIndex, Ipv6Addr),
    /// A station claims an address. Returns whether that was still being probed.
    pub claimed: fn(&mut Router, InterfaceIndex, Ipv6Addr, MacAddress) -> bool,
}

/// From the capability that does it, if there is one.
#[derive(Default)]
pub struct Detecting(pub Option<Detector>);
