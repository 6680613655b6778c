//! The ways in which operators and programs reach the router: the CLI socket that VPP's `vppctl` speaks to, its client,
//! and files of commands.
//!
//! This crate contains no network protocol and no commands but those of a session: each way in hands lines to an
//! [`Executor`] and passes its answers back. The program that owns the router provides the executor, which usually
//! sends the line to the thread that owns the router's state. The client's thread writes the answer piece by piece, so
//! that a slow reader holds up no other client, and no listing is held as text.

#![forbid(unsafe_code)]

pub mod cli_client;
pub mod cli_server;
mod cli_session;
mod completion;
mod connection;
pub mod exec;
mod line_editor;
mod printer;
mod session_commands;
mod telnet;
mod terminal;
mod wrap;

pub use cli_client::CliClient;
pub use cli_server::CliServer;
pub use cli_session::converse;
pub use command::Format;
pub use connection::Connection;
pub use session_commands::add_session_commands;

use std::time::Duration;

use command::{Args, CommandError, Completion, Files, Macros, Reply};

/// Runs command lines. Called from many threads at once, one per connection.
pub trait Executor: Send + Sync {
    /// Runs one command (which may span lines inside braces). The reply is rendered by
    /// the caller.
    ///
    /// # Errors
    /// The message for the operator.
    fn execute(&self, line: &str) -> Result<Box<dyn Reply>, CommandError>;

    /// The session command that a line names, if it names one: one of those that [`add_session_commands`] put into the
    /// grammar.
    fn of_session(&self, line: &str) -> Option<SessionLine>;

    /// Help on how an unfinished line could continue.
    fn help(&self, line: &str) -> String;

    /// The words that may stand at the end of an unfinished line.
    fn complete(&self, line: &str) -> Completion;

    /// Which files commands may name.
    fn files(&self) -> Files {
        Files::anywhere()
    }

    /// How interactive sessions begin.
    fn manners(&self) -> SessionDefaults {
        SessionDefaults::default()
    }
}

/// How long a client may be silent, by default.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3600);

/// How interactive sessions begin, and behave until an operator sets them otherwise.
#[derive(Clone, Debug)]
pub struct SessionDefaults {
    /// The greeting.
    pub banner: String,
    pub prompt: String,
    /// Lines kept for the up arrow; 0: none.
    pub history: usize,
    pub pager: bool,
    /// Most lines of one output that are paged.
    pub pager_limit: u32,
    /// What `$(NAME)` stands for, for all sessions and files that share them.
    pub macros: Macros,
    /// How long a client may be silent before its connection is closed; `None`: for ever.
    pub idle_timeout: Option<Duration>,
}

impl Default for SessionDefaults {
    fn default() -> Self {
        Self {
            banner: String::new(),
            prompt: "quiver# ".into(),
            history: line_editor::HISTORY_LINES,
            pager: true,
            pager_limit: terminal::PAGER_LIMIT,
            macros: Macros::default(),
            idle_timeout: Some(IDLE_TIMEOUT),
        }
    }
}

/// A line that the session itself carries out.
#[derive(Clone, Debug)]
pub struct SessionLine {
    /// The command's name in full, such as `set terminal pager`.
    pub name: String,
    pub args: Args,
}
