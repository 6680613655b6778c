//! Sending packets to their next hops, as `ip4-rewrite` and `ip6-rewrite` do it when nothing is special about them.

use graph::vector::one_value;
use graph::{Context, EdgeIndex, Vector};
use std::ops::Range;
use tables::object::ObjectRef;
use tables::{Leaf, ObjectHandle};
use wire::batch::Hop;
use wire::ethernet::HEADER_LEN;

/// Forwards a vector about which nothing is special, as far as its adjacencies are complete and long enough; how many
/// packets are done.
#[inline]
pub fn forward_vector<H: Hop>(objects: &ObjectHandle, cx: &mut Context<'_>, vector: &mut Vector) -> usize {
    if let Some(leaf) = one_value(vector.targets()) {
        let object = objects.get(cx.round, Leaf(leaf).index());
        if object.is_complete() && longest(vector) <= object.mtu() {
            let (mut frames, sides) = vector.l3_frames(cx.buffers);
            let length = if let Some(header) = object.ethernet() {
                frames.forward_all::<H>(header);
                header.len()
            } else if let Some(header) = object.ethernet_tagged() {
                frames.forward_all_tagged::<H, _>(header);
                header.len()
            } else if let Some(header) = object.ethernet_double_tagged() {
                frames.forward_all_tagged::<H, _>(header);
                header.len()
            } else {
                (0..frames.len()).for_each(|i| frames.forward::<H>(i, object.rewrite()));
                object.rewrite().len()
            };
            sides.edge.fill(object.edge());
            begin_before(vector, 0..vector.len(), length as u16);
            return vector.len();
        }
    }
    let done = many::<H>(objects, cx, vector);
    begin_before(vector, 0..done, HEADER_LEN as u16);
    done
}

/// Packets of several next hops, as long as they go out untagged; how many.
fn many<H: Hop>(objects: &ObjectHandle, cx: &mut Context<'_>, vector: &mut Vector) -> usize {
    let objects = objects.load(cx.round);
    let longest = longest(vector);
    let (mut frames, sides) = vector.l3_frames(cx.buffers);
    let mut packets = sides.target.iter().zip(sides.edge.iter_mut());
    frames.forward_while::<H>(|| {
        let (leaf, edge) = packets.next()?;
        let object = objects.get(Leaf(*leaf).index());
        let header = object.ethernet().filter(|_| longest <= object.mtu())?;
        *edge = object.edge();
        Some(header)
    })
}

/// One packet about which nothing is special.
#[inline]
pub fn forward_one<H: Hop>(cx: &mut Context<'_>, vector: &mut Vector, i: usize, object: ObjectRef<'_>) -> EdgeIndex {
    let (mut frames, _) = vector.l3_frames(cx.buffers);
    let header = object.rewrite();
    if let Some(header) = object.ethernet_tagged() {
        frames.forward_tagged::<H, _>(i, header);
    } else if let Some(header) = object.ethernet_double_tagged() {
        frames.forward_tagged::<H, _>(i, header);
    } else {
        frames.forward::<H>(i, header);
    }
    begin_before(vector, i..i + 1, header.len() as u16);
    object.edge()
}

/// Whether a packet is to leave by the interface that it came by.
pub fn turns_back(objects: &ObjectHandle, cx: &Context<'_>, vector: &Vector) -> bool {
    let objects = objects.load(cx.round);
    let ways = vector.targets().iter().zip(vector.rx_interfaces());
    ways.fold(false, |any, (leaf, rx)| any | (objects.get(Leaf(*leaf).index()).interface() == rx.0))
}

/// The longest network-layer packet of the vector.
#[inline]
fn longest(vector: &mut Vector) -> u16 {
    let columns = vector.columns();
    let lengths = columns.length.iter().zip(&*columns.l2).zip(&*columns.l3);
    lengths.fold(0, |most, ((length, l2), l3)| most.max(length.wrapping_add(*l2).wrapping_sub(*l3)))
}

/// These packets now begin with a link header of so many bytes before their network header.
#[inline]
fn begin_before(vector: &mut Vector, range: Range<usize>, header: u16) {
    let columns = vector.columns();
    let (l2, l3) = (&mut columns.l2[range.clone()], &columns.l3[range.clone()]);
    for ((l2, l3), length) in l2.iter_mut().zip(l3).zip(&mut columns.length[range]) {
        let begin = l3.wrapping_sub(header);
        *length = length.wrapping_add(*l2).wrapping_sub(begin);
        *l2 = begin;
    }
}
