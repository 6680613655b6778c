//! The client side of the CLI socket, for `quiver cli [COMMAND...]`.
//!
//! It behaves as `vppctl` does with a command, and besides learns whether the command
//! failed: by announcing the terminal type `quiver` it asks the server for a status byte
//! before the NUL that ends each answer.

use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use command::{LineError, Lines, complete_lines};

use crate::Format;
use crate::cli_session::{STATUS_DONE, STATUS_FAILED, TERMINAL_QUIVER, TERMINAL_QUIVER_JSON, is_quit};
use crate::exec::read_line;
use crate::telnet::{Decoder, Event, terminal_type};

/// How long the server has to greet us.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);

const PROMPT: &str = "quiver# ";

/// What a command printed, and whether it was done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The command's output, or the error message.
    pub text: String,
    pub success: bool,
}

/// Why a batch of commands ended early.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// A command failed, or a line cannot be one.
    #[error("line {line}: {message}")]
    Command { line: usize, message: String },
    #[error(transparent)]
    Connection(#[from] io::Error),
}

impl From<LineError> for BatchError {
    fn from(error: LineError) -> Self {
        Self::Command { line: error.number, message: error.message }
    }
}

/// A connection to a router's CLI socket.
pub struct CliClient {
    reader: BufReader<UnixStream>,
    decoder: Decoder,
}

impl CliClient {
    /// Connects and asks for answers in the given format.
    ///
    /// # Errors
    /// When nobody listens at `path`, or who listens does not greet within five seconds;
    /// the message names the path.
    pub fn connect(path: impl AsRef<Path>, format: Format) -> io::Result<Self> {
        let path = path.as_ref();
        Self::open(path, format).map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    }

    fn open(path: &Path, format: Format) -> io::Result<Self> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(Some(GREETING_TIMEOUT))?;
        let mut client = Self { reader: BufReader::new(stream), decoder: Decoder::new() };
        client.await_greeting()?;
        let terminal = match format {
            Format::Text => TERMINAL_QUIVER,
            Format::Json => TERMINAL_QUIVER_JSON,
        };
        client.stream().write_all(&terminal_type(terminal))?;
        // A command takes as long as it takes.
        client.stream().set_read_timeout(None)?;
        Ok(client)
    }

    fn stream(&self) -> &UnixStream {
        self.reader.get_ref()
    }

    /// Waits until the server asks for our terminal type. A server that turns us away
    /// says why in plain text instead.
    fn await_greeting(&mut self) -> io::Result<()> {
        let mut said = Vec::new();
        loop {
            match self.next_event() {
                Ok(Event::TerminalTypeRequested) => return Ok(()),
                Ok(Event::Byte(byte)) if said.len() < 1024 => said.push(byte),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return Err(io::Error::new(ErrorKind::TimedOut, "no answer"));
                }
                Err(error) if said.is_empty() => return Err(error),
                Err(error) => {
                    let said = String::from_utf8_lossy(&said);
                    return Err(io::Error::new(error.kind(), said.trim().to_string()));
                }
            }
        }
    }

    fn next_event(&mut self) -> io::Result<Event> {
        loop {
            let mut byte = [0];
            match self.reader.read(&mut byte) {
                Ok(0) => {
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, "the router closed the connection"));
                }
                Ok(_) => {
                    if let Some(event) = self.decoder.push(byte[0]) {
                        return Ok(event);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Runs one command, or the commands of several lines up to the first that fails or
    /// to `quit`.
    ///
    /// # Errors
    /// Those of the connection; a command that fails is an [`Outcome`].
    pub fn run(&mut self, command: &str) -> io::Result<Outcome> {
        let mut outcome = Outcome { text: String::new(), success: true };
        let commands = match complete_lines(command) {
            Ok(commands) => commands,
            Err(error) => {
                return Ok(Outcome { text: error.message + "\n", success: false });
            }
        };
        for command in commands {
            if is_quit(&command.text) {
                break;
            }
            let answer = self.run_one(&command.text)?;
            outcome.text += &answer.text;
            outcome.success = answer.success;
            if !answer.success {
                break;
            }
        }
        Ok(outcome)
    }

    /// Runs one complete command. A NUL inside would end it early at the server.
    fn run_one(&mut self, command: &str) -> io::Result<Outcome> {
        if command.contains('\0') {
            return Ok(Outcome { text: "a command cannot contain NUL\n".into(), success: false });
        }
        let line = format!("{command}\n\0");
        self.stream().write_all(line.as_bytes())?;
        let mut answer = Vec::new();
        loop {
            match self.next_event()? {
                Event::Byte(0) => break,
                Event::Byte(byte) => answer.push(byte),
                _ => {}
            }
        }
        let success = match answer.pop() {
            Some(STATUS_DONE) => true,
            Some(STATUS_FAILED) => false,
            _ => {
                return Err(io::Error::new(
                    ErrorKind::InvalidData,
                    "the answer has no status: is this a quiver router?",
                ));
            }
        };
        Ok(Outcome { text: String::from_utf8_lossy(&answer).into_owned(), success })
    }

    /// Runs the commands of a file or pipe, printing their output, up to the first that
    /// fails or to `quit`.
    ///
    /// # Errors
    /// [`BatchError::Command`] names the line on which the failing command began.
    pub fn run_lines(&mut self, mut input: impl BufRead, mut output: impl Write) -> Result<(), BatchError> {
        let mut lines = Lines::new();
        let mut number = 0;
        while let Some(line) = read_line(&mut input)? {
            number += 1;
            let line = String::from_utf8(line)
                .map_err(|_| BatchError::Command { line: number, message: "not UTF-8 text".into() })?;
            let Some(command) = lines.push(&line)? else {
                continue;
            };
            if is_quit(&command.text) {
                break;
            }
            let outcome = self.run_one(&command.text)?;
            if !outcome.success {
                return Err(BatchError::Command { line: command.number, message: outcome.text.trim_end().to_string() });
            }
            output.write_all(outcome.text.as_bytes())?;
        }
        lines.finish()?;
        Ok(output.flush()?)
    }

    /// Reads commands and prints their answers, failures too, until `quit` or the end of
    /// the input.
    ///
    /// # Errors
    /// Those of the connection and of `input` and `output`.
    pub fn interact(&mut self, mut input: impl BufRead, mut output: impl Write) -> io::Result<()> {
        let mut lines = Lines::new();
        loop {
            let prompt = if lines.is_open() { "      > " } else { PROMPT };
            output.write_all(prompt.as_bytes())?;
            output.flush()?;
            let Some(line) = read_line(&mut input)? else {
                return output.write_all(b"\n");
            };
            let line = String::from_utf8_lossy(&line);
            if is_quit(&line) {
                return Ok(());
            }
            match lines.push(&line) {
                Ok(Some(command)) => {
                    let outcome = self.run_one(&command.text)?;
                    output.write_all(outcome.text.as_bytes())?;
                }
                Ok(None) => {}
                Err(error) => writeln!(output, "{}", error.message)?,
            }
        }
    }
}
