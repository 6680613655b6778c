//! `ip4-icmp-error`: tells the sender of a packet why it went no further.
//!
//! Reads: the packet, and in the scratch word a [`Report`] of what to say. Writes: the
//! ICMP message around the start of the packet, in place; `target`, the sender. Next:
//! `ip4-lookup`.
//!
//! An error is never sent about what RFC 1812 4.3.2.7 lists, and no more than
//! [`LIMIT`] by each worker (4.3.2.8).

use super::input::OUR_TTL;
use crate::headers::is_one_host;
use crate::interface::SharedFacts;
use crate::rate::{Limit, TokenBucket};
use graph::{Context, CounterSpec, Map, NodeSpec, Row, Severity, Snapshot, Vector, flag};
use std::fmt;
use std::net::Ipv4Addr;
use wire::batch::check;
use wire::checksum;
use wire::icmpv4::{self, Type, time_exceeded, unreachable};
use wire::ipv4::{self, Protocol, Repr};

graph::edges! {
    pub enum Edge {
        Lookup => next "ip4-lookup",
        /// An ICMP error went no further. Nobody is told: errors about errors would not end (RFC 1812 4.3.2.7).
        AboutError => end "no ICMP error about an ICMP error",
        /// A fragment other than the first went no further. The sender is told of the first only (RFC 1812 4.3.2.7).
        AboutFragment => end "no ICMP error about a later fragment",
        /// A packet for a group, or in a broadcast frame, went no further. Nobody is told: many routers would (RFC 1812
        /// 4.3.2.7).
        AboutGroup => end "no ICMP error about a group-addressed packet",
        /// A packet whose source is no single host went no further. There is nobody to tell (RFC 1812 4.3.2.7); the
        /// source is forged or misconfigured.
        AboutSource => end "no ICMP error to a source that is not one host",
        /// A packet of this router's own went no further, such as an answer to a sender to whom there is no route.
        /// `show ip fib ADDRESS`.
        AboutOurs => end "no ICMP error about a packet of ours",
        /// More packets went no further than senders are told of (RFC 1812 4.3.2.8): 1000 a second. A scan, or a route
        /// is missing: `trace add` shows them.
        RateLimited => end "ICMP errors limited by rate",
        /// The interface on which the packet came has no address to send an ICMP error from: `set interface ip
        /// address`.
        NoAddress => drop "no address to send an ICMP error from",
    }
}

/// Errors that a worker sends at most.
pub(crate) const LIMIT: Limit = Limit { per_second: 1000, burst: 100 };
/// Longest error message (RFC 1812 4.3.2.3).
const MAX_MESSAGE: usize = 576;
const HEADERS: usize = ipv4::HEADER_LEN + icmpv4::HEADER_LEN;

/// What to say: type, code and the word behind the checksum, as it travels in scratch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report {
    pub kind: Type,
    pub code: u8,
    pub rest: u32,
}

impl Report {
    pub fn unreachable(code: u8) -> Report {
        Report { kind: Type::DESTINATION_UNREACHABLE, code, rest: 0 }
    }
    pub fn ttl_expired() -> Report {
        Report { kind: Type::TIME_EXCEEDED, code: time_exceeded::TTL, rest: 0 }
    }
    /// RFC 792: the byte of the header that is wrong.
    pub fn parameter_problem(at: u8) -> Report {
        Report { kind: Type::PARAMETER_PROBLEM, code: 0, rest: (at as u32) << 24 }
    }
    /// RFC 1812 5.2.7.1: forbidden by a filter of the operator's.
    pub fn prohibited() -> Report {
        Report::unreachable(unreachable::COMMUNICATION_PROHIBITED)
    }
    /// RFC 1191: the next hop's MTU is in the lower half of the word.
    pub fn fragmentation_needed(mtu: u16) -> Report {
        Report { kind: Type::DESTINATION_UNREACHABLE, code: unreachable::FRAGMENTATION_NEEDED, rest: mtu as u32 }
    }
}

impl From<Report> for u64 {
    fn from(report: Report) -> u64 {
        (report.kind.0 as u64) << 40 | (report.code as u64) << 32 | report.rest as u64
    }
}

impl From<u64> for Report {
    fn from(word: u64) -> Report {
        Report { kind: Type((word >> 40) as u8), code: (word >> 32) as u8, rest: word as u32 }
    }
}

/// What was sent, in the order of [`counter_of`].
const COUNTERS: &[CounterSpec] = &[
    CounterSpec(
        "ICMP time exceeded sent",
        Severity::Info,
        "A packet's time to live was used up (RFC 1812 5.3.1) and its sender told: traceroute, or a routing loop.",
    ),
    CounterSpec(
        "ICMP net unreachable sent",
        Severity::Info,
        "There is no route to the destination (RFC 1812 4.3.3.1), and the sender was told. `show ip fib ADDRESS` \
         says nothing then.",
    ),
    CounterSpec(
        "ICMP host unreachable sent",
        Severity::Info,
        "The next hop does not answer ARP, or a route says `via unreachable`, and the sender was told (RFC 1812 \
         4.3.3.1). `show ip neighbors`, `show ip fib ADDRESS`.",
    ),
    CounterSpec(
        "ICMP protocol unreachable sent",
        Severity::Info,
        "A packet to this router of a protocol that it does not speak; the sender was told (RFC 1122 3.2.2.1).",
    ),
    CounterSpec(
        "ICMP port unreachable sent",
        Severity::Info,
        "A UDP packet to a port of this router where nobody listens; the sender was told (RFC 1122 4.1.3.1). \
         traceroute ends so.",
    ),
    CounterSpec(
        "ICMP fragmentation needed sent",
        Severity::Info,
        "A packet too long for the way out that must not be cut; the sender was told the length that fits (RFC \
         1191). Path MTU discovery works so.",
    ),
    CounterSpec("other ICMP error sent", Severity::Info, "Another ICMP error was sent. `pcap trace tx` shows which."),
];

fn counter_of(report: Report) -> usize {
    match (report.kind, report.code) {
        (Type::TIME_EXCEEDED, _) => 0,
        (Type::DESTINATION_UNREACHABLE, unreachable::NETWORK) => 1,
        (Type::DESTINATION_UNREACHABLE, unreachable::HOST) => 2,
        (Type::DESTINATION_UNREACHABLE, unreachable::PROTOCOL) => 3,
        (Type::DESTINATION_UNREACHABLE, unreachable::PORT) => 4,
        (Type::DESTINATION_UNREACHABLE, unreachable::FRAGMENTATION_NEEDED) => 5,
        _ => 6,
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-icmp-error".into(), edges: Edge::EDGES, counters: COUNTERS, trace }
}

pub struct IcmpError {
    facts: SharedFacts,
    bucket: TokenBucket,
    /// Identification of the next message.
    next_id: u16,
}

impl IcmpError {
    pub fn new(facts: SharedFacts) -> IcmpError {
        IcmpError { facts, bucket: TokenBucket::full(LIMIT), next_id: 0 }
    }

    fn one(&mut self, cx: &mut Context<'_>, row: &mut Row) -> Edge {
        if let Some(reason) = forbidden(cx, row) {
            return reason;
        }
        let sender = ipv4::Header::new_unchecked(&cx.buffers.bytes(row.packet)[row.l3 as usize..]).src();
        let facts = self.facts.load(cx.round).get(row.rx_interface);
        let Some(us) = facts.and_then(|facts| facts.address_towards(sender)) else { return Edge::NoAddress };
        if !self.bucket.take(LIMIT, cx.now) {
            return Edge::RateLimited;
        }
        self.next_id = self.next_id.wrapping_add(1);
        cx.count(counter_of(Report::from(row.scratch)), 1);
        write(cx, row, us, sender, self.next_id);
        Edge::Lookup
    }
}

/// RFC 1812 4.3.2.7: about which packets no error is sent.
fn forbidden(cx: &Context<'_>, row: &Row) -> Option<Edge> {
    if row.flags & flag::ORIGINATED != 0 {
        return Some(Edge::AboutOurs);
    }
    if row.flags & check::GROUP != 0 {
        return Some(Edge::AboutGroup);
    }
    let header = ipv4::Header::new_unchecked(&cx.buffers.bytes(row.packet)[row.l3 as usize..]);
    if header.fragment_offset() != 0 {
        return Some(Edge::AboutFragment);
    }
    let (source, destination) = (header.src(), header.dst());
    if destination.is_multicast() || destination.is_broadcast() {
        return Some(Edge::AboutGroup);
    }
    if !is_one_host(source) {
        return Some(Edge::AboutSource);
    }
    let at = row.l3 as usize + header.header_len();
    if header.protocol() == Protocol::ICMP && row.l3_length() > header.header_len() {
        let kind = cx.buffers.bytes(row.packet).get(at).copied().unwrap_or(u8::MAX);
        if Type(kind).is_error() {
            return Some(Edge::AboutError);
        }
    }
    None
}

/// Puts the message around the packet's start; what does not fit the quote is let go.
fn write(cx: &mut Context<'_>, row: &mut Row, us: Ipv4Addr, sender: Ipv4Addr, id: u16) {
    let report = Report::from(row.scratch);
    let l3 = row.l3 as usize;
    let here = (row.first_length(cx.buffers) + row.l2 as usize).saturating_sub(l3);
    if row.flags & flag::CHAINED != 0 {
        let rest = cx.buffers.segment(row.packet).next();
        cx.buffers.segment_mut(row.packet).set_next(None);
        if let Some(rest) = rest {
            cx.buffers.free_chain(rest);
        }
    }
    let quote = here.min(MAX_MESSAGE - HEADERS);
    let begin = l3 - HEADERS;
    let bytes = cx.buffers.bytes_mut(row.packet);
    let (ip, message) = bytes[begin..l3 + quote].split_at_mut(ipv4::HEADER_LEN);
    icmpv4::emit_error_header(message, report.kind, report.code, report.rest);
    message[2..4].fill(0);
    let sum = checksum::checksum(message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    Repr {
        src: us,
        dst: sender,
        protocol: Protocol::ICMP,
        ttl: OUR_TTL,
        // RFC 1812 4.3.2.5: internetwork control precedence.
        dscp: 48,
        ecn: 0,
        id,
        dont_fragment: false,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: message.len() as u16,
    }
    .emit(ip);
    row.l2 = begin as u16;
    row.l3 = begin as u16;
    row.length = (HEADERS + quote) as u16;
    row.target = sender.into();
    row.scratch = 0;
    row.flags = (row.flags & flag::TRACED) | flag::ORIGINATED | check::EXAMINED;
}

impl Map for IcmpError {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let mut row = vector.row(i);
            let to = self.one(cx, &mut row);
            vector.set_row(i, row);
            vector.set_edge(i, to.into());
        }
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    crate::headers::trace_ip4(snapshot, f)
}
