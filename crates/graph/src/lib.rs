//! The vector graph: packets travel in vectors along the edges of a directed graph,
//! from node to node, run to completion by one dispatcher a worker.
//!
//! Read in this order: [`vector`] (what travels), [`node`] (what a node is), [`worker`] (how a round runs),
//! [`registry`] (how control changes the graph), [`registry::status`] (what it sees of it), [`ring`] (from worker to
//! worker), then [`buffer`], [`counter`], [`trace`], [`capture`] and [`time`]. The graph contains no protocol.
#![deny(unsafe_code)]

mod books;
pub mod buffer;
pub mod capture;
pub mod chains;
pub mod counter;
pub mod directory;
pub mod doorbell;
pub mod drops;
mod head;
mod index;
pub mod janitor;
pub mod lent;
pub mod node;
pub mod owner;
mod per_interface;
pub mod registry;
pub mod ring;
pub mod schedule;
mod scratch;
pub mod shared;
mod target;
pub mod time;
pub mod timer;
pub mod trace;
pub mod vector;
pub mod worker;

pub use buffer::{Buffers, PacketIndex, Pool};
pub use chains::{ArcIndex, Cursor};
pub use counter::CounterTable;
pub use directory::Directory;
pub use head::{Head, Predicate};
pub use index::{EdgeIndex, InterfaceIndex, MAX_ERRORS, MAX_INTERFACES, MAX_NODES, NodeIndex};
pub use janitor::Janitor;
pub use lent::Lent;
pub use node::{
    Behaviour, Context, CounterSpec, EdgeSpec, Expand, Expansion, Ledger, Map, NodeSpec, Severity, Source, Wake,
};
pub use per_interface::PerInterface;
pub use registry::status::{NodeState, WorkerState};
pub use registry::{Feature, Graph, GraphError};
pub use scratch::{Scratch, ScratchKind, ScratchNumber, ScratchValue};

pub use trace::Snapshot;
pub use vector::{Lazy, Row, VECTOR_SIZE, Vector, edge, flag};
pub use worker::{Core, Progress, Worker};
