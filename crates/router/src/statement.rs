//! What a capability states of the configuration: the commands that would state it again.

use crate::Router;

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

/// How the statements of a part of the configuration are collected.
pub enum Part {
    /// Few statements: all at once.
    Few(fn(&Router, &mut Vec<Statement>)),
    /// As many statements as there are routes, neighbours or interfaces: some at a time.
    Many(fn() -> Box<dyn Statements>),
}

/// When a part of the configuration is carried out: each after what it needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The log, so that it tells of all that follows.
    Log,
    /// What holds for the whole router.
    Basics,
    /// Routing and label tables.
    Tables,
    /// What interfaces need to be created.
    Sockets,
    Interfaces,
    /// What is enabled on interfaces.
    OnInterfaces,
    /// Before the neighbours: a neighbour may be on its link only because it is proxied.
    Proxies,
    Neighbours,
    Routes,
    /// Bounds, which would refuse what is there already.
    Limits,
    /// What the router does beyond forwarding.
    Services,
}
