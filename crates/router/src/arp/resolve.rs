//! `ip4-arp` and `ip4-glean`: packets whose next hop is not known yet wait here.
//!
//! The first packet for a neighbour makes an event for control, which asks by ARP, with
//! retries, and then has the packets released or refused. Few packets wait per
//! neighbour, and few in all: a scan of absent hosts must not eat the pool.
//!
//! Reads: `target`, an adjacency or glean object: interface and next hop (for a glean,
//! the packet's own destination). Next: `ip4-lookup` when released; `ip4-icmp-error`
//! (host unreachable) when nobody answered.

use super::{Event, NeighbourKey};
use crate::events::EventSender;
use crate::icmp::Report;
use graph::{Buffers, Context, EdgeIndex, Expand, Expansion, NodeSpec, Row, Snapshot, Vector, edge, flag};
use std::collections::HashMap;
use std::fmt;
use std::net::Ipv4Addr;
use tables::{Leaf, ObjectHandle};
use wire::icmpv4::unreachable;

graph::edges! {
    pub enum Edge {
        Lookup => next "ip4-lookup",
        IcmpError => next "ip4-icmp-error",
        /// As many packets as may wait for this neighbour (32), or for all (2048), are waiting for its answer already.
        /// Is the neighbour there (`show ip neighbors`)?
        QueueFull => drop "hold queue full",
        /// As many neighbours as may be asked for at a time (1024) are being asked for: somebody scans an attached
        /// network, or it is gone.
        TooMany => drop "too many neighbours being resolved",
        /// Control has more to do than it can, so the neighbour was not asked for; the next packet tries again. Under a
        /// flood only.
        ControlBusy => drop "control is busy, not asked",
    }
}

/// Packets that wait for one neighbour.
pub const HELD_PER_NEIGHBOUR: usize = 32;
/// Neighbours that are waited for, and packets in all, on one worker.
pub const MAX_WAITING: usize = 1024;
pub const MAX_HELD: usize = 2048;

/// What control says of neighbours, between rounds.
enum Verdict {
    /// It is known now, or the route has changed: look again.
    Release(NeighbourKey),
    /// It does not answer.
    Refuse(NeighbourKey),
}

/// One of the two nodes, on one worker.
pub struct Resolve {
    objects: ObjectHandle,
    events: EventSender,
    waiting: HashMap<NeighbourKey, Vec<Row>>,
    held: usize,
    verdicts: Vec<Verdict>,
}

pub fn spec(name: &str) -> NodeSpec {
    NodeSpec { name: name.into(), edges: Edge::EDGES, counters: &[], trace }
}

impl Resolve {
    pub fn new(objects: ObjectHandle, events: EventSender) -> Resolve {
        Resolve { objects, events, waiting: HashMap::new(), held: 0, verdicts: Vec::new() }
    }

    /// Control: let the packets of a neighbour go on.
    pub fn release(&mut self, key: NeighbourKey) {
        self.verdicts.push(Verdict::Release(key));
    }

    /// Control: the neighbour does not answer.
    pub fn refuse(&mut self, key: NeighbourKey) {
        self.verdicts.push(Verdict::Refuse(key));
    }

    fn carry_out(&mut self, x: &mut Expansion<'_, '_>) {
        for verdict in std::mem::take(&mut self.verdicts) {
            let (Verdict::Release(key) | Verdict::Refuse(key)) = verdict;
            let Some(rows) = self.waiting.remove(&key) else { continue };
            self.held -= rows.len();
            for mut row in rows {
                if let Verdict::Release(_) = verdict {
                    row.target = destination(x.cx, &row).into();
                    row.scratch = 0;
                    x.emit(row, Edge::Lookup.into());
                } else {
                    row.scratch = Report::unreachable(unreachable::HOST).into();
                    x.emit(row, Edge::IcmpError.into());
                }
            }
        }
    }

    /// Takes a packet in, or says why not.
    fn hold(&mut self, key: NeighbourKey, row: Row) -> EdgeIndex {
        if self.held >= MAX_HELD {
            return Edge::QueueFull.into();
        }
        if let Some(rows) = self.waiting.get_mut(&key) {
            if rows.len() >= HELD_PER_NEIGHBOUR {
                return Edge::QueueFull.into();
            }
            rows.push(row);
        } else {
            if self.waiting.len() >= MAX_WAITING {
                return Edge::TooMany.into();
            }
            if self.events.try_send(Event::Resolve(key).into()).is_err() {
                return Edge::ControlBusy.into();
            }
            self.waiting.insert(key, vec![row]);
        }
        self.held += 1;
        edge::TAKEN
    }
}

fn destination(cx: &Context<'_>, row: &Row) -> Ipv4Addr {
    let at = (row.l3 as usize + 16).min(graph::buffer::STRIDE - 4);
    let bytes = cx.buffers.bytes(row.packet);
    Ipv4Addr::new(bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3])
}

impl Expand for Resolve {
    fn process(&mut self, x: &mut Expansion<'_, '_>, vector: &mut Vector) {
        self.carry_out(x);
        for i in 0..vector.len() {
            let row = vector.row(i);
            let object = self.objects.get(x.cx.round, Leaf(row.target).index());
            let next_hop = match object.next_hop() {
                0 => destination(x.cx, &row),
                next_hop => next_hop.into(),
            };
            let key = NeighbourKey { interface: graph::InterfaceIndex(object.interface()), address: next_hop };
            let to = self.hold(key, row);
            vector.set_edge(i, to);
        }
    }

    fn held(&self) -> usize {
        self.held
    }

    fn drain(&mut self, buffers: &mut Buffers) {
        for row in self.waiting.drain().flat_map(|(_, rows)| rows) {
            buffers.free_chain(row.packet);
        }
        self.held = 0;
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    let originated = if snapshot.row.flags & flag::ORIGINATED != 0 { " (originated here)" } else { "" };
    writeln!(f, "  dpo-idx {}{originated}", Leaf(snapshot.row.target).index())?;
    crate::headers::trace_ip4(snapshot, f)
}
