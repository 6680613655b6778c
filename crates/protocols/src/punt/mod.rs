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

pub use control::Punts;

use graph::Behaviour;
use node::Punt;
use router::Error;
use router::capability::{Chapter, Description, Part, Phase, Stage, Starting};
pub use router::reply::marks::PUNTED;
pub use router::reply::to_host::{PuntTable, SharedPunts, ToHost};
use wire::Family;

pub const CAPABILITY: Description = Description {
    name: "punt",
    codes: &[control::PuntError::CODES],
    description: "Packets for the host behind this router",
    start,
    hears: control::hears,
    // A way by an interface that cannot be used is left out at once.
    publishes: |router, touched| touched.iter().for_each(|index| control::punt_link_changed(router, *index)),
    allows: control::allows,
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
