//! `startup.conf`: what must be known before the router starts.
//!
//! The file is VPP's: sections in braces, words and blocks inside, `#` comments to the end of
//! the line. It is read in steps: `tree` makes words and blocks of the text and keeps the
//! line and column of each; `reader` walks a block by its section's table of keys; a file for
//! each section gives them meaning. So every complaint names its place:
//! `startup.conf:3:5: unknown key 'exce' in 'unix': expected one of ...; did you mean 'exec'?`.
//! A file is taken whole or not at all.
//!
//! | section | key | meaning | default |
//! |---|---|---|---|
//! | `unix` | `nodaemon` | stay in the foreground | off |
//! | | `interactive` | a CLI on standard input; implies `nodaemon` | off |
//! | | `exec FILE` | commands to run at start | none |
//! | | `startup-config FILE` | the saved configuration: once `save` has made it, restored in place of `exec` | none |
//! | | `log FILE` | log to a file, which is opened anew on `SIGHUP` | standard error |
//! | | `runtime-dir DIR` | where sockets are made | `/run/quiver`; not root: `$XDG_RUNTIME_DIR/quiver`, `~/.quiver` |
//! | | `use-current-dir` | sockets are made where the process is started | off |
//! | | `cli-listen PATH` | CLI socket | `cli.sock` in the runtime directory |
//! | | `cli-socket-mode MODE` | permissions of the sockets, octal | `0660` |
//! | | `gid GROUP` | group of the sockets, by name or number | that of the process |
//! | | `pidfile FILE` | the number of the process | none |
//! | | `full-coredump` | core files, of all memory | off |
//! | | `coredump-size SIZE` | largest core file, or `unlimited` | as inherited; with `full-coredump` unlimited |
//! | | `crash-dir DIR` | where crash reports are written | the runtime directory |
//! | | `cli-file-root DIR` | commands may read and write files below it only | anywhere |
//! | | `cli-prompt WORD`, `cli-history-limit N`, `cli-no-banner` | how CLI sessions look | |
//! | | `cli-pager-buffer-limit N`, `cli-no-pager` | the pager of CLI sessions | |
//! | | `cli-idle-timeout SECONDS` | CLI connections that say nothing for so long are closed; 0: never | 3600 |
//! | | `poll-sleep-usec N` | how long a worker that must poll rests after a round without packets | 0 |
//! | `cpu` | `main-core N` | core of the control thread | not pinned |
//! | | `workers N` | number of workers | 0 |
//! | | `corelist-workers 1-3,5` | a worker on each of these cores | none |
//! | | `skip-cores N` | cores that `workers` leaves free | 0 |
//! | | `scheduler-policy P` | how workers are scheduled: `other`, `batch`, `idle`, `fifo`, `rr` | as at start |
//! | | `scheduler-priority N` | of `fifo` and `rr`, 1 to 99 | 1 |
//! | `buffers` | `buffers-per-numa N` | packet buffers per NUMA node | 16384 |
//! | | `default data-size N` | bytes of data per buffer | 2048 |
//! | | `numa N { buffers N }` | the same for one node; there is one pool, which takes the most | none |
//! | | `page-size default\|4k\|2m\|1g` | pages of buffer memory | `default`: the largest there are |
//! | `logging` | `default-log-level LEVEL` | what is kept for `show logging` | `notice` |
//! | | `default-syslog-log-level LEVEL` | what of it is written to file, standard error or journal | all |
//! | | `size N` | entries that are kept | 512 |
//! | | `nthrottle-time SECONDS` (or `unthrottle-time`) | how long a class that says too much is only counted | 5 |
//! | | `class NAME { level L syslog-level L rate-limit N }` | the same for one class | |
//! | `dpdk` | `dev ADDRESS { name e0 ... }`, `dev default { ... }`, ... | NICs; see `dpdk` | read; no effect |
//! | `plugins` | `path`, `add-path`, `plugin NAME { enable\|disable }` | | read; no effect |
//! | `statseg`, `api-segment`, `socksvr`, `memory`, `heapsize` | VPP's | | read; no effect |
//!
//! What VPP knows and this program lacks is read and answered with a warning that names it, so
//! that an existing file starts; what neither knows is an error.

#![forbid(unsafe_code)]

mod buffers;
mod cpu;
mod idle;
mod logging;
mod pci;
mod reader;
mod section;
mod sections;
mod shown;
mod tree;
mod unix;
mod value;

use command::Files;
use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

pub use buffers::Buffers;
pub use cpu::{Cpu, SchedulerPolicy};
pub use logging::{LogClass, Logging};
pub use pci::PciAddress;
pub use reader::{Key, Shape};
pub use section::{Entry, Section, Sections, Settings};
pub use shown::Setting;
pub use tree::{Complaint, Place};
pub use unix::{CoredumpSize, Unix};
pub use value::Value;

/// Cores are numbered below this.
pub const MAXIMUM_CORES: u32 = 1024;

/// Largest file that is read, in bytes; real ones have a few hundred.
const MAXIMUM_FILE: u64 = 1 << 20;

const SYSTEM_RUNTIME_DIRECTORY: &str = "/run/quiver";

/// Where sockets are made unless a configuration says otherwise: the system's directory for
/// root, for others one of their own (XDG Base Directory Specification), else their home.
fn default_runtime_directory() -> PathBuf {
    let is_root = fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    let of_user = || {
        let directory = |variable, below| Some(PathBuf::from(env::var_os(variable)?).join(below));
        directory("XDG_RUNTIME_DIR", "quiver").or_else(|| directory("HOME", ".quiver"))
    };
    let system = || PathBuf::from(SYSTEM_RUNTIME_DIRECTORY);
    if is_root { system() } else { of_user().unwrap_or_else(system) }
}

/// Name of the CLI socket inside the runtime directory.
const CLI_SOCKET: &str = "cli.sock";

/// The configuration, typed, with defaults filled in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct StartupConfig {
    pub unix: Unix,
    pub cpu: Cpu,
    pub buffers: Buffers,
    pub logging: Logging,
    /// What was given in sections of capabilities, and in those that have no effect, by section.
    pub sections: Sections,
    /// What was read but has no effect in this build, as sentences.
    pub warnings: Vec<String>,
    places: Places,
}

/// Where each key was given, to complain about what only shows later (a group that the
/// system does not know).
#[derive(Clone, Debug, Default, PartialEq)]
struct Places {
    file: String,
    keys: BTreeMap<String, (usize, usize)>,
}

/// Pages of buffer memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageSize {
    /// Huge pages when there are any, else plain ones.
    Default,
    Size4K,
    Size2M,
    Size1G,
}

/// Levels of VPP, most urgent first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    Disabled,
    Emergency,
    Alert,
    Critical,
    Error,
    Warning,
    #[default]
    Notice,
    Info,
    Debug,
}

/// A complaint about the file, with its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartupError {
    pub file: String,
    /// Line and column, counted from 1; `None` when it is about the file as a whole.
    pub place: Option<(usize, usize)>,
    pub message: String,
}

impl fmt::Display for StartupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.place {
            Some((line, column)) => {
                write!(f, "{}:{line}:{column}: {}", self.file, self.message)
            }
            None => write!(f, "{}: {}", self.file, self.message),
        }
    }
}

impl std::error::Error for StartupError {}

impl StartupConfig {
    /// Reads a file.
    ///
    /// # Errors
    /// When it cannot be read, and see [`StartupConfig::parse`].
    pub fn load(file: &Path, sections: &[&'static Section]) -> Result<Self, StartupError> {
        let name = file.display().to_string();
        let about = |message: String| StartupError { file: name.clone(), place: None, message };
        let text = Files::anywhere().read_text(file, MAXIMUM_FILE).map_err(|error| about(error.why().into()))?;
        Self::parse(&name, &text, sections)
    }

    /// Reads the text of a file called `file`, or of a command line. Capabilities have sections beside those of this
    /// crate.
    ///
    /// # Errors
    /// The first thing that is wrong: an unbalanced brace, an unknown section or key, a
    /// missing value, a value out of range.
    pub fn parse(file: &str, text: &str, sections: &[&'static Section]) -> Result<Self, StartupError> {
        let read = tree::parse(text).and_then(|block| sections::read(&block, sections));
        let (mut config, keys) = read.map_err(|complaint| StartupError {
            file: file.to_string(),
            place: Some((complaint.place.line, complaint.place.column)),
            message: complaint.message,
        })?;
        if !keys.is_empty() {
            config.places = Places { file: file.to_string(), keys };
        }
        Ok(config)
    }

    /// A complaint about a key, such as `unix gid`, with the place where it was given.
    pub fn complaint(&self, key: &str, message: impl Into<String>) -> StartupError {
        let place = self.places.keys.get(key).copied();
        let file = if self.places.file.is_empty() { "startup.conf" } else { &self.places.file };
        StartupError { file: file.into(), place, message: message.into() }
    }
}

#[cfg(test)]
mod public_files;
#[cfg(test)]
mod tests;
