//! The node that makes packets, and the wrapper around a device that counts what the device refused.

pub mod schedule;
pub mod spread;

use crate::epochs::Cuts;
use crate::program::{MAX_BUFFERS, Maker};
use crate::rate::Pace;
use crate::tag;
use drivers::Transmit;
use graph::buffer::{DATA_SIZE, HEADROOM};
use graph::{
    Buffers, Context, CounterSpec, CounterTable, EdgeIndex, EdgeSpec, InterfaceIndex, NodeSpec, PacketIndex, Row,
    Severity, Snapshot, Source, VECTOR_SIZE, Vector, Wake, edge, flag, time,
};
use hdrhistogram::Histogram;
use schedule::Schedule;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

pub const NODE: &str = "loadtest-input";
/// Marks the target of a packet of ours, above its stream's number, until the packet has left.
const OURS: u32 = 0x5156_0000;
const OURS_MASK: u32 = 0xffff_0000;

/// Counters of each share of a stream: what was made, and why some of it did not leave.
pub mod word {
    pub const PACKETS: usize = 0;
    pub const BYTES: usize = 1;
    /// The device refused them.
    pub const REFUSED: usize = 2;
    pub const REFUSED_BYTES: usize = 3;
    /// Never made, because their time had passed.
    pub const LATE: usize = 4;
    /// Never made, for want of a buffer.
    pub const STARVED: usize = 5;
    pub const WIDTH: usize = 8;
}

/// What a worker has made of a share so far, and what the port did with it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Made {
    pub packets: u64,
    pub bytes: u64,
    pub refused: u64,
    pub refused_bytes: u64,
    pub late: u64,
    pub starved: u64,
}

impl Made {
    fn of(tx: &CounterTable, worker: usize, number: u16) -> Made {
        let value = |word| tx.value(worker, number.into(), word);
        Made {
            packets: value(word::PACKETS),
            bytes: value(word::BYTES),
            refused: value(word::REFUSED),
            refused_bytes: value(word::REFUSED_BYTES),
            late: value(word::LATE),
            starved: value(word::STARVED),
        }
    }
}

/// How much of the last packets a device refused, for the worker that makes them.
#[derive(Default)]
pub struct Taken {
    refused: AtomicU32,
}

/// What a worker sends by a port.
pub struct PortShare {
    pub interface: InterfaceIndex,
    /// The edge to its tx node.
    pub edge: EdgeIndex,
    pub schedule: Schedule,
    /// One for each stream of the schedule, in its order.
    pub makers: Vec<Maker>,
    /// The streams' numbers in counters and tags, and where their epochs end.
    pub numbers: Vec<u16>,
    pub cuts: Vec<Arc<Cuts>>,
    pub taken: Arc<Taken>,
    /// Packets in one burst at the maximum rate.
    batch: usize,
    /// Buffers that the longest packet needs besides the first.
    more: usize,
}

impl PortShare {
    pub fn new(
        interface: InterfaceIndex,
        edge: EdgeIndex,
        schedule: Schedule,
        makers: Vec<Maker>,
        numbers: Vec<u16>,
        cuts: Vec<Arc<Cuts>>,
        taken: Arc<Taken>,
    ) -> PortShare {
        let more = makers.iter().map(Maker::more_buffers).max().unwrap_or(0);
        PortShare { interface, edge, schedule, makers, numbers, cuts, taken, batch: VECTOR_SIZE, more }
    }

    /// How many packets to make at once.
    fn most(&mut self, room: usize) -> usize {
        if self.schedule.is_limited() {
            return room;
        }
        // Packets that are refused are lost.
        let refused = self.taken.refused.swap(0, Ordering::Relaxed) as usize;
        self.batch = match refused {
            0 => (self.batch * 2).min(VECTOR_SIZE),
            _ => self.batch.saturating_sub(refused).max(8),
        };
        self.batch.min(room)
    }
}

/// The source node of one worker.
pub struct Generator {
    shares: Vec<PortShare>,
    turn: usize,
    tx: Arc<CounterTable>,
    /// How late packets were made, in ticks; one sample for each vector, its first packet.
    lateness: Histogram<u64>,
    pauses: Pauses,
    /// When the pace was last changed, in ticks.
    paced_at: u64,
    /// Further buffers of long packets; empty between rounds.
    more: Vec<PacketIndex>,
}

const COUNTERS: &[CounterSpec] = &[CounterSpec(
    "no free buffer",
    Severity::Error,
    "All packet buffers are in use (`show buffers`). Increase `--buffers`.",
)];

impl Generator {
    pub fn new(tx: Arc<CounterTable>) -> Generator {
        Generator {
            shares: Vec::new(),
            turn: 0,
            tx,
            lateness: Histogram::new_with_bounds(1, 1 << 40, 2).expect("the bounds make sense"),
            pauses: Pauses::new(),
            paced_at: 0,
            more: Vec::with_capacity(VECTOR_SIZE * (MAX_BUFFERS - 1)),
        }
    }

    pub fn spec() -> NodeSpec {
        const NO_EDGES: &[EdgeSpec] = &[];
        NodeSpec { name: NODE.into(), edges: NO_EDGES, counters: COUNTERS, trace }
    }

    /// Sends these shares from now on, in addition to the current ones.
    pub fn start(&mut self, shares: Vec<PortShare>) {
        if self.shares.is_empty() {
            self.lateness.reset();
            self.pauses = Pauses::new();
            self.paced_at = 0;
        }
        self.shares.extend(shares);
    }

    /// Changes the pace of one port, or of all.
    pub fn set_pace(&mut self, port: Option<InterfaceIndex>, pace: Pace) {
        let now = time::ticks();
        self.paced_at = now;
        for share in self.shares.iter_mut().filter(|share| port.is_none_or(|port| share.interface == port)) {
            share.schedule.set_pace(pace, now);
        }
    }

    /// Ends an epoch for all that this worker sends. Returns what was made so far, by number. Between rounds no packet
    /// is in between: the port has taken or refused each.
    pub fn cut(&self, worker: usize) -> Vec<(u16, Made)> {
        let share = |share: &PortShare| {
            let parts = share.makers.iter().zip(&share.numbers).zip(&share.cuts);
            parts
                .map(|((maker, &number), cuts)| {
                    cuts.push(maker.made());
                    (number, Made::of(&self.tx, worker, number))
                })
                .collect::<Vec<_>>()
        };
        self.shares.iter().flat_map(share).collect()
    }

    /// Stops making packets for these ports.
    pub fn stop(&mut self, ports: &[InterfaceIndex]) -> Stopped {
        self.shares.retain(|share| !ports.contains(&share.interface));
        // The share whose turn it was may be gone.
        self.turn = 0;
        Stopped {
            lateness: self.lateness.clone(),
            away: std::mem::replace(&mut self.pauses.seen, Away::new()),
            at: time::ticks(),
            paced_at: Some(self.paced_at).filter(|at| *at > 0),
        }
    }

    /// Whether a port has nothing left to send.
    pub fn has_ended(&self, port: InterfaceIndex) -> bool {
        self.shares.iter().filter(|share| share.interface == port).all(|share| share.schedule.has_ended())
    }
}

/// The statistics of a worker that stopped making packets for a port.
pub struct Stopped {
    /// How late packets were, in ticks.
    pub lateness: Histogram<u64>,
    /// When the worker was preempted.
    pub away: Away,
    /// When it stopped, and when its pace was last changed, in ticks.
    pub at: u64,
    pub paced_at: Option<u64>,
}

/// Time between two rounds of a worker that counts as a pause: if the round made no packets, and if it did. Handing
/// many packets to the system takes a while.
const PAUSE: Duration = Duration::from_micros(100);
const BUSY_PAUSE: Duration = Duration::from_millis(1);
/// Most pauses that are kept: the longest.
const MAX_PAUSES: usize = 1000;

/// A time during which a worker did not run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Pause {
    /// Ticks.
    pub length: u64,
    pub began: u64,
}

/// The pauses of a run.
#[derive(Default)]
pub struct Away {
    /// How many pauses there were, and their total length, in ticks.
    pub count: u64,
    pub ticks: u64,
    /// The longest pauses; the shortest of them is discarded first.
    longest: BinaryHeap<Reverse<Pause>>,
}

impl Away {
    fn new() -> Away {
        Away { longest: BinaryHeap::with_capacity(MAX_PAUSES + 1), ..Away::default() }
    }

    fn note(&mut self, pause: Pause) {
        self.count += 1;
        self.ticks += pause.length;
        self.longest.push(Reverse(pause));
        if self.longest.len() > MAX_PAUSES {
            self.longest.pop();
        }
    }

    /// The longest pauses, in no order.
    pub fn longest(&self) -> impl Iterator<Item = Pause> {
        self.longest.iter().map(|Reverse(pause)| *pause)
    }
}

struct Pauses {
    last: u64,
    /// Longest time that is no pause: after a round without packets, and after one with packets.
    longest: [u64; 2],
    was_busy: bool,
    seen: Away,
}

impl Pauses {
    fn new() -> Pauses {
        Pauses { last: 0, longest: [PAUSE, BUSY_PAUSE].map(time::to_ticks), was_busy: false, seen: Away::new() }
    }

    #[inline(always)]
    fn look(&mut self, now: u64) {
        let length = now.wrapping_sub(self.last);
        if length > self.longest[usize::from(self.was_busy)] {
            self.note(now, length);
        }
        self.last = now;
        self.was_busy = false;
    }

    #[cold]
    fn note(&mut self, now: u64, length: u64) {
        if self.last > 0 {
            self.seen.note(Pause { began: now - length, length });
        }
    }
}

impl Source for Generator {
    fn poll(&mut self, cx: &mut Context<'_>, out: &mut Vector) {
        let shares = self.shares.len();
        if shares == 0 {
            return;
        }
        self.pauses.look(cx.now);
        debug_assert!(self.turn < shares);
        for n in 0..shares {
            let at = if self.turn + n < shares { self.turn + n } else { self.turn + n - shares };
            let share = &mut self.shares[at];
            let most = share.most(out.room());
            let mut order = [0u16; VECTOR_SIZE];
            let (tx, numbers) = (&self.tx, &share.numbers);
            let due = share.schedule.due(cx.now, &mut order[..most], |stream, missed| {
                tx.add(cx.thread, numbers[usize::from(stream)].into(), word::LATE, missed);
            });
            if due.packets > 0 {
                self.pauses.was_busy = true;
                self.lateness.saturating_record(due.late.max(1));
                fill(share, tx, cx, out, &order[..due.packets], &mut self.more);
            }
            if out.room() == 0 {
                break;
            }
        }
        self.turn = if self.turn + 1 < shares { self.turn + 1 } else { 0 };
    }

    fn wake(&self) -> Wake<'_> {
        if self.shares.is_empty() { Wake::Never } else { Wake::Poll }
    }

    fn waits(&self) -> bool {
        self.shares.is_empty()
    }
}

/// Appends packets of a port's streams in the given order. `more`: empty; receives the further buffers of long packets.
#[inline]
fn fill(
    share: &mut PortShare,
    tx: &CounterTable,
    cx: &mut Context<'_>,
    out: &mut Vector,
    order: &[u16],
    more: &mut Vec<PacketIndex>,
) {
    let mut fresh = [PacketIndex::NONE; VECTOR_SIZE];
    let mut got = cx.buffers.allocate(&mut fresh[..order.len()]);
    if share.more > 0 {
        more.resize(got * share.more, PacketIndex::NONE);
        let some = cx.buffers.allocate(more);
        more.truncate(some);
        let enough = got.min(some / share.more);
        cx.buffers.free(&fresh[enough..got]);
        got = enough;
    }
    if got < order.len() {
        starve(share, tx, cx, &order[got..]);
    }
    let (fresh, order, from) = (&fresh[..got], &order[..got], out.len());
    let Some(&first) = order.first() else {
        cx.buffers.free(more);
        return more.clear();
    };
    const L2: u16 = HEADROOM as u16;
    // The target holds the packet's stream until the packet has left.
    let number = share.numbers[usize::from(first)];
    let alike =
        Row { rx_interface: share.interface, target: OURS | u32::from(number), l2: L2, l3: L2, ..Row::default() };
    out.extend_alike(fresh, alike, share.edge);
    let columns = out.columns();
    let (lengths, targets, flags) =
        (&mut columns.length[from..], &mut columns.target[from..], &mut columns.flags[from..]);
    let stamp = tag::stamp(time::ticks());
    if share.makers.len() == 1 {
        share.makers[0].make(cx.buffers, fresh, lengths, stamp, more);
        count(tx, cx.thread, number, lengths);
        if share.more > 0 {
            mark_chains(cx.buffers, lengths, flags, more);
        }
        return;
    }
    let (mut own, mut places, mut own_lengths) =
        ([PacketIndex::NONE; VECTOR_SIZE], [0u16; VECTOR_SIZE], [0u16; VECTOR_SIZE]);
    let mut done = [0u64; VECTOR_SIZE / 64];
    for start in 0..got {
        if done[start / 64] >> (start % 64) & 1 == 1 {
            continue;
        }
        // All packets of this stream.
        let (stream, mut n) = (order[start], 0);
        for at in (start..got).filter(|at| order[*at] == stream) {
            (own[n], places[n]) = (fresh[at], at as u16);
            done[at / 64] |= 1 << (at % 64);
            n += 1;
        }
        let number = share.numbers[usize::from(stream)];
        share.makers[usize::from(stream)].make(cx.buffers, &own[..n], &mut own_lengths[..n], stamp, more);
        count(tx, cx.thread, number, &own_lengths[..n]);
        for (&place, &length) in places[..n].iter().zip(&own_lengths) {
            lengths[usize::from(place)] = length;
            targets[usize::from(place)] = OURS | u32::from(number);
        }
    }
    if share.more > 0 {
        mark_chains(cx.buffers, lengths, flags, more);
    }
}

/// Marks packets that span several buffers, and frees buffers that were not needed.
fn mark_chains(buffers: &mut Buffers, lengths: &[u16], flags: &mut [u32], more: &mut Vec<PacketIndex>) {
    for (flags, &length) in flags.iter_mut().zip(lengths) {
        if usize::from(length) > DATA_SIZE {
            *flags |= flag::CHAINED;
        }
    }
    buffers.free(more);
    more.clear();
}

#[inline(always)]
fn count(tx: &CounterTable, thread: usize, number: u16, lengths: &[u16]) {
    let bytes: u32 = lengths.iter().map(|&length| u32::from(length)).sum();
    tx.add(thread, number.into(), word::PACKETS, lengths.len() as u64);
    tx.add(thread, number.into(), word::BYTES, bytes.into());
}

#[cold]
fn starve(share: &PortShare, tx: &CounterTable, cx: &mut Context<'_>, order: &[u16]) {
    cx.count(0, order.len() as u64);
    for &stream in order {
        tx.add(cx.thread, share.numbers[usize::from(stream)].into(), word::STARVED, 1);
    }
}

/// Wraps the transmit side of a device, and counts what it refuses.
pub struct Watched {
    inner: Box<dyn Transmit>,
    /// Its row of the table: only this worker writes there for this port's streams.
    thread: usize,
    tx: Arc<CounterTable>,
    taken: Arc<Vec<Arc<Taken>>>,
}

impl Watched {
    /// `taken`: one for each worker, for its own packets.
    pub fn new(inner: Box<dyn Transmit>, tx: &Arc<CounterTable>, taken: &Arc<Vec<Arc<Taken>>>) -> Watched {
        Watched { inner, thread: 0, tx: tx.clone(), taken: taken.clone() }
    }

    #[cold]
    fn count_refused(&self, vector: &Vector) {
        let mut refused = 0;
        for i in 0..vector.len() {
            let (to, row) = (vector.edges()[i], vector.row(i));
            if to != edge::SENT && to != edge::LENT && row.target & OURS_MASK == OURS {
                let number = (row.target & !OURS_MASK) as usize;
                refused += 1;
                self.tx.add(self.thread, number, word::REFUSED, 1);
                self.tx.add(self.thread, number, word::REFUSED_BYTES, row.length.into());
            }
        }
        self.taken[self.thread].refused.fetch_add(refused, Ordering::Relaxed);
    }
}

impl Transmit for Watched {
    #[inline]
    fn transmit(&mut self, buffers: &mut Buffers, vector: &mut Vector) {
        self.inner.transmit(buffers, vector);
        // Only SENT and LENT have all of these bits.
        const WELL: EdgeIndex = edge::SENT & edge::LENT;
        if !vector.edges().iter().all(|to| to & WELL == WELL) {
            self.count_refused(vector);
        }
    }

    fn edges(&self) -> &'static [EdgeSpec] {
        self.inner.edges()
    }

    fn queues(&self) -> usize {
        self.inner.queues()
    }

    fn is_for_all(&self, workers: usize) -> bool {
        self.inner.is_for_all(workers)
    }

    fn another(&self, worker: usize, workers: usize) -> Option<Box<dyn Transmit>> {
        let inner = self.inner.another(worker, workers)?;
        Some(Box::new(Watched { inner, thread: worker, tx: self.tx.clone(), taken: self.taken.clone() }))
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  stream {}, {} bytes", snapshot.row.target, snapshot.row.length)?;
    writeln!(f, "{}", wire::pretty::Summary::ethernet(snapshot.l2()).indented(2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_many_pauses_the_longest_are_kept_and_all_are_counted() {
        let mut pauses = Pauses::new();
        let (ms, mut now) = (time::to_ticks(Duration::from_millis(1)), 1_000_000);
        pauses.look(now);
        for n in 0..3000u64 {
            // A busy round, which may be long, and then an idle one that is too long.
            pauses.was_busy = true;
            now += ms / 2;
            pauses.look(now);
            now += ms + n;
            pauses.look(now);
        }
        assert_eq!((pauses.seen.count, pauses.seen.ticks), (3000, 3000 * ms + 2999 * 3000 / 2));
        let mut lengths: Vec<u64> = pauses.seen.longest().map(|pause| pause.length - ms).collect();
        lengths.sort_unstable();
        assert_eq!(lengths, (2000..3000).collect::<Vec<u64>>());
        let last = pauses.seen.longest().max().unwrap();
        assert_eq!(last.began + last.length, now);
    }
}
