//! Prefixes as tables hold them.

/// A prefix: an address (host order) whose bits beyond `length` are zero. Keys sort as
/// routing tables are printed: by address, then the shorter first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key {
    address: u32,
    length: u8,
}

impl Key {
    /// Of everything: the default route.
    pub const DEFAULT: Key = Key::new(0, 0);

    /// Clears the bits of `address` beyond `length`.
    ///
    /// # Panics
    /// When `length` is more than 32; prefixes are checked where they are parsed.
    pub const fn new(address: u32, length: u8) -> Key {
        assert!(length <= 32, "an IPv4 prefix has at most 32 bits");
        let host_bits = u32::MAX.unbounded_shr(length as u32);
        Key { address: address & !host_bits, length }
    }

    /// The first address of the prefix, host order.
    pub const fn address(self) -> u32 {
        self.address
    }

    /// The last one.
    pub const fn last(self) -> u32 {
        self.address | u32::MAX.unbounded_shr(self.length as u32)
    }

    /// 0..=32.
    pub const fn length(self) -> u8 {
        self.length
    }

    /// Whether `address` lies in the prefix.
    pub const fn contains(self, address: u32) -> bool {
        Key::new(address, self.length).address == self.address
    }
}
