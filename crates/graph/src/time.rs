//! Time as workers see it: ticks of the processor's time stamp counter, read once a
//! round and around each node.
#![allow(unsafe_code)]

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// The time stamp counter. On machines without one, nanoseconds.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: RDTSC exists on every x86-64.
        unsafe { core::arch::x86_64::_rdtsc() }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        static START: OnceLock<Instant> = OnceLock::new();
        START.get_or_init(Instant::now).elapsed().as_nanos() as u64
    }
}

/// Ticks a second, measured once against the system's clock (20 ms).
pub fn ticks_per_second() -> f64 {
    static RATE: OnceLock<f64> = OnceLock::new();
    *RATE.get_or_init(|| {
        const WINDOW: Duration = Duration::from_millis(20);
        // The counter is read between two readings of the clock; the try during which
        // the process was preempted least counts.
        let sample = || {
            (0..5)
                .map(|_| {
                    let before = Instant::now();
                    let ticks = ticks();
                    (before.elapsed(), before, ticks)
                })
                .min_by_key(|(taken, ..)| *taken)
                .map(|(taken, before, ticks)| (before + taken / 2, ticks))
                .expect("five samples")
        };
        let (start, first) = sample();
        std::thread::sleep(WINDOW);
        let (end, last) = sample();
        (last - first) as f64 / (end - start).as_secs_f64()
    })
}

/// Ticks as seconds.
pub fn seconds(ticks: u64) -> f64 {
    ticks as f64 / ticks_per_second()
}

/// A duration in ticks.
pub fn to_ticks(duration: Duration) -> u64 {
    (duration.as_secs_f64() * ticks_per_second()) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_advance_and_convert_both_ways() {
        let before = ticks();
        std::thread::sleep(Duration::from_millis(5));
        assert!(seconds(ticks() - before) >= 0.0045);
        let back = seconds(to_ticks(Duration::from_secs(3)));
        assert!((back - 3.0).abs() < 1e-6);
    }
}
