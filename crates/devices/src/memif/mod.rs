//! memif: interfaces by shared memory, and the sockets on which their two sides meet.
//!
//! The driver is `drivers::memif`. This module holds the sockets that operators number, the commands, and `show memif`.

pub mod cli;
mod config;
pub mod control;
mod kind;
mod show;

pub use control::{Memif, MemifError};
pub use kind::MemifConfig;

use drivers::memif;
use router::capability::{Chapter, Description, Part, Phase, Stage};
use router::interface::kind::{InterfaceKind, PortSyntax};

pub const CAPABILITY: Description = Description {
    name: "memif",
    description: "Interfaces to other processes by shared memory (memif)",
    log_classes: &[("memif", "memif")],
    codes: &[MemifError::CODES],
    start: |starting| {
        starting.own(Memif::default());
        Ok(())
    },
    kinds: &[InterfaceKind {
        driver: memif::DRIVER,
        specimen: || Box::new(MemifConfig(kind::port("@specimen"))),
        port: Some(PortSyntax { operand: "SOCKET", of: |socket| Box::new(MemifConfig(kind::port(socket))) }),
    }],
    chapters: &[Chapter { stage: Stage::Receiving, title: "Devices, receiving", about: "", nodes: &[memif::INPUT] }],
    commands: cli::register,
    statements: &[(Phase::Sockets, Part::Few(config::statements))],
    ..Description::NONE
};
