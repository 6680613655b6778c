//! The passes over headers for any [`Lanes`]: SSE4.2 takes 4 packets at a time, AVX2 8. The bytes that matter of a
//! packet are put together in two rows of four dwords, and the rows of four packets transposed, so that each register
//! holds one header field of all of them; then every check is a compare and a mask for all at once.
//!
//! # Safety
//! Of each function: the processor has the set of `L`.

use super::lanes::Lanes;
use super::numbers::{NUMBERS, Numbers};
use super::{Alike, Before, Columns6, EthernetColumns, Frames, Shape, bare, check, flows, ip6, mpls, scalar};
use crate::addr::MacAddress;
use std::arch::x86_64::*;

/// How many of the largest registers ahead packet heads are fetched.
const AHEAD: usize = 4;
/// Packets in a part of a register, and in the largest register.
const PART: usize = 4;
const MOST: usize = 8;

/// Where the last dword of the first row begins, in an untagged frame: the IPv4 destination, or the beginning of the
/// IPv6 destination.
const TARGET4: usize = 30;
const TARGET6: usize = 38;

/// Which of the 16 bytes from the eighth on of a frame are its ethertype, behind so many tags; it goes to where the
/// source begins in the row.
static PICKS: [[u8; 16]; 3] = [pick(0), pick(1), pick(2)];

const fn pick(tags: u8) -> [u8; 16] {
    const NONE: u8 = 0x80;
    let mut pick = [NONE; 16];
    (pick[6], pick[7]) = (12 - 8 + 4 * tags, 13 - 8 + 4 * tags);
    pick
}

const X: u8 = 0x80;
/// Shuffle of dwords: all bytes the other way round.
static SWAPPED: [u8; 16] = [3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12];
/// The upper two the other way round.
static UPPER_SWAPPED: [u8; 16] = [0, 1, 3, 2, 4, 5, 7, 6, 8, 9, 11, 10, 12, 13, 15, 14];
/// Nothing but these.
static UPPER_TO_UPPER: [u8; 16] = [X, X, 3, 2, X, X, 7, 6, X, X, 11, 10, X, X, 15, 14];
/// Nothing but these, as the lower ones.
static UPPER_TO_LOWER: [u8; 16] = [3, 2, X, X, 7, 6, X, X, 11, 10, X, X, 15, 14, X, X];

/// What is behind link headers, with the columns of what is found there.
enum Headers<'a> {
    Ip4(EthernetColumns<'a>),
    Ip6(Columns6<'a>),
    Mpls(EthernetColumns<'a>),
}

/// See [`super::ethernet_ip4`].
#[inline(always)]
pub(super) unsafe fn ethernet_ip4<L: Lanes>(
    frames: &Frames<'_>,
    station: MacAddress,
    mut columns: EthernetColumns<'_>,
    mut ahead: impl FnMut(&[u32]),
) -> u32 {
    // SAFETY: the processor has the set; so many packets there are, as the loop's condition says.
    let (union, at) = unsafe {
        let (pass, link) = (Pass::<L>::new(station), L::number(14));
        let (mut union, mut at) = (L::number(0), 0);
        while at + L::COUNT <= frames.len() {
            prefetch::<L>(frames, at);
            let fields = fields::<L, TARGET4>(frames, at, |_| 0);
            union = L::or(union, pass.judge::<true>(&fields, link, &mut columns, at));
            ahead(&columns.target[at..at + L::COUNT]);
            at += L::COUNT;
        }
        (L::any(union), at)
    };
    let rest = scalar::ethernet_ip4(frames, station, &mut columns, at, |_| 0);
    ahead(&columns.target[at..]);
    union | rest
}

/// See [`super::tagged_ip4`].
#[inline(always)]
pub(super) unsafe fn tagged_ip4<L: Lanes>(
    frames: &Frames<'_>,
    station: MacAddress,
    columns: EthernetColumns<'_>,
    shapes: &[Shape],
) -> u32 {
    // SAFETY: the caller's.
    unsafe { tagged::<L, TARGET4>(frames, station, Headers::Ip4(columns), shapes) }
}

/// See [`super::tagged_ip6`].
#[inline(always)]
pub(super) unsafe fn tagged_ip6<L: Lanes>(
    frames: &Frames<'_>,
    station: MacAddress,
    columns: Columns6<'_>,
    shapes: &[Shape],
) -> u32 {
    // SAFETY: the caller's.
    unsafe { tagged::<L, TARGET6>(frames, station, Headers::Ip6(columns), shapes) }
}

#[inline(always)]
unsafe fn tagged<L: Lanes, const TARGET: usize>(
    frames: &Frames<'_>,
    station: MacAddress,
    mut headers: Headers<'_>,
    shapes: &[Shape],
) -> u32 {
    // SAFETY: as in `ethernet_ip4`.
    let (union, at) = unsafe {
        let pass = Pass::<L>::new(station);
        let (mut union, mut at) = (L::number(0), 0);
        while at + L::COUNT <= frames.len() {
            prefetch::<L>(frames, at);
            let shapes = &shapes[at..at + L::COUNT];
            let depths: [u32; MOST] =
                std::array::from_fn(|i| shapes.get(i).map_or(0, |shape| shape.depth().min(2) as u32));
            let fields = fields::<L, TARGET>(frames, at, |i| depths[i] as usize);
            let link = L::add(L::up::<2>(L::load(depths.as_ptr())), L::number(14));
            union = L::or(union, pass.judge_as(&fields, link, &mut headers, at));
            at += L::COUNT;
        }
        (L::any(union), at)
    };
    let tags = |i: usize| shapes[i].tags();
    union
        | match &mut headers {
            Headers::Ip4(columns) => scalar::ethernet_ip4(frames, station, columns, at, tags),
            Headers::Ip6(columns) => ip6::each(frames, station, columns, at, tags),
            Headers::Mpls(_) => unreachable!("labels are never looked for behind tags of many shapes"),
        }
}

/// See [`super::ethernet_ip6`].
#[inline(always)]
pub(super) unsafe fn ethernet_ip6<L: Lanes>(
    frames: &Frames<'_>,
    station: MacAddress,
    mut columns: Columns6<'_>,
) -> u32 {
    // SAFETY: as in `ethernet_ip4`.
    let (union, at) = unsafe {
        let (pass, link) = (Pass::<L>::new(station), L::number(14));
        let (mut union, mut at) = (L::number(0), 0);
        while at + L::COUNT <= frames.len() {
            prefetch::<L>(frames, at);
            let fields = fields::<L, TARGET6>(frames, at, |_| 0);
            union = L::or(union, pass.judge6::<true>(&fields, link, &mut columns, at));
            at += L::COUNT;
        }
        (L::any(union), at)
    };
    union | ip6::each(frames, station, &mut columns, at, |_| 0)
}

/// See [`super::ethernet_mpls`].
#[inline(always)]
pub(super) unsafe fn ethernet_mpls<L: Lanes>(
    frames: &Frames<'_>,
    station: MacAddress,
    mut columns: EthernetColumns<'_>,
) -> u32 {
    // SAFETY: as in `ethernet_ip4`.
    let (union, at) = unsafe {
        let (pass, link) = (Pass::<L>::new(station), L::number(14));
        let (mut union, mut at) = (L::number(0), 0);
        while at + L::COUNT <= frames.len() {
            prefetch::<L>(frames, at);
            let fields = fields::<L, TARGET4>(frames, at, |_| 0);
            union = L::or(union, pass.judge_label(&fields, link, &mut columns, at));
            at += L::COUNT;
        }
        (L::any(union), at)
    };
    union | mpls::each::<false>(frames, station, &mut columns, at)
}

/// See [`super::ip4_headers`].
#[inline(always)]
pub(super) unsafe fn ip4_headers<L: Lanes>(
    frames: &Frames<'_>,
    before: Before,
    mut columns: EthernetColumns<'_>,
) -> u32 {
    // SAFETY: as in `ethernet_ip4`.
    let (union, at) = unsafe {
        let (pass, link) = (Pass::<L>::new(bare::OURS), L::number(before.bytes().into()));
        let (mut union, mut at) = (L::number(0), 0);
        while at + L::COUNT <= frames.len() {
            prefetch::<L>(frames, at);
            let fields = bare_fields::<L, TARGET4>(frames, at, before);
            union = L::or(union, pass.judge::<false>(&fields, link, &mut columns, at));
            at += L::COUNT;
        }
        (L::any(union), at)
    };
    union | bare::each4(frames, before, &mut columns, at)
}

/// See [`super::ip6_headers`].
#[inline(always)]
pub(super) unsafe fn ip6_headers<L: Lanes>(frames: &Frames<'_>, before: Before, mut columns: Columns6<'_>) -> u32 {
    // SAFETY: as in `ethernet_ip4`.
    let (union, at) = unsafe {
        let (pass, link) = (Pass::<L>::new(bare::OURS), L::number(before.bytes().into()));
        let (mut union, mut at) = (L::number(0), 0);
        while at + L::COUNT <= frames.len() {
            prefetch::<L>(frames, at);
            let fields = bare_fields::<L, TARGET6>(frames, at, before);
            union = L::or(union, pass.judge6::<false>(&fields, link, &mut columns, at));
            at += L::COUNT;
        }
        (L::any(union), at)
    };
    union | bare::each6(frames, before, &mut columns, at)
}

/// See [`super::flow_hashes`].
#[inline(always)]
pub(super) unsafe fn flow_hashes<L: Lanes>(frames: &Frames<'_>, flags: &[u32], seed: u32, hashes: &mut [u32]) {
    let (flags, hashes) = (&flags[..frames.len()], &mut hashes[..frames.len()]);
    let mut at = 0;
    while at + L::COUNT <= frames.len() {
        let (some, found) = (&flags[at..at + L::COUNT], &mut hashes[at..at + L::COUNT]);
        // SAFETY: the processor has the set; so many packets there are, and entries as just cut out.
        let are_others = unsafe {
            let checks = L::load(some.as_ptr());
            // The word with the protocol, then source, destination and the bytes behind a header of 20 bytes.
            let [word, source, destination, ports] = head_columns::<L>(frames, at, 8);
            let protocol = L::and(L::down::<8>(word), L::number(0xff));
            let mut has_ports = L::number(0);
            for known in flows::WITH_PORTS {
                has_ports = L::or(has_ports, L::equal(protocol, L::number(known)));
            }
            let is_whole = L::equal(L::and(checks, L::number(check::FRAGMENT)), L::number(0));
            let ports = L::and(ports, L::and(has_ports, is_whole));
            let mut hash = L::number(seed);
            for word in [source, destination, protocol, ports] {
                hash = L::xor(hash, word);
                hash = L::multiply(L::xor(hash, L::down::<16>(hash)), L::number(flows::FIRST));
                hash = L::multiply(L::xor(hash, L::down::<15>(hash)), L::number(flows::SECOND));
                hash = L::xor(hash, L::down::<15>(hash));
            }
            L::store(found.as_mut_ptr(), hash);
            let examined = L::and(checks, L::number(check::EXAMINED | check::HEADER_LENGTH));
            !L::is_zero(L::xor(examined, L::number(check::EXAMINED)))
        };
        if are_others {
            for (i, (flags, hash)) in some.iter().zip(found).enumerate() {
                *hash = flows::one(frames, at + i, *flags, seed);
            }
        }
        at += L::COUNT;
    }
    flows::each(frames, flags, seed, hashes, at);
}

/// See [`super::alike_ip4`].
#[inline(always)]
pub(super) unsafe fn alike_ip4<L: Lanes>(
    frames: &Frames<'_>,
    station: MacAddress,
    columns: EthernetColumns<'_>,
    first: (Shape, u32),
    tags: &mut [u32],
) -> Alike {
    // SAFETY: the caller's.
    unsafe { alike::<L, TARGET4>(frames, station, Headers::Ip4(columns), first, tags) }
}

/// See [`super::alike_ip6`].
#[inline(always)]
pub(super) unsafe fn alike_ip6<L: Lanes>(
    frames: &Frames<'_>,
    station: MacAddress,
    columns: Columns6<'_>,
    first: (Shape, u32),
    tags: &mut [u32],
) -> Alike {
    // SAFETY: the caller's.
    unsafe { alike::<L, TARGET6>(frames, station, Headers::Ip6(columns), first, tags) }
}

/// See [`super::alike_mpls`].
#[inline(always)]
pub(super) unsafe fn alike_mpls<L: Lanes>(
    frames: &Frames<'_>,
    station: MacAddress,
    columns: EthernetColumns<'_>,
    first: (Shape, u32),
    tags: &mut [u32],
) -> Alike {
    // SAFETY: the caller's.
    unsafe { alike::<L, TARGET4>(frames, station, Headers::Mpls(columns), first, tags) }
}

#[inline(always)]
unsafe fn alike<L: Lanes, const TARGET: usize>(
    frames: &Frames<'_>,
    station: MacAddress,
    headers: Headers<'_>,
    first: (Shape, u32),
    tags: &mut [u32],
) -> Alike {
    // SAFETY: the caller's.
    unsafe {
        match first.0.depth() {
            0 => alike_of::<L, TARGET, 0>(frames, station, headers, first, tags),
            1 => alike_of::<L, TARGET, 1>(frames, station, headers, first, tags),
            _ => alike_of::<L, TARGET, 2>(frames, station, headers, first, tags),
        }
    }
}

#[inline(always)]
unsafe fn alike_of<L: Lanes, const TARGET: usize, const TAGS: usize>(
    frames: &Frames<'_>,
    station: MacAddress,
    mut headers: Headers<'_>,
    first: (Shape, u32),
    tags: &mut [u32],
) -> Alike {
    let count = frames.len();
    let tags = &mut tags[..count];
    // SAFETY: as in `ethernet_ip4`; the columns are as long as the frames are many.
    let (union, others, at) = unsafe {
        let pass = Pass::<L>::new(station);
        let link = L::number(14 + 4 * TAGS as u32);
        let types = [L::number(first.0.types() as u32), L::number((first.0.types() >> 32) as u32)];
        let vids = L::number([0, 0x0fff_0000, 0x0fff_0fff][TAGS]);
        let vid = L::and(L::number(first.1), vids);
        let (mut union, mut others, mut at) = (L::number(0), L::number(0), 0);
        while at + L::COUNT <= count {
            prefetch::<L>(frames, at);
            let fields = fields::<L, TARGET>(frames, at, |_| TAGS);
            let lengths = match &headers {
                Headers::Ip4(columns) | Headers::Mpls(columns) => &columns.length[..count],
                Headers::Ip6(columns) => &columns.length[..count],
            };
            let length = L::load_halves(lengths.as_ptr().add(at));
            let ethertype = L::down::<16>(fields.station_high);
            let mut strange = L::or(L::equal(ethertype, L::number(0x0081)), L::equal(ethertype, L::number(0xa888)));
            let mut own = L::number(0);
            if TAGS > 0 {
                // Where two tags stand: behind the addresses.
                let [outer, inner, ..] = head_columns::<L>(frames, at, 12);
                strange = L::or(strange, L::above(link, length));
                strange = L::or(strange, L::and(L::xor(outer, types[0]), L::number(0xffff)));
                own = L::shuffle(outer, L::parts(&UPPER_TO_UPPER));
                if TAGS > 1 {
                    strange = L::or(strange, L::and(L::xor(inner, types[1]), L::number(0xffff)));
                    own = L::or(own, L::shuffle(inner, L::parts(&UPPER_TO_LOWER)));
                }
            }
            if !L::is_zero(strange) {
                break;
            }
            union = L::or(union, pass.judge_as(&fields, link, &mut headers, at));
            if TAGS > 0 {
                others = L::or(others, L::xor(L::and(own, vids), vid));
                L::store(tags[at..].as_mut_ptr(), own);
            }
            at += L::COUNT;
        }
        (L::any(union), L::any(others), at)
    };
    let rest = match headers {
        Headers::Ip4(columns) => scalar::alike_ip4(frames, station, columns, first, tags, at),
        Headers::Ip6(columns) => ip6::alike(frames, station, columns, first, tags, at),
        Headers::Mpls(columns) => mpls::alike(frames, station, columns, first, tags, at),
    };
    Alike { done: rest.done, faults: rest.faults | union, one_vlan: rest.one_vlan && others == 0 }
}

/// Fetches the heads that are looked at some steps later.
#[inline(always)]
unsafe fn prefetch<L: Lanes>(frames: &Frames<'_>, at: usize) {
    let at = at + AHEAD * MOST;
    if at + L::COUNT <= frames.len() {
        for part in (0..L::COUNT).step_by(PART) {
            // SAFETY: so many packets there are, as just seen; a hint, which reads and writes nothing.
            unsafe {
                let heads = frames.heads::<PART>(at + part);
                heads.into_iter().for_each(|head| _mm_prefetch::<_MM_HINT_T0>(head.cast()));
            }
        }
    }
}

/// One header field of some packets in each, as it lies in memory.
struct Fields<L: Lanes> {
    station_low: L::V,
    /// The last two bytes of the station, then the ethertype.
    station_high: L::V,
    /// What is behind the link header: the first four words of an IPv4 header; of an IPv6 header the first two and the
    /// beginning of the source; or a label.
    words: [L::V; 4],
    /// The IPv4 destination, or the beginning of the IPv6 destination.
    target: L::V,
}

/// The heads of packets from `at` on as columns. `depth` says how many tags each has, at most two.
///
/// # Safety
/// There are so many packets.
#[inline(always)]
unsafe fn fields<L: Lanes, const TARGET: usize>(
    frames: &Frames<'_>,
    at: usize,
    depth: impl Fn(usize) -> usize,
) -> Fields<L> {
    // SAFETY: given by the caller; 64 bytes can be read at each head.
    unsafe {
        let mut rows = [[L::number(0); 2]; PART];
        let low = frames.heads::<PART>(at);
        let high = if L::COUNT > PART { frames.heads::<PART>(at + PART) } else { low };
        for (i, rows) in rows.iter_mut().enumerate() {
            let low = row::<TARGET>(low[i], depth(i));
            let high = if L::COUNT > PART { row::<TARGET>(high[i], depth(i + PART)) } else { low };
            *rows = [L::of(low[0], high[0]), L::of(low[1], high[1])];
        }
        let [station_low, station_high, _, target] = L::columns([rows[0][0], rows[1][0], rows[2][0], rows[3][0]]);
        let words = L::columns([rows[0][1], rows[1][1], rows[2][1], rows[3][1]]);
        Fields { station_low, station_high, words, target }
    }
}

/// Of one packet with so many tags: station, ethertype and target; then the four dwords behind the link header.
///
/// # Safety
/// 64 bytes can be read at the head.
#[inline(always)]
unsafe fn row<const TARGET: usize>(head: *const u8, tags: usize) -> [__m128i; 2] {
    const ETHERTYPE: i32 = 0b1000;
    const LAST_DWORD: i32 = 0b1100_0000;
    // SAFETY: given by the caller; with two tags the last byte is the 50th.
    unsafe {
        let [station, behind, words, target] =
            [0, 8, 14 + 4 * tags, TARGET - 12 + 4 * tags].map(|from| _mm_loadu_si128(head.add(from).cast()));
        let pick = _mm_loadu_si128(PICKS.as_ptr().add(tags).cast());
        let link = _mm_blend_epi16::<ETHERTYPE>(station, _mm_shuffle_epi8(behind, pick));
        [_mm_blend_epi16::<LAST_DWORD>(link, target), words]
    }
}

/// As [`fields`], of headers that begin behind `before`, with nothing of Ethernet.
///
/// # Safety
/// There are so many packets.
#[inline(always)]
unsafe fn bare_fields<L: Lanes, const TARGET: usize>(frames: &Frames<'_>, at: usize, before: Before) -> Fields<L> {
    const ETHERNET: usize = 14;
    // SAFETY: given by the caller.
    unsafe {
        let begin = usize::from(before.bytes());
        let words = head_columns::<L>(frames, at, begin);
        let [.., target] = head_columns::<L>(frames, at, begin + TARGET - ETHERNET - 12);
        Fields { station_low: L::number(0), station_high: L::number(0), words, target }
    }
}

/// Four dwords of each head, from a byte on, as columns.
///
/// # Safety
/// There are so many packets from `at` on.
#[inline(always)]
unsafe fn head_columns<L: Lanes>(frames: &Frames<'_>, at: usize, from: usize) -> [L::V; 4] {
    debug_assert!(from + 16 <= super::READABLE);
    // SAFETY: given by the caller; 64 bytes can be read at each head.
    unsafe {
        let low = frames.heads::<PART>(at);
        let high = if L::COUNT > PART { frames.heads::<PART>(at + PART) } else { low };
        let mut rows = [L::number(0); PART];
        for (i, row) in rows.iter_mut().enumerate() {
            *row = L::of(_mm_loadu_si128(low[i].add(from).cast()), _mm_loadu_si128(high[i].add(from).cast()));
        }
        L::columns(rows)
    }
}

/// What the checks of all packets have in common.
struct Pass<L: Lanes> {
    station_low: L::V,
    station_high: L::V,
    swap: L::V,
    numbers: &'static Numbers,
}

/// What [`Pass::link`] found: bits of faults, and where the frame is of the type and long enough.
struct Link<L: Lanes> {
    bits: L::V,
    examined: L::V,
}

impl<L: Lanes> Pass<L> {
    #[inline(always)]
    unsafe fn new(station: MacAddress) -> Pass<L> {
        let [a, b, c, d, e, f] = station.0;
        // SAFETY: the caller's.
        unsafe {
            Pass {
                station_low: L::number(u32::from_le_bytes([a, b, c, d])),
                station_high: L::number(u32::from_le_bytes([e, f, 0, 0])),
                swap: L::parts(&SWAPPED),
                // The compiler must not see what they are.
                numbers: std::hint::black_box(&NUMBERS),
            }
        }
    }

    /// Station and ethertype, and whether `headers` bytes are there, which is checked of frames of this type; without
    /// `LINK` only that.
    #[inline(always)]
    unsafe fn link<const LINK: bool>(
        &self,
        fields: &Fields<L>,
        (ethertype, other): (u16, u32),
        headers: L::V,
        length: L::V,
    ) -> Link<L> {
        let Fields { station_low, station_high, .. } = *fields;
        // SAFETY: the caller's.
        unsafe {
            if !LINK {
                let is_short = L::above(headers, length);
                let bits = L::and(is_short, L::number(check::SHORT));
                return Link { bits, examined: L::without(L::number(u32::MAX), is_short) };
            }
            let single = L::equal(L::and(station_low, L::number(1)), L::number(0));
            let ours = L::and(
                L::equal(station_low, self.station_low),
                L::equal(L::and(station_high, L::number(0xffff)), self.station_high),
            );
            // Little-endian: the ethertype's bytes are the upper half.
            let is_type = L::equal(L::down::<16>(station_high), L::number(ethertype.swap_bytes().into()));
            let is_short = L::and(L::above(headers, length), is_type);
            let foreign = L::without(L::and(single, L::number(check::OTHER_STATION)), ours);
            let group = L::without(L::number(check::GROUP), single);
            let short = L::and(is_short, L::number(check::SHORT));
            let bits = L::or(L::or(foreign, group), L::or(L::without(L::number(other), is_type), short));
            Link { bits, examined: L::without(is_type, is_short) }
        }
    }

    /// Lengths and flags of the packets from `at` on.
    #[inline(always)]
    unsafe fn given(lengths: &[u16], flags: &[u32], at: usize) -> (L::V, L::V) {
        let (lengths, flags) = (&lengths[at..at + L::COUNT], &flags[at..at + L::COUNT]);
        // SAFETY: as many entries, as just cut out.
        unsafe { (L::load_halves(lengths.as_ptr()), L::load(flags.as_ptr())) }
    }

    /// The checks of such headers.
    #[inline(always)]
    unsafe fn judge_as(&self, fields: &Fields<L>, link: L::V, headers: &mut Headers<'_>, at: usize) -> L::V {
        // SAFETY: the caller's.
        unsafe {
            match headers {
                Headers::Ip4(columns) => self.judge::<true>(fields, link, columns, at),
                Headers::Ip6(columns) => self.judge6::<true>(fields, link, columns, at),
                Headers::Mpls(columns) => self.judge_label(fields, link, columns, at),
            }
        }
    }

    /// All checks of IPv4 packets, into the columns from `at` on; `link` is the length of their link headers. Gives the
    /// bits of their faults.
    #[inline(always)]
    unsafe fn judge<const LINK: bool>(
        &self,
        fields: &Fields<L>,
        link: L::V,
        columns: &mut EthernetColumns<'_>,
        at: usize,
    ) -> L::V {
        let Fields { words: [first, second, third, source], target, .. } = *fields;
        // SAFETY: the caller's; as many entries are stored as are cut out.
        unsafe {
            let (length, flags) = Self::given(columns.length, columns.flags, at);
            let (n, nothing) = (self.numbers, L::number(0));
            let number = |wide| L::aligned(wide);
            let headers = L::add(link, L::number(20));
            let Link { bits: ethernet, examined } =
                self.link::<LINK>(fields, (0x0800, check::NOT_IP4), headers, length);

            // First word: version and header length, TOS, total length.
            let is_version_4 = L::equal(L::and(first, number(&n.version_bits)), number(&n.version));
            let is_plain = L::equal(L::and(first, number(&n.length_bits)), number(&n.words));
            let total = L::down::<16>(L::shuffle(first, L::parts(&UPPER_SWAPPED)));
            let end = L::add(total, link);
            let is_total_bad = L::or(L::above(number(&n.bytes), total), L::above(end, length));

            // One's complement sum of the ten words; its byte order does not matter.
            let sum = L::add(
                L::add(L::add(words::<L>(first), words::<L>(second)), L::add(words::<L>(third), words::<L>(source))),
                words::<L>(target),
            );
            let is_sum_right = L::equal(words::<L>(words::<L>(sum)), L::number(0xffff));
            let is_sum_bad = L::without(is_plain, is_sum_right);

            let is_expired = L::above(number(&n.least_ttl), L::and(third, number(&n.octet)));
            // Flags and offset are the upper half, bytes swapped: 0x3fff reads 0xff3f.
            let is_whole = L::equal(L::and(second, number(&n.fragment_bits)), nothing);

            // Addresses of no host: 0/8, 127/8, 224/3. A dword's lower half has the first octet of the source, its
            // upper half that of the destination.
            let octets = L::or(L::and(source, L::number(0xff)), L::up::<16>(L::and(target, L::number(0xff))));
            let no_host = L::or(
                L::or(L::equal_halves(octets, nothing), L::equal_halves(octets, number(&n.loopback))),
                L::above_halves(octets, number(&n.last_class)),
            );
            let no_host = L::and(no_host, number(&n.no_hosts));
            let no_host = L::or(no_host, L::down::<16>(no_host));

            let header = L::or(
                L::or(
                    L::without(number(&n.bad_version), is_version_4),
                    L::without(number(&n.bad_header_length), is_plain),
                ),
                L::or(L::and(is_total_bad, number(&n.bad_total)), L::and(is_sum_bad, number(&n.bad_sum))),
            );
            let rest = L::or(
                L::or(L::and(is_expired, number(&n.expired)), L::without(number(&n.fragment), is_whole)),
                L::or(L::and(no_host, number(&n.no_host)), number(&n.examined)),
            );
            let bits = L::or(ethernet, L::and(examined, L::or(header, rest)));

            // Padding is cut off where the total length can be trusted.
            let hinders = number(&n.not_trimmed);
            let hinders = L::or(L::and(bits, hinders), L::and(flags, number(&n.chained)));
            let trimmed = L::choose(L::equal(hinders, nothing), end, length);
            L::store(columns.flags[at..at + L::COUNT].as_mut_ptr(), L::or(flags, bits));
            L::store(columns.target[at..at + L::COUNT].as_mut_ptr(), L::shuffle(target, self.swap));
            L::store_halves(columns.length[at..at + L::COUNT].as_mut_ptr(), trimmed);
            L::without(bits, number(&n.examined))
        }
    }

    /// All checks of IPv6 packets, as [`Pass::judge`].
    #[inline(always)]
    unsafe fn judge6<const LINK: bool>(
        &self,
        fields: &Fields<L>,
        link: L::V,
        columns: &mut Columns6<'_>,
        at: usize,
    ) -> L::V {
        let Fields { words: [first, second, source, _], target, .. } = *fields;
        // SAFETY: the caller's; as many entries are stored as are cut out.
        unsafe {
            let (length, flags) = Self::given(columns.length, columns.flags, at);
            let nothing = L::number(0);
            let headers = L::add(link, L::number(40));
            let Link { bits: ethernet, examined } =
                self.link::<LINK>(fields, (0x86dd, check::NOT_IP6), headers, length);

            let is_version_6 = L::equal(L::and(first, L::number(0xf0)), L::number(0x60));
            // Payload length, next header, hop limit: their bytes as they lie in memory.
            let payload =
                L::or(L::up::<8>(L::and(second, L::number(0xff))), L::and(L::down::<8>(second), L::number(0xff)));
            let end = L::add(payload, headers);
            let is_too_long = L::above(end, length);
            let has_options = L::equal(L::and(second, L::number(0xff_0000)), nothing);
            let is_expired = L::above(L::number(2), L::down::<24>(second));

            let header = L::or(
                L::without(L::number(check::VERSION), is_version_6),
                L::and(is_too_long, L::number(check::TOTAL_LENGTH)),
            );
            let rest =
                L::or(L::and(has_options, L::number(check::HEADER_LENGTH)), L::and(is_expired, L::number(check::TTL)));
            let addresses = L::or(
                L::and(is_special6::<L>(source), L::number(check::MARTIAN_SOURCE)),
                L::and(is_special6::<L>(target), L::number(check::SPECIAL_DESTINATION)),
            );
            let all = L::or(L::or(header, rest), L::or(addresses, L::number(check::EXAMINED6)));
            let bits = L::or(ethernet, L::and(examined, all));

            let hinders = L::number(ip6::NOT_TRIMMED);
            let hinders = L::or(L::and(bits, hinders), L::and(flags, L::number(check::CHAINED)));
            let trimmed = L::choose(L::equal(hinders, nothing), end, length);
            L::store(columns.flags[at..at + L::COUNT].as_mut_ptr(), L::or(flags, bits));
            L::store_halves(columns.length[at..at + L::COUNT].as_mut_ptr(), trimmed);
            L::without(bits, L::number(check::EXAMINED6))
        }
    }

    /// The checks of frames with a label, as [`Pass::judge`].
    #[inline(always)]
    unsafe fn judge_label(&self, fields: &Fields<L>, link: L::V, columns: &mut EthernetColumns<'_>, at: usize) -> L::V {
        let entry = fields.words[0];
        // SAFETY: the caller's; as many entries are stored as are cut out.
        unsafe {
            let (length, flags) = Self::given(columns.length, columns.flags, at);
            let headers = L::add(link, L::number(4));
            let Link { bits, examined } = self.link::<true>(fields, (0x8847, check::NOT_MPLS), headers, length);
            // The last byte of the entry is the uppermost.
            let is_expired = L::and(L::above(L::number(2), L::down::<24>(entry)), examined);
            let bits = L::or(bits, L::and(is_expired, L::number(check::TTL)));
            L::store(columns.flags[at..at + L::COUNT].as_mut_ptr(), L::or(flags, bits));
            L::store(columns.target[at..at + L::COUNT].as_mut_ptr(), L::shuffle(entry, self.swap));
            bits
        }
    }
}

/// The sums of both words of each dword.
#[inline(always)]
unsafe fn words<L: Lanes>(dwords: L::V) -> L::V {
    // SAFETY: the caller's.
    unsafe { L::add(L::and(dwords, L::number(0xffff)), L::down::<16>(dwords)) }
}

/// Which addresses are in ff00::/8, fe80::/10 or ::/32, by the dwords that they begin with, as they lie in memory.
#[inline(always)]
unsafe fn is_special6<L: Lanes>(first: L::V) -> L::V {
    // SAFETY: the caller's.
    unsafe {
        L::or(
            L::equal(L::and(first, L::number(0xff)), L::number(0xff)),
            L::or(L::equal(L::and(first, L::number(0xc0ff)), L::number(0x80fe)), L::equal(first, L::number(0))),
        )
    }
}

/// The passes of a set, each in a function that names its instructions.
macro_rules! set {
    ($set:ident, $lanes:ident, $features:literal) => {
        pub(super) mod $set {
            use super::super::lanes::$lanes;
            use super::*;

            passes! { $lanes, $features;
                fn ethernet_ip4(frames: &Frames<'_>, station: MacAddress, columns: EthernetColumns<'_>,
                    ahead: impl FnMut(&[u32])) -> u32;
                fn ethernet_ip6(frames: &Frames<'_>, station: MacAddress, columns: Columns6<'_>) -> u32;
                fn ethernet_mpls(frames: &Frames<'_>, station: MacAddress, columns: EthernetColumns<'_>) -> u32;
                fn tagged_ip4(frames: &Frames<'_>, station: MacAddress, columns: EthernetColumns<'_>,
                    shapes: &[Shape]) -> u32;
                fn tagged_ip6(frames: &Frames<'_>, station: MacAddress, columns: Columns6<'_>,
                    shapes: &[Shape]) -> u32;
                fn alike_ip4(frames: &Frames<'_>, station: MacAddress, columns: EthernetColumns<'_>,
                    first: (Shape, u32), tags: &mut [u32]) -> Alike;
                fn alike_ip6(frames: &Frames<'_>, station: MacAddress, columns: Columns6<'_>,
                    first: (Shape, u32), tags: &mut [u32]) -> Alike;
                fn alike_mpls(frames: &Frames<'_>, station: MacAddress, columns: EthernetColumns<'_>,
                    first: (Shape, u32), tags: &mut [u32]) -> Alike;
                fn ip4_headers(frames: &Frames<'_>, before: Before, columns: EthernetColumns<'_>) -> u32;
                fn ip6_headers(frames: &Frames<'_>, before: Before, columns: Columns6<'_>) -> u32;
                fn flow_hashes(frames: &Frames<'_>, flags: &[u32], seed: u32, hashes: &mut [u32]) -> ();
            }
        }
    };
}

macro_rules! passes {
    ($lanes:ident, $features:literal;
        $(fn $pass:ident($($argument:ident: $type:ty),+) -> $result:ty;)+) => {$(
        #[target_feature(enable = $features)]
        pub(in super::super) fn $pass($($argument: $type),+) -> $result {
            // SAFETY: the processor has the set, as this function demands.
            unsafe { super::$pass::<$lanes>($($argument),+) }
        }
    )+};
}

set!(sse42, Sse42, "sse4.2,popcnt");
set!(avx2, Avx2, "avx2,popcnt");
