//! `ip4-udp-lookup`: UDP to this router, by destination port.
//!
//! Reads: the datagram behind the IPv4 header at `l3`, in as many buffers as it has. Writes: for a
//! listener, where the UDP header begins (from the buffer's start) into scratch; a listener gets datagrams
//! whose header is in the first buffer and whose length and checksum are right, of which bytes beyond the
//! length that UDP states are no part. Next: the node that is registered for the port; `ip4-punt` when
//! there is none.

use crate::headers::transport_checksum;
use crate::ip4::Unclaimed;
use graph::{Context, EdgeIndex, Map, NodeSpec, Row, Vector, flag};
use rcu::Published;
use std::sync::Arc;
use wire::checksum::pseudo_header4;
use wire::ipv4::{self, Protocol};
use wire::udp;

graph::edges! {
    /// Edges to the listeners' nodes follow these.
    pub enum Edge {
        Unclaimed => next "ip4-punt",
        /// A datagram to this router is shorter than a UDP header. The sender is at fault (RFC 768).
        Truncated => drop "udp header truncated",
        /// The length in the UDP header of a datagram to this router is below 8 or beyond the IPv4 packet. The
        /// sender is at fault (RFC 768).
        BadLength => drop "inconsistent udp/ip lengths",
        /// A datagram to this router was altered on its way: its UDP checksum is wrong (RFC 1122 4.1.3.4).
        /// Look for a bad link or a device that rewrites packets.
        BadChecksum => drop "bad udp checksum",
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-udp-lookup".into(), edges: Edge::EDGES, counters: &[], trace: crate::headers::trace_ip4 }
}

/// Ports that somebody listens to with the edges of `ip4-udp-lookup` to their nodes, by port.
#[derive(Debug, Clone, Default)]
pub(crate) struct PortTable(pub Vec<(u16, EdgeIndex)>);

/// The table as control publishes it.
pub(crate) type SharedPorts = Arc<Published<PortTable>>;

impl PortTable {
    fn listener(&self, port: u16) -> Option<EdgeIndex> {
        let at = self.0.binary_search_by_key(&port, |(port, _)| *port).ok()?;
        Some(self.0[at].1)
    }
}

pub struct UdpLookup {
    ports: SharedPorts,
}

impl UdpLookup {
    pub(crate) fn new(ports: SharedPorts) -> UdpLookup {
        UdpLookup { ports }
    }
}

impl Map for UdpLookup {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let ports = self.ports.load(cx.round);
        for i in 0..vector.len() {
            let row = vector.row(i);
            let (to, scratch) = match datagram(cx, &row) {
                Err(fault) => (fault.into(), 0),
                Ok((port, start)) => match ports.listener(port) {
                    Some(edge) => (edge, start as u64),
                    None => (Edge::Unclaimed.into(), Unclaimed::Port.into()),
                },
            };
            vector.set_scratch(i, scratch);
            vector.set_edge(i, to);
        }
    }
}

/// The destination port of a sound datagram, and where its UDP header begins.
fn datagram(cx: &Context<'_>, row: &Row) -> Result<(u16, usize), Edge> {
    let bytes = cx.buffers.bytes(row.packet);
    let ip = ipv4::Header::new_unchecked(&bytes[row.l3 as usize..]);
    let start = row.l3 as usize + ip.header_len();
    let here = (row.first_length(cx.buffers) + row.l2 as usize).saturating_sub(start);
    let whole = row.l3_length().saturating_sub(ip.header_len());
    if here < udp::HEADER_LEN {
        return Err(Edge::Truncated);
    }
    let header = udp::Header::new_unchecked(&bytes[start..start + udp::HEADER_LEN]);
    let length = header.length();
    if (length as usize) < udp::HEADER_LEN || length as usize > whole {
        return Err(Edge::BadLength);
    }
    // A checksum of zero is none (RFC 768); a host behind the same machine may leave it to its device.
    if header.checksum() != 0 && row.flags & flag::PARTIAL_CHECKSUM == 0 {
        let pseudo_header = pseudo_header4(ip.src(), ip.dst(), Protocol::UDP.0, length);
        if transport_checksum(cx, row, start, length.into(), pseudo_header) != 0 {
            return Err(Edge::BadChecksum);
        }
    }
    Ok((header.dst_port(), start))
}
