//! How client programs find and reach a router, and their error messages when they cannot.

use command::Format;
use control::CliClient;
use control::cli_client::ClientError;
use startup::StartupConfig;
use std::io::{self, ErrorKind};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::{fs, iter};

/// The default sockets of a router that root started, and of VPP.
const SYSTEM_SOCKETS: [&str; 2] = ["/run/quiver/cli.sock", "/run/vpp/cli.sock"];
/// The usual name of a CLI socket.
const USUAL_NAME: &str = "cli.sock";
/// The flag of a listening socket in `/proc/net/unix` (`__SO_ACCEPTCON` of the kernel).
const LISTENS: u32 = 0x1_0000;

/// The default socket of a router.
fn default_socket() -> PathBuf {
    StartupConfig::default().unix.cli_listen
}

/// The socket that a running router listens on: the usual ones first, then the only one that the system lists. If no
/// router listens, the first of the usual ones, for the error message.
pub fn found_socket() -> PathBuf {
    let usual = || iter::once(default_socket()).chain(SYSTEM_SOCKETS.map(PathBuf::from));
    let answers = |socket: &PathBuf| UnixStream::connect(socket).is_ok();
    let listed = || match &listening()[..] {
        [only] => Some(only.clone()).filter(answers),
        _ => None,
    };
    usual().find(answers).or_else(listed).unwrap_or_else(default_socket)
}

/// CLI sockets with a listening process, in this network namespace. Sockets of other users, except root's, are left
/// out: the listening process reads what we type.
fn listening() -> Vec<PathBuf> {
    let owner = |path: &Path| fs::metadata(path).map(|metadata| metadata.uid()).ok();
    let own = owner(Path::new("/proc/self"));
    let mut sockets = cli_sockets(&fs::read_to_string("/proc/net/unix").unwrap_or_default());
    sockets.retain(|socket| owner(socket).is_some_and(|uid| uid == 0 || Some(uid) == own));
    sockets
}

/// The listening sockets with the name of a CLI socket in the text of `/proc/net/unix`: address, references, protocol,
/// flags, type, state, inode, path.
fn cli_sockets(listing: &str) -> Vec<PathBuf> {
    let socket = |line: &str| {
        let fields: Vec<&str> = line.split_ascii_whitespace().collect();
        let [_, _, _, flags, _, _, _, path] = fields[..] else { return None };
        let listens = u32::from_str_radix(flags, 16).is_ok_and(|flags| flags & LISTENS != 0);
        (listens && path.starts_with('/') && path.ends_with(USUAL_NAME)).then(|| PathBuf::from(path))
    };
    listing.lines().filter_map(socket).collect()
}

/// Connects; the error says what to do about it.
pub fn connect(socket: &Path, format: Format) -> Result<CliClient, String> {
    CliClient::connect(socket, format).map_err(|error| nobody(socket, &error))
}

/// The error message when no router answers.
pub fn nobody(socket: &Path, error: &io::Error) -> String {
    let others: Vec<String> =
        listening().iter().filter(|other| *other != socket).map(|other| other.display().to_string()).collect();
    let hint = match others.is_empty() {
        true => "is 'quiver run' running?".into(),
        false => format!("there are {}; name one with '-s'", others.join(", ")),
    };
    format!("no router answers on {}: {error} ({hint})", socket.display())
}

/// A reader of our output that closes early (a pager, `head`) is no failure.
pub fn settle<T>(outcome: Result<T, ClientError>) -> Result<Option<T>, String> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(ClientError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listening_cli_sockets_are_read_from_the_systems_list() {
        let listing = "Num       RefCount Protocol Flags    Type St Inode Path\n\
                       0: 00000002 00000000 00010000 0001 01 41 /run/q/cli.sock\n\
                       0: 00000003 00000000 00000000 0001 03 42 /run/connected/cli.sock\n\
                       0: 00000002 00000000 00010000 0001 01 43 /run/other.sock\n\
                       0: 00000002 00000000 00010000 0001 01 44 @abstract/cli.sock\n\
                       0: 00000002 00000000 00010000 0001 01 45\n";
        assert_eq!(cli_sockets(listing), [PathBuf::from("/run/q/cli.sock")]);
    }
}
