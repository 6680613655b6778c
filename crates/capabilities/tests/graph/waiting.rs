//! Packets that are pending for a neighbour (ARP).

use crate::arp::*;
use crate::bed::{Arrival, Bed, Port, error, host_mac, prefix};
use crate::packet::*;
use router::neighbour::control::{REQUESTS, SILENCE};
use router::neighbour::known::State;
use router::neighbour::policy::Rates;
use router::neighbour::resolve::{Bounds, HELD_PER_NEIGHBOUR, MAX_HELD_OF_INTERFACE, MAX_HELD_OF_SOURCE};
use std::time::Duration;
use wire::Family;

#[test]
fn packets_for_an_unknown_host_wait_while_it_is_asked_for_once_and_go_in_order() {
    for route in [UNKNOWN, "77.0.0.1"] {
        let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
        bed.route("77.0.0.0/8", &[UNKNOWN]);
        let mut expected = Vec::new();
        for number in 0..HELD_PER_NEIGHBOUR as u16 {
            let frame = e0.receive_packet(&Packet::udp("10.0.0.2", route, b"data").id(number));
            expected.push(forwarded(&frame, HOST, e1.mac));
            if number % 7 == 0 {
                bed.run();
            }
        }
        bed.run();
        assert_eq!(e1.sent(), [our_request(&e1, "10.0.1.1", UNKNOWN)]);
        assert_eq!(state(&bed, &e1, UNKNOWN), Some(State::Incomplete { asked: 1 }));
        assert_eq!(bed.held(), HELD_PER_NEIGHBOUR as u64);
        reply(&e1, (HOST, UNKNOWN), "10.0.1.1");
        bed.run();
        assert_eq!(e1.sent(), expected);
        assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
        assert_eq!(bed.router.neighbours.len(), 4);
    }
}

#[test]
fn both_who_wait_for_a_host_are_served_by_one_request() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.route("77.0.0.0/8", &[UNKNOWN]);
    let direct = e0.receive_packet(&to_unknown(1));
    let routed = e0.receive_packet(&Packet::udp("10.0.0.2", "77.0.0.1", b"x"));
    bed.run();
    assert_eq!(e1.sent(), [our_request(&e1, "10.0.1.1", UNKNOWN)]);
    reply(&e1, (HOST, UNKNOWN), "10.0.1.1");
    bed.run();
    let (mut sent, mut expected) = (e1.sent(), vec![direct, routed]);
    expected.iter_mut().for_each(|frame| *frame = forwarded(frame, HOST, e1.mac));
    sent.sort();
    expected.sort();
    assert_eq!(sent, expected);
}

#[test]
fn a_static_neighbour_releases_what_waits_for_it() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let frame = e0.receive_packet(&to_unknown(1));
    bed.run();
    e1.sent();
    bed.know(&e1, UNKNOWN);
    bed.run();
    assert_eq!(e1.sent(), [forwarded(&frame, host_mac(ip(UNKNOWN)), e1.mac)]);
}

#[test]
fn a_host_that_does_not_answer_is_asked_three_times_and_its_senders_told() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let frame = e0.receive_packet(&to_unknown(1));
    bed.run();
    for _ in 1..REQUESTS {
        assert_eq!(e1.sent(), [our_request(&e1, "10.0.1.1", UNKNOWN)]);
        // Not sooner than after a second.
        bed.advance(Duration::from_millis(1));
        assert_eq!(e1.sent(), Vec::<Vec<u8>>::new());
        assert_eq!((bed.held(), e0.sent().len()), (1, 0));
        bed.advance(SECOND);
    }
    assert_eq!(e1.sent(), [our_request(&e1, "10.0.1.1", UNKNOWN)]);
    bed.advance(SECOND);
    assert_eq!(e1.sent(), Vec::<Vec<u8>>::new());
    let sent = e0.sent();
    assert_eq!(sent.len(), 1);
    // Destination unreachable, host unreachable, quoting the received packet.
    assert_eq!(sent[0][34..], icmp(3, 1, 0, &frame[14..]));
    assert_eq!(state(&bed, &e1, UNKNOWN), Some(State::Silent));
    assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
    // For a while the router sends no new requests: the sender gets an error at once.
    let frame = e0.receive_packet(&to_unknown(2));
    bed.run();
    assert_eq!((e0.sent()[0][34..].to_vec(), bed.held()), (icmp(3, 1, 0, &frame[14..]), 0));
    assert_eq!(e1.sent(), Vec::<Vec<u8>>::new());
    // Then the next packet starts resolution again.
    bed.advance(SILENCE);
    assert_eq!(state(&bed, &e1, UNKNOWN), None);
    e0.receive_packet(&to_unknown(3));
    bed.run();
    assert_eq!(e1.sent(), [our_request(&e1, "10.0.1.1", UNKNOWN)]);
}

#[test]
fn what_waits_is_bounded_for_one_host() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let frames: Vec<_> = (0..HELD_PER_NEIGHBOUR as u16 + 20).map(|n| e0.receive_packet(&to_unknown(n))).collect();
    let errors = bed.errors_of(|_| {});
    assert_eq!(errors, error("ip4-arp", "hold queue full", 20));
    assert_eq!(bed.held(), HELD_PER_NEIGHBOUR as u64);
    e1.sent();
    reply(&e1, (HOST, UNKNOWN), "10.0.1.1");
    bed.run();
    // The first packets are kept.
    let expected: Vec<_> = frames[..HELD_PER_NEIGHBOUR].iter().map(|frame| forwarded(frame, HOST, e1.mac)).collect();
    assert_eq!(e1.sent(), expected);
}

#[test]
fn a_silent_host_that_speaks_up_is_found_at_once() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    e0.receive_packet(&to_unknown(1));
    bed.run();
    (0..REQUESTS).for_each(|_| bed.advance(SECOND));
    assert_eq!(state(&bed, &e1, UNKNOWN), Some(State::Silent));
    e1.sent();
    announce(&e1, REPLY, (HOST, UNKNOWN));
    bed.run();
    assert_eq!(state(&bed, &e1, UNKNOWN), learned(HOST));
    let frame = e0.receive_packet(&to_unknown(2));
    bed.run();
    assert_eq!(e1.sent(), [forwarded(&frame, HOST, e1.mac)]);
}

/// Packets from `source`, `each` to each of `hosts` absent hosts of 30.0.0.0/16.
fn scan(bed: &mut Bed, e0: &Port, source: &str, each: usize, hosts: usize) {
    for host in 0..hosts {
        let target = format!("30.0.{}.{}", 1 + host / 200, 1 + host % 200);
        (0..each).for_each(|_| drop(e0.receive_packet(&Packet::udp(source, &target, b"x"))));
    }
    bed.run();
}

#[test]
fn a_scan_of_absent_hosts_is_bounded_and_ends_and_others_are_unhurt() {
    let (mut bed, [e0, e1, e2]) = Bed::with_three_ports();
    bed.router.add_address(e2.index, prefix("30.0.0.1/16")).unwrap();
    bed.run();
    e2.sent();
    scan(&mut bed, &e0, "10.0.0.2", 4, 10_000);
    assert!(bed.held() <= MAX_HELD_OF_SOURCE as u64, "{}", bed.held());
    assert!(e2.sent().len() <= MAX_HELD_OF_SOURCE);
    // New neighbours of other sources, there and elsewhere, are resolved by the first packet. (With a chance of one in
    // 256, a source shares the scanner's slot.)
    let found = |bed: &mut Bed, port: &Port, source: &str, target: &str, us: &str| {
        let frame = e0.receive_packet(&Packet::udp(source, target, b"x"));
        bed.run();
        let asked = port.sent() == [our_request(port, us, target)];
        reply(port, (HOST, target), us);
        bed.run();
        asked && port.sent() == [forwarded(&frame, HOST, port.mac)]
    };
    let others = (3..11).filter(|n| found(&mut bed, &e2, &format!("10.0.0.{n}"), &format!("30.0.200.{n}"), "30.0.0.1"));
    assert!(others.count() >= 6);
    assert!(found(&mut bed, &e1, "10.0.0.2", UNKNOWN, "10.0.1.1"), "nor the scanner's own, elsewhere");
    // Many sources together cannot exceed the interface's share.
    (10..200).for_each(|n| scan(&mut bed, &e0, &format!("10.0.0.{n}"), 1, 100));
    assert!(bed.held() <= MAX_HELD_OF_INTERFACE as u64, "{}", bed.held());
    let frame = e0.receive_packet(&Packet::udp("10.0.0.3", "10.0.1.78", b"x"));
    bed.run();
    reply(&e1, (HOST, "10.0.1.78"), "10.0.1.1");
    bed.run();
    assert_eq!(e1.sent().last(), Some(&forwarded(&frame, HOST, e1.mac)));
    // Then the requests end, and senders that are reachable get errors about the pending packets.
    (0..=REQUESTS * 2).for_each(|_| bed.advance(SECOND));
    assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
    bed.advance(SILENCE);
    let silent = bed.router.neighbours.iter().filter(|(_, n)| !matches!(n.state, State::Known { .. }));
    assert_eq!(silent.count(), 0);
}

#[test]
fn one_source_gets_a_quarter_of_the_rate() {
    let (mut bed, [e0, _, e2]) = Bed::with_three_ports();
    bed.router.add_address(e2.index, prefix("30.0.0.1/16")).unwrap();
    bed.router.set_neighbour_rates(Family::Ip4, Rates { requests: 40, ..Rates::default() });
    bed.run();
    e2.sent();
    scan(&mut bed, &e0, "10.0.0.2", 1, 100);
    let asked = e2.sent().len();
    assert!((10..30).contains(&asked), "{asked} of a second's ten");
    assert_eq!(bed.errors()[&("ip4-arp".into(), "ARP requests throttled".into())], 100 - asked as u64);
}

#[test]
fn a_next_hop_off_every_network_is_refused_at_once() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let hop = router::ip::control::PathAction::Via { next_hop: ip("99.0.0.1").into(), interface: Some(e1.index) };
    bed.route_way("77.0.0.0/8", hop);
    let frame = e0.receive_packet(&Packet::udp("10.0.0.2", "77.0.0.1", b"x"));
    bed.run();
    // The route is unresolved without its network, and no other route matches.
    assert_eq!(e0.sent()[0][34..], icmp(3, 0, 0, &frame[14..]));
    assert_eq!(e1.sent(), Vec::<Vec<u8>>::new());
    assert_eq!(bed.held(), 0);
}

#[test]
fn nothing_overtakes_what_waits_for_a_neighbour() {
    for target in [UNKNOWN, "77.0.0.1"] {
        let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
        bed.route("77.0.0.0/8", &[UNKNOWN]);
        let mut expected = Vec::new();
        let send = |expected: &mut Vec<Vec<u8>>| {
            let packet = Packet::udp("10.0.0.2", target, b"data").id(expected.len() as u16);
            expected.push(forwarded(&e0.receive_packet(&packet), HOST, e1.mac));
        };
        let rounds = |bed: &mut Bed| while bed.worker.round() != graph::Progress::Idle {};
        send(&mut expected);
        bed.run();
        e1.sent();
        reply(&e1, (HOST, UNKNOWN), "10.0.1.1");
        rounds(&mut bed);
        // Control has the answer. Packets arrive before control acts, before the worker gets the result, and in the
        // round in which it does.
        send(&mut expected);
        rounds(&mut bed);
        while bed.router.events_waiting() > 0 {
            bed.router.handle_events();
        }
        send(&mut expected);
        bed.worker.round();
        send(&mut expected);
        bed.worker.round();
        bed.run();
        send(&mut expected);
        bed.run();
        assert_eq!(e1.sent(), expected, "{target}");
    }
}

#[test]
fn packets_that_waited_leave_a_record_in_their_trace() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.command("trace add test-input 10").unwrap();
    e0.receive_packet(&to_unknown(1));
    e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.1.78", b"x"));
    bed.run();
    reply(&e1, (HOST, UNKNOWN), "10.0.1.1");
    bed.run();
    (0..=REQUESTS).for_each(|_| bed.advance(SECOND));
    let trace = bed.ask("show trace").unwrap();
    // One record when a packet starts to wait, and one when it goes on or is refused.
    let records = trace.lines().filter(|line| line.contains(": ip4-arp")).count();
    assert_eq!(records, 4, "{trace}");
    assert!(trace.contains(": ip4-icmp-error"), "{trace}");
}

#[test]
fn packets_to_a_neighbour_without_a_route_of_its_own_do_not_go_round() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.command("ip neighbor e1 10.0.1.9 02:cc:00:00:00:09 no-fib-entry").unwrap();
    e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.1.9", b"x"));
    let moved = bed.errors_of(|bed| (0..20).for_each(|_| bed.run()));
    assert_eq!(moved, error("ip4-icmp-error", "ICMP host unreachable sent", 1));
    assert_eq!((e0.sent().len(), e1.sent().len(), bed.held()), (1, 0, 0));
}

#[test]
fn what_waits_is_bounded_by_its_buffers() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.router.set_mtu(e0.index, 9000).unwrap();
    let most = Bounds::of_share(bed.router.graph.pool().capacity() as usize);
    // Five buffers each, to so many hosts that no other limit is reached.
    let large = vec![7; 8900];
    for n in 0..100 {
        let packet = Packet::udp("10.0.0.2", &format!("10.0.1.{}", 100 + n % 20), &large);
        let frame = packet.frame(e0.mac, host_mac(packet.source));
        let rest = frame.len() - 4 * 2048;
        e0.receive(Arrival::from(frame).in_parts(&[2048, 2048, 2048, 2048, rest]));
    }
    let moved = bed.errors_of(|_| {});
    let held = bed.held() as usize;
    assert_eq!(held, most.of_source / 5);
    assert_eq!(moved, error("ip4-arp", "too many packets wait for neighbours", (100 - held) as u64));
    assert_eq!(bed.buffers_in_use() as usize, held * 5);
    (0..4).for_each(|_| bed.advance(SECOND));
    bed.run();
    assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
}
