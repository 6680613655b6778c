//! `ip4-icmp-input`: ICMP messages to this router.
//!
//! Reads: the message behind the IPv4 header at `l3`. Writes: the echo reply in place;
//! `target`, its destination. Next: `ip4-lookup` with a reply; the rest ends here.

use graph::{Context, CounterSpec, Map, NodeSpec, Row, Severity, Snapshot, Vector, flag};
use std::fmt;
use wire::checksum::{self, Accumulator};
use wire::icmpv4::Type;
use wire::{batch::check, ipv4};

graph::edges! {
    pub enum Edge {
        Lookup => next "ip4-lookup",
        Truncated => drop "ICMP message shorter than its header",
        BadChecksum => drop "bad ICMP checksum",
        Unhandled => end "ICMP type not handled",
        Group => end "ICMP echo to a group address ignored",
    }
}

const COUNTERS: &[CounterSpec] = &[CounterSpec("echo replies sent", Severity::Info)];

/// Hops that our own packets may take (RFC 1700's default).
pub const OUR_TTL: u8 = 64;

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-icmp-input".into(), edges: Edge::EDGES, counters: COUNTERS, trace }
}

pub struct EchoInput;

impl Map for EchoInput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let mut row = vector.row(i);
            let to = one(cx, &mut row);
            vector.set_row(i, row);
            vector.set_edge(i, to.into());
        }
    }
}

/// The checksum over a message that may lie in several buffers; 0 when it is right.
fn message_checksum(cx: &Context<'_>, row: &Row, start: usize) -> u16 {
    let mut sum = Accumulator::new(0);
    let mut left = (row.length as usize + row.l2 as usize).saturating_sub(start);
    let here = (row.first_length(cx.buffers) + row.l2 as usize).saturating_sub(start);
    let bytes = cx.buffers.bytes(row.packet);
    sum.add(&bytes[start..(start + here.min(left)).min(bytes.len())]);
    left -= here.min(left);
    let chained = row.flags & flag::CHAINED != 0;
    let mut next = if chained { cx.buffers.segment(row.packet).next() } else { None };
    while let Some(index) = next {
        let segment = cx.buffers.segment(index);
        let bytes = &cx.buffers.bytes(index)[segment.offset as usize..];
        let here = (segment.length as usize).min(left).min(bytes.len());
        sum.add(&bytes[..here]);
        left -= here;
        next = segment.next();
    }
    sum.checksum()
}

fn one(cx: &mut Context<'_>, row: &mut Row) -> Edge {
    let l3 = row.l3 as usize;
    let header_length = ipv4::Header::new_unchecked(&cx.buffers.bytes(row.packet)[l3..]).header_len();
    let start = l3 + header_length;
    if row.l3_length() < header_length + 8 {
        return Edge::Truncated;
    }
    // A host behind the same machine may leave the checksum to its device.
    if row.flags & flag::PARTIAL_CHECKSUM == 0 && message_checksum(cx, row, start) != 0 {
        return Edge::BadChecksum;
    }
    let bytes = cx.buffers.bytes_mut(row.packet);
    if Type(bytes[start]) != Type::ECHO_REQUEST {
        return Edge::Unhandled;
    }
    if row.flags & check::GROUP != 0 {
        return Edge::Group; // RFC 1122 3.2.2.6 lets us
    }
    // The type changes from 8 to 0 and nothing else (RFC 1624).
    bytes[start] = Type::ECHO_REPLY.0;
    if row.flags & flag::PARTIAL_CHECKSUM == 0 {
        let old = u16::from_be_bytes([bytes[start + 2], bytes[start + 3]]);
        let code = bytes[start + 1] as u16;
        let new = checksum::update16(old, u16::from(Type::ECHO_REQUEST.0) << 8 | code, code);
        bytes[start + 2..start + 4].copy_from_slice(&new.to_be_bytes());
    }
    let mut header = ipv4::Header::new_unchecked(&mut bytes[l3..]);
    let (asker, us) = (header.src(), header.dst());
    header.set_src(us);
    header.set_dst(asker);
    header.set_ttl(OUR_TTL);
    header.fill_checksum();
    row.target = asker.into();
    row.flags = (row.flags | flag::ORIGINATED) & !(check::TTL | check::GROUP);
    cx.count(0, 1);
    Edge::Lookup
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    crate::headers::trace_ip4(snapshot, f)
}
