//! ICMP errors about packets that were not forwarded, of either family, and their counters.

use graph::{Context, Row, flag};
use std::fmt;
use wire::batch::check;
use wire::mpls::{ENTRY_LEN, StackEntry};

/// What to say: type, code and the word behind the checksum, as it travels in scratch. Types are a family's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report<T> {
    pub kind: T,
    pub code: u8,
    pub rest: u32,
}

impl<T: Into<u8>> From<Report<T>> for u64 {
    fn from(report: Report<T>) -> u64 {
        (report.kind.into() as u64) << 40 | (report.code as u64) << 32 | report.rest as u64
    }
}

impl<T: From<u8>> From<u64> for Report<T> {
    fn from(word: u64) -> Report<T> {
        Report { kind: ((word >> 40) as u8).into(), code: (word >> 32) as u8, rest: word as u32 }
    }
}

/// Why the packet is dropped that a report is about, by a node's table of what it sends.
pub(crate) fn reason_of<T, E>(sent: &[((T, u8), E)], report: Report<T>) -> E
where
    T: Copy + PartialEq + fmt::Debug,
    E: Copy,
{
    let known = sent.iter().find(|(message, _)| *message == (report.kind, report.code));
    debug_assert!(known.is_some(), "{report:?} has no name");
    known.unwrap_or(&sent[0]).1
}

/// How many bytes of a packet, from its IP header on, are there to be quoted; `most` at most.
pub(crate) fn quoted(cx: &Context<'_>, row: &Row, most: usize) -> usize {
    let here = (row.first_length(cx.buffers) + row.l2 as usize).saturating_sub(row.l3 as usize);
    here.min(most)
}

/// The label that led a packet here, if one did, with as many hops as a label can have: an error about it goes where
/// that led.
pub(crate) fn label_of(cx: &Context<'_>, row: &Row) -> Option<StackEntry> {
    let is_behind = row.flags & flag::BEHIND_LABEL != 0;
    let at = usize::from(row.l3).checked_sub(ENTRY_LEN).filter(|_| is_behind)?;
    let entry =
        StackEntry::from_bytes(*cx.buffers.bytes(row.packet)[at..].first_chunk().expect("there is room behind it"));
    Some(StackEntry::new(entry.label(), entry.traffic_class(), true, u8::MAX))
}

/// Puts a label before a message that begins a packet.
pub(crate) fn put_label(cx: &mut Context<'_>, row: &mut Row, label: StackEntry) {
    row.l3 -= ENTRY_LEN as u16;
    row.l2 = row.l3;
    row.length += ENTRY_LEN as u16;
    row.target = label.0;
    row.flags &= !(check::ALL | flag::BEHIND_LABEL);
    let at = row.l3 as usize;
    cx.buffers.bytes_mut(row.packet)[at..at + ENTRY_LEN].copy_from_slice(&label.to_bytes());
}

/// Lets go of what is behind a packet's first buffer.
pub(crate) fn keep_first_buffer(cx: &mut Context<'_>, row: &mut Row) {
    if row.flags & flag::CHAINED == 0 {
        return;
    }
    row.flags &= !flag::CHAINED;
    let rest = cx.buffers.segment(row.packet).next();
    cx.buffers.segment_mut(row.packet).set_next(None);
    if let Some(rest) = rest {
        cx.buffers.free_chain(rest);
    }
}
