//! Addresses and prefixes, as operators write them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// An IPv4 address is the standard library's: it orders numerically and prints dotted.
pub use std::net::Ipv4Addr as Ipv4Address;
/// So is an IPv6 address, which prints as RFC 5952 wants it.
pub use std::net::Ipv6Addr as Ipv6Address;

/// Why a text or a pair of values is not an address or prefix. The message names what was
/// given and what is expected instead.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AddressError {
    /// The text is none of the three ways to write a MAC address.
    MacAddress(String),
    /// The part before the `/` is not an IPv4 address.
    Ipv4Address(String),
    /// The part before the `/` is not an IPv6 address.
    Ipv6Address(String),
    /// There is no `/length`.
    MissingLength(String),
    /// The part after the `/` is not a number from 0 to 32.
    PrefixLength(String),
    /// The part after the `/` is not a number from 0 to 128.
    PrefixLength6(String),
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::MacAddress(text) => write!(
                f,
                "'{text}' is not a MAC address: expected six hexadecimal bytes such as \
                 50:7c:6f:20:30:70, 50-7c-6f-20-30-70 or 507c.6f20.3070"
            ),
            Self::Ipv4Address(text) => write!(
                f,
                "'{text}' is not an IPv4 address: expected four numbers from 0 to 255 such as \
                 192.0.2.1"
            ),
            Self::Ipv6Address(text) => write!(
                f,
                "'{text}' is not an IPv6 address: expected groups of hexadecimal digits such as \
                 2001:db8::1"
            ),
            Self::MissingLength(text) if text.contains(':') => {
                write!(f, "'{text}' has no prefix length: expected address/length such as 2001:db8::/32")
            }
            Self::MissingLength(text) => {
                write!(f, "'{text}' has no prefix length: expected address/length such as 10.0.0.0/8")
            }
            Self::PrefixLength(text) => {
                write!(f, "'{text}' is not an IPv4 prefix length: expected a number from 0 to 32")
            }
            Self::PrefixLength6(text) => {
                write!(f, "'{text}' is not an IPv6 prefix length: expected a number from 0 to 128")
            }
        }
    }
}

impl std::error::Error for AddressError {}

/// An IEEE 802 MAC address (EUI-48), in transmission order.
#[derive(
    Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned,
)]
#[repr(transparent)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    pub const BROADCAST: Self = Self([0xff; 6]);
    pub const ZERO: Self = Self([0; 6]);

    /// The group bit, the least significant of the first byte. Broadcast is multicast too.
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    #[inline]
    pub fn is_broadcast(self) -> bool {
        self == Self::BROADCAST
    }

    #[inline]
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for MacAddress {
    type Err = AddressError;

    /// Takes `50:7c:6f:20:30:70`, `50-7c-6f-20-30-70` (one digit for a small byte is fine, as
    /// some systems print it so) and `507c.6f20.3070` (always four digits).
    fn from_str(text: &str) -> Result<Self, AddressError> {
        let bytes = if text.contains('.') {
            hex_groups::<3>(text, '.', 4..=4).map(|groups| {
                let [[a, b], [c, d], [e, f]] = groups.map(u16::to_be_bytes);
                [a, b, c, d, e, f]
            })
        } else {
            let separator = if text.contains('-') { '-' } else { ':' };
            hex_groups::<6>(text, separator, 1..=2).map(|groups| groups.map(|byte| byte as u8))
        };
        bytes.map(Self).ok_or_else(|| AddressError::MacAddress(text.to_owned()))
    }
}

/// Exactly `N` groups of hexadecimal digits, each with as many digits as `digits` allows
/// (four at most, so that the value fits).
fn hex_groups<const N: usize>(
    text: &str,
    separator: char,
    digits: std::ops::RangeInclusive<usize>,
) -> Option<[u16; N]> {
    let mut groups = [0; N];
    let mut parts = text.split(separator);
    for group in &mut groups {
        let part = parts.next().filter(|part| digits.contains(&part.len()))?;
        // from_str_radix alone would take a leading plus sign.
        if !part.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return None;
        }
        *group = u16::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(groups)
}

/// An IPv4 address with a prefix length, 0 to 32.
///
/// Host bits are kept: `10.1.2.3/8` is what an interface has, [`Prefix4::network`] of it is
/// what a route has. The order is by address, then by length, so that a sorted list shows a
/// prefix right before its more specifics.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix4 {
    address: Ipv4Address,
    length: u8,
}

impl Prefix4 {
    /// Number of bits of an IPv4 address, and the longest prefix.
    pub const MAX_LENGTH: u8 = 32;

    pub fn new(address: Ipv4Address, length: u8) -> Result<Self, AddressError> {
        if length > Self::MAX_LENGTH {
            return Err(AddressError::PrefixLength(length.to_string()));
        }
        Ok(Self { address, length })
    }

    #[inline]
    pub const fn address(self) -> Ipv4Address {
        self.address
    }

    /// In bits, 0 to 32.
    #[inline]
    pub const fn length(self) -> u8 {
        self.length
    }

    const fn mask_bits(self) -> u32 {
        // A shift by 32 is not a shift in Rust: /0 has its own value.
        match u32::MAX.checked_shl((Self::MAX_LENGTH - self.length) as u32) {
            Some(mask) => mask,
            None => 0,
        }
    }

    /// The netmask: 255.0.0.0 for a /8.
    pub const fn mask(self) -> Ipv4Address {
        Ipv4Address::from_bits(self.mask_bits())
    }

    /// The same prefix with all host bits cleared.
    pub const fn network(self) -> Self {
        Self { address: self.first(), length: self.length }
    }

    /// Whether no host bit is set, as in a route.
    pub fn is_canonical(self) -> bool {
        self == self.network()
    }

    pub const fn contains(self, address: Ipv4Address) -> bool {
        (address.to_bits() ^ self.address.to_bits()) & self.mask_bits() == 0
    }

    /// Whether every address of `other` is in this prefix; true of the prefix itself.
    pub const fn contains_prefix(self, other: Self) -> bool {
        other.length >= self.length && self.contains(other.address)
    }

    /// The lowest address: all host bits zero.
    pub const fn first(self) -> Ipv4Address {
        Ipv4Address::from_bits(self.address.to_bits() & self.mask_bits())
    }

    /// The highest address: all host bits one.
    pub const fn last(self) -> Ipv4Address {
        Ipv4Address::from_bits(self.address.to_bits() | !self.mask_bits())
    }

    /// The directed broadcast address. A /31 has none (RFC 3021, section 2.1), nor has a /32.
    pub const fn broadcast(self) -> Option<Ipv4Address> {
        if self.length >= 31 { None } else { Some(self.last()) }
    }
}

impl fmt::Display for Prefix4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl fmt::Debug for Prefix4 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Prefix4 {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (address, length) = text.split_once('/').unwrap_or((text, ""));
        let address = address.parse().map_err(|_| AddressError::Ipv4Address(address.to_owned()))?;
        if !text.contains('/') {
            return Err(AddressError::MissingLength(text.to_owned()));
        }
        // parse alone would take a leading plus sign.
        let digits = length.bytes().all(|digit| digit.is_ascii_digit());
        match length.parse() {
            Ok(length) if digits => Self::new(address, length),
            _ => Err(AddressError::PrefixLength(length.to_owned())),
        }
    }
}

/// An IPv6 address with a prefix length, 0 to 128; see [`Prefix4`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Prefix6 {
    address: Ipv6Address,
    length: u8,
}

impl Prefix6 {
    /// Number of bits of an IPv6 address, and the longest prefix.
    pub const MAX_LENGTH: u8 = 128;

    pub fn new(address: Ipv6Address, length: u8) -> Result<Self, AddressError> {
        if length > Self::MAX_LENGTH {
            return Err(AddressError::PrefixLength6(length.to_string()));
        }
        Ok(Self { address, length })
    }

    #[inline]
    pub const fn address(self) -> Ipv6Address {
        self.address
    }

    /// In bits, 0 to 128.
    #[inline]
    pub const fn length(self) -> u8 {
        self.length
    }

    const fn host_bits(self) -> u128 {
        u128::MAX.unbounded_shr(self.length as u32)
    }

    /// The same prefix with all host bits cleared.
    pub const fn network(self) -> Self {
        Self { address: self.first(), length: self.length }
    }

    /// Whether no host bit is set, as in a route.
    pub fn is_canonical(self) -> bool {
        self == self.network()
    }

    pub const fn contains(self, address: Ipv6Address) -> bool {
        (address.to_bits() ^ self.address.to_bits()) & !self.host_bits() == 0
    }

    /// Whether every address of `other` is in this prefix; true of the prefix itself.
    pub const fn contains_prefix(self, other: Self) -> bool {
        other.length >= self.length && self.contains(other.address)
    }

    /// The lowest address: all host bits zero. Of a subnet it is the routers' anycast address (RFC 4291 section 2.6.1).
    pub const fn first(self) -> Ipv6Address {
        Ipv6Address::from_bits(self.address.to_bits() & !self.host_bits())
    }

    /// The highest address: all host bits one.
    pub const fn last(self) -> Ipv6Address {
        Ipv6Address::from_bits(self.address.to_bits() | self.host_bits())
    }
}

impl fmt::Display for Prefix6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl fmt::Debug for Prefix6 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Prefix6 {
    type Err = AddressError;

    fn from_str(text: &str) -> Result<Self, AddressError> {
        let (address, length) = text.split_once('/').unwrap_or((text, ""));
        let address = address.parse().map_err(|_| AddressError::Ipv6Address(address.to_owned()))?;
        if !text.contains('/') {
            return Err(AddressError::MissingLength(text.to_owned()));
        }
        // parse alone would take a leading plus sign.
        let digits = length.bytes().all(|digit| digit.is_ascii_digit());
        match length.parse() {
            Ok(length) if digits => Self::new(address, length),
            _ => Err(AddressError::PrefixLength6(length.to_owned())),
        }
    }
}

/// A version of the Internet Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    Ip4,
    Ip6,
}

impl Family {
    pub const ALL: [Self; 2] = [Self::Ip4, Self::Ip6];

    /// The one that an address is of.
    pub const fn of(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(_) => Self::Ip4,
            IpAddr::V6(_) => Self::Ip6,
        }
    }

    /// Number of bits of its addresses, and its longest prefix.
    pub const fn max_length(self) -> u8 {
        match self {
            Self::Ip4 => Prefix4::MAX_LENGTH,
            Self::Ip6 => Prefix6::MAX_LENGTH,
        }
    }

    /// No address at all: 0.0.0.0 or `::`.
    pub const fn unspecified(self) -> IpAddr {
        match self {
            Self::Ip4 => IpAddr::V4(Ipv4Address::UNSPECIFIED),
            Self::Ip6 => IpAddr::V6(Ipv6Address::UNSPECIFIED),
        }
    }
}

/// A prefix of either family. They sort by family, then as theirs do.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Prefix {
    V4(Prefix4),
    V6(Prefix6),
}

/// The same of whichever family it is.
macro_rules! of_either {
    ($prefix:expr, $inner:ident => $value:expr) => {
        match $prefix {
            Prefix::V4($inner) => $value,
            Prefix::V6($inner) => $value,
        }
    };
}

impl Prefix {
    /// The prefix of all addresses of a family: of its default route.
    pub fn default_of(family: Family) -> Prefix {
        Prefix::new(family.unspecified(), 0).expect("0 is a length")
    }

    pub fn new(address: IpAddr, length: u8) -> Result<Self, AddressError> {
        match address {
            IpAddr::V4(address) => Prefix4::new(address, length).map(Self::V4),
            IpAddr::V6(address) => Prefix6::new(address, length).map(Self::V6),
        }
    }

    /// Of one address only: a /32 or /128.
    pub const fn host(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::V4(Prefix4 { address, length: Prefix4::MAX_LENGTH }),
            IpAddr::V6(address) => Self::V6(Prefix6 { address, length: Prefix6::MAX_LENGTH }),
        }
    }

    pub const fn family(self) -> Family {
        match self {
            Self::V4(_) => Family::Ip4,
            Self::V6(_) => Family::Ip6,
        }
    }

    pub fn address(self) -> IpAddr {
        of_either!(self, inner => inner.address().into())
    }

    /// In bits.
    pub const fn length(self) -> u8 {
        of_either!(self, inner => inner.length())
    }

    /// Whether it is of one address only.
    pub const fn is_host(self) -> bool {
        self.length() == self.family().max_length()
    }

    /// The same prefix with all host bits cleared.
    pub const fn network(self) -> Self {
        match self {
            Self::V4(inner) => Self::V4(inner.network()),
            Self::V6(inner) => Self::V6(inner.network()),
        }
    }

    /// Whether it is the address's family's, and holds it.
    pub const fn contains(self, address: IpAddr) -> bool {
        match (self, address) {
            (Self::V4(inner), IpAddr::V4(address)) => inner.contains(address),
            (Self::V6(inner), IpAddr::V6(address)) => inner.contains(address),
            _ => false,
        }
    }

    /// Whether every address of `other` is in this prefix; true of the prefix itself.
    pub const fn contains_prefix(self, other: Self) -> bool {
        match (self, other) {
            (Self::V4(inner), Self::V4(other)) => inner.contains_prefix(other),
            (Self::V6(inner), Self::V6(other)) => inner.contains_prefix(other),
            _ => false,
        }
    }

    /// The lowest address: all host bits zero.
    pub fn first(self) -> IpAddr {
        of_either!(self, inner => inner.first().into())
    }

    /// The highest address: all host bits one.
    pub fn last(self) -> IpAddr {
        of_either!(self, inner => inner.last().into())
    }
}

impl From<Prefix4> for Prefix {
    fn from(prefix: Prefix4) -> Self {
        Self::V4(prefix)
    }
}

impl From<Prefix6> for Prefix {
    fn from(prefix: Prefix6) -> Self {
        Self::V6(prefix)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        of_either!(self, inner => fmt::Display::fmt(inner, f))
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Prefix {
    type Err = AddressError;

    /// One of IPv6 has a colon.
    fn from_str(text: &str) -> Result<Self, AddressError> {
        if text.contains(':') { text.parse().map(Self::V6) } else { text.parse().map(Self::V4) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAC: MacAddress = MacAddress([0x50, 0x7c, 0x6f, 0x20, 0x30, 0x70]);

    fn prefix(text: &str) -> Prefix4 {
        text.parse().unwrap()
    }

    #[test]
    fn mac_address_is_read_in_all_three_notations() {
        for text in ["50:7c:6f:20:30:70", "50-7C-6F-20-30-70", "507c.6f20.3070"] {
            assert_eq!(text.parse(), Ok(MAC), "{text}");
        }
        assert_eq!("0:1:2:a:b:c".parse(), Ok(MacAddress([0, 1, 2, 10, 11, 12])));
        assert_eq!(MAC.to_string(), "50:7c:6f:20:30:70");
    }

    #[test]
    fn mac_address_refuses_what_is_not_one() {
        for text in [
            "",
            "50:7c:6f:20:30",
            "50:7c:6f:20:30:70:80",
            "50:7c:6f:20:30:700",
            "50:7c:6f:20:30:",
            "50:7c:6f:20:30:+1",
            "50:7c-6f:20:30:70",
            "507c.6f20",
            "507c.6f20.307",
            "507c.6f20.3070.1",
            "g0:7c:6f:20:30:70",
            "5\u{e9}:7c:6f:20:30:70",
        ] {
            assert_eq!(text.parse::<MacAddress>(), Err(AddressError::MacAddress(text.to_owned())), "{text}");
        }
    }

    #[test]
    fn mac_address_knows_its_group_bit() {
        assert!(MacAddress::BROADCAST.is_broadcast() && MacAddress::BROADCAST.is_multicast());
        assert!(MacAddress([1, 0, 0x5e, 0, 0, 1]).is_multicast());
        assert!(!MacAddress([1, 0, 0x5e, 0, 0, 1]).is_broadcast());
        assert!(!MAC.is_multicast() && !MAC.is_zero() && MacAddress::default().is_zero());
    }

    #[test]
    fn prefix_masks_host_bits() {
        let p = prefix("10.1.2.3/8");
        assert_eq!(p.network(), prefix("10.0.0.0/8"));
        assert!(!p.is_canonical() && p.network().is_canonical());
        assert_eq!(p.to_string(), "10.1.2.3/8");
        assert_eq!(p.mask(), Ipv4Address::new(255, 0, 0, 0));
        assert_eq!(p.first(), Ipv4Address::new(10, 0, 0, 0));
        assert_eq!(p.last(), Ipv4Address::new(10, 255, 255, 255));
        assert_eq!(p.broadcast(), Some(p.last()));
    }

    #[test]
    fn prefix_lengths_at_both_ends() {
        let all = prefix("1.2.3.4/0");
        assert_eq!(all.mask(), Ipv4Address::UNSPECIFIED);
        assert_eq!((all.first(), all.last()), (Ipv4Address::UNSPECIFIED, Ipv4Address::BROADCAST));
        assert!(all.contains(Ipv4Address::new(255, 1, 1, 1)));
        let host = prefix("1.2.3.4/32");
        assert_eq!((host.first(), host.last()), (host.address(), host.address()));
        assert!(host.contains(host.address()) && !host.contains(Ipv4Address::new(1, 2, 3, 5)));
        assert_eq!((prefix("1.2.3.4/31").broadcast(), host.broadcast()), (None, None));
    }

    #[test]
    fn prefix_contains_itself_and_more_specifics_only() {
        let p = prefix("10.0.0.0/8");
        assert!(p.contains_prefix(p) && p.contains_prefix(prefix("10.9.0.0/16")));
        assert!(!p.contains_prefix(prefix("10.0.0.0/7")));
        assert!(!p.contains_prefix(prefix("11.0.0.0/16")));
    }

    #[test]
    fn prefix_errors_say_what_is_expected() {
        let message = |text: &str| text.parse::<Prefix4>().unwrap_err().to_string();
        assert_eq!(message("10.0.0.0"), "'10.0.0.0' has no prefix length: expected address/length such as 10.0.0.0/8");
        assert_eq!(message("10.0.0.0/33"), "'33' is not an IPv4 prefix length: expected a number from 0 to 32");
        for text in ["10.0.0.0/", "10.0.0.0/+8", "10.0.0.0/8/8", "10.0.0.0/256", "10.0.0.0/-1"] {
            assert!(message(text).contains("is not an IPv4 prefix length"), "{text}");
        }
        assert!(message("10.0.0/8").starts_with("'10.0.0' is not an IPv4 address"));
        assert!(Prefix4::new(Ipv4Address::LOCALHOST, 33).is_err());
    }

    #[test]
    fn ipv6_prefix_errors_say_what_is_expected() {
        let message = |text: &str| text.parse::<Prefix6>().unwrap_err().to_string();
        assert_eq!(
            message("2001:db8::"),
            "'2001:db8::' has no prefix length: expected address/length such as 2001:db8::/32"
        );
        assert_eq!(message("::/129"), "'129' is not an IPv6 prefix length: expected a number from 0 to 128");
        assert!(message("::/+8").contains("is not an IPv6 prefix length"));
        assert!(message("10.0.0.0/8").starts_with("'10.0.0.0' is not an IPv6 address"));
    }

    proptest! {
        #[test]
        fn text_form_reads_back(mac: [u8; 6], address: u32, length in 0u8..=32) {
            let mac = MacAddress(mac);
            prop_assert_eq!(mac.to_string().parse(), Ok(mac));
            let p = Prefix4::new(Ipv4Address::from_bits(address), length).unwrap();
            prop_assert_eq!(p.to_string().parse(), Ok(p));
        }

        #[test]
        fn a_prefix_is_the_range_from_first_to_last(address: u32, other: u32, length in 0u8..=32) {
            let p = Prefix4::new(Ipv4Address::from_bits(address), length).unwrap();
            // Half of the probes share the upper bits, or long prefixes would never match.
            for probe in [other, address ^ (other & 0xff)].map(Ipv4Address::from_bits) {
                prop_assert_eq!(p.contains(probe), (p.first()..=p.last()).contains(&probe));
            }
        }

        #[test]
        fn the_same_holds_of_ipv6(address: u128, other: u128, length in 0u8..=128) {
            let p = Prefix6::new(Ipv6Address::from_bits(address), length).unwrap();
            prop_assert_eq!(p.to_string().parse(), Ok(p));
            for probe in [other, address ^ (other & 0xff), address ^ (other >> 64)].map(Ipv6Address::from_bits) {
                prop_assert_eq!(p.contains(probe), (p.first()..=p.last()).contains(&probe));
            }
            prop_assert!(p.network().is_canonical() && p.contains_prefix(p.network()));
        }

        #[test]
        fn any_text_is_refused_without_panic(text in ".{0,24}") {
            let _ = text.parse::<MacAddress>();
            let _ = text.parse::<Prefix4>();
            let _ = text.parse::<Prefix6>();
        }
    }
}
