//! Multicast Listener Discovery (RFC 2710 version 1, RFC 3810 version 2): messages of ICMPv6 ([`crate::icmpv6`]) by
//! which hosts report the groups that they listen to, and routers query them.

use std::fmt;
use std::time::Duration;

use crate::addr::Ipv6Address;
use crate::icmpv6::Type;

/// Messages are not forwarded (RFC 3810 section 5).
pub const HOP_LIMIT: u8 = 1;
/// All routers that receive reports of version 2 (RFC 3810 section 5.2.14).
pub const ALL_ROUTERS: Ipv6Address = Ipv6Address::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);
/// The hop-by-hop header in front of every message, with the option that makes routers examine it (RFC 2711) and
/// padding; the first byte is the type of the header behind it, ICMPv6.
pub const ROUTER_ALERT: [u8; 8] = [58, 0, 5, 2, 0, 0, 1, 0];
/// Bytes of a message of version 1, of a query of version 2 without sources, of the head of a report of version 2,
/// and of a record without sources.
pub const MESSAGE_LEN: usize = 24;
pub const QUERY_LEN: usize = 28;
pub const REPORT_LEN: usize = 8;
pub const RECORD_LEN: usize = 20;

/// Why bytes are not a message of this protocol. Lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    Truncated {
        available: usize,
        needed: usize,
    },
    /// The address should be a group, but is not.
    NoGroup(Ipv6Address),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { available, needed } => {
                write!(f, "Multicast Listener Discovery truncated: {available} bytes of {needed}")
            }
            Self::NoGroup(address) => write!(f, "{address} is no group"),
        }
    }
}

impl std::error::Error for ParseError {}

/// A router's query (RFC 3810 section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// 1 or 2.
    pub version: u8,
    /// The group of the query; none: all groups.
    pub group: Option<Ipv6Address>,
    /// The time within which hosts must answer.
    pub response: Duration,
    /// How many sources the query lists.
    pub sources: u16,
}

/// What a record of a report states about a group (RFC 3810 section 5.2.12).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    IsInclude,
    IsExclude,
    ToInclude,
    ToExclude,
    Allow,
    Block,
    Other(u8),
}

impl RecordKind {
    const fn of(number: u8) -> Self {
        match number {
            1 => Self::IsInclude,
            2 => Self::IsExclude,
            3 => Self::ToInclude,
            4 => Self::ToExclude,
            5 => Self::Allow,
            6 => Self::Block,
            other => Self::Other(other),
        }
    }

    const fn number(self) -> u8 {
        match self {
            Self::IsInclude => 1,
            Self::IsExclude => 2,
            Self::ToInclude => 3,
            Self::ToExclude => 4,
            Self::Allow => 5,
            Self::Block => 6,
            Self::Other(other) => other,
        }
    }
}

/// What a host reports about one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    pub kind: RecordKind,
    pub group: Ipv6Address,
    pub sources: u16,
}

impl Record {
    /// Whether the host listens to the group, whatever the sources (RFC 3810 section 4.2).
    pub fn listens(&self) -> bool {
        match self.kind {
            RecordKind::IsExclude | RecordKind::ToExclude => true,
            RecordKind::IsInclude | RecordKind::ToInclude | RecordKind::Allow => self.sources > 0,
            RecordKind::Block | RecordKind::Other(_) => false,
        }
    }

    /// Whether the host stops listening to the group.
    pub fn leaves(&self) -> bool {
        self.kind == RecordKind::ToInclude && self.sources == 0
    }
}

/// The records of a report, all of which are complete.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a> {
    bytes: &'a [u8],
    left: u16,
}

impl Iterator for Records<'_> {
    type Item = Record;

    fn next(&mut self) -> Option<Record> {
        self.left = self.left.checked_sub(1)?;
        let (record, rest) = split_record(self.bytes)?;
        self.bytes = rest;
        Some(record)
    }
}

/// The first record, and the bytes behind it.
fn split_record(bytes: &[u8]) -> Option<(Record, &[u8])> {
    let head: &[u8; RECORD_LEN] = bytes.first_chunk()?;
    let sources = u16::from_be_bytes([head[2], head[3]]);
    let length = RECORD_LEN + 16 * usize::from(sources) + 4 * usize::from(head[1]);
    let group = address(&head[4..]);
    Some((Record { kind: RecordKind::of(head[0]), group, sources }, bytes.get(length..)?))
}

/// A message of this protocol.
#[derive(Clone, Copy, Debug)]
pub enum Listening<'a> {
    Query(Query),
    /// A host listens to a group, by version 1.
    Report(Ipv6Address),
    Done(Ipv6Address),
    /// A report of version 2.
    Records(Records<'a>),
}

impl<'a> Listening<'a> {
    /// Reads a message whose checksum was verified. `None`: it is of another kind.
    ///
    /// # Errors
    /// When it is too short, or an address that should be a group is not.
    pub fn parse(bytes: &'a [u8]) -> Option<Result<Self, ParseError>> {
        let kind = Type(*bytes.first()?);
        let needed = match kind {
            Type::LISTENER_QUERY | Type::LISTENER_REPORT | Type::LISTENER_DONE => MESSAGE_LEN,
            Type::LISTENER_REPORT_2 => REPORT_LEN,
            _ => return None,
        };
        if bytes.len() < needed {
            return Some(Err(ParseError::Truncated { available: bytes.len(), needed }));
        }
        Some(match kind {
            Type::LISTENER_QUERY => query(bytes).map(Self::Query),
            Type::LISTENER_REPORT => group(bytes).map(Self::Report),
            Type::LISTENER_DONE => group(bytes).map(Self::Done),
            _ => records(bytes).map(Self::Records),
        })
    }
}

fn address(bytes: &[u8]) -> Ipv6Address {
    Ipv6Address::from(*bytes.first_chunk::<16>().expect("16 bytes"))
}

fn group(bytes: &[u8]) -> Result<Ipv6Address, ParseError> {
    let group = address(&bytes[8..]);
    if group.is_multicast() { Ok(group) } else { Err(ParseError::NoGroup(group)) }
}

fn query(bytes: &[u8]) -> Result<Query, ParseError> {
    let wanted = address(&bytes[8..]);
    let group = (!wanted.is_unspecified()).then(|| group(bytes)).transpose()?;
    let code = u16::from_be_bytes([bytes[4], bytes[5]]);
    // RFC 3810 section 8.1: the length determines the version.
    if bytes.len() == MESSAGE_LEN {
        return Ok(Query { version: 1, group, response: Duration::from_millis(code.into()), sources: 0 });
    }
    let sources = bytes.get(26..QUERY_LEN).map_or(0, |two| u16::from_be_bytes([two[0], two[1]]));
    let needed = QUERY_LEN + 16 * usize::from(sources);
    if bytes.len() < needed {
        return Err(ParseError::Truncated { available: bytes.len(), needed });
    }
    Ok(Query { version: 2, group, response: Duration::from_millis(response(code)), sources })
}

fn records(bytes: &[u8]) -> Result<Records<'_>, ParseError> {
    let count = u16::from_be_bytes([bytes[6], bytes[7]]);
    let all = Records { bytes: &bytes[REPORT_LEN..], left: count };
    let mut rest = all.bytes;
    for _ in 0..count {
        let (record, behind) = split_record(rest)
            .ok_or(ParseError::Truncated { available: bytes.len(), needed: bytes.len() - rest.len() + RECORD_LEN })?;
        if !record.group.is_multicast() {
            return Err(ParseError::NoGroup(record.group));
        }
        rest = behind;
    }
    Ok(all)
}

/// Milliseconds of a response code (RFC 3810 section 5.1.3): from 32768 on it has an exponent.
fn response(code: u16) -> u64 {
    match code {
        0..=0x7fff => code.into(),
        _ => u64::from(code & 0xfff | 0x1000) << ((code >> 12 & 7) + 3),
    }
}

/// Writes a message of version 1 about a group, with a checksum of zero. In a query, `response` is the time for answers
/// in milliseconds.
///
/// # Panics
/// When `bytes` is shorter than [`MESSAGE_LEN`].
pub fn emit_message(bytes: &mut [u8], kind: Type, group: Ipv6Address, response: u16) {
    bytes[..MESSAGE_LEN].fill(0);
    bytes[0] = kind.0;
    bytes[4..6].copy_from_slice(&response.to_be_bytes());
    bytes[8..MESSAGE_LEN].copy_from_slice(&group.octets());
}

/// Writes a report of version 2 without sources, with a checksum of zero, and returns its length.
///
/// # Panics
/// When `bytes` is too short.
pub fn emit_report(bytes: &mut [u8], records: &[(RecordKind, Ipv6Address)]) -> usize {
    let length = REPORT_LEN + RECORD_LEN * records.len();
    bytes[..length].fill(0);
    bytes[0] = Type::LISTENER_REPORT_2.0;
    bytes[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
    for (record, (kind, group)) in bytes[REPORT_LEN..length].chunks_mut(RECORD_LEN).zip(records) {
        record[0] = kind.number();
        record[4..].copy_from_slice(&group.octets());
    }
    length
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn at(text: &str) -> Ipv6Address {
        text.parse().unwrap()
    }

    /// A general query of version 2 as Linux's bridge sends it.
    #[test]
    fn a_query_tells_its_version_by_its_length() {
        let mut bytes = [130, 0, 0, 0, 0x27, 0x10].to_vec();
        bytes.resize(MESSAGE_LEN, 0);
        let one = Query { version: 1, group: None, response: Duration::from_secs(10), sources: 0 };
        assert!(matches!(Listening::parse(&bytes), Some(Ok(Listening::Query(query))) if query == one));
        bytes.extend([2, 125, 0, 0]);
        let two = Query { version: 2, ..one };
        assert!(matches!(Listening::parse(&bytes), Some(Ok(Listening::Query(query))) if query == two));
        // RFC 3810 section 8.1: lengths in between are invalid.
        for length in MESSAGE_LEN + 1..QUERY_LEN {
            let needed = QUERY_LEN;
            let parsed = Listening::parse(&bytes[..length]);
            assert!(matches!(parsed, Some(Err(ParseError::Truncated { needed: n, .. })) if n == needed));
        }
        bytes[27] = 1;
        assert!(matches!(Listening::parse(&bytes), Some(Err(ParseError::Truncated { needed: 44, .. }))));
        bytes[8] = 0x20;
        assert!(matches!(Listening::parse(&bytes), Some(Err(ParseError::NoGroup(_)))));
    }

    #[test]
    fn long_response_times_have_an_exponent() {
        for (code, milliseconds) in [(0, 0), (10_000, 10_000), (0x7fff, 32_767), (0x8000, 32_768), (0xffff, 8_387_584)]
        {
            assert_eq!(response(code), milliseconds, "{code:#x}");
        }
    }

    #[test]
    fn reports_say_who_listens() {
        let mut bytes = [0xff; 64];
        let groups = [(RecordKind::ToExclude, at("ff02::1:ff00:1")), (RecordKind::ToInclude, at("ff05::2"))];
        let length = emit_report(&mut bytes, &groups);
        assert_eq!(bytes[..REPORT_LEN], [143, 0, 0, 0, 0, 0, 0, 2]);
        assert_eq!(bytes[8..12], [4, 0, 0, 0]);
        let Some(Ok(Listening::Records(records))) = Listening::parse(&bytes[..length]) else { panic!("no report") };
        let read: Vec<_> = records.map(|record| (record.group, record.listens(), record.leaves())).collect();
        assert_eq!(read, [(groups[0].1, true, false), (groups[1].1, false, true)]);
        assert!(matches!(Listening::parse(&bytes[..length - 1]), Some(Err(ParseError::Truncated { .. }))));
        emit_message(&mut bytes, Type::LISTENER_DONE, at("ff02::9"), 0);
        let parsed = Listening::parse(&bytes[..MESSAGE_LEN]);
        assert!(matches!(parsed, Some(Ok(Listening::Done(group))) if group == at("ff02::9")));
    }

    proptest! {
        #[test]
        fn no_bytes_are_too_strange(kind in prop::sample::select(vec![130u8, 131, 132, 143]),
            bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let bytes = [&[kind][..], &bytes].concat();
            if let Some(Ok(Listening::Records(records))) = Listening::parse(&bytes) {
                let count = records.count();
                prop_assert_eq!(count, usize::from(u16::from_be_bytes([bytes[6], bytes[7]])));
            }
        }
    }
}
