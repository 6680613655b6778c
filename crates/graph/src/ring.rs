//! A ring from one thread to another: values arrive in order, without locks and without waiting (Lamport, "Proving the
//! correctness of multiprocess programs", IEEE TSE 1977). Each side caches the other's position, as FastForward and
//! MCRingBuffer do.
//!
//! Values are exchanged: [`Producer::push`] returns the slot's old value to the caller, and [`Consumer::pop`] leaves
//! the caller's value in the slot. So boxes circulate, and neither side allocates.
#![allow(unsafe_code)]

#[cfg(loom)]
use loom::{
    cell::UnsafeCell,
    sync::Arc,
    sync::atomic::{AtomicUsize, Ordering},
};
#[cfg(not(loom))]
use std::{
    sync::Arc,
    sync::atomic::{AtomicUsize, Ordering},
};

#[cfg(not(loom))]
struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }
    #[inline(always)]
    fn with_mut<R>(&self, act: impl FnOnce(*mut T) -> R) -> R {
        act(self.0.get())
    }
}

/// Has a cache line of its own (and the neighbouring line, which is fetched with it).
#[repr(align(128))]
struct Position(AtomicUsize);

struct Ring<T> {
    slots: Box<[UnsafeCell<T>]>,
    /// How many values were ever put in and taken out; both wrap.
    put: Position,
    taken: Position,
}

// SAFETY: the producer touches a slot while it is free, the consumer while it is taken; `put` and `taken` hand it over,
// with release and acquire.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: as above; values move between threads, which `T: Send` allows.
unsafe impl<T: Send> Send for Ring<T> {}

impl<T> Ring<T> {
    /// Exchanges a value with that of the slot of a position.
    ///
    /// # Safety
    /// The caller owns the slot: it is between the caller's position and the one that the other side released.
    #[inline(always)]
    unsafe fn exchange(&self, position: usize, value: &mut T) {
        self.slots[position & (self.slots.len() - 1)].with_mut(|slot| {
            // SAFETY: by contract.
            std::mem::swap(unsafe { &mut *slot }, value);
        });
    }
}

/// The producer's end.
pub struct Producer<T> {
    ring: Arc<Ring<T>>,
    put: usize,
    /// The consumer's position when it was last read.
    taken: usize,
}

/// The consumer's end.
pub struct Consumer<T> {
    ring: Arc<Ring<T>>,
    taken: usize,
    /// The producer's position when it was last read.
    put: usize,
}

/// A ring of `size` slots (a power of two), each with a value from `make`.
///
/// # Panics
/// When `size` is no power of two.
pub fn ring<T>(size: usize, make: impl FnMut() -> T) -> (Producer<T>, Consumer<T>) {
    assert!(size.is_power_of_two());
    let slots = std::iter::repeat_with(make).take(size).map(UnsafeCell::new).collect();
    let zero = || Position(AtomicUsize::new(0));
    let ring = Arc::new(Ring { slots, put: zero(), taken: zero() });
    (Producer { ring: ring.clone(), put: 0, taken: 0 }, Consumer { ring, taken: 0, put: 0 })
}

impl<T> Producer<T> {
    /// Puts a value in and takes the slot's old value. False: the ring is full, and nothing has changed.
    #[inline]
    pub fn push(&mut self, value: &mut T) -> bool {
        let size = self.ring.slots.len();
        if self.put.wrapping_sub(self.taken) == size {
            self.taken = self.ring.taken.0.load(Ordering::Acquire);
            if self.put.wrapping_sub(self.taken) == size {
                return false;
            }
        }
        // SAFETY: the consumer has released this slot, or never had it.
        unsafe { self.ring.exchange(self.put, value) };
        self.put = self.put.wrapping_add(1);
        self.ring.put.0.store(self.put, Ordering::Release);
        true
    }
}

impl<T> Consumer<T> {
    /// Takes the oldest value and leaves the given one in the slot. False: the ring is empty.
    #[inline]
    pub fn pop(&mut self, value: &mut T) -> bool {
        if self.is_empty() {
            return false;
        }
        // SAFETY: the producer has released this slot.
        unsafe { self.ring.exchange(self.taken, value) };
        self.taken = self.taken.wrapping_add(1);
        self.ring.taken.0.store(self.taken, Ordering::Release);
        true
    }

    /// Whether there is nothing to take.
    #[inline]
    pub fn is_empty(&mut self) -> bool {
        if self.taken == self.put {
            self.put = self.ring.put.0.load(Ordering::Acquire);
        }
        self.taken == self.put
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn values_come_out_in_order_and_no_more_than_fit_go_in() {
        let (mut producer, mut consumer) = ring(4, || 0u32);
        let mut out = 99;
        assert!(!consumer.pop(&mut out));
        for first in [1, 11, 21, 31] {
            (0..4).for_each(|n| assert!(producer.push(&mut (first + n))));
            let mut fifth = 77;
            assert!(!producer.push(&mut fifth));
            assert_eq!(fifth, 77, "what is refused stays");
            for n in 0..4 {
                assert!(consumer.pop(&mut out));
                assert_eq!(out, first + n);
            }
            assert!(consumer.is_empty());
        }
    }

    #[test]
    fn values_change_places() {
        let (mut producer, mut consumer) = ring(2, || Box::new(0));
        let mut mine = Box::new(1);
        producer.push(&mut mine);
        assert_eq!(*mine, 0, "what lay in the slot");
        let mut its = Box::new(2);
        consumer.pop(&mut its);
        assert_eq!(*its, 1);
        producer.push(&mut mine);
        producer.push(&mut mine);
        assert_eq!(*mine, 2, "what the consumer gave");
    }

    #[test]
    fn nothing_is_lost_between_threads() {
        const VALUES: u64 = 200_000;
        let (mut producer, mut consumer) = ring(64, || 0u64);
        let sender = std::thread::spawn(move || {
            for n in 1..=VALUES {
                let mut value = n;
                while !producer.push(&mut value) {
                    std::thread::yield_now();
                }
            }
        });
        let mut expected = 1;
        while expected <= VALUES {
            let mut value = 0;
            if consumer.pop(&mut value) {
                assert_eq!(value, expected);
                expected += 1;
            } else {
                std::thread::yield_now();
            }
        }
        sender.join().unwrap();
        assert!(consumer.is_empty());
    }
}
