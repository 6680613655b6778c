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

/// Below this many packets copying one by one beats compressing blocks.
const FEW: usize = 8;

pub(crate) fn compress32(from: &[u32], mask: &Mask, to: &mut [u32]) {
    #[cfg(target_arch = "x86_64")]
    if mask.count() > FEW && Simd::detected() == Simd::Avx512 {
        assert!(from.len() >= VECTOR_SIZE && to.len() >= mask.count() + 16);
        // SAFETY: detected; in bounds as asserted, surplus of the last store included.
        unsafe { compress32_avx512(from.as_ptr(), mask, to.as_mut_ptr()) };
        return;
    }
    mask.positions().zip(to).for_each(|(i, out)| *out = from[i]);
}

pub(crate) fn compress16(from: &[u16], mask: &Mask, to: &mut [u16]) {
    #[cfg(target_arch = "x86_64")]
    if mask.count() > FEW && Simd::detected() == Simd::Avx512 {
        assert!(from.len() >= VECTOR_SIZE && to.len() >= mask.count() + 32);
        // SAFETY: as above.
        unsafe { compress16_avx512(from.as_ptr(), mask, to.as_mut_ptr()) };
        return;
    }
    mask.positions().zip(to).for_each(|(i, out)| *out = from[i]);
}

/// Compresses a column onto its own front.
pub(crate) fn keep32(column: &mut [u32], mask: &Mask) {
    #[cfg(target_arch = "x86_64")]
    if Simd::detected() == Simd::Avx512 {
        assert!(column.len() >= VECTOR_SIZE + 16);
        let column = column.as_mut_ptr();
        // SAFETY: as above. Members only move forward: a store never reaches beyond the
        // block that was loaded just before it.
        unsafe { compress32_avx512(column, mask, column) };
        return;
    }
    for (to, from) in mask.positions().enumerate() {
        column[to] = column[from];
    }
}

pub(crate) fn keep16(column: &mut [u16], mask: &Mask) {
    #[cfg(target_arch = "x86_64")]
    if Simd::detected() == Simd::Avx512 {
        assert!(column.len() >= VECTOR_SIZE + 32);
        let column = column.as_mut_ptr();
        // SAFETY: as in `keep32`.
        unsafe { compress16_avx512(column, mask, column) };
        return;
    }
    for (to, from) in mask.positions().enumerate() {
        column[to] = column[from];
    }
}

/// # Safety
/// AVX-512F; [`VECTOR_SIZE`] entries can be read at `from`, and 16 more than the mask has
/// members be written at `to`, which is `from` or does not overlap it.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn compress32_avx512(from: *const u32, mask: &Mask, to: *mut u32) {
    use std::arch::x86_64::*;
    let mut out = to;
    for (word, &bits) in mask.0.iter().enumerate() {
        for block in 0..4 {
            let lanes = (bits >> (block * 16)) as u16;
            if lanes == 0 {
                continue;
            }
            // SAFETY: in bounds by contract. A register compress and a whole store beat the
            // compressing store on Zen 4 and 5 by far; the surplus lands where later members
            // go, or in the slack.
            unsafe {
                let value = _mm512_loadu_si512(from.add(word * 64 + block * 16).cast());
                _mm512_storeu_si512(out.cast(), _mm512_maskz_compress_epi32(lanes, value));
                out = out.add(lanes.count_ones() as usize);
            }
        }
    }
}

/// # Safety
/// AVX-512 VBMI2; as [`compress32_avx512`] with 32.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2")]
unsafe fn compress16_avx512(from: *const u16, mask: &Mask, to: *mut u16) {
    use std::arch::x86_64::*;
    let mut out = to;
    for (word, &bits) in mask.0.iter().enumerate() {
        for block in 0..2 {
            let lanes = (bits >> (block * 32)) as u32;
            if lanes == 0 {
                continue;
            }
            // SAFETY: as above.
            unsafe {
                let value = _mm512_loadu_si512(from.add(word * 64 + block * 32).cast());
                _mm512_storeu_si512(out.cast(), _mm512_maskz_compress_epi16(lanes, value));
                out = out.add(lanes.count_ones() as usize);
            }
        }
    }
}
