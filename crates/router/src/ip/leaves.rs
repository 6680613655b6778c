//! Where packets go by the class of their leaf. All nodes that read leaves share this, for both families, so that a
//! class leads the same way from each.

use super::control::TableIndex;
use super::fibs::Lookup;
use crate::ip::class;
use crate::reply::{report4, report6};
use crate::table_index::{mark_of, own_table};
use graph::{EdgeIndex, EdgeSpec, Lazy, Row, Scratch, Snapshot, Vector, flag};
use std::fmt;
use tables::{Leaf, Lookup4, Lookup6};
use wire::batch::{FlowFields, Frames, check};
use wire::{batch, icmpv4, icmpv6};

graph::edges! {
    /// The edges of all nodes that read leaves, so that a leaf's class leads the same way from each.
    pub enum Edge {
        Rewrite => next "ip4-rewrite",
        LoadBalance => next "ip4-load-balance",
        Local => next "ip4-local",
        Glean => next "ip4-glean",
        Punt => next "ip4-punt",
        IcmpError => next "ip4-icmp-error",
        InTable => next "lookup-ip4-dst",
        Counted => next "ip4-route-counters",
        Midchain => next "ip4-midchain",
        Object => next "object-dispatch",
        /// A packet to a prefix whose route says `drop` (`blackhole`), or to the first address of an attached
        /// network, which no host has. `show ip fib ADDRESS` names the route, and `ip route del` deletes it.
        Drop => note "blackholed packets",
        /// A packet matched a route that was being changed and had no forwarding object. A few during a change are
        /// harmless. If the counter keeps rising, report it together with `show ip fib`.
        Broken => drop "route leads to nothing",
        /// Routes sent a packet from table to table, and after four tables there was still no result. Most likely the
        /// routes form a loop. `show ip fib table N ADDRESS` names the route in each table.
        TooManyTables => drop "too many tables in a row",
        /// A packet from another network was for all hosts of an attached network. Such packets amplify attacks, so
        /// the router does not forward them (RFC 2644) unless `set interface ip directed-broadcast` enables this on
        /// that network's interface.
        Broadcast => note "directed broadcast not sent on",
    }
}

/// The same for IPv6, in the same order, without broadcasts.
pub mod edge6 {
    graph::edges! {
        pub enum Edge like super::Edge {
            Rewrite => next "ip6-rewrite",
            LoadBalance => next "ip6-load-balance",
            Local => next "ip6-local",
            Glean => next "ip6-glean",
            Punt => next "ip6-punt",
            IcmpError => next "ip6-icmp-error",
            InTable => next "lookup-ip6-dst",
            Counted => next "ip6-route-counters",
            Midchain => next "ip6-midchain",
            Object => next "object-dispatch",
            /// A packet to a prefix whose route says `drop` (`blackhole`). `show ip6 fib ADDRESS` names the route,
            /// and `ip route del` deletes it.
            Drop => note "blackholed packets",
            /// A packet matched a route that was being changed and had no forwarding object. A few during a change
            /// are harmless. If the counter keeps rising, report it together with `show ip6 fib`.
            Broken => drop "route leads to nothing",
            /// Routes sent a packet from table to table, and after four tables there was still no result. Most likely
            /// the routes form a loop. `show ip6 fib table N ADDRESS` names the route in each table.
            TooManyTables => drop "too many tables in a row",
        }
    }
}

/// The edge for each class of leaf; `broadcast` is the edge for directed broadcasts.
const fn by_class(broadcast: Edge) -> [EdgeIndex; 256] {
    let mut edges = [Edge::Broken as EdgeIndex; 256];
    edges[class::MISS as usize] = Edge::IcmpError as EdgeIndex;
    edges[class::DROP as usize] = Edge::Drop as EdgeIndex;
    edges[class::ADJACENCY as usize] = Edge::Rewrite as EdgeIndex;
    edges[class::GLEAN as usize] = Edge::Glean as EdgeIndex;
    edges[class::RECEIVE as usize] = Edge::Local as EdgeIndex;
    edges[class::LOAD_BALANCE as usize] = Edge::LoadBalance as EdgeIndex;
    edges[class::PUNT as usize] = Edge::Punt as EdgeIndex;
    edges[class::UNREACHABLE as usize] = Edge::IcmpError as EdgeIndex;
    edges[class::PROHIBIT as usize] = Edge::IcmpError as EdgeIndex;
    edges[class::BROADCAST as usize] = broadcast as EdgeIndex;
    edges[class::LOOKUP as usize] = Edge::InTable as EdgeIndex;
    edges[class::COUNTED as usize] = Edge::Counted as EdgeIndex;
    edges[class::MIDCHAIN as usize] = Edge::Midchain as EdgeIndex;
    edges[class::OBJECT as usize] = Edge::Object as EdgeIndex;
    edges
}

/// What differs between the families.
pub trait Forwarding: Lookup {
    const EDGES: &'static [EdgeSpec];
    /// The edge for each class of leaf.
    const BY_CLASS: [EdgeIndex; 256];
    /// The names of the family's nodes: `lookup-ip4-dst`, `ip4-load-balance`, `ip4-route-counters`.
    const IN_TABLE: &'static str;
    const LOAD_BALANCE: &'static str;
    const COUNTERS: &'static str;

    /// The destination in a header.
    fn destination(header: &[u8; 64]) -> Self::Address;
    /// The hash of each packet's flow.
    fn flow_hashes(frames: &Frames<'_>, flags: &[u32], seed: u32, hashes: &mut [u32]);
    /// The hash of one packet's flow, by other fields than the default ones.
    fn flow_hash_by(fields: FlowFields, bytes: &[u8; 64], flags: u32, seed: u32) -> u32;
    /// The report to the sender of a packet that its route refuses, for the ICMP error nodes.
    fn refusal(leaf: Leaf) -> Scratch;
    /// Displays a packet in a trace.
    fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result;
}

impl Forwarding for Lookup4 {
    const EDGES: &'static [EdgeSpec] = Edge::EDGES;
    const BY_CLASS: [EdgeIndex; 256] = by_class(Edge::Broadcast);
    const IN_TABLE: &'static str = "lookup-ip4-dst";
    const LOAD_BALANCE: &'static str = "ip4-load-balance";
    const COUNTERS: &'static str = "ip4-route-counters";

    #[inline]
    fn destination(header: &[u8; 64]) -> u32 {
        u32::from_be_bytes(*header[16..].first_chunk().expect("4 bytes"))
    }

    #[inline]
    fn flow_hashes(frames: &Frames<'_>, flags: &[u32], seed: u32, hashes: &mut [u32]) {
        batch::flow_hashes(frames, flags, seed, hashes);
    }

    fn flow_hash_by(fields: FlowFields, bytes: &[u8; 64], flags: u32, seed: u32) -> u32 {
        batch::flow_hash_by(fields, bytes, flags & check::FRAGMENT == 0, seed)
    }

    fn refusal(leaf: Leaf) -> Scratch {
        use icmpv4::unreachable;
        let report = match leaf.class() {
            // RFC 1812 4.3.3.1: no route is code 0; code 1 is for the last hop.
            class::MISS => report4::Report::unreachable(unreachable::NETWORK),
            class::PROHIBIT => report4::Report::prohibited(),
            _ => report4::Report::unreachable(unreachable::HOST),
        };
        Scratch::of(report)
    }

    fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
        crate::headers::trace_ip4(snapshot, f)
    }
}

impl Forwarding for Lookup6 {
    const EDGES: &'static [EdgeSpec] = edge6::Edge::EDGES;
    const BY_CLASS: [EdgeIndex; 256] = by_class(Edge::Broken);
    const IN_TABLE: &'static str = "lookup-ip6-dst";
    const LOAD_BALANCE: &'static str = "ip6-load-balance";
    const COUNTERS: &'static str = "ip6-route-counters";

    #[inline]
    fn destination(header: &[u8; 64]) -> u128 {
        u128::from_be_bytes(*header[24..].first_chunk().expect("16 bytes"))
    }

    #[inline]
    fn flow_hashes(frames: &Frames<'_>, _: &[u32], seed: u32, hashes: &mut [u32]) {
        batch::flow_hashes6(frames, seed, hashes);
    }

    fn flow_hash_by(fields: FlowFields, bytes: &[u8; 64], _: u32, seed: u32) -> u32 {
        batch::flow_hash6_by(fields, bytes, seed)
    }

    /// RFC 4443 section 3.1.
    fn refusal(leaf: Leaf) -> Scratch {
        use icmpv6::unreachable;
        let report = match leaf.class() {
            class::MISS => report6::Report::unreachable(unreachable::NO_ROUTE),
            class::PROHIBIT => report6::Report::unreachable(unreachable::PROHIBITED),
            _ => report6::Report::unreachable(unreachable::ADDRESS),
        };
        Scratch::of(report)
    }

    fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
        crate::headers::trace_ip6(snapshot, f)
    }
}

/// Sends each packet on by the class of its leaf.
#[inline]
pub fn dispatch<L: Forwarding>(vector: &mut Vector) {
    let columns = vector.columns();
    let Some(&first) = columns.target.first() else { return };
    let differ = columns.target.iter().fold(0, |all, leaf| all | (leaf ^ first));
    let way = L::BY_CLASS[Leaf(first).class() as usize];
    if differ >> 24 == 0 && way != Edge::IcmpError as EdgeIndex {
        return vector.set_edges(way);
    }
    let mut refused = false;
    for (leaf, edge) in columns.target.iter().zip(columns.edge) {
        *edge = L::BY_CLASS[Leaf(*leaf).class() as usize];
        refused |= *edge == Edge::IcmpError as EdgeIndex;
    }
    for i in (0..vector.len()).filter(|_| refused) {
        if vector.edges()[i] == Edge::IcmpError as EdgeIndex {
            vector.set_scratch(i, L::refusal(Leaf(vector.targets()[i])));
        }
    }
}

/// Notes the table in which a traced packet was looked up, for its trace.
pub fn note_tables(vector: &mut Vector, table_of: impl Fn(&Row) -> TableIndex) {
    if vector.any_flags() & flag::TRACED == 0 {
        return;
    }
    for i in 0..vector.len() {
        let mut row = vector.row(i);
        if row.flags & flag::TRACED != 0 {
            row.set_lazy(Lazy::Table, mark_of(table_of(&row)));
            vector.set_row(i, row);
        }
    }
}

/// The trace of nodes that look packets up in the table of their interface.
pub fn trace_lookup<L: Forwarding>(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    let leaf = Leaf(snapshot.row.target);
    writeln!(f, "  fib {} dpo-idx {}", own_table(&snapshot.row).unwrap_or(TableIndex::DEFAULT).0, leaf.index())?;
    L::trace(snapshot, f)
}

/// The trace of the other nodes.
pub fn trace_leaf<L: Forwarding>(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  dpo-idx {}", Leaf(snapshot.row.target).index())?;
    L::trace(snapshot, f)
}
