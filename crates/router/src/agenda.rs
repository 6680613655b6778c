//! Things that have something to do at times of their own: what is due is found without a look at the others.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::time::Instant;

/// Something that has something to do, or not.
pub trait Timed {
    /// When next.
    fn next_due(&self) -> Option<Instant>;
}

/// Things by their keys, and by their times.
#[derive(Debug)]
pub struct Agenda<K, V> {
    /// Each with the time under which it is filed.
    things: BTreeMap<K, (V, Option<Instant>)>,
    times: BTreeSet<(Instant, K)>,
}

impl<K, V> Default for Agenda<K, V> {
    fn default() -> Agenda<K, V> {
        Agenda { things: BTreeMap::new(), times: BTreeSet::new() }
    }
}

impl<K: Ord + Copy, V: Timed> Agenda<K, V> {
    pub fn contains_key(&self, key: &K) -> bool {
        self.things.contains_key(key)
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.things.get(key).map(|(thing, _)| thing)
    }

    pub fn is_empty(&self) -> bool {
        self.things.is_empty()
    }

    /// All of them, by key.
    pub fn iter(&self) -> impl Iterator<Item = (K, &V)> {
        self.things.iter().map(|(key, (thing, _))| (*key, thing))
    }

    /// Puts something in, and gives what was there.
    pub fn insert(&mut self, key: K, thing: V) -> Option<V> {
        let before = self.remove(&key);
        drop(self.get_or_insert_with(key, || thing));
        before
    }

    pub fn remove(&mut self, key: &K) -> Option<V> {
        let (thing, filed) = self.things.remove(key)?;
        filed.map(|time| self.times.remove(&(time, *key)));
        Some(thing)
    }

    /// Something to be changed: it is filed anew when that is done.
    pub fn get_mut(&mut self, key: &K) -> Option<Changing<'_, K, V>> {
        let (thing, filed) = self.things.get_mut(key)?;
        Some(Changing { key: *key, thing, filed, times: &mut self.times })
    }

    /// The same, of something that is made if it is not there.
    pub fn get_or_insert_with(&mut self, key: K, make: impl FnOnce() -> V) -> Changing<'_, K, V> {
        let (thing, filed) = self.things.entry(key).or_insert_with(|| (make(), None));
        Changing { key, thing, filed, times: &mut self.times }
    }

    /// When the next of them has something to do.
    pub fn next_due(&self) -> Option<Instant> {
        self.times.first().map(|(time, _)| *time)
    }

    /// Who has something to do by now, in the order of their keys.
    pub fn due(&self, now: Instant) -> BTreeSet<K> {
        self.times.iter().take_while(|(time, _)| *time <= now).map(|(_, key)| *key).collect()
    }
}

/// Something of an agenda that is being changed.
pub struct Changing<'a, K: Ord + Copy, V: Timed> {
    key: K,
    thing: &'a mut V,
    filed: &'a mut Option<Instant>,
    times: &'a mut BTreeSet<(Instant, K)>,
}

impl<K: Ord + Copy, V: Timed> Deref for Changing<'_, K, V> {
    type Target = V;
    fn deref(&self) -> &V {
        self.thing
    }
}

impl<K: Ord + Copy, V: Timed> DerefMut for Changing<'_, K, V> {
    fn deref_mut(&mut self) -> &mut V {
        self.thing
    }
}

impl<K: Ord + Copy, V: Timed> Drop for Changing<'_, K, V> {
    fn drop(&mut self) {
        let due = self.thing.next_due();
        if *self.filed != due {
            self.filed.map(|time| self.times.remove(&(time, self.key)));
            self.times.extend(due.map(|time| (time, self.key)));
            *self.filed = due;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    impl Timed for Option<Instant> {
        fn next_due(&self) -> Option<Instant> {
            *self
        }
    }

    #[test]
    fn who_is_due_is_found_however_its_time_changes() {
        let start = Instant::now();
        let at = |seconds| Some(start + Duration::from_secs(seconds));
        let mut agenda = Agenda::default();
        for (key, time) in [(1, at(10)), (2, at(5)), (3, None)] {
            assert_eq!(agenda.insert(key, time), None);
        }
        assert_eq!(agenda.next_due(), at(5));
        assert_eq!(agenda.due(at(4).unwrap()), BTreeSet::new());
        assert_eq!(agenda.due(at(10).unwrap()), BTreeSet::from([1, 2]));
        *agenda.get_mut(&2).unwrap() = None;
        *agenda.get_mut(&3).unwrap() = at(7);
        assert_eq!((agenda.next_due(), agenda.due(at(9).unwrap())), (at(7), BTreeSet::from([3])));
        *agenda.get_or_insert_with(3, || None) = at(20);
        *agenda.get_or_insert_with(4, || None) = at(15);
        assert_eq!(agenda.insert(1, at(30)), Some(at(10)));
        assert_eq!(agenda.next_due(), at(15));
        assert_eq!(agenda.remove(&4), Some(at(15)));
        assert_eq!((agenda.next_due(), agenda.remove(&4)), (at(20), None));
        assert_eq!(agenda.due(at(99).unwrap()), BTreeSet::from([1, 3]));
        assert_eq!((agenda.get(&2), agenda.get(&9), agenda.contains_key(&3)), (Some(&None), None, true));
    }
}
