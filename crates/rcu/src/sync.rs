//! The primitives in use, exchanged for loom's when models run (`--cfg loom`).

#[cfg(loom)]
pub(crate) use loom::{
    sync::Mutex,
    sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence},
    thread::yield_now,
};
#[cfg(not(loom))]
pub(crate) use std::{
    sync::Mutex,
    sync::atomic::{AtomicPtr, AtomicU64, Ordering, fence},
    thread::yield_now,
};
