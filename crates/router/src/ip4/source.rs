//! `ip4-rx-urpf`: does the source of a packet lie where it came from (RFC 3704)? Only packets of
//! interfaces with `set urpf` come here.
//!
//! Reads: the source address. Next: `ip4-lookup`, or a drop by name.
//!
//! [`Sources`] is what `ip4-local` asks of packets to this router, whatever interface they came by.

use crate::interface::SharedFacts;
use crate::ip::Fibs4;
use graph::{Context, InterfaceIndex, Map, NodeSpec, VECTOR_SIZE, Vector, flag};
use std::net::Ipv4Addr;
use tables::{Leaf, ObjectHandle, kind};

graph::edges! {
    pub enum Edge {
        Lookup => next "ip4-lookup",
        Local => next "ip4-local",
        /// The routes to the source of this packet do not lead out by the interface that it came by, and that
        /// interface has `set urpf ip4 rx strict`: its sender forges addresses, or paths are asymmetric here and
        /// `loose` is the right mode (RFC 3704 2.2).
        Strict => drop "uRPF drop (strict)",
        /// There is no route to the source of this packet, and the interface has `set urpf ip4 rx loose`. A default
        /// route counts only with `allow-default` (RFC 3704 2.4).
        Loose => drop "uRPF drop (loose)",
    }
}

/// How the sources of an interface's packets are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceCheck {
    pub mode: Mode,
    /// The default route counts as a route to a source.
    pub allow_default: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// There is a route to the source.
    Loose,
    /// A route to the source leads out by the interface that the packet came by.
    Strict,
}

impl std::fmt::Display for SourceCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.mode {
            Mode::Loose => "loose",
            Mode::Strict => "strict",
        })?;
        if self.allow_default { f.write_str(" allow-default") } else { Ok(()) }
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-rx-urpf".into(), edges: Edge::EDGES, counters: &[], trace: crate::headers::trace_ip4 }
}

pub struct Urpf {
    facts: SharedFacts,
    fibs: Fibs4,
    objects: ObjectHandle,
}

impl Urpf {
    pub fn new(facts: SharedFacts, fibs: Fibs4, objects: ObjectHandle) -> Urpf {
        Urpf { facts, fibs, objects }
    }

    /// Whether some path of a leaf leads out by an interface.
    fn leads_by(&self, cx: &Context<'_>, leaf: Leaf, source: u32, interface: InterfaceIndex) -> bool {
        let object = || self.objects.get(cx.round, leaf.index());
        match leaf.kind() {
            kind::ADJACENCY if is_broadcast(cx, &self.objects, leaf) => false,
            kind::ADJACENCY | kind::GLEAN => object().interface() == interface.0,
            // Load balances do not nest: their leaves are single paths.
            kind::LOAD_BALANCE => object().buckets().any(|path| {
                let path = self.fibs.follow(cx.round, path, source, true);
                matches!(path.kind(), kind::ADJACENCY | kind::GLEAN)
                    && self.objects.get(cx.round, path.index()).interface() == interface.0
            }),
            _ => false,
        }
    }

    fn judge(&self, cx: &Context<'_>, check: SourceCheck, source: u32, mut leaf: Leaf, rx: InterfaceIndex) -> Edge {
        if leaf == Leaf::MISS && check.allow_default {
            leaf = self.fibs.default_route(cx.round, rx, source);
        }
        match check.mode {
            Mode::Strict if self.leads_by(cx, leaf, source, rx) => Edge::Lookup,
            Mode::Strict => Edge::Strict,
            Mode::Loose if leads_on(cx, &self.objects, leaf) => Edge::Lookup,
            Mode::Loose => Edge::Loose,
        }
    }
}

/// Whether packets to a leaf get to somebody. Those to this router do not count: nobody else has its
/// addresses. Nor does what is for all hosts of a network: no one host is that.
fn leads_on(cx: &Context<'_>, objects: &ObjectHandle, leaf: Leaf) -> bool {
    matches!(leaf.kind(), kind::ADJACENCY | kind::GLEAN | kind::LOAD_BALANCE | kind::PUNT)
        && !is_broadcast(cx, objects, leaf)
}

/// A directed broadcast that is sent on (`set interface ip directed-broadcast`).
fn is_broadcast(cx: &Context<'_>, objects: &ObjectHandle, leaf: Leaf) -> bool {
    leaf.kind() == kind::ADJACENCY && objects.get(cx.round, leaf.index()).next_hop() == Ipv4Addr::BROADCAST
}

/// Where a packet goes whose source and options are in order: what is for all hosts here is for this
/// router, whatever the routes say; else `way`.
pub(super) fn onward<E: PartialEq>(vector: &mut Vector, i: usize, local: E, way: E) -> E {
    let target = &mut vector.columns().target[i];
    if *target != u32::from(Ipv4Addr::BROADCAST) {
        return way;
    }
    *target = Leaf::new(kind::RECEIVE, 0).0;
    local
}

/// The source address of each packet.
fn sources(cx: &mut Context<'_>, vector: &mut Vector) -> [u32; VECTOR_SIZE] {
    let mut sources = [0; VECTOR_SIZE];
    let (frames, _) = vector.l3_frames(cx.buffers);
    for (i, source) in sources[..frames.len()].iter_mut().enumerate() {
        let bytes = frames.bytes(i);
        *source = u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]);
    }
    sources
}

impl Map for Urpf {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let sources = sources(cx, vector);
        let (mut leaves, count) = ([0; VECTOR_SIZE], vector.len());
        self.fibs.way_back(cx.round, vector.rx_interfaces(), &sources[..count], &mut leaves[..count], true);
        let facts = self.facts.load(cx.round);
        for (i, leaf) in leaves[..vector.len()].iter().enumerate() {
            let rx = vector.rx_interfaces()[i];
            let check = facts.get(rx).and_then(|facts| facts.source_check);
            let to = check.map_or(Edge::Lookup, |check| self.judge(cx, check, sources[i], Leaf(*leaf), rx));
            let to = if to == Edge::Lookup { onward(vector, i, Edge::Local, to) } else { to };
            vector.set_edge(i, to.into());
        }
    }
}

/// What is wrong with the source of a packet to this router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It is one of our own addresses.
    Ours,
    /// There is no way back to it.
    Unreachable,
}

/// Judges the sources of packets to this router.
pub struct Sources {
    fibs: Fibs4,
    objects: ObjectHandle,
}

impl Sources {
    pub fn new(fibs: Fibs4, objects: ObjectHandle) -> Sources {
        Sources { fibs, objects }
    }

    /// What is wrong with the source of each packet. Nothing ever is with what this router sent
    /// itself.
    pub fn judge(&self, cx: &mut Context<'_>, vector: &mut Vector) -> [Option<Fault>; VECTOR_SIZE] {
        let mut faults = [None; VECTOR_SIZE];
        if vector.common_flags() & flag::ORIGINATED != 0 {
            return faults;
        }
        let (sources, mut leaves, count) = (sources(cx, vector), [0; VECTOR_SIZE], vector.len());
        self.fibs.way_back(cx.round, vector.rx_interfaces(), &sources[..count], &mut leaves[..count], false);
        let flags = vector.columns().flags;
        for ((fault, leaf), flags) in faults.iter_mut().zip(leaves).zip(flags) {
            let leaf = Leaf(leaf);
            *fault = match leaf.kind() {
                _ if *flags & flag::ORIGINATED != 0 => None,
                kind::RECEIVE => Some(Fault::Ours),
                _ if leads_on(cx, &self.objects, leaf) => None,
                _ => Some(Fault::Unreachable),
            };
        }
        faults
    }
}
