//! How nodes, edges and interfaces are named, and how many there may be.

/// Names a node of the graph.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeIndex(pub u32);

/// An interface, as metadata and counters name it (VPP: `sw_if_index`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(transparent)]
pub struct InterfaceIndex(pub u32);

impl std::fmt::Display for InterfaceIndex {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Where a packet goes next: an index into its node's list of edges.
pub type EdgeIndex = u16;

/// Most nodes, error counters and interfaces. Most interfaces have two nodes of their own. A node's number plus one has
/// 15 bits where it is packed (`worker::running`).
pub const MAX_NODES: usize = (1 << 15) - 1;
pub const MAX_ERRORS: usize = 1 << 16;
pub const MAX_INTERFACES: usize = 1 << 14;
