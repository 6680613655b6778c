//! Pings from the router itself, of both families.
//!
//! Control keeps them ([`control`]) and finds their way ([`way`]); `ip4-ping` and `ip6-ping` send requests
//! ([`request`]). Workers tell of each request when it goes ([`Event::Sent`]) and of each answer ([`answer`]) to an
//! identifier that control gave out, from the host that was asked ([`awaited`]). They let two answers through for
//! each request, so that duplicates show and a flood does not reach control.

pub(crate) mod answer;
pub(crate) mod awaited;
pub(super) mod cli;
pub mod control;
mod egress;
pub(crate) mod request;

pub use control::{Answers, Line, MAX_PINGS, PingError, Pings, Statistics, Wanted};

use awaited::Awaited;
use graph::{Core, NodeIndex};
use std::fmt;
use std::net::IpAddr;
use wire::{icmpv4, icmpv6};

/// What workers tell of requests and answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Sent { identifier: u16, sequence: u16, ticks: u64 },
    Reply { identifier: u16, sequence: u16, ticks: u64, from: IpAddr, ttl: u8, bytes: u16 },
    Refused { identifier: u16, sequence: u16, from: IpAddr, to: IpAddr, refusal: Refusal },
}

impl Event {
    pub(super) fn identifier(&self) -> u16 {
        let (Event::Sent { identifier, .. } | Event::Reply { identifier, .. } | Event::Refused { identifier, .. }) =
            *self;
        identifier
    }
}

/// Why a request was not forwarded: type and code of the error about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    Ip4(icmpv4::Type, u8),
    Ip6(icmpv6::Type, u8),
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, code, name): (&dyn fmt::Display, _, _) = match self {
            Refusal::Ip4(kind, code) => (kind, *code, kind.code_name(*code)),
            Refusal::Ip6(kind, code) => (kind, *code, kind.code_name(*code)),
        };
        match name {
            Some(name) => f.write_str(name),
            None if code == 0 => kind.fmt(f),
            None => write!(f, "{kind} code {code}"),
        }
    }
}

/// Nodes of a family that control talks to.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nodes {
    /// Hears answers.
    pub input: NodeIndex,
    /// Which answers that node waits for.
    pub awaited: fn(&mut Core, NodeIndex) -> Option<&mut Awaited>,
    /// Sends requests.
    pub requests: NodeIndex,
}
