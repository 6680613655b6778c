//! `ip4-icmp-error`: tells the sender of a packet why the packet was not forwarded.
//!
//! Reads: the packet, and in scratch a [`Report`] of what to say. Writes: the ICMP message around the start
//! of the packet, in place; `target`, the sender. Next: `ip4-lookup`; `mpls-lookup` with a report on a packet that a
//! label led here: the report follows the packet's path, with the same labels.
//!
//! No error is sent about the packets that RFC 1812 4.3.2.7 lists, and each worker sends no more than the operator
//! allows (4.3.2.8). An error is sent from an address of the interface by which it leaves (4.3.2.4). It quotes the
//! packet as it was received, as far as fits 576 bytes (4.3.2.3). The length field of RFC 4884 stays zero, because it
//! belongs to an extension structure, and these errors have none.

use super::input::OUR_TTL;
use super::ping::{self, Refusal};
use graph::{Context, InterfaceIndex, Map, NodeSpec, Row, Scratch, Vector, flag};
use router::events::EventSender;
use router::headers::is_one_host;
use router::interface::SharedViews;
use router::ip::Fibs4;
use router::ip::class;
use router::rate::TokenBucket;
pub use router::reply::marks::BEHIND_LABEL;
pub use router::reply::policy::{Policy, SharedPolicy};
pub use router::reply::report::{self, keep_first_buffer, reason_of};
pub use router::reply::report4::Report;
use std::net::Ipv4Addr;
use tables::ObjectHandle;
use wire::Family;
use wire::batch::check;
use wire::checksum;
use wire::icmp;
use wire::icmpv4::{self, Type, parameter_problem, time_exceeded, unreachable};
use wire::ipv4::{self, Protocol, Repr};

graph::edges! {
    pub enum Edge {
        Lookup => next "ip4-lookup",
        Label => next "mpls-lookup",
        /// A packet's time to live expired (RFC 1812 5.3.1), and the router told its sender. The cause is traceroute
        /// or a routing loop.
        TimeExceeded => note "ICMP time exceeded sent",
        /// Some fragments of a packet to this router did not arrive in time, and the router told the sender (RFC 1122
        /// 3.3.2). Fragments are lost on the way, or a sender deliberately sends incomplete packets.
        ReassemblyTimeExceeded => note "ICMP reassembly time exceeded sent",
        /// There is no route to the destination (RFC 1812 4.3.3.1), and the router told the sender. Check
        /// `show ip fib ADDRESS`.
        NetUnreachable => warn "ICMP net unreachable sent",
        /// The next hop does not answer ARP, or a route says `via unreachable`, and the router told the sender (RFC
        /// 1812 4.3.3.1). Check `show ip neighbors` and `show ip fib ADDRESS`.
        HostUnreachable => warn "ICMP host unreachable sent",
        /// A packet to this router carried a protocol that the router does not support, and the router told the
        /// sender (RFC 1122 3.2.2.1).
        ProtocolUnreachable => note "ICMP protocol unreachable sent",
        /// A UDP packet was for a port of this router on which nothing listens, and the router told the sender (RFC
        /// 1122 4.1.3.1). traceroute ends this way.
        PortUnreachable => note "ICMP port unreachable sent",
        /// A packet was longer than the MTU of its next hop and must not be fragmented. The router told the sender
        /// the length that fits (RFC 1191). Path MTU discovery works this way.
        FragmentationNeeded => note "ICMP fragmentation needed sent",
        /// A packet had a source route option, which this router does not follow, and the router told the sender (RFC
        /// 1812 5.2.4.1).
        SourceRouteFailed => note "ICMP source route failed sent",
        /// A route says `via prohibit`, and the router told the sender (RFC 1812 5.2.7.1). Check
        /// `show ip fib ADDRESS`.
        AdminProhibited => note "ICMP admin prohibited sent",
        /// A packet's header, usually its options, was invalid, and the router told the sender where (RFC 1812
        /// 4.3.3.5).
        ParameterProblem => note "ICMP parameter problem sent",
        /// The router discarded an ICMP error. It does not report this to the sender, because errors about errors
        /// would never end (RFC 1812 4.3.2.7).
        AboutError => note "no ICMP error about an ICMP error",
        /// The router discarded a fragment other than the first. It reports only the first fragment to the sender
        /// (RFC 1812 4.3.2.7).
        AboutFragment => note "no ICMP error about a later fragment",
        /// The router discarded a packet for a group, or one in a broadcast frame. It does not report this to the
        /// sender, because many routers would (RFC 1812 4.3.2.7).
        AboutGroup => note "no ICMP error about a group-addressed packet",
        /// The router discarded a packet whose source is not a single host, so there is no sender to report this to
        /// (RFC 1812 4.3.2.7). The source is forged or misconfigured.
        AboutSource => note "no ICMP error to a source that is not one host",
        /// The router discarded a packet of its own, such as an answer to a sender to which there is no route. Check
        /// `show ip fib ADDRESS`.
        AboutOurs => note "no ICMP error about a packet of ours",
        /// The router discarded an echo request of `ping` and reported the reason to `ping`. The next hop does not
        /// answer ARP, or the route was removed.
        OwnRequest => end "echo requests of this router that were not forwarded",
        /// The router discarded more packets than it may send ICMP errors about (RFC 1812 4.3.2.8;
        /// `set ip icmp error-rate`). There is a scan, or a route is missing. `trace add` shows the packets.
        RateLimited => warn "ICMP errors limited by rate",
        /// No interface that is up has an address from which to send an ICMP error. Add one with
        /// `set interface ip address`.
        NoAddress => drop "no address to send an ICMP error from",
    }
}

/// Longest error message (RFC 1812 4.3.2.3).
const MAX_MESSAGE: usize = 576;
pub(crate) const HEADERS: usize = ipv4::HEADER_LEN + icmpv4::HEADER_LEN;

/// The errors, and the edge by which the original packet is dropped. `ip4-redirect` counts redirects.
const SENT: &[((Type, u8), Edge)] = &[
    ((Type::TIME_EXCEEDED, time_exceeded::TTL), Edge::TimeExceeded),
    ((Type::TIME_EXCEEDED, time_exceeded::FRAGMENT_REASSEMBLY), Edge::ReassemblyTimeExceeded),
    ((Type::DESTINATION_UNREACHABLE, unreachable::NETWORK), Edge::NetUnreachable),
    ((Type::DESTINATION_UNREACHABLE, unreachable::HOST), Edge::HostUnreachable),
    ((Type::DESTINATION_UNREACHABLE, unreachable::PROTOCOL), Edge::ProtocolUnreachable),
    ((Type::DESTINATION_UNREACHABLE, unreachable::PORT), Edge::PortUnreachable),
    ((Type::DESTINATION_UNREACHABLE, unreachable::FRAGMENTATION_NEEDED), Edge::FragmentationNeeded),
    ((Type::DESTINATION_UNREACHABLE, unreachable::SOURCE_ROUTE_FAILED), Edge::SourceRouteFailed),
    ((Type::DESTINATION_UNREACHABLE, unreachable::COMMUNICATION_PROHIBITED), Edge::AdminProhibited),
    ((Type::PARAMETER_PROBLEM, parameter_problem::POINTER), Edge::ParameterProblem),
];

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-icmp-error".into(), edges: Edge::EDGES, counters: &[], trace: router::headers::trace_ip4 }
}

pub struct IcmpError {
    fibs: Fibs4,
    objects: ObjectHandle,
    view: SharedViews,
    policy: SharedPolicy,
    events: EventSender<ping::Event>,
    bucket: TokenBucket,
    /// Identification of the next message.
    next_id: u16,
}

impl IcmpError {
    pub(crate) fn new(
        fibs: Fibs4,
        objects: ObjectHandle,
        view: SharedViews,
        policy: SharedPolicy,
        events: EventSender<ping::Event>,
    ) -> IcmpError {
        IcmpError { fibs, objects, view, policy, events, bucket: TokenBucket::full(), next_id: 0 }
    }

    fn one(&mut self, cx: &mut Context<'_>, row: &mut Row) -> Edge {
        let policy = self.policy.load(cx.round);
        match forbidden(cx, row, policy) {
            Some(Edge::AboutOurs) if self.tell_ping(cx, row) => return Edge::OwnRequest,
            Some(reason) => return reason,
            None => {}
        }
        let sender = ipv4::Header::new_unchecked(&cx.buffers.bytes(row.packet)[row.l3 as usize..]).src();
        let Some(us) = self.address_towards(cx, row, sender).or(policy.router_id) else { return Edge::NoAddress };
        if !self.bucket.take(policy.limit, cx.now) {
            return Edge::RateLimited;
        }
        self.next_id = self.next_id.wrapping_add(1);
        cx.drop_original(row, reason_of(SENT, Report::left(row)).into());
        let label = report::label_of(cx, row);
        write(cx, row, us, sender, self.next_id);
        let Some(label) = label else { return Edge::Lookup };
        report::put_label(cx, row, label);
        Edge::Label
    }

    /// Reports an echo request of this router that is not forwarded to the control thread. Returns whether it was one.
    fn tell_ping(&self, cx: &Context<'_>, row: &Row) -> bool {
        let Report { kind, code, .. } = Report::left(row);
        let event = ping::answer::refused(cx, row, Refusal::Ip4(kind, code));
        event.is_some_and(|event| self.events.try_send(event).is_ok())
    }

    /// RFC 1812 4.3.2.4: an address of the interface by which packets to the sender leave: the one on the network of
    /// the next hop, else the primary one. With several paths the first one counts, so that a sender always sees the
    /// same address. Without a route to the sender it is an address of the receiving interface.
    fn address_towards(&self, cx: &Context<'_>, row: &Row, sender: Ipv4Addr) -> Option<Ipv4Addr> {
        let view = self.view.load(cx.round);
        let here = view.here(Family::Ip4, row);
        if row.flags & BEHIND_LABEL != 0 {
            // The router cannot know how to reach the sender: the answer follows the packet's path.
            return view.get(here)?.address_towards(sender);
        }
        let table = self.fibs.index_for(cx.round, row);
        let leaf = self.fibs.first_way(cx.round, table, sender.into(), &self.objects);
        match leaf.class() {
            class::ADJACENCY | class::MIDCHAIN | class::GLEAN => {
                let object = self.objects.get(cx.round, leaf.index());
                let next_hop = Some(object.next_hop()).filter(|hop| !hop.is_unspecified()).unwrap_or(sender);
                let out = InterfaceIndex(object.interface());
                let there = || view.get(out)?.address_towards(next_hop);
                match view.table_of(Family::Ip4, out) == table {
                    true => there(),
                    // The sender's table does not know that interface's network.
                    false => view.get(here)?.address_towards(sender).or_else(there),
                }
            }
            _ => view.get(here)?.address_towards(sender),
        }
    }
}

/// RFC 1812 4.3.2.7: whether an error about this packet is forbidden, and by which edge the packet ends then.
pub(crate) fn forbidden(cx: &Context<'_>, row: &Row, policy: &Policy) -> Option<Edge> {
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
    if destination.is_multicast() || destination.is_broadcast() || policy.is_broadcast(row.rx_interface, destination) {
        return Some(Edge::AboutGroup);
    }
    if !is_one_host(source) || policy.is_broadcast(row.rx_interface, source) {
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

/// How many bytes of a packet, from its IPv4 header on, an error about it quotes.
pub(crate) fn quoted(cx: &Context<'_>, row: &Row) -> usize {
    report::quoted(cx, row, MAX_MESSAGE - HEADERS)
}

/// Writes the headers of an error before the quote, which is already in place behind [`HEADERS`] bytes.
pub(crate) fn emit(packet: &mut [u8], report: Report, us: Ipv4Addr, to: Ipv4Addr, id: u16) {
    let (ip, message) = packet.split_at_mut(ipv4::HEADER_LEN);
    icmp::emit(message, report.kind, report.code, report.rest);
    let sum = checksum::checksum(message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    Repr {
        src: us,
        dst: to,
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
}

/// Writes the message around the start of the packet, and cuts off what is beyond the quote.
fn write(cx: &mut Context<'_>, row: &mut Row, us: Ipv4Addr, sender: Ipv4Addr, id: u16) {
    let quote = quoted(cx, row);
    keep_first_buffer(cx, row);
    let l3 = row.l3 as usize;
    let begin = l3 - HEADERS;
    let packet = &mut cx.buffers.bytes_mut(row.packet)[begin..l3 + quote];
    emit(packet, Report::left(row), us, sender, id);
    row.l2 = begin as u16;
    row.l3 = begin as u16;
    row.length = (HEADERS + quote) as u16;
    row.target = sender.into();
    row.scratch = Scratch::NONE;
    row.flags = (row.flags & flag::TRACED) | flag::ORIGINATED | check::EXAMINED;
}

impl Map for IcmpError {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        vector.each_row(|row| self.one(cx, row));
    }
}
