//! ARP (RFC 826): the Ethernet addresses of IPv4 neighbours.
//!
//! Workers answer requests and learn from the messages of neighbours ([`input`]), within the limits that operators set
//! ([`policy`]). The control thread sends requests and announcements ([`send`]). The neighbours themselves are in
//! [`router::neighbour`].

pub mod cli;
pub(crate) mod config;
mod input;
mod proxy;
mod send;

use graph::Behaviour;
use proxy::Proxies;
use router::capability::{Chapter, Description, Part, Phase, Stage, Starting};
use router::ip::on_link::OnLink;
use router::neighbour::glean::{self, Glean};
use router::neighbour::resolve::{self, Resolve};
use router::neighbour::resolver::{Resolver, Resolvers};
use router::reply::marks::ANSWERED;
use router::{Error, Router};
use wire::Family;

pub const CAPABILITY: Description = Description {
    name: "arp",
    description: "Address Resolution Protocol (RFC 826)",
    flags: ANSWERED,
    arcs: &[(input::ARC, input::NODE)],
    start,
    nodes: &[input::BEGIN, input::NODE, "ip4-glean", "ip4-arp"],
    hears: proxy::hears,
    settings: proxy::settings,
    commands: cli::register,
    statements: &[(Phase::Neighbours, Part::Few(config::statements))],
    chapters: &[Chapter {
        stage: Stage::Network,
        title: "ARP",
        about: "Questions and answers about neighbours (RFC 826), and packets that wait for an answer.",
        nodes: &[input::BEGIN, input::NODE, "ip4-glean", "ip4-arp"],
    }],
    ..Description::NONE
};

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let events = starting.events(Router::handle_neighbour);
    let (routes, policy) = (OnLink::new(&starting.core.fibs, &starting.core.objects), starting.shared());
    let proxies = starting.per_interface();
    starting.own(Proxies::new(proxies.clone()));
    let Starting { graph, core, .. } = starting;
    let tables = input::Tables {
        view: core.view.clone(),
        neighbours: core.neighbours.clone(),
        policy: policy.clone(),
        fibs: core.fibs.clone(),
        objects: core.objects.clone(),
        routes,
        proxies,
    };
    let arc = graph.arc(input::ARC)?;
    graph.register(input::begin_spec(), move |_| Behaviour::Map(Box::new(input::Begin { arc })))?;
    let sender = events.clone();
    graph.register(input::spec(), move |_| {
        Behaviour::Map(Box::new(input::ArpInput::new(tables.clone(), sender.clone())))
    })?;
    let (objects, gleaned) = (core.objects.clone(), core.objects.clone());
    let known = core.neighbours.clone();
    let share = graph.pool().capacity() as usize / graph.workers();
    let node = graph.register(resolve::spec(Family::Ip4), move |_| {
        let resolve = Resolve::new(Family::Ip4, objects.clone(), events.clone(), known.clone(), policy.clone(), share);
        Behaviour::Expand(Box::new(resolve))
    })?;
    let (known, view) = (core.neighbours.clone(), core.view.clone());
    graph.register(glean::spec(Family::Ip4), move |_| {
        Behaviour::Map(Box::new(Glean::new(Family::Ip4, known.clone(), gleaned.clone(), view.clone())))
    })?;
    let resolver = Resolver { node, ask: send::request, announce: send::announce };
    starting.state::<Resolvers>()[Family::Ip4] = Some(resolver);
    Ok(())
}
