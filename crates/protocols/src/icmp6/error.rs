//! `ip6-icmp-error`: tells the sender of a packet why the packet was not forwarded (RFC 4443 section 3).
//!
//! Reads: the packet, and in scratch a [`Report`] of what to say. Writes: the ICMPv6 message around the start
//! of the packet, in place. Next: `ip6-lookup`; or `ip6-glean` when the sender has a link-local address.
//!
//! No error is sent about the packets that RFC 4443 2.4 (e) lists, and each worker sends no more than the operator
//! allows (2.4 (f)). An error is sent from the packet's destination address, when that is ours and has the sender's
//! scope. Otherwise it is sent from an address of the interface by which it leaves, or else of another interface (2.2,
//! RFC 6724 section 5). It quotes the packet as it was received, as far as fits the least MTU of IPv6 (2.4 (c)).

use super::input::becomes_ours;
use crate::icmp::ping;
use crate::icmp::ping::{Refusal, answer};
use crate::ip6::OUR_HOP_LIMIT;
use crate::ip6::reply_path::{self, ReplyPath};
use graph::{Context, InterfaceIndex, Map, NodeSpec, Row, Vector, flag};
use router::events::EventSender;
use router::interface::SharedViews;
use router::ip::Fibs6;
use router::ip::class;
use router::rate::TokenBucket;
pub use router::reply::marks::BEHIND_LABEL;
pub use router::reply::policy::SharedPolicy;
pub use router::reply::report::{self, keep_first_buffer, reason_of};
pub use router::reply::report6::Report;
use std::net::Ipv6Addr;
use tables::ObjectHandle;
use wire::Family;
use wire::batch::check;
use wire::icmpv6::{self, Message, Type, parameter_problem, time_exceeded, unreachable};
use wire::ipv4::Protocol;
use wire::ipv6::{self, Chain, HEADER_LEN, MIN_MTU, Repr};

graph::edges! {
    pub enum Edge {
        Lookup => next "ip6-lookup",
        Label => next "mpls-lookup",
        /// There is no route to the destination. The router notified the sender (RFC 4443 3.1). Check the routes with
        /// `show ip6 fib ADDRESS`.
        NoRoute => warn "ICMPv6 no route sent",
        /// The route to the destination is `via prohibit`. The router notified the sender (RFC 4443 3.1).
        /// `show ip6 fib ADDRESS` shows the route.
        AdminProhibited => note "ICMPv6 admin prohibited sent",
        /// A packet with a link-local source would have left its link. The router notified the sender (RFC 4291
        /// 2.5.6). The sender has no other address, or selects the wrong one.
        BeyondScopeOfSource => note "ICMPv6 beyond scope of source sent",
        /// The next hop does not answer neighbour solicitations, or the route is `via unreachable`. The router
        /// notified the sender (RFC 4443 3.1). See `show ip6 neighbors` and `show ip6 fib ADDRESS`.
        AddressUnreachable => warn "ICMPv6 address unreachable sent",
        /// A UDP packet to this router for a port on which nothing listens. The router notified the sender (RFC 4443
        /// 3.1). Normal at the end of a traceroute.
        PortUnreachable => note "ICMPv6 port unreachable sent",
        /// The packet is longer than the MTU of its next hop. The router reported the MTU to the sender (RFC 4443
        /// 3.2). Path MTU discovery works this way (RFC 8201).
        PacketTooBig => note "ICMPv6 packet too big sent",
        /// The hop limit of a packet reached zero. The router notified the sender (RFC 4443 3.3). The cause is a
        /// traceroute or a routing loop.
        HopLimitExceeded => note "ICMPv6 hop limit exceeded sent",
        /// Some fragments of a packet to this router did not arrive in time. The router notified the sender (RFC 8200
        /// 4.5). Fragments are lost on the way, or a sender sends incomplete packets: see
        /// `show ip6-full-reassembly details`.
        ReassemblyTimeExceeded => note "ICMPv6 reassembly time exceeded sent",
        /// A header of a packet to this router is malformed, or the packet has a routing header for this router to
        /// process. The router reported the position of the fault to the sender (RFC 4443 3.4, RFC 5095; for
        /// fragments RFC 8200 4.5).
        ErroneousHeaderField => note "ICMPv6 erroneous header field sent",
        /// A packet to this router uses a protocol that the router does not support. The router notified the sender
        /// (RFC 8200 4).
        UnrecognizedNextHeader => note "ICMPv6 unrecognized next header sent",
        /// A packet to this router has an option that the router does not know and that must not be skipped. The
        /// router notified the sender (RFC 8200 4.2).
        UnrecognizedOption => note "ICMPv6 unrecognized option sent",
        /// The first fragment of a packet to this router does not contain all headers of the packet (RFC 8200 4.5,
        /// RFC 7112). Attackers use such fragments to evade filters. The router notified the sender.
        IncompleteFirstFragment => note "ICMPv6 incomplete first fragment sent",
        OnLink => next "ip6-glean",
        /// The router dropped an ICMPv6 error or redirect. It sends no error about that packet, because errors about
        /// errors would never end (RFC 4443 2.4 (e)).
        AboutError => note "no ICMPv6 error about an ICMPv6 error",
        /// The router dropped a packet with a multicast destination, or from a broadcast or multicast frame. It sends
        /// no error, because many routers would send one (RFC 4443 2.4 (e)).
        AboutGroup => note "no ICMPv6 error about a group-addressed packet",
        /// The router dropped a packet whose source is not the address of a single host. It cannot notify such a
        /// source (RFC 4443 2.4 (e)).
        AboutSource => note "no ICMPv6 error to a source that is not one host",
        /// The router dropped a packet of its own, such as an answer to a sender to which it has no route. Check the
        /// routes with `show ip6 fib ADDRESS`.
        AboutOurs => note "no ICMPv6 error about a packet of ours",
        /// The router could not forward an echo request of its own `ping`, and reported the reason to `ping`: the
        /// next hop does not answer neighbor solicitations, or the route was removed.
        OwnRequest => end "echo requests of this router that were not forwarded",
        /// The router dropped more packets than the rate limit allows it to report to senders (RFC 4443 2.4 (f);
        /// `set ip icmp error-rate`). The cause is a scan or a missing route: `trace add` shows the packets.
        RateLimited => warn "ICMPv6 errors limited by rate",
        /// The router has no address from which it can send an ICMPv6 error. No interface that is up has an address,
        /// or they have only link-local addresses and the sender is not on the link. Add an address:
        /// `set interface ip address`.
        NoAddress => drop "no address to send an ICMPv6 error from",
    }
}

const HEADERS: usize = HEADER_LEN + icmpv6::HEADER_LEN;

/// The errors, and the edge by which the original packet is dropped.
const SENT: &[((Type, u8), Edge)] = &[
    ((Type::DESTINATION_UNREACHABLE, unreachable::NO_ROUTE), Edge::NoRoute),
    ((Type::DESTINATION_UNREACHABLE, unreachable::PROHIBITED), Edge::AdminProhibited),
    ((Type::DESTINATION_UNREACHABLE, unreachable::BEYOND_SCOPE), Edge::BeyondScopeOfSource),
    ((Type::DESTINATION_UNREACHABLE, unreachable::ADDRESS), Edge::AddressUnreachable),
    ((Type::DESTINATION_UNREACHABLE, unreachable::PORT), Edge::PortUnreachable),
    ((Type::PACKET_TOO_BIG, 0), Edge::PacketTooBig),
    ((Type::TIME_EXCEEDED, time_exceeded::HOP_LIMIT), Edge::HopLimitExceeded),
    ((Type::TIME_EXCEEDED, time_exceeded::FRAGMENT_REASSEMBLY), Edge::ReassemblyTimeExceeded),
    ((Type::PARAMETER_PROBLEM, parameter_problem::ERRONEOUS_FIELD), Edge::ErroneousHeaderField),
    ((Type::PARAMETER_PROBLEM, parameter_problem::NEXT_HEADER), Edge::UnrecognizedNextHeader),
    ((Type::PARAMETER_PROBLEM, parameter_problem::OPTION), Edge::UnrecognizedOption),
    ((Type::PARAMETER_PROBLEM, parameter_problem::FIRST_FRAGMENT), Edge::IncompleteFirstFragment),
];

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip6-icmp-error".into(), edges: Edge::EDGES, counters: &[], trace: router::headers::trace_ip6 }
}

pub struct Icmp6Error {
    fibs: Fibs6,
    objects: ObjectHandle,
    view: SharedViews,
    policy: SharedPolicy,
    events: EventSender<ping::Event>,
    bucket: TokenBucket,
}

impl Icmp6Error {
    pub(crate) fn new(
        fibs: Fibs6,
        objects: ObjectHandle,
        view: SharedViews,
        policy: SharedPolicy,
        events: EventSender<ping::Event>,
    ) -> Icmp6Error {
        Icmp6Error { fibs, objects, view, policy, events, bucket: TokenBucket::full() }
    }

    fn one(&mut self, cx: &mut Context<'_>, row: &mut Row) -> Edge {
        let report = Report::left(row);
        match forbidden(cx, row, is_about_groups(report)) {
            Some(Edge::AboutOurs) if self.tell_ping(cx, row, report) => return Edge::OwnRequest,
            Some(reason) => return reason,
            None => {}
        }
        let policy = self.policy.load(cx.round);
        let header = ipv6::Header::new_unchecked(&cx.buffers.bytes(row.packet)[row.l3 as usize..]);
        let (sender, destination) = (header.src(), header.dst());
        let us = self.address_towards(cx, row, sender, destination);
        let Some(us) = us.or(policy.router_id6.filter(|_| !sender.is_unicast_link_local())) else {
            return Edge::NoAddress;
        };
        let view = self.view.load(cx.round).get(row.rx_interface);
        let to = match reply_path::choose(row, row.rx_interface, view.map(|view| &view.ip6), us, sender) {
            ReplyPath::Routes | ReplyPath::Here => Edge::Lookup,
            ReplyPath::Link => Edge::OnLink,
            ReplyPath::Nowhere => return Edge::NoAddress,
        };
        if !self.bucket.take(policy.limit, cx.now) {
            return Edge::RateLimited;
        }
        cx.drop_original(row, reason_of(SENT, report).into());
        let label = report::label_of(cx, row);
        write(cx, row, us, sender, report);
        becomes_ours(row);
        let Some(label) = label else { return to };
        report::put_label(cx, row, label);
        Edge::Label
    }

    /// Reports an echo request of this router that is not forwarded to the control thread. Returns whether it was one.
    fn tell_ping(&self, cx: &Context<'_>, row: &Row, report: Report) -> bool {
        let event = answer::refused(cx, row, Refusal::Ip6(report.kind, report.code));
        event.is_some_and(|event| self.events.try_send(event).is_ok())
    }

    /// The source address of an error to a sender. With several paths the first one counts, so that a sender always
    /// sees the same address. Without a route to the sender it is an address of the receiving interface.
    fn address_towards(
        &self,
        cx: &Context<'_>,
        row: &Row,
        sender: Ipv6Addr,
        destination: Ipv6Addr,
    ) -> Option<Ipv6Addr> {
        let view = self.view.load(cx.round);
        let here = &view.get(view.here(Family::Ip6, row))?.ip6;
        let table = self.fibs.index_for(cx.round, row);
        let of_one_scope = destination.is_unicast_link_local() == sender.is_unicast_link_local();
        // RFC 4443 2.2 (a): an address of any of our interfaces, but not an anycast address (2.2 b).
        let is_ours = || {
            let leaf = self.fibs.lookup(cx.round, table, destination.into());
            let owner = view.get(InterfaceIndex(leaf.index())).filter(|_| leaf.class() == class::RECEIVE);
            here.owns(destination)
                || leaf.class() == class::RECEIVE && !owner.is_some_and(|owner| owner.ip6.is_anycast(destination))
        };
        if of_one_scope && is_ours() {
            return Some(destination);
        }
        if sender.is_unicast_link_local() {
            return here.link_local;
        }
        if row.flags & BEHIND_LABEL != 0 {
            // The router cannot know how to reach the sender: the answer follows the packet's path.
            return here.address_towards(sender);
        }
        let leaf = self.fibs.first_way(cx.round, table, sender.into(), &self.objects);
        match leaf.class() {
            class::ADJACENCY | class::MIDCHAIN | class::GLEAN => {
                let out = InterfaceIndex(self.objects.get(cx.round, leaf.index()).interface());
                let there = || view.get(out)?.ip6.address_towards(sender);
                match view.table_of(Family::Ip6, out) == table {
                    true => there(),
                    // The sender's table does not know that interface's network.
                    false => here.address_towards(sender).or_else(there),
                }
            }
            _ => here.address_towards(sender),
        }
    }
}

/// RFC 4443 2.4 (e): whether an error about this packet is forbidden, and by which edge the packet ends then. Some
/// errors are allowed about packets to groups.
pub(crate) fn forbidden(cx: &Context<'_>, row: &Row, to_groups_too: bool) -> Option<Edge> {
    if row.flags & flag::ORIGINATED != 0 {
        return Some(Edge::AboutOurs);
    }
    let bytes = cx.buffers.bytes(row.packet);
    let end = (row.l2 as usize + row.first_length(cx.buffers)).min(bytes.len());
    let bytes = bytes.get(row.l3 as usize..end).unwrap_or_default();
    let Some(rest) = bytes.get(HEADER_LEN..) else { return Some(Edge::AboutSource) };
    let header = ipv6::Header::new_unchecked(bytes);
    let is_for_many = row.flags & check::GROUP != 0 || header.dst().is_multicast();
    if is_for_many && !to_groups_too {
        return Some(Edge::AboutGroup);
    }
    let source = header.src();
    if source.is_unspecified() || source.is_multicast() || source.is_loopback() {
        return Some(Edge::AboutSource);
    }
    // A packet whose headers cannot be read, or a later fragment, which has no ICMPv6 type, does not count as an error.
    let chain = Chain::walk(header.next_header(), rest).ok()?;
    let is_later = chain.fragment.is_some_and(|header| header.fragment.offset > 0);
    let kind = Type(*rest.get(chain.payload)?);
    let is_error = chain.protocol == Protocol::ICMP6 && !is_later && (kind.is_error() || kind == Type::REDIRECT);
    is_error.then_some(Edge::AboutError)
}

/// Writes the message around the start of the packet, and cuts off what is beyond the quote.
fn write(cx: &mut Context<'_>, row: &mut Row, us: Ipv6Addr, sender: Ipv6Addr, report: Report) {
    let quote = report::quoted(cx, row, usize::from(MIN_MTU) - HEADERS);
    keep_first_buffer(cx, row);
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
    row.flags &= !flag::OFFLOAD;
}

impl Map for Icmp6Error {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        vector.each_row(|row| self.one(cx, row));
    }
}

/// Whether it is also sent about packets to groups.
fn is_about_groups(report: Report) -> bool {
    report.kind == Type::PACKET_TOO_BIG
        || (report.kind, report.code) == (Type::PARAMETER_PROBLEM, parameter_problem::OPTION)
}
