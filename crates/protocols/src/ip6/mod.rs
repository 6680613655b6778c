//! IPv6 (RFC 8200): input checks, forwarding, local delivery.
//!
//! The packet's way: `ip6-input` (-> `ip6-rx-urpf`) -> `ip6-lookup` (-> `ip6-load-balance`, `lookup-ip6-dst`) ->
//! `ip6-rewrite` -> the interface's output; or to `ip6-local`, `ip6-glean`. The router does not fragment packets that
//! it forwards: if one is too long for its next hop, the sender gets an error (RFC 8200 section 5). Only the router's
//! own packets pass through `ip6-frag`.

pub mod cli;
pub(crate) mod config;
pub(crate) mod input;
mod local;
mod lookup;
pub(crate) mod reply_path;
mod rewrite;

pub use router::interface::ip6::{Ip6Error, Ip6View, Settings, subnet_router_anycast};

use graph::{Behaviour, InterfaceIndex};
use router::capability::{Chapter, Description, FeatureSpec, Stage, Starting};
use router::interface::exit::Exit;
use router::ip::arcs::InputArcs;
use router::ip::edges::RewriteEdges;
use router::ip::fragment::{self, Cutter};
use router::ip::source::{self, Sources, Urpf};
use router::ip::{in_table, load_balance, route_counters};
use router::{Error, Router};
use tables::Lookup6;
use wire::Family;

/// Hops that our own packets may take (RFC 1700's default).
pub(crate) const OUR_HOP_LIMIT: u8 = 64;

pub(crate) use rewrite::{COUNTERS as JUDGED, SPECIAL, depart, judge};

const NODES: &[&str] = &[
    "ip6-input",
    "ip6-rx-urpf",
    "ip6-lookup",
    "ip6-load-balance",
    "lookup-ip6-dst",
    "ip6-route-counters",
    "ip6-local",
    "ip6-rewrite",
    "ip6-frag",
];

pub const CAPABILITY: Description = Description {
    name: "ip6",
    description: "IPv6 (RFC 8200) input, routing, forwarding, local delivery",
    start,
    nodes: NODES,
    arcs: &[
        ("ip6-unicast", "ip6-lookup"),
        ("ip6-multicast", "ip6-local"),
        ("ip6-output", "interface-output"),
        ("ip6-local", local::END_OF_ARC),
    ],
    features: &[
        FeatureSpec::new("ip6-unicast", "ip6-rx-urpf", checks_sources),
        FeatureSpec::new("ip6-multicast", "ip6-rx-urpf", checks_sources),
    ],
    commands: cli::register,
    settings: config::statements,
    chapters: &[Chapter {
        stage: Stage::Network,
        title: "IPv6",
        about: "Packets are examined (RFC 8200), looked up and sent on, or delivered to this router.",
        nodes: NODES,
    }],
    ..Description::NONE
};

fn checks_sources(router: &Router, interface: InterfaceIndex) -> String {
    let check = router.interfaces.get(interface).ok().and_then(|interface| interface.ip6.source_check);
    check.map_or(String::new(), |check| check.to_string())
}

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let policy = starting.shared();
    let Starting { graph, core, .. } = starting;
    let (view, fibs, objects, places, seed) = (&core.view, &core.fibs6, &core.objects, &core.places, core.hash_seed);
    let arcs = InputArcs::of(graph, Family::Ip6)?;
    let (seen, ip6) = (view.clone(), core.counters.ip6.clone());
    let input = move || input::Ip6Input::new(seen.clone(), ip6.clone(), arcs);
    graph.register(input::spec(), move |_| Behaviour::Map(Box::new(input())))?;
    let urpf = (view.clone(), fibs.clone(), objects.clone());
    graph.register(source::spec(Family::Ip6), move |_| {
        let (view, fibs, objects) = urpf.clone();
        Behaviour::Map(Box::new(Urpf::new(view, fibs, objects)))
    })?;
    let (first, other) = (fibs.clone(), fibs.clone());
    graph.register(lookup::spec(), move |_| Behaviour::Map(Box::new(lookup::Ip6Lookup::new(first.clone()))))?;
    graph.register(in_table::spec::<Lookup6>(), move |_| {
        Behaviour::Map(Box::new(in_table::InTable::new(other.clone())))
    })?;
    let places = places.clone();
    let count = move || route_counters::RouteCounters::<Lookup6>::new(places.clone());
    graph.register(route_counters::spec::<Lookup6>(), move |_| Behaviour::Map(Box::new(count())))?;
    let handle = objects.clone();
    graph.register(load_balance::spec::<Lookup6>(), move |_| {
        Behaviour::Map(Box::new(load_balance::LoadBalance::<Lookup6>::new(handle.clone(), seed)))
    })?;
    let handle = objects.clone();
    let rewrite = move || rewrite::Ip6Rewrite::new(handle.clone(), policy.clone());
    let rewrite = graph.register(rewrite::spec(), move |_| Behaviour::Map(Box::new(rewrite())))?;
    let workers = graph.workers();
    graph.register(fragment::spec(Family::Ip6), move |worker| {
        Behaviour::Expand(Box::new(Cutter::new(Family::Ip6, worker, workers)))
    })?;
    let local = (view.clone(), fibs.clone(), objects.clone());
    let arc = graph.arc("ip6-local")?;
    graph.register(local::end_spec(), |_| Behaviour::Map(Box::new(local::EndOfArc)))?;
    graph.register(local::spec(), move |_| {
        let (view, fibs, objects) = local.clone();
        Behaviour::Map(Box::new(local::Ip6Local::new(Sources::new(view.clone(), fibs, objects), view, arc)))
    })?;
    use rewrite::Edge::{Arp, Discover, Impose, Midchain, Stale};
    let edges = RewriteEdges::of_ip([Arp, Discover, Stale, Impose, Midchain]);
    starting.rewrites(Exit::Ip(Family::Ip6), edges);
    starting.leaves(Exit::Ip(Family::Ip6), rewrite, Some("ip6-output"));
    Ok(())
}
