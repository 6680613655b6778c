//! `ip4-icmp-input`: ICMP messages to this router.
//!
//! Reads: the message behind the IPv4 header at `l3`. Writes: the echo reply in place; `target`, its destination. Next:
//! `ip4-lookup` with a reply; `ip4-punt` with messages that no node here answers. The worker reports replies to the
//! router's own pings, and errors about them, to the control thread.

use super::ping::{self, awaited::Awaited};
use graph::{Context, CounterSpec, Map, NodeSpec, Row, Scratch, Severity, Vector, flag};
use router::events::EventSender;
use router::headers::transport_checksum;
use router::ip::TABLES;
pub use router::reply::to_host::SharedPunts;
pub use router::reply::unclaimed::Unclaimed;
use wire::checksum;
use wire::icmpv4::{self, Type};
use wire::{Family, batch::check, ipv4};

graph::edges! {
    pub enum Edge {
        Lookup => next "ip4-lookup",
        Unclaimed => next "ip4-punt",
        /// The message is shorter than the 8 bytes of an ICMP header (RFC 792). The sender is broken or hostile.
        Truncated => warn "ICMP message shorter than its header",
        /// The checksum of the message is wrong (RFC 792). The message was damaged on its way, or the sender leaves
        /// checksums to a NIC that does not compute them.
        BadChecksum => warn "bad ICMP checksum",
        /// An answer to a `ping` of this router, or an ICMP error about one. Normal.
        Answer => end "ICMP answers to our requests",
        /// The control thread is overloaded, so this answer did not reach `ping`. This happens only under a flood.
        ControlBusy => drop "control is busy, answer not told",
        /// An ICMP error of this router, or a packet with this router's address as its source, came back. There is a
        /// loop, a bridge that reflects frames, or a sender that uses this router's address.
        Own => warn "packet of ours came back to us",
        /// A ping to a broadcast or multicast address. The router does not answer it, because many hosts could answer
        /// one request (RFC 1122 3.2.2.6).
        Group => end "ICMP echo to a group address ignored",
    }
}

const COUNTERS: &[CounterSpec] =
    &[CounterSpec("echo replies sent", Severity::Info, "The router answered a ping (RFC 792). Normal.")];

/// Hops that our own packets may take (RFC 1700's default).
pub const OUR_TTL: u8 = 64;

pub fn spec() -> NodeSpec {
    NodeSpec {
        name: "ip4-icmp-input".into(),
        edges: Edge::EDGES,
        counters: COUNTERS,
        trace: router::headers::trace_ip4,
    }
}

pub struct EchoInput {
    punts: SharedPunts,
    pub(super) awaited: Awaited,
}

impl EchoInput {
    pub(crate) fn new(events: EventSender<ping::Event>, punts: SharedPunts) -> EchoInput {
        EchoInput { punts, awaited: Awaited::new(events) }
    }

    fn one(&mut self, cx: &mut Context<'_>, row: &mut Row) -> Edge {
        let l3 = row.l3 as usize;
        let header_length = ipv4::Header::new_unchecked(&cx.buffers.bytes(row.packet)[l3..]).header_len();
        let start = l3 + header_length;
        if row.l3_length() < header_length + icmpv4::HEADER_LEN {
            return Edge::Truncated;
        }
        // A host on the same machine may leave the checksum to its device.
        if row.flags & flag::PARTIAL_CHECKSUM == 0
            && transport_checksum(cx, row, start, row.l3_length() - header_length, 0) != 0
        {
            return Edge::BadChecksum;
        }
        if Type(cx.buffers.bytes(row.packet)[start]) == Type::ECHO_REQUEST {
            return reply(cx, row, start);
        }
        if let Some(told) = self.awaited.tell(cx, row, Edge::Answer, Edge::ControlBusy) {
            return told;
        }
        let ways = self.punts.load(cx.round).of(Family::Ip4);
        let Some(reason) = Unclaimed::message(row, ways) else { return Edge::Own };
        row.scratch = Scratch::of(reason);
        Edge::Unclaimed
    }
}

impl Map for EchoInput {
    fn process(&mut self, cx: &mut Context<'_>, vector: &mut Vector) {
        vector.each_row(|row| self.one(cx, row));
    }
}

/// Turns a request into its reply.
fn reply(cx: &mut Context<'_>, row: &mut Row, start: usize) -> Edge {
    let l3 = row.l3 as usize;
    if row.flags & check::GROUP != 0 {
        return Edge::Group; // RFC 1122 3.2.2.6 lets us
    }
    let bytes = cx.buffers.bytes_mut(row.packet);
    // Only the type changes, from 8 to 0 (RFC 1624).
    bytes[start] = Type::ECHO_REPLY.0;
    if row.flags & flag::PARTIAL_CHECKSUM == 0 {
        let old = u16::from_be_bytes([bytes[start + 2], bytes[start + 3]]);
        let code = bytes[start + 1] as u16;
        let new = checksum::update16(old, u16::from(Type::ECHO_REQUEST.0) << 8 | code, code);
        bytes[start + 2..start + 4].copy_from_slice(&new.to_be_bytes());
    }
    let mut header = ipv4::Header::new_unchecked(&mut bytes[l3..]);
    let (asker, us) = (header.src(), header.dst());
    header.set_src(us);
    header.set_dst(asker);
    header.set_ttl(OUR_TTL);
    // The packet is reassembled by now and is our own: it may be fragmented on its way back.
    header.set_fragment(false, false, 0);
    header.fill_checksum();
    row.target = asker.into();
    row.flags = (row.flags | flag::ORIGINATED) & !(check::TTL | check::GROUP | TABLES);
    cx.count(0, 1);
    Edge::Lookup
}
