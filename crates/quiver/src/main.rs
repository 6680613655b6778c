//! The one binary: `quiver run`, `quiver cli`, `quiver bench`.
#![forbid(unsafe_code)]

mod bench;
mod cli;
mod crash;
mod daemon;
mod log_sink;
mod notify;
mod signals;
mod surroundings;
mod watchdog;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;

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
    /// Give commands to a running router: one, or those on standard input.
    Cli(cli::Options),
    /// Measure what a packet costs in the graph. Needs no privileges.
    Bench(bench::Options),
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().action {
        Action::Run { config, foreground } => daemon::run(config.as_deref(), foreground),
        Action::Cli(options) => cli::run(&options),
        Action::Bench(options) => bench::run(&options),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            if !message.is_empty() {
                eprintln!("quiver: {message}");
            }
            ExitCode::FAILURE
        }
    }
}
