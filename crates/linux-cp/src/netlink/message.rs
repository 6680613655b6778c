//! Messages and attributes of netlink, read in place (netlink(7), linux/netlink.h).

/// Types of messages that are about the conversation itself.
pub const ERROR: u16 = 2;
pub const DONE: u16 = 3;
/// Of every message of an answer that has several.
pub const FLAG_DUMP_INTERRUPTED: u16 = 0x10;
/// Of a message about something new: it takes the place of what was there, or joins behind it.
pub const FLAG_REPLACE: u16 = 0x100;
pub const FLAG_APPEND: u16 = 0x800;

const HEADER: usize = 16;
const ATTRIBUTE_HEADER: usize = 4;
/// The two upper bits of an attribute's type say how it is written.
const TYPE_MASK: u16 = 0x3fff;

/// Bytes that are no message of the kind that they claim to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Malformed;

/// One message of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Message<'a> {
    pub kind: u16,
    pub flags: u16,
    pub sequence: u32,
    /// Who asked, for it or for the change that it is about.
    pub port: u32,
    pub payload: &'a [u8],
}

/// The messages of a datagram, up to the first that is malformed.
pub struct Messages<'a>(pub &'a [u8]);

impl<'a> Iterator for Messages<'a> {
    type Item = Result<Message<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let message = split(self.0);
        self.0 = message.map_or(&[], |(_, rest)| rest);
        Some(message.map(|(message, _)| message).ok_or(Malformed))
    }
}

fn split(bytes: &[u8]) -> Option<(Message<'_>, &[u8])> {
    let length = u32_at(bytes, 0)? as usize;
    let payload = bytes.get(HEADER..length)?;
    let (kind, flags) = (u16_at(bytes, 4)?, u16_at(bytes, 6)?);
    let message = Message { kind, flags, sequence: u32_at(bytes, 8)?, port: u32_at(bytes, 12)?, payload };
    // The last one need not be padded.
    Some((message, bytes.get(length.next_multiple_of(4)..).unwrap_or(&[])))
}

/// Attributes, each a type and a value, up to the first that is malformed.
#[derive(Clone)]
pub struct Attributes<'a>(pub &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = Result<(u16, &'a [u8]), Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let attribute = split_attribute(self.0);
        self.0 = attribute.map_or(&[], |(.., rest)| rest);
        Some(attribute.map(|(kind, value, _)| (kind, value)).ok_or(Malformed))
    }
}

fn split_attribute(bytes: &[u8]) -> Option<(u16, &[u8], &[u8])> {
    let length = usize::from(u16_at(bytes, 0)?);
    let value = bytes.get(ATTRIBUTE_HEADER..length)?;
    Some((u16_at(bytes, 2)? & TYPE_MASK, value, bytes.get(length.next_multiple_of(4)..).unwrap_or(&[])))
}

/// A number of this machine's byte order.
pub fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// The same, of four bytes.
pub fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The error that an answer reports; none: all is well.
pub fn error_of(message: &Message<'_>) -> Option<i32> {
    // `DONE` has a number only when the answer ended early.
    let code = u32_at(message.payload, 0).map_or(0, |code| code as i32);
    (code != 0).then_some(code.saturating_neg())
}

/// An attribute with its padding, for tests.
#[cfg(test)]
pub fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = (ATTRIBUTE_HEADER + value.len()) as u16;
    let padding = vec![0; value.len().next_multiple_of(4) - value.len()];
    [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value, &padding].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: u16, payload: &[u8]) -> Vec<u8> {
        let length = (HEADER + payload.len()) as u32;
        let head = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &[0, 2], &7u32.to_ne_bytes(), &[0; 4]].concat();
        [head, payload.to_vec(), vec![0; payload.len().next_multiple_of(4) - payload.len()]].concat()
    }

    #[test]
    fn messages_end_at_the_first_that_is_malformed() {
        let mut bytes = [message(24, &[1, 2, 3]), message(25, &[])].concat();
        let kinds = |bytes: &[u8]| Messages(bytes).map(|one| one.map(|one| one.kind)).collect::<Vec<_>>();
        assert_eq!(kinds(&bytes), [Ok(24), Ok(25)]);
        assert_eq!(Messages(&bytes).next().unwrap().unwrap().payload, [1, 2, 3]);
        bytes[20] = 0xff;
        assert_eq!(kinds(&bytes), [Ok(24), Err(Malformed)]);
        // Shorter than its own header.
        bytes[20] = 3;
        assert_eq!(kinds(&bytes), [Ok(24), Err(Malformed)]);
        assert_eq!(kinds(&bytes[..10]), [Err(Malformed)]);
        assert_eq!(kinds(&[]), []);
    }

    #[test]
    fn attributes_end_at_the_first_that_is_malformed() {
        let bytes = [&6u16.to_ne_bytes()[..], &0x8001u16.to_ne_bytes(), &[9, 8, 0, 0], &3u16.to_ne_bytes(), &[0, 0]];
        let all: Vec<_> = Attributes(&bytes.concat()).map(|one| one.map(|(kind, value)| (kind, value.len()))).collect();
        assert_eq!(all, [Ok((1, 2)), Err(Malformed)]);
    }
}
