//! What workers and nodes are doing, as control sees it: read from counters and flags that workers write anyway. No
//! worker is queried or stopped.

use crate::registry::{Graph, NodeRuntime};
use crate::worker::mailbox::Message;
use crate::worker::{Running, node_word, worker_word};
use crate::{NodeIndex, time};
use std::os::fd::{AsRawFd, RawFd};
use std::time::Duration;

/// A worker whose round takes longer is stuck, or preempted.
const STALL: Duration = Duration::from_millis(200);

/// What a worker does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkerState {
    /// No thread runs it.
    NotStarted,
    /// Begins one round after the other.
    Online,
    /// Sleeps until a device or control wakes it; its sleep holds up no other thread.
    Asleep,
    /// Has been in one round for this long; what was retired meanwhile cannot be freed.
    Stalled(Duration),
}

/// What a node does, in VPP's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeState {
    /// Runs when it has packets.
    Active,
    /// A source that is polled every round.
    Polling,
    /// A source whose worker sleeps until a device has something.
    InterruptWait,
    /// A source that has nothing to poll.
    Disabled,
}

impl NodeState {
    pub fn name(self) -> &'static str {
        match self {
            NodeState::Active => "active",
            NodeState::Polling => "polling",
            NodeState::InterruptWait => "interrupt wait",
            NodeState::Disabled => "disabled",
        }
    }
}

impl Graph {
    /// A node's counters on one worker since the last clear.
    pub fn runtime(&self, thread: usize, index: NodeIndex) -> NodeRuntime {
        let at = index.0 as usize;
        let word = |word| self.counters.nodes.value(thread, at, word);
        // Until a worker has applied the last clear, its maxima are from before it.
        let is_clear = self.counters.workers.raw(thread, worker_word::MAXIMA, 0) == self.clears;
        let maximum = |word| if is_clear { self.counters.nodes.raw(thread, at, word) } else { 0 };
        NodeRuntime {
            calls: word(node_word::CALLS),
            packets: word(node_word::PACKETS),
            clocks: word(node_word::CLOCKS),
            empty: word(node_word::EMPTY),
            idle_clocks: word(node_word::IDLE_CLOCKS),
            max_clocks: maximum(node_word::MAX_CLOCKS),
            max_packets: maximum(node_word::MAX_PACKETS),
        }
    }

    /// Makes the counters of nodes and workers count from now.
    ///
    /// Sums get a baseline to subtract. That does not work for the largest clocks, which only the worker writes:
    /// control asks it to start anew, and they read zero until it has.
    pub fn clear_runtime(&mut self) {
        self.counters.nodes.clear(self.nodes().iter().map(|node| node.index.0 as usize));
        self.counters.workers.clear(0..worker_word::COUNT);
        self.counters.rounds.clear(0..self.counters.rounds.capacity());
        self.clears += 1;
        let generation = self.clears;
        for mailbox in &self.mailboxes {
            mailbox.post(Message::Call(Box::new(move |core| core.clear_maxima(generation))));
        }
    }

    /// Rounds of a worker since the last clear, by how long they took: (ticks, rounds). Those rounds took less than
    /// these ticks, and at least half of them. From the shortest to the longest that occurred; counts in between may be
    /// zero.
    pub fn round_times(&self, thread: usize) -> Vec<(u64, u64)> {
        let rounds = |kind| self.counters.rounds.value(thread, kind, 0);
        let kinds = 0..u64::BITS as usize;
        let first = kinds.clone().find(|&kind| rounds(kind) > 0);
        let last = kinds.rev().find(|&kind| rounds(kind) > 0);
        let (Some(first), Some(last)) = (first, last) else { return Vec::new() };
        (first..=last).map(|kind| (1 << kind, rounds(kind))).collect()
    }

    /// What a node does on a worker.
    pub fn node_state(&self, thread: usize, index: NodeIndex) -> NodeState {
        let is_input = self.info(index).is_some_and(|info| info.kind == "input");
        let asleep = self.mailboxes[thread].is_asleep();
        let state = || self.counters.nodes.raw(thread, index.0 as usize, node_word::STATE);
        match (is_input, asleep) {
            (false, _) => NodeState::Active,
            (true, false) => NodeState::Polling,
            (true, true) if state() == node_word::NO_DEVICE => NodeState::Disabled,
            (true, true) => NodeState::InterruptWait,
        }
    }

    /// What a worker does.
    pub fn worker_state(&self, thread: usize) -> WorkerState {
        if self.worker_lwp(thread).is_none() {
            return WorkerState::NotStarted;
        }
        // Read the time, then the flag, then the beginning. A worker that the flag shows awake had begun a round or
        // woken shortly before; what it has begun since is later still.
        let now = time::ticks();
        if self.mailboxes[thread].is_asleep() {
            return WorkerState::Asleep;
        }
        let began = self.counters.workers.raw(thread, worker_word::ROUND_BEGAN, 0);
        let passed = Duration::from_secs_f64(time::seconds(now.saturating_sub(began)));
        if passed >= STALL { WorkerState::Stalled(passed) } else { WorkerState::Online }
    }

    /// What a worker does right now.
    pub fn running(&self, thread: usize) -> Running {
        Running::unpack(self.counters.workers.raw(thread, worker_word::RUNNING, 0))
    }

    /// When a worker's current or last round began, in ticks; none before its first.
    pub fn round_began(&self, thread: usize) -> Option<u64> {
        Some(self.counters.workers.raw(thread, worker_word::ROUND_BEGAN, 0)).filter(|&ticks| ticks > 0)
    }

    /// The kernel's number of the thread that runs a worker.
    pub fn worker_lwp(&self, thread: usize) -> Option<u32> {
        Some(self.counters.workers.raw(thread, worker_word::LWP, 0) as u32).filter(|&lwp| lwp > 0)
    }

    /// The descriptor by which control wakes a worker.
    pub fn bell(&self, thread: usize) -> RawFd {
        self.mailboxes[thread].bell().as_raw_fd()
    }
}
