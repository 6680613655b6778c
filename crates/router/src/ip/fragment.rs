//! `ip4-frag`, `ip6-frag`: fragment packets that are longer than their next hop's MTU (RFC 791 section 3.2, RFC 8200
//! section 4.5).
//!
//! Reads: the packet; in scratch, the MTU. Writes: each fragment into buffers of its own, because each needs
//! room for a link header. Next: `ip4-rewrite` or `ip6-rewrite` again, which counts the hop on each fragment and gives
//! it its link header.
//!
//! A packet is fragmented completely or not at all, because a part of a packet is useless. Work that was left to the
//! device (checksums, segmentation) is done first, because no device can do it on a fragment.
//!
//! In IPv6, only this router's own packets come here, because only the sender may fragment a packet. Their fragments
//! fit the least MTU of IPv6, because this router does not learn the MTU of a path (RFC 8200 section 5).

use crate::reply::marks::BEHIND_LABEL;
use drivers::offload::{self, OffloadError};
use drivers::{Chain, link};
use graph::buffer::{DATA_SIZE, HEADROOM};
use graph::{Buffers, CounterSpec, Expand, Expansion, NodeSpec, PacketIndex, Row, Scratch, Severity, Vector, flag};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hash};
use wire::Family;
use wire::batch::check;
use wire::ipv4::{FRAGMENT_UNIT, HEADER_LEN, Header, MAX_HEADER_LEN, MAX_OPTIONS_LEN, Options};
use wire::ipv6::{self, next_header};
use wire::mpls::ENTRY_LEN;

graph::edges! {
    pub enum Edge {
        Rewrite => next "ip4-rewrite",
        /// The packet is longer than the MTU of its next hop and must be fragmented, but its header or its options
        /// cannot be parsed (RFC 791, section 3.1), or its offload request is invalid.
        Malformed => warn "malformed packet",
        /// The packet is longer than the MTU of its next hop, and there were not enough free buffers for all its
        /// fragments. The router sent none of them. Give the router more buffers (`buffers-per-numa` in startup.conf)
        /// or raise the MTU.
        NoBuffer => drop "could not allocate buffer",
        /// The packet's header and eight bytes of data, the least that a fragment can have, are longer than the MTU
        /// of the next hop (RFC 791, section 3.2). Raise the MTU of the interface.
        SmallMtu => drop "mtu too small to fragment for",
    }
}

/// The same for `ip6-frag`, in the same order.
mod edge6 {
    graph::edges! {
        pub enum Edge like super::Edge {
            Rewrite => next "ip6-rewrite",
            /// A packet of this router is longer than the MTU of its next hop, but its headers cannot be parsed, or
            /// are of a kind that this router does not send.
            Malformed => warn "malformed packet",
            /// A packet of this router is longer than the MTU of its next hop, and there were not enough free buffers
            /// for all its fragments. The router sent none of them. Give the router more buffers (`buffers-per-numa`
            /// in startup.conf).
            NoBuffer => drop "could not allocate buffer",
            /// A packet's headers and eight bytes of data, the least that a fragment can have, are longer than the
            /// MTU of the next hop (RFC 8200 4.5). Raise the MTU of the interface.
            SmallMtu => drop "mtu too small to fragment for",
        }
    }
}

const COUNTERS4: &[CounterSpec] = &[
    CounterSpec(
        "packet fragmented",
        Severity::Info,
        "The router fragmented a packet that was longer than the MTU of its next hop (RFC 791 3.2).",
    ),
    CounterSpec("number of sent fragments", Severity::Info, "Fragments that the router made from longer packets."),
];
const COUNTERS6: &[CounterSpec] = &[
    CounterSpec(
        "packet fragmented",
        Severity::Info,
        "The router fragmented a packet of its own that was longer than the MTU of its next hop (RFC 8200 4.5).",
    ),
    CounterSpec("number of sent fragments", Severity::Info, "Fragments that the router made from longer packets."),
];
const FRAGMENTED: usize = 0;
const SENT: usize = 1;

pub fn spec(family: Family) -> NodeSpec {
    match family {
        Family::Ip4 => NodeSpec {
            name: "ip4-frag".into(),
            edges: Edge::EDGES,
            counters: COUNTERS4,
            trace: crate::headers::trace_ip4,
        },
        Family::Ip6 => NodeSpec {
            name: "ip6-frag".into(),
            edges: edge6::Edge::EDGES,
            counters: COUNTERS6,
            trace: crate::headers::trace_ip6,
        },
    }
}

pub struct Cutter {
    family: Family,
    identifications: Identifications,
    /// Kept between packets to reuse their memory.
    fragments: Vec<Row>,
    fresh: Vec<PacketIndex>,
}

impl Cutter {
    pub fn new(family: Family, worker: usize, workers: usize) -> Cutter {
        let identifications = Identifications::new(worker, workers);
        Cutter { family, identifications, fragments: Vec::new(), fresh: Vec::new() }
    }

    /// Fills `fragments` with all fragments of a packet, or leaves it empty.
    fn cut(&mut self, buffers: &mut Buffers, row: &mut Row, mtu: usize) -> Result<(), Edge> {
        let result = if row.flags & flag::SEGMENTED != 0 {
            self.cut_segments(buffers, row, mtu)
        } else {
            if row.flags & flag::PARTIAL_CHECKSUM != 0 {
                offload::finish_checksum(buffers, row).map_err(|_| Edge::Malformed)?;
            }
            self.cut_one(buffers, row, mtu)
        };
        if result.is_err() {
            self.fragments.drain(..).for_each(|fragment| buffers.free_chain(fragment.packet));
        }
        result
    }

    /// Segments a packet that is to be segmented. Only segments that are still too long are fragmented.
    fn cut_segments(&mut self, buffers: &mut Buffers, row: &Row, mtu: usize) -> Result<(), Edge> {
        let mut segments = Vec::new();
        offload::segment(buffers, row, &mut |segment| segments.push(segment)).map_err(|error| match error {
            OffloadError::NoBuffer => Edge::NoBuffer,
            OffloadError::Malformed | OffloadError::TooManySegments => Edge::Malformed,
        })?;
        let mut result = Ok(());
        for segment in segments {
            if result.is_ok() && segment.l3_length() <= mtu {
                self.fragments.push(segment);
                continue;
            }
            if result.is_ok() {
                result = self.cut_one(buffers, &segment, mtu);
            }
            buffers.free_chain(segment.packet);
        }
        result
    }

    fn cut_one(&mut self, buffers: &mut Buffers, row: &Row, mtu: usize) -> Result<(), Edge> {
        let mut cut = Cut::plan(self.family, buffers, row, mtu)?;
        let wanted = cut.pieces().map(|piece| piece.buffers()).sum();
        self.fresh.clear();
        self.fresh.resize(wanted, PacketIndex::NONE);
        let got = buffers.allocate(&mut self.fresh);
        if got < wanted {
            buffers.free(&self.fresh[..got]);
            return Err(Edge::NoBuffer);
        }
        // The router's own packets have no identification yet. Nor has an IPv6 packet that is not a fragment: it was
        // reassembled or made here.
        let has_none = row.flags & flag::ORIGINATED != 0 || self.family == Family::Ip6;
        if has_none && !cut.is_fragment {
            cut.set_identification(&mut self.identifications);
        }
        let mut rest = &self.fresh[..];
        for piece in cut.pieces() {
            let (packets, others) = rest.split_at(piece.buffers());
            rest = others;
            self.fragments.push(cut.make(buffers, row, &piece, packets));
        }
        Ok(())
    }
}

/// How a packet will be fragmented.
struct Cut {
    family: Family,
    chain: Chain,
    /// The header of the first fragment, which is the packet's, and that of the later fragments.
    first: HeaderBytes,
    later: HeaderBytes,
    /// Bytes from the packet's link header to its data, and bytes of data.
    data_from: usize,
    data: usize,
    mtu: usize,
    /// The offset of the packet's own data in the datagram, and whether more data follows.
    offset: usize,
    more_follow: bool,
    is_fragment: bool,
    dont_fragment: bool,
}

/// The headers of an IPv6 fragment.
const FRAGMENT6_LEN: usize = ipv6::HEADER_LEN + ipv6::FRAGMENT_HEADER_LEN;
const _: () = assert!(FRAGMENT6_LEN <= MAX_HEADER_LEN);

/// A header with room for all options.
#[derive(Clone)]
struct HeaderBytes {
    bytes: [u8; MAX_HEADER_LEN],
    length: usize,
}

impl HeaderBytes {
    fn as_slice(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// One fragment: a part of the packet's data.
struct Piece {
    from: usize,
    length: usize,
    header: usize,
    is_last: bool,
}

impl Piece {
    fn buffers(&self) -> usize {
        (self.header + self.length).div_ceil(DATA_SIZE)
    }
}

impl Cut {
    fn plan(family: Family, buffers: &Buffers, row: &Row, mtu: usize) -> Result<Cut, Edge> {
        let cut = match family {
            Family::Ip4 => Cut::of_ip4(buffers, row, mtu),
            Family::Ip6 => Cut::of_ip6(buffers, row, mtu.min(ipv6::MIN_MTU.into())),
        };
        let cut = cut.ok_or(Edge::Malformed)?;
        let least = cut.first.length.max(cut.later.length) + FRAGMENT_UNIT as usize;
        if least > cut.mtu { Err(Edge::SmallMtu) } else { Ok(cut) }
    }

    fn of_ip4(buffers: &Buffers, row: &Row, mtu: usize) -> Option<Cut> {
        let chain = Chain::of(buffers, row)?;
        let l3 = row.l3.checked_sub(row.l2)? as usize;
        let bytes = chain.head(buffers).get(l3..)?;
        let fixed = Header::new_unchecked(bytes.get(..HEADER_LEN)?);
        let (length, total) = (fixed.header_len(), fixed.total_len() as usize);
        let header = Header::new_unchecked(bytes.get(..length.max(HEADER_LEN))?);
        if length < HEADER_LEN || total < length || total > row.l3_length() {
            return None;
        }
        let (data, more_follow) = (total - length, header.more_fragments());
        if more_follow && data % FRAGMENT_UNIT as usize != 0 {
            return None;
        }
        let mut first = HeaderBytes { bytes: [0; MAX_HEADER_LEN], length };
        first.bytes[..length].copy_from_slice(header.header_bytes());
        Some(Cut {
            family: Family::Ip4,
            later: later_header(&header)?,
            first,
            data_from: l3 + length,
            data,
            mtu,
            offset: header.fragment_offset() as usize,
            more_follow,
            is_fragment: header.is_fragment(),
            dont_fragment: header.dont_fragment(),
            chain,
        })
    }

    /// Plans for a packet of this router. Such packets have no headers that each fragment would have to repeat.
    fn of_ip6(buffers: &Buffers, row: &Row, mtu: usize) -> Option<Cut> {
        let chain = Chain::of(buffers, row)?;
        let l3 = row.l3.checked_sub(row.l2)? as usize;
        let bytes = chain.head(buffers).get(l3..)?.get(..ipv6::HEADER_LEN)?;
        let header = ipv6::Header::new_unchecked(bytes);
        let (next, data) = (header.next_header(), header.payload_len() as usize);
        let is_of_each = matches!(next, next_header::HOP_BY_HOP | next_header::ROUTING | next_header::FRAGMENT);
        if is_of_each || ipv6::HEADER_LEN + data > row.l3_length() {
            return None;
        }
        let mut first = HeaderBytes { bytes: [0; MAX_HEADER_LEN], length: FRAGMENT6_LEN };
        let (ip, fragment) = first.bytes[..FRAGMENT6_LEN].split_at_mut(ipv6::HEADER_LEN);
        ip.copy_from_slice(bytes);
        ipv6::Header::new_unchecked(ip).set_next_header(next_header::FRAGMENT);
        ipv6::Fragment { offset: 0, more: false, id: 0, next_header: next }.emit(fragment);
        Some(Cut {
            family: Family::Ip6,
            later: first.clone(),
            first,
            data_from: l3 + ipv6::HEADER_LEN,
            data,
            mtu,
            offset: 0,
            more_follow: false,
            is_fragment: false,
            dont_fragment: false,
            chain,
        })
    }

    fn set_identification(&mut self, identifications: &mut Identifications) {
        let bytes = &self.first.bytes;
        let id = match self.family {
            Family::Ip4 => {
                let header = Header::new_unchecked(&bytes[..]);
                identifications.next((header.src(), header.dst(), header.protocol().0))
            }
            Family::Ip6 => {
                let header = ipv6::Header::new_unchecked(&bytes[..]);
                identifications.next((header.src(), header.dst()))
            }
        };
        for header in [&mut self.first, &mut self.later] {
            match self.family {
                // IPv4 uses the lower 16 bits of the 32-bit sequences.
                Family::Ip4 => Header::new_unchecked(&mut header.bytes[..]).set_id(id as u16),
                Family::Ip6 => header.bytes[FRAGMENT6_LEN - 4..FRAGMENT6_LEN].copy_from_slice(&id.to_be_bytes()),
            }
        }
    }

    /// Writes the length and the data offset into a fragment's header.
    fn seal(&self, header: &mut [u8], length: usize, offset: usize, more: bool) {
        match self.family {
            Family::Ip4 => {
                let mut header = Header::new_unchecked(header);
                header.set_total_len(length as u16);
                header.set_fragment(self.dont_fragment, more, offset as u16);
                header.fill_checksum();
            }
            Family::Ip6 => {
                let (ip, fragment) = header.split_at_mut(ipv6::HEADER_LEN);
                ipv6::Header::new_unchecked(ip).set_payload_len((length - ipv6::HEADER_LEN) as u16);
                let said = ipv6::Fragment::parse(fragment).expect("a template has a fragment header");
                ipv6::Fragment { offset: offset as u16, more, ..said }.emit(fragment);
            }
        }
    }

    /// RFC 791 section 3.2, RFC 8200 section 4.5: each fragment takes as many units of eight bytes as fit; the rest
    /// when it fits whole.
    fn pieces(&self) -> impl Iterator<Item = Piece> {
        let mut from = 0;
        let mut is_over = false;
        std::iter::from_fn(move || {
            if is_over {
                return None;
            }
            let header = if from == 0 { self.first.length } else { self.later.length };
            let (room, left) = (self.mtu - header, self.data - from);
            is_over = left <= room;
            let length = if is_over { left } else { room - room % FRAGMENT_UNIT as usize };
            let piece = Piece { from, length, header, is_last: is_over };
            from += length;
            Some(piece)
        })
    }

    /// Writes a fragment into `packets`.
    fn make(&self, buffers: &mut Buffers, whole: &Row, piece: &Piece, packets: &[PacketIndex]) -> Row {
        let length = piece.header + piece.length;
        self.copy_data(buffers, piece, packets);
        link(buffers, packets, length);
        let trace = buffers.segment(whole.packet).trace;
        buffers.segment_mut(packets[0]).trace = trace;

        if whole.flags & BEHIND_LABEL != 0 {
            let label = whole.l3 as usize - ENTRY_LEN..whole.l3 as usize;
            let (from, to) = buffers.pair_mut(whole.packet, packets[0]);
            to[HEADROOM - ENTRY_LEN..HEADROOM].copy_from_slice(&from[label]);
        }
        let template = if piece.from == 0 { &self.first } else { &self.later };
        let bytes = &mut buffers.bytes_mut(packets[0])[HEADROOM..HEADROOM + piece.header];
        bytes.copy_from_slice(template.as_slice());
        let more_follow = self.more_follow || !piece.is_last;
        let offset = self.offset + piece.from;
        self.seal(bytes, length, offset, more_follow);

        let chained = if packets.len() > 1 { flag::CHAINED } else { 0 };
        let fragment = if more_follow || offset > 0 { check::FRAGMENT } else { 0 };
        Row {
            packet: packets[0],
            flags: whole.flags & !(flag::OFFLOAD | flag::CHAINED) | flag::BARE | fragment | chained,
            l2: HEADROOM as u16,
            l3: HEADROOM as u16,
            length: length as u16,
            scratch: Scratch::NONE,
            ..*whole
        }
    }

    fn copy_data(&self, buffers: &mut Buffers, piece: &Piece, packets: &[PacketIndex]) {
        let (mut from, mut rest) = (self.data_from + piece.from, piece.length);
        let mut room = piece.header..DATA_SIZE;
        for &packet in packets {
            let n = rest.min(room.len());
            self.chain.copy(buffers, from, n, packet, HEADROOM + room.start);
            (from, rest, room) = (from + n, rest - n, 0..DATA_SIZE);
        }
    }
}

/// The header of the fragments after the first. It has only the options that every fragment must repeat.
fn later_header(header: &Header<&[u8]>) -> Option<HeaderBytes> {
    let mut options = [0; MAX_OPTIONS_LEN];
    let copied = Options::new(header.option_bytes()).write_copied(&mut options).ok()?;
    let length = HEADER_LEN + copied;
    let mut bytes = [0; MAX_HEADER_LEN];
    bytes[..HEADER_LEN].copy_from_slice(&header.header_bytes()[..HEADER_LEN]);
    bytes[HEADER_LEN..length].copy_from_slice(&options[..copied]);
    bytes[0] = bytes[0] & 0xf0 | (length / 4) as u8;
    Some(HeaderBytes { bytes, length })
}

/// Identifications of the router's own fragmented packets. None may be used again for the same source, destination and
/// protocol while fragments of the previous one may live (RFC 6864, section 4.3). Each flow uses one of many sequences
/// with random starts, so that an outsider who sees one learns little about the others (RFC 7739). Workers never use
/// the same number.
struct Identifications {
    hash: RandomState,
    sequences: [u32; SEQUENCES],
    worker: u32,
    workers: u32,
}

const SEQUENCES: usize = 256;

impl Identifications {
    fn new(worker: usize, workers: usize) -> Identifications {
        let hash = RandomState::new();
        // A power of two, so that the sequences of two workers stay apart when they wrap around.
        let workers = workers.next_power_of_two() as u32;
        let sequences = std::array::from_fn(|n| (hash.hash_one(n) as u32).wrapping_mul(workers));
        Identifications { hash, sequences, worker: worker as u32, workers }
    }

    fn next(&mut self, flow: impl Hash) -> u32 {
        let sequence = &mut self.sequences[self.hash.hash_one(flow) as usize % SEQUENCES];
        *sequence = sequence.wrapping_add(self.workers);
        *sequence | self.worker
    }
}

graph::scratch_number! {
    /// The length of the longest fragment, from its IP header on.
    pub struct Mtu(u16) = "mtu"
}

impl Expand for Cutter {
    fn process(&mut self, x: &mut Expansion<'_, '_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let mut row = vector.row(i);
            let mtu = row.scratch.read().map_or(0, |Mtu(mtu)| mtu.into());
            match self.cut(x.cx.buffers, &mut row, mtu) {
                Ok(()) => {
                    x.cx.count(FRAGMENTED, 1);
                    x.cx.count(SENT, self.fragments.len() as u64);
                    vector.set_edge(i, graph::edge::TAKEN);
                    self.fragments.drain(..).for_each(|fragment| x.originate(fragment, Edge::Rewrite.into()));
                    x.consume(row.packet);
                }
                Err(reason) => {
                    vector.set_row(i, row);
                    vector.set_edge(i, reason.into());
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::Pool;
    use std::collections::HashSet;

    #[test]
    fn an_mtu_that_leaves_no_room_for_data_is_told_by_name() {
        let pool = Pool::new(1024, false).unwrap();
        let mut buffers = Buffers::new(&pool, 1024);
        let packet = buffers.allocate_one().unwrap();
        let mut header = [1; MAX_HEADER_LEN];
        (header[0], header[2], header[3], header[6], header[7]) = (0x4f, 0, 100, 0, 0);
        buffers.bytes_mut(packet)[HEADROOM..HEADROOM + MAX_HEADER_LEN].copy_from_slice(&header);
        let at = HEADROOM as u16;
        let row = Row { packet, l2: at, l3: at, length: 100, ..Row::default() };
        assert_eq!(Cut::plan(Family::Ip4, &buffers, &row, 67).err(), Some(Edge::SmallMtu));
        assert_eq!(Cut::plan(Family::Ip4, &buffers, &row, 68).map(|cut| cut.pieces().count()).ok(), Some(2));
        // The end of the packet is missing.
        let row = Row { length: 99, ..row };
        assert_eq!(Cut::plan(Family::Ip4, &buffers, &row, 68).err(), Some(Edge::Malformed));
        buffers.free(&[packet]);
    }

    #[test]
    fn identifications_do_not_come_again_soon_nor_on_another_worker() {
        let mut workers = [0, 1, 2].map(|worker| Identifications::new(worker, 3));
        let mut seen = HashSet::new();
        for _ in 0..1 << 14 {
            for (worker, identifications) in workers.iter_mut().enumerate() {
                let id = identifications.next(1) as u16;
                assert!(seen.insert(id) && id % 4 == worker as u16);
            }
        }
        // Most other flows use another sequence.
        let places: HashSet<u16> = (0..64).map(|flow| workers[0].next(flow) as u16).collect();
        assert!(places.len() > 32);
    }
}
