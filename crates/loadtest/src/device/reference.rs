//! A reference device: a wire between two ports, in this process, that loses, delays, duplicates and reorders packets
//! exactly as configured, and counts what it did. The load tester's results can be checked against it.

use crate::arithmetic::FrameSize;
use crate::rate::packets_a_second;
use arrayvec::ArrayVec;
use drivers::chain::{self, Chain};
use drivers::{Device, FULL, Link, Receive, ReceiveCounts, Transmit, TxOffloads};
use graph::buffer::{DATA_SIZE, HEADROOM, MAX_SEGMENTS};
use graph::ring::{Consumer, Producer, ring};
use graph::{Buffers, PacketIndex, Row, Vector, edge, flag, time};
use rustix::fd::BorrowedFd;
use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;
use wire::MacAddress;

/// Vectors on their way in each direction.
const RING: usize = 4096;
/// How long a packet that is held back waits for other packets to overtake it.
const HELD: Duration = Duration::from_millis(5);
/// The time over which the rate is measured that decides whether packets are lost. It is long compared with the hundred
/// microseconds of preemption that a generator makes up for.
const WINDOW: Duration = Duration::from_millis(10);
/// Decides whether a frame, with its frame check sequence, ends within a cache line.
const CACHE_LINE: u32 = 64;

/// What it does to packets, in each direction.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Impairments {
    /// Loses every n-th packet.
    pub lose: Option<u64>,
    /// Only while more packets a second than this arrive,
    pub above: f64,
    /// and for this long after it.
    pub recover: Duration,
    /// Forwards at most this many packets a second,
    pub capacity: Option<f64>,
    /// and fewer of those whose frames end within a cache line.
    pub partial: Option<f64>,
    /// This many packets may wait in its queue.
    pub queue: u32,
    pub delay: Duration,
    /// Sends every n-th packet twice.
    pub duplicate: Option<u64>,
    /// Holds every n-th packet back until `by` other packets have passed it.
    pub reorder: Option<u64>,
    pub by: u64,
}

impl Default for Impairments {
    fn default() -> Impairments {
        Impairments {
            lose: None,
            above: 0.0,
            recover: Duration::ZERO,
            capacity: None,
            partial: None,
            queue: 1024,
            delay: Duration::ZERO,
            duplicate: None,
            reorder: None,
            by: 3,
        }
    }
}

impl FromStr for Impairments {
    type Err = String;

    /// `lose=1000,above=1mpps,recover=5ms,capacity=2mpps,partial=1mpps,queue=1024,delay=100us`; for duplicates and
    /// reordering `duplicate=500,reorder=700,by=3`.
    fn from_str(text: &str) -> Result<Impairments, String> {
        let mut impairments = Impairments::default();
        for part in text.split(',').map(str::trim).filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let wrong = |what: &str| format!("'{part}': {what}");
            let count = || value.parse::<u64>().ok().filter(|n| *n > 0).ok_or_else(|| wrong("a number from 1 on"));
            let rate = || packets_a_second(value).ok_or_else(|| wrong("packets a second, as 1mpps"));
            let time = || duration(value).ok_or_else(|| wrong("a time up to 10 s, as 100us"));
            match key {
                "lose" => impairments.lose = Some(count()?),
                "above" => impairments.above = rate()?,
                "capacity" => impairments.capacity = Some(rate()?),
                "queue" => impairments.queue = count()?.try_into().map_err(|_| wrong("too many"))?,
                "partial" => impairments.partial = Some(rate()?),
                "recover" => impairments.recover = time()?,
                "delay" => impairments.delay = time()?,
                "duplicate" => impairments.duplicate = Some(count()?),
                "reorder" => impairments.reorder = Some(count()?),
                "by" => impairments.by = count()?,
                _ => {
                    return Err(wrong(
                        "the reference device knows lose, above, recover, capacity, partial, queue, delay, \
                         duplicate, reorder \
                         and by",
                    ));
                }
            }
        }
        Ok(impairments)
    }
}

/// `100us`, `1.5ms`, `2s`.
pub fn duration(text: &str) -> Option<Duration> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.')?;
    let scale = match &text[end..] {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        _ => return None,
    };
    let seconds = text[..end].parse::<f64>().ok()? * scale;
    (0.0..=10.0).contains(&seconds).then(|| Duration::from_secs_f64(seconds))
}

/// What it did, in one direction.
#[derive(Debug, Default)]
pub struct Counts {
    pub came: AtomicU64,
    pub lost: AtomicU64,
    pub duplicated: AtomicU64,
    pub reordered: AtomicU64,
    pub delivered: AtomicU64,
}

impl Counts {
    fn add(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [came, lost, duplicated, reordered, delivered] =
            [&self.came, &self.lost, &self.duplicated, &self.reordered, &self.delivered]
                .map(|n| n.load(Ordering::Relaxed));
        write!(f, "{came} came, {lost} lost, {duplicated} doubled, {reordered} held back, {delivered} delivered")
    }
}

/// Packets that travel together.
#[derive(Default)]
struct Burst {
    /// When each is due, and its bytes.
    frames: Vec<(u64, u16)>,
    bytes: Vec<u8>,
}

/// The wire: both its ends, its counters by direction, and its plug.
pub struct Wire {
    pub ends: [Device; 2],
    /// From the first end to the second, and back.
    pub counts: [Arc<Counts>; 2],
    pub plug: Arc<AtomicBool>,
}

/// Makes a wire with these impairments.
pub fn wire(impairments: &Impairments) -> Wire {
    let plug = Arc::new(AtomicBool::new(true));
    let [(to_second, from_first, there), (to_first, from_second, back)] = [(); 2].map(|()| {
        let (producer, consumer) = ring(RING, Box::<Burst>::default);
        let counts = Arc::new(Counts::default());
        (Ingress::new(impairments, producer, &counts, &plug), Egress::new(impairments, consumer, &counts), counts)
    });
    let device = |number: u8, transmit: Ingress, receive: Egress| Device {
        driver: "reference",
        carries: drivers::Carries::LINK,
        input_node: "reference-input",
        description: "end of a wire in this process".into(),
        host: None,
        mac: MacAddress([2, 0x51, 0xee, 0, 0, number]),
        mtu: 9000,
        finishes: TxOffloads { checksum: false, segmentation: false },
        receive: vec![Box::new(receive)],
        transmit: Box::new(transmit),
        link: Box::new(Plug(plug.clone())),
    };
    Wire { ends: [device(0, to_second, from_second), device(1, to_first, from_first)], counts: [there, back], plug }
}

struct Plug(Arc<AtomicBool>);

impl Link for Plug {
    fn is_up(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Where packets enter the wire: their fate is decided here.
struct Ingress {
    impairments: Impairments,
    ring: Producer<Box<Burst>>,
    burst: Box<Burst>,
    counts: Arc<Counts>,
    plug: Arc<AtomicBool>,
    meter: Meter,
    /// Packets that arrived while some are lost, and packets that were forwarded.
    eligible: u64,
    forwarded: u64,
    /// When the last packet leaves, in ticks.
    busy_until: f64,
    delay: u64,
}

/// Measures packets a second, window by window.
struct Meter {
    start: u64,
    packets: u64,
    window: u64,
    is_above: bool,
    /// When the rate was last too high, and for how long that has an effect.
    was_above: u64,
    recover: u64,
}

impl Ingress {
    fn new(
        impairments: &Impairments,
        ring: Producer<Box<Burst>>,
        counts: &Arc<Counts>,
        plug: &Arc<AtomicBool>,
    ) -> Ingress {
        Ingress {
            impairments: *impairments,
            ring,
            burst: Box::default(),
            counts: counts.clone(),
            plug: plug.clone(),
            meter: Meter {
                start: 0,
                packets: 0,
                window: time::to_ticks(WINDOW),
                is_above: impairments.above == 0.0,
                was_above: 0,
                recover: time::to_ticks(impairments.recover),
            },
            eligible: 0,
            forwarded: 0,
            busy_until: 0.0,
            delay: time::to_ticks(impairments.delay),
        }
    }

    /// When a packet is to leave the wire; none: it is lost.
    fn decide(&mut self, now: u64, length: u16) -> Option<u64> {
        if self.impairments.above > 0.0 {
            self.meter.packets += 1;
            let passed = now.saturating_sub(self.meter.start);
            if passed >= self.meter.window {
                let rate = self.meter.packets as f64 / passed as f64 * time::ticks_per_second();
                if rate > self.impairments.above {
                    self.meter.was_above = now;
                }
                self.meter.is_above = self.meter.was_above > 0 && now - self.meter.was_above <= self.meter.recover;
                (self.meter.start, self.meter.packets) = (now, 0);
            }
        }
        if let Some(every) = self.impairments.lose.filter(|_| self.meter.is_above) {
            self.eligible += 1;
            if self.eligible.is_multiple_of(every) {
                return None;
            }
        }
        let mut leaves = now;
        let is_partial = !FrameSize(length.into()).frame().is_multiple_of(CACHE_LINE);
        if let Some(capacity) = self.impairments.partial.filter(|_| is_partial).or(self.impairments.capacity) {
            let each = time::ticks_per_second() / capacity;
            let begins = self.busy_until.max(now as f64);
            if begins - now as f64 > each * f64::from(self.impairments.queue) {
                return None;
            }
            self.busy_until = begins + each;
            leaves = self.busy_until as u64;
        }
        Some(leaves + self.delay)
    }

    fn put(&mut self, due: u64, frame: &[&[u8]]) {
        frame.iter().for_each(|bytes| self.burst.bytes.extend_from_slice(bytes));
        self.burst.frames.push((due, frame.iter().map(|bytes| bytes.len() as u16).sum()));
    }
}

/// The bytes of a frame, buffer by buffer.
#[inline]
fn parts<'a>(buffers: &'a Buffers, row: &Row) -> Option<ArrayVec<&'a [u8], MAX_SEGMENTS>> {
    if row.flags & flag::CHAINED != 0 {
        return Some(Chain::of(buffers, row)?.slices(buffers).collect());
    }
    let start = usize::from(row.l2);
    Some(ArrayVec::from_iter([buffers.bytes(row.packet).get(start..start + usize::from(row.length))?]))
}

impl Transmit for Ingress {
    fn transmit(&mut self, buffers: &mut Buffers, vector: &mut Vector) {
        if !self.plug.load(Ordering::Relaxed) {
            return vector.set_edges(drivers::REFUSED);
        }
        let now = time::ticks();
        self.burst.frames.clear();
        self.burst.bytes.clear();
        for i in 0..vector.len() {
            let row = vector.row(i);
            let Some(frame) = parts(buffers, &row) else {
                vector.set_edge(i, drivers::TOO_LONG);
                continue;
            };
            vector.set_edge(i, edge::SENT);
            Counts::add(&self.counts.came);
            let Some(due) = self.decide(now, row.length) else {
                Counts::add(&self.counts.lost);
                continue;
            };
            self.put(due, &frame);
            self.forwarded += 1;
            if self.impairments.duplicate.is_some_and(|every| self.forwarded.is_multiple_of(every)) {
                Counts::add(&self.counts.duplicated);
                self.put(due, &frame);
            }
        }
        if !self.burst.frames.is_empty() && !self.ring.push(&mut self.burst) {
            // The other side does not fetch them: the wire itself has no room, and reports that.
            let came = vector.len() as u64;
            self.counts.came.fetch_sub(came, Ordering::Relaxed);
            vector.set_edges(FULL);
        }
    }
}

/// Where packets leave the wire, when they are due.
struct Egress {
    reorder: Option<u64>,
    by: u64,
    ring: Consumer<Box<Burst>>,
    burst: Box<Burst>,
    /// The next frame of the burst, and where its bytes are.
    at: usize,
    offset: usize,
    counts: Arc<Counts>,
    passed: u64,
    /// Packets held back: how many packets must still overtake each, until when at most, and its bytes.
    held: VecDeque<(u64, u64, Vec<u8>)>,
    patience: u64,
}

impl Egress {
    fn new(impairments: &Impairments, ring: Consumer<Box<Burst>>, counts: &Arc<Counts>) -> Egress {
        Egress {
            reorder: impairments.reorder,
            by: impairments.by,
            ring,
            burst: Box::default(),
            at: 0,
            offset: 0,
            counts: counts.clone(),
            passed: 0,
            held: VecDeque::new(),
            patience: time::to_ticks(HELD),
        }
    }

    fn deliver(&self, buffers: &mut Buffers, frame: &[u8], out: &mut Vector) -> bool {
        let (packet, flags) = if frame.len() <= DATA_SIZE {
            let Some(packet) = buffers.allocate_one() else { return false };
            buffers.bytes_mut(packet)[HEADROOM..HEADROOM + frame.len()].copy_from_slice(frame);
            (packet, 0)
        } else {
            let mut parts = [PacketIndex::NONE; MAX_SEGMENTS];
            let parts = &mut parts[..frame.len().div_ceil(DATA_SIZE)];
            let got = buffers.allocate(parts);
            if got < parts.len() {
                buffers.free(&parts[..got]);
                return false;
            }
            chain::write(buffers, parts, frame);
            (parts[0], flag::CHAINED)
        };
        const L2: u16 = HEADROOM as u16;
        out.push(Row { packet, l2: L2, l3: L2, length: frame.len() as u16, flags, ..Row::default() }, 0);
        Counts::add(&self.counts.delivered);
        true
    }
}

impl Receive for Egress {
    fn receive(&mut self, buffers: &mut Buffers, out: &mut Vector, counts: &mut ReceiveCounts) {
        let now = time::ticks();
        while out.room() > 0 {
            if let Some((left, until, _)) = self.held.front()
                && (*left == 0 || *until <= now)
            {
                let (_, _, frame) = self.held.pop_front().expect("it is there");
                counts.no_buffer += u64::from(!self.deliver(buffers, &frame, out));
                continue;
            }
            if self.at == self.burst.frames.len() {
                if !self.ring.pop(&mut self.burst) {
                    return;
                }
                (self.at, self.offset) = (0, 0);
            }
            let (due, length) = self.burst.frames[self.at];
            if due > now {
                return;
            }
            let frame = self.offset..self.offset + usize::from(length);
            (self.at, self.offset) = (self.at + 1, frame.end);
            self.passed += 1;
            if self.reorder.is_some_and(|every| self.passed.is_multiple_of(every)) {
                Counts::add(&self.counts.reordered);
                self.held.push_back((self.by, now + self.patience, self.burst.bytes[frame].to_vec()));
                continue;
            }
            self.held.iter_mut().for_each(|(left, ..)| *left = left.saturating_sub(1));
            let is_delivered = self.deliver(buffers, &self.burst.bytes[frame], out);
            counts.no_buffer += u64::from(!is_delivered);
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn impairments_are_read() {
        let read: Impairments =
            "lose=1000,above=1mpps,delay=100us,duplicate=500,reorder=700,by=5,capacity=2Mpps,queue=64".parse().unwrap();
        assert_eq!((read.lose, read.above, read.delay), (Some(1000), 1e6, Duration::from_micros(100)));
        assert_eq!(
            (read.duplicate, read.reorder, read.by, read.capacity, read.queue),
            (Some(500), Some(700), 5, Some(2e6), 64)
        );
        assert_eq!("".parse(), Ok(Impairments::default()));
        let read: Impairments = "lose=2,above=1mpps,recover=5ms,capacity=2mpps,partial=1mpps".parse().unwrap();
        assert_eq!((read.recover, read.partial), (Duration::from_millis(5), Some(1e6)));
        for (text, wrong) in [
            ("partial=0pps", "packets a second"),
            ("lose=0", "from 1 on"),
            ("above=fast", "packets a second"),
            ("delay=3", "a time"),
            ("noise=1", "knows lose,"),
        ] {
            assert!(text.parse::<Impairments>().unwrap_err().contains(wrong), "{text}");
        }
    }
}
