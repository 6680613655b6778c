//! What the router keeps in the owner's bits of an adjacency ([`tables::Adjacency::owner`]).

use tables::object::MAX_REWRITE;
use wire::mpls::ENTRY_LEN;

/// Most labels that are pushed on a packet: as many as fit behind an Ethernet header.
pub const MAX_LABELS: usize = (MAX_REWRITE - 14) / ENTRY_LEN;

const COPIES: u32 = 4;
const LABELS: u16 = 0xf;
const UNIFORM: u16 = 1 << 8;
const STALE: u16 = 1 << 9;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Marks {
    /// Label stack entries at the end of the link header.
    pub labels: usize,
    /// How many of them, from the bottom up, copy time to live and traffic class from the packet under them.
    pub copies: usize,
    /// A label that is popped passes its time to live and traffic class to the header below (RFC 3443, uniform model).
    pub is_uniform: bool,
    /// The neighbour was not confirmed recently.
    pub is_stale: bool,
}

impl Marks {
    /// The marks of an adjacency.
    #[inline(always)]
    pub const fn of(owner: u16) -> Marks {
        Marks {
            labels: (owner & LABELS) as usize,
            copies: (owner >> COPIES & LABELS) as usize,
            is_uniform: owner & UNIFORM != 0,
            is_stale: owner & STALE != 0,
        }
    }

    /// # Panics
    /// When there are more labels than fit, or more copy than there are.
    pub const fn owner(self) -> u16 {
        let Marks { labels, copies, is_uniform, is_stale } = self;
        assert!(labels <= MAX_LABELS && copies <= labels);
        labels as u16
            | (copies as u16) << COPIES
            | if is_uniform { UNIFORM } else { 0 }
            | if is_stale { STALE } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_read_back_as_they_were_made() {
        for (labels, copies) in [(0, 0), (5, 0), (5, 5), (3, 2)] {
            for (is_uniform, is_stale) in [(false, false), (true, false), (false, true), (true, true)] {
                let marks = Marks { labels, copies, is_uniform, is_stale };
                assert_eq!(Marks::of(marks.owner()), marks);
            }
        }
    }
}
