//! The number that a table holds for each prefix: it says which source wants which paths.
//!
//! Nearly all prefixes have one source, and then the number holds all of it. The others have a place on a shelf, and so
//! have the prefixes whose packets are counted.

use super::path_list::ListId;
use super::route::Source;

const SEVERAL: u32 = 1 << 31;
const SOURCE_SHIFT: u32 = 27;
const FRESH: u32 = 1 << 26;
/// The most path lists.
pub(super) const MAX_LISTS: usize = 1 << 26;

/// A source's share in a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Share {
    pub source: Source,
    pub list: ListId,
    /// The mark of the last resync that stated it, one of two.
    pub fresh: bool,
}

/// The number of a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry(pub u32);

impl Entry {
    pub fn one(share: Share) -> Entry {
        debug_assert!((share.list.0 as usize) < MAX_LISTS);
        let fresh = if share.fresh { FRESH } else { 0 };
        Entry((share.source as u32) << SOURCE_SHIFT | fresh | share.list.0)
    }

    /// The share, if only one source wants the prefix.
    #[inline]
    pub fn only(self) -> Option<Share> {
        (self.0 & SEVERAL == 0).then(|| Share {
            source: Source::ALL[(self.0 >> SOURCE_SHIFT & 0xf) as usize],
            list: ListId(self.0 & (FRESH - 1)),
            fresh: self.0 & FRESH != 0,
        })
    }

    fn place(self) -> usize {
        (self.0 & !SEVERAL) as usize
    }
}

/// What does not fit in the number.
#[derive(Debug, Clone, Default)]
pub(super) struct Shelved {
    shares: Vec<Share>,
    /// The counter slot of the prefix's packets.
    place: Option<u32>,
}

/// Prefixes that have several sources, or that are counted.
#[derive(Default)]
pub(super) struct MultiSourceEntries {
    shelf: Vec<Shelved>,
    free: Vec<usize>,
    /// Places given up during a batch: they are not reused until it is done.
    parked: Option<Vec<usize>>,
}

impl MultiSourceEntries {
    /// All shares of a prefix, the best source first.
    pub fn shares(&self, entry: Entry) -> impl Iterator<Item = Share> + '_ {
        let one = entry.only();
        let several = if one.is_some() { &[][..] } else { &self.shelf[entry.place()].shares };
        one.into_iter().chain(several.iter().copied())
    }

    /// The counter slot of a prefix's packets.
    #[inline]
    pub fn counted_at(&self, entry: Entry) -> Option<u32> {
        if entry.only().is_some() { None } else { self.shelf[entry.place()].place }
    }

    /// Sets the counter slot of a prefix.
    pub fn count(&mut self, entry: Entry, place: u32) -> Entry {
        let entry = entry.only().map_or(entry, |only| self.put(vec![only]));
        self.shelf[entry.place()].place = Some(place);
        entry
    }

    /// Stops counting a prefix.
    pub fn do_not_count(&mut self, entry: Entry) -> Entry {
        if entry.only().is_some() {
            return entry;
        }
        self.shelf[entry.place()].place = None;
        self.fit(entry).unwrap_or(entry)
    }

    /// Removes a prefix from the shelf if it needs no place there any more.
    fn fit(&mut self, entry: Entry) -> Option<Entry> {
        let Shelved { shares, place } = &self.shelf[entry.place()];
        let fit = match (&shares[..], place) {
            ([], _) => None,
            ([only], None) => Some(Entry::one(*only)),
            _ => return Some(entry),
        };
        self.give_up(entry);
        fit
    }

    /// Frees a prefix's place on the shelf, if it has one.
    pub fn give_up(&mut self, entry: Entry) {
        if entry.only().is_none() {
            self.shelf[entry.place()] = Shelved::default();
            self.parked.as_mut().unwrap_or(&mut self.free).push(entry.place());
        }
    }

    /// Begins a batch of changes that may be undone: the places that it gives up are not reused.
    pub fn begin_batch(&mut self) {
        self.parked = Some(Vec::new());
    }

    pub fn end_batch(&mut self) {
        self.free.extend(self.parked.take().into_iter().flatten());
    }

    /// What the shelf holds for a prefix, if anything.
    pub fn shelved(&self, entry: Entry) -> Option<Shelved> {
        entry.only().is_none().then(|| self.shelf[entry.place()].clone())
    }

    /// Restores the earlier meaning of a number within a batch.
    pub fn put_back(&mut self, entry: Entry, shelved: Shelved) {
        self.shelf[entry.place()] = shelved;
        self.parked.iter_mut().for_each(|parked| parked.retain(|place| *place != entry.place()));
    }

    /// Sets or removes a source's share in a prefix. Returns the prefix's new number and the source's earlier share.
    pub fn set(
        &mut self,
        entry: Option<Entry>,
        source: Source,
        share: Option<Share>,
    ) -> (Option<Entry>, Option<Share>) {
        let Some(entry) = entry else { return (share.map(Entry::one), None) };
        if let Some(only) = entry.only() {
            return match share {
                _ if only.source == source => (share.map(Entry::one), Some(only)),
                None => (Some(entry), None),
                Some(share) => {
                    let mut shares = vec![only, share];
                    shares.sort_by_key(|share| share.source);
                    (Some(self.put(shares)), None)
                }
            };
        }
        let shares = &mut self.shelf[entry.place()].shares;
        let at = shares.iter().position(|known| known.source == source);
        let before = at.map(|at| shares.remove(at));
        shares.extend(share);
        shares.sort_by_key(|share| share.source);
        (self.fit(entry), before)
    }

    fn put(&mut self, shares: Vec<Share>) -> Entry {
        let place = self.free.pop().unwrap_or(self.shelf.len());
        if place == self.shelf.len() {
            self.shelf.push(Shelved { shares, place: None });
        } else {
            self.shelf[place] = Shelved { shares, place: None };
        }
        Entry(SEVERAL | place as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_come_and_go_in_any_order() {
        let mut several = MultiSourceEntries::default();
        let share = |source, list, fresh| Share { source, list: ListId(list), fresh };
        let (api, config) = (share(Source::Api, 7, true), share(Source::Config, MAX_LISTS as u32 - 1, false));
        let (entry, before) = several.set(None, Source::Api, Some(api));
        assert_eq!((several.shares(entry.unwrap()).collect::<Vec<_>>(), before), (vec![api], None));
        assert_eq!(several.set(entry, Source::Dhcp, None), (entry, None));
        let (entry, _) = several.set(entry, Source::Config, Some(config));
        assert_eq!(several.shares(entry.unwrap()).collect::<Vec<_>>(), [config, api]);
        let other = share(Source::Api, 8, false);
        let (entry, before) = several.set(entry, Source::Api, Some(other));
        assert_eq!(before, Some(api));
        assert_eq!(several.shares(entry.unwrap()).collect::<Vec<_>>(), [config, other]);
        let (entry, before) = several.set(entry, Source::Config, None);
        assert_eq!((entry.unwrap().only(), before), (Some(other), Some(config)));
        assert_eq!(several.set(entry, Source::Api, None), (None, Some(other)));
        assert_eq!(several.free.len(), several.shelf.len());
        // A counted prefix stays on the shelf.
        let entry = several.count(Entry::one(api), 5);
        assert_eq!((several.counted_at(entry), several.shares(entry).collect::<Vec<_>>()), (Some(5), vec![api]));
        let (both, _) = several.set(Some(entry), Source::Config, Some(config));
        let (one, _) = several.set(both, Source::Api, None);
        assert_eq!((one, several.counted_at(entry)), (Some(entry), Some(5)));
        assert_eq!(several.do_not_count(entry), Entry::one(config));
        let entry = several.count(Entry::one(api), 5);
        assert_eq!(several.set(Some(entry), Source::Api, None), (None, Some(api)));
        assert_eq!(several.free.len(), several.shelf.len());
        // The place is used again.
        let (entry, _) = several.set(Some(Entry::one(api)), Source::Config, Some(config));
        assert_eq!((several.shelf.len(), several.shares(entry.unwrap()).count()), (1, 2));
    }
}
