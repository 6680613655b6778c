//! A peer of a memif that writes what it likes to shared memory, in between what the router does there; and messages
//! of one.

use drivers::memif::peerless::Peerless;
use drivers::memif::{Descriptor, Role};
use drivers::{FULL, ReceiveCounts};
use graph::buffer::{HEADROOM, Pool};
use graph::{Buffers, Row, Vector, flag};

/// Most packets of one input.
const MOST: usize = 256;

pub fn run(input: &[u8]) {
    let Some((&first, mut rest)) = input.split_first() else { return };
    let role = if first & 1 == 0 { Role::Master } else { Role::Slave };
    let mut side = Peerless::new(role, first >> 1 & 3, 64 << (first >> 3 & 7));
    let mut buffers = Buffers::new(&Pool::new(1024, false).expect("memory"), 1024);
    let mut packets = 0;
    while let Some((&what, after)) = rest.split_first() {
        let Some((value, after)) = after.split_first_chunk::<2>() else { break };
        rest = after;
        let value = u16::from_le_bytes(*value);
        match what % 8 {
            0 => side.set_head(value),
            1 => side.set_tail(value),
            2 => side.set_wakes(value & 1 == 0),
            3..6 => {
                let Some((words, after)) = rest.split_first_chunk::<9>() else { break };
                rest = after;
                let long = |at: usize| u32::from_le_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]]);
                let flags = u16::from(words[8] & 1);
                side.describe(value & 15, Descriptor { flags, region: value >> 4, length: long(0), offset: long(4) });
            }
            6 => receive(&mut side, &mut buffers),
            _ => transmit(&mut side, &mut buffers, value),
        }
        assert_eq!(buffers.in_use(), 0, "buffers are lost");
        packets += 1;
        if packets == MOST {
            break;
        }
    }
}

fn receive(side: &mut Peerless, buffers: &mut Buffers) {
    let (mut vector, mut counts) = (Vector::new(), ReceiveCounts::default());
    side.receive().receive(buffers, &mut vector, &mut counts);
    for i in 0..vector.len() {
        let row = vector.row(i);
        assert!(row.length > 0, "a packet of nothing");
        assert!(row.first_length(buffers) + usize::from(row.l2) <= graph::buffer::STRIDE);
        buffers.free_chain(row.packet);
    }
}

fn transmit(side: &mut Peerless, buffers: &mut Buffers, length: u16) {
    let Some(packet) = buffers.allocate_one() else { return };
    let mut row = Row { packet, l2: HEADROOM as u16, length: length.clamp(1, 2048), ..Row::default() };
    if length > 2048
        && let Some(second) = buffers.allocate_one()
    {
        let segment = buffers.segment_mut(second);
        (segment.offset, segment.length) = (HEADROOM as u16, (length - 2048).min(2048));
        row.length += segment.length;
        buffers.segment_mut(packet).set_next(Some(second));
        row.flags = flag::CHAINED;
    }
    let mut vector = Vector::new();
    vector.push(row, FULL);
    side.transmit().transmit(buffers, &mut vector);
    buffers.free_chain(packet);
}
