//! The table against a linear scan, and against readers on other threads.

use super::lines::{Kind, Node, PARTS};
use super::parts::CROWD;
use super::*;
use crate::kernel::Kernel;
use proptest::prelude::*;
use rcu::Reader;
use std::sync::atomic::{AtomicBool, Ordering};

/// What a number of the table stands for: itself as a leaf, or nothing.
fn leaf_of(value: u32) -> Leaf {
    if value & UNUSED != 0 { Leaf::MISS } else { Leaf(value) }
}

const UNUSED: u32 = 1 << 27;

fn part_of(key: Key) -> usize {
    Root::part((key.address() >> 64) as u64)
}

/// A table whose numbers are leaves, beside its oracle.
struct Bench {
    fib: Fib6,
    /// Finds every answer by a scan of all routes.
    oracle: Vec<(Key, u32)>,
    domain: Arc<Domain>,
    reader: Reader,
}

impl Bench {
    fn new(lines: u32) -> Bench {
        let domain = Domain::new(1);
        let fib = Fib6::with_options(&domain, Options { lines }).unwrap();
        let reader = domain.register().unwrap();
        Bench { fib, oracle: Vec::new(), domain, reader }
    }

    /// Treats more prefixes than this in one place as very many.
    fn in_spans(mut self, piece: usize) -> Bench {
        (self.fib.few, self.fib.piece) = (piece.min(self.fib.few), piece);
        self
    }

    fn longest(&self, address: u128) -> Leaf {
        let covering = self.oracle.iter().filter(|(key, value)| key.contains(address) && leaf_of(*value) != Leaf::MISS);
        covering.max_by_key(|(key, _)| key.length()).map_or(Leaf::MISS, |(_, value)| leaf_of(*value))
    }

    fn note(&mut self, key: Key, value: Option<u32>) -> Option<u32> {
        let at = self.oracle.iter().position(|(known, _)| *known == key);
        let before = at.map(|at| self.oracle.swap_remove(at).1);
        self.oracle.extend(value.map(|value| (key, value)));
        before
    }

    fn insert(&mut self, key: Key, value: u32) {
        match self.fib.insert(key, value, leaf_of) {
            Ok(before) => assert_eq!(before, self.note(key, Some(value))),
            Err(TableFull) => assert_eq!(self.fib.get(key), self.oracle.iter().find(|(k, _)| *k == key).map(|r| r.1)),
        }
    }

    fn remove(&mut self, key: Key) {
        match self.fib.remove(key, leaf_of) {
            Ok(before) => assert_eq!(before, self.note(key, None)),
            Err(TableFull) => assert!(self.fib.get(key).is_some()),
        }
    }

    /// Checks first and last addresses of all prefixes, their neighbours, and a few others, by every kind of lookup.
    fn check(&mut self) {
        let mut addresses: Vec<u128> = self
            .oracle
            .iter()
            .flat_map(|(key, _)| {
                let (first, last) = (key.address(), key.last());
                [first, last, first.wrapping_sub(1), last.wrapping_add(1), first ^ 1 << 60, last ^ 1 << 90]
            })
            .collect();
        addresses.extend([0, u128::MAX, 1 << 125, 1 << 127, 5]);
        let expected: Vec<Leaf> = addresses.iter().map(|address| self.longest(*address)).collect();
        let shorter: Vec<u32> = {
            let default = self.note(Key::DEFAULT, None);
            let shorter = addresses.iter().map(|address| self.longest(*address).0).collect();
            self.note(Key::DEFAULT, default);
            shorter
        };
        self.check_ranges(&addresses);
        let round = self.reader.round();
        let handle = self.fib.handle();
        for (address, expected) in addresses.iter().zip(&expected) {
            assert_eq!(handle.lookup(&round, *address), *expected, "{address:x}");
            assert_eq!(self.fib.shown(*address), *expected);
        }
        for kernel in Kernel::ALL {
            let Some(handle) = handle.with_kernel(kernel) else { continue };
            let mut leaves = vec![7; addresses.len()];
            handle.lookup_batch(&round, &addresses, &mut leaves);
            let found: Vec<Leaf> = leaves.iter().map(|leaf| Leaf(*leaf)).collect();
            assert_eq!(found, expected, "{kernel:?}");
            handle.lookup_batch_but_default(&round, &addresses, &mut leaves);
            assert_eq!(leaves, shorter, "{kernel:?}");
        }
        self.domain.collect();
    }

    /// Checks that ranges agree with the tree for every address, and exist exactly when there are not too many.
    fn check_ranges(&self, addresses: &[u128]) {
        let (start, lines) = (self.fib.writer.start(), &self.fib.table.lines);
        let root = start.root.slots[0].load(Ordering::Relaxed);
        let Some(ranges) = &start.ranges else {
            return assert!(start.root.is_large() || root < NODE || self.count_stretches() > ranges::MOST);
        };
        for address in addresses {
            let entry = ranges.find((address >> 64) as u64);
            assert_eq!(lines.follow(entry, *address), lines.follow(root, *address), "{address:x}");
        }
    }

    /// Counts, by the oracle, how often the leaf, or the /64 with longer routes, changes along the upper halves of
    /// addresses.
    fn count_stretches(&self) -> usize {
        let mut begins: Vec<u64> = vec![0];
        for (key, _) in &self.oracle {
            let upper = |address: u128| (address >> 64) as u64;
            begins.push(upper(key.address()));
            begins.extend(upper(key.last()).checked_add(1));
        }
        begins.sort_unstable();
        begins.dedup();
        let lines = &self.fib.table.lines;
        let root = self.fib.writer.root().slots[0].load(Ordering::Relaxed);
        let is_longer = |key: &Key, begin: u64| key.length() > 64 && (key.address() >> 64) as u64 == begin;
        let of = |begin: u64| match self.oracle.iter().any(|(key, _)| is_longer(key, begin)) {
            true => u32::MAX - begins.binary_search(&begin).unwrap() as u32,
            false => lines.follow(root, u128::from(begin) << 64),
        };
        let mut all: Vec<u32> = begins.iter().map(|begin| of(*begin)).collect();
        all.dedup();
        all.len()
    }

    /// Checks that the lines in use are exactly those that lookups reach.
    fn account(&self) {
        assert_eq!(self.fib.writer.count_reached(), self.fib.writer.used());
    }
}

/// Prefixes that are crowded at several depths.
fn key() -> impl Strategy<Value = Key> {
    let length = prop_oneof![
        4 => prop::sample::select(vec![16u8, 20, 22, 23, 24, 28, 29, 32, 33, 36, 40, 44, 46, 47, 48, 49, 56, 63, 64]),
        2 => prop::sample::select(vec![65u8, 80, 96, 97, 112, 120, 124, 125, 126, 127, 128]),
        1 => 0..=128u8,
    ];
    let top = prop::sample::select(vec![0x2000u128, 0x2001, 0x2a00, 0x2a01, 0x3fff, 0xfe80, 0xff02, 0, 0xffff]);
    (top, 0..4u128, 0..64u128, 0..64u128, prop_oneof![Just(0u128), 0..32u128, Just(1 << 63)], length).prop_map(
        |(top, second, third, fourth, low, length)| {
            Key::new(top << 112 | second << 104 | third << 90 | fourth << 80 | fourth << 64 | low, length)
        },
    )
}

#[derive(Debug, Clone)]
enum Step {
    Insert(Key, u32),
    Remove(Key),
    /// Many changes at once: a new number, or a removal.
    Batch(Vec<(Key, Option<u32>)>),
    Trim,
}

fn value() -> impl Strategy<Value = u32> {
    // Few different numbers, so that neighbours are equal, and some numbers that are not used.
    prop_oneof![4 => 1..6u32, 1 => (1..4u32).prop_map(|value| value | UNUSED)]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        5 => (key(), value()).prop_map(|(key, value)| Step::Insert(key, value)),
        2 => key().prop_map(Step::Remove),
        1 => prop::collection::vec((key(), prop::option::weighted(0.7, value())), 0..60).prop_map(Step::Batch),
        1 => Just(Step::Trim),
    ]
}

fn single() -> impl Strategy<Value = Step> {
    let insert = (key(), value()).prop_map(|(key, value)| Step::Insert(key, value));
    prop_oneof![3 => insert, 1 => key().prop_map(Step::Remove)]
}

/// Changes of many prefixes: to a new number, or a removal.
#[derive(Default)]
struct Changes {
    refused: Vec<Key>,
}

impl Routes<Option<u32>> for Changes {
    fn leaf(&self, value: u32) -> Leaf {
        leaf_of(value)
    }
    fn merge(&mut self, _: Key, _: Option<u32>, change: Option<u32>) -> Option<u32> {
        change
    }
    fn refuse(&mut self, key: Key, _: Option<u32>, _: Option<u32>, _: Option<u32>) {
        self.refused.push(key);
    }
}

fn run(bench: &mut Bench, steps: Vec<Step>) {
    for step in steps {
        match step {
            Step::Insert(key, value) => bench.insert(key, value),
            // Most often, of a prefix that is there.
            Step::Remove(key) => {
                let near =
                    bench.oracle.iter().map(|(known, _)| *known).min_by_key(|known| known.address() ^ key.address());
                bench.remove(near.unwrap_or(key));
            }
            Step::Trim => bench.fib.trim(leaf_of),
            Step::Batch(mut batch) => {
                let (mut changes, copy) = (Changes::default(), batch.clone());
                bench.fib.change(&mut batch, &mut changes);
                // A refused change has no effect; repeated changes of a prefix are made in their order.
                if changes.refused.is_empty() {
                    for (key, value) in copy {
                        bench.note(key, value);
                    }
                } else {
                    bench.oracle = bench.fib.iter().collect();
                }
            }
        }
    }
    bench.account();
    bench.check();
    let mut sorted = bench.oracle.clone();
    sorted.sort();
    assert_eq!(bench.fib.iter().collect::<Vec<_>>(), sorted);
    assert_eq!(bench.fib.len(), sorted.len());
}

#[test]
fn all_values_of_a_nibble_may_have_routes_of_their_own() {
    let mut bench = Bench::new(Options::MOST_LINES);
    // In each half of the address, and up to its last bit.
    let outers = [(0x2001_0db8 << 96, 32), (0x2a00 << 112, 64), (0xfe80 << 112, 124)].map(|(a, l)| Key::new(a, l));
    let routes = outers.iter().flat_map(|outer| {
        let length = outer.length() + 4;
        (0..16u128).map(move |nibble| Key::new(outer.address() | nibble << (128 - length), length))
    });
    let steps = routes.enumerate().map(|(at, key)| (key, Some(1 + at as u32 % 5))).collect();
    run(&mut bench, vec![Step::Batch(steps)]);
    let lower = bench.fib.writer.start().entry(outers[1].address());
    assert_eq!(Node::of(lower).map(|node| node.kind), Some(Kind::Sixteen));
    // So they have when there are too many for ranges.
    let more = (0..100u128).map(|at| Step::Insert(Key::new(0x2a01 << 112 | at << 80, 48), 1 + at as u32 % 5));
    run(&mut bench, more.collect());
    assert!(bench.fib.writer.start().ranges.is_none());
}

fn piece() -> impl Strategy<Value = usize> {
    prop_oneof![Just(1usize), 2..20usize, Just(PIECE)]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn lookups_find_what_a_linear_scan_finds(steps in prop::collection::vec(step(), 0..60), piece in piece()) {
        run(&mut Bench::new(Options::MOST_LINES).in_spans(piece), steps);
    }

    #[test]
    fn so_they_do_in_ranges(steps in prop::collection::vec(single(), 0..40), most in 2..40usize) {
        let mut bench = Bench::new(Options::MOST_LINES);
        for step in steps {
            run(&mut bench, vec![step]);
            while bench.oracle.len() > most {
                bench.remove(bench.oracle[0].0);
            }
        }
        bench.check();
    }

    #[test]
    fn so_they_do_with_a_large_root(
        steps in prop::collection::vec(step(), 0..60),
        early in prop::collection::vec(key(), 0..40),
        crowd in prop_oneof![Just(1u32), 4..12u32, Just(CROWD)],
        lines in prop_oneof![3 => Just(Options::MOST_LINES), 1 => 20..60u32],
        piece in piece(),
    ) {
        let mut bench = Bench::new(Options::MOST_LINES).in_spans(piece);
        early.into_iter().for_each(|key| bench.insert(key, 9));
        bench.fib.trie.count_crowds();
        bench.fib.writer.crowd = crowd;
        bench.fib.writer.grow(&bench.fib.trie, Root::large().unwrap(), &leaf_of).unwrap();
        bench.fib.writer.limit_to(lines);
        run(&mut bench, steps);
        if !bench.fib.writer.root().is_large() {
            return Ok(());
        }
        let longer = bench.oracle.iter().filter(|(key, _)| key.length() > 16);
        let parts: Vec<usize> = longer.map(|(key, _)| part_of(*key)).collect();
        for part in 0..PARTS {
            assert_eq!(bench.fib.trie.crowd(part) as usize, parts.iter().filter(|of| **of == part).count());
        }
    }

    #[test]
    fn a_table_without_room_refuses_and_stays_as_it_was(
        steps in prop::collection::vec(step(), 0..60),
        lines in 0..40u32,
        piece in piece(),
    ) {
        run(&mut Bench::new(lines).in_spans(piece), steps);
    }

    #[test]
    fn numbers_may_come_to_mean_something_else(
        keys in prop::collection::vec(key(), 1..40),
        which in 1..6u32,
        piece in piece(),
    ) {
        let mut bench = Bench::new(Options::MOST_LINES).in_spans(piece);
        keys.iter().enumerate().for_each(|(at, key)| bench.insert(*key, 1 + at as u32 % 5));
        let other = |value: u32| if value == which { Leaf(77) } else { Leaf(value) };
        bench.fib.repaint_where(|value| value == which, other).unwrap();
        bench.oracle.iter_mut().filter(|(_, value)| *value == which).for_each(|(_, value)| *value = 77);
        bench.check();
        bench.account();
    }
}

/// Changing a few prefixes among very many costs only their number; many are changed a part at a time.
#[test]
fn where_very_many_lie_spans_are_changed_one_after_the_other() {
    let mut bench = Bench::new(Options::MOST_LINES);
    let key = |at: u32| Key::new(0x2001_0db8 << 96 | u128::from(at) << 64, 64);
    let mut all: Vec<(Key, Option<u32>)> = (0..40_000).map(|at| (key(at), Some(1 + at % 3))).collect();
    bench.fib.change(&mut all, &mut Changes::default());
    let keys = |some: std::ops::Range<u32>| some.map(key).collect::<Vec<_>>();
    let sizes = |keys: &[Key]| bench.fib.groups(keys).into_iter().map(|group| group.keys.len()).collect::<Vec<_>>();
    // Each group is a span of adjacent prefixes.
    assert_eq!(sizes(&keys(0..40_000)), [[16_384 / 4; 9].to_vec(), vec![40_000 - 9 * 4096]].concat());
    assert_eq!(sizes(&keys(100..102)), [1, 1]);
    // The default route is first, and removed last.
    let with_default = [vec![Key::DEFAULT], keys(100..102)].concat();
    let order =
        |bench: &Bench| bench.fib.groups(&with_default).into_iter().map(|group| group.keys.start).collect::<Vec<_>>();
    assert_eq!(order(&bench), [0, 1, 2]);
    bench.fib.insert(Key::DEFAULT, 5, leaf_of).unwrap();
    assert_eq!(order(&bench), [1, 2, 0]);
}

#[test]
fn a_crowd_gets_slots_and_gives_them_back() {
    let mut bench = Bench::new(Options::MOST_LINES);
    let keys: Vec<Key> = (0..4096u128).map(|i| Key::new(0x2001_0db8 << 96 | i << 80, 48)).collect();
    for (at, key) in keys.iter().enumerate() {
        bench.insert(*key, 1 + at as u32 % 3);
    }
    bench.check();
    let one_by_one = bench.fib.writer.used();
    bench.fib.repaint_where(|_| true, leaf_of).unwrap();
    bench.check();
    let at_once = bench.fib.writer.used();
    assert!(at_once < 320 && one_by_one < 2048, "{one_by_one} and {at_once} lines for 4096 routes side by side");
    keys.iter().for_each(|key| bench.remove(*key));
    bench.check();
    assert_eq!(bench.fib.writer.used(), 0);
}

#[test]
fn a_table_has_ranges_while_they_are_few() {
    let mut bench = Bench::new(Options::MOST_LINES);
    // Far apart: each is a range, and so is the gap before it. The longer ones are in one /64 each.
    let keys: Vec<Key> = (1..=40u128).map(|i| Key::new(0x2001 << 112 | i << 81, 48 + (i % 3) as u8 * 30)).collect();
    for turn in 0..2 {
        for (count, key) in (1..).zip(&keys) {
            bench.insert(*key, 3);
            let levels = bench.fib.writer.start().ranges.as_ref().map(|ranges| 1 << ranges.levels);
            let expected = (2 * count < ranges::MOST).then(|| (2 * count + 1).next_power_of_two().max(8));
            assert_eq!(levels, expected, "turn {turn}: {count} routes");
            bench.check();
        }
        keys.iter().rev().for_each(|key| bench.remove(*key));
        bench.check();
    }
    assert!(bench.fib.writer.start().ranges.is_none(), "nothing is left to be told apart");
}

#[test]
fn a_table_that_grows_gets_a_large_root() {
    let mut bench = Bench::new(Options::MOST_LINES);
    for i in 0..=MOST_SMALL as u128 {
        assert!(!bench.fib.writer.root().is_large());
        bench.insert(Key::new(0x2a00 << 112 | (i * 77) << 83, 48), 1 + i as u32 % 7);
    }
    assert!(bench.fib.writer.root().is_large());
    bench.account();
    bench.insert(Key::new(0b001 << 125, 3), 3);
    bench.insert(Key::new(0xfc00 << 112, 7), 4);
    bench.insert(Key::DEFAULT, 5);
    bench.check();
}

#[test]
fn a_table_that_has_shrunk_gives_its_memory_back() {
    let mut bench = Bench::new(Options::MOST_LINES);
    let key = |i: u128| Key::new(0x2a00 << 112 | (i * 77) << 70, 56);
    let stays: Vec<Key> = (0..20).map(|i| key(i * 800)).collect();
    stays.iter().for_each(|key| bench.insert(*key, 3));
    bench.fib.trim(leaf_of);
    let (lines, nodes) = (bench.fib.writer.used(), bench.fib.memory().prefixes);
    for turn in 0..2 {
        let mut many: Vec<_> =
            (0..20_000).map(key).filter(|key| !stays.contains(key)).map(|key| (key, Some(4))).collect();
        bench.fib.change(&mut many, &mut Changes::default());
        assert!(bench.fib.writer.root().is_large() && bench.fib.writer.used() > 50 * lines, "turn {turn}");
        assert!(bench.fib.writer.resident() > 1 << 20);
        let looked: Vec<u128> = many.iter().step_by(997).map(|(key, _)| key.address()).collect();
        assert!(looked.iter().all(|address| bench.fib.shown(*address) == Leaf(4)));
        many.iter_mut().for_each(|(_, value)| *value = None);
        bench.fib.change(&mut many, &mut Changes::default());
        bench.fib.trim(leaf_of);
        assert!(!bench.fib.writer.root().is_large());
        // Freed lines are unused when the reader has begun another round.
        bench.fib.handle().lookup(&bench.reader.round(), 1);
        bench.fib.trim(leaf_of);
        assert_eq!(bench.fib.writer.used(), lines);
        // Each line may keep its page in memory.
        assert!(bench.fib.writer.resident() <= lines * 4096, "turn {turn}: {}", bench.fib.writer.resident());
        assert!(bench.fib.memory().prefixes <= nodes + 1024, "turn {turn}: {:?}", bench.fib.memory());
        bench.account();
        bench.check();
    }
}

#[test]
fn a_part_that_is_crowded_has_a_block_as_long_as_it_is() {
    let mut bench = Bench::new(Options::MOST_LINES);
    // Enough that the root is large; one in each of as many parts.
    (0..=MOST_SMALL as u128).for_each(|i| bench.insert(Key::new((0x3000 + i) << 112, 20), 1));
    let others = bench.fib.writer.used();
    let keys: Vec<Key> = (0..CROWD as u128 + 1).map(|i| Key::new(0x2a00 << 112 | i << 81, 48)).collect();
    let part = part_of(keys[0]);
    let block = |bench: &Bench| bench.fib.writer.root().block(part);
    // Prefixes that cover all of it, or end in the middle of it, are filled in.
    let around = [Key::new(0x2a00 << 112, 12), Key::new(0x2a00 << 112, 16), Key::new(0x2a00_0040 << 96, 27)];
    for turn in 0..2 {
        for (count, key) in (1..).zip(&keys) {
            bench.insert(*key, 1 + count as u32 % 3);
            assert_eq!(block(&bench).is_some(), count >= CROWD as usize, "turn {turn}: {count} routes");
        }
        for (value, key) in (5..).zip(around) {
            bench.insert(key, value);
            bench.check();
        }
        bench.account();
        around.into_iter().for_each(|key| bench.remove(key));
        bench.check();
        for (left, key) in (0..keys.len()).rev().zip(&keys) {
            bench.remove(*key);
            assert_eq!(block(&bench).is_some(), left >= CROWD as usize / 4, "turn {turn}: {left} routes");
        }
        bench.check();
        assert_eq!(bench.fib.writer.used(), others);
    }
    // The same block again, and many changes at once.
    for value in [Some(3), None, Some(4)] {
        bench.fib.change(&mut keys.iter().map(|key| (*key, value)).collect::<Vec<_>>(), &mut Changes::default());
        for key in &keys {
            bench.note(*key, value);
        }
        assert_eq!(block(&bench), value.map(|_| 1));
        bench.check();
        bench.account();
    }
}

#[test]
fn there_are_not_more_blocks_than_slots() {
    let mut bench = Bench::new(Options::MOST_LINES);
    bench.fib.writer.crowd = 4;
    (0..=MOST_SMALL as u128).for_each(|i| bench.insert(Key::new(0x3000 << 112 | i << 80, 48), 1));
    let keys = (0..800u128).map(|i| Key::new((0x2000 + i % 200) << 112 | i << 90, 44));
    let mut changes: Vec<(Key, Option<u32>)> = keys.map(|key| (key, Some(2))).collect();
    bench.fib.change(&mut changes, &mut Changes::default());
    for (key, value) in changes {
        bench.note(key, value);
    }
    let root = bench.fib.writer.root();
    assert_eq!((0..PARTS).filter(|part| root.block(*part).is_some()).count(), 127);
    bench.check();
    bench.account();
    // A route that covers all the others.
    bench.insert(Key::new(0x2000 << 112, 5), 3);
    bench.check();
}

#[test]
fn a_host_far_below_others_takes_a_few_lines() {
    let mut bench = Bench::new(Options::MOST_LINES);
    bench.insert(Key::new(0x2001_0db8 << 96 | 1, 128), 3);
    bench.check();
    assert!(bench.fib.writer.used() <= 4, "{}", bench.fib.writer.used());
}

/// Workers look up while routes that cover, or lie under, their addresses come and go: they find one that existed.
fn watch_changes(routes: u32, crowd: Option<u32>, length: impl Fn(u128) -> u8) -> Fib6 {
    let domain = Domain::new(2);
    let mut fib = Fib6::new(&domain).unwrap();
    if let Some(crowd) = crowd {
        fib.trie.count_crowds();
        fib.writer.crowd = crowd;
        fib.writer.grow(&fib.trie, Root::large().unwrap(), &leaf_of).unwrap();
    }
    let outer = Key::new(0x2001_0db8 << 96, 32);
    fib.insert(outer, 1, leaf_of).unwrap();
    let (handle, stop) = (fib.handle(), Arc::new(AtomicBool::new(false)));
    let mut reader = domain.register().unwrap();
    let watcher = std::thread::spawn({
        let stop = stop.clone();
        move || {
            let addresses: Vec<u128> = (0..256).map(|i| outer.address() | (i % u128::from(routes)) << 84 | i).collect();
            let mut looked = 0;
            while !stop.load(Ordering::Relaxed) {
                let round = reader.round();
                let mut leaves = vec![0; addresses.len()];
                handle.lookup_batch(&round, &addresses, &mut leaves);
                for (at, leaf) in leaves.iter().enumerate() {
                    let route = 2 + at as u32 % routes % 16;
                    assert!(*leaf == 1 || *leaf == route, "address {at} led to {leaf}");
                }
                looked += 1;
            }
            looked
        }
    });
    for turn in 0..10_240 / u128::from(routes) {
        let keys = (0..u128::from(routes)).map(|i| Key::new(outer.address() | i << 84, length(turn)));
        for (i, key) in keys.clone().enumerate() {
            fib.insert(key, 2 + i as u32 % 16, leaf_of).unwrap();
        }
        if turn % 2 == 0 {
            keys.for_each(|key| assert!(fib.remove(key, leaf_of).unwrap().is_some()));
        } else {
            fib.change(&mut keys.map(|key| (key, None)).collect::<Vec<_>>(), &mut Changes::default());
        }
        domain.collect();
    }
    stop.store(true, Ordering::Relaxed);
    assert!(watcher.join().unwrap() > 0);
    fib
}

#[test]
fn readers_meet_no_half_made_table() {
    watch_changes(256, None, |turn| 44 + (turn % 5) as u8);
}

/// A part of the root gets a block and loses it, in each turn.
#[test]
fn readers_meet_no_half_filled_block() {
    let fib = watch_changes(256, Some(100), |turn| 44 + (turn % 5) as u8);
    assert_eq!(fib.writer.root().block(part_of(Key::new(0x2001 << 112, 16))), None);
}

/// The lines of a /64 with longer routes are reused while ranges lead to them or have just led to them.
#[test]
fn readers_meet_no_ranges_of_the_past() {
    let fib = watch_changes(12, None, |turn| [48, 64, 124, 100, 96][turn as usize % 5]);
    assert!(fib.writer.used() < 3);
}

/// An owner whose numbers mean another leaf, or none, as soon as a change is merged.
#[test]
fn what_a_number_meant_before_a_change_is_what_lookups_found() {
    struct Shelf(Vec<u32>);
    impl Routes<u32> for Shelf {
        fn leaf(&self, value: u32) -> Leaf {
            Leaf(self.0[value as usize])
        }
        fn merge(&mut self, _: Key, value: Option<u32>, change: u32) -> Option<u32> {
            self.0[value.unwrap() as usize] = change;
            value.filter(|_| change != 0)
        }
        fn refuse(&mut self, _: Key, _: Option<u32>, _: Option<u32>, _: u32) {
            unreachable!("there is room");
        }
    }
    let domain = Domain::new(1);
    let mut fib = Fib6::new(&domain).unwrap();
    let key = |i: u128| Key::new(0x2001_0db8 << 96 | i << 80, 48);
    let mut shelf = Shelf(vec![5, 6, 7]);
    for i in 0..3 {
        fib.insert(key(i.into()), i, |value| Leaf(5 + value)).unwrap();
    }
    fib.change(&mut [(key(0), 9), (key(1), 0)], &mut shelf);
    let shown = |fib: &Fib6, i| fib.shown(key(i).address());
    assert_eq!([shown(&fib, 0), shown(&fib, 1), shown(&fib, 2)], [Leaf(9), Leaf::MISS, Leaf(7)]);
    fib.change(&mut [(key(2), 0)], &mut shelf);
    assert_eq!((shown(&fib, 2), fib.len()), (Leaf::MISS, 1));
}

/// With room for one tree but not for two: refused prefixes are not found, added ones are.
#[test]
fn growing_without_room_is_all_or_nothing() {
    for lines in (200..1400).step_by(40) {
        let mut bench = Bench::new(lines);
        for i in 0..=MOST_SMALL as u128 + 20 {
            bench.insert(Key::new(0x2001_0d00 << 96 | (i * 77) << 80, 48), 1 + i as u32 % 7);
        }
        bench.insert(Key::new(0x2001_0d00 << 96, 24), 9);
        bench.check();
        bench.account();
    }
}

/// Nothing is collected between these changes.
#[test]
fn lines_that_were_given_up_are_found_when_there_are_no_others() {
    let mut bench = Bench::new(16);
    let hosts: Vec<Key> = (0..4u128).map(|i| Key::new(0x2001_0db8 << 96 | i, 128)).collect();
    for turn in 0..100 {
        hosts.iter().for_each(|host| bench.insert(*host, 1 + turn % 5));
        assert_eq!(bench.oracle.len(), hosts.len(), "turn {turn}: none was refused");
        hosts.iter().for_each(|host| bench.remove(*host));
    }
    bench.account();
}

#[test]
fn lines_that_were_given_up_do_not_pile_up() {
    let mut bench = Bench::new(Options::MOST_LINES);
    for turn in 0..10_000 {
        let host = Key::new((0x2001_0db8 << 96) | (turn % 2), 128);
        bench.fib.insert(host, 1, leaf_of).unwrap();
        bench.fib.remove(host, leaf_of).unwrap();
        assert!(bench.domain.pending() < 5000, "turn {turn}: {} wait", bench.domain.pending());
    }
}

#[test]
fn lines_of_large_nodes_do_for_small_ones() {
    let mut bench = Bench::new(20);
    let crowd = |value: &dyn Fn(u32) -> Option<u32>| {
        let key = |i: u32| Key::new(0x2001_0db8 << 96 | u128::from(i) << 88, 40);
        Step::Batch((0..256).map(|i| (key(i), value(i))).collect())
    };
    run(&mut bench, vec![crowd(&|i| Some(1 + i % 5))]);
    assert_eq!(
        (bench.fib.writer.used(), bench.oracle.len()),
        (17, 256),
        "all slots of eight bits, and what leads there"
    );
    run(&mut bench, vec![crowd(&|_| None)]);
    assert_eq!(bench.fib.writer.used(), 0);
    for i in 0..5u128 {
        bench.insert(Key::new(0x2001_0000 << 96 | i << 108 | i, 128), 3);
        bench.check();
    }
    assert!(bench.oracle.len() >= 3, "{} hosts, which take a few lines each", bench.oracle.len());
    bench.account();
}
