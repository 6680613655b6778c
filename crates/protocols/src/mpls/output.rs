//! `mpls-output`: sends labelled packets to their next hop, with another label, with more, or without the top one.
//!
//! Reads: `target` (an adjacency), scratch (for some leaves, the label to push), `l3` (the position of the
//! label to replace), `length`. Writes: labels and the link header into the packet, with the label's time to live minus
//! one and its traffic class; `l2`, `l3` and `length`. Next: the adjacency's interface output, through
//! `ip6-stale-neighbor` when the next hop was not confirmed lately; `ip4-arp` or `ip6-discover-neighbor` when the next
//! hop is not known, with the packet behind its label; `mpls-icmp-error` with packets that are too long.

use super::lookup::Swap;
use graph::vector::one_value;
use graph::{Context, CounterSpec, EdgeIndex, Map, NodeSpec, Severity, Snapshot, Vector};
use router::ip::class;
use router::ip::marks::Marks;
pub use router::reply::marks::BEHIND_LABEL;
pub use router::reply::report4;
use std::fmt;
use tables::object::{MAX_REWRITE, ObjectRef};
use tables::{Leaf, ObjectHandle};
use wire::mpls::ENTRY_LEN;

graph::edges! {
    /// The edges to the interfaces' outputs follow these.
    pub enum Edge {
        Arp => next "ip4-arp",
        Discover => next "ip6-discover-neighbor",
        Stale => next "ip6-stale-neighbor",
        IcmpError => next "mpls-icmp-error",
        /// Along the features of the interface by which packets leave; else by an edge of the interface.
        Output => arc "mpls-output",
    }
}

const COUNTERS: &[CounterSpec] = &[CounterSpec(
    "mpls packets too big",
    Severity::Warning,
    "A packet with its labels is longer than the MTU of its next hop (RFC 3032 3.4). If it is an IP packet that must \
     not be fragmented, the router reported the length that fits to the sender. Otherwise the router dropped it \
     silently. The links of a label switched path must carry the longest packet of the ingress router plus its \
     labels: raise their MTU with `set interface mtu`.",
)];
const TOO_BIG: usize = 0;

pub fn spec() -> NodeSpec {
    NodeSpec { name: "mpls-output".into(), edges: Edge::EDGES, counters: COUNTERS, trace }
}

pub struct MplsOutput {
    objects: ObjectHandle,
}

impl MplsOutput {
    pub fn new(objects: ObjectHandle) -> MplsOutput {
        MplsOutput { objects }
    }

    /// Handles packets that swap one label on an untagged link, up to the first other packet. Returns how many.
    fn swap(&self, cx: &mut Context<'_>, vector: &mut Vector) -> usize {
        let objects = self.objects.load(cx.round);
        let longest = longest(vector);
        let done = match one_value(vector.targets()) {
            Some(leaf) => {
                let object = objects.get(Leaf(leaf).index());
                let Some((header, _)) = swapping(leaf, 0, &object, longest) else { return 0 };
                let Some((mut frames, sides, swaps)) = vector.l3_frames_with_numbers::<Swap>(cx.buffers) else {
                    return 0;
                };
                frames.swap_all(header, swaps);
                sides.edge.fill(object.edge());
                vector.len()
            }
            None => {
                let Some((mut frames, sides, swaps)) = vector.l3_frames_with_numbers::<Swap>(cx.buffers) else {
                    return 0;
                };
                let mut packets = sides.target.iter().zip(sides.edge.iter_mut()).zip(swaps);
                frames.swap_while(|| {
                    let ((leaf, edge), swap) = packets.next()?;
                    let object = objects.get(Leaf(*leaf).index());
                    let swapped = swapping(*leaf, *swap, &object, longest)?;
                    *edge = object.edge();
                    Some(swapped)
                })
            }
        };
        let columns = vector.columns();
        let lengths = columns.length[..done].iter_mut().zip(&columns.l3[..done]);
        for (l2, (length, l3)) in columns.l2[..done].iter_mut().zip(lengths) {
            let begin = l3.wrapping_sub(14);
            *length = length.wrapping_add(*l2).wrapping_sub(begin);
            *l2 = begin;
        }
        done
    }
}

/// The link header and the new label of a leaf that swaps its label, if it accepts packets of that length.
#[inline(always)]
fn swapping<'r>(leaf: u32, swap: u32, object: &ObjectRef<'r>, longest: u16) -> Option<(&'r [u8; 14], u32)> {
    let is_swap = Leaf(leaf).class() == class::SWAP && object.is_complete() && longest <= object.mtu();
    let rewrite = object.ethernet_tagged().filter(|_| is_swap)?;
    Some((rewrite.first_chunk().expect("18 bytes"), swap))
}

/// The length of the longest packet of the vector, from its label on.
#[inline]
fn longest(vector: &mut Vector) -> u16 {
    let columns = vector.columns();
    let lengths = columns.length.iter().zip(&*columns.l2).zip(&*columns.l3);
    lengths.fold(0, |most, ((length, l2), l3)| most.max(length.wrapping_add(*l2).wrapping_sub(*l3)))
}

impl Map for MplsOutput {
    #[inline]
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let done = self.swap(cx, vector);
        let objects = self.objects.load(cx.round);
        for i in done..vector.len() {
            let object = objects.get(Leaf(vector.targets()[i]).index());
            let to = one(cx, vector, i, object);
            vector.set_edge(i, to);
        }
    }
}

/// Handles one packet, whatever happens to its label.
fn one(cx: &mut Context<'_>, vector: &mut Vector, i: usize, object: ObjectRef<'_>) -> EdgeIndex {
    let mut row = vector.row(i);
    if row.l3_length() > object.mtu().into() {
        cx.count(TOO_BIG, 1);
        // The length counts from the label on; `mpls-icmp-error` computes what that leaves for the packet inside.
        vector.leave(i, report4::Report::fragmentation_needed(object.mtu()));
        return Edge::IcmpError.into();
    }
    if !object.is_complete() {
        // The label is looked up again later, because it determines the path.
        row.l3 += ENTRY_LEN as u16;
        row.flags |= BEHIND_LABEL;
        vector.set_row(i, row);
        return object.edge();
    }
    let mut own = [0; MAX_REWRITE];
    let rewrite = match Leaf(row.target).class() {
        // The label in scratch becomes the last one.
        class::SWAP => {
            let own = &mut own[..object.rewrite().len()];
            own.copy_from_slice(object.rewrite());
            if let Some(label) = own.last_chunk_mut::<ENTRY_LEN>() {
                *label = row.scratch.read().map_or(0, |Swap(entry)| entry).to_be_bytes();
            }
            own
        }
        _ => object.rewrite(),
    };
    let Marks { labels, copies, is_uniform, .. } = Marks::of(object.owner());
    let (mut frames, _) = vector.l3_frames(cx.buffers);
    frames.relabel(i, rewrite, labels, copies, is_uniform);
    let begin = row.l3 + ENTRY_LEN as u16 - rewrite.len() as u16;
    row.length = row.length.wrapping_add(row.l2).wrapping_sub(begin);
    row.l2 = begin;
    row.l3 = begin + (rewrite.len() - labels * ENTRY_LEN) as u16;
    vector.set_row(i, row);
    object.edge()
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  adj-idx {}", Leaf(snapshot.row.target).index())?;
    write!(f, "  00000000: ")?;
    snapshot.l2().iter().take(32).try_for_each(|byte| write!(f, "{byte:02x}"))?;
    writeln!(f)
}
