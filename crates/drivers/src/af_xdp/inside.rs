//! Where in a packet a checksum is that is only begun: behind extension headers and labels, and in tunnels.
//!
//! A host that sends by a tunnel leaves the inner packet's checksum to its network card as it leaves its own
//! packets'. What is no tunnel may look like one, so an inner packet is believed only when it ends where the tunnel
//! does and, of IPv4, its header's checksum is right.
#![forbid(unsafe_code)]

use super::checksum::Begun;
use crate::vnet::link_header_length;
use graph::buffer::Offload;
use wire::checksum;
use wire::ethernet::EtherType;
use wire::ipv4::Protocol;
use wire::mpls;

/// Tunnels inside each other.
const MAX_DEPTH: u8 = 3;
const MAX_LABELS: usize = 8;
/// Extension headers that may come before TCP or UDP, hop-by-hop and destination options: behind others the pseudo
/// header has another destination, or the datagram is not whole (RFC 8200 section 8.1).
const IP6_OPTIONS: [u8; 2] = [0, 60];
const MAX_IP6_OPTIONS: usize = 4;
/// RFC 4023.
const MPLS_IN_IP: Protocol = Protocol(137);
/// VXLAN and Geneve (RFC 7348, 8926).
const VXLAN_PORT: u16 = 4789;
const GENEVE_PORT: u16 = 6081;
/// Ethernet inside GRE or Geneve (RFC 7637, 8926).
const ETHERNET_INSIDE: EtherType = EtherType(0x6558);

/// What a packet is in.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Around {
    /// Where the packet begins, from the frame's network header on.
    at: usize,
    /// Where the tunnel that it is in ends; none when it is in none.
    end: Option<usize>,
    tunnels: u8,
}

/// A datagram or segment.
#[derive(Clone, Copy)]
struct Transport {
    protocol: Protocol,
    start: usize,
    length: usize,
    pseudo: u16,
}

fn word(packet: &[u8], at: usize) -> Option<u16> {
    packet.get(at..)?.first_chunk().map(|word| u16::from_be_bytes(*word))
}

/// The checksum that is begun in a packet of that kind. Offsets count from the start of `packet`, which is the frame
/// from its network header on.
pub(super) fn network(packet: &[u8], kind: EtherType, around: Around) -> Option<Begun> {
    match kind {
        EtherType::IPV4 => transport(packet, ip4(packet, around)?, around),
        EtherType::IPV6 => transport(packet, ip6(packet, around)?, around),
        EtherType::MPLS => labelled(packet, around),
        _ => None,
    }
}

/// Behind labels the packet's first bits say what it is.
fn labelled(packet: &[u8], around: Around) -> Option<Begun> {
    let mut at = around.at;
    for _ in 0..MAX_LABELS {
        let entry: &[u8; mpls::ENTRY_LEN] = packet.get(at..)?.first_chunk()?;
        at += entry.len();
        if entry[2] & 1 == 1 {
            let kind = match packet.get(at)? >> 4 {
                4 => EtherType::IPV4,
                6 => EtherType::IPV6,
                _ => return None,
            };
            return network(packet, kind, Around { at, ..around });
        }
    }
    None
}

/// What an IPv4 packet carries. Fragments have no checksum of their own.
fn ip4(packet: &[u8], around: Around) -> Option<Transport> {
    let rest = packet.get(around.at..)?;
    let header: &[u8; 20] = rest.first_chunk()?;
    let start = usize::from(header[0] & 0xf) * 4;
    let total = u16::from_be_bytes([header[2], header[3]]);
    let fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff;
    let length = total.checked_sub(start as u16)?;
    if fragment != 0 || start < header.len() {
        return None;
    }
    if let Some(end) = around.end {
        let is_sound = checksum::fold(checksum::sum(rest.get(..start)?, 0)) == u16::MAX;
        if header[0] >> 4 != 4 || around.at + usize::from(total) != end || !is_sound {
            return None;
        }
    }
    let sum = checksum::sum(&header[12..20], u32::from(header[9]) + u32::from(length));
    let (protocol, pseudo) = (Protocol(header[9]), checksum::fold(sum));
    Some(Transport { protocol, start: around.at + start, length: length.into(), pseudo })
}

/// The same of an IPv6 packet.
fn ip6(packet: &[u8], around: Around) -> Option<Transport> {
    let header: &[u8; 40] = packet.get(around.at..)?.first_chunk()?;
    let end = around.at + header.len() + usize::from(u16::from_be_bytes([header[4], header[5]]));
    if around.end.is_some_and(|of_tunnel| header[0] >> 4 != 6 || end != of_tunnel) {
        return None;
    }
    let (mut start, mut next) = (around.at + header.len(), header[6]);
    for _ in 0..MAX_IP6_OPTIONS {
        if !IP6_OPTIONS.contains(&next) {
            break;
        }
        let &[following, units] = packet.get(start..start + 2)? else { return None };
        start += (usize::from(units) + 1) * 8;
        next = following;
    }
    let length = end.checked_sub(start)?;
    let sum = checksum::sum(&header[8..40], u32::from(next) + length as u32);
    Some(Transport { protocol: Protocol(next), start, length, pseudo: checksum::fold(sum) })
}

fn transport(packet: &[u8], found: Transport, around: Around) -> Option<Begun> {
    let Transport { protocol, start, length, pseudo } = found;
    let offset = match protocol {
        Protocol::TCP => 16,
        Protocol::UDP => 6,
        _ => return tunnelled(packet, found, around),
    };
    let said = word(packet, start + offset)?;
    // In UDP nothing says that there is none (RFC 768).
    if said == pseudo && said != 0 {
        let offload = Offload { checksum_start: start as u16, checksum_offset: offset as u16, ..Offload::default() };
        return Some(Begun { offload, start, length, pseudo });
    }
    if protocol == Protocol::UDP { tunnelled(packet, found, around) } else { None }
}

/// What is inside a tunnel.
fn tunnelled(packet: &[u8], found: Transport, around: Around) -> Option<Begun> {
    let Transport { protocol, start, length, .. } = found;
    let (kind, at) = match protocol {
        Protocol::IP_IN_IP => (EtherType::IPV4, start),
        Protocol::IPV6 => (EtherType::IPV6, start),
        MPLS_IN_IP => (EtherType::MPLS, start),
        Protocol::GRE => gre(packet, start)?,
        Protocol::UDP => match word(packet, start + 2)? {
            VXLAN_PORT => (ETHERNET_INSIDE, start + 16),
            GENEVE_PORT => {
                let options = usize::from(packet.get(start + 8)? & 0x3f) * 4;
                (EtherType(word(packet, start + 10)?), start + 16 + options)
            }
            _ => return None,
        },
        _ => return None,
    };
    let within = Around { at, end: Some(start + length), tunnels: around.tunnels + 1 };
    if within.tunnels > MAX_DEPTH {
        return None;
    }
    if kind != ETHERNET_INSIDE {
        return network(packet, kind, within);
    }
    let l3 = at + link_header_length(packet.get(at..)?)?;
    network(packet, EtherType(word(packet, l3 - 2)?), Around { at: l3, ..within })
}

/// What is behind a GRE header, and where (RFC 2784, RFC 2890).
fn gre(packet: &[u8], start: usize) -> Option<(EtherType, usize)> {
    let flags = word(packet, start)?;
    // Version 0, no routing; checksum, key and sequence number take 4 bytes each.
    if flags & 0x4007 != 0 {
        return None;
    }
    let fields = [0x8000, 0x2000, 0x1000].iter().filter(|bit| flags & **bit != 0).count();
    Some((EtherType(word(packet, start + 2)?), start + 4 + 4 * fields))
}

#[cfg(test)]
mod tests {
    use super::super::checksum::{Begun, begun};
    use crate::test_frames::transport_frame;
    use proptest::prelude::*;
    use wire::checksum;
    use wire::ethernet::HEADER_LEN;

    /// An Ethernet frame of that kind.
    fn frame(kind: u16, packet: &[u8]) -> Vec<u8> {
        [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2][..], &kind.to_be_bytes(), packet].concat()
    }

    fn ip4(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut header = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2];
        header[2..4].copy_from_slice(&(20 + payload.len() as u16).to_be_bytes());
        let sum = checksum::checksum(&header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
        [&header[..], payload].concat()
    }

    fn ip6(next: u8, payload: &[u8]) -> Vec<u8> {
        let length = (payload.len() as u16).to_be_bytes();
        [&[0x60, 0, 0, 0][..], &length, &[next, 64], &[0xfd; 32], payload].concat()
    }

    fn udp(port: u16, payload: &[u8]) -> Vec<u8> {
        let length = (8 + payload.len() as u16).to_be_bytes();
        [&[0xc0, 0][..], &port.to_be_bytes(), &length, &[0, 0], payload].concat()
    }

    /// The inner packet, and the frames that carry it, each with the bytes ahead of it behind the link header.
    fn carried(inner_is_ip6: bool) -> (Vec<u8>, Vec<(&'static str, Vec<u8>)>) {
        let whole = transport_frame(inner_is_ip6, false, true, b"some payload");
        let inner = whole[HEADER_LEN..].to_vec();
        let kind: u16 = if inner_is_ip6 { 0x86dd } else { 0x0800 };
        let in_ip = if inner_is_ip6 { 41 } else { 4 };
        let ethernet = frame(kind, &inner);
        let tagged = [&ethernet[..12], &[0x81, 0, 0, 7], &ethernet[12..]].concat();
        let gre = |flags: u16, fields: usize, kind: u16, rest: &[u8]| {
            [&flags.to_be_bytes()[..], &kind.to_be_bytes(), &vec![0; fields], rest].concat()
        };
        let vxlan = |rest: &[u8]| udp(4789, &[&[8, 0, 0, 0, 0, 0, 7, 0][..], rest].concat());
        let geneve = |kind: u16, rest: &[u8]| {
            let head = [&[1, 0][..], &kind.to_be_bytes(), &[0, 0, 7, 0], &[0, 0, 1, 0]].concat();
            udp(6081, &[&head[..], rest].concat())
        };
        let labels = [&[0, 1, 0, 60][..], &[0, 1, 0x11, 60], &inner].concat();
        let frames = vec![
            ("labels", frame(0x8847, &labels)),
            ("IP in IPv4", frame(0x0800, &ip4(in_ip, &inner))),
            ("IP in IPv6", frame(0x86dd, &ip6(in_ip, &inner))),
            ("GRE", frame(0x0800, &ip4(47, &gre(0, 0, kind, &inner)))),
            ("GRE with a key and a number", frame(0x86dd, &ip6(47, &gre(0x3000, 8, kind, &inner)))),
            ("Ethernet in GRE", frame(0x0800, &ip4(47, &gre(0x2000, 4, 0x6558, &ethernet)))),
            ("labels in GRE", frame(0x0800, &ip4(47, &gre(0, 0, 0x8847, &labels)))),
            ("labels in IP", frame(0x0800, &ip4(137, &labels))),
            ("VXLAN", frame(0x0800, &ip4(17, &vxlan(&ethernet)))),
            ("a tagged frame in VXLAN", frame(0x86dd, &ip6(17, &vxlan(&tagged)))),
            ("Geneve with an option", frame(0x0800, &ip4(17, &geneve(0x6558, &ethernet)))),
            ("IP in Geneve", frame(0x0800, &ip4(17, &geneve(kind, &inner)))),
            ("a tunnel in a tunnel", frame(0x0800, &ip4(4, &ip4(17, &vxlan(&ethernet))))),
        ];
        (inner, frames)
    }

    #[test]
    fn checksums_behind_labels_and_in_tunnels_are_found() {
        for is_ip6 in [false, true] {
            let (inner, frames) = carried(is_ip6);
            for (what, frame) in frames {
                let Some(Begun { offload, start, .. }) = begun(&frame) else { panic!("{what}, {is_ip6}") };
                let ahead = frame.len() - inner.len();
                let transport = ahead + if is_ip6 { 48 } else { 24 };
                assert_eq!((start, usize::from(offload.checksum_start)), (transport, transport - HEADER_LEN), "{what}");
                assert_eq!(offload.checksum_offset, 16, "{what}");
                // What is finished is left alone, and so is what does not end where its tunnel does.
                let mut finished = frame.clone();
                let sum = checksum::checksum(&frame[transport..]);
                finished[transport + 16..transport + 18].copy_from_slice(&sum.to_be_bytes());
                assert_eq!(begun(&finished), None, "{what}");
                assert!(begun(&frame).unwrap().is_right([&finished[..]].into_iter()), "{what}");
                if what != "labels" {
                    let mut longer = frame.clone();
                    let at = ahead + if is_ip6 { 5 } else { 3 };
                    longer[at] -= 1;
                    assert_eq!(begun(&longer), None, "{what}");
                }
            }
        }
    }

    #[test]
    fn no_more_than_so_many_tunnels_are_looked_into() {
        let (inner, _) = carried(false);
        let nested = |tunnels: usize| frame(0x0800, &(0..tunnels).fold(inner.clone(), |packet, _| ip4(4, &packet)));
        assert!(begun(&nested(3)).is_some());
        assert_eq!(begun(&nested(4)), None);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(
            ip6 in any::<bool>(), which in 0..13usize,
            changes in prop::collection::vec((any::<u16>(), any::<u8>()), 0..4),
            cut in any::<u16>(),
        ) {
            let (_, frames) = carried(ip6);
            let mut frame = frames[which].1.clone();
            for (at, value) in changes {
                let at = usize::from(at) % frame.len();
                frame[at] = value;
            }
            frame.truncate(usize::from(cut) % (frame.len() + 1));
            let _ = begun(&frame);
        }
    }
}
