//! `ip6-local`: packets to an address of this router, or to a group of which it is a member.
//!
//! This node reads the extension headers, up to a limit (RFC 8200 section 4). Of packets that the router forwards, it
//! reads only the first header. Packets from another host are dropped when their source is one of our addresses, or has
//! no route back.
//!
//! Reads: source and extension headers. Writes: `scratch`, the offset of the payload from the IPv6 header. Next: by the
//! payload's protocol; `ip6-punt` when no node here takes it, with the reason in scratch;
//! `ip6-local-full-reassembly` with fragments, from where the whole packet returns here. Where features are enabled on
//! the arc `ip6-local`, packets pass these first, and `ip6-local-end-of-arc` sends them on by protocol.

use crate::ip6::Ip6View;
use graph::{ArcIndex, Context, InterfaceIndex, Map, NodeSpec, Row, Scratch, Vector};
use router::headers::PayloadAt;
use router::interface::SharedViews;
pub use router::ip::source::{Fault, Sources};
use router::ip::source6::speaks_of_neighbours;
pub use router::reply::report6::Report;
pub use router::reply::unclaimed::Unclaimed;
use tables::{Leaf, Lookup6};
use wire::icmpv6::parameter_problem;
use wire::ipv4::Protocol;
use wire::ipv6::{self, Chain, ChainError, HEADER_LEN, OptionVerdict, next_header};
use wire::{tcp, udp};

graph::edges! {
    pub enum Edge {
        Icmp => next "ip6-icmp-input",
        IcmpError => next "ip6-icmp-error",
        Udp => next "ip6-udp-lookup",
        Unclaimed => next "ip6-punt",
        Reassemble => next "ip6-local-full-reassembly",
        /// A packet to this router arrived from outside with one of the router's own addresses as its source. The
        /// sender forges addresses, or another station has an address of this router.
        Spoofed => warn "ip6 spoofed local-address packet drops",
        /// A packet to this router has a source to which the router has no route, so the router could not answer it.
        /// The source is forged, or a route back is missing (`show ip6 fib`).
        SourceMiss => warn "ip6 source lookup miss",
        /// The destination is an address of this router that the router does not use yet, because duplicate address
        /// detection is still in progress (RFC 4862 5.4). A few are normal when the router or a link comes up.
        Tentative => note "ip6 destination is a tentative address",
        /// An extension header extends beyond the end of the packet (RFC 8200 4). The packet was truncated on its
        /// way, or built to attack parsers.
        Truncated => warn "ip6 extension header beyond the packet",
        /// The packet has more than eight extension headers. No sender needs that many: such packets are built to
        /// waste processing time (RFC 8504 5.3).
        TooMany => warn "ip6 too many extension headers",
        /// The packet has a second fragment header. Such packets are built to attack parsers (RFC 7112).
        FragmentTwice => warn "ip6 second fragment header",
        /// The packet has an option that this router does not know and that requests a silent discard (RFC 8200 4.2).
        Option => note "ip6 option says discard",
        /// The packet ends after its headers: the next header is No Next Header (RFC 8200 4.7). There is nothing to
        /// process.
        NoNextHeader => end "ip6 no next header",
        Features => arc "ip6-local",
    }
}

/// The name of the node behind the features of the arc.
pub const END_OF_ARC: &str = "ip6-local-end-of-arc";

mod end {
    graph::edges! {
        pub enum Edge {
            Icmp => next "ip6-icmp-input",
            Udp => next "ip6-udp-lookup",
            Unclaimed => next "ip6-punt",
            /// A feature on the arc `ip6-local` changed the packet's extension headers, and what it left is no packet
            /// for this router. The feature is at fault.
            Changed => drop "ip6 extension headers spoilt by a feature",
        }
    }
}

pub fn end_spec() -> NodeSpec {
    NodeSpec { name: END_OF_ARC.into(), edges: end::Edge::EDGES, counters: &[], trace: router::headers::trace_ip6 }
}

/// `ip6-local-end-of-arc`. Features may have changed the packet, so its headers are read again.
pub struct EndOfArc;

impl Map for EndOfArc {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        vector.each_row(|row| match deliver(cx, row) {
            Edge::Icmp => end::Edge::Icmp,
            Edge::Udp => end::Edge::Udp,
            Edge::Unclaimed => end::Edge::Unclaimed,
            _ => end::Edge::Changed,
        });
    }
}

/// The offset of the byte of an IPv6 header that names the next header.
const NEXT_HEADER_AT: usize = 6;

pub fn spec() -> NodeSpec {
    NodeSpec { name: "ip6-local".into(), edges: Edge::EDGES, counters: &[], trace: router::headers::trace_ip6 }
}

pub struct Ip6Local {
    sources: Sources<Lookup6>,
    view: SharedViews,
    arc: ArcIndex,
}

impl Ip6Local {
    pub fn new(sources: Sources<Lookup6>, view: SharedViews, arc: ArcIndex) -> Ip6Local {
        Ip6Local { sources, view, arc }
    }
}

impl Map for Ip6Local {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        let faults = self.sources.judge(cx, vector);
        let view = self.view.load(cx.round);
        for (i, fault) in faults[..vector.len()].iter().enumerate() {
            let mut row = vector.row(i);
            // The leaf names the interface that owns the address.
            let owner = view.get(InterfaceIndex(Leaf(row.target).index()));
            let is_tentative = owner.is_some_and(|owner| is_to_unused(cx, &row, &owner.ip6));
            let to = match fault.filter(|_| !speaks_of_neighbours(cx, &row)) {
                Some(Fault::Ours) => Edge::Spoofed,
                Some(Fault::Unreachable) => Edge::SourceMiss,
                None if is_tentative && !speaks_of_neighbours(cx, &row) => Edge::Tentative,
                None => deliver(cx, &mut row),
            };
            vector.set_row(i, row);
            let is_taken = matches!(to, Edge::Icmp | Edge::Udp | Edge::Unclaimed);
            let chain = if is_taken { cx.chain(self.arc, row.rx_interface) } else { None };
            vector.send(i, chain, to.into());
        }
    }
}

/// Whether a packet is to an address that is not in use yet. Most interfaces have no such address.
fn is_to_unused(cx: &Context<'_>, row: &Row, view: &Ip6View) -> bool {
    let header = || cx.buffers.bytes(row.packet).get(row.l3 as usize..).filter(|bytes| bytes.len() >= HEADER_LEN);
    let destination = || header().map(|bytes| ipv6::Header::new_unchecked(bytes).dst());
    view.unused().next().is_some() && destination().is_some_and(|destination| view.standing(destination).is_some())
}

/// Where a packet goes, by the protocol behind its extension headers.
fn deliver(cx: &Context<'_>, row: &mut Row) -> Edge {
    let bytes = cx.buffers.bytes(row.packet);
    let begin = row.l3 as usize;
    let end = (row.l2 as usize + row.first_length(cx.buffers)).min(bytes.len());
    let Some(bytes) = bytes.get(begin..end).filter(|bytes| bytes.len() >= HEADER_LEN) else { return Edge::Truncated };
    let header = ipv6::Header::new_unchecked(bytes);
    let (first, rest) = (header.next_header(), &bytes[HEADER_LEN..]);
    let mut problem = |code: u8, at: usize| {
        row.scratch = Scratch::of(Report::parameter_problem(code, at as u32));
        Edge::IcmpError
    };
    let chain = match Chain::walk(first, rest) {
        Ok(chain) => chain,
        Err(ChainError::Truncated { .. }) => return Edge::Truncated,
        Err(ChainError::BeyondFirstFragment { .. }) => return problem(parameter_problem::FIRST_FRAGMENT, 0),
        Err(ChainError::TooMany { .. }) => return Edge::TooMany,
        Err(ChainError::FragmentTwice { .. }) => return Edge::FragmentTwice,
        Err(ChainError::HopByHopLate { named_at }) => {
            return problem(parameter_problem::NEXT_HEADER, HEADER_LEN + named_at);
        }
    };
    // Headers behind a fragment header are checked once the packet is whole.
    let own_end = chain.own_end();
    if let Some((at, _)) = chain.routing.filter(|(at, _)| *at < own_end) {
        // RFC 8200 4.4, RFC 5095, RFC 8754 4.3: this router is no segment endpoint.
        return problem(parameter_problem::ERRONEOUS_FIELD, HEADER_LEN + at + 2);
    }
    let to_group = header.dst().is_multicast();
    match judge_options(first, &rest[..own_end], to_group) {
        Ok(()) => {}
        Err(Refusal::Silent) => return Edge::Option,
        Err(Refusal::Told(code, at)) => return problem(code, HEADER_LEN + at),
    }
    if let Some(ipv6::FragmentHeader { fragment, .. }) = chain.fragment.filter(|_| chain.is_fragment()) {
        let room = (header.payload_len() as usize).saturating_sub(chain.payload);
        if fragment.offset == 0 && room < upper_header(chain.protocol) {
            return problem(parameter_problem::FIRST_FRAGMENT, 0);
        }
        return Edge::Reassemble;
    }
    let at = HEADER_LEN + chain.payload;
    let reason = match chain.protocol {
        next_header::NONE => return Edge::NoNextHeader,
        Protocol::ICMP6 | Protocol::UDP => {
            row.scratch = Scratch::of(PayloadAt(at as u32));
            return if chain.protocol == Protocol::UDP { Edge::Udp } else { Edge::Icmp };
        }
        Protocol::TCP => Unclaimed::Segment { at: at as u32 },
        // RFC 8200 section 4: the offset of the byte that names the protocol.
        _ => Unclaimed::Protocol { named_at: chain.named_at.map_or(NEXT_HEADER_AT, |at| HEADER_LEN + at) as u32 },
    };
    row.scratch = Scratch::of(reason);
    Edge::Unclaimed
}

/// Why a packet is refused because of its options.
enum Refusal {
    Silent,
    /// The code of a parameter problem, and the offset of the fault from the end of the IPv6 header.
    Told(u8, usize),
}

/// Bytes of the upper-layer header that a first fragment must contain after the extension headers (RFC 7112 section 3).
/// For ICMPv6 these are the type, the code and the checksum.
fn upper_header(protocol: Protocol) -> usize {
    match protocol {
        Protocol::TCP => tcp::HEADER_LEN,
        Protocol::UDP => udp::HEADER_LEN,
        Protocol::ICMP6 => 4,
        _ => 0,
    }
}

/// Checks the options of a packet (RFC 8200 section 4.2) in the extension headers in `bytes`.
fn judge_options(first: Protocol, bytes: &[u8], to_group: bool) -> Result<(), Refusal> {
    let (mut protocol, mut at) = (first, 0);
    while at < bytes.len() {
        let Some(header) = bytes.get(at..).and_then(|rest| ipv6::extension_header(protocol, rest)) else {
            return Ok(());
        };
        if matches!(protocol, next_header::HOP_BY_HOP | next_header::DESTINATION) {
            match ipv6::options(header) {
                OptionVerdict::GoOn { .. } => {}
                OptionVerdict::Discard => return Err(Refusal::Silent),
                OptionVerdict::TellUnlessGroup { .. } if to_group => return Err(Refusal::Silent),
                OptionVerdict::Tell { at: option } | OptionVerdict::TellUnlessGroup { at: option } => {
                    return Err(Refusal::Told(parameter_problem::OPTION, at + option));
                }
                OptionVerdict::Malformed { at: option } => {
                    return Err(Refusal::Told(parameter_problem::ERRONEOUS_FIELD, at + option));
                }
            }
        }
        (protocol, at) = (Protocol(header[0]), at + header.len());
    }
    Ok(())
}
