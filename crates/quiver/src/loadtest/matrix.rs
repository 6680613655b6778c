//! `quiver loadtest matrix`: the table of devices, and its page.

use super::output::Overwrite;
use super::setup::{OWN_PORTS, Progress, SetUp, ended, interruption, json, seconds, session};
use clap::Args;
use loadtest::method::Watch;
use loadtest::method::matrix::{self, TESTS};
use loadtest::page;
use loadtest::profile::Profile;
use loadtest::rate::Rate;
use loadtest::run::{DeviceSpec, Plan};
use loadtest::session::Test;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

/// Seconds of each test, and of a quick one.
const FULL: f64 = 30.0;
const QUICK: f64 = 2.0;

#[derive(Args)]
pub struct Options {
    /// Devices, one after the other: quiver, kernel, testpmd, ...; outside is the one behind '--port' or '--config'
    /// [default: outside where ports are given, else quiver].
    #[arg(long, value_name = "LIST", value_parser = devices)]
    dut: Option<Devices>,
    /// Two seconds for each test.
    #[arg(long, conflicts_with = "duration")]
    quick: bool,
    /// Seconds of each test.
    #[arg(short, long, default_value_t = FULL, value_name = "SECONDS", value_parser = seconds)]
    duration: f64,
    /// Where report.json and report.html go.
    #[arg(short, long, default_value = ".", value_name = "DIRECTORY")]
    output: PathBuf,
    #[command(flatten)]
    overwrite: Overwrite,
    #[command(flatten)]
    setup: SetUp,
}

#[derive(Clone)]
struct Devices(Vec<DeviceSpec>);

/// A list in which a device's own options may have commas: `quiver,reference:lose=10,delay=1ms,kernel`.
fn devices(text: &str) -> Result<Devices, String> {
    let mut list: Vec<String> = Vec::new();
    for part in text.split(',') {
        match list.last_mut() {
            Some(last) if part.contains('=') && !part.contains(':') => *last += &format!(",{part}"),
            _ => list.push(part.into()),
        }
    }
    list.iter().map(|device| device.parse()).collect::<Result<_, _>>().map(Devices)
}

impl Options {
    /// The devices to test: with ports and no device named, the one behind the ports.
    fn devices(&self) -> Result<Vec<DeviceSpec>, String> {
        let devices = match &self.dut {
            Some(Devices(devices)) => devices.clone(),
            None if self.setup.has_ports() => vec![DeviceSpec::Outside],
            None => vec![DeviceSpec::Quiver(Default::default())],
        };
        if self.setup.has_ports() && !devices.iter().any(DeviceSpec::is_outside) {
            return Err(OWN_PORTS.into());
        }
        Ok(devices)
    }
}

/// Runs the command.
///
/// # Errors
/// What failed, as text.
pub fn run(options: &Options) -> Result<(), String> {
    let seconds = if options.quick { QUICK } else { options.duration };
    let devices = options.devices()?;
    let mut session = session();
    let interrupted = interruption()?;
    let first = Profile::built_in(TESTS[0].1).map_err(|error| error.to_string())?;
    std::fs::create_dir_all(&options.output).map_err(|error| format!("{}: {error}", options.output.display()))?;
    let (data, html) = (options.output.join("report.json"), options.output.join("report.html"));
    [&data, &html].into_iter().try_for_each(|file| options.overwrite.check(file))?;
    let (mut failed, mut failure) = (Vec::new(), None);
    for (number, device) in devices.iter().enumerate() {
        let mut setup = options.setup.clone();
        if !device.is_outside() {
            // This device brings its own ports.
            setup.drop_ports();
        }
        setup.assume_line(device, &mut session.notes);
        let plan =
            setup.plan(device.clone(), first.clone(), super::setup::Direction::Uni, Rate::Percent(100.0), seconds)?;
        // Even a quick test has several samples.
        let plan = Plan { interval: plan.interval.min(plan.duration / 4), ..plan };
        let mut progress = Progress::default();
        let length = 2.0 * TESTS.len() as f64 * (seconds + setup.drain);
        let mut show =
            |what: &str, share: f64, sample: Option<&_>| progress.step(what, Some(length * (1.0 - share)), sample);
        let mut watch = Watch::new(&interrupted, Some(2.0 * TESTS.len() as f64 * seconds), &mut show);
        let matrix = matrix::run(&plan, &mut watch);
        drop(progress);
        match matrix {
            Ok(matrix) => {
                super::super::say(format!("{matrix}\n").as_bytes())?;
                failed.extend(matrix.failure.iter().map(|why| format!("{device} was not tested to the end: {why}")));
                failure = failure.or(matrix.failure.clone());
                session.add(Test::Matrix(matrix));
            }
            Err(error) => failed.push(format!("{device} is left out: {error}")),
        }
        if interrupted.load(Ordering::Relaxed) {
            let left: Vec<String> = devices[number + 1..].iter().map(|device| device.to_string()).collect();
            if !left.is_empty() {
                failed.push(format!("it was interrupted before it came to {}", left.join(", ")));
            }
            break;
        }
    }
    session.notes.dedup();
    session.notes.extend(failed.iter().cloned());
    for note in &session.notes {
        super::super::say(format!("Note: {note}\n").as_bytes())?;
    }
    if session.tests.is_empty() {
        return Err("no device could be tested".into());
    }
    options.overwrite.write(&data, json(&session)?)?;
    options.overwrite.write(&html, page::page(&[session]))?;
    super::super::say(format!("The page: {}, its data: {}\n", html.display(), data.display()).as_bytes())?;
    ended(failure.as_deref())
}
