//! System recovery (RFC 2544, section 26.5): after an overload, how long a device goes on losing packets at a rate
//! that it carries.

use super::burst;
use crate::rate::Rate;
use crate::report::{Report, Sample};
use crate::run::RunPolicy;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The overload, as a share of the throughput, but no more than the line carries; and what it falls to.
pub const OVER: f64 = 1.1;
pub const FALL: f64 = 0.5;
/// How long the lower rate is watched.
pub const AFTER: Duration = Duration::from_secs(2);
/// Seconds without loss after which a device has recovered: what is lost later has another reason.
const QUIET: f64 = 0.1;
/// Times that it is looked for.
pub const TIMES: usize = 3;

/// What came of it. Loads are of one port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recovery {
    /// Packets a second of the overload, its seconds, and packets a second after it.
    pub overload: f64,
    pub seconds: f64,
    pub reduced: f64,
    /// Seconds from the fall of the rate to the last loss before a tenth of a second without any, each time; none: it
    /// had no end while it was watched.
    pub times: Vec<Option<f64>>,
    /// Packets that were lost, all times together: without loss it was no overload.
    pub lost: u64,
}

impl Recovery {
    /// Notes a run that fell to the lower rate.
    pub fn note(&mut self, report: &Report) {
        let Some(fell) = report.rate_changed_at else {
            return self.times.push(None);
        };
        let losses = report.streams.iter().flat_map(|stream| stream.losses_at.iter().copied());
        let mut after: Vec<f64> = losses.map(|at| at - fell).filter(|at| *at > 0.0).collect();
        after.sort_by(f64::total_cmp);
        // There may have been losses before the first that is remembered.
        let is_whole = !report
            .streams
            .iter()
            .any(|stream| stream.lost_before && stream.losses_at.first().is_some_and(|first| *first > fell));
        self.times.push(recovered(&after, is_whole, AFTER.as_secs_f64()));
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
            self.times.iter().map(|time| time.map_or("longer".into(), |time| burst::seconds(time) + "s")).collect();
        match self.mean() {
            Some(mean) => write!(f, "{}s on average ({})", burst::seconds(mean), times.join(", ")),
            None => write!(f, "not within {} s ({})", AFTER.as_secs(), times.join(", ")),
        }
    }
}

/// When losses end, of which these times are known; `is_whole`: all of them. None: they do not, while it was watched.
fn recovered(losses: &[f64], is_whole: bool, watched: f64) -> Option<f64> {
    let mut end = if is_whole { 0.0 } else { losses.first().copied().unwrap_or(0.0) };
    for &at in losses {
        if at - end > QUIET {
            break;
        }
        end = at;
    }
    Some(end).filter(|end| end + QUIET <= watched)
}

/// Lets the rate fall once.
pub struct Fall<'a> {
    /// Seconds from the start.
    pub at: f64,
    pub to: Rate,
    pub part: &'a mut dyn RunPolicy,
}

impl RunPolicy for Fall<'_> {
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
    fn it_is_over_when_nothing_was_lost_for_a_while() {
        assert_eq!(recovered(&[], true, 2.0), Some(0.0));
        assert_eq!(recovered(&[0.01, 0.05, 0.14], true, 2.0), Some(0.14));
        // One is lost much later, for another reason.
        assert_eq!(recovered(&[0.01, 0.05, 1.3], true, 2.0), Some(0.05));
        assert_eq!(recovered(&[1.3], true, 2.0), Some(0.0));
        // So many were lost that the first are not remembered.
        assert_eq!(recovered(&[0.5, 0.55], false, 2.0), Some(0.55));
        let all: Vec<f64> = (0..40).map(|n| f64::from(n) * 0.05).collect();
        assert_eq!(recovered(&all, true, 2.0), None);
    }

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
        assert_eq!(found.to_string(), "15 ms on average (10 ms, longer, 20 ms)");
        assert_eq!(recovery(&[None], 5).to_string(), "not within 2 s (longer)");
        assert!(recovery(&[Some(0.0)], 0).to_string().starts_with("nothing was lost"));
    }
}
