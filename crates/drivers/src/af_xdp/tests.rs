//! Queues whose kernel is the test: a file that has the rings where a socket would.
#![allow(unsafe_code)]

use super::queue::{self, Facts, Service, XdpReceive, XdpTransmit};
use super::ring::{Consumer, Kind, Offsets, Producer};
use super::socket::{Rings, Socket, address, place};
use crate::test_frames::{bytes, packet, plain, transport_frame};
use crate::{FULL, REFUSED, Receive, ReceiveCounts, TOO_LONG, Transmit};
use graph::buffer::{DATA_SIZE, HEADROOM};
use graph::{Buffers, EdgeIndex, PacketIndex, Pool, Row, Vector, edge, flag};
use proptest::prelude::*;
use rustix::fd::OwnedFd;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
use rustix::mm;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use wire::ethernet::HEADER_LEN;

const SIZE: u32 = 64;
/// Where a ring's counts, flags and entries lie.
const OFFSETS: Offsets = {
    let one = [0, 64, 192, 128];
    let mut all = [0; 16];
    let mut i = 0;
    while i < 16 {
        all[i] = one[i % 4];
        i += 1;
    }
    all
};

/// The other side of one ring.
struct Side {
    base: *mut u8,
    at: u32,
}

impl Side {
    fn of(file: &OwnedFd, kind: Kind) -> Side {
        let access = mm::ProtFlags::READ | mm::ProtFlags::WRITE;
        // SAFETY: a fresh mapping, kept for as long as the test runs.
        let base =
            unsafe { mm::mmap(std::ptr::null_mut(), 4096, access, mm::MapFlags::SHARED, file, kind.page_offset()) };
        Side { base: base.unwrap().cast(), at: 0 }
    }

    fn count(&self, at: usize) -> u32 {
        // SAFETY: within the mapping, as all that follow.
        unsafe { self.base.add(at).cast::<u32>().read_volatile() }
    }

    fn set_count(&self, at: usize, value: u32) {
        // SAFETY: as above.
        unsafe { self.base.add(at).cast::<u32>().write_volatile(value) }
    }

    fn entry<T>(&self, number: u32) -> *mut T {
        // SAFETY: as above.
        unsafe { self.base.add(192).cast::<T>().add((number % SIZE) as usize) }
    }

    /// Takes all entries that we have shown.
    fn consume<T: Copy>(&mut self) -> Vec<T> {
        // SAFETY: as above.
        let taken = (self.at..self.count(0)).map(|number| unsafe { self.entry::<T>(number).read() }).collect();
        self.at = self.count(0);
        self.set_count(64, self.at);
        taken
    }

    fn produce<T>(&mut self, entries: impl IntoIterator<Item = T>) {
        for entry in entries {
            // SAFETY: as above.
            unsafe { self.entry::<T>(self.at).write(entry) };
            self.at += 1;
        }
        self.set_count(0, self.at);
    }
}

struct Bed {
    pool: Arc<Pool>,
    buffers: Buffers,
    receive: XdpReceive,
    transmit: XdpTransmit,
    facts: Arc<Facts>,
    rx: Side,
    fill: Side,
    tx: Side,
    completion: Side,
    /// Buffers that the kernel may write to.
    filled: Vec<u64>,
    counts: ReceiveCounts,
}

impl Bed {
    fn new(service: Service) -> Bed {
        let pool = Pool::new(2048, false).unwrap();
        let file = memfd_create("rings", MemfdFlags::CLOEXEC).unwrap();
        ftruncate(&file, Kind::Completion.page_offset() + (1 << 20)).unwrap();
        let side = |kind| Side::of(&file, kind);
        let (rx, fill, tx, completion) =
            (side(Kind::Receive), side(Kind::Fill), side(Kind::Transmit), side(Kind::Completion));
        let rings = Rings {
            receive: Consumer::of(&file, Kind::Receive, SIZE, &OFFSETS).unwrap(),
            fill: Producer::of(&file, Kind::Fill, SIZE, &OFFSETS).unwrap(),
            transmit: Producer::of(&file, Kind::Transmit, SIZE, &OFFSETS).unwrap(),
            completion: Consumer::of(&file, Kind::Completion, SIZE, &OFFSETS).unwrap(),
        };
        let facts = Arc::new(Facts::default());
        facts.longest.store(9018, Ordering::Relaxed);
        let socket = Socket::of(file, service.zero_copy, true).unwrap();
        let (receive, transmit) = queue::split(socket, rings, (SIZE, SIZE), &pool, &facts, service);
        let buffers = Buffers::new(&pool, 2048);
        let (filled, counts) = (Vec::new(), ReceiveCounts::default());
        Bed { pool, buffers, receive, transmit, facts, rx, fill, tx, completion, filled, counts }
    }

    fn plain() -> Bed {
        Bed::new(Service { zero_copy: false, busy_poll: false })
    }

    /// A poll; what came.
    fn poll(&mut self) -> Box<Vector> {
        let mut out = Vector::new();
        self.receive.receive(&mut self.buffers, &mut out, &mut self.counts);
        self.filled.extend(self.fill.consume::<u64>());
        out
    }

    /// The kernel writes a frame, in as many buffers as it takes.
    fn bring(&mut self, frame: &[u8]) {
        let parts: Vec<&[u8]> = frame.chunks(DATA_SIZE).collect();
        let last = parts.len() - 1;
        for (i, part) in parts.into_iter().enumerate() {
            let (number, _) = place(self.filled.pop().unwrap()).unwrap();
            let (base, _) = self.pool.memory();
            // SAFETY: a buffer that was lent to us.
            unsafe {
                let to = base.as_ptr().add(number as usize * graph::buffer::STRIDE + HEADROOM);
                std::ptr::copy_nonoverlapping(part.as_ptr(), to, part.len());
            }
            let options = if i < last { libc::XDP_PKT_CONTD } else { 0 };
            let addr = address(number, HEADROOM as u16);
            self.rx.produce([libc::xdp_desc { addr, len: part.len() as u32, options }]);
        }
    }

    /// Sends packets, and does with those that are taken as the graph would; their edges.
    fn send(&mut self, rows: &[Row]) -> Vec<EdgeIndex> {
        let mut vector = Vector::new();
        rows.iter().for_each(|row| vector.push(*row, FULL));
        self.transmit.transmit(&mut self.buffers, &mut vector);
        for (row, to) in rows.iter().zip(vector.edges()) {
            if *to != edge::LENT {
                self.buffers.free_chain(row.packet);
            }
        }
        vector.edges().to_vec()
    }

    /// Frames that the kernel finds to be sent. It is done with them at once, or in the order that is said.
    fn sent(&mut self, is_backwards: bool) -> Vec<Vec<u8>> {
        let (base, _) = self.pool.memory();
        let (mut frames, mut frame, mut done) = (Vec::new(), Vec::new(), Vec::new());
        for said in self.tx.consume::<libc::xdp_desc>() {
            let (number, offset) = place(said.addr).unwrap();
            // SAFETY: a buffer that was lent to us.
            frame.extend_from_slice(unsafe {
                let from = base.as_ptr().add(number as usize * graph::buffer::STRIDE + usize::from(offset));
                std::slice::from_raw_parts(from, said.len as usize)
            });
            if said.options & libc::XDP_PKT_CONTD == 0 {
                frames.push(std::mem::take(&mut frame));
            }
            done.push(said.addr);
        }
        if is_backwards {
            done.reverse();
        }
        self.completion.produce(done);
        frames
    }

    /// Closes it; all buffers are there again.
    fn close(self) {
        let Bed { pool, buffers, receive, transmit, .. } = self;
        drop((receive, transmit));
        assert_eq!(buffers.in_use() - pool.returned(), 0, "a buffer is lost, or was given back twice");
    }
}

fn frame(length: usize) -> Vec<u8> {
    (0..length).map(|i| (i * 7 + length) as u8).collect()
}

#[test]
fn frames_of_all_lengths_come_in_the_buffers_that_the_kernel_had() {
    let mut bed = Bed::plain();
    assert_eq!(bed.poll().len(), 0);
    assert_eq!(bed.filled.len(), SIZE as usize, "as many as it may have");
    for length in [1, 60, 1514, 2047, 2048, 2049, 4096, 9014, 40_000] {
        bed.bring(&frame(60));
        bed.bring(&frame(length));
        bed.bring(&frame(61));
        let out = bed.poll();
        let came: Vec<Vec<u8>> = (0..out.len()).map(|i| bytes(&bed.buffers, &out.row(i))).collect();
        assert_eq!(came, [frame(60), frame(length), frame(61)]);
        assert!((0..out.len()).all(|i| out.row(i).l2 == HEADROOM as u16 && out.row(i).l3 == HEADROOM as u16));
        (0..out.len()).for_each(|i| bed.buffers.free_chain(out.packets()[i]));
        while bed.filled.len() < SIZE as usize {
            bed.poll();
        }
    }
    assert_eq!(bed.counts, ReceiveCounts::default());
    assert_eq!(bed.receive.socket().lent[0].load(Ordering::Relaxed), SIZE);
    bed.close();
}

#[test]
fn a_frame_whose_end_has_not_come_waits_for_it_and_one_that_is_too_long_is_counted() {
    let mut bed = Bed::plain();
    bed.poll();
    let part = |bed: &mut Bed, options| {
        let (number, _) = place(bed.filled.pop().unwrap()).unwrap();
        let addr = address(number, HEADROOM as u16);
        bed.rx.produce([libc::xdp_desc { addr, len: DATA_SIZE as u32, options }]);
    };
    part(&mut bed, libc::XDP_PKT_CONTD);
    assert_eq!(bed.poll().len(), 0);
    assert!(!bed.receive.begin_wait(), "it is not empty");
    part(&mut bed, 0);
    let out = bed.poll();
    assert_eq!((out.len(), out.lengths()[0]), (1, 4096));
    bed.buffers.free_chain(out.packets()[0]);
    for _ in 0..40 {
        part(&mut bed, libc::XDP_PKT_CONTD);
    }
    part(&mut bed, 0);
    assert_eq!((bed.poll().len(), bed.counts.too_long), (0, 1));
    bed.close();
}

#[test]
fn what_is_sent_is_read_where_it_lies_and_freed_when_the_kernel_is_done() {
    for is_backwards in [false, true] {
        let mut bed = Bed::plain();
        for round in 0..10 {
            let rows = [
                plain(&mut bed.buffers, &frame(60)),
                packet(&mut bed.buffers, &frame(9000), 700, &[1000, 2048, 64]),
                plain(&mut bed.buffers, &frame(1514)),
            ];
            assert_eq!(bed.send(&rows), [edge::LENT; 3]);
            assert_eq!(bed.sent(is_backwards), [frame(60), frame(9000), frame(1514)], "round {round}");
            assert_eq!(bed.send(&[]), []);
            assert_eq!((bed.buffers.in_use(), bed.transmit.is_idle()), (0, true));
        }
        let mut all = vec![PacketIndex::NONE; 2048];
        assert_eq!(bed.buffers.allocate(&mut all), 2048);
        assert!(all.iter().all(|packet| bed.buffers.segment(*packet).next().is_none()), "no trace of a chain is left");
        bed.buffers.free(&all);
        bed.close();
    }
}

#[test]
fn what_cannot_be_sent_goes_by_name() {
    let mut bed = Bed::plain();
    let rows = [
        plain(&mut bed.buffers, &frame(HEADER_LEN - 1)),
        packet(&mut bed.buffers, &frame(9019), 2048, &[2048]),
        packet(&mut bed.buffers, &frame(1514), 20, &[20]),
        plain(&mut bed.buffers, &frame(HEADER_LEN)),
    ];
    assert_eq!(bed.send(&rows), [REFUSED, TOO_LONG, REFUSED, edge::LENT], "no packet has so many parts");
    assert_eq!(bed.sent(false), [frame(HEADER_LEN)]);
    // A frame in parts that are empty is one all the same.
    let with_empty = packet(&mut bed.buffers, &frame(100), 50, &[20, 0, 30, 0]);
    let in_many = packet(&mut bed.buffers, &frame(9000), 2000, &[300]);
    assert_eq!(bed.send(&[with_empty, in_many]), [edge::SENT; 2], "copies of them");
    assert_eq!(bed.sent(false), [frame(100), frame(9000)]);
    let many: Vec<Row> = (0..100).map(|_| plain(&mut bed.buffers, &frame(60))).collect();
    let edges = bed.send(&many);
    assert_eq!(edges.iter().filter(|to| **to == edge::LENT).count(), SIZE as usize);
    assert!(edges[SIZE as usize..].iter().all(|to| *to == FULL));
    assert_eq!(bed.sent(false).len(), SIZE as usize);
    // A frame goes whole or not at all.
    let some: Vec<Row> = (0..60).map(|_| plain(&mut bed.buffers, &frame(60))).collect();
    assert_eq!(bed.send(&some), [edge::LENT; 60]);
    let rows = [packet(&mut bed.buffers, &frame(9000), 2048, &[2048]), plain(&mut bed.buffers, &frame(61))];
    assert_eq!(bed.send(&rows), [FULL, edge::LENT]);
    // What the kernel has taken, but not done with, still needs its place among what is done with.
    bed.tx.consume::<libc::xdp_desc>();
    let more: Vec<Row> = (0..4).map(|_| plain(&mut bed.buffers, &frame(60))).collect();
    assert_eq!(bed.send(&more), [edge::LENT, edge::LENT, edge::LENT, FULL]);
    bed.close();
}

#[test]
fn zero_copy_uses_no_buffer_that_lies_on_two_huge_pages() {
    let mut bed = Bed::new(Service { zero_copy: true, busy_poll: false });
    let end = |number: u32| u64::from(number) * graph::buffer::STRIDE as u64 + 2303;
    let useless = |number: u32| (end(number) - 2303) >> 21 != end(number) >> 21;
    // All buffers of the pool come by.
    let mut seen = 0;
    for _ in 0..100 {
        bed.poll();
        for filled in std::mem::take(&mut bed.filled) {
            let (number, _) = place(filled).unwrap();
            assert!(!useless(number), "{number}");
            bed.filled.insert(0, filled);
        }
        seen += bed.filled.len();
        while !bed.filled.is_empty() {
            bed.bring(&frame(60));
        }
        // They are kept.
    }
    assert!(seen > 2000 && bed.counts.no_buffer > 0);
    drop((bed.receive, bed.transmit));

    let mut bed = Bed::new(Service { zero_copy: true, busy_poll: false });
    let mut all = vec![PacketIndex::NONE; 2048];
    assert_eq!(bed.buffers.allocate(&mut all), 2048);
    let bad = *all.iter().find(|packet| useless(packet.as_u32())).unwrap();
    all.retain(|packet| *packet != bad);
    bed.buffers.bytes_mut(bad)[HEADROOM..][..60].copy_from_slice(&frame(60));
    bed.buffers.free(&all);
    let row = Row { packet: bad, l2: HEADROOM as u16, length: 60, ..Row::default() };
    assert_eq!(bed.send(&[row]), [edge::SENT], "a copy of it");
    assert_eq!(bed.sent(false), [frame(60)]);
    bed.close();

    // One that is of no use is not taken again and again.
    let mut bed = Bed::new(Service { zero_copy: true, busy_poll: false });
    bed.poll();
    let mut all = vec![PacketIndex::NONE; 2048];
    let got = bed.buffers.allocate(&mut all);
    let at = all[..got].iter().position(|packet| useless(packet.as_u32())).unwrap();
    all.swap(at, got - 1);
    bed.buffers.free(&all[..got]);
    bed.bring(&frame(60));
    let out = bed.poll();
    bed.poll();
    assert_eq!(bed.filled.len(), SIZE as usize);
    bed.buffers.free(out.packets());
    bed.close();
}

#[test]
fn unfinished_checksums_are_left_to_who_sends() {
    let mut bed = Bed::plain();
    bed.poll();
    let begun = transport_frame(false, false, false, b"data");
    bed.bring(&frame(60));
    bed.bring(&begun);
    let out = bed.poll();
    assert_eq!([out.row(0).flags, out.row(1).flags], [0, flag::PARTIAL_CHECKSUM]);
    let offload = bed.buffers.segment(out.packets()[1]).offload;
    assert_eq!((offload.checksum_start, offload.checksum_offset), (20, 16));
    assert_eq!((bed.facts.unfinished.load(Ordering::Relaxed), bed.facts.finished.load(Ordering::Relaxed)), (true, 1));
    bed.buffers.free(out.packets());
    bed.close();
}

#[test]
fn a_finished_checksum_that_happens_to_be_the_pseudo_headers_sum_is_left_alone() {
    let mut bed = Bed::plain();
    bed.poll();
    // A payload that adds nothing to the sum: what is said stays right.
    let begun = transport_frame(false, true, false, &[0, 0]);
    let start = HEADER_LEN + 20;
    let mut lucky = begun.clone();
    // The datagram's words without its checksum, so that they and the checksum's double come to nothing.
    let said = u16::from_be_bytes([begun[start + 6], begun[start + 7]]);
    let rest = wire::checksum::fold(wire::checksum::sum(&begun[start..start + 6], u32::from(said) * 2));
    lucky[start + 8..start + 10].copy_from_slice(&(!rest).to_be_bytes());
    bed.bring(&lucky);
    let out = bed.poll();
    assert_eq!((out.row(0).flags, bed.facts.unfinished.load(Ordering::Relaxed)), (0, false));
    bed.buffers.free(out.packets());
    bed.close();
}

#[test]
fn while_the_pool_is_dry_nothing_is_lent() {
    let mut bed = Bed::plain();
    let mut all = vec![PacketIndex::NONE; 2048];
    assert_eq!(bed.buffers.allocate(&mut all), 2048);
    bed.poll();
    assert_eq!((bed.filled.len(), bed.counts.no_buffer), (0, 1));
    bed.buffers.free(&all);
    bed.poll();
    assert_eq!(bed.filled.len(), SIZE as usize);
    bed.close();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// A kernel that says anything: nothing but buffers that it had comes in, each once.
    #[test]
    fn nonsense_in_the_rings_costs_nothing_but_itself(
        rounds in prop::collection::vec(
                prop::collection::vec((any::<bool>(), any::<u64>(), 0u32..5000, 0u32..3, 0u16..2600), 0..40), 1..20)
    ) {
        let mut bed = Bed::plain();
        for round in rounds {
            let mut out = bed.poll();
            while bed.filled.len() < 10 && bed.receive.socket().lent[0].load(Ordering::Relaxed) < SIZE {
                bed.poll();
            }
            for (is_ours, anything, len, options, offset) in round {
                let addr = match bed.filled.pop().filter(|_| is_ours) {
                    Some(filled) => {
                        let offset = if offset % 2 == 0 { HEADROOM as u16 } else { offset };
                        address(place(filled).unwrap().0, offset)
                    }
                    None => anything,
                };
                bed.rx.produce([libc::xdp_desc { addr, len, options }]);
                bed.completion.produce([anything]);
            }
            bed.send(&[]);
            for rest in [&mut out, &mut bed.poll()] {
                for i in 0..rest.len() {
                    let row = rest.row(i);
                    prop_assert_eq!(bytes(&bed.buffers, &row).len(), usize::from(row.length));
                    bed.buffers.free_chain(row.packet);
                }
            }
        }
        // What the kernel "lost" comes back when it is closed.
        bed.close();
    }
}
