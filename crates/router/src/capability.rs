//! What a capability says of itself: for `show plugins`, and which of its nodes stand
//! where on a packet's way, for `show features`.

use crate::interface::Interface;

/// The names of an interface's own nodes, where all interfaces are meant.
pub const OUTPUT: &str = "INTERFACE-output";
pub const TX: &str = "INTERFACE-tx";
/// Of a sub-interface, ahead of its parent's.
pub const SUB_OUTPUT: &str = "SUBINTERFACE-output";

pub struct Capability {
    pub name: &'static str,
    pub description: &'static str,
    /// Packet flags that are its own ([`graph::flag::claimable`]).
    pub flags: u32,
    pub stages: &'static [Stage],
}

/// A node on a part of the packet's way. In what order the nodes of an arc come is the
/// graph's to say.
pub struct Stage {
    pub arc: &'static str,
    pub node: &'static str,
    /// What it does for packets of an interface, in a few words or none; `None`: it has
    /// nothing to do with them.
    pub on: fn(&Interface) -> Option<String>,
}

impl Stage {
    pub const fn new(arc: &'static str, node: &'static str, on: fn(&Interface) -> Option<String>) -> Stage {
        Stage { arc, node, on }
    }
}

/// It works on packets of every interface that is up.
pub fn when_up(interface: &Interface) -> Option<String> {
    interface.is_up().then(String::new)
}

/// It needs an address on the interface, too.
pub fn when_addressed(interface: &Interface) -> Option<String> {
    (interface.is_up() && interface.is_ip4_enabled()).then(String::new)
}
