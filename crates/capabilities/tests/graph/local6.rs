//! IPv6 packets to the router itself: which node receives them, and what the router answers when none does.

use crate::bed::{Arrival, Port, error};
use crate::bed6::{LINK_LOCAL, OURS, bed, mac_of, padding, send, told};
use crate::local::{ACK, FIN, RST, SYN, listen};
use crate::packet::TCP;
use crate::packet6::*;
use graph::flag;
use protocols::local;
use wire::Family;

const HOST: &str = "2001:db8::2";

fn udp(to: &str) -> Packet6 {
    Packet6::udp(HOST, to, b"some data")
}

#[test]
fn a_datagram_goes_to_whoever_listens_to_its_port() {
    let (mut bed, ports) = bed();
    let heard = listen(&mut bed, Family::Ip6);
    send(&ports, &udp(OURS));
    // With extension headers; to another address of ours; to a link-local one; to a group; padded beyond its length.
    send(&ports, &udp(OURS).extension(HOP_BY_HOP, &padding(6)).extension(OPTIONS, &padding(14)));
    send(&ports, &udp("2001:db8:1::1"));
    send(&ports, &udp(LINK_LOCAL));
    send(&ports, &udp("ff02::1"));
    let mut padded = udp(OURS);
    padded.payload.extend(b"padding");
    send(&ports, &padded);
    // In an atomic fragment, and in two fragments after options.
    send(&ports, &udp(OURS).fragment(0, false, 1));
    for (offset, more, data) in [(0, true, 0..8), (8, false, 8..17)] {
        let whole = udp(OURS);
        let part = Packet6 { payload: whole.payload[data].to_vec(), ..whole };
        send(&ports, &part.extension(HOP_BY_HOP, &padding(6)).fragment(offset, more, 2));
    }
    let moved = bed.errors_of(|_| {});
    let mut expected = error("test-listener", "taken by a test", 8);
    expected.extend(error("ip6-local-full-reassembly", "successful reassemblies", 1));
    assert_eq!(moved, expected);
    assert_eq!(*heard.lock().unwrap(), vec![b"some data".to_vec(); 8]);
    // No node listens on another port, nor on this one in the other family.
    let mut other = udp(OURS);
    other.payload[3] += 1;
    assert_eq!(told(&mut bed, &ports, &other.sealed_at(6)).0, 1);
    local::unlisten_udp(&mut bed.router, Family::Ip4, 2000);
    send(&ports, &udp(OURS));
    assert_eq!(bed.errors_of(|_| {}), error("test-listener", "taken by a test", 1));
    local::unlisten_udp(&mut bed.router, Family::Ip6, 2000);
    send(&ports, &udp(OURS));
    assert_eq!(bed.errors_of(|_| {}), error("ip6-icmp-error", "ICMPv6 port unreachable sent", 1));
}

#[test]
fn an_error_is_from_the_address_to_which_the_packet_was() {
    // RFC 4443 2.2 (a).
    let (mut bed, ports) = bed();
    for us in [OURS, "2001:db8:1::1"] {
        send(&ports, &udp(us));
        bed.run();
        let expected = Packet6::icmp(us, HOST, (1, 4), 0, &udp(us).bytes());
        assert_eq!(ports[0].sent(), [expected.frame(mac_of(0), ports[0].mac)]);
    }
}

#[test]
fn each_family_has_listeners_of_its_own() {
    let (mut bed, ports) = bed();
    listen(&mut bed, Family::Ip4);
    send(&ports, &udp(OURS));
    assert_eq!(bed.errors_of(|_| {}), error("ip6-icmp-error", "ICMPv6 port unreachable sent", 1));
    local::listen_udp(&mut bed.router, Family::Ip6, 2000, "test-listener", "another test").unwrap();
    let refused = local::listen_udp(&mut bed.router, Family::Ip6, 2000, "test-listener", "one more").unwrap_err();
    assert_eq!(refused.to_string(), "UDP port 2000 is listened to already: another test");
    let shown = bed.command("show udp ports").unwrap();
    let lines: Vec<_> = shown.lines().skip(1).collect();
    let expected =
        [" 2000  UDP4  test-listener            a test", " 2000  UDP6  test-listener            another test"];
    assert_eq!(lines, expected);
    let shown = bed.command("show ip6 local").unwrap();
    assert_eq!(shown, "Protocols handled by ip6_local\nUDP: ip6-udp-lookup\nICMP6: ip6-icmp-input\n");
}

#[test]
fn a_datagram_in_several_buffers_is_summed_over_all_of_them() {
    let (mut bed, ports) = bed();
    listen(&mut bed, Family::Ip6);
    let frame = Packet6::udp(HOST, OURS, &[7; 3000]).frame(ports[0].mac, mac_of(0));
    let mut altered = frame.clone();
    *altered.last_mut().unwrap() ^= 1;
    for (frame, counted) in
        [(frame, ("test-listener", "taken by a test")), (altered, ("ip6-udp-lookup", "bad udp checksum"))]
    {
        let parts = [1001, frame.len() - 1001];
        ports[0].receive(Arrival::from(frame).in_parts(&parts));
        assert_eq!(bed.errors_of(|_| {}), error(counted.0, counted.1, 1));
    }
    assert_eq!(bed.buffers_in_use(), 0);
}

/// A packet whose checksum is left to the device. `at` is its place in the payload.
fn begun(port: &Port, mut packet: Packet6, at: u16) -> Arrival {
    packet.payload[at.into()..usize::from(at) + 2].fill(0);
    let mut arrival = Arrival::from(packet.frame(port.mac, mac_of(0)));
    arrival.flags = flag::PARTIAL_CHECKSUM;
    (arrival.offload.checksum_start, arrival.offload.checksum_offset) = (40, at);
    arrival
}

#[test]
fn a_checksum_that_is_left_to_a_device_is_not_asked_for() {
    let (mut bed, ports) = bed();
    listen(&mut bed, Family::Ip6);
    ports[0].receive(begun(&ports[0], udp(OURS), 6));
    assert_eq!(bed.errors_of(|_| {}), error("test-listener", "taken by a test", 1));
    ports[0].receive(begun(&ports[0], segment(100, SYN, b""), 16));
    bed.run();
    let sent = ports[0].sent_whole();
    assert_eq!((sent.len(), sent[0].flags), (1, 0), "nothing is left to the device");
    assert_eq!(sent[0].frame, reset(&ports[0], 0, 101, RST | ACK));
}

/// A TCP segment to port 2000 of the router with these flags.
fn segment(sequence: u32, flags: u8, data: &[u8]) -> Packet6 {
    let mut packet = Packet6::tcp(HOST, OURS, sequence, data);
    packet.payload[13] = flags;
    packet.sealed_at(16)
}

/// The reset to such a segment, from the IPv6 header on.
fn reset_between(us: &str, sender: &str, sequence: u32, acknowledged: u32, flags: u8) -> Packet6 {
    let ports = [0x07, 0xd0, 0x03, 0xe8];
    let words = [&ports[..], &sequence.to_be_bytes(), &acknowledged.to_be_bytes(), &[0x50, flags], &[0; 6]].concat();
    Packet6::new(us, sender, TCP, &words).sealed_at(16)
}

fn reset(e0: &Port, sequence: u32, acknowledged: u32, flags: u8) -> Vec<u8> {
    reset_between(OURS, HOST, sequence, acknowledged, flags).frame(mac_of(0), e0.mac)
}

#[test]
fn a_segment_to_nobody_is_answered_with_the_reset_that_its_sender_accepts() {
    let (mut bed, ports) = bed();
    let e0 = &ports[0];
    // RFC 9293 3.10.7.1: the reset acknowledges SYN, data and FIN. It takes its sequence number from a segment with
    // ACK.
    let cases = [
        (segment(100, SYN, b""), reset(e0, 0, 101, RST | ACK)),
        (segment(u32::MAX, SYN | FIN, b"abc"), reset(e0, 0, 4, RST | ACK)),
        (segment(100, ACK, b"hello"), reset(e0, 9, 0, RST)),
        // Extension headers are no part of the segment, nor of the reset.
        (segment(100, SYN, b"abc").extension(OPTIONS, &padding(14)), reset(e0, 0, 104, RST | ACK)),
        (segment(100, SYN, b"").fragment(0, false, 1), reset(e0, 0, 101, RST | ACK)),
    ];
    for (packet, answer) in cases {
        send(&ports, &packet);
        let moved = bed.errors_of(|_| {});
        assert_eq!(e0.sent(), [answer]);
        assert_eq!(moved, error("tcp6-reset", "TCP resets sent", 1));
    }
    // In several buffers, of which the reset keeps one.
    let frame = segment(100, 0, &[3; 3000]).frame(e0.mac, mac_of(0));
    let parts = [2048, frame.len() - 2048];
    e0.receive(Arrival::from(frame).in_parts(&parts));
    bed.run();
    assert_eq!(e0.sent(), [reset(e0, 0, 3100, RST | ACK)]);
    assert_eq!(bed.buffers_in_use(), 0);
}

#[test]
fn a_reset_between_link_local_addresses_stays_on_their_link() {
    let (mut bed, ports) = bed();
    bed.command("ip6 neighbor e0 fe80::9 02:bb:00:00:00:09").unwrap();
    bed.run();
    let mac = wire::MacAddress([2, 0xbb, 0, 0, 0, 9]);
    for (us, sender) in [(LINK_LOCAL, "fe80::9"), (OURS, "fe80::9"), (LINK_LOCAL, HOST)] {
        let mut packet = Packet6::tcp(sender, us, 100, b"");
        packet.payload[13] = SYN;
        send(&ports, &packet.sealed_at(16));
        bed.run();
        let to = if sender == HOST { mac_of(0) } else { mac };
        let expected = reset_between(us, sender, 0, 101, RST | ACK).frame(to, ports[0].mac);
        assert_eq!(ports[0].sent(), [expected], "{us} to {sender}");
    }
}

#[test]
fn resets_are_limited_by_the_rate_of_errors() {
    let (mut bed, ports) = bed();
    bed.command("set ip icmp error-rate 50 burst 20").unwrap();
    bed.run();
    (0..1000).for_each(|_| send(&ports, &segment(1, SYN, b"")));
    let start = std::time::Instant::now();
    let errors = bed.errors_of(|_| {});
    let most = 20 + (start.elapsed().as_secs_f64() * 50.0) as u64 + 1;
    let sent = ports[0].sent().len() as u64;
    assert!((20..=most).contains(&sent), "{sent} sent, at most {most}");
    let mut expected = error("tcp6-reset", "TCP resets limited by rate", 1000 - sent);
    expected.extend(error("tcp6-reset", "TCP resets sent", sent));
    assert_eq!(errors, expected);
}
