//! `ip6-rewrite`: sends packets to their next hop.
//!
//! Reads: `target` (an adjacency), `l3`, `length`, check bits. Writes: the link header and the hop limit into the
//! packet; `l2` and `length`; for `ip6-frag`, the MTU in scratch. Next: the adjacency's interface output,
//! through `ip6-stale-neighbor` when the next hop was not confirmed lately; `ip6-discover-neighbor` when the next hop
//! is not known (`ip4-arp` when the next hop has an IPv4 address, as labelled packets may have); `ip6-frag` when a
//! packet of this router is too long; `ip6-icmp-error` when a forwarded packet is too long, its hop limit has expired,
//! or its source is link-local; `ip6-redirect` when the packet leaves by the interface that it came by, and its sender
//! may get a redirect.

use graph::{Context, CounterSpec, EdgeIndex, Map, NodeSpec, Row, Severity, Snapshot, Vector, flag};
use router::ip::REASSEMBLED;
pub use router::ip::fault::Fault;
use router::ip::forward::{forward_one, forward_vector, turns_back};
use router::ip::fragment::Mtu;
use router::ip::marks::Marks;
pub use router::reply::marks::{PUNTED, REDIRECTED};
pub use router::reply::policy::{SharedPolicy, Switches};
pub use router::reply::report6::Report;
use std::fmt;
use tables::object::ObjectRef;
use tables::{Leaf, ObjectHandle};
use wire::batch::{Hop6, check};
use wire::icmpv6::unreachable;
use wire::ipv6;

graph::edges! {
    /// The edges to the interfaces' outputs follow these.
    pub enum Edge {
        Discover => next "ip6-discover-neighbor",
        IcmpError => next "ip6-icmp-error",
        Redirect => next "ip6-redirect",
        Fragment => next "ip6-frag",
        Stale => next "ip6-stale-neighbor",
        Impose => next "ip6-mpls-label-imposition-uniform",
        Arp => next "ip4-arp",
        Midchain => next "ip6-midchain",
        /// The packet starts so close to the beginning of its buffer that the link header does not fit before it. No
        /// device delivers such packets: please report it.
        NoRoom => drop "no room for the link header",
        /// The packet arrived in a broadcast or multicast frame, but its destination is a single host. The router
        /// does not forward it, because every router on the link could then deliver a copy.
        Group => note "group-addressed frame is not forwarded",
        /// Along the features of the interface by which packets leave; else by an edge of the interface.
        Output => arc "ip6-output",
    }
}

/// What [`judge`] counts.
pub(crate) const COUNTERS: &[CounterSpec] = &[CounterSpec(
    "ip6 packets too big",
    Severity::Info,
    "A packet is longer than the MTU of its next hop. The router reported the MTU to the sender (RFC 8200 5, RFC \
     4443 3.2). A few for each new path are normal: this is path MTU discovery.",
)];
const TOO_BIG: usize = 0;

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip6-rewrite".into(), edges: Edge::EDGES, counters: COUNTERS, trace }
}

pub struct Ip6Rewrite {
    objects: ObjectHandle,
    policy: SharedPolicy,
}

impl Ip6Rewrite {
    pub(crate) fn new(objects: ObjectHandle, policy: SharedPolicy) -> Ip6Rewrite {
        Ip6Rewrite { objects, policy }
    }
}

/// Packets with any of these are handled one by one.
pub(crate) const SPECIAL: u32 = check::TTL | check::GROUP | check::MARTIAN_SOURCE | flag::SEGMENTED | NOT_FORWARDED;
/// Packets from this router or on their way to the host: they do not lose a hop.
const NOT_FORWARDED: u32 = flag::ORIGINATED | PUNTED;

/// Packets that were reassembled here, and go to the host.
const FROM_FRAGMENTS: u32 = REASSEMBLED | PUNTED;

impl Map for Ip6Rewrite {
    #[inline]
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let redirects = &self.policy.load(cx.round).redirects6;
        let done = match vector.any_flags() & SPECIAL != 0 || redirects.any() && turns_back(&self.objects, cx, vector) {
            true => 0,
            false => forward_vector::<Hop6>(&self.objects, cx, vector),
        };
        let objects = self.objects.load(cx.round);
        for i in done..vector.len() {
            let object = objects.get(Leaf(vector.targets()[i]).index());
            let columns = vector.columns();
            let length = columns.length[i].wrapping_add(columns.l2[i]).wrapping_sub(columns.l3[i]);
            let plain = columns.flags[i] & SPECIAL == 0 && length <= object.mtu() && !redirects.any();
            let to = match object.is_complete() && plain {
                true => forward_one::<Hop6>(cx, vector, i, object),
                false => one(cx, vector, i, object, redirects),
            };
            vector.set_edge(i, to);
        }
    }
}

/// Whether a packet may not be sent to a next hop whose link takes packets of `mtu` bytes.
pub(crate) fn judge(cx: &mut Context<'_>, vector: &mut Vector, i: usize, row: &Row, mtu: u16) -> Option<Fault> {
    let forwarded = row.flags & NOT_FORWARDED == 0;
    if forwarded && row.flags & check::GROUP != 0 {
        return Some(Fault::Group);
    }
    if forwarded && row.flags & check::MARTIAN_SOURCE != 0 {
        // RFC 4291 2.5.6, RFC 4443 3.1: a link-local source must not leave its link.
        vector.leave(i, Report::unreachable(unreachable::BEYOND_SCOPE));
        return Some(Fault::Reported);
    }
    if forwarded && row.flags & check::TTL != 0 {
        vector.leave(i, Report::hop_limit_exceeded());
        return Some(Fault::Reported);
    }
    // RFC 8200 5: only the sender may fragment a packet. A packet that was reassembled here may go to the host in
    // fragments again.
    let may_be_cut = row.flags & flag::ORIGINATED != 0 || row.flags & FROM_FRAGMENTS == FROM_FRAGMENTS;
    if !may_be_cut && wire_length(cx, row) > mtu as usize {
        cx.count(TOO_BIG, 1);
        vector.leave(i, Report::packet_too_big(mtu));
        return Some(Fault::Reported);
    }
    None
}

/// Has a packet take its hop: `bytes` begin at its header.
#[inline(always)]
pub(crate) fn depart(bytes: &mut [u8], flags: u32) {
    if flags & NOT_FORWARDED == 0 {
        let mut header = ipv6::Header::new_unchecked(bytes);
        let hops = header.hop_limit();
        header.set_hop_limit(hops.saturating_sub(1));
    }
}

/// Handles one packet, with all special cases.
fn one(cx: &mut Context<'_>, vector: &mut Vector, i: usize, object: ObjectRef<'_>, redirects: &Switches) -> EdgeIndex {
    let mut row = vector.row(i);
    match judge(cx, vector, i, &row, object.mtu()) {
        Some(Fault::Reported) => return Edge::IcmpError.into(),
        Some(Fault::Group | Fault::Loopback) => return Edge::Group.into(),
        None => {}
    }
    if !object.is_complete() {
        // A long packet waits in one piece: its fragments would take the places of other pending packets.
        return object.edge();
    }
    // A sender that used the next hop directly could not push the labels.
    let is_plain = Marks::of(object.owner()).labels == 0 && object.interface() == row.rx_interface.0;
    let turns_back = is_plain && redirects.on(row.rx_interface);
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
    depart(&mut bytes[l3..], row.flags);
    let grown = row.l2 as i32 - begin as i32;
    row.length = (row.length as i32 + grown) as u16;
    row.l2 = begin as u16;
    vector.set_row(i, row);
    object.edge()
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
