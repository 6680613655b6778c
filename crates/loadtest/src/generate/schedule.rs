//! When packets are due.
//!
//! Each stream has the time of its next packet, in fractions of a tick, which advances by the stream's interval. So a
//! rate is met for hours, however often the schedule is polled. Packets of several streams come out in the order of
//! their times.

use crate::profile::Mode;
use crate::rate::Pace;
use graph::time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::sync::Arc;
use std::time::Duration;

/// Bits of a tick after the binary point. At 2.6 GHz ten days fit before it, and at 60 Mpps an interval is rounded by
/// less than two millionths.
const FRACTION: u32 = 13;
/// Packets that are late by more than this are not sent, unless they are few: after a pause the device under test must
/// not get a burst that the profile does not have.
const PATIENCE: Duration = Duration::from_micros(100);
const FEW: u64 = 32;
/// The mean interval of packets at the maximum rate.
const MEAN_INTERVAL: f64 = (1 << 18) as f64;
/// Later than any packet.
const NEVER: u64 = u64::MAX;

/// One worker's share of a stream.
#[derive(Debug, Clone)]
pub struct Line {
    /// Packets a second at a factor of 1.
    pub rate: f64,
    pub mode: Mode,
    /// Seconds to the first packet.
    pub isg: f64,
    pub share: usize,
    pub shares: usize,
    /// `next`: the stream that begins when this one has ended. `waits`: this one begins only when another has ended.
    pub next: Option<usize>,
    pub waits: bool,
    /// Nanoseconds from each packet to the next, over and over, in place of the rate. The first worker sends all of
    /// them.
    pub gaps: Option<Arc<[u64]>>,
}

struct Times {
    line: Line,
    interval: u64,
    gap: u64,
    /// Packets left in this burst, and bursts left after it.
    left: u64,
    bursts: u64,
    /// With gaps: fractions of a tick in a nanosecond at the present pace, and which gap comes next.
    scale: f64,
    gap_at: usize,
}

/// The times of a port's streams on one worker.
pub struct Schedule {
    times: Vec<Times>,
    /// The next packet of each stream that goes on: its time and its stream.
    next: BinaryHeap<Reverse<(u64, u16)>>,
    pace: Pace,
    /// When it began, in ticks.
    start: u64,
    patience: u64,
    /// Packets that may still be sent, of all streams together.
    left: u64,
}

/// What is due.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Due {
    pub packets: usize,
    /// How late the first packet is, in ticks.
    pub late: u64,
}

impl Schedule {
    /// A schedule that starts at a time in ticks.
    pub fn new(lines: &[Line], pace: Pace, start: u64) -> Schedule {
        let mut schedule = Schedule {
            times: lines.iter().map(|line| Times::new(line.clone())).collect(),
            next: BinaryHeap::new(),
            pace,
            start,
            patience: 0,
            left: u64::MAX,
        };
        schedule.set_intervals();
        let begun: Vec<usize> = (0..lines.len()).filter(|stream| !lines[*stream].waits).collect();
        for stream in begun {
            schedule.begin(stream, 0);
        }
        schedule
    }

    /// Makes a stream begin when its gap after the time `after` has passed. If this share has no packet of it, the
    /// stream after it begins.
    fn begin(&mut self, stream: usize, after: u64) {
        let (mut stream, mut after) = (stream, after);
        // Each stream is begun once at most, because streams may follow each other in a circle.
        for _ in 0..self.times.len() {
            let is_paused = self.is_paused();
            let times = &mut self.times[stream];
            times.begin();
            let isg = (times.line.isg * time::ticks_per_second() * f64::from(1 << FRACTION)) as u64;
            let first = after.saturating_add(isg);
            if times.left > 0 {
                // Shares take turns; during a pause there are none.
                let turn = match is_paused {
                    true => 0,
                    false => times.turn() * times.line.share as u64,
                };
                self.next.push(Reverse((first.saturating_add(turn), stream as u16)));
                return;
            }
            let Some(next) = times.line.next else { return };
            (stream, after) = (next, first.saturating_add(times.length()));
        }
    }

    /// Goes on with the stream after one whose last packet of this share was due at `last`.
    fn follow(&mut self, stream: u16, last: u64) {
        let times = &self.times[usize::from(stream)];
        let Some(next) = times.line.next else { return };
        // Turns from this share's last packet to the end of the whole stream.
        let own = times.own(times.packets());
        let behind = times.packets() - (times.line.share as u64 + (own.max(1) - 1) * times.line.shares as u64);
        self.begin(next, last.saturating_add(times.turn() * behind));
    }

    /// The same schedule, which ends after this many packets of all streams together.
    pub fn limited_to(mut self, packets: u64) -> Schedule {
        self.left = packets;
        self
    }

    fn set_intervals(&mut self) {
        let factor = match self.pace {
            Pace::Factor(factor) => factor,
            // Only the order of times matters. With this interval they suffice for as many packets as there will ever
            // be.
            Pace::Maximum => {
                let rate: f64 = self.times.iter().map(|times| times.line.rate / times.line.shares as f64).sum();
                time::ticks_per_second() * f64::from(1 << FRACTION) / MEAN_INTERVAL / rate.max(f64::MIN_POSITIVE)
            }
        };
        for times in &mut self.times {
            times.interval = times.interval(factor);
            times.scale = time::ticks_per_second() * f64::from(1 << FRACTION) / 1e9 / factor.max(f64::MIN_POSITIVE);
        }
        let rate: f64 = self.times.iter().map(|times| 1.0 / times.interval as f64).sum();
        self.patience = (time::to_ticks(PATIENCE) << FRACTION).max((FEW as f64 / rate) as u64);
    }

    /// Goes on at another pace from now on.
    pub fn set_pace(&mut self, pace: Pace, now: u64) {
        let now = self.place(now);
        let before: Vec<u64> = self.times.iter().map(|times| times.interval).collect();
        let paused = self.is_paused();
        self.pace = pace;
        if self.is_paused() {
            return;
        }
        self.set_intervals();
        let next = std::mem::take(&mut self.next).into_iter().map(|Reverse((at, stream))| {
            let (old, new) = (before[usize::from(stream)], self.times[usize::from(stream)].interval);
            // What is left of an interval changes as the interval does; a gap stays.
            let ahead = at.saturating_sub(now);
            let at = match () {
                () if paused => now.max(at),
                () if ahead <= old || self.times[usize::from(stream)].line.gaps.is_some() => {
                    now.saturating_add((ahead as f64 / old as f64 * new as f64) as u64)
                }
                () => at,
            };
            Reverse((at, stream))
        });
        self.next = next.collect();
    }

    pub fn is_paused(&self) -> bool {
        matches!(self.pace, Pace::Factor(factor) if factor <= 0.0)
    }

    pub fn is_limited(&self) -> bool {
        self.pace != Pace::Maximum
    }

    /// Whether no packet will ever be due again.
    pub fn has_ended(&self) -> bool {
        self.next.is_empty() || self.left == 0
    }

    fn place(&self, ticks: u64) -> u64 {
        ticks.saturating_sub(self.start) << FRACTION
    }

    /// Writes the streams of due packets to `order`, as many as it has room for. Calls `missed` with a stream, and how
    /// many of its packets are too late to be sent.
    #[inline]
    pub fn due(&mut self, now: u64, order: &mut [u16], missed: impl FnMut(u16, u64)) -> Due {
        if self.is_paused() || now < self.start || self.left == 0 {
            return Due::default();
        }
        if self.left == u64::MAX {
            return self.next_due(now, order, missed);
        }
        let most = usize::try_from(self.left).map_or(order.len(), |left| left.min(order.len()));
        let due = self.next_due(now, &mut order[..most], missed);
        self.left -= due.packets as u64;
        due
    }

    #[inline]
    fn next_due(&mut self, now: u64, order: &mut [u16], mut missed: impl FnMut(u16, u64)) -> Due {
        let now = if self.is_limited() { self.place(now) } else { NEVER - 1 };
        let is_limited = self.is_limited();
        let mut due = Due::default();
        let is_even = |next: &Reverse<(u64, u16)>| self.times[usize::from(next.0.1)].line.gaps.is_none();
        if self.next.len() == 1 && (!is_limited || self.next.peek().is_some_and(is_even)) {
            // One stream: all its packets at once.
            let mut top = self.next.peek_mut().expect("there is one");
            let Reverse((at, stream)) = &mut *top;
            let times = &mut self.times[usize::from(*stream)];
            if *at > now {
                return due;
            }
            if is_limited {
                *at = times.skip(*at, now, self.patience, |n| missed(*stream, n));
                due.late = now.saturating_sub(*at) >> FRACTION;
            }
            let most = order.len() as u64;
            let packets = if is_limited { ((now - *at) / times.interval + 1).min(most) } else { most };
            let packets = packets.min(times.left);
            order[..packets as usize].fill(*stream);
            due.packets = packets as usize;
            let last = at.saturating_add(packets.saturating_sub(1).saturating_mul(times.interval));
            match times.advance(*at, packets) {
                Some(then) => *at = then,
                None => {
                    let Reverse((_, stream)) = PeekMut::pop(top);
                    self.follow(stream, if is_limited { last } else { 0 });
                }
            }
            return due;
        }
        while due.packets < order.len() {
            let Some(mut top) = self.next.peek_mut() else { break };
            let Reverse((at, stream)) = &mut *top;
            if *at > now {
                break;
            }
            let times = &mut self.times[usize::from(*stream)];
            if is_limited {
                *at = times.skip(*at, now, self.patience, |n| missed(*stream, n));
            }
            if due.packets == 0 && is_limited {
                due.late = now.saturating_sub(*at) >> FRACTION;
            }
            order[due.packets] = *stream;
            due.packets += 1;
            let then = if is_limited { times.advance_one(*at) } else { times.advance(*at, 1) };
            match then {
                Some(then) => *at = then,
                None => {
                    let Reverse((last, stream)) = PeekMut::pop(top);
                    self.follow(stream, last);
                }
            }
        }
        due
    }
}

impl Times {
    fn new(line: Line) -> Times {
        let (left, bursts, gap) = match line.mode {
            Mode::Continuous => (u64::MAX, 0, 0.0),
            Mode::Burst { packets } => (packets, 0, 0.0),
            Mode::MultiBurst { packets, gap, bursts } => (packets, bursts.unwrap_or(u64::MAX).saturating_sub(1), gap),
        };
        let gap = (gap * time::ticks_per_second() * f64::from(1 << FRACTION)) as u64;
        let mut times = Times { line, interval: NEVER, gap, left, bursts, scale: 0.0, gap_at: 0 };
        times.left = times.own(left);
        times
    }

    /// Starts again, as when it was new.
    fn begin(&mut self) {
        let Times { left, bursts, .. } = Times::new(self.line.clone());
        (self.left, self.bursts, self.gap_at) = (left, bursts, 0);
    }

    /// The time from a packet of the whole stream to the next.
    fn turn(&self) -> u64 {
        self.interval / self.line.shares as u64
    }

    /// Packets of the whole stream in one burst.
    fn packets(&self) -> u64 {
        match self.line.mode {
            Mode::Continuous => u64::MAX,
            Mode::Burst { packets } | Mode::MultiBurst { packets, .. } => packets,
        }
    }

    /// How long the whole stream takes from its beginning, when it has an end.
    fn length(&self) -> u64 {
        let burst = self.turn().saturating_mul(self.packets());
        let others = (burst - self.turn().min(burst)).saturating_add(self.gap).saturating_mul(self.bursts);
        burst.saturating_add(others)
    }

    /// The time of the packet after one, by its own gap if the stream has gaps.
    #[inline(always)]
    fn advance_one(&mut self, at: u64) -> Option<u64> {
        let Some(gaps) = &self.line.gaps else { return self.advance(at, 1) };
        let gap = gaps[self.gap_at];
        self.gap_at = if self.gap_at + 1 < gaps.len() { self.gap_at + 1 } else { 0 };
        Some(at.saturating_add((gap as f64 * self.scale) as u64))
    }

    /// How many of a stream's packets this share has.
    fn own(&self, packets: u64) -> u64 {
        if self.line.gaps.is_some() && self.line.share > 0 {
            return 0;
        }
        if packets == u64::MAX {
            return packets;
        }
        let (share, shares) = (self.line.share as u64, self.line.shares as u64);
        packets / shares + u64::from(share < packets % shares)
    }

    fn interval(&self, factor: f64) -> u64 {
        // One worker sends all of a capture with its own timing.
        let shares = if self.line.gaps.is_some() { 1 } else { self.line.shares };
        let rate = self.line.rate * factor / shares as f64;
        let ticks = time::ticks_per_second() / rate * f64::from(1 << FRACTION);
        // At a rate of 0 this is never.
        (ticks.round() as u64).max(1)
    }

    /// Leaves out packets that are too late. Returns the time of the next one.
    #[inline(always)]
    fn skip(&mut self, at: u64, now: u64, patience: u64, missed: impl FnOnce(u64)) -> u64 {
        let late = now - at;
        if late <= patience {
            return at;
        }
        if self.left != u64::MAX || self.line.gaps.is_some() {
            // A burst sends all its packets, only later. So does a capture, whose gaps belong to its packets.
            return now;
        }
        let skipped = (late - patience) / self.interval;
        if skipped > 0 {
            missed(skipped);
        }
        at + skipped * self.interval
    }

    /// The time of the next packet after this many. None: there is no more.
    #[inline(always)]
    fn advance(&mut self, at: u64, packets: u64) -> Option<u64> {
        let then = at.saturating_add(packets.saturating_mul(self.interval));
        if self.left == u64::MAX {
            return Some(then);
        }
        self.left -= packets;
        if self.left > 0 {
            return Some(then);
        }
        if self.bursts == 0 {
            return None;
        }
        self.bursts -= u64::from(self.bursts != u64::MAX);
        let Mode::MultiBurst { packets, .. } = self.line.mode else { return None };
        self.left = self.own(packets);
        // The gap is from the last packet of one burst to the first of the next.
        Some((then - self.interval).saturating_add(self.gap).max(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(rate: f64) -> Line {
        let mode = Mode::Continuous;
        Line { rate, mode, isg: 0.0, share: 0, shares: 1, next: None, waits: false, gaps: None }
    }

    /// Polls every `step` seconds for `length` seconds. Returns the time and the stream of each packet, and how many
    /// were left out.
    fn run(schedule: &mut Schedule, length: f64, step: f64) -> (Vec<(f64, u16)>, u64) {
        let (mut came, mut skipped) = (Vec::new(), 0);
        for n in 0..(length / step) as u64 {
            let now = n as f64 * step;
            let ticks = schedule.start + (now * time::ticks_per_second()) as u64;
            let mut order = [0; 256];
            let due = schedule.due(ticks, &mut order, |_, n| skipped += n);
            came.extend(order[..due.packets].iter().map(|stream| (now, *stream)));
        }
        (came, skipped)
    }

    #[test]
    fn a_rate_is_met_whenever_it_is_asked_for() {
        for (rate, step) in [(1000.0, 1e-5), (1e6, 1e-6), (1e6, 3.3e-5), (10e6, 1e-5)] {
            let mut schedule = Schedule::new(&[line(rate)], Pace::Factor(1.0), 1000);
            let (came, skipped) = run(&mut schedule, 0.5, step);
            assert!((came.len() as f64 / rate / 0.5 - 1.0).abs() < 1e-3, "{rate}: {}", came.len());
            assert_eq!(skipped, 0);
        }
    }

    #[test]
    fn streams_come_in_the_order_of_their_times() {
        let lines = [line(2000.0), Line { isg: 0.1, ..line(1000.0) }];
        let mut schedule = Schedule::new(&lines, Pace::Factor(1.0), 0);
        let (came, _) = run(&mut schedule, 0.2, 1e-5);
        assert!(came.iter().all(|(at, stream)| *stream == 0 || *at >= 0.1));
        let late: String =
            came.iter().filter(|(at, _)| *at > 0.15).take(9).map(|(_, stream)| stream.to_string()).collect();
        assert!(late.contains("001001"), "{late}");
        assert_eq!(came.iter().filter(|(_, stream)| *stream == 1).count(), 100);
    }

    #[test]
    fn a_limit_is_of_all_streams_together() {
        for lines in [vec![line(1e6)], vec![line(3e5), line(7e5)]] {
            let mut schedule = Schedule::new(&lines, Pace::Factor(1.0), 1000).limited_to(1000);
            assert!(!schedule.has_ended());
            let (came, skipped) = run(&mut schedule, 0.01, 1e-5);
            assert_eq!((came.len(), skipped, schedule.has_ended()), (1000, 0, true));
            assert!(came.last().unwrap().0 < 1.1e-3);
        }
    }

    #[test]
    fn what_is_too_late_is_left_out_and_told() {
        for lines in [vec![line(1e6)], vec![line(5e5), line(5e5)]] {
            let mut schedule = Schedule::new(&lines, Pace::Factor(1.0), 0);
            let (mut skipped, mut order) = (0, [0; 256]);
            let after = |seconds: f64| (seconds * time::ticks_per_second()) as u64;
            assert_eq!(schedule.due(after(0.0), &mut order, |_, n| skipped += n).packets, lines.len());
            // Ten milliseconds are ten thousand packets; a hundred are still sent.
            let due = schedule.due(after(0.010), &mut order, |_, n| skipped += n);
            assert!((99..=103).contains(&due.packets), "{}", due.packets);
            assert!((9_890..=9_902).contains(&skipped), "{skipped}");
            assert!(due.late <= after(103e-6) && due.late >= after(97e-6), "{}", due.late);
        }
    }

    #[test]
    fn bursts_have_all_their_packets_however_late() {
        for streams in [1, 2] {
            let burst = Line { mode: Mode::Burst { packets: 1000 }, ..line(1e6) };
            let mut schedule = Schedule::new(&vec![burst.clone(); streams], Pace::Factor(1.0), 0);
            let (mut order, mut sent) = ([0; 256], 0);
            // Half a millisecond too late, then every ten microseconds.
            for n in 0..1000 {
                let now = ((500e-6 + f64::from(n) * 10e-6) * time::ticks_per_second()) as u64;
                let due = schedule.due(now, &mut order, |_, _| panic!("nothing is left out"));
                assert!(due.packets <= 11 * streams, "{} at once", due.packets);
                sent += due.packets;
            }
            assert_eq!(sent, 1000 * streams);
        }
    }

    #[test]
    fn bursts_have_their_packets_and_their_gaps() {
        let burst = Line { mode: Mode::Burst { packets: 25 }, ..line(1e4) };
        let mut schedule = Schedule::new(&[burst], Pace::Factor(1.0), 0);
        let (came, _) = run(&mut schedule, 0.1, 1e-5);
        assert_eq!(came.len(), 25);
        assert!(schedule.has_ended());
        let mode = Mode::MultiBurst { packets: 10, gap: 0.01, bursts: Some(3) };
        for lines in
            [vec![Line { mode, ..line(1e4) }], vec![Line { mode, ..line(1e4) }, Line { isg: 50.0, ..line(1.0) }]]
        {
            let mut schedule = Schedule::new(&lines, Pace::Factor(1.0), 0);
            let (came, _) = run(&mut schedule, 0.2, 1e-5);
            let times: Vec<f64> = came.iter().map(|(at, _)| *at).collect();
            assert_eq!(times.len(), 30);
            assert!(
                (times[10] - times[9] - 0.01).abs() < 3e-5 && (times[1] - times[0] - 1e-4).abs() < 3e-5,
                "{times:?}"
            );
        }
    }

    #[test]
    fn workers_share_a_stream_out() {
        let mut counts = Vec::new();
        for share in 0..3 {
            let line = Line { share, shares: 3, mode: Mode::Burst { packets: 100 }, ..line(3e4) };
            let (came, _) = run(&mut Schedule::new(&[line], Pace::Factor(1.0), 0), 0.1, 1e-6);
            assert!((came[0].0 - share as f64 / 3e4).abs() < 2e-5);
            counts.push(came.len());
        }
        assert_eq!(counts, [34, 33, 33]);
    }

    #[test]
    fn a_stream_begins_when_the_one_before_it_has_ended() {
        let burst = |packets, rate| Line { mode: Mode::Burst { packets }, ..line(rate) };
        for shares in [1, 3] {
            let mut came: Vec<(f64, u16)> = Vec::new();
            for share in 0..shares {
                let lines = [
                    Line { next: Some(1), ..burst(10, 1e3) },
                    // One packet: of three workers two have none of it.
                    Line { next: Some(2), waits: true, isg: 0.005, ..burst(1, 1e3) },
                    Line { waits: true, ..burst(20, 1e4) },
                ];
                let lines = lines.map(|line| Line { share, shares, ..line });
                let mut schedule = Schedule::new(&lines, Pace::Factor(1.0), 0);
                came.extend(run(&mut schedule, 0.05, 1e-5).0);
                assert!(schedule.has_ended());
            }
            came.sort_by(|a, b| a.0.total_cmp(&b.0));
            let order: String = came.iter().map(|(_, stream)| stream.to_string()).collect();
            assert_eq!(order, format!("{}1{}", "0".repeat(10), "2".repeat(20)), "{shares}");
            // Ten packets a millisecond apart, a gap of five milliseconds, one packet, and an interval later the next
            // stream.
            for (at, wanted) in [(9, 0.009), (10, 0.015), (11, 0.016), (30, 0.0179)] {
                assert!((came[at].0 - wanted).abs() < 5e-5, "{shares}: packet {at} at {}", came[at].0);
            }
        }
        // In a circle there is no end, and twice as fast it takes half as long.
        let lines = [Line { next: Some(1), ..burst(2, 1e3) }, Line { next: Some(0), waits: true, ..burst(3, 1e3) }];
        let mut schedule = Schedule::new(&lines, Pace::Factor(2.0), 0);
        let (came, _) = run(&mut schedule, 0.0099, 1e-5);
        assert_eq!(came.iter().map(|(_, stream)| stream.to_string()).collect::<String>(), "00111001110011100111");
        assert!(!schedule.has_ended());
        // Streams at the maximum rate keep their order, too.
        let lines = [Line { next: Some(1), ..burst(300, 1e3) }, Line { waits: true, ..burst(5, 1e3) }];
        let mut schedule = Schedule::new(&lines, Pace::Maximum, 0);
        let mut all = Vec::new();
        for now in 0..5 {
            let mut order = [9; 256];
            let due = schedule.due(now, &mut order, |_, _| panic!("nothing is late"));
            all.extend_from_slice(&order[..due.packets]);
        }
        assert_eq!(all, [vec![0; 300], vec![1; 5]].concat());
    }

    #[test]
    fn a_burst_of_fewer_packets_than_workers_is_sent_once() {
        let mut sent = 0;
        for share in 0..4 {
            let lines =
                [1e3, 2e3].map(|rate| Line { mode: Mode::Burst { packets: 2 }, share, shares: 4, ..line(rate) });
            sent += run(&mut Schedule::new(&lines, Pace::Factor(1.0), 0), 0.05, 1e-5).0.len();
        }
        assert_eq!(sent, 4);
    }

    #[test]
    fn a_capture_keeps_its_own_timing() {
        let gaps: Arc<[u64]> = [1_000_000, 4_000_000, 0, 2_000_000].into();
        for (factor, others) in [(1.0, 0), (2.0, 0), (1.0, 1)] {
            for shares in [1, 2] {
                let mut came = Vec::new();
                for share in 0..shares {
                    let own = Line { gaps: Some(gaps.clone()), share, shares, ..line(4.0 / 0.007) };
                    let mut lines = vec![own];
                    lines.extend(vec![Line { isg: 9.0, share, shares, ..line(1.0) }; others]);
                    let mut schedule = Schedule::new(&lines, Pace::Factor(factor), 0);
                    came.extend(run(&mut schedule, 0.0139 / factor, 1e-5).0);
                }
                let wanted = [0.0, 1.0, 5.0, 5.0, 7.0, 8.0, 12.0, 12.0];
                assert_eq!(came.len(), wanted.len(), "{factor} {others} {shares}");
                for ((at, _), wanted) in came.iter().zip(wanted) {
                    assert!((at - wanted / 1e3 / factor).abs() < 3e-5, "{at}, not {wanted} ms");
                }
            }
        }
    }

    #[test]
    fn the_pace_changes_at_once_and_stops_at_nothing() {
        let mut schedule = Schedule::new(&[line(10.0)], Pace::Factor(1.0), 0);
        let after = |seconds: f64| (seconds * time::ticks_per_second()) as u64;
        let mut order = [0; 256];
        let mut due = |schedule: &mut Schedule, at: f64| schedule.due(after(at), &mut order, |_, _| {}).packets;
        assert_eq!(due(&mut schedule, 0.0), 1);
        // The next would come at 0.1; ten times as fast at 0.0505.
        schedule.set_pace(Pace::Factor(10.0), after(0.045));
        assert_eq!(due(&mut schedule, 0.05), 0);
        assert_eq!(due(&mut schedule, 0.051), 1);
        schedule.set_pace(Pace::Factor(0.0), after(0.052));
        assert_eq!(due(&mut schedule, 5.0), 0);
        schedule.set_pace(Pace::Factor(10.0), after(6.0));
        assert_eq!(due(&mut schedule, 6.001), 1, "it has waited long enough");
        assert_eq!(due(&mut schedule, 6.002), 0);
    }

    #[test]
    fn as_many_as_go_keep_their_shares() {
        let mut schedule = Schedule::new(&[line(28.0), line(16.0), line(4.0)], Pace::Maximum, 0);
        let mut counts = [0; 3];
        for now in 0..48 {
            let mut order = [0; 100];
            assert_eq!(schedule.due(now, &mut order, |_, _| panic!("nothing is late")).packets, 100);
            order.iter().for_each(|stream| counts[usize::from(*stream)] += 1);
        }
        assert!(
            [2800, 1600, 400].iter().zip(counts).all(|(wanted, is): (&i32, i32)| (wanted - is).abs() <= 2),
            "{counts:?}"
        );
    }
}
