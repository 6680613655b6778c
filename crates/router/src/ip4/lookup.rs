//! `ip4-lookup`: the longest prefix that matches.
//!
//! Reads: `target`, the destination. Writes: `target`, the leaf that it resolves to.
//! Next: by the leaf's kind.
//!
//! `ip4-load-balance`: picks one path of several by the flow's hash. Reads: `target` (a
//! load-balance leaf), addresses and ports. Writes: `target`, the path's leaf. Next: by
//! its kind.

use crate::icmp::Report;
use graph::{Context, EdgeIndex, Map, NodeSpec, Snapshot, Vector};
use std::fmt;
use tables::{Leaf, Lookup4, ObjectHandle, kind};
use wire::batch::check;
use wire::icmpv4::unreachable;

graph::edges! {
    /// Of both nodes, so that a leaf's kind leads the same way from either.
    pub enum Edge {
        Rewrite => next "ip4-rewrite",
        LoadBalance => next "ip4-load-balance",
        Local => next "ip4-local",
        Glean => next "ip4-glean",
        Punt => next "ip4-punt",
        IcmpError => next "ip4-icmp-error",
        /// A packet to a prefix whose route says `drop` (`blackhole`), or to the first address of an attached network,
        /// which no host has. `show ip fib ADDRESS` names the route; `ip route del` takes it away.
        Drop => drop "blackholed packets",
        /// A packet from elsewhere to all hosts of an attached network. Such packets amplify attacks and are not sent on
        /// (RFC 2644), unless `set interface ip directed-broadcast` says so for that network's interface.
        Broadcast => drop "directed broadcast not sent on",
        /// A packet met a route while it was being changed and found no forwarding object behind it. A few around a
        /// change are no harm; when it goes on counting, report it together with `show ip fib`.
        Broken => drop "route leads to nothing",
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
    edges[kind::BROADCAST as usize] = Edge::Broadcast as EdgeIndex;
    edges
};

/// What a sender is told of a packet that its route refuses.
fn refusal(leaf: Leaf) -> Report {
    match leaf.kind() {
        // RFC 1812 4.3.3.1: no route is code 0; code 1 is for the last hop.
        kind::MISS => Report::unreachable(unreachable::NETWORK),
        kind::PROHIBIT => Report::prohibited(),
        _ => Report::unreachable(unreachable::HOST),
    }
}

/// Sends each packet on by the kind of its leaf.
#[inline]
fn dispatch(vector: &mut Vector) {
    let columns = vector.columns();
    let Some(&first) = columns.target.first() else { return };
    let differ = columns.target.iter().fold(0, |all, leaf| all | (leaf ^ first));
    let way = BY_KIND[Leaf(first).kind() as usize];
    if differ >> 28 == 0 && way != Edge::IcmpError as EdgeIndex {
        columns.edge.fill(way);
        return;
    }
    for i in 0..vector.len() {
        let leaf = Leaf(vector.targets()[i]);
        let way = BY_KIND[leaf.kind() as usize];
        vector.set_edge(i, way);
        if way == Edge::IcmpError as EdgeIndex {
            vector.set_scratch(i, refusal(leaf).into());
        }
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-lookup".into(), edges: Edge::EDGES, counters: &[], trace }
}

pub struct Ip4Lookup {
    fib: Lookup4,
}

impl Ip4Lookup {
    pub fn new(fib: Lookup4) -> Ip4Lookup {
        Ip4Lookup { fib }
    }
}

impl Map for Ip4Lookup {
    #[inline]
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        self.fib.lookup_batch(cx.round, vector.columns().target);
        dispatch(vector);
    }
}

pub fn load_balance_spec() -> NodeSpec {
    NodeSpec { name: "ip4-load-balance".into(), edges: Edge::EDGES, counters: &[], trace }
}

pub struct Ip4LoadBalance {
    objects: ObjectHandle,
    /// Differs between routers, so that those in a row do not all pick alike.
    seed: u32,
}

impl Ip4LoadBalance {
    pub fn new(objects: ObjectHandle, seed: u32) -> Ip4LoadBalance {
        Ip4LoadBalance { objects, seed }
    }
}

impl Map for Ip4LoadBalance {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let (frames, sides) = vector.l3_frames(cx.buffers);
        for i in 0..frames.len() {
            // Fragments hash without ports, as only the first has them (RFC 7690 4).
            let whole = sides.flags[i] & check::FRAGMENT == 0;
            let hash = flow_hash(frames.bytes(i), whole, self.seed);
            let object = self.objects.get(cx.round, Leaf(sides.target[i]).index());
            sides.target[i] = object.bucket(hash).0;
        }
        dispatch(vector);
    }
}

/// Hash of a packet's addresses and protocol, and its ports when `with_ports`, for the
/// IPv4 header at the start of `bytes`.
pub fn flow_hash(bytes: &[u8; 64], with_ports: bool, seed: u32) -> u32 {
    let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]) as u64;
    let header = (bytes[0] & 0xf) as usize * 4;
    let protocol = bytes[9];
    let ports = match protocol {
        // TCP, UDP, UDP-Lite, SCTP, DCCP
        6 | 17 | 136 | 132 | 33 if with_ports && header <= 60 => word(header),
        _ => 0,
    };
    let mut hash = (word(12) << 32 | word(16)) ^ (seed as u64) << 16;
    hash = mix(hash);
    hash = mix(hash ^ (ports << 8 | protocol as u64));
    (hash >> 32) as u32
}

/// A finaliser that spreads every input bit over the whole word (Stafford's mix 13 of
/// MurmurHash3).
fn mix(mut value: u64) -> u64 {
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    let leaf = Leaf(snapshot.row.target);
    writeln!(f, "  fib 0 dpo-idx {}", leaf.index())?;
    crate::headers::trace_ip4(snapshot, f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flows_spread_evenly_and_each_keeps_its_path() {
        let mut packet = [0u8; 64];
        packet[0] = 0x45;
        packet[9] = 17;
        let mut buckets = [0u32; 8];
        for flow in 0..8000u32 {
            packet[20..24].copy_from_slice(&flow.to_be_bytes());
            let hash = flow_hash(&packet, true, 7);
            assert_eq!(hash, flow_hash(&packet, true, 7));
            buckets[hash as usize % 8] += 1;
        }
        assert!(buckets.iter().all(|n| (850..1150).contains(n)), "{buckets:?}");
    }

    #[test]
    fn fragments_of_a_flow_go_one_way() {
        let mut packet = [0u8; 64];
        packet[0] = 0x45;
        packet[9] = 17;
        let hash = flow_hash(&packet, false, 7);
        packet[20] = 9;
        assert_eq!(flow_hash(&packet, false, 7), hash);
        assert_ne!(flow_hash(&packet, true, 7), hash);
    }
}
