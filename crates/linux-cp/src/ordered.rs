//! A thread that waits for its sockets and for orders of control.

use crossbeam_channel::{Receiver, Sender, unbounded};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::OwnedFd;
use std::io;
use std::sync::Arc;
use std::thread::JoinHandle;

/// The thread, as control has it. It ends with this.
pub struct Ordered<O> {
    name: &'static str,
    orders: Option<Sender<O>>,
    bell: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl<O: Send + 'static> Ordered<O> {
    /// Runs until there are no more orders. Each rings the bell, which the thread waits for beside its sockets.
    ///
    /// # Errors
    /// When the system has no thread for it.
    pub fn start(
        name: &'static str,
        run: impl FnOnce(&Receiver<O>, &OwnedFd) + Send + 'static,
    ) -> io::Result<Ordered<O>> {
        let (orders, received) = unbounded();
        let bell = Arc::new(eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?);
        let heard = bell.clone();
        let thread = std::thread::Builder::new().name(name.into()).spawn(move || run(&received, &heard))?;
        Ok(Ordered { name, orders: Some(orders), bell, thread: Some(thread) })
    }
}

impl<O> Ordered<O> {
    pub fn order(&self, order: O) {
        if self.orders.as_ref().is_some_and(|orders| orders.send(order).is_ok()) {
            self.ring();
        }
    }

    fn ring(&self) {
        // It rings already when there is no room.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }
}

impl<O> Drop for Ordered<O> {
    fn drop(&mut self) {
        self.orders = None;
        self.ring();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            log::error!("the thread '{}' failed", self.name);
        }
    }
}
