//! The arc `error-drop`: features that see the packets of an interface that a node drops, before they are gone.
//!
//! A packet on this arc has the number of its error in `target` ([`crate::registry::ErrorInfo`] by position), which
//! features must leave as it is. The arc ends in the node `drop`, which counts the packet and frees it. What a feature
//! of the chain itself drops ends at once. So does what the dispatcher drops because it cannot deliver it, and what is
//! counted as dropped while its buffer holds the answer ([`Context::drop_original`]).

use crate::chains::ArcIndex;
use crate::node::{Behaviour, Context, Map, NodeSpec};
use crate::registry::{Graph, GraphError};
use crate::vector::{Vector, edge};
use std::fmt::Write;

/// The arc's name, as VPP has it.
pub const DROP_ARC: &str = "error-drop";
/// The node in which it ends.
pub const DROP: &str = "drop";
/// It is there in every graph.
pub(crate) const ARC: ArcIndex = ArcIndex(0);

struct Drop;

impl Map for Drop {
    fn process(&mut self, _: &mut Context<'_>, vector: &mut Vector) {
        vector.set_edges(edge::DROPPED);
    }
}

impl Graph {
    /// Registers the node in which the arc ends. Without it no feature can be enabled there.
    ///
    /// # Errors
    /// When it is registered already, or the graph is full.
    pub fn register_drop(&mut self) -> Result<(), GraphError> {
        let trace = |snapshot: &crate::Snapshot, f: &mut dyn Write| writeln!(f, "  error {}", snapshot.row.target);
        let spec = NodeSpec { name: DROP.into(), edges: &[], counters: &[], trace };
        self.register(spec, |_| Behaviour::Map(Box::new(Drop))).map(|_| ())
    }
}
