//! Packets that are forwarded.

use crate::bed::{Arrival, Bed, Errors, Port, host_mac};
use crate::packet::*;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use wire::{MacAddress, Prefix4};

#[test]
fn a_packet_leaves_with_new_macs_one_hop_less_and_nothing_else_changed() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let frame = e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.1.2", b"the payload"));
    let errors = bed.errors_of(|_| {});
    let mut expected = frame.clone();
    expected[..12].copy_from_slice(&[host_mac(ip("10.0.1.2")).0, e1.mac.0].concat());
    expected[22] = 63;
    // TTL 64 becomes 63: the header's sum loses 0x0100, its complement gains it.
    let sum = u16::from_be_bytes([frame[24], frame[25]]);
    expected[24..26].copy_from_slice(&(sum + 0x0100).to_be_bytes());
    assert_eq!(e1.sent(), [expected]);
    assert_eq!(errors, Errors::new());
    let length = frame.len() as u64;
    // The ports' announcements of their addresses were sent before.
    assert_eq!(bed.counters(&e0), [1, length, 1, 42, 1, 0, 0]);
    assert_eq!(bed.counters(&e1), [0, 0, 2, 42 + length, 0, 0, 0]);
}

#[test]
fn padding_of_short_frames_is_not_forwarded() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let packet = Packet::udp("10.0.0.2", "10.0.1.2", b"");
    let mut frame = packet.frame(e0.mac, host_mac(packet.source));
    frame.resize(60, 0xee);
    e0.receive(frame.clone());
    bed.run();
    let sent = e1.sent();
    assert_eq!(sent, [forwarded(&frame, host_mac(packet.destination), e1.mac)]);
    assert_eq!(sent[0].len(), 42);
    assert_eq!(bed.counters(&e0)[..2], [1, 60]);
}

#[test]
fn packets_of_every_size_pass() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let mut expected = Vec::new();
    for size in 0..=1480 {
        let packet = Packet::new("10.0.0.2", "10.0.1.2", 99, &vec![size as u8; size]);
        let frame = e0.receive_packet(&packet);
        expected.push(forwarded(&frame, host_mac(packet.destination), e1.mac));
    }
    bed.run();
    assert_eq!(e1.sent(), expected);
}

#[test]
fn jumbo_packets_in_several_buffers_pass() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    bed.router.set_mtu(e1.index, 9000).unwrap();
    for size in [2014, 2015, 5000, 8980] {
        let packet = Packet::new("10.0.0.2", "10.0.1.2", 99, &vec![7; size]);
        let frame = packet.frame(e0.mac, host_mac(packet.source));
        let mut parts = vec![2048; frame.len() / 2048];
        parts.push(frame.len() % 2048);
        e0.receive(Arrival::from(frame.clone()).in_parts(&parts));
        bed.run();
        assert_eq!(e1.sent(), [forwarded(&frame, host_mac(packet.destination), e1.mac)]);
    }
    assert_eq!(bed.buffers_in_use(), 0);
}

#[test]
fn options_of_every_length_pass_untouched() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    for words in 1..=10 {
        let options = [&[1u8; 3][..], &vec![0; words * 4 - 3]].concat();
        let packet = Packet::udp("10.0.0.2", "10.0.1.2", b"data").options(&options);
        let frame = e0.receive_packet(&packet);
        bed.run();
        assert_eq!(e1.sent(), [forwarded(&frame, host_mac(packet.destination), e1.mac)]);
    }
    // And with padding behind them.
    let packet = Packet::udp("10.0.0.2", "10.0.1.2", b"").options(&[1; 4]);
    let mut frame = packet.frame(e0.mac, host_mac(packet.source));
    frame.resize(60, 0xee);
    e0.receive(frame.clone());
    bed.run();
    assert_eq!(e1.sent(), [forwarded(&frame, host_mac(packet.destination), e1.mac)]);
}

#[test]
fn a_ttl_of_two_passes_with_one_left() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    e0.receive_packet(&Packet::udp("10.0.0.2", "10.0.1.2", b"x").ttl(2));
    bed.run();
    let sent = e1.sent();
    assert_eq!((sent.len(), sent[0][22]), (1, 1));
    assert_eq!(checksum(&sent[0][14..34]), 0);
}

#[test]
fn fragments_pass_as_they_are() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    for fragment in [MORE_FRAGMENTS, 3, MORE_FRAGMENTS | 100, DONT_FRAGMENT] {
        let packet = Packet::udp("10.0.0.2", "10.0.1.2", b"16 bytes").fragment(fragment);
        let frame = e0.receive_packet(&packet);
        bed.run();
        assert_eq!(e1.sent(), [forwarded(&frame, host_mac(packet.destination), e1.mac)]);
    }
}

/// Every value of the checksum, on all three paths: a vector with one next hop, a vector with several, and single
/// packets. A checksum is right when a receiver that sums the header accepts it.
#[test]
fn the_checksum_is_right_whatever_it_was() {
    let (mut bed, [e0, e1, e2]) = Bed::with_three_ports();
    for start in (0..=u16::MAX).step_by(251) {
        for to in [&["10.0.1.2"][..], &["10.0.1.2", "10.0.2.2"]] {
            for (n, id) in (start..=start.saturating_add(250)).enumerate() {
                e0.receive_packet(&Packet::new("10.0.0.2", to[n % to.len()], 99, b"").id(id));
            }
            bed.run();
            for frame in e1.sent().iter().chain(&e2.sent()) {
                assert_eq!(checksum(&frame[14..34]), 0);
            }
        }
    }
}

/// RFC 1624 section 3: when the fields sum to zero, an incremental update may give 0xffff where a new sum gives 0x0000.
/// A receiver that compares instead of summing would reject that.
#[test]
fn the_checksum_is_the_one_that_summing_anew_gives() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    for start in (0..=u16::MAX).step_by(256) {
        let packet = |id| Packet::new("10.0.0.2", "10.0.1.2", 99, b"").id(id);
        let frames: Vec<_> = (start..=start + 255).map(|id| e0.receive_packet(&packet(id))).collect();
        bed.run();
        let expected: Vec<_> = frames.iter().map(|frame| forwarded(frame, host_mac(ip("10.0.1.2")), e1.mac)).collect();
        assert_eq!(e1.sent(), expected);
    }
}

#[test]
fn a_packet_goes_back_where_it_came_from_when_the_route_says_so() {
    let (mut bed, [e0, ..]) = Bed::with_three_ports();
    bed.know(&e0, "10.0.0.3");
    let packet = Packet::udp("10.0.0.2", "10.0.0.3", b"x");
    let frame = e0.receive_packet(&packet);
    bed.run();
    assert_eq!(e0.sent(), [forwarded(&frame, host_mac(packet.destination), e0.mac)]);
}

#[test]
fn vectors_fill_up_and_order_is_kept() {
    let (mut bed, [e0, e1, _]) = Bed::with_three_ports();
    let mut expected = Vec::new();
    for number in 0..1000u32 {
        let packet = Packet::udp("10.0.0.2", "10.0.1.2", &number.to_be_bytes());
        let frame = e0.receive_packet(&packet);
        expected.push(forwarded(&frame, host_mac(packet.destination), e1.mac));
    }
    bed.run();
    assert_eq!(e1.sent(), expected);
}

/// Where the reference implementation sends a frame.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fate {
    Sent { port: usize, to: MacAddress },
    Error(&'static str, &'static str),
}

/// A router that handles one packet at a time, and looks routes up by a linear scan.
struct Reference {
    routes: Vec<(Prefix4, Option<(usize, Ipv4Addr)>)>,
    macs: Vec<MacAddress>,
}

impl Reference {
    fn fate(&self, port: usize, frame: &[u8]) -> Fate {
        let ethertype = u16::from_be_bytes([frame[12], frame[13]]);
        if frame[..6] != self.macs[port].0 {
            return Fate::Error("ethernet-input", "l3 mac mismatch");
        }
        if ethertype != 0x0800 {
            return match frame[12..14] {
                [0x86, 0xdd] => Fate::Error("ip6-input", "ip6 not enabled"),
                _ => Fate::Error("ethernet-input", "unknown ethernet type"),
            };
        }
        let packet = &frame[14..];
        if packet.len() < 20 {
            return Fate::Error("ip4-input", "ip4 length < 20 bytes");
        }
        if packet[0] >> 4 != 4 {
            return Fate::Error("ip4-input", "ip4 version != 4");
        }
        let header = (packet[0] & 0xf) as usize * 4;
        if header < 20 {
            return Fate::Error("ip4-input", "ip4 header length < 20 bytes");
        }
        if header > packet.len() {
            return Fate::Error("ip4-input", "ip4 header longer than the packet");
        }
        let total = u16::from_be_bytes([packet[2], packet[3]]) as usize;
        if total < header {
            return Fate::Error("ip4-input", "ip4 total length < header length");
        }
        if total > packet.len() {
            return Fate::Error("ip4-input", "ip4 length > l2 length");
        }
        if checksum(&packet[..header]) != 0 {
            return Fate::Error("ip4-input", "bad ip4 checksum");
        }
        let destination = Ipv4Addr::new(packet[16], packet[17], packet[18], packet[19]);
        let matching = self.routes.iter().filter(|(prefix, _)| prefix.contains(destination));
        match matching.max_by_key(|(prefix, _)| prefix.length()) {
            Some((_, Some((port, hop)))) => Fate::Sent { port: *port, to: host_mac(*hop) },
            _ => Fate::Error("ip4-lookup", "blackholed packets"),
        }
    }
}

#[test]
fn mixed_vectors_go_packet_by_packet_where_a_plain_router_sends_them() {
    for seed in 1..=40 {
        mixed_vectors(&mut Random::new(seed));
    }
}

fn mixed_vectors(random: &mut Random) {
    let (mut bed, ports) = Bed::with_three_ports();
    let mut routes = vec![("0.0.0.0/0".parse::<Prefix4>().unwrap(), None)];
    bed.route_way("0.0.0.0/0", router::ip::control::PathAction::Drop);
    for _ in 0..random.below(12) {
        let length = 8 + random.below(25) as u8;
        let address = Ipv4Addr::from(0x3000_0000 | (random.next() as u32 & 0x0303_0303));
        let prefix = Prefix4::new(address, length).unwrap().network();
        if routes.iter().any(|(known, _)| *known == prefix) {
            continue;
        }
        let port = random.below(3);
        let hop = Ipv4Addr::new(10, 0, port as u8, 2 + random.below(3) as u8);
        bed.know(&ports[port], &hop.to_string());
        bed.route(&prefix.to_string(), &[&hop.to_string()]);
        routes.push((prefix, Some((port, hop))));
    }
    let reference = Reference { routes, macs: ports.iter().map(|port| port.mac).collect() };
    let bad = random.below(5);
    for _ in 0..4 {
        let frames: Vec<(usize, Vec<u8>)> =
            (0..1 + random.below(700)).map(|number| any_frame(random, &ports, number, bad)).collect();
        check_fates(&mut bed, &ports, &reference, &frames);
    }
}

/// A random frame for the router; in `bad` of ten cases it is spoilt in some way.
fn any_frame(random: &mut Random, ports: &[Port], number: usize, bad: usize) -> (usize, Vec<u8>) {
    let port = random.below(3);
    let destination = Ipv4Addr::from(0x3000_0000 | (random.next() as u32 & 0x0303_0303)).to_string();
    let mut packet = Packet::udp("9.9.9.9", &destination, &[(number as u32).to_be_bytes(), [port as u8; 4]].concat());
    packet.id = random.next() as u16;
    packet.ttl = 2 + random.below(254) as u8;
    if random.one_in(8) {
        packet.options = vec![1; 4 * (1 + random.below(10))];
    }
    let mut frame = packet.frame(ports[port].mac, host_mac(packet.source));
    if random.one_in(4) {
        frame.resize(frame.len() + random.below(40), 0xdd);
    }
    if random.below(10) < bad {
        match random.below(7) {
            0 => frame[5] ^= 0x55,
            1 => frame[12..14].copy_from_slice(&[0x86, 0xdd]),
            2 => frame.truncate(14 + random.below(20)),
            3 => frame[14] = 0x60 | frame[14] & 0xf,
            4 => frame[14] = 0x40 | random.below(5) as u8,
            5 => frame[16] = 0x7f,
            _ => frame[24 + random.below(2)] ^= 1 << random.below(8),
        }
    }
    (port, frame)
}

fn check_fates(bed: &mut Bed, ports: &[Port], reference: &Reference, frames: &[(usize, Vec<u8>)]) {
    // Compared by receiving and sending port, because order is kept between those. Packets with options take another
    // path.
    let has_options = |frame: &[u8]| frame[14] & 0xf > 5;
    let mut expected: BTreeMap<(usize, usize, bool), Vec<Vec<u8>>> = BTreeMap::new();
    let mut errors = Errors::new();
    for (port, frame) in frames {
        match reference.fate(*port, frame) {
            Fate::Sent { port: out, to } => {
                expected.entry((*port, out, has_options(frame))).or_default().push(forwarded(
                    frame,
                    to,
                    ports[out].mac,
                ));
            }
            Fate::Error(node, reason) => *errors.entry((node.into(), reason.into())).or_default() += 1,
        }
        ports[*port].receive(frame.clone());
    }
    assert_eq!(bed.errors_of(|_| {}), errors);
    let mut sent: BTreeMap<(usize, usize, bool), Vec<Vec<u8>>> = BTreeMap::new();
    for (out, port) in ports.iter().enumerate() {
        for frame in port.sent() {
            let header = 14 + (frame[14] & 0xf) as usize * 4;
            sent.entry((frame[header + 12] as usize, out, has_options(&frame))).or_default().push(frame);
        }
    }
    for (ports, frames) in &expected {
        let sent = sent.remove(ports).unwrap_or_default();
        let different = frames.iter().zip(&sent).position(|(expected, sent)| expected != sent);
        assert_eq!(different.map(|at| (&sent[at], at)), different.map(|at| (&frames[at], at)), "{ports:?}");
        assert_eq!(sent.len(), frames.len(), "{ports:?}");
    }
    assert!(sent.is_empty(), "sent though nothing was to be: {:?}", sent.keys());
}

#[test]
fn packets_cross_from_worker_to_worker() {
    let mut bed = Bed::with_workers(2);
    let ports = [0, 1, 2].map(|number| {
        let port = bed.port(&format!("e{number}"), &[&format!("10.0.{number}.1/24")]);
        bed.know(&port, &format!("10.0.{number}.2"));
        port
    });
    bed.run();
    let placed = |bed: &mut Bed| bed.json("show interface rx-placement");
    let shown = bed.command("show interface rx-placement").unwrap();
    assert!(shown.contains("Thread 1 (quiver_wk_0):") && shown.contains("Thread 2 (quiver_wk_1):"), "{shown}");
    // From each port to each port, whichever workers receive and send: a whole vector and more, in order.
    let all_ways = |bed: &mut Bed| {
        for (from, to) in [(0, 1), (1, 0), (0, 2), (2, 1), (1, 2), (2, 0)] {
            let (source, target) = (format!("10.0.{from}.2"), format!("10.0.{to}.2"));
            let frames: Vec<_> = (0..600u16)
                .map(|n| ports[from].receive_packet(&Packet::udp(&source, &target, &n.to_be_bytes())))
                .collect();
            let moved = bed.errors_of(|_| {});
            let expected: Vec<_> =
                frames.iter().map(|frame| forwarded(frame, host_mac(ip(&target)), ports[to].mac)).collect();
            let sent = ports[to].sent();
            assert_eq!((moved, sent.len()), (Errors::new(), expected.len()), "{from} to {to}");
            let wrong = sent.iter().zip(&expected).position(|(sent, expected)| sent != expected);
            assert_eq!(wrong, None, "{from} to {to}");
        }
    };
    all_ways(&mut bed);
    // The same while queues are placed again and again.
    for worker in [1, 1, 0, 1] {
        for name in ["e0", "e1", "e2"] {
            bed.command(&format!("set interface rx-placement {name} worker {worker}")).unwrap();
        }
        // The workers pass the queue on by a message of their own.
        (0..2).for_each(|_| bed.run());
        all_ways(&mut bed);
        let queues = placed(&mut bed)["queues"].as_array().unwrap().clone();
        assert!(queues.iter().all(|queue| queue["thread"] == worker + 1), "{queues:?}");
    }
    // Neighbours are resolved and the router is reached, whichever worker asks.
    ports[2].receive_packet(&Packet::udp("10.0.2.2", "10.0.0.77", b"x"));
    ports[2].receive_packet(&Packet::echo_request("10.0.2.2", "10.0.0.1", b"x"));
    bed.run();
    assert_eq!((ports[0].sent().len(), ports[2].sent().len()), (1, 1));
    // Streams run on the worker that they name.
    let stream = |name: &str, worker: usize| {
        format!(
            "packet-generator new {{ name {name} limit 10 worker {worker} interface e0 node ip4-input data {{ UDP: \
             10.0.0.2 -> \
             10.0.1.2 UDP: 1 -> 2 incrementing 8 }} }}"
        )
    };
    bed.command(&stream("s", 1)).unwrap();
    bed.command("packet-generator enable-stream s").unwrap();
    bed.run();
    assert_eq!(ports[1].sent().len(), 10);
    let generator = bed.router.graph.find("pg-input").unwrap();
    assert_eq!(bed.router.graph.runtime(1, generator).packets, 10);
    assert!(bed.command(&stream("t", 2)).unwrap_err().contains("no worker 2"));
    // A queue that moves while its interface is deleted is closed.
    bed.command("set interface rx-placement e1 worker 0").unwrap();
    bed.command("delete interface e1").unwrap();
    bed.run();
    assert!(bed.command("set interface rx-placement e0 worker 2").unwrap_err().contains("no worker 2: there are 2"));
    let used: u64 = bed.others.iter_mut().map(|other| other.core().buffers.in_use()).fold(0, u64::wrapping_add);
    // One packet waits for 10.0.0.77.
    assert_eq!(bed.buffers_in_use().wrapping_add(used), 1);
    assert_eq!(bed.router.graph.ledger().handed, bed.router.graph.ledger().taken);
}
