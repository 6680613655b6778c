//! Where lookups begin in a small table: the upper halves of addresses as a few ranges, each with what it leads to.
//!
//! Most tables have few routes, and few of these are longer than /64. What such a table says of an address is then
//! found by a handful of comparisons with ends of ranges that fit registers, where the tree takes a step for each 32
//! bits. An entry of a range is what the tree has there: a leaf; or the node of a /64 in which longer routes are, and
//! from there on the tree is followed. So ranges know nothing that the tree does not know: they are read off it after
//! each change, which ends as soon as they turn out to be too many.

use super::lines::{HALF, Lines, Node};
use std::sync::atomic::Ordering;

/// A table of more ranges has none.
pub(super) const MOST: usize = 64;
/// Comparisons at least: fewer would not save any time.
const FEWEST_LEVELS: u32 = 3;

/// Ranges of the upper 64 bits of addresses, found by comparing with one end of each level.
#[derive(PartialEq, Eq)]
pub(super) struct Ranges {
    /// So many comparisons tell 2 to that power of ranges apart: 3 to 6.
    pub levels: u32,
    /// The ends of all ranges but the last as a search tree: that of all first, at 1, and behind each at n those that
    /// are compared next, at 2n when the address is not above it, and at 2n + 1. No address is above ends that are
    /// not needed.
    pub ends: [u64; MOST],
    pub entries: [u32; MOST],
}

impl Ranges {
    /// What an entry leads to. None: there are too many ranges.
    pub fn of(lines: &Lines, entry: u32) -> Option<Ranges> {
        let mut found = Stretches { ends: Vec::with_capacity(MOST), entries: Vec::with_capacity(MOST) };
        found.add(lines, entry, 0, u64::MAX).then(|| found.into_ranges())
    }

    /// The entry of addresses with this upper half.
    #[inline(always)]
    pub fn find(&self, upper: u64) -> u32 {
        let mut at = 1;
        for _ in 0..self.levels {
            at = 2 * at + usize::from(upper > self.ends[at & (MOST - 1)]);
        }
        self.entries[at & ((1 << self.levels) - 1) & (MOST - 1)]
    }
}

/// Ranges in order: their last values, and what they lead to.
struct Stretches {
    ends: Vec<u64>,
    entries: Vec<u32>,
}

impl Stretches {
    /// Everything up to `last` that is not there yet. False: there are too many.
    fn put(&mut self, last: u64, entry: u32) -> bool {
        if let (Some(end), Some(before)) = (self.ends.last_mut(), self.entries.last())
            && *before == entry
        {
            *end = last;
            return true;
        }
        if self.ends.len() == MOST {
            return false;
        }
        self.ends.push(last);
        self.entries.push(entry);
        true
    }

    /// What an entry leads to that addresses from `first` to `last` take. False: there are too many.
    fn add(&mut self, lines: &Lines, entry: u32, first: u64, last: u64) -> bool {
        let Some(node) = Node::of(entry).filter(|node| node.depth < HALF) else { return self.put(last, entry) };
        let word = |at: usize| lines.words()[node.word() + at].load(Ordering::Relaxed);
        let (bits, count) = match node.kind.ranges() {
            Some(most) => (32, most),
            None => (node.kind.stride(), 1 << node.kind.stride()),
        };
        let end_of = |value: u32| {
            let value = u64::from(value) << (64 - bits) >> node.depth;
            first | value | u64::MAX.unbounded_shr(u32::from(node.depth + bits))
        };
        let mut begin = first;
        for at in 0..count {
            let (end, value) = match node.kind.ranges() {
                // The last is not written down.
                Some(most) if at + 1 == most || word(at) == u32::MAX => (last, most + at),
                Some(most) => (end_of(word(at)), most + at),
                None => (end_of(at as u32), at),
            };
            if !self.add(lines, word(value), begin, end) {
                return false;
            }
            if end == last {
                break;
            }
            begin = end + 1;
        }
        true
    }

    fn into_ranges(self) -> Ranges {
        let levels = self.entries.len().next_power_of_two().ilog2().max(FEWEST_LEVELS);
        let (mut ends, mut entries) = ([u64::MAX; MOST], [0; MOST]);
        for level in 0..levels {
            let apart = 1 << (levels - level);
            for at in 0..1 << level {
                // The last range has no end that is compared.
                let end = apart * at + apart / 2 - 1;
                ends[(1 << level) + at] = self.ends[..self.ends.len() - 1].get(end).copied().unwrap_or(u64::MAX);
            }
        }
        entries[..self.entries.len()].copy_from_slice(&self.entries);
        Ranges { levels, ends, entries }
    }
}
