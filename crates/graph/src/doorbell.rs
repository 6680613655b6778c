//! How a worker goes to sleep without missing what is put where it looks, and how those who put it there
//! know that they must wake it.
//!
//! Both sides write, then look: the sleeper says that it sleeps, and looks for what there is; the other
//! puts something there, and looks whether somebody sleeps. A fence in between orders the two, so one at
//! least sees the other (Dekker's argument). What wakes the sleeper is not in here.

#[cfg(loom)]
use loom::sync::atomic::{AtomicBool, Ordering, fence};
#[cfg(not(loom))]
use std::sync::atomic::{AtomicBool, Ordering, fence};

/// The flags of one worker.
#[derive(Default)]
pub struct Doorbell {
    /// There are messages: set after they were put there, cleared before they are taken. The only thing that a
    /// round looks at.
    mail: AtomicBool,
    asleep: AtomicBool,
}

impl Doorbell {
    /// Messages have been put there. True: the worker must be woken.
    pub fn has_mail_now(&self) -> bool {
        self.mail.store(true, Ordering::Release);
        self.must_ring()
    }

    /// Something has been put where the worker looks before it sleeps. True: it must be woken.
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

    /// The messages are about to be taken. Whoever puts more there after that says so again.
    pub fn mail_is_taken(&self) {
        self.mail.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Says that the worker sleeps. To be followed by a look at everything that wakes it, and by
    /// [`Doorbell::get_up`], whether it slept or not.
    pub fn lie_down(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Says that it is awake. Who sees that sees all that it wrote before.
    pub fn get_up(&self) {
        self.asleep.store(false, Ordering::Release);
    }

    /// Whether it sleeps, or is about to.
    pub fn is_asleep(&self) -> bool {
        self.asleep.load(Ordering::Acquire)
    }
}
