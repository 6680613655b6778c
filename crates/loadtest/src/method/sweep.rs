//! Frames of many sizes, in both directions at the line's rate. They show where packets limit a device, where bytes do,
//! and at which sizes frames cost it more than longer ones.

use super::Watch;
use super::trial::Trial;
use crate::arithmetic::{FrameSize, scaled, significant};
use crate::others::Others;
use crate::profile::Profile;
use crate::rate::Rate;
use crate::run::{Bench, Plan};
use crate::tester::TestError;
use crate::verdict::{Bound, Verdict};
use serde::{Deserialize, Serialize};
use std::fmt;

/// Sizes of frames with frame check sequence: those around the edges of cache lines, and those of the test that found
/// the dips.
pub const SIZES: [u32; 20] =
    [64, 65, 124, 128, 129, 132, 133, 192, 193, 196, 197, 256, 257, 260, 320, 384, 512, 768, 1024, 1518];
/// A longer frame that is carried this much faster may be no accident.
const DIP: f64 = 1.1;
/// How often both are sent again, in turns: a dip that is not there each time does not count.
const TURNS: usize = 3;

/// The results of a sweep.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    pub device: String,
    pub line_bps: f64,
    pub steps: Vec<Step>,
    pub verdict: Verdict,
    /// Dips that did not repeat when their sizes were sent in turns.
    #[serde(default)]
    pub unrepeated: Vec<String>,
    /// Why it ended too early, if it did.
    #[serde(default)]
    pub failure: Option<String>,
    /// A text when the operator ended it before it was done: it says so, and after how long.
    #[serde(default)]
    pub interrupted: Option<String>,
}

/// The result for a size.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// With frame check sequence.
    pub frame: u32,
    /// Packets a second of this size that both lines carry.
    pub twice_wire_speed: f64,
    pub trial: Trial,
}

/// Runs a sweep. The plan's profile, rate and direction do not count. If it is interrupted or loses its device, the
/// result has the sizes that were run.
///
/// # Errors
/// When the device cannot be opened, or the line's speed is not known.
pub fn run(plan: &Plan, sizes: &[u32], watch: &mut Watch<'_>) -> Result<Sweep, TestError> {
    let mut bench = Bench::new(plan)?;
    let line =
        bench.tester.ports().first().and_then(|port| port.line).ok_or_else(|| {
            TestError::Other("a sweep is at the line's rate, which is not known: give '--speed'".into())
        })?;
    watch.begin();
    let mut steps = Vec::new();
    let mut send = |frame: u32, name: &str, done: f64, part: f64, watch: &mut Watch<'_>| {
        let size = FrameSize(frame - 4);
        let text = format!(
            "[[stream]]\nsize = {}\nlayers = [{{ ipv4 = {{}} }}, {{ udp = {{}} }}]\n\
             vary = [{{ field = \"ipv4.source\", from = \"16.0.0.1\", to = \"16.0.0.254\" }}]\n",
            size.buffer()
        );
        let profile = Profile::parse(&format!("{frame}b"), &text)?;
        let plan = Plan { profile, rate: Rate::Percent(100.0), is_bidirectional: true, ..plan.clone() };
        let Some(report) = watch.part(&mut bench, &plan, name, done, part)? else { return Ok(None) };
        let twice_wire_speed = 2.0 * line / (8.0 * f64::from(size.wire()));
        Ok::<_, TestError>(Some(Step { frame, twice_wire_speed, trial: Trial::of(&report, true) }))
    };
    for (number, &frame) in sizes.iter().enumerate() {
        let part = 1.0 / sizes.len() as f64;
        let name = format!("{}: frames of {frame}", plan.device);
        let Some(step) = send(frame, &name, number as f64 * part, part, watch)? else { break };
        steps.push(step);
        if watch.stops(number + 1 < sizes.len()) {
            break;
        }
    }
    let mut rounds = vec![steps.iter().map(Carried::of).collect::<Vec<_>>()];
    let mut again: Vec<u32> = dips(&rounds[0]).into_iter().flat_map(|(slow, fast)| [slow.frame, fast.frame]).collect();
    again.sort_unstable();
    again.dedup();
    for turn in (0..TURNS).filter(|_| !again.is_empty()) {
        let mut round = Vec::new();
        for &frame in &again {
            if watch.failure.is_some() || watch.stops(true) {
                break;
            }
            let name = format!("{}: frames of {frame} again, {} of {TURNS}", plan.device, turn + 1);
            let Some(step) = send(frame, &name, 1.0, 0.0, watch)? else { break };
            round.push(Carried::of(&step));
        }
        rounds.push(round);
    }
    let (verdict, unrepeated) = judge(&rounds);
    let (interrupted, failure) = (watch.interruption(), watch.failure.take());
    Ok(Sweep { device: plan.device.to_string(), line_bps: line, steps, verdict, unrepeated, failure, interrupted })
}

/// How fast a size was carried.
#[derive(Debug, Clone, Copy)]
pub struct Carried {
    pub frame: u32,
    pub pps: f64,
    /// The load tester could not send or receive more: the device may carry more.
    pub is_own: bool,
}

impl Carried {
    fn of(step: &Step) -> Carried {
        let bound = step.trial.verdict.bound;
        let is_own = matches!(bound, Bound::Generator | Bound::NoResult) || step.trial.is_interrupted;
        Carried { frame: step.frame, pps: step.trial.received_pps, is_own }
    }

    /// Whether it was carried so much slower than a longer frame that this may be no accident.
    fn dips_below(&self, longer: &Carried) -> bool {
        !self.is_own && longer.pps > self.pps * DIP
    }
}

/// Sizes that are carried slower than a longer one, each with the fastest of the longer ones.
fn dips(rates: &[Carried]) -> Vec<(Carried, Carried)> {
    let of = |(at, slow): (usize, &Carried)| {
        let longer = rates[at + 1..].iter().filter(|longer| slow.dips_below(longer));
        longer.max_by(|a, b| a.pps.total_cmp(&b.pps)).map(|longer| (*slow, *longer))
    };
    rates.iter().enumerate().filter_map(of).collect()
}

/// Judges dips. A longer frame costs no less than a shorter one, whether packets or bytes are the limit. Where it is
/// carried faster all the same, each time that both are sent in turns, the shorter one ends where that is expensive: in
/// the middle of a cache line.
///
/// `rounds`: first all sizes; then, again and again, those that dip and those that they dip below. Dips that were not
/// there each time are returned separately.
pub fn judge(rounds: &[Vec<Carried>]) -> (Verdict, Vec<String>) {
    let (first, turns) = rounds.split_first().map_or((&[][..], rounds), |(first, turns)| (&first[..], turns));
    let (mut evidence, mut unrepeated) = (Vec::new(), Vec::new());
    for (slow, longer) in dips(first) {
        let of = |round: &[Carried], frame: u32| round.iter().find(|carried| carried.frame == frame).copied();
        let repeats = |round: &Vec<Carried>| {
            let pair = of(round, slow.frame).zip(of(round, longer.frame));
            pair.is_some_and(|(slow, longer)| slow.dips_below(&longer))
        };
        let said = format!(
            "frames of {} bytes: {}pps, less than the {}pps of {} bytes",
            slow.frame,
            scaled(slow.pps),
            scaled(longer.pps),
            longer.frame
        );
        match turns.len() >= TURNS && turns.iter().all(repeats) {
            true => evidence.push(said),
            false => unrepeated.push(said),
        }
    }
    let bound = if evidence.is_empty() { Bound::Nothing } else { Bound::CacheLine };
    (Verdict { bound, evidence }, unrepeated)
}

impl Sweep {
    /// What other programs used of the cores, at the size where that was the most.
    pub fn others(&self) -> Option<&Others> {
        Others::worst_of(self.steps.iter().map(|step| &step.trial.others))
    }
}

impl fmt::Display for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(others) = self.others() {
            writeln!(f, "{others}")?;
        }
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
        for dip in &self.unrepeated {
            writeln!(f, "Not seen again each of {TURNS} times, so it has no name: {dip}")?;
        }
        let disturbed = self.steps.iter().find_map(|step| step.trial.verdict.why_no_result());
        match (self.verdict.bound, disturbed) {
            (Bound::CacheLine, _) => writeln!(f, "Dips, {TURNS} times again: {}", self.verdict.line()),
            (_, Some(why)) => writeln!(f, "Dips: no result: {why}"),
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
        let turns = |first: Vec<Carried>| vec![first; 1 + TURNS];
        let all = turns(mpps(&[(64, 21.7), (65, 8.2), (124, 10.8), (128, 16.1), (129, 8.9)]));
        let (found, unrepeated) = judge(&all);
        assert!(unrepeated.is_empty());
        assert_eq!(found.bound, Bound::CacheLine);
        assert_eq!(
            found.evidence,
            [
                "frames of 65 bytes: 8.2 Mpps, less than the 16.1 Mpps of 128 bytes",
                "frames of 124 bytes: 10.8 Mpps, less than the 16.1 Mpps of 128 bytes"
            ]
        );
        // Packets are the limit first, then bytes.
        let (fine, _) = judge(&turns(mpps(&[(64, 20.0), (65, 19.8), (128, 19.9), (512, 4.6), (1518, 1.6)])));
        assert_eq!((fine.bound, fine.evidence.len()), (Bound::Nothing, 0));
        // Where the load tester was at its limit, the device carries at least as much; nothing more is known.
        let mut own = mpps(&[(64, 5.0), (65, 8.0), (128, 16.0)]);
        (own[0].is_own, own[2].is_own) = (true, true);
        let (found, _) = judge(&turns(own));
        assert_eq!(found.evidence, ["frames of 65 bytes: 8 Mpps, less than the 16 Mpps of 128 bytes"]);
    }

    #[test]
    fn a_dip_that_does_not_repeat_has_no_name() {
        let round = |short: f64, is_own: bool| {
            let carried = |frame, pps, is_own| Carried { frame, pps, is_own };
            vec![carried(65, short, is_own), carried(128, 16e6, false)]
        };
        let first = round(8e6, false);
        for turns in [
            // No turns; too few; once it was as fast; once the load tester was too slow; once it was not sent.
            vec![],
            vec![round(8e6, false); TURNS - 1],
            vec![round(8e6, false), round(15.9e6, false), round(8e6, false)],
            vec![round(8e6, false), round(8e6, false), round(8e6, true)],
            vec![round(8e6, false), vec![], round(8e6, false)],
        ] {
            let (verdict, unrepeated) = judge(&[vec![first.clone()], turns].concat());
            assert_eq!((verdict.bound, verdict.evidence.len(), unrepeated.len()), (Bound::Nothing, 0, 1));
        }
        assert_eq!(judge(&[]).1.len(), 0);
    }

    #[test]
    fn twice_wire_speed_is_that_of_the_document() {
        for (frame, mpps) in [(64, 29.76), (65, 29.41), (124, 17.36), (128, 16.89), (129, 16.78)] {
            let wire = f64::from(FrameSize(frame - 4).wire());
            assert!((2.0 * 10e9 / 8.0 / wire / 1e6 - mpps).abs() < 0.006, "{frame}");
        }
    }
}
