//! The kernels for AVX2: 8 packets at a time. The bytes that matter of a packet are put together
//! in two rows of four dwords, and the rows of 8 packets transposed so that each register holds
//! one header field of all of them; then every check is a compare and a mask for the 8 at once.
//!
//! A register's lower half has packets 0..4, its upper half 4..8: AVX2 moves nothing across for
//! free, and so nothing has to be.

use super::{Alike, EthernetColumns, Frames, Shape, check, scalar};
use crate::addr::MacAddress;
use std::arch::x86_64::*;

/// Packets a step.
const LANES: usize = 8;
/// How far ahead packet heads are fetched.
const AHEAD: usize = 4 * LANES;

/// Which of the 16 bytes from the eighth on of a frame are its ethertype, behind so many tags; it goes to where the
/// source begins in the row.
const PICKS: [[u8; 16]; 3] = [pick(0), pick(1), pick(2)];

const fn pick(tags: u8) -> [u8; 16] {
    const NONE: u8 = 0x80;
    let mut pick = [NONE; 16];
    (pick[6], pick[7]) = (12 - 8 + 4 * tags, 13 - 8 + 4 * tags);
    pick
}

/// See [`super::ethernet_ip4`].
#[target_feature(enable = "avx2")]
pub(super) fn ethernet_ip4(
    frames: &Frames<'_>,
    station: MacAddress,
    mut columns: EthernetColumns<'_>,
    mut ahead: impl FnMut(&[u32]),
) -> u32 {
    let count = frames.len();
    let pass = Pass::new(station);
    let pick = load(&PICKS[0]);
    let mut union = _mm256_setzero_si256();
    let mut at = 0;
    while at + LANES <= count {
        prefetch(frames, at);
        // SAFETY: as the loop's condition says.
        let heads = unsafe { frames.heads(at) };
        // SAFETY: heads of packets.
        let fields = unsafe { transposed(&heads, |_| (0, pick)) };
        union = _mm256_or_si256(union, pass.judge(&fields, number(14), &mut columns, at));
        ahead(&columns.target[at..at + LANES]);
        at += LANES;
    }
    let rest = scalar::ethernet_ip4(frames, station, &mut columns, at, |_| 0);
    ahead(&columns.target[at..]);
    any(union) | rest
}

/// See [`super::tagged_ip4`].
#[target_feature(enable = "avx2")]
pub(super) fn tagged_ip4(
    frames: &Frames<'_>,
    station: MacAddress,
    mut columns: EthernetColumns<'_>,
    shapes: &[Shape],
) -> u32 {
    let count = frames.len();
    let pass = Pass::new(station);
    let mut union = _mm256_setzero_si256();
    let mut at = 0;
    while at + LANES <= count {
        prefetch(frames, at);
        // SAFETY: as the loop's condition says.
        let heads = unsafe { frames.heads(at) };
        let shapes = &shapes[at..at + LANES];
        let pick = |i: usize| {
            let depth = shapes[i].depth().min(PICKS.len() - 1);
            (depth, load(&PICKS[depth]))
        };
        // SAFETY: heads of packets.
        let fields = unsafe { transposed(&heads, pick) };
        // SAFETY: 8 shapes of a byte each.
        let depths = unsafe { _mm256_cvtepu8_epi32(_mm_loadu_si64(shapes.as_ptr().cast())) };
        let tags = _mm256_slli_epi32::<2>(_mm256_and_si256(depths, number(Shape::DEPTH.into())));
        let link = _mm256_add_epi32(tags, number(14));
        union = _mm256_or_si256(union, pass.judge(&fields, link, &mut columns, at));
        at += LANES;
    }
    any(union) | scalar::ethernet_ip4(frames, station, &mut columns, at, |i| shapes[i].tags())
}

/// See [`super::alike_ip4`].
#[target_feature(enable = "avx2")]
pub(super) fn alike_ip4(
    frames: &Frames<'_>,
    station: MacAddress,
    columns: EthernetColumns<'_>,
    first: (Shape, u32),
    tags: &mut [u32],
) -> Alike {
    match first.0.depth() {
        0 => alike_of::<0>(frames, station, columns, first, tags),
        1 => alike_of::<1>(frames, station, columns, first, tags),
        _ => alike_of::<2>(frames, station, columns, first, tags),
    }
}

#[target_feature(enable = "avx2")]
fn alike_of<const TAGS: usize>(
    frames: &Frames<'_>,
    station: MacAddress,
    mut columns: EthernetColumns<'_>,
    first: (Shape, u32),
    tags: &mut [u32],
) -> Alike {
    let count = frames.len();
    let pass = Pass::new(station);
    let pick = load(&PICKS[TAGS]);
    let link = number(14 + 4 * TAGS as u32);
    let types = [number(first.0.types() as u32), number((first.0.types() >> 32) as u32)];
    let lower = number(0xffff);
    let vids = [0, 0x0fff_0000, 0x0fff_0fff][TAGS];
    let vid = number(first.1 & vids);

    let mut union = _mm256_setzero_si256();
    let mut others = _mm256_setzero_si256();
    let mut at = 0;
    while at + LANES <= count {
        prefetch(frames, at);
        // SAFETY: as the loop's condition says.
        let heads = unsafe { frames.heads(at) };
        // SAFETY: heads of packets.
        let fields = unsafe { transposed(&heads, |_| (TAGS, pick)) };
        // SAFETY: 8 lengths from `at`, below `count`, the column's length.
        let length = unsafe { lengths(columns.length.as_ptr().add(at)) };
        let ethertype = _mm256_srli_epi32::<16>(fields.station_high);
        let deeper = _mm256_or_si256(
            _mm256_cmpeq_epi32(ethertype, number(0x0081)),
            _mm256_cmpeq_epi32(ethertype, number(0xa888)),
        );
        let (mut strange, mut own) = (deeper, _mm256_setzero_si256());
        if TAGS > 0 {
            // SAFETY: heads of packets.
            let [outer, inner] = unsafe { tag_columns(&heads) };
            strange = _mm256_or_si256(strange, _mm256_cmpgt_epi32(link, length));
            strange = _mm256_or_si256(strange, _mm256_and_si256(_mm256_xor_si256(outer, types[0]), lower));
            own = _mm256_shuffle_epi8(outer, upper_to_upper());
            if TAGS > 1 {
                strange = _mm256_or_si256(strange, _mm256_and_si256(_mm256_xor_si256(inner, types[1]), lower));
                own = _mm256_or_si256(own, _mm256_shuffle_epi8(inner, upper_to_lower()));
            }
        }
        if _mm256_testz_si256(strange, strange) == 0 {
            break;
        }
        union = _mm256_or_si256(union, pass.judge(&fields, link, &mut columns, at));
        if TAGS > 0 {
            others = _mm256_or_si256(others, _mm256_xor_si256(_mm256_and_si256(own, number(vids)), vid));
            // SAFETY: 8 words from `at`, below `count`, the column's length.
            unsafe { _mm256_storeu_si256(tags[..count].as_mut_ptr().add(at).cast(), own) };
        }
        at += LANES;
    }
    let rest = scalar::alike_ip4(frames, station, columns, first, tags, at);
    Alike { done: rest.done, faults: rest.faults | any(union), one_vlan: rest.one_vlan && any(others) == 0 }
}

#[target_feature(enable = "avx2")]
#[inline]
fn number(value: u32) -> __m256i {
    _mm256_set1_epi32(value as i32)
}

#[target_feature(enable = "avx2")]
#[inline]
fn load(bytes: &[u8; 16]) -> __m128i {
    // SAFETY: a load of 16 bytes from an array of 16 bytes.
    unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
}

/// Eight lengths as dwords.
///
/// # Safety
/// 8 lengths can be read from `column` on.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn lengths(column: *const u16) -> __m256i {
    // SAFETY: given by the caller.
    unsafe { _mm256_cvtepu16_epi32(_mm_loadu_si128(column.cast())) }
}

/// The bits of all dwords together.
#[target_feature(enable = "avx2")]
#[inline]
fn any(dwords: __m256i) -> u32 {
    let half = _mm_or_si128(_mm256_castsi256_si128(dwords), _mm256_extracti128_si256::<1>(dwords));
    let pair = _mm_or_si128(half, _mm_unpackhi_epi64(half, half));
    let pair = _mm_cvtsi128_si64(pair) as u64;
    pair as u32 | (pair >> 32) as u32
}

/// Fetches the heads that are looked at some steps later.
#[target_feature(enable = "avx2")]
#[inline]
fn prefetch(frames: &Frames<'_>, at: usize) {
    if at + AHEAD + LANES <= frames.len() {
        // SAFETY: as just seen.
        let heads = unsafe { frames.heads::<LANES>(at + AHEAD) };
        heads.into_iter().for_each(|head| _mm_prefetch::<_MM_HINT_T0>(head.cast()));
    }
}

/// One header field of 8 packets in each, as it lies in memory.
struct Fields {
    station_low: __m256i,
    /// The last two bytes of the station, then the ethertype.
    station_high: __m256i,
    /// The words of the IPv4 header.
    first: __m256i,
    second: __m256i,
    third: __m256i,
    source: __m256i,
    target: __m256i,
}

/// The heads of 8 packets as columns. `pick` says of each of them how many tags it has, at most
/// two, and where then to find what.
///
/// # Safety
/// 64 bytes can be read at each.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn transposed(heads: &[*mut u8; LANES], pick: impl Fn(usize) -> (usize, __m128i)) -> Fields {
    // SAFETY: given by the caller.
    let pair = |i: usize| unsafe {
        let (low, high) = (row(heads[i], pick(i)), row(heads[i + 4], pick(i + 4)));
        [both(low[0], high[0]), both(low[1], high[1])]
    };
    let (r0, r1, r2, r3) = (pair(0), pair(1), pair(2), pair(3));
    let [station_low, station_high, _, target] = columns(r0[0], r1[0], r2[0], r3[0]);
    let [first, second, third, source] = columns(r0[1], r1[1], r2[1], r3[1]);
    Fields { station_low, station_high, first, second, third, source, target }
}

/// Where two tags stand, in the eight bytes behind the addresses: a column of dwords for each.
///
/// # Safety
/// 64 bytes can be read at each head.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn tag_columns(heads: &[*mut u8; LANES]) -> [__m256i; 2] {
    // SAFETY: given by the caller.
    let pair = |i: usize| unsafe {
        let load = |i: usize| _mm_loadu_si128(heads[i].add(12).cast());
        both(load(i), load(i + 4))
    };
    let [outer, inner, ..] = columns(pair(0), pair(1), pair(2), pair(3));
    [outer, inner]
}

/// Of one packet with so many tags, its ethertype picked so: station, ethertype and the IPv4 destination, which
/// is the fourth dword from the header's second on; then the four dwords before that one.
///
/// # Safety
/// 64 bytes can be read at the head.
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn row(head: *const u8, (tags, pick): (usize, __m128i)) -> [__m128i; 2] {
    const ETHERTYPE: i32 = 0b1000;
    // SAFETY: with two tags the last byte is the 42nd.
    unsafe {
        let [station, behind, source, target] =
            [0, 8, 14 + 4 * tags, 18 + 4 * tags].map(|from| _mm_loadu_si128(head.add(from).cast()));
        let link = _mm_blend_epi16::<ETHERTYPE>(station, _mm_shuffle_epi8(behind, pick));
        [_mm_blend_epi32::<0b1000>(link, target), source]
    }
}

#[target_feature(enable = "avx2")]
#[inline]
fn both(low: __m128i, high: __m128i) -> __m256i {
    _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
}

/// Four rows of four dwords, in each half, as four columns.
#[target_feature(enable = "avx2")]
#[inline]
fn columns(r0: __m256i, r1: __m256i, r2: __m256i, r3: __m256i) -> [__m256i; 4] {
    let (a, b) = (_mm256_unpacklo_epi32(r0, r1), _mm256_unpackhi_epi32(r0, r1));
    let (c, d) = (_mm256_unpacklo_epi32(r2, r3), _mm256_unpackhi_epi32(r2, r3));
    [_mm256_unpacklo_epi64(a, c), _mm256_unpackhi_epi64(a, c), _mm256_unpacklo_epi64(b, d), _mm256_unpackhi_epi64(b, d)]
}

/// What the checks of all packets have in common.
struct Pass {
    station_low: __m256i,
    station_high: __m256i,
    /// Swaps the bytes of each dword.
    swap: __m256i,
}

impl Pass {
    #[target_feature(enable = "avx2")]
    #[inline]
    fn new(station: MacAddress) -> Pass {
        let [a, b, c, d, e, f] = station.0;
        let swap = _mm_setr_epi8(3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);
        Pass {
            station_low: _mm256_set1_epi32(i32::from_le_bytes([a, b, c, d])),
            station_high: _mm256_set1_epi32(i32::from_le_bytes([e, f, 0, 0])),
            swap: _mm256_broadcastsi128_si256(swap),
        }
    }

    /// All checks of 8 packets, into the columns from `at` on; `link` is the length of their link
    /// headers. Gives the bits of their faults.
    #[target_feature(enable = "avx2")]
    #[inline]
    fn judge(&self, fields: &Fields, link: __m256i, columns: &mut EthernetColumns<'_>, at: usize) -> __m256i {
        let Fields { station_low, station_high, first, second, third, source, target, .. } = *fields;
        // SAFETY: 8 lengths and flags from `at`; the caller has seen to it that there are as many.
        let (length, flags) = unsafe {
            (lengths(columns.length.as_ptr().add(at)), _mm256_loadu_si256(columns.flags.as_ptr().add(at).cast()))
        };
        let (and, or, not) = (_mm256_and_si256, _mm256_or_si256, _mm256_andnot_si256);
        let (equal, above) = (_mm256_cmpeq_epi32, _mm256_cmpgt_epi32);
        let unless = |mask: __m256i, bit: u32| not(mask, number(bit));
        let when = |mask: __m256i, bit: u32| and(mask, number(bit));
        let nothing = _mm256_setzero_si256();

        // Ethernet. Little-endian: the ethertype's bytes are the upper half of station_high.
        let single = equal(and(station_low, number(1)), nothing);
        let ours =
            and(equal(station_low, self.station_low), equal(and(station_high, number(0xffff)), self.station_high));
        let is_type_ip4 = equal(_mm256_srli_epi32::<16>(station_high), number(0x0008));
        let is_short = and(above(_mm256_add_epi32(link, number(20)), length), is_type_ip4);
        let ip4 = not(is_short, is_type_ip4);
        let foreign = not(ours, when(single, check::OTHER_STATION));
        let ethernet = or(
            or(foreign, unless(single, check::GROUP)),
            or(unless(is_type_ip4, check::NOT_IP4), when(is_short, check::SHORT)),
        );

        // IPv4 first word: version and header length, TOS, total length.
        let is_version_4 = equal(and(first, number(0xf0)), number(0x40));
        let is_plain = equal(and(first, number(0x0f)), number(5));
        let total = _mm256_srli_epi32::<16>(_mm256_shuffle_epi8(first, swapped_upper()));
        let is_total_bad = or(above(number(20), total), above(_mm256_add_epi32(total, link), length));

        // One's complement sum of the ten words; its byte order does not matter.
        let words = |v: __m256i| _mm256_add_epi32(and(v, number(0xffff)), _mm256_srli_epi32::<16>(v));
        let sum = _mm256_add_epi32(
            _mm256_add_epi32(
                _mm256_add_epi32(words(first), words(second)),
                _mm256_add_epi32(words(third), words(source)),
            ),
            words(target),
        );
        let is_sum_right = equal(words(words(sum)), number(0xffff));
        let is_sum_bad = not(is_sum_right, is_plain);

        let is_expired = above(number(2), and(third, number(0xff)));
        // Flags and offset are the upper half, bytes swapped: 0x3fff reads 0xff3f.
        let is_whole = equal(and(second, number(0xff3f_0000)), nothing);

        // Addresses of no host: 0/8, 127/8, 224/3. A dword's lower half has the first octet of the
        // source, its upper half that of the destination.
        let octets = or(and(source, number(0xff)), _mm256_slli_epi32::<16>(and(target, number(0xff))));
        let no_host = or(
            or(_mm256_cmpeq_epi16(octets, nothing), _mm256_cmpeq_epi16(octets, _mm256_set1_epi16(127))),
            _mm256_cmpgt_epi16(octets, _mm256_set1_epi16(223)),
        );
        let no_host = when(no_host, check::MARTIAN_SOURCE | check::SPECIAL_DESTINATION << 16);
        let no_host = or(no_host, _mm256_srli_epi32::<16>(no_host));

        let header = or(
            or(unless(is_version_4, check::VERSION), unless(is_plain, check::HEADER_LENGTH)),
            or(when(is_total_bad, check::TOTAL_LENGTH), when(is_sum_bad, check::CHECKSUM)),
        );
        let rest = or(
            or(when(is_expired, check::TTL), unless(is_whole, check::FRAGMENT)),
            or(and(no_host, number(check::MARTIAN_SOURCE | check::SPECIAL_DESTINATION)), number(check::EXAMINED)),
        );
        let bits = or(ethernet, and(ip4, or(header, rest)));

        // Padding is cut off where the total length can be trusted.
        let hinders = number(scalar::NOT_TRIMMED | check::CHAINED);
        let trim = equal(and(or(bits, flags), hinders), nothing);
        let trimmed = _mm256_blendv_epi8(length, _mm256_add_epi32(total, link), trim);
        // Packing leaves the halves' words at 0 and 2 of four.
        let packed = _mm256_permute4x64_epi64::<0b00_00_10_00>(_mm256_packus_epi32(trimmed, trimmed));
        // SAFETY: as for the loads above.
        unsafe {
            _mm256_storeu_si256(columns.flags.as_mut_ptr().add(at).cast(), or(flags, bits));
            _mm256_storeu_si256(columns.target.as_mut_ptr().add(at).cast(), _mm256_shuffle_epi8(target, self.swap));
            _mm_storeu_si128(columns.length.as_mut_ptr().add(at).cast(), _mm256_castsi256_si128(packed));
        }
        not(number(check::EXAMINED), bits)
    }
}

/// Shuffle that swaps the upper two bytes of each dword.
#[target_feature(enable = "avx2")]
#[inline]
fn swapped_upper() -> __m256i {
    _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 3, 2, 4, 5, 7, 6, 8, 9, 11, 10, 12, 13, 15, 14))
}

/// Shuffle that leaves of each dword the upper two bytes, swapped.
#[target_feature(enable = "avx2")]
#[inline]
fn upper_to_upper() -> __m256i {
    const X: i8 = -1;
    _mm256_broadcastsi128_si256(_mm_setr_epi8(X, X, 3, 2, X, X, 7, 6, X, X, 11, 10, X, X, 15, 14))
}

/// Shuffle that leaves of each dword the upper two bytes, swapped, as the lower ones.
#[target_feature(enable = "avx2")]
#[inline]
fn upper_to_lower() -> __m256i {
    const X: i8 = -1;
    _mm256_broadcastsi128_si256(_mm_setr_epi8(3, 2, X, X, 7, 6, X, X, 11, 10, X, X, 15, 14, X, X))
}
