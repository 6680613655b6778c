//! Every way in which a packet can end, by name: for each packet one counter moves, and no other.

use crate::bed::{Arrival, Bed, Errors, Port, error, host_mac, prefix};
use crate::packet::*;
use drivers::{DROPPED, FULL, REFUSED, TOO_LONG, TxOffloads};
use graph::buffer::{Offload, Segmentation};
use graph::registry::{ErrorInfo, Outcome};
use graph::{InterfaceIndex, flag};
use router::ip::control::PathAction;
use router::neighbour::policy::Rates;
use router::neighbour::resolve::{Bounds, HELD_PER_NEIGHBOUR};
use std::collections::BTreeSet;
use std::time::Duration;
use wire::{Family, MacAddress};

const STRANGER: MacAddress = MacAddress([2, 0xbb, 0, 0, 0, 1]);

pub type Act = fn(&mut Bed, &[Port; 3]);

/// A router with ports e0 to e2, and the routes that the cases use.
fn bed() -> (Bed, [Port; 3]) {
    let (mut bed, ports) = Bed::with_three_ports();
    bed.route_way("20.0.0.0/8", PathAction::Drop);
    bed.route_way("21.0.0.0/8", PathAction::Punt);
    bed.route_way("22.0.0.0/8", PathAction::Unreachable);
    bed.route("23.0.0.0/8", &["10.0.1.2"]);
    bed.command("create loopback interface").unwrap();
    bed.run();
    (bed, ports)
}

/// Sends a frame to e0 with a length in place of a type.
fn length_frame(ports: &[Port; 3], length: u16, payload: &[u8]) -> Vec<u8> {
    ethernet(ports[0].mac, STRANGER, length, payload)
}

/// Sends an LLC frame to all bridges, padded to the minimum length.
fn llc(ports: &[Port; 3], header: &[u8]) {
    let mut frame = ethernet(MacAddress([1, 0x80, 0xc2, 0, 0, 0]), STRANGER, header.len() as u16, header);
    frame.resize(60, 0xee);
    ports[0].receive(frame);
}

/// Creates loop0, and sets it up.
fn loopback(bed: &mut Bed) -> InterfaceIndex {
    let index = bed.router.interfaces.find("loop0").unwrap();
    bed.router.set_admin(index, true).unwrap();
    index
}

fn udp(to: &str) -> Packet {
    Packet::udp("10.0.0.2", to, b"data")
}

/// Sends a frame to e0 after `spoil` has changed it.
fn spoilt(ports: &[Port; 3], packet: Packet, spoil: impl FnOnce(&mut Vec<u8>)) {
    let mut frame = packet.frame(ports[0].mac, host_mac(packet.source));
    spoil(&mut frame);
    ports[0].receive(frame);
}

fn arp_from(ports: &[Port; 3], operation: u16, sender: (MacAddress, &str), target: &str) {
    let message = arp(operation, sender, (MacAddress::ZERO, target));
    ports[0].receive(ethernet(MacAddress::BROADCAST, STRANGER, 0x0806, &message));
}

/// Sends an ARP request after `spoil` has changed its ARP part.
fn spoilt_arp(ports: &[Port; 3], spoil: impl FnOnce(&mut Vec<u8>)) {
    let mut message = arp(REQUEST, (STRANGER, "10.0.0.9"), (MacAddress::ZERO, "10.0.0.1"));
    spoil(&mut message);
    ports[0].receive(ethernet(MacAddress::BROADCAST, STRANGER, 0x0806, &message));
}

/// An ICMP message to the router itself.
fn to_us(message: &[u8]) -> Packet {
    Packet::new("10.0.0.2", "10.0.0.1", ICMP, message)
}

/// A datagram of 12 bytes to the router, whose length field says another length.
fn of_udp_length(length: u8) -> Packet {
    let mut packet = udp("10.0.0.1");
    packet.payload[5] = length;
    packet.payload[6..8].fill(0);
    packet
}

/// A TCP segment to the router, changed.
fn segment(change: impl FnOnce(&mut Vec<u8>)) -> Packet {
    let mut packet = Packet::tcp("10.0.0.2", "10.0.0.1", 1, b"");
    change(&mut packet.payload);
    packet.fill_transport_checksum(16);
    packet
}

const CASES: &[(&str, &str, Act)] = &[
    ("test-input", "interface is down", |bed, ports| {
        bed.router.set_admin(ports[0].index, false).unwrap();
        bed.run();
        ports[0].receive_packet(&udp("10.0.1.2"));
    }),
    ("ethernet-input", "frame shorter than its header", |_, ports| {
        spoilt(ports, udp("10.0.1.2"), |frame| frame.truncate(13));
    }),
    ("ethernet-input", "l3 mac mismatch", |_, ports| {
        spoilt(ports, udp("10.0.1.2"), |frame| frame[..6].copy_from_slice(&STRANGER.0));
    }),
    ("ethernet-input", "unknown ethernet type", |_, ports| {
        spoilt(ports, udp("10.0.1.2"), |frame| frame[12..14].copy_from_slice(&[0x88, 0xcc]));
    }),
    ("ethernet-input", "802.3 length beyond the frame", |_, ports| ports[0].receive(length_frame(ports, 47, &[0; 46]))),
    ("ethernet-input", "neither an 802.3 length nor an ethernet type", |_, ports| {
        ports[0].receive(length_frame(ports, 1501, &[0; 1501]));
    }),
    ("ethernet-input", "neither an 802.3 length nor an ethernet type", |_, ports| {
        ports[0].receive(length_frame(ports, 1535, &[0; 1600]));
    }),
    // Two bytes and padding.
    ("llc-input", "llc header truncated", |_, ports| ports[0].receive(length_frame(ports, 2, &[0x42; 46]))),
    ("llc-input", "punted: llc spanning tree (sap 0x42)", |_, ports| llc(ports, &[0x42, 0x42, 3])),
    ("llc-input", "punted: llc osi network layer (sap 0xfe)", |_, ports| llc(ports, &[0xfe, 0xfe, 3])),
    ("llc-input", "punted: llc netbios (sap 0xf0)", |_, ports| llc(ports, &[0xf0, 0xf1, 3])),
    ("llc-input", "punted: llc ipx (sap 0xe0)", |_, ports| llc(ports, &[0xe0, 0xe0, 3])),
    ("llc-input", "punted: llc null sap (0x00)", |_, ports| llc(ports, &[0, 0x42, 0xaf])),
    ("llc-input", "punted: unknown llc ssap/dsap", |_, ports| llc(ports, &[0x06, 0x06, 3])),
    ("llc-input", "punted: unknown llc ssap/dsap", |_, ports| llc(ports, &[0x42, 0xfe, 3])),
    ("llc-input", "punted: llc control != 0x3", |_, ports| llc(ports, &[0xaa, 0xaa, 0x13])),
    ("snap-input", "snap header truncated", |_, ports| llc(ports, &[0xaa, 0xaa, 3, 0, 0, 0, 8])),
    ("snap-input", "punted: snap ethertype (oui 00:00:00)", |_, ports| llc(ports, &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0])),
    ("snap-input", "punted: snap cisco (oui 00:00:0c)", |_, ports| llc(ports, &[0xaa, 0xaa, 3, 0, 0, 12, 32, 0])),
    ("snap-input", "punted: snap appletalk (oui 08:00:07)", |_, ports| {
        llc(ports, &[0xaa, 0xaa, 3, 8, 0, 7, 0x80, 0x9b]);
    }),
    ("snap-input", "punted: unknown oui/snap protocol", |_, ports| llc(ports, &[0xaa, 0xaa, 3, 1, 2, 3, 4, 5])),
    ("ip4-input", "ip4 not enabled", |bed, ports| {
        bed.router.remove_address(ports[0].index, "10.0.0.1/24".parse().unwrap()).unwrap();
        ports[0].receive_packet(&udp("10.0.1.2"));
    }),
    ("ip4-input", "ip4 not enabled", |bed, ports| {
        bed.router.remove_address(ports[0].index, "10.0.0.1/24".parse().unwrap()).unwrap();
        ports[0].receive_packet(&Packet::udp("127.0.0.1", "255.255.255.255", b""));
    }),
    ("ip4-input", "ip4 length < 20 bytes", |_, ports| spoilt(ports, udp("10.0.1.2"), |frame| frame.truncate(33))),
    ("ip4-input", "ip4 length < 20 bytes", |_, ports| {
        // The rest of the header is in the next buffer. The bytes after the first part look like a header's by chance.
        let frame = udp("165.165.165.165").frame(ports[0].mac, STRANGER);
        let rest = frame.len() - 30;
        ports[0].receive(Arrival::from(frame).in_parts(&[30, rest]));
    }),
    ("ethernet-input", "unknown vlan", |_, ports| {
        spoilt(ports, udp("10.0.1.2"), |frame| drop(frame.splice(12..12, [0x81, 0x00, 0, 100])));
    }),
    ("ethernet-input", "subinterface down", |bed, ports| {
        bed.command("create sub-interfaces e0 100").unwrap();
        bed.run();
        spoilt(ports, udp("10.0.1.2"), |frame| drop(frame.splice(12..12, [0x81, 0x00, 0, 100])));
    }),
    ("ethernet-input", "frame ends within a vlan tag", |_, ports| {
        spoilt(ports, udp("10.0.1.2"), |frame| {
            frame[12..14].copy_from_slice(&[0x88, 0xa8]);
            frame.truncate(17);
        });
    }),
    ("ethernet-input", "more than two vlan tags", |_, ports| {
        spoilt(ports, udp("10.0.1.2"), |frame| {
            drop(frame.splice(12..12, [0x88, 0xa8, 0, 10, 0x81, 0x00, 0, 20, 0x81, 0x00, 0, 30]));
        });
    }),
    ("ip4-input", "ip4 version != 4", |_, ports| {
        spoilt(ports, udp("10.0.1.2"), |frame| {
            frame[14] = 0x55;
            seal(frame, 14);
        });
    }),
    ("ip4-input", "ip4 header length < 20 bytes", |_, ports| {
        spoilt(ports, udp("10.0.1.2"), |frame| {
            frame[14] = 0x44;
            seal(frame, 14);
        });
    }),
    ("ip4-input", "ip4 header longer than the packet", |_, ports| {
        spoilt(ports, udp("10.0.1.2"), |frame| frame[14] = 0x4f);
    }),
    ("ip4-input", "ip4 length > l2 length", |_, ports| {
        spoilt(ports, udp("10.0.1.2"), |frame| {
            frame[17] += 1;
            seal(frame, 14);
        });
    }),
    ("ip4-input", "ip4 total length < header length", |_, ports| {
        spoilt(ports, udp("10.0.1.2"), |frame| {
            frame[17] = 19;
            seal(frame, 14);
        });
    }),
    ("ip4-input", "ip4 total length < header length", |_, ports| {
        spoilt(ports, udp("10.0.1.2").options(&[1; 8]), |frame| {
            frame[17] = 27;
            seal(frame, 14);
        });
    }),
    ("ip4-input", "ip4 fragment ends beyond 65535 bytes", |_, ports| {
        ports[0].receive_packet(&Packet::new("10.0.0.2", "10.0.1.2", ICMP, &[0; 8]).fragment(0x1fff));
    }),
    ("ip4-input", "ip4 fragment ends beyond 65535 bytes", |_, ports| {
        ports[0].receive_packet(&Packet::new("10.0.0.2", "10.0.0.1", UDP, &[0; 1400]).fragment(0x1f60));
    }),
    ("ip4-input", "ip4 fragment without data", |_, ports| {
        ports[0].receive_packet(&Packet::new("10.0.0.2", "10.0.1.2", UDP, &[]).fragment(MORE_FRAGMENTS));
    }),
    ("ip4-input", "ip4 fragment without data", |_, ports| {
        ports[0].receive_packet(&Packet::new("10.0.0.2", "10.0.1.2", UDP, &[]).options(&[1; 4]).fragment(4));
    }),
    ("ip4-input", "ip4 fragment length is no multiple of 8", |_, ports| {
        ports[0].receive_packet(&Packet::new("10.0.0.2", "10.0.1.2", UDP, &[0; 20]).fragment(MORE_FRAGMENTS | 4));
    }),
    ("ip4-input", "ip4 fragment offset == 1", |_, ports| {
        ports[0].receive_packet(&Packet::new("10.0.0.2", "10.0.1.2", TCP, &[0; 24]).fragment(1));
    }),
    ("ip4-input", "tcp header split over fragments", |_, ports| {
        ports[0].receive_packet(&Packet::new("10.0.0.2", "10.0.1.2", TCP, &[0; 8]).fragment(MORE_FRAGMENTS));
    }),
    ("ip4-input", "source martian", |_, ports| drop(ports[0].receive_packet(&Packet::udp("0.1.2.3", "10.0.1.2", b"")))),
    ("ip4-input", "source martian", |_, ports| {
        drop(ports[0].receive_packet(&Packet::udp("127.0.0.1", "10.0.1.2", b"")))
    }),
    ("ip4-input", "source martian", |_, ports| {
        drop(ports[0].receive_packet(&Packet::udp("224.0.0.5", "10.0.1.2", b"")))
    }),
    ("ip4-input", "source martian", |_, ports| {
        drop(ports[0].receive_packet(&Packet::udp("240.1.1.1", "10.0.0.1", b"")))
    }),
    ("ip4-input", "source martian", |_, ports| {
        ports[0].receive_packet(&Packet::udp("255.255.255.255", "10.0.0.1", b"").options(&[1; 4]));
    }),
    ("ip4-input", "source martian", |_, ports| {
        ports[0].receive_packet(&Packet::udp("0.0.0.1", "255.255.255.255", b""));
    }),
    ("ip4-input", "destination martian", |_, ports| drop(ports[0].receive_packet(&udp("0.0.0.0")))),
    ("ip4-input", "destination martian", |_, ports| drop(ports[0].receive_packet(&udp("127.0.0.1")))),
    ("ip4-input", "destination martian", |_, ports| {
        drop(ports[0].receive_packet(&udp("255.255.255.254").options(&[1; 4])))
    }),
    ("ip4-input", "multicast not routed", |_, ports| drop(ports[0].receive_packet(&udp("224.1.2.3").ttl(1)))),
    ("ip4-input", "multicast not routed", |_, ports| {
        spoilt(ports, udp("224.1.2.3"), |frame| frame[..6].copy_from_slice(&[1, 0, 0x5e, 1, 2, 3]));
    }),
    ("ip4-input", "bad ip4 checksum", |_, ports| spoilt(ports, udp("10.0.1.2"), |frame| frame[18] ^= 1)),
    ("ip4-input", "bad ip4 checksum", |_, ports| {
        spoilt(ports, udp("10.0.1.2").options(&[1; 8]), |frame| frame[35] ^= 1);
    }),
    ("ip4-lookup", "blackholed packets", |_, ports| drop(ports[0].receive_packet(&udp("20.1.2.3")))),
    ("ip4-lookup", "directed broadcast not sent on", |_, ports| drop(ports[0].receive_packet(&udp("10.0.1.255")))),
    ("ip4-lookup", "blackholed packets", |_, ports| drop(ports[0].receive_packet(&udp("10.0.1.0")))),
    ("ip4-load-balance", "blackholed packets", |bed, ports| {
        let path = |way| router::ip::control::Path::new(way);
        let hop = PathAction::Via { next_hop: ip("10.0.1.2").into(), interface: None };
        let paths = vec![router::ip::control::Path::weighing(PathAction::Drop, 255), path(hop)];
        bed.router
            .add_route("24.0.0.0/8".parse::<wire::Prefix>().unwrap(), router::ip::control::Source::Config, paths, true)
            .unwrap();
        ports[0].receive_packet(&udp("24.1.2.3"));
    }),
    ("lookup-ip4-dst", "blackholed packets", |bed, ports| {
        leak(bed, &["ip route add table 9 25.0.0.0/8 via drop"]);
        ports[0].receive_packet(&udp("25.1.2.3"));
    }),
    ("lookup-ip4-dst", "directed broadcast not sent on", |bed, _| {
        let port = bed.port("leaky", &[]);
        for line in [
            "ip table add 8",
            "set interface ip table leaky 8",
            "set interface ip address leaky 172.16.0.1/24",
            "ip route add table 8 0.0.0.0/0 via ip4-lookup-in-table 0",
        ] {
            bed.command(line).unwrap();
        }
        port.receive_packet(&udp("10.0.1.255"));
    }),
    ("lookup-ip4-dst", "too many tables in a row", |bed, ports| {
        leak(bed, &["ip route add table 9 25.0.0.0/8 via ip4-lookup-in-table 0"]);
        ports[0].receive_packet(&udp("25.1.2.3"));
    }),
    ("ip4-route-counters", "blackholed packets", |bed, ports| {
        bed.command("set ip route counters 20.0.0.0/8 enable").unwrap();
        ports[0].receive_packet(&udp("20.1.2.3"));
    }),
    ("ip4-route-counters", "directed broadcast not sent on", |bed, ports| {
        bed.command("set ip route counters 10.0.1.255/32 enable").unwrap();
        ports[0].receive_packet(&udp("10.0.1.255"));
    }),
    ("ip4-punt-redirect", "punted, but no host interface takes it", |_, ports| {
        ports[0].receive_packet(&udp("21.1.2.3"));
    }),
    ("ip4-punt-redirect", "punted packet came back from the host", |bed, ports| {
        bed.command("ip punt redirect add rx all via 10.0.0.2 e0").unwrap();
        ports[0].receive_packet(&udp("21.1.2.3"));
    }),
    ("ip4-punt-redirect", "punted packets limited by rate", |bed, ports| {
        bed.command("ip punt redirect add rx all via 10.0.1.2 e1").unwrap();
        bed.command("set ip punt rate 1").unwrap();
        bed.run();
        (0..2).for_each(|_| drop(ports[0].receive_packet(&udp("10.0.0.1"))));
    }),
    ("ip4-frag", "malformed packet", |bed, ports| {
        bed.router.set_mtu(ports[1].index, 100).unwrap();
        let packet = Packet::udp("10.0.0.2", "10.0.1.2", &[0; 100]);
        let mut arrival = Arrival::from(packet.frame(ports[0].mac, STRANGER));
        arrival.flags = flag::PARTIAL_CHECKSUM;
        arrival.offload = Offload { checksum_start: 500, checksum_offset: 16, ..Offload::default() };
        ports[0].receive(arrival);
    }),
    ("ip4-rewrite", "group-addressed frame is not forwarded", |_, ports| {
        spoilt(ports, udp("10.0.1.2"), |frame| frame[..6].fill(0xff));
    }),
    ("ip4-arp", "hold queue full", |bed, ports| {
        bed.route("25.0.0.0/8", &["10.0.2.99"]);
        (0..=HELD_PER_NEIGHBOUR).for_each(|_| drop(ports[0].receive_packet(&udp("25.1.1.1"))));
    }),
    ("ip4-arp", "hold queue full", |_, ports| {
        (0..=HELD_PER_NEIGHBOUR).for_each(|_| drop(ports[0].receive_packet(&udp("10.0.2.99"))));
    }),
    ("ip4-arp", "too many packets wait for neighbours", |bed, ports| {
        let most = Bounds::of_share(bed.router.graph.pool().capacity() as usize).of_source;
        for packet in 0..=most {
            ports[0].receive_packet(&udp(&format!("10.0.2.{}", 100 + packet / HELD_PER_NEIGHBOUR)));
        }
    }),
    ("ip4-arp", "ARP requests throttled", |bed, ports| {
        bed.router.set_neighbour_rates(Family::Ip4, Rates { requests: 1, ..Rates::default() });
        ports[0].receive_packet(&udp("10.0.2.98"));
        ports[0].receive_packet(&udp("10.0.2.99"));
    }),
    ("arp-reply", "ARP message truncated", |_, ports| {
        let message = arp(REQUEST, (STRANGER, "10.0.0.2"), (MacAddress::ZERO, "10.0.0.1"));
        ports[0].receive(ethernet(MacAddress::BROADCAST, STRANGER, 0x0806, &message[..27]));
    }),
    ("arp-reply", "L2 type not ethernet", |_, ports| spoilt_arp(ports, |message| message[1] = 6)),
    ("arp-reply", "L3 type not IP4", |_, ports| spoilt_arp(ports, |message| message[2] = 0x86)),
    ("arp-reply", "ARP address lengths not 6 and 4", |_, ports| spoilt_arp(ports, |message| message[4] = 8)),
    ("arp-reply", "ARP address lengths not 6 and 4", |_, ports| spoilt_arp(ports, |message| message[5] = 16)),
    ("arp-reply", "ARP message truncated", |_, ports| {
        let message = arp(REQUEST, (STRANGER, "10.0.0.2"), (MacAddress::ZERO, "10.0.0.1"));
        let frame = ethernet(MacAddress::BROADCAST, STRANGER, 0x0806, &message);
        ports[0].receive(Arrival::from(frame).in_parts(&[40, 2]));
    }),
    ("arp-reply", "ARP opcode not request", |_, ports| {
        arp_from(ports, 3, (STRANGER, "10.0.0.9"), "10.0.0.1");
    }),
    ("arp-reply", "Interface is not IP enabled", |bed, ports| {
        bed.router.remove_address(ports[0].index, "10.0.0.1/24".parse().unwrap()).unwrap();
        arp_from(ports, REQUEST, (STRANGER, "10.0.0.9"), "10.0.0.1");
    }),
    ("arp-reply", "IP4 source address not local to subnet", |_, ports| {
        arp_from(ports, REQUEST, (STRANGER, "10.9.0.9"), "10.0.0.1");
    }),
    ("arp-reply", "IP4 destination address not local to subnet", |_, ports| {
        arp_from(ports, REQUEST, (STRANGER, "10.0.0.9"), "10.9.0.9");
    }),
    ("arp-reply", "ARP sender address is no host's", |_, ports| {
        arp_from(ports, REQUEST, (STRANGER, "10.0.0.255"), "10.0.0.1");
    }),
    ("arp-reply", "ARP sender address is no host's", |_, ports| {
        arp_from(ports, REQUEST, (STRANGER, "10.0.0.0"), "10.0.0.1");
    }),
    ("arp-reply", "ARP sender address is no host's", |_, ports| {
        arp_from(ports, REPLY, (STRANGER, "0.0.0.0"), "10.0.0.1");
    }),
    ("arp-reply", "ARP sender is a group address", |_, ports| {
        arp_from(ports, REQUEST, (MacAddress::BROADCAST, "10.0.0.9"), "10.0.0.1");
    }),
    ("arp-reply", "ARP sender is a group address", |_, ports| {
        arp_from(ports, REQUEST, (MacAddress::ZERO, "10.0.0.9"), "10.0.0.1");
    }),
    ("arp-reply", "ARP hw addr does not match L2 frame src addr", |_, ports| {
        arp_from(ports, REQUEST, (host_mac(ip("10.0.0.9")), "10.0.0.9"), "10.0.0.1");
    }),
    ("arp-reply", "IP4 source address matches local interface", |_, ports| {
        arp_from(ports, REQUEST, (STRANGER, "10.0.0.1"), "10.0.0.1");
    }),
    ("arp-reply", "ARP message of ours came back", |_, ports| {
        let message = arp(REQUEST, (ports[0].mac, "10.0.0.1"), (MacAddress::ZERO, "10.0.0.9"));
        ports[0].receive(ethernet(MacAddress::BROADCAST, ports[0].mac, 0x0806, &message));
    }),
    ("arp-reply", "ARP contradicts a static neighbour", |_, ports| {
        arp_from(ports, REPLY, (STRANGER, "10.0.0.2"), "10.0.0.1");
    }),
    ("arp-reply", "ARP replies received", |_, ports| {
        let known = host_mac(ip("10.0.0.2"));
        let message = arp(REPLY, (known, "10.0.0.2"), (ports[0].mac, "10.0.0.1"));
        ports[0].receive(ethernet(ports[0].mac, known, 0x0806, &message));
    }),
    ("arp-reply", "ARP reply not asked for", |_, ports| arp_from(ports, REPLY, (STRANGER, "10.0.0.9"), "10.0.0.1")),
    ("arp-reply", "ARP reply to another address", |_, ports| {
        arp_from(ports, REPLY, (STRANGER, "10.0.0.9"), "10.0.0.8");
    }),
    ("arp-reply", "ARP announcements", |bed, ports| {
        bed.router.set_arp_accept(true);
        arp_from(ports, REQUEST, (STRANGER, "10.0.0.9"), "10.0.0.9");
    }),
    ("arp-reply", "ARP probe or announcement dropped", |_, ports| {
        arp_from(ports, REQUEST, (STRANGER, "10.0.0.9"), "10.0.0.9");
    }),
    ("arp-reply", "ARP probe or announcement dropped", |_, ports| {
        arp_from(ports, REPLY, (STRANGER, "10.0.0.9"), "10.0.0.9");
    }),
    ("arp-reply", "ARP request for another address", |_, ports| {
        arp_from(ports, REQUEST, (STRANGER, "10.0.0.9"), "10.0.0.8");
    }),
    ("arp-reply", "ARP request for another address", |_, ports| {
        arp_from(ports, REQUEST, (STRANGER, "0.0.0.0"), "0.0.0.0");
    }),
    ("ip4-rx-urpf", "uRPF drop (strict)", |bed, ports| {
        bed.command("set urpf ip4 strict e0").unwrap();
        ports[0].receive_packet(&Packet::udp("10.0.1.7", "10.0.1.2", b""));
    }),
    ("ip4-rx-urpf", "uRPF drop (loose)", |bed, ports| {
        bed.command("set urpf ip4 loose e0").unwrap();
        ports[0].receive_packet(&Packet::udp("77.0.1.7", "10.0.1.2", b""));
    }),
    ("ip4-local", "ip4 spoofed local-address packet drops", |_, ports| {
        ports[0].receive_packet(&Packet::echo_request("10.0.0.1", "10.0.0.1", b"data"));
    }),
    ("ip4-local", "ip4 spoofed local-address packet drops", |_, ports| {
        ports[0].receive_packet(&Packet::echo_request("10.0.1.1", "10.0.0.1", b"data"));
    }),
    ("ip4-local", "ip4 source lookup miss", |_, ports| {
        ports[0].receive_packet(&Packet::echo_request("77.0.1.7", "10.0.0.1", b"data"));
    }),
    ("ip4-local", "ip4 source lookup miss", |_, ports| {
        ports[0].receive_packet(&Packet::echo_request("10.0.0.255", "10.0.0.1", b"data"));
    }),
    ("ip4-local-full-reassembly", "duplicate fragments", |_, ports| {
        let fragment = Packet::new("10.0.0.2", "10.0.0.1", ICMP, &[1; 8]).fragment(MORE_FRAGMENTS | 1);
        (0..2).for_each(|_| drop(ports[0].receive_packet(&fragment)));
    }),
    ("ip4-local-full-reassembly", "malformed packets", |_, ports| {
        let fragment = Packet::new("10.0.0.2", "10.0.0.1", ICMP, &[1; 8]).fragment(MORE_FRAGMENTS | 1);
        let mut arrival = Arrival::from(fragment.frame(ports[0].mac, STRANGER));
        arrival.flags = flag::PARTIAL_CHECKSUM;
        ports[0].receive(arrival);
    }),
    ("ip4-udp-lookup", "udp header truncated", |_, ports| {
        ports[0].receive_packet(&Packet::new("10.0.0.2", "10.0.0.1", UDP, &[0; 7]));
    }),
    ("ip4-udp-lookup", "inconsistent udp/ip lengths", |_, ports| {
        ports[0].receive_packet(&of_udp_length(7));
    }),
    ("ip4-udp-lookup", "inconsistent udp/ip lengths", |_, ports| {
        ports[0].receive_packet(&of_udp_length(13));
    }),
    ("ip4-udp-lookup", "bad udp checksum", |_, ports| {
        let mut packet = udp("10.0.0.1");
        packet.payload[8] ^= 1;
        ports[0].receive_packet(&packet);
    }),
    ("tcp4-reset", "inconsistent ip/tcp lengths", |_, ports| {
        ports[0].receive_packet(&Packet::new("10.0.0.2", "10.0.0.1", TCP, &[0; 19]));
    }),
    ("tcp4-reset", "inconsistent ip/tcp lengths", |_, ports| {
        ports[0].receive_packet(&segment(|payload| payload[12] = 0x40));
    }),
    ("tcp4-reset", "inconsistent ip/tcp lengths", |_, ports| {
        ports[0].receive_packet(&segment(|payload| payload[12] = 0x70));
    }),
    ("tcp4-reset", "bad tcp checksum", |_, ports| {
        let mut packet = segment(|_| {});
        packet.payload[7] ^= 1;
        ports[0].receive_packet(&packet);
    }),
    ("tcp4-reset", "no TCP reset about a reset", |_, ports| {
        ports[0].receive_packet(&segment(|payload| payload[13] = 0x14));
    }),
    ("tcp4-reset", "no TCP reset about a group-addressed segment", |_, ports| {
        spoilt(ports, segment(|_| {}), |frame| frame[..6].fill(0xff));
    }),
    ("tcp4-reset", "no TCP reset about a group-addressed segment", |bed, ports| {
        bed.route_way("255.255.255.255/32", PathAction::LocalAnywhere);
        let mut packet = segment(|_| {});
        packet.destination = ip("255.255.255.255");
        packet.fill_transport_checksum(16);
        ports[0].receive_packet(&packet);
    }),
    ("ip4-icmp-input", "ICMP message shorter than its header", |_, ports| {
        ports[0].receive_packet(&to_us(&icmp(8, 0, 7, b"")[..7]));
    }),
    ("ip4-icmp-input", "bad ICMP checksum", |_, ports| {
        let mut message = icmp(8, 0, 7, b"data");
        message[9] ^= 1;
        ports[0].receive_packet(&to_us(&message));
    }),
    ("ip4-punt-redirect", "ICMP type not handled", |_, ports| {
        ports[0].receive_packet(&to_us(&icmp(13, 0, 7, b"data")));
    }),
    ("ip4-icmp-input", "ICMP echo to a group address ignored", |_, ports| {
        spoilt(ports, to_us(&icmp(8, 0, 7, b"data")), |frame| frame[..6].fill(0xff));
    }),
    ("ip4-icmp-error", "no ICMP error about an ICMP error", |_, ports| {
        let message = icmp(11, 0, 0, &udp("10.0.1.2").bytes());
        ports[0].receive_packet(&Packet::new("10.0.0.2", "10.0.1.2", ICMP, &message).ttl(1));
    }),
    ("ip4-icmp-error", "no ICMP error about a later fragment", |_, ports| {
        ports[0].receive_packet(&udp("10.0.1.2").ttl(1).fragment(10));
    }),
    ("ip4-icmp-error", "no ICMP error about a group-addressed packet", |_, ports| {
        spoilt(ports, udp("99.1.2.3"), |frame| frame[..6].fill(0xff));
    }),
    ("ip4-icmp-error", "no ICMP error about a group-addressed packet", |_, ports| {
        ports[0].receive_packet(&udp("255.255.255.255"));
    }),
    ("ip4-icmp-error", "no ICMP error about a group-addressed packet", |_, ports| {
        ports[0].receive_packet(&Packet::udp("0.0.0.0", "255.255.255.255", b"dhcp"));
    }),
    ("ip4-icmp-input", "ICMP echo to a group address ignored", |_, ports| {
        ports[0].receive_packet(&Packet::echo_request("10.0.0.2", "255.255.255.255", b"data"));
    }),
    // The broadcast address of an attached network.
    ("ip4-icmp-error", "no ICMP error to a source that is not one host", |_, ports| {
        ports[0].receive_packet(&Packet::udp("10.0.0.255", "99.1.2.3", b"data"));
    }),
    // The router's own answer finds no route back, and causes no error.
    ("ip4-icmp-error", "no ICMP error about a packet of ours", |_, ports| {
        ports[0].receive_packet(&Packet::udp("99.1.1.1", "99.9.9.9", b""));
    }),
    // Our own address as the source: the error comes back to us.
    ("ip4-icmp-input", "packet of ours came back to us", |_, ports| {
        ports[0].receive_packet(&Packet::udp("10.0.0.1", "99.9.9.9", b""));
    }),
    ("e1-tx", "device has no room", |_, ports| {
        ports[1].refuse_next(FULL);
        ports[0].receive_packet(&udp("10.0.1.2"));
    }),
    ("e1-tx", "device refused the packet", |_, ports| {
        ports[1].refuse_next(REFUSED);
        ports[0].receive_packet(&udp("10.0.1.2"));
    }),
    ("e1-tx", "packet is longer than the device's mtu", |_, ports| {
        ports[1].refuse_next(TOO_LONG);
        ports[0].receive_packet(&udp("10.0.1.2"));
    }),
    ("e1-tx", "device dropped the packet", |_, ports| {
        ports[1].refuse_next(DROPPED);
        ports[0].receive_packet(&udp("10.0.1.2"));
    }),
    ("loop0-tx", "nothing is behind a loopback interface", |bed, ports| {
        let index = loopback(bed);
        bed.router.add_address(index, prefix("26.0.0.1/24")).unwrap();
        ports[0].receive_packet(&udp("26.0.0.2"));
    }),
    ("e1-output", "offload request makes no sense", |_, ports| {
        let mut arrival = Arrival::from(udp("10.0.1.2").frame(ports[0].mac, STRANGER));
        arrival.flags = flag::PARTIAL_CHECKSUM;
        arrival.offload = Offload { checksum_start: 500, checksum_offset: 16, ..Offload::default() };
        ports[0].receive(arrival);
    }),
    ("e1-output", "offload request makes no sense", |_, ports| {
        let mut arrival = Arrival::from(udp("10.0.1.2").frame(ports[0].mac, STRANGER));
        arrival.flags = flag::SEGMENTED;
        let segmentation =
            Offload { segment_size: 1, header_length: 40, kind: Segmentation::Tcp4, ..Offload::default() };
        arrival.offload = segmentation;
        ports[0].receive(arrival);
    }),
];

#[test]
fn each_end_of_a_packet_has_its_name_and_counts_once() {
    for (number, (node, reason, act)) in CASES.iter().enumerate() {
        let (mut bed, ports) = bed();
        let mut moved = bed.errors_of(|bed| act(bed, &ports));
        // The error that comes back to us was also counted when it was sent.
        moved.retain(|(node, reason), _| !(node == "ip4-icmp-error" && reason.ends_with(" sent")));
        assert_eq!(moved, error(node, reason, 1), "case {number}");
        assert_in_the_ledger(&mut bed, node, reason);
    }
}

/// Checks that one packet ended by that name, as a drop unless its work was done, and that its buffer is free.
pub fn assert_in_the_ledger(bed: &mut Bed, node: &str, reason: &str) {
    let errors = bed.router.graph.errors();
    let known = errors.iter().find(|known| known.node == node && known.reason == reason).expect("just counted");
    let done = u64::from(known.outcome == Outcome::Done);
    // A packet that causes an error is dropped, too.
    let counts = bed.router.graph.counters();
    let of = |(number, error): (usize, &ErrorInfo)| match error.outcome {
        Outcome::Dropped => counts.errors.sum(number, 0),
        Outcome::Done | Outcome::Counted => 0,
    };
    let dropped: u64 = errors.iter().enumerate().map(of).sum();
    assert!(dropped + done > 0, "{node}: {reason}");
    let ledger = bed.worker.core().ledger();
    assert_eq!((ledger.dropped, ledger.consumed), (dropped, done), "{node}: {reason}");
    assert_eq!(bed.buffers_in_use(), bed.held(), "{node}: {reason}");
}

#[test]
fn frames_of_control_stop_at_an_interface_that_went_down() {
    let (mut bed, [_, e1, _]) = bed();
    // The announcement is on its way when the interface goes down again.
    bed.router.set_admin(e1.index, false).unwrap();
    bed.run();
    let moved = bed.errors_of(|bed| {
        bed.router.set_admin(e1.index, true).unwrap();
        bed.router.set_admin(e1.index, false).unwrap();
    });
    assert_eq!(moved, error("e1-output", "interface is down", 1));
    assert_eq!(e1.sent(), Vec::<Vec<u8>>::new());
}

#[test]
fn frames_of_control_stop_at_a_sub_interface_that_went_down() {
    let (mut bed, [e0, ..]) = bed();
    bed.command("create sub-interfaces e0 100").unwrap();
    bed.command("set interface ip address e0.100 10.9.0.1/24").unwrap();
    bed.run();
    e0.sent();
    let sub = bed.router.interfaces.find("e0.100").unwrap();
    // The announcement is on its way when the sub-interface goes down again.
    let moved = bed.errors_of(|bed| {
        bed.router.set_admin(sub, true).unwrap();
        bed.router.set_admin(sub, false).unwrap();
    });
    assert_eq!(moved, error("e0.100-output", "interface is down", 1));
    assert_eq!((e0.sent(), bed.buffers_in_use()), (Vec::<Vec<u8>>::new(), 0));
}

#[test]
fn loopback_addresses_never_leave() {
    let (mut bed, [_, e1, _]) = bed();
    bed.route("127.0.0.0/8", &["10.0.1.2"]);
    let mut reply = None;
    let mut moved = bed.errors_of(|bed| reply = Some(bed.begin("ping 127.0.0.1 repeat 1").unwrap()));
    assert_eq!(moved.remove(&("ip4-ping".into(), "echo requests sent".into())), Some(1));
    assert_eq!(moved, error("ip4-rewrite", "loopback address would leave the router", 1));
    assert_eq!(e1.sent(), Vec::<Vec<u8>>::new());
}

#[test]
fn control_that_does_not_listen_costs_packets_not_memory() {
    let (mut bed, [e0, ..]) = bed();
    let most = 1_000_000;
    bed.router.set_neighbour_rates(Family::Ip4, Rates { requests: most, replies: most, learning: most });
    bed.router.set_arp_accept(true);
    let events = router::EVENT_QUEUE;
    for n in 0..events + 100 {
        let mac = MacAddress([2, 1, 0, 0, (n >> 8) as u8, n as u8]);
        let message = arp(REPLY, (mac, "10.0.0.9"), (e0.mac, "10.0.0.9"));
        e0.receive(ethernet(MacAddress::BROADCAST, mac, 0x0806, &message));
    }
    let before = bed.errors();
    while bed.worker.round() != graph::Progress::Idle {}
    assert_eq!(before, Errors::new());
    // Packets for unknown hosts cannot be asked for either.
    e0.receive_packet(&udp("10.0.1.77"));
    bed.route("25.0.0.0/8", &["10.0.2.99"]);
    e0.receive_packet(&udp("25.1.1.1"));
    while bed.worker.round() != graph::Progress::Idle {}
    let mut expected = error("arp-reply", "control is busy, not learned", 100);
    expected.extend(error("arp-reply", "ARP announcements", events as u64));
    expected.extend(error("ip4-arp", "control is busy, not asked", 2));
    assert_eq!(bed.errors(), expected);
    bed.run();
    assert_eq!(bed.held(), 0);
}

#[test]
fn no_buffer_is_counted_where_one_was_wanted() {
    let mut bed = Bed::with_buffers(1024);
    let e0 = bed.port("e0", &["10.0.0.1/24"]);
    let mut all = vec![graph::PacketIndex::NONE; 1024];
    let got = bed.worker.core().buffers.allocate(&mut all);
    assert_eq!(got, 1024);
    e0.receive_packet(&udp("10.0.0.1"));
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, error("test-input", "no free buffer", 1));
    let moved = bed.errors_of(|bed| bed.router.add_address(e0.index, "11.0.0.1/24".parse().unwrap()).unwrap());
    assert_eq!(moved, error("control-input", "no free buffer", 1));
    // One buffer: enough to receive a packet, not to cut it in two.
    let e1 = bed.port_that_finishes("e1", TxOffloads::default());
    bed.router.set_admin(e1.index, true).unwrap();
    bed.router.add_address(e1.index, "10.0.1.1/24".parse().unwrap()).unwrap();
    bed.know(&e1, "10.0.1.2");
    bed.run();
    bed.worker.core().buffers.free(&all[..1]);
    let packet = Packet::tcp("10.0.0.2", "10.0.1.2", 1, &[0; 20]);
    let mut arrival = Arrival::from(packet.frame(e0.mac, STRANGER));
    arrival.flags = flag::SEGMENTED;
    arrival.offload = Offload { segment_size: 10, header_length: 40, kind: Segmentation::Tcp4, ..Offload::default() };
    e0.receive(arrival);
    let moved = bed.errors_of(|_| {});
    assert_eq!(moved, error("e1-output", "no free buffer to segment into", 1));
    bed.worker.core().buffers.free(&all[1..]);
}

/// Makes 25.0.0.0/8 be looked up in another table.
fn leak(bed: &mut Bed, more: &[&str]) {
    let lines = ["ip table add 9", "ip route add 25.0.0.0/8 via ip4-lookup-in-table 9"];
    lines.iter().chain(more).for_each(|line| drop(bed.command(line).unwrap()));
}

/// Names that no packet from outside can cause in this bed, and why.
const NOT_REACHED: &[(&str, &str)] = &[
    // Tested end to end, with a stuck worker.
    ("pg-stall", "stalled as they were told to"),
    // The routes of addresses have one path each.
    ("ip4-load-balance", "directed broadcast not sent on"),
    ("interface-output-arc-end", "no such interface"),
    // No feature of this router changes packets.
    ("ip6-local-end-of-arc", "ip6 extension headers spoilt by a feature"),
    // Only when an interface is deleted while its packets are in a round.
    ("ethernet-input", "interface is gone"),
    ("interface-output", "no such interface"),
    // Guards against inconsistent tables.
    ("ip4-lookup", "route leads to nothing"),
    ("ip4-load-balance", "route leads to nothing"),
    ("lookup-ip4-dst", "route leads to nothing"),
    ("ip4-route-counters", "route leads to nothing"),
    // Counted by `lookup-ip4-dst`.
    ("ip4-lookup", "too many tables in a row"),
    ("ip4-route-counters", "too many tables in a row"),
    ("ip4-load-balance", "too many tables in a row"),
    // A guard: such sources do not pass `ip4-input`.
    ("tcp4-reset", "no TCP reset to a source that is not one host"),
    // Only when the address is removed while its packets are in a round.
    ("ip4-icmp-error", "no address to send an ICMP error from"),
    // No interface has an MTU that small; tested with the node.
    ("ip4-frag", "mtu too small to fragment for"),
    // Buffers have room for the longest link header.
    ("ip4-rewrite", "no room for the link header"),
    // Tested with the clock, in `icmp`.
    ("ip4-icmp-error", "ICMP errors limited by rate"),
    // Tested with the clock, in `local`.
    ("tcp4-reset", "TCP resets limited by rate"),
    // A counter of the device, tested with the drivers.
    ("test-input", "malformed device header"),
    ("test-input", "frame too long"),
    ("test-input", "missed by the kernel's ring"),
    // A counter of the generator, tested with `commands`.
    ("pg-input", "interface is down"),
    ("pg-input", "no free buffer"),
    // Only packets are put together from fragments, and IPv6 is the same code.
    ("linux-cp-punt-ip6", "packet too long for a frame"),
    ("linux-cp-punt-l2", "packet too long for a frame"),
    ("linux-cp-arp-phy", "packet too long for a frame"),
    // Behind features only: in `arcs`.
    ("llc-input", "unknown ethernet type"),
    // A counter of the dispatcher, tested with it.
    ("dispatcher", "recirculated too often"),
    ("dispatcher", "edge leads nowhere"),
    ("dispatcher", "node panicked"),
    ("dispatcher", "congestion drop between workers"),
];

/// Counted by the other tests of this file.
const OTHER_TESTS: &[(&str, &str)] = &[
    // In `span`.
    ("span-input", "no free buffer to mirror into"),
    ("span-output", "no free buffer to mirror into"),
    ("arp-reply", "control is busy, not learned"),
    ("ip4-arp", "control is busy, not asked"),
    // In `linux_cp`.
    ("arp-reply", "ARP request that the host answers"),
    ("icmp6-neighbor-discovery", "solicitation that the host answers"),
    ("linux-cp-arp-phy", "no free buffer to copy into"),
    ("linux-cp-punt-ip4", "packet too long for a frame"),
    // The same code.
    ("linux-cp-punt-ip4", "no free buffer to copy into"),
    ("linux-cp-punt-ip6", "no free buffer to copy into"),
    ("linux-cp-punt-l2", "no free buffer to copy into"),
    ("ip4-rewrite", "loopback address would leave the router"),
    ("test-input", "no free buffer"),
    ("control-input", "no free buffer"),
    ("e1-output", "no free buffer to segment into"),
    ("e1-output", "interface is down"),
];

/// Counted by the tests of ARP.
const ARP: &[(&str, &str)] = &[
    ("arp-reply", "ARP replies limited by rate"),
    ("arp-reply", "ARP learning limited by rate"),
    ("ip4-arp", "neighbour did not answer lately"),
];

/// Counted by the tests of DHCP.
const DHCP: &[(&str, &str)] = &[
    ("ip4-dhcp-client", "DHCP messages for our clients"),
    ("ip4-dhcp-client", "DHCP message for another client"),
    ("ip4-dhcp-client", "malformed DHCP message"),
    ("ip4-dhcp-client", "too many DHCP answers"),
    ("ip4-dhcp-client", "control is busy, DHCP answer not told"),
];

/// Counted by the tests of pings.
const PINGS: &[(&str, &str)] = &[
    ("ip4-icmp-input", "ICMP answers to our requests"),
    ("ip4-icmp-error", "echo requests of this router that were not forwarded"),
    ("ip4-icmp-input", "control is busy, answer not told"),
    ("ip4-ping", "control is busy, not sent"),
    ("ip4-ping", "no free buffer"),
];

/// Counted by the tests of fragmentation.
const FRAGMENTATION: &[(&str, &str)] = &[
    ("ip4-rewrite", "ip4 MTU exceeded and DF set"),
    ("ip4-frag", "could not allocate buffer"),
    ("ip4-frag", "packet fragmented"),
    ("ip4-frag", "number of sent fragments"),
];

/// Counted by the tests of reassembly.
const REASSEMBLY: &[(&str, &str)] = &[
    ("ip4-local-full-reassembly", "overlapping fragments"),
    ("ip4-local-full-reassembly", "last fragments disagree"),
    ("ip4-local-full-reassembly", "fragments disagree on congestion"),
    ("ip4-local-full-reassembly", "fragment chain too long"),
    ("ip4-local-full-reassembly", "fragment of a discarded datagram"),
    ("ip4-local-full-reassembly", "reassembled datagram beyond 65535 bytes"),
    ("ip4-local-full-reassembly", "out of buffers"),
    ("ip4-local-full-reassembly", "drops due to concurrent reassemblies limit"),
    ("ip4-local-full-reassembly", "drops due to reassemblies limit of one source"),
    ("ip4-local-full-reassembly", "fragments dropped due to reassembly timeout"),
    ("ip4-local-full-reassembly", "successful reassemblies"),
    ("ip4-local-full-reassembly", "reassembly timeout, sender told"),
];

/// Events that are counted though the packet goes on.
const EVENTS: &[(&str, &str)] = &[
    ("span-input", "packets mirrored"),
    ("span-output", "packets mirrored"),
    // Each is tested with its packet in `options`.
    ("ip4-options", "ip4 option without a length"),
    ("ip4-options", "ip4 option length too small"),
    ("ip4-options", "ip4 option longer than the header"),
    ("ip4-options", "ip4 option pointer too small"),
    ("ip4-options", "ip4 option has no room for a whole entry"),
    ("ip4-options", "ip4 option appears twice"),
    ("ip4-options", "ip4 timestamp overflow"),
    ("ip4-options", "ip4 source route refused"),
    ("ip4-rewrite", "ip4 ttl 0 received"),
    ("ip4-ping", "echo requests sent"),
    ("arp-reply", "ARP replies sent"),
    ("arp-reply", "Proxy ARP replies sent"),
    ("arp-reply", "ARP request IP4 source address learned"),
    ("arp-reply", "asker answered, not learned"),
    ("ip4-icmp-input", "echo replies sent"),
    ("tcp4-reset", "TCP resets sent"),
    ("e1-output", "checksums finished"),
    ("e1-output", "packets segmented"),
    ("ip4-icmp-error", "ICMP time exceeded sent"),
    ("ip4-icmp-error", "ICMP net unreachable sent"),
    ("ip4-icmp-error", "ICMP host unreachable sent"),
    ("ip4-icmp-error", "ICMP protocol unreachable sent"),
    ("ip4-icmp-error", "ICMP port unreachable sent"),
    ("ip4-icmp-error", "ICMP fragmentation needed sent"),
    ("ip4-icmp-error", "ICMP reassembly time exceeded sent"),
    ("ip4-icmp-error", "ICMP source route failed sent"),
    ("ip4-icmp-error", "ICMP admin prohibited sent"),
    ("ip4-icmp-error", "ICMP parameter problem sent"),
    ("ip4-redirect", "ICMP redirect sent"),
    ("ip4-redirect", "ICMP redirects limited by rate"),
    ("ip4-redirect", "no free buffer"),
];

#[test]
fn the_table_above_knows_every_name() {
    let (bed, _) = bed();
    let registered: BTreeSet<(String, String)> =
        bed.router.graph.errors().iter().map(|error| (error.node.clone(), error.reason.clone())).collect();
    let names = CASES.iter().map(|(node, reason, _)| (*node, *reason));
    let others = [NOT_REACHED, OTHER_TESTS, ARP, DHCP, PINGS, FRAGMENTATION, REASSEMBLY, EVENTS].concat();
    let known: BTreeSet<(String, String)> = names
        .chain(others)
        .chain(crate::drops6::names())
        .chain(crate::mpls_errors::names())
        .chain(crate::midchain::names())
        .map(|(node, reason)| (node.to_string(), reason.to_string()))
        .collect();
    // The ports are alike, so e1 stands for all. The checks of `ip4-input-no-checksum` are those of `ip4-input` (tested
    // in `input`).
    let alike =
        |node: &str| ["e0-", "e2-", "loop0-output", "ip4-input-no-checksum"].iter().any(|name| node.starts_with(name));
    let unknown: Vec<_> = registered.difference(&known).filter(|(node, _)| !alike(node)).collect();
    assert!(unknown.is_empty(), "no test for {unknown:?}");
    let vanished: Vec<_> = known.difference(&registered).collect();
    assert!(vanished.is_empty(), "no such end any more: {vanished:?}");
}

#[test]
fn neighbours_that_wait_are_given_up_in_time() {
    // The tests above leave packets pending: they must time out.
    let (mut bed, ports) = bed();
    ports[0].receive_packet(&udp("10.0.2.99"));
    bed.run();
    assert_eq!(bed.held(), 1);
    (0..4).for_each(|_| bed.advance(Duration::from_millis(1001)));
    assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0));
}
