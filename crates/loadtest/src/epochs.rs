//! The loss of each sample, determined by the packets' own numbers.
//!
//! The difference between packets sent and received at some moment is not loss: packets are on their way, and those
//! that arrive in one sample may have been sent in the sample before. So at each sample the sending worker notes the
//! next sequence number of each of its streams' shares (a cut), before it sends that number. The receiving worker
//! counts each packet for the epoch, from one cut to the next, that its number is in. Packets that are missing from an
//! epoch at the end were lost, no matter when the others arrived.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

const CHUNK: usize = 1024;
const CHUNKS: usize = 100;
/// Most cuts of a share; the epoch behind the last one has no end.
pub const MOST_CUTS: usize = CHUNK * CHUNKS;

/// Where the epochs of a share end. The sending worker appends; receiving workers read it without waiting.
pub struct Cuts {
    /// Allocated when they are needed: most runs have a few.
    chunks: [OnceLock<Box<[AtomicU64]>>; CHUNKS],
    count: AtomicUsize,
}

impl Default for Cuts {
    fn default() -> Cuts {
        Cuts { chunks: [const { OnceLock::new() }; CHUNKS], count: AtomicUsize::new(0) }
    }
}

impl Cuts {
    /// Ends an epoch before this number, which has not been sent yet. For the single writer.
    pub fn push(&self, next: u64) {
        let at = self.count.load(Ordering::Relaxed);
        if at == MOST_CUTS {
            return;
        }
        let chunk = self.chunks[at / CHUNK].get_or_init(|| (0..CHUNK).map(|_| AtomicU64::new(0)).collect());
        chunk[at % CHUNK].store(next, Ordering::Relaxed);
        self.count.store(at + 1, Ordering::Release);
    }

    #[inline]
    fn count(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    /// The number at which an epoch ends; none: it has no end yet.
    fn end(&self, epoch: usize) -> Option<u64> {
        if epoch >= self.count() {
            return None;
        }
        self.chunks[epoch / CHUNK].get().map(|chunk| chunk[epoch % CHUNK].load(Ordering::Relaxed))
    }

    /// The epoch of a number.
    fn epoch_of(&self, number: u64) -> usize {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = low.midpoint(high);
            match self.end(middle).is_some_and(|end| end <= number) {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        low
    }
}

/// Packets that one worker received, counted by the epoch in which they were sent.
pub struct Arrivals {
    cuts: Arc<Cuts>,
    counts: Vec<u64>,
    /// The epoch of the last packet, and the range of its numbers.
    epoch: usize,
    from: u64,
    to: u64,
}

impl Arrivals {
    pub fn new(cuts: Arc<Cuts>) -> Arrivals {
        Arrivals { cuts, counts: vec![0], epoch: 0, from: 0, to: u64::MAX }
    }

    /// Counts the packets of these numbers.
    #[inline]
    pub fn note(&mut self, from: u64, to: u64) {
        if self.to == u64::MAX && self.cuts.count() > self.epoch {
            self.to = self.cuts.end(self.epoch).unwrap_or(u64::MAX);
        }
        match from >= self.from && to <= self.to {
            true => self.counts[self.epoch] += to - from,
            false => self.note_elsewhere(from, to),
        }
    }

    #[cold]
    fn note_elsewhere(&mut self, mut from: u64, to: u64) {
        while from < to {
            self.epoch = self.cuts.epoch_of(from);
            self.from = self.epoch.checked_sub(1).and_then(|before| self.cuts.end(before)).unwrap_or(0);
            self.to = self.cuts.end(self.epoch).unwrap_or(u64::MAX);
            if self.counts.len() <= self.epoch {
                self.counts.resize(self.epoch + 1, 0);
            }
            let end = to.min(self.to);
            self.counts[self.epoch] += end - from;
            from = end;
        }
    }

    /// Packets of each epoch.
    pub fn counts(self) -> Vec<u64> {
        self.counts
    }
}

/// Adds the packets of each epoch that another worker received.
pub fn add(to: &mut Vec<u64>, other: &[u64]) {
    to.resize(to.len().max(other.len()), 0);
    to.iter_mut().zip(other).for_each(|(to, other)| *to += other);
}

/// Packets of a stream, among those sent by each cut, that were lost. `sent`: packets sent by each cut. `received`:
/// packets of each epoch that arrived. `lost`: the total at the end.
///
/// The values never fall, never grow by more than was sent, and never exceed `lost`. Otherwise copies that arrived on
/// two workers, which neither can recognise as copies, would give a sample a negative loss.
pub fn lost_by(sent: &[u64], received: &[u64], lost: u64) -> Vec<u64> {
    let (mut arrived, mut known) = (0u64, 0u64);
    let by = |(epoch, sent): (usize, &u64)| {
        arrived += received.get(epoch).copied().unwrap_or(0);
        known = sent.saturating_sub(arrived).min(lost).max(known);
        known
    };
    sent.iter().enumerate().map(by).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::method::ramp;
    use crate::receive::{Received, Tracker};
    use crate::report::{Sample, SamplePort, intervals};
    use proptest::prelude::*;

    #[test]
    fn a_number_is_of_the_epoch_that_it_was_sent_in_however_many_there_are() {
        let cuts = Arc::new(Cuts::default());
        let mut arrivals = Arrivals::new(cuts.clone());
        arrivals.note(0, 10);
        // Equal ends: nothing was sent between them.
        for end in [10, 10, 25] {
            cuts.push(end);
        }
        arrivals.note(10, 30);
        arrivals.note(5, 6);
        arrivals.note(30, 31);
        assert_eq!(arrivals.counts(), [11, 0, 15, 6]);
        for n in 3..2 * MOST_CUTS as u64 {
            cuts.push(10 * n);
        }
        assert_eq!(cuts.count(), MOST_CUTS);
        assert_eq!([0, 9, 10, 24, 25, 29, 30, 39, 40].map(|number| cuts.epoch_of(number)), [0, 0, 2, 2, 3, 3, 4, 4, 5]);
        assert_eq!(cuts.epoch_of(u64::MAX), MOST_CUTS);
    }

    #[test]
    fn copies_on_two_workers_do_not_give_loss_back() {
        // 10 are sent in each epoch; in the second, five are lost and eight arrive twice.
        assert_eq!(lost_by(&[10, 20, 30], &[8, 13, 10], 2), [2, 2, 2]);
        assert_eq!(lost_by(&[10, 20], &[], 20), [10, 20]);
        assert_eq!(lost_by(&[10, 20], &[10, 10], 0), [0, 0]);
    }

    /// A step of a stream that is recorded.
    #[derive(Debug, Clone)]
    enum Step {
        /// Makes this many packets; the device refuses the last ones.
        Send {
            packets: u8,
            refused: u8,
        },
        /// The packet at this place on the way arrives, or is lost, or arrives and leaves a copy on the way.
        Arrive(u8),
        Lose(u8),
        Copy(u8),
        /// All packets on the way arrive in order.
        ArriveAll,
        Sample,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (0u8..80, 0u8..20)
                .prop_map(|(packets, refused)| Step::Send { packets, refused: refused.min(packets) }),
            8 => any::<u8>().prop_map(Step::Arrive),
            3 => any::<u8>().prop_map(Step::Lose),
            1 => any::<u8>().prop_map(Step::Copy),
            2 => Just(Step::ArriveAll),
            3 => Just(Step::Sample),
        ]
    }

    /// The recorded samples, and the loss of each epoch by a record of every packet.
    struct Recorded {
        samples: Vec<Sample>,
        lost_of_epochs: Vec<u64>,
        sent: u64,
        received: u64,
    }

    fn record(steps: &[Step]) -> Recorded {
        let cuts = Arc::new(Cuts::default());
        let mut tracker = Tracker::new(0, cuts.clone());
        let (mut next, mut refused, mut came) = (0u64, 0, 0);
        // Numbers on their way, and the epoch of each number that was sent and has not arrived.
        let mut way: Vec<u64> = Vec::new();
        let mut missing = std::collections::BTreeMap::new();
        let (mut sent_by, mut samples) = (Vec::new(), Vec::new());
        let port = |sent, received| SamplePort {
            port: 0,
            sent_packets: sent,
            sent_bytes: 60 * sent,
            received_packets: received,
            received_bytes: 60 * received,
            lost_packets: 0,
            not_sent: 0,
            drained_packets: 0,
        };
        let mut take = |number: u64, missing: &mut std::collections::BTreeMap<u64, usize>| {
            tracker.take(1, number as u32, Some(5), 60, 1 << 20);
            u64::from(missing.remove(&number).is_some())
        };
        for step in steps {
            match *step {
                Step::Send { packets, refused: more } => {
                    let (packets, more) = (u64::from(packets), u64::from(more));
                    for number in next..next + packets - more {
                        way.push(number);
                        missing.insert(number, sent_by.len());
                    }
                    next += packets;
                    refused += more;
                }
                Step::Arrive(at) if !way.is_empty() => {
                    came += take(way.remove(usize::from(at) % way.len()), &mut missing);
                }
                Step::Lose(at) if !way.is_empty() => {
                    way.remove(usize::from(at) % way.len());
                }
                Step::Copy(at) if !way.is_empty() => {
                    came += take(way[usize::from(at) % way.len()], &mut missing);
                }
                Step::ArriveAll => {
                    for number in way.drain(..) {
                        came += take(number, &mut missing);
                    }
                }
                Step::Sample => {
                    cuts.push(next);
                    let sent = next - refused;
                    sent_by.push(sent);
                    samples.push(Sample {
                        at: samples.len() as f64 + 1.0,
                        epoch: sent_by.len() - 1,
                        ports: vec![port(sent, came)],
                    });
                }
                _ => {}
            }
        }
        tracker.settle(1 << 20);
        let Received { packets: received, by_epoch, .. } = tracker.finish();
        assert_eq!(received, came);
        let (sent, mut lost_of_epochs) = (next - refused, vec![0; sent_by.len() + 1]);
        missing.values().for_each(|epoch| lost_of_epochs[*epoch] += 1);
        let by = lost_by(&sent_by, &by_epoch, sent - received);
        for sample in &mut samples {
            sample.ports[0].lost_packets = by[sample.epoch];
        }
        let last = SamplePort { lost_packets: sent - received, ..port(sent, came) };
        samples.push(Sample { at: samples.len() as f64 + 1.0, epoch: sent_by.len(), ports: vec![last] });
        Recorded { samples, lost_of_epochs, sent, received }
    }

    proptest! {
        #[test]
        fn samples_add_up_to_the_run_and_lose_what_their_numbers_say(steps in prop::collection::vec(step(), 1..300)) {
            let recorded = record(&steps);
            let of_samples: Vec<SamplePort> =
                intervals(&recorded.samples).into_iter().map(|interval| interval.ports[0]).collect();
            let lost: Vec<u64> = of_samples.iter().map(|port| port.lost_packets).collect();
            // Each number that did not arrive was lost in the sample that sent it, so a sample in which more arrived
            // than was sent has loss only if such a number proves it.
            prop_assert_eq!(&lost, &recorded.lost_of_epochs);
            for port in &of_samples {
                prop_assert!(port.lost_packets <= port.sent_packets, "{:?}", port);
            }
            let sum = |of: fn(&SamplePort) -> u64| of_samples.iter().map(of).sum::<u64>();
            prop_assert_eq!(sum(|port| port.sent_packets), recorded.sent);
            prop_assert_eq!(sum(|port| port.received_packets), recorded.received);
            prop_assert_eq!(sum(|port| port.lost_packets), recorded.sent - recorded.received);
            // Points of a ramp are these samples, as rates.
            let points = ramp::points(&recorded.samples, &[(0, 1)], 1e9);
            prop_assert_eq!(points.len(), of_samples.len());
            for (point, of_sample) in points.iter().zip(&of_samples) {
                let port = &point.ports[0];
                prop_assert_eq!((port.sent_packets, port.lost_packets),
                    (of_sample.sent_packets, of_sample.lost_packets));
                prop_assert!((0.0..=1.0).contains(&port.loss));
                prop_assert_eq!(port.loss > 0.0, of_sample.lost_packets > 0);
            }
        }

        #[test]
        fn whatever_two_workers_counted_no_sample_loses_more_than_it_sent(
            sent in prop::collection::vec(0u64..100, 1..30),
            received in prop::collection::vec(0u64..120, 0..30),
        ) {
            let by: Vec<u64> = sent.iter().scan(0, |sum, sent| { *sum += sent; Some(*sum) }).collect();
            let lost = by[by.len() - 1].saturating_sub(received.iter().sum());
            let mut before = 0;
            for (lost_by, sent) in lost_by(&by, &received, lost).into_iter().zip(sent) {
                prop_assert!(lost_by >= before && lost_by - before <= sent && lost_by <= lost);
                before = lost_by;
            }
        }
    }
}
