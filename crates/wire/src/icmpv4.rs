//! Internet Control Message Protocol (RFC 792), with the codes of RFC 1122 and RFC 1812 and
//! the next-hop MTU of RFC 1191.

use std::fmt;

use crate::addr::Ipv4Address;
use crate::checksum;
use crate::icmp::{self, Version};
pub use crate::icmp::{HEADER_LEN, ParseError};

/// The message type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Type(pub u8);

impl Type {
    pub const ECHO_REPLY: Self = Self(0);
    pub const DESTINATION_UNREACHABLE: Self = Self(3);
    pub const SOURCE_QUENCH: Self = Self(4);
    pub const REDIRECT: Self = Self(5);
    pub const ECHO_REQUEST: Self = Self(8);
    pub const ROUTER_ADVERTISEMENT: Self = Self(9);
    pub const ROUTER_SOLICITATION: Self = Self(10);
    pub const TIME_EXCEEDED: Self = Self(11);
    pub const PARAMETER_PROBLEM: Self = Self(12);
    pub const TIMESTAMP_REQUEST: Self = Self(13);
    pub const TIMESTAMP_REPLY: Self = Self(14);

    /// Whether the message reports an error. No error is ever sent about one of these (RFC
    /// 1122, section 3.2.2; RFC 1812, section 4.3.2.7).
    #[inline]
    pub const fn is_error(self) -> bool {
        matches!(
            self,
            Self::DESTINATION_UNREACHABLE
                | Self::SOURCE_QUENCH
                | Self::REDIRECT
                | Self::TIME_EXCEEDED
                | Self::PARAMETER_PROBLEM
        )
    }

    /// The name that operators see in VPP's traces for `code` of this type, if it has one.
    pub fn code_name(self, code: u8) -> Option<&'static str> {
        let names: &[&str] = match self {
            Self::DESTINATION_UNREACHABLE => &unreachable::NAMES,
            Self::REDIRECT => &redirect::NAMES,
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
            Self::ECHO_REPLY => "echo_reply",
            Self::DESTINATION_UNREACHABLE => "destination_unreachable",
            Self::SOURCE_QUENCH => "source_quench",
            Self::REDIRECT => "redirect",
            Self::ECHO_REQUEST => "echo_request",
            Self::ROUTER_ADVERTISEMENT => "router_advertisement",
            Self::ROUTER_SOLICITATION => "router_solicitation",
            Self::TIME_EXCEEDED => "time_exceeded",
            Self::PARAMETER_PROBLEM => "parameter_problem",
            Self::TIMESTAMP_REQUEST => "timestamp_request",
            Self::TIMESTAMP_REPLY => "timestamp_reply",
            Self(other) => return write!(f, "unknown 0x{other:x}"),
        })
    }
}

/// Codes of [`Type::DESTINATION_UNREACHABLE`] (RFC 792; 6 to 12 RFC 1122, section 3.2.2.1; 13
/// to 15 RFC 1812, section 5.2.7.1).
pub mod unreachable {
    pub const NETWORK: u8 = 0;
    pub const HOST: u8 = 1;
    pub const PROTOCOL: u8 = 2;
    pub const PORT: u8 = 3;
    pub const FRAGMENTATION_NEEDED: u8 = 4;
    pub const SOURCE_ROUTE_FAILED: u8 = 5;
    pub const NETWORK_UNKNOWN: u8 = 6;
    pub const HOST_UNKNOWN: u8 = 7;
    pub const SOURCE_HOST_ISOLATED: u8 = 8;
    pub const NETWORK_PROHIBITED: u8 = 9;
    pub const HOST_PROHIBITED: u8 = 10;
    pub const NETWORK_TOS: u8 = 11;
    pub const HOST_TOS: u8 = 12;
    pub const COMMUNICATION_PROHIBITED: u8 = 13;
    pub const HOST_PRECEDENCE_VIOLATION: u8 = 14;
    pub const PRECEDENCE_CUTOFF: u8 = 15;

    pub(super) const NAMES: [&str; 16] = [
        "destination_unreachable_net",
        "destination_unreachable_host",
        "destination_unreachable_protocol",
        "destination_unreachable_port",
        "fragmentation_needed_and_dont_fragment_set",
        "source_route_failed",
        "destination_network_unknown",
        "destination_host_unknown",
        "source_host_isolated",
        "network_administratively_prohibited",
        "host_administratively_prohibited",
        "network_unreachable_for_type_of_service",
        "host_unreachable_for_type_of_service",
        "communication_administratively_prohibited",
        "host_precedence_violation",
        "precedence_cutoff_in_effect",
    ];
}

/// Codes of [`Type::REDIRECT`].
pub mod redirect {
    pub const NETWORK: u8 = 0;
    pub const HOST: u8 = 1;
    pub const TOS_AND_NETWORK: u8 = 2;
    pub const TOS_AND_HOST: u8 = 3;

    pub(super) const NAMES: [&str; 4] = [
        "network_redirect",
        "host_redirect",
        "type_of_service_and_network_redirect",
        "type_of_service_and_host_redirect",
    ];
}

/// Codes of [`Type::TIME_EXCEEDED`].
pub mod time_exceeded {
    pub const TTL: u8 = 0;
    pub const FRAGMENT_REASSEMBLY: u8 = 1;

    pub(super) const NAMES: [&str; 2] = ["ttl_exceeded_in_transit", "fragment_reassembly_time_exceeded"];
}

/// Codes of [`Type::PARAMETER_PROBLEM`] (1: RFC 1122, section 3.2.2.5).
pub mod parameter_problem {
    pub const POINTER: u8 = 0;
    pub const MISSING_OPTION: u8 = 1;
    pub const BAD_LENGTH: u8 = 2;

    pub(super) const NAMES: [&str; 3] = ["pointer_indicates_error", "missing_required_option", "bad_length"];
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
    /// `next_hop_mtu` is in bytes and zero but for [`unreachable::FRAGMENTATION_NEEDED`].
    DestinationUnreachable {
        code: u8,
        next_hop_mtu: u16,
    },
    TimeExceeded {
        code: u8,
    },
    Redirect {
        code: u8,
        gateway: Ipv4Address,
    },
    /// `pointer` is the offset of the byte at fault in the quoted packet.
    ParameterProblem {
        code: u8,
        pointer: u8,
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
            // Echo has no code but 0: what has another is none.
            Type::ECHO_REQUEST if code == 0 => Self::EchoRequest { identifier: high, sequence: low },
            Type::ECHO_REPLY if code == 0 => Self::EchoReply { identifier: high, sequence: low },
            Type::DESTINATION_UNREACHABLE => Self::DestinationUnreachable { code, next_hop_mtu: low },
            Type::TIME_EXCEEDED => Self::TimeExceeded { code },
            Type::REDIRECT => Self::Redirect { code, gateway: Ipv4Address::from_bits(rest) },
            Type::PARAMETER_PROBLEM => Self::ParameterProblem { code, pointer: (rest >> 24) as u8 },
            _ => Self::Other { kind, code, rest },
        }
    }

    /// Type, code and the four bytes after the checksum.
    pub fn into_parts(self) -> (Type, u8, u32) {
        let pair = |high: u16, low: u16| u32::from(high) << 16 | u32::from(low);
        match self {
            Self::EchoRequest { identifier, sequence } => (Type::ECHO_REQUEST, 0, pair(identifier, sequence)),
            Self::EchoReply { identifier, sequence } => (Type::ECHO_REPLY, 0, pair(identifier, sequence)),
            Self::DestinationUnreachable { code, next_hop_mtu } => {
                (Type::DESTINATION_UNREACHABLE, code, next_hop_mtu.into())
            }
            Self::TimeExceeded { code } => (Type::TIME_EXCEEDED, code, 0),
            Self::Redirect { code, gateway } => (Type::REDIRECT, code, gateway.to_bits()),
            Self::ParameterProblem { code, pointer } => (Type::PARAMETER_PROBLEM, code, u32::from(pointer) << 24),
            Self::Other { kind, code, rest } => (kind, code, rest),
        }
    }

    /// Writes the header to the first 8 bytes of `buf` with a checksum of zero, which
    /// [`Header::fill_checksum`] fills when the rest of the message is in place.
    ///
    /// # Panics
    /// When `buf` is shorter than that.
    pub fn emit(self, buf: &mut [u8]) {
        let (kind, code, rest) = self.into_parts();
        icmp::emit(buf, kind, code, rest);
    }
}

/// A view of a message: all bytes of an IP payload.
pub type Header<T> = icmp::Header<T, V4>;

/// Names the messages of IPv4.
#[derive(Clone, Copy, Debug)]
pub enum V4 {}

impl Version for V4 {
    type Type = Type;
    type Message = Message;

    #[inline]
    fn message(kind: Type, code: u8, rest: u32) -> Message {
        Message::from_parts(kind, code, rest)
    }
}

impl<T: AsRef<[u8]>> Header<T> {
    pub fn verify_checksum(&self) -> bool {
        checksum::checksum(self.bytes()) == 0
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Header<T> {
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let checksum = checksum::checksum(self.bytes());
        self.set_checksum(checksum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ECHO: [u8; 11] = [0x08, 0x00, 0x21, 0x62, 0x12, 0x34, 0x00, 0x07, b'a', b'b', b'c'];

    #[test]
    fn echo_request_is_read_from_its_places() {
        let header = Header::new_checked(ECHO).unwrap();
        assert_eq!((header.kind(), header.code()), (Type::ECHO_REQUEST, 0));
        assert_eq!((header.checksum(), header.rest()), (0x2162, 0x12340007));
        assert_eq!(header.message(), Message::EchoRequest { identifier: 0x1234, sequence: 7 });
        assert_eq!(header.payload(), b"abc");
        assert!(header.verify_checksum());
        let error = Header::new_checked(&ECHO[..7]).unwrap_err();
        assert_eq!(error, ParseError::Truncated { available: 7 });
    }

    #[test]
    fn request_becomes_reply_in_place() {
        let mut bytes = ECHO;
        let mut header = Header::new_checked(&mut bytes[..]).unwrap();
        header.set_kind(Type::ECHO_REPLY);
        assert!(!header.verify_checksum());
        header.fill_checksum();
        assert_eq!(bytes[..4], [0x00, 0x00, 0x29, 0x62]);
        assert!(Header::new_checked(bytes).unwrap().verify_checksum());
    }

    #[test]
    fn error_header_is_written_ahead_of_the_quote() {
        let mut bytes = [0xee; 12];
        icmp::emit(&mut bytes, Type::TIME_EXCEEDED, time_exceeded::TTL, 0);
        assert_eq!(bytes, [11, 0, 0, 0, 0, 0, 0, 0, 0xee, 0xee, 0xee, 0xee]);
        let mut header = Header::new_checked(&mut bytes[..]).unwrap();
        header.payload_mut().fill(0x11);
        header.fill_checksum();
        assert_eq!(bytes[2..4], [0xd2, 0xdd]);
    }

    #[test]
    fn messages_have_their_bytes() {
        let cases: [(Message, [u8; 8]); 6] = [
            (Message::EchoReply { identifier: 1, sequence: 2 }, [0, 0, 0, 0, 0, 1, 0, 2]),
            (
                Message::DestinationUnreachable { code: unreachable::FRAGMENTATION_NEEDED, next_hop_mtu: 1400 },
                [3, 4, 0, 0, 0, 0, 0x05, 0x78],
            ),
            (Message::TimeExceeded { code: time_exceeded::FRAGMENT_REASSEMBLY }, [11, 1, 0, 0, 0, 0, 0, 0]),
            (
                Message::Redirect { code: redirect::HOST, gateway: Ipv4Address::new(10, 0, 0, 1) },
                [5, 1, 0, 0, 10, 0, 0, 1],
            ),
            (Message::ParameterProblem { code: parameter_problem::POINTER, pointer: 20 }, [12, 0, 0, 0, 20, 0, 0, 0]),
            (Message::Other { kind: Type::ECHO_REQUEST, code: 1, rest: 0x01020304 }, [8, 1, 0, 0, 1, 2, 3, 4]),
        ];
        for (message, bytes) in cases {
            let mut emitted = [0xee; 8];
            message.emit(&mut emitted);
            assert_eq!(emitted, bytes);
            assert_eq!(Header::new_checked(bytes).unwrap().message(), message);
        }
    }

    #[test]
    fn only_error_messages_are_errors() {
        let errors: Vec<u8> = (0..=255).filter(|&kind| Type(kind).is_error()).collect();
        assert_eq!(errors, [3, 4, 5, 11, 12]);
    }

    #[test]
    fn names_stand_at_their_codes() {
        let name = Type::DESTINATION_UNREACHABLE.code_name(unreachable::COMMUNICATION_PROHIBITED);
        assert_eq!(name, Some("communication_administratively_prohibited"));
        assert_eq!(Type::DESTINATION_UNREACHABLE.code_name(16), None);
        assert_eq!(Type::ECHO_REQUEST.code_name(0), None);
        assert_eq!(Type(77).to_string(), "unknown 0x4d");
    }
}
