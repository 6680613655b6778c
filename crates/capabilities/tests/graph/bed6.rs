//! The fixture of IPv6 tests: a router with three ports, its neighbours, and their packets.

use crate::bed::{Bed, Port};
use crate::packet::ethernet;
use crate::packet6::*;
use router::neighbour::NeighbourKey;
use std::time::Duration;
use wire::MacAddress;

pub const STRANGER: MacAddress = MacAddress([2, 0xbb, 0, 0, 0, 1]);

/// The Ethernet address of a host that the bed knows.
pub fn mac_of(port: usize) -> MacAddress {
    MacAddress([2, 0xaa, 0, 0, port as u8, 2])
}

/// A router with ports e0 to e2, `2001:db8:N::1/64` each, that know the host `2001:db8:N::2`, and the routes that tests
/// use.
pub fn bed() -> (Bed, [Port; 3]) {
    bed_of(Bed::new())
}

/// The same, made of an empty bed.
pub fn bed_of(mut bed: Bed) -> (Bed, [Port; 3]) {
    bed.command("set ip6 dad transmits 0").unwrap();
    let ports = [0, 1, 2].map(|number| {
        let port = bed.port(&format!("e{number}"), &[]);
        bed.command(&format!("set interface ip address e{number} 2001:db8:{number}::1/64")).unwrap();
        let key = NeighbourKey::new(port.index, ip6(&format!("2001:db8:{number}::2")));
        bed.router.set_neighbour(key, mac_of(number), true).unwrap();
        port
    });
    for line in [
        "ip route add 2001:db8:20::/48 via drop",
        "ip route add 2001:db8:21::/48 via punt",
        "ip route add 2001:db8:22::/48 via unreachable",
        "ip route add 2001:db8:23::/48 via prohibit",
        "ip route add 2001:db8:24::/48 via 2001:db8:1::2",
    ] {
        bed.command(line).unwrap();
    }
    bed.run();
    // Until advertisements and group reports have been repeated.
    bed.advance(Duration::from_secs(1));
    ports.iter().for_each(|port| drop(port.sent()));
    (bed, ports)
}

pub fn udp(to: &str) -> Packet6 {
    Packet6::udp("2001:db8::2", to, b"data")
}

/// A datagram from the neighbour of e0.
pub fn from_e0(to: &str) -> Packet6 {
    Packet6::udp("2001:db8:0::2", to, b"data")
}

pub fn send(ports: &[Port; 3], packet: &Packet6) {
    ports[0].receive(packet.frame(ports[0].mac, mac_of(0)));
}

/// Sends a frame to e0 after `spoil` has changed it.
pub fn spoilt(ports: &[Port; 3], packet: Packet6, spoil: impl FnOnce(&mut Vec<u8>)) {
    let mut frame = packet.frame(ports[0].mac, mac_of(0));
    spoil(&mut frame);
    ports[0].receive(frame);
}

/// The frames that were sent, without Ethernet headers.
pub fn packets(port: &Port) -> Vec<Vec<u8>> {
    port.sent().into_iter().map(|frame| frame[14..].to_vec()).collect()
}

/// A message of Neighbor Discovery from a station on e0's wire.
pub fn discover(ports: &[Port; 3], from: MacAddress, packet: &Packet6) {
    ports[0].receive(packet.frame(ports[0].mac, from));
}

/// A host with these options asks for the router's address.
pub fn solicitation(source: &str, target: &str, options: &[u8]) -> Packet6 {
    let data = [&ip6(target).octets()[..], options].concat();
    Packet6::discovery(source, &solicited_group(target), 135, 0, &data)
}

pub const SOLICITED: u32 = 0x4000_0000;
pub const OVERRIDE: u32 = 0x2000_0000;

/// A host says that it has an address.
pub fn advertisement(destination: &str, target: &str, flags: u32, options: &[u8]) -> Packet6 {
    let data = [&ip6(target).octets()[..], options].concat();
    Packet6::discovery(target, destination, 136, flags, &data)
}

/// An address on e0's network that the router does not know.
pub const UNKNOWN: &str = "2001:db8::77";
pub const OURS: &str = "2001:db8::1";
/// e0's link-local address.
pub const LINK_LOCAL: &str = "fe80::ff:fe00:1000";

/// Padding options of this length in total.
pub fn padding(length: u8) -> Vec<u8> {
    [&[1, length - 2][..], &vec![0; usize::from(length) - 2]].concat()
}

/// The error that e0's neighbour receives about its packet: type, code, the word behind the checksum, and the quote.
pub fn told(bed: &mut Bed, ports: &[Port; 3], packet: &Packet6) -> (u8, u8, u32, Vec<u8>) {
    send(ports, packet);
    bed.run();
    let sent = ports[0].sent();
    let [frame] = &sent[..] else { panic!("{} frames were sent: {sent:x?}", sent.len()) };
    assert_eq!(frame[..14], ethernet(mac_of(0), ports[0].mac, 0x86dd, &[])[..]);
    let ip = &frame[14..];
    assert_eq!((ip[0] >> 4, ip[6], ip[7]), (6, ICMP6, 64));
    let length = u16::from_be_bytes([ip[4], ip[5]]) as usize;
    assert_eq!(ip.len(), 40 + length);
    assert!(ip.len() <= 1280, "RFC 4443 2.4 (c)");
    assert_eq!(ip[24..40], packet.source.octets());
    let source = std::net::Ipv6Addr::from(*ip[8..].first_chunk::<16>().unwrap());
    let message = Packet6::new(&source.to_string(), &packet.source.to_string(), ICMP6, &ip[40..]);
    assert_eq!(message.clone().sealed_at(2).payload, message.payload, "the checksum");
    let rest = u32::from_be_bytes(*ip[44..].first_chunk().unwrap());
    (ip[40], ip[41], rest, ip[48..].to_vec())
}
