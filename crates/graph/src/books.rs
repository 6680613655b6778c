//! Control's books on the graph, kept so that what a node costs to come and go does not grow with how many there are:
//! who leads to whom, who waits for whom, which places are free, and the order of the nodes.

use crate::NodeIndex;
use crate::vector::EdgeIndex;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// An edge by its beginning.
pub(crate) type Edge = (NodeIndex, EdgeIndex);

/// Edges by their ends.
#[derive(Default)]
pub(crate) struct EdgeBook {
    /// The edge that leads from one node to another.
    by_ends: HashMap<(NodeIndex, NodeIndex), EdgeIndex>,
    into: HashMap<NodeIndex, BTreeSet<Edge>>,
    /// Edges to nodes that are not there yet, by their names.
    waiting: HashMap<String, Vec<Edge>>,
    /// Places of edges whose nodes are gone.
    free: HashMap<NodeIndex, BTreeSet<EdgeIndex>>,
}

impl EdgeBook {
    /// An edge leads to a node.
    pub fn lead(&mut self, edge: Edge, to: NodeIndex) {
        self.by_ends.entry((edge.0, to)).or_insert(edge.1);
        self.into.entry(to).or_default().insert(edge);
    }

    /// An edge waits for a node of a name.
    pub fn wait(&mut self, edge: Edge, name: &str) {
        self.waiting.entry(name.to_string()).or_default().push(edge);
    }

    /// Those that waited for a name; nodes may have gone since.
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

    /// A free place among the edges of a node, the lowest first.
    pub fn free_place(&mut self, from: NodeIndex) -> Option<EdgeIndex> {
        self.free.get_mut(&from)?.pop_first()
    }

    /// Forgets a node with its edges, each by its place and where it leads. Gives the edges that led to it: their
    /// places are free now.
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

/// So far apart are two nodes of which one was put last: that many may come between them.
const APART: i64 = 1 << 32;
/// A node that is put before another comes so far behind the one that was there, so that many can follow.
const NEAR: i64 = 1 << 12;

/// The order of nodes: each comes before those that it leads to, but where an edge leads back. A node has a place, a
/// number as workers are told it; when one is put somewhere else, the others keep theirs.
#[derive(Default)]
pub(crate) struct Ranks {
    /// 0 for nodes that are not there.
    of: Vec<i64>,
    at: BTreeMap<i64, NodeIndex>,
}

impl Ranks {
    /// A node comes before all others. Gives its place.
    pub fn put_first(&mut self, node: NodeIndex) -> (NodeIndex, i64) {
        let place = self.at.first_key_value().map_or(-APART, |(first, _)| first - APART);
        self.put(node, place)
    }

    /// A node comes behind all others. Gives its place.
    pub fn put_last(&mut self, node: NodeIndex) -> (NodeIndex, i64) {
        let place = self.at.last_key_value().map_or(APART, |(last, _)| last + APART);
        self.put(node, place)
    }

    /// A node comes just before another. Gives its place; nothing, if there is no room for it.
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

    /// Whether one comes before another.
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
        // Each time in half of the room: it ends soon.
        let full = (100_000..100_064).map(NodeIndex).find_map(|node| {
            let next = newest;
            newest = node;
            ranks.put_before(node, next).is_none().then_some(next)
        });
        let full = full.expect("the room between two is not endless");
        assert!(ranks.is_before(NodeIndex(99_998), full), "what there was no room for has changed nothing");
    }
}
