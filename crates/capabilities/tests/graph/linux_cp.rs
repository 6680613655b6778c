//! Pairs of the Linux control plane: what Linux gets of an interface, to the byte, and what leaves of what it sends.

use crate::bed::{Bed, Port, host_mac};
use crate::packet::*;
use crate::packet6::{Packet6, ip6, link_option, solicited_group};
use drivers::TxOffloads;
use graph::InterfaceIndex;
use linux_cp::Pairs;
use wire::MacAddress;

const STATION: MacAddress = MacAddress([2, 7, 7, 7, 7, 7]);

/// Three ports that forward; `x0` is the Linux side of `e0`.
fn bed() -> (Bed, [Port; 3], Port) {
    let (mut bed, ports) = Bed::with_three_ports();
    let linux = bed.port_that_finishes("x0", TxOffloads { checksum: true, segmentation: true });
    bed.router.set_admin(linux.index, true).unwrap();
    linux_cp::join(&mut bed.router, ports[0].index, linux.index, "xe0").unwrap();
    bed.run();
    (bed, ports, linux)
}

/// What Linux got when e0 received a frame.
fn to_linux(bed: &mut Bed, e0: &Port, linux: &Port, frame: &[u8]) -> Vec<Vec<u8>> {
    e0.receive(frame.to_vec());
    bed.run();
    assert_eq!(bed.buffers_in_use(), 0);
    linux.sent()
}

fn knows(bed: &Bed, port: &Port, address: &str) -> Option<MacAddress> {
    let address: std::net::IpAddr = address.parse().unwrap();
    let of = bed.router.neighbours.of_interface(port.index);
    of.into_iter().find(|(key, _)| key.address == address).and_then(|(key, _)| bed.router.neighbours.mac_of(key))
}

#[test]
fn packets_for_the_router_reach_linux_as_they_came() {
    let (mut bed, [e0, e1, _], linux) = bed();
    let from = host_mac(ip("10.0.0.2"));
    for packet in [
        Packet::echo_request("10.0.0.2", "10.0.0.1", b"for e0"),
        Packet::echo_request("10.0.0.2", "10.0.1.1", b"for e1, by e0"),
        Packet::udp("10.0.0.2", "10.0.0.1", b"to a port"),
        Packet::tcp("10.0.0.2", "10.0.0.1", 7, b"a segment"),
        Packet::new("10.0.0.2", "10.0.0.1", 89, b"OSPF"),
        Packet::new("10.0.0.2", "224.0.0.5", 89, b"OSPF to its group"),
        Packet::udp("10.0.0.2", "239.1.2.3", b"to any group"),
        Packet::udp("10.0.0.2", "10.0.0.1", b"its last hop").ttl(1),
        // Router Alert (RFC 2113), as IGMP has it.
        Packet::new("10.0.0.2", "224.0.0.22", 2, &[0x22; 16]).ttl(1).options(&[0x94, 4, 0, 0]),
        Packet::new("0.0.0.0", "224.0.0.1", 2, &[0x11; 8]).ttl(1),
        Packet::udp("192.0.2.9", "224.0.0.9", b"of another network"),
    ] {
        let mac = if packet.destination.is_multicast() { MacAddress([1, 0, 0x5e, 0, 0, 5]) } else { e0.mac };
        let frame = packet.frame(mac, from);
        assert_eq!(to_linux(&mut bed, &e0, &linux, &frame), [frame], "{packet:?}");
        assert_eq!(e0.sent().len(), 0, "nobody else answers {packet:?}");
    }
    // Not for the router: forwarded, and of another interface: answered here.
    e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.1.2", b"through"));
    e1.receive_packet(&Packet::echo_request("10.0.1.2", "10.0.1.1", b"no pair"));
    bed.run();
    assert_eq!((linux.sent().len(), e1.sent().len()), (0, 2));
    let shown = bed.command("show interface e0").unwrap();
    assert!(shown.lines().any(|line| line.contains("lcp tx packets") && line.trim_end().ends_with(" 11")), "{shown}");
}

/// What no member takes must not be looked up like a host's address.
#[test]
fn packets_to_groups_are_never_forwarded() {
    let (mut bed, [e0, e1, e2], linux) = bed();
    bed.command("ip route add 0.0.0.0/0 via 10.0.1.2").unwrap();
    let frame = Packet::udp("10.0.0.2", "239.1.2.3", b"x").options(&[1, 1, 1, 1]).frame(e0.mac, STATION);
    assert_eq!(to_linux(&mut bed, &e0, &linux, &frame), [frame]);
    e2.receive(Packet::udp("10.0.2.2", "239.1.2.3", b"x").options(&[1, 1, 1, 1]).frame(e2.mac, STATION));
    bed.run();
    assert_eq!((e1.sent().len(), linux.sent().len()), (0, 0));
}

#[test]
fn a_datagram_that_is_too_long_for_a_frame_is_dropped_by_name() {
    let (mut bed, [e0, ..], linux) = bed();
    let payload = vec![7; 65_535 - 20];
    let parts = payload.chunks(1480).enumerate();
    let last = payload.len().div_ceil(1480) - 1;
    let moved = bed.errors_of(|bed| {
        for (number, part) in parts {
            let fragment = (number * 185) as u16 | if number == last { 0 } else { 0x2000 };
            e0.receive_packet(&Packet::new("10.0.0.2", "10.0.0.1", 200, part).fragment(fragment));
            bed.run();
        }
    });
    assert_eq!(moved.get(&("linux-cp-punt-ip4".into(), "packet too long for a frame".into())), Some(&1), "{moved:?}");
    assert_eq!((linux.sent().len(), bed.buffers_in_use()), (0, 0));
}

#[test]
fn a_fragmented_datagram_for_the_router_reaches_linux_whole() {
    let (mut bed, [e0, ..], linux) = bed();
    let whole = Packet::udp("10.0.0.2", "10.0.0.1", &[7; 64]);
    let [first, rest] = [(&whole.payload[..32], 0x2000), (&whole.payload[32..], 4)]
        .map(|(part, fragment)| Packet::new("10.0.0.2", "10.0.0.1", 17, part).fragment(fragment));
    for part in [first, rest] {
        e0.receive_packet(&part);
    }
    bed.run();
    let sent = linux.sent();
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0][34..], whole.payload, "{sent:?}");
    assert_eq!((&sent[0][..6], &sent[0][12..14]), (&e0.mac.0[..], &[8, 0][..]));
}

#[test]
fn frames_that_the_router_does_not_know_reach_linux() {
    let (mut bed, [e0, e1, _], linux) = bed();
    let lldp = ethernet(MacAddress([1, 0x80, 0xc2, 0, 0, 0x0e]), STATION, 0x88cc, &[9; 50]);
    let isis =
        ethernet(MacAddress([1, 0x80, 0xc2, 0, 0, 0x14]), STATION, 64, &[&[0xfe, 0xfe, 3][..], &[0; 61]].concat());
    for frame in [lldp, isis] {
        assert_eq!(to_linux(&mut bed, &e0, &linux, &frame), std::slice::from_ref(&frame));
        e1.receive(frame);
        bed.run();
        assert_eq!(linux.sent().len(), 0, "e1 has no pair");
    }
}

#[test]
fn arp_is_answered_by_linux_and_read_by_the_router() {
    let (mut bed, [e0, ..], linux) = bed();
    let asks = |sender: &str, target: &str| {
        ethernet(MacAddress([0xff; 6]), STATION, 0x806, &arp(1, (STATION, sender), (MacAddress::default(), target)))
    };
    let frame = asks("10.0.0.9", "10.0.0.1");
    assert_eq!(to_linux(&mut bed, &e0, &linux, &frame), [frame]);
    assert_eq!(e0.sent().len(), 0, "the router does not answer");
    bed.router.tick();
    assert_eq!(knows(&bed, &e0, "10.0.0.9"), Some(STATION), "it learned who asked");
    assert_eq!(bed.errors()[&("arp-reply".into(), "ARP request that the host answers".into())], 1);
    let moved = bed.errors_of(|bed| drop(to_linux(bed, &e0, &linux, &asks("10.0.0.9", "10.0.0.8"))));
    assert_eq!(moved, crate::bed::error("arp-reply", "ARP request for another address", 1));
    // For whom the router is a proxy it answers itself.
    bed.command("set interface proxy-arp e0 enable").unwrap();
    bed.command("set arp proxy start 10.0.1.2 end 10.0.1.9").unwrap();
    assert_eq!(to_linux(&mut bed, &e0, &linux, &asks("10.0.0.9", "10.0.1.2")).len(), 1);
    assert_eq!(e0.sent().len(), 1, "proxy");
    // The answer to a question of Linux, which the router did not ask.
    let answer = ethernet(e0.mac, STATION, 0x806, &arp(2, (STATION, "10.0.0.77"), (e0.mac, "10.0.0.1")));
    assert_eq!(to_linux(&mut bed, &e0, &linux, &answer), [answer]);
}

#[test]
fn neighbor_discovery_is_answered_by_linux_and_read_by_the_router() {
    let (mut bed, [e0, ..], linux) = bed();
    bed.command("set interface ip address e0 2001:db8::1/64").unwrap();
    (0..3).for_each(|_| bed.advance(std::time::Duration::from_secs(1)));
    e0.sent();
    linux.sent();
    let asks = Packet6::discovery(
        "2001:db8::9",
        &solicited_group("2001:db8::1"),
        135,
        0,
        &[&ip6("2001:db8::1").octets()[..], &link_option(1, STATION)].concat(),
    );
    let frame = asks.frame(MacAddress([0x33, 0x33, 0xff, 0, 0, 1]), STATION);
    assert_eq!(to_linux(&mut bed, &e0, &linux, &frame), [frame]);
    assert_eq!(e0.sent().len(), 0, "the router does not answer");
    bed.router.tick();
    assert_eq!(knows(&bed, &e0, "2001:db8::9"), Some(STATION));
    for to in ["2001:db8::1", "ff02::5", "ff05::1:3"] {
        let frame = Packet6::udp("2001:db8::9", to, b"data").frame(e0.mac, STATION);
        assert_eq!(to_linux(&mut bed, &e0, &linux, &frame), [frame], "{to}");
    }
}

#[test]
fn what_linux_sends_leaves_as_it_is() {
    let (mut bed, [e0, e1, _], linux) = bed();
    let to_nobody = Packet::udp("10.0.0.1", "192.0.2.77", b"no route of the router's").ttl(1).frame(STATION, e0.mac);
    let tagged = ethernet(STATION, e0.mac, 0x8100, &[&[0, 100, 8, 0][..], &[5; 60]].concat());
    let lldp = ethernet(MacAddress([1, 0x80, 0xc2, 0, 0, 0x0e]), e0.mac, 0x88cc, &[9; 50]);
    for frame in [to_nobody, tagged, lldp] {
        linux.receive(frame.clone());
        bed.run();
        assert_eq!(e0.sent(), [frame]);
        assert_eq!((e1.sent().len(), bed.buffers_in_use()), (0, 0));
    }
    bed.command("set interface state e0 down").unwrap();
    let moved = bed.errors_of(|bed| {
        linux.receive(ethernet(STATION, e0.mac, 0x88cc, &[9; 50]));
        bed.run();
    });
    assert_eq!(moved, crate::bed::error("e0-output", "interface is down", 1));
}

#[test]
fn without_buffers_linux_goes_first() {
    let (mut bed, [e0, ..], linux) = bed();
    let frame = ethernet(
        MacAddress([0xff; 6]),
        STATION,
        0x806,
        &arp(1, (STATION, "10.0.0.9"), (MacAddress::default(), "10.0.0.1")),
    );
    let capacity = bed.router.graph.pool().capacity() as usize;
    let mut all = vec![graph::PacketIndex::NONE; capacity];
    assert_eq!(bed.worker.core().buffers.allocate(&mut all), capacity);
    bed.worker.core().buffers.free(&all[..1]);
    e0.receive(frame.clone());
    let moved = bed.errors_of(|_| {});
    bed.worker.core().buffers.free(&all[1..]);
    assert_eq!(linux.sent(), [frame]);
    assert_eq!(moved, crate::bed::error("linux-cp-arp-phy", "no free buffer to copy into", 1));
}

#[test]
fn a_pair_ends_with_either_side_and_no_interface_is_of_two() {
    let (mut bed, [e0, e1, _], linux) = bed();
    let refused = |bed: &mut Bed, phy: InterfaceIndex, tap: InterfaceIndex| {
        linux_cp::join(&mut bed.router, phy, tap, "xe1").unwrap_err().to_string()
    };
    assert!(refused(&mut bed, e0.index, e1.index).starts_with("e0 has a pair already: xe0"));
    assert!(refused(&mut bed, e1.index, linux.index).starts_with("x0 is the Linux side of a pair"));
    assert!(refused(&mut bed, e1.index, e1.index).starts_with("e1 cannot be the Linux side of itself"));
    assert_eq!(bed.router.state::<Pairs>().iter().count(), 1);
    bed.router.delete_interface(linux.index).unwrap();
    bed.run();
    assert_eq!(bed.router.state::<Pairs>().iter().count(), 0);
    e0.receive_packet(&Packet::echo_request("10.0.0.2", "10.0.0.1", b"x"));
    e0.receive_packet(&Packet::new("10.0.0.2", "224.0.0.5", 89, b"OSPF"));
    bed.run();
    assert_eq!(e0.sent().len(), 1, "the router answers again, and takes no groups");
    assert_eq!(bed.errors()[&("ip4-input".into(), "multicast not routed".into())], 1);
}
