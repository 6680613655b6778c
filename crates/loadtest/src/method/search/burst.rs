//! Back-to-back frames (RFC 2544, section 26.4, updated by RFC 9004): the longest burst at the line's rate that is
//! forwarded without loss. A device that forwards less than the line carries must buffer the rest: the result shows how
//! much it can buffer.

use crate::arithmetic::{scaled, significant};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// Longer bursts are not sent: a device that forwards such a burst forwards the line's rate (RFC 2544 requires at least
/// two seconds).
pub const LONGEST: Duration = Duration::from_secs(2);
/// The search ends when the bounds differ by a thousandth, or by one frame.
const RESOLUTION: u64 = 1000;
/// The first step from a length that was found before; each further step is twice as long.
const STEP: f64 = 0.02;

/// The result. Frames are those of one port; in both directions each port sends as many.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct BackToBack {
    /// How often the longest burst was searched for.
    pub times: usize,
    /// Frames of the longest burst: mean, standard deviation, least and most.
    pub mean: f64,
    pub deviation: f64,
    pub least: u64,
    pub most: u64,
    /// Frames in two seconds of the line: the longest burst that is sent.
    pub limit: u64,
    /// Seconds that such a burst takes (implied buffer time), and seconds that the device can buffer, less what it
    /// forwards meanwhile (corrected buffer time); none: its throughput is unknown.
    pub implied: f64,
    pub corrected: Option<f64>,
    /// The load tester itself could not send some bursts without gaps.
    pub is_own: bool,
}

impl BackToBack {
    /// From the lengths found, on a line that carries `line` frames a second, of which the device forwards
    /// `throughput`.
    pub fn of(found: &[u64], limit: u64, line: f64, throughput: Option<f64>, is_own: bool) -> Option<BackToBack> {
        let count = found.len() as f64;
        let mean = found.iter().sum::<u64>() as f64 / count;
        let variance = found.iter().map(|n| (*n as f64 - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
        let implied = mean / line;
        Some(BackToBack {
            times: found.len(),
            mean,
            deviation: variance.sqrt(),
            least: *found.iter().min()?,
            most: *found.iter().max()?,
            limit,
            implied,
            // RFC 9004, section 5.4.
            corrected: throughput.map(|throughput| implied * (1.0 - (throughput / line).min(1.0))),
            is_own,
        })
    }

    /// Whether even the longest burst was forwarded without loss.
    pub fn is_unlimited(&self) -> bool {
        self.least >= self.limit
    }
}

impl fmt::Display for BackToBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_unlimited() {
            return write!(f, "{} frames, two seconds of the line: no burst is too long", self.limit);
        }
        write!(
            f,
            "{:.1} frames, {} to {}, standard deviation {:.1}, of {} times; {}s of the line",
            self.mean,
            self.least,
            self.most,
            self.deviation,
            self.times,
            seconds(self.implied)
        )?;
        if let Some(corrected) = self.corrected {
            write!(f, ", of which the device itself holds {}s", seconds(corrected))?;
        }
        Ok(())
    }
}

/// `3.36 m` of seconds.
pub(super) fn seconds(time: f64) -> String {
    match time {
        time if time >= 1.0 => scaled(time),
        time if time >= 1e-3 => format!("{} m", significant(time * 1e3)),
        time => format!("{} u", significant(time * 1e6)),
    }
}

/// Searches for the longest burst that `whole` reports as forwarded completely, starting from the one found before.
/// None: interrupted.
///
/// # Errors
/// Those of `whole`.
pub fn longest<E>(
    limit: u64,
    before: Option<u64>,
    whole: &mut dyn FnMut(u64) -> Result<Option<bool>, E>,
) -> Result<Option<u64>, E> {
    let (mut lower, mut upper) = (0, None);
    let (mut next, mut step) = (before.unwrap_or(limit).clamp(1, limit), STEP);
    let out = |from: u64, step: f64| ((from as f64 * step) as u64).max(1);
    loop {
        match whole(next)? {
            None => return Ok(None),
            Some(true) => lower = next,
            Some(false) => upper = Some(next),
        }
        next = match upper {
            None if lower >= limit => return Ok(Some(lower)),
            None => lower.saturating_add(out(lower, step)).min(limit),
            Some(upper) if upper - lower <= (lower / RESOLUTION).max(1) => return Ok(Some(lower)),
            Some(upper) if lower == 0 && before.is_some() => upper.saturating_sub(out(upper, step)).max(1),
            // If the bounds are far apart, bisect by ratio.
            Some(upper) if upper / 4 > lower => {
                ((lower.max(1) as f64 * upper as f64).sqrt() as u64).clamp(lower + 1, upper - 1)
            }
            Some(upper) => lower.midpoint(upper),
        };
        step = (step * 2.0).min(0.9);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::convert::Infallible;

    fn look(limit: u64, before: Option<u64>, holds: u64) -> (u64, usize) {
        let mut trials = 0;
        let mut whole = |frames: u64| {
            assert!((1..=limit).contains(&frames));
            trials += 1;
            assert!(trials < 200, "it has an end");
            Ok::<_, Infallible>(Some(frames <= holds))
        };
        let Ok(found) = longest(limit, before, &mut whole);
        (found.unwrap(), trials)
    }

    #[test]
    fn what_a_device_holds_is_found_wherever_one_begins() {
        for holds in [0, 1, 2, 3, 167, 1024, 65_536, 1_000_000, 29_761_904] {
            for before in [None, Some(1), Some(holds.max(1)), Some(holds + 1), Some(holds * 2 + 7), Some(29_761_904)] {
                let (found, trials) = look(29_761_904, before, holds);
                assert!(found <= holds && found >= holds - holds / 1000, "{holds} {before:?}: {found}");
                assert!(trials < 60, "{holds} {before:?}: {trials}");
            }
            // Starting near the result, the search is short.
            assert!(look(29_761_904, Some(holds.max(1)), holds).1 < 14, "{holds}");
        }
        assert_eq!(look(1000, None, 5000), (1000, 1));
    }

    #[test]
    fn an_interrupted_search_finds_nothing() {
        assert_eq!(longest(1000, None, &mut |_| Ok::<_, Infallible>(None)), Ok(None));
    }

    #[test]
    fn buffers_are_corrected_for_what_goes_out_meanwhile() {
        // A queue of 100 in front of a device that forwards 12 of 30 kpps: 100 / (1 - 0.4).
        let found = BackToBack::of(&[166, 167, 168], 60_000, 30e3, Some(12e3), false).unwrap();
        assert_eq!((found.mean, found.deviation, found.least, found.most), (167.0, 1.0, 166, 168));
        assert!((found.corrected.unwrap() * 30e3 - 100.2).abs() < 1e-6, "{found:?}");
        assert!(!found.is_unlimited());
        let found = BackToBack::of(&[60_000], 60_000, 30e3, Some(30e3), false).unwrap();
        assert_eq!((found.is_unlimited(), found.corrected), (true, Some(0.0)));
        assert_eq!(BackToBack::of(&[], 1, 1.0, None, false), None);
    }
}
