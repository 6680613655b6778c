//! `ip6-icmp-input`: ICMPv6 messages to this router.
//!
//! Reads: the message, whose offset from `l3` is in scratch. Writes: the echo reply in place, with an IPv6
//! header directly before it. Next: `ip6-lookup` with a reply; `ip6-glean` with a reply from or to a link-local address
//! (`ip6-local` when the router pinged itself); `icmp6-neighbor-discovery` with its messages; `ip6-punt` with messages
//! that no node here answers. The worker reports replies to the router's own pings, and errors about them, to the
//! control thread.

use crate::icmp::ping;
use crate::icmp::ping::awaited::Awaited;
use crate::ip6::OUR_HOP_LIMIT;
use crate::ip6::reply_path::{self, ReplyPath};
use graph::{Context, CounterSpec, InterfaceIndex, Map, NodeSpec, Row, Scratch, Severity, Vector, flag};
use router::events::EventSender;
use router::headers::payload_at;
use router::headers::transport_checksum;
use router::interface::SharedViews;
pub use router::reply::to_host::SharedPunts;
pub use router::reply::unclaimed::Unclaimed;
use tables::Leaf;
use wire::Family;
use wire::batch::check;
use wire::checksum::{self, pseudo_header6};
use wire::icmpv6::{self, Type};
use wire::ipv4::Protocol;
use wire::ipv6::{self, Repr};

graph::edges! {
    pub enum Edge {
        Lookup => next "ip6-lookup",
        OnLink => next "ip6-glean",
        Local => next "ip6-local",
        Discovery => next "icmp6-neighbor-discovery",
        Listeners => next "icmp6-multicast-listener",
        Unclaimed => next "ip6-punt",
        /// The message is shorter than the 8 bytes of an ICMPv6 header (RFC 4443 2.1). A broken or hostile sender.
        Truncated => warn "ICMPv6 message shorter than its header",
        /// The checksum of the message is wrong (RFC 4443 2.3). The message was damaged on its way, or the sender
        /// leaves checksums to a NIC that does not calculate them.
        BadChecksum => warn "bad ICMPv6 checksum",
        /// A reply to a `ping` from this router, or an ICMPv6 error about one. Normal.
        Answer => end "ICMPv6 answers to our requests",
        /// The control thread is overloaded, so `ping` did not receive this answer. This happens only during a flood.
        ControlBusy => drop "control is busy, answer not told",
        /// A packet whose source is an address of this router came back: a loop, or a bridge that reflects frames.
        Own => warn "packet of ours came back to us",
        /// The router cannot answer this echo request. Its destination is a multicast or anycast address and the
        /// interface has no address to answer from, or its source is the unspecified address (::).
        NoAddress => drop "no address to answer an ICMPv6 echo from",
        /// A station on another link sent a ping to a link-local address of this router. The reply would have to
        /// leave the link, which a packet from such an address must not do (RFC 4291 2.5.6). Use another address of
        /// this router for the ping.
        BeyondLink => warn "ICMPv6 answer from a link-local address would leave its link",
    }
}

const COUNTERS: &[CounterSpec] =
    &[CounterSpec("echo replies sent", Severity::Info, "The router answered a ping (RFC 4443 4.2). Normal.")];

pub fn spec() -> NodeSpec {
    NodeSpec {
        name: "ip6-icmp-input".into(),
        edges: Edge::EDGES,
        counters: COUNTERS,
        trace: router::headers::trace_ip6,
    }
}

pub struct Icmp6Input {
    view: SharedViews,
    punts: SharedPunts,
    pub(crate) awaited: Awaited,
}

impl Icmp6Input {
    pub(crate) fn new(view: SharedViews, punts: SharedPunts, events: EventSender<ping::Event>) -> Icmp6Input {
        Icmp6Input { view, punts, awaited: Awaited::new(events) }
    }

    fn one(&mut self, cx: &mut Context<'_>, row: &mut Row) -> Edge {
        let (l3, before) = (row.l3 as usize, payload_at(row));
        let start = l3 + before;
        let length = row.l3_length().saturating_sub(before);
        // Drivers keep a packet's headers in its first buffer. A message that long extension headers push out of it is
        // refused.
        let in_first = (row.l2 as usize + row.first_length(cx.buffers)).saturating_sub(start);
        if length.min(in_first) < icmpv6::HEADER_LEN {
            return Edge::Truncated;
        }
        let header = ipv6::Header::new_unchecked(&cx.buffers.bytes(row.packet)[l3..]);
        let sum = pseudo_header6(header.src(), header.dst(), Protocol::ICMP6.0, length as u32);
        // A host on the same machine may leave the checksum to its device.
        if row.flags & flag::PARTIAL_CHECKSUM == 0 && transport_checksum(cx, row, start, length, sum) != 0 {
            return Edge::BadChecksum;
        }
        match Type(cx.buffers.bytes(row.packet)[start]) {
            Type::ECHO_REQUEST => self.reply(cx, row, start, length),
            Type::ROUTER_SOLICITATION
            | Type::ROUTER_ADVERTISEMENT
            | Type::NEIGHBOUR_SOLICITATION
            | Type::NEIGHBOUR_ADVERTISEMENT
            | Type::REDIRECT => Edge::Discovery,
            Type::LISTENER_QUERY | Type::LISTENER_REPORT | Type::LISTENER_DONE | Type::LISTENER_REPORT_2 => {
                Edge::Listeners
            }
            _ => match self.awaited.tell(cx, row, Edge::Answer, Edge::ControlBusy) {
                Some(told) => told,
                None => self.leave(cx, row),
            },
        }
    }

    /// Ends a message that no node here answers.
    fn leave(&self, cx: &Context<'_>, row: &mut Row) -> Edge {
        let ways = self.punts.load(cx.round).of(Family::Ip6);
        let Some(reason) = Unclaimed::message(row, ways) else { return Edge::Own };
        row.scratch = Scratch::of(reason);
        Edge::Unclaimed
    }

    /// Turns a request into its reply, and removes the request's extension headers.
    fn reply(&self, cx: &mut Context<'_>, row: &mut Row, start: usize, length: usize) -> Edge {
        let l3 = row.l3 as usize;
        let request = ipv6::Header::new_unchecked(&cx.buffers.bytes(row.packet)[l3..]);
        let (asker, asked, class) = (request.src(), request.dst(), request.traffic_class());
        let views = self.view.load(cx.round);
        let here = views.here(Family::Ip6, row);
        let view = views.get(here);
        // The leaf names the interface that owns the address.
        let owner = views.get(InterfaceIndex(Leaf(row.target).index()));
        let is_anycast = owner.is_some_and(|owner| owner.ip6.is_anycast(asked));
        // RFC 4443 4.2: from the requested address; for a group or an anycast address, from one of ours.
        let us = match asked.is_multicast() || is_anycast {
            true => view.and_then(|view| view.ip6.address_towards(asker)),
            false => Some(asked),
        };
        let Some(us) = us.filter(|_| !asker.is_unspecified()) else { return Edge::NoAddress };
        let whole = row.flags & flag::PARTIAL_CHECKSUM == 0;
        let bytes = cx.buffers.bytes_mut(row.packet);
        let old = u16::from_be_bytes([bytes[start + 2], bytes[start + 3]]);
        let code = u16::from(bytes[start + 1]);
        bytes[start] = Type::ECHO_REPLY.0;
        // The addresses change places, which does not change the checksum, and the type changes.
        let words = |type_: Type| u16::from(type_.0) << 8 | code;
        let mut sum = checksum::update16(old, words(Type::ECHO_REQUEST), words(Type::ECHO_REPLY));
        for (before, after) in asked.segments().into_iter().zip(us.segments()).filter(|(before, after)| before != after)
        {
            sum = checksum::update16(sum, before, after);
        }
        if whole {
            bytes[start + 2..start + 4].copy_from_slice(&sum.to_be_bytes());
        }
        let begin = start - ipv6::HEADER_LEN;
        Repr {
            src: us,
            dst: asker,
            next_header: Protocol::ICMP6,
            hop_limit: OUR_HOP_LIMIT,
            traffic_class: class,
            flow_label: 0,
            payload_len: length as u16,
        }
        .emit(&mut bytes[begin..start]);
        let cut = (begin - l3) as u16;
        (row.l2, row.l3) = (row.l2 + cut, begin as u16);
        row.length -= cut;
        becomes_ours(row);
        let to = match reply_path::choose(row, here, view.map(|view| &view.ip6), us, asker) {
            ReplyPath::Routes => Edge::Lookup,
            ReplyPath::Link => Edge::OnLink,
            ReplyPath::Here => Edge::Local,
            ReplyPath::Nowhere => return Edge::BeyondLink,
        };
        cx.count(0, 1);
        to
    }
}

/// Marks a received packet as this router's own.
pub(crate) fn becomes_ours(row: &mut Row) {
    row.flags = (row.flags & (flag::TRACED | flag::OFFLOAD | flag::CHAINED)) | flag::ORIGINATED | check::EXAMINED6;
    row.scratch = Scratch::NONE;
}

impl Map for Icmp6Input {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        vector.each_row(|row| self.one(cx, row));
    }
}
