//! The program under the name `vppctl` (a link to it): the arguments, sockets and exit
//! codes of VPP's, so that scripts written for that go on to work.
//!
//! As there, messages of commands that fail go to standard output, and the exit code says
//! only whether a router was reached.

use crate::reach::{connect, found_socket, settle};
use crate::terminal;
use command::Format;
use control::cli_client::Failure;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Whether we were called by that name.
pub fn is_our_name() -> bool {
    let called = std::env::args_os().next().unwrap_or_default();
    Path::new(&called).file_name().is_some_and(|name| name == "vppctl")
}

/// Runs `vppctl [-s SOCKET] [COMMAND...]`.
///
/// # Errors
/// Why no router could be reached, in words.
pub fn run() -> Result<(), String> {
    let (socket, words) = arguments(std::env::args_os().skip(1).collect())?;
    let socket = socket.unwrap_or_else(found_socket);
    if words.is_empty() && io::stdin().is_terminal() && io::stdout().is_terminal() {
        return terminal::interact(&socket);
    }
    let mut client = connect(&socket, Format::Text)?;
    if words.is_empty() {
        // A reader that has seen enough ends it, too.
        let failed = |Failure { message, .. }| writeln!(io::stdout(), "{message}").is_ok();
        return settle(client.run_lines(io::stdin().lock(), io::stdout(), failed)).map(drop);
    }
    if let Some(Some(message)) = settle(client.run_to(&words.join(" "), &mut io::stdout()))? {
        let _ = io::stdout().write_all(message.as_bytes());
    }
    Ok(())
}

/// The socket, if one is named, and the words of the command.
fn arguments(given: Vec<OsString>) -> Result<(Option<PathBuf>, Vec<String>), String> {
    let mut given = given.into_iter().peekable();
    let mut socket = None;
    if given.next_if(|first| first == "-s").is_some() {
        socket = Some(given.next().ok_or("-s needs the path of a socket")?.into());
    }
    let words = given.map(|word| word.into_string().map_err(|word| format!("{}: not UTF-8 text", word.display())));
    Ok((socket, words.collect::<Result<_, _>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_an_option_only_before_the_command() {
        let read = |words: &[&str]| arguments(words.iter().map(OsString::from).collect());
        let words = |words: &[&str]| words.iter().map(|word| word.to_string()).collect::<Vec<_>>();
        assert_eq!(read(&["-s", "/x", "show", "int"]), Ok((Some("/x".into()), words(&["show", "int"]))));
        assert_eq!(read(&["ping", "-s"]), Ok((None, words(&["ping", "-s"]))));
        assert!(read(&["-s"]).is_err());
    }
}
