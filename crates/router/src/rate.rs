//! How often is done what a flood of packets would have done. By a worker: a token bucket, without locks, as each
//! worker has its own. In the log: a message now and then, which says how many it stands for.

use graph::time;
use std::time::{Duration, Instant};

/// How often the log hears of what may come by the thousand.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// So many a second, and so many at once after a rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit {
    pub per_second: u32,
    pub burst: u32,
}

/// What may still be done, as of a time in ticks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TokenBucket {
    /// Never more than the burst at hand, so endless is full.
    credit: f64,
    reckoned: u64,
}

impl TokenBucket {
    pub fn full() -> TokenBucket {
        TokenBucket { credit: f64::INFINITY, reckoned: time::ticks() }
    }

    /// Whether it may be done once more, at the time `now` in ticks.
    pub fn take(&mut self, limit: Limit, now: u64) -> bool {
        let passed = time::seconds(now.saturating_sub(self.reckoned));
        self.reckoned = self.reckoned.max(now);
        self.credit = (self.credit + passed * f64::from(limit.per_second)).min(limit.burst.into());
        let allowed = self.credit >= 1.0;
        self.credit -= if allowed { 1.0 } else { 0.0 };
        allowed
    }
}

/// Lets one message pass now and then, and counts the others.
#[derive(Debug, Default)]
pub(crate) struct Throttle {
    last: Option<Instant>,
    untold: u64,
}

impl Throttle {
    /// What a message is to end with, when it may be told: nothing, or how many were held back since the last.
    pub fn pass(&mut self, now: Instant) -> Option<String> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < LOG_INTERVAL) {
            self.untold += 1;
            return None;
        }
        self.last = Some(now);
        Some(match std::mem::take(&mut self.untold) {
            0 => String::new(),
            untold => format!(" (and {untold} more that were not told)"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_gives_its_burst_and_then_its_rate() {
        let limit = Limit { per_second: 100, burst: 5 };
        let mut bucket = TokenBucket::full();
        let after = |hundredths: f64| (time::ticks_per_second() / 100.0 * hundredths) as u64;
        let start = time::ticks() + after(100.0);
        let taken = |bucket: &mut TokenBucket, now| (0..1000).filter(|_| bucket.take(limit, now)).count();
        assert_eq!(taken(&mut bucket, start), 5);
        assert_eq!(taken(&mut bucket, start), 0);
        // Just over three hundredths of a second.
        assert_eq!(taken(&mut bucket, start + after(3.1)), 3);
        // Rest does not add up beyond the burst; a clock that goes back gives nothing.
        assert_eq!(taken(&mut bucket, start + after(1e4)), 5);
        assert_eq!(taken(&mut bucket, start), 0);
    }

    #[test]
    fn a_message_a_second_says_how_many_it_stands_for() {
        let (mut throttle, start) = (Throttle::default(), Instant::now());
        let mut pass = |millis| throttle.pass(start + Duration::from_millis(millis));
        assert_eq!(pass(0).as_deref(), Some(""));
        assert_eq!((pass(1), pass(999)), (None, None));
        assert_eq!(pass(1000).as_deref(), Some(" (and 2 more that were not told)"));
        assert_eq!(pass(2000).as_deref(), Some(""));
    }
}
