//! IPv6 packets for tests, built byte by byte without the code under test.

use crate::packet::{checksum, ethernet};
use std::net::Ipv6Addr;
use wire::MacAddress;

pub const TCP: u8 = 6;
pub const ICMP6: u8 = 58;
pub const HOP_BY_HOP: u8 = 0;
pub const ROUTING: u8 = 43;
pub const FRAGMENT: u8 = 44;
pub const NO_NEXT: u8 = 59;
pub const OPTIONS: u8 = 60;

pub fn ip6(text: &str) -> Ipv6Addr {
    text.parse().expect("an address")
}

/// An IPv6 packet.
#[derive(Debug, Clone)]
pub struct Packet6 {
    pub source: Ipv6Addr,
    pub destination: Ipv6Addr,
    pub label: u32,
    pub hops: u8,
    /// The protocol of the payload.
    pub next: u8,
    /// Each with its number. Their next-header fields are set by `bytes`.
    pub extensions: Vec<(u8, Vec<u8>)>,
    pub payload: Vec<u8>,
}

impl Packet6 {
    pub fn new(source: &str, destination: &str, next: u8, payload: &[u8]) -> Packet6 {
        let (source, destination) = (ip6(source), ip6(destination));
        Packet6 { source, destination, label: 0, hops: 64, next, extensions: Vec::new(), payload: payload.to_vec() }
    }

    /// A datagram with ports 1000 and 2000 and a valid checksum.
    pub fn udp(source: &str, destination: &str, data: &[u8]) -> Packet6 {
        let length = 8 + data.len() as u16;
        let payload = [&[0x03, 0xe8, 0x07, 0xd0][..], &length.to_be_bytes(), &[0, 0], data].concat();
        Packet6::new(source, destination, 17, &payload).sealed_at(6)
    }

    /// A segment with ports 1000 and 2000, ACK set, acknowledging 9, and a valid checksum.
    pub fn tcp(source: &str, destination: &str, sequence: u32, data: &[u8]) -> Packet6 {
        let numbers = [sequence.to_be_bytes(), 9u32.to_be_bytes()].concat();
        let payload = [&[0x03, 0xe8, 0x07, 0xd0][..], &numbers, &[0x50, 0x10, 0x20, 0, 0, 0, 0, 0], data].concat();
        Packet6::new(source, destination, TCP, &payload).sealed_at(16)
    }

    /// An ICMPv6 message with a valid checksum.
    pub fn icmp(source: &str, destination: &str, (kind, code): (u8, u8), rest: u32, data: &[u8]) -> Packet6 {
        let message = [&[kind, code, 0, 0][..], &rest.to_be_bytes(), data].concat();
        Packet6::new(source, destination, ICMP6, &message).sealed_at(2)
    }

    pub fn echo_request(source: &str, destination: &str, data: &[u8]) -> Packet6 {
        Packet6::icmp(source, destination, (128, 0), 0x0042_0007, data)
    }

    /// A Neighbor Discovery message. `data` follows the reserved word.
    pub fn discovery(source: &str, destination: &str, kind: u8, flags: u32, data: &[u8]) -> Packet6 {
        Packet6 { hops: 255, ..Packet6::icmp(source, destination, (kind, 0), flags, data) }
    }

    /// The pseudo header of the payload's checksum (RFC 8200 section 8.1).
    pub fn pseudo_header(&self) -> Vec<u8> {
        let length = (self.payload.len() as u32).to_be_bytes();
        [&self.source.octets()[..], &self.destination.octets(), &length, &[0, 0, 0, self.next]].concat()
    }

    /// With a valid checksum at that place of the payload.
    pub fn sealed_at(mut self, at: usize) -> Packet6 {
        self.payload[at..at + 2].fill(0);
        let sum = checksum(&[self.pseudo_header(), self.payload.clone()].concat());
        self.payload[at..at + 2].copy_from_slice(&sum.to_be_bytes());
        self
    }

    pub fn hops(self, hops: u8) -> Packet6 {
        Packet6 { hops, ..self }
    }

    /// Adds an extension header after those that are there. `body` follows its next header and length: 6 bytes, or a
    /// multiple of 8 more.
    pub fn extension(mut self, kind: u8, body: &[u8]) -> Packet6 {
        assert_eq!(body.len() % 8, 6);
        let units = (body.len() / 8) as u8;
        self.extensions.push((kind, [&[0, units][..], body].concat()));
        self
    }

    /// Adds a fragment header.
    pub fn fragment(mut self, offset: u16, more: bool, id: u32) -> Packet6 {
        let word = offset | u16::from(more);
        let header = [&[0, 0][..], &word.to_be_bytes(), &id.to_be_bytes()].concat();
        self.extensions.push((FRAGMENT, header));
        self
    }

    /// From the IPv6 header on.
    pub fn bytes(&self) -> Vec<u8> {
        let mut behind = Vec::new();
        for (at, (_, header)) in self.extensions.iter().enumerate() {
            let next = self.extensions.get(at + 1).map_or(self.next, |(kind, _)| *kind);
            behind.push(next);
            behind.extend(&header[1..]);
        }
        behind.extend(&self.payload);
        let first = self.extensions.first().map_or(self.next, |(kind, _)| *kind);
        let mut bytes = (0x6000_0000 | self.label).to_be_bytes().to_vec();
        bytes.extend((behind.len() as u16).to_be_bytes());
        bytes.extend([first, self.hops]);
        bytes.extend(self.source.octets());
        bytes.extend(self.destination.octets());
        bytes.extend(behind);
        bytes
    }

    /// From the Ethernet header on.
    pub fn frame(&self, to: MacAddress, from: MacAddress) -> Vec<u8> {
        ethernet(to, from, 0x86dd, &self.bytes())
    }
}

/// A Neighbor Discovery option with an Ethernet address: 1 for the source's, 2 for the target's.
pub fn link_option(kind: u8, mac: MacAddress) -> Vec<u8> {
    [&[kind, 1][..], &mac.0].concat()
}

/// The solicited-node group of an address.
pub fn solicited_group(address: &str) -> String {
    let [.., a, b, c] = ip6(address).octets();
    format!("ff02::1:ff{a:02x}:{b:02x}{c:02x}")
}
