//! Tables like the Internet's, for tests and measurements: the same for the same seed, whatever the
//! machine.

use crate::fib4::Key;
use crate::fib6::Key as Key6;
use std::collections::HashSet;

/// How many prefixes of each length, from /8 on, a table of the Internet's default-free zone had below 128.0.0.0,
/// 192.0.0.0 and 224.0.0.0. From a dump of a router, as counted in app/test/test_lpm_perf.c of DPDK; the few that
/// are shorter are left out, and of its /8s those that are there twice.
const COUNTS: [[u32; 25]; 3] = [
    [
        16, 26, 16, 39, 144, 233, 528, 866, 3856, 3268, 5662, 17301, 22226, 11147, 16746, 17120, 77578, 401, 656, 1107,
        1121, 2316, 717, 10, 66,
    ],
    [
        3, 3, 30, 25, 168, 305, 569, 1129, 50800, 1645, 1820, 3506, 3258, 3424, 4971, 6885, 39771, 424, 170, 433, 92,
        366, 377, 2, 200,
    ],
    [
        2, 8, 9, 33, 69, 237, 1007, 1717, 14663, 8070, 16185, 48261, 36870, 33960, 50638, 61422, 466_549, 1829, 4824,
        4927, 5914, 10254, 4905, 1, 716,
    ],
];
const SHORTEST: u8 = 8;
/// First and last /8 of each column.
const CLASSES: [(u32, u32); 3] = [(1, 126), (128, 191), (192, 223)];

/// xorshift64* (Vigna, "An experimental exploration of Marsaglia's xorshift generators, scrambled", 2016).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// Any seed will do.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn draw(&mut self) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) as u32
    }

    /// A number below `bound`, which is not 0.
    pub fn below(&mut self, bound: u32) -> u32 {
        ((u64::from(self.draw()) * u64::from(bound)) >> 32) as u32
    }

    /// Puts things into an order of chance (Fisher-Yates).
    pub fn shuffle<T>(&mut self, things: &mut [T]) {
        for i in (1..things.len()).rev() {
            things.swap(i, self.below(i as u32 + 1) as usize);
        }
    }
}

/// There are not enough prefixes of all lengths for more than so many in the proportions of the Internet's.
pub const MOST_INTERNET: usize = 4_000_000;

/// So many different prefixes, with the lengths of the Internet's table in its proportions, clustered as there: about
/// half lie inside a shorter one, and neighbours are announced together. In an order of chance.
///
/// # Panics
/// For more than [`MOST_INTERNET`].
pub fn internet(count: usize, seed: u64) -> Vec<Key> {
    assert!(count <= MOST_INTERNET, "too many for these proportions");
    let mut random = Random::new(seed);
    let total: u64 = COUNTS.iter().flatten().map(|count| u64::from(*count)).sum();
    let mut keys: Vec<Key> = Vec::with_capacity(count);
    let mut known: HashSet<Key> = HashSet::with_capacity(count);
    let mut seen = 0;
    for (counts, class) in COUNTS.iter().zip(CLASSES) {
        // Aggregates come first, their more-specifics find them here.
        let begin = keys.len();
        for (length, of_length) in (SHORTEST..).zip(counts) {
            seen += u64::from(*of_length);
            let until = (seen * count as u64 / total) as usize;
            let mut run = 0;
            let mut next = Key::DEFAULT;
            // A few may be missing where they would be too close.
            let mut patience = 100 * (until - keys.len().min(until));
            while keys.len() < until && patience > 0 {
                patience -= 1;
                if run == 0 {
                    (next, run) = place(&mut random, &keys[begin..], class, length);
                }
                run -= 1;
                if inside(next, class) && known.insert(next) {
                    keys.push(next);
                }
                next = Key::new(next.address().wrapping_add(1 << (32 - u32::from(length))), length);
            }
        }
    }
    random.shuffle(&mut keys);
    keys
}

/// Where a run of prefixes begins, and how many may follow each other.
fn place(random: &mut Random, aggregates: &[Key], class: (u32, u32), length: u8) -> (Key, u32) {
    let is_long = length > 24;
    let outer = if aggregates.is_empty() || !is_long && random.below(2) == 0 {
        Key::new((class.0 + random.below(class.1 - class.0 + 1)) << 24, 8)
    } else {
        aggregates[random.below(aggregates.len() as u32) as usize]
    };
    let free = length.saturating_sub(outer.length());
    let address = outer.address() | random.draw().unbounded_shr(u32::from(outer.length()));
    // Links and customers of one /24 are numbered side by side.
    let run = 1 + random.below(if is_long { 16 } else { 6 });
    (Key::new(address, length), run.min(1u32.unbounded_shl(free.into()).max(1)))
}

fn inside(key: Key, class: (u32, u32)) -> bool {
    (class.0..=class.1).contains(&(key.address() >> 24)) && key.address() >> 24 != 10
}

/// So many /24s side by side from 1.0.0.0 on, in an order of chance.
///
/// # Panics
/// For more than there are below 224.0.0.0.
pub fn twenty_fours(count: usize, seed: u64) -> Vec<Key> {
    assert!(count <= (224 - 1) << 16, "so many /24s are not unicast");
    let mut keys: Vec<Key> = (0..count as u32).map(|i| Key::new((1 << 24) + (i << 8), 24)).collect();
    Random::new(seed).shuffle(&mut keys);
    keys
}

/// Of a thousand prefixes of the Internet's IPv6 table how many have each length. An estimate: what is published and
/// what these come to are the mean length of 42.8 and the share of 57 % that lie inside others
/// (bgp.potaroo.net/v6/as1221, April 2025: 221,802 entries).
const LENGTHS6: [(u8, u32); 23] = [
    (20, 1),
    (24, 2),
    (28, 3),
    (29, 29),
    (30, 8),
    (31, 3),
    (32, 102),
    (33, 17),
    (34, 12),
    (35, 10),
    (36, 44),
    (37, 5),
    (38, 15),
    (39, 7),
    (40, 82),
    (41, 6),
    (42, 24),
    (43, 10),
    (44, 92),
    (45, 15),
    (46, 39),
    (47, 29),
    (48, 445),
];

/// Where the registries give out addresses: the first /16 of each block, how many follow, and how many of a hundred
/// allocations are there (IANA, "IPv6 Global Unicast Address Assignments").
const BLOCKS6: [(u32, u32, u32); 6] =
    [(0x2001, 1, 10), (0x2400, 16, 24), (0x2600, 16, 18), (0x2800, 8, 12), (0x2a00, 20, 32), (0x2c0f, 1, 4)];

/// So many different IPv6 prefixes, with about the lengths of the Internet's table, clustered as there: more than
/// half lie inside a shorter one, and neighbours are announced together. In an order of chance.
pub fn internet6(count: usize, seed: u64) -> Vec<Key6> {
    let mut random = Random::new(seed);
    let total: u64 = LENGTHS6.iter().map(|(_, of)| u64::from(*of)).sum();
    let mut keys: Vec<Key6> = Vec::with_capacity(count);
    let mut known: HashSet<Key6> = HashSet::with_capacity(count);
    let mut seen = 0;
    for (length, of_length) in LENGTHS6 {
        seen += u64::from(of_length);
        let until = (seen * count as u64 / total) as usize;
        let aggregates = keys.len();
        let (mut next, mut run) = (Key6::DEFAULT, 0);
        // Of short ones there are not as many as a very large table would have: then longer ones make up for them.
        let mut patience = 20 * (until - aggregates);
        while keys.len() < until && patience > 0 {
            patience -= 1;
            if run == 0 {
                (next, run) = place6(&mut random, &keys[..aggregates], length);
            }
            run -= 1;
            if next.address() >> 125 == 1 && known.insert(next) {
                keys.push(next);
            }
            next = Key6::new(next.address().wrapping_add(1 << (128 - u32::from(length))), length);
        }
    }
    random.shuffle(&mut keys);
    keys
}

/// Where a run of prefixes begins, and how many follow each other.
fn place6(random: &mut Random, aggregates: &[Key6], length: u8) -> (Key6, u32) {
    let draw = u128::from(random.draw()) << 32 | u128::from(random.draw());
    let inside = length > 32 && !aggregates.is_empty() && random.below(100) < 70;
    let outer = if inside {
        aggregates[random.below(aggregates.len() as u32) as usize]
    } else {
        let mut chance = random.below(100);
        let block = BLOCKS6.iter().find(|(.., share)| {
            let here = chance < *share;
            chance = chance.wrapping_sub(*share);
            here
        });
        let (first, count, _) = block.expect("the shares are a hundred");
        Key6::new(u128::from(first + random.below(*count)) << 112, 16)
    };
    let below = (draw << 64).unbounded_shr(outer.length().into());
    (Key6::new(outer.address() | below, length), 1 + random.below(6))
}

/// So many /48s side by side from 2400::/48 on, in an order of chance.
pub fn forty_eights(count: usize, seed: u64) -> Vec<Key6> {
    let mut keys: Vec<Key6> = (0..count as u128).map(|i| Key6::new(0x2400 << 112 | i << 80, 48)).collect();
    Random::new(seed).shuffle(&mut keys);
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_in_proportion_and_about_half_lie_inside_others() {
        let keys = internet(100_000, 7);
        assert_eq!(keys.len(), 100_000);
        let different: HashSet<&Key> = keys.iter().collect();
        assert_eq!(different.len(), keys.len());
        let share = |length| keys.iter().filter(|key| key.length() == length).count() as f64 / keys.len() as f64;
        assert!((share(24) - 0.542).abs() < 0.005 && (share(16) - 0.064).abs() < 0.005, "{} {}", share(24), share(16));
        let is_inside =
            |key: &&Key| (8..key.length()).any(|length| different.contains(&Key::new(key.address(), length)));
        let inside = keys.iter().filter(is_inside).count() as f64 / keys.len() as f64;
        assert!((0.4..0.9).contains(&inside), "{inside}");
        assert_eq!(keys, internet(100_000, 7));
        assert_ne!(keys, internet(100_000, 8));
    }

    #[test]
    fn so_they_are_of_ipv6() {
        let keys = internet6(50_000, 7);
        assert_eq!(keys.len(), 50_000);
        let different: HashSet<&Key6> = keys.iter().collect();
        assert_eq!(different.len(), keys.len());
        let mean = keys.iter().map(|key| f64::from(key.length())).sum::<f64>() / keys.len() as f64;
        assert!((mean - 42.8).abs() < 0.3, "{mean}");
        let is_inside =
            |key: &&Key6| (16..key.length()).any(|length| different.contains(&Key6::new(key.address(), length)));
        let inside = keys.iter().filter(is_inside).count() as f64 / keys.len() as f64;
        assert!((0.5..0.65).contains(&inside), "{inside}");
        assert_eq!(keys, internet6(50_000, 7));
    }
}
