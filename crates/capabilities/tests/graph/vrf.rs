//! Routing tables beside the default one: their packets stay separate, and routes may lead from one table into another.

use crate::bed::{Bed, Port, error, host_mac};
use crate::packet::*;
use crate::routes::snapshot;
use router::Error;
use router::capability::Wants;
use wire::Family;

/// Four ports, two of table 0 and two of table 7, with the same addresses: `10.0.0.1/24` and `10.0.1.1/24`, and
/// hosts `.2` on each network.
fn bed() -> (Bed, [Port; 4]) {
    let mut bed = Bed::new();
    bed.command("ip table add 7").unwrap();
    let ports = [("a0", 0, 0), ("a1", 0, 1), ("b0", 7, 0), ("b1", 7, 1)].map(|(name, table, net)| {
        let port = bed.port(name, &[]);
        bed.command(&format!("set interface ip table {name} {table}")).unwrap();
        bed.command(&format!("set interface ip address {name} 10.0.{net}.1/24")).unwrap();
        bed.know(&port, &format!("10.0.{net}.2"));
        port
    });
    bed.run();
    ports.iter().for_each(|port| drop(port.sent()));
    (bed, ports)
}

fn all(bed: &mut Bed, lines: &[&str]) {
    lines.iter().for_each(|line| drop(bed.command(line).unwrap_or_else(|error| panic!("{line}: {error}"))));
}

/// The port and host that a packet received on a port is sent to; none when it is not sent.
fn leaves_by(bed: &mut Bed, ports: &[Port], from: usize, to: &str) -> Option<(usize, wire::MacAddress)> {
    ports[from].receive_packet(&Packet::udp("10.0.0.2", to, b"x"));
    bed.run();
    let mut found = None;
    for (at, port) in ports.iter().enumerate() {
        for frame in port.sent() {
            if frame[23] != ICMP {
                assert_eq!(found.replace((at, wire::MacAddress(frame[..6].try_into().unwrap()))), None);
            }
        }
    }
    found
}

fn hop(port: usize, address: &str) -> Option<(usize, wire::MacAddress)> {
    Some((port, host_mac(ip(address))))
}

#[test]
fn packets_of_different_tables_do_not_mix() {
    let (mut bed, ports) = bed();
    all(&mut bed, &["ip route add 50.0.0.0/8 via 10.0.1.2", "ip route add table 7 50.0.0.0/8 via 10.0.0.2"]);
    for _ in 0..2 {
        assert_eq!(leaves_by(&mut bed, &ports, 0, "10.0.1.2"), hop(1, "10.0.1.2"));
        assert_eq!(leaves_by(&mut bed, &ports, 2, "10.0.1.2"), hop(3, "10.0.1.2"));
        assert_eq!(leaves_by(&mut bed, &ports, 0, "50.1.1.1"), hop(1, "10.0.1.2"));
        assert_eq!(leaves_by(&mut bed, &ports, 2, "50.1.1.1"), hop(2, "10.0.0.2"));
    }
    bed.command("ip route del table 7 50.0.0.0/8").unwrap();
    // The error goes to the sender in the packet's own table.
    ports[2].receive_packet(&Packet::udp("10.0.1.2", "50.1.1.1", b"x"));
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, error("ip4-icmp-error", "ICMP net unreachable sent", 1));
    assert_eq!((ports[1].sent().len(), ports[3].sent().len()), (0, 1));
    assert_eq!(leaves_by(&mut bed, &ports, 0, "50.1.1.1"), hop(1, "10.0.1.2"));
    assert_eq!(bed.router.ip.audit(), Ok(()));
}

#[test]
fn a_network_leaked_from_another_table_has_the_router_itself_in_it() {
    let (mut bed, [a0, a1, b0, _]) = bed();
    let lines = ["ip route add table 7 10.9.0.0/24 via a1", "ip route add 10.0.0.77/32 via b0"];
    all(&mut bed, &lines);
    all(&mut bed, &["set interface ip address a1 10.9.0.1/24", "ip route add table 7 10.9.0.9/32 via a1"]);
    bed.run();
    [&a0, &a1, &b0].iter().for_each(|port| drop(port.sent()));
    // The reply comes from the destination address, and is routed in the sender's table.
    let answered = |bed: &mut Bed, address: &str| {
        b0.receive_packet(&Packet::echo_request("10.0.0.2", address, b"hello"));
        bed.run();
        let answer = Packet::new(address, "10.0.0.2", ICMP, &icmp(0, 0, 0x0042_0007, b"hello"));
        let (sent, asked) = (b0.sent(), a1.sent());
        assert!(sent.is_empty() || sent == [answer.frame(host_mac(ip("10.0.0.2")), b0.mac)], "{sent:?}");
        (!sent.is_empty(), asked.len())
    };
    assert_eq!(answered(&mut bed, "10.9.0.1"), (true, 0));
    // Other addresses are hosts. One with a host route is a host, too, until it becomes our own address.
    assert_eq!(answered(&mut bed, "10.9.0.2"), (false, 1));
    assert_eq!(answered(&mut bed, "10.9.0.9"), (false, 1));
    bed.command("set interface ip address a1 10.9.0.9/24").unwrap();
    bed.run();
    a1.sent();
    assert_eq!(answered(&mut bed, "10.9.0.9"), (true, 0));
    bed.command("set interface ip address del a1 10.9.0.9/24").unwrap();
    let held = bed.held();
    assert!(!answered(&mut bed, "10.9.0.9").0);
    assert_eq!(bed.held(), held + 1, "it waits for the host");
    assert_eq!(bed.router.ip.audit(), Ok(()));
}

#[test]
fn a_network_leaked_from_another_table_has_the_router_itself_in_it_with_ip6() {
    let mut bed = Bed::new();
    let (a, b) = (bed.port("a", &[]), bed.port("b", &[]));
    let lines = [
        "ip6 table add 7",
        "set interface ip6 table b 7",
        "set interface ip address a 2001:db8:a::1/64",
        "set interface ip address b 2001:db8:b::1/64",
        "ip route add table 7 2001:db8:a::/64 via a",
        "set ip neighbor b 2001:db8:b::2 02:00:00:00:00:22",
    ];
    all(&mut bed, &lines);
    bed.run();
    bed.advance(std::time::Duration::from_secs(5));
    let mut asked = |address: &str| {
        [&a, &b].iter().for_each(|port| drop(port.sent()));
        let request = crate::packet6::Packet6::echo_request("2001:db8:b::2", address, b"hello");
        b.receive(request.frame(b.mac, host_mac(ip("10.0.0.2"))));
        let moved = bed.errors_of(|_| {});
        (a.sent().len(), b.sent().len(), moved)
    };
    // Our own address, the subnet-router anycast address, and a host.
    assert_eq!(asked("2001:db8:a::1").1, 1);
    assert_eq!(asked("2001:db8:a::").1, 1);
    assert_eq!(asked("2001:db8:a::9").0, 1);
}

#[test]
fn vectors_in_which_tables_mix_are_told_apart() {
    let (mut bed, ports) = bed();
    for round in 1..60 {
        let mut expected = [Vec::new(), Vec::new(), Vec::new(), Vec::new()];
        for number in 0..round * 7 {
            let from = (number * number + round) % 4;
            let packet = Packet::udp("10.0.0.2", "10.0.1.2", &(number as u32).to_be_bytes());
            let frame = ports[from].receive_packet(&packet);
            let to = from / 2 * 2 + 1;
            expected[to].push(forwarded(&frame, host_mac(ip("10.0.1.2")), ports[to].mac));
        }
        bed.run();
        for (port, mut expected) in ports.iter().zip(expected) {
            let mut sent = port.sent();
            sent.sort();
            expected.sort();
            assert_eq!(sent, expected);
        }
    }
}

#[test]
fn routes_lead_from_one_table_into_another() {
    let (mut bed, ports) = bed();
    all(
        &mut bed,
        &[
            "ip route add 50.0.0.0/8 via ip4-lookup-in-table 7",
            "ip route add table 7 50.0.0.0/8 via 10.0.1.2",
            "ip route add 51.0.0.0/8 via 10.0.1.2 next-hop-table 7",
            "ip route add table 7 10.9.0.0/16 via 10.0.0.2",
            "ip route add 52.0.0.0/8 via 10.9.9.9 next-hop-table 7",
            "ip route add 10.0.1.0/25 via b1",
            "ip route add 53.0.0.0/8 via ip4-lookup-in-table 7 via ip4-lookup-in-table 7 weight 3",
            "ip route add table 7 53.0.0.0/8 via ip4-lookup-in-table 0 via drop preference 2",
        ],
    );
    let cases = [
        ("50.1.1.1", hop(3, "10.0.1.2")),
        ("51.1.1.1", hop(3, "10.0.1.2")),
        ("52.1.1.1", hop(2, "10.0.0.2")),
        ("10.0.1.99", Some((3, wire::MacAddress::BROADCAST))),
    ];
    for (address, by) in cases {
        assert_eq!(leaves_by(&mut bed, &ports, 0, address), by, "{address}");
    }
    ports[0].receive_packet(&Packet::udp("10.0.0.2", "53.1.1.1", b"x"));
    assert_eq!(bed.errors_of(|_| {}), error("lookup-ip4-dst", "too many tables in a row", 1));
    // Changes in the other table apply at once. A route whose next hop is gone becomes unresolved.
    all(&mut bed, &["ip route replace table 7 50.0.0.0/8 via 10.0.0.2", "ip route del table 7 10.9.0.0/16"]);
    assert_eq!(leaves_by(&mut bed, &ports, 0, "50.1.1.1"), hop(2, "10.0.0.2"));
    assert_eq!(leaves_by(&mut bed, &ports, 0, "52.1.1.1"), None);
    let text = bed.command("show ip fib 52.0.0.0/8").unwrap();
    assert!(text.contains("attached-nexthop: 10.9.9.9 (no attached network) table 7 oper-flags:unresolved"), "{text}");
    let text = bed.command("show ip fib 50.0.0.0/8").unwrap();
    assert!(text.contains("deag: fib-index:1 table 7 oper-flags:resolved"), "{text}");
    assert_eq!(bed.router.ip.audit(), Ok(()));
}

#[test]
fn sources_are_judged_in_the_table_of_their_packets() {
    let (mut bed, ports) = bed();
    all(
        &mut bed,
        &[
            "ip route add table 7 60.0.0.0/8 via 10.0.0.2",
            "ip route add 61.0.0.0/8 via 10.0.0.2",
            "ip route add table 7 61.0.0.0/8 via ip4-lookup-in-table 0",
            "set urpf ip4 rx loose a0",
            "set urpf ip4 rx loose b0",
        ],
    );
    let mut passes = |from: usize, source: &str| {
        ports[from].receive_packet(&Packet::udp(source, "10.0.1.2", b"x"));
        bed.errors_of(|_| {}).is_empty()
    };
    assert!(passes(2, "60.1.1.1") && !passes(0, "60.1.1.1"));
    assert!(passes(0, "61.1.1.1") && passes(2, "61.1.1.1"));
    // The router's own answers take the right table, although the other table has the same network.
    ports.iter().for_each(|port| drop(port.sent()));
    ports[2].receive_packet(&Packet::echo_request("10.0.0.2", "10.0.1.1", b"data"));
    assert_eq!(bed.errors_of(|_| {}), error("ip4-icmp-input", "echo replies sent", 1));
    assert_eq!((ports[0].sent().len(), ports[2].sent().len()), (0, 1));
}

#[test]
fn fragments_of_different_tables_are_different_datagrams() {
    let (mut bed, ports) = bed();
    let data: Vec<u8> = (0..2000u32).map(|n| n as u8).collect();
    let whole = Packet::echo_request("10.0.0.2", "10.0.0.1", &data).id(9);
    let pieces = crate::fragmentation::cut(&whole, 1000);
    for (piece, from) in pieces.iter().zip([0, 2, 0]) {
        ports[from].receive_packet(piece);
    }
    bed.run();
    assert_eq!((ports[0].sent().len(), ports[2].sent().len()), (0, 0));
    pieces.iter().zip([2, 0, 2]).for_each(|(piece, from)| drop(ports[from].receive_packet(piece)));
    bed.run();
    assert!(!ports[0].sent().is_empty() && !ports[2].sent().is_empty());
}

#[test]
fn neighbours_move_with_their_interface_and_addresses_hold_it() {
    let (mut bed, _) = bed();
    let bare = bed.port("bare", &[]);
    all(
        &mut bed,
        &["ip route add 70.0.0.0/8 via 172.16.0.9 bare onlink", "set ip neighbor bare 172.16.0.9 02:01:01:01:01:01"],
    );
    let before = snapshot(&bed);
    bed.command("set interface ip table bare 7").unwrap();
    assert!(bed.command("show ip fib table 7 172.16.0.9/32").unwrap().contains("via 172.16.0.9 bare"));
    assert!(bed.command("show ip fib table 0 172.16.0.9/32").is_err());
    assert!(bed.command("show ip fib 70.0.0.0/8").unwrap().contains("resolved"));
    assert_eq!(bed.router.ip.audit(), Ok(()));
    bed.command("set interface ip table bare 0").unwrap();
    assert_eq!(snapshot(&bed), before);
    drop(bare);
    for (line, refusal) in [
        ("set interface ip table b0 0", "b0 has addresses, which are routes of its table"),
        ("set interface ip table bare 8", "there is no table 8"),
        ("ip table add 7", "table 7 is there already"),
        ("ip table add 0", "table 0, the default one, is always there"),
        ("ip table del 0", "table 0, the default one, is always there"),
        ("ip table del 7", "table 7 is that of b0"),
        ("ip route add table 9 1.0.0.0/8 via drop", "there is no table 9"),
        ("ip route add 1.0.0.0/8 via 1.1.1.1 next-hop-table 9", "there is no table 9"),
        ("ip route add table 7 1.0.0.0/8 via ip4-lookup-in-table 7", "from table 7 into the same table"),
        ("set interface ip address b0 10.0.1.7/24", "10.0.1.7/24"),
    ] {
        let before = snapshot(&bed);
        let error = bed.command(line).unwrap_err();
        assert!(error.contains(refusal), "{line}: {error}");
        assert_eq!(snapshot(&bed), before, "{line}");
    }
}

#[test]
fn answers_begin_anew_however_many_tables_the_question_passed() {
    let (mut bed, ports) = bed();
    all(
        &mut bed,
        &[
            "ip table add 8",
            "ip table add 9",
            "ip route add table 8 9.9.9.9/32 via ip4-lookup-in-table 9",
            "ip route add table 9 9.9.9.9/32 via local",
            "ip route add table 7 9.9.9.9/32 via ip4-lookup-in-table 8",
            "ip route add table 7 60.0.0.0/8 via ip4-lookup-in-table 8",
            "ip route add table 8 60.0.0.0/8 via ip4-lookup-in-table 9",
            "ip route add table 9 60.0.0.0/8 via 10.0.0.2 next-hop-table 7",
        ],
    );
    ports[2].receive_packet(&Packet::echo_request("60.1.1.1", "9.9.9.9", b"data"));
    assert_eq!(bed.errors_of(|_| {}), error("ip4-icmp-input", "echo replies sent", 1));
    assert_eq!(ports[2].sent().len(), 1);
}

#[test]
fn a_default_route_elsewhere_is_one_here_too() {
    let (mut bed, ports) = bed();
    all(
        &mut bed,
        &[
            "ip route add table 7 60.0.0.0/8 via ip4-lookup-in-table 0",
            "ip route add 0.0.0.0/0 via 10.0.0.2",
            "set urpf ip4 rx loose b0",
        ],
    );
    let mut passes = || {
        ports[2].receive_packet(&Packet::udp("60.1.1.1", "10.0.1.2", b"x"));
        bed.errors_of(|_| {}).is_empty()
    };
    assert!(!passes());
    bed.command("ip route add 60.0.0.0/9 via 10.0.0.2").unwrap();
    ports[2].receive_packet(&Packet::udp("60.1.1.1", "10.0.1.2", b"x"));
    assert!(bed.errors_of(|_| {}).is_empty());
}

#[test]
fn a_table_goes_with_its_routes_when_nothing_leads_there() {
    let (mut bed, ports) = bed();
    all(&mut bed, &["ip table add 4294967295", "ip route add table 4294967295 count 3000 60.0.0.0/24 via drop"]);
    all(&mut bed, &["ip route add table 7 60.0.0.0/16 via ip4-lookup-in-table 4294967295"]);
    assert_eq!(
        bed.command("show ip table").unwrap(),
        "[0] table_id:0 ipv4-VRF:0\n[1] table_id:7 ipv4-VRF:7\n[2] table_id:4294967295 ipv4-VRF:4294967295\n"
    );
    let text = bed.command("show ip fib table 4294967295 summary").unwrap();
    assert!(text.ends_with(&format!("{:>20}{:>16}\n", 24, 3000)), "{text}");
    ports[2].receive_packet(&Packet::udp("10.0.0.2", "60.0.1.1", b"x"));
    assert_eq!(bed.errors_of(|_| {}), error("lookup-ip4-dst", "blackholed packets", 1));
    let error = bed.command("ip table del 4294967295").unwrap_err();
    assert!(error.contains("the route to 60.0.0.0/16 in table 7 leads into table 4294967295"), "{error}");
    // The same identifier in the other family is another table.
    all(&mut bed, &["ip6 table add 4294967295", "ip6 table del 4294967295"]);
    all(&mut bed, &["ip route del table 7 60.0.0.0/16", "ip table del 4294967295"]);
    // The index is reused when no packet can refer to it.
    (0..3).for_each(|_| bed.run());
    all(&mut bed, &["ip table add 9"]);
    assert!(bed.command("show ip table").unwrap().contains("[2] table_id:9"));
    assert_eq!(bed.router.ip.routes_in(Family::Ip4, bed.router.find_table(Family::Ip4, 9).unwrap()).len(), 0);
    assert!(matches!(bed.router.find_table(Family::Ip4, 4_294_967_295), Err(Error::Capability(_))));
    assert_eq!(bed.router.ip.audit(), Ok(()));
}

#[test]
fn pings_are_of_a_table() {
    let (mut bed, ports) = bed();
    bed.begin("ping 10.0.1.2 repeat 1 table-id 7").unwrap();
    bed.run();
    assert_eq!((ports[1].sent().len(), ports[3].sent().len()), (0, 1));
    bed.begin("ping 10.0.1.2 repeat 1 source b0").unwrap();
    bed.run();
    assert_eq!((ports[1].sent().len(), ports[3].sent().len()), (0, 1));
    // The router answers for its own address.
    assert_eq!(
        bed.errors_of(|bed| drop(bed.begin("ping 10.0.1.1 repeat 1 table-id 7").unwrap())),
        [
            (("ip4-icmp-input".to_string(), "ICMP answers to our requests".to_string()), 1),
            (("ip4-icmp-input".to_string(), "echo replies sent".to_string()), 1),
            (("ip4-ping".to_string(), "echo requests sent".to_string()), 1),
        ]
        .into()
    );
    let error = bed.begin("ping 10.0.1.2 table-id 8").err().unwrap();
    assert!(error.contains("there is no table 8"), "{error}");
    all(&mut bed, &["ip table add 8", "ip route add table 8 10.0.1.0/24 via ip4-lookup-in-table 0"]);
    let error = bed.begin("ping 10.0.1.2 table-id 8").err().unwrap();
    assert!(error.contains("no interface belongs to table 8"), "{error}");
}

#[test]
fn known_neighbours_are_reached_by_another_tables_route_onto_their_wire() {
    let (mut bed, ports) = bed();
    all(&mut bed, &["ip route add 10.8.0.0/16 via drop", "ip route add 10.0.1.0/25 via b1"]);
    assert_eq!(leaves_by(&mut bed, &ports, 0, "10.0.1.2"), hop(1, "10.0.1.2"), "its own table's");
    bed.command("ip neighbor del a1 10.0.1.2").unwrap();
    assert_eq!(leaves_by(&mut bed, &ports, 0, "10.0.1.2"), hop(3, "10.0.1.2"));
    // A neighbour that is learned later is used, too; one that was removed is asked for again.
    assert_eq!(leaves_by(&mut bed, &ports, 0, "10.0.1.9"), Some((3, wire::MacAddress::BROADCAST)));
    bed.know(&ports[3], "10.0.1.9");
    bed.run();
    assert_eq!(ports[3].sent().iter().filter(|frame| frame[12..14] == [8, 0]).count(), 1, "what had waited");
    assert_eq!(leaves_by(&mut bed, &ports, 0, "10.0.1.9"), hop(3, "10.0.1.9"));
    bed.command("ip neighbor del b1 10.0.1.9").unwrap();
    assert_eq!(leaves_by(&mut bed, &ports, 0, "10.0.1.9"), Some((3, wire::MacAddress::BROADCAST)));
}

#[test]
fn a_lookup_says_why_there_is_no_route() {
    let (mut bed, ports) = Bed::with_three_ports();
    let said = |bed: &mut Bed, line: &str| bed.command(line).unwrap_or_else(|error| error);
    for line in [
        "ip table add 10",
        "ip route add 50.0.0.0/8 via 10.0.1.2",
        "ip route add 51.0.0.0/8 via 50.1.1.1",
        "ip route add 52.0.0.0/8 table 10 via drop",
        "set interface ip address e1 2001:db8:1::1/64",
    ] {
        bed.command(line).unwrap();
    }
    assert!(said(&mut bed, "show ip fib 50.1.1.1").contains("50.0.0.0/8 fib:0"));
    assert!(!said(&mut bed, "show ip fib 50.1.1.1").contains("note:"));
    let elsewhere = said(&mut bed, "show ip fib table 0 52.1.1.1");
    assert_eq!(elsewhere, "show ip fib: no route to 52.1.1.1: not in table 0, only in table 10");
    assert!(said(&mut bed, "show ip fib 52.1.1.1").ends_with("note: not in table 0, only in table 10\n"));
    assert_eq!(said(&mut bed, "show ip fib 99.1.1.1"), "show ip fib: no route to 99.1.1.1");
    // First the link is down, then the interface.
    ports[1].set_carrier(false);
    bed.advance(std::time::Duration::from_secs(1));
    let connected = said(&mut bed, "show ip fib 10.0.1.2");
    assert!(connected.contains("no route to 10.0.1.2: "), "{connected}");
    assert!(connected.contains("connected 10.0.1.0/24 on e1 is withdrawn: link down"), "{connected}");
    let six = said(&mut bed, "show ip6 fib 2001:db8:1::2");
    assert!(six.contains("connected 2001:db8:1::/64 on e1 is withdrawn: link down"), "{six}");
    let hop = said(&mut bed, "show ip fib 50.1.1.1");
    assert!(hop.contains("route 50.0.0.0/8 via 10.0.1.2 on e1 is withdrawn: link down"), "{hop}");
    let recursive = said(&mut bed, "show ip fib 51.1.1.1");
    let through = "route 51.0.0.0/8 is withdrawn: next hop 50.1.1.1 unresolved: its route 50.0.0.0/8 leads nowhere";
    assert!(recursive.contains(through), "{recursive}");
    let state = said(&mut bed, "show interface e1");
    assert!(state.contains("  up  ") && state.contains("\n  link down\n"), "{state}");
    assert!(!said(&mut bed, "show interface e0").contains("link down"));
    // A shorter route matches; the withdrawn longer one is shown all the same.
    bed.command("ip route add 0.0.0.0/0 via 10.0.2.2").unwrap();
    let shorter = said(&mut bed, "show ip fib 10.0.1.2");
    assert!(shorter.contains("0.0.0.0/0 fib:0"), "{shorter}");
    assert!(shorter.contains(" note: connected 10.0.1.0/24 on e1 is withdrawn: link down\n"), "{shorter}");
    bed.command("set interface state e1 down").unwrap();
    let admin = said(&mut bed, "show ip fib 10.0.1.2");
    assert!(admin.contains(" note: connected 10.0.1.0/24 on e1 is withdrawn: admin down\n"), "{admin}");
    assert!(!said(&mut bed, "show interface e1").contains("link down"));
    // A neighbour that does not answer.
    bed.command("ip route add 53.0.0.0/8 via 10.0.2.77").unwrap();
    ports[0].receive_packet(&Packet::udp("10.0.0.2", "53.1.1.1", b"x"));
    bed.run();
    let asked = said(&mut bed, "show ip fib 53.1.1.1");
    assert!(asked.contains(" note: next hop 10.0.2.77 on e2 unresolved: asked 1 times, no answer yet\n"), "{asked}");
    bed.advance(std::time::Duration::from_secs(4));
    let silent = said(&mut bed, "show ip fib 53.1.1.1");
    assert!(silent.contains(" note: next hop 10.0.2.77 on e2 unresolved: "), "{silent}");
    ports[0].receive_packet(&Packet::udp("10.0.0.2", "10.0.2.78", b"x"));
    bed.run();
    let host = said(&mut bed, "show ip fib 10.0.2.78");
    assert!(host.contains("next hop 10.0.2.78 on e2 unresolved: "), "{host}");
}

fn refusal(bed: &mut Bed, line: &str) -> String {
    let refused = bed.command(line).unwrap_err().to_string();
    refused.split_once(": ").map_or_else(String::new, |(_, why)| why.into())
}

#[test]
fn a_found_table_is_no_configuration_until_somebody_states_something_about_it() {
    let mut bed = Bed::new();
    let stated = |bed: &mut Bed| bed.command("show running-config").unwrap();
    let before = stated(&mut bed);
    let red = bed.router.add_found_table(Family::Ip4, 9).unwrap();
    assert_eq!(bed.router.add_found_table(Family::Ip4, 9).unwrap(), red);
    assert_eq!(stated(&mut bed), before);
    assert_eq!(
        refusal(&mut bed, "ip table del 9"),
        "table 9 is that of a VRF in Linux ('show lcp'): 'ip link del' in \
        Linux removes both"
    );
    bed.command("ip route add table 9 10.66.0.0/16 via drop").unwrap();
    assert_eq!(stated(&mut bed).matches("ip table add 9\n").count(), 1);
    // Its finder has no use for it any more, and it stays.
    bed.router.remove_found_table(Family::Ip4, 9).unwrap();
    assert!(bed.router.ip.has_table(Family::Ip4, red));
    // What is stated goes, and what its finder has use for stays.
    bed.router.add_found_table(Family::Ip4, 9).unwrap();
    bed.command("ip table del 9").unwrap();
    assert_eq!((stated(&mut bed), bed.router.ip.has_table(Family::Ip4, red)), (before, true));
    assert!(!bed.command("show ip fib table 9").unwrap().contains("10.66.0.0/16"));
    bed.command("ip table add 9").unwrap();
    assert_eq!(refusal(&mut bed, "ip table add 9"), "table 9 is there already: 'ip route add table 9' fills it");
    bed.command("ip table del 9").unwrap();
    bed.router.remove_found_table(Family::Ip4, 9).unwrap();
    assert!(!bed.router.ip.has_table(Family::Ip4, red));
}

#[test]
fn an_interface_that_follows_a_table_takes_its_addresses_along() {
    let (mut bed, ports) = bed();
    let red = bed.router.add_found_table(Family::Ip4, 9).unwrap();
    bed.router.add_found_table(Family::Ip6, 9).unwrap();
    let a1 = ports[1].index;
    let stated = bed.command("show running-config").unwrap();
    bed.router.follow_table(a1, Some(red)).unwrap();
    assert_eq!(bed.command("show running-config").unwrap(), stated);
    assert_eq!(leaves_by(&mut bed, &ports, 0, "10.0.1.2"), None);
    bed.command("ip route add 10.0.1.0/24 via ip4-lookup-in-table 9").unwrap();
    assert_eq!(leaves_by(&mut bed, &ports, 0, "10.0.1.2"), hop(1, "10.0.1.2"));
    // Where another interface has one of its addresses it stays where it is.
    let blue = bed.router.find_table(Family::Ip4, 7).unwrap();
    bed.router.add_found_table(Family::Ip6, 7).unwrap();
    let refused = bed.router.follow_table(a1, Some(blue)).unwrap_err().to_string();
    assert_eq!(refused, "10.0.1.1/24 overlaps with 10.0.1.1/24 on b1");
    assert_eq!(bed.router.table_of(a1, Family::Ip4), red);
    let refused = refusal(&mut bed, "ip table del 9");
    assert_eq!(refused, "the route to 10.0.1.0/24 in table 0 leads into table 9: remove that route first");
    bed.command("ip route del 10.0.1.0/24").unwrap();
    bed.command("ip table del 9").unwrap();
    let refused = bed.router.remove_found_table(Family::Ip4, 9).unwrap_err().to_string();
    assert!(refused.contains("table 9 is that of a1"), "{refused}");
    bed.router.follow_table(a1, None).unwrap();
    assert_eq!(leaves_by(&mut bed, &ports, 0, "10.0.1.2"), hop(1, "10.0.1.2"));
    for family in Family::ALL {
        bed.router.remove_found_table(family, 9).unwrap();
    }
    // The table that an operator stated is in force again, too, and it cannot go meanwhile.
    let b0 = ports[2].index;
    bed.router.add_found_table(Family::Ip4, 11).unwrap();
    let green = bed.router.add_found_table(Family::Ip6, 11).unwrap();
    bed.router.follow_table(b0, Some(green)).unwrap();
    let refused = refusal(&mut bed, "ip table del 7");
    assert!(refused.contains("table 7 is that of"), "{refused}");
    bed.router.follow_table(b0, None).unwrap();
    assert_eq!(bed.router.table_of(b0, Family::Ip4), blue);
    assert_eq!(leaves_by(&mut bed, &ports, 2, "10.0.1.2"), hop(3, "10.0.1.2"));
}

#[test]
fn what_is_stated_of_an_interface_that_follows_a_table_can_be_loaded_again() {
    let (mut bed, ports) = bed();
    let tables = [9, 11].map(|id| {
        bed.router.add_found_table(Family::Ip6, id).unwrap();
        bed.router.add_found_table(Family::Ip4, id).unwrap()
    });
    all(&mut bed, &["set interface ip address del a0 10.0.0.1/24", "set interface ip address del a1 10.0.1.1/24"]);
    for (port, table) in ports[..2].iter().zip(tables) {
        bed.router.follow_table(port.index, Some(table)).unwrap();
    }
    // The same address in both: that is true in their tables only.
    all(&mut bed, &["set interface ip address a0 10.9.0.1/24", "set interface ip address a1 10.9.0.1/24"]);
    let stated = bed.command("show running-config").unwrap();
    for line in ["ip table add 9", "set interface ip table a0 9", "set interface ip table a1 11"] {
        assert!(stated.contains(line), "{line}: {stated}");
    }
    // What was stated of a table goes with its statement, though the table stays.
    all(&mut bed, &["set ip flow-hash table 9 src", "set ip route counters 10.9.0.0/24 enable table 9"]);
    all(&mut bed, &["set interface ip address del a0 10.9.0.1/24", "set interface ip table a0 0", "ip table del 9"]);
    let stated = bed.command("show running-config").unwrap();
    assert!(!stated.contains("table 9"), "{stated}");
    assert!(bed.router.ip.has_table(Family::Ip4, tables[0]));
}

#[test]
fn an_interface_takes_no_address_along_that_another_one_there_has() {
    let (mut bed, ports) = bed();
    bed.router.add_found_address(ports[0].index, "10.0.1.1/24".parse().unwrap()).unwrap_err();
    bed.command("set interface ip address del a0 10.0.0.1/24").unwrap();
    bed.router.add_found_address(ports[0].index, "10.0.0.1/24".parse().unwrap()).unwrap();
    let refused = refusal(&mut bed, "set interface ip table a0 7");
    assert_eq!(refused, "10.0.0.1/24 overlaps with 10.0.0.1/24 on b0");
    assert_eq!(bed.router.table_of(ports[0].index, Family::Ip4).0, 0);
}

/// A listener that tries again whatever it hears of would never end.
#[test]
fn a_refused_move_is_not_said() {
    let (mut bed, ports) = bed();
    let [red, blue] = [9, 11].map(|id| {
        bed.router.add_found_table(Family::Ip4, id).unwrap();
        bed.router.add_found_table(Family::Ip6, id).unwrap()
    });
    for (port, table) in [(&ports[0], red), (&ports[1], blue)] {
        bed.router.follow_table(port.index, Some(table)).unwrap();
        bed.router.add_found_address(port.index, "2001:db8::1/64".parse().unwrap()).unwrap();
    }
    let (_, follower) = bed.router.follow(100, Wants::NONE);
    let refused = bed.router.follow_table(ports[1].index, Some(red)).unwrap_err().to_string();
    assert_eq!(refused, "2001:db8::1/64 overlaps with 2001:db8::1/64 on a0");
    assert_eq!(follower.try_iter().count(), 0);
    assert_eq!(Family::ALL.map(|family| bed.router.table_of(ports[1].index, family)), [blue, blue]);
}

#[test]
fn addresses_that_could_not_be_loaded_together_are_not_stated_together() {
    let (mut bed, ports) = bed();
    let red = bed.router.add_found_table(Family::Ip4, 9).unwrap();
    bed.router.add_found_table(Family::Ip6, 9).unwrap();
    // Stated in table 0, it follows to another one.
    bed.router.follow_table(ports[0].index, Some(red)).unwrap();
    let refused = refusal(&mut bed, "set interface ip address a1 10.0.0.9/24");
    assert_eq!(refused, "10.0.0.9/24 overlaps with 10.0.0.1/24 on a0");
}
