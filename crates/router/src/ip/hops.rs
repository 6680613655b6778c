//! Which path lists depend on what: from a next hop, or an interface, to the lists that name it. When a link fails or
//! an address is removed, the work is in proportion to what depends on it, without a search through a million routes.

use super::path_list::{ListId, ListKey};
use super::route::{Hop, PathAction, TableIndex};
use crate::neighbour_key::NeighbourKey;
use graph::InterfaceIndex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Bound;
use wire::Prefix;

/// A next hop that at least one list names.
#[derive(Debug, Default)]
pub(super) struct HopState {
    lists: BTreeSet<ListId>,
    /// The route through which it is reached, and its list, when it is on no attached network.
    pub through: Option<(Prefix, ListId)>,
}

#[derive(Debug, Default)]
pub(super) struct Dependents {
    by_hop: BTreeMap<Hop, HopState>,
    by_interface: HashMap<InterfaceIndex, BTreeSet<ListId>>,
    /// How many lists require that a neighbour is on the link.
    on_link: HashMap<NeighbourKey, usize>,
}

impl Dependents {
    /// Records what a list names.
    pub fn add(&mut self, id: ListId, key: &ListKey) {
        for path in &*key.paths {
            if let Some(hop) = path.way.hop(key.table) {
                self.by_hop.entry(hop).or_default().lists.insert(id);
            }
            if let Some(interface) = path.way.interface() {
                self.by_interface.entry(interface).or_default().insert(id);
            }
        }
    }

    /// Forgets a list. Returns its next hops that no other list names, with the lists through which they were reached.
    pub fn remove(&mut self, id: ListId, key: &ListKey) -> Vec<(Hop, ListId)> {
        let mut unused = Vec::new();
        for path in &*key.paths {
            if let Some(hop) = path.way.hop(key.table)
                && let Some(state) = self.by_hop.get_mut(&hop)
            {
                state.lists.remove(&id);
                if state.lists.is_empty() {
                    unused.extend(state.through.map(|(_, list)| (hop, list)));
                    self.by_hop.remove(&hop);
                }
            }
            if let Some(interface) = path.way.interface()
                && let Some(lists) = self.by_interface.get_mut(&interface)
            {
                lists.remove(&id);
                if lists.is_empty() {
                    self.by_interface.remove(&interface);
                }
            }
        }
        unused
    }

    /// Lists with a next hop in a prefix, in all tables: a next hop with an interface belongs to that interface's
    /// table.
    pub fn of_hops_in(&self, prefix: Prefix) -> impl Iterator<Item = ListId> {
        let range = (prefix.first(), TableIndex(0))..=(prefix.last(), TableIndex(u16::MAX));
        self.by_hop.range(range).flat_map(|(_, state)| state.lists.iter().copied())
    }

    /// A part of [`Dependents::of_hops_in`]: the lists of the first `most` hops after `behind`. Also the last of these
    /// hops, when there may be more.
    pub fn some_of_hops_in(&self, prefix: Prefix, behind: Option<Hop>, most: usize) -> (BTreeSet<ListId>, Option<Hop>) {
        let from = behind.map_or(Bound::Included((prefix.first(), TableIndex(0))), Bound::Excluded);
        let range = (from, Bound::Included((prefix.last(), TableIndex(u16::MAX))));
        let (mut lists, mut hops, mut last) = (BTreeSet::new(), 0, None);
        for (hop, state) in self.by_hop.range(range).take(most) {
            lists.extend(&state.lists);
            (hops, last) = (hops + 1, Some(*hop));
        }
        (lists, last.filter(|_| hops == most))
    }

    /// Lists that name a next hop.
    pub fn of_hop(&self, hop: Hop) -> impl Iterator<Item = ListId> {
        self.by_hop.get(&hop).into_iter().flat_map(|state| state.lists.iter().copied())
    }

    pub fn hop(&self, hop: Hop) -> Option<&HopState> {
        self.by_hop.get(&hop)
    }

    pub fn hop_mut(&mut self, hop: Hop) -> Option<&mut HopState> {
        self.by_hop.get_mut(&hop)
    }

    pub fn hops(&self) -> usize {
        self.by_hop.len()
    }

    /// All lists with next hops.
    pub fn all(&self) -> impl Iterator<Item = ListId> {
        self.by_hop.values().flat_map(|state| state.lists.iter().copied())
    }

    /// Lists that name an interface.
    pub fn of_interface(&self, interface: InterfaceIndex) -> impl Iterator<Item = ListId> {
        self.by_interface.get(&interface).into_iter().flatten().copied()
    }

    /// A part of [`Dependents::of_interface`]: the first `most` lists after `behind`.
    pub fn some_of_interface(&self, index: InterfaceIndex, behind: Option<ListId>, most: usize) -> BTreeSet<ListId> {
        let Some(lists) = self.by_interface.get(&index) else { return BTreeSet::new() };
        let from = behind.map_or(Bound::Unbounded, Bound::Excluded);
        lists.range((from, Bound::Unbounded)).take(most).copied().collect()
    }

    /// Another list requires the neighbour; returns whether it is the first.
    pub fn insist(&mut self, key: NeighbourKey) -> bool {
        let lists = self.on_link.entry(key).or_default();
        *lists += 1;
        *lists == 1
    }

    /// A list no longer requires the neighbour; returns whether it was the last.
    pub fn relent(&mut self, key: NeighbourKey) -> bool {
        let Some(lists) = self.on_link.get_mut(&key) else { return false };
        *lists -= 1;
        let was_last = *lists == 0;
        if was_last {
            self.on_link.remove(&key);
        }
        was_last
    }

    pub fn is_on_link(&self, key: &NeighbourKey) -> bool {
        self.on_link.contains_key(key)
    }
}

/// The neighbours that a list requires on the link.
pub(super) fn insisted(key: &ListKey) -> BTreeSet<NeighbourKey> {
    let neighbour = |way: &PathAction| match *way {
        PathAction::OnLink { next_hop, interface } => Some(NeighbourKey { interface, address: next_hop }),
        _ => None,
    };
    // The routes that hold next hops on the link depend on themselves.
    let paths = key.paths.iter().filter(|_| !key.holds_itself);
    paths.filter_map(|path| neighbour(&path.way)).collect()
}
