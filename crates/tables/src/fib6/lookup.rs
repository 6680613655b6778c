//! The data side: from addresses to leaves, a vector at a time.
//!
//! All addresses of a batch take one step, then all that are not done take the next, so that the cache misses of a step
//! overlap: each asks for the line that it will read in the next turn. A step has no branch that depends on the
//! address: what a line of each kind would say is worked out, and the kind picks.

use crate::kernel::Kernel;
use crate::leaf::Leaf;
use crate::memory::{Pages, Reserved, prefetch};
use rcu::{Domain, Published, Round};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

/// Nothing here: the default route decides.
pub(super) const MISS: u32 = 0;
/// Entries from this value up lead on to a line.
pub(super) const NODE: u32 = 12 << 28;
/// Words in a line.
pub(super) const LINE: usize = 16;
/// Most lines that entries can name.
pub(super) const MOST_LINES: u32 = 1 << 21;

/// Bits of an address that choose a slot of a large root, behind the three of 2000::/3, in which all addresses of the
/// Internet are (RFC 4291 section 2.4, RFC 3587).
pub(super) const ROOT_BITS: u8 = 21;
pub(super) const ROOT_SLOTS: usize = 1 << ROOT_BITS;
/// How long the prefixes of those slots are.
pub(super) const ROOT_LENGTH: u8 = 3 + ROOT_BITS;
const GLOBAL: u64 = 0b001;
/// Behind the slots of 2000::/3 one for each value of the first nibble.
pub(super) const NIBBLES: usize = 16;
/// Lines look at one half of the address: up to this bit, or from it on.
pub(super) const HALF: u8 = 64;

/// What a line holds of the 32 bits from its depth on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Up to eight ranges, in one line: the last value of each but the last, how deep their values begin, then what they
    /// lead to.
    Few,
    /// Up to sixteen ranges, in two lines, in the same way.
    Ranges,
    /// What each value of the first four bits leads to.
    Sixteen,
    /// What each value of the first eight bits leads to: as many lines.
    Many,
}

impl Kind {
    /// Lines.
    pub fn lines(self) -> usize {
        match self {
            Kind::Ranges => 2,
            Kind::Few | Kind::Sixteen => 1,
            Kind::Many => 256 / LINE,
        }
    }
    /// How many ranges fit; none: each value has an entry.
    pub fn ranges(self) -> Option<usize> {
        match self {
            Kind::Few => Some(LINE / 2),
            Kind::Ranges => Some(LINE),
            Kind::Sixteen | Kind::Many => None,
        }
    }
    /// Bits that choose.
    pub fn stride(self) -> u8 {
        match self {
            Kind::Few | Kind::Ranges => 32,
            Kind::Sixteen => 4,
            Kind::Many => 8,
        }
    }
}

/// Where an entry leads: its kind in the upper 4 bits, then 7 bits of depth and 21 of a line's number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Node {
    pub kind: Kind,
    /// How many bits of the address are behind it.
    pub depth: u8,
    pub line: u32,
}

const KIND_SHIFT: u32 = 28;
const DEPTH_SHIFT: u32 = 21;

impl Node {
    pub fn entry(self) -> u32 {
        debug_assert!(self.line < MOST_LINES && self.depth < 128);
        let kind = (NODE >> KIND_SHIFT) + self.kind as u32;
        kind << KIND_SHIFT | u32::from(self.depth) << DEPTH_SHIFT | self.line
    }

    /// None: the entry is a leaf.
    pub fn of(entry: u32) -> Option<Node> {
        let kind = match entry >> KIND_SHIFT {
            12 => Kind::Few,
            13 => Kind::Ranges,
            14 => Kind::Sixteen,
            15 => Kind::Many,
            _ => return None,
        };
        Some(Node { kind, depth: (entry >> DEPTH_SHIFT & 0x7f) as u8, line: entry & (MOST_LINES - 1) })
    }

    /// The number of its first word.
    pub fn word(self) -> usize {
        self.line as usize * LINE
    }
}

/// 32 bits of an address from a depth on, of the half in which that is; behind its last bit there are zeros. No line looks
/// beyond its half.
#[inline(always)]
pub(super) fn key_at(address: u128, depth: u32) -> u32 {
    let half = if depth & u32::from(HALF) == 0 { (address >> 64) as u64 } else { address as u64 };
    ((half << (depth & 63)) >> 32) as u32
}

/// All lines.
///
/// Invariant for the kernels: there are [`MOST_LINES`] of them, and each node's are among them.
pub(super) struct Lines(Reserved<AtomicU32>);

impl Lines {
    pub fn new() -> io::Result<Lines> {
        Ok(Lines(Reserved::new(MOST_LINES as usize * LINE, Pages::Small)?))
    }

    pub fn words(&self) -> &Reserved<AtomicU32> {
        &self.0
    }

    #[inline(always)]
    fn array(&self) -> &[AtomicU32; MOST_LINES as usize * LINE] {
        (&*self.0).try_into().expect("length set in new")
    }

    /// Asks for the line that an entry leads to; of a [`Kind::Many`] for the one that it will be. For a leaf, some line.
    #[inline(always)]
    fn ask(&self, entry: u32, address: u128) {
        let sixteenth = key_at(address, entry >> DEPTH_SHIFT) >> 28;
        let (kind, line) = (entry >> KIND_SHIFT, entry & (MOST_LINES - 1));
        let line = if kind == 15 { line + sixteenth } else { line };
        prefetch(&self.array()[(line & (MOST_LINES - 1)) as usize * LINE]);
        // The other line of many ranges: two at once, and not one after the other.
        let other = if kind == 13 { line | 1 } else { line };
        prefetch(&self.array()[(other & (MOST_LINES - 1)) as usize * LINE]);
    }

    /// What the line that an entry leads to says of an address.
    #[inline(always)]
    fn step(&self, entry: u32, address: u128) -> u32 {
        let array = self.array();
        let first = (entry & (MOST_LINES - 1)) as usize * LINE;
        let key = key_at(address, entry >> DEPTH_SHIFT);
        let line: &[AtomicU32] = &array[first..first + LINE];
        let smaller =
            |ends: usize| line[..ends].iter().map(|end| u32::from(end.load(Ordering::Relaxed) < key)).sum::<u32>();
        let at = match entry >> KIND_SHIFT {
            12 => 8 + smaller(7),
            13 => 16 + smaller(15),
            14 => key >> 28,
            _ => key >> 24,
        };
        array[(first + at as usize) & (MOST_LINES as usize * LINE - 1)].load(Ordering::Acquire)
    }

    /// Follows an entry to its leaf.
    #[inline]
    pub fn follow(&self, mut entry: u32, address: u128) -> u32 {
        while entry >= NODE {
            entry = self.step(entry, address);
        }
        entry
    }
}

/// Where lookups begin.
pub(super) struct Root {
    /// One slot for everything, or those of 2000::/3 and then one for each first nibble.
    pub slots: Reserved<AtomicU32>,
    pub is_large: bool,
}

impl Root {
    pub fn small() -> io::Result<Root> {
        Ok(Root { slots: Reserved::new(1, Pages::Small)?, is_large: false })
    }

    pub fn large() -> io::Result<Root> {
        // Four large pages: every lookup reads a slot.
        Ok(Root { slots: Reserved::new(ROOT_SLOTS + NIBBLES, Pages::Huge)?, is_large: true })
    }

    /// The slot of a large root, by the upper half of an address.
    #[inline(always)]
    fn large_slot(upper: u64) -> usize {
        let global = (upper >> (64 - ROOT_LENGTH as u32)) as usize & (ROOT_SLOTS - 1);
        if upper >> 61 == GLOBAL { global } else { ROOT_SLOTS + (upper >> 60) as usize }
    }

    #[inline]
    pub fn slot(&self, address: u128) -> &AtomicU32 {
        &self.slots[if self.is_large { Root::large_slot((address >> 64) as u64) } else { 0 }]
    }
}

/// What both sides share. As of IPv4, the default route is a word of its own, with a generation in its upper half that tells
/// whether it changed while slots were read.
pub(super) struct Table {
    pub root: Published<Arc<Root>>,
    pub lines: Lines,
    default: AtomicU64,
}

/// Addresses resolved together: one vector.
const BLOCK: usize = 256;

impl Table {
    pub fn new(domain: &Arc<Domain>, root: Arc<Root>) -> io::Result<Table> {
        let root = Published::new(domain, root);
        Ok(Table { root, lines: Lines::new()?, default: AtomicU64::new(MISS.into()) })
    }

    /// Called by the one writer only.
    pub fn set_default(&self, leaf: Leaf) {
        let generation = (self.default.load(Ordering::Relaxed) >> 32) + 1;
        self.default.store(generation << 32 | u64::from(leaf.0), Ordering::Release);
    }

    pub fn default(&self) -> Leaf {
        Leaf(self.default.load(Ordering::Acquire) as u32)
    }

    /// MISS when only the default route is left.
    fn but_default(&self, round: &Round<'_>, address: u128) -> u32 {
        self.lines.follow(self.root.load(round).slot(address).load(Ordering::Acquire), address)
    }

    fn lookup(&self, round: &Round<'_>, address: u128) -> u32 {
        loop {
            let default = self.default.load(Ordering::Acquire);
            let leaf = self.but_default(round, address);
            if leaf != MISS {
                return leaf;
            }
            fence(Ordering::Acquire);
            if self.default.load(Ordering::Relaxed) == default {
                return default as u32;
            }
        }
    }

    fn lookup_block(&self, round: &Round<'_>, kernel: Kernel, addresses: &[u128], leaves: &mut [u32]) {
        loop {
            let default = self.default.load(Ordering::Acquire);
            resolve(kernel, self.root.load(round), &self.lines, addresses, leaves);
            if !leaves.contains(&MISS) {
                return;
            }
            // The slots are read before the default is read again.
            fence(Ordering::Acquire);
            if self.default.load(Ordering::Relaxed) == default {
                return leaves.iter_mut().filter(|leaf| **leaf == MISS).for_each(|leaf| *leaf = default as u32);
            }
        }
    }
}

/// Writes the leaf of each address of up to a block, MISS included.
#[inline]
fn resolve(kernel: Kernel, root: &Root, lines: &Lines, addresses: &[u128], leaves: &mut [u32]) {
    assert!(addresses.len() == leaves.len() && leaves.len() <= BLOCK);
    match kernel {
        // SAFETY: `with_kernel` and `Kernel::chosen` give only what the processor has.
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx512 => unsafe { avx512::resolve(root, lines, addresses, leaves) },
        // SAFETY: as above.
        #[cfg(target_arch = "x86_64")]
        Kernel::Avx2 => unsafe { avx2::resolve(root, lines, addresses, leaves) },
        _ => walk(root, lines, addresses, leaves, |entry, address| lines.step(entry, address)),
    }
}

/// Slots of a large root are asked for so many addresses before they are read.
const AHEAD: usize = 32;

/// The walk that all kernels take, with a step of theirs.
#[inline(always)]
fn walk(root: &Root, lines: &Lines, addresses: &[u128], leaves: &mut [u32], step: impl Fn(u32, u128) -> u32) {
    let mut under_way = [0u8; BLOCK];
    let mut count = 0;
    if root.is_large {
        let slots: &[AtomicU32; ROOT_SLOTS + NIBBLES] = (&*root.slots).try_into().expect("length set in large");
        let slot = |address: &u128| &slots[Root::large_slot((address >> 64) as u64)];
        addresses.iter().take(AHEAD).for_each(|address| prefetch(slot(address)));
        for (at, (address, leaf)) in addresses.iter().zip(&mut *leaves).enumerate() {
            if let Some(later) = addresses.get(at + AHEAD) {
                prefetch(slot(later));
            }
            let entry = slot(address).load(Ordering::Acquire);
            *leaf = entry;
            lines.ask(entry, *address);
            under_way[count & (BLOCK - 1)] = at as u8;
            count += usize::from(entry >= NODE);
        }
    } else {
        let entry = root.slots[0].load(Ordering::Acquire);
        leaves.fill(entry);
        if entry >= NODE {
            count = addresses.len();
            under_way[..count].iter_mut().enumerate().for_each(|(at, lane)| *lane = at as u8);
        }
    }
    while count > 0 {
        let mut left = 0;
        for at in 0..count {
            let lane = usize::from(under_way[at & (BLOCK - 1)]);
            let entry = step(leaves[lane], addresses[lane]);
            leaves[lane] = entry;
            lines.ask(entry, addresses[lane]);
            under_way[left & (BLOCK - 1)] = lane as u8;
            left += usize::from(entry >= NODE);
        }
        count = left;
    }
}

/// Sixteen addresses at a time: where each looks next is worked out for all of them together, and only the look itself, a
/// comparison with one line, is each one's own. Those that are not done are kept side by side.
#[cfg(target_arch = "x86_64")]
mod avx512 {
    use super::*;
    use std::arch::asm;
    use std::arch::x86_64::*;
    use std::mem::MaybeUninit;

    const LANES: usize = 16;
    /// Groups are stored whole, the last one too.
    const PLACES: usize = BLOCK + LANES;

    /// Addresses under way: what of them there is to look at, and which they are.
    struct UnderWay {
        upper: [MaybeUninit<u64>; PLACES],
        lower: [MaybeUninit<u64>; PLACES],
        lane: [MaybeUninit<u32>; PLACES],
        /// The 32 bits that are compared.
        key: [MaybeUninit<u32>; PLACES],
        /// The first word of the line that they are compared with.
        line: [MaybeUninit<u32>; PLACES],
        /// Which words of it are ends of ranges.
        ends: [MaybeUninit<u32>; PLACES],
        /// The word of the first range's value, or the word that counts.
        first: [MaybeUninit<u32>; PLACES],
        count: usize,
        /// Lines are asked for before they are read: those of a small table are near.
        asks: bool,
    }

    /// Sixteen of them.
    #[derive(Clone, Copy)]
    struct Group {
        upper: [__m512i; 2],
        lower: [__m512i; 2],
        lane: __m512i,
    }

    #[inline]
    #[target_feature(enable = "avx512f")]
    fn number(value: u32) -> __m512i {
        _mm512_set1_epi32(value.cast_signed())
    }

    impl UnderWay {
        fn new(asks: bool) -> UnderWay {
            const NONE: MaybeUninit<u32> = MaybeUninit::uninit();
            const NONE64: MaybeUninit<u64> = MaybeUninit::uninit();
            UnderWay {
                upper: [NONE64; PLACES],
                lower: [NONE64; PLACES],
                lane: [NONE; PLACES],
                key: [NONE; PLACES],
                line: [NONE; PLACES],
                ends: [NONE; PLACES],
                first: [NONE; PLACES],
                count: 0,
                asks,
            }
        }

        /// Says something of what lies behind those that are there, up to the end of their last group, so that it may be read.
        #[inline]
        #[target_feature(enable = "avx512f")]
        fn close(&mut self) {
            let (count, zero) = (self.count, _mm512_setzero_si512());
            // SAFETY: a group behind `count`, which is at most BLOCK.
            unsafe {
                for column in [&mut self.upper, &mut self.lower] {
                    _mm512_storeu_si512(column.as_mut_ptr().add(count).cast(), zero);
                    _mm512_storeu_si512(column.as_mut_ptr().add(count + LANES / 2).cast(), zero);
                }
                _mm512_storeu_si512(self.lane.as_mut_ptr().add(count).cast(), zero);
            }
        }

        /// Takes those of a group in whose entries lead to lines, and asks for these.
        #[inline]
        #[target_feature(enable = "avx512f,popcnt")]
        fn take(&mut self, lines: &Lines, entries: __m512i, valid: __mmask16, group: Group) {
            let under_way = _mm512_mask_cmpge_epu32_mask(valid, entries, number(NODE));
            if under_way == 0 {
                return;
            }
            let kind = _mm512_srli_epi32::<KIND_SHIFT>(entries);
            let is = |wanted: u32| _mm512_cmpeq_epi32_mask(kind, number(wanted));
            let (few, ranges, sixteen, many) = (is(12), is(13), is(14), is(15));
            // The half in which the depth is, moved to its upper end.
            let depth = _mm512_and_si512(_mm512_srli_epi32::<DEPTH_SHIFT>(entries), number(0x7f));
            let in_lower = _mm512_test_epi32_mask(depth, number(HALF.into()));
            let shift = _mm512_and_si512(depth, number(63));
            let shifts = [
                _mm512_cvtepu32_epi64(_mm512_castsi512_si256(shift)),
                _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64::<1>(shift)),
            ];
            let keys = [0, 1].map(|half| {
                let in_lower = (in_lower >> (8 * half)) as u8;
                let bits = _mm512_mask_blend_epi64(in_lower, group.upper[half], group.lower[half]);
                _mm512_cvtepi64_epi32(_mm512_srli_epi64::<32>(_mm512_sllv_epi64(bits, shifts[half])))
            });
            let key = _mm512_inserti64x4::<1>(_mm512_castsi256_si512(keys[0]), keys[1]);
            let line = _mm512_and_si512(entries, number(MOST_LINES - 1));
            let nibble = _mm512_srli_epi32::<28>(key);
            let line = _mm512_slli_epi32::<4>(_mm512_mask_add_epi32(line, many, line, nibble));
            let ends = _mm512_mask_mov_epi32(_mm512_maskz_mov_epi32(few, number(0x7f)), ranges, number(0x7fff));
            // Where values begin; or the word itself.
            let first = _mm512_mask_mov_epi32(number(8), ranges, number(16));
            let first = _mm512_mask_mov_epi32(first, sixteen, nibble);
            let byte = _mm512_and_si512(_mm512_srli_epi32::<24>(key), number(0xf));
            let first = _mm512_add_epi32(line, _mm512_mask_mov_epi32(first, many, byte));
            let words = [
                (&mut self.lane, group.lane),
                (&mut self.key, key),
                (&mut self.line, line),
                (&mut self.ends, ends),
                (&mut self.first, first),
            ];
            let count = self.count;
            for (column, values) in words {
                // SAFETY: a group behind `count`, which is at most BLOCK: all lanes of a block were counted at most once.
                unsafe {
                    let to = column.as_mut_ptr().add(count);
                    _mm512_storeu_si512(to.cast(), _mm512_maskz_compress_epi32(under_way, values));
                }
            }
            let (low, high) = (under_way as u8, (under_way >> 8) as u8);
            let behind = count + low.count_ones() as usize;
            for (column, values) in [(&mut self.upper, group.upper), (&mut self.lower, group.lower)] {
                // SAFETY: as above; eight behind at most eight.
                unsafe {
                    let to = column.as_mut_ptr();
                    _mm512_storeu_si512(to.add(count).cast(), _mm512_maskz_compress_epi64(low, values[0]));
                    _mm512_storeu_si512(to.add(behind).cast(), _mm512_maskz_compress_epi64(high, values[1]));
                }
            }
            let more = under_way.count_ones() as usize;
            self.count = count + more;
            if !self.asks {
                return;
            }
            for at in count..count + more {
                // SAFETY: just stored.
                let line = unsafe { self.line[at].assume_init() } as usize & (MOST_LINES as usize * LINE - 1);
                prefetch(&lines.array()[line]);
            }
            // The other line of many ranges: two at once, and not one after the other.
            if ranges & under_way != 0 {
                for at in count..count + more {
                    // SAFETY: just stored.
                    let value = unsafe { self.first[at].assume_init() } as usize & (MOST_LINES as usize * LINE - 1);
                    prefetch(&lines.array()[value]);
                }
            }
        }
    }

    #[target_feature(enable = "avx512f,popcnt,bmi1,bmi2")]
    pub(super) fn resolve(root: &Root, lines: &Lines, addresses: &[u128], leaves: &mut [u32]) {
        let mut all = UnderWay::new(root.is_large);
        let alike = (!root.is_large).then(|| root.slots[0].load(Ordering::Acquire));
        match alike {
            Some(entry) if entry < NODE => return leaves.fill(entry),
            Some(_) => {}
            None => {
                let slots: &[AtomicU32; ROOT_SLOTS + NIBBLES] = (&*root.slots).try_into().expect("length set in large");
                let slot = |address: &u128| &slots[Root::large_slot((address >> 64) as u64)];
                addresses.iter().take(AHEAD).for_each(|address| prefetch(slot(address)));
                for (at, (address, leaf)) in addresses.iter().zip(&mut *leaves).enumerate() {
                    if let Some(later) = addresses.get(at + AHEAD) {
                        prefetch(slot(later));
                    }
                    *leaf = slot(address).load(Ordering::Acquire);
                }
            }
        }
        let (even, odd) = (_mm512_set_epi64(14, 12, 10, 8, 6, 4, 2, 0), _mm512_set_epi64(15, 13, 11, 9, 7, 5, 3, 1));
        let lanes = _mm512_set_epi32(15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0);
        for at in (0..addresses.len()).step_by(LANES) {
            let here = (addresses.len() - at).min(LANES);
            let valid = u16::MAX >> (LANES - here);
            // SAFETY: the words of `here` addresses and as many leaves are read, no more.
            let (words, entries) = unsafe {
                let words = addresses.as_ptr().add(at).cast::<i64>();
                let present = u32::MAX >> (2 * (LANES - here));
                let part = |part: u32| {
                    _mm512_maskz_loadu_epi64((present >> (8 * part)) as u8, words.wrapping_add(8 * part as usize))
                };
                let entries = _mm512_maskz_loadu_epi32(valid, leaves.as_ptr().add(at).cast());
                ([part(0), part(1), part(2), part(3)], entries)
            };
            let entries = alike.map_or(entries, |entry| number(entry));
            let of = |which| [0, 2].map(|pair| _mm512_permutex2var_epi64(words[pair], which, words[pair + 1]));
            let lane = _mm512_add_epi32(lanes, number(at as u32));
            all.take(lines, entries, valid, Group { upper: of(odd), lower: of(even), lane });
        }
        let array = lines.array();
        let mut found = [0u32; PLACES];
        while all.count > 0 {
            all.close();
            let count = std::mem::take(&mut all.count);
            for (i, found) in found[..count].iter_mut().enumerate() {
                // SAFETY: so many were stored.
                let (key, line, ends, first, lane) = unsafe {
                    (
                        self::read(&all.key, i),
                        self::read(&all.line, i) as usize,
                        self::read(&all.ends, i),
                        self::read(&all.first, i),
                        self::read(&all.lane, i) as usize,
                    )
                };
                let words = array[line & (MOST_LINES as usize * LINE - LINE)..][..LINE].as_ptr();
                let smaller: i16;
                // SAFETY: reads the words of one line. In assembly, because other words of it may be stored to
                // meanwhile: what is read of those is not used.
                unsafe {
                    asm!("vpcmpud {smaller}, {key}, zmmword ptr [{words}], 6", smaller = out(kreg) smaller,
                        key = in(zmm_reg) number(key), words = in(reg) words,
                        options(nostack, preserves_flags, readonly, pure));
                }
                let ranges = (u32::from(smaller.cast_unsigned()) & ends).count_ones();
                let word = (first + ranges) as usize & (MOST_LINES as usize * LINE - 1);
                let entry = array[word].load(Ordering::Acquire);
                *found = entry;
                leaves[lane] = entry;
            }
            // Not group by group with the above: what was just stored one by one cannot be read as a whole at once.
            for at in (0..count).step_by(LANES) {
                // SAFETY: whole groups lie in the columns, and were stored; what is behind `count` is not used.
                let group = unsafe {
                    let pair = |column: &[MaybeUninit<u64>; PLACES]| {
                        let from = column.as_ptr().add(at);
                        [_mm512_loadu_si512(from.cast()), _mm512_loadu_si512(from.add(8).cast())]
                    };
                    let lane = _mm512_loadu_si512(all.lane.as_ptr().add(at).cast());
                    Group { upper: pair(&all.upper), lower: pair(&all.lower), lane }
                };
                // SAFETY: sixteen words of a column.
                let entries = unsafe { _mm512_loadu_si512(found.as_ptr().add(at).cast()) };
                // Stored in front of what is read next: no more are left than were there.
                all.take(lines, entries, u16::MAX >> (LANES - (count - at).min(LANES)), group);
            }
        }
    }

    /// # Safety
    /// That place was stored.
    #[inline(always)]
    unsafe fn read(column: &[MaybeUninit<u32>; PLACES], at: usize) -> u32 {
        // SAFETY: given by the caller.
        unsafe { column[at].assume_init() }
    }
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use super::*;
    use std::arch::asm;
    use std::arch::x86_64::*;

    #[target_feature(enable = "avx2,popcnt,bmi1,bmi2")]
    pub(super) fn resolve(root: &Root, lines: &Lines, addresses: &[u128], leaves: &mut [u32]) {
        let sign = _mm256_set1_epi32(i32::MIN);
        walk(root, lines, addresses, leaves, |entry, address| {
            let place = Place::of(entry, address);
            let wanted = _mm256_xor_si256(_mm256_set1_epi32(place.key.cast_signed()), sign);
            let smaller = |at: usize| {
                let at = lines.array()[place.word + at..][..LINE / 2].as_ptr();
                let ends: __m256i;
                // SAFETY: as in `avx512`, of half a line.
                unsafe {
                    asm!("vmovdqu {ends}, [{at}]", ends = out(ymm_reg) ends, at = in(reg) at,
                        options(nostack, preserves_flags, readonly, pure));
                }
                let greater = _mm256_cmpgt_epi32(wanted, _mm256_xor_si256(ends, sign));
                _mm256_movemask_ps(_mm256_castsi256_ps(greater)) as u32
            };
            place.pick(lines, smaller(0) | smaller(8) << 8)
        });
    }
}

/// Where a step reads, and how it finds the word that counts: by the ends that are less than the key, or by the key's upper
/// bits, with no branch.
#[cfg(target_arch = "x86_64")]
struct Place {
    key: u32,
    how: How,
    /// The first of the line.
    word: usize,
}

#[cfg(target_arch = "x86_64")]
impl Place {
    #[inline(always)]
    fn of(entry: u32, address: u128) -> Place {
        let key = key_at(address, entry >> DEPTH_SHIFT);
        let how = HOW[(entry >> KIND_SHIFT & 3) as usize];
        let line = (entry & (MOST_LINES - 1)) + (key >> 28 & u32::from(how.lines));
        Place { key, how, word: (line & (MOST_LINES - 1)) as usize * LINE }
    }

    /// The word, when of those of the line the ones that are less than the key have a bit in `smaller`.
    #[inline(always)]
    fn pick(&self, lines: &Lines, smaller: u32) -> u32 {
        let Place { key, how, word } = *self;
        let direct = (u64::from(key) >> how.shift) as usize & (LINE - 1);
        let at = (smaller & u32::from(how.ends)).count_ones() as usize + usize::from(how.values) + direct;
        lines.array()[(word + at) & (MOST_LINES as usize * LINE - 1)].load(Ordering::Acquire)
    }
}

#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
struct How {
    /// Bits of the words that are ends.
    ends: u16,
    values: u8,
    shift: u8,
    /// Bits of the key that choose among lines.
    lines: u8,
}

#[cfg(target_arch = "x86_64")]
const HOW: [How; 4] = [
    How { ends: 0x7f, values: 8, shift: 32, lines: 0 },
    How { ends: 0x7fff, values: 16, shift: 32, lines: 0 },
    How { ends: 0, values: 0, shift: 28, lines: 0 },
    How { ends: 0, values: 0, shift: 24, lines: 0xf },
];

/// The data side of a [`super::Fib6`]: a handle that any worker may hold and clone.
#[derive(Clone)]
pub struct Lookup6 {
    table: Arc<Table>,
    kernel: Kernel,
}

impl Lookup6 {
    pub(super) fn new(table: Arc<Table>) -> Lookup6 {
        Lookup6 { table, kernel: Kernel::chosen() }
    }

    /// The same table read with other instructions; `None` when the processor lacks them.
    pub fn with_kernel(&self, kernel: Kernel) -> Option<Lookup6> {
        kernel.supported().then(|| Lookup6 { table: self.table.clone(), kernel })
    }

    /// The leaf of the longest prefix that covers `address` (host order), or
    /// [`Leaf::MISS`]. What the leaf names stays valid for the round.
    #[inline]
    pub fn lookup(&self, round: &Round<'_>, address: u128) -> Leaf {
        Leaf(self.table.lookup(round, address))
    }

    /// Writes the leaf of each address (host order), as [`Lookup6::lookup`] finds it.
    ///
    /// # Panics
    /// When there are not as many places as addresses.
    #[inline]
    pub fn lookup_batch(&self, round: &Round<'_>, addresses: &[u128], leaves: &mut [u32]) {
        assert_eq!(addresses.len(), leaves.len());
        for (addresses, leaves) in addresses.chunks(BLOCK).zip(leaves.chunks_mut(BLOCK)) {
            self.table.lookup_block(round, self.kernel, addresses, leaves);
        }
    }

    /// As [`Lookup6::lookup_batch`] in a table without its default route: what nothing longer covers is [`Leaf::MISS`].
    #[inline]
    pub fn lookup_batch_but_default(&self, round: &Round<'_>, addresses: &[u128], leaves: &mut [u32]) {
        assert_eq!(addresses.len(), leaves.len());
        for (addresses, leaves) in addresses.chunks(BLOCK).zip(leaves.chunks_mut(BLOCK)) {
            resolve(self.kernel, self.table.root.load(round), &self.table.lines, addresses, leaves);
        }
    }

    /// The default route's leaf, or [`Leaf::MISS`].
    #[inline]
    pub fn default_route(&self, _round: &Round<'_>) -> Leaf {
        self.table.default()
    }
}
