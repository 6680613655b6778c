//! The doors by which operators and programs reach the router: the CLI socket that VPP's
//! `vppctl` speaks to, its client, files of commands and `startup.conf`.
//!
//! This crate knows no protocol of the network and no command: every door hands lines to
//! an [`Executor`] and passes its answers back. The program that owns the router brings
//! the executor, which usually sends the line to the thread that owns the router's state.

#![forbid(unsafe_code)]

pub mod cli_client;
pub mod cli_server;
mod cli_session;
pub mod exec;
mod line_editor;
pub mod startup;
mod telnet;

pub use cli_client::CliClient;
pub use cli_server::CliServer;
pub use command::Format;
pub use startup::StartupConfig;

/// Whoever runs command lines. Called from many threads at once, one per connection.
pub trait Executor: Send + Sync {
    /// Runs one command (which may span lines inside braces) and returns its output, or
    /// the error message for the operator.
    fn execute(&self, line: &str, format: Format) -> Result<String, String>;

    /// Help on what an unfinished line could go on with.
    fn help(&self, line: &str) -> String;

    /// What an interactive session is greeted with.
    fn banner(&self) -> String;
}
