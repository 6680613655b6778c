//! A packet's metadata as one value, for code that handles one packet at a time.

use super::flag;
use crate::buffer::{Buffers, PacketIndex};
use crate::chains::Cursor;
use crate::index::InterfaceIndex;
use crate::scratch::Scratch;

/// Metadata that few packets have. Its columns are written and travel only where some packet of the vector has it;
/// a packet that has none reads 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lazy {
    /// Where the packet is in a chain of features.
    Cursor,
    /// The routing table to look it up in, plus one; 0: the one of its receive interface.
    Table,
    /// The interface that it is to leave by; 0: not known.
    TxInterface,
    /// A hash of its flow; 0: not computed.
    FlowHash,
}

/// Lazy columns.
pub const LAZY: usize = 4;

/// A vector's row: the metadata of one packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub packet: PacketIndex,
    pub rx_interface: InterfaceIndex,
    pub target: u32,
    pub flags: u32,
    pub l2: u16,
    pub l3: u16,
    pub length: u16,
    /// By [`Lazy`].
    pub lazy: [u32; LAZY],
    pub scratch: Scratch,
}

impl Default for Row {
    /// The row of no packet ([`PacketIndex::NONE`]).
    fn default() -> Row {
        Row {
            packet: PacketIndex::NONE,
            rx_interface: InterfaceIndex(0),
            target: 0,
            flags: 0,
            l2: 0,
            l3: 0,
            length: 0,
            lazy: [0; LAZY],
            scratch: Scratch::NONE,
        }
    }
}

impl Row {
    /// The interface that the packet is to leave by; number 0 where none was set.
    pub fn tx_interface(&self) -> InterfaceIndex {
        InterfaceIndex(self.lazy(Lazy::TxInterface))
    }

    /// Has the packet follow a chain, by the edge [`crate::edge::CONTINUE`].
    pub fn begin(&mut self, chain: Cursor) {
        self.set_lazy(Lazy::Cursor, chain.value());
    }

    pub fn set_tx_interface(&mut self, to: InterfaceIndex) {
        self.set_lazy(Lazy::TxInterface, to.0);
    }

    pub fn lazy(&self, which: Lazy) -> u32 {
        self.lazy[which as usize]
    }

    pub fn set_lazy(&mut self, which: Lazy, value: u32) {
        self.lazy[which as usize] = value;
    }

    /// The row with other metadata of one lazy column.
    #[must_use]
    pub fn with_lazy(mut self, which: Lazy, value: u32) -> Row {
        self.set_lazy(which, value);
        self
    }

    /// Bytes of the packet that are in its first buffer, from the link header on: its length, less what its later
    /// segments hold.
    pub fn first_length(&self, buffers: &Buffers) -> usize {
        let mut length = self.length as usize;
        if self.flags & flag::CHAINED != 0 {
            let mut at = buffers.segment(self.packet).next();
            while let Some(index) = at {
                let segment = buffers.segment(index);
                length = length.saturating_sub(segment.length as usize);
                at = segment.next();
            }
        }
        length
    }

    /// A copy of the packet in buffers of its own, with its pending offloads: all that the row says is true of the
    /// copy. None: there are not enough buffers.
    pub fn copy(&self, buffers: &mut Buffers) -> Option<Row> {
        let (from, first) = (self.l2 as usize, self.first_length(buffers));
        let copy = buffers.allocate_one()?;
        buffers.segment_mut(copy).offload = buffers.segment(self.packet).offload;
        copy_bytes(buffers, self.packet, copy, from, first);
        let chained = self.flags & flag::CHAINED != 0;
        let mut at = if chained { buffers.segment(self.packet).next() } else { None };
        let mut last = copy;
        while let Some(index) = at {
            let segment = *buffers.segment(index);
            let Some(part) = buffers.allocate_one() else {
                buffers.free_chain(copy);
                return None;
            };
            copy_bytes(buffers, index, part, segment.offset as usize, segment.length as usize);
            let of_copy = buffers.segment_mut(part);
            (of_copy.offset, of_copy.length) = (segment.offset, segment.length);
            buffers.segment_mut(last).set_next(Some(part));
            (last, at) = (part, segment.next());
        }
        Some(Row { packet: copy, ..*self })
    }

    /// Bytes from the network header to the end of the packet.
    pub fn l3_length(&self) -> usize {
        (self.length as usize + self.l2 as usize).saturating_sub(self.l3 as usize)
    }
}

/// Copies bytes of one buffer to the same place of another, limited to the size of a buffer.
fn copy_bytes(buffers: &mut Buffers, from: PacketIndex, to: PacketIndex, start: usize, length: usize) {
    let (source, target) = buffers.pair_mut(from, to);
    let end = (start + length).min(source.len());
    if let (Some(target), Some(source)) = (target.get_mut(start..end), source.get(start..end)) {
        target.copy_from_slice(source);
    }
}
