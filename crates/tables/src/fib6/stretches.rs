//! Divides a prefix into stretches of addresses that are treated alike, from the tree of prefixes.

use super::Key;
use super::lines::{LINE, MISS};
use super::trie::{NodeRef, Trie};
use crate::leaf::Leaf;

/// Most ranges in a node.
pub(super) const RANGES: usize = LINE;

/// Gives lookups the leaf for a prefix's number, or MISS while the prefix is not to be used.
pub(super) trait Leaves: Fn(u32) -> Leaf {}
impl<F: Fn(u32) -> Leaf> Leaves for F {}

/// A stretch of addresses that are treated alike.
#[derive(Debug, Clone, Copy)]
pub(super) struct Run {
    pub last: u128,
    pub to: To,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum To {
    Leaf(u32),
    /// On to longer prefixes: their node, the prefix that they are in, and the leaf around them.
    On(NodeRef, Key, u32),
}

/// The stretches of a prefix, at most `most`.
struct Runs {
    first: u128,
    runs: Vec<Run>,
    most: usize,
}

impl Runs {
    /// Adds the addresses up to `last` that are not there yet. False: there are too many stretches.
    fn put(&mut self, last: u128, to: To) -> bool {
        match self.runs.last_mut() {
            Some(before) if before.to == to && matches!(to, To::Leaf(_)) => before.last = last,
            _ => self.runs.push(Run { last, to }),
        }
        self.runs.len() <= self.most
    }

    /// Fills up to just before `address`.
    fn fill_to(&mut self, address: u128, leaf: u32) -> bool {
        let is_there = match self.runs.last() {
            Some(run) => run.last + 1 == address,
            None => self.first == address,
        };
        is_there || self.put(address - 1, To::Leaf(leaf))
    }

    fn fill_through(&mut self, last: u128, leaf: u32) -> bool {
        let is_there = self.runs.last().is_some_and(|run| run.last == last);
        is_there || self.put(last, To::Leaf(leaf))
    }
}

/// The leaf of the longest prefix that covers all of `outer`, `outer` itself included. The default route does not
/// count.
pub(super) fn showing(trie: &Trie, outer: Key, leaves: &impl Leaves) -> u32 {
    trie.longest(outer.address(), outer.length(), |key, value| own(key, Some(value), leaves)).unwrap_or(MISS)
}

/// The leaf of a prefix. Slots do not hold the default route.
pub(super) fn own(key: Key, value: Option<u32>, leaves: &impl Leaves) -> Option<u32> {
    let leaf = value.filter(|_| key.length() > 0).map(|value| leaves(value).0);
    leaf.filter(|leaf| *leaf != MISS)
}

/// The stretches of `outer`, whose topmost node is `top`. Prefixes longer than the granularity are not distinguished.
/// None: there are more than `most`.
pub(super) fn stretches(
    trie: &Trie,
    top: NodeRef,
    outer: Key,
    granularity: u8,
    around: u32,
    leaves: &impl Leaves,
    most: usize,
) -> Option<Vec<Run>> {
    let mut runs = Runs { first: outer.address(), runs: Vec::with_capacity(RANGES + 1), most };
    let all = stretch(trie, top, granularity, around, leaves, &mut runs) && runs.fill_through(outer.last(), around);
    all.then_some(runs.runs)
}

/// Adds the stretches up to the end of a node. False: there are too many.
fn stretch(trie: &Trie, top: NodeRef, granularity: u8, around: u32, leaves: &impl Leaves, runs: &mut Runs) -> bool {
    let (key, value) = trie.look(top);
    if key.length() > granularity || key.length() == granularity && trie.has_children(top) {
        let unit = Key::new(key.address(), granularity);
        return runs.fill_to(unit.address(), around) && runs.put(unit.last(), To::On(top, unit, around));
    }
    let inside = own(key, value, leaves).unwrap_or(around);
    runs.fill_to(key.address(), around)
        && trie.children(top).all(|child| stretch(trie, child, granularity, inside, leaves, runs))
        && runs.fill_through(key.last(), inside)
}
