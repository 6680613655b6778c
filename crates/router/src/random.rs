//! Numbers that nobody can guess, for what control does now and then.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

pub(crate) fn number() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A time from none to `most`.
pub(crate) fn time_up_to(most: Duration) -> Duration {
    most.mul_f64(number() as f64 / u64::MAX as f64)
}
