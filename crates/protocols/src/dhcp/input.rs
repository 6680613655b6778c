//! `ip4-dhcp-client`: what DHCP servers say to clients, UDP port 68.
//!
//! Reads: the datagram behind the UDP header, whose place is in scratch. Tells control what is for a client
//! of ours, at most [`MAX_ANSWERS`] messages for each that the client sent. Next: `ip4-punt`, for a client of the
//! host's, when the interface has none of ours.

use super::{Event, MAX_TEXT};
use crate::local::datagram_at;
use graph::{Context, InterfaceIndex, Map, NodeSpec, PerInterface, Row, Scratch, Vector};
use router::events::EventSender;
pub use router::reply::unclaimed::Unclaimed;
use wire::MacAddress;
use wire::dhcp::{self, Message};
use wire::{ethernet, udp};

pub(super) const NAME: &str = "ip4-dhcp-client";

/// Answers to one message of a client that reach control: those of several servers, and no flood.
const MAX_ANSWERS: u32 = 16;
const PLACES: usize = 16;

graph::edges! {
    pub enum Edge {
        Punt => next "ip4-punt",
        /// A DHCP server answered a DHCP client of this router (`show dhcp client`).
        Taken => end "DHCP messages for our clients",
        /// A DHCP message for another client of the network, or a late answer: its transaction is not the current one
        /// of this router's client (RFC 2131 4.1). Servers broadcast to clients that have no address, so this is
        /// normal.
        Other => end "DHCP message for another client",
        /// A message to the port of DHCP clients is not valid DHCP over Ethernet. It is truncated, has no cookie or
        /// message type, or has an option of a wrong length (RFC 2131 section 2, RFC 2132). The server is at fault.
        Malformed => warn "malformed DHCP message",
        /// More answers arrived to one message of a client than any number of legitimate servers would send. This is
        /// a flood. Find the sender with `pcap trace drop`.
        Flood => warn "too many DHCP answers",
        /// The control thread is overloaded, so a DHCP answer did not reach it. The client asks again. Find out what
        /// keeps the control thread busy (`show errors`, `show logging`).
        ControlBusy => drop "control is busy, DHCP answer not told",
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: NAME.into(), edges: Edge::EDGES, counters: &[], trace: router::headers::trace_ip4 }
}

/// A client, as workers know it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    pub interface: InterfaceIndex,
    /// Of the message that it sent last; `None`: it waits for nothing.
    pub transaction: Option<u32>,
    pub mac: MacAddress,
    /// How many messages were sent in all: each may be answered.
    pub sent: u64,
}

pub struct DhcpInput {
    clients: PerInterface<Expected>,
    events: EventSender<Event>,
    /// For which message of which client answers are counted, and how many there were, by interface; of
    /// clients that share a place each begins to count anew.
    told: [(InterfaceIndex, u64, u32); PLACES],
}

impl DhcpInput {
    pub(crate) fn new(clients: PerInterface<Expected>, events: EventSender<Event>) -> DhcpInput {
        DhcpInput { clients, events, told: [Default::default(); PLACES] }
    }

    fn one(&mut self, cx: &mut Context<'_>, row: &mut Row) -> Edge {
        let Some(client) = self.clients.get(cx.round, row.rx_interface) else {
            row.scratch = Scratch::of(Unclaimed::Port);
            return Edge::Punt;
        };
        let client = *client;
        let Some(event) = read(cx, row) else { return Edge::Malformed };
        let Ok((event, mac)) = event else { return Edge::Other };
        if Some(event.transaction) != client.transaction || mac != client.mac {
            return Edge::Other;
        }
        if !self.may_tell(&client) {
            return Edge::Flood;
        }
        if self.events.try_send(event).is_ok() { Edge::Taken } else { Edge::ControlBusy }
    }

    fn may_tell(&mut self, client: &Expected) -> bool {
        let (interface, sent, told) = &mut self.told[client.interface.0 as usize % PLACES];
        if (*interface, *sent) != (client.interface, client.sent) {
            (*interface, *sent, *told) = (client.interface, client.sent, 0);
        }
        *told = told.saturating_add(1);
        *told <= MAX_ANSWERS
    }
}

impl Map for DhcpInput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        vector.each_row(|row| self.one(cx, row));
    }
}

/// What a message says, and for whom; `Err(())` when it is of another client; `None` when it is malformed.
fn read(cx: &Context<'_>, row: &Row) -> Option<Result<(Event, MacAddress), ()>> {
    let bytes = &cx.buffers.bytes(row.packet)[..];
    let start = datagram_at(row);
    let here = (row.l2 as usize + row.first_length(cx.buffers)).min(bytes.len());
    // One that is longer than a buffer is none that we said we take.
    let datagram = udp::Header::new_checked(bytes.get(start..here)?).ok()?;
    // A long list of addresses comes in parts (RFC 3396).
    let joined = dhcp::join(datagram.payload());
    let message = Message::parse(&joined).ok()?;
    if !message.kind.is_reply() {
        return Some(Err(()));
    }
    // A datagram that was put together has no frame of its own.
    let has_frame = (row.l3 - row.l2) as usize >= ethernet::HEADER_LEN;
    let station = if has_frame {
        ethernet::Header::new_checked(&bytes[row.l2 as usize..]).map_or(MacAddress::BROADCAST, |frame| frame.src())
    } else {
        MacAddress::BROADCAST
    };
    let mut text = [0; MAX_TEXT];
    text.iter_mut().zip(message.message).for_each(|(to, from)| *to = *from);
    let mut name_servers = [None; super::MAX_NAME_SERVERS];
    name_servers.iter_mut().zip(message.name_servers()).for_each(|(to, from)| *to = Some(from));
    let mut routers = [None; super::MAX_ROUTERS];
    routers.iter_mut().zip(message.routers()).for_each(|(to, from)| *to = Some(from));
    let event = Event {
        interface: row.rx_interface,
        transaction: message.transaction,
        kind: message.kind,
        station,
        yours: message.yours,
        server: message.server,
        lease_time: message.lease_time,
        renewal_time: message.renewal_time,
        rebinding_time: message.rebinding_time,
        mask: message.mask,
        routers,
        name_servers,
        text,
    };
    Some(Ok((event, message.mac)))
}
