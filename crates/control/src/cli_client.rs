//! The client side of the CLI socket, for `quiver cli`.
//!
//! For commands it behaves as `vppctl` does, and also learns whether they failed: it announces the terminal type
//! `quiver`, which makes the server end each answer with a status. For a person it passes keys and characters between
//! the terminal and the server, whose session does the editing, so that all clients behave the same.

use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use command::{Lines, joined_lines};

use crate::Format;
use crate::cli_session::{STATUS_DONE, STATUS_FAILED, TERMINAL_QUIVER, TERMINAL_QUIVER_JSON, is_quit};
use crate::exec::read_line;
use crate::telnet::{Decoder, Event, IAC, terminal_type, window_size_told};

/// How long to wait for the server's greeting.
const GREETING_TIMEOUT: Duration = Duration::from_secs(5);

/// What a command printed, and whether it succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// The command's output, then the error message if it failed.
    pub text: String,
    pub success: bool,
}

/// A command of a batch that failed, or a line that is no command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The line on which the command began, counted from 1.
    pub line: usize,
    pub message: String,
}

/// Why a client had to stop.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error(transparent)]
    Connection(#[from] io::Error),
    /// The input of a batch could not be read.
    #[error("input: {0}")]
    Input(io::Error),
    /// What a command printed could not be passed on; the reader may have closed.
    #[error("output: {0}")]
    Output(io::Error),
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
    /// When no server listens at `path`, or it does not greet within five seconds; the message names the path.
    pub fn connect(path: impl AsRef<Path>, format: Format) -> io::Result<Self> {
        Self::connect_within(path, format, GREETING_TIMEOUT)
    }

    /// [`CliClient::connect`] with another timeout, which also holds for the answers to [`CliClient::complete`].
    pub fn connect_within(path: impl AsRef<Path>, format: Format, patience: Duration) -> io::Result<Self> {
        let terminal = match format {
            Format::Text => TERMINAL_QUIVER,
            Format::Json => TERMINAL_QUIVER_JSON,
        };
        let client = Self::greet(path.as_ref(), patience)?;
        client.stream().write_all(&terminal_type(terminal))?;
        Ok(client)
    }

    /// Connects for a person at a terminal of this type and size (columns, rows).
    ///
    /// # Errors
    /// As [`CliClient::connect`].
    pub fn connect_terminal(path: impl AsRef<Path>, name: &str, window: (u16, u16)) -> io::Result<(Self, Keys)> {
        let client = Self::greet(path.as_ref(), GREETING_TIMEOUT)?;
        client.stream().set_read_timeout(None)?;
        let keys = Keys(client.stream().try_clone()?);
        // The size first: the session's banner may be long.
        keys.tell_window_size(window)?;
        client.stream().write_all(&terminal_type(name))?;
        Ok((client, keys))
    }

    /// Connects and waits until the server has asked for our terminal type.
    fn greet(path: &Path, patience: Duration) -> io::Result<Self> {
        let about = |error: io::Error| io::Error::new(error.kind(), format!("{}: {error}", path.display()));
        let stream = UnixStream::connect(path).map_err(about)?;
        stream.set_read_timeout(Some(patience)).map_err(about)?;
        let mut client = Self { reader: BufReader::new(stream), decoder: Decoder::new() };
        client.await_greeting().map_err(about)?;
        Ok(client)
    }

    fn stream(&self) -> &UnixStream {
        self.reader.get_ref()
    }

    /// Waits until the server asks for our terminal type. A server that turns us away gives the reason in plain text
    /// instead.
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
            match self.reader.fill_buf() {
                Ok([]) => {
                    return Err(io::Error::new(ErrorKind::UnexpectedEof, "the router closed the connection"));
                }
                Ok([byte, ..]) => {
                    let event = self.decoder.push(*byte);
                    self.reader.consume(1);
                    if let Some(event) = event {
                        return Ok(event);
                    }
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Runs one command, or the commands of several lines up to the first that fails or
    /// to `quit`, and keeps what they print.
    ///
    /// # Errors
    /// Those of the connection; a command that fails is an [`Outcome`].
    pub fn run(&mut self, commands: &str) -> Result<Outcome, ClientError> {
        let mut output = Vec::new();
        let failure = self.run_to(commands, &mut output)?;
        let mut text = String::from_utf8_lossy(&output).into_owned();
        text += failure.as_deref().unwrap_or_default();
        Ok(Outcome { text, success: failure.is_none() })
    }

    /// [`CliClient::run`], but passes on what the commands print as it arrives. Returns the message (lines that end in
    /// newlines) of the command that failed, if one did.
    pub fn run_to(&mut self, commands: &str, output: &mut dyn Write) -> Result<Option<String>, ClientError> {
        let commands = match joined_lines(commands) {
            Ok(commands) => commands,
            Err(error) => return Ok(Some(error.message + "\n")),
        };
        for command in commands {
            if is_quit(&command.text) {
                break;
            }
            if let Some(message) = self.run_one(&command.text, output)? {
                return Ok(Some(message));
            }
        }
        Ok(None)
    }

    /// Runs one complete command. A NUL inside would end it early at the server.
    fn run_one(&mut self, command: &str, output: &mut dyn Write) -> Result<Option<String>, ClientError> {
        if command.contains('\0') {
            return Ok(Some("a command cannot contain NUL\n".into()));
        }
        // A command may take any time.
        self.stream().set_read_timeout(None)?;
        self.ask(command, output)
    }

    fn ask(&mut self, line: &str, output: &mut dyn Write) -> Result<Option<String>, ClientError> {
        self.stream().write_all(format!("{line}\n\0").as_bytes())?;
        let mut done = false;
        let mut message: Option<Vec<u8>> = None;
        loop {
            match self.next_event()? {
                Event::Byte(0) if message.is_some() || done => break,
                Event::Byte(0) => {
                    let strange = "the answer has no status: is this a quiver router?";
                    return Err(io::Error::new(ErrorKind::InvalidData, strange).into());
                }
                Event::Byte(STATUS_DONE) => done = true,
                Event::Byte(STATUS_FAILED) => message = Some(Vec::new()),
                Event::Byte(byte) => match &mut message {
                    Some(message) => message.push(byte),
                    None => output.write_all(&[byte]).map_err(ClientError::Output)?,
                },
                _ => {}
            }
            // Pass on what has arrived before waiting for more.
            if self.reader.buffer().is_empty() {
                output.flush().map_err(ClientError::Output)?;
            }
        }
        output.flush().map_err(ClientError::Output)?;
        Ok(message.map(|message| String::from_utf8_lossy(&message).into_owned()))
    }

    /// The words that may complete an unfinished line, sorted.
    pub fn complete(&mut self, line: &str) -> Result<Vec<String>, ClientError> {
        let mut answer = Vec::new();
        // The tab asks for completion. The line breaks of a block would end the line.
        let line = line.replace(['\n', '\0'], " ");
        match self.ask(&format!("{line}\t"), &mut answer)? {
            Some(message) => Err(io::Error::new(ErrorKind::InvalidData, message).into()),
            None => {
                let answer = String::from_utf8_lossy(&answer);
                let word = |row: &str| row.split('\t').next().unwrap_or_default().to_string();
                Ok(answer.lines().map(word).collect())
            }
        }
    }

    /// Runs the commands of a file or pipe up to `quit`, printing their output. Calls `failed` for each failure; it
    /// returns whether to go on.
    pub fn run_lines(
        &mut self,
        mut input: impl BufRead,
        mut output: impl Write,
        mut failed: impl FnMut(Failure) -> bool,
    ) -> Result<(), ClientError> {
        let mut lines = Lines::new();
        let mut number = 0;
        while let Some(line) = read_line(&mut input).map_err(ClientError::Input)? {
            number += 1;
            let read = match String::from_utf8(line) {
                Ok(line) => lines.push(&line).map_err(|error| Failure { line: error.number, message: error.message }),
                Err(_) => Err(Failure { line: number, message: "not UTF-8 text".into() }),
            };
            let failure = match read {
                Ok(None) => None,
                Ok(Some(command)) if is_quit(&command.text) => return Ok(()),
                Ok(Some(command)) => self
                    .run_one(&command.text, &mut output)?
                    .map(|message| Failure { line: command.number, message: message.trim_end().to_string() }),
                Err(failure) => Some(failure),
            };
            if failure.is_some_and(|failure| !failed(failure)) {
                return Ok(());
            }
        }
        if let Err(error) = lines.finish() {
            failed(Failure { line: error.number, message: error.message });
        }
        Ok(())
    }

    /// Passes on what an interactive session prints, until it ends.
    pub fn show(&mut self, mut output: impl Write) -> Result<(), ClientError> {
        loop {
            match self.next_event() {
                Ok(Event::Byte(byte)) => output.write_all(&[byte]).map_err(ClientError::Output)?,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(()),
                Err(error) => return Err(error.into()),
            }
            if self.reader.buffer().is_empty() {
                output.flush().map_err(ClientError::Output)?;
            }
        }
    }
}

/// Sends a person's keys to an interactive session.
pub struct Keys(UnixStream);

impl Keys {
    /// Sends keys as the terminal gives them.
    pub fn press(&self, keys: &[u8]) -> io::Result<()> {
        // UTF-8 text never holds 0xff, which would begin a telnet sequence.
        let keys: Vec<u8> = keys.iter().copied().filter(|key| *key != IAC).collect();
        (&self.0).write_all(&keys)
    }

    /// Sends the window's size in columns and rows.
    pub fn tell_window_size(&self, (width, height): (u16, u16)) -> io::Result<()> {
        (&self.0).write_all(&window_size_told(width, height))
    }

    /// Ends the session: no more keys come.
    pub fn end(&self) -> io::Result<()> {
        self.0.shutdown(std::net::Shutdown::Write)
    }

    pub fn try_clone(&self) -> io::Result<Self> {
        self.0.try_clone().map(Self)
    }
}
