//! `icmp6-multicast-listener`: receives reports of listeners, and queries.
//!
//! Reads: the message, whose offset from `l3` is in scratch. Writes nothing. Next: the end of accepted
//! messages (RFC 3810 section 5).

use super::Event;
use graph::{Context, Map, NodeSpec, Row, Vector, flag};
use router::events::EventSender;
use router::headers::payload_at;
use router::interface::SharedViews;
use router::neighbour::limit::{Bucket, ByInterface};
use wire::ipv4::Protocol;
use wire::ipv6::{self, HEADER_LEN, next_header};
use wire::mld::{HOP_LIMIT, Listening, ParseError};

graph::edges! {
    pub enum Edge {
        /// A router on the link queries for multicast listeners (RFC 3810 5.1). Normal. This router answers within
        /// the time that the query specifies.
        Query => end "multicast listener queries received",
        /// A station reports the multicast groups that it listens to (RFC 3810 5.2). Normal.
        Report => end "multicast listener reports received",
        /// The hop limit is not 1 (RFC 3810 5). An attack from another network, or a broken sender.
        HopLimit => warn "multicast listener message from beyond the link",
        /// The message does not have the router alert option (RFC 3810 5.1.14, 5.2.13). A broken or hostile sender.
        NoAlert => warn "multicast listener message without router alert",
        /// The source is not a link-local address (RFC 3810 5.1.14). Only reports may come from the unspecified
        /// address (::), which stations use until they have an address (RFC 3590). A broken or hostile sender.
        Source => warn "multicast listener message is not of a link-local address",
        /// The message is shorter than its length fields or its type require. A broken or hostile sender.
        Truncated => warn "multicast listener message too short",
        /// A group address in the message is not a multicast address. A broken or hostile sender.
        NoGroup => warn "multicast listener message about no group",
        /// More than 500 queries and reported groups a second arrived on one interface. A flood, or a link with very
        /// many listeners.
        Limited => warn "multicast listener messages limited by rate",
        /// The control thread is overloaded, so the router did not process this message. Stations report their groups
        /// again after the next query.
        ControlBusy => drop "control is busy, not learned",
    }
}

/// Queries and groups that a worker reports to the control thread per second, for each interface.
const TOLD: u32 = 500;

pub fn spec() -> NodeSpec {
    let name = "icmp6-multicast-listener".into();
    NodeSpec { name, edges: Edge::EDGES, counters: &[], trace: router::headers::trace_ip6 }
}

pub struct MldInput {
    view: SharedViews,
    events: EventSender<Event>,
    limits: ByInterface<Bucket>,
}

impl MldInput {
    pub fn new(view: SharedViews, events: EventSender<Event>) -> MldInput {
        MldInput { view, events, limits: ByInterface::default() }
    }

    fn one(&mut self, cx: &Context<'_>, row: &Row) -> Result<Edge, Edge> {
        let (l2, l3) = (row.l2 as usize, row.l3 as usize);
        let bytes = cx.buffers.bytes(row.packet);
        let end = (l2 + row.first_length(cx.buffers)).min(bytes.len());
        let packet = bytes.get(l3..end).filter(|packet| packet.len() >= HEADER_LEN).ok_or(Edge::Truncated)?;
        let header = ipv6::Header::new_unchecked(packet);
        if header.hop_limit() != HOP_LIMIT {
            return Err(Edge::HopLimit);
        }
        let alert = header.next_header() == next_header::HOP_BY_HOP && alerts_routers(&packet[HEADER_LEN..]);
        if !alert {
            return Err(Edge::NoAlert);
        }
        let message = packet.get(payload_at(row)..).unwrap_or_default();
        let message = match Listening::parse(message) {
            Some(Ok(message)) => message,
            Some(Err(ParseError::NoGroup(_))) => return Err(Edge::NoGroup),
            Some(Err(ParseError::Truncated { .. })) | None => return Err(Edge::Truncated),
        };
        let source = header.src();
        let may_be_nobody = !matches!(message, Listening::Query(_));
        if !(source.is_unicast_link_local() || may_be_nobody && source.is_unspecified()) {
            return Err(Edge::Source);
        }
        let interface = row.rx_interface;
        // Our own messages that came back are no news.
        let is_ours = self.view.load(cx.round).get(interface).is_some_and(|view| view.ip6.owns(source));
        if is_ours {
            return Ok(Edge::Report);
        }
        match message {
            Listening::Query(query) => {
                self.tell(cx, interface, Event::Query(interface, source, query))?;
                return Ok(Edge::Query);
            }
            Listening::Report(group) => self.tell(cx, interface, Event::Listens(interface, group))?,
            Listening::Done(group) => self.tell(cx, interface, Event::Leaves(interface, group))?,
            Listening::Records(records) => {
                for record in records {
                    if record.listens() {
                        self.tell(cx, interface, Event::Listens(interface, record.group))?;
                    } else if record.leaves() {
                        self.tell(cx, interface, Event::Leaves(interface, record.group))?;
                    }
                }
            }
        }
        Ok(Edge::Report)
    }

    fn tell(&mut self, cx: &Context<'_>, interface: graph::InterfaceIndex, event: Event) -> Result<(), Edge> {
        if !self.limits.of(interface).take(cx.now, TOLD) {
            return Err(Edge::Limited);
        }
        self.events.try_send(event).map_err(|_| Edge::ControlBusy)
    }
}

/// Whether a hop-by-hop header contains the router alert of MLD (RFC 2711: type 5, two bytes, value 0).
fn alerts_routers(bytes: &[u8]) -> bool {
    let Some(header) = ipv6::extension_header(next_header::HOP_BY_HOP, bytes) else { return false };
    let mut options = &header[2..];
    loop {
        match options {
            [0, rest @ ..] => options = rest,
            [5, 2, 0, 0, ..] => return true,
            [_, length, rest @ ..] if rest.len() >= usize::from(*length) => options = &rest[usize::from(*length)..],
            _ => return false,
        }
    }
}

const _: () = assert!(Protocol::ICMP6.0 == wire::mld::ROUTER_ALERT[0]);

impl Map for MldInput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        vector.each_row(|row| {
            // Reports are no longer than a packet of the link, and drivers keep 2 kB of that in one buffer.
            if row.flags & flag::CHAINED != 0 {
                return Edge::Truncated;
            }
            self.one(cx, row).unwrap_or_else(|fault| fault)
        });
    }
}
