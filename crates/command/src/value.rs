//! The types that a parameter can have: what each accepts and how it is explained.
//!
//! A value stays text until the handler asks for it: the check here decides only whether
//! the word can be meant, so that the grammar needs no type of the crates above it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;

/// Types of which the program knows the values: any word is accepted, the handler says
/// whether there is such a one, and completion asks the program for them by the type's
/// name. Each with what is expected.
const LISTED: [(&str, &str); 4] =
    [("interface", "interface name"), ("node", "node name"), ("stream", "stream name"), ("class", "log class")];

/// What a parameter names that stands for something in the file system: no command reaches it but by its set's guard
/// ([`crate::CommandSet::guard_paths`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    File,
    /// A path, or the name of an abstract socket behind `@` or `abstract:`.
    Socket,
    /// A network namespace: a path, or a name that the host has for one.
    Namespace,
}

/// The type of `<name:type>`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Kind {
    Word,
    /// A name of something that the program can list: the type, by its place in [`LISTED`].
    Listed(usize),
    Ip4,
    Ip6,
    /// Of either family.
    Ip,
    Prefix4,
    Prefix6,
    /// Of either family.
    Prefix,
    Mac,
    /// An unsigned decimal number. `u32` is this with a smaller range.
    Unsigned(RangeInclusive<u64>),
    F64,
    Rate,
    Size(RangeInclusive<u64>),
    Hex,
    /// Of something in the file system.
    Path(PathKind),
    Rest,
    Block,
}

impl Kind {
    /// Reads `type` or `type range` as written in a syntax string.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (name, range) = match text.trim().split_once(char::is_whitespace) {
            Some((name, range)) => (name, Some(range.trim())),
            None => (text.trim(), None),
        };
        let within = |all: RangeInclusive<u64>| match range {
            Some(range) => parse_range(range, all),
            None => Ok(all),
        };
        let kind = match name {
            "u32" => Self::Unsigned(within(0..=u64::from(u32::MAX))?),
            "u64" => Self::Unsigned(within(0..=u64::MAX)?),
            "size" => Self::Size(within(0..=u64::MAX)?),
            _ if range.is_some() => return Err(format!("type '{name}' takes no range")),
            "word" => Self::Word,
            "ip4" => Self::Ip4,
            "ip6" => Self::Ip6,
            "ip" => Self::Ip,
            "prefix4" => Self::Prefix4,
            "prefix6" => Self::Prefix6,
            "prefix" => Self::Prefix,
            "mac" => Self::Mac,
            "f64" => Self::F64,
            "rate" => Self::Rate,
            "hex" => Self::Hex,
            "path" => Self::Path(PathKind::File),
            "socket" => Self::Path(PathKind::Socket),
            "netns" => Self::Path(PathKind::Namespace),
            "rest" => Self::Rest,
            "block" => Self::Block,
            _ => match LISTED.iter().position(|(listed, _)| *listed == name) {
                Some(at) => Self::Listed(at),
                None => return Err(format!("unknown type '{name}'")),
            },
        };
        Ok(kind)
    }

    /// Whether one word (no brace) can be a value of this type. Blocks and the rest of a
    /// line span words and are the matcher's.
    pub fn accepts(&self, word: &str) -> bool {
        match self {
            Self::Word | Self::Listed(_) | Self::Path(_) | Self::Rest => true,
            Self::Ip4 => word.parse::<Ipv4Addr>().is_ok(),
            Self::Ip6 => word.parse::<Ipv6Addr>().is_ok(),
            Self::Ip => word.parse::<IpAddr>().is_ok(),
            Self::Prefix4 => is_prefix::<Ipv4Addr>(word, 32),
            Self::Prefix6 => is_prefix::<Ipv6Addr>(word, 128),
            Self::Prefix => is_prefix::<Ipv4Addr>(word, 32) || is_prefix::<Ipv6Addr>(word, 128),
            Self::Mac => is_mac(word),
            Self::Unsigned(range) => parse_unsigned(word).is_some_and(|n| range.contains(&n)),
            Self::F64 => parse_f64(word).is_some(),
            Self::Rate => parse_rate(word).is_some(),
            Self::Size(range) => parse_size(word).is_some_and(|n| range.contains(&n)),
            Self::Hex => parse_hex(word).is_some(),
            Self::Block => false,
        }
    }

    /// The name of the type whose values the program can list.
    pub fn listed(&self) -> Option<&'static str> {
        match self {
            Self::Listed(at) => Some(LISTED[*at].0),
            _ => None,
        }
    }

    /// What a value of this type names of the file system.
    pub fn path(&self) -> Option<PathKind> {
        match self {
            Self::Path(kind) => Some(*kind),
            _ => None,
        }
    }

    /// What stands for a value of this type where a syntax is shown.
    pub fn placeholder(&self, name: &str) -> String {
        match self {
            Self::Block => "{ ... }".into(),
            _ => format!("<{}>", name.replace('_', "-")),
        }
    }

    /// What is expected, in words, for error messages.
    pub fn expectation(&self, name: &str) -> String {
        match self {
            Self::Word => name.replace('_', " "),
            Self::Listed(at) => LISTED[*at].1.into(),
            Self::Ip4 => "IPv4 address (like 10.0.0.1)".into(),
            Self::Ip6 => "IPv6 address (like 2001:db8::1)".into(),
            Self::Ip => "address (like 10.0.0.1 or 2001:db8::1)".into(),
            Self::Prefix4 => "prefix (like 10.0.0.0/8)".into(),
            Self::Prefix6 => "prefix (like 2001:db8::/32)".into(),
            Self::Prefix => "prefix (like 10.0.0.0/8 or 2001:db8::/32)".into(),
            Self::Mac => "MAC address (like 02:fe:00:00:00:01)".into(),
            Self::Unsigned(range) => {
                let most = [u64::from(u32::MAX), u64::MAX].contains(range.end());
                match (*range.start(), most) {
                    (0, true) => "number".into(),
                    (low, true) => format!("number from {low}"),
                    (low, false) => format!("number {low}..{}", range.end()),
                }
            }
            Self::F64 => "number (like 0.5)".into(),
            Self::Rate => "rate (like 1e6, 10k or 1.5M)".into(),
            Self::Size(range) if *range == (0..=u64::MAX) => "size (like 2k, 64m or 1G)".into(),
            Self::Size(range) => format!("size {}..{} bytes", range.start(), range.end()),
            Self::Hex => "hexadecimal number (like 0x1f)".into(),
            Self::Path(PathKind::File) => "file name".into(),
            Self::Path(PathKind::Socket) => "socket (a path, or @NAME)".into(),
            Self::Path(PathKind::Namespace) => "network namespace (a name or a path)".into(),
            Self::Rest => "text".into(),
            Self::Block => "{ ... }".into(),
        }
    }
}

/// Reads `1..4096`, `1..`, `..4096` or `7`; both ends are included.
fn parse_range(text: &str, all: RangeInclusive<u64>) -> Result<RangeInclusive<u64>, String> {
    let end = |text: &str, open: u64| match text {
        "" => Ok(open),
        _ => parse_size(text).ok_or_else(|| format!("'{text}' is no end of a range")),
    };
    let (low, high) = text.split_once("..").unwrap_or((text, text));
    let range = end(low.trim(), *all.start())?..=end(high.trim(), *all.end())?;
    if range.is_empty() || !all.contains(range.end()) {
        return Err(format!("range '{text}' is empty or too wide"));
    }
    Ok(range)
}

/// Whether a word is an address of a family and a length of so many bits at most.
fn is_prefix<Address: std::str::FromStr>(word: &str, most: u64) -> bool {
    word.split_once('/').is_some_and(|(address, length)| {
        let length = parse_unsigned(length).filter(|_| length.len() <= most.to_string().len());
        address.parse::<Address>().is_ok() && length.is_some_and(|length| length <= most)
    })
}

/// `50:7c:6f:20:30:70`, `50-7c-6f-20-30-70`, a byte with one digit if need be, or `507c.6f20.3070`.
fn is_mac(word: &str) -> bool {
    let groups = |separator: char, count: usize, digits: RangeInclusive<usize>| {
        let hex = |part: &str| digits.contains(&part.len()) && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        word.split(separator).count() == count && word.split(separator).all(hex)
    };
    groups(':', 6, 1..=2) || groups('-', 6, 1..=2) || groups('.', 3, 4..=4)
}

/// Decimal digits only: `str::parse` would also take a sign.
fn parse_unsigned(word: &str) -> Option<u64> {
    let digits = !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit());
    digits.then(|| word.parse().ok()).flatten()
}

/// A finite number written with digits, so that words like `inf` and `nan` are none.
pub(crate) fn parse_f64(word: &str) -> Option<f64> {
    let numeric = |b: u8| b.is_ascii_digit() || matches!(b, b'.' | b'-' | b'+' | b'e' | b'E');
    let value: f64 = word.bytes().all(numeric).then(|| word.parse().ok()).flatten()?;
    value.is_finite().then_some(value)
}

/// A rate per second: `1e6`, `10k`, `1.5M`, `2G` (powers of 1000).
pub(crate) fn parse_rate(word: &str) -> Option<f64> {
    let (number, factor) = match word.char_indices().next_back()? {
        (at, 'k' | 'K') => (&word[..at], 1e3),
        (at, 'm' | 'M') => (&word[..at], 1e6),
        (at, 'g' | 'G') => (&word[..at], 1e9),
        _ => (word, 1.0),
    };
    let rate = parse_f64(number)? * factor;
    (rate >= 0.0 && rate.is_finite()).then_some(rate)
}

/// A size in bytes: `4096`, `2k`, `64m`, `1G`, `1T` (powers of 1024).
pub(crate) fn parse_size(word: &str) -> Option<u64> {
    let (number, shift) = match word.char_indices().next_back()? {
        (at, 'k' | 'K') => (&word[..at], 10),
        (at, 'm' | 'M') => (&word[..at], 20),
        (at, 'g' | 'G') => (&word[..at], 30),
        (at, 't' | 'T') => (&word[..at], 40),
        _ => (word, 0),
    };
    parse_unsigned(number)?.checked_mul(1 << shift)
}

/// A hexadecimal number with or without `0x`.
pub(crate) fn parse_hex(word: &str) -> Option<u64> {
    let digits = word.strip_prefix("0x").unwrap_or(word);
    let hex = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_hexdigit());
    hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(kind: &str, word: &str) -> bool {
        Kind::parse(kind).unwrap().accepts(word)
    }

    #[test]
    fn each_type_takes_its_values_and_refuses_others() {
        for (kind, good, bad) in [
            ("ip4", "10.0.0.1", "10.0.0.256"),
            ("ip6", "2001:db8::1", "10.0.0.1"),
            ("ip", "::1", "::1%1"),
            ("ip", "10.0.0.1", "10.0.0"),
            ("prefix", "10.0.0.0/8", "10.0.0.0/33"),
            ("prefix", "2001:db8::/128", "2001:db8::/129"),
            ("prefix", "::/0", "::/00000"),
            ("prefix4", "10.0.0.0/8", "10.0.0.0/33"),
            ("prefix4", "0.0.0.0/0", "10.0.0.0/+8"),
            ("prefix4", "1.2.3.4/32", "1.2.3.4/008"),
            ("mac", "02:fe:00:AA:00:01", "02:fe:00:aa:00"),
            ("mac", "1:2:3:4:5:6", "1:2:3:4:5:"),
            ("mac", "dead.beef.babe", "dead.beef.bab"),
            ("mac", "02-fe-00-aa-00-01", "02-fe-00:aa-00-01"),
            ("u32", "4294967295", "4294967296"),
            ("u32 1..4096", "4096", "4097"),
            ("u32 1..4096", "1", "0"),
            ("u32 ..7", "0", "8"),
            ("u32 5..", "5", "4"),
            ("u64", "18446744073709551615", "18446744073709551616"),
            ("u64", "1", "+1"),
            ("f64", "-0.5", "inf"),
            ("f64", "1e3", "nan"),
            ("rate", "1.5M", "-1"),
            ("rate", "1e6", "k"),
            ("size", "64m", "1.5k"),
            ("size 1k..1m", "1024", "1023"),
            ("size", "16777215T", "16777216T"),
            ("hex", "0xfF", "0xg"),
            ("hex", "1f", "0x"),
        ] {
            assert!(accepts(kind, good), "{kind} {good}");
            assert!(!accepts(kind, bad), "{kind} {bad}");
        }
    }

    #[test]
    fn units_multiply() {
        assert_eq!(parse_rate("1.5M"), Some(1_500_000.0));
        assert_eq!(parse_rate("10k"), Some(10_000.0));
        assert_eq!(parse_size("2k"), Some(2048));
        assert_eq!(parse_size("1G"), Some(1 << 30));
    }

    #[test]
    fn a_wrong_type_or_range_is_explained() {
        assert_eq!(Kind::parse("u31").unwrap_err(), "unknown type 'u31'");
        assert!(Kind::parse("u32 9..1").is_err());
        assert!(Kind::parse("u32 0..5000000000").is_err());
        assert!(Kind::parse("word 1..2").is_err());
    }
}
