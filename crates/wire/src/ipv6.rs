//! Internet Protocol version 6 (RFC 8200): the header, extension headers and fragments.

use std::fmt;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::Ipv6Address;
use crate::ipv4::Protocol;
use crate::layout::{fixed, fixed_mut};

/// Bytes of the header.
pub const HEADER_LEN: usize = 40;
/// Every link carries packets of this many bytes (RFC 8200 section 5).
pub const MIN_MTU: u16 = 1280;
/// Bytes of a fragment header.
pub const FRAGMENT_HEADER_LEN: usize = 8;
/// Fragment offsets, and the lengths of extension headers, count in units of this many bytes.
pub const UNIT: usize = 8;
/// Extension headers that are walked before a packet is refused. Each kind is to occur once, destination options twice
/// (RFC 8200 section 4.1): a packet with more is meant to keep routers busy.
pub const MOST_EXTENSIONS: usize = 8;

const VERSION: u32 = 6;
const FLOW_LABEL: u32 = 0x000f_ffff;

/// Values of the next header field that name extension headers, and the one that names nothing.
pub mod next_header {
    use crate::ipv4::Protocol;

    pub const HOP_BY_HOP: Protocol = Protocol(0);
    pub const ROUTING: Protocol = Protocol(43);
    pub const FRAGMENT: Protocol = Protocol(44);
    pub const NONE: Protocol = Protocol(59);
    pub const DESTINATION: Protocol = Protocol(60);
    pub const MOBILITY: Protocol = Protocol(135);
    pub const HIP: Protocol = Protocol(139);
    pub const SHIM6: Protocol = Protocol(140);
}

/// Why bytes are not an IPv6 packet, in the order of the checks. Lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    Truncated { available: usize },
    Version(u8),
    PayloadBeyondData { payload_len: u16, available: usize },
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { available } => {
                write!(f, "IPv6 header truncated: {available} bytes of {HEADER_LEN}")
            }
            Self::Version(version) => write!(f, "IP version {version}, expected 6"),
            Self::PayloadBeyondData { payload_len, available } => {
                write!(f, "IPv6 payload length {payload_len}, but only {available} bytes are there")
            }
        }
    }
}

impl std::error::Error for ParseError {}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Fixed {
    version_class_flow: U32,
    payload_len: U16,
    next_header: u8,
    hop_limit: u8,
    src: [u8; 16],
    dst: [u8; 16],
}

const _: () = assert!(size_of::<Fixed>() == HEADER_LEN);

/// A view of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Header<T>(T);

impl<T: AsRef<[u8]>> Header<T> {
    /// Checks that header and payload lie within `bytes`, which may go on with padding.
    ///
    /// A payload length of 0 means no payload: no link that this program knows carries jumbograms (RFC 2675).
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, ParseError> {
        let available = bytes.as_ref().len();
        if available < HEADER_LEN {
            return Err(ParseError::Truncated { available });
        }
        let header = Self(bytes);
        if u32::from(header.version()) != VERSION {
            return Err(ParseError::Version(header.version()));
        }
        let payload_len = header.payload_len();
        if HEADER_LEN + usize::from(payload_len) > available {
            return Err(ParseError::PayloadBeyondData { payload_len, available: available - HEADER_LEN });
        }
        Ok(header)
    }

    /// A view of bytes that were checked before, or of which only the fixed fields are wanted
    /// (the start of a packet in a trace, the first buffer of a chain).
    ///
    /// # Panics
    /// Accessors panic when what they read is not in `bytes`.
    #[inline]
    pub fn new_unchecked(bytes: T) -> Self {
        Self(bytes)
    }

    #[inline]
    fn fixed(&self) -> &Fixed {
        fixed(self.0.as_ref())
    }

    #[inline]
    pub fn version(&self) -> u8 {
        (self.fixed().version_class_flow.get() >> 28) as u8
    }

    /// DSCP and ECN together.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (self.fixed().version_class_flow.get() >> 20) as u8
    }

    /// 20 bits (RFC 6437); 0: the source did not set it.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        self.fixed().version_class_flow.get() & FLOW_LABEL
    }

    /// Bytes behind the header, extension headers included.
    #[inline]
    pub fn payload_len(&self) -> u16 {
        self.fixed().payload_len.get()
    }

    /// What follows the header: an extension header or the payload's protocol.
    #[inline]
    pub fn next_header(&self) -> Protocol {
        Protocol(self.fixed().next_header)
    }

    #[inline]
    pub fn hop_limit(&self) -> u8 {
        self.fixed().hop_limit
    }

    #[inline]
    pub fn src(&self) -> Ipv6Address {
        self.fixed().src.into()
    }

    #[inline]
    pub fn dst(&self) -> Ipv6Address {
        self.fixed().dst.into()
    }

    /// What follows the header up to the payload length: padding of the frame is left out.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[HEADER_LEN..HEADER_LEN + usize::from(self.payload_len())]
    }

    /// Walks the extension headers: see [`Chain`].
    ///
    /// # Errors
    /// See [`ChainError`].
    pub fn chain(&self) -> Result<Chain, ChainError> {
        Chain::walk(self.next_header(), self.payload())
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Header<T> {
    #[inline]
    fn fixed_mut(&mut self) -> &mut Fixed {
        fixed_mut(self.0.as_mut())
    }

    pub fn set_traffic_class(&mut self, class: u8) {
        let fixed = self.fixed_mut();
        let word = fixed.version_class_flow.get() & !(0xff << 20) | u32::from(class) << 20;
        fixed.version_class_flow = word.into();
    }

    pub fn set_payload_len(&mut self, length: u16) {
        self.fixed_mut().payload_len = length.into();
    }

    pub fn set_next_header(&mut self, protocol: Protocol) {
        self.fixed_mut().next_header = protocol.0;
    }

    pub fn set_hop_limit(&mut self, hops: u8) {
        self.fixed_mut().hop_limit = hops;
    }

    pub fn set_src(&mut self, address: Ipv6Address) {
        self.fixed_mut().src = address.octets();
    }

    pub fn set_dst(&mut self, address: Ipv6Address) {
        self.fixed_mut().dst = address.octets();
    }
}

/// A header as plain data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    pub src: Ipv6Address,
    pub dst: Ipv6Address,
    /// DSCP and ECN together.
    pub traffic_class: u8,
    /// 20 bits; higher ones are ignored.
    pub flow_label: u32,
    pub next_header: Protocol,
    pub hop_limit: u8,
    pub payload_len: u16,
}

impl Repr {
    /// Writes the header.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`HEADER_LEN`].
    pub fn emit(&self, bytes: &mut [u8]) {
        let word = VERSION << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & FLOW_LABEL;
        *fixed_mut::<Fixed>(bytes) = Fixed {
            version_class_flow: word.into(),
            payload_len: self.payload_len.into(),
            next_header: self.next_header.0,
            hop_limit: self.hop_limit,
            src: self.src.octets(),
            dst: self.dst.octets(),
        };
    }
}

/// What a fragment header says (RFC 8200 section 4.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// In bytes, a multiple of eight up to 65528.
    pub offset: u16,
    pub more: bool,
    pub id: u32,
    /// What the first fragment begins with.
    pub next_header: Protocol,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct FragmentFixed {
    next_header: u8,
    reserved: u8,
    offset_more: U16,
    id: U32,
}

const _: () = assert!(size_of::<FragmentFixed>() == FRAGMENT_HEADER_LEN);

impl Fragment {
    /// Reads a fragment header; `None` when it is not all there.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < FRAGMENT_HEADER_LEN {
            return None;
        }
        let header: &FragmentFixed = fixed(bytes);
        let word = header.offset_more.get();
        Some(Self {
            offset: word & !7,
            more: word & 1 != 0,
            id: header.id.get(),
            next_header: Protocol(header.next_header),
        })
    }

    /// Writes the header.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`FRAGMENT_HEADER_LEN`].
    pub fn emit(&self, bytes: &mut [u8]) {
        *fixed_mut::<FragmentFixed>(bytes) = FragmentFixed {
            next_header: self.next_header.0,
            reserved: 0,
            offset_more: (self.offset & !7 | u16::from(self.more)).into(),
            id: self.id.into(),
        };
    }

    /// Whether this one fragment is the whole packet (RFC 6946). It is then processed by itself, apart from other
    /// fragments of the same identification.
    pub fn is_atomic(&self) -> bool {
        self.offset == 0 && !self.more
    }
}

/// A fragment header among the extension headers. Offsets count from the end of the IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentHeader {
    pub at: usize,
    /// Where the next header field is that names it. `None`: it is the IPv6 header's own field.
    pub named_at: Option<usize>,
    pub fragment: Fragment,
}

/// The extension headers from the IPv6 header to the payload. Offsets count from the end of the IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The payload's protocol. In a fragment that is not the first, the fragment header names it; it may be an
    /// extension header.
    pub protocol: Protocol,
    /// Where the payload begins.
    pub payload: usize,
    /// Where the next header field is that names the protocol. `None`: it is the IPv6 header's own field.
    pub named_at: Option<usize>,
    /// Hop-by-hop options begin at 0 when there are any.
    pub has_hop_by_hop: bool,
    /// Where a routing header with segments left begins, and how many are left.
    pub routing: Option<(usize, u8)>,
    pub fragment: Option<FragmentHeader>,
}

/// Why extension headers cannot be walked, and where, counted from the end of the IPv6 header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainError {
    /// A header goes beyond the packet.
    Truncated { at: usize },
    /// A header goes beyond a first fragment, which must hold them all (RFC 8200 section 4.5, RFC 7112).
    BeyondFirstFragment { at: usize },
    /// More than [`MOST_EXTENSIONS`].
    TooMany { at: usize },
    /// Hop-by-hop options are not the first (RFC 8200 section 4.1): a next header of 0 that is not the IPv6 header's.
    HopByHopLate { named_at: usize },
    /// A second fragment header.
    FragmentTwice { named_at: usize },
}

impl fmt::Display for ChainError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { at } => write!(f, "the extension header at {at} goes beyond the packet"),
            Self::BeyondFirstFragment { at } => {
                write!(f, "the extension header at {at} goes beyond the first fragment")
            }
            Self::TooMany { at } => write!(f, "more than {MOST_EXTENSIONS} extension headers, the last at {at}"),
            Self::HopByHopLate { named_at } => {
                write!(f, "hop-by-hop options behind another header, named at {named_at}")
            }
            Self::FragmentTwice { named_at } => write!(f, "a second fragment header, named at {named_at}"),
        }
    }
}

impl std::error::Error for ChainError {}

impl Chain {
    /// Walks `bytes`, which follow the IPv6 header; its next header field is `first`.
    ///
    /// In a fragment that is not the first, payload follows the fragment header, whatever that header names.
    ///
    /// # Errors
    /// See [`ChainError`]. Authentication headers are walked (RFC 4302); what ESP hides is payload.
    pub fn walk(first: Protocol, bytes: &[u8]) -> Result<Self, ChainError> {
        let mut chain =
            Self { protocol: first, payload: 0, named_at: None, has_hop_by_hop: false, routing: None, fragment: None };
        for _ in 0..MOST_EXTENSIONS {
            let at = chain.payload;
            let truncated = match chain.is_fragment() {
                true => ChainError::BeyondFirstFragment { at },
                false => ChainError::Truncated { at },
            };
            if !is_extension(chain.protocol) {
                return Ok(chain);
            }
            match chain.protocol {
                next_header::HOP_BY_HOP => {
                    if let Some(named_at) = chain.named_at {
                        return Err(ChainError::HopByHopLate { named_at });
                    }
                    chain.has_hop_by_hop = true;
                }
                next_header::ROUTING => match bytes.get(at + 3) {
                    Some(&left) if left > 0 => chain.routing = Some((at, left)),
                    _ => {}
                },
                next_header::FRAGMENT => {
                    if let (Some(_), Some(named_at)) = (chain.fragment, chain.named_at) {
                        return Err(ChainError::FragmentTwice { named_at });
                    }
                    let fragment = bytes.get(at..).and_then(Fragment::parse).ok_or(truncated)?;
                    chain.fragment = Some(FragmentHeader { at, named_at: chain.named_at, fragment });
                    if fragment.offset > 0 {
                        chain.protocol = fragment.next_header;
                        chain.named_at = Some(at);
                        chain.payload = at + FRAGMENT_HEADER_LEN;
                        return Ok(chain);
                    }
                }
                _ => {}
            }
            let header = bytes.get(at..).and_then(|rest| extension_header(chain.protocol, rest)).ok_or(truncated)?;
            (chain.protocol, chain.named_at, chain.payload) = (Protocol(header[0]), Some(at), at + header.len());
        }
        match is_extension(chain.protocol) {
            false => Ok(chain),
            true => Err(ChainError::TooMany { at: chain.payload }),
        }
    }

    /// Whether this is only a part of a packet: an atomic fragment is all of it.
    pub fn is_fragment(&self) -> bool {
        self.fragment.is_some_and(|header| !header.fragment.is_atomic())
    }

    /// Where the headers end that each fragment of a packet has: the fragment header begins here. In other packets,
    /// where the payload begins.
    pub fn own_end(&self) -> usize {
        self.fragment.filter(|_| self.is_fragment()).map_or(self.payload, |header| header.at)
    }
}

/// Whether a next header names an extension header that can be walked.
fn is_extension(protocol: Protocol) -> bool {
    matches!(
        protocol,
        next_header::HOP_BY_HOP
            | next_header::DESTINATION
            | next_header::MOBILITY
            | next_header::HIP
            | next_header::SHIM6
            | next_header::ROUTING
            | next_header::FRAGMENT
            | Protocol::AH
    )
}

/// The extension header of type `kind` with which `bytes` begin. `None`: it goes beyond them.
///
/// The second byte counts units of 8 bytes after the first 8 bytes (RFC 8200 section 4). In an authentication header it
/// counts units of 4 bytes after the first 8 (RFC 4302 section 2.2). A fragment header always has 8 bytes.
pub fn extension_header(kind: Protocol, bytes: &[u8]) -> Option<&[u8]> {
    let length = match kind {
        next_header::FRAGMENT => FRAGMENT_HEADER_LEN,
        Protocol::AH => UNIT + usize::from(*bytes.get(1)?) * 4,
        _ => UNIT + usize::from(*bytes.get(1)?) * UNIT,
    };
    bytes.get(..length)
}

/// What to do with a packet because of its options (RFC 8200 section 4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionVerdict {
    /// Go on. `router_alert`: the value of the router alert option (RFC 2711), if it is there.
    GoOn { router_alert: Option<u16> },
    /// Discard silently.
    Discard,
    /// Discard, and notify the sender with a 'parameter problem', code 2, that points to the option at this offset.
    Tell { at: usize },
    /// The same, but do not notify when the destination is a group.
    TellUnlessGroup { at: usize },
    /// An option goes beyond its header.
    Malformed { at: usize },
}

/// Looks at hop-by-hop or destination options: `bytes` are the whole extension header.
///
/// Only padding and the router alert are known here. The upper two bits of any other option say what to do.
pub fn options(bytes: &[u8]) -> OptionVerdict {
    const PAD1: u8 = 0;
    const PADN: u8 = 1;
    const ROUTER_ALERT: u8 = 5;
    let (mut at, mut router_alert) = (2, None);
    while at < bytes.len() {
        let kind = bytes[at];
        if kind == PAD1 {
            at += 1;
            continue;
        }
        let Some(length) = bytes.get(at + 1).map(|length| usize::from(*length)) else {
            return OptionVerdict::Malformed { at };
        };
        let Some(data) = bytes.get(at + 2..at + 2 + length) else { return OptionVerdict::Malformed { at } };
        match kind {
            PADN => {}
            ROUTER_ALERT => match data.try_into() {
                Ok(value) => router_alert = Some(u16::from_be_bytes(value)),
                Err(_) => return OptionVerdict::Malformed { at },
            },
            _ => match kind >> 6 {
                0 => {}
                1 => return OptionVerdict::Discard,
                2 => return OptionVerdict::Tell { at },
                _ => return OptionVerdict::TellUnlessGroup { at },
            },
        }
        at += 2 + length;
    }
    OptionVerdict::GoOn { router_alert }
}

/// How far an address reaches (RFC 4291 section 2.7, RFC 4007).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Interface,
    Link,
    Realm,
    Admin,
    Site,
    Organisation,
    Global,
}

/// The scope of an address, whether of a group or of a single station.
pub fn scope(address: Ipv6Address) -> Scope {
    let [first, second, ..] = address.octets();
    if first == 0xff {
        return match second & 0xf {
            0 | 1 => Scope::Interface,
            2 => Scope::Link,
            3 => Scope::Realm,
            4 => Scope::Admin,
            5..=7 => Scope::Site,
            8..=13 => Scope::Organisation,
            _ => Scope::Global,
        };
    }
    match address.is_loopback() {
        true => Scope::Interface,
        false if first == 0xfe && second & 0xc0 == 0x80 => Scope::Link,
        false => Scope::Global,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn repr() -> Repr {
        Repr {
            src: "2001:db8::1".parse().unwrap(),
            dst: "2001:db8::2".parse().unwrap(),
            traffic_class: 0xb8,
            flow_label: 0x12345,
            next_header: Protocol::UDP,
            hop_limit: 64,
            payload_len: 8,
        }
    }

    #[test]
    fn a_header_reads_back() {
        let mut bytes = [0; HEADER_LEN + 10];
        repr().emit(&mut bytes);
        let header = Header::new_checked(&bytes).unwrap();
        assert_eq!((header.version(), header.traffic_class(), header.flow_label()), (6, 0xb8, 0x12345));
        assert_eq!((header.src(), header.dst()), (repr().src, repr().dst));
        assert_eq!((header.next_header(), header.hop_limit(), header.payload_len()), (Protocol::UDP, 64, 8));
        assert_eq!(header.payload().len(), 8, "padding is left out");
        let sliced = etherparse::Ipv6Header::from_slice(&bytes).unwrap().0;
        let mut marked = bytes;
        Header::new_unchecked(&mut marked[..]).set_traffic_class(0xbb);
        let mut expected = [0; HEADER_LEN + 10];
        Repr { traffic_class: 0xbb, ..repr() }.emit(&mut expected);
        assert_eq!(marked, expected);
        assert_eq!((sliced.flow_label.value(), sliced.traffic_class), (0x12345, 0xb8));
    }

    #[test]
    fn each_fault_has_its_name() {
        let mut bytes = [0; HEADER_LEN + 8];
        repr().emit(&mut bytes);
        assert_eq!(Header::new_checked(&bytes[..39]).unwrap_err(), ParseError::Truncated { available: 39 });
        assert_eq!(
            Header::new_checked(&bytes[..47]).unwrap_err(),
            ParseError::PayloadBeyondData { payload_len: 8, available: 7 }
        );
        bytes[0] = 0x45;
        assert_eq!(Header::new_checked(&bytes).unwrap_err(), ParseError::Version(4));
    }

    #[test]
    fn extension_headers_are_walked_to_the_payload() {
        // Hop-by-hop, routing with one segment left, fragment (the first), destination options, UDP.
        let mut bytes = vec![43, 0, 1, 4, 0, 0, 0, 0];
        bytes.extend([44, 2, 4, 1, 0, 0, 0, 0]);
        bytes.extend([0; 16]);
        bytes.extend([60, 0, 0, 1, 0, 0, 0, 9]);
        bytes.extend([17, 0, 1, 4, 0, 0, 0, 0]);
        bytes.extend([1, 2, 3, 4]);
        let chain = Chain::walk(next_header::HOP_BY_HOP, &bytes).unwrap();
        assert_eq!((chain.protocol, chain.payload, chain.named_at), (Protocol::UDP, 48, Some(40)));
        assert!(chain.has_hop_by_hop && chain.is_fragment());
        assert_eq!(chain.routing, Some((8, 1)));
        let fragment = Fragment { offset: 0, more: true, id: 9, next_header: next_header::DESTINATION };
        assert_eq!(chain.fragment, Some(FragmentHeader { at: 32, named_at: Some(8), fragment }));
        assert_eq!(chain.own_end(), 32);
        assert_eq!(Chain::walk(Protocol::TCP, &[]).unwrap().payload, 0);
    }

    #[test]
    fn behind_a_later_fragment_there_is_payload() {
        let bytes = [60, 0, 0, 8, 0, 0, 0, 1, 0xff, 0xff];
        let chain = Chain::walk(next_header::FRAGMENT, &bytes).unwrap();
        assert_eq!((chain.protocol, chain.payload), (next_header::DESTINATION, 8));
        assert_eq!(chain.fragment.unwrap().fragment.offset, 8);
        let atomic = Chain::walk(next_header::FRAGMENT, &[17, 0, 0, 0, 0, 0, 0, 1]).unwrap();
        assert!(!atomic.is_fragment() && atomic.fragment.is_some());
        assert_eq!(atomic.own_end(), 8);
    }

    #[test]
    fn authentication_headers_count_four_bytes_behind_the_first_eight() {
        // RFC 4302 section 2.2: 24 bytes are 6 words less two. Options whose header ends where the packet ends.
        let mut bytes = vec![60, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1];
        bytes.extend([0xa5; 12]);
        bytes.extend([17, 0, 1, 4, 0, 0, 0, 0]);
        let chain = Chain::walk(Protocol::AH, &bytes).unwrap();
        assert_eq!((chain.protocol, chain.payload, chain.named_at), (Protocol::UDP, 32, Some(24)));
        let sliced = etherparse::IpAuthHeader::from_slice(&bytes).unwrap();
        assert_eq!((sliced.0.header_len(), sliced.1.len()), (24, 8));
        assert_eq!(Chain::walk(Protocol::AH, &bytes[..23]).unwrap_err(), ChainError::Truncated { at: 0 });
        assert_eq!(extension_header(Protocol::AH, &bytes[..23]), None);
    }

    #[test]
    fn extension_headers_that_go_astray_are_refused_by_name() {
        let walk = |first, bytes: &[u8]| Chain::walk(first, bytes).unwrap_err();
        assert_eq!(walk(next_header::DESTINATION, &[17, 0, 0]), ChainError::Truncated { at: 0 });
        assert_eq!(walk(next_header::DESTINATION, &[17, 1, 0, 0, 0, 0, 0, 0]), ChainError::Truncated { at: 0 });
        assert_eq!(walk(next_header::FRAGMENT, &[17; 7]), ChainError::Truncated { at: 0 });
        let padding = [60, 0, 1, 4, 0, 0, 0, 0].repeat(20);
        assert_eq!(walk(next_header::DESTINATION, &padding), ChainError::TooMany { at: 64 });
        let late = [[0, 0, 1, 4, 0, 0, 0, 0], [17, 0, 1, 4, 0, 0, 0, 0]].concat();
        assert_eq!(walk(next_header::DESTINATION, &late), ChainError::HopByHopLate { named_at: 0 });
        let twice = [[44, 0, 0, 1, 0, 0, 0, 1], [17, 0, 0, 1, 0, 0, 0, 1]].concat();
        assert_eq!(walk(next_header::FRAGMENT, &twice), ChainError::FragmentTwice { named_at: 0 });
        // A first fragment, and an atomic one, that end within the options after the fragment header.
        let first = [60, 0, 0, 1, 0, 0, 0, 1, 17, 0, 1, 4];
        assert_eq!(walk(next_header::FRAGMENT, &first), ChainError::BeyondFirstFragment { at: 8 });
        let atomic = [60, 0, 0, 0, 0, 0, 0, 1, 17, 0, 1, 4];
        assert_eq!(walk(next_header::FRAGMENT, &atomic), ChainError::Truncated { at: 8 });
    }

    #[test]
    fn as_many_extension_headers_as_may_be_are_walked() {
        let mut bytes = [60, 0, 1, 4, 0, 0, 0, 0].repeat(MOST_EXTENSIONS);
        bytes[(MOST_EXTENSIONS - 1) * 8] = 6;
        assert_eq!(Chain::walk(next_header::DESTINATION, &bytes).unwrap().protocol, Protocol::TCP);
    }

    #[test]
    fn options_that_are_not_known_say_what_is_to_be_done() {
        let verdict = |kind: u8| options(&[17, 0, kind, 2, 0, 0, 0, 0]);
        assert_eq!(verdict(0x05), OptionVerdict::GoOn { router_alert: Some(0) });
        assert_eq!(verdict(0x1e), OptionVerdict::GoOn { router_alert: None });
        assert_eq!(verdict(0x5e), OptionVerdict::Discard);
        assert_eq!(verdict(0x9e), OptionVerdict::Tell { at: 2 });
        assert_eq!(verdict(0xde), OptionVerdict::TellUnlessGroup { at: 2 });
        assert_eq!(options(&[17, 0, 1, 5, 0, 0, 0, 0]), OptionVerdict::Malformed { at: 2 });
        assert_eq!(options(&[17, 0, 5, 1, 0, 0, 0, 0]), OptionVerdict::Malformed { at: 2 });
        assert_eq!(options(&[17, 0, 0, 0, 0, 0, 0, 1]), OptionVerdict::Malformed { at: 7 });
    }

    #[test]
    fn scopes() {
        let of = |text: &str| scope(text.parse().unwrap());
        assert_eq!([of("::1"), of("ff01::1")], [Scope::Interface; 2]);
        assert_eq!([of("fe80::1"), of("febf::1"), of("ff02::1"), of("ff12::1")], [Scope::Link; 4]);
        assert_eq!([of("fec0::1"), of("2001:db8::1"), of("ff0e::1"), of("fc00::1")], [Scope::Global; 4]);
        assert_eq!((of("ff05::2"), of("ff08::1")), (Scope::Site, Scope::Organisation));
    }

    proptest! {
        #[test]
        fn nothing_makes_a_walk_panic(first: u8,
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(vec![0u8, 43, 44, 51, 60])],
                0..200)) {
            if let Ok(chain) = Chain::walk(Protocol(first), &bytes) {
                prop_assert!(chain.payload <= bytes.len());
                prop_assert!(chain.named_at.is_none_or(|at| at < chain.payload));
            }
            let _ = options(&bytes);
            let _ = Header::new_checked(&bytes).map(|header| header.chain());
        }

        #[test]
        fn fragment_headers_read_back(offset in 0..8192u16, more: bool, id: u32, next: u8) {
            let fragment = Fragment { offset: offset * 8, more, id, next_header: Protocol(next) };
            let mut bytes = [0; FRAGMENT_HEADER_LEN];
            fragment.emit(&mut bytes);
            prop_assert_eq!(Fragment::parse(&bytes), Some(fragment));
        }
    }
}
