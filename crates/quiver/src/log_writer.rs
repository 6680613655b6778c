//! The thread that writes the log. A thread that logs queues a line and goes on, however long standard error, a pipe or
//! the journal takes.
//!
//! Lines wait in a queue of limited bytes. When it is full, lines are dropped and counted, until half of it is free
//! again; then the log itself reports how many are missing. A file that is not a regular file is opened and written
//! without waiting for its reader. At the end, [`LogWriter::flush`] waits for a moment at most.

use features::logging::Writing;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::FileType;
use rustix::io::Errno;
use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// Mode of a log file that we create: it may contain addresses.
const FILE_MODE: u32 = 0o640;
/// Most bytes that wait: some thousand lines.
const CAPACITY: usize = 1 << 20;
/// What a line costs besides its text.
const LINE_COST: usize = 64;
/// How long to wait for a file that accepts nothing before checking whether another file replaces it.
const LOOK_AGAIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// A pipe that has room accepts this many bytes without blocking (PIPE_BUF, pipe(7)).
const AT_ONCE: usize = 4096;

/// Makes the line that reports how many were not written; empty when the log does not keep such lines.
type Tell = Box<dyn Fn(u64) -> String + Send>;

/// Where lines go.
pub enum Target {
    File { path: PathBuf, file: File },
    Stderr,
}

impl Target {
    /// Opens a log file, and makes its directory if needed. A pipe without a reader is refused, because opening it
    /// would wait for one.
    ///
    /// # Errors
    /// What is wrong, with the name of the file.
    pub fn open(path: &Path) -> Result<Target, String> {
        let about = |error: String| format!("log {}: {error}", path.display());
        if let Some(directory) = path.parent() {
            command::files::make_directory(directory).map_err(|error| about(error.to_string()))?;
        }
        let flags = rustix::fs::OFlags::NONBLOCK | rustix::fs::OFlags::NOCTTY;
        let mut options = OpenOptions::new();
        options.create(true).append(true).mode(FILE_MODE).custom_flags(flags.bits().cast_signed());
        let file = options.open(path).map_err(|error| match Errno::from_io_error(&error) {
            Some(Errno::NXIO) => about("is a pipe that nobody reads, or a socket: a log file was expected".into()),
            _ => about(error.to_string()),
        })?;
        let status = rustix::fs::fstat(&file).map_err(|error| about(io::Error::from(error).to_string()))?;
        match FileType::from_raw_mode(status.st_mode) {
            FileType::BlockDevice => Err(about("is a disk: a log file was expected".into())),
            _ => Ok(Target::File { path: path.into(), file }),
        }
    }
}

enum Item {
    Line(String),
    /// This many lines are missing here.
    Lost(u64),
    /// A message for standard error, wherever lines go.
    Complaint(String),
    /// From here on, lines go to another file.
    Target(Target),
}

#[derive(Default)]
struct State {
    queue: VecDeque<Item>,
    /// The cost of the items in the queue.
    bytes: usize,
    /// The queue was full, and half of it is not free yet.
    full: bool,
    /// The writer is writing an item.
    busy: bool,
    /// The last line could not be written.
    failing: bool,
    /// Missing lines that were not reported yet.
    lost: u64,
    /// Changes of the file that wait in the queue.
    targets: usize,
}

struct Shared {
    state: Mutex<State>,
    /// Notified when there is something to write.
    filled: Condvar,
    /// Notified when everything is written.
    idle: Condvar,
    capacity: usize,
    writing: Arc<Writing>,
}

/// Queues lines for the thread that writes.
#[derive(Clone)]
pub struct LogWriter(Arc<Shared>);

impl LogWriter {
    /// Starts the thread.
    ///
    /// # Errors
    /// When the system refuses a thread.
    pub fn start(target: Target, writing: Arc<Writing>, tell: Tell) -> io::Result<LogWriter> {
        LogWriter::with_capacity(CAPACITY, target, writing, tell)
    }

    fn with_capacity(capacity: usize, target: Target, writing: Arc<Writing>, tell: Tell) -> io::Result<LogWriter> {
        let shared =
            Shared { state: Mutex::default(), filled: Condvar::new(), idle: Condvar::new(), capacity, writing };
        let writer = LogWriter(Arc::new(shared));
        let of_thread = writer.0.clone();
        thread::Builder::new().name("log".into()).spawn(move || of_thread.run(target, &tell))?;
        Ok(writer)
    }

    /// Queues a line, which ends with a newline. It is dropped and counted when too many wait.
    pub fn line(&self, text: String) {
        self.0.push(Item::Line(text));
    }

    /// Queues a message for standard error.
    pub fn complain(&self, text: String) {
        self.0.push(Item::Complaint(text));
    }

    /// Writes the following lines to another file.
    pub fn retarget(&self, target: Target) {
        self.0.push(Item::Target(target));
    }

    /// Waits until everything is written, for at most this long.
    pub fn flush(&self, patience: Duration) {
        let state = self.0.state();
        let waits = |state: &mut State| state.busy || !state.queue.is_empty();
        drop(self.0.idle.wait_timeout_while(state, patience, waits));
    }
}

impl Item {
    fn cost(&self) -> usize {
        match self {
            Item::Line(text) | Item::Complaint(text) => LINE_COST + text.len(),
            Item::Lost(_) | Item::Target(_) => LINE_COST,
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        // Always consistent: nothing that holds the lock can panic half way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, item: Item) {
        let mut state = self.state();
        state.full &= state.bytes > self.capacity / 2;
        if let Item::Target(_) = item {
            // An earlier change of the file is obsolete: at most one waits, however often the file is changed.
            let before = state.queue.iter().position(|item| matches!(item, Item::Target(_)));
            if let Some(before) = before {
                state.queue.remove(before);
                state.bytes -= LINE_COST;
            }
            state.targets = 1;
        } else {
            state.full |= state.bytes + item.cost() > self.capacity;
            if state.full {
                state.lost += 1;
                return self.publish(&state);
            }
            if state.lost > 0 {
                let lost = Item::Lost(std::mem::take(&mut state.lost));
                state.bytes += lost.cost();
                state.queue.push_back(lost);
            }
        }
        state.bytes += item.cost();
        state.queue.push_back(item);
        self.publish(&state);
        self.filled.notify_one();
    }

    /// Waits for the next item.
    fn next(&self) -> Item {
        let mut state = self.state();
        state.busy = false;
        loop {
            if let Some(item) = state.queue.pop_front() {
                state.bytes -= item.cost();
                state.busy = true;
                self.publish(&state);
                return item;
            }
            // Report missing lines even if nothing more is logged, but not repeatedly to a full disk.
            if state.lost > 0 && !state.failing {
                state.busy = true;
                return Item::Lost(std::mem::take(&mut state.lost));
            }
            self.publish(&state);
            self.idle.notify_all();
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn publish(&self, state: &State) {
        self.writing.set(state.queue.len() as u64 + u64::from(state.busy), state.lost);
    }

    /// Whether another file is queued: then the current one need not be waited for.
    fn has_other_target(&self) -> bool {
        self.state().targets > 0
    }

    fn run(&self, mut target: Target, tell: &Tell) {
        loop {
            let (lines, written) = match self.next() {
                Item::Line(text) => (1, self.write(&target, &text)),
                Item::Lost(count) => (count, self.write(&target, &tell(count))),
                Item::Complaint(text) => {
                    say(&text, Duration::ZERO);
                    continue;
                }
                Item::Target(other) => {
                    target = other;
                    let mut state = self.state();
                    (state.targets, state.failing) = (0, false);
                    continue;
                }
            };
            let was_failing = {
                let mut state = self.state();
                state.lost += if written.is_err() { lines } else { 0 };
                std::mem::replace(&mut state.failing, written.is_err())
            };
            if let (Err(error), Target::File { path, .. }, false) = (written, &target, was_failing)
                && error.kind() != io::ErrorKind::WouldBlock
            {
                say(&format!("quiver: log {}: {error}\n", path.display()), Duration::ZERO);
            }
        }
    }

    /// Writes a line; waits as long as it takes, unless another file replaces this one.
    fn write(&self, target: &Target, text: &str) -> io::Result<()> {
        let stderr = io::stderr();
        let file = match target {
            Target::File { file, .. } => file.as_fd(),
            // Without Rust's lock of standard error, which would block other threads that write there.
            Target::Stderr => stderr.as_fd(),
        };
        let mut left = text.as_bytes();
        while !left.is_empty() {
            match rustix::io::write(file, left) {
                Ok(count) => left = &left[count..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) if self.has_other_target() => return Err(Errno::AGAIN.into()),
                Err(Errno::AGAIN) => {
                    let _ = poll(&mut [PollFd::new(&file, PollFlags::OUT)], Some(&LOOK_AGAIN));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// Writes to standard error for as long as it accepts bytes: when it accepts nothing for `patience`, the rest is
/// dropped.
pub fn say(text: &str, patience: Duration) {
    let stderr = io::stderr();
    let patience = Timespec::try_from(patience).unwrap_or(LOOK_AGAIN);
    let mut left = text.as_bytes();
    while !left.is_empty() {
        let mut room = [PollFd::new(&stderr, PollFlags::OUT)];
        if poll(&mut room, Some(&patience)).is_err() || !room[0].revents().contains(PollFlags::OUT) {
            return;
        }
        match rustix::io::write(&stderr, &left[..left.len().min(AT_ONCE)]) {
            Ok(count) => left = &left[count..],
            Err(Errno::INTR) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    /// Longer than a busy machine delays the test.
    const PATIENCE: Duration = Duration::from_secs(30);

    fn start(capacity: usize, target: Target) -> (LogWriter, Arc<Writing>) {
        let writing = Arc::<Writing>::default();
        let tell: Tell = Box::new(|lost| format!("{lost} lines were not written\n"));
        (LogWriter::with_capacity(capacity, target, writing.clone(), tell).unwrap(), writing)
    }

    /// A directory that is removed with its test.
    struct Playground(PathBuf);

    impl Playground {
        fn new(name: &str) -> Playground {
            let path = std::env::temp_dir().join(format!("quiver-log-writer-{}-{name}", std::process::id()));
            let _ = std::fs::remove_dir_all(&path);
            std::fs::create_dir_all(&path).unwrap();
            Playground(path)
        }

        fn pipe(&self) -> PathBuf {
            let path = self.0.join("pipe");
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, &path, FileType::Fifo, mode, 0).unwrap();
            path
        }

        /// A reader of a pipe that does not block when it is opened or read.
        fn reader(path: &Path) -> File {
            let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
            OpenOptions::new().read(true).custom_flags(flags).open(path).unwrap()
        }
    }

    impl Drop for Playground {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn lines_are_written_in_order_and_a_new_file_takes_those_after_it() {
        let ground = Playground::new("order");
        let (first, second) = (ground.0.join("first"), ground.0.join("deeper/second"));
        let (writer, _) = start(CAPACITY, Target::open(&first).unwrap());
        writer.line("1\n".into());
        writer.line("2\n".into());
        writer.retarget(Target::open(&second).unwrap());
        writer.line("3\n".into());
        writer.flush(PATIENCE);
        assert_eq!(std::fs::read_to_string(first).unwrap(), "1\n2\n");
        assert_eq!(std::fs::read_to_string(second).unwrap(), "3\n");
    }

    #[test]
    fn a_pipe_that_nobody_reads_is_refused_and_one_that_is_full_drops_lines_and_says_how_many() {
        let ground = Playground::new("pipe");
        let pipe = ground.pipe();
        let refusal = Target::open(&pipe).err().unwrap();
        assert!(
            refusal.ends_with("pipe: is a pipe that nobody reads, or a socket: a log file was expected"),
            "{refusal}"
        );
        let mut reader = Playground::reader(&pipe);
        let (writer, writing) = start(100 * (LINE_COST + 1000), Target::open(&pipe).unwrap());
        // A pipe holds 64 kB: it has no room for most of 1,000 lines of 1,000 bytes.
        for number in 0..1000 {
            writer.line(format!("{number:0999}\n"));
        }
        assert!(writing.waiting() > 0);
        // As soon as a reader reads, all that is left arrives, and missing lines are reported.
        let (mut said, mut bytes) = (String::new(), [0; 65_536]);
        let missing = |line: &str| line.split_once(" lines were")?.0.parse::<u64>().ok();
        while said.lines().map(|line| missing(line).unwrap_or(1)).sum::<u64>() < 1000 {
            match reader.read(&mut bytes) {
                Ok(count) => said += std::str::from_utf8(&bytes[..count]).unwrap(),
                Err(error) => assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            thread::yield_now();
        }
        assert!(said.lines().any(|line| missing(line).is_some()), "some had no room");
        writer.flush(PATIENCE);
        assert_eq!((writing.waiting(), writing.lost()), (0, 0));
    }

    #[test]
    fn a_file_that_takes_nothing_gives_way_to_another() {
        let ground = Playground::new("stuck");
        let (pipe, file) = (ground.pipe(), ground.0.join("log"));
        let _reader = Playground::reader(&pipe);
        let (writer, _) = start(CAPACITY, Target::open(&pipe).unwrap());
        for _ in 0..200 {
            writer.line("x".repeat(999) + "\n");
        }
        writer.retarget(Target::open(&file).unwrap());
        writer.line("after\n".into());
        writer.flush(PATIENCE);
        let said = std::fs::read_to_string(file).unwrap();
        assert!(said.contains("after\n") && said.contains(" lines were not written\n"), "{said}");
    }

    #[test]
    fn the_end_waits_for_a_stuck_reader_for_a_moment_only() {
        let ground = Playground::new("end");
        let pipe = ground.pipe();
        let _reader = Playground::reader(&pipe);
        let (writer, writing) = start(CAPACITY, Target::open(&pipe).unwrap());
        for _ in 0..200 {
            writer.line("x".repeat(999) + "\n");
        }
        writer.flush(Duration::from_millis(1));
        assert!(writing.waiting() > 0);
    }

    #[test]
    fn a_full_disk_is_said_once_and_its_lines_are_counted() {
        let (writer, writing) = start(CAPACITY, Target::open(Path::new("/dev/full")).unwrap());
        for _ in 0..3 {
            writer.line("a line\n".into());
        }
        writer.flush(PATIENCE);
        assert_eq!((writing.waiting(), writing.lost()), (0, 3));
    }
}
