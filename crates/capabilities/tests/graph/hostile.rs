//! Frames that no honest sender would send.

use crate::bed::{Arrival, Bed, Port, host_mac};
use crate::hostile6;
use crate::packet::*;
use drivers::TxOffloads;
use graph::buffer::{DATA_SIZE, HEADROOM, Offload, Segmentation};
use graph::flag;
use router::Error;
use router::ip::control::{Path, PathAction, Source};
use router::neighbour::control::REQUESTS;
use std::time::Duration;
use wire::MacAddress;

const FRAMES: usize = 100_000;
const BATCH: usize = 500;
/// Batches between two checks of what is left after all timeouts.
const BATCHES_TO_REST: usize = 20;

/// Three ports of different devices with routes of every kind.
fn bed(random: &mut Random) -> (Bed, Vec<Port>) {
    let (mut bed, ports) = Bed::with_three_ports();
    let mut ports = ports.to_vec();
    for (number, finishes) in [
        (3, TxOffloads { checksum: true, segmentation: false }),
        (4, TxOffloads { checksum: true, segmentation: true }),
    ] {
        let port = bed.port_that_finishes(&format!("e{number}"), finishes);
        bed.router.set_admin(port.index, true).unwrap();
        bed.router.add_address(port.index, format!("10.0.{number}.1/24").parse().unwrap()).unwrap();
        bed.know(&port, &format!("10.0.{number}.2"));
        ports.push(port);
    }
    bed.router.set_mtu(ports[1].index, 576).unwrap();
    bed.router.set_mtu(ports[4].index, 9000).unwrap();
    any_routes(&mut bed, &ports, random);
    hostile6::speak(&mut bed, &ports);
    any_labels(&mut bed, random);
    bed.run();
    (bed, ports)
}

fn any_routes(bed: &mut Bed, ports: &[Port], random: &mut Random) {
    for _ in 0..30 {
        let length = random.below(33) as u8;
        let prefix = wire::Prefix4::new((random.next() as u32).into(), length).unwrap().network();
        let mut paths = Vec::new();
        for _ in 0..1 + random.below(3) {
            let port = random.below(ports.len());
            let way = match random.below(8) {
                0 => PathAction::Drop,
                1 => PathAction::Punt,
                2 => PathAction::Unreachable,
                3 => PathAction::Local(ports[port].index),
                4 => PathAction::Attached(ports[port].index),
                // Known hosts, unknown hosts, and hosts on no network.
                _ => {
                    let next_hop = format!("10.0.{}.{}", random.below(6), 2 + random.below(3));
                    PathAction::Via { next_hop: ip(&next_hop).into(), interface: None }
                }
            };
            paths.push(Path::weighing(way, 1 + random.below(255) as u8));
        }
        // A route whose next hops would be reached through itself is refused.
        let added = bed.router.add_route(prefix, Source::Config, paths, true);
        assert!(matches!(added, Ok(()) | Err(Error::RouteLoop(_))), "{added:?}");
    }
}

/// Labels with every kind of action, and routes that push labels.
fn any_labels(bed: &mut Bed, random: &mut Random) {
    let mut lines: Vec<String> = vec!["mpls table add 0".into()];
    lines.extend((0..5).map(|port| format!("set interface mpls e{port} enable")));
    for label in 16..48 {
        let (one, other) = (random.below(6), random.below(5));
        let hop = format!("10.0.{one}.{}", 2 + random.below(3));
        let path = match random.below(8) {
            0 => format!("via {hop} offlink"),
            1 => format!("via {hop} offlink out-labels {}", 16 + random.below(40)),
            2 => format!("via {hop} offlink out-labels 17 18 19 20 ttl 3"),
            3 => format!("via {hop} offlink uniform via 10.0.{other}.2 out-labels 21"),
            4 => "eos via ip4-lookup-in-table 0".into(),
            5 => "eos via ip6-lookup-in-table 0 uniform".into(),
            6 => "non-eos via mpls-lookup-in-table 0".into(),
            _ => format!("eos via 2001:db8:{other}::2 e{other} onlink"),
        };
        lines.push(format!("mpls local-label add {label} {path}"));
    }
    for route in 0..6 {
        let said = random.of(&["17", "17 18 uniform", "0", "40 41 ttl 2"]);
        lines.push(format!("ip route replace 10.0.{route}.128/25 via 10.0.{}.2 out-labels {said}", random.below(5)));
    }
    lines.iter().for_each(|line| drop(bed.command(line).unwrap_or_else(|error| panic!("{line}: {error}"))));
}

/// A frame with some labels in front, most often labels that exist.
fn labelled(random: &mut Random, port: &Port) -> Vec<u8> {
    let mut frame = of_both(random, port);
    if frame.len() < 14 || random.one_in(8) {
        return frame;
    }
    frame[12..14].copy_from_slice(&[0x88, 0x47]);
    let depth = 1 + random.below(4);
    let entries: Vec<u8> = (0..depth)
        .flat_map(|at| {
            let label = if random.one_in(6) { random.below(16) } else { 16 + random.below(34) } as u32;
            let is_bottom = at + 1 == depth && !random.one_in(20);
            let ttl = *random.of(&[0, 1, 2, 64, 255]);
            (label << 12 | (random.next() as u32 & 7) << 9 | u32::from(is_bottom) << 8 | ttl).to_be_bytes()
        })
        .collect();
    frame.splice(14..14, entries);
    frame
}

/// Makes well-formed frames.
type Sound = fn(&mut Random, &Port) -> Vec<u8>;

fn of_both(random: &mut Random, port: &Port) -> Vec<u8> {
    if random.one_in(2) { sound(random, port) } else { hostile6::sound(random, port) }
}

fn sound(random: &mut Random, port: &Port) -> Vec<u8> {
    let number = u32::from(port.mac.0[5]);
    let source = match random.below(4) {
        0 => std::net::Ipv4Addr::from(random.next() as u32).to_string(),
        _ => format!("10.0.{number}.{}", random.below(5)),
    };
    let destination = match random.below(4) {
        0 => std::net::Ipv4Addr::from(random.next() as u32).to_string(),
        1 => format!("10.0.{}.1", random.below(5)),
        _ => format!("10.0.{}.{}", random.below(5), random.below(6)),
    };
    let data = random.below(1400);
    let data = random.bytes(data);
    let mut packet = match random.below(6) {
        0 => return an_arp(random, port, &source, &destination),
        1 => Packet::echo_request(&source, &destination, &data),
        2 => Packet::new(&source, &destination, ICMP, &icmp(random.below(20) as u8, 0, random.next() as u32, &data)),
        3 => Packet::tcp(&source, &destination, random.next() as u32, &data),
        4 => Packet::new(&source, &destination, random.next() as u8, &data),
        _ => Packet::udp(&source, &destination, &data),
    };
    packet.ttl = if random.one_in(4) { random.below(3) as u8 } else { random.next() as u8 };
    packet.fragment = if random.one_in(6) { random.next() as u16 } else { *random.of(&[0, DONT_FRAGMENT]) };
    packet.options = if random.one_in(5) { random_options(random) } else { Vec::new() };
    let to = if random.one_in(20) { MacAddress::BROADCAST } else { port.mac };
    let mut frame = packet.frame(to, host_mac(packet.source));
    if frame.len() < 60 && random.one_in(2) {
        frame.resize(60, 0);
    }
    frame
}

fn random_options(random: &mut Random) -> Vec<u8> {
    let words = 1 + random.below(10);
    random.bytes(words * 4)
}

fn an_arp(random: &mut Random, port: &Port, source: &str, destination: &str) -> Vec<u8> {
    let operation = *random.of(&[REQUEST, REQUEST, REPLY, 0, 3]);
    let to = if random.one_in(2) { MacAddress::BROADCAST } else { port.mac };
    let mac = if random.one_in(10) { MacAddress([0xff; 6]) } else { host_mac(ip(source)) };
    let source = if random.one_in(10) { "0.0.0.0" } else { source };
    let mut frame = ethernet(to, mac, 0x0806, &arp(operation, (mac, source), (MacAddress::ZERO, destination)));
    frame.resize(60, 0);
    frame
}

/// Spoils a frame: bytes, length, or all of it.
fn mutate(random: &mut Random, frame: &mut Vec<u8>) {
    match random.below(8) {
        0 => {
            *frame = {
                let n = 1 + random.below(200);
                random.bytes(n)
            }
        }
        1 => frame.truncate(1 + random.below(frame.len())),
        2 => frame.extend({
            let n = random.below(600);
            random.bytes(n)
        }),
        3 => {
            // Random bytes after a valid link header.
            let n = random.below(100);
            frame.truncate(14);
            frame.extend(random.bytes(n));
        }
        _ => {
            // Mostly in the headers, where damage has the most effect.
            for _ in 0..1 + random.below(4) {
                let within = frame.len().min(if random.one_in(4) { frame.len() } else { 60 });
                let at = random.below(within);
                frame[at] = if random.one_in(3) { *random.of(&[0, 1, 0x7f, 0x80, 0xff]) } else { random.next() as u8 };
            }
        }
    }
    // With a valid checksum, the rest of the damage gets further.
    if frame.get(12..14) == Some(&[0x86, 0xdd]) {
        return hostile6::seal(random, frame);
    }
    let header = frame.get(14).map_or(0, |first| (first & 0xf) as usize * 4);
    if header >= 20 && 14 + header <= frame.len() && !random.one_in(3) {
        seal(frame, 14);
    }
}

fn arrival(random: &mut Random, port: &Port, make: Sound, with_offloads: bool) -> Arrival {
    let mut frame = make(random, port);
    if !random.one_in(4) {
        mutate(random, &mut frame);
    }
    if random.one_in(50) {
        let n = random.below(12_000);
        frame.extend(random.bytes(n));
    }
    let mut arrival = Arrival::from(frame);
    arrival.offset = 128 + random.below(256);
    in_any_parts(random, &mut arrival);
    if with_offloads && random.one_in(2) {
        arrival.flags = *random.of(&[flag::PARTIAL_CHECKSUM, flag::SEGMENTED, flag::OFFLOAD]);
        let kinds =
            [Segmentation::None, Segmentation::Tcp4, Segmentation::Tcp4Ecn, Segmentation::Udp4, Segmentation::Tcp6];
        let mut number = || match random.below(4) {
            0 => random.next() as u16,
            _ => random.below(100) as u16,
        };
        arrival.offload = Offload {
            checksum_start: number(),
            checksum_offset: number(),
            segment_size: number(),
            header_length: number(),
            kind: Segmentation::None,
        };
        arrival.offload.kind = *random.of(&kinds);
    }
    arrival
}

/// In one buffer when it fits and chance decides so, else in several parts of any length.
fn in_any_parts(random: &mut Random, arrival: &mut Arrival) {
    let room = HEADROOM + DATA_SIZE - arrival.offset;
    if arrival.frame.len() <= room && !random.one_in(6) {
        return;
    }
    let mut left = arrival.frame.len();
    while left > 0 {
        let most = left.min(if arrival.parts.is_empty() { room } else { DATA_SIZE });
        let short = random.one_in(4) && arrival.parts.len() < 20;
        let part = if short { 1 + random.below(most.min(60)) } else { most };
        arrival.parts.push(part);
        left -= part;
    }
}

/// Checks what must be true of every frame that leaves. Returns how many ICMPv6 messages the router itself sent.
fn check_sent(ports: &[Port], with_offloads: bool) -> usize {
    let mut messages = 0;
    for (number, port) in ports.iter().enumerate() {
        for sent in port.sent_whole() {
            let frame = &sent.frame;
            // Below a label that is swapped or popped, the packet is not checked: that is the next router's task.
            let least = if frame[12..14] == [0x88, 0x47] { 14 } else { 28 };
            assert!(frame.len() >= least, "a whole header at least: {}", frame.len());
            assert_eq!(frame[6..12], port.mac.0);
            if number < 3 {
                assert_eq!(sent.flags, 0, "nothing is left to a device that cannot");
            }
            if frame[12..14] == [8, 0] && !with_offloads {
                let header = (frame[14] & 0xf) as usize * 4;
                assert!(header >= 20 && frame[14] >> 4 == 4);
                assert_eq!(checksum(&frame[14..14 + header]), 0);
                assert!(frame[22] > 0, "a packet without a hop left was sent");
                assert_eq!(frame[0] & 1, 0, "an IPv4 packet was sent to a group");
            }
            if frame[12..14] == [0x86, 0xdd] && !with_offloads {
                messages += usize::from(hostile6::check_sent(port, &frame[14..]));
            }
        }
    }
    messages
}

fn survives(seed: u64, make: Sound, with_offloads: bool, frames: usize) -> usize {
    let random = &mut Random::new(seed);
    let (bed, ports) = bed(random);
    survives_in(bed, &ports, &ports, (random, make, with_offloads, frames))
}

/// The same, where what `checked` ports send must be right.
fn survives_in(
    mut bed: Bed,
    ports: &[Port],
    checked: &[Port],
    (random, make, with_offloads, frames): (&mut Random, Sound, bool, usize),
) -> usize {
    let (mut received, mut messages) = (0, 0);
    for batch in 0..frames / BATCH {
        for _ in 0..BATCH {
            let port = random.of(ports);
            port.receive(arrival(random, port, make, with_offloads));
        }
        received += BATCH as u64;
        bed.run();
        messages += check_sent(checked, with_offloads);
        ports.iter().for_each(|port| drop(port.sent_whole()));
        let ledger = bed.worker.core().ledger();
        assert!(ledger.is_balanced(), "{ledger:?}");
        assert_eq!(ledger.received, received);
        assert!(bed.buffers_in_use() >= bed.held());
        if batch % BATCHES_TO_REST == 0 {
            // Fragments to the router time out after a minute.
            bed.advance(Duration::from_secs(61));
            // Twice, because errors to senders may wait for their neighbours, too.
            (0..=2 * REQUESTS + 1).for_each(|_| bed.advance(Duration::from_millis(1001)));
            assert_eq!((bed.held(), bed.buffers_in_use()), (0, 0), "batch {batch}");
            any_routes(&mut bed, ports, random);
        }
    }
    let panics: Vec<_> = bed.errors().into_iter().filter(|((node, _), _)| node == "dispatcher").collect();
    assert!(panics.is_empty(), "{panics:?}");
    messages
}

#[test]
fn random_and_mutated_frames_are_survived_and_accounted_for() {
    survives(1, sound, false, FRAMES * 3 / 5);
}

#[test]
fn so_are_frames_with_nonsense_left_to_finish() {
    survives(2, sound, true, FRAMES * 2 / 5);
}

#[test]
fn so_are_frames_of_ip6() {
    let messages = survives(4, hostile6::sound, false, FRAMES * 3 / 5);
    assert!(messages > FRAMES / 200, "{messages} messages of the router's own were looked at");
}

#[test]
fn so_are_frames_of_both_families_with_nonsense_left_to_finish() {
    survives(5, of_both, true, FRAMES * 2 / 5);
}

#[test]
fn so_are_labelled_frames() {
    survives(6, labelled, false, FRAMES * 3 / 5);
}

#[test]
fn so_are_labelled_frames_with_nonsense_left_to_finish() {
    survives(7, labelled, true, FRAMES * 2 / 5);
}

#[test]
fn frames_at_the_edges_of_a_buffer_are_survived() {
    let random = &mut Random::new(3);
    let (mut bed, ports) = bed(random);
    for offset in [128, HEADROOM, 2000, 2200] {
        for _ in 0..500 {
            let mut frame = if random.one_in(3) { labelled(random, &ports[0]) } else { of_both(random, &ports[0]) };
            frame.truncate(HEADROOM + DATA_SIZE - offset);
            ports[0].receive(Arrival { offset, ..Arrival::from(frame) });
        }
        bed.run();
        check_sent(&ports, false);
    }
    assert!(bed.errors().keys().all(|(node, _)| node != "dispatcher"));
}

/// From the wire to Linux, from Linux to the wire, and while Linux comes and goes.
#[test]
fn so_are_frames_to_and_from_linux() {
    for (seed, make, with_offloads) in [(8, of_both as Sound, false), (9, of_both, true), (10, labelled, true)] {
        let random = &mut Random::new(seed);
        let (mut bed, mut ports) = bed(random);
        let linux = bed.port_that_finishes("x0", TxOffloads { checksum: true, segmentation: true });
        bed.router.set_admin(linux.index, true).unwrap();
        linux_cp::join(&mut bed.router, ports[0].index, linux.index, "xe0").unwrap();
        // What these two send is what others made.
        ports.push(linux);
        survives_in(bed, &ports, &[], (random, make, with_offloads, FRAMES / 10));
    }
}
