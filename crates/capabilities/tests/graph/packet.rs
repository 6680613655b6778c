//! Packets as tests write them, byte by byte and without the code under test: checksums
//! are summed the slow way.

use std::net::Ipv4Addr;
use wire::MacAddress;

pub const ICMP: u8 = 1;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;

/// RFC 1071, as its section 4.1 writes it.
pub fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
    }
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !sum as u16
}

/// An IPv4 packet.
#[derive(Debug, Clone)]
pub struct Packet {
    pub source: Ipv4Addr,
    pub destination: Ipv4Addr,
    pub tos: u8,
    pub id: u16,
    /// Flags and fragment offset as they stand in the header.
    pub fragment: u16,
    pub ttl: u8,
    pub protocol: u8,
    /// A multiple of four bytes.
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

pub const DONT_FRAGMENT: u16 = 0x4000;
pub const MORE_FRAGMENTS: u16 = 0x2000;

pub fn ip(text: &str) -> Ipv4Addr {
    text.parse().expect("an address")
}

impl Packet {
    pub fn new(source: &str, destination: &str, protocol: u8, payload: &[u8]) -> Packet {
        Packet {
            source: ip(source),
            destination: ip(destination),
            tos: 0,
            id: 0x1234,
            fragment: 0,
            ttl: 64,
            protocol,
            options: Vec::new(),
            payload: payload.to_vec(),
        }
    }

    /// A datagram with ports 1000 and 2000 and a right checksum.
    pub fn udp(source: &str, destination: &str, data: &[u8]) -> Packet {
        let mut packet = Packet::new(source, destination, UDP, &[]);
        packet.payload =
            [&[0x03, 0xe8, 0x07, 0xd0][..], &(8 + data.len() as u16).to_be_bytes(), &[0, 0], data].concat();
        packet.fill_transport_checksum(6);
        packet
    }

    /// A TCP segment with ACK set and a right checksum.
    pub fn tcp(source: &str, destination: &str, sequence: u32, data: &[u8]) -> Packet {
        let mut packet = Packet::new(source, destination, TCP, &[]);
        packet.payload =
            [&[0x03, 0xe8, 0x07, 0xd0][..], &sequence.to_be_bytes(), &[0, 0, 0, 9, 0x50, 0x10, 1, 2, 0, 0, 0, 0], data]
                .concat();
        packet.fill_transport_checksum(16);
        packet
    }

    pub fn echo_request(source: &str, destination: &str, data: &[u8]) -> Packet {
        Packet::new(source, destination, ICMP, &icmp(8, 0, 0x0042_0007, data))
    }

    pub fn fill_transport_checksum(&mut self, at: usize) {
        self.payload[at..at + 2].fill(0);
        let sum = checksum(&[self.pseudo_header(), self.payload.clone()].concat());
        self.payload[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }

    pub fn pseudo_header(&self) -> Vec<u8> {
        let length = self.payload.len() as u16;
        [&self.source.octets()[..], &self.destination.octets(), &[0, self.protocol], &length.to_be_bytes()].concat()
    }

    pub fn ttl(mut self, ttl: u8) -> Packet {
        self.ttl = ttl;
        self
    }
    pub fn id(mut self, id: u16) -> Packet {
        self.id = id;
        self
    }
    pub fn fragment(mut self, fragment: u16) -> Packet {
        self.fragment = fragment;
        self
    }
    pub fn options(mut self, options: &[u8]) -> Packet {
        self.options = options.to_vec();
        self
    }

    /// From the IPv4 header on.
    pub fn bytes(&self) -> Vec<u8> {
        let header = 20 + self.options.len();
        let mut bytes = vec![0x40 | (header / 4) as u8, self.tos];
        bytes.extend(((header + self.payload.len()) as u16).to_be_bytes());
        bytes.extend(self.id.to_be_bytes());
        bytes.extend(self.fragment.to_be_bytes());
        bytes.extend([self.ttl, self.protocol, 0, 0]);
        bytes.extend(self.source.octets());
        bytes.extend(self.destination.octets());
        bytes.extend(&self.options);
        let sum = checksum(&bytes);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }

    /// From the Ethernet header on.
    pub fn frame(&self, to: MacAddress, from: MacAddress) -> Vec<u8> {
        ethernet(to, from, 0x0800, &self.bytes())
    }
}

pub fn ethernet(to: MacAddress, from: MacAddress, ethertype: u16, payload: &[u8]) -> Vec<u8> {
    [&to.0[..], &from.0, &ethertype.to_be_bytes(), payload].concat()
}

/// An ICMP message with a right checksum.
pub fn icmp(kind: u8, code: u8, rest: u32, data: &[u8]) -> Vec<u8> {
    let mut message = [&[kind, code, 0, 0][..], &rest.to_be_bytes(), data].concat();
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    message
}

pub const REQUEST: u16 = 1;
pub const REPLY: u16 = 2;

/// An ARP message from its hardware type on.
pub fn arp(operation: u16, sender: (MacAddress, &str), target: (MacAddress, &str)) -> Vec<u8> {
    [
        &[0, 1, 8, 0, 6, 4][..],
        &operation.to_be_bytes(),
        &sender.0.0,
        &ip(sender.1).octets(),
        &target.0.0,
        &ip(target.1).octets(),
    ]
    .concat()
}

/// Puts the right checksum into the IPv4 header that starts at `at`.
pub fn seal(frame: &mut [u8], at: usize) {
    let header = (frame[at] & 0xf) as usize * 4;
    frame[at + 10..at + 12].fill(0);
    let sum = checksum(&frame[at..at + header]);
    frame[at + 10..at + 12].copy_from_slice(&sum.to_be_bytes());
}

/// What RFC 1812 makes of a frame that is forwarded: another link header, one hop less,
/// no padding, and nothing else changed.
pub fn forwarded(frame: &[u8], to: MacAddress, from: MacAddress) -> Vec<u8> {
    let total = u16::from_be_bytes([frame[16], frame[17]]) as usize;
    let mut out = ethernet(to, from, 0x0800, &frame[14..14 + total]);
    out[22] -= 1;
    seal(&mut out, 14);
    out
}

/// xorshift64* (Vigna 2016): fixed seeds, so that runs repeat.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    pub fn below(&mut self, n: usize) -> usize {
        ((self.next() >> 32) as usize * n) >> 32
    }
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
    pub fn of<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len())]
    }
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
}
