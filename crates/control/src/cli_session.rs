//! One CLI connection, without its socket: bytes in, bytes out.
//!
//! A session begins in *plain* mode: lines in, answers out, nothing else, so that `nc` and
//! scripts work. The client's terminal type decides what it becomes:
//!
//! | terminal type | session |
//! |---|---|
//! | `vppctl` | lines; one NUL after the answer to each line, which is what `vppctl` counts |
//! | `quiver`, `quiver-json` | lines; ACK and NUL end an answer; of a command that failed, NAK, the message and NUL |
//! | any other | interactive: banner, prompt, echo, line editing, TAB, `?`, pages |
//!
//! In the line modes a NUL from the client ends the command even if a brace is still open;
//! `vppctl COMMAND` and our client send one, so that neither can wait for ever. A line of
//! our client that ends in a tab asks for the words that complete it.

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
use crate::{Executor, Format, Manners, SessionLine};

/// Ends an answer: the command was done (ASCII ACK).
pub(crate) const STATUS_DONE: u8 = 0x06;
/// Begins the message of a command that failed (ASCII NAK).
pub(crate) const STATUS_FAILED: u8 = 0x15;

/// Terminal types of our own client.
pub(crate) const TERMINAL_QUIVER: &str = "quiver";
pub(crate) const TERMINAL_QUIVER_JSON: &str = "quiver-json";
/// What `vppctl` calls itself when its input is no terminal.
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
    manners: Manners,
    /// What goes out before the session waits for input.
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
            lines: Lines::new(),
            line: Vec::new(),
            editor: LineEditor::new(manners.history),
            tabbed: false,
            terminal: Terminal::new(&manners),
            manners,
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

    /// The client sends no more: a line without its newline is still a command.
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

    /// The first terminal type decides; a client cannot change its mind.
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
        // `q' too, whatever other commands begin so.
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

    /// Carries out a command of the session's.
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
                self.refuse(&format!("{other}: sessions cannot do this"))?;
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
            // Who wants no more of the output wants no more of the file.
            End::Stopped => Err(io::ErrorKind::Interrupted.into()),
        };
        match exec::run_file(executor, &executor.files(), file, &mut show) {
            Ok(()) => self.answer(&command::Done),
            Err(ExecError::Refused(message)) => self.refuse(&message),
            Err(ExecError::Output(error)) if error.kind() == io::ErrorKind::Interrupted => self.answer(&command::Done),
            Err(ExecError::Output(error)) => Err(error),
        }
    }

    /// No more lines come for this command: one that is still open is refused.
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

    /// Shows a reply and what the client takes for the end of it.
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

    /// Prints words of the session's own.
    fn print(&mut self, text: &str) {
        match self.mode {
            Mode::Interactive => self.out.extend(text.replace('\n', "\r\n").bytes()),
            _ => self.out.extend(text.bytes()),
        }
    }

    fn prompt(&mut self) {
        let prompt = match self.lines.is_open() {
            // Asks for the rest of a brace block; as wide as the prompt.
            true => format!("{:>1$}", "> ", self.manners.prompt.chars().count()),
            false => self.manners.prompt.clone(),
        };
        self.out.extend(self.terminal.styled(BOLD, &prompt).bytes());
    }

    fn prompt_again(&mut self) {
        self.prompt();
        self.editor.redraw(&mut self.out);
    }

    fn key(&mut self, byte: u8) -> io::Result<Next> {
        let Some(key) = self.editor.push(byte, &mut self.out) else {
            self.tabbed = false;
            return Ok(Next::Continue);
        };
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

    /// The command up to the cursor, with its lines before this one.
    fn unfinished(&self) -> String {
        match self.lines.is_open() {
            true => format!("{}\n{}", self.lines.pending(), self.editor.before_cursor()),
            false => self.editor.before_cursor(),
        }
    }

    /// Completes the word before the cursor as far as it is certain. A second TAB lists
    /// what there is to choose from.
    fn complete(&mut self, again: bool) -> io::Result<()> {
        let unfinished = self.unfinished();
        let completion = self.executor.complete(&unfinished);
        let typed = unfinished.get(completion.start..).unwrap_or_default();
        let more = completion.common_prefix().strip_prefix(typed).unwrap_or_default();
        match &completion.candidates[..] {
            [] => self.out.push(BELL),
            [_] => {
                self.editor.insert_text(&format!("{more} "), &mut self.out);
                // The next TAB is the first of another word.
                self.tabbed = false;
            }
            _ if !more.is_empty() => self.editor.insert_text(more, &mut self.out),
            _ if !again => self.out.push(BELL),
            _ => {
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
mod tests {
    use super::*;
    use crate::add_session_commands;
    use crate::telnet::{terminal_type, window_size_told};
    use command::{Command, CommandError, CommandSet, Completion, fail, reply};
    use std::cell::Cell;
    use std::collections::VecDeque;
    use std::rc::Rc;

    /// A program that repeats what it is told, with a few commands of which the grammar
    /// knows the shape.
    struct Parrot(CommandSet<()>);

    /// Counts up, a number a line, for as long as anybody reads.
    struct Count(u64);

    impl fmt::Display for Count {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            (1..=self.0).try_for_each(|number| writeln!(f, "{number}"))
        }
    }

    impl Serialize for Count {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_seq(1..=self.0)
        }
    }

    /// Lines between which it waits, as a ping does.
    #[derive(Serialize)]
    struct Live(u32);

    impl fmt::Display for Live {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            (1..=self.0).try_for_each(|number| {
                f.write_str("")?;
                writeln!(f, "{number}")
            })
        }
    }

    #[derive(Serialize)]
    struct Line(String);

    impl fmt::Display for Line {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "[{}]", self.0)
        }
    }

    impl Parrot {
        fn new() -> Self {
            let mut set = CommandSet::new();
            add_session_commands(&mut set);
            for syntax in ["show interface <name:interface>", "show ip fib", "show ip neighbors", "set state <x:word>"]
            {
                set.add(Command::new(syntax, "", |(): &mut (), _| reply(command::Done)));
            }
            Self(set)
        }
    }

    impl Executor for Parrot {
        fn execute(&self, line: &str) -> Result<Box<dyn Reply>, CommandError> {
            match line.split_once(' ') {
                Some(("fail", message)) => fail(message),
                Some(("count", number)) => reply(Count(number.parse().unwrap())),
                Some(("live", number)) => reply(Live(number.parse().unwrap())),
                _ if line == "silent" => reply(command::Done),
                _ => reply(Line(line.to_string())),
            }
        }

        fn of_session(&self, line: &str) -> Option<SessionLine> {
            let parsed = self.0.parse(line).ok().filter(|parsed| parsed.command.is_of_session())?;
            Some(SessionLine { name: parsed.command.name().to_string(), args: parsed.args })
        }

        fn help(&self, line: &str) -> String {
            format!("  help on `{line}'\n")
        }

        fn complete(&self, line: &str) -> Completion {
            self.0.complete(line, &|_| vec!["e0".into(), "east".into(), "west".into()])
        }

        fn manners(&self) -> Manners {
            Manners { banner: "welcome\n\n".into(), ..Manners::default() }
        }
    }

    /// A client that has written down what it will send.
    #[derive(Default)]
    struct Script {
        /// What it sends when the session waits, a read each.
        input: VecDeque<Vec<u8>>,
        /// What it sends while a reply is being shown.
        meanwhile: VecDeque<Vec<u8>>,
        output: Vec<u8>,
        /// The largest piece that was sent to it.
        largest: usize,
        /// Bytes after which it is gone.
        patience: Option<usize>,
        /// How often the session looked for input while it printed.
        looks: Rc<Cell<usize>>,
    }

    impl Connection for Script {
        fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
            self.largest = self.largest.max(bytes.len());
            self.output.extend(bytes);
            match self.patience.is_some_and(|patience| self.output.len() > patience) {
                true => Err(io::ErrorKind::BrokenPipe.into()),
                false => Ok(()),
            }
        }

        fn receive(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            let mut next = self.input.pop_front().unwrap_or_default();
            let count = next.len().min(bytes.len());
            bytes[..count].copy_from_slice(&next[..count]);
            if count < next.len() {
                self.input.push_front(next.split_off(count));
            }
            Ok(count)
        }

        fn take(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
            self.looks.set(self.looks.get() + 1);
            let next = self.meanwhile.pop_front().unwrap_or_default();
            bytes[..next.len()].copy_from_slice(&next);
            Ok(next.len())
        }
    }

    /// What a client receives that sends these pieces.
    fn transcript(pieces: &[&[u8]]) -> String {
        let mut script = Script { input: pieces.iter().map(|piece| piece.to_vec()).collect(), ..Script::default() };
        Session::new(&Parrot::new(), &mut script).run().unwrap();
        String::from_utf8(script.output).unwrap()
    }

    fn as_terminal(name: &str, bytes: &[u8]) -> String {
        transcript(&[&terminal_type(name), bytes])
    }

    /// What a person at a dumb terminal, who types one key after the other, sees after the
    /// first prompt, up to the last.
    fn dumb(window: (u16, u16), keys: &[u8]) -> String {
        let greeting = [window_size_told(window.0, window.1), terminal_type("dumb")].concat();
        let mut pieces: Vec<&[u8]> = vec![&greeting];
        pieces.extend(keys.chunks(1));
        let seen = transcript(&pieces);
        let seen = seen.strip_prefix("welcome\r\n\r\nquiver# ").unwrap();
        seen.strip_suffix("quiver# ").unwrap_or(seen).to_string()
    }

    #[test]
    fn a_plain_client_gets_answers_and_nothing_else() {
        assert_eq!(transcript(&[b"one\r\nsilent\n\nfail why\nlast"]), "[one]\nwhy\n[last]\n");
        assert_eq!(transcript(&[b"one\nqu", b"it\ntwo\n"]), "[one]\n");
    }

    #[test]
    fn vppctl_gets_a_nul_after_each_line() {
        assert_eq!(as_terminal("vppctl", b"show version \n\0"), "[show version]\n\0");
        assert_eq!(as_terminal("vppctl", b"silent\n\nfail no\npg {\nx }\nq\n"), "\0\0no\n\0\0[pg {\nx }]\n\0");
    }

    #[test]
    fn an_open_block_is_refused_at_the_clients_nul_or_quit() {
        let refusal = "\0`{' is never closed\n\0";
        assert_eq!(as_terminal("vppctl", b"pg { \n\0"), refusal);
        assert_eq!(as_terminal("vppctl", b"pg { \nquit\n"), refusal);
    }

    #[test]
    fn our_client_gets_a_status_with_the_nul() {
        assert_eq!(
            as_terminal("quiver", b"one\n\0fail no\n\0pg {\n\0"),
            "[one]\n\x06\0\x15no\n\0\x15`{' is never closed\n\0"
        );
        assert_eq!(as_terminal("quiver-json", b"one\n\0fail no\n\0"), "\"one\"\n\x06\0\x15{\"error\":\"no\"}\n\0");
    }

    #[test]
    fn our_client_may_ask_what_completes_a_line() {
        assert_eq!(as_terminal("quiver", b"sh ip \t\n\0"), "fib\t\nneighbors\t\n\x06\0");
        assert_eq!(as_terminal("quiver-json", b"sho\t\n\0"), "[{\"word\":\"show\",\"help\":\"...\"}]\n\x06\0");
    }

    #[test]
    fn a_terminal_gets_banner_prompt_echo_and_crlf() {
        assert_eq!(
            as_terminal("dumb", b"one\rpg {\n }\r\n\x04"),
            "welcome\r\n\r\nquiver# one\r\n[one]\r\nquiver# pg {\r\n      >  }\r\n[pg {\r\n }]\r\nquiver# \r\n"
        );
    }

    #[test]
    fn colours_are_for_terminals_that_have_them_and_can_be_turned_off() {
        assert_eq!(
            as_terminal("xterm", b"fail no\nset terminal ansi off\nfail no\n"),
            "welcome\r\n\r\n\x1b[1mquiver# \x1b[0mfail no\r\n\x1b[31mno\r\n\x1b[0m\x1b[1mquiver# \x1b[0m\
             set terminal ansi off\r\nquiver# fail no\r\nno\r\nquiver# "
        );
    }

    #[test]
    fn a_question_mark_helps_at_once_and_keeps_the_line() {
        assert_eq!(dumb((80, 24), b"show ?\x03q\n"), "show ?\r\n  help on `show '\r\nquiver# show ^C\r\nquiver# q\r\n");
    }

    #[test]
    fn tab_completes_what_is_certain_and_lists_the_rest_at_the_second() {
        // One candidate; a common beginning; a bell, then a list.
        assert_eq!(dumb((80, 24), b"sho\t"), "show ");
        assert_eq!(dumb((80, 24), b"sho\t\t"), "show \x07");
        assert_eq!(dumb((80, 24), b"sh i\t"), "sh i\x07");
        assert_eq!(
            dumb((80, 24), b"sh int e\t\t\x01"),
            "sh int e\x07\r\ne0    east\r\nquiver# sh int e\x08\x08\x08\x08\x08\x08\x08\x08"
        );
        assert_eq!(dumb((80, 24), b"sh int ea\t\n"), "sh int east \r\n[sh int east]\r\n");
        assert_eq!(dumb((80, 24), b"x \t"), "x \x07");
        // Another key between two TABs: no list.
        assert_eq!(dumb((80, 24), b"sh i\t\x05\t"), "sh i\x07\x07");
        // A narrow window has one column.
        assert_eq!(dumb((9, 24), b"sh int \t\t"), "sh int \x07\r\ne0\r\neast\r\nwest\r\nquiver# sh int ");
    }

    #[test]
    fn the_window_size_is_kept() {
        let shown = dumb((132, 43), b"sh term\n");
        assert!(shown.contains("Terminal width:  132\r\nTerminal height: 43\r\nANSI capable:    no\r\n"), "{shown}");
    }

    const MORE: &str = "-- more --";
    const ERASED: &str = "\r          \r";

    #[test]
    fn the_pager_goes_by_pages_lines_to_the_end_or_leaves() {
        let page = |keys: &[u8]| dumb((80, 4), &[b"count 9\n", keys].concat()).replace("\r\n", "|");
        let stop = format!("{MORE}{ERASED}");
        assert_eq!(page(b"  "), format!("count 9|1|2|3|{stop}4|5|6|{stop}7|8|9|"));
        assert_eq!(page(b"\rxq"), format!("count 9|1|2|3|{stop}4|{stop}"));
        assert_eq!(page(b"a"), format!("count 9|1|2|3|{stop}4|5|6|7|8|9|"));
        assert_eq!(page(b"\x03"), format!("count 9|1|2|3|{stop}"));
        // A page that fits is not stopped after.
        assert_eq!(dumb((80, 4), b"count 3\n"), "count 3\r\n1\r\n2\r\n3\r\n");
    }

    #[test]
    fn a_window_that_grows_shows_more_and_rows_of_long_lines_count() {
        let keys = [b"count 9\n", &window_size_told(80, 8)[..], b"q"].concat();
        let stop = format!("{MORE}{ERASED}");
        assert_eq!(dumb((80, 4), &keys), format!("count 9|1|2|3|{stop}4|5|6|7|{stop}").replace('|', "\r\n"));
        // Three lines, of which the second fills three rows.
        let line = "x".repeat(30);
        let block = format!("pg {{\n{line}\n}}\n ");
        assert_eq!(dumb((10, 4), block.as_bytes()).matches(MORE).count(), 1);
        assert_eq!(dumb((40, 4), block.as_bytes()).matches(MORE).count(), 0);
    }

    #[test]
    fn the_pager_can_be_limited_or_turned_off() {
        let stops = |set: &str| dumb((80, 4), format!("{set}\ncount 9\n          ").as_bytes()).matches(MORE).count();
        assert_eq!(stops("set terminal pager off"), 0);
        assert_eq!(stops("set terminal pager limit 4"), 1);
        assert_eq!(stops("set terminal pager on"), 2);
        // What goes on by itself does not wait for a key; the next command has pages again.
        assert_eq!(dumb((80, 4), b"live 99\n").matches(MORE).count(), 0);
        assert_eq!(dumb((80, 4), b"live 99\ncount 9\n          ").matches(MORE).count(), 2);
        // A window that does not tell its height has no pages; nor have clients that are no terminals.
        assert_eq!(dumb((0, 0), b"count 99\n").matches(MORE).count(), 0);
        assert!(!as_terminal("vppctl", b"count 99\n").contains(MORE));
    }

    #[test]
    fn history_is_shown_limited_and_turned_off() {
        assert!(dumb((80, 24), b"one\ntwo\nhistory\n").ends_with("    1  one\r\n    2  two\r\n    3  history\r\n"));
        let limited = dumb((80, 24), b"one\ntwo\nset term hist limit 2\nhistory\n");
        assert!(limited.ends_with("    1  set term hist limit 2\r\n    2  history\r\n"), "{limited}");
        assert!(dumb((80, 24), b"one\nset term hist off\nhistory\n").ends_with("history\r\n"));
    }

    fn count(number: u64, mode: &str, more: impl FnOnce(&mut Script)) -> (io::Result<()>, Script) {
        let count = format!("count {number}\n").into_bytes();
        let input = [terminal_type(mode), b"set term pager off\n".to_vec(), count].into();
        let mut script = Script { input, ..Script::default() };
        more(&mut script);
        let outcome = Session::new(&Parrot::new(), &mut script).run();
        (outcome, script)
    }

    #[test]
    fn a_million_lines_are_never_held_at_once() {
        let (outcome, script) = count(1_000_000, "vppctl", |_| {});
        outcome.unwrap();
        assert_eq!(script.output.iter().filter(|byte| **byte == b'\n').count(), 1_000_000);
        assert!(script.largest < 20_000, "{}", script.largest);
    }

    #[test]
    fn interrupt_ends_a_reply_and_the_session_goes_on() {
        // The first looks find other keys, which are kept for later.
        let (outcome, script) = count(u64::MAX, "dumb", |script| {
            script.meanwhile = [b"x".to_vec(), b"\x03on".to_vec(), vec![]].into();
            script.input.push_back(b"e\nq\n".to_vec());
        });
        outcome.unwrap();
        let output = String::from_utf8(script.output).unwrap();
        assert!(output.ends_with("^C\r\nquiver# one\r\n[one]\r\nquiver# q\r\n"), "{}", &output[output.len() - 90..]);
        // One for each of the three commands.
        assert_eq!(script.looks.get(), 3);
    }

    #[test]
    fn a_client_that_is_gone_ends_a_reply() {
        let (outcome, script) = count(u64::MAX, "vppctl", |script| script.patience = Some(100_000));
        assert_eq!(outcome.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert!(script.output.len() < 120_000);
    }

    #[test]
    fn files_are_carried_out_by_the_session() {
        let file = std::env::temp_dir().join(format!("quiver-session-{}", std::process::id()));
        std::fs::write(&file, "one\nfail here\n").unwrap();
        let shown = as_terminal("quiver", format!("exec {}\n\0", file.display()).as_bytes());
        assert_eq!(shown, format!("[one]\n\x15{}:2: here\n\0", file.display()));
        std::fs::write(&file, "count 9\ntwo\n").unwrap();
        let shown = dumb((80, 4), format!("exec {}\nqthree\n", file.display()).as_bytes());
        assert!(!shown.contains("[two]") && shown.ends_with("[three]\r\n"), "{shown}");
        // The replies of a file are one output.
        std::fs::write(&file, "one\n".repeat(7)).unwrap();
        let shown = dumb((80, 4), format!("exec {}\n  one\n", file.display()).as_bytes());
        assert_eq!(shown.matches(MORE).count(), 2, "{shown}");
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn output_cannot_steer_the_terminal_or_end_early() {
        assert_eq!(as_terminal("vppctl", b"fail a\x1b[2Jb\x01\n"), "a?[2Jb?\n\0");
        // C1 controls, of which the first byte also begins harmless characters.
        assert_eq!(as_terminal("vppctl", "fail a\u{9b}2J \u{a0}é\u{80}\n".as_bytes()), "a?2J \u{a0}é?\n\0");
        assert_eq!(as_terminal("vppctl", "fail \u{ad}\n".as_bytes()), "\u{ad}\n\0");
    }

    #[test]
    fn lines_that_are_too_long_or_no_text_are_refused() {
        let long = [vec![b'x'; MAXIMUM_LINE * 3], b"\none\n".to_vec()].concat();
        assert_eq!(transcript(&[&long]), "line longer than 65536 bytes\n[one]\n");
        assert_eq!(transcript(&[b"\xc3(\none\n"]), "input is not UTF-8 text\n[one]\n");
    }

    #[test]
    fn random_bytes_never_panic_in_any_mode() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for terminal in ["", "vppctl", "quiver", "xterm", "dumb"] {
            for _ in 0..200 {
                let mut bytes = Vec::new();
                for _ in 0..512 {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    // Favour the bytes that mean something.
                    let telling = b"\xff\xfa\xf0\x1b[ABCD{}\n\r\x00\x7f?\x03\x17\x15\t\x12\x07sh a";
                    let choice = (random >> 8) as usize;
                    bytes.push(match choice % 3 {
                        0 => (random >> 32) as u8,
                        _ => telling[(random >> 32) as usize % telling.len()],
                    });
                }
                let mut script = Script::default();
                if !terminal.is_empty() {
                    script.input.push_back(terminal_type(terminal));
                }
                script.input.push_back(bytes);
                Session::new(&Parrot::new(), &mut script).run().unwrap();
            }
        }
    }
}
