//! A fragment, as far as its datagram needs to know it.
//!
//! The families differ here. In IPv4 the header says where the data belongs (RFC 791 section 3.1). In IPv6 an extension
//! header says it, which follows the headers that every fragment repeats (RFC 8200 section 4.5).

use super::node::{BEYOND, Edge, UNEVEN, edge6};
use drivers::Chain;
use graph::buffer::DATA_SIZE;
use graph::{Buffers, EdgeIndex, Row, flag};
use router::ip::control::TableIndex;
pub use router::reply::report6::Report;
use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;
use wire::Family;
use wire::icmpv6::parameter_problem;
use wire::{ipv4, ipv6};

/// The longest datagram, header included. This router has no longer packets. IPv6 would allow the header in addition.
pub const MAX_DATAGRAM: usize = u16::MAX as usize;
/// Bytes before a fragment's data that are kept. In IPv6 this includes extension headers: senders need no more than 80
/// bytes of them there, and a buffer still has room for an ICMPv6 error before them.
pub const MAX_HEADER: usize = ipv6::HEADER_LEN + 80 + ipv6::FRAGMENT_HEADER_LEN;
const _: () = assert!(MAX_HEADER >= ipv4::MAX_HEADER_LEN);
const UNIT: usize = ipv6::UNIT;
/// The congestion field within a traffic class (RFC 3168 section 5).
pub const ECN: u8 = 3;

/// The key that the fragments of one datagram have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key {
    /// Datagrams in other tables may have the same addresses.
    pub table: TableIndex,
    pub source: IpAddr,
    pub destination: IpAddr,
    pub identification: u32,
    /// Only in IPv4 (RFC 791 section 3.2; RFC 8200 section 4.5).
    pub protocol: Option<u8>,
}

impl Key {
    /// The source to whose share of the limits it counts. An IPv6 host can have any number of addresses in its network,
    /// so the network counts.
    pub fn sharer(&self) -> IpAddr {
        match self.source {
            IpAddr::V4(_) => self.source,
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() >> 64 << 64).into(),
        }
    }
}

/// A part that has arrived, in bytes of the datagram's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub start: u32,
    pub end: u32,
}

/// A fragment that was checked.
pub struct Fragment {
    pub key: Key,
    pub chain: Chain,
    /// Bytes of its network header; in IPv6 with all extension headers up to the fragment header.
    pub header: usize,
    /// In IPv6, the offset of the byte in this header that names the fragment header.
    pub named_at: usize,
    /// Bytes from its link header to its data.
    pub from: usize,
    pub part: Part,
    pub is_last: bool,
    /// A bit for its congestion codepoint.
    pub ecn: u8,
}

/// Why a fragment is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// It leaves by this edge.
    End(EdgeIndex),
    /// Its sender gets a report, and this counter counts it.
    Tell { report: Report, counter: usize },
}

impl From<Edge> for Refusal {
    fn from(edge: Edge) -> Refusal {
        Refusal::End(edge.into())
    }
}

impl Fragment {
    pub fn examine(family: Family, buffers: &Buffers, table: TableIndex, row: &Row) -> Result<Fragment, Refusal> {
        match family {
            Family::Ip4 => Fragment::of_ip4(buffers, table, row).ok_or(Edge::Malformed.into()),
            Family::Ip6 => Fragment::of_ip6(buffers, table, row),
        }
    }

    /// `None` when the fragment is not valid. `ip4-input` has already checked most of this.
    fn of_ip4(buffers: &Buffers, table: TableIndex, row: &Row) -> Option<Fragment> {
        use ipv4::{HEADER_LEN, Header};
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
        // A fragment with work left to the device is refused, because it is not defined what that means for a fragment.
        let is_odd = !is_last && !data.is_multiple_of(UNIT);
        if is_odd || start + data + HEADER_LEN > MAX_DATAGRAM || row.flags & flag::OFFLOAD != 0 {
            return None;
        }
        let key = Key {
            table,
            source: header.src().into(),
            destination: header.dst().into(),
            identification: header.id().into(),
            protocol: Some(header.protocol().0),
        };
        let part = Part { start: start as u32, end: (start + data) as u32 };
        let ecn = 1 << header.ecn();
        Some(Fragment { key, header: length, named_at: 0, from: l3 + length, part, is_last, ecn, chain })
    }

    /// `ip6-local` has already read the headers.
    fn of_ip6(buffers: &Buffers, table: TableIndex, row: &Row) -> Result<Fragment, Refusal> {
        use ipv6::{FRAGMENT_HEADER_LEN, HEADER_LEN, Header};
        let malformed = || Refusal::from(Edge::Malformed);
        let chain = Chain::of(buffers, row).ok_or_else(malformed)?;
        let l3 = row.l3.checked_sub(row.l2).ok_or_else(malformed)? as usize;
        let bytes = chain.head(buffers).get(l3..).filter(|bytes| bytes.len() >= HEADER_LEN).ok_or_else(malformed)?;
        let header = Header::new_unchecked(bytes);
        let extensions = ipv6::Chain::walk(header.next_header(), &bytes[HEADER_LEN..]).map_err(|_| malformed())?;
        let ipv6::FragmentHeader { at, named_at, fragment } = extensions.fragment.ok_or_else(malformed)?;
        let length = HEADER_LEN + at + FRAGMENT_HEADER_LEN;
        let total = HEADER_LEN + header.payload_len() as usize;
        if total <= length || total > row.l3_length() || row.flags & flag::OFFLOAD != 0 {
            return Err(malformed());
        }
        let (start, data) = (fragment.offset as usize, total - length);
        let tell = |at: usize, counter: usize| {
            let report = Report::parameter_problem(parameter_problem::ERRONEOUS_FIELD, at as u32);
            Err(Refusal::Tell { report, counter })
        };
        if fragment.more && !data.is_multiple_of(UNIT) {
            return tell(PAYLOAD_LENGTH_AT, UNEVEN);
        }
        if at + start + data > u16::MAX as usize {
            return tell(HEADER_LEN + at + OFFSET_AT, BEYOND);
        }
        if length > MAX_HEADER {
            return Err(Refusal::End(edge6::Edge::Headers.into()));
        }
        let key = Key {
            table,
            source: header.src().into(),
            destination: header.dst().into(),
            identification: fragment.id,
            protocol: None,
        };
        let part = Part { start: start as u32, end: (start + data) as u32 };
        Ok(Fragment {
            key,
            header: length,
            named_at: named_at.map_or(NEXT_HEADER_AT, |at| HEADER_LEN + at),
            from: l3 + length,
            part,
            is_last: !fragment.more,
            ecn: 1 << (header.traffic_class() & ECN),
            chain,
        })
    }

    pub fn length(&self) -> usize {
        (self.part.end - self.part.start) as usize
    }

    /// The datagram's buffers that contain its data.
    pub fn windows(&self) -> RangeInclusive<usize> {
        self.part.start as usize / DATA_SIZE..=(self.part.end as usize - 1) / DATA_SIZE
    }
}

/// Offsets of fields in an IPv6 header (RFC 8200 section 3), and in a fragment header.
const PAYLOAD_LENGTH_AT: usize = 4;
const NEXT_HEADER_AT: usize = 6;
const OFFSET_AT: usize = 2;
