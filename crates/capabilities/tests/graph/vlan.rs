//! Sub-interfaces: which frames they accept, what they send, and how they follow their parent.

use crate::bed::{Arrival, Bed, Errors, Port, error, host_mac};
use crate::packet::*;
use features::config;
use graph::buffer::{Offload, Segmentation};
use graph::{InterfaceIndex, flag};
use router::neighbour::NeighbourKey;
use std::collections::BTreeMap;
use std::time::Duration;
use wire::MacAddress;

const Q: u16 = 0x8100;
const AD: u16 = 0x88a8;

/// The frame with tags after its addresses.
pub fn tagged(frame: &[u8], tags: &[(u16, u16)]) -> Vec<u8> {
    let tags: Vec<u8> = tags.iter().flat_map(|(tpid, tci)| [tpid.to_be_bytes(), tci.to_be_bytes()].concat()).collect();
    [&frame[..12], &tags, &frame[12..]].concat()
}

pub fn index(bed: &Bed, name: &str) -> InterfaceIndex {
    bed.router.interfaces.find(name).unwrap()
}

/// A trunk without addresses, and an ordinary port that knows 10.0.1.2.
fn bed() -> (Bed, Port, Port) {
    let mut bed = Bed::new();
    let trunk = bed.port("e0", &[]);
    let plain = bed.port("e1", &["10.0.1.1/24"]);
    bed.know(&plain, "10.0.1.2");
    (bed, trunk, plain)
}

/// Creates a sub-interface that is up, with the address 10.9.0.1/24.
fn addressed(bed: &mut Bed, trunk: &Port, command: &str) -> InterfaceIndex {
    let name = bed.command(&format!("create sub-interfaces e0 {command}")).unwrap().trim().to_string();
    bed.command(&format!("set interface state {name} up")).unwrap();
    bed.command(&format!("set interface ip address {name} 10.9.0.1/24")).unwrap();
    bed.run();
    trunk.sent();
    index(bed, &name)
}

fn counters(bed: &Bed, at: InterfaceIndex) -> [u64; 4] {
    let (at, counters) = (at.0 as usize, &bed.router.counters);
    [counters.rx.sum(at, 0), counters.rx.sum(at, 1), counters.tx.sum(at, 0), counters.tx.sum(at, 1)]
}

/// The commands that fix a sub-interface's tags, and those tags.
pub const STATIONS: [(&str, &[(u16, u16)]); 8] = [
    ("100", &[(Q, 100)]),
    ("4094", &[(Q, 4094)]),
    ("7 dot1q 100 exact-match", &[(Q, 100)]),
    ("7 dot1ad 100 exact-match", &[(AD, 100)]),
    ("7 dot1q 10 inner-dot1q 20 exact-match", &[(Q, 10), (Q, 20)]),
    ("7 dot1ad 10 inner-dot1q 20 exact-match", &[(AD, 10), (Q, 20)]),
    ("7 untagged", &[]),
    ("1", &[(Q, 1)]),
];

#[test]
fn packets_come_and_go_with_the_tags() {
    for (command, tags) in STATIONS {
        let (mut bed, trunk, plain) = bed();
        let sub = addressed(&mut bed, &trunk, command);
        bed.router.set_neighbour(NeighbourKey::new(sub, ip("10.9.0.2")), host_mac(ip("10.9.0.2")), true).unwrap();
        let before = bed.counters(&trunk);
        // In: padded to the shortest frame, and with a priority that is not forwarded.
        let frame = Packet::udp("10.9.0.2", "10.0.1.2", b"in").frame(trunk.mac, host_mac(ip("10.9.0.2")));
        let with_priority: Vec<(u16, u16)> = tags.iter().map(|(tpid, vid)| (*tpid, 0xb000 | vid)).collect();
        let mut wire = tagged(&frame, &with_priority);
        wire.resize(60, 0);
        trunk.receive(wire);
        // Out.
        let back = plain.receive_packet(&Packet::udp("10.0.1.2", "10.9.0.2", &[7; 100]));
        bed.run();
        assert_eq!(plain.sent(), [forwarded(&frame, host_mac(ip("10.0.1.2")), plain.mac)], "{command}");
        let out = tagged(&forwarded(&back, host_mac(ip("10.9.0.2")), trunk.mac), tags);
        assert_eq!(trunk.sent(), std::slice::from_ref(&out), "{command}");
        let n = out.len() as u64;
        assert_eq!(counters(&bed, sub)[0..2], [1, 60], "{command}");
        // Its announcement, an ARP frame of 42 bytes and the tags, counts, too.
        assert_eq!(counters(&bed, sub)[2..4], [2, n + 42 + 4 * tags.len() as u64], "{command}");
        let after = bed.counters(&trunk);
        let moved: Vec<u64> = after.iter().zip(before).map(|(after, before)| after - before).collect();
        assert_eq!(moved, [1, 60, 1, n, 0, 0, 0], "{command}");
        assert_eq!(bed.router.counters.ip4.sum(sub.0 as usize, 0), 1, "{command}");
    }
}

#[test]
fn arp_and_icmp_speak_through_the_tags() {
    let stranger = host_mac(ip("10.9.0.9"));
    for (command, tags) in STATIONS {
        let (mut bed, trunk, _plain) = bed();
        addressed(&mut bed, &trunk, command);
        let ours = trunk.mac;
        // A request for our address: the router answers and learns the sender.
        let question = arp(REQUEST, (stranger, "10.9.0.9"), (MacAddress::ZERO, "10.9.0.1"));
        trunk.receive(tagged(&ethernet(MacAddress::BROADCAST, stranger, 0x0806, &question), tags));
        bed.run();
        let answer = ethernet(stranger, ours, 0x0806, &arp(REPLY, (ours, "10.9.0.1"), (stranger, "10.9.0.9")));
        assert_eq!(trunk.sent(), [tagged(&answer, tags)], "{command}");
        // An echo request to us, and a packet whose TTL ends.
        let request = Packet::echo_request("10.9.0.9", "10.9.0.1", b"hello");
        trunk.receive(tagged(&request.frame(ours, stranger), tags));
        let late = Packet::udp("10.9.0.9", "10.0.1.2", b"late").ttl(1);
        trunk.receive(tagged(&late.frame(ours, stranger), tags));
        bed.run();
        let sent = trunk.sent();
        let head = tagged(&ethernet(stranger, ours, 0x0800, &[]), tags);
        assert_eq!(sent.len(), 2, "{command}");
        let (mut reply, mut exceeded) = (None, None);
        for frame in &sent {
            assert_eq!(frame[..head.len()], head[..], "{command}");
            let packet = &frame[head.len()..];
            assert_eq!(checksum(&packet[..20]), 0, "{command}");
            match packet[20] {
                0 => reply = Some(packet[28..].to_vec()),
                _ => exceeded = Some((packet[20], packet[12..16].to_vec(), packet[28..].to_vec())),
            }
        }
        assert_eq!(reply.as_deref(), Some(&b"hello"[..]), "{command}");
        assert_eq!(exceeded, Some((11, vec![10, 9, 0, 1], late.bytes())), "{command}");
    }
}

#[test]
fn unknown_neighbours_are_asked_for_with_the_tags() {
    for (command, tags) in STATIONS {
        let (mut bed, trunk, plain) = bed();
        let sub = addressed(&mut bed, &trunk, command);
        let asker = plain.receive_packet(&Packet::udp("10.0.1.2", "10.9.0.5", b"who"));
        bed.run();
        let zero = (MacAddress::ZERO, "10.9.0.5");
        let question = ethernet(MacAddress::BROADCAST, trunk.mac, 0x0806, &arp(REQUEST, (trunk.mac, "10.9.0.1"), zero));
        assert_eq!(trunk.sent(), [tagged(&question, tags)], "{command}");
        let host = host_mac(ip("10.9.0.5"));
        let answer = arp(REPLY, (host, "10.9.0.5"), (trunk.mac, "10.9.0.1"));
        trunk.receive(tagged(&ethernet(trunk.mac, host, 0x0806, &answer), tags));
        bed.run();
        assert_eq!(trunk.sent(), [tagged(&forwarded(&asker, host, trunk.mac), tags)], "{command}");
        let key = NeighbourKey::new(sub, ip("10.9.0.5"));
        assert_eq!(bed.router.neighbours.mac_of(&key), Some(host), "{command}");
    }
}

#[test]
fn what_hosts_leave_to_devices_is_finished_behind_the_tags() {
    let data: Vec<u8> = (0..1900).map(|n| (n * 7) as u8).collect();
    let (host, peer) = (host_mac(ip("10.0.1.2")), host_mac(ip("10.9.0.2")));
    for (command, tags) in STATIONS {
        let (mut bed, trunk, plain) = bed();
        let sub = addressed(&mut bed, &trunk, command);
        bed.router.set_neighbour(NeighbourKey::new(sub, ip("10.9.0.2")), peer, true).unwrap();
        let to_be_cut = |frame: Vec<u8>| {
            let mut arrival = Arrival::from(frame);
            arrival.flags = flag::SEGMENTED | flag::PARTIAL_CHECKSUM;
            arrival.offload = Offload {
                checksum_start: 20,
                checksum_offset: 16,
                segment_size: 800,
                header_length: 40,
                kind: Segmentation::Tcp4,
            };
            arrival
        };
        let (out, back) =
            (Packet::tcp("10.0.1.2", "10.9.0.2", 5, &data), Packet::tcp("10.9.0.2", "10.0.1.2", 9, &data));
        plain.receive(to_be_cut(out.frame(plain.mac, host)));
        trunk.receive(to_be_cut(tagged(&back.frame(trunk.mac, peer), tags)));
        bed.run();
        let on_trunk = tagged(&ethernet(peer, trunk.mac, 0x0800, &[]), tags);
        for (sent, head) in [(trunk.sent(), on_trunk), (plain.sent(), ethernet(host, plain.mac, 0x0800, &[]))] {
            assert_eq!(sent.len(), 3, "{command}");
            let mut arrived: Vec<u8> = Vec::new();
            for frame in sent {
                assert_eq!(frame[..head.len()], head[..], "{command}");
                let packet = &frame[head.len()..];
                assert_eq!(checksum(&packet[..20]), 0, "{command}");
                let length = (packet.len() as u16 - 20).to_be_bytes();
                let pseudo = [&packet[12..20], &[0, TCP], &length, &packet[20..]].concat();
                assert_eq!(checksum(&pseudo), 0, "{command}");
                arrived.extend_from_slice(&packet[40..]);
            }
            assert_eq!(arrived, data, "{command}");
        }
    }
}

/// Sub-interfaces of all kinds on one trunk. They say which of them accepts a frame, computed without tables.
struct Crowd(Vec<(String, InterfaceIndex)>);

impl Crowd {
    fn new(bed: &mut Bed, trunk: &Port) -> Crowd {
        let commands = [
            "100",
            "101",
            "200 dot1q 200",
            "201 dot1q 200 inner-dot1q 5 exact-match",
            "202 dot1q 201 inner-dot1q any exact-match",
            "300 dot1ad 100 exact-match",
            "301 dot1ad 100 inner-dot1q 5 exact-match",
            "302 dot1ad 100 inner-dot1q 6 exact-match",
            "303 dot1ad any inner-dot1q 7",
            "400 default",
            "401 untagged",
        ];
        let made = commands.map(|command| {
            let name = bed.command(&format!("create sub-interfaces e0 {command}")).unwrap().trim().to_string();
            bed.command(&format!("set interface state {name} up")).unwrap();
            let sub = index(bed, &name);
            // Where an address is refused, the frames are dropped.
            let _ = bed.command(&format!("set interface ip address {name} 10.20.{sub}.1/24"));
            (name.clone(), sub)
        });
        bed.run();
        trunk.sent();
        Crowd(made.to_vec())
    }

    fn owner(&self, tags: &[(u16, u16)]) -> &'static str {
        let vids: Vec<(u16, u16)> = tags.iter().map(|(tpid, tci)| (*tpid, tci & 0xfff)).collect();
        match vids[..] {
            [] | [(_, 0)] => "e0.401",
            [_, _, _, ..] => "more than two vlan tags",
            [(_, 0), ..] | [(_, 4095), ..] => "unknown vlan",
            [(Q, 100)] => "e0.100",
            [(Q, 101)] => "e0.101",
            [(Q, 200), (Q, 5)] => "e0.201",
            [(Q, 200), ..] => "e0.200",
            [(Q, 201), (Q, 1..=4094)] => "e0.202",
            [(AD, 100)] => "e0.300",
            [(AD, 100), (Q, 5)] => "e0.301",
            [(AD, 100), (Q, 6)] => "e0.302",
            [(AD, _), (Q, 7)] => "e0.303",
            _ => "e0.400",
        }
    }
}

#[test]
fn every_frame_of_a_mixed_trunk_finds_its_owner() {
    let (mut bed, trunk, plain) = bed();
    let crowd = Crowd::new(&mut bed, &trunk);
    let mut random = Random::new(42);
    let mut sent = 0;
    for burst in 0..60 {
        let mut expected: BTreeMap<&str, u64> = BTreeMap::new();
        let before: Vec<u64> = crowd.0.iter().map(|(_, sub)| counters(&bed, *sub)[0]).collect();
        // Some bursts consist of like frames, with few exceptions.
        let stray = *random.of(&[1usize, 2, 50, 1000]);
        let mut last: Vec<(u16, u16)> = Vec::new();
        let mut frames = Vec::new();
        for n in 0..1 + random.below(400) {
            if n == 0 || random.one_in(stray) {
                let tag = |random: &mut Random| {
                    let tpid = *random.of(&[Q, Q, AD]);
                    (tpid, *random.of(&[0, 5, 6, 7, 100, 101, 200, 201, 4095]) | *random.of(&[0, 0xe000]))
                };
                last = (0..*random.of(&[0, 1, 1, 1, 2, 2, 2, 3])).map(|_| tag(&mut random)).collect();
            }
            let packet = Packet::udp("10.9.0.2", "10.0.1.2", &random.bytes(1 + n % 60));
            let mut frame = tagged(&packet.frame(trunk.mac, host_mac(ip("10.9.0.2"))), &last);
            if random.one_in(3) {
                frame.resize(frame.len().max(60), 0);
            }
            *expected.entry(crowd.owner(&last)).or_default() += 1;
            frames.push((frame, packet, last.clone()));
        }
        frames.iter().for_each(|(frame, ..)| trunk.receive(frame.clone()));
        let errors = bed.errors_of(|_| {});
        let counted =
            |reason: &str| errors.get(&("ethernet-input".to_string(), reason.to_string())).copied().unwrap_or(0);
        for reason in ["unknown vlan", "more than two vlan tags"] {
            assert_eq!(counted(reason), expected.get(reason).copied().unwrap_or(0), "burst {burst}: {reason}");
        }
        for ((name, sub), before) in crowd.0.iter().zip(before) {
            let came = counters(&bed, *sub)[0] - before;
            assert_eq!(came, expected.get(&name[..]).copied().unwrap_or(0), "burst {burst}: {name}");
        }
        // Frames to sub-interfaces with an address are forwarded, in order and whole.
        let out = plain.sent();
        sent += out.len();
        let is_station = |owner: &str| {
            let known = bed.router.interfaces.find(owner).and_then(|sub| bed.router.interfaces.get(sub));
            known.is_ok_and(|sub| !sub.addresses.is_empty())
        };
        let through = frames.iter().filter(|(.., tags)| is_station(crowd.owner(tags)));
        let expected = through.map(|(_, packet, _)| {
            let frame = packet.frame(trunk.mac, host_mac(ip("10.9.0.2")));
            forwarded(&frame, host_mac(ip("10.0.1.2")), plain.mac)
        });
        assert!(out.iter().eq(expected.collect::<Vec<_>>().iter()), "burst {burst}");
    }
    assert!(sent > 0, "nothing was forwarded");
}

#[test]
fn tags_that_end_too_soon_are_no_tags() {
    let (mut bed, trunk, _) = bed();
    Crowd::new(&mut bed, &trunk);
    let frame = Packet::udp("10.9.0.2", "10.0.1.2", b"data").frame(trunk.mac, host_mac(ip("10.9.0.2")));
    let double = tagged(&frame, &[(Q, 200), (Q, 5)]);
    // Bytes of the buffer beyond the end of the frame are not read.
    for (length, reason) in [
        (13, "frame shorter than its header"),
        (14, "frame ends within a vlan tag"),
        (17, "frame ends within a vlan tag"),
        (18, "frame ends within a vlan tag"),
        (21, "frame ends within a vlan tag"),
    ] {
        let moved = bed.errors_of(|_| trunk.receive(double[..length].to_vec()));
        assert_eq!(moved, error("ethernet-input", reason, 1), "{length} bytes");
    }
    for length in 22..42 {
        let moved = bed.errors_of(|_| trunk.receive(double[..length].to_vec()));
        assert!(moved.keys().all(|(node, _)| node == "ip4-input"), "{length} bytes: {moved:?}");
        assert_eq!(moved.values().sum::<u64>(), 1, "{length} bytes");
    }
}

#[test]
fn without_sub_interfaces_a_priority_tag_is_no_obstacle_and_a_vlan_is_unknown() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let packet = Packet::udp("10.0.0.2", "10.0.1.2", b"data");
    let frame = packet.frame(e0.mac, host_mac(packet.source));
    let mut expected = Vec::new();
    for n in 0..40 {
        // Untagged frames in between.
        e0.receive(if n % 3 == 0 { frame.clone() } else { tagged(&frame, &[([Q, AD][n % 2], 0xe000)]) });
        expected.push(forwarded(&frame, host_mac(ip("10.0.1.2")), e1.mac));
    }
    let moved = bed.errors_of(|_| {});
    assert_eq!((moved, e1.sent()), (Errors::new(), expected));
    for tags in [&[(Q, 100)][..], &[(AD, 1)], &[(Q, 0), (Q, 100)]] {
        let moved = bed.errors_of(|_| e0.receive(tagged(&frame, tags)));
        assert_eq!(moved, error("ethernet-input", "unknown vlan", 1), "{tags:?}");
    }
}

#[test]
fn a_sub_interface_follows_its_parent() {
    let (mut bed, trunk, plain) = bed();
    let sub = addressed(&mut bed, &trunk, "100");
    let frame = Packet::udp("10.9.0.2", "10.0.1.2", b"data").frame(trunk.mac, host_mac(ip("10.9.0.2")));
    let connected = |bed: &Bed| {
        let route = bed.router.ip.routes().get("10.9.0.0/24".parse::<wire::Prefix>().unwrap());
        route.is_some_and(|route| route.installed.is_some())
    };
    assert!(connected(&bed));
    bed.command("set interface state e0 down").unwrap();
    assert!(!connected(&bed), "its networks go");
    bed.run();
    trunk.sent();
    bed.command("set interface state e0 up").unwrap();
    bed.run();
    assert!(connected(&bed), "and come back");
    // The sub-interface announces its address again.
    let mac = trunk.mac;
    let announcement =
        ethernet(MacAddress::BROADCAST, mac, 0x0806, &arp(REQUEST, (mac, "10.9.0.1"), (MacAddress::ZERO, "10.9.0.1")));
    assert_eq!(trunk.sent(), [tagged(&announcement, &[(Q, 100)])]);
    // Now the sub-interface itself is set down.
    bed.command("set interface state e0.100 down").unwrap();
    assert!(!connected(&bed));
    let moved = bed.errors_of(|_| trunk.receive(tagged(&frame, &[(Q, 100)])));
    assert_eq!(moved, error("ethernet-input", "subinterface down", 1));
    // It stays down when the parent goes down and comes back.
    bed.command("set interface state e0 down").unwrap();
    bed.command("set interface state e0 up").unwrap();
    assert!(!connected(&bed));
    bed.command("set interface state e0.100 up").unwrap();
    assert!(connected(&bed));
    // The Ethernet address and the MTU.
    bed.command("set interface mac address e0 02:00:00:00:00:77").unwrap();
    bed.command("set interface mtu packet 1400 e0").unwrap();
    let own = bed.router.interfaces.get(sub).unwrap();
    assert_eq!((own.mac.to_string().as_str(), own.mtu), ("02:00:00:00:00:77", 1400));
    let refusal = bed.command("set interface mtu 1500 e0.100").unwrap_err();
    assert!(refusal.contains("e0.100 has no link of its own but e0's"), "{refusal}");
    let advice = bed.command("set interface mtu packet 1450 e0.100").unwrap();
    assert!(advice.contains("e0.100 takes packets of up to 1400 bytes for now, as its parent e0 does"), "{advice}");
    // The operator's value applies again when the parent allows it.
    bed.command("set interface mtu packet 1470 e0").unwrap();
    assert_eq!(bed.router.interfaces.get(sub).unwrap().mtu, 1450);
    bed.command("set interface mtu packet 1300 e0.100").unwrap();
    bed.command("set interface mtu packet 1200 e0").unwrap();
    assert_eq!(bed.router.interfaces.get(sub).unwrap().mtu, 1200);
    bed.command("set interface mtu packet default e0.100").unwrap();
    bed.command("set interface mtu packet default e0").unwrap();
    assert_eq!(bed.router.interfaces.get(sub).unwrap().mtu, 1500);
    // An Ethernet address of its own.
    bed.command("set interface mac address e0.100 02:00:00:00:00:88").unwrap();
    let to = |mac: &str| {
        let packet = Packet::udp("10.9.0.2", "10.0.1.2", b"data");
        tagged(&packet.frame(mac.parse().unwrap(), host_mac(ip("10.9.0.2"))), &[(Q, 100)])
    };
    plain.sent();
    bed.run();
    let moved = bed.errors_of(|_| trunk.receive(to("02:00:00:00:00:77")));
    assert_eq!(moved, error("ethernet-input", "l3 mac mismatch", 1));
    trunk.receive(to("02:00:00:00:00:88"));
    bed.run();
    assert_eq!(plain.sent().len(), 1);
    bed.command("set interface mac address e0 default").unwrap();
    assert_eq!(bed.router.interfaces.get(sub).unwrap().mac.to_string(), "02:00:00:00:00:88");
    // The sub-interface is deleted with its parent.
    bed.command("delete interface e0").unwrap();
    assert!(bed.router.interfaces.find("e0.100").is_err() && !connected(&bed));
    assert!(bed.router.graph.find("e0.100-output").is_err());
    bed.run();
}

#[test]
fn what_makes_no_sense_is_refused_with_the_reason() {
    let (mut bed, trunk, _) = bed();
    addressed(&mut bed, &trunk, "100");
    bed.command("create sub-interfaces e0 8 dot1q 200").unwrap();
    bed.command("create sub-interfaces e0 9 dot1q any exact-match").unwrap();
    bed.command("create sub-interfaces e0 10 default").unwrap();
    for (command, expected) in [
        ("create sub-interfaces e0 100", "an interface named 'e0.100' exists already"),
        (
            "create sub-interfaces e0 7 dot1q 100",
            "dot1q 100: e0.100 takes those frames already (dot1q 100 exact-match)",
        ),
        ("create sub-interfaces e0 7 default", "default: e0.10 takes those frames already (default)"),
        ("create sub-interfaces e0 95-105", "an interface named 'e0.100' exists already"),
        ("create sub-interfaces e0 0", "VLANs are 1 to 4094"),
        ("create sub-interfaces e0 4095", "VLANs are 1 to 4094"),
        ("create sub-interfaces e0 9-8", "'9-8' has no VLAN in it"),
        ("create sub-interfaces e0 4000-5000", "VLANs are 1 to 4094"),
        ("create sub-interfaces e0 x", "'x' is no number of a sub-interface"),
        ("create sub-interfaces e0 1-2 dot1q 7", "'1-2' is a range"),
        ("create sub-interfaces e0 7 dot1q 4095", "expected"),
        ("create sub-interfaces e0.100 7", "e0.100 is a sub-interface itself"),
        (
            "set interface ip address e0.8 10.8.0.1/24",
            "e0.8 takes frames whose tags are not known beforehand (dot1q 200)",
        ),
        ("set interface ip address e0.9 10.8.0.1/24", "whose tags are not known beforehand"),
        ("set interface ip address e0.10 10.8.0.1/24", "whose tags are not known beforehand"),
        ("set interface name e0.100 blue", "e0.100 is named after e0"),
        ("delete sub-interface e0", "e0 is no sub-interface"),
    ] {
        let before = bed.command("show running-config").unwrap();
        let refusal = bed.command(command).unwrap_err();
        assert!(refusal.contains(expected), "{command}: {refusal}");
        assert_eq!(bed.command("show running-config").unwrap(), before, "{command}");
    }
    bed.run();
}

#[test]
fn the_configuration_makes_them_again() {
    let (mut bed, trunk, _) = bed();
    addressed(&mut bed, &trunk, "100");
    for command in [
        "create sub-interfaces e0 200-202",
        "create sub-interfaces e0 7 dot1ad 10 inner-dot1q 20 exact-match",
        "create sub-interfaces e0 8 dot1q 300",
        "create sub-interfaces e0 9 default",
        "create sub-interfaces e0 10 untagged",
        "create sub-interfaces e0 11 dot1ad any inner-dot1q any",
        "set interface mtu packet 1300 e0.7",
        "set interface state e0.9 up",
        "delete sub-interface e0.201",
        "delete interface e0.202",
        "set interface name e0 trunk",
    ] {
        bed.command(command).unwrap_or_else(|error| panic!("{command}: {error}"));
    }
    let config = bed.command("show running-config").unwrap();
    let expected = "\
create sub-interfaces trunk 100
set interface ip address trunk.100 10.9.0.1/24
set interface state trunk.100 up
create sub-interfaces trunk 200
create sub-interfaces trunk 7 dot1ad 10 inner-dot1q 20 exact-match
set interface mtu packet 1300 trunk.7
create sub-interfaces trunk 8 dot1q 300
create sub-interfaces trunk 9 default
set interface state trunk.9 up
create sub-interfaces trunk 10 untagged
create sub-interfaces trunk 11 dot1ad any inner-dot1q any
";
    assert!(config.contains(expected), "{config}");
    let wanted = format!("create null interface name trunk\ncreate null interface name e1\n{config}");
    let statements = config::parse_config(&mut bed.router, "file", &wanted).unwrap();
    let lines: String = statements.iter().map(|statement| format!("{}\n", statement.line)).collect();
    assert!(lines.contains(expected), "{lines}");
}

#[test]
fn thousands_are_made_without_a_pile_of_old_tables() {
    let (mut bed, trunk, plain) = bed();
    let began = bed.router.graph.domain().pending();
    let made = bed.command("create sub-interfaces e0 1-4094").unwrap();
    assert_eq!(made.lines().count(), 4094);
    bed.run();
    assert!(bed.router.graph.domain().pending() <= began + 2);
    for vid in [1, 2000, 4094] {
        bed.command(&format!("set interface state e0.{vid} up")).unwrap();
        let frame = Packet::udp("10.9.0.2", "10.0.1.2", b"data").frame(trunk.mac, host_mac(ip("10.9.0.2")));
        bed.run();
        trunk.receive(tagged(&frame, &[(Q, vid)]));
        bed.run();
        assert_eq!(counters(&bed, index(&bed, &format!("e0.{vid}")))[0], 1);
    }
    plain.sent();
    bed.command("delete interface e0").unwrap();
    bed.advance(Duration::from_millis(1));
    assert_eq!(bed.router.interfaces.iter().count(), 1);
}

#[test]
fn extra_addresses_of_the_parent_are_taken_whatever_else_is_in_the_vector() {
    let (mut bed, trunk, plain) = bed();
    addressed(&mut bed, &trunk, "100");
    bed.command("create sub-interfaces e0 200").unwrap();
    bed.command("set interface state e0.200 up").unwrap();
    bed.command("set interface ip address e0.200 10.8.0.1/24").unwrap();
    bed.command("set interface mac address e0.200 02:00:00:00:02:00").unwrap();
    bed.command("set interface secondary-mac-address e0 00:00:5e:00:01:07").unwrap();
    bed.run();
    trunk.sent();
    let extra: MacAddress = "00:00:5e:00:01:07".parse().unwrap();
    let own: MacAddress = "02:00:00:00:02:00".parse().unwrap();
    let receive = |vid: u16, to: MacAddress| {
        let packet = Packet::udp(if vid == 100 { "10.9.0.2" } else { "10.8.0.2" }, "10.0.1.2", b"data");
        trunk.receive(tagged(&packet.frame(to, host_mac(packet.source)), &[(Q, vid)]));
    };
    for n in 0..40u16 {
        receive([100, 200][n as usize % 2], extra);
        if n % 3 == 0 {
            receive(200, own);
        }
        // Frames to another station are accepted in neither VLAN.
        if n % 5 == 0 {
            receive([200, 100][n as usize % 2], host_mac(ip("1.2.3.4")));
        }
    }
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, error("ethernet-input", "l3 mac mismatch", 8));
    assert_eq!(plain.sent().len(), 40 + 14);
}
