//! Finishing in software what a device cannot: checksums that are only begun, and packets
//! that are longer than the wire takes.
//!
//! What is to be finished is in the [`Offload`](graph::buffer::Offload) of the packet's
//! first segment, in offsets from the network header: the row's `l3` must be at it. A
//! device sets `l3` at the link header when it receives; `ethernet-input` moves it.

use crate::chain::{Chain, link};
use graph::buffer::{DATA_SIZE, HEADROOM, Offload, Segmentation};
use graph::{Buffers, PacketIndex, Row, flag};
use wire::checksum::{self, Accumulator};
use wire::ipv4::{self, Protocol};
use wire::{tcp, udp};

/// Most buffers that one packet may be cut into: 64 KiB in segments of 32 bytes. A sender
/// that asks for smaller ones means harm.
const MAX_BUFFERS: usize = 2048;

/// Why a packet could not be finished.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OffloadError {
    #[error("the packet is not what its offload says")]
    Malformed,
    #[error("the packet would be cut into too many segments")]
    TooManySegments,
    #[error("no free buffer")]
    NoBuffer,
}

/// Completes a partial checksum: the one's complement of the sum from `checksum_start` to
/// the end of the packet, where the checksum's own field holds the pseudo header's sum.
///
/// # Errors
/// When the checksum's place is not within the first buffer.
pub fn finish_checksum(buffers: &mut Buffers, row: &mut Row) -> Result<(), OffloadError> {
    let offload = buffers.segment(row.packet).offload;
    write_checksum(buffers, row, offload).ok_or(OffloadError::Malformed)?;
    row.flags &= !flag::PARTIAL_CHECKSUM;
    Ok(())
}

fn write_checksum(buffers: &mut Buffers, row: &Row, offload: Offload) -> Option<()> {
    let chain = Chain::of(buffers, row)?;
    let start = row.l3.checked_sub(row.l2)? as usize + offload.checksum_start as usize;
    let field = start + offload.checksum_offset as usize;
    let head = chain.head(buffers);
    if field + 2 > head.len() {
        return None;
    }
    let mut sum = Accumulator::default();
    sum.add(&head[start..]);
    chain.slices(buffers).skip(1).for_each(|slice| sum.add(slice));
    // Zero means "none" in UDP (RFC 768); its other form verifies everywhere.
    let checksum = match sum.checksum() {
        0 => 0xffff,
        checksum => checksum,
    };
    let at = row.l2 as usize + field;
    buffers.bytes_mut(row.packet)[at..at + 2].copy_from_slice(&checksum.to_be_bytes());
    Some(())
}

/// The headers of a packet that is to be cut, in bytes from its network header on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Headers {
    /// Where the TCP or UDP header starts.
    pub transport: usize,
    /// Where the payload starts.
    pub length: usize,
    /// Where the packet ends, by its own account.
    pub end: usize,
    pub is_ip6: bool,
    pub is_udp: bool,
}

const IP6_HEADER_LEN: usize = 40;
/// Extension headers that may come before TCP or UDP in a packet that is to be cut
/// (RFC 8200, section 4): hop-by-hop and destination options. With a routing header the
/// pseudo header would have another destination.
const IP6_OPTIONS: [u8; 2] = [0, 60];
const MAX_IP6_OPTIONS: usize = 4;

impl Headers {
    /// Headers of the kind that is to be cut, if `packet` starts with such.
    pub fn parse(kind: Segmentation, packet: &[u8]) -> Option<Headers> {
        let is_udp = kind == Segmentation::Udp4;
        let is_ip6 = match (kind, packet.first()? >> 4) {
            (Segmentation::Tcp4 | Segmentation::Tcp4Ecn | Segmentation::Udp4, 4) => false,
            (Segmentation::Tcp6 | Segmentation::Udp4, 6) => true,
            _ => return None,
        };
        let (transport, end, protocol) = if is_ip6 { ip6(packet)? } else { ip4(packet)? };
        let expected = if is_udp { Protocol::UDP } else { Protocol::TCP };
        let rest = packet.get(transport..)?;
        let transport_length = match is_udp {
            true if rest.len() >= udp::HEADER_LEN => udp::HEADER_LEN,
            true => return None,
            false => tcp::Header::new_checked(rest).ok()?.header_len(),
        };
        let length = transport + transport_length;
        (protocol == expected && length <= end).then_some(Headers { transport, length, end, is_ip6, is_udp })
    }

    /// Where the checksum is in the transport header.
    pub fn checksum_offset(&self) -> usize {
        if self.is_udp { 6 } else { 16 }
    }
}

/// Where the transport header starts, where the packet ends, and the protocol.
fn ip4(packet: &[u8]) -> Option<(usize, usize, Protocol)> {
    let header = ipv4::Header::new_unchecked(packet.get(..ipv4::HEADER_LEN)?);
    let start = header.header_len();
    (start >= ipv4::HEADER_LEN && !header.is_fragment()).then_some((
        start,
        header.total_len().into(),
        header.protocol(),
    ))
}

fn ip6(packet: &[u8]) -> Option<(usize, usize, Protocol)> {
    let header: &[u8; IP6_HEADER_LEN] = packet.first_chunk()?;
    let end = IP6_HEADER_LEN + u16::from_be_bytes([header[4], header[5]]) as usize;
    let (mut at, mut next) = (IP6_HEADER_LEN, header[6]);
    for _ in 0..MAX_IP6_OPTIONS {
        if !IP6_OPTIONS.contains(&next) {
            break;
        }
        let &[following, units] = packet.get(at..at + 2)? else {
            return None;
        };
        at += (units as usize + 1) * 8;
        next = following;
    }
    Some((at, end, Protocol(next)))
}

/// Cuts a packet into segments of at most `segment_size` payload bytes, each complete with
/// checksums, and hands their rows to `emit`; says how many. The packet itself stays the
/// caller's, to be freed.
///
/// # Errors
/// When the packet is not what its offload says or buffers are short; then nothing was
/// emitted.
pub fn segment(buffers: &mut Buffers, row: &Row, emit: &mut dyn FnMut(Row)) -> Result<usize, OffloadError> {
    let cut = Cut::plan(buffers, row)?;
    let mut fresh = vec![PacketIndex::NONE; cut.buffers()];
    let got = buffers.allocate(&mut fresh);
    if got < fresh.len() {
        buffers.free(&fresh[..got]);
        return Err(OffloadError::NoBuffer);
    }
    let mut rest = &fresh[..];
    for number in 0..cut.segments {
        let (packets, others) = rest.split_at(cut.buffers_of(number));
        rest = others;
        emit(cut.make(buffers, row, number, packets));
    }
    Ok(cut.segments)
}

/// How a packet is going to be cut.
struct Cut {
    chain: Chain,
    headers: Headers,
    /// Bytes of link header, and of all headers.
    l3: usize,
    header_length: usize,
    payload: usize,
    segment_size: usize,
    segments: usize,
}

impl Cut {
    fn plan(buffers: &Buffers, row: &Row) -> Result<Cut, OffloadError> {
        let cut = Cut::checked(buffers, row).ok_or(OffloadError::Malformed)?;
        if cut.segments > MAX_BUFFERS || cut.buffers() > MAX_BUFFERS {
            return Err(OffloadError::TooManySegments);
        }
        Ok(cut)
    }

    fn checked(buffers: &Buffers, row: &Row) -> Option<Cut> {
        let Offload { kind, segment_size, .. } = buffers.segment(row.packet).offload;
        let chain = Chain::of(buffers, row)?;
        let l3 = row.l3.checked_sub(row.l2)? as usize;
        let headers = Headers::parse(kind, chain.head(buffers).get(l3..)?)?;
        let header_length = l3 + headers.length;
        let payload = headers.end - headers.length;
        if segment_size == 0 || l3 + headers.end > row.length as usize || header_length > DATA_SIZE {
            return None;
        }
        Some(Cut {
            chain,
            headers,
            l3,
            header_length,
            payload,
            segment_size: segment_size as usize,
            segments: payload.div_ceil(segment_size as usize).max(1),
        })
    }

    /// Payload bytes of a segment.
    fn payload_of(&self, number: usize) -> usize {
        (self.payload - number * self.segment_size).min(self.segment_size)
    }

    fn buffers_of(&self, number: usize) -> usize {
        (self.header_length + self.payload_of(number)).div_ceil(DATA_SIZE)
    }

    fn buffers(&self) -> usize {
        (self.segments - 1) * self.buffers_of(0) + self.buffers_of(self.segments - 1)
    }

    /// Writes a segment into `packets`.
    fn make(&self, buffers: &mut Buffers, whole: &Row, number: usize, packets: &[PacketIndex]) -> Row {
        let length = self.header_length + self.payload_of(number);
        self.copy(buffers, number, packets);
        link(buffers, packets, length);
        let trace = buffers.segment(whole.packet).trace;
        buffers.segment_mut(packets[0]).trace = trace;

        let l3 = HEADROOM + self.l3;
        let headers = &mut buffers.bytes_mut(packets[0])[l3..][..self.headers.length];
        self.rewrite(headers, number);

        let chained = if packets.len() > 1 { flag::CHAINED } else { 0 };
        let row = Row {
            packet: packets[0],
            flags: whole.flags & !(flag::OFFLOAD | flag::CHAINED) | chained,
            l2: HEADROOM as u16,
            l3: l3 as u16,
            length: length as u16,
            ..*whole
        };
        let offload = Offload {
            checksum_start: self.headers.transport as u16,
            checksum_offset: self.headers.checksum_offset() as u16,
            ..Offload::default()
        };
        write_checksum(buffers, &row, offload).expect("the headers are in the first buffer");
        row
    }

    /// Copies the headers and a segment's payload.
    fn copy(&self, buffers: &mut Buffers, number: usize, packets: &[PacketIndex]) {
        let head = self.header_length;
        self.chain.copy(buffers, 0, head, packets[0], HEADROOM);
        let mut from = head + number * self.segment_size;
        let mut rest = self.payload_of(number);
        let mut room = head..DATA_SIZE;
        for &packet in packets {
            let n = rest.min(room.len());
            self.chain.copy(buffers, from, n, packet, HEADROOM + room.start);
            (from, rest, room) = (from + n, rest - n, 0..DATA_SIZE);
        }
    }

    /// Makes copied headers a segment's own. The transport checksum is left as the pseudo
    /// header's sum.
    fn rewrite(&self, headers: &mut [u8], number: usize) {
        let (network, transport) = headers.split_at_mut(self.headers.transport);
        let size = transport.len() + self.payload_of(number);
        let pseudo_header =
            if self.headers.is_ip6 { self.rewrite_ip6(network, size) } else { self.rewrite_ip4(network, size, number) };
        let seed = checksum::fold(pseudo_header);
        if self.headers.is_udp {
            let mut header = udp::Header::new_unchecked(transport);
            header.set_length(size as u16);
            header.set_checksum(seed);
        } else {
            self.rewrite_tcp(transport, number, seed);
        }
    }

    fn protocol(&self) -> Protocol {
        if self.headers.is_udp { Protocol::UDP } else { Protocol::TCP }
    }

    /// RFC 6864, section 4: each segment may be fragmented on its way, so each has an
    /// identification of its own.
    fn rewrite_ip4(&self, network: &mut [u8], size: usize, number: usize) -> u32 {
        let total_len = (network.len() + size) as u16;
        let mut header = ipv4::Header::new_unchecked(network);
        header.set_total_len(total_len);
        header.set_id(header.id().wrapping_add(number as u16));
        header.fill_checksum();
        checksum::pseudo_header4(header.src(), header.dst(), self.protocol().0, size as u16)
    }

    /// RFC 8200, section 8.1: the pseudo header is both addresses, length and protocol.
    fn rewrite_ip6(&self, network: &mut [u8], size: usize) -> u32 {
        let payload_length = (network.len() - IP6_HEADER_LEN + size) as u16;
        network[4..6].copy_from_slice(&payload_length.to_be_bytes());
        let addresses = &network[8..IP6_HEADER_LEN];
        checksum::sum(addresses, size as u32 + u32::from(self.protocol().0))
    }

    /// FIN and PSH are for the last segment; CWR is for the first (RFC 3168, section 6.1.2).
    fn rewrite_tcp(&self, transport: &mut [u8], number: usize, seed: u16) {
        let mut header = tcp::Header::new_unchecked(transport);
        let passed = (number * self.segment_size) as u32;
        header.set_seq(header.seq().wrapping_add(passed));
        let mut flags = header.flags();
        if number > 0 {
            flags = flags.without(tcp::Flags::CWR);
        }
        if number + 1 < self.segments {
            flags = flags.without(tcp::Flags::FIN).without(tcp::Flags::PSH);
        }
        header.set_flags(flags);
        header.set_checksum(seed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_frames::{self as frames, packet, pseudo_header, sum, transport_frame, with_offload};
    use proptest::prelude::*;

    /// A packet that is to be cut, and its headers' and transport header's offsets.
    struct Sample {
        row: Row,
        transport: usize,
        headers: usize,
        payload: Vec<u8>,
    }

    fn sample(
        buffers: &mut Buffers,
        (ip6, udp, options): (bool, bool, bool),
        length: usize,
        size: u16,
        first: usize,
        cuts: &[usize],
    ) -> Sample {
        let payload: Vec<u8> = (0..length).map(|i| (i * 7 + i / 251) as u8).collect();
        let frame = transport_frame(ip6, udp, options, &payload);
        let transport = match (ip6, options) {
            (false, false) => 20,
            (false, true) => 24,
            (true, false) => 40,
            (true, true) => 48,
        };
        let headers = transport + if udp { 8 } else { 32 };
        let row = packet(buffers, &frame, 14 + headers + first, cuts);
        let offload = Offload {
            checksum_start: transport as u16,
            checksum_offset: if udp { 6 } else { 16 },
            segment_size: size,
            header_length: headers as u16,
            kind: match (ip6, udp) {
                (_, true) => Segmentation::Udp4,
                (false, false) => Segmentation::Tcp4Ecn,
                (true, false) => Segmentation::Tcp6,
            },
        };
        let row = with_offload(buffers, row, flag::OFFLOAD, offload);
        Sample { row, transport, headers, payload }
    }

    fn cut(buffers: &mut Buffers, row: &Row) -> Result<Vec<Row>, OffloadError> {
        let mut rows = Vec::new();
        let count = segment(buffers, row, &mut |row| rows.push(row))?;
        assert_eq!(count, rows.len());
        Ok(rows)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(150))]

        #[test]
        fn segments_are_complete_packets_that_make_up_the_original(
            what in any::<(bool, bool, bool)>(),
            length in prop_oneof![0usize..5000, 60_000usize..65_000],
            size in prop_oneof![300u16..2100, 4000u16..9000],
            first in 0usize..1800,
            cuts in prop::collection::vec(1900usize..2048, 1..4),
        ) {
            let mut buffers = frames::buffers();
            let sample = sample(&mut buffers, what, length, size, first, &cuts);
            let (ip6, udp, _) = what;
            let original = frames::bytes(&buffers, &sample.row);
            let rows = cut(&mut buffers, &sample.row).unwrap();
            let last = rows.len() - 1;
            prop_assert_eq!(rows.len(), length.div_ceil(size.into()).max(1));
            let mut payload = Vec::new();
            for (i, row) in rows.iter().enumerate() {
                prop_assert_eq!(row.flags & flag::OFFLOAD, 0);
                prop_assert_eq!(row.flags & flag::CHAINED != 0, row.length > 2048);
                prop_assert_eq!(row.l3 - row.l2, 14);
                let frame = frames::bytes(&buffers, row);
                prop_assert_eq!(&frame[..14], &original[..14]);
                let ip = &frame[14..];
                let transport = &ip[sample.transport..];
                let protocol = if udp { 17 } else { 6 };
                if ip6 {
                    prop_assert_eq!(u16::from_be_bytes([ip[4], ip[5]]) as usize, ip.len() - 40);
                } else {
                    prop_assert_eq!(u16::from_be_bytes([ip[2], ip[3]]) as usize, ip.len());
                    prop_assert_eq!(u16::from_be_bytes([ip[4], ip[5]]), 0xfffe_u16.wrapping_add(i as u16));
                    prop_assert_eq!(sum(&[&ip[..sample.transport]]), 0xffff);
                }
                prop_assert_eq!(sum(&[&pseudo_header(ip, protocol, transport), transport]), 0xffff);
                if udp {
                    prop_assert_eq!(u16::from_be_bytes([transport[4], transport[5]]) as usize, transport.len());
                } else {
                    let sequence = u32::from_be_bytes(transport[4..8].try_into().unwrap());
                    prop_assert_eq!(sequence, 0xffff_f000_u32.wrapping_add(i as u32 * u32::from(size)));
                    let expected = 0x10 | if i == 0 { 0x80 } else { 0 } | if i == last { 0x09 } else { 0 };
                    prop_assert_eq!(transport[13], expected);
                }
                prop_assert_eq!(&ip[sample.transport..][..4], &original[14 + sample.transport..][..4]);
                payload.extend_from_slice(&ip[sample.headers..]);
            }
            prop_assert_eq!(payload, sample.payload);
            rows.iter().for_each(|row| buffers.free_chain(row.packet));
            buffers.free_chain(sample.row.packet);
            prop_assert_eq!(buffers.in_use(), 0);
        }

        #[test]
        fn a_finished_checksum_verifies(
            what in any::<(bool, bool, bool)>(),
            length in 0usize..9000,
            first in 0usize..1800,
            cuts in prop::collection::vec(1usize..2048, 30),
        ) {
            let mut buffers = frames::buffers();
            let Sample { mut row, transport, .. } = sample(&mut buffers, what, length, 1, first, &cuts[..3]);
            let before = frames::bytes(&buffers, &row);
            prop_assume!(Chain::of(&buffers, &row).is_some());
            finish_checksum(&mut buffers, &mut row).unwrap();
            prop_assert_eq!(row.flags & flag::PARTIAL_CHECKSUM, 0);
            let frame = frames::bytes(&buffers, &row);
            let (ip, part) = (&frame[14..], &frame[14 + transport..]);
            let protocol = if what.1 { 17 } else { 6 };
            prop_assert_eq!(sum(&[&pseudo_header(ip, protocol, part), part]), 0xffff);
            let field = 14 + transport + if what.1 { 6 } else { 16 };
            prop_assert_eq!(&frame[..field], &before[..field]);
            prop_assert_eq!(&frame[field + 2..], &before[field + 2..]);
        }

        #[test]
        fn nonsense_is_refused_without_panic_or_leak(
            bytes in prop::collection::vec(any::<u8>(), 0..2000),
            head in prop_oneof![Just(0x45u8), Just(0x46), Just(0x60), any::<u8>()],
            protocol in prop_oneof![Just(6u8), Just(17), any::<u8>()],
            (start, field, size) in (0u16..2100, 0u16..100, prop_oneof![0u16..3, any::<u16>()]),
            kind in 0usize..5,
            (l2, l3) in (0u16..2400, 0u16..2400),
            trailing in any::<bool>(),
        ) {
            let mut buffers = frames::buffers();
            let mut bytes = bytes;
            if let Some(byte) = bytes.get_mut(14) { *byte = head; }
            if let Some(byte) = bytes.get_mut(14 + 9) { *byte = protocol; }
            let row = packet(&mut buffers, &bytes, 1000, &[300]);
            use Segmentation::{None, Tcp4, Tcp4Ecn, Tcp6, Udp4};
            let kinds = [None, Tcp4, Tcp4Ecn, Udp4, Tcp6];
            let offload = Offload {
                checksum_start: start,
                checksum_offset: field,
                segment_size: size,
                header_length: start,
                kind: kinds[kind],
            };
            let mut row = with_offload(&mut buffers, row, flag::OFFLOAD, offload);
            if trailing { (row.l2, row.l3) = (l2, l3); }
            if let Ok(rows) = cut(&mut buffers, &row) {
                rows.iter().for_each(|row| buffers.free_chain(row.packet));
            }
            let _ = finish_checksum(&mut buffers, &mut row);
            buffers.free_chain(row.packet);
            prop_assert_eq!(buffers.in_use(), 0);
        }
    }

    #[test]
    fn a_checksum_of_zero_is_sent_as_its_other_form() {
        let mut buffers = frames::buffers();
        let mut sample = sample(&mut buffers, (false, true, false), 2, 1, 2, &[1]);
        // The payload that makes all words add up to 0xffff.
        let at = sample.row.l3 as usize + 28;
        let bytes = buffers.bytes_mut(sample.row.packet);
        bytes[at..at + 2].fill(0);
        let rest = !sum(&[&bytes[sample.row.l3 as usize + 20..at]]);
        bytes[at..at + 2].copy_from_slice(&rest.to_be_bytes());
        finish_checksum(&mut buffers, &mut sample.row).unwrap();
        assert_eq!(buffers.bytes(sample.row.packet)[at - 2..at], [0xff, 0xff]);
    }

    #[test]
    fn tiny_segments_and_a_short_pool_emit_nothing() {
        let mut buffers = frames::buffers();
        let sample = sample(&mut buffers, (false, false, false), 60_000, 1, 0, &[2048]);
        assert_eq!(cut(&mut buffers, &sample.row), Err(OffloadError::TooManySegments));
        buffers.segment_mut(sample.row.packet).offload.segment_size = 100;
        let mut hoard = vec![PacketIndex::NONE; 4096];
        let got = buffers.allocate(&mut hoard);
        buffers.free(&hoard[..300]);
        let in_use = buffers.in_use();
        assert_eq!(cut(&mut buffers, &sample.row), Err(OffloadError::NoBuffer));
        assert_eq!(buffers.in_use(), in_use);
        buffers.free(&hoard[300..got]);
        assert_eq!(cut(&mut buffers, &sample.row).unwrap().len(), 600);
    }
}
