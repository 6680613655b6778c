//! From the text of a filter to its steps.
//!
//! The parser keeps parentheses on a stack of its own and patches jumps when their target is known. So the text of an
//! operator, or of a hostile client, cannot cause recursion.

use super::test::{Comparison, Depth, Direction, Families, TYPE_ARP, TYPE_IP, TYPE_IP6, TYPE_RARP, Test};
use super::{ACCEPT, FilterError, MAX_DEPTH, MAX_TESTS, MAX_TEXT, REJECT, Step};
use std::net::{Ipv4Addr, Ipv6Addr};

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
const ANY_TRANSPORT: &[u8] = &[TCP, UDP, SCTP];

const NONE: Families = Families { ip: false, ip6: false, arp: false, rarp: false };
const IP: Families = Families { ip: true, ..NONE };
const IP6: Families = Families { ip6: true, ..NONE };
const ARP: Families = Families { arp: true, ..NONE };
const RARP: Families = Families { rarp: true, ..NONE };
const BOTH: Families = Families { ip: true, ip6: true, ..NONE };
const ALL: Families = Families { ip: true, ip6: true, arp: true, rarp: true };

/// Protocols of IP that are words of the language, and where they occur.
const PROTOCOLS: &[(&str, u8, Families)] = &[
    ("icmp", 1, IP),
    ("igmp", 2, IP),
    ("tcp", TCP, BOTH),
    ("udp", UDP, BOTH),
    ("esp", 50, BOTH),
    ("ah", 51, BOTH),
    ("icmp6", 58, IP6),
    ("pim", 103, BOTH),
    ("vrrp", 112, IP),
    ("sctp", SCTP, BOTH),
];
/// Names that only `proto` takes.
const MORE_PROTOCOLS: &[(&str, u8)] = &[("gre", 47), ("ospf", 89), ("udplite", 136)];

/// A word or sign of the text, and its place.
#[derive(Clone, Copy, Debug)]
struct Token<'a> {
    at: usize,
    text: &'a str,
}

fn error<T>(at: usize, message: impl Into<String>) -> Result<T, FilterError> {
    Err(FilterError { at, message: message.into() })
}

fn tokens(text: &str) -> Result<Vec<Token<'_>>, FilterError> {
    if text.len() > MAX_TEXT {
        return error(MAX_TEXT, format!("longer than {MAX_TEXT} bytes"));
    }
    const SIGNS: [&str; 12] = ["&&", "||", "<=", ">=", "==", "!=", "<", ">", "=", "!", "(", ")"];
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        if first.is_whitespace() {
            at += first.len_utf8();
            continue;
        }
        let rest = &text[at..];
        let length = match SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            Some(sign) => sign.len(),
            None => rest.find(|c: char| c.is_whitespace() || "()!<>=&|[".contains(c)).unwrap_or(rest.len()),
        };
        match first {
            '[' => return error(at, "bytes by offset ('[...]') are not read here"),
            _ if length == 0 => return error(at, format!("unknown sign '{first}'")),
            _ => {}
        }
        tokens.push(Token { at, text: &rest[..length] });
        at += length;
    }
    Ok(tokens)
}

/// What a value without a keyword inherits from the term before it.
#[derive(Clone, Copy)]
struct Keyword {
    kind: Kind,
    way: Direction,
}

#[derive(Clone, Copy)]
enum Kind {
    EtherHost,
    Host(Families),
    Net(Families),
    /// An address or a network; the value decides which.
    Address(Families),
    Port(&'static [u8]),
    PortRange(&'static [u8]),
    Protocol(Families),
}

/// A piece of the steps whose outward jumps are still open: for each its step, and which of the step's two jumps it is.
struct Code {
    entry: usize,
    yes: Vec<(usize, bool)>,
    no: Vec<(usize, bool)>,
}

/// The terms read so far within a pair of parentheses.
#[derive(Default)]
struct Group {
    left: Option<Code>,
    is_or: bool,
    negated: bool,
    /// Where it was opened.
    at: usize,
}

struct Parser<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
    end: usize,
    steps: Vec<Step>,
    depth: Depth,
    last: Option<Keyword>,
}

pub(super) fn parse(text: &str) -> Result<Vec<Step>, FilterError> {
    let tokens = tokens(text)?;
    if tokens.is_empty() {
        return error(0, "empty; write something like 'udp and port 53'");
    }
    let mut parser =
        Parser { tokens, next: 0, end: text.len(), steps: Vec::new(), depth: Depth::default(), last: None };
    let whole = parser.expression()?;
    parser.patch(&whole.yes, ACCEPT);
    parser.patch(&whole.no, REJECT);
    Ok(parser.steps)
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.tokens.get(self.next).map(|token| token.text)
    }
    fn at(&self) -> usize {
        self.tokens.get(self.next).map_or(self.end, |token| token.at)
    }
    fn take(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.next += usize::from(found);
        found
    }
    fn take_any(&mut self, words: &[&str]) -> bool {
        words.iter().any(|word| self.take(word))
    }

    fn patch(&mut self, jumps: &[(usize, bool)], target: u16) {
        for &(step, side) in jumps {
            let step = &mut self.steps[step];
            *(if side { &mut step.yes } else { &mut step.no }) = target;
        }
    }

    fn expression(&mut self) -> Result<Code, FilterError> {
        let mut outer: Vec<Group> = Vec::new();
        let mut group = Group::default();
        loop {
            if self.take_any(&["not", "!"]) {
                group.negated ^= true;
                continue;
            }
            let at = self.at();
            if self.take("(") {
                if outer.len() == MAX_DEPTH {
                    return error(at, format!("parentheses nested deeper than {MAX_DEPTH}"));
                }
                outer.push(std::mem::replace(&mut group, Group { at, ..Group::default() }));
                continue;
            }
            let mut operand = self.term()?;
            // After a term: parentheses that close here, then the word that joins the next term.
            loop {
                operand = self.join(&mut group, operand);
                if !self.take(")") {
                    break;
                }
                match outer.pop() {
                    Some(outside) => group = outside,
                    None => return error(self.tokens[self.next - 1].at, "')' closes nothing"),
                }
            }
            group.left = Some(operand);
            if self.next == self.tokens.len() {
                break;
            }
            group.is_or = self.take_any(&["or", "||"]);
            if !group.is_or {
                self.take_any(&["and", "&&"]);
            }
        }
        match outer.is_empty() {
            true => Ok(group.left.expect("a term was read")),
            false => error(group.at, "'(' is never closed"),
        }
    }

    /// Joins a term to the terms to its left in its group.
    fn join(&mut self, group: &mut Group, mut operand: Code) -> Code {
        if std::mem::take(&mut group.negated) {
            std::mem::swap(&mut operand.yes, &mut operand.no);
        }
        let Some(mut left) = group.left.take() else { return operand };
        let target = operand.entry as u16;
        if group.is_or {
            self.patch(&left.no, target);
            left.yes.append(&mut operand.yes);
            left.no = operand.no;
        } else {
            self.patch(&left.yes, target);
            left.no.append(&mut operand.no);
            left.yes = operand.yes;
        }
        left
    }

    fn emit(&mut self, at: usize, test: Test) -> Result<Code, FilterError> {
        if self.steps.len() == MAX_TESTS {
            return error(at, format!("more than {MAX_TESTS} tests"));
        }
        let entry = self.steps.len();
        let test = match self.depth == Depth::default() {
            true => test,
            false => Test::Behind(self.depth, Box::new(test)),
        };
        self.steps.push(Step { test, yes: REJECT, no: REJECT });
        Ok(Code { entry, yes: vec![(entry, true)], no: vec![(entry, false)] })
    }

    /// One term: a keyword with its value, or a value alone.
    fn term(&mut self) -> Result<Code, FilterError> {
        let at = self.at();
        let Some(word) = self.peek() else {
            return error(at, "the expression ends where a term is expected");
        };
        if let Some(test) = self.word(at, word)? {
            let deeper = match test {
                Test::Vlan(_) => Depth { tags: self.depth.tags + 1, ..self.depth },
                Test::Mpls(_) => Depth { labels: self.depth.labels + 1, ..self.depth },
                _ => self.depth,
            };
            let code = self.emit(at, test);
            self.depth = deeper;
            return code;
        }
        let keyword = match self.keyword(at)? {
            Some(keyword) => keyword,
            None => match self.last {
                Some(keyword) => keyword,
                None => Keyword { kind: Kind::Address(ALL), way: Direction::Either },
            },
        };
        self.last = Some(keyword);
        let test = self.value(keyword)?;
        self.emit(at, test)
    }

    /// Terms that are complete without a value of the usual kinds. None: it is no such term, and no token was taken.
    fn word(&mut self, at: usize, word: &str) -> Result<Option<Test>, FilterError> {
        let following = self.tokens.get(self.next + 1).map(|token| token.text);
        let group = |kind: &str| following == Some(kind);
        let (test, words) = match word {
            "ip" if group("multicast") => (Test::Multicast, 2),
            "ip6" if group("multicast") => (Test::Multicast6, 2),
            "ether" if group("multicast") => (Test::EtherMulticast, 2),
            "ether" if group("broadcast") => (Test::EtherBroadcast, 2),
            "ip" | "ip6" | "arp" | "rarp" if !following.is_some_and(qualifies) => (Test::EtherType(type_of(word)), 1),
            "broadcast" => (Test::EtherBroadcast, 1),
            "multicast" => (Test::EtherMulticast, 1),
            "fragment" => (Test::Fragment, 1),
            "ether" if group("proto") => {
                self.next += 2;
                return self.ether_type().map(Some);
            }
            "vlan" | "mpls" => {
                self.next += 1;
                return self.tag(at, word).map(Some);
            }
            "less" | "greater" | "len" => {
                self.next += 1;
                return self.length(word).map(Some);
            }
            _ => match PROTOCOLS.iter().find(|(name, ..)| *name == word) {
                // Before a port, the protocol belongs to that term.
                Some(_) if following.is_some_and(|next| self.leads_to_port(next)) => return Ok(None),
                Some((_, number, families)) => (Test::Protocol(*families, *number), 1),
                None => return Ok(None),
            },
        };
        self.next += words;
        Ok(Some(test))
    }

    /// Whether a transport's name is followed by `[src|dst] port`.
    fn leads_to_port(&self, next: &str) -> bool {
        let ports = |word: &str| matches!(word, "port" | "portrange" | "src-port" | "dst-port");
        let mut rest = self.tokens[self.next + 1..].iter().map(|token| token.text);
        match next {
            "src" | "dst" => {
                rest.next();
                match rest.next() {
                    Some("or" | "and") => {
                        rest.next().is_some_and(|word| word == "dst") && rest.next().is_some_and(ports)
                    }
                    word => word.is_some_and(ports),
                }
            }
            word => ports(word),
        }
    }

    fn ether_type(&mut self) -> Result<Test, FilterError> {
        let (at, word) = self.one("an EtherType such as 0x0800")?;
        let kind = match word.trim_start_matches('\\') {
            name @ ("ip" | "ip6" | "arp" | "rarp") => type_of(name).into(),
            number => parse_number(number).unwrap_or(0),
        };
        match u16::try_from(kind) {
            Ok(kind @ 0x0600..) => Ok(Test::EtherType(kind)),
            _ => error(at, format!("'{word}' is no EtherType: 0x0600 to 0xffff, or ip, ip6, arp, rarp")),
        }
    }

    fn tag(&mut self, at: usize, word: &str) -> Result<Test, FilterError> {
        let most = if word == "vlan" { 0xfff } else { 0xf_ffff };
        if word == "vlan" && self.depth.labels > 0 {
            return error(at, "a VLAN tag cannot be behind an MPLS label");
        }
        if usize::from(self.depth.tags.max(self.depth.labels)) == MAX_DEPTH {
            return error(at, format!("more than {MAX_DEPTH} times '{word}'"));
        }
        let number = match self.peek().filter(|next| next.starts_with(|c: char| c.is_ascii_digit())) {
            Some(text) if text.contains(['.', ':']) => None,
            Some(text) => match parse_number(text).filter(|number| *number <= most) {
                Some(number) => {
                    self.next += 1;
                    Some(number)
                }
                None => return error(self.at(), format!("'{text}': {word} takes a number from 0 to {most}")),
            },
            None => None,
        };
        Ok(if word == "vlan" { Test::Vlan(number.map(|id| id as u16)) } else { Test::Mpls(number) })
    }

    fn length(&mut self, word: &str) -> Result<Test, FilterError> {
        let comparison = match word {
            "less" => Comparison::AtMost,
            "greater" => Comparison::AtLeast,
            _ => {
                let (at, sign) = self.one("one of < <= = != >= >")?;
                match sign {
                    "<" => Comparison::Less,
                    "<=" => Comparison::AtMost,
                    "=" | "==" => Comparison::Equal,
                    "!=" => Comparison::Unequal,
                    ">=" => Comparison::AtLeast,
                    ">" => Comparison::Greater,
                    _ => return error(at, format!("'{sign}': expected one of < <= = != >= >")),
                }
            }
        };
        let (at, text) = self.one("a number of bytes")?;
        match parse_number(text) {
            Some(number) => Ok(Test::Length(comparison, number)),
            None => error(at, format!("'{text}' is no number of bytes")),
        }
    }

    /// The next word, which is required.
    fn one(&mut self, what: &str) -> Result<(usize, &'a str), FilterError> {
        let at = self.at();
        match self.peek() {
            Some(word) => {
                self.next += 1;
                Ok((at, word))
            }
            None => error(at, format!("the expression ends where {what} is expected")),
        }
    }

    /// `[protocol] [src|dst] [host|net|port|...]`. None: the word is a value.
    fn keyword(&mut self, at: usize) -> Result<Option<Keyword>, FilterError> {
        let start = self.next;
        let protocol = match self.peek() {
            Some(word @ ("ip" | "ip6" | "arp" | "rarp" | "ether" | "tcp" | "udp" | "sctp")) => {
                self.next += 1;
                Some(word)
            }
            _ => None,
        };
        let way = self.way()?;
        let families = match protocol {
            Some("ip") => IP,
            Some("ip6") => IP6,
            Some("arp") => ARP,
            Some("rarp") => RARP,
            _ => ALL,
        };
        let transports: &[u8] = match protocol {
            Some("tcp") => &[TCP],
            Some("udp") => &[UDP],
            Some("sctp") => &[SCTP],
            _ => ANY_TRANSPORT,
        };
        let (kind, way) = match self.peek() {
            Some("host") if protocol == Some("ether") => (Kind::EtherHost, way),
            _ if protocol == Some("ether") && way.is_some() => {
                return Ok(Some(Keyword { kind: Kind::EtherHost, way: way.unwrap_or(Direction::Either) }));
            }
            Some("host") => (Kind::Host(families), way),
            Some("net") => (Kind::Net(families), way),
            Some("port") => (Kind::Port(transports), way),
            Some("src-port") if way.is_none() => (Kind::Port(transports), Some(Direction::Source)),
            Some("dst-port") if way.is_none() => (Kind::Port(transports), Some(Direction::Destination)),
            Some("portrange") => (Kind::PortRange(transports), way),
            Some("proto") if way.is_none() => (Kind::Protocol(families), way),
            _ if self.next > start => {
                // `src 10.0.0.1`: the value decides.
                return Ok(Some(Keyword { kind: Kind::Address(families), way: way.unwrap_or(Direction::Either) }));
            }
            _ => return Ok(None),
        };
        let fits = match (protocol, kind) {
            (None, _) => true,
            (Some("ip" | "ip6"), kind) => matches!(kind, Kind::Host(_) | Kind::Net(_) | Kind::Protocol(_)),
            (Some("arp" | "rarp"), kind) => matches!(kind, Kind::Host(_) | Kind::Net(_)),
            (Some("ether"), kind) => matches!(kind, Kind::EtherHost),
            (Some(_), kind) => matches!(kind, Kind::Port(_) | Kind::PortRange(_)),
        };
        let word = self.peek().unwrap_or_default();
        if !fits {
            return error(at, format!("'{}' does not go with '{word}'", protocol.unwrap_or_default()));
        }
        self.next += 1;
        Ok(Some(Keyword { kind, way: way.unwrap_or(Direction::Either) }))
    }

    /// `src`, `dst`, `src or dst`, `src and dst`.
    fn way(&mut self) -> Result<Option<Direction>, FilterError> {
        if self.take("dst") {
            return Ok(Some(Direction::Destination));
        }
        if !self.take("src") {
            return Ok(None);
        }
        let following = self.tokens.get(self.next + 1).map(|token| token.text);
        let joined = match self.peek() {
            // `src A or dst B` has a value in between; this has none.
            Some("or") if following == Some("dst") => Direction::Either,
            Some("and") if following == Some("dst") => Direction::Both,
            _ => return Ok(Some(Direction::Source)),
        };
        self.next += 2;
        Ok(Some(joined))
    }

    fn value(&mut self, Keyword { kind, way }: Keyword) -> Result<Test, FilterError> {
        let what = match kind {
            Kind::EtherHost => "an Ethernet address",
            Kind::Host(_) | Kind::Address(_) => "an address",
            Kind::Net(_) => "a prefix such as 10.0.0.0/8",
            Kind::Port(_) => "a port number",
            Kind::PortRange(_) => "a range of ports such as 1024-2047",
            Kind::Protocol(_) => "a protocol's name or number",
        };
        let (at, word) = self.one(what)?;
        let test = match kind {
            Kind::EtherHost => word.parse().ok().map(|address| Test::EtherAddress(way, address)),
            Kind::Host(families) => address(word, families, way, false),
            Kind::Net(families) | Kind::Address(families) => address(word, families, way, true),
            Kind::Port(transports) => parse_port(word).map(|port| Test::Port(transports, way, port, port)),
            Kind::PortRange(transports) => word
                .split_once('-')
                .and_then(|(low, high)| Some((parse_port(low)?, parse_port(high)?)))
                .map(|(a, b)| Test::Port(transports, way, a.min(b), a.max(b))),
            Kind::Protocol(families) => protocol_number(word).map(|number| Test::Protocol(families, number)),
        };
        match test {
            Some(test) => Ok(test),
            None if matches!(kind, Kind::Address(_)) && way == Direction::Either => {
                error(at, format!("unknown word '{word}': expected a protocol, host, net, port, an address, ..."))
            }
            None => error(at, format!("'{word}' is not {what}")),
        }
    }
}

/// Whether a word after `ip` or `arp` makes that the start of a longer term.
fn qualifies(word: &str) -> bool {
    matches!(word, "src" | "dst" | "host" | "net" | "proto")
}

fn type_of(name: &str) -> u16 {
    match name {
        "ip6" => TYPE_IP6,
        "arp" => TYPE_ARP,
        "rarp" => TYPE_RARP,
        _ => TYPE_IP,
    }
}

/// Decimal or `0x` hexadecimal.
fn parse_number(text: &str) -> Option<u32> {
    let digits = |text: &str, radix| {
        // from_str_radix alone would accept a sign.
        text.chars().all(|c| c.is_digit(radix)).then(|| u32::from_str_radix(text, radix).ok()).flatten()
    };
    match text.strip_prefix("0x") {
        Some(hexadecimal) => digits(hexadecimal, 16),
        None => digits(text, 10),
    }
}

fn parse_port(text: &str) -> Option<u16> {
    u16::try_from(parse_number(text)?).ok()
}

fn protocol_number(text: &str) -> Option<u8> {
    let name = text.trim_start_matches('\\');
    let named = PROTOCOLS.iter().find(|(known, ..)| *known == name).map(|(_, number, _)| *number);
    let more = || MORE_PROTOCOLS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number);
    named.or_else(more).or_else(|| u8::try_from(parse_number(name)?).ok())
}

/// An address or, if `prefix`, a network; host bits of a prefix are ignored.
fn address(text: &str, families: Families, way: Direction, prefix: bool) -> Option<Test> {
    let (address, length) = match text.split_once('/') {
        Some(_) if !prefix => return None,
        Some((address, length)) => (address, Some(parse_number(length)?)),
        None => (text, None),
    };
    if let Ok(address) = address.parse::<Ipv4Addr>() {
        let length = length.unwrap_or(32);
        if length > 32 || !(families.ip || families.arp || families.rarp) {
            return None;
        }
        let mask = u32::MAX.checked_shl(32 - length).unwrap_or(0);
        return Some(Test::Address(families, way, u32::from(address) & mask, mask));
    }
    let address = address.parse::<Ipv6Addr>().ok()?;
    let length = length.unwrap_or(128);
    if length > 128 || !families.ip6 {
        return None;
    }
    let mask = u128::MAX.checked_shl(128 - length).unwrap_or(0);
    Some(Test::Address6(way, u128::from(address) & mask, mask))
}
