//! ICMP for IPv6 (RFC 4443): echo is answered, errors are sent. Pings are [`crate::icmp::ping`].

pub(crate) mod error;
mod input;

pub(crate) use error::forbidden;
pub(crate) use input::{Icmp6Input, becomes_ours};

use crate::icmp;
use crate::icmp::ping::{self, Pings};
use graph::Behaviour;
use router::Error;
use router::capability::{Chapter, Description, Stage, Starting};
use wire::Family;

pub const CAPABILITY: Description = Description {
    name: "icmp6",
    description: "Internet Control Message Protocol for IPv6 (RFC 4443): echo, errors",
    start,
    nodes: &["ip6-icmp-input", "ip6-icmp-error"],
    chapters: &[Chapter {
        stage: Stage::Network,
        title: "ICMPv6",
        about: "ICMPv6 messages to this router (RFC 4443), and the errors that it sends.",
        nodes: &["ip6-icmp-input", "ip6-icmp-error", "ip6-ping"],
    }],
    ..Description::NONE
};

fn start(starting: &mut Starting<'_>) -> Result<(), Error> {
    let (policy, punts) = (starting.shared(), starting.shared());
    let events = starting.events(icmp::ping::control::handle_ping);
    let Starting { graph, core, .. } = starting;
    let (seen, sender) = (core.view.clone(), events.clone());
    let echo = move || Icmp6Input::new(seen.clone(), punts.clone(), sender.clone());
    let input = graph.register(input::spec(), move |_| Behaviour::Map(Box::new(echo())))?;
    let requests = ping::request::register(graph, Family::Ip6, &core.view, &events)?;
    let (view, fibs, objects) = (core.view.clone(), core.fibs6.clone(), core.objects.clone());
    let error =
        move || error::Icmp6Error::new(fibs.clone(), objects.clone(), view.clone(), policy.clone(), events.clone());
    graph.register(error::spec(), move |_| Behaviour::Map(Box::new(error())))?;
    starting.state::<Pings>().nodes[Family::Ip6] = Some(ping::Nodes {
        input,
        awaited: |core, node| core.node::<Icmp6Input>(node).map(|node| &mut node.awaited),
        requests,
    });
    Ok(())
}
