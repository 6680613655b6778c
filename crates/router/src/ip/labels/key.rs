//! Labels as they are looked up (the incoming label map of RFC 3031 3.11).
//!
//! A label has 20 bits, and leads elsewhere at the bottom of a stack than above others. So there are two million keys,
//! with a word each: sixteen MiB of address space, of which memory is taken where labels are. Labels at the bottom lie
//! side by side: most routers see no others. Beside its leaf a label has the one that it is changed for, if that is all
//! that is done with it: so all labels to a neighbour share one adjacency.

use tables::{DirectLookup, DirectTable, Way};

/// Labels that there can be.
pub const LABELS: usize = 1 << 20;
/// Those at the bottom of a stack, and those above others.
const KEYS: usize = 2 * LABELS;

/// What labels lead to. Beside the leaf stands the entry of a label stack that the label is changed for; 0 when the
/// leaf does not ask for one.
pub type LabelTable = DirectTable<KEYS>;
pub type LabelLookup = DirectLookup<KEYS>;
pub type LabelAction = Way;

/// A label as it is looked up: with whether it is at the bottom of its stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LabelKey(u32);

impl LabelKey {
    /// # Panics
    /// When the label does not fit 20 bits.
    pub const fn new(label: u32, is_bottom: bool) -> LabelKey {
        assert!((label as usize) < LABELS);
        LabelKey(label | if is_bottom { 0 } else { LABELS as u32 })
    }

    /// The key of an entry of a label stack, in host order (RFC 3032 2.1).
    #[inline(always)]
    pub const fn of_entry(entry: u32) -> LabelKey {
        LabelKey(entry >> 12 | (!entry & 0x100) << 12)
    }

    pub const fn label(self) -> u32 {
        self.0 & (LABELS as u32 - 1)
    }

    /// Whether it is at the bottom of its stack (`eos`, end of stack, in commands).
    pub const fn is_bottom(self) -> bool {
        self.0 < LABELS as u32
    }

    /// Its place in a [`LabelTable`].
    pub const fn place(self) -> usize {
        self.0 as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_has_the_key_of_its_label() {
        for label in [0, 1, 16, 0x5_5555, LABELS as u32 - 1] {
            for is_bottom in [false, true] {
                let key = LabelKey::new(label, is_bottom);
                assert_eq!((key.label(), key.is_bottom()), (label, is_bottom));
                assert!(key.place() < KEYS);
                for rest in [0, 0xeff] {
                    let entry = label << 12 | rest | u32::from(is_bottom) << 8;
                    assert_eq!(LabelKey::of_entry(entry), key);
                }
            }
        }
    }
}
