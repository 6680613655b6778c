//! Readers against writers that reclaim, in every interleaving and with every stale
//! read that the memory model allows (loom).
//!
//! `RUSTFLAGS="--cfg loom" cargo test -p quiver-rcu --test models`
#![cfg(loom)]

use loom::cell::UnsafeCell;
use loom::model::Builder;
use loom::thread;
use quiver_rcu::{Domain, Published, Reader};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The alignment by which [`KeepsValues`] knows a [`Value`].
const VALUE_ALIGNMENT: usize = 256;

/// Never frees a [`Value`], so that a model that goes wrong says so and does not crash.
struct KeepsValues;

// SAFETY: passes every call on to the system's allocator or leaks.
unsafe impl GlobalAlloc for KeepsValues {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise, handed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        if layout.align() != VALUE_ALIGNMENT {
            // SAFETY: the caller's promise, handed on.
            unsafe { System.dealloc(pointer, layout) }
        }
    }
}

#[global_allocator]
static ALLOCATOR: KeepsValues = KeepsValues;

/// What a value leaves behind: loom fails the model when `alive` is read without being
/// ordered before the write that the drop does.
struct Mark {
    alive: UnsafeCell<bool>,
}

/// Marks of all values of a model, and how many were dropped.
struct Marks {
    marks: Vec<Mark>,
    dropped: AtomicUsize,
}

// SAFETY: loom checks each access to the cells.
unsafe impl Send for Marks {}
// SAFETY: as above.
unsafe impl Sync for Marks {}

impl Marks {
    fn new(values: usize) -> Arc<Marks> {
        let mark = |_| Mark { alive: UnsafeCell::new(true) };
        Arc::new(Marks { marks: (0..values).map(mark).collect(), dropped: AtomicUsize::new(0) })
    }

    fn value(self: &Arc<Marks>, number: usize) -> Value {
        Value { marks: self.clone(), number }
    }

    fn dropped(&self) -> usize {
        self.dropped.load(Ordering::Relaxed)
    }
}

#[repr(align(256))]
struct Value {
    marks: Arc<Marks>,
    number: usize,
}

const _: () = assert!(align_of::<Value>() == VALUE_ALIGNMENT);

impl Value {
    fn read(&self) -> usize {
        let mark = &self.marks.marks[self.number];
        // SAFETY: loom fails the model when a write races with this.
        let alive = mark.alive.with(|alive| unsafe { *alive });
        assert!(alive, "value {} was dropped", self.number);
        self.number
    }
}

impl Drop for Value {
    fn drop(&mut self) {
        if std::thread::panicking() {
            return; // the model has failed; a second panic would hide why
        }
        let mark = &self.marks.marks[self.number];
        // SAFETY: loom fails the model when a read races with this.
        let was = mark.alive.with_mut(|alive| unsafe { alive.replace(false) });
        assert!(was, "value {} was dropped twice", self.number);
        self.marks.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

/// One round: two loads, which see a value that is there, and never an older one later.
fn read_twice(reader: &mut Reader, cell: &Published<Value>) -> usize {
    let round = reader.round();
    let first = cell.load(&round);
    let number = first.read();
    let second = cell.load(&round).read();
    assert!(second >= number, "an older value came back");
    // Held to the end of the round, across whatever the writer did meanwhile.
    first.read();
    second
}

/// Runs a model. The bound is on switches away from a thread that could go on; three
/// show every known mistake and keep a model within seconds.
fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// After all readers are gone everything that was replaced is dropped, once.
fn settle(domain: &Domain, marks: &Marks, replaced: usize) {
    assert_eq!(domain.collect(), 0);
    assert_eq!(marks.dropped(), replaced);
}

#[test]
fn a_reader_never_sees_a_dropped_value() {
    check(|| {
        let domain = Domain::new(1);
        let marks = Marks::new(3);
        let cell = Arc::new(Published::new(&domain, marks.value(0)));
        let mut reader = domain.register().unwrap();
        let reading = thread::spawn({
            let cell = cell.clone();
            move || {
                let first = read_twice(&mut reader, &cell);
                let second = read_twice(&mut reader, &cell);
                assert!(second >= first, "an older value came back");
            }
        });
        for number in 1..3 {
            cell.publish(marks.value(number));
            domain.collect();
        }
        reading.join().unwrap();
        settle(&domain, &marks, 2);
    });
}

#[test]
fn a_reader_may_sleep_and_wake_while_values_are_replaced() {
    check(|| {
        let domain = Domain::new(1);
        let marks = Marks::new(3);
        let cell = Arc::new(Published::new(&domain, marks.value(0)));
        let mut reader = domain.register().unwrap();
        let reading = thread::spawn({
            let cell = cell.clone();
            move || {
                let first = read_twice(&mut reader, &cell);
                reader.offline();
                let second = read_twice(&mut reader, &cell);
                assert!(second >= first, "an older value came back");
                reader.offline();
            }
        });
        for number in 1..3 {
            cell.publish(marks.value(number));
            domain.collect();
        }
        reading.join().unwrap();
        settle(&domain, &marks, 2);
    });
}

#[test]
fn two_threads_retire_under_a_reader() {
    check(|| {
        let domain = Domain::new(1);
        let marks = Marks::new(4);
        let cells = [0, 2].map(|number| Arc::new(Published::new(&domain, marks.value(number))));
        let mut reader = domain.register().unwrap();
        let reading = thread::spawn({
            let cells = cells.clone();
            move || {
                let round = reader.round();
                let held = cells.each_ref().map(|cell| cell.load(&round));
                for value in held {
                    value.read();
                }
            }
        });
        let retiring = thread::spawn({
            let (domain, marks, cell) = (domain.clone(), marks.clone(), cells[0].clone());
            move || {
                cell.publish(marks.value(1));
                domain.collect();
            }
        });
        cells[1].publish(marks.value(3));
        domain.collect();
        reading.join().unwrap();
        retiring.join().unwrap();
        settle(&domain, &marks, 2);
    });
}

/// The collector may learn of a retirement only while it collects: what it then takes
/// for due must not be what a reader that has just come online still sees.
#[test]
fn one_thread_collects_what_another_retires() {
    check(|| {
        let domain = Domain::new(1);
        let marks = Marks::new(2);
        let cell = Arc::new(Published::new(&domain, marks.value(0)));
        let mut reader = domain.register().unwrap();
        let reading = thread::spawn({
            let cell = cell.clone();
            move || read_twice(&mut reader, &cell)
        });
        let retiring = thread::spawn({
            let (marks, cell) = (marks.clone(), cell.clone());
            move || cell.publish(marks.value(1))
        });
        domain.collect();
        reading.join().unwrap();
        retiring.join().unwrap();
        settle(&domain, &marks, 1);
    });
}
