//! The classes of leaf ([`tables::Leaf`]): who handles the packets of a route.
//!
//! A lookup node has an edge for each class, and finds it with one load. A new kind of route does not need a class: an
//! [`OBJECT`] names the node that handles its packets (`protocols::object`).

use tables::Leaf;

/// No route.
pub const MISS: u8 = 0;

// Specials, 0x01 to 0x1f: packets that are not forwarded. No object is needed.
/// Discard silently.
pub const DROP: u8 = 0x01;
/// To the host's control plane.
pub const PUNT: u8 = 0x02;
/// Discard, and notify the sender that there is no route.
pub const UNREACHABLE: u8 = 0x03;
/// Discard, and notify the sender that forwarding is prohibited.
pub const PROHIBIT: u8 = 0x04;
/// To all hosts of an attached network; not forwarded.
pub const BROADCAST: u8 = 0x05;
/// To this router. The index is the interface that has the address, or 0.
pub const RECEIVE: u8 = 0x06;

// Adjacencies, 0x20 to 0x2f: the index is that of an adjacency.
/// Through an adjacency: one next hop on one interface.
pub const ADJACENCY: u8 = 0x20;
/// To a neighbour on an attached network that is not known yet.
pub const GLEAN: u8 = 0x21;
/// For labels: swap the label for the one beside the leaf, and send by an adjacency.
pub const SWAP: u8 = 0x22;
/// Put a header in front of the packet, and send the result by another leaf (`protocols::midchain`).
pub const MIDCHAIN: u8 = 0x23;
/// For labels: pop the label, and send the packet inside by an adjacency. Four classes, one for each node of
/// [`crate::ip::labels::pop`].
pub const POP: u8 = 0x28;

/// Over several paths.
pub const LOAD_BALANCE: u8 = 0x30;

/// Look up in another table, the leaf's index.
pub const LOOKUP: u8 = 0x38;
/// Count, and then forward by the leaf that is stored at this place (the leaf's index).
pub const COUNTED: u8 = 0x39;
/// For labels: pop the label, and look up the packet inside in an IP table. Four classes, as for [`POP`].
pub const POP_LOOKUP: u8 = 0x3c;

/// To the node that the object names.
pub const OBJECT: u8 = 0x40;

/// Whether the leaf's index is that of an adjacency.
pub(crate) const fn is_adjacency(leaf: Leaf) -> bool {
    leaf.class() >> 4 == ADJACENCY >> 4
}
