//! Packets of IPv6 for [`crate::hostile`]: sound ones of every kind that the router looks into, spoilt ones whose
//! lengths and checksums are right all the same, and what must be true of all that leaves.

use crate::bed::{Bed, Port};
use crate::packet::{Random, checksum};
use crate::packet6::*;
use router::neighbour::NeighbourKey;
use std::net::Ipv6Addr;
use wire::MacAddress;

const ROUTES: &[&str] = &[
    "ip route add 2001:db8:20::/48 via drop",
    "ip route add 2001:db8:21::/48 via punt",
    "ip route add 2001:db8:22::/48 via unreachable",
    "ip route add 2001:db8:23::/48 via prohibit",
    "ip route add 2001:db8:24::/48 via 2001:db8:2::2 via 2001:db8:3::2 via 2001:db8:4::9",
    "ip6 table add 9",
    "ip route add 2001:db8:25::/48 via ip6-lookup-in-table 9",
    "ip route add table 9 2001:db8:25::/49 via ip6-lookup-in-table 0",
    "ip route add table 9 2001:db8:25:8000::/49 via 2001:db8:3::2 e3",
    "ip route add ::/0 via 2001:db8:4::2",
    "set ip6 route counters 2001:db8:24::/48 enable",
    "set urpf ip6 strict e3",
    "set urpf ip6 loose e4 allow-default",
    "set interface mtu ip6 1280 e2",
    "set interface ip6 redirects e0 enable",
    "set ip6 mld querier e2 enable",
    "ip6 nd e0 no ra-suppress",
];

/// Has ports speak IPv6, `2001:db8:N::1/64` each, but for e1, whose packets are too short for that.
pub fn speak(bed: &mut Bed, ports: &[Port]) {
    bed.command("set ip6 dad transmits 0").unwrap();
    for number in [0, 2, 3, 4] {
        bed.command(&format!("set interface ip address e{number} 2001:db8:{number}::1/64")).unwrap();
        let host = NeighbourKey::new(ports[number].index, ip6(&format!("2001:db8:{number}::2")));
        bed.router.set_neighbour(host, MacAddress([2, 0xaa, 0, 0, number as u8, 2]), true).unwrap();
    }
    ROUTES.iter().for_each(|line| drop(bed.command(line).unwrap_or_else(|error| panic!("{line}: {error}"))));
}

fn link_local(port: &Port) -> Ipv6Addr {
    wire::nd::link_local(port.mac)
}

fn any_address(random: &mut Random) -> String {
    Ipv6Addr::from(u128::from(random.next()) << 64 | u128::from(random.next())).to_string()
}

/// Hosts, known and not; ours; groups; networks that routes lead to.
fn destination(random: &mut Random, port: &Port) -> String {
    let (number, host) = (random.below(5), random.below(6));
    match random.below(10) {
        0 => any_address(random),
        1 => link_local(port).to_string(),
        2 => random
            .of(&["ff02::1", "ff02::2", "ff02::16", "ff05::2", "ff02::1:ff00:1", "ff0e::7", "ff01::1"])
            .to_string(),
        3 => format!("2001:db8:{:x}::{host}", 0x20 + random.below(6)),
        4..=6 => format!("2001:db8:{}::1", port.mac.0[5]),
        _ => format!("2001:db8:{number}::{host}"),
    }
}

/// Options of Neighbor Discovery: of any kind, sound ones and others.
fn discovery_options(random: &mut Random, port: &Port) -> Vec<u8> {
    let mut options = Vec::new();
    while random.one_in(2) {
        let mac = MacAddress([2, 0xaa, 0, 0, random.next() as u8, 2]);
        options.extend(match random.below(6) {
            0 => link_option(2, if random.one_in(4) { port.mac } else { mac }),
            1 => [&[3, 4, 64, 0xc0][..], &random.bytes(28)].concat(),
            2 => {
                let units = random.below(4);
                [vec![random.next() as u8, units as u8], random.bytes((8 * units).max(2) - 2)].concat()
            }
            3 => [&[14, 1][..], &random.bytes(6)].concat(),
            _ => link_option(1, mac),
        });
    }
    options
}

fn discovery(random: &mut Random, port: &Port, source: &str) -> Packet6 {
    let options = discovery_options(random, port);
    let ours = [link_local(port).to_string(), format!("2001:db8:{}::1", port.mac.0[5])];
    let target = if random.one_in(3) { destination(random, port) } else { random.of(&ours).clone() };
    let target_octets = ip6(&target).octets();
    let to = match random.below(4) {
        0 => destination(random, port),
        1 => "ff02::1".to_string(),
        2 => ours[0].clone(),
        _ => solicited_group(&target),
    };
    let (kind, data) = match random.below(6) {
        0 => (133, options),
        1 => (134, [&random.bytes(8), &options[..]].concat()),
        2 => (136, [&target_octets[..], &options].concat()),
        3 => (137, [&target_octets[..], &ip6(&to).octets(), &options].concat()),
        _ => (135, [&target_octets[..], &options].concat()),
    };
    let to = if kind == 133 { "ff02::2" } else { &to };
    Packet6::discovery(source, to, kind, random.next() as u32, &data)
}

fn listeners(random: &mut Random, source: &str) -> Packet6 {
    let group = *random.of(&["ff02::1:ff00:1", "ff02::16", "ff05::2", "::", "ff0e::7"]);
    let group = ip6(group).octets();
    let (kind, to, rest, data) = match random.below(5) {
        0 => (130, "ff02::1", random.next() as u32 & 0xffff_0000, group.to_vec()),
        1 => (130, "ff02::1", 0x0010_0000, [&group[..], &[2, 125, 0, 0]].concat()),
        2 => (131, "ff02::16", 0, group.to_vec()),
        3 => (132, "ff02::2", 0, group.to_vec()),
        _ => {
            let records = random.below(4) as u32;
            let record = [&[random.next() as u8, 0, 0, 0][..], &group].concat();
            (143, "ff02::16", records, record.repeat(random.below(4)))
        }
    };
    let packet = Packet6::icmp(source, to, (kind, 0), rest, &data).hops(1);
    if random.one_in(10) { packet } else { packet.extension(HOP_BY_HOP, &[5, 2, 0, 0, 1, 0]) }
}

/// Headers between the IPv6 header and what it carries, in order or not.
fn with_extensions(random: &mut Random, mut packet: Packet6) -> Packet6 {
    let most = if random.one_in(10) { 10 } else { 3 };
    for _ in 0..1 + random.below(most) {
        let kind = *random.of(&[HOP_BY_HOP, OPTIONS, OPTIONS, ROUTING, FRAGMENT, 51, 135, 139, 140, 50]);
        packet = match kind {
            FRAGMENT => any_fragment(random, packet),
            // Its length is counted in words.
            51 => {
                let words = 2 + 2 * random.below(3);
                let body = random.bytes(words * 4 - 2 + 4);
                packet.extensions.push((51, [&[0, words as u8 - 1][..], &body[..words * 4 + 2]].concat()));
                packet
            }
            _ => {
                let length = 6 + 8 * random.below(4);
                let body = match random.below(3) {
                    0 => random.bytes(length),
                    1 => [&[*random.of(&[5, 0x1e, 0x5e, 0x9e, 0xde, 0xc2]), 4][..], &[0; 4], &padding(length - 6)]
                        .concat(),
                    _ => padding(length),
                };
                packet.extension(kind, &body)
            }
        };
    }
    packet
}

/// So many bytes of options that ask for nothing.
fn padding(length: usize) -> Vec<u8> {
    match length {
        0 => Vec::new(),
        _ => [&[1, length as u8 - 2][..], &vec![0; length - 2]].concat(),
    }
}

/// A piece of few datagrams, so that some become whole.
fn any_fragment(random: &mut Random, packet: Packet6) -> Packet6 {
    let (offset, more) = match random.below(4) {
        0 => (random.next() as u16, random.one_in(2)),
        1 => (0, random.one_in(4)),
        _ => (16 * random.below(4) as u16, random.one_in(2)),
    };
    packet.fragment(offset & !7, more, random.below(3) as u32)
}

/// One of three fragments of an echo request that are whole together.
fn third(random: &mut Random, port: &Port) -> Packet6 {
    let number = port.mac.0[5];
    let (source, ours) = (format!("2001:db8:{number}::2"), format!("2001:db8:{number}::1"));
    let whole = Packet6::echo_request(&source, &ours, &[7; 40]);
    let part = random.below(3);
    let bytes = &whole.payload[16 * part..16 * (part + 1)];
    Packet6::new(&source, &ours, ICMP6, bytes).fragment(16 * part as u16, part < 2, random.below(8) as u32)
}

/// A frame in good faith, more or less.
pub fn sound(random: &mut Random, port: &Port) -> Vec<u8> {
    let number = port.mac.0[5];
    let source = match random.below(10) {
        0 => any_address(random),
        1 => "::".to_string(),
        2 => random.of(&["::1", "::ffff:10.0.0.1", "ff02::1", "0:0:1::1"]).to_string(),
        3 | 4 => format!("fe80::{}", 2 + random.below(4)),
        _ => format!("2001:db8:{number}::{}", 2 + random.below(4)),
    };
    let to = destination(random, port);
    let length = if random.one_in(3) { 16 } else { random.below(1300) };
    let data = random.bytes(length);
    let mut packet = match random.below(10) {
        0 | 1 => discovery(random, port, &source),
        2 => listeners(random, &source),
        3 | 4 => Packet6::echo_request(&source, &to, &data),
        5 => {
            let kind = random.next() as u8 % 6;
            Packet6::icmp(&source, &to, (kind, random.below(4) as u8), random.next() as u32, &data)
        }
        6 => Packet6::tcp(&source, &to, random.next() as u32, &data),
        7 => Packet6::new(&source, &to, random.next() as u8, &data),
        _ => Packet6::udp(&source, &to, &data),
    };
    if random.one_in(6) {
        packet.hops = random.below(3) as u8;
    }
    if random.one_in(3) {
        packet = with_extensions(random, packet);
    } else if random.one_in(12) {
        packet = third(random, port);
    }
    packet.label = random.next() as u32 & 0xf_ffff;
    let to = match packet.destination.octets() {
        [0xff, .., a, b, c, d] if !random.one_in(10) => MacAddress([0x33, 0x33, a, b, c, d]),
        _ => port.mac,
    };
    let mut frame = packet.frame(to, MacAddress([2, 0xaa, 0, 0, number, 2]));
    if frame.len() < 60 && random.one_in(2) {
        frame.resize(60, 0);
    }
    frame
}

/// Makes lengths and checksums right that a packet's damage made wrong, or some of them, so that the rest of it gets
/// further.
pub fn seal(random: &mut Random, frame: &mut [u8]) {
    let Some(packet) = frame.get_mut(14..).filter(|packet| packet.len() >= 40) else { return };
    if !random.one_in(4) {
        let length = packet.len() - 40;
        packet[4..6].copy_from_slice(&(length as u16).to_be_bytes());
    }
    if random.one_in(4) {
        return;
    }
    let (mut kind, mut at) = (packet[6], 40);
    while [HOP_BY_HOP, ROUTING, OPTIONS].contains(&kind) {
        let Some(header) = packet.get(at..at + 2) else { return };
        (kind, at) = (header[0], at + 8 + 8 * usize::from(header[1]));
    }
    let end = 40 + usize::from(u16::from_be_bytes([packet[4], packet[5]]));
    if kind == ICMP6 && at + 4 <= end && end <= packet.len() {
        packet[at + 2..at + 4].fill(0);
        let sum = icmp_sum(&packet[8..40], &packet[at..end]);
        packet[at + 2..at + 4].copy_from_slice(&sum.to_be_bytes());
    }
}

fn icmp_sum(addresses: &[u8], message: &[u8]) -> u16 {
    let length = (message.len() as u32).to_be_bytes();
    checksum(&[addresses, &length, &[0, 0, 0, ICMP6], message].concat())
}

/// What must be true of a packet that a port sent. Whether it is a message of the router's, whose checksum was looked
/// at.
pub fn check_sent(port: &Port, packet: &[u8]) -> bool {
    assert!(packet.len() >= 40 && packet[0] >> 4 == 6, "{packet:x?}");
    // What is behind the end of a long packet goes along.
    assert!(40 + usize::from(u16::from_be_bytes([packet[4], packet[5]])) <= packet.len(), "its length");
    assert!(packet[7] > 0, "a packet without a hop left was sent");
    let address = |at: usize| Ipv6Addr::from(*packet[at..].first_chunk::<16>().unwrap());
    let (source, destination) = (address(8), address(24));
    assert!(!source.is_multicast() && !source.is_loopback(), "from {source}");
    assert!(!destination.is_loopback() && !destination.is_unspecified(), "to {destination}");
    let is_ours = source == link_local(port);
    assert!(is_ours || !source.is_unicast_link_local(), "from another link: {source}");
    assert!(
        is_ours || !destination.is_unicast_link_local() || source.octets()[15] == 1,
        "to another link: {packet:x?}"
    );
    assert!(
        is_ours || !destination.is_multicast() || source.is_unspecified() || source.octets()[15] == 1,
        "{source} to {destination}"
    );
    if is_ours && packet[6] == ICMP6 {
        assert_eq!(icmp_sum(&packet[8..40], &packet[40..]), 0, "{packet:x?}");
    }
    is_ours && packet[6] == ICMP6
}
