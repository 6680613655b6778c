//! Every prefix with its number, in few bytes: the bookkeeping of a table's writer.
//!
//! The binary tree of all prefixes is cut into pieces of eight levels ("tree bitmap"; Eatherton,
//! Varghese, Dittia, "Tree bitmap: hardware/software IP lookups with incremental updates", CCR
//! 2004). A piece that holds any prefix is a [`Piece`]: one bit for each place in it, and the numbers of the places
//! that are taken, packed. Pieces are found by hashing where they begin. So a prefix costs 4 bytes and its share of a
//! piece. A search for the prefixes that cover a prefix, or that lie under it, finds them in the same few cache lines.

use super::Key;
use std::collections::{BTreeSet, HashMap};
use std::hash::{BuildHasherDefault, Hasher};
use std::iter::Peekable;
use std::ops::{Bound, Range};

/// Places in a piece, numbered as in a heap: 1 is its root, `2n` and `2n + 1` are under `n`.
pub(super) const PLACES: usize = 512;
/// The places of the lowest level.
pub(super) const LOWEST: Range<usize> = PLACES / 2..PLACES;
const WORDS: usize = PLACES / 64;

/// Where pieces begin, and the longest prefixes that they hold.
const LEVELS: [(u8, u8); 4] = [(0, 7), (8, 15), (16, 24), (24, 32)];

/// The root of a piece: the prefix of 0, 8, 16 or 24 bits under which it begins. The pieces at 0 and 8 hold eight
/// lengths each (0 to 7, 8 to 15), the one at 16 holds nine (16 to 24), the one at 24 holds longer prefixes (25 to 32).
/// So no /24 needs a piece of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Root {
    address: u32,
    length: u8,
}

impl Root {
    /// The root of the piece that holds a prefix.
    pub fn of(key: Key) -> Root {
        let length = match key.length() {
            0..8 => 0,
            8..16 => 8,
            16..=24 => 16,
            _ => 24,
        };
        Root::at(key.address(), length)
    }

    /// The root of the piece that begins at this length of an address.
    pub fn at(address: u32, length: u8) -> Root {
        Root { address: Key::new(address, length).address(), length }
    }

    /// The place of a prefix in the piece.
    pub fn place(self, key: Key) -> usize {
        let depth = key.length() - self.length;
        let below = key.address().unbounded_shr(32 - u32::from(key.length())) as usize;
        1 << depth | below & ((1 << depth) - 1)
    }

    /// The prefix at a place.
    pub fn key(self, place: usize) -> Key {
        let depth = place.ilog2() as u8;
        let bits = (place - (1 << depth)) as u32;
        let length = self.length + depth;
        Key::new(self.address | bits.unbounded_shl(32 - u32::from(length)), length)
    }

    /// A number that is different for each root.
    fn id(self) -> u32 {
        1 << self.length | self.address.unbounded_shr(32 - u32::from(self.length))
    }
}

/// One piece of the tree, in one block of memory: the bits of the taken places, then their numbers in order, then spare
/// room.
#[derive(Default, Clone)]
pub(super) struct Piece(Box<[u32]>);

/// Words that hold the bits of the taken places.
const HEAD: usize = PLACES / u32::BITS as usize;

impl Piece {
    /// An empty piece without room.
    fn empty() -> Piece {
        Piece(Box::new([0; HEAD]))
    }

    #[inline]
    pub fn holds(&self, place: usize) -> bool {
        self.0[place / 32] >> (place % 32) & 1 != 0
    }

    /// Two words of the head as one.
    #[inline]
    fn taken(&self, number: usize) -> u64 {
        u64::from(self.0[2 * number]) | u64::from(self.0[2 * number + 1]) << 32
    }

    #[inline]
    fn all_taken(&self) -> [u64; WORDS] {
        std::array::from_fn(|number| self.taken(number))
    }

    /// How many taken places come before this one.
    #[inline]
    pub fn rank(&self, place: usize) -> usize {
        let whole: u32 = (0..place / 64).map(|number| self.taken(number).count_ones()).sum();
        let part = self.taken(place / 64) & ((1 << (place % 64)) - 1);
        (whole + part.count_ones()) as usize
    }

    /// How many places are taken.
    fn count(&self) -> usize {
        (0..WORDS).map(|number| self.taken(number).count_ones() as usize).sum()
    }

    /// The number at a rank.
    #[inline]
    pub fn value(&self, rank: usize) -> u32 {
        self.0[HEAD + rank]
    }

    pub fn get(&self, place: usize) -> Option<u32> {
        self.holds(place).then(|| self.value(self.rank(place)))
    }

    /// Moves the words to a block with another amount of room.
    fn resize(&mut self, count: usize, room: usize) {
        let mut words = Vec::with_capacity(HEAD + count + room);
        words.extend_from_slice(&self.0[..HEAD + count]);
        words.resize(HEAD + count + room, 0);
        self.0 = words.into_boxed_slice();
    }

    fn insert(&mut self, place: usize, value: u32) -> Option<u32> {
        let at = HEAD + self.rank(place);
        if self.holds(place) {
            return Some(std::mem::replace(&mut self.0[at], value));
        }
        let end = HEAD + self.count();
        if end == self.0.len() {
            self.resize(end - HEAD, growth(end - HEAD));
        }
        self.0.copy_within(at..end, at + 1);
        self.0[at] = value;
        self.0[place / 32] |= 1 << (place % 32);
        None
    }

    fn remove(&mut self, place: usize) -> Option<u32> {
        if !self.holds(place) {
            return None;
        }
        let at = HEAD + self.rank(place);
        let value = self.0[at];
        let end = HEAD + self.count();
        self.0.copy_within(at + 1..end, at);
        self.0[place / 32] &= !(1 << (place % 32));
        let left = end - 1 - HEAD;
        if self.0.len() > HEAD + 2 * (left + growth(left)) {
            self.resize(left, growth(left));
        }
        Some(value)
    }

    pub fn is_empty(&self) -> bool {
        self.0[..HEAD].iter().all(|word| *word == 0)
    }

    /// The taken places with their numbers.
    #[inline]
    pub fn iter(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        places(self.all_taken()).zip(self.0[HEAD..].iter().copied())
    }

    /// The taken places at and under a place, the higher levels first.
    #[inline]
    pub fn each_under(&self, place: usize, mut look: impl FnMut(usize, u32)) {
        if place == 1 {
            return self.iter().for_each(|(place, value)| look(place, value));
        }
        let (mut begin, mut end) = (place, place + 1);
        while begin < PLACES {
            let mut rank = None;
            let mut at = begin;
            while at < end {
                // The rest of this word, limited to the level.
                let stop = end.min((at / 64 + 1) * 64);
                let mut left = self.taken(at / 64) >> (at % 64);
                if stop - at < 64 {
                    left &= (1 << (stop - at)) - 1;
                }
                while left != 0 {
                    let here = at + left.trailing_zeros() as usize;
                    left &= left - 1;
                    let rank = rank.get_or_insert_with(|| self.rank(here));
                    look(here, self.value(*rank));
                    *rank += 1;
                }
                at = stop;
            }
            (begin, end) = (2 * begin, 2 * end);
        }
    }

    /// Scatters the numbers of the taken places to their places.
    fn unpack(&self, scattered: &mut [u32; PLACES]) {
        self.iter().for_each(|(place, value)| scattered[place] = value);
    }

    /// A piece with these taken places.
    fn pack(taken: [u64; WORDS], scattered: &[u32; PLACES]) -> Piece {
        let count = taken.iter().map(|word| word.count_ones() as usize).sum();
        let size = HEAD + count + growth(count) / 2;
        let mut words = Vec::with_capacity(size);
        words.extend(taken.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]));
        words.extend(places(taken).map(|place| scattered[place]));
        words.resize(size, 0);
        Piece(words.into_boxed_slice())
    }
}

/// The numbers of the bits that are set.
#[inline]
fn places(words: [u64; WORDS]) -> impl Iterator<Item = usize> {
    words.into_iter().enumerate().flat_map(|(number, word)| {
        let mut left = word;
        std::iter::from_fn(move || {
            let bit = (left != 0).then(|| left.trailing_zeros())?;
            left &= left - 1;
            Some(number * 64 + bit as usize)
        })
    })
}

/// How much room to add for this many numbers: a quarter, and a few.
fn growth(count: usize) -> usize {
    (count / 4).clamp(4, 64)
}

/// Mixes the one word of an id; ids are not secret, and no attacker chooses them.
#[derive(Default)]
pub(super) struct IdHasher(u64);

impl Hasher for IdHasher {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("ids are words")
    }
    fn write_u32(&mut self, id: u32) {
        let mixed = u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }
}

/// All pieces.
pub(super) struct Tree {
    pieces: HashMap<u32, Piece, BuildHasherDefault<IdHasher>>,
    /// The roots in order, to iterate from any prefix.
    order: BTreeSet<Root>,
    lengths: [usize; 33],
    count: usize,
}

impl Tree {
    pub fn new() -> Tree {
        Tree { pieces: HashMap::default(), order: BTreeSet::new(), lengths: [0; 33], count: 0 }
    }

    pub fn len(&self) -> usize {
        self.count
    }

    /// How many prefixes there are of each length.
    pub fn lengths(&self) -> &[usize; 33] {
        &self.lengths
    }

    #[inline]
    pub fn piece(&self, root: Root) -> Option<&Piece> {
        self.pieces.get(&root.id())
    }

    /// Prefetches what the other operations on a prefix will read, while other work is done.
    #[inline]
    pub fn prepare(&self, key: Key) {
        let root = Root::of(key);
        if let Some(piece) = self.piece(root) {
            crate::memory::prefetch(&piece.0[0]);
            // Approximately where its number will be.
            crate::memory::prefetch(&piece.0[piece.0.len() / 2]);
        }
    }

    pub fn get(&self, key: Key) -> Option<u32> {
        let root = Root::of(key);
        self.piece(root)?.get(root.place(key))
    }

    pub fn insert(&mut self, key: Key, value: u32) -> Option<u32> {
        let root = Root::of(key);
        let before = self.piece_mut(root).insert(root.place(key), value);
        self.account(key.length(), before, Some(value));
        before
    }

    pub fn remove(&mut self, key: Key) -> Option<u32> {
        let root = Root::of(key);
        let piece = self.pieces.get_mut(&root.id())?;
        let before = piece.remove(root.place(key));
        if piece.is_empty() {
            self.forget(root);
        }
        self.account(key.length(), before, None);
        before
    }

    fn account(&mut self, length: u8, before: Option<u32>, after: Option<u32>) {
        let of_length = &mut self.lengths[usize::from(length)];
        match (before, after) {
            (None, Some(_)) => (self.count, *of_length) = (self.count + 1, *of_length + 1),
            (Some(_), None) => (self.count, *of_length) = (self.count - 1, *of_length - 1),
            _ => {}
        }
    }

    /// Changes many prefixes under one root: `merge` gets the number of a place, and returns its new one.
    pub fn change<C>(
        &mut self,
        root: Root,
        changes: impl Iterator<Item = (Key, C)>,
        mut merge: impl FnMut(Key, Option<u32>, C) -> Option<u32>,
    ) {
        let mut scattered = [0; PLACES];
        let piece = self.piece_mut(root);
        piece.unpack(&mut scattered);
        let mut taken = piece.all_taken();
        let mut balance = [0isize; 33];
        for (key, change) in changes {
            let place = root.place(key);
            let (word, bit) = (&mut taken[place / 64], 1 << (place % 64));
            let before = (*word & bit != 0).then_some(scattered[place]);
            let after = merge(key, before, change);
            match after {
                Some(value) => (*word, scattered[place]) = (*word | bit, value),
                None => *word &= !bit,
            }
            balance[usize::from(key.length())] += isize::from(after.is_some()) - isize::from(before.is_some());
        }
        *piece = Piece::pack(taken, &scattered);
        if piece.is_empty() {
            self.forget(root);
        }
        for (of_length, more) in self.lengths.iter_mut().zip(balance) {
            *of_length = of_length.wrapping_add_signed(more);
            self.count = self.count.wrapping_add_signed(more);
        }
    }

    /// The piece of a root; it is made if needed.
    fn piece_mut(&mut self, root: Root) -> &mut Piece {
        let order = &mut self.order;
        self.pieces.entry(root.id()).or_insert_with(|| {
            order.insert(root);
            Piece::empty()
        })
    }

    /// Removes an empty piece.
    fn forget(&mut self, root: Root) {
        self.pieces.remove(&root.id());
        self.order.remove(&root);
        self.shrink();
    }

    /// Frees memory when most pieces are gone.
    fn shrink(&mut self) {
        let (capacity, used) = (self.pieces.capacity(), self.pieces.len());
        if used == 0 {
            self.pieces = HashMap::default();
        } else if capacity > 64 && used < capacity / 8 {
            self.pieces.shrink_to(used * 2);
        }
    }

    /// The longest prefix of at most `length` bits that contains an address and for which `is` returns a value.
    pub fn longest<R>(&self, address: u32, length: u8, mut is: impl FnMut(Key, u32) -> Option<R>) -> Option<R> {
        for (begins, deepest) in LEVELS.into_iter().rev() {
            let reach = length.min(deepest);
            // The piece at 24 holds only longer prefixes, not the /24 itself.
            if reach < begins || reach == begins && begins == 24 {
                continue;
            }
            let root = Root::at(address, begins);
            let Some(piece) = self.piece(root) else { continue };
            let mut place = root.place(Key::new(address, reach));
            while place > 0 {
                if piece.holds(place)
                    && let Some(found) = is(root.key(place), piece.value(piece.rank(place)))
                {
                    return Some(found);
                }
                place /= 2;
            }
        }
        None
    }

    /// Every prefix, in no order.
    pub fn each(&self, mut look: impl FnMut(Key, u32)) {
        for (id, piece) in &self.pieces {
            let length = id.ilog2() as u8;
            let root = Root { address: id.unbounded_shl(32 - u32::from(length)), length };
            piece.iter().for_each(|(place, value)| look(root.key(place), value));
        }
    }

    /// The prefixes from a given one on, itself included, ordered by address, the shorter first. The start is found
    /// directly, however many prefixes there are.
    pub fn from(&self, first: Key) -> impl Iterator<Item = (Key, u32)> + '_ {
        // The pieces that contain the first prefix's address, the outermost last, because they are taken from the end.
        let around = LEVELS.iter().rev().map(|(length, _)| Root::at(first.address(), *length));
        let around = around.filter(|root| self.pieces.contains_key(&root.id())).collect();
        let behind = Root { address: first.address(), length: u8::MAX };
        let behind = self.order.range((Bound::Excluded(behind), Bound::Unbounded)).copied().peekable();
        InOrder { tree: self, around, behind, open: Default::default() }.skip_while(move |(key, _)| *key < first)
    }

    /// Bytes of memory.
    pub fn memory(&self) -> usize {
        /// Approximate bytes that the allocator adds to each block.
        const OVERHEAD: usize = 12;
        let pieces: usize = self.pieces.values().map(|piece| size_of_val(&*piece.0) + OVERHEAD).sum();
        let places = self.pieces.capacity() * 8 / 7 * (size_of::<(u32, Piece)>() + 1);
        // Nodes of the ordered set are about two thirds full.
        pieces + places + self.order.len() * size_of::<Root>() * 3 / 2
    }
}

/// Merges the pieces; sorting the places of a piece puts it in order.
struct InOrder<'t, R: Iterator<Item = Root>> {
    tree: &'t Tree,
    /// Pieces not opened yet: those that contain the first prefix, the last first; and those behind it.
    around: Vec<Root>,
    behind: Peekable<R>,
    /// The remaining prefixes of open pieces, one list for each level, the last first.
    open: [Vec<(Key, u32)>; 4],
}

impl<R: Iterator<Item = Root>> Iterator for InOrder<'_, R> {
    type Item = (Key, u32);

    fn next(&mut self) -> Option<(Key, u32)> {
        loop {
            let next = (0..4).filter(|level| !self.open[*level].is_empty());
            let next = next.min_by_key(|level| self.open[*level].last().map(|(key, _)| *key));
            // Open a piece before returning a prefix at or behind its beginning.
            if let Some(root) = self.around.last().or_else(|| self.behind.peek()).copied()
                && next
                    .is_none_or(|level| self.open[level].last().is_some_and(|(key, _)| key.address() >= root.address))
            {
                if self.around.pop().is_none() {
                    self.behind.next();
                }
                let piece = self.tree.piece(root).expect("it was listed");
                let level = &mut self.open[usize::from(root.length / 8)];
                debug_assert!(level.is_empty());
                level.extend(piece.iter().map(|(place, value)| (root.key(place), value)));
                level.sort_unstable_by_key(|(key, _)| std::cmp::Reverse(*key));
                continue;
            }
            return self.open[next?].pop();
        }
    }
}
