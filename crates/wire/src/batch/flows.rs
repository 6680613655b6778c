//! Which flow each packet of a vector belongs to, as a hash: for nodes that spread flows over several paths.
//!
//! The words that identify a flow are taken from the headers and mixed for as many packets at once as fit a register.
//! Headers with options, and packets that were not examined, are looked at one by one.

#[cfg(target_arch = "x86_64")]
use super::pass;
use super::{Frames, READABLE, Simd, check};

/// Hashes the flow of each packet whose IPv4 header is at its offset: addresses, protocol, and the ports of protocols
/// that have them. Fragments, by their check bits in `flags`, hash without ports, because only the first fragment of a
/// datagram has them (RFC 8900 3.5).
///
/// # Panics
/// When a column is shorter than the packets are many.
pub fn flow_hashes(frames: &Frames<'_>, flags: &[u32], seed: u32, hashes: &mut [u32]) {
    flow_hashes_with(Simd::detected(), frames, flags, seed, hashes);
}

/// [`flow_hashes`] by a chosen instruction set (which the processor must have).
pub fn flow_hashes_with(simd: Simd, frames: &Frames<'_>, flags: &[u32], seed: u32, hashes: &mut [u32]) {
    assert!(simd.is_available());
    match simd {
        // SAFETY: the processor has the instructions, as just asserted.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512 => unsafe { avx512(frames, flags, seed, hashes) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 => unsafe { pass::avx2::flow_hashes(frames, flags, seed, hashes) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Simd::Sse42 => unsafe { pass::sse42::flow_hashes(frames, flags, seed, hashes) },
        _ => each(frames, flags, seed, hashes, 0),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn avx512(frames: &Frames<'_>, flags: &[u32], seed: u32, hashes: &mut [u32]) {
    use std::arch::x86_64::*;
    const LANES: usize = 16;
    let (flags, hashes) = (&flags[..frames.len()], &mut hashes[..frames.len()]);
    // Source, destination and the bytes behind a header of 20 bytes; they come after the word with the protocol.
    let rows = |at: usize| {
        let mut rows = [_mm512_setzero_si512(); 4];
        for (group, row) in rows.iter_mut().enumerate() {
            // SAFETY: 64 bytes are readable at each head.
            let load = |i: usize| unsafe { _mm_loadu_si128(frames.head(at + group + 4 * i).add(8).cast()) };
            let (low, high) = (
                _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(load(0)), load(1)),
                _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(load(2)), load(3)),
            );
            *row = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high);
        }
        rows
    };
    let number = |value: u32| _mm512_set1_epi32(value as i32);
    let mut at = 0;
    while at + LANES <= frames.len() {
        // SAFETY: 16 words from `at`, below the number of packets, the columns' length.
        let checks = unsafe { _mm512_loadu_si512(flags.as_ptr().add(at).cast()) };
        let [r0, r1, r2, r3] = rows(at);
        // Row j of a group has packets j, j + 4, j + 8, j + 12: transposed, packets are in order.
        let (a, b) = (_mm512_unpacklo_epi32(r0, r1), _mm512_unpackhi_epi32(r0, r1));
        let (c, d) = (_mm512_unpacklo_epi32(r2, r3), _mm512_unpackhi_epi32(r2, r3));
        let protocol = _mm512_and_si512(_mm512_srli_epi32::<8>(_mm512_unpacklo_epi64(a, c)), number(0xff));
        let (source, destination) = (_mm512_unpackhi_epi64(a, c), _mm512_unpacklo_epi64(b, d));
        let ports = _mm512_unpackhi_epi64(b, d);
        let has_ports =
            WITH_PORTS.iter().fold(0, |mask, known| mask | _mm512_cmpeq_epi32_mask(protocol, number(*known)));
        let has_ports = has_ports & _mm512_testn_epi32_mask(checks, number(check::FRAGMENT));
        let mut hash = number(seed);
        for word in [source, destination, protocol, _mm512_maskz_mov_epi32(has_ports, ports)] {
            hash = _mm512_xor_si512(hash, word);
            hash = _mm512_mullo_epi32(_mm512_xor_si512(hash, _mm512_srli_epi32::<16>(hash)), number(FIRST));
            hash = _mm512_mullo_epi32(_mm512_xor_si512(hash, _mm512_srli_epi32::<15>(hash)), number(SECOND));
            hash = _mm512_xor_si512(hash, _mm512_srli_epi32::<15>(hash));
        }
        // SAFETY: as above.
        unsafe { _mm512_storeu_si512(hashes.as_mut_ptr().add(at).cast(), hash) };
        // Packets that were not examined, or have options, are processed one by one.
        let examined = _mm512_and_si512(checks, number(check::EXAMINED | check::HEADER_LENGTH));
        let mut others = _mm512_cmpneq_epi32_mask(examined, number(check::EXAMINED));
        while others != 0 {
            let i = at + others.trailing_zeros() as usize;
            hashes[i] = one(frames, i, flags[i], seed);
            others &= others - 1;
        }
        at += LANES;
    }
    each(frames, flags, seed, hashes, at);
}

/// The packets from one on, each by itself.
#[inline(always)]
pub(super) fn each(frames: &Frames<'_>, flags: &[u32], seed: u32, hashes: &mut [u32], from: usize) {
    let count = frames.len();
    for (i, (flags, hash)) in flags[..count].iter().zip(&mut hashes[..count]).enumerate().skip(from) {
        *hash = one(frames, i, *flags, seed);
    }
}

/// The hash of one packet.
#[inline(always)]
pub(super) fn one(frames: &Frames<'_>, i: usize, flags: u32, seed: u32) -> u32 {
    mixed(seed, pick(frames.bytes(i), flags & check::FRAGMENT == 0))
}

/// The words that identify a flow: source, destination, protocol, ports.
#[inline(always)]
fn pick(bytes: &[u8; READABLE], is_whole: bool) -> [u32; 4] {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let header = (bytes[0] & 0xf) as usize * 4;
    let protocol = bytes[9];
    let has_ports = is_whole & HAS_PORTS[usize::from(protocol)];
    [word(12), word(16), protocol.into(), if has_ports { word(header) } else { 0 }]
}

/// Protocols with ports in the first four bytes: TCP, UDP, DCCP, SCTP, UDP-Lite.
pub(super) const WITH_PORTS: [u32; 5] = [6, 17, 33, 132, 136];

/// The same as a table, so that no branch can be mispredicted.
const HAS_PORTS: [bool; 256] = {
    let mut has = [false; 256];
    let mut at = 0;
    while at < WITH_PORTS.len() {
        has[WITH_PORTS[at] as usize] = true;
        at += 1;
    }
    has
};

/// From a permutation of 32 bits found by search for the least bias (hash-prospector, "[16 21f0aaad 15 d35a2d97 15]").
pub(super) const FIRST: u32 = 0x21f0_aaad;
pub(super) const SECOND: u32 = 0xd35a_2d97;

/// Every bit of each word affects the whole hash.
#[inline(always)]
fn mixed(seed: u32, words: [u32; 4]) -> u32 {
    words.into_iter().fold(seed, |hash, word| {
        let mut hash = hash ^ word;
        hash = (hash ^ hash >> 16).wrapping_mul(FIRST);
        hash = (hash ^ hash >> 15).wrapping_mul(SECOND);
        hash ^ hash >> 15
    })
}

/// As [`flow_hashes`], for IPv6 packets: addresses, flow label, next header, and the ports of protocols that have them
/// and directly follow the IPv6 header. Behind extension headers the label replaces the ports (RFC 6437 section 3): all
/// fragments of a packet have the same hash.
///
/// # Panics
/// When there are fewer hashes than packets.
pub fn flow_hashes6(frames: &Frames<'_>, seed: u32, hashes: &mut [u32]) {
    let hashes = &mut hashes[..frames.len()];
    for (i, hash) in hashes.iter_mut().enumerate() {
        *hash = mixed6(seed, &pick6(frames.bytes(i)));
    }
}

/// The fields that identify a flow of IPv6.
struct Flow6 {
    from: [u64; 2],
    to: [u64; 2],
    /// At its place in the first word of the header, as is the next header.
    label: u64,
    protocol: u64,
    ports: u32,
}

#[inline(always)]
fn pick6(bytes: &[u8; READABLE]) -> Flow6 {
    let word = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("8 bytes"));
    let ports = if HAS_PORTS[usize::from(bytes[6])] { word(40) as u32 } else { 0 };
    Flow6 {
        from: [word(8), word(16)],
        to: [word(24), word(32)],
        label: word(0) & u64::from_le_bytes([0, 0x0f, 0xff, 0xff, 0, 0, 0, 0]),
        protocol: word(0) & u64::from_le_bytes([0, 0, 0, 0, 0, 0, 0xff, 0]),
        ports,
    }
}

#[inline(always)]
fn mixed6(seed: u32, flow: &Flow6) -> u32 {
    /// Odd random numbers (from the golden ratio, the square roots of 2 and 3, and pi).
    const KEYS: [u64; 4] = [0x9e37_79b9_7f4a_7c15, 0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b, 0x2436_a885_a308_d313];
    /// Combines both halves of the product of two words.
    #[inline(always)]
    fn fold(a: u64, b: u64) -> u64 {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    }
    let from = fold(flow.from[0] ^ KEYS[0] ^ u64::from(seed), flow.from[1] ^ KEYS[1]);
    let to = fold(flow.to[0] ^ KEYS[2], flow.to[1] ^ KEYS[3]);
    let flow = fold(from ^ flow.label ^ flow.protocol ^ KEYS[1], to ^ u64::from(flow.ports) ^ KEYS[0]);
    (flow >> 32) as u32 ^ flow as u32
}

/// Which fields identify a flow, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowFields(u8);

impl FlowFields {
    pub const SOURCE: FlowFields = FlowFields(1);
    pub const DESTINATION: FlowFields = FlowFields(1 << 1);
    pub const SOURCE_PORT: FlowFields = FlowFields(1 << 2);
    pub const DESTINATION_PORT: FlowFields = FlowFields(1 << 3);
    pub const PROTOCOL: FlowFields = FlowFields(1 << 4);
    /// Source and destination are exchanged.
    pub const REVERSE: FlowFields = FlowFields(1 << 5);
    /// Both directions of a flow have the same hash.
    pub const SYMMETRIC: FlowFields = FlowFields(1 << 6);
    /// The flow label, for IPv6 only.
    pub const LABEL: FlowFields = FlowFields(1 << 7);
    pub const NONE: FlowFields = FlowFields(0);
    /// The fields that [`flow_hashes`] uses.
    pub const USUAL4: FlowFields = FlowFields(0b1_1111);
    /// The fields that [`flow_hashes6`] uses.
    pub const USUAL6: FlowFields = FlowFields(0b1001_1111);

    pub const fn bits(self) -> u8 {
        self.0
    }

    pub const fn of_bits(bits: u8) -> FlowFields {
        FlowFields(bits)
    }

    pub const fn has(self, other: FlowFields) -> bool {
        self.0 & other.0 == other.0
    }

    /// Whether the two have a field in common.
    pub const fn shares(self, other: FlowFields) -> bool {
        self.0 & other.0 != 0
    }

    #[must_use]
    pub const fn and(self, other: FlowFields) -> FlowFields {
        FlowFields(self.0 | other.0)
    }

    /// Both ends, as these fields use them: a field that is not used is 0.
    #[inline]
    fn ends<A: Copy + Default + Ord>(self, (from, from_port): (A, u16), (to, to_port): (A, u16)) -> [(A, u16); 2] {
        let part = |is: FlowFields, value: A| if self.has(is) { value } else { A::default() };
        let port = |is: FlowFields, value: u16| if self.has(is) { value } else { 0 };
        let mut ends = [
            (part(FlowFields::SOURCE, from), port(FlowFields::SOURCE_PORT, from_port)),
            (part(FlowFields::DESTINATION, to), port(FlowFields::DESTINATION_PORT, to_port)),
        ];
        if self.has(FlowFields::SYMMETRIC) {
            ends.sort();
        }
        if self.has(FlowFields::REVERSE) {
            ends.swap(0, 1);
        }
        ends
    }
}

/// The hash of a packet's flow by other fields than those of [`flow_hashes`]. `bytes` starts with its IPv4 header; it
/// has ports unless it is a fragment.
pub fn flow_hash_by(fields: FlowFields, bytes: &[u8; READABLE], is_whole: bool, seed: u32) -> u32 {
    let [from, to, protocol, ports] = pick(bytes, is_whole);
    let [(from, from_port), (to, to_port)] = fields.ends((from, ports as u16), (to, (ports >> 16) as u16));
    let protocol = if fields.has(FlowFields::PROTOCOL) { protocol } else { 0 };
    mixed(seed, [from, to, protocol, u32::from(from_port) | u32::from(to_port) << 16])
}

/// The same for an IPv6 packet, as [`flow_hashes6`].
pub fn flow_hash6_by(fields: FlowFields, bytes: &[u8; READABLE], seed: u32) -> u32 {
    let Flow6 { from, to, label, protocol, ports } = pick6(bytes);
    let [(from, from_port), (to, to_port)] = fields.ends((from, ports as u16), (to, (ports >> 16) as u16));
    let protocol = if fields.has(FlowFields::PROTOCOL) { protocol } else { 0 };
    let label = if fields.has(FlowFields::LABEL) { label } else { 0 };
    mixed6(seed, &Flow6 { from, to, label, protocol, ports: u32::from(from_port) | u32::from(to_port) << 16 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STRIDE: usize = 256;

    fn hashes(simd: Simd, packets: &[[u8; READABLE]], flags: &[u32], seed: u32) -> Vec<u32> {
        let mut memory = vec![0xa5; STRIDE * packets.len()];
        for (place, packet) in memory.chunks_mut(STRIDE).zip(packets) {
            place[64..64 + READABLE].copy_from_slice(packet);
        }
        let (numbers, offsets): (Vec<u32>, Vec<u16>) = (0..packets.len() as u32).map(|n| (n, 64)).unzip();
        // SAFETY: each packet has its own 256 bytes, 64 of them before the offset.
        let frames = unsafe { Frames::new(memory.as_mut_ptr(), STRIDE, &numbers, &offsets) };
        let mut hashes = vec![0; packets.len()];
        flow_hashes_with(simd, &frames, flags, seed, &mut hashes);
        hashes
    }

    fn udp(flow: u32) -> [u8; READABLE] {
        let mut packet = [0; READABLE];
        packet[0] = 0x45;
        packet[9] = 17;
        packet[20..24].copy_from_slice(&flow.to_be_bytes());
        packet
    }

    #[test]
    fn flows_spread_evenly_whatever_differs_and_each_keeps_its_hash() {
        for at in [12, 16, 20] {
            let packets: Vec<_> = (0..8000u32)
                .map(|flow| {
                    let mut packet = udp(0);
                    packet[at..at + 4].copy_from_slice(&flow.to_be_bytes());
                    packet
                })
                .collect();
            let found = hashes(Simd::detected(), &packets, &vec![0; packets.len()], 7);
            let mut buckets = [0u32; 8];
            found.iter().for_each(|hash| buckets[*hash as usize % 8] += 1);
            assert!(buckets.iter().all(|n| (850..1150).contains(n)), "{at}: {buckets:?}");
            assert_eq!(found, hashes(Simd::detected(), &packets, &vec![0; packets.len()], 7));
            assert_ne!(found, hashes(Simd::detected(), &packets, &vec![0; packets.len()], 8));
        }
    }

    #[test]
    fn fragments_of_a_flow_go_one_way_and_ports_are_found_behind_options() {
        let (one, other) = (udp(1), udp(2));
        let of = |packet, flags| hashes(Simd::detected(), &[packet], &[flags], 7)[0];
        assert_ne!(of(one, 0), of(other, 0));
        assert_eq!(of(one, check::FRAGMENT), of(other, check::FRAGMENT));
        let mut icmp = one;
        icmp[9] = 1;
        let mut other_icmp = other;
        other_icmp[9] = 1;
        assert_eq!(of(icmp, 0), of(other_icmp, 0));
        let with_options = |port: u8| {
            let mut packet = udp(0);
            packet[0] = 0x4f;
            packet[63] = port;
            packet
        };
        assert_ne!(of(with_options(1), 0), of(with_options(2), 0));
    }

    proptest! {
        #[test]
        fn instruction_sets_agree(
            // Half of them are plain headers that were examined, half are arbitrary.
            packets in prop::collection::vec(
                (prop::collection::vec(any::<u8>(), READABLE), any::<u32>(), any::<bool>()), 0..200),
            seed in any::<u32>(),
        ) {
            let one = |(bytes, flags, is_plain): (Vec<u8>, u32, bool)| {
                let mut packet: [u8; READABLE] = bytes.try_into().expect("64 bytes");
                if !is_plain {
                    return (packet, flags & !check::EXAMINED);
                }
                packet[0] = 0x45;
                packet[9] = [6, 17, 33, 132, 136, 1, packet[9]][usize::from(packet[9]) % 7];
                (packet, flags & !check::HEADER_LENGTH | check::EXAMINED)
            };
            let (packets, flags): (Vec<_>, Vec<_>) = packets.into_iter().map(one).unzip();
            let portable = hashes(Simd::Scalar, &packets, &flags, seed);
            for (packet, (flags, hash)) in packets.iter().zip(flags.iter().zip(&portable)) {
                prop_assert_eq!(mixed(seed, pick(packet, flags & check::FRAGMENT == 0)), *hash);
            }
            for simd in Simd::ALL.into_iter().filter(|simd| simd.is_available()) {
                prop_assert_eq!(&hashes(simd, &packets, &flags, seed), &portable);
            }
        }
    }

    fn hashes6(packets: &[[u8; READABLE]]) -> Vec<u32> {
        let mut memory = vec![0xa5; STRIDE * packets.len()];
        for (place, packet) in memory.chunks_mut(STRIDE).zip(packets) {
            place[64..64 + READABLE].copy_from_slice(packet);
        }
        let (numbers, offsets): (Vec<u32>, Vec<u16>) = (0..packets.len() as u32).map(|n| (n, 64)).unzip();
        // SAFETY: each packet has its own 256 bytes, 64 of them before the offset.
        let frames = unsafe { Frames::new(memory.as_mut_ptr(), STRIDE, &numbers, &offsets) };
        let mut hashes = vec![0; packets.len()];
        flow_hashes6(&frames, 7, &mut hashes);
        hashes
    }

    fn udp6() -> [u8; READABLE] {
        let mut packet = [0x11; READABLE];
        packet[..8].copy_from_slice(&[0x60, 0, 0, 0, 0, 24, 17, 64]);
        packet
    }

    fn ends(from: u8, to: u8, from_port: u8, to_port: u8) -> [[u8; READABLE]; 2] {
        let (mut packet, mut packet6) = (udp(0), udp6());
        (packet[15], packet[19], packet[21], packet[23]) = (from, to, from_port, to_port);
        (packet6[23], packet6[39], packet6[41], packet6[43]) = (from, to, from_port, to_port);
        [packet, packet6]
    }

    fn by(fields: FlowFields, [packet, packet6]: &[[u8; READABLE]; 2]) -> [u32; 2] {
        [flow_hash_by(fields, packet, true, 7), flow_hash6_by(fields, packet6, 7)]
    }

    #[test]
    fn the_usual_fields_hash_as_vectors_do() {
        for (from, to, port) in [(1, 2, 3), (9, 9, 0), (200, 1, 77)] {
            let packets = ends(from, to, port, 53);
            assert_eq!(
                flow_hash_by(FlowFields::USUAL4, &packets[0], true, 7),
                hashes(Simd::Scalar, &packets[..1], &[0], 7)[0]
            );
            assert_eq!(flow_hash6_by(FlowFields::USUAL6, &packets[1], 7), hashes6(&packets[1..])[0]);
        }
    }

    #[test]
    fn a_field_that_is_not_wanted_makes_no_difference_and_one_that_is_does() {
        let (one, kinds) = (
            ends(1, 2, 3, 4),
            [
                (FlowFields::SOURCE, ends(9, 2, 3, 4)),
                (FlowFields::DESTINATION, ends(1, 9, 3, 4)),
                (FlowFields::SOURCE_PORT, ends(1, 2, 9, 4)),
                (FlowFields::DESTINATION_PORT, ends(1, 2, 3, 9)),
            ],
        );
        for (wanted, other) in &kinds {
            for (field, _) in &kinds {
                let is_told = by(*field, &one).into_iter().zip(by(*field, other)).all(|(a, b)| a != b);
                let is_alike = by(*field, &one) == by(*field, other);
                assert!(if field == wanted { is_told } else { is_alike }, "{field:?} and {wanted:?}");
            }
        }
        let mut tcp = one;
        (tcp[0][9], tcp[1][6]) = (6, 6);
        assert_eq!(by(FlowFields::SOURCE, &one), by(FlowFields::SOURCE, &tcp));
        assert_ne!(by(FlowFields::PROTOCOL, &one), by(FlowFields::PROTOCOL, &tcp));
    }

    #[test]
    fn both_directions_of_a_symmetric_flow_are_one_and_the_reverse_of_one_is_the_other() {
        let (there, back) = (ends(1, 2, 3, 4), ends(2, 1, 4, 3));
        let usual = FlowFields::USUAL4;
        assert_ne!(by(usual, &there), by(usual, &back));
        let both = usual.and(FlowFields::SYMMETRIC);
        assert_eq!(by(both, &there), by(both, &back));
        assert_eq!(by(usual.and(FlowFields::REVERSE), &there), by(usual, &back));
    }

    #[test]
    fn ip6_flows_spread_evenly_whatever_differs() {
        // Last bytes of addresses, first bytes of addresses, ports, and the label; 16 bits of each are counted up.
        for at in [22, 38, 12, 28, 40, 42, 2] {
            let packets: Vec<_> = (0..8000u16)
                .map(|flow| {
                    let mut packet = udp6();
                    packet[at..at + 2].copy_from_slice(&flow.to_be_bytes());
                    packet
                })
                .collect();
            let mut buckets = [0u32; 8];
            hashes6(&packets).iter().for_each(|hash| buckets[*hash as usize % 8] += 1);
            assert!(buckets.iter().all(|count| (850..1150).contains(count)), "{at}: {buckets:?}");
        }
    }

    #[test]
    fn what_is_not_of_an_ip6_flow_does_not_change_its_hash() {
        let changed = |change: fn(&mut [u8; READABLE])| {
            let mut packet = udp6();
            change(&mut packet);
            packet
        };
        // Traffic class, lengths, hop limit, and the bytes behind the ports.
        let same = [
            udp6(),
            changed(|p| p[0] = 0x6f),
            changed(|p| p[1] = 0xf0),
            changed(|p| p[5] = 99),
            changed(|p| p[7] = 1),
            changed(|p| p[44..].fill(3)),
        ];
        assert!(hashes6(&same).windows(2).all(|pair| pair[0] == pair[1]));
        let fragments = [
            changed(|p| p[6] = 44),
            changed(|p| {
                p[6] = 44;
                p[40..].fill(9)
            }),
        ];
        let fragments = hashes6(&fragments);
        assert_eq!(fragments[0], fragments[1], "what the fragment header says is no port");
        let others = [
            udp6(),
            changed(|p| p[1] = 1),
            changed(|p| p[6] = 6),
            changed(|p| p[43] = 0),
            changed(|p| {
                let (from, to) = p.split_at_mut(24);
                from[8..].fill(1);
                to[..16].fill(2);
            }),
        ];
        let mut all = hashes6(&others);
        all.sort();
        all.dedup();
        assert_eq!(all.len(), others.len());
    }
}
