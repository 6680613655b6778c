//! Labels: swapped, pushed, popped, and looked up one after the other; each operation to the byte.

use crate::bed::{Bed, Port, error, host_mac};
use crate::packet::*;
use crate::packet6::{Packet6, ip6};
use router::neighbour::NeighbourKey;
use wire::MacAddress;

pub const MPLS: u16 = 0x8847;

/// An entry of a label stack: label, traffic class, bottom, time to live.
pub type Entry = (u32, u8, bool, u8);

pub fn stack(entries: &[Entry]) -> Vec<u8> {
    let entry = |(label, class, bottom, ttl): &Entry| {
        (label << 12 | u32::from(*class) << 9 | u32::from(*bottom) << 8 | u32::from(*ttl)).to_be_bytes()
    };
    entries.iter().flat_map(entry).collect()
}

/// Three ports, `10.0.N.1/24` and `2001:db8:N::1/64` each, that accept labels and know a host `2` of each network.
pub fn bed() -> (Bed, [Port; 3]) {
    let mut bed = Bed::new();
    all(&mut bed, &["set ip6 dad transmits 0", "mpls table add 0"]);
    let ports = [0, 1, 2].map(|number| {
        let port = bed.port(&format!("e{number}"), &[&format!("10.0.{number}.1/24")]);
        bed.know(&port, &format!("10.0.{number}.2"));
        all(&mut bed, &[&format!("set interface ip address e{number} 2001:db8:{number}::1/64")]);
        let key = NeighbourKey::new(port.index, ip6(&format!("2001:db8:{number}::2")));
        bed.router.set_neighbour(key, mac6(number), true).unwrap();
        all(&mut bed, &[&format!("set interface mpls e{number} enable")]);
        port
    });
    bed.advance(std::time::Duration::from_secs(1));
    ports.iter().for_each(|port| drop(port.sent()));
    (bed, ports)
}

pub fn all(bed: &mut Bed, lines: &[&str]) {
    lines.iter().for_each(|line| drop(bed.command(line).unwrap_or_else(|error| panic!("{line}: {error}"))));
    bed.run();
}

pub fn mac6(number: usize) -> MacAddress {
    MacAddress([2, 0xbb, 0, 0, number as u8, 2])
}

/// A labelled frame for a port.
pub fn labelled(port: &Port, entries: &[Entry], packet: &[u8]) -> Vec<u8> {
    ethernet(port.mac, host_mac(ip("10.0.0.2")), MPLS, &[&stack(entries), packet].concat())
}

/// What the router sends on each port when e0 receives a labelled packet.
pub fn sent(bed: &mut Bed, ports: &[Port; 3], entries: &[Entry], packet: &[u8]) -> [Vec<Vec<u8>>; 3] {
    ports[0].receive(labelled(&ports[0], entries, packet));
    bed.run();
    [0, 1, 2].map(|port| ports[port].sent())
}

/// The only frame that it sends, on e1.
#[track_caller]
pub fn by_e1(bed: &mut Bed, ports: &[Port; 3], entries: &[Entry], packet: &[u8]) -> Vec<u8> {
    let [e0, mut e1, e2] = sent(bed, ports, entries, packet);
    assert!(e0.is_empty() && e2.is_empty() && e1.len() == 1, "{e0:x?} {e1:x?} {e2:x?} {:?}", bed.errors());
    e1.remove(0)
}

/// A frame to host 2 of e1's network.
pub fn to_host(ports: &[Port; 3], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    ethernet(host_mac(ip("10.0.1.2")), ports[1].mac, ethertype, payload)
}

pub fn udp() -> Packet {
    Packet::udp("192.0.2.1", "198.51.100.1", b"some data")
}

/// Results must not depend on the number of packets: one, some, a full register, a vector.
pub const COUNTS: [usize; 4] = [1, 5, 33, 256];

/// Sends the same packet so many times; all results must be the same.
#[track_caller]
pub fn all_become(bed: &mut Bed, ports: &[Port; 3], entries: &[Entry], packet: &[u8], expected: &[u8]) {
    for count in COUNTS {
        (0..count).for_each(|_| ports[0].receive(labelled(&ports[0], entries, packet)));
        bed.run();
        let got = ports[1].sent();
        assert_eq!(got.len(), count, "{:?}", bed.errors());
        assert!(got.iter().all(|frame| frame == expected), "{:x?} is not {expected:x?}", got[0]);
    }
}

#[test]
fn a_label_is_changed_for_another() {
    let (mut bed, ports) = bed();
    all(&mut bed, &["mpls local-label add 16 eos via 10.0.1.2 e1 out-labels 17"]);
    let inner = udp().bytes();
    let expected = to_host(&ports, MPLS, &[&stack(&[(17, 5, true, 63)]), &inner[..]].concat());
    all_become(&mut bed, &ports, &[(16, 5, true, 64)], &inner, &expected);
    // The seed's other direction. A label also carries data that is not IP.
    all(&mut bed, &["mpls local-label add 17 eos via 10.0.0.2 e0 out-labels 16"]);
    let [e0, ..] = sent(&mut bed, &ports, &[(17, 0, true, 2)], b"anything");
    let expected = [&stack(&[(16, 0, true, 1)]), &b"anything"[..]].concat();
    assert_eq!(e0, [ethernet(host_mac(ip("10.0.0.2")), ports[0].mac, MPLS, &expected)]);
    assert_eq!(bed.errors(), Default::default());
}

#[test]
fn labels_at_the_bottom_and_above_others_lead_apart() {
    let (mut bed, ports) = bed();
    all(&mut bed, &["mpls local-label add 16 eos via 10.0.1.2 e1 out-labels 17"]);
    all(&mut bed, &["mpls local-label add non-eos 16 via 10.0.1.2 e1 out-labels 18"]);
    let below = stack(&[(99, 1, true, 9)]);
    let expected = to_host(&ports, MPLS, &[&stack(&[(18, 3, false, 99)]), &below[..]].concat());
    all_become(&mut bed, &ports, &[(16, 3, false, 100), (99, 1, true, 9)], b"", &expected);
    let expected = to_host(&ports, MPLS, &[&stack(&[(17, 3, true, 99)]), &below[..]].concat());
    all_become(&mut bed, &ports, &[(16, 3, true, 100)], &below, &expected);
    // Without `eos` or `non-eos`, the command means both.
    all(&mut bed, &["mpls local-label del 16", "mpls local-label add 16 via 10.0.1.2 e1 out-labels 19"]);
    for bottom in [true, false] {
        let expected = to_host(&ports, MPLS, &[&stack(&[(19, 0, bottom, 99)]), &below[..]].concat());
        assert_eq!(by_e1(&mut bed, &ports, &[(16, 0, bottom, 100)], &below), expected);
    }
}

#[test]
fn the_last_label_is_taken_off_and_the_packet_sent_to_a_next_hop() {
    let (mut bed, ports) = bed();
    // The seed's command.
    all(&mut bed, &["mpls local-label add 16 eos via 10.0.1.2 e1"]);
    let expected = to_host(&ports, 0x0800, &udp().ttl(63).bytes());
    all_become(&mut bed, &ports, &[(16, 5, true, 9)], &udp().bytes(), &expected);
    // The default is the pipe model: a popped label changes nothing in the packet, not even when its TTL ends.
    assert_eq!(by_e1(&mut bed, &ports, &[(16, 5, true, 1)], &udp().bytes()), expected);
    // Padding is not part of the packet.
    let padded = [udp().bytes(), vec![0; 9]].concat();
    assert_eq!(by_e1(&mut bed, &ports, &[(16, 5, true, 9)], &padded), expected);
    // Options are not examined, but kept.
    let with_options = udp().options(&[1, 1, 1, 0]);
    let expected = to_host(&ports, 0x0800, &with_options.clone().ttl(63).bytes());
    assert_eq!(by_e1(&mut bed, &ports, &[(16, 0, true, 9)], &[with_options.bytes(), vec![0; 5]].concat()), expected);
    // An IPv6 packet, when the next hop is an IPv6 address.
    all(&mut bed, &["mpls local-label add 17 eos via 2001:db8:1::2 e1"]);
    let packet = Packet6::udp("2001:db8:aa::1", "2001:db8:bb::1", b"some data");
    let mut after = packet.bytes();
    after[7] -= 1;
    let expected = ethernet(mac6(1), ports[1].mac, 0x86dd, &after);
    all_become(&mut bed, &ports, &[(17, 5, true, 9)], &packet.bytes(), &expected);
    // Implicit null is no label: the result is the same.
    all(&mut bed, &["mpls local-label replace 16 eos via 10.0.1.2 e1 out-labels 3"]);
    let expected = to_host(&ports, 0x0800, &udp().ttl(63).bytes());
    assert_eq!(by_e1(&mut bed, &ports, &[(16, 5, true, 9)], &udp().bytes()), expected);
    assert_eq!(bed.errors(), Default::default());
}

#[test]
fn a_label_above_others_is_taken_off() {
    let (mut bed, ports) = bed();
    all(&mut bed, &["mpls local-label add 16 non-eos via 10.0.1.2 e1"]);
    let inner = udp().bytes();
    let expected = to_host(&ports, MPLS, &[&stack(&[(99, 1, true, 200)]), &inner[..]].concat());
    all_become(&mut bed, &ports, &[(16, 5, false, 9), (99, 1, true, 200)], &inner, &expected);
    // RFC 3443 3.1: in the uniform model its TTL and traffic class are copied to the label below.
    all(&mut bed, &["mpls local-label replace 16 non-eos via 10.0.1.2 e1 uniform"]);
    let expected = to_host(&ports, MPLS, &[&stack(&[(99, 5, true, 8)]), &inner[..]].concat());
    all_become(&mut bed, &ports, &[(16, 5, false, 9), (99, 1, true, 200)], &inner, &expected);
}

#[test]
fn more_labels_are_put_on_top() {
    let (mut bed, ports) = bed();
    let inner = udp().bytes();
    for (said, expected) in [
        ("17 18", vec![(17, 5, false, 63), (18, 5, true, 63)]),
        ("17 18 ttl 200", vec![(17, 0, false, 200), (18, 5, true, 63)]),
        ("17 18 19 exp 2", vec![(17, 2, false, 64), (18, 2, false, 64), (19, 5, true, 63)]),
        ("17 18 19 20 uniform", vec![17, 18, 19, 20].into_iter().map(|l| (l, 5, l == 20, 63)).collect()),
        ("0", vec![(0, 5, true, 63)]),
    ] {
        all(&mut bed, &[&format!("mpls local-label replace 16 eos via 10.0.1.2 e1 out-labels {said}")]);
        let expected = to_host(&ports, MPLS, &[&stack(&expected), &inner[..]].concat());
        all_become(&mut bed, &ports, &[(16, 5, true, 64)], &inner, &expected);
    }
}

#[test]
fn routes_put_labels_on_packets() {
    let (mut bed, ports) = bed();
    let ip6_packet = Packet6::udp("2001:db8:0::2", "2001:db8:bb::1", b"some data");
    let mut ip6_after = ip6_packet.bytes();
    ip6_after[7] -= 1;
    let mut packet = Packet::udp("10.0.0.2", "48.0.0.1", b"some data");
    packet.tos = 0xb9;
    for (said, expected) in [
        ("out-labels 17", vec![(17, 0, true, 64)]),
        ("out-labels 17 18", vec![(17, 0, false, 64), (18, 0, true, 64)]),
        ("out-labels 17 18 ttl 200 exp 3", vec![(17, 3, false, 200), (18, 3, true, 200)]),
        ("out-labels 17 18 19 20 21", (17..22).map(|label| (label, 0, label == 21, 64)).collect()),
        ("out-labels 0", vec![(0, 0, true, 64)]),
        ("out-labels 17 uniform", vec![(17, 5, true, 63)]),
        ("out-labels 17 18 uniform", vec![(17, 5, false, 63), (18, 5, true, 63)]),
    ] {
        all(&mut bed, &[&format!("ip route replace 48.0.0.0/24 via 10.0.1.2 e1 {said}")]);
        let expected4 = to_host(&ports, MPLS, &[&stack(&expected), &packet.clone().ttl(63).bytes()[..]].concat());
        let mut packet6 = ip6_packet.bytes();
        let mut after = ip6_after.clone();
        // The traffic class starts in the first byte.
        (packet6[0], packet6[1], after[0], after[1]) = (0x6b, 0x90, 0x6b, 0x90);
        all(&mut bed, &[&format!("ip route replace 2001:db8:bb::/48 via 2001:db8:1::2 e1 {said}")]);
        let expected6 = ethernet(mac6(1), ports[1].mac, MPLS, &[&stack(&expected), &after[..]].concat());
        for count in COUNTS {
            (0..count).for_each(|_| drop(ports[0].receive_packet(&packet)));
            bed.run();
            let got = ports[1].sent();
            assert!(got.len() == count && got.iter().all(|frame| *frame == expected4), "{said}: {got:x?}");
            let frame = ethernet(ports[0].mac, mac6(0), 0x86dd, &packet6);
            (0..count).for_each(|_| ports[0].receive(frame.clone()));
            bed.run();
            let got = ports[1].sent();
            assert!(got.len() == count && got.iter().all(|frame| *frame == expected6), "{said}: {got:x?}");
        }
    }
    // Implicit null is no label.
    all(&mut bed, &["ip route replace 48.0.0.0/24 via 10.0.1.2 e1 out-labels 3"]);
    ports[0].receive_packet(&packet);
    bed.run();
    assert_eq!(ports[1].sent(), [to_host(&ports, 0x0800, &packet.clone().ttl(63).bytes())]);
    assert_eq!(bed.errors(), Default::default());
}

#[test]
fn a_next_hop_behind_labels_adds_its_own_below_theirs() {
    let (mut bed, ports) = bed();
    all(
        &mut bed,
        &[
            "ip route add 192.0.2.9/32 via 10.0.1.2 e1 out-labels 17",
            "ip table add 7",
            "ip route add table 7 48.0.0.0/24 via 192.0.2.9 next-hop-table 0 out-labels 100",
            "ip route add 48.0.1.0/24 via 192.0.2.9",
            "ip route add 48.0.0.0/24 via ip4-lookup-in-table 7",
            // A label is swapped for one below the same path's labels.
            "mpls local-label add 16 eos via 192.0.2.9 out-labels 200",
            "mpls local-label add 18 eos via 192.0.2.9",
        ],
    );
    for (to, expected) in
        [("48.0.0.1", vec![(17, 0, false, 64), (100, 0, true, 64)]), ("48.0.1.1", vec![(17, 0, true, 64)])]
    {
        let packet = Packet::udp("10.0.0.2", to, b"x");
        ports[0].receive_packet(&packet);
        bed.run();
        let expected = to_host(&ports, MPLS, &[&stack(&expected), &packet.ttl(63).bytes()[..]].concat());
        assert_eq!(ports[1].sent(), [expected], "{to}");
    }
    let inner = udp().bytes();
    let expected = to_host(&ports, MPLS, &[&stack(&[(17, 0, false, 64), (200, 6, true, 8)]), &inner[..]].concat());
    all_become(&mut bed, &ports, &[(16, 6, true, 9)], &inner, &expected);
    let expected = to_host(&ports, MPLS, &[&stack(&[(17, 0, true, 64)]), &udp().ttl(63).bytes()[..]].concat());
    all_become(&mut bed, &ports, &[(18, 6, true, 9)], &inner, &expected);
    // All of them follow when the path to the next hop changes, or is removed.
    all(&mut bed, &["ip route replace 192.0.2.9/32 via 10.0.2.2 e2 out-labels 27 28"]);
    let [_, e1, e2] = sent(&mut bed, &ports, &[(16, 6, true, 9)], &inner);
    let labels = stack(&[(27, 0, false, 64), (28, 0, false, 64), (200, 6, true, 8)]);
    let expected = ethernet(host_mac(ip("10.0.2.2")), ports[2].mac, MPLS, &[&labels, &inner[..]].concat());
    assert_eq!((e1, e2), (vec![], vec![expected]));
    all(&mut bed, &["ip route del 192.0.2.9/32"]);
    let errors = bed.errors_of(|bed| drop(sent(bed, &ports, &[(16, 6, true, 9)], &inner)));
    assert_eq!(errors, error("mpls-lookup", "mpls label leads nowhere", 1));
    bed.router.ip.audit().unwrap();
}

#[test]
fn what_is_inside_is_looked_up_in_the_table_that_its_label_names() {
    let (mut bed, ports) = bed();
    all(&mut bed, &["ip table add 7", "ip6 table add 7"]);
    // Customer networks with the same addresses as elsewhere.
    let port = bed.port("c0", &[]);
    all(
        &mut bed,
        &[
            "set interface ip table c0 7",
            "set interface ip6 table c0 7",
            "set interface ip address c0 10.0.1.1/24",
            "set interface ip address c0 2001:db8:1::1/64",
            "mpls local-label add 100 eos via ip4-lookup-in-table 7",
            "mpls local-label add 101 eos via ip6-lookup-in-table 7",
            "mpls local-label add 102 eos via ip4-lookup-in-table 0",
            "mpls local-label add 103 eos ip4-lookup-in-table 7 uniform",
            "mpls local-label add 104 eos ip6-lookup-in-table 7 uniform",
        ],
    );
    bed.know(&port, "10.0.1.2");
    let key = NeighbourKey::new(port.index, ip6("2001:db8:1::2"));
    bed.router.set_neighbour(key, mac6(9), true).unwrap();
    bed.run();
    port.sent();
    let packet = Packet::udp("192.0.2.1", "10.0.1.2", b"x");
    let packet6 = Packet6::udp("2001:db8:aa::1", "2001:db8:1::2", b"x");
    let mut after6 = packet6.bytes();
    after6[7] -= 1;
    let here = |payload: &[u8]| ethernet(host_mac(ip("10.0.1.2")), port.mac, 0x0800, payload);
    let here6 = |payload: &[u8]| ethernet(mac6(9), port.mac, 0x86dd, payload);
    for count in COUNTS {
        for (label, inner, expected) in [
            (100, packet.bytes(), here(&packet.clone().ttl(63).bytes())),
            (101, packet6.bytes(), here6(&after6)),
            (103, packet.bytes(), {
                let mut packet = packet.clone().ttl(19);
                packet.tos = 0xa0;
                here(&packet.bytes())
            }),
            (104, packet6.bytes(), {
                let mut after = after6.clone();
                (after[0], after[7]) = (0x6a, 19);
                here6(&after)
            }),
        ] {
            (0..count).for_each(|_| ports[0].receive(labelled(&ports[0], &[(label, 5, true, 20)], &inner)));
            bed.run();
            let got = port.sent();
            assert!(got.len() == count && got.iter().all(|frame| *frame == expected), "{label}: {got:x?}");
        }
        (0..count).for_each(|_| ports[0].receive(labelled(&ports[0], &[(102, 5, true, 20)], &packet.bytes())));
        bed.run();
        assert_eq!(ports[1].sent(), vec![to_host(&ports, 0x0800, &packet.clone().ttl(63).bytes()); count]);
    }
    // Answers are looked up in the same table: to a ping of the customer's own router, and errors about dropped
    // packets.
    all(&mut bed, &["ip route add table 7 192.0.2.0/24 via 10.0.1.2"]);
    ports[0].receive(labelled(
        &ports[0],
        &[(100, 0, true, 9)],
        &Packet::echo_request("192.0.2.1", "10.0.1.1", b"?").bytes(),
    ));
    ports[0].receive(labelled(&ports[0], &[(100, 0, true, 9)], &packet.clone().ttl(1).bytes()));
    ports[0].receive(labelled(&ports[0], &[(100, 0, true, 9)], &Packet::udp("192.0.2.1", "203.0.113.1", b"x").bytes()));
    let drops = |bed: &Bed, port: &Port| bed.counters(port)[5];
    let before = (drops(&bed, &ports[0]), drops(&bed, &port));
    bed.run();
    let got = port.sent();
    assert_eq!(got.len(), 3, "{:?}", bed.errors());
    // Both count as drops of the interface that received them, which is not one of their table.
    assert_eq!((drops(&bed, &ports[0]), drops(&bed, &port)), (before.0 + 2, before.1));
    let mut told: Vec<(&[u8], u8, u8)> = got.iter().map(|frame| (&frame[26..30], frame[34], frame[35])).collect();
    told.sort_unstable();
    let us = &[10, 0, 1, 1][..];
    assert_eq!(told, [(us, 0, 0), (us, 3, 0), (us, 11, 0)]);
    assert!(ports.iter().all(|port| port.sent().is_empty()));
}

#[test]
fn packets_of_three_tables_and_none_pass_one_vector_by_one_interface() {
    let (mut bed, ports) = bed();
    let more: Vec<Port> = ["c0", "c1"].map(|name| bed.port(name, &[])).into();
    all(&mut bed, &["ip table add 7", "ip table add 8", "set urpf ip4 rx strict e0"]);
    for (name, table) in [("c0", 7), ("c1", 8)] {
        all(
            &mut bed,
            &[
                &format!("set interface ip table {name} {table}"),
                &format!("set interface ip address {name} 10.0.1.1/24"),
                &format!("mpls local-label add 10{table} eos via ip4-lookup-in-table {table}"),
            ],
        );
    }
    all(&mut bed, &["mpls local-label add 100 eos via ip4-lookup-in-table 0"]);
    more.iter().for_each(|port| bed.know(port, "10.0.1.2"));
    bed.run();
    let outs = [&ports[1], &more[0], &more[1]];
    outs.iter().for_each(|port| drop(port.sent()));
    // The source is of no route of tables 7 and 8: what a label led there is not checked by its interface's rule.
    let packet = |n: usize, ttl: u8| Packet::udp("10.0.0.2", "10.0.1.2", &[n as u8]).ttl(ttl);
    let count = 200;
    for n in 0..count {
        let bytes = packet(n, 64).bytes();
        let labels = [None, Some(100), Some(107), Some(108)][n % 4];
        ports[0].receive(match labels {
            Some(label) => labelled(&ports[0], &[(label, 0, true, 64)], &bytes),
            None => ethernet(ports[0].mac, host_mac(ip("10.0.0.2")), 0x0800, &bytes),
        });
    }
    let before = bed.counters(&ports[0])[0];
    bed.run();
    assert_eq!(bed.counters(&ports[0])[0], before + count as u64);
    for (port, wanted) in outs.into_iter().zip([&[0, 1][..], &[2], &[3]]) {
        let mut expected: Vec<_> = (0..count)
            .filter(|n| wanted.contains(&(n % 4)))
            .map(|n| ethernet(host_mac(ip("10.0.1.2")), port.mac, 0x0800, &packet(n, 63).bytes()))
            .collect();
        let mut got = port.sent();
        got.sort();
        expected.sort();
        assert_eq!(got, expected, "{:?}", bed.errors());
    }
}

#[test]
fn explicit_null_has_what_is_inside_looked_up() {
    let (mut bed, ports) = bed();
    all(&mut bed, &["ip route add 198.51.100.0/24 via 10.0.1.2", "ip route add 2001:db8:bb::/48 via 2001:db8:1::2"]);
    let expected = to_host(&ports, 0x0800, &udp().ttl(63).bytes());
    all_become(&mut bed, &ports, &[(0, 5, true, 9)], &udp().bytes(), &expected);
    // RFC 4182: also above other labels.
    assert_eq!(by_e1(&mut bed, &ports, &[(0, 5, false, 9), (0, 0, true, 1)], &udp().bytes()), expected);
    let packet = Packet6::udp("2001:db8:aa::1", "2001:db8:bb::1", b"some data");
    let mut after = packet.bytes();
    after[7] -= 1;
    all_become(&mut bed, &ports, &[(2, 5, true, 9)], &packet.bytes(), &ethernet(mac6(1), ports[1].mac, 0x86dd, &after));
    // To this router itself.
    let [e0, ..] =
        sent(&mut bed, &ports, &[(0, 0, true, 1)], &Packet::echo_request("10.0.0.2", "10.0.1.1", b"?").bytes());
    assert_eq!((e0.len(), e0[0][34]), (1, 0), "an echo reply");
}

#[test]
fn one_label_after_the_other_is_looked_up() {
    let (mut bed, ports) = bed();
    all(
        &mut bed,
        &[
            "mpls table add 5",
            "mpls local-label add 16 non-eos via mpls-lookup-in-table 0",
            "mpls local-label add 17 non-eos mpls-lookup-in-table 5",
            "mpls local-label add table 5 18 via 10.0.1.2 e1 out-labels 30",
            "mpls local-label add 18 via drop",
        ],
    );
    let inner = udp().bytes();
    let stack_in = [(16, 0, false, 1), (16, 0, false, 1), (17, 0, false, 1), (18, 2, true, 70)];
    let expected = to_host(&ports, MPLS, &[&stack(&[(30, 2, true, 69)]), &inner[..]].concat());
    all_become(&mut bed, &ports, &stack_in, &inner, &expected);
    let errors = bed.errors_of(|bed| drop(sent(bed, &ports, &stack_in[3..], &inner)));
    assert_eq!(errors, error("mpls-lookup", "blackholed packets", 1));
}

#[test]
fn entropy_labels_are_no_part_of_the_path() {
    let (mut bed, ports) = bed();
    all(
        &mut bed,
        &[
            "mpls local-label add 16 via 10.0.1.2 e1 out-labels 17",
            "mpls local-label add 18 eos via 10.0.1.2 e1",
            "mpls local-label add 19 eos via ip4-lookup-in-table 0 uniform",
            "mpls local-label add 20 non-eos via mpls-lookup-in-table 0",
            "ip route add 198.51.100.0/24 via 10.0.1.2",
        ],
    );
    let inner = udp().bytes();
    // The indicator has the TTL of the label above it; the entropy label after it has TTL 0 (RFC 6790 4.2).
    let entropy = [(7, 5, false, 64), (777, 0, true, 0)];
    let behind = |entry: Entry| [vec![entry], entropy.to_vec()].concat();
    // Routers on the path keep it.
    let expected = to_host(&ports, MPLS, &[&stack(&behind((17, 5, false, 63))), &inner[..]].concat());
    all_become(&mut bed, &ports, &behind((16, 5, false, 64)), &inner, &expected);
    // At the end of the path both labels are removed (RFC 6790 4.2).
    let expected = to_host(&ports, 0x0800, &udp().ttl(63).bytes());
    all_become(&mut bed, &ports, &behind((18, 5, false, 64)), &inner, &expected);
    let mut uniform = udp().ttl(39);
    uniform.tos = 0xa0;
    let looked_up = to_host(&ports, 0x0800, &uniform.bytes());
    all_become(&mut bed, &ports, &behind((19, 5, false, 40)), &inner, &looked_up);
    // The router before popped the label that identified the payload, so its first bits do.
    all_become(&mut bed, &ports, &entropy, &inner, &expected);
    // Labels below it are looked up.
    let middle = [(20, 0, false, 9), (7, 0, false, 9), (777, 0, false, 0), (18, 0, true, 3)];
    all_become(&mut bed, &ports, &middle, &inner, &expected);
}

#[test]
fn flows_spread_over_paths_by_entropy_or_by_what_is_inside() {
    let (mut bed, ports) = bed();
    all(
        &mut bed,
        &[
            "mpls local-label add 16 via 10.0.1.2 e1 out-labels 17 via 10.0.2.2 e2 out-labels 18",
            "mpls local-label add 19 eos via 10.0.1.2 e1 via 10.0.2.2 e2",
        ],
    );
    let shares = |bed: &mut Bed, packets: Vec<(Vec<Entry>, Vec<u8>)>| {
        packets.iter().for_each(|(entries, packet)| ports[0].receive(labelled(&ports[0], entries, packet)));
        bed.run();
        [ports[1].sent().len(), ports[2].sent().len()]
    };
    let is_even = |[one, other]: [usize; 2]| one + other == 200 && one.abs_diff(other) < 60;
    let flow = |number: u8| Packet::udp("192.0.2.1", &format!("198.51.100.{number}"), b"x").bytes();
    for label in [16, 19] {
        let by_flow = shares(&mut bed, (0..200).map(|n| (vec![(label, 0, true, 9)], flow(n))).collect());
        assert!(is_even(by_flow), "{by_flow:?}");
        let one_flow = shares(&mut bed, (0..200).map(|_| (vec![(label, 0, true, 9)], flow(1))).collect());
        assert!(one_flow.contains(&200), "{one_flow:?}");
    }
    let entropy = |value: u32| vec![(16, 0, false, 9), (7, 0, false, 0), (value, 0, true, 0)];
    let by_entropy = shares(&mut bed, (0..200).map(|n| (entropy(100 + n), flow(1))).collect());
    assert!(is_even(by_entropy), "{by_entropy:?}");
    let one = shares(&mut bed, (0..200).map(|n| (entropy(100), flow(n as u8))).collect());
    assert!(one.contains(&200), "{one:?}");
    // With one path less, the other path takes all packets.
    all(&mut bed, &["mpls local-label del 16 via 10.0.1.2 e1"]);
    assert_eq!(shares(&mut bed, (0..200).map(|n| (vec![(16, 0, true, 9)], flow(n))).collect()), [0, 200]);
}

#[test]
fn tags_are_around_labels_as_around_anything() {
    let (mut bed, ports) = bed();
    all(
        &mut bed,
        &[
            "create sub-interfaces e0 100",
            "create sub-interfaces e1 200",
            "create sub-interfaces e1 201 dot1ad 20 inner-dot1q 30 exact-match",
            "set interface state e0.100 up",
            "set interface state e1.200 up",
            "set interface state e1.201 up",
            "set interface ip address e1.200 10.9.0.1/24",
            "set interface ip address e1.201 10.8.0.1/24",
            "ip neighbor e1.200 10.9.0.2 02:00:00:00:99:01",
            "ip neighbor e1.201 10.8.0.2 02:00:00:00:99:02",
            "set interface mpls e0.100 enable",
            "mpls local-label add 16 eos via 10.9.0.2 e1.200 out-labels 17",
            "mpls local-label add 18 eos via 10.8.0.2 e1.201 out-labels 17 19",
            "mpls local-label add 20 eos via 10.0.1.2 e1 out-labels 21",
            "ip route add 48.0.0.0/24 via 10.9.0.2 e1.200 out-labels 33",
        ],
    );
    ports[1].sent();
    let inner = udp().bytes();
    let tagged = |entries: &[Entry]| {
        let payload = [&[0, 100, 0x88, 0x47][..], &stack(entries), &inner].concat();
        ethernet(ports[0].mac, host_mac(ip("10.0.0.2")), 0x8100, &payload)
    };
    for (label, expected) in [
        (
            16,
            ethernet(
                MacAddress([2, 0, 0, 0, 0x99, 1]),
                ports[1].mac,
                0x8100,
                &[&[0, 200, 0x88, 0x47][..], &stack(&[(17, 5, true, 8)]), &inner].concat(),
            ),
        ),
        (18, {
            let tags = [0, 20, 0x81, 0, 0, 30, 0x88, 0x47];
            let stack = stack(&[(17, 5, false, 8), (19, 5, true, 8)]);
            ethernet(MacAddress([2, 0, 0, 0, 0x99, 2]), ports[1].mac, 0x88a8, &[&tags[..], &stack, &inner].concat())
        }),
        (20, to_host(&ports, MPLS, &[&stack(&[(21, 5, true, 8)]), &inner[..]].concat())),
    ] {
        for count in COUNTS {
            (0..count).for_each(|_| ports[0].receive(tagged(&[(label, 5, true, 9)])));
            bed.run();
            let got = ports[1].sent();
            assert!(
                got.len() == count && got.iter().all(|frame| *frame == expected),
                "{label}: {got:x?} {:?}",
                bed.errors()
            );
        }
    }
    // In one vector with untagged and other packets.
    (0..9).for_each(|n| {
        ports[0].receive(tagged(&[(20, 5, true, 9)]));
        ports[0].receive(labelled(&ports[0], &[(20, 5, true, 9)], &inner));
        ports[0].receive_packet(&Packet::udp("10.0.0.2", "10.0.1.2", &[n]));
    });
    bed.run();
    assert_eq!(ports[1].sent().iter().filter(|frame| frame[12..14] == [0x88, 0x47]).count(), 18);
    ports[0].receive_packet(&Packet::udp("10.0.0.2", "48.0.0.1", b"x"));
    bed.run();
    let got = ports[1].sent();
    assert_eq!(got[0][12..22], [&[0x81, 0, 0, 200, 0x88, 0x47][..], &stack(&[(33, 0, true, 64)])].concat());
}

#[test]
fn packets_wait_for_their_next_hop_and_go_where_labels_then_lead() {
    let (mut bed, ports) = bed();
    all(
        &mut bed,
        &[
            "mpls local-label add 16 eos via 10.0.1.9 e1 out-labels 17",
            "mpls local-label add 18 eos via 10.0.1.9 e1",
            "mpls local-label add 20 non-eos via 10.0.1.9 e1",
            "mpls local-label add 19 eos via 2001:db8:1::9 e1 out-labels 17",
            // Routes for the inner packet do not matter.
            "ip route add 198.51.100.0/24 via drop",
        ],
    );
    let inner = udp().bytes();
    let all_in: [Vec<Entry>; 3] =
        [vec![(16, 1, true, 9)], vec![(18, 1, true, 9)], vec![(20, 1, false, 9), (99, 2, true, 5)]];
    for entries in &all_in {
        ports[0].receive(labelled(&ports[0], entries, &inner));
    }
    ports[0].receive(labelled(&ports[0], &[(19, 1, true, 9)], &inner));
    bed.run();
    assert_eq!(bed.held(), 4);
    assert_eq!(ports[1].sent().len(), 2, "a request and a solicitation");
    bed.know(&ports[1], "10.0.1.9");
    let key = NeighbourKey::new(ports[1].index, ip6("2001:db8:1::9"));
    bed.router.set_neighbour(key, mac6(9), true).unwrap();
    bed.run();
    let to = |payload: &[u8]| ethernet(host_mac(ip("10.0.1.9")), ports[1].mac, MPLS, payload);
    let mut got = ports[1].sent();
    got.sort();
    let mut expected = vec![
        to(&[&stack(&[(17, 1, true, 8)]), &inner[..]].concat()),
        ethernet(host_mac(ip("10.0.1.9")), ports[1].mac, 0x0800, &udp().ttl(63).bytes()),
        to(&[&stack(&[(99, 2, true, 5)]), &inner[..]].concat()),
        ethernet(mac6(9), ports[1].mac, MPLS, &[&stack(&[(17, 1, true, 8)]), &inner[..]].concat()),
    ];
    expected.sort();
    assert_eq!(got, expected, "{:?}", bed.errors());
    assert_eq!(bed.held(), 0);
}

#[test]
fn a_next_hop_that_does_not_answer_is_no_way() {
    let (mut bed, ports) = bed();
    all(
        &mut bed,
        &["mpls local-label add 16 eos via 10.0.1.9 e1 out-labels 17", "mpls local-label add 18 eos via 10.0.1.9 e1"],
    );
    let errors = bed.errors_of(|bed| {
        for label in [16, 18] {
            ports[0].receive(labelled(&ports[0], &[(label, 1, true, 9)], &udp().bytes()));
        }
        (0..10).for_each(|_| bed.advance(std::time::Duration::from_secs(1)));
    });
    assert_eq!(errors, error("ip4-arp", "next hop of a label did not answer", 2));
    assert!(ports[0].sent().is_empty(), "nobody is told");
}
