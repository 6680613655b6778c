//! Which of many receive queues have packets: one system call for all of them (epoll(7)).

use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::io;

/// Most queues that one call returns; the next call returns the others.
const MOST: usize = 64;

/// Watched descriptors, each with a number that the caller chooses.
pub(crate) struct Ready(OwnedFd);

impl Ready {
    pub fn new() -> io::Result<Ready> {
        Ok(Ready(epoll::create(CreateFlags::CLOEXEC)?))
    }

    /// Watches a descriptor.
    ///
    /// # Errors
    /// When the system refuses; then the descriptor is not watched.
    pub fn watch(&self, number: u64, descriptor: BorrowedFd<'_>) -> io::Result<()> {
        Ok(epoll::add(&self.0, descriptor, EventData::new_u64(number), EventFlags::IN)?)
    }

    /// Stops watching a descriptor. Call it before the descriptor is closed: another process may have it open still.
    pub fn forget(&self, descriptor: BorrowedFd<'_>) {
        let _ = epoll::delete(&self.0, descriptor);
    }

    /// Calls `act` with the number of each queue that has packets.
    pub fn each(&self, mut act: impl FnMut(u64)) {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; MOST];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        // An interrupted call is repeated soon anyway.
        let found = epoll::wait(&self.0, &mut events, Some(&now)).unwrap_or(0);
        events[..found].iter().for_each(|event| act(event.data.u64()));
    }
}

impl AsFd for Ready {
    /// Readable while a watched descriptor is.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    #[test]
    fn those_that_have_something_are_named() {
        let ready = Ready::new().unwrap();
        let fds: Vec<OwnedFd> = (0..3).map(|_| eventfd(0, EventfdFlags::NONBLOCK).unwrap()).collect();
        for (number, fd) in fds.iter().enumerate() {
            ready.watch(number as u64 * 10, fd.as_fd()).unwrap();
        }
        let named = |ready: &Ready| {
            let mut named = Vec::new();
            ready.each(|number| named.push(number));
            named.sort_unstable();
            named
        };
        assert!(named(&ready).is_empty());
        rustix::io::write(&fds[0], &1u64.to_ne_bytes()).unwrap();
        rustix::io::write(&fds[2], &1u64.to_ne_bytes()).unwrap();
        assert_eq!(named(&ready), [0, 20]);
        assert_eq!(named(&ready), [0, 20], "as long as they have");
        ready.forget(fds[0].as_fd());
        assert_eq!(named(&ready), [20]);
    }
}
