//! One address at a time, the words of its line compared by vectors.

use super::*;
use std::arch::asm;
use std::arch::x86_64::*;

#[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
pub(super) fn resolve(start: &Start, lines: &Lines, addresses: &[u128], leaves: &mut [u32]) {
    let sign = _mm256_set1_epi32(i32::MIN);
    walk(start, lines, addresses, leaves, |entry, address| {
        let place = Place::of(entry, address);
        let wanted = _mm256_xor_si256(_mm256_set1_epi32(place.key.cast_signed()), sign);
        let smaller = |at: usize| {
            let at = lines.array()[place.word + at..][..LINE / 2].as_ptr();
            let ends: __m256i;
            // SAFETY: as in `avx512`, of half a line.
            unsafe {
                asm!("vmovdqu {ends}, [{at}]", ends = out(ymm_reg) ends, at = in(reg) at,
                    options(nostack, preserves_flags, readonly, pure));
            }
            let greater = _mm256_cmpgt_epi32(wanted, _mm256_xor_si256(ends, sign));
            _mm256_movemask_ps(_mm256_castsi256_ps(greater)) as u32
        };
        place.pick(lines, smaller(0) | smaller(8) << 8)
    });
}

/// Where a step reads, and how it finds the word that counts: by the ends that are less than the key, or by the key's
/// upper bits, with no branch.
struct Place {
    key: u32,
    how: How,
    /// The first of the line.
    word: usize,
}

impl Place {
    #[inline(always)]
    fn of(entry: u32, address: u128) -> Place {
        let key = key_at(address, entry >> DEPTH_SHIFT);
        let how = HOW[(entry >> KIND_SHIFT & 3) as usize];
        let line = (entry & (MOST_LINES - 1)) + (key >> 28 & u32::from(how.lines));
        Place { key, how, word: (line & (MOST_LINES - 1)) as usize * LINE }
    }

    /// The word, when of those of the line the ones that are less than the key have a bit in `smaller`.
    #[inline(always)]
    fn pick(&self, lines: &Lines, smaller: u32) -> u32 {
        let Place { key, how, word } = *self;
        let direct = (u64::from(key) >> how.shift) as usize & (LINE - 1);
        let at = (smaller & u32::from(how.ends)).count_ones() as usize + usize::from(how.values) + direct;
        lines.array()[(word + at) & (MOST_LINES as usize * LINE - 1)].load(Ordering::Acquire)
    }
}

#[derive(Clone, Copy)]
struct How {
    /// Bits of the words that are ends.
    ends: u16,
    values: u8,
    shift: u8,
    /// Bits of the key that choose among lines.
    lines: u8,
}

const HOW: [How; 4] = [
    How { ends: 0x7f, values: 8, shift: 32, lines: 0 },
    How { ends: 0x7fff, values: 16, shift: 32, lines: 0 },
    How { ends: 0, values: 0, shift: 28, lines: 0 },
    How { ends: 0, values: 0, shift: 24, lines: 0xf },
];
