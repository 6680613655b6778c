//! Where packets go from the nodes that write their link header, when they cannot go straight to an interface.

use crate::interface::exit::Exit;

/// The edges of such a node.
#[derive(Debug, Clone, Copy)]
pub struct RewriteEdges {
    /// To the nodes that resolve neighbours: of IPv4, and of IPv6.
    pub arp: u16,
    pub discover: u16,
    /// To the node that reports packets to stale neighbours.
    pub stale: u16,
    /// To the node that copies the time to live and the traffic class into pushed labels, if packets have these.
    pub impose: Option<u16>,
    /// To the node that puts headers in front of packets, if packets can get one.
    pub midchain: Option<u16>,
}

impl RewriteEdges {
    /// Of a node for IP packets, in the order of the fields.
    pub fn of_ip<E: Into<u16>>(edges: [E; 5]) -> RewriteEdges {
        let [arp, discover, stale, impose, midchain] = edges.map(Into::into);
        RewriteEdges { arp, discover, stale, impose: Some(impose), midchain: Some(midchain) }
    }
}

/// Those of all such nodes.
pub(crate) type AllEdges = Vec<(Exit, RewriteEdges)>;

impl super::control::Ip {
    /// # Panics
    /// When no node writes the link header of such packets: a programmer's error that shows at the first route.
    pub(crate) fn rewrite_edges(&self, exit: Exit) -> &RewriteEdges {
        let known = self.rewrite_edges.iter().find(|(of, _)| *of == exit);
        &known.unwrap_or_else(|| panic!("no node rewrites {exit:?}")).1
    }
}
