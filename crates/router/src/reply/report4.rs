//! What ICMP errors say about packets of IPv4.

use super::report;
use std::net::Ipv4Addr;
use wire::icmpv4::{Type, redirect, time_exceeded, unreachable};

/// What to say.
pub type Report = report::Report<Type>;

impl Report {
    pub fn unreachable(code: u8) -> Report {
        Report { kind: Type::DESTINATION_UNREACHABLE, code, rest: 0 }
    }
    /// RFC 1812 5.2.7.2: packets to the quoted destination should go to this neighbour.
    pub fn redirect(gateway: Ipv4Addr) -> Report {
        Report { kind: Type::REDIRECT, code: redirect::HOST, rest: gateway.into() }
    }
    pub fn ttl_expired() -> Report {
        Report { kind: Type::TIME_EXCEEDED, code: time_exceeded::TTL, rest: 0 }
    }
    /// RFC 1122 3.3.2: fragments of the datagram did not arrive in time.
    pub fn reassembly_time_exceeded() -> Report {
        Report { kind: Type::TIME_EXCEEDED, code: time_exceeded::FRAGMENT_REASSEMBLY, rest: 0 }
    }
    /// RFC 792: the byte of the header that is wrong.
    pub fn parameter_problem(at: u8) -> Report {
        Report { kind: Type::PARAMETER_PROBLEM, code: 0, rest: (at as u32) << 24 }
    }
    /// RFC 1812 5.2.7.1: forbidden by an operator's filter.
    pub fn prohibited() -> Report {
        Report::unreachable(unreachable::COMMUNICATION_PROHIBITED)
    }
    /// RFC 1191: the next hop's MTU is in the lower half of the word.
    pub fn fragmentation_needed(mtu: u16) -> Report {
        Report { kind: Type::DESTINATION_UNREACHABLE, code: unreachable::FRAGMENTATION_NEEDED, rest: mtu as u32 }
    }
}
