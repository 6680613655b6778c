//! Forwarding tables: what workers look up, what control changes under them.
//!
//! A lookup ends in a [`Leaf`], a small number that names a forwarding object
//! ([`object`]). Objects are shared by everything that goes the same way. [`fib4`] finds
//! the leaf of an IPv4 destination, [`fib6`] that of an IPv6 one, [`labels`] that of an MPLS label.
#![deny(unsafe_code)]

mod alike;
mod bits;
pub mod fib4;
pub mod fib6;
mod kernel;
pub mod labels;
pub mod leaf;
#[allow(unsafe_code)] // mmap; invariants in the file
mod memory;
pub mod object;
pub mod synthetic;

pub use fib4::{Fib4, Lookup4};
pub use fib6::{Fib6, Lookup6};
pub use kernel::Kernel;
pub use labels::{LabelAction, LabelKey, LabelLookup, LabelTable};
pub use leaf::Leaf;
pub use memory::{keep_heap_small, trim_heap};
pub use object::{Adjacency, Object, ObjectHandle, Objects, Replacement, kind};
