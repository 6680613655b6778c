//! The contents and the headers of a reset to a TCP segment.

use super::transport::pseudo_header;
use crate::icmp::OUR_TTL;
use crate::ip6::OUR_HOP_LIMIT;
use std::net::IpAddr;
use wire::ipv4::{self, Protocol};
use wire::ipv6;
use wire::tcp::{self, Flags};

/// The fields of a segment that its reset depends on.
pub(super) struct Segment {
    source: u16,
    destination: u16,
    sequence: u32,
    acknowledged: u32,
    pub flags: Flags,
    /// RFC 9293's SEG.LEN: the data, SYN and FIN.
    length: u32,
}

impl Segment {
    /// The fields of a segment with `data` bytes of data.
    pub fn new(header: tcp::Header<&[u8]>, data: usize) -> Segment {
        let flags = header.flags();
        let controls = u32::from(flags.contains(Flags::SYN)) + u32::from(flags.contains(Flags::FIN));
        Segment {
            source: header.src_port(),
            destination: header.dst_port(),
            sequence: header.seq(),
            acknowledged: header.ack(),
            flags,
            length: data as u32 + controls,
        }
    }

    /// Writes the reset into `bytes`, which it fills.
    pub fn emit_reset(&self, bytes: &mut [u8], us: IpAddr, sender: IpAddr) {
        // RFC 9293 3.10.7.1: the reset must be acceptable to the sender of the segment.
        let (sequence, acknowledged, flags) = if self.flags.contains(Flags::ACK) {
            (self.acknowledged, 0, Flags::RST)
        } else {
            (0, self.sequence.wrapping_add(self.length), Flags(Flags::RST.0 | Flags::ACK.0))
        };
        bytes.fill(0);
        bytes[12] = (tcp::HEADER_LEN as u8 / 4) << 4;
        let mut header = tcp::Header::new_unchecked(bytes);
        header.set_src_port(self.destination);
        header.set_dst_port(self.source);
        header.set_seq(sequence);
        header.set_ack(acknowledged);
        header.set_flags(flags);
        header.fill_checksum(pseudo_header(us, sender, Protocol::TCP, tcp::HEADER_LEN));
    }
}

/// Writes the IP header of a reset.
pub(super) fn emit_ip(bytes: &mut [u8], us: IpAddr, sender: IpAddr) {
    match (us, sender) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => ipv4::Repr {
            src,
            dst,
            protocol: Protocol::TCP,
            ttl: OUR_TTL,
            dscp: 0,
            ecn: 0,
            // The packet is never fragmented, so it needs no identification (RFC 6864 4.1).
            id: 0,
            dont_fragment: true,
            more_fragments: false,
            fragment_offset: 0,
            payload_len: tcp::HEADER_LEN as u16,
        }
        .emit(bytes),
        (IpAddr::V6(src), IpAddr::V6(dst)) => ipv6::Repr {
            src,
            dst,
            next_header: Protocol::TCP,
            hop_limit: OUR_HOP_LIMIT,
            traffic_class: 0,
            flow_label: 0,
            payload_len: tcp::HEADER_LEN as u16,
        }
        .emit(bytes),
        _ => unreachable!("a segment's addresses are of one family"),
    }
}
