//! memif: interfaces by shared memory, and the sockets on which their two sides meet.
//!
//! The driver is `drivers::memif`. This module holds the sockets that operators number, the commands, and `show memif`.

pub mod cli;
mod config;
pub mod control;
mod kind;
mod show;

pub use control::{Memif, MemifError};

use crate::capability::{Chapter, Description, Part, Phase, Stage};
use crate::interface::kind::{InterfaceKind, PortSyntax};
use drivers::memif;

pub(crate) const CAPABILITY: Description = Description {
    name: "memif",
    start: |starting| {
        starting.own(Memif::default());
        Ok(())
    },
    kinds: &[InterfaceKind {
        driver: memif::DRIVER,
        specimen: || Box::new(kind::port("@specimen")),
        port: Some(PortSyntax { operand: "SOCKET", of: |socket| Box::new(kind::port(socket)) }),
    }],
    chapters: &[Chapter { stage: Stage::Receiving, title: "Devices, receiving", about: "", nodes: &[memif::INPUT] }],
    commands: cli::register,
    statements: &[(Phase::Sockets, Part::Few(config::statements))],
    ..Description::NONE
};
