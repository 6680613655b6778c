//! `mpls-lookup`: where labels lead (the incoming label map of RFC 3031 3.11).
//!
//! Reads: `target`, the top entry of the label stack; `l3`, the position of that entry. Writes: `target`, the leaf that
//! the label resolves to; in scratch, the label that replaces it; `l3`, behind labels that were removed to
//! look up the next one; for `mpls-icmp-error`, what to say in scratch. Next: by the leaf's class. A packet
//! whose time to live has expired only continues where its label is removed at the end of its path.

use graph::vector::one_value;
use graph::{Context, EdgeIndex, EdgeSpec, Map, NodeSpec, Row, Scratch, Snapshot, Vector};
use router::headers::visible;
use router::ip::class;
use router::ip::control::LabelTableIndex;
use router::ip::labels::key::{LabelAction, LabelKey, LabelLookup};
use router::ip::labels::pop;
use router::ip::labels::table::{ENTROPY, SharedLabels};
pub use router::reply::report4;
use std::fmt;
use tables::Leaf;
use wire::Family;
use wire::batch::check;
use wire::mpls::{ENTROPY_INDICATOR, ENTRY_LEN, StackEntry};
use wire::pretty::Summary;

graph::edges! {
    /// The edges of all nodes that read leaves of labels.
    pub enum Edge {
        Output => next "mpls-output",
        LoadBalance => next "mpls-load-balance",
        Pop4 => next "ip4-mpls-label-disposition-pipe",
        Pop6 => next "ip6-mpls-label-disposition-pipe",
        Uniform4 => next "ip4-mpls-label-disposition-uniform",
        Uniform6 => next "ip6-mpls-label-disposition-uniform",
        IcmpError => next "mpls-icmp-error",
        Object => next "object-dispatch",
        /// There is no route for this label, or none of its paths works at present: see `show mpls fib LABEL`. The
        /// neighbour sends a label that this router did not assign to it. Or the label is above other labels but only
        /// `eos` is configured for it, or it is the last label but only `non-eos` is (RFC 3031 3.18).
        Unknown => warn "mpls label leads nowhere",
        /// The route of the packet's label is `drop`. `show mpls fib LABEL` shows the route.
        Drop => note "blackholed packets",
        /// The router alert label asks each router on the path to examine the packet (RFC 3032 2.1). This router does
        /// not support it.
        RouterAlert => warn "mpls router alert label",
        /// The router removed the top label to look up the next label, but there is none (RFC 3032 2.1). The packet
        /// ends before the next label is complete, or the removed label was marked as the last one.
        CutShort => warn "mpls label stack cut short",
        /// The routes of labels sent the packet from table to table, and after four tables the lookup was not
        /// complete. The routes most likely form a loop. `show mpls fib` shows the paths of each label.
        TooMany => drop "too many labels in a row",
        /// The route of the label was being changed when the packet arrived, and it had no forwarding object. A few
        /// are harmless during a change. If the count keeps rising, report it together with `show mpls fib`.
        Broken => drop "label leads to nothing",
    }
}

/// The most labels of one packet that are removed here to look up the next.
const MAX_IN_A_ROW: usize = 4;

pub fn spec() -> NodeSpec {
    NodeSpec { name: "mpls-lookup".into(), edges: Edge::EDGES, counters: &[], trace }
}

pub const EDGES: &[EdgeSpec] = Edge::EDGES;

static BY_CLASS: [EdgeIndex; 256] = by_class();

const fn by_class() -> [EdgeIndex; 256] {
    let mut edges = [Edge::Broken as EdgeIndex; 256];
    edges[class::MISS as usize] = Edge::Unknown as EdgeIndex;
    edges[class::DROP as usize] = Edge::Drop as EdgeIndex;
    edges[class::UNREACHABLE as usize] = Edge::Drop as EdgeIndex;
    edges[class::PROHIBIT as usize] = Edge::Drop as EdgeIndex;
    edges[class::PUNT as usize] = Edge::RouterAlert as EdgeIndex;
    edges[class::ADJACENCY as usize] = Edge::Output as EdgeIndex;
    edges[class::SWAP as usize] = Edge::Output as EdgeIndex;
    edges[class::LOAD_BALANCE as usize] = Edge::LoadBalance as EdgeIndex;
    edges[class::OBJECT as usize] = Edge::Object as EdgeIndex;
    const POPS: [Edge; pop::NODES.len()] = [Edge::Pop4, Edge::Pop6, Edge::Uniform4, Edge::Uniform6];
    let mut node = 0;
    while node < POPS.len() {
        edges[class::POP as usize + node] = POPS[node] as EdgeIndex;
        edges[class::POP_LOOKUP as usize + node] = POPS[node] as EdgeIndex;
        node += 1;
    }
    edges
}

/// The edge for a leaf.
#[inline(always)]
pub(super) fn edge_of(leaf: u32) -> EdgeIndex {
    BY_CLASS[usize::from(Leaf(leaf).class())]
}

/// Sends each packet to the edge of its leaf.
#[inline]
pub(super) fn dispatch(vector: &mut Vector) {
    let columns = vector.columns();
    let Some(&first) = columns.target.first() else { return };
    let differ = columns.target.iter().fold(0, |all, leaf| all | (leaf ^ first));
    if differ >> 24 == 0 {
        return vector.set_edges(edge_of(first));
    }
    columns.target.iter().zip(columns.edge).for_each(|(leaf, edge)| *edge = edge_of(*leaf));
}

graph::scratch_number! {
    /// The entry of the label stack that replaces a packet's, in host order, for leaves that swap.
    pub(super) struct Swap(u32) = "label to swap to"
}

pub struct MplsLookup {
    tables: SharedLabels,
}

impl MplsLookup {
    pub fn new(tables: SharedLabels) -> MplsLookup {
        MplsLookup { tables }
    }
}

/// Whether a label must be handled on its own: it is removed to look up the next one, or it may involve an entropy
/// label.
#[inline(always)]
fn is_strange(leaf: u32) -> bool {
    // Without branches, so that many leaves are compared at a time.
    (leaf >> 24 == class::LOOKUP as u32) | (leaf >> 24 == class::MISS as u32)
}

impl Map for MplsLookup {
    #[inline]
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let tables = &self.tables.load(cx.round)[..];
        let Some(table) = find(tables, LabelTableIndex::DEFAULT) else {
            return vector.set_edges(Edge::Unknown.into());
        };
        let any_expires = vector.any_flags() & check::TTL != 0;
        let (targets, swaps) = vector.leave_numbers::<Swap>();
        match one_value(targets) {
            // All packets have the same label and fields: common between two routers.
            Some(entry) => {
                let way = table.lookup(cx.round, LabelKey::of_entry(entry).place());
                targets.fill(way.leaf.0);
                swaps.fill(way.beside);
            }
            None => table.lookup_batch(cx.round, targets, swaps, |entry| LabelKey::of_entry(entry).place()),
        }
        let any_strange = targets.iter().fold(false, |any, leaf| any | is_strange(*leaf));
        dispatch(vector);
        if !(any_strange || any_expires) {
            return;
        }
        for i in 0..vector.len() {
            let leaf = vector.targets()[i];
            let expires = vector.columns().flags[i] & check::TTL != 0;
            if !is_strange(leaf) && !expires {
                continue;
            }
            let mut row = vector.row(i);
            let to = one(cx, tables, &mut row);
            vector.set_row(i, row);
            vector.set_edge(i, to);
        }
    }
}

fn find(tables: &[Option<LabelLookup>], index: LabelTableIndex) -> Option<&LabelLookup> {
    tables.get(usize::from(index.0))?.as_ref()
}

/// The entry of a packet's label stack at an offset from its network header, or `None` where the packet ends before.
fn entry_at(cx: &Context<'_>, row: &Row, at: usize) -> Option<StackEntry> {
    let is_there = at + ENTRY_LEN <= row.l3_length();
    let bytes = visible(cx, row).get(at..)?.first_chunk().filter(|_| is_there)?;
    Some(StackEntry::from_bytes(*bytes))
}

/// Handles one packet, from its top label on.
fn one(cx: &mut Context<'_>, tables: &[Option<LabelLookup>], row: &mut Row) -> EdgeIndex {
    let mut index = LabelTableIndex::DEFAULT;
    for _ in 0..MAX_IN_A_ROW {
        let Some(entry) = entry_at(cx, row, 0) else { return Edge::CutShort.into() };
        let Some(table) = find(tables, index) else { return Edge::Unknown.into() };
        let (LabelAction { leaf, beside: swap }, behind) = resolve(cx, table, row, entry);
        (row.target, row.scratch) = (leaf.0, Scratch::of(Swap(swap)));
        let ends_here = pop::lets_out(leaf);
        match leaf.class() {
            class::MISS => return Edge::Unknown.into(),
            _ if entry.ttl() == 0 => return expired(row),
            // The step for what is inside checks the time to live.
            class::LOOKUP => {}
            _ if entry.ttl() == 1 && !ends_here => return expired(row),
            _ => {
                if behind > ENTRY_LEN {
                    // Moves the label to the place of the last entry, because the next node removes one entry.
                    row.l3 += (behind - ENTRY_LEN) as u16;
                    let entry = StackEntry::new(entry.label(), entry.traffic_class(), true, entry.ttl());
                    let place = row.l3 as usize..row.l3 as usize + ENTRY_LEN;
                    cx.buffers.bytes_mut(row.packet)[place].copy_from_slice(&entry.to_bytes());
                }
                return edge_of(leaf.0);
            }
        }
        if entry.is_bottom() {
            return Edge::CutShort.into();
        }
        row.l3 += ENTRY_LEN as u16;
        if leaf != ENTROPY {
            index = LabelTableIndex(leaf.index() as u16);
            continue;
        }
        match entry_at(cx, row, 0) {
            None => return Edge::CutShort.into(),
            // The previous router removed the label that identified the packet inside (RFC 3031 3.16).
            Some(entropy) if entropy.is_bottom() => {
                let family = match visible(cx, row).get(ENTRY_LEN).map(|byte| byte >> 4) {
                    Some(4) => Family::Ip4,
                    Some(6) => Family::Ip6,
                    _ => return Edge::Unknown.into(),
                };
                row.target = pop::into_table(family, None, false).0;
                return edge_of(row.target);
            }
            Some(_) => row.l3 += ENTRY_LEN as u16,
        }
    }
    Edge::TooMany.into()
}

/// Where a label leads, and how many bytes of the stack that uses. An entropy label at the bottom is ignored: the label
/// above it identifies the packet inside (RFC 6790 4.2).
fn resolve(cx: &Context<'_>, table: &LabelLookup, row: &Row, entry: StackEntry) -> (LabelAction, usize) {
    let way = table.lookup(cx.round, LabelKey::of_entry(entry.0).place());
    if entry.is_bottom() || !is_strange(way.leaf.0) || way.leaf == ENTROPY {
        return (way, ENTRY_LEN);
    }
    let is_indicator = |entry: &StackEntry| entry.label() == ENTROPY_INDICATOR && !entry.is_bottom();
    let entropy = entry_at(cx, row, ENTRY_LEN).filter(is_indicator).and_then(|_| entry_at(cx, row, 2 * ENTRY_LEN));
    if !entropy.is_some_and(StackEntry::is_bottom) {
        return (way, ENTRY_LEN);
    }
    let inside = table.lookup(cx.round, LabelKey::new(entry.label(), true).place());
    if pop::lets_out(inside.leaf) { (inside, 3 * ENTRY_LEN) } else { (way, ENTRY_LEN) }
}

/// RFC 3032 2.4.2: the packet is not forwarded, and its sender gets a report if that is possible.
fn expired(row: &mut Row) -> EdgeIndex {
    row.scratch = Scratch::of(report4::Report::ttl_expired());
    Edge::IcmpError.into()
}

/// In VPP's words.
pub(super) fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  dpo-idx {}", Leaf(snapshot.row.target).index())?;
    writeln!(f, "{}", Summary::mpls(snapshot.l3()).indented(2))
}
