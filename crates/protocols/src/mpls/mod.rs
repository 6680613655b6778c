//! MPLS (RFC 3031, RFC 3032): swaps, pushes and pops labels.
//!
//! The packet's way: `mpls-input` -> `mpls-lookup` (-> `mpls-load-balance`) -> `mpls-output` -> the interface's output,
//! with another label; or, when the last label is popped, `ip4-mpls-label-disposition-pipe` -> `ip4-rewrite` or
//! `lookup-ip4-dst`. `mpls-icmp-error` reports packets that are not forwarded. Labels that routes push onto IP packets
//! are part of the adjacency's link header. They cost no more than a longer header, except in the uniform model, which
//! has a node after `ip4-rewrite`.

pub mod cli;
pub(crate) mod config;
mod disposition;
mod icmp_error;
mod imposition;
mod input;
mod load_balance;
mod lookup;
mod output;
mod show;
pub mod tunnel;

pub use router::ip::labels::control::MplsError;
pub use router::ip::labels::{control, key, out as labels};

use router::ip::labels::pop;

use disposition::Disposition;
use graph::Behaviour;
use imposition::Imposition;
use router::capability::{Chapter, Description, Notice, Part, Phase, Stage, Starting};
use router::interface::exit::Exit;
use router::ip::edges::RewriteEdges;
pub use router::reply::marks::BEHIND_LABEL;
pub use router::reply::policy::SharedPolicy;
use router::{Error, Router};
use wire::Family;

const NODES: &[&str] = &[
    "mpls-input",
    "mpls-lookup",
    "mpls-load-balance",
    "mpls-output",
    "mpls-icmp-error",
    "ip4-mpls-label-disposition-pipe",
    "ip6-mpls-label-disposition-pipe",
    "ip4-mpls-label-disposition-uniform",
    "ip6-mpls-label-disposition-uniform",
    "ip4-mpls-label-imposition-uniform",
    "ip6-mpls-label-imposition-uniform",
];

pub const CAPABILITY: Description = Description {
    name: "mpls",
    description: "Multiprotocol Label Switching (RFC 3031): swap, push, pop, label switched paths",
    log_classes: &[("mpls", "mpls")],
    start,
    hears,
    flags: BEHIND_LABEL,
    nodes: NODES,
    arcs: &[("mpls-input", "mpls-lookup"), ("mpls-output", "interface-output")],
    commands: cli::register,
    makes: config::tunnel,
    settings: config::interface,
    statements: &[(Phase::Tables, Part::Few(config::tables)), (Phase::Routes, Part::Many(config::statements))],
    chapters: &[Chapter {
        stage: Stage::Network,
        title: "MPLS",
        about: "Labels are swapped, pushed and popped (RFC 3031, RFC 3032), and the packet behind the last label \
                is checked.",
        nodes: NODES,
    }],
    ..Description::NONE
};

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let policy: SharedPolicy = starting.shared();
    let Starting { graph, core, .. } = starting;
    let (view, labels, objects, seed) = (&core.view, &core.labels, &core.objects, core.hash_seed);
    let (seen, mpls) = (view.clone(), core.counters.mpls.clone());
    let arc = graph.arc("mpls-input")?;
    let input = move || input::MplsInput::new(seen.clone(), mpls.clone(), arc);
    graph.register(input::spec(), move |_| Behaviour::Map(Box::new(input())))?;
    let tables = labels.clone();
    graph.register(lookup::spec(), move |_| Behaviour::Map(Box::new(lookup::MplsLookup::new(tables.clone()))))?;
    let handle = objects.clone();
    graph.register(load_balance::spec(), move |_| {
        Behaviour::Map(Box::new(load_balance::MplsLoadBalance::new(handle.clone(), seed)))
    })?;
    for (family, is_uniform) in pop::NODES {
        let seen = view.clone();
        graph.register(disposition::spec(family, is_uniform), move |_| {
            Behaviour::Map(Box::new(Disposition::new(family, is_uniform, seen.clone())))
        })?;
    }
    for family in Family::ALL {
        let handle = objects.clone();
        graph.register(imposition::spec(family), move |_| {
            Behaviour::Map(Box::new(Imposition::new(family, handle.clone())))
        })?;
    }
    let seen = view.clone();
    let error = move || icmp_error::MplsIcmpError::new(seen.clone(), policy.clone());
    graph.register(icmp_error::spec(), move |_| Behaviour::Map(Box::new(error())))?;
    let handle = objects.clone();
    let output =
        graph.register(output::spec(), move |_| Behaviour::Map(Box::new(output::MplsOutput::new(handle.clone()))))?;
    use output::Edge;
    let (arp, discover, stale) = (Edge::Arp.into(), Edge::Discover.into(), Edge::Stale.into());
    let edges = RewriteEdges { arp, discover, stale, impose: None, midchain: None };
    starting.rewrites(Exit::Labelled, edges);
    starting.leaves(Exit::Labelled, output, Some("mpls-output"));
    Ok(())
}

fn hears(router: &mut Router, notice: &Notice) {
    if let Notice::Leaving(interface) = notice {
        tunnel::remove_tunnel_paths_of(router, *interface);
        tunnel::forget_tunnel(router, *interface);
    }
}
