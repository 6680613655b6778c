//! Whether routes say that a host is on the link of an interface although no network of the interface contains it. For
//! nodes that process messages from hosts, which are rare.

use super::fibs::{Fibs, Lookup};
use crate::ip::class;
use graph::InterfaceIndex;
use rcu::Round;
use tables::object::MAX_BUCKETS;
use tables::{Leaf, ObjectHandle};

/// The workers' counterpart of [`crate::Router::is_on_link`].
#[derive(Clone)]
pub struct OnLink<L: Lookup> {
    fibs: Fibs<L>,
    objects: ObjectHandle,
}

impl<L: Lookup> OnLink<L> {
    pub fn new(fibs: &Fibs<L>, objects: &ObjectHandle) -> OnLink<L> {
        OnLink { fibs: fibs.clone(), objects: objects.clone() }
    }

    /// Whether the route to a host leads onto that interface, or to the host itself there.
    pub fn is(&self, round: &Round<'_>, interface: InterfaceIndex, host: L::Address) -> bool {
        let leads = |leaf: Leaf| {
            let object = self.objects.get(round, leaf.index());
            match leaf.class() {
                class::GLEAN => object.interface() == interface.0,
                class::ADJACENCY => object.interface() == interface.0 && L::next_hop(&object) == host,
                _ => false,
            }
        };
        let leaf = self.fibs.lookup(round, self.fibs.index_of(round, interface), host);
        match leaf.class() {
            class::LOAD_BALANCE => {
                let balance = self.objects.get(round, leaf.index());
                (0..MAX_BUCKETS as u32).any(|hash| leads(balance.bucket(hash)))
            }
            _ => leads(leaf),
        }
    }
}
