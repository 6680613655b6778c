//! What a lookup returns: the class and index of a forwarding object.

/// Class in the top 8 bits, index in the low 24.
///
/// The class says who handles the packet, and the owner of the routes chooses its meaning. The tables know two things
/// about classes: zero as a whole is [`Leaf::MISS`], and those from [`Leaf::CLASSES`] on never come from outside,
/// because the tables mark their own words with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct Leaf(pub u32);

impl Leaf {
    /// Nothing here.
    pub const MISS: Leaf = Leaf(0);
    /// How many classes there are. IPv4 tables mark words with 0xf0 to 0xff, IPv6 tables with 0xc0 to 0xff.
    pub const CLASSES: usize = 0xc0;
    /// How many indices there are of each class.
    pub const INDICES: usize = 1 << 24;

    /// # Panics
    /// When class or index do not fit.
    pub const fn new(class: u8, index: u32) -> Leaf {
        assert!((class as usize) < Leaf::CLASSES && (index as usize) < Leaf::INDICES);
        Leaf((class as u32) << 24 | index)
    }

    pub const fn class(self) -> u8 {
        (self.0 >> 24) as u8
    }

    pub const fn index(self) -> u32 {
        self.0 & 0x00ff_ffff
    }
}
