//! The kernels for AVX-512: 16 packets at a time. One 64-byte load a packet, the
//! needed dwords picked and transposed so that each register holds one header field
//! of 16 packets, then every check is one instruction for all of them.
//!
//! VLAN tags push the EtherType and the IPv4 header back by four bytes each: with them other
//! bytes are picked, and that is all. Packets that are all alike in that are picked by one
//! pattern; of others each packet by its own.

use super::{Alike, EthernetColumns, Frames, Shape, bare, check, differ, ip6, mpls, scalar};
use crate::addr::MacAddress;
use std::arch::x86_64::*;

/// Packets a step.
const LANES: usize = 16;
/// How far ahead packet heads are fetched.
const AHEAD: usize = 2 * LANES;

/// For a pair of packets, which of their 128 bytes make the two rows of 8 dwords: station
/// (6 bytes) and ethertype, then the five words of the IPv4 header, then the control
/// information of both tags; by the number of tags.
const PICKS: [[u8; 64]; 3] = [pick(0), pick(1), pick(2)];

const fn pick(tags: u8) -> [u8; 64] {
    let mut pick = [0; 64];
    let mut i = 0;
    while i < 32 {
        let byte = match i {
            0..6 => i,
            // The ethertype, two bytes before the IPv4 header.
            6..28 => i + 6 + 4 * tags,
            28..30 => i - 28 + 14,
            _ => i - 30 + 18,
        };
        pick[i as usize] = byte;
        pick[i as usize + 32] = byte + 64; // bit 6 selects the second packet
        i += 1;
    }
    pick
}

/// The same of IPv6: station and ethertype, the first two words of the header, those with which its addresses begin,
/// and as the last one the tags' control information.
const PICKS6: [[u8; 64]; 3] = [pick6(0), pick6(1), pick6(2)];

const fn pick6(tags: u8) -> [u8; 64] {
    let mut pick = [0; 64];
    let mut i = 0;
    while i < 32 {
        let byte = match i {
            0..6 => i,
            6..20 => i + 6 + 4 * tags,
            20..24 => i - 20 + 38 + 4 * tags,
            // Not used.
            24..28 => 0,
            28..30 => i - 28 + 14,
            _ => i - 30 + 18,
        };
        pick[i as usize] = byte;
        pick[i as usize + 32] = byte + 64; // bit 6 selects the second packet
        i += 1;
    }
    pick
}

/// Of frames with one label: station and ethertype, the label, the IPv4 header behind it.
const PICK_LABEL: [u8; 64] = {
    let mut pick = [0; 64];
    let mut i = 0;
    while i < 32 {
        let byte = if i < 6 { i } else { i + 6 };
        pick[i as usize] = byte;
        pick[i as usize + 32] = byte + 64;
        i += 1;
    }
    pick
};

/// The same of headers that begin where the packets do: nothing of Ethernet.
const BARE: [u8; 64] = bare(false);
const BARE6: [u8; 64] = bare(true);

const fn bare(is_ip6: bool) -> [u8; 64] {
    let mut pick = [0; 64];
    let mut i = 8;
    while i < 28 {
        let byte = match i {
            // Where the destination begins.
            20..24 if is_ip6 => i - 20 + 24,
            _ => i - 8,
        };
        pick[i as usize] = byte;
        pick[i as usize + 32] = byte + 64;
        i += 1;
    }
    pick
}

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
pub(super) fn ethernet_ip4(
    frames: &Frames<'_>,
    station: MacAddress,
    mut columns: EthernetColumns<'_>,
    mut ahead: impl FnMut(&[u32]),
) -> u32 {
    let count = frames.len();
    let pass = Pass::new(station);
    let pick = load(&PICKS[0]);
    let mut union = _mm512_setzero_si512();
    let mut at = 0;
    while at + LANES <= count {
        prefetch(frames, at);
        let fields = transposed(frames, at, |_| pick);
        union = _mm512_or_si512(union, pass.judge::<true>(&fields, number(14), &mut columns, at));
        ahead(&columns.target[at..at + LANES]);
        at += LANES;
    }
    let rest = scalar::ethernet_ip4(frames, station, &mut columns, at, |_| 0);
    ahead(&columns.target[at..]);
    _mm512_reduce_or_epi32(union) as u32 | rest
}

/// See [`super::ethernet_ip6`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
pub(super) fn ethernet_ip6(frames: &Frames<'_>, station: MacAddress, mut columns: ip6::Columns6<'_>) -> u32 {
    let count = frames.len();
    let pass = Pass::new(station);
    let pick = load(&PICKS6[0]);
    let mut union = _mm512_setzero_si512();
    let mut at = 0;
    while at + LANES <= count {
        prefetch(frames, at);
        let fields = transposed(frames, at, |_| pick);
        union = _mm512_or_si512(union, pass.judge6::<true>(&fields, number(14), &mut columns, at));
        at += LANES;
    }
    _mm512_reduce_or_epi32(union) as u32 | ip6::each(frames, station, &mut columns, at, |_| 0)
}

/// See [`super::ip4_headers`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
pub(super) fn ip4_headers(frames: &Frames<'_>, before: bare::Before, mut columns: EthernetColumns<'_>) -> u32 {
    let pass = Pass::new(MacAddress([0; 6]));
    // Words behind an Ethernet header are to what follows as tags are.
    let pick = load(match before {
        bare::Before::Nothing => &BARE,
        bare::Before::OneWord => &PICKS[1],
        bare::Before::TwoWords => &PICKS[2],
    });
    let link = number(before.bytes().into());
    let mut union = _mm512_setzero_si512();
    let mut at = 0;
    while at + LANES <= frames.len() {
        prefetch(frames, at);
        let fields = transposed(frames, at, |_| pick);
        union = _mm512_or_si512(union, pass.judge::<false>(&fields, link, &mut columns, at));
        at += LANES;
    }
    _mm512_reduce_or_epi32(union) as u32 | bare::each4(frames, before, &mut columns, at)
}

/// See [`super::ip6_headers`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
pub(super) fn ip6_headers(frames: &Frames<'_>, before: bare::Before, mut columns: ip6::Columns6<'_>) -> u32 {
    let pass = Pass::new(MacAddress([0; 6]));
    let pick = load(match before {
        bare::Before::Nothing => &BARE6,
        bare::Before::OneWord => &PICKS6[1],
        bare::Before::TwoWords => &PICKS6[2],
    });
    let link = number(before.bytes().into());
    let mut union = _mm512_setzero_si512();
    let mut at = 0;
    while at + LANES <= frames.len() {
        prefetch(frames, at);
        let fields = transposed(frames, at, |_| pick);
        union = _mm512_or_si512(union, pass.judge6::<false>(&fields, link, &mut columns, at));
        at += LANES;
    }
    _mm512_reduce_or_epi32(union) as u32 | bare::each6(frames, before, &mut columns, at)
}

/// See [`super::ethernet_mpls`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
pub(super) fn ethernet_mpls(frames: &Frames<'_>, station: MacAddress, mut columns: EthernetColumns<'_>) -> u32 {
    let count = frames.len();
    let pass = Pass::new(station);
    let pick = load(&PICK_LABEL);
    let mut union = _mm512_setzero_si512();
    let mut at = 0;
    while at + LANES <= count {
        prefetch(frames, at);
        let fields = transposed(frames, at, |_| pick);
        union = _mm512_or_si512(union, pass.judge_label::<true>(&fields, number(14), &mut columns, at));
        at += LANES;
    }
    _mm512_reduce_or_epi32(union) as u32 | mpls::each::<true>(frames, station, &mut columns, at)
}

/// See [`super::alike_mpls`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
pub(super) fn alike_mpls(
    frames: &Frames<'_>,
    station: MacAddress,
    columns: EthernetColumns<'_>,
    first: (Shape, u32),
    tags: &mut [u32],
) -> Alike {
    match first.0.depth() {
        0 => alike_of::<0>(frames, station, Headers::Mpls(columns), first, tags),
        1 => alike_of::<1>(frames, station, Headers::Mpls(columns), first, tags),
        _ => alike_of::<2>(frames, station, Headers::Mpls(columns), first, tags),
    }
}

/// See [`super::tagged_ip4`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
pub(super) fn tagged_ip4(
    frames: &Frames<'_>,
    station: MacAddress,
    mut columns: EthernetColumns<'_>,
    shapes: &[Shape],
) -> u32 {
    let judge = |pass: &Pass, fields: &[__m512i; 8], link, at| pass.judge::<true>(fields, link, &mut columns, at);
    let (union, at) = each_shape(frames, station, shapes, &PICKS, judge);
    union | scalar::ethernet_ip4(frames, station, &mut columns, at, |i| shapes[i].tags())
}

/// See [`super::tagged_ip6`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
pub(super) fn tagged_ip6(
    frames: &Frames<'_>,
    station: MacAddress,
    mut columns: ip6::Columns6<'_>,
    shapes: &[Shape],
) -> u32 {
    let judge = |pass: &Pass, fields: &[__m512i; 8], link, at| pass.judge6::<true>(fields, link, &mut columns, at);
    let (union, at) = each_shape(frames, station, shapes, &PICKS6, judge);
    union | ip6::each(frames, station, &mut columns, at, |i| shapes[i].tags())
}

/// The frames from the first on, each picked apart by its own shape, as far as whole registers go: the union of their
/// faults, and how many.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
#[inline]
fn each_shape(
    frames: &Frames<'_>,
    station: MacAddress,
    shapes: &[Shape],
    picks: &[[u8; 64]; 3],
    mut judge: impl FnMut(&Pass, &[__m512i; 8], __m512i, usize) -> __m512i,
) -> (u32, usize) {
    let count = frames.len();
    let pass = Pass::new(station);
    let mut union = _mm512_setzero_si512();
    let mut at = 0;
    while at + LANES <= count {
        prefetch(frames, at);
        // Each half of the pattern as its own packet wants it.
        let pick = |i: usize| {
            let half = |i: usize| shapes[i].depth().min(picks.len() - 1);
            let (first, second) = picks[half(i)].split_at(32);
            let second = if half(i) == half(i + 4) { second } else { picks[half(i + 4)].split_at(32).1 };
            // SAFETY: loads of 32 bytes from slices of 32 bytes.
            unsafe {
                let first = _mm256_loadu_si256(first.as_ptr().cast());
                let second = _mm256_loadu_si256(second.as_ptr().cast());
                _mm512_inserti64x4::<1>(_mm512_castsi256_si512(first), second)
            }
        };
        let fields = transposed(frames, at, pick);
        // SAFETY: 16 shapes of a byte each from `at`, below `count`, their number.
        let depths = unsafe { _mm512_cvtepu8_epi32(_mm_loadu_si128(shapes[..count].as_ptr().add(at).cast())) };
        let tags = _mm512_slli_epi32::<2>(_mm512_and_si512(depths, number(Shape::DEPTH.into())));
        let link = _mm512_add_epi32(tags, number(14));
        union = _mm512_or_si512(union, judge(&pass, &fields, link, at));
        at += LANES;
    }
    (_mm512_reduce_or_epi32(union) as u32, at)
}

/// See [`super::alike_ip4`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
pub(super) fn alike_ip4(
    frames: &Frames<'_>,
    station: MacAddress,
    columns: EthernetColumns<'_>,
    first: (Shape, u32),
    tags: &mut [u32],
) -> Alike {
    match first.0.depth() {
        0 => alike_of::<0>(frames, station, Headers::Ip4(columns), first, tags),
        1 => alike_of::<1>(frames, station, Headers::Ip4(columns), first, tags),
        _ => alike_of::<2>(frames, station, Headers::Ip4(columns), first, tags),
    }
}

/// See [`super::alike_ip6`].
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
pub(super) fn alike_ip6(
    frames: &Frames<'_>,
    station: MacAddress,
    columns: ip6::Columns6<'_>,
    first: (Shape, u32),
    tags: &mut [u32],
) -> Alike {
    match first.0.depth() {
        0 => alike_of::<0>(frames, station, Headers::Ip6(columns), first, tags),
        1 => alike_of::<1>(frames, station, Headers::Ip6(columns), first, tags),
        _ => alike_of::<2>(frames, station, Headers::Ip6(columns), first, tags),
    }
}

/// What is behind link headers, with the columns of what is found there.
enum Headers<'a> {
    Ip4(EthernetColumns<'a>),
    Ip6(ip6::Columns6<'a>),
    Mpls(EthernetColumns<'a>),
}

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
#[inline]
fn alike_of<const TAGS: usize>(
    frames: &Frames<'_>,
    station: MacAddress,
    mut headers: Headers<'_>,
    first: (Shape, u32),
    tags: &mut [u32],
) -> Alike {
    let count = frames.len();
    let pass = Pass::new(station);
    let pick = load(match headers {
        // A label is where the first word of an IPv4 header would be.
        Headers::Ip4(_) | Headers::Mpls(_) => &PICKS[TAGS],
        Headers::Ip6(_) => &PICKS6[TAGS],
    });
    let link = number(14 + 4 * TAGS as u32);
    // The types of the tags are compared where they stand in the heads.
    let (pattern, types) = (first.0.types(), [0, 0xffff, 0xffff_0000_ffff][TAGS]);
    let (used, vids) = ([0, 0xffff_0000, u32::MAX][TAGS], [0, 0x0fff_0000, 0x0fff_0fff][TAGS]);
    let vid = number(first.1 & vids);

    let mut union = _mm512_setzero_si512();
    let (mut others, mut at) = (0, 0);
    while at + LANES <= count {
        prefetch(frames, at);
        let fields = transposed(frames, at, |_| pick);
        let lengths = match &headers {
            Headers::Ip4(columns) | Headers::Mpls(columns) => &columns.length[..count],
            Headers::Ip6(columns) => &columns.length[..count],
        };
        // SAFETY: 16 lengths from `at`, below `count`, the column's length.
        let length = unsafe { _mm512_cvtepu16_epi32(_mm256_loadu_si256(lengths.as_ptr().add(at).cast())) };
        let ethertype = _mm512_srli_epi32::<16>(fields[1]);
        let deeper =
            _mm512_cmpeq_epi32_mask(ethertype, number(0x0081)) | _mm512_cmpeq_epi32_mask(ethertype, number(0xa888));
        let cut = if TAGS > 0 { _mm512_cmplt_epu32_mask(length, link) } else { 0 };
        // SAFETY: so many packets there are, as the loop's condition says.
        let strange = TAGS > 0 && unsafe { differ(&frames.heads::<LANES>(at), pattern) } & types != 0;
        if strange || deeper | cut != 0 {
            break;
        }
        let faults = match &mut headers {
            Headers::Ip4(columns) => pass.judge::<true>(&fields, link, columns, at),
            Headers::Ip6(columns) => pass.judge6::<true>(&fields, link, columns, at),
            Headers::Mpls(columns) => pass.judge_label::<false>(&fields, link, columns, at),
        };
        union = _mm512_or_si512(union, faults);
        if TAGS > 0 {
            let own = _mm512_and_si512(_mm512_shuffle_epi8(fields[7], pass.swap), number(used));
            others |= _mm512_cmpneq_epi32_mask(_mm512_and_si512(own, number(vids)), vid);
            // SAFETY: 16 words from `at`, below `count`, the column's length.
            unsafe { _mm512_storeu_si512(tags[..count].as_mut_ptr().add(at).cast(), own) };
        }
        at += LANES;
    }
    let rest = match headers {
        Headers::Ip4(columns) => scalar::alike_ip4(frames, station, columns, first, tags, at),
        Headers::Ip6(columns) => ip6::alike(frames, station, columns, first, tags, at),
        Headers::Mpls(columns) => mpls::alike(frames, station, columns, first, tags, at),
    };
    Alike {
        done: rest.done,
        faults: rest.faults | _mm512_reduce_or_epi32(union) as u32,
        one_vlan: rest.one_vlan && others == 0,
    }
}

#[target_feature(enable = "avx512f")]
#[inline]
fn number(value: u32) -> __m512i {
    _mm512_set1_epi32(value as i32)
}

#[target_feature(enable = "avx512f")]
#[inline]
fn load(bytes: &[u8; 64]) -> __m512i {
    // SAFETY: a load of 64 bytes from an array of 64 bytes.
    unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) }
}

/// Fetches the heads that are looked at two steps later.
#[target_feature(enable = "avx512f")]
#[inline]
fn prefetch(frames: &Frames<'_>, at: usize) {
    for i in at + AHEAD..(at + AHEAD + LANES).min(frames.len()) {
        _mm_prefetch::<_MM_HINT_T0>(frames.head(i).cast());
    }
}

/// What the checks of all packets have in common.
struct Pass {
    station_low: __m512i,
    station_high: __m512i,
    swap: __m512i,
    first_octets: __m512i,
}

impl Pass {
    #[target_feature(enable = "avx512f")]
    #[inline]
    fn new(station: MacAddress) -> Pass {
        let [a, b, c, d, e, f] = station.0;
        Pass {
            station_low: _mm512_set1_epi32(i32::from_le_bytes([a, b, c, d])),
            station_high: _mm512_set1_epi32(i32::from_le_bytes([e, f, 0, 0])),
            swap: load(&SWAP),
            first_octets: load(&FIRST_OCTETS),
        }
    }

    /// All checks of 16 packets, into the columns from `at` on; `link` is the length of their
    /// link headers, which are looked at with `LINK` only. Gives the bits of their faults.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
    #[inline]
    fn judge<const LINK: bool>(
        &self,
        fields: &[__m512i; 8],
        link: __m512i,
        columns: &mut EthernetColumns<'_>,
        at: usize,
    ) -> __m512i {
        let [mac_low, mac_high, first, second, third, source, target, _] = *fields;
        // SAFETY: 16 lengths and flags from `at`; the caller has seen to it that there are as many.
        let (length, flags) = unsafe {
            (
                _mm512_cvtepu16_epi32(_mm256_loadu_si256(columns.length.as_ptr().add(at).cast())),
                _mm512_loadu_si512(columns.flags.as_ptr().add(at).cast()),
            )
        };
        // Ethernet. Little-endian: the ethertype's bytes are the upper half of mac_high.
        let group = _mm512_test_epi32_mask(mac_low, number(1));
        let foreign = _mm512_cmpneq_epi32_mask(mac_low, self.station_low)
            | _mm512_cmpneq_epi32_mask(_mm512_and_si512(mac_high, number(0xffff)), self.station_high);
        let ethertype = _mm512_srli_epi32::<16>(mac_high);
        let not_ip4 = _mm512_cmpneq_epi32_mask(ethertype, number(0x0008));
        let (group, foreign, not_ip4) = if LINK { (group, foreign, not_ip4) } else { (0, 0, 0) };
        let short = _mm512_cmplt_epu32_mask(length, _mm512_add_epi32(link, number(20))) & !not_ip4;
        let ip4 = !(not_ip4 | short);

        // IPv4 first word: version and IHL, TOS, total length.
        let version = _mm512_cmpneq_epi32_mask(_mm512_and_si512(first, number(0xf0)), number(0x40)) & ip4;
        let options = _mm512_cmpneq_epi32_mask(_mm512_and_si512(first, number(0x0f)), number(5)) & ip4;
        let total = _mm512_srli_epi32::<16>(_mm512_shuffle_epi8(first, total_bytes()));
        let too_long = _mm512_cmpgt_epu32_mask(_mm512_add_epi32(total, link), length);
        let bad_total = (_mm512_cmplt_epu32_mask(total, number(20)) | too_long) & ip4;

        let bad_sum = !is_summed([first, second, third, source, target]) & ip4 & !options;

        let ttl = _mm512_cmple_epu32_mask(_mm512_and_si512(third, number(0xff)), number(1)) & ip4;
        // Flags and offset are the upper half, bytes swapped: 0x3fff reads 0xff3f.
        let fragment = _mm512_test_epi32_mask(second, number(0xff3f_0000)) & ip4;

        let no_host = self.no_host(source, target);
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
        let faults = bits;
        bits = _mm512_mask_or_epi32(bits, ip4, bits, number(check::EXAMINED));

        let chained = _mm512_test_epi32_mask(flags, number(check::CHAINED));
        let trim = ip4 & !(version | options | bad_total | chained);
        let trimmed = _mm512_mask_add_epi32(length, trim, total, link);
        // SAFETY: as for the loads above.
        unsafe {
            _mm512_storeu_si512(columns.flags.as_mut_ptr().add(at).cast(), _mm512_or_si512(flags, bits));
            _mm512_storeu_si512(columns.target.as_mut_ptr().add(at).cast(), _mm512_shuffle_epi8(target, self.swap));
            _mm256_storeu_si256(columns.length.as_mut_ptr().add(at).cast(), _mm512_cvtepi32_epi16(trimmed));
        }
        faults
    }
}

impl Pass {
    /// Whose addresses are no host's, of 16 sources and, in the upper half, 16 destinations: 0/8, 127/8, 224/3.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
    #[inline]
    fn no_host(&self, source: __m512i, target: __m512i) -> u32 {
        let octets = _mm512_castsi512_si256(_mm512_permutex2var_epi8(source, self.first_octets, target));
        _mm256_cmpge_epu8_mask(octets, _mm256_set1_epi8(224u8 as i8))
            | _mm256_cmpeq_epi8_mask(octets, _mm256_set1_epi8(127))
            | _mm256_testn_epi8_mask(octets, octets)
    }

    /// Behind whose label, the last of its stack, is an IPv4 packet about which nothing is remarkable, and nothing
    /// else. Of frames that are not labelled it means nothing.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
    #[inline]
    fn is_plain_inside(&self, fields: &[__m512i; 8], length: __m512i, link: __m512i) -> u16 {
        let [_, _, entry, first, second, third, source, target] = *fields;
        let total = _mm512_srli_epi32::<16>(_mm512_shuffle_epi8(first, total_bytes()));
        let end = _mm512_add_epi32(total, _mm512_add_epi32(link, number(4)));
        let no_host = self.no_host(source, target);
        _mm512_test_epi32_mask(entry, number(0x1_0000))
            & _mm512_cmpeq_epi32_mask(_mm512_and_si512(first, number(0xff)), number(0x45))
            & _mm512_cmpge_epu32_mask(total, number(20))
            & _mm512_cmpeq_epi32_mask(end, length)
            & _mm512_testn_epi32_mask(second, number(0xff3f_0000))
            & _mm512_cmpgt_epu32_mask(_mm512_and_si512(third, number(0xff)), number(1))
            & is_summed([first, second, third, source, target])
            & !(no_host as u16 | (no_host >> 16) as u16)
    }

    /// All checks of 16 IPv6 packets, as [`Pass::judge`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
    #[inline]
    fn judge6<const LINK: bool>(
        &self,
        fields: &[__m512i; 8],
        link: __m512i,
        columns: &mut ip6::Columns6<'_>,
        at: usize,
    ) -> __m512i {
        let [mac_low, mac_high, first, second, source, target, ..] = *fields;
        let (flags, lengths) = (&mut columns.flags[at..at + LANES], &mut columns.length[at..at + LANES]);
        // SAFETY: 16 lengths and flags, as just cut out.
        let (length, old) = unsafe {
            (
                _mm512_cvtepu16_epi32(_mm256_loadu_si256(lengths.as_ptr().cast())),
                _mm512_loadu_si512(flags.as_ptr().cast()),
            )
        };
        let group = _mm512_test_epi32_mask(mac_low, number(1));
        let foreign = _mm512_cmpneq_epi32_mask(mac_low, self.station_low)
            | _mm512_cmpneq_epi32_mask(_mm512_and_si512(mac_high, number(0xffff)), self.station_high);
        let not_ip6 = _mm512_cmpneq_epi32_mask(_mm512_srli_epi32::<16>(mac_high), number(0xdd86));
        let (group, foreign, not_ip6) = if LINK { (group, foreign, not_ip6) } else { (0, 0, 0) };
        let headers = _mm512_add_epi32(link, number(40));
        let short = _mm512_cmplt_epu32_mask(length, headers) & !not_ip6;
        let ip6 = !(not_ip6 | short);

        let version = _mm512_cmpneq_epi32_mask(_mm512_and_si512(first, number(0xf0)), number(0x60)) & ip6;
        // Payload length, next header, hop limit: their bytes as they lie in memory.
        let payload = _mm512_or_si512(
            _mm512_slli_epi32::<8>(_mm512_and_si512(second, number(0xff))),
            _mm512_and_si512(_mm512_srli_epi32::<8>(second), number(0xff)),
        );
        let end = _mm512_add_epi32(payload, headers);
        let too_long = _mm512_cmpgt_epu32_mask(end, length) & ip6;
        let options = _mm512_testn_epi32_mask(second, number(0xff_0000)) & ip6;
        let hops = _mm512_cmple_epu32_mask(_mm512_srli_epi32::<24>(second), number(1)) & ip6;
        let (martian, special) = (is_special6(source) & ip6, is_special6(target) & ip6);

        let mut bits = _mm512_maskz_set1_epi32(foreign & !group, check::OTHER_STATION as i32);
        for (mask, bit) in [
            (group, check::GROUP),
            (not_ip6, check::NOT_IP6),
            (short, check::SHORT),
            (version, check::VERSION),
            (too_long, check::TOTAL_LENGTH),
            (options, check::HEADER_LENGTH),
            (hops, check::TTL),
            (martian, check::MARTIAN_SOURCE),
            (special, check::SPECIAL_DESTINATION),
        ] {
            bits = _mm512_mask_or_epi32(bits, mask, bits, number(bit));
        }
        let all = _mm512_mask_or_epi32(bits, ip6, bits, number(check::EXAMINED6));
        let chained = _mm512_test_epi32_mask(old, number(check::CHAINED));
        let trimmed = _mm512_mask_mov_epi32(length, ip6 & !(version | too_long | chained), end);
        // SAFETY: as for the loads above.
        unsafe {
            _mm512_storeu_si512(flags.as_mut_ptr().cast(), _mm512_or_si512(old, all));
            _mm256_storeu_si256(lengths.as_mut_ptr().cast(), _mm512_cvtepi32_epi16(trimmed));
        }
        bits
    }
}

impl Pass {
    /// The checks of 16 frames with a label, as [`Pass::judge`].
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
    #[inline]
    fn judge_label<const INSIDE: bool>(
        &self,
        fields: &[__m512i; 8],
        link: __m512i,
        columns: &mut EthernetColumns<'_>,
        at: usize,
    ) -> __m512i {
        let [mac_low, mac_high, entry, ..] = *fields;
        let (flags, targets) = (&mut columns.flags[at..at + LANES], &mut columns.target[at..at + LANES]);
        let lengths = &columns.length[at..at + LANES];
        // SAFETY: 16 lengths and flags, as just cut out.
        let (length, old) = unsafe {
            (
                _mm512_cvtepu16_epi32(_mm256_loadu_si256(lengths.as_ptr().cast())),
                _mm512_loadu_si512(flags.as_ptr().cast()),
            )
        };
        let group = _mm512_test_epi32_mask(mac_low, number(1));
        let foreign = _mm512_cmpneq_epi32_mask(mac_low, self.station_low)
            | _mm512_cmpneq_epi32_mask(_mm512_and_si512(mac_high, number(0xffff)), self.station_high);
        let not_mpls = _mm512_cmpneq_epi32_mask(_mm512_srli_epi32::<16>(mac_high), number(0x4788));
        let short = _mm512_cmplt_epu32_mask(length, _mm512_add_epi32(link, number(4))) & !not_mpls;
        // The last byte of the entry is the uppermost.
        let ttl = _mm512_cmple_epu32_mask(_mm512_srli_epi32::<24>(entry), number(1)) & !(not_mpls | short);
        let mut bits = _mm512_maskz_set1_epi32(foreign & !group, check::OTHER_STATION as i32);
        for (mask, bit) in
            [(group, check::GROUP), (not_mpls, check::NOT_MPLS), (short, check::SHORT), (ttl, check::TTL)]
        {
            bits = _mm512_mask_or_epi32(bits, mask, bits, number(bit));
        }
        let mut all = bits;
        if INSIDE {
            let split = not_mpls | _mm512_test_epi32_mask(old, number(check::CHAINED));
            let plain = self.is_plain_inside(fields, length, link) & !split;
            all = _mm512_mask_or_epi32(all, plain, all, number(check::EXAMINED));
        }
        // SAFETY: 16 flags and targets, as cut out above.
        unsafe {
            _mm512_storeu_si512(flags.as_mut_ptr().cast(), _mm512_or_si512(old, all));
            _mm512_storeu_si512(targets.as_mut_ptr().cast(), _mm512_shuffle_epi8(entry, self.swap));
        }
        bits
    }
}

/// Whose ten words have the one's complement sum of a sound IPv4 header (RFC 1071); the order of bytes does not matter.
#[target_feature(enable = "avx512f")]
#[inline]
fn is_summed([first, second, third, source, target]: [__m512i; 5]) -> u16 {
    let sum = _mm512_add_epi32(
        _mm512_add_epi32(_mm512_add_epi32(words(first), words(second)), _mm512_add_epi32(words(third), words(source))),
        words(target),
    );
    _mm512_cmpeq_epi32_mask(words(words(sum)), number(0xffff))
}

/// The sums of both words of each dword.
#[target_feature(enable = "avx512f")]
#[inline]
fn words(dwords: __m512i) -> __m512i {
    _mm512_add_epi32(_mm512_and_si512(dwords, number(0xffff)), _mm512_srli_epi32::<16>(dwords))
}

/// Which of 16 addresses are in ff00::/8, fe80::/10 or ::/32, by the dwords that they begin with, as they lie in
/// memory.
#[target_feature(enable = "avx512f")]
#[inline]
fn is_special6(first: __m512i) -> u16 {
    _mm512_cmpeq_epi32_mask(_mm512_and_si512(first, number(0xff)), number(0xff))
        | _mm512_cmpeq_epi32_mask(_mm512_and_si512(first, number(0xc0ff)), number(0x80fe))
        | _mm512_testn_epi32_mask(first, first)
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

/// The heads of packets `at..at + 16` as columns: station low, station high with ethertype, the five
/// dwords of the IPv4 header and the tags' control information, as they lie in memory. `pick`
/// says by packet which bytes of it and of the fourth after it these are.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
#[inline]
fn transposed(frames: &Frames<'_>, at: usize, pick: impl Fn(usize) -> __m512i) -> [__m512i; 8] {
    // Row j of a group pairs packets j and j + 4, so that the last step below leaves packets in order. Loops and
    // functions, no closures: those are called, with registers passed through memory.
    let mut low = [_mm512_setzero_si512(); 4];
    let mut high = [_mm512_setzero_si512(); 4];
    for j in 0..4 {
        for (group, i) in [(&mut low, at + j), (&mut high, at + j + 8)] {
            // SAFETY: 64 bytes are readable at each head.
            let (one, other) =
                unsafe { (_mm512_loadu_si512(frames.head(i).cast()), _mm512_loadu_si512(frames.head(i + 4).cast())) };
            group[j] = _mm512_permutex2var_epi8(one, pick(i), other);
        }
    }
    let (low, high) = (fields_of(low), fields_of(high));
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
        _mm512_shuffle_i32x4::<ODD>(low[3], high[3]),
    ]
}

/// Transposes rows of packet pairs. Each result: field k of 4 packets and field k + 4 of them, twice.
#[target_feature(enable = "avx512f")]
#[inline]
fn fields_of([r0, r1, r2, r3]: [__m512i; 4]) -> [__m512i; 4] {
    let (a, b) = (_mm512_unpacklo_epi32(r0, r1), _mm512_unpackhi_epi32(r0, r1));
    let (c, d) = (_mm512_unpacklo_epi32(r2, r3), _mm512_unpackhi_epi32(r2, r3));
    [_mm512_unpacklo_epi64(a, c), _mm512_unpackhi_epi64(a, c), _mm512_unpacklo_epi64(b, d), _mm512_unpackhi_epi64(b, d)]
}
