//! memif: interfaces by shared memory, and the sockets on which their two sides meet.
//!
//! The driver is `drivers::memif`. This module holds the sockets that operators number, the commands, and `show memif`.

pub mod cli;
pub(crate) mod config;
pub mod control;
mod show;

pub use control::{Memif, MemifError};

use crate::capability::Description;
use crate::config::{Part, Phase};

pub(crate) const CAPABILITY: Description = Description {
    name: "memif",
    commands: cli::register,
    statements: &[(Phase::Sockets, Part::Few(config::statements))],
    ..Description::NONE
};
