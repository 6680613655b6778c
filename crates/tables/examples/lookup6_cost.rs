//! What an IPv6 lookup, an added route and a route's memory cost: `cargo run --release --example lookup6_cost`.

use quiver_tables::fib6::{Key, Routes};
use quiver_tables::synthetic::{Random, forty_eights, internet6};
use quiver_tables::{Fib6, Kernel, Leaf};
use rcu::Domain;
use std::time::Instant;

struct Put;
impl Routes<u32> for Put {
    fn leaf(&self, value: u32) -> Leaf {
        Leaf(value)
    }
    fn merge(&mut self, _: Key, _: Option<u32>, change: u32) -> Option<u32> {
        Some(change)
    }
    fn refuse(&mut self, _: Key, _: Option<u32>, _: Option<u32>, _: u32) {
        unreachable!("there is room");
    }
}

fn main() {
    let tables: [(&str, Vec<Key>); 5] = [
        ("1 route", vec![Key::new(0x2001_0db8 << 96, 32)]),
        ("200k /48", forty_eights(200_000, 3)),
        ("200k", internet6(200_000, 3)),
        ("500k", internet6(500_000, 3)),
        ("2m", internet6(2_000_000, 3)),
    ];
    for (name, keys) in tables {
        let domain = Domain::new(1);
        let mut reader = domain.register().expect("one reader");
        let mut fib = Fib6::new(&domain).expect("address space");
        let value = |at: usize| 1 + at as u32 % 64;
        let start = Instant::now();
        let mut changes: Vec<(Key, u32)> = keys.iter().enumerate().map(|(at, key)| (*key, value(at))).collect();
        fib.change(&mut changes, &mut Put);
        let bulk = start.elapsed().as_secs_f64() * 1e6 / keys.len() as f64;
        let mut random = Random::new(9);
        let mut draw = || u128::from(random.draw()) << 96 | u128::from(random.draw()) << 64 | u128::from(random.draw());
        // In routes, each as often as others.
        let addresses: Vec<u128> = (0..1 << 20)
            .map(|_| {
                let chance = draw();
                let key = keys[(chance % keys.len() as u128) as usize];
                key.address() | draw().unbounded_shr(key.length().into())
            })
            .collect();
        let round = reader.round();
        let mut leaves = vec![0; addresses.len()];
        print!("{name:>9}:");
        for kernel in Kernel::ALL {
            let Some(lookup) = fib.handle().with_kernel(kernel) else { continue };
            let mut best = f64::MAX;
            for _ in 0..5 {
                let start = Instant::now();
                for (addresses, leaves) in addresses.chunks(256).zip(leaves.chunks_mut(256)) {
                    lookup.lookup_batch(&round, addresses, leaves);
                }
                best = best.min(start.elapsed().as_secs_f64() * 1e9 / addresses.len() as f64);
            }
            print!(" {kernel:?} {best:.2} ns");
        }
        let memory = fib.memory();
        let per = |bytes: usize| bytes as f64 / keys.len() as f64;
        print!("; bulk {bulk:.3} us a route; {:.1} + {:.1} bytes a route", per(memory.lookup), per(memory.prefixes));
        let few = &keys[..keys.len().min(20_000)];
        let start = Instant::now();
        for key in few {
            fib.remove(*key, Leaf).expect("there is room");
        }
        let remove = start.elapsed().as_secs_f64() * 1e6 / few.len() as f64;
        domain.collect();
        let mut times: Vec<f64> = few
            .iter()
            .map(|key| {
                let start = Instant::now();
                fib.insert(*key, 5, Leaf).expect("there was room");
                start.elapsed().as_secs_f64() * 1e6
            })
            .collect();
        times.sort_by(f64::total_cmp);
        let at = |part: f64| times[((times.len() - 1) as f64 * part) as usize];
        println!("; remove {remove:.2} us; add {:.2} us, 99 % {:.2}, most {:.1}", at(0.5), at(0.99), at(1.0));
    }
}
