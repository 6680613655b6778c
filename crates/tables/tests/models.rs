//! How the routing table's slots are published, in every interleaving and with every stale read that the memory model
//! allows (loom): a lookup finds the route from before or after a change.
//!
//! The steps are those of `Painter::enter_page`, `paint`, `leave_page` and `Table::lookup` in `fib4`, over two /24s
//! with two addresses each. The real table holds 16 million /24s, which no model can explore; reclamation is the real
//! one.
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p quiver-tables --test models`
#![cfg(loom)]

use loom::model::Builder;
use loom::sync::Mutex;
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use loom::thread;
use rcu::{Domain, Round};
use std::sync::Arc;

const MISS: u32 = 0;
const CONTINUED: u32 = 15 << 28;
/// Slots of a page.
const PAGE: usize = 2;
/// Leaves.
const A: u32 = 1;
const B: u32 = 2;
const C: u32 = 3;
const D: u32 = 4;

struct Slots {
    first: [AtomicU32; 2],
    second: [AtomicU32; PAGE],
    /// Generation in the upper half, leaf in the lower.
    default: AtomicU64,
}

impl Slots {
    fn new(first: [u32; 2], default: u32) -> Arc<Slots> {
        Arc::new(Slots {
            first: first.map(AtomicU32::new),
            second: [MISS; PAGE].map(AtomicU32::new),
            default: AtomicU64::new(default.into()),
        })
    }

    /// `address` is the number of the /24, and of the address within it.
    fn lookup(&self, _: &Round<'_>, address: (usize, usize)) -> u32 {
        loop {
            let default = self.default.load(Ordering::Acquire);
            let mut leaf = self.first[address.0].load(Ordering::Acquire);
            if leaf >= CONTINUED {
                leaf = self.second[address.1].load(Ordering::Acquire);
            }
            if leaf != MISS {
                return leaf;
            }
            if self.default.load(Ordering::Relaxed) == default {
                return default as u32;
            }
        }
    }

    /// Replaces a /24's slot by the only page.
    fn enter_page(&self, slot: usize) {
        let now = self.first[slot].load(Ordering::Relaxed);
        self.second.iter().for_each(|inner| inner.store(now, Ordering::Relaxed));
        self.first[slot].store(CONTINUED, Ordering::Release);
    }

    fn paint(&self, address: usize, leaf: u32) {
        self.second[address].store(leaf, Ordering::Release);
    }

    /// The whole page has one leaf: puts it back into the /24's slot.
    fn leave_page(&self, slot: usize) {
        let leaf = self.second[0].load(Ordering::Relaxed);
        self.first[slot].store(leaf, Ordering::Release);
    }

    fn set_default(&self, leaf: u32) {
        let generation = (self.default.load(Ordering::Relaxed) >> 32) + 1;
        self.default.store(generation << 32 | u64::from(leaf), Ordering::Release);
    }
}

/// Runs a model: a reader that looks one address up twice, in two rounds, beside a writer.
fn check(
    start: ([u32; 2], u32),
    address: (usize, usize),
    allowed: &'static [u32],
    write: impl Fn(&Slots, &Arc<Domain>) + Send + Sync + Copy + 'static,
) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let domain = Domain::new(1);
        let slots = Slots::new(start.0, start.1);
        let mut reader = domain.register().unwrap();
        let (seen, knows) = (slots.clone(), domain.clone());
        let writer = thread::spawn(move || write(&seen, &knows));
        for _ in 0..2 {
            let round = reader.round();
            let found = slots.lookup(&round, address);
            assert!(allowed.contains(&found), "{found} was never true");
        }
        drop(reader);
        writer.join().unwrap();
    });
}

#[test]
fn a_page_comes_and_changes_one_address_only() {
    let write = |slots: &Slots, _: &Arc<Domain>| {
        slots.enter_page(0);
        slots.paint(1, B);
    };
    check(([A, MISS], MISS), (0, 0), &[A], write);
    check(([A, MISS], MISS), (0, 1), &[A, B], write);
}

#[test]
fn a_page_goes_when_all_of_it_is_alike() {
    let write = |slots: &Slots, _: &Arc<Domain>| {
        slots.enter_page(0);
        slots.paint(1, B);
        slots.paint(1, A);
        slots.leave_page(0);
    };
    check(([A, MISS], MISS), (0, 0), &[A], write);
    check(([A, MISS], MISS), (0, 1), &[A, B], write);
}

#[test]
fn a_page_is_used_again_when_nobody_reads_it_any_more() {
    let write = |slots: &Slots, domain: &Arc<Domain>| {
        slots.enter_page(0);
        slots.paint(1, B);
        slots.paint(1, A);
        slots.leave_page(0);
        let free = Arc::new(Mutex::new(false));
        let freed = free.clone();
        domain.retire(move || *freed.lock().unwrap() = true);
        domain.collect();
        if *free.lock().unwrap() {
            // The other /24 has leaves that the first must never show.
            slots.enter_page(1);
            slots.paint(1, D);
        }
    };
    check(([A, C], MISS), (0, 1), &[A, B], write);
    check(([A, C], MISS), (1, 1), &[C, D], write);
}

#[test]
fn no_address_is_without_a_route_that_has_one_before_and_after() {
    // 0/0 is there, 10/8 is added, 0/0 is removed; and the reverse.
    let there = |slots: &Slots, _: &Arc<Domain>| {
        slots.first[0].store(A, Ordering::Release);
        slots.set_default(MISS);
    };
    check(([MISS, MISS], D), (0, 0), &[A, D], there);
    let back = |slots: &Slots, _: &Arc<Domain>| {
        slots.set_default(D);
        slots.first[0].store(MISS, Ordering::Release);
    };
    check(([A, MISS], MISS), (0, 0), &[A, D], back);
    // Both in a row: the default route is the same at the end as at the beginning, and the lookup must notice the
    // change.
    let back_and_there = |slots: &Slots, _: &Arc<Domain>| {
        slots.set_default(D);
        slots.first[0].store(MISS, Ordering::Release);
        slots.first[0].store(A, Ordering::Release);
        slots.set_default(MISS);
    };
    check(([A, MISS], MISS), (0, 0), &[A, D], back_and_there);
}
