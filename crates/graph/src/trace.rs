//! Following single packets through the graph.
//!
//! `trace add NODE N` marks the next N packets that a source lets in, of those that a filter
//! lets pass if there is one. After each node
//! that handles a marked packet the dispatcher takes a [`Snapshot`]; the node's class
//! says how to read it. Nothing is formatted on a worker.
//!
//! A packet keeps its mark wherever it goes. What another worker does with it that one records, under the same number.

use crate::buffer::Buffers;
use crate::head::{Head, Predicate};
use crate::index::EdgeIndex;
use crate::index::NodeIndex;
use crate::vector::Row;
use std::fmt;

/// Bytes of the packet that a snapshot keeps, from the link header on.
pub const SNAPSHOT_BYTES: usize = 128;
/// Most packets in a trace buffer.
pub const MAX_TRACED: u32 = 50_000;
/// A packet's number has that of the worker that marked it above these bits.
const NUMBER_BITS: u32 = 16;
const _: () = assert!(MAX_TRACED < 1 << NUMBER_BITS);
/// Most steps that are kept of them together.
const MAX_STEPS: usize = 1_000_000;

/// A marked packet as a node left it.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Tells the packet from all others: [`Snapshot::number`] and [`Snapshot::marked_by`].
    pub packet: u32,
    pub node: NodeIndex,
    pub ticks: u64,
    pub edge: EdgeIndex,
    pub row: Row,
    /// The packet's first bytes, from the link header on: of those in its first buffer.
    bytes: [u8; SNAPSHOT_BYTES],
    taken: usize,
}

impl Snapshot {
    /// Numbers the packets that a worker marked, from 1.
    pub fn number(&self) -> u32 {
        self.packet & ((1 << NUMBER_BITS) - 1)
    }
    /// The worker that marked the packet, which others may have handled since.
    pub fn marked_by(&self) -> usize {
        (self.packet >> NUMBER_BITS) as usize
    }
    /// The packet from its link header on, as far as kept.
    pub fn l2(&self) -> &[u8] {
        &self.bytes[..self.taken]
    }
    /// The packet from its network header on, as far as kept.
    pub fn l3(&self) -> &[u8] {
        let start = (self.row.l3 as usize).saturating_sub(self.row.l2 as usize);
        &self.bytes[start.min(self.taken)..self.taken]
    }
}

/// How a node's class prints what it left: lines, each with its own two spaces.
pub type TraceFormat = fn(&Snapshot, &mut dyn fmt::Write) -> fmt::Result;

/// A worker's trace buffer.
#[derive(Default)]
pub struct Tracer {
    /// How many more packets to mark, by source.
    armed: Vec<(NodeIndex, u32)>,
    marked: u32,
    steps: Vec<Snapshot>,
    filter: Option<Predicate>,
}

impl Tracer {
    /// Marks the next `count` packets of `source`.
    pub fn arm(&mut self, source: NodeIndex, count: u32) {
        let room = MAX_TRACED - self.marked.min(MAX_TRACED);
        if count == 0 || room == 0 {
            return;
        }
        match self.armed.iter_mut().find(|(node, _)| *node == source) {
            Some((_, left)) => *left = left.saturating_add(count).min(room),
            None => self.armed.push((source, count.min(room))),
        }
    }

    /// Forgets marks and what is armed; the filter stays.
    pub fn clear(&mut self) {
        *self = Tracer { filter: self.filter.take(), ..Tracer::default() };
    }

    /// From now on only packets that it wants are marked, and counted.
    pub fn set_filter(&mut self, filter: Option<Predicate>) {
        self.filter = filter;
    }

    /// Everything recorded so far, in order of time.
    pub fn steps(&self) -> &[Snapshot] {
        &self.steps
    }

    #[inline]
    pub(crate) fn is_armed(&self) -> bool {
        !self.armed.is_empty()
    }

    #[inline]
    pub(crate) fn is_armed_at(&self, source: NodeIndex) -> bool {
        self.armed.iter().any(|(node, _)| *node == source)
    }

    /// The number for the next packet of `source`, when it is to be marked.
    pub(crate) fn mark(&mut self, source: NodeIndex, worker: usize, buffers: &Buffers, row: &Row) -> Option<u32> {
        let at = self.armed.iter().position(|(node, _)| *node == source)?;
        if self.filter.as_ref().is_some_and(|wanted| !wanted(&Head::of(buffers, row))) {
            return None;
        }
        self.armed[at].1 -= 1;
        if self.armed[at].1 == 0 {
            self.armed.swap_remove(at);
        }
        self.marked += 1;
        Some((worker as u32) << NUMBER_BITS | self.marked)
    }

    pub(crate) fn record(&mut self, buffers: &Buffers, node: NodeIndex, ticks: u64, edge: EdgeIndex, row: Row) {
        if self.steps.len() >= MAX_STEPS {
            return;
        }
        let head = Head::of(buffers, &row).bytes;
        let taken = head.len().min(SNAPSHOT_BYTES);
        let mut bytes = [0; SNAPSHOT_BYTES];
        bytes[..taken].copy_from_slice(&head[..taken]);
        let packet = buffers.segment(row.packet).trace;
        self.steps.push(Snapshot { packet, node, ticks, edge, row, bytes, taken });
    }
}
