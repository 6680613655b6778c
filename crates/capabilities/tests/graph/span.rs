//! SPAN copies of an interface's packets: to the byte, to the right destination, without effects on the original.

use crate::bed::{Arrival, Bed, Port, error, host_mac};
use crate::bed6;
use crate::packet::*;
use crate::packet6::{HOP_BY_HOP, Packet6, link_option, solicited_group};
use drivers::{FULL, TxOffloads};
use graph::PacketIndex;
use graph::buffer::{Offload, Segmentation};
use graph::flag;
use wire::MacAddress;

/// Three ports that forward, and two that are SPAN destinations.
fn bed() -> (Bed, [Port; 3], [Port; 2]) {
    let (mut bed, ports) = Bed::with_three_ports();
    let listeners = ["s0", "s1"].map(|name| bed.port(name, &[]));
    (bed, ports, listeners)
}

fn say(bed: &mut Bed, line: &str) {
    bed.command(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    bed.run();
}

fn udp() -> Packet {
    Packet::udp("10.0.0.2", "10.0.1.2", b"data of some length")
}

#[test]
fn each_direction_is_copied_to_the_byte_and_only_that() {
    let (mut bed, [e0, e1, _], [s0, _]) = bed();
    for (directions, copies) in [("rx", [1, 0]), ("tx", [0, 1]), ("both", [1, 1]), ("disable", [0, 0])] {
        say(&mut bed, &format!("set interface span e0 destination s0 {directions}"));
        let mut received = e0.receive_packet(&udp());
        received.extend([0; 7]);
        bed.run();
        let forwarded_frame = forwarded(&received, host_mac(ip("10.0.1.2")), e1.mac);
        assert_eq!(e1.sent(), [forwarded_frame]);
        received.truncate(received.len() - 7);
        assert_eq!(s0.sent(), vec![received; copies[0]], "{directions}");
        e1.receive_packet(&Packet::udp("10.0.1.2", "10.0.0.2", b"back"));
        bed.run();
        let sent = e0.sent();
        assert_eq!(sent.len(), 1);
        assert_eq!(s0.sent(), vec![sent[0].clone(); copies[1]], "{directions}");
        assert_eq!(bed.buffers_in_use(), 0);
    }
    assert_eq!(bed.errors()[&("span-input".into(), "packets mirrored".into())], 2);
    assert_eq!(bed.errors()[&("span-output".into(), "packets mirrored".into())], 2);
}

#[test]
fn what_is_dropped_is_copied_as_it_came_padding_and_all() {
    let (mut bed, [e0, ..], [s0, _]) = bed();
    say(&mut bed, "set interface span e0 destination s0 rx");
    let mut padded = udp().frame(e0.mac, host_mac(ip("10.0.0.2")));
    padded.extend([0xee; 9]);
    let mut stray = padded.clone();
    stray[..6].copy_from_slice(&[2, 9, 9, 9, 9, 9]);
    for frame in [padded, stray, vec![1; 9], ethernet(e0.mac, e0.mac, 0x9999, &[5; 40])] {
        e0.receive(frame.clone());
        bed.run();
        assert_eq!(s0.sent(), [frame]);
    }
    // Frames that arrive while it is down are not copied.
    say(&mut bed, "set interface state e0 down");
    e0.receive_packet(&udp());
    bed.run();
    assert_eq!(s0.sent(), Vec::<Vec<u8>>::new());
}

#[test]
fn chains_are_copied_whole() {
    let (mut bed, [e0, e1, _], [s0, s1]) = bed();
    [&e0, &e1].into_iter().for_each(|port| bed.router.set_link_mtu(port.index, Some(9000)).unwrap());
    say(&mut bed, "set interface span e0 destination s0 rx");
    say(&mut bed, "set interface span e1 destination s1 tx");
    let data: Vec<u8> = (0..5000).map(|n| (n * 11) as u8).collect();
    let frame = Packet::udp("10.0.0.2", "10.0.1.2", &data).frame(e0.mac, host_mac(ip("10.0.0.2")));
    e0.receive(Arrival::from(frame.clone()).in_parts(&[2048, 2048, 946]));
    bed.run();
    let sent = e1.sent();
    assert_eq!(sent, [forwarded(&frame, host_mac(ip("10.0.1.2")), e1.mac)]);
    assert_eq!((s0.sent(), s1.sent()), (vec![frame], sent));
    assert_eq!(bed.buffers_in_use(), 0);
}

#[test]
fn what_is_left_to_do_for_a_packet_is_done_for_its_copy() {
    let (mut bed, [e0, _, _], [s0, _]) = bed();
    let able = bed.port_that_finishes("able", TxOffloads { checksum: true, segmentation: true });
    say(&mut bed, "set interface state able up");
    able.sent();
    say(&mut bed, "set interface span e0 destination s0 rx");
    say(&mut bed, "set interface span e0 destination able rx");
    let packet = Packet::tcp("10.0.0.2", "10.0.1.2", 1, &[7; 100]);
    let whole = packet.frame(e0.mac, host_mac(packet.source));
    // The sender left the checksum to the device: the field has the pseudo header's sum.
    let mut begun = whole.clone();
    begun[50..52].copy_from_slice(&(!checksum(&packet.pseudo_header())).to_be_bytes());
    let offload = Offload { checksum_start: 20, checksum_offset: 16, ..Offload::default() };
    let begun = Arrival { flags: flag::PARTIAL_CHECKSUM, offload, ..Arrival::from(begun) };
    e0.receive(begun.clone());
    bed.run();
    assert_eq!(s0.sent(), vec![whole], "finished for a device that does not");
    let left = able.sent_whole();
    assert_eq!((left[0].flags, left[0].offload), (flag::PARTIAL_CHECKSUM, offload), "left to one that does");
    assert_eq!(left[0].frame, begun.frame);
    // A packet to be segmented: the copy is segmented, too, each piece with its own checksum.
    let offload = Offload { segment_size: 60, header_length: 40, kind: Segmentation::Tcp4, ..offload };
    e0.receive(Arrival { flags: flag::PARTIAL_CHECKSUM | flag::SEGMENTED, offload, ..begun });
    bed.run();
    let pieces = s0.sent();
    assert_eq!(pieces.iter().map(Vec::len).collect::<Vec<_>>(), [54 + 60, 54 + 40]);
    for piece in &pieces {
        let length = (piece.len() - 34) as u16;
        let pseudo = [&piece[26..34], &[0, TCP], &length.to_be_bytes()[..], &piece[34..]].concat();
        assert_eq!(checksum(&pseudo), 0, "a right checksum");
    }
    assert_eq!(bed.buffers_in_use(), 0);
}

#[test]
fn several_listen_and_none_to_a_copy() {
    let (mut bed, [e0, e1, _], [s0, s1]) = bed();
    for line in [
        "set interface span e0 destination s0",
        "set interface span e0 destination s1 rx",
        "set interface span s0 destination s1 both",
        "set interface span e1 destination e0 both",
    ] {
        say(&mut bed, line);
    }
    let frame = e0.receive_packet(&udp());
    bed.run();
    // e1 sent the packet and e0 sent its copy. The copy is not copied again to s0.
    assert_eq!((e1.sent().len(), e0.sent().len()), (1, 1));
    assert_eq!((s0.sent(), s1.sent()), (vec![frame.clone()], vec![frame]));
    assert_eq!(
        bed.command("show interface span").unwrap(),
        "Source                           Destination                       Device       L2\n\
         e0                               s0                               (  both) (  none)\n\
         \x20                                s1                               (    rx) (  none)\n\
         e1                               e0                               (  both) (  none)\n\
         s0                               s1                               (  both) (  none)\n"
    );
    assert_eq!(bed.json("show interface span")["sessions"][1]["device"], "rx");
}

#[test]
fn a_listener_that_cannot_take_copies_costs_copies_only() {
    let (mut bed, [e0, e1, _], [s0, _]) = bed();
    say(&mut bed, "set interface span e0 destination s0 rx");
    let forward = |bed: &mut Bed| {
        let moved = bed.errors_of(|_| drop(e0.receive_packet(&udp())));
        assert_eq!(e1.sent().len(), 1);
        moved
    };
    let mirrored = error("span-input", "packets mirrored", 1);
    let also = |node: &str, reason: &str| mirrored.clone().into_iter().chain(error(node, reason, 1)).collect();
    s0.refuse_next(FULL);
    assert_eq!(forward(&mut bed), also("s0-tx", "device has no room"));
    say(&mut bed, "set interface state s0 down");
    assert_eq!(forward(&mut bed), also("s0-output", "interface is down"));
    // The drop counts for the SPAN destination, not for the mirrored interface.
    assert_eq!((bed.counters(&s0)[5], bed.counters(&e0)[5]), (2, 0));
    say(&mut bed, "delete interface s0");
    assert_eq!(forward(&mut bed), Default::default());
    assert_eq!(bed.command("show interface span").unwrap().lines().count(), 1);
    assert_eq!(bed.buffers_in_use(), 0);
}

#[test]
fn without_buffers_packets_go_on_uncopied() {
    let (mut bed, [e0, e1, _], _) = bed();
    say(&mut bed, "set interface span e0 destination s0 rx");
    say(&mut bed, "set interface span e1 destination s0 tx");
    let mut all = vec![PacketIndex::NONE; 8192];
    let got = bed.worker.core().buffers.allocate(&mut all);
    bed.worker.core().buffers.free(&all[..1]);
    let moved = bed.errors_of(|_| drop(e0.receive_packet(&udp())));
    let expected = error("span-input", "no free buffer to mirror into", 1)
        .into_iter()
        .chain(error("span-output", "no free buffer to mirror into", 1))
        .collect();
    assert_eq!((moved, e1.sent().len()), (expected, 1));
    bed.worker.core().buffers.free(&all[1..got]);
}

#[test]
fn sessions_are_refused_shown_saved_and_follow_names() {
    let (mut bed, [e0, e1, _], [s0, _]) = bed();
    let refused = bed.command("set interface span e0 destination e0").unwrap_err();
    assert!(refused.contains("e0 cannot get copies of its own packets"), "{refused}");
    for number in 0..8 {
        say(&mut bed, &format!("create null interface name n{number}"));
        say(&mut bed, &format!("set interface span e0 destination n{number} tx"));
    }
    let refused = bed.command("set interface span e0 destination s0").unwrap_err();
    assert!(refused.contains("too many interfaces get copies of the packets of e0 (at most 8)"), "{refused}");
    say(&mut bed, "set interface span e0 destination n7 rx");
    say(&mut bed, "set interface span e0 disable");
    say(&mut bed, "set interface span e0 destination s0 rx");
    say(&mut bed, "set interface name s0 tester");
    say(&mut bed, "set interface name e0 uplink");
    let running = bed.command("show running-config").unwrap();
    assert!(running.contains("set interface span uplink destination tester rx\n"), "{running}");
    assert_eq!(running.matches("set interface span").count(), 1);
    let frame = e0.receive_packet(&udp());
    bed.run();
    assert_eq!((s0.sent(), e1.sent().len()), (vec![frame], 1));
    // A mirrored interface that is deleted takes its sessions along. A new one of the same name has none.
    say(&mut bed, "delete interface uplink");
    assert!(!bed.command("show running-config").unwrap().contains("span"));
}

/// The ports of [`bed6::bed`], and one that is a SPAN destination.
fn bed6() -> (Bed, [Port; 3], Port) {
    let (mut bed, ports) = bed6::bed();
    let listener = bed.port("s0", &[]);
    (bed, ports, listener)
}

#[test]
fn packets_of_ip6_are_copied_as_those_of_ip4() {
    let (mut bed, [e0, e1, _], s0) = bed6();
    let packet = Packet6::udp("2001:db8::2", "2001:db8:1::2", b"data of some length");
    let packet = packet.extension(HOP_BY_HOP, &[5, 2, 0, 0, 1, 0]);
    for (directions, copies) in [("rx", [1, 0]), ("tx", [0, 1]), ("both", [1, 1]), ("disable", [0, 0])] {
        say(&mut bed, &format!("set interface span e0 destination s0 {directions}"));
        let received = packet.frame(e0.mac, bed6::mac_of(0));
        e0.receive(received.clone());
        bed.run();
        assert_eq!(e1.sent(), [packet.clone().hops(63).frame(bed6::mac_of(1), e1.mac)]);
        assert_eq!(s0.sent(), vec![received; copies[0]], "{directions}");
        e1.receive(Packet6::udp("2001:db8:1::2", "2001:db8::2", b"back").frame(e1.mac, bed6::mac_of(1)));
        bed.run();
        let sent = e0.sent();
        assert_eq!(sent.len(), 1);
        assert_eq!(s0.sent(), vec![sent[0].clone(); copies[1]], "{directions}");
        assert_eq!(bed.buffers_in_use(), 0);
    }
}

#[test]
fn what_the_link_and_the_router_say_to_each_other_in_ip6_is_copied() {
    let (mut bed, [e0, ..], s0) = bed6();
    say(&mut bed, "set interface span e0 destination s0 both");
    let group = MacAddress([0x33, 0x33, 0xff, 0, 0, 1]);
    let target = crate::packet6::ip6(bed6::OURS).octets();
    let question = [&target[..], &link_option(1, bed6::mac_of(0))].concat();
    let question = Packet6::discovery("2001:db8::2", &solicited_group(bed6::OURS), 135, 0, &question);
    let question = question.frame(group, bed6::mac_of(0));
    e0.receive(question.clone());
    bed.run();
    let answer = [&target[..], &link_option(2, e0.mac)].concat();
    let answer = Packet6::discovery(bed6::OURS, "2001:db8::2", 136, 0xe000_0000, &answer);
    let answer = answer.frame(bed6::mac_of(0), e0.mac);
    assert_eq!(e0.sent(), std::slice::from_ref(&answer));
    assert_eq!(s0.sent(), [question, answer]);
    // The packet is dropped, but was copied unchanged.
    let mut stray = Packet6::udp("2001:db8::2", "ff0e::7", b"to a group").frame(e0.mac, bed6::mac_of(0));
    stray.extend([0xee; 9]);
    e0.receive(stray.clone());
    bed.run();
    assert_eq!((s0.sent(), e0.sent().len()), (vec![stray], 0));
    // A packet that the router itself sends.
    say(&mut bed, "ip6 nd e0 no ra-suppress");
    let said = e0.sent();
    assert!(said.iter().any(|frame| frame[54] == 134), "a router advertisement");
    assert_eq!(s0.sent(), said);
}

#[test]
fn long_segments_of_ip6_are_cut_for_who_listens() {
    let (mut bed, [e0, e1, _], s0) = bed6();
    let data: Vec<u8> = (0..1900).map(|n| (n * 7) as u8).collect();
    let packet = |n: u32, data: &[u8]| Packet6::tcp("2001:db8::2", "2001:db8:1::2", 1 + n, data);
    let whole = packet(0, &data);
    let mut arrival = Arrival::from(whole.frame(e0.mac, bed6::mac_of(0)));
    let sum = !checksum(&whole.pseudo_header());
    arrival.frame[70..72].copy_from_slice(&sum.to_be_bytes());
    arrival.flags = flag::SEGMENTED | flag::PARTIAL_CHECKSUM;
    arrival.offload = Offload {
        checksum_start: 40,
        checksum_offset: 16,
        segment_size: 800,
        header_length: 60,
        kind: Segmentation::Tcp6,
    };
    say(&mut bed, "set interface span e0 destination s0 rx");
    e0.receive(arrival);
    bed.run();
    let pieces = [packet(0, &data[..800]), packet(800, &data[800..1600]), packet(1600, &data[1600..])];
    assert_eq!(s0.sent(), pieces.clone().map(|piece| piece.frame(e0.mac, bed6::mac_of(0))));
    assert_eq!(e1.sent(), pieces.map(|piece| piece.hops(63).frame(bed6::mac_of(1), e1.mac)));
    assert_eq!(bed.buffers_in_use(), 0);
}
