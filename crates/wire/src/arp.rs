//! Address Resolution Protocol for IPv4 over Ethernet (RFC 826).

use std::fmt;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::addr::{Ipv4Address, MacAddress};
use crate::ethernet::EtherType;
use crate::layout::{fixed, fixed_mut};

/// Bytes of an ARP packet with Ethernet and IPv4 addresses.
pub const LEN: usize = 28;
/// `ar$hrd` of Ethernet.
pub const HARDWARE_ETHERNET: u16 = 1;

const HARDWARE_ADDRESS_LEN: u8 = 6;
const PROTOCOL_ADDRESS_LEN: u8 = 4;

/// `ar$op`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Request,
    Reply,
    Other(u16),
}

impl From<u16> for Operation {
    fn from(value: u16) -> Self {
        match value {
            1 => Self::Request,
            2 => Self::Reply,
            other => Self::Other(other),
        }
    }
}

impl From<Operation> for u16 {
    fn from(operation: Operation) -> Self {
        match operation {
            Operation::Request => 1,
            Operation::Reply => 2,
            Operation::Other(other) => other,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Request => f.write_str("request"),
            Self::Reply => f.write_str("reply"),
            Self::Other(value) => write!(f, "unknown 0x{value:x}"),
        }
    }
}

/// Why bytes are not ARP for IPv4 over Ethernet, in the order of RFC 826's checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    Truncated { available: usize },
    HardwareType(u16),
    HardwareLength(u8),
    ProtocolType(u16),
    ProtocolLength(u8),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { available } => {
                write!(f, "ARP packet truncated: {available} bytes of {LEN}")
            }
            Self::HardwareType(value) => {
                write!(f, "ARP hardware type {value}: only 1, Ethernet, is supported")
            }
            Self::ProtocolType(value) => {
                write!(f, "ARP protocol type 0x{value:04x}: only 0x0800, IPv4, is supported")
            }
            Self::HardwareLength(value) => {
                write!(f, "ARP hardware address length {value}: Ethernet has 6")
            }
            Self::ProtocolLength(value) => {
                write!(f, "ARP protocol address length {value}: IPv4 has 4")
            }
        }
    }
}

impl std::error::Error for ParseError {}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Fixed {
    hardware_type: U16,
    protocol_type: U16,
    hardware_length: u8,
    protocol_length: u8,
    operation: U16,
    sender_mac: MacAddress,
    sender_ip: [u8; 4],
    target_mac: MacAddress,
    target_ip: [u8; 4],
}

const _: () = assert!(size_of::<Fixed>() == LEN);

/// A whole ARP packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arp {
    pub operation: Operation,
    pub sender_mac: MacAddress,
    pub sender_ip: Ipv4Address,
    pub target_mac: MacAddress,
    pub target_ip: Ipv4Address,
}

impl Arp {
    /// Reads the first 28 bytes; what follows is padding.
    pub fn parse(bytes: &[u8]) -> Result<Self, ParseError> {
        if bytes.len() < LEN {
            return Err(ParseError::Truncated { available: bytes.len() });
        }
        let packet: &Fixed = fixed(bytes);
        // RFC 826, packet reception: "Do I have the hardware type in ar$hrd?", "Do I speak
        // the protocol in ar$pro?", each with its optional length check.
        if packet.hardware_type.get() != HARDWARE_ETHERNET {
            return Err(ParseError::HardwareType(packet.hardware_type.get()));
        }
        if packet.hardware_length != HARDWARE_ADDRESS_LEN {
            return Err(ParseError::HardwareLength(packet.hardware_length));
        }
        if packet.protocol_type.get() != EtherType::IPV4.0 {
            return Err(ParseError::ProtocolType(packet.protocol_type.get()));
        }
        if packet.protocol_length != PROTOCOL_ADDRESS_LEN {
            return Err(ParseError::ProtocolLength(packet.protocol_length));
        }
        Ok(Self {
            operation: packet.operation.get().into(),
            sender_mac: packet.sender_mac,
            sender_ip: packet.sender_ip.into(),
            target_mac: packet.target_mac,
            target_ip: packet.target_ip.into(),
        })
    }

    /// Writes the packet to the first 28 bytes of `buf`.
    ///
    /// # Panics
    /// When `buf` is shorter than that.
    pub fn emit(&self, buf: &mut [u8]) {
        *fixed_mut(buf) = Fixed {
            hardware_type: HARDWARE_ETHERNET.into(),
            protocol_type: EtherType::IPV4.0.into(),
            hardware_length: HARDWARE_ADDRESS_LEN,
            protocol_length: PROTOCOL_ADDRESS_LEN,
            operation: u16::from(self.operation).into(),
            sender_mac: self.sender_mac,
            sender_ip: self.sender_ip.octets(),
            target_mac: self.target_mac,
            target_ip: self.target_ip.octets(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST_BYTES: [u8; LEN] = [
        0x00, 0x01, 0x08, 0x00, 6, 4, 0x00, 0x01, // Ethernet, IPv4, request
        0x50, 0x7c, 0x6f, 0x20, 0x30, 0x70, 192, 168, 1, 1, // sender
        0, 0, 0, 0, 0, 0, 192, 168, 1, 2, // target
    ];
    const REQUEST: Arp = Arp {
        operation: Operation::Request,
        sender_mac: MacAddress([0x50, 0x7c, 0x6f, 0x20, 0x30, 0x70]),
        sender_ip: Ipv4Address::new(192, 168, 1, 1),
        target_mac: MacAddress::ZERO,
        target_ip: Ipv4Address::new(192, 168, 1, 2),
    };

    #[test]
    fn request_is_read_and_written() {
        assert_eq!(Arp::parse(&REQUEST_BYTES), Ok(REQUEST));
        let mut padded = [0xee; 46];
        REQUEST.emit(&mut padded);
        assert_eq!(padded[..LEN], REQUEST_BYTES);
        assert_eq!(padded[LEN..], [0xee; 18]);
        assert_eq!(Arp::parse(&padded), Ok(REQUEST));
    }

    #[test]
    fn operations_have_their_numbers() {
        for (number, operation) in [(1, Operation::Request), (2, Operation::Reply), (3, Operation::Other(3))] {
            assert_eq!((Operation::from(number), u16::from(operation)), (operation, number));
        }
    }

    #[test]
    fn each_wrong_field_has_its_own_error() {
        let with = |at: usize, value: u8| {
            let mut bytes = REQUEST_BYTES;
            bytes[at] = value;
            Arp::parse(&bytes).unwrap_err()
        };
        assert_eq!(with(1, 6), ParseError::HardwareType(6));
        assert_eq!(with(3, 6), ParseError::ProtocolType(0x0806));
        assert_eq!(with(4, 8), ParseError::HardwareLength(8));
        assert_eq!(with(5, 16), ParseError::ProtocolLength(16));
        assert_eq!(Arp::parse(&REQUEST_BYTES[..27]), Err(ParseError::Truncated { available: 27 }));
    }
}
