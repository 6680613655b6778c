//! `arp-input`: answers requests for our addresses, reports what is learned.
//!
//! Reads: the ARP message at `l3`, `rx_interface`. Writes: the reply in place. Next:
//! `interface-output` with a reply; every other message ends here, counted by what it was.

use super::{Event, NeighbourKey};
use crate::events::EventSender;
use crate::interface::{Facts, SharedFacts};
use crate::ip4::on_link::OnLink;
use graph::{Context, CounterSpec, Map, NodeSpec, Row, Severity, Snapshot, Vector, flag};
use std::fmt;
use wire::arp::{self, Arp, Operation};
use wire::ethernet::EtherType;
use wire::vlan::LinkHeader;

graph::edges! {
    pub enum Edge {
        Reply => next "interface-output",
        /// A neighbour answered a question of ours (RFC 826); `show ip neighbors` has it now. Normal.
        RepliesReceived => end "ARP replies received",
        /// A station told everybody its address, as at start or when it moved (RFC 5227 3); the table is brought up to
        /// date. Normal.
        Gratuitous => end "ARP announcements",
        /// A station asks for another's address: normal on a wire with several hosts. Many a second are a scan.
        NotForUs => end "ARP request for another address",
        /// Too short, or not about Ethernet and IPv4 addresses (RFC 826). Capture it (`pcap trace drop`) and look at
        /// its sender.
        Malformed => drop "malformed ARP message",
        /// Neither question (1) nor answer (2): reverse ARP or an experiment (RFC 5494). Harmless.
        UnknownOperation => drop "ARP operation not request or reply",
        /// Nothing can be answered or learned on an interface without an address: `set interface ip address`.
        NoAddress => drop "interface has no IPv4 address",
        /// The sender's IPv4 address is in no network of this interface, and no route leads to it there. Two networks
        /// share the wire, or the other end's prefix is wrong: compare prefixes on both ends. On an unnumbered link or
        /// one with a /32 the host takes a route: `ip route add ADDRESS/32 via INTERFACE`.
        ForeignSender => drop "ARP sender is not on an attached network",
        /// The sender says that its MAC address is a group's or zero. No station has such an address (RFC 1812 3.3.2):
        /// a broken or hostile sender.
        GroupSender => drop "ARP sender is a group address",
        /// Another station has an address of this router: change one of them. Its MAC address is in `pcap trace drop`.
        OurAddress => drop "ARP sender claims an address of ours",
        /// Control has more to do than it can, so this answer was not taken; the neighbour will be asked again. Under a
        /// flood of ARP only.
        ControlBusy => drop "control is busy, not learned",
    }
}

const COUNTERS: &[CounterSpec] = &[CounterSpec(
    "ARP replies sent",
    Severity::Info,
    "A station asked for an address of ours and was answered (RFC 826). Normal.",
)];

pub fn spec() -> NodeSpec {
    NodeSpec { name: "arp-input".into(), edges: Edge::EDGES, counters: COUNTERS, trace }
}

pub struct ArpInput {
    facts: SharedFacts,
    /// For hosts on the wire that only routes know.
    routes: OnLink,
    events: EventSender,
}

impl ArpInput {
    pub fn new(facts: SharedFacts, routes: OnLink, events: EventSender) -> ArpInput {
        ArpInput { facts, routes, events }
    }

    fn learn(&self, facts: &Facts, arp: &Arp) -> Result<(), Edge> {
        let key = NeighbourKey { interface: facts.index, address: arp.sender_ip };
        self.events.try_send(Event::Learned(key, arp.sender_mac).into()).map_err(|_| Edge::ControlBusy)
    }

    fn one(&self, cx: &mut Context<'_>, row: &mut Row) -> Edge {
        let Some(facts) = self.facts.load(cx.round).get(row.rx_interface).filter(|facts| !facts.addresses.is_empty())
        else {
            return Edge::NoAddress;
        };
        let l3 = row.l3 as usize;
        let length = row.l3_length().min(graph::buffer::STRIDE - l3);
        let Ok(arp) = Arp::parse(&cx.buffers.bytes(row.packet)[l3..l3 + length]) else { return Edge::Malformed };
        if arp.sender_mac.is_multicast() || arp.sender_mac.is_zero() {
            return Edge::GroupSender;
        }
        if facts.owns(arp.sender_ip) {
            return Edge::OurAddress;
        }
        // A probe (RFC 5227) has no sender address: it is answered, nothing is learned.
        let is_probe = arp.sender_ip.is_unspecified();
        if !is_probe && !facts.is_attached(arp.sender_ip) && !self.routes.is(cx.round, facts.index, arp.sender_ip) {
            return Edge::ForeignSender;
        }
        match arp.operation {
            Operation::Request if facts.owns(arp.target_ip) => {
                // RFC 826: who asks us will soon be talked to.
                if !is_probe && let Err(edge) = self.learn(facts, &arp) {
                    return edge;
                }
                let reply = Arp {
                    operation: Operation::Reply,
                    sender_mac: facts.mac,
                    sender_ip: arp.target_ip,
                    target_mac: arp.sender_mac,
                    target_ip: arp.sender_ip,
                };
                write_frame(cx, row, &facts.link_header(arp.sender_mac, EtherType::ARP), &reply);
                row.scratch = facts.index.0 as u64;
                cx.count(0, 1);
                Edge::Reply
            }
            // A probe may also be for the address 0.0.0.0, which nobody can have.
            Operation::Request | Operation::Reply if is_probe => Edge::NotForUs,
            Operation::Reply if facts.owns(arp.target_ip) => match self.learn(facts, &arp) {
                Ok(()) => Edge::RepliesReceived,
                Err(edge) => edge,
            },
            Operation::Request | Operation::Reply if arp.sender_ip == arp.target_ip => match self.learn(facts, &arp) {
                Ok(()) => Edge::Gratuitous,
                Err(edge) => edge,
            },
            Operation::Request | Operation::Reply => Edge::NotForUs,
            Operation::Other(_) => Edge::UnknownOperation,
        }
    }
}

/// Writes a reply into the request's buffer.
fn write_frame(cx: &mut Context<'_>, row: &mut Row, header: &LinkHeader, reply: &Arp) {
    let l2 = row.l2 as usize;
    let frame = &mut cx.buffers.bytes_mut(row.packet)[l2..l2 + header.len() + arp::LEN];
    let (link, message) = frame.split_at_mut(header.len());
    link.copy_from_slice(header);
    reply.emit(message);
    row.l3 = (l2 + header.len()) as u16;
    row.length = (header.len() + arp::LEN) as u16;
    row.flags |= flag::ORIGINATED;
}

impl Map for ArpInput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let mut row = vector.row(i);
            // ARP is never longer than one buffer; a chain that says so is not ARP.
            let to = if row.flags & flag::CHAINED != 0 { Edge::Malformed } else { self.one(cx, &mut row) };
            vector.set_row(i, row);
            vector.set_edge(i, to.into());
        }
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "{}", wire::pretty::Summary::arp(snapshot.l3()).indented(2))
}
