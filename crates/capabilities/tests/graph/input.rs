//! Packets that `ip4-input` accepts. `drops` tests those that it drops.

use crate::bed::{Bed, error, host_mac};
use crate::packet::*;
use drivers::pg::{Content, Stream};
use features::packet_generator::entry;

/// Sends each packet alone and among plain ones, because a plain vector takes a faster path.
fn passes(packet: &Packet) {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    for others in [0, 40] {
        let plain = Packet::udp("10.0.0.2", "10.0.1.2", b"plain");
        let mut frames: Vec<_> = (0..others).map(|_| e0.receive_packet(&plain)).collect();
        frames.push(e0.receive_packet(packet));
        frames.extend((0..others).map(|_| e0.receive_packet(&plain)));
        let expected: Vec<_> = frames.iter().map(|frame| forwarded(frame, host_mac(ip("10.0.1.2")), e1.mac)).collect();
        assert_eq!(bed.errors_of(|_| {}), Default::default());
        assert_eq!(e1.sent(), expected);
    }
}

#[test]
fn directed_broadcasts_go_on_where_that_is_enabled_and_nowhere_else() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let refused = error("ip4-lookup", "directed broadcast not sent on", 1);
    let to_all = Packet::udp("10.0.0.2", "10.0.1.255", b"wake up");
    let send = |bed: &mut Bed| {
        let frame = e0.receive_packet(&to_all);
        (bed.errors_of(|_| {}), frame)
    };
    assert_eq!(send(&mut bed).0, refused);
    bed.command("set interface ip directed-broadcast e1 enable").unwrap();
    let (moved, frame) = send(&mut bed);
    assert_eq!(moved, Default::default());
    assert_eq!(e1.sent(), [forwarded(&frame, wire::MacAddress::BROADCAST, e1.mac)]);
    // A link broadcast is not forwarded as another network's broadcast (RFC 1812 5.3.4).
    e0.receive(ethernet(wire::MacAddress::BROADCAST, host_mac(ip("10.0.0.2")), 0x0800, &to_all.bytes()));
    assert_eq!(bed.errors_of(|_| {}), error("ip4-rewrite", "group-addressed frame is not forwarded", 1));
    // The setting does not apply to other interfaces.
    e1.receive_packet(&Packet::udp("10.0.1.2", "10.0.0.255", b"wake up"));
    assert_eq!(bed.errors_of(|_| {}), refused);
    // The setting follows the interface's state and its Ethernet address.
    bed.router.set_mac(e1.index, wire::MacAddress([2, 9, 9, 9, 9, 9])).unwrap();
    bed.run();
    e1.sent();
    let frame = send(&mut bed).1;
    let from = wire::MacAddress([2, 9, 9, 9, 9, 9]);
    assert_eq!(e1.sent(), [forwarded(&frame, wire::MacAddress::BROADCAST, from)]);
    bed.router.set_admin(e1.index, false).unwrap();
    assert_eq!(send(&mut bed).0, refused);
    bed.router.set_admin(e1.index, true).unwrap();
    bed.command("set interface ip directed-broadcast e1 disable").unwrap();
    assert_eq!(send(&mut bed).0, refused);
}

#[test]
fn fragments_that_make_sense_pass() {
    let fragment = |protocol, data, word| {
        passes(&Packet::new("10.0.0.2", "10.0.1.2", protocol, &vec![7; data]).fragment(word));
    };
    // The least that a first fragment of TCP must contain, and the fragment after it.
    fragment(TCP, 16, MORE_FRAGMENTS);
    fragment(TCP, 1, 2);
    // Other protocols may be fragmented at byte 8, which is pointless but harmless.
    fragment(UDP, 8, MORE_FRAGMENTS);
    fragment(UDP, 8, MORE_FRAGMENTS | 1);
    // RFC 791 lets a fragment forbid further fragmentation.
    fragment(UDP, 8, MORE_FRAGMENTS | DONT_FRAGMENT);
    // The last byte that a datagram can have: 20 + 8184 * 8 + 43 = 65535.
    fragment(UDP, 43, 8184);
    // The reserved bit is ignored (RFC 1812 4.2.2.3).
    fragment(UDP, 5, 0x8000);
}

#[test]
fn the_addresses_next_to_martians_pass() {
    for source in ["1.0.0.0", "126.255.255.255", "128.0.0.0", "223.255.255.255"] {
        passes(&Packet::udp(source, "10.0.1.2", b"x"));
    }
    for (route, destination) in
        [("1.0.0.0/8", "1.0.0.0"), ("126.0.0.0/8", "126.255.255.255"), ("128.0.0.0/8", "128.0.0.0")]
    {
        let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
        bed.route(route, &["10.0.1.2"]);
        let frame = e0.receive_packet(&Packet::udp("10.0.0.2", destination, b"x"));
        bed.run();
        assert_eq!(e1.sent(), [forwarded(&frame, host_mac(ip("10.0.1.2")), e1.mac)]);
    }
}

#[test]
fn a_broadcast_to_all_on_the_link_is_for_us_and_goes_no_further() {
    let (mut bed, [e0, e1, e2]) = Bed::with_three_ports();
    bed.route("0.0.0.0/0", &["10.0.1.2"]);
    // Neither a DHCP client's broadcast nor a ping is answered or forwarded, whatever the Ethernet destination.
    for source in ["0.0.0.0", "10.0.0.9"] {
        for to in [e0.mac, wire::MacAddress::BROADCAST] {
            let question = Packet::udp(source, "255.255.255.255", b"who has an address for me?");
            e0.receive(question.frame(to, host_mac(question.source)));
            let ping = Packet::echo_request(source, "255.255.255.255", b"data");
            e0.receive(ping.frame(to, host_mac(ping.source)));
        }
    }
    bed.run();
    for port in [e0, e1, e2] {
        assert_eq!(port.sent(), Vec::<Vec<u8>>::new());
    }
    assert_eq!(bed.buffers_in_use(), 0);
}

#[test]
fn a_broadcast_to_the_network_that_it_came_from_is_for_us() {
    let (mut bed, [e0, e1, e2]) = Bed::with_three_ports();
    let all = wire::MacAddress::BROADCAST;
    let send = |bed: &mut Bed, packet: &Packet, to| {
        let frame = packet.frame(to, host_mac(packet.source));
        bed.errors_of(|_| e0.receive(frame))
    };
    let refused = error("ip4-lookup", "directed broadcast not sent on", 1);
    // Neither directed broadcasts nor source checks, when enabled, make a difference.
    for command in ["", "set interface ip directed-broadcast e0 enable", "set urpf ip4 rx strict e0"] {
        if !command.is_empty() {
            bed.command(command).unwrap();
        }
        let ping = |to| Packet::echo_request("10.0.0.2", to, b"data");
        let ignored = error("ip4-icmp-input", "ICMP echo to a group address ignored", 1);
        assert_eq!(send(&mut bed, &ping("10.0.0.255"), all), ignored);
        // No node listens on the port: as with the limited broadcast, no error is sent.
        let unheard = send(&mut bed, &Packet::udp("10.0.0.2", "255.255.255.255", b"rip"), all);
        assert_eq!(send(&mut bed, &Packet::udp("10.0.0.2", "10.0.0.255", b"rip"), all), unheard);
        assert!(unheard != refused && unheard.len() == 1, "{unheard:?}");
        let with_options = ping("10.0.0.255").options(&[1, 1, 1, 0]);
        assert_eq!(send(&mut bed, &with_options, all), ignored);
        // The broadcast address of another network is not for us, whatever the Ethernet destination.
        let elsewhere = send(&mut bed, &Packet::udp("10.0.0.2", "10.0.1.255", b"rip"), all);
        assert_eq!(elsewhere, refused);
    }
    for port in [e0, e1, e2] {
        assert_eq!(port.sent(), Vec::<Vec<u8>>::new());
    }
    assert_eq!(bed.buffers_in_use(), 0);
}

#[test]
fn ttl_0_is_told_apart_from_ttl_1_and_both_are_for_us_to_take() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let time_exceeded = error("ip4-icmp-error", "ICMP time exceeded sent", 1);
    let moved = bed.errors_of(|_| drop(e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.1.2", b"x").ttl(1))));
    assert_eq!(moved, time_exceeded);
    let moved = bed.errors_of(|_| drop(e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.1.2", b"x").ttl(0))));
    let mut expected = error("ip4-rewrite", "ip4 ttl 0 received", 1);
    expected.extend(time_exceeded);
    assert_eq!(moved, expected);
    assert_eq!((e0.sent().len(), e1.sent().len()), (2, 0));
    for ttl in [0, 1] {
        e0.receive_packet(&Packet::echo_request("10.0.0.2", "10.0.0.1", b"data").ttl(ttl));
    }
    assert_eq!(bed.errors_of(|_| {}), error("ip4-icmp-input", "echo replies sent", 2));
    assert_eq!(e0.sent().len(), 2);
}

/// Streams of IPv4 packets that enter at `ip4-input-no-checksum`, where drivers put packets with a verified checksum,
/// or at `ip4-input`.
#[test]
fn a_verified_checksum_is_not_looked_at_again() {
    let good = Packet::udp("10.0.0.2", "10.0.1.2", b"x");
    let with_options = good.clone().options(&[1; 8]);
    for packet in [good, with_options] {
        for (entry, passes) in [(entry::IP4, false), (entry::IP4_NO_CHECKSUM, true)] {
            let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
            let mut bytes = packet.bytes();
            bytes[10] ^= 0x40;
            let mut stream = Stream::new("s", e0.index, Content::Replay(vec![bytes.clone()]));
            (stream.entry, stream.limit) = (entry, 3);
            features::packet_generator::add(&mut bed.router, stream, 0, String::new(), Vec::new()).unwrap();
            let moved = bed.errors_of(|bed| features::packet_generator::enable(&mut bed.router, None, true).unwrap());
            // The checksum is as wrong after forwarding as before.
            bytes[8] -= 1;
            let expected = [&[0; 0][..], &host_mac(ip("10.0.1.2")).0, &e1.mac.0, &[8, 0], &bytes].concat();
            let sent = e1.sent();
            match passes {
                true => {
                    assert_eq!((moved, sent.len()), (Default::default(), 3));
                    assert_eq!(sent[0][..24], expected[..24]);
                    assert_eq!(sent[0][26..], expected[26..]);
                    assert_ne!(checksum(&sent[0][14..14 + bytes.len() - packet.payload.len()]), 0);
                }
                false => assert_eq!((moved, sent.len()), (error("ip4-input", "bad ip4 checksum", 3), 0)),
            }
        }
    }
}

/// All other checks are made, even when the device has verified the checksum.
#[test]
fn without_a_checksum_the_other_checks_are_the_same() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let martian = Packet::udp("127.0.0.1", "10.0.1.2", b"x").bytes();
    let mut version = Packet::udp("10.0.0.2", "10.0.1.2", b"x").bytes();
    version[0] = 0x65;
    let mut stream = Stream::new("s", e0.index, Content::Replay(vec![martian, version]));
    (stream.entry, stream.limit) = (entry::IP4_NO_CHECKSUM, 2);
    features::packet_generator::add(&mut bed.router, stream, 0, String::new(), Vec::new()).unwrap();
    let moved = bed.errors_of(|bed| features::packet_generator::enable(&mut bed.router, None, true).unwrap());
    let mut expected = error("ip4-input-no-checksum", "source martian", 1);
    expected.extend(error("ip4-input-no-checksum", "ip4 version != 4", 1));
    assert_eq!(moved, expected);
}
