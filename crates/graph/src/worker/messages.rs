//! What control asks of a worker, applied between rounds: nodes and edges come and go, calls are made.

use super::{CONTROL, Core, NOWHERE, NewNode, Node, Running, Way, mark, worker_word};
use crate::index::NodeIndex;
use crate::node::Behaviour;
use crate::target::Target;
use crate::worker::mailbox::Message;

impl Core {
    #[inline]
    pub(super) fn has_messages(&self) -> bool {
        self.mailbox.has_mail() || !self.deferred.is_empty()
    }

    /// Applies what control has sent. False: stop.
    ///
    /// A call may panic: those behind it stay where they are and are applied next.
    #[cold]
    pub(super) fn apply_messages(&mut self) -> bool {
        self.running = CONTROL;
        self.counters.workers.set(self.thread, worker_word::RUNNING, 0, Running::CONTROL);
        self.deferred.extend(self.mailbox.take());
        while let Some(message) = self.deferred.pop_front() {
            match message {
                Message::Call(call) => {
                    self.rank_nodes();
                    call(self);
                }
                Message::Remove(index) => self.remove(index),
                Message::Stop => return false,
                other => self.grow(other),
            }
        }
        self.rank_nodes();
        self.publish();
        true
    }

    /// Control publishes an object that names an edge after it has posted the edge. So an
    /// edge that we meet and do not know is in the mailbox. What only adds is applied at
    /// once; the rest waits for the end of the round.
    #[cold]
    pub(super) fn learn_edges(&mut self) {
        for message in self.mailbox.take() {
            match message {
                Message::Call(_) | Message::Remove(_) | Message::Stop => self.deferred.push_back(message),
                other if self.deferred.is_empty() => self.grow(other),
                other => self.deferred.push_back(other),
            }
        }
        self.rank_nodes();
    }

    fn grow(&mut self, message: Message) {
        match message {
            Message::Add(index, new) => {
                let at = index.0 as usize;
                if self.nodes.len() <= at {
                    self.nodes.resize_with(at + 1, || None);
                    self.ways.resize_with(at + 1, Way::default);
                }
                if matches!(new.behaviour, Behaviour::Source(_)) {
                    self.sources.push(index);
                }
                self.clear_maximum(at);
                let NewNode { behaviour, edges, counter_base, name, generation } = *new;
                let queue = Vec::with_capacity(4);
                let fired = Vec::new();
                self.nodes[at] =
                    Some(Node { behaviour, counter_base, name, queue, fired, place: i64::MAX, generation });
                self.ways[at] = Way { rank: 0, edges };
                self.order.push(index);
                self.is_unranked = true;
            }
            Message::AddElsewhere(index, place) => {
                let at = index.0 as usize;
                if self.elsewhere.len() <= at {
                    self.elsewhere.resize(at + 1, None);
                }
                self.elsewhere[at] = Some(place);
            }
            Message::Connect(from, edge, target) => {
                if self.is_here(from) {
                    let (edge, edges) = (edge as usize, &mut self.ways[from.0 as usize].edges);
                    if edges.len() <= edge {
                        edges.resize(edge + 1, Target::Nowhere);
                    }
                    edges[edge] = target;
                }
            }
            Message::Rank(ranks) => {
                for (index, place) in ranks {
                    if let Some(Some(node)) = self.nodes.get_mut(index.0 as usize) {
                        node.place = place;
                    }
                }
                self.is_unranked = true;
            }
            Message::Call(_) | Message::Remove(_) | Message::Stop => {
                unreachable!("not a growing message")
            }
        }
    }

    /// Has nodes run in their order, when that has changed: once for however many changes.
    fn rank_nodes(&mut self) {
        if !std::mem::take(&mut self.is_unranked) {
            return;
        }
        let nodes = &self.nodes;
        self.order.retain(|index| matches!(nodes.get(index.0 as usize), Some(Some(_))));
        // It costs little: all but a few are in their order already. One that went and came again is in it twice.
        self.order.sort_by_key(|index| (nodes[index.0 as usize].as_ref().map(|node| node.place), index.0));
        self.order.dedup();
        self.pending = vec![0; (self.order.len() + 1).div_ceil(64)];
        for (index, rank) in self.order.iter().zip(1..) {
            let node = self.nodes[index.0 as usize].as_ref().expect("retained above");
            self.ways[index.0 as usize].rank = rank;
            if !node.queue.is_empty() || matches!(node.behaviour, Behaviour::Expand(_)) {
                mark(&mut self.pending, rank);
            }
        }
    }

    fn remove(&mut self, index: NodeIndex) {
        if let Some(place) = self.elsewhere.get_mut(index.0 as usize) {
            *place = None;
        }
        let Some(mut node) = self.nodes.get_mut(index.0 as usize).and_then(Option::take) else {
            return;
        };
        self.ways[index.0 as usize] = Way::default();
        self.sources.retain(|source| *source != index);
        let held = if matches!(node.behaviour, Behaviour::Expand(_)) { node.behaviour.held() as u64 } else { 0 };
        node.behaviour.drain(&mut self.buffers);
        self.ledger.dropped += held;
        self.ledger.held -= held;
        for vector in std::mem::take(&mut node.queue) {
            self.drop_vector(vector, NOWHERE);
        }
        self.janitor.close_later(node.behaviour);
        self.is_unranked = true;
    }

    pub(super) fn drain(&mut self) {
        // Nothing runs any more: what others handed over goes with its node.
        self.take_over();
        for index in 0..self.nodes.len() {
            self.remove(NodeIndex(index as u32));
        }
    }
}
