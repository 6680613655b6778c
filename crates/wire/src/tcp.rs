//! Transmission Control Protocol (RFC 9293): what a router needs of it, which is to read
//! ports and flags and to cut large segments into small ones.

use std::fmt;
use std::ops::BitOr;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum;
use crate::layout::{fixed, fixed_mut};

/// Bytes of a header without options.
pub const HEADER_LEN: usize = 20;
/// Bytes of a header with all the options that fit.
pub const MAX_HEADER_LEN: usize = 60;

const MIN_DATA_OFFSET: u8 = 5;

/// The control bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Flags(pub u8);

impl Flags {
    pub const FIN: Self = Self(0x01);
    pub const SYN: Self = Self(0x02);
    pub const RST: Self = Self(0x04);
    pub const PSH: Self = Self(0x08);
    pub const ACK: Self = Self(0x10);
    pub const URG: Self = Self(0x20);
    pub const ECE: Self = Self(0x40);
    pub const CWR: Self = Self(0x80);

    const NAMES: [&'static str; 8] = ["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ECE", "CWR"];

    /// Whether all of `flags` are set.
    #[inline]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// These flags with all of `flags` cleared.
    #[inline]
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }
}

impl BitOr for Flags {
    type Output = Self;

    #[inline]
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The names of those set, the lowest bit first, with a space between.
impl fmt::Display for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (bit, name) in Self::NAMES.iter().enumerate() {
            if self.0 & 1 << bit != 0 {
                write!(f, "{separator}{name}")?;
                separator = " ";
            }
        }
        Ok(())
    }
}

/// Why bytes are not a TCP segment. Lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    Truncated {
        available: usize,
    },
    /// The data offset, in 32-bit words, is less than five.
    DataOffsetTooSmall {
        words: u8,
    },
    HeaderBeyondData {
        header_len: usize,
        available: usize,
    },
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { available } => {
                write!(f, "TCP header truncated: {available} bytes of {HEADER_LEN}")
            }
            Self::DataOffsetTooSmall { words } => {
                write!(f, "TCP data offset of {words} words, expected at least {MIN_DATA_OFFSET}")
            }
            Self::HeaderBeyondData { header_len, available } => {
                write!(f, "TCP header of {header_len} bytes, but only {available} bytes are there")
            }
        }
    }
}

impl std::error::Error for ParseError {}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Fixed {
    src_port: U16,
    dst_port: U16,
    seq: U32,
    ack: U32,
    offset_reserved: u8,
    flags: u8,
    window: U16,
    checksum: U16,
    urgent: U16,
}

const _: () = assert!(size_of::<Fixed>() == HEADER_LEN);

/// A view of a segment: all bytes of an IP payload, for TCP has no length of its own.
#[derive(Clone, Copy, Debug)]
pub struct Header<T>(T);

impl<T: AsRef<[u8]>> Header<T> {
    /// Checks that header and options lie within `bytes`.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, ParseError> {
        let available = bytes.as_ref().len();
        if available < HEADER_LEN {
            return Err(ParseError::Truncated { available });
        }
        let header = Self(bytes);
        let header_len = header.header_len();
        if header_len < HEADER_LEN {
            return Err(ParseError::DataOffsetTooSmall { words: (header_len / 4) as u8 });
        }
        if header_len > available {
            return Err(ParseError::HeaderBeyondData { header_len, available });
        }
        Ok(header)
    }

    /// A view of bytes that were checked before, or of which only the fixed fields are wanted.
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
    pub fn src_port(&self) -> u16 {
        self.fixed().src_port.get()
    }

    #[inline]
    pub fn dst_port(&self) -> u16 {
        self.fixed().dst_port.get()
    }

    #[inline]
    pub fn seq(&self) -> u32 {
        self.fixed().seq.get()
    }

    #[inline]
    pub fn ack(&self) -> u32 {
        self.fixed().ack.get()
    }

    /// In bytes, options included.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.fixed().offset_reserved >> 4) * 4
    }

    #[inline]
    pub fn flags(&self) -> Flags {
        Flags(self.fixed().flags)
    }

    #[inline]
    pub fn window(&self) -> u16 {
        self.fixed().window.get()
    }

    #[inline]
    pub fn checksum(&self) -> u16 {
        self.fixed().checksum.get()
    }

    #[inline]
    pub fn urgent(&self) -> u16 {
        self.fixed().urgent.get()
    }

    /// The bytes between the fixed header and the payload.
    #[inline]
    pub fn option_bytes(&self) -> &[u8] {
        &self.0.as_ref()[HEADER_LEN..self.header_len()]
    }

    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[self.header_len()..]
    }

    /// `pseudo_header` is [`checksum::pseudo_header4`] with the length of the whole segment.
    pub fn verify_checksum(&self, pseudo_header: u32) -> bool {
        checksum::fold(checksum::sum(self.0.as_ref(), pseudo_header)) == u16::MAX
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Header<T> {
    #[inline]
    fn fixed_mut(&mut self) -> &mut Fixed {
        fixed_mut(self.0.as_mut())
    }

    #[inline]
    pub fn set_src_port(&mut self, port: u16) {
        self.fixed_mut().src_port = port.into();
    }

    #[inline]
    pub fn set_dst_port(&mut self, port: u16) {
        self.fixed_mut().dst_port = port.into();
    }

    #[inline]
    pub fn set_seq(&mut self, seq: u32) {
        self.fixed_mut().seq = seq.into();
    }

    #[inline]
    pub fn set_ack(&mut self, ack: u32) {
        self.fixed_mut().ack = ack.into();
    }

    #[inline]
    pub fn set_flags(&mut self, flags: Flags) {
        self.fixed_mut().flags = flags.0;
    }

    #[inline]
    pub fn set_window(&mut self, window: u16) {
        self.fixed_mut().window = window.into();
    }

    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        self.fixed_mut().checksum = checksum.into();
    }

    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let start = self.header_len();
        &mut self.0.as_mut()[start..]
    }

    /// Computes the checksum over pseudo header, header and payload.
    pub fn fill_checksum(&mut self, pseudo_header: u32) {
        self.set_checksum(0);
        let checksum = !checksum::fold(checksum::sum(self.0.as_ref(), pseudo_header));
        self.set_checksum(checksum);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Ipv4Address;
    use crate::checksum::pseudo_header4;

    /// 36790 to 80, SYN with an MSS option of 1460, and one byte of payload.
    const SEGMENT: [u8; 25] = [
        0x8f, 0xb6, 0x00, 0x50, 0x7b, 0x5c, 0x2a, 0x5f, 0x01, 0x02, 0x03, 0x04, // ports, seq, ack
        0x60, 0x02, 0xfa, 0xf0, 0x00, 0x00, 0x00, 0x05, // offset, flags, window, urgent
        0x02, 0x04, 0x05, 0xb4, 0xaa,
    ];

    fn pseudo_header() -> u32 {
        pseudo_header4(Ipv4Address::new(10, 0, 0, 1), Ipv4Address::new(10, 0, 0, 2), 6, 25)
    }

    #[test]
    fn fields_are_read_from_their_places() {
        let header = Header::new_checked(SEGMENT).unwrap();
        assert_eq!((header.src_port(), header.dst_port()), (36790, 80));
        assert_eq!((header.seq(), header.ack()), (0x7b5c2a5f, 0x01020304));
        assert_eq!((header.header_len(), header.flags()), (24, Flags::SYN));
        assert_eq!((header.window(), header.checksum(), header.urgent()), (64240, 0, 5));
        assert_eq!(header.option_bytes(), [2, 4, 5, 0xb4]);
        assert_eq!(header.payload(), [0xaa]);
    }

    #[test]
    fn setters_write_to_their_places_and_leave_the_rest() {
        let mut bytes = SEGMENT;
        let mut header = Header::new_checked(&mut bytes[..]).unwrap();
        header.set_src_port(1);
        header.set_dst_port(2);
        header.set_seq(3);
        header.set_ack(4);
        header.set_flags(Flags::PSH | Flags::CWR);
        header.set_window(5);
        header.set_checksum(6);
        header.payload_mut()[0] = 7;
        let mut expected = SEGMENT;
        expected[..12].copy_from_slice(&[0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4]);
        expected[13..18].copy_from_slice(&[0x88, 0, 5, 0, 6]);
        expected[24] = 7;
        assert_eq!(bytes, expected);
    }

    #[test]
    fn each_wrong_length_has_its_own_error() {
        let with_offset = |words: u8| {
            let mut bytes = SEGMENT;
            bytes[12] = words << 4;
            Header::new_checked(bytes).map(|_| ())
        };
        assert_eq!(with_offset(4), Err(ParseError::DataOffsetTooSmall { words: 4 }));
        assert_eq!(with_offset(5), Ok(()));
        assert_eq!(with_offset(7), Err(ParseError::HeaderBeyondData { header_len: 28, available: 25 }));
        let error = Header::new_checked(&SEGMENT[..19]).unwrap_err();
        assert_eq!(error, ParseError::Truncated { available: 19 });
    }

    #[test]
    fn filled_checksum_verifies_and_a_changed_byte_does_not() {
        let mut bytes = SEGMENT;
        Header::new_checked(&mut bytes[..]).unwrap().fill_checksum(pseudo_header());
        assert_eq!(bytes[16..18], [0xa5, 0x64]);
        assert!(Header::new_checked(bytes).unwrap().verify_checksum(pseudo_header()));
        bytes[24] ^= 1;
        assert!(!Header::new_checked(bytes).unwrap().verify_checksum(pseudo_header()));
    }

    #[test]
    fn flags_combine_and_print() {
        let last = Flags::ACK | Flags::PSH | Flags::FIN;
        assert!(last.contains(Flags::ACK | Flags::FIN) && !last.contains(Flags::ACK | Flags::SYN));
        assert_eq!(last.without(Flags::PSH | Flags::FIN | Flags::CWR), Flags::ACK);
        assert_eq!(last.to_string(), "FIN PSH ACK");
        assert_eq!(Flags::default().to_string(), "");
    }
}
