//! Dynamic Host Configuration Protocol (RFC 2131) with the options that a client needs (RFC 2132).
//!
//! This is our own code: the crate for it, dhcproto, depends on a DNS library and its tables of international names,
//! but a client needs only a dozen fields.

use crate::addr::{Ipv4Address, MacAddress};
use std::borrow::Cow;
use std::fmt;

/// Bytes before the first option: BOOTP's fields (RFC 951) and the cookie.
pub const FIXED_LEN: usize = 240;
/// Shorter messages do not pass every relay: BOOTP messages have 64 bytes of options (RFC 951 section 3).
pub const MIN_LEN: usize = 300;
/// Longest message that is written: every host accepts it in one piece (RFC 2131 section 2).
pub const MAX_LEN: usize = 548;
/// UDP ports.
pub const SERVER_PORT: u16 = 67;
pub const CLIENT_PORT: u16 = 68;
/// A lease time that never ends (RFC 2131 3.3).
pub const INFINITE: u32 = u32::MAX;
/// Longest host name that is written.
pub const MAX_HOST_NAME: usize = 63;
/// Most bytes of text, and most addresses, in an option that is written.
const MAX_MESSAGE: usize = 64;
const MAX_NAME_SERVERS: usize = 8;
const MAX_ROUTERS: usize = 8;
/// Most bytes of an option that was split: only whole addresses.
const MAX_JOINED: usize = 252;

const COOKIE: [u8; 4] = [99, 130, 83, 99];
const BROADCAST_FLAG: u16 = 0x8000;
const FILE: std::ops::Range<usize> = 108..236;
const SNAME: std::ops::Range<usize> = 44..108;
const ETHERNET: u8 = 1;
const MAC_LEN: u8 = 6;

/// Options by their codes (RFC 2132).
mod option {
    pub const PAD: u8 = 0;
    pub const MASK: u8 = 1;
    pub const ROUTER: u8 = 3;
    pub const NAME_SERVER: u8 = 6;
    pub const HOST_NAME: u8 = 12;
    pub const REQUESTED: u8 = 50;
    pub const LEASE_TIME: u8 = 51;
    pub const OVERLOAD: u8 = 52;
    pub const KIND: u8 = 53;
    pub const SERVER: u8 = 54;
    pub const PARAMETERS: u8 = 55;
    pub const MESSAGE: u8 = 56;
    pub const MAX_SIZE: u8 = 57;
    pub const RENEWAL: u8 = 58;
    pub const REBINDING: u8 = 59;
    pub const CLIENT: u8 = 61;
    pub const END: u8 = 255;
}

/// Parameters that a client requests from servers.
const PARAMETERS: [u8; 6] =
    [option::MASK, option::ROUTER, option::NAME_SERVER, option::LEASE_TIME, option::RENEWAL, option::REBINDING];
/// Longest IPv4 packet that we announce to accept: every host does (RFC 2132 9.10).
const MAX_SIZE: u16 = 576;

/// DHCP message type (RFC 2132 9.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Discover,
    Offer,
    Request,
    Decline,
    Ack,
    Nak,
    Release,
    Inform,
}

const KINDS: [Kind; 8] =
    [Kind::Discover, Kind::Offer, Kind::Request, Kind::Decline, Kind::Ack, Kind::Nak, Kind::Release, Kind::Inform];

impl Kind {
    /// Whether servers send it.
    pub fn is_reply(self) -> bool {
        matches!(self, Kind::Offer | Kind::Ack | Kind::Nak)
    }
}

/// Why bytes are not a DHCP message over Ethernet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ParseError {
    Truncated {
        available: usize,
    },
    /// Neither a request nor a reply.
    Operation(u8),
    Hardware {
        kind: u8,
        length: u8,
    },
    Cookie,
    /// The option with this code is truncated, or has a wrong length.
    Option(u8),
    /// BOOTP, or an unknown message type.
    Kind,
    /// The message type does not fit the direction.
    Direction(Kind),
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated { available } => write!(f, "DHCP message truncated: {available} bytes of {FIXED_LEN}"),
            Self::Operation(value) => write!(f, "DHCP operation {value}: 1 and 2 are known"),
            Self::Hardware { kind, length } => {
                write!(f, "DHCP hardware type {kind} with addresses of {length} bytes: only Ethernet is supported")
            }
            Self::Cookie => write!(f, "BOOTP without DHCP's options"),
            Self::Option(code) => write!(f, "DHCP option {code} has a wrong length"),
            Self::Kind => write!(f, "no known DHCP message type"),
            Self::Direction(kind) => write!(f, "DHCP {kind:?} in the wrong direction"),
        }
    }
}

impl std::error::Error for ParseError {}

/// A message of a client or of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Message<'a> {
    pub kind: Kind,
    pub transaction: u32,
    /// Seconds since the client began, as the client reports.
    pub seconds: u16,
    /// Replies must be broadcast: the client has no address yet.
    pub broadcast: bool,
    /// The address that the client has.
    pub client: Ipv4Address,
    /// The address that it will have.
    pub yours: Ipv4Address,
    pub mac: MacAddress,
    pub requested: Option<Ipv4Address>,
    pub server: Option<Ipv4Address>,
    /// In seconds.
    pub lease_time: Option<u32>,
    pub renewal_time: Option<u32>,
    pub rebinding_time: Option<u32>,
    pub mask: Option<Ipv4Address>,
    /// Addresses one after the other, four bytes each; see [`Message::routers`].
    pub router_bytes: &'a [u8],
    /// Addresses one after the other, four bytes each; see [`Message::name_servers`].
    pub name_server_bytes: &'a [u8],
    pub host_name: &'a [u8],
    /// A server's message for people.
    pub message: &'a [u8],
}

impl<'a> Message<'a> {
    /// A message without options.
    pub fn new(kind: Kind, transaction: u32, mac: MacAddress) -> Message<'a> {
        Message {
            kind,
            transaction,
            seconds: 0,
            broadcast: false,
            client: Ipv4Address::UNSPECIFIED,
            yours: Ipv4Address::UNSPECIFIED,
            mac,
            requested: None,
            server: None,
            lease_time: None,
            renewal_time: None,
            rebinding_time: None,
            mask: None,
            router_bytes: &[],
            name_server_bytes: &[],
            host_name: &[],
            message: &[],
        }
    }

    pub fn name_servers(&self) -> impl Iterator<Item = Ipv4Address> + 'a {
        addresses(self.name_server_bytes)
    }

    /// Routers, the one that the server prefers first.
    pub fn routers(&self) -> impl Iterator<Item = Ipv4Address> + 'a {
        addresses(self.router_bytes)
    }

    /// Reads a message whose options are whole, or were joined ([`join`]). If an option occurs twice, the first counts.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(bytes: &'a [u8]) -> Result<Message<'a>, ParseError> {
        if bytes.len() < FIXED_LEN {
            return Err(ParseError::Truncated { available: bytes.len() });
        }
        if !matches!(bytes[0], 1 | 2) {
            return Err(ParseError::Operation(bytes[0]));
        }
        if (bytes[1], bytes[2]) != (ETHERNET, MAC_LEN) {
            return Err(ParseError::Hardware { kind: bytes[1], length: bytes[2] });
        }
        if bytes[236..240] != COOKIE {
            return Err(ParseError::Cookie);
        }
        let address = |at: usize| Ipv4Address::from(word(&bytes[at..]));
        let mac = MacAddress([bytes[28], bytes[29], bytes[30], bytes[31], bytes[32], bytes[33]]);
        let mut message = Message::new(Kind::Inform, word(&bytes[4..]), mac);
        message.seconds = u16::from_be_bytes([bytes[8], bytes[9]]);
        message.broadcast = u16::from_be_bytes([bytes[10], bytes[11]]) & BROADCAST_FLAG != 0;
        (message.client, message.yours) = (address(12), address(16));
        let mut seen = Seen::default();
        message.read_options(&bytes[FIXED_LEN..], &mut seen)?;
        // RFC 2132 9.3: the fields for BOOTP's names may hold more options.
        let overload = seen.overload.unwrap_or(0);
        for (bit, range) in [(1, FILE), (2, SNAME)] {
            if overload & bit != 0 {
                message.read_options(&bytes[range], &mut seen)?;
            }
        }
        message.kind = seen.kind.ok_or(ParseError::Kind)?;
        if message.kind.is_reply() != (bytes[0] == 2) {
            return Err(ParseError::Direction(message.kind));
        }
        Ok(message)
    }

    fn read_options(&mut self, mut rest: &'a [u8], seen: &mut Seen) -> Result<(), ParseError> {
        loop {
            let code = match rest {
                // Options that end with the message need no end option.
                [] | [option::END, ..] => return Ok(()),
                [option::PAD, ..] => {
                    rest = &rest[1..];
                    continue;
                }
                [code, ..] => *code,
            };
            let wrong = ParseError::Option(code);
            let length = usize::from(*rest.get(1).ok_or(wrong)?);
            let value = rest.get(2..2 + length).ok_or(wrong)?;
            rest = &rest[2 + length..];
            self.read_option(code, value, seen).ok_or(wrong)?;
        }
    }

    fn read_option(&mut self, code: u8, value: &'a [u8], seen: &mut Seen) -> Option<()> {
        let whole = |value: &[u8]| (value.len() == 4).then(|| word(value));
        // RFC 2132: at least one address, and only whole ones.
        let some = !value.is_empty() && value.len().is_multiple_of(4);
        match code {
            option::MASK => first(&mut self.mask, whole(value)?.into()),
            option::ROUTER | option::NAME_SERVER if !some => return None,
            option::ROUTER if self.router_bytes.is_empty() => self.router_bytes = value,
            option::NAME_SERVER if self.name_server_bytes.is_empty() => self.name_server_bytes = value,
            option::HOST_NAME if self.host_name.is_empty() => self.host_name = value,
            option::REQUESTED => first(&mut self.requested, whole(value)?.into()),
            option::LEASE_TIME => first(&mut self.lease_time, whole(value)?),
            option::OVERLOAD => first(&mut seen.overload, (value.len() == 1).then(|| value[0])?),
            option::KIND => {
                let [number] = value else { return None };
                let kind = KINDS.get(usize::from(*number).wrapping_sub(1));
                first(&mut seen.kind, *kind?);
            }
            option::SERVER => first(&mut self.server, whole(value)?.into()),
            option::MESSAGE if self.message.is_empty() => self.message = value,
            option::RENEWAL => first(&mut self.renewal_time, whole(value)?),
            option::REBINDING => first(&mut self.rebinding_time, whole(value)?),
            _ => {}
        }
        Some(())
    }

    /// Writes the message, padded, to the start of `buf`; returns its length. A client's message lists the parameters
    /// that it requests, the longest message that it accepts, and its identifier. Values that are too long are
    /// truncated.
    ///
    /// # Panics
    /// When `buf` is shorter than [`MAX_LEN`].
    pub fn emit(&self, buf: &mut [u8]) -> usize {
        let buf = &mut buf[..MAX_LEN];
        buf.fill(0);
        buf[0] = if self.kind.is_reply() { 2 } else { 1 };
        (buf[1], buf[2]) = (ETHERNET, MAC_LEN);
        buf[4..8].copy_from_slice(&self.transaction.to_be_bytes());
        buf[8..10].copy_from_slice(&self.seconds.to_be_bytes());
        let flags = if self.broadcast { BROADCAST_FLAG } else { 0 };
        buf[10..12].copy_from_slice(&flags.to_be_bytes());
        buf[12..16].copy_from_slice(&self.client.octets());
        buf[16..20].copy_from_slice(&self.yours.octets());
        buf[28..34].copy_from_slice(&self.mac.0);
        buf[236..240].copy_from_slice(&COOKIE);
        let mut to = Writer { buf, at: FIXED_LEN };
        let kind = KINDS.iter().position(|kind| *kind == self.kind).map_or(0, |at| at as u8 + 1);
        to.put(option::KIND, &[kind]);
        let addresses = [(option::REQUESTED, self.requested), (option::SERVER, self.server), (option::MASK, self.mask)];
        for (code, address) in addresses {
            address.into_iter().for_each(|address| to.put(code, &address.octets()));
        }
        let times = [
            (option::LEASE_TIME, self.lease_time),
            (option::RENEWAL, self.renewal_time),
            (option::REBINDING, self.rebinding_time),
        ];
        for (code, time) in times {
            time.into_iter().for_each(|time| to.put(code, &time.to_be_bytes()));
        }
        let bytes = [
            (option::ROUTER, self.router_bytes, MAX_ROUTERS * 4),
            (option::NAME_SERVER, self.name_server_bytes, MAX_NAME_SERVERS * 4),
            (option::HOST_NAME, self.host_name, MAX_HOST_NAME),
            (option::MESSAGE, self.message, MAX_MESSAGE),
        ];
        for (code, bytes, most) in bytes {
            if !bytes.is_empty() {
                to.put(code, &bytes[..bytes.len().min(most)]);
            }
        }
        if !self.kind.is_reply() {
            let [a, b, c, d, e, f] = self.mac.0;
            to.put(option::CLIENT, &[ETHERNET, a, b, c, d, e, f]);
        }
        // RFC 2131 table 5: a client that releases or declines an address requests nothing.
        if matches!(self.kind, Kind::Discover | Kind::Request | Kind::Inform) {
            to.put(option::MAX_SIZE, &MAX_SIZE.to_be_bytes());
            to.put(option::PARAMETERS, &PARAMETERS);
        }
        to.buf[to.at] = option::END;
        (to.at + 1).max(MIN_LEN)
    }
}

/// Joins options that are split: the parts of an option are concatenated, first those among the options, then those in
/// the fields for names (RFC 3396 sections 5 to 7). If an option of fixed length is complete, later parts are dropped,
/// as are bytes beyond the longest length of an option. A message without split options is unchanged, and so is one
/// that is truncated, for [`Message::parse`] to refuse.
pub fn join(bytes: &[u8]) -> Cow<'_, [u8]> {
    let whole = Cow::Borrowed(bytes);
    if bytes.len() < FIXED_LEN {
        return whole;
    }
    let mut options = Vec::new();
    collect_options(&bytes[FIXED_LEN..], &mut options);
    let overload = options.iter().find(|(code, _)| *code == option::OVERLOAD);
    let overload = overload.and_then(|(_, value)| value.first()).copied().unwrap_or(0);
    for (bit, range) in [(1, FILE), (2, SNAME)] {
        if overload & bit != 0 {
            collect_options(&bytes[range], &mut options);
        }
    }
    let mut joined: Vec<(u8, Vec<u8>)> = Vec::new();
    let mut is_split = false;
    for (code, value) in options {
        let Some((_, known)) = joined.iter_mut().find(|(known, _)| *known == code) else {
            joined.push((code, value.to_vec()));
            continue;
        };
        is_split = true;
        let most = fixed_length(code).unwrap_or(MAX_JOINED);
        known.extend(value.iter().take(most.saturating_sub(known.len())));
    }
    if !is_split {
        return whole;
    }
    let mut message = bytes[..FIXED_LEN].to_vec();
    for (code, value) in joined.into_iter().filter(|(code, _)| *code != option::OVERLOAD) {
        message.extend([code, value.len() as u8]);
        message.extend(value);
    }
    Cow::Owned(message)
}

/// The options of a part of a message, up to one that is truncated: it ends the part.
fn collect_options<'b>(mut rest: &'b [u8], options: &mut Vec<(u8, &'b [u8])>) {
    loop {
        match rest {
            [] | [option::END, ..] => return,
            [option::PAD, after @ ..] => rest = after,
            [code, length, after @ ..] if after.len() >= usize::from(*length) => {
                let (value, after) = after.split_at(usize::from(*length));
                options.push((*code, value));
                rest = after;
            }
            // With its stated length it is refused as before.
            [code, ..] => return options.push((*code, &[])),
        }
    }
}

/// The length of an option's value, if it is fixed.
fn fixed_length(code: u8) -> Option<usize> {
    match code {
        option::OVERLOAD | option::KIND => Some(1),
        option::MASK | option::REQUESTED | option::LEASE_TIME => Some(4),
        option::SERVER | option::RENEWAL | option::REBINDING => Some(4),
        _ => None,
    }
}

fn addresses(bytes: &[u8]) -> impl Iterator<Item = Ipv4Address> + '_ {
    bytes.chunks_exact(4).map(|four| Ipv4Address::new(four[0], four[1], four[2], four[3]))
}

/// Options that concern the message as a whole.
#[derive(Default)]
struct Seen {
    kind: Option<Kind>,
    overload: Option<u8>,
}

struct Writer<'b> {
    buf: &'b mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put(&mut self, code: u8, value: &[u8]) {
        let end = self.at + 2 + value.len();
        (self.buf[self.at], self.buf[self.at + 1]) = (code, value.len() as u8);
        self.buf[self.at + 2..end].copy_from_slice(value);
        self.at = end;
    }
}

fn first<T>(slot: &mut Option<T>, value: T) {
    slot.get_or_insert(value);
}

/// The first four bytes as a number.
fn word(bytes: &[u8]) -> u32 {
    u32::from_be_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MAC: MacAddress = MacAddress([2, 0, 0, 0, 0x10, 1]);

    fn offer(options: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; FIXED_LEN];
        bytes[..8].copy_from_slice(&[2, 1, 6, 0, 0xde, 0xad, 0xbe, 0xef]);
        bytes[16..20].copy_from_slice(&[192, 0, 2, 9]);
        bytes[28..34].copy_from_slice(&MAC.0);
        bytes[236..240].copy_from_slice(&COOKIE);
        bytes.extend(options);
        bytes
    }

    #[test]
    fn an_offer_is_read() {
        let options = [
            &[53, 1, 2, 0, 54, 4, 192, 0, 2, 1, 51, 4, 0, 0, 14, 16, 1, 4, 255, 255, 255, 0][..],
            &[3, 8, 192, 0, 2, 1, 192, 0, 2, 2, 6, 8, 8, 8, 8, 8, 9, 9, 9, 9, 99, 2, 1, 2, 255, 7],
        ]
        .concat();
        let bytes = offer(&options);
        let read = Message::parse(&bytes).unwrap();
        let ip = Ipv4Address::new;
        assert_eq!((read.kind, read.transaction, read.mac), (Kind::Offer, 0xdead_beef, MAC));
        assert_eq!((read.yours, read.server), (ip(192, 0, 2, 9), Some(ip(192, 0, 2, 1))));
        assert_eq!(read.mask, Some(ip(255, 255, 255, 0)));
        assert_eq!(read.routers().collect::<Vec<_>>(), [ip(192, 0, 2, 1), ip(192, 0, 2, 2)]);
        assert_eq!((read.lease_time, read.renewal_time), (Some(3600), None));
        assert_eq!(read.name_servers().collect::<Vec<_>>(), [ip(8, 8, 8, 8), ip(9, 9, 9, 9)]);
    }

    #[test]
    fn options_may_stand_in_the_fields_for_names() {
        let mut bytes = offer(&[52, 1, 3, 53, 1, 5, 255]);
        bytes[108..115].copy_from_slice(&[1, 4, 255, 0, 0, 0, 255]);
        bytes[44..51].copy_from_slice(&[54, 4, 192, 0, 2, 1, 255]);
        let read = Message::parse(&bytes).unwrap();
        assert_eq!((read.kind, read.mask), (Kind::Ack, Some(Ipv4Address::new(255, 0, 0, 0))));
        assert_eq!(read.server, Some(Ipv4Address::new(192, 0, 2, 1)));
    }

    #[test]
    fn the_parts_of_an_option_are_joined() {
        let ip = Ipv4Address::new;
        let read = |bytes: &[u8]| {
            let joined = join(bytes);
            let message = Message::parse(&joined).unwrap();
            (message.kind, message.mask, message.routers().collect::<Vec<_>>(), message.name_servers().count())
        };
        // Split in the middle of an address, of a mask, and into the fields for names.
        let options =
            [53, 1, 2, 3, 6, 192, 0, 2, 1, 192, 0, 1, 2, 255, 255, 6, 4, 8, 8, 8, 8, 3, 2, 2, 2, 1, 2, 255, 0];
        let mut bytes = offer(&[&options[..], &[52, 1, 3, 255]].concat());
        bytes[108..117].copy_from_slice(&[6, 4, 9, 9, 9, 9, 3, 0, 255]);
        bytes[44..51].copy_from_slice(&[3, 4, 192, 0, 2, 3, 255]);
        let routers = vec![ip(192, 0, 2, 1), ip(192, 0, 2, 2), ip(192, 0, 2, 3)];
        assert_eq!(read(&bytes), (Kind::Offer, Some(ip(255, 255, 255, 0)), routers, 2));
        // A complete option of fixed length is not made longer.
        let twice = offer(&[53, 1, 2, 1, 4, 255, 0, 0, 0, 1, 4, 255, 255, 0, 0, 53, 1, 5]);
        assert_eq!(read(&twice), (Kind::Offer, Some(ip(255, 0, 0, 0)), Vec::new(), 0));
        // As many addresses as fit one option.
        let list = [&[3, 200][..], &[7; 200], &[3, 200], &[8; 200]].concat();
        assert_eq!(read(&offer(&[&[53, 1, 2][..], &list].concat())).2.len(), 63);
        // A truncated option is refused as before.
        let short = offer(&[53, 1, 2, 6, 4, 1, 2, 3, 4, 6, 4, 1, 2, 3, 4, 1, 9, 255]);
        assert_eq!(Message::parse(&join(&short)).unwrap_err(), ParseError::Option(1));
    }

    #[test]
    fn each_fault_has_its_own_error() {
        let with = |at: usize, value: u8| {
            let mut bytes = offer(&[53, 1, 2]);
            bytes[at] = value;
            Message::parse(&bytes).map(|_| ()).unwrap_err()
        };
        assert_eq!(with(0, 3), ParseError::Operation(3));
        assert_eq!(with(0, 1), ParseError::Direction(Kind::Offer));
        assert_eq!(with(2, 8), ParseError::Hardware { kind: 1, length: 8 });
        assert_eq!(with(238, 0), ParseError::Cookie);
        assert_eq!(with(241, 2), ParseError::Option(53));
        assert_eq!(with(242, 9), ParseError::Option(53));
        assert_eq!(Message::parse(&offer(&[])).unwrap_err(), ParseError::Kind);
        assert_eq!(Message::parse(&offer(&[53, 1, 2, 1])).unwrap_err(), ParseError::Option(1));
        assert_eq!(Message::parse(&offer(&[53, 1, 2, 6, 0])).unwrap_err(), ParseError::Option(6));
        assert_eq!(Message::parse(&offer(&[53, 1, 2, 3, 5, 1, 2, 3, 4, 5])).unwrap_err(), ParseError::Option(3));
        assert_eq!(Message::parse(&[2; 239]).unwrap_err(), ParseError::Truncated { available: 239 });
    }

    prop_compose! {
        fn options()(
            kind in 0..8usize, numbers in prop::array::uniform8(any::<Option<u32>>()),
            texts in prop::array::uniform2(prop::collection::vec(any::<u8>(), 0..MAX_HOST_NAME)),
            lists in prop::array::uniform2(prop::collection::vec(any::<[u8; 4]>(), 0..MAX_NAME_SERVERS)),
        ) -> (usize, [Option<u32>; 8], [Vec<u8>; 2], [Vec<u8>; 2]) {
            (kind, numbers, texts, lists.map(|list| list.concat()))
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read((kind, numbers, texts, servers) in options(),
            fixed in any::<(u32, u16, bool, u32, u32)>()) {
            let [servers, routers] = servers;
            let address = |at: usize| numbers[at].map(Ipv4Address::from);
            let message = Message {
                seconds: fixed.1,
                broadcast: fixed.2,
                client: fixed.3.into(),
                yours: fixed.4.into(),
                requested: address(0),
                server: address(1),
                lease_time: numbers[2],
                renewal_time: numbers[3],
                rebinding_time: numbers[4],
                mask: address(5),
                router_bytes: &routers,
                name_server_bytes: &servers,
                host_name: &texts[0],
                message: &texts[1],
                ..Message::new(KINDS[kind], fixed.0, MAC)
            };
            let mut buf = [0xee; MAX_LEN];
            let length = message.emit(&mut buf);
            prop_assert_eq!(Message::parse(&buf[..length]), Ok(message));
            prop_assert!(matches!(join(&buf[..length]), Cow::Borrowed(_)), "nothing is split");
        }

        #[test]
        fn no_bytes_make_it_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..600), is_likely in any::<bool>()) {
            if is_likely && bytes.len() > FIXED_LEN {
                bytes[..3].copy_from_slice(&[2, 1, 6]);
                bytes[236..240].copy_from_slice(&COOKIE);
            }
            let _ = Message::parse(&bytes);
            let joined = join(&bytes);
            let _ = Message::parse(&joined);
            prop_assert!(joined.len() <= bytes.len().max(FIXED_LEN) + FILE.len() + SNAME.len());
        }
    }
}
