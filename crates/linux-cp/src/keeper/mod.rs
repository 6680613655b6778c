//! Sides in Linux outlive the router: another process, the *keeper*, holds a queue of each TAP, by which no frames go.
//! When the router ends, however it does, the interfaces in Linux stay as they are, with carrier, addresses, routes and
//! VLAN links. The next router finds them, and the keeper, by a name. When nobody comes for a time, the keeper ends,
//! and they with it.
//!
//! ```text
//!  router ──"+key", a queue──▶ keeper     (abstract socket, one message a packet)
//!         ──"?key"───────────▶            whether it is kept
//!         ──"-key"───────────▶            the interface may go
//!         ◀───────sign, message──         answers these two: yes, no
//! ```

mod process;

pub use process::run;

use drivers::passing::{self, Received};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt::socket_peercred;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::geteuid;
use std::io::{self, Error, ErrorKind};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

/// The longest message: a sign, and a key: a namespace, which may be a path, and the name of an interface.
const LONGEST: usize = 1 + 8192;
/// How lists of processes call it.
const PROCESS: &str = "quiver-keep-links";

/// Signs of answers.
const HELD: u8 = b'y';
const NOT_HELD: u8 = b'n';
/// The keeper answers at once.
const PATIENCE: Timespec = Timespec { tv_sec: 2, tv_nsec: 0 };
/// Routers that wait to be heard.
const BACKLOG: i32 = 4;

/// How long, and under which name, interfaces are kept.
#[derive(Debug, Clone)]
pub struct Settings {
    pub time: Duration,
    pub name: String,
}

/// The keeper, as the router has it.
pub struct Keeper {
    socket: OwnedFd,
}

impl Keeper {
    /// Finds the keeper of a router that ran before, or starts one.
    ///
    /// # Errors
    /// When there is one that serves another router, or none can be started.
    pub fn find(settings: &Settings) -> io::Result<Keeper> {
        let address = SocketAddrUnix::new_abstract_name(settings.name.as_bytes())?;
        let listener = socket(SocketFlags::CLOEXEC)?;
        match net::bind(&listener, &address) {
            Ok(()) => {
                net::listen(&listener, BACKLOG)?;
                start(listener, settings)?;
            }
            Err(Errno::ADDRINUSE) => {}
            Err(error) => return Err(error.into()),
        }
        // One that takes no connection does not hold up the router.
        let socket = socket(SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)?;
        net::connect(&socket, &address)?;
        check_peer(&socket)?;
        let mut keeper = Keeper { socket };
        // One that serves another router closes the connection.
        keeper.holds("").map_err(|error| match error.kind() {
            ErrorKind::UnexpectedEof => Error::new(ErrorKind::AddrInUse, "it serves another router"),
            _ => error,
        })?;
        Ok(keeper)
    }

    /// Whether an interface is kept, from a router that ran before.
    ///
    /// # Errors
    /// When the keeper is gone.
    pub fn holds(&mut self, key: &str) -> io::Result<bool> {
        Ok(self.ask(&message(b'?', key))? == HELD)
    }

    /// Has an interface kept, by a queue of it.
    ///
    /// # Errors
    /// When the keeper is gone.
    pub fn keep(&mut self, key: &str, queue: &OwnedFd) -> io::Result<()> {
        passing::send(self.socket.as_fd(), &message(b'+', key), Some(queue.as_fd()))
    }

    /// Has it kept no longer, and waits until it is so.
    ///
    /// # Errors
    /// When the keeper is gone.
    pub fn let_go(&mut self, key: &str) -> io::Result<()> {
        self.ask(&message(b'-', key)).map(drop)
    }

    /// Sends a message that the keeper answers with a sign, and the message itself behind it. Gives the sign.
    fn ask(&mut self, message: &[u8]) -> io::Result<u8> {
        passing::send(self.socket.as_fd(), message, None)?;
        loop {
            let mut watched = [PollFd::new(&self.socket, PollFlags::IN)];
            if poll(&mut watched, Some(&PATIENCE))? == 0 {
                return Err(Error::new(ErrorKind::TimedOut, "it does not answer"));
            }
            match passing::receive(self.socket.as_fd(), LONGEST + 1)? {
                Received::Bytes(bytes, _) => match bytes.split_first() {
                    Some((sign, about)) if about == message => return Ok(*sign),
                    // The answer to a question that was given up.
                    _ => {}
                },
                Received::Nothing => {}
                Received::End => return Err(Error::new(ErrorKind::UnexpectedEof, "it is gone")),
            }
        }
    }
}

fn message(sign: u8, key: &str) -> Vec<u8> {
    [&[sign], key.as_bytes()].concat()
}

fn socket(flags: SocketFlags) -> io::Result<OwnedFd> {
    Ok(net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?)
}

/// Names of abstract sockets are everybody's: what answers has to be ours.
fn check_peer(socket: &OwnedFd) -> io::Result<()> {
    match socket_peercred(socket)?.uid == geteuid() {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::PermissionDenied, "another user's process has its name")),
    }
}

/// Starts the process. It is this program, so that nothing else need be installed.
fn start(listener: OwnedFd, settings: &Settings) -> io::Result<()> {
    let mut child = Command::new("/proc/self/exe")
        .arg0(PROCESS)
        .args(["keep-links", &settings.time.as_secs().to_string()])
        .stdin(Stdio::from(listener))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        // What is typed at the router's terminal, such as ^C, is not meant for it.
        .process_group(0)
        .spawn()?;
    // It outlives this process, or is reaped when it ends before.
    std::thread::Builder::new().name("keeper".into()).spawn(move || child.wait())?;
    Ok(())
}
