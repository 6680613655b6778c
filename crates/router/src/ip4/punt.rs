//! `ip4-punt`: packets for this router, or for the host behind it, that no node here takes.
//!
//! Reads: why the packet is here, an [`Unclaimed`] in the scratch word. Next: with nobody on the host to take
//! it, the packet's sender is told: `tcp4-reset`, or `ip4-icmp-error` with the reason in the scratch
//! word. What an operator's route punts ends here, counted by interface and by name.

use crate::icmp::Report;
use graph::{Context, CounterTable, Map, NodeSpec, Vector};
use std::sync::Arc;
use wire::icmpv4::unreachable;

graph::edges! {
    pub enum Edge {
        Reset => next "tcp4-reset",
        IcmpError => next "ip4-icmp-error",
        /// A packet took a route `via punt`, but no interface leads to the host.
        NoHost => drop "punted, but no host interface takes it",
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
}

impl From<Unclaimed> for u64 {
    fn from(reason: Unclaimed) -> u64 {
        reason as u64
    }
}

impl From<u64> for Unclaimed {
    fn from(word: u64) -> Unclaimed {
        const ALL: [Unclaimed; 4] = [Unclaimed::Route, Unclaimed::Protocol, Unclaimed::Port, Unclaimed::Segment];
        ALL.get(word as usize).copied().unwrap_or(Unclaimed::Route)
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-punt".into(), edges: Edge::EDGES, counters: &[], trace: crate::headers::trace_ip4 }
}

pub struct Ip4Punt {
    /// Punted packets, by receiving interface.
    punts: Arc<CounterTable>,
}

impl Ip4Punt {
    pub fn new(punts: Arc<CounterTable>) -> Ip4Punt {
        Ip4Punt { punts }
    }
}

impl Map for Ip4Punt {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let row = vector.row(i);
            let reason = Unclaimed::from(row.scratch);
            if reason == Unclaimed::Route {
                self.punts.add(cx.thread, row.rx_interface.0 as usize, 0, 1);
            }
            let (to, scratch) = refusal(reason);
            vector.set_scratch(i, scratch);
            vector.set_edge(i, to.into());
        }
    }
}

/// What a packet's sender is told when the host does not take it either (RFC 1122 3.2.2.1).
fn refusal(reason: Unclaimed) -> (Edge, u64) {
    match reason {
        Unclaimed::Route => (Edge::NoHost, 0),
        Unclaimed::Protocol => (Edge::IcmpError, Report::unreachable(unreachable::PROTOCOL).into()),
        Unclaimed::Port => (Edge::IcmpError, Report::unreachable(unreachable::PORT).into()),
        Unclaimed::Segment => (Edge::Reset, 0),
    }
}
