//! What a packet says about an echo request of this router. For nodes of either family that receive ICMP.

use super::{Event, Refusal};
use graph::{Context, Row, time};
use std::net::IpAddr;
use wire::ipv4::{self, Protocol};
use wire::ipv6::{self, Chain};
use wire::{icmpv4, icmpv6};

/// An IP packet that carries a message of its family's ICMP.
struct Carried<'a> {
    from: IpAddr,
    to: IpAddr,
    hops: u8,
    /// Counted as VPP does: for IPv4 with the header, for IPv6 without it.
    bytes: u16,
    message: &'a [u8],
}

/// What a message means to a ping.
enum Said<'a> {
    Request { identifier: u16, sequence: u16 },
    Reply { identifier: u16, sequence: u16 },
    Error { refusal: Refusal, about: &'a [u8] },
}

impl<'a> Carried<'a> {
    /// A whole packet, or the first fragment of one. Of a packet in several buffers, only the bytes of the first one.
    fn read(packet: &'a [u8]) -> Option<Carried<'a>> {
        match packet.first()? >> 4 {
            4 => Carried::read4(packet),
            6 => Carried::read6(packet),
            _ => None,
        }
    }

    fn read4(packet: &'a [u8]) -> Option<Carried<'a>> {
        let length = ipv4::HEADER_LEN.max((packet[0] & 0xf) as usize * 4);
        let header = ipv4::Header::new_unchecked(packet.get(..length)?);
        let is_message = header.protocol() == Protocol::ICMP && header.fragment_offset() == 0;
        is_message.then(|| Carried {
            from: header.src().into(),
            to: header.dst().into(),
            hops: header.ttl(),
            bytes: header.total_len(),
            message: &packet[length..],
        })
    }

    fn read6(packet: &'a [u8]) -> Option<Carried<'a>> {
        let header = ipv6::Header::new_unchecked(packet.get(..ipv6::HEADER_LEN)?);
        let rest = &packet[ipv6::HEADER_LEN..];
        let chain = Chain::walk(header.next_header(), rest).ok()?;
        let is_later = chain.fragment.is_some_and(|fragment| fragment.fragment.offset > 0);
        let is_message = chain.protocol == Protocol::ICMP6 && !is_later;
        Some(Carried {
            from: header.src().into(),
            to: header.dst().into(),
            hops: header.hop_limit(),
            bytes: header.payload_len(),
            message: rest.get(chain.payload..).filter(|_| is_message)?,
        })
    }

    fn said(&self) -> Option<Said<'a>> {
        if self.from.is_ipv4() { said4(self.message) } else { said6(self.message) }
    }
}

fn said4(bytes: &[u8]) -> Option<Said<'_>> {
    use icmpv4::Message;
    let header = icmpv4::Header::new_checked(bytes).ok()?;
    match header.message() {
        Message::EchoRequest { identifier, sequence } => Some(Said::Request { identifier, sequence }),
        Message::EchoReply { identifier, sequence } => Some(Said::Reply { identifier, sequence }),
        _ if header.kind().is_error() => {
            let refusal = Refusal::Ip4(header.kind(), header.code());
            Some(Said::Error { refusal, about: &bytes[icmpv4::HEADER_LEN..] })
        }
        _ => None,
    }
}

fn said6(bytes: &[u8]) -> Option<Said<'_>> {
    use icmpv6::Message;
    let header = icmpv6::Header::new_checked(bytes).ok()?;
    match header.message() {
        Message::EchoRequest { identifier, sequence } => Some(Said::Request { identifier, sequence }),
        Message::EchoReply { identifier, sequence } => Some(Said::Reply { identifier, sequence }),
        _ if header.kind().is_error() => {
            let refusal = Refusal::Ip6(header.kind(), header.code());
            Some(Said::Error { refusal, about: &bytes[icmpv6::HEADER_LEN..] })
        }
        _ => None,
    }
}

/// A packet's bytes from its IP header on, as far as they are in the packet's first buffer.
fn bytes<'a>(cx: &'a Context<'_>, row: &Row) -> &'a [u8] {
    let bytes = cx.buffers.bytes(row.packet);
    let end = (row.l2 as usize + row.first_length(cx.buffers)).min(bytes.len());
    bytes.get(row.l3 as usize..end).unwrap_or_default()
}

/// The answer to an echo request that a packet carries: a reply, or an error that quotes the request.
pub(crate) fn answer(cx: &Context<'_>, row: &Row) -> Option<Event> {
    let packet = Carried::read(bytes(cx, row))?;
    match packet.said()? {
        Said::Reply { identifier, sequence } => {
            let Carried { from, hops, bytes, .. } = packet;
            Some(Event::Reply { identifier, sequence, ticks: time::ticks(), from, ttl: hops, bytes })
        }
        Said::Error { refusal, about } => {
            let request = Carried::read(about)?;
            let Said::Request { identifier, sequence } = request.said()? else { return None };
            Some(Event::Refused { identifier, sequence, from: packet.from, to: request.to, refusal })
        }
        Said::Request { .. } => None,
    }
}

/// What to report about this router's own packet that is not forwarded, if it is an echo request.
pub(crate) fn refused(cx: &Context<'_>, row: &Row, refusal: Refusal) -> Option<Event> {
    let packet = Carried::read(bytes(cx, row))?;
    let Said::Request { identifier, sequence } = packet.said()? else { return None };
    Some(Event::Refused { identifier, sequence, from: packet.from, to: packet.to, refusal })
}
