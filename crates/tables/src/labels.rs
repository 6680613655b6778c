//! What MPLS labels lead to (the incoming label map of RFC 3031 3.11): one load each, however many there are.
//!
//! A label has 20 bits, and leads elsewhere at the bottom of a stack than above others. So all that there can be is an
//! array of two million words, sixteen MiB of address space, of which memory is taken where labels are. Labels at the
//! bottom lie side by side: most routers see no others. Beside its leaf a label has the one that it is changed for, if
//! that is all that is done with it: so all labels to a neighbour share one forwarding object, which stays near,
//! however many they are.

use crate::bits::Bits;
use crate::leaf::Leaf;
use crate::memory::{Pages, Reserved, SYSTEM_PAGE};
use rcu::Round;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Labels that there can be.
pub const LABELS: usize = 1 << 20;
/// Those at the bottom of a stack, and those above others.
const PLACES: usize = 2 * LABELS;
const PLACES_IN_PAGE: usize = SYSTEM_PAGE / size_of::<u64>();

/// A label as it is looked up: with whether it is at the bottom of its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelKey(u32);

impl LabelKey {
    /// # Panics
    /// When the label does not fit 20 bits.
    pub const fn new(label: u32, is_bottom: bool) -> LabelKey {
        assert!((label as usize) < LABELS);
        LabelKey(label | if is_bottom { 0 } else { LABELS as u32 })
    }

    /// The one of an entry of a label stack, in host order (RFC 3032 2.1).
    #[inline(always)]
    pub const fn of_entry(entry: u32) -> LabelKey {
        LabelKey(entry >> 12 | (!entry & 0x100) << 12)
    }

    pub const fn label(self) -> u32 {
        self.0 & (LABELS as u32 - 1)
    }

    /// Whether it is at the bottom of its stack (`eos`, end of stack, in commands).
    pub const fn is_bottom(self) -> bool {
        self.0 < LABELS as u32
    }

    const fn place(self) -> usize {
        self.0 as usize & (PLACES - 1)
    }
}

/// Where a label leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabelAction {
    pub leaf: Leaf,
    /// The label that it is changed for, as an entry of a label stack; 0 when the leaf does not ask for one.
    pub swap: u32,
}

impl LabelAction {
    pub const MISS: LabelAction = LabelAction::to(Leaf::MISS);

    pub const fn to(leaf: Leaf) -> LabelAction {
        LabelAction { leaf, swap: 0 }
    }

    const fn word(self) -> u64 {
        (self.swap as u64) << 32 | self.leaf.0 as u64
    }

    #[inline(always)]
    const fn of_word(word: u64) -> LabelAction {
        LabelAction { leaf: Leaf(word as u32), swap: (word >> 32) as u32 }
    }
}

/// The control side: its owner keeps the book, this says what lookups find. One writer.
pub struct LabelTable {
    leaves: Arc<Reserved<AtomicU64>>,
    used: usize,
    /// System pages from which labels have gone, for [`LabelTable::trim`].
    maybe_empty: Bits,
}

impl LabelTable {
    /// An empty table.
    ///
    /// # Errors
    /// When the address space cannot be had.
    pub fn new() -> io::Result<LabelTable> {
        let leaves = Arc::new(Reserved::new(PLACES, Pages::Small)?);
        Ok(LabelTable { leaves, used: 0, maybe_empty: Bits::new(PLACES / PLACES_IN_PAGE) })
    }

    /// The data side, for workers.
    pub fn handle(&self) -> LabelLookup {
        LabelLookup { leaves: self.leaves.clone() }
    }

    /// Has a label lead somewhere else, by [`LabelAction::MISS`] nowhere; gives where it led. Lookups see one or the
    /// other.
    pub fn set(&mut self, key: LabelKey, way: LabelAction) -> LabelAction {
        let place = &self.leaves[key.place()];
        let before = LabelAction::of_word(place.load(Ordering::Relaxed));
        // What the leaf names was made before.
        place.store(way.word(), Ordering::Release);
        if way == LabelAction::MISS {
            self.maybe_empty.insert(key.place() / PLACES_IN_PAGE);
        }
        self.used = self.used + usize::from(way.leaf != Leaf::MISS) - usize::from(before.leaf != Leaf::MISS);
        before
    }

    /// Gives memory back that holds nothing any more.
    pub fn trim(&mut self) {
        for page in self.maybe_empty.take() {
            let places = page * PLACES_IN_PAGE..(page + 1) * PLACES_IN_PAGE;
            if self.leaves[places.clone()].iter().all(|place| place.load(Ordering::Relaxed) == 0) {
                self.leaves.give_back(places);
            }
        }
    }

    pub fn get(&self, key: LabelKey) -> LabelAction {
        LabelAction::of_word(self.leaves[key.place()].load(Ordering::Relaxed))
    }

    /// Labels that lead somewhere.
    pub fn len(&self) -> usize {
        self.used
    }

    pub fn is_empty(&self) -> bool {
        self.used == 0
    }
}

/// The data side of a [`LabelTable`]: a handle that any worker may hold and clone.
#[derive(Clone)]
pub struct LabelLookup {
    leaves: Arc<Reserved<AtomicU64>>,
}

impl LabelLookup {
    #[inline(always)]
    fn array(&self) -> &[AtomicU64; PLACES] {
        (&**self.leaves).try_into().expect("length set in new")
    }

    /// Where a label leads, or [`LabelAction::MISS`]. What the leaf names stays valid for the round.
    #[inline]
    pub fn lookup(&self, _: &Round<'_>, key: LabelKey) -> LabelAction {
        LabelAction::of_word(self.array()[key.place()].load(Ordering::Acquire))
    }

    /// Replaces entries of label stacks, in host order, by leaves, and writes what they are changed for.
    ///
    /// # Panics
    /// When there are not as many swaps as entries.
    #[inline]
    pub fn lookup_batch(&self, _: &Round<'_>, entries: &mut [u32], swaps: &mut [u32]) {
        assert_eq!(entries.len(), swaps.len());
        let array = self.array();
        for (entry, swap) in entries.iter_mut().zip(swaps) {
            // Nothing depends on the load: as many are under way as the processor can have.
            let word = array[LabelKey::of_entry(*entry).place()].load(Ordering::Acquire);
            (*entry, *swap) = (word as u32, (word >> 32) as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcu::Domain;
    use std::collections::BTreeMap;

    /// An entry of a stack with that label, and other bits around it.
    fn entry(key: LabelKey, others: u32) -> u32 {
        key.label() << 12 | others & 0xeff | u32::from(key.is_bottom()) << 8
    }

    fn key() -> impl Strategy<Value = LabelKey> {
        let label = prop_oneof![0..40u32, 0..LABELS as u32, Just(LABELS as u32 - 1)];
        (label, any::<bool>()).prop_map(|(label, is_bottom)| LabelKey::new(label, is_bottom))
    }

    proptest! {
        #[test]
        fn lookups_find_what_was_set_last(
            sets in prop::collection::vec((key(), 0..20u32), 0..200),
            others in any::<u32>(),
        ) {
            let domain = Domain::new(1);
            let mut reader = domain.register().unwrap();
            let mut table = LabelTable::new().unwrap();
            let lookup = table.handle();
            let mut book = BTreeMap::new();
            for (at, (key, leaf)) in sets.iter().enumerate() {
                if at % 16 == 0 {
                    table.trim();
                }
                let way = LabelAction { leaf: Leaf(*leaf), swap: leaf.wrapping_mul(0x7654_3000) };
                let before = if *leaf == 0 { book.remove(key) } else { book.insert(*key, way) };
                prop_assert_eq!(table.set(*key, way), before.unwrap_or(LabelAction::MISS));
                prop_assert_eq!(table.len(), book.len());
            }
            let round = reader.round();
            // Each label, the one beside it, and the same above or below others.
            let keys: Vec<LabelKey> = sets.iter().flat_map(|(key, _)| {
                let beside = (key.label() + 1) % LABELS as u32;
                [*key, LabelKey::new(key.label(), !key.is_bottom()), LabelKey::new(beside, key.is_bottom())]
            }).collect();
            let entries: Vec<u32> = keys.iter().map(|key| entry(*key, others)).collect();
            let (mut leaves, mut swaps) = (entries.clone(), vec![7; keys.len()]);
            lookup.lookup_batch(&round, &mut leaves, &mut swaps);
            for ((key, entry), (leaf, swap)) in keys.iter().zip(entries).zip(leaves.into_iter().zip(swaps)) {
                prop_assert_eq!(LabelKey::of_entry(entry), *key);
                let expected = book.get(key).copied().unwrap_or(LabelAction::MISS);
                let found = LabelAction { leaf: Leaf(leaf), swap };
                prop_assert_eq!((found, lookup.lookup(&round, *key), table.get(*key)), (expected, expected, expected));
            }
        }
    }
}
