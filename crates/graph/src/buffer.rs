//! Packet buffers: where packets lie while they travel.
//!
//! A [`Pool`] is one mapping of its own memfd, cut into equal buffers. A buffer is
//! headroom (to prepend headers), a data area, and a tail guard that lets kernels
//! load whole cache lines near the end. The stride is an odd number of cache lines:
//! with 4096 bytes all packet heads would share a few cache sets (30 clocks a packet
//! instead of 13).
//!
//! What the program knows of a buffer (its segment's place, the chain, offload requests) is in a [`Segment`] in private
//! memory, never in the mapping, which may be shared with a peer.
//!
//! A packet is named by the [`PacketIndex`] of its first buffer. Each worker takes and returns buffers through its own
//! [`Buffers`], last in first out, so that they are still in the cache. Only when that is empty or too full does it
//! exchange magazines of 256 buffers with the pool, over lock-free queues.
#![allow(unsafe_code)]

use crate::owner::{CHECKED, Owners};
use crossbeam_queue::ArrayQueue;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::{fs, mm};
use std::io;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError};
use wire::batch::Frames;

/// Bytes before the data of a fresh packet: room for the headers that encapsulation
/// prepends.
pub const HEADROOM: usize = 256;
/// Bytes of packet data that a buffer takes.
pub const DATA_SIZE: usize = 2048;
/// Bytes after the data area that kernels may read, never write.
const TAIL_GUARD: usize = 64;
/// Distance of two buffers: 37 cache lines.
pub const STRIDE: usize = HEADROOM + DATA_SIZE + TAIL_GUARD;
const _: () = assert!(STRIDE.is_multiple_of(64) && (STRIDE / 64) % 2 == 1);

/// Longest chain of buffers that makes one packet: 64 KiB of segmentation offload.
pub const MAX_SEGMENTS: usize = 36;
/// Buffers exchanged with the pool at a time.
const MAGAZINE: usize = 256;
/// A peer that gets the pool's file cannot change its size, and so cannot take memory away.
const SEALS: fs::SealFlags = fs::SealFlags::SHRINK.union(fs::SealFlags::GROW).union(fs::SealFlags::SEAL);
/// Least and most buffers that a pool can have.
pub const MIN_BUFFERS: u32 = 1024;
pub const MAX_BUFFERS: u32 = 1 << 24;

/// Names a packet by its first buffer. Only pools make them, so there is no default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct PacketIndex(pub(crate) u32);

impl PacketIndex {
    /// Names no packet: for places to be filled. Any use of it panics.
    pub const NONE: PacketIndex = PacketIndex(u32::MAX);

    pub fn as_u32(self) -> u32 {
        self.0
    }
    /// A slice of indices as the plain numbers that kernels take.
    pub fn as_numbers(indices: &[PacketIndex]) -> &[u32] {
        // SAFETY: PacketIndex is a transparent u32.
        unsafe { std::slice::from_raw_parts(indices.as_ptr().cast(), indices.len()) }
    }
}

/// What is left for a device to finish in a packet: the virtio-net header's fields. Offsets count from the network
/// header, the row's `l3`, so that they stay true when nodes change, add or remove link headers. So a node that passes
/// such a packet on must have set `l3` there, as `ethernet-input` does. (A packet that was only received has its `l3`
/// at the link header.)
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offload {
    /// Where summing starts for a partial checksum, from the network header.
    pub checksum_start: u16,
    /// Where the checksum goes, counted from `checksum_start`.
    pub checksum_offset: u16,
    /// Payload bytes of each segment when the packet is to be segmented, else 0.
    pub segment_size: u16,
    /// Bytes from the network header to the payload that is segmented.
    pub header_length: u16,
    pub kind: Segmentation,
}

/// How a packet longer than the MTU is to be cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Segmentation {
    #[default]
    None,
    Tcp4,
    /// TCP with ECN: CWR stays on the first segment only (RFC 3168 6.1.2).
    Tcp4Ecn,
    /// UDP over either version of IP, into datagrams of their own (not fragments).
    Udp4,
    /// IPv6 TCP passes through between devices that both do it.
    Tcp6,
}

/// One buffer's part in a packet. Private memory; valid for buffers in use.
#[derive(Debug, Clone, Copy, Default)]
pub struct Segment {
    /// The next buffer of the chain plus one; 0 ends it.
    next: u32,
    /// Where this segment's bytes start in the buffer (unused for the first of a
    /// packet, whose offset is metadata).
    pub offset: u16,
    /// Bytes in this segment.
    pub length: u16,
    /// Names the packet in the trace, if it is traced.
    pub trace: u32,
    pub offload: Offload,
}

impl Segment {
    pub fn next(&self) -> Option<PacketIndex> {
        self.next.checked_sub(1).map(PacketIndex)
    }
    pub fn set_next(&mut self, next: Option<PacketIndex>) {
        self.next = next.map_or(0, |index| index.0 + 1);
    }
}

/// The numbers below `count`, in an order that keeps successive ones far apart. Buffers of two workers must not lie
/// side by side: a processor that sees buffers used in turn prefetches the next ones, and so takes cache lines away
/// from the other worker.
fn apart(count: u32) -> impl Iterator<Item = u32> {
    let bits = count.next_power_of_two().trailing_zeros();
    (0..1 << bits).map(move |n: u32| n.reverse_bits().unbounded_shr(u32::BITS - bits)).filter(move |n| *n < count)
}

/// A mapping that is unmapped when dropped.
struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

impl Mapping {
    fn shared(file: &OwnedFd, length: usize) -> io::Result<Mapping> {
        let access = mm::ProtFlags::READ | mm::ProtFlags::WRITE;
        let flags = mm::MapFlags::SHARED | mm::MapFlags::NORESERVE;
        // SAFETY: a fresh mapping at an address of the kernel's choice overlaps nothing.
        let base = unsafe { mm::mmap(std::ptr::null_mut(), length, access, flags, file, 0)? };
        Ok(Mapping { base: NonNull::new(base.cast()).expect("mmap gives no null"), length })
    }
    fn private(length: usize) -> io::Result<Mapping> {
        let access = mm::ProtFlags::READ | mm::ProtFlags::WRITE;
        let flags = mm::MapFlags::PRIVATE | mm::MapFlags::NORESERVE;
        // SAFETY: as above.
        let base = unsafe { mm::mmap_anonymous(std::ptr::null_mut(), length, access, flags)? };
        Ok(Mapping { base: NonNull::new(base.cast()).expect("mmap gives no null"), length })
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this mapping is ours and its users are gone with it.
        let _ = unsafe { mm::munmap(self.base.as_ptr().cast(), self.length) };
    }
}

/// A set of buffers that workers share.
pub struct Pool {
    data: Mapping,
    /// The file that `data` maps.
    file: OwnedFd,
    segments: Mapping,
    /// Whose each buffer is, in builds that check it.
    owners: Owners,
    capacity: u32,
    /// Whether the buffers lie on huge pages.
    pub huge: bool,
    /// Full magazines, and empty ones to fill.
    full: ArrayQueue<Box<[PacketIndex; MAGAZINE]>>,
    empty: ArrayQueue<Box<[PacketIndex; MAGAZINE]>>,
    returned: Mutex<Returned>,
}

/// Buffers that came back from devices that are closed.
#[derive(Default)]
struct Returned {
    /// Fewer than make a magazine.
    loose: Vec<PacketIndex>,
    total: u64,
}

// SAFETY: the mappings are plain memory. A buffer and its segment are touched only by
// the worker that holds its index, which moves between workers over channels that order
// memory (ArrayQueue); see the contract of `Buffers`.
unsafe impl Send for Pool {}
// SAFETY: as above; `&Pool` itself gives access to queues and constants only.
unsafe impl Sync for Pool {}

impl Pool {
    /// A pool of `buffers` buffers, rounded up to whole magazines. With `huge`, 2 MiB
    /// pages are used when the system has some reserved, else plain pages. Memory is
    /// only taken from the system when a buffer is first used.
    ///
    /// # Errors
    /// When `buffers` is out of range or the system refuses the mapping.
    pub fn new(buffers: u32, huge: bool) -> io::Result<Arc<Pool>> {
        if !(MIN_BUFFERS..=MAX_BUFFERS).contains(&buffers) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{buffers} buffers: must be {MIN_BUFFERS} to {MAX_BUFFERS}"),
            ));
        }
        let capacity = buffers.next_multiple_of(MAGAZINE as u32);
        let (data, file, huge) = Pool::map_data(capacity as usize * STRIDE, huge)?;
        let segments = Mapping::private(capacity as usize * size_of::<Segment>())?;
        let magazines = capacity as usize / MAGAZINE;
        let pool = Pool {
            data,
            file,
            segments,
            owners: Owners::new(capacity),
            capacity,
            huge,
            full: ArrayQueue::new(magazines),
            empty: ArrayQueue::new(magazines),
            returned: Mutex::default(),
        };
        for magazine in apart(capacity / MAGAZINE as u32) {
            let indices = std::array::from_fn(|i| PacketIndex(magazine * MAGAZINE as u32 + i as u32));
            pool.full.push(Box::new(indices)).expect("sized for all magazines");
        }
        Ok(Arc::new(pool))
    }

    fn map_data(length: usize, huge: bool) -> io::Result<(Mapping, OwnedFd, bool)> {
        const HUGE_PAGE: usize = 2 << 20;
        if huge {
            let flags = fs::MemfdFlags::CLOEXEC | fs::MemfdFlags::ALLOW_SEALING | fs::MemfdFlags::HUGETLB;
            let length = length.next_multiple_of(HUGE_PAGE);
            if let Ok(file) = fs::memfd_create("quiver-buffers", flags)
                && fs::ftruncate(&file, length as u64).is_ok()
                // Without a reservation a page fault could end the process later.
                && fs::fallocate(&file, fs::FallocateFlags::empty(), 0, length as u64).is_ok()
                && fs::fcntl_add_seals(&file, SEALS).is_ok()
                && let Ok(mapping) = Mapping::shared(&file, length)
            {
                return Ok((mapping, file, true));
            }
        }
        let file = fs::memfd_create("quiver-buffers", fs::MemfdFlags::CLOEXEC | fs::MemfdFlags::ALLOW_SEALING)?;
        fs::ftruncate(&file, length as u64)?;
        fs::fcntl_add_seals(&file, SEALS)?;
        Ok((Mapping::shared(&file, length)?, file, false))
    }

    /// Bytes of a buffer from `offset` on, as they are now: the worker that holds it may be writing to it. For reports
    /// about packets in which a worker is stuck. The kernel copies the bytes, so this is no data race.
    pub fn peek(&self, index: PacketIndex, offset: usize, most: usize) -> Vec<u8> {
        let mut bytes = vec![0; most.min(STRIDE.saturating_sub(offset))];
        if index.0 >= self.capacity {
            return Vec::new();
        }
        let place = (index.0 as usize * STRIDE + offset) as u64;
        let read = rustix::io::pread(&self.file, &mut bytes[..], place).unwrap_or(0);
        bytes.truncate(read);
        bytes
    }

    pub fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Buffers that lie in the pool itself, not in a worker's cache or a packet.
    pub fn available(&self) -> usize {
        self.full.len() * MAGAZINE
    }

    /// Where all buffers lie, side by side from number 0 on, [`STRIDE`] bytes each: for devices that get them all.
    pub fn memory(&self) -> (NonNull<u8>, usize) {
        (self.data.base, self.capacity as usize * STRIDE)
    }

    /// The file that all buffers lie in, for a peer that gets them all. Its size cannot be changed.
    pub fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Takes back buffers that no worker has.
    pub(crate) fn give_back(&self, packets: &[PacketIndex]) {
        let mut returned = self.returned.lock().unwrap_or_else(PoisonError::into_inner);
        returned.total += packets.len() as u64;
        for &packet in packets {
            // SAFETY: in bounds by `segment`; the device that had the buffer is closed, and nothing else refers to it.
            let segment = unsafe { &mut *self.segment(packet) };
            segment.set_next(None);
            self.owners.give_back(packet.0);
            returned.loose.push(packet);
            if let Some(magazine) = returned.loose.last_chunk::<MAGAZINE>() {
                self.full.push(Box::new(*magazine)).expect("sized for all magazines");
                returned.loose.clear();
            }
        }
    }

    /// How many buffers ever came back that way: workers still count them as in use.
    pub fn returned(&self) -> u64 {
        self.returned.lock().unwrap_or_else(PoisonError::into_inner).total
    }

    pub(crate) fn owners(&self) -> &Owners {
        &self.owners
    }

    #[inline]
    fn data(&self, index: PacketIndex) -> *mut u8 {
        assert!(index.0 < self.capacity, "packet of another pool");
        // SAFETY: below the capacity, for which the mapping was sized.
        unsafe { self.data.base.as_ptr().add(index.0 as usize * STRIDE) }
    }

    #[inline]
    fn segment(&self, index: PacketIndex) -> *mut Segment {
        assert!(index.0 < self.capacity, "packet of another pool");
        // SAFETY: as for `data`. Zeroed memory is a valid Segment (all fields are plain
        // integers, `Segmentation::None` is 0).
        unsafe { self.segments.base.cast::<Segment>().as_ptr().add(index.0 as usize) }
    }
}

/// In which order buffers are reused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reuse {
    /// The one freed last comes first: it is still in the cache.
    LastFreed,
    /// All take turns: for measurements of packets that are not in the cache.
    OldestFreed,
}

/// A worker's hold on a pool: its cache of free buffers and access to the packets
/// whose index it has.
///
/// Contract: an index is used only between its allocation (or its arrival in a vector)
/// and its release or departure. Through `&mut self` only one packet's bytes can be
/// borrowed at a time, so slices never alias inside a worker; between workers an index
/// moves, it is never copied. Builds that check ([`crate::owner`]) panic when a buffer is touched that is not this
/// worker's.
pub struct Buffers {
    pool: Arc<Pool>,
    /// Its number among the owners of buffers.
    owner: u32,
    /// Ring of free indices: `head..tail`, by `mask`.
    free: Box<[PacketIndex]>,
    mask: usize,
    head: usize,
    tail: usize,
    reuse: Reuse,
    /// Free buffers beyond this number go back to the pool.
    limit: usize,
    /// Buffers given out and taken back, ever.
    pub allocated: u64,
    pub freed: u64,
}

impl Buffers {
    /// A cache that keeps at most `limit` free buffers for itself.
    pub fn new(pool: &Arc<Pool>, limit: usize) -> Buffers {
        let slots = (pool.capacity as usize).next_power_of_two();
        Buffers {
            pool: pool.clone(),
            owner: pool.owners.add("a holder of buffers"),
            free: vec![PacketIndex(0); slots].into(),
            mask: slots - 1,
            head: 0,
            tail: 0,
            reuse: Reuse::LastFreed,
            limit: limit.max(2 * MAGAZINE),
            allocated: 0,
            freed: 0,
        }
    }

    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }

    /// Names this worker for reports.
    pub fn set_owner_name(&mut self, name: &str) {
        self.pool.owners.rename(self.owner, name);
    }

    /// A packet goes to another worker, with all its buffers.
    #[inline(always)]
    pub(crate) fn send_away(&self, packet: PacketIndex) {
        if CHECKED {
            let chain = std::iter::successors(Some(packet), |at| self.segment(*at).next());
            chain.for_each(|buffer| self.pool.owners.send(buffer.0));
        }
    }

    pub fn set_reuse(&mut self, reuse: Reuse) {
        self.reuse = reuse;
    }

    /// Free buffers in this cache.
    pub fn cached(&self) -> usize {
        self.tail - self.head
    }

    /// Buffers that this worker has given out and not taken back.
    pub fn in_use(&self) -> u64 {
        self.allocated.wrapping_sub(self.freed)
    }

    #[cold]
    fn refill(&mut self) -> bool {
        let Some(magazine) = self.pool.full.pop() else {
            return false;
        };
        self.put_free(&magazine[..]);
        let _ = self.pool.empty.push(magazine);
        true
    }

    #[cold]
    fn spill(&mut self) {
        while self.cached() > self.limit {
            let mut magazine = self.pool.empty.pop().unwrap_or_else(|| Box::new([PacketIndex(0); MAGAZINE]));
            self.take_free(&mut magazine[..]);
            self.pool.full.push(magazine).expect("sized for all magazines");
        }
    }

    /// Takes `out.len()` indices off the ring, which must have as many.
    #[inline]
    fn take_free(&mut self, out: &mut [PacketIndex]) {
        let start = match self.reuse {
            Reuse::LastFreed => {
                self.tail -= out.len();
                self.tail
            }
            Reuse::OldestFreed => {
                self.head += out.len();
                self.head - out.len()
            }
        } & self.mask;
        let until_wrap = out.len().min(self.free.len() - start);
        let (first, second) = out.split_at_mut(until_wrap);
        first.copy_from_slice(&self.free[start..start + first.len()]);
        second.copy_from_slice(&self.free[..second.len()]);
    }

    #[inline]
    fn put_free(&mut self, packets: &[PacketIndex]) {
        assert!(self.cached() + packets.len() <= self.free.len(), "a buffer was freed twice");
        let start = self.tail & self.mask;
        let until_wrap = packets.len().min(self.free.len() - start);
        let (first, second) = packets.split_at(until_wrap);
        self.free[start..start + first.len()].copy_from_slice(first);
        self.free[..second.len()].copy_from_slice(second);
        self.tail += packets.len();
    }

    /// Fills `out` with fresh single buffers as far as there are any. Returns how many.
    #[inline]
    pub fn allocate(&mut self, out: &mut [PacketIndex]) -> usize {
        while self.cached() < out.len() {
            if !self.refill() {
                break;
            }
        }
        let count = out.len().min(self.cached());
        self.take_free(&mut out[..count]);
        self.allocated += count as u64;
        if CHECKED {
            out[..count].iter().for_each(|index| self.pool.owners.take(index.0, self.owner));
        }
        count
    }

    /// Passes on up to `n` fresh buffers, one by one. Returns how many there were.
    #[inline]
    pub fn each_fresh(&mut self, n: usize, mut take: impl FnMut(PacketIndex)) -> usize {
        /// Most that are allocated at once: a caller that needs few does not clear an array for many.
        const SOME: usize = 32;
        let mut done = 0;
        while done < n {
            let mut fresh = [PacketIndex::NONE; SOME];
            let wanted = (n - done).min(SOME);
            let got = self.allocate(&mut fresh[..wanted]);
            fresh[..got].iter().for_each(|packet| take(*packet));
            done += got;
            if got < wanted {
                break;
            }
        }
        done
    }

    /// One fresh buffer with an empty segment.
    pub fn allocate_one(&mut self) -> Option<PacketIndex> {
        let mut one = [PacketIndex(0)];
        (self.allocate(&mut one) == 1).then(|| {
            *self.segment_mut(one[0]) = Segment::default();
            one[0]
        })
    }

    /// Takes back single buffers (packets without a chain).
    #[inline]
    pub fn free(&mut self, packets: &[PacketIndex]) {
        if CHECKED {
            packets.iter().for_each(|index| self.pool.owners.put(index.0, self.owner));
        }
        self.put_free(packets);
        self.freed += packets.len() as u64;
        if self.cached() > self.limit {
            self.spill();
        }
    }

    /// Takes back a packet and all buffers of its chain.
    pub fn free_chain(&mut self, packet: PacketIndex) {
        let mut at = Some(packet);
        while let Some(index) = at {
            let segment = self.segment_mut(index);
            at = segment.next();
            segment.set_next(None);
            self.free(&[index]);
        }
    }

    /// The whole buffer: headroom, data and tail guard. Packet offsets count from its
    /// start.
    #[inline]
    pub fn bytes(&self, packet: PacketIndex) -> &[u8; STRIDE] {
        self.pool.owners.check(packet.0, self.owner);
        // SAFETY: in bounds by `data`; no other worker touches the buffer (contract above).
        unsafe { &*self.pool.data(packet).cast() }
    }

    #[inline]
    pub fn bytes_mut(&mut self, packet: PacketIndex) -> &mut [u8; STRIDE] {
        self.pool.owners.check(packet.0, self.owner);
        // SAFETY: as above, and `&mut self` excludes any other slice.
        unsafe { &mut *self.pool.data(packet).cast() }
    }

    #[inline]
    pub fn segment(&self, packet: PacketIndex) -> &Segment {
        self.pool.owners.check(packet.0, self.owner);
        // SAFETY: in bounds by `segment`; no other worker touches it (contract above).
        unsafe { &*self.pool.segment(packet) }
    }

    #[inline]
    pub fn segment_mut(&mut self, packet: PacketIndex) -> &mut Segment {
        self.pool.owners.check(packet.0, self.owner);
        // SAFETY: as above, and `&mut self` excludes any other reference.
        unsafe { &mut *self.pool.segment(packet) }
    }

    /// Two packets' buffers at once, to copy between them.
    ///
    /// # Panics
    /// When both are the same.
    pub fn pair_mut(&mut self, from: PacketIndex, to: PacketIndex) -> (&[u8; STRIDE], &mut [u8; STRIDE]) {
        assert_ne!(from, to);
        [from, to].iter().for_each(|packet| self.pool.owners.check(packet.0, self.owner));
        // SAFETY: different indices are disjoint memory; else as `bytes_mut`.
        unsafe { (&*self.pool.data(from).cast(), &mut *self.pool.data(to).cast()) }
    }

    /// Asks for the cache line of a packet at an offset, to be written.
    #[inline(always)]
    pub(crate) fn prefetch_to_write(&self, packet: PacketIndex, offset: u16) {
        let line = self.pool.data(packet).wrapping_add(usize::from(offset));
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint, which reads and writes nothing whatever the address; processors without it do nothing.
        unsafe {
            std::arch::asm!("prefetchw [{line}]", line = in(reg) line, options(nostack, readonly, preserves_flags));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }

    /// The packet heads of a vector for the kernels of [`wire::batch`].
    ///
    /// # Panics
    /// When an offset leaves fewer than 64 bytes before or after it: then a node wrote nonsense into the metadata.
    #[inline]
    pub fn frames<'a>(&'a mut self, packets: &'a [PacketIndex], offsets: &'a [u16]) -> Frames<'a> {
        const FIRST: u16 = 64;
        const LAST: u16 = (STRIDE - TAIL_GUARD) as u16;
        assert_eq!(packets.len(), offsets.len());
        let highest = packets.iter().fold(0, |highest, packet| highest.max(packet.0));
        assert!(highest < self.pool.capacity, "packet of another pool");
        if CHECKED {
            packets.iter().for_each(|packet| self.pool.owners.check(packet.0, self.owner));
        }
        let (mut least, mut most) = (u16::MAX, 0);
        for &offset in offsets {
            least = least.min(offset);
            most = most.max(offset);
        }
        assert!(offsets.is_empty() || (least >= FIRST && most <= LAST), "packet offset out of its buffer");
        // SAFETY: indices are in the pool (only pools make them) and, by the contract of
        // this type, distinct and ours while borrowed. `offset - 64 .. offset + 64` is in
        // the buffer as just checked.
        unsafe { Frames::new(self.pool.data.base.as_ptr(), STRIDE, PacketIndex::as_numbers(packets), offsets) }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        // Whole magazines of the cache return. A rest of fewer buffers, and buffers in packets, are lost with their
        // owner.
        self.limit = 0;
        while self.cached() >= MAGAZINE {
            self.spill_one();
        }
    }
}

impl Buffers {
    fn spill_one(&mut self) {
        let mut magazine = Box::new([PacketIndex(0); MAGAZINE]);
        self.take_free(&mut magazine[..]);
        let _ = self.pool.full.push(magazine);
    }
}

#[cfg(test)]
mod tests;
