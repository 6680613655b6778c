//! The input node of a driver: polls the receive queues of its interfaces on this worker, in turns, and counts what
//! they receive.
//!
//! A queue that has been empty for a while is no longer polled but waited for. A busy worker asks the kernel about all
//! such queues at once, now and then; an idle worker sleeps until one of them wakes it.

use crate::ready::Ready;
use crate::{Receive, ReceiveCounts};
use graph::{
    ArcIndex, Context, CounterSpec, CounterTable, EdgeIndex, InterfaceIndex, NodeSpec, Severity, Snapshot, Source,
    Vector, Wake, time,
};
use rustix::fd::AsFd;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

graph::edges! {
    pub enum Edge {
        Received => arc "device-input",
        /// Frames that arrive at an interface that is administratively down: `set interface state NAME up`.
        Down => warn "interface is down",
    }
}

/// Events that the node counts, in this order.
pub const COUNTERS: &[CounterSpec] = &[
    CounterSpec(
        "no free buffer",
        Severity::Error,
        "All packet buffers are in use (`show buffers`). Increase `buffers-per-numa` in startup.conf.",
    ),
    CounterSpec(
        "malformed device header",
        Severity::Warning,
        "The host's end of the device wrote a header that contradicts its frame. The frame is lost. The host driver \
         is broken or hostile.",
    ),
    CounterSpec(
        "frame too long",
        Severity::Warning,
        "The frame is longer than this router accepts from the device. The frame is lost. Lower the sender's MTU.",
    ),
    CounterSpec(
        "missed by the kernel's ring",
        Severity::Warning,
        "Frames arrived faster than the router read them, and the kernel discarded them. Normal under overload.",
    ),
];

/// When a receive queue is polled, in VPP's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// In every round, busy or not.
    Polling,
    /// From when its descriptor is readable until it is empty.
    Interrupt,
    /// As [`Mode::Interrupt`], but polls on for a while when it is empty: packets that follow soon need no wakeup.
    Adaptive,
}

impl Mode {
    pub fn name(self) -> &'static str {
        match self {
            Mode::Polling => "polling",
            Mode::Interrupt => "interrupt",
            Mode::Adaptive => "adaptive",
        }
    }
}

/// The arc that begins here, for all that devices receive.
pub const ARC: &str = "device-input";

/// How long an empty adaptive queue is still polled.
const PATIENCE: Duration = Duration::from_micros(100);
/// How often a busy worker asks whether queues that it does not poll have packets: one system call for all of them.
/// Packets are delayed by at most this time.
const LOOK_INTERVAL: Duration = Duration::from_micros(20);

/// Names a receive queue: its interface, and its number there, from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueId {
    pub interface: InterfaceIndex,
    pub number: u16,
}

/// A receive queue of an interface, to be polled by one worker.
pub struct Queue {
    id: QueueId,
    /// Distinguishes the interface from a later one with the same number.
    life: u64,
    receive: Box<dyn Receive>,
    mode: Mode,
    is_watched: bool,
    state: State,
    /// It is not polled until its descriptor is readable.
    waits: bool,
    /// When it last received something, or polling was resumed.
    busy_at: u64,
}

impl Queue {
    /// A queue of the interface that was announced with this `life` ([`DeviceInput::announce`]). One without a
    /// descriptor can only be polled, whatever its mode.
    pub fn new(id: QueueId, life: u64, receive: Box<dyn Receive>) -> Queue {
        Queue {
            id,
            life,
            receive,
            mode: Mode::Polling,
            is_watched: false,
            state: State::default(),
            waits: false,
            busy_at: time::ticks(),
        }
    }

    /// Polls it until it is empty for long enough; always, when its descriptor is not watched.
    fn begin(&mut self, mode: Mode) {
        self.mode = if self.is_watched { mode } else { Mode::Polling };
        self.resume(time::ticks());
    }

    /// Polls it again from now on.
    fn resume(&mut self, now: u64) {
        self.waits = false;
        self.busy_at = now;
        self.receive.end_wait();
    }

    /// Its key where its descriptor is watched.
    fn key(&self) -> u64 {
        u64::from(self.id.interface.0) << 16 | u64::from(self.id.number)
    }
}

/// What happens to an interface's packets.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    up: bool,
    /// Packets leave unchanged by this edge.
    patch: Option<EdgeIndex>,
}

impl State {
    /// Where packets go, if they follow no chain of features.
    fn edge(self) -> EdgeIndex {
        let edge = if self.up { Edge::Received } else { Edge::Down };
        self.patch.filter(|_| self.up).unwrap_or(edge.into())
    }
}

/// How a queue is to be polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    pub worker: usize,
    pub mode: Mode,
}

/// What a worker knows of an interface whose queues it may be given.
struct Known {
    life: u64,
    state: State,
    /// By queue.
    plans: Vec<Plan>,
}

/// Why a queue is not polled here.
pub enum Refused {
    /// Its interface is gone: close the queue.
    Gone(Queue),
    /// It belongs to another worker.
    Elsewhere(Queue, usize),
}

/// Source node of one driver on one worker.
pub struct DeviceInput {
    queues: Vec<Queue>,
    /// All interfaces of the driver, by index.
    known: Vec<Option<Known>>,
    /// The queue that is polled first in the next round.
    turn: usize,
    /// The arc `device-input`.
    arc: ArcIndex,
    /// Packets and bytes received, by interface.
    rx: Arc<CounterTable>,
    /// Watches which queues have packets; none: all are polled.
    ready: Option<Ready>,
    /// When to ask next about the queues that wait.
    look_at: Cell<u64>,
    /// `PATIENCE` in ticks.
    patience: u64,
    look_interval: u64,
}

impl DeviceInput {
    /// `arc`: [`ARC`], in which packets begin their way.
    pub fn new(arc: ArcIndex, rx: Arc<CounterTable>) -> DeviceInput {
        let ready = Ready::new().inspect_err(|error| log::warn!("receive queues are polled without pause: {error}"));
        DeviceInput {
            queues: Vec::new(),
            known: Vec::new(),
            turn: 0,
            arc,
            rx,
            ready: ready.ok(),
            look_at: Cell::new(0),
            patience: time::to_ticks(PATIENCE),
            look_interval: time::to_ticks(LOOK_INTERVAL),
        }
    }

    pub fn spec(name: &str) -> NodeSpec {
        NodeSpec { name: name.into(), edges: Edge::EDGES, counters: COUNTERS, trace }
    }

    /// An interface with these queues exists now. This worker or other workers poll them.
    pub fn announce(&mut self, interface: InterfaceIndex, life: u64, plans: &[Plan]) {
        let at = interface.0 as usize;
        if self.known.len() <= at {
            self.known.resize_with(at + 1, || None);
        }
        self.known[at] = Some(Known { life, state: State::default(), plans: plans.to_vec() });
    }

    /// Polls a queue from now on, on the worker of this number.
    ///
    /// # Errors
    /// When this worker is not the one that polls it.
    pub fn add(&mut self, mut queue: Queue, own: usize) -> Result<(), Refused> {
        let known = self.known.get(queue.id.interface.0 as usize).and_then(Option::as_ref);
        let known = known.filter(|known| known.life == queue.life);
        let Some((known, plan)) = known.and_then(|known| Some((known, *known.plans.get(queue.id.number as usize)?)))
        else {
            return Err(Refused::Gone(queue));
        };
        if plan.worker != own {
            return Err(Refused::Elsewhere(queue, plan.worker));
        }
        queue.is_watched = match (&self.ready, queue.receive.descriptor()) {
            (Some(ready), Some(descriptor)) => ready.watch(queue.key(), descriptor).is_ok(),
            _ => false,
        };
        queue.state = known.state;
        queue.begin(plan.mode);
        self.queues.push(queue);
        Ok(())
    }

    fn plan(&mut self, id: QueueId) -> Option<&mut Plan> {
        self.known.get_mut(id.interface.0 as usize)?.as_mut()?.plans.get_mut(id.number as usize)
    }

    /// Makes a worker poll a queue, now or when the queue comes. Returns the queue if it is here and `worker` is
    /// another worker than this one, `own`.
    pub fn place(&mut self, id: QueueId, worker: usize, own: usize) -> Option<Queue> {
        if let Some(plan) = self.plan(id) {
            plan.worker = worker;
        }
        if worker == own { None } else { self.take(id) }
    }

    fn take(&mut self, id: QueueId) -> Option<Queue> {
        let at = self.queues.iter().position(|queue| queue.id == id)?;
        let queue = self.queues.remove(at);
        self.forget(&queue);
        Some(queue)
    }

    /// Changes the mode of a queue, now or when the queue comes.
    pub fn set_mode(&mut self, id: QueueId, mode: Mode) {
        if let Some(plan) = self.plan(id) {
            plan.mode = mode;
        }
        if let Some(queue) = self.queues.iter_mut().find(|queue| queue.id == id) {
            queue.begin(mode);
        }
    }

    /// Forgets an interface that is gone. Returns its queues that were here, to be closed.
    pub fn remove(&mut self, interface: InterfaceIndex) -> Vec<Queue> {
        let gone: Vec<Queue> = self.queues.extract_if(.., |queue| queue.id.interface == interface).collect();
        gone.iter().for_each(|queue| self.forget(queue));
        if let Some(known) = self.known.get_mut(interface.0 as usize) {
            *known = None;
        }
        gone
    }

    fn forget(&self, queue: &Queue) {
        if let (Some(ready), Some(descriptor)) = (&self.ready, queue.receive.descriptor()) {
            ready.forget(descriptor);
        }
    }

    /// Packets of an interface that is down are received, dropped and counted by name.
    pub fn set_up(&mut self, interface: InterfaceIndex, up: bool) {
        self.change(interface, |state| state.up = up);
    }

    /// Makes packets of an interface leave unchanged by an edge, whatever their content; none: no longer.
    pub fn set_cross_connect(&mut self, interface: InterfaceIndex, patch: Option<EdgeIndex>) {
        self.change(interface, |state| state.patch = patch);
    }

    fn change(&mut self, interface: InterfaceIndex, change: impl Fn(&mut State)) {
        if let Some(Some(known)) = self.known.get_mut(interface.0 as usize) {
            change(&mut known.state);
        }
        let own = self.queues.iter_mut().filter(|queue| queue.id.interface == interface);
        own.for_each(|queue| change(&mut queue.state));
    }

    /// Resumes polling the waiting queues that have packets.
    #[cold]
    fn look(&mut self, now: u64) {
        self.look_at.set(now + self.look_interval);
        let Some(ready) = &self.ready else { return };
        let queues = &mut self.queues;
        ready.each(|key| {
            if let Some(queue) = queues.iter_mut().find(|queue| queue.waits && queue.key() == key) {
                queue.resume(now);
            }
        });
    }

    /// Handles a queue that was empty.
    fn rest(&mut self, at: usize, now: u64) {
        let queue = &mut self.queues[at];
        queue.waits = match queue.mode {
            Mode::Polling => false,
            Mode::Interrupt => true,
            Mode::Adaptive => now.saturating_sub(queue.busy_at) > self.patience,
        };
        if queue.waits && !queue.receive.begin_wait() {
            queue.resume(now);
        }
        if queue.waits && queue.receive.is_gone() {
            // Its descriptor would stay readable for ever.
            self.forget(&self.queues[at]);
        }
    }
}

impl Source for DeviceInput {
    fn poll(&mut self, cx: &mut Context<'_>, out: &mut Vector) {
        let mut counts = ReceiveCounts::default();
        let queues = self.queues.len();
        if cx.now >= self.look_at.get() && self.queues.iter().any(|queue| queue.waits) {
            self.look(cx.now);
        }
        for n in 0..queues {
            let at = (self.turn + n) % queues;
            let queue = &mut self.queues[at];
            if queue.waits {
                continue;
            }
            let (from, before) = (out.len(), counts);
            queue.receive.receive(cx.buffers, out, &mut counts);
            let columns = out.columns();
            let n = columns.packets.len() - from;
            if n > 0 {
                queue.busy_at = cx.now;
                let interface = queue.id.interface;
                columns.rx_interface[from..].fill(interface);
                let edge = queue.state.edge();
                columns.edge[from..].fill(edge);
                let bytes = columns.length[from..].iter().map(|&length| length as u64).sum();
                self.rx.add(cx.thread, interface.0 as usize, 0, n as u64);
                self.rx.add(cx.thread, interface.0 as usize, 1, bytes);
                if edge == Edge::Received.into()
                    && let Some(chain) = cx.chain(self.arc, interface)
                {
                    out.begin_from(from, chain);
                }
            } else if counts == before {
                // A queue that could not be emptied for want of buffers is not empty.
                self.rest(at, cx.now);
            }
            if out.room() == 0 {
                break;
            }
        }
        self.turn = self.turn.wrapping_add(1) % queues.max(1);
        for (counter, n) in [counts.no_buffer, counts.malformed, counts.too_long, counts.missed].into_iter().enumerate()
        {
            if n > 0 {
                cx.count(counter, n);
            }
        }
    }

    fn wake(&self) -> Wake<'_> {
        // After a wakeup, ask at once which queue it was.
        self.look_at.set(0);
        if !self.waits() {
            return Wake::Poll;
        }
        match &self.ready {
            Some(ready) if !self.queues.is_empty() => Wake::Readable(ready.as_fd()),
            _ => Wake::Never,
        }
    }

    fn waits(&self) -> bool {
        self.queues.iter().all(|queue| queue.waits)
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  interface: sw_if_index {} length {}", snapshot.row.rx_interface, snapshot.row.length)?;
    writeln!(f, "{}", wire::pretty::Summary::ethernet(snapshot.l2()).indented(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::borrowed;
    use graph::{Behaviour, Buffers, Graph, NodeIndex, Pool, Row, Worker};
    use rustix::event::{EventfdFlags, eventfd};
    use rustix::fd::{BorrowedFd, OwnedFd};
    use std::sync::Mutex;

    /// A device that a test fills.
    struct Tube {
        bell: OwnedFd,
        packets: Mutex<usize>,
        polls: Mutex<usize>,
    }

    impl Tube {
        fn new() -> Arc<Tube> {
            let bell = eventfd(0, EventfdFlags::NONBLOCK).unwrap();
            Arc::new(Tube { bell, packets: Mutex::default(), polls: Mutex::default() })
        }

        fn put(&self, packets: usize) {
            *self.packets.lock().unwrap() += packets;
            rustix::io::write(&self.bell, &1u64.to_ne_bytes()).unwrap();
        }

        fn polls(&self) -> usize {
            std::mem::take(&mut self.polls.lock().unwrap())
        }
    }

    struct End(Arc<Tube>);

    impl Receive for End {
        fn receive(&mut self, buffers: &mut Buffers, out: &mut Vector, _: &mut ReceiveCounts) {
            *self.0.polls.lock().unwrap() += 1;
            let _ = rustix::io::read(&self.0.bell, &mut [0; 8]);
            for _ in 0..std::mem::take(&mut *self.0.packets.lock().unwrap()) {
                let packet = buffers.allocate_one().unwrap();
                out.push(Row { packet, length: 60, ..Row::default() }, 0);
            }
        }

        fn descriptor(&self) -> Option<BorrowedFd<'_>> {
            borrowed(&self.0.bell)
        }
    }

    const ID: QueueId = QueueId { interface: InterfaceIndex(3), number: 0 };

    struct Bed {
        graph: Graph,
        worker: Worker,
        node: NodeIndex,
        tube: Arc<Tube>,
    }

    impl Bed {
        /// An input node with one queue, in this mode.
        fn new(mode: Mode) -> Bed {
            let domain = rcu::Domain::new(1);
            let pool = Pool::new(1024, false).unwrap();
            let mut graph = Graph::new(&domain, &pool, 1).unwrap();
            let rx = CounterTable::new("rx", 1, 16, 2).unwrap();
            let arc = graph.register_arc(ARC, "nowhere").unwrap();
            let make = |_| Behaviour::Source(Box::new(DeviceInput::new(arc, rx.clone())));
            let node = graph.register(DeviceInput::spec("in"), make).unwrap();
            let mut worker = graph.worker(0).unwrap();
            worker.round();
            let tube = Tube::new();
            let input = worker.core().node::<DeviceInput>(node).unwrap();
            input.announce(ID.interface, 1, &[Plan { worker: 0, mode }]);
            assert!(input.add(Queue::new(ID, 1, Box::new(End(tube.clone()))), 0).is_ok());
            Bed { graph, worker, node, tube }
        }

        fn input(&mut self) -> &mut DeviceInput {
            self.worker.core().node(self.node).unwrap()
        }

        fn rounds(&mut self, rounds: usize) {
            for _ in 0..rounds {
                self.worker.round();
            }
        }

        /// Counts packets dropped because the interface is down.
        fn came(&self) -> u64 {
            self.graph.ledger().dropped
        }
    }

    #[test]
    fn a_polled_queue_is_polled_for_ever() {
        let mut bed = Bed::new(Mode::Polling);
        bed.worker.core().let_pass(Duration::from_secs(1));
        bed.rounds(100);
        assert_eq!(bed.tube.polls(), 100);
        assert!(!bed.input().waits() && matches!(bed.input().wake(), Wake::Poll));
    }

    #[test]
    fn an_interrupt_queue_is_polled_when_it_has_something_and_until_it_is_empty() {
        let mut bed = Bed::new(Mode::Interrupt);
        bed.rounds(1);
        assert!(bed.input().waits());
        bed.tube.polls();
        bed.rounds(50);
        assert_eq!(bed.tube.polls(), 0);
        bed.tube.put(5);
        bed.worker.core().let_pass(LOOK_INTERVAL);
        bed.rounds(1);
        assert_eq!((bed.tube.polls(), bed.came()), (1, 5));
        bed.rounds(10);
        assert_eq!(bed.tube.polls(), 1, "empty");
        assert!(bed.input().waits() && matches!(bed.input().wake(), Wake::Readable(_)));
    }

    #[test]
    fn an_adaptive_queue_is_polled_on_for_a_while() {
        // Time passes while other programs have the core; in some tries it does not.
        let mut polls = (0..100).map(|_| {
            let mut bed = Bed::new(Mode::Adaptive);
            bed.rounds(3);
            let at_first = bed.tube.polls();
            bed.worker.core().let_pass(2 * PATIENCE);
            bed.rounds(3);
            let when_its_time_was_up = bed.tube.polls();
            bed.tube.put(1);
            bed.worker.core().let_pass(LOOK_INTERVAL);
            bed.rounds(3);
            assert_eq!((when_its_time_was_up, bed.came()), (1, 1));
            (at_first, bed.tube.polls(), bed.input().waits())
        });
        assert!(polls.any(|seen| seen == (3, 3, false)), "polled on");
    }

    #[test]
    fn modes_change_both_ways_without_loss() {
        let mut bed = Bed::new(Mode::Interrupt);
        bed.rounds(2);
        bed.tube.polls();
        bed.tube.put(1);
        bed.input().set_mode(ID, Mode::Polling);
        bed.rounds(2);
        assert_eq!((bed.tube.polls(), bed.came()), (2, 1));
        bed.input().set_mode(ID, Mode::Interrupt);
        bed.tube.put(1);
        bed.rounds(1);
        assert_eq!(bed.came(), 2, "what came before it waited");
        bed.rounds(1);
        bed.input().set_mode(ID, Mode::Adaptive);
        bed.tube.polls();
        bed.rounds(2);
        assert_eq!(bed.tube.polls(), 2);
    }

    #[test]
    fn a_queue_takes_its_mode_along_and_one_of_a_gone_interface_is_closed() {
        let mut bed = Bed::new(Mode::Adaptive);
        let queue = bed.input().place(ID, 1, 0).unwrap();
        assert!(bed.input().waits() && matches!(bed.input().wake(), Wake::Never), "nothing is left");
        bed.input().set_mode(ID, Mode::Polling);
        let Err(Refused::Elsewhere(queue, 1)) = bed.input().add(queue, 0) else { panic!("it is another worker's") };
        assert!(bed.input().place(ID, 0, 0).is_none(), "it comes back");
        assert!(bed.input().add(queue, 0).is_ok());
        assert!(matches!(bed.input().wake(), Wake::Poll));
        let queue = bed.input().place(ID, 1, 0).unwrap();
        bed.input().remove(ID.interface);
        bed.input().announce(ID.interface, 2, &[Plan { worker: 0, mode: Mode::Polling }]);
        assert!(matches!(bed.input().add(queue, 0), Err(Refused::Gone(_))));
        bed.tube.polls();
        bed.rounds(2);
        assert_eq!(bed.tube.polls(), 0, "that was another interface");
        assert_eq!(Arc::strong_count(&bed.tube), 1, "closed");
    }
}
