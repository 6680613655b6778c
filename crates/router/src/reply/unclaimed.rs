//! Why a packet is to be punted.

use super::to_host::Ways;
use graph::{Row, ScratchKind, ScratchValue, flag};

/// As it travels in scratch. Places are counted from the IP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unclaimed {
    /// A route says so.
    Route,
    /// It is for this router, of a protocol that this router does not have; of IPv6, where the byte is that names it.
    Protocol { named_at: u32 },
    /// UDP to a port that no node listens to.
    Port,
    /// TCP, which this router does not have, and where it begins.
    Segment { at: u32 },
    /// An ICMP message of which this router makes nothing.
    Message,
    /// An ICMP error of this router about what the host sent under one of the router's addresses.
    Error,
}

impl ScratchValue for Unclaimed {
    const KIND: ScratchKind = ScratchKind::named("why it is unclaimed");

    fn to_words(self) -> [u32; 3] {
        let (reason, at) = match self {
            Unclaimed::Route => (0, 0),
            Unclaimed::Protocol { named_at } => (1, named_at),
            Unclaimed::Port => (2, 0),
            Unclaimed::Segment { at } => (3, at),
            Unclaimed::Message => (4, 0),
            Unclaimed::Error => (5, 0),
        };
        [reason, at, 0]
    }

    fn from_words([reason, at, _]: [u32; 3]) -> Unclaimed {
        match reason {
            1 => Unclaimed::Protocol { named_at: at },
            2 => Unclaimed::Port,
            3 => Unclaimed::Segment { at },
            4 => Unclaimed::Message,
            5 => Unclaimed::Error,
            _ => Unclaimed::Route,
        }
    }
}

impl Unclaimed {
    /// The reason for an ICMP message that no node of this router handles; none when the router's own message came
    /// back. Errors about packets that the host sent from one of the router's addresses come to that address.
    pub fn message(row: &Row, ways: &Ways) -> Option<Unclaimed> {
        match row.flags & flag::ORIGINATED {
            0 => Some(Unclaimed::Message),
            _ => ways.back_by(row.rx_interface).map(|_| Unclaimed::Error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::Scratch;

    #[test]
    fn a_reason_travels_in_scratch() {
        use Unclaimed::{Error, Message, Port, Protocol, Route, Segment};
        let all = [Route, Protocol { named_at: 70_000 }, Port, Segment { at: u32::MAX }, Message, Error];
        for reason in all {
            assert_eq!(Scratch::of(reason).read(), Some(reason));
        }
    }
}
