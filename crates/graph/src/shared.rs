//! The counters that workers write and control reads.

use crate::counter::CounterTable;
use std::sync::Arc;

/// What a worker writes and control reads.
#[derive(Clone)]
pub struct SharedCounters {
    /// Drops and events, by number.
    pub errors: Arc<CounterTable>,
    /// [`crate::worker::node_word`]s by node.
    pub nodes: Arc<CounterTable>,
    /// [`crate::worker::worker_word`]s.
    pub workers: Arc<CounterTable>,
    /// Packets dropped, by receiving interface.
    pub drops: Arc<CounterTable>,
    /// Rounds by how long they took, messages included: counter n has those of at least 2^(n-1) and less than 2^n
    /// ticks.
    pub rounds: Arc<CounterTable>,
}
