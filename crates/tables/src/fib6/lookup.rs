//! The data side: from addresses to leaves, a vector at a time.
//!
//! All addresses of a batch take one step, then all that are not done take the next, so that the cache misses of a step
//! overlap: each prefetches the line that its next step reads. A step has no branch that depends on the address: it
//! computes the result for a line of each kind, and selects one by the kind.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;

use super::lines::{DEPTH_SHIFT, HALF, KIND_SHIFT, LINE, Lines, MISS, MOST_LINES, NODE, ROOT_SLOTS, Root};
use super::ranges::{self, Ranges};
use crate::alike::is_one_value;
use crate::kernel::Kernel;
use crate::leaf::Leaf;
use crate::memory::{prefetch, prefetch_far};
use rcu::{Domain, Published, Round};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Where lookups begin.
pub(super) struct Start {
    pub root: Arc<Root>,
    /// The ranges of a small table, computed from the tree under the root.
    pub ranges: Option<Ranges>,
}

impl Start {
    #[inline]
    pub fn entry(&self, address: u128) -> u32 {
        match &self.ranges {
            Some(ranges) => ranges.find((address >> 64) as u64),
            None => self.root.slot(address).load(Ordering::Acquire),
        }
    }
}

/// What both sides share. As for IPv4, the default route is a word of its own, with a generation in its upper half that
/// shows whether it changed while slots were read.
pub(super) struct Table {
    pub start: Published<Arc<Start>>,
    pub lines: Lines,
    default: AtomicU64,
}

/// Addresses resolved together: one vector.
const BLOCK: usize = 256;

impl Table {
    pub fn new(domain: &Arc<Domain>, start: Arc<Start>) -> io::Result<Table> {
        let start = Published::new(domain, start);
        Ok(Table { start, lines: Lines::new()?, default: AtomicU64::new(MISS.into()) })
    }

    /// For the single writer only.
    pub fn set_default(&self, leaf: Leaf) {
        let generation = (self.default.load(Ordering::Relaxed) >> 32) + 1;
        self.default.store(generation << 32 | u64::from(leaf.0), Ordering::Release);
    }

    pub fn default(&self) -> Leaf {
        Leaf(self.default.load(Ordering::Acquire) as u32)
    }

    /// Looks up without the default route: MISS if nothing longer matches.
    fn but_default(&self, round: &Round<'_>, address: u128) -> u32 {
        self.lines.follow(self.start.load(round).entry(address), address)
    }

    fn lookup(&self, round: &Round<'_>, address: u128) -> u32 {
        loop {
            let default = self.default.load(Ordering::Acquire);
            let leaf = self.but_default(round, address);
            if leaf != MISS {
                return leaf;
            }
            fence(Ordering::Acquire);
            if self.default.load(Ordering::Relaxed) == default {
                return default as u32;
            }
        }
    }

    fn lookup_block(&self, round: &Round<'_>, kernel: Kernel, addresses: &[u128], leaves: &mut [u32]) {
        // One flow, or many flows to one host.
        if is_one_value(addresses) {
            return leaves.fill(addresses.first().map_or(MISS, |address| self.lookup(round, *address)));
        }
        loop {
            let default = self.default.load(Ordering::Acquire);
            resolve(kernel, self.start.load(round), &self.lines, addresses, leaves);
            if !leaves.contains(&MISS) {
                return;
            }
            // Read the slots before reading the default route again.
            fence(Ordering::Acquire);
            if self.default.load(Ordering::Relaxed) == default {
                return leaves.iter_mut().filter(|leaf| **leaf == MISS).for_each(|leaf| *leaf = default as u32);
            }
        }
    }
}

/// Writes the leaf of each address of up to a block, MISS included.
#[inline]
fn resolve(kernel: Kernel, start: &Start, lines: &Lines, addresses: &[u128], leaves: &mut [u32]) {
    assert!(addresses.len() == leaves.len() && leaves.len() <= BLOCK);
    match kernel {
        // SAFETY: `with_kernel` and `Kernel::chosen` return only kernels that the processor supports.
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 => unsafe { avx512::resolve(start, lines, addresses, leaves) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => unsafe { avx2::resolve(start, lines, addresses, leaves) },
        _ => walk(start, lines, addresses, leaves),
    }
}

/// Finds the slots of addresses, if the root is a large one, and prefetches them: the directory is in the cache, slots
/// are not.
#[inline]
fn find_slots<'a>(root: &'a Root, addresses: &[u128], found: &mut [u32]) -> Option<&'a [AtomicU32; ROOT_SLOTS]> {
    let (directory, slots) = root.large_parts()?;
    for (address, found) in addresses.iter().zip(found) {
        let upper = (address >> 64) as u64;
        let slot = Root::slot_in(directory, upper);
        prefetch(&slots[slot]);
        *found = slot as u32;
    }
    Some(slots)
}

/// The entry in a slot that [`find_slots`] found.
#[inline(always)]
fn read_slot(slots: &[AtomicU32; ROOT_SLOTS], slot: u32) -> u32 {
    slots[slot as usize & (ROOT_SLOTS - 1)].load(Ordering::Acquire)
}

/// The walk in portable code.
#[inline(always)]
fn walk(start: &Start, lines: &Lines, addresses: &[u128], leaves: &mut [u32]) {
    let mut under_way = [0u8; BLOCK];
    let mut count = 0;
    if let Some(ranges) = &start.ranges {
        for (at, (address, leaf)) in addresses.iter().zip(&mut *leaves).enumerate() {
            let entry = ranges.find((address >> 64) as u64);
            *leaf = entry;
            under_way[count & (BLOCK - 1)] = at as u8;
            count += usize::from(entry >= NODE);
        }
    } else if let Some(slots) = find_slots(&start.root, addresses, leaves) {
        for (at, (address, leaf)) in addresses.iter().zip(&mut *leaves).enumerate() {
            let entry = read_slot(slots, *leaf);
            *leaf = entry;
            lines.ask(entry, *address);
            under_way[count & (BLOCK - 1)] = at as u8;
            count += usize::from(entry >= NODE);
        }
    } else {
        let entry = start.root.slots[0].load(Ordering::Acquire);
        leaves.fill(entry);
        if entry >= NODE {
            count = addresses.len();
            under_way[..count].iter_mut().enumerate().for_each(|(at, lane)| *lane = at as u8);
        }
    }
    while count > 0 {
        let mut left = 0;
        for at in 0..count {
            let lane = usize::from(under_way[at & (BLOCK - 1)]);
            let entry = lines.step(leaves[lane], addresses[lane]);
            leaves[lane] = entry;
            lines.ask(entry, addresses[lane]);
            under_way[left & (BLOCK - 1)] = lane as u8;
            left += usize::from(entry >= NODE);
        }
        count = left;
    }
}

/// The data side of a [`super::Fib6`]: a handle that any worker may hold and clone.
#[derive(Clone)]
pub struct Lookup6 {
    table: Arc<Table>,
    kernel: Kernel,
}

impl Lookup6 {
    pub(super) fn new(table: Arc<Table>) -> Lookup6 {
        Lookup6 { table, kernel: Kernel::chosen() }
    }

    /// The same table read with other instructions; `None` when the processor lacks them.
    pub fn with_kernel(&self, kernel: Kernel) -> Option<Lookup6> {
        kernel.supported().then(|| Lookup6 { table: self.table.clone(), kernel })
    }

    /// The leaf of the longest prefix that covers `address` (host order), or
    /// [`Leaf::MISS`]. What the leaf names stays valid for the round.
    #[inline]
    pub fn lookup(&self, round: &Round<'_>, address: u128) -> Leaf {
        Leaf(self.table.lookup(round, address))
    }

    /// Writes the leaf of each address (host order), as [`Lookup6::lookup`] finds it.
    ///
    /// # Panics
    /// When there are fewer `leaves` than addresses.
    #[inline]
    pub fn lookup_batch(&self, round: &Round<'_>, addresses: &[u128], leaves: &mut [u32]) {
        assert_eq!(addresses.len(), leaves.len());
        for (addresses, leaves) in addresses.chunks(BLOCK).zip(leaves.chunks_mut(BLOCK)) {
            self.table.lookup_block(round, self.kernel, addresses, leaves);
        }
    }

    /// As [`Lookup6::lookup_batch`], but without the default route: an address that no longer prefix covers is
    /// [`Leaf::MISS`].
    #[inline]
    pub fn lookup_batch_but_default(&self, round: &Round<'_>, addresses: &[u128], leaves: &mut [u32]) {
        assert_eq!(addresses.len(), leaves.len());
        for (addresses, leaves) in addresses.chunks(BLOCK).zip(leaves.chunks_mut(BLOCK)) {
            resolve(self.kernel, self.table.start.load(round), &self.table.lines, addresses, leaves);
        }
    }

    /// The default route's leaf, or [`Leaf::MISS`].
    #[inline]
    pub fn default_route(&self, _round: &Round<'_>) -> Leaf {
        self.table.default()
    }
}
