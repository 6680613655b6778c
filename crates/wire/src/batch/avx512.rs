//! The kernels for AVX-512: 16 packets at a time. One 64-byte load a packet, the
//! needed dwords picked and transposed so that each register holds one header field
//! of 16 packets, then every check is one instruction for all of them.

use super::{EthernetColumns, Frames, check, scalar};
use crate::addr::MacAddress;
use std::arch::x86_64::*;

/// Packets a step.
const LANES: usize = 16;
/// How far ahead packet heads are fetched.
const AHEAD: usize = 2 * LANES;

/// For a pair of packets, which of their 128 bytes make the two rows of 8 dwords:
/// station (6 bytes) and ethertype, then the five words of the IPv4 header.
const PICK: [u8; 64] = {
    let row: [u8; 32] = [
        0, 1, 2, 3, 4, 5, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34,
        35, 36, 37,
    ];
    let mut pick = [0; 64];
    let mut i = 0;
    while i < 32 {
        pick[i] = row[i];
        pick[i + 32] = row[i] + 64; // bit 6 selects the second packet
        i += 1;
    }
    pick
};

/// Swaps the bytes of each dword.
const SWAP: [u8; 64] = {
    let mut swap = [0; 64];
    let mut i = 0;
    while i < 64 {
        swap[i] = (i as u8 & !3) + (3 - (i as u8 & 3));
        i += 1;
    }
    swap
};

/// The first byte of each dword of two registers: sources, then destinations.
const FIRST_OCTETS: [u8; 64] = {
    let mut first = [0; 64];
    let mut i = 0;
    while i < 16 {
        first[i] = 4 * i as u8;
        first[i + 16] = 4 * i as u8 + 64; // bit 6 selects the second register
        i += 1;
    }
    first
};

/// See [`super::ethernet_ip4`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
pub(super) fn ethernet_ip4(frames: &Frames<'_>, station: MacAddress, columns: EthernetColumns<'_>) -> u32 {
    let count = frames.len();
    let [a, b, c, d, e, f] = station.0;
    let station_low = _mm512_set1_epi32(i32::from_le_bytes([a, b, c, d]));
    let station_high = _mm512_set1_epi32(i32::from_le_bytes([e, f, 0, 0]));
    let number = |value: u32| _mm512_set1_epi32(value as i32);
    // SAFETY: loads of 64 bytes from arrays of 64 bytes.
    let swap = unsafe { _mm512_loadu_si512(SWAP.as_ptr().cast()) };
    // SAFETY: as above.
    let first_octets = unsafe { _mm512_loadu_si512(FIRST_OCTETS.as_ptr().cast()) };

    let mut union = _mm512_setzero_si512();
    let mut at = 0;
    while at + LANES <= count {
        for i in at + AHEAD..(at + AHEAD + LANES).min(count) {
            _mm_prefetch::<_MM_HINT_T0>(frames.head(i).cast());
        }
        let [mac_low, mac_high, first, second, third, source, target] = transposed(frames, at);

        // SAFETY: 16 lengths and flags from `at`, below `count`, the columns' length.
        let (length, flags) = unsafe {
            (
                _mm512_cvtepu16_epi32(_mm256_loadu_si256(columns.length.as_ptr().add(at).cast())),
                _mm512_loadu_si512(columns.flags.as_ptr().add(at).cast()),
            )
        };

        // Ethernet. Little-endian: the ethertype's bytes are the upper half of mac_high.
        let group = _mm512_test_epi32_mask(mac_low, number(1));
        let foreign = _mm512_cmpneq_epi32_mask(mac_low, station_low)
            | _mm512_cmpneq_epi32_mask(_mm512_and_si512(mac_high, number(0xffff)), station_high);
        let ethertype = _mm512_srli_epi32::<16>(mac_high);
        let not_ip4 = _mm512_cmpneq_epi32_mask(ethertype, number(0x0008));
        let short = _mm512_cmplt_epu32_mask(length, number(34)) & !not_ip4;
        let ip4 = !(not_ip4 | short);

        // IPv4 first word: version and IHL, TOS, total length.
        let version = _mm512_cmpneq_epi32_mask(_mm512_and_si512(first, number(0xf0)), number(0x40)) & ip4;
        let options = _mm512_cmpneq_epi32_mask(_mm512_and_si512(first, number(0x0f)), number(5)) & ip4;
        let total = _mm512_srli_epi32::<16>(_mm512_shuffle_epi8(first, total_bytes()));
        let too_long = _mm512_cmpgt_epu32_mask(_mm512_add_epi32(total, number(14)), length);
        let bad_total = (_mm512_cmplt_epu32_mask(total, number(20)) | too_long) & ip4;

        // One's complement sum of the ten words; its byte order does not matter.
        let words = |v: __m512i| _mm512_add_epi32(_mm512_and_si512(v, number(0xffff)), _mm512_srli_epi32::<16>(v));
        let sum = _mm512_add_epi32(
            _mm512_add_epi32(
                _mm512_add_epi32(words(first), words(second)),
                _mm512_add_epi32(words(third), words(source)),
            ),
            words(target),
        );
        let folded = words(words(sum));
        let bad_sum = _mm512_cmpneq_epi32_mask(folded, number(0xffff)) & ip4 & !options;

        let ttl = _mm512_cmple_epu32_mask(_mm512_and_si512(third, number(0xff)), number(1)) & ip4;
        // Flags and offset are the upper half, bytes swapped: 0x3fff reads 0xff3f.
        let fragment = _mm512_test_epi32_mask(second, number(0xff3f_0000)) & ip4;

        // Addresses of no host: 0/8, 127/8, 224/3, of all sources and destinations at once.
        let octets = _mm512_castsi512_si256(_mm512_permutex2var_epi8(source, first_octets, target));
        let no_host = _mm256_cmpge_epu8_mask(octets, _mm256_set1_epi8(224u8 as i8))
            | _mm256_cmpeq_epi8_mask(octets, _mm256_set1_epi8(127))
            | _mm256_testn_epi8_mask(octets, octets);
        let (bad_source, special) = (no_host as u16 & ip4, (no_host >> 16) as u16 & ip4);

        let mut bits = _mm512_maskz_set1_epi32(foreign & !group, check::OTHER_STATION as i32);
        for (mask, bit) in [
            (group, check::GROUP),
            (not_ip4, check::NOT_IP4),
            (short, check::SHORT),
            (version, check::VERSION),
            (options, check::HEADER_LENGTH),
            (bad_total, check::TOTAL_LENGTH),
            (bad_sum, check::CHECKSUM),
            (ttl, check::TTL),
            (fragment, check::FRAGMENT),
            (bad_source, check::MARTIAN_SOURCE),
            (special, check::SPECIAL_DESTINATION),
        ] {
            bits = _mm512_mask_or_epi32(bits, mask, bits, number(bit));
        }
        union = _mm512_or_si512(union, bits);
        bits = _mm512_mask_or_epi32(bits, ip4, bits, number(check::EXAMINED));

        let chained = _mm512_test_epi32_mask(flags, number(check::CHAINED));
        let trim = ip4 & !(version | options | bad_total | chained);
        let trimmed = _mm512_mask_add_epi32(length, trim, total, number(14));
        // SAFETY: as for the loads above.
        unsafe {
            _mm512_storeu_si512(columns.flags.as_mut_ptr().add(at).cast(), _mm512_or_si512(flags, bits));
            _mm512_storeu_si512(columns.target.as_mut_ptr().add(at).cast(), _mm512_shuffle_epi8(target, swap));
            _mm256_storeu_si256(columns.length.as_mut_ptr().add(at).cast(), _mm512_cvtepi32_epi16(trimmed));
        }
        at += LANES;
    }
    _mm512_reduce_or_epi32(union) as u32 | scalar::ethernet_ip4(frames, station, columns, at)
}

/// Shuffle that swaps the upper two bytes of each dword.
#[target_feature(enable = "avx512f")]
#[inline]
fn total_bytes() -> __m512i {
    const ORDER: [u8; 64] = {
        let mut order = [0; 64];
        let mut i = 0;
        while i < 64 {
            order[i] = match i % 4 {
                2 => i as u8 + 1,
                3 => i as u8 - 1,
                _ => i as u8,
            };
            i += 1;
        }
        order
    };
    // SAFETY: a load of 64 bytes from an array of 64 bytes.
    unsafe { _mm512_loadu_si512(ORDER.as_ptr().cast()) }
}

/// The heads of packets `at..at + 16` as columns: station low, station high with
/// ethertype, and the five dwords of the IPv4 header, as they lie in memory.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
#[inline]
fn transposed(frames: &Frames<'_>, at: usize) -> [__m512i; 7] {
    // SAFETY: a load of 64 bytes from an array of 64 bytes.
    let pick = unsafe { _mm512_loadu_si512(PICK.as_ptr().cast()) };
    // SAFETY: 64 bytes are readable at each head.
    let load = |i: usize| unsafe { _mm512_loadu_si512(frames.head(i).cast()) };
    // Row j of a group pairs packets j and j + 4, so that the last step below leaves
    // packets in order.
    let pair = |i: usize| _mm512_permutex2var_epi8(load(i), pick, load(i + 4));
    let group = |i: usize| {
        let (r0, r1, r2, r3) = (pair(i), pair(i + 1), pair(i + 2), pair(i + 3));
        let (a, b) = (_mm512_unpacklo_epi32(r0, r1), _mm512_unpackhi_epi32(r0, r1));
        let (c, d) = (_mm512_unpacklo_epi32(r2, r3), _mm512_unpackhi_epi32(r2, r3));
        // Each result: [field k of 4 packets | field k + 4 of them] twice.
        [
            _mm512_unpacklo_epi64(a, c),
            _mm512_unpackhi_epi64(a, c),
            _mm512_unpacklo_epi64(b, d),
            _mm512_unpackhi_epi64(b, d),
        ]
    };
    let low = group(at);
    let high = group(at + 8);
    const EVEN: i32 = 0b10_00_10_00;
    const ODD: i32 = 0b11_01_11_01;
    [
        _mm512_shuffle_i32x4::<EVEN>(low[0], high[0]),
        _mm512_shuffle_i32x4::<EVEN>(low[1], high[1]),
        _mm512_shuffle_i32x4::<EVEN>(low[2], high[2]),
        _mm512_shuffle_i32x4::<EVEN>(low[3], high[3]),
        _mm512_shuffle_i32x4::<ODD>(low[0], high[0]),
        _mm512_shuffle_i32x4::<ODD>(low[1], high[1]),
        _mm512_shuffle_i32x4::<ODD>(low[2], high[2]),
    ]
}
