//! Frames of many sizes, in both directions at the line's rate: where a device is bound by packets, where by bytes, and where
//! frames end that cost it more than longer ones.

use super::Watch;
use super::trial::Trial;
use crate::arithmetic::{FrameSize, scaled, significant};
use crate::profile::Profile;
use crate::rate::Rate;
use crate::run::{Bench, Plan};
use crate::tester::TestError;
use crate::verdict::{Bound, Verdict};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Frames with their frame check sequence: around the edges of cache lines, and the sizes of the test that found them.
pub const SIZES: [u32; 20] =
    [64, 65, 124, 128, 129, 132, 133, 192, 193, 196, 197, 256, 257, 260, 320, 384, 512, 768, 1024, 1518];
/// A longer frame that goes so much faster is no accident.
const DIP: f64 = 1.1;

/// What came of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    pub device: String,
    pub line_bps: f64,
    pub steps: Vec<Step>,
    pub verdict: Verdict,
    /// Why it ended too early, if it did.
    #[serde(default)]
    pub failure: Option<String>,
    /// That somebody ended it before it was done, and after how long.
    #[serde(default)]
    pub interrupted: Option<String>,
}

/// A size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// With frame check sequence.
    pub frame: u32,
    /// What both lines carry of it.
    pub twice_wire_speed: f64,
    pub trial: Trial,
}

/// Runs it. The plan's profile, rate and direction do not count. Interrupted, or without its device, it has
/// what was run.
///
/// # Errors
/// When the device cannot be opened, or the line's speed is not known.
pub fn run(plan: &Plan, sizes: &[u32], watch: &mut Watch<'_>) -> Result<Sweep, TestError> {
    let mut bench = Bench::new(plan)?;
    let line =
        bench.tester.ports().first().and_then(|port| port.line).ok_or_else(|| {
            TestError::Other("a sweep is at the line's rate, which is not known: give `--speed'".into())
        })?;
    watch.begin();
    let mut steps = Vec::new();
    for (number, &frame) in sizes.iter().enumerate() {
        let size = FrameSize(frame - 4);
        let text = format!(
            "[[stream]]\nsize = {}\nlayers = [{{ ipv4 = {{}} }}, {{ udp = {{}} }}]\n\
             vary = [{{ field = \"ipv4.source\", from = \"16.0.0.1\", to = \"16.0.0.254\" }}]\n",
            size.buffer()
        );
        let profile = Profile::parse(&format!("{frame}b"), &text)?;
        let plan = Plan { profile, rate: Rate::Percent(100.0), is_bidirectional: true, ..plan.clone() };
        let part = 1.0 / sizes.len() as f64;
        let name = format!("{}: frames of {frame}", plan.device);
        let Some(report) = watch.part(&mut bench, &plan, &name, number as f64 * part, part)? else { break };
        let twice_wire_speed = 2.0 * line / (8.0 * f64::from(size.wire()));
        steps.push(Step { frame, twice_wire_speed, trial: Trial::of(&report, true) });
        if watch.stops(number + 1 < sizes.len()) {
            break;
        }
    }
    let rate = |step: &Step| Carried {
        frame: step.frame,
        pps: step.trial.received_pps,
        is_own: step.trial.verdict.bound == Bound::Generator || step.trial.is_interrupted,
    };
    let verdict = judge(&steps.iter().map(rate).collect::<Vec<_>>());
    let (interrupted, failure) = (watch.interruption(), watch.failure.take());
    Ok(Sweep { device: plan.device.to_string(), line_bps: line, steps, verdict, failure, interrupted })
}

/// What came of a size.
#[derive(Debug, Clone, Copy)]
pub struct Carried {
    pub frame: u32,
    pub pps: f64,
    /// The load tester could not make or take more: the device may carry more.
    pub is_own: bool,
}

/// Longer frames cost no less than shorter ones, whether packets are the limit or bytes. Where one is carried faster all the
/// same, the shorter one ends where it is dear: in the middle of a cache line.
pub fn judge(rates: &[Carried]) -> Verdict {
    let mut evidence = Vec::new();
    for (at, slow) in rates.iter().enumerate().filter(|(_, slow)| !slow.is_own) {
        let longer = rates[at + 1..].iter().filter(|longer| longer.pps > slow.pps * DIP);
        if let Some(longer) = longer.max_by(|a, b| a.pps.total_cmp(&b.pps)) {
            evidence.push(format!(
                "frames of {} bytes: {}pps, less than the {}pps of {} bytes",
                slow.frame,
                scaled(slow.pps),
                scaled(longer.pps),
                longer.frame
            ));
        }
    }
    let bound = if evidence.is_empty() { Bound::Nothing } else { Bound::CacheLine };
    Verdict { bound, evidence }
}

impl fmt::Display for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}, both directions on lines of {}bit/s", self.device, scaled(self.line_bps))?;
        if let Some(mode) = self.steps.first().and_then(|step| step.trial.device_mode.as_ref()) {
            writeln!(f, "{mode}")?;
        }
        writeln!(f, "{:>8}{:>14}{:>16}{:>14}{:>10}  verdict", "frame", "received", "2x wire speed", "% of it", "lost")?;
        for step in &self.steps {
            let trial = &step.trial;
            writeln!(
                f,
                "{:>8}{:>14}{:>16}{:>13.1}%{:>10}  {}",
                step.frame,
                format!("{}pps", scaled(trial.received_pps)),
                format!("{}pps", scaled(step.twice_wire_speed)),
                100.0 * trial.received_pps / step.twice_wire_speed,
                format!("{} %", significant(100.0 * trial.lost_share)),
                trial.verdict_words(),
            )?;
        }
        if let Some(interrupted) = &self.interrupted {
            writeln!(f, "It was {interrupted}.")?;
        }
        match self.verdict.bound {
            Bound::CacheLine => writeln!(f, "Dips: {}", self.verdict.line()),
            _ => writeln!(
                f,
                "No dips: of the sizes at which the device was at its limit, none is carried slower than a longer one."
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_cache_lines_are_seen_in_the_figures_that_they_were_found_with() {
        let mpps = |all: &[(u32, f64)]| {
            let carried = |&(frame, mpps): &(u32, f64)| Carried { frame, pps: mpps * 1e6, is_own: false };
            all.iter().map(carried).collect::<Vec<_>>()
        };
        let found = judge(&mpps(&[(64, 21.7), (65, 8.2), (124, 10.8), (128, 16.1), (129, 8.9)]));
        assert_eq!(found.bound, Bound::CacheLine);
        assert_eq!(
            found.evidence,
            [
                "frames of 65 bytes: 8.2 Mpps, less than the 16.1 Mpps of 128 bytes",
                "frames of 124 bytes: 10.8 Mpps, less than the 16.1 Mpps of 128 bytes"
            ]
        );
        // Bound by packets first, by bytes then.
        let fine = judge(&mpps(&[(64, 20.0), (65, 19.8), (128, 19.9), (512, 4.6), (1518, 1.6)]));
        assert_eq!((fine.bound, fine.evidence.len()), (Bound::Nothing, 0));
        // Of a size at which the load tester was at its limit nothing is known but that the device carries as much.
        let mut own = mpps(&[(64, 5.0), (65, 8.0), (128, 16.0)]);
        (own[0].is_own, own[2].is_own) = (true, true);
        assert_eq!(judge(&own).evidence, ["frames of 65 bytes: 8 Mpps, less than the 16 Mpps of 128 bytes"]);
    }

    #[test]
    fn twice_wire_speed_is_that_of_the_document() {
        for (frame, mpps) in [(64, 29.76), (65, 29.41), (124, 17.36), (128, 16.89), (129, 16.78)] {
            let wire = f64::from(FrameSize(frame - 4).wire());
            assert!((2.0 * 10e9 / 8.0 / wire / 1e6 - mpps).abs() < 0.006, "{frame}");
        }
    }
}
