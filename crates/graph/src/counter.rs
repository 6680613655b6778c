//! Counters that cost a load and a store.
//!
//! Each worker writes its own row, so no atomic read-modify-write and no shared cache line is needed; a reader sums the
//! rows. Rows lie in reserved address space that never moves, in a memfd: `[thread][index]` with `width` words each, as
//! in VPP's stats segment.
//!
//! Only its worker writes a counter. `clear` therefore stores a baseline that readers subtract. Other processes may
//! read the memory by its descriptor: what they see is not cleared, and they cannot write it.
#![allow(unsafe_code)]

use rustix::{fs, mm};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// Least distance of rows of different workers, in bytes: processors fetch cache lines in pairs.
const APART: usize = 128;

/// A table of counters: a row for each worker, `width` words for each index.
pub struct CounterTable {
    name: String,
    base: NonNull<AtomicU64>,
    file: OwnedFd,
    threads: usize,
    capacity: usize,
    width: usize,
    /// Words from a worker's row to the next one's.
    row: usize,
    /// Values at the last `clear`, by thread, then index and word.
    baseline: Mutex<Vec<Vec<u64>>>,
}

// SAFETY: the memory is atomics only, and lives as long as the table.
unsafe impl Send for CounterTable {}
// SAFETY: as above.
unsafe impl Sync for CounterTable {}

impl CounterTable {
    /// `capacity` counters of `width` words for each of `threads` workers. Memory is
    /// taken as counters are first used.
    ///
    /// # Errors
    /// When the system refuses the mapping.
    pub fn new(name: &str, threads: usize, capacity: usize, width: usize) -> io::Result<Arc<CounterTable>> {
        let row = (capacity * width).next_multiple_of(APART / size_of::<AtomicU64>());
        let length = threads * row * size_of::<AtomicU64>();
        let file = fs::memfd_create(name, fs::MemfdFlags::CLOEXEC | fs::MemfdFlags::ALLOW_SEALING)?;
        fs::ftruncate(&file, length as u64)?;
        let access = mm::ProtFlags::READ | mm::ProtFlags::WRITE;
        let flags = mm::MapFlags::SHARED | mm::MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { mm::mmap(std::ptr::null_mut(), length, access, flags, &file, 0)? };
        Ok(Arc::new(CounterTable {
            file,
            name: name.to_string(),
            base: NonNull::new(base.cast()).expect("mmap gives no null"),
            threads,
            capacity,
            width,
            row,
            baseline: Mutex::new(vec![Vec::new(); threads]),
        }))
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The memory, for processes that map it to read. Entry `i` of worker `w` begins at byte
    /// `w * row_bytes() + i * width() * 8`; its words are numbers of 64 bits of this machine. There, `clear` has no
    /// effect. The memory is sealed: they cannot map it to write, or change its size.
    ///
    /// # Errors
    /// When the system cannot seal it (Linux before 5.1).
    pub fn memory(&self) -> io::Result<BorrowedFd<'_>> {
        let seals = fs::SealFlags::FUTURE_WRITE | fs::SealFlags::SHRINK | fs::SealFlags::GROW;
        fs::fcntl_add_seals(&self.file, seals)?;
        Ok(self.file.as_fd())
    }

    /// Bytes from one worker's row to the next one's.
    pub fn row_bytes(&self) -> usize {
        self.row * size_of::<AtomicU64>()
    }

    /// Words of an entry.
    pub fn width(&self) -> usize {
        self.width
    }

    #[inline(always)]
    fn cell(&self, thread: usize, index: usize, word: usize) -> &AtomicU64 {
        assert!(thread < self.threads && index < self.capacity && word < self.width);
        // SAFETY: in bounds as asserted; zeroed memory is valid atomics.
        unsafe { &*self.base.as_ptr().add(thread * self.row + index * self.width + word) }
    }

    /// One worker's row as entries of `N` words, accessible without the table.
    ///
    /// # Panics
    /// When there is no such worker, or `N` is not the size of whole counters.
    pub fn lane<const N: usize>(self: &Arc<Self>, thread: usize) -> Lane<N> {
        assert!(thread < self.threads && N.is_multiple_of(self.width));
        // SAFETY: the row begins within the mapping, as asserted.
        let row = unsafe { self.base.add(thread * self.row) };
        Lane { entries: row.cast(), count: self.capacity * self.width / N, _table: self.clone() }
    }

    /// Adds to one word of the calling worker's own counter.
    #[inline(always)]
    pub fn add(&self, thread: usize, index: usize, word: usize, n: u64) {
        let cell = self.cell(thread, index, word);
        cell.store(cell.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Sets one word, for values that are states rather than counts.
    #[inline(always)]
    pub fn set(&self, thread: usize, index: usize, word: usize, value: u64) {
        self.cell(thread, index, word).store(value, Ordering::Relaxed);
    }

    /// One worker's raw word; `clear` does not affect it.
    #[inline(always)]
    pub fn raw(&self, thread: usize, index: usize, word: usize) -> u64 {
        self.cell(thread, index, word).load(Ordering::Relaxed)
    }

    /// One worker's word since the last `clear`.
    pub fn value(&self, thread: usize, index: usize, word: usize) -> u64 {
        let baseline = self.baseline.lock().expect("no panic under this lock");
        let cleared = baseline[thread].get(index * self.width + word).copied().unwrap_or(0);
        self.raw(thread, index, word).wrapping_sub(cleared)
    }

    /// All workers' sum since the last `clear`.
    pub fn sum(&self, index: usize, word: usize) -> u64 {
        (0..self.threads).fold(0, |sum, thread| sum.wrapping_add(self.value(thread, index, word)))
    }

    /// Makes the counters of `indices` read zero from now on.
    pub fn clear(&self, indices: impl IntoIterator<Item = usize>) {
        let mut baseline = self.baseline.lock().expect("no panic under this lock");
        for index in indices {
            for (thread, cleared) in baseline.iter_mut().enumerate() {
                let end = (index + 1) * self.width;
                if cleared.len() < end {
                    cleared.resize(end, 0);
                }
                for word in 0..self.width {
                    cleared[index * self.width + word] = self.raw(thread, index, word);
                }
            }
        }
    }
}

/// One word of a counter, for its worker.
#[repr(transparent)]
pub struct Word(AtomicU64);

impl Word {
    #[inline(always)]
    pub fn add(&self, n: u64) {
        self.set(self.get().wrapping_add(n));
    }

    #[inline(always)]
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    #[inline(always)]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A worker's row of a table: entries of `N` words. For counters that are written with every vector: finding an entry
/// takes one step.
pub struct Lane<const N: usize> {
    entries: NonNull<[Word; N]>,
    count: usize,
    /// Keeps the memory mapped.
    _table: Arc<CounterTable>,
}

// SAFETY: the memory is atomics only, and lives as long as the table.
unsafe impl<const N: usize> Send for Lane<N> {}

impl<const N: usize> Lane<N> {
    /// # Panics
    /// When there is no such entry.
    #[inline(always)]
    pub fn at(&self, index: usize) -> &[Word; N] {
        assert!(index < self.count);
        // SAFETY: in bounds as asserted; zeroed memory is valid atomics, and a word is nothing but an atomic.
        unsafe { &*self.entries.as_ptr().add(index) }
    }
}

impl Drop for CounterTable {
    fn drop(&mut self) {
        let length = self.threads * self.row * size_of::<AtomicU64>();
        // SAFETY: the mapping is ours, and no reference into it is left.
        let _ = unsafe { mm::munmap(self.base.as_ptr().cast(), length) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_rows_are_summed_and_cleared_by_baseline() {
        let table = CounterTable::new("t", 2, 8, 2).unwrap();
        table.add(0, 3, 0, 5);
        table.add(1, 3, 0, 7);
        table.add(1, 3, 1, 100);
        let lane = table.lane::<2>(1);
        let [first, second] = lane.at(3);
        assert_eq!((first.get(), second.get()), (7, 100));
        first.add(0);
        assert_eq!(table.lane::<16>(1).at(0)[7].get(), 100, "counters together");
        assert_eq!((table.sum(3, 0), table.sum(3, 1), table.sum(2, 0)), (12, 100, 0));
        table.clear([3]);
        assert_eq!((table.sum(3, 0), table.raw(1, 3, 0)), (0, 7));
        table.add(0, 3, 0, 1);
        assert_eq!(table.sum(3, 0), 1);
    }

    #[test]
    fn others_read_the_memory_and_cannot_write_it() {
        let table = CounterTable::new("t", 2, 8, 2).unwrap();
        let length = 2 * table.row_bytes();
        let memory = table.memory().unwrap();
        let others = |access| {
            // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
            unsafe { mm::mmap(std::ptr::null_mut(), length, access, mm::MapFlags::SHARED, memory, 0) }
        };
        assert_eq!(others(mm::ProtFlags::READ | mm::ProtFlags::WRITE).unwrap_err(), rustix::io::Errno::PERM);
        assert_eq!(fs::ftruncate(memory, 0), Err(rustix::io::Errno::PERM));
        let memory = others(mm::ProtFlags::READ).unwrap().cast::<AtomicU64>();
        table.add(1, 3, 1, 7);
        // SAFETY: in the mapping, which lives to the end of this test; zeroed memory is valid atomics.
        let seen = unsafe { &*memory.byte_add(table.row_bytes() + 3 * table.width() * 8 + 8) }.load(Ordering::Relaxed);
        assert_eq!(seen, 7);
        // SAFETY: the mapping is ours, and no reference into it is left.
        unsafe { mm::munmap(memory.cast(), length) }.unwrap();
    }

    #[test]
    fn rows_of_different_workers_share_no_cache_line() {
        for (capacity, width) in [(1, 1), (3, 2), (16, 1), (17, 1), (64, 1), (5, 8)] {
            let table = CounterTable::new("t", 3, capacity, width).unwrap();
            let address = |thread, index, word| std::ptr::from_ref(table.cell(thread, index, word)) as usize;
            for thread in 0..2 {
                let (last, next) = (address(thread, capacity - 1, width - 1), address(thread + 1, 0, 0));
                assert!(last / APART < next / APART, "{capacity} counters of {width} words");
            }
        }
    }
}
