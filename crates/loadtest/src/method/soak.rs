//! Hours at one rate, with a full table in the router: what is lost, what was late, and when.

use super::Watch;
use super::trial::Trial;
use crate::arithmetic::{scaled, significant};
use crate::report::failure;
use crate::run::{Bench, Plan};
use crate::tester::TestError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// A delay within this many seconds of a pause of the machine is reported as near one.
const NEAR: f64 = 0.02;

/// The result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Soak {
    /// Routes that the router had in addition to its own.
    pub routes: usize,
    pub ended: String,
    /// Set if it was interrupted before its time: after how long.
    #[serde(default)]
    pub interrupted: Option<String>,
    pub total: Trial,
    /// The longest delays, in descending order.
    pub outliers: Vec<Outlier>,
    /// How often a worker of the load tester was preempted, and the longest pause, in microseconds.
    pub pauses: usize,
    pub longest_pause_us: f64,
}

/// A delay that stands out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Outlier {
    /// Seconds from the start.
    pub at: f64,
    pub us: f64,
    pub stream: String,
    /// The load tester was preempted at that time.
    pub near_pause: bool,
}

/// Runs it, as the plan says.
///
/// # Errors
/// When the device cannot be opened.
pub fn run(plan: &Plan, watch: &mut Watch<'_>) -> Result<Soak, TestError> {
    let mut bench = Bench::new(plan)?;
    watch.begin();
    let name = format!("{}: soak at {}", plan.device, plan.rate);
    let report = watch.whole(&mut bench, plan, &name)?;
    let is_near =
        |at: f64| report.pauses.iter().any(|pause| (pause.at - NEAR..=pause.at + pause.us / 1e6 + NEAR).contains(&at));
    let of_stream = |stream: &crate::report::StreamReport| {
        let outlier = |outlier: &crate::report::Outlier| Outlier {
            at: outlier.at,
            us: outlier.us,
            stream: stream.name.clone(),
            near_pause: is_near(outlier.at),
        };
        stream.outliers.iter().map(outlier).collect::<Vec<_>>()
    };
    let mut outliers: Vec<Outlier> = report.streams.iter().flat_map(of_stream).collect();
    outliers.sort_by(|a, b| b.us.total_cmp(&a.us));
    Ok(Soak {
        routes: plan.routes.unwrap_or(0),
        ended: report.ended.clone(),
        interrupted: watch.interruption(),
        outliers,
        pauses: report.pause_count as usize,
        longest_pause_us: report.pauses.iter().map(|pause| pause.us).fold(0.0, f64::max),
        total: Trial::of(&report, plan.is_bidirectional),
    })
}

impl Soak {
    /// Why it ended before its time, unless it was interrupted.
    pub fn failure(&self) -> Option<&str> {
        failure(&self.ended)
    }
}

impl fmt::Display for Soak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = &self.total;
        writeln!(f, "{}", total.others)?;
        writeln!(
            f,
            "{}, {}, rate {}, {} routes, {} s, ended: {}",
            total.device,
            total.profile,
            total.rate,
            self.routes,
            significant(total.seconds),
            self.interrupted.as_ref().unwrap_or(&self.ended)
        )?;
        if let Some(mode) = &total.device_mode {
            writeln!(f, "{mode}")?;
        }
        writeln!(
            f,
            "{} packets sent ({}pps), {} lost: {} %",
            total.sent_packets,
            scaled(total.sent_pps),
            total.lost_packets,
            significant(100.0 * total.lost_share)
        )?;
        writeln!(
            f,
            "{:<18}{:>10}{:>10}{:>10}{:>10}{:>10}{:>10}",
            "Microseconds", "min", "p50", "p99", "p99.9", "p99.99", "max"
        )?;
        for (name, all) in [("delay", total.latency), ("PDV", total.pdv), ("IPDV", total.ipdv)] {
            let Some(all) = all else { continue };
            write!(f, "{name:<18}")?;
            for figure in [all.min, all.p50, all.p99, all.p99_9, all.p99_99, all.max] {
                write!(f, "{:>10}", significant(figure))?;
            }
            writeln!(f)?;
        }
        writeln!(f, "The longest delays:")?;
        for outlier in &self.outliers {
            let near = if outlier.near_pause { "  the load tester was preempted" } else { "" };
            writeln!(f, "{:>12.3} s{:>12} us  {}{near}", outlier.at, significant(outlier.us), outlier.stream)?;
        }
        writeln!(f, "The load tester was preempted {} times, {:.0} us at most.", self.pauses, self.longest_pause_us)?;
        if let Some(energy) = &total.energy {
            writeln!(f, "Energy: {energy}")?;
        }
        writeln!(f, "Verdict: {}", total.verdict.line())
    }
}
