//! Editing of one line at a terminal that sends every key: the common keys of emacs-like shells. It keeps the text and
//! the history, and returns the bytes that make the terminal show them.
//!
//! Each character counts as one column, and the line is redrawn with backspaces only, so that it works on any terminal.
//! A line that wraps is still sent right, though the cursor may look misplaced.

use command::{Args, MAXIMUM_LINE};

use crate::terminal::set;

/// Lines kept for the up arrow by default.
pub(crate) const HISTORY_LINES: usize = 100;

/// Bytes kept of all lines together, however many lines are allowed.
const HISTORY_BYTES: usize = 1 << 20;

/// Characters of a search; further ones are ignored.
const MAXIMUM_QUERY: usize = 256;

/// Bytes kept of an escape sequence. Longer ones are ignored, but read to their end.
const MAXIMUM_ESCAPE: usize = 16;

const BELL: u8 = 7;
const BACKSPACE: u8 = 8;
const ESCAPE: u8 = 27;
const DELETE: u8 = 127;

/// The byte that a terminal sends for a letter typed with Control.
const fn control(letter: u8) -> u8 {
    letter - b'@'
}

/// What a key asks of the session.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// Enter: the line.
    Line(String),
    /// TAB: completion of the word before the cursor.
    Complete,
    /// `?`: help on the line up to the cursor.
    Help,
    /// ^C: the operator gave up the line.
    Interrupt,
    /// ^D on an empty line.
    EndOfInput,
    /// ^L
    ClearScreen,
}

enum Motion {
    Left,
    Right,
    Home,
    End,
    WordLeft,
    WordRight,
}

/// A search backwards in the history (^R).
struct Search {
    query: Vec<char>,
    /// The line in the history that was found.
    found: Option<usize>,
    /// Columns that the search takes on the screen.
    shown: usize,
    /// The line and the cursor before the search.
    before: (Vec<char>, usize),
}

pub(crate) struct LineEditor {
    line: Vec<char>,
    /// Bytes that `line` takes as UTF-8.
    bytes: usize,
    cursor: usize,
    history: Vec<String>,
    /// The history line shown; `history.len()` is the line being written.
    browsing: usize,
    /// The line being written, while history is shown.
    draft: Vec<char>,
    escape: Vec<u8>,
    /// The beginning of a UTF-8 character.
    partial: Vec<u8>,
    after_return: bool,
    search: Option<Search>,
    remembers: bool,
    /// Lines kept.
    limit: usize,
}

impl LineEditor {
    /// An editor that remembers this many lines.
    pub fn new(limit: usize) -> Self {
        Self {
            line: Vec::new(),
            bytes: 0,
            cursor: 0,
            history: Vec::new(),
            browsing: 0,
            draft: Vec::new(),
            escape: Vec::new(),
            partial: Vec::new(),
            after_return: false,
            search: None,
            remembers: limit > 0,
            limit,
        }
    }

    /// The lines remembered, the oldest first.
    pub fn history(&self) -> &[String] {
        &self.history
    }

    /// How many lines are remembered; `None`: none.
    pub fn history_limit(&self) -> Option<usize> {
        self.remembers.then_some(self.limit)
    }

    /// Applies the arguments of `set terminal history`.
    pub fn set_history(&mut self, args: &Args) {
        set(&mut self.remembers, args);
        // The grammar has checked that it is a number.
        if let Ok(Some(limit)) = args.optional("limit") {
            self.limit = limit;
        }
        self.forget();
        self.browsing = self.history.len();
    }

    /// Forgets the oldest lines while there are too many, or too many bytes.
    fn forget(&mut self) {
        let most = if self.remembers { self.limit } else { 0 };
        let mut bytes = 0;
        let fits = |line: &&String| {
            bytes += line.len();
            bytes <= HISTORY_BYTES
        };
        let kept = self.history.iter().rev().take(most).take_while(fits).count();
        self.history.drain(..self.history.len() - kept);
    }

    /// The current line.
    fn text(&self) -> String {
        self.line.iter().collect()
    }

    /// The line up to the cursor.
    pub fn before_cursor(&self) -> String {
        self.line[..self.cursor].iter().collect()
    }

    /// How many columns of the line are behind the cursor.
    pub fn behind_cursor(&self) -> usize {
        self.line.len() - self.cursor
    }

    /// Inserts a text at the cursor as if it was typed.
    pub fn insert_text(&mut self, text: &str, out: &mut Vec<u8>) {
        text.chars().filter(|c| !c.is_control()).for_each(|character| self.insert(character, out));
    }

    /// Shows the line again, after other output.
    pub fn redraw(&self, out: &mut Vec<u8>) {
        show(out, &self.line);
        back(out, self.line.len() - self.cursor);
    }

    /// Remembers a line for the up arrow.
    pub fn remember(&mut self, line: &str) {
        if self.remembers && !line.trim().is_empty() && self.history.last().is_none_or(|last| last != line) {
            self.history.push(line.to_string());
            self.forget();
        }
        self.browsing = self.history.len();
    }

    /// Takes one byte from the terminal, and adds to `out` what the terminal must show.
    pub fn push(&mut self, byte: u8, out: &mut Vec<u8>) -> Option<Key> {
        let after_return = std::mem::take(&mut self.after_return);
        if !self.escape.is_empty() {
            self.push_escape(byte, out);
            return None;
        }
        if self.search.is_some() && self.push_search(byte, out) {
            return None;
        }
        const CONTROL_A: u8 = control(b'A');
        const CONTROL_B: u8 = control(b'B');
        const CONTROL_C: u8 = control(b'C');
        const CONTROL_D: u8 = control(b'D');
        const CONTROL_E: u8 = control(b'E');
        const CONTROL_F: u8 = control(b'F');
        const CONTROL_K: u8 = control(b'K');
        const CONTROL_L: u8 = control(b'L');
        const CONTROL_N: u8 = control(b'N');
        const CONTROL_P: u8 = control(b'P');
        const CONTROL_R: u8 = control(b'R');
        const CONTROL_U: u8 = control(b'U');
        const CONTROL_W: u8 = control(b'W');
        match byte {
            // Enter may come as CR, LF, CR LF or CR NUL.
            b'\n' | 0 if after_return => {}
            b'\r' | b'\n' => {
                self.after_return = byte == b'\r';
                return Some(Key::Line(self.take_line()));
            }
            b'?' => return Some(Key::Help),
            b'\t' => return Some(Key::Complete),
            ESCAPE => self.escape.push(byte),
            BACKSPACE | DELETE => self.erase(self.cursor.saturating_sub(1), out),
            CONTROL_A => self.go(Motion::Home, out),
            CONTROL_B => self.go(Motion::Left, out),
            CONTROL_C => {
                self.take_line();
                return Some(Key::Interrupt);
            }
            CONTROL_D if self.line.is_empty() => return Some(Key::EndOfInput),
            CONTROL_D => self.erase_right(self.cursor + 1, out),
            CONTROL_E => self.go(Motion::End, out),
            CONTROL_F => self.go(Motion::Right, out),
            CONTROL_K => self.erase_right(self.line.len(), out),
            CONTROL_L => return Some(Key::ClearScreen),
            CONTROL_N => self.browse(1, out),
            CONTROL_P => self.browse(-1, out),
            CONTROL_R => self.begin_search(out),
            CONTROL_U => self.erase(0, out),
            CONTROL_W => self.erase(self.word_left(), out),
            0..b' ' => {}
            _ => self.push_text(byte, out),
        }
        None
    }

    fn take_line(&mut self) -> String {
        let line = self.text();
        self.replace(Vec::new());
        self.browsing = self.history.len();
        self.partial.clear();
        line
    }

    fn replace(&mut self, line: Vec<char>) {
        self.bytes = line.iter().map(|c| c.len_utf8()).sum();
        self.cursor = line.len();
        self.line = line;
    }

    /// Collects UTF-8; bytes that are not UTF-8 are dropped with a bell.
    fn push_text(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.partial.push(byte);
        match std::str::from_utf8(&self.partial) {
            Ok(text) => {
                let character = text.chars().next();
                self.partial.clear();
                if let Some(character) = character.filter(|c| !c.is_control()) {
                    self.insert(character, out);
                }
            }
            Err(error) if error.error_len().is_none() => {}
            Err(_) => {
                self.partial.clear();
                out.push(BELL);
            }
        }
    }

    fn insert(&mut self, character: char, out: &mut Vec<u8>) {
        if let Some(search) = &mut self.search {
            if search.query.len() < MAXIMUM_QUERY {
                search.query.push(character);
            }
            return self.find(0, out);
        }
        if self.bytes + character.len_utf8() > MAXIMUM_LINE {
            out.push(BELL);
            return;
        }
        self.bytes += character.len_utf8();
        self.line.insert(self.cursor, character);
        show(out, &self.line[self.cursor..]);
        self.cursor += 1;
        back(out, self.line.len() - self.cursor);
    }

    /// Removes the characters from `start` to the cursor.
    fn erase(&mut self, start: usize, out: &mut Vec<u8>) {
        back(out, self.cursor - start);
        let count = self.cursor - start;
        self.cursor = start;
        self.remove(count, out);
    }

    /// Removes the characters from the cursor to `end`.
    fn erase_right(&mut self, end: usize, out: &mut Vec<u8>) {
        self.remove(end.min(self.line.len()) - self.cursor, out);
    }

    fn remove(&mut self, count: usize, out: &mut Vec<u8>) {
        for character in self.line.drain(self.cursor..self.cursor + count) {
            self.bytes -= character.len_utf8();
        }
        let rest = &self.line[self.cursor..];
        show(out, rest);
        out.extend(std::iter::repeat_n(b' ', count));
        back(out, rest.len() + count);
    }

    fn go(&mut self, motion: Motion, out: &mut Vec<u8>) {
        let target = match motion {
            Motion::Left => self.cursor.saturating_sub(1),
            Motion::Right => (self.cursor + 1).min(self.line.len()),
            Motion::Home => 0,
            Motion::End => self.line.len(),
            Motion::WordLeft => self.word_left(),
            Motion::WordRight => self.word_right(),
        };
        if target < self.cursor {
            back(out, self.cursor - target);
        } else {
            show(out, &self.line[self.cursor..target]);
        }
        self.cursor = target;
    }

    fn word_left(&self) -> usize {
        let before = &self.line[..self.cursor];
        let spaces = before.iter().rev().take_while(|c| c.is_whitespace()).count();
        let before = &before[..before.len() - spaces];
        let letters = before.iter().rev().take_while(|c| !c.is_whitespace()).count();
        before.len() - letters
    }

    fn word_right(&self) -> usize {
        let after = &self.line[self.cursor..];
        let spaces = after.iter().take_while(|c| c.is_whitespace()).count();
        let letters = after[spaces..].iter().take_while(|c| !c.is_whitespace()).count();
        self.cursor + spaces + letters
    }

    /// Shows the history line `step` lines further on.
    fn browse(&mut self, step: isize, out: &mut Vec<u8>) {
        let Some(target) = self.browsing.checked_add_signed(step) else {
            return;
        };
        if target > self.history.len() {
            return;
        }
        if self.browsing == self.history.len() {
            self.draft = self.line.clone();
        }
        let line = match self.history.get(target) {
            Some(line) => line.chars().collect(),
            None => std::mem::take(&mut self.draft),
        };
        self.browsing = target;
        self.go(Motion::End, out);
        self.erase(0, out);
        self.replace(line);
        show(out, &self.line);
    }

    fn begin_search(&mut self, out: &mut Vec<u8>) {
        let before = (self.line.clone(), self.cursor);
        self.go(Motion::End, out);
        back(out, self.line.len());
        blank(out, self.line.len());
        self.search = Some(Search { query: Vec::new(), found: None, shown: 0, before });
        self.show_search(out);
    }

    /// Takes a key during a search; returns whether the key belongs to the search. Any other key ends the search with
    /// the line that was found, and then has its usual meaning.
    fn push_search(&mut self, byte: u8, out: &mut Vec<u8>) -> bool {
        const CONTROL_C: u8 = control(b'C');
        const CONTROL_G: u8 = control(b'G');
        const CONTROL_R: u8 = control(b'R');
        match byte {
            CONTROL_R => self.find(1, out),
            BACKSPACE | DELETE => {
                if let Some(search) = &mut self.search {
                    search.query.pop();
                    search.found = None;
                }
                self.find(0, out);
            }
            CONTROL_C | CONTROL_G => {
                let before = self.search.as_ref().map(|search| search.before.clone());
                let (line, cursor) = before.unwrap_or_default();
                self.replace(line);
                self.cursor = cursor;
                self.end_search(out);
            }
            b'\t' | b'?' | 0..b' ' => {
                self.end_search(out);
                return false;
            }
            _ => self.push_text(byte, out),
        }
        true
    }

    /// Searches from the line found last, `skip` lines further back.
    fn find(&mut self, skip: usize, out: &mut Vec<u8>) {
        let Some(search) = &mut self.search else {
            return;
        };
        let query: String = search.query.iter().collect();
        let end = search.found.map_or(self.history.len(), |found| (found + 1).saturating_sub(skip));
        let found = self.history[..end].iter().rposition(|line| !query.is_empty() && line.contains(&query));
        match found {
            Some(found) => {
                search.found = Some(found);
                let line = self.history[found].chars().collect();
                self.replace(line);
            }
            None => out.push(BELL),
        }
        self.show_search(out);
    }

    fn show_search(&mut self, out: &mut Vec<u8>) {
        let Some(search) = &mut self.search else {
            return;
        };
        let query: String = search.query.iter().collect();
        let line: String = self.line.iter().collect();
        let text: Vec<char> = format!("(search)'{query}': {line}").chars().collect();
        back(out, search.shown);
        show(out, &text);
        blank(out, search.shown.saturating_sub(text.len()));
        search.shown = text.len();
    }

    /// Shows the line in place of the search.
    fn end_search(&mut self, out: &mut Vec<u8>) {
        if let Some(search) = self.search.take() {
            back(out, search.shown);
            blank(out, search.shown);
            self.redraw(out);
        }
        self.browsing = self.history.len();
    }

    /// Collects an escape sequence (ECMA-48: `ESC [ parameters final`, and `ESC O final`
    /// of application mode) and acts on it when it is complete.
    fn push_escape(&mut self, byte: u8, out: &mut Vec<u8>) {
        self.escape.push(byte);
        let complete = match self.escape[1..] {
            [b'[' | b'O'] => false,
            // Parameters are 0x20..0x40; anything else ends the sequence.
            [b'[', .., last] => !(0x20..0x40).contains(&last),
            _ => true,
        };
        if !complete {
            self.escape.truncate(MAXIMUM_ESCAPE);
            return;
        }
        match &std::mem::take(&mut self.escape)[1..] {
            b"[A" | b"OA" => self.browse(-1, out),
            b"[B" | b"OB" => self.browse(1, out),
            b"[C" | b"OC" => self.go(Motion::Right, out),
            b"[D" | b"OD" => self.go(Motion::Left, out),
            b"[H" | b"OH" | b"[1~" => self.go(Motion::Home, out),
            b"[F" | b"OF" | b"[4~" => self.go(Motion::End, out),
            b"[3~" => self.erase_right(self.cursor + 1, out),
            b"b" | b"[1;5D" => self.go(Motion::WordLeft, out),
            b"f" | b"[1;5C" => self.go(Motion::WordRight, out),
            _ => {}
        }
    }
}

fn show(out: &mut Vec<u8>, characters: &[char]) {
    let text: String = characters.iter().collect();
    out.extend(text.bytes());
}

fn back(out: &mut Vec<u8>, columns: usize) {
    out.extend(std::iter::repeat_n(BACKSPACE, columns));
}

/// Overwrites with spaces, and moves the cursor back.
fn blank(out: &mut Vec<u8>, columns: usize) {
    out.extend(std::iter::repeat_n(b' ', columns));
    back(out, columns);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Types keys and returns the lines entered.
    fn lines(keys: &[u8]) -> Vec<String> {
        let mut editor = LineEditor::new(HISTORY_LINES);
        let mut out = Vec::new();
        let mut lines = Vec::new();
        for key in keys {
            if let Some(Key::Line(line)) = editor.push(*key, &mut out) {
                editor.remember(&line);
                lines.push(line);
            }
        }
        lines
    }

    #[test]
    fn enter_comes_in_four_ways() {
        assert_eq!(lines(b"a\nb\r\nc\r\0d\re\n"), ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn keys_edit_the_line() {
        for (keys, line) in [
            (&b"abc\x7f\x08x\n"[..], "ax"),
            (b"set int\x17ip\n", "set ip"),
            (b"wrong\x15right\n", "right"),
            (b"ac\x1b[Db\n", "abc"),
            (b"bc\x01a\x05d\n", "abcd"),
            (b"abc\x1b[D\x1b[D\x0b\n", "a"),
            (b"abc\x01\x04\x1b[3~\n", "c"),
            (b"one two\x1b[1;5D\x1b[1;5DX\x1b[1;5CY\n", "XoneY two"),
            ("é\x7fü\n".as_bytes(), "ü"),
            (b"a\xff\xfeb\xc3(c\n", "abc"),
            (b"a\x1b[99;99;99;99;99;99zb\n", "ab"),
        ] {
            assert_eq!(lines(keys), [line], "{keys:?}");
        }
    }

    #[test]
    fn arrows_walk_the_history_and_back_to_the_draft() {
        assert_eq!(
            lines(b"one\ntwo\ndraft\x1b[A\x1b[A\x1b[A\x1b[B\x1b[B\n\x1b[A\x1b[A\n"),
            ["one", "two", "draft", "two"]
        );
    }

    #[test]
    fn the_terminal_is_told_what_changed() {
        let mut editor = LineEditor::new(HISTORY_LINES);
        let mut out = Vec::new();
        for key in b"ac\x1b[Db\x7f" {
            assert_eq!(editor.push(*key, &mut out), None);
        }
        assert_eq!(out, b"ac\x08bc\x08\x08c \x08\x08");
    }

    #[test]
    fn control_keys_reach_the_session() {
        let mut editor = LineEditor::new(HISTORY_LINES);
        let mut out = Vec::new();
        assert_eq!(editor.push(4, &mut out), Some(Key::EndOfInput));
        assert_eq!(editor.push(b'x', &mut out), None);
        assert_eq!(editor.push(b'?', &mut out), Some(Key::Help));
        assert_eq!(editor.push(3, &mut out), Some(Key::Interrupt));
        assert_eq!(editor.text(), "");
    }

    #[test]
    fn a_search_finds_older_lines_and_is_left_by_any_key() {
        let history = b"show ip fib\nset int state e0 up\nshow interface\n";
        let last = |keys: &[u8]| lines(&[&history[..], keys].concat())[3..].to_vec();
        assert_eq!(last(b"\x12sh\n"), ["show interface"]);
        assert_eq!(last(b"\x12sh\x12\n"), ["show ip fib"]);
        // The oldest match stays when there is no older one.
        assert_eq!(last(b"\x12sh\x12\x12\x12\n"), ["show ip fib"]);
        assert_eq!(last(b"\x12state\x05!\n"), ["set int state e0 up!"]);
        assert_eq!(last(b"\x12fiq\x7fb\n"), ["show ip fib"]);
        // After a search is given up, the line is as it was before.
        assert_eq!(last(b"draft\x12int\x07!\n"), ["draft!"]);
        assert_eq!(last(b"draft\x02\x12int\x03!\n"), ["draf!t"]);
        // As in shells: the last match stays when a longer query finds nothing.
        assert_eq!(last(b"\x12intq\n"), ["show interface"]);
        assert_eq!(last(b"\x12zebra\n"), [""]);
    }

    #[test]
    fn a_search_shows_what_it_looks_for_and_cleans_up() {
        let mut editor = LineEditor::new(HISTORY_LINES);
        editor.remember("one");
        let mut out = Vec::new();
        for key in b"\x12o" {
            assert_eq!(editor.push(*key, &mut out), None);
        }
        let begun = b"(search)'': ";
        let found = b"(search)'o': one";
        assert_eq!(out, [&begun[..], &[BACKSPACE; 12], found].concat());
        out.clear();
        assert_eq!(editor.push(b'\n', &mut out), Some(Key::Line("one".into())));
        assert_eq!(out, [&[BACKSPACE; 16][..], &[b' '; 16], &[BACKSPACE; 16], b"one"].concat());
    }

    #[test]
    fn a_tab_asks_for_completion_before_the_cursor() {
        let mut editor = LineEditor::new(HISTORY_LINES);
        let mut out = Vec::new();
        for key in b"sh x\x02\x02" {
            editor.push(*key, &mut out);
        }
        assert_eq!(editor.push(b'\t', &mut out), Some(Key::Complete));
        assert_eq!(editor.before_cursor(), "sh");
        editor.insert_text("o\x1bw", &mut out);
        assert_eq!(editor.text(), "show x");
    }

    #[test]
    fn history_is_bounded_in_lines_and_bytes() {
        let mut editor = LineEditor::new(HISTORY_LINES);
        (0..=HISTORY_LINES).for_each(|number| editor.remember(&number.to_string()));
        assert_eq!((editor.history().len(), editor.history()[0].as_str()), (HISTORY_LINES, "1"));
        const LONG: usize = 1 << 15;
        for number in 0..50 {
            editor.remember(&format!("{number:0LONG$}"));
        }
        assert_eq!(editor.history().len(), HISTORY_BYTES / LONG);
        assert!(editor.history().last().unwrap().ends_with("049"));
    }
}
