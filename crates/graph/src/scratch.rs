//! Scratch: what a node leaves for the next node, beside the packet.
//!
//! 16 bytes. The first four say what kind of value the others are. Kind and words lie in columns of their own, so a
//! value of one word costs eight bytes. A node that expects another kind reads nothing: the packet came another way
//! than the node knows. The dispatcher forgets scratch that a node has not left anew ([`crate::Vector`]); but a feature
//! passes on what it got, unless it leaves something else.

/// Tells kinds of scratch apart: a hash of the kind's name, so that plugins need no list of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct ScratchKind(pub(crate) u32);

impl ScratchKind {
    /// The kind of that name, such as `icmp report` (FNV-1a, 32 bits; never 0, which is no kind).
    pub const fn named(name: &str) -> ScratchKind {
        let (bytes, mut hash, mut at) = (name.as_bytes(), 0x811c_9dc5_u32, 0);
        while at < bytes.len() {
            hash = (hash ^ bytes[at] as u32).wrapping_mul(0x0100_0193);
            at += 1;
        }
        ScratchKind(if hash == 0 { 1 } else { hash })
    }
}

/// A value that travels in scratch: its kind, and how it is written in three words.
pub trait ScratchValue: Copy {
    const KIND: ScratchKind;
    fn to_words(self) -> [u32; 3];
    fn from_words(words: [u32; 3]) -> Self;
}

/// A value that is one number: the first word.
pub trait ScratchNumber: ScratchValue {}

/// One packet's scratch: nothing, or a value of some kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Scratch {
    pub(crate) kind: u32,
    pub(crate) words: [u32; 3],
}

const _: () = assert!(size_of::<Scratch>() == 16);

impl Scratch {
    pub const NONE: Scratch = Scratch { kind: 0, words: [0; 3] };

    #[inline(always)]
    pub fn of<V: ScratchValue>(value: V) -> Scratch {
        Scratch { kind: V::KIND.0, words: value.to_words() }
    }

    /// The value, if one of this kind was left.
    #[inline(always)]
    pub fn read<V: ScratchValue>(&self) -> Option<V> {
        (self.kind == V::KIND.0).then(|| V::from_words(self.words))
    }

    #[inline(always)]
    pub fn is_none(&self) -> bool {
        self.kind == 0
    }
}

/// Declares a kind of scratch that is one 32-bit number.
///
/// ```
/// quiver_graph::scratch_number! {
///     /// The longest packet that the link takes.
///     pub struct Mtu(u16) = "mtu"
/// }
/// let scratch = quiver_graph::Scratch::of(Mtu(1500));
/// assert_eq!(scratch.read::<Mtu>(), Some(Mtu(1500)));
/// ```
#[macro_export]
macro_rules! scratch_number {
    ($(#[$meta:meta])* $vis:vis struct $name:ident($number:ty) = $kind:literal) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        $vis struct $name(pub $number);
        impl $crate::ScratchValue for $name {
            const KIND: $crate::ScratchKind = $crate::ScratchKind::named($kind);
            #[inline(always)]
            fn to_words(self) -> [u32; 3] {
                [self.0.into(), 0, 0]
            }
            #[inline(always)]
            fn from_words(words: [u32; 3]) -> Self {
                $name(words[0] as $number)
            }
        }
        impl $crate::ScratchNumber for $name {}
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    crate::scratch_number! { struct Offset(u32) = "offset" }
    crate::scratch_number! { struct Mtu(u16) = "mtu" }

    #[test]
    fn a_value_is_read_as_what_it_was_left_as_and_as_nothing_else() {
        let scratch = Scratch::of(Offset(70_000));
        assert_eq!((scratch.read::<Offset>(), scratch.read::<Mtu>()), (Some(Offset(70_000)), None));
        assert_eq!(Scratch::NONE.read::<Offset>(), None);
        assert!(Scratch::NONE.is_none() && !scratch.is_none());
    }
}
