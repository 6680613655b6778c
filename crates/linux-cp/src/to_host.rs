//! `linux-cp-punt-ip4`, `linux-cp-punt-ip6`, `linux-cp-arp-phy`, `linux-cp-punt-l2`: what an interface receives that is
//! not to be forwarded goes to Linux, as the frame that it came in.
//!
//! The router learns neighbours from ARP and from Neighbor Discovery: Linux gets a copy of these messages, and the
//! router reads them without answering them.
//!
//! Reads: `l2`, `l3`, `rx_interface`. Writes: `tx_interface`. Next: `interface-output` with what Linux gets; along the
//! arc with what the router reads, and with packets of interfaces that have no pair.

use crate::state::Way;
use graph::{
    Context, CounterSpec, CounterTable, Expand, Expansion, NodeSpec, PerInterface, Row, Severity, Snapshot, Vector,
    edge, flag,
};
use router::ip::REASSEMBLED;
use router::reply::marks::ANSWERED;
use std::fmt;
use std::sync::Arc;
use wire::MacAddress;
use wire::ethernet::{EtherType, HEADER_LEN};
use wire::icmpv6::Type;
use wire::ipv4::Protocol;
use wire::vlan::TAG_LEN;

/// Their names, in the order of the arcs `ip4-local`, `ip6-local`, `arp`, `l2-input`.
pub const NODES: [&str; 4] = ["linux-cp-punt-ip4", "linux-cp-punt-ip6", "linux-cp-arp-phy", "linux-cp-punt-l2"];
const IP4: usize = 0;
const IP6: usize = 1;
const ARP: usize = 2;

graph::edges! {
    pub enum Edge {
        Host => next "interface-output",
        /// The packet was put together from fragments, and with an Ethernet header, which Linux needs, it would be
        /// longer than a frame can be (65,535 bytes).
        NoRoom => drop "packet too long for a frame",
    }
}

const COUNTERS: &[CounterSpec] = &[CounterSpec(
    "no free buffer to copy into",
    Severity::Error,
    "All packet buffers are in use, so only Linux got this message, and the router did not learn from it. Check \
     `show buffers`, and increase `buffers-per-numa` in startup.conf.",
)];
const NO_BUFFER: usize = 0;

pub fn spec(name: &'static str) -> NodeSpec {
    NodeSpec { name: name.into(), edges: Edge::EDGES, counters: COUNTERS, trace }
}

pub struct ToHost {
    number: usize,
    ways: PerInterface<Way>,
    sent: Arc<CounterTable>,
}

impl ToHost {
    /// One of [`NODES`].
    pub fn new(number: usize, ways: PerInterface<Way>, sent: Arc<CounterTable>) -> ToHost {
        ToHost { number, ways, sent }
    }

    /// Whether the router reads the packet, too.
    fn teaches(&self, cx: &Context<'_>, row: &Row) -> bool {
        match self.number {
            ARP => true,
            IP6 => is_discovery(cx, row),
            _ => false,
        }
    }

    /// The frame for Linux, counted, and where it goes.
    fn frame(&self, x: &mut Expansion<'_, '_>, mut row: Row, way: Way) -> (Row, Edge) {
        let rx = row.rx_interface.0 as usize;
        let is_ip = self.number == IP4 || self.number == IP6;
        if is_ip && !has_link_header(x.cx, &row, self.number) && !give_link_header(x.cx, &mut row, self.number, way) {
            return (row, Edge::NoRoom);
        }
        self.sent.add(x.cx.thread, rx, 0, 1);
        self.sent.add(x.cx.thread, rx, 1, row.length.into());
        row.set_tx_interface(way.tap);
        (row, Edge::Host)
    }
}

impl Expand for ToHost {
    fn process(&mut self, x: &mut Expansion<'_, '_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let mut row = vector.row(i);
            // A side in Linux that is down takes and answers nothing.
            let way = self.ways.get(x.cx.round, row.rx_interface).filter(|way| way.is_open);
            let Some(way) = way.copied() else {
                vector.set_edge(i, edge::CONTINUE);
                continue;
            };
            // RFC 6980: Linux would not see any more that it was in fragments, which makes it invalid.
            let is_rebuilt = row.flags & REASSEMBLED != 0;
            if is_rebuilt && self.number == IP6 && is_discovery(x.cx, &row) {
                vector.set_edge(i, edge::CONTINUE);
                continue;
            }
            if self.teaches(x.cx, &row) {
                if let Some(copy) = row.copy(x.cx.buffers) {
                    let copy = Row { flags: copy.flags & !flag::TRACED, ..copy };
                    let (frame, to) = self.frame(x, copy, way);
                    x.originate(frame, to.into());
                    row.flags |= ANSWERED;
                    vector.set_row(i, row);
                    vector.set_edge(i, edge::CONTINUE);
                    continue;
                }
                x.cx.count(NO_BUFFER, 1);
            }
            vector.set_edge(i, edge::TAKEN);
            let (frame, to) = self.frame(x, row, way);
            x.emit(frame, to.into());
        }
    }
}

/// The offset of the byte of an IPv6 header that names the next header, and the length of the header.
const NEXT_HEADER: usize = 6;
const IP6_HEADER: usize = 40;

/// Whether an IPv6 packet is a message of Neighbor Discovery. No host sends it behind extension headers.
fn is_discovery(cx: &Context<'_>, row: &Row) -> bool {
    let packet = cx.buffers.bytes(row.packet).get(row.l3 as usize..).unwrap_or(&[]);
    let is = |at: usize, what: &dyn Fn(u8) -> bool| packet.get(at).is_some_and(|byte| what(*byte));
    let of_neighbours = |kind| (Type::ROUTER_SOLICITATION.0..=Type::REDIRECT.0).contains(&kind);
    is(NEXT_HEADER, &|next| Protocol(next) == Protocol::ICMP6) && is(IP6_HEADER, &of_neighbours)
}

fn ethertype(number: usize) -> EtherType {
    if number == IP4 { EtherType::IPV4 } else { EtherType::IPV6 }
}

/// Whether the packet's network header follows an Ethernet header, with tags or without.
fn has_link_header(cx: &Context<'_>, row: &Row, number: usize) -> bool {
    let bytes = cx.buffers.bytes(row.packet);
    let (l2, l3) = (row.l2 as usize, row.l3 as usize);
    let mut at = l2 + HEADER_LEN;
    if at > l3 {
        return false;
    }
    let named = |at: usize| EtherType(u16::from_be_bytes([bytes[at - 2], bytes[at - 1]]));
    while at < l3 && named(at).is_tag() {
        at += TAG_LEN;
    }
    at == l3 && named(at) == ethertype(number)
}

/// Puts an Ethernet header, with the interface's tags, in front of a packet that has none: it came behind labels, or
/// was reassembled. Whether there is room for it.
fn give_link_header(cx: &mut Context<'_>, row: &mut Row, number: usize, way: Way) -> bool {
    let (l2, l3) = (row.l2 as usize, row.l3 as usize);
    let mut header = way.tags.link_header(way.mac, MacAddress::default(), ethertype(number));
    let Some(begin) = l3.checked_sub(header.len()) else { return false };
    let length = u32::from(row.length) + u32::from(row.l2) - begin as u32;
    let Ok(length) = u16::try_from(length) else { return false };
    let bytes = cx.buffers.bytes_mut(row.packet);
    if l3 >= l2 + HEADER_LEN {
        // The addresses of its frame.
        header.addresses_mut().copy_from_slice(&bytes[l2..l2 + HEADER_LEN - 2]);
    }
    bytes[begin..l3].copy_from_slice(&header);
    row.length = length;
    row.l2 = begin as u16;
    true
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  lcp-punt: sw_if_index {} to Linux", snapshot.row.rx_interface)
}
