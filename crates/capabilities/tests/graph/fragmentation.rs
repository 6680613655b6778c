//! Packets that are cut because their next hop's MTU is too small for them.

use crate::bed::{Arrival, Bed, Port, error, host_mac};
use crate::packet::*;
use drivers::TxOffloads;
use graph::buffer::{DATA_SIZE, Offload, Segmentation};
use graph::flag;

/// What RFC 791 section 3.2 makes of a packet, written as its example procedure.
pub fn cut(packet: &Packet, mtu: usize) -> Vec<Packet> {
    let header = 20 + packet.options.len();
    if header + packet.payload.len() <= mtu {
        return vec![packet.clone()];
    }
    let blocks = (mtu - header) / 8;
    let mut first = packet.clone();
    first.payload.truncate(blocks * 8);
    first.fragment |= MORE_FRAGMENTS;
    let mut rest = packet.clone();
    rest.payload.drain(..blocks * 8);
    rest.fragment += blocks as u16;
    rest.options = for_all_fragments(&packet.options);
    [vec![first], cut(&rest, mtu)].concat()
}

/// Options with the copied flag, and ends of list up to a whole word.
fn for_all_fragments(options: &[u8]) -> Vec<u8> {
    let (mut all, mut at) = (Vec::new(), 0);
    while at < options.len() && options[at] != 0 {
        let length = if options[at] == 1 { 1 } else { options[at + 1] as usize };
        if options[at] & 0x80 != 0 {
            all.extend(&options[at..at + length]);
        }
        at += length;
    }
    all.resize(all.len().next_multiple_of(4), 0);
    all
}

/// A frame in as many buffers as it takes.
pub fn in_buffers(frame: Vec<u8>) -> Arrival {
    let parts: Vec<usize> = frame.chunks(DATA_SIZE).map(<[u8]>::len).collect();
    Arrival::from(frame).in_parts(&parts)
}

pub fn receive(port: &Port, packet: &Packet) {
    port.receive(in_buffers(packet.frame(port.mac, host_mac(packet.source))));
}

/// How a packet leaves when it is forwarded, cut to the MTU.
fn forwarded_in(packet: &Packet, mtu: usize, from: &Port) -> Vec<Vec<u8>> {
    let mut packet = packet.clone();
    packet.ttl -= 1;
    cut(&packet, mtu).iter().map(|fragment| fragment.frame(host_mac(packet.destination), from.mac)).collect()
}

fn data(length: usize) -> Vec<u8> {
    (0..length).map(|n| (n / 251 * 7 + n) as u8).collect()
}

fn udp(length: usize) -> Packet {
    Packet::udp("10.0.0.2", "10.0.1.2", &data(length - 28))
}

#[test]
fn a_packet_too_long_leaves_in_fragments_in_order() {
    for mtu in [68, 69, 75, 576, 1280, 1499, 1500, 2047, 2048, 2049, 9000, 9216] {
        let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
        bed.router.set_mtu(e1.index, mtu).unwrap();
        for length in [mtu, mtu + 1, mtu + 8, 2 * mtu - 20, 2 * mtu - 19, 9216, 65535 - 14] {
            let packet = udp(length.into());
            let expected = forwarded_in(&packet, mtu.into(), &e1);
            let moved = bed.errors_of(|_| receive(&e0, &packet));
            assert_eq!(e1.sent(), expected, "{length} bytes over {mtu}");
            if expected.len() > 1 {
                let mut counted = error("ip4-frag", "packet fragmented", 1);
                counted.extend(error("ip4-frag", "number of sent fragments", expected.len() as u64));
                assert_eq!(moved, counted);
            }
        }
        assert_eq!(bed.buffers_in_use(), 0);
    }
}

#[test]
fn options_are_in_the_fragments_that_they_are_for() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.router.set_mtu(e1.index, 576).unwrap();
    let security = [130, 11, 1, 2, 3, 4, 5, 6, 7, 8, 9];
    // Of routers that the sender named: this is none.
    let timestamp = [68, 8, 9, 3, 0, 0, 0, 0];
    let cases: [Vec<u8>; 5] = [
        vec![1; 4],
        timestamp.to_vec(),
        [&security[..], &[1], &timestamp].concat(),
        [&timestamp[..], &security, &[0]].concat(),
        [&[1, 1, 1][..], &security, &[0, 130]].concat(),
    ];
    for options in cases {
        for fragment in [0, 7, MORE_FRAGMENTS | 7] {
            let packet = udp(28 + 2000).options(&options).fragment(fragment);
            receive(&e0, &packet);
            bed.run();
            assert_eq!(e1.sent(), forwarded_in(&packet, 576, &e1), "{options:?}");
        }
    }
    // What cannot be read does not get as far.
    let packet = udp(1000).options(&[130, 9, 1, 2]);
    let mut moved = bed.errors_of(|_| receive(&e0, &packet));
    moved.retain(|(node, _), _| node != "ip4-icmp-error");
    assert_eq!((moved, e1.sent()), (error("ip4-options", "ip4 option longer than the header", 1), vec![]));
}

#[test]
fn a_fragment_is_cut_again_at_its_own_place() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.router.set_mtu(e1.index, 1000).unwrap();
    let whole = udp(8028);
    for fragment in cut(&whole, 1500) {
        receive(&e0, &fragment);
        bed.run();
        let sent = e1.sent();
        assert_eq!(sent, forwarded_in(&fragment, 1000, &e1));
        // More follow the last of them just when more followed the fragment.
        let flags = u16::from_be_bytes(sent.last().unwrap()[20..22].try_into().unwrap());
        assert_eq!(flags & MORE_FRAGMENTS, fragment.fragment & MORE_FRAGMENTS);
    }
}

#[test]
fn a_packet_that_must_not_be_cut_is_counted_and_its_sender_told() {
    for mtu in [68, 576, 1006, 1492] {
        let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
        bed.router.set_mtu(e1.index, mtu).unwrap();
        for options in [vec![], vec![1; 40]] {
            let length = mtu as usize + 1 - options.len();
            let packet = udp(length).options(&options).fragment(DONT_FRAGMENT);
            let moved = bed.errors_of(|_| receive(&e0, &packet));
            let mut expected = error("ip4-rewrite", "ip4 MTU exceeded and DF set", 1);
            expected.extend(error("ip4-icmp-error", "ICMP fragmentation needed sent", 1));
            assert_eq!((moved, e1.sent()), (expected, vec![]));
            let told = e0.sent();
            assert_eq!(told[0][34..36], [3, 4]);
            assert_eq!(told[0][38..42], [&[0, 0][..], &mtu.to_be_bytes()].concat());
            let quote = &packet.bytes()[..packet.bytes().len().min(548)];
            assert_eq!(told[0][42..], *quote);
        }
        let packet = udp(mtu.into()).fragment(DONT_FRAGMENT);
        receive(&e0, &packet);
        bed.run();
        assert_eq!(e1.sent(), forwarded_in(&packet, mtu.into(), &e1));
    }
}

#[test]
fn a_frame_that_is_long_by_padding_only_is_not_cut() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.router.set_mtu(e1.index, 2048).unwrap();
    for fragment in [0, DONT_FRAGMENT] {
        let packet = udp(2048).fragment(fragment);
        let mut frame = packet.frame(e0.mac, host_mac(packet.source));
        frame.extend([0xee; 40]);
        e0.receive(in_buffers(frame));
        bed.run();
        assert_eq!(e1.sent(), forwarded_in(&packet, 2048, &e1));
    }
}

#[test]
fn the_longest_header_leaves_room_for_data_at_the_least_mtu() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.router.set_mtu(e1.index, 68).unwrap();
    let security = [&[130, 40][..], &[7; 38]].concat();
    // 60 and 8 bytes are 68: they fit.
    let packet = udp(100).options(&security);
    receive(&e0, &packet);
    bed.run();
    assert_eq!(e1.sent(), forwarded_in(&packet, 68, &e1));
}

#[test]
fn a_checksum_is_finished_before_its_packet_is_cut() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let packet = udp(4000);
    let mut begun = packet.clone();
    let seed = !checksum(&packet.pseudo_header());
    begun.payload[6..8].copy_from_slice(&seed.to_be_bytes());
    let mut arrival = in_buffers(begun.frame(e0.mac, host_mac(packet.source)));
    arrival.flags = flag::PARTIAL_CHECKSUM;
    arrival.offload = Offload { checksum_start: 20, checksum_offset: 6, ..Offload::default() };
    e0.receive(arrival.clone());
    bed.run();
    assert_eq!(e1.sent(), forwarded_in(&packet, 1500, &e1));
    arrival.offload.checksum_start = 3000;
    let moved = bed.errors_of(|_| e0.receive(arrival));
    assert_eq!((moved, e1.sent()), (error("ip4-frag", "malformed packet", 1), vec![]));
}

/// What a device wants segmented into segments of `size` bytes of payload.
fn uncut(packet: &Packet, port: &Port, size: u16) -> Arrival {
    let mut packet = packet.clone();
    let seed = !checksum(&packet.pseudo_header());
    packet.payload[16..18].copy_from_slice(&seed.to_be_bytes());
    let mut arrival = in_buffers(packet.frame(port.mac, host_mac(packet.source)));
    arrival.flags = flag::PARTIAL_CHECKSUM | flag::SEGMENTED;
    arrival.offload = Offload {
        checksum_start: 20,
        checksum_offset: 16,
        segment_size: size,
        header_length: 40,
        kind: Segmentation::Tcp4,
    };
    arrival
}

#[test]
fn what_is_to_be_segmented_is_cut_only_when_its_segments_are_too_long() {
    for finishes in [TxOffloads::default(), TxOffloads { checksum: true, segmentation: true }] {
        let mut bed = Bed::new();
        let e0 = bed.port("e0", &["10.0.0.1/24"]);
        let e1 = bed.port_that_finishes("e1", finishes);
        bed.router.set_admin(e1.index, true).unwrap();
        bed.router.add_address(e1.index, "10.0.1.1/24".parse().unwrap()).unwrap();
        bed.router.set_mtu(e1.index, 1000).unwrap();
        bed.know(&e1, "10.0.1.2");
        bed.run();
        e1.sent();
        // The last segment is short enough as it is.
        let segments: Vec<Packet> = data(3000)
            .chunks(1400)
            .enumerate()
            .map(|(n, part)| Packet::tcp("10.0.0.2", "10.0.1.2", 7 + 1400 * n as u32, part).id(0x1234 + n as u16))
            .collect();
        e0.receive(uncut(&Packet::tcp("10.0.0.2", "10.0.1.2", 7, &data(3000)), &e0, 1400));
        bed.run();
        let expected: Vec<_> = segments.iter().flat_map(|segment| forwarded_in(segment, 1000, &e1)).collect();
        let sent = e1.sent_whole();
        assert!(sent.iter().all(|sent| sent.flags == 0));
        assert_eq!(sent.into_iter().map(|sent| sent.frame).collect::<Vec<_>>(), expected);
        assert_eq!(bed.buffers_in_use(), 0);
    }
}

#[test]
fn without_buffers_for_all_fragments_none_is_sent() {
    let mut bed = Bed::with_buffers(1024);
    let [e0, e1] = ["10.0.0.1/24", "10.0.1.1/24"].map(|address| bed.port(&format!("e{}", &address[5..6]), &[address]));
    bed.know(&e1, "10.0.1.2");
    let mut all = vec![graph::PacketIndex::NONE; 1024];
    assert_eq!(bed.worker.core().buffers.allocate(&mut all), 1024);
    // Two buffers for the packet; the fragments take three.
    for (free, fits) in [(2, false), (3, false), (4, false), (5, true)] {
        bed.worker.core().buffers.free(&all[..free]);
        let packet = udp(4000);
        let moved = bed.errors_of(|_| receive(&e0, &packet));
        if fits {
            assert_eq!(e1.sent(), forwarded_in(&packet, 1500, &e1));
        } else {
            assert_eq!((moved, e1.sent()), (error("ip4-frag", "could not allocate buffer", 1), vec![]));
        }
        assert_eq!(bed.worker.core().buffers.allocate(&mut all[..free]), free);
    }
    // Segments that wait for theirs are given back, too.
    bed.worker.core().buffers.free(&all[..6]);
    bed.router.set_mtu(e1.index, 1000).unwrap();
    e0.receive(uncut(&Packet::tcp("10.0.0.2", "10.0.1.2", 7, &data(3000)), &e0, 1400));
    let moved = bed.errors_of(|_| {});
    assert_eq!((moved, e1.sent()), (error("ip4-frag", "could not allocate buffer", 1), vec![]));
    assert_eq!(bed.worker.core().buffers.allocate(&mut all[..6]), 6);
    bed.worker.core().buffers.free(&all);
}

#[test]
fn a_long_packet_waits_whole_for_its_neighbour() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let packet = Packet::udp("10.0.0.2", "10.0.1.9", &data(60_000));
    receive(&e0, &packet);
    bed.run();
    assert_eq!(bed.held(), 1);
    e1.sent();
    bed.know(&e1, "10.0.1.9");
    bed.run();
    assert_eq!(e1.sent(), forwarded_in(&packet, 1500, &e1));
}

#[test]
fn what_the_router_itself_sends_is_cut_under_a_number_of_its_own() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.router.set_mtu(e0.index, 9000).unwrap();
    let mut ids = Vec::new();
    for length in [4000, 4001] {
        let request = Packet::echo_request("10.0.0.2", "10.0.0.1", &data(length));
        receive(&e0, &request);
        bed.router.set_mtu(e0.index, 1500).unwrap();
        bed.run();
        let sent = e0.sent();
        let id = u16::from_be_bytes(sent[0][18..20].try_into().unwrap());
        let reply = Packet::new("10.0.0.1", "10.0.0.2", ICMP, &icmp(0, 0, 0x0042_0007, &data(length))).id(id);
        let expected: Vec<_> =
            cut(&reply, 1500).iter().map(|part| part.frame(host_mac(ip("10.0.0.2")), e0.mac)).collect();
        assert_eq!(sent, expected);
        ids.push(id);
    }
    // Not the asker's, which may be in use for another datagram of ours.
    assert_eq!(ids[1], ids[0].wrapping_add(1));
}

#[test]
fn the_trace_follows_each_fragment() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.command("trace add test-input 1").unwrap();
    receive(&e0, &udp(3000));
    bed.run();
    let trace = bed.ask("show trace").unwrap();
    let at = |node: &str| trace.lines().filter(|line| line.ends_with(node)).count();
    assert_eq!([at(": ip4-frag"), at(": ip4-rewrite"), at(": e1-tx")], [3, 4, 3], "{trace}");
    assert!(trace.contains("fragment id 0x1234 offset 1480, flags MORE_FRAGMENTS"), "{trace}");
}
