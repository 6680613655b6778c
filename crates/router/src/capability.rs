//! What a capability says of itself: its name, its nodes, the packet flags and feature arcs that are its own, and its
//! features.

use crate::interface::Interface;

/// The names of an interface's own nodes, where all interfaces are meant.
pub const OUTPUT: &str = "INTERFACE-output";
pub const TX: &str = "INTERFACE-tx";
/// Of a sub-interface, ahead of its parent's.
pub const SUB_OUTPUT: &str = "SUBINTERFACE-output";

impl Capability {
    /// A capability of which nothing more is known: what an own one leaves open.
    pub const NONE: Capability =
        Capability { name: "", description: "", flags: 0, nodes: &[], arcs: &[], features: &[] };
}

pub struct Capability {
    pub name: &'static str,
    pub description: &'static str,
    /// Packet flags that are its own ([`graph::flag::claimable`]).
    pub flags: u32,
    /// Its nodes. Nodes that are not named are no capability's own.
    pub nodes: &'static [&'static str],
    /// Feature arcs that are its own, each with the node in which it ends.
    pub arcs: &'static [(&'static str, &'static str)],
    pub features: &'static [FeatureSpec],
}

/// A feature: a node that packets of an interface pass where it is enabled ([`graph::Feature`]).
pub struct FeatureSpec {
    pub feature: graph::Feature,
    /// What it does for packets of an interface on which it is enabled, in a few words or none.
    pub does: fn(&Interface) -> String,
}

impl FeatureSpec {
    /// A feature of an arc, in any place.
    pub const fn new(arc: &'static str, node: &'static str, does: fn(&Interface) -> String) -> FeatureSpec {
        FeatureSpec { feature: graph::Feature { arc, node, after: &[], before: &[] }, does }
    }

    /// It stands before these other features.
    pub const fn before(mut self, before: &'static [&'static str]) -> FeatureSpec {
        self.feature.before = before;
        self
    }

    /// It stands behind these.
    pub const fn after(mut self, after: &'static [&'static str]) -> FeatureSpec {
        self.feature.after = after;
        self
    }
}

/// A feature that has no more to say than its name.
pub fn no_more(_: &Interface) -> String {
    String::new()
}
