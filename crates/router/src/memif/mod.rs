//! memif: interfaces by shared memory, and the sockets on which their two sides meet.
//!
//! The driver is `drivers::memif`; here are the sockets that operators number, commands, and what `show memif` tells.

pub mod cli;
pub(crate) mod config;
pub mod control;
mod show;

pub use control::{Memif, MemifError};
