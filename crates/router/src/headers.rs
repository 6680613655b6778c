//! What nodes of several capabilities do with headers: print those of traced packets, sum over a packet's
//! buffers, tell hosts from what is none.

use graph::trace::TraceFormat;
use graph::{Context, Row, Snapshot, flag};
use std::fmt;
use std::net::IpAddr;
use wire::Family;
use wire::checksum::Accumulator;
use wire::ethernet::{EtherType, HEADER_LEN};
use wire::pretty::Summary;
use wire::vlan::TAG_LEN;

/// The IPv4 header of a traced packet and the one behind it.
pub fn trace_ip4(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "{}", Summary::ipv4(snapshot.l3()).indented(2))
}

/// The IPv6 header of a traced packet and the one behind it.
pub fn trace_ip6(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "{}", Summary::ipv6(snapshot.l3()).indented(2))
}

/// The label stack of a traced packet, and what it carries.
pub fn trace_mpls(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "{}", Summary::mpls(snapshot.l3()).indented(2))
}

graph::scratch_number! {
    /// Where the payload of an IP packet begins, behind options or extension headers: bytes from its network header.
    pub struct PayloadAt(u32) = "payload offset"
}

/// What the node before left as [`PayloadAt`]. Without it there is no payload: the offset is beyond any packet.
pub fn payload_at(row: &Row) -> usize {
    row.scratch.read().map_or(usize::from(u16::MAX), |PayloadAt(at)| at as usize)
}

/// The packet's bytes from its network header to the end of its first buffer.
pub fn visible<'a>(cx: &'a Context<'_>, row: &Row) -> &'a [u8] {
    let available = row.first_length(cx.buffers).saturating_sub((row.l3 - row.l2) as usize);
    let bytes = cx.buffers.bytes(row.packet);
    let start = (row.l3 as usize).min(bytes.len());
    &bytes[start..(start + available).min(bytes.len())]
}

/// Most VLAN tags that are looked past.
const MAX_TAGS: u16 = 2;

/// Where the network header of a frame is that no node has looked at yet. Of frames without work left to a device
/// ([`flag::OFFLOAD`]), nobody asks, and tags are not looked past.
pub fn network_header(cx: &Context<'_>, row: &Row) -> u16 {
    let first = row.l2 + HEADER_LEN as u16;
    if row.flags & flag::OFFLOAD == 0 {
        return first;
    }
    let bytes = cx.buffers.bytes(row.packet);
    let is_tag = |at: u16| EtherType(u16::from_be_bytes([bytes[at as usize - 2], bytes[at as usize - 1]])).is_tag();
    let tag = TAG_LEN as u16;
    let tags = (0..MAX_TAGS).take_while(|tags| is_tag(first + tags * tag)).count() as u16;
    first + tags * tag
}

/// That of a family.
pub fn trace_of(family: Family) -> TraceFormat {
    match family {
        Family::Ip4 => trace_ip4,
        Family::Ip6 => trace_ip6,
    }
}

/// The checksum over `length` bytes from `start` (counted from the start of the first buffer), wherever they
/// lie, and over what `initial` sums up; 0 when they hold a checksum that is right.
pub fn transport_checksum(cx: &Context<'_>, row: &Row, start: usize, length: usize, initial: u32) -> u16 {
    let mut sum = Accumulator::new(initial);
    let mut left = length;
    let here = (row.first_length(cx.buffers) + row.l2 as usize).saturating_sub(start).min(left);
    let bytes = cx.buffers.bytes(row.packet);
    sum.add(&bytes[start.min(bytes.len())..(start + here).min(bytes.len())]);
    left -= here;
    let chained = row.flags & flag::CHAINED != 0;
    let mut next = if chained { cx.buffers.segment(row.packet).next() } else { None };
    while let Some(index) = next {
        let segment = cx.buffers.segment(index);
        let bytes = &cx.buffers.bytes(index)[segment.offset as usize..];
        let here = (segment.length as usize).min(left).min(bytes.len());
        sum.add(&bytes[..here]);
        left -= here;
        next = segment.next();
    }
    sum.checksum()
}

/// Whether an address may be that of one host that can be answered: not of this network's unknown hosts, not a
/// group's, not a loopback's, not reserved (RFC 1122 3.2.1.3); of IPv6, not unspecified, a group's or the loopback's,
/// and none that embeds one of IPv4 (RFC 4291 2.5).
pub fn is_one_host(address: impl Into<IpAddr>) -> bool {
    match address.into() {
        IpAddr::V4(address) => {
            let first = address.octets()[0];
            first != 0 && first < 224 && !address.is_loopback()
        }
        IpAddr::V6(address) => !address.is_multicast() && !matches!(u128::from(address) >> 32, 0 | 0xffff),
    }
}
