//! Why an address of an interface is not in use: Duplicate Address Detection says so.

use std::fmt;
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
