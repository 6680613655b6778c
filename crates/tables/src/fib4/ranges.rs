//! The form of a small table: where each run of addresses with one leaf begins, in order.
//!
//! A table of a hundred routes takes two kilobytes, so that a router may have thousands of them.
//! Every change makes a new one, which a thousand routes still allow.

use super::Key;
use crate::leaf::Leaf;

/// Lanes searched side by side, so that their loads overlap.
const GROUP: usize = 16;

/// Which leaf an address has, by binary search.
pub(super) struct Ranges {
    /// First addresses, rising; the first is 0.
    starts: Box<[u32]>,
    leaves: Box<[u32]>,
}

impl Ranges {
    /// From routes by address and then the shorter first, the default route not among them.
    pub fn new(routes: impl Iterator<Item = (Key, Leaf)>) -> Ranges {
        let mut builder = Builder { starts: vec![0], leaves: vec![Leaf::MISS.0], open: Vec::new() };
        for (key, leaf) in routes {
            builder.close_before(key.address());
            builder.begin(key.address(), leaf);
            builder.open.push((key.last(), leaf));
        }
        builder.close_before(u32::MAX);
        builder.close();
        Ranges { starts: builder.starts.into(), leaves: builder.leaves.into() }
    }

    pub fn memory(&self) -> usize {
        2 * self.starts.len() * size_of::<u32>()
    }

    /// The leaf of an address, or MISS.
    pub fn lookup(&self, address: u32) -> u32 {
        let mut leaf = [0];
        self.group(&[address], &mut leaf);
        leaf[0]
    }

    /// Writes the leaf of each address, MISS included, and says whether there was one.
    pub fn resolve(&self, addresses: &[u32], leaves: &mut [u32]) -> bool {
        let groups = addresses.chunks(GROUP).zip(leaves.chunks_mut(GROUP));
        groups.fold(false, |missed, (addresses, leaves)| missed | self.group(addresses, leaves))
    }

    #[inline]
    fn group(&self, addresses: &[u32], leaves: &mut [u32]) -> bool {
        let mut at = [0usize; GROUP];
        let mut left = self.starts.len();
        while left > 1 {
            let half = left / 2;
            for (at, address) in at.iter_mut().zip(addresses) {
                *at += half * usize::from(self.starts[*at + half] <= *address);
            }
            left -= half;
        }
        let mut missed = false;
        for (leaf, at) in leaves.iter_mut().zip(at) {
            *leaf = self.leaves[at];
            missed |= *leaf == Leaf::MISS.0;
        }
        missed
    }
}

struct Builder {
    starts: Vec<u32>,
    leaves: Vec<u32>,
    /// Prefixes around the present address: where they end and what they say, the longest last.
    open: Vec<(u32, Leaf)>,
}

impl Builder {
    fn begin(&mut self, start: u32, leaf: Leaf) {
        if self.starts.last() == Some(&start) {
            *self.leaves.last_mut().expect("as many as starts") = leaf.0;
        } else if self.leaves.last() != Some(&leaf.0) {
            self.starts.push(start);
            self.leaves.push(leaf.0);
        }
    }

    /// Ends the prefixes that end before an address.
    fn close_before(&mut self, address: u32) {
        while let Some((last, _)) = self.open.last()
            && *last < address
        {
            let next = *last + 1;
            self.open.pop();
            self.resume(next);
        }
    }

    fn resume(&mut self, at: u32) {
        let around = self.open.last().map_or(Leaf::MISS, |(_, leaf)| *leaf);
        self.begin(at, around);
    }

    /// Runs that came out alike are one.
    fn close(&mut self) {
        let mut kept: Vec<(u32, u32)> = Vec::with_capacity(self.starts.len());
        for (start, leaf) in self.starts.iter().zip(&self.leaves) {
            if kept.last().is_none_or(|(_, last)| last != leaf) {
                kept.push((*start, *leaf));
            }
        }
        (self.starts, self.leaves) = kept.into_iter().unzip();
    }
}
