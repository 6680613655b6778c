//! Where workers find the current connection of their queues.

use super::queue::Connection;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// One interface's connection, or none. Workers check a number, and read the rest only when it has changed.
#[derive(Default)]
pub struct Slot {
    generation: AtomicU32,
    is_up: AtomicBool,
    connection: Mutex<Option<Arc<Connection>>>,
}

impl Slot {
    #[inline(always)]
    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Arc<Connection>>> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The connection, and a number that distinguishes it from later ones.
    pub fn connection(&self) -> (u32, Option<Arc<Connection>>) {
        let connection = self.lock();
        (self.generation(), connection.clone())
    }

    /// Gives the queues another connection; returns the old one. Workers may still hold the old one for a moment.
    pub fn set(&self, connection: Option<Arc<Connection>>) -> Option<Arc<Connection>> {
        let mut place = self.lock();
        self.is_up.store(connection.is_some(), Ordering::Relaxed);
        let before = std::mem::replace(&mut *place, connection);
        self.generation.fetch_add(1, Ordering::Release);
        before
    }

    pub fn is_up(&self) -> bool {
        self.is_up.load(Ordering::Relaxed)
    }
}

/// Wakes a waiting thread. The descriptor is not shared with a peer, so no peer can fill it up.
pub struct Bell(OwnedFd);

impl Bell {
    /// # Errors
    /// When the system has no descriptor left.
    pub fn new() -> io::Result<Bell> {
        Ok(Bell(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub fn ring(&self) {
        // When the counter is full, the bell has been rung already.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Silences the bell.
    pub fn quiet(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }
}

impl AsFd for Bell {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
