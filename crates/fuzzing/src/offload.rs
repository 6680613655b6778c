//! A virtio-net header (10 bytes), where the first buffer ends (a byte), and a frame: read as
//! from a device, its checksum finished, the frame cut into segments.

use crate::ports::Arrival;
use drivers::{ReceiveCounts, offload, vnet};
use graph::buffer::Pool;
use graph::{Buffers, flag};

const BUFFERS: u32 = 2048;

pub fn run(bytes: &[u8]) {
    let Some((header, rest)) = bytes.split_first_chunk::<{ vnet::SIZE }>() else { return };
    let Some((&first, frame)) = rest.split_first() else { return };
    let frame = &frame[..frame.len().min(usize::from(u16::MAX))];
    let mut buffers = Buffers::new(&Pool::new(BUFFERS, false).expect("memory"), BUFFERS as usize);
    let mut arrival = Arrival::new(frame.to_vec(), Some(header));
    if first > 0 {
        arrival.cut_after(usize::from(first) * 8);
    }
    let Some(mut row) = arrival.write(&mut buffers, &mut ReceiveCounts::default()) else {
        return assert_eq!(buffers.in_use(), 0);
    };
    let mut at = wire::ethernet::HEADER_LEN;
    while frame.get(at - 2..at).is_some_and(|kind| matches!(kind, [0x81, 0x00] | [0x88, 0xa8])) {
        at += wire::vlan::TAG_LEN;
    }
    row.l3 = row.l2 + at as u16;
    if row.flags & flag::SEGMENTED != 0 {
        let mut rows = Vec::new();
        let cut = offload::segment(&mut buffers, &row, &mut |row| rows.push(row));
        assert_eq!(cut.unwrap_or(0), rows.len());
        for row in rows {
            assert!(row.flags & flag::OFFLOAD == 0 && row.length <= arrival_length(frame));
            buffers.free_chain(row.packet);
        }
    } else if row.flags & flag::PARTIAL_CHECKSUM != 0 && offload::finish_checksum(&mut buffers, &mut row).is_ok() {
        assert_eq!(row.flags & flag::PARTIAL_CHECKSUM, 0);
    }
    buffers.free_chain(row.packet);
    assert_eq!(buffers.in_use(), 0, "all buffers are given back");
}

/// No segment is longer than the frame that it was cut from.
fn arrival_length(frame: &[u8]) -> u16 {
    frame.len() as u16
}
