//! The feature arcs on which received IP packets are: of hosts' and of groups' and broadcast addresses.

use graph::{ArcIndex, Context, Cursor, Graph, GraphError, InterfaceIndex};
use wire::Family;

/// The arcs of a family, which begin in its input nodes. The one ends in the lookup of routes; the other, for packets
/// to all or some stations of a link, in local delivery.
#[derive(Debug, Clone, Copy)]
pub struct InputArcs {
    unicast: ArcIndex,
    multicast: ArcIndex,
}

/// The names of the arcs of a family.
pub(crate) const fn names(family: Family) -> [&'static str; 2] {
    match family {
        Family::Ip4 => ["ip4-unicast", "ip4-multicast"],
        Family::Ip6 => ["ip6-unicast", "ip6-multicast"],
    }
}

impl InputArcs {
    pub fn of(graph: &Graph, family: Family) -> Result<InputArcs, GraphError> {
        let [unicast, multicast] = names(family);
        Ok(InputArcs { unicast: graph.arc(unicast)?, multicast: graph.arc(multicast)? })
    }

    /// The chain of packets that an interface received and that are to be routed.
    #[inline(always)]
    pub fn unicast(&self, cx: &Context<'_>, rx: InterfaceIndex) -> Option<Cursor> {
        cx.chain(self.unicast, rx)
    }

    /// The chain of those that are for this router because they are for all or some stations of the link.
    #[inline(always)]
    pub fn multicast(&self, cx: &Context<'_>, rx: InterfaceIndex) -> Option<Cursor> {
        cx.chain(self.multicast, rx)
    }
}
