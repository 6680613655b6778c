//! What counting costs when every worker counts in rows of its own, and what it would cost on shared
//! cache lines: two threads that count at once.
//!
//! `cargo run --release -p quiver-graph --example counters`

use quiver_graph::CounterTable;
use quiver_graph::time::ticks;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::sync::Barrier;

const ROUNDS: usize = 9;
const COUNTS: u64 = 5_000_000;

/// Clocks an addition, of two threads at once: thread `n` counts in that row and at that index.
fn clocks(table: &CounterTable, places: [(usize, usize); 2]) -> f64 {
    let barrier = Barrier::new(2);
    let count = |core: usize, (row, index): (usize, usize)| {
        let mut cores = CpuSet::new();
        cores.set(core);
        // On a machine with one core they take turns.
        let _ = sched_setaffinity(None, &cores);
        barrier.wait();
        let start = ticks();
        for n in 0..COUNTS {
            // Something different each time, so that additions are not put together.
            table.add(row, index, 0, n | 1);
        }
        (ticks() - start) as f64 / COUNTS as f64
    };
    std::thread::scope(|scope| {
        let threads = [0, 1].map(|core| {
            let count = &count;
            scope.spawn(move || count(core, places[core]))
        });
        threads.map(|thread| thread.join().expect("counting does not panic")).into_iter().fold(0.0, f64::max)
    })
}

fn main() {
    let table = CounterTable::new("counters", 2, 1024, 1).expect("memory for two rows");
    let ways = [("rows of their own", [(0, 0), (1, 0)]), ("one cache line", [(0, 0), (0, 1)])];
    let mut figures = ways.map(|_| Vec::new());
    // In turns, so that whatever else goes on on the machine meets both.
    for _ in 0..ROUNDS {
        for (figures, (_, places)) in figures.iter_mut().zip(ways) {
            figures.push(clocks(&table, places));
        }
    }
    println!("clocks an addition, two threads at once, median (least to most of {ROUNDS}):");
    for (figures, (name, _)) in figures.iter_mut().zip(ways) {
        figures.sort_by(f64::total_cmp);
        println!("  {name:<20}{:7.2} ({:.2} to {:.2})", figures[ROUNDS / 2], figures[0], figures[ROUNDS - 1]);
    }
}
