//! Reassembly (RFC 791 section 3.2, RFC 8200 section 4.5, RFC 815) of datagrams that come to the router in fragments.
//!
//! Only what is for the router itself is put together: a router that forwards passes fragments on as they are.
//! [`fragment`] has what differs between the families, [`datagrams`] and [`datagram`] the rules, [`node`] the graph's
//! nodes with their timers, [`control`] the limits.

pub mod cli;
pub(crate) mod config;
pub mod control;
mod datagram;
mod datagrams;
mod fragment;
mod limits;
mod node;

pub use control::Reassembly;
pub use datagrams::Shown;
pub use limits::Limits;

use graph::Behaviour;
use node::Tables;
use router::Error;
use router::by_family::ByFamily;
use router::capability::{Chapter, Description, Part, Phase, Stage, Starting};
use wire::Family;

pub const CAPABILITY: Description = Description {
    name: "reassembly",
    description: "Reassembly of fragmented datagrams to the router (RFC 815)",
    start,
    nodes: &[node::NAME4, node::NAME6],
    commands: cli::register,
    statements: &[(Phase::Services, Part::Few(config::statements))],
    chapters: &[
        Chapter { stage: Stage::Network, title: "IPv4", about: "", nodes: &[node::NAME4] },
        Chapter { stage: Stage::Network, title: "IPv6", about: "", nodes: &[node::NAME6] },
    ],
    ..Description::NONE
};

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let Starting { graph, core, .. } = starting;
    // A quarter of the packet memory each at most: fragments must not starve the rest.
    let most = graph.pool().capacity() as usize / 4 / graph.workers();
    let mut register = |family: Family, tables: Tables| {
        let node = move || node::LocalReassembly::new(tables.clone(), most);
        graph.register(node::spec(family), move |_| Behaviour::Expand(Box::new(node())))
    };
    let nodes = ByFamily {
        ip4: register(Family::Ip4, Tables::Ip4(core.fibs.clone()))?,
        ip6: register(Family::Ip6, Tables::Ip6(core.fibs6.clone()))?,
    };
    starting.own(Reassembly::new(nodes));
    Ok(())
}
