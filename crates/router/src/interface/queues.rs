//! Which worker polls which receive queue, and how; and which workers send by which transmit queue.

use super::Interface;
use crate::{Error, Router};
use drivers::input::{DeviceInput, Mode, Plan, Queue, QueueId, Refused};
use drivers::{Receive, Transmit};
use graph::{Behaviour, Core, InterfaceIndex, NodeIndex, WorkerState};
use std::os::fd::{AsRawFd, RawFd};

/// The worker that does work which any worker could do.
pub(super) const OWNER: usize = 0;

/// A share of what a device receives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReceiveQueue {
    /// The worker that polls it.
    pub thread: usize,
    /// An operator chose the worker.
    pub is_placed: bool,
    /// Wakes that worker when packets arrive; without it the worker must poll all the time.
    pub descriptor: Option<RawFd>,
    pub mode: Mode,
}

impl ReceiveQueue {
    /// How the queue is polled by default.
    pub fn usual_mode(&self) -> Mode {
        if self.descriptor.is_some() { Mode::Adaptive } else { Mode::Polling }
    }
}

/// The transmit queues of a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TransmitQueues {
    pub count: usize,
    /// The only worker that may send; none: every worker sends by itself.
    pub owner: Option<usize>,
}

impl TransmitQueues {
    /// For so many workers. When the device cannot serve all of them, `owner` sends.
    pub(super) fn of(transmit: &dyn Transmit, owner: usize, workers: usize) -> TransmitQueues {
        let owner = (!transmit.is_for_all(workers)).then_some(owner);
        TransmitQueues { count: transmit.queues(), owner }
    }

    /// The workers that send by a queue.
    pub fn users(&self, queue: usize, workers: usize) -> Vec<usize> {
        match self.owner {
            Some(owner) => vec![owner],
            None => (0..workers).filter(|worker| worker % self.count == queue).collect(),
        }
    }
}

impl Interface {
    fn queue(&mut self, number: u16) -> Result<&mut ReceiveQueue, Error> {
        let (name, queues) = (&self.name, self.receive_queues.len());
        match self.receive_queues.get_mut(number as usize) {
            Some(queue) => Ok(queue),
            None if queues == 0 => Err(Error::NothingReceived(name.clone())),
            None => Err(Error::NoSuchQueue { name: name.clone(), number, queues }),
        }
    }
}

impl Router {
    /// Assigns an interface's receive queues to workers.
    pub(super) fn attach_receive(
        &mut self,
        node: &'static str,
        index: InterfaceIndex,
        queues: Vec<Box<dyn Receive>>,
    ) -> Result<Vec<ReceiveQueue>, Error> {
        if queues.is_empty() {
            return Ok(Vec::new());
        }
        let input = match self.graph.find(node) {
            Ok(input) => input,
            Err(_) => {
                let (arc, rx) = (self.graph.arc(drivers::input::ARC)?, self.counters.rx.clone());
                self.graph.register(DeviceInput::spec(node), move |_| {
                    Behaviour::Source(Box::new(DeviceInput::new(arc, rx.clone())))
                })?
            }
        };
        self.generation += 1;
        let life = self.generation;
        let mut loads = self.interfaces.polled(self.graph.workers());
        let mut attached = Vec::with_capacity(queues.len());
        for queue in &queues {
            let thread = least(&loads);
            loads[thread] += 1;
            let descriptor = queue.descriptor().map(|descriptor| descriptor.as_raw_fd());
            let mut queue = ReceiveQueue { thread, is_placed: false, descriptor, mode: Mode::Polling };
            queue.mode = queue.usual_mode();
            attached.push(queue);
        }
        let plan = |queue: &ReceiveQueue| Plan { worker: queue.thread, mode: queue.mode };
        let plans: Vec<Plan> = attached.iter().map(plan).collect();
        self.tell_input(input, move |input| input.announce(index, life, &plans));
        for ((receive, number), queue) in queues.into_iter().zip(0..).zip(&attached) {
            let id = QueueId { interface: index, number };
            self.graph.call_one(queue.thread, move |core| {
                take_on(core, input, Queue::new(id, life, receive));
            });
        }
        Ok(attached)
    }

    /// Has a driver's input node changed on all workers.
    pub(crate) fn tell_input(&self, input: NodeIndex, tell: impl Fn(&mut DeviceInput) + Clone + Send + 'static) {
        self.graph.call(|_| {
            let tell = tell.clone();
            Box::new(move |core| {
                if let Some(input) = core.node::<DeviceInput>(input) {
                    tell(input);
                }
            })
        });
    }

    /// Moves a receive queue of an interface to a worker; by default, to the one that polls the fewest other queues.
    /// Packets keep their order, and none is lost: the new worker starts when all that the old one has received is
    /// processed.
    ///
    /// # Errors
    /// When there is no such interface, queue or worker, or a worker is stuck.
    pub fn place_receive_queue(
        &mut self,
        index: InterfaceIndex,
        number: u16,
        worker: Option<usize>,
    ) -> Result<(), Error> {
        let workers = self.graph.workers();
        if let Some(worker) = worker.filter(|worker| *worker >= workers) {
            return Err(Error::NoSuchWorker { worker, workers });
        }
        // The queue would not be polled until that worker has handled its messages.
        if let Some(stuck) =
            (0..workers).find(|worker| matches!(self.graph.worker_state(*worker), WorkerState::Stalled(_)))
        {
            return Err(Error::WorkerStuck(stuck));
        }
        let mut loads = self.interfaces.polled(workers);
        let interface = self.interfaces.get_mut(index)?;
        let queue = interface.queue(number)?;
        queue.is_placed = worker.is_some();
        loads[queue.thread] -= 1;
        let worker = worker.unwrap_or_else(|| least(&loads));
        let before = std::mem::replace(&mut queue.thread, worker);
        let input = self.graph.find(interface.input_node)?;
        self.interfaces.move_queue(before, worker);
        let id = QueueId { interface: index, number };
        // All workers: the queue may be on its way from one to another.
        self.graph.call(|_| {
            Box::new(move |core| {
                let own = core.thread();
                if let Some(queue) = core.node::<DeviceInput>(input).and_then(|input| input.place(id, worker, own)) {
                    core.pass_to(worker, move |core| take_on(core, input, queue));
                }
            })
        });
        Ok(())
    }

    /// Sets when a receive queue of an interface is polled; without a number, all its queues.
    ///
    /// # Errors
    /// When there is no such interface or queue, or the device cannot wake a worker; then nothing has changed.
    pub fn set_receive_mode(&mut self, index: InterfaceIndex, number: Option<u16>, mode: Mode) -> Result<(), Error> {
        let interface = self.interfaces.get_mut(index)?;
        let queues = interface.receive_queues.len() as u16;
        let chosen = number.map_or(0..queues.max(1), |number| number..number.saturating_add(1));
        for number in chosen.clone() {
            let queue = interface.queue(number)?;
            if queue.descriptor.is_none() && mode != Mode::Polling {
                return Err(Error::NoInterrupts(interface.name.clone()));
            }
        }
        let input = self.graph.find(interface.input_node)?;
        for number in chosen {
            let queue = self.interfaces.get_mut(index)?.queue(number)?;
            queue.mode = mode;
            let id = QueueId { interface: index, number };
            // All workers: a queue may be on its way from one to another.
            self.tell_input(input, move |input| input.set_mode(id, mode));
        }
        Ok(())
    }

    pub(super) fn detach_receive(&self, node: &'static str, index: InterfaceIndex) {
        let Ok(input) = self.graph.find(node) else { return };
        self.graph.call(|_| {
            Box::new(move |core| {
                let gone = core.node::<DeviceInput>(input).map(|input| input.remove(index));
                core.janitor.close_later(gone);
            })
        });
    }
}

/// Makes a worker poll a queue, unless the queue belongs to another worker by now, or its interface is gone.
fn take_on(core: &mut Core, input: NodeIndex, queue: Queue) {
    let own = core.thread();
    match core.node::<DeviceInput>(input).map(|input| input.add(queue, own)) {
        Some(Err(Refused::Gone(queue))) => core.janitor.close_later(queue),
        Some(Err(Refused::Elsewhere(queue, to))) => core.pass_to(to, move |core| take_on(core, input, queue)),
        Some(Ok(())) | None => {}
    }
}

/// The index of the smallest load; the first of equal ones.
fn least(loads: &[usize]) -> usize {
    (0..loads.len()).min_by_key(|worker| loads[*worker]).unwrap_or(OWNER)
}
