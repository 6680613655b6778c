//! How a vector is taken apart: masks of packets, and columns compressed by mask.
#![allow(unsafe_code)]

use crate::vector::LAZY;
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
    #[inline(always)]
    pub fn has(&self, i: usize) -> bool {
        self.0[i / 64] >> (i % 64) & 1 != 0
    }
    #[inline(always)]
    pub fn set(&mut self, i: usize, is_member: bool) {
        let word = &mut self.0[i / 64];
        *word = *word & !(1 << (i % 64)) | u64::from(is_member) << (i % 64);
    }
    /// Takes `n` packets off, from one on.
    pub fn clear_range(&mut self, from: usize, n: usize) {
        let (before, up_to) = (Mask::first(from), Mask::first(from + n));
        self.0.iter_mut().enumerate().for_each(|(at, word)| *word &= before.0[at] | !up_to.0[at]);
    }
    pub fn or(&self, other: &Mask) -> Mask {
        Mask(std::array::from_fn(|word| self.0[word] | other.0[word]))
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

/// A bit for each entry that equals `value`, of the first `count` or some more.
pub(crate) fn equal_mask(column: &[u16; VECTOR_SIZE], count: usize, value: u16) -> [u64; VECTOR_SIZE / 64] {
    // SAFETY: detected.
    unsafe { equal_mask_with(Simd::detected(), column, count, value) }
}

/// # Safety
/// The processor has the instructions.
unsafe fn equal_mask_with(
    simd: Simd,
    column: &[u16; VECTOR_SIZE],
    count: usize,
    value: u16,
) -> [u64; VECTOR_SIZE / 64] {
    match simd {
        // SAFETY: by contract.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512 => unsafe { equal_mask_avx512(column, count, value) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Simd::Avx2 => unsafe { equal_mask_avx2(column, count, value) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Simd::Sse42 => unsafe { equal_mask_sse42(column, count, value) },
        _ => words_up_to(count, |word| {
            let block = &column[word * 64..word * 64 + 64];
            block.iter().enumerate().fold(0, |bits, (i, &entry)| bits | ((entry == value) as u64) << i)
        }),
    }
}

/// The words of a mask in which there are packets, of so many; the others are zero.
#[inline(always)]
fn words_up_to(count: usize, word: impl Fn(usize) -> u64) -> [u64; VECTOR_SIZE / 64] {
    let mut words = [0; VECTOR_SIZE / 64];
    words.iter_mut().enumerate().take(count.div_ceil(64)).for_each(|(at, bits)| *bits = word(at));
    words
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn equal_mask_avx2(column: &[u16; VECTOR_SIZE], count: usize, value: u16) -> [u64; VECTOR_SIZE / 64] {
    use std::arch::x86_64::*;
    let wanted = _mm256_set1_epi16(value as i16);
    // 32 entries: a byte each, of which the packing takes turns between the halves of both registers.
    let bits = |at: usize| {
        // SAFETY: 16 entries from `at` are in the column, whose length is a multiple of 32.
        let equal =
            |at: usize| unsafe { _mm256_cmpeq_epi16(_mm256_loadu_si256(column.as_ptr().add(at).cast()), wanted) };
        let bytes = _mm256_packs_epi16(equal(at), equal(at + 16));
        _mm256_movemask_epi8(_mm256_permute4x64_epi64::<0b11_01_10_00>(bytes)) as u32
    };
    words_up_to(count, |word| u64::from(bits(word * 64)) | u64::from(bits(word * 64 + 32)) << 32)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn equal_mask_sse42(column: &[u16; VECTOR_SIZE], count: usize, value: u16) -> [u64; VECTOR_SIZE / 64] {
    use std::arch::x86_64::*;
    let wanted = _mm_set1_epi16(value as i16);
    let bits = |at: usize| {
        // SAFETY: 8 entries from `at` are in the column, whose length is a multiple of 16.
        let equal = |at: usize| unsafe { _mm_cmpeq_epi16(_mm_loadu_si128(column.as_ptr().add(at).cast()), wanted) };
        _mm_movemask_epi8(_mm_packs_epi16(equal(at), equal(at + 8))) as u16
    };
    words_up_to(count, |word| (0..4).fold(0, |all, part| all | u64::from(bits(word * 64 + part * 16)) << (part * 16)))
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw")]
fn equal_mask_avx512(column: &[u16; VECTOR_SIZE], count: usize, value: u16) -> [u64; VECTOR_SIZE / 64] {
    use std::arch::x86_64::*;
    let wanted = _mm512_set1_epi16(value as i16);
    words_up_to(count, |word| {
        // SAFETY: 64 entries from `word * 64` are in the column.
        let half = |at: usize| unsafe { _mm512_loadu_si512(column.as_ptr().add(word * 64 + at).cast()) };
        let low = _mm512_cmpeq_epi16_mask(half(0), wanted) as u64;
        low | (_mm512_cmpeq_epi16_mask(half(32), wanted) as u64) << 32
    })
}

/// Columns of 32 bits that travel with packets, and of 16. Of the first the last ones are lazy.
pub(crate) const WORDS: usize = EAGER + LAZY;
pub(crate) const HALVES: usize = 3;
const EAGER: usize = 4;

/// Where the columns begin that travel with packets.
#[derive(Clone, Copy)]
pub(crate) struct Places {
    pub words: [*mut u32; WORDS],
    pub halves: [*mut u16; HALVES],
}

/// In which columns all packets of a vector are alike, a bit each in the order of [`Places`]: known once, such
/// columns are not looked at again for each part, only filled. Most packets of a vector came in by one interface,
/// with headers of one length at one place.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Alike {
    words: u8,
    halves: u8,
    /// The words that are there at all.
    live: u8,
}

impl Alike {
    /// `live`: a bit for each lazy column that is written.
    pub fn new(words: [bool; WORDS], halves: [bool; HALVES], live: u8) -> Alike {
        let bits = |all: &[bool]| all.iter().enumerate().fold(0, |bits, (at, is)| bits | u8::from(*is) << at);
        Alike { words: bits(&words), halves: bits(&halves), live: live << EAGER | ((1 << EAGER) - 1) }
    }
    /// The words that travel, with whether all are alike.
    #[inline(always)]
    fn words<'a>(self, from: &'a Places, to: &'a Places) -> impl Iterator<Item = (*mut u32, *mut u32, bool)> + 'a {
        let most = if self.live >> EAGER == 0 { EAGER } else { WORDS };
        let of = move |at: usize| (from.words[at], to.words[at], self.words >> at & 1 != 0);
        (0..most).filter(move |at| self.live >> at & 1 != 0).map(of)
    }
    #[inline(always)]
    fn halves<'a>(self, from: &'a Places, to: &'a Places) -> impl Iterator<Item = (*mut u16, *mut u16, bool)> + 'a {
        (0..HALVES).map(move |at| (from.halves[at], to.halves[at], self.halves >> at & 1 != 0))
    }
}

/// Whether all entries of a column are equal.
pub(crate) fn are_same<T: Copy + PartialEq>(column: &[T]) -> bool {
    let (Some(first), Some(last)) = (column.first(), column.last()) else { return true };
    if first != last {
        return false;
    }
    match Simd::detected() {
        // SAFETY: detected.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx512 => unsafe { are_same_avx512(column, *first) },
        // SAFETY: detected.
        #[cfg(target_arch = "x86_64")]
        Simd::Avx2 => unsafe { are_same_avx2(column, *first) },
        _ => are_all(column, *first),
    }
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

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn are_same_avx2<T: Copy + PartialEq>(column: &[T], value: T) -> bool {
    are_all(column, value)
}

/// Entries behind the last that [`compress`] may write.
pub(crate) const SURPLUS: usize = 32;
/// Up to this many packets copying one by one beats compressing blocks, of which most would be empty.
const FEW: usize = 32;

/// Of each set of 8 packets its members, in order, a byte each from the lowest on; the bytes behind them are zero.
static MEMBERS: [u64; 256] = {
    let mut all = [0; 256];
    let mut set = 0;
    while set < all.len() {
        let (mut found, mut packet) = (0, 0);
        while packet < 8 {
            if set >> packet & 1 != 0 {
                all[set] |= packet << (8 * found);
                found += 1;
            }
            packet += 1;
        }
        set += 1;
    }
    all
};

/// The members of a mask in order.
///
/// A set of 8 packets at a time: as many bytes are written for each, and those behind its members are overwritten by
/// the next.
fn members(mask: &Mask) -> [u8; VECTOR_SIZE + 8] {
    let mut members = [0; VECTOR_SIZE + 8];
    let mut before = 0;
    for (word, &bits) in mask.0.iter().enumerate() {
        if bits == 0 {
            continue;
        }
        for (part, set) in bits.to_le_bytes().into_iter().enumerate() {
            let first = (word * 64 + part * 8) as u64;
            // No byte overflows: the last packet is 255.
            let some = MEMBERS[usize::from(set)] + first * 0x0101_0101_0101_0101;
            members[before..before + 8].copy_from_slice(&some.to_le_bytes());
            before += set.count_ones() as usize;
        }
    }
    members
}

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
    if count > FEW {
        match simd {
            // SAFETY: the caller's.
            Simd::Avx512 => return unsafe { compress_avx512(from, mask, count, alike, to) },
            // SAFETY: the caller's.
            Simd::Avx2 => return unsafe { compress_avx2(from, mask, count, alike, to) },
            // SAFETY: the caller's.
            Simd::Sse42 => return unsafe { compress_sse42(from, mask, count, alike, to) },
            Simd::Scalar => {}
        }
    }
    let members = members(mask);
    let members = &members[..count];
    // SAFETY: the caller's.
    unsafe {
        alike.words(from, to).for_each(|(from, to, alike)| gather(from, members, alike, to));
        alike.halves(from, to).for_each(|(from, to, alike)| gather(from, members, alike, to));
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
        for (from, to, alike) in alike.words(from, to) {
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
        for (from, to, alike) in alike.halves(from, to) {
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

/// Sets of 8 packets in a vector.
#[cfg(target_arch = "x86_64")]
const SETS: usize = VECTOR_SIZE / 8;

/// The sets of 8 packets that have members.
#[cfg(target_arch = "x86_64")]
struct Sets {
    /// Each with its first packet, and how many members there are before it.
    sets: [(u8, u8, u16); SETS],
    count: usize,
}

#[cfg(target_arch = "x86_64")]
impl Sets {
    #[inline(always)]
    fn new(mask: &Mask) -> Sets {
        let mut all = Sets { sets: [(0, 0, 0); SETS], count: 0 };
        let mut before = 0;
        for (word, bits) in mask.0.iter().enumerate() {
            for (part, set) in bits.to_le_bytes().into_iter().enumerate() {
                // Written in any case, and kept when there are members: no branch to guess wrong.
                all.sets[all.count & (SETS - 1)] = (set, (word * 64 + part * 8) as u8, before);
                all.count += usize::from(set != 0);
                before += set.count_ones() as u16;
            }
        }
        all
    }

    /// By set: its members, its first packet, and how many are before it.
    #[inline(always)]
    fn iter(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        self.sets[..self.count].iter().map(|&(set, first, before)| (set.into(), first.into(), before.into()))
    }
}

/// # Safety
/// As [`compress`], on a processor that has these instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,popcnt")]
unsafe fn compress_avx2(from: &Places, mask: &Mask, count: usize, alike: Alike, to: &Places) {
    use std::arch::x86_64::*;
    let sets = Sets::new(mask);
    // SAFETY: in bounds by contract; a table of 8 bytes an entry. Where both places are one, a store ends at the last
    // packet of the set that was loaded just before it.
    unsafe {
        let picks = |set: usize| _mm_loadu_si64(MEMBERS.as_ptr().add(set).cast());
        for (from, to, alike) in alike.words(from, to) {
            if alike {
                if from != to {
                    let value = _mm256_set1_epi32((*from).cast_signed());
                    (0..count).step_by(8).for_each(|at| _mm256_storeu_si256(to.add(at).cast(), value));
                }
                continue;
            }
            for (set, first, before) in sets.iter() {
                let value = _mm256_loadu_si256(from.add(first).cast());
                let value = _mm256_permutevar8x32_epi32(value, _mm256_cvtepu8_epi32(picks(set)));
                _mm256_storeu_si256(to.add(before).cast(), value);
            }
        }
        for (from, to, alike) in alike.halves(from, to) {
            if alike {
                if from != to {
                    let value = _mm256_set1_epi16((*from).cast_signed());
                    (0..count).step_by(16).for_each(|at| _mm256_storeu_si256(to.add(at).cast(), value));
                }
                continue;
            }
            for (set, first, before) in sets.iter() {
                let value = _mm_loadu_si128(from.add(first).cast());
                _mm_storeu_si128(to.add(before).cast(), _mm_shuffle_epi8(value, pairs(picks(set))));
            }
        }
    }
}

/// Numbers of entries of two bytes as numbers of their bytes.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "sse4.2")]
fn pairs(picks: std::arch::x86_64::__m128i) -> std::arch::x86_64::__m128i {
    use std::arch::x86_64::*;
    let doubled = _mm_add_epi8(picks, picks);
    _mm_unpacklo_epi8(doubled, _mm_add_epi8(doubled, _mm_set1_epi8(1)))
}

/// Of each set of 4 entries of four bytes the bytes of its members, in order.
#[cfg(target_arch = "x86_64")]
static QUADS: [[u8; 16]; 16] = {
    let mut all = [[0; 16]; 16];
    let mut set = 0;
    while set < all.len() {
        let mut at = 0;
        while at < 16 {
            all[set][at] = (MEMBERS[set] >> (at / 4 * 8)) as u8 * 4 + at as u8 % 4;
            at += 1;
        }
        set += 1;
    }
    all
};

/// # Safety
/// As [`compress`], on a processor that has these instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2,popcnt")]
unsafe fn compress_sse42(from: &Places, mask: &Mask, count: usize, alike: Alike, to: &Places) {
    use std::arch::x86_64::*;
    let sets = Sets::new(mask);
    // SAFETY: in bounds by contract. Where both places are one: of words the four last of a set are loaded before the
    // four first are stored, and a store ends at the last packet of the set that was loaded just before it.
    unsafe {
        for (from, to, alike) in alike.words(from, to) {
            if alike {
                if from != to {
                    let value = _mm_set1_epi32((*from).cast_signed());
                    (0..count).step_by(4).for_each(|at| _mm_storeu_si128(to.add(at).cast(), value));
                }
                continue;
            }
            for (set, first, before) in sets.iter() {
                let (low, high) = (set & 15, set >> 4);
                let pick = |set: usize| _mm_loadu_si128(QUADS.as_ptr().add(set).cast());
                let first = from.add(first);
                let (four, other) = (_mm_loadu_si128(first.cast()), _mm_loadu_si128(first.add(4).cast()));
                let to = to.add(before);
                _mm_storeu_si128(to.cast(), _mm_shuffle_epi8(four, pick(low)));
                let to = to.add(low.count_ones() as usize);
                _mm_storeu_si128(to.cast(), _mm_shuffle_epi8(other, pick(high)));
            }
        }
        for (from, to, alike) in alike.halves(from, to) {
            if alike {
                if from != to {
                    let value = _mm_set1_epi16((*from).cast_signed());
                    (0..count).step_by(8).for_each(|at| _mm_storeu_si128(to.add(at).cast(), value));
                }
                continue;
            }
            for (set, first, before) in sets.iter() {
                let value = _mm_loadu_si128(from.add(first).cast());
                let picks = _mm_loadu_si64(MEMBERS.as_ptr().add(set).cast());
                _mm_storeu_si128(to.add(before).cast(), _mm_shuffle_epi8(value, pairs(picks)));
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
        words: [[u32; ENTRIES]; WORDS],
        halves: [[u16; ENTRIES]; HALVES],
    }

    impl Columns {
        /// Each entry another, but in columns that are to be alike.
        fn numbered((words, halves): ([bool; WORDS], [bool; HALVES])) -> Columns {
            let entry = |column: usize, at: usize, alike: bool| column * 1000 + if alike { 0 } else { at };
            Columns {
                words: std::array::from_fn(|column| std::array::from_fn(|at| entry(column, at, words[column]) as u32)),
                halves: std::array::from_fn(|column| {
                    std::array::from_fn(|at| entry(column + WORDS, at, halves[column]) as u16)
                }),
            }
        }
        fn places(&mut self, at: usize) -> Places {
            Places {
                words: self.words.each_mut().map(|column| column[at..].as_mut_ptr()),
                halves: self.halves.each_mut().map(|column| column[at..].as_mut_ptr()),
            }
        }
        /// The entries of a mask in columns that are there.
        fn of(
            &self,
            mask: &Mask,
            at: usize,
            is_live: impl Fn(usize) -> bool,
        ) -> (Vec<[u32; WORDS]>, Vec<[u16; HALVES]>) {
            let members = || (at..).zip(mask.positions()).map(|(at, _)| at);
            (
                members()
                    .map(|at| std::array::from_fn(|word| if is_live(word) { self.words[word][at] } else { 0 }))
                    .collect(),
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
            alike in any::<([bool; WORDS], [bool; HALVES])>(),
            live in 0..1u8 << LAZY,
        ) {
            let thin = Mask(std::array::from_fn(|word| words[word] & sparse[word]));
            for mut mask in [Mask(words), thin, Mask(words.map(|word| word | sparse[0]))] {
                let mask = mask.take_first(VECTOR_SIZE - at);
                let numbered = Columns::numbered(alike);
                let is_live = |word: usize| word < EAGER || live >> (word - EAGER) & 1 != 0;
                let alike = Alike::new(alike.0, alike.1, live);
                let members: Vec<usize> = mask.positions().collect();
                let word_of = |at: usize, word: usize| if is_live(word) { numbered.words[word][at] } else { 0 };
                let words = members.iter().map(|at| std::array::from_fn(|word| word_of(*at, word))).collect();
                let halves = members.iter().map(|at| numbered.halves.map(|column| column[*at])).collect();
                let expected: (Vec<_>, Vec<_>) = (words, halves);
                for simd in Simd::ALL.into_iter().filter(|simd| simd.is_available()) {
                    let mut from = numbered.clone();
                    let mut to = Columns { words: [[7; ENTRIES]; WORDS], halves: [[7; ENTRIES]; HALVES] };
                    // SAFETY: columns of so many entries, of which those from `at` on have room for all members.
                    unsafe { compress_with(simd, &from.places(0), &mask, mask.count(), alike, &to.places(at)) };
                    prop_assert_eq!(&to.of(&mask, at, is_live), &expected);
                    let gone = (0..WORDS).filter(|word| !is_live(*word)).all(|word| to.words[word] == [7; ENTRIES]);
                    prop_assert!(gone, "a column that is not there was written");
                    prop_assert!(to.words.iter().all(|column| column[..at].iter().all(|word| *word == 7)));
                    prop_assert_eq!(&from, &numbered);
                    let place = from.places(0);
                    // SAFETY: as above, in one place.
                    unsafe { compress_with(simd, &place, &mask, mask.count(), alike, &place) };
                    prop_assert_eq!(&from.of(&mask, 0, is_live), &expected);
                }
            }
        }

        #[test]
        fn masks_are_sets(
            bits in any::<[u64; 4]>(),
            from in 0..=VECTOR_SIZE,
            n in 0..=VECTOR_SIZE,
            i in 0..VECTOR_SIZE,
        ) {
            let n = n.min(VECTOR_SIZE - from);
            let mut mask = Mask(bits);
            mask.clear_range(from, n);
            for at in 0..VECTOR_SIZE {
                prop_assert_eq!(mask.has(at), Mask(bits).has(at) && !(from..from + n).contains(&at));
            }
            for is_member in [true, false] {
                mask.set(i, is_member);
                prop_assert_eq!(mask.has(i), is_member);
            }
        }

        #[test]
        fn instruction_sets_find_the_same_entries(
            bits in any::<[u64; 4]>(),
            count in 0..=VECTOR_SIZE,
            value: u16,
            other: u16,
        ) {
            let is_member = |at: usize| bits[at / 64] >> (at % 64) & 1 != 0;
            let column = std::array::from_fn(|at| if is_member(at) { value } else { other });
            let expected = if value == other { [u64::MAX; 4] } else { bits };
            let first = Mask::first(count).0;
            for simd in Simd::ALL.into_iter().filter(|simd| simd.is_available()) {
                // SAFETY: only sets that there are.
                let found = unsafe { equal_mask_with(simd, &column, count, value) };
                for word in 0..first.len() {
                    prop_assert_eq!(found[word] & first[word], expected[word] & first[word], "{:?}", simd);
                }
            }
        }

        #[test]
        fn members_are_in_order(bits in any::<[u64; 4]>(), sparse in any::<[u64; 4]>()) {
            for mask in [Mask(bits), Mask(std::array::from_fn(|word| bits[word] & sparse[word])), Mask([u64::MAX; 4])] {
                let expected: Vec<usize> = mask.positions().collect();
                let found: Vec<usize> = members(&mask)[..mask.count()].iter().map(|&at| at.into()).collect();
                prop_assert_eq!(found, expected);
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
