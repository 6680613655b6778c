//! `tcp4-reset`: a TCP segment to a port of this router that nobody listens to is answered by a reset
//! (RFC 9293 3.10.7.1: what the state CLOSED does).
//!
//! Reads: the segment behind the IPv4 header at `l3`. Writes: the reset in its place; `target`, the
//! segment's sender. Next: `ip4-lookup`. No more resets are sent than ICMP errors (each worker counts for
//! itself): a flood of segments must not become a flood of answers.

use crate::headers::{is_one_host, transport_checksum};
use crate::icmp::{OUR_TTL, SharedPolicy};
use crate::rate::TokenBucket;
use graph::{Context, CounterSpec, Map, NodeSpec, Row, Severity, Vector, flag};
use wire::batch::check;
use wire::checksum::pseudo_header4;
use wire::ipv4::{self, Protocol, Repr};
use wire::tcp::{self, Flags};

graph::edges! {
    pub enum Edge {
        Lookup => next "ip4-lookup",
        /// A TCP segment to this router is shorter than the header that it claims, or claims a header below
        /// 20 bytes. The sender is at fault (RFC 9293 3.1).
        BadLength => drop "inconsistent ip/tcp lengths",
        /// A TCP segment to this router was altered on its way: its checksum is wrong (RFC 9293 3.1). Look for a
        /// bad link or a device that rewrites packets.
        BadChecksum => drop "bad tcp checksum",
        /// A TCP reset came for a connection that this router does not have. It is never answered (RFC 9293
        /// 3.10.7.1), so nothing is wrong here.
        AboutReset => end "no TCP reset about a reset",
        /// A TCP segment came to a broadcast or multicast address; TCP is between two hosts (RFC 9293 3.9.2.3).
        AboutGroup => end "no TCP reset about a group-addressed segment",
        /// A TCP segment came from an address that no host can have, so it cannot be answered (RFC 9293
        /// 3.9.2.3).
        AboutSource => end "no TCP reset to a source that is not one host",
        /// More TCP segments for ports that nobody listens to came than a worker may answer: a scan or a flood.
        /// The limit is that of ICMP errors.
        RateLimited => end "TCP resets limited by rate",
    }
}

const COUNTERS: &[CounterSpec] = &[CounterSpec(
    "TCP resets sent",
    Severity::Info,
    "TCP segments to this router, which nothing here listens to, were answered by a reset (RFC 9293 3.10.7.1). Many: \
     somebody scans its ports.",
)];

pub fn spec() -> NodeSpec {
    NodeSpec { name: "tcp4-reset".into(), edges: Edge::EDGES, counters: COUNTERS, trace: crate::headers::trace_ip4 }
}

pub struct TcpReset {
    policy: SharedPolicy,
    bucket: TokenBucket,
}

impl TcpReset {
    pub(crate) fn new(policy: SharedPolicy) -> TcpReset {
        TcpReset { policy, bucket: TokenBucket::full() }
    }

    fn one(&mut self, cx: &mut Context<'_>, row: &mut Row) -> Edge {
        let segment = match Segment::read(cx, row) {
            Ok(segment) => segment,
            Err(fault) => return fault,
        };
        if segment.flags.contains(Flags::RST) {
            return Edge::AboutReset;
        }
        let ip = ipv4::Header::new_unchecked(&cx.buffers.bytes(row.packet)[row.l3 as usize..]);
        if row.flags & check::GROUP != 0 || ip.dst().is_multicast() || ip.dst().is_broadcast() {
            return Edge::AboutGroup;
        }
        if !is_one_host(ip.src()) {
            return Edge::AboutSource;
        }
        let limit = self.policy.load(cx.round).limit;
        if !self.bucket.take(limit, cx.now) {
            return Edge::RateLimited;
        }
        write(cx, row, &segment);
        cx.count(0, 1);
        Edge::Lookup
    }
}

impl Map for TcpReset {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        vector.each_row(|row| self.one(cx, row));
    }
}

/// What of a segment its reset depends on.
struct Segment {
    source: u16,
    destination: u16,
    sequence: u32,
    acknowledged: u32,
    flags: Flags,
    /// RFC 9293's SEG.LEN: the data, SYN and FIN.
    length: u32,
}

impl Segment {
    fn read(cx: &Context<'_>, row: &Row) -> Result<Segment, Edge> {
        let bytes = cx.buffers.bytes(row.packet);
        let ip = ipv4::Header::new_unchecked(&bytes[row.l3 as usize..]);
        let start = row.l3 as usize + ip.header_len();
        let here = (row.first_length(cx.buffers) + row.l2 as usize).saturating_sub(start);
        let whole = row.l3_length().saturating_sub(ip.header_len());
        if here < tcp::HEADER_LEN {
            return Err(Edge::BadLength);
        }
        let header = tcp::Header::new_unchecked(&bytes[start..start + tcp::HEADER_LEN]);
        let header_length = header.header_len();
        if header_length < tcp::HEADER_LEN || header_length > whole {
            return Err(Edge::BadLength);
        }
        if row.flags & flag::PARTIAL_CHECKSUM == 0 {
            let pseudo_header = pseudo_header4(ip.src(), ip.dst(), Protocol::TCP.0, whole as u16);
            if transport_checksum(cx, row, start, whole, pseudo_header) != 0 {
                return Err(Edge::BadChecksum);
            }
        }
        let flags = header.flags();
        let controls = u32::from(flags.contains(Flags::SYN)) + u32::from(flags.contains(Flags::FIN));
        Ok(Segment {
            source: header.src_port(),
            destination: header.dst_port(),
            sequence: header.seq(),
            acknowledged: header.ack(),
            flags,
            length: (whole - header_length) as u32 + controls,
        })
    }
}

/// Puts the reset where the segment's first buffer had it; further buffers are let go.
fn write(cx: &mut Context<'_>, row: &mut Row, segment: &Segment) {
    if row.flags & flag::CHAINED != 0 {
        let rest = cx.buffers.segment(row.packet).next();
        cx.buffers.segment_mut(row.packet).set_next(None);
        if let Some(rest) = rest {
            cx.buffers.free_chain(rest);
        }
    }
    let l3 = row.l3 as usize;
    let bytes = &mut cx.buffers.bytes_mut(row.packet)[l3..l3 + ipv4::HEADER_LEN + tcp::HEADER_LEN];
    let ip = ipv4::Header::new_unchecked(&bytes[..]);
    let (sender, us) = (ip.src(), ip.dst());
    let (header, reset) = bytes.split_at_mut(ipv4::HEADER_LEN);
    Repr {
        src: us,
        dst: sender,
        protocol: Protocol::TCP,
        ttl: OUR_TTL,
        dscp: 0,
        ecn: 0,
        // It is never cut, so it needs no identification (RFC 6864 4.1).
        id: 0,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: tcp::HEADER_LEN as u16,
    }
    .emit(header);
    // RFC 9293 3.10.7.1: the reset must be acceptable to whoever sent the segment.
    let (sequence, acknowledged, flags) = if segment.flags.contains(Flags::ACK) {
        (segment.acknowledged, 0, Flags::RST)
    } else {
        (0, segment.sequence.wrapping_add(segment.length), Flags(Flags::RST.0 | Flags::ACK.0))
    };
    reset.fill(0);
    reset[12] = (tcp::HEADER_LEN as u8 / 4) << 4;
    let mut header = tcp::Header::new_unchecked(reset);
    header.set_src_port(segment.destination);
    header.set_dst_port(segment.source);
    header.set_seq(sequence);
    header.set_ack(acknowledged);
    header.set_flags(flags);
    header.fill_checksum(pseudo_header4(us, sender, Protocol::TCP.0, tcp::HEADER_LEN as u16));
    row.l2 = row.l3;
    row.length = (ipv4::HEADER_LEN + tcp::HEADER_LEN) as u16;
    row.target = sender.into();
    row.scratch = 0;
    row.flags = (row.flags & flag::TRACED) | flag::ORIGINATED | check::EXAMINED;
}
