//! `ip6-icmp-error`: tells the sender of a packet why it went no further (RFC 4443 section 3).
//!
//! Reads: the packet, and in the scratch word a [`Report`] of what to say. Writes: the ICMPv6 message around the start of
//! the packet, in place. Next: `ip6-lookup`; or `ip6-glean` when the sender is on the link only.
//!
//! An error is never sent about what RFC 4443 2.4 (e) lists, and by each worker no more than the operator allows (2.4 (f)).
//! It is sent from the address to which the packet was, when that is ours, else from one of the interface by which it leaves
//! (2.2). The packet is quoted as it was received, as far as fits the least MTU of IPv6 (2.4 (c)).

use super::input::leave;
use crate::icmp::SharedPolicy;
use crate::interface::SharedFacts;
use crate::ip::Fibs6;
use crate::ip6::OUR_HOP_LIMIT;
use crate::rate::TokenBucket;
use graph::{Context, CounterSpec, InterfaceIndex, Map, NodeSpec, Row, Severity, Snapshot, Vector, flag};
use std::fmt;
use std::net::Ipv6Addr;
use tables::{ObjectHandle, kind};
use wire::batch::check;
use wire::icmpv6::{self, Message, Type, parameter_problem, time_exceeded, unreachable};
use wire::ipv4::Protocol;
use wire::ipv6::{self, Chain, HEADER_LEN, MIN_MTU, Repr};

graph::edges! {
    pub enum Edge {
        Lookup => next "ip6-lookup",
        OnLink => next "ip6-glean",
        /// An ICMPv6 error or redirect went no further. Nobody is told: errors about errors would not end (RFC 4443
        /// 2.4 (e)).
        AboutError => end "no ICMPv6 error about an ICMPv6 error",
        /// A packet for a group, or in a frame for many, went no further. Nobody is told: many routers would (RFC 4443
        /// 2.4 (e)).
        AboutGroup => end "no ICMPv6 error about a group-addressed packet",
        /// A packet whose source is no single host went no further. There is nobody to tell (RFC 4443 2.4 (e)).
        AboutSource => end "no ICMPv6 error to a source that is not one host",
        /// A packet of this router's own went no further, such as an answer to a sender to whom there is no route.
        /// `show ip6 fib ADDRESS`.
        AboutOurs => end "no ICMPv6 error about a packet of ours",
        /// More packets went no further than senders are told of (RFC 4443 2.4 (f); `set ip icmp error-rate`). A scan, or
        /// a route is missing: `trace add` shows them.
        RateLimited => end "ICMPv6 errors limited by rate",
        /// No interface that is up has an address to send an ICMPv6 error from: `set interface ip address`.
        NoAddress => drop "no address to send an ICMPv6 error from",
    }
}

const HEADERS: usize = HEADER_LEN + icmpv6::HEADER_LEN;

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
    /// RFC 4443 3.2: the next hop's MTU.
    pub fn packet_too_big(mtu: u16) -> Report {
        Report { kind: Type::PACKET_TOO_BIG, code: 0, rest: mtu.into() }
    }
    pub fn hop_limit_exceeded() -> Report {
        Report { kind: Type::TIME_EXCEEDED, code: time_exceeded::HOP_LIMIT, rest: 0 }
    }
    /// RFC 4443 3.4: the byte of the packet that is wrong.
    pub fn parameter_problem(code: u8, at: u32) -> Report {
        Report { kind: Type::PARAMETER_PROBLEM, code, rest: at }
    }

    /// Whether it is said about packets to groups, too.
    fn is_about_groups(self) -> bool {
        self.kind == Type::PACKET_TOO_BIG
            || (self.kind, self.code) == (Type::PARAMETER_PROBLEM, parameter_problem::OPTION)
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

/// What is sent, by its counter.
const SENT: &[(Type, u8, CounterSpec)] = &[
    sent(
        (Type::DESTINATION_UNREACHABLE, unreachable::NO_ROUTE),
        "ICMPv6 no route sent",
        "There is no route to the destination (RFC 4443 3.1), and the sender was told. `show ip6 fib ADDRESS` says so.",
    ),
    sent(
        (Type::DESTINATION_UNREACHABLE, unreachable::PROHIBITED),
        "ICMPv6 admin prohibited sent",
        "A route says `via prohibit`, and the sender was told (RFC 4443 3.1). `show ip6 fib ADDRESS`.",
    ),
    sent(
        (Type::DESTINATION_UNREACHABLE, unreachable::BEYOND_SCOPE),
        "ICMPv6 beyond scope of source sent",
        "A packet from a link-local address was to leave its link, and its sender was told (RFC 4291 2.5.6): it has no other \
         address, or prefers the wrong one.",
    ),
    sent(
        (Type::DESTINATION_UNREACHABLE, unreachable::ADDRESS),
        "ICMPv6 address unreachable sent",
        "The next hop does not answer neighbour solicitations, or a route says `via unreachable`, and the sender was told \
         (RFC 4443 3.1). `show ip6 neighbors`, `show ip6 fib ADDRESS`.",
    ),
    sent(
        (Type::DESTINATION_UNREACHABLE, unreachable::PORT),
        "ICMPv6 port unreachable sent",
        "A UDP packet to a port of this router where nobody listens; the sender was told (RFC 4443 3.1). traceroute ends so.",
    ),
    sent(
        (Type::PACKET_TOO_BIG, 0),
        "ICMPv6 packet too big sent",
        "A packet too long for the way out; the sender was told the length that fits (RFC 4443 3.2). Path MTU discovery \
         works so (RFC 8201).",
    ),
    sent(
        (Type::TIME_EXCEEDED, time_exceeded::HOP_LIMIT),
        "ICMPv6 hop limit exceeded sent",
        "A packet's hops were used up (RFC 4443 3.3) and its sender told: traceroute, or a routing loop.",
    ),
    sent(
        (Type::PARAMETER_PROBLEM, parameter_problem::ERRONEOUS_FIELD),
        "ICMPv6 erroneous header field sent",
        "A header of a packet to this router makes no sense, or asks it to route by a list, and the sender was told where \
         (RFC 4443 3.4, RFC 5095).",
    ),
    sent(
        (Type::PARAMETER_PROBLEM, parameter_problem::NEXT_HEADER),
        "ICMPv6 unrecognized next header sent",
        "A packet to this router of a protocol that it does not speak; the sender was told (RFC 8200 4).",
    ),
    sent(
        (Type::PARAMETER_PROBLEM, parameter_problem::OPTION),
        "ICMPv6 unrecognized option sent",
        "A packet to this router with an option that it does not know and that wants to be known; the sender was told \
         (RFC 8200 4.2).",
    ),
];

const fn sent(message: (Type, u8), name: &'static str, meaning: &'static str) -> (Type, u8, CounterSpec) {
    (message.0, message.1, CounterSpec(name, Severity::Info, meaning))
}

const COUNTERS: &[CounterSpec] = &{
    let mut counters = [CounterSpec("", Severity::Info, ""); SENT.len()];
    let mut i = 0;
    while i < SENT.len() {
        counters[i] = SENT[i].2;
        i += 1;
    }
    counters
};

fn counter_of(report: Report) -> usize {
    let known = SENT.iter().position(|(kind, code, _)| (*kind, *code) == (report.kind, report.code));
    debug_assert!(known.is_some(), "{report:?} has no counter");
    known.unwrap_or(0)
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip6-icmp-error".into(), edges: Edge::EDGES, counters: COUNTERS, trace }
}

pub struct Icmp6Error {
    fibs: Fibs6,
    objects: ObjectHandle,
    facts: SharedFacts,
    policy: SharedPolicy,
    bucket: TokenBucket,
}

impl Icmp6Error {
    pub(crate) fn new(fibs: Fibs6, objects: ObjectHandle, facts: SharedFacts, policy: SharedPolicy) -> Icmp6Error {
        Icmp6Error { fibs, objects, facts, policy, bucket: TokenBucket::full() }
    }

    fn one(&mut self, cx: &mut Context<'_>, row: &mut Row) -> Edge {
        let report = Report::from(row.scratch);
        if let Some(reason) = forbidden(cx, row, report) {
            return reason;
        }
        let policy = self.policy.load(cx.round);
        let header = ipv6::Header::new_unchecked(&cx.buffers.bytes(row.packet)[row.l3 as usize..]);
        let (sender, destination) = (header.src(), header.dst());
        let Some(us) = self.address_towards(cx, row, sender, destination).or(policy.router_id6) else {
            return Edge::NoAddress;
        };
        if !self.bucket.take(policy.limit, cx.now) {
            return Edge::RateLimited;
        }
        cx.count(counter_of(report), 1);
        write(cx, row, us, sender, report);
        let facts = self.facts.load(cx.round).get(row.rx_interface);
        leave(row, sender, facts.and_then(|facts| facts.ip6.on_link), Edge::Lookup, Edge::OnLink)
    }

    /// The address that an error to a sender is from. Over several paths the first one counts, so that one sender always
    /// sees the same. An error that finds no way out has the address of where the packet came in.
    fn address_towards(
        &self,
        cx: &Context<'_>,
        row: &Row,
        sender: Ipv6Addr,
        destination: Ipv6Addr,
    ) -> Option<Ipv6Addr> {
        let facts = self.facts.load(cx.round);
        let here = &facts.get(row.rx_interface)?.ip6;
        if here.owns(destination) && (destination.is_unicast_link_local() || !sender.is_unicast_link_local()) {
            return Some(destination);
        }
        if sender.is_unicast_link_local() {
            return here.link_local;
        }
        let mut leaf = self.fibs.lookup(cx.round, row.rx_interface, sender.into());
        if leaf.kind() == kind::LOAD_BALANCE {
            leaf = self.objects.get(cx.round, leaf.index()).bucket(0);
        }
        match leaf.kind() {
            kind::ADJACENCY | kind::GLEAN => {
                let interface = self.objects.get(cx.round, leaf.index()).interface();
                facts.get(InterfaceIndex(interface))?.ip6.address_towards(sender)
            }
            _ => here.address_towards(sender),
        }
    }
}

/// RFC 4443 2.4 (e): about which packets no error is sent.
fn forbidden(cx: &Context<'_>, row: &Row, report: Report) -> Option<Edge> {
    if row.flags & flag::ORIGINATED != 0 {
        return Some(Edge::AboutOurs);
    }
    let bytes = cx.buffers.bytes(row.packet);
    let end = (row.l2 as usize + row.first_length(cx.buffers)).min(bytes.len());
    let bytes = bytes.get(row.l3 as usize..end).unwrap_or_default();
    let Some(rest) = bytes.get(HEADER_LEN..) else { return Some(Edge::AboutSource) };
    let header = ipv6::Header::new_unchecked(bytes);
    let is_for_many = row.flags & check::GROUP != 0 || header.dst().is_multicast();
    if is_for_many && !report.is_about_groups() {
        return Some(Edge::AboutGroup);
    }
    let source = header.src();
    if source.is_unspecified() || source.is_multicast() || source.is_loopback() {
        return Some(Edge::AboutSource);
    }
    // What cannot be walked is not known to be an error. A later fragment of one has no type to be told by.
    let chain = Chain::walk(header.next_header(), rest).ok()?;
    let is_later = chain.fragment.is_some_and(|(_, fragment)| fragment.offset > 0);
    let kind = Type(*rest.get(chain.payload)?);
    let is_error = chain.protocol == Protocol::ICMP6 && !is_later && (kind.is_error() || kind == Type::REDIRECT);
    is_error.then_some(Edge::AboutError)
}

/// Puts the message around the packet's start; what does not fit the quote is let go.
fn write(cx: &mut Context<'_>, row: &mut Row, us: Ipv6Addr, sender: Ipv6Addr, report: Report) {
    let here = (row.first_length(cx.buffers) + row.l2 as usize).saturating_sub(row.l3 as usize);
    let quote = here.min(usize::from(MIN_MTU) - HEADERS);
    if row.flags & flag::CHAINED != 0 {
        let rest = cx.buffers.segment(row.packet).next();
        cx.buffers.segment_mut(row.packet).set_next(None);
        if let Some(rest) = rest {
            cx.buffers.free_chain(rest);
        }
    }
    let l3 = row.l3 as usize;
    let begin = l3 - HEADERS;
    let packet = &mut cx.buffers.bytes_mut(row.packet)[begin..l3 + quote];
    let (ip, message) = packet.split_at_mut(HEADER_LEN);
    Message::from_parts(report.kind, report.code, report.rest).emit(message);
    icmpv6::Header::new_checked(&mut message[..]).expect("it has a header").fill_checksum(us, sender);
    Repr {
        src: us,
        dst: sender,
        next_header: Protocol::ICMP6,
        hop_limit: OUR_HOP_LIMIT,
        traffic_class: 0,
        flow_label: 0,
        payload_len: message.len() as u16,
    }
    .emit(ip);
    (row.l2, row.l3) = (begin as u16, begin as u16);
    row.length = (HEADERS + quote) as u16;
    row.flags &= !(flag::CHAINED | flag::OFFLOAD);
}

impl Map for Icmp6Error {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        vector.each_row(|row| self.one(cx, row));
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    crate::headers::trace_ip6(snapshot, f)
}
