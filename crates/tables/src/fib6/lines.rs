//! What lookups read and control writes: lines of entries, and the root where lookups begin.

use crate::memory::{Pages, Reserved, prefetch};
use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

/// Nothing here: the default route decides.
pub(super) const MISS: u32 = 0;
/// Entries from this value up lead on to a line.
pub(super) const NODE: u32 = 12 << 28;
/// Words in a line.
pub(super) const LINE: usize = 16;
/// Most lines that entries can name.
pub(super) const MOST_LINES: u32 = 1 << 21;

/// A large root has a part for each /16 of 2000::/3, in which all addresses of the Internet are (RFC 4291 section 2.4,
/// RFC 3587).
pub(super) const PART_LENGTH: u8 = 16;
pub(super) const PARTS: usize = 1 << (PART_LENGTH - 3);
const GLOBAL: u64 = 0b001;
/// Behind those one for each value of the first nibble.
pub(super) const NIBBLES: usize = 16;
/// A crowded part has a block of slots, one for each /32; others have one slot for all.
pub(super) const BLOCK_LENGTH: u8 = 32;
pub(super) const BLOCK_SLOTS: usize = 1 << (BLOCK_LENGTH - PART_LENGTH);
/// Slots of a large root: those of parts without a block are in the place of the first.
pub(super) const ROOT_SLOTS: usize = 128 * BLOCK_SLOTS;
/// In the directory: the part has a block, which begins at the slot that the other bits say.
const IS_BLOCK: u32 = 1 << 31;
/// The word of the directory with which 2000::/3 begins.
const GLOBAL_BEGIN: usize = 0x2000;
/// Lines look at one half of the address: up to this bit, or from it on.
pub(super) const HALF: u8 = 64;

/// With more lines in use than this, 8 MiB, most come from memory.
const FAR: usize = (8 << 20) / 64;

/// What a line holds of the 32 bits from its depth on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Up to eight ranges, in one line: the last value of each but the last, how deep their values begin, then what
    /// they lead to.
    Few,
    /// Up to sixteen ranges, in two lines, in the same way.
    Ranges,
    /// What each value of the first four bits leads to.
    Sixteen,
    /// What each value of the first eight bits leads to: as many lines.
    Many,
}

impl Kind {
    /// Lines.
    pub fn lines(self) -> usize {
        match self {
            Kind::Ranges => 2,
            Kind::Few | Kind::Sixteen => 1,
            Kind::Many => 256 / LINE,
        }
    }
    /// How many ranges fit; none: each value has an entry.
    pub fn ranges(self) -> Option<usize> {
        match self {
            Kind::Few => Some(LINE / 2),
            Kind::Ranges => Some(LINE),
            Kind::Sixteen | Kind::Many => None,
        }
    }
    /// Bits that choose.
    pub fn stride(self) -> u8 {
        match self {
            Kind::Few | Kind::Ranges => 32,
            Kind::Sixteen => 4,
            Kind::Many => 8,
        }
    }
}

/// Where an entry leads: its kind in the upper 4 bits, then 7 bits of depth and 21 of a line's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node {
    pub kind: Kind,
    /// How many bits of the address are behind it.
    pub depth: u8,
    pub line: u32,
}

pub(super) const KIND_SHIFT: u32 = 28;
pub(super) const DEPTH_SHIFT: u32 = 21;

impl Node {
    pub fn entry(self) -> u32 {
        debug_assert!(self.line < MOST_LINES && self.depth < 128);
        let kind = (NODE >> KIND_SHIFT) + self.kind as u32;
        kind << KIND_SHIFT | u32::from(self.depth) << DEPTH_SHIFT | self.line
    }

    /// None: the entry is a leaf.
    pub fn of(entry: u32) -> Option<Node> {
        let kind = match entry >> KIND_SHIFT {
            12 => Kind::Few,
            13 => Kind::Ranges,
            14 => Kind::Sixteen,
            15 => Kind::Many,
            _ => return None,
        };
        Some(Node { kind, depth: (entry >> DEPTH_SHIFT & 0x7f) as u8, line: entry & (MOST_LINES - 1) })
    }

    /// The number of its first word.
    pub fn word(self) -> usize {
        self.line as usize * LINE
    }
}

/// 32 bits of an address from a depth on, of the half in which that is; behind its last bit there are zeros. No line
/// looks beyond its half.
#[inline(always)]
pub(super) fn key_at(address: u128, depth: u32) -> u32 {
    let half = if depth & u32::from(HALF) == 0 { (address >> 64) as u64 } else { address as u64 };
    ((half << (depth & 63)) >> 32) as u32
}

/// All lines.
///
/// Invariant for the kernels: there are [`MOST_LINES`] of them, and each node's are among them.
pub(super) struct Lines {
    words: Reserved<AtomicU32>,
    /// There is more of them than caches hold. A hint: it changes how they are asked for, and not what they say.
    are_far: AtomicBool,
}

impl Lines {
    pub fn new() -> io::Result<Lines> {
        let words = Reserved::new(MOST_LINES as usize * LINE, Pages::Small)?;
        Ok(Lines { words, are_far: AtomicBool::new(false) })
    }

    pub fn words(&self) -> &Reserved<AtomicU32> {
        &self.words
    }

    #[inline]
    pub fn are_far(&self) -> bool {
        self.are_far.load(Ordering::Relaxed)
    }

    /// Notes how many are in use.
    pub fn note_used(&self, lines: usize) {
        self.are_far.store(lines > FAR, Ordering::Relaxed);
    }

    #[inline(always)]
    pub fn array(&self) -> &[AtomicU32; MOST_LINES as usize * LINE] {
        (&*self.words).try_into().expect("length set in new")
    }

    /// Asks for the line that an entry leads to; of a [`Kind::Many`] for the one that it will be. For a leaf, some
    /// line.
    #[inline(always)]
    pub fn ask(&self, entry: u32, address: u128) {
        let sixteenth = key_at(address, entry >> DEPTH_SHIFT) >> 28;
        let (kind, line) = (entry >> KIND_SHIFT, entry & (MOST_LINES - 1));
        let line = if kind == 15 { line + sixteenth } else { line };
        prefetch(&self.array()[(line & (MOST_LINES - 1)) as usize * LINE]);
        // The other line of many ranges: two at once, and not one after the other.
        let other = if kind == 13 { line | 1 } else { line };
        prefetch(&self.array()[(other & (MOST_LINES - 1)) as usize * LINE]);
    }

    /// What the line that an entry leads to says of an address.
    #[inline(always)]
    pub fn step(&self, entry: u32, address: u128) -> u32 {
        let array = self.array();
        let first = (entry & (MOST_LINES - 1)) as usize * LINE;
        let key = key_at(address, entry >> DEPTH_SHIFT);
        let line: &[AtomicU32] = &array[first..first + LINE];
        let smaller =
            |ends: usize| line[..ends].iter().map(|end| u32::from(end.load(Ordering::Relaxed) < key)).sum::<u32>();
        let at = match entry >> KIND_SHIFT {
            12 => 8 + smaller(7),
            13 => 16 + smaller(15),
            14 => key >> 28,
            _ => key >> 24,
        };
        array[(first + at as usize) & (MOST_LINES as usize * LINE - 1)].load(Ordering::Acquire)
    }

    /// Follows an entry to its leaf.
    #[inline]
    pub fn follow(&self, mut entry: u32, address: u128) -> u32 {
        while entry >= NODE {
            entry = self.step(entry, address);
        }
        entry
    }
}

/// By the first 16 bits of an address, where the slots of its part are: the one slot, or the block. Of other
/// addresses than those of 2000::/3 all words of a nibble are the same; that is cheaper to read than a word for each
/// part.
type Directory = [AtomicU32; 1 << PART_LENGTH];

/// Where lookups begin.
pub(super) struct Root {
    /// One slot for everything, or those of all parts.
    pub slots: Reserved<AtomicU32>,
    directory: Option<Box<Directory>>,
}

impl Root {
    pub fn small() -> io::Result<Root> {
        Ok(Root { slots: Reserved::new(1, Pages::Small)?, directory: None })
    }

    /// One with no block yet.
    pub fn large() -> io::Result<Root> {
        // Large pages: every lookup reads a slot.
        let slots = Reserved::new(ROOT_SLOTS, Pages::Huge)?;
        let words = (0..1u64 << PART_LENGTH).map(|begin| AtomicU32::new(Root::part(begin << 48) as u32));
        let directory = words.collect::<Box<[AtomicU32]>>().try_into().expect("as many");
        Ok(Root { slots, directory: Some(directory) })
    }

    pub fn is_large(&self) -> bool {
        self.directory.is_some()
    }

    /// The directory and all slots of a large root.
    #[inline(always)]
    pub fn large_parts(&self) -> Option<(&Directory, &[AtomicU32; ROOT_SLOTS])> {
        let directory = self.directory.as_ref()?;
        Some((directory, (&*self.slots).try_into().expect("length set in large")))
    }

    /// The part of the upper half of an address.
    #[inline(always)]
    pub fn part(upper: u64) -> usize {
        let global = (upper >> (64 - u32::from(PART_LENGTH))) as usize & (PARTS - 1);
        if upper >> 61 == GLOBAL { global } else { PARTS + (upper >> 60) as usize }
    }

    /// The slot of an address's upper half, by what the directory says.
    #[inline(always)]
    pub fn slot_in(directory: &Directory, upper: u64) -> usize {
        let first = directory[(upper >> (64 - u32::from(PART_LENGTH))) as usize].load(Ordering::Acquire);
        let within = (upper >> (64 - u32::from(BLOCK_LENGTH))) as u32 & (BLOCK_SLOTS as u32 - 1);
        // All bits or none.
        let has_block = (first.cast_signed() >> 31).cast_unsigned();
        // The mark of a block is above all slots.
        first.wrapping_add(within & has_block) as usize & (ROOT_SLOTS - 1)
    }

    /// The words of the directory that are of a part.
    fn words_of(part: usize) -> Range<usize> {
        match part.checked_sub(PARTS) {
            None => GLOBAL_BEGIN + part..GLOBAL_BEGIN + part + 1,
            Some(nibble) => nibble << 12..(nibble + 1) << 12,
        }
    }

    /// The slot of an address's upper half at present.
    #[inline]
    pub fn slot_of(&self, upper: u64) -> usize {
        match &self.directory {
            Some(directory) => Root::slot_in(directory, upper),
            None => 0,
        }
    }

    #[inline]
    pub fn slot(&self, address: u128) -> &AtomicU32 {
        &self.slots[self.slot_of((address >> 64) as u64)]
    }

    /// The block of a part.
    pub fn block(&self, part: usize) -> Option<u32> {
        let word = self.directory.as_ref()?[Root::words_of(part).start].load(Ordering::Relaxed);
        (word & IS_BLOCK != 0).then_some((word & !IS_BLOCK) / BLOCK_SLOTS as u32)
    }

    /// Has lookups of a part begin in a block, or in its one slot. What they find there is stored before.
    pub fn set_block(&self, part: usize, block: Option<u32>) {
        let directory = self.directory.as_ref().expect("only large roots have blocks");
        let word = block.map_or(part as u32, |block| IS_BLOCK | (block * BLOCK_SLOTS as u32));
        directory[Root::words_of(part)].iter().for_each(|place| place.store(word, Ordering::Release));
    }
}
