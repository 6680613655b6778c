//! Address space that is reserved once and uses memory page by page: an array that has its maximum size from the start,
//! never moves, and takes memory only where it was written. Elsewhere the kernel returns zeros.

use crate::bits::Bits;
use std::io;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// The kernel's unit of memory.
pub(crate) const SYSTEM_PAGE: usize = 4096;
/// The size of a large page, where the kernel supports them.
const LARGE_PAGE: usize = 2 << 20;

/// Prefetches the cache line of a value; never faults and changes nothing.
#[inline(always)]
pub(crate) fn prefetch<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint on a valid address; every x86-64 has SSE.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(std::ptr::from_ref(value).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// The same for the second-level cache only. More such requests can be pending at once than requests for the first
/// level, so many distant lines arrive sooner; lines that are near arrive later.
#[inline(always)]
pub(crate) fn prefetch_far<T>(value: &T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a hint on a valid address; every x86-64 has SSE.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(std::ptr::from_ref(value).cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = value;
}

/// Returns unused heap memory to the system, where the C library can: after a million routes have gone. It takes
/// milliseconds.
pub fn trim_heap() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    // SAFETY: it changes only memory that is free.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Makes the C library, where it can, keep little free heap memory: a megabyte at the top of each arena. Larger blocks
/// are mapped separately. By default both limits grow with what is freed (mallopt(3), M_MMAP_THRESHOLD), and
/// [`trim_heap`] cannot reach the top of a thread's arena, up to 64 MiB. To be called at the start of a process.
pub fn keep_heap_small() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    for limit in [libc::M_TRIM_THRESHOLD, libc::M_MMAP_THRESHOLD] {
        // SAFETY: it affects only where later memory comes from.
        unsafe { libc::mallopt(limit, 1 << 20) };
    }
}

/// The kind of pages behind a [`Reserved`] array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pages {
    /// Small pages whatever the system's default, so that a single route does not cost 2 MiB.
    Small,
    /// Transparent huge pages where the system supports them: fewer TLB misses.
    Huge,
}

/// Types for which all-zero bytes are a value.
///
/// # Safety
/// The implementor promises that, and that dropping a value does nothing.
pub(crate) unsafe trait Zeroed {}

// SAFETY: an integer; zero is a value; no drop.
unsafe impl Zeroed for u8 {}
// SAFETY: same layout as u32; zero is a value; no drop.
unsafe impl Zeroed for AtomicU32 {}
// SAFETY: as above, for u64.
unsafe impl Zeroed for AtomicU64 {}

/// An array of zeros in lazily touched anonymous memory.
///
/// Invariant: `base` is the start of a private mapping of `length` elements that only
/// this value owns and that `drop` unmaps.
pub(crate) struct Reserved<T: Zeroed> {
    base: NonNull<T>,
    length: usize,
}

// SAFETY: it owns its elements as a Box<[T]> does.
unsafe impl<T: Zeroed + Send> Send for Reserved<T> {}
// SAFETY: shared access gives &T only.
unsafe impl<T: Zeroed + Sync> Sync for Reserved<T> {}

impl<T: Zeroed> Reserved<T> {
    /// # Errors
    /// Those of mmap(2), usually that the address space limit is too small.
    ///
    /// # Panics
    /// When `length` is zero or more than fits the address space.
    pub(crate) fn new(length: usize, pages: Pages) -> io::Result<Reserved<T>> {
        let bytes = length.checked_mul(size_of::<T>()).expect("fits usize");
        assert!(bytes > 0, "an array of nothing");
        // SAFETY: a new anonymous mapping at an address that the kernel chooses; one of megabytes begins at the
        // boundary of a large page.
        let address = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let advice = match pages {
            Pages::Small => libc::MADV_NOHUGEPAGE,
            Pages::Huge => libc::MADV_HUGEPAGE,
        };
        // SAFETY: the range was just mapped. It is advice: a kernel without
        // transparent huge pages refuses it and nothing is lost.
        unsafe { libc::madvise(address, bytes, advice) };
        let base = NonNull::new(address.cast()).expect("mmap never returns page zero");
        Ok(Reserved { base, length })
    }

    /// Returns the memory behind whole system pages to the system; it reads as zeros from then on.
    ///
    /// # Panics
    /// When the range is not inside the array or not of whole pages of 4096 bytes.
    pub(crate) fn give_back(&self, range: Range<usize>) {
        let (begin, bytes) = (range.start * size_of::<T>(), range.len() * size_of::<T>());
        assert!(range.end <= self.length && begin % SYSTEM_PAGE == 0 && bytes % SYSTEM_PAGE == 0);
        // SAFETY: inside our own mapping, whose values are integers: a reader finds the old value or zero. Callers name
        // only what is zero or what no lookup can reach. With larger system pages the call fails, and then nothing has
        // changed.
        unsafe { libc::madvise(self.base.as_ptr().byte_add(begin).cast(), bytes, libc::MADV_DONTNEED) };
    }

    /// Bytes that are resident in memory.
    #[cfg(test)]
    pub(crate) fn resident(&self) -> usize {
        let bytes = self.length * size_of::<T>();
        let mut pages = vec![0u8; bytes.div_ceil(SYSTEM_PAGE)];
        // SAFETY: our own mapping, and one byte for each of its pages.
        let done = unsafe { libc::mincore(self.base.as_ptr().cast(), bytes, pages.as_mut_ptr()) };
        assert_eq!(done, 0, "{}", io::Error::last_os_error());
        pages.iter().filter(|page| **page & 1 != 0).count() * SYSTEM_PAGE
    }

    /// Returns the memory of unused units, of `unit` elements each, as far as they fill whole pages. Units from `end`
    /// on are not used either. [`Pages::Huge`] keeps large pages whole: a hole would make the system split them, which
    /// would slow lookups down.
    pub(crate) fn give_units_back(&self, unused: &Bits, unit: usize, end: usize, pages: Pages) {
        let page = match pages {
            Pages::Small => SYSTEM_PAGE,
            Pages::Huge => LARGE_PAGE,
        };
        // Large pages begin at multiples of their size in memory, but not necessarily in the array.
        let base = self.base.as_ptr().addr();
        for run in unused.runs(end) {
            let address = |units: usize| base + units * unit * size_of::<T>();
            let rest = if run.end == end { page - 1 } else { 0 };
            let first = address(run.start).next_multiple_of(page);
            let behind = (address(run.end) + rest).min(base + self.length * size_of::<T>()) / page * page;
            if first < behind {
                self.give_back((first - base) / size_of::<T>()..(behind - base) / size_of::<T>());
            }
        }
    }
}

impl Reserved<AtomicU32> {
    /// Asks for large pages from now on, or for small ones. Existing pages stay as they are until the system converts
    /// them.
    pub(crate) fn want_large_pages(&self, large: bool) {
        let advice = if large { libc::MADV_HUGEPAGE } else { libc::MADV_NOHUGEPAGE };
        // SAFETY: advice about our own mapping; a kernel that does not support it refuses.
        unsafe { libc::madvise(self.base.as_ptr().cast(), self.length * size_of::<AtomicU32>(), advice) };
    }

    /// Makes the system replace the small pages of a range by one large page, now. Readers wait meanwhile for the copy.
    pub(crate) fn collapse(&self, range: Range<usize>) {
        /// Since Linux 6.1.
        const MADV_COLLAPSE: libc::c_int = 25;
        assert!(range.end <= self.length);
        let bytes = range.len() * size_of::<AtomicU32>();
        // SAFETY: inside our own mapping, whose values this does not change.
        unsafe { libc::madvise(self.base.as_ptr().add(range.start).cast(), bytes, MADV_COLLAPSE) };
    }
}

impl<T: Zeroed> Deref for Reserved<T> {
    type Target = [T];
    #[inline]
    fn deref(&self) -> &[T] {
        // SAFETY: the mapping holds `length` elements, zeroed at birth (see `Zeroed`),
        // page-aligned, and lives as long as self.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr(), self.length) }
    }
}

impl<T: Zeroed> DerefMut for Reserved<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as in `deref`; &mut self makes it the only access.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.length) }
    }
}

impl<T: Zeroed> Drop for Reserved<T> {
    fn drop(&mut self) {
        // SAFETY: unmaps exactly what `new` mapped; no reference outlives self.
        unsafe { libc::munmap(self.base.as_ptr().cast(), self.length * size_of::<T>()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::Ordering;

    const UNIT: usize = 256;
    /// 6 MiB of units: they include a whole large page, wherever they begin.
    const UNITS: usize = (6 << 20) / (UNIT * size_of::<AtomicU32>());

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]

        #[test]
        fn only_what_is_unused_goes_back(used in prop::collection::btree_set(0..UNITS, 0..20), large in any::<bool>()) {
            let array: Reserved<AtomicU32> = Reserved::new(UNIT * UNITS, Pages::Small).unwrap();
            array.iter().for_each(|word| word.store(7, Ordering::Relaxed));
            prop_assert_eq!(array.resident(), 6 << 20);
            let mut unused = Bits::new(UNITS);
            (0..UNITS).filter(|unit| !used.contains(unit)).for_each(|unit| unused.insert(unit));
            let page = if large { LARGE_PAGE } else { SYSTEM_PAGE };
            array.give_units_back(&unused, UNIT, UNITS, if large { Pages::Huge } else { Pages::Small });
            // Pages begin at multiples of their size in memory.
            let base = array.base.as_ptr().addr();
            let words_of = page / size_of::<AtomicU32>();
            let outside = (base.next_multiple_of(page) - base) / size_of::<AtomicU32>();
            let is = |words: &[AtomicU32], value| words.iter().all(|word| word.load(Ordering::Relaxed) == value);
            prop_assert!(is(&array[..outside], 7));
            for begin in (outside..array.len()).step_by(words_of) {
                let end = begin + words_of;
                let is_kept = end > array.len() || used.range(begin / UNIT..end.div_ceil(UNIT)).next().is_some();
                prop_assert!(is(&array[begin..end.min(array.len())], if is_kept { 7 } else { 0 }), "{begin}");
            }
        }
    }
}
