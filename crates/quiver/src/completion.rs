//! Completion in shells: the script that `quiver completion bash` prints, and
//! `quiver complete`, which the script calls back for the router's own commands.
//!
//! A router that answers at once provides the words, since it knows its interfaces; else the words come from the
//! grammar, which this program has, too.

use crate::daemon::grammar;
use crate::reach::found_socket;
use clap_complete::Shell;
use command::Format;
use control::CliClient;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Timeout for a router's answer: the operator has pressed a key and waits.
const PATIENCE: Duration = Duration::from_millis(300);

/// Completes commands of the router; it follows the script that clap makes for options.
const COMMANDS_SCRIPT: &str = include_str!("completion.bash");

#[derive(clap::Args)]
pub struct Options {
    /// The router's CLI socket.
    #[arg(short, long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// The command so far; the last word, which may be empty, is the one to complete.
    #[arg(last = true)]
    words: Vec<String>,
}

/// Prints the script for bash.
pub fn script(arguments: &clap::Command) -> Result<(), String> {
    // Leave out hidden actions.
    let shown = arguments.get_subcommands().filter(|action| !action.is_hide_set());
    let mut shown = clap::Command::new("quiver").args(arguments.get_arguments()).subcommands(shown);
    let mut script = Vec::new();
    clap_complete::generate(Shell::Bash, &mut shown, "quiver", &mut script);
    script.extend(COMMANDS_SCRIPT.bytes());
    crate::say(&script)
}

/// Prints the words that complete a command, one on each line.
pub fn run(options: &Options) -> Result<(), String> {
    let line = options.words.join(" ");
    let socket = options.socket.clone().unwrap_or_else(found_socket);
    let words = from_router(&socket, &line).unwrap_or_else(|| from_grammar(&line));
    let mut text = words.join("\n");
    if !text.is_empty() {
        text.push('\n');
    }
    crate::say(text.as_bytes())
}

fn from_router(socket: &Path, line: &str) -> Option<Vec<String>> {
    CliClient::connect_within(socket, Format::Text, PATIENCE).ok()?.complete(line).ok()
}

fn from_grammar(line: &str) -> Vec<String> {
    let completion = grammar().complete(line, &|_| Vec::new());
    completion.candidates.into_iter().map(|candidate| candidate.word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_router_the_grammar_completes() {
        assert_eq!(from_router(Path::new("/nonexistent/cli.sock"), "sh"), None);
        assert_eq!(from_grammar("set interface m"), ["mac", "mpls", "mtu"]);
        assert_eq!(from_grammar("set terminal ansi "), ["off", "on"]);
    }
}
