//! Every way in which an IPv6 packet can end, by name.

use crate::bed::{Arrival, Bed, error};
use crate::bed6::*;
use crate::drops::{Act, assert_in_the_ledger};
use crate::packet::{TCP, UDP};
use crate::packet6::*;
use wire::MacAddress;

const CASES: &[(&str, &str, Act)] = &[
    ("ip6-input", "ip6 not enabled", |bed, _| {
        let port = bed.port("bare", &[]);
        port.receive(udp("2001:db8:1::2").frame(port.mac, STRANGER));
    }),
    ("ip6-input", "ip6 length < 40 bytes", |_, ports| spoilt(ports, udp("2001:db8:1::2"), |frame| frame.truncate(53))),
    ("ip6-input", "ip6 length < 40 bytes", |_, ports| {
        // The header continues in another buffer.
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
    ("ip6-punt-redirect", "punted, but no host interface takes it", |_, ports| send(ports, &udp("2001:db8:21::1"))),
    ("ip6-load-balance", "blackholed packets", |bed, ports| {
        bed.command("ip route add 2001:db8:25::/48 via drop weight 255 via 2001:db8:1::2").unwrap();
        send(ports, &udp("2001:db8:25::1"));
    }),
    ("ip6-punt-redirect", "punted, but no host interface takes it", |bed, ports| {
        bed.command("ip route add 2001:db8:25::/48 via punt weight 255 via 2001:db8:1::2").unwrap();
        send(ports, &udp("2001:db8:25::1"));
    }),
    ("lookup-ip6-dst", "blackholed packets", |bed, ports| {
        leak(bed, "ip route add table 9 2001:db8:25::/48 via drop");
        send(ports, &udp("2001:db8:25::1"));
    }),
    ("ip6-punt-redirect", "punted, but no host interface takes it", |bed, ports| {
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
    ("ip6-punt-redirect", "punted, but no host interface takes it", |bed, ports| {
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
        // Also when it arrives on another interface, and with the leaf of a route to it.
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
        // Not reported for a packet to a group.
        send(ports, &from_e0("ff02::1").extension(OPTIONS, &[0xde, 4, 0, 0, 0, 0]));
    }),
    ("ip6-local-full-reassembly", "duplicate fragments", |_, ports| {
        (0..2).for_each(|_| send(ports, &Packet6::new("2001:db8::2", OURS, ICMP6, &[1; 8]).fragment(8, true, 1)));
    }),
    ("ip6-local-full-reassembly", "malformed packets", |_, ports| {
        send(ports, &Packet6::new("2001:db8::2", OURS, ICMP6, &[]).fragment(8, true, 1));
    }),
    ("ip6-local-full-reassembly", "malformed packets", |_, ports| {
        // A checksum left to the device cannot be completed on a fragment.
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
    ("ip6-punt-redirect", "punted packet came back from the host", |bed, ports| {
        bed.command("ip6 punt redirect add rx all via 2001:db8::2 e0").unwrap();
        send(ports, &udp("2001:db8:21::1"));
    }),
    ("ip6-punt-redirect", "punted packets limited by rate", |bed, ports| {
        bed.command("ip6 punt redirect add rx all via 2001:db8:1::2 e1").unwrap();
        bed.command("set ip6 punt rate 1").unwrap();
        bed.run();
        (0..2).for_each(|_| send(ports, &udp(OURS)));
    }),
    ("ip6-punt-redirect", "ICMPv6 message that asks for nothing", |_, ports| {
        send(ports, &Packet6::icmp("2001:db8::2", OURS, (129, 0), 0, b""));
    }),
    ("ip6-udp-lookup", "udp header truncated", |_, ports| {
        send(ports, &Packet6::new("2001:db8::2", OURS, UDP, &[0; 7]));
    }),
    ("ip6-udp-lookup", "udp header truncated", |_, ports| {
        // The option is in the packet, but spread over two buffers.
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
    ("tcp6-reset", "no TCP reset from an anycast address", |_, ports| send(ports, &segment("2001:db8::", |_| {}))),
    ("tcp6-reset", "no TCP reset from an anycast address", |_, ports| {
        // The anycast address of another interface's network.
        send(ports, &segment("2001:db8:1::", |_| {}));
    }),
    ("ip6-icmp-input", "ICMPv6 message shorter than its header", |_, ports| {
        send(ports, &Packet6::new("2001:db8::2", OURS, ICMP6, &[128, 0, 0]));
    }),
    ("ip6-icmp-input", "ICMPv6 message shorter than its header", |_, ports| {
        // The header is in the packet, but spread over two buffers.
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
        // A host that has no address yet.
        send(ports, &Packet6::new("::", LINK_LOCAL, 99, &[0; 8]));
    }),
    ("icmp6-neighbor-discovery", "neighbor discovery from beyond the link", |_, ports| {
        discover(ports, STRANGER, &solicitation("2001:db8::2", OURS, &[]).hops(254));
    }),
    ("icmp6-neighbor-discovery", "neighbor discovery in a fragment", |_, ports| {
        // A fragment that contains the whole packet.
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

/// A datagram with 4 bytes of data, whose length field says `length`.
fn of_udp_length(length: u8) -> Packet6 {
    let mut packet = from_e0(OURS);
    packet.payload[5] = length;
    packet.sealed_at(6)
}

/// A TCP segment from the neighbour of e0, changed by `spoil`, with a right checksum.
fn segment(to: &str, spoil: impl FnOnce(&mut [u8])) -> Packet6 {
    let mut packet = Packet6::tcp("2001:db8::2", to, 100, &[]);
    spoil(&mut packet.payload);
    packet.sealed_at(16)
}

/// Makes 2001:db8:25::/48 be looked up in another table.
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
        assert_in_the_ledger(&mut bed, node, reason);
    }
}

/// Every name that this file counts, for [`crate::drops`].
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    let others = [
        // Tested by `what_goes_no_further_is_told_of`.
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
        // Not reached: this router's own packets have a route, and senders without a route back are dropped before.
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
        ("ip6-icmp-error", "echo requests of this router that were not forwarded"),
        ("ip6-ping", "echo request has no link to go onto"),
        ("ip6-ping", "echo requests sent"),
        ("ip6-ping", "no free buffer"),
        ("ip6-ping", "control is busy, not sent"),
        // Not reached, like those of IPv4.
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
