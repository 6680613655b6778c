//! Neighbor Discovery for IPv6 (RFC 4861), with the options of RFC 3971, 4191 and 8106: messages of ICMPv6
//! ([`crate::icmpv6`]), which begin behind the ICMPv6 header.

use std::fmt;

use crate::addr::{Ipv6Address, MacAddress};
use crate::icmpv6::{HEADER_LEN, Message, Type};

/// Neighbor Discovery is accepted only with this hop limit: no router has forwarded it (RFC 4861 section 7.1).
pub const HOP_LIMIT: u8 = 255;
/// Bytes of a neighbour solicitation or advertisement without options.
pub const NEIGHBOUR_LEN: usize = 24;
/// An infinite time, in the options of a router advertisement (RFC 4861 section 4.6.2).
pub const FOREVER: u32 = u32::MAX;
/// Bytes of a router advertisement without options.
pub const ROUTER_ADVERTISEMENT_LEN: usize = 16;
/// Bytes of a redirect without options (RFC 4861 section 4.5).
pub const REDIRECT_LEN: usize = 40;
/// Bytes of a redirected-header option before the packet that it quotes (RFC 4861 section 4.6.3).
pub const REDIRECTED_HEADER_LEN: usize = 8;

/// Why bytes are not a message of Neighbor Discovery. Lengths are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    Truncated {
        available: usize,
        needed: usize,
    },
    /// An option of Neighbor Discovery has length zero, or extends beyond the message.
    Option {
        at: usize,
    },
    /// The target is a group (RFC 4861 section 7.1).
    GroupTarget,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { available, needed } => {
                write!(f, "Neighbor Discovery truncated: {available} bytes of {needed}")
            }
            Self::Option { at } => write!(f, "the option at {at} has no length or goes beyond the message"),
            Self::GroupTarget => f.write_str("the target is a group"),
        }
    }
}

impl std::error::Error for ParseError {}

/// An option of Neighbor Discovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NdOption<'a> {
    SourceLinkAddress(MacAddress),
    TargetLinkAddress(MacAddress),
    Prefix(PrefixInformation),
    /// In bytes.
    Mtu(u32),
    /// Recursive DNS servers (RFC 8106 section 5.1), 16 bytes each, and their lifetime in seconds.
    DnsServers {
        lifetime: u32,
        servers: &'a [u8],
    },
    /// A search list (RFC 8106 section 5.2) in DNS's encoding, padded with zeros, and its lifetime in seconds.
    DnsSearch {
        lifetime: u32,
        names: &'a [u8],
    },
    /// A number that its sender recognises (RFC 3971 section 5.3.2): it distinguishes the sender's own probe that comes
    /// back from another host's probe (RFC 7527).
    Nonce(&'a [u8]),
    Other {
        kind: u8,
        data: &'a [u8],
    },
}

/// A prefix that a router advertises (RFC 4861 section 4.6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefixInformation {
    pub prefix: Ipv6Address,
    pub length: u8,
    /// The prefix is on the link (L).
    pub on_link: bool,
    /// Hosts form addresses from it by themselves (A; RFC 4862).
    pub autonomous: bool,
    /// Seconds; all ones: infinite.
    pub valid: u32,
    pub preferred: u32,
}

mod option {
    pub const SOURCE_LINK_ADDRESS: u8 = 1;
    pub const TARGET_LINK_ADDRESS: u8 = 2;
    pub const PREFIX: u8 = 3;
    pub const REDIRECTED_HEADER: u8 = 4;
    pub const MTU: u8 = 5;
    pub const NONCE: u8 = 14;
    pub const DNS_SERVERS: u8 = 25;
    pub const DNS_SEARCH: u8 = 31;
}

/// Options count in units of this many bytes.
const OPTION_UNIT: usize = 8;
const PREFIX_LEN: usize = 32;
const ON_LINK: u8 = 0x80;
const AUTONOMOUS: u8 = 0x40;

impl<'a> NdOption<'a> {
    /// Reads one whole option: `bytes` has the option's length. Known kinds with a wrong length are `Other`.
    fn read(bytes: &'a [u8]) -> Self {
        let other = Self::Other { kind: bytes[0], data: &bytes[2..] };
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        match (bytes[0], bytes.len()) {
            (option::SOURCE_LINK_ADDRESS | option::TARGET_LINK_ADDRESS, OPTION_UNIT) => {
                let mac = MacAddress([bytes[2], bytes[3], bytes[4], bytes[5], bytes[6], bytes[7]]);
                match bytes[0] {
                    option::SOURCE_LINK_ADDRESS => Self::SourceLinkAddress(mac),
                    _ => Self::TargetLinkAddress(mac),
                }
            }
            (option::PREFIX, PREFIX_LEN) => {
                let prefix: [u8; 16] = bytes[16..].try_into().expect("16 bytes are left");
                Self::Prefix(PrefixInformation {
                    prefix: prefix.into(),
                    length: bytes[2],
                    on_link: bytes[3] & ON_LINK != 0,
                    autonomous: bytes[3] & AUTONOMOUS != 0,
                    valid: word(4),
                    preferred: word(8),
                })
            }
            (option::MTU, OPTION_UNIT) => Self::Mtu(word(4)),
            (option::DNS_SERVERS, length) if length >= 24 && length % 16 == 8 => {
                Self::DnsServers { lifetime: word(4), servers: &bytes[8..] }
            }
            (option::DNS_SEARCH, length) if length >= 16 => Self::DnsSearch { lifetime: word(4), names: &bytes[8..] },
            (option::NONCE, _) => Self::Nonce(&bytes[2..]),
            _ => other,
        }
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::SourceLinkAddress(_) | Self::TargetLinkAddress(_) | Self::Mtu(_) => OPTION_UNIT,
            Self::Prefix(_) => PREFIX_LEN,
            Self::DnsServers { servers, .. } => OPTION_UNIT + servers.len(),
            Self::DnsSearch { names, .. } => OPTION_UNIT + names.len().next_multiple_of(OPTION_UNIT),
            Self::Nonce(data) | Self::Other { data, .. } => (2 + data.len()).next_multiple_of(OPTION_UNIT),
        }
    }

    /// Never: no option is empty.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Writes the option and returns its length.
    ///
    /// # Panics
    /// When `bytes` is too short, or the option longer than 2040 bytes.
    pub fn emit(&self, bytes: &mut [u8]) -> usize {
        let bytes = &mut bytes[..self.len()];
        bytes.fill(0);
        bytes[1] = u8::try_from(bytes.len() / OPTION_UNIT).expect("an option of at most 2040 bytes");
        match *self {
            Self::SourceLinkAddress(mac) => {
                bytes[0] = option::SOURCE_LINK_ADDRESS;
                bytes[2..8].copy_from_slice(&mac.0);
            }
            Self::TargetLinkAddress(mac) => {
                bytes[0] = option::TARGET_LINK_ADDRESS;
                bytes[2..8].copy_from_slice(&mac.0);
            }
            Self::Prefix(PrefixInformation { prefix, length, on_link, autonomous, valid, preferred }) => {
                bytes[0] = option::PREFIX;
                bytes[2] = length;
                bytes[3] = if on_link { ON_LINK } else { 0 } | if autonomous { AUTONOMOUS } else { 0 };
                bytes[4..8].copy_from_slice(&valid.to_be_bytes());
                bytes[8..12].copy_from_slice(&preferred.to_be_bytes());
                bytes[16..].copy_from_slice(&prefix.octets());
            }
            Self::Mtu(mtu) => {
                bytes[0] = option::MTU;
                bytes[4..].copy_from_slice(&mtu.to_be_bytes());
            }
            Self::DnsServers { lifetime, servers: data } | Self::DnsSearch { lifetime, names: data } => {
                let is_servers = matches!(self, Self::DnsServers { .. });
                bytes[0] = if is_servers { option::DNS_SERVERS } else { option::DNS_SEARCH };
                bytes[4..8].copy_from_slice(&lifetime.to_be_bytes());
                bytes[8..8 + data.len()].copy_from_slice(data);
            }
            Self::Nonce(data) | Self::Other { data, .. } => {
                bytes[0] = if let Self::Other { kind, .. } = *self { kind } else { option::NONCE };
                bytes[2..2 + data.len()].copy_from_slice(data);
            }
        }
        bytes.len()
    }
}

/// The options of a message of Neighbor Discovery, all of which are complete.
#[derive(Clone, Copy, Debug)]
pub struct NdOptions<'a>(&'a [u8]);

impl<'a> NdOptions<'a> {
    /// Checks the lengths of all options. A message with an option of length 0 must be ignored (RFC 4861 section 4.6).
    fn new(bytes: &'a [u8], base: usize) -> Result<Self, ParseError> {
        let mut at = 0;
        while at < bytes.len() {
            let length = bytes.get(at + 1).map_or(0, |units| usize::from(*units) * OPTION_UNIT);
            if length == 0 || at + length > bytes.len() {
                return Err(ParseError::Option { at: base + at });
            }
            at += length;
        }
        Ok(Self(bytes))
    }

    pub fn iter(self) -> impl Iterator<Item = NdOption<'a>> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let (option, behind) = rest.split_at_checked(usize::from(*rest.get(1)?) * OPTION_UNIT)?;
            rest = behind;
            Some(NdOption::read(option))
        })
    }

    /// The sender's MAC address, if the option is there.
    pub fn source(self) -> Option<MacAddress> {
        self.iter().find_map(|option| if let NdOption::SourceLinkAddress(mac) = option { Some(mac) } else { None })
    }

    /// The number by which a sender recognises its own solicitation, if there is one.
    pub fn nonce(self) -> Option<&'a [u8]> {
        self.iter().find_map(|option| if let NdOption::Nonce(nonce) = option { Some(nonce) } else { None })
    }

    /// The target's MAC address, if the option is there.
    pub fn target(self) -> Option<MacAddress> {
        self.iter().find_map(|option| if let NdOption::TargetLinkAddress(mac) = option { Some(mac) } else { None })
    }
}

/// A message of Neighbor Discovery.
#[derive(Clone, Copy, Debug)]
pub enum Discovery<'a> {
    RouterSolicitation(NdOptions<'a>),
    RouterAdvertisement(RouterAdvertisement, NdOptions<'a>),
    NeighbourSolicitation { target: Ipv6Address, options: NdOptions<'a> },
    NeighbourAdvertisement { flags: AdvertisementFlags, target: Ipv6Address, options: NdOptions<'a> },
    Redirect { target: Ipv6Address, destination: Ipv6Address, options: NdOptions<'a> },
}

/// The flags of a neighbour advertisement (RFC 4861 section 4.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AdvertisementFlags {
    pub router: bool,
    pub solicited: bool,
    pub overrides: bool,
}

/// The preference of a router (RFC 4191 section 2.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preference {
    High,
    #[default]
    Medium,
    Low,
}

/// The fixed part of a router advertisement (RFC 4861 section 4.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RouterAdvertisement {
    /// The hop limit that hosts should use; 0: unspecified.
    pub hop_limit: u8,
    /// Addresses are available by DHCPv6 (M).
    pub managed: bool,
    /// Other configuration is available by DHCPv6 (O).
    pub other: bool,
    pub preference: Preference,
    /// Seconds for which the router is a default router; 0: it is not one.
    pub lifetime: u16,
    /// Milliseconds; 0: unspecified.
    pub reachable: u32,
    pub retransmit: u32,
}

const MANAGED: u8 = 0x80;
const OTHER: u8 = 0x40;

impl RouterAdvertisement {
    fn read(bytes: &[u8]) -> Self {
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        Self {
            hop_limit: bytes[4],
            managed: bytes[5] & MANAGED != 0,
            other: bytes[5] & OTHER != 0,
            // The fourth value is reserved and treated as medium (RFC 4191 section 2.2).
            preference: match bytes[5] >> 3 & 3 {
                0b01 => Preference::High,
                0b11 => Preference::Low,
                _ => Preference::Medium,
            },
            lifetime: u16::from_be_bytes([bytes[6], bytes[7]]),
            reachable: word(8),
            retransmit: word(12),
        }
    }

    /// Writes the message without options, with a checksum of zero.
    ///
    /// # Panics
    /// When `bytes` is shorter than [`ROUTER_ADVERTISEMENT_LEN`].
    pub fn emit(&self, bytes: &mut [u8]) {
        let preference = match self.preference {
            Preference::High => 0b01,
            Preference::Medium => 0b00,
            Preference::Low => 0b11,
        };
        let flags = if self.managed { MANAGED } else { 0 } | if self.other { OTHER } else { 0 } | preference << 3;
        bytes[..4].copy_from_slice(&[Type::ROUTER_ADVERTISEMENT.0, 0, 0, 0]);
        (bytes[4], bytes[5]) = (self.hop_limit, flags);
        bytes[6..8].copy_from_slice(&self.lifetime.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.reachable.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.retransmit.to_be_bytes());
    }
}

const ROUTER: u8 = 0x80;
const SOLICITED: u8 = 0x40;
const OVERRIDE: u8 = 0x20;

impl<'a> Discovery<'a> {
    /// Reads a message whose header was checked. `None`: it is of another kind.
    ///
    /// # Errors
    /// When it is too short, an option is incomplete, or a target is a group.
    pub fn parse(bytes: &'a [u8]) -> Option<Result<Self, ParseError>> {
        let kind = Type(*bytes.first()?);
        let needed = match kind {
            Type::ROUTER_SOLICITATION => HEADER_LEN,
            Type::ROUTER_ADVERTISEMENT => ROUTER_ADVERTISEMENT_LEN,
            Type::NEIGHBOUR_SOLICITATION | Type::NEIGHBOUR_ADVERTISEMENT => NEIGHBOUR_LEN,
            Type::REDIRECT => 40,
            _ => return None,
        };
        Some(Self::read(kind, bytes, needed))
    }

    fn read(kind: Type, bytes: &'a [u8], needed: usize) -> Result<Self, ParseError> {
        if bytes.len() < needed {
            return Err(ParseError::Truncated { available: bytes.len(), needed });
        }
        let options = NdOptions::new(&bytes[needed..], needed)?;
        let address = |at: usize| {
            let octets: [u8; 16] = bytes[at..at + 16].try_into().expect("16 bytes");
            Ipv6Address::from(octets)
        };
        let target = || Some(address(8)).filter(|target| !target.is_multicast()).ok_or(ParseError::GroupTarget);
        Ok(match kind {
            Type::ROUTER_SOLICITATION => Self::RouterSolicitation(options),
            Type::ROUTER_ADVERTISEMENT => Self::RouterAdvertisement(RouterAdvertisement::read(bytes), options),
            Type::NEIGHBOUR_SOLICITATION => Self::NeighbourSolicitation { target: target()?, options },
            Type::NEIGHBOUR_ADVERTISEMENT => {
                let flags = AdvertisementFlags {
                    router: bytes[4] & ROUTER != 0,
                    solicited: bytes[4] & SOLICITED != 0,
                    overrides: bytes[4] & OVERRIDE != 0,
                };
                Self::NeighbourAdvertisement { flags, target: target()?, options }
            }
            _ => Self::Redirect { target: target()?, destination: address(24), options },
        })
    }
}

/// Longest label and longest name of DNS, in bytes (RFC 1035 section 2.3.4).
const MAX_LABEL: usize = 63;
const MAX_NAME: usize = 255;

/// Bytes of a domain name in DNS's encoding; none: it is not a valid name.
pub fn domain_name_len(name: &str) -> Option<usize> {
    let is_label = |label: &str| {
        (1..=MAX_LABEL).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    Some(name.len() + 2).filter(|length| *length <= MAX_NAME && name.split('.').all(is_label))
}

/// A domain name in DNS's encoding (RFC 1035 section 3.1).
pub fn emit_domain_name(name: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(name.len() + 2);
    for label in name.split('.') {
        bytes.push(label.len() as u8);
        bytes.extend(label.as_bytes());
    }
    bytes.push(0);
    bytes
}

/// Writes a neighbour solicitation without options, with a checksum of zero.
///
/// # Panics
/// When `bytes` is shorter than [`NEIGHBOUR_LEN`].
pub fn emit_solicitation(bytes: &mut [u8], target: Ipv6Address) {
    Message::Other { kind: Type::NEIGHBOUR_SOLICITATION, code: 0, rest: 0 }.emit(bytes);
    bytes[8..NEIGHBOUR_LEN].copy_from_slice(&target.octets());
}

/// Writes a neighbour advertisement without options, with a checksum of zero.
///
/// # Panics
/// When `bytes` is shorter than [`NEIGHBOUR_LEN`].
pub fn emit_advertisement(bytes: &mut [u8], target: Ipv6Address, flags: AdvertisementFlags) {
    let bit = |is_set: bool, bit: u8| if is_set { u32::from(bit) << 24 } else { 0 };
    let rest = bit(flags.router, ROUTER) | bit(flags.solicited, SOLICITED) | bit(flags.overrides, OVERRIDE);
    Message::Other { kind: Type::NEIGHBOUR_ADVERTISEMENT, code: 0, rest }.emit(bytes);
    bytes[8..NEIGHBOUR_LEN].copy_from_slice(&target.octets());
}

/// Writes a redirect without options, with a checksum of zero: packets to `destination` should go to `target`.
///
/// # Panics
/// When `bytes` is shorter than [`REDIRECT_LEN`].
pub fn emit_redirect(bytes: &mut [u8], target: Ipv6Address, destination: Ipv6Address) {
    Message::Other { kind: Type::REDIRECT, code: 0, rest: 0 }.emit(bytes);
    bytes[8..24].copy_from_slice(&target.octets());
    bytes[24..REDIRECT_LEN].copy_from_slice(&destination.octets());
}

/// Writes the head of a redirected-header option before this many quoted bytes, which are already at their place.
///
/// # Panics
/// When `bytes` is shorter than [`REDIRECTED_HEADER_LEN`], or the option no multiple of 8 bytes or longer than 2040.
pub fn emit_redirected_header(bytes: &mut [u8], quote: usize) {
    let length = REDIRECTED_HEADER_LEN + quote;
    assert_eq!(length % OPTION_UNIT, 0);
    bytes[..REDIRECTED_HEADER_LEN].fill(0);
    bytes[0] = option::REDIRECTED_HEADER;
    bytes[1] = u8::try_from(length / OPTION_UNIT).expect("an option of at most 2040 bytes");
}

/// The group in which the owner of an address receives solicitations for it (RFC 4291 section 2.7.1).
pub fn solicited_node(address: Ipv6Address) -> Ipv6Address {
    const PREFIX: u128 = 0xff02_0000_0000_0000_0000_0001_ff00_0000;
    Ipv6Address::from_bits(PREFIX | address.to_bits() & 0xff_ffff)
}

/// The Ethernet address of a group (RFC 2464 section 7).
pub fn group_mac(group: Ipv6Address) -> MacAddress {
    let [.., a, b, c, d] = group.octets();
    MacAddress([0x33, 0x33, a, b, c, d])
}

/// The link-local address that a station forms from its MAC address (RFC 4291 appendix A, RFC 2464 section 5).
pub fn link_local(mac: MacAddress) -> Ipv6Address {
    let [a, b, c, d, e, f] = mac.0;
    Ipv6Address::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAC: MacAddress = MacAddress([0x02, 0xfe, 0x62, 0x6f, 0x03, 0x33]);

    fn address(text: &str) -> Ipv6Address {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_that_are_made_of_others() {
        assert_eq!(solicited_node(address("2001:db8::12:3456")), address("ff02::1:ff12:3456"));
        assert_eq!(group_mac(address("ff02::1:ff12:3456")).to_string(), "33:33:ff:12:34:56");
        assert_eq!(link_local(MAC), address("fe80::fe:62ff:fe6f:333"));
    }

    #[test]
    fn a_solicitation_and_its_answer_read_back() {
        let target = address("2001:db8::7");
        let mut bytes = [0; NEIGHBOUR_LEN + 8];
        emit_solicitation(&mut bytes, target);
        NdOption::SourceLinkAddress(MAC).emit(&mut bytes[NEIGHBOUR_LEN..]);
        let Some(Ok(Discovery::NeighbourSolicitation { target: read, options })) = Discovery::parse(&bytes) else {
            panic!("not a solicitation");
        };
        assert_eq!((read, options.source(), options.target()), (target, Some(MAC), None));
        let flags = AdvertisementFlags { router: true, solicited: false, overrides: true };
        emit_advertisement(&mut bytes, target, flags);
        NdOption::TargetLinkAddress(MAC).emit(&mut bytes[NEIGHBOUR_LEN..]);
        let Some(Ok(Discovery::NeighbourAdvertisement { flags: read, options, .. })) = Discovery::parse(&bytes) else {
            panic!("not an advertisement");
        };
        assert_eq!((read, options.target()), (flags, Some(MAC)));
    }

    #[test]
    fn discovery_that_is_not_whole_is_refused_by_name() {
        let mut bytes = [0; NEIGHBOUR_LEN + 8];
        emit_solicitation(&mut bytes, address("fe80::1"));
        let error = |bytes: &[u8]| Discovery::parse(bytes).unwrap().unwrap_err();
        assert_eq!(error(&bytes[..20]), ParseError::Truncated { available: 20, needed: NEIGHBOUR_LEN });
        assert_eq!(error(&bytes), ParseError::Option { at: NEIGHBOUR_LEN }, "of length 0");
        bytes[NEIGHBOUR_LEN + 1] = 2;
        assert_eq!(error(&bytes), ParseError::Option { at: NEIGHBOUR_LEN }, "beyond the message");
        assert_eq!(error(&bytes[..NEIGHBOUR_LEN + 1]), ParseError::Option { at: NEIGHBOUR_LEN });
        emit_solicitation(&mut bytes, address("ff02::1"));
        assert_eq!(error(&bytes[..NEIGHBOUR_LEN]), ParseError::GroupTarget);
        assert!(Discovery::parse(&[128, 0, 0, 0]).is_none());
    }

    #[test]
    fn an_advertisement_with_all_options_reads_back() {
        let advertised = RouterAdvertisement {
            hop_limit: 64,
            managed: true,
            other: false,
            preference: Preference::Low,
            lifetime: 1800,
            reachable: 30_000,
            retransmit: 1000,
        };
        let servers = [address("2001:db8::53").octets(), address("2001:db8::54").octets()].concat();
        let prefix = PrefixInformation {
            prefix: address("2001:db8:1::"),
            length: 64,
            on_link: true,
            autonomous: false,
            valid: 86_400,
            preferred: u32::MAX,
        };
        let options = [
            NdOption::SourceLinkAddress(MAC),
            NdOption::Mtu(1480),
            NdOption::Prefix(prefix),
            NdOption::DnsServers { lifetime: 600, servers: &servers },
            NdOption::DnsSearch { lifetime: 600, names: b"\x02ab\x00\0\0\0\0" },
            NdOption::Nonce(&[1, 2, 3, 4, 5, 6]),
            NdOption::Other { kind: 77, data: &[9; 14] },
        ];
        let mut bytes = [0; 256];
        advertised.emit(&mut bytes);
        let end = options.iter().fold(ROUTER_ADVERTISEMENT_LEN, |at, option| at + option.emit(&mut bytes[at..]));
        let Some(Ok(Discovery::RouterAdvertisement(read, found))) = Discovery::parse(&bytes[..end]) else {
            panic!("not an advertisement");
        };
        assert_eq!(read, advertised);
        assert_eq!(found.iter().collect::<Vec<_>>(), options);
    }

    proptest! {
        #[test]
        fn nothing_makes_reading_panic(kind in prop::sample::select(vec![133u8, 134, 135, 136, 137, 1]),
            bytes in prop::collection::vec(any::<u8>(), 0..120)) {
            let bytes = [&[kind], &bytes[..]].concat();
            if let Some(Ok(Discovery::RouterAdvertisement(_, options))) = Discovery::parse(&bytes) {
                let length: usize = options.iter().map(|option| option.len()).sum();
                prop_assert!(length <= bytes.len());
            }
        }

        #[test]
        fn options_read_back(kind: u8, data in prop::collection::vec(any::<u8>(), 0..40)) {
            let mut bytes = vec![0; 64];
            let option = NdOption::Other { kind, data: &data };
            let length = option.emit(&mut bytes);
            let options = NdOptions::new(&bytes[..length], 0).unwrap();
            let found: Vec<_> = options.iter().collect();
            prop_assert_eq!(found.len(), 1);
            let mut again = vec![0; 64];
            prop_assert_eq!(found[0].emit(&mut again), length);
            let is_other = matches!(found[0], NdOption::Other { .. });
            prop_assert!(again == bytes || !is_other);
        }
    }
}
