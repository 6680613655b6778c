//! Who says too much is counted instead of kept: a class that exceeds its rate, and one that
//! repeats itself. Both for a while; then it may speak again, and says first how much was
//! left out.

use std::time::{Duration, Instant};

/// Times that a class may say the same thing one after the other.
const REPETITIONS: u32 = 5;
/// What a rate counts in.
const SECOND: Duration = Duration::from_secs(1);

/// What becomes of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Pass,
    /// So many were suppressed before it.
    PassAfter(u64),
    Suppress,
}

/// What is known of a class.
#[derive(Default)]
pub(super) struct Throttle {
    /// When the present second began, and how many messages it had.
    second: Option<Instant>,
    count: u32,
    /// What was said last, since when, and how often in a row.
    last: String,
    since: Option<Instant>,
    repetitions: u32,
    silent_until: Option<Instant>,
    suppressed: u64,
}

impl Throttle {
    /// Judges a message; at most `limit` a second, and for `time` none when there were more.
    pub fn judge(&mut self, now: Instant, text: &str, limit: u32, time: Duration) -> Verdict {
        if self.silent_until.is_some_and(|until| now < until) {
            return self.suppress();
        }
        self.silent_until = None;
        if self.second.is_none_or(|second| now.saturating_duration_since(second) >= SECOND) {
            self.second = Some(now);
            self.count = 0;
        }
        if self.count >= limit {
            self.silent_until = Some(now + time);
            return self.suppress();
        }
        if self.repeats(now, text, time) {
            return self.suppress();
        }
        self.count += 1;
        match std::mem::take(&mut self.suppressed) {
            0 => Verdict::Pass,
            suppressed => Verdict::PassAfter(suppressed),
        }
    }

    /// Whether the same has been said too often for `time`.
    fn repeats(&mut self, now: Instant, text: &str, time: Duration) -> bool {
        let lately = self.since.is_some_and(|since| now.saturating_duration_since(since) < time);
        if !lately || self.last != text {
            self.last = text.to_string();
            self.since = Some(now);
            self.repetitions = 0;
        }
        self.repetitions += 1;
        self.repetitions > REPETITIONS
    }

    fn suppress(&mut self) -> Verdict {
        self.suppressed += 1;
        Verdict::Suppress
    }

    /// Messages left out that nothing was said about yet.
    pub fn suppressed(&self) -> u64 {
        self.suppressed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: Duration = Duration::from_secs(5);

    #[test]
    fn a_class_over_its_rate_is_silent_for_a_while_and_then_says_how_much_was_left_out() {
        let (mut throttle, start) = (Throttle::default(), Instant::now());
        let mut say = |at: u64, text: &str| throttle.judge(start + Duration::from_millis(at), text, 3, TIME);
        for number in 0..3 {
            assert_eq!(say(number, &number.to_string()), Verdict::Pass);
        }
        assert_eq!(say(3, "d"), Verdict::Suppress);
        assert_eq!(say(4000, "e"), Verdict::Suppress, "the rate is low again, the time is not over");
        assert_eq!(say(5003, "f"), Verdict::PassAfter(2));
        assert_eq!(say(5004, "g"), Verdict::Pass);
    }

    #[test]
    fn what_is_said_over_and_over_is_counted() {
        let (mut throttle, start) = (Throttle::default(), Instant::now());
        let mut say = |at: u64, text: &str| throttle.judge(start + Duration::from_millis(at), text, 100, TIME);
        for at in 0..5 {
            assert_eq!(say(at, "same"), Verdict::Pass);
        }
        assert_eq!(say(6, "same"), Verdict::Suppress);
        assert_eq!(say(7, "same"), Verdict::Suppress);
        assert_eq!(say(8, "other"), Verdict::PassAfter(2));
        assert_eq!(say(9, "same"), Verdict::Pass);
        assert_eq!(say(5010, "same"), Verdict::Pass, "long after");
    }
}
