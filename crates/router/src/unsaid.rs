//! Changes of routes and neighbours that nobody was told of yet. There may be millions in a second, so they are noted
//! only when somebody wants to hear of them, and said in batches when the operation is done.

use crate::neighbour_key::NeighbourKey;
use crate::notice::Notice;
use crate::route_source::Source;
use crate::table_index::TableIndex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use wire::{Family, Prefix};

/// Most prefixes that are named one by one. With more, all routes of the source in the table may have changed.
const MOST: usize = 4096;

type Key = (Source, TableIndex, Family);

/// Routes that changed.
#[derive(Default)]
pub(crate) struct UnsaidRoutes {
    pub is_wanted: bool,
    prefixes: BTreeMap<Key, BTreeSet<Prefix>>,
    /// Prefixes in all sets.
    count: usize,
    /// There are too many to name them.
    whole: BTreeSet<Key>,
}

impl UnsaidRoutes {
    /// The route of a source was added, has other paths, or is gone.
    #[inline]
    pub fn note(&mut self, source: Source, table: TableIndex, prefix: Prefix) {
        if self.is_wanted {
            self.keep((source, table, prefix.family()), prefix);
        }
    }

    fn keep(&mut self, key: Key, prefix: Prefix) {
        if self.whole.contains(&key) {
            return;
        }
        self.count += usize::from(self.prefixes.entry(key).or_default().insert(prefix));
        if self.count > MOST {
            self.whole.extend(std::mem::take(&mut self.prefixes).into_keys());
            self.count = 0;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.prefixes.is_empty() && self.whole.is_empty()
    }

    /// Says them.
    pub fn take(&mut self) -> Vec<Notice> {
        self.count = 0;
        let said = |((source, table, family), prefixes)| Notice::Routes { source, table, family, prefixes };
        let whole = std::mem::take(&mut self.whole).into_iter().map(|key| (key, None));
        let named = std::mem::take(&mut self.prefixes).into_iter();
        let named = named.map(|(key, prefixes)| (key, Some(Arc::from_iter(prefixes))));
        named.chain(whole).map(said).collect()
    }
}

/// Neighbours whose Ethernet addresses changed. One change is said once for each neighbour, so it needs no bound beyond
/// that of neighbours.
#[derive(Default)]
pub(crate) struct UnsaidNeighbours {
    pub is_wanted: bool,
    keys: BTreeSet<NeighbourKey>,
}

impl UnsaidNeighbours {
    /// A neighbour is known by another Ethernet address, or not any more.
    pub fn note(&mut self, key: NeighbourKey) {
        if self.is_wanted {
            self.keys.insert(key);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub fn take(&mut self) -> impl Iterator<Item = Notice> + use<> {
        std::mem::take(&mut self.keys).into_iter().map(Notice::Neighbour)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(number: u32) -> Prefix {
        Prefix::host(std::net::Ipv4Addr::from(number).into())
    }

    #[test]
    fn routes_are_named_once_and_too_many_are_not_named() {
        let mut routes = UnsaidRoutes::default();
        routes.note(Source::Api, TableIndex::DEFAULT, prefix(1));
        assert!(routes.is_empty(), "nobody wants to hear of it");
        routes.is_wanted = true;
        [2, 1, 2].into_iter().for_each(|number| routes.note(Source::Api, TableIndex::DEFAULT, prefix(number)));
        routes.note(Source::Config, TableIndex(3), prefix(1));
        let said = |source, table, prefixes: Option<Vec<Prefix>>| Notice::Routes {
            source,
            table,
            family: Family::Ip4,
            prefixes: prefixes.map(Arc::from),
        };
        let of_operator = said(Source::Config, TableIndex(3), Some(vec![prefix(1)]));
        let both = [of_operator, said(Source::Api, TableIndex::DEFAULT, Some(vec![prefix(1), prefix(2)]))];
        assert_eq!(routes.take(), both);
        assert!(routes.is_empty());
        (0..=MOST as u32).for_each(|number| routes.note(Source::Api, TableIndex::DEFAULT, prefix(number)));
        routes.note(Source::Api, TableIndex::DEFAULT, prefix(1));
        assert_eq!(routes.take(), [said(Source::Api, TableIndex::DEFAULT, None)]);
    }
}
