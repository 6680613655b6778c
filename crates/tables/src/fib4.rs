//! IPv4 longest-prefix match for every length from 0 to 32 (DIR-24-8; Gupta, Lin,
//! McKeown, "Routing lookups in hardware at memory access speeds", INFOCOM 1998).
//!
//! The first level has a slot for each /24, so that nearly every address is resolved by
//! one load. A /24 that holds longer prefixes continues in a second-level page with a
//! slot for each address. The default route is a single word, which slots without a
//! route take: adding 0.0.0.0/0 touches nothing else.
//!
//! The address space of the whole table is reserved at birth and never moves; memory
//! is paid for where routes are.
//!
//! [`Fib4`] is the control side with its one writer; [`Lookup4`] is what workers hold.
//! Each slot changes by one atomic store, so a lookup sees the old or the new route.
//! A slot that turns into a page is switched after the page is filled; a page that is
//! no longer needed is unlinked and reused only after all workers have moved on.

#[allow(unsafe_code)] // gathers and prefetches; invariants in the file
mod lookup;
#[cfg(test)]
mod tests;

pub use lookup::{Kernel, Lookup4};

use crate::leaf::Leaf;
use crate::memory::{Pages, Reserved};
use lookup::{CONTINUED, FIRST_LEVEL_SLOTS, MISS, PAGE_MASK, PAGE_SLOTS, SLOT_MASK, Table};
use rcu::Domain;
use std::collections::BTreeMap;
use std::io;
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Prefixes up to this length live in the first level.
const FIRST_LEVEL_LENGTH: u8 = 24;
/// In the depth array: the slot continues in a page, which has depths of its own.
const PAGED: u8 = u8::MAX;
/// What the kernel hands out at a time, for the estimate of [`Fib4::memory`].
const SYSTEM_PAGE: usize = 4096;
const SLOTS_PER_SYSTEM_PAGE: usize = SYSTEM_PAGE / size_of::<u32>();
const FIRST_LEVEL_SYSTEM_PAGES: usize = FIRST_LEVEL_SLOTS / SLOTS_PER_SYSTEM_PAGE;
/// System pages of slots that share one system page of depths (one byte per slot).
const SYSTEM_PAGES_PER_DEPTH_PAGE: usize = size_of::<u32>();

/// A prefix: an address (host order) whose bits beyond `length` are zero. Keys sort as
/// routing tables are printed: by address, then the shorter first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    address: u32,
    length: u8,
}

impl Key {
    /// Clears the bits of `address` beyond `length`.
    ///
    /// # Panics
    /// When `length` is more than 32; prefixes are checked where they are parsed.
    pub const fn new(address: u32, length: u8) -> Key {
        assert!(length <= 32, "an IPv4 prefix has at most 32 bits");
        let host_bits = u32::MAX.unbounded_shr(length as u32);
        Key { address: address & !host_bits, length }
    }

    /// The first address of the prefix, host order.
    pub const fn address(self) -> u32 {
        self.address
    }

    /// 0..=32.
    pub const fn length(self) -> u8 {
        self.length
    }

    /// Whether `address` lies in the prefix.
    pub const fn contains(self, address: u32) -> bool {
        Key::new(address, self.length).address == self.address
    }

    /// The first-level slots that it covers; for a prefix longer than /24 the one that
    /// it lies in.
    fn first_level(self) -> Range<usize> {
        let start = (self.address >> 8) as usize;
        let length = self.length.min(FIRST_LEVEL_LENGTH);
        start..start + (1 << (FIRST_LEVEL_LENGTH - length))
    }

    /// The slots that it covers in the page that starts at `page`.
    fn in_page(self, page: usize) -> Range<usize> {
        let start = page + (self.address & PAGE_MASK) as usize;
        start..start + (1 << (32 - self.length))
    }
}

/// There is no second-level page left for a prefix longer than /24. Nothing was
/// changed. Pages of removed prefixes come back with [`Domain::collect`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableFull;

impl std::fmt::Display for TableFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the IPv4 table has no room for another /24 with longer prefixes in it")
    }
}
impl std::error::Error for TableFull {}

/// How much a table may grow and what its memory is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How many /24s may hold longer prefixes at a time, at most
    /// [`Options::MOST_PAGES`]. Each costs 1280 bytes when in use.
    pub second_level_pages: u32,
    /// Ask for transparent huge pages: faster when the table is large and dense, but
    /// the first route of each 8 million addresses costs 2 MiB.
    pub huge_pages: bool,
}

impl Options {
    /// As many pages as slot numbers below the kind bits can name.
    pub const MOST_PAGES: u32 = (SLOT_MASK + 1) / PAGE_SLOTS as u32;
}

impl Default for Options {
    /// Room for 65,536 /24s with longer prefixes; small pages.
    fn default() -> Options {
        Options { second_level_pages: 1 << 16, huge_pages: false }
    }
}

/// The control side of an IPv4 table.
pub struct Fib4 {
    /// Every route, to answer questions and to find what covers a removed one.
    routes: BTreeMap<Key, Leaf>,
    /// How many routes there are of each length.
    lengths: [usize; 33],
    table: Arc<Table>,
    /// Prefix length that each first-level slot has its leaf from, or [`PAGED`]. Zero
    /// where there is no route.
    first_depths: Reserved<u8>,
    second: SecondLevel,
    /// One bit for each system page of first-level slots that was written.
    touched: Vec<u64>,
    domain: Arc<Domain>,
}

/// The writer's book about second-level pages. A page is named by its first slot.
struct SecondLevel {
    /// Prefix length that each slot has its leaf from.
    depths: Reserved<u8>,
    /// How many prefixes longer than /24 each page holds that was ever used.
    prefixes: Vec<u16>,
    /// Pages may be used up to this many.
    limit: usize,
    /// Pages that all readers have left. Retired actions put them here.
    free: Arc<Mutex<Vec<usize>>>,
}

impl SecondLevel {
    fn new(limit: u32, pages: Pages) -> io::Result<SecondLevel> {
        let slots = limit.max(1) as usize * PAGE_SLOTS;
        Ok(SecondLevel {
            depths: Reserved::new(slots, pages)?,
            prefixes: Vec::new(),
            limit: limit as usize,
            free: Arc::default(),
        })
    }

    /// A page that no reader can see.
    fn take(&mut self) -> Result<usize, TableFull> {
        if let Some(page) = self.free.lock().expect("no panic under this lock").pop() {
            return Ok(page);
        }
        let fresh = self.prefixes.len();
        if fresh == self.limit {
            return Err(TableFull);
        }
        self.prefixes.push(0);
        Ok(fresh * PAGE_SLOTS)
    }

    /// Takes an unlinked page back when no reader can be in it any more.
    fn retire(&self, page: usize, domain: &Domain) {
        let free = self.free.clone();
        domain.retire(move || free.lock().expect("no panic under this lock").push(page));
    }

    /// How many prefixes longer than /24 the page holds.
    fn prefixes_in(&mut self, page: usize) -> &mut u16 {
        &mut self.prefixes[page / PAGE_SLOTS]
    }
}

impl Fib4 {
    /// An empty table with the default [`Options`], read by the readers of `domain`.
    ///
    /// # Errors
    /// When the address space (160 MiB of it, hardly any memory) cannot be reserved.
    pub fn new(domain: &Arc<Domain>) -> io::Result<Fib4> {
        Fib4::with_options(domain, Options::default())
    }

    /// An empty table.
    ///
    /// # Errors
    /// As [`Fib4::new`]; and `InvalidInput` for more than [`Options::MOST_PAGES`].
    pub fn with_options(domain: &Arc<Domain>, options: Options) -> io::Result<Fib4> {
        if options.second_level_pages > Options::MOST_PAGES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let pages = match options.huge_pages {
            false => Pages::Small,
            true => Pages::Huge,
        };
        Ok(Fib4 {
            routes: BTreeMap::new(),
            lengths: [0; 33],
            table: Arc::new(Table::new(options.second_level_pages, pages)?),
            first_depths: Reserved::new(FIRST_LEVEL_SLOTS, pages)?,
            second: SecondLevel::new(options.second_level_pages, pages)?,
            touched: vec![0; FIRST_LEVEL_SYSTEM_PAGES.div_ceil(u64::BITS as usize)],
            domain: domain.clone(),
        })
    }

    /// The data side, for workers.
    pub fn handle(&self) -> Lookup4 {
        Lookup4::new(self.table.clone())
    }

    /// Adds a route, or replaces its leaf and returns the one before.
    ///
    /// # Errors
    /// [`TableFull`], and then nothing has changed. Replacing never fails, nor does a
    /// prefix of up to 24 bits.
    ///
    /// # Panics
    /// When the leaf is [`Leaf::MISS`] or of kind 15, which mean something else here.
    pub fn insert(&mut self, key: Key, leaf: Leaf) -> Result<Option<Leaf>, TableFull> {
        assert!(leaf.0 != MISS && leaf.0 < CONTINUED, "not a leaf: {leaf:?}");
        let long = key.length > FIRST_LEVEL_LENGTH;
        let page = if long { Some(self.ensure_page(key)?) } else { None };
        let replaced = self.routes.insert(key, leaf);
        if replaced.is_none() {
            self.lengths[usize::from(key.length)] += 1;
            if let Some(page) = page {
                *self.second.prefixes_in(page) += 1;
            }
        }
        self.paint(key, 0..=key.length, leaf, key.length);
        Ok(replaced)
    }

    /// Removes a route and returns its leaf; what it covered falls to the next shorter
    /// prefix.
    pub fn remove(&mut self, key: Key) -> Option<Leaf> {
        let removed = self.routes.remove(&key)?;
        self.lengths[usize::from(key.length)] -= 1;
        let (depth, leaf) = self.behind(key);
        self.paint(key, key.length..=key.length, leaf, depth);
        if key.length > FIRST_LEVEL_LENGTH {
            self.leave_page(key);
        }
        Some(removed)
    }

    /// The leaf of exactly this prefix.
    pub fn get(&self, key: Key) -> Option<Leaf> {
        self.routes.get(&key).copied()
    }

    /// The longest prefix that contains `address` (host order), and its leaf.
    pub fn longest_match(&self, address: u32) -> Option<(Key, Leaf)> {
        self.longest_up_to(address, 32)
    }

    /// All routes, by address and then the shorter prefix first.
    pub fn iter(&self) -> impl Iterator<Item = (Key, Leaf)> + '_ {
        self.routes.iter().map(|(key, leaf)| (*key, *leaf))
    }

    /// How many routes there are.
    pub fn len(&self) -> usize {
        self.routes.len()
    }

    /// Whether there is no route at all.
    pub fn is_empty(&self) -> bool {
        self.routes.is_empty()
    }

    /// How many routes there are of each length, 0 to 32.
    pub fn lengths(&self) -> &[usize; 33] {
        &self.lengths
    }

    /// About how many bytes of memory the table occupies with small pages, routes
    /// included. What was once written stays.
    pub fn memory(&self) -> usize {
        /// A B-tree node is about two thirds full.
        const ROUTE: usize = size_of::<(Key, Leaf)>() * 3 / 2;
        let slots: u32 = self.touched.iter().map(|word| word.count_ones()).sum();
        let depths = (0..FIRST_LEVEL_SYSTEM_PAGES)
            .step_by(SYSTEM_PAGES_PER_DEPTH_PAGE)
            .filter(|&page| self.touched[page / 64] >> (page % 64) & 0xf != 0)
            .count();
        let second = self.second.prefixes.len() * PAGE_SLOTS * (size_of::<u32>() + 1);
        (slots as usize + depths) * SYSTEM_PAGE + second + self.routes.len() * ROUTE
    }

    /// The longest prefix of at most `length` bits that contains `address`.
    fn longest_up_to(&self, address: u32, length: u8) -> Option<(Key, Leaf)> {
        let mut bound = Key::new(address, length);
        loop {
            // In key order all prefixes that contain `bound` stand before it, the longest
            // last. Its neighbour is that one, or shows by the bits that it shares with
            // `bound` how long one can be at most. Each turn shortens `bound`.
            let (&near, &leaf) = self.routes.range(..=bound).next_back()?;
            if near.contains(bound.address) {
                return Some((near, leaf));
            }
            let shared = (near.address ^ bound.address).leading_zeros();
            bound = Key::new(address, shared as u8);
        }
    }

    /// Depth and leaf of what shows where `key` is removed.
    fn behind(&self, key: Key) -> (u8, Leaf) {
        let shorter = key.length.checked_sub(1);
        match shorter.and_then(|length| self.longest_up_to(key.address, length)) {
            Some((cover, leaf)) if cover.length > 0 => (cover.length, leaf),
            // The default route is not written to slots.
            _ => (0, Leaf::MISS),
        }
    }

    /// Gives `leaf` and `depth` to the slots under `key` whose depth is in `over`.
    fn paint(&mut self, key: Key, over: RangeInclusive<u8>, leaf: Leaf, depth: u8) {
        if key.length == 0 {
            self.table.set_default(leaf);
            return;
        }
        if key.length > FIRST_LEVEL_LENGTH {
            let page = self.page_at(key.first_level().start);
            self.paint_page(key.in_page(page), over, leaf, depth);
            return;
        }
        self.touch(key.first_level());
        for slot in key.first_level() {
            let was = self.first_depths[slot];
            if was == PAGED {
                let page = self.page_at(slot);
                self.paint_page(page..page + PAGE_SLOTS, over.clone(), leaf, depth);
            } else if over.contains(&was) {
                self.first_depths[slot] = depth;
                self.table.first[slot].store(leaf.0, Ordering::Release);
            }
        }
    }

    /// The same for slots of the second level.
    fn paint_page(&mut self, slots: Range<usize>, over: RangeInclusive<u8>, leaf: Leaf, depth: u8) {
        let table = &self.table.second[slots.clone()];
        for (was, slot) in self.second.depths[slots].iter_mut().zip(table) {
            if over.contains(was) {
                *was = depth;
                slot.store(leaf.0, Ordering::Release);
            }
        }
    }

    /// The page that a PAGED slot continues in.
    fn page_at(&self, slot: usize) -> usize {
        debug_assert_eq!(self.first_depths[slot], PAGED);
        let value = self.table.first[slot].load(Ordering::Relaxed);
        (value & SLOT_MASK) as usize
    }

    /// The page of the /24 around `key`, made when there is none: it is filled with what
    /// the slot holds and then takes its place, so no lookup sees a difference.
    fn ensure_page(&mut self, key: Key) -> Result<usize, TableFull> {
        let slot = key.first_level().start;
        let depth = self.first_depths[slot];
        if depth == PAGED {
            return Ok(self.page_at(slot));
        }
        let page = self.second.take()?;
        let leaf = self.table.first[slot].load(Ordering::Relaxed);
        for inner in &self.table.second[page..page + PAGE_SLOTS] {
            inner.store(leaf, Ordering::Relaxed);
        }
        self.second.depths[page..page + PAGE_SLOTS].fill(depth);
        self.touch(slot..slot + 1);
        self.first_depths[slot] = PAGED;
        self.table.first[slot].store(CONTINUED | page as u32, Ordering::Release);
        Ok(page)
    }

    /// Counts a long prefix out of its page. After the last one all slots of the page
    /// are alike: the first level takes over and the page is retired.
    fn leave_page(&mut self, key: Key) {
        let slot = key.first_level().start;
        let page = self.page_at(slot);
        let left = self.second.prefixes_in(page);
        *left -= 1;
        if *left > 0 {
            return;
        }
        let leaf = self.table.second[page].load(Ordering::Relaxed);
        self.first_depths[slot] = self.second.depths[page];
        self.table.first[slot].store(leaf, Ordering::Release);
        self.second.retire(page, &self.domain);
    }

    /// Remembers that these first-level slots are backed by memory from now on.
    fn touch(&mut self, slots: Range<usize>) {
        let pages = slots.start / SLOTS_PER_SYSTEM_PAGE..=(slots.end - 1) / SLOTS_PER_SYSTEM_PAGE;
        for page in pages {
            self.touched[page / 64] |= 1 << (page % 64);
        }
    }
}
