//! Crash reports: the information that a defect leaves for the developer who must find it.
//!
//! A panic in any thread writes `quiver-crash-TIME-PID-N.txt` into a directory: what ran, where it panicked, the stack.
//! [`report`] adds what else is known (the command, a worker's last rounds). At most [`MAXIMUM_REPORTS`] are kept; the
//! oldest are removed.

use crate::log_sink;
use features::logging::Timestamp;
use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::fmt::{self, Display};
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::panic::PanicHookInfo;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Instant, SystemTime};

/// Reports kept in a directory.
const MAXIMUM_REPORTS: usize = 16;
/// Most bytes of a report: an endless stack must not fill the disk.
const MAXIMUM_SIZE: usize = 256 << 10;
/// Reports hold addresses of memory and of networks.
const FILE_MODE: u32 = 0o640;

const PREFIX: &str = "quiver-crash-";

static NUMBER: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// The report that this thread's panic has written.
    static WRITTEN: RefCell<Option<PathBuf>> = const { RefCell::new(None) };
}

/// What a report says about the process.
#[derive(Clone)]
pub struct Process {
    pub started: Instant,
    /// The file of the start-up configuration.
    pub config: Option<PathBuf>,
}

/// Where reports are written, for [`report_no_memory`], which has no directory as an argument.
static PLACE: OnceLock<(PathBuf, Process)> = OnceLock::new();

/// Makes every panic write a report into `directory`, and the log name it.
pub fn install(directory: PathBuf, process: Process) {
    PLACE.get_or_init(|| (directory.clone(), process.clone()));
    std::panic::set_hook(Box::new(move |panic| {
        let text = describe(panic, &process);
        let outcome = write(&directory, &text);
        let thread = thread_name();
        match &outcome {
            Ok(path) => log::error!(target: "crash", "thread {thread} panicked: {panic}; report: {}", path.display()),
            Err(error) => {
                log::error!(target: "crash", "thread {thread} panicked: {panic}; no report in {}: {error}",
                    directory.display());
                log_sink::complain(text);
            }
        }
        WRITTEN.set(outcome.ok());
    }));
}

/// Writes what is known of a crash: into the report of this thread's panic if there is one, else into a new report.
///
/// # Errors
/// When the directory cannot be written to.
pub fn report(directory: &Path, what: &dyn Display) -> io::Result<PathBuf> {
    match WRITTEN.take() {
        Some(path) => {
            let text = format!("\n{what}\n");
            OpenOptions::new().append(true).open(&path)?.write_all(bounded(&text).as_bytes())?;
            Ok(path)
        }
        None => write(directory, &format!("{}\n{what}\n", Surroundings)),
    }
}

/// Writes the report of a process that must exit because an allocation of this many bytes failed.
pub fn report_no_memory(bytes: usize) {
    let Some((directory, process)) = PLACE.get() else { return };
    // The process exits anyway: a failure cannot be reported.
    let _ = write_no_memory(bytes, directory, process);
}

fn write_no_memory(bytes: usize, directory: &Path, process: &Process) -> io::Result<()> {
    let path = write(directory, &head(&format_args!("no memory: {bytes} bytes were wanted"), process))?;
    // There may not be enough memory for this.
    let stack = Backtrace::force_capture().to_string();
    OpenOptions::new().append(true).open(&path)?.write_all(bounded(&stack).as_bytes())
}

fn describe(panic: &PanicHookInfo<'_>, process: &Process) -> String {
    format!("{}{}", head(&format_args!("panic: {panic}"), process), Backtrace::force_capture())
}

/// A report without its stack.
fn head(what: &dyn Display, process: &Process) -> String {
    let config = process.config.as_ref().map_or("none (defaults)".into(), |file| file.display().to_string());
    let uptime = process.started.elapsed().as_secs();
    let thread = thread_name();
    format!("{Surroundings}\nuptime: {uptime} s\nconfiguration: {config}\nthread: {thread}\n{what}\n\nstack:\n")
}

fn thread_name() -> String {
    thread::current().name().unwrap_or("unnamed").to_string()
}

/// The header of every report.
struct Surroundings;

impl Display for Surroundings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let build = if cfg!(debug_assertions) { "debug" } else { "release" };
        writeln!(f, "quiver v{} ({build} build) crashed", features::inspect::VERSION)?;
        writeln!(f, "time: {}", Timestamp::from(SystemTime::now()))?;
        writeln!(f, "process: {}", std::process::id())?;
        let system = rustix::system::uname();
        writeln!(f, "system: {} {}", system.sysname().to_string_lossy(), system.release().to_string_lossy())?;
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let cores = thread::available_parallelism().map_or(1, usize::from);
        write!(f, "cpu: {} ({cores} cores)", model.map_or("unknown", |(_, name)| name.trim()))
    }
}

fn bounded(text: &str) -> &str {
    let end = (0..=MAXIMUM_SIZE.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

fn write(directory: &Path, text: &str) -> io::Result<PathBuf> {
    command::files::make_directory(directory)?;
    make_room(directory);
    let time = Timestamp::from(SystemTime::now()).compact();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = directory.join(format!("{PREFIX}{time}-{}-{number}.txt", std::process::id()));
    // Never through a link that another user left there.
    let mut file = OpenOptions::new().create_new(true).write(true).mode(FILE_MODE).open(&path)?;
    file.write_all(bounded(text).as_bytes())?;
    Ok(path)
}

/// Removes the oldest reports until there is room for one more. Names sort by time.
fn make_room(directory: &Path) {
    let Ok(entries) = fs::read_dir(directory) else { return };
    let is_report = |name: &str| name.starts_with(PREFIX) && name.ends_with(".txt");
    let names = entries.flatten().filter(|entry| entry.file_name().to_str().is_some_and(is_report));
    let mut reports: Vec<(Option<SystemTime>, PathBuf)> =
        names.map(|entry| (entry.metadata().and_then(|file| file.modified()).ok(), entry.path())).collect();
    reports.sort();
    let over = (reports.len() + 1).saturating_sub(MAXIMUM_REPORTS);
    for (_, path) in &reports[..over] {
        let _ = fs::remove_file(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("quiver-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn reports(directory: &Path) -> Vec<PathBuf> {
        fs::read_dir(directory).unwrap().flatten().map(|entry| entry.path()).collect()
    }

    #[test]
    fn a_panic_leaves_one_report_with_stack_and_last_rounds() {
        let directory = directory("crash");
        let process = Process { started: Instant::now(), config: Some("/etc/quiver/startup.conf".into()) };
        install(directory.clone(), process);
        let worker = thread::Builder::new().name("quiver_wk_7".into());
        let of_worker = directory.clone();
        let path = worker
            .spawn(move || {
                let caught = std::panic::catch_unwind(|| panic!("index out of luck"));
                assert!(caught.is_err());
                report(&of_worker, &"last rounds: ip4-lookup").unwrap()
            })
            .unwrap()
            .join()
            .unwrap();
        let _ = std::panic::take_hook();
        // Another failing test may leave a report meanwhile: only this thread's counts.
        let of_thread = |path: &&PathBuf| fs::read_to_string(path).unwrap().contains("thread: quiver_wk_7");
        let written = reports(&directory);
        assert_eq!(written.iter().filter(of_thread).collect::<Vec<_>>(), [&path]);
        let text = fs::read_to_string(path).unwrap();
        for part in [
            "quiver v",
            "thread: quiver_wk_7",
            "index out of luck",
            "crash.rs",
            "configuration: /etc/quiver/startup.conf",
            "a_panic_leaves_one_report_with_stack_and_last_rounds",
            "\nlast rounds: ip4-lookup\n",
        ] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn the_end_of_memory_is_described_as_a_panic_is() {
        let directory = directory("no-memory");
        write_no_memory(58_720_256, &directory, &Process { started: Instant::now(), config: None }).unwrap();
        let text = fs::read_to_string(&reports(&directory)[0]).unwrap();
        for part in ["quiver v", "\nno memory: 58720256 bytes were wanted\n", "\nstack:\n", "crash.rs"] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
    }

    #[test]
    fn the_oldest_reports_make_room_and_other_files_stay() {
        let directory = directory("crashes");
        fs::write(directory.join("notes.txt"), "").unwrap();
        let first = report(&directory, &"first").unwrap();
        let day = std::time::Duration::from_secs(86_400);
        fs::File::options().write(true).open(&first).unwrap().set_modified(SystemTime::now() - day).unwrap();
        for number in 0..MAXIMUM_REPORTS {
            report(&directory, &number).unwrap();
        }
        let left = reports(&directory);
        assert_eq!(left.len(), MAXIMUM_REPORTS + 1);
        assert!(!left.contains(&first) && left.contains(&directory.join("notes.txt")));
        fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_report_is_bounded() {
        let text = "é".repeat(MAXIMUM_SIZE);
        assert_eq!(bounded(&text).len(), MAXIMUM_SIZE);
        assert_eq!(bounded("short"), "short");
    }
}
