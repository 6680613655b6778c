//! The table against a linear scan, and against readers on other threads.

use super::*;
use proptest::prelude::*;
use rcu::Reader;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Every answer by looking at every route.
#[derive(Default)]
struct LinearScan(Vec<(Key, Leaf)>);

impl LinearScan {
    fn insert(&mut self, key: Key, leaf: Leaf) -> Option<Leaf> {
        let before = self.remove(key);
        self.0.push((key, leaf));
        before
    }

    fn remove(&mut self, key: Key) -> Option<Leaf> {
        let at = self.0.iter().position(|(k, _)| *k == key)?;
        Some(self.0.swap_remove(at).1)
    }

    /// Of those that are to be used.
    fn longest_match(&self, address: u32) -> Option<(Key, Leaf)> {
        let covers = |key: &Key| {
            let (address, prefix) = (u64::from(address), u64::from(key.address()));
            let size = 1u64 << (32 - key.length());
            (prefix..prefix + size).contains(&address)
        };
        let covering = self.0.iter().filter(|(key, leaf)| covers(key) && leaf_of(leaf.0) != Leaf::MISS);
        covering.max_by_key(|(key, _)| key.length()).copied()
    }

    fn lookup(&self, address: u32) -> Leaf {
        self.longest_match(address).map_or(Leaf::MISS, |(_, leaf)| leaf)
    }
}

/// A table whose numbers are leaves, beside its oracle. Numbers of [`UNUSED`] stand for no leaf.
struct Bench {
    fib: Fib4,
    oracle: LinearScan,
    reader: Reader,
}

fn small(second_level_pages: u32) -> Options {
    Options { second_level_pages, huge_pages: false, begins_with_slots: true }
}

/// What a number of the table stands for.
fn leaf_of(value: u32) -> Leaf {
    if value & 1 << 23 != 0 { Leaf::MISS } else { Leaf(value) }
}

/// A number that is in the table and not to be used.
fn unused(index: u32) -> Leaf {
    Leaf::new(1, index | 1 << 23)
}

fn insert(fib: &mut Fib4, key: Key, leaf: Leaf) -> Result<Option<Leaf>, TableFull> {
    fib.insert(key, leaf.0, leaf_of).map(|before| before.map(Leaf))
}

fn remove(fib: &mut Fib4, key: Key) -> Option<Leaf> {
    fib.remove(key, leaf_of).map(Leaf)
}

/// Changes of many prefixes: to that number, or away.
struct Batch {
    before: Vec<(Key, Option<Leaf>)>,
    refused: Vec<Key>,
}

impl Routes<Option<u32>> for Batch {
    fn leaf(&self, value: u32) -> Leaf {
        leaf_of(value)
    }
    fn merge(&mut self, key: Key, value: Option<u32>, change: Option<u32>) -> Option<u32> {
        self.before.push((key, value.map(Leaf)));
        change
    }
    fn refuse(&mut self, key: Key, _: Option<u32>) {
        self.refused.push(key);
    }
}

fn leaf(index: u32) -> Leaf {
    Leaf::new(1 + (index % 14) as u8, index)
}

impl Bench {
    fn new(second_level_pages: u32) -> Bench {
        Bench::with(small(second_level_pages))
    }

    fn with(options: Options) -> Bench {
        let domain = Domain::new(1);
        Bench {
            fib: Fib4::with_options(&domain, options).unwrap(),
            oracle: LinearScan::default(),
            reader: domain.register().unwrap(),
        }
    }

    fn insert(&mut self, key: Key, leaf: Leaf) {
        let expected = self.oracle.insert(key, leaf);
        assert_eq!(insert(&mut self.fib, key, leaf), Ok(expected));
    }

    fn remove(&mut self, key: Key) {
        assert_eq!(remove(&mut self.fib, key), self.oracle.remove(key));
    }

    fn change(&mut self, changes: &[(Key, Option<Leaf>)]) {
        let mut expected = Vec::new();
        for (key, leaf) in changes {
            let before = match leaf {
                Some(leaf) => self.oracle.insert(*key, *leaf),
                None => self.oracle.remove(*key),
            };
            expected.push((*key, before));
        }
        let mut batch = Batch { before: Vec::new(), refused: Vec::new() };
        let mut changes = changes.iter().map(|(key, leaf)| (*key, leaf.map(|leaf| leaf.0))).collect();
        self.fib.change(&mut changes, &mut batch);
        assert!(batch.refused.is_empty());
        // Of one prefix in their order.
        expected.sort_by_key(|(key, _)| *key);
        batch.before.sort_by_key(|(key, _)| *key);
        assert_eq!(batch.before, expected);
    }

    /// Every way to ask for `addresses` gives what the linear scan gives.
    fn check(&mut self, addresses: &[u32]) {
        let expected: Vec<_> = addresses.iter().map(|a| self.oracle.lookup(*a)).collect();
        let longer = |found: Option<(Key, Leaf)>| found.filter(|(key, _)| key.length() > 0);
        let but_default = |a: &u32| longer(self.oracle.longest_match(*a)).map_or(Leaf::MISS, |(_, leaf)| leaf);
        let without_default: Vec<_> = addresses.iter().map(but_default).collect();
        let handle = self.fib.handle();
        let round = self.reader.round();
        for (address, expected) in addresses.iter().zip(&expected) {
            assert_eq!(handle.lookup(&round, *address), *expected, "{address:#x}");
            let matched = self.oracle.longest_match(*address);
            let used = |key, value| Some((key, leaf_of(value))).filter(|(_, leaf)| *leaf != Leaf::MISS);
            assert_eq!(self.fib.longest(*address, 32, used), matched, "{address:#x}");
        }
        for kernel in Kernel::ALL {
            let Some(handle) = handle.with_kernel(kernel) else {
                eprintln!("skipped: this processor lacks {kernel:?}");
                continue;
            };
            let mut batch = addresses.to_vec();
            handle.lookup_batch(&round, &mut batch);
            let found: Vec<_> = batch.into_iter().map(Leaf).collect();
            assert_eq!(found, expected, "{kernel:?}");
            let mut batch = addresses.to_vec();
            handle.lookup_batch_but_default(&round, &mut batch);
            let found: Vec<_> = batch.into_iter().map(Leaf).collect();
            assert_eq!(found, without_default, "{kernel:?} without the default route");
        }
    }

    /// The addresses where an off-by-one would show: first and last of each route and
    /// the neighbours on either side.
    fn boundaries(&self) -> Vec<u32> {
        let edges = self.oracle.0.iter().flat_map(|(key, _)| {
            let last = key.address() | u32::MAX.unbounded_shr(key.length().into());
            let outside = [key.address().wrapping_sub(1), last.wrapping_add(1)];
            [key.address(), last].into_iter().chain(outside)
        });
        edges.collect()
    }

    fn check_books(&self) {
        let mut expected = self.oracle.0.clone();
        expected.sort_unstable_by_key(|(key, _)| *key);
        let held: Vec<_> = self.fib.iter().map(|(key, value)| (key, Leaf(value))).collect();
        assert_eq!(held, expected);
        let mut each = Vec::new();
        self.fib.each(|key, value| each.push((key, Leaf(value))));
        each.sort_unstable_by_key(|(key, _)| *key);
        assert_eq!(each, expected);
        for (outer, _) in expected.iter().step_by(1 + expected.len() / 100) {
            // Behind what is there, and behind what is perhaps not.
            for key in [*outer, Key::new(outer.last(), 32), Key::new(outer.address(), outer.length() / 2)] {
                let behind: Vec<_> = self.fib.behind(key).map(|(key, _)| key).collect();
                assert_eq!(
                    behind,
                    expected.iter().map(|(key, _)| *key).filter(|other| *other > key).collect::<Vec<_>>()
                );
            }
        }
        assert_eq!(self.fib.len(), expected.len());
        assert_eq!(self.fib.is_empty(), expected.is_empty());
        for length in 0..=32u8 {
            let count = expected.iter().filter(|(k, _)| k.length() == length).count();
            assert_eq!(self.fib.lengths()[usize::from(length)], count);
        }
        for (key, leaf) in expected {
            assert_eq!(self.fib.get(key), Some(leaf.0));
        }
    }
}

#[derive(Debug, Clone)]
enum Step {
    Insert(Key, Leaf),
    Remove(Key),
    /// Removes one of the routes that exist, picked by this number.
    RemoveExisting(usize),
    /// Many in one go, those that exist picked by these numbers.
    Change(Vec<(Key, Option<Leaf>)>, Vec<usize>),
    Collect,
}

/// Addresses in few places, so that prefixes of all lengths nest and meet.
fn clustered_address() -> impl Strategy<Value = u32> {
    let place = prop::sample::select(vec![
        0x0a00_0000,
        0x0a00_00ff,
        0x0a00_0100,
        0x0aff_ffff,
        0x7fff_ffff,
        0x8000_0000,
        0,
        u32::MAX,
    ]);
    // Few bits of difference, low ones most of the time.
    (place, any::<u32>(), 0..32u32).prop_map(|(place, noise, keep)| place ^ (noise >> keep))
}

/// Every length, the shortest seldom: each rewrites millions of slots.
fn length() -> impl Strategy<Value = u8> {
    prop_oneof![1 => 0..8u8, 12 => 8..24u8, 20 => 22..=26u8, 20 => 24..=32u8]
}

fn key() -> impl Strategy<Value = Key> {
    (clustered_address(), length()).prop_map(|(address, length)| Key::new(address, length))
}

fn number() -> impl Strategy<Value = Leaf> {
    (0..1000u32, 0..8u32).prop_map(|(index, kind)| if kind == 0 { unused(index) } else { leaf(index) })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (key(), number()).prop_map(|(key, leaf)| Step::Insert(key, leaf)),
        2 => (
            prop::collection::vec((key(), prop::option::of(number())), 0..40),
            prop::collection::vec(any::<usize>(), 0..10),
        )
            .prop_map(|(keys, existing)| Step::Change(keys, existing)),
        1 => key().prop_map(Step::Remove),
        4 => any::<usize>().prop_map(Step::RemoveExisting),
        1 => Just(Step::Collect),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn every_lookup_agrees_with_a_linear_scan(
        steps in prop::collection::vec(step(), 1..120),
        addresses in prop::collection::vec(clustered_address(), 1..300),
        begins_with_slots: bool,
    ) {
        let mut bench = Bench::with(Options { begins_with_slots, ..small(1024) });
        for (number, step) in steps.into_iter().enumerate() {
            let mut edges = bench.boundaries();
            match step {
                Step::Insert(key, leaf) => bench.insert(key, leaf),
                Step::Change(mut changes, existing) => {
                    if !bench.oracle.0.is_empty() {
                        changes.extend(existing.iter().map(|at| (bench.oracle.0[at % bench.oracle.0.len()].0, None)));
                    }
                    bench.change(&changes);
                }
                Step::Remove(key) => bench.remove(key),
                Step::RemoveExisting(pick) if !bench.oracle.0.is_empty() => {
                    bench.remove(bench.oracle.0[pick % bench.oracle.0.len()].0);
                }
                Step::RemoveExisting(_) => {}
                Step::Collect => {
                    let _ = bench.reader.round();
                    prop_assert_eq!(bench.fib.domain.collect(), 0);
                }
            }
            if number % 8 == 0 {
                // Those from before the step show what a removed route left behind.
                edges.extend(bench.boundaries());
                bench.check(&edges);
            }
        }
        bench.check(&bench.boundaries());
        bench.check(&addresses);
        bench.check_books();
        // Whatever was there, taking all of it away leaves an empty table.
        let edges = bench.boundaries();
        for (key, _) in bench.oracle.0.clone() {
            bench.remove(key);
        }
        bench.check(&edges);
        bench.check_books();
        prop_assert!(bench.fib.painter.as_ref().is_none_or(Painter::no_page_is_used));
        bench.fib.trim();
        prop_assert_eq!(bench.fib.memory().prefixes, 0);
    }
}

/// Numbers stand for leaves that change under the table.
#[derive(Debug, Clone)]
enum Turn {
    Insert(Key, u32),
    Remove(usize),
    /// A number stands for another leaf, or for none; its prefixes are painted one by one, or found.
    Stand(u32, Option<u32>, bool),
}

fn turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        5 => (key(), 1..6u32).prop_map(|(key, number)| Turn::Insert(key, number)),
        2 => any::<usize>().prop_map(Turn::Remove),
        4 => (1..6u32, prop::option::of(1..9u32), any::<bool>())
            .prop_map(|(number, leaf, one_by_one)| Turn::Stand(number, leaf, one_by_one)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn lookups_follow_what_numbers_stand_for(
        turns in prop::collection::vec(turn(), 1..80),
        begins_with_slots: bool,
    ) {
        let mut bench = Bench::with(Options { begins_with_slots, ..small(1024) });
        let mut stands_for = [Leaf::MISS; 6];
        let mut routes: Vec<(Key, u32)> = Vec::new();
        for turn in turns {
            let mut edges: Vec<u32> = routes.iter().flat_map(|(key, _)| [key.address(), key.last()]).collect();
            match turn {
                Turn::Insert(key, number) => {
                    bench.fib.insert(key, number, |value| stands_for[value as usize]).unwrap();
                    routes.retain(|(known, _)| *known != key);
                    routes.push((key, number));
                }
                Turn::Remove(at) if !routes.is_empty() => {
                    let (key, _) = routes.swap_remove(at % routes.len());
                    bench.fib.remove(key, |value| stands_for[value as usize]);
                }
                Turn::Remove(_) => {}
                Turn::Stand(number, index, one_by_one) => {
                    stands_for[number as usize] = index.map_or(Leaf::MISS, leaf);
                    if one_by_one {
                        for (key, _) in routes.iter().filter(|(_, known)| *known == number) {
                            bench.fib.repaint(*key, |value| stands_for[value as usize]);
                        }
                    } else {
                        bench.fib.repaint_where(|value| value == number, |value| stands_for[value as usize]);
                    }
                }
            }
            edges.extend(routes.iter().flat_map(|(key, _)| [key.address(), key.last(), key.last().wrapping_add(1)]));
            let handle = bench.fib.handle();
            let round = bench.reader.round();
            for address in edges {
                let meant = |number: u32| stands_for[number as usize];
                let around =
                    routes.iter().filter(|(key, number)| key.contains(address) && meant(*number) != Leaf::MISS);
                let longest = around.max_by_key(|(key, _)| key.length());
                let expected = longest.map_or(Leaf::MISS, |(_, number)| meant(*number));
                prop_assert_eq!(handle.lookup(&round, address), expected, "{:#x}", address);
            }
        }
    }
}

const PLACES: [u32; 6] = [0, 0x0a00_0000, 0x0a00_0001, 0x0a00_00ff, 0x0a00_0100, u32::MAX];

#[test]
fn the_default_route_is_what_is_left_over() {
    let mut bench = Bench::new(4);
    let default = Key::new(0xffff_ffff, 0);
    assert_eq!(default.address(), 0);
    bench.check(&PLACES);
    bench.insert(default, leaf(1));
    bench.check(&PLACES);
    assert_eq!(bench.fib.memory().lookup, 0, "it touches no slot");
    bench.insert(Key::new(0x0a00_0001, 32), leaf(2));
    bench.check(&PLACES);
    bench.insert(default, leaf(3));
    bench.check(&PLACES);
    bench.remove(default);
    bench.check(&PLACES);
    bench.insert(default, leaf(4));
    bench.remove(Key::new(0x0a00_0001, 32));
    bench.check(&PLACES);
    bench.remove(default);
    bench.remove(default);
    bench.check(&PLACES);
    bench.check_books();
}

#[test]
fn removing_each_nested_prefix_uncovers_the_next() {
    let mut bench = Bench::new(4);
    let all: Vec<_> = (0..=32).map(|length| Key::new(0x0a00_0001, length)).collect();
    for key in &all {
        bench.insert(*key, leaf(key.length().into()));
    }
    bench.check(&PLACES);
    // From the outside in, from the inside out: first every other one, then the rest.
    for key in all.iter().step_by(2).chain(all.iter().skip(1).step_by(2).rev()) {
        let edges = bench.boundaries();
        bench.remove(*key);
        bench.check(&edges);
        bench.check(&PLACES);
    }
    bench.check_books();
}

#[test]
fn batches_of_every_size_are_resolved_whole() {
    let mut bench = Bench::new(4);
    bench.insert(Key::new(0x0a00_0000, 8), leaf(1));
    bench.insert(Key::new(0x0a00_0080, 25), leaf(2));
    bench.insert(Key::new(0x0a00_0003, 32), leaf(3));
    for count in (0..=80).chain([255, 256, 257, 271, 272, 512, 600]) {
        // A third without route, a third in the second level.
        let address = |i: u32| match i % 3 {
            0 => 0x0b00_0000 + i,
            1 => 0x0a00_0000 + i,
            _ => 0x0a01_0000 + (i << 8),
        };
        let addresses: Vec<_> = (0..count).map(address).collect();
        bench.check(&addresses);
    }
}

#[test]
fn a_full_table_refuses_one_route_and_keeps_the_rest() {
    let mut bench = Bench::new(2);
    bench.insert(Key::new(0x0a00_0000, 8), leaf(1));
    bench.insert(Key::new(0x0a00_0100, 32), leaf(2));
    bench.insert(Key::new(0x0a00_0200, 25), leaf(3));
    let refused = Key::new(0x0a00_0301, 32);
    assert_eq!(insert(&mut bench.fib, refused, leaf(4)), Err(TableFull));
    let mut batch = Batch { before: Vec::new(), refused: Vec::new() };
    bench.fib.change(&mut vec![(refused, Some(leaf(4).0))], &mut batch);
    assert_eq!((batch.before, batch.refused), (vec![], vec![refused]));
    assert_eq!(bench.fib.get(refused), None);
    let mut edges = bench.boundaries();
    edges.extend([0x0a00_0300, 0x0a00_0301, 0x0a00_0302]);
    bench.check(&edges);
    bench.check_books();
    // What needs no new page still goes in.
    bench.insert(Key::new(0x0a00_0300, 24), leaf(5));
    bench.insert(Key::new(0x0a00_0101, 32), leaf(6));
    bench.insert(Key::new(0x0a00_0100, 32), leaf(7));
    bench.check(&edges);
    // The page of a removed route is free when its readers have moved on, not before.
    bench.remove(Key::new(0x0a00_0200, 25));
    assert_eq!(bench.fib.domain.collect(), 1, "the reader may still be in it");
    assert_eq!(insert(&mut bench.fib, refused, leaf(4)), Err(TableFull));
    let _ = bench.reader.round();
    assert_eq!(bench.fib.domain.collect(), 0);
    bench.insert(refused, leaf(4));
    bench.check(&edges);
    bench.check_books();
}

#[test]
fn a_page_count_beyond_the_slot_numbers_is_refused() {
    let domain = Domain::new(1);
    let error = Fib4::with_options(&domain, small(Options::MOST_PAGES + 1)).err();
    assert_eq!(error.unwrap().kind(), io::ErrorKind::InvalidInput);
    assert!(Fib4::with_options(&domain, small(Options::MOST_PAGES)).is_ok());
    assert!(Fib4::with_options(&domain, small(0)).is_ok());
}

#[test]
#[should_panic(expected = "not a leaf")]
fn a_leaf_of_the_reserved_kind_is_refused() {
    let mut bench = Bench::new(1);
    let _ = insert(&mut bench.fib, Key::new(0, 8), Leaf(0xf000_0000));
}

#[test]
fn few_routes_take_little_memory() {
    let mut bench = Bench::new(1 << 10);
    for i in 0..16u32 {
        bench.insert(Key::new(i << 28 | 0x0001_0100, 24), leaf(i));
        bench.insert(Key::new(i << 28 | 0x0002_0201, 32), leaf(i));
    }
    // One system page of slots each, and 16 second-level pages.
    let expected = 16 * 4096 + 16 * (1024 + 2);
    assert_eq!(bench.fib.memory().lookup, expected);
    for (key, _) in bench.oracle.0.clone() {
        bench.remove(key);
    }
    bench.fib.trim();
    assert_eq!(bench.fib.memory(), Memory { lookup: 0, prefixes: 0 });
}

#[test]
fn a_table_that_grew_one_by_one_is_fitted_to_what_it_holds() {
    let mut bench = Bench::new(1 << 10);
    // Every other /24: so many system pages of slots that they are far.
    let keys = (0..1 << 17).map(|i: u32| Key::new(0x1000_0000 + (i << 9), 24));
    keys.clone().for_each(|key| assert_eq!(insert(&mut bench.fib, key, leaf(1)), Ok(None)));
    let is_fitted = |fib: &Fib4| {
        let painter = fib.painter.as_ref().expect("it has slots");
        (painter.is_large(), painter.slots().is_far.load(std::sync::atomic::Ordering::Relaxed))
    };
    let handle = bench.fib.handle();
    assert_eq!(is_fitted(&bench.fib), (false, false));
    assert!(handle.ahead(&bench.reader.round()).is_none(), "what is near need not be asked for");
    bench.fib.settle();
    assert_eq!(is_fitted(&bench.fib), (true, true));
    assert!(handle.ahead(&bench.reader.round()).inspect(|slots| slots.ask(&[0, 0x1000_0001, u32::MAX])).is_some());
    keys.for_each(|key| assert!(bench.fib.remove(key, Leaf).is_some()));
    bench.fib.settle();
    assert_eq!(is_fitted(&bench.fib), (true, true), "its memory is kept");
    bench.fib.trim();
    assert_eq!(is_fitted(&bench.fib), (false, false));
}

#[test]
fn a_small_table_is_of_ranges_until_it_grows() {
    let mut bench = Bench::with(Options { begins_with_slots: false, ..small(4096) });
    let key = |i: u32| Key::new(0x0a00_0000 + i * 0x101, 20 + (i % 13) as u8);
    for i in 0..100 {
        bench.insert(key(i), leaf(i));
    }
    bench.check(&bench.boundaries());
    assert!(bench.fib.memory().lookup < 2000, "{:?}", bench.fib.memory());
    let more: Vec<_> = (100..MOST_RANGES as u32 * 2).map(|i| (key(i), Some(leaf(i)))).collect();
    let handle = bench.fib.handle();
    bench.change(&more[..300]);
    assert!(bench.fib.painter.is_none());
    bench.check(&bench.boundaries());
    for (key, leaf) in &more[300..1200] {
        bench.insert(*key, leaf.unwrap());
    }
    assert!(bench.fib.painter.is_some());
    bench.check(&bench.boundaries());
    bench.change(&more[1200..]);
    let edges = bench.boundaries();
    bench.check(&edges);
    bench.check_books();
    // Handles of before read the table as it is.
    let (address, expected) = (edges[7], bench.oracle.lookup(edges[7]));
    assert_eq!(handle.lookup(&bench.reader.round(), address), expected);
    let none: Vec<_> = bench.oracle.0.iter().map(|(key, _)| (*key, None)).collect();
    bench.change(&none);
    bench.check(&edges);
    bench.check_books();
}

#[test]
fn what_a_number_stands_for_may_change_under_the_table() {
    let mut bench = Bench::new(64);
    let stands_for = std::cell::Cell::new(leaf(7));
    let look = |value| if value == 1 { stands_for.get() } else { Leaf(value) };
    let keys = [
        Key::new(0, 0),
        Key::new(0x0a00_0000, 9),
        Key::new(0x0a01_0000, 16),
        Key::new(0x0a01_0200, 24),
        Key::new(0x0a01_0203, 32),
    ];
    for key in keys {
        bench.fib.insert(key, 1, look).unwrap();
    }
    bench.fib.insert(Key::new(0x0a01_0200, 25), leaf(2).0, look).unwrap();
    let handle = bench.fib.handle();
    let mut all = |expected: Leaf| {
        let round = bench.reader.round();
        for address in [0x0b00_0000, 0x0a00_0000, 0x0a01_0000, 0x0a01_0280, 0x0a01_0203] {
            assert_eq!(handle.lookup(&round, address), expected);
        }
        assert_eq!(handle.lookup(&round, 0x0a01_0202), leaf(2));
    };
    all(leaf(7));
    stands_for.set(leaf(8));
    bench.fib.repaint_where(|value| value == 1, look);
    all(leaf(8));
}

#[test]
fn a_handle_outlives_its_table() {
    let mut bench = Bench::new(1);
    bench.insert(Key::new(0x0a00_0000, 30), leaf(1));
    let handle = bench.fib.handle();
    drop(bench.fib);
    assert_eq!(handle.lookup(&bench.reader.round(), 0x0a00_0001), leaf(1));
}

/// Runs `write` again and again while a reader checks every leaf that it finds at
/// `addresses`; with each kernel in turn, so that two cores are enough to meet.
fn race(fib: &mut Fib4, addresses: &[u32], allowed: &[Leaf], mut write: impl FnMut(&mut Fib4) + Send) {
    const TURNS: usize = 20_000;
    // Each turn may wait for the reader, which a busy machine rarely lets run: then fewer turns must do.
    const LEAST_TURNS: usize = 100;
    const PATIENCE: Duration = Duration::from_secs(5);
    for kernel in Kernel::ALL {
        let Some(handle) = fib.handle().with_kernel(kernel) else {
            eprintln!("skipped: this processor lacks {kernel:?}");
            continue;
        };
        let mut reader = fib.domain.register().unwrap();
        let stop = AtomicBool::new(false);
        std::thread::scope(|scope| {
            let stop = &stop;
            // The reader moves in: if it panics, the writer waits for it no more.
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    read_all(&handle, &mut reader, addresses, allowed);
                }
            });
            // On a thread of its own: if it panics, the reader must end all the same.
            let writer = scope.spawn(|| {
                let end = Instant::now() + PATIENCE;
                for turn in 0..TURNS {
                    if turn >= LEAST_TURNS && Instant::now() > end {
                        break;
                    }
                    write(fib);
                    fib.domain.collect();
                }
            });
            let result = writer.join();
            stop.store(true, Ordering::Relaxed);
            result.unwrap();
        });
    }
}

/// One round that looks every address up, as a batch and one by one.
fn read_all(handle: &Lookup4, reader: &mut Reader, addresses: &[u32], allowed: &[Leaf]) {
    let round = reader.round();
    let mut batch = addresses.to_vec();
    handle.lookup_batch(&round, &mut batch);
    let singly = addresses.iter().map(|address| handle.lookup(&round, *address));
    for (found, address) in batch.into_iter().map(Leaf).chain(singly).zip(addresses.iter().cycle()) {
        assert!(allowed.contains(&found), "{address:#x}: {found:?}");
    }
}

#[test]
fn readers_see_one_of_two_next_hops_while_they_flip() {
    let domain = Domain::new(1);
    let mut fib = Fib4::with_options(&domain, small(8)).unwrap();
    let (a, b) = (leaf(1), leaf(2));
    let keys = [20, 24, 26].map(|length| Key::new(0x0a00_0040, length));
    for key in keys {
        insert(&mut fib, key, a).unwrap();
    }
    let addresses: Vec<_> = (0..256).map(|i| 0x0a00_0000 + i * 3).collect();
    let mut flips = [b, a].into_iter().cycle();
    race(&mut fib, &addresses, &[a, b], |fib| {
        let leaf = flips.next().unwrap();
        for key in keys {
            insert(fib, key, leaf).unwrap();
        }
    });
}

#[test]
fn readers_never_miss_while_pages_come_go_and_are_reused() {
    let domain = Domain::new(1);
    // Two pages for four /24s: those that are freed are soon filled for another.
    let mut fib = Fib4::with_options(&domain, small(2)).unwrap();
    let (cover, host) = (leaf(1), leaf(2));
    insert(&mut fib, Key::new(0x0a00_0000, 8), cover).unwrap();
    insert(&mut fib, Key::new(0x1400_0000, 8), leaf(9)).unwrap();
    // Readers ask in 10/8 only; the pages serve 20/8, with another leaf, in between.
    let addresses: Vec<_> = (0..256).map(|i| 0x0a00_0000 + (i % 2) * 256 + i / 2).collect();
    let mut turn = 0;
    race(&mut fib, &addresses, &[cover, host], |fib| {
        turn += 1;
        let outer = if turn % 2 == 0 { 0x0a00_0000 } else { 0x1400_0000 };
        let key = Key::new(outer + (turn / 2 % 2) * 256 + 7, 32);
        while insert(fib, key, host).is_err() {
            fib.domain.collect();
            std::thread::yield_now();
        }
        remove(fib, key);
    });
}

#[test]
fn readers_never_miss_while_the_default_route_and_another_take_turns() {
    let domain = Domain::new(1);
    let mut fib = Fib4::with_options(&domain, small(2)).unwrap();
    let (default, route) = (leaf(1), leaf(2));
    let (everything, some) = (Key::new(0, 0), Key::new(0x0a00_0000, 23));
    insert(&mut fib, everything, default).unwrap();
    let addresses: Vec<_> = (0..256).map(|i| 0x0a00_0000 + i * 2).collect();
    // At any time one of the two covers all addresses.
    race(&mut fib, &addresses, &[default, route], |fib| {
        insert(fib, some, route).unwrap();
        remove(fib, everything);
        insert(fib, everything, default).unwrap();
        remove(fib, some);
    });
}
