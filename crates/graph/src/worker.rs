//! A worker: one thread's copy of the graph and the dispatcher that runs it.
//!
//! A round polls every source once and then runs nodes in topological order until no
//! packet is left inside. A vector that goes one way whole is handed over by pointer;
//! one whose packets part ways is compressed by mask, so that order per edge stays
//! first in, first out.
//!
//! Between rounds the worker applies the messages of control: nodes, edges, calls.
//! When there has been nothing to do for a while it goes RCU-offline and sleeps until
//! a device or a message wakes it.

use crate::NodeIndex;
use crate::buffer::Buffers;
use crate::counter::CounterTable;
use crate::mailbox::{Mailbox, Message};
use crate::node::{Behaviour, Context, Expansion, Ledger, Wake};
use crate::time::ticks;
use crate::trace::Tracer;
use crate::vector::{EdgeIndex, Mask, Vector, edge, flag};
use rcu::{Reader, Round};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Most times that a packet may go backwards in the graph.
const MAX_RECIRCULATIONS: u8 = 16;
/// Panics in a row after which the process ends.
const MAX_PANICS: u32 = 3;
/// Vectors kept for reuse.
const SPARE_VECTORS: usize = 64;
/// Empty rounds before a worker sleeps: a few tens of microseconds, long enough to
/// stay awake between the packets of a busy flow.
const IDLE_ROUNDS: u32 = 1000;

/// Error counters that the dispatcher itself counts, in this order at the front of the
/// table.
pub(crate) const DISPATCHER_ERRORS: [&str; 4] =
    ["recirculated too often", "edge leads nowhere", "node panicked", "no free buffer"];
const RECIRCULATED: u32 = 0;
const NOWHERE: u32 = 1;
const PANICKED: u32 = 2;

/// Words of a node's entry in the node table.
pub mod node_word {
    pub const CALLS: usize = 0;
    pub const PACKETS: usize = 1;
    pub const CLOCKS: usize = 2;
    /// Calls of a source that brought nothing.
    pub const EMPTY: usize = 3;
    pub const WIDTH: usize = 4;
}

/// Entries of the worker table.
pub mod worker_word {
    pub const ROUNDS: usize = 0;
    pub const RECEIVED: usize = 1;
    pub const ORIGINATED: usize = 2;
    pub const SENT: usize = 3;
    pub const DROPPED: usize = 4;
    pub const CONSUMED: usize = 5;
    pub const HELD: usize = 6;
    pub const BUFFERS_CACHED: usize = 7;
    pub const BUFFERS_IN_USE: usize = 8;
    pub const SLEEPS: usize = 9;
    pub const COUNT: usize = 16;
}

/// What a worker writes and control reads.
#[derive(Clone)]
pub struct SharedCounters {
    /// Drops and events, by number.
    pub errors: Arc<CounterTable>,
    /// [`node_word`]s by node.
    pub nodes: Arc<CounterTable>,
    /// [`worker_word`]s.
    pub workers: Arc<CounterTable>,
    /// Packets dropped, by receiving interface.
    pub drops: Arc<CounterTable>,
}

/// Where an edge leads, as the dispatcher sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Node(NodeIndex),
    Drop(u32),
    /// Named, but not registered yet.
    Nowhere,
}

pub(crate) struct NewNode {
    pub behaviour: Behaviour,
    pub edges: Vec<Target>,
    pub counter_base: usize,
    pub name: Arc<str>,
}

struct Node {
    behaviour: Behaviour,
    edges: Vec<Target>,
    counter_base: usize,
    name: Arc<str>,
    queue: Vec<Box<Vector>>,
    rank: usize,
}

/// Everything of a worker but its RCU reader, which lends rounds while this runs.
pub struct Core {
    thread: usize,
    nodes: Vec<Option<Node>>,
    sources: Vec<NodeIndex>,
    /// Nodes by rank, and a bit for each rank that has packets.
    order: Vec<NodeIndex>,
    pending: Vec<u64>,
    pub buffers: Buffers,
    pub tracer: Tracer,
    ledger: Ledger,
    counters: SharedCounters,
    spare: Vec<Box<Vector>>,
    /// The vector in a node's hands, kept here so that a panic does not lose it.
    current: Option<Box<Vector>>,
    emitted: Vec<Box<Vector>>,
    mailbox: Arc<Mailbox>,
    deferred: Vec<Message>,
    now: u64,
    running: usize,
}

/// What a round did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    Worked,
    Idle,
    Stopped,
}

/// A worker, to be run on a thread of its own or stepped by hand.
pub struct Worker {
    core: Core,
    reader: Reader,
    panics: u32,
}

impl Worker {
    pub(crate) fn new(
        thread: usize,
        buffers: Buffers,
        reader: Reader,
        counters: SharedCounters,
        mailbox: Arc<Mailbox>,
    ) -> Worker {
        Worker {
            core: Core {
                thread,
                nodes: Vec::new(),
                sources: Vec::new(),
                order: Vec::new(),
                pending: Vec::new(),
                buffers,
                tracer: Tracer::default(),
                ledger: Ledger::default(),
                counters,
                spare: (0..SPARE_VECTORS).map(|_| Vector::new()).collect(),
                current: None,
                emitted: Vec::new(),
                mailbox,
                deferred: Vec::new(),
                now: ticks(),
                running: 0,
            },
            reader,
            panics: 0,
        }
    }

    /// Runs until stopped, sleeping when idle.
    pub fn run(mut self) {
        let mut idle = 0;
        loop {
            match self.round() {
                Progress::Worked => idle = 0,
                Progress::Idle => idle += 1,
                Progress::Stopped => return,
            }
            if idle >= IDLE_ROUNDS {
                idle = 0;
                self.sleep();
            }
        }
    }

    /// One round: messages, sources, nodes.
    #[inline]
    pub fn round(&mut self) -> Progress {
        if !self.core.apply_messages() {
            self.core.drain();
            return Progress::Stopped;
        }
        let round = self.reader.round();
        let core = &mut self.core;
        match catch_unwind(AssertUnwindSafe(|| core.round(&round))) {
            Ok(worked) => {
                self.panics = 0;
                if worked { Progress::Worked } else { Progress::Idle }
            }
            Err(_) => {
                let node = self.core.name_of_running();
                let lost = self.core.drop_everything();
                self.panics += 1;
                log::error!(
                    "node {node} panicked; {lost} packets dropped (panic {} of {MAX_PANICS} in a row)",
                    self.panics
                );
                if self.panics == MAX_PANICS {
                    log::error!("giving up: {node} panics in every round");
                    std::process::abort();
                }
                Progress::Worked
            }
        }
    }

    pub fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    /// Sleeps until a source or control has something.
    fn sleep(&mut self) {
        let mailbox = self.core.mailbox.clone();
        if !mailbox.begin_sleep() {
            return;
        }
        let mut until = None;
        let mut descriptors = Vec::new();
        let mut must_poll = false;
        for &source in &self.core.sources {
            let Some(Node { behaviour: Behaviour::Source(node), .. }) = &self.core.nodes[source.0 as usize] else {
                continue;
            };
            match node.wake() {
                Wake::Never => {}
                Wake::Poll => must_poll = true,
                Wake::At(ticks) => until = Some(until.map_or(ticks, |t: u64| t.min(ticks))),
                Wake::Readable(fds) => descriptors.extend(fds),
            }
        }
        if !must_poll {
            self.core.counters.workers.add(self.core.thread, worker_word::SLEEPS, 0, 1);
            self.reader.offline();
            mailbox.sleep(&descriptors, until);
        }
        mailbox.end_sleep();
    }
}

impl Core {
    pub fn thread(&self) -> usize {
        self.thread
    }

    pub fn ledger(&self) -> Ledger {
        Ledger { held: self.held(), ..self.ledger }
    }

    fn held(&self) -> u64 {
        let held = |node: &Node| match &node.behaviour {
            Behaviour::Expand(_) => node.behaviour.held() as u64,
            _ => 0,
        };
        self.nodes.iter().flatten().map(held).sum()
    }

    /// A node's own state, for control's calls. Expand nodes then get a turn.
    pub fn node<T: 'static>(&mut self, index: NodeIndex) -> Option<&mut T> {
        let node = self.nodes.get_mut(index.0 as usize)?.as_mut()?;
        if matches!(node.behaviour, Behaviour::Expand(_)) {
            self.pending[node.rank / 64] |= 1 << (node.rank % 64);
        }
        node.behaviour.as_any().downcast_mut()
    }

    /// A node's state together with the buffers, to take packets from outside.
    pub fn node_and_buffers<T: 'static>(&mut self, index: NodeIndex) -> Option<(&mut T, &mut Buffers)> {
        let node = self.nodes.get_mut(index.0 as usize)?.as_mut()?;
        if matches!(node.behaviour, Behaviour::Expand(_)) {
            self.pending[node.rank / 64] |= 1 << (node.rank % 64);
        }
        Some((node.behaviour.as_any().downcast_mut()?, &mut self.buffers))
    }

    /// Applies what control has sent. False: stop.
    #[inline]
    fn apply_messages(&mut self) -> bool {
        if !self.mailbox.has_mail() && self.deferred.is_empty() {
            return true;
        }
        self.apply_all()
    }

    #[cold]
    fn apply_all(&mut self) -> bool {
        let mut messages = std::mem::take(&mut self.deferred);
        messages.extend(self.mailbox.take());
        for message in messages {
            match message {
                Message::Call(call) => call(self),
                Message::Remove(index) => self.remove(index),
                Message::Stop => return false,
                other => self.grow(other),
            }
        }
        true
    }

    /// Control publishes an object that names an edge after it has posted the edge. So an
    /// edge that we meet and do not know is in the mailbox. What only adds is applied at
    /// once; the rest waits for the end of the round.
    #[cold]
    fn learn_edges(&mut self) {
        for message in self.mailbox.take() {
            match message {
                Message::Call(_) | Message::Remove(_) | Message::Stop => self.deferred.push(message),
                other if self.deferred.is_empty() => self.grow(other),
                other => self.deferred.push(other),
            }
        }
    }

    fn grow(&mut self, message: Message) {
        match message {
            Message::Add(index, new) => {
                let at = index.0 as usize;
                if self.nodes.len() <= at {
                    self.nodes.resize_with(at + 1, || None);
                }
                if matches!(new.behaviour, Behaviour::Source(_)) {
                    self.sources.push(index);
                }
                let NewNode { behaviour, edges, counter_base, name } = *new;
                self.nodes[at] =
                    Some(Node { behaviour, edges, counter_base, name, queue: Vec::with_capacity(4), rank: 0 });
                self.order.push(index);
                self.rank_nodes();
            }
            Message::Connect(from, edge, target) => {
                if let Some(Some(node)) = self.nodes.get_mut(from.0 as usize) {
                    let edge = edge as usize;
                    if node.edges.len() <= edge {
                        node.edges.resize(edge + 1, Target::Nowhere);
                    }
                    node.edges[edge] = target;
                }
            }
            Message::Order(order) => {
                self.order = order;
                self.rank_nodes();
            }
            Message::Call(_) | Message::Remove(_) | Message::Stop => {
                unreachable!("not a growing message")
            }
        }
    }

    fn rank_nodes(&mut self) {
        self.order.retain(|index| matches!(self.nodes.get(index.0 as usize), Some(Some(_))));
        self.pending = vec![0; self.order.len().div_ceil(64)];
        for (rank, index) in self.order.iter().enumerate() {
            let node = self.nodes[index.0 as usize].as_mut().expect("retained above");
            node.rank = rank;
            if !node.queue.is_empty() || matches!(node.behaviour, Behaviour::Expand(_)) {
                self.pending[rank / 64] |= 1 << (rank % 64);
            }
        }
    }

    fn remove(&mut self, index: NodeIndex) {
        let Some(mut node) = self.nodes.get_mut(index.0 as usize).and_then(Option::take) else {
            return;
        };
        self.sources.retain(|source| *source != index);
        let held = if matches!(node.behaviour, Behaviour::Expand(_)) { node.behaviour.held() as u64 } else { 0 };
        node.behaviour.drain(&mut self.buffers);
        self.ledger.dropped += held;
        for vector in std::mem::take(&mut node.queue) {
            self.drop_vector(vector, NOWHERE);
        }
        self.rank_nodes();
    }

    fn drain(&mut self) {
        for index in 0..self.nodes.len() {
            self.remove(NodeIndex(index as u32));
        }
    }

    fn round(&mut self, round: &Round<'_>) -> bool {
        let start = ticks();
        self.now = start;
        let mut clock = start;
        let mut worked = false;
        for i in 0..self.sources.len() {
            let (n, after) = self.poll(self.sources[i], round, clock);
            worked |= n > 0;
            clock = after;
        }
        worked |= self.run_pending(round, clock);
        self.counters.workers.add(self.thread, worker_word::ROUNDS, 0, 1);
        if worked {
            self.publish();
        }
        worked
    }

    fn context<'a>(
        buffers: &'a mut Buffers,
        round: &'a Round<'a>,
        thread: usize,
        now: u64,
        counters: &'a SharedCounters,
        counter_base: usize,
    ) -> Context<'a> {
        Context { buffers, round, thread, now, errors: &counters.errors, counter_base }
    }

    /// Polls one source; says how many packets came and what time it is.
    fn poll(&mut self, index: NodeIndex, round: &Round<'_>, before: u64) -> (usize, u64) {
        self.running = index.0 as usize;
        let mut vector = self.spare.pop().unwrap_or_else(Vector::new);
        vector.clear();
        let vector = &mut **self.current.insert(vector);
        let node = self.nodes[index.0 as usize].as_mut().expect("a listed source exists");
        let Behaviour::Source(source) = &mut node.behaviour else { unreachable!("listed as a source") };
        let mut cx = Core::context(&mut self.buffers, round, self.thread, self.now, &self.counters, node.counter_base);
        source.poll(&mut cx, vector);
        let n = vector.len();
        self.ledger.received += n as u64;
        let vector = self.current.take().expect("put there above");
        if n == 0 {
            self.spare.push(vector);
        } else {
            let vector = self.trace_source(index, vector);
            self.enqueue(index, vector);
        }
        let after = ticks();
        let nodes = &self.counters.nodes;
        let entry = index.0 as usize;
        nodes.add(self.thread, entry, node_word::CALLS, 1);
        nodes.add(self.thread, entry, node_word::PACKETS, n as u64);
        nodes.add(self.thread, entry, node_word::CLOCKS, after.wrapping_sub(before));
        nodes.add(self.thread, entry, node_word::EMPTY, (n == 0) as u64);
        (n, after)
    }

    #[inline]
    fn trace_source(&mut self, index: NodeIndex, mut vector: Box<Vector>) -> Box<Vector> {
        if self.tracer.is_armed() {
            for i in 0..vector.len() {
                let Some(number) = self.tracer.mark(index) else {
                    break;
                };
                let mut row = vector.row(i);
                row.flags |= flag::TRACED;
                self.buffers.segment_mut(row.packet).trace = number;
                vector.set_row(i, row);
            }
            self.trace(index, &vector);
        }
        vector
    }

    fn trace(&mut self, index: NodeIndex, vector: &Vector) {
        for i in 0..vector.len() {
            let row = vector.row(i);
            if row.flags & flag::TRACED != 0 && vector.edges()[i] != edge::TAKEN {
                self.tracer.record(&self.buffers, index, ticks(), vector.edges()[i], row);
            }
        }
    }

    /// Runs nodes in order until no packet is left in a queue.
    fn run_pending(&mut self, round: &Round<'_>, mut clock: u64) -> bool {
        let mut worked = false;
        while let Some(word) = self.pending.iter().position(|&bits| bits != 0) {
            let bit = self.pending[word].trailing_zeros() as usize;
            self.pending[word] &= !(1 << bit);
            let index = self.order[word * 64 + bit];
            clock = self.run_node(index, round, clock);
            worked = true;
        }
        worked
    }

    fn run_node(&mut self, index: NodeIndex, round: &Round<'_>, mut clock: u64) -> u64 {
        let at = index.0 as usize;
        self.running = at;
        let node = self.nodes[at].as_mut().expect("a ranked node exists");
        if node.queue.is_empty() {
            // Control touched its state: it may have packets to emit.
            if matches!(node.behaviour, Behaviour::Expand(_)) {
                let mut vector = self.spare.pop().unwrap_or_else(Vector::new);
                vector.clear();
                clock = self.run_vector(index, round, vector, clock);
            }
            return clock;
        }
        // Most often there is one vector; more when a burst arrived on several sources.
        let mut queue = std::mem::take(&mut node.queue);
        for vector in queue.drain(..) {
            clock = self.run_vector(index, round, vector, clock);
        }
        let node = self.nodes[at].as_mut().expect("as above");
        if node.queue.is_empty() {
            node.queue = queue; // keeps its capacity
        }
        clock
    }

    fn run_vector(&mut self, index: NodeIndex, round: &Round<'_>, vector: Box<Vector>, before: u64) -> u64 {
        let at = index.0 as usize;
        let n = vector.len();
        let vector = &mut **self.current.insert(vector);
        let node = self.nodes[at].as_mut().expect("a ranked node exists");
        let mut cx = Core::context(&mut self.buffers, round, self.thread, self.now, &self.counters, node.counter_base);
        match &mut node.behaviour {
            Behaviour::Map(map) => map.process(&mut cx, vector),
            Behaviour::Expand(expand) => {
                vector.set_edges(edge::SENT); // a panic must not find old edges
                let mut expansion = Expansion {
                    cx: &mut cx,
                    output: &mut self.emitted,
                    spare: &mut self.spare,
                    ledger: &mut self.ledger,
                    recirculations: vector.recirculations,
                };
                expand.process(&mut expansion, vector);
            }
            Behaviour::Source(_) => unreachable!("nothing leads to a source"),
        }
        let vector = self.current.take().expect("put there above");
        if vector.traced {
            self.trace(index, &vector);
        }
        self.enqueue(index, vector);
        if !self.emitted.is_empty() {
            for vector in std::mem::take(&mut self.emitted) {
                self.enqueue(index, vector);
            }
        }
        let after = ticks();
        let nodes = &self.counters.nodes;
        nodes.add(self.thread, at, node_word::CALLS, 1);
        nodes.add(self.thread, at, node_word::PACKETS, n as u64);
        nodes.add(self.thread, at, node_word::CLOCKS, after.wrapping_sub(before));
        after
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
            self.deliver_part(from, edge, &vector, &mut mask);
        }
        match main {
            Some((edge, mask)) => {
                vector.keep(&mask);
                self.deliver(from, edge, vector);
            }
            None => self.spare.push(vector),
        }
    }

    fn target(&mut self, from: NodeIndex, edge: EdgeIndex) -> Target {
        let look =
            |core: &Core| core.nodes[from.0 as usize].as_ref().and_then(|node| node.edges.get(edge as usize).copied());
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
            edge::SENT => {
                self.ledger.sent += vector.len() as u64;
                self.free(&vector);
                self.spare.push(vector);
            }
            edge::TAKEN => self.spare.push(vector),
            _ => match self.target(from, edge) {
                Target::Node(to) => self.push(from, to, vector),
                Target::Drop(error) => self.drop_vector(vector, error),
                Target::Nowhere => self.drop_vector(vector, NOWHERE),
            },
        }
    }

    /// Queues a vector at a node, into the open vector there when it fits.
    #[inline]
    fn push(&mut self, from: NodeIndex, to: NodeIndex, mut vector: Box<Vector>) {
        let rank_from = self.nodes[from.0 as usize].as_ref().map_or(0, |node| node.rank);
        let Some(Some(node)) = self.nodes.get_mut(to.0 as usize) else {
            return self.drop_vector(vector, NOWHERE);
        };
        if node.rank <= rank_from {
            vector.recirculations += 1;
            if vector.recirculations > MAX_RECIRCULATIONS {
                return self.drop_vector(vector, RECIRCULATED);
            }
        }
        self.pending[node.rank / 64] |= 1 << (node.rank % 64);
        match node.queue.last_mut() {
            Some(open) if open.room() >= vector.len() => {
                open.append(&vector, 0);
                self.spare.push(vector);
            }
            _ => node.queue.push(vector),
        }
    }

    /// Hands over the packets of `mask`.
    fn deliver_part(&mut self, from: NodeIndex, edge: EdgeIndex, vector: &Vector, mask: &mut Mask) {
        if edge == edge::TAKEN {
            return;
        }
        while mask.count() > 0 {
            // Into the open vector of the next node, when there is one and no hop backwards
            // has to be counted.
            let target = if edge == edge::SENT { Target::Nowhere } else { self.target(from, edge) };
            if let Target::Node(to) = target {
                let rank_from = self.nodes[from.0 as usize].as_ref().map_or(0, |node| node.rank);
                if let Some(Some(node)) = self.nodes.get_mut(to.0 as usize)
                    && node.rank > rank_from
                    && let Some(open) = node.queue.last_mut()
                    && open.room() > 0
                {
                    vector.move_to(mask, open);
                    continue;
                }
            }
            let mut part = self.spare.pop().unwrap_or_else(Vector::new);
            part.clear();
            vector.move_to(mask, &mut part);
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

    fn drop_vector(&mut self, vector: Box<Vector>, error: u32) {
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

    /// Writes the worker's counts where control sees them.
    fn publish(&mut self) {
        while self.spare.len() > SPARE_VECTORS {
            self.spare.pop();
        }
        let held = self.held();
        let ledger = Ledger { held, ..self.ledger };
        debug_assert!(ledger.is_balanced(), "packets were lost or doubled: {ledger:?}");
        let values = [
            (worker_word::RECEIVED, ledger.received),
            (worker_word::ORIGINATED, ledger.originated),
            (worker_word::SENT, ledger.sent),
            (worker_word::DROPPED, ledger.dropped),
            (worker_word::CONSUMED, ledger.consumed),
            (worker_word::HELD, ledger.held),
            (worker_word::BUFFERS_CACHED, self.buffers.cached() as u64),
            (worker_word::BUFFERS_IN_USE, self.buffers.in_use()),
        ];
        for (word, value) in values {
            self.counters.workers.set(self.thread, word, 0, value);
        }
    }

    fn name_of_running(&self) -> Arc<str> {
        match self.nodes.get(self.running) {
            Some(Some(node)) => node.name.clone(),
            _ => "(removed)".into(),
        }
    }

    /// After a panic: every packet inside the graph is dropped.
    #[cold]
    fn drop_everything(&mut self) -> usize {
        let mut lost: Vec<Box<Vector>> = Vec::new();
        if let Some(mut vector) = self.current.take() {
            // What the node took is its own; the rest is lost. A source's packets had not
            // been counted yet.
            let is_source = matches!(&self.nodes[self.running], Some(Node { behaviour: Behaviour::Source(_), .. }));
            if is_source {
                self.ledger.received += vector.len() as u64;
            }
            let all = Mask::first(vector.len());
            let mut kept = all;
            if !is_source {
                kept.remove(&vector.mask_of(edge::TAKEN, &all));
            }
            vector.keep(&kept);
            lost.push(vector);
        }
        lost.append(&mut self.emitted);
        for node in self.nodes.iter_mut().flatten() {
            lost.append(&mut node.queue);
        }
        self.pending.fill(0);
        let count = lost.iter().map(|vector| vector.len()).sum();
        for vector in lost {
            self.drop_vector(vector, PANICKED);
        }
        self.publish();
        count
    }
}
