//! From where packets leave by interfaces: nodes with an edge to each interface's output or tx node.

use super::Interface;
use graph::NodeIndex;
use wire::Family;

/// A node from which packets leave by interfaces, by what it sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// Packets of a family, with their link header.
    Ip(Family),
    /// The same behind labels.
    Labelled,
    /// Frames, whose interface is in their row.
    Frames,
    /// Frames that have passed all features of the interface's output. They go to its tx node, past its output.
    Device,
}

/// All nodes that are exits, each with the arc that its packets pass.
pub(crate) type Exits = Vec<(Exit, NodeIndex, Option<&'static str>)>;

/// The edges of exits to one interface.
pub(crate) type Edges = Vec<(Exit, u16)>;

impl Interface {
    /// The edge to this interface from the node that sends such packets.
    ///
    /// # Panics
    /// When no node does ([`crate::capability::Starting::leaves`]): a programmer's error that shows at the first
    /// interface.
    pub(crate) fn exit(&self, exit: Exit) -> u16 {
        let edge = self.edges.iter().find(|(of, _)| *of == exit);
        edge.map(|(_, edge)| *edge).unwrap_or_else(|| panic!("no node is the exit of {exit:?}"))
    }
}
