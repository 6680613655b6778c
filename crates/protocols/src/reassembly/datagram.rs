//! One datagram in progress.
//!
//! Parts must not overlap, so the sum of their lengths shows whether there are holes left (RFC 815 keeps a list of the
//! holes; this one keeps the parts).

use super::fragment::{ECN, Fragment, MAX_DATAGRAM, MAX_HEADER, Part};
use super::node::Edge;
use drivers::link;
use graph::buffer::{DATA_SIZE, HEADROOM};
use graph::{Buffers, PacketIndex, Row, Scratch, flag};
use router::ip::REASSEMBLED;
pub use router::reply::{report4, report6};
use wire::batch::check;
use wire::{Family, ipv4, ipv6};

/// The most buffers that a datagram takes.
pub const WINDOWS: usize = MAX_DATAGRAM.div_ceil(DATA_SIZE);
/// Congestion codepoints (RFC 3168 5): of senders that do not support these marks, and the mark itself.
const NOT_CAPABLE: u8 = 0;
const CONGESTED: u8 = ECN;

pub struct Datagram {
    family: Family,
    pub serial: u64,
    /// When its first part arrived, in ticks.
    pub started: u64,
    /// In order, without overlaps.
    pub parts: Vec<Part>,
    pub received: usize,
    /// A bit for each congestion codepoint that its parts have (RFC 3168 5.3).
    ecn: u8,
    /// Where it ends, once the last fragment has arrived.
    pub end: Option<usize>,
    pub windows: [Option<PacketIndex>; WINDOWS],
    pub buffers: usize,
    /// The row of the first fragment, or of another one until the first arrives.
    row: Row,
    /// The header of the same fragment, and the offset of the byte in it that names the fragment header.
    header: [u8; MAX_HEADER],
    header_length: usize,
    named_at: usize,
    trace: u32,
    /// Whether it was discarded and only its key is kept.
    pub is_discarded: bool,
}

impl Datagram {
    pub fn new(family: Family, serial: u64, started: u64, row: Row) -> Datagram {
        Datagram {
            family,
            serial,
            started,
            parts: Vec::new(),
            received: 0,
            ecn: 0,
            end: None,
            windows: [None; WINDOWS],
            buffers: 0,
            row,
            header: [0; MAX_HEADER],
            header_length: 0,
            named_at: 0,
            trace: 0,
            is_discarded: false,
        }
    }

    pub fn has_first(&self) -> bool {
        self.parts.first().is_some_and(|part| part.start == 0)
    }

    pub fn is_complete(&self) -> bool {
        self.end == Some(self.received)
    }

    /// Checks that a fragment fits with the earlier ones.
    pub fn place_of(&self, buffers: &Buffers, fragment: &Fragment, most_parts: usize) -> Result<(), Edge> {
        let Part { start, end } = fragment.part;
        let at = self.parts.partition_point(|part| part.end <= start);
        if let Some(part) = self.parts.get(at).filter(|part| part.start < end) {
            let ends_alike = fragment.is_last == (self.end == Some(end as usize));
            let is_same = *part == fragment.part && ends_alike && self.has_same_bytes(buffers, fragment);
            return Err(if is_same { Edge::Duplicate } else { Edge::Overlap });
        }
        let marks = self.ecn | fragment.ecn;
        if marks & 1 << CONGESTED != 0 && marks & 1 << NOT_CAPABLE != 0 {
            return Err(Edge::Marks);
        }
        let beyond = self.end.is_some_and(|known| end as usize > known || fragment.is_last);
        let before = fragment.is_last && self.parts.last().is_some_and(|part| part.end > end);
        if beyond || before {
            return Err(Edge::Conflict);
        }
        if self.parts.len() >= most_parts { Err(Edge::TooMany) } else { Ok(()) }
    }

    /// Whether the fragment's data is the same as the earlier data in its place.
    fn has_same_bytes(&self, buffers: &Buffers, fragment: &Fragment) -> bool {
        let (mut skip, mut at) = (fragment.from, fragment.part.start as usize);
        let end = fragment.part.end as usize;
        for slice in fragment.chain.slices(buffers) {
            let skipped = skip.min(slice.len());
            skip -= skipped;
            let mut slice = &slice[skipped..];
            while !slice.is_empty() && at < end {
                let within = at % DATA_SIZE;
                let n = slice.len().min(DATA_SIZE - within).min(end - at);
                let Some(window) = self.windows[at / DATA_SIZE] else { return false };
                if buffers.bytes(window)[HEADROOM + within..][..n] != slice[..n] {
                    return false;
                }
                (at, slice) = (at + n, &slice[n..]);
            }
        }
        at == end
    }

    /// Copies the data of a fragment that fits into the datagram's buffers and `fresh` ones.
    pub fn add(&mut self, buffers: &mut Buffers, row: &Row, fragment: &Fragment, fresh: &[PacketIndex]) {
        let mut fresh = fresh.iter();
        for window in self.windows[fragment.windows()].iter_mut().filter(|window| window.is_none()) {
            *window = fresh.next().copied();
            self.buffers += 1;
        }
        let (mut from, mut at) = (fragment.from, fragment.part.start as usize);
        let mut rest = fragment.length();
        while rest > 0 {
            let within = at % DATA_SIZE;
            let n = rest.min(DATA_SIZE - within);
            let window = self.windows[at / DATA_SIZE].expect("filled above");
            fragment.chain.copy(buffers, from, n, window, HEADROOM + within);
            (from, at, rest) = (from + n, at + n, rest - n);
        }
        let place = self.parts.partition_point(|part| part.end <= fragment.part.start);
        self.parts.insert(place, fragment.part);
        self.received += fragment.length();
        self.ecn |= fragment.ecn;
        if fragment.is_last {
            self.end = Some(fragment.part.end as usize);
        }
        if fragment.part.start == 0 || self.header_length == 0 {
            // Length, options and extension headers come from the first fragment. Whether any fragment came for a
            // group, or is traced, is remembered.
            let length = fragment.header;
            self.header[..length].copy_from_slice(&buffers.bytes(row.packet)[row.l3 as usize..][..length]);
            (self.header_length, self.named_at) = (length, fragment.named_at);
            self.row = Row { flags: row.flags | self.row.flags & (check::GROUP | flag::TRACED), ..*row };
        }
        self.row.flags |= row.flags & (check::GROUP | flag::TRACED);
        if row.flags & flag::TRACED != 0 && self.trace == 0 {
            self.trace = buffers.segment(row.packet).trace;
        }
    }

    /// The whole datagram as a packet, or `None` when it would be too long with its header.
    pub fn complete(&mut self, buffers: &mut Buffers) -> Option<Row> {
        let end = self.end?;
        let header = match self.family {
            Family::Ip4 => self.header_length,
            Family::Ip6 => self.header_length - ipv6::FRAGMENT_HEADER_LEN,
        };
        let total = header + end;
        if total > MAX_DATAGRAM {
            return None;
        }
        let mut packets = [PacketIndex::NONE; WINDOWS];
        let count = end.div_ceil(DATA_SIZE);
        for (packet, window) in packets.iter_mut().zip(&mut self.windows[..count]) {
            *packet = window.take()?;
        }
        link(buffers, &packets[..count], end);
        match self.family {
            Family::Ip4 => self.make_whole4(total),
            Family::Ip6 => self.make_whole6(header, total),
        }
        let chained = if count > 1 { flag::CHAINED } else { 0 };
        let mut row = self.row_of(buffers, packets[0], total, chained);
        row.flags |= REASSEMBLED;
        Some(row)
    }

    fn is_congested(&self) -> bool {
        self.ecn & 1 << CONGESTED != 0
    }

    /// Turns the fragment's header into that of the whole datagram (RFC 791 section 3.2).
    fn make_whole4(&mut self, total: usize) {
        let is_congested = self.is_congested();
        let mut header = ipv4::Header::new_unchecked(&mut self.header[..self.header_length]);
        header.set_total_len(total as u16);
        let dont_fragment = header.dont_fragment();
        header.set_fragment(dont_fragment, false, 0);
        if is_congested {
            let dscp = header.dscp();
            header.set_tos(dscp, CONGESTED);
        }
        header.fill_checksum();
    }

    /// The same for IPv6: removes the fragment header, and links the header before it to the one behind it (RFC 8200
    /// section 4.5).
    fn make_whole6(&mut self, length: usize, total: usize) {
        let is_congested = self.is_congested();
        self.header[self.named_at] = self.header[length];
        self.header_length = length;
        let mut header = ipv6::Header::new_unchecked(&mut self.header[..length]);
        header.set_payload_len((total - ipv6::HEADER_LEN) as u16);
        if is_congested {
            let class = header.traffic_class();
            header.set_traffic_class(class | CONGESTED);
        }
    }

    /// The present part of the first fragment, or only the header of another one, as a packet of one buffer. The other
    /// buffers are freed.
    pub fn incomplete(&mut self, buffers: &mut Buffers) -> Row {
        let data = if self.has_first() { (self.parts[0].end as usize).min(DATA_SIZE) } else { 0 };
        let packet = self.windows.iter_mut().find_map(Option::take).expect("a datagram in progress has a buffer");
        if let Some(rest) = self.give_back(buffers) {
            buffers.free_chain(rest);
        }
        buffers.segment_mut(packet).set_next(None);
        let mut row = self.row_of(buffers, packet, self.header_length + data, 0);
        row.flags |= check::FRAGMENT;
        row.scratch = match self.family {
            Family::Ip4 => Scratch::of(report4::Report::reassembly_time_exceeded()),
            Family::Ip6 => Scratch::of(report6::Report::reassembly_time_exceeded()),
        };
        row
    }

    /// A packet whose data begins in this buffer, with the header before the data.
    fn row_of(&self, buffers: &mut Buffers, packet: PacketIndex, length: usize, chained: u32) -> Row {
        let l3 = HEADROOM - self.header_length;
        buffers.bytes_mut(packet)[l3..HEADROOM].copy_from_slice(&self.header[..self.header_length]);
        buffers.segment_mut(packet).trace = self.trace;
        let flags = self.row.flags & !(check::FRAGMENT | flag::CHAINED) | flag::BARE | chained;
        Row { packet, flags, l2: l3 as u16, l3: l3 as u16, length: length as u16, scratch: Scratch::NONE, ..self.row }
    }

    /// All its buffers as one chain.
    pub fn give_back(&mut self, buffers: &mut Buffers) -> Option<PacketIndex> {
        let mut chain = None;
        for packet in self.windows.iter_mut().filter_map(Option::take) {
            buffers.segment_mut(packet).set_next(chain);
            chain = Some(packet);
        }
        chain
    }
}
