//! The packet generator: streams of packets that enter the graph exactly as a driver's do. A stream's packets are made
//! from a template with fields that count or vary at random ([`template`]), or replayed from a capture file
//! ([`crate::capture_file`]).
//!
//! The interface of a stream is an ordinary interface. Its device ([`open`]) receives nothing and discards what it is
//! given.

pub mod template;

use crate::chain;
use crate::{Carries, Device, Link, Transmit, TxOffloads};
use graph::buffer::{DATA_SIZE, HEADROOM, MAX_SEGMENTS};
use graph::{
    ArcIndex, Buffers, Context, CounterSpec, CounterTable, EdgeIndex, EdgeSpec, InterfaceIndex, NodeSpec, PacketIndex,
    Row, Severity, Snapshot, Source, VECTOR_SIZE, Vector, Wake, edge, flag, time,
};
use std::fmt;
use std::sync::Arc;
pub use template::First;
use template::Template;
use wire::MacAddress;
use wire::batch::check;
use wire::pretty::Summary;

/// The driver's name.
pub const DRIVER: &str = "pg";
/// The node by which packets of streams arrive.
pub const INPUT: &str = "pg-input";

/// Longest packet that a stream makes from a template: it fits one buffer. Replayed packets may take several.
pub const MAX_SIZE: usize = DATA_SIZE;

/// Opens the device of a generator interface.
pub fn open(number: u32) -> Device {
    let [a, b, c, d] = number.to_be_bytes();
    Device {
        driver: DRIVER,
        carries: Carries::STREAMS,
        input_node: INPUT,
        description: "packet generator".into(),
        host: None,
        mac: MacAddress([0x02, 0xfe, a, b, c, d]),
        mtu: 9000,
        finishes: TxOffloads { checksum: false, segmentation: false },
        receive: Vec::new(),
        transmit: Box::new(Discard),
        link: Box::new(Discard),
    }
}

struct Discard;

impl Transmit for Discard {
    #[inline]
    fn transmit(&mut self, _: &mut Buffers, vector: &mut Vector) {
        vector.set_edges(edge::SENT);
    }

    fn another(&self, _: usize, _: usize) -> Option<Box<dyn Transmit>> {
        Some(Box::new(Discard))
    }
}

impl Link for Discard {
    fn is_up(&self) -> bool {
        true
    }
}

/// Where a stream's packets come from.
#[derive(Debug, Clone)]
pub enum Content {
    /// Made from a template.
    Template(Box<Template>),
    /// One after another, then from the start again.
    Replay(Vec<Vec<u8>>),
    /// Buffers of the pool, oldest first, with their old content: nothing is written, so that packets are not in the
    /// cache, as if from a device. For measurements; the caller first fills all buffers with packets of this length.
    AsTheyAre(u16),
}

/// Where a stream's packets enter the graph, and so which header they begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub edge: EdgeIndex,
    pub first: First,
    /// Flags of its packets.
    pub flags: u32,
}

impl Entry {
    /// Frames, to a node by an edge.
    pub const fn frames(edge: EdgeIndex) -> Entry {
        Entry { edge, first: First::Ethernet, flags: 0 }
    }
}

/// The first edges of `pg-input`; the others are its owner's, who knows which nodes there are.
pub mod first_edge {
    use graph::EdgeIndex;
    /// To the end of the arc `device-input`.
    pub const RECEIVED: EdgeIndex = 0;
    /// For packets of a stream whose interface is down.
    pub const DOWN: EdgeIndex = 1;
}

/// A stream of packets.
#[derive(Debug, Clone)]
pub struct Stream {
    pub name: String,
    /// Distinguishes its packets from those of other streams, in traces.
    pub number: u32,
    /// The interface on which its packets are received.
    pub interface: InterfaceIndex,
    pub entry: Entry,
    /// Packets to send in total; 0: no limit.
    pub limit: u64,
    /// Packets a second; 0: as many as possible.
    pub rate: f64,
    /// Most packets a vector.
    pub max_frame: usize,
    pub content: Content,
    pub enabled: bool,
    pub sent: u64,
    /// The interface is up.
    pub up: bool,
    /// How many packets may be sent, and the time of that calculation (ticks).
    credit: f64,
    reckoned: u64,
    next: u64,
}

impl Stream {
    pub fn new(name: &str, interface: InterfaceIndex, content: Content) -> Stream {
        Stream {
            name: name.into(),
            number: 0,
            interface,
            entry: Entry::frames(first_edge::RECEIVED),
            limit: 0,
            rate: 0.0,
            max_frame: VECTOR_SIZE,
            content,
            enabled: false,
            sent: 0,
            up: false,
            credit: 0.0,
            reckoned: 0,
            next: 0,
        }
    }

    fn enable(&mut self, enabled: bool) {
        self.enabled = enabled;
        self.credit = 1.0;
        self.reckoned = time::ticks();
        if enabled && self.limit > 0 && self.sent >= self.limit {
            // A stream that has ended starts over.
            self.sent = 0;
        }
    }

    /// How many packets are due.
    fn due(&mut self, now: u64, room: usize) -> usize {
        if !self.enabled {
            return 0;
        }
        let mut due = room.min(self.max_frame);
        if self.limit > 0 {
            due = due.min(usize::try_from(self.limit - self.sent).unwrap_or(usize::MAX));
        }
        if self.rate > 0.0 {
            let passed = time::seconds(now.saturating_sub(self.reckoned));
            self.reckoned = now;
            // At most one vector may be owed: after a stall the missed packets are not made up for.
            self.credit = (self.credit + passed * self.rate).min(VECTOR_SIZE as f64);
            due = due.min(self.credit as usize);
        }
        due
    }
}

const COUNTERS: &[CounterSpec] = &[CounterSpec(
    "no free buffer",
    Severity::Error,
    "All packet buffers are in use (`show buffers`). Increase `buffers-per-numa` in startup.conf.",
)];

/// The input node `pg-input`.
pub struct PgInput {
    pub streams: Vec<Stream>,
    turn: usize,
    arc: ArcIndex,
    rx: Arc<CounterTable>,
}

impl PgInput {
    /// `arc`: [`crate::input::ARC`], in which frames begin their way.
    pub fn new(arc: ArcIndex, rx: Arc<CounterTable>) -> PgInput {
        PgInput { streams: Vec::new(), turn: 0, arc, rx }
    }

    /// `edges`: those of [`first_edge`], then others to which streams may send.
    pub fn spec(edges: &'static [EdgeSpec]) -> NodeSpec {
        NodeSpec { name: INPUT.into(), edges, counters: COUNTERS, trace }
    }

    /// Packets of an interface that is down are made, dropped and counted by name.
    pub fn set_up(&mut self, interface: InterfaceIndex, up: bool) {
        for stream in self.streams.iter_mut().filter(|stream| stream.interface == interface) {
            stream.up = up;
        }
    }

    /// Starts or stops a stream, or all streams.
    pub fn enable(&mut self, name: Option<&str>, enabled: bool) {
        let meant = self.streams.iter_mut().filter(|stream| name.is_none_or(|name| stream.name == name));
        meant.for_each(|stream| stream.enable(enabled));
    }
}

/// Fresh packets of a stream, their bytes written, in `out`.
fn generate(stream: &mut Stream, buffers: &mut Buffers, want: usize, out: &mut Vector) -> usize {
    let from = out.len();
    const L2: u16 = HEADROOM as u16;
    let entry = if stream.up { stream.entry.edge } else { first_edge::DOWN };
    // The next node writes the target; until then it holds the stream's number.
    let (rx_interface, target, flags) = (stream.interface, stream.number, stream.entry.flags);
    let mut alike = Row { rx_interface, target, flags, l2: L2, l3: L2, ..Row::default() };
    if let Content::AsTheyAre(length) = stream.content {
        alike.length = length;
    }
    let got = out.extend_fresh(buffers, want, alike, entry);
    match &mut stream.content {
        Content::AsTheyAre(_) => {}
        Content::Template(template) => {
            let columns = out.columns();
            for (&packet, length) in columns.packets[from..].iter().zip(&mut columns.length[from..]) {
                *length = template.write_next(&mut buffers.bytes_mut(packet)[HEADROOM..HEADROOM + DATA_SIZE]);
            }
        }
        Content::Replay(frames) => {
            let complete = replay(frames, stream.next, buffers, &out.packets()[from..]);
            out.truncate(from + complete);
            let columns = out.columns();
            for (length, flags) in columns.length[from..].iter_mut().zip(&mut columns.flags[from..]) {
                let frame = &frames[stream.next as usize];
                stream.next = (stream.next + 1) % frames.len() as u64;
                *length = frame.len() as u16;
                *flags |= if frame.len() > DATA_SIZE { flag::CHAINED } else { 0 };
            }
            return complete;
        }
    }
    got
}

/// Writes frames, starting with the n-th, into buffers; a long frame takes several. Returns how many frames are
/// complete. Buffers that do not make a complete frame are freed.
fn replay(frames: &[Vec<u8>], first: u64, buffers: &mut Buffers, packets: &[PacketIndex]) -> usize {
    for (at, &packet) in packets.iter().enumerate() {
        let frame = &frames[(first as usize + at) % frames.len()];
        if frame.len() <= DATA_SIZE {
            buffers.bytes_mut(packet)[HEADROOM..HEADROOM + frame.len()].copy_from_slice(frame);
            continue;
        }
        let mut parts = [packet; MAX_SEGMENTS];
        let parts = &mut parts[..frame.len().div_ceil(DATA_SIZE)];
        let more = buffers.allocate(&mut parts[1..]);
        if more < parts.len() - 1 {
            buffers.free(&parts[1..=more]);
            buffers.free(&packets[at..]);
            return at;
        }
        chain::write(buffers, parts, frame);
    }
    packets.len()
}

impl Source for PgInput {
    fn poll(&mut self, cx: &mut Context<'_>, out: &mut Vector) {
        // Each time another stream is first: they may have more packets together than one vector holds.
        let turn = self.turn.min(self.streams.len());
        let (later, first) = self.streams.split_at_mut(turn);
        for stream in first.iter_mut().chain(later) {
            let due = stream.due(cx.now, out.room());
            if due == 0 {
                continue;
            }
            let from = out.len();
            let got = generate(stream, cx.buffers, due, out);
            if got < due {
                cx.count(0, (due - got) as u64);
            }
            stream.sent += got as u64;
            stream.credit -= got as f64;
            if stream.limit > 0 && stream.sent >= stream.limit {
                stream.enabled = false;
            }
            let bytes: u64 = out.lengths()[from..].iter().map(|&length| length as u64).sum();
            self.rx.add(cx.thread, stream.interface.0 as usize, 0, got as u64);
            self.rx.add(cx.thread, stream.interface.0 as usize, 1, bytes);
            if stream.up
                && stream.entry.edge == first_edge::RECEIVED
                && let Some(chain) = cx.chain(self.arc, stream.interface)
            {
                out.begin_from(from, chain);
            }
            if out.room() == 0 {
                break;
            }
        }
        self.turn = if self.turn + 1 < self.streams.len() { self.turn + 1 } else { 0 };
    }

    fn wake(&self) -> Wake<'_> {
        let next = self
            .streams
            .iter()
            .filter(|stream| stream.enabled)
            .map(|stream| match stream.rate > 0.0 {
                false => 0,
                true => {
                    let wait = (1.0 - stream.credit).max(0.0) / stream.rate;
                    stream.reckoned.saturating_add((wait * time::ticks_per_second()) as u64)
                }
            })
            .min();
        match next {
            None => Wake::Never,
            Some(0) => Wake::Poll,
            Some(ticks) => Wake::At(ticks),
        }
    }

    fn waits(&self) -> bool {
        !self.streams.iter().any(|stream| stream.enabled)
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  {} bytes, sw_if_index {}", snapshot.row.length, snapshot.row.rx_interface)?;
    let bytes = snapshot.l2();
    if snapshot.row.flags & flag::BARE == 0 {
        writeln!(f, "{}", Summary::ethernet(bytes).indented(2))?;
        if let Ok(frame) = wire::ethernet::Header::new_checked(bytes)
            && frame.ethertype() == wire::ethernet::EtherType::IPV4
        {
            writeln!(f, "{}", Summary::ipv4(frame.payload()).indented(2))?;
        }
        return Ok(());
    }
    let is_labelled = snapshot.row.flags & check::NOT_IP4 != 0;
    let summary = match bytes.first().map(|byte| byte >> 4) {
        _ if is_labelled => Summary::mpls(bytes),
        Some(6) => Summary::ipv6(bytes),
        _ => Summary::ipv4(bytes),
    };
    writeln!(f, "{}", summary.indented(2))
}

/// Writes the same bytes into every buffer of a worker's pool, for [`Content::AsTheyAre`].
pub fn fill_all_buffers(buffers: &mut Buffers, packet: &mut dyn FnMut(&mut [u8])) {
    let mut all = vec![PacketIndex::NONE; buffers.pool().capacity() as usize];
    let got = buffers.allocate(&mut all);
    for &index in &all[..got] {
        packet(&mut buffers.bytes_mut(index)[HEADROOM..HEADROOM + DATA_SIZE]);
    }
    buffers.free(&all[..got]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_frames_are_replayed_whole_or_not_at_all() {
        let frames: Vec<Vec<u8>> = [60, 9216, 2048, 2049].map(|length| (0..length).map(|n| n as u8).collect()).into();
        let pool = graph::Pool::new(1024, false).unwrap();
        let mut buffers = Buffers::new(&pool, 1024);
        // All but 64 buffers are in use elsewhere.
        let mut others = vec![PacketIndex::NONE; 1024 - 64];
        assert_eq!(buffers.allocate(&mut others), others.len());
        let mut stream = Stream::new("s", InterfaceIndex(1), Content::Replay(frames.clone()));
        stream.up = true;
        let mut out = Vector::new();
        assert_eq!(generate(&mut stream, &mut buffers, 5, &mut out), 5);
        for at in 0..5 {
            let chain = chain::Chain::of(&buffers, &out.row(at)).expect("it is whole");
            assert_eq!(chain.slices(&buffers).collect::<Vec<_>>().concat(), frames[at % 4], "{at}");
        }
        // Five frames are complete, with thirteen buffers: the next are sent while there is room.
        let before = buffers.in_use();
        let mut rest = Vector::new();
        let got = generate(&mut stream, &mut buffers, 40, &mut rest);
        assert!(got < 40, "{got}");
        assert_eq!((rest.len(), stream.next), (got, (5 + got as u64) % 4));
        let parts = |at: usize| usize::from(rest.row(at).length).div_ceil(DATA_SIZE);
        assert_eq!(buffers.in_use() - before, (0..got).map(parts).sum::<usize>() as u64, "nothing is lost");
    }

    #[test]
    fn a_rate_is_kept_and_a_stall_is_not_made_up_for() {
        let mut stream = Stream::new("s", InterfaceIndex(1), Content::Replay(vec![vec![0; 60]]));
        stream.rate = 100_000.0;
        stream.enable(true);
        let (start, second) = (stream.reckoned, time::ticks_per_second());
        let mut sent = 0;
        let mut poll = |at: f64| {
            let due = stream.due(start + (at * second) as u64, VECTOR_SIZE);
            stream.credit -= due as f64;
            due
        };
        // In a thousand polls within a second, a hundred packets are due each time.
        for poll_number in 1..=1000 {
            sent += poll(f64::from(poll_number) / 1000.0);
        }
        assert!((99_999..=100_001).contains(&sent), "{sent}");
        // After ten seconds without a poll, only one vector is owed.
        assert_eq!(poll(11.0), VECTOR_SIZE);
        assert!((9..=10).contains(&poll(11.0001)));
    }
}
