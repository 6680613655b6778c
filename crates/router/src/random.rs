//! Unpredictable numbers, for control. It needs few.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

pub fn number() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// A random time between zero and `most`.
pub fn time_up_to(most: Duration) -> Duration {
    most.mul_f64(number() as f64 / u64::MAX as f64)
}
