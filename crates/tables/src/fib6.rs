//! IPv6 longest-prefix match for every length from 0 to 128.
//!
//! [`Fib6`] is the control side with its one writer. It knows every prefix, with a number that the table's owner chose
//! (`trie`). For workers, which hold a [`Lookup6`], it keeps a search tree whose nodes are cache lines of four-byte
//! entries (`lookup`, `writer`).
//!
//! An entry is a leaf or leads to a node. A node examines bits of the address, starting at a *depth*, in one of these
//! ways:
//!
//! - **Few** and **Ranges**: up to eight or sixteen ranges of the next 32 bits, stored as the last value of each range
//!   and its entry, in one line or two. All are compared at once. Prefixes longer than the node's *granularity* are
//!   behind the entry of a range.
//! - **Sixteen**: an entry for each value of the next 4 bits, where all of them may differ.
//! - **Many**: an entry for each value of the next 8 bits, in sixteen lines, where so many differ that this saves a
//!   step.
//!
//! So sparse parts of the address space take 32 bits a step and crowded parts are as flat as a table, whatever the
//! lengths of prefixes; a step touches one or two cache lines. A table with few prefixes begins with such an entry. As
//! long as the prefixes make no more than 64 ranges of /64s, a list of these ranges comes before it, and most addresses
//! then need no step at all (`ranges`). A larger table has a slot for each /16 of 2000::/3; a /16 with a thousand
//! prefixes has a block of slots, one for each /32. From a slot, most prefixes of the Internet are at most two lines
//! away.
//!
//! The default route is a single word, which is used for addresses without a route: adding ::/0 changes nothing else.
//!
//! A change writes new lines, and then links them with one store for each entry that leads to something new. So a
//! lookup sees the old or the new route. Old lines are reused when all workers have begun another round.

mod key;
mod lines;
#[allow(unsafe_code)] // loads of lines as vectors; invariants in the files
mod lookup;
mod parts;
mod ranges;
mod stretches;
#[cfg(test)]
mod tests;
mod trie;
mod writer;

pub use key::Key;
pub use lookup::Lookup6;

use crate::fib4::Memory;
use crate::leaf::Leaf;
use lines::{BLOCK_LENGTH, MISS, MOST_LINES, NODE, PARTS, Root};
use lookup::{Start, Table};
use rcu::Domain;
use std::io;
use std::ops::Range;
use std::sync::Arc;
use trie::Trie;
use writer::Writer;

/// A table with more prefixes than this gets a large root.
pub const MOST_SMALL: usize = 1024;

/// With this many changes at once, it pays to sort the free memory first.
const MANY: usize = 1024;
/// A neighbourhood is rebuilt as a whole if at least one of this many of its prefixes changes,
const CLOSE: usize = 4;
/// or if it has no more prefixes than this,
const FEW: usize = 64;
/// and never if it has more than this: a rebuild takes a few milliseconds.
const PIECE: usize = 16_384;
/// A neighbourhood with more prefixes is divided into spans that are this many bits longer.
const NIBBLE_BITS: u8 = 4;

/// No lines are left for a prefix. Nothing was changed. Lines that a change freed can be used when all workers have
/// begun another round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableFull;

impl std::fmt::Display for TableFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the IPv6 table has no room for another prefix")
    }
}
impl std::error::Error for TableFull {}

/// How large a table may get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Lines of 64 bytes that lookups may use, at most [`Options::MOST_LINES`]. The Internet's table takes about one
    /// for every four routes.
    pub lines: u32,
}

impl Options {
    /// As many as entries can address: 128 MiB.
    pub const MOST_LINES: u32 = MOST_LINES;
}

impl Default for Options {
    fn default() -> Options {
        Options { lines: Options::MOST_LINES }
    }
}

/// What a table asks its owner while many routes change.
pub trait Routes<C> {
    /// The leaf that a number stands for; [`Leaf::MISS`] while its prefix must not be used.
    fn leaf(&self, value: u32) -> Leaf;
    /// Applies a change to a prefix: gets its present number, and returns its new one. The old number must stay valid
    /// until the whole change is done.
    fn merge(&mut self, key: Key, value: Option<u32>, change: C) -> Option<u32>;
    /// There was no room for the result of a merge: the owner undoes it, and the prefix gets its old number back.
    /// Merges of one prefix are undone in reverse order.
    fn refuse(&mut self, key: Key, before: Option<u32>, after: Option<u32>, change: C);
}

/// A range of the sorted prefixes that are changed together.
struct Group {
    /// The span that they are in, if it holds many other prefixes; none: they may be anywhere.
    span: Option<Key>,
    keys: Range<usize>,
}

/// The control side of an IPv6 table: prefixes, each with a number that its owner translates to a leaf.
pub struct Fib6 {
    trie: Trie,
    table: Arc<Table>,
    writer: Writer,
    /// With more prefixes than this it gets a large root.
    most_small: usize,
    /// See [`FEW`] and [`PIECE`].
    few: usize,
    piece: usize,
}

impl Fib6 {
    /// An empty table with the default [`Options`], read by the readers of `domain`.
    ///
    /// # Errors
    /// When the address space (128 MiB of it, hardly any memory) cannot be reserved.
    pub fn new(domain: &Arc<Domain>) -> io::Result<Fib6> {
        Fib6::with_options(domain, Options::default())
    }

    /// An empty table.
    ///
    /// # Errors
    /// As [`Fib6::new`]; and `InvalidInput` for more than [`Options::MOST_LINES`].
    pub fn with_options(domain: &Arc<Domain>, options: Options) -> io::Result<Fib6> {
        if options.lines > Options::MOST_LINES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let start = Arc::new(Start { root: Arc::new(Root::small()?), ranges: None });
        let table = Arc::new(Table::new(domain, start.clone())?);
        let writer = Writer::new(table.clone(), start, options.lines, domain);
        Ok(Fib6 { trie: Trie::new(), table, writer, most_small: MOST_SMALL, few: FEW, piece: PIECE })
    }

    /// The data side, for workers.
    pub fn handle(&self) -> Lookup6 {
        Lookup6::new(self.table.clone())
    }

    /// Adds a prefix, or replaces its number and returns the old one. `leaf` translates the numbers in the table
    /// ([`Routes::leaf`]).
    ///
    /// # Errors
    /// [`TableFull`], and then nothing has changed.
    pub fn insert(&mut self, key: Key, value: u32, leaf: impl Fn(u32) -> Leaf) -> Result<Option<u32>, TableFull> {
        let before = self.trie.insert(key, value);
        if before.map_or(Leaf::MISS, &leaf) != leaf(value)
            && let Err(full) = self.repaint(key, leaf)
        {
            self.put_back(key, before);
            return Err(full);
        }
        Ok(before)
    }

    /// Removes a prefix and returns its number; its addresses then match the next shorter prefix.
    ///
    /// # Errors
    /// [`TableFull`], and then nothing has changed: the addresses behind one entry may need several entries now.
    pub fn remove(&mut self, key: Key, leaf: impl Fn(u32) -> Leaf) -> Result<Option<u32>, TableFull> {
        let Some(removed) = self.trie.remove(key) else { return Ok(None) };
        if let Err(full) = self.repaint(key, leaf) {
            self.put_back(key, Some(removed));
            return Err(full);
        }
        Ok(Some(removed))
    }

    fn put_back(&mut self, key: Key, value: Option<u32>) {
        match value {
            Some(value) => self.trie.insert(key, value),
            None => self.trie.remove(key),
        };
    }

    /// Updates lookups after the leaf of a prefix's number has changed.
    ///
    /// # Errors
    /// [`TableFull`], and then lookups are unchanged.
    pub fn repaint(&mut self, key: Key, leaf: impl Fn(u32) -> Leaf) -> Result<(), TableFull> {
        let leaf = checked(leaf);
        if key.length() == 0 {
            self.table.set_default(self.trie.get(key).map_or(Leaf::MISS, leaf));
            return Ok(());
        }
        if self.grow(self.trie.len(), &leaf) {
            return Ok(()); // it was just built from the tree
        }
        let done = self.writer.refresh(&self.trie, key, &leaf);
        self.settle(done)
    }

    /// Publishes the prepared change, or discards it.
    fn settle(&mut self, done: Result<(), TableFull>) -> Result<(), TableFull> {
        match done {
            Ok(()) => self.writer.publish(),
            Err(_) => self.writer.give_up(),
        }
        done
    }

    /// Gives a table of this many prefixes a large root, if it has none. Without one it only is slower: if there is no
    /// room, it tries again with an eighth more prefixes.
    fn grow(&mut self, prefixes: usize, leaf: &impl Fn(u32) -> Leaf) -> bool {
        if prefixes <= self.most_small || self.writer.root().is_large() {
            return false;
        }
        // Lines are adjacent: this many fill large pages.
        self.table.lines.words().want_large_pages(true);
        self.trie.count_crowds();
        let grown = Root::large().is_ok_and(|root| self.writer.grow(&self.trie, root, leaf).is_ok());
        if !grown {
            self.most_small = prefixes + prefixes / 8;
        }
        grown
    }

    /// Frees memory that holds nothing any more. For when there is time, and when removed routes will not return at
    /// once.
    pub fn trim(&mut self, leaf: impl Fn(u32) -> Leaf) {
        // A small root then gets the lowest lines.
        self.writer.tidy();
        if self.writer.root().is_large()
            && self.trie.len() <= self.most_small / 2
            && Root::small().is_ok_and(|root| self.writer.shrink(&self.trie, root, &checked(leaf)).is_ok())
        {
            self.trie.forget_crowds();
            self.table.lines.words().want_large_pages(false);
        }
        self.trie.trim();
        self.writer.trim();
    }

    /// Updates lookups after the leaves of some numbers have changed: examines every prefix.
    ///
    /// # Errors
    /// As [`Fib6::repaint`].
    pub fn repaint_where(
        &mut self,
        changed: impl Fn(u32) -> bool,
        leaf: impl Fn(u32) -> Leaf,
    ) -> Result<(), TableFull> {
        let keys: Vec<Key> = self.iter().filter(|(_, value)| changed(*value)).map(|(key, _)| key).collect(); // in order
        self.repaint_all(&keys, leaf)
    }

    /// The same after the leaves of the numbers of some prefixes, in order, have changed.
    ///
    /// # Errors
    /// As [`Fib6::repaint`].
    pub fn repaint_all(&mut self, keys: &[Key], leaf: impl Fn(u32) -> Leaf) -> Result<(), TableFull> {
        let leaf = checked(leaf);
        for Group { span, keys: some } in self.groups(keys) {
            self.refresh_group(span, &keys[some], &leaf)?;
        }
        Ok(())
    }

    /// Whether two prefixes are best changed together, as long as there are not very many: their neighbourhood is
    /// rebuilt as a whole.
    pub fn are_near(one: Key, other: Key) -> bool {
        let near_of = |key: Key| match Root::part((key.address() >> 64) as u64) {
            0..PARTS => key.address() >> (128 - u32::from(BLOCK_LENGTH)),
            nibble => nibble as u128,
        };
        near_of(one) == near_of(other)
    }

    /// Divides sorted prefixes into groups that are changed one after the other. Most prefixes are in one group. Where
    /// very many prefixes are close together, each group is a span, so that lookups there are not rebuilt as a whole.
    fn groups(&self, keys: &[Key]) -> Vec<Group> {
        let mut groups = Vec::new();
        let mut together = 0;
        let mut at = 0;
        while at < keys.len() && self.trie.len() + keys.len() > self.few {
            let slot = self.writer.slot_of(keys[at]).map(|slot| self.writer.slot_key(slot));
            let span = slot.filter(|span| span.length() > 0 || keys[at].length() > 0);
            let run = span.map_or(1, |span| keys[at..].iter().take_while(|key| span.covers(**key)).count());
            let is_crowded = |span: &Key| !self.trie.has_at_most(*span, (CLOSE * run).clamp(self.few, self.piece));
            if let Some(span) = span.filter(is_crowded) {
                groups.extend((together < at).then_some(Group { span: None, keys: together..at }));
                self.spans(span, keys, at..at + run, &mut groups);
                together = at + run;
            }
            at += run;
        }
        groups.extend((together < keys.len()).then_some(Group { span: None, keys: together..keys.len() }));
        let defaults = keys.iter().take_while(|key| key.length() == 0).count();
        if defaults > 0 && groups.len() > 1 {
            // The default route is added first and removed last, so that no address is ever without a route if it has
            // one before and after.
            groups[0].keys.start = defaults;
            groups.retain(|group| !group.keys.is_empty());
            let at = if self.trie.get(Key::DEFAULT).is_some() { groups.len() } else { 0 };
            groups.insert(at, Group { span: None, keys: 0..defaults });
        }
        groups
    }

    /// Divides the prefixes of a span, in order, into groups.
    fn spans(&self, span: Key, keys: &[Key], some: Range<usize>, groups: &mut Vec<Group>) {
        let depth = span.length() + NIBBLE_BITS;
        if some.len() == 1 || depth > 128 || self.trie.has_at_most(span, (CLOSE * some.len()).min(self.piece)) {
            groups.push(Group { span: Some(span), keys: some });
            return;
        }
        let mut at = some.start;
        while at < some.end {
            // A short prefix covers several of the inner spans.
            let inner = Key::new(keys[at].address(), depth.min(keys[at].length()));
            let within =
                keys[at..some.end].iter().take_while(|key| inner.length() == depth && inner.covers(**key)).count();
            let end = at + within.max(1);
            self.spans(inner, keys, at..end, groups);
            at = end;
        }
    }

    /// Updates lookups for the prefixes of a group, in order: all or none.
    fn refresh_group(&mut self, span: Option<Key>, keys: &[Key], leaf: impl Fn(u32) -> Leaf) -> Result<(), TableFull> {
        let is_in_slot = |span: &Key| self.writer.slot_of(*span).is_some();
        let is_due = |key: &Key| self.writer.part_due(&self.trie, *key).is_some();
        match span.filter(is_in_slot) {
            // A single prefix has a more exact way.
            Some(span) if keys.len() > 1 && !is_due(&keys[0]) => {
                let done = self.writer.renew_span(&self.trie, span, &leaf);
                self.settle(done)
            }
            _ => self.refresh_all(keys, leaf),
        }
    }

    /// Updates lookups for many prefixes, in order, at once: all or none.
    fn refresh_all(&mut self, keys: &[Key], leaf: impl Fn(u32) -> Leaf) -> Result<(), TableFull> {
        let mut done = Ok(());
        let longer = &keys[keys.iter().take_while(|key| key.length() == 0).count()..];
        if let [key] = longer {
            done = self.writer.refresh(&self.trie, *key, &leaf);
        } else {
            let mut slots: Vec<usize> = Vec::new();
            // Prefixes within a wide one are rebuilt with it.
            let mut wide: Option<Key> = None;
            for key in longer {
                if wide.is_some_and(|wide| wide.covers(*key)) {
                    continue;
                }
                if let Some((part, all)) = self.writer.part_due(&self.trie, *key) {
                    wide = Some(all);
                    done = done.and_then(|()| self.writer.renew_part(&self.trie, part, &leaf));
                } else if let Some(slot) = self.writer.slot_of(*key) {
                    slots.extend(Some(slot).filter(|slot| slots.last() != Some(slot)));
                } else {
                    wide = Some(*key);
                    done = done.and_then(|()| self.writer.renew_wide(&self.trie, *key, &leaf));
                }
            }
            // In order, except for those of nibbles, which come after the others.
            slots.sort();
            slots.dedup();
            for slot in slots {
                done = done.and_then(|()| self.writer.renew(&self.trie, slot, &leaf));
            }
        }
        if done.is_err() || longer.len() == keys.len() {
            return self.settle(done);
        }
        // The default route is added first and removed last, so that no address is ever without a route if it has one
        // before and after.
        let default = self.trie.get(Key::DEFAULT).map_or(Leaf::MISS, leaf);
        if default != Leaf::MISS {
            self.table.set_default(default);
        }
        self.writer.publish();
        if default == Leaf::MISS {
            self.table.set_default(default);
        }
        Ok(())
    }

    /// Changes many prefixes at once, which costs a fraction of as many single changes. A lookup sees each prefix
    /// before or after its change. `changes` is reordered, but changes of the same prefix are made in their order.
    pub fn change<C: Copy>(&mut self, changes: &mut [(Key, C)], routes: &mut impl Routes<C>) {
        sort(changes);
        self.change_sorted(changes, routes);
    }

    /// The same for changes, or a part of them, in the order of [`sort`].
    pub fn change_sorted<C: Copy>(&mut self, changes: &[(Key, C)], routes: &mut impl Routes<C>) {
        if changes.len() >= MANY {
            self.trie.tidy();
            self.writer.tidy();
        }
        self.grow(self.trie.len() + changes.len(), &checked(|value| routes.leaf(value)));
        let keys: Vec<Key> = changes.iter().map(|(key, _)| *key).collect();
        for Group { span, keys } in self.groups(&keys) {
            self.change_group(span, &changes[keys], routes);
        }
    }

    fn change_group<C: Copy>(&mut self, span: Option<Key>, changes: &[(Key, C)], routes: &mut impl Routes<C>) {
        let mut made = Vec::with_capacity(changes.len());
        let mut stale = Vec::new();
        for (key, change) in changes.iter().copied() {
            let (mut old, mut after) = (Leaf::MISS, None);
            let before = self.trie.change(key, |before| {
                // A merge may change the meaning of the number.
                old = before.map_or(Leaf::MISS, |value| routes.leaf(value));
                after = routes.merge(key, before, change);
                after
            });
            made.push((key, before, after, change));
            if old != after.map_or(Leaf::MISS, |value| routes.leaf(value)) && stale.last() != Some(&key) {
                stale.push(key);
            }
        }
        if self.refresh_group(span, &stale, checked(|value| routes.leaf(value))).is_err() {
            self.change_one_by_one(&made, &stale, routes);
        }
    }

    /// Publishes changes one by one as far as there is room; together they had none. All of them are in the tree now.
    fn change_one_by_one<C: Copy>(
        &mut self,
        made: &[(Key, Option<u32>, Option<u32>, C)],
        stale: &[Key],
        routes: &mut impl Routes<C>,
    ) {
        made.iter().rev().for_each(|(key, before, ..)| self.put_back(*key, *before));
        let (mut groups, mut rest) = (Vec::new(), made);
        while let Some((key, ..)) = rest.first() {
            let (group, behind) = rest.split_at(rest.iter().take_while(|(other, ..)| other == key).count());
            groups.push(group);
            rest = behind;
        }
        // The default route always has room; it is added first and removed last.
        if let Some([(Key::DEFAULT, _, None, _), ..] | [.., (Key::DEFAULT, _, None, _)]) = groups.first() {
            groups.rotate_left(1);
        }
        for group in groups {
            let (first, last) = (&group[0], &group[group.len() - 1]);
            self.put_back(last.0, last.2);
            if stale.binary_search(&last.0).is_ok() && self.repaint(last.0, |value| routes.leaf(value)).is_err() {
                self.put_back(first.0, first.1);
                for (key, before, after, change) in group.iter().rev() {
                    routes.refuse(*key, *before, *after, *change);
                }
            }
        }
    }

    /// The leaf that lookups find at present, the default route included. For audits.
    pub fn shown(&self, address: u128) -> Leaf {
        match self.table.lines.follow(self.writer.start().entry(address), address) {
            MISS => self.table.default(),
            leaf => Leaf(leaf),
        }
    }

    /// The number of this exact prefix.
    pub fn get(&self, key: Key) -> Option<u32> {
        self.trie.get(key)
    }

    /// The longest prefix of at most `length` bits that contains an address (host order) and for which `is` returns a
    /// value; returns that value.
    pub fn longest<R>(&self, address: u128, length: u8, is: impl FnMut(Key, u32) -> Option<R>) -> Option<R> {
        self.trie.longest(address, length, is)
    }

    /// All prefixes, ordered by address, and then by length, the shorter first.
    pub fn iter(&self) -> impl Iterator<Item = (Key, u32)> + '_ {
        self.trie.within(Key::DEFAULT)
    }

    /// The prefixes after a given one, which need not be in the table, in the same order.
    pub fn behind(&self, key: Key) -> impl Iterator<Item = (Key, u32)> + '_ {
        let inside = self.trie.within(key).filter(move |(inner, _)| *inner != key);
        // Then the prefixes to the right of it, the nearest first.
        let beside = (1..=key.length()).rev().filter_map(move |length| {
            let bit = 1 << (u128::BITS - u32::from(length));
            (key.address() & bit == 0).then(|| Key::new(key.address() | bit, length))
        });
        inside.chain(beside.flat_map(|outer| self.trie.within(outer)))
    }

    /// How many prefixes there are.
    pub fn len(&self) -> usize {
        self.trie.len()
    }

    /// Whether there are no prefixes.
    pub fn is_empty(&self) -> bool {
        self.trie.len() == 0
    }

    /// How many prefixes there are of each length, 0 to 128.
    pub fn lengths(&self) -> &[usize; 129] {
        self.trie.lengths()
    }

    /// Approximate bytes of memory for lookups and bookkeeping.
    pub fn memory(&self) -> Memory {
        Memory { lookup: self.writer.memory(), prefixes: self.trie.memory() }
    }
}

/// A stable sort of changes by their keys. Most keys differ in the upper half of the address: sorting only these
/// halves, with their positions, moves a third of the bytes.
pub fn sort<C: Copy>(changes: &mut [(Key, C)]) {
    let upper = |key: Key| (key.address() >> 64) << 64;
    let mut order: Vec<u128> = changes.iter().enumerate().map(|(at, (key, _))| upper(*key) | at as u128).collect();
    if order.is_sorted() && changes.is_sorted_by_key(|(key, _)| *key) {
        return;
    }
    order.sort_unstable();
    let mut sorted: Vec<(Key, C)> = order.into_iter().map(|place| changes[place as u64 as usize]).collect();
    let alike = sorted.chunk_by_mut(|(one, _), (other, _)| upper(*one) == upper(*other));
    alike.for_each(|alike| alike.sort_by_key(|(key, _)| *key));
    changes.copy_from_slice(&sorted);
}

/// Checks that no leaf has a class that entries use for another purpose.
fn checked(leaf: impl Fn(u32) -> Leaf) -> impl Fn(u32) -> Leaf {
    move |value| {
        let leaf = leaf(value);
        assert!(leaf.0 < NODE, "not a leaf: {leaf:?}");
        leaf
    }
}
