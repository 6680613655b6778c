//! `linux-cp-xc`: what Linux sends by its side of a pair leaves by the router's interface, as it is.
//!
//! Linux has looked up the route and resolved the next hop already. A frame with the tags of a sub-interface that has a
//! pair leaves by that.
//!
//! Reads: `l2`, `rx_interface`. Writes: `tx_interface`; of packets whose checksum is not finished, `l3`. Next:
//! `interface-output`; along the arc with frames of an interface that is no pair's.

use crate::state::{BackWay, Way};
use graph::{Context, CounterTable, InterfaceIndex, Map, NodeSpec, PerInterface, Row, Snapshot, Vector, edge, flag};
use router::headers::network_header;
use router::interface::sub::{Demux, Found, Inner};
use std::fmt;
use std::sync::Arc;
use wire::ethernet::{EtherType, HEADER_LEN};
use wire::vlan::{TAG_LEN, Tag, VID_MASK};

pub const NODE: &str = "linux-cp-xc";

graph::edges! {
    pub enum Edge {
        Out => next "interface-output",
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: NODE.into(), edges: Edge::EDGES, counters: &[], trace }
}

pub struct FromHost {
    ways: PerInterface<BackWay>,
    /// Of the interfaces that have pairs.
    pairs: PerInterface<Way>,
    /// By the router's interface.
    taken: Arc<CounterTable>,
}

impl FromHost {
    pub fn new(ways: PerInterface<BackWay>, pairs: PerInterface<Way>, taken: Arc<CounterTable>) -> FromHost {
        FromHost { ways, pairs, taken }
    }
}

impl Map for FromHost {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let mut row = vector.row(i);
            let Some(way) = self.ways.get(cx.round, row.rx_interface) else {
                vector.set_edge(i, edge::CONTINUE);
                continue;
            };
            let sub = way.subs.as_ref().and_then(|subs| sub_of(cx, &row, subs));
            let to = sub.filter(|sub| self.pairs.get(cx.round, *sub).is_some()).unwrap_or(way.phy);
            self.taken.add(cx.thread, to.0 as usize, 0, 1);
            self.taken.add(cx.thread, to.0 as usize, 1, row.length.into());
            if row.flags & flag::OFFLOAD != 0 {
                row.l3 = network_header(cx, &row);
            }
            row.set_tx_interface(to);
            vector.set_row(i, row);
            vector.set_edge(i, Edge::Out.into());
        }
    }
}

/// The sub-interface with the tags of a frame.
fn sub_of(cx: &Context<'_>, row: &Row, subs: &Demux) -> Option<InterfaceIndex> {
    let bytes = cx.buffers.bytes(row.packet);
    let tag = |at: usize| bytes.get(row.l2 as usize + at..).and_then(Tag::parse);
    let outer = tag(HEADER_LEN - 2)?;
    let inner = match tag(HEADER_LEN - 2 + TAG_LEN) {
        None => Inner::None,
        Some(Tag { tpid: EtherType::VLAN, tci }) => Inner::Vid(tci & VID_MASK),
        Some(_) => Inner::Other,
    };
    subs.tagged(outer.tpid, outer.vid(), inner).map(Found::index)
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  lcp-xc: from Linux to sw_if_index {}", snapshot.row.tx_interface())
}
