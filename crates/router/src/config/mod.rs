//! Persistent configuration: what operators stated, as the commands that state it again.
//!
//! Each capability lists its state of source *config* as [`Statement`]s. Learned state (neighbours, connected routes)
//! is not part of it. `show running-config` prints the statements, `save` writes them to a file. `load` goes the other
//! way: the file's commands build a second router without devices ([`Plan`]). Where its statements differ from this
//! router's, steps are taken ([`plan`]), each with the command that undoes it. So the whole file is checked, by the
//! very code that carries it out, before anything changes.
//!
//! `rollback` goes back to the configuration before the last `load`. A `load` that needs confirmation goes back by
//! itself when the operator does not confirm it in time.

pub mod cli;
mod collect;
pub mod control;
mod plan;

pub use collect::{Part, Phase};
pub use control::ConfigError;
pub(crate) use control::may_reach;

use crate::Router;
use crate::capability::{Description, Tick};

pub(crate) const CAPABILITY: Description = Description {
    name: "config",
    commands: cli::register,
    ticks: &[Tick::new(|router, now| router.tick_config(now), |router| router.config.next_due())],
    ..Description::NONE
};

/// One thing that an operator stated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The command that states it.
    pub line: String,
    /// The command that takes it away. It identifies the statement: no two statements share it.
    pub undo: String,
    /// The command that turns another statement with the same `undo` into this one. None: the other one has to be taken
    /// away first.
    pub replace: Option<String>,
    /// The statements that this one depends on, by their `undo`. They come before it, and it is removed before them.
    pub needs: Vec<String>,
    /// The order of statements in the same series matters.
    pub series: Option<String>,
    /// What only one statement can have: something of the host, or a number. Such a statement opens a device, which may
    /// fail.
    pub claims: Vec<String>,
}

impl Statement {
    pub fn new(line: String, undo: String) -> Statement {
        Statement { line, undo, replace: None, needs: Vec::new(), series: None, claims: Vec::new() }
    }

    /// Marks a statement whose own command also replaces a different value.
    #[must_use]
    pub fn replaced_by_itself(mut self) -> Statement {
        self.replace = Some(self.line.clone());
        self
    }

    #[must_use]
    pub fn needing(mut self, undo: impl Into<String>) -> Statement {
        self.needs.push(undo.into());
        self
    }
}

/// The statements of a capability that may have many, some at a time. The router may change between two calls.
pub trait Statements: Send {
    /// Adds some more statements, about [`crate::listing::PAGE`]. Returns whether there may be more.
    fn go_on(&mut self, router: &Router, into: &mut Vec<Statement>) -> bool;
}
