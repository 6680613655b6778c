//! `quiver loadtest ramp`, and `trex-loadtest`: the same command under the name, and with the flags, of the script that
//! made the method known.

use super::setup::{Common, Direction, Progress, interruption, profile, seconds, session};
use clap::Args;
use loadtest::arithmetic::scaled;
use loadtest::method::Watch;
use loadtest::method::contract::Contract;
use loadtest::method::ramp::{self, Overload, Ramp, Slope};
use loadtest::rate::Rate;
use loadtest::run::{Bench, DeviceSpec, Plan};
use loadtest::session::Test;
use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

/// Where T-Rex configures its ports.
const TREX_CONFIG: &str = "/etc/trex_cfg.yaml";

#[derive(Args)]
pub struct Options {
    /// T-Rex's server. It is ignored: this program sends the packets.
    #[arg(short, long, default_value = "127.0.0.1", value_name = "SERVER")]
    server: String,
    /// What is sent: a built-in profile, a file, or a name of T-Rex's (imix.py).
    #[arg(short, long, default_value = "imix", value_name = "NAME|FILE")]
    profile: String,
    /// Where the JSON of trex-loadtest.py goes; - is standard output.
    #[arg(short, long, default_value = "-", value_name = "FILE")]
    output: String,
    /// Rate of the warm-up (-wm).
    #[arg(long = "warmup_mult", visible_alias = "warmup-mult", default_value = "1kpps", value_name = "RATE")]
    warmup_mult: String,
    /// Seconds of the warm-up (-wd).
    #[arg(long = "warmup_duration", visible_alias = "warmup-duration", default_value_t = 30.0, value_name = "SECONDS",
        value_parser = from_none)]
    warmup_duration: f64,
    /// Percent of the line's rate to go up to (-rt).
    #[arg(long = "rampup_target", visible_alias = "rampup-target", default_value_t = 100.0, value_name = "PERCENT",
        value_parser = percent)]
    rampup_target: f64,
    /// Seconds to go up in (-rd).
    #[arg(long = "rampup_duration", visible_alias = "rampup-duration", default_value_t = 600.0, value_name = "SECONDS",
        value_parser = seconds)]
    rampup_duration: f64,
    /// Seconds to stay there (-hd).
    #[arg(long = "hold_duration", visible_alias = "hold-duration", default_value_t = 30.0, value_name = "SECONDS",
        value_parser = from_none)]
    hold_duration: f64,
    #[arg(long, value_enum, default_value = "bi")]
    direction: Direction,
    /// Receive queues of the router under test: a ramp for each number.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=64))]
    rx_queues: Vec<u16>,
    /// Workers of the router under test; as many as queues unless given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64), conflicts_with = "dut_cores")]
    workers: Option<u16>,
    #[command(flatten)]
    common: Common,
}

fn from_none(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('s').parse() {
        Ok(0.0) => Ok(0.0),
        _ => seconds(text).map_err(|_| "seconds, 0 or more".into()),
    }
}

fn percent(text: &str) -> Result<f64, String> {
    let percent: Option<f64> = text.trim_end_matches('%').parse().ok();
    percent.filter(|percent| (0.001..=10_000.0).contains(percent)).ok_or_else(|| "percent of the line's rate".into())
}

/// Whether the program was called by the script's name.
pub fn is_our_name() -> bool {
    let called = std::env::args_os().next().unwrap_or_default();
    Path::new(&called).file_name().is_some_and(|name| name == "trex-loadtest" || name == "trex-loadtest.py")
}

/// Replaces the script's flags of two letters, which other programs do not have, by their long forms.
pub fn spelled(arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = arguments.collect();
    if is_our_name() {
        arguments.splice(..1, ["quiver", "loadtest", "ramp"].map(OsString::from));
    }
    if arguments.get(1).is_some_and(|word| word == "loadtest") && arguments.get(2).is_some_and(|word| word == "ramp") {
        for word in &mut arguments[3..] {
            for (short, long) in [
                ("-wm", "--warmup_mult"),
                ("-wd", "--warmup_duration"),
                ("-rt", "--rampup_target"),
                ("-rd", "--rampup_duration"),
                ("-hd", "--hold_duration"),
            ] {
                let Some(text) = word.to_str() else { continue };
                if text == short {
                    *word = long.into();
                } else if let Some(value) = text.strip_prefix(short) {
                    *word = format!("{long}={}", value.trim_start_matches('=')).into();
                }
            }
        }
    }
    arguments
}

/// Runs the command.
///
/// # Errors
/// What failed, as text.
pub fn run(options: &Options) -> Result<(), String> {
    if !["127.0.0.1", "::1", "localhost"].contains(&options.server.as_str()) {
        return Err(format!(
            "'--server {}': there is no server to ask: packets are sent from this machine",
            options.server
        ));
    }
    let mut setup = options.common.setup.clone();
    let device = options.common.target.device();
    if device == DeviceSpec::Outside && !setup.has_ports() && Path::new(TREX_CONFIG).exists() {
        setup.config = Some(TREX_CONFIG.into());
    }
    let mut session = session();
    setup.assume_line(&device, &mut session.notes);
    let slope = Slope {
        warmup_rate: options.warmup_mult.parse::<Rate>().map_err(|error| error.to_string())?,
        warmup: Duration::from_secs_f64(options.warmup_duration),
        target: options.rampup_target,
        rampup: Duration::from_secs_f64(options.rampup_duration),
        hold: Duration::from_secs_f64(options.hold_duration),
    };
    let plan = setup.plan(device, profile(&options.profile)?, options.direction, slope.warmup_rate, 1.0)?;
    if (!options.rx_queues.is_empty() || options.workers.is_some()) && !plan.device.is_quiver() {
        return Err("'--rx-queues' and '--workers' are of the router under test: '--dut quiver'".into());
    }
    options.common.kept.check()?;
    if options.output != "-" {
        let more = options.rx_queues.iter().skip(1).map(|queues| numbered(&options.output, &label(Some(*queues))));
        for file in std::iter::once(options.output.clone()).chain(more) {
            options.common.kept.overwrite.check(file)?;
        }
    }
    let interrupted = interruption()?;
    let most = options.rx_queues.iter().copied().max().unwrap_or(1);
    let numbers: Vec<Option<u16>> = match options.rx_queues.is_empty() {
        true => vec![None],
        false => options.rx_queues.iter().copied().map(Some).collect(),
    };
    let mut ramps: Vec<Ramp> = Vec::new();
    for queues in numbers {
        let workers = options.workers.or(queues.map(|_| most));
        let plan = Plan { device_queues: queues, device_workers: workers.map(usize::from), ..plan.clone() };
        let label = label(queues);
        let mut bench = Bench::new(&plan).map_err(|error| error.to_string())?;
        session.machine = bench.machine();
        let mut progress = Progress::default();
        let length = slope.length().as_secs_f64();
        let mut show =
            |what: &str, share: f64, sample: Option<&_>| progress.step(what, Some(length * (1.0 - share)), sample);
        let mut watch = Watch::new(&interrupted, Some(length), &mut show);
        let ramp = ramp::run(&mut bench, &plan, slope, &label, &mut watch).map_err(|error| error.to_string())?;
        drop(progress);
        eprint!("{}", summary(&ramp, ramps.first()));
        session.add(Test::Ramp(Box::new(ramp.clone())));
        ramps.push(ramp);
        let has_failed = ramps.last().is_some_and(|ramp| ramp.failure.is_some());
        if has_failed || interrupted.load(std::sync::atomic::Ordering::Relaxed) {
            break;
        }
    }
    for note in &session.notes {
        eprintln!("Note: {}", command::harmless(&note.to_string()));
    }
    options.common.kept.keep(&session)?;
    for (number, ramp) in ramps.iter().enumerate() {
        let contract = Contract::new(ramp, &options.profile, &options.warmup_mult);
        let json = serde_json::to_vec(&contract).map_err(|error| error.to_string())?;
        match options.output.as_str() {
            "-" => super::super::say(&[json, b"\n".to_vec()].concat())?,
            file => {
                // One file for each ramp: that is what readers expect.
                let file = if number == 0 { file.to_string() } else { numbered(file, &ramp.label) };
                options.common.kept.overwrite.write(&file, json)?;
            }
        }
    }
    match ramps.iter().find_map(|ramp| ramp.failure.as_ref()) {
        Some(failure) => Err(format!("{failure}; what was counted until then is kept")),
        None => Ok(()),
    }
}

/// Distinguishes a ramp from others of the same device.
fn label(queues: Option<u16>) -> String {
    match queues {
        Some(1) => "1 rx queue".to_string(),
        Some(queues) => format!("{queues} rx queues"),
        None => String::new(),
    }
}

/// `ramp.json` of `2 rx queues`: `ramp-2-rx-queues.json`.
fn numbered(file: &str, label: &str) -> String {
    let path = Path::new(file);
    let stem = path.file_stem().map_or("".into(), |stem| stem.to_string_lossy());
    let extension = path.extension().map_or(String::new(), |extension| format!(".{}", extension.to_string_lossy()));
    path.with_file_name(format!("{stem}-{}{extension}", label.replace(' ', "-"))).to_string_lossy().into_owned()
}

/// A summary of the results for the operator.
fn summary(ramp: &Ramp, first: Option<&Ramp>) -> String {
    let trial = &ramp.total;
    let label = if ramp.label.is_empty() { String::new() } else { format!(", {}", ramp.label) };
    let mut text = format!(
        "{}\n{} through {}{label}: up to {} % of {}bit/s in {} s\n",
        trial.others,
        trial.profile,
        trial.device,
        ramp.target,
        scaled(ramp.line_bps),
        ramp.rampup
    );
    text.extend(trial.device_mode.iter().map(|mode| format!("  {mode}\n")));
    let said = |overload: &Option<Overload>| match overload {
        Some(at) => format!(
            "at {:.1} s, port {} sent {}pps ({:.1} % of the line), {}pps came; of those sent {:.2} % were lost",
            at.at,
            at.port,
            scaled(at.sent_pps),
            at.percent,
            scaled(at.received_pps),
            100.0 * at.loss
        ),
        None => ramp.not_found(),
    };
    text.extend(ramp.interrupted.iter().map(|interrupted| format!("  It was {interrupted}.\n")));
    text += &format!("  first loss above 0.1 %  {}\n", said(&ramp.first_loss));
    text += &format!("  and to the end          {}\n", said(&ramp.overload));
    text += &format!("  most that came          {}pps, {:.1} % of the line\n", scaled(ramp.max_pps), ramp.max_percent);
    if let Some(first) = first {
        let scaling = ramp.scaling(first).map_or("no result".into(), |scaling| format!("{scaling:.2} times"));
        text += &format!("  to that with {}   {scaling}\n", first.label);
    }
    text += &format!("  verdict                 {}\n", trial.verdict.line());
    text
}
