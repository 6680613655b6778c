//! Forwarding tables: what workers look up, what control changes under them.
//!
//! A lookup ends in a [`Leaf`], a small number that names a forwarding object
//! ([`object`]). Objects are shared by everything that goes the same way. [`fib4`] finds
//! the leaf of an IPv4 destination, [`fib6`] that of an IPv6 one, [`direct`] that of a number,
//! such as an MPLS label.
#![deny(unsafe_code)]

mod alike;
mod bits;
pub mod direct;
pub mod fib4;
pub mod fib6;
mod kernel;
pub mod leaf;
#[allow(unsafe_code)] // mmap; invariants in the file
mod memory;
pub mod object;
pub mod synthetic;

pub use direct::{DirectLookup, DirectTable, Way};
pub use fib4::{Fib4, Lookup4};
pub use fib6::{Fib6, Lookup6};
pub use kernel::Kernel;
pub use leaf::Leaf;
pub use memory::{keep_heap_small, trim_heap};
pub use object::{Adjacency, Custom, Midchain, Object, ObjectHandle, Objects, Replacement};
