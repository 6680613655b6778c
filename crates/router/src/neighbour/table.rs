//! What workers know about neighbours: a table that the control thread writes and workers read.
//!
//! It answers one question for each message of a neighbour and for each packet without a known next hop: is this
//! neighbour known, with which Ethernet address and adjacency, is a request pending, or is it silent? So a worker
//! reports only changes to the control thread, and a flood of ARP costs the control thread nothing. Workers write two
//! things into it: when a neighbour was last heard of, and that an answer was accepted.
//!
//! The table is only advice. The control thread decides again with its own state, so a reader that sees a slot while it
//! changes does no harm.

use super::NeighbourKey;
use rcu::{Domain, Published, Round};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use wire::MacAddress;

/// Slots of a bucket: three cache lines. A key is in one of two buckets, and goes into the one with more room. So the
/// table is two fifths full before a key finds no place; with one bucket of as many slots it would be a sixth.
const WAYS: usize = 4;
/// Buckets at the beginning, and at most: four million slots, 200 MB.
const FIRST_BUCKETS: usize = 256;
const MAX_BUCKETS: usize = 1 << 20;
/// A table is made smaller, when memory is freed, if fewer than one in this many slots is used.
const SPARSE: usize = 8;

/// The Ethernet address is in the lower 48 bits of a word, and these flags are above it.
const MAC: u64 = (1 << 48) - 1;
const KNOWN: u64 = 1 << 48;
const ASKED: u64 = 1 << 49;
const SILENT: u64 = 1 << 50;
const STATIC: u64 = 1 << 51;
const STALE: u64 = 1 << 52;

/// The state of a neighbour, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word(u64);

impl Word {
    /// A request is pending.
    pub const INCOMPLETE: Word = Word(ASKED);
    /// The neighbour did not answer lately.
    pub const FAILED: Word = Word(SILENT);

    pub fn known(mac: MacAddress, is_static: bool) -> Word {
        let [a, b, c, d, e, f] = mac.0;
        let flags = if is_static { KNOWN | STATIC } else { KNOWN };
        Word(u64::from_be_bytes([0, 0, a, b, c, d, e, f]) | flags)
    }

    /// Known, but not confirmed lately: workers report packets to it to the control thread.
    pub fn stale(mac: MacAddress) -> Word {
        Word(Word::known(mac, false).0 | STALE)
    }

    /// Known, and a request is pending.
    pub fn probed(mac: MacAddress) -> Word {
        Word(Word::known(mac, false).0 | ASKED)
    }

    pub fn mac(self) -> Option<MacAddress> {
        let [_, _, mac @ ..] = (self.0 & MAC).to_be_bytes();
        (self.0 & KNOWN != 0).then_some(MacAddress(mac))
    }

    pub fn is_static(self) -> bool {
        self.0 & STATIC != 0
    }

    pub fn is_silent(self) -> bool {
        self.0 & SILENT != 0
    }

    pub fn is_stale(self) -> bool {
        self.0 & STALE != 0
    }
}

#[derive(Default)]
struct Slot {
    /// Interface and address. A slot with 0 in the first word is free, because no interface has the index 0.
    key: [AtomicU64; 3],
    word: AtomicU64,
    /// When a worker last heard of it (ticks).
    heard: AtomicU64,
    /// The object of its adjacency plus 1, or 0.
    adjacency: AtomicU32,
}

/// The key of a slot. An IPv4 address is stored as an IPv4-mapped IPv6 address, which no IPv6 neighbour has.
type Key = [u64; 3];

fn key_of(key: &NeighbourKey) -> Key {
    let address = match key.address {
        IpAddr::V4(address) => address.to_ipv6_mapped(),
        IpAddr::V6(address) => address,
    };
    let address = u128::from(address);
    [key.interface.0.into(), (address >> 64) as u64, address as u64]
}

impl Slot {
    fn is_free(&self) -> bool {
        self.key[0].load(Ordering::Relaxed) == 0
    }

    fn key(&self) -> Key {
        [0, 1, 2].map(|word| self.key[word].load(Ordering::Acquire))
    }
}

/// The slots of the table.
pub struct Slots {
    /// A random seed, so that hosts cannot choose addresses that share a bucket.
    seed: u64,
    slots: Box<[Slot]>,
}

impl Slots {
    fn new(buckets: usize) -> Slots {
        let slots = (0..buckets * WAYS).map(|_| Slot::default()).collect();
        Slots { seed: RandomState::new().hash_one(buckets), slots }
    }

    /// The buckets that a key can be in. Sometimes both are the same.
    fn buckets(&self, key: Key) -> [&[Slot]; 2] {
        let mix = |hash: u64, word: u64| {
            let hash = (hash ^ word ^ self.seed).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (hash ^ hash >> 27 ^ self.seed.rotate_left(32)).wrapping_mul(0x94d0_49bb_1331_11eb)
        };
        let hash = key.into_iter().fold(0, mix);
        let hash = hash ^ hash >> 31;
        let buckets = self.slots.len() / WAYS;
        [hash >> 32, hash].map(|hash| {
            let at = hash as usize & (buckets - 1);
            &self.slots[at * WAYS..(at + 1) * WAYS]
        })
    }

    fn find(&self, key: Key) -> Option<&Slot> {
        self.buckets(key).into_iter().flatten().find(|slot| slot.key() == key)
    }

    /// Adds an entry. Returns false when both buckets are full.
    fn insert(&self, key: Key, word: u64, heard: u64, adjacency: u32) -> bool {
        let Some(slot) = self.free_in(key) else { return false };
        slot.word.store(word, Ordering::Relaxed);
        slot.heard.store(heard, Ordering::Relaxed);
        slot.adjacency.store(adjacency, Ordering::Relaxed);
        for (word, value) in slot.key.iter().zip(key).rev() {
            word.store(value, Ordering::Release);
        }
        true
    }

    /// Copies all entries of another table. Returns false when some found no place.
    fn take_all(&self, from: &Slots) -> bool {
        from.slots.iter().fold(true, |all, slot| {
            let key = slot.key();
            let (word, heard) = (slot.word.load(Ordering::Relaxed), slot.heard.load(Ordering::Relaxed));
            let adjacency = slot.adjacency.load(Ordering::Relaxed);
            all & (slot.is_free() || self.insert(key, word, heard, adjacency))
        })
    }

    /// The same entries in this many buckets, or more: as rare as the growth of a vector.
    fn moved_to(&self, buckets: usize) -> Slots {
        let mut others = Slots::new(buckets);
        // With another number of buckets, a bucket may overflow that did not before.
        while !others.take_all(self) {
            let buckets = others.slots.len() / WAYS;
            if buckets >= MAX_BUCKETS {
                break; // an entry without a place is unknown to workers until it is set again
            }
            others = Slots::new(buckets * 2);
        }
        others
    }

    fn free_in(&self, key: Key) -> Option<&Slot> {
        let room = |bucket: &&[Slot]| bucket.iter().filter(|slot| slot.is_free()).count();
        self.buckets(key).into_iter().max_by_key(room)?.iter().find(|slot| slot.is_free())
    }
}

/// The readers' side, shared by all workers.
pub struct Shared(Published<Arc<Slots>>);

impl Shared {
    pub fn get<'r>(&self, round: &'r Round<'_>, key: &NeighbourKey) -> Option<Entry<'r>> {
        self.0.load(round).find(key_of(key)).map(Entry)
    }
}

/// A neighbour in the table, for one round.
#[derive(Clone, Copy)]
pub struct Entry<'r>(&'r Slot);

impl Entry<'_> {
    pub fn word(self) -> Word {
        Word(self.0.word.load(Ordering::Relaxed))
    }

    /// The object of its adjacency. The slot may belong to another neighbour by now, so the caller must check the
    /// object's neighbour.
    pub fn adjacency(self) -> Option<u32> {
        self.0.adjacency.load(Ordering::Acquire).checked_sub(1)
    }

    /// Records that the neighbour was heard of.
    pub fn hear(self, now: u64) {
        self.0.heard.store(now, Ordering::Relaxed);
    }

    /// Takes the pending request, if there is one: of several answers only the first is reported.
    pub fn take_question(self) -> bool {
        self.take(ASKED)
    }

    /// Restores the pending request, because the answer could not be reported.
    pub fn ask_again(self) {
        self.0.word.fetch_or(ASKED, Ordering::Relaxed);
    }

    /// Takes the stale mark, if there is one: of several packets only the first is reported.
    pub fn take_doubt(self) -> bool {
        self.take(STALE)
    }

    /// Restores the stale mark, because the packet could not be reported.
    pub fn doubt_again(self) {
        self.0.word.fetch_or(STALE, Ordering::Relaxed);
    }

    fn take(self, flag: u64) -> bool {
        self.word().0 & flag != 0 && self.0.word.fetch_and(!flag, Ordering::Relaxed) & flag != 0
    }
}

/// The control thread's side, which writes.
pub struct Table {
    slots: Arc<Slots>,
    shared: Arc<Shared>,
    used: usize,
}

impl Table {
    pub fn new(domain: &Arc<Domain>) -> Table {
        let slots = Arc::new(Slots::new(FIRST_BUCKETS));
        let shared = Arc::new(Shared(Published::new(domain, slots.clone())));
        Table { slots, shared, used: 0 }
    }

    pub fn shared(&self) -> Arc<Shared> {
        self.shared.clone()
    }

    pub fn set(&mut self, key: &NeighbourKey, word: Word) {
        let key = key_of(key);
        if let Some(slot) = self.slots.find(key) {
            return slot.word.store(word.0, Ordering::Relaxed);
        }
        while !self.slots.insert(key, word.0, 0, 0) {
            let buckets = self.slots.slots.len() / WAYS;
            if buckets >= MAX_BUCKETS {
                return; // its answers count as not asked for
            }
            self.move_to(buckets * 2);
        }
        self.used += 1;
    }

    /// Sets the adjacency of a neighbour that is in the table.
    pub fn set_adjacency(&mut self, key: &NeighbourKey, object: u32) {
        if let Some(slot) = self.slots.find(key_of(key)) {
            // A reader that sees this value sees the complete object.
            slot.adjacency.store(object + 1, Ordering::Release);
        }
    }

    pub fn remove(&mut self, key: &NeighbourKey) {
        if let Some(slot) = self.slots.find(key_of(key)) {
            slot.key[0].store(0, Ordering::Release);
            self.used = self.used.saturating_sub(1);
        }
    }

    /// Frees the memory of removed neighbours.
    pub fn trim(&mut self) {
        if self.slots.slots.len() > FIRST_BUCKETS * WAYS && self.used < self.slots.slots.len() / SPARSE {
            self.move_to((self.used * 2 / WAYS).next_power_of_two().max(FIRST_BUCKETS));
        }
    }

    /// When a worker last heard of a neighbour (ticks); 0: not yet.
    pub fn heard(&self, key: &NeighbourKey) -> u64 {
        self.slots.find(key_of(key)).map_or(0, |slot| slot.heard.load(Ordering::Relaxed))
    }

    /// The work to make a larger table, when this one is nearly full. With many neighbours it takes long, so another
    /// thread may do it. Pass its result to [`Table::adopt`]; entries that are set in the meantime are lost.
    pub fn larger(&self) -> Option<impl FnOnce() -> Slots + Send + use<>> {
        let slots = self.slots.slots.len();
        let is_due = self.used >= slots / 8 * 3 && slots / WAYS < MAX_BUCKETS;
        let old = self.slots.clone();
        is_due.then_some(move || old.moved_to(slots / WAYS * 2))
    }

    /// Replaces the table.
    pub fn adopt(&mut self, slots: Slots) {
        self.slots = Arc::new(slots);
        self.shared.0.publish(self.slots.clone());
    }

    fn move_to(&mut self, buckets: usize) {
        self.adopt(self.slots.moved_to(buckets));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::InterfaceIndex;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn key(number: u32) -> NeighbourKey {
        let (interface, host) = (InterfaceIndex(1 + number % 3), number * 7);
        match number % 5 {
            0 => NeighbourKey::new(interface, Ipv6Addr::from((0x2001_0db8 << 96) + u128::from(host))),
            _ => NeighbourKey::new(interface, Ipv4Addr::from(host)),
        }
    }

    #[test]
    fn what_control_sets_is_found_at_any_size_and_what_it_removes_is_not() {
        let domain = Domain::new(1);
        let mut table = Table::new(&domain);
        let shared = table.shared();
        let mac = |n: u32| MacAddress([2, 0, 0, 0, (n >> 8) as u8, n as u8]);
        const MANY: u32 = 20_000;
        (0..MANY).for_each(|n| table.set(&key(n), Word::known(mac(n), n % 2 == 0)));
        (0..MANY).step_by(3).for_each(|n| table.remove(&key(n)));
        let mut reader = domain.register().unwrap();
        let round = reader.round();
        for n in 0..MANY {
            let found = shared.get(&round, &key(n)).map(Entry::word);
            let expected = (n % 3 != 0).then(|| Word::known(mac(n), n % 2 == 0));
            assert_eq!(found, expected, "{n}");
            if let Some(word) = found {
                assert_eq!((word.mac(), word.is_static()), (Some(mac(n)), n % 2 == 0));
            }
        }
    }

    #[test]
    fn it_is_well_filled_before_it_grows_and_small_again_when_they_are_gone() {
        let domain = Domain::new(1);
        let mut table = Table::new(&domain);
        let shared = table.shared();
        const MANY: u32 = 200_000;
        for n in 0..MANY {
            let slots = table.slots.slots.len();
            // The table grows by either way in turn.
            let larger = table.larger().filter(|_| n % 3 == 0).map(|larger| larger());
            larger.into_iter().for_each(|larger| table.adopt(larger));
            table.set(&key(n), Word::INCOMPLETE);
            let has_grown = table.slots.slots.len() > slots;
            assert!(!has_grown || n as usize > slots / 3, "{n} of {slots}");
        }
        table.trim();
        assert!(table.slots.slots.len() > MANY as usize);
        (100..MANY).for_each(|n| table.remove(&key(n)));
        table.trim();
        assert_eq!(table.slots.slots.len(), FIRST_BUCKETS * WAYS);
        let mut reader = domain.register().unwrap();
        let round = reader.round();
        (0..MANY).for_each(|n| assert_eq!(shared.get(&round, &key(n)).is_some(), n < 100, "{n}"));
    }

    #[test]
    fn a_question_is_taken_once_and_what_was_heard_survives_growth() {
        let domain = Domain::new(1);
        let mut table = Table::new(&domain);
        let shared = table.shared();
        table.set(&key(1), Word::INCOMPLETE);
        {
            let mut reader = domain.register().unwrap();
            let round = reader.round();
            let entry = shared.get(&round, &key(1)).unwrap();
            assert_eq!((entry.take_question(), entry.take_question()), (true, false));
            entry.ask_again();
            assert!(entry.take_question());
            entry.hear(77);
        }
        (2..5000).for_each(|n| table.set(&key(n), Word::FAILED));
        assert_eq!(table.heard(&key(1)), 77);
        assert_eq!(table.heard(&key(2)), 0);
    }
}
