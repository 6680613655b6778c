//! Whether the load tester itself keeps up: packets that it fails to receive are not lost by the device.

use drivers::{Receive, ReceiveCounts};
use graph::{Buffers, Vector};
use rustix::fd::BorrowedFd;
use serde::Serialize;
use std::ops::Sub;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How a port was polled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Heard {
    /// Polls that found packets.
    pub rounds: u64,
    /// How many of these found as many as a vector holds, or more.
    pub full_rounds: u64,
    /// Packets that the load tester missed because of the system or a lack of buffers.
    pub missed_packets: u64,
}

impl Heard {
    /// Nearly every poll found as many packets as it could take: the load tester is at its limit, or the device sends
    /// in long bursts.
    pub fn is_full(self) -> bool {
        self.full_rounds * 10 > self.rounds * 9
    }
}

impl Sub for Heard {
    type Output = Heard;
    fn sub(self, before: Heard) -> Heard {
        Heard {
            rounds: self.rounds - before.rounds,
            full_rounds: self.full_rounds - before.full_rounds,
            missed_packets: self.missed_packets - before.missed_packets,
        }
    }
}

/// What one queue counts; written by its worker only.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct Ear {
    rounds: AtomicU64,
    full_rounds: AtomicU64,
    missed_packets: AtomicU64,
}

impl Ear {
    /// The sum over a port's queues.
    pub fn sum(ears: &[Arc<Ear>]) -> Heard {
        let sum = |of: fn(&Ear) -> &AtomicU64| ears.iter().map(|ear| of(ear).load(Ordering::Relaxed)).sum();
        Heard {
            rounds: sum(|ear| &ear.rounds),
            full_rounds: sum(|ear| &ear.full_rounds),
            missed_packets: sum(|ear| &ear.missed_packets),
        }
    }
}

/// A receive queue that counts its polls.
pub struct Listener {
    inner: Box<dyn Receive>,
    ear: Arc<Ear>,
}

impl Listener {
    pub fn new(inner: Box<dyn Receive>, ear: &Arc<Ear>) -> Listener {
        Listener { inner, ear: ear.clone() }
    }
}

/// There is one writer, so no locked instruction is needed.
#[inline(always)]
fn add(to: &AtomicU64, n: u64) {
    to.store(to.load(Ordering::Relaxed) + n, Ordering::Relaxed);
}

impl Receive for Listener {
    #[inline]
    fn receive(&mut self, buffers: &mut Buffers, out: &mut Vector, counts: &mut ReceiveCounts) {
        let (had, before) = (out.len(), *counts);
        self.inner.receive(buffers, out, counts);
        if out.len() > had {
            add(&self.ear.rounds, 1);
            add(&self.ear.full_rounds, u64::from(out.room() == 0));
        }
        if *counts != before {
            let missed = |counts: &ReceiveCounts| counts.missed + counts.no_buffer;
            add(&self.ear.missed_packets, missed(counts) - missed(&before));
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.inner.descriptor()
    }

    fn begin_wait(&mut self) -> bool {
        self.inner.begin_wait()
    }

    fn end_wait(&mut self) {
        self.inner.end_wait();
    }

    fn is_gone(&self) -> bool {
        self.inner.is_gone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::{Pool, Row};

    /// Brings a number of packets each time, and counts some as missed.
    struct Brings(Vec<(usize, ReceiveCounts)>);

    impl Receive for Brings {
        fn receive(&mut self, _: &mut Buffers, out: &mut Vector, counts: &mut ReceiveCounts) {
            let (packets, wrong) = self.0.remove(0);
            (0..packets).for_each(|_| out.push(Row::default(), 0));
            counts.missed += wrong.missed;
            counts.no_buffer += wrong.no_buffer;
            counts.malformed += wrong.malformed;
        }
        fn descriptor(&self) -> Option<BorrowedFd<'_>> {
            None
        }
    }

    #[test]
    fn what_is_left_lying_is_counted() {
        let none = ReceiveCounts::default();
        let wrong = ReceiveCounts { no_buffer: 2, missed: 3, malformed: 7, ..none };
        let ear = Arc::default();
        let rounds = vec![(0, none), (5, none), (graph::VECTOR_SIZE, none), (0, wrong), (1, wrong)];
        let count = rounds.len();
        let mut listener = Listener::new(Box::new(Brings(rounds)), &ear);
        let pool = Pool::new(1024, false).unwrap();
        let (mut buffers, mut counts) = (Buffers::new(&pool, 1024), ReceiveCounts { missed: 100, ..none });
        for _ in 0..count {
            listener.receive(&mut buffers, &mut Vector::new(), &mut counts);
        }
        let heard = Ear::sum(&[ear]);
        assert_eq!(heard, Heard { rounds: 3, full_rounds: 1, missed_packets: 10 });
        assert!(!heard.is_full());
        assert!((Heard { rounds: 10, full_rounds: 10, missed_packets: 0 }).is_full());
    }
}
