//! From the `log` facade to the router's log, and from there to a file, standard error or the
//! journal.
//!
//! [`Logging`], the router's log, decides what is kept and what is written; this writes lines:
//!
//! - to a file and to standard error: `2026-11-20T13:05:01.123Z notice arp: text`,
//! - to a terminal the same with the level in colour, unless `NO_COLOR` is set (no-color.org),
//! - to the journal `<5>arp: text` (sd-daemon(3)): it knows the time and reads the priority.
//!
//! A thread of its own writes them ([`crate::log_writer`]): a thread that logs never waits for a disk, a pipe or the
//! journal.

use crate::log_writer::{LogWriter, Target, say};
use features::logging::{Entry, Level, Logging};
use log::{Log, Metadata, Record};
use rustix::fs::fstat;
use std::cell::Cell;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// How long the process waits at its end for lines that are not written yet.
pub const LAST_LINES: Duration = Duration::from_secs(1);

static SINK: OnceLock<Sink> = OnceLock::new();

thread_local! {
    /// Whether this thread is writing an entry. A panic during that is not logged, because the thread holds the locks
    /// already.
    static BUSY: Cell<bool> = const { Cell::new(false) };
}

/// While this exists, its thread is writing an entry.
struct Busy;

impl Busy {
    /// `None` when the thread is writing an entry already.
    fn begin() -> Option<Busy> {
        (!BUSY.replace(true)).then_some(Busy)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        BUSY.set(false);
    }
}

/// The format of a line, by its destination.
#[derive(Clone, Copy)]
enum Form {
    Plain,
    Coloured,
    Journal,
}

impl Form {
    fn line(self, entry: &Entry) -> String {
        match self {
            Form::Plain => plain(entry),
            Form::Coloured => coloured(entry),
            Form::Journal => for_journal(entry),
        }
    }
}

struct Sink {
    logging: Arc<Logging>,
    form: Form,
    /// The log file, when there is one.
    path: Option<PathBuf>,
    writer: LogWriter,
}

/// Starts to log into a router's log, and to a file or standard error.
///
/// # Errors
/// When the file cannot be opened, or the process logs already.
pub fn install(logging: Arc<Logging>, file: Option<&Path>) -> Result<(), String> {
    let is_coloured = || io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let (target, form) = match file {
        Some(path) => (Target::open(path)?, Form::Plain),
        None if is_journal() => (Target::Stderr, Form::Journal),
        None if is_coloured() => (Target::Stderr, Form::Coloured),
        None => (Target::Stderr, Form::Plain),
    };
    let of_writer = logging.clone();
    let tell = move |lost| {
        let text = format!("{lost} lines were not written: the reader of the log did not keep up or refused them");
        lines(&of_writer, form, "logging", Level::Warning, &text).concat()
    };
    let writer =
        LogWriter::start(target, logging.writing.clone(), Box::new(tell)).map_err(|error| error.to_string())?;
    if SINK.set(Sink { logging, form, path: file.map(PathBuf::from), writer }).is_err() {
        return Err("the log is installed already".into());
    }
    log::set_logger(SINK.get().expect("set above")).map_err(|error| error.to_string())?;
    // The log decides what to keep of each class, not the compiler or the facade.
    log::set_max_level(log::LevelFilter::Trace);
    Ok(())
}

/// Keeps a message; returns the lines of it that must be written.
fn lines(logging: &Logging, form: Form, class: &str, level: Level, text: &str) -> Vec<String> {
    let entries = logging.record(class, level, text).into_iter();
    entries.filter(|entry| logging.writes(class, entry.level)).map(|entry| form.line(&entry)).collect()
}

/// Opens the log file anew, after an operator or logrotate has moved the old one away.
pub fn reopen() {
    let Some(sink) = SINK.get() else { return };
    let Some(path) = &sink.path else { return log::info!("SIGHUP: there is no log file to open anew") };
    match Target::open(path) {
        Ok(target) => {
            sink.writer.retarget(target);
            log::info!("SIGHUP: log {} opened anew", path.display());
        }
        Err(message) => log::error!("SIGHUP: {message}; the old one goes on"),
    }
}

/// Writes a message to standard error, wherever lines go, without waiting for it.
pub fn complain(text: String) {
    match SINK.get() {
        Some(sink) => sink.writer.complain(text),
        None => say(&text, LAST_LINES),
    }
}

/// When dropped, waits for the last lines, however the process ends.
pub struct LastLines;

impl Drop for LastLines {
    fn drop(&mut self) {
        log::logger().flush();
    }
}

/// Whether standard error is the journal: systemd sets which file that is.
fn is_journal() -> bool {
    let stream = std::env::var("JOURNAL_STREAM").ok();
    let identity = fstat(io::stderr()).map(|status| (status.st_dev, status.st_ino));
    stream.zip(identity.ok()).is_some_and(|(stream, identity)| names(&stream, identity))
}

/// Whether `DEVICE:INODE` names this file.
fn names(stream: &str, (device, inode): (u64, u64)) -> bool {
    let parsed = stream.split_once(':').and_then(|(a, b)| Some((a.parse::<u64>().ok()?, b.parse::<u64>().ok()?)));
    parsed == Some((device, inode))
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
        self.logging.keeps(self.logging.class_of(metadata.target()), metadata.level().into())
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let Some(_busy) = Busy::begin() else { return };
        let class = self.logging.class_of(record.target());
        let text = record.args().to_string();
        for line in lines(&self.logging, self.form, class, record.level().into(), &text) {
            self.writer.line(line);
        }
    }

    fn flush(&self) {
        self.writer.flush(LAST_LINES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Logging::new(&[]).record("arp", Level::Warning, "a\nb").remove(0)
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
}
