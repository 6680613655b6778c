//! `quiver loadtest console`: a test that the operator steers, in the manner of T-Rex's console. At a terminal the
//! state of the ports is drawn each second above the input line ([`screen`]). From a file or a pipe, commands are
//! carried out one after the other.

mod screen;
mod words;

use super::setup::{Direction, SetUp, Target, interruption, seconds};
use clap::Args;
use loadtest::console::Console;
use loadtest::profile::Profile;
use loadtest::rate::Rate;
use loadtest::run::Bench;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};
use words::{Done, Waiting};

/// How often control does what is due.
const TICK: Duration = Duration::from_millis(20);
/// The longest line that is read, and how many are read ahead.
const LONGEST_LINE: u64 = 4096;
const AHEAD: usize = 16;

#[derive(Args)]
pub struct Options {
    /// Commands, one a line, in place of a terminal's; - is standard input.
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    #[command(flatten)]
    target: Target,
    #[command(flatten)]
    setup: SetUp,
}

/// Runs the console.
///
/// # Errors
/// What failed, in words.
pub fn run(options: &Options) -> Result<(), String> {
    let (mut setup, device) = (options.setup.clone(), options.target.device());
    if setup.watts.is_some() {
        return Err("'--watts' is for tests that end: 'quiver loadtest run' and the methods".into());
    }
    let mut notes = Vec::new();
    setup.assume_line(&device, &mut notes);
    // A plan needs a profile, but each 'start' gives its own.
    let nothing = Profile::built_in("bench").map_err(|error| error.to_string())?;
    let plan = setup.plan(device, nothing, Direction::Bi, Rate::Factor(1.0), setup.interval)?;
    let interrupted = interruption()?;
    let bench = Bench::new(&plan).map_err(|error| error.to_string())?;
    let mut steered = Steered {
        console: Console::new(bench, plan.drain),
        interval: Duration::from_secs_f64(setup.interval),
        looked: Instant::now(),
    };
    let is_typed = options.script.is_none() && io::stdin().is_terminal() && io::stdout().is_terminal();
    match is_typed {
        true => screen::run(&mut steered, notes, &interrupted),
        false => {
            for note in &notes {
                super::super::say(format!("Note: {note}\n").as_bytes())?;
            }
            script(&mut steered, lines(options.script.as_deref())?, &interrupted)
        }
    }
}

/// A console, and when its view was last renewed.
struct Steered {
    console: Console,
    interval: Duration,
    looked: Instant,
}

impl Steered {
    /// Does the control work that is due, and renews the view when it is time. Returns what to report.
    fn tick(&mut self) -> Result<Vec<String>, String> {
        let said = self.console.tick().map_err(|error| error.to_string())?;
        if self.looked.elapsed() >= self.interval {
            self.looked = Instant::now();
            self.console.look();
        }
        Ok(said)
    }

    /// Stops all ports that send. Returns their results.
    fn stop_all(&mut self) -> String {
        let busy = self.console.busy();
        if busy.is_empty() {
            return String::new();
        }
        self.console.stop(&busy).unwrap_or_else(|error| format!("{error}\n"))
    }
}

/// Lines of a file or of standard input, as they arrive.
fn lines(file: Option<&std::path::Path>) -> Result<Receiver<io::Result<String>>, String> {
    let reader: Box<dyn io::Read + Send> = match file.filter(|file| *file != std::path::Path::new("-")) {
        Some(file) => Box::new(std::fs::File::open(file).map_err(|error| format!("{}: {error}", file.display()))?),
        None => Box::new(io::stdin()),
    };
    let (to, from) = sync_channel(AHEAD);
    std::thread::spawn(move || {
        let mut reader = BufReader::new(reader);
        loop {
            let mut line = Vec::new();
            let read = io::Read::take(&mut reader, LONGEST_LINE).read_until(b'\n', &mut line);
            let line = match read {
                Ok(0) => return,
                Ok(n) if n as u64 == LONGEST_LINE => {
                    Err(io::Error::other(format!("a line of {LONGEST_LINE} bytes or more is no command")))
                }
                Ok(_) => Ok(String::from_utf8_lossy(&line).trim().to_string()),
                Err(error) => Err(error),
            };
            let is_last = line.is_err();
            if to.send(line).is_err() || is_last {
                return;
            }
        }
    });
    Ok(from)
}

/// Carries commands out, one after the other. The first that is refused ends it.
fn script(steered: &mut Steered, lines: Receiver<io::Result<String>>, interrupted: &AtomicBool) -> Result<(), String> {
    let (mut number, mut waiting, mut outcome) = (0, None::<Waiting>, Ok(()));
    loop {
        match steered.tick() {
            Ok(said) => said.iter().try_for_each(|text| say(text))?,
            Err(why) => {
                outcome = Err(format!("{why}; what was counted until then is above"));
                break;
            }
        }
        if interrupted.load(Ordering::Relaxed) {
            break;
        }
        if waiting.as_ref().is_some_and(|waiting| !waiting.is_over(&steered.console)) {
            std::thread::sleep(TICK);
            continue;
        }
        waiting = None;
        let line = match lines.recv_timeout(TICK) {
            Ok(Ok(line)) => line,
            Ok(Err(error)) => {
                outcome = Err(format!("line {}: {error}", number + 1));
                break;
            }
            Err(RecvTimeoutError::Timeout) => continue,
            Err(RecvTimeoutError::Disconnected) => break,
        };
        number += 1;
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        say(&format!("> {line}"))?;
        match words::carry_out(&mut steered.console, &line) {
            Ok(Done::Said(text)) => say(&text)?,
            Ok(Done::Wait(until)) => waiting = Some(until),
            Ok(Done::Quit) => break,
            Err(why) => {
                outcome = Err(format!("line {number}: {line}: {why}"));
                break;
            }
        }
    }
    // Whatever ended the script, report the results of what was sent.
    say(&steered.stop_all())?;
    outcome
}

/// A text on lines of its own.
fn say(text: &str) -> Result<(), String> {
    match text.trim_end() {
        "" => Ok(()),
        text => super::super::say(format!("{text}\n").as_bytes()),
    }
}
