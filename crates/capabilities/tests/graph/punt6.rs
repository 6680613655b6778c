//! Punting of IPv6: which packets go to the host, on what path, which stay on their link, and how loops are prevented.

use crate::bed::{Bed, Errors, Port, error};
use crate::bed6::{LINK_LOCAL, OURS, mac_of, padding, send, told};
use crate::packet::ethernet;
use crate::packet6::*;
use router::neighbour::NeighbourKey;
use std::time::Duration;
use wire::MacAddress;

const HOST: MacAddress = MacAddress([2, 0xcc, 0, 0, 0, 1]);
const SENDER: &str = "2001:db8::2";

/// A bed whose port `tap` leads to the host, 2001:db8:9::2. Routes for 2001:db8:21::/48 are `via punt`.
fn bed() -> (Bed, [Port; 3], Port) {
    let (mut bed, ports) = crate::bed6::bed();
    let tap = bed.port("tap", &[]);
    bed.command("set interface ip address tap 2001:db8:9::1/64").unwrap();
    bed.router.set_neighbour(NeighbourKey::new(tap.index, ip6("2001:db8:9::2")), HOST, true).unwrap();
    bed.command("ip6 punt redirect add rx all via 2001:db8:9::2 tap").unwrap();
    bed.run();
    bed.advance(Duration::from_secs(1));
    tap.sent();
    (bed, ports, tap)
}

fn udp(to: &str) -> Packet6 {
    Packet6::udp(SENDER, to, b"data")
}

fn at_host(tap: &Port, packet: &Packet6) -> Vec<u8> {
    ethernet(HOST, tap.mac, 0x86dd, &packet.bytes())
}

#[test]
fn what_nobody_here_takes_comes_to_the_host_as_it_was() {
    let (mut bed, ports, tap) = bed();
    let cases = [
        udp(OURS),
        Packet6::tcp(SENDER, OURS, 7, b"data"),
        Packet6::new(SENDER, OURS, 89, b"hello"),
        // With hop limit 1; with extension headers; to an address of another interface.
        udp("2001:db8:1::1").hops(1),
        udp(OURS).hops(1).extension(HOP_BY_HOP, &padding(6)).extension(OPTIONS, &padding(14)),
        Packet6::tcp(SENDER, OURS, 7, b"").extension(OPTIONS, &padding(6)),
        // An ICMPv6 error about the host's own connections.
        Packet6::icmp(SENDER, OURS, (2, 0), 1400, &[0x60; 48]),
        udp("2001:db8:21::5").hops(9),
    ];
    for (number, packet) in cases.iter().enumerate() {
        send(&ports, packet);
        let moved = bed.errors_of(|_| {});
        assert_eq!((tap.sent(), moved), (vec![at_host(&tap, packet)], Errors::new()), "case {number}");
    }
    assert_eq!(bed.counters(&ports[0])[6], cases.len() as u64);
    assert_eq!(ports[0].sent(), Vec::<Vec<u8>>::new());
    // The router keeps packets that it handles itself.
    send(&ports, &Packet6::echo_request(SENDER, OURS, b"x"));
    bed.run();
    assert_eq!((ports[0].sent().len(), tap.sent().len()), (1, 0));
}

#[test]
fn what_is_of_a_link_only_or_of_a_group_stays_there() {
    let (mut bed, ports, tap) = bed();
    bed.command("ip6 neighbor e0 fe80::9 02:bb:00:00:00:09").unwrap();
    bed.run();
    let from_link = |to: &str| Packet6::udp("fe80::9", to, b"data");
    let cases = [
        (udp(LINK_LOCAL), ("ip6-icmp-error", "ICMPv6 port unreachable sent"), 1),
        (from_link(OURS), ("ip6-icmp-error", "ICMPv6 port unreachable sent"), 1),
        (from_link("2001:db8:21::5"), ("ip6-icmp-error", "ICMPv6 beyond scope of source sent"), 1),
        (Packet6::tcp("fe80::9", LINK_LOCAL, 7, b""), ("tcp6-reset", "TCP resets sent"), 1),
        (udp("ff02::1"), ("ip6-icmp-error", "no ICMPv6 error about a group-addressed packet"), 0),
        (
            Packet6::icmp("fe80::9", LINK_LOCAL, (2, 0), 1400, &[0x60; 48]),
            ("ip6-punt-redirect", "ICMPv6 message that asks for nothing"),
            0,
        ),
    ];
    for (packet, (node, name), answers) in cases {
        send(&ports, &packet);
        assert_eq!(bed.errors_of(|_| {}), error(node, name, 1));
        assert_eq!((ports[0].sent().len(), tap.sent().len()), (answers, 0), "{name}");
    }
    assert_eq!(bed.counters(&ports[0])[6], 0);
}

#[test]
fn without_a_way_to_the_host_senders_are_told() {
    let (mut bed, ports, tap) = bed();
    bed.router.set_admin(tap.index, false).unwrap();
    assert_eq!(told(&mut bed, &ports, &udp(OURS)).0, 1);
    bed.router.set_admin(tap.index, true).unwrap();
    bed.run();
    tap.sent();
    bed.command("ip6 punt redirect del rx all").unwrap();
    let refused = bed.command("ip6 punt redirect del rx all").unwrap_err();
    assert!(refused.contains("(show ip6 punt redirect lists them)"), "{refused}");
    assert_eq!(told(&mut bed, &ports, &udp(OURS)), (1, 4, 0, udp(OURS).bytes()));
    let unknown = Packet6::new(SENDER, OURS, 89, b"hello").extension(OPTIONS, &padding(14));
    assert_eq!(told(&mut bed, &ports, &unknown), (4, 1, 40, unknown.bytes()));
    assert_eq!(tap.sent(), Vec::<Vec<u8>>::new());
}

#[test]
fn the_host_is_asked_for_and_counted_once() {
    let (mut bed, ports, tap) = bed();
    bed.command("ip6 punt redirect add rx e0 via 2001:db8:9::3 tap").unwrap();
    send(&ports, &udp(OURS));
    bed.run();
    let asked = tap.sent();
    assert_eq!((bed.held(), asked.len(), asked[0][54]), (1, 1, 135), "a solicitation");
    let told = [&ip6("2001:db8:9::3").octets()[..], &link_option(2, HOST)].concat();
    let message = Packet6::discovery("2001:db8:9::3", "2001:db8:9::1", 136, 0x6000_0000, &told);
    tap.receive(message.frame(tap.mac, HOST));
    bed.run();
    assert_eq!((bed.held(), tap.sent()), (0, vec![at_host(&tap, &udp(OURS))]));
    assert_eq!(bed.counters(&ports[0])[6], 1);
    // A host that does not answer is unreachable.
    bed.command("ip6 punt redirect add rx e0 via 2001:db8:9::4 tap").unwrap();
    send(&ports, &udp(OURS));
    bed.run();
    let moved = bed.errors_of(|bed| (0..4).for_each(|_| bed.advance(Duration::from_millis(1001))));
    let key = ("ip6-icmp-error".to_string(), "ICMPv6 address unreachable sent".to_string());
    assert_eq!(moved.get(&key), Some(&1), "{moved:?}");
}

#[test]
fn the_way_may_be_to_a_link_local_address() {
    let (mut bed, ports, tap) = bed();
    bed.router.set_neighbour(NeighbourKey::new(tap.index, ip6("fe80::2")), HOST, true).unwrap();
    bed.command("ip6 punt redirect add rx e0 via fe80::2 tap").unwrap();
    bed.run();
    send(&ports, &udp(OURS));
    bed.run();
    assert_eq!(tap.sent(), [at_host(&tap, &udp(OURS))]);
    // On that link the address is the host's. On another link it is free.
    let refused = bed.command("set ip6 link-local address tap fe80::2").unwrap_err();
    assert!(refused.contains("fe80::2 is where 'ip6 punt redirect' sends packets"), "{refused}");
    bed.command("set ip6 link-local address e1 fe80::2").unwrap();
    bed.command("set ip6 link-local address tap fe80::3").unwrap();
    let refused = bed.command("ip6 punt redirect add rx e0 via fe80::3 tap").unwrap_err();
    assert!(refused.contains("fe80::3 is an address of this router"), "{refused}");
}

#[test]
fn a_way_of_an_interfaces_own_goes_before_that_of_all() {
    let (mut bed, ports, tap) = bed();
    bed.command("ip6 punt redirect add rx e1 via 2001:db8:2::2 e2").unwrap();
    send(&ports, &udp(OURS));
    ports[1].receive(Packet6::udp("2001:db8:1::2", OURS, b"data").frame(ports[1].mac, mac_of(1)));
    bed.run();
    assert_eq!((tap.sent().len(), ports[2].sent().len()), (1, 1));
    let shown = bed.command("show ip6 punt redirect").unwrap();
    assert!(shown.starts_with(" rx all via:\n   2001:db8:9::2 tap\n forwarding\n  [@"), "{shown}");
    assert!(shown.contains("\n rx e1 via:\n   2001:db8:2::2 e2\n forwarding\n  [@"), "{shown}");
    assert_eq!(bed.command("show ip punt redirect").unwrap(), "no punt redirects\n");
    let config = bed.command("show running-config").unwrap();
    assert!(config.contains("ip6 punt redirect add rx all via 2001:db8:9::2 tap\n"), "{config}");
    assert!(config.contains("ip6 punt redirect add rx e1 via 2001:db8:2::2 e2\n"), "{config}");
    // Redirects are removed with their interfaces.
    bed.router.delete_interface(ports[2].index).unwrap();
    bed.router.delete_interface(tap.index).unwrap();
    bed.run();
    assert_eq!(bed.command("show ip6 punt redirect").unwrap(), "no punt redirects\n");
    send(&ports, &udp(OURS));
    assert_eq!(bed.errors_of(|_| {}), error("ip6-icmp-error", "ICMPv6 port unreachable sent", 1));
}

#[test]
fn what_the_host_sends_is_not_punted_to_it() {
    let (mut bed, ports, tap) = bed();
    let from_host = |to: &str| Packet6::udp("2001:db8:9::2", to, b"data").frame(tap.mac, HOST);
    tap.receive(from_host("2001:db8:9::1"));
    assert_eq!(bed.errors_of(|_| {}), error("ip6-icmp-error", "ICMPv6 port unreachable sent", 1));
    assert_eq!(tap.sent().len(), 1);
    tap.receive(from_host("2001:db8:21::5"));
    assert_eq!(bed.errors_of(|_| {}), error("ip6-punt-redirect", "punted packet came back from the host", 1));
    // The host may answer from the router's address.
    tap.receive(Packet6::udp(OURS, SENDER, b"data").frame(tap.mac, HOST));
    bed.run();
    assert_eq!((tap.sent().len(), ports[0].sent().len()), (0, 1));
    bed.command("ip6 punt redirect add rx tap via 2001:db8:9::2 tap").unwrap_err();
}

#[test]
fn an_error_about_what_the_host_sent_goes_back_to_it() {
    let (mut bed, ports, tap) = bed();
    bed.command("set interface mtu ip6 1300 e0").unwrap();
    // The host sends from the router's address: its path MTU discovery depends on this error.
    let packet = Packet6::udp(OURS, SENDER, &[7; 1350]);
    tap.receive(packet.frame(tap.mac, HOST));
    bed.run();
    let expected = Packet6::icmp("2001:db8:9::1", OURS, (2, 0), 1300, &packet.bytes()[..1232]);
    assert_eq!(tap.sent(), [at_host(&tap, &expected)]);
    assert_eq!(ports[0].sent(), Vec::<Vec<u8>>::new());
    // Another station that sends from our address gets no error.
    send(&ports, &Packet6::udp(OURS, "2001:db8:99::9", b"x"));
    let moved = bed.errors_of(|_| {});
    let key = ("ip6-icmp-input".to_string(), "packet of ours came back to us".to_string());
    assert_eq!(moved.get(&key), Some(&1), "{moved:?}");
}

#[test]
fn what_is_too_long_for_the_host_is_told_of_and_not_cut() {
    let (mut bed, ports, tap) = bed();
    bed.command("set interface mtu ip6 1300 tap").unwrap();
    let packet = Packet6::udp(SENDER, OURS, &[7; 1350]);
    let (kind, code, mtu, quote) = told(&mut bed, &ports, &packet);
    assert_eq!((kind, code, mtu), (2, 0, 1300));
    assert_eq!(quote, packet.bytes()[..1232]);
    assert_eq!(tap.sent(), Vec::<Vec<u8>>::new());
}

/// The sender fragmented the packet to fit the path so far, so 'packet too big' would not help it.
#[test]
fn what_came_in_fragments_goes_to_the_host_in_fragments() {
    let (mut bed, ports, tap) = bed();
    let data: Vec<u8> = (0..3000).map(|n| (n * 7) as u8).collect();
    let packet = Packet6::udp(SENDER, OURS, &data);
    for fragment in crate::reassembly6::cut(&packet, 9, 1448) {
        ports[0].receive(fragment.frame(ports[0].mac, mac_of(0)));
    }
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved[&("ip6-frag".to_string(), "packet fragmented".to_string())], 1);
    let sent = tap.sent();
    assert!(sent.len() > 1);
    let mut came = Vec::new();
    for frame in &sent {
        let ip = &frame[14..];
        assert_eq!((ip[6], ip[7], ip[40]), (FRAGMENT, 64, 17), "it has lost no hop");
        let word = u16::from_be_bytes([ip[42], ip[43]]);
        assert_eq!((usize::from(word & !7), word & 1 != 0), (came.len(), came.len() + ip.len() - 48 < 3008));
        assert_eq!(ip[44..48], sent[0][14 + 44..14 + 48], "one number");
        came.extend_from_slice(&ip[48..]);
    }
    assert_eq!(came, packet.payload);
    assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
}

#[test]
fn punted_packets_are_limited_by_rate() {
    let (mut bed, ports, tap) = bed();
    bed.command("set ip6 punt rate 50").unwrap();
    bed.run();
    let start = std::time::Instant::now();
    (0..200).for_each(|_| send(&ports, &udp(OURS)));
    let moved = bed.errors_of(|_| {});
    let sent = tap.sent().len() as u64;
    let most = 5 + (start.elapsed().as_secs_f64() * 50.0) as u64 + 1;
    assert!((5..=most).contains(&sent), "{sent} sent, at most {most}");
    assert_eq!(moved, error("ip6-punt-redirect", "punted packets limited by rate", 200 - sent));
    let config = bed.command("show running-config").unwrap();
    assert!(config.contains("set ip6 punt rate 50\n") && !config.contains("set ip punt rate"), "{config}");
    bed.command("set ip6 punt rate default").unwrap();
    (0..200).for_each(|_| send(&ports, &udp(OURS)));
    bed.run();
    assert_eq!(tap.sent().len(), 200);
}

#[test]
fn the_host_and_the_router_have_different_addresses() {
    let (mut bed, ..) = bed();
    let refused = bed.command("ip6 punt redirect add rx all via 2001:db8:1::1 tap").unwrap_err();
    assert!(refused.contains("2001:db8:1::1 is an address of this router"), "{refused}");
    for nobody in ["ff02::1", "::", "::1", "::ffff:10.0.0.1"] {
        let refused = bed.command(&format!("ip6 punt redirect add rx all via {nobody} tap")).unwrap_err();
        assert!(refused.contains("is no neighbour's address"), "{refused}");
    }
    bed.command("ip6 punt redirect add rx all via 2001:db8:7::7 tap").unwrap();
    let refused = bed.command("set interface ip address e0 2001:db8:7::7/64").unwrap_err();
    assert!(refused.contains("2001:db8:7::7 is where 'ip6 punt redirect' sends packets"), "{refused}");
    // In another table the address may be the router's, as long as the redirect's interface does not move there.
    for line in ["ip6 table add 7", "create loopback interface", "set interface ip6 table loop0 7"] {
        bed.command(line).unwrap();
    }
    bed.command("set interface ip address loop0 2001:db8:7::7/64").unwrap();
    bed.command("set interface ip address del tap all").unwrap();
    let refused = bed.command("set interface ip6 table tap 7").unwrap_err();
    assert!(refused.contains("2001:db8:7::7 is an address of this router"), "{refused}");
}
