//! What the reader counts, for `show lcp netlink`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Makes the struct `Counts` with these numbers, which one thread writes, and commands read.
macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident,)+) => {
        #[derive(Debug, Default)]
        pub struct Counts {
            $($(#[$doc])* pub $name: $crate::follow::Count,)+
        }
    };
}
pub(crate) use counts;

counts! {
    /// Messages that Linux sent.
    messages,
    /// Those that are not as they should be.
    malformed,
    /// Those about routes that the router does not follow: of other tables and kinds.
    not_followed,
    /// Messages that Linux dropped because too many waited: so many times.
    overruns,
    /// Looks at everything, the first one included.
    looks,
    /// Routes that a look found gone without a word.
    stale,
    /// Prefixes that Linux has routes for, of both families.
    prefixes,
    /// Changes that the router has not heard of yet.
    backlog,
    /// Batches of routes that the router took, and the routes in them.
    batches,
    routes,
    /// Routes that the router refused.
    refused,
    /// Microseconds from a message about a route until the router had it: the latest batch, and the longest.
    lag,
    longest_lag,
}

/// A number that one thread writes and others read.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    pub fn add(&self, number: u64) {
        self.set(self.get() + number);
    }

    pub fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }

    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Counts {
    pub fn set_lag(&self, lag: Duration) {
        let lag = lag.as_micros() as u64;
        self.lag.set(lag);
        self.longest_lag.set(self.longest_lag.get().max(lag));
    }
}
