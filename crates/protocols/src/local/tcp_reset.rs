//! `tcp4-reset`, `tcp6-reset`: answer a TCP segment to a port of this router without a listener with a reset (RFC 9293
//! 3.10.7.1: the behaviour of the state CLOSED).
//!
//! Reads: the segment, whose offset from `l3` is in scratch. Writes: the reset in the packet's place;
//! `target`, the segment's sender. Next: `ip4-lookup` or `ip6-lookup`; `ip6-glean` when one of its addresses is
//! link-local. Each worker sends no more resets than it may send ICMP errors, so that a flood of segments does not
//! become a flood of answers.

use super::reset::{self, Segment};
use super::transport::Transport;
use crate::icmp6::becomes_ours;
use crate::ip6::reply_path::{ReplyPath, choose as choose_reply_path};
use graph::{Context, CounterSpec, EdgeIndex, InterfaceIndex, Map, NodeSpec, Row, Scratch, Severity, Vector, flag};
use router::headers::payload_at;
use router::headers::{is_one_host, transport_checksum};
use router::interface::SharedViews;
use router::rate::TokenBucket;
pub use router::reply::policy::SharedPolicy;
pub use router::reply::report::keep_first_buffer;
use std::net::{IpAddr, Ipv4Addr};
use tables::Leaf;
use wire::batch::check;
use wire::ipv4::Protocol;
use wire::tcp::{self, Flags};
use wire::{Family, ipv4, ipv6};

graph::edges! {
    pub enum Edge like edge6::Edge {
        Lookup => next "ip4-lookup",
        /// A TCP segment to this router is shorter than the header that it claims, or claims a header of less than 20
        /// bytes. The sender is at fault (RFC 9293 3.1).
        BadLength => warn "inconsistent ip/tcp lengths",
        /// The checksum of a TCP segment to this router is wrong: the segment was altered on its way (RFC 9293 3.1).
        /// Look for a bad link or a device that rewrites packets.
        BadChecksum => warn "bad tcp checksum",
        /// A TCP reset arrived for a connection that this router does not have. The router never answers a reset (RFC
        /// 9293 3.10.7.1), so nothing is wrong here.
        AboutReset => end "no TCP reset about a reset",
        /// A TCP segment arrived for a broadcast or multicast address. TCP works only between two hosts (RFC 9293
        /// 3.9.2.3).
        AboutGroup => end "no TCP reset about a group-addressed segment",
        /// A TCP segment arrived from an address that no host can have, so the router cannot answer it (RFC 9293
        /// 3.9.2.3).
        AboutSource => end "no TCP reset to a source that is not one host",
        /// More TCP segments arrived for ports without a listener than a worker may answer. This is a scan or a
        /// flood. The limit is that of ICMP errors.
        RateLimited => end "TCP resets limited by rate",
    }
}

/// The same for `tcp6-reset`, in the same order.
mod edge6 {
    graph::edges! {
        pub enum Edge {
            Lookup => next "ip6-lookup",
            /// A TCP segment to this router is shorter than the header that it claims, claims a header of less than
            /// 20 bytes, or its extension headers push the TCP header out of the packet's first buffer. The sender is
            /// at fault (RFC 9293 3.1).
            BadLength => warn "inconsistent ip/tcp lengths",
            /// The checksum of a TCP segment to this router is wrong: the segment was altered on its way (RFC 9293
            /// 3.1, RFC 8200 8.1). Look for a bad link or a device that rewrites packets.
            BadChecksum => warn "bad tcp checksum",
            /// A TCP reset arrived for a connection that this router does not have. The router never answers a reset
            /// (RFC 9293 3.10.7.1), so nothing is wrong here.
            AboutReset => end "no TCP reset about a reset",
            /// A TCP segment arrived for a group address. TCP works only between two hosts (RFC 9293 3.9.2.3).
            AboutGroup => end "no TCP reset about a group-addressed segment",
            /// A TCP segment arrived from an address that no host can have, so the router cannot answer it (RFC 9293
            /// 3.9.2.3).
            AboutSource => end "no TCP reset to a source that is not one host",
            /// More TCP segments arrived for ports without a listener than a worker may answer. This is a scan or a
            /// flood. The limit is that of ICMP errors.
            RateLimited => end "TCP resets limited by rate",
            OnLink => next "ip6-glean",
            /// A TCP segment arrived from outside the link for a link-local address of this router. The reset would
            /// have to leave the link, which no packet from such an address may do (RFC 4291 2.5.6). Use another
            /// address.
            BeyondLink => warn "TCP reset from a link-local address would leave its link",
            /// A TCP segment arrived for the subnet-router anycast address of a network. The router sends nothing
            /// from such an address, and nothing listens on it (RFC 4291 2.6.1).
            AboutAnycast => end "no TCP reset from an anycast address",
        }
    }
}

const COUNTERS: &[CounterSpec] = &[CounterSpec(
    "TCP resets sent",
    Severity::Info,
    "The router answered TCP segments for ports on which nothing listens with a reset (RFC 9293 3.10.7.1). A high \
     count means that a host scans the router's ports.",
)];

pub const NAME4: &str = "tcp4-reset";
pub const NAME6: &str = "tcp6-reset";

pub fn spec(family: Family) -> NodeSpec {
    let (name, edges) = match family {
        Family::Ip4 => (NAME4, Edge::EDGES),
        Family::Ip6 => (NAME6, edge6::Edge::EDGES),
    };
    NodeSpec { name: name.into(), edges, counters: COUNTERS, trace: router::headers::trace_of(family) }
}

pub struct TcpReset {
    family: Family,
    policy: SharedPolicy,
    view: SharedViews,
    bucket: TokenBucket,
}

impl TcpReset {
    pub(crate) fn new(family: Family, policy: SharedPolicy, view: SharedViews) -> TcpReset {
        TcpReset { family, policy, view, bucket: TokenBucket::full() }
    }

    fn one(&mut self, cx: &mut Context<'_>, row: &mut Row) -> EdgeIndex {
        let transport = Transport::behind(self.family, cx, row, payload_at(row));
        let segment = match read(cx, row, &transport) {
            Ok(segment) => segment,
            Err(fault) => return fault.into(),
        };
        if segment.flags.contains(Flags::RST) {
            return Edge::AboutReset.into();
        }
        let (sender, us) = (transport.source, transport.destination);
        if row.flags & check::GROUP != 0 || us.is_multicast() || us == IpAddr::V4(Ipv4Addr::BROADCAST) {
            return Edge::AboutGroup.into();
        }
        if !is_one_host(sender) {
            return Edge::AboutSource.into();
        }
        let to = match (sender, us) {
            (IpAddr::V6(sender), IpAddr::V6(us)) => {
                let view = self.view.load(cx.round);
                // The leaf names the interface that owns the address.
                let owner = view.get(InterfaceIndex(Leaf(row.target).index()));
                if owner.is_some_and(|owner| owner.ip6.is_anycast(us)) {
                    return edge6::Edge::AboutAnycast.into();
                }
                let view = view.get(row.rx_interface);
                match choose_reply_path(row, row.rx_interface, view.map(|view| &view.ip6), us, sender) {
                    ReplyPath::Routes | ReplyPath::Here => edge6::Edge::Lookup.into(),
                    ReplyPath::Link => edge6::Edge::OnLink.into(),
                    ReplyPath::Nowhere => return edge6::Edge::BeyondLink.into(),
                }
            }
            _ => Edge::Lookup.into(),
        };
        let limit = self.policy.load(cx.round).limit;
        if !self.bucket.take(limit, cx.now) {
            return Edge::RateLimited.into();
        }
        write(cx, row, &transport, &segment);
        cx.count(0, 1);
        to
    }
}

impl Map for TcpReset {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        vector.each_row(|row| self.one(cx, row));
    }
}

/// The fields of a valid segment that its reset depends on.
fn read(cx: &Context<'_>, row: &Row, transport: &Transport) -> Result<Segment, Edge> {
    let Transport { start, here, whole, .. } = *transport;
    if here < tcp::HEADER_LEN {
        return Err(Edge::BadLength);
    }
    let header = tcp::Header::new_unchecked(&cx.buffers.bytes(row.packet)[start..start + tcp::HEADER_LEN]);
    let header_length = header.header_len();
    if header_length < tcp::HEADER_LEN || header_length > whole {
        return Err(Edge::BadLength);
    }
    if row.flags & flag::PARTIAL_CHECKSUM == 0 {
        let pseudo_header = transport.pseudo_header(Protocol::TCP, whole);
        if transport_checksum(cx, row, start, whole, pseudo_header) != 0 {
            return Err(Edge::BadChecksum);
        }
    }
    Ok(Segment::new(header, whole - header_length))
}

/// Writes the reset where the IP header was in the packet's first buffer, and frees the other buffers.
fn write(cx: &mut Context<'_>, row: &mut Row, transport: &Transport, segment: &Segment) {
    keep_first_buffer(cx, row);
    let (sender, us) = (transport.source, transport.destination);
    let ip_length = match sender {
        IpAddr::V4(_) => ipv4::HEADER_LEN,
        IpAddr::V6(_) => ipv6::HEADER_LEN,
    };
    let l3 = row.l3 as usize;
    let bytes = &mut cx.buffers.bytes_mut(row.packet)[l3..l3 + ip_length + tcp::HEADER_LEN];
    let (header, reset) = bytes.split_at_mut(ip_length);
    reset::emit_ip(header, us, sender);
    segment.emit_reset(reset, us, sender);
    row.l2 = row.l3;
    row.length = (ip_length + tcp::HEADER_LEN) as u16;
    match sender {
        IpAddr::V4(sender) => {
            row.target = sender.into();
            row.scratch = Scratch::NONE;
            row.flags = (row.flags & flag::TRACED) | flag::ORIGINATED | check::EXAMINED;
        }
        IpAddr::V6(_) => {
            row.flags &= !flag::OFFLOAD;
            becomes_ours(row);
        }
    }
}
