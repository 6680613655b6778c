//! `set ip flow-hash`: the fields by which a table distinguishes flows.

use crate::bed::*;
use crate::bed6;
use crate::packet::*;
use std::collections::BTreeSet;

const FLOWS: u8 = 60;

/// A family of flows that differ in one thing: source and destination host, and the ports, by number.
type Flow = fn(u8) -> (u8, u8, u16, u16);

const KINDS: [(&str, Flow); 4] = [
    ("src", |n| (n, 7, 1000, 2000)),
    ("dst", |n| (7, n, 1000, 2000)),
    ("sport", |n| (7, 7, n.into(), 2000)),
    ("dport", |n| (7, 7, 1000, n.into())),
];

fn bed() -> (Bed, [Port; 3]) {
    let (mut bed, ports) = Bed::with_three_ports();
    for line in [
        "ip route add 40.0.0.0/24 via 10.0.1.2",
        "ip route add 50.0.0.0/24 via 10.0.1.2 via 10.0.2.2",
        "ip table add 7",
        "ip route add table 7 50.0.0.0/24 via 10.0.1.2 next-hop-table 0 via 10.0.2.2 next-hop-table 0",
    ] {
        bed.command(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    }
    (bed, ports)
}

/// The ports by which the flows leave.
fn ways(bed: &mut Bed, ports: &[Port; 3], flow: Flow) -> Vec<usize> {
    let each = |n: u8| {
        let (from, to, source, destination) = flow(n);
        let mut packet = Packet::udp(&format!("10.0.0.{from}"), &format!("50.0.0.{to}"), b"x");
        packet.payload[..2].copy_from_slice(&source.to_be_bytes());
        packet.payload[2..4].copy_from_slice(&destination.to_be_bytes());
        ports[0].receive(packet.frame(ports[0].mac, host_mac(ip("10.0.0.2"))));
        bed.run();
        let sent = [1, 2].map(|port| ports[port].sent().len());
        assert_eq!(sent.iter().sum::<usize>(), 1, "{:?}", bed.errors());
        1 + sent[1]
    };
    (2..FLOWS).map(each).collect()
}

fn are_spread(ways: &[usize]) -> bool {
    ways.iter().collect::<BTreeSet<_>>().len() > 1
}

#[test]
fn flows_are_told_by_the_fields_that_a_table_names() {
    let (mut bed, ports) = bed();
    for (named, _) in KINDS {
        bed.command(&format!("set ip flow-hash table 0 {named}")).unwrap();
        for (kind, flow) in KINDS {
            assert_eq!(
                are_spread(&ways(&mut bed, &ports, flow)),
                kind == named,
                "{named}, flows that differ in {kind}"
            );
        }
    }
    let shown = bed.command("show ip fib 50.0.0.1").unwrap();
    assert!(shown.starts_with("ipv4-VRF:0, fib_index:0, flow hash:[dport ]\n"), "{shown}");
    bed.command("set ip flow-hash table 0 default").unwrap();
    for (kind, flow) in KINDS {
        assert!(are_spread(&ways(&mut bed, &ports, flow)), "{kind}");
    }
}

#[test]
fn another_table_and_routes_that_come_later_have_their_own() {
    let (mut bed, ports) = bed();
    let (_, by_port) = KINDS[2];
    bed.command("set ip flow-hash table 7 src").unwrap();
    assert!(are_spread(&ways(&mut bed, &ports, by_port)), "it is not this table's");
    bed.command("set ip flow-hash src dst").unwrap();
    bed.command("ip route add 50.0.0.0/25 via 10.0.2.2 via 10.0.1.2 weight 2").unwrap();
    assert!(!are_spread(&ways(&mut bed, &ports, by_port)), "a new list has it too");
    // With several load-balance objects in one vector, each packet is hashed as its own table says.
    let mac = ports[0].mac;
    for n in 2..FLOWS {
        for to in ["40.0.0.1", "50.0.0.1", "50.0.0.200"] {
            let mut packet = Packet::udp("10.0.0.2", to, b"x");
            packet.payload[1] = n;
            ports[0].receive(packet.frame(mac, host_mac(ip("10.0.0.2"))));
        }
    }
    bed.run();
    let to = |frame: &Vec<u8>| frame[30..34].to_vec();
    for port in &ports[1..] {
        let sent: Vec<Vec<u8>> = port.sent();
        for one in ["50.0.0.1", "50.0.0.200"] {
            let count = sent.iter().filter(|frame| to(frame) == ip(one).octets()).count();
            assert!(count == 0 || count == usize::from(FLOWS - 2), "{one}: {count}");
        }
    }
    bed.router.ip.audit().unwrap();
}

#[test]
fn both_directions_of_a_symmetric_flow_take_one_path() {
    let (mut bed, ports) = bed();
    let there: Flow = |n| (n, 7, 1000 + u16::from(n), 2000);
    let back: Flow = |n| (n, 7, 2000, 1000 + u16::from(n));
    let differ = |bed: &mut Bed| ways(bed, &ports, there) != ways(bed, &ports, back);
    assert!(differ(&mut bed));
    bed.command("set ip flow-hash table 0 sport dport symmetric").unwrap();
    assert!(!differ(&mut bed));
}

#[test]
fn it_is_configuration_and_says_what_is_wrong() {
    let (mut bed, _) = bed();
    bed.command("set ip flow-hash table 7 src dst symmetric").unwrap();
    bed.command("set ip6 flow-hash src flowlabel").unwrap();
    let config = bed.command("show running-config").unwrap();
    assert!(config.contains("\nset ip flow-hash table 7 src dst symmetric\n"), "{config}");
    assert!(config.contains("set ip6 flow-hash table 0 src flowlabel\n"), "{config}");
    for (line, reason) in [
        ("set ip flow-hash table 7", "name what tells flows"),
        ("set ip flow-hash table 7 symmetric", "name what tells flows"),
        ("set ip flow-hash table 7 src default", "stands alone"),
        ("set ip flow-hash table 8 src", "8"),
        ("set ip flow-hash table 7 flowlabel", "flowlabel"),
    ] {
        let error = bed.command(line).unwrap_err().to_string();
        assert!(error.contains(reason), "{line}: {error}");
    }
    bed.command("set ip flow-hash table 7 default").unwrap();
    bed.command("set ip6 flow-hash default").unwrap();
    assert!(!bed.command("show running-config").unwrap().contains("flow-hash"));
}

#[test]
fn ip6_flows_are_told_by_the_fields_of_their_table() {
    let (mut bed, ports) = bed6::bed();
    bed.command("ip route add 2001:db8:50::/64 via 2001:db8:1::2 via 2001:db8:2::2").unwrap();
    let ways = |bed: &mut Bed| -> BTreeSet<usize> {
        let each = |n: u8| {
            let mut packet = bed6::udp("2001:db8:50::1");
            packet.payload[1] = n;
            ports[0].receive(packet.frame(ports[0].mac, bed6::mac_of(0)));
            bed.run();
            ports[1..].iter().position(|port| !port.sent().is_empty()).unwrap_or_else(|| panic!("{:?}", bed.errors()))
        };
        (2..FLOWS).map(each).collect()
    };
    assert_eq!(ways(&mut bed).len(), 2);
    bed.command("set ip6 flow-hash table 0 src dst flowlabel").unwrap();
    assert_eq!(ways(&mut bed).len(), 1);
    bed.command("set ip6 flow-hash table 0 sport").unwrap();
    assert_eq!(ways(&mut bed).len(), 2);
}
