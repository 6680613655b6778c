//! Punting: what goes to the host, how it gets there, and that it does not go round.

use crate::bed::{Bed, Errors, Port, error, host_mac};
use crate::packet::*;
use router::ip::control::PathAction;
use std::time::Duration;

/// A bed whose port `tap` leads to the host, 10.9.9.2, and a route `via punt`.
fn bed() -> (Bed, [Port; 3], Port) {
    let (mut bed, ports) = Bed::with_three_ports();
    let tap = bed.port("tap", &["10.9.9.1/30"]);
    bed.know(&tap, "10.9.9.2");
    bed.route_way("21.0.0.0/8", PathAction::Punt);
    bed.command("ip punt redirect add rx all via 10.9.9.2 tap").unwrap();
    bed.run();
    (bed, ports, tap)
}

/// What a frame is when it comes to the host: all but the link header as it was.
fn at_host(tap: &Port, frame: &[u8]) -> Vec<u8> {
    ethernet(host_mac(ip("10.9.9.2")), tap.mac, 0x0800, &frame[14..])
}

#[test]
fn what_nobody_here_takes_comes_to_the_host_as_it_was() {
    let (mut bed, [e0, ..], tap) = bed();
    let cases = [
        Packet::udp("10.0.0.2", "10.0.0.1", b"data"),
        Packet::tcp("10.0.0.2", "10.0.0.1", 7, b"data"),
        Packet::new("10.0.0.2", "10.0.0.1", 89, b"hello"),
        // Its last hop, options, an address of another interface.
        Packet::udp("10.0.0.2", "10.0.1.1", b"data").ttl(1),
        Packet::udp("10.0.0.2", "10.0.0.1", b"data").ttl(1).options(&[1; 8]),
        // The route is not recorded: the host does that.
        Packet::udp("10.0.0.2", "10.0.0.1", b"data").options(&[7, 7, 4, 0, 0, 0, 0, 0]),
        // ICMP that is about the host's own connections.
        Packet::new("10.0.0.2", "10.0.0.1", ICMP, &icmp(3, 4, 1400, &[0x45; 28])),
        Packet::udp("10.0.0.2", "21.1.2.3", b"data").ttl(9),
    ];
    for (number, packet) in cases.iter().enumerate() {
        let frame = e0.receive_packet(packet);
        let moved = bed.errors_of(|_| {});
        assert_eq!((tap.sent(), moved), (vec![at_host(&tap, &frame)], Errors::new()), "case {number}");
    }
    assert_eq!(bed.counters(&e0)[6], cases.len() as u64);
    assert_eq!(e0.sent(), Vec::<Vec<u8>>::new());
    // What the router takes itself it keeps.
    e0.receive_packet(&Packet::echo_request("10.0.0.2", "10.0.0.1", b"x"));
    bed.run();
    assert_eq!((e0.sent().len(), tap.sent().len()), (1, 0));
}

#[test]
fn without_a_way_to_the_host_senders_are_told() {
    let (mut bed, [e0, ..], tap) = bed();
    let expect = |bed: &mut Bed, packet: &Packet, node: &str, reason: &str| {
        e0.receive_packet(packet);
        let moved = bed.errors_of(|_| {});
        assert_eq!((tap.sent().len(), moved), (0, error(node, reason, 1)));
    };
    let udp = Packet::udp("10.0.0.2", "10.0.0.1", b"data");
    bed.router.set_admin(tap.index, false).unwrap();
    expect(&mut bed, &udp, "ip4-icmp-error", "ICMP port unreachable sent");
    bed.router.set_admin(tap.index, true).unwrap();
    bed.run();
    tap.sent();
    bed.command("ip punt redirect del rx all").unwrap();
    expect(&mut bed, &udp, "ip4-icmp-error", "ICMP port unreachable sent");
    expect(&mut bed, &Packet::tcp("10.0.0.2", "10.0.0.1", 7, b"data"), "tcp4-reset", "TCP resets sent");
    let routed = Packet::udp("10.0.0.2", "21.1.2.3", b"data");
    expect(&mut bed, &routed, "ip4-punt-redirect", "punted, but no host interface takes it");
}

#[test]
fn the_host_is_found_by_arp_and_counted_once() {
    let (mut bed, [e0, ..], tap) = bed();
    bed.command("ip punt redirect add rx e0 via 10.9.9.1 tap").unwrap_err();
    // Not known yet: the packet waits.
    bed.router.add_address(tap.index, "10.8.8.1/24".parse().unwrap()).unwrap();
    bed.run();
    tap.sent();
    bed.command("ip punt redirect add rx e0 via 10.8.8.2 tap").unwrap();
    bed.command("set ip punt rate 10").unwrap();
    let frame = e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.0.1", b"data"));
    bed.run();
    assert_eq!((bed.held(), tap.sent().len()), (1, 1));
    let message = arp(REPLY, (host_mac(ip("10.8.8.2")), "10.8.8.2"), (tap.mac, "10.8.8.1"));
    tap.receive(ethernet(tap.mac, host_mac(ip("10.8.8.2")), 0x0806, &message));
    bed.run();
    let expected = ethernet(host_mac(ip("10.8.8.2")), tap.mac, 0x0800, &frame[14..]);
    assert_eq!((bed.held(), tap.sent()), (0, vec![expected]));
    assert_eq!(bed.counters(&e0)[6], 1);
    // A host that does not answer is a host unreachable.
    bed.command("set ip punt rate default").unwrap();
    bed.command("ip punt redirect add rx e0 via 10.8.8.3 tap").unwrap();
    e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.0.1", b"data"));
    bed.run();
    let moved = bed.errors_of(|bed| (0..4).for_each(|_| bed.advance(Duration::from_millis(1001))));
    assert_eq!(moved.get(&("ip4-icmp-error".into(), "ICMP host unreachable sent".into())), Some(&1), "{moved:?}");
}

#[test]
fn a_way_of_an_interfaces_own_goes_before_that_of_all() {
    let (mut bed, [e0, e1, e2], tap) = bed();
    bed.command("ip punt redirect add rx e1 via 10.0.2.2 e2").unwrap();
    for (port, from) in [(&e0, "10.0.0.2"), (&e1, "10.0.1.2")] {
        port.receive_packet(&Packet::udp(from, "10.0.0.1", b"data"));
    }
    bed.run();
    assert_eq!((tap.sent().len(), e2.sent().len()), (1, 1));
    let shown = bed.command("show ip punt redirect").unwrap();
    assert!(shown.starts_with(" rx all via:\n   10.9.9.2 tap\n forwarding\n  [@"), "{shown}");
    assert!(shown.contains("\n rx e1 via:\n   10.0.2.2 e2\n forwarding\n  [@"), "{shown}");
    let config = bed.command("show running-config").unwrap();
    assert!(config.contains("ip punt redirect add rx all via 10.9.9.2 tap\n"), "{config}");
    assert!(config.contains("ip punt redirect add rx e1 via 10.0.2.2 e2\n"), "{config}");
    // They go with their interfaces, and their objects with them.
    bed.router.delete_interface(e2.index).unwrap();
    bed.router.delete_interface(tap.index).unwrap();
    bed.run();
    assert_eq!(bed.command("show ip punt redirect").unwrap(), "no punt redirects\n");
    e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.0.1", b"data"));
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, error("ip4-icmp-error", "ICMP port unreachable sent", 1));
}

#[test]
fn what_the_host_sends_is_not_punted_to_it() {
    let (mut bed, [e0, ..], tap) = bed();
    // To a router's address: answered as if there were no host. By a route: dropped by name.
    tap.receive_packet(&Packet::udp("10.9.9.2", "10.9.9.1", b"data"));
    let moved = bed.errors_of(|_| {});
    assert_eq!((tap.sent().len(), moved), (1, error("ip4-icmp-error", "ICMP port unreachable sent", 1)));
    tap.receive_packet(&Packet::udp("10.9.9.2", "21.1.2.3", b"data"));
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, error("ip4-punt-redirect", "punted packet came back from the host", 1));
    // The host answers under the router's address.
    let answer = Packet::udp("10.0.0.1", "10.0.0.2", b"data");
    tap.receive_packet(&answer);
    bed.run();
    assert_eq!((tap.sent().len(), e0.sent().len()), (0, 1));
    bed.command("ip punt redirect add rx tap via 10.9.9.2 tap").unwrap_err();
}

#[test]
fn an_error_about_what_the_host_sent_goes_back_to_it() {
    let (mut bed, [e0, ..], tap) = bed();
    bed.router.set_mtu(e0.index, 1000).unwrap();
    // Under the router's own address: path MTU discovery of the host's servers rests on it.
    let packet = Packet::udp("10.0.0.1", "10.0.0.2", &[7; 1200]).fragment(DONT_FRAGMENT);
    tap.receive(packet.frame(tap.mac, host_mac(ip("10.9.9.2"))));
    bed.run();
    let message = icmp(3, 4, 1000, &packet.bytes()[..548]);
    let mut expected = Packet::new("10.9.9.1", "10.0.0.1", ICMP, &message).id(1);
    expected.tos = 0xc0;
    assert_eq!(tap.sent(), [expected.frame(host_mac(ip("10.9.9.2")), tap.mac)]);
    assert_eq!(e0.sent(), Vec::<Vec<u8>>::new());
    // Who else uses our address learns nothing.
    e0.receive_packet(&Packet::udp("10.0.0.1", "99.9.9.9", b"x"));
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved.get(&("ip4-icmp-input".into(), "packet of ours came back to us".into())), Some(&1), "{moved:?}");
}

#[test]
fn punted_packets_are_limited_by_rate() {
    let (mut bed, [e0, ..], tap) = bed();
    bed.command("set ip punt rate 50").unwrap();
    bed.run();
    let start = std::time::Instant::now();
    (0..200).for_each(|_| drop(e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.0.1", b"data"))));
    let moved = bed.errors_of(|_| {});
    let sent = tap.sent().len() as u64;
    let most = 5 + (start.elapsed().as_secs_f64() * 50.0) as u64 + 1;
    assert!((5..=most).contains(&sent), "{sent} sent, at most {most}");
    assert_eq!(moved, error("ip4-punt-redirect", "punted packets limited by rate", 200 - sent));
    assert!(bed.command("show running-config").unwrap().contains("set ip punt rate 50\n"));
    assert!(bed.command("show ip punt redirect").unwrap().ends_with("punted at most: 50/s by each worker\n"));
    bed.command("set ip punt rate default").unwrap();
    (0..200).for_each(|_| drop(e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.0.1", b"data"))));
    bed.run();
    assert_eq!(tap.sent().len(), 200);
}

#[test]
fn a_way_over_a_dead_link_is_none() {
    let (mut bed, [e0, ..], tap) = bed();
    tap.set_carrier(false);
    bed.router.check_links();
    e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.0.1", b"data"));
    assert_eq!(bed.errors_of(|_| {}), error("ip4-icmp-error", "ICMP port unreachable sent", 1));
    tap.set_carrier(true);
    bed.router.check_links();
    bed.know(&tap, "10.9.9.2");
    bed.run();
    tap.sent();
    e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.0.1", b"data"));
    assert_eq!((bed.errors_of(|_| {}), tap.sent().len()), (Errors::new(), 1));
}

#[test]
fn the_host_and_the_router_have_different_addresses() {
    let (mut bed, ..) = bed();
    let refused = bed.command("ip punt redirect add rx all via 10.0.1.1 tap").unwrap_err();
    assert!(refused.contains("10.0.1.1 is an address of this router"), "{refused}");
    bed.command("ip punt redirect add rx all via 10.7.7.7 tap").unwrap();
    let refused = bed.command("set interface ip address e0 10.7.7.7/24").unwrap_err();
    assert!(refused.contains("10.7.7.7 is where 'ip punt redirect' sends packets"), "{refused}");
}
