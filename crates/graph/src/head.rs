//! A packet as control's filters see it. The graph contains no protocol, so the code that arms a trace or a capture
//! provides the predicate.

use crate::buffer::Buffers;
use crate::vector::{Row, flag};

/// The beginning of a packet.
#[derive(Debug, Clone, Copy)]
pub struct Head<'a> {
    /// The bytes in the first buffer, from the link header on.
    pub bytes: &'a [u8],
    /// Bytes of the whole packet.
    pub length: usize,
    /// Whether it begins with a link header. A packet that this router makes has none until it gets one for its next
    /// hop.
    pub framed: bool,
}

impl<'a> Head<'a> {
    pub(crate) fn of(buffers: &'a Buffers, row: &Row) -> Head<'a> {
        let bytes = &buffers.bytes(row.packet)[..];
        let from = (row.l2 as usize).min(bytes.len());
        let to = (from + row.first_length(buffers)).min(bytes.len());
        // The bytes before may be labels that were removed, four bytes each. No link header has such a length:
        // Ethernet's has 14 bytes, and a tag 4.
        let before = row.l3.wrapping_sub(row.l2);
        let bare = row.flags & (flag::ORIGINATED | flag::BARE) != 0 && before.is_multiple_of(4);
        Head { bytes: &bytes[from..to], length: row.length as usize, framed: !bare }
    }
}

/// Whether a packet is wanted. Called on workers: it must not wait, allocate or panic.
pub type Predicate = Box<dyn Fn(&Head<'_>) -> bool + Send>;
