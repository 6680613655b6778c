//! The order in which workers run nodes: each node before its successors, except where an edge leads back. Then a
//! packet passes the whole graph in one round.
//!
//! A new edge usually moves one node; only where that is not enough are all nodes sorted again. So the cost of adding
//! an interface does not grow with the number of interfaces.

use super::Graph;
use crate::books::Ranks;
use crate::index::NodeIndex;
use crate::worker::mailbox::Message;
use std::collections::HashSet;

/// With more predecessors than this, a node's predecessors are not examined.
const FEW: usize = 8;

impl Graph {
    /// A new edge: moves `to` behind `from`, if possible.
    pub(super) fn order_edge(&mut self, from: NodeIndex, to: NodeIndex) {
        if self.ranks.is_before(from, to) {
            return;
        }
        let place = self.move_up(from, to).or_else(|| self.move_back(from, to));
        let places = place.map_or_else(|| self.order_all(), |place| vec![place]);
        self.post(|_| Message::Rank(places.clone()));
    }

    /// Moves `from` before `to`, if `from` has few predecessors and none of them is behind `to`. Returns its new place.
    fn move_up(&mut self, from: NodeIndex, to: NodeIndex) -> Option<(NodeIndex, i64)> {
        let mut into = self.edges.leading_to(from);
        let may = from != to && into.len() <= FEW && into.all(|(node, _)| self.ranks.is_before(node, to));
        if may { self.ranks.put_before(from, to) } else { None }
    }

    /// Moves `to` behind `from`, if no successor of `to` comes before that. Returns its new place.
    fn move_back(&mut self, from: NodeIndex, to: NodeIndex) -> Option<(NodeIndex, i64)> {
        let edges = self.info(to).map_or(&[][..], |node| &node.edges);
        let leads_to = edges.iter().filter_map(|edge| edge.node);
        // Nodes that lead back to `from` form a loop with it: they stay before it.
        let behind = leads_to.filter(|next| *next != to && !self.reaches(*next, from));
        match behind.min_by_key(|next| self.ranks.place(*next)) {
            None => Some(self.ranks.put_last(to)),
            Some(next) if self.ranks.is_before(from, next) => self.ranks.put_before(to, next),
            Some(_) => None,
        }
    }

    fn order_all(&mut self) -> Vec<(NodeIndex, i64)> {
        self.ranks = Ranks::default();
        self.order().into_iter().map(|node| self.ranks.put_last(node)).collect()
    }

    /// Whether a node comes before another and leads to it.
    fn reaches(&self, node: NodeIndex, other: NodeIndex) -> bool {
        let mut seen = HashSet::new();
        let mut stack = vec![node];
        while let Some(index) = stack.pop() {
            if index == other {
                return true;
            }
            if self.ranks.is_before(index, other) && seen.insert(index) {
                let edges = self.info(index).map_or(&[][..], |node| &node.edges);
                stack.extend(edges.iter().filter_map(|edge| edge.node));
            }
        }
        false
    }

    /// All nodes in the order in which workers run them: reverse postorder from the sources, which is a topological
    /// order except for the edges that lead back.
    pub fn order(&self) -> Vec<NodeIndex> {
        let mut order = Vec::with_capacity(self.nodes.len());
        let mut seen = vec![false; self.nodes.len()];
        let mut starts: Vec<_> = self.nodes.iter().flatten().collect();
        starts.sort_by_key(|node| node.kind != "input");
        for start in starts {
            self.visit(start.index, &mut seen, &mut order);
        }
        order.reverse();
        order
    }

    fn visit(&self, start: NodeIndex, seen: &mut [bool], order: &mut Vec<NodeIndex>) {
        let mut stack = vec![(start, 0)];
        if std::mem::replace(&mut seen[start.0 as usize], true) {
            return;
        }
        while let Some((index, edge)) = stack.pop() {
            let edges = self.info(index).map_or(&[][..], |node| &node.edges);
            let Some(info) = edges.get(edge) else {
                order.push(index);
                continue;
            };
            stack.push((index, edge + 1));
            if let Some(next) = info.node
                && !std::mem::replace(&mut seen[next.0 as usize], true)
            {
                stack.push((next, 0));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::Pool;
    use crate::node::{Behaviour, Context, EdgeSpec, NodeSpec, Source, Wake};
    use crate::vector::Vector;
    use proptest::prelude::*;

    const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

    struct Still;
    impl Source for Still {
        fn poll(&mut self, _: &mut Context<'_>, _: &mut Vector) {}
        fn wake(&self) -> Wake<'_> {
            Wake::Never
        }
    }

    #[derive(Debug, Clone)]
    enum Change {
        /// Registers a node with edges to these nodes, whether they exist or not.
        Register(usize, Vec<usize>),
        Connect(usize, usize),
        Remove(usize),
    }

    fn change() -> impl Strategy<Value = Change> {
        let node = || 0..NAMES.len();
        prop_oneof![
            (node(), prop::collection::vec(node(), 0..4)).prop_map(|(node, to)| Change::Register(node, to)),
            (node(), node()).prop_map(|(from, to)| Change::Connect(from, to)),
            (node(), node()).prop_map(|(from, to)| Change::Connect(from, to)),
            node().prop_map(Change::Remove),
        ]
    }

    impl Graph {
        fn leads_to(&self, from: NodeIndex) -> Vec<NodeIndex> {
            self.info(from).into_iter().flat_map(|node| node.edges.iter().filter_map(|edge| edge.node)).collect()
        }

        fn is_circle(&self, from: NodeIndex, to: NodeIndex) -> bool {
            let (mut seen, mut stack) = (HashSet::new(), vec![to]);
            while let Some(node) = stack.pop() {
                if node == from {
                    return true;
                }
                if seen.insert(node) {
                    stack.extend(self.leads_to(node));
                }
            }
            false
        }
    }

    proptest! {
        #[test]
        fn every_edge_that_is_in_no_circle_leads_forward(changes in prop::collection::vec(change(), 1..60)) {
            let domain = rcu::Domain::new(1);
            let mut graph = Graph::new(&domain, &Pool::new(1024, false).unwrap(), 1).unwrap();
            for change in changes {
                match change {
                    Change::Register(node, to) => {
                        let edges: Vec<_> = to.iter().map(|to| EdgeSpec::Next(NAMES[*to])).collect();
                        let name = NAMES[node].into();
                        let spec = NodeSpec { name, edges: edges.leak(), counters: &[], trace: |_, _| Ok(()) };
                        let _ = graph.register(spec, |_| Behaviour::Source(Box::new(Still)));
                    }
                    Change::Connect(from, to) => {
                        let _ = graph.find(NAMES[from]).and_then(|from| graph.connect(from, NAMES[to]));
                    }
                    // Not a node of a loop: an edge that leads back in it would still do so when the loop is gone.
                    Change::Remove(node) => {
                        let found = graph.find(NAMES[node]).ok();
                        let next = |node| graph.leads_to(node).into_iter().any(|next| graph.is_circle(node, next));
                        if let Some(node) = found.filter(|node| !next(*node)) {
                            graph.remove(node);
                        }
                    }
                }
                for from in graph.nodes().iter().map(|node| node.index) {
                    for to in graph.leads_to(from) {
                        let is_forward = graph.ranks.is_before(from, to);
                        prop_assert!(is_forward || graph.is_circle(from, to), "{from:?} leads back to {to:?}");
                    }
                }
            }
        }
    }
}
