//! `quiver loadtest`: makes packets, receives them, and accounts for each. It needs no running router.

mod console;
mod matrix;
mod output;
mod ramp;
mod report;
mod saturate;
mod search;
mod setup;
mod soak;
mod sweep;

pub use ramp::spelled;

use clap::{Args, Subcommand};
use loadtest::arithmetic::{FrameSize, scaled};
use loadtest::linerate::{FullLine, Size, Slot};
use loadtest::profile::{NAMES, Profile, shipped};
use loadtest::rate::{self, Rate};
use loadtest::report::Sample;
use loadtest::run::{Bench, Plan, RunPolicy};
use output::Overwrite;
use serde::Serialize;
use setup::{Direction, Progress, SetUp, Target, ended, interruption, profile, seconds};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Send a profile for a while, and print the results.
    Run(Box<RunOptions>),
    /// Steer a test by hand, port by port, and watch it (like T-Rex's console).
    Console(Box<console::Options>),
    /// Raise the rate to a share of the line's, and see where loss begins (T-Rex's method 2).
    Ramp(Box<ramp::Options>),
    /// What one core carries, and what a packet costs at each rate (method 1).
    Saturate(Box<saturate::Options>),
    /// Hours at one rate: what is lost, what is late, and when.
    Soak(Box<soak::Options>),
    /// Throughput with and without a little loss (MLRsearch, RFC 9971; RFC 2544), delay and loss by load.
    Search(Box<search::Options>),
    /// Frames of many sizes, in both directions.
    Sweep(Box<sweep::Options>),
    /// Large and small packets, in one direction and in both, through one device or several: a table, and a page.
    Matrix(Box<matrix::Options>),
    /// Draw saved results as one page.
    Report(report::Options),
    /// Calculate what a line carries, or a slot for a card.
    Linerate(LinerateOptions),
    /// List the built-in profiles, or print one.
    Profiles { name: Option<String> },
    /// Check a profile.
    Check { file: String },
}

#[derive(Args)]
struct RunOptions {
    /// What is sent: a built-in profile, or a file.
    #[arg(short, long, default_value = "bench", value_name = "NAME|FILE")]
    profile: String,
    /// How much each port sends: 1kpps, 10Mpps, 1gbps, 1gbpsl1, 100%, max, or a multiple of the profile.
    #[arg(short = 'm', long = "rate", default_value = "1", value_name = "RATE")]
    rate: Rate,
    /// Seconds.
    #[arg(short, long, default_value_t = 10.0, value_name = "SECONDS", value_parser = seconds)]
    duration: f64,
    #[arg(long, value_enum, default_value = "uni")]
    direction: Direction,
    /// Each port ends after this many packets.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    packets: Option<u64>,
    /// Do not account for packets, to see what accounting costs.
    #[arg(long)]
    no_accounting: bool,
    /// Write all figures as JSON to a file, or to standard output (-).
    #[arg(short, long, value_name = "FILE")]
    output: Option<String>,
    #[command(flatten)]
    overwrite: Overwrite,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    setup: SetUp,
}

#[derive(Args)]
struct LinerateOptions {
    /// The line's speed.
    #[arg(short, long, default_value = "10g", value_name = "SPEED", value_parser = rate::speed)]
    speed: f64,
    /// Bytes of a frame with its frame check sequence, as RFC 2544 counts them; 64 are the least.
    #[arg(long, default_value_t = 64, value_name = "BYTES", value_parser = frame_size)]
    size: u32,
    /// Instead of '--size': bytes without frame check sequence, as T-Rex and captures count them: 60 are a frame of 64.
    #[arg(long, conflicts_with = "size", value_name = "BYTES",
        value_parser = clap::value_parser!(u32).range(60..=65_531))]
    buffer_size: Option<u32>,
    /// A processor's clock, for clocks per packet: 2g.
    #[arg(short, long, value_name = "HERTZ", value_parser = rate::speed)]
    frequency: Option<f64>,
    /// A slot for a card: generation and lanes (3x4), or GT/s and lanes (8gtx4).
    #[arg(long, value_name = "SLOT", value_parser = Slot::parse)]
    pcie: Option<Slot>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// How the command ended.
pub enum Ended {
    Whole,
    /// By a signal with this number; the results so far are printed.
    Interrupted(u8),
}

/// A size with its frame check sequence.
fn frame_size(text: &str) -> Result<u32, String> {
    let size: u32 = text.parse().map_err(|_| "bytes of a frame, 64 to 65535")?;
    match size {
        64..=65_535 => Ok(size),
        60..64 => Err(format!(
            "Ethernet frames have 64 bytes or more with their frame check sequence; {size} without it are \
             '--buffer-size {size}'"
        )),
        _ => Err("bytes of a frame, 64 to 65535".into()),
    }
}

/// Runs the command.
///
/// # Errors
/// What failed, as text.
pub fn run(options: &Options) -> Result<Ended, String> {
    act(options)?;
    // An operator at a console ends it with a signal: that is no interruption.
    let is_console = matches!(options.action, Action::Console(_));
    Ok(setup::signal().filter(|_| !is_console).map_or(Ended::Whole, Ended::Interrupted))
}

fn act(options: &Options) -> Result<(), String> {
    match &options.action {
        Action::Run(options) => test(options),
        Action::Console(options) => console::run(options),
        Action::Ramp(options) => ramp::run(options),
        Action::Saturate(options) => saturate::run(options),
        Action::Soak(options) => soak::run(options),
        Action::Search(options) => search::run(options),
        Action::Sweep(options) => sweep::run(options),
        Action::Matrix(options) => matrix::run(options),
        Action::Report(options) => report::run(options),
        Action::Linerate(options) => linerate(options),
        Action::Profiles { name: None } => list(),
        Action::Profiles { name: Some(name) } => {
            let text = shipped(name)
                .ok_or_else(|| format!("there is no built-in profile '{name}': there are {}", NAMES.join(", ")))?;
            super::say(text.as_bytes())
        }
        Action::Check { file } => {
            let profile = profile(file)?;
            let ends = loadtest::frame::Ends::default();
            let mut text = String::new();
            for port in [0, 1] {
                let programs =
                    loadtest::program::Program::of_port(&profile, port, ends).map_err(|error| error.to_string())?;
                for program in programs {
                    let tag = match (program.is_tagged(), program.is_timed()) {
                        (true, true) => "counted and timed",
                        (true, false) => "counted, not timed",
                        (false, _) => "not told apart",
                    };
                    text += &format!(
                        "port {port}: {}: {} pps of {} bytes (buffer/frame/wire), {tag}\n",
                        program.name,
                        scaled(program.rate).trim(),
                        told(&program.sizes())
                    );
                }
            }
            super::say(text.as_bytes())
        }
    }
}

/// Sizes of frames, each in its three forms; of many, only the first and the last.
fn told(sizes: &[u16]) -> String {
    const MOST: usize = 16;
    let size = |size: &u16| FrameSize((*size).into()).to_string();
    match sizes {
        [first, .., last] if sizes.len() > MOST => format!("{} to {}, {} sizes,", size(first), size(last), sizes.len()),
        _ => sizes.iter().map(size).collect::<Vec<_>>().join(" "),
    }
}

fn list() -> Result<(), String> {
    let mut text = String::new();
    for name in NAMES {
        let profile = Profile::built_in(name).map_err(|error| error.to_string())?;
        text += &format!("{name:<18}{}\n", profile.description);
    }
    super::say(text.as_bytes())
}

fn linerate(options: &LinerateOptions) -> Result<(), String> {
    #[derive(Serialize)]
    struct Both {
        line: FullLine,
        slot: Option<Slot>,
    }
    let size = options.buffer_size.map_or(Size::WithFcs(options.size), Size::WithoutFcs);
    let both = Both { line: FullLine::new(size, options.speed, options.frequency), slot: options.pcie };
    let mut text = match options.json {
        true => serde_json::to_string_pretty(&both).map_err(|error| error.to_string())?,
        false => both.line.to_string(),
    };
    if let Some(slot) = both.slot.filter(|_| !options.json) {
        text += &format!("\n{slot}");
    }
    super::say((text + "\n").as_bytes())
}

/// Shows the progress until the test is over or interrupted.
struct Watcher {
    interrupted: Arc<AtomicBool>,
    progress: Progress,
    duration: f64,
}

impl RunPolicy for Watcher {
    fn sampled(&mut self, sample: &Sample) {
        self.progress.show("run", Some(self.duration - sample.at), sample);
    }

    fn is_interrupted(&self) -> bool {
        self.interrupted.load(Ordering::Relaxed)
    }
}

fn test(options: &RunOptions) -> Result<(), String> {
    let text = |error: loadtest::tester::TestError| error.to_string();
    options.output.iter().filter(|file| *file != "-").try_for_each(|file| options.overwrite.check(file))?;
    let profile = profile(&options.profile)?;
    let profile = if options.no_accounting { profile.untagged() } else { profile };
    let plan =
        options.setup.plan(options.target.device(), profile, options.direction, options.rate, options.duration)?;
    let plan = Plan { accounts: !options.no_accounting, packets: options.packets, ..plan };
    let mut watcher =
        Watcher { interrupted: interruption()?, progress: Progress::default(), duration: options.duration };
    let mut bench = Bench::new(&plan).map_err(text)?;
    let report = bench.run(&plan, &mut watcher).map_err(text)?;
    drop(watcher);
    let json = || serde_json::to_vec_pretty(&report).map_err(|error| error.to_string());
    match options.output.as_deref() {
        Some("-") => super::say(&[json()?, b"\n".to_vec()].concat())?,
        Some(file) => {
            options.overwrite.write(file, json()?)?;
            super::say(report.to_string().as_bytes())?;
        }
        None => super::say(report.to_string().as_bytes())?,
    }
    ended(report.failure())
}
