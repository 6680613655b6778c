//! A table of numbers that has a word for each there can be: one load each, however many are in use.
//!
//! MPLS labels are such numbers, and the identifiers of tunnels and services are others. The array is address space, of
//! which memory is taken where numbers are. Beside its leaf a number has a word that the table does not interpret: so
//! numbers that differ in little can share one forwarding object, which stays near, however many they are.

use crate::bits::Bits;
use crate::leaf::Leaf;
use crate::memory::{Pages, Reserved, SYSTEM_PAGE};
use rcu::Round;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const PLACES_IN_PAGE: usize = SYSTEM_PAGE / size_of::<u64>();

/// Where a number leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Way {
    pub leaf: Leaf,
    /// A word for the node that reads the leaf; 0 when it needs none.
    pub beside: u32,
}

impl Way {
    pub const MISS: Way = Way::to(Leaf::MISS);

    pub const fn to(leaf: Leaf) -> Way {
        Way { leaf, beside: 0 }
    }

    const fn word(self) -> u64 {
        (self.beside as u64) << 32 | self.leaf.0 as u64
    }

    #[inline(always)]
    const fn of_word(word: u64) -> Way {
        Way { leaf: Leaf(word as u32), beside: (word >> 32) as u32 }
    }
}

/// The control side, for numbers below `PLACES`, a power of two: its owner keeps the book, this says what lookups find.
/// One writer.
pub struct DirectTable<const PLACES: usize> {
    words: Arc<Reserved<AtomicU64>>,
    used: usize,
    /// System pages from which numbers have gone, for [`DirectTable::trim`].
    maybe_empty: Bits,
}

impl<const PLACES: usize> DirectTable<PLACES> {
    const WHOLE_PAGES: () = assert!(PLACES.is_power_of_two() && PLACES >= PLACES_IN_PAGE);

    /// An empty table.
    ///
    /// # Errors
    /// When the address space cannot be had.
    pub fn new() -> io::Result<Self> {
        let () = Self::WHOLE_PAGES;
        let words = Arc::new(Reserved::new(PLACES, Pages::Small)?);
        Ok(DirectTable { words, used: 0, maybe_empty: Bits::new(PLACES / PLACES_IN_PAGE) })
    }

    /// The data side, for workers.
    pub fn handle(&self) -> DirectLookup<PLACES> {
        DirectLookup { words: self.words.clone() }
    }

    /// Has a number lead somewhere else, by [`Way::MISS`] nowhere; gives where it led. Lookups see one or the other.
    ///
    /// # Panics
    /// When the number is not below `PLACES`.
    pub fn set(&mut self, number: usize, way: Way) -> Way {
        let place = &self.words[number];
        let before = Way::of_word(place.load(Ordering::Relaxed));
        // What the leaf names was made before.
        place.store(way.word(), Ordering::Release);
        if way == Way::MISS {
            self.maybe_empty.insert(number / PLACES_IN_PAGE);
        }
        self.used = self.used + usize::from(way.leaf != Leaf::MISS) - usize::from(before.leaf != Leaf::MISS);
        before
    }

    /// Gives memory back that holds nothing any more.
    pub fn trim(&mut self) {
        for page in self.maybe_empty.take() {
            let places = page * PLACES_IN_PAGE..(page + 1) * PLACES_IN_PAGE;
            if self.words[places.clone()].iter().all(|place| place.load(Ordering::Relaxed) == 0) {
                self.words.give_back(places);
            }
        }
    }

    /// # Panics
    /// When the number is not below `PLACES`.
    pub fn get(&self, number: usize) -> Way {
        Way::of_word(self.words[number].load(Ordering::Relaxed))
    }

    /// Numbers that lead somewhere.
    pub fn len(&self) -> usize {
        self.used
    }

    pub fn is_empty(&self) -> bool {
        self.used == 0
    }
}

/// The data side of a [`DirectTable`]: a handle that any worker may hold and clone.
#[derive(Clone)]
pub struct DirectLookup<const PLACES: usize> {
    words: Arc<Reserved<AtomicU64>>,
}

impl<const PLACES: usize> DirectLookup<PLACES> {
    #[inline(always)]
    fn array(&self) -> &[AtomicU64; PLACES] {
        (&**self.words).try_into().expect("length set in new")
    }

    /// Where a number leads, or [`Way::MISS`]. Only the number's bits below `PLACES` count. What the leaf names stays
    /// valid for the round.
    #[inline]
    pub fn lookup(&self, _: &Round<'_>, number: usize) -> Way {
        Way::of_word(self.array()[number & (PLACES - 1)].load(Ordering::Acquire))
    }

    /// Replaces keys by leaves, and writes the words beside them; `number_of` a key is what is looked up.
    ///
    /// # Panics
    /// When there are not as many places for words as keys.
    #[inline]
    pub fn lookup_batch(&self, _: &Round<'_>, keys: &mut [u32], beside: &mut [u32], number_of: impl Fn(u32) -> usize) {
        assert_eq!(keys.len(), beside.len());
        let array = self.array();
        for (key, beside) in keys.iter_mut().zip(beside) {
            // Nothing depends on the load: as many are under way as the processor can have.
            let word = array[number_of(*key) & (PLACES - 1)].load(Ordering::Acquire);
            (*key, *beside) = (word as u32, (word >> 32) as u32);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use rcu::Domain;
    use std::collections::BTreeMap;

    const PLACES: usize = 1 << 16;

    fn number() -> impl Strategy<Value = usize> {
        prop_oneof![0..40usize, 0..PLACES, Just(PLACES - 1)]
    }

    proptest! {
        #[test]
        fn lookups_find_what_was_set_last(sets in prop::collection::vec((number(), 0..20u32), 0..200)) {
            let domain = Domain::new(1);
            let mut reader = domain.register().unwrap();
            let mut table = DirectTable::<PLACES>::new().unwrap();
            let lookup = table.handle();
            let mut book = BTreeMap::new();
            for (at, (number, leaf)) in sets.iter().enumerate() {
                if at % 16 == 0 {
                    table.trim();
                }
                let way = Way { leaf: Leaf(*leaf), beside: leaf.wrapping_mul(0x7654_3000) };
                let before = if *leaf == 0 { book.remove(number) } else { book.insert(*number, way) };
                prop_assert_eq!(table.set(*number, way), before.unwrap_or(Way::MISS));
                prop_assert_eq!(table.len(), book.len());
            }
            let round = reader.round();
            // Each number and the one beside it, with bits above that do not count.
            let keys = sets.iter().flat_map(|(number, _)| [*number, (number + 1) % PLACES]);
            let keys: Vec<u32> = keys.map(|number| (number as u32 * 2) | 1).collect();
            let number_of = |key: u32| (key >> 1) as usize | PLACES;
            let (mut leaves, mut beside) = (keys.clone(), vec![7; keys.len()]);
            lookup.lookup_batch(&round, &mut leaves, &mut beside, number_of);
            for (key, (leaf, beside)) in keys.into_iter().zip(leaves.into_iter().zip(beside)) {
                let number = (key >> 1) as usize;
                let expected = book.get(&number).copied().unwrap_or(Way::MISS);
                let found = Way { leaf: Leaf(leaf), beside };
                let one = lookup.lookup(&round, number_of(key));
                prop_assert_eq!((found, one, table.get(number)), (expected, expected, expected));
            }
        }
    }
}
