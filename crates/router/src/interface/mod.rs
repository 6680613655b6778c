//! Interfaces: devices with a name, a state, addresses and counters.
//!
//! Each interface has two nodes of its own, `NAME-output` and `NAME-tx`; its packets come
//! in by its driver's input node.

mod book;
pub mod cli;
pub mod config;
pub mod control;
pub mod error;
pub mod exit;
pub(crate) mod feature;
pub mod features;
mod found;
pub(crate) mod inject;
pub mod ip4;
pub mod ip6;
pub mod kind;
mod known;
pub(crate) mod link_watch;
mod mtu;
pub mod names;
mod numbers;
pub mod output;
pub mod queues;
pub mod source_check;
pub mod standing;
mod station;
pub mod sub;
pub mod unnumbered;
mod view;

pub use error::InterfaceError;
pub use kind::InterfaceConfig;
pub use known::{Interface, Interfaces};
pub use mtu::Mtus;
pub use station::MAX_SECONDARY_MACS;
pub use view::{InterfaceView, SharedViews, ViewTable};

use graph::directory::{Column, Listed, Of};
use graph::{CounterTable, Graph, NodeIndex};
use std::io;
use std::sync::Arc;

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
pub(crate) struct Nodes {
    pub inject: NodeIndex,
}
