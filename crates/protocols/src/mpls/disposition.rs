//! `ip4-mpls-label-disposition-pipe`, `-uniform`, and the same for IPv6: remove the last label and check the packet
//! inside.
//!
//! The node makes the checks of a received IP packet (RFC 3031 3.10, RFC 1812 5.2.2), unless `ethernet-input` has found
//! all packets to be ordinary. In the uniform model the packet takes over the label's time to live, if that is less,
//! and its traffic class (RFC 3443 5.4).
//!
//! Reads: `target` (the label's leaf), the label and the header behind it. Writes: `l3`, check bits; `target`, the
//! adjacency or the destination; `table`, for packets to be looked up in another table than their interface's. Next:
//! `ip4-rewrite` with packets that the label sends to a next hop; `ip4-lookup` with packets to look up, through
//! `ip4-input` if there is more to check.

use crate::ip4::input::bad_fragment;
use graph::vector::one_value;
use graph::{Context, EdgeSpec, Lazy, Map, NodeSpec, Row, VECTOR_SIZE, Vector, flag};
use router::headers::visible;
use router::interface::{SharedViews, ViewTable};
use router::ip::adjacency::object_of;
use router::ip::class;
use router::ip::labels::pop;
pub use router::reply::marks::{BEHIND_LABEL, REDIRECTED};
use router::table_index::mark_of;
use tables::Leaf;
use wire::batch::{self, Before, Columns6, EthernetColumns, Frames, check};
use wire::mpls::ENTRY_LEN;
use wire::{Family, ipv4, ipv6};

graph::edges! {
    pub enum Edge {
        Rewrite => next "ip4-rewrite",
        Lookup => next "ip4-lookup",
        Input => next "ip4-input",
        /// The IPv4 header behind the last label is invalid: its version, its lengths or its checksum (RFC 1812
        /// 5.2.2). The router that added the label, or another router on the path, is at fault, or the packet has the
        /// wrong label.
        Unsound => warn "ip4 header behind the label is unsound",
        /// The source or destination of the packet behind the label is an address that no host can have (RFC 1812
        /// 5.3.7), or the destination is a multicast group.
        NoHost => warn "ip4 address behind the label is no host's",
    }
}

/// The same for IPv6, in the same order.
mod edge6 {
    graph::edges! {
        pub enum Edge like super::Edge {
            Rewrite => next "ip6-rewrite",
            Lookup => next "ip6-lookup",
            Input => next "ip6-input",
            /// The IPv6 header behind the last label is invalid: its version or its length (RFC 8200 3). The router
            /// that added the label, or another router on the path, is at fault, or the packet has the wrong label.
            Unsound => warn "ip6 header behind the label is unsound",
            /// The source or destination of the packet behind the label is an address that no host can have, or that
            /// is valid on one link only (RFC 4291 2.5).
            NoHost => warn "ip6 address behind the label is no host's",
        }
    }
}

pub fn spec(family: Family, is_uniform: bool) -> NodeSpec {
    let (word, edges): (_, &[EdgeSpec]) = match family {
        Family::Ip4 => ("ip4", Edge::EDGES),
        Family::Ip6 => ("ip6", edge6::Edge::EDGES),
    };
    let model = if is_uniform { "uniform" } else { "pipe" };
    let name = format!("{word}-mpls-label-disposition-{model}");
    NodeSpec { name, edges, counters: &[], trace: router::headers::trace_of(family) }
}

pub struct Disposition {
    family: Family,
    is_uniform: bool,
    view: SharedViews,
}

impl Disposition {
    pub fn new(family: Family, is_uniform: bool, view: SharedViews) -> Disposition {
        Disposition { family, is_uniform, view }
    }

    /// Bytes of the shortest header of the family.
    fn header_length(&self) -> usize {
        match self.family {
            Family::Ip4 => ipv4::HEADER_LEN,
            Family::Ip6 => ipv6::HEADER_LEN,
        }
    }
}

/// The bits of a header that is not valid.
const UNSOUND: u32 = check::SHORT | check::VERSION | check::TOTAL_LENGTH | check::CHECKSUM;
const NO_HOST: u32 = check::MARTIAN_SOURCE | check::SPECIAL_DESTINATION;
const REMARKABLE: u32 = UNSOUND | NO_HOST | check::HEADER_LENGTH | check::FRAGMENT | check::CHAINED;

impl Map for Disposition {
    #[inline]
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let one = one_value(vector.targets()).map(Leaf);
        // The label decides the path, so the sender gets no redirect to a better next hop.
        let is_behind = one.is_some_and(pop::is_by_adjacency);
        let marks = REDIRECTED | if is_behind { BEHIND_LABEL } else { 0 };
        let is_examined = vector.common_flags() & check::EXAMINED != 0;
        let columns = vector.columns();
        for (flags, l3) in columns.flags.iter_mut().zip(columns.l3.iter_mut()) {
            *flags = *flags & !check::ALL | marks;
            *l3 = l3.wrapping_add(ENTRY_LEN as u16);
        }
        let view = self.view.load(cx.round);
        let mut found = [0; VECTOR_SIZE];
        if is_examined
            && !self.is_uniform
            && self.family == Family::Ip4
            && let Some(leaf) = one
        {
            columns.flags.iter_mut().for_each(|flags| *flags |= check::EXAMINED);
            if !pop::is_by_adjacency(leaf) {
                destinations(cx, vector, &mut found);
            }
            return self.all(vector, leaf, view, &found);
        }
        if self.is_uniform {
            self.take_over(cx, vector);
        }
        let faults = self.examine(cx, vector, &mut found);
        if (faults | vector.any_flags()) & REMARKABLE == 0
            && let Some(leaf) = one
        {
            return self.all(vector, leaf, view, &found);
        }
        for (i, found) in found.into_iter().enumerate().take(vector.len()) {
            let mut row = vector.row(i);
            let to = self.one(cx, &mut row, view, found);
            vector.set_row(i, row);
            vector.set_edge(i, to.into());
        }
    }
}

/// The destinations of IPv4 packets.
fn destinations(cx: &mut Context<'_>, vector: &mut Vector, found: &mut [u32]) {
    let (frames, _) = vector.l3_frames(cx.buffers);
    for (i, found) in found.iter_mut().enumerate().take(frames.len()) {
        *found = u32::from_be_bytes(*frames.bytes(i)[16..].first_chunk().expect("64 bytes are there"));
    }
}

/// The bytes before the network headers of all packets, if they are the same and the kernels know them.
fn before_all(vector: &mut Vector) -> Option<Before> {
    let columns = vector.columns();
    let (begin, end) = (one_value(columns.l2)?, one_value(columns.l3)?);
    Before::of(end.wrapping_sub(begin)).filter(|before| *before != Before::Nothing)
}

/// Bytes from the network header on, of a packet with so many from its link header on.
fn own_length(length: u16, l2: u16, l3: u16) -> u16 {
    let end = u32::from(length) + u32::from(l2);
    end.saturating_sub(l3.into()).min(u16::MAX.into()) as u16
}

impl Disposition {
    /// Checks the headers behind the labels: sets check bits and lengths without padding, and reads the destinations of
    /// IPv4. Returns the union of all faults.
    #[inline]
    fn examine(&self, cx: &mut Context<'_>, vector: &mut Vector, found: &mut [u32]) -> u32 {
        if let Some(before) = before_all(vector) {
            let all = 0..vector.len();
            let (frames, sides) = vector.l2_frames(cx.buffers, all);
            return self.judge_all(&frames, before, sides.flags, sides.length, found);
        }
        // Lengths from the headers on.
        let mut lengths = [0; VECTOR_SIZE];
        let columns = vector.columns();
        let ends = columns.length.iter().zip(columns.l2.iter()).zip(columns.l3.iter());
        for (own, ((length, l2), l3)) in lengths.iter_mut().zip(ends) {
            *own = own_length(*length, *l2, *l3);
        }
        let lengths = &mut lengths[..vector.len()];
        let (frames, sides) = vector.l3_frames(cx.buffers);
        let faults = self.judge_all(&frames, Before::Nothing, sides.flags, lengths, found);
        let columns = vector.columns();
        let begins = columns.l2.iter().zip(columns.l3.iter());
        for (length, (own, (l2, l3))) in columns.length.iter_mut().zip(lengths.iter().zip(begins)) {
            *length = own.wrapping_add(*l3).wrapping_sub(*l2);
        }
        faults
    }

    #[inline]
    fn judge_all(
        &self,
        frames: &Frames<'_>,
        before: Before,
        flags: &mut [u32],
        length: &mut [u16],
        target: &mut [u32],
    ) -> u32 {
        match self.family {
            Family::Ip4 => batch::ip4_headers(frames, before, EthernetColumns { flags, length, target }),
            Family::Ip6 => batch::ip6_headers(frames, before, Columns6 { flags, length }),
        }
    }

    /// In the uniform model, copies the labels' time to live and traffic class into the headers behind them.
    fn take_over(&self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let row = vector.row(i);
            if visible(cx, &row).len() < self.header_length() {
                continue;
            }
            let at = row.l3 as usize;
            let entry = cx.buffers.bytes(row.packet)[at - ENTRY_LEN..].first_chunk().expect("the label was there");
            let entry = u32::from_be_bytes(*entry);
            let (mut frames, _) = vector.l3_frames(cx.buffers);
            frames.copy_from_label(i, self.family == Family::Ip6, entry);
        }
    }

    /// Handles ordinary packets with the same leaf.
    #[inline]
    fn all(&self, vector: &mut Vector, leaf: Leaf, view: &ViewTable, found: &[u32]) {
        let one_rx = vector.one_rx_interface();
        let columns = vector.columns();
        if pop::is_by_adjacency(leaf) {
            columns.target.fill(Leaf::new(class::ADJACENCY, object_of(leaf)).0);
            return vector.set_edges(Edge::Rewrite.into());
        }
        if let Some(table) = pop::table_of(leaf)
            && one_rx.is_none_or(|rx| view.table_of(self.family, rx) != table)
        {
            vector.lazy_mut(Lazy::Table).fill(mark_of(table));
        }
        let columns = vector.columns();
        if self.family == Family::Ip4 {
            columns.target.copy_from_slice(&found[..columns.target.len()]);
        }
        vector.set_edges(Edge::Lookup.into());
    }

    /// Handles one packet, with all special cases.
    fn one(&self, cx: &Context<'_>, row: &mut Row, view: &ViewTable, found: u32) -> Edge {
        let leaf = Leaf(row.target);
        if visible(cx, row).len() < self.header_length() {
            return Edge::Unsound;
        }
        let is_plain = row.flags & REMARKABLE == 0;
        if pop::is_by_adjacency(leaf) {
            if !is_plain {
                match self.judge(cx, row) {
                    Edge::Rewrite => {}
                    fault => return fault,
                }
            }
            row.target = Leaf::new(class::ADJACENCY, object_of(leaf)).0;
            row.flags |= BEHIND_LABEL;
            return Edge::Rewrite;
        }
        if let Some(table) = pop::table_of(leaf)
            && view.table_of(self.family, row.rx_interface) != table
        {
            row.set_lazy(Lazy::Table, mark_of(table));
        }
        // `ip4-input` or `ip6-input` makes the remaining checks.
        if !is_plain {
            row.flags &= !check::ALL;
            return Edge::Input;
        }
        if self.family == Family::Ip4 {
            row.target = found;
        }
        Edge::Lookup
    }

    /// Checks whether a header that is not ordinary is nevertheless valid.
    fn judge(&self, cx: &Context<'_>, row: &mut Row) -> Edge {
        let whole = row.l3_length();
        let bytes = visible(cx, row);
        let is_sound = match self.family {
            Family::Ip4 => {
                let is_sound = match ipv4::Header::new_checked(bytes) {
                    // The bytes of a chained packet are not all in this buffer.
                    Ok(_) => true,
                    Err(ipv4::ParseError::TotalLengthBeyondData { total_len, .. }) => usize::from(total_len) <= whole,
                    Err(_) => false,
                };
                is_sound && ipv4::Header::new_unchecked(bytes).verify_checksum()
            }
            Family::Ip6 => match ipv6::Header::new_checked(bytes) {
                Ok(_) => true,
                Err(ipv6::ParseError::PayloadBeyondData { payload_len, .. }) => {
                    ipv6::HEADER_LEN + usize::from(payload_len) <= whole
                }
                Err(_) => false,
            },
        };
        if !is_sound {
            return Edge::Unsound;
        }
        let is_ip4 = self.family == Family::Ip4;
        if is_ip4 && row.flags & check::FRAGMENT != 0 && bad_fragment(cx, row).is_some() {
            return Edge::Unsound;
        }
        if row.flags & NO_HOST != 0 {
            return Edge::NoHost;
        }
        if is_ip4 && row.flags & flag::CHAINED == 0 {
            // With options, the header pass did not remove the padding.
            row.length = row.l3 - row.l2 + ipv4::Header::new_unchecked(bytes).total_len();
        }
        Edge::Rewrite
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_packets_have_a_length_behind_their_labels() {
        assert_eq!(own_length(100, 128, 146), 82);
        // Its end is beyond what 16 bits count.
        assert_eq!(own_length(65_300, 256, 274), 65_282);
        assert_eq!(own_length(4, 128, 146), 0);
    }
}
