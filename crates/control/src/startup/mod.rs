//! `startup.conf`: what must be known before the router starts.
//!
//! The file is VPP's: sections in braces, words inside, `#` comments to the end of the
//! line. It is read in two steps: `tree` makes words and blocks of the text and keeps the
//! line and column of each; `interpret` gives them meaning. So every complaint names its
//! place: `startup.conf:3:5: unknown key 'exce' in section 'unix' (...)`.
//!
//! | section | key | meaning | default |
//! |---|---|---|---|
//! | `unix` | `nodaemon` | stay in the foreground | off |
//! | | `interactive` | a CLI on standard input | off |
//! | | `exec FILE` (or `startup-config FILE`) | commands to run at start | none |
//! | | `log FILE` | log to a file | standard error |
//! | | `cli-listen PATH` | CLI socket | `cli.sock` in the runtime directory |
//! | | `runtime-dir DIR` | where sockets are made | `/run/quiver`; without root `$XDG_RUNTIME_DIR/quiver` or `~/.quiver` |
//! | | `gid NAME` | group of the sockets | that of the process |
//! | `cpu` | `main-core N` | core of the control thread | not pinned |
//! | | `workers N` | number of workers | 0 |
//! | | `corelist-workers 1-3,5` | a worker on each of these cores | none |
//! | | `skip-cores N` | cores that `workers` leaves free | 0 |
//! | `buffers` | `buffers-per-numa N` | packet buffers per NUMA node | 16384 |
//! | | `default data-size N` | bytes of data per buffer | 2048 |
//! | | `page-size default\|4k\|2m\|1g` | pages of buffer memory | `default`: the largest there are |
//! | `logging` | `default-log-level LEVEL` | what is logged | `notice` |
//!
//! What VPP knows and this program lacks so far is read and answered with a warning, so
//! that an existing file starts; what neither knows is an error.

mod interpret;
mod tree;

use std::env;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

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
const DEFAULT_BUFFERS_PER_NUMA: u32 = 16_384;
const DEFAULT_DATA_SIZE: u32 = 2048;

/// The configuration, typed, with defaults filled in.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StartupConfig {
    pub unix: Unix,
    pub cpu: Cpu,
    pub buffers: Buffers,
    pub logging: Logging,
    /// What was read but has no effect in this build, as sentences.
    pub warnings: Vec<String>,
}

/// Section `unix`: the process and its surroundings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unix {
    pub nodaemon: bool,
    pub interactive: bool,
    pub exec: Option<PathBuf>,
    pub log: Option<PathBuf>,
    pub cli_listen: PathBuf,
    pub runtime_dir: PathBuf,
    pub gid: Option<String>,
}

impl Default for Unix {
    fn default() -> Self {
        let runtime_dir = default_runtime_directory();
        Self {
            nodaemon: false,
            interactive: false,
            exec: None,
            log: None,
            cli_listen: runtime_dir.join(CLI_SOCKET),
            runtime_dir,
            gid: None,
        }
    }
}

/// Name of the CLI socket inside the runtime directory.
const CLI_SOCKET: &str = "cli.sock";

/// Section `cpu`: which threads run where.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    pub main_core: Option<u32>,
    /// Number of workers; that of `corelist_workers` when it is given.
    pub workers: u32,
    /// Cores of the workers in ascending order; empty when they are chosen by number.
    pub corelist_workers: Vec<u32>,
    pub skip_cores: u32,
}

/// Section `buffers`: packet memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Buffers {
    pub buffers_per_numa: u32,
    /// Bytes of packet data that one buffer holds.
    pub default_data_size: u32,
    pub page_size: PageSize,
}

impl Default for Buffers {
    fn default() -> Self {
        Self {
            buffers_per_numa: DEFAULT_BUFFERS_PER_NUMA,
            default_data_size: DEFAULT_DATA_SIZE,
            page_size: PageSize::Default,
        }
    }
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

/// Section `logging`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Logging {
    pub default_log_level: LogLevel,
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
    pub fn load(file: &Path) -> Result<Self, StartupError> {
        let name = file.display().to_string();
        let about = |message: String| StartupError { file: name.clone(), place: None, message };
        let metadata = fs::metadata(file).map_err(|error| about(error.to_string()))?;
        if !metadata.is_file() {
            return Err(about("not a regular file".into()));
        }
        if metadata.len() > MAXIMUM_FILE {
            return Err(about(format!("larger than {MAXIMUM_FILE} bytes")));
        }
        let text = fs::read_to_string(file).map_err(|error| about(error.to_string()))?;
        Self::parse(&name, &text)
    }

    /// Reads the text of a file called `file`, or of a command line.
    ///
    /// # Errors
    /// The first thing that is wrong: an unbalanced brace, an unknown section or key, a
    /// missing value, a value out of range.
    pub fn parse(file: &str, text: &str) -> Result<Self, StartupError> {
        tree::parse(text).and_then(|nodes| interpret::interpret(&nodes)).map_err(|complaint| StartupError {
            file: file.to_string(),
            place: Some((complaint.place.line, complaint.place.column)),
            message: complaint.message,
        })
    }
}
