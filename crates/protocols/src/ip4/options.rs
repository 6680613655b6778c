//! `ip4-options`: packets whose header has options (RFC 791 3.1, RFC 1812 5.2.4.1). Their syntax is
//! checked once, here.
//!
//! Reads: the options. Writes: [`OPTIONS`] for packets on which the router's address or the time is to be
//! recorded: `ip4-rewrite` does that with [`record`], for it knows the interface by which they leave. Next:
//! `ip4-lookup`, or `ip4-local` with what is for all, by way of `ip4-rx-urpf` where sources are checked;
//! `ip4-icmp-error` with what is malformed, and with source routes, which are refused (RFC 7126 4.3 and 4.4). Options
//! that are not known pass as they are (RFC 1812 4.2.2.1).

use super::onward;
use crate::ip4::OPTIONS;
use graph::{Context, CounterSpec, InterfaceIndex, Map, NodeSpec, Severity, Vector};
use router::interface::ViewTable;
use router::ip::arcs::InputArcs;
pub use router::reply::report4::Report;
use router::table_index::own_table;
use std::net::Ipv4Addr;
use std::time::{SystemTime, UNIX_EPOCH};
use wire::icmpv4::unreachable;
use wire::ip4_options::{self, Fault};
use wire::ipv4::{self, HEADER_LEN};

graph::edges! {
    pub enum Edge {
        Lookup => arc "ip4-unicast",
        Local => arc "ip4-multicast",
        IcmpError => next "ip4-icmp-error",
    }
}

/// In the order of [`counter_of`], then those that are no fault.
const COUNTERS: &[CounterSpec] = &[
    CounterSpec(
        "ip4 option without a length",
        Severity::Warning,
        "The header ends after the type of an option that must have a length (RFC 791 3.1). The router answers with \
         an ICMP parameter problem.",
    ),
    CounterSpec(
        "ip4 option length too small",
        Severity::Warning,
        "The length of an option is less than 2, or less than the minimum of a record route, timestamp or source \
         route (RFC 791 3.1). The router answers with an ICMP parameter problem.",
    ),
    CounterSpec(
        "ip4 option longer than the header",
        Severity::Warning,
        "The length of an option points beyond the end of the header (RFC 791 3.1). The router answers with an ICMP \
         parameter problem.",
    ),
    CounterSpec(
        "ip4 option pointer too small",
        Severity::Warning,
        "The pointer of a record route, timestamp or source route points before its first entry (RFC 791 3.1). The \
         router answers with an ICMP parameter problem.",
    ),
    CounterSpec(
        "ip4 option has no room for a whole entry",
        Severity::Warning,
        "A record route, timestamp or source route has room left, but not for a whole address or time (RFC 791 3.1). \
         The router answers with an ICMP parameter problem.",
    ),
    CounterSpec(
        "ip4 option appears twice",
        Severity::Warning,
        "The header has two record routes or two timestamps (RFC 791 3.1). The router answers with an ICMP parameter \
         problem.",
    ),
    CounterSpec(
        "ip4 timestamp overflow",
        Severity::Warning,
        "More than 15 routers had no room for their time in a timestamp option, and the option cannot count more \
         than 15 (RFC 791 3.1). The router answers with an ICMP parameter problem.",
    ),
    CounterSpec(
        "ip4 source route refused",
        Severity::Warning,
        "The packet has a loose or strict source route. With it, the sender chooses the path itself and can bypass \
         filters. The router refuses the packet with ICMP source route failed (RFC 7126 4.3 and 4.4, RFC 1812 \
         5.2.4.1).",
    ),
];
const SOURCE_ROUTE: usize = 7;

fn counter_of(fault: Fault) -> usize {
    match fault {
        Fault::LengthMissing => 0,
        Fault::LengthTooSmall => 1,
        Fault::BeyondHeader => 2,
        Fault::PointerTooSmall => 3,
        Fault::RoomTooSmall => 4,
        Fault::Twice => 5,
        Fault::Overflow => 6,
    }
}

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip4-options".into(), edges: Edge::EDGES, counters: COUNTERS, trace: router::headers::trace_ip4 }
}

pub struct Ip4Options {
    arcs: InputArcs,
}

impl Ip4Options {
    pub(crate) fn new(arcs: InputArcs) -> Ip4Options {
        Ip4Options { arcs }
    }
}

impl Map for Ip4Options {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        for i in 0..vector.len() {
            let mut row = vector.row(i);
            let header = ipv4::Header::new_unchecked(&cx.buffers.bytes(row.packet)[row.l3 as usize..]);
            let report = match ip4_options::examine(header.option_bytes()) {
                Ok(request) if request.source_route => {
                    cx.count(SOURCE_ROUTE, 1);
                    Report::unreachable(unreachable::SOURCE_ROUTE_FAILED)
                }
                Ok(request) => {
                    if request.record {
                        row.flags |= OPTIONS;
                        vector.set_row(i, row);
                    }
                    let to = onward(vector, i, Edge::Local, Edge::Lookup);
                    let chain = match to {
                        _ if own_table(&row).is_some() => None,
                        Edge::Local => self.arcs.multicast(cx, row.rx_interface),
                        _ => self.arcs.unicast(cx, row.rx_interface),
                    };
                    vector.send(i, chain, to.into());
                    continue;
                }
                Err((fault, at)) => {
                    cx.count(counter_of(fault), 1);
                    Report::parameter_problem(at)
                }
            };
            vector.leave(i, report);
            vector.set_edge(i, Edge::IcmpError.into());
        }
    }
}

/// Records in the options of the header at the start of `packet` what they ask for: that it leaves
/// by `interface`, now.
pub fn record(packet: &mut [u8], view: &ViewTable, interface: InterfaceIndex) {
    let header = ipv4::Header::new_unchecked(&*packet);
    let (length, towards) = (header.header_len(), header.dst());
    let Some(address) = view.get(interface).and_then(|view| view.address_towards(towards)) else { return };
    let is_ours = |address: Ipv4Addr| view.iter().any(|view| view.owns(address));
    ip4_options::record(&mut packet[HEADER_LEN..length], address, milliseconds_of_day(), is_ours);
    ipv4::Header::new_unchecked(packet).fill_checksum();
}

/// Since midnight UT (RFC 791 3.1).
fn milliseconds_of_day() -> u32 {
    const DAY: u128 = 24 * 60 * 60 * 1000;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    (now.as_millis() % DAY) as u32
}
