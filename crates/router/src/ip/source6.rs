//! Packets of IPv6 whose source no route can judge.

use crate::headers::visible;
use graph::{Context, Row};
use std::net::Ipv6Addr;
use wire::batch::check;
use wire::icmpv6::Type;
use wire::ipv4::Protocol;
use wire::ipv6::{self, HEADER_LEN};
use wire::nd::HOP_LIMIT;

/// Whether the source of a packet can be checked against routes. A link-local source lies on the link that its packet
/// came from, and a station without an address has no route (RFC 4862 5.4, RFC 3810 5.2.13). The node that reads
/// messages of Neighbor Discovery checks them itself, because stations must find each other whatever the routes are.
pub(crate) fn is_checked(cx: &Context<'_>, row: &Row) -> bool {
    if row.flags & (check::MARTIAN_SOURCE | check::SPECIAL_DESTINATION) == 0 {
        return true;
    }
    let source = ipv6::Header::new_unchecked(visible(cx, row)).src();
    let is_for_link = row.flags & check::SPECIAL_DESTINATION != 0;
    !(is_of_its_link(source) || is_for_link && speaks_of_neighbours(cx, row))
}

/// Whether a source is valid on its link only.
pub fn is_of_its_link(source: Ipv6Addr) -> bool {
    source.is_unspecified() || source.is_unicast_link_local()
}

/// Whether the packet is a message of Neighbor Discovery. The node that reads such a message checks its source: a
/// message from one of our addresses shows that another station has the address (RFC 4862 5.4.4).
pub fn speaks_of_neighbours(cx: &Context<'_>, row: &Row) -> bool {
    let packet = cx.buffers.bytes(row.packet).get(row.l3 as usize..).unwrap_or_default();
    let message = packet.get(HEADER_LEN..).and_then(|payload| payload.first());
    message.is_some_and(|kind| Type(*kind).is_discovery())
        && ipv6::Header::new_unchecked(packet).next_header() == Protocol::ICMP6
        && ipv6::Header::new_unchecked(packet).hop_limit() == HOP_LIMIT
}
