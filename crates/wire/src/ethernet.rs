//! Ethernet II framing (IEEE 802.3, clause 3): destination, source, EtherType.

use std::fmt;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::MacAddress;
use crate::layout::{fixed, fixed_mut};

/// Bytes of an untagged header.
pub const HEADER_LEN: usize = 14;
/// The shortest frame on a cable, header included, frame check sequence not.
pub const MIN_FRAME: usize = 60;

/// What follows the addresses: a protocol, or below 0x0600 an IEEE 802.3 length.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EtherType(pub u16);

impl EtherType {
    pub const IPV4: Self = Self(0x0800);
    pub const ARP: Self = Self(0x0806);
    pub const VLAN: Self = Self(0x8100);
    pub const IPV6: Self = Self(0x86dd);
    pub const MPLS: Self = Self(0x8847);
    pub const QINQ: Self = Self(0x88a8);
    pub const LLDP: Self = Self(0x88cc);

    /// Whether the value is the length of an 802.3 frame with an LLC header, not a type.
    #[inline]
    pub const fn is_length(self) -> bool {
        self.0 < 0x0600
    }

    /// Whether a VLAN tag follows (IEEE 802.1Q-2022 9.5): a customer's or a service's.
    #[inline]
    pub const fn is_tag(self) -> bool {
        matches!(self, Self::VLAN | Self::QINQ)
    }
}

/// The names that operators see in VPP's traces; hexadecimal for a type without one.
impl fmt::Display for EtherType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::IPV4 => "IP4",
            Self::ARP => "ARP",
            Self::VLAN => "VLAN",
            Self::IPV6 => "IP6",
            Self::MPLS => "MPLS",
            Self::QINQ => "DOT1AD",
            Self::LLDP => "802_1_LLDP",
            Self(other) => return write!(f, "0x{other:04x}"),
        })
    }
}

/// Why bytes are not an Ethernet frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    Truncated { available: usize },
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Truncated { available } = self;
        write!(f, "Ethernet header truncated: {available} bytes of {HEADER_LEN}")
    }
}

impl std::error::Error for ParseError {}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Fixed {
    dst: MacAddress,
    src: MacAddress,
    ethertype: U16,
}

const _: () = assert!(size_of::<Fixed>() == HEADER_LEN);

/// A view of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Header<T>(T);

impl<T: AsRef<[u8]>> Header<T> {
    /// # Errors
    /// When there are fewer than 14 bytes. A frame shorter than [`MIN_FRAME`] is fine: virtual
    /// links carry them.
    #[inline]
    pub fn new_checked(bytes: T) -> Result<Self, ParseError> {
        match bytes.as_ref().len() {
            available @ ..HEADER_LEN => Err(ParseError::Truncated { available }),
            _ => Ok(Self(bytes)),
        }
    }

    #[inline]
    fn fixed(&self) -> &Fixed {
        fixed(self.0.as_ref())
    }

    #[inline]
    pub fn dst(&self) -> MacAddress {
        self.fixed().dst
    }

    #[inline]
    pub fn src(&self) -> MacAddress {
        self.fixed().src
    }

    #[inline]
    pub fn ethertype(&self) -> EtherType {
        EtherType(self.fixed().ethertype.get())
    }

    /// Everything after the header, padding included.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[HEADER_LEN..]
    }
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Header<T> {
    #[inline]
    fn fixed_mut(&mut self) -> &mut Fixed {
        fixed_mut(self.0.as_mut())
    }

    #[inline]
    pub fn set_dst(&mut self, dst: MacAddress) {
        self.fixed_mut().dst = dst;
    }

    #[inline]
    pub fn set_src(&mut self, src: MacAddress) {
        self.fixed_mut().src = src;
    }

    #[inline]
    pub fn set_ethertype(&mut self, ethertype: EtherType) {
        self.fixed_mut().ethertype = ethertype.0.into();
    }

    #[inline]
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.0.as_mut()[HEADER_LEN..]
    }
}

/// Writes a header to the first 14 bytes of `buf`.
///
/// # Panics
/// When `buf` is shorter than that.
#[inline]
pub fn emit(buf: &mut [u8], dst: MacAddress, src: MacAddress, ethertype: EtherType) {
    *fixed_mut(buf) = Fixed { dst, src, ethertype: ethertype.0.into() };
}

#[cfg(test)]
mod tests {
    use super::*;

    const FRAME: [u8; 16] = [0x02, 0, 0, 0, 0, 0x01, 0x02, 0, 0, 0, 0, 0xaa, 0x08, 0x00, 0x45, 0x00];
    const DST: MacAddress = MacAddress([2, 0, 0, 0, 0, 1]);
    const SRC: MacAddress = MacAddress([2, 0, 0, 0, 0, 0xaa]);

    #[test]
    fn fields_are_read_from_their_places() {
        let header = Header::new_checked(FRAME).unwrap();
        assert_eq!((header.dst(), header.src()), (DST, SRC));
        assert_eq!(header.ethertype(), EtherType::IPV4);
        assert_eq!(header.payload(), [0x45, 0x00]);
    }

    #[test]
    fn emit_and_setters_write_the_same_bytes() {
        let mut emitted = FRAME;
        emitted[..HEADER_LEN].fill(0xee);
        let mut set = emitted;
        emit(&mut emitted, DST, SRC, EtherType::IPV4);
        let mut header = Header::new_checked(&mut set[..]).unwrap();
        header.set_dst(DST);
        header.set_src(SRC);
        header.set_ethertype(EtherType::IPV4);
        header.payload_mut()[1] = 0x00;
        assert_eq!((emitted, set), (FRAME, FRAME));
    }

    #[test]
    fn thirteen_bytes_are_refused() {
        let error = Header::new_checked(&FRAME[..13]).unwrap_err();
        assert_eq!(error, ParseError::Truncated { available: 13 });
        assert_eq!(error.to_string(), "Ethernet header truncated: 13 bytes of 14");
        assert!(Header::new_checked(&FRAME[..14]).unwrap().payload().is_empty());
    }

    #[test]
    fn ethertypes_below_0x0600_are_lengths() {
        assert!(EtherType(0x05ff).is_length() && !EtherType(0x0600).is_length());
        assert_eq!(EtherType(0x1234).to_string(), "0x1234");
        assert_eq!(EtherType::IPV4.to_string(), "IP4");
    }
}
