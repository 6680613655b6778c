//! The Internet checksum (RFC 1071): the one's complement of the one's complement sum of
//! 16-bit words.
//!
//! Sums are carried as `u32`, not yet folded, so that parts (pseudo header, header, payload)
//! can be added in any order. Two sums are equal if they are equal modulo 0xffff and both or
//! neither are zero; [`fold`] gives the one 16-bit form.

use crate::addr::{Ipv4Address, Ipv6Address};

/// Adds the big-endian 16-bit words of `data` to `initial`. An odd last byte counts as the
/// upper half of a word (RFC 1071, section 4.1).
///
/// The words are summed in the machine's byte order, eight bytes a step, and the folded
/// result is swapped: the sum does not depend on byte order (RFC 1071, section 2(B)). The
/// two halves of each step go to separate accumulators, which compilers turn into vector
/// adds; their sum would overflow after 2^31 steps, 16 GB.
pub fn sum(data: &[u8], initial: u32) -> u32 {
    let (steps, rest) = data.as_chunks::<8>();
    let (mut low, mut high) = (0u64, 0u64);
    for &step in steps {
        let word = u64::from_ne_bytes(step);
        low += word & u64::from(u32::MAX);
        high += word >> 32;
    }
    // Two to the sixteenth is one here, so a shorter word can be added at the bottom.
    let (words, tail) = rest.as_chunks::<2>();
    for &word in words {
        low += u64::from(u16::from_ne_bytes(word));
    }
    if let [last] = *tail {
        low += u64::from(u16::from_ne_bytes([last, 0]));
    }

    let native = fold(fold64(low + high));
    add(u32::from(u16::from_be(native)), initial)
}

/// One's complement addition: the carry comes back in at the bottom.
const fn add(a: u32, b: u32) -> u32 {
    let (sum, carry) = a.overflowing_add(b);
    sum + carry as u32
}

const fn fold64(sum: u64) -> u32 {
    add((sum >> 32) as u32, sum as u32)
}

/// The 16-bit one's complement sum that a `u32` sum stands for. Zero only for a sum of zeros.
#[inline]
pub const fn fold(sum: u32) -> u16 {
    // The first step leaves at most 0x1fffe, the second at most 0xffff.
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + (sum & 0xffff)) as u16
}

/// The checksum of `data` as it goes in a header whose checksum field was zero. Over data
/// that includes a correct checksum it is zero.
pub fn checksum(data: &[u8]) -> u16 {
    !fold(sum(data, 0))
}

/// The sum of the pseudo header that UDP and TCP put ahead of an IPv4 payload of `length`
/// bytes (RFC 768, RFC 9293 section 3.1).
pub fn pseudo_header4(src: Ipv4Address, dst: Ipv4Address, protocol: u8, length: u16) -> u32 {
    let halves = |address: Ipv4Address| (address.to_bits() >> 16) + (address.to_bits() & 0xffff);
    halves(src) + halves(dst) + u32::from(protocol) + u32::from(length)
}

/// The same ahead of an IPv6 payload, whose length may take 32 bits (RFC 8200 section 8.1).
pub fn pseudo_header6(src: Ipv6Address, dst: Ipv6Address, protocol: u8, length: u32) -> u32 {
    let words = src.segments().into_iter().chain(dst.segments());
    let addresses: u32 = words.map(u32::from).sum();
    addresses + (length >> 16) + (length & 0xffff) + u32::from(protocol)
}

/// The checksum after one of the words that it covers changed: RFC 1624, equation 3,
/// `HC' = ~(~HC + ~m + m')`.
///
/// Equal to the recomputed checksum unless all covered words are now zero (then this is
/// 0x0000, and 0xffff recomputed), which no IPv4, TCP or pseudo header can be. A UDP checksum
/// of zero means "none" and must be left alone by the caller.
#[inline]
pub const fn update16(old_checksum: u16, old_word: u16, new_word: u16) -> u16 {
    !fold(!old_checksum as u32 + !old_word as u32 + new_word as u32)
}

/// As [`update16`] for two adjacent aligned words, such as an address.
#[inline]
pub const fn update32(old_checksum: u16, old: u32, new: u32) -> u16 {
    let high = update16(old_checksum, (old >> 16) as u16, (new >> 16) as u16);
    update16(high, old as u16, new as u16)
}

/// Sums data that lies in several segments, such as a chain of buffers, as if it were in one.
///
/// After an odd number of bytes the next segment starts in the lower half of a word: its sum
/// is swapped (RFC 1071, section 2(B)).
#[derive(Clone, Copy, Debug, Default)]
pub struct Accumulator {
    sum: u32,
    odd: bool,
}

impl Accumulator {
    /// Starts from a sum, usually that of a pseudo header.
    pub const fn new(initial: u32) -> Self {
        Self { sum: initial, odd: false }
    }

    /// Takes the next segment.
    pub fn add(&mut self, segment: &[u8]) {
        let folded = fold(sum(segment, 0));
        let aligned = if self.odd { folded.swap_bytes() } else { folded };
        self.sum = add(self.sum, u32::from(aligned));
        self.odd ^= segment.len() % 2 == 1;
    }

    /// The checksum of everything taken so far, as it goes in a header.
    pub const fn checksum(self) -> u16 {
        !fold(self.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The definition, word by word.
    fn reference(data: &[u8]) -> u16 {
        let mut total = 0u64;
        for word in data.chunks(2) {
            total += u64::from(word[0]) << 8 | u64::from(*word.get(1).unwrap_or(&0));
        }
        while total > 0xffff {
            total = (total >> 16) + (total & 0xffff);
        }
        !(total as u16)
    }

    #[test]
    fn example_of_rfc_1071_section_3() {
        let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum(&data, 0)), 0xddf2);
        assert_eq!(checksum(&data), !0xddf2);
    }

    #[test]
    fn odd_last_byte_is_the_upper_half_of_a_word() {
        assert_eq!(sum(&[0x12], 0), 0x1200);
        assert_eq!(sum(&[0x12, 0x34, 0x56], 0), 0x1234 + 0x5600);
        assert_eq!(sum(&[], 7), 7);
    }

    #[test]
    fn sums_do_not_overflow() {
        let data = vec![0xff; 65535];
        assert_eq!(checksum(&data), reference(&data));
        assert_eq!(fold(sum(&data, u32::MAX)), fold(0xffff + 0xff00));
        assert_eq!(fold(u32::MAX), 0xffff);
        let broadcast = Ipv4Address::BROADCAST;
        assert_eq!(pseudo_header4(broadcast, broadcast, 255, u16::MAX), 4 * 0xffff + 0xff + 0xffff);
    }

    #[test]
    fn pseudo_header_is_its_twelve_bytes() {
        let bytes = [100, 64, 1, 2, 10, 0, 0, 1, 0, 17, 0, 30];
        let words = pseudo_header4(Ipv4Address::new(100, 64, 1, 2), Ipv4Address::new(10, 0, 0, 1), 17, 30);
        assert_eq!(fold(words), fold(sum(&bytes, 0)));
    }

    #[test]
    fn update_gives_zero_in_the_example_of_rfc_1624_section_4() {
        // The words sum to 0x22d0 with m and to 0xffff with m'. RFC 1141's formula gives 0xffff
        // here, which a receiver that recomputes and compares would refuse.
        assert_eq!(update16(0xdd2f, 0x5555, 0x3285), 0x0000);
        assert_eq!(update16(0x0000, 0x3285, 0x5555), 0xdd2f);
    }

    #[test]
    fn update_takes_either_zero_as_the_old_checksum() {
        // RFC 1624, section 5: a sender may have written -0 (0xffff) for +0 (0x0000). Added up
        // with the data both verify, and what we make of them must be the same.
        for old in [0x0000, 0xffff] {
            assert_eq!(update16(old, 0x4011, 0x3f11), 0x0100);
        }
    }

    #[test]
    fn update_with_an_unchanged_word_keeps_the_checksum() {
        for word in [0x0000, 0x1234, 0xffff] {
            assert_eq!(update16(0xdd2f, word, word), 0xdd2f);
        }
        // +0 and -0 as a word are the same number.
        assert_eq!(update16(0xdd2f, 0x0000, 0xffff), 0xdd2f);
        assert_eq!(update16(0xdd2f, 0xffff, 0x0000), 0xdd2f);
    }

    proptest! {
        #[test]
        fn checksum_is_the_definition(data in prop::collection::vec(any::<u8>(), 0..200), initial: u32) {
            prop_assert_eq!(checksum(&data), reference(&data));
            let prefixed = [&initial.to_be_bytes()[..], &data].concat();
            prop_assert_eq!(!fold(sum(&data, initial)), reference(&prefixed));
        }

        #[test]
        fn update_equals_recomputation(
            mut words in prop::collection::vec(prop_oneof![any::<u16>(), Just(0), Just(0xffff)], 2..12),
            at: prop::sample::Index,
            new: u16,
        ) {
            let bytes = |words: &[u16]| words.iter().flat_map(|w| w.to_be_bytes()).collect::<Vec<_>>();
            let old_checksum = checksum(&bytes(&words));
            let i = at.index(words.len() - 1);
            let old = [words[i], words[i + 1]];

            words[i] = new;
            prop_assume!(words.iter().any(|&w| w != 0));
            prop_assert_eq!(update16(old_checksum, old[0], new), checksum(&bytes(&words)));

            words[i + 1] = !new;
            let pair = |w: [u16; 2]| u32::from(w[0]) << 16 | u32::from(w[1]);
            prop_assert_eq!(
                update32(old_checksum, pair(old), pair([new, !new])),
                checksum(&bytes(&words))
            );
        }

        #[test]
        fn segments_sum_as_one_piece(
            segments in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 0..6),
            initial in 0u32..=0xffff,
        ) {
            let mut accumulator = Accumulator::new(initial);
            segments.iter().for_each(|segment| accumulator.add(segment));
            prop_assert_eq!(accumulator.checksum(), !fold(sum(&segments.concat(), initial)));
        }
    }
}
