//! How long rounds take: a histogram of all, and the longest without the time in which the thread did not run.

use graph::time;
use rustix::time::{ClockId, clock_gettime};
use serde::Serialize;
use std::time::Duration;

/// How often the thread's own clock is read: often enough that at most one long round lies between two readings, and
/// rarely enough to cost only a hundredth of the time.
const INTERVAL: Duration = Duration::from_micros(100);

#[derive(Serialize)]
pub struct Percentiles {
    pub p50: f64,
    pub p99: f64,
    pub p9999: f64,
    pub max: f64,
    /// How many rounds took more than a millisecond.
    pub over_1ms: u64,
    /// The longest round, and how many took more than a millisecond, by the thread's own clock. It leaves out other
    /// threads of this machine and, as far as the host reports it, other machines on the same host; it includes
    /// interrupts and page faults.
    pub own_max: f64,
    pub own_over_1ms: u64,
    pub rounds: u64,
}

/// How often something took a given time: steps of 1/16 of a power of two, in clocks.
struct Histogram {
    counts: Vec<u64>,
    max: u64,
    over_1ms: u64,
}

impl Histogram {
    fn new() -> Histogram {
        Histogram { counts: vec![0; 64 * 16], max: 0, over_1ms: 0 }
    }

    fn add(&mut self, clocks: u64, millisecond: u64) {
        let power = 63 - (clocks | 16).leading_zeros() as usize;
        let step = (clocks >> (power - 4)) as usize & 15;
        self.counts[power * 16 + step] += 1;
        self.max = self.max.max(clocks);
        self.over_1ms += u64::from(clocks > millisecond);
    }

    fn merge(&mut self, other: &Histogram) {
        self.counts.iter_mut().zip(&other.counts).for_each(|(sum, count)| *sum += count);
        self.max = self.max.max(other.max);
        self.over_1ms += other.over_1ms;
    }

    fn rounds(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// The time below which this part lies, in clocks, to a sixteenth.
    fn at(&self, part: f64) -> f64 {
        let mut left = (self.rounds() as f64 * part) as u64;
        let found = self.counts.iter().position(|count| {
            let is_here = left < *count;
            left = left.saturating_sub(*count);
            is_here
        });
        let place = found.unwrap_or(0);
        (16 + place % 16) as f64 * 2f64.powi(place as i32 / 16 - 4)
    }
}

/// The rounds of one thread, or of several windows of it.
pub struct Rounds {
    all: Histogram,
    own_max: u64,
    own_over_1ms: u64,
    millisecond: u64,
    interval: u64,
    /// At the last reading of the thread's clock: the time stamp counter, and the thread's clock in units of it.
    since: (u64, u64),
    longest: u64,
}

/// The thread's own clock, in clocks of the time stamp counter.
fn own_ticks() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time::to_ticks(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
}

impl Rounds {
    /// Starts now, on this thread.
    pub fn new() -> Rounds {
        let millisecond = time::to_ticks(Duration::from_millis(1));
        Rounds {
            all: Histogram::new(),
            own_max: 0,
            own_over_1ms: 0,
            millisecond,
            interval: time::to_ticks(INTERVAL),
            since: (time::ticks(), own_ticks()),
            longest: 0,
        }
    }

    /// Notes a round that lasted from `begin` to now.
    #[inline]
    pub fn add(&mut self, begin: u64) {
        let now = time::ticks();
        let clocks = now - begin;
        self.all.add(clocks, self.millisecond);
        self.longest = self.longest.max(clocks);
        if now - self.since.0 >= self.interval {
            self.settle();
        }
    }

    /// Subtracts the time that the thread did not run since the last reading from its longest round.
    #[cold]
    fn settle(&mut self) {
        let now = (time::ticks(), own_ticks());
        let taken = (now.0 - self.since.0).saturating_sub(now.1 - self.since.1);
        let own = self.longest.saturating_sub(taken);
        self.own_max = self.own_max.max(own);
        self.own_over_1ms += u64::from(own > self.millisecond);
        (self.since, self.longest) = (now, 0);
    }

    pub fn merge(&mut self, other: &Rounds) {
        self.all.merge(&other.all);
        self.own_max = self.own_max.max(other.own_max);
        self.own_over_1ms += other.own_over_1ms;
    }

    /// As microseconds.
    pub fn percentiles(&self) -> Percentiles {
        let us = |clocks: f64| clocks / time::ticks_per_second() * 1e6;
        Percentiles {
            p50: us(self.all.at(0.5)),
            p99: us(self.all.at(0.99)),
            p9999: us(self.all.at(0.9999)),
            max: us(self.all.max as f64),
            over_1ms: self.all.over_1ms,
            own_max: us(self.own_max as f64),
            own_over_1ms: self.own_over_1ms,
            rounds: self.all.rounds(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_found_to_a_sixteenth() {
        let mut histogram = Histogram::new();
        (1..=10_000u64).for_each(|clocks| histogram.add(clocks * 100, 999_999));
        for (part, clocks) in [(0.5, 500_000.0), (0.99, 990_000.0), (0.9999, 999_900.0)] {
            let at = histogram.at(part);
            assert!(at <= clocks && at > clocks * (1.0 - 1.0 / 16.0), "{part}: {at} of {clocks}");
        }
        assert_eq!((histogram.rounds(), histogram.max, histogram.over_1ms), (10_000, 1_000_000, 1));
    }

    #[test]
    fn a_round_that_slept_was_long_and_not_its_own() {
        let mut rounds = Rounds::new();
        let begin = time::ticks();
        std::thread::sleep(Duration::from_millis(20));
        rounds.add(begin);
        assert_eq!(rounds.all.over_1ms, 1);
        assert!(rounds.own_max < rounds.all.max / 2, "{} of {}", rounds.own_max, rounds.all.max);
    }
}
