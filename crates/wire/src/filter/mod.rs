//! Packet filters in the language of pcap-filter(7): `udp and dst port 53 and not src net
//! 10.0.0.0/8`.
//!
//! | written | matches |
//! |---|---|
//! | `ether [src\|dst] host MAC`, `ether proto N` | the link header |
//! | `arp`, `rarp`, `ip`, `ip6` | the network protocol |
//! | `tcp`, `udp`, `sctp`, `icmp`, `icmp6`, `igmp`, `esp`, ... | the protocol in IPv4 or IPv6 |
//! | `[ip\|ip6] proto N` | the same by number or name |
//! | `[ip\|ip6\|arp] [src\|dst] host ADDRESS`, `... net PREFIX` | addresses; `host` may be left out |
//! | `[tcp\|udp\|sctp] [src\|dst] port N`, `... portrange A-B` | ports; never of later fragments |
//! | `vlan [N]`, `mpls [LABEL]` | a tag; what is written after it is looked for behind it |
//! | `less N`, `greater N`, `len >= N` | the length of the frame, link header included |
//! | `broadcast`, `multicast`, `ip multicast`, `ip6 multicast` | group addresses |
//! | `fragment` | IPv4 and IPv6 fragments |
//!
//! Terms are joined by `and` (`&&`), `or` (`||`), `not` (`!`) and parentheses. `and` and `or`
//! bind equally and from the left, as in pcap; `not` binds closest. A value without a keyword
//! takes that of the last one (`port 80 or 443`). Two things are kinder than pcap: terms that
//! stand side by side are joined by `and`, with `src-port` and `dst-port` as words, so that
//! fields can be listed (`proto udp src 10.0.0.1 dst-port 53`); and names of protocols need no
//! backslash.
//!
//! An expression becomes a list of tests, each with two jumps forward; a packet's verdict
//! costs at most one look at each. As in pcap a packet too short for a test that is reached
//! matches nothing, not even its negation.

mod parse;
mod test;
#[cfg(test)]
mod tests;

use test::{Packet, Test};

/// Longest expression in bytes.
pub const MAX_TEXT: usize = 4096;
/// Most tests in an expression.
pub const MAX_TESTS: usize = 256;
/// Deepest nesting of parentheses.
pub const MAX_DEPTH: usize = 32;

/// What a packet begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LinkType {
    Ethernet,
    /// An IPv4 or IPv6 header: no link header.
    Ip,
}

/// Why text is no filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterError {
    /// The byte of the text at which the trouble begins.
    pub at: usize,
    /// What is wrong there and what would do.
    pub message: String,
}

impl std::fmt::Display for FilterError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "filter: {} (at byte {})", self.message, self.at)
    }
}

impl std::error::Error for FilterError {}

/// Jumps of a step: below these, the number of another step.
const ACCEPT: u16 = u16::MAX;
const REJECT: u16 = u16::MAX - 1;

/// A test and where to go on. Jumps lead forward only.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    test: Test,
    yes: u16,
    no: u16,
}

/// A filter, ready for packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    text: String,
    steps: Vec<Step>,
}

impl Filter {
    /// Reads an expression.
    ///
    /// # Errors
    /// When it is none, or over a bound.
    pub fn parse(text: &str) -> Result<Filter, FilterError> {
        Ok(Filter { text: text.split_whitespace().collect::<Vec<_>>().join(" "), steps: parse::parse(text)? })
    }

    /// Whether a whole packet matches.
    pub fn matches(&self, frame: &[u8], link: LinkType) -> bool {
        self.matches_head(frame, frame.len(), link)
    }

    /// Whether a packet of `length` bytes matches, of which only the first are at hand.
    pub fn matches_head(&self, head: &[u8], length: usize, link: LinkType) -> bool {
        let packet = Packet { bytes: head, length, link };
        let mut at = 0;
        while let Some(step) = self.steps.get(at) {
            let Some(verdict) = step.test.of(&packet) else { return false };
            match if verdict { step.yes } else { step.no } {
                ACCEPT => return true,
                REJECT => return false,
                next => at = usize::from(next),
            }
        }
        false
    }
}

/// The expression as it was written.
impl std::fmt::Display for Filter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.text)
    }
}
