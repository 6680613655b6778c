//! `ip4-punt`: packets for this router, or for the host behind it, that no node here takes.
//!
//! Reads: why the packet is here, an [`Unclaimed`] in the scratch word; the interface that received it. Writes:
//! for the host, the adjacency that leads there into `target`. Next: `ip4-rewrite` when there is a way to the
//! host, which is not the one that the packet came by (but for errors about what came by it). Else the packet's sender is told: `tcp4-reset`, or
//! `ip4-icmp-error` with the reason in the scratch word; or the packet ends here by name.

use super::{SharedPunts, ToHost};
use crate::icmp::Report;
use crate::rate::TokenBucket;
use graph::{Context, CounterTable, Map, NodeSpec, Row, Vector, flag};
use std::sync::Arc;
use wire::icmpv4::unreachable;

graph::edges! {
    pub enum Edge {
        Rewrite => next "ip4-rewrite",
        Reset => next "tcp4-reset",
        IcmpError => next "ip4-icmp-error",
        /// A packet took a route `via punt`, but no interface leads to the host (`ip punt redirect`), or the one that
        /// does is down.
        NoHost => drop "punted, but no host interface takes it",
        /// The host sent a packet that takes a route `via punt`: it would go back to the host. Look for a route of the
        /// host's that leads to this router and should not.
        CameBack => drop "punted packet came back from the host",
        /// More packets for the host came than `set ip punt rate` allows.
        RateLimited => drop "punted packets limited by rate",
        /// A message that asks this router for nothing that it does, such as a timestamp request or an answer to
        /// nobody's ping, and no host to take it. Normal.
        Unhandled => end "ICMP type not handled",
    }
}

/// Why a packet is to be punted, as it travels in scratch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unclaimed {
    /// A route says so.
    Route,
    /// It is for this router, of a protocol that this router does not have.
    Protocol,
    /// UDP to a port that no node listens to.
    Port,
    /// TCP, which this router does not have.
    Segment,
    /// An ICMP message of which this router makes nothing.
    Message,
    /// An ICMP error of this router about what the host sent under one of the router's addresses.
    Error,
}

impl From<Unclaimed> for u64 {
    fn from(reason: Unclaimed) -> u64 {
        reason as u64
    }
}

impl From<u64> for Unclaimed {
    fn from(word: u64) -> Unclaimed {
        use Unclaimed::{Error, Message, Port, Protocol, Route, Segment};
        [Route, Protocol, Port, Segment, Message, Error].get(word as usize).copied().unwrap_or(Route)
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-punt".into(), edges: Edge::EDGES, counters: &[], trace: crate::headers::trace_ip4 }
}

pub struct Ip4Punt {
    table: SharedPunts,
    /// Punted packets, by receiving interface.
    punts: Arc<CounterTable>,
    bucket: TokenBucket,
}

impl Ip4Punt {
    pub(crate) fn new(table: SharedPunts, punts: Arc<CounterTable>) -> Ip4Punt {
        Ip4Punt { table, punts, bucket: TokenBucket::full() }
    }

    fn one(&mut self, cx: &Context<'_>, row: &mut Row) -> Edge {
        let reason = Unclaimed::from(row.scratch);
        row.scratch = 0;
        let table = self.table.load(cx.round);
        if reason == Unclaimed::Error {
            let Some(way) = table.back_by(row.rx_interface) else { return Edge::NoHost };
            return to_host(row, way);
        }
        // One that waited for the host's Ethernet address comes here again.
        let is_new = row.flags & flag::PUNTED == 0;
        let way = table.way(row.rx_interface).filter(|_| row.flags & flag::ORIGINATED == 0);
        let comes_from_host = way.is_some_and(|way| way.interface == row.rx_interface);
        if is_new && (reason == Unclaimed::Route || way.is_some() && !comes_from_host) {
            self.punts.add(cx.thread, row.rx_interface.0 as usize, 0, 1);
        }
        let Some(way) = way.filter(|_| !comes_from_host) else {
            return if comes_from_host && reason == Unclaimed::Route { Edge::CameBack } else { refuse(row, reason) };
        };
        if is_new && table.limit.is_some_and(|limit| !self.bucket.take(limit, cx.now)) {
            return Edge::RateLimited;
        }
        to_host(row, way)
    }
}

fn to_host(row: &mut Row, way: ToHost) -> Edge {
    row.flags |= flag::PUNTED;
    row.target = way.adjacency.0;
    Edge::Rewrite
}

impl Map for Ip4Punt {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        vector.each_row(|row| self.one(cx, row));
    }
}

/// What a packet's sender is told when the host does not take it either (RFC 1122 3.2.2.1).
fn refuse(row: &mut Row, reason: Unclaimed) -> Edge {
    let code = match reason {
        Unclaimed::Route | Unclaimed::Error => return Edge::NoHost,
        Unclaimed::Segment => return Edge::Reset,
        Unclaimed::Message => return Edge::Unhandled,
        Unclaimed::Protocol => unreachable::PROTOCOL,
        Unclaimed::Port => unreachable::PORT,
    };
    row.scratch = Report::unreachable(code).into();
    Edge::IcmpError
}
