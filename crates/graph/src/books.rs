//! Control's records of the graph: which node leads to which, which edges wait for a node, which places are free, and
//! the order of the nodes. With them the cost to add or remove a node does not grow with the number of nodes.

use crate::index::EdgeIndex;
use crate::index::NodeIndex;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// An edge: the node where it begins, and its place among that node's edges.
pub(crate) type Edge = (NodeIndex, EdgeIndex);

/// Edges, found from either end.
#[derive(Default)]
pub(crate) struct EdgeBook {
    /// The edge that leads from one node to another.
    by_ends: HashMap<(NodeIndex, NodeIndex), EdgeIndex>,
    into: HashMap<NodeIndex, BTreeSet<Edge>>,
    /// Edges to nodes that are not registered yet, by the name of the node.
    waiting: HashMap<String, Vec<Edge>>,
    /// Places of edges whose targets are gone.
    free: HashMap<NodeIndex, BTreeSet<EdgeIndex>>,
}

impl EdgeBook {
    /// Records that an edge leads to a node.
    pub fn lead(&mut self, edge: Edge, to: NodeIndex) {
        self.by_ends.entry((edge.0, to)).or_insert(edge.1);
        self.into.entry(to).or_default().insert(edge);
    }

    /// Records that an edge waits for a node of this name.
    pub fn wait(&mut self, edge: Edge, name: &str) {
        self.waiting.entry(name.to_string()).or_default().push(edge);
    }

    /// Takes the edges that waited for a name. The nodes where they begin may be gone by now.
    pub fn waited(&mut self, name: &str) -> Vec<Edge> {
        self.waiting.remove(name).unwrap_or_default()
    }

    /// The first edge from one node to another.
    pub fn between(&self, from: NodeIndex, to: NodeIndex) -> Option<EdgeIndex> {
        self.by_ends.get(&(from, to)).copied()
    }

    pub fn leading_to(&self, to: NodeIndex) -> impl ExactSizeIterator<Item = Edge> {
        const NONE: &BTreeSet<Edge> = &BTreeSet::new();
        self.into.get(&to).unwrap_or(NONE).iter().copied()
    }

    /// Takes the lowest free place among the edges of a node.
    pub fn free_place(&mut self, from: NodeIndex) -> Option<EdgeIndex> {
        self.free.get_mut(&from)?.pop_first()
    }

    /// Forgets a node and its edges: `leads_to` has the place and the target of each. Returns the edges that led to the
    /// node; their places are free now.
    pub fn remove(
        &mut self,
        node: NodeIndex,
        leads_to: impl Iterator<Item = (EdgeIndex, NodeIndex)>,
    ) -> BTreeSet<Edge> {
        for (edge, to) in leads_to {
            self.by_ends.remove(&(node, to));
            if let Some(into) = self.into.get_mut(&to) {
                into.remove(&(node, edge));
            }
        }
        self.free.remove(&node);
        let cut = self.into.remove(&node).unwrap_or_default();
        for (from, edge) in &cut {
            self.by_ends.remove(&(*from, node));
            self.free.entry(*from).or_default().insert(*edge);
        }
        cut
    }
}

/// The distance of a node that is put first or last from its neighbour, so that many nodes can come between them.
const APART: i64 = 1 << 32;
/// A node that is put before another comes this far after the previous node, so that many can follow it.
const NEAR: i64 = 1 << 12;

/// The order of nodes: each comes before those that it leads to, except where an edge leads back. A node has a place, a
/// number that workers get as well. When a node is put somewhere else, all other nodes keep their places.
#[derive(Default)]
pub(crate) struct Ranks {
    /// The place of each node, by its index; 0 for a node that never had one.
    of: Vec<i64>,
    at: BTreeMap<i64, NodeIndex>,
}

impl Ranks {
    /// Puts a node before all other nodes. Returns it with its place.
    pub fn put_first(&mut self, node: NodeIndex) -> (NodeIndex, i64) {
        let place = self.at.first_key_value().map_or(-APART, |(first, _)| first - APART);
        self.put(node, place)
    }

    /// Puts a node after all other nodes. Returns it with its place.
    pub fn put_last(&mut self, node: NodeIndex) -> (NodeIndex, i64) {
        let place = self.at.last_key_value().map_or(APART, |(last, _)| last + APART);
        self.put(node, place)
    }

    /// Puts a node just before another. Returns it with its place; none, if there is no room for it.
    pub fn put_before(&mut self, node: NodeIndex, next: NodeIndex) -> Option<(NodeIndex, i64)> {
        let end = self.place(next);
        let begin = self.at.range(..end).next_back().map_or(end - APART, |(before, _)| *before);
        let room = end - begin;
        (room > 1).then(|| self.put(node, begin + NEAR.min(room / 2)))
    }

    fn put(&mut self, node: NodeIndex, place: i64) -> (NodeIndex, i64) {
        let at = node.0 as usize;
        self.remove(node);
        self.of.resize(self.of.len().max(at + 1), 0);
        self.of[at] = place;
        self.at.insert(place, node);
        (node, place)
    }

    pub fn remove(&mut self, node: NodeIndex) {
        let place = self.place(node);
        if self.at.get(&place) == Some(&node) {
            self.at.remove(&place);
        }
    }

    pub fn place(&self, node: NodeIndex) -> i64 {
        self.of.get(node.0 as usize).copied().unwrap_or(0)
    }

    /// Whether one node comes before another.
    pub fn is_before(&self, one: NodeIndex, other: NodeIndex) -> bool {
        self.place(one) < self.place(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_found_from_both_ends_until_one_is_gone() {
        let mut book = EdgeBook::default();
        let [a, b, c] = [1, 2, 3].map(NodeIndex);
        book.lead((a, 0), b);
        book.lead((a, 1), c);
        book.lead((b, 0), c);
        book.lead((b, 5), c);
        assert_eq!((book.between(a, b), book.between(b, c), book.between(c, a)), (Some(0), Some(0), None));
        assert_eq!(book.leading_to(c).collect::<Vec<_>>(), [(a, 1), (b, 0), (b, 5)]);
        assert_eq!(book.remove(c, [].into_iter()), BTreeSet::from([(a, 1), (b, 0), (b, 5)]));
        assert_eq!((book.between(a, c), book.leading_to(c).len()), (None, 0));
        assert_eq!((book.free_place(b), book.free_place(b), book.free_place(b)), (Some(0), Some(5), None));
        assert_eq!(book.remove(a, [(0, b)].into_iter()), BTreeSet::new());
        assert_eq!(book.leading_to(b).len(), 0);
        book.wait((b, 7), "later");
        assert_eq!((book.waited("later"), book.waited("later")), (vec![(b, 7)], vec![]));
    }

    #[test]
    fn nodes_come_where_they_are_put() {
        let mut ranks = Ranks::default();
        let [a, b, c] = [0, 1, 2].map(NodeIndex);
        let places = [a, b, c].map(|node| ranks.put_last(node).1);
        assert!(places.is_sorted() && ranks.is_before(a, b) && ranks.is_before(b, c));
        ranks.put_last(a);
        assert!(ranks.is_before(c, a));
        ranks.put_first(c);
        ranks.put_first(b);
        assert!(ranks.is_before(c, a) && ranks.is_before(b, c));
    }

    #[test]
    fn many_are_put_between_two_and_then_there_is_no_room() {
        let mut ranks = Ranks::default();
        let [first, last] = [0, 1].map(NodeIndex);
        ranks.put_last(first);
        ranks.put_last(last);
        let mut newest = first;
        for node in (2..100_000).map(NodeIndex) {
            ranks.put_before(node, last).expect("room for a million");
            assert!(ranks.is_before(newest, node) && ranks.is_before(node, last));
            newest = node;
        }
        // Each node takes half of the room, so the room ends soon.
        let full = (100_000..100_064).map(NodeIndex).find_map(|node| {
            let next = newest;
            newest = node;
            ranks.put_before(node, next).is_none().then_some(next)
        });
        let full = full.expect("the room between two is not endless");
        assert!(ranks.is_before(NodeIndex(99_998), full), "what there was no room for has changed nothing");
    }
}
