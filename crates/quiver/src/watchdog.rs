//! Whether the router still works: the control thread, because it asks, and each worker, because it answers.
//!
//! A worker answers between two rounds, so one that hangs in a node, or sleeps for ever, does not. The service manager
//! is notified only while all workers answer; otherwise it may restart the router.

use crate::notify;
use graph::Graph;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Asks the workers, checks their answers, notifies the manager.
pub struct Watchdog {
    interval: Duration,
    due: Instant,
    /// How often workers were asked, and how often each answered.
    asked: u64,
    answered: Vec<Arc<AtomicU64>>,
    /// Workers that did not answer at the last check; each is reported once.
    silent: Vec<usize>,
}

impl Watchdog {
    /// A watchdog for this many workers, if the service manager wants one. It notifies the manager twice as often as
    /// required.
    pub fn start(workers: usize, now: Instant) -> Option<Watchdog> {
        Some(Watchdog::every(notify::watchdog_period()? / 2, workers, now))
    }

    fn every(interval: Duration, workers: usize, now: Instant) -> Watchdog {
        let answered = (0..workers).map(|_| Arc::default()).collect();
        Watchdog { interval, due: now, asked: 0, answered, silent: Vec::new() }
    }

    /// When to call [`Watchdog::tick`] again.
    pub fn due(&self) -> Instant {
        self.due
    }

    /// Does the work that is due.
    pub fn tick(&mut self, graph: &Graph, now: Instant) {
        if now < self.due {
            return;
        }
        self.due = now + self.interval;
        // While an answer is pending, workers are not asked again: that answer is enough.
        if self.all_answered() {
            notify::alive();
            self.ask(graph);
        }
    }

    fn all_answered(&mut self) -> bool {
        let answers = |worker: &Arc<AtomicU64>| worker.load(Ordering::Relaxed) == self.asked;
        let silent: Vec<usize> = (0..self.answered.len()).filter(|at| !answers(&self.answered[*at])).collect();
        for worker in silent.iter().filter(|worker| !self.silent.contains(worker)) {
            log::error!(
                "worker {worker} has not answered for {} s: the service manager is not told that all is well",
                self.interval.as_secs_f32()
            );
        }
        self.silent = silent;
        self.silent.is_empty()
    }

    fn ask(&mut self, graph: &Graph) {
        self.asked += 1;
        for (thread, answered) in self.answered.iter().enumerate() {
            let (asked, answered) = (self.asked, answered.clone());
            graph.call_one(thread, move |_| answered.store(asked, Ordering::Relaxed));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use router::Options;

    #[test]
    fn a_worker_that_does_not_get_to_its_mail_is_noticed() {
        let router = capabilities::router(Options { buffers: 1024, huge_pages: false, ..Options::default() }).unwrap();
        let mut worker = router.graph.worker(0).unwrap();
        let start = Instant::now();
        let mut watchdog = Watchdog::every(Duration::from_secs(1), 1, start);
        watchdog.tick(&router.graph, start);
        assert!(!watchdog.all_answered(), "it had no round yet");
        assert_eq!(watchdog.silent, [0]);
        worker.round();
        assert!(watchdog.all_answered());
        watchdog.tick(&router.graph, start + Duration::from_millis(999));
        assert_eq!(watchdog.asked, 1, "not due");
        watchdog.tick(&router.graph, start + Duration::from_secs(1));
        assert_eq!(watchdog.due(), start + Duration::from_secs(2));
        assert!(!watchdog.all_answered(), "asked again");
        for second in 2..5 {
            watchdog.tick(&router.graph, start + Duration::from_secs(second));
        }
        assert_eq!(watchdog.asked, 2, "what hangs gets no more mail");
        worker.round();
        assert!(watchdog.all_answered());
    }
}
