//! What it costs to add, replace and delete routes of a table alone, in nanoseconds a route, and what memory they take.
//!
//! `cargo run --release -p quiver-tables --example programming_cost [NAME]`

use quiver_tables::fib4::{Fib4, Key, Routes};
use quiver_tables::{Leaf, synthetic};
use rcu::Domain;
use std::time::Instant;

struct Plain;

impl Routes<Option<u32>> for Plain {
    fn leaf(&self, value: u32) -> Leaf {
        Leaf(value)
    }
    fn merge(&mut self, _: Key, _: Option<u32>, change: Option<u32>) -> Option<u32> {
        change
    }
    fn refuse(&mut self, _: Key, _: Option<u32>) {
        unreachable!("there is room")
    }
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("a number") * 4096
}

fn timed(what: &str, count: usize, work: impl FnOnce()) {
    let start = Instant::now();
    work();
    println!("  {what:14} {:7.1} ns", start.elapsed().as_nanos() as f64 / count as f64);
}

fn main() {
    let tables = [
        ("1M as the Internet's", synthetic::internet(1_000_000, 1)),
        ("1M /24", synthetic::twenty_fours(1_000_000, 1)),
        ("8M /24", synthetic::twenty_fours(8_000_000, 1)),
    ];
    let wanted = std::env::args().nth(1);
    for (name, keys) in
        tables.into_iter().filter(|(name, _)| wanted.as_ref().is_none_or(|wanted| name.contains(wanted)))
    {
        println!("{name}");
        let domain = Domain::new(1);
        let mut fib = Fib4::new(&domain).expect("address space");
        let leaf = |i: usize| Leaf::new(2, i as u32 % 16).0;
        let changes = |add: bool| keys.iter().enumerate().map(|(i, key)| (*key, add.then(|| leaf(i)))).collect();
        let (mut add, mut delete): (Vec<_>, Vec<_>) = (changes(true), changes(false));
        let before = resident();
        timed("add bulk", keys.len(), || fib.change(&mut add, &mut Plain));
        println!("  {:14} {:7.1} bytes", "resident", (resident() - before) as f64 / keys.len() as f64);
        println!("  {:?}", fib.memory());
        timed("delete bulk", keys.len(), || fib.change(&mut delete, &mut Plain));
        println!("  {:14} {:7} KiB left", "resident", (resident() as i64 - before as i64) >> 10);
        timed("add single", keys.len(), || {
            keys.iter().enumerate().for_each(|(i, key)| {
                fib.insert(*key, leaf(i), Leaf).expect("room");
            });
        });
        timed("replace single", keys.len(), || {
            keys.iter().enumerate().for_each(|(i, key)| {
                fib.insert(*key, leaf(i + 1), Leaf).expect("room");
            });
        });
        timed("delete single", keys.len(), || {
            keys.iter().for_each(|key| {
                fib.remove(*key, Leaf);
            });
        });
        assert!(fib.is_empty());
    }
}
