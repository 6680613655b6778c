//! What workers know of neighbours: a table that control writes and workers read.
//!
//! It answers one question for each message of a neighbour and for each packet without a next hop:
//! is this neighbour known, by which Ethernet address and adjacency, asked for, or silent? So a worker
//! tells control only what is news: a flood of ARP costs control nothing. Workers write
//! back two things: when a neighbour was heard of last, and that an answer was taken.
//!
//! The table is an adviser. Control decides again with what it knows itself, so a reader
//! that meets a slot while it changes does no harm.

use super::NeighbourKey;
use rcu::{Domain, Published, Round};
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use wire::MacAddress;

/// Slots of a bucket: three cache lines. A key is in one of two buckets and goes where there is more room, so that the
/// table is two fifths full before a key finds no place. With one bucket of as many slots it would be a sixth.
const WAYS: usize = 4;
/// Buckets to begin with, and at most: by then the address space has been run through.
const FIRST_BUCKETS: usize = 256;
const MAX_BUCKETS: usize = 1 << 20;
/// A table with fewer entries than one in so many slots is made smaller when memory is given back.
const SPARSE: usize = 8;

/// The Ethernet address is in the lower 48 bits of a word, these are above.
const MAC: u64 = (1 << 48) - 1;
const KNOWN: u64 = 1 << 48;
const ASKED: u64 = 1 << 49;
const SILENT: u64 = 1 << 50;
const STATIC: u64 = 1 << 51;
const STALE: u64 = 1 << 52;

/// What is known of a neighbour, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Word(u64);

impl Word {
    /// Asked for, no answer yet.
    pub const INCOMPLETE: Word = Word(ASKED);
    /// Did not answer lately.
    pub const FAILED: Word = Word(SILENT);

    pub fn known(mac: MacAddress, is_static: bool) -> Word {
        let [a, b, c, d, e, f] = mac.0;
        let flags = if is_static { KNOWN | STATIC } else { KNOWN };
        Word(u64::from_be_bytes([0, 0, a, b, c, d, e, f]) | flags)
    }

    /// Known, but not confirmed lately: control is to be told when packets are sent to it.
    pub fn stale(mac: MacAddress) -> Word {
        Word(Word::known(mac, false).0 | STALE)
    }

    /// Known, and being asked again.
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
    /// Interface and address; 0 in the first is free, as no interface has the index 0.
    key: [AtomicU64; 3],
    word: AtomicU64,
    /// When a worker heard of it last (ticks).
    heard: AtomicU64,
    /// Its adjacency's object and 1, or 0.
    adjacency: AtomicU32,
}

/// What a slot knows a neighbour by. An IPv4 address stands as one that is mapped into IPv6, which no neighbour has.
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

/// The table itself.
pub struct Slots {
    /// Nobody outside can choose addresses that meet in one bucket.
    seed: u64,
    slots: Box<[Slot]>,
}

impl Slots {
    fn new(buckets: usize) -> Slots {
        let slots = (0..buckets * WAYS).map(|_| Slot::default()).collect();
        Slots { seed: RandomState::new().hash_one(buckets), slots }
    }

    /// The buckets that a key can be in; now and then they are one.
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

    /// False: both buckets are full.
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

    /// Takes over all entries of others; false when not all found a place.
    fn take_all(&self, from: &Slots) -> bool {
        from.slots.iter().fold(true, |all, slot| {
            let key = slot.key();
            let (word, heard) = (slot.word.load(Ordering::Relaxed), slot.heard.load(Ordering::Relaxed));
            let adjacency = slot.adjacency.load(Ordering::Relaxed);
            all & (slot.is_free() || self.insert(key, word, heard, adjacency))
        })
    }

    /// The same in so many buckets, or more: as rare as the doublings of a vector.
    fn moved_to(&self, buckets: usize) -> Slots {
        let mut others = Slots::new(buckets);
        // In another order of buckets one may overflow that did not before.
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

    /// The object of its adjacency. The slot may have become another's by now: who uses it looks whose it is.
    pub fn adjacency(self) -> Option<u32> {
        self.0.adjacency.load(Ordering::Acquire).checked_sub(1)
    }

    /// It was heard of.
    pub fn hear(self, now: u64) {
        self.0.heard.store(now, Ordering::Relaxed);
    }

    /// Takes the question that is open, if one is: of many answers only the first is told.
    pub fn take_question(self) -> bool {
        self.take(ASKED)
    }

    /// The answer could not be told.
    pub fn ask_again(self) {
        self.0.word.fetch_or(ASKED, Ordering::Relaxed);
    }

    /// Takes the doubt, if there is one: of many packets that are sent only the first is told of.
    pub fn take_doubt(self) -> bool {
        self.take(STALE)
    }

    /// The packet could not be told of.
    pub fn doubt_again(self) {
        self.0.word.fetch_or(STALE, Ordering::Relaxed);
    }

    fn take(self, flag: u64) -> bool {
        self.word().0 & flag != 0 && self.0.word.fetch_and(!flag, Ordering::Relaxed) & flag != 0
    }
}

/// The writer's side.
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

    /// Says which adjacency leads to a neighbour that is there.
    pub fn set_adjacency(&mut self, key: &NeighbourKey, object: u32) {
        if let Some(slot) = self.slots.find(key_of(key)) {
            // Who finds it finds the object made.
            slot.adjacency.store(object + 1, Ordering::Release);
        }
    }

    pub fn remove(&mut self, key: &NeighbourKey) {
        if let Some(slot) = self.slots.find(key_of(key)) {
            slot.key[0].store(0, Ordering::Release);
            self.used = self.used.saturating_sub(1);
        }
    }

    /// Gives memory back that neighbours had which are gone.
    pub fn trim(&mut self) {
        if self.slots.slots.len() > FIRST_BUCKETS * WAYS && self.used < self.slots.slots.len() / SPARSE {
            self.move_to((self.used * 2 / WAYS).next_power_of_two().max(FIRST_BUCKETS));
        }
    }

    /// When a worker heard of a neighbour last (ticks); 0: not yet.
    pub fn heard(&self, key: &NeighbourKey) -> u64 {
        self.slots.find(key_of(key)).map_or(0, |slot| slot.heard.load(Ordering::Relaxed))
    }

    /// The work that makes a larger table, when this one is soon full. With many neighbours it takes long: another
    /// thread can do it. Give its result to [`Table::adopt`]; entries that are set in between are lost.
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
            // By and by the one or the other way.
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
