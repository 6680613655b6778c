//! What a worker is doing, for threads that observe it.

use crate::buffer::PacketIndex;
use crate::index::MAX_NODES;
use crate::index::NodeIndex;
use crate::vector::{VECTOR_SIZE, Vector};

/// What a worker is doing. Workers write it as one word, so that a reader never sees parts of two states. From the top:
/// the node's number plus one, the number of packets, half the offset, the first packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    /// None: a message of control.
    pub node: Option<NodeIndex>,
    pub packets: usize,
    /// The first packet, and where its link header starts.
    pub first: PacketIndex,
    pub l2: usize,
}

const NODE: u32 = 49;
const PACKETS: u32 = 40;
const L2: u32 = 32;

const _: () = assert!(MAX_NODES < 1 << (u64::BITS - NODE) && VECTOR_SIZE < 1 << (NODE - PACKETS));

impl Running {
    /// The word while a message runs, and no node.
    pub(super) const CONTROL: u64 = 0;

    /// The word of a source.
    #[inline(always)]
    pub(super) fn source(node: NodeIndex) -> u64 {
        u64::from(node.0 + 1) << NODE
    }

    /// The word of a node with packets.
    #[inline(always)]
    pub(super) fn node(node: NodeIndex, vector: &Vector) -> u64 {
        let (first, l2) = vector.first();
        let l2 = u64::from(l2 / 2).min(u64::from(u8::MAX));
        Running::source(node) | (vector.len() as u64) << PACKETS | l2 << L2 | u64::from(first.0)
    }

    pub(crate) fn unpack(word: u64) -> Running {
        let bits = |from: u32, to: u32| (word >> from & ((1 << (to - from)) - 1)) as usize;
        Running {
            node: bits(NODE, u64::BITS).checked_sub(1).map(|node| NodeIndex(node as u32)),
            packets: bits(PACKETS, NODE),
            first: PacketIndex(word as u32),
            l2: 2 * bits(L2, PACKETS),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vector::Row;

    #[test]
    fn what_is_packed_is_unpacked() {
        let mut vector = Vector::new();
        for at in 0..VECTOR_SIZE as u32 {
            vector.push(Row { packet: PacketIndex(u32::MAX - at), l2: 252, ..Row::default() }, 0);
        }
        let node = NodeIndex(MAX_NODES as u32 - 1);
        let running = Running { node: Some(node), packets: VECTOR_SIZE, first: PacketIndex(u32::MAX), l2: 252 };
        assert_eq!(Running::unpack(Running::node(node, &vector)), running);
        let empty = Running { node: Some(NodeIndex(0)), packets: 0, first: PacketIndex(0), l2: 0 };
        assert_eq!(Running::unpack(Running::source(NodeIndex(0))), empty);
        assert_eq!(Running::unpack(Running::CONTROL).node, None);
    }
}
