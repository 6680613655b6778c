//! A value that the writer replaces as a whole while readers use it.

use crate::sync::{AtomicPtr, Ordering};
use crate::{Domain, Round};
use std::sync::Arc;

/// A heap value behind one atomic pointer. Readers get a reference that lives for
/// one [`Round`]; [`Published::publish`] replaces the value and retires the old one.
pub struct Published<T: Send + Sync + 'static> {
    pointer: AtomicPtr<T>,
    domain: Arc<Domain>,
}

impl<T: Send + Sync + 'static> Published<T> {
    pub fn new(domain: &Arc<Domain>, value: T) -> Published<T> {
        Published { pointer: AtomicPtr::new(Box::into_raw(Box::new(value))), domain: domain.clone() }
    }

    /// The present value, valid until the round ends.
    ///
    /// # Panics
    /// In debug builds, when the round belongs to another domain.
    #[inline]
    pub fn load<'r>(&self, round: &'r Round<'_>) -> &'r T {
        debug_assert!(Arc::ptr_eq(&self.domain, round.domain));
        let pointer = self.pointer.load(Ordering::Acquire);
        // SAFETY: the pointer came from Box::into_raw and is dropped only by an action
        // retired after it was replaced; the domain runs that action only after this
        // reader has begun another round, which ends the borrow 'r.
        unsafe { &*pointer }
    }

    /// Replaces the value; the old one is dropped when no reader can hold it.
    pub fn publish(&self, value: T) {
        let new = Box::into_raw(Box::new(value));
        let old = self.pointer.swap(new, Ordering::AcqRel);
        // SAFETY: `old` came from Box::into_raw, was just made unreachable, and this
        // is the only place that takes it back (each swap returns it once).
        let old = unsafe { Box::from_raw(old) };
        self.domain.retire(move || drop(old));
    }
}

impl<T: Send + Sync + 'static> Drop for Published<T> {
    fn drop(&mut self) {
        // A reader may still hold a reference in its round although the cell is gone.
        let old = self.pointer.load(Ordering::Acquire);
        // SAFETY: as in `publish`; no reader can load from a cell that is being dropped.
        let old = unsafe { Box::from_raw(old) };
        self.domain.retire(move || drop(old));
    }
}
