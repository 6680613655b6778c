//! How a worker goes to sleep without missing new work, and how other threads know that they must wake it.
//!
//! Both sides write, then read: the sleeper sets that it sleeps, then checks for work; the other side adds work, then
//! checks whether the worker sleeps. A fence between the two steps orders them, so at least one side sees the other
//! (Dekker's argument). The wakeup itself happens elsewhere.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// The flags of one worker.
#[derive(Default)]
pub struct Doorbell {
    /// There are messages: set after they were added, cleared before they are taken. It is the only flag that a round
    /// reads.
    mail: AtomicBool,
    asleep: AtomicBool,
}

impl Doorbell {
    /// Notes that messages were added. True: the worker must be woken.
    pub fn has_mail_now(&self) -> bool {
        self.mail.store(true, Ordering::Release);
        self.must_ring()
    }

    /// Notes that work was added where the worker looks before it sleeps. True: the worker must be woken.
    #[inline]
    pub fn must_ring(&self) -> bool {
        // Pairs with the fence in `lie_down`.
        fence(Ordering::SeqCst);
        self.asleep.load(Ordering::Relaxed)
    }

    /// Whether there are messages.
    #[inline]
    pub fn has_mail(&self) -> bool {
        self.mail.load(Ordering::Relaxed)
    }

    /// The worker is about to take the messages. Threads that add more afterwards set the flag again.
    pub fn mail_is_taken(&self) {
        self.mail.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Notes that the worker is about to sleep. It must then check everything that wakes it, and call
    /// [`Doorbell::get_up`], whether it slept or not.
    pub fn lie_down(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Notes that the worker is awake. A thread that sees that also sees everything that the worker wrote before.
    pub fn get_up(&self) {
        self.asleep.store(false, Ordering::Release);
    }

    /// Whether the worker sleeps, or is about to.
    pub fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Acquire)
    }
}
