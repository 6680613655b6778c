//! ICMP for IPv6 (RFC 4443): echo is answered, errors are sent. Pings are [`crate::icmp::ping`].

pub(crate) mod error;
mod input;
mod reply_path;

pub use error::Report;
pub(crate) use error::forbidden;
pub(crate) use input::{Icmp6Input, becomes_ours};
pub(crate) use reply_path::{ReplyPath, choose as choose_reply_path};

use crate::capability::{Chapter, Description, Stage};
use crate::events::EventSender;
use crate::icmp::{SharedPolicy, ping};
use crate::interface::SharedViews;
use crate::ip::Fibs6;
use crate::punt::SharedPunts;
use graph::{Behaviour, Graph, GraphError};
use tables::ObjectHandle;
use wire::Family;

pub(crate) const CAPABILITY: Description = Description {
    name: "icmp6",
    description: "Internet Control Message Protocol for IPv6 (RFC 4443): echo, errors",
    nodes: &["ip6-icmp-input", "ip6-icmp-error"],
    chapters: &[Chapter {
        stage: Stage::Network,
        title: "ICMPv6",
        about: "ICMPv6 messages to this router (RFC 4443), and the errors that it sends.",
        nodes: &["ip6-icmp-input", "ip6-icmp-error", "ip6-ping"],
    }],
    ..Description::NONE
};

/// Registers the capability's nodes.
///
/// # Errors
/// When the graph is full.
pub(crate) fn register(
    graph: &mut Graph,
    view: &SharedViews,
    policy: &SharedPolicy,
    punts: &SharedPunts,
    fibs: &Fibs6,
    objects: &ObjectHandle,
    events: &EventSender<ping::Event>,
) -> Result<ping::Nodes, GraphError> {
    let (seen, punts, sender) = (view.clone(), punts.clone(), events.clone());
    let echo = move || Icmp6Input::new(seen.clone(), punts.clone(), sender.clone());
    let input = graph.register(input::spec(), move |_| Behaviour::Map(Box::new(echo())))?;
    let requests = ping::request::register(graph, Family::Ip6, view, events)?;
    let (view, policy, fibs, objects) = (view.clone(), policy.clone(), fibs.clone(), objects.clone());
    let events = events.clone();
    let error =
        move || error::Icmp6Error::new(fibs.clone(), objects.clone(), view.clone(), policy.clone(), events.clone());
    graph.register(error::spec(), move |_| Behaviour::Map(Box::new(error())))?;
    Ok(ping::Nodes { input, requests })
}
