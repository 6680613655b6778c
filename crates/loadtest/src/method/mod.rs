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

use crate::report::{Report, Sample};
use crate::run::{Bench, Conduct, Plan};
use crate::tester::TestError;
use std::sync::atomic::{AtomicBool, Ordering};

/// Who watches a method, and may end it.
pub struct Watch<'a> {
    pub interrupted: &'a AtomicBool,
    /// Is told how it goes: what is being done, the share of the whole that is done, and the last sample.
    pub progress: &'a mut dyn FnMut(&str, f64, Option<&Sample>),
    /// Why a method ended before it was done, though nobody wanted it to: the device or a port went away.
    pub failure: Option<String>,
}

impl<'a> Watch<'a> {
    pub fn new(interrupted: &'a AtomicBool, progress: &'a mut dyn FnMut(&str, f64, Option<&Sample>)) -> Watch<'a> {
        Watch { interrupted, progress, failure: None }
    }

    /// Runs once, as so large a part of the whole, of which a share is done. None: the device or a port went away, which
    /// [`Watch::failure`] says; what was counted by then is no figure of a method.
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
        self.failure = report.failure().map(String::from);
        Ok(self.failure.is_none().then_some(report))
    }

    /// Runs once, and that is all: what was counted until it ended is kept, whatever ended it.
    ///
    /// # Errors
    /// As [`Bench::run`].
    pub fn whole(&mut self, bench: &mut Bench, plan: &Plan, name: &str) -> Result<Report, TestError> {
        let seconds = plan.duration.as_secs_f64();
        bench.run(plan, &mut Part { name, done: 0.0, part: 1.0, seconds, watch: self })
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

impl Conduct for Part<'_, '_> {
    fn sampled(&mut self, sample: &Sample) {
        let share = self.done + self.part * (sample.at / self.seconds).min(1.0);
        (self.watch.progress)(self.name, share, Some(sample));
    }

    fn is_interrupted(&self) -> bool {
        self.watch.is_interrupted()
    }
}
