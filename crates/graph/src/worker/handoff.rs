//! Packets that go on on another worker: because the node that they go to lives there only (a device that one worker
//! alone may send by), or because an edge leads there (hand-off by flow).
//!
//! Each worker has a ring to each other one. What the ring has no room for is dropped by name: the
//! other worker has more to do than it can. Order from worker to worker is that of handing over.

use super::{CONGESTED, Core, NOWHERE};
use crate::index::NodeIndex;
use crate::ring::{Consumer, Producer, ring};
use crate::vector::{VECTOR_SIZE, Vector};
use crate::worker::mailbox::Mailbox;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Vectors that wait in one ring at most.
const RING_SIZE: usize = 128;
/// Of all packet memory, the part that may wait for one worker, in all rings to it: one that does not come to them,
/// however many hand it packets, leaves the others enough.
const WAITING_SHARE: usize = 4;

/// A vector with where it goes. A slot from which it was taken has another, or none as yet.
#[derive(Default)]
struct Parcel {
    to: NodeIndex,
    /// Tells a node from one that has its number later.
    generation: u32,
    vector: Option<Box<Vector>>,
}

/// On which worker a node lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub worker: usize,
    pub generation: u32,
}

/// Packets that were ever taken out of a ring, which its producer reads; on a cache line of its own.
#[derive(Default)]
#[repr(align(128))]
struct Taken(AtomicU64);

/// The end of a ring by which packets leave.
struct Outgoing {
    ring: Producer<Parcel>,
    /// Packets that were ever handed over, and that had been taken when it was last looked.
    handed: u64,
    seen: u64,
    taken: Arc<Taken>,
    /// Packets that may wait.
    most: u64,
}

impl Outgoing {
    /// Hands a parcel of so many packets over; false: they have no room, nothing has changed.
    #[inline]
    fn push(&mut self, parcel: &mut Parcel, packets: u64) -> bool {
        if self.handed + packets - self.seen > self.most {
            self.seen = self.taken.0.load(Ordering::Relaxed);
            if self.handed + packets - self.seen > self.most {
                return false;
            }
        }
        let went = self.ring.push(parcel);
        self.handed += if went { packets } else { 0 };
        went
    }
}

/// The end by which they come.
struct Incoming {
    ring: Consumer<Parcel>,
    taken: Arc<Taken>,
}

/// One worker's ends of all rings.
pub(crate) struct Ports {
    /// By worker; none to itself.
    outgoing: Vec<Option<Outgoing>>,
    incoming: Vec<Incoming>,
    mailboxes: Vec<Arc<Mailbox>>,
}

impl Ports {
    /// The ports of all workers, by their mailboxes; they have so many buffers among them.
    pub fn of_all(mailboxes: &[Arc<Mailbox>], buffers: u32) -> Vec<Ports> {
        let most = buffers as usize / WAITING_SHARE / mailboxes.len().saturating_sub(1).max(1);
        let none = |_: &Arc<Mailbox>| Ports {
            outgoing: mailboxes.iter().map(|_| None).collect(),
            incoming: Vec::new(),
            mailboxes: mailboxes.to_vec(),
        };
        let mut all: Vec<Ports> = mailboxes.iter().map(none).collect();
        for from in 0..all.len() {
            for to in (0..all.len()).filter(|to| *to != from) {
                let (producer, consumer) = ring(RING_SIZE, Parcel::default);
                let taken = Arc::<Taken>::default();
                // One whole vector fits into any pool's.
                let most = most.max(VECTOR_SIZE) as u64;
                let outgoing = Outgoing { ring: producer, handed: 0, seen: 0, taken: taken.clone(), most };
                all[from].outgoing[to] = Some(outgoing);
                all[to].incoming.push(Incoming { ring: consumer, taken });
            }
        }
        all
    }

    /// Of all workers, this one included.
    pub fn mailboxes(&self) -> &[Arc<Mailbox>] {
        &self.mailboxes
    }

    /// Whether something has come.
    pub fn have_mail(&mut self) -> bool {
        self.incoming.iter_mut().any(|incoming| !incoming.ring.is_empty())
    }
}

impl Core {
    pub(crate) fn mailboxes(&self) -> &[Arc<Mailbox>] {
        self.ports.mailboxes()
    }

    /// Hands a vector to the worker on which a node lives.
    pub(super) fn hand_over(&mut self, to: NodeIndex, place: Place, vector: Box<Vector>) {
        let n = vector.len() as u64;
        vector.packets().iter().for_each(|packet| self.buffers.send_away(*packet));
        let mut parcel = Parcel { to, generation: place.generation, vector: Some(vector) };
        let went = match self.ports.outgoing.get_mut(place.worker) {
            Some(Some(outgoing)) => outgoing.push(&mut parcel, n),
            _ => unreachable!("there is a ring to every other worker"),
        };
        if !went {
            return self.drop_vector(parcel.vector.expect("what is refused stays"), CONGESTED);
        }
        self.ledger.handed += n;
        self.spare.extend(parcel.vector);
        self.ports.mailboxes[place.worker].wake();
    }

    /// Takes in what other workers have handed over; whether there was any.
    #[inline]
    pub(super) fn take_over(&mut self) -> bool {
        let mut any = false;
        for ring in 0..self.ports.incoming.len() {
            // What comes meanwhile is for the next round.
            for _ in 0..RING_SIZE {
                let incoming = &mut self.ports.incoming[ring];
                if incoming.ring.is_empty() {
                    break;
                }
                let mut parcel = Parcel { vector: self.spare.pop(), ..Parcel::default() };
                incoming.ring.pop(&mut parcel);
                let packets = parcel.vector.as_ref().map_or(0, |vector| vector.len() as u64);
                // Nobody else writes it.
                let taken = incoming.taken.0.load(Ordering::Relaxed) + packets;
                incoming.taken.0.store(taken, Ordering::Relaxed);
                self.arrive(parcel);
                any = true;
            }
        }
        if any {
            self.taken_at = self.now;
        }
        any
    }

    fn arrive(&mut self, parcel: Parcel) {
        let Parcel { to, generation, vector: Some(vector) } = parcel else { return };
        self.ledger.taken += vector.len() as u64;
        // The heads lie in the caches of the worker that has them so far, and will be written here.
        let heads = vector.packets().iter().zip(vector.l2());
        heads.for_each(|(packet, l2)| self.buffers.prefetch_to_write(*packet, *l2));
        let is_there =
            |core: &Core| matches!(core.nodes.get(to.0 as usize), Some(Some(node)) if node.generation == generation);
        if !is_there(self) {
            // Its message may be in the mailbox still.
            self.learn_edges();
            if !is_there(self) {
                return self.drop_vector(vector, NOWHERE);
            }
        }
        self.queue(to, vector);
    }
}
