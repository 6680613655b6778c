//! What every test is given: a device or ports, cores, and how its progress is shown.

use super::output::Overwrite;
use clap::{Args, ValueEnum};
use loadtest::arithmetic::scaled;
use loadtest::energy::Watts;
use loadtest::method::Watch;
use loadtest::others;
use loadtest::page;
use loadtest::port::{PortSpec, read_trex};
use loadtest::profile::{Profile, shipped};
use loadtest::rate::{self, Rate};
use loadtest::report::{Machine, Sample};
use loadtest::run::{DeviceSpec, Plan};
use loadtest::session::Session;
use loadtest::tester::TestError;
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Direction {
    /// Ports 0, 2, ... send.
    Uni,
    /// All ports send.
    Bi,
}

#[derive(Args, Clone)]
pub struct Target {
    /// What is tested: quiver[:card=1mpps,line=1mpps,work=1000] (this program's router, with injected faults), kernel
    /// (Linux in a namespace), testpmd, null, reference[:lose=1000,above=1mpps,delay=1ms,duplicate=N,reorder=N,...], or
    /// behind ports exec:COMMAND and outside (the device that is there; the default when ports are given).
    #[arg(long, value_name = "DEVICE")]
    pub dut: Option<DeviceSpec>,
}

impl Target {
    pub fn device(&self) -> DeviceSpec {
        self.dut.clone().unwrap_or(DeviceSpec::Outside)
    }
}

#[derive(Args, Clone)]
pub struct SetUp {
    /// A port: null, tap:NAME, af_packet:INTERFACE, af_xdp:INTERFACE or memif:SOCKET, then, separated by commas, ip=,
    /// gw=, src=, dst=, speed=, queues=. Give it once for each port.
    #[arg(long, value_name = "PORT")]
    pub port: Vec<PortSpec>,
    /// Ports of a T-Rex configuration.
    #[arg(long, value_name = "FILE", conflicts_with = "port")]
    pub config: Option<PathBuf>,
    /// The line's speed, when the device does not know it: 10g, 2.5g, 100m.
    #[arg(long, value_name = "SPEED", value_parser = rate::speed)]
    pub speed: Option<f64>,
    /// Cores of the load tester's workers, one worker for each: 0, or 2,3.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub cores: Option<Vec<u32>>,
    /// Cores of the router under test, one worker for each.
    #[arg(long, value_name = "LIST", value_delimiter = ',')]
    pub dut_cores: Option<Vec<u32>>,
    /// Seconds between samples.
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS", value_parser = seconds)]
    pub interval: f64,
    /// The test ends when nothing has arrived for this many seconds after the last packet was sent.
    #[arg(long, default_value_t = 0.2, value_name = "SECONDS", value_parser = seconds)]
    pub drain: f64,
    /// Watts of the machine when it is idle and under load, as a power meter at the plug shows, for the energy per
    /// packet: 12,17. Where the processor has meters that may be read (RAPL), those are used.
    #[arg(long, value_name = "IDLE,LOAD")]
    pub watts: Option<Watts>,
    /// Percent of a core that other programs may use: with more, loss and unsent packets say nothing about the device,
    /// and there is no result.
    #[arg(long, default_value_t = others::LIMIT, value_name = "PERCENT", value_parser = percent)]
    pub others: f64,
    /// Packet buffers of the load tester.
    #[arg(long, default_value_t = 32_768, value_name = "N")]
    pub buffers: u32,
}

pub fn seconds(text: &str) -> Result<f64, String> {
    let seconds: Option<f64> = text.trim_end_matches('s').parse().ok();
    seconds.filter(|seconds| (0.001..=31_536_000.0).contains(seconds)).ok_or_else(|| "seconds, 0.001 or more".into())
}

/// Why ports are refused.
pub const OWN_PORTS: &str = "'--port' and '--config' are for a device behind them; this '--dut' has its own ports: \
 leave \
                             '--dut' out, or write '--dut outside'";

fn percent(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.trim_end_matches('%').parse().ok();
    percent.filter(|percent| (0.0..=100.0).contains(percent)).ok_or_else(|| "percent, 0 to 100".into())
}

/// The line rate that is assumed for devices in this process, which have no line.
const ASSUMED_LINE: f64 = 10e9;

impl SetUp {
    /// Whether ports were given: then the device behind them is tested, unless another device is named.
    pub fn has_ports(&self) -> bool {
        self.config.is_some() || !self.port.is_empty()
    }

    /// Drops the ports, for a device that brings its own.
    pub fn drop_ports(&mut self) {
        self.config = None;
        self.port.clear();
    }

    /// The plan of a run through a device, at a rate for this long.
    ///
    /// # Errors
    /// What is wrong with the ports.
    pub fn plan(
        &self,
        device: DeviceSpec,
        profile: Profile,
        direction: Direction,
        rate: Rate,
        seconds: f64,
    ) -> Result<Plan, String> {
        if !device.is_outside() && self.has_ports() {
            return Err(OWN_PORTS.into());
        }
        let ports = match &self.config {
            Some(file) => read_trex(file).map_err(|error| error.to_string())?,
            None => self.port.clone(),
        };
        Ok(Plan {
            profile,
            device,
            device_queues: None,
            device_workers: None,
            routes: None,
            ports,
            line: self.speed,
            rate,
            packets: None,
            is_bidirectional: direction == Direction::Bi,
            duration: Duration::from_secs_f64(seconds),
            interval: Duration::from_secs_f64(self.interval),
            drain: Duration::from_secs_f64(self.drain),
            cores: self.cores.clone(),
            device_cores: self.dut_cores.clone(),
            buffers: self.buffers,
            accounts: true,
            watts: self.watts,
            others: self.others,
        })
    }

    /// For a method that depends on the line's rate: shared memory has none, so a rate is assumed, with a note.
    pub fn assume_line(&mut self, device: &DeviceSpec, notes: &mut Vec<String>) {
        let has_none = !device.is_outside() && *device != DeviceSpec::Kernel;
        if self.speed.is_none() && has_none {
            self.speed = Some(ASSUMED_LINE);
            notes.push(format!(
                "{device} is behind shared memory, which has no speed: percents are of {}bit/s ('--speed').",
                scaled(ASSUMED_LINE)
            ));
        }
    }
}

/// A built-in profile, by its name or T-Rex's, or a file. Prints a note if a file could have been meant.
///
/// # Errors
/// What is wrong with it, as text.
pub fn profile(name: &str) -> Result<Profile, String> {
    if shipped(name).is_some() && Path::new(name).is_file() {
        eprintln!("Note: '{name}' is the built-in profile; the file of this name is './{name}'.");
    }
    Profile::load(name).map_err(|error| error.to_string())
}

/// The signal that interrupted the test; 0: none.
static SIGNAL: LazyLock<Arc<AtomicUsize>> = LazyLock::new(Arc::default);

/// The number of the signal that interrupted the test.
pub fn signal() -> Option<u8> {
    u8::try_from(SIGNAL.load(Ordering::Relaxed)).ok().filter(|signal| *signal > 0)
}

/// A flag that a signal sets to interrupt the test.
///
/// # Errors
/// Those of the system.
pub fn interruption() -> Result<Arc<AtomicBool>, String> {
    let interrupted = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The number is stored before the flag is set.
        let number = usize::try_from(signal).unwrap_or(0);
        signal_hook::flag::register_usize(signal, SIGNAL.clone(), number).map_err(|error| error.to_string())?;
        signal_hook::flag::register(signal, interrupted.clone()).map_err(|error| error.to_string())?;
    }
    Ok(interrupted)
}

/// A session, with the command line that was typed.
pub fn session() -> Session {
    let mut command: Vec<String> = std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    // Only the program's name: readers of the page must not see the user's directories.
    if let Some(program) = command.first_mut()
        && let Some(name) = Path::new(program.as_str()).file_name().map(|name| name.to_string_lossy().into_owned())
    {
        *program = name;
    }
    Session::new(command.join(" "), Machine::here(&[]))
}

/// A session as it is saved.
///
/// # Errors
/// When it cannot be written as JSON.
pub fn json(session: &Session) -> Result<Vec<u8>, String> {
    serde_json::to_vec_pretty(session).map_err(|error| error.to_string())
}

/// The options of every method.
#[derive(Args, Clone)]
pub struct Common {
    #[command(flatten)]
    pub kept: Kept,
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub setup: SetUp,
}

/// Runs a method of this many seconds, if that is known, shows its progress, and makes it interruptible.
///
/// # Errors
/// What failed, as text.
pub fn watched<T>(
    seconds: Option<f64>,
    method: impl FnOnce(&mut Watch<'_>) -> Result<T, TestError>,
) -> Result<T, String> {
    let interrupted = interruption()?;
    let mut progress = Progress::default();
    let mut show = |what: &str, share: f64, sample: Option<&_>| {
        progress.step(what, seconds.map(|seconds| seconds * (1.0 - share)), sample);
    };
    method(&mut Watch::new(&interrupted, seconds, &mut show)).map_err(|error| error.to_string())
}

/// Whether a test was completed.
///
/// # Errors
/// Why it was not.
pub fn ended(failure: Option<&str>) -> Result<(), String> {
    failure.map_or(Ok(()), |failure| Err(format!("{failure}; what was counted until then is above")))
}

/// Where results are saved, besides the terminal.
#[derive(Args, Clone)]
pub struct Kept {
    /// Save all figures as JSON, for 'quiver loadtest report'.
    #[arg(long, value_name = "FILE")]
    session: Option<String>,
    /// Draw the figures as a page.
    #[arg(long, value_name = "FILE")]
    html: Option<String>,
    #[command(flatten)]
    pub overwrite: Overwrite,
}

impl Kept {
    /// Checks whether a session can be saved as requested.
    ///
    /// # Errors
    /// Which file cannot be written, and why.
    pub fn check(&self) -> Result<(), String> {
        self.session.iter().chain(&self.html).try_for_each(|file| self.overwrite.check(file))
    }

    /// Saves a session as requested.
    ///
    /// # Errors
    /// Those of the system.
    pub fn keep(&self, session: &Session) -> Result<(), String> {
        if let Some(file) = &self.session {
            self.overwrite.write(file, json(session)?)?;
        }
        let Some(file) = &self.html else { return Ok(()) };
        self.overwrite.write(file, page::page(std::slice::from_ref(session)))
    }
}

/// The progress, on one line of a terminal.
#[derive(Default)]
pub struct Progress {
    before: Option<Sample>,
}

impl Progress {
    /// The same, if there is a sample.
    pub fn step(&mut self, what: &str, left: Option<f64>, now: Option<&Sample>) {
        if let Some(now) = now {
            self.show(what, left, now);
        }
    }

    /// Shows that `what` is being done, for `left` seconds more, if that is known.
    pub fn show(&mut self, what: &str, left: Option<f64>, now: &Sample) {
        if !std::io::stderr().is_terminal() {
            return;
        }
        let mut line = left.map_or(what.to_string(), |left| format!("{what}, {left:.0} s left"));
        let before = self.before.as_ref().filter(|before| before.at < now.at);
        for (at, port) in now.ports.iter().enumerate() {
            let last = before.and_then(|sample| sample.ports.get(at));
            let passed = now.at - before.map_or(0.0, |sample| sample.at);
            let rate = |count: u64, before: u64| scaled(count.saturating_sub(before) as f64 / passed.max(1e-9));
            line += &format!(
                "; port {}: {}pps sent, {}pps come back",
                port.port,
                rate(port.sent_packets, last.map_or(0, |last| last.sent_packets)),
                rate(port.received_packets, last.map_or(0, |last| last.received_packets))
            );
        }
        eprint!("\r\x1b[K{}", command::harmless_line(&line));
        let _ = std::io::stderr().flush();
        self.before = Some(now.clone());
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.before.is_some() {
            eprint!("\r\x1b[K");
        }
    }
}
