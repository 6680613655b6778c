//! What devices leave to be finished, at the output.

use crate::bed::{Arrival, Bed, Port, error, host_mac};
use crate::packet::*;
use drivers::TxOffloads;
use graph::buffer::{Offload, Segmentation};
use graph::flag;

/// Two ports, the second one with this device.
fn bed(finishes: TxOffloads) -> (Bed, Port, Port) {
    let mut bed = Bed::new();
    let e0 = bed.port("e0", &["10.0.0.1/24"]);
    let e1 = bed.port_that_finishes("e1", finishes);
    bed.router.set_admin(e1.index, true).unwrap();
    bed.router.add_address(e1.index, "10.0.1.1/24".parse().unwrap()).unwrap();
    bed.know(&e1, "10.0.1.2");
    bed.run();
    e1.sent();
    (bed, e0, e1)
}

/// A packet whose checksum is begun only: its field holds the pseudo header's sum.
fn begun(packet: &Packet, port: &Port) -> Arrival {
    let at = if packet.protocol == UDP { 6 } else { 16 };
    let mut packet = packet.clone();
    let seed = !checksum(&packet.pseudo_header());
    packet.payload[at..at + 2].copy_from_slice(&seed.to_be_bytes());
    let mut arrival = Arrival::from(packet.frame(port.mac, host_mac(packet.source)));
    arrival.flags = flag::PARTIAL_CHECKSUM;
    let start = 20 + packet.options.len() as u16;
    arrival.offload = Offload { checksum_start: start, checksum_offset: at as u16, ..Offload::default() };
    arrival
}

/// A packet that is to be cut into segments of `size` bytes of payload.
fn uncut(packet: &Packet, port: &Port, size: u16) -> Arrival {
    let mut arrival = begun(packet, port);
    arrival.flags |= flag::SEGMENTED;
    arrival.offload.segment_size = size;
    arrival.offload.header_length = 40;
    arrival.offload.kind = Segmentation::Tcp4;
    arrival
}

fn out(packet: &Packet, from: &Port, to: &Port) -> Vec<u8> {
    forwarded(&packet.frame(from.mac, host_mac(packet.source)), host_mac(packet.destination), to.mac)
}

fn tcp(sequence: u32, data: &[u8]) -> Packet {
    Packet::tcp("10.0.0.2", "10.0.1.2", sequence, data)
}

#[test]
fn a_checksum_that_is_only_begun_is_finished_when_the_device_cannot() {
    let (mut bed, e0, e1) = bed(TxOffloads::default());
    let udp = Packet::udp("10.0.0.2", "10.0.1.2", b"odd number.");
    for packet in [udp.clone(), udp.options(&[1; 8]), tcp(7, b"more data")] {
        // Options come before the transport header.
        e0.receive(begun(&packet, &e0));
        let moved = bed.errors_of(|_| {});
        assert_eq!(e1.sent(), [out(&packet, &e0, &e1)]);
        assert_eq!(moved, error("e1-output", "checksums finished", 1));
    }
}

#[test]
fn what_the_device_finishes_is_left_to_it() {
    let (mut bed, e0, e1) = bed(TxOffloads { checksum: true, segmentation: true });
    let packet = tcp(7, &[5; 4000]);
    for arrival in [begun(&tcp(7, b"data"), &e0), uncut(&packet, &e0, 1000).in_parts(&[2048, 2006])] {
        let (flags, offload) = (arrival.flags, arrival.offload);
        let expected = forwarded(&arrival.frame, host_mac(ip("10.0.1.2")), e1.mac);
        e0.receive(arrival);
        let moved = bed.errors_of(|_| {});
        let sent = e1.sent_whole();
        assert_eq!((sent.len(), sent[0].flags, sent[0].offload), (1, flags, offload));
        assert_eq!(sent[0].frame, expected);
        assert!(moved.is_empty());
    }
}

#[test]
fn a_packet_longer_than_the_wire_takes_is_cut_in_order_between_its_neighbours() {
    let (mut bed, e0, e1) = bed(TxOffloads::default());
    let data: Vec<u8> = (0..3500u32).map(|n| (n * 3) as u8).collect();
    let before = tcp(1, b"before");
    let after = tcp(9999, b"after");
    e0.receive_packet(&before);
    e0.receive(uncut(&tcp(1000, &data), &e0, 1000).in_parts(&[2048, 1506]));
    e0.receive_packet(&after);
    let moved = bed.errors_of(|_| {});
    let mut expected = vec![out(&before, &e0, &e1)];
    for (number, part) in data.chunks(1000).enumerate() {
        let segment = tcp(1000 + 1000 * number as u32, part).id(0x1234 + number as u16);
        expected.push(out(&segment, &e0, &e1));
    }
    expected.push(out(&after, &e0, &e1));
    assert_eq!(e1.sent(), expected);
    assert_eq!(moved, error("e1-output", "packets segmented", 1));
    assert_eq!(bed.buffers_in_use(), 0);
    let ledger = bed.worker.core().ledger();
    assert_eq!(ledger.consumed, 1);
    let bytes: usize = expected.iter().map(Vec::len).sum();
    assert_eq!(bed.counters(&e1)[2..4], [1 + 6, 42 + bytes as u64]);
}

#[test]
fn only_segments_count_against_the_mtu() {
    let (mut bed, e0, e1) = bed(TxOffloads::default());
    // A whole packet of this length does not pass an MTU of 1500.
    for (size, fits) in [(1460, true), (1461, false)] {
        let packet = tcp(1, &[1; 3000]).fragment(DONT_FRAGMENT);
        e0.receive(uncut(&packet, &e0, size).in_parts(&[2048, 1006]));
        bed.run();
        assert_eq!(e1.sent().len(), if fits { 3 } else { 0 });
    }
    assert_eq!(bed.buffers_in_use(), bed.held());
}

#[test]
fn held_packets_keep_what_is_to_be_finished() {
    let (mut bed, e0, e1) = bed(TxOffloads::default());
    let packet = Packet::tcp("10.0.0.2", "10.0.1.9", 1, &[1; 2000]);
    e0.receive(uncut(&packet, &e0, 1000).in_parts(&[2048, 6]));
    bed.run();
    assert_eq!(bed.held(), 1);
    e1.sent();
    bed.know(&e1, "10.0.1.9");
    bed.run();
    let segment = |n: u16| {
        let segment = Packet::tcp("10.0.0.2", "10.0.1.9", 1 + 1000 * n as u32, &[1; 1000]);
        out(&segment.id(0x1234 + n), &e0, &e1)
    };
    assert_eq!(e1.sent(), [segment(0), segment(1)]);
}

#[test]
fn an_echo_reply_to_a_host_that_leaves_checksums_to_its_device_is_right() {
    let mut bed = Bed::new();
    let e0 = bed.port("e0", &["10.0.0.1/24"]);
    bed.know(&e0, "10.0.0.2");
    let request = Packet::echo_request("10.0.0.2", "10.0.0.1", b"hello");
    let mut arrival = Arrival::from(request.frame(e0.mac, host_mac(request.source)));
    arrival.frame[36..38].fill(0);
    arrival.flags = flag::PARTIAL_CHECKSUM;
    arrival.offload = Offload { checksum_start: 20, checksum_offset: 2, ..Offload::default() };
    e0.receive(arrival);
    bed.run();
    let reply = Packet::new("10.0.0.1", "10.0.0.2", ICMP, &icmp(0, 0, 0x0042_0007, b"hello"));
    assert_eq!(e0.sent(), [reply.frame(host_mac(request.source), e0.mac)]);
}
