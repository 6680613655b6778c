//! What a lookup returns: the kind and index of a forwarding object.

/// Kind in the top 4 bits, index in the low 28.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Leaf(pub u32);

impl Leaf {
    /// Nothing here.
    pub const MISS: Leaf = Leaf(0);

    /// # Panics
    /// When kind or index do not fit.
    pub const fn new(kind: u8, index: u32) -> Leaf {
        assert!(kind < 16 && index < 1 << 28);
        Leaf((kind as u32) << 28 | index)
    }

    pub const fn kind(self) -> u8 {
        (self.0 >> 28) as u8
    }

    pub const fn index(self) -> u32 {
        self.0 & 0x0fff_ffff
    }
}
