//! The input node of a driver: polls the receive queues of its interfaces on this
//! worker, in turns, and counts what they bring.

use crate::{Receive, ReceiveCounts};
use graph::{
    Buffers, Context, CounterSpec, CounterTable, InterfaceIndex, NodeSpec, Severity, Snapshot, Source, Vector, Wake,
};
use std::fmt;
use std::sync::Arc;

graph::edges! {
    pub enum Edge {
        EthernetInput => next "ethernet-input",
        /// Frames that arrive at an interface that is administratively down: `set interface state NAME up`.
        Down => drop "interface is down",
        SpanInput => next "span-input",
    }
}

/// Events that the node counts, in this order.
pub const COUNTERS: &[CounterSpec] = &[
    CounterSpec(
        "no free buffer",
        Severity::Error,
        "Packet memory is used up (`show buffers`): more `buffers-per-numa` in startup.conf.",
    ),
    CounterSpec(
        "malformed device header",
        Severity::Error,
        "The host's end of the device wrote a header that contradicts its frame: a broken or hostile host driver. \
         The frame is lost.",
    ),
    CounterSpec(
        "frame too long",
        Severity::Error,
        "A frame longer than this router takes from the device. The frame is lost: lower the sender's MTU.",
    ),
    CounterSpec(
        "missed by the kernel's ring",
        Severity::Warning,
        "Frames came faster than they were read, and the kernel threw them away. Normal under overload.",
    ),
];

/// A receive queue of an interface, to be polled by one worker.
pub struct Queue {
    interface: InterfaceIndex,
    /// Tells the interface from one that has its number later.
    life: u64,
    receive: Box<dyn Receive>,
    state: State,
}

impl Queue {
    /// Of the interface that was announced with this `life` ([`DeviceInput::announce`]).
    pub fn new(interface: InterfaceIndex, life: u64, receive: Box<dyn Receive>) -> Queue {
        Queue { interface, life, receive, state: State::default() }
    }
}

/// What becomes of an interface's packets.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    up: bool,
    /// Somebody listens to what it brings.
    mirrored: bool,
}

/// Source node of one driver on one worker.
pub struct DeviceInput {
    queues: Vec<Queue>,
    /// Of all interfaces of the driver, by index, for their queues may come to this worker.
    known: Vec<Option<(u64, State)>>,
    /// The queue that is asked first in the next round.
    turn: usize,
    /// Packets and bytes received, by interface.
    rx: Arc<CounterTable>,
}

impl DeviceInput {
    pub fn new(rx: Arc<CounterTable>) -> DeviceInput {
        DeviceInput { queues: Vec::new(), known: Vec::new(), turn: 0, rx }
    }

    pub fn spec(name: &str) -> NodeSpec {
        NodeSpec { name: name.into(), edges: Edge::EDGES, counters: COUNTERS, trace }
    }

    /// There is an interface now; its queues are polled by this worker or another.
    pub fn announce(&mut self, interface: InterfaceIndex, life: u64) {
        let at = interface.0 as usize;
        self.known.resize(self.known.len().max(at + 1), None);
        self.known[at] = Some((life, State::default()));
    }

    /// Polls a queue from now on. One whose interface is gone by now is closed.
    pub fn add(&mut self, mut queue: Queue) {
        if let Some(Some((life, state))) = self.known.get(queue.interface.0 as usize)
            && *life == queue.life
        {
            queue.state = *state;
            self.queues.push(queue);
        }
    }

    /// Gives up a queue, for another worker.
    pub fn take(&mut self, interface: InterfaceIndex) -> Option<Queue> {
        let at = self.queues.iter().position(|queue| queue.interface == interface)?;
        Some(self.queues.remove(at))
    }

    /// An interface is gone, and its queues with it.
    pub fn remove(&mut self, interface: InterfaceIndex) {
        self.queues.retain(|queue| queue.interface != interface);
        if let Some(known) = self.known.get_mut(interface.0 as usize) {
            *known = None;
        }
    }

    /// Packets of an interface that is down are received and dropped by name.
    pub fn set_up(&mut self, interface: InterfaceIndex, up: bool) {
        self.change(interface, |state| state.up = up);
    }

    /// Has packets of an interface copied for who listens to them, or not.
    pub fn set_mirrored(&mut self, interface: InterfaceIndex, mirrored: bool) {
        self.change(interface, |state| state.mirrored = mirrored);
    }

    fn change(&mut self, interface: InterfaceIndex, change: impl Fn(&mut State)) {
        if let Some(Some((_, state))) = self.known.get_mut(interface.0 as usize) {
            change(state);
        }
        let own = self.queues.iter_mut().filter(|queue| queue.interface == interface);
        own.for_each(|queue| change(&mut queue.state));
    }
}

impl Source for DeviceInput {
    fn poll(&mut self, cx: &mut Context<'_>, out: &mut Vector) {
        let mut counts = ReceiveCounts::default();
        let queues = self.queues.len();
        for n in 0..queues {
            let queue = &mut self.queues[(self.turn + n) % queues];
            let from = out.len();
            queue.receive.receive(cx.buffers, out, &mut counts);
            let columns = out.columns();
            let n = columns.packets.len() - from;
            if n > 0 {
                columns.rx_interface[from..].fill(queue.interface);
                let edge = match (queue.state.up, queue.state.mirrored) {
                    (true, false) => Edge::EthernetInput,
                    (true, true) => Edge::SpanInput,
                    (false, _) => Edge::Down,
                };
                columns.edge[from..].fill(edge.into());
                let bytes = columns.length[from..].iter().map(|&length| length as u64).sum();
                let interface = queue.interface.0 as usize;
                self.rx.add(cx.thread, interface, 0, n as u64);
                self.rx.add(cx.thread, interface, 1, bytes);
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
        let mut descriptors = Vec::with_capacity(self.queues.len());
        for queue in &self.queues {
            match queue.receive.descriptor() {
                Some(descriptor) => descriptors.push(descriptor),
                None => return Wake::Poll,
            }
        }
        if descriptors.is_empty() { Wake::Never } else { Wake::Readable(descriptors) }
    }

    fn drain(&mut self, _: &mut Buffers) {
        self.queues.clear();
    }
}

fn trace(snapshot: &Snapshot, f: &mut dyn fmt::Write) -> fmt::Result {
    writeln!(f, "  interface: sw_if_index {} length {}", snapshot.row.rx_interface, snapshot.row.length)?;
    writeln!(f, "{}", wire::pretty::Summary::ethernet(snapshot.l2()).indented(2))
}
