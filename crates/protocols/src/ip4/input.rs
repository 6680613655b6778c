//! `ip4-input`: acts on the findings of the header pass, and does not touch ordinary packets.
//!
//! Reads: check bits in `flags`, `target`. Writes: for packets without a link header or with options, the same fields
//! that `ethernet-input` writes for other packets. Next: `ip4-options` with packets that have options; `ip4-lookup`
//! along the arc `ip4-unicast`; along the arc `ip4-multicast` `ip4-local` with packets that every station on the link
//! receives and no router forwards: the limited broadcast, and broadcast frames to all hosts of a network of the link;
//! or a drop by name (RFC 1812 5.2.2, 5.2.3, 5.3).
//!
//! `ip4-input-no-checksum` does the same for packets whose device has verified the header checksum, and does not check
//! it again.

use super::onward;
use graph::Lazy;
use graph::{Context, CounterTable, InterfaceIndex, Map, NodeSpec, Row, Vector, flag};
use router::headers::visible;
use router::interface::{InterfaceView, SharedViews};
use router::ip::arcs::InputArcs;
use router::ip::class;
use router::table_index::own_table;
use std::net::Ipv4Addr;
use std::sync::Arc;
use tables::Leaf;
use wire::Family;
use wire::batch::check;
use wire::ipv4::{self, ParseError, Protocol};

graph::edges! {
    pub enum Edge {
        Lookup => arc "ip4-unicast",
        Options => next "ip4-options",
        Local => arc "ip4-multicast",
        /// The interface has no IPv4 address and does not borrow one, so it does not process IPv4. Give it an
        /// address: `set interface ip address` (RFC 1812 2.2.7).
        NotEnabled => note "ip4 not enabled",
        /// The frame is too short for an IPv4 header of 20 bytes. It was truncated, or its sender is at fault (RFC
        /// 1812 5.2.2).
        TooShort => warn "ip4 length < 20 bytes",
        /// The EtherType says IPv4, but the first four bits of the packet say another version (RFC 1812 5.2.2).
        BadVersion => warn "ip4 version != 4",
        /// The header length field is less than 5 words, the minimum length of a header (RFC 791 3.1, RFC 1812
        /// 5.2.2).
        HeaderTooSmall => warn "ip4 header length < 20 bytes",
        /// The header length field points beyond the end of the frame, to options that are missing (RFC 1812 5.2.2).
        HeaderBeyond => warn "ip4 header longer than the packet",
        /// The total length field is less than the length of the header (RFC 1812 5.2.2).
        TotalBelowHeader => warn "ip4 total length < header length",
        /// The total length field says more than the frame holds. The packet was truncated on its way, often because
        /// the MTU differs between the ends of a link (RFC 1812 5.2.2).
        BadLength => warn "ip4 length > l2 length",
        /// The header's checksum is wrong. Bits were flipped on the way, or a device or program did not compute the
        /// checksum (RFC 1812 5.2.2).
        BadChecksum => warn "bad ip4 checksum",
        /// The fragment would end beyond 65535 bytes, the maximum length of a datagram ("ping of death"). This is an
        /// attack, because no sender fragments packets this way (RFC 791 3.2).
        FragmentTooLong => warn "ip4 fragment ends beyond 65535 bytes",
        /// The fragment has only a header and adds nothing to its datagram. Such fragments are sent to fill
        /// reassembly queues (RFC 791 3.2).
        FragmentEmpty => warn "ip4 fragment without data",
        /// More fragments are to follow, but the data of this one is not a multiple of 8 bytes, so the next one
        /// cannot follow without a gap (RFC 791 3.1).
        FragmentUneven => warn "ip4 fragment length is no multiple of 8",
        /// The TCP fragment begins at byte 8. It would overwrite the flags of the TCP header after a filter has
        /// checked them (RFC 1858 3, RFC 3128).
        FragmentOffsetOne => warn "ip4 fragment offset == 1",
        /// The first fragment of a TCP segment does not contain the flags of the TCP header. This is the tiny
        /// fragment attack on filters (RFC 1858 3.1, RFC 3128).
        TinyFragment => warn "tcp header split over fragments",
        /// The source is in 0/8, 127/8, 224/4 or 240/4, which no host on a network has. The source is forged, or a
        /// program sends from an address that is valid only inside its own machine (RFC 1812 5.3.7, RFC 6890).
        SourceMartian => warn "source martian",
        /// The destination is in 0/8, 127/8 or 240/4, which are on no network (RFC 1812 5.3.7, RFC 6890).
        DestinationMartian => warn "destination martian",
        /// The destination is a group in 224/4. This router does not route multicast and has joined no group. On most
        /// networks these are harmless messages between hosts (RFC 1812 5.2.6).
        Multicast => note "multicast not routed",
    }
}

/// What verifies the header checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checksum {
    /// This node: `ip4-input`.
    Verified,
    /// The device did: `ip4-input-no-checksum`.
    Trusted,
}

pub fn spec(checksum: Checksum) -> NodeSpec {
    let name = match checksum {
        Checksum::Verified => "ip4-input",
        Checksum::Trusted => "ip4-input-no-checksum",
    };
    NodeSpec { name: name.into(), edges: Edge::EDGES, counters: &[], trace: router::headers::trace_ip4 }
}

pub struct Ip4Input {
    view: SharedViews,
    /// Counts IPv4 packets, by receiving interface.
    ip4: Arc<CounterTable>,
    checksum: Checksum,
    arcs: InputArcs,
}

impl Ip4Input {
    pub(crate) fn new(view: SharedViews, ip4: Arc<CounterTable>, checksum: Checksum, arcs: InputArcs) -> Ip4Input {
        Ip4Input { view, ip4, checksum, arcs }
    }

    fn count(&self, cx: &Context<'_>, rx: InterfaceIndex, packets: usize) {
        self.ip4.add(cx.thread, rx.0 as usize, 0, packets as u64);
    }

    /// The header faults that this node checks.
    fn faults(&self) -> u32 {
        match self.checksum {
            Checksum::Verified => FAULTS,
            Checksum::Trusted => FAULTS & !check::CHECKSUM,
        }
    }
}

/// Faulty headers, which the header pass did not read to the end.
const FAULTS: u32 = check::SHORT | check::VERSION | check::HEADER_LENGTH | check::TOTAL_LENGTH | check::CHECKSUM;
/// Valid headers that are nevertheless checked one by one.
const REMARKABLE: u32 =
    check::FRAGMENT | check::MARTIAN_SOURCE | check::SPECIAL_DESTINATION | check::CHAINED | check::GROUP;

impl Map for Ip4Input {
    #[inline]
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let view = self.view.load(cx.round);
        let are_led = vector.lazy(Lazy::Table).is_some();
        let one = vector.one_rx_interface().filter(|_| !are_led).map(|rx| (rx, way_on(view.get(rx))));
        if let Some((rx, way)) = one {
            self.count(cx, rx, vector.len());
            if way == Edge::NotEnabled {
                return vector.set_edges(way.into());
            }
            let plain = vector.any_flags() & (self.faults() | REMARKABLE) == 0;
            if plain && vector.common_flags() & check::EXAMINED != 0 {
                return vector.send_all(self.arcs.unicast(cx, rx), way.into());
            }
        }
        for i in 0..vector.len() {
            let mut row = vector.row(i);
            // What a label led to another table is not of its interface's network.
            let is_led = own_table(&row).is_some();
            let way = match one {
                Some((_, way)) => way,
                None => {
                    self.count(cx, row.rx_interface, 1);
                    if is_led { Edge::Lookup } else { way_on(view.get(row.rx_interface)) }
                }
            };
            if way == Edge::NotEnabled {
                vector.set_edge(i, way.into());
                continue;
            }
            let mut to = Edge::Lookup;
            if row.flags & check::EXAMINED == 0 || row.flags & (self.faults() | REMARKABLE) != 0 {
                to = self.remarkable(cx, view.get(view.here(Family::Ip4, &row)), &mut row);
                vector.set_row(i, row);
                if to == Edge::Lookup {
                    to = onward(vector, i, Edge::Local, to);
                }
            }
            let chain = match to {
                _ if is_led => None,
                Edge::Lookup => self.arcs.unicast(cx, row.rx_interface),
                Edge::Local => self.arcs.multicast(cx, row.rx_interface),
                _ => None,
            };
            vector.send(i, chain, to.into());
        }
    }
}

/// Where valid packets of an interface go.
fn way_on(view: Option<&InterfaceView>) -> Edge {
    match view {
        Some(view) if !view.ip4_enabled => Edge::NotEnabled,
        Some(_) => Edge::Lookup,
        None => Edge::NotEnabled,
    }
}

impl Ip4Input {
    /// Decides about a packet that is not ordinary.
    fn remarkable(&self, cx: &Context<'_>, view: Option<&InterfaceView>, row: &mut Row) -> Edge {
        let mut has_options = false;
        // The header pass does not know how much of a chain its first buffer holds.
        if row.flags & check::CHAINED != 0 && visible(cx, row).len() < ipv4::HEADER_LEN {
            return Edge::TooShort;
        }
        if row.flags & check::EXAMINED == 0 || row.flags & self.faults() != 0 {
            match examine(cx, row, self.checksum) {
                Ok(options) => has_options = options,
                Err(fault) => return fault,
            }
        }
        if row.flags & check::FRAGMENT != 0
            && let Some(fault) = bad_fragment(cx, row)
        {
            return fault;
        }
        let to = addresses(cx, row, view.is_some_and(|view| view.all_groups));
        // The options of a packet to a group are the business of whoever is its member.
        let destination = ipv4::Header::new_unchecked(visible(cx, row)).dst();
        has_options &= !(to == Edge::Local && destination.is_multicast());
        if has_options && matches!(to, Edge::Lookup | Edge::Local) {
            // `ip4-options` and the lookup after it need the destination address.
            row.target = destination.into();
        }
        // RFC 1812 5.2.3: to all hosts of the network that the packet came from. This does not depend on whether the
        // router forwards directed broadcasts to that network.
        let is_to_all = |view: &InterfaceView| view.is_broadcast(row.target.into());
        if to == Edge::Lookup && row.flags & check::GROUP != 0 && view.is_some_and(is_to_all) {
            row.target = Ipv4Addr::BROADCAST.into();
        }
        if has_options && matches!(to, Edge::Lookup | Edge::Local) { Edge::Options } else { to }
    }
}

/// Checks one header completely: distinguishes the faults and rewrites the check bits. Returns whether there are
/// options.
fn examine(cx: &Context<'_>, row: &mut Row, checksum: Checksum) -> Result<bool, Edge> {
    let whole = row.l3_length();
    let bytes = visible(cx, row);
    match ipv4::Header::new_checked(bytes) {
        Ok(_) => {}
        // The bytes of a chained packet are not all in this buffer.
        Err(ParseError::TotalLengthBeyondData { total_len, .. }) if total_len as usize <= whole => {}
        Err(ParseError::Truncated { .. }) => return Err(Edge::TooShort),
        Err(ParseError::Version(_)) => return Err(Edge::BadVersion),
        Err(ParseError::HeaderLengthTooSmall { .. }) => return Err(Edge::HeaderTooSmall),
        Err(ParseError::HeaderBeyondData { .. }) => return Err(Edge::HeaderBeyond),
        Err(ParseError::TotalLengthBelowHeader { .. }) => return Err(Edge::TotalBelowHeader),
        Err(ParseError::TotalLengthBeyondData { .. }) => return Err(Edge::BadLength),
    }
    let header = ipv4::Header::new_unchecked(bytes);
    if checksum == Checksum::Verified && !header.verify_checksum() {
        return Err(Edge::BadChecksum);
    }
    row.target = header.dst().into();
    let when = |condition: bool, bit: u32| if condition { bit } else { 0 };
    row.flags = row.flags & !check::ALL
        | row.flags & (check::GROUP | check::OTHER_STATION)
        | check::EXAMINED
        | when(header.ttl() <= 1, check::TTL)
        | when(header.is_fragment(), check::FRAGMENT)
        | when(is_no_host(header.src()), check::MARTIAN_SOURCE)
        | when(is_no_host(header.dst()), check::SPECIAL_DESTINATION);
    if row.flags & flag::CHAINED == 0 {
        row.length = row.l3 - row.l2 + header.total_len();
    }
    Ok(header.header_len() > ipv4::HEADER_LEN)
}

/// The addresses that the header pass does not accept as a host's.
fn is_no_host(address: Ipv4Addr) -> bool {
    let first = address.octets()[0];
    first == 0 || first == 127 || first >= 224
}

/// Why a fragment is invalid, if it is.
pub(crate) fn bad_fragment(cx: &Context<'_>, row: &Row) -> Option<Edge> {
    /// Bytes of a TCP header up to its flags and window (RFC 3128's Tmin).
    const LEAST_OF_TCP: usize = 16;
    let header = ipv4::Header::new_unchecked(visible(cx, row));
    let data = (header.total_len() as usize).saturating_sub(header.header_len());
    let offset = header.fragment_offset();
    let is_tcp = header.protocol() == Protocol::TCP;
    if data == 0 {
        Some(Edge::FragmentEmpty)
    } else if offset as usize + header.total_len() as usize > u16::MAX as usize {
        Some(Edge::FragmentTooLong)
    } else if header.more_fragments() && !data.is_multiple_of(ipv4::FRAGMENT_UNIT as usize) {
        Some(Edge::FragmentUneven)
    } else if is_tcp && offset == ipv4::FRAGMENT_UNIT {
        Some(Edge::FragmentOffsetOne)
    } else if is_tcp && offset == 0 && data < LEAST_OF_TCP {
        Some(Edge::TinyFragment)
    } else {
        None
    }
}

/// RFC 1812 5.3.7: packets with addresses that no host can have are not forwarded.
fn addresses(cx: &Context<'_>, row: &mut Row, all_groups: bool) -> Edge {
    let destination = if row.flags & check::SPECIAL_DESTINATION == 0 { None } else { Some(Ipv4Addr::from(row.target)) };
    let is_broadcast = destination.is_some_and(|address| address.is_broadcast());
    if row.flags & check::MARTIAN_SOURCE != 0 {
        // A host without an address broadcasts to request one (RFC 2131 4.1).
        let is_nobody = ipv4::Header::new_unchecked(visible(cx, row)).src().is_unspecified();
        // RFC 4541 2.1.1: a switch asks for members with this source.
        let to_group = all_groups && destination.is_some_and(|address| address.is_multicast());
        if !(is_nobody && (is_broadcast || to_group)) {
            return Edge::SourceMartian;
        }
    }
    match destination {
        None => Edge::Lookup,
        Some(address) if address.is_multicast() && all_groups => {
            row.target = Leaf::new(class::RECEIVE, 0).0;
            Edge::Local
        }
        Some(address) if address.is_multicast() => Edge::Multicast,
        Some(_) if is_broadcast => {
            // The packet was for all hosts, whatever its frame: no error about it may be sent (RFC 1812 4.3.2.7).
            row.flags |= check::GROUP;
            // A sender without an address cannot be checked against the routes: `ip4-rx-urpf` does not.
            if row.flags & check::MARTIAN_SOURCE == 0 {
                return Edge::Lookup;
            }
            row.target = Leaf::new(class::RECEIVE, 0).0;
            Edge::Local
        }
        Some(_) => Edge::DestinationMartian,
    }
}
