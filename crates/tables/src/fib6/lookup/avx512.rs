//! Sixteen addresses at a time: where each looks next is worked out for all of them together, and only the look
//! itself, a comparison with one line, is each one's own. Those that are not done are kept side by side.

use super::*;
use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

const LANES: usize = 16;
/// Groups are stored whole, the last one too.
const PLACES: usize = BLOCK + LANES;

/// Addresses under way: what of them there is to look at, and which they are.
struct UnderWay {
    upper: [MaybeUninit<u64>; PLACES],
    lower: [MaybeUninit<u64>; PLACES],
    lane: [MaybeUninit<u32>; PLACES],
    /// The 32 bits that are compared.
    key: [MaybeUninit<u32>; PLACES],
    /// The first word of the line that they are compared with.
    line: [MaybeUninit<u32>; PLACES],
    /// Which words of it are ends of ranges.
    ends: [MaybeUninit<u32>; PLACES],
    /// The word of the first range's value, or the word that counts.
    first: [MaybeUninit<u32>; PLACES],
    count: usize,
}

/// How lines are asked for before they are read. Not at all: those of a small table are near.
const NEVER: u8 = 0;
/// Into the first-level cache.
const NEAR: u8 = 1;
/// Into the second-level cache: more may be on their way.
const FAR: u8 = 2;

/// Sixteen of them.
#[derive(Clone, Copy)]
struct Group {
    upper: [__m512i; 2],
    lower: [__m512i; 2],
    lane: __m512i,
}

#[inline]
#[target_feature(enable = "avx512f")]
fn number(value: u32) -> __m512i {
    _mm512_set1_epi32(value.cast_signed())
}

impl UnderWay {
    fn new() -> UnderWay {
        const NONE: MaybeUninit<u32> = MaybeUninit::uninit();
        const NONE64: MaybeUninit<u64> = MaybeUninit::uninit();
        UnderWay {
            upper: [NONE64; PLACES],
            lower: [NONE64; PLACES],
            lane: [NONE; PLACES],
            key: [NONE; PLACES],
            line: [NONE; PLACES],
            ends: [NONE; PLACES],
            first: [NONE; PLACES],
            count: 0,
        }
    }

    /// Says something of what lies behind those that are there, up to the end of their last group, so that it may be
    /// read.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn close(&mut self) {
        let (count, zero) = (self.count, _mm512_setzero_si512());
        // SAFETY: a group behind `count`, which is at most BLOCK.
        unsafe {
            for column in [&mut self.upper, &mut self.lower] {
                _mm512_storeu_si512(column.as_mut_ptr().add(count).cast(), zero);
                _mm512_storeu_si512(column.as_mut_ptr().add(count + LANES / 2).cast(), zero);
            }
            _mm512_storeu_si512(self.lane.as_mut_ptr().add(count).cast(), zero);
        }
    }

    /// Takes those of a group in whose entries lead to lines, and asks for these.
    #[inline]
    #[target_feature(enable = "avx512f,popcnt")]
    fn take<const ASKS: u8>(&mut self, lines: &Lines, entries: __m512i, valid: __mmask16, group: Group) {
        let under_way = _mm512_mask_cmpge_epu32_mask(valid, entries, number(NODE));
        if under_way == 0 {
            return;
        }
        let kind = _mm512_srli_epi32::<KIND_SHIFT>(entries);
        let is = |wanted: u32| _mm512_cmpeq_epi32_mask(kind, number(wanted));
        let (few, ranges, sixteen, many) = (is(12), is(13), is(14), is(15));
        // The half in which the depth is, moved to its upper end.
        let depth = _mm512_and_si512(_mm512_srli_epi32::<DEPTH_SHIFT>(entries), number(0x7f));
        let in_lower = _mm512_test_epi32_mask(depth, number(HALF.into()));
        let shift = _mm512_and_si512(depth, number(63));
        let shifts = [
            _mm512_cvtepu32_epi64(_mm512_castsi512_si256(shift)),
            _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64::<1>(shift)),
        ];
        let keys = [0, 1].map(|half| {
            let in_lower = (in_lower >> (8 * half)) as u8;
            let bits = _mm512_mask_blend_epi64(in_lower, group.upper[half], group.lower[half]);
            _mm512_cvtepi64_epi32(_mm512_srli_epi64::<32>(_mm512_sllv_epi64(bits, shifts[half])))
        });
        let key = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(keys[0]), keys[1]);
        let line = _mm512_and_si512(entries, number(MOST_LINES - 1));
        let nibble = _mm512_srli_epi32::<28>(key);
        let line = _mm512_slli_epi32::<4>(_mm512_mask_add_epi32(line, many, line, nibble));
        let ends = _mm512_mask_mov_epi32(_mm512_maskz_mov_epi32(few, number(0x7f)), ranges, number(0x7fff));
        // Where values begin; or the word itself.
        let first = _mm512_mask_mov_epi32(number(8), ranges, number(16));
        let first = _mm512_mask_mov_epi32(first, sixteen, nibble);
        let byte = _mm512_and_si512(_mm512_srli_epi32::<24>(key), number(0xf));
        let first = _mm512_add_epi32(line, _mm512_mask_mov_epi32(first, many, byte));
        let words = [
            (&mut self.lane, group.lane),
            (&mut self.key, key),
            (&mut self.line, line),
            (&mut self.ends, ends),
            (&mut self.first, first),
        ];
        let count = self.count;
        for (column, values) in words {
            // SAFETY: a group behind `count`, which is at most BLOCK: all lanes of a block were counted at most once.
            unsafe {
                let to = column.as_mut_ptr().add(count);
                _mm512_storeu_si512(to.cast(), _mm512_maskz_compress_epi32(under_way, values));
            }
        }
        let (low, high) = (under_way as u8, (under_way >> 8) as u8);
        let behind = count + low.count_ones() as usize;
        for (column, values) in [(&mut self.upper, group.upper), (&mut self.lower, group.lower)] {
            // SAFETY: as above; eight behind at most eight.
            unsafe {
                let to = column.as_mut_ptr();
                _mm512_storeu_si512(to.add(count).cast(), _mm512_maskz_compress_epi64(low, values[0]));
                _mm512_storeu_si512(to.add(behind).cast(), _mm512_maskz_compress_epi64(high, values[1]));
            }
        }
        let more = under_way.count_ones() as usize;
        self.count = count + more;
        if ASKS == NEVER {
            return;
        }
        for at in count..count + more {
            // SAFETY: just stored.
            ask::<ASKS>(lines, unsafe { read(&self.line, at) });
        }
        // The other line of many ranges: two at once, and not one after the other.
        if ranges & under_way != 0 {
            for at in count..count + more {
                // SAFETY: just stored.
                ask::<ASKS>(lines, unsafe { read(&self.first, at) });
            }
        }
    }
}

/// Asks for the line of a word.
#[inline(always)]
fn ask<const ASKS: u8>(lines: &Lines, word: u32) {
    let line = &lines.array()[word as usize & (MOST_LINES as usize * LINE - 1)];
    if ASKS == FAR { prefetch_far(line) } else { prefetch(line) }
}

/// What the groups of a block have in common, whatever their addresses are looked up in first.
struct Groups {
    even: __m512i,
    odd: __m512i,
    lanes: __m512i,
}

/// The words of sixteen addresses, as they lie in memory.
type Words = [__m512i; 4];

impl Groups {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new() -> Groups {
        Groups {
            even: _mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0),
            odd: _mm512_set_epi64(15, 13, 11, 9, 7, 5, 3, 1),
            lanes: _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0),
        }
    }

    /// The addresses from one on, up to sixteen, zeros behind the last, and which there are.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn load(&self, addresses: &[u128], at: usize) -> (Words, __mmask16) {
        let here = (addresses.len() - at).min(LANES);
        let present = u32::MAX >> (2 * (LANES - here));
        let words = addresses[at..].as_ptr().cast::<i64>();
        let mut parts = [_mm512_setzero_si512(); 4];
        for (part, to) in parts.iter_mut().enumerate() {
            // SAFETY: the words of `here` addresses are read, no more.
            *to = unsafe { _mm512_maskz_loadu_epi64((present >> (8 * part)) as u8, words.wrapping_add(8 * part)) };
        }
        (parts, u16::MAX >> (LANES - here))
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn upper(&self, words: &Words) -> [__m512i; 2] {
        [
            _mm512_permutex2var_epi64(words[0], self.odd, words[1]),
            _mm512_permutex2var_epi64(words[2], self.odd, words[3]),
        ]
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn group(&self, words: &Words, at: usize) -> Group {
        let even = |pair: usize| _mm512_permutex2var_epi64(words[pair], self.even, words[pair + 1]);
        let lane = _mm512_add_epi32(self.lanes, number(at as u32));
        Group { upper: self.upper(words), lower: [even(0), even(2)], lane }
    }
}

/// Finds the entries of addresses in ranges, whether any of them leads to a line: an end of each level is compared, of
/// eight addresses at a time, all of them in registers.
#[target_feature(enable = "avx512f,avx512dq")]
fn in_ranges<const LEVELS: usize>(ranges: &Ranges, addresses: &[u128], entries: &mut [u32]) -> bool {
    let groups = Groups::new();
    let table = Registers::new(ranges);
    let mut under_way = 0;
    for at in (0..addresses.len()).step_by(LANES) {
        let (words, valid) = groups.load(addresses, at);
        let [low, high] = groups.upper(&words);
        let found = table.entries::<LEVELS>(table.find::<LEVELS>(low), table.find::<LEVELS>(high));
        // SAFETY: as many entries are stored as there are addresses.
        unsafe { _mm512_mask_storeu_epi32(entries[at..].as_mut_ptr().cast(), valid, found) };
        under_way |= _mm512_mask_cmpge_epu32_mask(valid, found, number(NODE));
    }
    under_way != 0
}

/// Ranges in registers.
struct Registers {
    /// The ends of the levels: one, two, four, eight, sixteen, and 32 of them.
    levels: [__m512i; 4],
    sixteen: [__m512i; 2],
    many: [__m512i; 4],
    entries: [__m512i; 4],
}

impl Registers {
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn new(ranges: &Ranges) -> Registers {
        const { assert!(ranges::MOST == 64) };
        let load = |at: usize| {
            let ends: &[u64; 8] = ranges.ends[at..].first_chunk().expect("eight from there on");
            // SAFETY: a load of 64 bytes from an array of 64 bytes.
            unsafe { _mm512_loadu_si512(ends.as_ptr().cast()) }
        };
        let entries = |at: usize| {
            let entries: &[u32; LANES] = ranges.entries[at..].first_chunk().expect("sixteen from there on");
            // SAFETY: as above.
            unsafe { _mm512_loadu_si512(entries.as_ptr().cast()) }
        };
        Registers {
            levels: [load(1), load(2), load(4), load(8)],
            sixteen: [load(16), load(24)],
            many: [load(32), load(40), load(48), load(56)],
            entries: [entries(0), entries(16), entries(32), entries(48)],
        }
    }

    /// The numbers of the ranges of eight upper halves.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn find<const LEVELS: usize>(&self, upper: __m512i) -> __m512i {
        let mut at = _mm512_setzero_si512();
        for level in 0..LEVELS {
            let ends = match level {
                0..4 => _mm512_permutexvar_epi64(at, self.levels[level]),
                4 => _mm512_permutex2var_epi64(self.sixteen[0], at, self.sixteen[1]),
                _ => {
                    let in_upper = _mm512_test_epi64_mask(at, _mm512_set1_epi64(16));
                    let lower = _mm512_permutex2var_epi64(self.many[0], at, self.many[1]);
                    let upper = _mm512_permutex2var_epi64(self.many[2], at, self.many[3]);
                    _mm512_mask_blend_epi64(in_upper, lower, upper)
                }
            };
            let above = _mm512_cmpgt_epu64_mask(upper, ends);
            let doubled = _mm512_add_epi64(at, at);
            at = _mm512_mask_add_epi64(doubled, above, doubled, _mm512_set1_epi64(1));
        }
        at
    }

    /// The entries of sixteen ranges, by eight and eight of their numbers.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    fn entries<const LEVELS: usize>(&self, low: __m512i, high: __m512i) -> __m512i {
        let low = _mm512_castsi256_si512(_mm512_cvtepi64_epi32(low));
        let at = _mm512_inserti64x4::<1>(low, _mm512_cvtepi64_epi32(high));
        let lower = _mm512_permutex2var_epi32(self.entries[0], at, self.entries[1]);
        if LEVELS < 6 {
            return lower;
        }
        let upper = _mm512_permutex2var_epi32(self.entries[2], at, self.entries[3]);
        _mm512_mask_blend_epi32(_mm512_test_epi32_mask(at, number(32)), lower, upper)
    }
}

/// Finds the entries with which addresses begin; whether any of them leads to a line.
#[target_feature(enable = "avx512f,avx512dq")]
fn begin(start: &Start, addresses: &[u128], entries: &mut [u32]) -> bool {
    match &start.ranges {
        Some(ranges) if ranges.levels <= 3 => in_ranges::<3>(ranges, addresses, entries),
        Some(ranges) if ranges.levels == 4 => in_ranges::<4>(ranges, addresses, entries),
        Some(ranges) if ranges.levels == 5 => in_ranges::<5>(ranges, addresses, entries),
        Some(ranges) => in_ranges::<6>(ranges, addresses, entries),
        None => {
            if let Some(slots) = find_slots(&start.root, addresses, entries) {
                entries.iter_mut().for_each(|entry| *entry = read_slot(slots, *entry));
                return true;
            }
            let entry = start.root.slots[0].load(Ordering::Acquire);
            entries.fill(entry);
            entry >= NODE
        }
    }
}

#[target_feature(enable = "avx512f,avx512dq,popcnt,bmi1,bmi2")]
pub(super) fn resolve(start: &Start, lines: &Lines, addresses: &[u128], leaves: &mut [u32]) {
    if !begin(start, addresses, leaves) {
        return;
    }
    match start.root.is_large() {
        false => follow::<NEVER>(lines, addresses, leaves),
        true if lines.are_far() => follow::<FAR>(lines, addresses, leaves),
        true => follow::<NEAR>(lines, addresses, leaves),
    }
}

/// Follows the entries that are there to leaves.
#[target_feature(enable = "avx512f,avx512dq,popcnt,bmi1,bmi2")]
fn follow<const ASKS: u8>(lines: &Lines, addresses: &[u128], leaves: &mut [u32]) {
    let mut all = UnderWay::new();
    let groups = Groups::new();
    for at in (0..addresses.len()).step_by(LANES) {
        let (words, valid) = groups.load(addresses, at);
        // SAFETY: as many leaves are read as there are addresses.
        let entries = unsafe { _mm512_maskz_loadu_epi32(valid, leaves[at..].as_ptr().cast()) };
        all.take::<ASKS>(lines, entries, valid, groups.group(&words, at));
    }
    let array = lines.array();
    let mut found = [0u32; PLACES];
    while all.count > 0 {
        all.close();
        let count = std::mem::take(&mut all.count);
        for (i, found) in found[..count].iter_mut().enumerate() {
            // SAFETY: so many were stored.
            let (key, line, ends, first, lane) = unsafe {
                (
                    read(&all.key, i),
                    read(&all.line, i) as usize,
                    read(&all.ends, i),
                    read(&all.first, i),
                    read(&all.lane, i) as usize,
                )
            };
            let words = array[line & (MOST_LINES as usize * LINE - LINE)..][..LINE].as_ptr();
            let smaller: i16;
            // SAFETY: reads the words of one line. In assembly, because other words of it may be stored to
            // meanwhile: what is read of those is not used.
            unsafe {
                asm!("vpcmpud {smaller}, {key}, zmmword ptr [{words}], 6", smaller = out(kreg) smaller,
                    key = in(zmm_reg) number(key), words = in(reg) words,
                    options(nostack, preserves_flags, readonly, pure));
            }
            let ranges = (u32::from(smaller.cast_unsigned()) & ends).count_ones();
            let word = (first + ranges) as usize & (MOST_LINES as usize * LINE - 1);
            let entry = array[word].load(Ordering::Acquire);
            *found = entry;
            leaves[lane] = entry;
        }
        // Not group by group with the above: what was just stored one by one cannot be read as a whole at once.
        for at in (0..count).step_by(LANES) {
            // SAFETY: whole groups lie in the columns, and were stored; what is behind `count` is not used.
            let group = unsafe {
                let pair = |column: &[MaybeUninit<u64>; PLACES]| {
                    let from = column.as_ptr().add(at);
                    [_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add(8).cast())]
                };
                let lane = _mm512_loadu_si512(all.lane.as_ptr().add(at).cast());
                Group { upper: pair(&all.upper), lower: pair(&all.lower), lane }
            };
            // SAFETY: sixteen words of a column.
            let entries = unsafe { _mm512_loadu_si512(found.as_ptr().add(at).cast()) };
            // Stored in front of what is read next: no more are left than were there.
            all.take::<ASKS>(lines, entries, u16::MAX >> (LANES - (count - at).min(LANES)), group);
        }
    }
}

/// # Safety
/// That place was stored.
#[inline(always)]
unsafe fn read(column: &[MaybeUninit<u32>; PLACES], at: usize) -> u32 {
    // SAFETY: given by the caller.
    unsafe { column[at].assume_init() }
}
