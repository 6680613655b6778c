//! Prefixes as tables hold them.

/// A prefix: an address (host order) whose bits beyond `length` are zero. Keys sort as
/// routing tables are printed: by address, then the shorter first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    address: u128,
    length: u8,
}

impl Key {
    /// Of everything: the default route.
    pub const DEFAULT: Key = Key::new(0, 0);

    /// Clears the bits of `address` beyond `length`.
    ///
    /// # Panics
    /// When `length` is more than 128; prefixes are checked where they are parsed.
    pub const fn new(address: u128, length: u8) -> Key {
        assert!(length <= 128, "an IPv6 prefix has at most 128 bits");
        Key { address: address & !host_bits(length), length }
    }

    /// The first address of the prefix, host order.
    pub const fn address(self) -> u128 {
        self.address
    }

    /// The last one.
    pub const fn last(self) -> u128 {
        self.address | host_bits(self.length)
    }

    /// 0..=128.
    pub const fn length(self) -> u8 {
        self.length
    }

    /// Whether `address` lies in the prefix.
    pub const fn contains(self, address: u128) -> bool {
        Key::new(address, self.length).address == self.address
    }

    /// Whether all of another prefix lies in this one.
    pub const fn covers(self, other: Key) -> bool {
        self.length <= other.length && self.contains(other.address)
    }

    /// The part of it that all addresses share of which one is given, as far as both go.
    pub(super) fn in_common(self, other: Key) -> u8 {
        let same = (self.address ^ other.address).leading_zeros() as u8;
        same.min(self.length).min(other.length)
    }

    /// The bit behind the prefix, of an address in it.
    pub(super) fn bit_of(self, address: u128) -> usize {
        (address >> (127 - self.length) & 1) as usize
    }
}

const fn host_bits(length: u8) -> u128 {
    u128::MAX.unbounded_shr(length as u32)
}
