//! `ip4-punt`, `ip6-punt`: where packets for the host come in. They begin the arc of the same name.
//!
//! Reads: why the packet is here, an [`Unclaimed`] in scratch; the interface that received it. Writes: nothing;
//! features pass the reason on, unless they leave scratch of their own. Next: along the arc; `ip4-punt-redirect` or
//! `ip6-punt-redirect`.

use graph::{ArcIndex, Context, EdgeSpec, Map, NodeSpec, Vector};
pub use router::reply::unclaimed::Unclaimed;
use wire::Family;

graph::edges! {
    pub enum Edge {
        Redirect => next "ip4-punt-redirect",
        Features => arc "ip4-punt",
    }
}

/// The same of `ip6-punt`.
mod edge6 {
    graph::edges! {
        pub enum Edge like super::Edge {
            Redirect => next "ip6-punt-redirect",
            Features => arc "ip6-punt",
        }
    }
}

/// The arc of a family, which has the name of the node that begins it.
pub fn arc(family: Family) -> &'static str {
    match family {
        Family::Ip4 => "ip4-punt",
        Family::Ip6 => "ip6-punt",
    }
}

pub fn spec(family: Family) -> NodeSpec {
    let edges: &'static [EdgeSpec] = match family {
        Family::Ip4 => Edge::EDGES,
        Family::Ip6 => edge6::Edge::EDGES,
    };
    NodeSpec { name: arc(family).into(), edges, counters: &[], trace: router::headers::trace_of(family) }
}

pub struct Begin {
    arc: ArcIndex,
}

impl Begin {
    pub fn new(arc: ArcIndex) -> Begin {
        Begin { arc }
    }
}

impl Map for Begin {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let reason = vector.left(i).unwrap_or(Unclaimed::Route);
            vector.leave(i, reason);
            vector.send(i, cx.chain(self.arc, vector.rx_interfaces()[i]), Edge::Redirect.into());
        }
    }
}
