//! Accounts for one sending worker's share of a stream, as it arrives on one receiving worker.
//!
//! Packets that arrive in order and were sent together cost a comparison and a count each. The histograms and the
//! window of seen numbers are updated once for all of them.

use crate::epochs::{self, Arrivals, Cuts};
use crate::tag::{Mark, TIME_SHIFT};
use graph::time;
use hdrhistogram::Histogram;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

/// How many sequence numbers below the highest are remembered: a copy that is further behind is not recognised.
const WINDOW: u64 = 1 << 18;
/// How many gaps in the sequence are remembered, to know how late a packet is that fills one.
const GAPS: usize = 4096;
/// How many of the longest delays are kept, and how far they are apart at least.
const OUTLIERS: usize = 16;
const APART: Duration = Duration::from_millis(10);
/// The longest delay that histograms hold. Stamps wrap around after 2^36 ticks, which may be earlier: 26 s at 2.6 GHz.
const LONGEST_NS: u64 = 60_000_000_000;

/// Packets that arrived in order, with the same stamp.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pending {
    pub count: u32,
    bytes: u32,
    stamp: u32,
    /// The mark of the next packet that continues them.
    next: Option<Mark>,
}

/// Packets that continue the pending ones, while no packet of another stream comes between.
#[derive(Debug, Clone, Copy)]
pub struct Run {
    next: Mark,
    expected: u32,
    count: u32,
    bytes: u32,
}

/// No interface has this number, so no packet can join.
const NOWHERE: u32 = u32::MAX;

impl Default for Run {
    fn default() -> Run {
        Run { next: Mark::default(), expected: NOWHERE, count: 0, bytes: 0 }
    }
}

impl Run {
    /// Adds a packet, if it continues the run. Returns whether it did.
    #[inline(always)]
    pub fn joins(&mut self, mark: Mark, interface: u32, length: u16) -> bool {
        let joins = mark == self.next && interface == self.expected;
        if joins {
            self.count += 1;
            self.bytes += u32::from(length);
            self.next = mark.next();
        }
        joins
    }

    /// Adds these packets of the same length, if all of them continue the run. Returns whether they did.
    #[inline(always)]
    pub fn joins_all<const N: usize>(&mut self, marks: [Mark; N], interface: u32, length: u16) -> bool {
        const { assert!(N > 0 && N < 1 << 15) }
        let Some(next) = self.next.ahead(N as u64) else { return false };
        let first = self.next;
        let differ = (0..N).fold(0, |differ, i| differ | marks[i].differ(first.plus(i as u64)));
        let join = differ == 0 && interface == self.expected;
        if join {
            self.count += N as u32;
            self.bytes += N as u32 * u32::from(length);
            self.next = next;
        }
        join
    }
}

/// Numbers that were skipped, how many packets had arrived by then, and when the packet after them was sent, in ticks.
#[derive(Debug, Clone, Copy)]
struct Gap {
    from: u64,
    to: u64,
    arrivals: u64,
    sent: u64,
    /// How many of its numbers have not arrived since.
    missing: u64,
}

/// What arrived of a stream.
#[derive(Debug, Clone)]
pub struct Received {
    /// Packets that had not arrived before, and their bytes.
    pub packets: u64,
    pub bytes: u64,
    /// How many of these packets were sent in each epoch of the samples.
    pub by_epoch: Vec<u64>,
    pub duplicates: u64,
    /// Packets that arrived after one that was sent later (RFC 4737, section 3.3).
    pub reordered: u64,
    /// The most packets between the first that was sent later and a reordered one (RFC 4737, section 4.2.2).
    pub reordering_extent: u64,
    /// Packets so far behind that it is not known whether they arrived before: `packets` does not include them.
    pub too_old: u64,
    /// Packets that arrived at another port than expected.
    pub elsewhere: u64,
    /// How often numbers were skipped, and the most in a row: packets that are lost, or still to arrive.
    pub gaps: u64,
    pub longest_gap: u64,
    /// One-way delays, in nanoseconds, to three digits.
    pub latency: Histogram<u64>,
    /// The least and the longest delay, exactly.
    pub least: u64,
    pub longest: u64,
    /// Differences of the delay from one packet to the next, without sign (IPDV, RFC 5481 section 3.1).
    pub ipdv: Histogram<u64>,
    /// The sum of all delays, in nanoseconds, and of how many packets it is.
    pub delays: u64,
    pub timed: u64,
    /// The times of the latest losses, in ticks and in order: when the packet after each gap was sent. Packets that the
    /// port did not take leave gaps, too.
    pub losses: Vec<u64>,
    /// There were earlier losses than those in `losses`.
    pub lost_before: bool,
    /// When the longest delay was seen, in ticks.
    pub worst_at: u64,
    /// The longest delays, and when they were seen, in ticks. Delays close to each other count as one.
    pub outliers: Vec<(u64, u64)>,
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 3).expect("the bounds make sense")
}

impl Default for Received {
    fn default() -> Received {
        Received {
            packets: 0,
            bytes: 0,
            by_epoch: Vec::new(),
            duplicates: 0,
            reordered: 0,
            reordering_extent: 0,
            too_old: 0,
            elsewhere: 0,
            gaps: 0,
            longest_gap: 0,
            latency: histogram(),
            least: u64::MAX,
            longest: 0,
            ipdv: histogram(),
            delays: 0,
            timed: 0,
            losses: Vec::new(),
            lost_before: false,
            worst_at: 0,
            outliers: Vec::with_capacity(OUTLIERS),
        }
    }
}

impl Received {
    /// Notes a delay, if it is among the longest.
    #[cold]
    fn stand_out(&mut self, ns: u64, at: u64) {
        let apart = time::to_ticks(APART);
        if let Some(near) = self.outliers.iter_mut().find(|(_, other)| at.abs_diff(*other) < apart) {
            *near = (*near).max((ns, at));
        } else if self.outliers.len() < OUTLIERS {
            self.outliers.push((ns, at));
        } else if let Some(least) = self.outliers.iter_mut().min()
            && least.0 < ns
        {
            *least = (ns, at);
        }
    }

    /// A delay above this is among the longest.
    #[inline]
    fn stands_out_above(&self) -> u64 {
        if self.outliers.len() < OUTLIERS { 0 } else { self.outliers.iter().map(|(ns, _)| *ns).min().unwrap_or(0) }
    }

    /// Adds what another worker has received of the same stream.
    pub fn add(&mut self, other: &Received) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        epochs::add(&mut self.by_epoch, &other.by_epoch);
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
        self.reordering_extent = self.reordering_extent.max(other.reordering_extent);
        self.too_old += other.too_old;
        self.elsewhere += other.elsewhere;
        self.gaps += other.gaps;
        self.longest_gap = self.longest_gap.max(other.longest_gap);
        other.outliers.iter().for_each(|&(ns, at)| self.stand_out(ns, at));
        if other.longest > self.longest {
            (self.longest, self.worst_at) = (other.longest, other.worst_at);
        }
        self.least = self.least.min(other.least);
        self.delays = self.delays.wrapping_add(other.delays);
        self.timed += other.timed;
        self.losses.extend(&other.losses);
        self.losses.sort_unstable();
        self.lost_before |= other.lost_before;
        self.latency.add(&other.latency).expect("they have the same bounds");
        self.ipdv.add(&other.ipdv).expect("they have the same bounds");
    }
}

/// Accounts for one share of a stream.
pub struct Tracker {
    pub received: Received,
    pub pending: Pending,
    /// The interface that its packets arrive by.
    pub expected: u32,
    /// The number after the highest that has arrived.
    next: u64,
    /// The number of the first pending packet.
    first: u64,
    /// A bit for each of the last numbers: whether it has arrived.
    seen: Box<[u64]>,
    gaps: VecDeque<Gap>,
    arrivals: u64,
    /// What arrived, by the epoch of the samples in which it was sent.
    by_epoch: Arrivals,
    /// The last packet that was timed: its number and its delay in units of the stamp.
    last: Option<(u64, u32)>,
    ns_per_unit: f64,
    /// A delay above this is among the longest.
    floor: u64,
}

impl Tracker {
    /// For a share whose packets arrive by the interface `expected`, and whose epochs end where `cuts` says.
    pub fn new(expected: u32, cuts: Arc<Cuts>) -> Tracker {
        Tracker {
            received: Received::default(),
            pending: Pending::default(),
            expected,
            floor: 0,
            next: 0,
            first: 0,
            seen: vec![0; (WINDOW / 64) as usize].into(),
            gaps: VecDeque::new(),
            arrivals: 0,
            by_epoch: Arrivals::new(cuts),
            last: None,
            ns_per_unit: f64::from(1 << TIME_SHIFT) / time::ticks_per_second() * 1e9,
        }
    }

    /// The run of packets that continue the pending ones. It must be [put back](Tracker::put_back) before anything else
    /// is done with them.
    #[inline(always)]
    pub fn run(&self) -> Run {
        match self.pending.next {
            Some(next) => Run { next, expected: self.expected, count: 0, bytes: 0 },
            None => Run::default(),
        }
    }

    /// The number after the highest that has arrived.
    pub fn reached(&self) -> u64 {
        self.next
    }

    /// Adds the packets of a run to the pending ones.
    #[inline(always)]
    pub fn put_back(&mut self, run: Run) {
        self.next += u64::from(run.count);
        self.pending.count += run.count;
        self.pending.bytes += run.bytes;
        if run.count > 0 {
            self.pending.next = Some(run.next);
        }
    }

    /// Takes a packet that does not continue a run. `stamp`: when it was sent, if its tag says that.
    pub fn take(&mut self, stream: u16, sequence: u32, stamp: Option<u32>, length: u16, now: u64) {
        self.settle(now);
        let ahead = sequence.wrapping_sub(self.next as u32).cast_signed();
        let Some(sequence) = self.next.checked_add_signed(ahead.into()) else {
            // Its number is before the first.
            self.received.too_old += 1;
            return;
        };
        if sequence < self.next {
            return self.take_late(sequence, stamp, length, now);
        }
        if sequence > self.next {
            // Without a stamp it counts as sent just now.
            let units = stamp.map_or(0, |stamp| crate::tag::stamp(now).wrapping_sub(stamp));
            self.jump(sequence, now.saturating_sub(u64::from(units) << TIME_SHIFT));
        }
        (self.first, self.next) = (sequence, sequence + 1);
        match stamp {
            Some(stamp) => {
                let next = Some(Mark::new(stream, self.next as u32, stamp));
                self.pending = Pending { count: 1, bytes: length.into(), stamp, next };
            }
            None => {
                self.mark(sequence, self.next);
                self.count(sequence, self.next, length.into());
            }
        }
    }

    /// Takes a packet with the small tag, which has only the lower half of its number.
    pub fn take_small(&mut self, stream: u16, low: u16, length: u16, now: u64) {
        let ahead = low.wrapping_sub(self.next as u16).cast_signed();
        let sequence = (self.next as u32).wrapping_add_signed(ahead.into());
        self.take(stream, sequence, None, length, now);
    }

    /// Counts packets of these numbers, which have not arrived before.
    fn count(&mut self, from: u64, to: u64, bytes: u64) {
        let packets = to - from;
        self.by_epoch.note(from, to);
        self.arrivals += packets;
        self.received.packets += packets;
        self.received.bytes += bytes;
    }

    /// Notes that numbers were skipped.
    #[cold]
    fn jump(&mut self, to: u64, sent: u64) {
        self.received.gaps += 1;
        self.received.longest_gap = self.received.longest_gap.max(to - self.next);
        if self.gaps.len() == GAPS {
            let forgotten = self.gaps.pop_front();
            self.received.lost_before |= forgotten.is_some_and(|gap| gap.missing > 0);
        }
        self.gaps.push_back(Gap { from: self.next, to, arrivals: self.arrivals, sent, missing: to - self.next });
        // They have not arrived, whatever was in their places of the window.
        let from = self.next.max(to.saturating_sub(WINDOW));
        self.each_word(from, to, |word, bits| *word &= !bits);
    }

    /// Takes a packet that was sent before one that has arrived already.
    #[cold]
    fn take_late(&mut self, sequence: u64, stamp: Option<u32>, length: u16, now: u64) {
        if self.next - sequence > WINDOW {
            self.received.too_old += 1;
            return;
        }
        let (word, bit) = ((sequence / 64 % (WINDOW / 64)) as usize, 1 << (sequence % 64));
        if self.seen[word] & bit != 0 {
            self.received.duplicates += 1;
            return;
        }
        self.seen[word] |= bit;
        // The extent counts packets that arrived since this number was skipped.
        let at = self.gaps.partition_point(|gap| gap.to <= sequence);
        if let Some(gap) = self.gaps.get_mut(at).filter(|gap| gap.from <= sequence) {
            gap.missing -= 1;
            let extent = self.arrivals - gap.arrivals;
            self.received.reordering_extent = self.received.reordering_extent.max(extent);
        }
        self.received.reordered += 1;
        self.count(sequence, sequence + 1, length.into());
        if let Some(stamp) = stamp {
            self.time(stamp, 1, now);
        }
    }

    /// What arrived, when nothing more will.
    pub fn finish(mut self) -> Received {
        self.received.losses = self.gaps.iter().filter(|gap| gap.missing > 0).map(|gap| gap.sent).collect();
        self.received.by_epoch = self.by_epoch.counts();
        self.received
    }

    /// Marks numbers that arrived in order.
    fn mark(&mut self, from: u64, to: u64) {
        // The first number of a word replaces what was there a window ago.
        self.each_word(from, to, |word, bits| *word |= bits);
    }

    /// Calls `act` with each word of the window that holds some of the numbers, and with their bits. A word whose first
    /// number is among them is cleared before.
    #[inline]
    fn each_word(&mut self, from: u64, to: u64, mut act: impl FnMut(&mut u64, u64)) {
        let mut at = from;
        while at < to {
            let end = ((at | 63) + 1).min(to);
            let bits = u64::MAX >> (64 - (end - at)) << (at % 64);
            let word = &mut self.seen[(at / 64 % (WINDOW / 64)) as usize];
            if at.is_multiple_of(64) {
                *word = 0;
            }
            act(word, bits);
            at = end;
        }
    }

    /// Accounts for the pending packets.
    pub fn settle(&mut self, now: u64) {
        let Pending { count, stamp, bytes, .. } = std::mem::take(&mut self.pending);
        if count == 0 {
            return;
        }
        self.mark(self.first, self.next);
        self.count(self.first, self.next, bytes.into());
        let delay = self.time(stamp, count.into(), now);
        if let Some((last, before)) = self.last
            && last + 1 == self.first
        {
            let change = (f64::from(delay.abs_diff(before)) * self.ns_per_unit) as u64;
            self.received.ipdv.saturating_record(change);
        }
        if count > 1 {
            self.received.ipdv.saturating_record_n(0, u64::from(count) - 1);
        }
        self.last = Some((self.next - 1, delay));
    }

    /// Notes the delay of packets, and returns it in units of the stamp.
    #[inline]
    fn time(&mut self, stamp: u32, packets: u64, now: u64) -> u32 {
        let units = crate::tag::stamp(now).wrapping_sub(stamp);
        let ns = (f64::from(units) * self.ns_per_unit) as u64;
        if ns > self.received.longest {
            (self.received.longest, self.received.worst_at) = (ns, now);
        }
        if ns > self.floor {
            self.received.stand_out(ns, now);
            self.floor = self.received.stands_out_above();
        }
        self.received.least = self.received.least.min(ns);
        self.received.delays = self.received.delays.wrapping_add(ns.wrapping_mul(packets));
        self.received.timed += packets;
        self.received.latency.saturating_record_n(ns, packets);
        units
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    /// A tracker without epochs.
    fn fresh(expected: u32) -> Tracker {
        Tracker::new(expected, Arc::default())
    }

    #[test]
    fn the_longest_delays_are_kept_with_their_time_and_those_close_by_are_one() {
        let ms = time::to_ticks(Duration::from_millis(1));
        let unit = 1u64 << TIME_SHIFT;
        let mut tracker = fresh(0);
        // Every 20 ms one packet; the 50th and the 70th are late, and two right behind the 70th as well.
        let mut n = 0;
        let mut take = |tracker: &mut Tracker, at: u64, late: u64| {
            let sent = at - late;
            tracker.take(1, n, Some(crate::tag::stamp(sent)), 60, at);
            tracker.settle(at);
            n += 1;
        };
        for k in 1..100u64 {
            let at = k * 20 * ms / unit * unit;
            let late = match k {
                50 => 5 * ms,
                70 => 7 * ms,
                _ => k * unit,
            };
            take(&mut tracker, at, late);
            if k == 70 {
                take(&mut tracker, at + ms, 6 * ms);
                take(&mut tracker, at + 2 * ms, 7 * ms + ms / 2);
            }
        }
        let mut outliers = tracker.received.outliers.clone();
        outliers.sort_unstable();
        assert_eq!(outliers.len(), OUTLIERS);
        let [.., (second, at_second), (first, at_first)] = outliers[..] else { panic!("{outliers:?}") };
        assert!(first.abs_diff(7_500_000) < 10_000 && second.abs_diff(5_000_000) < 10_000, "{outliers:?}");
        assert!(at_first.abs_diff(70 * 20 * ms + 2 * ms) <= unit && at_second.abs_diff(50 * 20 * ms) <= unit);
        // The rest are the longest of the other delays: those that came last.
        assert!(outliers[..OUTLIERS - 2].iter().all(|(_, at)| *at > 80 * 20 * ms), "{outliers:?}");
    }

    #[test]
    fn nothing_joins_packets_that_have_not_come() {
        let tracker = fresh(0);
        for mut run in [tracker.run(), Run::default()] {
            assert!(!run.joins(Mark::default(), 0, 100));
            assert!(!run.joins_all(std::array::from_fn::<_, 8, _>(|n| Mark::new(0, n as u32, 0)), 0, 100));
        }
    }

    #[test]
    fn those_that_are_alike_join_at_once_or_not_at_all() {
        let block = |first: u32| std::array::from_fn::<_, 8, _>(|n| Mark::new(3, first.wrapping_add(n as u32), 5));
        let mut tracker = fresh(9);
        tracker.take(3, 100, Some(5), 60, 0);
        let mut run = tracker.run();
        assert!(run.joins_all(block(101), 9, 60));
        assert!(!run.joins_all(block(110), 9, 60), "one is missing");
        assert!(!run.joins_all(block(109), 8, 60), "they came elsewhere");
        let mut changed = block(109);
        changed[7] = Mark::new(4, 116, 5);
        assert!(!run.joins_all(changed, 9, 60), "the last is of another stream");
        assert!(run.joins_all(block(109), 9, 60));
        tracker.put_back(run);
        tracker.settle(0);
        assert_eq!((tracker.received.packets, tracker.received.bytes), (17, 17 * 60));
        // Where the lower half of the number wraps around, packets are checked one by one.
        let mut tracker = fresh(9);
        tracker.take(3, 0xfffb, Some(5), 60, 0);
        let mut run = tracker.run();
        assert!(!run.joins_all(block(0xfffc), 9, 60));
        assert!(block(0xfffc).into_iter().all(|mark| run.joins(mark, 9, 60)));
    }

    /// What a tracker has received after these numbers, one after the other.
    fn track(numbers: &[u32]) -> Received {
        let mut tracker = fresh(0);
        for &n in numbers {
            let mut run = tracker.run();
            if run.joins(Mark::new(3, n, 5), 0, 100) {
                tracker.put_back(run);
            } else {
                tracker.take(3, n, Some(5), 100, 1 << 20);
            }
        }
        tracker.settle(1 << 20);
        tracker.received
    }

    #[test]
    fn what_comes_in_turn_is_counted_once_each() {
        let numbers: Vec<u32> = (0..1_000_000).collect();
        let received = track(&numbers);
        assert_eq!((received.packets, received.bytes), (1_000_000, 100_000_000));
        assert_eq!((received.duplicates, received.reordered, received.gaps, received.too_old), (0, 0, 0, 0));
        assert_eq!(received.latency.len(), 1_000_000);
        assert_eq!(received.ipdv.max(), 0);
    }

    #[test]
    fn late_ones_and_copies_are_told_apart() {
        let received = track(&[0, 1, 2, 5, 6, 3, 3, 7, 4, 6, 8]);
        assert_eq!((received.packets, received.duplicates, received.reordered), (9, 2, 2));
        // 3 came behind 5 and 6; 4 behind 5, 6, 3 and 7.
        assert_eq!((received.reordering_extent, received.gaps, received.longest_gap), (4, 1, 2));
    }

    #[test]
    fn numbers_go_round() {
        let mut tracker = fresh(0);
        tracker.next = u64::from(u32::MAX) - 1;
        for n in [u32::MAX - 1, u32::MAX, 0, 1, 3, 2] {
            tracker.take(3, n, Some(0), 1, 0);
        }
        tracker.settle(0);
        assert_eq!(tracker.next, (1 << 32) + 4);
        assert_eq!((tracker.received.packets, tracker.received.reordered), (6, 1));
        for n in 4..100_000u32 {
            tracker.take_small(3, n as u16, 1, 0);
        }
        assert_eq!(tracker.next, (1 << 32) + 100_000);
        assert_eq!((tracker.received.packets, tracker.received.gaps), (100_002, 1));
    }

    #[test]
    fn what_is_older_than_the_window_is_not_taken_for_anything() {
        let mut tracker = fresh(0);
        tracker.take(3, 0, Some(0), 1, 0);
        tracker.take(3, WINDOW as u32 + 10, Some(0), 1, 0);
        tracker.take(3, 5, Some(0), 1, 0);
        tracker.take(3, 11, Some(0), 1, 0);
        tracker.settle(0);
        let Received { packets, too_old, reordered, longest_gap, .. } = tracker.received;
        assert_eq!((packets, too_old, reordered, longest_gap), (3, 1, 1, WINDOW + 9));
    }

    #[test]
    fn the_last_loss_is_told_by_the_packet_behind_it_and_what_was_late_is_not_lost() {
        // Each packet is sent a unit of time after the one before, and arrives two units later.
        let unit = 1u64 << TIME_SHIFT;
        let track = |numbers: &[u32]| {
            let mut tracker = fresh(0);
            for &n in numbers {
                let sent = 1000 * unit + u64::from(n) * unit;
                tracker.take(1, n, Some(crate::tag::stamp(sent)), 60, sent + 2 * unit);
            }
            let received = Box::new(tracker).finish();
            assert!(!received.lost_before);
            received.losses.last().map(|at| at / unit - 1000)
        };
        assert_eq!(track(&[0, 1, 2, 3]), None);
        assert_eq!(track(&[0, 1, 4, 5, 8, 9]), Some(8));
        // 6 and 7 were late, 2 and 3 are lost.
        assert_eq!(track(&[0, 1, 4, 5, 8, 6, 7, 9]), Some(4));
        assert_eq!(track(&[0, 1, 4, 5, 8, 6, 9]), Some(8));
        assert_eq!(track(&[0, 2, 1]), None);
        // So long ago that what still arrives is too old.
        assert_eq!(track(&[0, 2, WINDOW as u32 + 10]), Some(u64::from(WINDOW as u32) + 10));
    }

    #[test]
    fn delays_and_their_changes_are_in_nanoseconds() {
        let mut tracker = fresh(0);
        let units = |ns: f64| (ns / tracker.ns_per_unit) as u32;
        let (ten, fifteen) = (units(10_000.0), units(15_000.0));
        let now = u64::from(u32::MAX) << TIME_SHIFT;
        for (n, delay) in [(0, ten), (1, ten), (2, fifteen), (4, ten)] {
            tracker.take(3, n, Some(u32::MAX - delay), 1, now);
        }
        tracker.settle(now);
        let Received { least, longest, ipdv, worst_at, .. } = &tracker.received;
        assert!((9_980..10_001).contains(least) && (14_980..15_001).contains(longest), "{least} {longest}");
        // From 0 to 1 none, from 1 to 2 five microseconds; 3 is missing.
        assert_eq!(ipdv.len(), 2);
        assert!((4_950..5_050).contains(&ipdv.max()));
        assert_eq!(*worst_at, now);
    }

    proptest! {
        #[test]
        fn any_order_is_accounted_for_as_by_a_set(steps in prop::collection::vec((-300i64..300, 1u32..200), 1..400)) {
            let mut at = 400i64;
            let mut numbers = Vec::new();
            for (jump, run) in steps {
                at = (at + jump).max(0);
                for _ in 0..run {
                    numbers.push(at as u32);
                    at += 1;
                }
            }
            let (mut seen, mut highest) = (HashSet::new(), -1i64);
            let (mut duplicates, mut reordered) = (0, 0);
            for &n in &numbers {
                if !seen.insert(n) {
                    duplicates += 1;
                } else if i64::from(n) < highest {
                    reordered += 1;
                }
                highest = highest.max(n.into());
            }
            let received = track(&numbers);
            prop_assert_eq!(received.packets, seen.len() as u64);
            prop_assert_eq!(received.duplicates, duplicates);
            prop_assert_eq!(received.reordered, reordered);
            prop_assert_eq!(received.too_old, 0);
            prop_assert_eq!(received.latency.len(), seen.len() as u64);
        }
    }
}
