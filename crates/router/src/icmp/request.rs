//! `ip4-ping`: echo requests that control asks for.
//!
//! Writes: the whole packet, in as many buffers as it needs; `target`, its destination. Next:
//! `ip4-lookup`: a request takes the way that the routing table gives it.

use super::ping;
use crate::events::EventSender;
use graph::buffer::{DATA_SIZE, HEADROOM};
use graph::{
    CounterSpec, Expand, Expansion, InterfaceIndex, NodeSpec, PacketIndex, Row, Severity, Snapshot, Vector, flag, time,
};
use std::fmt;
use std::net::Ipv4Addr;
use wire::batch::check;
use wire::icmpv4::{self, Message};
use wire::ipv4::{self, Protocol, Repr};

graph::edges! {
    pub enum Edge {
        Lookup => next "ip4-lookup",
    }
}

const COUNTERS: &[CounterSpec] = &[
    CounterSpec("echo requests sent", Severity::Info, "Requests that the `ping` command sent."),
    CounterSpec(
        "no free buffer",
        Severity::Error,
        "Packet memory is used up (`show buffers`): more `buffers-per-numa` in startup.conf.",
    ),
    CounterSpec(
        "control is busy, not sent",
        Severity::Error,
        "Control has more to do than it can, so a request of the `ping` command was not sent.",
    ),
];
const SENT: usize = 0;
const NO_BUFFER: usize = 1;
const BUSY: usize = 2;

/// Bytes ahead of the data.
pub const HEADERS: usize = ipv4::HEADER_LEN + icmpv4::HEADER_LEN;

/// An echo request to be made.
#[derive(Debug, Clone, Copy)]
pub struct Request {
    /// As if it came from there: it is looked up in that interface's table.
    pub rx: InterfaceIndex,
    pub identifier: u16,
    pub sequence: u16,
    pub source: Ipv4Addr,
    pub destination: Ipv4Addr,
    /// Bytes of data.
    pub size: u16,
    pub ttl: u8,
    pub dont_fragment: bool,
}

impl Request {
    /// The packet from the IPv4 header on.
    fn bytes(&self, id: u16) -> Vec<u8> {
        let mut packet = vec![0; HEADERS + usize::from(self.size)];
        let (header, message) = packet.split_at_mut(ipv4::HEADER_LEN);
        let kind = Message::EchoRequest { identifier: self.identifier, sequence: self.sequence };
        kind.emit(message);
        let data = &mut message[icmpv4::HEADER_LEN..];
        data.iter_mut().enumerate().for_each(|(n, byte)| *byte = n as u8);
        icmpv4::Header::new_checked(&mut *message).expect("longer than its header").fill_checksum();
        Repr {
            src: self.source,
            dst: self.destination,
            protocol: Protocol::ICMP,
            ttl: self.ttl,
            dscp: 0,
            ecn: 0,
            id,
            dont_fragment: self.dont_fragment,
            more_fragments: false,
            fragment_offset: 0,
            payload_len: message.len() as u16,
        }
        .emit(header);
        packet
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-ping".into(), edges: Edge::EDGES, counters: COUNTERS, trace }
}

/// Holds requests between control's call and the node's next turn.
pub struct EchoRequests {
    waiting: Vec<Request>,
    events: EventSender,
    next_id: u16,
}

impl EchoRequests {
    pub fn new(events: EventSender) -> EchoRequests {
        EchoRequests { waiting: Vec::new(), events, next_id: 0 }
    }

    /// Control: send this.
    pub fn send(&mut self, request: Request) {
        self.waiting.push(request);
    }

    fn one(&mut self, x: &mut Expansion<'_, '_>, request: Request) {
        self.next_id = self.next_id.wrapping_add(1);
        let bytes = request.bytes(self.next_id);
        let Some(packet) = write(x, &bytes) else { return x.cx.count(NO_BUFFER, 1) };
        let event =
            ping::Event::Sent { identifier: request.identifier, sequence: request.sequence, ticks: time::ticks() };
        if self.events.try_send(event.into()).is_err() {
            // Without its time nothing can be said of the reply.
            x.cx.buffers.free_chain(packet);
            return x.cx.count(BUSY, 1);
        }
        let chained = if bytes.len() > DATA_SIZE { flag::CHAINED } else { 0 };
        let row = Row {
            packet,
            rx_interface: request.rx,
            target: request.destination.into(),
            flags: flag::ORIGINATED | check::EXAMINED | chained,
            l2: HEADROOM as u16,
            l3: HEADROOM as u16,
            length: bytes.len() as u16,
            ..Row::default()
        };
        x.cx.count(SENT, 1);
        x.originate(row, Edge::Lookup.into());
    }
}

/// Puts bytes into a chain of buffers; none when there are not enough.
fn write(x: &mut Expansion<'_, '_>, bytes: &[u8]) -> Option<PacketIndex> {
    let buffers = &mut *x.cx.buffers;
    let mut next = None;
    // From the end, so that each buffer knows its next one.
    for part in bytes.chunks(DATA_SIZE).rev() {
        let Some(packet) = buffers.allocate_one() else {
            if let Some(rest) = next {
                buffers.free_chain(rest);
            }
            return None;
        };
        buffers.bytes_mut(packet)[HEADROOM..HEADROOM + part.len()].copy_from_slice(part);
        let segment = buffers.segment_mut(packet);
        (segment.offset, segment.length) = (HEADROOM as u16, part.len() as u16);
        segment.set_next(next);
        next = Some(packet);
    }
    next
}

impl Expand for EchoRequests {
    fn process(&mut self, x: &mut Expansion<'_, '_>, _: &mut Vector) {
        for request in std::mem::take(&mut self.waiting) {
            self.one(x, request);
        }
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    crate::headers::trace_ip4(snapshot, f)
}
