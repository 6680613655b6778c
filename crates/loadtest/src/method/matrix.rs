//! The table that compares routers: large and small packets of many flows, of one flow, and with labels, in one
//! direction and in both, each at the line's rate.

use super::Watch;
use super::trial::Trial;
use crate::arithmetic::{scaled, significant};
use crate::device::kernel::has_mpls;
use crate::others::Others;
use crate::profile::Profile;
use crate::rate::Rate;
use crate::run::{Bench, DeviceSpec, Plan};
use crate::tester::TestError;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The profiles that are sent, and the operators' names for them.
pub const TESTS: [(&str, &str); 4] =
    [("1514b", "bench-var2-1514b"), ("64b Multi", "bench-var2-64b"), ("64b Single", "bench"), ("64b MPLS", "mpls")];

/// The table of one device.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Matrix {
    pub device: String,
    /// The speed of each port's line.
    pub line_bps: f64,
    pub rows: Vec<Row>,
    /// Why it ended too early, if it did.
    #[serde(default)]
    pub failure: Option<String>,
    /// Set if it was interrupted before it was done: after how long.
    #[serde(default)]
    pub interrupted: Option<String>,
}

/// One test: its result, or why it was not run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// `Unidirectional 64b Multi`.
    pub name: String,
    pub trial: Option<Trial>,
    pub left_out: Option<String>,
}

/// Runs all tests through one device. The plan's profile, rate and direction are ignored. If interrupted, it has the
/// results so far.
///
/// # Errors
/// When the device cannot be opened, or the line's speed is not known.
pub fn run(plan: &Plan, watch: &mut Watch<'_>) -> Result<Matrix, TestError> {
    let mut bench = Bench::new(plan)?;
    let line = bench.tester.ports().first().and_then(|port| port.line).ok_or_else(|| {
        TestError::Other("the table has shares of the line's rate, which is not known: give '--speed'".into())
    })?;
    let mut matrix =
        Matrix { device: plan.device.to_string(), line_bps: line, rows: Vec::new(), failure: None, interrupted: None };
    watch.begin();
    let count = 2 * TESTS.len();
    for (number, (direction, (test, profile))) in
        ["Unidirectional", "Bidirectional"].into_iter().flat_map(|way| TESTS.map(|test| (way, test))).enumerate()
    {
        let name = format!("{direction} {test}");
        let left_out = (plan.device == DeviceSpec::Kernel && profile == "mpls" && !has_mpls())
            .then(|| "this kernel has no MPLS (the modules mpls_router and mpls_iptunnel)".to_string());
        if left_out.is_some() {
            matrix.rows.push(Row { name, trial: None, left_out });
            continue;
        }
        let plan = Plan {
            profile: Profile::built_in(profile).map_err(TestError::Profile)?,
            rate: Rate::Percent(100.0),
            is_bidirectional: direction == "Bidirectional",
            ..plan.clone()
        };
        let share = 1.0 / count as f64;
        let title = format!("{}: {name}", plan.device);
        let Some(report) = watch.part(&mut bench, &plan, &title, number as f64 * share, share)? else {
            matrix.failure = watch.failure.take();
            matrix.rows.push(Row { name, trial: None, left_out: matrix.failure.clone() });
            break;
        };
        matrix.rows.push(Row { name, trial: Some(Trial::of(&report, plan.is_bidirectional)), left_out });
        if watch.stops(number + 1 < count) {
            break;
        }
    }
    matrix.interrupted = watch.interruption();
    Ok(matrix)
}

impl Matrix {
    /// What other programs used of the cores, in the test in which that was the most.
    pub fn others(&self) -> Option<&Others> {
        Others::worst_of(self.rows.iter().filter_map(|row| row.trial.as_ref()).map(|trial| &trial.others))
    }
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(others) = self.others() {
            writeln!(f, "{others}")?;
        }
        writeln!(
            f,
            "{:<28}{:>14}{:>14}{:>16}{:>10}  verdict",
            self.device, "L2 bits/sec", "Packets/sec", "% of Line-Rate", "lost"
        )?;
        let mode = self.rows.iter().find_map(|row| row.trial.as_ref()?.device_mode.as_ref());
        if let Some(mode) = mode {
            writeln!(f, "{mode}")?;
        }
        for row in &self.rows {
            let Some(trial) = &row.trial else {
                writeln!(f, "{:<28}left out: {}", row.name, row.left_out.as_deref().unwrap_or("unknown"))?;
                continue;
            };
            let percent = trial.percent_of_line.map_or("-".into(), |percent| format!("{percent:.1}%"));
            writeln!(
                f,
                "{:<28}{:>14}{:>14}{percent:>16}{:>10}  {}",
                row.name,
                format!("{}bps", scaled(trial.l2_bps).replace(' ', "")),
                format!("{}pps", scaled(trial.received_pps).replace(' ', "")),
                format!("{}%", significant(100.0 * trial.lost_share)),
                trial.verdict_words(),
            )?;
            if let Some(why) = trial.verdict.why_no_result() {
                writeln!(f, "{:<28}{why}", "")?;
            }
        }
        if let Some(interrupted) = &self.interrupted {
            writeln!(f, "It was {interrupted}.")?;
        }
        for row in &self.rows {
            if let Some(energy) = row.trial.as_ref().and_then(|trial| trial.energy.as_ref()) {
                writeln!(f, "  {:<26}{energy}", row.name)?;
            }
        }
        Ok(())
    }
}
