//! How control talks to a worker: messages that are applied between rounds, and the
//! bell that wakes it.

use crate::doorbell::Doorbell;
use crate::index::EdgeIndex;
use crate::index::NodeIndex;
use crate::target::Target;
use crate::time;
use crate::worker::{Core, NewNode, Place};
use crossbeam_channel::{Receiver, Sender, unbounded};
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fd::OwnedFd;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// What control asks of a worker.
pub(crate) enum Message {
    Add(NodeIndex, Box<NewNode>),
    /// A node lives on another worker only.
    AddElsewhere(NodeIndex, Place),
    Connect(NodeIndex, EdgeIndex, Target),
    /// Where nodes come in the order of all.
    Rank(Vec<(NodeIndex, i64)>),
    Remove(NodeIndex),
    Call(Box<dyn FnOnce(&mut Core) + Send>),
    Stop,
}

/// A worker's inbox. Control posts, or another worker on its behalf; only the worker takes.
pub(crate) struct Mailbox {
    sender: Sender<Message>,
    receiver: Receiver<Message>,
    doorbell: Doorbell,
    /// What wakes the worker.
    bell: OwnedFd,
    /// Nobody will ever take anything out.
    is_closed: AtomicBool,
}

impl Mailbox {
    pub fn new() -> io::Result<Mailbox> {
        let (sender, receiver) = unbounded();
        Ok(Mailbox {
            sender,
            receiver,
            doorbell: Doorbell::default(),
            bell: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            is_closed: AtomicBool::new(false),
        })
    }

    /// What is posted from now on goes nowhere: there is no worker, and will be none.
    pub fn close(&self) {
        self.is_closed.store(true, Ordering::Relaxed);
        drop(self.take());
    }

    pub fn post(&self, message: Message) {
        if self.is_closed.load(Ordering::Relaxed) {
            return;
        }
        // The mailbox holds both ends, so the channel cannot be closed.
        let _ = self.sender.send(message);
        if self.doorbell.has_mail_now() {
            self.ring();
        }
    }

    /// Wakes the worker, if it sleeps, for what was put where it looks before it does.
    pub fn wake(&self) {
        if self.doorbell.must_ring() {
            self.ring();
        }
    }

    fn ring(&self) {
        // Fails only when the counter is full: then it rings already.
        let _ = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
    }

    #[inline]
    pub fn has_mail(&self) -> bool {
        self.doorbell.has_mail()
    }

    pub fn take(&self) -> Vec<Message> {
        self.doorbell.mail_is_taken();
        self.receiver.try_iter().collect()
    }

    /// Announces sleep. False: there is mail after all. What else may have come is looked at after.
    pub fn begin_sleep(&self) -> bool {
        self.doorbell.lie_down();
        if self.has_mail() {
            self.doorbell.get_up();
            return false;
        }
        true
    }

    /// Whether its worker sleeps, or is about to.
    pub fn is_asleep(&self) -> bool {
        self.doorbell.is_asleep()
    }

    /// The descriptor that wakes the sleeper.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Waits for the bell, a descriptor or the time.
    pub fn sleep(&self, descriptors: &[BorrowedFd<'_>], until: Option<u64>) {
        let mut wanted: Vec<PollFd<'_>> = Vec::with_capacity(descriptors.len() + 1);
        wanted.push(PollFd::from_borrowed_fd(self.bell.as_fd(), PollFlags::IN));
        wanted.extend(descriptors.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)));
        let timeout = until.map(|ticks| {
            let left = time::seconds(ticks.saturating_sub(time::ticks()));
            let left = Duration::from_secs_f64(left.min(3600.0));
            rustix::event::Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() }
        });
        // An interrupted wait is a short one: the caller polls and comes back.
        let _ = poll(&mut wanted, timeout.as_ref());
    }

    /// Who sees it awake sees all that it wrote before.
    pub fn end_sleep(&self) {
        self.doorbell.get_up();
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.bell, &mut count);
    }
}
