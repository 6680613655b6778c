//! `ip6-input`: acts on the findings of the header pass, and does not touch ordinary packets.
//!
//! Reads: check bits in `flags`. Writes: for packets that the header pass did not read, the same check bits; `target`
//! of packets that are for this router by their scope. Next: `ip6-lookup`; `ip6-local` with packets to an address of
//! this interface on its link, to a group of which the interface is a member, or that ask for a host that the interface
//! answers for; `ip6-rx-urpf` before either on interfaces with `set urpf`; or a drop by name (RFC 8200, RFC 4291).

use crate::ip6::Ip6View;
use graph::Lazy;
use graph::{Context, CounterTable, InterfaceIndex, Map, NodeSpec, Row, Vector, flag};
use router::headers::visible;
use router::interface::SharedViews;
use router::ip::arcs::InputArcs;
use router::ip::class;
use router::ip::source6::is_of_its_link;
use router::table_index::own_table;
use std::net::Ipv6Addr;
use std::sync::Arc;
use tables::Leaf;
use wire::Family;
use wire::batch::check;
use wire::icmpv6::Type;
use wire::ipv4::Protocol;
use wire::ipv6::{self, HEADER_LEN, ParseError, next_header};
use wire::nd::HOP_LIMIT;

graph::edges! {
    pub enum Edge {
        Lookup => arc "ip6-unicast",
        Local => arc "ip6-multicast",
        /// IPv6 is not enabled on the interface. To enable it, add an IPv6 address (`set interface ip address`) or
        /// use `enable ip6 interface`.
        NotEnabled => note "ip6 not enabled",
        /// The frame is too short for an IPv6 header of 40 bytes (RFC 8200 3). The frame was truncated on its way, or
        /// the sender is at fault.
        TooShort => warn "ip6 length < 40 bytes",
        /// The EtherType of the frame is IPv6, but the version field of the packet is not 6 (RFC 8200 3).
        BadVersion => warn "ip6 version != 6",
        /// The payload length field is greater than the data in the frame (RFC 8200 3). The packet was truncated on
        /// its way, often because the two ends of a link have different MTUs.
        BadLength => warn "ip6 payload length > l2 length",
        /// The packet is a jumbogram (RFC 2675): a hop-by-hop option contains its length. The router does not support
        /// packets of this length.
        Jumbogram => warn "ip6 jumbograms are not supported",
        /// The source is a multicast address, which no station can have (RFC 4291 2.7). The source is forged.
        SourceMulticast => warn "ip6 source is a group",
        /// The source is the loopback address ::1, which must not appear on a network (RFC 4291 2.5.3). The source is
        /// forged, or a program uses the loopback address of its own machine.
        SourceLoopback => warn "ip6 source is the loopback address",
        /// The source is the unspecified address ::, which stations use until they have an address, but the
        /// destination is not limited to the link (RFC 4291 2.5.2).
        SourceUnspecified => warn "ip6 source unspecified",
        /// The source is in ::/96 or ::ffff:0:0/96. These addresses embed IPv4 addresses and must not appear on a
        /// network (RFC 4291 2.5.5). The source is forged.
        SourceMapped => warn "ip6 source embeds an ip4 address",
        /// The destination is the unspecified address :: (RFC 4291 2.5.2).
        DestinationUnspecified => warn "ip6 destination unspecified",
        /// The destination is the loopback address ::1, which must not appear on a network (RFC 4291 2.5.3).
        DestinationLoopback => warn "ip6 destination is the loopback address",
        /// The destination is in ::/96 or ::ffff:0:0/96. These addresses embed IPv4 addresses and must not appear on
        /// a network (RFC 4291 2.5.5).
        DestinationMapped => warn "ip6 destination embeds an ip4 address",
        /// The destination is a multicast group of interface-local or reserved scope, which must not appear on a link
        /// (RFC 4291 2.7).
        GroupOfNoLink => note "ip6 group scope is of no link",
        /// The destination is a multicast group that this router did not join on the interface. The router does not
        /// forward multicast. On most networks this is normal traffic between hosts.
        Multicast => note "ip6 multicast not routed",
        /// The destination is a link-local address that does not belong to this interface. Routers do not forward
        /// link-local packets (RFC 4291 2.5.6). The sender has an outdated neighbour entry, or a bridge on the link
        /// floods frames.
        LinkLocal => note "ip6 link-local destination is not ours",
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip6-input".into(), edges: Edge::EDGES, counters: &[], trace: router::headers::trace_ip6 }
}

pub struct Ip6Input {
    view: SharedViews,
    /// Counts IPv6 packets, by receiving interface.
    ip6: Arc<CounterTable>,
    arcs: InputArcs,
}

impl Ip6Input {
    pub(crate) fn new(view: SharedViews, ip6: Arc<CounterTable>, arcs: InputArcs) -> Ip6Input {
        Ip6Input { view, ip6, arcs }
    }

    fn count(&self, cx: &Context<'_>, rx: InterfaceIndex, packets: usize) {
        self.ip6.add(cx.thread, rx.0 as usize, 0, packets as u64);
    }
}

/// Headers that the header pass did not read to the end, and valid ones that are nevertheless checked one by one.
const REMARKABLE: u32 = check::SHORT
    | check::VERSION
    | check::TOTAL_LENGTH
    | check::HEADER_LENGTH
    | check::MARTIAN_SOURCE
    | check::SPECIAL_DESTINATION
    | check::CHAINED;

impl Map for Ip6Input {
    #[inline]
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let table = self.view.load(cx.round);
        let of = |rx: InterfaceIndex| table.get(rx).map(|view| &view.ip6).filter(|view| view.is_enabled());
        let are_led = vector.lazy(Lazy::Table).is_some();
        let one = vector.one_rx_interface().filter(|_| !are_led).map(|rx| (rx, of(rx)));
        if let Some((rx, view)) = one {
            self.count(cx, rx, vector.len());
            let plain = vector.any_flags() & REMARKABLE == 0 && vector.common_flags() & check::EXAMINED6 != 0;
            match view {
                None => return vector.set_edges(Edge::NotEnabled.into()),
                Some(view) if plain && !view.is_proxy() => {
                    return vector.send_all(self.arcs.unicast(cx, rx), Edge::Lookup.into());
                }
                Some(_) => {}
            }
        }
        for i in 0..vector.len() {
            let mut row = vector.row(i);
            let view = match one {
                Some((_, view)) => view,
                None => {
                    self.count(cx, row.rx_interface, 1);
                    of(row.rx_interface)
                }
            };
            if own_table(&row).is_some() {
                let here = of(table.here(Family::Ip6, &row));
                let to = led(cx, &mut row, here);
                vector.set_row(i, row);
                vector.set_edge(i, to.into());
                continue;
            }
            let is_plain = row.flags & check::EXAMINED6 != 0 && row.flags & REMARKABLE == 0;
            let Some(view) = view else {
                vector.set_edge(i, Edge::NotEnabled.into());
                continue;
            };
            let mut to = Edge::Lookup;
            if !is_plain {
                to = remarkable(cx, &mut row, view).unwrap_or_else(|fault| fault);
            }
            let mut chain = match to {
                Edge::Lookup => self.arcs.unicast(cx, row.rx_interface),
                Edge::Local => self.arcs.multicast(cx, row.rx_interface),
                _ => None,
            };
            if to == Edge::Lookup && view.is_proxy() && asks_for_proxied(cx, &row, view) {
                row.target = Leaf::new(class::RECEIVE, row.rx_interface.0).0;
                (to, chain) = (Edge::Local, None);
            }
            vector.set_row(i, row);
            vector.send(i, chain, to.into());
        }
    }
}

/// Where a packet goes that a label led to another table: it is checked, but not as one of its interface's network.
#[cold]
fn led(cx: &Context<'_>, row: &mut Row, view: Option<&Ip6View>) -> Edge {
    let none = Ip6View::default();
    remarkable(cx, row, view.unwrap_or(&none)).unwrap_or_else(|fault| fault)
}

/// Whether a packet is a solicitation for a host that the interface answers for by proxy. A neighbour that has the host
/// in its cache sends the solicitation to the host's own address and not to a group (RFC 4861 7.2.8).
fn asks_for_proxied(cx: &Context<'_>, row: &Row, view: &Ip6View) -> bool {
    let bytes = visible(cx, row);
    let header = ipv6::Header::new_unchecked(bytes);
    header.hop_limit() == HOP_LIMIT
        && header.next_header() == Protocol::ICMP6
        && bytes.get(HEADER_LEN) == Some(&Type::NEIGHBOUR_SOLICITATION.0)
        && view.stands_in_for(header.dst())
}

/// Decides about a packet that is not ordinary.
fn remarkable(cx: &Context<'_>, row: &mut Row, view: &Ip6View) -> Result<Edge, Edge> {
    const UNSOUND: u32 = check::SHORT | check::VERSION | check::TOTAL_LENGTH;
    // The header pass does not know how much of a chain its first buffer holds.
    if row.flags & check::CHAINED != 0 && visible(cx, row).len() < HEADER_LEN {
        return Err(Edge::TooShort);
    }
    if row.flags & check::EXAMINED6 == 0 || row.flags & UNSOUND != 0 {
        examine(cx, row)?;
    }
    let header = ipv6::Header::new_unchecked(visible(cx, row));
    if header.next_header() == next_header::HOP_BY_HOP && header.payload_len() == 0 {
        return Err(Edge::Jumbogram);
    }
    let (source, destination) = (header.src(), header.dst());
    if row.flags & check::MARTIAN_SOURCE != 0 {
        judge_source(source, destination)?;
        if !is_of_its_link(source) {
            // A valid source in ::/32.
            row.flags &= !check::MARTIAN_SOURCE;
        }
    }
    let to = match row.flags & check::SPECIAL_DESTINATION {
        0 => Edge::Lookup,
        _ => judge_destination(destination, view)?,
    };
    if to == Edge::Local {
        row.target = Leaf::new(class::RECEIVE, row.rx_interface.0).0;
    }
    Ok(to)
}

/// Checks one header completely: distinguishes the faults and rewrites the check bits.
fn examine(cx: &Context<'_>, row: &mut Row) -> Result<(), Edge> {
    let whole = row.l3_length();
    let bytes = visible(cx, row);
    match ipv6::Header::new_checked(bytes) {
        Ok(_) => {}
        // The bytes of a chained packet are not all in this buffer.
        Err(ParseError::PayloadBeyondData { payload_len, .. }) if HEADER_LEN + payload_len as usize <= whole => {}
        Err(ParseError::Truncated { .. }) => return Err(Edge::TooShort),
        Err(ParseError::Version(_)) => return Err(Edge::BadVersion),
        Err(ParseError::PayloadBeyondData { .. }) => return Err(Edge::BadLength),
    }
    let header = ipv6::Header::new_unchecked(bytes);
    let when = |condition: bool, bit: u32| if condition { bit } else { 0 };
    row.flags = row.flags & !check::ALL
        | row.flags & (check::GROUP | check::OTHER_STATION)
        | check::EXAMINED6
        | when(header.hop_limit() <= 1, check::TTL)
        | when(is_special(header.src()), check::MARTIAN_SOURCE)
        | when(is_special(header.dst()), check::SPECIAL_DESTINATION);
    if row.flags & flag::CHAINED == 0 {
        row.length = row.l3 - row.l2 + HEADER_LEN as u16 + header.payload_len();
    }
    Ok(())
}

/// The addresses that the header pass calls special.
fn is_special(address: Ipv6Addr) -> bool {
    let [first, second, ..] = address.segments();
    first >> 8 == 0xff || first & 0xffc0 == 0xfe80 || (first, second) == (0, 0)
}

/// Whether an address embeds an IPv4 address, mapped or compatible (RFC 4291 2.5.5).
fn embeds_ip4(address: Ipv6Addr) -> bool {
    let upper = u128::from(address) >> 32;
    upper == 0 || upper == 0xffff
}

/// Checks a source in ff00::/8, fe80::/10 or ::/32. Link-local sources are valid here: `ip6-rewrite` keeps their
/// packets on the link.
fn judge_source(source: Ipv6Addr, destination: Ipv6Addr) -> Result<(), Edge> {
    if source.is_multicast() {
        Err(Edge::SourceMulticast)
    } else if source.is_loopback() {
        Err(Edge::SourceLoopback)
    } else if source.is_unspecified() {
        // A host that asks for an address or for its owner uses this source on its link only (RFC 4862, RFC 4861).
        let stays_on_link = destination.is_unicast_link_local() || is_of_link(destination);
        if stays_on_link { Ok(()) } else { Err(Edge::SourceUnspecified) }
    } else if embeds_ip4(source) {
        Err(Edge::SourceMapped)
    } else {
        Ok(())
    }
}

/// Whether an address is a group within one link.
fn is_of_link(address: Ipv6Addr) -> bool {
    address.is_multicast() && ipv6::scope(address) <= ipv6::Scope::Link
}

/// Decides about a destination in ff00::/8, fe80::/10 or ::/32: whether it is for this interface, or to be looked up.
fn judge_destination(destination: Ipv6Addr, view: &Ip6View) -> Result<Edge, Edge> {
    if destination.is_multicast() {
        return match ipv6::scope(destination) {
            ipv6::Scope::Interface => Err(Edge::GroupOfNoLink),
            _ if view.is_member(destination) || view.all_groups => Ok(Edge::Local),
            _ => Err(Edge::Multicast),
        };
    }
    if destination.is_unicast_link_local() {
        return if view.owns(destination) { Ok(Edge::Local) } else { Err(Edge::LinkLocal) };
    }
    if destination.is_unspecified() {
        Err(Edge::DestinationUnspecified)
    } else if destination.is_loopback() {
        Err(Edge::DestinationLoopback)
    } else if embeds_ip4(destination) {
        Err(Edge::DestinationMapped)
    } else {
        Ok(Edge::Lookup)
    }
}
