//! Neighbor Discovery for IPv6 (RFC 4861): the Ethernet addresses of IPv6 neighbours.
//!
//! Workers answer solicitations and learn from the messages of neighbours ([`input`]), and tell hosts of better next
//! hops ([`redirect`]). The control thread sends solicitations and announcements ([`send`]). It probes the link for
//! each of this router's addresses before it uses the address ([`dad`]). The router answers for hosts behind other
//! interfaces ([`proxy`]). The neighbours themselves are in [`router::neighbour`].

pub mod cli;
pub(crate) mod config;
pub mod dad;
mod input;
pub mod proxy;
mod redirect;
mod send;

pub(crate) use input::finish;

use crate::icmp::redirect::{Redirect, Tables};
use dad::Detection;
use graph::{Behaviour, InterfaceIndex};
use proxy::Proxied;
use router::capability::{Chapter, Description, Part, Phase, Stage, Starting, Tick};
use router::interface::standing::{Detecting, Detector};
use router::ip::on_link::OnLink;
use router::neighbour::glean::{self, Glean};
use router::neighbour::resolve::{self, Resolve};
use router::neighbour::resolver::{Resolver, Resolvers};
use router::neighbour::stale::{self, StaleNeighbour};
use router::{Error, Router};
use std::net::Ipv6Addr;
use wire::nd::RouterAdvertisement;
use wire::{Family, MacAddress};

pub const CAPABILITY: Description = Description {
    name: "nd",
    log_classes: &[("nd", "nd")],
    codes: &[proxy::ProxyError::CODES],
    description: "Neighbor Discovery for IPv6 (RFC 4861)",
    start,
    hears: proxy::hears,
    allows: proxy::allows,
    nodes: &["icmp6-neighbor-discovery", "ip6-glean", "ip6-discover-neighbor", "ip6-redirect", "ip6-stale-neighbor"],
    commands: cli::register,
    statements: &[(Phase::Basics, Part::Few(config::statements)), (Phase::Proxies, Part::Few(config::proxied))],
    ticks: &[Tick::new(dad::tick_detection, |router| router.state::<Detection>().next_due()).before_links()],
    chapters: &[Chapter {
        stage: Stage::Network,
        title: "Neighbor Discovery",
        about: "IPv6 neighbours (RFC 4861), and packets that wait for an answer.",
        nodes: &[
            "icmp6-neighbor-discovery",
            "ip6-glean",
            "ip6-discover-neighbor",
            "ip6-redirect",
            "ip6-stale-neighbor",
        ],
    }],
    ..Description::NONE
};

/// What workers report to the control thread about routers and hosts on a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RouterEvent {
    /// A host sent a solicitation; with its address and its Ethernet address when it contains both.
    Solicited(InterfaceIndex, Option<(Ipv6Addr, MacAddress)>),
    /// Another router sent an advertisement.
    Heard(InterfaceIndex, Ipv6Addr, MacAddress, RouterAdvertisement),
}

/// What is done about these reports: the capability that advertises this router says it when it starts.
#[derive(Default)]
pub(crate) struct OfRouters(pub Option<fn(&mut Router, RouterEvent)>);

fn handle(router: &mut Router, event: RouterEvent) {
    if let Some(handle) = router.state::<OfRouters>().0 {
        handle(router, event);
    }
}

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let events = starting.events(Router::handle_neighbour);
    let of_routers = starting.events(handle);
    starting.own(OfRouters::default());
    starting.own(Detection::default());
    starting.own(Proxied::default());
    let (policy, learning) = (starting.shared(), starting.shared());
    let Starting { graph, core, .. } = starting;
    let (view, fibs, objects) = (&core.view, &core.fibs6, &core.objects);
    let tables = input::Tables {
        view: view.clone(),
        neighbours: core.neighbours.clone(),
        policy: learning.clone(),
        routes: OnLink::new(fibs, objects),
    };
    let redirecting = Tables { objects: objects.clone(), view: view.clone(), policy };
    graph.register(redirect::spec(), move |_| {
        Behaviour::Expand(Box::new(Redirect::<redirect::Advice6>::new(redirecting.clone())))
    })?;
    let sender = events.clone();
    graph.register(input::spec(), move |_| {
        Behaviour::Map(Box::new(input::NdInput::new(tables.clone(), sender.clone(), of_routers.clone())))
    })?;
    let (known, used, sender) = (core.neighbours.clone(), objects.clone(), events.clone());
    graph.register(stale::spec(), move |_| {
        Behaviour::Map(Box::new(StaleNeighbour::new(known.clone(), used.clone(), sender.clone())))
    })?;
    let (held, gleaned) = (objects.clone(), objects.clone());
    let known = core.neighbours.clone();
    let share = graph.pool().capacity() as usize / graph.workers();
    let node = graph.register(resolve::spec(Family::Ip6), move |_| {
        let resolve = Resolve::new(Family::Ip6, held.clone(), events.clone(), known.clone(), learning.clone(), share);
        Behaviour::Expand(Box::new(resolve))
    })?;
    let (known, view) = (core.neighbours.clone(), view.clone());
    graph.register(glean::spec(Family::Ip6), move |_| {
        Behaviour::Map(Box::new(Glean::new(Family::Ip6, known.clone(), gleaned.clone(), view.clone())))
    })?;
    let resolver = Resolver { node, ask: send::solicit, announce: send::announce };
    starting.state::<Resolvers>()[Family::Ip6] = Some(resolver);
    starting.state::<Detecting>().0 = Some(Detector {
        begin: dad::detect_duplicates_of,
        suspend: dad::suspend_probes,
        end: dad::forget_standing,
        claimed: dad::address_is_claimed,
    });
    Ok(())
}
