//! Methods: what is run, how often, at which rates, and what that says of a device.
//!
//! Each is made of runs of a [`crate::run::Bench`] and brings data of its own ([`ramp::Ramp`] and so on), which a
//! [`crate::session::Session`] keeps together.

pub mod contract;
pub mod matrix;
pub mod ramp;
pub mod saturate;
pub mod search;
pub mod soak;
pub mod sweep;
pub mod trial;

use crate::report::{INTERRUPT, Report, Sample, interrupted};
use crate::run::{Bench, Plan, RunPolicy};
use crate::tester::TestError;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Observes a method while it runs, and may end it.
pub struct Watch<'a> {
    pub interrupted: &'a AtomicBool,
    /// Receives the progress: what is being done, the share of the whole that is done, and the last sample.
    pub progress: &'a mut dyn FnMut(&str, f64, Option<&Sample>),
    /// Why a method ended before it was done without being interrupted: the device or a port went away.
    pub failure: Option<String>,
    begun: Instant,
    /// Seconds that it is to take, if that is known.
    planned: Option<f64>,
    /// The operator ended it before it was done.
    is_cut: bool,
}

impl<'a> Watch<'a> {
    /// `planned`: seconds that the method is to take, if that is known.
    pub fn new(
        interrupted: &'a AtomicBool,
        planned: Option<f64>,
        progress: &'a mut dyn FnMut(&str, f64, Option<&Sample>),
    ) -> Watch<'a> {
        Watch { interrupted, progress, failure: None, begun: Instant::now(), planned, is_cut: false }
    }

    /// Starts the clock: the time to open devices does not belong to the method.
    pub fn begin(&mut self) {
        self.begun = Instant::now();
    }

    /// Notes how a run ended.
    pub fn note(&mut self, report: &Report) {
        self.is_cut |= report.ended == INTERRUPT;
    }

    /// Whether a method is to stop after the part that was just done. If it stops with more to do, the operator ended
    /// it before it was done.
    pub fn stops(&mut self, has_more: bool) -> bool {
        self.is_cut |= self.is_interrupted() && has_more;
        self.is_interrupted()
    }

    /// A text when the operator ended it before it was done: it says so, and after how long.
    pub fn interruption(&self) -> Option<String> {
        self.is_cut.then(|| interrupted(self.begun.elapsed().as_secs_f64(), self.planned))
    }

    /// Runs once, as the share `part` of the whole, of which the share `done` is done. None: the device or a port went
    /// away, which [`Watch::failure`] says. What was counted by then is no result of a method.
    ///
    /// # Errors
    /// As [`Bench::run`].
    pub fn part(
        &mut self,
        bench: &mut Bench,
        plan: &Plan,
        name: &str,
        done: f64,
        part: f64,
    ) -> Result<Option<Report>, TestError> {
        let seconds = plan.duration.as_secs_f64();
        let report = bench.run(plan, &mut Part { name, done, part, seconds, watch: self })?;
        self.note(&report);
        self.failure = report.failure().map(String::from);
        Ok(self.failure.is_none().then_some(report))
    }

    /// Runs once, as the whole method. What was counted until it ended is kept, whatever ended it.
    ///
    /// # Errors
    /// As [`Bench::run`].
    pub fn whole(&mut self, bench: &mut Bench, plan: &Plan, name: &str) -> Result<Report, TestError> {
        let seconds = plan.duration.as_secs_f64();
        let report = bench.run(plan, &mut Part { name, done: 0.0, part: 1.0, seconds, watch: self })?;
        self.note(&report);
        Ok(report)
    }

    pub fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

struct Part<'a, 'b> {
    name: &'a str,
    done: f64,
    part: f64,
    seconds: f64,
    watch: &'a mut Watch<'b>,
}

impl RunPolicy for Part<'_, '_> {
    fn sampled(&mut self, sample: &Sample) {
        let share = self.done + self.part * (sample.at / self.seconds).min(1.0);
        (self.watch.progress)(self.name, share, Some(sample));
    }

    fn is_interrupted(&self) -> bool {
        self.watch.is_interrupted()
    }
}
