//! Eight addresses at a time: where each looks next is worked out for all of them together, and only the look itself, a
//! comparison with one line, is each one's own. Those that are not done are kept side by side. As `avx512`, with two
//! compares a line in place of one, and by tables what masks do there.

use super::*;
use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

const LANES: usize = 8;
/// Groups are stored whole, the last one too.
const PLACES: usize = BLOCK + LANES;

/// Addresses under way: a column of each thing there is to know.
struct UnderWay {
    lane: [MaybeUninit<u32>; PLACES],
    /// The 32 bits that are compared.
    key: [MaybeUninit<u32>; PLACES],
    /// The first word of the line that they are compared with.
    line: [MaybeUninit<u32>; PLACES],
    /// Which words of it are ends of ranges: two bits each, in the order of [`smaller`].
    ends: [MaybeUninit<u32>; PLACES],
    /// The word of the first range's value, or the word that counts.
    first: [MaybeUninit<u32>; PLACES],
    count: usize,
}

/// By kind, of which only the lower three bits count: the words that are ends, the word of the first value, by how many
/// bits the key is moved for the word that counts, and its bits that choose among lines.
struct Kinds {
    ends: __m256i,
    values: __m256i,
    shift: __m256i,
    lines: __m256i,
}

impl Kinds {
    #[inline]
    #[target_feature(enable = "avx2")]
    fn new() -> Kinds {
        Kinds {
            ends: _mm256_setr_epi32(0, 0, 0, 0, 0x003f_00ff, 0x3fff_ffff, 0, 0),
            values: _mm256_setr_epi32(0, 0, 0, 0, 8, 16, 0, 0),
            shift: _mm256_setr_epi32(0, 0, 0, 0, 32, 32, 28, 24),
            lines: _mm256_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0xf),
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn number(value: u32) -> __m256i {
    _mm256_set1_epi32(value.cast_signed())
}

impl UnderWay {
    fn new() -> UnderWay {
        const NONE: MaybeUninit<u32> = MaybeUninit::uninit();
        UnderWay {
            lane: [NONE; PLACES],
            key: [NONE; PLACES],
            line: [NONE; PLACES],
            ends: [NONE; PLACES],
            first: [NONE; PLACES],
            count: 0,
        }
    }

    /// Takes of `here` addresses, one to eight, those whose entries lead to lines, and asks for these.
    ///
    /// # Safety
    /// All eight lanes are less than the number of addresses. Of a block, no address is under way twice.
    #[inline]
    #[target_feature(enable = "avx2,popcnt")]
    unsafe fn take(
        &mut self,
        (lines, kinds): (&Lines, &Kinds),
        (entries, lanes): (__m256i, [u32; LANES]),
        here: usize,
        addresses: &[u128],
    ) {
        let kind = _mm256_srli_epi32::<{ KIND_SHIFT as i32 }>(entries);
        let leads = _mm256_cmpgt_epi32(kind, number((NODE >> KIND_SHIFT) - 1));
        let leads = _mm256_movemask_ps(_mm256_castsi256_ps(leads)).cast_unsigned() & (0xff >> (LANES - here));
        if leads == 0 {
            return;
        }
        // SAFETY: an address of each lane.
        let address = |i: usize| unsafe { _mm_loadu_si128(addresses.as_ptr().add(lanes[i] as usize).cast()) };
        let pair = |i: usize| _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(address(i)), address(i + 2));
        let depth = _mm256_and_si256(_mm256_srli_epi32::<{ DEPTH_SHIFT as i32 }>(entries), number(0x7f));
        let in_lower = _mm256_cmpgt_epi32(depth, number(u32::from(HALF) - 1));
        let shift = _mm256_and_si256(depth, number(63));
        // The half in which the depth is, moved to its upper end.
        let moved = |at: usize, in_lower: __m128i, shift: __m128i| {
            let (even, odd) = (pair(at), pair(at + 1));
            let (lower, upper) = (_mm256_unpacklo_epi64(even, odd), _mm256_unpackhi_epi64(even, odd));
            let half = _mm256_blendv_epi8(upper, lower, _mm256_cvtepi32_epi64(in_lower));
            _mm256_castsi256_ps(_mm256_sllv_epi64(half, _mm256_cvtepu32_epi64(shift)))
        };
        let low = moved(0, _mm256_castsi256_si128(in_lower), _mm256_castsi256_si128(shift));
        let high = moved(4, _mm256_extracti128_si256::<1>(in_lower), _mm256_extracti128_si256::<1>(shift));
        // The upper words, of which the two registers' parts take turns.
        let keys = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(low, high));
        let key = _mm256_permute4x64_epi64::<0b11_01_10_00>(keys);

        let of_kind = |table: __m256i| _mm256_permutevar8x32_epi32(table, kind);
        let sixteenth = _mm256_and_si256(_mm256_srli_epi32::<28>(key), of_kind(kinds.lines));
        let line = _mm256_add_epi32(_mm256_and_si256(entries, number(MOST_LINES - 1)), sixteenth);
        let line = _mm256_slli_epi32::<4>(line);
        let direct = _mm256_and_si256(_mm256_srlv_epi32(key, of_kind(kinds.shift)), number(LINE as u32 - 1));
        let first = _mm256_add_epi32(line, _mm256_add_epi32(of_kind(kinds.values), direct));
        // SAFETY: a load of 32 bytes from an array of as many.
        let lanes = unsafe { _mm256_loadu_si256(lanes.as_ptr().cast()) };
        let members = _mm256_cvtepu8_epi32(_mm_cvtsi64_si128(MEMBERS[leads as usize].cast_signed()));
        let words = [
            (&mut self.lane, lanes),
            (&mut self.key, key),
            (&mut self.line, line),
            (&mut self.ends, of_kind(kinds.ends)),
            (&mut self.first, first),
        ];
        let count = self.count;
        for (column, values) in words {
            // SAFETY: a group behind `count`, which is at most BLOCK: all lanes of a block were counted at most once.
            unsafe {
                let to = column.as_mut_ptr().add(count);
                _mm256_storeu_si256(to.cast(), _mm256_permutevar8x32_epi32(values, members));
            }
        }
        self.count = count + leads.count_ones() as usize;
        // The values of sixteen ranges are in the line behind: two at once, and not one after the other.
        for at in count..self.count {
            // SAFETY: just stored.
            let words = unsafe { [read(&self.line, at), read(&self.first, at)] };
            words.into_iter().for_each(|word| prefetch(&lines.array()[within(word)]));
        }
    }
}

/// # Safety
/// The place was written.
#[inline(always)]
unsafe fn read(column: &[MaybeUninit<u32>; PLACES], at: usize) -> u32 {
    // SAFETY: by contract.
    unsafe { column[at].assume_init() }
}

#[inline(always)]
fn within(word: u32) -> usize {
    word as usize & (MOST_LINES as usize * LINE - 1)
}

#[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
pub(super) fn resolve(start: &Start, lines: &Lines, addresses: &[u128], leaves: &mut [u32]) {
    let mut lead = 0;
    if let Some(ranges) = &start.ranges {
        for (address, leaf) in addresses.iter().zip(&mut *leaves) {
            *leaf = ranges.find((address >> 64) as u64);
            lead |= u32::from(*leaf >= NODE);
        }
    } else if let Some(slots) = find_slots(&start.root, addresses, leaves) {
        for leaf in &mut *leaves {
            *leaf = read_slot(slots, *leaf);
            lead |= u32::from(*leaf >= NODE);
        }
    } else {
        let entry = start.root.slots[0].load(Ordering::Acquire);
        leaves.fill(entry);
        lead = u32::from(entry >= NODE);
    }
    if lead != 0 {
        follow(lines, addresses, leaves);
    }
}

/// Follows the entries of a block, some of which lead to lines, to their leaves.
#[inline]
#[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
fn follow(lines: &Lines, addresses: &[u128], leaves: &mut [u32]) {
    let kinds = Kinds::new();
    let mut now = UnderWay::new();
    for (group, some) in leaves.chunks(LANES).enumerate() {
        let mut entries = [0; LANES];
        entries[..some.len()].copy_from_slice(some);
        // Those behind the last are not taken; they read the first address.
        let lanes = std::array::from_fn(|i| if i < some.len() { (group * LANES + i) as u32 } else { 0 });
        // SAFETY: a load of 32 bytes from an array of as many; the lanes are those of addresses.
        unsafe {
            let entries = _mm256_loadu_si256(entries.as_ptr().cast());
            now.take((lines, &kinds), (entries, lanes), some.len(), addresses);
        }
    }
    let mut found = [0; PLACES];
    while now.count > 0 {
        let count = now.count;
        for (at, found) in found[..count].iter_mut().enumerate() {
            // SAFETY: those before `count` were written.
            let [lane, key, line, ends, first] =
                unsafe { [&now.lane, &now.key, &now.line, &now.ends, &now.first].map(|column| read(column, at)) };
            let smaller = smaller(lines, line, key);
            let word = within((smaller & ends).count_ones() / 2 + first);
            *found = lines.array()[word].load(Ordering::Acquire);
            leaves[lane as usize] = *found;
        }
        now.count = 0;
        for at in (0..count).step_by(LANES) {
            let here = (count - at).min(LANES);
            // SAFETY: those before `count` were written; the others are replaced by lane 0.
            let lanes = std::array::from_fn(|i| if i < here { unsafe { read(&now.lane, at + i) } } else { 0 });
            // SAFETY: eight from `at` on, below PLACES; the lanes are those of addresses.
            unsafe {
                let entries = _mm256_loadu_si256(found[at..at + LANES].as_ptr().cast());
                now.take((lines, &kinds), (entries, lanes), here, addresses);
            }
        }
    }
}

/// Which words of a line are less than the key: two bits each, those of the words 0..4, 8..12, 4..8 and 12..16.
#[inline]
#[target_feature(enable = "avx2")]
fn smaller(lines: &Lines, line: u32, key: u32) -> u32 {
    let key = number(key);
    let reach = |at: usize| {
        let at = lines.array()[within(line) & !(LINE - 1)..][at..at + LINE / 2].as_ptr();
        let ends: __m256i;
        // SAFETY: as in `avx512`, of half a line.
        unsafe {
            asm!("vmovdqu {ends}, [{at}]", ends = out(ymm_reg) ends, at = in(reg) at,
                options(nostack, preserves_flags, readonly, pure));
        }
        // Not less is what stays the larger one.
        _mm256_cmpeq_epi32(_mm256_max_epu32(ends, key), ends)
    };
    !_mm256_movemask_epi8(_mm256_packs_epi32(reach(0), reach(8))).cast_unsigned()
}

/// Of each set of 8 its members, in order, a byte each from the lowest on; the bytes behind them are zero.
static MEMBERS: [u64; 256] = {
    let mut all = [0; 256];
    let mut set = 0;
    while set < all.len() {
        let (mut found, mut member) = (0, 0);
        while member < 8 {
            if set >> member & 1 != 0 {
                all[set] |= member << (8 * found);
                found += 1;
            }
            member += 1;
        }
        set += 1;
    }
    all
};
