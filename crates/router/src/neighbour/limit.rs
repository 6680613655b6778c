//! Rates that a worker keeps, by interface.

use graph::{InterfaceIndex, time};

/// So much a second, and as much at once.
#[derive(Debug, Clone, Copy, Default)]
pub struct Bucket {
    credit: f64,
    /// As of when (ticks); 0: never used, so full.
    reckoned: u64,
}

impl Bucket {
    /// Whether one more may pass.
    pub fn take(&mut self, now: u64, rate: u32) -> bool {
        let most = rate as f64;
        let passed = if self.reckoned == 0 { 1.0 } else { time::seconds(now.saturating_sub(self.reckoned)) };
        self.reckoned = self.reckoned.max(now);
        self.credit = (self.credit + passed * most).min(most);
        let passes = self.credit >= 1.0;
        self.credit -= if passes { 1.0 } else { 0.0 };
        passes
    }
}

/// One of something for each interface that has needed it.
#[derive(Debug, Default)]
pub struct ByInterface<T>(Vec<T>);

impl<T: Default> ByInterface<T> {
    pub fn of(&mut self, interface: InterfaceIndex) -> &mut T {
        let at = interface.0 as usize;
        if self.0.len() <= at {
            self.0.resize_with(at + 1, T::default);
        }
        &mut self.0[at]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_second_brings_what_the_rate_says() {
        let (mut bucket, start) = (Bucket::default(), 1_000_000);
        let after = |millis| start + time::to_ticks(Duration::from_millis(millis));
        let mut passed = |at| (0..100).filter(|_| bucket.take(at, 10)).count();
        assert_eq!(passed(start), 10);
        assert_eq!(passed(start), 0);
        assert_eq!(passed(after(501)), 5);
        assert_eq!(passed(after(9_000)), 10, "no more than that at once");
    }
}
