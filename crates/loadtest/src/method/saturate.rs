//! Method 1: one worker, one queue, one direction. It measures what a packet costs at low and high rates, and how many
//! packets one core carries.

use super::Watch;
use super::trial::Trial;
use crate::arithmetic::{scaled, significant};
use crate::load::WorkerLoad;
use crate::others::Others;
use crate::rate::Rate;
use crate::run::{Bench, Plan};
use crate::tester::TestError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The rates to test, the maximum rate last.
pub const RATES: [Rate; 4] = [Rate::Packets(1e3), Rate::Packets(1e6), Rate::Packets(1e7), Rate::Maximum];

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Saturation {
    pub device: String,
    pub profile: String,
    pub steps: Vec<Step>,
    /// Why it ended too early, if it did.
    #[serde(default)]
    pub failure: Option<String>,
    /// Set if it was interrupted before it was done: after how long.
    #[serde(default)]
    pub interrupted: Option<String>,
}

/// The result at one rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Step {
    /// As the operator gave it: `1 Mpps`, `max`.
    pub rate: String,
    pub trial: Trial,
    /// The router's `show runtime` while packets arrived.
    pub runtime: Option<String>,
}

impl Step {
    /// The worker that forwarded the packets.
    pub fn worker(&self) -> Option<&WorkerLoad> {
        self.trial.device_load.iter().max_by_key(|worker| worker.received()).filter(|worker| worker.received() > 0)
    }
}

/// Runs it. The plan's rate and direction are ignored. If interrupted, or if the device goes away, it has the results
/// so far.
///
/// # Errors
/// When the device cannot be opened.
pub fn run(plan: &Plan, rates: &[Rate], watch: &mut Watch<'_>) -> Result<Saturation, TestError> {
    let plan = Plan { is_bidirectional: false, device_queues: Some(1), device_workers: Some(1), ..plan.clone() };
    let mut bench = Bench::new(&plan)?;
    let (device, profile) = (plan.device.to_string(), plan.profile.name.clone());
    let mut found = Saturation { device, profile, steps: Vec::new(), failure: None, interrupted: None };
    watch.begin();
    for (number, &rate) in rates.iter().enumerate() {
        let part = 1.0 / rates.len() as f64;
        let plan = Plan { rate, ..plan.clone() };
        let name = format!("{}: {rate}", plan.device);
        let Some(report) = watch.part(&mut bench, &plan, &name, number as f64 * part, part)? else { break };
        found.steps.push(Step {
            rate: rate.to_string(),
            trial: Trial::of(&report, false),
            runtime: report.runtime.clone(),
        });
        if watch.stops(number + 1 < rates.len()) {
            break;
        }
    }
    found.interrupted = watch.interruption();
    found.failure = watch.failure.take();
    Ok(found)
}

impl Saturation {
    /// What other programs used of the cores, at the rate at which that was the most.
    pub fn others(&self) -> Option<&Others> {
        Others::worst_of(self.steps.iter().map(|step| &step.trial.others))
    }

    /// The most that one core carried, as text; without a number if other programs used the machine.
    pub fn most(&self) -> String {
        // Without the disturbance, this rate might have had the highest result.
        let why = self.steps.iter().find_map(|step| step.trial.verdict.why_no_result());
        why.map_or_else(|| format!("{}pps", scaled(self.max_pps())), |why| format!("no result: {why}"))
    }

    /// The highest rate received, even if other programs used the machine.
    pub fn max_pps(&self) -> f64 {
        self.steps.iter().map(|step| step.trial.received_pps).fold(0.0, f64::max)
    }
}

impl fmt::Display for Saturation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(others) = self.others() {
            writeln!(f, "{others}")?;
        }
        let mode = self.steps.first().and_then(|step| step.trial.device_mode.as_deref());
        writeln!(f, "{} ({}), {}", self.device, mode.unwrap_or("what is inside is not known"), self.profile)?;
        writeln!(
            f,
            "{:<12}{:>14}{:>14}{:>10}{:>16}{:>14}{:>13}",
            "rate", "sent", "received", "lost", "cycles/packet", "vectors/call", "idle polls"
        )?;
        for step in &self.steps {
            let trial = &step.trial;
            let of =
                |figure: fn(&WorkerLoad) -> f64| step.worker().map_or("-".into(), |worker| significant(figure(worker)));
            writeln!(
                f,
                "{:<12}{:>14}{:>14}{:>10}{:>16}{:>14}{:>13}",
                step.rate,
                format!("{}pps", scaled(trial.sent_pps)),
                format!("{}pps", scaled(trial.received_pps)),
                format!("{} %", significant(100.0 * trial.lost_share)),
                of(WorkerLoad::clocks_per_packet),
                of(WorkerLoad::vectors_per_call),
                step.worker().map_or("-".into(), |worker| format!("{} %", significant(100.0 * worker.idle_polls()))),
            )?;
        }
        writeln!(f, "Max PPS per core: {}", self.most())?;
        if let Some(interrupted) = &self.interrupted {
            writeln!(f, "It was {interrupted}.")?;
        }
        for step in &self.steps {
            writeln!(f, "  {:<8} {}", step.rate, step.trial.verdict.line())?;
            if let Some(energy) = &step.trial.energy {
                writeln!(f, "  {:<8} {energy}", "")?;
            }
        }
        Ok(())
    }
}
