//! ARP: which requests the router sends and answers, which senders it believes, and what waits meanwhile.

use crate::bed::{Bed, Port, error, host_mac, prefix};
use crate::packet::*;
use router::ip::control::{PathAction, Source};
use router::neighbour::NeighbourKey;
use router::neighbour::control::REQUESTS;
use router::neighbour::known::{Limits, State};
use router::neighbour::policy::Rates;
use std::time::Duration;
use wire::{Family, MacAddress};

pub const HOST: MacAddress = MacAddress([2, 0xcc, 0, 0, 0, 9]);
pub const SECOND: Duration = Duration::from_millis(1001);

/// How long a learned neighbour is trusted by default.
pub const MAX_AGE: Duration = Duration::from_secs(1200);

/// An ARP message that arrives at e0 from a host, padded as Ethernet does.
pub fn message(port: &Port, to: MacAddress, operation: u16, sender: (MacAddress, &str), target: (MacAddress, &str)) {
    let mut frame = ethernet(to, sender.0, 0x0806, &arp(operation, sender, target));
    frame.resize(60, 0);
    port.receive(frame);
}

pub fn request(port: &Port, sender: (MacAddress, &str), target: &str) {
    message(port, MacAddress::BROADCAST, REQUEST, sender, (MacAddress::ZERO, target));
}

pub fn reply(port: &Port, sender: (MacAddress, &str), target: &str) {
    message(port, port.mac, REPLY, sender, (port.mac, target));
}

/// A host asks for `us`, so the router learns it. The router's answer is discarded.
pub fn learn(bed: &mut Bed, port: &Port, host: (MacAddress, &str), us: &str) {
    request(port, host, us);
    bed.run();
    assert_eq!(port.sent().len(), 1);
    assert_eq!(state(bed, port, host.1), learned(host.0));
}

pub fn announce(port: &Port, operation: u16, host: (MacAddress, &str)) {
    message(port, MacAddress::BROADCAST, operation, host, (MacAddress::ZERO, host.1));
}

/// The request that the router sends for `target`.
pub fn our_request(port: &Port, us: &str, target: &str) -> Vec<u8> {
    let message = arp(REQUEST, (port.mac, us), (MacAddress::ZERO, target));
    ethernet(MacAddress::BROADCAST, port.mac, 0x0806, &message)
}

pub fn state(bed: &Bed, port: &Port, address: &str) -> Option<State> {
    let key = NeighbourKey::new(port.index, ip(address));
    bed.router.neighbours.iter().find(|(known, _)| **known == key).map(|(_, neighbour)| neighbour.state)
}

pub fn learned(mac: MacAddress) -> Option<State> {
    Some(State::Known { mac, is_static: false })
}

/// A host whose address the router does not know yet.
pub const UNKNOWN: &str = "10.0.1.77";

pub fn to_unknown(number: u16) -> Packet {
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
    // From now on, packets reach it without a request.
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
        let key = NeighbourKey::new(e0.index, ip(address));
        assert!(bed.router.set_neighbour(key, HOST, true).is_err());
    }
}

#[test]
fn announcements_of_a_known_neighbour_change_where_packets_go() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    learn(&mut bed, &e1, (HOST, "10.0.1.9"), "10.0.1.1");
    let other = |last| MacAddress([2, 0xcc, 0, 0, 0, last]);
    for (operation, mac) in [(REQUEST, other(10)), (REPLY, other(11))] {
        announce(&e1, operation, (mac, "10.0.1.9"));
        bed.run();
        assert_eq!(state(&bed, &e1, "10.0.1.9"), learned(mac));
        let frame = e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.1.9", b"x"));
        bed.run();
        assert_eq!(e1.sent(), [forwarded(&frame, mac, e1.mac)]);
    }
}

#[test]
fn a_known_neighbour_is_followed_whomever_it_asks() {
    // RFC 826: the merge comes before the check whether the request is for this router.
    let (mut bed, [_, e1, _]) = Bed::with_three_ports();
    learn(&mut bed, &e1, (HOST, "10.0.1.9"), "10.0.1.1");
    let other = MacAddress([2, 0xcc, 0, 0, 0, 10]);
    request(&e1, (other, "10.0.1.9"), "10.0.1.3");
    bed.run();
    assert_eq!(state(&bed, &e1, "10.0.1.9"), learned(other));
    request(&e1, (other, "10.0.1.10"), "10.0.1.3");
    bed.run();
    assert_eq!(state(&bed, &e1, "10.0.1.10"), None, "and nobody else");
}

#[test]
fn unknown_neighbours_are_learned_from_announcements_only_when_that_is_set() {
    let (mut bed, [_, e1, _]) = Bed::with_three_ports();
    for operation in [REQUEST, REPLY] {
        let moved = bed.errors_of(|_| announce(&e1, operation, (HOST, "10.0.1.9")));
        assert_eq!(moved, error("arp-reply", "ARP probe or announcement dropped", 1));
        assert_eq!(state(&bed, &e1, "10.0.1.9"), None);
    }
    bed.command("set arp accept enable").unwrap();
    announce(&e1, REPLY, (HOST, "10.0.1.9"));
    bed.run();
    assert_eq!(state(&bed, &e1, "10.0.1.9"), learned(HOST));
    // An unsolicited reply is not an announcement.
    reply(&e1, (HOST, "10.0.1.10"), "10.0.1.1");
    bed.run();
    assert_eq!(state(&bed, &e1, "10.0.1.10"), None);
}

#[test]
fn replies_are_believed_when_asked_for_and_the_first_is_taken_once() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let moved = bed.errors_of(|_| reply(&e1, (HOST, UNKNOWN), "10.0.1.1"));
    assert_eq!(moved, error("arp-reply", "ARP reply not asked for", 1));
    let frame = e0.receive_packet(&to_unknown(1));
    bed.run();
    e1.sent();
    // A thousand replies cause one event, so that control is not flooded.
    (0..1000).for_each(|_| reply(&e1, (HOST, UNKNOWN), "10.0.1.1"));
    while bed.worker.round() != graph::Progress::Idle {}
    assert_eq!(bed.router.events_waiting(), 1);
    bed.run();
    assert_eq!(e1.sent(), [forwarded(&frame, HOST, e1.mac)]);
    // When two hosts answer differently, the last one wins.
    let other = MacAddress([2, 0xcc, 0, 0, 0, 10]);
    reply(&e1, (other, UNKNOWN), "10.0.1.1");
    bed.run();
    assert_eq!(state(&bed, &e1, UNKNOWN), learned(other));
}

#[test]
fn what_is_heard_of_a_neighbour_keeps_it_young() {
    let (mut bed, [_, e1, _]) = Bed::with_three_ports();
    learn(&mut bed, &e1, (HOST, UNKNOWN), "10.0.1.1");
    let key = NeighbourKey::new(e1.index, ip(UNKNOWN));
    let since = |bed: &Bed| bed.router.neighbours.iter().find(|(known, _)| **known == key).unwrap().1.since;
    let first = since(&bed);
    announce(&e1, REPLY, (HOST, UNKNOWN));
    while bed.worker.round() != graph::Progress::Idle {}
    assert_eq!(bed.router.events_waiting(), 0, "nothing new for control");
    bed.router.tick_at(first + MAX_AGE);
    bed.run();
    assert_eq!(e1.sent(), Vec::<Vec<u8>>::new());
    let second = since(&bed);
    assert!(second > first);
    bed.router.tick_at(second + MAX_AGE);
    bed.run();
    assert_eq!(e1.sent().len(), 1, "nothing was heard since");
}

#[test]
fn foreign_senders_are_not_believed() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let before = bed.router.neighbours.len();
    request(&e0, (HOST, "172.16.0.9"), "10.0.0.1");
    reply(&e0, (HOST, "172.16.0.9"), "10.0.0.1");
    // An address of another interface's network.
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
fn requests_are_answered_and_news_learned_at_the_rates_set() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.router.set_neighbour_rates(Family::Ip4, Rates { replies: 20, learning: 10, ..Rates::default() });
    let flood = |bed: &mut Bed| {
        for n in 10..210u8 {
            request(&e0, (MacAddress([2, 1, 0, 0, 0, n]), &format!("10.0.0.{n}")), "10.0.0.1");
        }
        bed.run();
    };
    let moved = bed.errors_of(flood);
    let count = |reason: &str| moved.get(&("arp-reply".to_string(), reason.to_string())).copied().unwrap_or(0);
    let (sent, limited) = (count("ARP replies sent"), count("ARP replies limited by rate"));
    assert_eq!(sent + limited, 200);
    assert!((20..100).contains(&sent), "{sent}");
    let (known, unknown) = (count("ARP request IP4 source address learned"), count("asker answered, not learned"));
    assert_eq!(known + unknown, sent);
    assert!((10..60).contains(&known), "{known}");
    assert_eq!(bed.router.neighbours.len() as u64, 3 + known);
    // An announcement with another Ethernet address counts against the learning rate, too.
    let moved = bed.errors_of(|_| {
        (0..100).for_each(|n| announce(&e0, REQUEST, (MacAddress([2, 2, 0, 0, 0, n]), "10.0.0.10")));
    });
    assert!(moved[&("arp-reply".into(), "ARP learning limited by rate".into())] > 50, "{moved:?}");
}

#[test]
fn there_are_no_more_neighbours_than_the_limits_say() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let host = |n: u8| MacAddress([2, 1, 0, 0, 0, n]);
    bed.router
        .set_neighbour_limits(Family::Ip4, Limits { interface_limit: 4, limit: 7, ..Limits::of(Family::Ip4) })
        .unwrap();
    // Each of the three interfaces has one static neighbour.
    (10..20).for_each(|n| request(&e0, (host(n), &format!("10.0.0.{n}")), "10.0.0.1"));
    bed.run();
    let known = |bed: &Bed| {
        let known = bed.router.neighbours.iter().filter(|(_, n)| n.state != State::Silent);
        known.map(|(key, _)| key.address.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(known(&bed), ["10.0.0.2", "10.0.0.10", "10.0.0.11", "10.0.0.12", "10.0.1.2", "10.0.2.2"]);
    (10..12).for_each(|n| request(&e1, (host(n), &format!("10.0.1.{n}")), "10.0.1.1"));
    bed.run();
    assert_eq!(known(&bed).len(), 7);
    assert_eq!(bed.router.neighbours.met(Family::Ip4).refused, 8);
    // The limit applies to an operator's neighbours, too.
    let key = NeighbourKey::new(e1.index, ip("10.0.1.30"));
    assert!(bed.router.set_neighbour(key, HOST, true).is_err());
}

#[test]
fn with_recycle_the_longest_unheard_makes_room() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let host = |n: u8| MacAddress([2, 1, 0, 0, 0, n]);
    bed.router
        .set_neighbour_limits(Family::Ip4, Limits { interface_limit: 4, recycle: true, ..Limits::of(Family::Ip4) })
        .unwrap();
    (10..13).for_each(|n| request(&e0, (host(n), &format!("10.0.0.{n}")), "10.0.0.1"));
    bed.run();
    // The first host is heard again, so the second is the oldest.
    announce(&e0, REQUEST, (host(10), "10.0.0.10"));
    request(&e0, (host(13), "10.0.0.13"), "10.0.0.1");
    bed.run();
    let of = |bed: &Bed, port: &Port| {
        bed.router.neighbours.of_interface(port.index).map(|(key, _)| key.address.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(of(&bed, &e0), ["10.0.0.2", "10.0.0.10", "10.0.0.12", "10.0.0.13"]);
    assert_eq!(bed.router.neighbours.met(Family::Ip4).recycled, 1);
    // When the table is full, the interface with the most neighbours gives up one.
    bed.router
        .set_neighbour_limits(Family::Ip4, Limits { limit: 6, recycle: true, ..Limits::of(Family::Ip4) })
        .unwrap();
    request(&e1, (host(10), "10.0.1.10"), "10.0.1.1");
    bed.run();
    assert_eq!(of(&bed, &e0), ["10.0.0.2", "10.0.0.10", "10.0.0.13"]);
    assert_eq!(of(&bed, &e1), ["10.0.1.2", "10.0.1.10"]);
}

#[test]
fn an_old_neighbour_is_asked_directly_and_stays_when_it_answers() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    learn(&mut bed, &e1, (HOST, UNKNOWN), "10.0.1.1");
    bed.advance(MAX_AGE + SECOND);
    let question = arp(REQUEST, (e1.mac, "10.0.1.1"), (MacAddress::ZERO, UNKNOWN));
    assert_eq!(e1.sent(), [ethernet(HOST, e1.mac, 0x0806, &question)]);
    assert_eq!(state(&bed, &e1, UNKNOWN), Some(State::Probing { mac: HOST, asked: 1 }));
    // Meanwhile the old entry is still used.
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
    learn(&mut bed, &e1, (HOST, UNKNOWN), "10.0.1.1");
    let routes = bed.router.ip.routes().len();
    bed.advance(MAX_AGE + SECOND);
    (0..REQUESTS).for_each(|_| bed.advance(SECOND));
    assert_eq!(e1.sent().len(), REQUESTS as usize);
    assert_eq!(state(&bed, &e1, UNKNOWN), None);
    assert_eq!(bed.router.ip.routes().len(), routes - 1);
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
    learn(&mut bed, &e1, (HOST, "10.0.1.9"), "10.0.1.1");
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
    request(&e1, (HOST, "10.0.1.9"), "10.0.1.1");
    while bed.worker.round() != graph::Progress::Idle {}
    bed.router.set_admin(e1.index, false).unwrap();
    bed.run();
    assert_eq!(state(&bed, &e1, "10.0.1.9"), None);
    bed.router.set_admin(e1.index, true).unwrap();
    bed.run();
    request(&e1, (HOST, "10.0.1.9"), "10.0.1.1");
    while bed.worker.round() != graph::Progress::Idle {}
    bed.router.remove_address(e1.index, prefix("10.0.1.1/24")).unwrap();
    bed.run();
    assert_eq!(state(&bed, &e1, "10.0.1.9"), None);
}

#[test]
fn all_addresses_are_announced_when_the_ethernet_address_changes() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.router.add_address(e0.index, prefix("10.0.0.200/24")).unwrap();
    bed.run();
    e0.sent();
    let announcements = |mac| {
        ["10.0.0.1", "10.0.0.200"].map(|address| {
            ethernet(MacAddress::BROADCAST, mac, 0x0806, &arp(REQUEST, (mac, address), (MacAddress::ZERO, address)))
        })
    };
    let mac = MacAddress([2, 9, 9, 9, 9, 9]);
    bed.router.set_mac(e0.index, mac).unwrap();
    bed.run();
    assert_eq!(e0.sent(), announcements(mac));
    bed.router.reset_mac(e0.index).unwrap();
    bed.run();
    assert_eq!(e0.sent(), announcements(e0.mac));
    bed.router.set_admin(e0.index, false).unwrap();
    bed.router.set_mac(e0.index, mac).unwrap();
    bed.run();
    assert_eq!(e0.sent(), Vec::<Vec<u8>>::new());
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
    learn(&mut bed, &e1, (HOST, "10.0.1.9"), "10.0.1.1");
    bed.run();
    let route = &bed.router.ip.routes().get(prefix("10.0.1.9/32")).unwrap();
    assert!(route.sources.keys().eq([&Source::Neighbour]));
    let key = NeighbourKey::new(e1.index, ip("10.0.1.9"));
    bed.router.remove_neighbour(key).unwrap();
    assert!(!bed.router.ip.routes().contains_key(prefix("10.0.1.9/32")));
    assert!(bed.router.remove_neighbour(key).is_err());
}

#[test]
fn group_addresses_are_no_neighbours() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let key = NeighbourKey::new(e0.index, ip("10.0.0.9"));
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
    assert_eq!(state(&bed, &e1, UNKNOWN), Some(State::Silent));
    let frame = e0.receive_packet(&to_unknown(2));
    bed.run();
    assert_eq!(e2.sent(), [forwarded(&frame, host_mac(ip(UNKNOWN)), e2.mac)]);
}

#[test]
fn an_operator_can_announce_an_address() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    assert_eq!(bed.command("arping gratuitous 10.0.0.1 e0").unwrap(), "Sending 1 GARP to 10.0.0.1\n");
    bed.run();
    let message = arp(REQUEST, (e0.mac, "10.0.0.1"), (MacAddress::ZERO, "10.0.0.1"));
    assert_eq!(e0.sent(), [ethernet(MacAddress::BROADCAST, e0.mac, 0x0806, &message)]);
    bed.router.set_admin(e0.index, false).unwrap();
    bed.command("arping gratuitous 10.0.0.1 e0").unwrap_err();
}

/// Executes a command whose answer comes later. Another thread reads the answer, as a client does.
pub fn asked(bed: &mut Bed, line: &str) -> std::thread::JoinHandle<String> {
    let reply = quiver_capabilities::commands().execute(&mut bed.router, line);
    let reply = reply.unwrap_or_else(|error| panic!("{line}: {error}"));
    bed.run();
    std::thread::spawn(move || reply.text())
}

#[test]
fn an_operator_can_ask_whether_a_host_is_there() {
    let (mut bed, [_, e1, _]) = Bed::with_three_ports();
    let asking = asked(&mut bed, &format!("arping {UNKNOWN} e1 repeat 3 interval 1"));
    // The host answers twice, then falls silent.
    for answers in [true, true, false] {
        assert_eq!(e1.sent(), [our_request(&e1, "10.0.1.1", UNKNOWN)]);
        if answers {
            reply(&e1, (HOST, UNKNOWN), "10.0.1.1");
            bed.run();
        }
        bed.advance(SECOND);
    }
    bed.advance(SECOND);
    assert_eq!(
        asking.join().unwrap(),
        format!("Sending 3 ARP Request to {UNKNOWN}\nReceived 2 ARP Replies from {HOST} ({UNKNOWN})\n")
    );
    // A static entry for the host makes no difference.
    bed.command(&format!("ip neighbor e1 10.0.1.78 {HOST}")).unwrap();
    e1.sent();
    let asking = asked(&mut bed, "arping 10.0.1.78 e1");
    reply(&e1, (HOST, "10.0.1.78"), "10.0.1.1");
    bed.run();
    bed.advance(Duration::from_millis(10));
    assert!(asking.join().unwrap().ends_with(&format!("Received 1 ARP Replies from {HOST} (10.0.1.78)\n")));
}

#[test]
fn who_does_not_answer_an_operator_is_waited_for_a_second() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let asking = asked(&mut bed, &format!("arping {UNKNOWN} e1"));
    bed.advance(Duration::from_millis(900));
    assert!(!asking.is_finished());
    bed.advance(Duration::from_millis(200));
    let said = asking.join().unwrap();
    assert_eq!(said, format!("Sending 1 ARP Request to {UNKNOWN}\nReceived 0 ARP Replies from {UNKNOWN}\n"));
    for (line, reason) in [
        ("arping 10.0.9.1 e1", "10.0.9.1 is on no network of e1"),
        ("arping 10.0.1.9 e7", "no interface named"),
        ("arping 10.0.1.9 e1 interval -1", "expected 0.001"),
        ("arping 10.0.1.9 e1 repeat 0", "expected number 1.."),
    ] {
        let error = bed.command(line).unwrap_err().to_string();
        assert!(error.contains(reason), "{line}: {error}");
    }
    bed.command("create loopback interface").unwrap();
    bed.command("set interface state loop0 up").unwrap();
    assert!(bed.command("arping gratuitous 10.0.0.1 loop0").unwrap_err().to_string().contains("loopback"));
    // A request ends when its interface is deleted, or when its client is gone, which makes room for others.
    let asking = asked(&mut bed, &format!("arping {UNKNOWN} e1 repeat 1000"));
    bed.command("delete interface e1").unwrap();
    bed.advance(Duration::from_millis(10));
    asking.join().unwrap();
    for _ in 0..40 {
        drop(quiver_capabilities::commands().execute(&mut bed.router, "arping 10.0.0.77 e0 repeat 1000").unwrap());
        bed.advance(Duration::from_millis(10));
    }
    e0.sent();
    e1.sent();
}

#[test]
fn an_address_is_announced_as_often_as_an_operator_wants() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let asking = asked(&mut bed, "arping gratuitous 10.0.0.1 e0 repeat 3 interval 0.1");
    let mut sent = e0.sent().len();
    for _ in 0..2 {
        bed.advance(Duration::from_millis(101));
        sent += e0.sent().len();
    }
    assert_eq!((sent, asking.join().unwrap()), (3, "Sending 3 GARP to 10.0.0.1\n".into()));
}

#[test]
fn an_operator_can_forget_what_was_learned() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    for command in ["ip neighbor flush", "ip neighbor flush e1", "clear ip neighbors", "clear ip neighbors e1"] {
        learn(&mut bed, &e0, (HOST, "10.0.0.9"), "10.0.0.1");
        learn(&mut bed, &e1, (HOST, "10.0.1.9"), "10.0.1.1");
        bed.command(command).unwrap();
        assert_eq!(state(&bed, &e1, "10.0.1.9"), None);
        assert_eq!(state(&bed, &e0, "10.0.0.9").is_some(), command.ends_with("e1"));
        assert!(state(&bed, &e1, "10.0.1.2").is_some(), "what an operator said stays");
    }
}

#[test]
fn a_neighbour_without_a_route_of_its_own_serves_routes_only() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.command("ip neighbor e1 10.0.1.9 02:cc:00:00:00:09 no-fib-entry").unwrap();
    assert!(!bed.router.ip.routes().contains_key(prefix("10.0.1.9/32")));
    assert!(bed.command("show ip neighbors e1").unwrap().contains("  SN  "));
    bed.route("77.0.0.0/8", &["10.0.1.9"]);
    let frame = e0.receive_packet(&Packet::udp("10.0.0.2", "77.0.0.1", b"x"));
    bed.run();
    assert_eq!(e1.sent(), [forwarded(&frame, HOST, e1.mac)]);
    bed.command("ip neighbor e1 10.0.1.9 02:cc:00:00:00:09").unwrap();
    assert!(bed.router.ip.routes().contains_key(prefix("10.0.1.9/32")));
    bed.command("ip neighbor e1 10.0.1.9 02:cc:00:00:00:09 no-fib-entry").unwrap();
    assert!(!bed.router.ip.routes().contains_key(prefix("10.0.1.9/32")));
}

#[test]
fn an_address_is_defended_once_in_ten_seconds_and_the_conflict_shown() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    let ours = arp(REQUEST, (e0.mac, "10.0.0.1"), (MacAddress::ZERO, "10.0.0.1"));
    let announcement = ethernet(MacAddress::BROADCAST, e0.mac, 0x0806, &ours);
    (0..3).for_each(|_| request(&e0, (HOST, "10.0.0.1"), "10.0.0.9"));
    reply(&e0, (HOST, "10.0.0.1"), "10.0.0.1");
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, error("arp-reply", "IP4 source address matches local interface", 4));
    assert_eq!(e0.sent(), [announcement]);
    let shown = bed.json("show arp conflicts");
    let conflict = &shown["conflicts"][0];
    assert_eq!((conflict["ip"].as_str(), conflict["mac"].as_str()), (Some("10.0.0.1"), Some("02:cc:00:00:00:09")));
    assert_eq!((conflict["interface"].as_str(), conflict["defended"].as_u64()), (Some("e0"), Some(1)));
    bed.command("clear arp conflicts").unwrap();
    assert_eq!(bed.json("show arp conflicts")["conflicts"].as_array().unwrap().len(), 0);
    // Our own message, reflected by the link, is no conflict.
    let moved = bed.errors_of(|_| request(&e0, (e0.mac, "10.0.0.1"), "10.0.0.9"));
    assert_eq!(moved, error("arp-reply", "ARP message of ours came back", 1));
    assert_eq!(bed.json("show arp conflicts")["conflicts"].as_array().unwrap().len(), 0);
}

#[test]
fn addresses_routed_elsewhere_are_answered_for_where_that_is_set() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.route("77.0.0.0/24", &["10.0.1.2"]);
    bed.route("77.0.1.0/24", &["10.0.0.2"]);
    bed.route_way("77.0.2.0/24", PathAction::Drop);
    bed.route("77.0.3.0/24", &["10.0.1.2", "10.0.2.2"]);
    bed.route("77.0.4.0/24", &["10.0.1.2", "10.0.0.2"]);
    let asked = |bed: &mut Bed, port: &Port, sender: &str, target: &str| {
        request(port, (HOST, sender), target);
        bed.run();
        let answer = arp(REPLY, (port.mac, target), (HOST, sender));
        let sent = port.sent();
        assert!(sent.is_empty() || sent == [ethernet(HOST, port.mac, 0x0806, &answer)], "{target}");
        !sent.is_empty()
    };
    assert!(!asked(&mut bed, &e0, "10.0.0.9", "77.0.0.5"));
    bed.command("set arp proxy start 10.0.0.0 end 77.0.255.255").unwrap();
    assert!(!asked(&mut bed, &e0, "10.0.0.9", "77.0.0.5"), "not set on the interface");
    bed.command("set interface proxy-arp e0 enable").unwrap();
    assert!(!asked(&mut bed, &e1, "10.0.1.9", "10.0.0.2"), "not set on this interface");
    for (target, answered) in [
        ("77.0.0.5", true),
        ("77.0.1.5", false), // back to the link of the request
        ("77.0.2.5", false), // leads nowhere
        ("77.0.3.5", true),
        ("77.0.4.5", false), // one of its paths leads back
        ("77.0.5.5", false), // no route
        ("10.0.1.77", true),
        ("10.0.1.1", true),   // our address on another interface
        ("10.0.0.77", false), // on the asker's network
        ("78.0.0.1", false),
    ] {
        assert_eq!(asked(&mut bed, &e0, "10.0.0.9", target), answered, "{target}");
    }
    let proxied = bed.errors()[&("arp-reply".into(), "Proxy ARP replies sent".into())];
    assert_eq!(proxied, 4);
    assert_eq!(state(&bed, &e0, "10.0.0.9"), learned(HOST), "who asks will be talked to");
    // A host that probes whether its address is free must not learn that it is taken.
    assert!(!asked(&mut bed, &e0, "0.0.0.0", "77.0.0.5"));
    assert!(!asked(&mut bed, &e0, "192.0.2.1", "77.0.0.5"), "a foreign asker");
    bed.command("set arp proxy del start 10.0.0.0 end 77.0.255.255").unwrap();
    assert!(!asked(&mut bed, &e0, "10.0.0.9", "77.0.0.5"));
}

#[test]
fn hosts_of_a_network_on_a_loopback_are_answered_for_when_they_have_a_route_elsewhere() {
    let mut bed = Bed::new();
    let (p, q) = (bed.port("p", &[]), bed.port("q", &[]));
    for line in [
        "create loopback interface",
        "set interface ip address loop0 192.0.2.1/24",
        "set interface state loop0 up",
        "set interface unnumbered p use loop0",
        "set interface unnumbered q use loop0",
        "ip route add 192.0.2.2/32 via p",
        "ip route add 192.0.2.3/32 via p",
        "ip route add 192.0.2.4/32 via q",
        "set arp proxy start 192.0.2.0 end 192.0.2.255",
        "set interface proxy-arp p enable",
    ] {
        bed.command(line).unwrap();
    }
    bed.run();
    q.sent();
    let mut answered = |target: &str| {
        p.sent();
        request(&p, (HOST, "192.0.2.2"), target);
        bed.run();
        let sent = p.sent();
        let answer = ethernet(HOST, p.mac, 0x0806, &arp(REPLY, (p.mac, target), (HOST, "192.0.2.2")));
        assert!(sent.is_empty() || sent == [answer], "{target}");
        !sent.is_empty()
    };
    assert!(answered("192.0.2.1"), "ours");
    assert!(answered("192.0.2.4"), "behind the other link");
    assert!(!answered("192.0.2.3"), "on the link of who asks");
    assert!(!answered("192.0.2.5"), "the network of the loopback leads to nobody");
}

#[test]
fn ranges_of_proxied_addresses_are_checked() {
    let (mut bed, _) = Bed::with_three_ports();
    bed.command("set arp proxy start 10.0.0.9 end 10.0.0.5").unwrap_err();
    bed.command("set arp proxy end 10.0.0.9 start 10.0.0.5 table-id 0").unwrap();
    bed.command("set arp proxy start 10.0.0.5 end 10.0.0.9").unwrap_err();
    bed.command("set arp proxy table-id 3 start 10.0.0.5 end 10.0.0.9").unwrap_err();
    bed.command("set arp proxy del start 10.0.0.5 end 10.0.0.8").unwrap_err();
    let expected = "Proxy arps enabled for:\nFib_index 0   10.0.0.5 - 10.0.0.9 \n";
    assert_eq!(bed.command("show arp proxy").unwrap(), expected);
}

#[test]
fn virtual_routers_may_answer_from_their_own_station() {
    // RFC 5798 7.3: the message carries the virtual address, while the frame may come from the real one.
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let virtual_mac = MacAddress([0, 0, 0x5e, 0, 1, 7]);
    e0.receive_packet(&to_unknown(1));
    bed.run();
    let message = arp(REPLY, (virtual_mac, UNKNOWN), (e1.mac, "10.0.1.1"));
    e1.receive(ethernet(e1.mac, HOST, 0x0806, &message));
    bed.run();
    assert_eq!(state(&bed, &e1, UNKNOWN), learned(virtual_mac));
}

#[test]
fn a_refused_static_neighbour_leaves_the_one_that_was_there() {
    let (mut bed, [_, e1, _]) = Bed::with_three_ports();
    bed.command("ip neighbor e1 10.0.1.7 02:00:00:00:00:07").unwrap();
    let refused = bed.command("ip neighbor e1 10.0.1.7 ff:ff:ff:ff:ff:ff no-fib-entry").unwrap_err();
    assert!(refused.contains("ff:ff:ff:ff:ff:ff"), "{refused}");
    assert!(state(&bed, &e1, "10.0.1.7").is_some_and(|state| state.is_static()));
    assert!(bed.router.ip.routes().contains_key(prefix("10.0.1.7/32")));
}

#[test]
fn conflicts_go_with_their_interface() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    announce(&e0, REQUEST, (HOST, "10.0.0.1"));
    bed.run();
    assert!(bed.command("show arp conflicts").unwrap().contains("10.0.0.1"));
    bed.router.delete_interface(e0.index).unwrap();
    assert!(!bed.command("show arp conflicts").unwrap().contains("10.0.0.1"));
}

#[test]
fn conflicts_are_told_at_a_rate() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    // Reports are limited: too many would fill control's queue, and other events would be lost.
    (0..100u8).for_each(|n| announce(&e0, REQUEST, (MacAddress([2, 0xee, 0, 0, 0, n]), "10.0.0.1")));
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, error("arp-reply", "IP4 source address matches local interface", 100));
    assert!(bed.command("show arp conflicts").unwrap().contains("02:ee:00:00:00:09"), "the tenth is the last");
}
