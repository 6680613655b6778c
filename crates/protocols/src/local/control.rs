//! The listeners of UDP ports, as the control thread keeps them.

use super::PortTable;
use super::udp::SharedPorts;
use graph::{EdgeIndex, NodeIndex};
use router::by_family::ByFamily;
use router::{Error, Router};
use std::collections::BTreeMap;
use wire::Family;

/// The most ports, of both families, that may have a listener.
pub const MAX_PORTS: usize = 1024;

/// Why nobody can listen to a port.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LocalError {
    #[error("UDP port {port} is listened to already: {description}")]
    PortTaken { port: u16, description: String },
    #[error("too many UDP ports are listened to (at most {max})", max = MAX_PORTS)]
    TooManyPorts,
}

router::codes! { LocalError {
    PortTaken => "local-port-taken",
    TooManyPorts => "local-too-many-ports",
} }

/// A node that takes the datagrams of a family to a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UdpListener {
    pub node: String,
    /// The purpose of the listener, in a few words.
    pub description: String,
    edge: EdgeIndex,
}

/// All listeners, by port and family.
pub struct UdpListeners {
    all: BTreeMap<(u16, Family), UdpListener>,
    /// The nodes that look ports up.
    nodes: ByFamily<NodeIndex>,
    ports: SharedPorts,
}

impl UdpListeners {
    pub(super) fn new(nodes: ByFamily<NodeIndex>, ports: SharedPorts) -> UdpListeners {
        UdpListeners { all: BTreeMap::new(), nodes, ports }
    }

    pub fn iter(&self) -> impl Iterator<Item = (u16, Family, &UdpListener)> {
        self.all.iter().map(|((port, family), listener)| (*port, *family, listener))
    }

    /// The edges of a family, by port.
    fn edges(&self, family: Family) -> Vec<(u16, EdgeIndex)> {
        let of_family = self.iter().filter(|(_, other, _)| *other == family);
        of_family.map(|(port, _, listener)| (port, listener.edge)).collect()
    }
}

/// Registers a node for the datagrams of a family to a port of this router. `ip4-udp-lookup` and `ip6-udp-lookup`
/// describe what the node receives.
///
/// # Errors
/// When the port already has a listener, there is no such node, or too many ports have listeners.
pub fn listen_udp(router: &mut Router, family: Family, port: u16, node: &str, description: &str) -> Result<(), Error> {
    if let Some(other) = router.state::<UdpListeners>().all.get(&(port, family)) {
        return Err(LocalError::PortTaken { port, description: other.description.clone() }.into());
    }
    if router.state::<UdpListeners>().all.len() >= MAX_PORTS {
        return Err(LocalError::TooManyPorts.into());
    }
    let edge = router.graph.connect(router.state::<UdpListeners>().nodes[family], node)?;
    let listener = UdpListener { node: node.into(), description: description.into(), edge };
    router.state_mut::<UdpListeners>().all.insert((port, family), listener);
    publish_ports(router);
    Ok(())
}

/// Removes the listener of a port, for one family.
pub fn unlisten_udp(router: &mut Router, family: Family, port: u16) {
    router.state_mut::<UdpListeners>().all.remove(&(port, family));
    publish_ports(router);
}

fn publish_ports(router: &Router) {
    let listeners = router.state::<UdpListeners>();
    let [ip4, ip6] = Family::ALL.map(|family| listeners.edges(family));
    listeners.ports.publish(PortTable { ip4, ip6 });
}
