//! ICMP errors about packets that were not forwarded, of either family, and their counters.

use super::marks::BEHIND_LABEL;
use graph::{Context, Row, ScratchKind, ScratchValue, flag};
use std::fmt;
use wire::batch::check;
use wire::mpls::{ENTRY_LEN, StackEntry};
use wire::{icmpv4, icmpv6};

/// What to say: type, code and the word behind the checksum, as it travels in scratch. Types are a family's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Report<T> {
    pub kind: T,
    pub code: u8,
    pub rest: u32,
}

/// A family's types of messages.
pub trait MessageType: Copy + fmt::Debug + From<u8> + Into<u8> {
    /// Reports with such types are of this kind of scratch.
    const REPORTS: ScratchKind;
    /// For packets that come without a report: the destination cannot be reached.
    const UNREACHABLE: Self;
}

impl MessageType for icmpv4::Type {
    const REPORTS: ScratchKind = ScratchKind::named("icmp report");
    const UNREACHABLE: Self = icmpv4::Type::DESTINATION_UNREACHABLE;
}

impl MessageType for icmpv6::Type {
    const REPORTS: ScratchKind = ScratchKind::named("icmp6 report");
    const UNREACHABLE: Self = icmpv6::Type::DESTINATION_UNREACHABLE;
}

impl<T: MessageType> ScratchValue for Report<T> {
    const KIND: ScratchKind = T::REPORTS;
    fn to_words(self) -> [u32; 3] {
        [self.kind.into().into(), self.code.into(), self.rest]
    }
    fn from_words([kind, code, rest]: [u32; 3]) -> Report<T> {
        Report { kind: (kind as u8).into(), code: code as u8, rest }
    }
}

impl<T: MessageType> Report<T> {
    /// What the node before left to say about a packet.
    pub fn left(row: &Row) -> Report<T> {
        let report = row.scratch.read();
        debug_assert!(report.is_some(), "a packet without a report");
        report.unwrap_or(Report { kind: T::UNREACHABLE, code: 0, rest: 0 })
    }
}

/// Why the packet is dropped that a report is about, by a node's table of what it sends.
pub fn reason_of<T, E>(sent: &[((T, u8), E)], report: Report<T>) -> E
where
    T: Copy + PartialEq + fmt::Debug,
    E: Copy,
{
    let known = sent.iter().find(|(message, _)| *message == (report.kind, report.code));
    debug_assert!(known.is_some(), "{report:?} has no name");
    known.unwrap_or(&sent[0]).1
}

/// How many bytes of a packet, from its IP header on, are there to be quoted; `most` at most.
pub fn quoted(cx: &Context<'_>, row: &Row, most: usize) -> usize {
    let here = (row.first_length(cx.buffers) + row.l2 as usize).saturating_sub(row.l3 as usize);
    here.min(most)
}

/// The label that led a packet here, if one did, with as many hops as a label can have: an error about it goes where
/// that led.
pub fn label_of(cx: &Context<'_>, row: &Row) -> Option<StackEntry> {
    let is_behind = row.flags & BEHIND_LABEL != 0;
    let at = usize::from(row.l3).checked_sub(ENTRY_LEN).filter(|_| is_behind)?;
    let entry =
        StackEntry::from_bytes(*cx.buffers.bytes(row.packet)[at..].first_chunk().expect("there is room behind it"));
    Some(StackEntry::new(entry.label(), entry.traffic_class(), true, u8::MAX))
}

/// Puts a label before a message that begins a packet.
pub fn put_label(cx: &mut Context<'_>, row: &mut Row, label: StackEntry) {
    row.l3 -= ENTRY_LEN as u16;
    row.l2 = row.l3;
    row.length += ENTRY_LEN as u16;
    row.target = label.0;
    row.flags &= !(check::ALL | BEHIND_LABEL);
    let at = row.l3 as usize;
    cx.buffers.bytes_mut(row.packet)[at..at + ENTRY_LEN].copy_from_slice(&label.to_bytes());
}

/// Lets go of what is behind a packet's first buffer.
pub fn keep_first_buffer(cx: &mut Context<'_>, row: &mut Row) {
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
