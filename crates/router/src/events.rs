//! Events that workers send to control. Each capability has a bounded queue of events of its own type. A worker that
//! finds it full does not wait: it gives up, which is counted by name. One bell for all queues wakes the control
//! thread.

use crate::Router;
use crossbeam_channel::{Receiver, Sender, bounded};
use std::sync::Arc;

/// Most events of one capability that may be pending for control, unless [`crate::Options`] says otherwise.
pub const QUEUE: usize = 4096;
/// Most events of one capability that are handled before other capabilities' and other work.
const AT_ONCE: usize = 64;

/// Sends a capability's events to control.
pub struct EventSender<E> {
    queue: Sender<E>,
    bell: Sender<()>,
}

impl<E> Clone for EventSender<E> {
    fn clone(&self) -> EventSender<E> {
        EventSender { queue: self.queue.clone(), bell: self.bell.clone() }
    }
}

/// Too many events are pending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControlBusy;

impl<E> EventSender<E> {
    /// Has an event handled soon. Never waits.
    pub fn try_send(&self, event: E) -> Result<(), ControlBusy> {
        self.queue.try_send(event).map_err(|_| ControlBusy)?;
        // A bell that rings already need not ring again.
        let _ = self.bell.try_send(());
        Ok(())
    }
}

/// Handles some events of a queue. Whether there may be more.
type Handler = Box<dyn Fn(&mut Router) -> bool + Send + Sync>;

/// The queues of all capabilities.
pub(crate) struct Events {
    /// Of each queue.
    room: usize,
    handlers: Arc<Vec<Handler>>,
    rings: Sender<()>,
    bell: Receiver<()>,
    waiting: Vec<Box<dyn Fn() -> usize + Send>>,
}

impl Events {
    pub fn new(room: usize) -> Events {
        let (rings, bell) = bounded(1);
        Events { room, handlers: Arc::default(), rings, bell, waiting: Vec::new() }
    }

    /// Adds a queue, whose events are handled by this function.
    pub fn queue<E: Send + 'static>(&mut self, handle: fn(&mut Router, E)) -> EventSender<E> {
        let (sender, events) = bounded(self.room);
        let counted = events.clone();
        self.waiting.push(Box::new(move || counted.len()));
        let handlers = Arc::get_mut(&mut self.handlers).expect("nothing is handled before the router has started");
        handlers.push(Box::new(move |router| {
            for _ in 0..AT_ONCE {
                match events.try_recv() {
                    Ok(event) => {
                        handle(router, event);
                        router.breathe();
                    }
                    Err(_) => return false,
                }
            }
            true
        }));
        EventSender { queue: sender, bell: self.rings.clone() }
    }
}

impl Router {
    /// Receives something when events wait for [`Router::handle_events`].
    pub fn bell(&self) -> &Receiver<()> {
        &self.events.bell
    }

    /// How many events wait.
    pub fn events_waiting(&self) -> usize {
        self.events.waiting.iter().map(|waiting| waiting()).sum()
    }

    /// Handles events that wait, some of each capability in the order of their list. If more are left, the bell rings.
    pub fn handle_events(&mut self) {
        let _ = self.events.bell.try_recv();
        let handlers = self.events.handlers.clone();
        let full = handlers.iter().filter(|handle| handle(self)).count();
        if full > 0 {
            let _ = self.events.rings.try_send(());
        }
    }
}
