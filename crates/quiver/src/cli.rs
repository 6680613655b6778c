//! `quiver cli`: commands for a running router.

use command::Format;
use control::CliClient;
use control::startup::StartupConfig;
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;

#[derive(clap::Args)]
pub struct Options {
    /// The router's CLI socket.
    #[arg(short, long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Answers as JSON.
    #[arg(long)]
    json: bool,
    /// The command; without one, commands are read from standard input.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    command: Vec<String>,
}

/// Runs a command, a batch or a session.
///
/// # Errors
/// What failed, in words; empty when it has been printed already.
pub fn run(options: &Options) -> Result<(), String> {
    let socket = options.socket.clone().unwrap_or_else(|| StartupConfig::default().unix.cli_listen);
    let format = if options.json { Format::Json } else { Format::Text };
    let mut client = CliClient::connect(&socket, format)
        .map_err(|error| format!("no router answers on {}: {error} (is `quiver run' running?)", socket.display()))?;
    let (input, mut output) = (io::stdin(), io::stdout());
    if options.command.is_empty() {
        return match input.is_terminal() {
            true => client.interact(input.lock(), &mut output).map_err(|error| error.to_string()),
            false => client.run_lines(input.lock(), &mut output).map_err(|error| error.to_string()),
        };
    }
    let outcome = client.run(&options.command.join(" ")).map_err(|error| error.to_string())?;
    if !outcome.success {
        eprint!("{}{}", outcome.text, if outcome.text.ends_with('\n') { "" } else { "\n" });
        return Err(String::new());
    }
    // A reader that has seen enough (a pager, head) is no failure.
    let _ = output.write_all(outcome.text.as_bytes()).and_then(|()| output.flush());
    Ok(())
}
