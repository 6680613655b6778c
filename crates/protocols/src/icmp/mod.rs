//! ICMP for IPv4 (RFC 792): echo is answered, errors are sent; and, of both families, what is set of ICMP, and pings.

pub mod cli;
pub(crate) mod config;
pub mod control;
pub(crate) mod error;
mod input;
pub mod ping;
pub(crate) mod redirect;

pub use control::Icmp;
pub(crate) use input::OUR_TTL;

use graph::Behaviour;
use ping::Pings;
use router::Error;
use router::capability::{Chapter, Description, Part, Phase, Stage, Starting, Tick};
pub use router::reply::marks::REDIRECTED;
pub use router::reply::policy::Policy;
use wire::Family;

pub const CAPABILITY: Description = Description {
    name: "icmp",
    log_classes: &[("icmp", "icmp")],
    codes: &[ping::control::PingError::CODES],
    description: "Internet Control Message Protocol (RFC 792): echo, errors, redirects",
    start,
    hears: control::hears,
    // Errors to senders depend on addresses of interfaces, on their tables, and on which interfaces are up.
    publishes: |router, _| control::publish_icmp_policy(router),
    flags: REDIRECTED,
    nodes: &["ip4-icmp-input", "ip4-icmp-error", "ip4-redirect"],
    commands: cli::register,
    statements: &[(Phase::Services, Part::Few(config::statements))],
    ticks: &[Tick::new(ping::control::tick_pings, |router| router.state::<Pings>().next_due())],
    chapters: &[Chapter {
        stage: Stage::Network,
        title: "ICMP",
        about: "ICMP messages to this router (RFC 792), and the errors that it sends.",
        nodes: &["ip4-icmp-input", "ip4-icmp-error", "ip4-redirect", "ip4-ping"],
    }],
    ..Description::NONE
};

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let (policy, punts) = (starting.shared::<Policy>(), starting.shared());
    let events = starting.events(ping::control::handle_ping);
    starting.own(Icmp::new(policy.clone()));
    let Starting { graph, core, .. } = starting;
    let sender = events.clone();
    let echo = move || input::EchoInput::new(sender.clone(), punts.clone());
    let input = graph.register(input::spec(), move |_| Behaviour::Map(Box::new(echo())))?;
    let error = {
        let (fibs, objects, view) = (core.fibs.clone(), core.objects.clone(), core.view.clone());
        let policy = policy.clone();
        let events = events.clone();
        move || error::IcmpError::new(fibs.clone(), objects.clone(), view.clone(), policy.clone(), events.clone())
    };
    graph.register(error::spec(), move |_| Behaviour::Map(Box::new(error())))?;
    let redirect = {
        let tables = redirect::Tables { objects: core.objects.clone(), view: core.view.clone(), policy };
        move || redirect::Redirect::<redirect::Advice4>::new(tables.clone())
    };
    graph.register(redirect::spec(), move |_| Behaviour::Expand(Box::new(redirect())))?;
    let requests = ping::request::register(graph, Family::Ip4, &core.view, &events)?;
    starting.own(Pings::default());
    starting.state::<Pings>().nodes[Family::Ip4] = Some(ping::Nodes {
        input,
        awaited: |core, node| core.node::<input::EchoInput>(node).map(|node| &mut node.awaited),
        requests,
    });
    Ok(())
}
