//! The prefixes of one table of Linux, with their routes: many have one, few have several.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Slot;
use std::hash::Hash;

/// Targets are numbered; the upper bit is the mark of the look that saw the route last.
const MARK: u32 = 1 << 31;

/// A route of a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    pub metric: u32,
    target: u32,
}

impl Entry {
    pub fn new(metric: u32, target: u32, mark: bool) -> Entry {
        debug_assert!(target < MARK);
        Entry { metric, target: target | if mark { MARK } else { 0 } }
    }

    pub fn target(self) -> u32 {
        self.target & !MARK
    }

    fn mark(self) -> bool {
        self.target & MARK != 0
    }
}

/// Where a new route goes among those of the same prefix and metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Place {
    /// Before them: it forwards.
    First,
    /// Behind them.
    Last,
    /// In the place of the first.
    Replaces,
    /// In the place of all.
    ReplacesAll,
}

/// Prefixes of a family with their routes, the lowest metric first.
#[derive(Debug)]
pub struct Prefixes<K> {
    first: HashMap<K, Entry>,
    /// All routes of the prefixes that have several; `first` has the first of them, too.
    several: HashMap<K, Vec<Entry>>,
    /// That of the latest look.
    mark: bool,
    /// A look has begun, and not ended: some routes are marked by it and some are not.
    is_looking: bool,
}

impl<K> Default for Prefixes<K> {
    fn default() -> Prefixes<K> {
        Prefixes { first: HashMap::new(), several: HashMap::new(), mark: false, is_looking: false }
    }
}

/// What a change did: targets that a route more, or a route less, leads to, and whether another route forwards now.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changed {
    pub gone: Vec<u32>,
    pub forwarding_changed: bool,
}

impl<K: Copy + Eq + Hash> Prefixes<K> {
    pub fn len(&self) -> usize {
        self.first.len()
    }

    /// The target of the route that forwards.
    pub fn forwards(&self, key: K) -> Option<u32> {
        self.first.get(&key).map(|entry| entry.target())
    }

    /// All routes of a prefix.
    pub fn all(&self, key: K) -> &[Entry] {
        match (self.several.get(&key), self.first.get(&key)) {
            (Some(several), _) => several,
            (None, Some(only)) => std::slice::from_ref(only),
            (None, None) => &[],
        }
    }

    pub fn keys(&self) -> impl Iterator<Item = K> + '_ {
        self.first.keys().copied()
    }

    /// Adds a route.
    pub fn add(&mut self, key: K, metric: u32, target: u32, place: Place) -> Changed {
        let entry = Entry::new(metric, target, self.mark);
        // By far the most.
        let Slot::Occupied(mut first) = self.first.entry(key) else {
            self.first.insert(key, entry);
            return Changed { gone: Vec::new(), forwarding_changed: true };
        };
        if !self.several.contains_key(&key) {
            let before = *first.get();
            if before.metric == metric && matches!(place, Place::Replaces | Place::ReplacesAll) {
                first.insert(entry);
                return Changed { gone: vec![before.target()], forwarding_changed: before.target() != target };
            }
        }
        self.change(key, |all| {
            let mut gone = Vec::new();
            let at = all.partition_point(|other| other.metric < metric);
            let end = all.partition_point(|other| other.metric <= metric);
            match place {
                Place::Replaces if at < end => gone.push(std::mem::replace(&mut all[at], entry).target()),
                Place::ReplacesAll => {
                    gone.extend(all.splice(at..end, [entry]).map(Entry::target));
                }
                Place::First | Place::Replaces => all.insert(at, entry),
                Place::Last => all.insert(end, entry),
            }
            gone
        })
    }

    /// A look saw this route: it is marked, or added where it was not known.
    pub fn see(&mut self, key: K, metric: u32, target: u32) -> (bool, Changed) {
        let mark = self.mark;
        if let Some(first) = self.first.get_mut(&key)
            && (first.metric, first.target()) == (metric, target)
        {
            *first = Entry::new(metric, target, mark);
            if let Some(all) = self.several.get_mut(&key) {
                all[0] = *first;
            }
            return (false, Changed::default());
        }
        let known = |entry: &&mut Entry| (entry.metric, entry.target()) == (metric, target);
        if let Some(entry) = self.several.get_mut(&key).and_then(|all| all.iter_mut().find(known)) {
            *entry = Entry::new(metric, target, mark);
            return (false, Changed::default());
        }
        (true, self.add(key, metric, target, Place::Last))
    }

    /// A route leads elsewhere, and stays where it is among the others.
    pub fn lead(&mut self, key: K, metric: u32, before: u32, target: u32) -> Changed {
        let entry = Entry::new(metric, target, self.mark);
        self.change(key, |all| {
            let is_it = |entry: &&mut Entry| (entry.metric, entry.target()) == (metric, before);
            all.iter_mut().find(is_it).map(|found| std::mem::replace(found, entry).target()).into_iter().collect()
        })
    }

    /// Removes the first route of a metric that leads to this target, if there is one.
    pub fn remove(&mut self, key: K, metric: u32, target: u32) -> Changed {
        self.remove_where(key, |entry, found| found == 0 && (entry.metric, entry.target()) == (metric, target))
    }

    /// Removes routes of a prefix; the condition hears how many were removed before.
    pub fn remove_where(&mut self, key: K, condition: impl Fn(&Entry, usize) -> bool) -> Changed {
        if let (Some(only), None) = (self.first.get(&key), self.several.get(&key)) {
            let target = only.target();
            if !condition(only, 0) {
                return Changed::default();
            }
            self.first.remove(&key);
            return Changed { gone: vec![target], forwarding_changed: true };
        }
        if !self.first.contains_key(&key) {
            return Changed::default();
        }
        self.change(key, |all| {
            let mut gone = Vec::new();
            all.retain(|entry| {
                let goes = condition(entry, gone.len());
                if goes {
                    gone.push(entry.target());
                }
                !goes
            });
            gone
        })
    }

    /// Changes the routes of a known prefix.
    fn change(&mut self, key: K, change: impl FnOnce(&mut Vec<Entry>) -> Vec<u32>) -> Changed {
        let Some(before) = self.first.get(&key).copied() else { return Changed::default() };
        let mut all = self.several.remove(&key).unwrap_or_else(|| vec![before]);
        let gone = change(&mut all);
        let after = all.first().copied();
        match after {
            Some(first) => self.first.insert(key, first),
            None => self.first.remove(&key),
        };
        if all.len() > 1 {
            self.several.insert(key, all);
        }
        Changed { gone, forwarding_changed: after.map(Entry::target) != Some(before.target()) }
    }

    /// A look begins: what it does not see is not marked.
    pub fn begin_look(&mut self) {
        if self.is_looking {
            let mark = self.mark;
            let all = self.first.values_mut().chain(self.several.values_mut().flatten());
            all.for_each(|entry| *entry = Entry::new(entry.metric, entry.target(), mark));
        }
        self.mark = !self.mark;
        self.is_looking = true;
    }

    /// It ended, and what it had not seen was removed.
    pub fn end_look(&mut self) {
        self.is_looking = false;
    }

    /// The prefixes with routes that the look has not seen, with those routes.
    pub fn unseen(&self) -> Vec<(K, u32, u32)> {
        let unseen = |entry: &&Entry| entry.mark() != self.mark;
        let routes = |key: K| self.all(key).iter().filter(unseen).map(move |entry| (key, entry.metric, entry.target()));
        self.keys().flat_map(routes).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(prefixes: &Prefixes<u32>, key: u32) -> Vec<(u32, u32)> {
        prefixes.all(key).iter().map(|entry| (entry.metric, entry.target())).collect()
    }

    #[test]
    fn the_lowest_metric_forwards_whatever_came_first() {
        let mut prefixes = Prefixes::default();
        assert!(prefixes.add(1, 20, 7, Place::First).forwarding_changed);
        assert!(!prefixes.add(1, 30, 8, Place::First).forwarding_changed);
        assert!(prefixes.add(1, 10, 9, Place::First).forwarding_changed);
        assert_eq!(of(&prefixes, 1), [(10, 9), (20, 7), (30, 8)]);
        assert_eq!(prefixes.remove(1, 20, 9), Changed::default(), "of another metric");
        let gone = prefixes.remove(1, 10, 9);
        assert_eq!((gone.gone, gone.forwarding_changed, prefixes.forwards(1)), (vec![9], true, Some(7)));
        assert!(!prefixes.remove(1, 30, 8).forwarding_changed);
        assert!(prefixes.several.is_empty(), "one is left");
        prefixes.remove(1, 20, 7);
        assert_eq!((prefixes.len(), prefixes.forwards(1)), (0, None));
    }

    #[test]
    fn routes_of_one_metric_have_an_order() {
        let mut prefixes = Prefixes::default();
        prefixes.add(1, 0, 1, Place::First);
        assert!(!prefixes.add(1, 0, 2, Place::Last).forwarding_changed);
        assert!(prefixes.add(1, 0, 3, Place::First).forwarding_changed);
        assert_eq!(of(&prefixes, 1), [(0, 3), (0, 1), (0, 2)]);
        let replaced = prefixes.add(1, 0, 4, Place::Replaces);
        assert_eq!((replaced.gone, of(&prefixes, 1)), (vec![3], vec![(0, 4), (0, 1), (0, 2)]));
        let replaced = prefixes.add(1, 0, 5, Place::ReplacesAll);
        assert_eq!((replaced.gone, of(&prefixes, 1)), (vec![4, 1, 2], vec![(0, 5)]));
        let same = prefixes.add(1, 0, 5, Place::Replaces);
        assert_eq!((same.gone, same.forwarding_changed), (vec![5], false));
        // Two of the same target: one goes.
        prefixes.add(1, 0, 5, Place::Last);
        prefixes.remove(1, 0, 5);
        assert_eq!(of(&prefixes, 1), [(0, 5)]);
    }

    #[test]
    fn a_look_finds_what_is_gone() {
        let mut prefixes = Prefixes::default();
        for (key, metric, target) in [(1, 0, 1), (1, 5, 2), (2, 0, 1), (3, 0, 1)] {
            prefixes.add(key, metric, target, Place::First);
        }
        prefixes.begin_look();
        assert_eq!(prefixes.see(1, 5, 2), (false, Changed::default()));
        assert_eq!(prefixes.see(3, 0, 1), (false, Changed::default()));
        let (is_new, changed) = prefixes.see(4, 0, 1);
        assert!(is_new && changed.forwarding_changed);
        prefixes.add(5, 0, 1, Place::First);
        let mut unseen = prefixes.unseen();
        unseen.sort_unstable();
        assert_eq!(unseen, [(1, 0, 1), (2, 0, 1)]);
        prefixes.begin_look();
        assert_eq!(prefixes.unseen().len(), 6, "each look begins anew");
    }
}
