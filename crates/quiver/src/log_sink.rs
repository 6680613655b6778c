//! From the `log` facade to the router's log, and from there to a file, standard error or the
//! journal.
//!
//! What is kept and what is written is the router's to say ([`Logging`]); this writes lines:
//!
//! - to a file and to standard error: `2026-11-20T13:05:01.123Z notice arp: text`,
//! - to a terminal the same with the level in colour, unless `NO_COLOR` is set (no-color.org),
//! - to the journal `<5>arp: text` (sd-daemon(3)): it knows the time and reads the priority.
//!
//! Lines are written under a lock that workers never take: they do not log on the packet path.

use log::{Log, Metadata, Record};
use router::logging::{Entry, Level, Logging, class};
use rustix::fs::fstat;
use std::cell::Cell;
use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Mode of a log file that we create: it may tell addresses.
const FILE_MODE: u32 = 0o640;

static SINK: OnceLock<Sink> = OnceLock::new();

thread_local! {
    /// Whether this thread is writing an entry: a panic in that is not logged, for the locks
    /// are taken.
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// While it lives, this thread writes an entry.
struct Busy;

impl Busy {
    /// `None` when it does already.
    fn begin() -> Option<Busy> {
        (!BUSY.replace(true)).then_some(Busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.set(false);
    }
}

/// Where lines go.
enum Target {
    File { path: PathBuf, file: File },
    Journal,
    Stderr { colours: bool },
}

struct Output {
    target: Target,
    /// The file could not be written; said once.
    failing: bool,
}

struct Sink {
    logging: Arc<Logging>,
    output: Mutex<Output>,
}

/// Starts to log into a router's log, and to a file or standard error.
///
/// # Errors
/// When the file cannot be opened, or the process logs already.
pub fn install(logging: Arc<Logging>, file: Option<&Path>) -> Result<(), String> {
    let target = match file {
        Some(path) => Target::File { path: path.into(), file: open(path).map_err(|error| about(path, &error))? },
        None if is_journal() => Target::Journal,
        None => Target::Stderr { colours: io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none() },
    };
    let sink = Sink { logging, output: Mutex::new(Output { target, failing: false }) };
    if SINK.set(sink).is_err() {
        return Err("the log is installed already".into());
    }
    log::set_logger(SINK.get().expect("set above")).map_err(|error| error.to_string())?;
    // What is kept of each class is decided here, not at compile time or by the facade.
    log::set_max_level(log::LevelFilter::Trace);
    Ok(())
}

/// Opens the log file anew, after somebody has moved the old one away.
pub fn reopen() {
    let Some(sink) = SINK.get() else { return };
    let reopened = sink.output.lock().unwrap_or_else(PoisonError::into_inner).reopen();
    match reopened {
        Ok(None) => log::info!("SIGHUP: there is no log file to open anew"),
        Ok(Some(path)) => log::info!("SIGHUP: log {} opened anew", path.display()),
        Err(message) => log::error!("SIGHUP: {message}; the old one goes on"),
    }
}

/// Opens a log file, and makes its directory if need be.
fn open(path: &Path) -> io::Result<File> {
    if let Some(directory) = path.parent() {
        std::fs::create_dir_all(directory)?;
    }
    OpenOptions::new().create(true).append(true).mode(FILE_MODE).open(path)
}

fn about(path: &Path, error: &io::Error) -> String {
    format!("log {}: {error}", path.display())
}

/// Whether standard error is the journal's: systemd says which file that is.
fn is_journal() -> bool {
    let stream = std::env::var("JOURNAL_STREAM").ok();
    let identity = fstat(io::stderr()).map(|status| (status.st_dev, status.st_ino));
    stream.zip(identity.ok()).is_some_and(|(stream, identity)| names(&stream, identity))
}

/// Whether `DEVICE:INODE` is this file.
fn names(stream: &str, (device, inode): (u64, u64)) -> bool {
    let parsed = stream.split_once(':').and_then(|(a, b)| Some((a.parse::<u64>().ok()?, b.parse::<u64>().ok()?)));
    parsed == Some((device, inode))
}

impl Output {
    fn reopen(&mut self) -> Result<Option<PathBuf>, String> {
        let Target::File { path, file } = &mut self.target else { return Ok(None) };
        *file = open(path).map_err(|error| about(path, &error))?;
        self.failing = false;
        Ok(Some(path.clone()))
    }

    fn write(&mut self, entry: &Entry) {
        let line = match &self.target {
            Target::File { .. } => plain(entry),
            Target::Journal => for_journal(entry),
            Target::Stderr { colours: false } => plain(entry),
            Target::Stderr { colours: true } => coloured(entry),
        };
        let written = match &mut self.target {
            Target::File { file, .. } => file.write_all(line.as_bytes()),
            // Who does not listen any more does not miss it.
            _ => return drop(io::stderr().write_all(line.as_bytes())),
        };
        if let (Err(error), Target::File { path, .. }) = (&written, &self.target)
            && !self.failing
        {
            let _ = writeln!(io::stderr(), "quiver: {}", about(path, error));
        }
        self.failing = written.is_err();
    }
}

fn plain(entry: &Entry) -> String {
    format!("{} {} {}: {}\n", entry.time, entry.level, entry.class, entry.text)
}

fn for_journal(entry: &Entry) -> String {
    format!("<{}>{}: {}\n", entry.level.priority(), entry.class, entry.text)
}

fn coloured(entry: &Entry) -> String {
    let colour = match entry.level {
        Level::Emergency | Level::Alert | Level::Critical | Level::Error => 31,
        Level::Warning => 33,
        Level::Notice | Level::Info => 32,
        Level::Debug | Level::Disabled => 90,
    };
    format!("{} \x1b[{colour}m{}\x1b[0m {}: {}\n", entry.time, entry.level, entry.class, entry.text)
}

impl Log for Sink {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        self.logging.keeps(class::of(metadata.target()), metadata.level().into())
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let Some(_busy) = Busy::begin() else { return };
        let class = class::of(record.target());
        let entries = self.logging.record(class, record.level().into(), &record.args().to_string());
        let mut output = self.output.lock().unwrap_or_else(PoisonError::into_inner);
        for entry in &entries {
            if self.logging.writes(class, entry.level) {
                output.write(entry);
            }
        }
    }

    fn flush(&self) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Logging::default().record("arp", Level::Warning, "a\nb").remove(0)
    }

    #[test]
    fn a_line_has_time_level_class_and_text() {
        let line = plain(&entry());
        let (time, rest) = line.split_at(24);
        assert!(time.starts_with("20") && time.ends_with('Z') && &time[10..11] == "T", "{time}");
        assert_eq!(rest, " warn arp: a\\nb\n");
    }

    #[test]
    fn the_journal_gets_the_priority_and_no_time() {
        assert_eq!(for_journal(&entry()), "<4>arp: a\\nb\n");
    }

    #[test]
    fn a_terminal_gets_colour_around_the_level_only() {
        assert!(coloured(&entry()).ends_with(" \x1b[33mwarn\x1b[0m arp: a\\nb\n"));
    }

    #[test]
    fn the_journal_is_known_by_device_and_inode() {
        assert!(names("8:77", (8, 77)));
        for other in ["8:78", "9:77", "8", "", "x:y", "8:77:1"] {
            assert!(!names(other, (8, 77)), "{other}");
        }
    }

    #[test]
    fn who_writes_an_entry_is_not_logged_and_who_panicked_is_again() {
        let panicked = std::panic::catch_unwind(|| {
            let _busy = Busy::begin().unwrap();
            assert!(Busy::begin().is_none());
            std::panic::resume_unwind(Box::new("while writing"));
        });
        assert!(panicked.is_err() && Busy::begin().is_some());
    }

    #[test]
    fn a_file_that_was_moved_away_is_opened_anew() {
        let directory = std::env::temp_dir().join(format!("quiver-log-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let (path, moved) = (directory.join("log"), directory.join("log.1"));
        let target = Target::File { path: path.clone(), file: open(&path).unwrap() };
        let mut output = Output { target, failing: false };
        output.write(&entry());
        std::fs::rename(&path, &moved).unwrap();
        output.write(&entry());
        assert_eq!(output.reopen().unwrap(), Some(path.clone()));
        output.write(&entry());
        let lines = |path: &Path| std::fs::read_to_string(path).unwrap().lines().count();
        assert_eq!((lines(&moved), lines(&path)), (2, 1));
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
