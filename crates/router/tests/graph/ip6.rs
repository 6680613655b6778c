//! IPv6: exact packets in, exact packets and counters out; and every way in which a packet can end, by name.

use crate::bed::{Arrival, Bed, Port, error};
use crate::packet::{Random, TCP, UDP, ethernet};
use crate::packet6::*;
use graph::Severity;
use quiver_router::neighbour::NeighbourKey;
use std::time::Duration;
use wire::MacAddress;

pub const STRANGER: MacAddress = MacAddress([2, 0xbb, 0, 0, 0, 1]);

/// The Ethernet address of a host that the bed knows.
pub fn mac_of(port: usize) -> MacAddress {
    MacAddress([2, 0xaa, 0, 0, port as u8, 2])
}

/// A router with ports e0 to e2, `2001:db8:N::1/64` each, that know the host `2001:db8:N::2`, and routes for what is
/// wanted below.
pub fn bed() -> (Bed, [Port; 3]) {
    let mut bed = Bed::new();
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
    // Until what is said of addresses and groups was said once more.
    bed.advance(Duration::from_secs(1));
    ports.iter().for_each(|port| drop(port.sent()));
    (bed, ports)
}

pub fn udp(to: &str) -> Packet6 {
    Packet6::udp("2001:db8::2", to, b"data")
}

/// A datagram of a neighbour of e0's.
fn from_e0(to: &str) -> Packet6 {
    Packet6::udp("2001:db8:0::2", to, b"data")
}

pub fn send(ports: &[Port; 3], packet: &Packet6) {
    ports[0].receive(packet.frame(ports[0].mac, mac_of(0)));
}

/// A frame for e0, changed.
fn spoilt(ports: &[Port; 3], packet: Packet6, spoil: impl FnOnce(&mut Vec<u8>)) {
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

/// Who has the router's address? asks a host with that option.
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

type Act = fn(&mut Bed, &[Port; 3]);

/// An address on e0's network of which nothing is known.
pub const UNKNOWN: &str = "2001:db8::77";
pub const OURS: &str = "2001:db8::1";
/// What e0 calls itself on its link.
pub const LINK_LOCAL: &str = "fe80::ff:fe00:1000";

const CASES: &[(&str, &str, Act)] = &[
    ("ip6-input", "ip6 not enabled", |bed, _| {
        let port = bed.port("bare", &[]);
        port.receive(udp("2001:db8:1::2").frame(port.mac, STRANGER));
    }),
    ("ip6-input", "ip6 length < 40 bytes", |_, ports| spoilt(ports, udp("2001:db8:1::2"), |frame| frame.truncate(53))),
    ("ip6-input", "ip6 length < 40 bytes", |_, ports| {
        // The header goes on in another buffer.
        let frame = udp("2001:db8:1::2").frame(ports[0].mac, mac_of(0));
        let rest = frame.len() - 50;
        ports[0].receive(Arrival::from(frame).in_parts(&[50, rest]));
    }),
    ("ip6-input", "ip6 version != 6", |_, ports| spoilt(ports, udp("2001:db8:1::2"), |frame| frame[14] = 0x50)),
    ("ip6-input", "ip6 payload length > l2 length", |_, ports| {
        spoilt(ports, udp("2001:db8:1::2"), |frame| frame[19] += 1);
    }),
    ("ip6-input", "ip6 jumbograms are not supported", |_, ports| {
        let packet = udp("2001:db8:1::2").extension(HOP_BY_HOP, &[0xc2, 4, 0, 1, 0, 0]);
        spoilt(ports, packet, |frame| frame[18..20].fill(0));
    }),
    ("ip6-input", "ip6 source is a group", |_, ports| send(ports, &Packet6::udp("ff0e::1", "2001:db8:1::2", b""))),
    ("ip6-input", "ip6 source is the loopback address", |_, ports| {
        send(ports, &Packet6::udp("::1", "2001:db8:1::2", b""));
    }),
    ("ip6-input", "ip6 source unspecified", |_, ports| send(ports, &Packet6::udp("::", "2001:db8:1::2", b""))),
    ("ip6-input", "ip6 source unspecified", |_, ports| send(ports, &Packet6::udp("::", OURS, b""))),
    ("ip6-input", "ip6 source embeds an ip4 address", |_, ports| {
        send(ports, &Packet6::udp("::ffff:10.0.0.1", "2001:db8:1::2", b""));
    }),
    ("ip6-input", "ip6 source embeds an ip4 address", |_, ports| {
        send(ports, &Packet6::udp("::10.0.0.1", "2001:db8:1::2", b""));
    }),
    ("ip6-input", "ip6 destination unspecified", |_, ports| send(ports, &udp("::"))),
    ("ip6-input", "ip6 destination is the loopback address", |_, ports| send(ports, &udp("::1"))),
    ("ip6-input", "ip6 destination embeds an ip4 address", |_, ports| send(ports, &udp("::ffff:10.0.0.1"))),
    ("ip6-input", "ip6 group scope is of no link", |_, ports| send(ports, &udp("ff01::1"))),
    ("ip6-input", "ip6 group scope is of no link", |_, ports| send(ports, &udp("ff00::1"))),
    ("ip6-input", "ip6 multicast not routed", |_, ports| send(ports, &udp("ff0e::1"))),
    ("ip6-input", "ip6 multicast not routed", |_, ports| send(ports, &udp("ff02::5"))),
    ("ip6-input", "ip6 link-local destination is not ours", |_, ports| send(ports, &udp("fe80::5"))),
    ("ip6-rx-urpf", "uRPF drop (strict)", |bed, ports| {
        bed.command("set urpf ip6 strict e0").unwrap();
        send(ports, &Packet6::udp("2001:db8:2::2", "2001:db8:1::2", b""));
    }),
    ("ip6-rx-urpf", "uRPF drop (loose)", |bed, ports| {
        bed.command("set urpf ip6 loose e0").unwrap();
        send(ports, &Packet6::udp("2001:db8:99::2", "2001:db8:1::2", b""));
    }),
    ("ip6-lookup", "blackholed packets", |_, ports| send(ports, &udp("2001:db8:20::1"))),
    ("ip6-punt", "punted, but no host interface takes it", |_, ports| send(ports, &udp("2001:db8:21::1"))),
    ("ip6-load-balance", "blackholed packets", |bed, ports| {
        bed.command("ip route add 2001:db8:25::/48 via drop weight 255 via 2001:db8:1::2").unwrap();
        send(ports, &udp("2001:db8:25::1"));
    }),
    ("ip6-punt", "punted, but no host interface takes it", |bed, ports| {
        bed.command("ip route add 2001:db8:25::/48 via punt weight 255 via 2001:db8:1::2").unwrap();
        send(ports, &udp("2001:db8:25::1"));
    }),
    ("lookup-ip6-dst", "blackholed packets", |bed, ports| {
        leak(bed, "ip route add table 9 2001:db8:25::/48 via drop");
        send(ports, &udp("2001:db8:25::1"));
    }),
    ("ip6-punt", "punted, but no host interface takes it", |bed, ports| {
        leak(bed, "ip route add table 9 2001:db8:25::/48 via punt");
        send(ports, &udp("2001:db8:25::1"));
    }),
    ("lookup-ip6-dst", "too many tables in a row", |bed, ports| {
        leak(bed, "ip route add table 9 2001:db8:25::/48 via ip6-lookup-in-table 0");
        send(ports, &udp("2001:db8:25::1"));
    }),
    ("ip6-route-counters", "blackholed packets", |bed, ports| {
        bed.command("set ip6 route counters 2001:db8:20::/48 enable").unwrap();
        send(ports, &udp("2001:db8:20::1"));
    }),
    ("ip6-punt", "punted, but no host interface takes it", |bed, ports| {
        bed.command("set ip6 route counters 2001:db8:21::/48 enable").unwrap();
        send(ports, &udp("2001:db8:21::1"));
    }),
    ("ip6-rewrite", "group-addressed frame is not forwarded", |_, ports| {
        spoilt(ports, udp("2001:db8:1::2"), |frame| frame[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]));
    }),
    ("ip6-local", "ip6 spoofed local-address packet drops", |_, ports| {
        send(ports, &Packet6::udp("2001:db8:1::1", OURS, b""));
    }),
    ("ip6-local", "ip6 destination is a tentative address", |bed, ports| {
        // Also by another interface, and by the leaf that a route to it has.
        bed.command("set ip6 dad transmits 1").unwrap();
        bed.command("set interface ip address e1 2001:db8:1::99/64").unwrap();
        send(ports, &udp("2001:db8:1::99"));
    }),
    ("ip6-local", "ip6 source lookup miss", |_, ports| send(ports, &Packet6::udp("2001:db8:99::1", OURS, b""))),
    ("ip6-local", "ip6 extension header beyond the packet", |_, ports| {
        let mut packet = from_e0(OURS).extension(OPTIONS, &[1, 4, 0, 0, 0, 0]);
        packet.extensions[0].1[1] = 9;
        send(ports, &packet);
    }),
    ("ip6-local", "ip6 too many extension headers", |_, ports| {
        let packet = (0..9).fold(from_e0(OURS), |packet, _| packet.extension(OPTIONS, &[1, 4, 0, 0, 0, 0]));
        send(ports, &packet);
    }),
    ("ip6-local", "ip6 second fragment header", |_, ports| {
        send(ports, &from_e0(OURS).fragment(0, false, 1).fragment(0, true, 2));
    }),
    ("ip6-local", "ip6 option says discard", |_, ports| {
        send(ports, &from_e0(OURS).extension(OPTIONS, &[0x5e, 4, 0, 0, 0, 0]));
    }),
    ("ip6-local", "ip6 option says discard", |_, ports| {
        // To a group nobody tells of this one.
        send(ports, &from_e0("ff02::1").extension(OPTIONS, &[0xde, 4, 0, 0, 0, 0]));
    }),
    ("ip6-local-full-reassembly", "duplicate fragments", |_, ports| {
        (0..2).for_each(|_| send(ports, &Packet6::new("2001:db8::2", OURS, ICMP6, &[1; 8]).fragment(8, true, 1)));
    }),
    ("ip6-local-full-reassembly", "malformed packets", |_, ports| {
        send(ports, &Packet6::new("2001:db8::2", OURS, ICMP6, &[]).fragment(8, true, 1));
    }),
    ("ip6-local-full-reassembly", "malformed packets", |_, ports| {
        // Nobody could finish a checksum on a part.
        let packet = Packet6::new("2001:db8::2", OURS, ICMP6, &[1; 8]).fragment(8, true, 1);
        let mut arrival = Arrival::from(packet.frame(ports[0].mac, mac_of(0)));
        arrival.flags = graph::flag::PARTIAL_CHECKSUM;
        ports[0].receive(arrival);
    }),
    ("ip6-local-full-reassembly", "headers before the fragment header too long", |_, ports| {
        let packet = Packet6::new("2001:db8::2", OURS, ICMP6, &[1; 8]);
        send(ports, &packet.extension(HOP_BY_HOP, &padding(86)).fragment(8, true, 1));
    }),
    ("ip6-local", "ip6 no next header", |_, ports| {
        send(ports, &Packet6::new("2001:db8::2", OURS, NO_NEXT, &[]));
    }),
    ("ip6-punt", "punted packet came back from the host", |bed, ports| {
        bed.command("ip6 punt redirect add rx all via 2001:db8::2 e0").unwrap();
        send(ports, &udp("2001:db8:21::1"));
    }),
    ("ip6-punt", "punted packets limited by rate", |bed, ports| {
        bed.command("ip6 punt redirect add rx all via 2001:db8:1::2 e1").unwrap();
        bed.command("set ip6 punt rate 1").unwrap();
        bed.run();
        (0..2).for_each(|_| send(ports, &udp(OURS)));
    }),
    ("ip6-punt", "ICMPv6 message that asks for nothing", |_, ports| {
        send(ports, &Packet6::icmp("2001:db8::2", OURS, (129, 0), 0, b""));
    }),
    ("ip6-udp-lookup", "udp header truncated", |_, ports| {
        send(ports, &Packet6::new("2001:db8::2", OURS, UDP, &[0; 7]));
    }),
    ("ip6-udp-lookup", "udp header truncated", |_, ports| {
        // It is in the packet, but spread over two buffers.
        let frame = from_e0(OURS).extension(OPTIONS, &[1, 4, 0, 0, 0, 0]).frame(ports[0].mac, mac_of(0));
        let first = 14 + 40 + 8 + 4;
        let rest = frame.len() - first;
        ports[0].receive(Arrival::from(frame).in_parts(&[first, rest]));
    }),
    ("ip6-udp-lookup", "inconsistent udp/ip lengths", |_, ports| send(ports, &of_udp_length(7))),
    ("ip6-udp-lookup", "inconsistent udp/ip lengths", |_, ports| send(ports, &of_udp_length(13))),
    ("ip6-udp-lookup", "bad udp checksum", |_, ports| {
        let mut packet = from_e0(OURS);
        packet.payload[8] ^= 1;
        send(ports, &packet);
    }),
    ("ip6-udp-lookup", "udp checksum is zero", |_, ports| {
        let mut packet = from_e0(OURS);
        packet.payload[6..8].fill(0);
        send(ports, &packet);
    }),
    ("tcp6-reset", "inconsistent ip/tcp lengths", |_, ports| {
        send(ports, &Packet6::new("2001:db8::2", OURS, TCP, &[0; 19]));
    }),
    ("tcp6-reset", "inconsistent ip/tcp lengths", |_, ports| send(ports, &segment(OURS, |data| data[12] = 0x40))),
    ("tcp6-reset", "inconsistent ip/tcp lengths", |_, ports| send(ports, &segment(OURS, |data| data[12] = 0x70))),
    ("tcp6-reset", "bad tcp checksum", |_, ports| {
        let mut packet = segment(OURS, |_| {});
        packet.payload[7] ^= 1;
        send(ports, &packet);
    }),
    ("tcp6-reset", "no TCP reset about a reset", |_, ports| send(ports, &segment(OURS, |data| data[13] = 0x14))),
    ("tcp6-reset", "no TCP reset about a group-addressed segment", |_, ports| {
        spoilt(ports, segment(OURS, |_| {}), |frame| frame[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]));
    }),
    ("tcp6-reset", "no TCP reset about a group-addressed segment", |_, ports| send(ports, &segment("ff02::1", |_| {}))),
    ("tcp6-reset", "no TCP reset to a source that is not one host", |_, ports| {
        let packet = Packet6 { source: ip6("::"), ..segment(LINK_LOCAL, |_| {}) };
        send(ports, &packet.sealed_at(16));
    }),
    ("tcp6-reset", "TCP reset from a link-local address would leave its link", |_, ports| {
        let packet = Packet6 { source: ip6("2001:db8:1::2"), ..segment(LINK_LOCAL, |_| {}) };
        send(ports, &packet.sealed_at(16));
    }),
    ("ip6-icmp-input", "ICMPv6 message shorter than its header", |_, ports| {
        send(ports, &Packet6::new("2001:db8::2", OURS, ICMP6, &[128, 0, 0]));
    }),
    ("ip6-icmp-input", "ICMPv6 message shorter than its header", |_, ports| {
        // It is in the packet, but spread over two buffers.
        let packet = Packet6::echo_request("2001:db8::2", OURS, b"data").extension(OPTIONS, &[1, 4, 0, 0, 0, 0]);
        let frame = packet.frame(ports[0].mac, mac_of(0));
        let first = 14 + 40 + 8 + 4;
        let rest = frame.len() - first;
        ports[0].receive(Arrival::from(frame).in_parts(&[first, rest]));
    }),
    ("ip6-icmp-input", "bad ICMPv6 checksum", |_, ports| {
        spoilt(ports, Packet6::echo_request("2001:db8::2", OURS, b"x"), |frame| *frame.last_mut().unwrap() ^= 1);
    }),
    ("ip6-icmp-input", "ICMPv6 answer from a link-local address would leave its link", |_, ports| {
        send(ports, &Packet6::echo_request("2001:db8:1::2", LINK_LOCAL, b"x"));
    }),
    ("ip6-icmp-error", "no address to send an ICMPv6 error from", |bed, ports| {
        for number in 0..3 {
            bed.command(&format!("set interface ip address del e{number} all")).unwrap();
            bed.command(&format!("enable ip6 interface e{number}")).unwrap();
        }
        bed.command("ip6 neighbor e0 fe80::9 02:bb:00:00:00:01").unwrap();
        bed.command("ip route add 2001:db8::/48 via fe80::9 e0").unwrap();
        bed.run();
        drop(ports[0].sent());
        send(ports, &udp(LINK_LOCAL));
    }),
    ("ip6-icmp-error", "no ICMPv6 error about an ICMPv6 error", |_, ports| {
        send(ports, &Packet6::icmp("2001:db8::2", "2001:db8:22::1", (1, 0), 0, &[0; 48]));
    }),
    ("ip6-icmp-error", "no ICMPv6 error about an ICMPv6 error", |_, ports| {
        send(ports, &Packet6::icmp("2001:db8::2", "2001:db8:22::1", (137, 0), 0, &[0; 48]));
    }),
    ("ip6-icmp-error", "no ICMPv6 error about a group-addressed packet", |_, ports| send(ports, &from_e0("ff02::1"))),
    ("ip6-icmp-error", "no ICMPv6 error about a group-addressed packet", |_, ports| {
        spoilt(ports, udp("2001:db8:22::1"), |frame| frame[..6].copy_from_slice(&[0x33, 0x33, 0, 0, 0, 1]));
    }),
    ("ip6-icmp-error", "no ICMPv6 error to a source that is not one host", |_, ports| {
        // Who has no address yet.
        send(ports, &Packet6::new("::", LINK_LOCAL, 99, &[0; 8]));
    }),
    ("icmp6-neighbor-discovery", "neighbor discovery from beyond the link", |_, ports| {
        discover(ports, STRANGER, &solicitation("2001:db8::2", OURS, &[]).hops(254));
    }),
    ("icmp6-neighbor-discovery", "neighbor discovery in a fragment", |_, ports| {
        // A fragment that is all of the packet.
        let packet = solicitation("2001:db8::2", OURS, &link_option(1, STRANGER)).fragment(0, false, 1);
        discover(ports, STRANGER, &packet);
    }),
    ("icmp6-neighbor-discovery", "neighbor discovery code is not 0", |_, ports| {
        let data = ip6(OURS).octets();
        let packet = Packet6::icmp("2001:db8::2", &solicited_group(OURS), (135, 1), 0, &data).hops(255);
        discover(ports, STRANGER, &packet);
    }),
    ("icmp6-neighbor-discovery", "neighbor discovery message too short", |_, ports| {
        discover(ports, STRANGER, &Packet6::discovery("2001:db8::2", OURS, 135, 0, &[0; 15]));
    }),
    ("icmp6-neighbor-discovery", "neighbor discovery option is malformed", |_, ports| {
        discover(ports, STRANGER, &solicitation("2001:db8::2", OURS, &[1, 0, 0, 0, 0, 0, 0, 0]));
    }),
    ("icmp6-neighbor-discovery", "neighbor discovery target is a group", |_, ports| {
        let data = ip6("ff02::1").octets();
        discover(ports, STRANGER, &Packet6::discovery("2001:db8::2", OURS, 135, 0, &data));
    }),
    ("icmp6-neighbor-discovery", "solicitation from nobody is malformed", |_, ports| {
        discover(ports, STRANGER, &solicitation("::", OURS, &link_option(1, STRANGER)));
    }),
    ("icmp6-neighbor-discovery", "solicitation from nobody is malformed", |_, ports| {
        let packet = Packet6::discovery("::", "ff02::1", 135, 0, &ip6(OURS).octets());
        discover(ports, STRANGER, &packet);
    }),
    ("icmp6-neighbor-discovery", "neighbor advertisement to a group is marked solicited", |_, ports| {
        discover(ports, STRANGER, &advertisement("ff02::1", UNKNOWN, SOLICITED, &link_option(2, STRANGER)));
    }),
    ("icmp6-neighbor-discovery", "neighbor discovery link address is no station's", |_, ports| {
        let group = MacAddress([0x33, 0x33, 0, 0, 0, 1]);
        discover(ports, STRANGER, &solicitation("2001:db8::2", OURS, &link_option(1, group)));
    }),
    ("icmp6-neighbor-discovery", "neighbor discovery link address is no station's", |_, ports| {
        discover(ports, MacAddress([0; 6]), &solicitation("2001:db8::2", OURS, &[]));
    }),
    ("icmp6-neighbor-discovery", "neighbor discovery sender is not on link", |_, ports| {
        discover(ports, STRANGER, &solicitation("2001:db8:24::9", OURS, &link_option(1, STRANGER)));
    }),
    ("icmp6-neighbor-discovery", "neighbor advertisement of who was not asked for", |_, ports| {
        discover(ports, STRANGER, &advertisement("ff02::1", UNKNOWN, OVERRIDE, &link_option(2, STRANGER)));
    }),
    ("icmp6-neighbor-discovery", "neighbor advertisement does not override", |_, ports| {
        discover(ports, STRANGER, &advertisement("ff02::1", "2001:db8::2", 0, &link_option(2, STRANGER)));
    }),
    ("icmp6-neighbor-discovery", "contradicts a static neighbor", |_, ports| {
        discover(ports, STRANGER, &advertisement("ff02::1", "2001:db8::2", OVERRIDE, &link_option(2, STRANGER)));
    }),
    ("icmp6-neighbor-discovery", "neighbor solicitation for another station", |_, ports| {
        let packet = Packet6::discovery("2001:db8::2", "ff02::1", 135, 0, &ip6(UNKNOWN).octets());
        discover(ports, mac_of(0), &packet);
    }),
    ("icmp6-neighbor-discovery", "router solicitations received", |_, ports| {
        discover(ports, STRANGER, &Packet6::discovery("fe80::9", "ff02::2", 133, 0, &[]));
    }),
];

/// A datagram with 4 bytes of data that says that it has so many in all.
fn of_udp_length(length: u8) -> Packet6 {
    let mut packet = from_e0(OURS);
    packet.payload[5] = length;
    packet.sealed_at(6)
}

/// A TCP segment of a neighbour of e0's, spoilt but for its checksum.
fn segment(to: &str, spoil: impl FnOnce(&mut [u8])) -> Packet6 {
    let mut packet = Packet6::tcp("2001:db8::2", to, 100, &[]);
    spoil(&mut packet.payload);
    packet.sealed_at(16)
}

/// So many bytes of options that ask for nothing.
pub fn padding(length: u8) -> Vec<u8> {
    [&[1, length - 2][..], &vec![0; usize::from(length) - 2]].concat()
}

/// Has 2001:db8:25::/48 looked up in another table.
fn leak(bed: &mut Bed, more: &str) {
    for line in ["ip6 table add 9", "ip route add 2001:db8:25::/48 via ip6-lookup-in-table 9", more] {
        bed.command(line).unwrap();
    }
}

#[test]
fn each_end_of_a_packet_has_its_name_and_counts_once() {
    for (number, (node, reason, act)) in CASES.iter().enumerate() {
        let (mut bed, ports) = bed();
        let moved = bed.errors_of(|bed| act(bed, &ports));
        assert_eq!(moved, error(node, reason, 1), "case {number}");
        // What has done its work is no drop.
        let errors = bed.router.graph.errors();
        let known = errors.iter().find(|known| known.node == *node && known.reason == *reason).expect("just counted");
        let expected = if known.severity == Severity::Info { (0, 1) } else { (1, 0) };
        let ledger = bed.worker.core().ledger();
        assert_eq!((ledger.dropped, ledger.consumed), expected, "case {number}: {node}: {reason}");
        assert_eq!(bed.buffers_in_use(), bed.held(), "case {number}: {node}: {reason}");
    }
}

/// Every name that this file counts, for [`crate::drops`].
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    let others = [
        // Told of in `what_goes_no_further_is_told_of`.
        ("ip6-icmp-error", "ICMPv6 no route sent"),
        ("ip6-icmp-error", "ICMPv6 admin prohibited sent"),
        ("ip6-icmp-error", "ICMPv6 beyond scope of source sent"),
        ("ip6-icmp-error", "ICMPv6 address unreachable sent"),
        ("ip6-icmp-error", "ICMPv6 port unreachable sent"),
        ("ip6-icmp-error", "ICMPv6 packet too big sent"),
        ("ip6-icmp-error", "ICMPv6 hop limit exceeded sent"),
        ("ip6-icmp-error", "ICMPv6 erroneous header field sent"),
        ("ip6-icmp-error", "ICMPv6 unrecognized next header sent"),
        ("ip6-icmp-error", "ICMPv6 unrecognized option sent"),
        ("ip6-icmp-error", "ICMPv6 incomplete first fragment sent"),
        ("ip6-icmp-error", "ICMPv6 errors limited by rate"),
        ("ip6-rewrite", "ip6 packets too big"),
        ("ip6-icmp-input", "echo replies sent"),
        ("ip6-icmp-input", "no address to answer an ICMPv6 echo from"),
        ("icmp6-neighbor-discovery", "neighbor advertisements sent"),
        // In `router_advertisement.rs`.
        ("icmp6-neighbor-discovery", "router advertisements received"),
        ("icmp6-neighbor-discovery", "router advertisement is not of a link-local address"),
        ("icmp6-neighbor-discovery", "redirect to a router is not heeded"),
        ("icmp6-neighbor-discovery", "router discovery limited by rate"),
        // In `mld.rs`.
        ("icmp6-multicast-listener", "multicast listener queries received"),
        ("icmp6-multicast-listener", "multicast listener reports received"),
        ("icmp6-multicast-listener", "multicast listener message from beyond the link"),
        ("icmp6-multicast-listener", "multicast listener message without router alert"),
        ("icmp6-multicast-listener", "multicast listener message is not of a link-local address"),
        ("icmp6-multicast-listener", "multicast listener message too short"),
        ("icmp6-multicast-listener", "multicast listener message about no group"),
        ("icmp6-multicast-listener", "multicast listener messages limited by rate"),
        ("icmp6-multicast-listener", "control is busy, not learned"),
        // In `dad.rs`.
        ("icmp6-neighbor-discovery", "neighbor solicitation of a tentative address"),
        ("icmp6-neighbor-discovery", "duplicate address probe of ours came back"),
        ("icmp6-neighbor-discovery", "neighbor advertisements received"),
        ("icmp6-neighbor-discovery", "neighbor advertisement without a link address"),
        ("icmp6-neighbor-discovery", "neighbor has an address of ours"),
        ("icmp6-neighbor-discovery", "neighbor advertisements limited by rate"),
        ("icmp6-neighbor-discovery", "neighbor learning limited by rate"),
        ("icmp6-neighbor-discovery", "asker answered, not learned"),
        ("icmp6-neighbor-discovery", "control is busy, not learned"),
        ("ip6-discover-neighbor", "hold queue full"),
        ("ip6-discover-neighbor", "too many packets wait for neighbours"),
        ("ip6-discover-neighbor", "neighbor solicitations throttled"),
        ("ip6-discover-neighbor", "neighbour did not answer lately"),
        ("ip6-discover-neighbor", "control is busy, not asked"),
        // Not reached: what this router sends itself has a way, and senders that have none back are stopped before.
        ("ip6-icmp-error", "no ICMPv6 error about a packet of ours"),
        ("ip6-icmp-input", "packet of ours came back to us"),
        // In `local6.rs`.
        ("tcp6-reset", "TCP resets sent"),
        ("tcp6-reset", "TCP resets limited by rate"),
        // In tests of redirects.
        ("ip6-redirect", "ICMPv6 redirect sent"),
        ("ip6-redirect", "ICMPv6 redirects limited by rate"),
        ("ip6-redirect", "ICMPv6 redirect not sent, next hop is no link-local address"),
        ("ip6-redirect", "no free buffer"),
        // In tests of pings.
        ("ip6-icmp-input", "ICMPv6 answers to our requests"),
        ("ip6-icmp-input", "control is busy, answer not told"),
        ("ip6-icmp-error", "our echo requests that went no further"),
        ("ip6-ping", "echo request has no link to go onto"),
        ("ip6-ping", "echo requests sent"),
        ("ip6-ping", "no free buffer"),
        ("ip6-ping", "control is busy, not sent"),
        // Not reached, as those of IPv4.
        ("icmp6-neighbor-discovery", "interface is gone"),
        ("ip6-lookup", "route leads to nothing"),
        ("ip6-load-balance", "route leads to nothing"),
        ("lookup-ip6-dst", "route leads to nothing"),
        ("ip6-route-counters", "route leads to nothing"),
        ("ip6-lookup", "too many tables in a row"),
        ("ip6-route-counters", "too many tables in a row"),
        ("ip6-load-balance", "too many tables in a row"),
        ("ip6-rewrite", "no room for the link header"),
        // No interface has an MTU that small.
        ("ip6-frag", "mtu too small to fragment for"),
    ];
    let of_fragments = crate::reassembly6::NAMES.iter().copied();
    CASES.iter().map(|(node, reason, _)| (*node, *reason)).chain(others).chain(of_fragments)
}

/// What e0's neighbour was told about a packet of its own: type, code, the word behind the checksum, and the quote.
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

#[test]
fn what_goes_no_further_is_told_of() {
    type Case = (&'static str, (u8, u8, u32), fn() -> Packet6);
    let cases: &[Case] = &[
        ("ICMPv6 no route sent", (1, 0, 0), || udp("2001:db8:99::1")),
        ("ICMPv6 admin prohibited sent", (1, 1, 0), || udp("2001:db8:23::1")),
        ("ICMPv6 address unreachable sent", (1, 3, 0), || udp("2001:db8:22::1")),
        ("ICMPv6 port unreachable sent", (1, 4, 0), || udp(OURS)),
        ("ICMPv6 hop limit exceeded sent", (3, 0, 0), || udp("2001:db8:1::2").hops(1)),
        ("ICMPv6 hop limit exceeded sent", (3, 0, 0), || udp("2001:db8:24::2").hops(0)),
        // A routing header with segments left: of type 0, and of segments (RFC 5095, RFC 8754).
        ("ICMPv6 erroneous header field sent", (4, 0, 42), || {
            let body = [&[0, 1, 0, 0, 0, 0][..], &ip6("2001:db8:1::2").octets()].concat();
            udp(OURS).extension(ROUTING, &body)
        }),
        ("ICMPv6 erroneous header field sent", (4, 0, 42), || {
            let body = [&[4, 1, 1, 0, 0, 0][..], &ip6("2001:db8:1::2").octets()].concat();
            udp(OURS).extension(ROUTING, &body)
        }),
        // An option that goes beyond its header.
        ("ICMPv6 erroneous header field sent", (4, 0, 42), || udp(OURS).extension(OPTIONS, &[0x1e, 9, 0, 0, 0, 0])),
        ("ICMPv6 unrecognized next header sent", (4, 1, 6), || Packet6::new("2001:db8::2", OURS, 99, &[0; 8])),
        ("ICMPv6 unrecognized next header sent", (4, 1, 40), || {
            Packet6::new("2001:db8::2", OURS, 99, &[0; 8]).extension(OPTIONS, &[1, 4, 0, 0, 0, 0])
        }),
        // Hop-by-hop options behind others.
        ("ICMPv6 unrecognized next header sent", (4, 1, 40), || {
            udp(OURS).extension(OPTIONS, &[1, 4, 0, 0, 0, 0]).extension(HOP_BY_HOP, &[1, 4, 0, 0, 0, 0])
        }),
        ("ICMPv6 unrecognized option sent", (4, 2, 42), || udp(OURS).extension(OPTIONS, &[0x9e, 4, 0, 0, 0, 0])),
        // Headers, and one of TCP, that go on behind the first fragment; nothing of one of UDP.
        ("ICMPv6 incomplete first fragment sent", (4, 3, 0), || {
            let long = [&[17, 2][..], &padding(14)].concat();
            Packet6::new("2001:db8::2", OURS, OPTIONS, &long).fragment(0, true, 1)
        }),
        ("ICMPv6 incomplete first fragment sent", (4, 3, 0), || {
            Packet6::new("2001:db8::2", OURS, 6, &[0; 16]).fragment(0, true, 1)
        }),
        ("ICMPv6 incomplete first fragment sent", (4, 3, 0), || {
            Packet6::new("2001:db8::2", OURS, 17, &[]).fragment(0, true, 1).extension(OPTIONS, &[1, 4, 0, 0, 0, 0])
        }),
        // A length that leaves a gap, and one that goes too far.
        ("ICMPv6 erroneous header field sent", (4, 0, 4), || {
            Packet6::new("2001:db8::2", OURS, 17, &[0; 1001]).fragment(8, true, 1)
        }),
        ("ICMPv6 erroneous header field sent", (4, 0, 42), || {
            Packet6::new("2001:db8::2", OURS, 17, &[0; 8]).fragment(65528, false, 1)
        }),
        ("ICMPv6 erroneous header field sent", (4, 0, 50), || {
            // Of the packet's length its other headers take a part.
            let packet = Packet6::new("2001:db8::2", OURS, 17, &[0; 8]).extension(HOP_BY_HOP, &padding(6));
            packet.fragment(65520, false, 1)
        }),
        ("ICMPv6 unrecognized option sent", (4, 2, 44), || udp(OURS).extension(HOP_BY_HOP, &[1, 0, 0xde, 2, 0, 0])),
    ];
    for (name, expected, packet) in cases {
        let (mut bed, ports) = bed();
        let packet = packet();
        let before = bed.errors();
        let (kind, code, rest, quote) = told(&mut bed, &ports, &packet);
        assert_eq!((kind, code, rest), *expected, "{name}");
        assert_eq!(quote, packet.bytes(), "{name}: as it was received");
        let key = ("ip6-icmp-error".to_string(), name.to_string());
        assert_eq!(bed.errors()[&key] - before.get(&key).copied().unwrap_or(0), 1, "{name}");
    }
}

#[test]
fn a_packet_too_big_is_told_the_length_that_fits() {
    let (mut bed, ports) = bed();
    bed.command("set interface mtu ip6 1300 e1").unwrap();
    let packet = Packet6::udp("2001:db8::2", "2001:db8:1::2", &[7; 1300 - 48]);
    send(&ports, &packet);
    bed.run();
    assert_eq!(ports[1].sent().len(), 1, "1300 bytes fit");
    let packet = Packet6::udp("2001:db8::2", "2001:db8:1::2", &[7; 1301 - 48]);
    let (kind, code, mtu, quote) = told(&mut bed, &ports, &packet);
    assert_eq!((kind, code, mtu), (2, 0, 1300));
    assert_eq!(quote, packet.bytes()[..1280 - 48], "as much as fits the least MTU");
    assert_eq!(bed.errors()[&("ip6-rewrite".into(), "ip6 packets too big".into())], 1);
}

#[test]
fn link_local_sources_stay_on_their_link() {
    let (mut bed, ports) = bed();
    let key = NeighbourKey::new(ports[0].index, ip6("fe80::9"));
    bed.router.set_neighbour(key, mac_of(0), true).unwrap();
    let (kind, code, ..) = told(&mut bed, &ports, &Packet6::udp("fe80::9", "2001:db8:1::2", b""));
    assert_eq!((kind, code), (1, 2), "beyond the scope of the source");
    // To the router itself it may go.
    let echo = Packet6::echo_request("fe80::9", OURS, b"ping");
    assert_eq!(told(&mut bed, &ports, &echo).0, 129);
}

/// RFC 4291 2.5.6: an answer from there goes onto the link, or nowhere.
#[test]
fn answers_from_a_link_local_address_stay_on_its_link() {
    let (mut bed, ports) = bed();
    // A route to the asker that would take the answer elsewhere.
    bed.command("ip route add 2001:db8::2/128 via 2001:db8:1::2").unwrap();
    let echo = Packet6::echo_request("2001:db8::2", LINK_LOCAL, b"ping");
    assert_eq!(told(&mut bed, &ports, &echo).0, 129);
    // So it does when the asker is not known yet.
    bed.command("ip route add 2001:db8::77/128 via 2001:db8:1::2").unwrap();
    let echo = Packet6::echo_request(UNKNOWN, LINK_LOCAL, b"ping");
    discover(&ports, STRANGER, &echo);
    bed.run();
    assert_eq!(ports[0].sent()[0][54], 135, "asked for on the link");
    discover(&ports, STRANGER, &advertisement(OURS, UNKNOWN, SOLICITED | OVERRIDE, &link_option(2, STRANGER)));
    bed.run();
    let sent = packets(&ports[0]);
    assert_eq!((sent.len(), sent[0][40], &sent[0][24..40]), (1, 129, &ip6(UNKNOWN).octets()[..]));
    assert_eq!((ports[1].sent().len(), ports[2].sent().len()), (0, 0));
}

/// RFC 4443 2.2, RFC 6724 section 5: an error about a packet to a link-local address is from one of its reader's scope.
#[test]
fn errors_beyond_the_link_are_from_a_global_address() {
    let (mut bed, ports) = bed();
    let from = |bed: &mut Bed, packet: Packet6| {
        send(&ports, &packet);
        bed.run();
        let sent = packets(&ports[0]);
        assert_eq!((sent.len(), sent[0][40]), (1, 1), "{sent:x?}");
        std::net::Ipv6Addr::from(*sent[0][8..].first_chunk::<16>().unwrap()).to_string()
    };
    bed.command("ip route add 2001:db8:30::/48 via 2001:db8::2").unwrap();
    assert_eq!(from(&mut bed, udp(LINK_LOCAL)), OURS);
    assert_eq!(from(&mut bed, Packet6::udp("2001:db8:30::9", LINK_LOCAL, b"")), OURS);
    bed.command("ip6 neighbor e0 fe80::9 02:bb:00:00:00:01").unwrap();
    assert_eq!(from(&mut bed, Packet6::udp("fe80::9", OURS, b"")), LINK_LOCAL);
    // Of an interface that has none, from that of another.
    bed.command("set interface ip address del e0 all").unwrap();
    bed.command("enable ip6 interface e0").unwrap();
    bed.command("ip6 neighbor e0 fe80::9 02:bb:00:00:00:01").unwrap();
    bed.command("ip route add 2001:db8:31::/48 via fe80::9 e0").unwrap();
    bed.run();
    drop(ports[0].sent());
    assert_eq!(from(&mut bed, Packet6::udp("2001:db8:31::9", LINK_LOCAL, b"")), "2001:db8:1::1");
}

#[test]
fn echo_is_answered_without_the_extension_headers_that_it_had() {
    let (mut bed, ports) = bed();
    let plain = Packet6::echo_request("2001:db8::2", OURS, b"0123456789");
    let wrapped = plain.clone().extension(HOP_BY_HOP, &[1, 4, 0, 0, 0, 0]).extension(OPTIONS, &[1, 4, 0, 0, 0, 0]);
    // One whose list of segments is used up, and an atomic fragment.
    let segments = [&[4, 0, 0, 0, 0, 0][..], &ip6(OURS).octets()].concat();
    let routed = plain.clone().extension(ROUTING, &segments);
    let atomic = plain.clone().fragment(0, false, 9);
    for packet in [&plain, &wrapped, &routed, &atomic] {
        let (kind, code, rest, data) = told(&mut bed, &ports, packet);
        assert_eq!((kind, code, rest, &data[..]), (129, 0, 0x0042_0007, &b"0123456789"[..]));
    }
    // A group is answered from an address of ours.
    assert_eq!(told(&mut bed, &ports, &Packet6::echo_request("2001:db8::2", "ff02::1", b"x")).0, 129);
}

/// An authentication header has a unit of its own: who looks at options must find them where the walk found them.
#[test]
fn options_behind_an_authentication_header_are_found() {
    let (mut bed, ports) = bed();
    let authentication = (51, [&[0, 4][..], &[0xa5; 22]].concat());
    let mut packet = from_e0(OURS);
    packet.extensions.push(authentication);
    let moved = bed.errors_of(|_| send(&ports, &packet.clone().extension(OPTIONS, &[0x5e, 4, 0, 0, 0, 0])));
    assert_eq!(moved, error("ip6-local", "ip6 option says discard", 1));
    // Nobody listens to the port behind it.
    let known = packet.extension(OPTIONS, &[1, 4, 0, 0, 0, 0]);
    assert_eq!(told(&mut bed, &ports, &known).0, 1);
}

/// Headers of all kinds that are what they should be, lie about their length, end the packet early or are noise.
#[test]
fn no_extension_headers_stop_the_router() {
    const KINDS: [u8; 9] = [HOP_BY_HOP, ROUTING, FRAGMENT, 51, OPTIONS, 135, 139, ICMP6, 17];
    let (mut bed, ports) = bed();
    let mut random = Random::new(6);
    let mut below = |bound| random.below(bound);
    for round in 0..40 {
        for _ in 0..100 {
            let mut packet = Packet6::echo_request("2001:db8::2", [OURS, "ff02::1"][below(2)], b"x");
            for _ in 0..below(11) {
                let mut header = vec![0; 8 * (1 + below(4))];
                header.iter_mut().for_each(|byte| *byte = [0, 1, 5, 0x5e, 0x9e, 0xde, below(256) as u8][below(7)]);
                header[1] = [(header.len() / 8 - 1) as u8, below(8) as u8][below(2)];
                packet.extensions.push((KINDS[below(KINDS.len())], header));
            }
            spoilt(&ports, packet, |frame| {
                if below(4) == 0 {
                    let length = 54 + below(frame.len() - 53);
                    frame.truncate(length);
                    let payload = (length - 54) as u16;
                    frame[18..20].copy_from_slice(&payload.to_be_bytes());
                }
            });
        }
        bed.run();
        ports.iter().for_each(|port| drop(port.sent()));
        // Whoever asks as he should is answered still.
        send(&ports, &Packet6::echo_request("2001:db8::2", OURS, b"alive"));
        bed.run();
        assert_eq!(ports[0].sent().len(), 1, "round {round}");
    }
}

#[test]
fn forwarding_changes_the_link_header_and_the_hop_limit_only() {
    let (mut bed, ports) = bed();
    let mut random = Random::new(6);
    let mut expected = [Vec::new(), Vec::new()];
    for number in 0..600 {
        let way = random.below(2);
        let to = ["2001:db8:1::2", "2001:db8:2::2"][way];
        let data: Vec<u8> = (0..random.below(1200)).map(|_| random.next() as u8).collect();
        let mut packet = Packet6::udp(&format!("2001:db8::{:x}", 2 + random.below(900)), to, &data);
        packet.label = random.next() as u32 & 0xf_ffff;
        packet.hops = 2 + random.below(253) as u8;
        // Segment routing, fragments and options of others are none of a router's business.
        packet = match number % 5 {
            0 => packet.extension(ROUTING, &[&[4, 1, 1, 0, 0, 0][..], &[7; 32]].concat()),
            1 => packet.fragment(0, true, 1),
            2 => packet.extension(HOP_BY_HOP, &[0x5e, 4, 0, 0, 0, 0]),
            _ => packet,
        };
        let mut frame = packet.frame(ports[0].mac, mac_of(0));
        // Short frames are padded on their way.
        frame.resize(frame.len().max(60 + random.below(8)), 0xee);
        ports[0].receive(frame);
        packet.hops -= 1;
        expected[way].push(packet.frame(mac_of(way + 1), ports[way + 1].mac));
    }
    bed.run();
    for (way, expected) in expected.iter_mut().enumerate() {
        let mut sent = ports[way + 1].sent();
        sent.sort();
        expected.sort();
        assert_eq!(sent.len(), expected.len());
        assert!(sent == *expected, "e{}", way + 1);
    }
}

#[test]
fn both_families_share_a_vector() {
    let (mut bed, ports) = bed();
    bed.command("set interface ip address e0 10.0.0.1/24").unwrap();
    bed.command("set interface ip address e1 10.0.1.1/24").unwrap();
    bed.know(&ports[1], "10.0.1.2");
    bed.run();
    ports.iter().for_each(|port| drop(port.sent()));
    for first in 0..2 {
        for number in 0..64 {
            if number % 3 == first {
                ports[0].receive_packet(&crate::packet::Packet::udp("10.0.0.2", "10.0.1.2", &[number]));
            } else {
                send(&ports, &Packet6::udp("2001:db8::2", "2001:db8:1::2", &[number]));
            }
        }
        let before = bed.errors();
        bed.run();
        assert_eq!(bed.errors(), before);
        let sent = ports[1].sent();
        let of4 = sent.iter().filter(|frame| frame[12..14] == [8, 0]).count();
        assert_eq!((sent.len(), of4), (64, (0..64).filter(|number| number % 3 == first).count()));
    }
}

#[test]
fn flows_spread_over_paths_and_each_keeps_its_own() {
    let (mut bed, ports) = bed();
    bed.command("ip route add 2001:db8:30::/48 via 2001:db8:1::2 via 2001:db8:2::2").unwrap();
    let mut by_port = [0, 0];
    for flow in 0..200u32 {
        for _ in 0..2 {
            let mut packet = udp("2001:db8:30::1");
            packet.label = flow;
            send(&ports, &packet);
        }
        bed.run();
        let sent = [ports[1].sent().len(), ports[2].sent().len()];
        assert!(sent == [2, 0] || sent == [0, 2], "{sent:?}");
        by_port[0] += sent[0];
        by_port[1] += sent[1];
    }
    assert!(by_port.iter().all(|count| (140..260).contains(count)), "{by_port:?}");
}

/// RFC 4007 section 6: the same link-local address on two links is two stations'.
#[test]
fn link_local_next_hops_are_of_their_link() {
    let (mut bed, ports) = bed();
    for line in [
        "set ip6 link-local address e1 fe80::1",
        "ip6 neighbor e0 fe80::1 02:bb:00:00:00:01",
        "ip route add 2001:db8:9::/48 via fe80::1 e0",
    ] {
        bed.command(line).unwrap();
    }
    let error = bed.command("ip route add 2001:db8:a::/48 via fe80::1 e1").unwrap_err();
    assert!(error.contains("own address, on e1"), "{error}");
    let packet = Packet6::udp("2001:db8:1::2", "2001:db8:9::1", b"");
    for (line, is_sent) in [
        ("set ip6 link-local address e1 fe80::1", true),
        ("set ip6 link-local address e0 fe80::1", false),
        ("set ip6 link-local address e0 fe80::2", true),
    ] {
        bed.command(line).unwrap();
        bed.run();
        drop(ports[0].sent());
        ports[1].receive(packet.frame(ports[1].mac, mac_of(1)));
        bed.run();
        let sent = ports[0].sent();
        let to_hop = sent.iter().filter(|frame| frame[..6] == STRANGER.0).count();
        assert_eq!((sent.len(), to_hop), (usize::from(is_sent), usize::from(is_sent)), "{line}");
        assert_eq!(bed.router.ip.audit(), Ok(()), "{line}");
    }
}

#[test]
fn interfaces_join_and_leave() {
    let mut bed = Bed::new();
    let port = bed.port("e0", &[]);
    let enabled = |bed: &Bed| bed.router.interfaces.get(port.index).unwrap().ip6.is_enabled();
    for (line, is_enabled) in [
        ("enable ip6 interface e0", true),
        ("disable ip6 interface e0", false),
        ("set interface ip address e0 2001:db8::1/64", true),
        ("set interface ip address del e0 2001:db8::1/64", false),
        ("set interface ip address e0 2001:db8::1/64", true),
        ("enable ip6 interface e0", true),
        ("disable ip6 interface e0", true),
        ("set interface ip address del e0 all", false),
        ("set interface ip address e0 2001:db8::1/64", true),
        ("enable ip6 interface e0", true),
        ("set interface ip address del e0 all", true),
    ] {
        bed.command(line).unwrap();
        bed.run();
        assert_eq!(enabled(&bed), is_enabled, "{line}");
        assert_eq!(bed.router.ip.audit(), Ok(()), "{line}");
    }
    bed.command("set ip6 link-local address e0 fe80::7").unwrap();
    let shown = bed.command("show ip6 interface e0").unwrap();
    assert!(shown.contains("fe80::7") && shown.contains("ff02::1:ff00:7"), "{shown}");
    for (line, why) in [
        ("set interface ip address e0 ff02::9/64", "no IPv6 address for an interface"),
        ("set interface ip address e0 ::ffff:10.0.0.1/96", "no IPv6 address for an interface"),
        ("set interface ip address e0 ::1/128", "no IPv6 address for an interface"),
        ("set interface ip address e0 fe80::9/64", "link-local"),
        ("set ip6 link-local address e0 2001:db8::9", "no link-local address"),
        ("set interface mtu ip6 1279 e0", "1280"),
        ("ip route add 2001:db8:9::/48 via 10.0.0.1", "of another family"),
        ("ip route add 10.0.0.0/8 via 2001:db8::2", "of another family"),
        ("ip route add 2001:db8:9::/48 via fe80::9", "name its interface"),
        ("ip route add 2001:db8:9::/48 via fe80::9 offlink", "name its interface"),
        ("ip route add 2001:db8:9::/48 via ff02::9", "a group's"),
        ("ip6 neighbor e0 ::ffff:10.0.0.9 02:00:00:00:00:09", "no neighbour's address"),
        ("ip route add 2001:db8:9::/48 via ip4-lookup-in-table 0", "of the other family"),
    ] {
        let error = bed.command(line).unwrap_err();
        assert!(error.contains(why), "{line}: {error}");
    }
    // What is stated of an interface that takes part goes with that: it could not be loaded again.
    bed.command("disable ip6 interface e0").unwrap();
    bed.command("set interface ip address e0 2001:db8::1/64").unwrap();
    bed.command("set ip6 link-local address e0 fe80::7").unwrap();
    bed.command("set interface ip address del e0 2001:db8::1/64").unwrap();
    assert!(!bed.command("show running-config").unwrap().contains("fe80::7"));
    bed.command("set interface ip address e0 2001:db8::1/64").unwrap();
    let shown = bed.command("show ip6 interface e0").unwrap();
    assert!(!shown.contains("fe80::7"), "{shown}");
    bed.command("set interface state e0 down").unwrap();
    bed.router.delete_interface(port.index).unwrap();
    bed.run();
    assert_eq!((bed.router.ip.objects(), bed.router.neighbours.len()), (0, 0));
}

#[test]
fn tables_of_both_families_are_apart_and_counted_routes_count() {
    let (mut bed, ports) = bed();
    for line in [
        "ip6 table add 7",
        "ip table add 7",
        "ip route add table 7 2001:db8:70::/48 via 2001:db8:1::2 next-hop-table 0",
        "set ip6 route counters 2001:db8:70::/48 enable table 7",
    ] {
        bed.command(line).unwrap();
    }
    let vrf = bed.port("e7", &[]);
    bed.command("set interface ip6 table e7 7").unwrap();
    bed.command("set interface ip address e7 2001:db8:7::1/64").unwrap();
    bed.run();
    drop((vrf.sent(), ports[1].sent()));
    // The same prefix is in no other table.
    let packet = Packet6::udp("2001:db8:7::2", "2001:db8:70::1", b"12345678");
    vrf.receive(packet.frame(vrf.mac, STRANGER));
    bed.run();
    assert_eq!(packets(&ports[1]), [packet.clone().hops(63).bytes()]);
    let (kind, code, ..) = told(&mut bed, &ports, &udp("2001:db8:70::1"));
    assert_eq!((kind, code), (1, 0));
    let shown = bed.command("show ip route counters").unwrap();
    let row = shown.lines().find(|line| line.contains("2001:db8:70::/48")).unwrap();
    assert_eq!(row.split_whitespace().collect::<Vec<_>>(), ["7", "2001:db8:70::/48", "1", "56"]);
    let error = bed.command("ip6 table del 7").unwrap_err();
    assert!(error.contains("is that of e7"), "{error}");
    bed.command("ip table del 7").unwrap();
    assert_eq!(bed.router.ip.audit(), Ok(()));
}

#[test]
fn own_packets_that_come_back_and_answers_without_an_address() {
    let (mut bed, ports) = bed();
    // An interface with no address but its link's answers nobody beyond.
    let port = bed.port("link0", &[]);
    bed.command("enable ip6 interface link0").unwrap();
    bed.run();
    drop(port.sent());
    let echo = Packet6::echo_request("2001:db8:1::2", "ff02::1", b"");
    let moved = bed.errors_of(|_| port.receive(echo.frame(port.mac, STRANGER)));
    assert_eq!(moved, error("ip6-icmp-input", "no address to answer an ICMPv6 echo from", 1));
    // What this router sent comes back by a wire that reflects.
    let mut reply = Packet6::icmp(OURS, "2001:db8::2", (129, 0), 0, b"");
    reply.destination = ip6("2001:db8:1::1");
    let moved = bed.errors_of(|_| send(&ports, &reply.sealed_at(2)));
    assert_eq!(moved, error("ip6-local", "ip6 spoofed local-address packet drops", 1));
}
