//! What this router takes of packets that are for it.

use super::control::Listener;
use crate::Router;
use command::{Command, CommandSet, reply};
use serde::Serialize;
use std::fmt;

pub fn register(set: &mut CommandSet<Router>) {
    set.section(
        "Local delivery",
        "What becomes of packets to the router itself. What nobody here takes is punted to the host, or else answered: \
         TCP by a reset, UDP by port unreachable, other protocols by protocol unreachable.",
    );
    set.add(Command::new(
        "show ip local",
        "Show which protocols the router takes by itself.",
        |router: &mut Router, _| {
            let node = router.graph.nodes().into_iter().find(|node| node.name == "ip4-local");
            let taken = |to: &str| node.is_some_and(|node| node.edges.iter().any(|edge| edge.to == to));
            let protocols = PROTOCOLS.iter().filter(|protocol| taken(protocol.node)).copied().collect();
            reply(ShowLocal { protocols })
        },
    ));
    set.add(Command::new(
        "show udp ports",
        "Show which UDP ports somebody here listens to.",
        |router: &mut Router, _| {
            let port = |(port, listener): (u16, &Listener)| {
                let Listener { node, description, .. } = listener.clone();
                Port { port, node, description }
            };
            reply(ShowPorts { ports: router.udp.iter().map(port).collect() })
        },
    ));
}

/// A protocol with the node that takes it.
#[derive(Debug, Clone, Copy, Serialize)]
struct Taken {
    protocol: &'static str,
    number: u8,
    node: &'static str,
}

const PROTOCOLS: &[Taken] = &[
    Taken { protocol: "ICMP", number: 1, node: "ip4-icmp-input" },
    Taken { protocol: "UDP", number: 17, node: "ip4-udp-lookup" },
];

#[derive(Serialize)]
struct ShowLocal {
    protocols: Vec<Taken>,
}

impl fmt::Display for ShowLocal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "Protocols handled by ip4_local")?;
        self.protocols.iter().try_for_each(|taken| writeln!(f, "{}: {}", taken.protocol, taken.node))
    }
}

#[derive(Serialize)]
struct Port {
    port: u16,
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
        self.ports
            .iter()
            .try_for_each(|port| writeln!(f, "{:>5} {:>5}  {:<24} {}", port.port, "UDP4", port.node, port.description))
    }
}
