//! How a packet is known again: its last bytes say whose it is, which it is, and when it was sent.
//!
//! ```text
//!  0        2        4                 8                12       14
//! +--------+--------+-----------------+-----------------+--------+
//! | magic  | stream | sequence number | time            | compl. |
//! +--------+--------+-----------------+-----------------+--------+
//! ```
//!
//! All in network byte order; time in units of 16 ticks of the sender's clock. The last word has the sum of all seven, in
//! one's complement, be all ones: that is zero, so the tag changes no checksum that covers it, wherever it stands, and a
//! packet whose bytes changed on the way is not taken for one of ours.
//!
//! Where a packet has no room for it, the small tag stands instead: 16 bits of the sequence number and their complement; the
//! stream is then in the IPv4 header's identification or the IPv6 header's flow label, and there is no time.

/// Bytes of the tag, and of the small one.
pub const LENGTH: usize = 14;
pub const SMALL: usize = 4;
/// Ticks of a unit of time, as a power of two.
pub const TIME_SHIFT: u32 = 4;
const MAGIC: u64 = 0x5156;
/// Ahead of the stream's number in a flow label.
pub const FLOW_LABEL: u32 = 0x5_0000;

/// The first eight bytes.
#[inline(always)]
pub fn head(stream: u16, sequence: u32) -> u64 {
    MAGIC << 48 | u64::from(stream) << 32 | u64::from(sequence)
}

/// Ticks in the tag's units.
#[inline(always)]
pub fn stamp(ticks: u64) -> u32 {
    (ticks >> TIME_SHIFT) as u32
}

/// The last eight bytes, of which two are the last of [`head`].
#[inline(always)]
pub fn tail(head: u64, stamp: u32) -> u64 {
    (head & 0xffff) << 48 | u64::from(stamp) << 16 | (fold(head, stamp) ^ 0xffff)
}

/// The one's complement sum of all words but the last.
#[inline(always)]
fn fold(head: u64, stamp: u32) -> u64 {
    let sum = (head >> 32) + (head & 0xffff_ffff) + u64::from(stamp);
    let sum = (sum >> 32) + (sum & 0xffff_ffff);
    let sum = (sum >> 16) + (sum & 0xffff);
    (sum & 0xffff) + (sum >> 16)
}

/// The words of one packet's tag, from which those of the next follow: their sum has one more.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Words {
    pub head: u64,
    pub tail: u64,
}

impl Words {
    #[inline(always)]
    pub fn new(stream: u16, sequence: u32, stamp: u32) -> Words {
        let head = head(stream, sequence);
        Words { head, tail: tail(head, stamp) }
    }

    /// Of the next packet, sent at the same time. (The numbers of a stream start anew after 2^32: `new` is to be asked then.)
    #[inline(always)]
    pub fn next(self) -> Words {
        let head = self.head + 1;
        let rounds = head & 0xffff == 0 || self.tail & 0xffff == 0;
        let tail = if rounds { tail(head, (self.tail >> 16) as u32) } else { self.tail + (1 << 48) - 1 };
        Words { head, tail }
    }

    /// So many further on, while no half of them has to be carried into another.
    #[inline(always)]
    pub fn ahead(self, n: u64) -> Option<Words> {
        let carries = (self.head & 0xffff) + n > 0xffff || self.tail & 0xffff < n;
        (!carries).then(|| self.plus(n))
    }

    /// The same, of who knows that nothing is carried.
    #[inline(always)]
    pub fn plus(self, n: u64) -> Words {
        Words { head: self.head + n, tail: self.tail.wrapping_add(n * ((1 << 48) - 1)) }
    }

    /// Zero when both are the same.
    #[inline(always)]
    pub fn differ(self, other: Words) -> u64 {
        (self.head ^ other.head) | (self.tail ^ other.tail)
    }

    /// Writes the tag to the first bytes of `at`.
    #[inline(always)]
    pub fn write(self, at: &mut [u8; LENGTH]) {
        at[6..].copy_from_slice(&self.tail.to_be_bytes());
        at[..8].copy_from_slice(&self.head.to_be_bytes());
    }

    /// What stands there, be it a tag or not.
    #[inline(always)]
    pub fn read(at: &[u8; LENGTH]) -> Words {
        let head = u64::from_be_bytes(*at.first_chunk().expect("it is longer"));
        Words { head, tail: u64::from_be_bytes(*at.last_chunk().expect("it is longer")) }
    }

    #[inline(always)]
    pub fn stream(self) -> u16 {
        (self.head >> 32) as u16
    }

    /// What they say; none: they are no tag, or have changed.
    #[inline(always)]
    pub fn tag(self) -> Option<Tag> {
        let stamp = (self.tail >> 16) as u32;
        let is_one = self.head >> 48 == MAGIC && self.tail & 0xffff == fold(self.head, stamp) ^ 0xffff;
        is_one.then_some(Tag { stream: self.stream(), sequence: self.head as u32, stamp })
    }
}

/// What a tag says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag {
    pub stream: u16,
    pub sequence: u32,
    pub stamp: u32,
}

/// Reads a tag; none: it is none, or bytes of it have changed.
#[inline(always)]
pub fn read(at: &[u8; LENGTH]) -> Option<Tag> {
    Words::read(at).tag()
}

/// The small tag of a sequence number.
#[inline(always)]
pub fn small(sequence: u32) -> [u8; SMALL] {
    let low = sequence & 0xffff;
    (low << 16 | low ^ 0xffff).to_be_bytes()
}

/// The low half of the sequence number that a small tag has, if it is one.
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
        fn one_follows_from_the_other(stream: u16, sequence in 0..u32::MAX, stamp: u32) {
            let next = Words::new(stream, sequence, stamp).next();
            prop_assert_eq!(next.tag(), Words::new(stream, sequence + 1, stamp).tag());
        }

        #[test]
        fn several_further_on_is_one_after_the_other(stream: u16, sequence in 0..u32::MAX - 64, stamp: u32, n in 0u64..64) {
            let first = Words::new(stream, sequence, stamp);
            if let Some(ahead) = first.ahead(n) {
                prop_assert_eq!(ahead, (0..n).fold(first, |words, _| words.next()));
            }
        }

        #[test]
        fn no_byte_changes_unseen(stream: u16, sequence: u32, stamp: u32, at in 0..LENGTH, change in 1u8..) {
            let mut bytes = tag(stream, sequence, stamp);
            bytes[at] ^= change;
            // The two zeros of one's complement are the same to any checksum.
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
