//! The flow of a frame as a hash: the same for all frames of a flow, and spread evenly over flows. This is what a NIC's
//! receive-side scaling does, for NICs that have none, and for tunnels that a NIC does not look into.
//!
//! Protocol, addresses and ports identify a flow. Where there are no ports (RFC 8900 3.5: only a first fragment has
//! them), protocol and addresses do. MPLS (RFC 3032) and VXLAN (RFC 7348) have the flow of what they carry. For
//! anything else, the stations and the type identify the flow.

use crate::ethernet::{self, EtherType};
use crate::mpls::{ENTROPY_INDICATOR, Stack};
use crate::vlan::{MAX_TAGS, TAG_LEN};

/// The destination port of VXLAN (RFC 7348 5).
const VXLAN_PORT: u16 = 4789;
const UDP_LEN: usize = 8;
const VXLAN_LEN: usize = 8;
/// Most labels that are skipped.
const MAX_LABELS: usize = 16;
/// Most extension headers of IPv6 that are skipped (RFC 8200 4).
const MAX_EXTENSIONS: usize = 8;

/// How flows are distinguished.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowHasher {
    seed: u64,
    /// Both directions of a flow have the same hash.
    symmetric: bool,
}

impl FlowHasher {
    /// Each seed spreads flows in another way.
    pub const fn new(seed: u64, symmetric: bool) -> FlowHasher {
        FlowHasher { seed, symmetric }
    }

    /// The hash of the flow of an Ethernet frame. The first bytes of the frame are enough, and any bytes have a hash.
    #[inline]
    pub fn of_frame(&self, frame: &[u8]) -> u32 {
        let mut hash = self.seed;
        self.frame::<true>(&mut hash, frame);
        // Once more, so that the upper bits, which are used, depend on all of the last value.
        add(&mut hash, self.seed);
        (hash >> 32) as u32
    }

    /// [`FlowHasher::of_frame`] of a frame of `length` bytes that begins with these, when it is of the most common
    /// kind: untagged, a whole IPv4 packet without options, of TCP or UDP, and no tunnel. `None` of other frames.
    #[inline(always)]
    pub fn of_plain(&self, head: &[u8; 64], length: usize) -> Option<u32> {
        const IP4: usize = ethernet::HEADER_LEN;
        const PORTS: usize = IP4 + 20;
        // Several fields at once, in network order: the type, version and header length; flags, fragment offset and
        // protocol; both addresses; both ports.
        let start = word(head, IP4 - 2) >> 8;
        let middle = word(head, IP4 + 6);
        let addresses = u64::from(word(head, IP4 + 12)) << 32 | u64::from(word(head, IP4 + 16));
        let ports = word(head, PORTS);
        let protocol = middle as u8;
        // Without branches between them: nearly always all hold.
        let is_ip4 = (start == u32::from(EtherType::IPV4.0) << 8 | 0x45) & (middle & 0x3fff_0000 == 0);
        let has_ports = (protocol == 6) | (protocol == 17) & (ports as u16 != VXLAN_PORT);
        if !(is_ip4 & has_ports & (length >= PORTS + 4)) {
            return None;
        }
        // The lesser end first: a rotation by half exchanges both ends.
        let (addresses, ports) = match self.symmetric {
            true => (addresses.min(addresses.rotate_left(32)), ports.min(ports.rotate_left(16))),
            false => (addresses, ports),
        };
        let mut hash = self.seed;
        add(&mut hash, addresses);
        add(&mut hash, u64::from(ports) << 16 | u64::from(protocol));
        add(&mut hash, self.seed);
        Some((hash >> 32) as u32)
    }

    /// The hash of the flow of a packet that begins with a label stack. It is the hash of the entropy label, if there
    /// is one: the router that added that label knew the flow (RFC 6790 4.3). Otherwise it is the hash of the top label
    /// and what the stack carries.
    #[inline]
    pub fn of_stack(&self, packet: &[u8]) -> u32 {
        let mut hash = self.seed;
        let mut stack = Stack::new(packet).take(MAX_LABELS);
        let top = stack.next();
        let indicator = top.into_iter().chain(stack.by_ref()).find(|entry| entry.label() == ENTROPY_INDICATOR);
        match indicator.and_then(|_| stack.next()) {
            Some(entropy) => add(&mut hash, entropy.label().into()),
            None => {
                top.into_iter().for_each(|top| add(&mut hash, top.label().into()));
                self.labelled(&mut hash, packet);
            }
        }
        add(&mut hash, self.seed);
        (hash >> 32) as u32
    }

    /// Adds what identifies a frame's flow. With `OUTER` the frame may be a tunnel's; VXLAN inside VXLAN is not looked
    /// into.
    #[inline(always)]
    fn frame<const OUTER: bool>(&self, hash: &mut u64, frame: &[u8]) {
        let Some((stations, rest)) = frame.split_first_chunk::<12>() else { return };
        let mut rest = rest;
        for _ in 0..MAX_TAGS {
            match rest {
                [high, low, ..] if EtherType(u16::from_be_bytes([*high, *low])).is_tag() && rest.len() > TAG_LEN => {
                    rest = &rest[TAG_LEN..];
                }
                _ => break,
            }
        }
        let Some((&ethertype, packet)) = rest.split_first_chunk::<2>() else { return };
        let told = match EtherType(u16::from_be_bytes(ethertype)) {
            EtherType::IPV4 => self.ip4::<OUTER>(hash, packet),
            EtherType::IPV6 => self.ip6::<OUTER>(hash, packet),
            EtherType::MPLS => self.labelled(hash, packet),
            _ => false,
        };
        if !told {
            let station = |at: usize| (0..6).fold(0, |sum, byte| sum << 8 | u64::from(stations[at + byte]));
            self.pair(hash, station(0), station(6));
            add(hash, u64::from(u16::from_be_bytes(ethertype)));
        }
    }

    /// Adds two ends of a flow.
    #[inline]
    fn pair(&self, hash: &mut u64, from: u64, to: u64) {
        let (from, to) = if self.symmetric { (from.min(to), from.max(to)) } else { (from, to) };
        add(hash, from);
        add(hash, to);
    }

    /// Adds what identifies an IPv4 packet's flow. Returns whether it is an IPv4 packet.
    #[inline(always)]
    fn ip4<const OUTER: bool>(&self, hash: &mut u64, packet: &[u8]) -> bool {
        let Some(header) = packet.first_chunk::<20>() else { return false };
        let length = usize::from(header[0] & 0xf) * 4;
        if header[0] >> 4 != 4 || length < header.len() {
            return false;
        }
        let is_fragment = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
        let [from, to] = [12, 16].map(|at| word(header, at));
        // One step for both addresses: they fit a word.
        let (from, to) = if self.symmetric { (from.min(to), from.max(to)) } else { (from, to) };
        let protocol = header[9];
        let behind = if is_fragment { None } else { packet.get(length..) };
        self.transport::<OUTER>(hash, u64::from(from) << 32 | u64::from(to), protocol, behind);
        true
    }

    /// Adds what identifies an IPv6 packet's flow. Returns whether it is an IPv6 packet.
    fn ip6<const OUTER: bool>(&self, hash: &mut u64, packet: &[u8]) -> bool {
        let Some((header, mut rest)) = packet.split_first_chunk::<40>() else { return false };
        if header[0] >> 4 != 6 {
            return false;
        }
        let half = |at: usize| u64::from_be_bytes(std::array::from_fn(|byte| header[at + byte]));
        // Both halves of an address, in one word, so that two ends can be put in order.
        let [from, to] = [8, 24].map(|at| {
            let mut end = half(at);
            add(&mut end, half(at + 8));
            end
        });
        self.pair(hash, from, to);
        let mut protocol = header[6];
        let mut behind = None;
        for _ in 0..MAX_EXTENSIONS {
            let &[next, length, ..] = rest else { break };
            match protocol {
                // Hop-by-hop options, routing, destination options, mobility.
                0 | 43 | 60 | 135 => {
                    protocol = next;
                    rest = rest.get((usize::from(length) + 1) * 8..).unwrap_or_default();
                }
                // Fragments of a packet share the protocol that they carry. Their ports are not used.
                44 => {
                    protocol = next;
                    break;
                }
                _ => {
                    behind = Some(rest);
                    break;
                }
            }
        }
        self.transport::<OUTER>(hash, 0, protocol, behind);
        true
    }

    /// Adds the addresses, the protocol and the ports, if there are any; or what a tunnel carries.
    #[inline(always)]
    fn transport<const OUTER: bool>(&self, hash: &mut u64, addresses: u64, protocol: u8, behind: Option<&[u8]>) {
        // TCP, UDP, UDP-Lite, SCTP, DCCP
        let ports = match behind.and_then(|behind| behind.first_chunk::<4>()) {
            Some(&[a, b, c, d]) if matches!(protocol, 6 | 17 | 136 | 132 | 33) => {
                Some((u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d])))
            }
            _ => None,
        };
        if OUTER
            && protocol == 17
            && ports.is_some_and(|(_, to)| to == VXLAN_PORT)
            && let Some(inner) = behind.and_then(|behind| behind.get(UDP_LEN + VXLAN_LEN..))
            && inner.len() >= ethernet::HEADER_LEN
        {
            return self.frame::<false>(hash, inner);
        }
        let (from, to) = match ports {
            Some((from, to)) if self.symmetric => (from.min(to), from.max(to)),
            Some(ports) => ports,
            None => (0, 0),
        };
        add(hash, addresses);
        add(hash, u64::from(from) << 32 | u64::from(to) << 16 | u64::from(protocol));
    }

    /// Adds what identifies the flow behind a label stack, or else the labels. False: there is no whole stack.
    fn labelled(&self, hash: &mut u64, packet: &[u8]) -> bool {
        let (entries, _) = packet.as_chunks::<4>();
        let last = entries.iter().take(MAX_LABELS).position(|entry| entry[2] & 1 != 0);
        let Some(last) = last else { return false };
        let inner = &packet[(last + 1) * 4..];
        let told = match inner.first().map(|byte| byte >> 4) {
            Some(4) => self.ip4::<true>(hash, inner),
            Some(6) => self.ip6::<true>(hash, inner),
            _ => false,
        };
        if !told {
            let labels = entries[..=last].iter().map(|entry| u64::from(word(entry, 0) >> 12));
            labels.for_each(|label| add(hash, label));
        }
        true
    }
}

#[inline(always)]
fn word<const N: usize>(bytes: &[u8; N], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Mixes in a value, by both halves of a product in which every bit affects many others.
#[inline(always)]
fn add(hash: &mut u64, value: u64) {
    // An odd number whose bits are as good as random: the fractional part of the golden ratio.
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let product = u128::from(*hash ^ value) * u128::from(SPREAD);
    *hash = product as u64 ^ (product >> 64) as u64;
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{IpFragOffset, PacketBuilder, PacketBuilderStep};
    use proptest::prelude::*;

    const PLAIN: FlowHasher = FlowHasher::new(7, false);
    const SYMMETRIC: FlowHasher = FlowHasher::new(7, true);

    fn ethernet() -> PacketBuilderStep<etherparse::Ethernet2Header> {
        PacketBuilder::ethernet2([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2])
    }

    /// A UDP datagram over IPv4.
    fn udp(from: [u8; 4], to: [u8; 4], ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
        let mut frame = Vec::new();
        ethernet().ipv4(from, to, 64).udp(ports.0, ports.1).write(&mut frame, payload).unwrap();
        frame
    }

    fn flow(number: u32) -> Vec<u8> {
        udp([10, 0, 0, 1], [10, 0, 1, number as u8], (1000 + (number >> 8) as u16, 53), &[0; 20])
    }

    fn labelled(labels: &[u32], packet: &[u8]) -> Vec<u8> {
        let entry =
            |(at, label): (usize, &u32)| (label << 12 | u32::from(at + 1 == labels.len()) << 8 | 64).to_be_bytes();
        let stack: Vec<u8> = labels.iter().enumerate().flat_map(entry).collect();
        [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0x47], &*stack, packet].concat()
    }

    fn vxlan(inner: &[u8], outer_source: u16) -> Vec<u8> {
        let payload = [&[8, 0, 0, 0, 0, 0, 7, 0], inner].concat();
        udp([192, 0, 2, 1], [192, 0, 2, 2], (outer_source, 4789), &payload)
    }

    /// How many of 4000 flows fall to each of four queues.
    fn shares(hasher: FlowHasher, frame: impl Fn(u32) -> Vec<u8>) -> [usize; 4] {
        let mut shares = [0; 4];
        (0..4000).for_each(|number| shares[(hasher.of_frame(&frame(number)) >> 30) as usize] += 1);
        shares
    }

    fn is_even(shares: [usize; 4]) -> bool {
        shares.iter().all(|share| (900..1100).contains(share))
    }

    #[test]
    fn flows_spread_evenly_whatever_carries_them() {
        for hasher in [PLAIN, SYMMETRIC] {
            assert!(is_even(shares(hasher, flow)));
            assert!(is_even(shares(hasher, |number| labelled(&[16, 17], &flow(number)[14..]))), "behind labels");
            assert!(is_even(shares(hasher, |number| vxlan(&flow(number), 5))), "in VXLAN");
            assert!(is_even(shares(hasher, |number| labelled(&[16, number + 16], &[0; 40]))), "labels alone");
            let tagged = |number| {
                let frame = flow(number);
                [&frame[..12], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 9], &frame[12..]].concat()
            };
            assert!(is_even(shares(hasher, tagged)), "behind VLAN tags");
            let stations =
                |number: u32| [&[2, 0][..], &number.to_be_bytes(), &[2, 0, 0, 0, 0, 9, 8, 6], &[0; 46]].concat();
            assert!(is_even(shares(hasher, stations)), "stations");
            let ip6 = |number: u32| {
                let mut frame = Vec::new();
                let to = std::array::from_fn(|byte| if byte < 12 { 0x20 } else { number.to_be_bytes()[byte - 12] });
                ethernet().ipv6([0x20; 16], to, 64).tcp(1, 2, 3, 4).write(&mut frame, &[]).unwrap();
                frame
            };
            assert!(is_even(shares(hasher, ip6)), "IPv6");
        }
    }

    proptest! {
        /// Each of the conditions for a plain frame holds or does not.
        #[test]
        fn plain_frames_have_the_hash_of_frames(
            addresses in any::<[[u8; 4]; 2]>(),
            (from_port, to_port) in (any::<u16>(), prop_oneof![4 => any::<u16>(), 1 => Just(VXLAN_PORT)]),
            change in prop_oneof![8 => Just(None), 4 => (12..38usize, any::<u8>()).prop_map(Some)],
            protocol in prop_oneof![Just(6u8), Just(17), Just(132), any::<u8>()],
            length in prop_oneof![4 => Just(64usize), 1 => 0..64usize],
            symmetric in any::<bool>(),
            inner in any::<u8>(),
        ) {
            let mut frame = udp(addresses[0], addresses[1], (from_port, to_port), &[inner; 22]);
            frame[23] = protocol;
            change.into_iter().for_each(|(at, byte)| frame[at] = byte);
            let hasher = FlowHasher::new(7, symmetric);
            let head: &[u8; 64] = frame.first_chunk().unwrap();
            let plain = hasher.of_plain(head, length);
            if let Some(hash) = plain {
                prop_assert_eq!(hash, hasher.of_frame(&frame[..length]));
            }
            let has_ports = protocol == 6 || protocol == 17 && to_port != VXLAN_PORT;
            let is_plain = change.is_none() && length == 64 && has_ports;
            prop_assert!(plain.is_some() || !is_plain);
        }
    }

    #[test]
    fn what_is_around_a_flow_does_not_part_it() {
        let inner = flow(5);
        let hash = PLAIN.of_frame(&inner);
        let mut later = inner.clone();
        (later[15], later[18], later[22], later[24]) = (0xb8, 9, 3, 1); // DSCP, identification, TTL, checksum
        assert_eq!(PLAIN.of_frame(&later), hash);
        let tagged = [&inner[..12], &[0x81, 0, 0xe0, 9], &inner[12..]].concat();
        assert_eq!(PLAIN.of_frame(&tagged), hash);
        assert_eq!(PLAIN.of_frame(&labelled(&[99], &inner[14..])), hash);
        assert_eq!(PLAIN.of_frame(&labelled(&[1, 2, 3], &inner[14..])), hash);
        assert_eq!(PLAIN.of_frame(&vxlan(&inner, 5)), PLAIN.of_frame(&vxlan(&inner, 6)));
        assert_eq!(PLAIN.of_frame(&vxlan(&inner, 5)), hash);
        let twice = |number| vxlan(&vxlan(&flow(number), 5), 5);
        assert_eq!(PLAIN.of_frame(&twice(1)), PLAIN.of_frame(&twice(2)), "the inner tunnel is the flow");
    }

    #[test]
    fn an_entropy_label_is_the_flow_of_its_stack_else_what_it_carries() {
        let inner = &flow(5)[14..];
        let of = |labels: &[u32], packet: &[u8]| PLAIN.of_stack(&labelled(labels, packet)[14..]);
        let other = &flow(6)[14..];
        assert_eq!(of(&[16, 7, 1000], inner), of(&[16, 7, 1000], other));
        assert_eq!(of(&[16, 7, 1000], inner), of(&[17, 18, 7, 1000, 19], &[]));
        assert_ne!(of(&[16, 7, 1000], inner), of(&[16, 7, 1001], inner));
        assert_ne!(of(&[16, 17], inner), of(&[16, 17], other));
        assert_ne!(of(&[16], inner), of(&[17], inner));
        let shares = |stack: fn(u32) -> Vec<u8>| {
            let mut shares = [0; 4];
            (0..4000).for_each(|number| shares[(PLAIN.of_stack(&stack(number)) & 3) as usize] += 1);
            shares
        };
        assert!(is_even(shares(|number| labelled(&[16], &flow(number)[14..])[14..].to_vec())));
        assert!(is_even(shares(|number| labelled(&[16, 7, number + 16], &[])[14..].to_vec())));
        // Any bytes have a hash: a stack without end, an indicator with nothing behind it.
        for length in 0..12 {
            of(&[16, 7, 9], &[]);
            PLAIN.of_stack(&labelled(&[16, 7, 9], &[])[14..14 + length]);
        }
    }

    #[test]
    fn both_directions_are_one_when_asked_for() {
        let there = udp([10, 0, 0, 1], [10, 0, 0, 2], (1000, 53), &[]);
        let back = udp([10, 0, 0, 2], [10, 0, 0, 1], (53, 1000), &[]);
        assert_eq!(SYMMETRIC.of_frame(&there), SYMMETRIC.of_frame(&back));
        assert_ne!(PLAIN.of_frame(&there), PLAIN.of_frame(&back));
        assert_ne!(SYMMETRIC.of_frame(&there), SYMMETRIC.of_frame(&udp([10, 0, 0, 1], [10, 0, 0, 3], (1000, 53), &[])));
        let arp = |from: u8, to: u8| [&[2, 0, 0, 0, 0, to, 2, 0, 0, 0, 0, from, 8, 6][..], &[0; 46]].concat();
        assert_eq!(SYMMETRIC.of_frame(&arp(1, 2)), SYMMETRIC.of_frame(&arp(2, 1)));
        assert_ne!(PLAIN.of_frame(&arp(1, 2)), PLAIN.of_frame(&arp(2, 1)));
    }

    #[test]
    fn fragments_go_with_each_other() {
        let fragment = |offset: u16, more: bool, ports: (u16, u16)| {
            let mut frame = udp([10, 0, 0, 1], [10, 0, 0, 2], ports, &[1; 64]);
            let offset = IpFragOffset::try_new(offset).unwrap().value() | u16::from(more) << 13;
            frame[20..22].copy_from_slice(&offset.to_be_bytes());
            frame
        };
        let first = PLAIN.of_frame(&fragment(0, true, (5, 6)));
        assert_eq!(PLAIN.of_frame(&fragment(8, true, (0x0101, 0x0101))), first);
        assert_eq!(PLAIN.of_frame(&fragment(16, false, (9, 9))), first);
        assert_ne!(PLAIN.of_frame(&fragment(0, false, (5, 6))), first, "not a fragment");
        let ip6 = |next: u8, fragment: bool| {
            let extension = if fragment { vec![17, 0, 0, 1, 0, 0, 0, 9] } else { vec![] };
            let head = [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd][..], &[0x60, 0, 0, 0, 0, 40]].concat();
            [&head, &[if fragment { 44 } else { 17 }, 64][..], &[0xfd; 32], &extension, &[next, 1, 0, 2, 0, 8, 0, 0]]
                .concat()
        };
        assert_eq!(PLAIN.of_frame(&ip6(1, true)), PLAIN.of_frame(&ip6(2, true)));
        assert_ne!(PLAIN.of_frame(&ip6(1, false)), PLAIN.of_frame(&ip6(2, false)));
    }

    #[test]
    fn extension_headers_are_looked_past() {
        let frame = |extensions: &[u8], first: u8, port: u8| {
            let head =
                [&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x86, 0xdd][..], &[0x60, 0, 0, 0, 0, 40, first, 64]].concat();
            [&head, &[0xfd; 32][..], extensions, &[0, port, 0, 2, 0, 8, 0, 0]].concat()
        };
        let hop_by_hop_then_routing = [[43, 0, 1, 4, 0, 0, 0, 0], [17, 0, 0, 0, 0, 0, 0, 0]].concat();
        let hash = |port| PLAIN.of_frame(&frame(&hop_by_hop_then_routing, 0, port));
        assert_eq!(hash(1), PLAIN.of_frame(&frame(&[], 17, 1)));
        assert_ne!(hash(1), hash(2));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(3000))]

        #[test]
        fn no_bytes_are_too_strange(
            kind in 0usize..5,
            damage in prop::collection::vec((0usize..90, any::<u8>()), 0..4),
            cut in 0usize..120,
        ) {
            let inner = flow(3);
            let mut ip6 = Vec::new();
            ethernet().ipv6([1; 16], [2; 16], 9).udp(3, 4).write(&mut ip6, &[]).unwrap();
            let labels = labelled(&[1, 2], &inner[14..]);
            let whole = [inner.clone(), labels, vxlan(&inner, 3), vxlan(&vxlan(&inner, 1), 2), ip6];
            let mut frame = whole[kind].clone();
            for (at, byte) in damage {
                if let Some(target) = frame.get_mut(at) { *target = byte; }
            }
            frame.truncate(cut);
            for hasher in [PLAIN, SYMMETRIC] {
                prop_assert_eq!(hasher.of_frame(&frame), hasher.of_frame(&frame.clone()));
            }
        }
    }
}
