//! `ip4-redirect`: tells hosts of a better next hop than this router. `ip6-redirect` shares most of it.
//!
//! `ip4-rewrite` sends packets here that are about to leave by the interface that they came by, if redirects are
//! enabled on it. The packets return to `ip4-rewrite` with a mark, so that they come here only once. When the next hop
//! is the sender's neighbour, the sender also gets an ICMP redirect for the host (RFC 1812 5.2.7.2). Reads: `target`,
//! the adjacency; the packet at `l3`. Next: `ip4-rewrite` with the packet, `ip4-lookup` with the message.

use super::error;
use graph::buffer::HEADROOM;
use graph::{Context, CounterSpec, Expand, Expansion, NodeSpec, Row, Severity, Vector, flag, time};
use router::interface::SharedViews;
use router::rate::TokenBucket;
pub use router::reply::marks::REDIRECTED;
pub use router::reply::policy::SharedPolicy;
pub use router::reply::report4::Report;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use tables::{Leaf, ObjectHandle};
use wire::ipv4;
use wire::{batch::check, icmpv4};

graph::edges! {
    /// The edges of either family, in this order.
    pub enum Edge {
        Rewrite => next "ip4-rewrite",
        Message => next "ip4-lookup",
    }
}

const COUNTERS: &[CounterSpec] = &[
    CounterSpec(
        "ICMP redirect sent",
        Severity::Info,
        "A host sent a packet through this router although the next hop is a neighbour of the host itself. The \
         router told the host so (RFC 1812 5.2.7.2). Normal where a network has several routers. \
         `set interface ip redirects` enables or disables redirects.",
    ),
    limited("ICMP redirects limited by rate"),
    NO_BUFFER_COUNTER,
];

pub(crate) const fn limited(name: &'static str) -> CounterSpec {
    CounterSpec(
        name,
        Severity::Info,
        "The router sent no redirect, because the host got one less than a second ago, or the rate limit is reached \
         (`set ip icmp error-rate`). A host that continues ignores redirects: configure the route on it.",
    )
}

pub(crate) const NO_BUFFER_COUNTER: CounterSpec = CounterSpec(
    "no free buffer",
    Severity::Error,
    "No packet buffer was free for a redirect. The packet itself was forwarded. Check `show buffers`.",
);

/// The counters of either family, in this order.
const SENT: usize = 0;
const LIMITED: usize = 1;
const NO_BUFFER: usize = 2;

/// How long a host gets no second redirect for the same destination, because it may ignore redirects (RFC 1812 4.3.2.8
/// asks for such a limit).
const QUIET: Duration = Duration::from_secs(1);
/// Slots that remember when a redirect was sent, by sender and destination.
const REMEMBERED: usize = 1024;

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-redirect".into(), edges: Edge::EDGES, counters: COUNTERS, trace: router::headers::trace_ip4 }
}

/// The tables that the nodes read.
#[derive(Clone)]
pub(crate) struct Tables {
    pub objects: ObjectHandle,
    pub view: SharedViews,
    pub policy: SharedPolicy,
}

/// A redirect of either family.
pub(crate) trait Advice: Sized + 'static {
    /// Bytes ahead of the quote.
    const HEADERS: usize;

    /// The redirect for a packet, if there is a better next hop.
    fn find(tables: &Tables, cx: &mut Context<'_>, row: &Row) -> Option<Self>;
    /// The receiver of the redirect, and the destination that it is about.
    fn about(&self) -> (IpAddr, IpAddr);
    /// How many bytes of the packet are quoted, from its IP header on.
    fn quoted(cx: &Context<'_>, row: &Row) -> usize;
    /// Writes the headers before the quote, which is in its place.
    fn emit(&self, packet: &mut [u8], id: u16);
    /// Sets what the node that sends the message needs to know.
    fn leave(&self, row: &mut Row);
}

/// The node of a family.
pub(crate) struct Redirect<A> {
    tables: Tables,
    bucket: TokenBucket,
    /// Until when no redirect is sent, by hash of sender and destination; 0 when none was sent yet.
    told: Vec<u64>,
    next_id: u16,
    advice: PhantomData<fn() -> A>,
}

impl<A: Advice> Redirect<A> {
    pub fn new(tables: Tables) -> Redirect<A> {
        Redirect { tables, bucket: TokenBucket::full(), told: vec![0; REMEMBERED], next_id: 0, advice: PhantomData }
    }

    /// Sends a packet's sender a redirect, if there is a better next hop.
    fn tell(&mut self, x: &mut Expansion<'_, '_>, row: &Row) {
        let Some(advice) = A::find(&self.tables, x.cx, row) else { return };
        // Senders that share the slot wait as well, so that no sender can evict an entry.
        let told = &mut self.told[place_of(advice.about())];
        let limit = self.tables.policy.load(x.cx.round).limit;
        if x.cx.now < *told || !self.bucket.take(limit, x.cx.now) {
            return x.cx.count(LIMITED, 1);
        }
        *told = x.cx.now + time::to_ticks(QUIET);
        self.next_id = self.next_id.wrapping_add(1);
        let Some(message) = message(x, row, &advice, self.next_id) else {
            return x.cx.count(NO_BUFFER, 1);
        };
        x.cx.count(SENT, 1);
        x.originate(message, Edge::Message.into());
    }
}

fn place_of(about: (IpAddr, IpAddr)) -> usize {
    let mut hasher = DefaultHasher::new();
    about.hash(&mut hasher);
    hasher.finish() as usize % REMEMBERED
}

/// A new packet with a redirect about `row`, or `None` when there is no buffer.
fn message<A: Advice>(x: &mut Expansion<'_, '_>, row: &Row, advice: &A, id: u16) -> Option<Row> {
    let packet = x.cx.buffers.allocate_one()?;
    let quote = A::quoted(x.cx, row);
    let length = A::HEADERS + quote;
    let (from, bytes) = x.cx.buffers.pair_mut(row.packet, packet);
    let l3 = row.l3 as usize;
    bytes[HEADROOM + A::HEADERS..HEADROOM + length].copy_from_slice(&from[l3..l3 + quote]);
    advice.emit(&mut bytes[HEADROOM..HEADROOM + length], id);
    let segment = x.cx.buffers.segment_mut(packet);
    (segment.offset, segment.length) = (HEADROOM as u16, length as u16);
    segment.set_next(None);
    let mut message = Row {
        packet,
        rx_interface: row.rx_interface,
        flags: flag::ORIGINATED,
        l2: HEADROOM as u16,
        l3: HEADROOM as u16,
        length: length as u16,
        ..Row::default()
    };
    advice.leave(&mut message);
    Some(message)
}

impl<A: Advice> Expand for Redirect<A> {
    fn process(&mut self, x: &mut Expansion<'_, '_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let mut row = vector.row(i);
            self.tell(x, &row);
            row.flags |= REDIRECTED;
            vector.set_row(i, row);
            vector.set_edge(i, Edge::Rewrite.into());
        }
    }
}

/// A redirect for a host (RFC 1812 5.2.7.2).
pub(super) struct Advice4 {
    us: Ipv4Addr,
    sender: Ipv4Addr,
    destination: Ipv4Addr,
    next_hop: Ipv4Addr,
}

impl Advice for Advice4 {
    const HEADERS: usize = error::HEADERS;

    fn find(tables: &Tables, cx: &mut Context<'_>, row: &Row) -> Option<Advice4> {
        if error::forbidden(cx, row, tables.policy.load(cx.round)).is_some() {
            return None;
        }
        let header = ipv4::Header::new_unchecked(&cx.buffers.bytes(row.packet)[row.l3 as usize..]);
        let (sender, destination) = (header.src(), header.dst());
        let object = tables.objects.get(cx.round, Leaf(row.target).index());
        let next_hop = match object.next_hop() {
            Ipv4Addr::UNSPECIFIED => destination,
            next_hop => next_hop,
        };
        let view = tables.view.load(cx.round).get(row.rx_interface)?;
        let own = view.addresses.iter().find(|network| network.contains(sender) && network.contains(next_hop));
        let us = own.filter(|_| sender != next_hop)?.address();
        Some(Advice4 { us, sender, destination, next_hop })
    }

    fn about(&self) -> (IpAddr, IpAddr) {
        (self.sender.into(), self.destination.into())
    }

    fn quoted(cx: &Context<'_>, row: &Row) -> usize {
        error::quoted(cx, row)
    }

    fn emit(&self, packet: &mut [u8], id: u16) {
        error::emit(packet, Report::redirect(self.next_hop), self.us, self.sender, id);
    }

    fn leave(&self, row: &mut Row) {
        row.target = self.sender.into();
        row.flags |= check::EXAMINED;
    }
}

const _: () = assert!(error::HEADERS == ipv4::HEADER_LEN + icmpv4::HEADER_LEN);
