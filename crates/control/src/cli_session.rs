//! One CLI connection, without its socket: bytes in, bytes out.
//!
//! A session begins in *plain* mode: lines in, answers out, nothing else, so that `nc` and
//! scripts work. The client's terminal type decides what it becomes:
//!
//! | terminal type | session |
//! |---|---|
//! | `vppctl` | lines; one NUL after the answer to each line, which is what `vppctl` counts |
//! | `quiver`, `quiver-json` | lines; after each answer a status byte and a NUL |
//! | any other | interactive: banner, prompt, echo, line editing, `?` |
//!
//! In the line modes a NUL from the client ends the command even if a brace is still open;
//! `vppctl COMMAND` and our client send one, so that neither can wait for ever.

use command::{LineError, Lines, MAXIMUM_LINE};

use crate::line_editor::{Key, LineEditor};
use crate::telnet::{Decoder, Event};
use crate::{Executor, Format, exec};

/// The status byte before the NUL: the command was done (ASCII ACK).
pub(crate) const STATUS_DONE: u8 = 0x06;
/// The status byte before the NUL: the command failed (ASCII NAK).
pub(crate) const STATUS_FAILED: u8 = 0x15;

/// Terminal types of our own client.
pub(crate) const TERMINAL_QUIVER: &str = "quiver";
pub(crate) const TERMINAL_QUIVER_JSON: &str = "quiver-json";
/// What `vppctl` calls itself when its input is no terminal.
const TERMINAL_VPPCTL: &str = "vppctl";

const PROMPT: &str = "quiver# ";
/// Asks for the rest of a brace block; as wide as the prompt.
const CONTINUATION_PROMPT: &str = "      > ";

const CLEAR_SCREEN: &[u8] = b"\x1b[2J\x1b[1;1H";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Plain,
    Vppctl,
    Quiver(Format),
    Interactive,
}

/// Whether the connection goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    Continue,
    Close,
}

/// Where a session's bytes go. Fails when the client is gone or does not read.
pub(crate) trait Output {
    fn send(&mut self, bytes: &[u8]) -> std::io::Result<()>;
}

pub(crate) struct Session<'a> {
    executor: &'a dyn Executor,
    decoder: Decoder,
    mode: Mode,
    lines: Lines,
    /// The line being received, in the line modes.
    line: Vec<u8>,
    editor: LineEditor,
    window: Window,
    out: Vec<u8>,
}

/// The client's terminal in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Window {
    width: u16,
    height: u16,
}

impl Window {
    /// A text that is higher than the window, with its lines cut to one row each, so that
    /// long listings scroll less. A shorter text is left whole.
    fn fit(self, text: &str) -> String {
        let (width, height) = (usize::from(self.width), usize::from(self.height));
        // Terminals that do not know their size tell zero.
        if width == 0 || text.lines().count() <= height {
            return text.to_string();
        }
        text.lines().flat_map(|line| line.chars().take(width).chain(['\n'])).collect()
    }
}

impl<'a> Session<'a> {
    pub fn new(executor: &'a dyn Executor) -> Self {
        Self {
            executor,
            decoder: Decoder::new(),
            mode: Mode::Plain,
            lines: Lines::new(),
            line: Vec::new(),
            editor: LineEditor::new(),
            // What a terminal has that does not tell.
            window: Window { width: 80, height: 24 },
            out: Vec::new(),
        }
    }

    /// Takes what the client sent. Answers are sent after each command, and whatever
    /// remains at the end.
    pub fn receive(&mut self, bytes: &[u8], output: &mut dyn Output) -> std::io::Result<Next> {
        for byte in bytes {
            let Some(event) = self.decoder.push(*byte) else {
                continue;
            };
            let next = self.handle(event, output)?;
            if next == Next::Close {
                self.flush(output)?;
                return Ok(next);
            }
        }
        self.flush(output)?;
        Ok(Next::Continue)
    }

    /// The client sends no more: a line without its newline is still a command.
    pub fn end_of_input(&mut self, output: &mut dyn Output) -> std::io::Result<()> {
        if self.mode != Mode::Interactive {
            if !self.line.is_empty() {
                self.end_line(output)?;
            }
            self.end_command();
        }
        self.flush(output)
    }

    fn flush(&mut self, output: &mut dyn Output) -> std::io::Result<()> {
        if !self.out.is_empty() {
            output.send(&self.out)?;
            self.out.clear();
        }
        Ok(())
    }

    fn handle(&mut self, event: Event, output: &mut dyn Output) -> std::io::Result<Next> {
        match event {
            Event::Byte(byte) if self.mode == Mode::Interactive => self.key(byte, output),
            Event::Byte(byte) => self.line_byte(byte, output),
            Event::TerminalType(name) => {
                self.choose_mode(&name);
                Ok(Next::Continue)
            }
            Event::WindowSize { width, height } => {
                self.window = Window { width, height };
                Ok(Next::Continue)
            }
            Event::AreYouThere => {
                self.print("quiver\n");
                Ok(Next::Continue)
            }
            Event::TerminalTypeRequested => Ok(Next::Continue),
        }
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
            self.print(&self.executor.banner());
            self.print(PROMPT);
        }
    }

    fn line_byte(&mut self, byte: u8, output: &mut dyn Output) -> std::io::Result<Next> {
        match byte {
            b'\n' => return self.end_line(output),
            0 => self.end_command(),
            // One more than the bound marks a line that is too long.
            _ if self.line.len() <= MAXIMUM_LINE => self.line.push(byte),
            _ => {}
        }
        Ok(Next::Continue)
    }

    /// A line is complete: runs the command that it completes.
    fn end_line(&mut self, output: &mut dyn Output) -> std::io::Result<Next> {
        let line = std::mem::take(&mut self.line);
        let line = line.strip_suffix(b"\r").unwrap_or(&line);
        let Ok(line) = std::str::from_utf8(line) else {
            self.refuse_line("input is not UTF-8 text");
            return Ok(Next::Continue);
        };
        if line.len() > MAXIMUM_LINE {
            self.refuse_line(&format!("line longer than {MAXIMUM_LINE} bytes"));
            return Ok(Next::Continue);
        }
        if is_quit(line) {
            self.end_command();
            return Ok(Next::Close);
        }
        match self.lines.push(line) {
            Ok(Some(command)) => {
                let result = exec::run_line(self.executor, &command.text, self.format());
                self.answer(result);
            }
            Ok(None) if self.mode == Mode::Vppctl => {
                // Every line is acknowledged, or vppctl would wait for an answer.
                self.out.push(0);
            }
            Ok(None) => {}
            Err(error) => self.answer(Err(error.message)),
        }
        self.flush(output)?;
        Ok(Next::Continue)
    }

    fn refuse_line(&mut self, message: &str) {
        self.lines.clear();
        self.answer(Err(message.to_string()));
    }

    /// No more lines come for this command: one that is still open is refused.
    fn end_command(&mut self) {
        if let Err(LineError { message, .. }) = self.lines.finish() {
            self.answer(Err(message));
        }
    }

    fn format(&self) -> Format {
        match self.mode {
            Mode::Quiver(format) => format,
            _ => Format::Text,
        }
    }

    /// Prints a result and what the client takes for the end of it.
    fn answer(&mut self, result: Result<String, String>) {
        let status = match &result {
            Ok(_) => STATUS_DONE,
            Err(_) => STATUS_FAILED,
        };
        let text = match (self.format(), result) {
            (_, Ok(text)) | (Format::Text, Err(text)) => text,
            (Format::Json, Err(message)) => serde_json::json!({ "error": message }).to_string(),
        };
        self.print_output(&text);
        match self.mode {
            Mode::Vppctl => self.out.push(0),
            Mode::Quiver(_) => self.out.extend([status, 0]),
            Mode::Plain | Mode::Interactive => {}
        }
    }

    /// Prints output with a newline at its end. Control characters, which may come from
    /// outside in names, could steer the terminal, and a NUL would end the answer early.
    fn print_output(&mut self, text: &str) {
        let harmful = |c: char| c.is_control() && c != '\n' && c != '\t';
        if text.contains(harmful) {
            self.print(&text.replace(harmful, "?"));
        } else {
            self.print(text);
        }
        if !text.is_empty() && !text.ends_with('\n') {
            self.print("\n");
        }
    }

    fn print(&mut self, text: &str) {
        match self.mode {
            Mode::Interactive => {
                for line in text.split_inclusive('\n') {
                    let (line, end) = match line.strip_suffix('\n') {
                        Some(line) => (line, "\r\n"),
                        None => (line, ""),
                    };
                    self.out.extend(line.bytes());
                    self.out.extend(end.bytes());
                }
            }
            _ => self.out.extend(text.bytes()),
        }
    }

    fn prompt(&mut self) {
        self.print(match self.lines.is_open() {
            true => CONTINUATION_PROMPT,
            false => PROMPT,
        });
    }

    fn key(&mut self, byte: u8, output: &mut dyn Output) -> std::io::Result<Next> {
        let Some(key) = self.editor.push(byte, &mut self.out) else {
            return Ok(Next::Continue);
        };
        match key {
            Key::Line(line) => {
                self.print("\n");
                if is_quit(&line) {
                    return Ok(Next::Close);
                }
                self.editor.remember(&line);
                self.flush(output)?;
                self.enter(&line);
                self.prompt();
                self.flush(output)?;
            }
            Key::Help => {
                self.print("?\n");
                let line = format!("{}\n{}", self.lines.pending(), self.editor.text());
                let help = self.executor.help(line.trim_start());
                self.print_output(&self.window.fit(&help));
                self.prompt();
                self.editor.redraw(&mut self.out);
            }
            Key::Interrupt => {
                self.lines.clear();
                self.print("^C\n");
                self.prompt();
            }
            Key::ClearScreen => {
                self.out.extend(CLEAR_SCREEN);
                self.prompt();
                self.editor.redraw(&mut self.out);
            }
            Key::EndOfInput => {
                self.print("\n");
                return Ok(Next::Close);
            }
        }
        Ok(Next::Continue)
    }

    fn enter(&mut self, line: &str) {
        match self.lines.push(line) {
            Ok(Some(command)) => {
                let result = exec::run_line(self.executor, &command.text, Format::Text);
                self.answer(result);
            }
            Ok(None) => {}
            Err(error) => self.answer(Err(error.message)),
        }
    }
}

/// Whether the line ends the session.
pub(crate) fn is_quit(line: &str) -> bool {
    matches!(line.trim(), "quit" | "q" | "exit")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::telnet::terminal_type;

    struct Parrot;

    impl Executor for Parrot {
        fn execute(&self, line: &str, format: Format) -> Result<String, String> {
            match (line.strip_prefix("fail "), format) {
                (Some(message), _) => Err(message.to_string()),
                (None, Format::Text) if line == "silent" => Ok(String::new()),
                (None, Format::Text) => Ok(format!("[{line}]")),
                (None, Format::Json) => Ok(format!("{{\"line\":\"{line}\"}}")),
            }
        }

        fn help(&self, line: &str) -> String {
            format!("  help on `{line}'\n")
        }

        fn banner(&self) -> String {
            "welcome\n\n".into()
        }
    }

    impl Output for Vec<u8> {
        fn send(&mut self, bytes: &[u8]) -> std::io::Result<()> {
            self.extend(bytes);
            Ok(())
        }
    }

    /// What a client that sends `bytes` receives, and whether it was closed.
    fn transcript(bytes: &[u8]) -> (String, Next) {
        let mut session = Session::new(&Parrot);
        let mut output = Vec::new();
        let next = session.receive(bytes, &mut output).unwrap();
        if next == Next::Continue {
            session.end_of_input(&mut output).unwrap();
        }
        (String::from_utf8(output).unwrap(), next)
    }

    fn as_terminal(name: &str, bytes: &[u8]) -> String {
        transcript(&[&terminal_type(name), bytes].concat()).0
    }

    #[test]
    fn a_plain_client_gets_answers_and_nothing_else() {
        let (text, next) = transcript(b"one\r\nsilent\n\nfail why\nlast");
        assert_eq!(text, "[one]\nwhy\n[last]\n");
        assert_eq!(next, Next::Continue);
        assert_eq!(transcript(b"one\nquit\ntwo\n"), ("[one]\n".into(), Next::Close));
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
    fn our_client_gets_a_status_before_the_nul() {
        assert_eq!(
            as_terminal("quiver", b"one\n\0fail no\n\0pg {\n\0"),
            "[one]\n\x06\0no\n\x15\0`{' is never closed\n\x15\0"
        );
        assert_eq!(
            as_terminal("quiver-json", b"one\n\0fail no\n\0"),
            "{\"line\":\"one\"}\n\x06\0{\"error\":\"no\"}\n\x15\0"
        );
    }

    #[test]
    fn a_terminal_gets_banner_prompt_echo_and_crlf() {
        assert_eq!(
            as_terminal("xterm", b"one\rpg {\n }\r\n\x04"),
            "welcome\r\n\r\nquiver# one\r\n[one]\r\nquiver# pg {\r\n      >  }\r\n[pg {\r\n }]\r\nquiver# \r\n"
        );
    }

    #[test]
    fn a_question_mark_helps_at_once_and_keeps_the_line() {
        assert_eq!(
            as_terminal("xterm", b"show ?\x03q\n"),
            "welcome\r\n\r\nquiver# show ?\r\n  help on `show '\r\nquiver# show ^C\r\nquiver# q\r\n"
        );
    }

    #[test]
    fn the_window_size_is_kept() {
        let mut session = Session::new(&Parrot);
        let naws = [255, 250, 31, 0, 132, 0, 43, 255, 240];
        session.receive(&naws, &mut Vec::new()).unwrap();
        let told = Window { width: 132, height: 43 };
        assert_eq!(session.window, told);
    }

    #[test]
    fn a_listing_higher_than_the_window_is_cut_to_its_width() {
        let window = Window { width: 4, height: 2 };
        assert_eq!(window.fit("abcdef\ng\nh\n"), "abcd\ng\nh\n");
        assert_eq!(window.fit("abcdef\ng\n"), "abcdef\ng\n");
    }

    #[test]
    fn output_cannot_steer_the_terminal_or_end_early() {
        assert_eq!(as_terminal("vppctl", b"fail a\x1b[2Jb\x01\n"), "a?[2Jb?\n\0");
    }

    #[test]
    fn lines_that_are_too_long_or_no_text_are_refused() {
        let long = [vec![b'x'; MAXIMUM_LINE * 3], b"\none\n".to_vec()].concat();
        assert_eq!(transcript(&long).0, "line longer than 65536 bytes\n[one]\n");
        assert_eq!(transcript(b"\xc3(\none\n").0, "input is not UTF-8 text\n[one]\n");
    }

    #[test]
    fn random_bytes_never_panic_in_any_mode() {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for terminal in ["", "vppctl", "quiver", "xterm"] {
            for _ in 0..200 {
                let mut session = Session::new(&Parrot);
                let mut output = Vec::new();
                if !terminal.is_empty() {
                    session.receive(&terminal_type(terminal), &mut output).unwrap();
                }
                let mut bytes = Vec::new();
                for _ in 0..512 {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    // Favour the bytes that mean something.
                    let telling = b"\xff\xfa\xf0\x1b[ABCD{}\n\r\x00\x7f?\x03\x17\x15 a";
                    let choice = (random >> 8) as usize;
                    bytes.push(match choice % 3 {
                        0 => (random >> 32) as u8,
                        _ => telling[(random >> 32) as usize % telling.len()],
                    });
                }
                if session.receive(&bytes, &mut output).unwrap() == Next::Continue {
                    session.end_of_input(&mut output).unwrap();
                }
            }
        }
    }
}
