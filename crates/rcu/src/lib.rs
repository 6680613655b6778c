//! Publication and reclamation without locks on the reading side: quiescent-state
//! based RCU (QSBR; Hart et al., "Performance of memory reclamation for lockless
//! synchronization", JPDC 2007).
//!
//! A worker reads tables that control changes under its feet. It pays nothing per
//! read: it only says, once a round, "I hold no reference any more" by starting the
//! next [`Round`]. Control replaces an object, *retires* the old one, and the domain
//! drops it after every reader that is online has started a round since.
//!
//! ```
//! use quiver_rcu::{Domain, Published};
//! let domain = Domain::new(1);
//! let table = Published::new(&domain, vec![1, 2, 3]);
//! let mut reader = domain.register().unwrap();
//! {
//!     let round = reader.round();
//!     assert_eq!(table.load(&round)[0], 1);
//! } // references cannot outlive the round
//! table.publish(vec![4]);
//! let round = reader.round();
//! assert_eq!(table.load(&round)[0], 4);
//! ```
//!
//! Control never waits: retired objects queue up to a bound, and [`Domain::stalled`]
//! names the reader that keeps them. Only tests and shutdown use
//! [`Domain::synchronize`].

mod array;
mod published;
mod sync;

pub use array::PublishedArray;
pub use published::Published;

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::Arc;
use sync::{AtomicU64, Mutex, Ordering, fence};

/// A reader that holds no references and is not waited for.
const OFFLINE: u64 = 0;
/// A slot that no reader owns. It is distinct from OFFLINE so that it can be handed out.
const UNUSED: u64 = u64::MAX;

/// One reader's announcement, on a cache line of its own: its owner writes it every
/// round, control reads it rarely.
#[repr(align(128))]
struct Slot(AtomicU64);

type Retired = Box<dyn FnOnce() + Send>;

/// A set of readers and the objects retired until all of them have moved on.
pub struct Domain {
    /// Grows by one with each retirement. Readers copy it at the start of a round.
    epoch: AtomicU64,
    slots: Box<[Slot]>,
    retired: Mutex<VecDeque<(u64, Retired)>>,
}

/// Why a reader could not be registered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoFreeSlot;

impl std::fmt::Display for NoFreeSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("all reader slots of the RCU domain are taken")
    }
}
impl std::error::Error for NoFreeSlot {}

impl Domain {
    /// A domain for at most `readers` readers at a time.
    pub fn new(readers: usize) -> Arc<Domain> {
        Arc::new(Domain {
            epoch: AtomicU64::new(1),
            slots: (0..readers).map(|_| Slot(AtomicU64::new(UNUSED))).collect(),
            retired: Mutex::new(VecDeque::new()),
        })
    }

    /// Registers a reader, offline until its first [`Reader::round`].
    ///
    /// # Errors
    /// When as many readers exist as [`Domain::new`] allowed.
    pub fn register(self: &Arc<Domain>) -> Result<Reader, NoFreeSlot> {
        let free = self
            .slots
            .iter()
            .position(|slot| slot.0.compare_exchange(UNUSED, OFFLINE, Ordering::AcqRel, Ordering::Relaxed).is_ok());
        Ok(Reader { slot: free.ok_or(NoFreeSlot)?, domain: self.clone(), _not_sync: PhantomData })
    }

    /// Runs `action` (usually a drop) once no reader can hold what was reachable
    /// before this call. The caller must have unpublished it already.
    pub fn retire(&self, action: impl FnOnce() + Send + 'static) {
        let mut queue = self.retired.lock().expect("no panic under this lock");
        // The increment orders the caller's unpublishing store before the epoch that readers will announce: a reader
        // that announces `epoch` has seen the store.
        let epoch = self.epoch.fetch_add(1, Ordering::SeqCst) + 1;
        queue.push_back((epoch, Box::new(action)));
    }

    /// Runs the retired actions that are due. Returns how many remain.
    pub fn collect(&self) -> usize {
        self.collect_some(usize::MAX);
        self.pending()
    }

    /// Runs at most `most` of the retired actions that are due. Returns how many it ran: fewer than `most` means
    /// that no more are due.
    pub fn collect_some(&self, most: usize) -> usize {
        let horizon = self.horizon();
        for done in 0..most {
            let mut queue = self.retired.lock().expect("no panic under this lock");
            let due = matches!(queue.front(), Some((epoch, _)) if *epoch <= horizon);
            if !due {
                return done;
            }
            let (_, action) = queue.pop_front().expect("front was just seen");
            drop(queue); // an action may itself retire
            action();
        }
        most
    }

    /// Collects until nothing more is due, including what collecting itself retires. A retired object may hold the
    /// domain, which then lives until that object is collected. So the last user of a domain must call this.
    pub fn collect_all(&self) {
        let mut before = usize::MAX;
        while before > 0 {
            let left = self.collect();
            if left >= before {
                return; // a reader holds it back
            }
            before = left;
        }
    }

    /// How many retired objects wait for readers.
    pub fn pending(&self) -> usize {
        self.retired.lock().expect("no panic under this lock").len()
    }

    /// The slot of the online reader that has been longest without a new round, when
    /// it is the one that holds retired objects back.
    pub fn stalled(&self) -> Option<usize> {
        let epoch = self.epoch.load(Ordering::SeqCst);
        let announced = |slot: &Slot| slot.0.load(Ordering::Acquire);
        (0..self.slots.len())
            .filter(|&i| !matches!(announced(&self.slots[i]), OFFLINE | UNUSED))
            .min_by_key(|&i| announced(&self.slots[i]))
            .filter(|&i| announced(&self.slots[i]) < epoch)
    }

    /// Waits until every online reader has begun a new round, then collects. For
    /// tests and shutdown; never called by a reader.
    pub fn synchronize(&self) {
        let target = self.epoch.fetch_add(1, Ordering::SeqCst) + 1;
        while self.horizon() < target {
            sync::yield_now();
        }
        self.collect();
    }

    /// The newest epoch that every online reader has announced.
    fn horizon(&self) -> u64 {
        // The epoch is read first: what any thread retired up to it is then ordered before the fence.
        let mut horizon = self.epoch.load(Ordering::SeqCst);
        // Pairs with the fence in `Reader::round` of a reader that comes online: either
        // we see its slot, or it sees what was unpublished before this fence.
        fence(Ordering::SeqCst);
        for slot in &self.slots {
            match slot.0.load(Ordering::Acquire) {
                OFFLINE | UNUSED => {}
                announced => horizon = horizon.min(announced),
            }
        }
        horizon
    }
}

/// One reading thread. It may move between threads but not be shared.
pub struct Reader {
    domain: Arc<Domain>,
    slot: usize,
    _not_sync: PhantomData<std::cell::Cell<()>>,
}

/// The time between two quiescent states of a reader. What is loaded with it cannot
/// be kept beyond it.
pub struct Round<'r> {
    domain: &'r Arc<Domain>,
}

impl Reader {
    /// Ends the previous round (the borrow proves that nothing of it is held) and
    /// begins the next. One load and one store when already online.
    #[inline]
    pub fn round(&mut self) -> Round<'_> {
        let slot = &self.domain.slots[self.slot].0;
        let was = slot.load(Ordering::Relaxed);
        // Acquire: what was unpublished before this epoch is invisible from here on.
        // Release: all reads of the last round are done before control sees the store.
        let epoch = self.domain.epoch.load(Ordering::Acquire);
        slot.store(epoch, Ordering::Release);
        if was == OFFLINE {
            // Our announcement must be visible before we read any table.
            fence(Ordering::SeqCst);
        }
        Round { domain: &self.domain }
    }

    /// Holds nothing until the next round. A reader that sleeps goes offline, so that control does not wait for it.
    pub fn offline(&mut self) {
        self.domain.slots[self.slot].0.store(OFFLINE, Ordering::Release);
    }

    /// The slot that [`Domain::stalled`] names.
    pub fn slot(&self) -> usize {
        self.slot
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.domain.slots[self.slot].0.store(UNUSED, Ordering::Release);
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // No reader is left (each holds an Arc), so all that is retired is due.
        let queue = std::mem::take(&mut *self.retired.lock().expect("no panic under this lock"));
        for (_, action) in queue {
            action();
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    fn counted(domain: &Domain, count: &Arc<AtomicUsize>) {
        let count = count.clone();
        domain.retire(move || {
            count.fetch_add(1, Ordering::Relaxed);
        });
    }

    #[test]
    fn what_a_reader_may_hold_is_kept_until_its_next_round() {
        let domain = Domain::new(2);
        let dropped = Arc::new(AtomicUsize::new(0));
        let mut reader = domain.register().unwrap();
        let _ = reader.round();
        counted(&domain, &dropped);
        assert_eq!(domain.collect(), 1);
        assert_eq!(dropped.load(Ordering::Relaxed), 0);
        assert_eq!(domain.stalled(), Some(reader.slot()));
        let _ = reader.round();
        assert_eq!(domain.collect(), 0);
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
        assert_eq!(domain.stalled(), None);
    }

    #[test]
    fn nobody_waits_for_an_offline_reader() {
        let domain = Domain::new(1);
        let dropped = Arc::new(AtomicUsize::new(0));
        let mut reader = domain.register().unwrap();
        let _ = reader.round();
        reader.offline();
        counted(&domain, &dropped);
        assert_eq!(domain.collect(), 0);
        assert_eq!(dropped.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn slots_are_bounded_and_reused() {
        let domain = Domain::new(1);
        let reader = domain.register().unwrap();
        assert!(domain.register().is_err());
        drop(reader);
        assert!(domain.register().is_ok());
    }

    #[test]
    fn readers_on_threads_never_see_a_dropped_value() {
        const REPLACEMENTS: u64 = 20_000;
        /// Poisoned when dropped, so that a late reader is caught.
        struct Checked(u64, u64);
        impl Drop for Checked {
            fn drop(&mut self) {
                self.1 = 0;
            }
        }
        let domain = Domain::new(2);
        let cell = Arc::new(Published::new(&domain, Checked(7, !7)));
        let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let threads: Vec<_> = (0..2)
            .map(|n| {
                let (domain, cell, stop) = (domain.clone(), cell.clone(), stop.clone());
                std::thread::spawn(move || {
                    let mut reader = domain.register().unwrap();
                    let mut rounds = 0u64;
                    while !stop.load(Ordering::Relaxed) {
                        let round = reader.round();
                        for _ in 0..20 {
                            let value = cell.load(&round);
                            assert_eq!(value.0, !value.1);
                        }
                        rounds += 1;
                        if rounds.is_multiple_of(64 + n) {
                            reader.offline();
                        }
                    }
                })
            })
            .collect();
        for value in 0..REPLACEMENTS {
            cell.publish(Checked(value, !value));
            domain.collect();
        }
        domain.synchronize();
        stop.store(true, Ordering::Relaxed);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(domain.collect(), 0);
    }
}
