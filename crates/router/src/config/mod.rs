//! Configuration that lasts: what operators stated, as the commands that state it again.
//!
//! Each capability tells what it holds of source *config* as [`Statement`]s; what was
//! learned (neighbours, connected routes) is none. `show running-config` prints them,
//! `save` writes them to a file. `load` goes the other way: the file's commands build a
//! second router without devices ([`Plan`]), and where its statements differ from this
//! router's, steps are taken ([`plan`]), each with the command that undoes it. So a file is
//! checked whole, by the very code that carries it out, before anything changes.
//!
//! `rollback` goes back to what was before the last `load`; one that is to be confirmed
//! goes back by itself when nobody does.

pub mod cli;
mod collect;
pub mod control;
mod plan;

pub use control::ConfigError;
pub(crate) use control::may_reach;

use crate::Router;

/// One thing that an operator stated.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// The command that states it.
    pub line: String,
    /// The command that takes it away. No two statements share it: it is what they are
    /// told apart by.
    pub undo: String,
    /// The command that makes this of another statement with the same `undo`; without one
    /// that has to be taken away first.
    pub replace: Option<String>,
    /// Those that it rests on, by their `undo`: they come before it, and it goes before
    /// them.
    pub needs: Vec<String>,
    /// Those of one series count in their order.
    pub series: Option<String>,
    /// What only one statement can have, of the host or by number. Such a statement opens a
    /// device, which may fail.
    pub claims: Vec<String>,
}

impl Statement {
    pub fn new(line: String, undo: String) -> Statement {
        Statement { line, undo, replace: None, needs: Vec::new(), series: None, claims: Vec::new() }
    }

    /// Stating it again, otherwise, replaces what was stated.
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

/// The statements of a capability that may be many, some at a time. Between two times others may change the router.
pub(crate) trait Statements: Send {
    /// States some more, about [`crate::listing::PAGE`]; says whether there may be more still.
    fn go_on(&mut self, router: &Router, into: &mut Vec<Statement>) -> bool;
}
