//! A client's connection as a session sees it, and what has come in by it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::telnet::{Decoder, Event};

/// Bytes read from a client at a time.
const READ_SIZE: usize = 4096;

/// What a client may have sent ahead while its command is carried out; more waits in the
/// socket.
const MAXIMUM_AHEAD: usize = 4 * READ_SIZE;

/// The wire to a client.
pub trait Connection {
    /// Sends all bytes. Fails when the client is gone or does not read.
    fn send(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Waits for bytes; none when the client sends no more.
    fn receive(&mut self, bytes: &mut [u8]) -> io::Result<usize>;

    /// Takes bytes that are there already. Fails when the client is gone.
    fn take(&mut self, bytes: &mut [u8]) -> io::Result<usize>;
}

/// A client said nothing for as long as its connection may be idle.
#[derive(Debug)]
pub(crate) struct Idle;

impl std::fmt::Display for Idle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("idle for too long")
    }
}

impl std::error::Error for Idle {}

impl From<Idle> for io::Error {
    fn from(idle: Idle) -> io::Error {
        io::Error::new(ErrorKind::TimedOut, idle)
    }
}

impl Connection for UnixStream {
    fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn receive(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.read(bytes) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Err(Idle.into()),
                outcome => return outcome,
            }
        }
    }

    fn take(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let mut ready = [PollFd::new(&*self, PollFlags::IN)];
        poll(&mut ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }))?;
        let flags = ready[0].revents();
        // Both directions are closed. A client that has only ended its input still reads.
        if flags.contains(PollFlags::HUP) {
            return Err(ErrorKind::BrokenPipe.into());
        }
        match flags.contains(PollFlags::IN) {
            true => self.receive(bytes),
            false => Ok(0),
        }
    }
}

/// What a client has sent and the session has not looked at yet.
pub(crate) struct Inbox {
    decoder: Decoder,
    events: VecDeque<Event>,
}

impl Inbox {
    pub fn new() -> Self {
        Self { decoder: Decoder::new(), events: VecDeque::new() }
    }

    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    /// The next event; waits for it. `None` when the client sends no more.
    pub fn next(&mut self, connection: &mut dyn Connection) -> io::Result<Option<Event>> {
        let mut bytes = [0; READ_SIZE];
        while self.events.is_empty() {
            match connection.receive(&mut bytes)? {
                0 => return Ok(None),
                count => self.decode(&bytes[..count]),
            }
        }
        Ok(self.events.pop_front())
    }

    /// Takes in what is there, without waiting. Fails when the client is gone.
    pub fn look(&mut self, connection: &mut dyn Connection) -> io::Result<()> {
        if self.events.len() < MAXIMUM_AHEAD {
            let mut bytes = [0; READ_SIZE];
            let count = connection.take(&mut bytes)?;
            self.decode(&bytes[..count]);
        }
        Ok(())
    }

    /// The last window size that came in, taken out of turn.
    pub fn take_window_size(&mut self) -> Option<(u16, u16)> {
        let mut last = None;
        self.events.retain(|event| match event {
            Event::WindowSize { width, height } => {
                last = Some((*width, *height));
                false
            }
            _ => true,
        });
        last
    }

    /// Whether a byte has come in; it and what came before it are then forgotten.
    pub fn take_through(&mut self, byte: u8) -> bool {
        let found = self.events.iter().position(|event| *event == Event::Byte(byte));
        if let Some(at) = found {
            self.events.drain(..=at);
        }
        found.is_some()
    }

    fn decode(&mut self, bytes: &[u8]) {
        self.events.extend(bytes.iter().filter_map(|byte| self.decoder.push(*byte)));
    }
}
