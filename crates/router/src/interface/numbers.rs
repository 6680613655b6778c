//! Unique numbers for things of one kind: a new one gets the lowest free number, without a search through all of them.

use std::collections::HashSet;

/// The numbers of one kind.
#[derive(Debug, Default)]
pub(super) struct Numbers {
    taken: HashSet<u32>,
    /// All numbers below this one are taken.
    lowest: u32,
}

impl Numbers {
    pub fn take(&mut self, number: u32) {
        self.taken.insert(number);
    }

    pub fn give_back(&mut self, number: u32) {
        self.taken.remove(&number);
        self.may_be_free(number);
    }

    /// Notes that `is_free` may accept a number now that it refused before.
    pub fn may_be_free(&mut self, number: u32) {
        self.lowest = self.lowest.min(number);
    }

    /// The lowest number that is not taken and that `is_free` accepts.
    pub fn lowest_free(&mut self, is_free: impl Fn(u32) -> bool) -> u32 {
        let free = |number: &u32| !self.taken.contains(number) && is_free(*number);
        self.lowest = (self.lowest..).find(free).expect("there are fewer interfaces than numbers");
        self.lowest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_free_one_is_given() {
        let mut numbers = Numbers::default();
        let any = |_| true;
        for expected in 0..4 {
            assert_eq!(numbers.lowest_free(any), expected);
            numbers.take(expected);
        }
        numbers.give_back(2);
        numbers.give_back(1);
        assert_eq!(numbers.lowest_free(any), 1);
        assert_eq!(numbers.lowest_free(|number| number != 1), 2);
        numbers.may_be_free(1);
        assert_eq!(numbers.lowest_free(any), 1);
    }
}
