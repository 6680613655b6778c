//! Where packets for the host behind this router go, as nodes see it. Punting is `protocols::punt`.

use crate::chunks::Chunks;
use crate::rate::Limit;
use graph::InterfaceIndex;
use rcu::Published;
use std::sync::Arc;
use tables::Leaf;
use wire::Family;

/// Where packets for the host go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ToHost {
    pub interface: InterfaceIndex,
    pub adjacency: Leaf,
}

/// The ways of one family.
#[derive(Debug, Clone, Default)]
pub struct Ways {
    /// By the interface that received the packet.
    pub by_interface: Chunks<ToHost>,
    /// By the interface that leads to the host.
    pub back: Chunks<ToHost>,
    /// For those that have none of their own.
    pub others: Option<ToHost>,
    /// Packets that a worker punts at most.
    pub limit: Option<Limit>,
}

/// What of this is in force, as nodes see it.
#[derive(Debug, Clone, Default)]
pub struct PuntTable {
    ip4: Ways,
    ip6: Ways,
}

/// The table as control publishes it.
pub type SharedPunts = Arc<Published<PuntTable>>;

impl PuntTable {
    pub fn of(&self, family: Family) -> &Ways {
        match family {
            Family::Ip4 => &self.ip4,
            Family::Ip6 => &self.ip6,
        }
    }

    pub fn of_mut(&mut self, family: Family) -> &mut Ways {
        match family {
            Family::Ip4 => &mut self.ip4,
            Family::Ip6 => &mut self.ip6,
        }
    }
}

impl Ways {
    /// The way by which an interface leads to the host, if it does: where an error about what the host sent goes.
    pub fn back_by(&self, interface: InterfaceIndex) -> Option<ToHost> {
        self.back.get(interface.0 as usize).copied()
    }

    pub fn way(&self, rx: InterfaceIndex) -> Option<ToHost> {
        self.by_interface.get(rx.0 as usize).copied().or(self.others)
    }
}
