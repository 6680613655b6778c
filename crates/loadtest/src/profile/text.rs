//! How values of a profile are written.

use super::{Ports, Size};
use crate::rate::Rate;
use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Unexpected, Visitor};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use wire::MacAddress;

/// The rate of a stream that says none.
pub(super) fn one_packet() -> Rate {
    Rate::Packets(1.0)
}

pub(super) fn rate<'de, D: Deserializer<'de>>(from: D) -> Result<Rate, D::Error> {
    of_text(from)
}

fn of_text<'de, D: Deserializer<'de>, T: FromStr<Err: fmt::Display>>(from: D) -> Result<T, D::Error> {
    let text = std::borrow::Cow::<str>::deserialize(from)?;
    text.parse().map_err(D::Error::custom)
}

/// An Ethernet address, as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mac(pub MacAddress);

impl<'de> Deserialize<'de> for Mac {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Mac, D::Error> {
        of_text(from).map(Mac)
    }
}

/// `all`, `even`, `odd`, or a list of numbers.
impl<'de> Deserialize<'de> for Ports {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Ports, D::Error> {
        struct Reader;
        impl<'de> Visitor<'de> for Reader {
            type Value = Ports;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("\"all\", \"even\", \"odd\", or a list of ports, as in [0, 3]")
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Ports, E> {
                match text {
                    "all" => Ok(Ports::All),
                    "even" => Ok(Ports::Even),
                    "odd" => Ok(Ports::Odd),
                    _ => Err(E::invalid_value(Unexpected::Str(text), &self)),
                }
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Ports, A::Error> {
                let mut ports = Vec::new();
                while let Some(port) = list.next_element()? {
                    ports.push(port);
                }
                Ok(Ports::These(ports))
            }
        }
        from.deserialize_any(Reader)
    }
}

/// `64`, `"64-1514"` (each in turn), or `"64+1514"` (as if by lot).
impl<'de> Deserialize<'de> for Size {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Size, D::Error> {
        struct Reader;
        impl Visitor<'_> for Reader {
            type Value = Size;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number of bytes, or a range: \"64-1514\" in turn, \"64+1514\" at random")
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<Size, E> {
                let size = u16::try_from(value).map_err(|_| E::invalid_value(Unexpected::Signed(value), &self))?;
                Ok(Size::One(size))
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Size, E> {
                let wrong = || E::invalid_value(Unexpected::Str(text), &self);
                let at = text.find(['-', '+']).ok_or_else(wrong)?;
                let number = |text: &str| text.trim().parse::<u16>().map_err(|_| wrong());
                let (from, to) = (number(&text[..at])?, number(&text[at + 1..])?);
                match from < to {
                    true => Ok(Size::Range { from, to, is_random: text.as_bytes()[at] == b'+' }),
                    false => Err(E::custom(format!("'{text}': the smaller size comes first"))),
                }
            }
        }
        from.deserialize_any(Reader)
    }
}

/// Bytes, as hexadecimal digits; blanks do not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bytes(pub Vec<u8>);

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Bytes, D::Error> {
        of_text(from)
    }
}

impl FromStr for Bytes {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Bytes, &'static str> {
        let digits: Option<Vec<u8>> =
            text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
        let digits = digits.filter(|digits| digits.len().is_multiple_of(2));
        let digits = digits.ok_or("bytes are pairs of hexadecimal digits, as in \"de ad be ef\"")?;
        Ok(Bytes(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()))
    }
}

/// Flags of TCP by their first letters: `S`, `SA`, `FPU`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flags(pub u8);

impl Flags {
    pub const SYN: Flags = Flags(2);
}

impl<'de> Deserialize<'de> for Flags {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Flags, D::Error> {
        of_text(from)
    }
}

impl FromStr for Flags {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Flags, &'static str> {
        const LETTERS: &str = "FSRPAUEC";
        let bit = |letter: char| LETTERS.find(letter.to_ascii_uppercase()).map(|bit| 1u8 << bit);
        let bits: Option<Vec<u8>> = text.chars().map(bit).collect();
        let bits = bits.ok_or("flags of TCP are letters of 'FSRPAUEC', as in \"SA\"")?;
        Ok(Flags(bits.into_iter().fold(0, |all, bit| all | bit)))
    }
}

/// A number, or an address that is one: of IPv6 addresses the upper half is what does not vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    pub value: u64,
    /// The upper half of an IPv6 address.
    pub above: Option<u64>,
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Number, D::Error> {
        struct Any;
        impl Visitor<'_> for Any {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a number, or an address")
            }
            fn visit_i64<E: Error>(self, value: i64) -> Result<Number, E> {
                let value = u64::try_from(value).map_err(|_| E::custom("a field is not negative"))?;
                Ok(Number { value, above: None })
            }
            fn visit_u64<E: Error>(self, value: u64) -> Result<Number, E> {
                Ok(Number { value, above: None })
            }
            fn visit_str<E: Error>(self, text: &str) -> Result<Number, E> {
                text.parse().map_err(E::custom)
            }
        }
        from.deserialize_any(Any)
    }
}

impl FromStr for Number {
    type Err = String;

    fn from_str(text: &str) -> Result<Number, String> {
        if let Ok(address) = text.parse::<Ipv4Addr>() {
            return Ok(Number { value: address.to_bits().into(), above: None });
        }
        if let Ok(address) = text.parse::<Ipv6Addr>() {
            let bits = address.to_bits();
            return Ok(Number { value: bits as u64, above: Some((bits >> 64) as u64) });
        }
        if let Ok(MacAddress([a, b, c, d, e, f])) = text.parse::<MacAddress>() {
            return Ok(Number { value: u64::from_be_bytes([0, 0, a, b, c, d, e, f]), above: None });
        }
        let number = match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        number.map(|value| Number { value, above: None }).ok_or_else(|| format!("'{text}' is no number and no address"))
    }
}
