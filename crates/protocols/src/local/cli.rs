//! `show` commands for the protocols and ports that this router accepts packets for.

use super::UdpListeners;
use super::control::UdpListener;
use command::{Args, Command, CommandSet, reply};
use router::Router;
use serde::Serialize;
use std::fmt;
use wire::Family;

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "Local delivery",
        "How the router handles packets for its own addresses. It punts the packets that it does not process itself \
         to the host. Without a punt redirect it answers them: TCP with a reset, UDP with port unreachable, other \
         protocols with protocol unreachable (IPv4) or a parameter problem (IPv6).",
    );
    for (family, word) in [(Family::Ip4, "ip"), (Family::Ip6, "ip6")] {
        let show = move |router: &mut Router, _: &Args| {
            let (node, protocols) = local_node(family);
            let node = router.graph.nodes().into_iter().find(|known| known.name == node);
            let taken = |to: &str| node.is_some_and(|node| node.edges.iter().any(|edge| edge.to == to));
            let protocols = protocols.iter().filter(|protocol| taken(protocol.node)).copied().collect();
            reply(ShowLocal { family, protocols })
        };
        let syntax = format!("show {word} local");
        set.add(Command::new(&syntax, "Show the protocols that the router processes itself.", show));
    }
    set.add(Command::new(
        "show udp ports",
        "Show the UDP ports that the router listens to.",
        |router: &mut Router, _| {
            let port = |(port, family, listener): (u16, Family, &UdpListener)| {
                let UdpListener { node, description, .. } = listener.clone();
                let proto = match family {
                    Family::Ip4 => "UDP4",
                    Family::Ip6 => "UDP6",
                };
                Port { port, proto, node, description }
            };
            reply(ShowPorts { ports: router.state::<UdpListeners>().iter().map(port).collect() })
        },
    ));
}

/// A protocol, with the node that takes it.
#[derive(Debug, Clone, Copy, Serialize)]
struct Taken {
    protocol: &'static str,
    number: u8,
    node: &'static str,
}

/// The node of a family that distinguishes protocols, and the protocols that it may know.
fn local_node(family: Family) -> (&'static str, &'static [Taken]) {
    match family {
        Family::Ip4 => (
            "ip4-local",
            &[
                Taken { protocol: "ICMP", number: 1, node: "ip4-icmp-input" },
                Taken { protocol: "UDP", number: 17, node: super::udp::NAME4 },
            ],
        ),
        Family::Ip6 => (
            "ip6-local",
            &[
                Taken { protocol: "UDP", number: 17, node: super::udp::NAME6 },
                Taken { protocol: "ICMP6", number: 58, node: "ip6-icmp-input" },
            ],
        ),
    }
}

#[derive(Serialize)]
struct ShowLocal {
    #[serde(skip)]
    family: Family,
    protocols: Vec<Taken>,
}

impl fmt::Display for ShowLocal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (node, _) = local_node(self.family);
        writeln!(f, "Protocols handled by {}", node.replace('-', "_"))?;
        self.protocols.iter().try_for_each(|taken| writeln!(f, "{}: {}", taken.protocol, taken.node))
    }
}

#[derive(Serialize)]
struct Port {
    port: u16,
    proto: &'static str,
    node: String,
    description: String,
}

#[derive(Serialize)]
struct ShowPorts {
    ports: Vec<Port>,
}

impl fmt::Display for ShowPorts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.ports.is_empty() {
            return writeln!(f, "no UDP ports are listened to");
        }
        writeln!(f, "{:>5} {:>5}  {:<24} Description", "Port", "Proto", "Node")?;
        self.ports.iter().try_for_each(|Port { port, proto, node, description }| {
            writeln!(f, "{port:>5} {proto:>5}  {node:<24} {description}")
        })
    }
}
