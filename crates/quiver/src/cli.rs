//! `quiver cli`: commands for a running router.
//!
//! One command in the arguments, a batch from a file or standard input, or a person at a
//! terminal (`terminal.rs`). Only the last gets prompts, colours and pages.

use crate::reach::{connect, found_socket, settle};
use crate::terminal;
use command::Format;
use command::harmless;
use control::CliClient;
use control::cli_client::Failure;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Options {
    /// The router's CLI socket; without it the one that a running router listens on is looked for.
    #[arg(short, long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Answers as JSON.
    #[arg(long)]
    json: bool,
    /// Carry out the commands in a file.
    #[arg(short, long, value_name = "FILE", conflicts_with = "command")]
    file: Option<PathBuf>,
    /// In a batch, go on after a command that fails.
    #[arg(short, long, conflicts_with = "command")]
    keep_going: bool,
    /// The command; without one, commands are read from standard input.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Runs a command, a batch or a session.
///
/// # Errors
/// What failed, in words; empty when it has been printed already.
pub fn run(options: &Options) -> Result<(), String> {
    let socket = options.socket.clone().unwrap_or_else(found_socket);
    let at_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if options.command.is_empty() && options.file.is_none() && !options.json && at_terminal {
        return terminal::interact(&socket);
    }
    let mut client = connect(&socket, if options.json { Format::Json } else { Format::Text })?;
    if !options.command.is_empty() {
        return one(&mut client, &options.command.join(" "));
    }
    match &options.file {
        Some(file) => {
            let name = file.display().to_string();
            let file = File::open(file).map_err(|error| format!("{name}: {error}"))?;
            batch(&mut client, BufReader::new(file), &format!("{name}:"), options.keep_going)
        }
        None => batch(&mut client, io::stdin().lock(), "line ", options.keep_going),
    }
}

fn one(client: &mut CliClient, command: &str) -> Result<(), String> {
    match settle(client.run_to(command, &mut io::stdout()))?.flatten() {
        Some(message) => {
            eprintln!("{}", harmless(message.trim_end()));
            Err(String::new())
        }
        None => Ok(()),
    }
}

/// Runs a batch; each failure is named with `place` and the number of its line.
fn batch(client: &mut CliClient, input: impl BufRead, place: &str, keep_going: bool) -> Result<(), String> {
    let mut failures = 0;
    let failed = |Failure { line, message }| {
        failures += 1;
        eprintln!("{place}{line}: {}", harmless(&message));
        keep_going
    };
    settle(client.run_lines(input, io::stdout(), failed))?;
    if failures > 0 { Err(String::new()) } else { Ok(()) }
}
