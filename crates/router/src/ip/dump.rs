//! Routes as programs read them: all that each source states for a prefix, page by page. Between two pages anything may
//! change: a dump goes on behind the last prefix, in tables that are there then.

use super::entry::Entry;
use super::route::{Path, Source, TableIndex};
use crate::Router;
use crate::listing::PAGE;
use tables::Leaf;
use wire::{Family, Prefix};

/// A prefix of a table.
pub struct RouteView<'a> {
    pub table: TableIndex,
    /// The number by which operators and clients call the table.
    pub id: u32,
    pub prefix: Prefix,
    value: Entry,
    router: &'a Router,
}

impl<'a> RouteView<'a> {
    /// Who has a route for the prefix, with the paths of each; the best source first.
    pub fn sources(&self) -> impl Iterator<Item = (Source, &'a [Path])> + use<'a> {
        let ip = &self.router.ip;
        ip.several.shares(self.value).map(|share| (share.source, &ip.lists.get(share.list).key.paths[..]))
    }

    /// The paths of one source.
    pub fn paths(&self, source: Source) -> Option<&'a [Path]> {
        self.sources().find(|(other, _)| *other == source).map(|(_, paths)| paths)
    }

    /// Whether packets may take it: a path of one of its sources works.
    pub fn is_installed(&self) -> bool {
        self.router.ip.leaf(self.value.0) != Leaf::MISS
    }
}

/// A walk over the routes of one table, or of all.
pub struct RouteDump {
    /// The tables that are left, the last one first; none before it began.
    tables: Option<Vec<(Family, TableIndex, u32)>>,
    only: Option<(Family, u32)>,
    /// Of the last of them, behind which prefix to go on.
    behind: Option<Prefix>,
}

impl RouteDump {
    /// Of all tables: those of IPv4 first, each family's by number.
    pub fn all() -> RouteDump {
        RouteDump { tables: None, only: None, behind: None }
    }

    /// Of the table that has this number; nothing if there is none.
    pub fn of(family: Family, id: u32) -> RouteDump {
        RouteDump { only: Some((family, id)), ..RouteDump::all() }
    }

    /// Shows [`PAGE`] more routes at most. Whether there may be more.
    pub fn page(&mut self, router: &Router, mut show: impl FnMut(RouteView<'_>)) -> bool {
        let ids = |family| router.ip.table_ids(family).map(move |(table, id)| (family, table, id));
        let wanted = |(family, _, id): &(Family, TableIndex, u32)| self.only.is_none_or(|only| only == (*family, *id));
        let all =
            || Family::ALL.into_iter().flat_map(ids).filter(wanted).collect::<Vec<_>>().into_iter().rev().collect();
        let tables = self.tables.get_or_insert_with(all);
        let Some(&(family, table, id)) = tables.last() else { return false };
        let behind = self.behind.take();
        // It may be gone meanwhile.
        if router.find_table(family, id).ok() == Some(table) {
            for (prefix, value) in router.ip.fib(family, table).behind(behind).take(PAGE) {
                self.behind = Some(prefix);
                show(RouteView { table, id, prefix, value: Entry(value), router });
            }
        }
        if self.behind.is_none() {
            tables.pop();
        }
        true
    }
}
