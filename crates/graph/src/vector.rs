//! The vector: up to 256 packets that take one step of the graph together, and their metadata, in columns.
//!
//! Columns beside the vector, not rows in the buffers: nodes then read metadata with SIMD, and touch packet memory only
//! where they need a header. When packets of a vector take different edges, their columns are compressed by mask.
//! Measurements and the alternatives are in `docs/decisions/001-metadata-columns.md`.
#![allow(unsafe_code)]

pub mod edge;
pub mod flag;
pub(crate) mod parting;
mod row;

use crate::buffer::{Buffers, PacketIndex};
use crate::chains::Cursor;
use crate::index::{EdgeIndex, InterfaceIndex};
use crate::scratch::{Scratch, ScratchNumber, ScratchValue};
use crate::vector::parting::{Alike, Mask, Places, SURPLUS, are_same, compress, equal_mask};
use std::ops::Range;
use wire::batch::Frames;

pub use crate::vector::parting::VECTOR_SIZE;
pub use row::{LAZY, Lazy, Row};
/// Layout version of [`Vector`] and [`Row`] for nodes built elsewhere.
pub const VECTOR_VERSION: u32 = 2;
/// Entries after the last, so that SIMD may store whole registers at the end.
const SLACK: usize = SURPLUS;
const COLUMN: usize = VECTOR_SIZE + SLACK;
/// Entries that [`fill`] writes at once.
const BLOCK: usize = 8;
const _: () = assert!(SLACK >= BLOCK);
/// Edges in a cache line.
const LINE: usize = 64 / size_of::<EdgeIndex>();
const _: () = assert!(COLUMN >= VECTOR_SIZE.next_multiple_of(LINE));

/// A column, which begins with a cache line.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Column<T>([T; COLUMN]);

impl<T> std::ops::Deref for Column<T> {
    type Target = [T; COLUMN];
    #[inline(always)]
    fn deref(&self) -> &[T; COLUMN] {
        &self.0
    }
}

impl<T> std::ops::DerefMut for Column<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T; COLUMN] {
        &mut self.0
    }
}

/// Packets and their metadata. Entry `i` of each column is packet `i`'s.
#[repr(C, align(64))]
pub struct Vector {
    length_of_vector: u16,
    /// How often the packets have gone along an edge that leads back.
    pub(crate) recirculations: u8,
    /// Some packet is marked for the trace.
    pub traced: bool,
    /// A bit for each lazy column that is written ([`Lazy`]).
    live: u8,
    /// Some packet has scratch.
    has_scratch: bool,
    /// The packets that came with scratch, and those for which the node that runs now has left some.
    scratch_came: Mask,
    scratch_left: Mask,
    /// Those of these that have only the first word.
    scratch_short: Mask,
    packets: Column<PacketIndex>,
    /// The interface that received the packet.
    rx_interface: Column<InterfaceIndex>,
    /// IPv4 destination in host order, then the forwarding object it resolved to.
    target: Column<u32>,
    /// Bits of [`flag`] and [`wire::batch::check`].
    flags: Column<u32>,
    /// Offset of the link header from the buffer's start.
    l2: Column<u16>,
    /// Offset of the network header from the buffer's start.
    l3: Column<u16>,
    /// Bytes of the packet, from the link header on.
    length: Column<u16>,
    /// Where each packet goes next: the output of a node.
    edge: Column<EdgeIndex>,
    /// By [`Lazy`].
    lazy: [Column<u32>; LAZY],
    /// What a node leaves for the next one: its kind and its words.
    scratch_kind: Column<u32>,
    scratch_words: [Column<u32>; 3],
}

/// The columns that a node works on, each as long as the vector.
pub struct Columns<'a> {
    pub packets: &'a [PacketIndex],
    pub rx_interface: &'a mut [InterfaceIndex],
    pub target: &'a mut [u32],
    pub flags: &'a mut [u32],
    pub l2: &'a mut [u16],
    pub l3: &'a mut [u16],
    pub length: &'a mut [u16],
    pub edge: &'a mut [EdgeIndex],
    /// [`Lazy::Table`], if it is written.
    pub table: Option<&'a [u32]>,
}

impl Vector {
    pub fn new() -> Box<Vector> {
        // SAFETY: all-zero bytes are a valid Vector: integers, and bools that are false.
        unsafe { Box::new_zeroed().assume_init() }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.length_of_vector as usize
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.length_of_vector == 0
    }

    #[inline]
    pub fn room(&self) -> usize {
        VECTOR_SIZE - self.len()
    }

    pub fn clear(&mut self) {
        self.length_of_vector = 0;
        self.recirculations = 0;
        self.traced = false;
        self.live = 0;
        self.forget_scratch();
    }

    fn forget_scratch(&mut self) {
        if self.has_scratch {
            self.has_scratch = false;
            (self.scratch_came, self.scratch_left) = (Mask::default(), Mask::default());
        }
    }

    /// A node has run: what it left is for the next one, and what it got is gone, unless the packet goes on along its
    /// chain of features.
    #[inline(always)]
    pub(crate) fn pass_scratch_on(&mut self) {
        if self.has_scratch {
            let kept = self.kept_along_chains();
            self.scratch_came = std::mem::take(&mut self.scratch_left).or(&kept);
            self.has_scratch = self.scratch_came.lowest().is_some();
        }
    }

    /// Whose scratch came and stays, because the node was a feature that left nothing of its own.
    #[inline]
    fn kept_along_chains(&self) -> Mask {
        let goes_on = |to: EdgeIndex| to == edge::CONTINUE || edge::worker_of(to).is_some();
        let mut kept = Mask::default();
        if self.scratch_came != Mask::default() && self.one_edge().is_none_or(goes_on) {
            let came = self.scratch_came.positions().filter(|i| *i < self.len());
            came.for_each(|i| kept.set(i, goes_on(self.edge[i])));
        }
        kept
    }

    /// Forgets the packets from `length` on; the caller has taken or freed them.
    #[inline]
    pub fn truncate(&mut self, length: usize) {
        if length < self.len() {
            self.length_of_vector = length as u16;
        }
    }

    #[inline]
    pub fn packets(&self) -> &[PacketIndex] {
        &self.packets[..self.len()]
    }
    /// The first packet, and where its link header starts; unspecified for an empty vector.
    #[inline(always)]
    pub(crate) fn first(&self) -> (PacketIndex, u16) {
        (self.packets[0], self.l2[0])
    }
    #[inline]
    pub fn rx_interfaces(&self) -> &[InterfaceIndex] {
        &self.rx_interface[..self.len()]
    }
    #[inline]
    pub fn edges(&self) -> &[EdgeIndex] {
        &self.edge[..self.len()]
    }
    /// Where link headers begin.
    #[inline]
    pub(crate) fn l2(&self) -> &[u16] {
        &self.l2[..self.len()]
    }
    #[inline]
    pub fn lengths(&self) -> &[u16] {
        &self.length[..self.len()]
    }
    #[inline]
    pub fn targets(&self) -> &[u32] {
        &self.target[..self.len()]
    }

    /// A lazy column, if it is written.
    #[inline]
    pub fn lazy(&self, which: Lazy) -> Option<&[u32]> {
        (self.live >> which as usize & 1 != 0).then(|| &self.lazy[which as usize][..self.len()])
    }

    /// A lazy column, to be written: entries that have not been are 0.
    #[inline]
    pub fn lazy_mut(&mut self, which: Lazy) -> &mut [u32] {
        let n = self.len();
        &mut self.live_column(which as usize)[..n]
    }

    #[inline]
    fn live_column(&mut self, which: usize) -> &mut Column<u32> {
        let column = &mut self.lazy[which];
        if self.live >> which & 1 == 0 {
            self.live |= 1 << which;
            column.fill(0);
        }
        column
    }

    /// No packet has this metadata any more.
    #[inline]
    pub fn clear_lazy(&mut self, which: Lazy) {
        self.live &= !(1 << which as usize);
    }

    /// The interface that a packet is to leave by; number 0 where none was set.
    #[inline]
    pub fn tx_interface(&self, i: usize) -> InterfaceIndex {
        InterfaceIndex(self.lazy(Lazy::TxInterface).map_or(0, |column| column[i]))
    }

    /// Sets the interface that a packet is to leave by.
    #[inline]
    pub fn set_tx_interface(&mut self, i: usize, to: InterfaceIndex) {
        self.lazy_mut(Lazy::TxInterface)[i] = to.0;
    }

    /// The value of a lazy column that all packets have, if it is the same for all.
    #[inline]
    pub fn one_lazy(&self, which: Lazy) -> Option<u32> {
        self.lazy(which).map_or(Some(0), one_value)
    }

    /// All columns at once.
    #[inline]
    pub fn columns(&mut self) -> Columns<'_> {
        let n = self.len();
        Columns {
            packets: &self.packets[..n],
            rx_interface: &mut self.rx_interface[..n],
            target: &mut self.target[..n],
            flags: &mut self.flags[..n],
            l2: &mut self.l2[..n],
            l3: &mut self.l3[..n],
            length: &mut self.length[..n],
            edge: &mut self.edge[..n],
            table: (self.live >> Lazy::Table as usize & 1 != 0).then(|| &self.lazy[Lazy::Table as usize][..n]),
        }
    }

    /// The heads of some packets at their link headers, for `buffers`' kernels, with the
    /// columns beside them.
    ///
    /// # Panics
    /// When the range is beyond the vector.
    #[inline]
    pub fn l2_frames<'a>(&'a mut self, buffers: &'a mut Buffers, range: Range<usize>) -> (Frames<'a>, Sides<'a>) {
        assert!(range.end <= self.len());
        let frames = buffers.frames(&self.packets[range.clone()], &self.l2[range.clone()]);
        (
            frames,
            Sides {
                flags: &mut self.flags[range.clone()],
                length: &mut self.length[range.clone()],
                target: &mut self.target[range.clone()],
                edge: &mut self.edge[range],
            },
        )
    }

    /// As [`Vector::l2_frames`], of all packets at their network headers.
    #[inline]
    pub fn l3_frames<'a>(&'a mut self, buffers: &'a mut Buffers) -> (Frames<'a>, Sides<'a>) {
        let n = self.len();
        let frames = buffers.frames(&self.packets[..n], &self.l3[..n]);
        (
            frames,
            Sides {
                flags: &mut self.flags[..n],
                length: &mut self.length[..n],
                target: &mut self.target[..n],
                edge: &mut self.edge[..n],
            },
        )
    }

    /// Sends the whole vector to one edge.
    #[inline]
    pub fn set_edges(&mut self, to: EdgeIndex) {
        // Write whole cache lines: entries behind the last packet are unused, and for few packets this is one store.
        let (lines, _) = self.edge.as_chunks_mut::<LINE>();
        let needed = usize::from(self.length_of_vector).div_ceil(LINE);
        lines[..needed].iter_mut().for_each(|line| *line = [to; LINE]);
    }

    #[inline]
    pub fn set_edge(&mut self, i: usize, to: EdgeIndex) {
        let n = self.len();
        self.edge[..n][i] = to;
    }

    /// The union of all packets' flags.
    #[inline]
    pub fn any_flags(&self) -> u32 {
        self.flags[..self.len()].iter().fold(0, |all, flags| all | flags)
    }

    /// The flags that all packets have.
    #[inline]
    pub fn common_flags(&self) -> u32 {
        self.flags[..self.len()].iter().fold(u32::MAX, |all, flags| all & flags)
    }

    /// The interface that received all packets, if it is the same for all.
    #[inline]
    pub fn one_rx_interface(&self) -> Option<InterfaceIndex> {
        one_value(self.rx_interfaces())
    }

    /// The sum of the packets' lengths.
    #[inline]
    pub fn bytes(&self) -> u64 {
        // 256 lengths of 16 bits fit 32.
        self.lengths().iter().map(|&length| length as u32).sum::<u32>() as u64
    }

    pub fn row(&self, i: usize) -> Row {
        assert!(i < self.len());
        Row {
            packet: self.packets[i],
            rx_interface: self.rx_interface[i],
            target: self.target[i],
            flags: self.flags[i],
            l2: self.l2[i],
            l3: self.l3[i],
            length: self.length[i],
            lazy: std::array::from_fn(|at| if self.live >> at & 1 != 0 { self.lazy[at][i] } else { 0 }),
            scratch: self.scratch(i),
        }
    }

    pub fn set_row(&mut self, i: usize, row: Row) {
        assert!(i < self.len());
        self.packets[i] = row.packet;
        self.rx_interface[i] = row.rx_interface;
        self.target[i] = row.target;
        self.flags[i] = row.flags;
        self.l2[i] = row.l2;
        self.l3[i] = row.l3;
        self.length[i] = row.length;
        self.traced |= row.flags & flag::TRACED != 0;
        if self.live != 0 || row.lazy != [0; LAZY] {
            for (at, value) in row.lazy.into_iter().enumerate() {
                if self.live >> at & 1 != 0 || value != 0 {
                    self.live_column(at)[i] = value;
                }
            }
        }
        if self.has_scratch || !row.scratch.is_none() {
            self.set_scratch(i, row.scratch);
        }
    }

    /// Lets `one` change each packet's row and choose its edge.
    pub fn each_row<E: Into<EdgeIndex>>(&mut self, mut one: impl FnMut(&mut Row) -> E) {
        for i in 0..self.len() {
            let mut row = self.row(i);
            let to = one(&mut row);
            self.set_row(i, row);
            self.set_edge(i, to.into());
        }
    }

    #[inline]
    fn has_scratch_at(&self, i: usize) -> bool {
        self.has_scratch && (self.scratch_came.has(i) || self.scratch_left.has(i))
    }

    /// Sets a packet's scratch for the next node.
    ///
    /// # Panics
    /// When there is no such packet.
    #[inline]
    pub fn set_scratch(&mut self, i: usize, scratch: Scratch) {
        assert!(i < self.len());
        self.scratch_came.set(i, false);
        self.scratch_left.set(i, !scratch.is_none());
        self.has_scratch |= !scratch.is_none();
        self.write_scratch(i, scratch);
    }

    #[inline]
    fn write_scratch(&mut self, i: usize, scratch: Scratch) {
        self.scratch_short.set(i, false);
        self.scratch_kind[i] = scratch.kind;
        self.scratch_words.iter_mut().zip(scratch.words).for_each(|(column, word)| column[i] = word);
    }

    /// A packet's scratch.
    #[inline]
    pub fn scratch(&self, i: usize) -> Scratch {
        if !self.has_scratch_at(i) {
            return Scratch::NONE;
        }
        let [first, second, third] = &self.scratch_words;
        let rest = if self.scratch_short.has(i) { [0, 0] } else { [second[i], third[i]] };
        Scratch { kind: self.scratch_kind[i], words: [first[i], rest[0], rest[1]] }
    }

    /// Leaves a value for the next node, of one packet.
    #[inline]
    pub fn leave<V: ScratchValue>(&mut self, i: usize, value: V) {
        self.set_scratch(i, Scratch::of(value));
    }

    /// Leaves a number for the next node, of each packet: what the packets resolve to, and the numbers to be written.
    #[inline]
    pub fn leave_numbers<V: ScratchNumber>(&mut self) -> (&mut [u32], &mut [u32]) {
        let n = self.len();
        self.scratch_kind[..n].fill(V::KIND.0);
        (self.scratch_came, self.scratch_left) = (Mask::default(), Mask::first(n));
        self.scratch_short = self.scratch_left;
        self.has_scratch = n > 0;
        (&mut self.target[..n], &mut self.scratch_words[0][..n])
    }

    /// What the last node left, of one packet, if it is of this kind.
    #[inline]
    pub fn left<V: ScratchValue>(&self, i: usize) -> Option<V> {
        assert!(i < self.len());
        self.scratch(i).read()
    }

    /// As [`Vector::l3_frames`], with the numbers that the last node left for all packets, if it has left one of this
    /// kind for each.
    #[inline]
    pub fn l3_frames_with_numbers<'a, V: ScratchNumber>(
        &'a mut self,
        buffers: &'a mut Buffers,
    ) -> Option<(Frames<'a>, Sides<'a>, &'a [u32])> {
        let n = self.len();
        let are_there = self.has_scratch && self.scratch_came.or(&self.scratch_left) == Mask::first(n);
        if !are_there || one_value(&self.scratch_kind[..n]) != Some(V::KIND.0) {
            return None;
        }
        let frames = buffers.frames(&self.packets[..n], &self.l3[..n]);
        let sides = Sides {
            flags: &mut self.flags[..n],
            length: &mut self.length[..n],
            target: &mut self.target[..n],
            edge: &mut self.edge[..n],
        };
        Some((frames, sides, &self.scratch_words[0][..n]))
    }

    /// Has all packets follow a chain.
    #[inline]
    pub fn begin(&mut self, chain: Cursor) {
        self.lazy_mut(Lazy::Cursor).fill(chain.value());
        self.set_edges(edge::CONTINUE);
    }

    /// Has the packets from one on follow a chain.
    #[inline]
    pub fn begin_from(&mut self, from: usize, chain: Cursor) {
        self.lazy_mut(Lazy::Cursor)[from..].fill(chain.value());
        let n = self.len();
        self.edge[from..n].fill(edge::CONTINUE);
    }

    /// Has all packets follow a chain, if there is one, or take an edge.
    #[inline]
    pub fn send_all(&mut self, chain: Option<Cursor>, to: EdgeIndex) {
        match chain {
            Some(chain) => self.begin(chain),
            None => self.set_edges(to),
        }
    }

    /// The same of one packet.
    #[inline]
    pub fn send(&mut self, i: usize, chain: Option<Cursor>, to: EdgeIndex) {
        match chain {
            Some(chain) => self.begin_one(i, chain),
            None => self.set_edge(i, to),
        }
    }

    /// Has one packet follow a chain.
    #[inline]
    pub fn begin_one(&mut self, i: usize, chain: Cursor) {
        self.lazy_mut(Lazy::Cursor)[i] = chain.value();
        self.set_edge(i, edge::CONTINUE);
    }

    /// Has all packets follow a chain to an interface by which they leave.
    pub(crate) fn leave_by(&mut self, interface: InterfaceIndex, chain: Cursor) {
        self.lazy_mut(Lazy::TxInterface).fill(interface.0);
        self.begin(chain);
    }

    /// Where all packets are in their chain, if it is the same for all; each is at its beginning or behind a feature.
    pub(crate) fn one_cursor(&self) -> Option<Option<Cursor>> {
        self.one_lazy(Lazy::Cursor).map(Cursor::of)
    }

    /// All packets are at this place of their chain now.
    pub(crate) fn move_on(&mut self, to: Option<Cursor>) {
        match to {
            Some(cursor) => self.lazy_mut(Lazy::Cursor).fill(cursor.value()),
            None => self.clear_lazy(Lazy::Cursor),
        }
    }

    /// Those packets of `among` that have the value of packet `first` in a lazy column that is written.
    pub(crate) fn mask_of_lazy(&self, which: Lazy, first: usize, among: &Mask) -> Mask {
        let column = &self.lazy[which as usize];
        let mut mask = Mask::default();
        among.positions().filter(|i| column[*i] == column[first]).for_each(|i| mask.set(i, true));
        mask
    }

    /// Appends a packet.
    ///
    /// # Panics
    /// When the vector is full.
    #[inline]
    pub fn push(&mut self, row: Row, to: EdgeIndex) {
        let i = self.len();
        assert!(i < VECTOR_SIZE);
        self.length_of_vector += 1;
        self.set_row(i, row);
        self.edge[i] = to;
    }

    /// Appends packets whose columns are all alike except for the packet index. They have no scratch and nothing in
    /// lazy columns.
    #[inline]
    pub fn extend_alike(&mut self, packets: &[PacketIndex], alike: Row, to: EdgeIndex) {
        let (from, n) = (self.len(), packets.len());
        assert!(n <= self.room());
        self.packets[from..from + n].copy_from_slice(packets);
        self.fill_alike(n, alike, to);
    }

    /// As [`Vector::extend_alike`], with up to `n` fresh buffers. Returns how many there were.
    #[inline]
    pub fn extend_fresh(&mut self, buffers: &mut Buffers, n: usize, alike: Row, to: EdgeIndex) -> usize {
        let from = self.len();
        assert!(n <= self.room());
        let got = buffers.allocate(&mut self.packets[from..from + n]);
        self.fill_alike(got, alike, to);
        got
    }

    /// Appends `n` packets whose indices are in place.
    #[inline]
    fn fill_alike(&mut self, n: usize, alike: Row, to: EdgeIndex) {
        debug_assert!(alike.scratch.is_none() && alike.lazy == [0; LAZY]);
        let from = self.len();
        fill(&mut self.rx_interface, from, n, alike.rx_interface);
        fill(&mut self.flags, from, n, alike.flags);
        fill(&mut self.target, from, n, alike.target);
        fill(&mut self.l2, from, n, alike.l2);
        fill(&mut self.l3, from, n, alike.l3);
        fill(&mut self.length, from, n, alike.length);
        fill(&mut self.edge, from, n, to);
        self.length_of_vector += n as u16;
        self.have_none(from, n);
    }

    /// Packets were appended that have no scratch and nothing in lazy columns.
    #[inline]
    fn have_none(&mut self, from: usize, n: usize) {
        if self.live != 0 {
            (0..LAZY).filter(|at| self.live >> at & 1 != 0).for_each(|at| self.lazy[at][from..from + n].fill(0));
        }
        if self.has_scratch {
            self.scratch_came.clear_range(from, n);
            self.scratch_left.clear_range(from, n);
        }
    }

    /// The edge that all packets take, if it is the same for all.
    #[inline]
    pub(crate) fn one_edge(&self) -> Option<EdgeIndex> {
        one_value(self.edges())
    }

    /// Those packets of `among` that take `edge`.
    pub(crate) fn mask_of(&self, edge: EdgeIndex, among: &Mask) -> Mask {
        let edges = self.edge[..VECTOR_SIZE].as_array().expect("a column is longer");
        let equal = equal_mask(edges, self.len(), edge);
        Mask(std::array::from_fn(|word| equal[word] & among.0[word]))
    }

    /// Appends the packets of `mask` to `to`, in order, as far as there is room, and removes them from the mask.
    pub(crate) fn move_to(&self, mask: &mut Mask, alike: Alike, to: &mut Vector) {
        let taken = mask.take_first(to.room());
        self.compress(&taken, alike, to);
    }

    /// The columns in which all packets are alike.
    pub(crate) fn alike(&self) -> Alike {
        let n = self.len();
        let lazy = |which: usize| self.live >> which & 1 != 0 && are_same(&self.lazy[which][..n]);
        Alike::new(
            [
                false, // packets are all different
                are_same(&self.rx_interface[..n]),
                are_same(&self.target[..n]),
                are_same(&self.flags[..n]),
                lazy(0),
                lazy(1),
                lazy(2),
                lazy(3),
            ],
            [are_same(&self.l2[..n]), are_same(&self.l3[..n]), are_same(&self.length[..n])],
            self.live,
        )
    }

    /// Appends the packets of `from` starting with `first`, as far as there is room; returns how many.
    pub(crate) fn append(&mut self, from: &Vector, first: usize) -> usize {
        let n = (from.len() - first).min(self.room());
        let (a, b) = (self.len(), first);
        self.inherit(from, a, n);
        self.packets[a..a + n].copy_from_slice(&from.packets[b..b + n]);
        self.rx_interface[a..a + n].copy_from_slice(&from.rx_interface[b..b + n]);
        self.target[a..a + n].copy_from_slice(&from.target[b..b + n]);
        self.flags[a..a + n].copy_from_slice(&from.flags[b..b + n]);
        self.l2[a..a + n].copy_from_slice(&from.l2[b..b + n]);
        self.l3[a..a + n].copy_from_slice(&from.l3[b..b + n]);
        self.length[a..a + n].copy_from_slice(&from.length[b..b + n]);
        if from.live != 0 {
            for at in (0..LAZY).filter(|at| from.live >> at & 1 != 0) {
                self.lazy[at][a..a + n].copy_from_slice(&from.lazy[at][b..b + n]);
            }
        }
        if from.has_scratch {
            self.take_scratch(from, (b..b + n).zip(a..));
        }
        n
    }

    /// Makes room for `n` packets of another vector and takes over what holds for all of its packets. Where it has no
    /// scratch or lazy column, they have none.
    #[inline]
    fn inherit(&mut self, from: &Vector, at: usize, n: usize) {
        self.have_none(at, n);
        if from.live & !self.live != 0 {
            (0..LAZY).filter(|at| from.live >> at & 1 != 0).for_each(|at| {
                self.live_column(at);
            });
        }
        self.traced |= from.traced;
        self.recirculations = self.recirculations.max(from.recirculations);
        self.length_of_vector += n as u16;
    }

    /// Takes over the scratch of some packets, by their places there and here.
    #[cold]
    fn take_scratch(&mut self, from: &Vector, places: impl Iterator<Item = (usize, usize)>) {
        for (there, here) in places.filter(|(there, _)| from.has_scratch_at(*there)) {
            self.write_scratch(here, from.scratch(there));
            self.scratch_came.set(here, true);
            self.has_scratch = true;
        }
    }

    /// Keeps only the packets of `mask`, closing the gaps.
    pub(crate) fn keep(&mut self, mask: &Mask, alike: Alike) {
        let count = mask.count();
        let places = self.places(0);
        // SAFETY: columns have VECTOR_SIZE entries and SURPLUS behind them.
        unsafe { compress(&places, mask, count, alike, &places) };
        if self.has_scratch {
            let mut came = Mask::default();
            for (to, from) in mask.positions().enumerate() {
                if !self.has_scratch_at(from) {
                    continue;
                }
                // Behind this place only later packets' scratch is still to be read.
                let scratch = self.scratch(from);
                self.write_scratch(to, scratch);
                came.set(to, true);
            }
            (self.scratch_came, self.scratch_left) = (came, Mask::default());
            self.has_scratch = came.lowest().is_some();
        }
        self.length_of_vector = count as u16;
    }

    fn compress(&self, mask: &Mask, alike: Alike, to: &mut Vector) {
        let (at, n) = (to.len(), mask.count());
        assert!(n <= to.room());
        to.inherit(self, at, n);
        // SAFETY: columns have VECTOR_SIZE entries, with room for `n` from `at` on, and SURPLUS behind them. What is
        // read is not written: `to` is another vector.
        unsafe { compress(&self.read_places(), mask, n, alike, &to.places(at)) };
        if self.has_scratch {
            to.take_scratch(self, mask.positions().zip(at..));
        }
    }

    /// Entry `at` of each column that is copied with packets.
    fn places(&mut self, at: usize) -> Places {
        let packets: *mut u32 = self.packets[at..].as_mut_ptr().cast();
        let rx_interface: *mut u32 = self.rx_interface[at..].as_mut_ptr().cast();
        let (target, flags) = (self.target[at..].as_mut_ptr(), self.flags[at..].as_mut_ptr());
        let [cursor, table, tx_interface, flow_hash] = self.lazy.each_mut().map(|column| column[at..].as_mut_ptr());
        Places {
            words: [packets, rx_interface, target, flags, cursor, table, tx_interface, flow_hash],
            halves: [self.l2[at..].as_mut_ptr(), self.l3[at..].as_mut_ptr(), self.length[at..].as_mut_ptr()],
        }
    }

    /// The same, for reading only.
    fn read_places(&self) -> Places {
        let packets: *const u32 = self.packets.as_ptr().cast();
        let rx_interface: *const u32 = self.rx_interface.as_ptr().cast();
        let (target, flags) = (self.target.as_ptr(), self.flags.as_ptr());
        let [cursor, table, tx_interface, flow_hash] = self.lazy.each_ref().map(|column| column.as_ptr());
        let words = [packets, rx_interface, target, flags, cursor, table, tx_interface, flow_hash];
        Places {
            words: words.map(<*const u32>::cast_mut),
            halves: [self.l2.as_ptr(), self.l3.as_ptr(), self.length.as_ptr()].map(<*const u16>::cast_mut),
        }
    }
}

/// Sets `n` entries of a column, in whole blocks: entries behind the last packet are unused, and few packets take one
/// store.
#[inline(always)]
fn fill<T: Copy>(column: &mut Column<T>, from: usize, n: usize, value: T) {
    let (blocks, _) = column[from..].as_chunks_mut::<BLOCK>();
    blocks[..n.div_ceil(BLOCK)].iter_mut().for_each(|block| *block = [value; BLOCK]);
}

/// What a kernel reads and writes beside the packets of [`Vector::l2_frames`].
pub struct Sides<'a> {
    pub flags: &'a mut [u32],
    pub length: &'a mut [u16],
    pub target: &'a mut [u32],
    pub edge: &'a mut [EdgeIndex],
}

/// The value of all entries, if they are equal and there are any. Branch-free over blocks, so that it compiles to a few
/// SIMD compares.
#[inline]
pub fn one_value<T: Copy + PartialEq>(column: &[T]) -> Option<T> {
    let (&first, rest) = column.split_first()?;
    if rest.is_empty() {
        return Some(first);
    }
    for block in column.chunks(64) {
        if !block.iter().fold(true, |same, value| same & (*value == first)) {
            return None;
        }
    }
    Some(first)
}

#[cfg(test)]
mod tests;
