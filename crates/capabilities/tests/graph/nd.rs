//! Neighbor Discovery (RFC 4861): solicitations, advertisements, and limits on neighbours.

use crate::bed::{Bed, error};
use crate::bed6::*;
use crate::packet6::*;
use router::neighbour::NeighbourKey;
use router::neighbour::known::{Limits, State};
use router::neighbour::resolve::HELD_PER_NEIGHBOUR;
use std::time::Duration;
use wire::{Family, MacAddress};

#[test]
fn a_neighbour_is_asked_for_answered_and_what_waited_goes_on_in_order() {
    let (mut bed, ports) = bed();
    let hold: Vec<Packet6> = (0..3).map(|number| Packet6::udp("2001:db8:1::2", UNKNOWN, &[number; 9])).collect();
    hold.iter().for_each(|packet| ports[1].receive(packet.frame(ports[1].mac, mac_of(1))));
    bed.run();
    let sent = ports[0].sent();
    let [asked] = &sent[..] else { panic!("{} frames", sent.len()) };
    let mut expected = solicitation(OURS, UNKNOWN, &link_option(1, ports[0].mac));
    let group_mac = MacAddress([0x33, 0x33, 0xff, 0, 0, 0x77]);
    assert_eq!(*asked, expected.frame(group_mac, ports[0].mac));
    assert_eq!(bed.held(), 3);
    // An advertisement without the Ethernet address is no answer.
    let moved = bed.errors_of(|_| discover(&ports, STRANGER, &advertisement(OURS, UNKNOWN, SOLICITED, &[])));
    assert_eq!(moved, error("icmp6-neighbor-discovery", "neighbor advertisement without a link address", 1));
    let answer = advertisement(OURS, UNKNOWN, SOLICITED | OVERRIDE, &link_option(2, STRANGER));
    let moved = bed.errors_of(|_| discover(&ports, STRANGER, &answer));
    assert_eq!(moved, error("icmp6-neighbor-discovery", "neighbor advertisements received", 1));
    let forwarded: Vec<Vec<u8>> = hold.iter().map(|packet| packet.clone().hops(63).bytes()).collect();
    assert_eq!(packets(&ports[0]), forwarded);
    // The neighbour is known now, so the next packet goes out at once.
    expected = Packet6::udp("2001:db8:1::2", UNKNOWN, b"");
    ports[1].receive(expected.frame(ports[1].mac, mac_of(1)));
    bed.run();
    assert_eq!(packets(&ports[0]), [expected.hops(63).bytes()]);
}

#[test]
fn an_operator_can_ask_whether_a_host_is_there() {
    let (mut bed, ports) = bed();
    for _ in 0..2 {
        let asking = crate::arp::asked(&mut bed, &format!("arping {UNKNOWN} e0"));
        let sent = ports[0].sent();
        assert_eq!(sent.len(), 1, "a solicitation");
        discover(&ports, STRANGER, &advertisement(OURS, UNKNOWN, SOLICITED | OVERRIDE, &link_option(2, STRANGER)));
        bed.run();
        bed.advance(Duration::from_millis(10));
        let expected = format!("Received 1 Neighbor Advertisements from {STRANGER} ({UNKNOWN})\n");
        assert_eq!(asking.join().unwrap(), format!("Sending 1 Neighbor Solicitation to {UNKNOWN}\n{expected}"));
    }
    let said = bed.command("arping gratuitous 2001:db8::1 e0").unwrap();
    assert_eq!(said, "Sending 1 GARP to 2001:db8::1\n");
    bed.run();
    assert_eq!(ports[0].sent().len(), 1);
}

#[test]
fn who_does_not_answer_is_told_of_and_left_alone() {
    let (mut bed, ports) = bed();
    let packet = Packet6::udp("2001:db8:1::2", UNKNOWN, b"");
    ports[1].receive(packet.frame(ports[1].mac, mac_of(1)));
    bed.run();
    (0..3).for_each(|_| bed.advance(Duration::from_millis(1001)));
    assert_eq!(ports[0].sent().len(), 3, "asked three times");
    let [told] = &packets(&ports[1])[..] else { panic!("not told") };
    assert_eq!((told[40], told[41]), (1, 3), "address unreachable");
    // No new solicitation for a while; a limited number of errors a second.
    for _ in 0..150 {
        ports[1].receive(packet.frame(ports[1].mac, mac_of(1)));
    }
    let moved = bed.errors_of(|_| {});
    assert_eq!(ports[0].sent().len(), 0);
    assert_eq!(moved[&("ip6-discover-neighbor".into(), "neighbour did not answer lately".into())], 50);
    let told = |reason: &str| moved.get(&("ip6-icmp-error".into(), reason.into())).copied().unwrap_or(0);
    // One error was sent before.
    assert_eq!(told("ICMPv6 address unreachable sent") + told("ICMPv6 errors limited by rate"), 100);
}

#[test]
fn floods_for_absent_neighbours_are_bounded() {
    let (mut bed, ports) = bed();
    bed.command("set ip6 nd rate requests 100").unwrap();
    // First many packets for one neighbour, then for many neighbours from one source.
    let packet = Packet6::udp("2001:db8:1::2", UNKNOWN, b"");
    let moved = bed.errors_of(|_| {
        for _ in 0..HELD_PER_NEIGHBOUR + 5 {
            ports[1].receive(packet.frame(ports[1].mac, mac_of(1)));
        }
    });
    assert_eq!(moved, error("ip6-discover-neighbor", "hold queue full", 5));
    let moved = bed.errors_of(|_| {
        for host in 0..3000u32 {
            let packet = Packet6::udp("2001:db8:1::2", &format!("2001:db8::1:{host:x}"), b"");
            ports[1].receive(packet.frame(ports[1].mac, mac_of(1)));
        }
    });
    let count = |reason: &str| moved.get(&("ip6-discover-neighbor".into(), reason.into())).copied().unwrap_or(0);
    let bounded = count("neighbor solicitations throttled") + count("too many packets wait for neighbours");
    assert!(bounded > 2700, "{moved:?}");
    assert!(count("neighbor solicitations throttled") > 0);
    assert!(bed.router.neighbours.len() < 300 && bed.held() < 300);
    // New neighbours on another interface are still resolved.
    drop(ports[2].sent());
    let packet = Packet6::udp("2001:db8:1::9", "2001:db8:2::77", b"");
    ports[1].receive(packet.frame(ports[1].mac, mac_of(1)));
    bed.run();
    assert_eq!(ports[2].sent().len(), 1);
}

#[test]
fn every_network_has_an_anycast_address_of_its_routers() {
    let (mut bed, ports) = bed();
    let anycast = "2001:db8::";
    // Other routers of the network may answer, too, so the override flag is not set (RFC 4861 7.2.7).
    let ask = |bed: &mut Bed| {
        discover(&ports, STRANGER, &solicitation("2001:db8::9", anycast, &link_option(1, STRANGER)));
        bed.run();
        // Group reports may be sent as well.
        ports[0].sent().into_iter().filter(|frame| frame[14 + 40] == 136).collect::<Vec<_>>()
    };
    let data = [&ip6(anycast).octets()[..], &link_option(2, ports[0].mac)].concat();
    let answer = Packet6::discovery(OURS, "2001:db8::9", 136, 0x8000_0000 | SOLICITED, &data);
    assert_eq!(ask(&mut bed), [answer.frame(STRANGER, ports[0].mac)]);
    // Answers and errors come from a unicast address of the router (RFC 4443 2.2), of that network or another one.
    for (to, from) in [(anycast, OURS), ("2001:db8:1::", "2001:db8::1")] {
        ports[0].receive(Packet6::echo_request("2001:db8::9", to, b"data").frame(ports[0].mac, STRANGER));
        ports[0].receive(Packet6::udp("2001:db8::9", to, b"nobody listens").frame(ports[0].mac, STRANGER));
        bed.run();
        let sent = packets(&ports[0]);
        assert_eq!(sent.len(), 2, "{to}");
        for packet in sent {
            assert_eq!(packet[8..24], ip6(from).octets(), "{to}");
            assert!([129, 1].contains(&packet[40]));
        }
    }
    // An address that equals the anycast address makes it the router's own. When that address is removed, it is anycast
    // again; after the last address of the network, it is nothing to this router.
    bed.command("set interface ip address e0 2001:db8::/64").unwrap();
    bed.advance(Duration::from_secs(3));
    ports[0].sent();
    let own = Packet6::discovery(anycast, "2001:db8::9", 136, 0x8000_0000 | SOLICITED | OVERRIDE, &data);
    assert_eq!(ask(&mut bed), [own.frame(STRANGER, ports[0].mac)]);
    bed.command("set interface ip address del e0 2001:db8::/64").unwrap();
    ports[0].sent();
    assert_eq!(ask(&mut bed), [answer.frame(STRANGER, ports[0].mac)]);
    // A link-local sender is answered from the link-local address, a probe from any address.
    for (source, to, flags) in [("fe80::9", "fe80::9", SOLICITED), ("::", "ff02::1", 0)] {
        let option = if source == "::" { Vec::new() } else { link_option(1, STRANGER).to_vec() };
        discover(&ports, STRANGER, &solicitation(source, anycast, &option));
        bed.run();
        let sent: Vec<_> = packets(&ports[0]).into_iter().filter(|packet| packet[40] == 136).collect();
        let [told] = &sent[..] else { panic!("{} answers", sent.len()) };
        let from = if source == "::" { ip6(OURS) } else { wire::nd::link_local(ports[0].mac) }.octets();
        assert_eq!((&told[8..24], &told[24..40]), (&from[..], &ip6(to).octets()[..]));
        assert_eq!(told[44..48], (0x8000_0000u32 | flags).to_be_bytes());
    }
    let groups = |bed: &mut Bed| bed.command("show ip6 interface e0").unwrap();
    assert!(groups(&mut bed).contains("ff02::1:ff00:0\n"), "{}", groups(&mut bed));
    bed.command("set interface ip address del e0 2001:db8::1/64").unwrap();
    ports[0].sent();
    assert_eq!(ask(&mut bed), Vec::<Vec<u8>>::new());
    assert!(!groups(&mut bed).contains("ff02::1:ff00:0\n"));
    // A link of two routers has no anycast address (RFC 6164 5.1).
    bed.command("set interface ip address e0 2001:db8:9::1/127").unwrap();
    bed.advance(Duration::from_secs(3));
    ports[0].sent();
    discover(&ports, STRANGER, &solicitation("2001:db8:9::1", "2001:db8:9::", &link_option(1, STRANGER)));
    bed.run();
    assert_eq!(ports[0].sent(), Vec::<Vec<u8>>::new());
}

#[test]
fn solicitations_are_answered_and_askers_learned() {
    let (mut bed, ports) = bed();
    let asks = solicitation("2001:db8::9", OURS, &link_option(1, STRANGER));
    let moved = bed.errors_of(|_| discover(&ports, STRANGER, &asks));
    assert_eq!(moved, error("icmp6-neighbor-discovery", "neighbor advertisements sent", 1));
    let all = 0x8000_0000 | SOLICITED | OVERRIDE;
    let data = [&ip6(OURS).octets()[..], &link_option(2, ports[0].mac)].concat();
    let answer = Packet6::discovery(OURS, "2001:db8::9", 136, all, &data);
    assert_eq!(ports[0].sent(), [answer.frame(STRANGER, ports[0].mac)]);
    let key = NeighbourKey::new(ports[0].index, ip6("2001:db8::9"));
    assert_eq!(bed.router.neighbours.mac_of(&key), Some(STRANGER));
    // An address probe is answered to all nodes (RFC 4861 7.2.4).
    discover(&ports, STRANGER, &solicitation("::", OURS, &[]));
    bed.run();
    let answer = Packet6::discovery(OURS, "ff02::1", 136, 0x8000_0000 | OVERRIDE, &data);
    assert_eq!(ports[0].sent(), [answer.frame(MacAddress([0x33, 0x33, 0, 0, 0, 1]), ports[0].mac)]);
    // A neighbour that changes its Ethernet address is followed.
    let moved_to = MacAddress([2, 0xcc, 0, 0, 0, 9]);
    let moves = advertisement("ff02::1", "2001:db8::9", OVERRIDE, &link_option(2, moved_to));
    discover(&ports, moved_to, &moves);
    bed.run();
    assert_eq!(bed.router.neighbours.mac_of(&key), Some(moved_to));
}

#[test]
fn an_address_of_ours_that_another_claims_is_defended() {
    let (mut bed, ports) = bed();
    let claims = advertisement("ff02::1", OURS, OVERRIDE, &link_option(2, STRANGER));
    // `advertisement` sends from the target, which is our own address here, so another source is set.
    let mut claims = claims;
    claims.source = ip6("fe80::9");
    claims = claims.sealed_at(2);
    let moved = bed.errors_of(|_| discover(&ports, STRANGER, &claims));
    assert_eq!(moved, error("icmp6-neighbor-discovery", "neighbor has an address of ours", 1));
    let sent = packets(&ports[0]);
    let [defence] = &sent[..] else { panic!("{} frames", sent.len()) };
    assert_eq!((defence[40], &defence[48..64]), (136, &ip6(OURS).octets()[..]));
    assert_eq!(bed.router.neighbours.conflicts().iter().count(), 1);
}

#[test]
fn rates_bound_answers_learning_and_errors() {
    let (mut bed, ports) = bed();
    bed.command("set ip6 nd rate replies 3 learning 2").unwrap();
    bed.command("set ip icmp error-rate 5 burst 5").unwrap();
    bed.run();
    let discovery = |reason: &str| ("icmp6-neighbor-discovery".to_string(), reason.to_string());
    let moved = bed.errors_of(|_| {
        for host in 0..8u8 {
            let mac = MacAddress([2, 1, 0, 0, 0, host]);
            let source = format!("2001:db8::a{host}");
            discover(&ports, mac, &solicitation(&source, OURS, &link_option(1, mac)));
        }
    });
    assert_eq!(moved[&discovery("neighbor advertisements sent")], 3);
    assert_eq!(moved[&discovery("neighbor advertisements limited by rate")], 5);
    assert_eq!(moved[&discovery("asker answered, not learned")], 1);
    // A new Ethernet address of a known neighbour counts against the learning rate, too.
    let moves = advertisement("ff02::1", "2001:db8::a0", OVERRIDE, &link_option(2, STRANGER));
    let moved = bed.errors_of(|_| discover(&ports, STRANGER, &moves));
    assert_eq!(moved, error("icmp6-neighbor-discovery", "neighbor learning limited by rate", 1));
    let moved = bed.errors_of(|_| (0..9).for_each(|_| send(&ports, &udp("2001:db8:99::1"))));
    assert_eq!(moved[&("ip6-icmp-error".into(), "ICMPv6 errors limited by rate".into())], 4);
}

#[test]
fn control_that_does_not_listen_costs_packets_not_memory() {
    let (mut bed, ports) = bed();
    bed.command("set ip6 nd rate requests 1000000 replies 1000000 learning 1000000").unwrap();
    bed.run();
    let events = router::EVENT_QUEUE;
    for n in 0..events + 10 {
        let mac = MacAddress([2, 1, 0, 0, (n >> 8) as u8, n as u8]);
        discover(&ports, mac, &solicitation("2001:db8::9", OURS, &link_option(1, mac)));
    }
    while bed.worker.round() != graph::Progress::Idle {}
    let before = bed.errors();
    assert_eq!(before[&("icmp6-neighbor-discovery".into(), "asker answered, not learned".into())], 10);
    ports[1].receive(Packet6::udp("2001:db8:1::2", UNKNOWN, b"").frame(ports[1].mac, mac_of(1)));
    while bed.worker.round() != graph::Progress::Idle {}
    assert_eq!(bed.errors()[&("ip6-discover-neighbor".into(), "control is busy, not asked".into())], 1);
    bed.run();
    assert_eq!(bed.held(), 0);
}

/// IPv6 neighbours have their own limits.
#[test]
fn there_are_no_more_neighbours_than_the_limits_say() {
    let (mut bed, ports) = bed();
    let before = bed.router.neighbours.of_interface(ports[0].index).count();
    let most = before as u32 + 2;
    bed.command(&format!("set ip neighbor-config ip6 interface-limit {most}")).unwrap();
    bed.command("set ip neighbor-config ip4 limit 1").unwrap();
    let asks = |host: u8| {
        let mac = MacAddress([2, 1, 0, 0, 0, host]);
        solicitation(&format!("2001:db8::a{host}"), OURS, &link_option(1, mac))
    };
    (0..5).for_each(|host| discover(&ports, MacAddress([2, 1, 0, 0, 0, host]), &asks(host)));
    bed.run();
    let known = |bed: &Bed| -> Vec<String> {
        let of_e0 = bed.router.neighbours.of_interface(ports[0].index);
        let known = of_e0.filter(|(_, neighbour)| !neighbour.state.is_static() && neighbour.state != State::Silent);
        known.map(|(key, _)| key.address.to_string()).collect()
    };
    assert_eq!(known(&bed), ["2001:db8::a0", "2001:db8::a1"]);
    let met = bed.router.neighbours.met(Family::Ip6);
    assert_eq!((met.refused, met.recycled), (3, 0));
    assert_eq!(bed.router.neighbours.met(Family::Ip4).refused, 0);
    bed.command("set ip neighbor-config ip6 recycle").unwrap();
    discover(&ports, MacAddress([2, 1, 0, 0, 0, 4]), &asks(4));
    bed.run();
    assert_eq!(known(&bed), ["2001:db8::a1", "2001:db8::a4"]);
    assert_eq!(bed.router.neighbours.met(Family::Ip6).recycled, 1);
    assert_eq!(bed.router.neighbours.limits(Family::Ip4), Limits { limit: 1, ..Limits::of(Family::Ip4) });
    bed.run();
}
