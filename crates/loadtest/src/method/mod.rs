//! Methods: what is run, how often, at which rates, and what that says of a device.
//!
//! Each is made of runs of a [`crate::run::Bench`] and brings data of its own ([`ramp::Ramp`] and so on), which a
//! [`crate::session::Session`] keeps together.

pub mod contract;
pub mod matrix;
pub mod ramp;
pub mod trial;

use crate::report::Sample;
use std::sync::atomic::AtomicBool;

/// Who watches a method, and may end it.
pub struct Watch<'a> {
    pub interrupted: &'a AtomicBool,
    /// Is told how it goes: what is being done, the share of the whole that is done, and the last sample.
    pub progress: &'a mut dyn FnMut(&str, f64, Option<&Sample>),
}
