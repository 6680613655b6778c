//! The dispatcher: runs nodes and moves packets along their edges.

use super::sampling::Sampling;
use super::{Core, NOWHERE, Place, RECIRCULATED, Running, Way, mark, node_word, worker_word};
use crate::buffer::Buffers;
use crate::capture::Point;
use crate::chains::{Chains, Cursor};
use crate::counter::Lane;
use crate::drops;
use crate::index::MAX_ERRORS;
use crate::index::NodeIndex;
use crate::index::{EdgeIndex, InterfaceIndex};
use crate::node::{Behaviour, Context, Expansion};
use crate::target::Target;
use crate::time::ticks;
use crate::trace::Tracer;
use crate::vector::parting::{Alike, Mask};
use crate::vector::{Lazy, Vector, edge, flag, one_value};
use rcu::Round;

/// Most times that a packet may go backwards in the graph.
const MAX_RECIRCULATIONS: u8 = 16;

/// Why a node runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    /// It is the first in order that has packets, and these are its last.
    InOrder,
    /// It is its turn for another reason; others before it may have packets.
    Touched,
}

/// A source takes less for a packet, and for so many more to begin with: when a call takes longer the worker was
/// preempted meanwhile. With few packets such calls are what most clocks go into, since what comes meanwhile is found
/// by them.
const MOST_CLOCKS: u64 = 50_000;
const SPARE: u64 = 4;

impl Core {
    pub(super) fn round(&mut self, round: &Round<'_>) -> bool {
        let start = ticks();
        self.sampling.close(start);
        self.is_read = true;
        self.now = start.wrapping_add(self.ahead);
        if self.began != 0 {
            let took = start.wrapping_sub(self.began);
            self.counters.rounds.add(self.thread, (u64::BITS - took.leading_zeros()) as usize, 0, 1);
        }
        self.began = start;
        self.lane.at(0)[worker_word::ROUND_BEGAN].set(start);
        let mut clock = start;
        let mut worked = false;
        if self.timers.is_due(self.now) {
            self.fire_timers();
        }
        if self.pending.iter().any(|&bits| bits != 0) {
            clock = self.run_touched(round, clock);
            worked = true;
        }
        let before = self.ledger.received + self.ledger.taken;
        let in_use = self.buffers.in_use();
        worked |= self.take_over();
        for i in 0..self.sources.len() {
            let (n, after) = self.poll(self.sources[i], round, clock);
            worked |= n > 0;
            clock = after;
        }
        let packets = (self.ledger.received + self.ledger.taken).wrapping_sub(before);
        self.is_read = self.sampling.begin(packets as usize, clock);
        worked |= self.run_pending(round, clock);
        self.sampling.share(|node, clocks| self.nodes_lane.at(node)[node_word::CLOCKS].add(clocks));
        self.lane.at(0)[worker_word::ROUNDS].add(1);
        // A device may take buffers although nothing came.
        if worked || self.buffers.in_use() != in_use {
            self.publish();
        }
        worked
    }

    /// Polls one source; says how many packets came and what time it is.
    fn poll(&mut self, index: NodeIndex, round: &Round<'_>, before: u64) -> (usize, u64) {
        self.running = index.0 as usize;
        self.lane.at(0)[worker_word::RUNNING].set(Running::source(index));
        let mut vector = self.spare.pop().unwrap_or_else(Vector::new);
        vector.clear();
        let vector = &mut **self.current.insert(vector);
        let node = self.nodes[index.0 as usize].as_mut().expect("a listed source exists");
        let Behaviour::Source(source) = &mut node.behaviour else { unreachable!("listed as a source") };
        let mut cx = Context {
            buffers: &mut self.buffers,
            round,
            thread: self.thread,
            now: self.now,
            chains: &self.chains,
            counters: &self.counters,
            counter_base: node.counter_base,
            edges: &self.ways[index.0 as usize].edges,
            ledger: &mut self.ledger,
            capture: &mut self.capture,
        };
        source.poll(&mut cx, vector);
        let n = vector.len();
        self.ledger.received += n as u64;
        let vector = self.current.take().expect("put there above");
        if n == 0 {
            self.spare.push(vector);
        } else {
            self.recorder.note(index.0 as usize, n, before);
            if self.capture.wants(Point::Received) {
                self.capture.take(&self.buffers, &vector, Point::Received, None, 0);
            }
            let mut vector = self.trace_source(index, vector);
            vector.pass_scratch_on();
            self.enqueue(index, vector);
        }
        let after = ticks();
        let clocks = after.wrapping_sub(before);
        count_call(&self.nodes_lane, index.0 as usize, n, Some(clocks));
        if n == 0 || clocks > (n as u64 + SPARE) * MOST_CLOCKS {
            let words = self.nodes_lane.at(index.0 as usize);
            words[node_word::EMPTY].add((n == 0) as u64);
            words[node_word::IDLE_CLOCKS].add(clocks);
        }
        (n, after)
    }

    #[inline]
    fn trace_source(&mut self, index: NodeIndex, mut vector: Box<Vector>) -> Box<Vector> {
        if self.tracer.is_armed() {
            for i in 0..vector.len() {
                if !self.tracer.is_armed_at(index) {
                    break;
                }
                let mut row = vector.row(i);
                let Some(number) = self.tracer.mark(index, self.thread, &self.buffers, &row) else { continue };
                row.flags |= flag::TRACED;
                self.buffers.segment_mut(row.packet).trace = number;
                vector.set_row(i, row);
            }
            trace(&mut self.tracer, &self.buffers, index, &vector);
        }
        vector
    }

    /// Gives nodes whose timers are due a turn.
    #[cold]
    fn fire_timers(&mut self) {
        let (nodes, ways, pending) = (&mut self.nodes, &self.ways, &mut self.pending);
        self.timers.expire(self.now, |timer| {
            if let Some(Some(node)) = nodes.get_mut(timer.node.0 as usize)
                && node.generation == timer.generation
            {
                node.fired.push(timer.token);
                mark(pending, ways[timer.node.0 as usize].rank);
            }
        });
    }

    /// Runs the nodes that control has touched since the last round, and those that timers have. Before the
    /// sources: packets that a node held come before those of the same flow that arrive now.
    #[cold]
    fn run_touched(&mut self, round: &Round<'_>, mut clock: u64) -> u64 {
        let none = vec![0; self.pending.len()];
        for (word, mut bits) in std::mem::replace(&mut self.pending, none).into_iter().enumerate() {
            while bits != 0 {
                // New nodes may change the order meanwhile; then all that may be meant are pending.
                let rank = word * 64 + bits.trailing_zeros() as usize;
                if let Some(&index) = self.order.get(rank - 1) {
                    clock = self.run_node(index, round, clock, Turn::Touched);
                }
                bits &= bits - 1;
            }
        }
        clock
    }

    /// Runs nodes in order until no packet is left in a queue.
    fn run_pending(&mut self, round: &Round<'_>, mut clock: u64) -> bool {
        let mut worked = false;
        while let Some(word) = self.pending.iter().position(|&bits| bits != 0) {
            let bit = self.pending[word].trailing_zeros() as usize;
            self.pending[word] &= !(1 << bit);
            let index = self.order[word * 64 + bit - 1];
            clock = self.run_node(index, round, clock, Turn::InOrder);
            worked = true;
        }
        worked
    }

    fn run_node(&mut self, index: NodeIndex, round: &Round<'_>, mut clock: u64, turn: Turn) -> u64 {
        let at = index.0 as usize;
        let node = self.nodes[at].as_mut().expect("a ranked node exists");
        let Some(last) = node.queue.pop() else {
            // Control touched its state: it may have packets to emit.
            if matches!(node.behaviour, Behaviour::Expand(_)) {
                let mut vector = self.spare.pop().unwrap_or_else(Vector::new);
                vector.clear();
                clock = self.run_chain(index, round, vector, clock, Turn::Touched);
                self.nodes_lane.at(at)[node_word::EMPTY].add(1);
            }
            return clock;
        };
        // Most often there is one vector; more when a burst arrived on several sources.
        if !node.queue.is_empty() {
            let mut queue = std::mem::take(&mut node.queue);
            for vector in queue.drain(..) {
                clock = self.run_chain(index, round, vector, clock, Turn::Touched);
            }
            let node = self.nodes[at].as_mut().expect("as above");
            if node.queue.is_empty() {
                node.queue = queue; // keeps its capacity
            }
        }
        self.run_chain(index, round, last, clock, turn)
    }

    /// Runs a node on a vector and, while all packets go to one node and nothing else waits anywhere, that node next:
    /// a queue would be no use. Says what time it is.
    fn run_chain(
        &mut self,
        mut index: NodeIndex,
        round: &Round<'_>,
        vector: Box<Vector>,
        mut clock: u64,
        turn: Turn,
    ) -> u64 {
        // What queues packets ends the chain, so this is so until then.
        let alone = turn == Turn::InOrder && self.pending.iter().all(|&bits| bits == 0);
        let vector = &mut **self.current.insert(vector);
        let mut cx = Context {
            buffers: &mut self.buffers,
            round,
            thread: self.thread,
            now: self.now,
            chains: &self.chains,
            counters: &self.counters,
            counter_base: 0,
            edges: &[],
            ledger: &mut self.ledger,
            capture: &mut self.capture,
        };
        let n = loop {
            let at = index.0 as usize;
            self.running = at;
            let node = self.nodes[at].as_mut().expect("what runs exists");
            let way = &self.ways[at];
            let n = vector.len();
            self.recorder.note(at, n, clock);
            self.lane.at(0)[worker_word::RUNNING].set(Running::node(index, vector));
            (cx.counter_base, cx.edges) = (node.counter_base, &way.edges);
            match &mut node.behaviour {
                Behaviour::Map(map) => map.process(&mut cx, vector),
                Behaviour::Expand(expand) => {
                    vector.set_edges(edge::SENT); // a panic must not find old edges
                    let mut expansion = Expansion {
                        cx: &mut cx,
                        output: &mut self.emitted,
                        spare: &mut self.spare,
                        tracer: &mut self.tracer,
                        recirculations: vector.recirculations,
                        timers: &mut self.timers,
                        node: (index, node.generation),
                        fired: &mut node.fired,
                    };
                    let held = expand.held() as u64;
                    expand.process(&mut expansion, vector);
                    expansion.fired.clear();
                    cx.ledger.held = cx.ledger.held + expand.held() as u64 - held;
                }
                Behaviour::Source(_) => unreachable!("nothing leads to a source"),
            }
            if vector.traced {
                trace(&mut self.tracer, cx.buffers, index, vector);
            }
            vector.pass_scratch_on();
            let is_whole = alone && self.emitted.is_empty();
            let next = if is_whole { next_alone(way, &self.ways, cx.chains, vector) } else { None };
            let Some(to) = next else { break n };
            clock = count_run(&self.nodes_lane, &mut self.sampling, self.is_read, (at, n), clock);
            index = to;
        };
        self.part(index);
        count_run(&self.nodes_lane, &mut self.sampling, self.is_read, (index.0 as usize, n), clock)
    }

    /// Hands on what a node has left in hand, and what it emitted.
    fn part(&mut self, from: NodeIndex) {
        let vector = self.current.take().expect("a node has run");
        self.enqueue(from, vector);
        if !self.emitted.is_empty() {
            for mut vector in std::mem::take(&mut self.emitted) {
                // What was taken leaves its record when it goes on.
                if vector.traced {
                    trace(&mut self.tracer, &self.buffers, from, &vector);
                }
                vector.pass_scratch_on();
                self.enqueue(from, vector);
            }
        }
    }

    /// Hands the packets of a vector to the nodes that their edges lead to.
    #[inline]
    fn enqueue(&mut self, from: NodeIndex, mut vector: Box<Vector>) {
        if let Some(edge) = vector.one_edge() {
            return self.deliver(from, edge, vector);
        }
        if vector.is_empty() {
            return self.spare.push(vector);
        }
        let mut rest = Mask::first(vector.len());
        let alike = vector.alike();
        let mut main = None;
        while let Some(first) = rest.lowest() {
            let edge = vector.edges()[first];
            let mut mask = vector.mask_of(edge, &rest);
            rest.remove(&mask);
            // The largest part stays in this vector and goes last, by pointer.
            if main.is_none() && mask.count() * 2 > vector.len() {
                main = Some((edge, mask));
                continue;
            }
            self.deliver_part(from, edge, &vector, &mut mask, alike);
        }
        match main {
            Some((edge, mask)) => {
                vector.keep(&mask, alike);
                self.deliver(from, edge, vector);
            }
            None => self.spare.push(vector),
        }
    }

    fn target(&mut self, from: NodeIndex, edge: EdgeIndex) -> Target {
        let look = |core: &Core| core.ways[from.0 as usize].edges.get(edge as usize).copied();
        match look(self) {
            Some(Target::Nowhere) | None => {
                self.learn_edges();
                look(self).unwrap_or(Target::Nowhere)
            }
            Some(target) => target,
        }
    }

    /// Hands a whole vector over.
    #[inline]
    fn deliver(&mut self, from: NodeIndex, edge: EdgeIndex, vector: Box<Vector>) {
        match edge {
            edge::SENT | edge::LENT => {
                if self.capture.wants(Point::Sent) {
                    self.capture_sent(from, &vector);
                }
                self.ledger.sent += vector.len() as u64;
                if edge == edge::SENT {
                    self.free(&vector);
                }
                self.spare.push(vector);
            }
            edge::TAKEN => self.spare.push(vector),
            edge::CONTINUE => self.go_on(from, self.thread, vector),
            edge::DROPPED => self.drop_each(vector),
            _ if let Some(worker) = edge::worker_of(edge) => self.go_on(from, worker, vector),
            _ => match self.target(from, edge) {
                Target::Node(to) => self.push(from, to, vector),
                Target::Output(arc, interface, to) => match self.chains.of(arc, interface) {
                    None => self.push(from, to, vector),
                    Some(chain) => self.leave_along(from, interface, chain, vector),
                },
                Target::Drop(error) => self.drop_by(from, vector, error),
                Target::End(event) => self.end_vector(vector, event),
                Target::Nowhere => self.drop_vector(vector, NOWHERE),
            },
        }
    }

    /// Sends packets that are to leave by an interface along a chain.
    #[cold]
    fn leave_along(&mut self, from: NodeIndex, to: InterfaceIndex, chain: Cursor, mut vector: Box<Vector>) {
        vector.leave_by(to, chain);
        self.go_on(from, self.thread, vector);
    }

    /// Sends packets to the next nodes of their chains, on a worker.
    fn go_on(&mut self, from: NodeIndex, worker: usize, mut vector: Box<Vector>) {
        if let Some(cursor) = vector.one_cursor() {
            // A packet without a chain comes from a node that is no feature: a fault of that node.
            let step = cursor.map(|cursor| self.chains.step(cursor));
            vector.move_on(step.and_then(|step| step.next));
            return match step.and_then(|step| step.node) {
                None => self.drop_vector(vector, NOWHERE),
                Some(to) if worker == self.thread => self.push(from, to, vector),
                Some(to) => self.hand_on(to, worker, vector),
            };
        }
        let mut rest = Mask::first(vector.len());
        let alike = vector.alike();
        while let Some(first) = rest.lowest() {
            let mut mask = vector.mask_of_lazy(Lazy::Cursor, first, &rest);
            rest.remove(&mask);
            let mut part = self.spare.pop().unwrap_or_else(Vector::new);
            part.clear();
            vector.move_to(&mut mask, alike, &mut part);
            self.go_on(from, worker, part);
        }
        self.spare.push(vector);
    }

    /// Hands packets to a node on another worker, which may have no such worker or node.
    fn hand_on(&mut self, to: NodeIndex, worker: usize, vector: Box<Vector>) {
        match self.nodes.get(to.0 as usize) {
            Some(Some(node)) if worker < self.mailboxes().len() => {
                let place = Place { worker, generation: node.generation };
                self.hand_over(to, place, vector);
            }
            _ => self.drop_vector(vector, NOWHERE),
        }
    }

    #[cold]
    fn capture_sent(&mut self, from: NodeIndex, vector: &Vector) {
        let node = self.nodes[from.0 as usize].as_ref();
        if let Some(interface) = node.and_then(|node| node.behaviour.interface()) {
            self.capture.take(&self.buffers, vector, Point::Sent, Some(interface), 0);
        }
    }

    /// Queues a vector at a node, into the open vector there when it fits.
    #[inline]
    fn push(&mut self, from: NodeIndex, to: NodeIndex, mut vector: Box<Vector>) {
        if !self.is_here(to) {
            return match self.elsewhere.get(to.0 as usize) {
                Some(Some(place)) => self.hand_over(to, *place, vector),
                _ => self.drop_vector(vector, NOWHERE),
            };
        }
        if !self.ways[from.0 as usize].leads_ahead(&self.ways, to) {
            vector.recirculations += 1;
            if vector.recirculations > MAX_RECIRCULATIONS {
                return self.drop_vector(vector, RECIRCULATED);
            }
        }
        self.queue(to, vector);
    }

    /// Queues a vector at a node that is here.
    #[inline]
    pub(super) fn queue(&mut self, to: NodeIndex, vector: Box<Vector>) {
        let node = self.nodes[to.0 as usize].as_mut().expect("the caller has seen it");
        mark(&mut self.pending, self.ways[to.0 as usize].rank);
        match node.queue.last_mut() {
            Some(open) if open.room() >= vector.len() => {
                open.append(&vector, 0);
                self.spare.push(vector);
            }
            _ => node.queue.push(vector),
        }
    }

    /// Hands over the packets of `mask`.
    fn deliver_part(&mut self, from: NodeIndex, edge: EdgeIndex, vector: &Vector, mask: &mut Mask, alike: Alike) {
        if edge == edge::TAKEN {
            return;
        }
        while mask.count() > 0 {
            // Into the open vector of the next node, when there is one and no hop backwards
            // has to be counted.
            let target = if usize::from(edge) >= edge::MAX { Target::Nowhere } else { self.target(from, edge) };
            let target = match target {
                Target::Output(arc, interface, to) if self.chains.of(arc, interface).is_none() => Target::Node(to),
                target => target,
            };
            if let Target::Node(to) = target
                && self.ways[from.0 as usize].leads_ahead(&self.ways, to)
                && let Some(Some(node)) = self.nodes.get_mut(to.0 as usize)
                && let Some(open) = node.queue.last_mut()
                && open.room() > 0
            {
                vector.move_to(mask, alike, open);
                continue;
            }
            let mut part = self.spare.pop().unwrap_or_else(Vector::new);
            part.clear();
            vector.move_to(mask, alike, &mut part);
            self.deliver(from, edge, part);
        }
    }

    fn free(&mut self, vector: &Vector) {
        if vector.any_flags() & flag::NOT_PLAIN == 0 {
            self.buffers.free(vector.packets());
        } else {
            for &packet in vector.packets() {
                self.buffers.free_chain(packet);
            }
        }
    }

    /// Packets that have done their work: an event is counted, no drop.
    fn end_vector(&mut self, vector: Box<Vector>, event: u32) {
        let n = vector.len() as u64;
        self.counters.errors.add(self.thread, event as usize, 0, n);
        self.ledger.consumed += n;
        self.free(&vector);
        self.spare.push(vector);
    }

    /// The features that see what a node drops of an interface's packets.
    fn drop_chain(&self, interface: InterfaceIndex, from: NodeIndex) -> Option<Cursor> {
        let chain = self.chains.of(drops::ARC, interface)?;
        // What a feature of the chain drops does not begin it again.
        self.chains.nodes_from(chain).all(|node| node != Some(from)).then_some(chain)
    }

    /// Drops packets by an edge of a node, past the features that see such packets.
    fn drop_by(&mut self, from: NodeIndex, mut vector: Box<Vector>, error: u32) {
        let is_seen = match vector.one_rx_interface() {
            Some(interface) => self.drop_chain(interface, from).is_some(),
            None => vector.rx_interfaces().iter().any(|interface| self.drop_chain(*interface, from).is_some()),
        };
        if !is_seen {
            return self.drop_vector(vector, error);
        }
        for i in 0..vector.len() {
            let chain = self.drop_chain(vector.rx_interfaces()[i], from);
            vector.columns().target[i] = error;
            vector.send(i, chain, edge::DROPPED);
        }
        self.enqueue(from, vector);
    }

    /// Drops packets by the errors in `target`.
    fn drop_each(&mut self, mut vector: Box<Vector>) {
        let named = |error: u32| if (error as usize) < MAX_ERRORS { error } else { NOWHERE };
        if let Some(error) = one_value(vector.targets()) {
            return self.drop_vector(vector, named(error));
        }
        let mut rest = Mask::first(vector.len());
        let alike = vector.alike();
        while let Some(first) = rest.lowest() {
            let error = vector.targets()[first];
            let mut mask = rest;
            rest.positions().for_each(|i| mask.set(i, vector.targets()[i] == error));
            rest.remove(&mask);
            let mut part = self.spare.pop().unwrap_or_else(Vector::new);
            part.clear();
            vector.move_to(&mut mask, alike, &mut part);
            self.drop_vector(part, named(error));
        }
        vector.clear();
        self.spare.push(vector);
    }

    pub(super) fn drop_vector(&mut self, vector: Box<Vector>, error: u32) {
        if self.capture.wants(Point::Dropped) {
            self.capture.take(&self.buffers, &vector, Point::Dropped, None, error);
        }
        let n = vector.len() as u64;
        self.counters.errors.add(self.thread, error as usize, 0, n);
        match vector.one_rx_interface() {
            Some(interface) => self.counters.drops.add(self.thread, interface.0 as usize, 0, n),
            None => {
                for interface in vector.rx_interfaces() {
                    self.counters.drops.add(self.thread, interface.0 as usize, 0, 1);
                }
            }
        }
        self.ledger.dropped += n;
        self.free(&vector);
        self.spare.push(vector);
    }
}

/// Counts a node's run and, when the clock is read, how long it took. Returns what time it is.
#[inline(always)]
fn count_run(
    lane: &Lane<{ node_word::WIDTH }>,
    sampling: &mut Sampling,
    is_read: bool,
    (node, packets): (usize, usize),
    clock: u64,
) -> u64 {
    if !is_read {
        count_call(lane, node, packets, None);
        return clock;
    }
    let after = ticks();
    let clocks = after.wrapping_sub(clock);
    count_call(lane, node, packets, Some(clocks));
    sampling.note(node, clocks);
    after
}

/// Counts a call of a node. All words lie on one cache line.
#[inline(always)]
fn count_call(lane: &Lane<{ node_word::WIDTH }>, node: usize, packets: usize, clocks: Option<u64>) {
    let words = lane.at(node);
    words[node_word::CALLS].add(1);
    words[node_word::PACKETS].add(packets as u64);
    let Some(clocks) = clocks else { return };
    words[node_word::CLOCKS].add(clocks);
    if clocks > words[node_word::MAX_CLOCKS].get() {
        words[node_word::MAX_CLOCKS].set(clocks);
        words[node_word::MAX_PACKETS].set(packets as u64);
    }
}

/// The node ahead to which all packets of a vector go, from a node with this way.
#[inline(always)]
fn next_alone(way: &Way, ways: &[Way], chains: &Chains, vector: &mut Vector) -> Option<NodeIndex> {
    let edge = vector.one_edge()?;
    if edge == edge::CONTINUE {
        return next_in_chain(way, ways, chains, vector);
    }
    let to = match *way.edges.get(usize::from(edge))? {
        Target::Node(to) => to,
        Target::Output(arc, interface, to) => match chains.of(arc, interface) {
            None => to,
            Some(chain) => {
                vector.leave_by(interface, chain);
                return next_in_chain(way, ways, chains, vector);
            }
        },
        _ => return None,
    };
    way.leads_ahead(ways, to).then_some(to)
}

/// The same of packets that go on along one chain, which are then at its next step.
fn next_in_chain(way: &Way, ways: &[Way], chains: &Chains, vector: &mut Vector) -> Option<NodeIndex> {
    let step = chains.step(vector.one_cursor()??);
    let to = step.node.filter(|to| way.leads_ahead(ways, *to))?;
    vector.move_on(step.next);
    Some(to)
}

/// Records what a node did with the packets that are traced.
#[cold]
fn trace(tracer: &mut Tracer, buffers: &Buffers, index: NodeIndex, vector: &Vector) {
    for i in 0..vector.len() {
        let row = vector.row(i);
        if row.flags & flag::TRACED != 0 && vector.edges()[i] != edge::TAKEN {
            tracer.record(buffers, index, ticks(), vector.edges()[i], row);
        }
    }
}
