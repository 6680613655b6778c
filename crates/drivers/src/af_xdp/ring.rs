//! The rings of an AF_XDP socket, shared with the kernel (Linux `Documentation/networking/af_xdp.rst`).
//!
//! Each ring has one side that produces and one that consumes. Each side writes its own count, which only grows, and
//! rereads the other side's when the value that it knows is used up.
#![allow(unsafe_code)]

use rustix::fd::OwnedFd;
use rustix::mm;
use std::io;
use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Which of a socket's rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Receive,
    Transmit,
    Fill,
    Completion,
}

impl Kind {
    /// The socket option that creates it.
    pub fn option(self) -> i32 {
        match self {
            Kind::Receive => libc::XDP_RX_RING,
            Kind::Transmit => libc::XDP_TX_RING,
            Kind::Fill => libc::XDP_UMEM_FILL_RING,
            Kind::Completion => libc::XDP_UMEM_COMPLETION_RING,
        }
    }

    /// The offset at which the kernel lets it be mapped.
    pub fn page_offset(self) -> u64 {
        match self {
            Kind::Receive => libc::XDP_PGOFF_RX_RING as u64,
            Kind::Transmit => libc::XDP_PGOFF_TX_RING as u64,
            Kind::Fill => libc::XDP_UMEM_PGOFF_FILL_RING,
            Kind::Completion => libc::XDP_UMEM_PGOFF_COMPLETION_RING,
        }
    }

    /// Its index in `struct xdp_mmap_offsets`.
    fn place(self) -> usize {
        match self {
            Kind::Receive => 0,
            Kind::Transmit => 1,
            Kind::Fill => 2,
            Kind::Completion => 3,
        }
    }
}

/// `struct xdp_mmap_offsets`: for each ring the offsets of its producer's and consumer's counts, its entries and its
/// flags.
pub type Offsets = [u64; 16];

/// One entry: a buffer's address, or a packet's.
pub trait Entry: Copy {}
impl Entry for u64 {}
impl Entry for libc::xdp_desc {}

/// A mapped ring of entries.
struct Map<T> {
    base: NonNull<u8>,
    length: usize,
    offsets: [usize; 4],
    mask: u32,
    entry: PhantomData<T>,
}

// SAFETY: only this value has the mapping, which may be used from any thread.
unsafe impl<T: Entry> Send for Map<T> {}

impl<T: Entry> Map<T> {
    /// # Errors
    /// When the kernel refuses the mapping.
    fn of(fd: &OwnedFd, kind: Kind, size: u32, offsets: &Offsets) -> io::Result<Map<T>> {
        assert!(size.is_power_of_two());
        let at = 4 * kind.place();
        let offsets: [usize; 4] = std::array::from_fn(|i| offsets[at + i] as usize);
        let length = offsets[2] + size as usize * size_of::<T>();
        let is_sound = |offset: &usize| offset.is_multiple_of(4) && *offset + 4 <= length;
        if !offsets.iter().all(is_sound) || !offsets[2].is_multiple_of(align_of::<T>()) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a ring's parts do not lie in it"));
        }
        let access = mm::ProtFlags::READ | mm::ProtFlags::WRITE;
        let flags = mm::MapFlags::SHARED | mm::MapFlags::POPULATE;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { mm::mmap(std::ptr::null_mut(), length, access, flags, fd, kind.page_offset())? };
        let base = NonNull::new(base.cast()).expect("mmap gives no null");
        Ok(Map { base, length, offsets, mask: size - 1, entry: PhantomData })
    }

    #[inline(always)]
    fn word(&self, at: usize) -> &AtomicU32 {
        // SAFETY: in the mapping and aligned, as was checked when it was made; both sides access it as one word.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(self.offsets[at]).cast()) }
    }

    #[inline(always)]
    fn producer(&self) -> &AtomicU32 {
        self.word(0)
    }

    #[inline(always)]
    fn consumer(&self) -> &AtomicU32 {
        self.word(1)
    }

    #[inline(always)]
    fn needs_wakeup(&self) -> bool {
        // Either the kernel, which sets the flag, sees what was published, or we see the flag here.
        fence(Ordering::SeqCst);
        self.word(3).load(Ordering::Relaxed) & libc::XDP_RING_NEED_WAKEUP != 0
    }

    #[inline(always)]
    fn entry(&self, number: u32) -> *mut T {
        // SAFETY: masked, so within the mapping, which was made for this many entries.
        unsafe { self.base.as_ptr().add(self.offsets[2]).cast::<T>().add((number & self.mask) as usize) }
    }
}

impl<T> Drop for Map<T> {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and no pointer into it is left.
        let _ = unsafe { mm::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// Our side of a ring that the kernel consumes.
pub struct Producer<T: Entry> {
    map: Map<T>,
    /// Entries published so far, and how many of them are known to be consumed.
    own: u32,
    consumed: u32,
}

impl<T: Entry> Producer<T> {
    pub fn of(fd: &OwnedFd, kind: Kind, size: u32, offsets: &Offsets) -> io::Result<Producer<T>> {
        Ok(Producer { map: Map::of(fd, kind, size, offsets)?, own: 0, consumed: 0 })
    }

    /// How many entries there is room for; rereads the kernel's count when that is less than wanted.
    #[inline]
    pub fn room(&mut self, wanted: u32) -> u32 {
        let size = self.map.mask + 1;
        let room = size - self.own.wrapping_sub(self.consumed).min(size);
        if room >= wanted {
            return room;
        }
        self.consumed = self.map.consumer().load(Ordering::Acquire);
        size - self.own.wrapping_sub(self.consumed).min(size)
    }

    /// Writes the entry `after` places behind the last published one. There must be room.
    #[inline(always)]
    pub fn write(&mut self, after: u32, entry: T) {
        // SAFETY: in the ring; the kernel does not read it before it is published.
        unsafe { self.map.entry(self.own.wrapping_add(after)).write(entry) };
    }

    /// Shows the kernel the entries written.
    #[inline]
    pub fn publish(&mut self, count: u32) {
        self.own = self.own.wrapping_add(count);
        self.map.producer().store(self.own, Ordering::Release);
    }

    /// Entries that the kernel has not consumed.
    #[inline]
    pub fn pending(&mut self) -> u32 {
        self.consumed = self.map.consumer().load(Ordering::Acquire);
        self.own.wrapping_sub(self.consumed)
    }

    /// Whether the kernel looks at the ring only when it is asked to.
    #[inline(always)]
    pub fn needs_wakeup(&self) -> bool {
        self.map.needs_wakeup()
    }
}

/// Our side of a ring that the kernel produces.
pub struct Consumer<T: Entry> {
    map: Map<T>,
    own: u32,
}

impl<T: Entry> Consumer<T> {
    pub fn of(fd: &OwnedFd, kind: Kind, size: u32, offsets: &Offsets) -> io::Result<Consumer<T>> {
        Ok(Consumer { map: Map::of(fd, kind, size, offsets)?, own: 0 })
    }

    /// How many entries can be read.
    #[inline(always)]
    pub fn available(&self) -> u32 {
        let there = self.map.producer().load(Ordering::Acquire).wrapping_sub(self.own);
        there.min(self.map.mask + 1)
    }

    /// The entry `after` places behind the last released one. It must be there.
    #[inline(always)]
    pub fn read(&self, after: u32) -> T {
        // SAFETY: in the ring, and written by the kernel before it was shown; any bytes are a valid entry.
        unsafe { self.map.entry(self.own.wrapping_add(after)).read() }
    }

    /// Gives entries back.
    #[inline]
    pub fn release(&mut self, count: u32) {
        self.own = self.own.wrapping_add(count);
        self.map.consumer().store(self.own, Ordering::Release);
    }
}
