//! Whether the machine itself pauses: a core that does nothing but read the clock, before anything runs.

use crate::device::quiver::pin;
use graph::time;
use serde::Serialize;
use std::time::Duration;

/// From one reading of the clock to the next: more is a pause.
const PAUSE: Duration = Duration::from_micros(20);

/// What a core did by itself.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Probe {
    pub core: Option<u32>,
    pub seconds: f64,
    /// Times that it was away for longer than 20 us, how long the longest was, and all together.
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
