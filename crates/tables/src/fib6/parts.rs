//! The parts of a large root, and blocks of slots for crowded parts.

use super::lines::{BLOCK_LENGTH, BLOCK_SLOTS, NIBBLES, PART_LENGTH, PARTS, ROOT_SLOTS, Root};
use super::stretches::{Leaves, Run, To, showing, stretches};
use super::trie::Trie;
use super::writer::{NIBBLE, Place, Writer};
use super::{Key, TableFull};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// The prefix that is divided into parts of /16.
const GLOBAL: Key = Key::new(1 << 125, 3);
/// A part of the root with this many prefixes gets a block of slots; with less than a quarter of that it loses the
/// block.
pub(super) const CROWD: u32 = 1024;

/// Blocks of slots of a large root: the part that each belongs to, and the unused ones.
#[derive(Default)]
pub(super) struct Blocks {
    parts: Vec<usize>,
    pub free: Arc<Mutex<Vec<u32>>>,
}

impl Writer {
    /// Gives the table a large root with all prefixes of the tree.
    ///
    /// # Errors
    /// When there are too few lines; then nothing has changed.
    pub fn grow(&mut self, trie: &Trie, root: Root, leaves: &impl Leaves) -> Result<(), TableFull> {
        let before = self.entry(Place::Slot(0));
        let small = std::mem::replace(&mut self.root, Arc::new(root));
        self.blocks = Blocks::default();
        if let Err(full) = parts().try_for_each(|part| self.renew_part(trie, part, leaves)) {
            self.give_up();
            self.root = small;
            return Err(full);
        }
        self.publish();
        self.retire(before);
        self.publish();
        Ok(())
    }

    /// Gives the table a small root again.
    ///
    /// # Errors
    /// As [`Writer::grow`].
    pub fn shrink(&mut self, trie: &Trie, root: Root, leaves: &impl Leaves) -> Result<(), TableFull> {
        let slots = parts().filter(|part| self.root.block(*part).is_none());
        let slots = slots.chain(self.blocks_in_use().flat_map(|part| self.block_of(part)));
        let before: Vec<u32> = slots.map(|slot| self.entry(Place::Slot(slot))).collect();
        let large = std::mem::replace(&mut self.root, Arc::new(root));
        if let Err(full) = self.renew(trie, 0, leaves) {
            self.give_up();
            self.root = large;
            return Err(full);
        }
        self.blocks = Blocks::default();
        self.publish();
        before.into_iter().for_each(|entry| self.retire(entry));
        self.publish();
        Ok(())
    }

    /// The slot of the root that contains a prefix; none: the prefix covers several.
    pub fn slot_of(&self, key: Key) -> Option<usize> {
        let upper = (key.address() >> 64) as u64;
        let part = Root::part(upper);
        let of_one = match part {
            _ if !self.root.is_large() => 0,
            0..PARTS if self.root.block(part).is_some() => BLOCK_LENGTH,
            0..PARTS => PART_LENGTH,
            _ => NIBBLE,
        };
        (key.length() >= of_one).then(|| self.root.slot_of(upper))
    }

    /// The prefix of a slot.
    pub(super) fn slot_key(&self, slot: usize) -> Key {
        if !self.root.is_large() {
            return Key::DEFAULT;
        }
        match slot.checked_sub(BLOCK_SLOTS) {
            None => part_key(slot),
            Some(slot) => {
                let part = part_key(self.blocks.parts[slot / BLOCK_SLOTS]);
                let within = (slot % BLOCK_SLOTS) as u128;
                Key::new(part.address() | within << (128 - u32::from(BLOCK_LENGTH)), BLOCK_LENGTH)
            }
        }
    }

    /// The part that contains a prefix, if the part should get a block or lose it.
    pub fn part_due(&self, trie: &Trie, key: Key) -> Option<(usize, Key)> {
        let part = Root::part((key.address() >> 64) as u64);
        let is_in_part = self.root.is_large() && part < PARTS && key.length() >= PART_LENGTH;
        (is_in_part && self.root.block(part).is_some() != self.is_crowded(trie, part)).then(|| (part, part_key(part)))
    }

    /// Whether a part should have a block.
    fn is_crowded(&self, trie: &Trie, part: usize) -> bool {
        match self.root.block(part) {
            Some(_) => trie.crowd(part) >= self.crowd / 4,
            None => trie.crowd(part) >= self.crowd && self.has_block(),
        }
    }

    /// Whether there is an unused block.
    fn has_block(&self) -> bool {
        let blocks = &self.blocks;
        (blocks.parts.len() + 1) * BLOCK_SLOTS < ROOT_SLOTS || !blocks.free.lock().expect("no panic here").is_empty()
    }

    /// Parts that have a block.
    pub(super) fn blocks_in_use(&self) -> impl Iterator<Item = usize> {
        (0..PARTS).filter(|part| self.root.block(*part).is_some())
    }

    /// The slots of a part's block.
    pub(super) fn block_of(&self, part: usize) -> Range<usize> {
        let first = self.root.block(part).map_or(0, |block| block as usize * BLOCK_SLOTS);
        first..first + BLOCK_SLOTS
    }

    /// Rebuilds all slots of a prefix that covers several.
    ///
    /// # Errors
    /// As [`Writer::refresh`].
    pub fn renew_wide(&mut self, trie: &Trie, key: Key, leaves: &impl Leaves) -> Result<(), TableFull> {
        if key.length() > PART_LENGTH {
            return self.renew_in_block(trie, key, leaves);
        }
        parts().filter(|part| key.covers(part_key(*part))).try_for_each(|part| self.renew_part(trie, part, leaves))
    }

    /// Rebuilds a part of the root. It gets or loses a block, depending on how many prefixes it has.
    ///
    /// # Errors
    /// As [`Writer::refresh`].
    pub fn renew_part(&mut self, trie: &Trie, part: usize, leaves: &impl Leaves) -> Result<(), TableFull> {
        match (self.root.block(part), self.is_crowded(trie, part)) {
            (Some(_), true) => self.renew_in_block(trie, part_key(part), leaves),
            (None, true) => self.give_block(trie, part, leaves),
            (Some(block), false) => self.take_block(trie, part, block, leaves),
            (None, false) => self.renew(trie, part, leaves),
        }
    }

    /// Rebuilds the slots of a block that a prefix covers.
    fn renew_in_block(&mut self, trie: &Trie, key: Key, leaves: &impl Leaves) -> Result<(), TableFull> {
        let mut first = self.root.slot_of((key.address() >> 64) as u64);
        for (count, to) in block_runs(trie, key, leaves) {
            let after = self.value(trie, to, leaves)?;
            let mut is_news = false;
            for slot in first..first + count {
                let before = self.entry(Place::Slot(slot));
                self.retire(before);
                is_news |= before != after;
            }
            if is_news {
                self.draft.sets.push((Place::Slot(first), count - 1, after));
            }
            first += count;
        }
        Ok(())
    }

    /// Prepares a block for a part. No lookup can reach it yet, so its slots are filled at once.
    fn give_block(&mut self, trie: &Trie, part: usize, leaves: &impl Leaves) -> Result<(), TableFull> {
        let free = self.blocks.free.lock().expect("no panic here").pop();
        let block = free.unwrap_or_else(|| {
            self.blocks.parts.push(part);
            self.blocks.parts.len() as u32
        });
        self.blocks.parts[block as usize - 1] = part;
        self.draft.made_blocks.push(block);
        let mut slots = block as usize * BLOCK_SLOTS..;
        for (count, to) in block_runs(trie, part_key(part), leaves) {
            let entry = self.value(trie, to, leaves)?;
            slots.by_ref().take(count).for_each(|slot| self.at(Place::Slot(slot)).store(entry, Ordering::Relaxed));
        }
        self.draft.parts.push((part, Some(block)));
        // A reader that has read the directory before finds the part's slot unchanged.
        self.retire(self.entry(Place::Slot(part)));
        Ok(())
    }

    /// Prepares a part to lose its block.
    fn take_block(&mut self, trie: &Trie, part: usize, block: u32, leaves: &impl Leaves) -> Result<(), TableFull> {
        let entry = self.build_at(trie, part_key(part), leaves)?;
        self.block_of(part).for_each(|slot| self.retire(self.entry(Place::Slot(slot))));
        self.set(Place::Slot(part), entry);
        self.draft.parts.push((part, None));
        self.draft.gone_blocks.push(block);
        Ok(())
    }
}

/// The parts of a large root: those of 2000::/3, and the other nibbles.
pub(super) fn parts() -> impl Iterator<Item = usize> {
    (0..PARTS + NIBBLES).filter(|part| *part < PARTS || !GLOBAL.covers(part_key(*part)))
}

/// The prefix of a part of a large root.
fn part_key(part: usize) -> Key {
    match part.checked_sub(PARTS) {
        Some(nibble) => Key::new((nibble as u128) << (128 - u32::from(NIBBLE)), NIBBLE),
        None => Key::new(GLOBAL.address() | (part as u128) << (128 - u32::from(PART_LENGTH)), PART_LENGTH),
    }
}

/// The entries of the slots of a block that a prefix covers, in order, with the number of equal slots.
fn block_runs(trie: &Trie, key: Key, leaves: &impl Leaves) -> Vec<(usize, To)> {
    let around = showing(trie, key, leaves);
    let of_key = || vec![Run { last: key.last(), to: To::Leaf(around) }];
    let runs = trie.under(key).map_or_else(of_key, |top| {
        stretches(trie, top, key, BLOCK_LENGTH, around, leaves, usize::MAX).expect("there is no limit")
    });
    let slot = |address: u128| (address >> (128 - u32::from(BLOCK_LENGTH))) as usize;
    let mut first = slot(key.address());
    let count_to = |run: Run| {
        let count = slot(run.last) + 1 - first;
        first += count;
        (count, run.to)
    };
    runs.into_iter().map(count_to).collect()
}
