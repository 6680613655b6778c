//! Registers that the passes over headers are written for: dwords of four packets in each 128-bit part. A register of
//! SSE4.2 is one part, one of AVX2 two, of which the lower has packets 0..4 and the upper 4..8. Nothing has to move
//! from one part to the other, which AVX2 does slowly and which other sets cannot do at all.

use super::numbers::Wide;
use std::arch::x86_64::*;

/// What the passes do with registers. All is inlined into the functions of a set, which name its instructions.
///
/// # Safety
/// Of each method: the processor has the set. Methods with a place: [`Lanes::COUNT`] entries can be read or written
/// there.
pub(super) trait Lanes {
    /// A register of dwords.
    type V: Copy;
    /// Packets in a register.
    const COUNT: usize;

    /// The same number for all packets.
    unsafe fn number(value: u32) -> Self::V;
    /// The same 16 bytes in each part.
    unsafe fn parts(bytes: &[u8; 16]) -> Self::V;
    /// A register of its parts; those that it has not got are ignored.
    unsafe fn of(low: __m128i, high: __m128i) -> Self::V;

    /// A number that lies in memory for all packets.
    unsafe fn aligned(from: &Wide) -> Self::V;
    unsafe fn load(from: *const u32) -> Self::V;
    unsafe fn store(to: *mut u32, v: Self::V);
    /// Numbers of 16 bits as dwords.
    unsafe fn load_halves(from: *const u16) -> Self::V;
    /// Dwords, none of which is above 65535, as numbers of 16 bits.
    unsafe fn store_halves(to: *mut u16, v: Self::V);

    unsafe fn and(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn or(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn xor(a: Self::V, b: Self::V) -> Self::V;
    /// `a` without the bits of `b`.
    unsafe fn without(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    /// The lower half of the product.
    unsafe fn multiply(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn up<const BITS: i32>(v: Self::V) -> Self::V;
    unsafe fn down<const BITS: i32>(v: Self::V) -> Self::V;
    /// All bits of the dwords that are equal.
    unsafe fn equal(a: Self::V, b: Self::V) -> Self::V;
    /// All bits of the dwords of `a` that are above those of `b`, both signed.
    unsafe fn above(a: Self::V, b: Self::V) -> Self::V;
    /// The same of numbers of 16 bits.
    unsafe fn equal_halves(a: Self::V, b: Self::V) -> Self::V;
    unsafe fn above_halves(a: Self::V, b: Self::V) -> Self::V;
    /// `yes` where the mask has all bits, else `no`.
    unsafe fn choose(mask: Self::V, yes: Self::V, no: Self::V) -> Self::V;
    /// Bytes of each part of `v`, as the bytes of the same part of `order` number them; 0 for a number above 127.
    unsafe fn shuffle(v: Self::V, order: Self::V) -> Self::V;

    /// Whether no bit is set.
    unsafe fn is_zero(v: Self::V) -> bool;
    /// The bits of all dwords together.
    unsafe fn any(v: Self::V) -> u32;
    /// Of each part four rows of four dwords as four columns.
    unsafe fn columns(rows: [Self::V; 4]) -> [Self::V; 4];
}

pub(super) enum Sse42 {}
pub(super) enum Avx2 {}

/// Methods that are an instruction each.
macro_rules! instructions {
    ($($method:ident($($argument:ident),+) = $intrinsic:ident($($given:ident),+);)+) => {$(
        #[inline(always)]
        unsafe fn $method($($argument: Self::V),+) -> Self::V {
            // SAFETY: the processor has the set, by contract.
            unsafe { $intrinsic($($given),+) }
        }
    )+};
}

impl Lanes for Sse42 {
    type V = __m128i;
    const COUNT: usize = 4;

    instructions! {
        and(a, b) = _mm_and_si128(a, b);
        or(a, b) = _mm_or_si128(a, b);
        xor(a, b) = _mm_xor_si128(a, b);
        without(a, b) = _mm_andnot_si128(b, a);
        add(a, b) = _mm_add_epi32(a, b);
        multiply(a, b) = _mm_mullo_epi32(a, b);
        equal(a, b) = _mm_cmpeq_epi32(a, b);
        above(a, b) = _mm_cmpgt_epi32(a, b);
        equal_halves(a, b) = _mm_cmpeq_epi16(a, b);
        above_halves(a, b) = _mm_cmpgt_epi16(a, b);
        choose(mask, yes, no) = _mm_blendv_epi8(no, yes, mask);
        shuffle(v, order) = _mm_shuffle_epi8(v, order);
    }

    #[inline(always)]
    unsafe fn number(value: u32) -> __m128i {
        // SAFETY: by contract.
        unsafe { _mm_set1_epi32(value as i32) }
    }
    #[inline(always)]
    unsafe fn parts(bytes: &[u8; 16]) -> __m128i {
        // SAFETY: 16 bytes of an array of as many.
        unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) }
    }
    #[inline(always)]
    unsafe fn of(low: __m128i, _: __m128i) -> __m128i {
        low
    }
    #[inline(always)]
    unsafe fn aligned(from: &Wide) -> __m128i {
        // SAFETY: 16 aligned bytes of 32.
        unsafe { _mm_load_si128(from.0.as_ptr().cast()) }
    }
    #[inline(always)]
    unsafe fn load(from: *const u32) -> __m128i {
        // SAFETY: by contract.
        unsafe { _mm_loadu_si128(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store(to: *mut u32, v: __m128i) {
        // SAFETY: by contract.
        unsafe { _mm_storeu_si128(to.cast(), v) }
    }
    #[inline(always)]
    unsafe fn load_halves(from: *const u16) -> __m128i {
        // SAFETY: by contract.
        unsafe { _mm_cvtepu16_epi32(_mm_loadu_si64(from.cast())) }
    }
    #[inline(always)]
    unsafe fn store_halves(to: *mut u16, v: __m128i) {
        // SAFETY: by contract.
        unsafe { _mm_storeu_si64(to.cast(), _mm_packus_epi32(v, v)) }
    }
    #[inline(always)]
    unsafe fn up<const BITS: i32>(v: __m128i) -> __m128i {
        // SAFETY: by contract.
        unsafe { _mm_slli_epi32::<BITS>(v) }
    }
    #[inline(always)]
    unsafe fn down<const BITS: i32>(v: __m128i) -> __m128i {
        // SAFETY: by contract.
        unsafe { _mm_srli_epi32::<BITS>(v) }
    }
    #[inline(always)]
    unsafe fn is_zero(v: __m128i) -> bool {
        // SAFETY: by contract.
        unsafe { _mm_testz_si128(v, v) != 0 }
    }
    #[inline(always)]
    unsafe fn any(v: __m128i) -> u32 {
        // SAFETY: by contract.
        let pair = unsafe { _mm_cvtsi128_si64(_mm_or_si128(v, _mm_unpackhi_epi64(v, v))) } as u64;
        pair as u32 | (pair >> 32) as u32
    }
    #[inline(always)]
    unsafe fn columns([r0, r1, r2, r3]: [__m128i; 4]) -> [__m128i; 4] {
        // SAFETY: by contract.
        unsafe {
            let (a, b) = (_mm_unpacklo_epi32(r0, r1), _mm_unpackhi_epi32(r0, r1));
            let (c, d) = (_mm_unpacklo_epi32(r2, r3), _mm_unpackhi_epi32(r2, r3));
            [_mm_unpacklo_epi64(a, c), _mm_unpackhi_epi64(a, c), _mm_unpacklo_epi64(b, d), _mm_unpackhi_epi64(b, d)]
        }
    }
}

impl Lanes for Avx2 {
    type V = __m256i;
    const COUNT: usize = 8;

    instructions! {
        and(a, b) = _mm256_and_si256(a, b);
        or(a, b) = _mm256_or_si256(a, b);
        xor(a, b) = _mm256_xor_si256(a, b);
        without(a, b) = _mm256_andnot_si256(b, a);
        add(a, b) = _mm256_add_epi32(a, b);
        multiply(a, b) = _mm256_mullo_epi32(a, b);
        equal(a, b) = _mm256_cmpeq_epi32(a, b);
        above(a, b) = _mm256_cmpgt_epi32(a, b);
        equal_halves(a, b) = _mm256_cmpeq_epi16(a, b);
        above_halves(a, b) = _mm256_cmpgt_epi16(a, b);
        choose(mask, yes, no) = _mm256_blendv_epi8(no, yes, mask);
        shuffle(v, order) = _mm256_shuffle_epi8(v, order);
    }

    #[inline(always)]
    unsafe fn number(value: u32) -> __m256i {
        // SAFETY: by contract.
        unsafe { _mm256_set1_epi32(value as i32) }
    }
    #[inline(always)]
    unsafe fn parts(bytes: &[u8; 16]) -> __m256i {
        // SAFETY: 16 bytes of an array of as many.
        unsafe { _mm256_broadcastsi128_si256(_mm_loadu_si128(bytes.as_ptr().cast())) }
    }
    #[inline(always)]
    unsafe fn of(low: __m128i, high: __m128i) -> __m256i {
        // SAFETY: by contract.
        unsafe { _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high) }
    }
    #[inline(always)]
    unsafe fn aligned(from: &Wide) -> __m256i {
        // SAFETY: 32 aligned bytes.
        unsafe { _mm256_load_si256(from.0.as_ptr().cast()) }
    }
    #[inline(always)]
    unsafe fn load(from: *const u32) -> __m256i {
        // SAFETY: by contract.
        unsafe { _mm256_loadu_si256(from.cast()) }
    }
    #[inline(always)]
    unsafe fn store(to: *mut u32, v: __m256i) {
        // SAFETY: by contract.
        unsafe { _mm256_storeu_si256(to.cast(), v) }
    }
    #[inline(always)]
    unsafe fn load_halves(from: *const u16) -> __m256i {
        // SAFETY: by contract.
        unsafe { _mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast())) }
    }
    #[inline(always)]
    unsafe fn store_halves(to: *mut u16, v: __m256i) {
        // SAFETY: by contract. Packing leaves the words of the parts at 0 and 2 of four.
        unsafe {
            let packed = _mm256_permute4x64_epi64::<0b00_00_10_00>(_mm256_packus_epi32(v, v));
            _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(packed));
        }
    }
    #[inline(always)]
    unsafe fn up<const BITS: i32>(v: __m256i) -> __m256i {
        // SAFETY: by contract.
        unsafe { _mm256_slli_epi32::<BITS>(v) }
    }
    #[inline(always)]
    unsafe fn down<const BITS: i32>(v: __m256i) -> __m256i {
        // SAFETY: by contract.
        unsafe { _mm256_srli_epi32::<BITS>(v) }
    }
    #[inline(always)]
    unsafe fn is_zero(v: __m256i) -> bool {
        // SAFETY: by contract.
        unsafe { _mm256_testz_si256(v, v) != 0 }
    }
    #[inline(always)]
    unsafe fn any(v: __m256i) -> u32 {
        // SAFETY: by contract.
        unsafe { Sse42::any(_mm_or_si128(_mm256_castsi256_si128(v), _mm256_extracti128_si256::<1>(v))) }
    }
    #[inline(always)]
    unsafe fn columns([r0, r1, r2, r3]: [__m256i; 4]) -> [__m256i; 4] {
        // SAFETY: by contract.
        unsafe {
            let (a, b) = (_mm256_unpacklo_epi32(r0, r1), _mm256_unpackhi_epi32(r0, r1));
            let (c, d) = (_mm256_unpacklo_epi32(r2, r3), _mm256_unpackhi_epi32(r2, r3));
            [
                _mm256_unpacklo_epi64(a, c),
                _mm256_unpackhi_epi64(a, c),
                _mm256_unpacklo_epi64(b, d),
                _mm256_unpackhi_epi64(b, d),
            ]
        }
    }
}
