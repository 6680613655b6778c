//! The tag by which the receiver recognises a packet: its last bytes hold its stream, its number, and when it was sent.
//!
//! ```text
//!  0        2        4        6        8        10               14
//! +--------+--------+--------+--------+--------+-----------------+
//! | magic  | number | compl. | stream | number | time            |
//! |        | (high) |        |        | (low)  |                 |
//! +--------+--------+--------+--------+--------+-----------------+
//! ```
//!
//! All fields are little endian, so that the next number is an addition. The time is in units of 16 ticks of the
//! sender's clock. The complement makes the one's complement sum of all seven words all ones, which is zero. So the tag
//! changes no checksum that covers it, wherever it stands (RFC 1071: the order of bytes does not matter to that sum).
//! The sum also distinguishes a tag from other bytes, and from a tag that was changed on the way. For a packet that
//! arrives in order, only the last eight bytes are compared: no number occurs twice within a unit of time.
//!
//! A packet that has no room for the tag has the small tag instead: 16 bits of the sequence number and their
//! complement. The stream is then in the IPv4 header's identification or the IPv6 header's flow label, and there is no
//! time.

/// Bytes of the tag, and of the small tag.
pub const LENGTH: usize = 14;
pub const SMALL: usize = 4;
/// Ticks of a unit of time, as a power of two.
pub const TIME_SHIFT: u32 = 4;
const MAGIC: u64 = 0x5156;
/// The bits of a flow label before the stream's number.
pub const FLOW_LABEL: u32 = 0x5_0000;

/// Ticks in the tag's units.
#[inline(always)]
pub fn stamp(ticks: u64) -> u32 {
    (ticks >> TIME_SHIFT) as u32
}

/// The last eight bytes of a tag: they identify a packet as the next one in order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Mark(u64);

/// Bytes of a mark.
pub const MARK: usize = 8;
const NUMBER: u64 = 0xffff << 16;

impl Mark {
    #[inline(always)]
    pub fn new(stream: u16, sequence: u32, stamp: u32) -> Mark {
        Mark(u64::from(stamp) << 32 | u64::from(sequence & 0xffff) << 16 | u64::from(stream))
    }

    #[inline(always)]
    pub fn read(at: &[u8; MARK]) -> Mark {
        Mark(u64::from_le_bytes(*at))
    }

    #[inline(always)]
    pub fn stream(self) -> u16 {
        self.0 as u16
    }

    /// The mark of the next packet, sent at the same time.
    #[inline(always)]
    pub fn next(self) -> Mark {
        Mark(self.0 & !NUMBER | (self.0 + (1 << 16)) & NUMBER)
    }

    /// The mark `n` packets further on. None: the lower half of the number wraps around on the way.
    #[inline(always)]
    pub fn ahead(self, n: u64) -> Option<Mark> {
        ((self.0 & NUMBER) >> 16 < 0x1_0000 - n).then(|| self.plus(n))
    }

    /// The same, for a caller that knows that the number does not wrap around.
    #[inline(always)]
    pub fn plus(self, n: u64) -> Mark {
        Mark(self.0 + (n << 16))
    }

    /// Zero when both are the same.
    #[inline(always)]
    pub fn differ(self, other: Mark) -> u64 {
        self.0 ^ other.0
    }
}

/// The words of one packet's tag, from which those of the next follow: its number is one more, its complement one less.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Words {
    /// The first eight bytes. The last two of them are the first two of the mark, too.
    head: u64,
    mark: Mark,
}

impl Words {
    #[inline(always)]
    pub fn new(stream: u16, sequence: u32, stamp: u32) -> Words {
        let words = u64::from(stream) << 48 | u64::from(sequence >> 16) << 16 | MAGIC;
        let mark = Mark::new(stream, sequence, stamp);
        Words { head: words | complement(words, mark) << 32, mark }
    }

    /// The words of the next packet, sent at the same time.
    #[inline(always)]
    pub fn next(self) -> Words {
        match self.has_ahead(1) {
            true => self.plus(1),
            false => Words::new(self.mark.stream(), self.sequence().wrapping_add(1), (self.mark.0 >> 32) as u32),
        }
    }

    /// Whether nothing has to be carried from one word into another, up to `n` packets further on.
    #[inline(always)]
    pub fn has_ahead(self, n: u64) -> bool {
        self.mark.ahead(n).is_some() && self.head >> 32 & 0xffff >= n
    }

    /// The words `n` packets further on, for a caller that knows that nothing is carried.
    #[inline(always)]
    pub fn plus(self, n: u64) -> Words {
        Words { head: self.head.wrapping_sub(n << 32), mark: self.mark.plus(n) }
    }

    /// Writes the tag to the first bytes of `at`.
    #[inline(always)]
    pub fn write(self, at: &mut [u8; LENGTH]) {
        at[..8].copy_from_slice(&self.head.to_le_bytes());
        at[LENGTH - MARK..].copy_from_slice(&self.mark.0.to_le_bytes());
    }

    /// The number of the packet.
    #[inline(always)]
    pub fn sequence(self) -> u32 {
        ((self.head >> 16 & 0xffff) << 16 | self.mark.0 >> 16 & 0xffff) as u32
    }
}

/// The word that makes all of them sum up to all ones.
#[inline(always)]
fn complement(head: u64, Mark(mark): Mark) -> u64 {
    // The stream is in both arguments, and counts once.
    let sum = (head & 0xffff_ffff) + (mark >> 32) + (mark & 0xffff_ffff);
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    sum ^ 0xffff
}

/// What a tag says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    pub stream: u16,
    pub sequence: u32,
    pub stamp: u32,
}

/// Reads a tag. None: the bytes are no tag, or some of them have changed.
#[inline(always)]
pub fn read(at: &[u8; LENGTH]) -> Option<Tag> {
    let head = u64::from_le_bytes(*at.first_chunk().expect("it is longer"));
    let mark = Mark::read(at.last_chunk().expect("it is longer"));
    let words = Words { head, mark };
    let is_one = head & 0xffff == MAGIC && head >> 32 & 0xffff == complement(head, mark);
    is_one.then(|| Tag { stream: mark.stream(), sequence: words.sequence(), stamp: (mark.0 >> 32) as u32 })
}

/// The small tag of a sequence number.
#[inline(always)]
pub fn small(sequence: u32) -> [u8; SMALL] {
    let low = sequence & 0xffff;
    (low << 16 | low ^ 0xffff).to_be_bytes()
}

/// The lower half of the sequence number in a small tag. None: the bytes are no small tag.
#[inline(always)]
pub fn read_small(at: &[u8; SMALL]) -> Option<u16> {
    let word = u32::from_be_bytes(*at);
    (word >> 16 == (word & 0xffff) ^ 0xffff).then_some((word >> 16) as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tag(stream: u16, sequence: u32, time: u32) -> [u8; LENGTH] {
        let mut bytes = [0; LENGTH];
        Words::new(stream, sequence, time).write(&mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_sums_up_to_nothing(stream: u16, sequence: u32, stamp: u32) {
            let bytes = tag(stream, sequence, stamp);
            prop_assert_eq!(read(&bytes), Some(Tag { stream, sequence, stamp }));
            prop_assert_eq!(wire::checksum::checksum(&bytes), 0);
        }

        #[test]
        fn one_follows_from_the_other(stream: u16, sequence: u32, stamp: u32) {
            let next = Words::new(stream, sequence, stamp).next();
            let same = Words::new(stream, sequence.wrapping_add(1), stamp);
            // The two zeros of one's complement are the same to any checksum.
            prop_assert_eq!(next.mark, same.mark);
            prop_assert_eq!(next.sequence(), same.sequence());
            prop_assert_eq!(next.mark, Mark::new(stream, sequence, stamp).next());
            let mut bytes = [0; LENGTH];
            next.write(&mut bytes);
            prop_assert_eq!(wire::checksum::checksum(&bytes), 0);
            prop_assert_eq!(read(&bytes), Some(Tag { stream, sequence: sequence.wrapping_add(1), stamp }));
        }

        #[test]
        fn several_further_on_is_one_after_the_other(stream: u16, sequence: u32, stamp: u32, n in 1u64..300) {
            let first = Words::new(stream, sequence, stamp);
            if first.has_ahead(n) {
                prop_assert_eq!(first.plus(n), (0..n).fold(first, |words, _| words.next()));
                prop_assert_eq!(first.mark.ahead(n), Some(first.plus(n).mark));
            }
            prop_assert_eq!(first.mark.ahead(n).is_some(), (sequence & 0xffff) + (n as u32) < 0x1_0000);
        }

        #[test]
        fn no_byte_changes_unseen(stream: u16, sequence: u32, stamp: u32, at in 0..LENGTH, change in 1u8..) {
            let mut bytes = tag(stream, sequence, stamp);
            bytes[at] ^= change;
            prop_assert_eq!(read(&bytes), None);
        }

        #[test]
        fn the_small_one_as_well(sequence: u32, at in 0..SMALL, change in 1u8..) {
            let mut bytes = small(sequence);
            prop_assert_eq!(read_small(&bytes), Some(sequence as u16));
            prop_assert_eq!(wire::checksum::checksum(&bytes), 0);
            bytes[at] ^= change;
            prop_assert_eq!(read_small(&bytes), None);
        }
    }
}
