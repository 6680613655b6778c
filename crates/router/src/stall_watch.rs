//! Watching workers: one that is stuck in a node is named, with what it is stuck with, before
//! anybody wonders where the packets are.
//!
//! Control looks once a second. It asks no worker: it reads what they write anyway.

use crate::Router;
use crate::inspect::task::Task;
use crate::inspect::worker_name;
use graph::WorkerState;
use std::fmt;
use std::time::{Duration, Instant};
use wire::ethernet::EtherType;
use wire::pretty::Summary;

const INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of a packet that are told.
const HEAD: usize = 96;

/// What a worker is stuck with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    /// None: a message of control's.
    pub node: Option<String>,
    pub packets: usize,
    /// How the first of them begins, from its link header.
    pub head: Vec<u8>,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Stuck { node, packets, head } = self;
        match (node, packets) {
            (None, _) => write!(f, "in a message of control"),
            (Some(node), 0) => write!(f, "in node {node}"),
            (Some(node), 1) => write!(f, "in node {node}, with a packet:\n{}", Dump(head)),
            (Some(node), _) => write!(f, "in node {node}, with {packets} packets, of which the first:\n{}", Dump(head)),
        }
    }
}

/// The head of a packet, decoded and in hexadecimal numbers.
struct Dump<'a>(&'a [u8]);

impl fmt::Display for Dump<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", Summary::ethernet(self.0).indented(4))?;
        if let Ok(frame) = wire::ethernet::Header::new_checked(self.0)
            && frame.ethertype() == EtherType::IPV4
        {
            write!(f, "\n{}", Summary::ipv4(frame.payload()).indented(4))?;
        }
        for (row, bytes) in self.0.chunks(16).enumerate() {
            write!(f, "\n    {:04x}:", row * 16)?;
            bytes.iter().try_for_each(|byte| write!(f, " {byte:02x}"))?;
        }
        Ok(())
    }
}

/// What was said of workers last.
#[derive(Debug, Default)]
pub(crate) struct StallWatch {
    due: Option<Instant>,
    /// By worker: since when it has been stuck, when it is.
    stuck: Vec<Option<Instant>>,
    /// Processor time that each had had when it was looked at last.
    used: Vec<u64>,
}

impl StallWatch {
    pub fn next_due(&self) -> Option<Instant> {
        self.due
    }
}

impl Router {
    /// What a worker is doing now.
    pub fn stuck_with(&self, worker: usize) -> Stuck {
        let running = self.graph.running(worker);
        let node = running.node.map(|node| match self.graph.info(node) {
            Some(info) => info.name.clone(),
            None => "(removed)".into(),
        });
        let head = match running.packets {
            0 => Vec::new(),
            _ => self.graph.pool().peek(running.first, running.l2, HEAD),
        };
        Stuck { node, packets: running.packets, head }
    }

    /// Looks at workers when it is time to.
    pub(crate) fn tick_stalls(&mut self, now: Instant) {
        // Early, when control is awake for something else: an idle one shall wake once a second, not twice.
        if self.stalls.due.is_some_and(|due| now + INTERVAL / 2 < due) {
            return;
        }
        self.stalls.due = Some(now + INTERVAL);
        self.stalls.stuck.resize(self.graph.workers(), None);
        self.stalls.used.resize(self.graph.workers(), 0);
        for worker in 0..self.graph.workers() {
            let (state, before) = (self.graph.worker_state(worker), self.stalls.stuck[worker]);
            let task = self.graph.worker_lwp(worker).and_then(Task::of);
            let used = task.as_ref().map_or(0, |task| task.used);
            let had_before = std::mem::replace(&mut self.stalls.used[worker], used);
            // It wants to run, and has not had a hundredth of a second since: no fault of the node's.
            let is_kept = task.is_some_and(|task| task.is_runnable) && used.saturating_sub(had_before) <= 1;
            self.stalls.stuck[worker] = match (state, before) {
                (WorkerState::Stalled(_), Some(since)) => Some(since),
                (WorkerState::Stalled(time), None) if is_kept => {
                    let (name, time) = (worker_name(worker), time.as_secs_f64());
                    log::warn!(
                        "{name} has not run for {time:.1} s: the system gives its core to others (`show threads')"
                    );
                    now.checked_sub(Duration::from_secs_f64(time))
                }
                (WorkerState::Stalled(time), None) => {
                    let what = self.stuck_with(worker);
                    log::error!("{} has been stuck for {:.1} s {what}", worker_name(worker), time.as_secs_f64());
                    now.checked_sub(time)
                }
                (_, Some(since)) => {
                    let time = now.saturating_duration_since(since).as_secs_f64();
                    log::warn!("{} goes on, after {time:.1} s at most", worker_name(worker));
                    None
                }
                (_, None) => None,
            };
        }
    }
}
