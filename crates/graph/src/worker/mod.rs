//! A worker: one thread's copy of the graph and the dispatcher that runs it.
//!
//! A round polls every source once and then runs nodes in topological order until no packet is left inside. A vector
//! whose packets all take one edge is handed over by pointer. One whose packets take different edges is compressed by
//! mask, so that each edge stays first in, first out.
//!
//! Between rounds the worker applies control's messages: nodes, edges, calls. When there is nothing to do and all
//! sources can be waited for, it goes RCU-offline and sleeps until a device, another worker, a timer or a message wakes
//! it.

mod dispatch;
mod handoff;
pub(crate) mod mailbox;
mod messages;
mod recorder;
mod running;
mod sampling;

pub(crate) use handoff::{Place, Ports};
pub use recorder::{Crash, Step};
pub use running::Running;

use crate::buffer::Buffers;
use crate::capture::Capture;
use crate::chains::Chains;
use crate::counter::Lane;
use crate::index::NodeIndex;
use crate::janitor::Janitor;
use crate::node::{Behaviour, EdgeSpec, Ledger, Severity, Timer, Wake};
use crate::shared::SharedCounters;
use crate::target::Target;
use crate::time::{self, ticks};
use crate::timer::Wheel;
use crate::trace::Tracer;
use crate::vector::parting::{Alike, Mask};
use crate::vector::{Vector, edge};
use crate::worker::mailbox::{Mailbox, Message};
use rcu::Reader;
use recorder::Recorder;
use rustix::thread::{gettid, set_current_timer_slack};
use sampling::Sampling;
use std::collections::VecDeque;
use std::num::NonZeroU64;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// The name of a worker's thread.
pub fn thread_name(worker: usize) -> String {
    format!("quiver_wk_{worker}")
}

/// Panics in a row after which the process exits.
const MAX_PANICS: u32 = 3;
/// Vectors kept for reuse.
const SPARE_VECTORS: usize = 64;
/// Instead of a node's number: a message of control is running.
const CONTROL: usize = usize::MAX;
/// Idle polls before a worker sleeps if some of its sources cannot be waited for: a few tens of microseconds.
const IDLE_ROUNDS: u32 = 1000;
/// How long a worker stays awake after another has handed it packets: waking it for each vector would take longer than
/// polling.
const PATIENCE: Duration = Duration::from_micros(100);

/// Error counters that the dispatcher itself counts, in this order at the front of the
/// table.
pub(crate) const DISPATCHER_ERRORS: [EdgeSpec; 4] = [
    EdgeSpec::Drop(
        "recirculated too often",
        Severity::Error,
        "The packet returned more than 16 times to nodes that it had already passed. This is a bug in this program. \
         Please report it, with `show trace`.",
    ),
    EdgeSpec::Drop(
        "edge leads nowhere",
        Severity::Error,
        "The next node was removed while the packet was on its way to it. A few are normal when an interface is \
         deleted under traffic. Otherwise this is a bug in this program.",
    ),
    EdgeSpec::Drop(
        "node panicked",
        Severity::Error,
        "A node panicked, and its worker dropped the packets that it was processing. This is a bug in this program. \
         The crash report says where it happened (`show logging` has the path of the report). Three panics in a row \
         end the process.",
    ),
    EdgeSpec::Drop(
        "congestion drop between workers",
        Severity::Error,
        "A worker had no room for packets that another worker handed to it (`set interface handoff`, or a device \
         that only one worker can send to). The receiving worker, or its core, is overloaded. See `show runtime`, \
         and spread the work over more workers.",
    ),
];
const RECIRCULATED: u32 = 0;
const NOWHERE: u32 = 1;
const PANICKED: u32 = 2;
const CONGESTED: u32 = 3;

/// Words of a node's entry in the node table.
pub mod node_word {
    pub const CALLS: usize = 0;
    pub const PACKETS: usize = 1;
    pub const CLOCKS: usize = 2;
    /// Idle polls of a source.
    pub const EMPTY: usize = 3;
    /// The most clocks of one call, and the packets of that call. Only the worker writes them, so `clear` makes it
    /// start anew ([`super::Core::clear_maxima`]).
    pub const MAX_CLOCKS: usize = 4;
    pub const MAX_PACKETS: usize = 5;
    /// For a source: [`READY`] or [`NO_DEVICE`], as it answered when it was last asked.
    pub const STATE: usize = 6;
    /// Clocks of a source that no packet accounts for: of idle polls, and of calls during which the worker was
    /// preempted.
    pub const IDLE_CLOCKS: usize = 7;
    /// An entry is one cache line.
    pub const WIDTH: usize = 8;

    pub const READY: u64 = 0;
    pub const NO_DEVICE: u64 = 1;
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
    /// When its current round began, or when it woke to begin one, in ticks.
    pub const ROUND_BEGAN: usize = 10;
    /// The kernel's number of its thread; 0: it has no thread of its own.
    pub const LWP: usize = 11;
    /// Which `clear` the largest clocks of nodes count from.
    pub const MAXIMA: usize = 12;
    pub const TAKEN: usize = 13;
    pub const HANDED: usize = 14;
    /// What it is doing, a [`super::Running`] packed.
    pub const RUNNING: usize = 15;
    pub const COUNT: usize = 16;
}

pub(crate) struct NewNode {
    pub behaviour: Behaviour,
    pub edges: Vec<Target>,
    pub counter_base: usize,
    pub name: Arc<str>,
    pub generation: u32,
}

/// Where packets go from a node.
#[derive(Default)]
struct Way {
    /// The node's rank among those of this worker, from 1 on, in the order of all nodes; 0: there is no such node here.
    rank: usize,
    edges: Vec<Target>,
}

impl Way {
    /// Whether a node is here, and behind this one in order.
    #[inline(always)]
    fn leads_ahead(&self, ways: &[Way], to: NodeIndex) -> bool {
        ways.get(to.0 as usize).is_some_and(|way| way.rank > self.rank)
    }
}

/// Marks the node of a rank as one that has packets, or is to have a turn.
#[inline(always)]
fn mark(pending: &mut [u64], rank: usize) {
    pending[rank / 64] |= 1 << (rank % 64);
}

struct Node {
    behaviour: Behaviour,
    counter_base: usize,
    name: Arc<str>,
    queue: Vec<Box<Vector>>,
    /// Its timers that are due.
    fired: Vec<u64>,
    /// Its place in the order of all nodes.
    place: i64,
    /// Distinguishes it from a later node with the same number.
    generation: u32,
}

/// All state of a worker except its RCU reader, which is borrowed during a round.
pub struct Core {
    thread: usize,
    nodes: Vec<Option<Node>>,
    /// By the node's number, as long as `nodes`.
    ways: Vec<Way>,
    /// The places of nodes that live on other workers.
    elsewhere: Vec<Option<Place>>,
    ports: Ports,
    sources: Vec<NodeIndex>,
    /// Nodes by rank, from rank 1 on, and a bit for each rank that has packets.
    order: Vec<NodeIndex>,
    /// The order has changed, and the nodes' ranks are out of date.
    is_unranked: bool,
    pending: Vec<u64>,
    pub buffers: Buffers,
    chains: Arc<Chains>,
    pub tracer: Tracer,
    pub capture: Capture,
    ledger: Ledger,
    counters: SharedCounters,
    /// Its own rows of the counters that it writes with every vector.
    nodes_lane: Lane<{ node_word::WIDTH }>,
    lane: Lane<{ worker_word::COUNT }>,
    spare: Vec<Box<Vector>>,
    /// The vector that a node works on, kept here so that a panic does not lose it.
    current: Option<Box<Vector>>,
    emitted: Vec<Box<Vector>>,
    mailbox: Arc<Mailbox>,
    /// Where to leave values that may own a device.
    pub janitor: Janitor,
    deferred: VecDeque<Message>,
    timers: Wheel<Timer>,
    now: u64,
    /// When other workers last handed it packets, and how long it stays awake for more.
    taken_at: u64,
    patience: u64,
    /// When the last round began; 0 after sleep.
    began: u64,
    /// How many ticks its time is ahead of the clock.
    ahead: u64,
    /// The node that runs, or [`CONTROL`].
    running: usize,
    recorder: Recorder,
    /// Whether the clock is read between nodes in this round.
    is_read: bool,
    sampling: Sampling,
}

/// Called with a report of each panic.
pub type PanicReporter = Box<dyn FnMut(&Crash) + Send>;

/// What all workers have in common.
pub(crate) struct Shared {
    pub counters: SharedCounters,
    pub chains: Arc<Chains>,
    pub janitor: Janitor,
}

/// What a round achieved.
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
    on_panic: Option<PanicReporter>,
    /// How long it pauses after an idle poll, even if it has to poll.
    poll_pause: Option<Duration>,
}

impl Worker {
    pub(crate) fn new(
        thread: usize,
        buffers: Buffers,
        reader: Reader,
        mailbox: Arc<Mailbox>,
        ports: Ports,
        shared: Shared,
    ) -> Worker {
        let Shared { counters, chains, janitor } = shared;
        Worker {
            core: Core {
                thread,
                nodes: Vec::new(),
                ways: Vec::new(),
                elsewhere: Vec::new(),
                ports,
                sources: Vec::new(),
                order: Vec::new(),
                is_unranked: false,
                pending: Vec::new(),
                buffers,
                chains,
                tracer: Tracer::default(),
                capture: Capture::default(),
                ledger: Ledger::default(),
                nodes_lane: counters.nodes.lane(thread),
                lane: counters.workers.lane(thread),
                counters,
                spare: (0..SPARE_VECTORS).map(|_| Vector::new()).collect(),
                current: None,
                emitted: Vec::new(),
                mailbox,
                janitor,
                deferred: VecDeque::new(),
                timers: Wheel::new(ticks()),
                now: ticks(),
                taken_at: 0,
                patience: time::to_ticks(PATIENCE),
                began: 0,
                ahead: 0,
                running: 0,
                recorder: Recorder::new(),
                is_read: true,
                sampling: Sampling::default(),
            },
            reader,
            panics: 0,
            on_panic: None,
            poll_pause: None,
        }
    }

    /// Reports each caught panic, before anything else happens. After the last one, the process exits when the reporter
    /// returns.
    pub fn on_panic(&mut self, reporter: PanicReporter) {
        self.on_panic = Some(reporter);
    }

    /// Makes it pause for this long after an idle poll, even if it has to poll: less power for more latency.
    pub fn rest_between_polls(&mut self, pause: Duration) {
        self.poll_pause = Some(pause).filter(|pause| !pause.is_zero());
    }

    /// Runs until stopped, sleeping when idle.
    pub fn run(mut self) {
        self.core.counters.workers.set(self.core.thread, worker_word::ROUND_BEGAN, 0, ticks());
        let lwp = gettid().as_raw_nonzero().get() as u64;
        self.core.counters.workers.set(self.core.thread, worker_word::LWP, 0, lwp);
        // A timed sleep then ends on time, not up to 50 us later. Where this is refused, no harm is done.
        let _ = set_current_timer_slack(NonZeroU64::new(1));
        let mut idle = 0;
        loop {
            match self.round() {
                Progress::Worked => idle = 0,
                Progress::Idle => idle += 1,
                Progress::Stopped => return,
            }
            if idle >= IDLE_ROUNDS || idle > 0 && (self.poll_pause.is_some() || self.core.all_wait()) {
                idle = 0;
                self.sleep();
            }
        }
    }

    /// One round: messages, sources, nodes.
    #[inline]
    pub fn round(&mut self) -> Progress {
        let core = &mut self.core;
        if core.has_messages() {
            if core.sampling.is_open() {
                core.sampling.close(ticks());
            }
            match catch_unwind(AssertUnwindSafe(|| core.apply_messages())) {
                Ok(true) => {}
                Ok(false) => {
                    core.drain();
                    return Progress::Stopped;
                }
                Err(payload) => {
                    self.panicked(&recorder::message(&*payload));
                    return Progress::Worked;
                }
            }
        }
        let round = self.reader.round();
        match catch_unwind(AssertUnwindSafe(|| core.round(&round))) {
            Ok(worked) => {
                self.panics = 0;
                if worked { Progress::Worked } else { Progress::Idle }
            }
            Err(payload) => {
                self.panicked(&recorder::message(&*payload));
                Progress::Worked
            }
        }
    }

    /// Drops the packets inside, reports the panic, and exits after too many in a row.
    #[cold]
    fn panicked(&mut self, message: &str) {
        self.panics += 1;
        self.core.sampling.give_up();
        let recent = self.core.recent();
        let crash = Crash {
            thread: self.core.thread,
            node: self.core.name_of_running().map(|name| name.to_string()),
            message: message.into(),
            rounds: self.core.counters.workers.raw(self.core.thread, worker_word::ROUNDS, 0),
            lost: self.core.drop_everything(),
            panics: self.panics,
            most_panics: MAX_PANICS,
            recent,
        };
        log::error!(
            "{} panicked: {message}; {} packets dropped (panic {} of {MAX_PANICS} in a row)",
            crash.culprit(),
            crash.lost,
            self.panics
        );
        if let Some(report) = &mut self.on_panic
            && catch_unwind(AssertUnwindSafe(|| report(&crash))).is_err()
        {
            log::error!("the report of the panic failed");
        }
        if crash.is_last() {
            log::error!("giving up: {} panics in every round", crash.culprit());
            log::logger().flush();
            std::process::abort();
        }
    }

    pub fn core(&mut self) -> &mut Core {
        &mut self.core
    }

    /// Sleeps until a source or control has work.
    fn sleep(&mut self) {
        let mailbox = self.core.mailbox.clone();
        if !mailbox.begin_sleep() {
            return;
        }
        if self.core.ports.have_mail() {
            return mailbox.end_sleep();
        }
        let mut until = self.core.timers.next();
        let mut descriptors = Vec::new();
        let mut must_poll = false;
        for &source in &self.core.sources {
            let Some(Node { behaviour: Behaviour::Source(node), .. }) = &self.core.nodes[source.0 as usize] else {
                continue;
            };
            let wake = node.wake();
            let state = if matches!(wake, Wake::Never) { node_word::NO_DEVICE } else { node_word::READY };
            self.core.counters.nodes.set(self.core.thread, source.0 as usize, node_word::STATE, state);
            match wake {
                Wake::Never => {}
                Wake::Poll => must_poll = true,
                Wake::At(ticks) => until = Some(until.map_or(ticks, |t: u64| t.min(ticks))),
                Wake::Readable(descriptor) => descriptors.push(descriptor),
            }
        }
        if must_poll && let Some(pause) = self.poll_pause {
            let end = ticks() + time::to_ticks(pause);
            until = Some(until.map_or(end, |until| until.min(end)));
            must_poll = false;
        }
        if !must_poll {
            self.core.counters.workers.add(self.core.thread, worker_word::SLEEPS, 0, 1);
            self.reader.offline();
            mailbox.sleep(&descriptors, until);
        }
        self.core.began = 0;
        // Before it counts as awake: it has not been busy since the round before its sleep.
        self.core.counters.workers.set(self.core.thread, worker_word::ROUND_BEGAN, 0, ticks());
        mailbox.end_sleep();
    }
}

impl Core {
    pub fn thread(&self) -> usize {
        self.thread
    }

    /// Makes nodes believe that time has passed, so that tests need not sleep.
    pub fn let_pass(&mut self, time: Duration) {
        self.ahead += time::to_ticks(time);
    }

    pub fn ledger(&self) -> Ledger {
        self.ledger
    }

    /// Whether no work is left until a source is ready or another worker rings.
    fn all_wait(&self) -> bool {
        if self.now.wrapping_sub(self.taken_at) < self.patience {
            return false;
        }
        self.sources.iter().all(|source| match &self.nodes[source.0 as usize] {
            Some(Node { behaviour: Behaviour::Source(node), .. }) => node.waits(),
            _ => true,
        })
    }

    /// Counts the packets that nodes hold.
    fn count_held(&self) -> u64 {
        let held = |node: &Node| match &node.behaviour {
            Behaviour::Expand(_) => node.behaviour.held() as u64,
            _ => 0,
        };
        self.nodes.iter().flatten().map(held).sum()
    }

    /// Whether a node lives on this worker.
    #[inline(always)]
    fn is_here(&self, index: NodeIndex) -> bool {
        matches!(self.nodes.get(index.0 as usize), Some(Some(_)))
    }

    /// A node's own state, for control's calls. An expand node then gets a turn.
    pub fn node<T: 'static>(&mut self, index: NodeIndex) -> Option<&mut T> {
        let node = self.nodes.get_mut(index.0 as usize)?.as_mut()?;
        if matches!(node.behaviour, Behaviour::Expand(_)) {
            mark(&mut self.pending, self.ways[index.0 as usize].rank);
        }
        node.behaviour.as_any().downcast_mut()
    }

    /// Publishes the worker's counts for control.
    fn publish(&mut self) {
        while self.spare.len() > SPARE_VECTORS {
            self.spare.pop();
        }
        let ledger = self.ledger;
        debug_assert_eq!(ledger.held, self.count_held());
        debug_assert!(ledger.is_balanced(), "packets were lost or doubled: {ledger:?}");
        let values = [
            (worker_word::RECEIVED, ledger.received),
            (worker_word::ORIGINATED, ledger.originated),
            (worker_word::SENT, ledger.sent),
            (worker_word::DROPPED, ledger.dropped),
            (worker_word::CONSUMED, ledger.consumed),
            (worker_word::HELD, ledger.held),
            (worker_word::TAKEN, ledger.taken),
            (worker_word::HANDED, ledger.handed),
            (worker_word::BUFFERS_CACHED, self.buffers.cached() as u64),
            (worker_word::BUFFERS_IN_USE, self.buffers.in_use()),
        ];
        let words = self.lane.at(0);
        values.into_iter().for_each(|(word, value)| words[word].set(value));
    }

    /// Makes the largest clocks of all nodes count from now; `generation` lets control see that this is done.
    pub(crate) fn clear_maxima(&mut self, generation: u64) {
        (0..self.nodes.len()).for_each(|at| self.clear_maximum(at));
        self.counters.workers.set(self.thread, worker_word::MAXIMA, 0, generation);
    }

    fn clear_maximum(&self, at: usize) {
        for word in [node_word::MAX_CLOCKS, node_word::MAX_PACKETS] {
            self.counters.nodes.set(self.thread, at, word, 0);
        }
    }

    fn name_of(&self, at: usize) -> Arc<str> {
        match self.nodes.get(at) {
            Some(Some(node)) => node.name.clone(),
            _ => "(removed)".into(),
        }
    }

    /// Sets the name of a node in reports of panics.
    pub(crate) fn rename(&mut self, index: NodeIndex, name: Arc<str>) {
        if let Some(Some(node)) = self.nodes.get_mut(index.0 as usize) {
            node.name = name;
        }
    }

    /// None: a message is running.
    fn name_of_running(&self) -> Option<Arc<str>> {
        (self.running != CONTROL).then(|| self.name_of(self.running))
    }

    /// The nodes that ran last, the current one included.
    #[cold]
    fn recent(&self) -> Vec<Step> {
        let now = ticks();
        let step = |node: usize, packets: u32, ticks: u64| Step {
            node: self.name_of(node).to_string(),
            packets,
            ticks_before: now.wrapping_sub(ticks),
        };
        let mut steps: Vec<Step> =
            self.recorder.runs().map(|run| step(run.node as usize, run.packets, run.ticks)).collect();
        if let Some(Some(Node { behaviour: Behaviour::Source(_), .. })) = self.nodes.get(self.running) {
            let brought = self.current.as_ref().map_or(0, |vector| vector.len());
            steps.push(step(self.running, brought as u32, now));
        }
        steps
    }

    /// After a panic: every packet inside the graph is dropped.
    #[cold]
    fn drop_everything(&mut self) -> usize {
        let mut lost: Vec<Box<Vector>> = Vec::new();
        if let Some(mut vector) = self.current.take() {
            // What the node took is its own; the rest is lost. A source's packets had not been counted as received yet.
            let is_source = matches!(&self.nodes[self.running], Some(Node { behaviour: Behaviour::Source(_), .. }));
            if is_source {
                self.ledger.received += vector.len() as u64;
            }
            let all = Mask::first(vector.len());
            let mut kept = all;
            if !is_source {
                kept.remove(&vector.mask_of(edge::TAKEN, &all));
                // The device is sending these.
                let lent = vector.mask_of(edge::LENT, &all);
                self.ledger.sent += lent.count() as u64;
                kept.remove(&lent);
            }
            vector.keep(&kept, Alike::default());
            lost.push(vector);
        }
        lost.append(&mut self.emitted);
        for node in self.nodes.iter_mut().flatten() {
            lost.append(&mut node.queue);
        }
        if self.running != CONTROL {
            self.pending.fill(0);
            // The timers that caused the panic do not fire again; those of other nodes are kept.
            if let Some(Some(node)) = self.nodes.get_mut(self.running) {
                node.fired.clear();
            }
            let fired = |node: &Option<Node>| node.as_ref().is_some_and(|node| !node.fired.is_empty());
            for (_, way) in self.nodes.iter().zip(&self.ways).filter(|(node, _)| fired(node)) {
                mark(&mut self.pending, way.rank);
            }
        } // else the pending bits are turns that messages gave to nodes
        self.ledger.held = self.count_held();
        let count = lost.iter().map(|vector| vector.len()).sum();
        for vector in lost {
            self.drop_vector(vector, PANICKED);
        }
        self.publish();
        count
    }
}
