//! Whether the machine itself pauses: a core that does nothing but read the clock, before anything runs.

use crate::device::quiver::pin;
use graph::time;
use serde::Serialize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// From one reading of the clock to the next: more is a pause.
const PAUSE: Duration = Duration::from_micros(20);

/// What a core did by itself.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Probe {
    pub core: Option<u32>,
    pub seconds: f64,
    /// Times that it was preempted for longer than 20 us, how long the longest was, and all together.
    pub pauses: u32,
    pub longest_us: f64,
    pub away_share: f64,
}

/// Looks at each of these cores, one after the other.
pub fn probe(cores: &[Option<u32>], length: Duration) -> Vec<Probe> {
    let one = |core: Option<u32>| {
        let look = move || {
            pin("the probe", core);
            watch(core, length)
        };
        std::thread::spawn(look).join().expect("it does nothing that panics")
    };
    cores.iter().map(|core| one(*core)).collect()
}

/// Clocks that a cache line takes from one core to another: the fastest of many, for others may work there, too.
pub fn line_clocks(here: u32, there: u32) -> f64 {
    const PINGS: u64 = 2000;
    let line = AtomicU64::new(0);
    let await_value = |value| {
        while line.load(Ordering::Acquire) != value {
            std::hint::spin_loop();
        }
    };
    let answer = || {
        pin("the probe", Some(there));
        for n in (1..2 * PINGS).step_by(2) {
            await_value(n);
            line.store(n + 1, Ordering::Release);
        }
    };
    let ask = || {
        pin("the probe", Some(here));
        let mut fastest = u64::MAX;
        for n in (0..2 * PINGS).step_by(2) {
            let before = time::ticks();
            line.store(n + 1, Ordering::Release);
            await_value(n + 2);
            fastest = fastest.min(time::ticks().saturating_sub(before));
        }
        fastest as f64 / 2.0
    };
    std::thread::scope(|scope| {
        scope.spawn(answer);
        scope.spawn(ask).join().expect("it does nothing that panics")
    })
}

fn watch(core: Option<u32>, length: Duration) -> Probe {
    let (pause, length) = (time::to_ticks(PAUSE), time::to_ticks(length));
    let start = time::ticks();
    let (mut last, mut pauses, mut longest, mut away) = (start, 0, 0, 0);
    while last - start < length {
        let now = time::ticks();
        // Cores do not agree on it to the last tick.
        let passed = now.saturating_sub(last);
        if passed > pause {
            pauses += 1;
            away += passed;
            longest = longest.max(passed);
        }
        last = now.max(last);
    }
    Probe {
        core,
        seconds: time::seconds(last - start),
        pauses,
        longest_us: time::seconds(longest) * 1e6,
        away_share: away as f64 / (last - start) as f64,
    }
}
