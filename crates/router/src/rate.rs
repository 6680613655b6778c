//! Limits on the work that a flood of packets causes. On workers: a token bucket, without locks, because each worker
//! has its own. In the log: at most one message per interval, which says how many messages it stands for.

use graph::time;
use std::time::{Duration, Instant};

/// How often the log shows a message that may come thousands of times.
const LOG_INTERVAL: Duration = Duration::from_secs(1);

/// How many a second, and how many at once after a pause.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    pub per_second: u32,
    pub burst: u32,
}

/// What is left of a limit, as of a time in ticks.
#[derive(Debug, Clone, Copy)]
pub struct TokenBucket {
    /// Capped at the burst when it is used, so infinite means full.
    credit: f64,
    reckoned: u64,
}

impl TokenBucket {
    pub fn full() -> TokenBucket {
        TokenBucket { credit: f64::INFINITY, reckoned: time::ticks() }
    }

    /// Whether one more is allowed at the time `now`, in ticks.
    pub fn take(&mut self, limit: Limit, now: u64) -> bool {
        let passed = time::seconds(now.saturating_sub(self.reckoned));
        self.reckoned = self.reckoned.max(now);
        self.credit = (self.credit + passed * f64::from(limit.per_second)).min(limit.burst.into());
        let allowed = self.credit >= 1.0;
        self.credit -= if allowed { 1.0 } else { 0.0 };
        allowed
    }
}

/// Lets one message per interval pass, and counts the rest.
#[derive(Debug, Default)]
pub struct Throttle {
    last: Option<Instant>,
    untold: u64,
}

impl Throttle {
    /// The end of the message, when it may pass: empty, or how many were held back since the last.
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
        // A little more than three hundredths of a second.
        assert_eq!(taken(&mut bucket, start + after(3.1)), 3);
        // Credit is capped at the burst; a clock that goes back adds none.
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
