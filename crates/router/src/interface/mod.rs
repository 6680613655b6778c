//! Interfaces: devices with a name, a state, addresses and counters.
//!
//! Each interface has two nodes of its own, `NAME-output` and `NAME-tx`; its packets come
//! in by its driver's input node.

mod addresses;
mod addresses6;
mod book;
pub mod cli;
pub(crate) mod config;
pub mod control;
pub mod exit;
pub(crate) mod features;
mod inject;
pub mod ip4;
pub mod ip6;
pub mod kind;
mod known;
pub(crate) mod link_watch;
mod mtu;
pub mod names;
mod numbers;
pub(crate) mod output;
pub mod queues;
pub mod standing;
mod station;
pub mod sub;
pub mod unnumbered;
mod view;

pub use addresses::MAX_ADDRESSES;
pub(crate) use addresses6::local_route;
pub use kind::InterfaceConfig;
pub use known::{Interface, Interfaces};
pub use mtu::Mtus;
pub use station::MAX_SECONDARY_MACS;
pub use view::{InterfaceView, SharedViews, ViewTable};

use crate::Error;
use crate::capability::{self, Chapter, Description, Part, Phase, Stage, Starting, Tick};
use exit::Exit;
use graph::directory::{Column, Listed, Of};
use graph::{Behaviour, CounterTable, Graph, NodeIndex};
use std::io;
use std::sync::Arc;

pub(crate) const CAPABILITY: Description = Description {
    name: "interface",
    description: "Interfaces on null, loopback, pg, tap, af_packet, af_xdp and memif devices",
    nodes: &["interface-output", output::OUTPUT_ARC_END, capability::OUTPUT, capability::TX],
    arcs: &[(drivers::input::ARC, "ethernet-input"), (output::OUTPUT_ARC, output::OUTPUT_ARC_END)],
    start,
    commands: cli::register,
    statements: &[(Phase::Interfaces, Part::Many(config::statements))],
    ticks: &[Tick::new(|router, now| router.tick_links(now), |router| router.links.next_due())],
    values: &[("interface", |router| router.interfaces.iter().map(|interface| interface.name.clone()).collect())],
    chapters: &[
        Chapter {
            stage: Stage::Receiving,
            title: "Devices, receiving",
            about: "Frames that a driver could not receive from its device, or the packet generator from its streams.",
            nodes: &[],
        },
        Chapter {
            stage: Stage::Sending,
            title: "Interfaces, sending",
            about: "The last nodes of a packet. `INTERFACE` stands for the name: each interface has these nodes.",
            nodes: &["interface-output", output::OUTPUT_ARC_END, capability::OUTPUT, capability::TX, "control-input"],
        },
    ],
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
    /// Lists them in the order of `show interface`.
    ///
    /// # Errors
    /// When the system refuses memory.
    pub fn new(graph: &mut Graph) -> io::Result<InterfaceCounters> {
        const RX: &[Column] = &[Column::packets("rx packets"), Column::bytes("rx bytes")];
        const TX: &[Column] = &[Column::packets("tx packets"), Column::bytes("tx bytes")];
        let (workers, drops) = (graph.workers(), graph.counters().drops.clone());
        let directory = &mut graph.directory;
        let mut table = |name, columns, help| directory.table(name, workers, Of::Interface, columns, help);
        let rx = table("/if/rx", RX, "Frames received, with their link headers.")?;
        let tx = table("/if/tx", TX, "Frames sent, with their link headers.")?;
        let (columns, help) = (const { &[Column::packets("drops")] }, "Packets that were received here and dropped.");
        directory.list(Listed { table: drops, of: Of::Interface, columns, help });
        let mut table = |name, columns, help| directory.table(name, workers, Of::Interface, columns, help);
        Ok(InterfaceCounters {
            rx,
            tx,
            punts: table("/if/punt", const { &[Column::packets("punt")] }, "Received packets that went to the host.")?,
            ip4: table("/if/ip4", const { &[Column::packets("ip4")] }, "IPv4 packets received.")?,
            ip6: table("/if/ip6", const { &[Column::packets("ip6")] }, "IPv6 packets received.")?,
            mpls: table("/if/mpls", const { &[Column::packets("mpls").not_shown()] }, "Labelled packets received.")?,
        })
    }
}

/// Nodes that control talks to.
struct Nodes {
    inject: NodeIndex,
}

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let (view, of_end) = (starting.core.view.clone(), starting.core.view.clone());
    let end = move |_| Behaviour::Map(Box::new(output::ArcEnd::new(of_end.clone())));
    let end = starting.graph.register(output::ArcEnd::spec(), end)?;
    starting.leaves(Exit::Device, end, None);
    let output = move |_| Behaviour::Map(Box::new(output::Demultiplex::new(view.clone())));
    let output = starting.graph.register(output::Demultiplex::spec(), output)?;
    starting.leaves(Exit::Frames, output, None);
    let inject = |_| Behaviour::Expand(Box::<inject::Inject>::default());
    let inject = starting.graph.register(inject::spec(), inject)?;
    starting.own(standing::Detecting::default());
    starting.own(Nodes { inject });
    Ok(())
}
