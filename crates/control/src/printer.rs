//! How a reply goes out: bit by bit, made harmless, page by page.
//!
//! A reply writes itself into a [`Printer`], which holds a chunk of it at most. Between
//! chunks, and at the ends of lines of a reply that takes its time, it looks at what the
//! client has sent: a client that hung up or pressed ^C ends the rendering by an error.

use std::io::{self, ErrorKind, Write};
use std::time::{Duration, Instant};

use command::{Format, Reply};

use crate::connection::{Connection, Inbox};
use crate::telnet::Event;
use crate::terminal::{Terminal, Window};

/// Bytes that are sent at a time.
const CHUNK: usize = 16 * 1024;

/// How long the end of a line may wait for more lines.
const PATIENCE: Duration = Duration::from_millis(100);

/// What ^C sends.
pub(crate) const INTERRUPT: u8 = 3;

const MORE: &[u8] = b"-- more --";
const MORE_ERASED: &[u8] = b"\r          \r";

/// How a reply ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It was shown.
    Complete,
    /// The operator wanted no more of it.
    Stopped,
}

pub(crate) struct Printer<'s> {
    connection: &'s mut dyn Connection,
    inbox: &'s mut Inbox,
    terminal: &'s mut Terminal,
    /// Whether a person at a terminal reads it: with CR LF, pages and ^C.
    interactive: bool,
    out: Vec<u8>,
    flushed: Option<Instant>,
    /// 0xc2 was written: it begins a character of Latin-1, or a control character.
    held: bool,
    /// Columns written of this line.
    column: usize,
    stopped: bool,
    /// Why the connection failed, when it did.
    broken: Option<io::Error>,
}

impl<'s> Printer<'s> {
    pub fn new(
        connection: &'s mut dyn Connection,
        inbox: &'s mut Inbox,
        terminal: &'s mut Terminal,
        interactive: bool,
    ) -> Self {
        Self {
            connection,
            inbox,
            terminal,
            interactive,
            out: Vec::new(),
            flushed: None,
            held: false,
            column: 0,
            stopped: false,
            broken: None,
        }
    }

    /// Shows a reply, with a newline at its end.
    ///
    /// # Errors
    /// Those of the connection.
    pub fn print(mut self, reply: &dyn Reply, format: Format) -> io::Result<End> {
        let written = match reply.write(format, &mut self) {
            // The type cannot be shown; the connection is well.
            Err(error) if !self.stopped && self.broken.is_none() => write!(self, "{error}"),
            outcome => outcome,
        };
        let finished = written.and_then(|()| self.finish());
        if let Some(error) = self.broken.take() {
            return Err(error);
        }
        if self.stopped {
            self.end_line();
            self.send()?;
            return Ok(End::Stopped);
        }
        finished.map(|()| End::Complete)
    }

    fn finish(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.held) {
            self.show(0xc2)?;
        }
        self.end_line();
        match self.flushed {
            // Of a file whose commands print nothing, too, the client may want no more.
            None => self.flush_and_look(),
            Some(_) => self.send(),
        }
    }

    fn end_line(&mut self) {
        if self.column > 0 {
            self.newline();
        }
    }

    /// Takes a byte of the reply. Control characters, which may come from outside in
    /// names, could steer the terminal, and a NUL would end the answer early. Those of C1
    /// (U+0080 to U+009F) are two bytes, of which the first is held back.
    fn push(&mut self, byte: u8) -> io::Result<()> {
        if std::mem::take(&mut self.held) {
            if (0x80..0xa0).contains(&byte) {
                return self.show(b'?');
            }
            self.show(0xc2)?;
        }
        match byte {
            b'\n' => {
                self.make_room()?;
                self.newline();
                self.end_of_line()
            }
            0xc2 => {
                self.held = true;
                Ok(())
            }
            b'\t' | b' '..=b'~' | 0x80.. => self.show(byte),
            _ => self.show(b'?'),
        }
    }

    fn show(&mut self, byte: u8) -> io::Result<()> {
        self.make_room()?;
        self.out.push(byte);
        match byte {
            b'\t' => self.column = (self.column / 8 + 1) * 8,
            // The rest of a character of several bytes.
            0x80..0xc0 => {}
            _ => self.column += 1,
        }
        if self.out.len() >= CHUNK { self.flush_and_look() } else { Ok(()) }
    }

    fn newline(&mut self) {
        self.out.extend_from_slice(if self.interactive { b"\r\n" } else { b"\n" });
        // Terminals that do not know their width tell zero.
        self.terminal.progress.rows += match usize::from(self.terminal.window.width) {
            0 => 1,
            width => self.column.div_ceil(width).max(1),
        };
        self.terminal.progress.lines = self.terminal.progress.lines.saturating_add(1);
        self.column = 0;
    }

    /// What is written is sent when the reply takes its time, and the client looked at.
    fn end_of_line(&mut self) -> io::Result<()> {
        match self.flushed.is_none_or(|then| then.elapsed() >= PATIENCE) || self.out.len() >= CHUNK {
            true => self.flush_and_look(),
            false => Ok(()),
        }
    }

    fn flush_and_look(&mut self) -> io::Result<()> {
        self.send()?;
        let looked = self.inbox.look(self.connection);
        self.note(looked)?;
        if let Some((width, height)) = self.inbox.take_window_size() {
            self.terminal.window = Window { width, height };
        }
        match self.interactive && self.inbox.take_through(INTERRUPT) {
            true => {
                self.out.extend_from_slice(b"^C");
                self.column += 2;
                self.stop()
            }
            false => Ok(()),
        }
    }

    fn send(&mut self) -> io::Result<()> {
        self.flushed = Some(Instant::now());
        if !self.out.is_empty() {
            let sent = self.connection.send(&self.out);
            self.note(sent)?;
            self.out.clear();
        }
        Ok(())
    }

    /// Remembers that the connection failed.
    fn note<T>(&mut self, outcome: io::Result<T>) -> io::Result<T> {
        outcome.inspect_err(|error| self.broken = Some(error.kind().into()))
    }

    fn stop(&mut self) -> io::Result<()> {
        self.stopped = true;
        Err(io::Error::other("the output was stopped"))
    }

    /// At the beginning of a line: stops when the window is full.
    fn make_room(&mut self) -> io::Result<()> {
        let height = usize::from(self.terminal.window.height);
        let pages = self.interactive && self.terminal.pager && !self.terminal.progress.unpaged && height > 1;
        if !pages
            || self.column > 0
            || self.terminal.progress.rows + 1 < height
            || self.terminal.progress.lines >= self.terminal.pager_limit
        {
            return Ok(());
        }
        self.out.extend_from_slice(MORE);
        self.send()?;
        let answer = self.ask_for_more();
        self.out.extend_from_slice(MORE_ERASED);
        match answer? {
            true => Ok(()),
            false => self.stop(),
        }
    }

    /// Waits for a key; whether there shall be more.
    fn ask_for_more(&mut self) -> io::Result<bool> {
        loop {
            let next = self.inbox.next(self.connection);
            match self.note(next)? {
                Some(Event::Byte(b' ')) => self.terminal.progress.rows = 0,
                Some(Event::Byte(b'\r' | b'\n')) => {
                    self.terminal.progress.rows = usize::from(self.terminal.window.height).saturating_sub(2)
                }
                Some(Event::Byte(b'a' | b'G')) => self.terminal.progress.unpaged = true,
                Some(Event::Byte(b'q' | b'Q' | INTERRUPT)) => return Ok(false),
                Some(Event::WindowSize { width, height }) => {
                    self.terminal.window = Window { width, height };
                    // A window that has grown has room for more.
                    if self.terminal.progress.rows + 1 >= usize::from(height) {
                        continue;
                    }
                }
                Some(_) => continue,
                None => return self.note(Err(ErrorKind::UnexpectedEof.into())),
            }
            return Ok(true);
        }
    }
}

impl Write for Printer<'_> {
    /// An empty write comes from a reply that waits: see [`command::still_wanted`].
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if bytes.is_empty() {
            // What goes on by itself (a ping) must not wait for a key.
            self.terminal.progress.unpaged = true;
            self.end_of_line()?;
        }
        for byte in bytes {
            self.push(*byte)?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.send()
    }
}
