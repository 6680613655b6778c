//! MPLS label stacks (RFC 3032), and what ICMP errors tell of them (RFC 4884, RFC 4950).

use crate::checksum;
use std::fmt;
use std::net::IpAddr;

/// Bytes of an entry of a label stack.
pub const ENTRY_LEN: usize = 4;
/// Labels have 20 bits.
pub const MAX_LABEL: u32 = (1 << 20) - 1;
/// Labels below this mean something of their own (RFC 3032 2.1, RFC 7274).
pub const FIRST_UNRESERVED: u32 = 16;
/// At the bottom of a stack: what follows is an IPv4 packet.
pub const IPV4_EXPLICIT_NULL: u32 = 0;
/// Any router on the way is to look at the packet. Not at the bottom.
pub const ROUTER_ALERT: u32 = 1;
/// At the bottom of a stack: what follows is an IPv6 packet.
pub const IPV6_EXPLICIT_NULL: u32 = 2;
/// Said instead of a label: take the top one off. Never in a packet.
pub const IMPLICIT_NULL: u32 = 3;
/// The next label is one of entropy, and not to be looked up (RFC 6790).
pub const ENTROPY_INDICATOR: u32 = 7;

/// An entry of a label stack: label (20 bits), traffic class (3, RFC 5462), bottom of the stack (1), time to live (8).
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct StackEntry(pub u32);

impl StackEntry {
    /// # Panics
    /// When label or traffic class do not fit.
    #[inline]
    pub const fn new(label: u32, traffic_class: u8, is_bottom: bool, ttl: u8) -> StackEntry {
        assert!(label <= MAX_LABEL && traffic_class < 8);
        StackEntry(label << 12 | (traffic_class as u32) << 9 | (is_bottom as u32) << 8 | ttl as u32)
    }

    #[inline]
    pub const fn from_bytes(bytes: [u8; ENTRY_LEN]) -> StackEntry {
        StackEntry(u32::from_be_bytes(bytes))
    }

    #[inline]
    pub const fn to_bytes(self) -> [u8; ENTRY_LEN] {
        self.0.to_be_bytes()
    }

    #[inline]
    pub const fn label(self) -> u32 {
        self.0 >> 12
    }

    #[inline]
    pub const fn traffic_class(self) -> u8 {
        (self.0 >> 9 & 7) as u8
    }

    /// Whether the payload follows, and no other entry.
    #[inline]
    pub const fn is_bottom(self) -> bool {
        self.0 >> 8 & 1 != 0
    }

    #[inline]
    pub const fn ttl(self) -> u8 {
        self.0 as u8
    }
}

impl fmt::Debug for StackEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StackEntry({self})")
    }
}

/// `label 16 exp 0 s 1 ttl 64`, as captures are printed.
impl fmt::Display for StackEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bottom = u8::from(self.is_bottom());
        write!(f, "label {} exp {} s {bottom} ttl {}", self.label(), self.traffic_class(), self.ttl())
    }
}

/// The entries of a stack, the top one first, up to that of the bottom; it ends before when the bytes do.
#[derive(Debug, Clone, Copy)]
pub struct Stack<'a> {
    bytes: &'a [u8],
    is_done: bool,
}

impl<'a> Stack<'a> {
    /// The stack that begins with these bytes.
    pub fn new(bytes: &'a [u8]) -> Stack<'a> {
        Stack { bytes, is_done: false }
    }

    /// What is behind the entries that were given.
    pub fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// What is behind the bottom, when there is one within so many entries.
    pub fn payload(mut self, most: usize) -> Option<&'a [u8]> {
        let has_bottom = self.by_ref().take(most).any(StackEntry::is_bottom);
        has_bottom.then_some(self.bytes)
    }
}

impl Iterator for Stack<'_> {
    type Item = StackEntry;

    fn next(&mut self) -> Option<StackEntry> {
        let (entry, rest) = self.bytes.split_first_chunk().filter(|_| !self.is_done)?;
        let entry = StackEntry::from_bytes(*entry);
        (self.bytes, self.is_done) = (rest, entry.is_bottom());
        Some(entry)
    }
}

/// Header of the extensions of an ICMP error (RFC 4884 7), then that of their one object (RFC 4884 8).
pub const EXTENSION_LEN: usize = 8;
const EXTENSION_VERSION: u8 = 2;
/// RFC 4950 3: the stack with which the packet came.
const CLASS_LABEL_STACK: u8 = 1;
const TYPE_INCOMING: u8 = 1;

/// Bytes of a packet that an ICMP error with extensions quotes, zeros behind those that there are (RFC 4884 4.6 and 5):
/// of IPv6 the length is counted in words of eight.
pub const QUOTED: usize = 128;

/// What the length field of an ICMP error with extensions says of [`QUOTED`] bytes.
pub const fn quoted_words(reported_by: IpAddr) -> u8 {
    match reported_by {
        IpAddr::V4(_) => (QUOTED / 4) as u8,
        IpAddr::V6(_) => (QUOTED / 8) as u8,
    }
}

/// Writes the extensions of an ICMP error that tell the label stack with which a packet came; how many bytes.
///
/// # Panics
/// When there is no room for [`EXTENSION_LEN`] bytes and all entries, or they are more than a length can say.
pub fn emit_extension(room: &mut [u8], stack: &[StackEntry]) -> usize {
    let length = EXTENSION_LEN + stack.len() * ENTRY_LEN;
    let room = &mut room[..length];
    let object = u16::try_from(length - EXTENSION_LEN / 2).expect("a stack fits a packet");
    room[..4].copy_from_slice(&[EXTENSION_VERSION << 4, 0, 0, 0]);
    room[4..6].copy_from_slice(&object.to_be_bytes());
    room[6..8].copy_from_slice(&[CLASS_LABEL_STACK, TYPE_INCOMING]);
    for (place, entry) in room[EXTENSION_LEN..].chunks_exact_mut(ENTRY_LEN).zip(stack) {
        place.copy_from_slice(&entry.to_bytes());
    }
    let sum = checksum::checksum(room);
    room[2..4].copy_from_slice(&sum.to_be_bytes());
    length
}

/// The label stack that extensions of an ICMP error tell, if they are whole and tell one.
pub fn parse_extension(bytes: &[u8]) -> Option<impl Iterator<Item = StackEntry> + '_> {
    let (header, mut objects) = bytes.split_first_chunk::<4>()?;
    if header[0] >> 4 != EXTENSION_VERSION || checksum::checksum(bytes) != 0 {
        return None;
    }
    loop {
        let (&[high, low, class, kind], _) = objects.split_first_chunk::<4>()?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let object = objects.get(4..length)?;
        if (class, kind) == (CLASS_LABEL_STACK, TYPE_INCOMING) {
            return Some(object.as_chunks().0.iter().map(|entry| StackEntry::from_bytes(*entry)));
        }
        objects = &objects[length..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_its_fields_where_rfc_3032_has_them() {
        let entry = StackEntry::new(0xabcde, 5, true, 64);
        assert_eq!(entry.to_bytes(), [0xab, 0xcd, 0xeb, 0x40]);
        let read = StackEntry::from_bytes(entry.to_bytes());
        assert_eq!((read.label(), read.traffic_class(), read.is_bottom(), read.ttl()), (0xabcde, 5, true, 64));
        assert_eq!(StackEntry::new(16, 0, false, 255).to_string(), "label 16 exp 0 s 0 ttl 255");
        let all: Vec<bool> =
            [0xffff_f000, 0x0e00, 0x0100, 0xff].map(StackEntry).iter().map(|e| e.is_bottom()).collect();
        assert_eq!(all, [false, false, true, false]);
    }

    #[test]
    fn a_stack_ends_with_its_bottom_or_with_the_bytes() {
        let entries =
            [StackEntry::new(17, 0, false, 9), StackEntry::new(18, 1, true, 8), StackEntry::new(19, 0, true, 7)];
        let mut bytes: Vec<u8> = entries.iter().flat_map(|entry| entry.to_bytes()).collect();
        bytes.extend([0x45, 0]);
        let stack = Stack::new(&bytes);
        assert_eq!(stack.collect::<Vec<_>>(), entries[..2]);
        assert_eq!(stack.payload(2), Some(&bytes[8..]));
        assert_eq!(stack.payload(1), None, "two entries are more than one");
        // The bottom is missing, or half there.
        for length in 0..8 {
            let stack = Stack::new(&bytes[..length]);
            assert_eq!(stack.count(), length / 4);
            assert_eq!(stack.payload(usize::MAX), None);
        }
    }

    /// The example of RFC 4950 has no bytes; these were put together by its figures.
    #[test]
    fn an_icmp_error_tells_the_stack() {
        let stack = [StackEntry::new(100, 0, false, 1), StackEntry::new(200, 3, true, 1)];
        let mut room = [0xff; 20];
        assert_eq!(emit_extension(&mut room, &stack), 16);
        assert_eq!(room[..2], [0x20, 0]);
        assert_eq!(room[4..8], [0, 12, 1, 1]);
        assert_eq!(room[8..16], [0, 6, 0x40, 1, 0, 0x0c, 0x87, 1]);
        assert_eq!(room[16..], [0xff; 4]);
        assert_eq!(parse_extension(&room[..16]).unwrap().collect::<Vec<_>>(), stack);
        // Another object before it.
        let mut two = vec![0x20, 0, 0, 0, 0, 8, 2, 1, 1, 2, 3, 4];
        two.extend(&room[4..16]);
        let sum = checksum::checksum(&two);
        two[2..4].copy_from_slice(&sum.to_be_bytes());
        assert_eq!(parse_extension(&two).unwrap().collect::<Vec<_>>(), stack);
        // Broken ones tell nothing.
        for (at, byte) in [(0, 0x10), (2, room[2] ^ 1), (5, 200), (5, 3)] {
            let mut broken = room[..16].to_vec();
            broken[at] = byte;
            assert!(parse_extension(&broken).is_none(), "byte {at}");
        }
        for length in 0..16 {
            assert!(parse_extension(&room[..length]).is_none(), "{length} bytes");
        }
        // A length of 0 must not be followed for ever.
        let mut circle = vec![0x20, 0, 0, 0, 0, 0, 9, 9];
        let sum = checksum::checksum(&circle);
        circle[2..4].copy_from_slice(&sum.to_be_bytes());
        assert!(parse_extension(&circle).is_none());
        assert_eq!((quoted_words(IpAddr::from([0; 4])), quoted_words(IpAddr::from([0; 16]))), (32, 16));
    }
}
