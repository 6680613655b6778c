//! The node that takes what comes back: packets of ours end here, all others go on as in any router.

pub mod heard;
mod tracker;

use tracker::Run;
pub use tracker::{Received, Tracker};

use crate::layout::{Kind, Layout};
use crate::tag::{self, MARK, Mark};
use drivers::chain::Chain;
use graph::buffer::STRIDE;
use graph::vector::Columns;
use graph::{Buffers, Context, CounterTable, EdgeIndex, Map, NodeSpec, PacketIndex, Row, Snapshot, Vector, flag, time};
use std::fmt;
use std::sync::Arc;

pub const NODE: &str = "loadtest-receive";

/// What is counted of each stream while it runs.
pub mod word {
    pub const PACKETS: usize = 0;
    pub const BYTES: usize = 1;
    /// The number after the highest that came: those below that did not come are lost, or late.
    pub const REACHED: usize = 2;
    /// Of the delays so far, in nanoseconds: all together, of how many packets, and the longest.
    pub const DELAYS: usize = 3;
    pub const TIMED: usize = 4;
    pub const LONGEST: usize = 5;
    pub const WIDTH: usize = 8;
}

graph::edges! {
    pub enum Edge {
        /// A packet of the load tester came back, and its stream counted it. Normal.
        Accounted => end "packets accounted for",
        /// A packet of an earlier run arrived after that run had stopped waiting for its packets.
        Stale => end "packets of an earlier run",
        EthernetInput => next "ethernet-input",
    }
}

/// The node of one worker.
pub struct Receiver {
    /// By the number of a stream's share.
    trackers: Vec<Option<Box<Tracker>>>,
    /// Whether a number was ever given out.
    issued: u32,
    /// All that comes ends here unread.
    is_blind: bool,
    /// Trackers with packets that are not accounted for yet.
    touched: Vec<u16>,
    rx: Arc<CounterTable>,
}

impl Receiver {
    pub fn new(rx: Arc<CounterTable>) -> Receiver {
        Receiver {
            trackers: Vec::new(),
            issued: 0,
            is_blind: false,
            touched: Vec::with_capacity(graph::VECTOR_SIZE),
            rx,
        }
    }

    pub fn spec() -> NodeSpec {
        NodeSpec { name: NODE.into(), edges: Edge::EDGES, counters: &[], trace }
    }

    /// Accounts for streams of these numbers from now on, beside all others.
    pub fn start(&mut self, trackers: Vec<(u16, Box<Tracker>)>) {
        for (number, tracker) in trackers {
            let at = usize::from(number);
            if self.trackers.len() <= at {
                self.trackers.resize_with(at + 1, || None);
            }
            self.trackers[at] = Some(tracker);
            self.issued = self.issued.max(u32::from(number) + 1);
        }
    }

    /// Lets all that comes end here unread, or not: to see what accounting costs.
    pub fn set_blind(&mut self, is_blind: bool) {
        self.is_blind = is_blind;
    }

    /// What came of each of these numbers. What comes of them from now on is of an earlier run.
    pub fn stop(&mut self, numbers: &[u16]) -> Vec<(u16, Box<Tracker>)> {
        let take = |number: &u16| Some((*number, self.trackers.get_mut(usize::from(*number))?.take()?));
        numbers.iter().filter_map(take).collect()
    }

    /// Counts packets from `at` on that go with those that came just before, each with its stream; the first that
    /// does not, with its tag.
    #[inline]
    fn pass(&mut self, buffers: &Buffers, vector: &mut Vector, at: usize) -> Option<(usize, Option<tag::Tag>)> {
        let columns = vector.columns();
        let n = columns.packets.len();
        let alike = Shape::of_all(&columns, at);
        // The stream that packets are of, taken out of its tracker as long as they are.
        let (mut own, mut run) = (0, Run::default());
        let mut odd = None;
        let mut i = at;
        while i < n {
            if let Some(shape) = alike
                && let Some(block) = columns.packets[i..].first_chunk::<BLOCK>()
                && run.joins_all(block.map(|packet| shape.mark(buffers, packet)), shape.interface, shape.length)
            {
                i += BLOCK;
                continue;
            }
            let shape = alike.or_else(|| Shape::of(&columns, i));
            let Some((shape, mark)) = shape.map(|shape| (shape, shape.mark(buffers, columns.packets[i]))) else {
                odd = Some((i, None));
                break;
            };
            if !run.joins(mark, shape.interface, shape.length) {
                if let Some(Some(tracker)) = self.trackers.get_mut(own) {
                    tracker.put_back(run);
                }
                own = usize::from(mark.stream());
                run = self.trackers.get(own).and_then(Option::as_ref).map_or(Run::default(), |tracker| tracker.run());
                if !run.joins(mark, shape.interface, shape.length) {
                    odd = Some((i, shape.tag(buffers, columns.packets[i])));
                    break;
                }
            }
            i += 1;
        }
        if let Some(Some(tracker)) = self.trackers.get_mut(own) {
            tracker.put_back(run);
        }
        odd
    }

    /// A packet that does not go with those that came just before.
    #[inline(never)]
    fn take(&mut self, buffers: &Buffers, row: Row, found: Option<tag::Tag>, now: u64) -> Edge {
        let found = match found {
            Some(tag) => Some((tag.stream, Found::Full(tag))),
            None => find(buffers, &row),
        };
        let Some((stream, found)) = found else { return Edge::EthernetInput };
        let Some(Some(tracker)) = self.trackers.get_mut(usize::from(stream)) else {
            return match found {
                Found::Full(_) if u32::from(stream) < self.issued => Edge::Stale,
                _ => Edge::EthernetInput,
            };
        };
        tracker.received.elsewhere += u64::from(row.rx_interface.0 != tracker.expected);
        let before = tracker.pending.count;
        match found {
            Found::Full(tag) => tracker.take(stream, tag.sequence, Some(tag.stamp), row.length, now),
            Found::Small(low) => tracker.take_small(stream, low, row.length, now),
        }
        if before == 0 {
            self.touched.push(stream);
        }
        Edge::Accounted
    }
}

/// Packets that are compared at once, when all of a vector are alike.
const BLOCK: usize = 8;

/// Where the tag of a packet that lies in one buffer ends, and what else matters of it.
#[derive(Clone, Copy)]
struct Shape {
    end: usize,
    length: u16,
    interface: u32,
}

impl Shape {
    /// None: it lies in several buffers, or is too short for a tag.
    #[inline(always)]
    fn of(columns: &Columns<'_>, i: usize) -> Option<Shape> {
        let (l2, length) = (columns.l2[i], columns.length[i]);
        let end = usize::from(l2) + usize::from(length);
        let has_room = columns.flags[i] & flag::CHAINED == 0 && (tag::LENGTH..=STRIDE).contains(&end);
        has_room.then(|| Shape { end, length, interface: columns.rx_interface[i].0 })
    }

    /// Of all from `at` on, when they have the same.
    #[inline]
    fn of_all(columns: &Columns<'_>, at: usize) -> Option<Shape> {
        if at == columns.packets.len() {
            return None;
        }
        let shape = Shape::of(columns, at)?;
        let l2 = columns.l2[at];
        let differ = columns.l2[at..].iter().fold(0, |differ, &it| differ | (it ^ l2))
            | columns.length[at..].iter().fold(0, |differ, &it| differ | (it ^ shape.length));
        let chained = columns.flags[at..].iter().fold(0, |any, &flags| any | flags) & flag::CHAINED;
        let elsewhere = columns.rx_interface[at..].iter().fold(0, |differ, &it| differ | (it.0 ^ shape.interface));
        (differ == 0 && chained == 0 && elsewhere == 0).then_some(shape)
    }

    /// What stands where the mark should be.
    #[inline(always)]
    fn mark(self, buffers: &Buffers, packet: PacketIndex) -> Mark {
        let start = (self.end - MARK).min(STRIDE - MARK);
        Mark::read(buffers.bytes(packet)[start..].first_chunk().expect("a mark fits behind it"))
    }

    fn tag(self, buffers: &Buffers, packet: PacketIndex) -> Option<tag::Tag> {
        buffers.bytes(packet)[..self.end].last_chunk().and_then(tag::read)
    }
}

/// A tag, of either kind.
enum Found {
    Full(tag::Tag),
    Small(u16),
}

/// Looks for a tag where it is when a frame was padded, lies in several buffers, or has the small one.
fn find(buffers: &Buffers, row: &Row) -> Option<(u16, Found)> {
    let chain = Chain::of(buffers, row)?;
    if row.flags & flag::CHAINED != 0 {
        // So long a packet has room for the tag at its end, which may be in two buffers.
        let mut last = [0; tag::LENGTH];
        for bytes in chain.slices(buffers) {
            let n = bytes.len().min(tag::LENGTH);
            last.copy_within(n.., 0);
            last[tag::LENGTH - n..].copy_from_slice(&bytes[bytes.len() - n..]);
        }
        let tag = tag::read(&last)?;
        return Some((tag.stream, Found::Full(tag)));
    }
    let frame = chain.head(buffers);
    let layout = Layout::of(frame);
    let payload = &frame[layout.payload.clone()];
    if let Some(tag) = payload.last_chunk().and_then(tag::read) {
        return Some((tag.stream, Found::Full(tag)));
    }
    let low = payload.last_chunk().and_then(tag::read_small)?;
    let &(kind, ip) = layout.headers.iter().rev().find(|(kind, _)| matches!(kind, Kind::Ipv4 | Kind::Ipv6))?;
    let stream = match kind {
        Kind::Ipv4 => u16::from_be_bytes(frame[ip + 4..ip + 6].try_into().expect("two bytes")),
        _ => {
            let label = u32::from_be_bytes(frame[ip..ip + 4].try_into().expect("four bytes")) & 0xf_ffff;
            u16::try_from(label.checked_sub(tag::FLOW_LABEL)?).ok()?
        }
    };
    Some((stream, Found::Small(low)))
}

impl Map for Receiver {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        if self.is_blind {
            return vector.set_edges(Edge::Accounted.into());
        }
        let now = time::ticks();
        vector.set_edges(Edge::Accounted.into());
        let mut at = 0;
        while let Some((odd, found)) = self.pass(cx.buffers, vector, at) {
            let to = self.take(cx.buffers, vector.row(odd), found, now);
            if to != Edge::Accounted {
                vector.set_edge(odd, to.into());
            }
            at = odd + 1;
        }
        for number in self.touched.drain(..) {
            if let Some(Some(tracker)) = self.trackers.get_mut(usize::from(number)) {
                tracker.settle(now);
                let Received { packets, bytes, delays, timed, longest, .. } = tracker.received;
                let set = |word, value| self.rx.set(cx.thread, number.into(), word, value);
                set(word::PACKETS, packets);
                set(word::BYTES, bytes);
                set(word::REACHED, tracker.reached());
                set(word::DELAYS, delays);
                set(word::TIMED, timed);
                set(word::LONGEST, longest);
            }
        }
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    let what = if snapshot.edge == EdgeIndex::from(Edge::EthernetInput) { "not ours" } else { "ours" };
    writeln!(f, "  {what}, {} bytes", snapshot.row.length)
}
