//! How much a device forwards: throughput without loss and with a little ([`mlr`]), the maximum receive rate (MRR),
//! loss by load (RFC 2544, section 26.3), delay at shares of the throughput, how long a burst it can buffer
//! ([`burst`]), and how it recovers from overload ([`recovery`]).

pub mod burst;
pub mod mlr;
pub mod recovery;

use super::Watch;
use crate::arithmetic::{scaled, significant};
use crate::others::Others;
use crate::program::{Program, mix_of};
use crate::rate::Rate;
use crate::report::{Percentiles, Report};
use crate::run::{Bench, Plan};
use crate::tester::TestError;
use burst::BackToBack;
use mlr::{Found, Goal, Measured};
use recovery::{Fall, Recovery};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The least load that is tried, as a share of the highest, and by the number of packets of a trial: among few packets,
/// a single lost one would weigh too much.
const LEAST: f64 = 1e-4;
const LEAST_PACKETS: f64 = 1000.0;
/// Tries for a trial whose rate was not kept.
const TRIES: usize = 3;
/// Trials of the maximum receive rate, one second each.
const MRR_TRIALS: usize = 10;
/// Delay is measured at these shares of the throughput without loss, in percent; 0 is the least load.
const SHARES: [u32; 5] = [0, 10, 50, 90, 100];

/// What to measure besides the goals.
#[derive(Debug, Clone)]
pub struct Wanted {
    pub goals: Vec<Goal>,
    pub mrr: bool,
    pub latency: bool,
    pub curve: bool,
    /// Share of the due packets that the load tester may leave unsent: the moments in which it was preempted. Further
    /// unsent packets count as lost; in RFC 9971 all unsent packets do.
    pub unsent: f64,
    /// How often to search for the longest burst; none: not at all.
    pub bursts: usize,
    /// How long the overload is from which the device has to recover.
    pub recovery: Option<Duration>,
}

/// The result. Loads are those of one port; all ports of a direction send as much.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Search {
    pub device: String,
    /// How the device is run, as far as that is known.
    #[serde(default)]
    pub device_mode: Option<String>,
    pub profile: String,
    pub bidirectional: bool,
    /// What other programs used of the cores, in the trial in which that was the most.
    #[serde(default)]
    pub others: Others,
    /// Why the search was given up: other programs used the machine.
    #[serde(default)]
    pub no_result: Option<String>,
    pub line_bps: f64,
    /// What the line carries with this profile.
    pub most_pps: f64,
    pub mrr: Option<Mrr>,
    pub found: Vec<Found>,
    pub trials: Vec<Measured>,
    pub latency: Vec<LatencyAt>,
    pub curve: Vec<Measured>,
    /// The least load that the load tester itself did not keep: bounds above it say nothing about the device.
    pub own_limit: Option<f64>,
    #[serde(default)]
    pub back_to_back: Option<BackToBack>,
    #[serde(default)]
    pub recovery: Option<Recovery>,
    /// Why it ended too early, if it did.
    #[serde(default)]
    pub failure: Option<String>,
    /// Set if it was interrupted before it was done: after how long.
    #[serde(default)]
    pub interrupted: Option<String>,
}

/// The maximum receive rate: what is received when the line is full.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Mrr {
    pub trials: usize,
    /// Packets a second, all ports together: mean and standard deviation.
    pub mean: f64,
    pub deviation: f64,
}

/// Delay at one load.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencyAt {
    /// Percent of the throughput without loss.
    pub percent: u32,
    pub load: f64,
    pub latency: Option<Percentiles>,
    pub pdv: Option<Percentiles>,
    pub ipdv: Option<Percentiles>,
}

/// Runs trials, and keeps what the load tester itself could not do.
struct Trials<'a, 'b> {
    bench: &'a mut Bench,
    plan: &'a Plan,
    watch: &'a mut Watch<'b>,
    unsent: f64,
    own_limit: Option<f64>,
    count: usize,
    others: Option<Others>,
    no_result: Option<String>,
}

/// Share of the due packets that were not sent.
fn not_sent(report: &Report) -> f64 {
    report.ports.iter().map(|port| port.counts.not_sent_share()).fold(0.0, f64::max)
}

impl Trials<'_, '_> {
    /// Whether it was interrupted, or the device went away.
    fn has_ended(&mut self) -> bool {
        // True: more trials would follow.
        self.watch.stops(true) || self.watch.failure.is_some() || self.no_result.is_some()
    }

    /// One run, which is `part` of the whole task. None: it has ended.
    fn part(&mut self, plan: &Plan, name: &str, done: f64, part: f64) -> Result<Option<Report>, TestError> {
        let report = self.watch.part(self.bench, plan, name, done, part)?;
        if let Some(report) = &report {
            self.others = Others::worst_of(self.others.iter().chain([&report.others])).cloned();
        }
        Ok(report.filter(|_| !self.watch.is_interrupted()))
    }

    /// A trial at a load, repeated if the load tester did not keep the load. None: it has ended.
    fn run(&mut self, load: f64, length: Duration) -> Result<Option<(Measured, Report)>, TestError> {
        for attempt in 1.. {
            self.count += 1;
            let plan = Plan { rate: Rate::Packets(load), duration: length, ..self.plan.clone() };
            let name = format!("trial {} at {}pps", self.count, scaled(load));
            let Some(report) = self.part(&plan, &name, 0.0, 1.0)? else { break };
            let is_kept = not_sent(&report) <= self.unsent;
            let has_lost = report.ports.iter().any(|port| port.counts.lost_packets > 0);
            // If other programs used the machine, loss may be their fault; but a run without loss is valid all the
            // same.
            let disturbed = report.others.excess().filter(|_| has_lost || !is_kept);
            if (!is_kept || disturbed.is_some()) && attempt < TRIES {
                continue;
            }
            if disturbed.is_some() {
                self.no_result = disturbed;
                break;
            }
            let count = |of: fn(&crate::report::Counts) -> u64| {
                report.ports.iter().map(|port| of(&port.counts)).sum::<u64>() as f64
            };
            let mut loss_ratio = count(|counts| counts.lost_packets) / count(|counts| counts.sent_packets).max(1.0);
            if !is_kept {
                // What was not sent cannot count as forwarded.
                self.own_limit = Some(self.own_limit.map_or(load, |limit| limit.min(load)));
                let due = load * report.seconds * report.ports.len() as f64;
                loss_ratio = loss_ratio.max(1.0 - count(|counts| counts.received_packets) / due.max(1.0));
            }
            let measured = Measured { load, seconds: length.as_secs_f64(), loss_ratio, is_own: !is_kept };
            return Ok(Some((measured, report)));
        }
        Ok(None)
    }

    /// Whether a burst of this many packets of each port, at the line's rate, is forwarded without loss; and whether
    /// the load tester sent it without gaps.
    fn burst(&mut self, most: f64, packets: u64, name: &str, done: f64) -> Result<Option<(bool, bool)>, TestError> {
        // Longer than needed: the run ends when all is sent.
        let duration = burst::LONGEST + Duration::from_secs(1);
        let plan = Plan { rate: Rate::Packets(most), packets: Some(packets), duration, ..self.plan.clone() };
        for attempt in 1.. {
            let Some(report) = self.part(&plan, name, done, 0.0)? else { break };
            let is_kept = not_sent(&report) <= self.unsent;
            let is_whole = report.ports.iter().all(|port| port.counts.lost_packets == 0);
            let disturbed = report.others.excess().filter(|_| !is_whole || !is_kept);
            if disturbed.is_some() && attempt == TRIES {
                self.no_result = disturbed;
                break;
            }
            if disturbed.is_none() && (is_kept || attempt == TRIES) {
                // What was not sent cannot count as forwarded.
                return Ok(Some((is_whole && is_kept, is_kept)));
            }
        }
        Ok(None)
    }

    /// Searches for the longest burst this many times.
    fn bursts(&mut self, most: f64, times: usize, throughput: Option<f64>) -> Result<Option<BackToBack>, TestError> {
        let limit = ((most * burst::LONGEST.as_secs_f64()) as u64).max(1);
        let (mut found, mut is_own) = (Vec::new(), false);
        while found.len() < times {
            let done = found.len() as f64 / times as f64;
            let mut whole = |packets| {
                let name = format!("burst of {packets}, {} of {times}", found.len() + 1);
                let sent = self.burst(most, packets, &name, done)?;
                is_own |= sent.is_some_and(|(_, is_kept)| !is_kept);
                Ok::<_, TestError>(sent.map(|(is_whole, _)| is_whole))
            };
            let Some(longest) = burst::longest(limit, found.last().copied(), &mut whole)? else { break };
            found.push(longest);
            // The longest burst that can be sent: repeating the search would find no more.
            if found == [limit] {
                break;
            }
        }
        Ok(BackToBack::of(&found, limit, most, throughput, is_own))
    }

    /// How long a device loses packets after an overload.
    fn recovery(&mut self, most: f64, throughput: f64, length: Duration) -> Result<Recovery, TestError> {
        let overload = (throughput * recovery::OVER).min(most);
        let reduced = overload * recovery::FALL;
        let seconds = length.as_secs_f64();
        let mut found = Recovery { overload, seconds, reduced, times: Vec::new(), lost: 0 };
        let plan = Plan { rate: Rate::Packets(overload), duration: length + recovery::AFTER, ..self.plan.clone() };
        while found.times.len() < recovery::TIMES {
            let part = 1.0 / recovery::TIMES as f64;
            let done = found.times.len() as f64 * part;
            let mut part =
                super::Part { name: "recovery", done, part, seconds: plan.duration.as_secs_f64(), watch: self.watch };
            let mut fall = Fall { at: seconds, to: Rate::Packets(reduced), part: &mut part };
            let report = self.bench.run(&plan, &mut fall)?;
            self.watch.note(&report);
            self.watch.failure = report.failure().map(String::from);
            self.no_result = report.others.excess();
            if self.has_ended() {
                break;
            }
            found.note(&report);
        }
        Ok(found)
    }
}

/// Runs it. The plan's rate and duration are ignored. If interrupted, or if the device goes away, it has the results so
/// far.
///
/// # Errors
/// When the device cannot be opened, the line's speed is unknown, or the profile ends by itself.
pub fn run(plan: &Plan, wanted: &Wanted, watch: &mut Watch<'_>) -> Result<Search, TestError> {
    let mut bench = Bench::new(plan)?;
    let line = bench.tester.ports().first().and_then(|port| port.line).ok_or_else(|| {
        TestError::Other("a search is up to the line's rate, which is not known: give '--speed'".into())
    })?;
    if wanted.recovery.is_some() && bench.cores.len() > 1 {
        return Err(TestError::Other(
            "when packets were lost is known only where one worker receives all of them: give one of '--cores'".into(),
        ));
    }
    let ends = crate::frame::Ends::default();
    let programs = Program::of_port(&plan.profile, 0, ends)?;
    if let Some(program) = programs.iter().find(|program| !program.is_endless()) {
        return Err(TestError::Other(format!(
            "stream '{}' ends by itself: trials of a search have lengths of their own",
            program.name
        )));
    }
    let mix = mix_of(&programs, Some(line));
    let most = line / (8.0 * (mix.buffer + 24.0));
    let shortest = wanted.goals.iter().map(|goal| goal.initial_trial.min(goal.final_trial)).fold(1.0, f64::min);
    let least = (most * LEAST).max(LEAST_PACKETS / shortest).min(most);
    let device_mode = bench.device_mode();
    watch.begin();
    let mut trials = Trials {
        bench: &mut bench,
        plan,
        watch,
        unsent: wanted.unsent,
        own_limit: None,
        count: 0,
        others: None,
        no_result: None,
    };
    let mut search = Search {
        device: plan.device.to_string(),
        device_mode,
        profile: plan.profile.name.clone(),
        bidirectional: plan.is_bidirectional,
        others: Others::default(),
        no_result: None,
        line_bps: line,
        most_pps: most,
        mrr: None,
        found: Vec::new(),
        trials: Vec::new(),
        latency: Vec::new(),
        curve: Vec::new(),
        own_limit: None,
        back_to_back: None,
        recovery: None,
        failure: None,
        interrupted: None,
    };
    let second = Duration::from_secs(1);
    if wanted.mrr {
        let mut rates = Vec::new();
        while rates.len() < MRR_TRIALS {
            let plan = Plan { rate: Rate::Packets(most), duration: second, ..plan.clone() };
            let part = 1.0 / MRR_TRIALS as f64;
            let name = "maximum receive rate";
            let Some(report) = trials.part(&plan, name, rates.len() as f64 * part, part)? else { break };
            trials.no_result = report.others.excess();
            if trials.no_result.is_some() {
                rates.clear();
                break;
            }
            rates.push(report.ports.iter().map(|port| port.received_pps).sum::<f64>());
        }
        search.mrr = Mrr::of(&rates);
    }
    if !trials.has_ended() {
        let mut measure = |load, length| trials.run(load, length).map(|trial| trial.map(|(measured, _)| measured));
        (search.found, search.trials) = mlr::search(&wanted.goals, least, most, &mut measure)?;
    }
    let base = search.found.iter().find(|found| found.goal.loss_ratio == 0.0).or(search.found.first());
    let throughput = base.and_then(|found| found.lower);
    for percent in SHARES.into_iter().filter(|_| wanted.latency) {
        let Some(throughput) = throughput.filter(|_| !trials.has_ended()) else { break };
        let load = (throughput * f64::from(percent) / 100.0).max(least);
        let Some((_, report)) = trials.run(load, second)? else { break };
        let trial = super::trial::Trial::of(&report, plan.is_bidirectional);
        let (latency, pdv, ipdv) = (trial.latency, trial.pdv, trial.ipdv);
        search.latency.push(LatencyAt { percent, load, latency, pdv, ipdv });
    }
    // From the line's rate down in steps of a tenth, until there is no loss twice.
    for tenth in (1..=10).rev().filter(|_| wanted.curve) {
        if trials.has_ended() {
            break;
        }
        let Some((measured, _)) = trials.run(most * f64::from(tenth) / 10.0, second)? else { break };
        search.curve.push(measured);
        if search.curve.iter().rev().take(2).filter(|trial| trial.loss_ratio == 0.0).count() == 2 {
            break;
        }
    }
    if wanted.bursts > 0 && !trials.has_ended() {
        search.back_to_back = trials.bursts(most, wanted.bursts, throughput)?;
    }
    if let (Some(length), Some(throughput)) = (wanted.recovery, throughput)
        && !trials.has_ended()
    {
        search.recovery = Some(trials.recovery(most, throughput, length)?).filter(|found| !found.times.is_empty());
    }
    search.own_limit = trials.own_limit;
    search.no_result = trials.no_result;
    search.others = trials.others.unwrap_or_default();
    let missing = wanted.goals.iter().skip(search.found.len()).filter(|_| search.no_result.is_some());
    search.found.extend(missing.map(Found::none));
    let ports = search.ports();
    for found in &mut search.found {
        // Above this the load tester sent too little, so it cannot judge the device there.
        let own = found.upper.filter(|upper| mlr::is_own_limit(&found.goal, &search.trials, *upper));
        if !found.is_whole {
            let ended = || "the search had not come to its end".to_string();
            found.withhold(search.no_result.clone().unwrap_or_else(ended));
        } else if let Some(upper) = own {
            let upper = scaled(upper * ports);
            found.withhold(format!(
                "the load tester itself did not keep {upper}pps: its machine or its ports were too slow"
            ));
        }
    }
    search.interrupted = watch.interruption();
    search.failure = watch.failure.take();
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
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.others)?;
        let way = if self.bidirectional { "both directions, figures of both together" } else { "one direction" };
        writeln!(
            f,
            "{}, {}, {way}; the line carries {}pps",
            self.device,
            self.profile,
            scaled(self.most_pps * self.ports())
        )?;
        if let Some(mode) = &self.device_mode {
            writeln!(f, "{mode}")?;
        }
        if let Some(interrupted) = &self.interrupted {
            writeln!(f, "It was {interrupted}.")?;
        }
        if let Some(why) = &self.no_result {
            writeln!(f, "The search was given up: {why}. '--others' says how much they may use.")?;
        }
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
            if let Some(why) = &found.no_result {
                let good = found.at_least.map_or(String::new(), |load| {
                    let loss = significant(100.0 * goal.loss_ratio);
                    format!("; {} came through with a loss of {loss} % at most", pps(Some(load)))
                });
                writeln!(f, "{:<9} no result: {why}{good}", goal.name)?;
                continue;
            }
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
        if let Some(bursts) = &self.back_to_back {
            writeln!(f, "Back-to-back, each port: {bursts}")?;
            if bursts.is_own {
                writeln!(f, "          The load tester did not send all of these without gaps itself.")?;
            }
        }
        if let Some(recovery) = &self.recovery {
            writeln!(
                f,
                "Recovery from {:.0} s of {}pps, at {}pps: {recovery}",
                recovery.seconds,
                scaled(recovery.overload * self.ports()),
                scaled(recovery.reduced * self.ports())
            )?;
        }
        Ok(())
    }
}
