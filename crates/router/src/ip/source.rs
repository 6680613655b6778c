//! `ip4-rx-urpf`, `ip6-rx-urpf`: check that the source of a packet lies where the packet came from (RFC 3704, RFC
//! 8704). Only packets of interfaces with `set urpf` come here.
//!
//! Reads: the source address. Next: `ip4-lookup` or `ip6-lookup`; `ip4-local` or `ip6-local` with packets that are for
//! this router whatever the routes say; or a drop by name.
//!
//! [`Sources`] is the check that `ip4-local` and `ip6-local` make for packets to this router, on all interfaces.

use super::fibs::{Fibs, Lookup};
use super::source_check::{Mode, SourceCheck};
use crate::interface::{InterfaceView, SharedViews};
use crate::ip::class;
use crate::ip::fibs::Whose;
use graph::Lazy;
use graph::{Context, EdgeIndex, InterfaceIndex, Map, NodeSpec, Row, VECTOR_SIZE, Vector, edge, flag};
use std::net::{Ipv4Addr, Ipv6Addr};
use tables::object::ObjectRef;
use tables::{Leaf, Lookup4, Lookup6, ObjectHandle};
use wire::Family;
use wire::batch::check;

graph::edges! {
    pub enum Edge {
        /// The routes to the packet's source do not lead out of the interface on which the packet arrived, and that
        /// interface has `set urpf ip4 rx strict`. The sender forges addresses, or paths are asymmetric and `loose`
        /// is the right mode (RFC 3704 2.2).
        Strict => warn "uRPF drop (strict)",
        /// There is no route to the packet's source, and the interface has `set urpf ip4 rx loose`. A default route
        /// counts only with `allow-default` (RFC 3704 2.4).
        Loose => warn "uRPF drop (loose)",
    }
}

/// The same for `ip6-rx-urpf`, in the same order.
pub mod edge6 {
    graph::edges! {
        pub enum Edge like super::Edge {
            /// The routes to the packet's source do not lead out of the interface on which the packet arrived, and
            /// that interface has `set urpf ip6 rx strict`. The sender forges addresses, or paths are asymmetric and
            /// `loose` is the right mode (RFC 3704 2.2).
            Strict => warn "uRPF drop (strict)",
            /// There is no route to the packet's source, and the interface has `set urpf ip6 rx loose`. A default
            /// route counts only with `allow-default` (RFC 3704 2.4).
            Loose => warn "uRPF drop (loose)",
        }
    }
}

/// What differs between the families.
pub trait Origin: Lookup {
    /// How the sources of an interface's packets are checked.
    fn check_of(view: &InterfaceView) -> Option<SourceCheck>;
    /// The source address in a header.
    fn source(header: &[u8]) -> Self::Address;
    /// The verdict on a source that no route can judge, because it is only valid on its link; `None` when routes can.
    fn judge_on_link(view: Option<&InterfaceView>, source: Self::Address) -> Option<Result<(), Fault>>;
    /// Whether an adjacency leads to all hosts of a network.
    fn is_for_all(adjacency: &ObjectRef<'_>) -> bool;
    /// Whether the source of a packet can be checked against routes.
    fn is_checked(cx: &Context<'_>, row: &Row) -> bool;
}

impl Origin for Lookup4 {
    #[inline]
    fn check_of(view: &InterfaceView) -> Option<SourceCheck> {
        view.source_check
    }

    #[inline]
    fn source(header: &[u8]) -> u32 {
        u32::from_be_bytes(*header[12..].first_chunk().expect("4 bytes"))
    }

    #[inline]
    fn judge_on_link(_: Option<&InterfaceView>, _: u32) -> Option<Result<(), Fault>> {
        None
    }

    /// A directed broadcast that is forwarded (`set interface ip directed-broadcast`).
    #[inline]
    fn is_for_all(adjacency: &ObjectRef<'_>) -> bool {
        adjacency.next_hop() == Ipv4Addr::BROADCAST
    }

    /// A host without an address broadcasts to request one (RFC 2131 4.1). `ip4-input` drops other packets from what is
    /// no host.
    #[inline]
    fn is_checked(_: &Context<'_>, row: &Row) -> bool {
        row.flags & check::MARTIAN_SOURCE == 0
    }
}

impl Origin for Lookup6 {
    #[inline]
    fn check_of(view: &InterfaceView) -> Option<SourceCheck> {
        view.ip6.source_check
    }

    #[inline]
    fn source(header: &[u8]) -> u128 {
        u128::from_be_bytes(*header[8..].first_chunk().expect("16 bytes"))
    }

    #[inline]
    fn judge_on_link(view: Option<&InterfaceView>, source: u128) -> Option<Result<(), Fault>> {
        let source = Ipv6Addr::from(source);
        let is_ours = || view.is_some_and(|view| view.ip6.owns(source));
        match source {
            Ipv6Addr::UNSPECIFIED => Some(Ok(())),
            _ if source.is_unicast_link_local() => Some(if is_ours() { Err(Fault::Ours) } else { Ok(()) }),
            _ => None,
        }
    }

    #[inline]
    fn is_for_all(_: &ObjectRef<'_>) -> bool {
        false
    }

    #[inline]
    fn is_checked(cx: &Context<'_>, row: &Row) -> bool {
        super::source6::is_checked(cx, row)
    }
}

pub fn spec(family: Family) -> NodeSpec {
    let (name, edges, trace) = match family {
        Family::Ip4 => ("ip4-rx-urpf", Edge::EDGES, crate::headers::trace_ip4 as _),
        Family::Ip6 => ("ip6-rx-urpf", edge6::Edge::EDGES, crate::headers::trace_ip6 as _),
    };
    NodeSpec { name: name.into(), edges, counters: &[], trace }
}

/// Reads the source address of each packet.
fn read_sources<L: Origin>(cx: &mut Context<'_>, vector: &mut Vector, into: &mut [L::Address; VECTOR_SIZE]) {
    let (frames, _) = vector.l3_frames(cx.buffers);
    for (i, source) in into[..frames.len()].iter_mut().enumerate() {
        *source = L::source(frames.bytes(i));
    }
}

/// In which tables the sources of packets are looked up.
fn whose(vector: &Vector) -> Whose<'_> {
    Whose { rx: vector.rx_interfaces(), tables: vector.lazy(Lazy::Table) }
}

/// Packets without these flags are to and from hosts: all their sources can be checked.
const SPECIAL: u32 = check::MARTIAN_SOURCE | check::SPECIAL_DESTINATION;

pub struct Urpf<L: Lookup> {
    view: SharedViews,
    fibs: Fibs<L>,
    objects: ObjectHandle,
    sources: Box<[L::Address; VECTOR_SIZE]>,
}

impl<L: Origin> Urpf<L> {
    pub fn new(view: SharedViews, fibs: Fibs<L>, objects: ObjectHandle) -> Urpf<L> {
        Urpf { view, fibs, objects, sources: Box::new([L::Address::default(); VECTOR_SIZE]) }
    }

    /// Whether a path of a leaf leads out by an interface.
    fn leads_by(&self, cx: &Context<'_>, leaf: Leaf, source: L::Address, interface: InterfaceIndex) -> bool {
        let object = || self.objects.get(cx.round, leaf.index());
        match leaf.class() {
            class::ADJACENCY if L::is_for_all(&object()) => false,
            class::ADJACENCY | class::MIDCHAIN | class::GLEAN => object().interface() == interface.0,
            // Load balances do not nest: their leaves are single paths.
            class::LOAD_BALANCE => object().buckets().any(|path| {
                let path = self.fibs.follow(cx.round, path, source, true);
                matches!(path.class(), class::ADJACENCY | class::MIDCHAIN | class::GLEAN)
                    && self.objects.get(cx.round, path.index()).interface() == interface.0
            }),
            _ => false,
        }
    }

    fn judge(
        &self,
        cx: &Context<'_>,
        check: SourceCheck,
        source: L::Address,
        mut leaf: Leaf,
        rx: InterfaceIndex,
    ) -> EdgeIndex {
        if leaf == Leaf::MISS && check.allow_default {
            leaf = self.fibs.default_route(cx.round, self.fibs.index_of(cx.round, rx), source);
        }
        match check.mode {
            Mode::Strict if self.leads_by(cx, leaf, source, rx) => edge::CONTINUE,
            Mode::Strict => Edge::Strict.into(),
            Mode::Loose if leads_on::<L>(cx, &self.objects, leaf) => edge::CONTINUE,
            Mode::Loose => Edge::Loose.into(),
        }
    }
}

/// Whether packets to a leaf reach another host. This router does not count, because no other host has its addresses. A
/// directed broadcast does not count either, because it is not a single host.
fn leads_on<L: Origin>(cx: &Context<'_>, objects: &ObjectHandle, leaf: Leaf) -> bool {
    match leaf.class() {
        class::ADJACENCY => !L::is_for_all(&objects.get(cx.round, leaf.index())),
        class::GLEAN | class::MIDCHAIN | class::LOAD_BALANCE | class::OBJECT | class::PUNT => true,
        _ => false,
    }
}

impl<L: Origin> Map for Urpf<L> {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let (mut leaves, count) = ([0; VECTOR_SIZE], vector.len());
        read_sources::<L>(cx, vector, &mut self.sources);
        let sources = &self.sources[..count];
        self.fibs.way_back(cx.round, whose(vector), sources, &mut leaves[..count], true);
        let view = self.view.load(cx.round);
        let any_special = vector.any_flags() & SPECIAL != 0;
        for (i, (source, leaf)) in sources.iter().zip(leaves).enumerate() {
            let rx = vector.rx_interfaces()[i];
            let check =
                view.get(rx).and_then(L::check_of).filter(|_| !any_special || L::is_checked(cx, &vector.row(i)));
            let to = check.map_or(edge::CONTINUE, |check| self.judge(cx, check, *source, Leaf(leaf), rx));
            vector.set_edge(i, to);
        }
    }
}

/// What is wrong with the source of a packet to this router.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The source is one of our own addresses.
    Ours,
    /// There is no route back to the source.
    Unreachable,
}

/// Checks the sources of packets to this router.
pub struct Sources<L: Lookup> {
    view: SharedViews,
    fibs: Fibs<L>,
    objects: ObjectHandle,
    sources: Box<[L::Address; VECTOR_SIZE]>,
}

impl<L: Origin> Sources<L> {
    pub fn new(view: SharedViews, fibs: Fibs<L>, objects: ObjectHandle) -> Sources<L> {
        Sources { view, fibs, objects, sources: Box::new([L::Address::default(); VECTOR_SIZE]) }
    }

    /// What is wrong with the source of each packet. Packets that this router sent to itself have no fault.
    pub fn judge(&mut self, cx: &mut Context<'_>, vector: &mut Vector) -> [Option<Fault>; VECTOR_SIZE] {
        let mut faults = [None; VECTOR_SIZE];
        if vector.common_flags() & flag::ORIGINATED != 0 {
            return faults;
        }
        let (mut leaves, count) = ([0; VECTOR_SIZE], vector.len());
        read_sources::<L>(cx, vector, &mut self.sources);
        let sources = &self.sources[..count];
        self.fibs.way_back(cx.round, whose(vector), sources, &mut leaves[..count], false);
        let view = self.view.load(cx.round);
        for (i, (fault, source)) in faults.iter_mut().zip(sources).enumerate() {
            let row = vector.row(i);
            *fault = if row.flags & flag::ORIGINATED != 0 {
                None
            } else if let Some(judged) = L::judge_on_link(view.get(view.here(L::FAMILY, &row)), *source) {
                judged.err()
            } else {
                self.judge_by_route(cx, Leaf(leaves[i]))
            };
        }
        faults
    }

    fn judge_by_route(&self, cx: &Context<'_>, leaf: Leaf) -> Option<Fault> {
        match leaf.class() {
            class::RECEIVE => Some(Fault::Ours),
            _ if leads_on::<L>(cx, &self.objects, leaf) => None,
            _ => Some(Fault::Unreachable),
        }
    }
}
