//! Midchains: packets get a header in front, and are sent on by that header. Tunnels are made of them.
//!
//! The way of a packet: a route onto an interface with an encapsulation ([`router::ip::stack`]) has a leaf of the class
//! [`router::ip::class::MIDCHAIN`], which leads to `ip4-midchain` or `ip6-midchain`, by the family of the packet. This
//! node writes the header, and the function that is registered for it completes it ([`router::ip::fix_up`]). The
//! midchain's `next` leaf is where the header's own destination leads: `ip4-midchain-tx` or `ip6-midchain-tx`, by the
//! family of the header, sends the packet on by it, without another lookup.
//!
//! When the way to that destination changes, the path list that holds it changes its object, and all midchains follow
//! with no write of their own. Only when the leaf itself changes are the midchains on it replaced, each in one step.
//!
//! The packets do not pass the interface's own output arcs: features that see a tunnel's packets come with tunnels.
//!
//! Packets that a sender left to its device to finish first pass `ip4-midchain-offloads` or `ip6-midchain-offloads`,
//! because no device looks behind a header.

pub(crate) mod node;
mod offloads;
mod tx;

pub use router::ip::fix_up::{FixUp, FixUpNumber};
pub use router::ip::stack::{Encapsulation, EncapsulationError};

use graph::Behaviour;
use node::{Inner, Midchain};
use router::Error;
use router::by_family::ByFamily;
use router::capability::{Chapter, Description, Stage, Starting};
use router::ip::fix_up::FixUps;
use router::ip::stack::OuterEdges;
use std::sync::Arc;
use tables::{Lookup4, Lookup6};
use wire::Family;

const NODES: &[&str] = &[
    "ip4-midchain",
    "ip4-midchain-offloads",
    "ip4-midchain-tx",
    "ip6-midchain",
    "ip6-midchain-offloads",
    "ip6-midchain-tx",
];

pub const CAPABILITY: Description = Description {
    name: "midchain",
    description: "Headers in front of packets, for tunnels",
    start,
    nodes: NODES,
    chapters: &[Chapter {
        stage: Stage::Network,
        title: "Tunnels",
        about: "Packets get a header in front and are sent on by it, or go to the node of another capability.",
        nodes: NODES,
    }],
    ..Description::NONE
};

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let fix_ups = Arc::new(FixUps::default());
    family::<Lookup4>(starting, &fix_ups)?;
    family::<Lookup6>(starting, &fix_ups)?;
    starting.own(fix_ups);
    starting.own(OuterEdges(ByFamily { ip4: node::out(Family::Ip4), ip6: node::out(Family::Ip6) }));
    Ok(())
}

fn family<L: Inner>(starting: &mut Starting<'_>, fix_ups: &Arc<FixUps>) -> Result<(), Error> {
    let Starting { graph, core, .. } = starting;
    let shared = (core.objects.clone(), core.view.clone(), core.counters.tx.clone(), fix_ups.clone());
    graph.register(node::spec::<L>(), move |_| {
        let (objects, view, tx, fix_ups) = shared.clone();
        Behaviour::Map(Box::new(Midchain::<L>::new(objects, view, tx, fix_ups)))
    })?;
    graph.register(offloads::spec::<L>(), |_| Behaviour::Expand(Box::new(offloads::Offloads)))?;
    graph.register(tx::spec::<L>(), |_| Behaviour::Map(Box::new(tx::Tx::<L>::new())))?;
    Ok(())
}
