//! Punting: packets that no node here takes go to the host, through an interface that leads there. The same of both
//! families.
//!
//! Operators say which interface and which next hop (`ip punt redirect`, `ip6 punt redirect`), for all packets or for
//! those that came by one interface. The host gets packets as they came but for the link header, resolved by ARP or
//! Neighbor Discovery as any next hop's is; it answers under the router's addresses, which it has too.
//!
//! The way of a packet: `ip4-punt` -> features of the arc `ip4-punt` -> `ip4-punt-redirect`; of IPv6 the same.

mod begin;
pub mod cli;
pub(crate) mod config;
pub mod control;
mod node;
mod unclaimed;

pub use control::Punts;
pub(crate) use unclaimed::Unclaimed;

use crate::Error;
use crate::capability::{Chapter, Description, Part, Phase, Stage, Starting};
use crate::chunks::Chunks;
use crate::rate::Limit;
use graph::{Behaviour, InterfaceIndex};
use node::Punt;
use rcu::Published;
use std::sync::Arc;
use tables::Leaf;
use wire::Family;

/// The packet is on its way to the host, which gets it unchanged.
pub(crate) const PUNTED: u32 = graph::flag::claimable(1);

pub(crate) const CAPABILITY: Description = Description {
    name: "punt",
    description: "Packets for the host behind this router",
    start,
    flags: PUNTED,
    nodes: &["ip4-punt", "ip4-punt-redirect", "ip6-punt", "ip6-punt-redirect"],
    arcs: &[("ip4-punt", node::end_of_arc(Family::Ip4)), ("ip6-punt", node::end_of_arc(Family::Ip6))],
    commands: cli::register,
    statements: &[(Phase::Services, Part::Few(config::statements))],
    chapters: &[
        Chapter { stage: Stage::Network, title: "IPv4", about: "", nodes: &["ip4-punt-redirect"] },
        Chapter { stage: Stage::Network, title: "IPv6", about: "", nodes: &["ip6-punt-redirect"] },
    ],
    ..Description::NONE
};

/// Where packets for the host go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ToHost {
    pub interface: InterfaceIndex,
    pub adjacency: Leaf,
}

/// The ways of one family.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ways {
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
pub(crate) struct PuntTable {
    ip4: Ways,
    ip6: Ways,
}

/// The table as control publishes it.
pub(crate) type SharedPunts = Arc<Published<PuntTable>>;

impl PuntTable {
    pub fn of(&self, family: Family) -> &Ways {
        match family {
            Family::Ip4 => &self.ip4,
            Family::Ip6 => &self.ip6,
        }
    }

    fn of_mut(&mut self, family: Family) -> &mut Ways {
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

    fn way(&self, rx: InterfaceIndex) -> Option<ToHost> {
        self.by_interface.get(rx.0 as usize).copied().or(self.others)
    }
}

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let table = starting.shared();
    starting.own(Punts::new(table.clone()));
    let Starting { graph, core, .. } = starting;
    for family in Family::ALL {
        let arc = graph.arc(begin::arc(family))?;
        graph.register(begin::spec(family), move |_| Behaviour::Map(Box::new(begin::Begin::new(arc))))?;
        let (table, punts) = (table.clone(), core.counters.punts.clone());
        let node = move || Punt::new(family, table.clone(), punts.clone());
        graph.register(node::spec(family), move |_| Behaviour::Map(Box::new(node())))?;
    }
    Ok(())
}
