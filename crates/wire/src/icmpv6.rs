//! Internet Control Message Protocol for IPv6 (RFC 4443). [`crate::nd`] reads its messages of Neighbor Discovery.

use std::fmt;

use crate::addr::Ipv6Address;
use crate::checksum;
use crate::icmp::{self, Version};
pub use crate::icmp::{HEADER_LEN, ParseError};
use crate::ipv4::Protocol;

/// The message type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Type(pub u8);

impl Type {
    pub const DESTINATION_UNREACHABLE: Self = Self(1);
    pub const PACKET_TOO_BIG: Self = Self(2);
    pub const TIME_EXCEEDED: Self = Self(3);
    pub const PARAMETER_PROBLEM: Self = Self(4);
    pub const ECHO_REQUEST: Self = Self(128);
    pub const ECHO_REPLY: Self = Self(129);
    pub const LISTENER_QUERY: Self = Self(130);
    pub const LISTENER_REPORT: Self = Self(131);
    pub const LISTENER_DONE: Self = Self(132);
    pub const ROUTER_SOLICITATION: Self = Self(133);
    pub const ROUTER_ADVERTISEMENT: Self = Self(134);
    pub const NEIGHBOUR_SOLICITATION: Self = Self(135);
    pub const NEIGHBOUR_ADVERTISEMENT: Self = Self(136);
    pub const REDIRECT: Self = Self(137);
    pub const LISTENER_REPORT_2: Self = Self(143);

    /// Whether the message reports an error: the lower half (RFC 4443 section 2.1). No error is ever sent about one
    /// of these, nor about a redirect (section 2.4 e).
    #[inline]
    pub const fn is_error(self) -> bool {
        self.0 < 128
    }

    /// Whether the message is one of Neighbor Discovery (RFC 4861 section 4).
    pub const fn is_discovery(self) -> bool {
        matches!(self.0, 133..=137)
    }

    /// The name that operators see in VPP's traces for `code` of this type, if it has one.
    pub fn code_name(self, code: u8) -> Option<&'static str> {
        let names: &[&str] = match self {
            Self::DESTINATION_UNREACHABLE => &unreachable::NAMES,
            Self::TIME_EXCEEDED => &time_exceeded::NAMES,
            Self::PARAMETER_PROBLEM => &parameter_problem::NAMES,
            _ => &[],
        };
        names.get(usize::from(code)).copied()
    }
}

impl From<u8> for Type {
    fn from(kind: u8) -> Self {
        Self(kind)
    }
}

impl From<Type> for u8 {
    fn from(kind: Type) -> Self {
        kind.0
    }
}

/// The names that operators see in VPP's traces.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::DESTINATION_UNREACHABLE => "destination_unreachable",
            Self::PACKET_TOO_BIG => "packet_too_big",
            Self::TIME_EXCEEDED => "time_exceeded",
            Self::PARAMETER_PROBLEM => "parameter_problem",
            Self::ECHO_REQUEST => "echo_request",
            Self::ECHO_REPLY => "echo_reply",
            Self::LISTENER_QUERY => "multicast_listener_request",
            Self::LISTENER_REPORT => "multicast_listener_report",
            Self::LISTENER_DONE => "multicast_listener_done",
            Self::ROUTER_SOLICITATION => "router_solicitation",
            Self::ROUTER_ADVERTISEMENT => "router_advertisement",
            Self::NEIGHBOUR_SOLICITATION => "neighbor_solicitation",
            Self::NEIGHBOUR_ADVERTISEMENT => "neighbor_advertisement",
            Self::REDIRECT => "redirect",
            Self::LISTENER_REPORT_2 => "multicast_listener_report_v2",
            Self(other) => return write!(f, "unknown 0x{other:x}"),
        })
    }
}

/// Codes of [`Type::DESTINATION_UNREACHABLE`] (RFC 4443 section 3.1).
pub mod unreachable {
    pub const NO_ROUTE: u8 = 0;
    pub const PROHIBITED: u8 = 1;
    pub const BEYOND_SCOPE: u8 = 2;
    pub const ADDRESS: u8 = 3;
    pub const PORT: u8 = 4;
    pub const SOURCE_POLICY: u8 = 5;
    pub const REJECT: u8 = 6;

    pub(super) const NAMES: [&str; 7] = [
        "destination_unreachable_no_route",
        "administratively_prohibited",
        "beyond_scope_of_source_address",
        "address_unreachable",
        "port_unreachable",
        "source_address_failed_policy",
        "reject_route_to_destination",
    ];
}

/// Codes of [`Type::TIME_EXCEEDED`] (RFC 4443 section 3.3).
pub mod time_exceeded {
    pub const HOP_LIMIT: u8 = 0;
    pub const FRAGMENT_REASSEMBLY: u8 = 1;

    pub(super) const NAMES: [&str; 2] = ["ttl_exceeded_in_transit", "fragment_reassembly_time_exceeded"];
}

/// Codes of [`Type::PARAMETER_PROBLEM`] (RFC 4443 section 3.4; 3: RFC 7112).
pub mod parameter_problem {
    pub const ERRONEOUS_FIELD: u8 = 0;
    pub const NEXT_HEADER: u8 = 1;
    pub const OPTION: u8 = 2;
    pub const FIRST_FRAGMENT: u8 = 3;

    pub(super) const NAMES: [&str; 4] = [
        "erroneous_header_field",
        "unrecognized_next_header",
        "unrecognized_option",
        "first_fragment_has_incomplete_header_chain",
    ];
}

/// The meaning of a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    EchoRequest {
        identifier: u16,
        sequence: u16,
    },
    EchoReply {
        identifier: u16,
        sequence: u16,
    },
    DestinationUnreachable {
        code: u8,
    },
    /// In bytes.
    PacketTooBig {
        mtu: u32,
    },
    TimeExceeded {
        code: u8,
    },
    /// `pointer` is the offset of the byte at fault in the quoted packet.
    ParameterProblem {
        code: u8,
        pointer: u32,
    },
    Other {
        kind: Type,
        code: u8,
        rest: u32,
    },
}

impl Message {
    /// Fields that a type leaves unused are not kept.
    pub const fn from_parts(kind: Type, code: u8, rest: u32) -> Self {
        let (high, low) = ((rest >> 16) as u16, rest as u16);
        match kind {
            Type::ECHO_REQUEST if code == 0 => Self::EchoRequest { identifier: high, sequence: low },
            Type::ECHO_REPLY if code == 0 => Self::EchoReply { identifier: high, sequence: low },
            Type::DESTINATION_UNREACHABLE => Self::DestinationUnreachable { code },
            // The code is to be ignored (RFC 4443 section 3.2).
            Type::PACKET_TOO_BIG => Self::PacketTooBig { mtu: rest },
            Type::TIME_EXCEEDED => Self::TimeExceeded { code },
            Type::PARAMETER_PROBLEM => Self::ParameterProblem { code, pointer: rest },
            _ => Self::Other { kind, code, rest },
        }
    }

    /// Type, code and the four bytes after the checksum.
    pub fn into_parts(self) -> (Type, u8, u32) {
        let pair = |high: u16, low: u16| u32::from(high) << 16 | u32::from(low);
        match self {
            Self::EchoRequest { identifier, sequence } => (Type::ECHO_REQUEST, 0, pair(identifier, sequence)),
            Self::EchoReply { identifier, sequence } => (Type::ECHO_REPLY, 0, pair(identifier, sequence)),
            Self::DestinationUnreachable { code } => (Type::DESTINATION_UNREACHABLE, code, 0),
            Self::PacketTooBig { mtu } => (Type::PACKET_TOO_BIG, 0, mtu),
            Self::TimeExceeded { code } => (Type::TIME_EXCEEDED, code, 0),
            Self::ParameterProblem { code, pointer } => (Type::PARAMETER_PROBLEM, code, pointer),
            Self::Other { kind, code, rest } => (kind, code, rest),
        }
    }

    /// Writes the header to the first 8 bytes of `bytes` with a checksum of zero, which
    /// [`Header::fill_checksum`] fills when the rest of the message is in place.
    ///
    /// # Panics
    /// When `bytes` is shorter than that.
    pub fn emit(self, bytes: &mut [u8]) {
        let (kind, code, rest) = self.into_parts();
        icmp::emit(bytes, kind, code, rest);
    }
}

/// A view of a message: all bytes of an IP payload.
pub type Header<T> = icmp::Header<T, V6>;

/// Names the messages of IPv6.
#[derive(Clone, Copy, Debug)]
pub enum V6 {}

impl Version for V6 {
    type Type = Type;
    type Message = Message;

    #[inline]
    fn message(kind: Type, code: u8, rest: u32) -> Message {
        Message::from_parts(kind, code, rest)
    }
}

impl<T: AsRef<[u8]>> Header<T> {
    /// The sum over message and pseudo header (RFC 4443 section 2.3).
    fn sum(&self, src: Ipv6Address, dst: Ipv6Address) -> u16 {
        let pseudo = checksum::pseudo_header6(src, dst, Protocol::ICMP6.0, self.bytes().len() as u32);
        checksum::fold(checksum::sum(self.bytes(), pseudo))
    }

    /// Whether the checksum is right.
    pub fn verify_checksum(&self, src: Ipv6Address, dst: Ipv6Address) -> bool {
        self.sum(src, dst) == 0xffff
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Header<T> {
    /// Makes the checksum over the message as it stands.
    pub fn fill_checksum(&mut self, src: Ipv6Address, dst: Ipv6Address) {
        self.set_checksum(0);
        let sum = !self.sum(src, dst);
        self.set_checksum(sum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn address(text: &str) -> Ipv6Address {
        text.parse().unwrap()
    }

    #[test]
    fn a_checksum_is_that_of_another_implementation() {
        let (src, dst) = (address("fe80::1"), address("ff02::1"));
        let mut bytes = [0; HEADER_LEN + 4];
        Message::EchoRequest { identifier: 7, sequence: 9 }.emit(&mut bytes);
        bytes[8..].copy_from_slice(b"ping");
        let mut header = Header::new_checked(&mut bytes[..]).unwrap();
        header.fill_checksum(src, dst);
        assert!(header.verify_checksum(src, dst) && !header.verify_checksum(src, address("ff02::2")));
        let kind = etherparse::Icmpv6Type::EchoRequest(etherparse::IcmpEchoHeader { id: 7, seq: 9 });
        let theirs = kind.calc_checksum(src.octets(), dst.octets(), b"ping").unwrap();
        assert_eq!(Header::new_checked(&bytes[..]).unwrap().checksum(), theirs);
    }

    #[test]
    fn errors_are_the_lower_half_and_have_names() {
        assert!(Type::PARAMETER_PROBLEM.is_error() && !Type::ECHO_REQUEST.is_error() && !Type::REDIRECT.is_error());
        let name = |kind: Type, code| kind.code_name(code);
        assert_eq!(name(Type::DESTINATION_UNREACHABLE, 3), Some("address_unreachable"));
        assert_eq!(name(Type::TIME_EXCEEDED, 2), None);
        assert_eq!(Type(200).to_string(), "unknown 0xc8");
    }

    proptest! {
        #[test]
        fn messages_read_back(bytes in prop::collection::vec(any::<u8>(), 8..40)) {
            let message = Header::new_checked(&bytes[..]).unwrap().message();
            let (kind, code, rest) = message.into_parts();
            prop_assert_eq!(Message::from_parts(kind, code, rest), message);
        }
    }
}
