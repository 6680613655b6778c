//! Values by number, of which the writer replaces one at a time while readers use them.

use crate::sync::{AtomicPtr, Ordering};
use crate::{Domain, Round};
use std::ptr;
use std::sync::Arc;

/// A fixed number of places, each with a heap value behind an atomic pointer, or with none. Replacing one costs the
/// same however many there are. The memory of places that never had a value is not touched.
pub struct PublishedArray<T: Send + Sync + 'static> {
    places: Box<[AtomicPtr<T>]>,
    domain: Arc<Domain>,
}

impl<T: Send + Sync + 'static> PublishedArray<T> {
    /// So many places without values.
    pub fn new(domain: &Arc<Domain>, places: usize) -> PublishedArray<T> {
        PublishedArray { places: empty(places), domain: domain.clone() }
    }

    /// The present value of a place, valid until the round ends. None: it has none, or there is no such place.
    ///
    /// # Panics
    /// In debug builds, when the round belongs to another domain.
    #[inline]
    pub fn load<'r>(&self, round: &'r Round<'_>, place: usize) -> Option<&'r T> {
        debug_assert!(Arc::ptr_eq(&self.domain, round.domain));
        let pointer = self.places.get(place)?.load(Ordering::Acquire);
        // SAFETY: the pointer is null or came from Box::into_raw, and is dropped only by an action retired after it was
        // replaced; the domain runs that action only after this reader has begun another round, which ends the borrow
        // 'r.
        unsafe { pointer.as_ref() }
    }

    /// Replaces the value of a place, or takes it away; the old one is dropped when no reader can hold it.
    ///
    /// # Panics
    /// When there is no such place.
    pub fn set(&self, place: usize, value: Option<T>) {
        let new = value.map_or(ptr::null_mut(), |value| Box::into_raw(Box::new(value)));
        let old = self.places[place].swap(new, Ordering::AcqRel);
        self.retire(old);
    }

    fn retire(&self, old: *mut T) {
        if !old.is_null() {
            // SAFETY: `old` came from Box::into_raw in `set`, was just made unreachable, and each swap returns it once.
            let old = unsafe { Box::from_raw(old) };
            self.domain.retire(move || drop(old));
        }
    }
}

impl<T: Send + Sync + 'static> Drop for PublishedArray<T> {
    fn drop(&mut self) {
        // A reader may still hold a reference in its round although the places are gone.
        for at in 0..self.places.len() {
            // Places that never had a value are read only.
            if !self.places[at].load(Ordering::Acquire).is_null() {
                self.retire(self.places[at].swap(ptr::null_mut(), Ordering::AcqRel));
            }
        }
    }
}

#[cfg(loom)]
fn empty<T>(places: usize) -> Box<[AtomicPtr<T>]> {
    (0..places).map(|_| AtomicPtr::new(ptr::null_mut())).collect()
}

/// Fresh memory of the system is zero already, so nothing writes to it.
#[cfg(not(loom))]
fn empty<T>(places: usize) -> Box<[AtomicPtr<T>]> {
    // SAFETY: an AtomicPtr has the representation of a pointer, and all bits zero are the null pointer.
    unsafe { Box::new_zeroed_slice(places).assume_init() }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;

    struct Counted(u32, Arc<AtomicUsize>);

    impl Drop for Counted {
        fn drop(&mut self) {
            self.1.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        }
    }

    #[test]
    fn a_place_is_replaced_alone_and_its_old_value_kept_for_its_readers() {
        let dropped = Arc::new(AtomicUsize::new(0));
        let count = || dropped.load(std::sync::atomic::Ordering::Relaxed);
        let domain = Domain::new(1);
        let mut reader = domain.register().unwrap();
        let array = PublishedArray::new(&domain, 3);
        array.set(0, Some(Counted(1, dropped.clone())));
        array.set(2, Some(Counted(2, dropped.clone())));
        {
            let round = reader.round();
            let read = |place| array.load(&round, place).map(|value| value.0);
            assert_eq!([read(0), read(1), read(2), read(3)], [Some(1), None, Some(2), None]);
            let held = array.load(&round, 0).unwrap();
            array.set(0, Some(Counted(3, dropped.clone())));
            array.set(2, None);
            assert_eq!([read(0), read(2)], [Some(3), None]);
            assert_eq!((domain.collect(), count(), held.0), (2, 0, 1), "a reader may hold both");
        }
        let _ = reader.round();
        assert_eq!((domain.collect(), count()), (0, 2));
        drop(array);
        let _ = reader.round();
        assert_eq!((domain.collect(), count()), (0, 3));
    }
}
