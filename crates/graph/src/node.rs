//! What a node is.
//!
//! Nodes come in three kinds. A [`Source`] brings packets in. A [`Map`] gives each packet one next edge: the default.
//! An [`Expand`] may also take packets, hold them, and emit more than it got. A node does its one job and writes edges;
//! the dispatcher moves, counts, traces and frees packets.

use crate::buffer::{Buffers, PacketIndex};
use crate::capture::{Capture, Point};
use crate::chains::{ArcIndex, Chains, Cursor};
use crate::index::NodeIndex;
use crate::index::{EdgeIndex, InterfaceIndex};
use crate::shared::SharedCounters;
use crate::target::Target;
use crate::time::ticks;
use crate::timer::Wheel;
use crate::trace::{TraceFormat, Tracer};
use crate::vector::{Row, VECTOR_SIZE, Vector, edge, flag};
use rcu::Round;
use std::any::Any;
use std::os::fd::BorrowedFd;

/// Whether a counted event deserves an operator's attention.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    Info,
    Warning,
    Error,
}

impl std::fmt::Display for Severity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Severity::Info => "info",
            Severity::Warning => "warn",
            Severity::Error => "error",
        })
    }
}

/// Where an edge leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EdgeSpec {
    /// To a node, by name; it may be registered later.
    Next(&'static str),
    /// To the end of a feature arc, by the arc's name. The node begins the arc: where features are enabled, it sends
    /// packets along their chain ([`Context::chain`]) and not by this edge.
    Arc(&'static str),
    /// The packet is lost here, and counted under this reason. The last field says what that means to an operator: the
    /// edge's doc comment.
    Drop(&'static str, Severity, &'static str),
    /// The packet has done its work here (such as a reply that was learned). It is counted under this name, and is no
    /// drop.
    End(&'static str, &'static str),
}

/// An event that a node counts besides its drops: its name, its severity, and what it means to an operator.
#[derive(Debug, Clone, Copy)]
pub struct CounterSpec(pub &'static str, pub Severity, pub &'static str);

/// A node as it is registered.
pub struct NodeSpec {
    pub name: String,
    pub edges: &'static [EdgeSpec],
    pub counters: &'static [CounterSpec],
    pub trace: TraceFormat,
}

/// Declares a node's edges: an enum whose values are written into [`Vector::set_edge`], and `EDGES`, what each means.
/// The comment above an edge that ends packets is for operators: what arrived, what was wrong with it, and which RFC
/// and section says so.
///
/// `next` edges lead to a node, `arc` edges to the end of a feature arc which begins here.
///
/// `drop` ([`Severity::Error`]: the operator should act), `warn` ([`Severity::Warning`]: worth a look, if it goes on)
/// and `note` ([`Severity::Info`]: as it should be) lose packets. On an `end` edge packets have done their work.
///
/// ```
/// quiver_graph::edges! {
///     pub enum Edge {
///         Lookup => next "ip4-lookup",
///         /// The packet's time to live expired (RFC 1812 5.3.1).
///         TtlExpired => drop "ip4 ttl <= 1",
///         Learned => end "replies learned",
///     }
/// }
/// assert_eq!(Edge::TtlExpired as u16, 1);
/// assert_eq!(Edge::EDGES.len(), 3);
/// ```
///
/// A node that is registered for each family uses one enum for both. `like` checks that edges of the same name have the
/// same number. The other enum may have more edges.
///
/// ```
/// mod node {
///     quiver_graph::edges! {
///         pub enum Edge {
///             Lookup => next "ip4-lookup",
///             Learned => end "replies learned",
///         }
///     }
///     pub mod edge6 {
///         quiver_graph::edges! {
///             pub enum Edge like super::Edge {
///                 Lookup => next "ip6-lookup",
///             }
///         }
///     }
/// }
/// assert_eq!(node::edge6::Edge::Lookup as u16, node::Edge::Lookup as u16);
/// ```
///
/// An edge of another number does not compile:
///
/// ```compile_fail
/// mod node {
///     quiver_graph::edges! { pub enum Edge { Lookup => next "ip4-lookup", Learned => end "learned" } }
///     pub mod edge6 {
///         quiver_graph::edges! { pub enum Edge like super::Edge { Learned => end "learned" } }
///     }
/// }
/// ```
#[macro_export]
macro_rules! edges {
    ($(#[$meta:meta])* $vis:vis enum $name:ident like $other:path {
        $($(#[doc = $doc:literal])* $edge:ident => $kind:ident $text:literal),* $(,)?
    }) => {
        $crate::edges! { $(#[$meta])* $vis enum $name { $($(#[doc = $doc])* $edge => $kind $text),* } }
        const _: () = {
            type Other = $other;
            $(assert!($name::$edge as u16 == Other::$edge as u16);)*
        };
    };
    ($(#[$meta:meta])* $vis:vis enum $name:ident {
        $($(#[doc = $doc:literal])* $edge:ident => $kind:ident $text:literal),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        #[repr(u16)]
        $vis enum $name { $($(#[doc = $doc])* $edge),* }
        impl $name {
            $vis const EDGES: &'static [$crate::EdgeSpec] =
                &[$($crate::edges!(@spec $kind $text, concat!($($doc),*))),*];
        }
        impl From<$name> for $crate::EdgeIndex {
            fn from(edge: $name) -> $crate::EdgeIndex { edge as $crate::EdgeIndex }
        }
    };
    (@spec next $text:literal, $meaning:expr) => { $crate::EdgeSpec::Next($text) };
    (@spec arc $text:literal, $meaning:expr) => { $crate::EdgeSpec::Arc($text) };
    (@spec drop $text:literal, $meaning:expr) => { $crate::EdgeSpec::Drop($text, $crate::Severity::Error, $meaning) };
    (@spec warn $text:literal, $meaning:expr) => { $crate::EdgeSpec::Drop($text, $crate::Severity::Warning, $meaning) };
    (@spec note $text:literal, $meaning:expr) => { $crate::EdgeSpec::Drop($text, $crate::Severity::Info, $meaning) };
    (@spec end $text:literal, $meaning:expr) => { $crate::EdgeSpec::End($text, $meaning) };
}

/// What a node may use while it runs.
pub struct Context<'a> {
    pub buffers: &'a mut Buffers,
    /// Lends tables for as long as this round lasts.
    pub round: &'a Round<'a>,
    /// The worker's number: its row in counter tables.
    pub thread: usize,
    /// The time of this round, in ticks.
    pub now: u64,
    pub(crate) chains: &'a Chains,
    pub(crate) counters: &'a SharedCounters,
    pub(crate) counter_base: usize,
    /// Where the node's edges lead.
    pub(crate) edges: &'a [Target],
    pub(crate) ledger: &'a mut Ledger,
    pub(crate) capture: &'a mut Capture,
}

impl Context<'_> {
    /// The chain of features that packets of an interface follow along an arc. None: no feature is enabled, and they
    /// go to the arc's end.
    #[inline(always)]
    pub fn chain(&self, arc: ArcIndex, interface: InterfaceIndex) -> Option<Cursor> {
        self.chains.of(arc, interface)
    }

    /// Counts an event: `counter` is the position in [`NodeSpec::counters`].
    #[inline]
    pub fn count(&mut self, counter: usize, n: u64) {
        self.counters.errors.add(self.thread, self.counter_base + counter, 0, n);
    }

    /// Counts a packet as dropped while its buffer is kept: the buffer now holds the answer, a packet that this router
    /// made. `row` is that of the original packet; `reason` is one of the node's edges that drop.
    pub fn drop_original(&mut self, row: &Row, reason: EdgeIndex) {
        let Some(&Target::Drop(error)) = self.edges.get(usize::from(reason)) else {
            debug_assert!(false, "edge {reason} drops nothing");
            return;
        };
        if self.capture.wants(Point::Dropped) {
            self.capture.take_one(self.buffers, row, Point::Dropped, error);
        }
        self.counters.errors.add(self.thread, error as usize, 0, 1);
        self.counters.drops.add(self.thread, row.rx_interface.0 as usize, 0, 1);
        self.ledger.dropped += 1;
        self.ledger.originated += 1;
    }
}

/// What wakes a source that has nothing to do.
pub enum Wake<'a> {
    /// Nothing: it has no device.
    Never,
    /// It must be polled without pause.
    Poll,
    /// The time has come (ticks).
    At(u64),
    /// The descriptor can be read.
    Readable(BorrowedFd<'a>),
}

/// A source of packets, polled once a round.
pub trait Source: Any + Send {
    /// Receives packets into the empty vector, each with its edge.
    fn poll(&mut self, cx: &mut Context<'_>, out: &mut Vector);
    /// What to wait for before polling again makes sense. Asked only when its worker is about to sleep.
    fn wake(&self) -> Wake<'_>;
    /// Whether polls bring nothing until what [`Source::wake`] names has happened. A worker whose sources all wait
    /// sleeps at once; any other worker sleeps after a while of idle polls.
    fn waits(&self) -> bool {
        false
    }
    /// Buffers that it holds between rounds (posted to a device).
    fn held(&self) -> usize {
        0
    }
    /// Gives back what it holds, because its interface goes away.
    fn drain(&mut self, _buffers: &mut Buffers) {}
}

/// A node that gives each packet exactly one edge.
pub trait Map: Any + Send {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector);
    /// The interface through which it sends, when it is the last stop before a device.
    fn interface(&self) -> Option<InterfaceIndex> {
        None
    }
}

/// A node that may take packets ([`edge::TAKEN`]), hold them and emit others.
pub trait Expand: Any + Send {
    /// Also called with an empty vector: when control has changed the node's state, and when a timer of the node is due
    /// ([`Expansion::arm`]). [`Expansion::fired`] then has the timer's token.
    fn process(&mut self, cx: &mut Expansion<'_, '_>, vector: &mut Vector);
    /// Packets that it holds between rounds.
    fn held(&self) -> usize {
        0
    }
    /// Gives back what it holds.
    fn drain(&mut self, _buffers: &mut Buffers) {}
}

/// [`Context`] of an [`Expand`] node.
pub struct Expansion<'a, 'b> {
    pub cx: &'a mut Context<'b>,
    pub(crate) output: &'a mut Vec<Box<Vector>>,
    pub(crate) spare: &'a mut Vec<Box<Vector>>,
    pub(crate) tracer: &'a mut Tracer,
    pub(crate) recirculations: u8,
    pub(crate) timers: &'a mut Wheel<Timer>,
    pub(crate) node: (NodeIndex, u32),
    /// Tokens of the node's timers that have become due, the earliest first.
    pub fired: &'a mut Vec<u64>,
}

/// A timer of a node. The node may be gone when the timer is due.
pub(crate) struct Timer {
    pub node: NodeIndex,
    pub generation: u32,
    pub token: u64,
}

impl Expansion<'_, '_> {
    /// Passes on a packet that the node has taken, from this vector or long ago.
    pub fn emit(&mut self, row: Row, to: EdgeIndex) {
        debug_assert!(to != edge::TAKEN);
        if self.output.last().is_none_or(|vector| vector.len() == VECTOR_SIZE) {
            let mut vector = self.spare.pop().unwrap_or_else(Vector::new);
            vector.clear();
            vector.recirculations = self.recirculations;
            self.output.push(vector);
        }
        self.output.last_mut().expect("pushed above").push(row, to);
    }

    /// Has the node called at time `at` (ticks), with `token` among [`Expansion::fired`]. A timer cannot be cancelled:
    /// by the token a node recognises what it no longer waits for.
    pub fn arm(&mut self, at: u64, token: u64) {
        let (node, generation) = self.node;
        self.timers.arm(at, Timer { node, generation, token });
    }

    /// Sends a packet that this router made.
    pub fn originate(&mut self, row: Row, to: EdgeIndex) {
        self.cx.ledger.originated += 1;
        self.emit(row, to);
    }

    /// Ends a taken packet that has served its purpose (its bytes go on in other packets).
    pub fn consume(&mut self, packet: PacketIndex) {
        self.cx.ledger.consumed += 1;
        self.cx.buffers.free_chain(packet);
    }

    /// Records in the trace that a packet waits here, if it is traced. To be called before the node holds it.
    #[inline]
    pub fn note_held(&mut self, row: &Row) {
        if row.flags & flag::TRACED != 0 {
            self.tracer.record(self.cx.buffers, self.node.0, ticks(), edge::TAKEN, *row);
        }
    }
}

/// Where a worker's packets have gone. `consumed` packets did their work here, `taken` ones came from other workers,
/// and `handed` ones went to other workers. At the end of a round
/// `received + originated + taken = sent + dropped + consumed + handed + held`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Ledger {
    pub received: u64,
    pub originated: u64,
    pub sent: u64,
    pub dropped: u64,
    pub consumed: u64,
    pub held: u64,
    pub taken: u64,
    pub handed: u64,
}

impl Ledger {
    pub fn is_balanced(&self) -> bool {
        let came = self.received + self.originated + self.taken;
        came == self.sent + self.dropped + self.consumed + self.handed + self.held
    }
}

/// What a node does, by kind.
pub enum Behaviour {
    Source(Box<dyn Source>),
    Map(Box<dyn Map>),
    Expand(Box<dyn Expand>),
}

impl Behaviour {
    pub fn kind(&self) -> &'static str {
        match self {
            Behaviour::Source(_) => "input",
            Behaviour::Map(_) => "internal",
            Behaviour::Expand(_) => "expand",
        }
    }
    pub(crate) fn interface(&self) -> Option<InterfaceIndex> {
        match self {
            Behaviour::Map(node) => node.interface(),
            Behaviour::Source(_) | Behaviour::Expand(_) => None,
        }
    }
    pub(crate) fn as_any(&mut self) -> &mut dyn Any {
        match self {
            Behaviour::Source(node) => &mut **node,
            Behaviour::Map(node) => &mut **node,
            Behaviour::Expand(node) => &mut **node,
        }
    }
    pub(crate) fn held(&self) -> usize {
        match self {
            Behaviour::Source(node) => node.held(),
            Behaviour::Map(_) => 0,
            Behaviour::Expand(node) => node.held(),
        }
    }
    pub(crate) fn drain(&mut self, buffers: &mut Buffers) {
        match self {
            Behaviour::Source(node) => node.drain(buffers),
            Behaviour::Map(_) => {}
            Behaviour::Expand(node) => node.drain(buffers),
        }
    }
}
