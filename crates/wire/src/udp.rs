//! User Datagram Protocol (RFC 768).

use std::fmt;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::checksum;
use crate::layout::{fixed, fixed_mut};

/// Bytes of a header.
pub const HEADER_LEN: usize = 8;

/// Why bytes are not a UDP datagram. Lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    Truncated { available: usize },
    LengthTooSmall { length: u16 },
    LengthBeyondData { length: u16, available: usize },
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { available } => {
                write!(f, "UDP header truncated: {available} bytes of {HEADER_LEN}")
            }
            Self::LengthTooSmall { length } => {
                write!(f, "UDP length {length}, expected at least {HEADER_LEN}")
            }
            Self::LengthBeyondData { length, available } => {
                write!(f, "UDP length {length}, but only {available} bytes are there")
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
    length: U16,
    checksum: U16,
}

const _: () = assert!(size_of::<Fixed>() == HEADER_LEN);

/// A view of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Header<T>(T);

impl<T: AsRef<[u8]>> Header<T> {
    /// Checks that header and payload lie within `bytes`.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, ParseError> {
        let available = bytes.as_ref().len();
        if available < HEADER_LEN {
            return Err(ParseError::Truncated { available });
        }
        let header = Self(bytes);
        let length = header.length();
        if usize::from(length) < HEADER_LEN {
            return Err(ParseError::LengthTooSmall { length });
        }
        if usize::from(length) > available {
            return Err(ParseError::LengthBeyondData { length, available });
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

    /// Bytes of header and payload.
    #[inline]
    pub fn length(&self) -> u16 {
        self.fixed().length.get()
    }

    /// Zero when the sender computed none.
    #[inline]
    pub fn checksum(&self) -> u16 {
        self.fixed().checksum.get()
    }

    fn datagram(&self) -> &[u8] {
        &self.0.as_ref()[..usize::from(self.length())]
    }

    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.datagram()[HEADER_LEN..]
    }

    /// `pseudo_header` is [`checksum::pseudo_header4`] with this header's length. A checksum of
    /// zero, "none", is right: over IPv6 the caller must refuse it (RFC 8200, section 8.1).
    pub fn verify_checksum(&self, pseudo_header: u32) -> bool {
        self.checksum() == 0 || checksum::fold(checksum::sum(self.datagram(), pseudo_header)) == u16::MAX
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

    /// Bytes of header and payload. The caller keeps it within the bytes of the view.
    #[inline]
    pub fn set_length(&mut self, length: u16) {
        self.fixed_mut().length = length.into();
    }

    #[inline]
    pub fn set_checksum(&mut self, checksum: u16) {
        self.fixed_mut().checksum = checksum.into();
    }

    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        let end = usize::from(self.length());
        &mut self.0.as_mut()[HEADER_LEN..end]
    }

    /// Computes the checksum; one that comes out as zero is sent as 0xffff (RFC 768).
    pub fn fill_checksum(&mut self, pseudo_header: u32) {
        self.set_checksum(0);
        let checksum = !checksum::fold(checksum::sum(self.datagram(), pseudo_header));
        self.set_checksum(if checksum == 0 { u16::MAX } else { checksum });
    }
}

/// Writes a header without checksum to the first 8 bytes of `buf`. `length` is in bytes, header
/// and payload.
///
/// # Panics
/// When `buf` is shorter than 8 bytes.
pub fn emit(buf: &mut [u8], src_port: u16, dst_port: u16, length: u16) {
    *fixed_mut(buf) =
        Fixed { src_port: src_port.into(), dst_port: dst_port.into(), length: length.into(), checksum: 0.into() };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::addr::Ipv4Address;
    use crate::checksum::pseudo_header4;

    /// 1234 to 5678, four bytes of payload, one of padding.
    const DATAGRAM: [u8; 13] = [0x04, 0xd2, 0x16, 0x2e, 0x00, 0x0c, 0xef, 0xd5, 0xca, 0xfe, 0xba, 0xbe, 0xee];

    fn pseudo_header(length: u16) -> u32 {
        pseudo_header4(Ipv4Address::new(100, 64, 1, 2), Ipv4Address::new(10, 0, 0, 1), 17, length)
    }

    #[test]
    fn fields_are_read_from_their_places() {
        let header = Header::new_checked(DATAGRAM).unwrap();
        assert_eq!((header.src_port(), header.dst_port()), (1234, 5678));
        assert_eq!((header.length(), header.checksum()), (12, 0xefd5));
        assert_eq!(header.payload(), [0xca, 0xfe, 0xba, 0xbe]);
        assert!(header.verify_checksum(pseudo_header(12)));
        assert!(!header.verify_checksum(pseudo_header(13)));
    }

    #[test]
    fn emit_and_setters_write_the_same_bytes() {
        let mut emitted = DATAGRAM;
        emitted[..HEADER_LEN].fill(0xee);
        emit(&mut emitted, 1234, 5678, 12);
        Header::new_checked(&mut emitted[..]).unwrap().fill_checksum(pseudo_header(12));
        assert_eq!(emitted, DATAGRAM);

        let mut set = [0xee; 13];
        set[4..6].copy_from_slice(&[0, 13]);
        let mut header = Header::new_checked(&mut set[..]).unwrap();
        header.set_src_port(1234);
        header.set_dst_port(5678);
        header.set_length(12);
        header.payload_mut().copy_from_slice(&[0xca, 0xfe, 0xba, 0xbe]);
        header.fill_checksum(pseudo_header(12));
        assert_eq!(set, DATAGRAM);
    }

    #[test]
    fn each_wrong_length_has_its_own_error() {
        let with_length = |length: u8| {
            let mut bytes = DATAGRAM;
            bytes[5] = length;
            Header::new_checked(bytes).map(|_| ())
        };
        assert_eq!(with_length(7), Err(ParseError::LengthTooSmall { length: 7 }));
        assert_eq!(with_length(8), Ok(()));
        assert_eq!(with_length(13), Ok(()));
        assert_eq!(with_length(14), Err(ParseError::LengthBeyondData { length: 14, available: 13 }));
        let error = Header::new_checked(&DATAGRAM[..7]).unwrap_err();
        assert_eq!(error, ParseError::Truncated { available: 7 });
    }

    #[test]
    fn zero_checksum_means_none() {
        let mut bytes = DATAGRAM;
        Header::new_checked(&mut bytes[..]).unwrap().set_checksum(0);
        assert!(Header::new_checked(bytes).unwrap().verify_checksum(pseudo_header(12)));
    }

    #[test]
    fn checksum_that_comes_out_as_zero_is_sent_as_all_ones() {
        // With its own checksum as payload, everything else sums to 0xffff.
        let mut bytes = [0x04, 0xd2, 0x16, 0x2e, 0x00, 0x0a, 0, 0, 0, 0];
        let sum = checksum::checksum(&bytes) - pseudo_header(10) as u16;
        bytes[8..].copy_from_slice(&sum.to_be_bytes());
        let mut header = Header::new_checked(&mut bytes[..]).unwrap();
        header.fill_checksum(pseudo_header(10));
        assert_eq!(header.checksum(), 0xffff);
        assert!(header.verify_checksum(pseudo_header(10)));
    }
}
