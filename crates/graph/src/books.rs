//! Control's books on the graph, kept so that what a node costs to come and go does not grow with how many there are: who
//! leads to whom, who waits for whom, which places are free, and the order of the nodes.

use crate::NodeIndex;
use crate::vector::EdgeIndex;
use std::collections::{BTreeSet, HashMap};

/// An edge by its beginning.
pub(crate) type Edge = (NodeIndex, EdgeIndex);

/// Edges by their ends.
#[derive(Default)]
pub(crate) struct EdgeBook {
    /// The edge that leads from one node to another.
    by_ends: HashMap<(NodeIndex, NodeIndex), EdgeIndex>,
    into: HashMap<NodeIndex, Vec<Edge>>,
    /// Edges to nodes that are not there yet, by their names.
    waiting: HashMap<String, Vec<Edge>>,
    /// Places of edges whose nodes are gone.
    free: HashMap<NodeIndex, BTreeSet<EdgeIndex>>,
}

impl EdgeBook {
    /// An edge leads to a node.
    pub fn lead(&mut self, edge: Edge, to: NodeIndex) {
        self.by_ends.entry((edge.0, to)).or_insert(edge.1);
        self.into.entry(to).or_default().push(edge);
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

    pub fn leading_to(&self, to: NodeIndex) -> &[Edge] {
        self.into.get(&to).map_or(&[], Vec::as_slice)
    }

    /// A free place among the edges of a node, the lowest first.
    pub fn free_place(&mut self, from: NodeIndex) -> Option<EdgeIndex> {
        self.free.get_mut(&from)?.pop_first()
    }

    /// Forgets a node, which leads to others. Gives the edges that led to it: their places are free now.
    pub fn remove(&mut self, node: NodeIndex, leads_to: impl Iterator<Item = NodeIndex>) -> Vec<Edge> {
        for to in leads_to {
            self.by_ends.remove(&(node, to));
            if let Some(into) = self.into.get_mut(&to) {
                into.retain(|(from, _)| *from != node);
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

/// The order of nodes: each comes before those that it leads to, but where an edge leads back.
#[derive(Default)]
pub(crate) struct Ranks {
    of: Vec<u64>,
    next: u64,
}

impl Ranks {
    /// A node comes behind all others.
    pub fn put_last(&mut self, node: NodeIndex) {
        let at = node.0 as usize;
        self.of.resize(self.of.len().max(at + 1), 0);
        self.of[at] = self.next;
        self.next += 1;
    }

    /// This is the order of all.
    pub fn put_all(&mut self, order: &[NodeIndex]) {
        order.iter().for_each(|node| self.put_last(*node));
    }

    /// Whether one comes before another.
    pub fn is_before(&self, one: NodeIndex, other: NodeIndex) -> bool {
        self.of[one.0 as usize] < self.of[other.0 as usize]
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
        assert_eq!(book.leading_to(c), [(a, 1), (b, 0), (b, 5)]);
        assert_eq!(book.remove(c, [].into_iter()), [(a, 1), (b, 0), (b, 5)]);
        assert_eq!((book.between(a, c), book.leading_to(c)), (None, &[][..]));
        assert_eq!((book.free_place(b), book.free_place(b), book.free_place(b)), (Some(0), Some(5), None));
        assert_eq!(book.remove(a, [b].into_iter()), []);
        assert_eq!(book.leading_to(b), []);
        book.wait((b, 7), "later");
        assert_eq!((book.waited("later"), book.waited("later")), (vec![(b, 7)], vec![]));
    }

    #[test]
    fn who_is_put_last_comes_behind_all() {
        let mut ranks = Ranks::default();
        let [a, b, c] = [0, 1, 2].map(NodeIndex);
        [a, b, c].into_iter().for_each(|node| ranks.put_last(node));
        assert!(ranks.is_before(a, b) && ranks.is_before(b, c));
        ranks.put_last(a);
        assert!(ranks.is_before(c, a));
        ranks.put_all(&[c, a, b]);
        assert!(ranks.is_before(c, a) && ranks.is_before(a, b));
    }
}
