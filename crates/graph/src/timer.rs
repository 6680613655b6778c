//! Timers of one worker: a hierarchical timing wheel (Varghese and Lauck, "Hashed and hierarchical
//! timing wheels", SOSP 1987, scheme 7).
//!
//! Time is counted in steps of 64 us or so, as a number of digits of six bits. A timer lies at the
//! level of the highest digit in which its step differs from the present one, in that digit's slot:
//! so all timers of a level come before those of the next, and each moves down at most once a level.
//! To arm one costs a few clocks, however many there are; when none is due, a round costs one
//! comparison.

use std::collections::VecDeque;

const BITS: u32 = 6;
const SLOTS: usize = 1 << BITS;
const LEVELS: usize = 8;
/// Clock ticks of a step: 2^17 are 33 to 66 us between 2 and 4 GHz.
const STEP_BITS: u32 = 17;
/// The last step whose time in ticks is a number; the levels hold it.
const LAST_STEP: u64 = (1 << (u64::BITS - STEP_BITS)) - 1;

struct Entry<T> {
    step: u64,
    what: T,
}

/// Timers by when they are due.
pub struct Wheel<T> {
    /// The step that was looked at last.
    now: u64,
    slots: Box<[VecDeque<Entry<T>>]>,
    /// Slots of each level that hold something.
    filled: [u64; LEVELS],
    /// When to look next, in ticks: no timer is due before.
    next: u64,
}

impl<T> Wheel<T> {
    /// No timers; it is now so many ticks.
    pub fn new(now: u64) -> Wheel<T> {
        let slots = (0..LEVELS * SLOTS).map(|_| VecDeque::new()).collect();
        Wheel { now: now >> STEP_BITS, slots, filled: [0; LEVELS], next: u64::MAX }
    }

    /// Has `what` come out of [`Wheel::expire`] once it is `at` ticks, at most a step later.
    pub fn arm(&mut self, at: u64, what: T) {
        let steps = at.div_ceil(1 << STEP_BITS).clamp(self.now + 1, LAST_STEP);
        self.insert(Entry { step: steps, what });
        self.next = self.next.min(steps << STEP_BITS);
    }

    /// When to ask again, in ticks; none: nothing is armed.
    #[inline]
    pub fn next(&self) -> Option<u64> {
        Some(self.next).filter(|next| *next != u64::MAX)
    }

    /// Whether something is due.
    #[inline(always)]
    pub fn is_due(&self, now: u64) -> bool {
        now >= self.next
    }

    /// Takes out what is due, the earliest first.
    pub fn expire(&mut self, now: u64, mut due: impl FnMut(T)) {
        let target = now >> STEP_BITS;
        while let Some((level, slot, start)) = self.first() {
            if start > target {
                break;
            }
            self.now = start;
            self.filled[level] &= !(1 << slot);
            let mut entries = std::mem::take(&mut self.slots[level * SLOTS + slot]);
            for entry in entries.drain(..) {
                match entry.step <= start {
                    true => due(entry.what),
                    false => self.insert(entry),
                }
            }
            self.slots[level * SLOTS + slot] = entries; // keeps its memory
        }
        self.now = self.now.max(target);
        let earliest = self.first().map(|(level, slot, _)| {
            self.slots[level * SLOTS + slot].iter().map(|entry| entry.step).min().expect("a filled slot")
        });
        self.next = earliest.map_or(u64::MAX, |step| step << STEP_BITS);
    }

    fn insert(&mut self, entry: Entry<T>) {
        let level = (u64::BITS - 1 - ((entry.step ^ self.now) | 1).leading_zeros()) / BITS;
        let slot = (entry.step >> (level * BITS)) as usize % SLOTS;
        let level = level as usize;
        self.filled[level] |= 1 << slot;
        self.slots[level * SLOTS + slot].push_back(entry);
    }

    /// The first slot that holds something: its level, its place there, and the step that it begins with.
    fn first(&self) -> Option<(usize, usize, u64)> {
        let level = self.filled.iter().position(|filled| *filled != 0)?;
        let slot = self.filled[level].trailing_zeros() as usize;
        let below = level as u32 * BITS;
        let above = self.now >> below >> BITS << BITS << below;
        Some((level, slot, above | (slot as u64) << below))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const STEP: u64 = 1 << STEP_BITS;

    #[test]
    fn timers_come_out_when_they_are_due_and_not_before() {
        let mut wheel = Wheel::new(1000 * STEP);
        assert_eq!(wheel.next(), None);
        for (at, what) in [(1001 * STEP, 'a'), (1001 * STEP + 1, 'b'), (1_000_000 * STEP, 'c'), (0, 'd')] {
            wheel.arm(at, what);
        }
        assert_eq!(wheel.next(), Some(1001 * STEP));
        let due = |wheel: &mut Wheel<char>, now: u64| {
            let mut due = String::new();
            wheel.expire(now, |what| due.push(what));
            due
        };
        assert!(!wheel.is_due(1001 * STEP - 1));
        assert_eq!(due(&mut wheel, 1001 * STEP - 1), "");
        assert!(wheel.is_due(1001 * STEP));
        assert_eq!(due(&mut wheel, 1001 * STEP), "ad", "what should have been before comes next");
        assert_eq!(wheel.next(), Some(1002 * STEP));
        assert_eq!(due(&mut wheel, 1003 * STEP), "b");
        assert_eq!(wheel.next(), Some(1_000_000 * STEP), "a sleeper need not wake to look at the wheel");
        assert_eq!(due(&mut wheel, 999_999 * STEP), "");
        assert_eq!(due(&mut wheel, 2_000_000 * STEP), "c");
        assert_eq!(wheel.next(), None);
        wheel.arm(u64::MAX, 'e');
        assert!(!wheel.is_due(u64::MAX >> 1), "never is late");
    }

    proptest! {
        /// Against a list that is looked through.
        #[test]
        fn it_does_what_a_list_would(
            start in 0u64..1 << 40,
            acts in prop::collection::vec((prop_oneof![0u64..200, 0u64..100_000, 0u64..1 << 36], any::<bool>()),
                1..200),
        ) {
            let mut now = start * STEP;
            let mut wheel = Wheel::new(now);
            let mut list: Vec<(u64, usize)> = Vec::new();
            for (number, (distance, arm)) in acts.into_iter().enumerate() {
                let at = now + distance * STEP / 3;
                if arm {
                    wheel.arm(at, number);
                    list.push((at.div_ceil(STEP).max(now / STEP + 1), number));
                } else {
                    now = at;
                    let mut due = Vec::new();
                    wheel.expire(now, |number| due.push(list.iter().find(|entry| entry.1 == number).copied().unwrap()));
                    prop_assert!(due.is_sorted_by_key(|(step, _)| *step));
                    let mut expected: Vec<_> = list.extract_if(.., |(step, _)| *step <= now / STEP).collect();
                    expected.sort();
                    due.sort();
                    prop_assert_eq!(due, expected);
                }
                prop_assert_eq!(wheel.next(), list.iter().map(|(step, _)| step * STEP).min());
            }
        }
    }
}
