//! The messages that both ends of a memif exchange over a socket before packets flow: 128 bytes each, version 2.0 of
//! the protocol.
//!
//! The peer is not trusted: numbers are bounded where they are used, and control characters are removed from text.
#![forbid(unsafe_code)]

use std::fmt;

/// Bytes of any message.
pub const LENGTH: usize = 128;
/// The version of the protocol: 2.0.
pub const VERSION: u16 = 0x0200;
/// Bytes of names, with the zero that ends them.
const NAME: usize = 32;
/// Bytes of a secret.
pub const SECRET: usize = 24;
/// Bytes of the reason for a disconnect, with the zero that ends it.
const REASON: usize = 96;

/// The master's first message: what it supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    pub name: String,
    pub least_version: u16,
    pub greatest_version: u16,
    /// Highest numbers of a region and of rings that it supports.
    pub last_region: u16,
    pub last_m2s_ring: u16,
    pub last_s2m_ring: u16,
    pub log2_ring_size: u8,
}

/// The slave's first message: the interface that it wants to connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Init {
    pub version: u16,
    pub id: u32,
    pub mode: Mode,
    pub secret: [u8; SECRET],
    pub name: String,
}

/// What the packets of an interface begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    Ethernet,
    Ip,
    /// Punted packets, or an unknown mode.
    Other(u8),
}

impl Mode {
    fn number(self) -> u8 {
        match self {
            Mode::Ethernet => 0,
            Mode::Ip => 1,
            Mode::Other(number) => number,
        }
    }

    fn of_number(number: u8) -> Mode {
        match number {
            0 => Mode::Ethernet,
            1 => Mode::Ip,
            other => Mode::Other(other),
        }
    }
}

/// A region of the slave's memory, whose descriptor comes with the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddRegion {
    pub index: u16,
    pub size: u64,
}

/// A ring in such memory. The descriptor that comes with it wakes the side that receives by the ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddRing {
    /// From slave to master; else from master to slave.
    pub to_master: bool,
    pub index: u16,
    pub region: u16,
    pub offset: u32,
    pub log2_ring_size: u8,
    pub private_header: u16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    Ack,
    Hello(Hello),
    Init(Init),
    AddRegion(AddRegion),
    AddRing(AddRing),
    /// The slave is ready; with its name of the interface.
    Connect(String),
    /// The master is ready; with its name of the interface.
    Connected(String),
    Disconnect {
        code: u32,
        reason: String,
    },
}

/// Why bytes are no valid message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Nonsense {
    Length(usize),
    Kind(u16),
}

impl fmt::Display for Nonsense {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Nonsense::Length(length) => write!(f, "message of {length} bytes: expected {LENGTH}"),
            Nonsense::Kind(kind) => write!(f, "message of unknown type {kind}"),
        }
    }
}

const S2M: u16 = 1;

impl Message {
    pub fn to_bytes(&self) -> [u8; LENGTH] {
        let mut writer = Writer { bytes: [0; LENGTH], at: 0 };
        let w = &mut writer;
        match self {
            Message::Ack => w.put(&1u16.to_ne_bytes()),
            Message::Hello(hello) => {
                w.put(&2u16.to_ne_bytes());
                w.text(&hello.name, NAME);
                for value in [
                    hello.least_version,
                    hello.greatest_version,
                    hello.last_region,
                    hello.last_m2s_ring,
                    hello.last_s2m_ring,
                ] {
                    w.put(&value.to_ne_bytes());
                }
                w.put(&[hello.log2_ring_size]);
            }
            Message::Init(init) => {
                w.put(&3u16.to_ne_bytes());
                w.put(&init.version.to_ne_bytes());
                w.put(&init.id.to_ne_bytes());
                w.put(&[init.mode.number()]);
                w.put(&init.secret);
                w.text(&init.name, NAME);
            }
            Message::AddRegion(region) => {
                w.put(&4u16.to_ne_bytes());
                w.put(&region.index.to_ne_bytes());
                w.put(&region.size.to_ne_bytes());
            }
            Message::AddRing(ring) => {
                w.put(&5u16.to_ne_bytes());
                let flags = if ring.to_master { S2M } else { 0 };
                w.put(&flags.to_ne_bytes());
                w.put(&ring.index.to_ne_bytes());
                w.put(&ring.region.to_ne_bytes());
                w.put(&ring.offset.to_ne_bytes());
                w.put(&[ring.log2_ring_size]);
                w.put(&ring.private_header.to_ne_bytes());
            }
            Message::Connect(name) => {
                w.put(&6u16.to_ne_bytes());
                w.text(name, NAME);
            }
            Message::Connected(name) => {
                w.put(&7u16.to_ne_bytes());
                w.text(name, NAME);
            }
            Message::Disconnect { code, reason } => {
                w.put(&8u16.to_ne_bytes());
                w.put(&code.to_ne_bytes());
                w.text(reason, REASON);
            }
        }
        writer.bytes
    }

    /// # Errors
    /// When the bytes are no valid message.
    pub fn parse(bytes: &[u8]) -> Result<Message, Nonsense> {
        let bytes: &[u8; LENGTH] = bytes.try_into().map_err(|_| Nonsense::Length(bytes.len()))?;
        let mut reader = Reader { bytes, at: 0 };
        let r = &mut reader;
        Ok(match u16::from_ne_bytes(r.take()) {
            1 => Message::Ack,
            2 => Message::Hello(Hello {
                name: r.text(NAME),
                least_version: u16::from_ne_bytes(r.take()),
                greatest_version: u16::from_ne_bytes(r.take()),
                last_region: u16::from_ne_bytes(r.take()),
                last_m2s_ring: u16::from_ne_bytes(r.take()),
                last_s2m_ring: u16::from_ne_bytes(r.take()),
                log2_ring_size: r.take::<1>()[0],
            }),
            3 => Message::Init(Init {
                version: u16::from_ne_bytes(r.take()),
                id: u32::from_ne_bytes(r.take()),
                mode: Mode::of_number(r.take::<1>()[0]),
                secret: r.take(),
                name: r.text(NAME),
            }),
            4 => Message::AddRegion(AddRegion {
                index: u16::from_ne_bytes(r.take()),
                size: u64::from_ne_bytes(r.take()),
            }),
            5 => Message::AddRing(AddRing {
                to_master: u16::from_ne_bytes(r.take()) & S2M != 0,
                index: u16::from_ne_bytes(r.take()),
                region: u16::from_ne_bytes(r.take()),
                offset: u32::from_ne_bytes(r.take()),
                log2_ring_size: r.take::<1>()[0],
                private_header: u16::from_ne_bytes(r.take()),
            }),
            6 => Message::Connect(r.text(NAME)),
            7 => Message::Connected(r.text(NAME)),
            8 => Message::Disconnect { code: u32::from_ne_bytes(r.take()), reason: r.text(REASON) },
            kind => return Err(Nonsense::Kind(kind)),
        })
    }
}

/// Fields one after the other, as packed structures have them.
struct Writer {
    bytes: [u8; LENGTH],
    at: usize,
}

impl Writer {
    fn put(&mut self, field: &[u8]) {
        self.bytes[self.at..][..field.len()].copy_from_slice(field);
        self.at += field.len();
    }

    /// As much of a text as fits `room` with its terminating zero.
    fn text(&mut self, text: &str, room: usize) {
        let most = (0..room).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
        let text = &text[..most.min(text.len())];
        self.bytes[self.at..][..text.len()].copy_from_slice(text.as_bytes());
        self.at += room;
    }
}

struct Reader<'a> {
    bytes: &'a [u8; LENGTH],
    at: usize,
}

impl Reader<'_> {
    /// All messages are shorter than [`LENGTH`].
    fn take<const N: usize>(&mut self) -> [u8; N] {
        self.at += N;
        std::array::from_fn(|i| self.bytes[self.at - N + i])
    }

    fn text(&mut self, room: usize) -> String {
        let field = &self.bytes[self.at..self.at + room];
        self.at += room;
        let end = field.iter().position(|byte| *byte == 0).unwrap_or(room);
        let shown = |letter: char| if letter.is_control() { char::REPLACEMENT_CHARACTER } else { letter };
        String::from_utf8_lossy(&field[..end]).chars().map(shown).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fields_are_where_peers_have_them() {
        let init = Init { version: VERSION, id: 0x01020304, mode: Mode::Ip, secret: [b's'; SECRET], name: "me".into() };
        let bytes = Message::Init(init).to_bytes();
        assert_eq!(bytes[..9], [3, 0, 0, 2, 4, 3, 2, 1, 1]);
        assert_eq!((bytes[32], &bytes[33..36], bytes[64]), (b's', &b"me\0"[..], 0));
        let hello = Hello {
            name: "you".into(),
            least_version: 0x200,
            greatest_version: 0x201,
            last_region: 1,
            last_m2s_ring: 2,
            last_s2m_ring: 3,
            log2_ring_size: 14,
        };
        let bytes = Message::Hello(hello).to_bytes();
        assert_eq!((&bytes[..6], &bytes[34..45]), (&b"\x02\0you\0"[..], &[0, 2, 1, 2, 1, 0, 2, 0, 3, 0, 14][..]));
        let ring =
            AddRing { to_master: true, index: 1, region: 2, offset: 0x100, log2_ring_size: 10, private_header: 5 };
        assert_eq!(Message::AddRing(ring).to_bytes()[..15], [5, 0, 1, 0, 1, 0, 2, 0, 0, 1, 0, 0, 10, 5, 0]);
        let region = AddRegion { index: 1, size: 0x1234 };
        assert_eq!(Message::AddRegion(region).to_bytes()[..12], [4, 0, 1, 0, 0x34, 0x12, 0, 0, 0, 0, 0, 0]);
        let bye = Message::Disconnect { code: 7, reason: "x".repeat(200) }.to_bytes();
        assert_eq!((&bye[..6], bye[6 + 94], bye[6 + 95]), (&[8, 0, 7, 0, 0, 0][..], b'x', 0));
    }

    #[test]
    fn what_is_no_message_is_refused_and_text_cannot_move_the_cursor() {
        assert_eq!(Message::parse(&[0; 127]), Err(Nonsense::Length(127)));
        assert_eq!(Message::parse(&[0; 128]), Err(Nonsense::Kind(0)));
        let mut bytes = Message::Connect("\u{1b}[2Jname".into()).to_bytes();
        bytes[2 + 8] = 0xff;
        assert_eq!(Message::parse(&bytes), Ok(Message::Connect("\u{fffd}[2Jname\u{fffd}".into())));
        // Names that fill their field have no zero.
        bytes[2..34].fill(b'n');
        assert_eq!(Message::parse(&bytes), Ok(Message::Connect("n".repeat(32))));
    }

    proptest! {
        #[test]
        fn what_is_understood_is_said_the_same(mut bytes in prop::collection::vec(any::<u8>(), LENGTH),
            kind in 0..10u8) {
            bytes[..2].copy_from_slice(&[kind, 0]);
            if let Ok(message) = Message::parse(&bytes) {
                let again = Message::parse(&message.to_bytes()).unwrap();
                prop_assert_eq!(again.to_bytes(), message.to_bytes());
            }
        }
    }
}
