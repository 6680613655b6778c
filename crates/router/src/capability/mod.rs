//! What a capability says of itself. From a list of descriptions ([`Router::with`]) the router takes all that belongs
//! to it: nodes, state, flags, arcs, features, commands, statements, what it hears and refuses, work that becomes due,
//! kinds of interfaces, and values. The list of the program is in the crate `capabilities`; a program may have others
//! beside them, and they can do what those can.

mod core;
pub(crate) mod start;

pub use crate::farewell::{Farewell, Parting};
pub use crate::interface::feature::{Does, FeatureSpec, no_more};
pub use crate::notice::{Change, Heard, Notice, Numbered, Wants};
pub use crate::statement::{Part, Phase, Statement, Statements};
pub use core::CAPABILITIES;
pub use start::Starting;

use crate::interface::Interface;
use crate::interface::kind::InterfaceKind;
use crate::{Error, Router};
use command::CommandSet;
use graph::{InterfaceIndex, NodeIndex, Snapshot};
use std::collections::BTreeSet;
use std::time::Instant;

/// The names of an interface's own nodes, where all interfaces are meant.
pub const OUTPUT: &str = "INTERFACE-output";
pub const TX: &str = "INTERFACE-tx";
/// Of a sub-interface, ahead of its parent's.
pub const SUB_OUTPUT: &str = "SUBINTERFACE-output";

/// A capability, as its folder describes it. What it leaves out is in [`Description::NONE`].
pub struct Description {
    pub name: &'static str,
    /// For `show plugins`; empty: it is not listed there, because another one speaks for it, or nothing works without.
    pub description: &'static str,
    /// Packet flags that are its own ([`graph::flag::claimable`]).
    pub flags: u32,
    /// Its nodes. Nodes that are not named are no capability's own.
    pub nodes: &'static [&'static str],
    /// Feature arcs that are its own, each with the node in which it ends.
    pub arcs: &'static [(&'static str, &'static str)],
    pub features: &'static [FeatureSpec],
    /// Sections of `startup.conf` that it has. [`Starting::section`] gives what the file says there.
    pub sections: &'static [startup::Section],
    /// Modules at the root of its crate, each with the class of the log that the module's messages are of.
    pub log_classes: &'static [(&'static str, &'static str)],
    /// Registers its nodes, and makes its state. Those of capabilities that come earlier in the list are there.
    pub start: fn(&mut Starting<'_>) -> Result<(), Error>,
    /// Hears what happened ([`Notice`]).
    pub hears: fn(&mut Router, &Notice),
    /// Publishes what follows from interfaces for its own nodes: what nodes know of these was published just now, and
    /// the operation that changed them may have much left to do.
    pub publishes: fn(&Router, &BTreeSet<InterfaceIndex>),
    /// Which of the many notices it hears.
    pub wants: Wants,
    /// Refuses a change that it could not bear. The core asks all before it changes anything.
    pub allows: fn(&Router, &Change) -> Result<(), Error>,
    /// Its last messages before the router falls silent on an interface, in the order of the list of capabilities.
    pub farewells: &'static [Farewell],
    /// What a traced packet belongs to at a node of its own, in a few words.
    pub traces: fn(&Router, &Snapshot) -> Option<String>,
    /// Whether this is a node of its own that is polled for nothing, which is not worth a line in `show runtime`.
    pub idles: fn(&Router, NodeIndex) -> bool,
    /// Chapters of the page on errors that its nodes begin or join.
    pub chapters: &'static [Chapter],
    /// The codes of its errors ([`crate::codes`]).
    pub codes: &'static [&'static [&'static str]],
    /// Kinds of interfaces that it provides.
    pub kinds: &'static [InterfaceKind],
    /// Adds its commands.
    pub commands: fn(&mut CommandSet<Router>),
    /// The parts of the running configuration that it states. All parts of a phase come before those of later phases;
    /// within a phase they are in the order of the list of capabilities.
    pub statements: &'static [(Phase, Part)],
    /// States what makes an interface that has no options of a kind ([`crate::interface::kind`]).
    pub makes: OfInterface,
    /// States its settings of an interface.
    pub settings: OfInterface,
    /// What it does when time passes.
    pub ticks: &'static [Tick],
    /// Kinds of arguments of commands, and the values that they may have, for completion.
    pub values: &'static [(&'static str, Values)],
}

impl Description {
    /// One that has nothing.
    pub const NONE: Description = Description {
        name: "",
        description: "",
        flags: 0,
        nodes: &[],
        arcs: &[],
        features: &[],
        sections: &[],
        log_classes: &[],
        start: |_| Ok(()),
        hears: |_, _| (),
        publishes: |_, _| (),
        wants: Wants::NONE,
        allows: |_, _| Ok(()),
        farewells: &[],
        traces: |_, _| None,
        chapters: &[],
        codes: &[],
        kinds: &[],
        idles: |_, _| false,
        commands: |_| (),
        statements: &[],
        makes: |_, _, _| (),
        settings: |_, _, _| (),
        ticks: &[],
        values: &[],
    };
}

/// Capabilities, in the order of the guide, of `show plugins` and, within a phase, of the configuration.
pub type List = &'static [&'static Description];

/// All sections of `startup.conf` that capabilities have.
pub fn sections(capabilities: List) -> Vec<&'static startup::Section> {
    capabilities.iter().flat_map(|capability| capability.sections).collect()
}

/// All kinds of interfaces, in the order of the list of capabilities.
pub fn kinds(capabilities: List) -> impl Iterator<Item = &'static InterfaceKind> {
    capabilities.iter().flat_map(|capability| capability.kinds)
}

/// The values that arguments of a kind may have.
pub type Values = fn(&Router) -> Vec<String>;

/// States something of an interface.
pub type OfInterface = fn(&Router, &Interface, &mut Vec<Statement>);

/// A chapter of `docs/guide/errors.md`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Chapter {
    pub stage: Stage,
    /// Chapters of one title are one.
    pub title: &'static str,
    /// What its nodes do, in a sentence. Empty: another capability says it.
    pub about: &'static str,
    pub nodes: &'static [&'static str],
}

/// Where packets meet the nodes of a chapter. Within a stage, chapters are in the order of the list of capabilities.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    Receiving,
    Link,
    Network,
    Local,
    Sending,
}

/// Work that is due at certain times. [`Router::tick`] does all of it that is due, in the order of the list of
/// capabilities.
pub struct Tick {
    pub when: When,
    /// Does what is due.
    pub work: fn(&mut Router, Instant),
    /// When more will be due, if that is known.
    pub next: fn(&Router) -> Option<Instant>,
}

impl Tick {
    pub const fn new(work: fn(&mut Router, Instant), next: fn(&Router) -> Option<Instant>) -> Tick {
        Tick { when: When::Usual, work, next }
    }

    /// It comes before links are looked at.
    pub const fn before_links(mut self) -> Tick {
        self.when = When::BeforeLinks;
        self
    }
}

/// When, within one tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// Before links are looked at: what a link that comes back begins anew must not end because of the time before.
    BeforeLinks,
    Usual,
}
