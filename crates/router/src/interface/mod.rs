//! Interfaces: devices with a name, a state, addresses and counters.
//!
//! Each interface has two nodes of its own, `NAME-output` and `NAME-tx`; its packets come
//! in by its driver's input node.

mod addresses;
mod af_xdp;
mod book;
pub mod cli;
pub(crate) mod config;
pub mod control;
mod creation;
mod inject;
mod known;
pub(crate) mod link_watch;
mod mtu;
pub mod names;
mod numbers;
pub(crate) mod output;
pub mod queues;
mod station;
pub mod unnumbered;
mod view;

pub use addresses::MAX_ADDRESSES;
pub use creation::{InterfaceConfig, LoopbackOptions};
pub use known::{Interface, Interfaces};
pub use mtu::Mtus;
pub use station::MAX_SECONDARY_MACS;
pub use view::{InterfaceView, SharedViews, ViewTable};

use crate::capability::{self, Description, Tick};
use crate::config::{Part, Phase};
use graph::registry::MAX_INTERFACES;
use graph::{Behaviour, CounterTable, Graph, GraphError, NodeIndex};
use std::io;
use std::sync::Arc;

pub(crate) const CAPABILITY: Description = Description {
    name: "interface",
    description: "Interfaces on null, loopback, pg, tap, af_packet, af_xdp and memif devices",
    nodes: &["interface-output", output::OUTPUT_ARC_END, capability::OUTPUT, capability::TX],
    arcs: &[(drivers::input::ARC, "ethernet-input"), (output::OUTPUT_ARC, output::OUTPUT_ARC_END)],
    commands: cli::register,
    statements: &[(Phase::Interfaces, Part::Many(config::statements))],
    ticks: &[Tick::new(|router, now| router.tick_links(now), |router| router.links.next_due())],
    values: &[("interface", |router| router.interfaces.iter().map(|interface| interface.name.clone()).collect())],
    ..Description::NONE
};

/// Counters by interface, as the stats segment names them.
#[derive(Clone)]
pub struct InterfaceCounters {
    /// Packets and bytes.
    pub rx: Arc<CounterTable>,
    pub tx: Arc<CounterTable>,
    pub ip4: Arc<CounterTable>,
    pub ip6: Arc<CounterTable>,
    pub mpls: Arc<CounterTable>,
    pub punts: Arc<CounterTable>,
}

impl InterfaceCounters {
    /// # Errors
    /// When the system refuses memory.
    pub fn new(workers: usize) -> io::Result<InterfaceCounters> {
        let table = |name, width| CounterTable::new(name, workers, MAX_INTERFACES, width);
        Ok(InterfaceCounters {
            rx: table("/if/rx", 2)?,
            tx: table("/if/tx", 2)?,
            ip4: table("/if/ip4", 1)?,
            ip6: table("/if/ip6", 1)?,
            mpls: table("/if/mpls", 1)?,
            punts: table("/if/punt", 1)?,
        })
    }
}

/// Nodes that control talks to.
pub(crate) struct Nodes {
    pub output: NodeIndex,
    pub arc_end: NodeIndex,
    pub inject: NodeIndex,
}

/// Registers the capability's nodes that exist once.
///
/// # Errors
/// When the graph is full.
pub(crate) fn register(graph: &mut Graph, view: &SharedViews) -> Result<Nodes, GraphError> {
    let (view, of_end) = (view.clone(), view.clone());
    let arc_end = graph
        .register(output::ArcEnd::spec(), move |_| Behaviour::Map(Box::new(output::ArcEnd::new(of_end.clone()))))?;
    let output = graph.register(output::Demultiplex::spec(), move |_| {
        Behaviour::Map(Box::new(output::Demultiplex::new(view.clone())))
    })?;
    let inject = graph.register(inject::spec(), |_| Behaviour::Expand(Box::<inject::Inject>::default()))?;
    Ok(Nodes { output, arc_end, inject })
}
