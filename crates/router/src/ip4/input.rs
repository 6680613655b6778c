//! `ip4-input`: acts on what the header pass found; touches no packet that is plain.
//!
//! Reads: check bits in `flags`. Writes: for packets that came without a link header or
//! with options, the same facts that `ethernet-input` writes for the others. Next:
//! `ip4-lookup`, or a drop by name (RFC 1812 5.2.2).

use graph::{Context, CounterTable, Map, NodeSpec, Vector, flag};
use std::sync::Arc;
use wire::batch::check;
use wire::ipv4::{self, ParseError};

graph::edges! {
    pub enum Edge {
        Lookup => next "ip4-lookup",
        TooShort => drop "ip4 length < 20",
        BadVersion => drop "ip4 version != 4",
        BadHeaderLength => drop "ip4 header length < 20 or beyond the packet",
        BadTotalLength => drop "ip4 length > l2 length",
        BadChecksum => drop "bad ip4 checksum",
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-input".into(), edges: Edge::EDGES, counters: &[], trace: crate::headers::trace_ip4 }
}

pub struct Ip4Input {
    /// IPv4 packets, by receiving interface.
    ip4: Arc<CounterTable>,
}

impl Ip4Input {
    pub fn new(ip4: Arc<CounterTable>) -> Ip4Input {
        Ip4Input { ip4 }
    }

    fn count(&self, cx: &Context<'_>, vector: &Vector) {
        match vector.one_rx_interface() {
            Some(rx) => self.ip4.add(cx.thread, rx.0 as usize, 0, vector.len() as u64),
            None => {
                for rx in vector.rx_interfaces() {
                    self.ip4.add(cx.thread, rx.0 as usize, 0, 1);
                }
            }
        }
    }
}

/// Faults that the header pass is sure of.
const FAULTS: u32 = check::SHORT | check::VERSION | check::HEADER_LENGTH | check::TOTAL_LENGTH | check::CHECKSUM;

impl Map for Ip4Input {
    #[inline]
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        self.count(cx, vector);
        if vector.any_flags() & FAULTS == 0 && vector.common_flags() & check::EXAMINED != 0 {
            return vector.set_edges(Edge::Lookup.into());
        }
        for i in 0..vector.len() {
            let flags = vector.row(i).flags;
            let plain = flags & check::EXAMINED != 0 && flags & FAULTS == 0;
            let to = if plain { Edge::Lookup } else { examine(cx, vector, i) };
            vector.set_edge(i, to.into());
        }
    }
}

/// Looks at one header in full: faults are told apart, options are let pass.
fn examine(cx: &mut Context<'_>, vector: &mut Vector, i: usize) -> Edge {
    let mut row = vector.row(i);
    let available = row.first_length(cx.buffers).saturating_sub((row.l3 - row.l2) as usize);
    let whole = row.l3_length();
    let bytes = cx.buffers.bytes(row.packet);
    let start = (row.l3 as usize).min(bytes.len());
    let bytes = &bytes[start..(start + available).min(bytes.len())];
    if bytes.len() < ipv4::HEADER_LEN {
        return Edge::TooShort;
    }
    let total = u16::from_be_bytes([bytes[2], bytes[3]]) as usize;
    // A chained packet's bytes are not all here: the parser sees the header only.
    let header_length = (bytes[0] & 0xf) as usize * 4;
    let visible =
        if total > bytes.len() && total <= whole { header_length.clamp(20, bytes.len()) } else { bytes.len() };
    let fault = match ipv4::Header::new_checked(&bytes[..visible]) {
        Ok(_) => None,
        Err(ParseError::TotalLengthBeyondData { .. }) if total <= whole => None,
        Err(error) => Some(error),
    };
    match fault {
        None => {}
        Some(ParseError::Truncated { .. }) => return Edge::TooShort,
        Some(ParseError::Version(_)) => return Edge::BadVersion,
        Some(ParseError::HeaderLengthTooSmall { .. } | ParseError::HeaderBeyondData { .. }) => {
            return Edge::BadHeaderLength;
        }
        Some(ParseError::TotalLengthBelowHeader { .. } | ParseError::TotalLengthBeyondData { .. }) => {
            return Edge::BadTotalLength;
        }
    }
    let header = ipv4::Header::new_unchecked(bytes);
    if !header.verify_checksum() {
        return Edge::BadChecksum;
    }
    row.target = header.dst().into();
    row.flags = row.flags & !check::ALL | (row.flags & (check::GROUP | check::OTHER_STATION)) | check::EXAMINED;
    if header.ttl() <= 1 {
        row.flags |= check::TTL;
    }
    if header.is_fragment() {
        row.flags |= check::FRAGMENT;
    }
    if row.flags & flag::CHAINED == 0 {
        row.length = row.l3 - row.l2 + header.total_len();
    }
    vector.set_row(i, row);
    Edge::Lookup
}
