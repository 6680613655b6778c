//! IPv4: input checks, the routing table, forwarding, local delivery.
//!
//! The packet's way: `ip4-input` (-> `ip4-options`) (-> `ip4-rx-urpf`) -> `ip4-lookup` (-> `ip4-load-balance`,
//! `lookup-ip4-dst`) -> `ip4-rewrite` -> the interface's output; or to `ip4-local`, `ip4-glean`, `ip4-punt`. Packets
//! that are too long for their next hop pass through `ip4-frag`.

pub(crate) mod input;
mod local;
mod lookup;
mod options;
mod rewrite;

pub use router::interface::ip4::Settings;

use graph::{Behaviour, InterfaceIndex, Vector};
use router::capability::{Chapter, Description, FeatureSpec, Stage, Starting};
use router::interface::exit::Exit;
use router::ip::TABLES;
use router::ip::arcs::InputArcs;
use router::ip::class;
use router::ip::edges::RewriteEdges;
use router::ip::fragment::{self, Cutter};
use router::ip::source::{self, Sources, Urpf};
use router::ip::{in_table, load_balance, route_counters};
use router::{Error, Router};
use std::net::Ipv4Addr;
use tables::{Leaf, Lookup4};
use wire::Family;

/// The packet's options ask that the router's address or the time be recorded.
pub(crate) const OPTIONS: u32 = graph::flag::claimable(4);

pub(crate) use rewrite::{COUNTERS as JUDGED, SPECIAL, depart, judge};

const NODES: &[&str] = &[
    "ip4-input",
    "ip4-options",
    "ip4-rx-urpf",
    "ip4-lookup",
    "ip4-load-balance",
    "lookup-ip4-dst",
    "ip4-route-counters",
    "ip4-local",
    "ip4-rewrite",
    "ip4-frag",
    "ip4-input-no-checksum",
];

pub const CAPABILITY: Description = Description {
    name: "ip4",
    description: "IPv4 input, routing, forwarding, local delivery",
    log_classes: &[("ip4", "ip4")],
    start,
    flags: OPTIONS | TABLES,
    nodes: NODES,
    arcs: &[
        ("ip4-unicast", "ip4-lookup"),
        ("ip4-multicast", "ip4-local"),
        ("ip4-output", "interface-output"),
        ("ip4-local", local::END_OF_ARC),
    ],
    features: &[
        FeatureSpec::new("ip4-unicast", "ip4-rx-urpf", checks_sources),
        FeatureSpec::new("ip4-multicast", "ip4-rx-urpf", checks_sources),
    ],
    chapters: &[Chapter {
        stage: Stage::Network,
        title: "IPv4",
        about: "Packets are examined (RFC 1812 5.2), looked up and sent on, or delivered to this router.",
        nodes: NODES,
    }],
    ..Description::NONE
};

fn checks_sources(router: &Router, interface: InterfaceIndex) -> String {
    let check = router.interfaces.get(interface).ok().and_then(|interface| interface.ip4.source_check);
    check.map_or(String::new(), |check| check.to_string())
}

/// Where a packet with a valid source and valid options goes: broadcasts on this link to this router, whatever the
/// routes say; other packets to `way`. `ip4-input` replaces all broadcast addresses of the link by the limited
/// broadcast.
#[inline]
pub(crate) fn onward<E: PartialEq>(vector: &mut Vector, i: usize, local: E, way: E) -> E {
    let target = &mut vector.columns().target[i];
    if *target != u32::from(Ipv4Addr::BROADCAST) {
        return way;
    }
    *target = Leaf::new(class::RECEIVE, 0).0;
    local
}

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let policy = starting.shared();
    let Starting { graph, core, .. } = starting;
    let (view, fibs, objects, places, seed) = (&core.view, &core.fibs, &core.objects, &core.places, core.hash_seed);
    let arcs = InputArcs::of(graph, Family::Ip4)?;
    for checksum in [input::Checksum::Verified, input::Checksum::Trusted] {
        let (view, ip4) = (view.clone(), core.counters.ip4.clone());
        let node = move |_| input::Ip4Input::new(view.clone(), ip4.clone(), checksum, arcs);
        graph.register(input::spec(checksum), move |worker| Behaviour::Map(Box::new(node(worker))))?;
    }
    graph.register(options::spec(), move |_| Behaviour::Map(Box::new(options::Ip4Options::new(arcs))))?;
    let urpf = (view.clone(), fibs.clone(), objects.clone());
    graph.register(source::spec(Family::Ip4), move |_| {
        let (view, fibs, objects) = urpf.clone();
        Behaviour::Map(Box::new(Urpf::new(view, fibs, objects)))
    })?;
    let (first, other, local) = (fibs.clone(), fibs.clone(), fibs.clone());
    graph.register(lookup::spec(), move |_| Behaviour::Map(Box::new(lookup::Ip4Lookup::new(first.clone()))))?;
    graph.register(in_table::spec::<Lookup4>(), move |_| {
        Behaviour::Map(Box::new(in_table::InTable::new(other.clone())))
    })?;
    let places = places.clone();
    let count = move || route_counters::RouteCounters::<Lookup4>::new(places.clone());
    graph.register(route_counters::spec::<Lookup4>(), move |_| Behaviour::Map(Box::new(count())))?;
    let handle = objects.clone();
    graph.register(load_balance::spec::<Lookup4>(), move |_| {
        Behaviour::Map(Box::new(load_balance::LoadBalance::<Lookup4>::new(handle.clone(), seed)))
    })?;
    let (handle, seen) = (objects.clone(), view.clone());
    let rewrite = graph.register(rewrite::spec(), move |_| {
        Behaviour::Map(Box::new(rewrite::Ip4Rewrite::new(handle.clone(), policy.clone(), seen.clone())))
    })?;
    let workers = graph.workers();
    graph.register(fragment::spec(Family::Ip4), move |worker| {
        Behaviour::Expand(Box::new(Cutter::new(Family::Ip4, worker, workers)))
    })?;
    let local = (view.clone(), local, objects.clone());
    let arc = graph.arc("ip4-local")?;
    graph.register(local::end_spec(), |_| Behaviour::Map(Box::new(local::EndOfArc)))?;
    graph.register(local::spec(), move |_| {
        let (view, fibs, objects) = local.clone();
        Behaviour::Map(Box::new(local::Ip4Local::new(Sources::new(view, fibs, objects), arc)))
    })?;
    use rewrite::Edge::{Arp, Discover, Impose, Midchain, Stale};
    let edges = RewriteEdges::of_ip([Arp, Discover, Stale, Impose, Midchain]);
    starting.rewrites(Exit::Ip(Family::Ip4), edges);
    starting.leaves(Exit::Ip(Family::Ip4), rewrite, Some("ip4-output"));
    Ok(())
}
