//! ICMP: echo replies, errors to senders, and packets that cause no error.

use crate::bed::{Arrival, Bed, Port, error, host_mac};
use crate::packet::*;
use router::ip::control::PathAction;
use std::time::Instant;

/// The error that the router sends from e0 to 10.0.0.2 about a packet, from the Ethernet header on. `id` is the
/// identification of the router's own packet.
fn error_about(e0: &Port, kind: u8, code: u8, rest: u32, quote: &[u8], id: u16) -> Vec<u8> {
    let mut packet = Packet::new("10.0.0.1", "10.0.0.2", ICMP, &icmp(kind, code, rest, quote));
    // RFC 1812 4.3.2.5: precedence internetwork control.
    packet.tos = 0xc0;
    packet.id = id;
    packet.frame(host_mac(packet.destination), e0.mac)
}

fn udp(to: &str) -> Packet {
    Packet::udp("10.0.0.2", to, b"some data")
}

#[test]
fn echo_is_answered_byte_for_byte() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    for size in [0, 1, 8, 56, 999, 1472] {
        let data: Vec<u8> = (0..size).map(|n| n as u8).collect();
        let request = Packet::echo_request("10.0.0.2", "10.0.0.1", &data).ttl(17);
        let mut frame = request.frame(e0.mac, host_mac(request.source));
        frame.resize(frame.len().max(60), 0);
        e0.receive(frame);
        bed.run();
        let mut reply = Packet::new("10.0.0.1", "10.0.0.2", ICMP, &icmp(0, 0, 0x0042_0007, &data));
        reply.ttl = 64;
        assert_eq!(e0.sent(), [reply.frame(host_mac(request.source), e0.mac)]);
    }
    let errors = bed.errors();
    assert_eq!(errors, error("ip4-icmp-input", "echo replies sent", 6));
}

#[test]
fn echo_is_answered_at_every_address_from_that_address() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    for ours in ["10.0.1.1", "10.0.2.1"] {
        e0.receive_packet(&Packet::echo_request("10.0.0.2", ours, b"hello"));
        bed.run();
        let reply = Packet::new(ours, "10.0.0.2", ICMP, &icmp(0, 0, 0x0042_0007, b"hello"));
        assert_eq!(e0.sent(), [reply.frame(host_mac(ip("10.0.0.2")), e0.mac)]);
    }
}

#[test]
fn long_echo_in_several_buffers_is_answered() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.router.set_mtu(e0.index, 9000).unwrap();
    let data: Vec<u8> = (0..5001u32).map(|n| (n * 7) as u8).collect();
    let request = Packet::echo_request("10.0.0.2", "10.0.0.1", &data);
    let frame = request.frame(e0.mac, host_mac(request.source));
    // Odd lengths: the later buffers start in the middle of a checksum word.
    e0.receive(Arrival::from(frame.clone()).in_parts(&[2047, 1001, frame.len() - 3048]));
    bed.run();
    let reply = Packet::new("10.0.0.1", "10.0.0.2", ICMP, &icmp(0, 0, 0x0042_0007, &data));
    assert_eq!(e0.sent(), [reply.frame(host_mac(request.source), e0.mac)]);
    assert_eq!(bed.buffers_in_use(), 0);
}

#[test]
fn a_packet_for_us_may_arrive_with_its_last_hop() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    for ttl in [1, 0] {
        e0.receive_packet(&Packet::echo_request("10.0.0.2", "10.0.0.1", b"hello").ttl(ttl));
        bed.run();
        let reply = Packet::new("10.0.0.1", "10.0.0.2", ICMP, &icmp(0, 0, 0x0042_0007, b"hello"));
        assert_eq!(e0.sent(), [reply.frame(host_mac(ip("10.0.0.2")), e0.mac)]);
    }
}

#[test]
fn a_packet_without_hops_left_is_answered_with_time_exceeded() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    for (id, ttl) in [(1, 1), (2, 0)] {
        let packet = udp("10.0.1.2").ttl(ttl);
        e0.receive_packet(&packet);
        bed.run();
        assert_eq!(e0.sent(), [error_about(&e0, 11, 0, 0, &packet.bytes(), id)]);
        assert_eq!(e1.sent(), Vec::<Vec<u8>>::new());
    }
}

#[test]
fn traceroute_sees_the_address_of_the_interface_that_it_came_by() {
    let (mut bed, [e0, e1, e2]) = Bed::with_three_ports();
    for (port, from) in [(&e1, "10.0.1.2"), (&e2, "10.0.2.2")] {
        port.receive_packet(&Packet::udp(from, "10.0.0.2", b"x").ttl(1));
        bed.run();
        let sent = port.sent();
        assert_eq!(sent[0][26..29], ip(from).octets()[..3]);
        assert_eq!(sent[0][29], 1);
    }
    assert_eq!(e0.sent(), Vec::<Vec<u8>>::new());
}

#[test]
fn no_route_is_network_unreachable_and_a_refusing_route_host_unreachable() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.route_way("22.0.0.0/8", PathAction::Unreachable);
    bed.route_way("23.0.0.0/8", PathAction::Prohibit);
    for (id, to, code) in [(1, "99.1.2.3", 0), (2, "22.1.2.3", 1), (3, "23.1.2.3", 13)] {
        let packet = udp(to);
        e0.receive_packet(&packet);
        bed.run();
        assert_eq!(e0.sent(), [error_about(&e0, 3, code, 0, &packet.bytes(), id)]);
    }
}

#[test]
fn nobody_listening_is_port_unreachable_and_no_protocol_protocol_unreachable() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let ospf = Packet::new("10.0.0.2", "10.0.0.1", 89, b"hello");
    for (id, packet, code) in [(1, udp("10.0.0.1"), 3), (2, ospf, 2)] {
        e0.receive_packet(&packet);
        bed.run();
        assert_eq!(e0.sent(), [error_about(&e0, 3, code, 0, &packet.bytes(), id)]);
    }
}

#[test]
fn a_packet_too_long_that_must_not_be_cut_is_answered_with_the_mtu() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.router.set_mtu(e1.index, 1000).unwrap();
    let of_size = |size: usize| Packet::udp("10.0.0.2", "10.0.1.2", &vec![1; size - 28]).fragment(DONT_FRAGMENT);
    e0.receive_packet(&of_size(1000));
    e0.receive_packet(&of_size(1001));
    bed.run();
    assert_eq!(e1.sent().len(), 1);
    assert_eq!(e0.sent(), [error_about(&e0, 3, 4, 1000, &of_size(1001).bytes()[..548], 1)]);
}

#[test]
fn the_quote_is_as_long_as_fits_576_bytes() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    for (id, size) in [(1, 28), (2, 547), (3, 548), (4, 549), (5, 1500)] {
        let packet = Packet::udp("10.0.0.2", "99.0.0.1", &vec![1; size - 28]);
        e0.receive_packet(&packet);
        bed.run();
        assert_eq!(e0.sent(), [error_about(&e0, 3, 0, 0, &packet.bytes()[..size.min(548)], id)]);
    }
    // Neither padding nor data of later buffers is quoted.
    let packet = Packet::udp("10.0.0.2", "99.0.0.1", b"");
    let mut frame = packet.frame(e0.mac, host_mac(packet.source));
    frame.resize(60, 0xee);
    e0.receive(frame);
    bed.run();
    assert_eq!(e0.sent(), [error_about(&e0, 3, 0, 0, &packet.bytes(), 6)]);
    let packet = Packet::udp("10.0.0.2", "99.0.0.1", &[3; 3000]);
    let frame = packet.frame(e0.mac, host_mac(packet.source));
    e0.receive(Arrival::from(frame.clone()).in_parts(&[2048, frame.len() - 2048]));
    bed.run();
    assert_eq!(e0.sent(), [error_about(&e0, 3, 0, 0, &packet.bytes()[..548], 7)]);
    assert_eq!(bed.buffers_in_use(), 0);
}

#[test]
fn packets_with_options_are_quoted_with_them() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let packet = udp("99.0.0.1").options(&[1; 40]);
    e0.receive_packet(&packet);
    bed.run();
    assert_eq!(e0.sent(), [error_about(&e0, 3, 0, 0, &packet.bytes(), 1)]);
}

#[test]
fn queries_are_told_of_though_they_are_icmp() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    for (id, kind) in [(1, 8), (2, 0), (3, 13)] {
        let packet = Packet::new("10.0.0.2", "99.0.0.1", ICMP, &icmp(kind, 0, 0, b"data"));
        e0.receive_packet(&packet);
        bed.run();
        assert_eq!(e0.sent(), [error_about(&e0, 3, 0, 0, &packet.bytes(), id)]);
    }
}

#[test]
fn nothing_is_said_about_errors_later_fragments_and_groups() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    for kind in [3, 4, 5, 11, 12] {
        let message = icmp(kind, 0, 0, &udp("10.0.1.2").bytes());
        e0.receive_packet(&Packet::new("10.0.0.2", "99.0.0.1", ICMP, &message));
        e0.receive_packet(&Packet::new("10.0.0.2", "99.0.0.1", ICMP, &message).options(&[1; 12]));
    }
    e0.receive_packet(&udp("99.0.0.1").fragment(1));
    e0.receive_packet(&udp("99.0.0.1").fragment(MORE_FRAGMENTS | 1));
    for group in ["224.0.0.1", "239.1.1.1", "255.255.255.255"] {
        e0.receive_packet(&udp(group));
    }
    for source in ["0.0.0.0", "127.0.0.1", "224.0.0.1", "240.0.0.1", "255.255.255.255"] {
        e0.receive_packet(&Packet::udp(source, "99.0.0.1", b"x"));
    }
    bed.run();
    assert_eq!(e0.sent(), Vec::<Vec<u8>>::new());
    // A first fragment has the ports, so its sender gets an error.
    let first = Packet::udp("10.0.0.2", "99.0.0.1", b"16 bytes").fragment(MORE_FRAGMENTS);
    e0.receive_packet(&first);
    bed.run();
    assert_eq!(e0.sent(), [error_about(&e0, 3, 0, 0, &first.bytes(), 1)]);
}

#[test]
fn what_was_sent_is_counted_by_its_name() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.route_way("22.0.0.0/8", PathAction::Unreachable);
    bed.router.set_mtu(e1.index, 1000).unwrap();
    let long = Packet::udp("10.0.0.2", "10.0.1.2", &[1; 1200]).fragment(DONT_FRAGMENT);
    let cases = [
        ("ICMP time exceeded sent", udp("10.0.1.2").ttl(1)),
        ("ICMP net unreachable sent", udp("99.1.2.3")),
        ("ICMP host unreachable sent", udp("22.1.2.3")),
        ("ICMP protocol unreachable sent", Packet::new("10.0.0.2", "10.0.0.1", 89, b"hello")),
        ("ICMP port unreachable sent", udp("10.0.0.1")),
        ("ICMP fragmentation needed sent", long),
    ];
    for (name, packet) in cases {
        let mut moved = bed.errors_of(|_| drop(e0.receive_packet(&packet)));
        // `ip4-rewrite`, which found the fault, counts it, too.
        moved.retain(|(node, _), _| node != "ip4-rewrite");
        assert_eq!(moved, error("ip4-icmp-error", name, 1));
    }
}

#[test]
fn errors_are_limited_by_rate() {
    const RATE: f64 = 1000.0;
    const BURST: u64 = 100;
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    (0..2000).for_each(|_| drop(e0.receive_packet(&udp("99.0.0.1"))));
    let start = Instant::now();
    let errors = bed.errors_of(|_| {});
    let most = BURST + (start.elapsed().as_secs_f64() * RATE) as u64 + 1;
    let sent = e0.sent().len() as u64;
    assert!((BURST..=most).contains(&sent), "{sent} sent, at most {most}");
    let mut expected = error("ip4-icmp-error", "ICMP errors limited by rate", 2000 - sent);
    expected.extend(error("ip4-icmp-error", "ICMP net unreachable sent", sent));
    assert_eq!(errors, expected);
    // After a pause the rate allows some more.
    std::thread::sleep(std::time::Duration::from_millis(20));
    e0.receive_packet(&udp("99.0.0.1"));
    bed.run();
    assert_eq!(e0.sent().len(), 1);
}

#[test]
fn an_answer_goes_by_the_routes_to_the_asker() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.route("50.0.0.0/8", &["10.0.1.2"]);
    let request = Packet::echo_request("50.1.2.3", "10.0.0.1", b"hello");
    e0.receive_packet(&request);
    bed.run();
    let reply = Packet::new("10.0.0.1", "50.1.2.3", ICMP, &icmp(0, 0, 0x0042_0007, b"hello"));
    assert_eq!(e1.sent(), [reply.frame(host_mac(ip("10.0.1.2")), e1.mac)]);
    assert_eq!(e0.sent(), Vec::<Vec<u8>>::new());
}

/// The same as [`error_about`], from another port and address to another host.
fn error_from(port: &Port, us: &str, to: &str, hop: &str, quote: &[u8], id: u16) -> Vec<u8> {
    let mut packet = Packet::new(us, to, ICMP, &icmp(3, 0, 0, quote));
    (packet.tos, packet.id) = (0xc0, id);
    packet.frame(host_mac(ip(hop)), port.mac)
}

#[test]
fn an_error_is_from_the_interface_by_which_it_leaves() {
    let (mut bed, [e0, e1, e2]) = Bed::with_three_ports();
    bed.router.add_address(e1.index, "10.1.1.1/24".parse().unwrap()).unwrap();
    bed.know(&e1, "10.1.1.2");
    bed.route("50.0.0.0/8", &["10.0.1.2"]);
    bed.route("51.0.0.0/8", &["10.1.1.2"]);
    bed.route("52.0.0.0/8", &["10.0.1.2", "10.0.2.2"]);
    bed.run();
    e1.sent();
    // The packet came by e0. The error leaves by e1, from the address on the next hop's network.
    for (id, from, us, hop) in [(1, "50.1.2.3", "10.0.1.1", "10.0.1.2"), (2, "51.1.2.3", "10.1.1.1", "10.1.1.2")] {
        let packet = Packet::udp(from, "99.0.0.1", b"x");
        e0.receive_packet(&packet);
        bed.run();
        assert_eq!(e1.sent(), [error_from(&e1, us, from, hop, &packet.bytes(), id)]);
        assert_eq!(e0.sent(), Vec::<Vec<u8>>::new());
    }
    // With several paths, the source address does not depend on the path that the error takes.
    let sources = (1..40).map(|host| format!("52.1.2.{host}"));
    sources.for_each(|from| drop(e0.receive_packet(&Packet::udp(&from, "99.0.0.1", b"x"))));
    bed.run();
    let (one, other) = (e1.sent(), e2.sent());
    assert!(one.len() > 5 && other.len() > 5 && one.len() + other.len() == 39);
    assert!([one, other].concat().iter().all(|frame| frame[26..30] == [10, 0, 1, 1]));
}

#[test]
fn an_interface_without_an_address_lends_the_routers() {
    let (mut bed, [e0, _, e2]) = Bed::with_three_ports();
    let way = |port: &Port| PathAction::Via { next_hop: ip("10.0.2.2").into(), interface: Some(port.index) };
    bed.route_way("50.0.0.0/8", way(&e2));
    bed.router.remove_address(e2.index, "10.0.2.1/24".parse().unwrap()).unwrap();
    let packet = Packet::udp("50.1.2.3", "99.0.0.1", b"x");
    let mut id = 0;
    let mut expect = |bed: &mut Bed, us: &str| {
        id += 1;
        e0.receive_packet(&packet);
        bed.run();
        assert_eq!(e2.sent(), [error_from(&e2, us, "50.1.2.3", "10.0.2.2", &packet.bytes(), id)]);
    };
    // The address of the first interface that is up and has one, loopbacks first.
    expect(&mut bed, "10.0.0.1");
    bed.command("create loopback interface").unwrap();
    bed.command("set interface ip address loop0 192.0.2.1/32").unwrap();
    expect(&mut bed, "10.0.0.1");
    bed.command("set interface state loop0 up").unwrap();
    expect(&mut bed, "192.0.2.1");
}

#[test]
fn nothing_is_said_about_broadcasts_of_attached_networks() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    // A route that refuses, so that an error would otherwise be due.
    let host: wire::Prefix = "10.0.1.255/32".parse().unwrap();
    bed.router.remove_route(host, router::ip::control::Source::Interface, &[]).unwrap();
    bed.route_way("10.0.1.255/32", PathAction::Unreachable);
    e0.receive_packet(&udp("10.0.1.255"));
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, error("ip4-icmp-error", "no ICMP error about a group-addressed packet", 1));
    e0.receive_packet(&Packet::udp("10.0.1.255", "99.0.0.1", b"x"));
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, error("ip4-icmp-error", "no ICMP error to a source that is not one host", 1));
    // The address before it is a host's.
    bed.route_way("10.0.1.254/32", PathAction::Unreachable);
    e0.receive_packet(&udp("10.0.1.254"));
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, error("ip4-icmp-error", "ICMP host unreachable sent", 1));
}

#[test]
fn the_limit_of_errors_is_the_operators() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.command("set ip icmp error-rate 1 burst 7").unwrap();
    bed.run();
    (0..50).for_each(|_| drop(e0.receive_packet(&udp("99.0.0.1"))));
    bed.run();
    let sent = e0.sent().len();
    assert!((7..=8).contains(&sent), "{sent}");
    let shown = bed.command("show ip icmp").unwrap();
    assert!(shown.starts_with("errors: 1/s by each worker, 7 at once\nrouter id: 10.0.0.1\n"), "{shown}");
    let config = bed.command("show running-config").unwrap();
    assert!(config.contains("set ip icmp error-rate 1 burst 7\n"), "{config}");
    bed.command("set ip icmp error-rate default").unwrap();
    assert!(!bed.command("show running-config").unwrap().contains("error-rate"));
    // Echo replies have no rate limit.
    (0..500).for_each(|_| drop(e0.receive_packet(&Packet::echo_request("10.0.0.2", "10.0.0.1", b"x"))));
    bed.run();
    assert_eq!(e0.sent().len(), 500);
}

/// A bed whose e0 sends redirects, with a neighbour 10.0.0.3 that leads to 60.0.0.0/8.
fn redirecting() -> (Bed, [Port; 3]) {
    let (mut bed, ports) = Bed::with_three_ports();
    bed.know(&ports[0], "10.0.0.3");
    bed.route("60.0.0.0/8", &["10.0.0.3"]);
    bed.command("set interface ip redirects e0 enable").unwrap();
    bed.run();
    (bed, ports)
}

#[test]
fn a_host_is_told_of_a_better_next_hop_and_its_packet_goes_on() {
    let (mut bed, [e0, e1, _]) = redirecting();
    let packet = Packet::udp("10.0.0.2", "60.1.2.3", &[7; 1000]).options(&[1; 4]);
    let frame = e0.receive_packet(&packet);
    let moved = bed.errors_of(|_| {});
    // The packet is quoted as it was received, with its options and its original TTL.
    let told = error_about(&e0, 5, 1, u32::from(ip("10.0.0.3")), &packet.bytes()[..548], 1);
    let mut sent = e0.sent();
    sent.sort_by_key(Vec::len);
    let mut onward = ethernet(host_mac(ip("10.0.0.3")), e0.mac, 0x0800, &frame[14..]);
    onward[22] -= 1;
    seal(&mut onward, 14);
    assert_eq!(sent, [told, onward]);
    assert_eq!(moved, error("ip4-redirect", "ICMP redirect sent", 1));
    // Also for a host on the network itself; but not when the sender or the next hop is on another interface.
    let direct = Packet::udp("10.0.0.2", "10.0.0.3", b"x");
    e0.receive_packet(&direct);
    bed.run();
    let sent = e0.sent();
    assert_eq!(sent.len(), 2);
    assert!(sent.contains(&error_about(&e0, 5, 1, u32::from(ip("10.0.0.3")), &direct.bytes(), 2)));
    for (port, from, to) in
        [(&e1, "10.0.1.2", "60.1.2.3"), (&e0, "70.0.0.1", "60.1.2.3"), (&e0, "10.0.0.2", "10.0.1.2")]
    {
        port.receive_packet(&Packet::udp(from, to, b"x"));
    }
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, Default::default());
    assert_eq!((e0.sent().len(), e1.sent().len()), (2, 1));
    assert_eq!(bed.buffers_in_use(), 0);
}

#[test]
fn a_redirect_is_sent_once_a_second_and_only_where_it_is_wanted() {
    let (mut bed, [e0, ..]) = redirecting();
    let packet = Packet::udp("10.0.0.2", "60.1.2.3", b"x");
    (0..100).for_each(|_| drop(e0.receive_packet(&packet)));
    let moved = bed.errors_of(|_| {});
    let mut expected = error("ip4-redirect", "ICMP redirect sent", 1);
    expected.extend(error("ip4-redirect", "ICMP redirects limited by rate", 99));
    assert_eq!(moved, expected);
    assert_eq!(e0.sent().len(), 101);
    // The limit is per destination.
    e0.receive_packet(&Packet::udp("10.0.0.2", "60.1.2.4", b"x"));
    assert_eq!(bed.errors_of(|_| {}), error("ip4-redirect", "ICMP redirect sent", 1));
    // No redirects about errors or later fragments.
    let about = icmp(11, 0, 0, &udp("10.0.1.2").bytes());
    e0.receive_packet(&Packet::new("10.0.0.2", "60.9.9.1", ICMP, &about));
    e0.receive_packet(&Packet::udp("10.0.0.2", "60.9.9.2", b"some data").fragment(100));
    e0.sent();
    let moved = bed.errors_of(|_| {});
    assert_eq!((moved, e0.sent().len()), (Default::default(), 2));
    // Redirects are off by default, and can be turned off again.
    assert!(bed.command("show running-config").unwrap().contains("set interface ip redirects e0 enable\n"));
    assert!(bed.command("show ip icmp").unwrap().contains("interfaces with redirects: e0\n"));
    bed.command("set interface ip redirects e0 disable").unwrap();
    e0.receive_packet(&Packet::udp("10.0.0.2", "60.1.2.5", b"x"));
    assert_eq!(bed.errors_of(|_| {}), Default::default());
    assert!(!bed.command("show running-config").unwrap().contains("redirects"));
    assert!(bed.command("show ip icmp").unwrap().contains("interfaces with redirects: none\n"));
}

#[test]
fn a_long_answer_is_cut_though_the_request_was_not_to_be() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.command("set interface mtu ip4 1000 e0").unwrap();
    e0.receive_packet(&Packet::echo_request("10.0.0.2", "10.0.0.1", &[7; 1400]).fragment(DONT_FRAGMENT));
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved.get(&("ip4-icmp-input".into(), "echo replies sent".into())), Some(&1));
    let sent = e0.sent();
    assert_eq!(sent.len(), 2);
    assert_eq!((sent[0][20] & 0x60, sent[1][20] & 0x60), (0x20, 0));
}

#[test]
fn nobody_pushes_out_what_is_remembered_of_redirects() {
    let (mut bed, [e0, ..]) = redirecting();
    // So many destinations that some share a slot.
    let told = |bed: &mut Bed| {
        for n in 0..4000u32 {
            let to = std::net::Ipv4Addr::from(u32::from(ip("60.0.0.0")) + n).to_string();
            e0.receive_packet(&Packet::udp("10.0.0.2", &to, b"x"));
            if n % 100 == 0 {
                bed.run();
            }
        }
        bed.run();
        e0.sent().iter().filter(|frame| frame[34] == 5 && frame[23] == 1).count()
    };
    bed.command("set ip icmp error-rate 1000000").unwrap();
    let first = told(&mut bed);
    assert!((900..=1024).contains(&first), "{first}");
    assert_eq!(told(&mut bed), 0);
}

#[test]
fn the_sender_is_not_told_of_itself() {
    let (mut bed, [e0, ..]) = redirecting();
    // A packet whose next hop is its sender.
    e0.receive_packet(&Packet::udp("10.0.0.3", "60.1.2.3", b"x"));
    assert_eq!(bed.errors_of(|_| {}), Default::default());
    assert_eq!(e0.sent().len(), 1);
}
