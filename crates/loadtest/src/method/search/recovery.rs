//! System recovery (RFC 2544, section 26.5): after an overload, how long a device goes on losing packets at a rate that it
//! carries.

use super::burst;
use crate::rate::Rate;
use crate::report::{Report, Sample};
use crate::run::Conduct;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The overload, as a share of the throughput, but no more than the line carries; and what it falls to.
pub const OVER: f64 = 1.1;
pub const FALL: f64 = 0.5;
/// How long the lower rate is watched.
pub const AFTER: Duration = Duration::from_secs(2);
/// Who still loses packets in so late a part of that has not recovered.
const LATE: f64 = 0.95;
/// Times that it is looked for.
pub const TIMES: usize = 3;

/// What came of it. Loads are of one port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// Packets a second of the overload, its seconds, and packets a second after it.
    pub overload: f64,
    pub seconds: f64,
    pub reduced: f64,
    /// Seconds from the fall of the rate to the last loss, each time; none: it had no end while it was watched.
    pub times: Vec<Option<f64>>,
    /// Packets that were lost, all times together: without loss it was no overload.
    pub lost: u64,
}

impl Recovery {
    /// Notes a run that fell to the lower rate.
    pub fn note(&mut self, report: &Report) {
        let Some(fell) = report.rate_changed_at else { return };
        let last = report.streams.iter().filter_map(|stream| stream.last_loss_at).fold(fell, f64::max);
        self.times.push(Some(last - fell).filter(|time| *time < LATE * AFTER.as_secs_f64()));
        self.lost += report.ports.iter().map(|port| port.counts.lost_packets).sum::<u64>();
    }

    /// Mean of those that had an end.
    pub fn mean(&self) -> Option<f64> {
        let ended: Vec<f64> = self.times.iter().copied().flatten().collect();
        (!ended.is_empty()).then(|| ended.iter().sum::<f64>() / ended.len() as f64)
    }
}

impl fmt::Display for Recovery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.lost == 0 {
            return f.write_str("nothing was lost in the overload: there is nothing to recover from");
        }
        let times: Vec<String> =
            self.times.iter().map(|time| time.map_or("never".into(), |time| burst::seconds(time) + "s")).collect();
        match self.mean() {
            Some(mean) => write!(f, "{}s on average ({})", burst::seconds(mean), times.join(", ")),
            None => write!(f, "not within {} s ({})", AFTER.as_secs(), times.join(", ")),
        }
    }
}

/// Lets the rate fall once.
pub struct Fall<'a> {
    /// Seconds from the start.
    pub at: f64,
    pub to: Rate,
    pub part: &'a mut dyn Conduct,
}

impl Conduct for Fall<'_> {
    fn rate(&mut self, at: f64) -> Option<Rate> {
        (at >= self.at).then_some(self.to)
    }

    fn sampled(&mut self, sample: &Sample) {
        self.part.sampled(sample);
    }

    fn is_interrupted(&self) -> bool {
        self.part.is_interrupted()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_without_an_end_are_no_part_of_the_mean() {
        let recovery = |times: &[Option<f64>], lost| Recovery {
            overload: 1.1e6,
            seconds: 60.0,
            reduced: 5.5e5,
            times: times.to_vec(),
            lost,
        };
        let found = recovery(&[Some(0.010), None, Some(0.020)], 5);
        assert_eq!(found.mean(), Some(0.015));
        assert_eq!(found.to_string(), "15 ms on average (10 ms, never, 20 ms)");
        assert_eq!(recovery(&[None], 5).to_string(), "not within 2 s (never)");
        assert!(recovery(&[Some(0.0)], 0).to_string().starts_with("nothing was lost"));
    }
}
