//! Rings of descriptors in memory that two sides share: one side writes the head, the other the tail.
//!
//! The slave writes the head of every ring, the master the tail. On a ring to the master the head is behind the last
//! packet; on a ring to the slave it is behind the last empty buffer. A value that the other side wrote is bounded
//! before it is used.
#![allow(unsafe_code)]

use super::memory::Region;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

/// Distinguishes a ring from other memory.
const COOKIE: u32 = 0x03E3_1F20;
/// Bytes ahead of the descriptors.
const HEADER: usize = 128;
const FLAGS: usize = 4;
const HEAD: usize = 6;
const TAIL: usize = 64;
/// Set while the receiver polls the ring: it needs no wakeup.
const MASK_INTERRUPT: u16 = 1;
/// Most descriptors of a ring, as a power of two.
pub const MAX_LOG2: u8 = 14;

/// The packet goes on in the next descriptor's buffer.
pub const NEXT: u16 = 1;

/// A buffer: where it is, and how many bytes of a packet it holds, or how many it has room for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Descriptor {
    pub flags: u16,
    pub region: u16,
    pub length: u32,
    pub offset: u32,
}

impl Descriptor {
    const LENGTH: usize = 16;

    /// Its layout in memory: flags, region, length; offset, and metadata that neither side uses.
    fn words(self) -> [u64; 2] {
        let first = u64::from(self.flags) | u64::from(self.region) << 16 | u64::from(self.length) << 32;
        [first.to_le(), u64::from(self.offset).to_le()]
    }

    #[inline(always)]
    fn of_words([first, second]: [u64; 2]) -> Descriptor {
        let (first, second) = (u64::from_le(first), u64::from_le(second));
        Descriptor {
            flags: first as u16,
            region: (first >> 16) as u16,
            length: (first >> 32) as u32,
            offset: second as u32,
        }
    }
}

/// All memory of a connection.
pub struct Memory(pub Vec<Region>);

impl Memory {
    /// Where a buffer is, if all of it is in shared memory.
    #[inline(always)]
    pub fn buffer(&self, region: u16, offset: u32, length: usize) -> Option<NonNull<u8>> {
        self.0.get(usize::from(region))?.place(offset.into(), length)
    }

    pub fn is_torn(&self) -> bool {
        self.0.iter().any(Region::is_torn)
    }
}

/// A ring at the place that both sides have agreed on.
pub struct Ring {
    base: NonNull<u8>,
    log2: u8,
    /// Keeps the memory at `base` mapped.
    _memory: Arc<Memory>,
}

// SAFETY: all access is by atomics, to memory that the value keeps mapped.
unsafe impl Send for Ring {}
// SAFETY: as above.
unsafe impl Sync for Ring {}

impl Ring {
    /// Bytes that a ring takes.
    pub const fn bytes(log2: u8) -> usize {
        HEADER + (Descriptor::LENGTH << log2)
    }

    /// The ring at an offset; none if it is not wholly in the region, or misaligned.
    pub fn at(memory: &Arc<Memory>, region: u16, offset: u32, log2: u8) -> Option<Ring> {
        if log2 > MAX_LOG2 || !offset.is_multiple_of(64) {
            return None;
        }
        let base = memory.buffer(region, offset, Ring::bytes(log2))?;
        Some(Ring { base, log2, _memory: memory.clone() })
    }

    pub fn log2(&self) -> u8 {
        self.log2
    }

    #[inline(always)]
    pub fn size(&self) -> u16 {
        1 << self.log2
    }

    #[inline(always)]
    fn word<T>(&self, at: usize) -> NonNull<T> {
        debug_assert!(at + size_of::<T>() <= Ring::bytes(self.log2) && at.is_multiple_of(size_of::<T>()));
        // SAFETY: within the ring, which `at` has found in its region. Regions begin on a page and rings on a cache
        // line, so the word is aligned.
        unsafe { self.base.byte_add(at).cast() }
    }

    fn cookie(&self) -> &AtomicU32 {
        // SAFETY: aligned and mapped as `word` says, for as long as `self`; both sides access it as one word.
        unsafe { AtomicU32::from_ptr(self.word(0).as_ptr()) }
    }

    #[inline(always)]
    fn half(&self, at: usize) -> &AtomicU16 {
        // SAFETY: as above.
        unsafe { AtomicU16::from_ptr(self.word(at).as_ptr()) }
    }

    #[inline(always)]
    fn place(&self, slot: u16) -> [&AtomicU64; 2] {
        let at = HEADER + usize::from(slot & (self.size() - 1)) * Descriptor::LENGTH;
        // SAFETY: as above: the slot is below the ring's size.
        unsafe { [AtomicU64::from_ptr(self.word(at).as_ptr()), AtomicU64::from_ptr(self.word(at + 8).as_ptr())] }
    }

    /// Initialises fresh memory as a ring.
    pub fn begin(&self) {
        self.cookie().store(COOKIE, Ordering::Release);
    }

    pub fn is_begun(&self) -> bool {
        self.cookie().load(Ordering::Acquire) == COOKIE
    }

    /// The slave's position; entries before it can be read.
    #[inline(always)]
    pub fn head(&self) -> u16 {
        self.half(HEAD).load(Ordering::Acquire)
    }

    #[inline(always)]
    pub fn set_head(&self, head: u16) {
        self.half(HEAD).store(head, Ordering::Release);
    }

    /// The master's position.
    #[inline(always)]
    pub fn tail(&self) -> u16 {
        self.half(TAIL).load(Ordering::Acquire)
    }

    #[inline(always)]
    pub fn set_tail(&self, tail: u16) {
        self.half(TAIL).store(tail, Ordering::Release);
    }

    pub fn flags(&self) -> u16 {
        self.half(FLAGS).load(Ordering::Relaxed)
    }

    /// Sets whether we, the receiver, are to be woken.
    pub fn set_wakes(&self, wakes: bool) {
        self.half(FLAGS).store(if wakes { 0 } else { MASK_INTERRUPT }, Ordering::Relaxed);
        // After asking to be woken, the receiver checks the ring once more: that read must not be older than the
        // request.
        fence(Ordering::SeqCst);
    }

    /// As [`Ring::set_head`], and before what [`Ring::wakes`] reads next: together with the fence in
    /// [`Ring::set_wakes`], either the receiver sees the new head or we see its request. One exchange takes less time
    /// than a store and a fence.
    #[inline(always)]
    pub fn announce_head(&self, head: u16) {
        self.half(HEAD).swap(head, Ordering::SeqCst);
    }

    /// The same of [`Ring::set_tail`].
    #[inline(always)]
    pub fn announce_tail(&self, tail: u16) {
        self.half(TAIL).swap(tail, Ordering::SeqCst);
    }

    /// Whether the receiver is to be woken, after a new position was announced.
    #[inline(always)]
    pub fn wakes(&self) -> bool {
        self.half(FLAGS).load(Ordering::SeqCst) & MASK_INTERRUPT == 0
    }

    /// The descriptor of a slot, counted round, read once.
    #[inline(always)]
    pub fn descriptor(&self, slot: u16) -> Descriptor {
        Descriptor::of_words(self.place(slot).map(|word| word.load(Ordering::Relaxed)))
    }

    /// The cache lines of the descriptors of `count` slots.
    #[inline(always)]
    pub fn lines(&self, slot: u16, count: u16) -> impl Iterator<Item = NonNull<u8>> {
        const A_LINE: usize = 64 / Descriptor::LENGTH;
        (0..count).step_by(A_LINE).map(move |i| {
            let slot = usize::from(slot.wrapping_add(i) & (self.size() - 1));
            self.word(HEADER + slot * Descriptor::LENGTH)
        })
    }

    #[inline(always)]
    pub fn put(&self, slot: u16, descriptor: Descriptor) {
        for (place, word) in self.place(slot).into_iter().zip(descriptor.words()) {
            place.store(word, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(length: usize) -> Arc<Memory> {
        Arc::new(Memory(vec![Region::create(length).unwrap().0]))
    }

    #[test]
    fn words_are_where_peers_have_them() {
        let memory = memory(4096);
        let ring = Ring::at(&memory, 0, 64, 2).unwrap();
        ring.begin();
        ring.set_wakes(false);
        ring.set_head(0x102);
        ring.set_tail(0x304);
        ring.put(5, Descriptor { flags: 1, region: 2, length: 0x30, offset: 0x4000 });
        let bytes = |at: usize, count: usize| {
            let from = memory.buffer(0, 64 + at as u32, count).unwrap();
            // SAFETY: within the region.
            unsafe { std::slice::from_raw_parts(from.as_ptr(), count).to_vec() }
        };
        assert_eq!(bytes(0, 8), [0x20, 0x1f, 0xe3, 0x03, 1, 0, 2, 1]);
        assert_eq!(bytes(64, 2), [4, 3]);
        assert_eq!(bytes(128 + 16, 16), [1, 0, 2, 0, 0x30, 0, 0, 0, 0, 0x40, 0, 0, 0, 0, 0, 0]);
        assert_eq!(ring.descriptor(1), ring.descriptor(5), "slots are counted round");
        assert_eq!((ring.head(), ring.tail(), ring.size(), ring.wakes()), (0x102, 0x304, 4, false));
        ring.set_wakes(true);
        assert!(ring.wakes() && ring.is_begun());
    }

    #[test]
    fn a_ring_is_all_in_its_region_and_on_a_line() {
        let memory = memory(4096);
        let fits = |region, offset, log2| Ring::at(&memory, region, offset, log2).is_some();
        assert!(fits(0, 0, 7) && fits(0, 4096 - 192, 0));
        assert!(!fits(0, 0, 8) && !fits(0, 4096 - 128, 0) && !fits(1, 0, 0) && !fits(0, 32, 0) && !fits(0, 0, 15));
        assert!(!fits(0, u32::MAX - 63, 14) && !fits(0, 0, 255));
    }
}
