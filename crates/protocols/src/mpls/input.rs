//! `mpls-input`: labelled packets of interfaces that take them.
//!
//! Reads: check bits in `flags`, `target` (the top entry of the label stack, as `ethernet-input` found it). Writes:
//! for packets that its header pass did not see, the same facts. Checksums that a sender left to its device are
//! finished: nothing behind labels could say where they are. Next: along the arc `mpls-input`, or a drop by
//! name (RFC 3032).

use drivers::offload;
use graph::{ArcIndex, Context, CounterTable, InterfaceIndex, Map, NodeSpec, Row, Vector, flag};
use router::headers::{trace_mpls, visible};
use router::interface::{SharedViews, ViewTable};
use std::sync::Arc;
use wire::batch::check;
use wire::mpls::{ENTRY_LEN, StackEntry};

graph::edges! {
    pub enum Edge {
        Lookup => arc "mpls-input",
        /// The interface does not accept labelled packets. Enable MPLS on it: `set interface mpls NAME enable`. If
        /// MPLS is not intended there, a neighbour sends labels that this router did not assign to it.
        NotEnabled => warn "mpls not enabled",
        /// The frame ends before the end of its first label (RFC 3032 2.1). The frame was truncated on its way, or
        /// the sender is at fault.
        TooShort => warn "mpls label stack cut short",
        /// A labelled packet arrived in a broadcast or multicast frame. One router assigns a label to one neighbour
        /// (RFC 3031 3.1), and that neighbour addresses its frames to the router.
        Group => note "mpls in a group-addressed frame",
        /// The sender requested segmentation from its virtual NIC, which is not possible behind labels, or a checksum
        /// that does not fit the packet. A broken or hostile guest or host driver.
        Malformed => drop "offload request makes no sense",
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "mpls-input".into(), edges: Edge::EDGES, counters: &[], trace: trace_mpls }
}

pub struct MplsInput {
    view: SharedViews,
    /// Labelled packets, by receiving interface.
    mpls: Arc<CounterTable>,
    arc: ArcIndex,
}

impl MplsInput {
    pub fn new(view: SharedViews, mpls: Arc<CounterTable>, arc: ArcIndex) -> MplsInput {
        MplsInput { view, mpls, arc }
    }

    fn count(&self, cx: &Context<'_>, rx: InterfaceIndex, packets: usize) {
        self.mpls.add(cx.thread, rx.0 as usize, 0, packets as u64);
    }
}

/// The header pass looked for something else, or found what is no plain packet.
const NOT_SEEN: u32 = check::NOT_IP4 | check::NOT_IP6;
const REMARKABLE: u32 = NOT_SEEN | check::SHORT | check::GROUP | check::CHAINED | flag::OFFLOAD;

fn is_enabled(view: &ViewTable, rx: InterfaceIndex) -> bool {
    view.get(rx).is_some_and(|view| view.mpls)
}

impl Map for MplsInput {
    #[inline]
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let view = self.view.load(cx.round);
        if let Some(rx) = vector.one_rx_interface()
            && (vector.any_flags() & REMARKABLE == 0 || !is_enabled(view, rx))
        {
            self.count(cx, rx, vector.len());
            return match is_enabled(view, rx) {
                true => vector.send_all(cx.chain(self.arc, rx), Edge::Lookup.into()),
                false => vector.set_edges(Edge::NotEnabled.into()),
            };
        }
        for i in 0..vector.len() {
            let mut row = vector.row(i);
            self.count(cx, row.rx_interface, 1);
            let to = if is_enabled(view, row.rx_interface) { one(cx, &mut row) } else { Edge::NotEnabled };
            let chain = if to == Edge::Lookup { cx.chain(self.arc, row.rx_interface) } else { None };
            vector.set_row(i, row);
            vector.send(i, chain, to.into());
        }
    }
}

/// One packet, with all that can be special about it.
fn one(cx: &mut Context<'_>, row: &mut Row) -> Edge {
    if row.flags & check::GROUP != 0 {
        return Edge::Group;
    }
    let is_short = row.flags & check::SHORT != 0 || row.l3_length() < ENTRY_LEN;
    let Some(entry) = visible(cx, row).first_chunk().filter(|_| !is_short) else { return Edge::TooShort };
    let entry = StackEntry::from_bytes(*entry);
    row.target = entry.0;
    row.flags &= !check::ALL;
    row.flags |= if entry.ttl() <= 1 { check::TTL } else { 0 };
    let is_finished = match row.flags & flag::OFFLOAD {
        0 => true,
        flag::PARTIAL_CHECKSUM => offload::finish_checksum(cx.buffers, row).is_ok(),
        _ => false,
    };
    if is_finished { Edge::Lookup } else { Edge::Malformed }
}
