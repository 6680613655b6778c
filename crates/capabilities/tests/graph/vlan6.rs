//! IPv6 on sub-interfaces: packets that are received, forwarded and sent by the router carry their tags.

use crate::bed::{Arrival, Bed, Port};
use crate::bed6::mac_of;
use crate::packet::checksum;
use crate::packet6::*;
use crate::vlan::{STATIONS, index, tagged};
use graph::buffer::{Offload, Segmentation};
use graph::{InterfaceIndex, flag};
use router::neighbour::NeighbourKey;
use std::time::Duration;
use wire::MacAddress;

/// The address of the sub-interface, and that of a host behind it.
const OURS: &str = "2001:db8:9::1";
const LINK_LOCAL: &str = "fe80::ff:fe00:1000";
const HOST: &str = "2001:db8:9::2";
const HOST_MAC: MacAddress = MacAddress([2, 0xbb, 0, 0, 0, 1]);

fn say(bed: &mut Bed, line: &str) {
    bed.command(line).unwrap_or_else(|error| panic!("{line}: {error}"));
    bed.run();
}

/// A trunk with a sub-interface that is up without an address, and an ordinary port with a host behind it.
fn trunk(command: &str) -> (Bed, Port, Port, String) {
    let mut bed = Bed::new();
    let (trunk, plain) = (bed.port("e0", &[]), bed.port("e1", &[]));
    let name = bed.command(&format!("create sub-interfaces e0 {command}")).unwrap().trim().to_string();
    say(&mut bed, &format!("set interface state {name} up"));
    (bed, trunk, plain, name)
}

/// The same with addresses in use, after all announcements.
fn addressed(command: &str) -> (Bed, Port, Port, InterfaceIndex) {
    let (mut bed, trunk, plain, name) = trunk(command);
    say(&mut bed, "set ip6 dad transmits 0");
    say(&mut bed, &format!("set interface ip address {name} {OURS}/64"));
    say(&mut bed, "set interface ip address e1 2001:db8:1::1/64");
    bed.router.set_neighbour(NeighbourKey::new(plain.index, ip6("2001:db8:1::2")), mac_of(1), true).unwrap();
    bed.advance(Duration::from_secs(1));
    trunk.sent();
    plain.sent();
    let sub = index(&bed, &name);
    (bed, trunk, plain, sub)
}

#[test]
fn packets_come_and_go_with_the_tags() {
    for (command, tags) in STATIONS {
        let (mut bed, trunk, plain, sub) = addressed(command);
        bed.router.set_neighbour(NeighbourKey::new(sub, ip6(HOST)), HOST_MAC, true).unwrap();
        bed.run();
        let packet = Packet6::udp(HOST, "2001:db8:1::2", b"in");
        // With a priority, which is not forwarded; and many packets, so that they use the kernels.
        let with_priority: Vec<(u16, u16)> = tags.iter().map(|(tpid, vid)| (*tpid, 0xb000 | vid)).collect();
        for count in [1, 100] {
            for _ in 0..count {
                trunk.receive(tagged(&packet.frame(trunk.mac, HOST_MAC), &with_priority));
            }
            bed.run();
            let expected = packet.clone().hops(63).frame(mac_of(1), plain.mac);
            assert_eq!(plain.sent(), vec![expected; count], "{command}");
            let back = Packet6::udp("2001:db8:1::2", HOST, &[7; 100]);
            (0..count).for_each(|_| plain.receive(back.frame(plain.mac, mac_of(1))));
            bed.run();
            let expected = tagged(&back.hops(63).frame(HOST_MAC, trunk.mac), tags);
            assert_eq!(trunk.sent(), vec![expected; count], "{command}");
        }
        assert_eq!(bed.router.counters.ip6.sum(sub.0 as usize, 0), 101, "{command}");
        assert_eq!(bed.router.counters.ip6.sum(trunk.index.0 as usize, 0), 0, "{command}");
    }
}

#[test]
fn discovery_and_icmp_speak_through_the_tags() {
    for (command, tags) in STATIONS {
        let (mut bed, trunk, plain, sub) = addressed(command);
        let receive = |packet: &Packet6| trunk.receive(tagged(&packet.frame(trunk.mac, HOST_MAC), tags));
        let sent = |packet: Packet6| tagged(&packet.frame(HOST_MAC, trunk.mac), tags);
        // A solicitation for our address: the router answers and learns the sender.
        let question = [&ip6(OURS).octets()[..], &link_option(1, HOST_MAC)].concat();
        receive(&Packet6::discovery(HOST, &solicited_group(OURS), 135, 0, &question));
        bed.run();
        let answer = [&ip6(OURS).octets()[..], &link_option(2, trunk.mac)].concat();
        assert_eq!(trunk.sent(), [sent(Packet6::discovery(OURS, HOST, 136, 0xe000_0000, &answer))], "{command}");
        assert_eq!(bed.router.neighbours.mac_of(&NeighbourKey::new(sub, ip6(HOST))), Some(HOST_MAC), "{command}");
        // Echo requests to both our addresses, and a packet whose hop limit ends.
        receive(&Packet6::echo_request(HOST, OURS, b"hello"));
        bed.run();
        let reply = |from: &str, to: &str| Packet6::icmp(from, to, (129, 0), 0x0042_0007, b"hello");
        assert_eq!(trunk.sent(), [sent(reply(OURS, HOST))], "{command}");
        let question = [&ip6(LINK_LOCAL).octets()[..], &link_option(1, HOST_MAC)].concat();
        receive(&Packet6::discovery("fe80::2", &solicited_group(LINK_LOCAL), 135, 0, &question));
        receive(&Packet6::echo_request("fe80::2", LINK_LOCAL, b"hello"));
        bed.run();
        assert_eq!(trunk.sent().last(), Some(&sent(reply(LINK_LOCAL, "fe80::2"))), "{command}");
        let late = Packet6::udp(HOST, "2001:db8:1::2", b"late").hops(1);
        receive(&late);
        bed.run();
        assert_eq!(trunk.sent(), [sent(Packet6::icmp(OURS, HOST, (3, 0), 0, &late.bytes()))], "{command}");
        assert_eq!(plain.sent().len(), 0, "{command}");
    }
}

#[test]
fn unknown_neighbours_are_asked_for_with_the_tags() {
    for (command, tags) in STATIONS {
        let (mut bed, trunk, plain, _) = addressed(command);
        let waiting = Packet6::udp("2001:db8:1::2", HOST, b"who");
        plain.receive(waiting.frame(plain.mac, mac_of(1)));
        bed.run();
        let question = [&ip6(HOST).octets()[..], &link_option(1, trunk.mac)].concat();
        let question = Packet6::discovery(OURS, &solicited_group(HOST), 135, 0, &question);
        let group = MacAddress([0x33, 0x33, 0xff, 0, 0, 2]);
        assert_eq!(trunk.sent(), [tagged(&question.frame(group, trunk.mac), tags)], "{command}");
        let answer = [&ip6(HOST).octets()[..], &link_option(2, HOST_MAC)].concat();
        let answer = Packet6::discovery(HOST, OURS, 136, 0x6000_0000, &answer);
        trunk.receive(tagged(&answer.frame(trunk.mac, HOST_MAC), tags));
        bed.run();
        assert_eq!(trunk.sent(), [tagged(&waiting.hops(63).frame(HOST_MAC, trunk.mac), tags)], "{command}");
    }
}

/// The frames that the router sent on the trunk. All must have these tags, which are removed.
fn said(trunk: &Port, tags: &[(u16, u16)]) -> Vec<Vec<u8>> {
    let untag = |frame: Vec<u8>| {
        let bare = [&frame[..12], &frame[12 + 4 * tags.len()..]].concat();
        assert_eq!(frame, tagged(&bare, tags));
        assert_eq!((&bare[6..12], &bare[12..14]), (&trunk.mac.0[..], &[0x86, 0xdd][..]), "{bare:x?}");
        bare
    };
    trunk.sent().into_iter().map(untag).collect()
}

#[test]
fn addresses_are_asked_for_and_groups_reported_with_the_tags() {
    for (command, tags) in STATIONS {
        let (mut bed, trunk, _plain, name) = trunk(command);
        trunk.sent();
        say(&mut bed, &format!("set interface ip address {name} {OURS}/64"));
        let first = said(&trunk, tags);
        // A probe for each address to its group, with a nonce that the test does not know.
        for address in [LINK_LOCAL, OURS] {
            let group = solicited_group(address);
            let [.., a, b, c] = ip6(&group).octets();
            let is_probe =
                |frame: &&Vec<u8>| frame[20] == ICMP6 && frame[54] == 135 && frame[62..78] == ip6(address).octets();
            let probe = first.iter().find(is_probe).unwrap_or_else(|| panic!("{command}: {address}: {first:x?}"));
            let data = [&ip6(address).octets()[..], &probe[78..]].concat();
            let expected = Packet6::discovery("::", &group, 135, 0, &data);
            assert_eq!(probe, &expected.frame(MacAddress([0x33, 0x33, 0xff, a, b, c]), trunk.mac), "{command}");
        }
        let is_report = |frame: &Vec<u8>| frame[20] == HOP_BY_HOP && frame[62] == 143;
        // A router without a usable address sends reports, too (RFC 3810 5.2.13).
        let nobody = [0; 16];
        assert!(first.iter().any(|frame| is_report(frame) && frame[22..38] == nobody), "{command}: {first:x?}");
        bed.advance(Duration::from_millis(1001));
        assert!(!bed.command(&format!("show ip6 interface {name}")).unwrap().contains("tentative"), "{command}");
        let then = said(&trunk, tags);
        let announced = |address: &str| {
            let is = |frame: &Vec<u8>| frame[20] == ICMP6 && frame[54] == 136 && frame[62..78] == ip6(address).octets();
            then.iter().any(is)
        };
        assert!(announced(LINK_LOCAL) && announced(OURS), "{command}: {then:x?}");
        let to_all = ip6("ff02::16").octets();
        let of_ours = |frame: &Vec<u8>| frame[22..38] == ip6(LINK_LOCAL).octets() && frame[38..54] == to_all;
        assert!(then.iter().any(|frame| is_report(frame) && of_ours(frame)), "{command}: {then:x?}");
    }
}

#[test]
fn hosts_are_told_of_the_router_with_the_tags() {
    for (command, tags) in STATIONS {
        let (mut bed, trunk, plain, sub) = addressed(command);
        let name = bed.router.interfaces.get(sub).unwrap().name.clone();
        let times = [2_592_000u32.to_be_bytes(), 604_800u32.to_be_bytes(), [0; 4]].concat();
        let prefix = [&[3, 4, 64, 0xc0][..], &times, &ip6("2001:db8:9::").octets()].concat();
        let options = [&[0; 8][..], &link_option(1, trunk.mac), &[5, 1, 0, 0, 0, 0, 5, 220], &prefix].concat();
        let told = Packet6::discovery(LINK_LOCAL, "ff02::1", 134, u32::from_be_bytes([64, 0, 2, 88]), &options);
        let told = told.frame(MacAddress([0x33, 0x33, 0, 0, 0, 1]), trunk.mac);
        say(&mut bed, &format!("ip6 nd {name} no ra-suppress"));
        assert_eq!(said(&trunk, tags), std::slice::from_ref(&told), "{command}");
        (0..5).for_each(|_| bed.advance(Duration::from_secs(16)));
        said(&trunk, tags);
        // A solicitation is answered, too.
        let asks = Packet6::discovery("fe80::2", "ff02::2", 133, 0, &link_option(1, HOST_MAC));
        trunk.receive(tagged(&asks.frame(MacAddress([0x33, 0x33, 0, 0, 0, 2]), HOST_MAC), tags));
        bed.run();
        bed.advance(Duration::from_millis(501));
        assert_eq!(said(&trunk, tags), [told], "{command}");
        assert_eq!(plain.sent().len(), 0, "{command}");
    }
}

#[test]
fn long_segments_are_cut_behind_the_tags() {
    let data: Vec<u8> = (0..1900).map(|n| (n * 7) as u8).collect();
    for (command, tags) in STATIONS {
        let (mut bed, trunk, plain, sub) = addressed(command);
        bed.router.set_neighbour(NeighbourKey::new(sub, ip6(HOST)), HOST_MAC, true).unwrap();
        let to_be_cut = |packet: &Packet6, frame: Vec<u8>| {
            let mut arrival = Arrival::from(frame);
            let at = arrival.frame.len() - packet.payload.len() + 16;
            let sum = !checksum(&packet.pseudo_header());
            arrival.frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
            arrival.flags = flag::SEGMENTED | flag::PARTIAL_CHECKSUM;
            arrival.offload = Offload {
                checksum_start: 40,
                checksum_offset: 16,
                segment_size: 800,
                header_length: 60,
                kind: Segmentation::Tcp6,
            };
            arrival
        };
        let pieces = |from: &str, to: &str| {
            let piece = |at: usize| Packet6::tcp(from, to, 5 + at as u32, &data[at..data.len().min(at + 800)]).hops(63);
            [0, 800, 1600].map(piece)
        };
        let out = Packet6::tcp("2001:db8:1::2", HOST, 5, &data);
        plain.receive(to_be_cut(&out, out.frame(plain.mac, mac_of(1))));
        let back = Packet6::tcp(HOST, "2001:db8:1::2", 5, &data);
        trunk.receive(to_be_cut(&back, tagged(&back.frame(trunk.mac, HOST_MAC), tags)));
        bed.run();
        let expected = pieces("2001:db8:1::2", HOST).map(|piece| tagged(&piece.frame(HOST_MAC, trunk.mac), tags));
        assert_eq!(trunk.sent(), expected, "{command}");
        assert_eq!(
            plain.sent(),
            pieces(HOST, "2001:db8:1::2").map(|piece| piece.frame(mac_of(1), plain.mac)),
            "{command}"
        );
        assert_eq!(bed.buffers_in_use(), 0, "{command}");
    }
}
