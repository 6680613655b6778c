//! Which flow each packet of a vector belongs to, as a hash: for nodes that spread flows over several paths.
//!
//! The words that tell a flow are picked packet by packet; they are mixed for many packets at once, by portable code
//! that is compiled for each instruction set. With AVX-512 plain headers are picked sixteen at a time, too.

use super::{Frames, READABLE, Simd, check};

/// Packets whose words are picked before they are mixed.
const BLOCK: usize = 64;

/// Hashes the flow of each packet whose IPv4 header is at its offset: addresses, protocol, and the ports of
/// protocols that have them. Fragments, by their check bits in `flags`, hash without ports, as only the first of
/// a datagram has them (RFC 7690 4).
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
        Simd::Avx2 => unsafe { avx2(frames, flags, seed, hashes) },
        _ => each_block(frames, flags, seed, hashes),
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn avx512(frames: &Frames<'_>, flags: &[u32], seed: u32, hashes: &mut [u32]) {
    use std::arch::x86_64::*;
    const LANES: usize = 16;
    let (flags, hashes) = (&flags[..frames.len()], &mut hashes[..frames.len()]);
    // Source, destination and what follows a header of 20 bytes, behind the word that has the protocol.
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
        // What nobody has examined, or has options, is looked at by itself.
        let examined = _mm512_and_si512(checks, number(check::EXAMINED | check::HEADER_LENGTH));
        let mut others = _mm512_cmpneq_epi32_mask(examined, number(check::EXAMINED));
        while others != 0 {
            let i = at + others.trailing_zeros() as usize;
            hashes[i] = mixed(seed, pick(frames.bytes(i), flags[i] & check::FRAGMENT == 0));
            others &= others - 1;
        }
        at += LANES;
    }
    for i in at..frames.len() {
        hashes[i] = mixed(seed, pick(frames.bytes(i), flags[i] & check::FRAGMENT == 0));
    }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2(frames: &Frames<'_>, flags: &[u32], seed: u32, hashes: &mut [u32]) {
    each_block(frames, flags, seed, hashes);
}

#[inline(always)]
fn each_block(frames: &Frames<'_>, flags: &[u32], seed: u32, hashes: &mut [u32]) {
    let (flags, hashes) = (&flags[..frames.len()], &mut hashes[..frames.len()]);
    let mut words = [[0; BLOCK]; 4];
    for (block, (flags, hashes)) in flags.chunks(BLOCK).zip(hashes.chunks_mut(BLOCK)).enumerate() {
        for (i, flags) in flags.iter().enumerate() {
            let is_whole = flags & check::FRAGMENT == 0;
            let picked = pick(frames.bytes(block * BLOCK + i), is_whole);
            words.iter_mut().zip(picked).for_each(|(column, word)| column[i] = word);
        }
        let [sources, destinations, protocols, ports] = &words;
        let columns = sources.iter().zip(destinations).zip(protocols.iter().zip(ports));
        for (hash, ((source, destination), (protocol, ports))) in hashes.iter_mut().zip(columns) {
            *hash = mixed(seed, [*source, *destination, *protocol, *ports]);
        }
    }
}

/// What tells a flow: source, destination, protocol, ports.
#[inline(always)]
fn pick(bytes: &[u8; READABLE], is_whole: bool) -> [u32; 4] {
    let word = |at: usize| u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    let header = (bytes[0] & 0xf) as usize * 4;
    let protocol = bytes[9];
    let has_ports = is_whole & HAS_PORTS[usize::from(protocol)];
    [word(12), word(16), protocol.into(), if has_ports { word(header) } else { 0 }]
}

/// Protocols with ports in the first four bytes: TCP, UDP, DCCP, SCTP, UDP-Lite.
const WITH_PORTS: [u32; 5] = [6, 17, 33, 132, 136];

/// The same as a table, so that no branch has to be guessed.
const HAS_PORTS: [bool; 256] = {
    let mut has = [false; 256];
    let mut at = 0;
    while at < WITH_PORTS.len() {
        has[WITH_PORTS[at] as usize] = true;
        at += 1;
    }
    has
};

/// Of a permutation of 32 bits found by search for the least bias (hash-prospector, "[16 21f0aaad 15 d35a2d97 15]").
const FIRST: u32 = 0x21f0_aaad;
const SECOND: u32 = 0xd35a_2d97;

/// Every bit of each word comes to all of the hash.
#[inline(always)]
fn mixed(seed: u32, words: [u32; 4]) -> u32 {
    words.into_iter().fold(seed, |hash, word| {
        let mut hash = hash ^ word;
        hash = (hash ^ hash >> 16).wrapping_mul(FIRST);
        hash = (hash ^ hash >> 15).wrapping_mul(SECOND);
        hash ^ hash >> 15
    })
}

/// As [`flow_hashes`], of IPv6 packets: addresses, flow label, next header, and the ports of protocols that have them and
/// follow the IPv6 header at once. Behind extension headers the label stands for them (RFC 6437 section 3): all fragments of
/// a packet hash alike.
///
/// # Panics
/// When there are fewer hashes than packets.
pub fn flow_hashes6(frames: &Frames<'_>, seed: u32, hashes: &mut [u32]) {
    /// Odd numbers of random bits (of the golden ratio, the square roots of 2 and 3, and pi).
    const KEYS: [u64; 4] = [0x9e37_79b9_7f4a_7c15, 0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b, 0x2436_a885_a308_d313];
    /// Both halves of a product of two words in one.
    #[inline(always)]
    fn fold(a: u64, b: u64) -> u64 {
        let product = u128::from(a) * u128::from(b);
        product as u64 ^ (product >> 64) as u64
    }
    let hashes = &mut hashes[..frames.len()];
    for (i, hash) in hashes.iter_mut().enumerate() {
        let bytes = frames.bytes(i);
        let word = |at: usize| u64::from_le_bytes(*bytes[at..].first_chunk().expect("8 bytes"));
        let ports = if HAS_PORTS[usize::from(bytes[6])] { word(40) as u32 } else { 0 };
        // Label and next header; the rest of both words changes within a flow.
        let rest = word(0) & u64::from_le_bytes([0, 0x0f, 0xff, 0xff, 0, 0, 0xff, 0]);
        let from = fold(word(8) ^ KEYS[0] ^ u64::from(seed), word(16) ^ KEYS[1]);
        let to = fold(word(24) ^ KEYS[2], word(32) ^ KEYS[3]);
        let flow = fold(from ^ rest ^ KEYS[1], to ^ u64::from(ports) ^ KEYS[0]);
        *hash = (flow >> 32) as u32 ^ flow as u32;
    }
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
            // Half of them plain headers that were examined, half anything.
            packets in prop::collection::vec((prop::collection::vec(any::<u8>(), READABLE), any::<u32>(), any::<bool>()), 0..200),
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
            for simd in [Simd::Avx2, Simd::Avx512].into_iter().filter(|simd| simd.is_available()) {
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

    #[test]
    fn ip6_flows_spread_evenly_whatever_differs() {
        // Ends of addresses, their beginnings, ports, and the label, of which 16 bits are counted up.
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
        // Traffic class, lengths, hop limit, and what follows the ports.
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
