//! Who listens to which UDP port, as control keeps it.

use super::PortTable;
use crate::{Error, Router};
use graph::EdgeIndex;
use std::collections::BTreeMap;

/// Most ports that can be listened to.
pub const MAX_PORTS: usize = 1024;

/// A node that takes the datagrams to a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listener {
    pub node: String,
    /// What it is for, in a few words.
    pub description: String,
    edge: EdgeIndex,
}

/// All listeners, by port.
#[derive(Debug, Default)]
pub struct UdpListeners(BTreeMap<u16, Listener>);

impl UdpListeners {
    pub fn iter(&self) -> impl Iterator<Item = (u16, &Listener)> {
        self.0.iter().map(|(port, listener)| (*port, listener))
    }
}

impl Router {
    /// Gives a node the datagrams to a port of this router. What the node is handed `ip4-udp-lookup` says.
    ///
    /// # Errors
    /// When somebody listens to the port already, there is no such node, or too many ports are listened to.
    pub fn listen_udp(&mut self, port: u16, node: &str, description: &str) -> Result<(), Error> {
        if let Some(other) = self.udp.0.get(&port) {
            return Err(Error::PortTaken { port, description: other.description.clone() });
        }
        if self.udp.0.len() >= MAX_PORTS {
            return Err(Error::TooManyPorts);
        }
        let edge = self.graph.connect(self.nodes.local.udp, node)?;
        self.udp.0.insert(port, Listener { node: node.into(), description: description.into(), edge });
        self.publish_ports();
        Ok(())
    }

    /// Nobody listens to the port any more.
    pub fn unlisten_udp(&mut self, port: u16) {
        self.udp.0.remove(&port);
        self.publish_ports();
    }

    fn publish_ports(&self) {
        let ports = self.udp.iter().map(|(port, listener)| (port, listener.edge)).collect();
        self.udp_ports.publish(PortTable(ports));
    }
}
