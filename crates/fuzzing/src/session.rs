//! Bytes from a client of the CLI socket: telnet, line editing, pages, commands. The commands
//! are read as the router's and repeated.

use command::{CommandError, CommandSet, Completion, Files, Reply, Text, reply};
use control::{Executor, SessionLine, add_session_commands};
use router::Router;
use std::hint::black_box;
use std::io;
use std::sync::LazyLock;

/// Lines that an answer has, to be paged.
const LINES: usize = 100;

static COMMANDS: LazyLock<CommandSet<Router>> = LazyLock::new(|| {
    let mut commands = capabilities::commands();
    add_session_commands(&mut commands);
    commands
});

struct Repeats(Files);

impl Executor for Repeats {
    fn execute(&self, line: &str) -> Result<Box<dyn Reply>, CommandError> {
        let parsed = COMMANDS.parse(line)?;
        reply(Text(format!("{}\n", parsed.command.name()).repeat(LINES)))
    }

    fn of_session(&self, line: &str) -> Option<SessionLine> {
        let parsed = COMMANDS.parse(line).ok().filter(|parsed| parsed.command.is_of_session())?;
        Some(SessionLine { name: parsed.command.name().to_string(), args: parsed.args })
    }

    fn help(&self, line: &str) -> String {
        COMMANDS.help(line)
    }

    fn complete(&self, line: &str) -> Completion {
        COMMANDS.complete(line, &|kind| vec![format!("{kind}0"), format!("{kind}1")])
    }

    fn files(&self) -> Files {
        self.0.clone()
    }
}

/// A client that has sent all that it will.
struct Client<'a> {
    input: &'a [u8],
}

impl control::Connection for Client<'_> {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        black_box(bytes);
        Ok(())
    }

    fn receive(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let length = self.input.len().min(bytes.len());
        let (taken, rest) = self.input.split_at(length);
        bytes[..length].copy_from_slice(taken);
        self.input = rest;
        Ok(length)
    }

    fn take(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        self.receive(bytes)
    }
}

pub fn run(bytes: &[u8]) {
    let directory = crate::Directory::new();
    // Its end is that of the connection, or the client's wish.
    let _ = control::converse(&Repeats(directory.files()), &mut Client { input: bytes });
}
