//! What must not be forwarded is refused before anybody asks for a neighbour: packets to next hops that are not known
//! are checked as all others are, on every way there, in both families.

use crate::bed::{Bed, Port, error, host_mac};
use crate::bed6::{self, mac_of, packets, told};
use crate::packet::*;
use crate::packet6::Packet6;
use wire::MacAddress;

/// Absent hosts of e1's network: by the network's own route, by a route onto the interface, by next hops that were
/// never asked for, one of them with a label.
const ABSENT: [&str; 4] = ["10.0.1.77", "48.0.0.9", "48.0.1.9", "48.0.2.9"];
const ABSENT6: [&str; 4] = ["2001:db8:1::77", "2001:db8:30::9", "2001:db8:31::9", "2001:db8:32::9"];

fn absent() -> (Bed, [Port; 3]) {
    let (mut bed, ports) = Bed::with_three_ports();
    for line in [
        "ip route add 48.0.0.0/24 via e1",
        "ip route add 48.0.1.0/24 via 10.0.1.200",
        "ip route add 48.0.2.0/24 via 10.0.1.201 e1 out-labels 33",
    ] {
        bed.command(line).unwrap();
    }
    bed.run();
    (bed, ports)
}

fn absent6() -> (Bed, [Port; 3]) {
    let (mut bed, ports) = bed6::bed();
    for line in [
        "ip route add 2001:db8:30::/48 via e1",
        "ip route add 2001:db8:31::/48 via 2001:db8:1::200",
        "ip route add 2001:db8:32::/48 via 2001:db8:1::201 e1 out-labels 33",
    ] {
        bed.command(line).unwrap();
    }
    bed.run();
    (bed, ports)
}

#[test]
fn time_exceeded_comes_at_once_and_no_neighbour_is_asked_for() {
    let (mut bed, [e0, e1, _]) = absent();
    for to in ABSENT {
        for ttl in [1, 0] {
            let packet = Packet::udp("10.0.0.2", to, b"data").ttl(ttl);
            e0.receive_packet(&packet);
            bed.run();
            let sent = e0.sent();
            assert_eq!(sent.len(), 1, "{to}");
            assert_eq!(sent[0][34..], icmp(11, 0, 0, &packet.bytes()), "{to}");
            assert_eq!((e1.sent().len(), bed.held()), (0, 0), "{to}");
        }
    }
    let (mut bed, ports) = absent6();
    for to in ABSENT6 {
        let packet = bed6::from_e0(to).hops(1);
        assert_eq!(told(&mut bed, &ports, &packet), (3, 0, 0, packet.bytes()), "{to}");
        assert_eq!((ports[1].sent().len(), bed.held()), (0, 0), "{to}");
    }
}

#[test]
fn what_came_in_a_group_frame_asks_for_no_neighbour() {
    let (mut bed, [e0, e1, _]) = absent();
    for to in ABSENT {
        let packet = Packet::udp("10.0.0.2", to, b"data");
        e0.receive(packet.frame(MacAddress::BROADCAST, host_mac(packet.source)));
        let moved = bed.errors_of(|_| {});
        assert_eq!(moved, error("ip4-rewrite", "group-addressed frame is not forwarded", 1), "{to}");
        assert_eq!((e1.sent().len(), bed.held()), (0, 0), "{to}");
    }
    let (mut bed, ports) = absent6();
    for to in ABSENT6 {
        ports[0].receive(bed6::from_e0(to).frame(MacAddress([0x33, 0x33, 0, 0, 0, 1]), mac_of(0)));
        let moved = bed.errors_of(|_| {});
        assert_eq!(moved, error("ip6-rewrite", "group-addressed frame is not forwarded", 1), "{to}");
        assert_eq!((ports[1].sent().len(), bed.held()), (0, 0), "{to}");
    }
}

#[test]
fn a_source_of_its_link_only_asks_for_no_neighbour_elsewhere() {
    let (mut bed, ports) = absent6();
    bed.command("ip neighbor e0 fe80::aa 02:aa:00:00:00:02").unwrap();
    for to in ABSENT6 {
        let packet = Packet6::udp("fe80::aa", to, b"data");
        // Destination unreachable, beyond scope of source address.
        assert_eq!(told(&mut bed, &ports, &packet), (1, 2, 0, packet.bytes()), "{to}");
        assert_eq!((ports[1].sent().len(), bed.held()), (0, 0), "{to}");
    }
}

#[test]
fn what_is_too_long_and_must_not_be_cut_asks_for_no_neighbour() {
    let (mut bed, [e0, e1, _]) = absent();
    bed.router.set_mtu(e0.index, 9000).unwrap();
    for to in ABSENT {
        let packet = Packet::new("10.0.0.2", to, 99, &[7; 1600]).fragment(0x4000);
        e0.receive_packet(&packet);
        bed.run();
        let sent = e0.sent();
        assert_eq!((sent.len(), &sent[0][34..36]), (1, &[3, 4][..]), "{to}");
        assert_eq!((e1.sent().len(), bed.held()), (0, 0), "{to}");
    }
    let (mut bed, ports) = absent6();
    bed.router.set_mtu(ports[0].index, 9000).unwrap();
    for to in ABSENT6 {
        let packet = Packet6::new("2001:db8::2", to, 99, &[7; 1600]);
        ports[0].receive(packet.frame(ports[0].mac, mac_of(0)));
        bed.run();
        let answers = packets(&ports[0]);
        assert_eq!((answers.len(), &answers[0][40..42]), (1, &[2, 0][..]), "{to}");
        assert_eq!((ports[1].sent().len(), bed.held()), (0, 0), "{to}");
    }
}
