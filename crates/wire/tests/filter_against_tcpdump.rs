//! Filters against tcpdump: the same expressions on the same capture have to pick the same
//! packets. Skipped where tcpdump is not installed.

use quiver_wire::filter::{Filter, LinkType};
use std::io::Write;
use std::process::{Command, Stdio};

/// A small generator of its own, so that every run judges the same packets.
struct Random(u64);

impl Random {
    fn next(&mut self, below: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % below
    }
    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.next(choices.len())]
    }
}

const MACS: [[u8; 6]; 4] = [[2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2], [0xff; 6], [1, 0, 0x5e, 0, 0, 5]];
const ADDRESSES: [[u8; 4]; 5] = [[10, 0, 0, 1], [10, 0, 0, 2], [10, 9, 0, 1], [192, 168, 1, 1], [224, 0, 0, 5]];
const PORTS: [u16; 5] = [22, 53, 80, 443, 4789];

fn address6(random: &mut Random) -> [u8; 16] {
    let mut address = [0; 16];
    address[..4].copy_from_slice(&random.of(&[[0x20, 0x01, 0x0d, 0xb8], [0xfe, 0x80, 0, 0], [0xff, 0x02, 0, 0]]));
    address[15] = random.of(&[1, 2]);
    address
}

fn ip4(random: &mut Random, frame: &mut Vec<u8>) {
    let options = random.of(&[0, 0, 0, 1, 10]);
    frame.extend([0x45 + options, 0, 0, 60, 0, 0]);
    frame.extend(random.of(&[0u16, 0, 0, 0x4000, 0x2000, 0x2005, 0x0005]).to_be_bytes());
    frame.extend([64, random.of(&[1, 2, 6, 6, 17, 17, 50, 51, 89, 112, 132]), 0, 0]);
    frame.extend(random.of(&ADDRESSES));
    frame.extend(random.of(&ADDRESSES));
    frame.extend(vec![1; options as usize * 4]);
}

fn ip6(random: &mut Random, frame: &mut Vec<u8>) {
    let protocol = random.of(&[6, 17, 58, 132, 50]);
    let fragment = random.next(4) == 0;
    frame.extend([0x60, 0, 0, 0, 0, 20, if fragment { 44 } else { protocol }, 64]);
    frame.extend(address6(random));
    frame.extend(address6(random));
    if fragment {
        frame.extend([protocol, 0, 0, 1, 0, 0, 0, 9]);
    }
}

fn arp(random: &mut Random, frame: &mut Vec<u8>) {
    frame.extend([0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 1]);
    frame.extend(random.of(&ADDRESSES));
    frame.extend([0; 6]);
    frame.extend(random.of(&ADDRESSES));
}

fn frame(random: &mut Random) -> Vec<u8> {
    let mut frame = Vec::new();
    frame.extend(random.of(&MACS));
    frame.extend(random.of(&MACS));
    for _ in 0..random.of(&[0, 0, 0, 1, 1, 2]) {
        frame.extend(random.of(&[0x8100u16, 0x88a8]).to_be_bytes());
        frame.extend(random.of(&[100u16, 200, 0x6064]).to_be_bytes());
    }
    let labels = random.of(&[0, 0, 0, 0, 1, 2]);
    if labels > 0 {
        frame.extend(0x8847u16.to_be_bytes());
        for number in 1..=labels {
            let bottom = u32::from(number == labels);
            frame.extend((random.of(&[100u32, 200, 1048575, 0x40001, 0x60001]) << 12 | bottom << 8 | 64).to_be_bytes());
        }
    }
    type Body = fn(&mut Random, &mut Vec<u8>);
    let kinds: [(u16, Body); 4] = [(0x0800, ip4), (0x0800, ip4), (0x86dd, ip6), (0x0806, arp)];
    let (kind, body) = random.of(&kinds);
    if labels == 0 {
        frame.extend(random.of(&[kind, kind, kind, kind, kind, kind, 0x8035, 0x1234]).to_be_bytes());
    }
    body(random, &mut frame);
    frame.extend(random.of(&PORTS).to_be_bytes());
    frame.extend(random.of(&PORTS).to_be_bytes());
    let padding = random.next(60);
    frame.extend(vec![0; padding]);
    if random.next(8) == 0 {
        let short = random.next(frame.len());
        frame.truncate(short);
    }
    frame
}

/// A capture file; each packet's number is its time.
fn capture(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4u32, 0x0004_0002, 0, 0, 65535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (number, frame) in frames.iter().enumerate() {
        for word in [number as u32, 0, frame.len() as u32, frame.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(frame);
    }
    file
}

/// The numbers of the packets that tcpdump picks.
fn picked_by_tcpdump(file: &[u8], expression: &str) -> Result<Vec<usize>, String> {
    let mut child = Command::new("tcpdump")
        // Not optimised: else tests that cannot change the verdict are left out, and with them
        // the refusal of packets that are too short for them.
        .args(["-n", "-O", "-r", "-", "-w", "-", expression])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| error.to_string())?;
    let mut stdin = child.stdin.take().unwrap();
    let file = file.to_vec();
    // It may refuse the expression and go away before it has read everything.
    let feeding = std::thread::spawn(move || drop(stdin.write_all(&file)));
    let output = child.wait_with_output().unwrap();
    feeding.join().unwrap();
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let word = |at: usize| u32::from_le_bytes(output.stdout[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut picked) = (24, Vec::new());
    while at < output.stdout.len() {
        picked.push(word(at));
        at += 16 + word(at + 8);
    }
    Ok(picked)
}

#[rustfmt::skip]
const EXPRESSIONS: &[&str] = &[
    "ip", "ip6", "arp", "rarp", "tcp", "udp", "sctp", "icmp", "icmp6", "igmp", "esp", "ah", "vrrp", "pim",
    "not ip", "not tcp", "not port 53", "! arp", "ip or arp", "ip && udp", "ip6 || arp",
    "ether host 02:00:00:00:00:01", "ether src 02:00:00:00:00:01", "ether dst 02:00:00:00:00:02",
    "ether src host 02:00:00:00:00:01 and ether dst host 02:00:00:00:00:02",
    "ether proto 0x1234", "ether proto 0x0806", "not ether proto 0x0800", "ether proto \\ip",
    "broadcast", "multicast", "ether broadcast", "ether multicast", "ip multicast", "ip6 multicast",
    "broadcast or multicast and ip", "not multicast",
    "host 10.0.0.1", "src host 10.0.0.1", "dst host 10.0.0.1", "src 10.0.0.1", "dst 10.0.0.2",
    "src or dst host 10.0.0.1", "src and dst host 10.0.0.1", "host 10.0.0.1 or 10.0.0.2",
    "host 10.0.0.1 and not 10.0.0.2",
    "ip host 10.0.0.1", "arp host 10.0.0.1", "ip src host 10.0.0.1", "arp src host 10.0.0.1", "not host 10.0.0.1",
    "host 2001:db8::1", "src host fe80::1", "ip6 host ff02::2", "dst host 2001:db8::2",
    "net 10.0.0.0/8", "src net 10.0.0.0/8", "dst net 10.0.0.0/16", "net 0.0.0.0/0", "net 192.168.1.0/24",
    "net 10.0.0.0/30",
    "net 2001:db8::/32", "src net fe80::/10", "ip net 10.0.0.0/8", "not net 10.0.0.0/8",
    "port 53", "src port 53", "dst port 53", "tcp port 80", "udp port 53", "sctp port 443", "tcp src port 22",
    "udp dst port 4789", "port 80 or 443", "tcp port 80 or 443", "src port 22 or dst port 53", "src and dst port 53",
    "src or dst port 53", "portrange 50-90", "src portrange 22-53", "tcp portrange 400-500",
    "udp dst portrange 53-4789",
    "port 53 and not host 10.0.0.1", "not (port 53 or port 80)",
    "proto 17", "ip proto 17", "ip6 proto 17", "proto \\udp", "ip proto \\tcp", "ip proto 89", "ip6 proto 58",
    "less 60", "greater 60", "len >= 60", "len < 70", "len = 64", "len != 64", "len > 80", "len <= 50",
    "less 60 or greater 90",
    "vlan", "vlan 100", "vlan 200", "not vlan", "vlan and ip", "vlan and tcp port 80", "vlan 100 and host 10.0.0.1",
    "vlan and vlan", "vlan 100 and vlan 200", "vlan and arp", "ip or vlan and ip", "(vlan 100) and not udp",
    "not vlan 100 and ip", "vlan and mpls",
    "mpls", "mpls 100", "mpls 1048575", "mpls and ip", "mpls and ip6", "mpls and host 10.0.0.1", "mpls and mpls",
    "mpls 100 and mpls 200", "mpls and tcp port 80", "mpls and mpls and ip",
    "udp and dst port 53 and not src net 10.0.0.0/8", "tcp or udp and port 53", "(tcp or udp) and port 53",
    "tcp and not (src port 80 or dst port 80)", "not not ip", "not (not (not ip))",
];

#[test]
fn tcpdump_picks_the_same_packets() {
    if Command::new("tcpdump").arg("--version").output().is_err() {
        eprintln!("skipped: tcpdump is not installed");
        return;
    }
    let mut random = Random(20);
    let frames: Vec<Vec<u8>> = (0..2000).map(|_| frame(&mut random)).collect();
    let file = capture(&frames);
    let mut disagreements = Vec::new();
    for expression in EXPRESSIONS {
        let filter = Filter::parse(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
        let theirs = picked_by_tcpdump(&file, expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
        let ours: Vec<usize> = (0..frames.len()).filter(|&n| filter.matches(&frames[n], LinkType::Ethernet)).collect();
        if let Some(&first) =
            (0..frames.len()).collect::<Vec<_>>().iter().find(|n| ours.contains(n) != theirs.contains(n))
        {
            let verdict = if ours.contains(&first) { "matches here" } else { "matches there" };
            disagreements.push(format!("{expression}: packet {first} {verdict}: {:02x?}", frames[first]));
        }
    }
    assert!(disagreements.is_empty(), "{}", disagreements.join("\n"));
}
