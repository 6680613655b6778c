//! `ip4-redirect`: tells hosts of a better next hop than this router.
//!
//! `ip4-rewrite` sends packets here that are about to leave by the interface that they came by, when an
//! operator wants redirects there. They go back and on their way, marked, so that they come here once. When
//! the next hop is the sender's neighbour, the sender gets an ICMP redirect for the host as well (RFC 1812
//! 5.2.7.2). Reads: `target`, the adjacency; the packet at `l3`. Next: `ip4-rewrite` with the packet,
//! `ip4-lookup` with the message.

use super::error::{self, Report};
use super::policy::SharedPolicy;
use crate::interface::SharedFacts;
use crate::rate::TokenBucket;
use graph::buffer::HEADROOM;
use graph::{CounterSpec, Expand, Expansion, NodeSpec, Row, Severity, Vector, flag, time};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::Ipv4Addr;
use std::time::Duration;
use tables::{Leaf, ObjectHandle};
use wire::ipv4;
use wire::{batch::check, icmpv4};

graph::edges! {
    pub enum Edge {
        Rewrite => next "ip4-rewrite",
        Lookup => next "ip4-lookup",
    }
}

const COUNTERS: &[CounterSpec] = &[
    CounterSpec(
        "ICMP redirect sent",
        Severity::Info,
        "A host sent by this router what a neighbour of its own would take, and was told so (RFC 1812 5.2.7.2). \
         Normal where a network has several routers; `set interface ip redirects` switches it.",
    ),
    CounterSpec(
        "ICMP redirects limited by rate",
        Severity::Info,
        "A host was told of a better next hop less than a second ago, or more were told than may be (`set ip icmp \
         error-rate`). One that goes on so takes no heed of redirects: give it the route.",
    ),
    CounterSpec(
        "no free buffer",
        Severity::Error,
        "There was no buffer for a redirect; the packet that it was about went on. `show buffers`.",
    ),
];
const SENT: usize = 0;
const LIMITED: usize = 1;
const NO_BUFFER: usize = 2;

/// A host that was told of a destination is not told again for so long: it may take no heed (RFC 1812
/// 4.3.2.8 wants such messages limited).
const QUIET: Duration = Duration::from_secs(1);
/// Places where it is remembered who was told of what, and when.
const REMEMBERED: usize = 1024;

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-redirect".into(), edges: Edge::EDGES, counters: COUNTERS, trace: crate::headers::trace_ip4 }
}

pub struct Redirect {
    objects: ObjectHandle,
    facts: SharedFacts,
    policy: SharedPolicy,
    bucket: TokenBucket,
    /// Until when nobody is told, by hash of sender and destination; 0: nobody was.
    told: Vec<u64>,
    next_id: u16,
}

impl Redirect {
    pub(crate) fn new(objects: ObjectHandle, facts: SharedFacts, policy: SharedPolicy) -> Redirect {
        Redirect { objects, facts, policy, bucket: TokenBucket::full(), told: vec![0; REMEMBERED], next_id: 0 }
    }

    /// Tells the sender of a packet of its next hop, when there is something to tell.
    fn tell(&mut self, x: &mut Expansion<'_, '_>, row: &Row) {
        let round = x.cx.round;
        let policy = self.policy.load(round);
        if error::forbidden(x.cx, row, policy).is_some() {
            return;
        }
        let header = ipv4::Header::new_unchecked(&x.cx.buffers.bytes(row.packet)[row.l3 as usize..]);
        let (source, destination) = (header.src(), header.dst());
        let object = self.objects.get(round, Leaf(row.target).index());
        let next_hop = match object.next_hop() {
            Ipv4Addr::UNSPECIFIED => destination,
            next_hop => next_hop,
        };
        let Some(facts) = self.facts.load(round).get(row.rx_interface) else { return };
        let own = facts.addresses.iter().find(|network| network.contains(source) && network.contains(next_hop));
        let Some(us) = own.map(|network| network.address()) else { return };
        if source == next_hop {
            return;
        }
        // Others who share the place wait as well: nobody can push out what is remembered.
        let place = place_of(source, destination);
        let told = &mut self.told[place];
        if x.cx.now < *told || !self.bucket.take(policy.limit, x.cx.now) {
            return x.cx.count(LIMITED, 1);
        }
        *told = x.cx.now + time::to_ticks(QUIET);
        self.next_id = self.next_id.wrapping_add(1);
        let report = Report::redirect(next_hop);
        let Some(message) = message(x, row, report, us, source, self.next_id) else {
            return x.cx.count(NO_BUFFER, 1);
        };
        x.cx.count(SENT, 1);
        x.originate(message, Edge::Lookup.into());
    }
}

fn place_of(source: Ipv4Addr, destination: Ipv4Addr) -> usize {
    let mut hasher = DefaultHasher::new();
    (source, destination).hash(&mut hasher);
    hasher.finish() as usize % REMEMBERED
}

/// A new packet that carries a report about `row`; none when there is no buffer.
fn message(x: &mut Expansion<'_, '_>, row: &Row, report: Report, us: Ipv4Addr, to: Ipv4Addr, id: u16) -> Option<Row> {
    let packet = x.cx.buffers.allocate_one()?;
    let quote = error::quoted(x.cx, row);
    let length = error::HEADERS + quote;
    let (from, bytes) = x.cx.buffers.pair_mut(row.packet, packet);
    let l3 = row.l3 as usize;
    bytes[HEADROOM + error::HEADERS..HEADROOM + length].copy_from_slice(&from[l3..l3 + quote]);
    error::emit(&mut bytes[HEADROOM..HEADROOM + length], report, us, to, id);
    let segment = x.cx.buffers.segment_mut(packet);
    (segment.offset, segment.length) = (HEADROOM as u16, length as u16);
    segment.set_next(None);
    Some(Row {
        packet,
        rx_interface: row.rx_interface,
        target: to.into(),
        flags: flag::ORIGINATED | check::EXAMINED,
        l2: HEADROOM as u16,
        l3: HEADROOM as u16,
        length: length as u16,
        ..Row::default()
    })
}

impl Expand for Redirect {
    fn process(&mut self, x: &mut Expansion<'_, '_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let mut row = vector.row(i);
            self.tell(x, &row);
            row.flags |= flag::REDIRECTED;
            vector.set_row(i, row);
            vector.set_edge(i, Edge::Rewrite.into());
        }
    }
}

const _: () = assert!(error::HEADERS == ipv4::HEADER_LEN + icmpv4::HEADER_LEN);
