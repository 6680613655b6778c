//! What MPLS labels lead to (the incoming label map of RFC 3031 3.11): one load each, however many there are.
//!
//! A label has 20 bits, and leads elsewhere at the bottom of a stack than above others. So all that there can be is an array
//! of two million leaves, eight MiB of address space, of which memory is taken where labels are. Labels at the bottom lie side by
//! side: most routers see no others.

use crate::leaf::Leaf;
use crate::memory::{Pages, Reserved};
use rcu::Round;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Labels that there can be.
pub const LABELS: usize = 1 << 20;
/// Those at the bottom of a stack, and those above others.
const PLACES: usize = 2 * LABELS;

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

/// The control side: its owner keeps the book, this says what lookups find. One writer.
pub struct LabelTable {
    leaves: Arc<Reserved<AtomicU32>>,
    used: usize,
}

impl LabelTable {
    /// An empty table.
    ///
    /// # Errors
    /// When the address space cannot be had.
    pub fn new() -> io::Result<LabelTable> {
        Ok(LabelTable { leaves: Arc::new(Reserved::new(PLACES, Pages::Small)?), used: 0 })
    }

    /// The data side, for workers.
    pub fn handle(&self) -> LabelLookup {
        LabelLookup { leaves: self.leaves.clone() }
    }

    /// Has a label lead somewhere else, by [`Leaf::MISS`] nowhere; gives where it led. Lookups see one or the other.
    pub fn set(&mut self, key: LabelKey, leaf: Leaf) -> Leaf {
        let place = &self.leaves[key.place()];
        let before = Leaf(place.load(Ordering::Relaxed));
        // What the leaf names was made before.
        place.store(leaf.0, Ordering::Release);
        self.used = self.used + usize::from(leaf != Leaf::MISS) - usize::from(before != Leaf::MISS);
        before
    }

    pub fn get(&self, key: LabelKey) -> Leaf {
        Leaf(self.leaves[key.place()].load(Ordering::Relaxed))
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
    leaves: Arc<Reserved<AtomicU32>>,
}

impl LabelLookup {
    #[inline(always)]
    fn array(&self) -> &[AtomicU32; PLACES] {
        (&**self.leaves).try_into().expect("length set in new")
    }

    /// The leaf of a label, or [`Leaf::MISS`]. What the leaf names stays valid for the round.
    #[inline]
    pub fn lookup(&self, _: &Round<'_>, key: LabelKey) -> Leaf {
        Leaf(self.array()[key.place()].load(Ordering::Acquire))
    }

    /// Writes the leaf of each entry of a label stack, in host order.
    ///
    /// # Panics
    /// When there are not as many leaves as entries.
    #[inline]
    pub fn lookup_batch(&self, _: &Round<'_>, entries: &[u32], leaves: &mut [u32]) {
        assert_eq!(entries.len(), leaves.len());
        let array = self.array();
        for (entry, leaf) in entries.iter().zip(leaves) {
            // Nothing depends on the load: as many are under way as the processor can have.
            *leaf = array[LabelKey::of_entry(*entry).place()].load(Ordering::Acquire);
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
        fn lookups_find_what_was_set_last(sets in prop::collection::vec((key(), 0..20u32), 0..200), others in any::<u32>()) {
            let domain = Domain::new(1);
            let mut reader = domain.register().unwrap();
            let mut table = LabelTable::new().unwrap();
            let lookup = table.handle();
            let mut book = BTreeMap::new();
            for (key, leaf) in &sets {
                let before = if *leaf == 0 { book.remove(key) } else { book.insert(*key, Leaf(*leaf)) };
                prop_assert_eq!(table.set(*key, Leaf(*leaf)), before.unwrap_or(Leaf::MISS));
                prop_assert_eq!(table.len(), book.len());
            }
            let round = reader.round();
            // Each label, the one beside it, and the same above or below others.
            let keys: Vec<LabelKey> = sets.iter().flat_map(|(key, _)| {
                let beside = (key.label() + 1) % LABELS as u32;
                [*key, LabelKey::new(key.label(), !key.is_bottom()), LabelKey::new(beside, key.is_bottom())]
            }).collect();
            let entries: Vec<u32> = keys.iter().map(|key| entry(*key, others)).collect();
            let mut leaves = vec![7; keys.len()];
            lookup.lookup_batch(&round, &entries, &mut leaves);
            for ((key, entry), leaf) in keys.iter().zip(entries).zip(leaves) {
                prop_assert_eq!(LabelKey::of_entry(entry), *key);
                let expected = book.get(key).copied().unwrap_or(Leaf::MISS);
                prop_assert_eq!((Leaf(leaf), lookup.lookup(&round, *key), table.get(*key)), (expected, expected, expected));
            }
        }
    }
}
