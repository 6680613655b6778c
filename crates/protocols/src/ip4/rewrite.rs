//! `ip4-rewrite`: sends packets to their next hop.
//!
//! Reads: `target` (an adjacency), `l3`, `length`, check bits. Writes: the link header and the TTL into the packet;
//! `l2` and `length`; for `ip4-frag`, the MTU in scratch. Next: the adjacency's interface output; `ip4-arp`
//! when the next hop is not known (`ip6-discover-neighbor` when the next hop has an IPv6 address, as labelled packets
//! may have); `ip4-frag` when the packet is too long; `ip4-icmp-error` when a long packet must not be fragmented, or
//! the TTL has expired; `ip4-redirect` when the packet leaves by the interface that it came by, and its sender may get
//! a redirect.

use super::options;
use crate::ip4::OPTIONS;
use graph::{Context, CounterSpec, EdgeIndex, InterfaceIndex, Map, NodeSpec, Row, Severity, Snapshot, Vector, flag};
use router::interface::{SharedViews, ViewTable};
pub use router::ip::fault::Fault;
use router::ip::forward::{forward_one, forward_vector, turns_back};
use router::ip::fragment::Mtu;
use router::ip::marks::Marks;
pub use router::reply::marks::{PUNTED, REDIRECTED};
pub use router::reply::policy::{Policy, SharedPolicy};
pub use router::reply::report4::Report;
use std::fmt;
use tables::object::ObjectRef;
use tables::{Leaf, ObjectHandle};
use wire::batch::{Hop4, check};
use wire::ipv4;

graph::edges! {
    /// The edges to the interfaces' outputs follow these.
    pub enum Edge {
        Arp => next "ip4-arp",
        IcmpError => next "ip4-icmp-error",
        Redirect => next "ip4-redirect",
        /// A packet that this router made is from or to 127/8, and a route would send it to the network. Such
        /// addresses must stay inside the router. Find the route that covers 127.0.0.0/8 (RFC 1122 3.2.1.3).
        Loopback => drop "loopback address would leave the router",
        Fragment => next "ip4-frag",
        Impose => next "ip4-mpls-label-imposition-uniform",
        Discover => next "ip6-discover-neighbor",
        Stale => next "ip6-stale-neighbor",
        Midchain => next "ip4-midchain",
        /// The packet begins so close to the start of its buffer that the link header does not fit in front of it. No
        /// device delivers such packets. Please report it.
        NoRoom => drop "no room for the link header",
        /// The packet arrived in a broadcast or multicast frame, but its destination is a single host. The router
        /// does not forward it, because otherwise every router on the link would deliver a copy (RFC 1812 5.3.4).
        Group => note "group-addressed frame is not forwarded",
        /// Along the features of the interface by which packets leave; else by an edge of the interface.
        Output => arc "ip4-output",
    }
}

/// What [`judge`] counts.
pub(crate) const COUNTERS: &[CounterSpec] = &[
    CounterSpec(
        "ip4 ttl 0 received",
        Severity::Warning,
        "A packet to be forwarded arrived with a TTL of 0, which no router may send (RFC 1812 5.3.1). Its sender or \
         the previous router is at fault. The router answers it like a packet with a TTL of 1.",
    ),
    CounterSpec(
        "ip4 MTU exceeded and DF set",
        Severity::Info,
        "A packet is longer than the MTU of its next hop and must not be fragmented. The router tells the sender the \
         MTU (RFC 1191 4). A few for each new path are normal path MTU discovery.",
    ),
];
const TTL_ZERO: usize = 0;
const MUST_NOT_BE_CUT: usize = 1;

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-rewrite".into(), edges: Edge::EDGES, counters: COUNTERS, trace }
}

pub struct Ip4Rewrite {
    objects: ObjectHandle,
    policy: SharedPolicy,
    view: SharedViews,
}

impl Ip4Rewrite {
    pub(crate) fn new(objects: ObjectHandle, policy: SharedPolicy, view: SharedViews) -> Ip4Rewrite {
        Ip4Rewrite { objects, policy, view }
    }
}

/// Packets with any of these are handled one by one.
pub(crate) const SPECIAL: u32 = check::TTL | check::GROUP | flag::SEGMENTED | OPTIONS | NOT_FORWARDED;
/// Packets from this router or on their way to the host: they do not lose a hop.
const NOT_FORWARDED: u32 = flag::ORIGINATED | PUNTED;

impl Map for Ip4Rewrite {
    #[inline]
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let policy = self.policy.load(cx.round);
        let redirects = policy.redirects.any() && turns_back(&self.objects, cx, vector);
        let done = match vector.any_flags() & SPECIAL != 0 || redirects {
            true => 0,
            false => forward_vector::<Hop4>(&self.objects, cx, vector),
        };
        if done < vector.len() {
            self.each(cx, vector, done, policy);
        }
    }
}

impl Ip4Rewrite {
    /// Handles the packets from the given one on, with all special cases.
    fn each(&self, cx: &mut Context<'_>, vector: &mut Vector, from: usize, policy: &Policy) {
        let objects = self.objects.load(cx.round);
        let view = self.view.load(cx.round);
        for i in from..vector.len() {
            let object = objects.get(Leaf(vector.targets()[i]).index());
            let is_long = {
                let row = vector.columns();
                row.length[i].wrapping_add(row.l2[i]).wrapping_sub(row.l3[i]) > object.mtu()
            };
            let plain = vector.columns().flags[i] & SPECIAL == 0 && !is_long && !policy.redirects.any();
            let to = match object.is_complete() && plain {
                true => forward_one::<Hop4>(cx, vector, i, object),
                false => one(cx, vector, i, object, policy, view),
            };
            vector.set_edge(i, to);
        }
    }
}

/// Whether a packet may not be sent to a next hop whose link takes packets of `mtu` bytes.
pub(crate) fn judge(cx: &mut Context<'_>, vector: &mut Vector, i: usize, row: &Row, mtu: u16) -> Option<Fault> {
    let forwarded = row.flags & NOT_FORWARDED == 0;
    if forwarded && row.flags & check::GROUP != 0 {
        // RFC 1812 5.3.4: packets that arrived as link-layer broadcasts or multicasts.
        return Some(Fault::Group);
    }
    if !forwarded && names_loopback(cx, row) {
        return Some(Fault::Loopback);
    }
    if forwarded && row.flags & check::TTL != 0 {
        // RFC 1812 5.3.1: the packet is not forwarded, and its sender gets a report. A TTL of 0 shows a fault in the
        // previous router, because it must not send such packets. A TTL of 1 comes from traceroute and loops.
        if ipv4::Header::new_unchecked(&cx.buffers.bytes(row.packet)[row.l3 as usize..]).ttl() == 0 {
            cx.count(TTL_ZERO, 1);
        }
        vector.leave(i, Report::ttl_expired());
        return Some(Fault::Reported);
    }
    if wire_length(cx, row) > mtu as usize && must_not_be_cut(cx, row, mtu) {
        // RFC 1191 section 4, RFC 1812 4.2.2.7.
        cx.count(MUST_NOT_BE_CUT, 1);
        vector.leave(i, Report::fragmentation_needed(mtu));
        return Some(Fault::Reported);
    }
    None
}

/// Has a packet take its hop, and record in its options by which interface it leaves: `bytes` begin at its header.
#[inline(always)]
pub(crate) fn depart(bytes: &mut [u8], flags: u32, view: &ViewTable, by: InterfaceIndex) {
    // A punted packet reaches the host unchanged: the host records its own address in the options.
    if flags & (OPTIONS | PUNTED) == OPTIONS {
        options::record(bytes, view, by);
    }
    if flags & NOT_FORWARDED == 0 {
        ipv4::Header::new_unchecked(bytes).decrement_ttl();
    }
}

/// Handles one packet, with all special cases.
fn one(
    cx: &mut Context<'_>,
    vector: &mut Vector,
    i: usize,
    object: ObjectRef<'_>,
    policy: &Policy,
    view: &ViewTable,
) -> EdgeIndex {
    let mut row = vector.row(i);
    match judge(cx, vector, i, &row, object.mtu()) {
        Some(Fault::Group) => return Edge::Group.into(),
        Some(Fault::Loopback) => return Edge::Loopback.into(),
        Some(Fault::Reported) => return Edge::IcmpError.into(),
        None => {}
    }
    if !object.is_complete() {
        // A long packet waits in one piece: its fragments would take the places of other pending packets.
        return object.edge();
    }
    // A sender that used the next hop directly could not push the labels.
    let is_plain = Marks::of(object.owner()).labels == 0 && object.interface() == row.rx_interface.0;
    let turns_back = is_plain && policy.redirects.on(row.rx_interface);
    if row.flags & NOT_FORWARDED == 0 && turns_back && row.flags & REDIRECTED == 0 {
        return Edge::Redirect.into();
    }
    if wire_length(cx, &row) > object.mtu() as usize {
        vector.leave(i, Mtu(object.mtu()));
        return Edge::Fragment.into();
    }
    let rewrite = object.rewrite();
    let l3 = row.l3 as usize;
    let bytes = cx.buffers.bytes_mut(row.packet);
    let Some(begin) = l3.checked_sub(rewrite.len()) else { return Edge::NoRoom.into() };
    bytes[begin..l3].copy_from_slice(rewrite);
    depart(&mut bytes[l3..], row.flags, view, InterfaceIndex(object.interface()));
    if row.flags & PUNTED == 0 {
        // Only once: a copy for another interface (SPAN) or a packet in a tunnel takes no further hop.
        row.flags &= !OPTIONS;
    }
    let grown = row.l2 as i32 - begin as i32;
    row.length = (row.length as i32 + grown) as u16;
    row.l2 = begin as u16;
    vector.set_row(i, row);
    object.edge()
}

/// Whether the packet is from or to a loopback address, which must not appear on a network (RFC 1122 3.2.1.3 (g)).
/// `ip4-input` drops such packets from other hosts.
fn names_loopback(cx: &Context<'_>, row: &Row) -> bool {
    let header = ipv4::Header::new_unchecked(&cx.buffers.bytes(row.packet)[row.l3 as usize..]);
    header.src().is_loopback() || header.dst().is_loopback()
}

/// Whether the sender of a long packet forbids fragmentation. A packet that is only long because of its frame's padding
/// need not be fragmented: its new frame has no padding.
fn must_not_be_cut(cx: &Context<'_>, row: &Row, mtu: u16) -> bool {
    let header = ipv4::Header::new_unchecked(&cx.buffers.bytes(row.packet)[row.l3 as usize..]);
    header.dont_fragment() && (row.flags & flag::SEGMENTED != 0 || header.total_len() > mtu)
}

/// Bytes of the longest network-layer packet that this one becomes on the wire.
fn wire_length(cx: &Context<'_>, row: &Row) -> usize {
    if row.flags & flag::SEGMENTED == 0 {
        return row.l3_length();
    }
    let offload = cx.buffers.segment(row.packet).offload;
    offload.header_length as usize + offload.segment_size as usize
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  dpo-idx {}", Leaf(snapshot.row.target).index())?;
    write!(f, "  00000000: ")?;
    for byte in snapshot.l2().iter().take(32) {
        write!(f, "{byte:02x}")?;
    }
    writeln!(f)
}
