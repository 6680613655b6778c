//! Headers that an interface puts in front of packets, and where they go with it.

use crate::bed::{Arrival, Bed, Port, error, host_mac, prefix};
use crate::mpls::{all, bed, labelled, mac6};
use crate::packet::*;
use crate::packet6::{Packet6, ip6};
use drivers::pg::{Content, Stream};
use features::handoff::{self, Handoff};
use graph::buffer::{Offload, Segmentation};
use graph::node::{Behaviour, Map, NodeSpec};
use graph::{Context, Feature, InterfaceIndex, Vector, edge, flag};
use protocols::midchain::{Encapsulation, FixUpNumber};
use protocols::mpls::key::LabelKey;
use protocols::object;
use router::Router;
use router::ip::control::{LabelTableIndex, Path, PathAction, Source, TableIndex};
use router::neighbour::NeighbourKey;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tables::ObjectHandle;
use wire::Family;

/// An IPv6, a UDP, a VXLAN and an Ethernet header: 70 bytes.
const LONG: usize = 40 + 8 + 8 + 14;
/// The same behind an IPv4 header.
const SHORT: usize = LONG - 20;

/// What is behind the network header: UDP with the port of its flow, VXLAN of network 5, Ethernet.
fn behind(port: u16, inside: usize) -> Vec<u8> {
    let udp = [port.to_be_bytes(), 4789u16.to_be_bytes(), (30 + inside as u16).to_be_bytes(), [0, 0]].concat();
    let ethernet = [2, 0, 0, 0, 0xaa, 1, 2, 0, 0, 0, 0xaa, 2, 8, 0];
    [&udp[..], &[8, 0, 0, 0, 0, 0, 5, 0], &ethernet].concat()
}

/// The port that stands for a packet's flow.
fn port_of(inside: &[u8]) -> u16 {
    0xc000 | u16::from(inside[19])
}

/// The whole packet that goes to a tunnel's end, with that many hops left.
fn encapsulated(to: &str, hops: u8, inside: &[u8]) -> Vec<u8> {
    let payload = [behind(port_of(inside), inside.len()), inside.to_vec()].concat();
    match to.contains(':') {
        true => Packet6 { hops, ..Packet6::new("2001:db8:1::1", to, 17, &payload) }.bytes(),
        false => Packet::new("10.0.1.1", to, 17, &payload).ttl(hops).id(0).bytes(),
    }
}

/// Lengths and the port; for IPv4 also the checksum.
fn complete(cx: &mut Context<'_>, vector: &mut Vector, run: Range<usize>) {
    for i in run {
        let row = vector.row(i);
        let (length, bytes) = (row.l3_length(), &mut cx.buffers.bytes_mut(row.packet)[usize::from(row.l3)..]);
        let size = if bytes[0] >> 4 == 6 { LONG } else { SHORT };
        let port = port_of(&bytes[size..]);
        let udp = size - 30;
        bytes[udp..udp + 2].copy_from_slice(&port.to_be_bytes());
        bytes[udp + 4..udp + 6].copy_from_slice(&((length - udp) as u16).to_be_bytes());
        if size == LONG {
            bytes[4..6].copy_from_slice(&((length - 40) as u16).to_be_bytes());
        } else {
            bytes[2..4].copy_from_slice(&(length as u16).to_be_bytes());
            bytes[10..12].fill(0);
            let sum = checksum(&bytes[..20]);
            bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        }
    }
}

fn header(to: &str, hops: u8) -> Vec<u8> {
    let size = if to.contains(':') { LONG } else { SHORT };
    encapsulated(to, hops, &[0; 20])[..size].to_vec()
}

fn into(to: &str, fix_up: Option<FixUpNumber>) -> Encapsulation {
    Encapsulation { header: header(to, 64), fix_up, table: TableIndex::DEFAULT }
}

/// A router that sends 20/8 and 2001:db8:20::/48 into a tunnel to an address.
fn tunnel(to: &str) -> (Bed, [Port; 3], Port, FixUpNumber) {
    let (mut bed, ports) = bed();
    let tunnel = bed.port("t0", &[]);
    let fix_up = bed.router.register_fix_up("test", complete).unwrap();
    bed.router.encapsulate(tunnel.index, into(to, Some(fix_up))).unwrap();
    all(&mut bed, &["ip route add 20.0.0.0/8 via t0", "ip route add 2001:db8:20::/48 via t0"]);
    (bed, ports, tunnel, fix_up)
}

/// What is sent for a packet, after its hop, by a port to its host.
fn framed(ports: &[Port; 3], at: usize, to: &str, inside: &[u8]) -> Vec<u8> {
    match to.contains(':') {
        true => ethernet(mac6(at), ports[at].mac, 0x86dd, &encapsulated(to, 64, inside)),
        false => {
            let host = host_mac(ip(&format!("10.0.{at}.2")));
            ethernet(host, ports[at].mac, 0x0800, &encapsulated(to, 64, inside))
        }
    }
}

/// Sends a packet of each of so many flows. Returns how many left by e1 and by e2; all must be as they should.
fn flows(bed: &mut Bed, ports: &[Port; 3], to: &str, count: u8) -> [usize; 2] {
    let packet = |n: u8| Packet::udp("10.0.0.2", &format!("20.0.0.{n}"), b"what is inside");
    (0..count).for_each(|n| {
        ports[0].receive_packet(&packet(n));
    });
    bed.run();
    let sent = [1, 2].map(|at| ports[at].sent());
    let mut expected: Vec<Vec<u8>> = (0..count).map(|n| packet(n).ttl(63).bytes()).collect();
    for (at, sent) in sent.iter().enumerate() {
        for frame in sent {
            let which = expected.iter().position(|inside| *frame == framed(ports, at + 1, to, inside));
            expected.remove(which.unwrap_or_else(|| panic!("by e{}: {frame:02x?}", at + 1)));
        }
    }
    sent.map(|sent| sent.len())
}

#[test]
fn a_header_of_70_bytes_goes_over_several_paths_with_its_exact_bytes() {
    let to = "2001:db8:99::1";
    let (mut bed, ports, tunnel, _) = tunnel(to);
    all(&mut bed, &["ip route add 2001:db8:99::/64 via 2001:db8:1::2 e1 via 2001:db8:2::2 e2"]);
    let [by_first, by_second] = flows(&mut bed, &ports, to, 200);
    assert!(by_first > 40 && by_second > 40 && by_first + by_second == 200, "{by_first} {by_second}");
    assert_eq!(bed.counters(&tunnel)[2..4], [200, 200 * (LONG + 20 + 8 + 14) as u64], "packets and bytes sent");
    // IPv6 inside takes the same way.
    let packet = Packet6::udp("2001:db8::2", "2001:db8:20::7", b"six");
    ports[0].receive(packet.frame(ports[0].mac, mac6(0)));
    bed.run();
    let sent: Vec<Vec<u8>> = [1, 2].into_iter().flat_map(|at| ports[at].sent()).collect();
    assert_eq!(sent[0][14..], encapsulated(to, 64, &packet.hops(63).bytes()));
    let shown = bed.command("show ip fib 20.0.0.1").unwrap();
    assert!(shown.contains("ipv4 via 0.0.0.0 t0: mtu:1500 next:1 flags:[fixup-test] 60000000"), "{shown}");
    assert!(shown.contains("stacked-on") && shown.contains("ipv6 via 2001:db8:2::2 e2"), "{shown}");
}

#[test]
fn the_header_follows_the_way_to_its_destination() {
    let to = "30.0.0.1";
    let (mut bed, ports, tunnel, _) = tunnel(to);
    let (left, packet) = ([0, 0], Packet::udp("10.0.0.2", "20.0.0.9", b"what is inside"));
    assert_eq!(flows(&mut bed, &ports, to, 5), left);
    // There is no route to the end of the tunnel: the sender gets a report.
    let answers = ports[0].sent();
    assert_eq!(answers.len(), 5);
    assert_eq!(answers[0][34..36], [3, 1], "ICMP host unreachable");
    for (line, expected) in [
        ("ip route add 30.0.0.0/8 via 10.0.1.2", [5, 0]),
        ("ip route add 30.0.0.0/16 via 10.0.2.2 e2", [0, 5]),
        ("ip route del 30.0.0.0/16 via 10.0.2.2 e2", [5, 0]),
        ("set interface state e1 down", [0, 0]),
        ("set interface state e1 up", [5, 0]),
        ("ip route add 30.0.0.1/32 via 10.0.2.2", [0, 5]),
    ] {
        bed.command(line).unwrap();
        bed.run();
        [&ports[1], &ports[2]].iter().for_each(|port| drop(port.sent()));
        // The neighbour is static, but an interface that was down forgets what it could not ask for.
        assert_eq!(flows(&mut bed, &ports, to, 5), expected, "{line}");
        bed.router.ip.audit().unwrap();
    }
    // Without its header the interface is an ordinary one.
    bed.router.stop_encapsulating(tunnel.index);
    bed.run();
    ports[0].receive_packet(&packet);
    bed.run();
    assert_eq!((ports[1].sent(), ports[2].sent()), (Vec::new(), Vec::new()));
    bed.router.ip.audit().unwrap();
}

#[test]
fn long_packets_and_used_up_hops_are_answered_or_cut_before_they_get_a_header() {
    let to = "30.0.0.1";
    let (mut bed, ports, _, _) = tunnel(to);
    all(&mut bed, &["ip route add 30.0.0.0/8 via 10.0.1.2 e1", "set interface mtu packet 1000 t0"]);
    let packet = Packet::udp("10.0.0.2", "20.0.0.9", &[7; 1200]);
    ports[0].receive_packet(&packet.clone().ttl(1));
    ports[0].receive_packet(&packet.clone().fragment(0x4000));
    bed.run();
    let answers: Vec<Vec<u8>> = ports[0].sent().into_iter().map(|frame| frame[34..42].to_vec()).collect();
    assert_eq!((answers[0][..2].to_vec(), answers[1][..2].to_vec()), (vec![11, 0], vec![3, 4]));
    assert_eq!(answers[1][6..8], 1000u16.to_be_bytes());
    assert!(ports[1].sent().is_empty());
    ports[0].receive_packet(&packet);
    bed.run();
    let sent = ports[1].sent();
    assert_eq!(sent.len(), 2);
    let pieces: Vec<usize> = sent.iter().map(|frame| frame.len() - 14 - SHORT).collect();
    assert_eq!(pieces, [996, 20 + 1208 - 976]);
    for frame in sent {
        let inside = &frame[14 + SHORT..];
        assert_eq!(frame, framed(&ports, 1, to, inside));
    }
}

#[test]
fn tunnels_in_tunnels_end_before_they_bite_their_tail() {
    let (mut bed, ports, _, fix_up) = tunnel("30.0.0.1");
    let second = bed.port("t1", &[]);
    bed.router.encapsulate(second.index, into("40.0.0.1", Some(fix_up))).unwrap();
    all(&mut bed, &["ip route add 30.0.0.0/8 via t1", "ip route add 40.0.0.0/8 via 10.0.1.2 e1"]);
    let packet = Packet::udp("10.0.0.2", "20.0.0.9", b"deep");
    ports[0].receive_packet(&packet);
    bed.run();
    let inside = encapsulated("30.0.0.1", 64, &packet.clone().ttl(63).bytes());
    assert_eq!(ports[1].sent(), [framed(&ports, 1, "40.0.0.1", &inside)]);
    // Now each leads through the other.
    all(&mut bed, &["ip route add 40.0.0.0/8 via t0", "ip route del 40.0.0.0/8 via 10.0.1.2 e1"]);
    bed.router.ip.audit().unwrap();
    // One of them has no way, so the packet ends with its first header. The report goes to the sender of that, this
    // router.
    ports[0].receive_packet(&packet);
    let errors = bed.errors_of(|bed| bed.run());
    assert!(errors.keys().all(|(node, _)| !node.ends_with("midchain")), "{errors:?}");
    assert_eq!((ports[1].sent().len(), ports[2].sent().len()), (0, 0));
    bed.command("show ip fib").unwrap();
    all(&mut bed, &["ip route add 40.0.0.0/8 via 10.0.2.2 e2", "ip route del 40.0.0.0/8 via t0"]);
    ports[0].receive_packet(&packet);
    bed.run();
    assert_eq!(ports[2].sent(), [framed(&ports, 2, "40.0.0.1", &inside)]);
    // Into itself, by the route and by the header.
    bed.command("ip route add 40.0.0.1/32 via t1").unwrap();
    ports[0].receive_packet(&packet);
    bed.run();
    assert_eq!((ports[1].sent().len(), ports[2].sent().len()), (0, 0));
    bed.command("ip route del 40.0.0.1/32 via t1").unwrap();
    let itself = Encapsulation { header: header("20.0.0.5", 64), ..into("40.0.0.1", Some(fix_up)) };
    bed.router.encapsulate(second.index, itself).unwrap();
    ports[0].receive_packet(&packet);
    bed.run();
    assert_eq!((ports[1].sent().len(), ports[2].sent().len()), (0, 0));
    bed.router.encapsulate(second.index, into("40.0.0.1", Some(fix_up))).unwrap();
    bed.router.ip.audit().unwrap();
    ports[0].receive_packet(&packet);
    bed.run();
    assert_eq!(ports[2].sent(), [framed(&ports, 2, "40.0.0.1", &inside)]);
}

#[test]
fn a_route_onto_the_tunnel_that_covers_its_end_does_not_hide_the_way_there() {
    let to = "30.0.0.1";
    let (mut bed, ports, tunnel, fix_up) = tunnel(to);
    // The usual set-up: all goes into the tunnel, but for its end.
    all(&mut bed, &["ip route add 0.0.0.0/0 via t0", "ip route add 30.0.0.1/32 via 10.0.1.2"]);
    assert_eq!(flows(&mut bed, &ports, to, 5), [5, 0]);
    all(&mut bed, &["ip route del 30.0.0.1/32 via 10.0.1.2"]);
    assert_eq!(flows(&mut bed, &ports, to, 5), [0, 0], "into itself");
    all(&mut bed, &["ip route add 30.0.0.0/24 via 10.0.2.2 e2"]);
    assert_eq!(flows(&mut bed, &ports, to, 5), [0, 5]);
    // Another header, whose end is behind the tunnel by a next hop on it; then back.
    all(&mut bed, &["set interface ip address t0 10.9.9.1/24", "ip route add 40.0.0.0/8 via 10.9.9.2"]);
    bed.router.encapsulate(tunnel.index, into("40.0.0.1", Some(fix_up))).unwrap();
    bed.run();
    ports[0].receive_packet(&Packet::udp("10.0.0.2", "20.0.0.9", b"what is inside"));
    let errors = bed.errors_of(|bed| bed.run());
    assert!(errors.keys().all(|(node, _)| !node.ends_with("midchain")), "{errors:?}");
    bed.router.encapsulate(tunnel.index, into(to, Some(fix_up))).unwrap();
    ports.iter().for_each(|port| drop(port.sent()));
    assert_eq!(flows(&mut bed, &ports, to, 5), [0, 5]);
    bed.router.ip.audit().unwrap();
}

#[test]
fn a_packet_that_waits_with_its_header_goes_on_in_the_table_of_the_header() {
    let to = "30.0.0.1";
    let (mut bed, ports, tunnel, fix_up) = tunnel(to);
    all(
        &mut bed,
        &[
            "ip route add 30.0.0.0/8 via 10.0.1.77",
            "ip table add 7",
            "set interface ip address del e0 all",
            "set interface ip table e0 7",
            "set interface ip address e0 10.0.0.1/24",
            "ip route add 20.0.0.0/8 table 7 via t0",
            "ip route add 30.0.0.0/8 table 7 via 10.0.0.9",
        ],
    );
    let packet = Packet::udp("10.0.0.2", "20.0.0.9", b"what is inside");
    ports.iter().for_each(|port| drop(port.sent()));
    (0..2).for_each(|_| drop(ports[0].receive_packet(&packet)));
    bed.run();
    assert_eq!(bed.held(), 2);
    bed.know(&ports[1], "10.0.1.77");
    bed.run();
    ports[1].sent().retain(|frame| frame[12..14] == [8, 0]);
    (0..2).for_each(|_| drop(ports[0].receive_packet(&packet)));
    bed.run();
    let errors = bed.errors();
    let expected = encapsulated(to, 64, &packet.clone().ttl(63).bytes());
    let sent: Vec<Vec<u8>> = ports[1].sent().into_iter().filter(|frame| frame[12..14] == [8, 0]).collect();
    assert!(sent.len() >= 2 && sent.iter().all(|frame| frame[14..] == expected[..]), "{errors:?}");
    assert!(ports[0].sent().iter().all(|frame| frame[12..14] != [8, 0]), "nothing leaks into the other table");
    assert_eq!(bed.held(), 0);
    // A table in which a tunnel's end is looked up stays.
    all(&mut bed, &["ip table add 8"]);
    let table = bed.router.find_table(Family::Ip4, 8).unwrap();
    let stated = Encapsulation { table, ..into(to, Some(fix_up)) };
    bed.router.encapsulate(tunnel.index, stated).unwrap();
    let refused = bed.command("ip table del 8").unwrap_err();
    assert!(refused.contains("t0 is a tunnel whose other end is looked up in table 8"), "{refused}");
    let nowhere = Encapsulation { table: TableIndex(99), ..into(to, Some(fix_up)) };
    assert!(bed.router.encapsulate(tunnel.index, nowhere).unwrap_err().to_string().contains("no such table"));
}

#[test]
fn more_headers_than_fit_a_buffer_are_a_counted_drop() {
    let (mut bed, ports, _, _) = tunnel("2001:db8:91::1");
    let fix_up = bed.router.register_fix_up("again", complete).unwrap();
    for n in 1..=3 {
        let port = bed.port(&format!("t{n}"), &[]);
        bed.router.encapsulate(port.index, into(&format!("2001:db8:9{}::1", n + 1), Some(fix_up))).unwrap();
        bed.command(&format!("ip route add 2001:db8:9{n}::/64 via t{n}")).unwrap();
    }
    bed.command("ip route add 2001:db8:94::/64 via 2001:db8:1::2 e1").unwrap();
    ports[0].receive_packet(&Packet::udp("10.0.0.2", "20.0.0.9", b"too deep"));
    let errors = bed.errors_of(|bed| bed.run());
    assert_eq!(errors, error("ip6-midchain", "no room for a tunnel's header", 1));
    assert!(ports[1].sent().is_empty());
}

#[test]
fn what_a_sender_left_to_its_device_is_finished_before_a_header_hides_it() {
    let to = "30.0.0.1";
    let (mut bed, ports, _, _) = tunnel(to);
    all(&mut bed, &["ip route add 30.0.0.0/8 via 10.0.1.2 e1"]);
    let data = Random::new(3).bytes(3000);
    let packet = Packet::tcp("10.0.0.2", "20.0.0.9", 100, &data);
    let frame = packet.frame(ports[0].mac, host_mac(packet.source));
    let mut arrival = Arrival::from(frame.clone()).in_parts(&[2000, frame.len() - 2000]);
    arrival.flags = flag::SEGMENTED | flag::PARTIAL_CHECKSUM;
    arrival.offload = Offload {
        checksum_start: 20,
        checksum_offset: 16,
        header_length: 40,
        segment_size: 1000,
        kind: Segmentation::Tcp4,
    };
    ports[0].receive(arrival);
    bed.run();
    let sent = ports[1].sent();
    assert_eq!(sent.len(), 3);
    let whole: Vec<u8> = sent.iter().flat_map(|frame| frame[14 + SHORT + 40..].to_vec()).collect();
    assert_eq!(whole, data);
    for frame in sent {
        let inside = &frame[14 + SHORT..];
        assert_eq!(frame, framed(&ports, 1, to, inside));
    }
}

#[test]
fn headers_that_make_no_sense_are_refused_and_nothing_changes() {
    let (mut bed, _, tunnel, fix_up) = tunnel("30.0.0.1");
    let before = bed.router.encapsulation(tunnel.index).cloned().unwrap();
    let mut broken = Vec::new();
    for (change, words) in [
        (
            &mut (|header: &mut Vec<u8>| header[0] = 0x46) as &mut dyn FnMut(&mut Vec<u8>),
            "neither IPv4 without options",
        ),
        (&mut |header: &mut Vec<u8>| header[8] = 0, "a time to live of 0: must be 1 to 254"),
        (&mut |header: &mut Vec<u8>| header[8] = 255, "a time to live of 255: must be 1 to 254"),
        (&mut |header: &mut Vec<u8>| header.truncate(19), "a header of 19 bytes"),
        (&mut |header: &mut Vec<u8>| header.resize(129, 0), "a header of 129 bytes"),
        (&mut |header: &mut Vec<u8>| header.clear(), "neither IPv4"),
    ] {
        let mut header = header("30.0.0.1", 64);
        change(&mut header);
        let stated = Encapsulation { header, fix_up: Some(fix_up), table: TableIndex::DEFAULT };
        broken.push((bed.router.encapsulate(tunnel.index, stated).unwrap_err().to_string(), words));
    }
    for (said, words) in broken {
        assert!(said.contains(words), "{said}");
    }
    assert_eq!(bed.router.encapsulation(tunnel.index), Some(&before));
    bed.router.ip.audit().unwrap();
    bed.router.delete_interface(tunnel.index).unwrap();
    bed.router.ip.audit().unwrap();
    assert_eq!(bed.router.encapsulation(tunnel.index), None);
}

/// Counts the packets with each header that leave, and those that are not what one of the headers makes of them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    by_header: [u64; 2],
    by_interface: [u64; 2],
    wrong: Vec<Vec<u8>>,
}

/// Two ends of the tunnel. Their headers differ in each byte that `complete` does not write.
const ENDS: [&str; 2] = ["30.0.0.1", "2001:db8:99::1"];

/// The header for an end, in which every byte that need not have a certain value says which end it is for.
fn marked(which: usize) -> Vec<u8> {
    let mut header = header(ENDS[which], 64);
    let size = header.len();
    header[size - 14..].fill(0xe0 + which as u8);
    header[size - 22..size - 14].fill(0xd0 + which as u8);
    header
}

struct Reader(Arc<Mutex<Seen>>, [InterfaceIndex; 2]);

impl Map for Reader {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let mut seen = self.0.lock().unwrap();
        for i in 0..vector.len() {
            let row = vector.row(i);
            let frame = &cx.buffers.bytes(row.packet)[usize::from(row.l2)..][..usize::from(row.length)];
            let which = usize::from(frame[14] >> 4 == 6);
            let inside = &frame[14 + marked(which).len()..];
            let mut expected = encapsulated(ENDS[which], 64, inside);
            let size = marked(which).len();
            expected[size - 22..size].copy_from_slice(&marked(which)[size - 22..]);
            // What is inside has lost one hop, and says how long it is.
            let is_whole = inside.first() == Some(&0x45) && inside.len() == 44 && inside[8] == 63;
            if frame[14..] != expected[..] || !is_whole {
                seen.wrong.push(frame.to_vec());
            }
            seen.by_header[which] += 1;
            seen.by_interface[usize::from(row.tx_interface() == self.1[1])] += 1;
        }
        vector.set_edges(edge::CONTINUE);
    }
}

/// Two workers send into a tunnel while control moves the way to its end, and replaces its header.
#[test]
fn no_packet_has_half_a_header_while_the_underlay_moves() {
    let mut bed = Bed::with_workers(2);
    let open = |bed: &mut Bed, name: &str, number: u32| {
        let index = bed.router.create_interface(name, drivers::null::open(number)).unwrap();
        bed.router.set_admin(index, true).unwrap();
        index
    };
    let [a, b, tunnel] = [("a", 1), ("b", 2), ("t", 3)].map(|(name, number)| open(&mut bed, name, number));
    for line in [
        "set ip6 dad transmits 0",
        "create packet-generator interface rx",
        "set interface state rx up",
        "set interface ip address rx 10.0.0.1/24",
        "set interface ip address a 10.0.1.1/24",
        "set interface ip address b 10.0.2.1/24",
        "set interface ip address a 2001:db8:1::1/64",
        "set interface ip address b 2001:db8:2::1/64",
        "ip route add 20.0.0.0/8 via t",
    ] {
        bed.command(line).unwrap();
    }
    bed.advance(Duration::from_secs(1));
    let rx = bed.router.interfaces.find("rx").unwrap();
    for (interface, hop) in [(a, "10.0.1.2"), (b, "10.0.2.2"), (rx, "10.0.0.2")] {
        bed.router.set_neighbour(NeighbourKey::new(interface, ip(hop)), host_mac(ip(hop)), true).unwrap();
    }
    for (n, interface) in [(1, a), (2, b)] {
        let key = NeighbourKey::new(interface, ip6(&format!("2001:db8:{n}::2")));
        bed.router.set_neighbour(key, mac6(n), true).unwrap();
    }
    let fix_up = bed.router.register_fix_up("test", complete).unwrap();
    let heads =
        [0, 1].map(|which| Encapsulation { header: marked(which), fix_up: Some(fix_up), table: TableIndex::DEFAULT });
    bed.router.encapsulate(tunnel, heads[0].clone()).unwrap();
    let seen = Arc::<Mutex<Seen>>::default();
    let graph = &mut bed.router.graph;
    let spec = NodeSpec { name: "test-reader".into(), edges: &[], counters: &[], trace: |_, _| Ok(()) };
    graph.register(spec, |_| Behaviour::Map(Box::new(Reader(seen.clone(), [a, b])))).unwrap();
    let reader = Feature { arc: "interface-output", node: "test-reader", after: &[], before: &[] };
    graph.register_feature(reader).unwrap();
    [a, b].iter().for_each(|port| graph.set_feature("interface-output", "test-reader", *port, true).unwrap());
    bed.run();
    let mac = bed.router.interfaces.get(rx).unwrap().mac;
    let frame = |n: u8| {
        let packet = Packet::udp("10.0.0.2", &format!("20.0.0.{n}"), &[0; 16]);
        packet.frame(mac, host_mac(ip("10.0.0.2")))
    };
    let mut stream = Stream::new("s", rx, Content::Replay((0..64).map(frame).collect()));
    stream.max_frame = 32;
    features::packet_generator::add(&mut bed.router, stream, 0, String::new(), Vec::new()).unwrap();
    let shared = Handoff { workers: "0-1".parse().unwrap(), symmetrical: false };
    handoff::set(&mut bed.router, rx, Some(shared)).unwrap();
    // What was said before does not count: neighbours were asked.
    *seen.lock().unwrap() = Seen::default();
    let route = |router: &mut Router, to: &str, hops: &[&str]| {
        let path = |hop: &&str| Path::new(PathAction::Via { next_hop: hop.parse().unwrap(), interface: None });
        let to: wire::Prefix = to.parse().unwrap();
        router.add_route(to, Source::Config, hops.iter().map(path).collect(), true).unwrap();
    };
    let host: wire::Prefix = "2001:db8:99::1/128".parse().unwrap();
    bed.under_traffic(3000, 8, |router, change| match change % 8 {
        0 => route(router, "30.0.0.0/8", &["10.0.1.2"]),
        1 => route(router, "2001:db8:99::/64", &["2001:db8:2::2"]),
        2 => router.encapsulate(tunnel, heads[1].clone()).unwrap(),
        3 => route(router, "2001:db8:99::/64", &["2001:db8:1::2", "2001:db8:2::2"]),
        4 => route(router, "2001:db8:99::1/128", &["2001:db8:1::2"]),
        5 => router.remove_route(host, Source::Config, &[]).unwrap(),
        6 => route(router, "30.0.0.0/8", &["10.0.1.2", "10.0.2.2"]),
        _ => router.encapsulate(tunnel, heads[0].clone()).unwrap(),
    });
    bed.router.ip.audit().unwrap();
    let ledger = bed.router.graph.ledger();
    assert_eq!(ledger.received + ledger.originated, ledger.sent + ledger.dropped + ledger.consumed, "{ledger:?}");
    let seen = seen.lock().unwrap();
    assert!(seen.wrong.is_empty(), "{} of {:?}: {:02x?}", seen.wrong.len(), seen.by_header, seen.wrong[0]);
    assert!(seen.by_header.iter().chain(&seen.by_interface).all(|count| *count > 1000), "{seen:?}");
    assert!(bed.others[0].core().ledger().taken > 0, "some were handed over");
}

/// A node that knows objects: it counts packets by the object's first byte, and ends them.
struct Counting(ObjectHandle, Arc<Mutex<Vec<(u8, u16)>>>);

graph::edges! {
    enum CountingEdge {
        /// It is what the test wants.
        Counted => end "counted by a test",
    }
}

impl Map for Counting {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let object = self.0.get(cx.round, tables::Leaf(vector.targets()[i]).index());
            self.1.lock().unwrap().push((object.custom()[0], object.owner()));
        }
        vector.set_edges(CountingEdge::Counted.into());
    }
}

#[test]
fn routes_and_labels_lead_to_the_nodes_of_objects() {
    let (mut bed, ports) = bed();
    let counted = Arc::<Mutex<Vec<(u8, u16)>>>::default();
    let spec =
        NodeSpec { name: "test-counting".into(), edges: CountingEdge::EDGES, counters: &[], trace: |_, _| Ok(()) };
    let objects = bed.router.ip.object_handle();
    let node = |_| Behaviour::Map(Box::new(Counting(objects.clone(), counted.clone())) as Box<dyn Map>);
    bed.router.graph.register(spec, node).unwrap();
    let kind = object::register_object_kind(&mut bed.router, "test", "test-counting").unwrap();
    let [one, other] =
        [(1, 10), (2, 20)].map(|(byte, bits)| object::add_object(&mut bed.router, kind, &[byte], bits).unwrap());
    bed.route_way("20.0.0.0/8", PathAction::Object(one));
    let path = Path::new(PathAction::Object(other));
    let six: wire::Prefix = "2001:db8:20::/48".parse().unwrap();
    bed.router.add_route(six, Source::Config, vec![path.clone()], true).unwrap();
    let label = LabelKey::new(77, true);
    bed.router.add_label(LabelTableIndex::DEFAULT, label, Source::Config, vec![path.clone()], true).unwrap();
    bed.run();
    let pass = |bed: &mut Bed| {
        ports[0].receive_packet(&Packet::udp("10.0.0.2", "20.0.0.9", b""));
        ports[0].receive(Packet6::udp("2001:db8::2", "2001:db8:20::7", b"").frame(ports[0].mac, mac6(0)));
        ports[0].receive(labelled(&ports[0], &[(77, 0, true, 9)], b"anything"));
        bed.run();
        let mut counted = std::mem::take(&mut *counted.lock().unwrap());
        counted.sort();
        counted
    };
    assert_eq!(pass(&mut bed), [(1, 10), (2, 20), (2, 20)]);
    object::replace_object(&mut bed.router, one, kind, &[3, 1, 1], 30).unwrap();
    assert_eq!(pass(&mut bed), [(2, 20), (2, 20), (3, 30)]);
    let shown = bed.command("show ip fib 20.0.0.1").unwrap();
    assert!(shown.contains(&format!("test {one}")), "{shown}");
    // An object goes when no route leads to it any more, not even by a path that is not in use.
    let spare = Path { preference: 9, ..path.clone() };
    bed.router.add_route(prefix("50.0.0.0/8"), Source::Config, vec![Path::new(PathAction::Drop), spare], true).unwrap();
    assert!(object::remove_object(&mut bed.router, other).unwrap_err().to_string().contains("routes lead to it"));
    bed.router.remove_route(six, Source::Config, &[]).unwrap();
    assert!(object::remove_object(&mut bed.router, other).is_err(), "the label is left");
    bed.router.remove_route(prefix("50.0.0.0/8"), Source::Config, &[]).unwrap();
    bed.router.remove_label(LabelTableIndex::DEFAULT, label, std::slice::from_ref(&path)).unwrap();
    object::remove_object(&mut bed.router, other).unwrap();
    assert!(object::remove_object(&mut bed.router, other).unwrap_err().to_string().contains("there is none"));
    let refused = bed.router.add_route(prefix("51.0.0.0/8"), Source::Config, vec![path], true);
    assert!(refused.unwrap_err().to_string().contains("there is none"));
    bed.router.ip.audit().unwrap();
}

/// A packet's end on its way into a tunnel.
type Case = (&'static str, &'static str, fn(&mut Bed, &[Port; 3]));

const LOST: &str = "loopback address would leave the router";
const GROUP: &str = "group-addressed frame is not forwarded";
const MALFORMED: &str = "offload request makes no sense";

/// A packet into the tunnel, from e0's host.
fn into4(ports: &[Port; 3], change: impl FnOnce(&mut Vec<u8>)) -> Arrival {
    let mut frame = Packet::udp("10.0.0.2", "20.0.0.9", &[7; 1400]).frame(ports[0].mac, host_mac(ip("10.0.0.2")));
    change(&mut frame);
    frame.into()
}

fn into6(ports: &[Port; 3], change: impl FnOnce(&mut Vec<u8>)) -> Arrival {
    let mut frame = Packet6::udp("2001:db8::2", "2001:db8:20::7", &[7; 1400]).frame(ports[0].mac, mac6(0));
    change(&mut frame);
    frame.into()
}

/// A packet whose sender left work to its device, of which the words are in the packet or not.
fn unfinished(mut arrival: Arrival, flags: u32, checksum_offset: u16) -> Arrival {
    let checksum_start = if arrival.frame[14] >> 4 == 6 { 40 } else { 20 };
    arrival.flags = flags;
    arrival.offload = Offload { checksum_start, checksum_offset, ..Offload::default() };
    arrival
}

const CASES: &[Case] = &[
    ("ip4-midchain", GROUP, |_, ports| ports[0].receive(into4(ports, |frame| frame[..6].fill(0xff)))),
    ("ip6-midchain", GROUP, |_, ports| ports[0].receive(into6(ports, |frame| frame[..6].fill(0xff)))),
    ("ip4-midchain", "ip4 ttl 0 received", |_, ports| {
        ports[0].receive(into4(ports, |frame| {
            frame[22] = 0;
            seal(frame, 14);
        }));
    }),
    ("ip4-midchain", "ip4 MTU exceeded and DF set", |bed, ports| {
        bed.command("set interface mtu packet 1280 t0").unwrap();
        ports[0].receive(into4(ports, |frame| {
            frame[20] = 0x40;
            seal(frame, 14);
        }));
    }),
    ("ip6-midchain", "ip6 packets too big", |bed, ports| {
        bed.command("set interface mtu packet 1280 t0").unwrap();
        ports[0].receive(into6(ports, |_| {}));
    }),
    ("ip4-midchain", LOST, |bed, _| {
        all(bed, &["set interface ip address t0 10.9.9.1/24", "ip route add 127.0.0.0/8 via t0"]);
        drop(bed.begin("ping 127.0.0.1 repeat 1").unwrap());
    }),
    ("ip4-midchain", "no room for a tunnel's header", |bed, ports| {
        for n in 1..=4 {
            let port = bed.port(&format!("t{n}"), &[]);
            bed.router.encapsulate(port.index, into(&format!("3{n}.0.0.1"), None)).unwrap();
            bed.command(&format!("ip route add 3{}.0.0.0/8 via t{n}", n - 1)).unwrap();
        }
        bed.command("ip route add 34.0.0.0/8 via 10.0.1.2 e1").unwrap();
        ports[0].receive_packet(&Packet::udp("10.0.0.2", "20.0.0.9", b"deep"));
    }),
    ("ip4-midchain-offloads", "checksums finished", |_, ports| {
        ports[0].receive(unfinished(into4(ports, |_| {}), flag::PARTIAL_CHECKSUM, 6));
    }),
    ("ip6-midchain-offloads", "checksums finished", |_, ports| {
        ports[0].receive(unfinished(into6(ports, |_| {}), flag::PARTIAL_CHECKSUM, 6));
    }),
    ("ip4-midchain-offloads", MALFORMED, |_, ports| {
        ports[0].receive(unfinished(into4(ports, |_| {}), flag::PARTIAL_CHECKSUM, 5000));
    }),
    ("ip6-midchain-offloads", MALFORMED, |_, ports| {
        ports[0].receive(unfinished(into6(ports, |_| {}), flag::PARTIAL_CHECKSUM, 5000));
    }),
];

/// What the tests here count, and what none can.
pub fn names() -> impl Iterator<Item = (&'static str, &'static str)> {
    let others = [
        // In the tests above.
        ("ip6-midchain", "no room for a tunnel's header"),
        ("ip4-midchain-offloads", "packets segmented"),
        // The same code as of `e1-output`.
        ("ip4-midchain-offloads", "no free buffer to segment into"),
        ("ip6-midchain-offloads", "no free buffer to segment into"),
        // No device leaves this to the router.
        ("ip6-midchain-offloads", "packets segmented"),
        // `ip6-input` drops them.
        ("ip6-midchain", LOST),
        // Guards against inconsistent tables.
        ("ip4-midchain-tx", "route leads to nothing"),
        ("ip6-midchain-tx", "route leads to nothing"),
        ("object-dispatch", "route leads to nothing"),
        // Counted by `lookup-ip4-dst` and `lookup-ip6-dst`.
        ("ip4-midchain-tx", "too many tables in a row"),
        ("ip6-midchain-tx", "too many tables in a row"),
        // Counted by `ip4-load-balance` and `ip6-load-balance`: the way to a header's destination is one, even when it
        // has one path only.
        ("ip4-midchain-tx", "blackholed packets"),
        ("ip6-midchain-tx", "blackholed packets"),
        // A header is for one host.
        ("ip4-midchain-tx", "directed broadcast not sent on"),
    ];
    CASES.iter().map(|(node, reason, _)| (*node, *reason)).chain(others)
}

#[test]
fn what_ends_before_or_behind_the_header_has_its_name() {
    for (node, reason, act) in CASES {
        let (mut bed, ports, _, _) = tunnel("30.0.0.1");
        all(&mut bed, &["ip route add 30.0.0.0/8 via 10.0.1.2 e1"]);
        let errors = bed.errors_of(|bed| act(bed, &ports));
        let count = errors.get(&((*node).into(), (*reason).into()));
        assert_eq!(count, Some(&1), "{node}, {reason}: {errors:?}");
    }
}
