//! `ip4-midchain`, `ip6-midchain`: write a header in front of packets of one family.
//!
//! Reads: `target` (a midchain), `l3`, `length`, check bits. Writes: the header, and the hop that the packet inside
//! takes; `l2` and `l3`, where the header begins; `length`; `target`, where the header's destination leads; `flags`,
//! without what was found out about the packet inside; in scratch, what to say to its sender or where to cut it.
//! Next: `ip4-midchain-tx` or `ip6-midchain-tx`, by the header; `ip4-rewrite` (`ip6-rewrite`) when the object is an
//! ordinary adjacency meanwhile; `ip4-frag` when the packet is too long; `ip4-icmp-error` when it must not be cut, its
//! hops are used up, or the tunnel leads nowhere; `ip4-midchain-offloads` when its sender left work to the device.

use super::offloads;
use graph::vector::one_value;
use graph::{
    Context, CounterSpec, CounterTable, EdgeIndex, EdgeSpec, InterfaceIndex, Lazy, Map, NodeSpec, PacketIndex, Row,
    Snapshot, VECTOR_SIZE, Vector, flag,
};
use router::interface::{SharedViews, ViewTable};
use router::ip::class;
use router::ip::control::TableIndex;
pub use router::ip::fault::Fault;
use router::ip::fibs::runs;
use router::ip::fix_up::FixUps;
use router::ip::fragment::Mtu;
pub use router::ip::leaves::Forwarding;
pub use router::reply::marks::REDIRECTED;
use router::table_index::mark_of;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use tables::object::{MAX_LONG_REWRITE, MidchainRef, ObjectRef};
use tables::{Leaf, Lookup4, Lookup6, ObjectHandle};
use wire::Family;
use wire::batch::{Hop, Hop4, Hop6};

graph::edges! {
    pub enum Edge {
        Tx4 => next "ip4-midchain-tx",
        Tx6 => next "ip6-midchain-tx",
        Rewrite => next "ip4-rewrite",
        Fragment => next "ip4-frag",
        IcmpError => next "ip4-icmp-error",
        Offloads => next "ip4-midchain-offloads",
        /// A packet that this router made is from or to 127/8, and a route would send it into a tunnel. Such addresses
        /// must stay inside the router. Find the route that covers 127.0.0.0/8 (RFC 1122 3.2.1.3).
        Loopback => drop "loopback address would leave the router",
        /// The packet has so many headers in front already that another does not fit into its buffer. Most likely
        /// tunnels lead into tunnels.
        NoRoom => warn "no room for a tunnel's header",
        /// The packet arrived in a broadcast or multicast frame, but its destination is a single host. The router
        /// does not forward it, because otherwise every router on the link would deliver a copy (RFC 1812 5.3.4).
        Group => note "group-addressed frame is not forwarded",
    }
}

/// The same for IPv6, in the same order.
pub mod edge6 {
    graph::edges! {
        pub enum Edge like super::Edge {
            Tx4 => next "ip4-midchain-tx",
            Tx6 => next "ip6-midchain-tx",
            Rewrite => next "ip6-rewrite",
            Fragment => next "ip6-frag",
            IcmpError => next "ip6-icmp-error",
            Offloads => next "ip6-midchain-offloads",
            /// IPv6 has no such packets: `ip6-input` drops them all.
            Loopback => drop "loopback address would leave the router",
            /// The packet has so many headers in front already that another does not fit into its buffer. Most likely
            /// tunnels lead into tunnels.
            NoRoom => warn "no room for a tunnel's header",
            /// The packet arrived in a broadcast or multicast frame, but its destination is a single host. The router
            /// does not forward it, because otherwise every router on the link would deliver a copy.
            Group => note "group-addressed frame is not forwarded",
        }
    }
}

/// The family of the packets that get a header.
pub(crate) trait Inner: Forwarding {
    type Hop: Hop;
    const NODE: &'static str;
    const MIDCHAIN_EDGES: &'static [EdgeSpec];
    /// What [`Inner::judge`] counts.
    const JUDGED: &'static [CounterSpec];
    const OFFLOADS: &'static str;
    const OFFLOADS_EDGES: &'static [EdgeSpec];
    const TX: &'static str;
    /// Packets with any of these flags are judged one by one.
    const SPECIAL: u32;

    /// Whether a packet may not be sent to a next hop whose link takes packets of that length.
    fn judge(cx: &mut Context<'_>, vector: &mut Vector, i: usize, row: &Row, mtu: u16) -> Option<Fault>;
    /// Whether the packet takes a hop, and its header what is asked for: `bytes` begin there.
    fn depart(bytes: &mut [u8], flags: u32, view: &ViewTable, by: InterfaceIndex);
}

impl Inner for Lookup4 {
    type Hop = Hop4;
    const NODE: &'static str = "ip4-midchain";
    const MIDCHAIN_EDGES: &'static [EdgeSpec] = Edge::EDGES;
    const JUDGED: &'static [CounterSpec] = crate::ip4::JUDGED;
    const OFFLOADS: &'static str = "ip4-midchain-offloads";
    const OFFLOADS_EDGES: &'static [EdgeSpec] = offloads::Edge::EDGES;
    const TX: &'static str = "ip4-midchain-tx";
    const SPECIAL: u32 = crate::ip4::SPECIAL;

    fn judge(cx: &mut Context<'_>, vector: &mut Vector, i: usize, row: &Row, mtu: u16) -> Option<Fault> {
        crate::ip4::judge(cx, vector, i, row, mtu)
    }

    #[inline(always)]
    fn depart(bytes: &mut [u8], flags: u32, view: &ViewTable, by: InterfaceIndex) {
        crate::ip4::depart(bytes, flags, view, by);
    }
}

impl Inner for Lookup6 {
    type Hop = Hop6;
    const NODE: &'static str = "ip6-midchain";
    const MIDCHAIN_EDGES: &'static [EdgeSpec] = edge6::Edge::EDGES;
    const JUDGED: &'static [CounterSpec] = crate::ip6::JUDGED;
    const OFFLOADS: &'static str = "ip6-midchain-offloads";
    const OFFLOADS_EDGES: &'static [EdgeSpec] = offloads::edge6::Edge::EDGES;
    const TX: &'static str = "ip6-midchain-tx";
    const SPECIAL: u32 = crate::ip6::SPECIAL;

    fn judge(cx: &mut Context<'_>, vector: &mut Vector, i: usize, row: &Row, mtu: u16) -> Option<Fault> {
        crate::ip6::judge(cx, vector, i, row, mtu)
    }

    #[inline(always)]
    fn depart(bytes: &mut [u8], flags: u32, _: &ViewTable, _: InterfaceIndex) {
        crate::ip6::depart(bytes, flags);
    }
}

pub fn spec<L: Inner>() -> NodeSpec {
    NodeSpec { name: L::NODE.into(), edges: L::MIDCHAIN_EDGES, counters: L::JUDGED, trace }
}

/// The edge for headers of a family.
pub(super) fn out(family: Family) -> EdgeIndex {
    match family {
        Family::Ip4 => Edge::Tx4.into(),
        Family::Ip6 => Edge::Tx6.into(),
    }
}

/// Room that is left before the new header, for the link header and the labels of the way on.
const LEAST_ROOM: usize = wire::batch::WRITABLE_BEFORE;
/// What was true of the packet inside and is of the whole.
const KEPT: u32 = flag::CHAINED | flag::TRACED;
/// The sender of the header is this router, so nobody gets a redirect; and there is no link header yet.
const MADE: u32 = REDIRECTED | flag::BARE;

pub struct Midchain<L> {
    objects: ObjectHandle,
    view: SharedViews,
    /// Packets and bytes sent, by interface.
    tx: Arc<CounterTable>,
    fix_ups: Arc<FixUps>,
    family: PhantomData<L>,
}

impl<L: Inner> Midchain<L> {
    pub(super) fn new(
        objects: ObjectHandle,
        view: SharedViews,
        tx: Arc<CounterTable>,
        fix_ups: Arc<FixUps>,
    ) -> Midchain<L> {
        Midchain { objects, view, tx, fix_ups, family: PhantomData }
    }
}

/// The midchain of a leaf, and what went by it.
struct Way<'r> {
    leaf: u32,
    object: ObjectRef<'r>,
    midchain: Option<MidchainRef<'r>>,
    packets: u64,
    bytes: u64,
}

impl<L: Inner> Map for Midchain<L> {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let (objects, view) = (self.objects.load(cx.round), self.view.load(cx.round));
        let way_of = |leaf: u32| {
            let object = objects.get(Leaf(leaf).index());
            Way { leaf, object, midchain: object.midchain(), packets: 0, bytes: 0 }
        };
        let n = vector.len();
        let mut way = way_of(vector.targets().first().copied().unwrap_or(0));
        if let Some(midchain) = way.midchain.filter(|_| one_value(vector.targets()).is_some())
            && self.all(cx, vector, view, (&mut way, midchain))
        {
            self.count(cx, &way);
            if let Some(fix_up) = self.fix_ups.get(midchain.fix_up()) {
                fix_up(cx, vector, 0..n);
            }
            return;
        }
        let mut fix_ups = [0; VECTOR_SIZE];
        for (i, fix_up) in fix_ups.iter_mut().enumerate().take(n) {
            let leaf = vector.targets()[i];
            if leaf != way.leaf {
                self.count(cx, &way);
                way = way_of(leaf);
            }
            let to = match way.midchain {
                Some(midchain) => self.one(cx, vector, i, view, (&mut way, midchain), fix_up),
                None => Edge::Rewrite.into(),
            };
            vector.set_edge(i, to);
        }
        self.count(cx, &way);
        for (fix_up, run) in runs(&fix_ups[..n], |fix_up| fix_up) {
            if let Some(fix_up) = self.fix_ups.get(fix_up) {
                fix_up(cx, vector, run);
            }
        }
    }
}

impl<L: Inner> Midchain<L> {
    /// Writes the same header before all packets, if nothing is special about any of them.
    fn all(
        &self,
        cx: &mut Context<'_>,
        vector: &mut Vector,
        view: &ViewTable,
        (way, midchain): (&mut Way<'_>, MidchainRef<'_>),
    ) -> bool {
        let (header, size) = midchain.rewrite();
        let (mtu, next) = (way.object.mtu(), midchain.next());
        let any_flags = vector.any_flags();
        let columns = vector.columns();
        let places = columns.length.iter().zip(&*columns.l2).zip(&*columns.l3);
        let (longest, least, sum) = places.fold((0, u16::MAX, 0), |(longest, least, sum), ((length, l2), l3)| {
            let length = length.wrapping_add(*l2).wrapping_sub(*l3);
            (length.max(longest), least.min(*l3), sum + u64::from(length))
        });
        let is_plain = any_flags & (L::SPECIAL | flag::OFFLOAD) == 0 && longest <= mtu && !is_refused(next);
        if !is_plain || usize::from(least) < size + LEAST_ROOM {
            return false;
        }
        vector.l3_frames(cx.buffers).0.count_hops::<L::Hop>();
        let columns = vector.columns();
        let places = columns.packets.iter().zip(&*columns.l3);
        match size.div_ceil(PIECE) {
            2 => write::<2>(cx, places, header, size),
            3 => write::<3>(cx, places, header, size),
            4 => write::<4>(cx, places, header, size),
            // The smallest header that there is has 20 bytes.
            _ => write::<1>(cx, places, header, size),
        }
        for ((length, l2), l3) in columns.length.iter_mut().zip(columns.l2.iter_mut()).zip(columns.l3.iter_mut()) {
            let begin = l3.wrapping_sub(size as u16);
            *length = length.wrapping_add(*l2).wrapping_sub(begin);
            (*l2, *l3) = (begin, begin);
        }
        columns.target.fill(next.0);
        columns.flags.iter_mut().for_each(|flags| *flags = *flags & KEPT | MADE);
        let n = vector.len() as u64;
        let family = outer(midchain);
        let table = TableIndex(way.object.owner());
        match vector.one_rx_interface() {
            Some(rx) if view.table_of(family, rx) == table => vector.clear_lazy(Lazy::Table),
            _ => vector.lazy_mut(Lazy::Table).fill(mark_of(table)),
        }
        vector.set_edges(midchain.out());
        (way.packets, way.bytes) = (n, sum + n * size as u64);
        true
    }

    fn count(&self, cx: &Context<'_>, way: &Way<'_>) {
        if way.packets > 0 {
            let interface = way.object.interface() as usize;
            self.tx.add(cx.thread, interface, 0, way.packets);
            self.tx.add(cx.thread, interface, 1, way.bytes);
        }
    }

    /// Writes the header of one packet; gives the edge for it, and which function completes it.
    #[inline]
    fn one(
        &self,
        cx: &mut Context<'_>,
        vector: &mut Vector,
        i: usize,
        view: &ViewTable,
        (way, midchain): (&mut Way<'_>, MidchainRef<'_>),
        fix_up: &mut u16,
    ) -> EdgeIndex {
        let columns = vector.columns();
        let flags = columns.flags[i];
        let length = columns.length[i].wrapping_add(columns.l2[i]).wrapping_sub(columns.l3[i]);
        let is_long = length > way.object.mtu();
        let next = midchain.next();
        if (flags & (L::SPECIAL | flag::OFFLOAD) != 0 || is_long || is_refused(next))
            && let Some(to) = self.judge(cx, vector, i, way.object.mtu(), next)
        {
            return to;
        }
        let (header, size) = midchain.rewrite();
        let columns = vector.columns();
        let l3 = usize::from(columns.l3[i]);
        let Some(begin) = l3.checked_sub(size).filter(|begin| *begin >= LEAST_ROOM) else {
            return Edge::NoRoom.into();
        };
        let bytes = cx.buffers.bytes_mut(vector.packets()[i]);
        L::depart(&mut bytes[l3..], flags, view, InterfaceIndex(way.object.interface()));
        put(&mut bytes[begin..l3], header);
        let columns = vector.columns();
        columns.length[i] = length + size as u16;
        columns.l2[i] = begin as u16;
        columns.l3[i] = begin as u16;
        columns.target[i] = next.0;
        columns.flags[i] = flags & KEPT | MADE;
        // The header is looked up in its own table if it has to be again: when it waits for a neighbour.
        let table = TableIndex(way.object.owner());
        let is_own = view.table_of(outer(midchain), vector.rx_interfaces()[i]) == table;
        if !is_own || vector.lazy(Lazy::Table).is_some() {
            vector.lazy_mut(Lazy::Table)[i] = if is_own { 0 } else { mark_of(table) };
        }
        *fix_up = midchain.fix_up();
        (way.packets, way.bytes) = (way.packets + 1, way.bytes + u64::from(length) + size as u64);
        midchain.out()
    }

    /// Where a packet goes that does not get the header as it is.
    #[cold]
    fn judge(&self, cx: &mut Context<'_>, vector: &mut Vector, i: usize, mtu: u16, next: Leaf) -> Option<EdgeIndex> {
        let row = vector.row(i);
        if row.flags & flag::OFFLOAD != 0 {
            return Some(Edge::Offloads.into());
        }
        match L::judge(cx, vector, i, &row, mtu) {
            Some(Fault::Group) => return Some(Edge::Group.into()),
            Some(Fault::Loopback) => return Some(Edge::Loopback.into()),
            Some(Fault::Reported) => return Some(Edge::IcmpError.into()),
            None => {}
        }
        if is_refused(next) {
            vector.set_scratch(i, L::refusal(Leaf::new(class::UNREACHABLE, 0)));
            return Some(Edge::IcmpError.into());
        }
        if row.l3_length() > mtu.into() {
            vector.leave(i, Mtu(mtu));
            return Some(Edge::Fragment.into());
        }
        None
    }
}

/// The family of the header.
#[inline(always)]
fn outer(midchain: MidchainRef<'_>) -> Family {
    if midchain.out() == out(Family::Ip6) { Family::Ip6 } else { Family::Ip4 }
}

/// Whether there is no way to the header's destination.
#[inline(always)]
fn is_refused(next: Leaf) -> bool {
    matches!(next.class(), class::MISS | class::UNREACHABLE | class::PROHIBIT)
}

/// Bytes that are copied at a time.
const PIECE: usize = 32;

/// Writes a header of so many pieces before each packet.
#[inline]
fn write<'p, const PIECES: usize>(
    cx: &mut Context<'_>,
    places: impl Iterator<Item = (&'p PacketIndex, &'p u16)>,
    header: &[u8; MAX_LONG_REWRITE],
    size: usize,
) {
    let last = size.saturating_sub(PIECE);
    let piece = |at: usize| -> &[u8; PIECE] { header[at..].first_chunk().expect("the last one is whole") };
    let pieces: [&[u8; PIECE]; PIECES] = std::array::from_fn(|n| piece((n * PIECE).min(last)));
    for (packet, l3) in places {
        let bytes = cx.buffers.bytes_mut(*packet);
        let before = &mut bytes[usize::from(*l3) - size..usize::from(*l3)];
        if size < PIECE {
            before.copy_from_slice(&header[..size]);
            continue;
        }
        for (n, piece) in pieces.iter().enumerate() {
            let at = (n * PIECE).min(last);
            *before[at..].first_chunk_mut().expect("the last one is whole") = **piece;
        }
    }
}

/// Copies a header of any length, in pieces of which the last overlaps the one before.
#[inline(always)]
fn put(to: &mut [u8], header: &[u8; MAX_LONG_REWRITE]) {
    let size = to.len();
    let Some(last) = size.checked_sub(PIECE) else {
        return to.copy_from_slice(&header[..size]);
    };
    let mut at = 0;
    while at < last {
        to[at..at + PIECE].copy_from_slice(&header[at..at + PIECE]);
        at += PIECE;
    }
    to[last..].copy_from_slice(&header[last..size]);
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  stacked on dpo-idx {}", Leaf(snapshot.row.target).index())?;
    write!(f, "  00000000: ")?;
    snapshot.l3().iter().take(32).try_for_each(|byte| write!(f, "{byte:02x}"))?;
    writeln!(f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_any_length_are_copied_whole_and_nothing_else() {
        let header = std::array::from_fn(|at| at as u8 + 1);
        for size in 0..=MAX_LONG_REWRITE {
            let mut bytes = [0; MAX_LONG_REWRITE + 2];
            put(&mut bytes[1..=size], &header);
            assert_eq!(bytes[1..=size], header[..size]);
            assert!(bytes[0] == 0 && bytes[size + 1..].iter().all(|byte| *byte == 0), "{size}");
        }
    }
}
