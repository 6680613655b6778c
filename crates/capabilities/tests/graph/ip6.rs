//! IPv6: exact packets in, exact packets and counters out.

use crate::bed::{Bed, error};
use crate::bed6::*;
use crate::packet::Random;
use crate::packet6::*;
use router::neighbour::NeighbourKey;

#[test]
fn what_goes_no_further_is_told_of() {
    type Case = (&'static str, (u8, u8, u32), fn() -> Packet6);
    let cases: &[Case] = &[
        ("ICMPv6 no route sent", (1, 0, 0), || udp("2001:db8:99::1")),
        ("ICMPv6 admin prohibited sent", (1, 1, 0), || udp("2001:db8:23::1")),
        ("ICMPv6 address unreachable sent", (1, 3, 0), || udp("2001:db8:22::1")),
        ("ICMPv6 port unreachable sent", (1, 4, 0), || udp(OURS)),
        ("ICMPv6 hop limit exceeded sent", (3, 0, 0), || udp("2001:db8:1::2").hops(1)),
        ("ICMPv6 hop limit exceeded sent", (3, 0, 0), || udp("2001:db8:24::2").hops(0)),
        // A routing header with segments left: of type 0, and of segments (RFC 5095, RFC 8754).
        ("ICMPv6 erroneous header field sent", (4, 0, 42), || {
            let body = [&[0, 1, 0, 0, 0, 0][..], &ip6("2001:db8:1::2").octets()].concat();
            udp(OURS).extension(ROUTING, &body)
        }),
        ("ICMPv6 erroneous header field sent", (4, 0, 42), || {
            let body = [&[4, 1, 1, 0, 0, 0][..], &ip6("2001:db8:1::2").octets()].concat();
            udp(OURS).extension(ROUTING, &body)
        }),
        // An option that extends beyond its header.
        ("ICMPv6 erroneous header field sent", (4, 0, 42), || udp(OURS).extension(OPTIONS, &[0x1e, 9, 0, 0, 0, 0])),
        ("ICMPv6 unrecognized next header sent", (4, 1, 6), || Packet6::new("2001:db8::2", OURS, 99, &[0; 8])),
        ("ICMPv6 unrecognized next header sent", (4, 1, 40), || {
            Packet6::new("2001:db8::2", OURS, 99, &[0; 8]).extension(OPTIONS, &[1, 4, 0, 0, 0, 0])
        }),
        // Hop-by-hop options after another extension header.
        ("ICMPv6 unrecognized next header sent", (4, 1, 40), || {
            udp(OURS).extension(OPTIONS, &[1, 4, 0, 0, 0, 0]).extension(HOP_BY_HOP, &[1, 4, 0, 0, 0, 0])
        }),
        ("ICMPv6 unrecognized option sent", (4, 2, 42), || udp(OURS).extension(OPTIONS, &[0x9e, 4, 0, 0, 0, 0])),
        // An extension header, and a TCP header, that continue after the first fragment; a UDP header that is missing
        // from it.
        ("ICMPv6 incomplete first fragment sent", (4, 3, 0), || {
            let long = [&[17, 2][..], &padding(14)].concat();
            Packet6::new("2001:db8::2", OURS, OPTIONS, &long).fragment(0, true, 1)
        }),
        ("ICMPv6 incomplete first fragment sent", (4, 3, 0), || {
            Packet6::new("2001:db8::2", OURS, 6, &[0; 16]).fragment(0, true, 1)
        }),
        ("ICMPv6 incomplete first fragment sent", (4, 3, 0), || {
            Packet6::new("2001:db8::2", OURS, 17, &[]).fragment(0, true, 1).extension(OPTIONS, &[1, 4, 0, 0, 0, 0])
        }),
        // A fragment length that leaves a gap, and an offset that goes too far.
        ("ICMPv6 erroneous header field sent", (4, 0, 4), || {
            Packet6::new("2001:db8::2", OURS, 17, &[0; 1001]).fragment(8, true, 1)
        }),
        ("ICMPv6 erroneous header field sent", (4, 0, 42), || {
            Packet6::new("2001:db8::2", OURS, 17, &[0; 8]).fragment(65528, false, 1)
        }),
        ("ICMPv6 erroneous header field sent", (4, 0, 50), || {
            // The other headers count towards the packet's length.
            let packet = Packet6::new("2001:db8::2", OURS, 17, &[0; 8]).extension(HOP_BY_HOP, &padding(6));
            packet.fragment(65520, false, 1)
        }),
        ("ICMPv6 unrecognized option sent", (4, 2, 44), || udp(OURS).extension(HOP_BY_HOP, &[1, 0, 0xde, 2, 0, 0])),
    ];
    for (name, expected, packet) in cases {
        let (mut bed, ports) = bed();
        let packet = packet();
        let before = bed.errors();
        let (kind, code, rest, quote) = told(&mut bed, &ports, &packet);
        assert_eq!((kind, code, rest), *expected, "{name}");
        assert_eq!(quote, packet.bytes(), "{name}: as it was received");
        let key = ("ip6-icmp-error".to_string(), name.to_string());
        assert_eq!(bed.errors()[&key] - before.get(&key).copied().unwrap_or(0), 1, "{name}");
    }
}

#[test]
fn a_packet_too_big_is_told_the_length_that_fits() {
    let (mut bed, ports) = bed();
    bed.command("set interface mtu ip6 1300 e1").unwrap();
    let packet = Packet6::udp("2001:db8::2", "2001:db8:1::2", &[7; 1300 - 48]);
    send(&ports, &packet);
    bed.run();
    assert_eq!(ports[1].sent().len(), 1, "1300 bytes fit");
    let packet = Packet6::udp("2001:db8::2", "2001:db8:1::2", &[7; 1301 - 48]);
    let (kind, code, mtu, quote) = told(&mut bed, &ports, &packet);
    assert_eq!((kind, code, mtu), (2, 0, 1300));
    assert_eq!(quote, packet.bytes()[..1280 - 48], "as much as fits the least MTU");
    assert_eq!(bed.errors()[&("ip6-rewrite".into(), "ip6 packets too big".into())], 1);
}

#[test]
fn link_local_sources_stay_on_their_link() {
    let (mut bed, ports) = bed();
    let key = NeighbourKey::new(ports[0].index, ip6("fe80::9"));
    bed.router.set_neighbour(key, mac_of(0), true).unwrap();
    let (kind, code, ..) = told(&mut bed, &ports, &Packet6::udp("fe80::9", "2001:db8:1::2", b""));
    assert_eq!((kind, code), (1, 2), "beyond the scope of the source");
    // Packets to the router itself are answered.
    let echo = Packet6::echo_request("fe80::9", OURS, b"ping");
    assert_eq!(told(&mut bed, &ports, &echo).0, 129);
}

/// RFC 4291 2.5.6: an answer from a link-local address is sent on its link, or not at all.
#[test]
fn answers_from_a_link_local_address_stay_on_its_link() {
    let (mut bed, ports) = bed();
    // A route to the sender that would lead the answer elsewhere.
    bed.command("ip route add 2001:db8::2/128 via 2001:db8:1::2").unwrap();
    let echo = Packet6::echo_request("2001:db8::2", LINK_LOCAL, b"ping");
    assert_eq!(told(&mut bed, &ports, &echo).0, 129);
    // The same when the sender is not a known neighbour yet.
    bed.command("ip route add 2001:db8::77/128 via 2001:db8:1::2").unwrap();
    let echo = Packet6::echo_request(UNKNOWN, LINK_LOCAL, b"ping");
    discover(&ports, STRANGER, &echo);
    bed.run();
    assert_eq!(ports[0].sent()[0][54], 135, "asked for on the link");
    discover(&ports, STRANGER, &advertisement(OURS, UNKNOWN, SOLICITED | OVERRIDE, &link_option(2, STRANGER)));
    bed.run();
    let sent = packets(&ports[0]);
    assert_eq!((sent.len(), sent[0][40], &sent[0][24..40]), (1, 129, &ip6(UNKNOWN).octets()[..]));
    assert_eq!((ports[1].sent().len(), ports[2].sent().len()), (0, 0));
}

/// RFC 4443 2.2, RFC 6724 section 5: an error about a packet to a link-local address has a source of its receiver's
/// scope.
#[test]
fn errors_beyond_the_link_are_from_a_global_address() {
    let (mut bed, ports) = bed();
    let from = |bed: &mut Bed, packet: Packet6| {
        send(&ports, &packet);
        bed.run();
        let sent = packets(&ports[0]);
        assert_eq!((sent.len(), sent[0][40]), (1, 1), "{sent:x?}");
        std::net::Ipv6Addr::from(*sent[0][8..].first_chunk::<16>().unwrap()).to_string()
    };
    bed.command("ip route add 2001:db8:30::/48 via 2001:db8::2").unwrap();
    assert_eq!(from(&mut bed, udp(LINK_LOCAL)), OURS);
    assert_eq!(from(&mut bed, Packet6::udp("2001:db8:30::9", LINK_LOCAL, b"")), OURS);
    bed.command("ip6 neighbor e0 fe80::9 02:bb:00:00:00:01").unwrap();
    assert_eq!(from(&mut bed, Packet6::udp("fe80::9", OURS, b"")), LINK_LOCAL);
    // When the interface has no address of that scope, another interface's is used.
    bed.command("set interface ip address del e0 all").unwrap();
    bed.command("enable ip6 interface e0").unwrap();
    bed.command("ip6 neighbor e0 fe80::9 02:bb:00:00:00:01").unwrap();
    bed.command("ip route add 2001:db8:31::/48 via fe80::9 e0").unwrap();
    bed.run();
    drop(ports[0].sent());
    assert_eq!(from(&mut bed, Packet6::udp("2001:db8:31::9", LINK_LOCAL, b"")), "2001:db8:1::1");
}

#[test]
fn echo_is_answered_without_the_extension_headers_that_it_had() {
    let (mut bed, ports) = bed();
    let plain = Packet6::echo_request("2001:db8::2", OURS, b"0123456789");
    let wrapped = plain.clone().extension(HOP_BY_HOP, &[1, 4, 0, 0, 0, 0]).extension(OPTIONS, &[1, 4, 0, 0, 0, 0]);
    // A routing header without segments left, and an atomic fragment.
    let segments = [&[4, 0, 0, 0, 0, 0][..], &ip6(OURS).octets()].concat();
    let routed = plain.clone().extension(ROUTING, &segments);
    let atomic = plain.clone().fragment(0, false, 9);
    for packet in [&plain, &wrapped, &routed, &atomic] {
        let (kind, code, rest, data) = told(&mut bed, &ports, packet);
        assert_eq!((kind, code, rest, &data[..]), (129, 0, 0x0042_0007, &b"0123456789"[..]));
    }
    // A packet to a group is answered from the router's own address.
    assert_eq!(told(&mut bed, &ports, &Packet6::echo_request("2001:db8::2", "ff02::1", b"x")).0, 129);
}

/// The length of an authentication header has its own unit: the node that checks options must find them where the
/// header walk did.
#[test]
fn options_behind_an_authentication_header_are_found() {
    let (mut bed, ports) = bed();
    let authentication = (51, [&[0, 4][..], &[0xa5; 22]].concat());
    let mut packet = from_e0(OURS);
    packet.extensions.push(authentication);
    let moved = bed.errors_of(|_| send(&ports, &packet.clone().extension(OPTIONS, &[0x5e, 4, 0, 0, 0, 0])));
    assert_eq!(moved, error("ip6-local", "ip6 option says discard", 1));
    // No node listens on the UDP port after it.
    let known = packet.extension(OPTIONS, &[1, 4, 0, 0, 0, 0]);
    assert_eq!(told(&mut bed, &ports, &known).0, 1);
}

/// Extension headers of all kinds: valid, with a wrong length, cut short, or random.
#[test]
fn no_extension_headers_stop_the_router() {
    const KINDS: [u8; 9] = [HOP_BY_HOP, ROUTING, FRAGMENT, 51, OPTIONS, 135, 139, ICMP6, 17];
    let (mut bed, ports) = bed();
    let mut random = Random::new(6);
    let mut below = |bound| random.below(bound);
    for round in 0..40 {
        for _ in 0..100 {
            let mut packet = Packet6::echo_request("2001:db8::2", [OURS, "ff02::1"][below(2)], b"x");
            for _ in 0..below(11) {
                let mut header = vec![0; 8 * (1 + below(4))];
                header.iter_mut().for_each(|byte| *byte = [0, 1, 5, 0x5e, 0x9e, 0xde, below(256) as u8][below(7)]);
                header[1] = [(header.len() / 8 - 1) as u8, below(8) as u8][below(2)];
                packet.extensions.push((KINDS[below(KINDS.len())], header));
            }
            spoilt(&ports, packet, |frame| {
                if below(4) == 0 {
                    let length = 54 + below(frame.len() - 53);
                    frame.truncate(length);
                    let payload = (length - 54) as u16;
                    frame[18..20].copy_from_slice(&payload.to_be_bytes());
                }
            });
        }
        bed.run();
        ports.iter().for_each(|port| drop(port.sent()));
        // A valid request is still answered.
        send(&ports, &Packet6::echo_request("2001:db8::2", OURS, b"alive"));
        bed.run();
        assert_eq!(ports[0].sent().len(), 1, "round {round}");
    }
}

#[test]
fn forwarding_changes_the_link_header_and_the_hop_limit_only() {
    let (mut bed, ports) = bed();
    let mut random = Random::new(6);
    let mut expected = [Vec::new(), Vec::new()];
    for number in 0..600 {
        let way = random.below(2);
        let to = ["2001:db8:1::2", "2001:db8:2::2"][way];
        let data: Vec<u8> = (0..random.below(1200)).map(|_| random.next() as u8).collect();
        let mut packet = Packet6::udp(&format!("2001:db8::{:x}", 2 + random.below(900)), to, &data);
        packet.label = random.next() as u32 & 0xf_ffff;
        packet.hops = 2 + random.below(253) as u8;
        // Routers ignore segment routing, fragments and options that are for the destination.
        packet = match number % 5 {
            0 => packet.extension(ROUTING, &[&[4, 1, 1, 0, 0, 0][..], &[7; 32]].concat()),
            1 => packet.fragment(0, true, 1),
            2 => packet.extension(HOP_BY_HOP, &[0x5e, 4, 0, 0, 0, 0]),
            _ => packet,
        };
        let mut frame = packet.frame(ports[0].mac, mac_of(0));
        // Short frames are padded by the sender.
        frame.resize(frame.len().max(60 + random.below(8)), 0xee);
        ports[0].receive(frame);
        packet.hops -= 1;
        expected[way].push(packet.frame(mac_of(way + 1), ports[way + 1].mac));
    }
    bed.run();
    for (way, expected) in expected.iter_mut().enumerate() {
        let mut sent = ports[way + 1].sent();
        sent.sort();
        expected.sort();
        assert_eq!(sent.len(), expected.len());
        assert!(sent == *expected, "e{}", way + 1);
    }
}

#[test]
fn both_families_share_a_vector() {
    let (mut bed, ports) = bed();
    bed.command("set interface ip address e0 10.0.0.1/24").unwrap();
    bed.command("set interface ip address e1 10.0.1.1/24").unwrap();
    bed.know(&ports[1], "10.0.1.2");
    bed.run();
    ports.iter().for_each(|port| drop(port.sent()));
    for first in 0..2 {
        for number in 0..64 {
            if number % 3 == first {
                ports[0].receive_packet(&crate::packet::Packet::udp("10.0.0.2", "10.0.1.2", &[number]));
            } else {
                send(&ports, &Packet6::udp("2001:db8::2", "2001:db8:1::2", &[number]));
            }
        }
        let before = bed.errors();
        bed.run();
        assert_eq!(bed.errors(), before);
        let sent = ports[1].sent();
        let of4 = sent.iter().filter(|frame| frame[12..14] == [8, 0]).count();
        assert_eq!((sent.len(), of4), (64, (0..64).filter(|number| number % 3 == first).count()));
    }
}

#[test]
fn flows_spread_over_paths_and_each_keeps_its_own() {
    let (mut bed, ports) = bed();
    bed.command("ip route add 2001:db8:30::/48 via 2001:db8:1::2 via 2001:db8:2::2").unwrap();
    let mut by_port = [0, 0];
    for flow in 0..200u32 {
        for _ in 0..2 {
            let mut packet = udp("2001:db8:30::1");
            packet.label = flow;
            send(&ports, &packet);
        }
        bed.run();
        let sent = [ports[1].sent().len(), ports[2].sent().len()];
        assert!(sent == [2, 0] || sent == [0, 2], "{sent:?}");
        by_port[0] += sent[0];
        by_port[1] += sent[1];
    }
    assert!(by_port.iter().all(|count| (140..260).contains(count)), "{by_port:?}");
}

/// RFC 4007 section 6: the same link-local address on two links means two stations.
#[test]
fn link_local_next_hops_are_of_their_link() {
    let (mut bed, ports) = bed();
    for line in [
        "set ip6 link-local address e1 fe80::1",
        "ip6 neighbor e0 fe80::1 02:bb:00:00:00:01",
        "ip route add 2001:db8:9::/48 via fe80::1 e0",
    ] {
        bed.command(line).unwrap();
    }
    let error = bed.command("ip route add 2001:db8:a::/48 via fe80::1 e1").unwrap_err();
    assert!(error.contains("own address, on e1"), "{error}");
    let packet = Packet6::udp("2001:db8:1::2", "2001:db8:9::1", b"");
    for (line, is_sent) in [
        ("set ip6 link-local address e1 fe80::1", true),
        ("set ip6 link-local address e0 fe80::1", false),
        ("set ip6 link-local address e0 fe80::2", true),
    ] {
        bed.command(line).unwrap();
        bed.run();
        drop(ports[0].sent());
        ports[1].receive(packet.frame(ports[1].mac, mac_of(1)));
        bed.run();
        let sent = ports[0].sent();
        let to_hop = sent.iter().filter(|frame| frame[..6] == STRANGER.0).count();
        assert_eq!((sent.len(), to_hop), (usize::from(is_sent), usize::from(is_sent)), "{line}");
        assert_eq!(bed.router.ip.audit(), Ok(()), "{line}");
    }
}

#[test]
fn interfaces_join_and_leave() {
    let mut bed = Bed::new();
    let port = bed.port("e0", &[]);
    let enabled = |bed: &Bed| bed.router.interfaces.get(port.index).unwrap().ip6.is_enabled();
    for (line, is_enabled) in [
        ("enable ip6 interface e0", true),
        ("disable ip6 interface e0", false),
        ("set interface ip address e0 2001:db8::1/64", true),
        ("set interface ip address del e0 2001:db8::1/64", false),
        ("set interface ip address e0 2001:db8::1/64", true),
        ("enable ip6 interface e0", true),
        ("disable ip6 interface e0", true),
        ("set interface ip address del e0 all", false),
        ("set interface ip address e0 2001:db8::1/64", true),
        ("enable ip6 interface e0", true),
        ("set interface ip address del e0 all", true),
    ] {
        bed.command(line).unwrap();
        bed.run();
        assert_eq!(enabled(&bed), is_enabled, "{line}");
        assert_eq!(bed.router.ip.audit(), Ok(()), "{line}");
    }
    bed.command("set ip6 link-local address e0 fe80::7").unwrap();
    let shown = bed.command("show ip6 interface e0").unwrap();
    assert!(shown.contains("fe80::7") && shown.contains("ff02::1:ff00:7"), "{shown}");
    for (line, why) in [
        ("set interface ip address e0 ff02::9/64", "no IPv6 address for an interface"),
        ("set interface ip address e0 ::ffff:10.0.0.1/96", "no IPv6 address for an interface"),
        ("set interface ip address e0 ::1/128", "no IPv6 address for an interface"),
        ("set interface ip address e0 fe80::9/64", "link-local"),
        ("set ip6 link-local address e0 2001:db8::9", "no link-local address"),
        ("set interface mtu ip6 1279 e0", "1280"),
        ("ip route add 2001:db8:9::/48 via 10.0.0.1", "of another family"),
        ("ip route add 10.0.0.0/8 via 2001:db8::2", "of another family"),
        ("ip route add 2001:db8:9::/48 via fe80::9", "name its interface"),
        ("ip route add 2001:db8:9::/48 via fe80::9 offlink", "name its interface"),
        ("ip route add 2001:db8:9::/48 via ff02::9", "a group's"),
        ("ip6 neighbor e0 ::ffff:10.0.0.9 02:00:00:00:00:09", "no neighbour's address"),
        ("ip route add 2001:db8:9::/48 via ip4-lookup-in-table 0", "of the other family"),
    ] {
        let error = bed.command(line).unwrap_err();
        assert!(error.contains(why), "{line}: {error}");
    }
    // Settings of an interface end with its part in IPv6, because they could not be loaded again.
    bed.command("disable ip6 interface e0").unwrap();
    bed.command("set interface ip address e0 2001:db8::1/64").unwrap();
    bed.command("set ip6 link-local address e0 fe80::7").unwrap();
    bed.command("set interface ip address del e0 2001:db8::1/64").unwrap();
    assert!(!bed.command("show running-config").unwrap().contains("fe80::7"));
    bed.command("set interface ip address e0 2001:db8::1/64").unwrap();
    let shown = bed.command("show ip6 interface e0").unwrap();
    assert!(!shown.contains("fe80::7"), "{shown}");
    bed.command("set interface state e0 down").unwrap();
    bed.router.delete_interface(port.index).unwrap();
    bed.run();
    assert_eq!((bed.router.ip.objects(), bed.router.neighbours.len()), (0, 0));
}

#[test]
fn tables_of_both_families_are_apart_and_counted_routes_count() {
    let (mut bed, ports) = bed();
    for line in [
        "ip6 table add 7",
        "ip table add 7",
        "ip route add table 7 2001:db8:70::/48 via 2001:db8:1::2 next-hop-table 0",
        "set ip6 route counters 2001:db8:70::/48 enable table 7",
    ] {
        bed.command(line).unwrap();
    }
    let vrf = bed.port("e7", &[]);
    bed.command("set interface ip6 table e7 7").unwrap();
    bed.command("set interface ip address e7 2001:db8:7::1/64").unwrap();
    bed.run();
    drop((vrf.sent(), ports[1].sent()));
    // No other table has this prefix.
    let packet = Packet6::udp("2001:db8:7::2", "2001:db8:70::1", b"12345678");
    vrf.receive(packet.frame(vrf.mac, STRANGER));
    bed.run();
    assert_eq!(packets(&ports[1]), [packet.clone().hops(63).bytes()]);
    let (kind, code, ..) = told(&mut bed, &ports, &udp("2001:db8:70::1"));
    assert_eq!((kind, code), (1, 0));
    let shown = bed.command("show ip route counters").unwrap();
    let row = shown.lines().find(|line| line.contains("2001:db8:70::/48")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["7", "2001:db8:70::/48", "1", "56"]);
    let error = bed.command("ip6 table del 7").unwrap_err();
    assert!(error.contains("is that of e7"), "{error}");
    bed.command("ip table del 7").unwrap();
    assert_eq!(bed.router.ip.audit(), Ok(()));
}

#[test]
fn own_packets_that_come_back_and_answers_without_an_address() {
    let (mut bed, ports) = bed();
    // An interface with only a link-local address cannot answer beyond its link.
    let port = bed.port("link0", &[]);
    bed.command("enable ip6 interface link0").unwrap();
    bed.run();
    drop(port.sent());
    let echo = Packet6::echo_request("2001:db8:1::2", "ff02::1", b"");
    let moved = bed.errors_of(|_| port.receive(echo.frame(port.mac, STRANGER)));
    assert_eq!(moved, error("ip6-icmp-input", "no address to answer an ICMPv6 echo from", 1));
    // A packet of the router's comes back from a link that reflects.
    let mut reply = Packet6::icmp(OURS, "2001:db8::2", (129, 0), 0, b"");
    reply.destination = ip6("2001:db8:1::1");
    let moved = bed.errors_of(|_| send(&ports, &reply.sealed_at(2)));
    assert_eq!(moved, error("ip6-local", "ip6 spoofed local-address packet drops", 1));
}
