//! Where streams of the packet generator may enter the graph.

use drivers::pg::{Entry, First};
use graph::{EdgeIndex, flag};
use wire::batch::check;

graph::edges! {
    /// The edges of `pg-input`, the first ones as [`drivers::pg::first_edge`] names them.
    pub enum Edge {
        Received => arc "device-input",
        /// Packets of a stream whose interface is administratively down: `set interface state NAME up`.
        Down => warn "interface is down",
        Ip4Input => next "ip4-input",
        Ip4InputNoChecksum => next "ip4-input-no-checksum",
        Ip6Input => next "ip6-input",
        MplsInput => next "mpls-input",
        Stall => next "pg-stall",
    }
}

const _: () = assert!(
    Edge::Received as EdgeIndex == drivers::pg::first_edge::RECEIVED
        && Edge::Down as EdgeIndex == drivers::pg::first_edge::DOWN
);

pub const ETHERNET: Entry = Entry::frames(Edge::Received as EdgeIndex);
// No header check has run on packets of these.
pub const IP4: Entry = Entry { edge: Edge::Ip4Input as EdgeIndex, first: First::Ip4, flags: flag::BARE };
/// The header's checksum is not verified.
pub const IP4_NO_CHECKSUM: Entry = Entry { edge: Edge::Ip4InputNoChecksum as EdgeIndex, ..IP4 };
pub const IP6: Entry = Entry { edge: Edge::Ip6Input as EdgeIndex, first: First::Ip6, flags: flag::BARE };
/// The first label was not looked at: see `mpls-input`.
pub const MPLS: Entry =
    Entry { edge: Edge::MplsInput as EdgeIndex, first: First::Label, flags: flag::BARE | check::NOT_IP4 };
pub const STALL: Entry = Entry::frames(Edge::Stall as EdgeIndex);

/// The entries that a stream can name, each by its node.
pub const BY_NODE: [(&str, Entry); 6] = [
    ("ethernet-input", ETHERNET),
    ("ip4-input", IP4),
    ("ip4-input-no-checksum", IP4_NO_CHECKSUM),
    ("ip6-input", IP6),
    ("mpls-input", MPLS),
    ("pg-stall", STALL),
];
