//! The arc `error-drop`: features that see the packets of an interface that a node drops, before they are gone.
//!
//! A packet on this arc has the number of its error in `target` ([`crate::registry::ErrorInfo`] by position), which
//! features must leave as it is. The arc ends in the node `drop`, which counts the packet and frees it. What a feature
//! of the chain itself drops ends at once. So does what the dispatcher drops because it cannot deliver it, and what is
//! counted as dropped while its buffer holds the answer ([`Context::drop_original`]).

use crate::chains::ArcIndex;
use crate::node::{Context, Map};
use crate::vector::{Vector, edge};

/// The arc's name, as VPP has it.
pub const DROP_ARC: &str = "error-drop";
/// The node in which it ends.
pub const DROP: &str = "drop";
/// It is there in every graph.
pub(crate) const ARC: ArcIndex = ArcIndex(0);

pub(crate) struct Drop;

impl Map for Drop {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) {
        vector.set_edges(edge::DROPPED);
    }
}
