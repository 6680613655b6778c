//! The one binary: `quiver run`, `quiver cli`, `quiver bench`; under the name `vppctl`, that.
#![forbid(unsafe_code)]

mod cli;
mod completion;
mod control_client;
mod control_watch;
mod cores;
mod crash;
mod daemon;
mod generate;
mod loadtest;
mod log_sink;
mod log_writer;
mod notify;
mod reach;
mod show_config;
mod signals;
mod surroundings;
mod terminal;
mod vppctl;
mod watchdog;

#[global_allocator]
static HEAP: heap::Heap = heap::Heap;

use clap::{CommandFactory, Parser, Subcommand};
use command::harmless;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// A vector packet router in Linux user space.
#[derive(Parser)]
#[command(name = "quiver", version, about)]
struct Arguments {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Run the router.
    Run {
        /// Startup configuration, in the grammar of VPP's startup.conf. Without one the
        /// router stays in the foreground with defaults.
        #[arg(short, long, value_name = "FILE")]
        config: Option<PathBuf>,
        /// Stay in the foreground whatever the configuration says.
        #[arg(long)]
        foreground: bool,
    },
    /// Give commands to a running router: one, those of a file or standard input, or as a
    /// person at the terminal.
    Cli(cli::Options),
    /// Print a script that completes commands in a shell: `source <(quiver completion bash)`.
    Completion {
        #[arg(value_parser = ["bash"])]
        shell: String,
    },
    /// The words that complete the beginning of a command, for shells.
    #[command(hide = true)]
    Complete(completion::Options),
    /// Print documents that are made of the code.
    #[command(hide = true)]
    Generate {
        #[arg(value_enum)]
        document: generate::Document,
    },
    /// Keep the sides in Linux of a router's pairs while no router runs: `run` starts it. Routers come by standard
    /// input, a listening socket.
    #[command(hide = true)]
    KeepLinks {
        /// How many seconds.
        time: u64,
    },
    /// Measure what a packet costs in the graph. Needs no privileges.
    Bench(Box<bench::Options>),
    /// Test a router under load: send packets through it, receive them, account for each.
    Loadtest(loadtest::Options),
}

fn main() -> ExitCode {
    if vppctl::is_our_name() {
        return report(vppctl::run());
    }
    report(match Arguments::parse_from(loadtest::spelled(std::env::args_os())).action {
        Action::Run { config, foreground } => return router_ended(daemon::run(config.as_deref(), foreground)),
        Action::Cli(options) => cli::run(&options),
        Action::Completion { .. } => completion::script(&Arguments::command()),
        Action::Complete(options) => completion::run(&options),
        Action::Generate { document } => generate::run(document, &Arguments::command()),
        Action::KeepLinks { time } => keep_links(time),
        Action::Bench(options) => bench::run(&options).and_then(|text| say(text.as_bytes())),
        Action::Loadtest(options) => match loadtest::run(&options) {
            // As a shell says it of a program that a signal ended.
            Ok(loadtest::Ended::Interrupted(signal)) => return ExitCode::from(128 + signal),
            other => other.map(drop),
        },
    })
}

fn keep_links(time: u64) -> Result<(), String> {
    let listener = io::stdin().as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    linux_cp::keep_links(&listener, Duration::from_secs(time)).map_err(|error| error.to_string())
}

/// Writes to standard output, with nothing in it that steers a terminal; a reader that has seen enough, as `head`
/// has, is no fault.
fn say(bytes: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(bytes);
    match io::stdout().lock().write_all(harmless(&text).as_bytes()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(format!("standard output: {error}")),
        _ => Ok(()),
    }
}

/// Reports why the router ended; one whose standard error is a full pipe ends all the same.
fn router_ended(outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Err(message) if !message.is_empty() => {
            log_writer::say(&format!("quiver: {}\n", harmless(&message)), log_sink::LAST_LINES);
            ExitCode::FAILURE
        }
        outcome => report(outcome),
    }
}

fn report(outcome: Result<(), String>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            if !message.is_empty() {
                eprintln!("quiver: {}", harmless(&message));
            }
            ExitCode::FAILURE
        }
    }
}
