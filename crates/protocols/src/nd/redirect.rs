//! `ip6-redirect`: tells hosts of a better first hop than this router (RFC 4861 section 8.2), as `ip4-redirect` does.
//!
//! `ip6-rewrite` sends packets here that are about to leave by the interface that they came by, if redirects are
//! enabled on it. The packets return to `ip6-rewrite` with a mark, so that they come here only once. A sender that is a
//! neighbour also gets a redirect: to the destination itself when that is on the link, else to the next router, which
//! hosts know only by its link-local address. Reads: `target`, the adjacency; the packet at `l3`. Next: `ip6-rewrite`
//! with the packet, `ip6-glean` with the message.

use super::input::finish;
use crate::icmp::redirect::{self, Advice, Edge as Order, Tables};
use crate::icmp6;
use graph::{Context, CounterSpec, NodeSpec, Row, Severity};
use router::ip::class;
pub use router::reply::report;
use std::net::{IpAddr, Ipv6Addr};
use tables::Leaf;
use wire::MacAddress;
use wire::batch::check;
use wire::ipv6::{self, HEADER_LEN, MIN_MTU};
use wire::nd::{self, NdOption, REDIRECT_LEN, REDIRECTED_HEADER_LEN};

graph::edges! {
    pub enum Edge {
        Rewrite => next "ip6-rewrite",
        Message => next "ip6-glean",
    }
}

const _: () = assert!(Edge::Rewrite as u16 == Order::Rewrite as u16 && Edge::Message as u16 == Order::Message as u16);

const COUNTERS: &[CounterSpec] = &[
    CounterSpec(
        "ICMPv6 redirect sent",
        Severity::Info,
        "A host sent a packet to this router although a better next hop is on the host's own link. The router sent a \
         redirect to the host (RFC 4861 8.2). Normal in networks with several routers. `set interface ip6 redirects` \
         enables or disables redirects.",
    ),
    redirect::limited("ICMPv6 redirects limited by rate"),
    redirect::NO_BUFFER_COUNTER,
    CounterSpec(
        "ICMPv6 redirect not sent, next hop is no link-local address",
        Severity::Info,
        "The router could not redirect a host to a better next hop. The route does not use the link-local address of \
         the next hop, and hosts accept no other address for a router (RFC 4861 8.2). Configure the route with the \
         link-local address, as in `via fe80::9 e0`.",
    ),
];
const NOT_LINK_LOCAL: usize = 3;

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip6-redirect".into(), edges: Edge::EDGES, counters: COUNTERS, trace: router::headers::trace_ip6 }
}

/// Bytes of the option with the target's Ethernet address.
const LINK_OPTION_LEN: usize = 8;
/// The length field of the option for the quote counts in units of this size.
const OPTION_UNIT: usize = 8;

/// A redirect.
pub(super) struct Advice6 {
    us: Ipv6Addr,
    sender: Ipv6Addr,
    destination: Ipv6Addr,
    target: Ipv6Addr,
    target_mac: MacAddress,
    /// The object for packets onto the link.
    link: u32,
}

impl Advice for Advice6 {
    const HEADERS: usize = HEADER_LEN + REDIRECT_LEN + LINK_OPTION_LEN + REDIRECTED_HEADER_LEN;

    fn find(tables: &Tables, cx: &mut Context<'_>, row: &Row) -> Option<Advice6> {
        if icmp6::forbidden(cx, row, false).is_some() {
            return None;
        }
        let header = ipv6::Header::new_unchecked(&cx.buffers.bytes(row.packet)[row.l3 as usize..]);
        let (sender, destination) = (header.src(), header.dst());
        let here = &tables.view.load(cx.round).get(row.rx_interface)?.ip6;
        let (us, link) = (here.link_local?, here.on_link?);
        if !here.is_attached(sender) {
            return None;
        }
        let object = tables.objects.get(cx.round, Leaf(row.target).index());
        let target = match object.next_hop6() {
            Ipv6Addr::UNSPECIFIED => destination,
            next_hop => next_hop,
        };
        if target == sender {
            return None;
        }
        if target != destination && !target.is_unicast_link_local() {
            cx.count(NOT_LINK_LOCAL, 1);
            return None;
        }
        let target_mac = MacAddress(*object.rewrite().first_chunk()?);
        Some(Advice6 { us, sender, destination, target, target_mac, link })
    }

    fn about(&self) -> (IpAddr, IpAddr) {
        (self.sender.into(), self.destination.into())
    }

    /// As much as fits the least MTU (RFC 4861 4.5), in whole option units.
    fn quoted(cx: &Context<'_>, row: &Row) -> usize {
        let quote = report::quoted(cx, row, usize::from(MIN_MTU) - Self::HEADERS);
        quote - quote % OPTION_UNIT
    }

    fn emit(&self, packet: &mut [u8], _id: u16) {
        let quote = packet.len() - Self::HEADERS;
        let message = &mut packet[HEADER_LEN..];
        nd::emit_redirect(message, self.target, self.destination);
        let (link, quoting) = message[REDIRECT_LEN..].split_at_mut(LINK_OPTION_LEN);
        NdOption::TargetLinkAddress(self.target_mac).emit(link);
        nd::emit_redirected_header(quoting, quote);
        finish(packet, self.us, self.sender);
    }

    fn leave(&self, row: &mut Row) {
        // The message is from a link-local address, so routes do not apply.
        row.target = Leaf::new(class::GLEAN, self.link).0;
        row.flags |= check::EXAMINED6;
    }
}
