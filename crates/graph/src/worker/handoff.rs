//! Packets that go on on another worker: because the node that they go to lives there only (a device that one worker
//! alone may send by), or because an edge leads there (hand-off by flow).
//!
//! Each worker has a ring to each other one. What the ring has no room for is dropped by name: the
//! other worker has more to do than it can. Order from worker to worker is that of handing over.

use super::{CONGESTED, Core, NOWHERE};
use crate::NodeIndex;
use crate::mailbox::Mailbox;
use crate::ring::{Consumer, Producer, ring};
use crate::vector::{Vector, flag};
use std::sync::Arc;

/// Vectors that wait in one ring at most. However full they are, a worker that does not come to them leaves the others
/// the greater part of the usual pool.
const RING_SIZE: usize = 32;

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

/// One worker's ends of all rings.
pub(crate) struct Ports {
    /// By worker; none to itself.
    outgoing: Vec<Option<Producer<Parcel>>>,
    incoming: Vec<Consumer<Parcel>>,
    mailboxes: Vec<Arc<Mailbox>>,
}

impl Ports {
    /// The ports of all workers, by their mailboxes.
    pub fn of_all(mailboxes: &[Arc<Mailbox>]) -> Vec<Ports> {
        let none = |_: &Arc<Mailbox>| Ports {
            outgoing: mailboxes.iter().map(|_| None).collect(),
            incoming: Vec::new(),
            mailboxes: mailboxes.to_vec(),
        };
        let mut all: Vec<Ports> = mailboxes.iter().map(none).collect();
        for from in 0..all.len() {
            for to in (0..all.len()).filter(|to| *to != from) {
                let (producer, consumer) = ring(RING_SIZE, Parcel::default);
                all[from].outgoing[to] = Some(producer);
                all[to].incoming.push(consumer);
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
        self.incoming.iter_mut().any(|ring| !ring.is_empty())
    }
}

impl Core {
    pub(crate) fn mailboxes(&self) -> &[Arc<Mailbox>] {
        self.ports.mailboxes()
    }

    /// Hands a vector to the worker on which a node lives.
    pub(super) fn hand_over(&mut self, to: NodeIndex, place: Place, mut vector: Box<Vector>) {
        let n = vector.len() as u64;
        if vector.traced {
            // A record belongs to the worker that began it.
            vector.columns().flags.iter_mut().for_each(|flags| *flags &= !flag::TRACED);
            vector.traced = false;
        }
        let mut parcel = Parcel { to, generation: place.generation, vector: Some(vector) };
        let went = match self.ports.outgoing.get_mut(place.worker) {
            Some(Some(ring)) => ring.push(&mut parcel),
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
                if self.ports.incoming[ring].is_empty() {
                    break;
                }
                let mut parcel = Parcel { vector: self.spare.pop(), ..Parcel::default() };
                self.ports.incoming[ring].pop(&mut parcel);
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
