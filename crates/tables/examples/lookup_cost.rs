//! What an IPv4 lookup costs, in TSC clocks per address: vectors of 256 addresses by
//! each kernel, for tables of different sizes.
//!
//! `cargo run --release -p quiver-tables --example lookup_cost`

#[cfg(target_arch = "x86_64")]
fn main() {
    cost::main();
}

#[cfg(not(target_arch = "x86_64"))]
fn main() {
    eprintln!("this measurement needs the time stamp counter of x86-64");
}

#[cfg(target_arch = "x86_64")]
mod cost {
    use quiver_tables::Leaf;
    use quiver_tables::fib4::{Fib4, Kernel, Key, Lookup4, Options};
    use quiver_tables::synthetic::Random;
    use rcu::{Domain, Reader};
    use std::hint::black_box;

    const VECTOR: usize = 256;
    /// Destinations asked for in turn when the table is large: 4 MiB of addresses.
    const MANY: usize = 1 << 20;
    const RUNS: usize = 9;
    /// Addresses looked up in one run.
    const LOOKUPS: usize = 4 << 20;

    fn clocks() -> u64 {
        // SAFETY: reads a counter; every x86-64 has it.
        unsafe { std::arch::x86_64::_rdtsc() }
    }

    /// Minimum, median and maximum of clocks per address.
    fn measure(handle: &Lookup4, reader: &mut Reader, destinations: &[u32]) -> [f64; 3] {
        let mut vector = [0; VECTOR];
        let mut runs = [0.0; RUNS];
        for run in &mut runs {
            let vectors = destinations.chunks_exact(VECTOR).cycle();
            let start = clocks();
            for addresses in vectors.take(LOOKUPS / VECTOR) {
                let round = reader.round();
                vector.copy_from_slice(addresses);
                handle.lookup_batch(&round, black_box(&mut vector));
            }
            *run = (clocks() - start) as f64 / LOOKUPS as f64;
        }
        runs.sort_unstable_by(f64::total_cmp);
        [runs[0], runs[RUNS / 2], runs[RUNS - 1]]
    }

    fn report(name: &str, fib: &Fib4, reader: &mut Reader, destinations: &[u32]) {
        println!("{name}: {} routes, {} KiB", fib.len(), (fib.memory().lookup + fib.memory().prefixes) >> 10);
        for kernel in Kernel::ALL {
            let Some(handle) = fib.handle().with_kernel(kernel) else {
                println!("  {kernel:?}: this processor lacks it");
                continue;
            };
            let [least, median, most] = measure(&handle, reader, destinations);
            println!("  {kernel:<8?} {least:6.2} {median:6.2} {most:6.2}");
        }
    }

    /// A table of `count` random routes of `length` bits, and destinations inside them.
    fn random(fib: &mut Fib4, count: usize, length: u8) -> Vec<u32> {
        let mut random = Random::new(1);
        let keys: Vec<_> = (0..count).map(|_| Key::new(random.draw(), length)).collect();
        let start = std::time::Instant::now();
        for (index, key) in (1u32..).zip(&keys) {
            fib.insert(*key, Leaf::new(1, index % 256).0, Leaf).expect("room for all");
        }
        let seconds = start.elapsed().as_secs_f64();
        println!("{:.0} inserts/s", count as f64 / seconds);
        let inside = |_| {
            let key = keys[random.draw() as usize % count];
            key.address() | (random.draw() & !(u32::MAX << (32 - length)))
        };
        (0..MANY).map(inside).collect()
    }

    pub fn main() {
        println!("TSC clocks per address, least, median and most of {RUNS} runs");
        for huge_pages in [false, true] {
            println!("--- huge pages {}", if huge_pages { "asked for" } else { "off" });
            let domain = Domain::new(1);
            let mut reader = domain.register().expect("one slot, one reader");
            let options = Options { huge_pages, ..Options::default() };
            let table = || Fib4::with_options(&domain, options).expect("address space");

            let mut fib = table();
            fib.insert(Key::new(0x0a00_0000, 8), Leaf::new(1, 1).0, Leaf).expect("room");
            let mut seed = Random::new(2);
            let vector: Vec<_> = (0..VECTOR).map(|_| 0x0a00_0000 | seed.draw() >> 8).collect();
            report("one route, 256 addresses", &fib, &mut reader, &vector);
            fib.remove(Key::new(0x0a00_0000, 8), Leaf);
            fib.insert(Key::new(0, 0), Leaf::new(1, 1).0, Leaf).expect("room");
            report("default route only", &fib, &mut reader, &vector);

            for (name, count, length) in
                [("1k random /24", 1_000, 24), ("1M random /24", 1_000_000, 24), ("32k random /32", 1 << 15, 32)]
            {
                let mut fib = table();
                let destinations = random(&mut fib, count, length);
                report(name, &fib, &mut reader, &destinations);
            }
        }
    }
}
