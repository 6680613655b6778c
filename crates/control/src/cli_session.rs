//! One CLI connection, without its socket: bytes in, bytes out.
//!
//! A session begins in *plain* mode: lines in, answers out, nothing else, so that `nc` and
//! scripts work. The client's terminal type decides what it becomes:
//!
//! | terminal type | session |
//! |---|---|
//! | `vppctl` | lines; one NUL after the answer to each line, which is what `vppctl` counts |
//! | `quiver`, `quiver-json` | lines; ACK and NUL end an answer; NAK, message and NUL end that of a failed command |
//! | any other | interactive: banner, prompt, echo, line editing, TAB, `?`, pages |
//!
//! In the line modes a NUL from the client ends the command even if a brace is still open; `vppctl COMMAND` and our
//! client send one, so that neither can wait for ever. A line of our client that ends in a tab asks for the words that
//! complete it.

use std::fmt;
use std::io;
use std::path::Path;

use command::{LineError, Lines, MAXIMUM_LINE, Reply, Text};
use serde::Serialize;

use crate::completion::{Completed, columns};
use crate::connection::{Connection, Inbox};
use crate::exec::{self, ExecError};
use crate::line_editor::{Key, LineEditor};
use crate::printer::{End, Printer};
use crate::telnet::Event;
use crate::terminal::{Progress, Terminal, Window};
use crate::wrap::Wrap;
use crate::{Executor, Format, SessionDefaults, SessionLine, session_commands};

/// Ends an answer: the command succeeded (ASCII ACK).
pub(crate) const STATUS_DONE: u8 = 0x06;
/// Begins the message of a command that failed (ASCII NAK).
pub(crate) const STATUS_FAILED: u8 = 0x15;

/// Terminal types of our own client.
pub(crate) const TERMINAL_QUIVER: &str = "quiver";
pub(crate) const TERMINAL_QUIVER_JSON: &str = "quiver-json";
/// The name that `vppctl` sends when its input is no terminal.
const TERMINAL_VPPCTL: &str = "vppctl";

const CLEAR_SCREEN: &[u8] = b"\x1b[2J\x1b[1;1H";
const BELL: u8 = 7;

/// SGR parameters of ECMA-48.
const BOLD: &str = "1";
const RED: &str = "31";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Plain,
    Vppctl,
    Quiver(Format),
    Interactive,
}

/// Whether the connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Continue,
    Close,
}

/// Serves a client until it leaves.
///
/// # Errors
/// Those of the connection: the client is gone, or does not read.
pub fn converse(executor: &dyn Executor, connection: &mut dyn Connection) -> io::Result<()> {
    Session::new(executor, connection).run()
}

pub(crate) struct Session<'a> {
    executor: &'a dyn Executor,
    connection: &'a mut dyn Connection,
    inbox: Inbox,
    mode: Mode,
    lines: Lines,
    /// The line being received, in the line modes.
    line: Vec<u8>,
    editor: LineEditor,
    /// Whether the last key was a TAB that left several words to choose from.
    tabbed: bool,
    terminal: Terminal,
    manners: SessionDefaults,
    wrap: Wrap,
    /// Output to send before the session waits for input.
    out: Vec<u8>,
}

impl<'a> Session<'a> {
    pub fn new(executor: &'a dyn Executor, connection: &'a mut dyn Connection) -> Self {
        let manners = executor.manners();
        Self {
            executor,
            connection,
            inbox: Inbox::new(),
            mode: Mode::Plain,
            lines: Lines::with_macros(manners.macros.clone()),
            line: Vec::new(),
            editor: LineEditor::new(manners.history),
            tabbed: false,
            terminal: Terminal::new(&manners),
            manners,
            wrap: Wrap::default(),
            out: Vec::new(),
        }
    }

    /// Serves the client until it leaves.
    ///
    /// # Errors
    /// Those of the connection: the client is gone, or does not read.
    pub fn run(&mut self) -> io::Result<()> {
        loop {
            if self.inbox.is_empty() {
                self.flush()?;
            }
            let next = match self.inbox.next(self.connection)? {
                Some(event) => self.handle(event)?,
                None => {
                    self.end_of_input()?;
                    Next::Close
                }
            };
            if next == Next::Close {
                return self.flush();
            }
        }
    }

    /// The client sends no more. A line without its newline is still a command.
    fn end_of_input(&mut self) -> io::Result<()> {
        if self.mode == Mode::Interactive {
            return Ok(());
        }
        if !self.line.is_empty() {
            self.end_line()?;
        }
        self.end_command()
    }

    fn flush(&mut self) -> io::Result<()> {
        if !self.out.is_empty() {
            self.connection.send(&self.out)?;
            self.out.clear();
        }
        Ok(())
    }

    fn handle(&mut self, event: Event) -> io::Result<Next> {
        match event {
            Event::Byte(byte) if self.mode == Mode::Interactive => return self.key(byte),
            Event::Byte(byte) => return self.line_byte(byte),
            Event::TerminalType(name) => self.choose_mode(&name),
            Event::WindowSize { width, height } => self.terminal.window = Window { width, height },
            Event::AreYouThere => self.print("quiver\n"),
            Event::TerminalTypeRequested => {}
        }
        Ok(Next::Continue)
    }

    /// The first terminal type decides; later ones are ignored.
    fn choose_mode(&mut self, terminal: &str) {
        if self.mode != Mode::Plain {
            return;
        }
        self.mode = match terminal {
            TERMINAL_VPPCTL => Mode::Vppctl,
            TERMINAL_QUIVER => Mode::Quiver(Format::Text),
            TERMINAL_QUIVER_JSON => Mode::Quiver(Format::Json),
            _ => Mode::Interactive,
        };
        if self.mode == Mode::Interactive {
            self.terminal.set_name(terminal);
            self.print(&self.manners.banner.clone());
            self.prompt();
        }
    }

    fn line_byte(&mut self, byte: u8) -> io::Result<Next> {
        match byte {
            b'\n' => return self.end_line(),
            0 => self.end_command()?,
            // One more than the bound marks a line that is too long.
            _ if self.line.len() <= MAXIMUM_LINE => self.line.push(byte),
            _ => {}
        }
        Ok(Next::Continue)
    }

    /// A line is complete: runs the command that it completes.
    fn end_line(&mut self) -> io::Result<Next> {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        if line.len() > MAXIMUM_LINE {
            self.lines.clear();
            self.refuse(&format!("line longer than {MAXIMUM_LINE} bytes"))?;
            return Ok(Next::Continue);
        }
        let Ok(line) = std::str::from_utf8(line) else {
            self.lines.clear();
            self.refuse("input is not UTF-8 text")?;
            return Ok(Next::Continue);
        };
        if is_quit(line) {
            self.end_command()?;
            return Ok(Next::Close);
        }
        if let (Mode::Quiver(_), Some(unfinished)) = (self.mode, line.strip_suffix('\t')) {
            let completion = self.executor.complete(unfinished);
            self.answer(&Completed::of(&completion))?;
            return Ok(Next::Continue);
        }
        self.enter(line)
    }

    /// Takes a line of a command and runs the command that it completes.
    fn enter(&mut self, line: &str) -> io::Result<Next> {
        match self.lines.push(line) {
            Ok(Some(command)) => return self.run_command(&command.text),
            // Every line is acknowledged, or vppctl would wait for an answer.
            Ok(None) if self.mode == Mode::Vppctl => self.out.push(0),
            Ok(None) => {}
            Err(error) => self.refuse(&error.message)?,
        }
        Ok(Next::Continue)
    }

    fn run_command(&mut self, text: &str) -> io::Result<Next> {
        self.terminal.progress = Progress::default();
        // 'q' too, even if other commands begin with it.
        if is_quit(text) {
            return Ok(Next::Close);
        }
        if let Some(own) = self.executor.of_session(text) {
            return self.run_own(&own);
        }
        match self.executor.execute(text) {
            Ok(reply) => self.answer(&*reply)?,
            Err(error) => self.refuse(error.message())?,
        }
        Ok(Next::Continue)
    }

    /// Carries out a command of the session itself.
    fn run_own(&mut self, own: &SessionLine) -> io::Result<Next> {
        match own.name.as_str() {
            "quit" | "exit" => return Ok(Next::Close),
            "exec" => {
                let file = own.args.optional_text("file").unwrap_or_default();
                self.exec(Path::new(file))?;
                return Ok(Next::Continue);
            }
            "history" | "show history" => self.answer(&History(self.editor.history().to_vec()))?,
            "show terminal" => {
                let mode = if self.mode == Mode::Interactive { "char-by-char" } else { "line-by-line" };
                self.answer(&self.terminal.shown(mode, self.editor.history_limit()))?;
            }
            "set terminal pager" => self.terminal.set_pager(&own.args),
            "set terminal history" => self.editor.set_history(&own.args),
            "set terminal ansi" => self.terminal.set_ansi(&own.args),
            other => {
                match session_commands::on_macros(own, &self.manners.macros) {
                    Some(Ok(reply)) => self.answer(&*reply)?,
                    Some(Err(error)) => self.refuse(error.message())?,
                    None => self.refuse(&format!("{other}: sessions cannot do this"))?,
                }
                return Ok(Next::Continue);
            }
        }
        if own.name.starts_with("set ") {
            self.answer(&command::Done)?;
        }
        Ok(Next::Continue)
    }

    fn exec(&mut self, file: &Path) -> io::Result<()> {
        let executor = self.executor;
        let mut show = |reply: &dyn Reply| match self.show(reply)? {
            End::Complete => Ok(()),
            // An operator who stops the output also stops the file.
            End::Stopped => Err(io::ErrorKind::Interrupted.into()),
        };
        match exec::run_file(executor, &executor.files(), file, &mut show) {
            Ok(()) => self.answer(&command::Done),
            Err(ExecError::Refused(message)) => self.refuse(&message),
            Err(ExecError::Output(error)) if error.kind() == io::ErrorKind::Interrupted => self.answer(&command::Done),
            Err(ExecError::Output(error)) => Err(error),
        }
    }

    /// No more lines come for this command: it is refused if a brace is still open.
    fn end_command(&mut self) -> io::Result<()> {
        match self.lines.finish() {
            Err(LineError { message, .. }) => self.refuse(&message),
            Ok(()) => Ok(()),
        }
    }

    fn format(&self) -> Format {
        match self.mode {
            Mode::Quiver(format) => format,
            _ => Format::Text,
        }
    }

    /// Shows a reply and the bytes by which the client recognises its end.
    fn answer(&mut self, reply: &dyn Reply) -> io::Result<()> {
        self.show(reply)?;
        match self.mode {
            Mode::Vppctl => self.out.push(0),
            Mode::Quiver(_) => self.out.extend([STATUS_DONE, 0]),
            Mode::Plain | Mode::Interactive => {}
        }
        self.flush()
    }

    /// Answers that a command failed.
    fn refuse(&mut self, message: &str) -> io::Result<()> {
        match self.mode {
            Mode::Quiver(_) => self.out.push(STATUS_FAILED),
            Mode::Interactive if self.terminal.ansi => self.out.extend(format!("\x1b[{RED}m").bytes()),
            _ => {}
        }
        match self.format() {
            Format::Text => self.show(&Text(message.to_string()))?,
            Format::Json => self.show(&serde_json::json!({ "error": message }))?,
        };
        match self.mode {
            Mode::Vppctl | Mode::Quiver(_) => self.out.push(0),
            Mode::Interactive if self.terminal.ansi => self.out.extend(b"\x1b[0m"),
            Mode::Plain | Mode::Interactive => {}
        }
        self.flush()
    }

    fn show(&mut self, reply: &dyn Reply) -> io::Result<End> {
        self.flush()?;
        let format = self.format();
        let interactive = self.mode == Mode::Interactive;
        Printer::new(self.connection, &mut self.inbox, &mut self.terminal, interactive).print(reply, format)
    }

    /// Prints the session's own text.
    fn print(&mut self, text: &str) {
        match self.mode {
            Mode::Interactive => self.out.extend(text.replace('\n', "\r\n").bytes()),
            _ => self.out.extend(text.bytes()),
        }
    }

    fn prompt(&mut self) {
        let prompt = match self.lines.is_open() {
            // The prompt for the rest of a brace block or line; as wide as the first prompt.
            true => format!("{:>1$}", "> ", self.manners.prompt.chars().count()),
            false => self.manners.prompt.clone(),
        };
        self.out.extend(self.terminal.styled(BOLD, &prompt).bytes());
        self.wrap.begin(prompt.chars().count());
    }

    fn prompt_again(&mut self) {
        self.prompt();
        self.edit(|editor, out| editor.redraw(out));
    }

    /// Lets `edit` change the line, and sends the result to the terminal.
    fn edit<T>(&mut self, edit: impl FnOnce(&mut LineEditor, &mut Vec<u8>) -> T) -> T {
        let mut edited = Vec::new();
        let outcome = edit(&mut self.editor, &mut edited);
        self.wrap.write(&edited, self.terminal.columns(), &mut self.out);
        outcome
    }

    /// Moves the output below the line that is being edited.
    fn leave_line(&mut self, rest: usize) {
        self.wrap.leave(rest, self.terminal.columns(), &mut self.out);
    }

    fn key(&mut self, byte: u8) -> io::Result<Next> {
        let rest = self.editor.behind_cursor();
        let Some(key) = self.edit(|editor, out| editor.push(byte, out)) else {
            self.tabbed = false;
            return Ok(Next::Continue);
        };
        if !matches!(key, Key::Complete | Key::ClearScreen) {
            self.leave_line(rest);
        }
        let tabbed = std::mem::replace(&mut self.tabbed, key == Key::Complete);
        match key {
            Key::Line(line) => {
                self.print("\n");
                self.editor.remember(&line);
                if self.enter(&line)? == Next::Close {
                    return Ok(Next::Close);
                }
                self.prompt();
            }
            Key::Complete => self.complete(tabbed)?,
            Key::Help => {
                self.print("?\n");
                let help = self.executor.help(&self.unfinished());
                let fitting = self.terminal.window.fit(&help);
                self.terminal.progress = Progress::default();
                self.show(&Text(fitting))?;
                self.prompt_again();
            }
            Key::Interrupt => {
                self.lines.clear();
                self.print("^C\n");
                self.prompt();
            }
            Key::ClearScreen => {
                self.out.extend(CLEAR_SCREEN);
                self.prompt_again();
            }
            Key::EndOfInput => {
                self.print("\n");
                return Ok(Next::Close);
            }
        }
        Ok(Next::Continue)
    }

    /// The command up to the cursor, with the lines entered before this one.
    fn unfinished(&self) -> String {
        match self.lines.is_open() {
            true => format!("{}\n{}", self.lines.pending(), self.editor.before_cursor()),
            false => self.editor.before_cursor(),
        }
    }

    /// Completes the word before the cursor as far as it is unambiguous. A second TAB lists the candidates.
    fn complete(&mut self, again: bool) -> io::Result<()> {
        let unfinished = self.unfinished();
        let completion = self.executor.complete(&unfinished);
        let typed = unfinished.get(completion.start..).unwrap_or_default();
        let more = completion.common_prefix().strip_prefix(typed).unwrap_or_default();
        match &completion.candidates[..] {
            [] => self.out.push(BELL),
            [_] => {
                self.edit(|editor, out| editor.insert_text(&format!("{more} "), out));
                // The next TAB is the first for another word.
                self.tabbed = false;
            }
            _ if !more.is_empty() => self.edit(|editor, out| editor.insert_text(more, out)),
            _ if !again => self.out.push(BELL),
            _ => {
                self.leave_line(self.editor.behind_cursor());
                self.print("\n");
                self.terminal.progress = Progress::default();
                let columns = columns(&completion, usize::from(self.terminal.window.width));
                self.show(&Text(columns))?;
                self.prompt_again();
            }
        }
        Ok(())
    }
}

/// Whether the line ends the session.
pub(crate) fn is_quit(line: &str) -> bool {
    matches!(line.trim(), "quit" | "q" | "exit")
}

/// The reply of `history`.
#[derive(Serialize)]
#[serde(transparent)]
struct History(Vec<String>);

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().enumerate().try_for_each(|(number, line)| writeln!(f, "{:>5}  {line}", number + 1))
    }
}

#[cfg(test)]
mod tests;
