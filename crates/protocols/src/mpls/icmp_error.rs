//! `mpls-icmp-error`: tells the sender of a labelled packet why the packet was not forwarded.
//!
//! A router in the middle of a label switched path has no route to the sender, which may be in a customer's network
//! with private addresses. So the message gets the packet's labels and follows its path. The router at the end of the
//! path has a route back (RFC 3032 2.3.2). The message quotes the packet's label stack (RFC 4884, RFC 4950).
//!
//! Reads: `l3`, the label stack; in scratch an [`report4::Report`] of what to say. For a packet that is too long,
//! the report has the length that fits, counted from the top label. Writes: the labelled message in place of the
//! packet. Next: `mpls-lookup`.

use crate::icmp::error as icmp4;
use crate::icmp6::error as icmp6;
use crate::ip6::OUR_HOP_LIMIT;
use graph::{Context, Map, NodeSpec, Row, Scratch, Vector, flag};
use router::headers::{trace_mpls, visible};
use router::interface::SharedViews;
use router::rate::TokenBucket;
pub use router::reply::policy::SharedPolicy;
pub use router::reply::report::keep_first_buffer;
pub use router::reply::{report4, report6};
use wire::icmpv4::Type;
use wire::icmpv6;
use wire::ipv4::{self, Protocol};
use wire::ipv6;
use wire::mpls::{
    ENTROPY_INDICATOR, ENTRY_LEN, EXTENSION_LEN, QUOTED, Stack, StackEntry, emit_extension, quoted_words,
};

graph::edges! {
    pub enum Edge {
        Lookup => next "mpls-lookup",
        /// The TTL of a label reached zero (RFC 3032 2.4.2). The router notified the packet's sender along the label
        /// switched path. The cause is a traceroute or a loop.
        TimeExceeded => note "ICMP time exceeded sent",
        /// The packet with its labels is longer than the MTU of its next hop and must not be fragmented. The router
        /// reported the length that fits to the sender (RFC 3032 3.4).
        FragmentationNeeded => note "ICMP fragmentation needed sent",
        /// The same as `ICMP time exceeded sent`, for IPv6.
        HopLimitExceeded => note "ICMPv6 hop limit exceeded sent",
        /// The same as `ICMP fragmentation needed sent`, for IPv6.
        PacketTooBig => note "ICMPv6 packet too big sent",
        /// The router dropped a labelled packet because its TTL reached zero or it was longer than the MTU. The
        /// packet behind the labels is not a valid IP packet, so there is no sender to notify.
        NotIp => warn "mpls packet without an ip sender to notify",
        /// A labelled IPv4 packet with its labels is longer than the MTU of its next hop, and its sender allows
        /// fragmentation. Only the router that adds the labels fragments packets, not a router on the path (RFC 3032
        /// 3.4). The links of the path must carry the longest packet of the ingress router plus its labels.
        TooLong => drop "mpls packet too long for its way out",
        /// The router dropped a labelled packet and sent no ICMP error. The packet is itself an ICMP error or a later
        /// fragment, or it is for a group, or its source is not a single host that the error could reach (RFC 1812
        /// 4.3.2.7, RFC 4443 2.4 (e)).
        Untold => note "no ICMP error about such a labelled packet",
        /// The router dropped more packets than the rate limit allows it to report to senders (RFC 1812 4.3.2.8;
        /// `set ip icmp error-rate`).
        RateLimited => warn "ICMP errors limited by rate",
        /// No interface that is up has an address from which the router can send an ICMP error. Add an address:
        /// `set interface ip address`.
        NoAddress => drop "no address to send an ICMP error from",
    }
}

/// The edge by which the original is dropped: by family, and by whether it was too long.
const SENT: [[Edge; 2]; 2] =
    [[Edge::TimeExceeded, Edge::FragmentationNeeded], [Edge::HopLimitExceeded, Edge::PacketTooBig]];

/// The most labels that are skipped: no reasonable stack has more.
const MAX_LABELS: usize = 16;
const TTL: u8 = 255;

pub fn spec() -> NodeSpec {
    NodeSpec { name: "mpls-icmp-error".into(), edges: Edge::EDGES, counters: &[], trace: trace_mpls }
}

pub struct MplsIcmpError {
    view: SharedViews,
    policy: SharedPolicy,
    bucket: TokenBucket,
    /// Identification of the next message.
    next_id: u16,
}

impl MplsIcmpError {
    pub(crate) fn new(view: SharedViews, policy: SharedPolicy) -> MplsIcmpError {
        MplsIcmpError { view, policy, bucket: TokenBucket::full(), next_id: 0 }
    }

    fn one(&mut self, cx: &mut Context<'_>, row: &mut Row) -> Edge {
        let Some(packet) = Labelled::of(cx, row) else { return Edge::NotIp };
        let report = report4::Report::left(row);
        let is_too_long = report.kind == Type::DESTINATION_UNREACHABLE;
        // The report's length includes the labels.
        let labels = packet.stack().len() * ENTRY_LEN;
        let mtu = report.rest.saturating_sub(labels as u32);
        let inside = Row { l3: row.l3 + labels as u16, ..*row };
        let policy = self.policy.load(cx.round);
        let view = self.view.load(cx.round).get(row.rx_interface);
        let message = match packet.is_ip6 {
            false => {
                let header = ipv4::Header::new_unchecked(&cx.buffers.bytes(row.packet)[inside.l3 as usize..]);
                if is_too_long && !header.dont_fragment() {
                    return Edge::TooLong;
                }
                let to = header.src();
                if icmp4::forbidden(cx, &inside, policy).is_some() {
                    return Edge::Untold;
                }
                let from = view.and_then(|view| view.address_towards(to)).or(policy.router_id);
                let Some(from) = from else { return Edge::NoAddress };
                let words = u32::from(quoted_words(to.into())) << 16;
                let rest = words | if is_too_long { mtu } else { 0 };
                Message::V4 { from, to, report: report4::Report { rest, ..report } }
            }
            true => {
                let header = ipv6::Header::new_unchecked(&cx.buffers.bytes(row.packet)[inside.l3 as usize..]);
                let to = header.src();
                if icmp6::forbidden(cx, &inside, is_too_long).is_some() || to.is_unicast_link_local() {
                    return Edge::Untold;
                }
                let from = view.and_then(|view| view.ip6.address_towards(to)).or(policy.router_id6);
                let Some(from) = from else { return Edge::NoAddress };
                let report = match is_too_long {
                    // The message has no more fields: it has no room for the length of a quote (RFC 4884 4.6).
                    true => report6::Report { rest: mtu, ..report6::Report::packet_too_big(0) },
                    false => report6::Report {
                        rest: u32::from(quoted_words(to.into())) << 24,
                        ..report6::Report::hop_limit_exceeded()
                    },
                };
                Message::V6 { from, to, report, too_long_for: is_too_long.then_some(mtu as usize) }
            }
        };
        if !self.bucket.take(policy.limit, cx.now) {
            return Edge::RateLimited;
        }
        cx.drop_original(row, SENT[usize::from(packet.is_ip6)][usize::from(is_too_long)].into());
        self.next_id = self.next_id.wrapping_add(1);
        write(cx, row, &packet, &message, self.next_id);
        Edge::Lookup
    }
}

/// The message to send, by family.
enum Message {
    V4 { from: std::net::Ipv4Addr, to: std::net::Ipv4Addr, report: report4::Report },
    V6 { from: std::net::Ipv6Addr, to: std::net::Ipv6Addr, report: report6::Report, too_long_for: Option<usize> },
}

/// A packet behind its labels.
struct Labelled {
    entries: [StackEntry; MAX_LABELS],
    depth: usize,
    /// Bytes of the packet inside that can be quoted.
    inside: usize,
    is_ip6: bool,
}

impl Labelled {
    fn of(cx: &Context<'_>, row: &Row) -> Option<Labelled> {
        let bytes = visible(cx, row);
        let bytes = &bytes[..bytes.len().min(row.l3_length())];
        let (mut entries, mut depth) = ([StackEntry(0); MAX_LABELS], 0);
        for (place, entry) in entries.iter_mut().zip(Stack::new(bytes)) {
            *place = entry;
            depth += 1;
        }
        entries[..depth].last().filter(|entry| entry.is_bottom())?;
        let inside = &bytes[depth * ENTRY_LEN..];
        let is_ip6 = match inside.first()? >> 4 {
            4 => {
                let header = ipv4::Header::new_unchecked(inside.get(..ipv4::HEADER_LEN)?);
                let whole = inside.get(..header.header_len())?;
                if whole.len() < ipv4::HEADER_LEN || !ipv4::Header::new_unchecked(whole).verify_checksum() {
                    return None;
                }
                false
            }
            6 => inside.get(..ipv6::HEADER_LEN).map(|_| true)?,
            _ => return None,
        };
        Some(Labelled { entries, depth, inside: inside.len(), is_ip6 })
    }

    fn stack(&self) -> &[StackEntry] {
        &self.entries[..self.depth]
    }

    /// The label stack of the report: the packet's own, with the highest TTL. An entropy label has none, because no
    /// router forwards by it (RFC 6790 4.2).
    fn way(&self) -> impl Iterator<Item = StackEntry> {
        let above = std::iter::once(None).chain(self.stack().iter().map(|entry| Some(entry.label())));
        self.stack().iter().zip(above).map(|(entry, above)| {
            let ttl = if above == Some(ENTROPY_INDICATOR) { 0 } else { TTL };
            StackEntry::new(entry.label(), entry.traffic_class(), entry.is_bottom(), ttl)
        })
    }
}

/// Writes the labelled message in the packet's place.
fn write(cx: &mut Context<'_>, row: &mut Row, packet: &Labelled, message: &Message, id: u16) {
    keep_first_buffer(cx, row);
    let labels = packet.stack().len() * ENTRY_LEN;
    let headers6 = ipv6::HEADER_LEN + icmpv6::HEADER_LEN;
    let (headers, quoted, is_extended) = match message {
        Message::V4 { .. } => (icmp4::HEADERS, QUOTED, true),
        Message::V6 { too_long_for: None, .. } => (headers6, QUOTED, true),
        // As much as any IPv6 link carries (RFC 4443 2.4 (c)), and as this path carries.
        Message::V6 { too_long_for: Some(mtu), .. } => {
            (headers6, packet.inside.min(usize::from(ipv6::MIN_MTU).min(*mtu).saturating_sub(headers6)), false)
        }
    };
    let extension = if is_extended { EXTENSION_LEN + labels } else { 0 };
    let length = labels + headers + quoted + extension;
    // Well before the end of a buffer: link headers and labels are few, and a buffer has 2 kB.
    let begin = (row.l3 as usize).min(graph::buffer::STRIDE - length);
    let (inside, there) = (row.l3 as usize + labels, packet.inside.min(quoted));
    let bytes = cx.buffers.bytes_mut(row.packet);
    bytes.copy_within(inside..inside + there, begin + labels + headers);
    let (stack, ip) = bytes[begin..begin + length].split_at_mut(labels);
    for (place, entry) in stack.chunks_exact_mut(ENTRY_LEN).zip(packet.way()) {
        place.copy_from_slice(&entry.to_bytes());
    }
    ip[headers + there..headers + quoted].fill(0);
    if is_extended {
        emit_extension(&mut ip[headers + quoted..], packet.stack());
    }
    match *message {
        Message::V4 { from, to, report } => icmp4::emit(ip, report, from, to, id),
        Message::V6 { from, to, report, .. } => {
            let (ip, message) = ip.split_at_mut(ipv6::HEADER_LEN);
            wire::icmp::emit(message, report.kind, report.code, report.rest);
            icmpv6::Header::new_checked(&mut message[..]).expect("it has a header").fill_checksum(from, to);
            ipv6::Repr {
                src: from,
                dst: to,
                next_header: Protocol::ICMP6,
                hop_limit: OUR_HOP_LIMIT,
                traffic_class: 0,
                flow_label: 0,
                payload_len: message.len() as u16,
            }
            .emit(ip);
        }
    }
    let top = stack.first_chunk().expect("there is a label");
    row.target = u32::from_be_bytes(*top);
    (row.l2, row.l3, row.length) = (begin as u16, begin as u16, length as u16);
    row.scratch = Scratch::NONE;
    row.flags = (row.flags & flag::TRACED) | flag::ORIGINATED;
}

impl Map for MplsIcmpError {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        vector.each_row(|row| self.one(cx, row));
    }
}
