//! How much a device forwards: throughput without loss and with a little ([`mlr`]), what comes through at most (MRR), loss by
//! load (RFC 2544, section 26.3), and delay at shares of the throughput.

pub mod mlr;

use super::Watch;
use crate::arithmetic::{scaled, significant};
use crate::program::{Program, mix_of};
use crate::rate::Rate;
use crate::report::{Percentiles, Report};
use crate::run::{Bench, Plan};
use crate::tester::TestError;
use mlr::{Found, Goal, Measured};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The least load that is looked at, as a share of the most, and by the packets that a trial has: of a few, one that is lost
/// would be much.
const LEAST: f64 = 1e-4;
const LEAST_PACKETS: f64 = 1000.0;
/// A trial whose rate was not kept is tried again.
const TRIES: usize = 3;
/// Trials of the maximum receive rate, of a second each.
const MRR_TRIALS: usize = 10;
/// Delay is looked at at these shares of the throughput without loss, in percent; 0 is the least load.
const SHARES: [u32; 5] = [0, 10, 50, 90, 100];

/// What is to be found beside the goals.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub goals: Vec<Goal>,
    pub mrr: bool,
    pub latency: bool,
    pub curve: bool,
}

/// What came of it. Loads are of one port; all ports of a direction send as much.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Search {
    pub device: String,
    pub profile: String,
    pub bidirectional: bool,
    pub line_bps: f64,
    /// What the line carries of this profile.
    pub most_pps: f64,
    pub mrr: Option<Mrr>,
    pub found: Vec<Found>,
    pub trials: Vec<Measured>,
    pub latency: Vec<LatencyAt>,
    pub curve: Vec<Measured>,
    /// The least load that the load tester itself did not keep: what is found above says nothing of the device.
    pub own_limit: Option<f64>,
}

/// The maximum receive rate: what comes of as much as the line carries.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Mrr {
    pub trials: usize,
    /// Packets a second, all ports together: mean and standard deviation.
    pub mean: f64,
    pub deviation: f64,
}

/// Delay at a load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencyAt {
    /// Of the throughput without loss.
    pub percent: u32,
    pub load: f64,
    pub latency: Option<Percentiles>,
    pub pdv: Option<Percentiles>,
    pub ipdv: Option<Percentiles>,
}

/// Runs trials, and knows what the load tester could not do.
struct Trials<'a, 'b> {
    bench: &'a mut Bench,
    plan: &'a Plan,
    watch: &'a mut Watch<'b>,
    own_limit: Option<f64>,
    count: usize,
}

impl Trials<'_, '_> {
    /// One at a load, which the load tester kept, if it can. None: it was interrupted.
    fn run(&mut self, load: f64, length: Duration) -> Result<Option<(Measured, Report)>, TestError> {
        for attempt in 1.. {
            self.count += 1;
            let plan = Plan { rate: Rate::Packets(load), duration: length, ..self.plan.clone() };
            let name = format!("trial {} at {}pps", self.count, scaled(load));
            let report = self.watch.part(self.bench, &plan, &name, 0.0, 1.0)?;
            if self.watch.is_interrupted() {
                break;
            }
            if !report.kept_rate && attempt < TRIES {
                continue;
            }
            let count = |of: fn(&crate::report::Counts) -> u64| {
                report.ports.iter().map(|port| of(&port.counts)).sum::<u64>() as f64
            };
            let mut loss_ratio = count(|counts| counts.lost_packets) / count(|counts| counts.sent_packets).max(1.0);
            if !report.kept_rate {
                // What was not sent cannot be said to come through.
                self.own_limit = Some(self.own_limit.map_or(load, |limit| limit.min(load)));
                let due = load * report.seconds * report.ports.len() as f64;
                loss_ratio = loss_ratio.max(1.0 - count(|counts| counts.received_packets) / due.max(1.0));
            }
            let measured = Measured { load, seconds: length.as_secs_f64(), loss_ratio };
            return Ok(Some((measured, report)));
        }
        Ok(None)
    }
}

/// Runs it. The plan's rate and duration do not count. Interrupted, it has what was found.
///
/// # Errors
/// When the device cannot be opened, the line's speed is not known, or the profile has ends of its own.
pub fn run(plan: &Plan, wanted: &Wanted, watch: &mut Watch<'_>) -> Result<Search, TestError> {
    let mut bench = Bench::new(plan)?;
    let line = bench.tester.ports().first().and_then(|port| port.line).ok_or_else(|| {
        TestError::Other("a search is up to the line's rate, which is not known: give `--speed'".into())
    })?;
    let ends = crate::frame::Ends { source: Default::default(), destination: Default::default() };
    let programs = Program::of_port(&plan.profile, 0, ends)?;
    let mix = mix_of(&programs, Some(line));
    let most = line / (8.0 * (mix.buffer + 24.0));
    let shortest = wanted.goals.iter().map(|goal| goal.initial_trial.min(goal.final_trial)).fold(1.0, f64::min);
    let least = (most * LEAST).max(LEAST_PACKETS / shortest).min(most);
    let mut trials = Trials { bench: &mut bench, plan, watch, own_limit: None, count: 0 };
    let mut search = Search {
        device: plan.device.to_string(),
        profile: plan.profile.name.clone(),
        bidirectional: plan.is_bidirectional,
        line_bps: line,
        most_pps: most,
        mrr: None,
        found: Vec::new(),
        trials: Vec::new(),
        latency: Vec::new(),
        curve: Vec::new(),
        own_limit: None,
    };
    let second = Duration::from_secs(1);
    if wanted.mrr {
        let mut rates = Vec::new();
        while rates.len() < MRR_TRIALS {
            let plan = Plan { rate: Rate::Packets(most), duration: second, ..plan.clone() };
            let done = rates.len() as f64 / MRR_TRIALS as f64;
            let report =
                trials.watch.part(trials.bench, &plan, "maximum receive rate", done, 1.0 / MRR_TRIALS as f64)?;
            if trials.watch.is_interrupted() {
                break;
            }
            rates.push(report.ports.iter().map(|port| port.received_pps).sum::<f64>());
        }
        search.mrr = Mrr::of(&rates);
    }
    let mut measure = |load, length| trials.run(load, length).map(|trial| trial.map(|(measured, _)| measured));
    (search.found, search.trials) = mlr::search(&wanted.goals, least, most, &mut measure)?;
    let base = search.found.iter().find(|found| found.goal.loss_ratio == 0.0).or(search.found.first());
    if wanted.latency
        && let Some(throughput) = base.and_then(|found| found.lower)
    {
        for percent in SHARES {
            let load = (throughput * f64::from(percent) / 100.0).max(least);
            let Some((_, report)) = trials.run(load, second)? else { break };
            let trial = super::trial::Trial::of(&report, plan.is_bidirectional);
            let (latency, pdv, ipdv) = (trial.latency, trial.pdv, trial.ipdv);
            search.latency.push(LatencyAt { percent, load, latency, pdv, ipdv });
        }
    }
    if wanted.curve {
        // From the line's rate down by tenths, until twice nothing is lost.
        for tenth in (1..=10).rev() {
            let Some((measured, _)) = trials.run(most * f64::from(tenth) / 10.0, second)? else { break };
            search.curve.push(measured);
            if search.curve.iter().rev().take(2).filter(|trial| trial.loss_ratio == 0.0).count() == 2 {
                break;
            }
        }
    }
    search.own_limit = trials.own_limit;
    Ok(search)
}

impl Mrr {
    fn of(rates: &[f64]) -> Option<Mrr> {
        let count = rates.len() as f64;
        let mean = rates.iter().sum::<f64>() / count;
        let variance = rates.iter().map(|rate| (rate - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
        (!rates.is_empty()).then(|| Mrr { trials: rates.len(), mean, deviation: variance.sqrt() })
    }
}

impl Search {
    fn ports(&self) -> f64 {
        if self.bidirectional { 2.0 } else { 1.0 }
    }

    /// Whether what was found is the load tester's own limit.
    pub fn is_own(&self, found: &Found) -> bool {
        let upper = found.upper.unwrap_or(self.most_pps);
        self.own_limit.is_some_and(|limit| limit <= upper)
    }
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = if self.bidirectional { "both directions, figures of both together" } else { "one direction" };
        writeln!(
            f,
            "{}, {}, {way}; the line carries {}pps",
            self.device,
            self.profile,
            scaled(self.most_pps * self.ports())
        )?;
        if let Some(mrr) = &self.mrr {
            writeln!(
                f,
                "MRR       {}pps, standard deviation {}pps, of {} trials of 1 s",
                scaled(mrr.mean),
                scaled(mrr.deviation),
                mrr.trials
            )?;
        }
        for found in &self.found {
            let goal = &found.goal;
            let pps =
                |load: Option<f64>| load.map_or("none".into(), |load| format!("{}pps", scaled(load * self.ports())));
            writeln!(
                f,
                "{:<9} {} at a loss of {} % at most; conditional throughput {}; upper bound {}; {} trials, {:.0} s",
                goal.name,
                pps(found.lower),
                significant(100.0 * goal.loss_ratio),
                pps(found.conditional_throughput),
                pps(found.upper),
                found.trials,
                found.seconds,
            )?;
            if self.is_own(found) {
                writeln!(f, "          The load tester did not keep this rate itself: the device may carry more.")?;
            }
        }
        if !self.latency.is_empty() {
            writeln!(
                f,
                "{:<10}{:>14}{:>10}{:>10}{:>10}{:>10}{:>10}",
                "Delay, us", "load", "min", "p50", "p99", "p99.9", "max"
            )?;
        }
        for at in &self.latency {
            write!(f, "{:<10}{:>14}", format!("{} %", at.percent), format!("{}pps", scaled(at.load * self.ports())))?;
            for figure in at.latency.iter().flat_map(|all| [all.min, all.p50, all.p99, all.p99_9, all.max]) {
                write!(f, "{:>10}", significant(figure))?;
            }
            writeln!(f)?;
        }
        for trial in &self.curve {
            writeln!(
                f,
                "Loss at {:>5.1} % of the line ({:>12}): {} %",
                100.0 * trial.load / self.most_pps,
                format!("{}pps", scaled(trial.load * self.ports())),
                significant(100.0 * trial.loss_ratio)
            )?;
        }
        Ok(())
    }
}
