//! What ICMPv6 errors say about packets of IPv6.

use super::report;
use wire::icmpv6::{Type, time_exceeded};

/// What to say.
pub type Report = report::Report<Type>;

impl Report {
    pub fn unreachable(code: u8) -> Report {
        Report { kind: Type::DESTINATION_UNREACHABLE, code, rest: 0 }
    }
    /// RFC 4443 3.2: the next hop's MTU.
    pub fn packet_too_big(mtu: u16) -> Report {
        Report { kind: Type::PACKET_TOO_BIG, code: 0, rest: mtu.into() }
    }
    pub fn hop_limit_exceeded() -> Report {
        Report { kind: Type::TIME_EXCEEDED, code: time_exceeded::HOP_LIMIT, rest: 0 }
    }
    /// RFC 4443 3.3, RFC 8200 4.5.
    pub fn reassembly_time_exceeded() -> Report {
        Report { kind: Type::TIME_EXCEEDED, code: time_exceeded::FRAGMENT_REASSEMBLY, rest: 0 }
    }
    /// RFC 4443 3.4: the byte of the packet that is wrong.
    pub fn parameter_problem(code: u8, at: u32) -> Report {
        Report { kind: Type::PARAMETER_PROBLEM, code, rest: at }
    }
}
