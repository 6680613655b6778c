//! Sockets by which memif peers connect. Each packet is one message, with at most one descriptor.

use super::message::{LENGTH, Message};
use crate::OpenError;
use crate::passing;
pub use crate::passing::Received;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs;
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::io;
use std::path::Path;

/// Most connections that wait to be accepted.
const BACKLOG: i32 = 16;
/// Mode of a socket file: owner and group may connect.
const FILE_MODE: u32 = 0o660;

/// The abstract name in a file name, if it is one: the part after `@`, or after VPP's `abstract:`.
fn abstract_name(filename: &str) -> Option<&str> {
    filename.strip_prefix('@').or_else(|| filename.strip_prefix("abstract:"))
}

/// Whether a file name is that of an abstract socket, which has no file.
pub fn is_abstract(filename: &str) -> bool {
    abstract_name(filename).is_some()
}

fn address(filename: &str) -> Result<SocketAddrUnix, OpenError> {
    let address = match abstract_name(filename) {
        Some("") => return Err(OpenError::Refused("an abstract socket has a name".into())),
        Some(name) => SocketAddrUnix::new_abstract_name(name.as_bytes()),
        None => SocketAddrUnix::new(filename),
    };
    address.map_err(|error| OpenError::system(format!("socket '{filename}'"), error))
}

fn socket() -> Result<OwnedFd, Errno> {
    net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)
}

/// A listening socket, and its file. The file is removed when this is dropped, unless another process has put its own
/// there meanwhile.
#[derive(Debug)]
pub struct Listening {
    pub fd: OwnedFd,
    /// None for an abstract socket.
    file: Option<(String, Identity)>,
}

/// Distinguishes a file from another one of the same name: device and inode.
type Identity = (u64, u64);

/// The file that a name leads to, links not followed.
fn identity(filename: &str) -> Result<Identity, Errno> {
    fs::lstat(filename).map(|status| (status.st_dev, status.st_ino))
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some((filename, ours)) = &self.file
            && identity(filename) == Ok(*ours)
        {
            let _ = fs::unlink(Path::new(filename));
        }
    }
}

/// Listens. The file of a dead process is removed first.
///
/// # Errors
/// When another process listens there, or the system refuses.
pub fn listen(filename: &str) -> Result<Listening, OpenError> {
    let failed = |error: Errno| OpenError::system(format!("listening on '{filename}'"), error);
    let address = address(filename)?;
    let fd = socket().map_err(failed)?;
    match net::bind(&fd, &address) {
        Err(Errno::ADDRINUSE) if abstract_name(filename).is_none() => {
            let other = socket().map_err(failed)?;
            match net::connect(&other, &address) {
                Err(Errno::CONNREFUSED) => {}
                _ => return Err(OpenError::Refused(format!("socket '{filename}' is in use by another process"))),
            }
            let kind = fs::lstat(filename).map(|stat| fs::FileType::from_raw_mode(stat.st_mode)).map_err(failed)?;
            if kind != fs::FileType::Socket {
                return Err(OpenError::Refused(format!("'{filename}' is there already, and no socket")));
            }
            fs::unlink(filename).map_err(failed)?;
            net::bind(&fd, &address).map_err(failed)?;
        }
        outcome => outcome.map_err(failed)?,
    }
    let mut listening = Listening { fd, file: None };
    if !is_abstract(filename) {
        listening.file = Some((filename.into(), identity(filename).map_err(failed)?));
        fs::chmod(filename, fs::Mode::from_raw_mode(FILE_MODE)).map_err(failed)?;
    }
    net::listen(&listening.fd, BACKLOG).map_err(failed)?;
    Ok(listening)
}

/// Whether a socket can have this name.
///
/// # Errors
/// Why it cannot.
pub fn check(filename: &str) -> Result<(), OpenError> {
    if abstract_name(filename).is_none() && !filename.starts_with('/') {
        return Err(OpenError::Refused(format!(
            "'{filename}' is no socket: expected an absolute path, or @NAME for an abstract one"
        )));
    }
    address(filename).map(|_| ())
}

/// # Errors
/// When no peer listens.
pub fn connect(filename: &str) -> io::Result<OwnedFd> {
    let address = address(filename).map_err(io::Error::other)?;
    let fd = socket()?;
    net::connect(&fd, &address)?;
    Ok(fd)
}

/// Accepts the next connection, if there is one.
///
/// # Errors
/// When a connection cannot be accepted: no descriptor is left.
pub fn accept(listener: BorrowedFd<'_>) -> io::Result<Option<OwnedFd>> {
    match net::accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
        Ok(fd) => Ok(Some(fd)),
        Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// # Errors
/// When the message cannot be sent at once.
pub fn send(fd: BorrowedFd<'_>, message: &Message, descriptor: Option<&OwnedFd>) -> io::Result<()> {
    passing::send(fd, &message.to_bytes(), descriptor.map(AsFd::as_fd))
}

/// Receives a message, to be parsed, and the descriptor that came with it.
///
/// # Errors
/// When the socket is broken.
pub fn receive(fd: BorrowedFd<'_>) -> io::Result<Received> {
    // Room for more than a message has, so that longer ones are detected.
    passing::receive(fd, LENGTH + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_sockets_are_paths_or_abstract() {
        for name in ["/run/x.sock", "@x", "abstract:x"] {
            check(name).unwrap();
        }
        for name in ["x.sock", "@", "abstract:", &format!("/{}", "x".repeat(200)), ""] {
            assert!(check(name).is_err(), "{name}");
        }
    }

    #[test]
    fn a_dead_process_file_is_taken_over_and_a_live_ones_is_not() {
        let directory = std::env::temp_dir().join(format!("quiver-memif-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let file = directory.join("a.sock");
        let name = file.to_str().unwrap();
        let first = listen(name).unwrap();
        assert!(listen(name).unwrap_err().to_string().contains("in use by another process"));
        // As a killed process leaves it.
        let Listening { fd, .. } = &first;
        let left = fd.try_clone().unwrap();
        std::mem::forget(first);
        net::shutdown(&left, net::Shutdown::Both).unwrap();
        let again = listen(name).unwrap();
        assert!(connect(name).is_ok());
        assert!(accept(again.fd.as_fd()).unwrap().is_some() && accept(again.fd.as_fd()).unwrap().is_none());
        drop(again);
        assert!(!file.exists() && connect(name).is_err());
        // A file that another process has put there meanwhile stays.
        let ours = listen(name).unwrap();
        std::fs::remove_file(&file).unwrap();
        let theirs = std::os::unix::net::UnixListener::bind(&file).unwrap();
        drop(ours);
        assert!(file.exists());
        drop(theirs);
        std::fs::remove_file(&file).unwrap();
        // A socket that a link leads to is not taken over either.
        let other = directory.join("other.sock");
        drop(std::os::unix::net::UnixListener::bind(&other).unwrap());
        std::os::unix::fs::symlink(&other, &file).unwrap();
        assert!(listen(name).unwrap_err().to_string().contains("is there already, and no socket"));
        assert!(file.is_symlink() && other.exists());
        std::fs::remove_file(&file).unwrap();
        // A file that is no socket stays.
        std::fs::write(&file, "text").unwrap();
        assert!(listen(name).is_err() && file.exists());
        std::fs::remove_dir_all(&directory).unwrap();
    }

    #[test]
    fn a_message_brings_one_descriptor() {
        let name = format!("@quiver-memif-test-{}", std::process::id());
        let listener = listen(&name).unwrap();
        let one = connect(&name).unwrap();
        let other = accept(listener.fd.as_fd()).unwrap().unwrap();
        assert!(matches!(receive(other.as_fd()), Ok(Received::Nothing)));
        send(one.as_fd(), &Message::Ack, Some(&listener.fd)).unwrap();
        send(one.as_fd(), &Message::Connect("x".into()), None).unwrap();
        let Ok(Received::Bytes(bytes, Some(_))) = receive(other.as_fd()) else { panic!("no descriptor") };
        assert_eq!(Message::parse(&bytes), Ok(Message::Ack));
        let Ok(Received::Bytes(bytes, None)) = receive(other.as_fd()) else { panic!("a descriptor") };
        assert_eq!(Message::parse(&bytes), Ok(Message::Connect("x".into())));
        drop(one);
        assert!(matches!(receive(other.as_fd()), Ok(Received::End)));
    }
}
