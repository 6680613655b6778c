//! A feature, as its capability states it.

use crate::Router;
use graph::InterfaceIndex;

/// Says what a feature does for the packets of an interface.
pub type Does = fn(&Router, InterfaceIndex) -> String;

/// A feature: a node that packets of an interface pass where it is enabled ([`graph::Feature`]).
pub struct FeatureSpec {
    pub feature: graph::Feature,
    /// What it does for packets of an interface on which it is enabled, in a few words or none.
    pub does: Does,
}

impl FeatureSpec {
    /// A feature of an arc, in any place.
    pub const fn new(arc: &'static str, node: &'static str, does: Does) -> FeatureSpec {
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
pub fn no_more(_: &Router, _: InterfaceIndex) -> String {
    String::new()
}
