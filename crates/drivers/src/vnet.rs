//! The virtio-net header (virtio 1.2, section 5.1.6) that Linux puts ahead of frames on TAP and packet sockets: which
//! checksum and segmentation are left to do. Ten bytes in the machine's order.
//!
//! A header counts offsets from the start of the frame, [`Offload`] from the network header, because routers change
//! what lies before that. Everything that a header claims is checked against the frame once, here.

use crate::ReceiveCounts;
use crate::chain::{Chain, Frame};
use crate::offload::{Headers, OffloadError};
use graph::buffer::{HEADROOM, Offload, Segmentation};
use graph::{Buffers, Row, Vector, flag};
use wire::ethernet::{self, EtherType};
use wire::vlan::{MAX_TAGS, TAG_LEN};

/// Bytes of a header.
pub const SIZE: usize = 10;

/// Values of the fields.
const NEEDS_CHECKSUM: u8 = 1;
const SEGMENT_NONE: u8 = 0;
const SEGMENT_TCP4: u8 = 1;
const SEGMENT_TCP6: u8 = 4;
const SEGMENT_UDP: u8 = 5;
/// May be combined with the TCP kinds.
const SEGMENT_ECN: u8 = 0x80;

/// Bytes ahead of the network header.
pub(crate) fn link_header_length(frame: &[u8]) -> Option<usize> {
    let mut at = ethernet::HEADER_LEN;
    for _ in 0..=MAX_TAGS {
        let &[high, low] = frame.get(at - 2..at)? else {
            return None;
        };
        if !EtherType(u16::from_be_bytes([high, low])).is_tag() {
            return Some(at);
        }
        at += TAG_LEN;
    }
    None
}

/// The flags and the offload that a header asks for, for a frame of `length` bytes that
/// starts with `head` (all of it, or the first buffer's part).
///
/// # Errors
/// When the frame is not what the header says.
pub fn parse(header: &[u8; SIZE], head: &[u8], length: usize) -> Result<(u32, Offload), OffloadError> {
    let [flags, kind, ..] = *header;
    if flags & NEEDS_CHECKSUM == 0 && kind == SEGMENT_NONE {
        return Ok((0, Offload::default()));
    }
    parse_offload(header, head, length).ok_or(OffloadError::Malformed)
}

fn parse_offload(header: &[u8; SIZE], head: &[u8], length: usize) -> Option<(u32, Offload)> {
    let [needs, kind, ref fields @ ..] = *header;
    // The header length is only the sender's guess: it is not read.
    let [_, segment_size, start, checksum_offset] =
        std::array::from_fn(|i| u16::from_ne_bytes([fields[2 * i], fields[2 * i + 1]]));
    let l3 = link_header_length(head)?;
    let mut asked = 0;
    let mut offload = Offload::default();
    if needs & NEEDS_CHECKSUM != 0 {
        asked |= flag::PARTIAL_CHECKSUM;
        offload.checksum_start = (start as usize).checked_sub(l3)? as u16;
        offload.checksum_offset = checksum_offset;
        if start as usize + checksum_offset as usize + 2 > length {
            return None;
        }
    }
    if kind != SEGMENT_NONE {
        asked |= flag::SEGMENTED;
        offload.segment_size = segment_size;
        offload.kind = match kind {
            SEGMENT_TCP4 => Segmentation::Tcp4,
            kind if kind == SEGMENT_TCP4 | SEGMENT_ECN => Segmentation::Tcp4Ecn,
            kind if kind & !SEGMENT_ECN == SEGMENT_TCP6 => Segmentation::Tcp6,
            SEGMENT_UDP => Segmentation::Udp4,
            _ => return None,
        };
        let headers = Headers::parse(offload.kind, head.get(l3..)?)?;
        offload.header_length = headers.length as u16;
        let transport = (headers.transport as u16, headers.checksum_offset() as u16);
        let other =
            asked & flag::PARTIAL_CHECKSUM != 0 && transport != (offload.checksum_start, offload.checksum_offset);
        if segment_size == 0 || other || l3 + headers.end > length {
            return None;
        }
        // A receiver that merged segments may have verified them already. But to cut them again, one must know where
        // their checksum is.
        (offload.checksum_start, offload.checksum_offset) = transport;
    }
    Some((asked, offload))
}

/// Appends a frame that arrived with `header`, or frees it and counts the reason.
#[inline]
pub fn deliver(header: &[u8; SIZE], frame: Frame, buffers: &mut Buffers, out: &mut Vector, counts: &mut ReceiveCounts) {
    if let Some(row) = receive(header, &frame, buffers, counts) {
        out.push(row, 0);
    } else {
        buffers.free_chain(frame.packet);
    }
}

/// The row of a received frame.
#[inline]
pub fn receive(header: &[u8; SIZE], frame: &Frame, buffers: &mut Buffers, counts: &mut ReceiveCounts) -> Option<Row> {
    let Ok(length) = u16::try_from(frame.length) else {
        counts.too_long += 1;
        return None;
    };
    let mut row = Row {
        packet: frame.packet,
        flags: frame.flags(),
        l2: HEADROOM as u16,
        l3: HEADROOM as u16,
        length,
        ..Row::default()
    };
    let chain = Chain::of(buffers, &row).expect("just linked");
    match parse(header, chain.head(buffers), frame.length) {
        Ok((asked, offload)) => {
            row.flags |= asked;
            if asked != 0 {
                buffers.segment_mut(frame.packet).offload = offload;
            }
            Some(row)
        }
        Err(_) => {
            counts.malformed += 1;
            None
        }
    }
}

/// The header that tells the kernel what is left to do for a packet.
///
/// # Errors
/// When the metadata contradict each other.
#[inline]
pub fn emit(row: &Row, offload: impl FnOnce() -> Offload) -> Result<[u8; SIZE], OffloadError> {
    if row.flags & flag::OFFLOAD == 0 {
        return Ok([0; SIZE]);
    }
    emit_offload(row, offload()).ok_or(OffloadError::Malformed)
}

fn emit_offload(row: &Row, offload: Offload) -> Option<[u8; SIZE]> {
    let l3 = row.l3.checked_sub(row.l2)?;
    let (mut needs, mut kind, mut fields) = (0, SEGMENT_NONE, [0u16; 4]);
    let [header_length, segment_size, start, checksum_offset] = &mut fields;
    if row.flags & flag::PARTIAL_CHECKSUM != 0 {
        needs = NEEDS_CHECKSUM;
        *start = l3.checked_add(offload.checksum_start)?;
        *checksum_offset = offload.checksum_offset;
        let end = start.checked_add(*checksum_offset)?.checked_add(2)?;
        if end > row.length {
            return None;
        }
    }
    if row.flags & flag::SEGMENTED != 0 {
        kind = match offload.kind {
            Segmentation::None => return None,
            Segmentation::Tcp4 => SEGMENT_TCP4,
            Segmentation::Tcp4Ecn => SEGMENT_TCP4 | SEGMENT_ECN,
            Segmentation::Tcp6 => SEGMENT_TCP6,
            Segmentation::Udp4 => SEGMENT_UDP,
        };
        *segment_size = offload.segment_size;
        *header_length = l3.checked_add(offload.header_length)?;
        if *header_length > row.length || *segment_size == 0 {
            return None;
        }
    }
    let mut bytes = [0; SIZE];
    (bytes[0], bytes[1]) = (needs, kind);
    for (to, field) in bytes[2..].as_chunks_mut().0.iter_mut().zip(fields) {
        *to = field.to_ne_bytes();
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_frames::{self as frames, transport_frame};
    use proptest::prelude::*;

    /// flags, kind, header length, segment size, checksum start, checksum offset
    fn header(flags: u8, kind: u8, fields: [u16; 4]) -> [u8; SIZE] {
        let mut bytes = [flags, kind, 0, 0, 0, 0, 0, 0, 0, 0];
        for (i, field) in fields.into_iter().enumerate() {
            bytes[2 + 2 * i..4 + 2 * i].copy_from_slice(&field.to_ne_bytes());
        }
        bytes
    }

    fn tagged(frame: &[u8]) -> Vec<u8> {
        [&frame[..12], &[0x81, 0, 0, 100], &frame[12..]].concat()
    }

    #[test]
    fn offsets_count_from_the_network_header_whatever_is_before_it() {
        let plain = transport_frame(false, false, false, &[0; 3000]);
        for (frame, l3) in [(plain.clone(), 14), (tagged(&plain), 18), (tagged(&tagged(&plain)), 22)] {
            let asked = header(1, 1, [0xffff, 1448, l3 + 20, 16]);
            let (flags, offload) = parse(&asked, &frame[..2048], frame.len()).unwrap();
            assert_eq!(flags, flag::PARTIAL_CHECKSUM | flag::SEGMENTED);
            let expected = Offload {
                checksum_start: 20,
                checksum_offset: 16,
                segment_size: 1448,
                header_length: 52,
                kind: Segmentation::Tcp4,
            };
            assert_eq!(offload, expected);
            let row = Row { l2: 256, l3: 256 + l3, length: frame.len() as u16, flags, ..Row::default() };
            assert_eq!(emit(&row, || offload), Ok(header(1, 1, [l3 + 52, 1448, l3 + 20, 16])));
            // The link header has another length on the way out.
            let row = Row { l2: 300, l3: 314, ..row };
            assert_eq!(emit(&row, || offload), Ok(header(1, 1, [66, 1448, 34, 16])));
        }
    }

    #[test]
    fn all_kinds_go_out_as_they_came_in() {
        let frame = |ip6, udp| transport_frame(ip6, udp, true, &[0; 1000]);
        let cases = [
            (1, frame(false, false), 24, 16),
            (0x81, frame(false, false), 24, 16),
            (4, frame(true, false), 48, 16),
            (5, frame(false, true), 24, 6),
            (5, frame(true, true), 48, 6),
        ];
        for (kind, frame, start, field) in cases {
            let transport = if field == 6 { 8 } else { 32 };
            let given = header(1, kind, [14 + start + transport, 500, 14 + start, field]);
            let (flags, offload) = parse(&given, &frame, frame.len()).unwrap();
            let row = Row { l2: 256, l3: 270, length: frame.len() as u16, flags, ..Row::default() };
            assert_eq!(emit(&row, || offload), Ok(given), "kind {kind}");
        }
    }

    #[test]
    fn nothing_asked_is_nothing_read() {
        assert_eq!(parse(&header(2, 0, [9, 9, 9999, 9]), &[], 0), Ok((0, Offload::default())));
        assert_eq!(emit(&Row::default(), || unreachable!()), Ok([0; SIZE]));
    }

    #[test]
    fn what_does_not_fit_the_frame_is_malformed() {
        let tcp = transport_frame(false, false, false, &[0; 100]);
        let udp = transport_frame(false, true, false, &[0; 100]);
        let end = tcp.len() as u16;
        let cases = [
            ("checksum beyond the end", header(1, 0, [0, 0, end - 17, 16]), &tcp),
            ("checksum in the link header", header(1, 0, [0, 0, 13, 16]), &tcp),
            ("overflowing sum", header(1, 0, [0, 0, 0xffff, 0xffff]), &tcp),
            ("unknown kind", header(1, 3, [0, 50, 34, 16]), &tcp),
            ("UDP with ECN", header(1, 0x85, [0, 50, 34, 6]), &udp),
            ("TCP over IPv6 that is not", header(1, 4, [0, 50, 34, 16]), &tcp),
            ("TCP that is UDP", header(1, 1, [0, 50, 34, 16]), &udp),
            ("checksum of another header", header(1, 1, [0, 50, 54, 16]), &tcp),
            ("segments of nothing", header(1, 1, [0, 0, 34, 16]), &tcp),
        ];
        for (what, header, frame) in cases {
            assert_eq!(parse(&header, frame, frame.len()), Err(OffloadError::Malformed), "{what}");
        }
        let good = header(1, 1, [0, 50, 34, 16]);
        assert!(parse(&good, &tcp, tcp.len()).is_ok());
        assert_eq!(parse(&good, &tcp, tcp.len() - 1), Err(OffloadError::Malformed), "cut off");
        assert!(parse(&header(1, 0, [0, 0, end - 18, 16]), &tcp, tcp.len()).is_ok(), "just fits");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn any_header_over_any_frame_stays_inside_it(
            flags in 0u8..4,
            kind in prop_oneof![0u8..6, Just(0x81), Just(0x84), any::<u8>()],
            fields in (any::<u16>(), any::<u16>(), prop_oneof![0u16..100, any::<u16>()],
                prop_oneof![0u16..20, any::<u16>()]),
            good in any::<(bool, bool, bool)>(),
            payload in 0usize..200,
            damage in prop::collection::vec((0usize..120, any::<u8>()), 0..4),
            cut in 0usize..300,
        ) {
            let mut frame = transport_frame(good.0, good.1, good.2, &vec![0; payload]);
            for (at, byte) in damage {
                if let Some(target) = frame.get_mut(at) { *target = byte; }
            }
            frame.truncate(cut);
            if let Ok((asked, offload)) = parse(&header(flags, kind, fields.into()), &frame, frame.len()) {
                let l3 = link_header_length(&frame).unwrap_or(0);
                if asked & flag::PARTIAL_CHECKSUM != 0 {
                    let checksum = l3 + offload.checksum_start as usize + offload.checksum_offset as usize;
                    prop_assert!(checksum + 2 <= frame.len());
                }
                if asked & flag::SEGMENTED != 0 {
                    prop_assert!(l3 + offload.header_length as usize <= frame.len() && offload.segment_size > 0);
                    prop_assert!(offload.kind != Segmentation::None);
                }
                let mut buffers = frames::buffers();
                let row = frames::packet(&mut buffers, &frame, 2048, &[1]);
                let row = Row { l3: row.l2 + l3 as u16, flags: row.flags | asked, ..row };
                prop_assert!(emit(&row, || offload).is_ok());
            }
        }
    }
}
