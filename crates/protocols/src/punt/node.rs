//! `ip4-punt-redirect`, `ip6-punt-redirect`: packets to this router that no other node handles. They go to the host
//! behind it, if any. The arcs `ip4-punt` and `ip6-punt` end here.
//!
//! Reads: why the packet is here, an [`Unclaimed`] in scratch; the interface that received it. Writes: for
//! the host, the adjacency that leads there into `target`. Next: `ip4-rewrite` or `ip6-rewrite` when there is a path
//! to the host. It must not be the interface that received the packet, except for errors about packets from there.
//! Else the sender is notified: `tcp4-reset` or `tcp6-reset`, with the start of the segment in scratch; or
//! `ip4-icmp-error` or `ip6-icmp-error`, with the reason in it. Other packets end here as a named drop.
//!
//! IPv6 packets from or to a link-local address stay on their link (RFC 4291 2.5.6): the host could not answer them.

use super::{SharedPunts, ToHost};
use graph::{Context, CounterTable, Map, NodeSpec, Row, Scratch, Vector, flag};
use router::headers::PayloadAt;
use router::rate::TokenBucket;
pub use router::reply::marks::PUNTED;
pub use router::reply::unclaimed::Unclaimed;
pub use router::reply::{report4, report6};
use std::sync::Arc;
use wire::{Family, icmpv4, icmpv6, ipv6};

graph::edges! {
    pub enum Edge {
        Rewrite => next "ip4-rewrite",
        Reset => next "tcp4-reset",
        IcmpError => next "ip4-icmp-error",
        /// A packet matched a route `via punt`, but no interface leads to the host (`ip punt redirect`), or the
        /// interface that does is down.
        NoHost => note "punted, but no host interface takes it",
        /// The host sent a packet that matches a route `via punt`, so it would go back to the host. Find the route on
        /// the host that leads to this router and should not.
        CameBack => warn "punted packet came back from the host",
        /// More packets for the host arrived than `set ip punt rate` allows.
        RateLimited => warn "punted packets limited by rate",
        /// An ICMP message of a type that this router does not process, such as a timestamp request, or a reply to no
        /// current ping. No interface leads to the host, which could process it. Normal.
        Unhandled => end "ICMP type not handled",
    }
}

/// The same of `ip6-punt-redirect`, in the same order.
mod edge6 {
    graph::edges! {
        pub enum Edge like super::Edge {
            Rewrite => next "ip6-rewrite",
            Reset => next "tcp6-reset",
            IcmpError => next "ip6-icmp-error",
            /// A packet matched a route `via punt`, but no interface leads to the host (`ip6 punt redirect`), or the
            /// interface that does is down.
            NoHost => note "punted, but no host interface takes it",
            /// The host sent a packet that matches a route `via punt`, so it would go back to the host. Find the
            /// route on the host that leads to this router and should not.
            CameBack => warn "punted packet came back from the host",
            /// More packets for the host arrived than `set ip6 punt rate` allows.
            RateLimited => warn "punted packets limited by rate",
            /// An ICMPv6 message that asks this router for nothing, such as a reply or an error that belongs to no
            /// request. No interface leads to the host, which could process it. Normal.
            Unhandled => end "ICMPv6 message that asks for nothing",
        }
    }
}

/// The node's name.
pub const fn end_of_arc(family: Family) -> &'static str {
    match family {
        Family::Ip4 => "ip4-punt-redirect",
        Family::Ip6 => "ip6-punt-redirect",
    }
}

pub fn spec(family: Family) -> NodeSpec {
    let edges = match family {
        Family::Ip4 => Edge::EDGES,
        Family::Ip6 => edge6::Edge::EDGES,
    };
    NodeSpec { name: end_of_arc(family).into(), edges, counters: &[], trace: router::headers::trace_of(family) }
}

pub struct Punt {
    family: Family,
    table: SharedPunts,
    /// Punted packets, by receiving interface.
    punts: Arc<CounterTable>,
    bucket: TokenBucket,
}

impl Punt {
    pub(crate) fn new(family: Family, table: SharedPunts, punts: Arc<CounterTable>) -> Punt {
        Punt { family, table, punts, bucket: TokenBucket::full() }
    }

    fn one(&mut self, cx: &Context<'_>, row: &mut Row) -> Edge {
        let reason = row.scratch.read().unwrap_or(Unclaimed::Route);
        row.scratch = Scratch::NONE;
        let ways = self.table.load(cx.round).of(self.family);
        if reason == Unclaimed::Error {
            let Some(way) = ways.back_by(row.rx_interface) else { return Edge::NoHost };
            return to_host(row, way);
        }
        if self.family == Family::Ip6 && stays_on_link(cx, row) {
            return self.refuse_on_link(row, reason);
        }
        // One that waited for the host's Ethernet address comes here again.
        let is_new = row.flags & PUNTED == 0;
        let way = ways.way(row.rx_interface).filter(|_| row.flags & flag::ORIGINATED == 0);
        let comes_from_host = way.is_some_and(|way| way.interface == row.rx_interface);
        if is_new && (reason == Unclaimed::Route || way.is_some() && !comes_from_host) {
            self.punts.add(cx.thread, row.rx_interface.0 as usize, 0, 1);
        }
        let Some(way) = way.filter(|_| !comes_from_host) else {
            let is_loop = comes_from_host && reason == Unclaimed::Route;
            return if is_loop { Edge::CameBack } else { self.refuse(row, reason) };
        };
        if is_new && ways.limit.is_some_and(|limit| !self.bucket.take(limit, cx.now)) {
            return Edge::RateLimited;
        }
        to_host(row, way)
    }

    /// How the sender is notified when there is no path to the host either (RFC 1122 3.2.2.1, RFC 4443 3.1, RFC 8200
    /// section 4).
    fn refuse(&self, row: &mut Row, reason: Unclaimed) -> Edge {
        row.scratch = match (reason, self.family) {
            (Unclaimed::Route | Unclaimed::Error, _) => return Edge::NoHost,
            (Unclaimed::Message, _) => return Edge::Unhandled,
            (Unclaimed::Segment { at }, _) => {
                row.scratch = Scratch::of(PayloadAt(at));
                return Edge::Reset;
            }
            (Unclaimed::Port, Family::Ip4) => Scratch::of(report4::Report::unreachable(icmpv4::unreachable::PORT)),
            (Unclaimed::Port, Family::Ip6) => Scratch::of(report6::Report::unreachable(icmpv6::unreachable::PORT)),
            (Unclaimed::Protocol { .. }, Family::Ip4) => {
                Scratch::of(report4::Report::unreachable(icmpv4::unreachable::PROTOCOL))
            }
            (Unclaimed::Protocol { named_at }, Family::Ip6) => {
                Scratch::of(report6::Report::parameter_problem(icmpv6::parameter_problem::NEXT_HEADER, named_at))
            }
        };
        Edge::IcmpError
    }

    /// The same of what may not leave its link.
    fn refuse_on_link(&self, row: &mut Row, reason: Unclaimed) -> Edge {
        if reason != Unclaimed::Route {
            return self.refuse(row, reason);
        }
        row.scratch = Scratch::of(report6::Report::unreachable(icmpv6::unreachable::BEYOND_SCOPE));
        Edge::IcmpError
    }
}

/// Whether a packet's addresses, or one of them, mean something on its link only, or it is for a group.
fn stays_on_link(cx: &Context<'_>, row: &Row) -> bool {
    let header = ipv6::Header::new_unchecked(&cx.buffers.bytes(row.packet)[row.l3 as usize..]);
    let destination = header.dst();
    header.src().is_unicast_link_local() || destination.is_unicast_link_local() || destination.is_multicast()
}

fn to_host(row: &mut Row, way: ToHost) -> Edge {
    row.flags |= PUNTED;
    row.target = way.adjacency.0;
    Edge::Rewrite
}

impl Map for Punt {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        vector.each_row(|row| self.one(cx, row));
    }
}
