//! The graph as control sees it: names, edges and errors of all nodes. Changes go to
//! the workers as messages; no worker is ever stopped for them.

mod arcs;
mod order;
pub mod status;

use crate::books::{EdgeBook, Ranks};
use crate::buffer::{Buffers, Pool};
use crate::chains::Chains;
use crate::counter::CounterTable;
use crate::directory::{Column, Directory, Listed, Of};
use crate::index::NodeIndex;
use crate::index::{EdgeIndex, InterfaceIndex};
use crate::index::{MAX_ERRORS, MAX_INTERFACES, MAX_NODES};
use crate::janitor::Janitor;
use crate::node::{Behaviour, CounterSpec, EdgeSpec, Ledger, NodeSpec, Severity};
use crate::registry::status::WorkerState;
use crate::shared::SharedCounters;
use crate::target::Target;
use crate::trace::TraceFormat;
use crate::vector::{edge, flag};
use crate::worker::mailbox::{Mailbox, Message};
use crate::worker::{Core, DISPATCHER_ERRORS, NewNode, Place, Ports, Shared, Worker, node_word, worker_word};
use arcs::ArcBook;
pub use arcs::Feature;
use crossbeam_channel::RecvTimeoutError;
use rcu::Domain;
use std::collections::{BTreeSet, HashMap};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Classes of rounds, by how long they took.
const ROUND_TIMES: usize = 128;
/// How long control waits for a worker's answer to an operator's question.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often it checks meanwhile whether the worker is stuck: then waiting is pointless.
const LOOK: Duration = Duration::from_millis(10);

/// Why the graph could not be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GraphError {
    NameTaken(String),
    NoSuchNode(String),
    TooMany(&'static str, usize),
    /// Packet flags that another has claimed, or that are not to be claimed.
    FlagsTaken(u32, String),
    NoSuchArc(String),
    /// An arc, and a node that is no feature of it.
    NoSuchFeature(String, String),
    /// An arc, and the features that state an order that cannot be.
    FeaturesInACircle(&'static str, String),
    /// The worker did not answer in time; it may be stuck in a node.
    NoAnswer(usize),
}

impl std::fmt::Display for GraphError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            GraphError::NameTaken(name) => write!(f, "a node named '{name}' exists already"),
            GraphError::NoSuchNode(name) => write!(f, "no node named '{name}' (show node lists them)"),
            GraphError::TooMany(what, most) => write!(f, "too many {what} (at most {most})"),
            GraphError::NoSuchArc(name) => write!(f, "no feature arc named '{name}' (show features lists them)"),
            GraphError::NoSuchFeature(arc, node) => {
                write!(f, "{node} is no feature of {arc} (show features lists those that are)")
            }
            GraphError::FeaturesInACircle(arc, features) => {
                write!(f, "features of {arc} that each want to be before the other: {features}")
            }
            GraphError::FlagsTaken(flags, owner) => write!(f, "packet flags {flags:#010x} belong to {owner}"),
            GraphError::NoAnswer(worker) => {
                write!(f, "worker {worker} did not answer ('show threads' says whether it is stuck)")
            }
        }
    }
}
impl std::error::Error for GraphError {}

/// A registered node.
pub struct NodeInfo {
    pub index: NodeIndex,
    pub name: String,
    pub kind: &'static str,
    pub edges: Vec<EdgeInfo>,
    pub trace: TraceFormat,
}

/// An edge of a registered node.
#[derive(Debug, Clone)]
pub struct EdgeInfo {
    /// The next node's name, or the reason of the drop.
    pub to: String,
    pub node: Option<NodeIndex>,
    /// The packet ends here: dropped, or done.
    pub is_drop: bool,
    /// The packet has reached its purpose: no drop.
    pub is_end: bool,
}

/// What happened to a packet that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It is lost.
    Dropped,
    /// It has reached its purpose.
    Done,
    /// An event is counted; its packet, if there is one, is counted elsewhere, too.
    Counted,
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Outcome::Dropped => "dropped",
            Outcome::Done => "done",
            Outcome::Counted => "counted",
        })
    }
}

/// A counted reason.
#[derive(Debug, Clone)]
pub struct ErrorInfo {
    pub node: String,
    pub reason: String,
    pub severity: Severity,
    pub outcome: Outcome,
    /// What it means to an operator.
    pub meaning: &'static str,
}

impl ErrorInfo {
    fn of_counter(node: &str, counter: &CounterSpec) -> ErrorInfo {
        let CounterSpec(reason, severity, meaning) = *counter;
        ErrorInfo { node: node.into(), reason: reason.into(), severity, outcome: Outcome::Counted, meaning }
    }

    fn of_edge(node: &str, edge: &EdgeSpec) -> Option<ErrorInfo> {
        let (reason, severity, outcome, meaning) = match *edge {
            EdgeSpec::Next(_) | EdgeSpec::Arc(_) => return None,
            EdgeSpec::Drop(reason, severity, meaning) => (reason, severity, Outcome::Dropped, meaning),
            EdgeSpec::End(reason, meaning) => (reason, Severity::Info, Outcome::Done, meaning),
        };
        Some(ErrorInfo { node: node.into(), reason: reason.into(), severity, outcome, meaning: meaning.trim() })
    }

    /// Whether it is counted as the other one is, whatever the nodes are called.
    pub fn is_like(&self, other: &ErrorInfo) -> bool {
        (&self.reason, self.severity, self.outcome) == (&other.reason, other.severity, other.outcome)
    }
}

/// A node's counters on one worker since the last clear.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct NodeRuntime {
    pub calls: u64,
    pub packets: u64,
    pub clocks: u64,
    /// Idle polls of a source, and clocks of a source that no packet accounts for.
    pub empty: u64,
    pub idle_clocks: u64,
    /// The most clocks of one call, and the packets of that call.
    pub max_clocks: u64,
    pub max_packets: u64,
}

/// Control's side of the graph.
pub struct Graph {
    domain: Arc<Domain>,
    pool: Arc<Pool>,
    pub(crate) mailboxes: Vec<Arc<Mailbox>>,
    pub(crate) counters: SharedCounters,
    /// Counters that others show, clear and export.
    pub directory: Directory,
    nodes: Vec<Option<NodeInfo>>,
    by_name: HashMap<String, NodeIndex>,
    /// Free places in `nodes`.
    free: BTreeSet<usize>,
    edges: EdgeBook,
    ranks: Ranks,
    errors: Vec<ErrorInfo>,
    /// Where the errors of a node are.
    errors_by_node: HashMap<String, Vec<usize>>,
    /// Counts registrations.
    generations: u32,
    /// Who has claimed which packet flags.
    flags: Vec<(String, u32)>,
    arcs: ArcBook,
    chains: Arc<Chains>,
    janitor: Janitor,
    /// Each worker's ends of the rings between them, until the worker is made.
    ports: Mutex<Vec<Option<Ports>>>,
    /// How often [`Graph::clear_runtime`] was called.
    pub(crate) clears: u64,
}

impl Graph {
    /// An empty graph for `workers` data threads.
    ///
    /// # Errors
    /// When the system refuses memory or descriptors.
    pub fn new(domain: &Arc<Domain>, pool: &Arc<Pool>, workers: usize) -> io::Result<Graph> {
        let counters = SharedCounters {
            errors: CounterTable::new("/err", workers, MAX_ERRORS, 1)?,
            nodes: CounterTable::new("/sys/node", workers, MAX_NODES, node_word::WIDTH)?,
            workers: CounterTable::new("/sys/worker", workers, worker_word::COUNT, 1)?,
            rounds: CounterTable::new("/sys/rounds", workers, ROUND_TIMES, 1)?,
            drops: CounterTable::new("/if/drops", workers, MAX_INTERFACES, 1)?,
        };
        let mailboxes = (0..workers).map(|_| Ok(Arc::new(Mailbox::new()?))).collect::<io::Result<Vec<_>>>()?;
        let ports = Ports::of_all(&mailboxes, pool.capacity());
        Ok(Graph {
            domain: domain.clone(),
            pool: pool.clone(),
            mailboxes,
            directory: Graph::first_counters(&counters),
            counters,
            nodes: Vec::new(),
            by_name: HashMap::new(),
            free: BTreeSet::new(),
            edges: EdgeBook::default(),
            ranks: Ranks::default(),
            errors_by_node: HashMap::new(),
            errors: DISPATCHER_ERRORS.iter().filter_map(|edge| ErrorInfo::of_edge("dispatcher", edge)).collect(),
            generations: 0,
            flags: Vec::new(),
            arcs: ArcBook::default(),
            chains: Arc::new(Chains::new()),
            janitor: Janitor::default(),
            ports: Mutex::new(ports.into_iter().map(Some).collect()),
            clears: 0,
        })
    }

    /// Reserves packet flags for a capability.
    ///
    /// # Errors
    /// When one of them is not claimable ([`flag::CLAIMABLE`]) or belongs to another; then none is reserved.
    pub fn claim_flags(&mut self, owner: &str, flags: u32) -> Result<(), GraphError> {
        if flags & !flag::CLAIMABLE != 0 {
            return Err(GraphError::FlagsTaken(flags & !flag::CLAIMABLE, "the graph".into()));
        }
        if let Some((other, taken)) = self.flags.iter().find(|(_, taken)| taken & flags != 0) {
            return Err(GraphError::FlagsTaken(taken & flags, other.clone()));
        }
        self.flags.push((owner.into(), flags));
        Ok(())
    }

    /// Reserves a packet flag that is free, for a capability that needs no certain one.
    ///
    /// # Errors
    /// When all are taken.
    pub fn claim_any_flag(&mut self, owner: &str) -> Result<u32, GraphError> {
        let taken = self.flags.iter().fold(!flag::CLAIMABLE, |all, (_, flags)| all | flags);
        let free = (!taken).checked_ilog2().map(|bit| 1 << bit);
        let free =
            free.ok_or(GraphError::TooMany("packet flags of capabilities", flag::CLAIMABLE.count_ones() as usize))?;
        self.claim_flags(owner, free)?;
        Ok(free)
    }

    /// Makes the worker of one data thread, to be run there.
    ///
    /// # Panics
    /// When it was made before.
    ///
    /// # Errors
    /// When the RCU domain has no place for another reader.
    pub fn worker(&self, thread: usize) -> Result<Worker, rcu::NoFreeSlot> {
        // Now, not at the first use: by then the caller may be a worker, pinned and with a priority.
        self.janitor.start();
        let keep = self.pool.capacity() as usize / self.mailboxes.len();
        let mut buffers = Buffers::new(&self.pool, keep);
        buffers.set_owner_name(&format!("worker {thread}"));
        let mailbox = self.mailboxes[thread].clone();
        let reader = self.domain.register()?;
        let ports = self.ports.lock().expect("nobody panics with it")[thread].take();
        let ports = ports.expect("a worker is made once");
        let shared =
            Shared { counters: self.counters.clone(), chains: self.chains.clone(), janitor: self.janitor.clone() };
        Ok(Worker::new(thread, buffers, reader, mailbox, ports, shared))
    }

    pub fn workers(&self) -> usize {
        self.mailboxes.len()
    }
    pub fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }
    /// The thread that closes devices.
    pub fn janitor(&self) -> &Janitor {
        &self.janitor
    }
    pub fn pool(&self) -> &Arc<Pool> {
        &self.pool
    }
    /// The counters that every graph has and that mean something outside of it.
    fn first_counters(counters: &SharedCounters) -> Directory {
        let mut directory = Directory::default();
        let help = "Packets that ended under a name, and events that were counted.";
        let columns = const { &[Column::packets("count")] };
        directory.list(Listed { table: counters.errors.clone(), of: Of::Error, columns, help });
        directory
    }

    pub fn counters(&self) -> &SharedCounters {
        &self.counters
    }

    /// Declares that no worker will ever run: the graph is a plan, and messages to workers are discarded.
    pub fn has_no_workers(&self) {
        self.mailboxes.iter().for_each(|mailbox| mailbox.close());
    }

    fn post(&self, mut message: impl FnMut(usize) -> Message) {
        for (thread, mailbox) in self.mailboxes.iter().enumerate() {
            mailbox.post(message(thread));
        }
    }

    /// Registers a node; `make` gives each worker its own.
    ///
    /// # Errors
    /// When the name is taken or the graph is full; then nothing has changed.
    pub fn register(&mut self, spec: NodeSpec, make: impl Fn(usize) -> Behaviour) -> Result<NodeIndex, GraphError> {
        self.register_on(spec, None, make)
    }

    /// Registers a node that lives on one worker only. Other workers hand packets over to it.
    ///
    /// # Errors
    /// When the name is taken or the graph is full; then nothing has changed.
    pub fn register_owned(
        &mut self,
        spec: NodeSpec,
        owner: usize,
        make: impl Fn() -> Behaviour,
    ) -> Result<NodeIndex, GraphError> {
        self.register_on(spec, Some(owner), |_| make())
    }

    fn register_on(
        &mut self,
        spec: NodeSpec,
        owner: Option<usize>,
        make: impl Fn(usize) -> Behaviour,
    ) -> Result<NodeIndex, GraphError> {
        if self.by_name.contains_key(&spec.name) {
            return Err(GraphError::NameTaken(spec.name));
        }
        let arcs = spec.edges.iter().filter_map(|edge| if let EdgeSpec::Arc(arc) = edge { Some(*arc) } else { None });
        arcs.into_iter().try_for_each(|arc| self.arc(arc).map(|_| ()))?;
        let slot = self.free.first().copied().unwrap_or(self.nodes.len());
        if slot >= MAX_NODES {
            return Err(GraphError::TooMany("nodes", MAX_NODES));
        }
        if self.errors.len() + spec.edges.len() + spec.counters.len() > MAX_ERRORS && self.known_errors(&spec).is_none()
        {
            return Err(GraphError::TooMany("error counters", MAX_ERRORS));
        }
        let index = NodeIndex(slot as u32);
        let counter_base = self.errors_of(&spec);
        let mut error = (counter_base + spec.counters.len()) as u32;
        let (edges, targets): (Vec<EdgeInfo>, Vec<Target>) =
            spec.edges.iter().map(|edge| self.resolve(edge, &mut error)).unzip();
        let name: Arc<str> = spec.name.as_str().into();
        let mut kind = "";
        self.generations = self.generations.wrapping_add(1);
        let generation = self.generations;
        // The owner first: workers that hand over must find the node there.
        let is_owner = |thread: usize| owner.is_none_or(|owner| owner == thread);
        for thread in (0..self.workers()).filter(|thread| is_owner(*thread)) {
            let behaviour = make(thread);
            kind = behaviour.kind();
            let node = NewNode { behaviour, edges: targets.clone(), counter_base, name: name.clone(), generation };
            self.mailboxes[thread].post(Message::Add(index, Box::new(node)));
        }
        for thread in (0..self.workers()).filter(|thread| !is_owner(*thread)) {
            let place = Place { worker: owner.expect("else all own it"), generation };
            self.mailboxes[thread].post(Message::AddElsewhere(index, place));
        }
        self.counters.nodes.clear([slot]);
        for (edge, info) in (0..).zip(&edges) {
            match info.node {
                Some(to) => self.edges.lead((index, edge), to),
                None if info.is_drop => {}
                None => self.edges.wait((index, edge), &info.to),
            }
        }
        let leads_on = edges.iter().any(|edge| edge.node.is_some());
        let info = NodeInfo { index, name: spec.name.clone(), kind, edges, trace: spec.trace };
        if slot == self.nodes.len() {
            self.nodes.push(Some(info));
        } else {
            self.nodes[slot] = Some(info);
            self.free.remove(&slot);
        }
        self.by_name.insert(spec.name.clone(), index);
        let place = if leads_on { self.ranks.put_first(index) } else { self.ranks.put_last(index) };
        self.post(|_| Message::Rank(vec![place]));
        for from in self.connect_waiting(&spec.name, index) {
            self.order_edge(from, index);
        }
        for edge in spec.edges {
            if let EdgeSpec::Arc(arc) = edge {
                self.begins(index, arc)?;
            }
        }
        Ok(index)
    }

    /// The counters of a node that was registered before. A node that returns (its interface came back) goes on with
    /// them, so that coming and going does not use up numbers.
    fn known_errors(&self, spec: &NodeSpec) -> Option<usize> {
        let wanted: Vec<ErrorInfo> = counted_by(spec).collect();
        let same = |known: &[ErrorInfo]| {
            known.iter().zip(&wanted).all(|(known, wanted)| known.node == wanted.node && known.is_like(wanted))
        };
        if wanted.is_empty() {
            return Some(0);
        }
        let of_node = self.errors_by_node.get(&spec.name)?;
        of_node.iter().copied().find(|at| self.errors.get(*at..at + wanted.len()).is_some_and(&same))
    }

    /// The number of a node's first error: its counters, then its drops.
    fn errors_of(&mut self, spec: &NodeSpec) -> usize {
        self.known_errors(spec).unwrap_or_else(|| {
            let first = self.errors.len();
            self.errors.extend(counted_by(spec));
            self.errors_by_node.entry(spec.name.clone()).or_default().extend(first..self.errors.len());
            first
        })
    }

    /// An edge as control and as workers see it; `error` is the number of the next drop.
    fn resolve(&self, edge: &EdgeSpec, error: &mut u32) -> (EdgeInfo, Target) {
        match edge {
            EdgeSpec::Next(to) | EdgeSpec::Arc(to) => {
                let to = if let EdgeSpec::Arc(arc) = edge { &self.arcs.end_of(arc).unwrap_or(arc) } else { to };
                let next = self.by_name.get(*to).copied();
                (
                    EdgeInfo { to: to.to_string(), node: next, is_drop: false, is_end: false },
                    next.map_or(Target::Nowhere, Target::Node),
                )
            }
            EdgeSpec::Drop(reason, ..) | EdgeSpec::End(reason, _) => {
                let number = *error;
                *error += 1;
                let is_end = matches!(edge, EdgeSpec::End(..));
                let target = if is_end { Target::End(number) } else { Target::Drop(number) };
                (EdgeInfo { to: reason.to_string(), node: None, is_drop: true, is_end }, target)
            }
        }
    }

    /// Connects edges that were waiting for a node of this name. Returns the nodes that they lead from.
    fn connect_waiting(&mut self, name: &str, to: NodeIndex) -> Vec<NodeIndex> {
        let mut connected = Vec::new();
        for (from, edge) in self.edges.waited(name) {
            let node = self.nodes.get_mut(from.0 as usize).and_then(Option::as_mut);
            let waits = |info: &&mut EdgeInfo| !info.is_drop && info.node.is_none() && info.to == name;
            // Another edge may have its place by now.
            let Some(info) = node.and_then(|node| node.edges.get_mut(edge as usize)).filter(waits) else { continue };
            info.node = Some(to);
            self.edges.lead((from, edge), to);
            self.post(|_| Message::Connect(from, edge, Target::Node(to)));
            connected.push(from);
        }
        connected
    }

    /// Returns the edge from one node to another; adds it if there is none.
    ///
    /// # Errors
    /// When `to` is unknown or `from` has too many edges.
    pub fn connect(&mut self, from: NodeIndex, to: &str) -> Result<EdgeIndex, GraphError> {
        let target = self.find(to)?;
        self.info(from).ok_or_else(|| GraphError::NoSuchNode(format!("#{}", from.0)))?;
        if let Some(edge) = self.edges.between(from, target) {
            return Ok(edge);
        }
        let place = self.add_edge(from, to, target)?;
        self.post(|_| Message::Connect(from, place, Target::Node(target)));
        self.order_edge(from, target);
        Ok(place)
    }

    /// Returns a new edge by which packets leave by an interface: to the node `to`, or along the features of an arc
    /// that are enabled on the interface. The arc's end finds the way by `tx_interface`.
    ///
    /// # Errors
    /// When `to` or the arc is unknown or `from` has too many edges.
    pub fn connect_output(
        &mut self,
        from: NodeIndex,
        to: &str,
        arc: &str,
        interface: InterfaceIndex,
    ) -> Result<EdgeIndex, GraphError> {
        let (target, arc) = (self.find(to)?, self.arc(arc)?);
        let place = self.add_edge(from, to, target)?;
        self.post(|_| Message::Connect(from, place, Target::Output(arc, interface, target)));
        self.order_edge(from, target);
        Ok(place)
    }

    /// Adds an edge to a node.
    fn add_edge(&mut self, from: NodeIndex, to: &str, target: NodeIndex) -> Result<EdgeIndex, GraphError> {
        let slot = self.nodes.get_mut(from.0 as usize).and_then(Option::as_mut);
        let node = slot.ok_or_else(|| GraphError::NoSuchNode(format!("#{}", from.0)))?;
        // Reuse the place of an edge whose node is gone.
        let place = self.edges.free_place(from).map_or(node.edges.len(), usize::from);
        if place >= edge::MAX {
            return Err(GraphError::TooMany("edges", edge::MAX));
        }
        let info = EdgeInfo { to: to.to_string(), node: Some(target), is_drop: false, is_end: false };
        if place == node.edges.len() {
            node.edges.push(info);
        } else {
            node.edges[place] = info;
        }
        self.edges.lead((from, place as EdgeIndex), target);
        Ok(place as EdgeIndex)
    }

    /// Removes a node. Edges that led to it lead nowhere.
    pub fn remove(&mut self, index: NodeIndex) {
        let Some(node) = self.nodes.get_mut(index.0 as usize).and_then(Option::take) else {
            return;
        };
        self.by_name.remove(&node.name);
        self.leave_arcs(index);
        self.ranks.remove(index);
        self.free.insert(index.0 as usize);
        let leads_to = (0..).zip(&node.edges).filter_map(|(edge, info)| Some((edge, info.node?)));
        for (from, edge) in self.edges.remove(index, leads_to) {
            let there = self.nodes.get_mut(from.0 as usize).and_then(Option::as_mut);
            if let Some(info) = there.and_then(|node| node.edges.get_mut(edge as usize)) {
                info.node = None;
                info.to.clear();
            }
            self.post(|_| Message::Connect(from, edge, Target::Nowhere));
        }
        self.post(|_| Message::Remove(index));
    }

    /// Renames a node; its errors are listed under the new name from then on.
    ///
    /// # Errors
    /// When there is no such node or the name is taken.
    pub fn rename(&mut self, index: NodeIndex, name: &str) -> Result<(), GraphError> {
        if self.by_name.contains_key(name) {
            return Err(GraphError::NameTaken(name.into()));
        }
        let slot = self.nodes.get_mut(index.0 as usize).and_then(Option::as_mut);
        let node = slot.ok_or_else(|| GraphError::NoSuchNode(format!("#{}", index.0)))?;
        let old = std::mem::replace(&mut node.name, name.into());
        self.by_name.remove(&old);
        self.by_name.insert(name.into(), index);
        for (from, edge) in self.edges.leading_to(index) {
            let there = self.nodes.get_mut(from.0 as usize).and_then(Option::as_mut);
            if let Some(edge) = there.and_then(|node| node.edges.get_mut(edge as usize)) {
                edge.to = name.into();
            }
        }
        let errors = self.errors_by_node.remove(&old).unwrap_or_default();
        errors.iter().for_each(|at| self.errors[*at].node = name.into());
        self.errors_by_node.entry(name.into()).or_default().extend(errors);
        self.call(|_| {
            let name = name.into();
            Box::new(move |core| core.rename(index, name))
        });
        Ok(())
    }

    /// Finds a node by name.
    ///
    /// # Errors
    /// When there is none.
    pub fn find(&self, name: &str) -> Result<NodeIndex, GraphError> {
        self.by_name.get(name).copied().ok_or_else(|| GraphError::NoSuchNode(name.into()))
    }

    pub fn info(&self, index: NodeIndex) -> Option<&NodeInfo> {
        self.nodes.get(index.0 as usize)?.as_ref()
    }

    /// All nodes, by name.
    pub fn nodes(&self) -> Vec<&NodeInfo> {
        let mut nodes: Vec<_> = self.nodes.iter().flatten().collect();
        nodes.sort_by(|a, b| a.name.cmp(&b.name));
        nodes
    }

    /// Makes every worker run an action between two rounds.
    pub fn call(&self, mut action: impl FnMut(usize) -> Box<dyn FnOnce(&mut Core) + Send>) {
        self.post(|thread| Message::Call(action(thread)));
    }

    /// Makes one worker run an action between two rounds.
    pub fn call_one(&self, thread: usize, action: impl FnOnce(&mut Core) + Send + 'static) {
        self.mailboxes[thread].post(Message::Call(Box::new(action)));
    }

    /// Runs `then` on one worker when all workers have applied every earlier message, and have taken in what other
    /// workers had handed them before.
    pub fn when_settled(&self, then: impl FnOnce() + Send + 'static) {
        // After one pass no worker hands over to what was removed; after a second pass everything handed over is taken
        // in.
        let mailboxes = [&self.mailboxes[..], &self.mailboxes[..]].concat();
        after_rounds(mailboxes, Box::new(move |_| then()));
    }

    /// Asks one worker a question.
    ///
    /// # Errors
    /// When it is stuck in a round, or does not answer within two seconds.
    pub fn ask<T: Send + 'static>(
        &self,
        thread: usize,
        question: impl FnOnce(&mut Core) -> T + Send + 'static,
    ) -> Result<T, GraphError> {
        let (sender, receiver) = crossbeam_channel::bounded(1);
        self.call_one(thread, move |core| {
            let _ = sender.send(question(core));
        });
        let start = Instant::now();
        loop {
            match receiver.recv_timeout(LOOK) {
                Ok(answer) => return Ok(answer),
                Err(RecvTimeoutError::Timeout)
                    if start.elapsed() < PATIENCE && !matches!(self.worker_state(thread), WorkerState::Stalled(_)) => {}
                Err(_) => return Err(GraphError::NoAnswer(thread)),
            }
        }
    }

    /// Makes all workers return what they hold and stop.
    pub fn stop(&self) {
        self.post(|_| Message::Stop);
    }

    pub fn errors(&self) -> &[ErrorInfo] {
        &self.errors
    }

    /// What happened to all workers' packets, as of their last busy round.
    pub fn ledger(&self) -> Ledger {
        let sum = |word| (0..self.workers()).map(|thread| self.counters.workers.raw(thread, word, 0)).sum();
        Ledger {
            received: sum(worker_word::RECEIVED),
            originated: sum(worker_word::ORIGINATED),
            sent: sum(worker_word::SENT),
            dropped: sum(worker_word::DROPPED),
            consumed: sum(worker_word::CONSUMED),
            held: sum(worker_word::HELD),
            taken: sum(worker_word::TAKEN),
            handed: sum(worker_word::HANDED),
        }
    }
}

impl Drop for Graph {
    /// Messages to workers that were never made hold mailboxes, their own among them: no worker empties those.
    fn drop(&mut self) {
        let ports = self.ports.lock().unwrap_or_else(PoisonError::into_inner);
        let never_made = self.mailboxes.iter().zip(&*ports).filter(|(_, ports)| ports.is_some());
        never_made.for_each(|(mailbox, _)| drop(mailbox.take()));
    }
}

impl Core {
    /// Makes worker `to` take over something that this worker gives up. Before that, every other worker takes in what
    /// it was handed so far, so that packets which `to` sends later stay in order.
    pub fn pass_to(&self, to: usize, take: impl FnOnce(&mut Core) + Send + 'static) {
        let mailboxes = self.mailboxes();
        let mut way: Vec<_> = (0..mailboxes.len()).filter(|worker| ![self.thread(), to].contains(worker)).collect();
        way.push(to);
        after_rounds(way.into_iter().map(|worker| mailboxes[worker].clone()).collect(), Box::new(take));
    }
}

/// Makes each worker in turn finish a round that begins after this call, and then runs `then` on the last one.
fn after_rounds(mailboxes: Vec<Arc<Mailbox>>, then: Box<dyn FnOnce(&mut Core) + Send>) {
    let mut rest = mailboxes.into_iter();
    let Some(next) = rest.next() else { return };
    let own = next.clone();
    // We are between two rounds; a message that the worker posts to itself is applied after the next round.
    let first = move |_: &mut Core| {
        let second = move |core: &mut Core| match rest.len() {
            0 => then(core),
            _ => after_rounds(rest.collect(), then),
        };
        own.post(Message::Call(Box::new(second)));
    };
    next.post(Message::Call(Box::new(first)));
}

/// What a node counts: its counters, then its drops.
fn counted_by(spec: &NodeSpec) -> impl Iterator<Item = ErrorInfo> {
    let drops = spec.edges.iter().filter_map(|edge| ErrorInfo::of_edge(&spec.name, edge));
    spec.counters.iter().map(|counter| ErrorInfo::of_counter(&spec.name, counter)).chain(drops)
}
