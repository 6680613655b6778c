//! The data side: from addresses to leaves, a vector at a time.
//!
//! A batch is resolved in stages, so that the cache misses of one stage overlap:
//! prefetch the first-level slots well ahead, read them, then the second-level slots
//! of the lanes that need one, and last give the default route to the lanes that
//! found nothing. Results stay in a local array until the end, because a default route
//! that changed meanwhile means that the addresses are needed again (see `Table`).

use super::ranges::Ranges;
use crate::alike::is_one_value;
use crate::kernel::Kernel;
use crate::leaf::Leaf;
use crate::memory::{Pages, Reserved, prefetch, prefetch_far};
use rcu::{Domain, Published, Round};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering, fence};

/// One slot for each value of the upper 24 bits of an address.
pub(super) const FIRST_LEVEL_SLOTS: usize = 1 << 24;
/// One slot for each value of the lower 8 bits of an address.
pub(super) const PAGE_SLOTS: usize = 1 << 8;
/// The low bits of an address that index a second-level page.
pub(super) const PAGE_MASK: u32 = PAGE_SLOTS as u32 - 1;
/// Nothing here: the default route decides.
pub(super) const MISS: u32 = 0;
/// Slots from this value up (classes from 0xf0 on) continue in a second-level page. The lower bits are the number of
/// the first slot of that page, so that OR-ing the low 8 bits of the address gives the slot to read.
pub(super) const CONTINUED: u32 = 15 << 28;
/// The slot number in a continued slot.
pub(super) const SLOT_MASK: u32 = !CONTINUED;

/// Addresses resolved together: one vector.
const BLOCK: usize = 256;
/// Fewer addresses than this are looked up one by one: no kernel would be full.
const SMALLEST_BLOCK: usize = 16;

/// The large form: a slot for each /24, continued in a page of slots where longer prefixes are.
///
/// Invariant for the kernels: `first` has [`FIRST_LEVEL_SLOTS`] slots, and a slot that
/// is [`CONTINUED`] names the first of [`PAGE_SLOTS`] slots inside `second`.
pub(super) struct Slots {
    pub(super) first: Reserved<AtomicU32>,
    pub(super) second: Reserved<AtomicU32>,
    /// The table is larger than the caches. A hint: it changes how slots are prefetched, not what they hold.
    pub(super) is_far: AtomicBool,
}

impl Slots {
    pub(super) fn new(second_level_pages: u32, pages: Pages) -> io::Result<Slots> {
        Ok(Slots {
            first: Reserved::new(FIRST_LEVEL_SLOTS, pages)?,
            second: Reserved::new(second_level_pages.max(1) as usize * PAGE_SLOTS, pages)?,
            is_far: AtomicBool::new(false),
        })
    }

    /// Prefetches the slot of an address.
    #[inline]
    pub(super) fn prefetch(&self, address: u32) {
        prefetch(&self.first_level()[(address >> 8) as usize]);
    }

    /// What the slots say of an address: MISS when only the default route is left.
    pub(super) fn slot(&self, address: u32) -> u32 {
        let leaf = self.first_level()[(address >> 8) as usize].load(Ordering::Acquire);
        if leaf < CONTINUED {
            return leaf;
        }
        let slot = leaf & SLOT_MASK | address & PAGE_MASK;
        self.second[slot as usize].load(Ordering::Acquire)
    }

    /// Writes the leaf of each address, MISS included. Returns whether there was a MISS.
    #[inline]
    fn resolve(&self, kernel: Kernel, addresses: &[u32], leaves: &mut [u32]) -> bool {
        assert!(addresses.len() == leaves.len() && leaves.len() >= SMALLEST_BLOCK);
        match kernel {
            Kernel::Scalar => scalar::resolve(self, addresses, leaves),
            // SAFETY: such a kernel is only chosen when the processor has it
            // (`Kernel::supported`); lengths were checked above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => unsafe { avx2::resolve(self, addresses, leaves) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512 => unsafe { avx512::resolve(self, addresses, leaves) },
            #[cfg(not(target_arch = "x86_64"))]
            Kernel::Avx2 | Kernel::Avx512 => unreachable!("not supported here"),
        }
    }
}

/// What a table is made of at present.
pub(super) enum Form {
    Slots(Arc<Slots>),
    Ranges(Ranges),
}

impl Form {
    /// What it says of one address: MISS when only the default route is left.
    fn leaf(&self, address: u32) -> u32 {
        match self {
            Form::Slots(slots) => slots.slot(address),
            Form::Ranges(ranges) => ranges.lookup(address),
        }
    }

    /// Writes the leaf of each address, MISS included. Returns whether there was a MISS.
    #[inline]
    fn resolve(&self, kernel: Kernel, addresses: &[u32], leaves: &mut [u32]) -> bool {
        match self {
            Form::Slots(slots) => slots.resolve(kernel, addresses, leaves),
            Form::Ranges(ranges) => ranges.resolve(addresses, leaves),
        }
    }
}

/// What both sides share. The writer stores with Release, so a reader that finds a leaf also finds what the leaf names,
/// and a reader that finds a page finds it filled.
///
/// Most addresses find a slot that decides alone. A MISS reads two words, slot and default route, and two updates may
/// pass between the two reads (add 10/8, remove 0/0: the old slot and the new default together would say "no route",
/// which was never true). So the default carries a generation, is read before and after the slots, and the lookup
/// starts over when it changed.
pub(super) struct Table {
    pub(super) form: Published<Form>,
    /// Generation in the upper half, leaf in the lower.
    default: AtomicU64,
}

impl Table {
    pub(super) fn new(domain: &Arc<Domain>, form: Form) -> Table {
        Table { form: Published::new(domain, form), default: AtomicU64::new(MISS.into()) }
    }

    /// Called by the one writer only.
    pub(super) fn set_default(&self, leaf: Leaf) {
        let generation = (self.default.load(Ordering::Relaxed) >> 32) + 1;
        let word = generation << 32 | u64::from(leaf.0);
        self.default.store(word, Ordering::Release);
    }

    /// The default route's leaf.
    pub(super) fn default(&self) -> Leaf {
        Leaf(self.default.load(Ordering::Acquire) as u32)
    }

    fn lookup(&self, round: &Round<'_>, address: u32) -> u32 {
        loop {
            let default = self.default.load(Ordering::Acquire);
            let leaf = self.form.load(round).leaf(address);
            if leaf != MISS {
                return leaf;
            }
            if self.default.load(Ordering::Relaxed) == default {
                return default as u32;
            }
        }
    }

    fn lookup_block(&self, round: &Round<'_>, kernel: Kernel, addresses: &mut [u32]) {
        if addresses.len() < SMALLEST_BLOCK {
            for address in addresses {
                *address = self.lookup(round, *address);
            }
            return;
        }
        // One flow, or many to one host.
        if is_one_value(addresses) {
            return addresses.fill(self.lookup(round, addresses[0]));
        }
        let mut staged = [0; BLOCK];
        let leaves = &mut staged[..addresses.len()];
        // Each further turn needs another change of the default route in between.
        loop {
            let default = self.default.load(Ordering::Acquire);
            let missed = self.form.load(round).resolve(kernel, addresses, leaves);
            if !missed {
                addresses.copy_from_slice(leaves);
                return;
            }
            // The slots are read before the default is read again.
            fence(Ordering::Acquire);
            if self.default.load(Ordering::Relaxed) == default {
                for (address, leaf) in addresses.iter_mut().zip(leaves) {
                    *address = if *leaf == MISS { default as u32 } else { *leaf };
                }
                return;
            }
        }
    }
}

/// The data side of a [`super::Fib4`]: a handle that any worker may hold and clone.
#[derive(Clone)]
pub struct Lookup4 {
    table: Arc<Table>,
    kernel: Kernel,
}

impl Lookup4 {
    pub(super) fn new(table: Arc<Table>) -> Lookup4 {
        Lookup4 { table, kernel: Kernel::chosen() }
    }

    /// The same table read by another kernel; `None` when the processor lacks it.
    pub fn with_kernel(&self, kernel: Kernel) -> Option<Lookup4> {
        kernel.supported().then(|| Lookup4 { table: self.table.clone(), kernel })
    }

    /// Which kernel [`Lookup4::lookup_batch`] uses.
    pub fn kernel(&self) -> Kernel {
        self.kernel
    }

    /// The leaf of the longest prefix that covers `address` (host order), or
    /// [`Leaf::MISS`]. What the leaf names stays valid for the round.
    #[inline]
    pub fn lookup(&self, round: &Round<'_>, address: u32) -> Leaf {
        Leaf(self.table.lookup(round, address))
    }

    /// Replaces each address (host order) by its leaf, as [`Lookup4::lookup`] finds it.
    #[inline]
    pub fn lookup_batch(&self, round: &Round<'_>, addresses: &mut [u32]) {
        for block in addresses.chunks_mut(BLOCK) {
            self.table.lookup_block(round, self.kernel, block);
        }
    }

    /// A handle to prefetch slots early, for tables that are larger than the caches: slots are then on their way before
    /// the lookup. None: the table is small, or of a form for which it would not pay.
    #[inline]
    pub fn ahead<'r>(&'r self, round: &'r Round<'_>) -> Option<Ahead<'r>> {
        match self.table.form.load(round) {
            Form::Slots(slots) if slots.is_far.load(Ordering::Relaxed) => Some(Ahead { slots: slots.first_level() }),
            _ => None,
        }
    }

    /// As [`Lookup4::lookup_batch`] in a table without its default route: an address that only the default route covers
    /// gives [`Leaf::MISS`].
    #[inline]
    pub fn lookup_batch_but_default(&self, round: &Round<'_>, addresses: &mut [u32]) {
        let form = self.table.form.load(round);
        for block in addresses.chunks_mut(BLOCK) {
            if block.len() < SMALLEST_BLOCK {
                block.iter_mut().for_each(|address| *address = form.leaf(*address));
                continue;
            }
            let mut staged = [0; BLOCK];
            let leaves = &mut staged[..block.len()];
            form.resolve(self.kernel, block, leaves);
            block.copy_from_slice(leaves);
        }
    }

    /// The default route's leaf, or [`Leaf::MISS`].
    #[inline]
    pub fn default_route(&self, _round: &Round<'_>) -> Leaf {
        self.table.default()
    }
}

/// Prefetches slots early: see [`Lookup4::ahead`].
#[derive(Clone, Copy)]
pub struct Ahead<'r> {
    slots: &'r [AtomicU32; FIRST_LEVEL_SLOTS],
}

impl Ahead<'_> {
    /// Prefetches the slots of addresses that will be looked up.
    #[inline(always)]
    pub fn ask(&self, addresses: &[u32]) {
        addresses.iter().for_each(|address| prefetch_far(&self.slots[(address >> 8) as usize]));
    }
}

/// First-level slots are prefetched this many addresses before they are read. Enough to cover a miss to memory (about
/// 100 ns at 1-2 ns per address).
const AHEAD: usize = 64;

impl Slots {
    /// The first level as an array, so that 24-bit indices need no bounds check.
    #[inline(always)]
    fn first_level(&self) -> &[AtomicU32; FIRST_LEVEL_SLOTS] {
        (&*self.first).try_into().expect("length set in new")
    }

    #[inline(always)]
    fn prefetch_first(&self, addresses: &[u32]) {
        let first = self.first_level();
        for address in addresses {
            prefetch(&first[(address >> 8) as usize]);
        }
    }

    /// Prefetches the first slots that a kernel will read. Returns how far ahead of itself the kernel is to prefetch
    /// the others.
    #[inline(always)]
    fn begin(&self, addresses: &[u32]) -> usize {
        if self.is_far.load(Ordering::Relaxed) {
            let first = self.first_level();
            addresses.iter().for_each(|address| prefetch_far(&first[(address >> 8) as usize]));
            return addresses.len();
        }
        self.prefetch_first(&addresses[..AHEAD.min(addresses.len())]);
        AHEAD
    }
}

/// Lanes that continue in the second level: few in most tables.
struct Continued {
    lanes: [u8; BLOCK + MOST_LANES],
    count: usize,
}

/// Lanes of the widest kernel.
const MOST_LANES: usize = 16;

impl Continued {
    #[inline(always)]
    fn new() -> Continued {
        Continued { lanes: [0; BLOCK + MOST_LANES], count: 0 }
    }

    /// Notes those lanes from `start` on that `mask` names, and prefetches their slots.
    #[inline(always)]
    fn note(&mut self, table: &Slots, leaves: &[u32], start: usize, mut mask: u32) {
        while mask != 0 {
            let lane = start + mask.trailing_zeros() as usize;
            mask &= mask - 1;
            prefetch(&table.second[(leaves[lane] & SLOT_MASK) as usize]);
            self.lanes[self.count] = lane as u8;
            self.count += 1;
        }
    }

    /// Reads the slots of the lanes noted. Returns whether one of them holds a MISS.
    #[inline(always)]
    fn resolve(&self, table: &Slots, leaves: &mut [u32]) -> bool {
        let mut missed = false;
        for lane in &self.lanes[..self.count] {
            let leaf = &mut leaves[*lane as usize];
            // The last group may overlap the one before, so a lane may be noted twice.
            if *leaf >= CONTINUED {
                *leaf = table.second[(*leaf & SLOT_MASK) as usize].load(Ordering::Acquire);
                missed |= *leaf == MISS;
            }
        }
        missed
    }
}

mod scalar {
    use super::*;

    /// Addresses between two prefetches.
    const GROUP: usize = 16;

    pub(super) fn resolve(table: &Slots, addresses: &[u32], leaves: &mut [u32]) -> bool {
        let first = table.first_level();
        let count = addresses.len();
        let distance = table.begin(addresses);
        let (mut continued, mut missed) = (Continued::new(), false);
        for (number, addresses_here) in addresses.chunks(GROUP).enumerate() {
            let here = &mut leaves[number * GROUP..][..addresses_here.len()];
            let ahead = (number * GROUP + distance).min(count);
            table.prefetch_first(&addresses[ahead..count.min(ahead + GROUP)]);
            for (address, leaf) in addresses_here.iter().zip(&mut *here) {
                *leaf = first[(address >> 8) as usize].load(Ordering::Acquire);
            }
            let mut lanes = 0;
            for (lane, (address, leaf)) in addresses_here.iter().zip(here).enumerate() {
                let more = *leaf >= CONTINUED;
                missed |= *leaf == MISS;
                lanes |= u32::from(more) << lane;
                *leaf |= address & PAGE_MASK & (more as u32).wrapping_neg();
            }
            continued.note(table, leaves, number * GROUP, lanes);
        }
        continued.resolve(table, leaves) | missed
    }
}

/// Where each group of `lanes` starts when `count >= lanes` elements are walked; the
/// last group overlaps the one before instead of running over the end. Resolving a
/// lane twice gives the same as once, so that is harmless.
#[cfg(target_arch = "x86_64")]
fn groups(count: usize, lanes: usize) -> impl Iterator<Item = usize> {
    (0..count).step_by(lanes).map(move |start| start.min(count - lanes))
}

#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::*;
    use std::arch::asm;
    use std::arch::x86_64::*;

    const LANES: usize = 16;

    /// Replaces the lanes of `leaves` that `mask` names by `slots[index]`. Assembly and
    /// not the intrinsic, because the writer stores to these slots meanwhile: each
    /// lane is one aligned 4-byte load, which x86-64 makes atomic and keeps in order.
    ///
    /// Two AVX2 gathers and not one of 16: 1.3 clocks an address against 1.9 (Zen 5).
    ///
    /// # Safety
    /// Every index of a named lane is inside the array at `slots`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq")]
    unsafe fn gather(slots: *const AtomicU32, index: __m512i, mask: __mmask16, leaves: __m512i) -> __m512i {
        let low_index = _mm512_castsi512_si256(index);
        let high_index = _mm512_extracti64x4_epi64::<1>(index);
        let mut low = _mm512_castsi512_si256(leaves);
        let mut high = _mm512_extracti64x4_epi64::<1>(leaves);
        let mask = _mm512_movm_epi32(mask);
        let low_mask = _mm512_castsi512_si256(mask);
        let high_mask = _mm512_extracti64x4_epi64::<1>(mask);
        // SAFETY: reads only what the caller vouches for; clobbers only its operands.
        unsafe {
            asm!(
                "vpgatherdd {low}, [{slots} + {low_index} * 4], {low_mask}",
                "vpgatherdd {high}, [{slots} + {high_index} * 4], {high_mask}",
                low = inout(ymm_reg) low,
                high = inout(ymm_reg) high,
                low_mask = inout(ymm_reg) low_mask => _,
                high_mask = inout(ymm_reg) high_mask => _,
                slots = in(reg) slots,
                low_index = in(ymm_reg) low_index,
                high_index = in(ymm_reg) high_index,
                options(nostack, preserves_flags, readonly)
            );
        }
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
    }

    /// # Safety
    /// AVX-512F and DQ; slices of equal length, at least [`LANES`].
    #[target_feature(enable = "avx512f,avx512dq")]
    pub(super) unsafe fn resolve(table: &Slots, addresses: &[u32], leaves: &mut [u32]) -> bool {
        let count = addresses.len();
        let page_mask = _mm512_set1_epi32(PAGE_MASK as i32);
        let tag = _mm512_set1_epi32(CONTINUED as i32);
        let (mut missed, mut continued) = (0, Continued::new());
        let distance = table.begin(addresses);
        for start in groups(count, LANES) {
            if let Some(ahead) = addresses.get(start + distance..start + distance + LANES) {
                table.prefetch_first(ahead);
            }
            // SAFETY: `groups` keeps start + LANES within both slices; 24-bit indices
            // are inside the first level.
            unsafe {
                let address = _mm512_loadu_si512(addresses.as_ptr().add(start).cast());
                let index = _mm512_srli_epi32::<8>(address);
                let found = gather(table.first.as_ptr(), index, !0, _mm512_setzero_si512());
                let more = _mm512_cmpge_epu32_mask(found, tag);
                let low = _mm512_and_si512(address, page_mask);
                let found = _mm512_mask_or_epi32(found, more, found, low);
                missed |= _mm512_testn_epi32_mask(found, found);
                _mm512_storeu_si512(leaves.as_mut_ptr().add(start).cast(), found);
                continued.note(table, leaves, start, more.into());
            }
        }
        continued.resolve(table, leaves) | (missed != 0)
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::*;
    use std::arch::asm;
    use std::arch::x86_64::*;

    const LANES: usize = 8;

    /// As `avx512::gather`; a lane is read when the top bit of its mask lane is set.
    ///
    /// # Safety
    /// AVX2; every index of a named lane is inside the array at `slots`.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn gather(slots: *const AtomicU32, index: __m256i, mask: __m256i, mut leaves: __m256i) -> __m256i {
        // SAFETY: reads only what the caller vouches for; clobbers only its operands.
        unsafe {
            asm!(
                "vpgatherdd {leaves}, [{slots} + {index} * 4], {mask}",
                leaves = inout(ymm_reg) leaves,
                mask = inout(ymm_reg) mask => _,
                slots = in(reg) slots,
                index = in(ymm_reg) index,
                options(nostack, preserves_flags, readonly)
            );
        }
        leaves
    }

    /// All ones in the lanes that are CONTINUED.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn continued_lanes(leaves: __m256i) -> __m256i {
        let tag = _mm256_set1_epi32(CONTINUED as i32);
        _mm256_cmpeq_epi32(_mm256_and_si256(leaves, tag), tag)
    }

    /// # Safety
    /// AVX2; slices of equal length, at least [`LANES`].
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn resolve(table: &Slots, addresses: &[u32], leaves: &mut [u32]) -> bool {
        let count = addresses.len();
        let page_mask = _mm256_set1_epi32(PAGE_MASK as i32);
        let zero = _mm256_setzero_si256();
        let (mut missed, mut continued) = (zero, Continued::new());
        let distance = table.begin(addresses);
        for start in groups(count, LANES) {
            if let Some(ahead) = addresses.get(start + distance..start + distance + LANES) {
                table.prefetch_first(ahead);
            }
            // SAFETY: `groups` keeps start + LANES within both slices; 24-bit indices
            // are inside the first level.
            unsafe {
                let address = _mm256_loadu_si256(addresses.as_ptr().add(start).cast());
                let index = _mm256_srli_epi32::<8>(address);
                let all = _mm256_cmpeq_epi32(zero, zero);
                let found = gather(table.first.as_ptr(), index, all, zero);
                let more = continued_lanes(found);
                let low = _mm256_and_si256(_mm256_and_si256(address, page_mask), more);
                let found = _mm256_or_si256(found, low);
                missed = _mm256_or_si256(missed, _mm256_cmpeq_epi32(found, zero));
                _mm256_storeu_si256(leaves.as_mut_ptr().add(start).cast(), found);
                continued.note(table, leaves, start, _mm256_movemask_ps(_mm256_castsi256_ps(more)) as u32);
            }
        }
        continued.resolve(table, leaves) | (_mm256_movemask_epi8(missed) != 0)
    }
}
