//! Every prefix with its number: the bookkeeping of a table's writer.
//!
//! A binary tree without nodes that have only one child (Morrison, "PATRICIA", JACM 15(4), 1968): at most two nodes for
//! each prefix, 32 bytes each, in one array. A search for the prefixes that cover a prefix, or that lie under it, takes
//! one walk; under a node everything is in the order of addresses.

use super::Key;
use super::lines::{PART_LENGTH, PARTS, Root};

/// No node.
const NONE: u32 = u32::MAX;
/// The root node, which always exists.
const ROOT: u32 = 0;

/// A node's number, valid until the tree is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeRef(u32);

#[derive(Clone, Copy)]
struct Node {
    address: u128,
    children: [u32; 2],
    value: u32,
    length: u8,
    /// It is a prefix of the table, and not only a fork.
    used: bool,
}

impl Node {
    fn new(key: Key) -> Node {
        Node { address: key.address(), children: [NONE; 2], value: 0, length: key.length(), used: false }
    }

    fn key(&self) -> Key {
        Key::new(self.address, self.length)
    }
}

/// The part of a large root that contains a prefix, one of 2000::/3.
fn part_of(key: Key) -> Option<usize> {
    let part = Root::part((key.address() >> 64) as u64);
    (key.length() > PART_LENGTH && part < PARTS).then_some(part)
}

pub(super) struct Trie {
    nodes: Vec<Node>,
    /// Unused places in `nodes`.
    free: Vec<u32>,
    lengths: [usize; 129],
    count: usize,
    /// Prefixes in each part of a large root, once they are counted.
    crowds: Vec<u32>,
    /// The path from the root to the last change: changes in the order of addresses begin near its end.
    way: Vec<u32>,
}

impl Trie {
    pub fn new() -> Trie {
        Trie {
            nodes: vec![Node::new(Key::DEFAULT)],
            free: Vec::new(),
            lengths: [0; 129],
            count: 0,
            crowds: Vec::new(),
            way: vec![ROOT],
        }
    }

    /// Counts the prefixes of each part of a large root from now on.
    pub fn count_crowds(&mut self) {
        let mut crowds = vec![0; PARTS];
        self.within(Key::DEFAULT).filter_map(|(key, _)| part_of(key)).for_each(|part| crowds[part] += 1);
        self.crowds = crowds;
    }

    /// How many prefixes lie in a part of a large root.
    pub fn crowd(&self, part: usize) -> u32 {
        self.crowds.get(part).copied().unwrap_or(0)
    }

    fn crowd_of(&mut self, key: Key) -> Option<&mut u32> {
        if self.crowds.is_empty() { None } else { Some(&mut self.crowds[part_of(key)?]) }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// How many prefixes there are of each length.
    pub fn lengths(&self) -> &[usize; 129] {
        &self.lengths
    }

    pub fn memory(&self) -> usize {
        self.nodes.capacity() * size_of::<Node>() + self.free.capacity() * size_of::<u32>()
    }

    fn node(&self, at: u32) -> &Node {
        &self.nodes[at as usize]
    }

    fn node_mut(&mut self, at: u32) -> &mut Node {
        &mut self.nodes[at as usize]
    }

    fn child(&self, at: u32, address: u128) -> u32 {
        let node = self.node(at);
        if node.length == 128 { NONE } else { node.children[node.key().bit_of(address)] }
    }

    /// The node of this exact prefix.
    fn find(&self, key: Key) -> Option<u32> {
        let mut at = ROOT;
        loop {
            let node = self.node(at);
            if node.length >= key.length() {
                return (node.key() == key).then_some(at);
            }
            at = self.child(at, key.address());
            if at == NONE || !self.node(at).key().contains(key.address()) {
                return None;
            }
        }
    }

    pub fn get(&self, key: Key) -> Option<u32> {
        let node = self.node(self.find(key)?);
        node.used.then_some(node.value)
    }

    fn add(&mut self, node: Node) -> u32 {
        match self.free.pop() {
            Some(at) => {
                *self.node_mut(at) = node;
                at
            }
            None => {
                self.nodes.push(node);
                self.nodes.len() as u32 - 1
            }
        }
    }

    /// Returns the old number, if the prefix was there.
    pub fn insert(&mut self, key: Key, value: u32) -> Option<u32> {
        let at = self.make(key);
        let node = self.node_mut(at);
        let before = node.used.then_some(node.value);
        (node.used, node.value) = (true, value);
        if before.is_none() {
            self.count += 1;
            self.lengths[usize::from(key.length())] += 1;
            self.crowd_of(key).into_iter().for_each(|crowd| *crowd += 1);
        }
        before
    }

    /// Lets `change` choose a prefix's new number by its old one; returns the old one.
    pub fn change(&mut self, key: Key, change: impl FnOnce(Option<u32>) -> Option<u32>) -> Option<u32> {
        let at = self.nearest(key);
        let node = self.node(at);
        let before = (node.used && node.key() == key).then_some(node.value);
        match change(before) {
            Some(value) => self.insert(key, value),
            None if before.is_some() => self.remove(key),
            None => None,
        };
        before
    }

    /// The longest node that covers a prefix; `way` then holds the path to it.
    fn nearest(&mut self, key: Key) -> u32 {
        while self.way.len() > 1 && !self.node(self.way[self.way.len() - 1]).key().covers(key) {
            self.way.pop();
        }
        let mut at = self.way[self.way.len() - 1];
        loop {
            let node = self.node(at);
            if node.length == key.length() {
                return at;
            }
            let below = self.child(at, key.address());
            if below == NONE || !self.node(below).key().covers(key) {
                return at;
            }
            at = below;
            self.way.push(at);
        }
    }

    /// The node of a prefix; it is made if needed.
    fn make(&mut self, key: Key) -> u32 {
        let mut at = self.nearest(key);
        let here = self.node(at).key();
        if here == key {
            return at;
        }
        let side = here.bit_of(key.address());
        let below = self.node(at).children[side];
        if below != NONE {
            // Both fork somewhere on the way; or the existing node is under the new one.
            let other = self.node(below).key();
            let fork = Key::new(key.address(), other.in_common(key));
            let mut node = Node::new(fork);
            node.children[fork.bit_of(other.address())] = below;
            let new = self.add(node);
            self.node_mut(at).children[side] = new;
            self.way.push(new);
            if fork == key {
                return new;
            }
            at = new;
        }
        let new = self.add(Node::new(key));
        let side = self.node(at).key().bit_of(key.address());
        self.node_mut(at).children[side] = new;
        self.way.push(new);
        new
    }

    /// Returns the number of the prefix.
    pub fn remove(&mut self, key: Key) -> Option<u32> {
        let at = self.nearest(key);
        let node = self.node_mut(at);
        if node.key() != key || !std::mem::replace(&mut node.used, false) {
            return None;
        }
        let value = node.value;
        self.count -= 1;
        self.lengths[usize::from(key.length())] -= 1;
        self.crowd_of(key).into_iter().for_each(|crowd| *crowd -= 1);
        if self.count == 0 {
            *self = Trie { crowds: std::mem::take(&mut self.crowds), ..Trie::new() };
            return Some(value);
        }
        // Its parent may have existed only as a fork to it.
        if self.splice() {
            self.splice();
        }
        Some(value)
    }

    /// Removes the last node of the way, if it is neither a prefix nor a fork any more.
    fn splice(&mut self) -> bool {
        let [.., parent, at] = self.way[..] else { return false };
        let node = *self.node(at);
        let [zero, one] = node.children;
        if node.used || zero != NONE && one != NONE {
            return false;
        }
        let parent = self.node_mut(parent);
        let side = parent.key().bit_of(node.address);
        parent.children[side] = if zero == NONE { one } else { zero };
        self.free.push(at);
        self.way.pop();
        true
    }

    /// Moves the nodes together, in the order of addresses, when most places are unused: later additions then get
    /// places in order, and not in the order in which other nodes were removed.
    pub fn tidy(&mut self) {
        if self.free.len() <= self.nodes.len() / 2 {
            return;
        }
        let mut tidy: Vec<Node> = Vec::with_capacity(self.nodes.len() - self.free.len());
        // Nodes that wait for a new place: where they are, and their parent and side.
        let mut open = vec![(ROOT, NONE, 0)];
        while let Some((at, parent, side)) = open.pop() {
            let place = tidy.len() as u32;
            if parent != NONE {
                tidy[parent as usize].children[side] = place;
            }
            let node = *self.node(at);
            tidy.push(node);
            let children = node.children.into_iter().enumerate().rev();
            open.extend(children.filter(|(_, child)| *child != NONE).map(|(side, child)| (child, place, side)));
        }
        self.nodes.clear();
        self.nodes.extend(tidy);
        self.free.clear();
        self.way.truncate(1);
    }

    /// Frees the memory of unused places, when most are unused.
    pub fn trim(&mut self) {
        self.tidy();
        self.nodes.shrink_to(self.nodes.len() + self.nodes.len() / 8);
        self.free.shrink_to_fit();
    }

    /// Stops counting the prefixes of parts.
    pub fn forget_crowds(&mut self) {
        self.crowds = Vec::new();
    }

    /// The longest prefix of at most `length` bits that contains an address and for which `is` returns a value.
    pub fn longest<R>(&self, address: u128, length: u8, mut is: impl FnMut(Key, u32) -> Option<R>) -> Option<R> {
        let mut around = [ROOT; 129];
        let (mut count, mut at) = (0, ROOT);
        while at != NONE {
            let node = self.node(at);
            if node.length > length || !node.key().contains(address) {
                break;
            }
            around[count] = at;
            count += usize::from(node.used);
            at = self.child(at, address);
        }
        around[..count].iter().rev().find_map(|at| {
            let node = self.node(*at);
            is(node.key(), node.value)
        })
    }

    /// The topmost node within a prefix.
    pub fn under(&self, outer: Key) -> Option<NodeRef> {
        let mut at = ROOT;
        while at != NONE && self.node(at).length < outer.length() {
            at = self.child(at, outer.address());
        }
        (at != NONE && outer.covers(self.node(at).key())).then_some(NodeRef(at))
    }

    /// Whether a prefix contains at most about this many prefixes.
    pub fn has_at_most(&self, outer: Key, most: usize) -> bool {
        let mut open = Vec::from_iter(self.under(outer));
        let mut nodes = 0;
        while let Some(at) = open.pop() {
            nodes += 1;
            // In a tree whose inner nodes are only forks, half of the nodes are prefixes.
            if nodes > 2 * most {
                return false;
            }
            open.extend(self.children(at));
        }
        true
    }

    /// A node's prefix, and its number if it is in the table.
    pub fn look(&self, at: NodeRef) -> (Key, Option<u32>) {
        let node = self.node(at.0);
        (node.key(), node.used.then_some(node.value))
    }

    /// The children of a node, in the order of addresses.
    pub fn children(&self, at: NodeRef) -> impl Iterator<Item = NodeRef> + use<> {
        self.node(at.0).children.into_iter().filter(|child| *child != NONE).map(NodeRef)
    }

    pub fn has_children(&self, at: NodeRef) -> bool {
        self.node(at.0).children != [NONE; 2]
    }

    /// The prefixes within a prefix, itself included, ordered by address, the shorter first.
    pub fn within(&self, outer: Key) -> impl Iterator<Item = (Key, u32)> + '_ {
        let mut open: Vec<NodeRef> = self.under(outer).into_iter().collect();
        std::iter::from_fn(move || {
            loop {
                let node = self.node(open.pop()?.0);
                open.extend(node.children.into_iter().rev().filter(|child| *child != NONE).map(NodeRef));
                if node.used {
                    return Some((node.key(), node.value));
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn key() -> impl Strategy<Value = Key> {
        // Few bits differ, so that prefixes contain each other.
        (0..64u128, 0..64u128, prop::sample::select(vec![0u8, 1, 3, 30, 32, 33, 48, 64, 96, 127, 128]))
            .prop_map(|(high, low, length)| Key::new(high << 122 | high << 94 | low << 62 | low, length))
    }

    proptest! {
        #[test]
        fn it_is_a_map_that_knows_what_covers_what(
            steps in prop::collection::vec((key(), any::<u32>(), prop::bool::weighted(0.6)), 0..200),
            asked in key(),
        ) {
            let (mut trie, mut map) = (Trie::new(), BTreeMap::new());
            for (key, value, insert) in steps {
                if value % 3 == 0 {
                    let before = trie.change(key, |_| insert.then_some(value));
                    prop_assert_eq!(before, if insert { map.insert(key, value) } else { map.remove(&key) });
                } else if insert {
                    prop_assert_eq!(trie.insert(key, value), map.insert(key, value));
                } else {
                    prop_assert_eq!(trie.remove(key), map.remove(&key));
                }
                prop_assert_eq!(trie.len(), map.len());
                prop_assert!(trie.nodes.len() - trie.free.len() <= 2 * map.len() + 1);
            }
            prop_assert!(map.iter().all(|(key, value)| trie.get(*key) == Some(*value)));
            let all: Vec<_> = map.iter().map(|(key, value)| (*key, *value)).collect();
            prop_assert_eq!(trie.within(Key::DEFAULT).collect::<Vec<_>>(), all.clone());
            let inside: Vec<_> = all.iter().copied().filter(|(key, _)| asked.covers(*key)).collect();
            prop_assert_eq!(trie.within(asked).collect::<Vec<_>>(), inside);
            let odd = |value: u32| value % 2 == 1;
            let around = all.iter().copied().filter(|(key, value)| key.covers(asked) && odd(*value));
            let longest = around.max_by_key(|(key, _)| key.length());
            let found = trie.longest(asked.address(), asked.length(), |key, value| odd(value).then_some((key, value)));
            prop_assert_eq!(found, longest);
            prop_assert_eq!(trie.lengths().iter().sum::<usize>(), map.len());
            // Most are removed: the others are moved together, and are found as before.
            let (gone, left): (Vec<_>, Vec<_>) = all.iter().enumerate().partition(|(at, _)| at % 8 != 0);
            for (_, (key, _)) in gone {
                trie.remove(*key);
            }
            let left: Vec<_> = left.into_iter().map(|(_, one)| *one).collect();
            trie.trim();
            prop_assert!(trie.free.len() <= trie.nodes.len() / 2);
            prop_assert_eq!(trie.within(Key::DEFAULT).collect::<Vec<_>>(), left);
            for (key, value) in &all {
                trie.insert(*key, *value);
            }
            prop_assert_eq!(trie.within(Key::DEFAULT).collect::<Vec<_>>(), all);
        }
    }
}
