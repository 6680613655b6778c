//! ARP: who is asked, who is answered, who is believed, and what waits meanwhile.

use crate::bed::{Bed, Port, host_mac, prefix};
use crate::packet::*;
use quiver_router::arp::NeighbourKey;
use quiver_router::arp::control::{MAX_AGE, REQUESTS, State};
use quiver_router::arp::resolve::{HELD_PER_NEIGHBOUR, MAX_HELD, MAX_WAITING};
use quiver_router::ip4::control::Source;
use std::time::Duration;
use wire::MacAddress;

const HOST: MacAddress = MacAddress([2, 0xcc, 0, 0, 0, 9]);
const SECOND: Duration = Duration::from_millis(1001);

/// An ARP message that arrives at e0 from a host, padded as Ethernet does.
fn message(port: &Port, to: MacAddress, operation: u16, sender: (MacAddress, &str), target: (MacAddress, &str)) {
    let mut frame = ethernet(to, sender.0, 0x0806, &arp(operation, sender, target));
    frame.resize(60, 0);
    port.receive(frame);
}

fn request(port: &Port, sender: (MacAddress, &str), target: &str) {
    message(port, MacAddress::BROADCAST, REQUEST, sender, (MacAddress::ZERO, target));
}

fn reply(port: &Port, sender: (MacAddress, &str), target: &str) {
    message(port, port.mac, REPLY, sender, (port.mac, target));
}

/// The request that the router sends for `target`.
fn our_request(port: &Port, us: &str, target: &str) -> Vec<u8> {
    let message = arp(REQUEST, (port.mac, us), (MacAddress::ZERO, target));
    ethernet(MacAddress::BROADCAST, port.mac, 0x0806, &message)
}

fn state(bed: &Bed, port: &Port, address: &str) -> Option<State> {
    let key = NeighbourKey { interface: port.index, address: ip(address) };
    bed.router.neighbours.iter().find(|(known, _)| **known == key).map(|(_, neighbour)| neighbour.state)
}

fn learned(mac: MacAddress) -> Option<State> {
    Some(State::Known { mac, is_static: false })
}

/// A host whose address the router does not know yet.
const UNKNOWN: &str = "10.0.1.77";

fn to_unknown(number: u16) -> Packet {
    Packet::udp("10.0.0.2", UNKNOWN, b"data").id(number)
}

#[test]
fn a_request_for_our_address_is_answered_and_the_asker_learned() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    request(&e0, (HOST, "10.0.0.9"), "10.0.0.1");
    bed.run();
    let answer = arp(REPLY, (e0.mac, "10.0.0.1"), (HOST, "10.0.0.9"));
    assert_eq!(e0.sent(), [ethernet(HOST, e0.mac, 0x0806, &answer)]);
    assert_eq!(state(&bed, &e0, "10.0.0.9"), learned(HOST));
    // From now on packets reach it without asking.
    let packet = Packet::udp("10.0.1.2", "10.0.0.9", b"x");
    let frame = e1.receive_packet(&packet);
    bed.run();
    assert_eq!(e0.sent(), [forwarded(&frame, HOST, e0.mac)]);
}

#[test]
fn every_address_of_an_interface_is_answered_for_and_no_other() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.router.add_address(e0.index, prefix("10.7.0.1/16")).unwrap();
    bed.router.add_address(e0.index, prefix("10.0.0.200/24")).unwrap();
    bed.run();
    e0.sent();
    for ours in ["10.0.0.1", "10.0.0.200", "10.7.0.1"] {
        let asker = if ours == "10.7.0.1" { "10.7.9.9" } else { "10.0.0.9" };
        request(&e0, (HOST, asker), ours);
        bed.run();
        let answer = arp(REPLY, (e0.mac, ours), (HOST, asker));
        assert_eq!(e0.sent(), [ethernet(HOST, e0.mac, 0x0806, &answer)]);
    }
    for other in ["10.0.0.3", "10.0.1.1", "255.255.255.255", "0.0.0.0", "10.0.0.255"] {
        request(&e0, (HOST, "10.0.0.9"), other);
        bed.run();
        assert_eq!(e0.sent(), Vec::<Vec<u8>>::new(), "{other}");
    }
}

#[test]
fn a_probe_is_answered_and_nothing_learned() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    request(&e0, (HOST, "0.0.0.0"), "10.0.0.1");
    bed.run();
    let answer = arp(REPLY, (e0.mac, "10.0.0.1"), (HOST, "0.0.0.0"));
    assert_eq!(e0.sent(), [ethernet(HOST, e0.mac, 0x0806, &answer)]);
    assert_eq!(bed.router.neighbours.len(), 3, "the static ones");
}

#[test]
fn nobody_becomes_the_neighbour_0_0_0_0() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    request(&e0, (HOST, "0.0.0.0"), "0.0.0.0");
    message(&e0, e0.mac, REPLY, (HOST, "0.0.0.0"), (e0.mac, "10.0.0.1"));
    message(&e0, e0.mac, REPLY, (HOST, "0.0.0.0"), (e0.mac, "0.0.0.0"));
    bed.run();
    assert_eq!(bed.router.neighbours.len(), 3, "the static ones");
    for address in ["0.0.0.0", "224.0.0.1", "255.255.255.255"] {
        let key = NeighbourKey { interface: e0.index, address: ip(address) };
        assert!(bed.router.set_neighbour(key, HOST, true).is_err());
    }
}

#[test]
fn announcements_are_learned_and_change_where_packets_go() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let other = MacAddress([2, 0xcc, 0, 0, 0, 10]);
    for (operation, mac) in [(REQUEST, HOST), (REPLY, other)] {
        message(&e1, MacAddress::BROADCAST, operation, (mac, "10.0.1.9"), (MacAddress::ZERO, "10.0.1.9"));
        bed.run();
        assert_eq!(state(&bed, &e1, "10.0.1.9"), learned(mac));
        let frame = e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.1.9", b"x"));
        bed.run();
        assert_eq!(e1.sent(), [forwarded(&frame, mac, e1.mac)]);
    }
}

#[test]
fn foreign_senders_are_not_believed() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let before = bed.router.neighbours.len();
    request(&e0, (HOST, "172.16.0.9"), "10.0.0.1");
    reply(&e0, (HOST, "172.16.0.9"), "10.0.0.1");
    // On a network of another interface.
    request(&e0, (HOST, "10.0.1.9"), "10.0.0.1");
    bed.run();
    assert_eq!(bed.router.neighbours.len(), before);
    assert_eq!(e0.sent(), Vec::<Vec<u8>>::new());
}

#[test]
fn what_an_operator_said_is_not_overridden_from_the_wire() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    reply(&e1, (HOST, "10.0.1.2"), "10.0.1.1");
    bed.run();
    let mac = host_mac(ip("10.0.1.2"));
    assert_eq!(state(&bed, &e1, "10.0.1.2"), Some(State::Known { mac, is_static: true }));
    let frame = e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.1.2", b"x"));
    bed.run();
    assert_eq!(e1.sent(), [forwarded(&frame, mac, e1.mac)]);
}

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
    // Destination unreachable, host unreachable, about the packet as it came.
    assert_eq!(sent[0][34..], icmp(3, 1, 0, &frame[14..]));
    assert_eq!(state(&bed, &e1, UNKNOWN), None);
    assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
    // The next packet starts all over.
    e0.receive_packet(&to_unknown(2));
    bed.run();
    assert_eq!(e1.sent(), [our_request(&e1, "10.0.1.1", UNKNOWN)]);
}

#[test]
fn what_waits_is_bounded_for_one_host() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let frames: Vec<_> = (0..HELD_PER_NEIGHBOUR as u16 + 20).map(|n| e0.receive_packet(&to_unknown(n))).collect();
    let errors = bed.errors_of(|_| {});
    assert_eq!(errors, crate::bed::error("ip4-glean", "hold queue full", 20));
    assert_eq!(bed.held(), HELD_PER_NEIGHBOUR as u64);
    e1.sent();
    reply(&e1, (HOST, UNKNOWN), "10.0.1.1");
    bed.run();
    // The first ones are kept.
    let expected: Vec<_> = frames[..HELD_PER_NEIGHBOUR].iter().map(|frame| forwarded(frame, HOST, e1.mac)).collect();
    assert_eq!(e1.sent(), expected);
}

#[test]
fn a_scan_of_absent_hosts_is_bounded_and_ends() {
    let (mut bed, [e0, _, e2]) = Bed::with_three_ports();
    bed.router.add_address(e2.index, prefix("30.0.0.1/16")).unwrap();
    bed.run();
    e2.sent();
    let scan = |bed: &mut Bed, packets_each: usize, hosts: usize| {
        for host in 0..hosts {
            let target = format!("30.0.{}.{}", 1 + host / 200, 1 + host % 200);
            (0..packets_each).for_each(|_| drop(e0.receive_packet(&Packet::udp("10.0.0.2", &target, b"x"))));
        }
        bed.run();
    };
    scan(&mut bed, 1, MAX_WAITING + 500);
    assert_eq!(bed.held(), MAX_WAITING as u64);
    assert_eq!(e2.sent().len(), MAX_WAITING);
    scan(&mut bed, 4, MAX_WAITING);
    assert_eq!(bed.held(), MAX_HELD as u64);
    assert_eq!(e2.sent().len(), 0);
    (0..=REQUESTS).for_each(|_| bed.advance(SECOND));
    assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
    assert_eq!(e2.sent().len(), MAX_WAITING * (REQUESTS as usize - 1));
    assert_eq!(bed.router.neighbours.len(), 3, "the static ones");
}

#[test]
fn a_next_hop_off_every_network_is_refused_at_once() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let hop = quiver_router::ip4::control::Way::Via { next_hop: ip("99.0.0.1"), interface: Some(e1.index) };
    bed.route_way("77.0.0.0/8", hop);
    let frame = e0.receive_packet(&Packet::udp("10.0.0.2", "77.0.0.1", b"x"));
    bed.run();
    // The route waits for its network; there is no other.
    assert_eq!(e0.sent()[0][34..], icmp(3, 0, 0, &frame[14..]));
    assert_eq!(e1.sent(), Vec::<Vec<u8>>::new());
    assert_eq!(bed.held(), 0);
}

#[test]
fn an_old_neighbour_is_asked_directly_and_stays_when_it_answers() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    reply(&e1, (HOST, UNKNOWN), "10.0.1.1");
    bed.run();
    bed.advance(MAX_AGE + SECOND);
    let question = arp(REQUEST, (e1.mac, "10.0.1.1"), (MacAddress::ZERO, UNKNOWN));
    assert_eq!(e1.sent(), [ethernet(HOST, e1.mac, 0x0806, &question)]);
    assert_eq!(state(&bed, &e1, UNKNOWN), Some(State::Probing { mac: HOST, asked: 1 }));
    // Meanwhile it is still used.
    let frame = e0.receive_packet(&to_unknown(1));
    bed.run();
    assert_eq!(e1.sent(), [forwarded(&frame, HOST, e1.mac)]);
    reply(&e1, (HOST, UNKNOWN), "10.0.1.1");
    bed.run();
    assert_eq!(state(&bed, &e1, UNKNOWN), learned(HOST));
}

#[test]
fn an_old_neighbour_that_is_silent_is_forgotten_with_its_route() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    reply(&e1, (HOST, UNKNOWN), "10.0.1.1");
    bed.run();
    let routes = bed.router.ip4.routes().len();
    bed.advance(MAX_AGE + SECOND);
    (0..REQUESTS).for_each(|_| bed.advance(SECOND));
    assert_eq!(e1.sent().len(), REQUESTS as usize);
    assert_eq!(state(&bed, &e1, UNKNOWN), None);
    assert_eq!(bed.router.ip4.routes().len(), routes - 1);
    e0.receive_packet(&to_unknown(1));
    bed.run();
    assert_eq!(e1.sent(), [our_request(&e1, "10.0.1.1", UNKNOWN)]);
}

#[test]
fn static_neighbours_do_not_age() {
    let (mut bed, [_, e1, _]) = Bed::with_three_ports();
    (0..3).for_each(|_| bed.advance(MAX_AGE + SECOND));
    assert_eq!(e1.sent(), Vec::<Vec<u8>>::new());
    assert_eq!(bed.router.neighbours.len(), 3);
}

#[test]
fn an_interface_that_goes_down_forgets_what_it_learned_and_lets_go_what_waits() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    reply(&e1, (HOST, "10.0.1.9"), "10.0.1.1");
    e0.receive_packet(&to_unknown(1));
    bed.run();
    assert_eq!(bed.held(), 1);
    bed.router.set_admin(e1.index, false).unwrap();
    bed.run();
    assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
    assert_eq!(state(&bed, &e1, "10.0.1.9"), None);
    assert!(state(&bed, &e1, "10.0.1.2").is_some(), "what an operator said stays");
}

#[test]
fn what_was_said_before_an_interface_changed_is_not_learned_after() {
    let (mut bed, [_, e1, _]) = Bed::with_three_ports();
    reply(&e1, (HOST, "10.0.1.9"), "10.0.1.1");
    while bed.worker.round() != graph::Progress::Idle {}
    bed.router.set_admin(e1.index, false).unwrap();
    bed.run();
    assert_eq!(state(&bed, &e1, "10.0.1.9"), None);
    bed.router.set_admin(e1.index, true).unwrap();
    bed.run();
    reply(&e1, (HOST, "10.0.1.9"), "10.0.1.1");
    while bed.worker.round() != graph::Progress::Idle {}
    bed.router.remove_address(e1.index, prefix("10.0.1.1/24")).unwrap();
    bed.run();
    assert_eq!(state(&bed, &e1, "10.0.1.9"), None);
}

#[test]
fn addresses_are_announced_when_they_come_up() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let announcement = |address| {
        ethernet(MacAddress::BROADCAST, e0.mac, 0x0806, &arp(REQUEST, (e0.mac, address), (MacAddress::ZERO, address)))
    };
    bed.router.add_address(e0.index, prefix("11.0.0.1/24")).unwrap();
    bed.run();
    assert_eq!(e0.sent(), [announcement("11.0.0.1")]);
    bed.router.set_admin(e0.index, false).unwrap();
    bed.router.set_admin(e0.index, true).unwrap();
    bed.run();
    assert_eq!(e0.sent(), [announcement("10.0.0.1"), announcement("11.0.0.1")]);
}

#[test]
fn a_learned_neighbour_brings_a_route_of_its_own_and_takes_it_along() {
    let (mut bed, [_, e1, _]) = Bed::with_three_ports();
    reply(&e1, (HOST, "10.0.1.9"), "10.0.1.1");
    bed.run();
    let route = &bed.router.ip4.routes()[&prefix("10.0.1.9/32")];
    assert!(route.sources.keys().eq([&Source::Neighbour]));
    let key = NeighbourKey { interface: e1.index, address: ip("10.0.1.9") };
    bed.router.remove_neighbour(key).unwrap();
    assert!(!bed.router.ip4.routes().contains_key(&prefix("10.0.1.9/32")));
    assert!(bed.router.remove_neighbour(key).is_err());
}

#[test]
fn group_addresses_are_no_neighbours() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let key = NeighbourKey { interface: e0.index, address: ip("10.0.0.9") };
    assert!(bed.router.set_neighbour(key, MacAddress::BROADCAST, true).is_err());
    assert!(bed.router.set_neighbour(key, MacAddress::ZERO, true).is_err());
    assert_eq!(bed.router.neighbours.len(), 3);
}

#[test]
fn a_host_that_is_silent_on_one_interface_keeps_its_route_over_another() {
    let (mut bed, [e0, e1, e2]) = Bed::with_three_ports();
    e0.receive_packet(&to_unknown(1));
    bed.run();
    assert_eq!(state(&bed, &e1, UNKNOWN), Some(State::Incomplete { asked: 1 }));
    bed.know(&e2, UNKNOWN);
    (0..=REQUESTS).for_each(|_| bed.advance(SECOND));
    assert_eq!(state(&bed, &e1, UNKNOWN), None);
    let frame = e0.receive_packet(&to_unknown(2));
    bed.run();
    assert_eq!(e2.sent(), [forwarded(&frame, host_mac(ip(UNKNOWN)), e2.mac)]);
}
