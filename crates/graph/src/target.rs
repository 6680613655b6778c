//! Where edges lead, as the dispatcher sees it.

use crate::chains::ArcIndex;
use crate::index::{InterfaceIndex, NodeIndex};

/// Where an edge leads, as the dispatcher sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Node(NodeIndex),
    /// To the node by which packets leave by an interface, along the features of an arc that are enabled there.
    Output(ArcIndex, InterfaceIndex, NodeIndex),
    /// The packet is dropped for this reason.
    Drop(u32),
    /// The packet has reached its purpose.
    End(u32),
    /// Named, but not registered yet.
    Nowhere,
}
