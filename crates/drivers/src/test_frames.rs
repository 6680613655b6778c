//! Frames for tests: laid into buffers in any cut, and read back.

use graph::buffer::{HEADROOM, Offload, Pool};
use graph::{Buffers, PacketIndex, Row, flag};
use wire::ethernet::HEADER_LEN;

pub fn buffers() -> Buffers {
    Buffers::new(&Pool::new(4096, false).unwrap(), 4096)
}

/// A packet with `frame`'s bytes, its later buffers holding as many as `cuts` says, in turns,
/// at odd places. The network header comes after an untagged link header.
pub fn packet(buffers: &mut Buffers, frame: &[u8], first: usize, cuts: &[usize]) -> Row {
    let (head, mut rest) = frame.split_at(first.min(frame.len()));
    let packet = buffers.allocate_one().unwrap();
    buffers.bytes_mut(packet)[HEADROOM..][..head.len()].copy_from_slice(head);
    let mut row = Row {
        packet,
        l2: HEADROOM as u16,
        l3: (HEADROOM + HEADER_LEN) as u16,
        length: frame.len() as u16,
        ..Row::default()
    };
    let mut last = packet;
    for (i, &cut) in cuts.iter().cycle().enumerate() {
        if rest.is_empty() {
            break;
        }
        let (part, others) = rest.split_at(cut.min(rest.len()));
        let next = buffers.allocate_one().unwrap();
        let offset = 100 + i % 7;
        buffers.bytes_mut(next)[offset..][..part.len()].copy_from_slice(part);
        let segment = buffers.segment_mut(next);
        (segment.offset, segment.length) = (offset as u16, part.len() as u16);
        buffers.segment_mut(last).set_next(Some(next));
        row.flags |= flag::CHAINED;
        (last, rest) = (next, others);
    }
    row
}

/// As [`packet`], cut as drivers do.
pub fn plain(buffers: &mut Buffers, frame: &[u8]) -> Row {
    packet(buffers, frame, 2048, &[2048])
}

pub fn with_offload(buffers: &mut Buffers, row: Row, flags: u32, offload: Offload) -> Row {
    buffers.segment_mut(row.packet).offload = offload;
    Row { flags: row.flags | flags, ..row }
}

/// A packet's bytes, following the chain as its segments say.
pub fn bytes(buffers: &Buffers, row: &Row) -> Vec<u8> {
    let mut parts: Vec<(PacketIndex, usize, usize)> = Vec::new();
    let mut next = (row.flags & flag::CHAINED != 0).then(|| buffers.segment(row.packet).next()).flatten();
    while let Some(packet) = next {
        let segment = buffers.segment(packet);
        parts.push((packet, segment.offset.into(), segment.length.into()));
        next = segment.next();
    }
    let later: usize = parts.iter().map(|part| part.2).sum();
    parts.insert(0, (row.packet, row.l2.into(), row.length as usize - later));
    parts
        .iter()
        .flat_map(|&(packet, offset, length)| &buffers.bytes(packet)[offset..offset + length])
        .copied()
        .collect()
}

/// The one's complement sum of the words of all slices, each padded, by the definition.
pub fn sum(slices: &[&[u8]]) -> u16 {
    let words = slices.iter().flat_map(|slice| slice.chunks(2));
    let mut total: u64 = words.map(|word| u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0))).sum();
    while total > 0xffff {
        total = (total >> 16) + (total & 0xffff);
    }
    total as u16
}

/// The pseudo header of a packet whose transport part is `transport`.
pub fn pseudo_header(ip: &[u8], protocol: u8, transport: &[u8]) -> Vec<u8> {
    let addresses = if ip[0] >> 4 == 4 { &ip[12..20] } else { &ip[8..40] };
    [addresses, &[0, protocol], &(transport.len() as u16).to_be_bytes()].concat()
}

/// An untagged frame whose transport checksum is begun only: IP header (with 4 bytes of
/// options in IPv4, 8 in IPv6, if asked), TCP with 12 bytes of options or UDP, payload.
pub fn transport_frame(ip6: bool, udp: bool, options: bool, payload: &[u8]) -> Vec<u8> {
    let protocol = if udp { 17 } else { 6 };
    let mut transport = if udp {
        let mut header = vec![0x30, 0x39, 0x00, 0x35];
        header.extend_from_slice(&((8 + payload.len()) as u16).to_be_bytes());
        header.extend_from_slice(&[0; 2]);
        header
    } else {
        // Sequence number near its end; CWR, ACK, PSH and FIN.
        let mut header =
            vec![0x30, 0x39, 0x00, 0x50, 0xff, 0xff, 0xf0, 0x00, 1, 2, 3, 4, 0x80, 0x99, 0x20, 0, 0, 0, 0, 0];
        header.extend_from_slice(&[1, 1, 8, 10, 0, 1, 2, 3, 4, 5, 6, 7]);
        header
    };
    transport.extend_from_slice(payload);
    let mut ip = if ip6 {
        let extra: &[u8] = if options { &[protocol, 0, 1, 4, 0, 0, 0, 0] } else { &[] };
        let mut ip = vec![0x60, 0, 0, 0];
        ip.extend_from_slice(&((extra.len() + transport.len()) as u16).to_be_bytes());
        ip.extend_from_slice(&[if options { 60 } else { protocol }, 64]);
        ip.extend((1..=32u8).map(|byte| byte.wrapping_mul(37)));
        ip.extend_from_slice(extra);
        ip
    } else {
        let words = if options { 6 } else { 5 };
        let length = (words as usize * 4 + transport.len()) as u16;
        let mut ip = vec![0x40 | words, 0];
        ip.extend_from_slice(&length.to_be_bytes());
        ip.extend_from_slice(&[0xff, 0xfe, 0x40, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 9, 8, 7]);
        ip.resize(words as usize * 4, 1);
        let checksum = !sum(&[&ip]);
        ip[10..12].copy_from_slice(&checksum.to_be_bytes());
        ip
    };
    let field = if udp { 6 } else { 16 };
    let seed = sum(&[&pseudo_header(&ip, protocol, &transport)]);
    transport[field..field + 2].copy_from_slice(&seed.to_be_bytes());
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    frame.extend_from_slice(if ip6 { &[0x86, 0xdd] } else { &[8, 0] });
    frame.append(&mut ip);
    frame.append(&mut transport);
    frame
}
