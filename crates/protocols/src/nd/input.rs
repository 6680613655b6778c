//! `icmp6-neighbor-discovery`: answers solicitations, and reports messages of neighbours to the control thread.
//!
//! Reads: the message, whose offset from `l3` is in scratch, and the frame's addresses. Writes: the answer in
//! place. Next: `interface-output` with an answer, back by the interface from which the solicitation came; or the end
//! of accepted messages (RFC 4861 section 7).

use super::RouterEvent;
use super::dad::{Nonce, Standing};
use graph::{Context, CounterSpec, Map, NodeSpec, Row, Scratch, Severity, Snapshot, Vector, flag};
use router::events::EventSender;
use router::headers::payload_at;
use router::interface::{InterfaceView, SharedViews};
use router::ip::REASSEMBLED;
use router::ip::on_link::OnLink;
use router::neighbour;
pub use router::neighbour::learn::{Learner, NotLearned};
use router::neighbour::limit::{Bucket, ByInterface};
use router::neighbour::policy::{Policy, SharedPolicy};
use router::neighbour::table::{Entry, Shared};
use router::neighbour::{Evidence, NeighbourKey};
use router::reply::marks::ANSWERED;
use std::fmt;
use std::net::Ipv6Addr;
use std::sync::Arc;
use tables::Lookup6;
use wire::ethernet::EtherType;
use wire::icmpv6;
use wire::ipv4::Protocol;
use wire::ipv6::{self, Chain, HEADER_LEN, Repr};
use wire::nd::{
    self, AdvertisementFlags, Discovery, HOP_LIMIT, NEIGHBOUR_LEN, NdOption, NdOptions, ParseError, RouterAdvertisement,
};
use wire::{MacAddress, batch::check};

graph::edges! {
    pub enum Edge {
        Reply => next "interface-output",
        /// A neighbour answered a solicitation of this router or advertised itself. The router processed the
        /// advertisement. Normal.
        Advertised => end "neighbor advertisements received",
        /// A neighbor solicitation for the address of another station. Normal, because stations share solicited-node
        /// multicast groups.
        NotForUs => end "neighbor solicitation for another station",
        /// A station solicits an address of this router that the router does not use yet, because duplicate address
        /// detection is still in progress (RFC 4862 5.4.3). A few are normal when the router or a link comes up.
        Tentative => end "neighbor solicitation of a tentative address",
        /// The link returned a duplicate address probe that this router sent for one of its own addresses (RFC 7527).
        /// The link has a loop.
        OwnProbe => end "duplicate address probe of ours came back",
        /// A host asks for the routers on the link (RFC 4861 6.2.6). Normal. This router answers if it sends router
        /// advertisements.
        RouterAsked => end "router solicitations received",
        /// Another router advertises itself (RFC 4861 6.2.7). This router does not configure anything from the
        /// advertisement. `show ip6 ra` lists the routers from which advertisements were received.
        RouterHeard => end "router advertisements received",
        /// A router sent a redirect, which tells a host about a better first hop (RFC 4861 8). This router is not a
        /// host and ignores redirects.
        Redirect => end "redirect to a router is not heeded",
        /// The source of a router advertisement is not a link-local address (RFC 4861 6.1.2). A broken or hostile
        /// sender.
        RouterSource => warn "router advertisement is not of a link-local address",
        /// More than ten router solicitations and advertisements a second arrived on one interface. A flood.
        RouterLimited => warn "router discovery limited by rate",
        /// The hop limit is not 255: a router forwarded the message, or it was sent from another network (RFC 4861
        /// 7.1). An attack, or a broken sender.
        HopLimit => warn "neighbor discovery from beyond the link",
        /// The message was fragmented or has a fragment header, which attackers use to evade filters (RFC 6980 5). An
        /// attack: no such message is long enough to need fragmentation.
        Fragment => warn "neighbor discovery in a fragment",
        /// The ICMPv6 code of the message is not 0 (RFC 4861 7.1). A broken sender.
        Code => warn "neighbor discovery code is not 0",
        /// The message is shorter than its type requires (RFC 4861 7.1). A broken or hostile sender.
        Truncated => warn "neighbor discovery message too short",
        /// An option extends beyond the end of the message, or has the length 0 (RFC 4861 4.6). A broken or hostile
        /// sender.
        BadOption => warn "neighbor discovery option is malformed",
        /// The target is a multicast address, which no station can have (RFC 4861 7.1).
        GroupTarget => warn "neighbor discovery target is a group",
        /// A solicitation from the unspecified address (::) contains an Ethernet address (RFC 4861 6.1.1, 7.1.1), or
        /// its destination is not the solicited-node multicast group of its target.
        BadProbe => warn "solicitation from nobody is malformed",
        /// A neighbor advertisement to a multicast group has the solicited flag, which marks answers to one station
        /// (RFC 4861 7.1.2).
        BadSolicited => warn "neighbor advertisement to a group is marked solicited",
        /// The Ethernet address in the message is a group address or zero, so an answer could not reach any station.
        /// If a solicitation contains no Ethernet address, the source address of its frame counts.
        BadLinkAddress => warn "neighbor discovery link address is no station's",
        /// The sender's address is not in any network of this interface. Either side has a wrong prefix, or two
        /// networks share the link: compare the prefixes on both sides.
        ForeignSender => warn "neighbor discovery sender is not on link",
        /// Two stations have the same address: another station uses an address of this router, or tests an address
        /// that this router is about to use as well. `show logging` names the other station. Change one of the two
        /// addresses.
        OurAddress => drop "neighbor has an address of ours",
        /// A neighbour advertised itself, but this router did not solicit it (RFC 4861 7.2.5). Normal when stations
        /// come up.
        NotAskedFor => end "neighbor advertisement of who was not asked for",
        /// The neighbour is known with another Ethernet address, and the advertisement does not have the override
        /// flag (RFC 4861 7.2.5). The advertisement comes from a proxy or is for an anycast address.
        DoesNotOverride => end "neighbor advertisement does not override",
        /// A neighbor advertisement does not contain the Ethernet address that this router solicited (RFC 4861
        /// 7.2.5).
        NoLinkAddress => warn "neighbor advertisement without a link address",
        /// The sender is a static neighbour with another Ethernet address. The router keeps the configured address.
        /// Correct it, or find the station that claims the address.
        ContradictsStatic => drop "contradicts a static neighbor",
        /// More solicitations arrived on one interface than `set ip6 nd rate replies` allows a second. The senders
        /// retry.
        RepliesLimited => warn "neighbor advertisements limited by rate",
        /// More neighbours appeared or changed on one interface than `set ip6 nd rate learning` allows a second. A
        /// flood, or a very large network.
        LearningLimited => warn "neighbor learning limited by rate",
        /// The control thread is overloaded, so the router did not process this message. The information is lost, but
        /// the sender repeats it when it is solicited.
        ControlBusy => drop "control is busy, not learned",
        /// The interface was deleted while the message was being processed. A few are normal at that moment.
        NoInterface => note "interface is gone",
        /// The host that this interface leads to answers the solicitation (`lcp create`). The router only learned from
        /// it.
        HostAnswers => end "solicitation that the host answers",
    }
}

const COUNTERS: &[CounterSpec] = &[
    CounterSpec(
        "neighbor advertisements sent",
        Severity::Info,
        "The router answered a solicitation for one of its addresses (RFC 4861 7.2.4). Normal.",
    ),
    CounterSpec(
        "asker answered, not learned",
        Severity::Warning,
        "The router answered a solicitation but did not learn its sender. The learning rate was exceeded \
         (`set ip6 nd rate`), the control thread is overloaded, or the sender is a static neighbour with another MAC \
         address.",
    ),
];
const SENT: usize = 0;
const ASKERS_NOT_LEARNED: usize = 1;

/// Conflicts per second that a worker reports to the control thread.
const CONFLICTS_TOLD: u32 = 10;
/// Router solicitations and advertisements per second that a worker reports, for each interface.
const ROUTERS_TOLD: u32 = 10;
/// The length of an advertisement with the option for our Ethernet address.
const ANSWER_LEN: usize = NEIGHBOUR_LEN + 8;

pub fn spec() -> NodeSpec {
    NodeSpec { name: "icmp6-neighbor-discovery".into(), edges: Edge::EDGES, counters: COUNTERS, trace }
}

/// The tables that the node reads.
#[derive(Clone)]
pub struct Tables {
    pub view: SharedViews,
    pub neighbours: Arc<Shared>,
    pub policy: SharedPolicy,
    pub routes: OnLink<Lookup6>,
}

pub struct NdInput {
    tables: Arc<Tables>,
    learner: Learner,
    replies: ByInterface<Bucket>,
    conflicts: Bucket,
    routers: ByInterface<Bucket>,
    events: EventSender<RouterEvent>,
}

/// The sender of a message, and the message's destination.
struct Sender {
    source: Ipv6Addr,
    destination: Ipv6Addr,
    mac: MacAddress,
}

/// The contents of a solicitation.
struct Asked {
    target: Ipv6Addr,
    /// The solicitation's Ethernet address of its sender.
    told: Option<MacAddress>,
    nonce: Option<Nonce>,
}

impl Asked {
    fn read(target: Ipv6Addr, options: NdOptions<'_>) -> Result<Asked, Edge> {
        let nonce = options.nonce().and_then(|nonce| nonce.try_into().ok());
        Ok(Asked { target, told: link_address(options.source())?, nonce })
    }
}

impl NdInput {
    pub fn new(tables: Tables, learned: EventSender<neighbour::Event>, events: EventSender<RouterEvent>) -> NdInput {
        NdInput {
            tables: Arc::new(tables),
            learner: Learner::new(learned),
            events,
            routers: ByInterface::default(),
            replies: ByInterface::default(),
            conflicts: Bucket::default(),
        }
    }

    fn one(&mut self, cx: &mut Context<'_>, tables: &Tables, row: &mut Row) -> Result<Edge, Edge> {
        let view = tables.view.load(cx.round).get(row.rx_interface).ok_or(Edge::NoInterface)?;
        let (l2, l3) = (row.l2 as usize, row.l3 as usize);
        let bytes = cx.buffers.bytes(row.packet);
        let end = (l2 + row.first_length(cx.buffers)).min(bytes.len());
        let packet = bytes.get(l3..end).filter(|packet| packet.len() >= HEADER_LEN).ok_or(Edge::Truncated)?;
        let header = ipv6::Header::new_unchecked(packet);
        if header.hop_limit() != HOP_LIMIT {
            return Err(Edge::HopLimit);
        }
        // RFC 6980 5: applies to messages in several fragments, and to those in a single one.
        let chain = Chain::walk(header.next_header(), &packet[HEADER_LEN..]);
        if row.flags & REASSEMBLED != 0 || chain.is_ok_and(|chain| chain.fragment.is_some()) {
            return Err(Edge::Fragment);
        }
        let message = packet.get(payload_at(row)..).unwrap_or_default();
        if message.get(1) != Some(&0) {
            return Err(Edge::Code);
        }
        let message = match Discovery::parse(message) {
            Some(Ok(message)) => message,
            Some(Err(ParseError::Truncated { .. })) | None => return Err(Edge::Truncated),
            Some(Err(ParseError::GroupTarget)) => return Err(Edge::GroupTarget),
            Some(Err(_)) => return Err(Edge::BadOption),
        };
        let frame_source = MacAddress(*bytes[l2 + 6..].first_chunk().expect("a link header is longer"));
        let sender = Sender { source: header.src(), destination: header.dst(), mac: frame_source };
        let policy = tables.policy.load(cx.round);
        match message {
            Discovery::NeighbourSolicitation { target, options } => {
                let asked = Asked::read(target, options)?;
                self.solicited(cx, tables, view, policy, row, &sender, &asked)
            }
            Discovery::NeighbourAdvertisement { flags, target, options } => {
                let told = link_address(options.target())?;
                self.advertised(cx, tables, view, policy, &sender, flags, target, told)
            }
            Discovery::RouterSolicitation(options) => {
                let told = link_address(options.source())?;
                self.routers_asked_for(cx, view, &sender, told)
            }
            Discovery::RouterAdvertisement(told, _) => self.router_heard(cx, view, &sender, told),
            Discovery::Redirect { .. } => Ok(Edge::Redirect),
        }
    }

    /// Handles a neighbour solicitation (RFC 4861 7.1.1, 7.2.3).
    #[allow(clippy::too_many_arguments)]
    fn solicited(
        &mut self,
        cx: &mut Context<'_>,
        tables: &Tables,
        view: &InterfaceView,
        policy: &Policy,
        row: &mut Row,
        sender: &Sender,
        asked: &Asked,
    ) -> Result<Edge, Edge> {
        let &Asked { target, told, .. } = asked;
        let is_probe = sender.source.is_unspecified();
        if is_probe && (told.is_some() || sender.destination != nd::solicited_node(target)) {
            return Err(Edge::BadProbe);
        }
        let is_ours = view.ip6.owns(target);
        let is_anycast = view.ip6.is_anycast(target);
        if !is_ours && !is_anycast && !view.ip6.stands_in_for(target) {
            return Ok(Edge::NotForUs);
        }
        if let Some(standing) = view.ip6.standing(target) {
            return match is_probe {
                true => self.tried_by_another(cx, view, standing, sender.mac, asked),
                false => Ok(Edge::Tentative),
            };
        }
        if view.ip6.owns(sender.source) {
            return self.claimed(cx, view, sender.source, sender.mac);
        }
        if !is_probe
            && !view.ip6.is_attached(sender.source)
            && !tables.routes.is(cx.round, view.index, sender.source.into())
        {
            return Err(Edge::ForeignSender);
        }
        // The host does not know for whom the router is a proxy.
        let host_answers = row.flags & ANSWERED != 0 && !view.ip6.stands_in_for(target);
        if !host_answers && !self.replies.of(view.index).take(cx.now, policy.rates.ip6.replies) {
            return Err(Edge::RepliesLimited);
        }
        // To all nodes, because the sender of a probe has no address yet (RFC 4861 7.2.4).
        let (to, to_mac) = match (is_probe, told) {
            (true, _) => (ALL_NODES, nd::group_mac(ALL_NODES)),
            (false, Some(told)) => (sender.source, told),
            (false, None) => (sender.source, a_stations(sender.mac)?),
        };
        // A proxy does not override other answers, and speaks for a host (RFC 4861 7.2.8). Any router of the network
        // may answer for its anycast address, and no answer overrides another (RFC 4861 7.2.7).
        let flags = AdvertisementFlags { router: is_ours || is_anycast, solicited: !is_probe, overrides: is_ours };
        let from = if is_anycast { view.ip6.address_towards(to).ok_or(Edge::Tentative)? } else { target };
        if !host_answers {
            answer(cx, row, view, (to, to_mac), (from, target), flags);
            cx.count(SENT, 1);
        }
        if let Some(mac) = told {
            let key = NeighbourKey::new(view.index, sender.source);
            let entry = tables.neighbours.get(cx.round, &key);
            // The router will soon send to a host that asks for its address.
            let rate = policy.rates.ip6.learning;
            if self.learner.learn(cx, (key, mac), Evidence::Hearsay, entry, true, rate).is_err() {
                cx.count(ASKERS_NOT_LEARNED, 1);
            }
        }
        Ok(if host_answers { Edge::HostAnswers } else { Edge::Reply })
    }

    /// Another station probes for an address that we are probing, too (RFC 4862 5.4.3).
    fn tried_by_another(
        &mut self,
        cx: &Context<'_>,
        view: &InterfaceView,
        standing: Standing,
        by: MacAddress,
        asked: &Asked,
    ) -> Result<Edge, Edge> {
        let is_ours = matches!(standing, Standing::Tentative(ours) if asked.nonce == Some(ours));
        if by == view.mac || is_ours {
            return Ok(Edge::OwnProbe);
        }
        self.claimed(cx, view, asked.target, by)
    }

    /// Another station uses one of our addresses.
    fn claimed(
        &mut self,
        cx: &Context<'_>,
        view: &InterfaceView,
        address: Ipv6Addr,
        by: MacAddress,
    ) -> Result<Edge, Edge> {
        if by != view.mac && self.conflicts.take(cx.now, CONFLICTS_TOLD) {
            self.learner.tell_conflict(NeighbourKey::new(view.index, address), by);
        }
        Err(Edge::OurAddress)
    }

    /// Handles a neighbour advertisement (RFC 4861 7.1.2, 7.2.5).
    #[allow(clippy::too_many_arguments)]
    fn advertised(
        &mut self,
        cx: &Context<'_>,
        tables: &Tables,
        view: &InterfaceView,
        policy: &Policy,
        sender: &Sender,
        flags: AdvertisementFlags,
        target: Ipv6Addr,
        told: Option<MacAddress>,
    ) -> Result<Edge, Edge> {
        if flags.solicited && sender.destination.is_multicast() {
            return Err(Edge::BadSolicited);
        }
        let (key, rate) = (NeighbourKey::new(view.index, target), policy.rates.ip6.learning);
        if view.ip6.owns(target) {
            return self.claimed(cx, view, target, told.unwrap_or(sender.mac));
        }
        let entry = tables.neighbours.get(cx.round, &key);
        let known = entry.map(Entry::word).and_then(|word| word.mac());
        // A neighbour that was asked at its Ethernet address may leave that address out of its answer (RFC 4861 4.4).
        let Some(mac) = told.or(known) else {
            return Err(if entry.is_some() { Edge::NoLinkAddress } else { Edge::NotAskedFor });
        };
        if known.is_some_and(|known| known != mac) && !flags.overrides {
            self.learner.doubt(cx, key, entry, rate);
            return Ok(Edge::DoesNotOverride);
        }
        let evidence = if flags.solicited { Evidence::Reachable } else { Evidence::Hearsay };
        match self.learner.learn(cx, (key, mac), evidence, entry, false, rate) {
            Ok(()) => Ok(Edge::Advertised),
            Err(NotLearned::NotAskedFor) => Ok(Edge::NotAskedFor),
            Err(NotLearned::ContradictsStatic) => Err(Edge::ContradictsStatic),
            Err(NotLearned::Limited) => Err(Edge::LearningLimited),
            Err(NotLearned::ControlBusy) => Err(Edge::ControlBusy),
        }
    }
}

/// Messages of routers, and of hosts that look for routers.
impl NdInput {
    /// Handles a router solicitation of a host (RFC 4861 6.1.1).
    fn routers_asked_for(
        &mut self,
        cx: &Context<'_>,
        view: &InterfaceView,
        sender: &Sender,
        told: Option<MacAddress>,
    ) -> Result<Edge, Edge> {
        let is_nobody = sender.source.is_unspecified();
        if is_nobody && told.is_some() {
            return Err(Edge::BadProbe);
        }
        let host = told.map(|mac| (sender.source, mac));
        self.tell_of_routers(cx, view, RouterEvent::Solicited(view.index, host), Edge::RouterAsked)
    }

    /// Handles an advertisement of another router (RFC 4861 6.1.2).
    fn router_heard(
        &mut self,
        cx: &Context<'_>,
        view: &InterfaceView,
        sender: &Sender,
        told: RouterAdvertisement,
    ) -> Result<Edge, Edge> {
        if !sender.source.is_unicast_link_local() {
            return Err(Edge::RouterSource);
        }
        let event = RouterEvent::Heard(view.index, sender.source, sender.mac, told);
        self.tell_of_routers(cx, view, event, Edge::RouterHeard)
    }

    fn tell_of_routers(
        &mut self,
        cx: &Context<'_>,
        view: &InterfaceView,
        event: RouterEvent,
        to: Edge,
    ) -> Result<Edge, Edge> {
        if !self.routers.of(view.index).take(cx.now, ROUTERS_TOLD) {
            return Err(Edge::RouterLimited);
        }
        self.events.try_send(event).map(|()| to).map_err(|_| Edge::ControlBusy)
    }
}

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// Checks the Ethernet address in a message, if there is one.
fn link_address(told: Option<MacAddress>) -> Result<Option<MacAddress>, Edge> {
    told.map(a_stations).transpose()
}

fn a_stations(mac: MacAddress) -> Result<MacAddress, Edge> {
    match mac.is_multicast() || mac.is_zero() {
        true => Err(Edge::BadLinkAddress),
        false => Ok(mac),
    }
}

/// Turns a solicitation into our advertisement.
fn answer(
    cx: &mut Context<'_>,
    row: &mut Row,
    view: &InterfaceView,
    (to, mac): (Ipv6Addr, MacAddress),
    (from, target): (Ipv6Addr, Ipv6Addr),
    flags: AdvertisementFlags,
) {
    let header = view.link_header(mac, EtherType::IPV6);
    let l2 = row.l2 as usize;
    let frame = &mut cx.buffers.bytes_mut(row.packet)[l2..l2 + header.len() + HEADER_LEN + ANSWER_LEN];
    let (link, packet) = frame.split_at_mut(header.len());
    link.copy_from_slice(&header);
    write_advertisement(packet, from, to, target, flags, view.mac);
    row.l3 = (l2 + header.len()) as u16;
    row.length = (header.len() + HEADER_LEN + ANSWER_LEN) as u16;
    row.flags = (row.flags & flag::TRACED) | flag::ORIGINATED | check::EXAMINED6;
    row.scratch = Scratch::NONE;
    row.set_tx_interface(view.index);
}

/// Writes an IPv6 packet with a neighbour advertisement that contains our Ethernet address.
pub(super) fn write_advertisement(
    packet: &mut [u8],
    from: Ipv6Addr,
    to: Ipv6Addr,
    target: Ipv6Addr,
    flags: AdvertisementFlags,
    mac: MacAddress,
) {
    nd::emit_advertisement(&mut packet[HEADER_LEN..], target, flags);
    NdOption::TargetLinkAddress(mac).emit(&mut packet[HEADER_LEN + NEIGHBOUR_LEN..]);
    finish(packet, from, to);
}

/// Writes the IPv6 header before a message of Neighbor Discovery, and the checksum into the message.
pub(crate) fn finish(packet: &mut [u8], from: Ipv6Addr, to: Ipv6Addr) {
    let (ip, message) = packet.split_at_mut(HEADER_LEN);
    icmpv6::Header::new_checked(&mut message[..]).expect("it has a header").fill_checksum(from, to);
    Repr {
        src: from,
        dst: to,
        next_header: Protocol::ICMP6,
        hop_limit: HOP_LIMIT,
        traffic_class: 0,
        flow_label: 0,
        payload_len: message.len() as u16,
    }
    .emit(ip);
}

impl Map for NdInput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let tables = self.tables.clone();
        vector.each_row(|row| {
            // These messages are shorter than one buffer.
            if row.flags & flag::CHAINED != 0 {
                return Edge::Truncated;
            }
            self.one(cx, &tables, row).unwrap_or_else(|fault| fault)
        });
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    router::headers::trace_ip6(snapshot, f)
}
