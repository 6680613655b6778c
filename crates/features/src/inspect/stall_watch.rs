//! Watches workers: one that is stuck in a node is reported by name, with the packets that it is stuck with, before an
//! operator has to search for it.
//!
//! Control looks once a second. It does not ask workers: it reads the state that they publish anyway.

use super::task::Task;
use graph::WorkerState;
use graph::worker::thread_name;
use router::Router;
use std::fmt;
use std::time::{Duration, Instant};
use wire::ethernet::EtherType;
use wire::pretty::Summary;

const INTERVAL: Duration = Duration::from_secs(1);
/// Bytes of a packet that are shown.
const HEAD: usize = 96;

/// What a worker is stuck with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    /// None: in a message of control.
    pub node: Option<String>,
    pub packets: usize,
    /// The first bytes of the first packet, from its link header.
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

/// The first bytes of a packet, decoded and in hexadecimal.
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

/// What is known about a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Seen {
    #[default]
    Fine,
    /// In one round for long, and runnable: either the worker runs, in a node that does not end, or it is preempted.
    /// The next look decides, by the processor time used since this one.
    Suspected { began: u64, used: u64 },
    /// This round was reported.
    Told { began: u64 },
}

/// What is reported about a worker.
#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Stuck,
    /// Preempted: it is runnable, but the system gives its core to other threads.
    Kept,
    GoesOn,
}

impl Seen {
    /// Evaluates one more look. `long` is the tick at which the present round began, if it takes long already.
    /// `is_runnable` says whether the thread can run. `used` is the processor time that it has had, in hundredths of a
    /// second.
    fn look(self, long: Option<u64>, is_runnable: bool, used: u64) -> (Seen, Option<Verdict>) {
        /// Processor time that a thread which runs without a pause gets at least between two looks, half a second or
        /// more apart.
        const RAN: u64 = 10;
        match (long, self) {
            (None, Seen::Told { .. }) => (Seen::Fine, Some(Verdict::GoesOn)),
            (None, _) => (Seen::Fine, None),
            (Some(round), Seen::Told { began }) if began == round => (self, None),
            (Some(round), Seen::Suspected { began, used: before }) if is_runnable && began == round => {
                let ran = used.saturating_sub(before) >= RAN;
                (Seen::Told { began }, Some(if ran { Verdict::Stuck } else { Verdict::Kept }))
            }
            (Some(began), _) if is_runnable => (Seen::Suspected { began, used }, None),
            (Some(began), _) => (Seen::Told { began }, Some(Verdict::Stuck)),
        }
    }
}

/// What is known about all workers.
#[derive(Debug, Default)]
pub struct StallWatch {
    due: Option<Instant>,
    seen: Vec<Seen>,
}

impl StallWatch {
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.due
    }
}

/// What a worker is doing now.
pub(crate) fn stuck_with(router: &Router, worker: usize) -> Stuck {
    let running = router.graph.running(worker);
    let node = running.node.map(|node| match router.graph.info(node) {
        Some(info) => info.name.clone(),
        None => "(removed)".into(),
    });
    let head = match running.packets {
        0 => Vec::new(),
        _ => router.graph.pool().peek(running.first, running.l2, HEAD),
    };
    Stuck { node, packets: running.packets, head }
}

/// Looks at the workers when it is time.
pub(crate) fn tick_stalls(router: &mut Router, now: Instant) {
    // A little early is fine when control is awake anyway: an idle control thread should wake once a second, not
    // twice.
    if router.state::<StallWatch>().due.is_some_and(|due| now + INTERVAL / 2 < due) {
        return;
    }
    router.state_mut::<StallWatch>().due = Some(now + INTERVAL);
    let workers = router.graph.workers();
    router.state_mut::<StallWatch>().seen.resize(workers, Seen::Fine);
    for worker in 0..router.graph.workers() {
        let (long, time) = match router.graph.worker_state(worker) {
            WorkerState::Stalled(time) => (router.graph.round_began(worker), time.as_secs_f64()),
            _ => (None, 0.0),
        };
        // Reads /proc only when a worker seems stuck.
        let task = long.and_then(|_| Task::of(router.graph.worker_lwp(worker)?));
        let (is_runnable, used) = task.map_or((false, 0), |task| (task.is_runnable, task.used));
        let (seen, verdict) = router.state_mut::<StallWatch>().seen[worker].look(long, is_runnable, used);
        router.state_mut::<StallWatch>().seen[worker] = seen;
        let name = thread_name(worker);
        match verdict {
            Some(Verdict::Stuck) => {
                log::error!("{name} has been stuck for {time:.1} s {}", stuck_with(router, worker))
            }
            Some(Verdict::Kept) => {
                log::warn!("{name} has not run for {time:.1} s: the system gives its core to others");
            }
            Some(Verdict::GoesOn) => log::warn!("{name} goes on"),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_that_blocks_is_told_once_and_again_when_it_goes_on() {
        let (seen, verdict) = Seen::Fine.look(Some(7), false, 100);
        assert_eq!(verdict, Some(Verdict::Stuck));
        let (seen, verdict) = seen.look(Some(7), false, 100);
        assert_eq!(verdict, None);
        assert_eq!(seen.look(None, false, 0), (Seen::Fine, Some(Verdict::GoesOn)));
        assert_eq!(seen.look(Some(8), false, 100).1, Some(Verdict::Stuck), "in another round");
    }

    #[test]
    fn one_that_spins_is_told_from_one_that_is_not_let_run() {
        let (seen, verdict) = Seen::Fine.look(Some(7), true, 100);
        assert_eq!((seen, verdict), (Seen::Suspected { began: 7, used: 100 }, None));
        assert_eq!(seen.look(Some(7), true, 150).1, Some(Verdict::Stuck));
        assert_eq!(seen.look(Some(7), true, 102).1, Some(Verdict::Kept));
        assert_eq!(seen.look(Some(8), true, 105), (Seen::Suspected { began: 8, used: 105 }, None), "another round");
        assert_eq!(seen.look(None, true, 150), (Seen::Fine, None));
    }
}
