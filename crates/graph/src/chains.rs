//! Feature arcs: parts of a packet's way at which features of an interface come in, one after the other.
//!
//! An arc begins in the nodes that name it as an edge ([`crate::node::EdgeSpec::Arc`]) and ends in one node. Between
//! them stand features: nodes that are run only for the interfaces on which they are enabled, in an order that they
//! state by `after` and `before`. For each arc and interface control publishes a *chain*: the features that are enabled
//! and the arc's end. A chain is never changed; another set of features is another chain. So a packet sees the whole
//! old or the whole new chain.
//!
//! A node that begins an arc asks for the chain of the packet's interface ([`crate::Context::chain`]): one load for all
//! packets of an interface. None: it sends the packet by its own edge to the arc's end. Else it sets the packet's
//! cursor, and the edge [`crate::edge::CONTINUE`]. Features send packets on by the same edge, and need no edges to each
//! other: the dispatcher reads at the cursor which node is next, and moves the cursor on.
//!
//! How it compares with other designs, and what it costs, is in `docs/decisions/033-feature-arcs.md`.

use crate::index::InterfaceIndex;
use crate::index::MAX_INTERFACES;
use crate::index::NodeIndex;
use std::sync::atomic::{AtomicU16, AtomicU32, Ordering};

/// Most arcs, and most steps of all chains together.
pub const MAX_ARCS: usize = 24;
pub const MAX_STEPS: usize = 1 << 16;
/// Marks the last step of a chain: the arc's end.
const LAST: u32 = 1 << 31;
/// A step to a node that is gone.
const GONE: u32 = LAST - 1;

/// Names an arc.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ArcIndex(pub(crate) u8);

/// A place in a chain: the next node of a packet. Never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor(u32);

impl Cursor {
    #[inline(always)]
    pub(crate) fn of(value: u32) -> Option<Cursor> {
        if value == 0 { None } else { Some(Cursor(value)) }
    }
    /// As it stands in the column [`crate::Lazy::Cursor`].
    #[inline(always)]
    pub fn value(self) -> u32 {
        self.0
    }
}

/// One step of a chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// `None`: the node is gone.
    pub node: Option<NodeIndex>,
    /// The cursor behind it; none behind the arc's end.
    pub next: Option<Cursor>,
}

/// All chains, as workers read them.
pub struct Chains {
    /// By arc and interface: the first step of its chain; 0: nothing is enabled.
    starts: Box<[AtomicU16]>,
    steps: Box<[AtomicU32]>,
}

impl Chains {
    pub(crate) fn new() -> Chains {
        Chains {
            starts: (0..MAX_ARCS * MAX_INTERFACES).map(|_| AtomicU16::new(0)).collect(),
            steps: (0..MAX_STEPS).map(|_| AtomicU32::new(GONE | LAST)).collect(),
        }
    }

    fn start(&self, arc: ArcIndex, interface: InterfaceIndex) -> Option<&AtomicU16> {
        let of_arc = self.starts.get(usize::from(arc.0) * MAX_INTERFACES..)?.get(..MAX_INTERFACES)?;
        of_arc.get(interface.0 as usize)
    }

    /// The chain of an interface; none: nothing is enabled there.
    #[inline(always)]
    pub fn of(&self, arc: ArcIndex, interface: InterfaceIndex) -> Option<Cursor> {
        Cursor::of(self.start(arc, interface)?.load(Ordering::Acquire).into())
    }

    #[inline(always)]
    pub(crate) fn step(&self, at: Cursor) -> Step {
        let word = self.steps.get(at.0 as usize).map_or(GONE | LAST, |word| word.load(Ordering::Relaxed));
        let node = word & !LAST;
        Step {
            node: (node != GONE).then_some(NodeIndex(node)),
            next: if word & LAST == 0 { Some(Cursor(at.0 + 1)) } else { None },
        }
    }

    /// The nodes of a chain from a place on, the arc's end included. `None`: that node is gone.
    pub fn nodes_from(&self, at: Cursor) -> impl Iterator<Item = Option<NodeIndex>> {
        let mut at = Some(at);
        std::iter::from_fn(move || {
            let step = self.step(at?);
            at = step.next;
            Some(step.node)
        })
    }

    /// Writes a chain. Nobody reads these steps before a start names them.
    pub(crate) fn write(&self, first: usize, nodes: &[NodeIndex]) {
        for (at, node) in nodes.iter().enumerate() {
            let last = if at + 1 == nodes.len() { LAST } else { 0 };
            self.steps[first + at].store(node.0 | last, Ordering::Relaxed);
        }
    }

    /// Has packets of an interface follow the chain that begins there; 0: none.
    pub(crate) fn publish(&self, arc: ArcIndex, interface: InterfaceIndex, first: u16) {
        if let Some(start) = self.start(arc, interface) {
            start.store(first, Ordering::Release);
        }
    }

    /// A node is gone: packets on the way to it are dropped.
    pub(crate) fn forget(&self, node: NodeIndex, up_to: usize) {
        for word in &self.steps[..up_to] {
            let now = word.load(Ordering::Relaxed);
            if now & !LAST == node.0 {
                word.store(now & LAST | GONE, Ordering::Relaxed);
            }
        }
    }
}
