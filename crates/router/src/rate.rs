//! How often a worker may do what a flood of packets would have it do: a token bucket, without locks, as each
//! worker has its own.

use graph::time;

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
}
