//! The CLI socket: a Unix stream socket that speaks telnet as VPP's does, so that
//! `vppctl`, `nc` and `quiver cli` all work.
//!
//! One thread accepts, one thread serves each connection; so a client that hangs holds up no other client.
//! `cli_session` interprets what a connection sends.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::Executor;
use crate::cli_session::Session;
use crate::telnet::GREETING;

/// Most clients at a time: each takes a thread.
pub const MAXIMUM_CONNECTIONS: usize = 64;

/// How many of them stay free for root and for the user that runs the router, so that other users cannot lock them out.
pub const KEPT_FREE: usize = 1;

/// How long a client may leave its answer unread before it is dropped. Long, because the operator may be reading a
/// pager, and a waiting thread costs other clients nothing. A write that sent part of its bytes waits this long again.
const WRITE_TIMEOUT: Duration = Duration::from_secs(60);

/// How long the holder of a socket has to accept our probe at start.
const PROBE_TIMEOUT: Duration = Duration::from_secs(2);

/// Pause after a failed accept (out of file descriptors, say), so that it does not spin.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

const SOCKET_MODE: u32 = 0o660;
const DIRECTORY_MODE: u32 = 0o755;

/// A listening CLI socket. Dropping it shuts it down.
pub struct CliServer {
    path: PathBuf,
    /// Device and inode of the socket file, to recognise it later.
    identity: (u64, u64),
    listener: UnixListener,
    connections: Arc<Connections>,
    write_timeout: Duration,
    accepting: Option<JoinHandle<()>>,
}

impl CliServer {
    /// Creates the socket (mode 0660) and, when needed, its directory (mode 0755). A
    /// socket that a crashed process left behind is replaced.
    ///
    /// # Errors
    /// `AddrInUse` naming the process that listens at the path; `AlreadyExists` when there is something other than a
    /// socket; and what the system refuses.
    pub fn bind(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        if let Some(directory) = path.parent().filter(|parent| !parent.exists()) {
            let mut builder = fs::DirBuilder::new();
            builder.recursive(true).mode(DIRECTORY_MODE);
            builder.create(directory).map_err(|error| about(directory, &error))?;
            // Regardless of the umask: users of the socket must be able to reach it.
            let mode = fs::Permissions::from_mode(DIRECTORY_MODE);
            fs::set_permissions(directory, mode).map_err(|error| about(directory, &error))?;
        }
        remove_stale(path)?;
        let listener = UnixListener::bind(path).map_err(|error| about(path, &error))?;
        fs::set_permissions(path, fs::Permissions::from_mode(SOCKET_MODE))?;
        let metadata = fs::symlink_metadata(path)?;
        Ok(Self {
            path: path.to_path_buf(),
            identity: (metadata.dev(), metadata.ino()),
            listener,
            connections: Arc::default(),
            write_timeout: WRITE_TIMEOUT,
            accepting: None,
        })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Drops clients that leave an answer unread for longer than `timeout` (60 seconds if
    /// not set) from the next [`CliServer::serve`] on.
    pub fn set_write_timeout(&mut self, timeout: Duration) {
        self.write_timeout = timeout;
    }

    /// Starts to accept connections, and passes their lines to `executor`.
    ///
    /// # Panics
    /// When called twice.
    pub fn serve(&mut self, executor: Arc<dyn Executor>) -> io::Result<()> {
        assert!(self.accepting.is_none(), "the CLI socket serves already");
        let listener = self.listener.try_clone()?;
        let doorman =
            Doorman { connections: Arc::clone(&self.connections), executor, write_timeout: self.write_timeout };
        let accept = move || doorman.accept(&listener);
        let thread = thread::Builder::new().name("cli-accept".into());
        self.accepting = Some(thread.spawn(accept)?);
        Ok(())
    }

    /// Stops accepting, closes all connections and removes the socket file if it is still ours. Does not wait for a
    /// command that runs: the calling thread may be the one that has to finish it.
    pub fn shutdown(&mut self) {
        if self.connections.closing.swap(true, Ordering::SeqCst) {
            return;
        }
        // On Linux, shutting down a listening socket wakes its accept with an error.
        if let Ok(listener) = self.listener.try_clone() {
            let _ = UnixStream::from(OwnedFd::from(listener)).shutdown(Shutdown::Both);
        }
        if let Some(accepting) = self.accepting.take() {
            let _ = accepting.join();
        }
        self.connections.close();
        let ours =
            fs::symlink_metadata(&self.path).is_ok_and(|metadata| (metadata.dev(), metadata.ino()) == self.identity);
        if ours {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Drop for CliServer {
    fn drop(&mut self) {
        self.shutdown();
    }
}

fn about(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

/// Makes room for a socket at `path`, unless a server listens there.
fn remove_stale(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(about(path, &error)),
    };
    if !metadata.file_type().is_socket() {
        return Err(io::Error::new(ErrorKind::AlreadyExists, format!("{} exists and is not a socket", path.display())));
    }
    match probe(path) {
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            fs::remove_file(path).map_err(|error| about(path, &error))
        }
        Err(error) if error.kind() != ErrorKind::TimedOut => Err(about(path, &error)),
        answer => {
            let silent = match answer {
                Ok(()) => "",
                Err(_) => ", which does not answer",
            };
            let holder = holder(path).unwrap_or_else(|| "another process".into());
            Err(io::Error::new(ErrorKind::AddrInUse, format!("{} is in use by {holder}{silent}", path.display())))
        }
    }
}

/// Connects to see whether a server listens. Connecting to a process that has stopped accepting can block, so another
/// thread does it.
fn probe(path: &Path) -> io::Result<()> {
    let (sender, receiver) = mpsc::channel();
    let path = path.to_path_buf();
    thread::Builder::new().name("cli-probe".into()).spawn(move || {
        // The receiver is gone when this took too long: then the result does not matter.
        let _ = sender.send(UnixStream::connect(path).map(drop));
    })?;
    receiver.recv_timeout(PROBE_TIMEOUT).unwrap_or_else(|_| Err(ErrorKind::TimedOut.into()))
}

/// Flags of a listening socket in `/proc/net/unix` (`__SO_ACCEPTCON`).
const LISTENS: &str = "00010000";

/// Which process holds the listening socket of a path. The socket's inode is looked up in the kernel's tables, as far
/// as we may read them.
fn holder(path: &Path) -> Option<String> {
    let path = path.to_str()?;
    let sockets = fs::read_to_string("/proc/net/unix").ok()?;
    // Num, RefCount, Protocol, Flags, Type, St, Inode, Path. Accepted connections have the same path; only the
    // listening socket has the flag.
    let inode = sockets.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let &[_, _, _, LISTENS, _, _, inode, of] = &fields[..] else { return None };
        (of == path).then(|| format!("socket:[{inode}]"))
    })?;
    fs::read_dir("/proc").ok()?.flatten().find_map(|process| {
        let number: u32 = process.file_name().to_str()?.parse().ok()?;
        let mut files = fs::read_dir(process.path().join("fd")).ok()?.flatten();
        files.find(|file| fs::read_link(file.path()).is_ok_and(|target| target.as_os_str() == inode.as_str()))?;
        let name = fs::read_to_string(process.path().join("comm")).unwrap_or_default();
        Some(format!("process {number} ({})", name.trim()))
    })
}

/// The connections that are open.
#[derive(Default)]
struct Connections {
    closing: AtomicBool,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    streams: Vec<(u64, UnixStream)>,
}

impl Connections {
    /// Safe even if a thread panicked: the lists are consistent at every moment.
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes a connection and gives it a number, unless there are too many.
    fn enter(&self, stream: &UnixStream) -> io::Result<Option<u64>> {
        let peer = rustix::net::sockopt::socket_peercred(stream)?.uid;
        let is_own = peer.is_root() || peer == rustix::process::geteuid();
        let most = MAXIMUM_CONNECTIONS - if is_own { 0 } else { KEPT_FREE };
        let stream = stream.try_clone()?;
        let mut open = self.open();
        if open.streams.len() >= most {
            return Ok(None);
        }
        let number = open.next;
        open.next += 1;
        open.streams.push((number, stream));
        Ok(Some(number))
    }

    fn remove(&self, number: u64) {
        self.open().streams.retain(|(open, _)| *open != number);
    }

    fn close(&self) {
        for (_, stream) in &self.open().streams {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

/// Accepts clients.
struct Doorman {
    connections: Arc<Connections>,
    executor: Arc<dyn Executor>,
    write_timeout: Duration,
}

impl Doorman {
    fn accept(&self, listener: &UnixListener) {
        loop {
            let accepted = listener.accept();
            if self.connections.closing.load(Ordering::SeqCst) {
                return;
            }
            if let Err(error) = accepted.and_then(|(stream, _)| self.admit(stream)) {
                log::warn!("CLI socket: {error}");
                thread::sleep(ACCEPT_RETRY);
            }
        }
    }

    /// Gives a connection its thread, or turns it away when there are too many.
    fn admit(&self, mut stream: UnixStream) -> io::Result<()> {
        stream.set_write_timeout(Some(self.write_timeout))?;
        stream.set_read_timeout(self.executor.manners().idle_timeout)?;
        let Some(number) = self.connections.enter(&stream)? else {
            let refusal = format!("too many CLI connections (at most {MAXIMUM_CONNECTIONS})\n");
            // Fits the socket's buffer. Whether the client reads it does not matter.
            let _ = stream.write_all(refusal.as_bytes());
            return Ok(());
        };
        let served = Served { connections: Arc::clone(&self.connections), number };
        let executor = Arc::clone(&self.executor);
        let thread = thread::Builder::new().name(format!("cli-{number}"));
        thread.spawn(move || run(served, stream, executor.as_ref()))?;
        Ok(())
    }
}

/// The whole life of a connection's thread. Takes `served` whole, so that the connection
/// stays in the list until here.
fn run(served: Served, stream: UnixStream, executor: &dyn Executor) {
    match serve(stream, executor) {
        Ok(()) => {}
        // A client may leave before the end of its answer ('vppctl COMMAND
        // head', a closed window): that is not logged.
        Err(error) if left(&error) => {}
        Err(error) if is_idle(&error) => log::info!("CLI connection {} closed: {error}", served.number),
        Err(error) => log::info!("CLI connection {} dropped: {error}", served.number),
    }
}

/// Whether an error of a connection only means that the other side is gone.
fn left(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted)
}

/// Whether an error of a connection means that the client was [idle](crate::connection::Idle): nothing else times out
/// with this error.
fn is_idle(error: &io::Error) -> bool {
    error.kind() == ErrorKind::TimedOut
}

/// An entry in the list of connections, removed when the connection's thread ends, even
/// by a panic.
struct Served {
    connections: Arc<Connections>,
    number: u64,
}

impl Drop for Served {
    fn drop(&mut self) {
        self.connections.remove(self.number);
    }
}

fn serve(mut stream: UnixStream, executor: &dyn Executor) -> io::Result<()> {
    stream.write_all(&GREETING)?;
    let outcome = Session::new(executor, &mut stream).run();
    if outcome.as_ref().is_err_and(is_idle) {
        // Whether the client reads it does not matter.
        let _ = stream.write_all(b"\r\nidle for too long: the connection is closed (unix { cli-idle-timeout })\r\n");
    }
    outcome
}
