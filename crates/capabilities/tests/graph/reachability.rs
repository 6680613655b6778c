//! Whether known neighbours are still there (RFC 4861 7.3).

use crate::bed::{Bed, Port, error};
use crate::bed6::*;
use crate::packet6::*;
use features::config;
use router::neighbour::NeighbourKey;
use router::neighbour::known::State;
use router::neighbour::reachability::DELAY;
use std::time::Duration;
use wire::MacAddress;

const SECOND: Duration = Duration::from_secs(1);
/// The longest time that an answer counts, 1.5 times 30 seconds, and one second more.
const REACHABLE: Duration = Duration::from_secs(46);
/// Less than the shortest time that an answer counts, half of 30 seconds.
const SURELY: Duration = Duration::from_secs(14);
const MOVED: MacAddress = MacAddress([2, 0xcc, 0, 0, 0, 9]);

fn state(bed: &Bed, port: &Port, address: &str) -> Option<State> {
    bed.router.neighbours.get(&NeighbourKey::new(port.index, ip6(address))).map(|neighbour| neighbour.state)
}

fn flags(bed: &mut Bed) -> String {
    let shown = bed.command("show ip6 neighbors").unwrap();
    let line = shown.lines().find(|line| line.contains(UNKNOWN)).unwrap_or_default();
    line.split_whitespace().nth(2).unwrap_or_default().to_string()
}

fn answer(solicited: u32, mac: MacAddress) -> Packet6 {
    advertisement(OURS, UNKNOWN, solicited, &link_option(2, mac))
}

fn send(bed: &mut Bed, ports: &[Port]) {
    let packet = Packet6::udp("2001:db8:1::2", UNKNOWN, b"x");
    ports[1].receive(packet.frame(ports[1].mac, mac_of(1)));
    bed.run();
}

/// A neighbour that has answered a moment ago.
fn known() -> (Bed, [Port; 3]) {
    let (mut bed, ports) = bed();
    send(&mut bed, &ports);
    discover(&ports, STRANGER, &answer(SOLICITED | OVERRIDE, STRANGER));
    bed.run();
    assert_eq!(state(&bed, &ports[0], UNKNOWN), Some(State::Known { mac: STRANGER, is_static: false }));
    drop(ports[0].sent());
    (bed, ports)
}

/// A neighbour that has not been heard for long, and to which no packet was sent since.
fn stale() -> (Bed, [Port; 3]) {
    let (mut bed, ports) = known();
    bed.advance(REACHABLE);
    assert_eq!(state(&bed, &ports[0], UNKNOWN), Some(State::Stale { mac: STRANGER }));
    (bed, ports)
}

/// Checks that exactly `data` packets were sent to the neighbour, and then `asked` unicast solicitations.
fn sent(ports: &[Port], data: usize, asked: usize) {
    let frames = ports[0].sent();
    assert_eq!(frames.len(), data + asked, "frames");
    for (number, frame) in frames.iter().enumerate() {
        assert_eq!(frame[..6], STRANGER.0);
        let question = (frame[20], frame[54]) == (58, 135);
        assert_eq!(question, number >= data, "frame {number}");
    }
}

#[test]
fn a_neighbour_is_asked_when_it_is_used_and_not_before() {
    let (mut bed, ports) = known();
    assert_eq!(flags(&mut bed), "D");
    bed.advance(SURELY);
    assert_eq!(flags(&mut bed), "D");
    bed.advance(REACHABLE - SURELY);
    assert_eq!(flags(&mut bed), "DO");
    bed.advance(100 * SECOND);
    sent(&ports, 0, 0);
    // Packets are never held: the first goes through `ip6-stale-neighbor`, the next ones directly.
    send(&mut bed, &ports);
    assert_eq!(state(&bed, &ports[0], UNKNOWN), Some(State::Delay { mac: STRANGER }));
    assert_eq!(flags(&mut bed), "DW");
    send(&mut bed, &ports);
    sent(&ports, 2, 0);
    bed.advance(DELAY - SECOND);
    sent(&ports, 0, 0);
    bed.advance(SECOND);
    assert_eq!(flags(&mut bed), "DA");
    sent(&ports, 0, 1);
    discover(&ports, STRANGER, &answer(SOLICITED, STRANGER));
    bed.run();
    assert_eq!(flags(&mut bed), "D");
    // Its reachability is confirmed for a while.
    bed.advance(SURELY);
    send(&mut bed, &ports);
    sent(&ports, 1, 0);
    assert_eq!(flags(&mut bed), "D");
}

#[test]
fn a_vector_to_a_stale_neighbour_goes_whole_and_is_told_of_once() {
    let (mut bed, ports) = stale();
    let frames: Vec<Packet6> = (0..200).map(|number| Packet6::udp("2001:db8:1::2", UNKNOWN, &[number; 9])).collect();
    frames.iter().for_each(|packet| ports[1].receive(packet.frame(ports[1].mac, mac_of(1))));
    bed.run();
    let expected: Vec<Vec<u8>> = frames.iter().map(|packet| packet.clone().hops(63).bytes()).collect();
    assert_eq!(packets(&ports[0]), expected);
    assert_eq!(state(&bed, &ports[0], UNKNOWN), Some(State::Delay { mac: STRANGER }));
    let runtime = bed.command("show runtime").unwrap();
    let line = runtime.lines().find(|line| line.starts_with("ip6-stale-neighbor")).unwrap();
    assert_eq!(line.split_whitespace().nth(3), Some("200"), "{line}");
    // Later packets do not pass that node.
    send(&mut bed, &ports);
    let runtime = bed.command("show runtime").unwrap();
    let line = runtime.lines().find(|line| line.starts_with("ip6-stale-neighbor")).unwrap();
    assert_eq!(line.split_whitespace().nth(3), Some("200"), "{line}");
}

#[test]
fn who_does_not_answer_is_asked_three_times_and_forgotten() {
    let (mut bed, ports) = stale();
    send(&mut bed, &ports);
    bed.advance(DELAY);
    bed.advance(SECOND);
    bed.advance(SECOND);
    // Its entry is used until then.
    send(&mut bed, &ports);
    let frames = ports[0].sent();
    let questions = frames.iter().filter(|frame| (frame[20], frame[54]) == (58, 135)).count();
    assert_eq!((frames.len(), questions), (5, 3));
    bed.advance(SECOND);
    assert_eq!(state(&bed, &ports[0], UNKNOWN), None);
    // Then it is resolved anew, by a multicast solicitation.
    send(&mut bed, &ports);
    let [asked] = &ports[0].sent()[..] else { panic!("not asked") };
    assert_eq!(asked[..6], [0x33, 0x33, 0xff, 0, 0, 0x77]);
}

#[test]
fn an_answer_during_the_delay_spares_the_question() {
    let (mut bed, ports) = stale();
    send(&mut bed, &ports);
    discover(&ports, STRANGER, &answer(SOLICITED, STRANGER));
    bed.run();
    drop(ports[0].sent());
    bed.advance(DELAY);
    assert_eq!(flags(&mut bed), "D");
    sent(&ports, 0, 0);
    // The time counts from the arrival of the answer, also while no packets are sent.
    bed.advance(REACHABLE);
    assert_eq!(flags(&mut bed), "DO");
    discover(&ports, STRANGER, &answer(SOLICITED, STRANGER));
    bed.run();
    send(&mut bed, &ports);
    assert_eq!(flags(&mut bed), "D");
}

#[test]
fn what_a_neighbour_says_unasked_confirms_nothing() {
    let (mut bed, ports) = stale();
    send(&mut bed, &ports);
    drop(ports[0].sent());
    // Its packets reach us, but that does not prove that ours reach it (RFC 4861 7.3.1).
    let asks = solicitation(UNKNOWN, OURS, &link_option(1, STRANGER));
    let announces = advertisement("ff02::1", UNKNOWN, OVERRIDE, &link_option(2, STRANGER));
    for said in [&asks, &announces] {
        discover(&ports, STRANGER, said);
        bed.run();
    }
    assert_eq!(flags(&mut bed), "DW");
    drop(ports[0].sent());
    bed.advance(DELAY);
    assert_eq!(flags(&mut bed), "DA");
    sent(&ports, 0, 1);
    discover(&ports, STRANGER, &asks);
    bed.run();
    assert_eq!(flags(&mut bed), "DA");
}

#[test]
fn another_link_address_is_used_and_doubted_unless_it_is_an_answer() {
    let (mut bed, ports) = known();
    // RFC 4861 appendix C: an unsolicited advertisement with the override flag, and a solicitation.
    for said in [
        advertisement("ff02::1", UNKNOWN, OVERRIDE, &link_option(2, MOVED)),
        solicitation(UNKNOWN, OURS, &link_option(1, STRANGER)),
    ] {
        discover(&ports, STRANGER, &said);
        bed.run();
        let mac = if said.bytes()[40] == 136 { MOVED } else { STRANGER };
        assert_eq!(state(&bed, &ports[0], UNKNOWN), Some(State::Stale { mac }));
    }
    discover(&ports, MOVED, &answer(SOLICITED | OVERRIDE, MOVED));
    bed.run();
    assert_eq!(state(&bed, &ports[0], UNKNOWN), Some(State::Known { mac: MOVED, is_static: false }));
    drop(ports[0].sent());
    send(&mut bed, &ports);
    assert_eq!(ports[0].sent()[0][..6], MOVED.0);
    assert_eq!(state(&bed, &ports[0], UNKNOWN), Some(State::Known { mac: MOVED, is_static: false }));
}

#[test]
fn an_answer_that_does_not_override_brings_doubt_only() {
    let (mut bed, ports) = known();
    let other = answer(SOLICITED, MOVED);
    let moved = bed.errors_of(|_| discover(&ports, MOVED, &other));
    assert_eq!(moved, error("icmp6-neighbor-discovery", "neighbor advertisement does not override", 1));
    assert_eq!(state(&bed, &ports[0], UNKNOWN), Some(State::Stale { mac: STRANGER }));
    // A neighbour that is being probed, and a static one, do not change.
    send(&mut bed, &ports);
    bed.advance(DELAY);
    discover(&ports, MOVED, &other);
    bed.run();
    assert_eq!(state(&bed, &ports[0], UNKNOWN), Some(State::Probing { mac: STRANGER, asked: 1 }));
    let stated = mac_of(0);
    bed.command(&format!("ip6 neighbor e0 {UNKNOWN} {stated}")).unwrap();
    discover(&ports, MOVED, &other);
    bed.advance(REACHABLE);
    assert_eq!(state(&bed, &ports[0], UNKNOWN), Some(State::Known { mac: stated, is_static: true }));
}

#[test]
fn who_asks_us_is_stale_at_first() {
    let (mut bed, ports) = bed();
    discover(&ports, STRANGER, &solicitation(UNKNOWN, OURS, &link_option(1, STRANGER)));
    bed.run();
    drop(ports[0].sent());
    assert_eq!(flags(&mut bed), "DO");
    // Pending packets are sent when the neighbour solicits us, and start the delay.
    let (mut bed, ports) = self::bed();
    send(&mut bed, &ports);
    drop(ports[0].sent());
    discover(&ports, STRANGER, &solicitation(UNKNOWN, OURS, &link_option(1, STRANGER)));
    bed.run();
    assert_eq!(bed.held(), 0);
    assert_eq!(ports[0].sent().len(), 2, "our answer, and what waited");
    assert_eq!(flags(&mut bed), "DW");
}

#[test]
fn operators_say_how_long_an_answer_is_good_for() {
    let (mut bed, ports) = known();
    bed.command("set ip neighbor-config ip6 reachable-time 0").unwrap();
    bed.advance(REACHABLE);
    send(&mut bed, &ports);
    assert_eq!(flags(&mut bed), "D");
    sent(&ports, 1, 0);
    bed.advance(1200 * SECOND);
    assert_eq!(flags(&mut bed), "DA");
    discover(&ports, STRANGER, &answer(SOLICITED, STRANGER));
    bed.run();
    bed.command("set ip neighbor-config ip6 reachable-time 2").unwrap();
    bed.advance(3 * SECOND);
    assert_eq!(flags(&mut bed), "DO");
    // A neighbour without traffic is probed when it is old, and forgotten without an answer.
    drop(ports[0].sent());
    bed.advance(1200 * SECOND);
    sent(&ports, 0, 1);
    (0..3).for_each(|_| bed.advance(SECOND));
    assert_eq!(state(&bed, &ports[0], UNKNOWN), None);
    assert_eq!(bed.command("set ip neighbor-config ip6 reachable-time 2").unwrap(), "");
    let refused = bed.command("set ip neighbor-config ip4 reachable-time 2").unwrap_err();
    assert!(refused.contains("reachable-time"), "{refused}");
    for rubbish in ["3601", "-1", "4294967296", "x", ""] {
        let refused = bed.command(&format!("set ip neighbor-config ip6 reachable-time {rubbish}")).unwrap_err();
        assert!(refused.contains("reachable") || refused.contains("0..3600"), "{rubbish}: {refused}");
    }
    let shown = bed.command("show ip neighbor-config").unwrap();
    assert!(shown.contains("reachable-time:2"), "{shown}");
    let saved: Vec<String> = config::running_config(&bed.router).into_iter().map(|statement| statement.line).collect();
    let line = "set ip neighbor-config ip6 limit 50000 interface-limit 16384 age 1200 reachable-time 2 norecycle";
    assert!(saved.iter().any(|saved| saved == line), "{saved:?}");
}

#[test]
fn link_local_next_hops_are_doubted_the_same() {
    let (mut bed, ports) = bed();
    bed.command("ip route add 2001:db8:77::/48 via fe80::77 e0").unwrap();
    let packet = Packet6::udp("2001:db8:1::2", "2001:db8:77::1", b"x");
    let through = |bed: &mut Bed| {
        ports[1].receive(packet.frame(ports[1].mac, mac_of(1)));
        bed.run();
    };
    through(&mut bed);
    discover(&ports, STRANGER, &advertisement(OURS, "fe80::77", SOLICITED | OVERRIDE, &link_option(2, STRANGER)));
    bed.run();
    drop(ports[0].sent());
    bed.advance(REACHABLE);
    through(&mut bed);
    assert_eq!(state(&bed, &ports[0], "fe80::77"), Some(State::Delay { mac: STRANGER }));
    sent(&ports, 1, 0);
    bed.advance(DELAY);
    sent(&ports, 0, 1);
}
