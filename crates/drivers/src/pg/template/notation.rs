//! The notation of a template, read word by word.

use super::{Edit, First, Template, Vary};
use crate::pg::MAX_SIZE;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;
use wire::MacAddress;
use wire::ethernet::EtherType;
use wire::mpls::MAX_LABEL;
use wire::vlan::TAG_LEN;

/// All bytes of the longest packet that a text describes, and what differs in the next.
pub(super) fn read(text: &str, first: First) -> Result<Template, String> {
    let mut parser = Parser { words: text.split_whitespace().collect(), at: 0, template: Template::empty() };
    let first = match first {
        First::Ethernet => "ethernet",
        First::Label => "mpls",
        First::Ip4 => "ip4",
        First::Ip6 => "ip6",
    };
    let mut next = Some(first.to_string());
    while let Some(layer) = next {
        next = match layer.as_str() {
            "ethernet" => parser.ethernet()?,
            "mpls" => parser.mpls()?,
            "ip4" => parser.ip4()?,
            "ip6" => parser.ip6()?,
            "udp" => parser.udp()?,
            "tcp" => parser.tcp()?,
            "icmp" => parser.icmp()?,
            "icmp6" => parser.icmp6()?,
            _ => {
                parser.payload()?;
                None
            }
        };
    }
    match parser.words.get(parser.at) {
        Some(word) => Err(format!("data: unexpected '{word}' at word {}", parser.at + 1)),
        None => Ok(parser.template),
    }
}

/// Words of the notation, read from the left.
pub(super) struct Parser<'a> {
    words: Vec<&'a str>,
    at: usize,
    template: Template,
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn word(&mut self, expected: &str) -> Result<&'a str, String> {
        let word = self.peek().ok_or_else(|| format!("data: {expected} expected at the end"))?;
        self.at += 1;
        Ok(word)
    }

    fn value<T: FromStr>(&mut self, expected: &str) -> Result<T, String> {
        let word = self.word(expected)?;
        word.parse().map_err(|_| format!("data: '{word}' is not {expected} (word {})", self.at))
    }

    fn accept(&mut self, word: &str) -> bool {
        let is = self.peek() == Some(word);
        self.at += is as usize;
        is
    }

    fn arrow(&mut self) -> Result<(), String> {
        match self.word("'->'")? {
            "->" => Ok(()),
            word => Err(format!("data: '->' expected, not '{word}' (word {})", self.at)),
        }
    }

    /// A value or a range of them for the field of `bytes` bytes at `offset`.
    fn field<T: FromStr>(
        &mut self,
        offset: usize,
        bytes: usize,
        expected: &str,
        number: fn(T) -> u64,
    ) -> Result<(), String> {
        let low = number(self.value(expected)?);
        let shown = low.to_be_bytes();
        self.template.bytes[offset..offset + bytes].copy_from_slice(&shown[8 - bytes..]);
        let vary = match self.peek() {
            Some("-") => Vary::Increment,
            Some("+") => Vary::Random,
            _ => return Ok(()),
        };
        self.at += 1;
        let high = number(self.value(expected)?);
        if high < low {
            return Err(format!("data: a range has its lower end first (word {})", self.at));
        }
        self.template.edits.push(Edit { offset, bytes, low, high, step: 1, vary, next: low });
        Ok(())
    }

    /// An entry of a label stack, behind the word that says what follows it.
    fn mpls(&mut self) -> Result<Option<String>, String> {
        let inside = self.word("what is behind the label (MPLS:, IP4:, IP6:, ANY:)")?;
        let (bottom, next) = match inside.trim_end_matches(':').to_ascii_uppercase().as_str() {
            "MPLS" => (0, "mpls"),
            "IP4" => (1, "ip4"),
            "IP6" => (1, "ip6"),
            "ANY" => (1, "payload"),
            _ => return Err(format!("data: unknown '{inside}' behind a label (MPLS:, IP4:, IP6:, ANY:)")),
        };
        match self.word("'label'")? {
            "label" => {}
            word => return Err(format!("data: 'label' expected, not '{word}' (word {})", self.at)),
        }
        let start = self.template.bytes.len();
        self.room(4)?;
        self.template.mpls.get_or_insert(start);
        self.template.bytes.extend([0, 0, bottom, 64]);
        // Label, traffic class and the bottom of the stack are one field of three bytes.
        let edits = self.template.edits.len();
        self.field(start, 3, "a label (0 to 1048575)", |label: u32| u64::from(label))?;
        let varied = self.template.edits.get(edits).map(|edit| edit.high);
        let low = self.template.bytes[start..start + 3].iter().fold(0, |sum, byte| sum << 8 | u64::from(*byte));
        let largest = varied.unwrap_or(low);
        if largest > MAX_LABEL.into() || low > MAX_LABEL.into() {
            return Err(format!("data: '{largest}' is not a label (0 to 1048575) (word {})", self.at));
        }
        let mut class = 0;
        while let Some(option) = self.peek() {
            match option {
                "ttl" => {
                    self.at += 1;
                    self.field(start + 3, 1, "a TTL (0 to 255)", |ttl: u8| ttl.into())?;
                }
                "exp" => {
                    self.at += 1;
                    class = self.value::<u8>("a traffic class (0 to 7)")?;
                    if class > 7 {
                        return Err(format!("data: '{class}' is not a traffic class (0 to 7) (word {})", self.at));
                    }
                }
                _ => break,
            }
        }
        let entry = |label: u64| label << 4 | u64::from(class) << 1 | u64::from(bottom);
        self.template.bytes[start..start + 3].copy_from_slice(&entry(low).to_be_bytes()[5..]);
        if let Some(edit) = self.template.edits.get_mut(edits).filter(|edit| edit.offset == start) {
            (edit.low, edit.high, edit.next, edit.step) = (entry(edit.low), entry(edit.high), entry(edit.next), 1 << 4);
        }
        Ok(Some(next.into()))
    }

    fn ethernet(&mut self) -> Result<Option<String>, String> {
        let number = |mac: MacAddress| {
            let [a, b, c, d, e, f] = mac.0;
            u64::from_be_bytes([0, 0, a, b, c, d, e, f])
        };
        let ethertype = self.word("an ethertype (IP4:, ARP:, IP6:, MPLS:, 0x....:)")?;
        let (code, next) = match ethertype.trim_end_matches(':').to_ascii_uppercase().as_str() {
            "IP4" => (0x0800, Some("ip4".to_string())),
            "IP6" => (0x86dd, Some("ip6".to_string())),
            "ARP" => (0x0806, Some("payload".to_string())),
            "MPLS" => (EtherType::MPLS.0, Some("mpls".to_string())),
            other => match u16::from_str_radix(other.trim_start_matches("0X"), 16) {
                Ok(code) => (code, Some("payload".to_string())),
                Err(_) => {
                    return Err(format!("data: unknown ethertype '{ethertype}' (IP4:, ARP:, IP6:, MPLS:, 0x....:)"));
                }
            },
        };
        self.template.bytes.resize(14, 0);
        self.field(6, 6, "a MAC address", number)?;
        self.arrow()?;
        self.field(0, 6, "a MAC address", number)?;
        // VLAN tags, the outer one first.
        while let Some(tpid) = self.peek().and_then(|word| match word {
            "vlan" => Some(EtherType::VLAN),
            "dot1ad" => Some(EtherType::QINQ),
            _ => None,
        }) {
            self.at += 1;
            let at = self.template.bytes.len() - 2;
            self.template.bytes[at..].copy_from_slice(&tpid.0.to_be_bytes());
            self.template.bytes.resize(at + TAG_LEN + 2, 0);
            self.field(at + 2, 2, "a VLAN (0 to 4095, with its priority up to 65535)", |tci: u16| u64::from(tci))?;
        }
        let end = self.template.bytes.len();
        self.template.bytes[end - 2..].copy_from_slice(&u16::to_be_bytes(code));
        Ok(next)
    }

    fn ip4(&mut self) -> Result<Option<String>, String> {
        let start = self.template.bytes.len();
        let protocol = self.word("a protocol (UDP:, TCP:, ICMP: or its number)")?;
        let (code, next) = match protocol.trim_end_matches(':').to_ascii_uppercase().as_str() {
            "UDP" => (17, "udp"),
            "TCP" => (6, "tcp"),
            "ICMP" => (1, "icmp"),
            other => match other.parse::<u8>() {
                Ok(code) => (code, "payload"),
                Err(_) => return Err(format!("data: unknown protocol '{protocol}' (UDP:, TCP:, ICMP: or its number)")),
            },
        };
        self.template.bytes.resize(start + 20, 0);
        self.template.bytes[start] = 0x45;
        self.template.bytes[start + 8] = 64;
        self.template.bytes[start + 9] = code;
        self.template.ip4 = Some(start);
        let number = |address: Ipv4Addr| u32::from(address) as u64;
        self.field(start + 12, 4, "an IPv4 address", number)?;
        self.arrow()?;
        self.field(start + 16, 4, "an IPv4 address", number)?;
        while let Some(option) = self.peek() {
            match option {
                "ttl" => {
                    self.at += 1;
                    self.field(start + 8, 1, "a TTL (0 to 255)", |ttl: u8| ttl as u64)?;
                }
                "tos" => {
                    self.at += 1;
                    self.field(start + 1, 1, "a TOS (0 to 255)", |tos: u8| tos as u64)?;
                }
                "fragment" if self.words.get(self.at + 1) == Some(&"id") => {
                    self.at += 2;
                    self.field(start + 4, 2, "a fragment id (0 to 65535)", |id: u16| id as u64)?;
                }
                "dont-fragment" => {
                    self.at += 1;
                    self.template.bytes[start + 6] |= 0x40;
                }
                _ => break,
            }
        }
        Ok(Some(next.into()))
    }

    fn ip6(&mut self) -> Result<Option<String>, String> {
        let (code, next) = match self.peek().map(|word| word.trim_end_matches(':').to_ascii_uppercase()).as_deref() {
            // Bytes from the header on.
            None | Some("HEX" | "INCREMENTING") => return Ok(Some("payload".into())),
            Some("UDP") => (17, "udp"),
            Some("TCP") => (6, "tcp"),
            Some("ICMP6") => (58, "icmp6"),
            Some(other) => match other.parse::<u8>() {
                Ok(code) => (code, "payload"),
                Err(_) => return Err(format!("data: unknown protocol '{other}' (UDP:, TCP:, ICMP6: or its number)")),
            },
        };
        self.at += 1;
        let start = self.template.bytes.len();
        self.template.bytes.resize(start + 40, 0);
        self.template.bytes[start] = 0x60;
        self.template.bytes[start + 6] = code;
        self.template.bytes[start + 7] = 64;
        self.template.ip6 = Some(start);
        self.address6(start + 8)?;
        self.arrow()?;
        self.address6(start + 24)?;
        while let Some(option) = self.peek() {
            match option {
                "hop-limit" => {
                    self.at += 1;
                    self.field(start + 7, 1, "a hop limit (0 to 255)", |hops: u8| hops.into())?;
                }
                "flow-label" => {
                    self.at += 1;
                    let label: u32 = self.value("a flow label (0 to 1048575)")?;
                    if label >> 20 != 0 {
                        return Err(format!("data: '{label}' is not a flow label (0 to 1048575)"));
                    }
                    self.template.bytes[start + 1] |= (label >> 16) as u8;
                    self.template.bytes[start + 2..start + 4].copy_from_slice(&(label as u16).to_be_bytes());
                }
                "tos" => {
                    self.at += 1;
                    let class: u8 = self.value("a TOS (0 to 255)")?;
                    self.template.bytes[start] |= class >> 4;
                    self.template.bytes[start + 1] |= class << 4;
                }
                _ => break,
            }
        }
        Ok(Some(next.into()))
    }

    /// An IPv6 address, or a range of them that differ in the lower 64 bits only.
    fn address6(&mut self, offset: usize) -> Result<(), String> {
        const EXPECTED: &str = "an IPv6 address";
        let at = self.at;
        let low: Ipv6Addr = self.value(EXPECTED)?;
        self.template.bytes[offset..offset + 16].copy_from_slice(&low.octets());
        if let (Some("-" | "+"), Some(high)) = (self.peek(), self.words.get(self.at + 1)) {
            let upper = |address: Ipv6Addr| u128::from(address) >> 64;
            if high.parse::<Ipv6Addr>().is_ok_and(|high| upper(high) != upper(low)) {
                return Err(format!(
                    "data: a range of IPv6 addresses is of their lower 64 bits (word {})",
                    self.at + 2
                ));
            }
        }
        self.at = at;
        self.field(offset + 8, 8, EXPECTED, |address: Ipv6Addr| u128::from(address) as u64)
    }

    fn icmp6(&mut self) -> Result<Option<String>, String> {
        self.echo(128, 129)
    }

    /// The header of an echo request or reply, if it is one: these are their types.
    fn echo(&mut self, request: u8, reply: u8) -> Result<Option<String>, String> {
        let kind = match self.peek() {
            Some("echo_request") => request,
            Some("echo_reply") => reply,
            _ => return Ok(Some("payload".into())),
        };
        self.at += 1;
        let start = self.template.bytes.len();
        self.template.bytes.resize(start + 8, 0);
        self.template.bytes[start] = kind;
        self.template.icmp = Some(start);
        Ok(Some("payload".into()))
    }

    fn ports(&mut self, start: usize) -> Result<(), String> {
        let number = |port: u16| port as u64;
        self.field(start, 2, "a port (0 to 65535)", number)?;
        self.arrow()?;
        self.field(start + 2, 2, "a port (0 to 65535)", number)
    }

    fn udp(&mut self) -> Result<Option<String>, String> {
        if !self.accept("UDP:") {
            return Ok(Some("payload".into()));
        }
        let start = self.template.bytes.len();
        self.template.bytes.resize(start + 8, 0);
        self.template.udp = Some(start);
        self.ports(start)?;
        Ok(Some("payload".into()))
    }

    fn tcp(&mut self) -> Result<Option<String>, String> {
        if !self.accept("TCP:") {
            return Ok(Some("payload".into()));
        }
        let start = self.template.bytes.len();
        self.template.bytes.resize(start + 20, 0);
        self.template.bytes[start + 12] = 5 << 4;
        self.template.bytes[start + 13] = 0x10; // ACK
        self.template.tcp = Some(start);
        self.ports(start)?;
        Ok(Some("payload".into()))
    }

    fn icmp(&mut self) -> Result<Option<String>, String> {
        let _ = self.accept("ICMP:") || self.accept("ICMP");
        self.echo(8, 0)
    }

    fn payload(&mut self) -> Result<(), String> {
        loop {
            if self.accept("incrementing") {
                let count: usize = self.value("a number of bytes")?;
                self.room(count)?;
                self.template.bytes.extend((0..count).map(|i| i as u8));
            } else if self.accept("hex") {
                let word = self.word("hexadecimal bytes")?;
                let digits = word.trim_start_matches("0x");
                let bytes: Option<Vec<u8>> = (digits.is_ascii() && digits.len().is_multiple_of(2)).then(|| {
                    (0..digits.len())
                        .step_by(2)
                        .filter_map(|i| u8::from_str_radix(&digits[i..i + 2], 16).ok())
                        .collect()
                });
                let bytes = bytes.filter(|bytes| bytes.len() * 2 == digits.len());
                let bytes = bytes.ok_or_else(|| format!("data: '{word}' is not hexadecimal bytes"))?;
                self.room(bytes.len())?;
                self.template.bytes.extend(bytes);
            } else {
                return Ok(());
            }
        }
    }

    fn room(&self, more: usize) -> Result<(), String> {
        if more > MAX_SIZE - self.template.bytes.len() {
            return Err(format!("data: more than the {MAX_SIZE} bytes that a packet may have"));
        }
        Ok(())
    }
}
