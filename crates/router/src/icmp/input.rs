//! `ip4-icmp-input`: ICMP messages to this router.
//!
//! Reads: the message behind the IPv4 header at `l3`. Writes: the echo reply in place;
//! `target`, its destination. Next: `ip4-lookup` with a reply; `ip4-punt` with what asks for nothing here. Answers to
//! pings of our own, and errors about them, are told to control.

use super::ping::Event;
use crate::events::EventSender;
use crate::headers::transport_checksum;
use crate::ip4::{SharedPunts, Unclaimed};
use graph::{Context, CounterSpec, Map, NodeSpec, Row, Severity, Snapshot, Vector, flag, time};
use std::fmt;
use wire::checksum;
use wire::icmpv4::{self, Message, Type};
use wire::ipv4::Protocol;
use wire::{batch::check, ipv4};

graph::edges! {
    pub enum Edge {
        Lookup => next "ip4-lookup",
        Unclaimed => next "ip4-punt",
        /// Less than the 8 bytes of an ICMP header (RFC 792). A broken or hostile sender.
        Truncated => drop "ICMP message shorter than its header",
        /// The message does not add up (RFC 792): damaged on the way, or the sender leaves checksums to a NIC that does
        /// none.
        BadChecksum => drop "bad ICMP checksum",
        /// An answer to a `ping` of this router's, or an error about one. Normal.
        Answer => end "ICMP answers to our requests",
        /// Control has more to do than it can, so `ping` was not told of this answer. Under a flood only.
        ControlBusy => drop "control is busy, answer not told",
        /// An error of ours, or a packet with our address as its source, came back: a loop, a bridge that reflects, or
        /// a sender that uses our address.
        Own => drop "packet of ours came back to us",
        /// A ping to a broadcast or multicast address: not answered, lest many answer one question (RFC 1122 3.2.2.6).
        Group => end "ICMP echo to a group address ignored",
    }
}

const COUNTERS: &[CounterSpec] =
    &[CounterSpec("echo replies sent", Severity::Info, "A ping of this router was answered (RFC 792). Normal.")];

/// Hops that our own packets may take (RFC 1700's default).
pub const OUR_TTL: u8 = 64;

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-icmp-input".into(), edges: Edge::EDGES, counters: COUNTERS, trace }
}

pub struct EchoInput {
    events: EventSender,
    punts: SharedPunts,
    /// Identifiers of pings that run, with the answers that each may still have.
    expected: Vec<(u16, u32)>,
}

impl EchoInput {
    pub(crate) fn new(events: EventSender, punts: SharedPunts) -> EchoInput {
        EchoInput { events, punts, expected: Vec::new() }
    }

    /// Control: tell of so many more answers to this identifier.
    pub fn expect(&mut self, identifier: u16, answers: u32) {
        match self.expected.iter_mut().find(|(known, _)| *known == identifier) {
            Some((_, left)) => *left = left.saturating_add(answers),
            None => self.expected.push((identifier, answers)),
        }
    }

    /// Control: this ping is over.
    pub fn forget(&mut self, identifier: u16) {
        self.expected.retain(|(known, _)| *known != identifier);
    }

    /// Tells control of an answer, when it is to a ping of ours that may have one more.
    #[cold]
    fn tell(&mut self, cx: &Context<'_>, row: &Row, start: usize) -> Option<Edge> {
        let event = answer(cx, row, start)?;
        let (Event::Sent { identifier, .. } | Event::Reply { identifier, .. } | Event::Refused { identifier, .. }) =
            event;
        let (_, left) = self.expected.iter_mut().find(|(known, left)| *known == identifier && *left > 0)?;
        *left -= 1;
        let told = self.events.try_send(event.into());
        Some(if told.is_ok() { Edge::Answer } else { Edge::ControlBusy })
    }

    fn one(&mut self, cx: &mut Context<'_>, row: &mut Row) -> Edge {
        let l3 = row.l3 as usize;
        let header_length = ipv4::Header::new_unchecked(&cx.buffers.bytes(row.packet)[l3..]).header_len();
        let start = l3 + header_length;
        if row.l3_length() < header_length + icmpv4::HEADER_LEN {
            return Edge::Truncated;
        }
        // A host behind the same machine may leave the checksum to its device.
        if row.flags & flag::PARTIAL_CHECKSUM == 0
            && transport_checksum(cx, row, start, row.l3_length() - header_length, 0) != 0
        {
            return Edge::BadChecksum;
        }
        if Type(cx.buffers.bytes(row.packet)[start]) == Type::ECHO_REQUEST {
            return reply(cx, row, start);
        }
        let told = if self.expected.is_empty() { None } else { self.tell(cx, row, start) };
        if let Some(told) = told {
            return told;
        }
        let is_ours = row.flags & flag::ORIGINATED != 0;
        // What the host sends under an address of ours is told of to that address.
        if is_ours && self.punts.load(cx.round).back_by(row.rx_interface).is_none() {
            return Edge::Own;
        }
        row.scratch = if is_ours { Unclaimed::Error } else { Unclaimed::Message }.into();
        Edge::Unclaimed
    }
}

impl Map for EchoInput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        vector.each_row(|row| self.one(cx, row));
    }
}

/// The answer that a message is to an echo request of somebody's: its reply, or an error that
/// quotes it.
fn answer(cx: &Context<'_>, row: &Row, start: usize) -> Option<Event> {
    let bytes = &cx.buffers.bytes(row.packet)[..];
    let end = (row.l2 as usize + row.first_length(cx.buffers)).min(bytes.len());
    let outer = ipv4::Header::new_unchecked(&bytes[row.l3 as usize..]);
    let message = icmpv4::Header::new_checked(bytes.get(start..end)?).ok()?;
    let from = outer.src();
    match message.message() {
        Message::EchoReply { identifier, sequence } => {
            let (ttl, bytes) = (outer.ttl(), outer.total_len());
            Some(Event::Reply { identifier, sequence, ticks: time::ticks(), from, ttl, bytes })
        }
        _ if message.kind().is_error() => {
            let quote = message.payload();
            let header = ipv4::HEADER_LEN.max((*quote.first()? & 0xf) as usize * 4);
            let inner = ipv4::Header::new_unchecked(quote.get(..header)?);
            if inner.version() != 4 || inner.protocol() != Protocol::ICMP || inner.fragment_offset() != 0 {
                return None;
            }
            let request = icmpv4::Header::new_checked(&quote[header..]).ok()?;
            let Message::EchoRequest { identifier, sequence } = request.message() else { return None };
            let (to, kind, code) = (inner.dst(), message.kind(), message.code());
            Some(Event::Refused { identifier, sequence, from, to, kind, code })
        }
        _ => None,
    }
}

/// Turns a request into its reply.
fn reply(cx: &mut Context<'_>, row: &mut Row, start: usize) -> Edge {
    let l3 = row.l3 as usize;
    if row.flags & check::GROUP != 0 {
        return Edge::Group; // RFC 1122 3.2.2.6 lets us
    }
    let bytes = cx.buffers.bytes_mut(row.packet);
    // The type changes from 8 to 0 and nothing else (RFC 1624).
    bytes[start] = Type::ECHO_REPLY.0;
    if row.flags & flag::PARTIAL_CHECKSUM == 0 {
        let old = u16::from_be_bytes([bytes[start + 2], bytes[start + 3]]);
        let code = bytes[start + 1] as u16;
        let new = checksum::update16(old, u16::from(Type::ECHO_REQUEST.0) << 8 | code, code);
        bytes[start + 2..start + 4].copy_from_slice(&new.to_be_bytes());
    }
    let mut header = ipv4::Header::new_unchecked(&mut bytes[l3..]);
    let (asker, us) = (header.src(), header.dst());
    header.set_src(us);
    header.set_dst(asker);
    header.set_ttl(OUR_TTL);
    // Whole by now, and ours: it may be cut on its way back.
    header.set_fragment(false, false, 0);
    header.fill_checksum();
    row.target = asker.into();
    row.flags = (row.flags | flag::ORIGINATED) & !(check::TTL | check::GROUP | flag::TABLES);
    cx.count(0, 1);
    Edge::Lookup
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    crate::headers::trace_ip4(snapshot, f)
}
