//! Devices that bring the frames of an input, and take what the router sends.

use drivers::chain;
use drivers::{Device, Link, Receive, ReceiveCounts, Transmit, TxOffloads, vnet};
use graph::buffer::{DATA_SIZE, HEADROOM};
use graph::{Buffers, PacketIndex, Row, Vector, edge, flag};
use router::Router;
use std::collections::VecDeque;
use std::hint::black_box;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex};
use wire::MacAddress;

/// A frame as a device brings it.
pub struct Arrival {
    frame: Vec<u8>,
    header: Option<[u8; vnet::SIZE]>,
    /// Bytes in the first buffer; the others are filled.
    first: usize,
    /// Where it starts in the first buffer.
    pub offset: usize,
}

impl Arrival {
    pub fn new(frame: Vec<u8>, header: Option<&[u8; vnet::SIZE]>) -> Arrival {
        let first = frame.len();
        Arrival { frame, header: header.copied(), first, offset: HEADROOM }
    }

    /// The first buffer ends after that many bytes.
    pub fn cut_after(&mut self, first: usize) {
        self.first = first.min(self.frame.len());
    }

    /// Puts the frame into buffers, as far as there are any.
    pub fn write(&self, buffers: &mut Buffers, counts: &mut ReceiveCounts) -> Option<Row> {
        let (head, tail) = self.frame.split_at(self.first.min(DATA_SIZE));
        let mut packets = vec![PacketIndex::NONE; 1 + tail.len().div_ceil(DATA_SIZE)];
        let got = buffers.allocate(&mut packets);
        if got < packets.len() {
            buffers.free(&packets[..got]);
            counts.no_buffer += 1;
            return None;
        }
        let parts = std::iter::once(head).chain(tail.chunks(DATA_SIZE));
        for (number, (&packet, part)) in packets.iter().zip(parts).enumerate() {
            let offset = if number == 0 { self.offset } else { HEADROOM };
            // What was there before is not what the frame says: nothing may depend on it.
            buffers.bytes_mut(packet)[..HEADROOM + DATA_SIZE].fill(0xa5);
            buffers.bytes_mut(packet)[offset..offset + part.len()].copy_from_slice(part);
            let next = packets.get(number + 1).copied();
            let segment = buffers.segment_mut(packet);
            (segment.offset, segment.length) = (offset as u16, part.len() as u16);
            segment.offload = Default::default();
            segment.set_next(next);
        }
        let flags = if packets.len() > 1 { flag::CHAINED } else { 0 };
        let (l2, length) = (self.offset as u16, self.frame.len() as u16);
        let mut row = Row { packet: packets[0], flags, l2, l3: l2, length, ..Row::default() };
        if let Some(header) = &self.header {
            match vnet::parse(header, head, self.frame.len()) {
                Ok((asked, offload)) => {
                    row.flags |= asked;
                    buffers.segment_mut(packets[0]).offload = offload;
                }
                Err(_) => {
                    counts.malformed += 1;
                    buffers.free_chain(packets[0]);
                    return None;
                }
            }
        }
        Some(row)
    }
}

type Shared<T> = Arc<Mutex<T>>;

struct Queue(Shared<VecDeque<Arrival>>);

impl Receive for Queue {
    fn receive(&mut self, buffers: &mut Buffers, out: &mut Vector, counts: &mut ReceiveCounts) {
        let mut arrivals = self.0.lock().expect("no panic under this lock");
        while out.room() > 0 {
            let Some(arrival) = arrivals.pop_front() else { return };
            if let Some(row) = arrival.write(buffers, counts) {
                out.push(row, 0);
            }
        }
    }
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

struct Wire {
    /// Edges for the next packets in place of sending them.
    refusals: Shared<VecDeque<u16>>,
}

impl Transmit for Wire {
    fn transmit(&mut self, buffers: &mut Buffers, vector: &mut Vector) {
        for i in 0..vector.len() {
            let row = vector.row(i);
            let refusal = self.refusals.lock().expect("no panic under this lock").pop_front();
            if refusal.is_none() {
                look_through(buffers, &row);
            }
            vector.set_edge(i, refusal.unwrap_or(edge::SENT));
        }
    }
}

/// Reads a packet as a device would: all segments, as long as it says.
fn look_through(buffers: &Buffers, row: &Row) {
    let chain = chain::Chain::of(buffers, row).expect("segments as long as the packet");
    let length: usize = chain.slices(buffers).map(|slice| black_box(slice).len()).sum();
    assert_eq!(length, usize::from(row.length), "the segments are as long as the packet");
    let offload = || buffers.segment(row.packet).offload;
    black_box(vnet::emit(row, offload).is_ok());
}

struct Carrier;

impl Link for Carrier {
    fn is_up(&self) -> bool {
        true
    }
}

/// An interface and the hold on its device.
pub struct Port {
    pub mac: MacAddress,
    arrivals: Shared<VecDeque<Arrival>>,
    refusals: Shared<VecDeque<u16>>,
}

impl Port {
    pub fn receive(&self, arrival: Arrival) {
        self.arrivals.lock().expect("no panic under this lock").push_back(arrival);
    }

    /// The device takes the next packet by this edge.
    pub fn refuse_next(&self, edge: u16) {
        self.refusals.lock().expect("no panic under this lock").push_back(edge);
    }
}

pub struct Ports;

impl Ports {
    /// `e0`, `e1`, which finish nothing, and `e2`, which finishes all.
    pub fn open(router: &mut Router) -> [Port; 3] {
        [0, 1, 2].map(|number| {
            let (arrivals, refusals) = (Shared::default(), Shared::default());
            let mac = MacAddress([0x02, 0, 0, 0, 0x10, number]);
            let device = Device {
                driver: "test",
                carries: drivers::Carries::LINK,
                input_node: "test-input",
                description: "played by a test".into(),
                host: None,
                mac,
                mtu: 1500,
                finishes: TxOffloads { checksum: number == 2, segmentation: number == 2 },
                receive: vec![Box::new(Queue(Arc::clone(&arrivals)))],
                transmit: Box::new(Wire { refusals: Arc::clone(&refusals) }),
                link: Box::new(Carrier),
            };
            router.create_interface(&format!("e{number}"), device).expect("an interface");
            Port { mac, arrivals, refusals }
        })
    }
}
