//! The writer of the large form: a slot for each /24, and pages of a slot for each address where longer
//! prefixes are.

use super::lookup::{CONTINUED, FIRST_LEVEL_SLOTS, MISS, PAGE_SLOTS, SLOT_MASK, Slots};
use super::tree::{LOWEST, Piece, Root, Tree};
use super::{Key, TableFull};
use crate::bits::Bits;
use crate::leaf::Leaf;
use crate::memory::{Pages, SYSTEM_PAGE};
use rcu::Domain;
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

const SLOTS_PER_SYSTEM_PAGE: usize = SYSTEM_PAGE / size_of::<u32>();
const SYSTEM_PAGES: usize = FIRST_LEVEL_SLOTS / SLOTS_PER_SYSTEM_PAGE;
const SIXTEENS: usize = 1 << 16;
/// System pages of which one large page is made (2 MiB).
const SMALL_IN_LARGE: usize = 512;
/// From so many prefixes on the first level is made of large pages: 64 MiB at most, which are little beside what so
/// many take anyway, and a lookup finds its slot without a walk through page tables.
const WORTH_LARGE_PAGES: usize = 1 << 17;
/// With so many system pages of slots, 10 MiB, they are asked for as from afar (`examples/lookup_cost`).
const FAR: usize = 256;

/// What a prefix's number says to slots: its leaf, or MISS while it is not to be used.
pub(super) trait Leaves: Fn(u32) -> Leaf {}
impl<F: Fn(u32) -> Leaf> Leaves for F {}

/// The writer's book.
pub(super) struct Painter {
    slots: Arc<Slots>,
    /// How many prefixes longer than /24 each page holds that was ever used. A page is named by its
    /// first slot.
    prefixes: Vec<u16>,
    /// Pages may be used up to this many.
    limit: usize,
    /// Pages that all readers have left. Retired actions put them here.
    free: Arc<Mutex<Vec<usize>>>,
    domain: Arc<Domain>,
    /// System pages of first-level slots that are backed by memory.
    backed: Bits,
    /// Those that may be empty, for [`Painter::trim`].
    maybe_empty: Bits,
    /// /16s to be painted anew.
    stale: Bits,
    /// The first level is made of large pages, as far as the system has them.
    large: bool,
    /// It always is.
    large_anyway: bool,
}

impl Painter {
    pub fn new(pages: u32, kind: Pages, domain: &Arc<Domain>) -> io::Result<Painter> {
        Ok(Painter {
            slots: Arc::new(Slots::new(pages, kind)?),
            prefixes: Vec::new(),
            limit: pages as usize,
            free: Arc::default(),
            domain: domain.clone(),
            backed: Bits::new(SYSTEM_PAGES),
            maybe_empty: Bits::new(SYSTEM_PAGES),
            stale: Bits::new(SIXTEENS),
            large: kind == Pages::Huge,
            large_anyway: kind == Pages::Huge,
        })
    }

    pub fn slots(&self) -> &Arc<Slots> {
        &self.slots
    }

    /// Says how many prefixes there will be: enough for large pages, perhaps.
    pub fn expect(&mut self, prefixes: usize) {
        if !self.large && prefixes >= WORTH_LARGE_PAGES {
            self.set_large(true);
        }
    }

    /// To be called when slots were painted: says how they are to be asked for.
    pub fn settle(&self) {
        self.slots.is_far.store(self.backed.len() >= FAR, Ordering::Relaxed);
    }

    fn set_large(&mut self, large: bool) {
        self.large = large;
        self.slots.first.want_large_pages(large);
        self.slots.second.want_large_pages(large);
        if large {
            for region in 0..SYSTEM_PAGES / SMALL_IN_LARGE {
                let pages = region * SMALL_IN_LARGE..(region + 1) * SMALL_IN_LARGE;
                // Where little is, little is lost.
                if self.backed.count_in(pages.clone()) >= SMALL_IN_LARGE / 4 {
                    let slots = pages.start * SLOTS_PER_SYSTEM_PAGE..pages.end * SLOTS_PER_SYSTEM_PAGE;
                    self.slots.first.collapse(slots);
                }
            }
            return;
        }
        // What is empty beside what is not in a large page goes back now.
        let mut page = 0;
        while page < SYSTEM_PAGES {
            let begin = page;
            while page < SYSTEM_PAGES && !self.backed.contains(page) {
                page += 1;
            }
            if page > begin {
                self.slots.first.give_back(begin * SLOTS_PER_SYSTEM_PAGE..page * SLOTS_PER_SYSTEM_PAGE);
            }
            page += 1;
        }
    }

    pub fn memory(&self) -> usize {
        self.backed.len() * SYSTEM_PAGE + self.prefixes.len() * (PAGE_SLOTS * size_of::<u32>() + size_of::<u16>())
    }

    #[cfg(test)]
    pub fn is_large(&self) -> bool {
        self.large
    }

    #[cfg(test)]
    pub fn no_page_is_used(&self) -> bool {
        self.prefixes.iter().all(|count| *count == 0)
    }

    /// Makes room for one more prefix longer than /24: the page of its /24 is made when there is none,
    /// filled with what the slot holds before it takes its place, so that no lookup sees a difference.
    pub fn enter_page(&mut self, key: Key) -> Result<(), TableFull> {
        let slot = slot_of(key);
        let now = self.slots.first[slot].load(Ordering::Relaxed);
        let page = if now >= CONTINUED {
            (now & SLOT_MASK) as usize
        } else {
            let page = self.take_page()?;
            for inner in &self.slots.second[page..page + PAGE_SLOTS] {
                inner.store(now, Ordering::Relaxed);
            }
            self.slots.first[slot].store(CONTINUED | page as u32, Ordering::Release);
            self.backed.insert(slot / SLOTS_PER_SYSTEM_PAGE);
            page
        };
        self.prefixes[page / PAGE_SLOTS] += 1;
        Ok(())
    }

    /// One prefix longer than /24 less, which is painted over already. After the last one all slots of
    /// the page are alike: the first level takes over and the page is retired.
    pub fn leave_page(&mut self, key: Key) {
        let slot = slot_of(key);
        let page = (self.slots.first[slot].load(Ordering::Relaxed) & SLOT_MASK) as usize;
        let left = &mut self.prefixes[page / PAGE_SLOTS];
        *left -= 1;
        if *left > 0 {
            return;
        }
        let leaf = self.slots.second[page].load(Ordering::Relaxed);
        self.slots.first[slot].store(leaf, Ordering::Release);
        self.maybe_empty.insert(slot / SLOTS_PER_SYSTEM_PAGE);
        let free = self.free.clone();
        self.domain.retire(move || free.lock().expect("no panic under this lock").push(page));
    }

    /// A page that no reader can see.
    fn take_page(&mut self) -> Result<usize, TableFull> {
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

    /// Asks for the memory that [`Painter::paint`] will begin with, while other work is done.
    #[inline]
    pub fn prepare(&self, key: Key) {
        self.slots.prefetch(key.address());
    }

    /// Brings the slots under a prefix in line with the tree.
    pub fn paint(&mut self, tree: &Tree, key: Key, leaves: impl Leaves) {
        let root = Root::of(key);
        match key.length() {
            0..16 => {
                self.mark(key);
                self.paint_stale(tree, leaves);
            }
            16..=24 => {
                let piece = tree.piece(root);
                let outside = around(tree, piece, root, key, &leaves);
                self.paint_under(tree, root, root.place(key), piece, outside, &leaves);
            }
            _ => {
                let piece = tree.piece(root);
                let outside = around(tree, piece, root, key, &leaves);
                let page = self.page_of(slot_of(key)).expect("a prefix longer than /24 is in a page");
                self.paint_page(page, piece, root.place(key), outside, &leaves);
            }
        }
    }

    /// Remembers that everything under a prefix is to be painted.
    pub fn mark(&mut self, key: Key) {
        if key.length() == 0 {
            return; // slots do not hold the default route
        }
        let first = (key.address() >> 16) as usize;
        let count = 1 << (16 - key.length().min(16));
        (first..first + count).for_each(|sixteen| self.stale.insert(sixteen));
    }

    /// Paints what was marked.
    pub fn paint_stale(&mut self, tree: &Tree, leaves: impl Leaves) {
        let mut eight = None;
        let mut around = [MISS; LOWEST.end - LOWEST.start];
        for sixteen in self.stale.take() {
            let address = (sixteen as u32) << 16;
            if eight != Some(address >> 24) {
                eight = Some(address >> 24);
                let outside = showing(tree, address, Some(7), &leaves);
                spread(tree.piece(Root::at(address, 8)), 1, outside, &leaves, &mut around);
            }
            let outside = around[sixteen & 0xff];
            let root = Root::at(address, 16);
            self.paint_under(tree, root, 1, tree.piece(root), outside, &leaves);
        }
    }

    /// Paints the slots of the /24s under a place of a /16's piece.
    fn paint_under(
        &mut self,
        tree: &Tree,
        root: Root,
        place: usize,
        piece: Option<&Piece>,
        outside: u32,
        leaves: &impl Leaves,
    ) {
        let first = (root.key(1).address() >> 8) as usize;
        let under = lowest_under(place);
        let slots = first + under.start - LOWEST.start..first + under.end - LOWEST.start;
        let mut changed = false;
        let mut paint = |number: usize, slot: &AtomicU32, leaf: u32| {
            let now = slot.load(Ordering::Relaxed);
            if now == leaf {
                return;
            }
            if now < CONTINUED {
                slot.store(leaf, Ordering::Release);
                changed = true;
            } else {
                let piece = tree.piece(Root::at((number as u32) << 8, 24));
                self.paint_page((now & SLOT_MASK) as usize, piece, 1, leaf, leaves);
            }
        };
        if under.len() == 1 {
            let leaf = piece.and_then(|piece| own(piece, place, leaves)).unwrap_or(outside);
            paint(slots.start, &self.slots.first[slots.start], leaf);
        } else {
            let mut shown = [MISS; LOWEST.end - LOWEST.start];
            spread(piece, place, outside, leaves, &mut shown);
            for ((number, slot), leaf) in slots.clone().zip(&self.slots.first[slots.clone()]).zip(&shown) {
                paint(number, slot, *leaf);
            }
        }
        let system_page = slots.start / SLOTS_PER_SYSTEM_PAGE;
        if changed {
            self.backed.insert(system_page);
        }
        if piece.is_none_or(Piece::is_empty) {
            self.maybe_empty.insert(system_page);
        }
    }

    /// Paints a page under a place of its piece.
    #[inline(never)]
    fn paint_page(&self, page: usize, piece: Option<&Piece>, place: usize, outside: u32, leaves: &impl Leaves) {
        let under = lowest_under(place);
        let slots = page + under.start - LOWEST.start..page + under.end - LOWEST.start;
        let mut shown = [MISS; LOWEST.end - LOWEST.start];
        spread(piece, place, outside, leaves, &mut shown);
        for (slot, leaf) in self.slots.second[slots].iter().zip(&shown) {
            if slot.load(Ordering::Relaxed) != *leaf {
                slot.store(*leaf, Ordering::Release);
            }
        }
    }

    fn page_of(&self, slot: usize) -> Option<usize> {
        let now = self.slots.first[slot].load(Ordering::Relaxed);
        (now >= CONTINUED).then_some((now & SLOT_MASK) as usize)
    }

    /// Gives the memory of slots back to the system that hold nothing any more, with so many prefixes.
    pub fn trim(&mut self, prefixes: usize) {
        if self.large && !self.large_anyway && prefixes < WORTH_LARGE_PAGES / 4 {
            self.set_large(false);
        }
        for system_page in self.maybe_empty.take() {
            let slots = system_page * SLOTS_PER_SYSTEM_PAGE..(system_page + 1) * SLOTS_PER_SYSTEM_PAGE;
            let is_empty = self.slots.first[slots.clone()].iter().all(|slot| slot.load(Ordering::Relaxed) == MISS);
            if !is_empty {
                continue;
            }
            self.backed.remove(system_page);
            let region = system_page / SMALL_IN_LARGE * SMALL_IN_LARGE;
            let pages = region..region + SMALL_IN_LARGE;
            if !self.large {
                self.slots.first.give_back(slots);
            } else if self.backed.count_in(pages.clone()) == 0 {
                let slots = pages.start * SLOTS_PER_SYSTEM_PAGE..pages.end * SLOTS_PER_SYSTEM_PAGE;
                self.slots.first.give_back(slots);
            }
        }
        self.trim_pages();
        self.settle();
    }

    /// The memory of pages that are free goes back too. They are filled before they are used again.
    fn trim_pages(&mut self) {
        self.domain.collect();
        let mut free = self.free.lock().expect("no panic under this lock");
        let count = self.prefixes.len();
        let mut unused = Bits::new(count);
        free.iter().for_each(|page| unused.insert(page / PAGE_SLOTS));
        if self.large {
            self.slots.second.give_units_back(&unused, PAGE_SLOTS, count, Pages::Huge);
            return;
        }
        self.slots.second.give_units_back(&unused, PAGE_SLOTS, count, Pages::Small);
        let used = count - (0..count).rev().take_while(|page| unused.contains(*page)).count();
        self.prefixes.truncate(used);
        self.prefixes.shrink_to_fit();
        free.retain(|page| page / PAGE_SLOTS < used);
        free.shrink_to_fit();
    }
}

/// The first-level slot of a prefix of 24 bits or more.
fn slot_of(key: Key) -> usize {
    (key.address() >> 8) as usize
}

/// The places of the lowest level under a place.
fn lowest_under(place: usize) -> Range<usize> {
    let below = LOWEST.start.ilog2() - place.ilog2();
    place << below..(place + 1) << below
}

/// The leaf of the longest prefix of at most `length` bits around an address, but for the default route.
fn showing(tree: &Tree, address: u32, length: Option<u8>, leaves: &impl Leaves) -> u32 {
    let shown = |key: Key, value| Some(leaves(value)).filter(|leaf| *leaf != Leaf::MISS && key.length() > 0);
    length.and_then(|length| tree.longest(address, length, shown)).map_or(MISS, |leaf| leaf.0)
}

/// What shows around a prefix that has no leaf of its own; one that has covers all of it.
#[inline]
fn around(tree: &Tree, piece: Option<&Piece>, root: Root, key: Key, leaves: &impl Leaves) -> u32 {
    match piece.and_then(|piece| own(piece, root.place(key), leaves)) {
        Some(leaf) => leaf,
        None => showing(tree, key.address(), key.length().checked_sub(1), leaves),
    }
}

/// The leaf that a place has of its own.
#[inline]
fn own(piece: &Piece, place: usize, leaves: &impl Leaves) -> Option<u32> {
    let leaf = piece.holds(place).then(|| leaves(piece.value(piece.rank(place))).0);
    leaf.filter(|leaf| *leaf != MISS)
}

/// What shows at the lowest places under one, the first of which is `shown[0]`: each prefix there, the shorter first,
/// is painted over those before.
fn spread(piece: Option<&Piece>, place: usize, outside: u32, leaves: &impl Leaves, shown: &mut [u32]) {
    let under = lowest_under(place);
    shown[..under.len()].fill(outside);
    let Some(piece) = piece else { return };
    piece.each_under(place, |at, value| {
        let leaf = leaves(value).0;
        if leaf != MISS {
            let over = lowest_under(at);
            shown[over.start - under.start..over.end - under.start].fill(leaf);
        }
    });
}
