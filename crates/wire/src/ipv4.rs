//! Internet Protocol version 4 (RFC 791), with the differentiated services field of RFC 2474
//! and the ECN field of RFC 3168 in place of the type of service.

use std::fmt;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::Ipv4Address;
use crate::checksum;
use crate::layout::{fixed, fixed_mut};

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Bytes of a header with all the options that fit.
pub const MAX_HEADER_LEN: usize = 60;
/// Bytes of the options that fit.
pub const MAX_OPTIONS_LEN: usize = MAX_HEADER_LEN - HEADER_LEN;
/// Fragment offsets count in units of this many bytes.
pub const FRAGMENT_UNIT: u16 = 8;

const VERSION: u8 = 4;
const MIN_IHL: u8 = 5;
const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET_MASK: u16 = 0x1fff;
const ECN_BITS: u8 = 2;
const ECN_MASK: u8 = 0x03;

/// The protocol of the payload, as IANA numbers them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Protocol(pub u8);

impl Protocol {
    pub const ICMP: Self = Self(1);
    pub const IGMP: Self = Self(2);
    pub const IP_IN_IP: Self = Self(4);
    pub const TCP: Self = Self(6);
    pub const UDP: Self = Self(17);
    pub const IPV6: Self = Self(41);
    pub const GRE: Self = Self(47);
    pub const ESP: Self = Self(50);
    pub const AH: Self = Self(51);
    pub const ICMP6: Self = Self(58);
    pub const OSPF: Self = Self(89);
    pub const PIM: Self = Self(103);
    pub const VRRP: Self = Self(112);
    pub const SCTP: Self = Self(132);
}

/// The names that VPP's traces use.
impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::ICMP => "ICMP",
            Self::IGMP => "IGMP",
            Self::IP_IN_IP => "IP_IN_IP",
            Self::TCP => "TCP",
            Self::UDP => "UDP",
            Self::IPV6 => "IPV6",
            Self::GRE => "GRE",
            Self::ESP => "IPSEC_ESP",
            Self::AH => "IPSEC_AH",
            Self::ICMP6 => "ICMP6",
            Self::OSPF => "OSPF",
            Self::PIM => "PIM",
            Self::VRRP => "VRRP",
            Self::SCTP => "SCTP",
            Self(other) => return write!(f, "unknown {other}"),
        })
    }
}

/// Why bytes are not an IPv4 packet, in the order of the checks: RFC 1812, section 5.2.2, without the checksum, which
/// [`Header::verify_checksum`] checks. Lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    /// Shorter than a header without options.
    Truncated {
        available: usize,
    },
    Version(u8),
    /// The header length field, in 32-bit words, is less than five.
    HeaderLengthTooSmall {
        ihl: u8,
    },
    HeaderBeyondData {
        header_len: usize,
        available: usize,
    },
    TotalLengthBelowHeader {
        total_len: u16,
        header_len: usize,
    },
    TotalLengthBeyondData {
        total_len: u16,
        available: usize,
    },
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { available } => {
                write!(f, "IP header truncated: {available} bytes of {HEADER_LEN}")
            }
            Self::Version(version) => write!(f, "IP version {version}, expected 4"),
            Self::HeaderLengthTooSmall { ihl } => {
                write!(f, "IP header length of {ihl} words, expected at least {MIN_IHL}")
            }
            Self::HeaderBeyondData { header_len, available } => {
                write!(f, "IP header of {header_len} bytes, but only {available} bytes are there")
            }
            Self::TotalLengthBelowHeader { total_len, header_len } => {
                write!(f, "IP total length {total_len} is less than the header of {header_len}")
            }
            Self::TotalLengthBeyondData { total_len, available } => {
                write!(f, "IP total length {total_len}, but only {available} bytes are there")
            }
        }
    }
}

impl std::error::Error for ParseError {}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Fixed {
    version_ihl: u8,
    tos: u8,
    total_len: U16,
    id: U16,
    flags_fragment: U16,
    ttl: u8,
    protocol: u8,
    checksum: U16,
    src: [u8; 4],
    dst: [u8; 4],
}

const _: () = assert!(size_of::<Fixed>() == HEADER_LEN);

/// A view of a packet.
#[derive(Clone, Copy, Debug)]
pub struct Header<T>(T);

impl<T: AsRef<[u8]>> Header<T> {
    /// Checks that header, options and payload are within `bytes`, which may continue with padding. The checksum is not
    /// checked.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, ParseError> {
        let available = bytes.as_ref().len();
        if available < HEADER_LEN {
            return Err(ParseError::Truncated { available });
        }
        let header = Self(bytes);
        let (ihl, header_len) = (header.ihl(), header.header_len());
        let total_len = header.total_len();
        if header.version() != VERSION {
            return Err(ParseError::Version(header.version()));
        }
        if ihl < MIN_IHL {
            return Err(ParseError::HeaderLengthTooSmall { ihl });
        }
        if header_len > available {
            return Err(ParseError::HeaderBeyondData { header_len, available });
        }
        if usize::from(total_len) < header_len {
            return Err(ParseError::TotalLengthBelowHeader { total_len, header_len });
        }
        if usize::from(total_len) > available {
            return Err(ParseError::TotalLengthBeyondData { total_len, available });
        }
        Ok(header)
    }

    /// A view of bytes that were checked before, or of which only the fixed fields are needed (the start of a packet in
    /// a trace, the first buffer of a chain).
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
        self.fixed().version_ihl >> 4
    }

    #[inline]
    fn ihl(&self) -> u8 {
        self.fixed().version_ihl & 0x0f
    }

    /// In bytes, options included.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.ihl()) * 4
    }

    /// DSCP and ECN together, the former type of service.
    #[inline]
    pub fn tos(&self) -> u8 {
        self.fixed().tos
    }

    /// 0 to 63.
    #[inline]
    pub fn dscp(&self) -> u8 {
        self.tos() >> ECN_BITS
    }

    /// 0 to 3.
    #[inline]
    pub fn ecn(&self) -> u8 {
        self.tos() & ECN_MASK
    }

    /// Bytes of header and payload.
    #[inline]
    pub fn total_len(&self) -> u16 {
        self.fixed().total_len.get()
    }

    #[inline]
    pub fn id(&self) -> u16 {
        self.fixed().id.get()
    }

    #[inline]
    fn flags_fragment(&self) -> u16 {
        self.fixed().flags_fragment.get()
    }

    #[inline]
    pub fn dont_fragment(&self) -> bool {
        self.flags_fragment() & DONT_FRAGMENT != 0
    }

    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.flags_fragment() & MORE_FRAGMENTS != 0
    }

    /// In bytes, a multiple of eight up to 65528.
    #[inline]
    pub fn fragment_offset(&self) -> u16 {
        (self.flags_fragment() & OFFSET_MASK) * FRAGMENT_UNIT
    }

    /// Whether the packet is any fragment, the first included.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.flags_fragment() & (MORE_FRAGMENTS | OFFSET_MASK) != 0
    }

    #[inline]
    pub fn ttl(&self) -> u8 {
        self.fixed().ttl
    }

    #[inline]
    pub fn protocol(&self) -> Protocol {
        Protocol(self.fixed().protocol)
    }

    #[inline]
    pub fn checksum(&self) -> u16 {
        self.fixed().checksum.get()
    }

    #[inline]
    pub fn src(&self) -> Ipv4Address {
        self.fixed().src.into()
    }

    #[inline]
    pub fn dst(&self) -> Ipv4Address {
        self.fixed().dst.into()
    }

    /// The header with its options.
    #[inline]
    pub fn header_bytes(&self) -> &[u8] {
        &self.0.as_ref()[..self.header_len()]
    }

    /// The bytes between the fixed header and the payload; [`Options`] parses them.
    #[inline]
    pub fn option_bytes(&self) -> &[u8] {
        &self.header_bytes()[HEADER_LEN..]
    }

    #[inline]
    pub fn options(&self) -> Options<'_> {
        Options::new(self.option_bytes())
    }

    /// The bytes from the header to the total length, without the frame's padding.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[self.header_len()..usize::from(self.total_len())]
    }

    /// RFC 1812, section 5.2.2 (2).
    #[inline]
    pub fn verify_checksum(&self) -> bool {
        checksum::checksum(self.header_bytes()) == 0
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Header<T> {
    #[inline]
    fn fixed_mut(&mut self) -> &mut Fixed {
        fixed_mut(self.0.as_mut())
    }

    /// `dscp` is 0 to 63, `ecn` 0 to 3; higher bits are ignored.
    #[inline]
    pub fn set_tos(&mut self, dscp: u8, ecn: u8) {
        self.fixed_mut().tos = dscp << ECN_BITS | ecn & ECN_MASK;
    }

    /// Bytes of header and payload. The caller ensures that it is between the header length and the bytes of the view.
    #[inline]
    pub fn set_total_len(&mut self, total_len: u16) {
        self.fixed_mut().total_len = total_len.into();
    }

    #[inline]
    pub fn set_id(&mut self, id: u16) {
        self.fixed_mut().id = id.into();
    }

    /// `offset` is in bytes.
    ///
    /// # Panics
    /// When `offset` is not a multiple of eight.
    #[inline]
    pub fn set_fragment(&mut self, dont_fragment: bool, more_fragments: bool, offset: u16) {
        self.fixed_mut().flags_fragment = flags_fragment(dont_fragment, more_fragments, offset).into();
    }

    #[inline]
    pub fn set_ttl(&mut self, ttl: u8) {
        self.fixed_mut().ttl = ttl;
    }

    #[inline]
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.fixed_mut().protocol = protocol.0;
    }

    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        self.fixed_mut().checksum = checksum.into();
    }

    #[inline]
    pub fn set_src(&mut self, src: Ipv4Address) {
        self.fixed_mut().src = src.octets();
    }

    #[inline]
    pub fn set_dst(&mut self, dst: Ipv4Address) {
        self.fixed_mut().dst = dst.octets();
    }

    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let (start, end) = (self.header_len(), usize::from(self.total_len()));
        &mut self.0.as_mut()[start..end]
    }

    /// Computes the checksum over header and options. Other setters do not update it.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let checksum = checksum::checksum(self.header_bytes());
        self.set_checksum(checksum);
    }

    /// Decrements the TTL, updates the checksum (RFC 1624) and returns the new TTL. A wrong checksum stays wrong. A TTL
    /// of zero, which a router must not forward (RFC 1812, section 5.3.1), stays zero.
    #[inline]
    pub fn decrement_ttl(&mut self) -> u8 {
        let fields = self.fixed_mut();
        let Some(ttl) = fields.ttl.checked_sub(1) else {
            return 0;
        };
        let word = |ttl| u16::from_be_bytes([ttl, fields.protocol]);
        let checksum = checksum::update16(fields.checksum.get(), word(fields.ttl), word(ttl));
        fields.checksum = checksum.into();
        fields.ttl = ttl;
        ttl
    }
}

fn flags_fragment(dont_fragment: bool, more_fragments: bool, offset: u16) -> u16 {
    assert!(offset.is_multiple_of(FRAGMENT_UNIT), "fragment offset {offset} is no multiple of 8");
    let flag = |set, bit| if set { bit } else { 0 };
    flag(dont_fragment, DONT_FRAGMENT) | flag(more_fragments, MORE_FRAGMENTS) | (offset / FRAGMENT_UNIT)
}

/// A header without options, as plain data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repr {
    pub src: Ipv4Address,
    pub dst: Ipv4Address,
    pub protocol: Protocol,
    pub ttl: u8,
    /// 0 to 63.
    pub dscp: u8,
    /// 0 to 3.
    pub ecn: u8,
    pub id: u16,
    pub dont_fragment: bool,
    pub more_fragments: bool,
    /// In bytes, a multiple of eight.
    pub fragment_offset: u16,
    /// Bytes after the header, at most 65515.
    pub payload_len: u16,
}

impl Repr {
    /// The fields of a packet that `new_checked` accepted; its options are left out.
    pub fn parse<T: AsRef<[u8]>>(header: &Header<T>) -> Self {
        Self {
            src: header.src(),
            dst: header.dst(),
            protocol: header.protocol(),
            ttl: header.ttl(),
            dscp: header.dscp(),
            ecn: header.ecn(),
            id: header.id(),
            dont_fragment: header.dont_fragment(),
            more_fragments: header.more_fragments(),
            fragment_offset: header.fragment_offset(),
            payload_len: header.total_len() - header.header_len() as u16,
        }
    }

    /// Writes the header, checksum included, to the first 20 bytes of `buf`.
    ///
    /// # Panics
    /// When `buf` is shorter than that, the payload longer than 65515 bytes, or the fragment
    /// offset not a multiple of eight.
    pub fn emit(&self, buf: &mut [u8]) {
        let total_len = self.payload_len.checked_add(HEADER_LEN as u16);
        *fixed_mut(buf) = Fixed {
            version_ihl: VERSION << 4 | MIN_IHL,
            tos: self.dscp << ECN_BITS | self.ecn & ECN_MASK,
            total_len: total_len.expect("an IPv4 payload of at most 65515 bytes").into(),
            id: self.id.into(),
            flags_fragment: flags_fragment(self.dont_fragment, self.more_fragments, self.fragment_offset).into(),
            ttl: self.ttl,
            protocol: self.protocol.0,
            checksum: 0.into(),
            src: self.src.octets(),
            dst: self.dst.octets(),
        };
        Header(buf).fill_checksum();
    }
}

/// One option (RFC 791, section 3.1). NOP is an option, too, so that all options can be copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ipv4Option<'a> {
    /// The type byte: copied flag, class and number.
    pub kind: u8,
    /// The bytes after type and length; empty for NOP.
    pub data: &'a [u8],
}

impl Ipv4Option<'_> {
    pub const END_OF_LIST: u8 = 0;
    pub const NO_OPERATION: u8 = 1;
    pub const RECORD_ROUTE: u8 = 7;
    pub const TIMESTAMP: u8 = 68;
    pub const LOOSE_SOURCE_ROUTE: u8 = 131;
    pub const STRICT_SOURCE_ROUTE: u8 = 137;
    /// RFC 2113.
    pub const ROUTER_ALERT: u8 = 148;

    /// Whether every fragment carries the option, or only the first.
    pub const fn copied(&self) -> bool {
        self.kind & 0x80 != 0
    }

    /// 0 is control, 2 debugging and measurement.
    pub const fn class(&self) -> u8 {
        self.kind >> 5 & 0x03
    }

    pub const fn number(&self) -> u8 {
        self.kind & 0x1f
    }
}

/// Why the options from here on cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OptionError {
    /// The header ends after the type byte.
    LengthMissing {
        kind: u8,
    },
    /// The length counts type and length bytes, so it is at least two.
    LengthTooSmall {
        kind: u8,
        length: u8,
    },
    BeyondHeader {
        kind: u8,
        length: u8,
        available: usize,
    },
}

impl fmt::Display for OptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::LengthMissing { kind } => {
                write!(f, "IP option {kind} has no length: the header ends after its type")
            }
            Self::LengthTooSmall { kind, length } => {
                write!(f, "IP option {kind} has length {length}, expected at least 2")
            }
            Self::BeyondHeader { kind, length, available } => {
                write!(f, "IP option {kind} has length {length}, but the header has {available}")
            }
        }
    }
}

impl std::error::Error for OptionError {}

/// Iterates over the options of a header up to the end of list or of the header. An error is the last item.
#[derive(Clone, Copy, Debug)]
pub struct Options<'a> {
    rest: &'a [u8],
}

impl<'a> Options<'a> {
    pub const fn new(option_bytes: &'a [u8]) -> Self {
        Self { rest: option_bytes }
    }

    /// Writes the options that every fragment carries to the start of `into`, padded to whole words with ends of list
    /// (RFC 791, section 3.1). Returns their bytes, a multiple of four.
    ///
    /// # Errors
    /// When the options cannot be read to their end.
    pub fn write_copied(self, into: &mut [u8; MAX_OPTIONS_LEN]) -> Result<usize, OptionError> {
        let mut end = 0;
        for option in self {
            let option = option?;
            if option.copied() {
                let length = 2 + option.data.len();
                // The options of a header fit, so a subset fits, too.
                let place = &mut into[end..end + length];
                place[0] = option.kind;
                place[1] = length as u8;
                place[2..].copy_from_slice(option.data);
                end += length;
            }
        }
        let whole = end.next_multiple_of(4);
        into[end..whole].fill(Ipv4Option::END_OF_LIST);
        Ok(whole)
    }

    /// The first option of `bytes`, and what follows it.
    fn split(kind: u8, bytes: &'a [u8]) -> Result<(Ipv4Option<'a>, &'a [u8]), OptionError> {
        if kind == Ipv4Option::NO_OPERATION {
            return Ok((Ipv4Option { kind, data: &[] }, &bytes[1..]));
        }
        let &length = bytes.get(1).ok_or(OptionError::LengthMissing { kind })?;
        if length < 2 {
            return Err(OptionError::LengthTooSmall { kind, length });
        }
        let (option, rest) = bytes.split_at_checked(length.into()).ok_or(OptionError::BeyondHeader {
            kind,
            length,
            available: bytes.len(),
        })?;
        Ok((Ipv4Option { kind, data: &option[2..] }, rest))
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<Ipv4Option<'a>, OptionError>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = std::mem::take(&mut self.rest);
        let &kind = bytes.first().filter(|&&kind| kind != Ipv4Option::END_OF_LIST)?;
        let item = Self::split(kind, bytes).map(|(option, rest)| {
            self.rest = rest;
            option
        });
        Some(item)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// UDP, 100.64.1.2 to 10.0.0.1, total length 24, don't fragment, then two bytes of padding.
    const PACKET: [u8; 26] = [
        0x45, 0xb9, 0x00, 0x18, 0x12, 0x34, 0x40, 0x00, 0x40, 0x11, 0xb8, 0xa5, // fields
        100, 64, 1, 2, 10, 0, 0, 1, // addresses
        0xca, 0xfe, 0xba, 0xbe, 0xee, 0xee,
    ];
    const REPR: Repr = Repr {
        src: Ipv4Address::new(100, 64, 1, 2),
        dst: Ipv4Address::new(10, 0, 0, 1),
        protocol: Protocol::UDP,
        ttl: 64,
        dscp: 46,
        ecn: 1,
        id: 0x1234,
        dont_fragment: true,
        more_fragments: false,
        fragment_offset: 0,
        payload_len: 4,
    };

    fn with(changes: &[(usize, u8)]) -> [u8; 26] {
        let mut bytes = PACKET;
        changes.iter().for_each(|&(at, value)| bytes[at] = value);
        bytes
    }

    #[test]
    fn fields_are_read_from_their_places() {
        let header = Header::new_checked(PACKET).unwrap();
        assert_eq!(Repr::parse(&header), REPR);
        assert_eq!((header.version(), header.header_len(), header.tos()), (4, 20, 0xb9));
        assert_eq!((header.total_len(), header.checksum()), (24, 0xb8a5));
        assert!(header.verify_checksum() && !header.is_fragment());
        assert_eq!(header.payload(), [0xca, 0xfe, 0xba, 0xbe]);
        assert!(header.option_bytes().is_empty());
    }

    #[test]
    fn emit_and_setters_write_the_same_bytes() {
        let mut emitted = with(&[]);
        emitted[..HEADER_LEN].fill(0xee);
        REPR.emit(&mut emitted);
        assert_eq!(emitted, PACKET);

        let mut set = [0xee; 26];
        set[..4].copy_from_slice(&[0x45, 0, 0, 24]);
        let mut header = Header::new_checked(&mut set[..]).unwrap();
        header.set_tos(46, 1);
        header.set_total_len(24);
        header.set_id(0x1234);
        header.set_fragment(true, false, 0);
        header.set_ttl(64);
        header.set_protocol(Protocol::UDP);
        header.set_src(REPR.src);
        header.set_dst(REPR.dst);
        header.payload_mut().copy_from_slice(&[0xca, 0xfe, 0xba, 0xbe]);
        header.fill_checksum();
        assert_eq!(set, PACKET);
    }

    #[test]
    fn fragment_fields_are_in_bytes() {
        let header = Header::new_checked(with(&[(6, 0x3f), (7, 0xff)])).unwrap();
        assert!(header.more_fragments() && !header.dont_fragment() && header.is_fragment());
        assert_eq!(header.fragment_offset(), 65528);
        let mut bytes = PACKET;
        Header::new_checked(&mut bytes[..]).unwrap().set_fragment(false, true, 1480);
        assert_eq!(bytes[6..8], [0x20, 185]);
    }

    #[test]
    fn each_wrong_length_has_its_own_error() {
        let error = |bytes: &[u8]| Header::new_checked(bytes).unwrap_err();
        assert_eq!(error(&PACKET[..19]), ParseError::Truncated { available: 19 });
        assert_eq!(error(&with(&[(0, 0x65)])), ParseError::Version(6));
        assert_eq!(error(&with(&[(0, 0x44)])), ParseError::HeaderLengthTooSmall { ihl: 4 });
        assert_eq!(error(&with(&[(0, 0x47)])), ParseError::HeaderBeyondData { header_len: 28, available: 26 });
        assert_eq!(error(&with(&[(3, 19)])), ParseError::TotalLengthBelowHeader { total_len: 19, header_len: 20 });
        assert_eq!(error(&with(&[(3, 27)])), ParseError::TotalLengthBeyondData { total_len: 27, available: 26 });
        assert!(Header::new_checked(with(&[(3, 20)])).unwrap().payload().is_empty());
        assert!(Header::new_checked(with(&[(3, 26)])).is_ok());
    }

    #[test]
    fn a_flipped_bit_fails_the_checksum() {
        for at in 0..HEADER_LEN {
            let mut bytes = PACKET;
            bytes[at] ^= 1;
            // At offset 0 the flipped bit makes the header 16 bytes long, which is refused before.
            if let Ok(header) = Header::new_checked(bytes) {
                assert!(!header.verify_checksum(), "byte {at}");
            }
        }
    }

    #[test]
    fn decremented_ttl_keeps_the_checksum_right() {
        let mut bytes = PACKET;
        let mut header = Header::new_checked(&mut bytes[..]).unwrap();
        for ttl in (0..64).rev() {
            assert_eq!(header.decrement_ttl(), ttl);
            assert_eq!(header.ttl(), ttl);
            assert!(header.verify_checksum());
        }
        assert_eq!(header.decrement_ttl(), 0);
        assert!(header.verify_checksum());
    }

    #[test]
    fn options_are_taken_apart_until_the_end_of_list() {
        let mut bytes = [0; 32];
        bytes[..HEADER_LEN].copy_from_slice(&PACKET[..HEADER_LEN]);
        bytes[0] = 0x48;
        bytes[3] = 32;
        bytes[20..].copy_from_slice(&[1, 148, 4, 0, 0, 68, 4, 5, 0, 0, 0xff, 0xff]);
        let mut header = Header::new_checked(&mut bytes[..]).unwrap();
        header.fill_checksum();
        assert!(header.verify_checksum());
        let options: Vec<_> = header.options().collect();
        assert_eq!(
            options,
            [
                Ok(Ipv4Option { kind: 1, data: &[] }),
                Ok(Ipv4Option { kind: Ipv4Option::ROUTER_ALERT, data: &[0, 0] }),
                Ok(Ipv4Option { kind: Ipv4Option::TIMESTAMP, data: &[5, 0] }),
            ]
        );
        let alert = options[1].unwrap();
        assert_eq!((alert.copied(), alert.class(), alert.number()), (true, 0, 20));
        let timestamp = options[2].unwrap();
        assert_eq!((timestamp.copied(), timestamp.class(), timestamp.number()), (false, 2, 4));
    }

    #[test]
    fn malformed_option_is_an_error_and_the_end() {
        let items = |bytes: &'static [u8]| Options::new(bytes).collect::<Vec<_>>();
        let nop = Ok(Ipv4Option { kind: 1, data: &[] });
        assert_eq!(items(&[1, 7]), [nop, Err(OptionError::LengthMissing { kind: 7 })]);
        for length in [0, 1] {
            let mut options = [7, length, 1, 1];
            options[3] = 1;
            let items: Vec<_> = Options::new(&options).collect();
            assert_eq!(items, [Err(OptionError::LengthTooSmall { kind: 7, length })]);
        }
        assert_eq!(items(&[1, 7, 4, 1]), [nop, Err(OptionError::BeyondHeader { kind: 7, length: 4, available: 3 })]);
    }

    #[test]
    fn only_copied_options_are_for_all_fragments() {
        let copied = |bytes: &[u8]| {
            let mut into = [0xee; MAX_OPTIONS_LEN];
            Options::new(bytes).write_copied(&mut into).map(|length| into[..length].to_vec())
        };
        assert_eq!(copied(&[]), Ok(vec![]));
        // Record route and timestamp are only for the first fragment, and so is NOP.
        assert_eq!(copied(&[1, 7, 3, 4, 68, 4, 5, 0]), Ok(vec![]));
        assert_eq!(copied(&[1, 148, 4, 0, 0, 7, 3, 4]), Ok(vec![148, 4, 0, 0]));
        // Three bytes and four: padded to two words.
        assert_eq!(copied(&[131, 3, 4, 1, 148, 4, 0, 0]), Ok(vec![131, 3, 4, 148, 4, 0, 0, 0]));
        // Bytes behind the end of the list are ignored.
        assert_eq!(copied(&[130, 2, 0, 148, 4, 0, 0, 0]), Ok(vec![130, 2, 0, 0]));
        let mut longest = [0xaa; MAX_OPTIONS_LEN];
        (longest[0], longest[1]) = (130, 40);
        assert_eq!(copied(&longest), Ok(longest.to_vec()));
        assert_eq!(copied(&[148, 4, 0, 0, 7, 9, 4, 0]).unwrap_err(), {
            OptionError::BeyondHeader { kind: 7, length: 9, available: 4 }
        });
    }

    proptest! {
        #[test]
        fn copied_options_are_the_copied_ones(bytes in prop::collection::vec(any::<u8>(), 0..=40)) {
            let mut into = [0xee; MAX_OPTIONS_LEN];
            let items: Vec<_> = Options::new(&bytes).collect();
            let written = Options::new(&bytes).write_copied(&mut into);
            prop_assert_eq!(written.is_err(), items.iter().any(Result::is_err));
            if let Ok(length) = written {
                let copied: Vec<_> = items.into_iter().flatten().filter(Ipv4Option::copied).collect();
                prop_assert!(length % 4 == 0 && length <= bytes.len().next_multiple_of(4));
                prop_assert_eq!(Options::new(&into[..length]).collect::<Result<Vec<_>, _>>().unwrap(), copied);
            }
        }

        #[test]
        fn options_of_any_bytes_end(bytes in prop::collection::vec(any::<u8>(), 0..=40)) {
            let items: Vec<_> = Options::new(&bytes).collect();
            let errors = items.iter().filter(|item| item.is_err()).count();
            prop_assert!(items.len() <= bytes.len());
            prop_assert!(errors == 0 || errors == 1 && items.last().unwrap().is_err());
        }

        #[test]
        fn decrement_equals_recomputation(
            mut bytes in prop::array::uniform20(any::<u8>()), ttl in 1u8..,
        ) {
            bytes[0] = 0x45;
            bytes[2..4].copy_from_slice(&[0, 20]);
            bytes[8] = ttl;
            let mut header = Header::new_checked(&mut bytes[..]).unwrap();
            header.fill_checksum();
            header.decrement_ttl();
            let updated = header.checksum();
            header.fill_checksum();
            prop_assert_eq!(updated, header.checksum());
        }
    }
}
