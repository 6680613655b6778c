//! IPv6 (RFC 8200): input checks, forwarding, local delivery.
//!
//! The packet's way: `ip6-input` (-> `ip6-rx-urpf`) -> `ip6-lookup` (-> `ip6-load-balance`, `lookup-ip6-dst`) ->
//! `ip6-rewrite` -> the interface's output; or to `ip6-local`, `ip6-glean`. The router does not fragment packets that
//! it forwards: if one is too long for its next hop, the sender gets an error (RFC 8200 section 5). Only the router's
//! own packets pass through `ip6-frag`.

mod addresses;
pub mod cli;
pub(crate) mod config;
pub(crate) mod input;
mod local;
mod lookup;
mod rewrite;
mod view;

pub use addresses::Ip6Error;
pub(crate) use addresses::local_route;
pub use view::{Ip6View, subnet_router_anycast};

use crate::capability::{Chapter, Description, FeatureSpec, Stage, Starting};
use crate::interface::exit::Exit;
use crate::ip::arcs::InputArcs;
use crate::ip::control::TableIndex;
use crate::ip::fragment::{self, Cutter};
use crate::ip::source::{self, Sources, Urpf};
use crate::ip::source_check::SourceCheck;
use crate::ip::{in_table, load_balance, route_counters};
use crate::nd::dad::Standing;
use crate::{Error, Router};
use graph::{Behaviour, InterfaceIndex};
use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use tables::Lookup6;
use wire::{Family, MacAddress, Prefix6};

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

pub(crate) const CAPABILITY: Description = Description {
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

/// The operator's IPv6 settings of an interface, and the state that follows from them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settings {
    /// The table of its addresses, and of the packets that it receives.
    pub table: TableIndex,
    /// How the sources of received packets are checked.
    pub source_check: Option<SourceCheck>,
    /// The interface's addresses that are valid beyond its link, with their networks.
    pub addresses: Vec<Prefix6>,
    /// Whether IPv6 is enabled without such an address (`enable ip6 interface`).
    pub is_stated: bool,
    /// The link-local address, when an operator chose it.
    pub stated_link_local: Option<Ipv6Addr>,
    /// The link-local address while IPv6 is enabled.
    pub link_local: Option<Ipv6Addr>,
    /// The interface's own addresses that are not in use, and why not.
    pub(crate) standing: BTreeMap<Ipv6Addr, Standing>,
    /// Hosts on other links that the interface answers for, in order.
    pub(crate) proxied: Vec<Ipv6Addr>,
    /// The object for packets onto the link, while IPv6 is enabled.
    pub(crate) on_link: Option<u32>,
}

impl Settings {
    /// Whether IPv6 is enabled on the interface.
    pub fn is_enabled(&self) -> bool {
        self.link_local.is_some()
    }
}

/// The network of a link-local address (RFC 4291 section 2.5.6).
pub(crate) fn link_local_network(address: Ipv6Addr) -> Prefix6 {
    Prefix6::new(address, 64).expect("64 is a length")
}

/// The edge of `ip6-rewrite` to the node that puts headers in front of packets.
pub(crate) const MIDCHAIN_EDGE: u16 = rewrite::Edge::Midchain as u16;
/// The edge of `ip6-rewrite` to the node that resolves neighbours.
pub(crate) const DISCOVER_EDGE: u16 = rewrite::Edge::Discover as u16;
/// The edge to the node that reports packets to stale neighbours to the control thread.
pub(crate) const STALE_EDGE: u16 = rewrite::Edge::Stale as u16;
/// The edge for next hops of the other family, which labelled packets may have.
pub(crate) const ARP_EDGE: u16 = rewrite::Edge::Arp as u16;
/// The edge to the node that copies the hop limit and the traffic class into pushed labels.
pub(crate) const IMPOSE_EDGE: u16 = rewrite::Edge::Impose as u16;

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
    starting.leaves(Exit::Ip(Family::Ip6), rewrite, Some("ip6-output"));
    Ok(())
}

/// The link-local address that an interface makes from its Ethernet address (RFC 4291 appendix A).
pub(crate) fn own_link_local(mac: MacAddress) -> Ipv6Addr {
    wire::nd::link_local(mac)
}
