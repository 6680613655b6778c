//! IPv4 longest-prefix match for every length from 0 to 32.
//!
//! [`Fib4`] is the control side with its one writer. It knows every prefix, with a number that the table's owner chose
//! (`tree`). For workers, which hold a [`Lookup4`], it keeps one of two forms of the same routes:
//!
//! - **Slots** (`slots`), for speed: DIR-24-8 (Gupta, Lin, McKeown, "Routing lookups in hardware at memory access
//!   speeds", INFOCOM 1998). The first level has a slot for each /24, so that nearly every address is
//!   resolved by one load. A /24 that holds longer prefixes continues in a second-level page with a slot for
//!   each address. The address space is reserved at the start and never moves; memory is used only where routes are.
//! - **Ranges** (`ranges`), for few routes: a sorted array that is rebuilt with each change, two kilobytes for a
//!   hundred routes. A table that outgrows it gets slots.
//!
//! The default route is a single word, which is used for addresses without a route: adding 0.0.0.0/0 changes nothing
//! else.
//!
//! Each slot changes by one atomic store, so a lookup sees the old or the new route. A slot that turns into a
//! page is switched after the page is filled; a page that is no longer needed is unlinked and reused only after
//! all workers have moved on.

mod key;
#[allow(unsafe_code)] // gathers and prefetches; invariants in the file
mod lookup;
mod ranges;
mod slots;
#[cfg(test)]
mod tests;
mod tree;

pub use crate::kernel::Kernel;
pub use key::Key;
pub use lookup::{Ahead, Lookup4};

use crate::leaf::Leaf;
use crate::memory::Pages;
use lookup::{CONTINUED, Form, MISS, PAGE_SLOTS, SLOT_MASK, Table};
use ranges::Ranges;
use rcu::Domain;
use slots::Painter;
use std::io;
use std::sync::Arc;
use tree::{Root, Tree};

/// Prefixes longer than this live in second-level pages.
const FIRST_LEVEL_LENGTH: u8 = 24;
/// A table of ranges with more prefixes than this is converted to slots.
pub const MOST_RANGES: usize = 1024;

/// No second-level page is left for a prefix longer than /24. Nothing was changed. Pages of removed prefixes are freed
/// by [`Domain::collect`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableFull;

impl std::fmt::Display for TableFull {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the IPv4 table has no room for another /24 with longer prefixes in it")
    }
}
impl std::error::Error for TableFull {}

/// How large a table may get, and which memory it uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// How many /24s may hold longer prefixes at a time, at most
    /// [`Options::MOST_PAGES`]. Each costs 1 KiB when in use.
    pub second_level_pages: u32,
    /// Ask for transparent huge pages from the first route on; each 8 million addresses with a route then cost 2 MiB. A
    /// table of many routes asks for them by itself.
    pub huge_pages: bool,
    /// Use slots from the first route on.
    pub begins_with_slots: bool,
}

impl Options {
    /// As many pages as slot numbers below the mark can name.
    pub const MOST_PAGES: u32 = (SLOT_MASK + 1) / PAGE_SLOTS as u32;
}

impl Default for Options {
    /// Room for longer prefixes in 262,144 /24s; small pages; slots from the start.
    fn default() -> Options {
        Options { second_level_pages: 1 << 18, huge_pages: false, begins_with_slots: true }
    }
}

/// What a table asks its owner while many routes change.
pub trait Routes<C> {
    /// The leaf that a number stands for; [`Leaf::MISS`] while its prefix must not be used.
    fn leaf(&self, value: u32) -> Leaf;
    /// Applies a change to a prefix: gets its present number, and returns its new one.
    fn merge(&mut self, key: Key, value: Option<u32>, change: C) -> Option<u32>;
    /// There was no room for this prefix: its number is unchanged.
    fn refuse(&mut self, key: Key, change: C);
}

/// The control side of an IPv4 table: prefixes, each with a number that its owner translates to a leaf.
pub struct Fib4 {
    tree: Tree,
    table: Arc<Table>,
    /// The writer's bookkeeping of slots; none while the table has ranges.
    painter: Option<Painter>,
    /// Bytes of the ranges.
    ranges: usize,
    options: Options,
    domain: Arc<Domain>,
}

impl Fib4 {
    /// An empty table with the default [`Options`], read by the readers of `domain`.
    ///
    /// # Errors
    /// When the address space (320 MiB of it, hardly any memory) cannot be reserved.
    pub fn new(domain: &Arc<Domain>) -> io::Result<Fib4> {
        Fib4::with_options(domain, Options::default())
    }

    /// An empty table.
    ///
    /// # Errors
    /// As [`Fib4::new`]; and `InvalidInput` for more than [`Options::MOST_PAGES`].
    pub fn with_options(domain: &Arc<Domain>, options: Options) -> io::Result<Fib4> {
        if options.second_level_pages > Options::MOST_PAGES {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let painter = options.begins_with_slots.then(|| painter(options, domain)).transpose()?;
        let form = match &painter {
            Some(painter) => Form::Slots(painter.slots().clone()),
            None => Form::Ranges(Ranges::new(std::iter::empty())),
        };
        let table = Arc::new(Table::new(domain, form));
        Ok(Fib4 { tree: Tree::new(), table, painter, ranges: 0, options, domain: domain.clone() })
    }

    /// The data side, for workers.
    pub fn handle(&self) -> Lookup4 {
        Lookup4::new(self.table.clone())
    }

    /// Adds a prefix, or replaces its number and returns the old one. `leaf` translates the numbers in the table
    /// ([`Routes::leaf`]).
    ///
    /// # Errors
    /// [`TableFull`], and then nothing has changed. Replacing never fails, nor does a
    /// prefix of up to 24 bits.
    pub fn insert(&mut self, key: Key, value: u32, leaf: impl Fn(u32) -> Leaf) -> Result<Option<u32>, TableFull> {
        let before = self.tree.get(key);
        if before.is_none()
            && key.length() > FIRST_LEVEL_LENGTH
            && let Some(painter) = &mut self.painter
        {
            painter.enter_page(key)?;
        }
        self.tree.insert(key, value);
        if before.map_or(Leaf::MISS, &leaf) != leaf(value) {
            self.repaint(key, leaf);
        }
        Ok(before)
    }

    /// Removes a prefix and returns its number; its addresses then match the next shorter prefix.
    pub fn remove(&mut self, key: Key, leaf: impl Fn(u32) -> Leaf) -> Option<u32> {
        let removed = self.tree.remove(key)?;
        self.repaint(key, leaf);
        if key.length() > FIRST_LEVEL_LENGTH
            && let Some(painter) = &mut self.painter
        {
            painter.leave_page(key);
        }
        Some(removed)
    }

    /// Prefetches the memory that an operation on a prefix will need, while the caller does other work. Optional.
    #[inline]
    pub fn prepare(&self, key: Key) {
        if let Some(painter) = &self.painter {
            painter.prepare(key);
        }
        self.tree.prepare(key);
    }

    /// Updates lookups after the leaf of a prefix's number has changed.
    pub fn repaint(&mut self, key: Key, leaf: impl Fn(u32) -> Leaf) {
        let leaf = checked(leaf);
        if key.length() == 0 {
            self.table.set_default(self.tree.get(key).map_or(Leaf::MISS, leaf));
            return;
        }
        match &mut self.painter {
            Some(painter) => painter.paint(&self.tree, key, leaf),
            None => self.form_ranges(leaf),
        }
    }

    /// Updates lookups after the leaves of some numbers have changed: examines every prefix.
    pub fn repaint_where(&mut self, changed: impl Fn(u32) -> bool, leaf: impl Fn(u32) -> Leaf) {
        let mut keys = Vec::new();
        self.tree.each(|key, value| keys.extend(changed(value).then_some(key)));
        self.repaint_all(&keys, leaf);
    }

    /// The same after the leaves of the numbers of some prefixes have changed.
    pub fn repaint_all(&mut self, keys: &[Key], leaf: impl Fn(u32) -> Leaf) {
        if keys.contains(&Key::DEFAULT) {
            self.repaint(Key::DEFAULT, &leaf);
        }
        if keys.is_empty() {
            return;
        }
        if let Some(painter) = &mut self.painter {
            keys.iter().for_each(|key| painter.mark(*key));
        }
        self.paint_marked(leaf);
    }

    /// Changes many prefixes at once, which costs a fraction of as many single changes. A lookup sees each prefix
    /// before or after its change. `changes` is reordered, but changes of the same prefix are made in their order.
    pub fn change<C: Copy>(&mut self, changes: &mut Vec<(Key, C)>, routes: &mut impl Routes<C>) {
        sort(changes);
        self.change_sorted(changes, routes);
    }

    /// The same for changes, or a part of them, in the order of [`sort`].
    pub fn change_sorted<C: Copy>(&mut self, changes: &[(Key, C)], routes: &mut impl Routes<C>) {
        if self.painter.is_none() && self.tree.len() + changes.len() > MOST_RANGES {
            // If the changes turn out to need no slots, the table merely gets them early.
            self.form_slots(|value| routes.leaf(value));
        }
        if let Some(painter) = &mut self.painter {
            painter.expect(self.tree.len() + changes.len());
        }
        let mut leaving = Vec::new();
        let mut default = false;
        let mut rest = changes;
        while let Some(((first, _), _)) = rest.split_first() {
            let sixteen = first.address() >> 16;
            let end = rest.iter().position(|(key, _)| key.address() >> 16 != sixteen).unwrap_or(rest.len());
            let (group, behind) = rest.split_at(end);
            rest = behind;
            default |= self.change_sixteen(group, routes, &mut leaving);
        }
        // The default route is added first and removed last, so that no address is ever without a route if it has one
        // before and after.
        let stays = self.tree.get(Key::DEFAULT).is_some_and(|value| routes.leaf(value) != Leaf::MISS);
        if default && stays {
            self.repaint(Key::DEFAULT, |value| routes.leaf(value));
        }
        self.paint_marked(|value| routes.leaf(value));
        if default && !stays {
            self.repaint(Key::DEFAULT, |value| routes.leaf(value));
        }
        if let Some(painter) = &mut self.painter {
            leaving.into_iter().for_each(|key| painter.leave_page(key));
        }
    }

    /// Changes that begin in one /16. Returns whether the default route changed.
    fn change_sixteen<C: Copy>(
        &mut self,
        group: &[(Key, C)],
        routes: &mut impl Routes<C>,
        leaving: &mut Vec<Key>,
    ) -> bool {
        /// Fewer changes than this are cheaper one by one.
        const WORTH_UNPACKING: usize = 4;
        let root = Root::at(group[0].0.address(), 16);
        let in_piece = |key: &Key| Root::of(*key) == root;
        let (mut default, mut stale) = (false, false);
        let together = group.iter().filter(|(key, _)| in_piece(key));
        let is_worth_it = together.clone().count() >= WORTH_UNPACKING;
        if is_worth_it {
            self.tree.change(root, together.copied(), |key, before, change| {
                let old = before.map_or(Leaf::MISS, |value| routes.leaf(value));
                let after = routes.merge(key, before, change);
                stale |= old != after.map_or(Leaf::MISS, |value| routes.leaf(value));
                after
            });
            if stale && let Some(painter) = &mut self.painter {
                painter.mark(root.key(1));
            }
        }
        for (key, change) in group.iter().copied().filter(|(key, _)| !(is_worth_it && in_piece(key))) {
            let before = self.tree.get(key);
            let is_long = key.length() > FIRST_LEVEL_LENGTH;
            if let Some(painter) = self.painter.as_mut().filter(|_| is_long && before.is_none())
                && painter.enter_page(key).is_err()
            {
                routes.refuse(key, change);
                continue;
            }
            let old = before.map_or(Leaf::MISS, |value| routes.leaf(value));
            let after = routes.merge(key, before, change);
            match after {
                Some(value) => self.tree.insert(key, value),
                None => self.tree.remove(key),
            };
            if is_long && after.is_none() {
                leaving.push(key);
            }
            if old != after.map_or(Leaf::MISS, |value| routes.leaf(value)) {
                default |= key.length() == 0;
                if let Some(painter) = self.painter.as_mut().filter(|_| key.length() > 0) {
                    painter.mark(key);
                }
            }
        }
        default
    }

    fn paint_marked(&mut self, leaf: impl Fn(u32) -> Leaf) {
        let leaf = checked(leaf);
        match &mut self.painter {
            Some(painter) => {
                painter.paint_stale(&self.tree, leaf);
                painter.settle();
            }
            None => self.form_ranges(leaf),
        }
    }

    fn form_ranges(&mut self, leaf: impl Fn(u32) -> Leaf) {
        if self.tree.len() > MOST_RANGES && self.form_slots(&leaf) {
            return;
        }
        let routes = self.tree.from(Key::DEFAULT).map(|(key, value)| (key, leaf(value)));
        let ranges = Ranges::new(routes.filter(|(key, leaf)| key.length() > 0 && *leaf != Leaf::MISS));
        self.ranges = ranges.memory();
        self.table.form.publish(Form::Ranges(ranges));
    }

    /// Converts the table to slots. False: there is no address space for them, or there are too few pages. Then it
    /// keeps its ranges, whatever its size.
    fn form_slots(&mut self, leaf: impl Fn(u32) -> Leaf) -> bool {
        let Ok(mut painter) = painter(self.options, &self.domain) else { return false };
        let mut all_fit = true;
        self.tree.each(|key, _| {
            painter.mark(key);
            all_fit &= key.length() <= FIRST_LEVEL_LENGTH || painter.enter_page(key).is_ok();
        });
        if !all_fit {
            return false;
        }
        painter.paint_stale(&self.tree, checked(leaf));
        self.table.form.publish(Form::Slots(painter.slots().clone()));
        self.painter = Some(painter);
        self.ranges = 0;
        true
    }

    /// Adapts lookups to the number of slots in use: how they prefetch them, and whether these are in large pages. To
    /// be called now and then after routes were added one by one; a batch does it by itself.
    pub fn settle(&mut self) {
        if let Some(painter) = &mut self.painter {
            painter.expect(self.tree.len());
            painter.settle();
        }
    }

    /// Frees memory that holds nothing any more. For when there is time, and when removed routes will not return at
    /// once: getting a new page of memory takes longer than filling it.
    pub fn trim(&mut self) {
        if let Some(painter) = &mut self.painter {
            painter.trim(self.tree.len());
        }
    }

    /// The leaf that lookups in slots find at present, the default route included; none while the table has ranges. For
    /// audits.
    pub fn shown(&self, address: u32) -> Option<Leaf> {
        let painter = self.painter.as_ref()?;
        Some(Leaf(painter.slots().slot(address))).map(|leaf| match leaf {
            Leaf::MISS => self.table.default(),
            leaf => leaf,
        })
    }

    /// The number of this exact prefix.
    pub fn get(&self, key: Key) -> Option<u32> {
        self.tree.get(key)
    }

    /// The longest prefix of at most `length` bits that contains an address (host order) and for which `is` returns a
    /// value; returns that value.
    pub fn longest<R>(&self, address: u32, length: u8, is: impl FnMut(Key, u32) -> Option<R>) -> Option<R> {
        self.tree.longest(address, length, is)
    }

    /// All prefixes, ordered by address, and then by length, the shorter first.
    pub fn iter(&self) -> impl Iterator<Item = (Key, u32)> + '_ {
        self.tree.from(Key::DEFAULT)
    }

    /// The prefixes after a given one, which need not be in the table, in the same order.
    pub fn behind(&self, key: Key) -> impl Iterator<Item = (Key, u32)> + '_ {
        self.tree.from(key).skip_while(move |(first, _)| *first == key)
    }

    /// All prefixes, in no order: much faster.
    pub fn each(&self, look: impl FnMut(Key, u32)) {
        self.tree.each(look);
    }

    /// How many prefixes there are.
    pub fn len(&self) -> usize {
        self.tree.len()
    }

    /// Whether there are no prefixes.
    pub fn is_empty(&self) -> bool {
        self.tree.len() == 0
    }

    /// How many prefixes there are of each length, 0 to 32.
    pub fn lengths(&self) -> &[usize; 33] {
        self.tree.lengths()
    }

    /// Approximate bytes of memory for lookups and bookkeeping, with small pages.
    pub fn memory(&self) -> Memory {
        let lookup = self.painter.as_ref().map_or(self.ranges, Painter::memory);
        Memory { lookup, prefixes: self.tree.memory() }
    }
}

/// What a table's memory is used for, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Memory {
    /// What workers read.
    pub lookup: usize,
    /// The writer's bookkeeping.
    pub prefixes: usize,
}

fn painter(options: Options, domain: &Arc<Domain>) -> io::Result<Painter> {
    let pages = if options.huge_pages { Pages::Huge } else { Pages::Small };
    Painter::new(options.second_level_pages, pages, domain)
}

/// Checks that no leaf has a class that slots use for another purpose.
fn checked(leaf: impl Fn(u32) -> Leaf) -> impl Fn(u32) -> Leaf {
    move |value| {
        let leaf = leaf(value);
        assert!(leaf.0 == MISS || leaf.0 < CONTINUED, "not a leaf: {leaf:?}");
        leaf
    }
}

/// Groups the changes of each /16: a stable radix sort by the upper two bytes.
pub fn sort<C: Copy>(changes: &mut Vec<(Key, C)>) {
    if changes.is_sorted_by_key(|(key, _)| key.address() >> 16) {
        return;
    }
    let mut sorted = changes.clone();
    for shift in [16, 24] {
        let byte = |change: &(Key, C)| (change.0.address() >> shift) as usize & 0xff;
        let mut at = [0; 257];
        changes.iter().for_each(|change| at[byte(change) + 1] += 1);
        (1..at.len()).for_each(|i| at[i] += at[i - 1]);
        for change in &*changes {
            let place = &mut at[byte(change)];
            sorted[*place] = *change;
            *place += 1;
        }
        std::mem::swap(changes, &mut sorted);
    }
}
