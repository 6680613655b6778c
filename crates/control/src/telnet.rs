//! The little of telnet (RFC 854, 855) that a CLI socket needs: terminal type (RFC 1091)
//! and window size (RFC 1073), decoded from a byte stream that may be cut anywhere.
//!
//! `vppctl` does not negotiate: it answers every `SB` request for its terminal type or
//! window size at once, ignores WILL/WONT/DO/DONT, and does not double an 0xff inside a
//! window size. It looks at 100 bytes at a time, so a sequence must not lie across such a
//! border: the greeting is the first thing sent and shorter than that.

/// "Interpret as command": the byte that begins every telnet sequence.
pub(crate) const IAC: u8 = 255;
const DONT: u8 = 254;
const DO: u8 = 253;
const WILL: u8 = 251;
const SUBNEGOTIATION: u8 = 250;
const ARE_YOU_THERE: u8 = 246;
const SUBNEGOTIATION_END: u8 = 240;

const OPTION_ECHO: u8 = 1;
const OPTION_SUPPRESS_GO_AHEAD: u8 = 3;
const OPTION_TERMINAL_TYPE: u8 = 24;
const OPTION_WINDOW_SIZE: u8 = 31;

/// RFC 1091: the sender has a terminal type to tell; asks for one.
const TERMINAL_TYPE_IS: u8 = 0;
const TERMINAL_TYPE_SEND: u8 = 1;

/// Longest subnegotiation that is kept; of longer ones the bytes are read and dropped.
const MAXIMUM_SUBNEGOTIATION: usize = 256;

/// What a server sends first: it echoes, needs no go-ahead, and wants to know the
/// client's terminal type and window size.
pub(crate) const GREETING: [u8; 30] = [
    IAC,
    WILL,
    OPTION_SUPPRESS_GO_AHEAD,
    IAC,
    DO,
    OPTION_SUPPRESS_GO_AHEAD,
    IAC,
    WILL,
    OPTION_ECHO,
    IAC,
    DONT,
    OPTION_ECHO,
    IAC,
    DO,
    OPTION_TERMINAL_TYPE,
    IAC,
    SUBNEGOTIATION,
    OPTION_TERMINAL_TYPE,
    TERMINAL_TYPE_SEND,
    IAC,
    SUBNEGOTIATION_END,
    IAC,
    DO,
    OPTION_WINDOW_SIZE,
    IAC,
    SUBNEGOTIATION,
    OPTION_WINDOW_SIZE,
    TERMINAL_TYPE_SEND,
    IAC,
    SUBNEGOTIATION_END,
];

/// A client's answer to the request for its terminal type.
pub(crate) fn terminal_type(name: &str) -> Vec<u8> {
    let mut bytes = vec![IAC, SUBNEGOTIATION, OPTION_TERMINAL_TYPE, TERMINAL_TYPE_IS];
    bytes.extend(name.bytes());
    bytes.extend([IAC, SUBNEGOTIATION_END]);
    bytes
}

/// A client's word on its window, every 0xff doubled as RFC 855 wants.
pub(crate) fn window_size_told(width: u16, height: u16) -> Vec<u8> {
    let mut bytes = vec![IAC, SUBNEGOTIATION, OPTION_WINDOW_SIZE];
    for byte in [width.to_be_bytes(), height.to_be_bytes()].concat() {
        bytes.extend(std::iter::repeat_n(byte, 1 + usize::from(byte == IAC)));
    }
    bytes.extend([IAC, SUBNEGOTIATION_END]);
    bytes
}

/// What the stream held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Byte(u8),
    TerminalType(String),
    TerminalTypeRequested,
    WindowSize { width: u16, height: u16 },
    AreYouThere,
}

enum State {
    Data,
    /// After IAC.
    Command,
    /// After WILL, WONT, DO or DONT: the option follows.
    Option,
    Subnegotiation,
    /// After IAC inside a subnegotiation.
    SubnegotiationCommand,
}

/// Separates data from telnet sequences.
pub(crate) struct Decoder {
    state: State,
    /// The option and its bytes as they came, doubled 0xff included.
    subnegotiation: Vec<u8>,
}

impl Decoder {
    pub fn new() -> Self {
        Self { state: State::Data, subnegotiation: Vec::new() }
    }

    /// Takes one byte and returns what it completes.
    pub fn push(&mut self, byte: u8) -> Option<Event> {
        match (&self.state, byte) {
            (State::Data, IAC) => self.state = State::Command,
            (State::Data, _) => return Some(Event::Byte(byte)),
            (State::Command, SUBNEGOTIATION) => {
                self.subnegotiation.clear();
                self.state = State::Subnegotiation;
            }
            (State::Command, WILL..=DONT) => self.state = State::Option,
            (State::Command, ARE_YOU_THERE) => {
                self.state = State::Data;
                return Some(Event::AreYouThere);
            }
            // One-byte commands; a doubled IAC is the data byte 0xff, which no text holds.
            (State::Command | State::Option, _) => self.state = State::Data,
            (State::Subnegotiation, _) => {
                if byte == IAC {
                    self.state = State::SubnegotiationCommand;
                }
                self.keep(byte);
            }
            (State::SubnegotiationCommand, SUBNEGOTIATION_END) => {
                self.state = State::Data;
                self.subnegotiation.pop();
                return self.subnegotiated();
            }
            (State::SubnegotiationCommand, _) => {
                // An IAC may follow that ends it: see `subnegotiated` for doubled ones.
                if byte != IAC {
                    self.state = State::Subnegotiation;
                }
                self.keep(byte);
            }
        }
        None
    }

    fn keep(&mut self, byte: u8) {
        // One more than the bound marks a subnegotiation that was too long.
        if self.subnegotiation.len() <= MAXIMUM_SUBNEGOTIATION {
            self.subnegotiation.push(byte);
        }
    }

    fn subnegotiated(&self) -> Option<Event> {
        if self.subnegotiation.len() >= MAXIMUM_SUBNEGOTIATION {
            return None;
        }
        match self.subnegotiation.split_first()? {
            (&OPTION_TERMINAL_TYPE, [TERMINAL_TYPE_SEND]) => Some(Event::TerminalTypeRequested),
            (&OPTION_TERMINAL_TYPE, [TERMINAL_TYPE_IS, name @ ..]) => {
                Some(Event::TerminalType(String::from_utf8_lossy(name).into_owned()))
            }
            (&OPTION_WINDOW_SIZE, size) => window_size(size),
            _ => None,
        }
    }
}

/// Four bytes as they are, or more than four when every 0xff was doubled as RFC 855 wants.
fn window_size(size: &[u8]) -> Option<Event> {
    let mut bytes = Vec::with_capacity(4);
    let mut rest = size;
    while let [first, others @ ..] = rest {
        bytes.push(*first);
        rest = match others {
            [IAC, others @ ..] if *first == IAC && size.len() > 4 => others,
            _ => others,
        };
    }
    let [width_high, width_low, height_high, height_low] = bytes[..] else {
        return None;
    };
    Some(Event::WindowSize {
        width: u16::from_be_bytes([width_high, width_low]),
        height: u16::from_be_bytes([height_high, height_low]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn events(bytes: &[u8]) -> Vec<Event> {
        let mut decoder = Decoder::new();
        bytes.iter().filter_map(|byte| decoder.push(*byte)).collect()
    }

    #[test]
    fn the_greeting_fits_one_read_of_vppctl_and_asks_for_the_terminal() {
        const VPPCTL_READ: usize = 100;
        assert!(GREETING.len() < VPPCTL_READ);
        assert_eq!(events(&GREETING), [Event::TerminalTypeRequested]);
    }

    #[test]
    fn a_terminal_type_is_told() {
        let bytes = [255, 250, 24, 0, b'x', b't', b'e', b'r', b'm', 255, 240, b'a'];
        assert_eq!(events(&bytes), [Event::TerminalType("xterm".into()), Event::Byte(b'a')]);
        assert_eq!(events(&terminal_type("xterm")), events(&bytes[..11]));
    }

    #[test]
    fn window_sizes_with_0xff_are_read_doubled_or_not() {
        let size = |width, height| vec![Event::WindowSize { width, height }];
        assert_eq!(events(&[255, 250, 31, 0, 80, 0, 24, 255, 240]), size(80, 24));
        // As vppctl sends 255 columns, and 255 rows, and as RFC 855 wants them.
        assert_eq!(events(&[255, 250, 31, 0, 255, 0, 24, 255, 240]), size(255, 24));
        assert_eq!(events(&[255, 250, 31, 0, 80, 0, 255, 255, 240]), size(80, 255));
        assert_eq!(events(&[255, 250, 31, 0, 255, 255, 0, 255, 255, 255, 240]), size(255, 255));
        assert_eq!(events(&[255, 250, 31, 0, 80, 0, 255, 240]), []);
        assert_eq!(window_size_told(255, 24), [255, 250, 31, 0, 255, 255, 0, 24, 255, 240]);
        for (width, height) in [(80, 24), (255, 255), (511, 0)] {
            assert_eq!(events(&window_size_told(width, height)), size(width, height));
        }
    }

    #[test]
    fn a_subnegotiation_beyond_the_bound_is_dropped_whole() {
        let mut bytes = vec![255, 250, 24, 0];
        bytes.extend([b'x'; 5000]);
        bytes.extend([255, 240, b'a']);
        assert_eq!(events(&bytes), [Event::Byte(b'a')]);
    }

    #[test]
    fn negotiation_and_unknown_commands_are_skipped() {
        assert_eq!(events(&[255, 253, 1, 255, 241, 255, 255, 255, 246, b'a']), [Event::AreYouThere, Event::Byte(b'a')]);
    }
}
