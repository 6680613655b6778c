//! Datagrams in progress on one worker.
//!
//! The data of a fragment is copied to where it belongs in the datagram, into buffers of
//! [`DATA_SIZE`] bytes that are taken as they are needed, and the fragment is let go. So a
//! datagram never takes more than [`WINDOWS`] buffers however small its fragments are, and it
//! is a packet the moment that its last hole closes.
//!
//! Parts must not overlap, so their lengths tell whether there are holes left (RFC 815 lists
//! the holes; this is the list's complement). A fragment that overlaps another ends its
//! datagram, and so do last fragments that disagree (RFC 5722 for IPv6; the attacks of RFC 1858
//! and RFC 8900 section 4 are the same here). Its key is remembered until its time is over, so
//! that what comes later is no new datagram. The very same fragment once more is harmless.
//!
//! Everything is limited. Who comes new pushes out the oldest: of its own source when that has
//! more than its share, else of all. A flood of fragments that are never completed thus has
//! its victims among its own, and what completes quickly gets through.

use super::node::Edge;
use crate::icmp::Report;
use crate::ip::control::TableIndex;
use drivers::{Chain, link};
use graph::buffer::{DATA_SIZE, HEADROOM};
use graph::{Buffers, PacketIndex, Row, flag, time};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::time::Duration;
use wire::batch::check;
use wire::ipv4::{FRAGMENT_UNIT, HEADER_LEN, Header, MAX_HEADER_LEN};

/// Longest datagram, header included.
const MAX_DATAGRAM: usize = u16::MAX as usize;
/// Congestion codepoints (RFC 3168 5): of senders that do not know such marks, and the mark.
const NOT_CAPABLE: u8 = 0;
const CONGESTED: u8 = 3;
/// Buffers that the longest datagram takes.
pub const WINDOWS: usize = MAX_DATAGRAM.div_ceil(DATA_SIZE);

/// What operators may set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// How long the fragments of a datagram may take, in milliseconds.
    pub timeout: u32,
    /// Datagrams in progress on a worker.
    pub max_reassemblies: u32,
    /// Fragments of one datagram.
    pub max_reassembly_length: u32,
    /// Datagrams in progress from one source.
    pub max_per_source: u32,
    /// Buffers that a worker's datagrams take; a quarter of all buffers at most.
    pub max_buffers: u32,
    /// How often datagrams are looked over for those whose time is up, in milliseconds.
    pub expire_walk_interval: u32,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            // As Linux (ipfrag_time).
            timeout: 30_000,
            // As VPP.
            max_reassemblies: 1024,
            // Of the longest datagram over the least MTU, 68 (RFC 791): 48 bytes each.
            max_reassembly_length: 1366,
            max_per_source: 64,
            max_buffers: 2048,
            expire_walk_interval: 1000,
        }
    }
}

/// What fragments of one datagram have in common (RFC 791 section 3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    /// Others' datagrams may have the same addresses.
    table: TableIndex,
    source: Ipv4Addr,
    destination: Ipv4Addr,
    identification: u16,
    protocol: u8,
}

/// A part that has come, in bytes of the datagram's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Part {
    start: u32,
    end: u32,
}

struct Datagram {
    serial: u64,
    /// When its first part came, in ticks.
    started: u64,
    /// In order, without overlaps.
    parts: Vec<Part>,
    received: usize,
    /// A bit for each congestion codepoint that its parts have (RFC 3168 5.3).
    ecn: u8,
    /// Where it ends, once the last fragment has told.
    end: Option<usize>,
    windows: [Option<PacketIndex>; WINDOWS],
    buffers: usize,
    /// What is known of it: of the first fragment, or of another until that comes.
    row: Row,
    /// The same one's header.
    header: [u8; MAX_HEADER_LEN],
    header_length: usize,
    trace: u32,
    /// It came to a bad end, and only its key is kept.
    is_discarded: bool,
}

/// A fragment, examined.
struct Fragment {
    key: Key,
    chain: Chain,
    /// Bytes from its link header to its data.
    from: usize,
    part: Part,
    is_last: bool,
    /// A bit for its congestion codepoint.
    ecn: u8,
}

/// What became of a fragment that was not refused.
#[derive(Debug, PartialEq, Eq)]
pub enum Accepted {
    /// A datagram is in progress that was not before: in the ledger this packet is now it.
    Began,
    Added,
    /// This is the datagram.
    Completed(Row),
}

/// A datagram in progress that is none any more.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// It goes there.
    Left(Row, Edge),
    /// Its buffers, as a chain, are to be given back: its end was counted.
    Discarded(PacketIndex),
}

/// What one sender has in progress: serial numbers, the oldest first.
#[derive(Default)]
struct Source {
    serials: VecDeque<u64>,
    buffers: usize,
}

/// All datagrams in progress.
pub struct Datagrams {
    pub limits: Limits,
    /// Buffers that they may take whatever operators say.
    most_buffers: usize,
    /// Hashed with keys of this process: nobody can choose what collides.
    by_key: HashMap<Key, Datagram>,
    by_age: BTreeMap<u64, Key>,
    sources: HashMap<Ipv4Addr, Source>,
    next_serial: u64,
    buffers: usize,
    live: usize,
    /// Those that ended since the caller last took them.
    pub ended: Vec<Ended>,
}

/// For listings.
#[derive(Debug, Clone, Serialize)]
pub struct Shown {
    pub source: Ipv4Addr,
    pub destination: Ipv4Addr,
    pub identification: u16,
    pub protocol: u8,
    pub age: f64,
    pub fragments: usize,
    pub bytes: usize,
    /// Unknown until the last fragment has come.
    pub length: Option<usize>,
    pub buffers: usize,
    pub discarded: bool,
}

impl Datagrams {
    pub fn new(most_buffers: usize) -> Datagrams {
        Datagrams {
            limits: Limits::default(),
            most_buffers: most_buffers.max(2 * WINDOWS),
            by_key: HashMap::new(),
            by_age: BTreeMap::new(),
            sources: HashMap::new(),
            next_serial: 0,
            buffers: 0,
            live: 0,
            ended: Vec::new(),
        }
    }

    /// Datagrams that hold packets: all but those that were discarded.
    pub fn live(&self) -> usize {
        self.live
    }

    pub fn len(&self) -> usize {
        self.by_key.len()
    }

    pub fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }

    pub fn buffers(&self) -> usize {
        self.buffers
    }

    /// The oldest `most` datagrams.
    pub fn shown(&self, most: usize, now: u64) -> Vec<Shown> {
        let oldest = self.by_age.values().take(most);
        oldest
            .map(|key| {
                let datagram = &self.by_key[key];
                Shown {
                    source: key.source,
                    destination: key.destination,
                    identification: key.identification,
                    protocol: key.protocol,
                    age: time::seconds(now.saturating_sub(datagram.started)),
                    fragments: datagram.parts.len(),
                    bytes: datagram.received,
                    length: datagram.end,
                    buffers: datagram.buffers,
                    discarded: datagram.is_discarded,
                }
            })
            .collect()
    }

    fn buffer_limit(&self) -> usize {
        (self.limits.max_buffers as usize).clamp(2 * WINDOWS, self.most_buffers)
    }

    /// Takes a fragment's data in. The fragment itself stays the caller's.
    ///
    /// # Errors
    /// Why not, as the edge that the fragment takes.
    pub fn take_in(&mut self, buffers: &mut Buffers, table: TableIndex, row: &Row, now: u64) -> Result<Accepted, Edge> {
        let fragment = Fragment::examine(buffers, table, row).ok_or(Edge::Malformed)?;
        let key = fragment.key;
        let is_new = match self.by_key.get(&key) {
            Some(datagram) if datagram.is_discarded => return Err(Edge::Discarded),
            Some(datagram) => {
                match datagram.place_of(buffers, &fragment, self.limits.max_reassembly_length as usize) {
                    Ok(()) => {}
                    Err(Edge::Duplicate) => return Err(Edge::Duplicate),
                    Err(edge) => {
                        self.discard(buffers, key);
                        return Err(edge);
                    }
                }
                false
            }
            None => {
                self.make_room_for_one(buffers, key.source);
                true
            }
        };
        let known = self.by_key.get(&key);
        let wanted = fragment.windows().filter(|&n| known.is_none_or(|known| known.windows[n].is_none())).count();
        self.make_room_for_buffers(buffers, key, wanted);
        let mut fresh = [PacketIndex::default(); WINDOWS];
        let got = buffers.allocate(&mut fresh[..wanted]);
        if got < wanted {
            buffers.free(&fresh[..got]);
            return Err(Edge::NoBuffer);
        }
        if is_new {
            self.begin(key, row, now);
        }
        self.buffers += wanted;
        self.sources.get_mut(&key.source).expect("has this datagram").buffers += wanted;
        let datagram = self.by_key.get_mut(&key).expect("known or begun above");
        datagram.add(buffers, row, &fragment, &fresh[..wanted]);
        if !datagram.is_complete() {
            return Ok(if is_new { Accepted::Began } else { Accepted::Added });
        }
        let mut datagram = self.forget(key);
        Ok(match datagram.complete(buffers) {
            Some(row) => Accepted::Completed(row),
            None => {
                let row = datagram.incomplete(buffers);
                self.ended.push(Ended::Left(row, Edge::TooLong));
                Accepted::Added
            }
        })
    }

    fn begin(&mut self, key: Key, row: &Row, now: u64) {
        let serial = self.next_serial;
        self.next_serial += 1;
        self.by_age.insert(serial, key);
        self.sources.entry(key.source).or_default().serials.push_back(serial);
        self.by_key.insert(key, Datagram::new(serial, now, *row));
        self.live += 1;
    }

    /// Takes a datagram out of all lists; its buffers go with it.
    fn forget(&mut self, key: Key) -> Datagram {
        let datagram = self.by_key.remove(&key).expect("the caller knows it");
        self.by_age.remove(&datagram.serial);
        let source = self.sources.get_mut(&key.source).expect("has this datagram");
        source.serials.retain(|serial| *serial != datagram.serial);
        source.buffers -= datagram.buffers;
        if source.serials.is_empty() {
            self.sources.remove(&key.source);
        }
        self.buffers -= datagram.buffers;
        self.live -= !datagram.is_discarded as usize;
        datagram
    }

    /// Gives up a datagram and remembers its key.
    fn discard(&mut self, buffers: &mut Buffers, key: Key) {
        let datagram = self.by_key.get_mut(&key).expect("the caller knows it");
        let given_back = std::mem::take(&mut datagram.buffers);
        let chain = datagram.give_back(buffers).expect("a datagram in progress has a buffer");
        datagram.is_discarded = true;
        datagram.parts = Vec::new();
        self.ended.push(Ended::Discarded(chain));
        self.sources.get_mut(&key.source).expect("has this datagram").buffers -= given_back;
        self.buffers -= given_back;
        self.live -= 1;
    }

    /// Ends a datagram that is not whole.
    fn give_up(&mut self, buffers: &mut Buffers, key: Key, edge: Edge) {
        let mut datagram = self.forget(key);
        if !datagram.is_discarded {
            let row = datagram.incomplete(buffers);
            self.ended.push(Ended::Left(row, edge));
        }
    }

    fn make_room_for_one(&mut self, buffers: &mut Buffers, source: Ipv4Addr) {
        while let Some(own) = self.sources.get(&source)
            && own.serials.len() >= self.limits.max_per_source as usize
        {
            self.give_up(buffers, self.by_age[&own.serials[0]], Edge::SourceLimit);
        }
        while self.by_key.len() >= self.limits.max_reassemblies as usize
            && let Some((_, &oldest)) = self.by_age.first_key_value()
        {
            self.give_up(buffers, oldest, Edge::Limit);
        }
    }

    /// Ends older datagrams, other than `key`, until so many more buffers are within the limits.
    fn make_room_for_buffers(&mut self, buffers: &mut Buffers, key: Key, wanted: usize) {
        let limit = self.buffer_limit();
        let share = (limit / 4).max(WINDOWS);
        while let Some(own) = self.sources.get(&key.source)
            && own.buffers + wanted > share
        {
            let mut others = own.serials.iter().map(|serial| self.by_age[serial]);
            let Some(oldest) = others.find(|other| *other != key) else { break };
            self.give_up(buffers, oldest, Edge::SourceLimit);
        }
        while self.buffers + wanted > limit {
            let mut others = self.by_age.values().copied();
            let Some(oldest) = others.find(|other| *other != key) else { break };
            self.give_up(buffers, oldest, Edge::Limit);
        }
    }

    /// Ends datagrams whose time is up at `now`, in ticks.
    pub fn expire(&mut self, buffers: &mut Buffers, now: u64) {
        let timeout = time::to_ticks(Duration::from_millis(self.limits.timeout.into()));
        while let Some((_, &key)) = self.by_age.first_key_value() {
            let datagram = &self.by_key[&key];
            if now.saturating_sub(datagram.started) < timeout {
                return;
            }
            // RFC 1122 section 3.3.2: the sender is told when the first fragment has come.
            let edge = if datagram.has_first() { Edge::IcmpError } else { Edge::Timeout };
            self.give_up(buffers, key, edge);
        }
    }

    /// Gives back all that it has.
    pub fn drain(&mut self, buffers: &mut Buffers) {
        for (_, mut datagram) in self.by_key.drain() {
            if let Some(chain) = datagram.give_back(buffers) {
                buffers.free_chain(chain);
            }
        }
        for ended in self.ended.drain(..) {
            let (Ended::Left(Row { packet, .. }, _) | Ended::Discarded(packet)) = ended;
            buffers.free_chain(packet);
        }
        self.by_age.clear();
        self.sources.clear();
        (self.live, self.buffers) = (0, 0);
    }
}

impl Fragment {
    /// None: it makes no sense as a fragment. `ip4-input` has looked at most of this.
    fn examine(buffers: &Buffers, table: TableIndex, row: &Row) -> Option<Fragment> {
        let chain = Chain::of(buffers, row)?;
        let l3 = row.l3.checked_sub(row.l2)? as usize;
        let bytes = chain.head(buffers).get(l3..)?;
        let header = Header::new_unchecked(bytes.get(..HEADER_LEN)?);
        let (length, total) = (header.header_len(), header.total_len() as usize);
        if length < HEADER_LEN || length > bytes.len() || total <= length || total > row.l3_length() {
            return None;
        }
        let (start, data) = (header.fragment_offset() as usize, total - length);
        let is_last = !header.more_fragments();
        let is_even = data % FRAGMENT_UNIT as usize == 0;
        // What is to be finished on a fragment, nobody can say.
        if (!is_last && !is_even) || start + data + HEADER_LEN > MAX_DATAGRAM || row.flags & flag::OFFLOAD != 0 {
            return None;
        }
        let key = Key {
            table,
            source: header.src(),
            destination: header.dst(),
            identification: header.id(),
            protocol: header.protocol().0,
        };
        let part = Part { start: start as u32, end: (start + data) as u32 };
        Some(Fragment { key, from: l3 + length, part, is_last, ecn: 1 << header.ecn(), chain })
    }

    fn length(&self) -> usize {
        (self.part.end - self.part.start) as usize
    }

    /// The buffers of the datagram that its data lies in.
    fn windows(&self) -> std::ops::RangeInclusive<usize> {
        self.part.start as usize / DATA_SIZE..=(self.part.end as usize - 1) / DATA_SIZE
    }
}

impl Datagram {
    fn new(serial: u64, started: u64, row: Row) -> Datagram {
        Datagram {
            serial,
            started,
            parts: Vec::new(),
            received: 0,
            ecn: 0,
            end: None,
            windows: [None; WINDOWS],
            buffers: 0,
            row,
            header: [0; MAX_HEADER_LEN],
            header_length: 0,
            trace: 0,
            is_discarded: false,
        }
    }

    fn has_first(&self) -> bool {
        self.parts.first().is_some_and(|part| part.start == 0)
    }

    fn is_complete(&self) -> bool {
        self.end == Some(self.received)
    }

    /// Whether the fragment fits with what has come.
    fn place_of(&self, buffers: &Buffers, fragment: &Fragment, most_parts: usize) -> Result<(), Edge> {
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

    /// Whether the fragment's data is what has come for its place.
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

    /// Copies a fragment's data that fits, into its own buffers and `fresh` ones.
    fn add(&mut self, buffers: &mut Buffers, row: &Row, fragment: &Fragment, fresh: &[PacketIndex]) {
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
            // Length and options are the first fragment's; whether any came for a group, or is
            // traced, is remembered.
            let header = &buffers.bytes(row.packet)[row.l3 as usize..];
            let length = Header::new_unchecked(&header[..HEADER_LEN]).header_len();
            self.header[..length].copy_from_slice(&header[..length]);
            self.header_length = length;
            self.row = Row { flags: row.flags | self.row.flags & (check::GROUP | flag::TRACED), ..*row };
        }
        self.row.flags |= row.flags & (check::GROUP | flag::TRACED);
        if row.flags & flag::TRACED != 0 && self.trace == 0 {
            self.trace = buffers.segment(row.packet).trace;
        }
    }

    /// The whole datagram as a packet. None: with its header it is longer than one can be.
    fn complete(&mut self, buffers: &mut Buffers) -> Option<Row> {
        let end = self.end?;
        let total = self.header_length + end;
        if total > MAX_DATAGRAM {
            return None;
        }
        let mut packets = [PacketIndex::default(); WINDOWS];
        let count = end.div_ceil(DATA_SIZE);
        for (packet, window) in packets.iter_mut().zip(&mut self.windows[..count]) {
            *packet = window.take()?;
        }
        link(buffers, &packets[..count], end);
        let mut header = Header::new_unchecked(&mut self.header[..self.header_length]);
        header.set_total_len(total as u16);
        let dont_fragment = header.dont_fragment();
        header.set_fragment(dont_fragment, false, 0);
        if self.ecn & 1 << CONGESTED != 0 {
            let dscp = header.dscp();
            header.set_tos(dscp, CONGESTED);
        }
        header.fill_checksum();
        let chained = if count > 1 { flag::CHAINED } else { 0 };
        Some(self.row_of(buffers, packets[0], total, chained))
    }

    /// What there is of the first fragment, or the header of another one, as a packet of one
    /// buffer; the others are given back.
    fn incomplete(&mut self, buffers: &mut Buffers) -> Row {
        let data = if self.has_first() { (self.parts[0].end as usize).min(DATA_SIZE) } else { 0 };
        let packet = self.windows.iter_mut().find_map(Option::take).expect("a datagram in progress has a buffer");
        if let Some(rest) = self.give_back(buffers) {
            buffers.free_chain(rest);
        }
        buffers.segment_mut(packet).set_next(None);
        let mut row = self.row_of(buffers, packet, self.header_length + data, 0);
        row.flags |= check::FRAGMENT;
        row.scratch = Report::reassembly_time_exceeded().into();
        row
    }

    /// A packet whose data begins in this buffer, with the header before it.
    fn row_of(&self, buffers: &mut Buffers, packet: PacketIndex, length: usize, chained: u32) -> Row {
        let l3 = HEADROOM - self.header_length;
        buffers.bytes_mut(packet)[l3..HEADROOM].copy_from_slice(&self.header[..self.header_length]);
        buffers.segment_mut(packet).trace = self.trace;
        let flags = self.row.flags & !(check::FRAGMENT | flag::CHAINED) | flag::BARE | chained;
        Row { packet, flags, l2: l3 as u16, l3: l3 as u16, length: length as u16, scratch: 0, ..self.row }
    }

    /// All its buffers in one chain.
    fn give_back(&mut self, buffers: &mut Buffers) -> Option<PacketIndex> {
        let mut chain = None;
        for packet in self.windows.iter_mut().filter_map(Option::take) {
            buffers.segment_mut(packet).set_next(chain);
            chain = Some(packet);
        }
        chain
    }
}
