//! Where the transport header of a packet to this router stands, and between whom: of either family.

use graph::{Context, Row};
use std::net::IpAddr;
use wire::checksum::{pseudo_header4, pseudo_header6};
use wire::ipv4::{self, Protocol};
use wire::{Family, ipv6};

pub(super) struct Transport {
    pub source: IpAddr,
    pub destination: IpAddr,
    /// Where its header begins, counted from the start of the packet's first buffer.
    pub start: usize,
    /// Bytes of header and data, in the first buffer and in all.
    pub here: usize,
    pub whole: usize,
}

impl Transport {
    /// That of a packet, which begins so many bytes behind `l3`.
    pub fn behind(family: Family, cx: &Context<'_>, row: &Row, headers: usize) -> Transport {
        let l3 = row.l3 as usize;
        let bytes = &cx.buffers.bytes(row.packet)[l3..];
        let (source, destination) = match family {
            Family::Ip4 => {
                let ip = ipv4::Header::new_unchecked(bytes);
                (ip.src().into(), ip.dst().into())
            }
            Family::Ip6 => {
                let ip = ipv6::Header::new_unchecked(bytes);
                (ip.src().into(), ip.dst().into())
            }
        };
        let start = l3 + headers;
        let here = (row.first_length(cx.buffers) + row.l2 as usize).saturating_sub(start);
        Transport { source, destination, start, here, whole: row.l3_length().saturating_sub(headers) }
    }

    /// The sum of what the checksum of so many bytes begins with.
    pub fn pseudo_header(&self, protocol: Protocol, length: usize) -> u32 {
        pseudo_header(self.source, self.destination, protocol, length)
    }
}

/// The same between two hosts, of one family.
pub(super) fn pseudo_header(source: IpAddr, destination: IpAddr, protocol: Protocol, length: usize) -> u32 {
    match (source, destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => pseudo_header4(source, destination, protocol.0, length as u16),
        (IpAddr::V6(source), IpAddr::V6(destination)) => pseudo_header6(source, destination, protocol.0, length as u32),
        _ => unreachable!("a packet's addresses are of one family"),
    }
}
