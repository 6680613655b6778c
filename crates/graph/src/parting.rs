//! How a vector is taken apart: masks of packets, and columns compressed by mask.
#![allow(unsafe_code)]

use wire::batch::Simd;

/// Most packets in a vector.
pub const VECTOR_SIZE: usize = 256;

/// A set of packets of a vector.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Mask(pub [u64; VECTOR_SIZE / 64]);

impl Mask {
    pub fn first(n: usize) -> Mask {
        Mask(std::array::from_fn(|word| match n.saturating_sub(word * 64) {
            0 => 0,
            bits if bits >= 64 => u64::MAX,
            bits => (1 << bits) - 1,
        }))
    }
    pub fn count(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
    pub fn lowest(&self) -> Option<usize> {
        let word = self.0.iter().position(|&word| word != 0)?;
        Some(word * 64 + self.0[word].trailing_zeros() as usize)
    }
    pub fn remove(&mut self, other: &Mask) {
        for (word, other) in self.0.iter_mut().zip(&other.0) {
            *word &= !other;
        }
    }
    pub fn positions(&self) -> impl Iterator<Item = usize> {
        let words = self.0;
        (0..words.len()).flat_map(move |word| {
            let mut bits = words[word];
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros() as usize)?;
                bits &= bits - 1;
                Some(word * 64 + bit)
            })
        })
    }
    /// Takes the first `n` members off and gives them.
    pub fn take_first(&mut self, n: usize) -> Mask {
        if self.count() <= n {
            return std::mem::take(self);
        }
        let mut taken = Mask::default();
        for i in self.positions().take(n) {
            taken.0[i / 64] |= 1 << (i % 64);
        }
        self.remove(&taken);
        taken
    }
}

/// A bit for each entry that equals `value`.
pub(crate) fn equal_mask(column: &[u16; VECTOR_SIZE], value: u16) -> [u64; VECTOR_SIZE / 64] {
    #[cfg(target_arch = "x86_64")]
    if Simd::detected() == Simd::Avx512 {
        // SAFETY: detected.
        return unsafe { equal_mask_avx512(column, value) };
    }
    std::array::from_fn(|word| {
        let block = &column[word * 64..word * 64 + 64];
        block.iter().enumerate().fold(0, |bits, (i, &entry)| bits | ((entry == value) as u64) << i)
    })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
fn equal_mask_avx512(column: &[u16; VECTOR_SIZE], value: u16) -> [u64; VECTOR_SIZE / 64] {
    use std::arch::x86_64::*;
    let wanted = _mm512_set1_epi16(value as i16);
    std::array::from_fn(|word| {
        // SAFETY: 64 entries from `word * 64` are in the column.
        let half = |at: usize| unsafe { _mm512_loadu_si512(column.as_ptr().add(word * 64 + at).cast()) };
        let low = _mm512_cmpeq_epi16_mask(half(0), wanted) as u64;
        low | (_mm512_cmpeq_epi16_mask(half(32), wanted) as u64) << 32
    })
}

/// Where the columns begin that travel with packets: four of 32 bits and three of 16.
#[derive(Clone, Copy)]
pub(crate) struct Places {
    pub words: [*mut u32; 4],
    pub halves: [*mut u16; 3],
}

/// In which columns all packets of a vector are alike, a bit each in the order of [`Places`]: known once, such
/// columns are not looked at again for each part, only filled. Most packets of a vector came in by one interface,
/// with headers of one length at one place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Alike(u8);

impl Alike {
    pub fn new(words: [bool; 4], halves: [bool; 3]) -> Alike {
        let bits = words.into_iter().chain(halves).enumerate();
        Alike(bits.fold(0, |all, (at, is_alike)| all | (is_alike as u8) << at))
    }
    fn words(self) -> [bool; 4] {
        std::array::from_fn(|at| self.0 >> at & 1 != 0)
    }
    fn halves(self) -> [bool; 3] {
        std::array::from_fn(|at| self.0 >> (at + 4) & 1 != 0)
    }
}

/// Whether all entries of a column are equal.
pub(crate) fn are_same<T: Copy + PartialEq>(column: &[T]) -> bool {
    let (Some(first), Some(last)) = (column.first(), column.last()) else { return true };
    if first != last {
        return false;
    }
    #[cfg(target_arch = "x86_64")]
    if Simd::detected() == Simd::Avx512 {
        // SAFETY: detected.
        return unsafe { are_same_avx512(column, *first) };
    }
    are_all(column, *first)
}

#[inline(always)]
fn are_all<T: Copy + PartialEq>(column: &[T], value: T) -> bool {
    column.iter().fold(true, |same, entry| same & (*entry == value))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn are_same_avx512<T: Copy + PartialEq>(column: &[T], value: T) -> bool {
    are_all(column, value)
}

/// Entries behind the last that [`compress`] may write.
pub(crate) const SURPLUS: usize = 32;
/// Below this many packets copying one by one beats compressing blocks, of which most would be empty.
const FEW: usize = 32;

/// Copies the entries of `mask`, which has `count` members, from all columns, closing the gaps; of columns that `alike`
/// names the first entry stands for all.
///
/// # Safety
/// [`VECTOR_SIZE`] entries can be read at each place in `from`, and `count` + [`SURPLUS`] be written at each in `to`,
/// which are the same or do not overlap.
pub(crate) unsafe fn compress(from: &Places, mask: &Mask, count: usize, alike: Alike, to: &Places) {
    // SAFETY: the caller's.
    unsafe { compress_with(Simd::detected(), from, mask, count, alike, to) };
}

/// # Safety
/// As [`compress`]; the processor has the instructions.
unsafe fn compress_with(simd: Simd, from: &Places, mask: &Mask, count: usize, alike: Alike, to: &Places) {
    #[cfg(target_arch = "x86_64")]
    if count > FEW && simd == Simd::Avx512 {
        // SAFETY: the caller's.
        return unsafe { compress_avx512(from, mask, count, alike, to) };
    }
    let mut members = [0; VECTOR_SIZE];
    members.iter_mut().zip(mask.positions()).for_each(|(member, at)| *member = at as u8);
    let members = &members[..count];
    // SAFETY: the caller's.
    unsafe {
        for ((from, to), alike) in from.words.iter().zip(&to.words).zip(alike.words()) {
            gather(*from, members, alike, *to);
        }
        for ((from, to), alike) in from.halves.iter().zip(&to.halves).zip(alike.halves()) {
            gather(*from, members, alike, *to);
        }
    }
}

/// # Safety
/// As [`compress`], of one column.
#[inline(always)]
unsafe fn gather<T: Copy>(from: *const T, members: &[u8], alike: bool, to: *mut T) {
    // SAFETY: in bounds by contract. Where both are one, members only move forward.
    unsafe {
        if alike {
            let value = *from;
            (0..members.len()).for_each(|at| *to.add(at) = value);
        } else {
            members.iter().enumerate().for_each(|(at, member)| *to.add(at) = *from.add(usize::from(*member)));
        }
    }
}

/// # Safety
/// As [`compress`], on a processor that has these instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "popcnt,avx512f,avx512bw,avx512vbmi2")]
unsafe fn compress_avx512(from: &Places, mask: &Mask, count: usize, alike: Alike, to: &Places) {
    use std::arch::x86_64::*;
    // Of each block of 32 packets the members, and how many there are before them.
    let lanes: [u32; BLOCKS] = std::array::from_fn(|block| (mask.0[block / 2] >> (block % 2 * 32)) as u32);
    let mut before = [0; BLOCKS];
    for block in 1..BLOCKS {
        before[block] = before[block - 1] + lanes[block - 1].count_ones() as usize;
    }
    // SAFETY: in bounds by contract. A register compress and a whole store beat the
    // compressing store on Zen 4 and 5 by far; the surplus lands where later members
    // go, or behind the last. Where both places are one, members only move forward: a
    // store never reaches beyond the block that was loaded just before it.
    unsafe {
        for ((&from, &to), alike) in from.words.iter().zip(&to.words).zip(alike.words()) {
            if alike {
                if from != to {
                    let value = _mm512_set1_epi32((*from).cast_signed());
                    (0..count).step_by(16).for_each(|at| _mm512_storeu_si512(to.add(at).cast(), value));
                }
                continue;
            }
            for (block, (&lanes, &out)) in lanes.iter().zip(&before).enumerate().filter(|(_, (lanes, _))| **lanes != 0)
            {
                let (low, high) = (lanes as u16, (lanes >> 16) as u16);
                let value = _mm512_loadu_si512(from.add(block * 32).cast());
                _mm512_storeu_si512(to.add(out).cast(), _mm512_maskz_compress_epi32(low, value));
                let value = _mm512_loadu_si512(from.add(block * 32 + 16).cast());
                let out = out + low.count_ones() as usize;
                _mm512_storeu_si512(to.add(out).cast(), _mm512_maskz_compress_epi32(high, value));
            }
        }
        for ((&from, &to), alike) in from.halves.iter().zip(&to.halves).zip(alike.halves()) {
            if alike {
                if from != to {
                    let value = _mm512_set1_epi16((*from).cast_signed());
                    (0..count).step_by(32).for_each(|at| _mm512_storeu_si512(to.add(at).cast(), value));
                }
                continue;
            }
            for (block, (&lanes, &out)) in lanes.iter().zip(&before).enumerate().filter(|(_, (lanes, _))| **lanes != 0)
            {
                let value = _mm512_loadu_si512(from.add(block * 32).cast());
                _mm512_storeu_si512(to.add(out).cast(), _mm512_maskz_compress_epi16(lanes, value));
            }
        }
    }
}

/// Blocks of 32 packets in a vector.
#[cfg(target_arch = "x86_64")]
const BLOCKS: usize = VECTOR_SIZE / 32;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ENTRIES: usize = VECTOR_SIZE + SURPLUS;

    #[derive(Clone, PartialEq, Debug)]
    struct Columns {
        words: [[u32; ENTRIES]; 4],
        halves: [[u16; ENTRIES]; 3],
    }

    impl Columns {
        /// Each entry another, but in columns that are to be alike.
        fn numbered((words, halves): ([bool; 4], [bool; 3])) -> Columns {
            let entry = |column: usize, at: usize, alike: bool| column * 1000 + if alike { 0 } else { at };
            Columns {
                words: std::array::from_fn(|column| std::array::from_fn(|at| entry(column, at, words[column]) as u32)),
                halves: std::array::from_fn(|column| {
                    std::array::from_fn(|at| entry(column + 4, at, halves[column]) as u16)
                }),
            }
        }
        fn places(&mut self, at: usize) -> Places {
            Places {
                words: self.words.each_mut().map(|column| column[at..].as_mut_ptr()),
                halves: self.halves.each_mut().map(|column| column[at..].as_mut_ptr()),
            }
        }
        /// The entries of a mask and nothing behind them.
        fn of(&self, mask: &Mask, at: usize) -> (Vec<[u32; 4]>, Vec<[u16; 3]>) {
            let members = || (at..).zip(mask.positions()).map(|(at, _)| at);
            (
                members().map(|at| self.words.map(|column| column[at])).collect(),
                members().map(|at| self.halves.map(|column| column[at])).collect(),
            )
        }
    }

    proptest! {
        #[test]
        fn instruction_sets_compress_alike_elsewhere_and_in_place(
            words in any::<[u64; 4]>(),
            sparse in any::<[u64; 4]>(),
            at in 0..200usize,
            alike in any::<([bool; 4], [bool; 3])>(),
        ) {
            let thin = Mask(std::array::from_fn(|word| words[word] & sparse[word]));
            for mut mask in [Mask(words), thin, Mask(words.map(|word| word | sparse[0]))] {
                let mask = mask.take_first(VECTOR_SIZE - at);
                let numbered = Columns::numbered(alike);
                let alike = Alike::new(alike.0, alike.1);
                let expected = {
                    let members: Vec<usize> = mask.positions().collect();
                    let words: Vec<_> = members.iter().map(|at| numbered.words.map(|column| column[*at])).collect();
                    let halves: Vec<_> = members.iter().map(|at| numbered.halves.map(|column| column[*at])).collect();
                    (words, halves)
                };
                for simd in [Simd::Scalar, Simd::Avx512].into_iter().filter(|simd| simd.is_available()) {
                    let mut from = numbered.clone();
                    let mut to = Columns { words: [[7; ENTRIES]; 4], halves: [[7; ENTRIES]; 3] };
                    // SAFETY: columns of so many entries, of which those from `at` on have room for all members.
                    unsafe { compress_with(simd, &from.places(0), &mask, mask.count(), alike, &to.places(at)) };
                    prop_assert_eq!(&to.of(&mask, at), &expected);
                    prop_assert!(to.words.iter().all(|column| column[..at].iter().all(|word| *word == 7)));
                    prop_assert_eq!(&from, &numbered);
                    let place = from.places(0);
                    // SAFETY: as above, in one place.
                    unsafe { compress_with(simd, &place, &mask, mask.count(), alike, &place) };
                    prop_assert_eq!(&from.of(&mask, 0), &expected);
                }
            }
        }

        #[test]
        fn a_column_is_the_same_when_no_entry_differs(value: u16, other: u16, n in 0..=VECTOR_SIZE,
            at: prop::sample::Index) {
            let mut column = vec![value; n];
            prop_assert!(are_same(&column));
            if n > 1 {
                column[at.index(n)] = other;
                prop_assert_eq!(are_same(&column), value == other);
            }
        }
    }
}
