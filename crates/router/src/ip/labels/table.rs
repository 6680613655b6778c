//! Label tables as the control thread keeps them and as nodes read them.

use super::key::{LabelAction, LabelKey, LabelLookup, LabelTable};
use crate::ip::class;
use crate::ip::control::{LabelTableIndex, Source};
use crate::ip::labels::pop;
use crate::ip::leaving::Leaving;
use crate::ip::path_list::{ListId, PathList, User};
use graph::Graph;
use rcu::Published;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;
use tables::Leaf;
use wire::Family;
use wire::mpls::{ENTROPY_INDICATOR, FIRST_UNRESERVED, IPV4_EXPLICIT_NULL, IPV6_EXPLICIT_NULL, ROUTER_ALERT};

/// The most tables, the default one included.
pub const MAX_TABLES: usize = 256;

/// The tables by index, as the control thread publishes them; `None` where there is no table.
pub type SharedLabels = Arc<Published<Vec<Option<LabelLookup>>>>;

/// The leaf of the entropy label indicator: it and the label behind it are removed, and the label that was above them
/// is looked up again.
pub const ENTROPY: Leaf = Leaf::new(class::LOOKUP, 1 << 16);

/// The source and the paths of a label.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LabelRoute {
    pub source: Source,
    pub list: ListId,
}

/// One table.
pub struct Labels {
    pub id: u32,
    table: LabelTable,
    routes: BTreeMap<LabelKey, LabelRoute>,
}

impl Labels {
    fn new(id: u32) -> std::io::Result<Labels> {
        let mut table = LabelTable::new()?;
        for (key, leaf) in reserved() {
            table.set(key.place(), LabelAction::to(leaf));
        }
        Ok(Labels { id, table, routes: BTreeMap::new() })
    }

    pub fn routes(&self) -> impl Iterator<Item = (LabelKey, LabelRoute)> + '_ {
        self.routes.iter().map(|(key, route)| (*key, *route))
    }

    /// The labels after a given one, or all.
    pub fn behind(&self, key: Option<LabelKey>) -> impl Iterator<Item = (LabelKey, LabelRoute)> + '_ {
        let from = key.map_or(Bound::Unbounded, Bound::Excluded);
        self.routes.range((from, Bound::Unbounded)).map(|(key, route)| (*key, *route))
    }

    pub fn get(&self, key: LabelKey) -> Option<LabelRoute> {
        self.routes.get(&key).copied()
    }

    /// What lookups find for a label.
    pub fn shown(&self, key: LabelKey) -> LabelAction {
        self.table.get(key.place())
    }

    /// Sets or removes the paths of a label. Returns its earlier ones.
    pub fn set(&mut self, key: LabelKey, route: Option<LabelRoute>, way: LabelAction) -> Option<LabelRoute> {
        self.table.set(key.place(), way);
        match route {
            Some(route) => self.routes.insert(key, route),
            None => self.routes.remove(&key),
        }
    }

    pub fn count(&self) -> usize {
        self.routes.len()
    }
}

/// The meanings of reserved labels (RFC 3032 2.1, RFC 6790).
pub fn reserved() -> impl Iterator<Item = (LabelKey, Leaf)> {
    let key = LabelKey::new;
    [
        (key(IPV4_EXPLICIT_NULL, true), pop::into_table(Family::Ip4, None, false)),
        (key(IPV6_EXPLICIT_NULL, true), pop::into_table(Family::Ip6, None, false)),
        // RFC 4182: not only at the bottom.
        (key(IPV4_EXPLICIT_NULL, false), Leaf::new(class::LOOKUP, 0)),
        (key(IPV6_EXPLICIT_NULL, false), Leaf::new(class::LOOKUP, 0)),
        (key(ROUTER_ALERT, false), Leaf::new(class::PUNT, 0)),
        (key(ENTROPY_INDICATOR, false), ENTROPY),
    ]
    .into_iter()
}

/// Whether operators may configure where a label leads.
pub(crate) fn is_free(label: u32) -> bool {
    label >= FIRST_UNRESERVED
}

/// All label tables.
pub struct LabelTables {
    places: Vec<Option<Labels>>,
    shared: SharedLabels,
    leaving: Leaving<u16>,
}

impl LabelTables {
    pub(crate) fn new(shared: SharedLabels) -> LabelTables {
        LabelTables { places: Vec::new(), shared, leaving: Leaving::default() }
    }

    pub fn get(&self, index: LabelTableIndex) -> Option<&Labels> {
        self.places.get(index.0 as usize)?.as_ref()
    }

    /// # Panics
    /// When there is no such table. The tables of lists, and those that callers have from [`LabelTables::find`], exist.
    pub(crate) fn get_mut(&mut self, index: LabelTableIndex) -> &mut Labels {
        self.places[index.0 as usize].as_mut().expect("tables in use are there")
    }

    pub fn iter(&self) -> impl Iterator<Item = (LabelTableIndex, &Labels)> {
        (0..).map(LabelTableIndex).zip(&self.places).filter_map(|(index, labels)| Some((index, labels.as_ref()?)))
    }

    /// The table with an identifier.
    pub fn find(&self, id: u32) -> Option<LabelTableIndex> {
        self.iter().find(|(_, labels)| labels.id == id).map(|(index, _)| index)
    }

    /// The identifier that operators use for a table.
    pub fn id_of(&self, index: LabelTableIndex) -> u32 {
        self.get(index).map_or(0, |labels| labels.id)
    }

    /// Adds a table. Returns `None` when there are too many.
    ///
    /// # Errors
    /// When there is no memory.
    pub(crate) fn add(&mut self, id: u32) -> std::io::Result<Option<LabelTableIndex>> {
        self.leaving.settled().for_each(drop);
        // The default table has the first index, so that packets need no table index.
        let range = if id == 0 { 0..1 } else { 1..MAX_TABLES as u16 };
        let is_free = |index: &u16| {
            self.places.get(usize::from(*index)).is_none_or(Option::is_none) && !self.leaving.holds(index)
        };
        let Some(index) = range.into_iter().find(is_free) else { return Ok(None) };
        let at = usize::from(index);
        let labels = Labels::new(id)?;
        self.places.resize_with(self.places.len().max(at + 1), || None);
        self.places[at] = Some(labels);
        self.publish();
        Ok(Some(LabelTableIndex(index)))
    }

    /// Removes an empty table.
    pub(crate) fn remove(&mut self, graph: &Graph, index: LabelTableIndex) {
        self.places[index.0 as usize] = None;
        self.publish();
        if index != LabelTableIndex::DEFAULT {
            self.leaving.add(graph, index.0);
        }
    }

    /// Frees unused memory.
    pub(crate) fn trim(&mut self) {
        self.places.iter_mut().flatten().for_each(|labels| labels.table.trim());
    }

    fn publish(&self) {
        let handle = |labels: &Option<Labels>| labels.as_ref().map(|labels| labels.table.handle());
        self.shared.publish(self.places.iter().map(handle).collect());
    }

    /// Updates lookups to the new leaf of a list.
    pub(crate) fn lead(&mut self, table: LabelTableIndex, list: &PathList, id: ListId, way: LabelAction) {
        let Labels { table, routes, .. } = self.get_mut(table);
        match list.few_users() {
            Some(users) => users.iter().filter_map(User::label).for_each(|key| {
                table.set(key.place(), way);
            }),
            None => {
                let of_list = routes.iter().filter(|(_, route)| route.list == id);
                of_list.for_each(|(key, _)| {
                    table.set(key.place(), way);
                });
            }
        }
    }
}
