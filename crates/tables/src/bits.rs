//! Sets of small numbers, a bit each.

use std::ops::Range;

/// A set of small numbers.
pub(crate) struct Bits(Vec<u64>);

impl Bits {
    pub fn new(size: usize) -> Bits {
        Bits(vec![0; size.div_ceil(64)])
    }
    pub fn insert(&mut self, number: usize) {
        self.0[number / 64] |= 1 << (number % 64);
    }
    pub fn remove(&mut self, number: usize) {
        self.0[number / 64] &= !(1 << (number % 64));
    }
    pub fn contains(&self, number: usize) -> bool {
        self.0[number / 64] >> (number % 64) & 1 != 0
    }
    pub fn count_in(&self, range: Range<usize>) -> usize {
        let words = &self.0[range.start / 64..range.end.div_ceil(64)];
        words.iter().map(|word| word.count_ones() as usize).sum()
    }
    pub fn len(&self) -> usize {
        self.0.iter().map(|word| word.count_ones() as usize).sum()
    }
    /// All of them; none is left.
    pub fn take(&mut self) -> impl Iterator<Item = usize> + use<> {
        let words: Vec<(usize, u64)> = self.0.iter().copied().enumerate().filter(|(_, word)| *word != 0).collect();
        self.0.fill(0);
        words
            .into_iter()
            .flat_map(|(at, word)| (0..64).filter(move |bit| word >> bit & 1 != 0).map(move |bit| at * 64 + bit))
    }

    /// Those of the numbers below `end` that are in it, as runs of neighbours.
    pub fn runs(&self, end: usize) -> impl Iterator<Item = Range<usize>> + '_ {
        let mut at = 0;
        std::iter::from_fn(move || {
            let first = (at..end).find(|number| self.contains(*number))?;
            at = (first..end).find(|number| !self.contains(*number)).unwrap_or(end);
            Some(first..at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn runs_are_what_is_in_it(numbers in prop::collection::btree_set(0..200usize, 0..150), end in 0..=200usize) {
            let mut bits = Bits::new(200);
            numbers.iter().for_each(|number| bits.insert(*number));
            let runs: Vec<Range<usize>> = bits.runs(end).collect();
            let found: BTreeSet<usize> = runs.iter().cloned().flatten().collect();
            prop_assert_eq!(found, numbers.into_iter().filter(|number| *number < end).collect());
            // Two that touch would be one.
            prop_assert!(runs.is_sorted_by(|one, other| one.end < other.start));
        }
    }
}
