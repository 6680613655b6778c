//! `ip4-arp`, `ip6-discover-neighbor`: packets whose next hop is not known yet wait here.
//!
//! The first packet for a neighbour makes an event for the control thread. That asks by ARP or Neighbor Discovery, with
//! retries, and then has the packets released or refused. The packets that wait are limited for each neighbour, each
//! interface and each source, and the requests are limited by rate in the same way. So a host that scans an empty
//! network delays only itself, and new neighbours of other hosts are still found. A neighbour that did not answer
//! lately is not asked again: its packets are refused at once.
//!
//! Reads: `target`, an adjacency or glean object: interface and next hop (for a glean, the packet's own destination).
//! Next: `ip4-lookup` or `ip6-lookup` when released (`ip6-glean` with packets from or to a link-local address);
//! `ip4-icmp-error` (host unreachable) or `ip6-icmp-error` (address unreachable) when the neighbour did not answer.

use super::limit::{Bucket, ByInterface};
use super::policy::SharedPolicy;
use super::table::Shared;
use super::{Event, NeighbourKey};
use crate::events::EventSender;
use crate::reply::marks::BEHIND_LABEL;
use crate::reply::{report4, report6};
use graph::{Buffers, Context, EdgeIndex, Expand, Expansion, NodeSpec, Row, Scratch, Snapshot, Vector, edge, flag};
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use tables::{Leaf, ObjectHandle};
use wire::mpls::ENTRY_LEN;
use wire::{Family, icmpv4, icmpv6};

graph::edges! {
    pub enum Edge like edge6::Edge {
        Lookup => next "ip4-lookup",
        IcmpError => next "ip4-icmp-error",
        /// The hold queue for this neighbour is full, and the neighbour has not answered yet (RFC 1122 2.3.2.2 asks
        /// to keep at least one packet). Check that the neighbour is up: `show ip neighbors` shows it with the flag
        /// P.
        QueueFull => warn "hold queue full",
        /// Too many packets from one source, to one interface or in total wait for neighbours that have not answered
        /// yet. A host scans a network with absent hosts.
        TooMany => warn "too many packets wait for neighbours",
        /// The router would have to send ARP requests on an interface faster than `set arp rate requests` allows, or
        /// packets of one source need more than a quarter of that rate. A host scans the network, or the network is
        /// very large.
        Throttled => warn "ARP requests throttled",
        /// This neighbour did not answer a few seconds ago, and the router did not send another ARP request. The
        /// packet's sender received no ICMP error, because too many senders were already notified.
        Silent => warn "neighbour did not answer lately",
        /// The control thread is overloaded, so the router did not send an ARP request for the neighbour.
        ControlBusy => drop "control is busy, not asked",
        Label => next "mpls-lookup",
        /// The next hop of a label switched path does not answer. The router does not notify the senders of the
        /// packets, because they can be in any network. See `show ip neighbors`.
        LabelRefused => warn "next hop of a label did not answer",
        OtherLookup => next "ip6-lookup",
        OtherIcmpError => next "ip6-icmp-error",
    }
}

/// The same for `ip6-discover-neighbor`, in the same order.
mod edge6 {
    graph::edges! {
        pub enum Edge {
            Lookup => next "ip6-lookup",
            IcmpError => next "ip6-icmp-error",
            /// The hold queue for this neighbour is full, and the neighbour has not answered yet (RFC 4861 7.2.2 asks
            /// to keep a small number of packets). Check that the neighbour is up: `show ip6 neighbors` shows it with
            /// the flag P.
            QueueFull => warn "hold queue full",
            /// Too many packets from one source, to one interface or in total wait for neighbours that have not
            /// answered yet. A host scans a network with absent hosts (RFC 6583).
            TooMany => warn "too many packets wait for neighbours",
            /// The router would have to solicit neighbours on an interface faster than `set ip6 nd rate requests`
            /// allows, or packets of one source need more than a quarter of that rate. A host scans the network, or
            /// the network is very large (RFC 6583).
            Throttled => warn "neighbor solicitations throttled",
            /// This neighbour did not answer a few seconds ago, and the router did not solicit it again. The packet's
            /// sender received no ICMP error, because too many senders were already notified.
            Silent => warn "neighbour did not answer lately",
            /// The control thread is overloaded, so the router did not send a neighbor solicitation for the
            /// neighbour.
            ControlBusy => drop "control is busy, not asked",
            Label => next "mpls-lookup",
            /// The next hop of a label switched path does not answer. The router does not notify the senders of the
            /// packets, because they can be in any network. See `show ip6 neighbors`.
            LabelRefused => warn "next hop of a label did not answer",
            OtherLookup => next "ip4-lookup",
            OtherIcmpError => next "ip4-icmp-error",
            OnLink => next "ip6-glean",
        }
    }
}

/// The most packets that wait for one neighbour.
pub const HELD_PER_NEIGHBOUR: usize = 32;
/// The most buffers of packets that wait on one worker: in total, for neighbours of one interface, and of those from
/// one source. With little packet memory they are fewer: [`Bounds`].
pub const MAX_HELD: usize = 2048;
pub const MAX_HELD_OF_INTERFACE: usize = 1024;
pub const MAX_HELD_OF_SOURCE: usize = 256;
/// Sources are distinguished by a hash with this many values. Each value has this share of the rate.
const SOURCES: usize = 256;
const SHARE_OF_SOURCE: u32 = 4;
/// Reports per second, on an interface, to senders of packets to a silent neighbour.
const REFUSALS: u32 = 100;

/// What the control thread decided about a neighbour, between rounds.
enum Verdict {
    /// The neighbour is known now, or the route has changed: look the packets up again.
    Release(NeighbourKey),
    /// The neighbour does not answer.
    Refuse(NeighbourKey),
}

/// The most buffers in which packets may wait.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    pub all: usize,
    pub of_interface: usize,
    pub of_source: usize,
}

impl Bounds {
    /// The bounds for a worker with a share of packet memory in buffers. Pending packets get a quarter of it at most,
    /// because other packets need buffers, too. An interface and a source get a part of that.
    pub fn of_share(buffers: usize) -> Bounds {
        let all = (buffers / 4).clamp(1, MAX_HELD);
        let part = |most: usize| (all * most / MAX_HELD).max(1);
        Bounds { all, of_interface: part(MAX_HELD_OF_INTERFACE), of_source: part(MAX_HELD_OF_SOURCE) }
    }
}

/// A packet that waits.
struct Waiting {
    row: Row,
    /// The number of its source, and of its buffers.
    source: usize,
    buffers: usize,
}

/// What a source uses of an interface's share.
#[derive(Debug, Default)]
struct OfSource {
    requests: Bucket,
    /// Buffers of packets that wait.
    held: usize,
}

#[derive(Debug, Default)]
struct Share {
    requests: Bucket,
    refusals: Bucket,
    /// Buffers of packets that wait.
    held: usize,
    sources: Vec<OfSource>,
}

/// The node on one worker.
pub struct Resolve {
    family: Family,
    objects: ObjectHandle,
    events: EventSender<Event>,
    known: Arc<Shared>,
    policy: SharedPolicy,
    /// Packets in the order of their arrival.
    waiting: HashMap<NeighbourKey, Vec<Waiting>>,
    packets: usize,
    buffers: usize,
    bounds: Bounds,
    shares: ByInterface<Share>,
    verdicts: Vec<Verdict>,
    seed: RandomState,
}

pub fn spec(family: Family) -> NodeSpec {
    match family {
        Family::Ip4 => NodeSpec { name: "ip4-arp".into(), edges: Edge::EDGES, counters: &[], trace },
        Family::Ip6 => {
            NodeSpec { name: "ip6-discover-neighbor".into(), edges: edge6::Edge::EDGES, counters: &[], trace: trace6 }
        }
    }
}

impl Resolve {
    /// The node for a worker whose share of packet memory is this many `buffers`.
    pub fn new(
        family: Family,
        objects: ObjectHandle,
        events: EventSender<Event>,
        known: Arc<Shared>,
        policy: SharedPolicy,
        buffers: usize,
    ) -> Resolve {
        Resolve {
            family,
            objects,
            events,
            known,
            policy,
            waiting: HashMap::new(),
            packets: 0,
            buffers: 0,
            bounds: Bounds::of_share(buffers),
            shares: ByInterface::default(),
            verdicts: Vec::new(),
            seed: RandomState::new(),
        }
    }

    /// Called by the control thread: let the packets of a neighbour continue.
    pub fn release(&mut self, key: NeighbourKey) {
        self.verdicts.push(Verdict::Release(key));
    }

    /// Called by the control thread: the neighbour does not answer.
    pub fn refuse(&mut self, key: NeighbourKey) {
        self.verdicts.push(Verdict::Refuse(key));
    }

    fn carry_out(&mut self, x: &mut Expansion<'_, '_>) {
        for verdict in std::mem::take(&mut self.verdicts) {
            let (Verdict::Release(key) | Verdict::Refuse(key)) = verdict;
            let Some(packets) = self.waiting.remove(&key) else { continue };
            self.packets -= packets.len();
            let share = self.shares.of(key.interface);
            for Waiting { mut row, source, buffers } in packets {
                self.buffers -= buffers;
                share.held -= buffers;
                share.sources[source].held -= buffers;
                if let Verdict::Release(_) = verdict {
                    let to = look_again(self.family, x.cx, &mut row);
                    x.emit(row, to);
                } else {
                    let to = refused(self.family, x.cx, &mut row);
                    x.emit(row, to.into());
                }
            }
        }
    }

    /// Holds a packet, or returns the edge by which it leaves.
    fn hold(&mut self, cx: &Context<'_>, key: NeighbourKey, row: &mut Row) -> EdgeIndex {
        let share = self.shares.of(key.interface);
        if share.sources.is_empty() {
            share.sources.resize_with(SOURCES, OfSource::default);
        }
        let number = self.seed.hash_one(source(family_of(self.family, cx, row), cx, row)) as usize % SOURCES;
        let of_source = &mut share.sources[number];
        let others = self.waiting.get_mut(&key);
        if others.as_ref().is_some_and(|others| others.len() >= HELD_PER_NEIGHBOUR) {
            return Edge::QueueFull.into();
        }
        if others.is_none() && self.known.get(cx.round, &key).is_some_and(|entry| entry.word().is_silent()) {
            let told = share.refusals.take(cx.now, REFUSALS);
            return if told { refused(self.family, cx, row) } else { Edge::Silent }.into();
        }
        let buffers = buffers_of(cx, row);
        let Bounds { all, of_interface, of_source: own } = self.bounds;
        let full = self.buffers + buffers > all || share.held + buffers > of_interface;
        if full || of_source.held + buffers > own {
            return Edge::TooMany.into();
        }
        let packet = Waiting { row: *row, source: number, buffers };
        match others {
            Some(others) => others.push(packet),
            None => {
                let rate = self.policy.load(cx.round).rates[self.family].requests;
                // The source's limit comes first, so that a source with too many requests uses nothing of the others'
                // share.
                let part = (rate / SHARE_OF_SOURCE).max(1);
                if !(of_source.requests.take(cx.now, part) && share.requests.take(cx.now, rate)) {
                    return Edge::Throttled.into();
                }
                if self.events.try_send(Event::Resolve(key)).is_err() {
                    return Edge::ControlBusy.into();
                }
                self.waiting.insert(key, vec![packet]);
            }
        }
        of_source.held += buffers;
        share.held += buffers;
        self.buffers += buffers;
        self.packets += 1;
        edge::TAKEN
    }
}

/// The family of a packet by its next hop's family: labelled packets may have a next hop of the other family.
fn family_of(hop: Family, cx: &Context<'_>, row: &Row) -> Family {
    match bytes_at::<1>(cx, row, 0)[0] >> 4 {
        4 => Family::Ip4,
        6 => Family::Ip6,
        _ => hop,
    }
}

/// Prepares the report to a packet's sender that the next hop does not answer.
fn refused(family: Family, cx: &Context<'_>, row: &mut Row) -> Edge {
    if row.flags & BEHIND_LABEL != 0 {
        return Edge::LabelRefused;
    }
    let own = family_of(family, cx, row);
    row.scratch = match own {
        Family::Ip4 => Scratch::of(report4::Report::unreachable(icmpv4::unreachable::HOST)),
        Family::Ip6 => Scratch::of(report6::Report::unreachable(icmpv6::unreachable::ADDRESS)),
    };
    if own == family { Edge::IcmpError } else { Edge::OtherIcmpError }
}

/// How many buffers a packet occupies.
fn buffers_of(cx: &Context<'_>, row: &Row) -> usize {
    if row.flags & flag::CHAINED == 0 {
        return 1;
    }
    std::iter::successors(Some(row.packet), |packet| cx.buffers.segment(*packet).next()).count()
}

fn bytes_at<const N: usize>(cx: &Context<'_>, row: &Row, offset: usize) -> [u8; N] {
    let at = (row.l3 as usize + offset).min(graph::buffer::STRIDE - N);
    *cx.buffers.bytes(row.packet)[at..].first_chunk().expect("so many are left")
}

fn source(family: Family, cx: &Context<'_>, row: &Row) -> IpAddr {
    match family {
        Family::Ip4 => bytes_at::<4>(cx, row, 12).into(),
        Family::Ip6 => bytes_at::<16>(cx, row, 8).into(),
    }
}

/// The destination of a packet.
pub(super) fn destination(family: Family, cx: &Context<'_>, row: &Row) -> IpAddr {
    match family {
        Family::Ip4 => bytes_at::<4>(cx, row, 16).into(),
        Family::Ip6 => bytes_at::<16>(cx, row, 24).into(),
    }
}

/// Sends a packet to be looked up again.
fn look_again(family: Family, cx: &Context<'_>, row: &mut Row) -> EdgeIndex {
    row.scratch = Scratch::NONE;
    if row.flags & BEHIND_LABEL != 0 {
        // A packet that a label led here goes where the label leads now, whatever the routes for the packet inside say.
        row.flags &= !BEHIND_LABEL;
        row.l3 -= ENTRY_LEN as u16;
        row.target = u32::from_be_bytes(bytes_at(cx, row, 0));
        return Edge::Label.into();
    }
    let own = family_of(family, cx, row);
    if own != family {
        if let IpAddr::V4(to) = destination(own, cx, row) {
            row.target = to.into();
        }
        return Edge::OtherLookup.into();
    }
    let is_of_link = |address: IpAddr| matches!(address, IpAddr::V6(address) if address.is_unicast_link_local());
    match destination(family, cx, row) {
        IpAddr::V4(to) => row.target = to.into(),
        // Routes do not apply, because they could lead it off its link. Its target already names the link.
        to if is_of_link(to) || is_of_link(source(family, cx, row)) => return edge6::Edge::OnLink.into(),
        IpAddr::V6(_) => {}
    }
    Edge::Lookup.into()
}

impl Expand for Resolve {
    fn process(&mut self, x: &mut Expansion<'_, '_>, vector: &mut Vector) {
        self.carry_out(x);
        for i in 0..vector.len() {
            let mut row = vector.row(i);
            let object = self.objects.get(x.cx.round, Leaf(row.target).index());
            let next_hop: IpAddr = match self.family {
                Family::Ip4 => object.next_hop().into(),
                Family::Ip6 => object.next_hop6().into(),
            };
            let next_hop = match next_hop.is_unspecified() {
                true => destination(self.family, x.cx, &row),
                false => next_hop,
            };
            let key = NeighbourKey::new(graph::InterfaceIndex(object.interface()), next_hop);
            let to = self.hold(x.cx, key, &mut row);
            if to == edge::TAKEN {
                x.note_held(&row);
            }
            vector.set_scratch(i, row.scratch);
            vector.set_edge(i, to);
        }
    }

    fn held(&self) -> usize {
        self.packets
    }

    fn drain(&mut self, buffers: &mut Buffers) {
        for packet in self.waiting.drain().flat_map(|(_, packets)| packets) {
            buffers.free_chain(packet.row.packet);
        }
        (self.packets, self.buffers) = (0, 0);
        self.shares = ByInterface::default();
    }
}

pub(super) fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    let originated = if snapshot.row.flags & flag::ORIGINATED != 0 { " (originated here)" } else { "" };
    writeln!(f, "  dpo-idx {}{originated}", Leaf(snapshot.row.target).index())?;
    crate::headers::trace_ip4(snapshot, f)
}

pub(super) fn trace6(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    let originated = if snapshot.row.flags & flag::ORIGINATED != 0 { " (originated here)" } else { "" };
    writeln!(f, "  dpo-idx {}{originated}", Leaf(snapshot.row.target).index())?;
    crate::headers::trace_ip6(snapshot, f)
}
