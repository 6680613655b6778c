//! `ip4-ping`, `ip6-ping`: echo requests that control asks for.
//!
//! Writes: the whole packet, in as many buffers as it needs; `target`, its destination. Next: `ip4-lookup` or
//! `ip6-lookup`: a request takes the way that the routing table gives it; or `ip6-glean` (`ip6-local`) when the host
//! (the router) was named by an address of its link only.

use super::Event;
use crate::ip6::reply_path::{ReplyPath, choose as choose_reply_path};
use graph::Lazy;
use graph::buffer::{DATA_SIZE, HEADROOM};
use graph::{
    Behaviour, CounterSpec, EdgeIndex, Expand, Expansion, Graph, GraphError, InterfaceIndex, NodeIndex, NodeSpec,
    PacketIndex, Row, Severity, Vector, flag, time,
};
use router::events::EventSender;
use router::headers;
use router::interface::SharedViews;
use router::ip::control::TableIndex;
use router::table_index::mark_of;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use wire::batch::check;
use wire::ipv4::{self, Protocol};
use wire::{Family, icmpv4, icmpv6, ipv6};

graph::edges! {
    pub enum Edge {
        Lookup => next "ip4-lookup",
    }
}

/// Those of `ip6-ping`.
mod edge6 {
    graph::edges! {
        pub enum Edge {
            Lookup => next "ip6-lookup",
            OnLink => next "ip6-glean",
            Local => next "ip6-local",
            /// `ping` was to reach a link-local address through an interface that no longer takes part in IPv6 or was
            /// deleted.
            BeyondLink => note "echo request has no link to go onto",
        }
    }
}

const COUNTERS: &[CounterSpec] = &[
    CounterSpec("echo requests sent", Severity::Info, "Echo requests that the `ping` command sent."),
    CounterSpec(
        "no free buffer",
        Severity::Error,
        "All packet buffers are in use (`show buffers`). Increase `buffers-per-numa` in startup.conf.",
    ),
    CounterSpec(
        "control is busy, not sent",
        Severity::Error,
        "The control thread is overloaded, so an echo request of the `ping` command was not sent.",
    ),
];
const SENT: usize = 0;
const NO_BUFFER: usize = 1;
const BUSY: usize = 2;

/// Bytes ahead of the data.
pub(super) const fn headers_of(family: Family) -> usize {
    match family {
        Family::Ip4 => ipv4::HEADER_LEN + icmpv4::HEADER_LEN,
        Family::Ip6 => ipv6::HEADER_LEN + icmpv6::HEADER_LEN,
    }
}

/// An echo request to be made. Source and destination are of one family.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Request {
    /// The interface onto whose link it goes; number 0 where routes say the way.
    pub rx: InterfaceIndex,
    /// The table in which it is looked up then.
    pub table: TableIndex,
    pub identifier: u16,
    pub sequence: u16,
    pub source: IpAddr,
    pub destination: IpAddr,
    /// Bytes of data.
    pub size: u16,
    pub ttl: u8,
    /// Of IPv4.
    pub dont_fragment: bool,
}

impl Request {
    /// The packet from the IP header on.
    fn bytes(&self, id: u16) -> Vec<u8> {
        let headers = headers_of(Family::of(self.destination));
        let mut packet = vec![0; headers + usize::from(self.size)];
        packet[headers..].iter_mut().enumerate().for_each(|(n, byte)| *byte = n as u8);
        match (self.source, self.destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => self.emit4(&mut packet, source, destination, id),
            (IpAddr::V6(source), IpAddr::V6(destination)) => self.emit6(&mut packet, source, destination),
            _ => unreachable!("the source was chosen for the destination"),
        }
        packet
    }

    fn emit4(&self, packet: &mut [u8], src: Ipv4Addr, dst: Ipv4Addr, id: u16) {
        let Request { identifier, sequence, ttl, dont_fragment, .. } = *self;
        let (header, message) = packet.split_at_mut(ipv4::HEADER_LEN);
        icmpv4::Message::EchoRequest { identifier, sequence }.emit(message);
        icmpv4::Header::new_checked(&mut *message).expect("longer than its header").fill_checksum();
        ipv4::Repr {
            src,
            dst,
            protocol: Protocol::ICMP,
            ttl,
            dscp: 0,
            ecn: 0,
            id,
            dont_fragment,
            more_fragments: false,
            fragment_offset: 0,
            payload_len: message.len() as u16,
        }
        .emit(header);
    }

    fn emit6(&self, packet: &mut [u8], src: Ipv6Addr, dst: Ipv6Addr) {
        let Request { identifier, sequence, ttl, .. } = *self;
        let (header, message) = packet.split_at_mut(ipv6::HEADER_LEN);
        icmpv6::Message::EchoRequest { identifier, sequence }.emit(message);
        icmpv6::Header::new_checked(&mut *message).expect("longer than its header").fill_checksum(src, dst);
        ipv6::Repr {
            src,
            dst,
            next_header: Protocol::ICMP6,
            hop_limit: ttl,
            traffic_class: 0,
            flow_label: 0,
            payload_len: message.len() as u16,
        }
        .emit(header);
    }
}

fn spec(family: Family) -> NodeSpec {
    match family {
        Family::Ip4 => {
            NodeSpec { name: "ip4-ping".into(), edges: Edge::EDGES, counters: COUNTERS, trace: headers::trace_ip4 }
        }
        Family::Ip6 => NodeSpec {
            name: "ip6-ping".into(),
            edges: edge6::Edge::EDGES,
            counters: COUNTERS,
            trace: headers::trace_ip6,
        },
    }
}

/// Registers a family's node.
pub(crate) fn register(
    graph: &mut Graph,
    family: Family,
    view: &SharedViews,
    events: &EventSender<Event>,
) -> Result<NodeIndex, GraphError> {
    let (view, events) = (view.clone(), events.clone());
    graph.register(spec(family), move |_| Behaviour::Expand(Box::new(EchoRequests::new(view.clone(), events.clone()))))
}

/// Holds requests between control's call and the node's next turn.
pub(crate) struct EchoRequests {
    view: SharedViews,
    waiting: Vec<Request>,
    events: EventSender<Event>,
    next_id: u16,
}

impl EchoRequests {
    pub fn new(view: SharedViews, events: EventSender<Event>) -> EchoRequests {
        EchoRequests { view, waiting: Vec::new(), events, next_id: 0 }
    }

    /// Control: send this.
    pub fn send(&mut self, request: Request) {
        self.waiting.push(request);
    }

    fn one(&mut self, x: &mut Expansion<'_, '_>, request: Request) {
        self.next_id = self.next_id.wrapping_add(1);
        let bytes = request.bytes(self.next_id);
        let Some(packet) = write(x, &bytes) else { return x.cx.count(NO_BUFFER, 1) };
        let event = Event::Sent { identifier: request.identifier, sequence: request.sequence, ticks: time::ticks() };
        if self.events.try_send(event).is_err() {
            // Without its time nothing can be said of the reply.
            x.cx.buffers.free_chain(packet);
            return x.cx.count(BUSY, 1);
        }
        let chained = if bytes.len() > DATA_SIZE { flag::CHAINED } else { 0 };
        let mut row = Row {
            packet,
            rx_interface: request.rx,
            flags: flag::ORIGINATED | chained,
            l2: HEADROOM as u16,
            l3: HEADROOM as u16,
            length: bytes.len() as u16,
            ..Row::default()
        };
        if request.rx == InterfaceIndex(0) {
            row.set_lazy(Lazy::Table, mark_of(request.table));
        }
        x.cx.count(SENT, 1);
        let to = self.leave(x, &mut row, &request);
        x.originate(row, to);
    }

    fn leave(&self, x: &Expansion<'_, '_>, row: &mut Row, request: &Request) -> EdgeIndex {
        let (IpAddr::V6(from), IpAddr::V6(to)) = (request.source, request.destination) else {
            row.flags |= check::EXAMINED;
            if let IpAddr::V4(to) = request.destination {
                row.target = to.into();
            }
            return Edge::Lookup.into();
        };
        row.flags |= check::EXAMINED6;
        let view = self.view.load(x.cx.round).get(request.rx);
        let to = match choose_reply_path(row, request.rx, view.map(|view| &view.ip6), from, to) {
            ReplyPath::Routes => edge6::Edge::Lookup,
            ReplyPath::Link => edge6::Edge::OnLink,
            ReplyPath::Here => edge6::Edge::Local,
            ReplyPath::Nowhere => edge6::Edge::BeyondLink,
        };
        to.into()
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
