//! The writer of lines: builds what lookups find from the tree of prefixes.
//!
//! A change is prepared completely, in lines that no lookup reaches, and then published with one store for each entry
//! that leads to something new. Lines that are not reachable any more are reused when every worker has begun another
//! round.

use super::lines::{
    BLOCK_SLOTS, HALF, Kind, LINE, MISS, MOST_LINES, NIBBLES, NODE, Node, PART_LENGTH, PARTS, Root, key_at,
};
use super::lookup::{Start, Table};
use super::parts::{Blocks, CROWD};
use super::ranges::Ranges;
use super::stretches::{Leaves, RANGES, Run, To, showing, stretches};
use super::trie::{NodeRef, Trie};
use super::{Key, TableFull};
use crate::bits::Bits;
use crate::memory::Pages;
use rcu::Domain;
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

pub(super) const NIBBLE: u8 = 4;
/// How many lines may be retired before they are collected: lines of one size do not serve all others.
const GIVEN_UP: usize = 4096;
/// With at least this many different entries among 256 values, each value gets a slot: this saves a step for most.
const CROWDED: usize = 16;

/// Where an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// A slot of the root.
    Slot(usize),
    /// A word of the lines.
    Word(usize),
}

/// A change that is being prepared.
#[derive(Default)]
pub(super) struct Draft {
    /// The first place, how many places from there on, and their entry.
    pub sets: Vec<(Place, usize, u32)>,
    made: Vec<(u32, Kind)>,
    gone: Vec<(u32, Kind)>,
    /// Parts that get another block, or lose theirs, when everything else is published.
    pub parts: Vec<(usize, Option<u32>)>,
    pub made_blocks: Vec<u32>,
    pub gone_blocks: Vec<u32>,
}

/// Unused lines, by their former kind.
#[derive(Default)]
struct Free([Vec<u32>; 4]);

impl Free {
    fn of(&mut self, kind: Kind) -> &mut Vec<u32> {
        // A single line serves either kind.
        let kind = if kind == Kind::Sixteen { Kind::Few } else { kind };
        &mut self.0[kind as usize]
    }

    /// Takes lines for a node from larger free ones, and frees the rest of those.
    fn split_for(&mut self, kind: Kind) -> Option<u32> {
        let larger = match kind {
            Kind::Few | Kind::Sixteen => &[Kind::Ranges, Kind::Many][..],
            Kind::Ranges => &[Kind::Many],
            Kind::Many => &[],
        };
        let from = *larger.iter().find(|larger| !self.of(**larger).is_empty())?;
        let line = self.of(from).pop()?;
        let lines = kind.lines() as u32;
        self.of(kind).extend((1..from.lines() as u32 / lines).map(|at| line + at * lines));
        Some(line)
    }
}

pub(super) struct Writer {
    table: Arc<Table>,
    domain: Arc<Domain>,
    /// The root that the table has, or that is being prepared.
    pub(super) root: Arc<Root>,
    /// Where lookups begin.
    start: Arc<Start>,
    free: Arc<Mutex<Free>>,
    /// Lines from here on were never used, up to the limit.
    fresh: u32,
    limit: u32,
    /// Lines in use.
    used: usize,
    /// Lines retired since the last collection.
    given_up: usize,
    pub(super) blocks: Blocks,
    /// See [`CROWD`].
    pub crowd: u32,
    pub(super) draft: Draft,
}

impl Writer {
    pub fn new(table: Arc<Table>, start: Arc<Start>, limit: u32, domain: &Arc<Domain>) -> Writer {
        Writer {
            table,
            domain: domain.clone(),
            root: start.root.clone(),
            start,
            free: Arc::default(),
            fresh: 0,
            limit: limit.min(MOST_LINES),
            used: 0,
            given_up: 0,
            blocks: Blocks::default(),
            crowd: CROWD,
            draft: Draft::default(),
        }
    }

    pub fn root(&self) -> &Arc<Root> {
        &self.root
    }

    /// Where lookups begin.
    pub fn start(&self) -> &Start {
        &self.start
    }

    /// Bytes that lookups read: lines, slots in use, ranges.
    pub fn memory(&self) -> usize {
        let slots = match self.root.is_large() {
            true => (1 << PART_LENGTH) + PARTS + NIBBLES + self.blocks_in_use().count() * BLOCK_SLOTS,
            false => 1,
        };
        (self.used * LINE + slots) * size_of::<u32>() + self.start.ranges.as_ref().map_or(0, |_| size_of::<Ranges>())
    }

    /// Limits the lines to this many, or to those that it has already.
    #[cfg(test)]
    pub fn limit_to(&mut self, lines: u32) {
        self.limit = self.limit.min(lines.max(self.fresh));
    }

    /// Lines in use.
    #[cfg(test)]
    pub fn used(&self) -> usize {
        self.used
    }

    /// Bytes of lines that are resident in memory.
    #[cfg(test)]
    pub fn resident(&self) -> usize {
        self.table.lines.words().resident()
    }

    /// Lines that lookups can reach.
    #[cfg(test)]
    pub fn count_reached(&self) -> usize {
        fn under(writer: &Writer, entry: u32) -> usize {
            let Some(node) = Node::of(entry) else { return 0 };
            let values = values_of(node.kind);
            let inner = values.map(|at| under(writer, writer.entry(Place::Word(node.word() + at))));
            node.kind.lines() + inner.sum::<usize>()
        }
        let singles = super::parts::parts().filter(|part| self.root.is_large() && self.root.block(*part).is_none());
        let blocks = self.blocks_in_use().flat_map(|part| self.block_of(part));
        let small = (0..1).filter(|_| !self.root.is_large());
        small.chain(singles).chain(blocks).map(|slot| under(self, self.entry(Place::Slot(slot)))).sum()
    }

    pub(super) fn at(&self, place: Place) -> &AtomicU32 {
        match place {
            Place::Slot(slot) => &self.root.slots[slot],
            Place::Word(word) => &self.table.lines.words()[word],
        }
    }

    pub(super) fn entry(&self, place: Place) -> u32 {
        self.at(place).load(Ordering::Relaxed)
    }

    fn allocate(&mut self, kind: Kind) -> Result<u32, TableFull> {
        let mut found = self.find(kind);
        if found.is_none() {
            // Some lines may be free by now, but not collected yet.
            self.domain.collect();
            found = self.find(kind);
        }
        let line = found.ok_or(TableFull)?;
        self.used += kind.lines();
        self.draft.made.push((line, kind));
        Ok(line)
    }

    /// Sorts the free lines, so that they are used in order, and not in the order in which they were freed.
    pub fn tidy(&mut self) {
        self.domain.collect();
        let mut free = self.free.lock().expect("no panic under this lock");
        free.0.iter_mut().for_each(|lines| lines.sort_unstable_by(|one, other| other.cmp(one)));
    }

    /// Frees the memory of unused lines. They are written before they are used again.
    pub fn trim(&mut self) {
        self.tidy();
        let mut free = self.free.lock().expect("no panic under this lock");
        let mut unused = Bits::new(self.fresh as usize);
        for kind in [Kind::Few, Kind::Ranges, Kind::Many] {
            let lines = free.of(kind).iter().flat_map(|line| *line..*line + kind.lines() as u32);
            lines.for_each(|line| unused.insert(line as usize));
        }
        let words = self.table.lines.words();
        if self.root.is_large() {
            words.give_units_back(&unused, LINE, self.fresh as usize, Pages::Huge);
            return;
        }
        words.give_units_back(&unused, LINE, self.fresh as usize, Pages::Small);
        self.fresh -= (0..self.fresh).rev().take_while(|line| unused.contains(*line as usize)).count() as u32;
        for lines in &mut free.0 {
            lines.retain(|line| *line < self.fresh);
            lines.shrink_to_fit();
        }
    }

    /// Finds unused lines for a node.
    fn find(&mut self, kind: Kind) -> Option<u32> {
        let mut free = self.free.lock().expect("no panic under this lock");
        if let Some(line) = free.of(kind).pop() {
            return Some(line);
        }
        // Nodes of two lines begin at even lines.
        let line = self.fresh.next_multiple_of(kind.lines().min(2) as u32);
        if line + kind.lines() as u32 > self.limit {
            return free.split_for(kind);
        }
        free.of(Kind::Few).extend(self.fresh..line);
        self.fresh = line + kind.lines() as u32;
        Some(line)
    }

    /// Publishes the prepared change.
    pub fn publish(&mut self) {
        let Draft { sets, made: _, gone, parts, made_blocks: _, gone_blocks } = std::mem::take(&mut self.draft);
        for (place, more, entry) in sets {
            match place {
                Place::Slot(first) => {
                    let slots = &self.root.slots[first..=first + more];
                    slots.iter().for_each(|slot| slot.store(entry, Ordering::Release));
                }
                Place::Word(_) => self.at(place).store(entry, Ordering::Release),
            }
        }
        parts.into_iter().for_each(|(part, block)| self.root.set_block(part, block));
        if !gone_blocks.is_empty() {
            let free = self.blocks.free.clone();
            self.domain.retire(move || free.lock().expect("no panic under this lock").extend(gone_blocks));
        }
        let lines = gone.iter().map(|(_, kind)| kind.lines()).sum::<usize>();
        self.used -= lines;
        self.given_up += lines;
        self.table.lines.note_used(self.used);
        // Ranges lead to lines, so they must be replaced before the lines are reused.
        self.publish_start();
        if gone.is_empty() {
            return;
        }
        let free = self.free.clone();
        self.domain.retire(move || {
            let mut free = free.lock().expect("no panic under this lock");
            gone.into_iter().for_each(|(line, kind)| free.of(kind).push(line));
        });
        if self.given_up >= GIVEN_UP {
            self.domain.collect();
            self.given_up = 0;
        }
    }

    /// Publishes where lookups begin.
    fn publish_start(&mut self) {
        let entry = self.root.slots[0].load(Ordering::Relaxed);
        let is_small = !self.root.is_large() && entry >= NODE;
        let ranges = if is_small { Ranges::of(&self.table.lines, entry) } else { None };
        if !Arc::ptr_eq(&self.root, &self.start.root) || ranges != self.start.ranges {
            self.start = Arc::new(Start { root: self.root.clone(), ranges });
            self.table.start.publish(self.start.clone());
        }
    }

    /// Discards the prepared change.
    pub fn give_up(&mut self) {
        let Draft { made, made_blocks, .. } = std::mem::take(&mut self.draft);
        self.blocks.free.lock().expect("no panic under this lock").extend(made_blocks);
        let mut free = self.free.lock().expect("no panic under this lock");
        for (line, kind) in made {
            self.used -= kind.lines();
            free.of(kind).push(line);
        }
    }

    /// Prepares an update of lookups after a prefix was added, removed, or its leaf has changed.
    ///
    /// # Errors
    /// When there are too few lines; then call [`Writer::give_up`].
    pub fn refresh(&mut self, trie: &Trie, key: Key, leaves: &impl Leaves) -> Result<(), TableFull> {
        if let Some((part, _)) = self.part_due(trie, key) {
            return self.renew_part(trie, part, leaves);
        }
        let Some(slot) = self.slot_of(key) else { return self.renew_wide(trie, key, leaves) };
        let before = self.entry(Place::Slot(slot));
        let after = self.changed(trie, before, self.slot_key(slot), Change { key, is_one: true }, leaves)?;
        if after != before {
            self.set(Place::Slot(slot), after);
        }
        Ok(())
    }

    /// The same after several prefixes within `span`, which is in one slot, have changed.
    ///
    /// # Errors
    /// As [`Writer::refresh`].
    pub fn renew_span(&mut self, trie: &Trie, span: Key, leaves: &impl Leaves) -> Result<(), TableFull> {
        let slot = self.root.slot_of((span.address() >> 64) as u64);
        let before = self.entry(Place::Slot(slot));
        let after = self.changed(trie, before, self.slot_key(slot), Change { key: span, is_one: false }, leaves)?;
        if after != before {
            self.set(Place::Slot(slot), after);
        }
        Ok(())
    }

    /// Rebuilds a slot.
    ///
    /// # Errors
    /// As [`Writer::refresh`].
    pub fn renew(&mut self, trie: &Trie, slot: usize, leaves: &impl Leaves) -> Result<(), TableFull> {
        let before = self.entry(Place::Slot(slot));
        let after = self.replaced(trie, before, self.slot_key(slot), leaves)?;
        if after != before {
            self.set(Place::Slot(slot), after);
        }
        Ok(())
    }

    pub(super) fn set(&mut self, place: Place, entry: u32) {
        self.draft.sets.push((place, 0, entry));
    }

    /// The new value of an entry.
    fn changed(
        &mut self,
        trie: &Trie,
        entry: u32,
        outer: Key,
        change: Change,
        leaves: &impl Leaves,
    ) -> Result<u32, TableFull> {
        let key = change.key;
        let Some(node) = Node::of(entry).filter(|node| key.length() > node.depth) else {
            if change.is_one && key.length() >= outer.length() && shows(trie, entry, key, leaves) {
                return Ok(entry);
            }
            return self.replaced(trie, entry, outer, leaves);
        };
        match node.kind {
            Kind::Few | Kind::Ranges => self.change_ranges(trie, node, outer, change, leaves),
            Kind::Sixteen | Kind::Many => {
                let stride = node.kind.stride();
                let first = (key_at(key.address(), node.depth.into()) >> (32 - stride)) as usize;
                let count = 1 << stride.saturating_sub(key.length() - node.depth);
                let mut entries: Vec<u32> =
                    (0..1 << stride).map(|at| self.entry(Place::Word(node.word() + at))).collect();
                for (at, entry) in entries.iter_mut().enumerate().skip(first).take(count) {
                    let depth = node.depth + stride;
                    let inner = Key::new(outer.address() | (at as u128) << (128 - u32::from(depth)), depth);
                    let after = self.changed(trie, *entry, inner, change, leaves)?;
                    if after != *entry {
                        self.set(Place::Word(node.word() + at), after);
                        *entry = after;
                    }
                }
                let one = entries[0];
                if Node::of(one).is_some() || entries.iter().any(|entry| *entry != one) {
                    return Ok(node.entry());
                }
                self.draft.gone.push((node.line, node.kind));
                Ok(one)
            }
        }
    }

    /// A line of ranges with a change inside.
    fn change_ranges(
        &mut self,
        trie: &Trie,
        node: Node,
        outer: Key,
        change: Change,
        leaves: &impl Leaves,
    ) -> Result<u32, TableFull> {
        let key = change.key;
        let places = values_of(node.kind);
        let ends = places.start - 1;
        let words: Vec<u32> = (0..places.end).map(|at| self.entry(Place::Word(node.word() + at))).collect();
        let granularity = words[ends] as u8;
        let range_of = |address: u128| {
            let key = key_at(address, node.depth.into());
            places.start + words[..ends].iter().filter(|end| **end < key).count()
        };
        let at = range_of(key.address());
        if change.is_one && at == range_of(key.last()) && shows(trie, words[at], key, leaves) {
            return Ok(node.entry());
        }
        if key.length() > granularity && Node::of(words[at]).is_some() {
            let after = self.changed(trie, words[at], Key::new(key.address(), granularity), change, leaves)?;
            if after != words[at] {
                self.set(Place::Word(node.word() + at), after);
            }
            let last = places.start + words[..ends].iter().filter(|end| **end != u32::MAX).count();
            let mut others = (places.start..=last).filter(|other| *other != at);
            if Node::of(after).is_some() || others.any(|other| words[other] != after) {
                return Ok(node.entry());
            }
            self.draft.gone.push((node.line, node.kind));
            return Ok(after);
        }
        // Only the changed part is rebuilt from the tree. As long as there is room, the other ranges keep their
        // entries, however much is under them.
        let span = Key::new(key.address(), key.length().min(granularity));
        let around = showing(trie, span, leaves);
        let inside = match trie.under(span) {
            Some(top) => stretches(trie, top, span, granularity, around, leaves, RANGES),
            None => Some(vec![Run { last: span.last(), to: To::Leaf(around) }]),
        };
        let known = ranges_of(node, outer, &words);
        let parts = inside.map(|inside| Parts::with(&known, span, inside));
        let Some(Parts { parts, gone }) = parts.filter(|parts| parts.parts.len() <= RANGES) else {
            return self.replaced(trie, node.entry(), outer, leaves);
        };
        let mut values = Vec::with_capacity(RANGES);
        for (_, part) in &parts {
            values.push(match *part {
                Part::Kept(entry) => entry,
                Part::New(to) => self.value(trie, to, leaves)?,
            });
        }
        gone.into_iter().for_each(|entry| self.retire(entry));
        let runs: Vec<Run> = parts.iter().map(|(last, part)| Run { last: *last, to: part.to() }).collect();
        let is_one_leaf = Node::of(values[0]).is_none() && values.iter().all(|value| *value == values[0]);
        let bounds = runs[..runs.len() - 1].iter().map(|run| key_at(run.last, node.depth.into()));
        let same = words[..ends].iter().copied().take_while(|end| *end != u32::MAX).eq(bounds);
        if same && !is_one_leaf {
            // Only what the ranges lead to has changed.
            for ((at, before), after) in words.iter().enumerate().skip(places.start).zip(&values) {
                if before != after {
                    self.set(Place::Word(node.word() + at), *after);
                }
            }
            return Ok(node.entry());
        }
        self.draft.gone.push((node.line, node.kind));
        self.line_of(outer, granularity, &runs, &values)
    }

    /// Rebuilds the entry of a prefix, and retires the old one.
    pub(super) fn replaced(
        &mut self,
        trie: &Trie,
        entry: u32,
        outer: Key,
        leaves: &impl Leaves,
    ) -> Result<u32, TableFull> {
        let after = self.build_at(trie, outer, leaves)?;
        self.retire(entry);
        Ok(after)
    }

    /// Retires everything that an entry leads to.
    pub(super) fn retire(&mut self, entry: u32) {
        let Some(node) = Node::of(entry) else { return };
        self.draft.gone.push((node.line, node.kind));
        let values = values_of(node.kind);
        for at in values {
            self.retire(self.entry(Place::Word(node.word() + at)));
        }
    }

    pub(super) fn build_at(&mut self, trie: &Trie, outer: Key, leaves: &impl Leaves) -> Result<u32, TableFull> {
        let around = showing(trie, outer, leaves);
        match trie.under(outer) {
            Some(top) => self.build(trie, top, outer, around, leaves),
            None => Ok(around),
        }
    }

    /// Builds the entry of a prefix: `top` is the topmost node within it, `around` the leaf that covers it.
    fn build(
        &mut self,
        trie: &Trie,
        top: NodeRef,
        outer: Key,
        around: u32,
        leaves: &impl Leaves,
    ) -> Result<u32, TableFull> {
        let depth = outer.length();
        let end_of_half = if depth < HALF { HALF } else { 2 * HALF };
        let finest = (depth + Kind::Ranges.stride()).min(end_of_half);
        let runs = |granularity: u8, most: usize| stretches(trie, top, outer, granularity, around, leaves, most);
        if let Some(all) = runs(finest, RANGES) {
            // If 4 bits are enough, this takes one line; as ranges it would take two.
            let sixteen = if all.len() > LINE / 2 { runs(depth + NIBBLE, RANGES) } else { None };
            return match sixteen.filter(|runs| runs.iter().all(|run| matches!(run.to, To::Leaf(_)))) {
                Some(runs) => self.slots(trie, outer, Kind::Sixteen, &runs, leaves),
                None => self.ranges(trie, outer, finest, &all, leaves),
            };
        }
        let many = depth + Kind::Many.stride();
        if many <= end_of_half
            && let Some(runs) = runs(many, usize::MAX).filter(|runs| runs.len() >= CROWDED)
        {
            return self.slots(trie, outer, Kind::Many, &runs, leaves);
        }
        // Choose the finest granularity, in nibbles (in which addresses are assigned), whose ranges all fit: then a
        // range is either full or empty below.
        let mut found = runs(depth + NIBBLE, RANGES).expect("there are not more than sixteen");
        let (mut fits, mut bursts) = (depth / NIBBLE + 1, finest / NIBBLE);
        while bursts - fits > 1 {
            let middle = fits + (bursts - fits) / 2;
            match runs(middle * NIBBLE, RANGES) {
                Some(more) => (fits, found) = (middle, more),
                None => bursts = middle,
            }
        }
        match fits * NIBBLE {
            granularity if granularity == depth + NIBBLE => self.slots(trie, outer, Kind::Sixteen, &found, leaves),
            granularity => self.ranges(trie, outer, granularity, &found, leaves),
        }
    }

    pub(super) fn value(&mut self, trie: &Trie, to: To, leaves: &impl Leaves) -> Result<u32, TableFull> {
        match to {
            To::Leaf(leaf) => Ok(leaf),
            To::On(top, outer, around) => self.build(trie, top, outer, around, leaves),
        }
    }

    fn ranges(
        &mut self,
        trie: &Trie,
        outer: Key,
        granularity: u8,
        runs: &[Run],
        leaves: &impl Leaves,
    ) -> Result<u32, TableFull> {
        let values: Result<Vec<u32>, TableFull> = runs.iter().map(|run| self.value(trie, run.to, leaves)).collect();
        self.line_of(outer, granularity, runs, &values?)
    }

    /// A line of ranges with these entries; or just the entry, if there is one and it is a leaf.
    fn line_of(&mut self, outer: Key, granularity: u8, runs: &[Run], values: &[u32]) -> Result<u32, TableFull> {
        let last = *values.last().expect("there is a range at least");
        if Node::of(last).is_none() && values.iter().all(|value| *value == last) {
            return Ok(last);
        }
        // No key is above the highest end, so values behind the last are never used.
        let kind = [Kind::Few, Kind::Ranges].into_iter().find(|kind| kind.ranges() >= Some(values.len()));
        let kind = kind.expect("there are no more than fit");
        let places = values_of(kind);
        let ends = places.start - 1;
        let mut words = vec![u32::MAX; places.end];
        words[ends] = granularity.into();
        words[places.clone()].fill(MISS);
        words[places][..values.len()].copy_from_slice(values);
        for (end, run) in words.iter_mut().zip(&runs[..runs.len() - 1]) {
            *end = key_at(run.last, outer.length().into());
        }
        let node = Node { kind, depth: outer.length(), line: self.allocate(kind)? };
        self.write(node, &words);
        Ok(node.entry())
    }

    fn slots(
        &mut self,
        trie: &Trie,
        outer: Key,
        kind: Kind,
        runs: &[Run],
        leaves: &impl Leaves,
    ) -> Result<u32, TableFull> {
        let mut words = vec![MISS; 1 << kind.stride()];
        let mut at = 0;
        for run in runs {
            let end = (key_at(run.last, outer.length().into()) >> (32 - kind.stride())) as usize + 1;
            let value = self.value(trie, run.to, leaves)?;
            words[at..end].fill(value);
            at = end;
        }
        if Node::of(words[0]).is_none() && words.iter().all(|word| *word == words[0]) {
            return Ok(words[0]);
        }
        let node = Node { kind, depth: outer.length(), line: self.allocate(kind)? };
        self.write(node, &words);
        Ok(node.entry())
    }

    /// Writes a line that no entry leads to yet.
    fn write(&self, node: Node, words: &[u32]) {
        for (place, word) in self.table.lines.words()[node.word()..].iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
    }
}

/// Where something has changed: a prefix, or several within one.
#[derive(Clone, Copy)]
struct Change {
    key: Key,
    /// Only the prefix itself has changed.
    is_one: bool,
}

/// Whether everything behind an entry already has the leaf that a changed prefix within it has now, or that covers it.
/// Then nothing changes there, and other prefixes within it, however many, need not be examined.
fn shows(trie: &Trie, entry: u32, key: Key, leaves: &impl Leaves) -> bool {
    Node::of(entry).is_none() && entry == showing(trie, key, leaves)
}

/// A part of a line of ranges in which something changes.
#[derive(Debug, Clone, Copy)]
enum Part {
    /// Its entry is unchanged.
    Kept(u32),
    /// It is rebuilt from the tree.
    New(To),
}

impl Part {
    fn to(self) -> To {
        match self {
            Part::Kept(entry) => To::Leaf(entry),
            Part::New(to) => to,
        }
    }

    /// The leaf that it leads to, if it is a leaf.
    fn leaf(self) -> Option<u32> {
        match self.to() {
            To::Leaf(entry) => Some(entry).filter(|entry| Node::of(*entry).is_none()),
            To::On(..) => None,
        }
    }
}

/// The parts of a line of ranges, each with its last address, after a change of some addresses; and the entries that
/// are not reachable any more.
#[derive(Default)]
struct Parts {
    parts: Vec<(u128, Part)>,
    gone: Vec<u32>,
}

impl Parts {
    /// Combines the known ranges outside of `span` with `inside`. A node is never divided between both.
    fn with(known: &[(u128, u128, u32)], span: Key, inside: Vec<Run>) -> Parts {
        let mut all = Parts::default();
        let mut inside = Some(inside);
        for (first, last, entry) in known.iter().copied() {
            if first < span.address() {
                all.put(last.min(span.address() - 1), Part::Kept(entry));
            }
            if last >= span.address() {
                inside.take().into_iter().flatten().for_each(|run| all.put(run.last, Part::New(run.to)));
            }
            if last > span.last() {
                all.put(last, Part::Kept(entry));
            }
            if first >= span.address() && last <= span.last() {
                all.gone.push(entry);
            }
        }
        all
    }

    /// Adds a part that reaches from the end of the last one to `last`.
    fn put(&mut self, last: u128, part: Part) {
        match self.parts.last_mut() {
            Some((end, before)) if before.leaf().is_some() && before.leaf() == part.leaf() => *end = last,
            _ => self.parts.push((last, part)),
        }
    }
}

/// The ranges of a line: the first and the last address of each, and its entry.
fn ranges_of(node: Node, outer: Key, words: &[u32]) -> Vec<(u128, u128, u32)> {
    let places = values_of(node.kind);
    let ends = places.start - 1;
    let depth = u32::from(node.depth);
    // The ends do not include bits behind a half: a range includes all of them.
    let end_of_half = u32::from(if node.depth < HALF { HALF } else { 2 * HALF });
    let rest = u128::MAX.unbounded_shr((depth + u32::BITS).min(end_of_half));
    let end_of = |word: u32| outer.address() | u128::from(word) << 96 >> depth | rest;
    let mut ranges = Vec::with_capacity(RANGES);
    let mut first = outer.address();
    for end in words[..ends].iter().take_while(|end| **end != u32::MAX) {
        let last = end_of(*end);
        ranges.push((first, last, words[places.start + ranges.len()]));
        first = last + 1;
    }
    ranges.push((first, outer.last(), words[places.start + ranges.len()]));
    ranges
}

/// Where the entries of a node are, counted from its first word.
fn values_of(kind: Kind) -> Range<usize> {
    match kind.ranges() {
        Some(ranges) => ranges..2 * ranges,
        None => 0..1 << kind.stride(),
    }
}
