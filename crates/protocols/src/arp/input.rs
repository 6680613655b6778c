//! `arp-reply`: checks ARP messages, answers requests for our addresses and for those of proxy ARP, and reports changes
//! to the control thread.
//!
//! Reads: the ARP message at `l3`, `rx_interface`. Writes: the reply in place. Next:
//! `interface-output` with a reply; every other message ends here, counted by what it was.
//!
//! Which senders the router learns: a host that asks for one of our addresses, because the router will soon send to it
//! (RFC 826); a host that answers a request of ours; and any neighbour that is known already, so that the router
//! follows a host that changes its Ethernet address. It learns no other sender: unrequested messages would let any host
//! fill the table, or take another host's place before that host is known.

use graph::{
    ArcIndex, Context, CounterSpec, InterfaceIndex, Map, NodeSpec, PerInterface, Row, Severity, Snapshot, Vector, flag,
};
use router::events::EventSender;
use router::interface::{InterfaceView, SharedViews};
use router::ip::Fibs4;
use router::ip::class;
use router::ip::on_link::OnLink;
use router::neighbour;
pub use router::neighbour::learn::{Learner, NotLearned};
use router::neighbour::limit::{Bucket, ByInterface};
use router::neighbour::policy::{Policy, SharedPolicy};
use router::neighbour::table::{Entry, Shared};
use router::neighbour::{Evidence, NeighbourKey};
use router::reply::marks::ANSWERED;
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;
use tables::object::MAX_BUCKETS;
use tables::{Leaf, Lookup4, ObjectHandle};
use wire::arp::{self, Arp, Operation, ParseError};
use wire::ethernet::EtherType;
use wire::vlan::LinkHeader;

graph::edges! {
    pub enum Edge {
        Reply => next "interface-output",
        /// A neighbour answered a request of this router, or a known neighbour sent a reply. The router accepted the
        /// reply (RFC 826).
        RepliesReceived => end "ARP replies received",
        /// A host announced its address to all hosts (RFC 5227 2.3). The router accepted the announcement, because it
        /// knows the host, or because `set arp accept enable` is set.
        Gratuitous => end "ARP announcements",
        /// A host on the same link asked for another host. Normal, because requests are broadcast.
        NotForUs => end "ARP request for another address",
        /// A host that this router does not know announced its address. The router does not learn it, so that no host
        /// can fill the neighbour table with invented addresses. `set arp accept enable` makes the router learn such
        /// hosts.
        UnknownAnnounced => end "ARP probe or announcement dropped",
        /// The message is shorter than the 28 bytes of RFC 826. The sender, or a device that forwards its frames, is
        /// broken. Check the sender.
        Truncated => warn "ARP message truncated",
        /// The hardware type is not 1 (RFC 826). The message is for another kind of network than Ethernet.
        NotEthernet => warn "L2 type not ethernet",
        /// The protocol type is not 0x0800, the type of IPv4 (RFC 826).
        NotIp4 => warn "L3 type not IP4",
        /// The address lengths are not 6 and 4, the lengths of Ethernet and IPv4 addresses (RFC 826). Check the
        /// sender.
        Lengths => warn "ARP address lengths not 6 and 4",
        /// The operation is neither request nor reply (RFC 826). It may belong to RARP or InARP.
        UnknownOperation => warn "ARP opcode not request",
        /// An ARP message arrived on an interface without an IPv4 address. Give the interface an address, or ignore
        /// this counter.
        NoAddress => note "Interface is not IP enabled",
        /// The sender's IPv4 address is in no network of this interface, and no route leads to it through this
        /// interface. Two networks share the link, or the prefix at the other end is wrong: compare the prefixes at
        /// both ends. On an unnumbered link, or one with a /32, add a route to the host:
        /// `ip route add ADDRESS/32 via INTERFACE`.
        ForeignSender => warn "IP4 source address not local to subnet",
        /// The requested IPv4 address is in no network of this interface. Two networks share the link, or a host has
        /// a wrong prefix. To have the router answer for such addresses, configure proxy ARP.
        ForeignTarget => note "IP4 destination address not local to subnet",
        /// The sender's IPv4 address cannot belong to a host. It is the first or last address of its network, a group
        /// address, or 0.0.0.0 in a reply (RFC 1812 5.3.7).
        NoHost => warn "ARP sender address is no host's",
        /// The sender's Ethernet address is zero or a group address (RFC 1812 3.3.2), so no frame can be sent to it.
        /// The message is forged, or the sender is broken.
        GroupSender => warn "ARP sender is a group address",
        /// The source address of the Ethernet frame differs from the sender address in the message. The message is
        /// forged, or a bridge rewrites addresses. The virtual addresses of VRRP (RFC 5798 7.3) are exempt.
        Mismatch => warn "ARP hw addr does not match L2 frame src addr",
        /// Another station claims an address of this router: two hosts have the same address (RFC 5227 2.4).
        /// `show arp conflicts` lists the station. Change the address of one of them.
        OurAddress => drop "IP4 source address matches local interface",
        /// A message that this router sent came back. There is a loop on the link, or a hub that echoes frames.
        CameBack => warn "ARP message of ours came back",
        /// A host that this router does not know sent a reply that the router did not request. It may be an attempt
        /// to poison the neighbour table.
        NotAskedFor => warn "ARP reply not asked for",
        /// A reply for another host was sent to this router or broadcast.
        ReplyElsewhere => warn "ARP reply to another address",
        /// The sender is a static neighbour of this router, but with another Ethernet address. The router keeps the
        /// operator's entry. Correct that entry, or find the station that claims the address.
        ContradictsStatic => drop "ARP contradicts a static neighbour",
        /// More requests arrived on one interface than `set arp rate replies` allows per second. The senders ask
        /// again.
        RepliesLimited => warn "ARP replies limited by rate",
        /// More new or changed neighbours appeared on one interface than `set arp rate learning` allows per second.
        /// The cause is a flood or a very large network.
        LearningLimited => warn "ARP learning limited by rate",
        /// The control thread is overloaded, so the router did not learn the sender's address. The router learns it
        /// when it asks again.
        ControlBusy => drop "control is busy, not learned",
        /// The host that this interface leads to answers the request (`lcp create`). The router only learned from it.
        HostAnswers => end "ARP request that the host answers",
    }
}

mod begin {
    graph::edges! {
        pub enum Edge {
            Message => next "arp-reply",
            Features => arc "arp",
        }
    }
}

/// The arc of ARP messages.
pub const ARC: &str = "arp";
/// The node that begins it.
pub const BEGIN: &str = "arp-input";
/// The node in which it ends.
pub const NODE: &str = "arp-reply";

/// `arp-input`: where ARP messages come in. It begins the arc `arp`.
///
/// Reads: `rx_interface`. Writes: nothing. Next: along the arc; `arp-reply`.
pub struct Begin {
    pub arc: ArcIndex,
}

pub fn begin_spec() -> NodeSpec {
    NodeSpec { name: BEGIN.into(), edges: begin::Edge::EDGES, counters: &[], trace }
}

impl Map for Begin {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            vector.send(i, cx.chain(self.arc, vector.rx_interfaces()[i]), begin::Edge::Message.into());
        }
    }
}

const COUNTERS: &[CounterSpec] = &[
    CounterSpec(
        "ARP replies sent",
        Severity::Info,
        "A station asked for an address of this router, and the router answered (RFC 826). Normal.",
    ),
    CounterSpec(
        "Proxy ARP replies sent",
        Severity::Info,
        "A station asked for an address that is routed elsewhere, and the router answered in its place (RFC 1027), \
         as `set arp proxy` says.",
    ),
    CounterSpec(
        "ARP request IP4 source address learned",
        Severity::Info,
        "The router answered a request and learned its sender as a neighbour (RFC 826). Normal.",
    ),
    CounterSpec(
        "asker answered, not learned",
        Severity::Warning,
        "The router answered a request, but did not learn its sender. The rate limit of learning is reached \
         (`set arp rate`), the control thread is overloaded, or the sender is a static neighbour with another MAC \
         address.",
    ),
];
const REPLIES: usize = 0;
const PROXY_REPLIES: usize = 1;
const ASKERS_LEARNED: usize = 2;
const ASKERS_NOT_LEARNED: usize = 3;

/// Conflicts per second that a worker reports to the control thread.
const CONFLICTS_TOLD: u32 = 10;
/// Virtual routers' Ethernet addresses (RFC 5798 7.3), without the last byte.
const VRRP: [u8; 5] = [0x00, 0x00, 0x5e, 0x00, 0x01];

pub fn spec() -> NodeSpec {
    NodeSpec { name: NODE.into(), edges: Edge::EDGES, counters: COUNTERS, trace }
}

/// The tables that the node reads.
#[derive(Clone)]
pub struct Tables {
    pub view: SharedViews,
    pub neighbours: Arc<Shared>,
    pub policy: SharedPolicy,
    pub fibs: Fibs4,
    pub objects: ObjectHandle,
    /// For hosts on the link that only routes lead to.
    pub routes: OnLink<Lookup4>,
    /// The interfaces on which the router answers for others.
    pub proxies: PerInterface<()>,
}

pub struct ArpInput {
    tables: Arc<Tables>,
    learner: Learner,
    replies: ByInterface<Bucket>,
    conflicts: Bucket,
}

impl ArpInput {
    pub fn new(tables: Tables, events: EventSender<neighbour::Event>) -> ArpInput {
        let (learner, replies) = (Learner::new(events), ByInterface::default());
        ArpInput { tables: Arc::new(tables), learner, replies, conflicts: Bucket::default() }
    }

    fn one(&mut self, cx: &mut Context<'_>, tables: &Tables, row: &mut Row) -> Edge {
        let view = tables.view.load(cx.round).get(row.rx_interface);
        let Some(view) = view.filter(|view| !view.addresses.is_empty()) else { return Edge::NoAddress };
        let arp = match read(cx, row) {
            Ok(arp) => arp,
            Err(fault) => return fault,
        };
        if view.owns(arp.sender_ip) {
            return self.claims_ours(cx, view, &arp);
        }
        let policy = tables.policy.load(cx.round);
        // A probe (RFC 5227 2.1) has no sender address: it is answered, nothing is learned.
        if arp.sender_ip.is_unspecified() {
            return match arp.operation {
                Operation::Request if view.owns(arp.target_ip) => self.answer(cx, row, view, policy, &arp, REPLIES),
                Operation::Request => Edge::NotForUs,
                _ => Edge::NoHost,
            };
        }
        if !view.is_attached(arp.sender_ip) && !tables.routes.is(cx.round, view.index, arp.sender_ip.into()) {
            return Edge::ForeignSender;
        }
        if view.is_no_host(arp.sender_ip) {
            return Edge::NoHost;
        }
        let key = NeighbourKey::new(view.index, arp.sender_ip);
        let entry = tables.neighbours.get(cx.round, &key);
        match arp.operation {
            Operation::Request if view.owns(arp.target_ip) => {
                self.answer_and_learn(cx, row, view, policy, &arp, entry, REPLIES)
            }
            _ if arp.sender_ip == arp.target_ip => {
                match self.learn(cx, view, policy, &arp, entry, policy.accepts_unknown) {
                    Ok(()) => Edge::Gratuitous,
                    Err(Edge::NotAskedFor) => Edge::UnknownAnnounced,
                    Err(edge) => edge,
                }
            }
            Operation::Reply if view.owns(arp.target_ip) => match self.learn(cx, view, policy, &arp, entry, false) {
                Ok(()) => Edge::RepliesReceived,
                Err(edge) => edge,
            },
            Operation::Reply => Edge::ReplyElsewhere,
            _ if tables.proxies.get(cx.round, view.index).is_some()
                && self.stands_for(cx, view, policy, arp.target_ip) =>
            {
                self.answer_and_learn(cx, row, view, policy, &arp, entry, PROXY_REPLIES)
            }
            _ => {
                // RFC 826: a known neighbour is updated, whatever address it asks for.
                if entry.is_some_and(|entry| entry.word().mac().is_some()) {
                    let _ = self.learn(cx, view, policy, &arp, entry, false);
                }
                if view.is_attached(arp.target_ip) || tables.routes.is(cx.round, view.index, arp.target_ip.into()) {
                    Edge::NotForUs
                } else {
                    Edge::ForeignTarget
                }
            }
        }
    }

    /// Another station claims one of our addresses.
    fn claims_ours(&mut self, cx: &Context<'_>, view: &InterfaceView, arp: &Arp) -> Edge {
        if arp.sender_mac == view.mac {
            return Edge::CameBack;
        }
        if self.conflicts.take(cx.now, CONFLICTS_TOLD) {
            let key = NeighbourKey::new(view.index, arp.sender_ip);
            self.learner.tell_conflict(key, arp.sender_mac);
        }
        Edge::OurAddress
    }

    /// Learns the sender's addresses, or returns why not. With `create` also when the sender is unknown and was not
    /// asked.
    fn learn(
        &mut self,
        cx: &Context<'_>,
        view: &InterfaceView,
        policy: &Policy,
        arp: &Arp,
        entry: Option<Entry<'_>>,
        create: bool,
    ) -> Result<(), Edge> {
        let said = (NeighbourKey::new(view.index, arp.sender_ip), arp.sender_mac);
        self.learner.learn(cx, said, Evidence::Reachable, entry, create, policy.rates.ip4.learning).map_err(|why| {
            match why {
                NotLearned::ContradictsStatic => Edge::ContradictsStatic,
                NotLearned::NotAskedFor => Edge::NotAskedFor,
                NotLearned::Limited => Edge::LearningLimited,
                NotLearned::ControlBusy => Edge::ControlBusy,
            }
        })
    }

    #[allow(clippy::too_many_arguments)]
    fn answer_and_learn(
        &mut self,
        cx: &mut Context<'_>,
        row: &mut Row,
        view: &InterfaceView,
        policy: &Policy,
        arp: &Arp,
        entry: Option<Entry<'_>>,
        counter: usize,
    ) -> Edge {
        let is_news = entry.is_none_or(|entry| entry.word().mac() != Some(arp.sender_mac));
        let answered = self.answer(cx, row, view, policy, arp, counter);
        if !matches!(answered, Edge::Reply | Edge::HostAnswers) {
            return answered;
        }
        // RFC 826: the router will soon send to a host that asks for its address.
        match self.learn(cx, view, policy, arp, entry, true) {
            Ok(()) if is_news => cx.count(ASKERS_LEARNED, 1),
            Ok(()) => {}
            Err(_) => cx.count(ASKERS_NOT_LEARNED, 1),
        }
        answered
    }

    /// Turns a request into our reply.
    fn answer(
        &mut self,
        cx: &mut Context<'_>,
        row: &mut Row,
        view: &InterfaceView,
        policy: &Policy,
        arp: &Arp,
        counter: usize,
    ) -> Edge {
        if row.flags & ANSWERED != 0 && counter != PROXY_REPLIES {
            return Edge::HostAnswers;
        }
        if !self.replies.of(view.index).take(cx.now, policy.rates.ip4.replies) {
            return Edge::RepliesLimited;
        }
        let reply = Arp {
            operation: Operation::Reply,
            sender_mac: view.mac,
            sender_ip: arp.target_ip,
            target_mac: arp.sender_mac,
            target_ip: arp.sender_ip,
        };
        write_frame(cx, row, &view.link_header(arp.sender_mac, EtherType::ARP), &reply);
        row.set_tx_interface(view.index);
        cx.count(counter, 1);
        Edge::Reply
    }

    /// RFC 1027: whether the router answers for another host's address. It does so only when the way to that host leads
    /// through the router and not back to the link that the request came from.
    fn stands_for(&self, cx: &Context<'_>, view: &InterfaceView, policy: &Policy, wanted: Ipv4Addr) -> bool {
        policy.is_proxied(wanted) && {
            let leaf = self.tables.fibs.lookup(cx.round, view.ip4_table, wanted.into());
            self.leads_elsewhere(cx, leaf, view.index)
        }
    }

    fn leads_elsewhere(&self, cx: &Context<'_>, leaf: Leaf, asked_on: InterfaceIndex) -> bool {
        match leaf.class() {
            class::RECEIVE => true,
            class::GLEAN => self.tables.objects.get(cx.round, leaf.index()).interface() != asked_on.0,
            class::MIDCHAIN => self.tables.objects.get(cx.round, leaf.index()).interface() != asked_on.0,
            class::ADJACENCY => {
                // An adjacency without a next hop is a loopback's, and no host is behind that. An address that another
                // interface uses has its network there.
                let adjacency = self.tables.objects.get(cx.round, leaf.index());
                adjacency.interface() != asked_on.0 && !adjacency.next_hop().is_unspecified()
            }
            class::LOAD_BALANCE => {
                let balance = self.tables.objects.get(cx.round, leaf.index());
                (0..MAX_BUCKETS as u32).all(|hash| {
                    let member = balance.bucket(hash);
                    member.class() != class::LOAD_BALANCE && self.leads_elsewhere(cx, member, asked_on)
                })
            }
            // No route, or one that discards: the asker must not believe that the host can be reached.
            _ => false,
        }
    }
}

/// The message, or what is wrong with it; checks that do not depend on the sender.
fn read(cx: &Context<'_>, row: &Row) -> Result<Arp, Edge> {
    let (l2, l3) = (row.l2 as usize, row.l3 as usize);
    let length = row.l3_length().min(graph::buffer::STRIDE - l3);
    let bytes = cx.buffers.bytes(row.packet);
    let arp = Arp::parse(&bytes[l3..l3 + length]).map_err(|error| match error {
        ParseError::Truncated { .. } => Edge::Truncated,
        ParseError::HardwareType(_) => Edge::NotEthernet,
        ParseError::ProtocolType(_) => Edge::NotIp4,
        ParseError::HardwareLength(_) | ParseError::ProtocolLength(_) => Edge::Lengths,
    })?;
    if let Operation::Other(_) = arp.operation {
        return Err(Edge::UnknownOperation);
    }
    if arp.sender_mac.is_multicast() || arp.sender_mac.is_zero() {
        return Err(Edge::GroupSender);
    }
    let of_virtual_router = arp.operation == Operation::Reply && arp.sender_mac.0[..5] == VRRP;
    if bytes[l2 + 6..l2 + 12] != arp.sender_mac.0 && !of_virtual_router {
        return Err(Edge::Mismatch);
    }
    Ok(arp)
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
        let tables = self.tables.clone();
        for i in 0..vector.len() {
            let mut row = vector.row(i);
            // ARP is never longer than one buffer, so a chain cannot be a valid message.
            let to = if row.flags & flag::CHAINED != 0 { Edge::Truncated } else { self.one(cx, &tables, &mut row) };
            vector.set_row(i, row);
            vector.set_edge(i, to.into());
        }
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "{}", wire::pretty::Summary::arp(snapshot.l3()).indented(2))
}
