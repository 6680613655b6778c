//! `ip6-lookup`: the longest prefix that matches.
//!
//! Reads: the destination. Writes: `target`, the leaf that it resolves to. Next: by the leaf's kind.
//!
//! `ip6-load-balance`: picks one path of several by the flow's hash. Reads: `target` (a load-balance leaf), addresses, flow
//! label and ports. Writes: `target`, the path's leaf. Next: by its kind.
//!
//! `lookup-ip6-dst`: looks packets up in the table to which a route sent them. Reads: `target` (a lookup leaf), the
//! destination. Writes: `target`, what it resolves to there; `flags`, in how many tables it has been. Next: by its kind.

use crate::icmp6::Report;
use crate::ip::Fibs6;
use crate::ip::control::TableIndex;
use crate::ip::fibs::{MAX_TABLES_IN_A_ROW, runs};
use graph::vector::one_value;
use graph::{Context, EdgeIndex, Map, NodeSpec, Row, Snapshot, VECTOR_SIZE, Vector, flag};
use std::fmt;
use tables::{Leaf, ObjectHandle, kind};
use wire::batch;
use wire::icmpv6::unreachable;

graph::edges! {
    /// Of all nodes that look at leaves, so that a leaf's kind leads the same way from either.
    pub enum Edge {
        Rewrite => next "ip6-rewrite",
        LoadBalance => next "ip6-load-balance",
        Local => next "ip6-local",
        Glean => next "ip6-glean",
        Punt => next "ip6-punt",
        IcmpError => next "ip6-icmp-error",
        InTable => next "lookup-ip6-dst",
        Counted => next "ip6-route-counters",
        /// A packet to a prefix whose route says `drop` (`blackhole`). `show ip6 fib ADDRESS` names the route; `ip route del`
        /// takes it away.
        Drop => drop "blackholed packets",
        /// A packet met a route while it was being changed and found no forwarding object behind it. A few around a
        /// change are no harm; when it goes on counting, report it together with `show ip6 fib`.
        Broken => drop "route leads to nothing",
        /// Routes sent a packet from table to table, and after four of them it was still not done: most likely they form
        /// a circle. `show ip6 fib table N ADDRESS` names the route of each.
        TooManyTables => drop "too many tables in a row",
    }
}

/// The edge for each kind of leaf.
const BY_KIND: [EdgeIndex; kind::COUNT] = {
    let mut edges = [Edge::Broken as EdgeIndex; kind::COUNT];
    edges[kind::MISS as usize] = Edge::IcmpError as EdgeIndex;
    edges[kind::DROP as usize] = Edge::Drop as EdgeIndex;
    edges[kind::ADJACENCY as usize] = Edge::Rewrite as EdgeIndex;
    edges[kind::GLEAN as usize] = Edge::Glean as EdgeIndex;
    edges[kind::RECEIVE as usize] = Edge::Local as EdgeIndex;
    edges[kind::LOAD_BALANCE as usize] = Edge::LoadBalance as EdgeIndex;
    edges[kind::PUNT as usize] = Edge::Punt as EdgeIndex;
    edges[kind::UNREACHABLE as usize] = Edge::IcmpError as EdgeIndex;
    edges[kind::PROHIBIT as usize] = Edge::IcmpError as EdgeIndex;
    edges[kind::LOOKUP as usize] = Edge::InTable as EdgeIndex;
    edges[kind::COUNTED as usize] = Edge::Counted as EdgeIndex;
    edges
};

/// What a sender is told of a packet that its route refuses (RFC 4443 section 3.1).
fn refusal(leaf: Leaf) -> Report {
    match leaf.kind() {
        kind::MISS => Report::unreachable(unreachable::NO_ROUTE),
        kind::PROHIBIT => Report::unreachable(unreachable::PROHIBITED),
        _ => Report::unreachable(unreachable::ADDRESS),
    }
}

/// Sends each packet on by the kind of its leaf.
#[inline]
pub(super) fn dispatch(vector: &mut Vector) {
    let columns = vector.columns();
    let Some(&first) = columns.target.first() else { return };
    let differ = columns.target.iter().fold(0, |all, leaf| all | (leaf ^ first));
    let way = BY_KIND[Leaf(first).kind() as usize];
    if differ >> 28 == 0 && way != Edge::IcmpError as EdgeIndex {
        return vector.set_edges(way);
    }
    let mut refused = false;
    for (leaf, edge) in columns.target.iter().zip(columns.edge) {
        *edge = BY_KIND[Leaf(*leaf).kind() as usize];
        refused |= *edge == Edge::IcmpError as EdgeIndex;
    }
    for i in (0..vector.len()).filter(|_| refused) {
        if vector.edges()[i] == Edge::IcmpError as EdgeIndex {
            vector.set_scratch(i, refusal(Leaf(vector.targets()[i])).into());
        }
    }
}

/// The destinations of all packets.
#[inline]
fn destinations(frames: &batch::Frames<'_>, into: &mut [u128; VECTOR_SIZE]) {
    for (i, destination) in into[..frames.len()].iter_mut().enumerate() {
        *destination = u128::from_be_bytes(*frames.bytes(i)[24..].first_chunk().expect("16 bytes"));
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip6-lookup".into(), edges: Edge::EDGES, counters: &[], trace }
}

pub struct Ip6Lookup {
    fibs: Fibs6,
    destinations: Box<[u128; VECTOR_SIZE]>,
}

impl Ip6Lookup {
    pub fn new(fibs: Fibs6) -> Ip6Lookup {
        Ip6Lookup { fibs, destinations: Box::new([0; VECTOR_SIZE]) }
    }
}

impl Map for Ip6Lookup {
    #[inline]
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let count = vector.len();
        let (frames, _) = vector.l3_frames(cx.buffers);
        destinations(&frames, &mut self.destinations);
        let columns = vector.columns();
        self.fibs.lookup_batch(cx.round, columns.rx_interface, &self.destinations[..count], columns.target);
        dispatch(vector);
        note_tables(vector, |row| self.fibs.index_of(cx.round, row.rx_interface));
    }
}

pub fn in_table_spec() -> NodeSpec {
    NodeSpec { name: "lookup-ip6-dst".into(), edges: Edge::EDGES, counters: &[], trace: trace_leaf }
}

pub struct InTable {
    fibs: Fibs6,
}

impl InTable {
    pub fn new(fibs: Fibs6) -> InTable {
        InTable { fibs }
    }
}

/// A packet's flags count the tables behind the first in which it was looked up.
const TABLES_SHIFT: u32 = flag::TABLES.trailing_zeros();
const _: () = assert!(MAX_TABLES_IN_A_ROW - 1 == flag::TABLES >> TABLES_SHIFT);

impl Map for InTable {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let (mut asked, mut found) = ([0; VECTOR_SIZE], [0; VECTOR_SIZE]);
        let (mut strays, mut any_strays) = ([false; VECTOR_SIZE], false);
        let (frames, sides) = vector.l3_frames(cx.buffers);
        let count = frames.len();
        destinations(&frames, &mut asked);
        for (stray, flags) in strays.iter_mut().zip(sides.flags) {
            let has_been_in = 1 + ((*flags & flag::TABLES) >> TABLES_SHIFT);
            *stray = has_been_in == MAX_TABLES_IN_A_ROW;
            any_strays |= *stray;
            *flags += u32::from(!*stray) << TABLES_SHIFT;
        }
        let table_of = |leaf: u32| TableIndex(Leaf(leaf).index() as u16);
        for (table, run) in runs(sides.target, table_of) {
            self.fibs.lookup_batch_in(cx.round, table, &asked[run.clone()], &mut found[run]);
        }
        sides.target.copy_from_slice(&found[..count]);
        dispatch(vector);
        for i in (0..count).filter(|i| any_strays && strays[*i]) {
            vector.set_edge(i, Edge::TooManyTables as EdgeIndex);
        }
    }
}

pub fn load_balance_spec() -> NodeSpec {
    NodeSpec { name: "ip6-load-balance".into(), edges: Edge::EDGES, counters: &[], trace: trace_leaf }
}

pub struct Ip6LoadBalance {
    objects: ObjectHandle,
    /// Differs between routers, so that those in a row do not all pick alike.
    seed: u32,
}

impl Ip6LoadBalance {
    pub fn new(objects: ObjectHandle, seed: u32) -> Ip6LoadBalance {
        Ip6LoadBalance { objects, seed }
    }
}

impl Map for Ip6LoadBalance {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let (frames, sides) = vector.l3_frames(cx.buffers);
        let mut hashes = [0; VECTOR_SIZE];
        batch::flow_hashes6(&frames, self.seed, &mut hashes[..frames.len()]);
        let objects = self.objects.load(cx.round);
        let object = |leaf: u32| objects.get(Leaf(leaf).index());
        if let Some(leaf) = one_value(sides.target) {
            let object = object(leaf);
            sides.target.iter_mut().zip(hashes).for_each(|(leaf, hash)| *leaf = object.bucket(hash).0);
        } else {
            sides.target.iter_mut().zip(hashes).for_each(|(leaf, hash)| *leaf = object(*leaf).bucket(hash).0);
        }
        dispatch(vector);
    }
}

/// Tells the trace in which table a packet was looked up: beside what `ip6-icmp-error` is told.
fn note_tables(vector: &mut Vector, table_of: impl Fn(&Row) -> TableIndex) {
    if vector.any_flags() & flag::TRACED == 0 {
        return;
    }
    for i in 0..vector.len() {
        let row = vector.row(i);
        let has_report = vector.columns().edge[i] == Edge::IcmpError as EdgeIndex;
        let report = if has_report { u64::from(Report::from(row.scratch)) } else { 0 };
        if row.flags & flag::TRACED != 0 {
            vector.set_scratch(i, report | u64::from(table_of(&row).0) << TABLE_SHIFT);
        }
    }
}

const TABLE_SHIFT: u32 = 48;

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    let leaf = Leaf(snapshot.row.target);
    writeln!(f, "  fib {} dpo-idx {}", snapshot.row.scratch >> TABLE_SHIFT, leaf.index())?;
    crate::headers::trace_ip6(snapshot, f)
}

pub(super) fn trace_leaf(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  dpo-idx {}", Leaf(snapshot.row.target).index())?;
    crate::headers::trace_ip6(snapshot, f)
}
