//! Punting: packets that no node here takes go to the host, through an interface that leads there.
//!
//! Operators say which interface and which next hop (`ip punt redirect`), for all packets or for those that came
//! by one interface. The host gets packets as they came but for the link header, resolved by ARP as any
//! next hop's is; it answers under the router's addresses, which it has too. [`Ip4Punt`] is the node.

pub mod cli;
pub(crate) mod config;
pub mod control;
mod node;

pub use control::Punts;
pub(crate) use node::{Ip4Punt, Unclaimed, spec};

use crate::rate::Limit;
use graph::InterfaceIndex;
use rcu::Published;
use std::sync::Arc;
use tables::Leaf;

/// Where packets for the host go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ToHost {
    pub interface: InterfaceIndex,
    pub adjacency: Leaf,
}

/// What of this is in force, as nodes see it.
#[derive(Debug, Clone, Default)]
pub(crate) struct PuntTable {
    /// By the interface that received the packet.
    pub by_interface: Vec<Option<ToHost>>,
    /// For those that have none of their own.
    pub others: Option<ToHost>,
    /// Packets that a worker punts at most.
    pub limit: Option<Limit>,
}

/// The table as control publishes it.
pub(crate) type SharedPunts = Arc<Published<PuntTable>>;

impl PuntTable {
    /// The way by which an interface leads to the host, if it does: where an error about what the host sent goes.
    pub fn back_by(&self, interface: InterfaceIndex) -> Option<ToHost> {
        let all = self.by_interface.iter().chain([&self.others]);
        all.flatten().find(|way| way.interface == interface).copied()
    }

    fn way(&self, rx: InterfaceIndex) -> Option<ToHost> {
        self.by_interface.get(rx.0 as usize).copied().flatten().or(self.others)
    }
}
