//! Routing tables of either family: the lookup tables of [`tables`], with prefixes of either family as keys.

use super::route::{Source, TableIndex};
use std::collections::BTreeMap;
use std::net::IpAddr;
use tables::fib4::Memory;
use tables::{Fib4, Fib6, Leaf, fib4, fib6};
use wire::batch::FlowFields;
use wire::{Family, Prefix, Prefix4, Prefix6};

/// A table has no room for a prefix.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TableFull {
    #[error(transparent)]
    Ip4(#[from] fib4::TableFull),
    #[error(transparent)]
    Ip6(#[from] fib6::TableFull),
}

crate::codes! { TableFull {
    Ip4 => "table-full-ip4",
    Ip6 => "table-full-ip6",
} }

/// The key of a prefix in the table of its family.
pub(super) trait Key: Copy + Ord {
    fn of(prefix: Prefix) -> Self;
    fn prefix(self) -> Prefix;
    /// Whether two prefixes should be changed together, because the table replaces both in one step.
    fn are_near(one: Self, other: Self) -> bool;
    /// Sorts changes into the order in which they are made.
    fn sort<C: Copy>(changes: &mut Vec<(Self, C)>);
}

impl Key for fib4::Key {
    fn of(prefix: Prefix) -> fib4::Key {
        let Prefix::V4(prefix) = prefix else { unreachable!("{OTHER_FAMILY}") };
        fib4::Key::new(prefix.address().into(), prefix.length())
    }

    #[inline]
    fn prefix(self) -> Prefix {
        Prefix4::new(self.address().into(), self.length()).expect("keys have lengths of prefixes").into()
    }

    fn are_near(_: fib4::Key, _: fib4::Key) -> bool {
        false // a /16 at most is painted twice
    }

    fn sort<C: Copy>(changes: &mut Vec<(fib4::Key, C)>) {
        fib4::sort(changes);
    }
}

impl Key for fib6::Key {
    fn of(prefix: Prefix) -> fib6::Key {
        let Prefix::V6(prefix) = prefix else { unreachable!("{OTHER_FAMILY}") };
        fib6::Key::new(prefix.address().into(), prefix.length())
    }

    #[inline]
    fn prefix(self) -> Prefix {
        Prefix6::new(self.address().into(), self.length()).expect("keys have lengths of prefixes").into()
    }

    fn are_near(one: fib6::Key, other: fib6::Key) -> bool {
        Fib6::are_near(one, other)
    }

    fn sort<C: Copy>(changes: &mut Vec<(fib6::Key, C)>) {
        fib6::sort(changes);
    }
}

/// The number of prefixes that are changed or visited in one part: a few milliseconds.
pub(super) const PART: usize = 8192;

/// Tables are selected by the family of the prefix, so this cannot happen.
const OTHER_FAMILY: &str = "a table is asked for prefixes of its family";

fn keys_of<K: Key>(prefixes: &[Prefix]) -> Vec<K> {
    prefixes.iter().map(|prefix| K::of(*prefix)).collect()
}

/// Whether two prefixes of a family should be changed together.
fn are_near(one: Prefix, other: Prefix) -> bool {
    match one.family() {
        Family::Ip4 => fib4::Key::are_near(Key::of(one), Key::of(other)),
        Family::Ip6 => fib6::Key::are_near(Key::of(one), Key::of(other)),
    }
}

/// The prefixes of a table, each with a number.
pub(super) enum Fib {
    V4(Box<Fib4>),
    V6(Box<Fib6>),
}

/// Evaluates an expression for the table of either family.
macro_rules! of_either {
    ($fib:expr, $inner:ident => $value:expr) => {
        match $fib {
            Fib::V4($inner) => $value,
            Fib::V6($inner) => $value,
        }
    };
}

impl Fib {
    pub fn get(&self, prefix: Prefix) -> Option<u32> {
        of_either!(self, fib => fib.get(Key::of(prefix)))
    }

    /// Adds a prefix, or gives it another number. `leaf` returns what a number stands for.
    ///
    /// # Errors
    /// When there is no room; then nothing has changed.
    pub fn insert(&mut self, prefix: Prefix, value: u32, leaf: impl Fn(u32) -> Leaf) -> Result<(), TableFull> {
        match self {
            Fib::V4(fib) => drop(fib.insert(Key::of(prefix), value, leaf)?),
            Fib::V6(fib) => drop(fib.insert(Key::of(prefix), value, leaf)?),
        }
        Ok(())
    }

    /// Removes a prefix.
    ///
    /// # Errors
    /// As [`Fib::insert`]: one entry may have to become several.
    pub fn remove(&mut self, prefix: Prefix, leaf: impl Fn(u32) -> Leaf) -> Result<(), TableFull> {
        match self {
            Fib::V4(fib) => drop(fib.remove(Key::of(prefix), leaf)),
            Fib::V6(fib) => drop(fib.remove(Key::of(prefix), leaf)?),
        }
        Ok(())
    }

    /// Updates lookups after the leaf of a prefix's number has changed.
    ///
    /// # Errors
    /// When there is no room; then lookups find the same as before.
    pub fn repaint(&mut self, prefix: Prefix, leaf: impl Fn(u32) -> Leaf) -> Result<(), TableFull> {
        match self {
            Fib::V4(fib) => fib.repaint(Key::of(prefix), leaf),
            Fib::V6(fib) => fib.repaint(Key::of(prefix), leaf)?,
        }
        Ok(())
    }

    /// The same after the leaves of some numbers have changed.
    ///
    /// # Errors
    /// As [`Fib::repaint`].
    pub fn repaint_where(
        &mut self,
        changed: impl Fn(u32) -> bool,
        leaf: impl Fn(u32) -> Leaf,
    ) -> Result<(), TableFull> {
        match self {
            Fib::V4(fib) => fib.repaint_where(changed, leaf),
            Fib::V6(fib) => fib.repaint_where(changed, leaf)?,
        }
        Ok(())
    }

    /// The prefixes after another one, or all, by address and then the shorter first.
    pub fn behind(&self, prefix: Option<Prefix>) -> Box<dyn Iterator<Item = (Prefix, u32)> + '_> {
        match prefix {
            Some(prefix) => self.after(prefix),
            None => self.iter(),
        }
    }

    /// Does a part of [`Fib::repaint_where`], for about `most` prefixes after another one. Returns the prefix after
    /// which to continue, if it is not done. It skips the default route.
    ///
    /// # Errors
    /// As [`Fib::repaint`].
    pub fn repaint_part(
        &mut self,
        behind: Option<Prefix>,
        most: usize,
        changed: impl Fn(u32) -> bool,
        leaf: impl Fn(u32) -> Leaf,
    ) -> Result<Option<Prefix>, TableFull> {
        let (mut last, mut looked_at, mut goes_on) = (None::<Prefix>, 0, false);
        let mut keys = Vec::new();
        for (prefix, value) in self.behind(behind) {
            if looked_at >= 2 * most || looked_at >= most && last.is_some_and(|last| !are_near(last, prefix)) {
                goes_on = true;
                break;
            }
            looked_at += 1;
            last = Some(prefix);
            keys.extend((prefix.length() > 0 && changed(value)).then_some(prefix));
        }
        match self {
            Fib::V4(fib) => fib.repaint_all(&keys_of(&keys), leaf),
            Fib::V6(fib) => fib.repaint_all(&keys_of(&keys), leaf)?,
        }
        Ok(last.filter(|_| goes_on))
    }

    /// Prefetches the memory that a change of a prefix will read.
    pub fn prepare(&self, prefix: Prefix) {
        if let Fib::V4(fib) = self {
            fib.prepare(Key::of(prefix));
        }
    }

    /// The result of `is` for the longest prefix around an address for which it returns one.
    pub fn longest<R>(&self, address: IpAddr, mut is: impl FnMut(Prefix, u32) -> Option<R>) -> Option<R> {
        match (self, address) {
            (Fib::V4(fib), IpAddr::V4(address)) => {
                fib.longest(address.into(), Prefix4::MAX_LENGTH, |key, value| is(key.prefix(), value))
            }
            (Fib::V6(fib), IpAddr::V6(address)) => {
                fib.longest(address.into(), Prefix6::MAX_LENGTH, |key, value| is(key.prefix(), value))
            }
            _ => unreachable!("{OTHER_FAMILY}"),
        }
    }

    /// What lookups find at present, or `None` where the prefixes do not determine it.
    pub fn shown(&self, address: IpAddr) -> Option<Leaf> {
        match (self, address) {
            (Fib::V4(fib), IpAddr::V4(address)) => fib.shown(address.into()),
            (Fib::V6(fib), IpAddr::V6(address)) => Some(fib.shown(address.into())),
            _ => unreachable!("{OTHER_FAMILY}"),
        }
    }

    pub fn each(&self, mut look: impl FnMut(Prefix, u32)) {
        match self {
            Fib::V4(fib) => fib.each(|key, value| look(key.prefix(), value)),
            Fib::V6(fib) => fib.iter().for_each(|(key, value)| look(key.prefix(), value)),
        }
    }

    /// All prefixes, by address and then the shorter first.
    pub fn iter(&self) -> Box<dyn Iterator<Item = (Prefix, u32)> + '_> {
        match self {
            Fib::V4(fib) => Box::new(fib.iter().map(|(key, value)| (key.prefix(), value))),
            Fib::V6(fib) => Box::new(fib.iter().map(|(key, value)| (key.prefix(), value))),
        }
    }

    /// The prefixes that [`Fib::iter`] returns after a prefix, whether that one exists or not.
    pub fn after(&self, prefix: Prefix) -> Box<dyn Iterator<Item = (Prefix, u32)> + '_> {
        match self {
            Fib::V4(fib) => Box::new(fib.behind(Key::of(prefix)).map(|(key, value)| (key.prefix(), value))),
            Fib::V6(fib) => Box::new(fib.behind(Key::of(prefix)).map(|(key, value)| (key.prefix(), value))),
        }
    }

    pub fn len(&self) -> usize {
        of_either!(self, fib => fib.len())
    }

    /// How many prefixes there are of each length, from 0 on.
    pub fn lengths(&self) -> &[usize] {
        of_either!(self, fib => fib.lengths())
    }

    pub fn memory(&self) -> Memory {
        of_either!(self, fib => fib.memory())
    }

    /// Fits memory to the present prefixes.
    pub fn settle(&mut self) {
        if let Fib::V4(fib) = self {
            fib.settle();
        }
    }

    /// Frees unused memory.
    pub fn trim(&mut self, leaf: impl Fn(u32) -> Leaf) {
        match self {
            Fib::V4(fib) => fib.trim(),
            Fib::V6(fib) => fib.trim(leaf),
        }
    }
}

/// One routing table.
pub(super) struct Table {
    pub fib: Fib,
    /// For each source, which of two marks its up-to-date routes have.
    pub fresh: [bool; Source::ALL.len()],
    /// Whether an operator stated it, and whether another capability has use for it. It is there for either.
    pub is_stated: bool,
    pub is_found: bool,
    /// The most prefixes to which operators and programs may bring the table.
    pub limit: Option<usize>,
    /// Lookups could not be updated after a change because there was no room. The router retries.
    pub is_stale: bool,
    /// The fields by which the table distinguishes flows.
    pub flow: FlowFields,
}

impl Table {
    pub fn new(fib: Fib) -> Table {
        let flow = super::flow_hash::usual(match fib {
            Fib::V4(_) => Family::Ip4,
            Fib::V6(_) => Family::Ip6,
        });
        let (is_stated, is_found) = (true, false);
        Table { fib, fresh: Default::default(), is_stated, is_found, limit: None, is_stale: false, flow }
    }

    /// The most prefixes to which a source may bring the table. Routes that follow from addresses and neighbours always
    /// find room.
    pub fn limit_of(&self, source: Source) -> usize {
        match source {
            Source::Config | Source::Api | Source::Fpm | Source::Linux => self.limit.unwrap_or(usize::MAX),
            Source::Interface | Source::Dhcp | Source::OnLink | Source::Neighbour | Source::Proxy => usize::MAX,
        }
    }
}

/// The tables with one identifier, at most one of each family.
pub(super) struct Vrf {
    pub id: u32,
    tables: [Option<Table>; Family::ALL.len()],
}

/// All VRFs, by index.
#[derive(Default)]
pub(super) struct Vrfs {
    places: Vec<Option<Vrf>>,
    /// No index below this one is free.
    lowest_free: usize,
    by_id: BTreeMap<u32, TableIndex>,
}

impl Vrfs {
    pub fn get(&self, family: Family, index: TableIndex) -> Option<&Table> {
        self.vrf(index)?.tables[family as usize].as_ref()
    }

    /// # Panics
    /// When there is no such table. The tables of interfaces and lists, and those that callers have from
    /// [`crate::Router::find_table`], exist.
    pub fn get_mut(&mut self, family: Family, index: TableIndex) -> &mut Table {
        let vrf = self.places[index.0 as usize].as_mut();
        vrf.and_then(|vrf| vrf.tables[family as usize].as_mut()).expect("tables in use are there")
    }

    fn vrf(&self, index: TableIndex) -> Option<&Vrf> {
        self.places.get(index.0 as usize)?.as_ref()
    }

    /// The identifier that operators use for a table.
    pub fn id_of(&self, index: TableIndex) -> Option<u32> {
        self.vrf(index).map(|vrf| vrf.id)
    }

    /// The index of an identifier, for tables of any family.
    pub fn find(&self, id: u32) -> Option<TableIndex> {
        self.by_id.get(&id).copied()
    }

    fn iter(&self) -> impl Iterator<Item = (TableIndex, &Vrf)> {
        (0..).map(TableIndex).zip(&self.places).filter_map(|(index, vrf)| Some((index, vrf.as_ref()?)))
    }

    /// The tables of a family, with the identifiers that operators use.
    pub fn of(&self, family: Family) -> impl Iterator<Item = (TableIndex, u32, &Table)> {
        self.iter().filter_map(move |(index, vrf)| Some((index, vrf.id, vrf.tables[family as usize].as_ref()?)))
    }

    pub fn all(&self) -> impl Iterator<Item = &Table> {
        self.places.iter().flatten().flat_map(|vrf| vrf.tables.iter().flatten())
    }

    pub fn all_mut(&mut self) -> impl Iterator<Item = &mut Table> {
        self.places.iter_mut().flatten().flat_map(|vrf| vrf.tables.iter_mut().flatten())
    }

    /// Adds a table. The index is free, or already that of the identifier.
    pub fn add(&mut self, index: TableIndex, id: u32, table: Table) {
        let at = index.0 as usize;
        self.places.resize_with(self.places.len().max(at + 1), || None);
        let family = match table.fib {
            Fib::V4(_) => Family::Ip4,
            Fib::V6(_) => Family::Ip6,
        };
        let vrf = self.places[at].get_or_insert(Vrf { id, tables: [None, None] });
        vrf.tables[family as usize] = Some(table);
        self.by_id.insert(id, index);
        while self.places.get(self.lowest_free).is_some_and(Option::is_some) {
            self.lowest_free += 1;
        }
    }

    /// Removes a table.
    pub fn remove(&mut self, family: Family, index: TableIndex) {
        let Some(slot) = self.places.get_mut(index.0 as usize) else { return };
        if let Some(vrf) = slot {
            vrf.tables[family as usize] = None;
        }
        if let Some(gone) = slot.take_if(|vrf| vrf.tables.iter().all(Option::is_none)) {
            self.by_id.remove(&gone.id);
            self.lowest_free = self.lowest_free.min(index.0 as usize);
        }
        while self.places.last().is_some_and(Option::is_none) {
            self.places.pop();
        }
    }

    /// The free indices below `most`, from the lowest on.
    pub fn free(&self, most: usize) -> impl Iterator<Item = TableIndex> {
        (self.lowest_free..most).map(|at| TableIndex(at as u16)).filter(|index| self.vrf(*index).is_none())
    }
}
