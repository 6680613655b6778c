//! `ip4-udp-lookup`, `ip6-udp-lookup`: UDP to this router, by destination port.
//!
//! Reads: the datagram, whose offset from `l3` is in scratch, in all of its buffers. Writes: for a listener,
//! the offset of the UDP header (from the buffer's start) into scratch. A listener only gets datagrams with the header
//! in the first buffer and a correct length and checksum. Bytes beyond the length in the UDP header do not belong to
//! the datagram. Next: the node that is registered for the port; `ip4-punt` or `ip6-punt` when there is none.

use super::transport::Transport;
use graph::{Context, EdgeIndex, Map, NodeSpec, Row, Scratch, Vector, flag};
use rcu::Published;
use router::headers::payload_at;
use router::headers::transport_checksum;
pub use router::reply::unclaimed::Unclaimed;
use std::sync::Arc;
use wire::ipv4::Protocol;
use wire::{Family, udp};

graph::edges! {
    /// The edges to the listeners' nodes follow these.
    pub enum Edge like edge6::Edge {
        Unclaimed => next "ip4-punt",
        /// A datagram to this router is shorter than a UDP header. The sender is at fault (RFC 768).
        Truncated => warn "udp header truncated",
        /// The length in the UDP header of a datagram to this router is less than 8, or extends beyond the IPv4
        /// packet. The sender is at fault (RFC 768).
        BadLength => warn "inconsistent udp/ip lengths",
        /// The UDP checksum of a datagram to this router is wrong: the datagram was altered on its way (RFC 1122
        /// 4.1.3.4). Look for a bad link or a device that rewrites packets.
        BadChecksum => warn "bad udp checksum",
    }
}

/// The same for `ip6-udp-lookup`, in the same order.
mod edge6 {
    graph::edges! {
        /// The edges to the listeners' nodes follow these.
        pub enum Edge {
            Unclaimed => next "ip6-punt",
            /// A datagram to this router is shorter than a UDP header, or its extension headers push the UDP header
            /// out of the packet's first buffer. The sender is at fault (RFC 768).
            Truncated => warn "udp header truncated",
            /// The length in the UDP header of a datagram to this router is less than 8, or extends beyond the IPv6
            /// packet. The sender is at fault (RFC 768, RFC 8200 8.1).
            BadLength => warn "inconsistent udp/ip lengths",
            /// The UDP checksum of a datagram to this router is wrong: the datagram was altered on its way (RFC 8200
            /// 8.1). Look for a bad link or a device that rewrites packets.
            BadChecksum => warn "bad udp checksum",
            /// A datagram to this router has no UDP checksum. IPv6 requires one, because nothing else protects its
            /// addresses (RFC 8200 8.1). The sender is at fault.
            NoChecksum => warn "udp checksum is zero",
        }
    }
}

pub const NAME4: &str = "ip4-udp-lookup";
pub const NAME6: &str = "ip6-udp-lookup";

pub fn spec(family: Family) -> NodeSpec {
    let (name, edges) = match family {
        Family::Ip4 => (NAME4, Edge::EDGES),
        Family::Ip6 => (NAME6, edge6::Edge::EDGES),
    };
    NodeSpec { name: name.into(), edges, counters: &[], trace: router::headers::trace_of(family) }
}

/// The ports that have listeners, in order, each with the edge from the family's node to its listener.
#[derive(Debug, Clone, Default)]
pub(crate) struct PortTable {
    pub ip4: Vec<(u16, EdgeIndex)>,
    pub ip6: Vec<(u16, EdgeIndex)>,
}

/// The table as the control thread publishes it.
pub(crate) type SharedPorts = Arc<Published<PortTable>>;

impl PortTable {
    fn of(&self, family: Family) -> &[(u16, EdgeIndex)] {
        match family {
            Family::Ip4 => &self.ip4,
            Family::Ip6 => &self.ip6,
        }
    }
}

pub struct UdpLookup {
    family: Family,
    ports: SharedPorts,
}

graph::scratch_number! {
    /// Where the UDP header of a datagram is for its listener: bytes from the start of the packet's buffer.
    pub struct DatagramAt(u32) = "udp datagram offset"
}

/// What `ip4-udp-lookup` or `ip6-udp-lookup` left as [`DatagramAt`]. Without it there is no datagram: the offset is
/// beyond any buffer.
pub fn datagram_at(row: &Row) -> usize {
    row.scratch.read().map_or(usize::from(u16::MAX), |DatagramAt(at)| at as usize)
}

impl UdpLookup {
    pub(crate) fn new(family: Family, ports: SharedPorts) -> UdpLookup {
        UdpLookup { family, ports }
    }
}

impl Map for UdpLookup {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let ports = self.ports.load(cx.round).of(self.family);
        for i in 0..vector.len() {
            let row = vector.row(i);
            let (to, scratch) = match datagram(self.family, cx, &row) {
                Err(fault) => (fault, Scratch::NONE),
                Ok((port, start)) => match ports.binary_search_by_key(&port, |(port, _)| *port) {
                    Ok(at) => (ports[at].1, Scratch::of(DatagramAt(start as u32))),
                    Err(_) => (Edge::Unclaimed.into(), Scratch::of(Unclaimed::Port)),
                },
            };
            vector.set_scratch(i, scratch);
            vector.set_edge(i, to);
        }
    }
}

/// The destination port of a valid datagram, and the offset of its UDP header.
fn datagram(family: Family, cx: &Context<'_>, row: &Row) -> Result<(u16, usize), EdgeIndex> {
    let transport = Transport::behind(family, cx, row, payload_at(row));
    let start = transport.start;
    if transport.here < udp::HEADER_LEN {
        return Err(Edge::Truncated.into());
    }
    let header = udp::Header::new_unchecked(&cx.buffers.bytes(row.packet)[start..start + udp::HEADER_LEN]);
    let length = header.length() as usize;
    if length < udp::HEADER_LEN || length > transport.whole {
        return Err(Edge::BadLength.into());
    }
    // A host on the same machine may leave the checksum to its device.
    let is_whole = row.flags & flag::PARTIAL_CHECKSUM == 0;
    match (header.checksum(), family) {
        // Zero means no checksum (RFC 768), which IPv6 does not allow.
        (0, Family::Ip4) => {}
        (0, Family::Ip6) if is_whole => return Err(edge6::Edge::NoChecksum.into()),
        _ if is_whole => {
            let pseudo_header = transport.pseudo_header(Protocol::UDP, length);
            if transport_checksum(cx, row, start, length, pseudo_header) != 0 {
                return Err(Edge::BadChecksum.into());
            }
        }
        _ => {}
    }
    Ok((header.dst_port(), start))
}
