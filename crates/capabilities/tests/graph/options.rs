//! IPv4 options: what is recorded, what is refused, what passes.

use crate::bed::{Bed, Port, error, host_mac};
use crate::packet::*;
use std::time::{SystemTime, UNIX_EPOCH};

fn to_e1(options: &[u8]) -> Packet {
    Packet::udp("10.0.0.2", "10.0.1.2", b"data").options(options)
}

/// The options of a frame.
fn options_of(frame: &[u8]) -> &[u8] {
    &frame[34..14 + (frame[14] & 0xf) as usize * 4]
}

/// What a packet of e0 is forwarded as, but for its options.
fn forwarded_with(frame: &[u8], options: &[u8], port: &Port) -> Vec<u8> {
    let mut expected = forwarded(frame, host_mac(ip("10.0.1.2")), port.mac);
    expected[34..34 + options.len()].copy_from_slice(options);
    seal(&mut expected, 14);
    expected
}

#[test]
fn the_address_of_the_interface_out_is_recorded() {
    for others in [0, 40] {
        let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
        let plain = Packet::udp("10.0.0.2", "10.0.1.2", b"plain");
        let frame = e0.receive_packet(&to_e1(&[1, 7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0]));
        let mut expected = vec![forwarded_with(&frame, &[1, 7, 11, 8, 10, 0, 1, 1, 0, 0, 0, 0], &e1)];
        for _ in 0..others {
            let frame = e0.receive_packet(&plain);
            expected.push(forwarded(&frame, host_mac(ip("10.0.1.2")), e1.mac));
        }
        assert_eq!(bed.errors_of(|_| {}), Default::default());
        // Plain packets do not take the way over the node of options, and come out first or last.
        let mut sent = e1.sent();
        sent.sort();
        expected.sort();
        assert_eq!(sent, expected);
    }
}

#[test]
fn what_has_no_room_passes_unchanged() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let full = [1, 7, 7, 8, 9, 9, 9, 9];
    let frame = e0.receive_packet(&to_e1(&full));
    bed.run();
    assert_eq!(e1.sent(), [forwarded_with(&frame, &full, &e1)]);
    let frame = e0.receive_packet(&to_e1(&[68, 8, 9, 0x10, 7, 7, 7, 7]));
    bed.run();
    assert_eq!(e1.sent(), [forwarded_with(&frame, &[68, 8, 9, 0x20, 7, 7, 7, 7], &e1)], "the lack is counted");
}

#[test]
fn the_time_is_recorded_in_milliseconds_of_the_day() {
    const DAY: i64 = 24 * 60 * 60 * 1000;
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let before = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64 % DAY;
    let frame = e0.receive_packet(&to_e1(&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]));
    e0.receive_packet(&to_e1(&[68, 12, 5, 3, 10, 0, 2, 1, 0, 0, 0, 0]));
    let of_another = [68, 12, 5, 3, 10, 0, 2, 9, 0, 0, 0, 0];
    e0.receive_packet(&to_e1(&of_another));
    bed.run();
    let after = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis() as i64 % DAY;
    let sent = e1.sent();
    assert_eq!(sent.len(), 3);
    for (sent, expected) in sent.iter().zip([[68, 12, 13, 1, 10, 0, 1, 1], [68, 12, 13, 3, 10, 0, 2, 1]]) {
        let options = options_of(sent);
        assert_eq!(options[..8], expected);
        let time = i64::from(u32::from_be_bytes(options[8..12].try_into().unwrap()));
        assert!(time < DAY && (time - before).rem_euclid(DAY) <= (after - before).rem_euclid(DAY), "{time}");
        assert_eq!(sent[..14], forwarded(&frame, host_mac(ip("10.0.1.2")), e1.mac)[..14]);
        assert_eq!(checksum(&sent[14..46]), 0);
    }
    assert_eq!(options_of(&sent[2]), of_another);
}

/// RFC 1122 3.2.2.6.
#[test]
fn an_echo_reply_carries_the_recorded_route_back() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let request = Packet::echo_request("10.0.0.2", "10.0.0.1", b"hello");
    e0.receive_packet(&request.clone().options(&[7, 11, 8, 10, 9, 9, 9, 0, 0, 0, 0, 0]));
    bed.run();
    let reply = Packet::new("10.0.0.1", "10.0.0.2", ICMP, &icmp(0, 0, 0x0042_0007, b"hello"));
    let reply = reply.options(&[7, 11, 12, 10, 9, 9, 9, 10, 0, 0, 1, 0]);
    assert_eq!(e0.sent(), [reply.frame(host_mac(ip("10.0.0.2")), e0.mac)]);
}

#[test]
fn options_that_are_not_known_and_the_router_alert_pass() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    for options in [&[148, 4, 0, 0][..], &[99, 6, 1, 2, 3, 4, 1, 1], &[0x86, 2, 0, 77], &[1, 1, 1, 1], &[0, 9, 9, 9]] {
        let frame = e0.receive_packet(&to_e1(options));
        assert_eq!(bed.errors_of(|_| {}), Default::default());
        assert_eq!(e1.sent(), [forwarded_with(&frame, options, &e1)]);
    }
}

/// The ICMP error that e0 sends about a packet of its host: its type, code and the word behind
/// the checksum; what it quotes is the packet as it came.
fn refused(port: &Port, about: &Packet) -> (u8, u8, u32) {
    let sent = port.sent();
    assert_eq!(sent.len(), 1, "{sent:02x?}");
    let message = &sent[0][34..];
    assert_eq!((checksum(&sent[0][14..34]), checksum(message)), (0, 0));
    assert_eq!(sent[0][26..34], [10, 0, 0, 1, 10, 0, 0, 2]);
    let quote = about.bytes();
    assert_eq!(message[8..8 + quote.len()], quote);
    (message[0], message[1], u32::from_be_bytes(message[4..8].try_into().unwrap()))
}

#[test]
fn each_malformation_is_counted_and_its_sender_told_where_it_is() {
    let cases: &[(&str, &[u8], u8)] = &[
        ("ip4 option without a length", &[1, 1, 1, 7], 23),
        ("ip4 option length too small", &[1, 99, 1, 0], 22),
        ("ip4 option length too small", &[7, 2, 0, 0], 21),
        ("ip4 option longer than the header", &[1, 1, 7, 7], 23),
        ("ip4 option pointer too small", &[7, 7, 3, 0, 0, 0, 0, 0], 22),
        ("ip4 option has no room for a whole entry", &[7, 7, 5, 0, 0, 0, 0, 0], 22),
        ("ip4 option appears twice", &[7, 3, 4, 7, 3, 4, 0, 0], 23),
        ("ip4 timestamp overflow", &[68, 4, 5, 0xf0], 23),
    ];
    for (name, options, at) in cases {
        let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
        for to in ["10.0.1.2", "10.0.0.1"] {
            let packet = Packet::udp("10.0.0.2", to, b"data").options(options);
            let mut moved = bed.errors_of(|_| drop(e0.receive_packet(&packet)));
            moved.retain(|(node, _), _| node != "ip4-icmp-error");
            assert_eq!(moved, error("ip4-options", name, 1));
            assert_eq!(refused(&e0, &packet), (12, 0, u32::from(*at) << 24), "{name}");
        }
        assert_eq!(e1.sent(), Vec::<Vec<u8>>::new());
    }
}

#[test]
fn source_routes_are_refused() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    // Loose and strict; to us with a way on, and worn out.
    for (to, options) in [
        ("10.0.1.2", [131, 7, 4, 10, 0, 1, 3, 0]),
        ("10.0.0.1", [137, 7, 4, 10, 0, 1, 2, 0]),
        ("10.0.0.1", [131, 7, 8, 10, 0, 1, 2, 0]),
    ] {
        let packet = Packet::udp("10.0.0.2", to, b"data").options(&options);
        let mut moved = bed.errors_of(|_| drop(e0.receive_packet(&packet)));
        moved.retain(|(node, _), _| node != "ip4-icmp-error");
        assert_eq!(moved, error("ip4-options", "ip4 source route refused", 1));
        assert_eq!(refused(&e0, &packet), (3, 5, 0));
    }
    assert_eq!(e1.sent(), Vec::<Vec<u8>>::new());
}

/// A packet that waits for its neighbour passes `ip4-rewrite` twice.
#[test]
fn a_hop_is_recorded_once_however_the_packet_gets_out() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let options = [7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let recorded = [7, 11, 8, 10, 0, 1, 1, 0, 0, 0, 0, 0];
    let packet = Packet::udp("10.0.0.2", "10.0.1.77", b"data").options(&options);
    let frame = e0.receive_packet(&packet);
    bed.run();
    e1.sent();
    bed.know(&e1, "10.0.1.77");
    bed.run();
    let mut expected = forwarded(&frame, host_mac(ip("10.0.1.77")), e1.mac);
    expected[34..46].copy_from_slice(&recorded);
    seal(&mut expected, 14);
    assert_eq!(e1.sent(), [expected]);
    // Of a packet that is cut the first fragment has the route, and so its record.
    bed.router.set_mtu(e1.index, 576).unwrap();
    e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.1.2", &[7; 1000]).options(&options));
    bed.run();
    let sent = e1.sent();
    assert_eq!(sent.len(), 2);
    assert_eq!(options_of(&sent[0]), recorded);
    assert!(options_of(&sent[1]).is_empty());
    assert!(sent.iter().all(|frame| checksum(&frame[14..14 + (frame[14] & 0xf) as usize * 4]) == 0));
}

#[test]
fn sources_of_packets_with_options_are_checked_too() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.command("set urpf ip4 rx strict e0").unwrap();
    let forged = Packet::udp("10.0.2.2", "10.0.1.2", b"data").options(&[148, 4, 0, 0]);
    let moved = bed.errors_of(|_| drop(e0.receive_packet(&forged)));
    assert_eq!(moved, error("ip4-rx-urpf", "uRPF drop (strict)", 1));
    assert_eq!(e1.sent(), Vec::<Vec<u8>>::new());
}
