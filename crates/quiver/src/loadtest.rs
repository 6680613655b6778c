//! `quiver loadtest`: makes packets, receives them, and accounts for each. Needs no router that runs.

use clap::{Args, Subcommand, ValueEnum};
use loadtest::arithmetic::{FrameSize, scaled};
use loadtest::linerate::{FullLine, Slot};
use loadtest::port::{PortSpec, read_trex};
use loadtest::profile::{NAMES, Profile, shipped};
use loadtest::rate::{self, Rate};
use loadtest::report::Sample;
use loadtest::run::{Bench, DeviceSpec, Plan};
use serde::Serialize;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

#[derive(Args)]
pub struct Options {
    #[command(subcommand)]
    action: Action,
}

#[derive(Subcommand)]
enum Action {
    /// Send a profile for a while, and say what came of it.
    Run(Box<RunOptions>),
    /// Reckon what a line carries, or a slot for a card.
    Linerate(LinerateOptions),
    /// List the profiles that come along, or print one.
    Profiles { name: Option<String> },
    /// Check a profile.
    Check { file: String },
}

#[derive(Clone, Copy, ValueEnum)]
enum Direction {
    /// Ports 0, 2, ... send.
    Uni,
    /// All ports send.
    Bi,
}

#[derive(Args)]
struct RunOptions {
    /// What is sent: a profile that comes along, or a file.
    #[arg(short, long, default_value = "bench", value_name = "NAME|FILE")]
    profile: String,
    /// A device in this process: quiver, null, or reference[:lose=1000,above=1mpps,delay=1ms,duplicate=N,reorder=N,...].
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["port", "config"])]
    dut: Option<DeviceSpec>,
    /// A port: null, tap:NAME, af_packet:INTERFACE, af_xdp:INTERFACE or memif:SOCKET, and behind commas ip=, gw=, src=, dst=,
    /// speed=, queues=. Give it once for each port.
    #[arg(long, value_name = "PORT")]
    port: Vec<PortSpec>,
    /// Ports of a T-Rex configuration.
    #[arg(long, value_name = "FILE", conflicts_with = "port")]
    config: Option<PathBuf>,
    /// How much each port sends: 1kpps, 10Mpps, 1gbps, 1gbpsl1, 100%, max, or so many times the profile.
    #[arg(short = 'm', long = "rate", default_value = "1", value_name = "RATE")]
    rate: Rate,
    /// Seconds.
    #[arg(short, long, default_value_t = 10.0, value_name = "SECONDS", value_parser = seconds)]
    duration: f64,
    #[arg(long, value_enum, default_value = "uni")]
    direction: Direction,
    /// The line's speed, when the device does not know it: 10g, 2.5g, 100m.
    #[arg(long, value_name = "SPEED", value_parser = rate::speed)]
    speed: Option<f64>,
    /// Cores of the load tester's workers, each a worker: 0, or 2,3.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    cores: Option<Vec<u32>>,
    /// Cores of the router under test, each a worker.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    dut_cores: Option<Vec<u32>>,
    /// Seconds between samples.
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS", value_parser = seconds)]
    interval: f64,
    /// It is over when nothing has come for so many seconds after the last was sent.
    #[arg(long, default_value_t = 0.2, value_name = "SECONDS", value_parser = seconds)]
    drain: f64,
    /// Packet buffers of the load tester.
    #[arg(long, default_value_t = 32_768, value_name = "N")]
    buffers: u32,
    /// Account for nothing, to see what accounting costs.
    #[arg(long)]
    no_accounting: bool,
    /// Write all figures as JSON to a file, or to standard output (-).
    #[arg(short, long, value_name = "FILE")]
    output: Option<String>,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: Option<f64> = text.trim_end_matches('s').parse().ok();
    seconds.filter(|seconds| (0.001..=31_536_000.0).contains(seconds)).ok_or_else(|| "seconds, 0.001 or more".into())
}

#[derive(Args)]
struct LinerateOptions {
    /// The line's speed.
    #[arg(short, long, default_value = "10g", value_name = "SPEED", value_parser = rate::speed)]
    speed: f64,
    /// Bytes of a frame in its buffer, without frame check sequence: 60 are a frame of 64.
    #[arg(long, default_value_t = 60, value_name = "BYTES", value_parser = clap::value_parser!(u32).range(1..=65_535))]
    size: u32,
    /// A processor's clock, for clocks per packet: 2g.
    #[arg(short, long, value_name = "HERTZ", value_parser = rate::speed)]
    frequency: Option<f64>,
    /// A slot for a card: generation and lanes (3x4), or GT/s and lanes (8gtx4).
    #[arg(long, value_name = "SLOT", value_parser = Slot::parse)]
    pcie: Option<Slot>,
    /// As JSON.
    #[arg(long)]
    json: bool,
}

/// Does it.
///
/// # Errors
/// What failed, in words.
pub fn run(options: &Options) -> Result<(), String> {
    match &options.action {
        Action::Run(options) => test(options),
        Action::Linerate(options) => linerate(options),
        Action::Profiles { name: None } => list(),
        Action::Profiles { name: Some(name) } => {
            let text = shipped(name)
                .ok_or_else(|| format!("no profile `{name}' comes along: there are {}", NAMES.join(", ")))?;
            super::say(text.as_bytes())
        }
        Action::Check { file } => {
            let profile = Profile::load(file).map_err(|error| error.to_string())?;
            let ends = loadtest::frame::Ends { source: Default::default(), destination: Default::default() };
            let mut text = String::new();
            for port in [0, 1] {
                let programs =
                    loadtest::program::Program::of_port(&profile, port, ends).map_err(|error| error.to_string())?;
                for program in programs {
                    let sizes: Vec<String> =
                        program.sizes().iter().map(|size| FrameSize((*size).into()).to_string()).collect();
                    let tag = match (program.is_tagged(), program.is_timed()) {
                        (true, true) => "counted and timed",
                        (true, false) => "counted, not timed",
                        (false, _) => "not told apart",
                    };
                    text += &format!(
                        "port {port}: {}: {} pps of {} bytes (buffer/frame/wire), {tag}\n",
                        program.name,
                        scaled(program.rate).trim(),
                        sizes.join(" ")
                    );
                }
            }
            super::say(text.as_bytes())
        }
    }
}

fn list() -> Result<(), String> {
    let mut text = String::new();
    for name in NAMES {
        let profile = Profile::load(name).map_err(|error| error.to_string())?;
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
    let both =
        Both { line: FullLine::new(FrameSize(options.size), options.speed, options.frequency), slot: options.pcie };
    let mut text = match options.json {
        true => serde_json::to_string_pretty(&both).map_err(|error| error.to_string())?,
        false => both.line.to_string(),
    };
    if let Some(slot) = both.slot.filter(|_| !options.json) {
        text += &format!("\n{slot}");
    }
    super::say((text + "\n").as_bytes())
}

fn test(options: &RunOptions) -> Result<(), String> {
    let text = |error: loadtest::tester::TestError| error.to_string();
    let ports = match &options.config {
        Some(file) => read_trex(file).map_err(|error| error.to_string())?,
        None => options.port.clone(),
    };
    let profile = Profile::load(&options.profile).map_err(|error| error.to_string())?;
    let plan = Plan {
        profile: if options.no_accounting { profile.untagged() } else { profile },
        device: options.dut.clone().unwrap_or(DeviceSpec::Outside),
        ports,
        line: options.speed,
        rate: options.rate,
        is_bidirectional: matches!(options.direction, Direction::Bi),
        duration: Duration::from_secs_f64(options.duration),
        interval: Duration::from_secs_f64(options.interval),
        drain: Duration::from_secs_f64(options.drain),
        cores: options.cores.clone(),
        device_cores: options.dut_cores.clone(),
        buffers: options.buffers,
        accounts: !options.no_accounting,
    };
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        signal_hook::flag::register(signal, interrupted.clone()).map_err(|error| error.to_string())?;
    }
    let mut bench = Bench::new(&plan).map_err(text)?;
    let mut before: Option<Sample> = None;
    let is_shown = std::io::stderr().is_terminal();
    let mut watch = |sample: &Sample| {
        if is_shown {
            show(sample, before.as_ref(), options.duration);
        }
        before = Some(sample.clone());
    };
    let report = bench.run(&plan, &interrupted, &mut watch).map_err(text)?;
    if is_shown {
        eprint!("\r\x1b[K");
    }
    let json = || serde_json::to_vec_pretty(&report).map_err(|error| error.to_string());
    match options.output.as_deref() {
        Some("-") => super::say(&[json()?, b"\n".to_vec()].concat())?,
        Some(file) => {
            std::fs::write(file, json()?).map_err(|error| format!("{file}: {error}"))?;
            super::say(report.to_string().as_bytes())?;
        }
        None => super::say(report.to_string().as_bytes())?,
    }
    match report.ended.as_str() {
        "duration" | "sent" | "interrupt" => Ok(()),
        failure => Err(format!("{failure}; what was counted until then is above")),
    }
}

/// How it goes, on one line.
fn show(now: &Sample, before: Option<&Sample>, duration: f64) {
    let mut line = format!("{:.0} of {duration:.0} s", now.at);
    for (at, port) in now.ports.iter().enumerate() {
        let last = before.and_then(|sample| sample.ports.get(at));
        let passed = now.at - before.map_or(0.0, |sample| sample.at);
        let rate = |count: u64, before: u64| scaled((count - before) as f64 / passed.max(1e-9));
        line += &format!(
            "; port {}: {}pps sent, {}pps come back",
            port.port,
            rate(port.sent_packets, last.map_or(0, |last| last.sent_packets)),
            rate(port.received_packets, last.map_or(0, |last| last.received_packets))
        );
    }
    eprint!("\r\x1b[K{line}");
    let _ = std::io::stderr().flush();
}
