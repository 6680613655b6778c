//! From text to command lines to words.
//!
//! A command is one line, or several when it holds a brace block that is still open at
//! the end of the line, or when the line ends in a backslash. [`Lines`] joins them, passes over
//! comments and expands macros. Files, sockets and terminals all use this one reader. Everything here is bounded,
//! because every client can write here.

use crate::macros::MAXIMUM_LINE;
use crate::macros::Macros;
use crate::{CommandError, macros};

/// Deepest nesting of braces.
pub const MAXIMUM_DEPTH: usize = 32;
/// Most words in one command, each brace counted as a word.
pub const MAXIMUM_WORDS: usize = 4096;

/// One word of a line. Braces are words of their own wherever they stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Word<'a> {
    pub text: &'a str,
    /// Byte offset in the line.
    pub start: usize,
    /// For `{`: the index of the word that closes it; its own index when none does.
    pub closed_by: usize,
}

impl Word<'_> {
    pub fn is_brace(&self) -> bool {
        matches!(self.text, "{" | "}")
    }
}

/// Whether the line is a comment, which no command reads: blank, `# ...` or `comment ...`.
pub(crate) fn is_remark(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty() || line.starts_with('#') || remark(line).is_some()
}

/// The text of a line that begins with the word `comment`.
fn remark(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("comment")?;
    (rest.is_empty() || rest.starts_with(|c: char| c.is_whitespace() || c == '{')).then(|| rest.trim_start())
}

/// A line without the comment at its end, which starts at a word that begins with `#`.
fn without_remark(line: &str) -> &str {
    let begins = |(at, _): &(usize, &str)| line[..*at].chars().next_back().is_none_or(char::is_whitespace);
    line.match_indices('#').find(begins).map_or(line, |(at, _)| &line[..at]).trim_end()
}

/// Splits a complete line into words and pairs its braces.
pub(crate) fn split_words(line: &str) -> Result<Vec<Word<'_>>, CommandError> {
    let (words, open) = split_unfinished(line)?;
    match open {
        Some(index) => Err(CommandError::new(format!("'{{' is never closed (word {})", index + 1))),
        None => Ok(words),
    }
}

/// Splits a line that may be unfinished into words, and returns which brace is still open.
pub(crate) fn split_unfinished(line: &str) -> Result<(Vec<Word<'_>>, Option<usize>), CommandError> {
    if line.len() > MAXIMUM_LINE {
        return Err(CommandError::new(format!("command longer than {MAXIMUM_LINE} bytes")));
    }
    let mut words: Vec<Word<'_>> = Vec::new();
    let mut open: Vec<usize> = Vec::new();
    for (start, text) in word_ranges(line) {
        if words.len() == MAXIMUM_WORDS {
            return Err(CommandError::new(format!("more than {MAXIMUM_WORDS} words in one command")));
        }
        let index = words.len();
        match text {
            "{" if open.len() == MAXIMUM_DEPTH => {
                return Err(CommandError::new(format!(
                    "braces nested deeper than {MAXIMUM_DEPTH} (word {})",
                    index + 1
                )));
            }
            "{" => open.push(index),
            "}" => match open.pop() {
                Some(opening) => words[opening].closed_by = index,
                None => {
                    return Err(CommandError::new(format!("'}}' without '{{' (word {})", index + 1)));
                }
            },
            _ => {}
        }
        words.push(Word { text, start, closed_by: index });
    }
    Ok((words, open.pop()))
}

/// The words of a line with their byte offsets.
fn word_ranges(line: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut at = 0;
    std::iter::from_fn(move || {
        at += line[at..].len() - line[at..].trim_start().len();
        let start = at;
        let rest = &line[start..];
        let first = rest.chars().next()?;
        let length = if matches!(first, '{' | '}') {
            1
        } else {
            rest.find(|c: char| c.is_whitespace() || matches!(c, '{' | '}')).unwrap_or(rest.len())
        };
        at += length;
        Some((start, &rest[..length]))
    })
}

/// One complete command and the number of the line on which it began, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandLine {
    pub text: String,
    pub number: usize,
}

/// Why lines cannot become a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// The line on which the command began, counted from 1.
    pub number: usize,
    pub message: String,
}

impl std::fmt::Display for LineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.number, self.message)
    }
}

impl std::error::Error for LineError {}

/// Joins lines into commands: a command ends at the end of the line on which its braces
/// balance, unless that ends in a backslash. Blank lines and comments are dropped. A comment is `#` where a word could
/// begin, to the end of the line; a line that begins with `comment`; or `comment { ... }` over several lines, to the
/// end of the line on which its braces balance.
#[derive(Debug, Default)]
pub struct Lines {
    pending: String,
    began: usize,
    read: usize,
    depth: usize,
    /// The last line ended in a backslash.
    continued: bool,
    /// The open braces belong to a comment.
    remark: bool,
    /// What `$(NAME)` stands for. None: macros are not expanded.
    macros: Option<Macros>,
}

impl Lines {
    /// Joins lines and leaves `$(NAME)` as it is, for a reader that passes commands on.
    pub fn new() -> Self {
        Self::default()
    }

    /// Joins lines and expands macros.
    pub fn with_macros(macros: Macros) -> Self {
        Self { macros: Some(macros), ..Self::default() }
    }

    /// Takes the next line (with or without its newline) and returns the command that it
    /// completes, if it does. After an error the unfinished command is discarded.
    pub fn push(&mut self, line: &str) -> Result<Option<CommandLine>, LineError> {
        self.read += 1;
        if self.remark {
            self.count_braces(line);
            self.remark = self.depth > 0;
            return Ok(None);
        }
        if !self.is_open() {
            self.began = self.read;
            if let Some(text) = remark(line) {
                if text.starts_with('{') {
                    self.count_braces(text);
                }
                self.remark = self.depth > 0;
                return Ok(None);
            }
        }
        let whole = line.trim_end();
        let line = without_remark(whole);
        // A line that is nothing but a comment does not end the line that continues before it.
        if line.is_empty() && (!whole.is_empty() || !self.is_open()) {
            return Ok(None);
        }
        let continues = line.strip_suffix('\\');
        let line = continues.unwrap_or(line).trim_end();
        if self.pending.len() + line.len() + 1 > MAXIMUM_LINE {
            return Err(self.abandon(format!("command longer than {MAXIMUM_LINE} bytes")));
        }
        self.count_braces(line);
        if !self.pending.is_empty() {
            self.pending.push(if self.continued { ' ' } else { '\n' });
        }
        self.pending.push_str(line);
        self.continued = continues.is_some();
        if self.is_open() || self.pending.trim().is_empty() {
            return Ok(None);
        }
        let text = std::mem::take(&mut self.pending);
        let text = match &self.macros {
            Some(macros) => macros.expand(text).map_err(|message| self.abandon(message))?,
            None => text,
        };
        Ok(Some(CommandLine { text, number: self.began }))
    }

    fn count_braces(&mut self, line: &str) {
        for byte in line.bytes() {
            match byte {
                b'{' => self.depth += 1,
                // The parser reports a surplus closing brace: it knows the word.
                b'}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
            // Text after a comment's closing brace, on the same line, belongs to the comment.
            if self.remark && self.depth == 0 {
                return;
            }
        }
    }

    /// Whether more lines are needed: a brace block is open, or the last line ended in a backslash.
    pub fn is_open(&self) -> bool {
        self.depth > 0 || self.continued
    }

    /// The lines of the unfinished command.
    pub fn pending(&self) -> &str {
        &self.pending
    }

    /// Discards the unfinished command.
    pub fn clear(&mut self) {
        self.pending.clear();
        self.depth = 0;
        self.continued = false;
        self.remark = false;
    }

    /// Ends the input: an error when a brace block is still open, or the last line ended in a backslash.
    pub fn finish(&mut self) -> Result<(), LineError> {
        match (self.depth, self.continued) {
            (0, false) => Ok(()),
            (0, true) => Err(self.abandon("the last line ends in '\\', and none follows".into())),
            _ if self.remark => Err(self.abandon("'comment {' is never closed".into())),
            _ => Err(self.abandon("'{' is never closed".into())),
        }
    }

    fn abandon(&mut self, message: String) -> LineError {
        self.clear();
        LineError { number: self.began, message }
    }
}

/// The commands of a text, each with the number of its first line. Macros are local to the text: `define` and
/// `undefine` take effect here and are not returned as commands.
pub fn complete_lines(text: &str) -> Result<Vec<CommandLine>, LineError> {
    let macros = Macros::default();
    let mut commands = joined(text, Lines::with_macros(macros.clone()), &|command| {
        macros::of_text(&macros, &command.text).map_err(|message| LineError { number: command.number, message })
    })?;
    commands.retain(|command| !macros::is_of_text(&command.text));
    Ok(commands)
}

/// The commands of a text, with `$(NAME)` left as it is: for a caller that passes them on.
pub fn joined_lines(text: &str) -> Result<Vec<CommandLine>, LineError> {
    joined(text, Lines::new(), &|_| Ok(()))
}

fn joined(
    text: &str,
    mut lines: Lines,
    seen: &dyn Fn(&CommandLine) -> Result<(), LineError>,
) -> Result<Vec<CommandLine>, LineError> {
    let mut commands = Vec::new();
    for line in text.lines() {
        if let Some(command) = lines.push(line)? {
            seen(&command)?;
            commands.push(command);
        }
    }
    lines.finish()?;
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brace_block_joins_lines_and_keeps_the_first_number() {
        let text = "# start\nshow version\n\ncomment not counted {\n\
                    packet-generator new {\n  name x\n  # inside\n  data { IP4: 1 -> 2 }\n}\nshow trace";
        let commands = complete_lines(text).unwrap();
        let numbers: Vec<usize> = commands.iter().map(|c| c.number).collect();
        assert_eq!(numbers, [2, 5, 10]);
        assert_eq!(commands[1].text, "packet-generator new {\n  name x\n  data { IP4: 1 -> 2 }\n}");
    }

    fn texts(text: &str) -> Vec<(usize, String)> {
        complete_lines(text).unwrap().into_iter().map(|command| (command.number, command.text)).collect()
    }

    #[test]
    fn a_backslash_at_the_end_of_a_line_continues_it() {
        let text = "set int \\\n  state e0 \\\n up\nshow version\npg { \\\n a \\\n}\n\\\n\nshow trace \\ \r\n 3\r\n";
        let expected = [(1, "set int   state e0  up"), (4, "show version"), (5, "pg {  a }"), (10, "show trace  3")];
        assert_eq!(texts(text), expected.map(|(number, text)| (number, text.to_string())));
        assert_eq!(texts("a \\\n# in between\n b"), [(1, "a  b".to_string())]);
        assert_eq!(
            complete_lines("a\nb \\").unwrap_err().to_string(),
            "line 2: the last line ends in '\\', and none follows"
        );
    }

    #[test]
    fn a_remark_behind_a_command_is_no_part_of_it() {
        let text = "set int state e0 up # the way out {\nshow version\t#who am i\npg { # x }\n a#b\n} # done \\\necho";
        let expected = [(1, "set int state e0 up"), (2, "show version"), (3, "pg {\n a#b\n}"), (6, "echo")];
        assert_eq!(texts(text), expected.map(|(number, text)| (number, text.to_string())));
    }

    #[test]
    fn a_comment_block_is_passed_over_to_its_end() {
        let text = "comment {\n not yet: {\n set int state e0 up }\n # a brace: {\n}\n} and this\nshow version\n\
                    comment{ one line } show int\ncommented\ncomment";
        assert_eq!(texts(text), [(7, "show version".to_string()), (9, "commented".into())]);
        let error = complete_lines("show version\ncomment {\nshow int\n").unwrap_err();
        assert_eq!(error.to_string(), "line 2: 'comment {' is never closed");
        let mut lines = Lines::new();
        assert_eq!(lines.push("comment {"), Ok(None));
        assert!(lines.is_open());
        lines.clear();
        assert!(lines.push("show").unwrap().is_some());
    }

    #[test]
    fn macros_of_a_text_are_its_own() {
        let text = "define WAN e0\ndefine NET 10.0.0\nset int state $(WAN) up\nip route add $(NET).0/24 via \
         $(NET).1 $(WAN)\n\
                    undefine WAN";
        let expected = [(3, "set int state e0 up"), (4, "ip route add 10.0.0.0/24 via 10.0.0.1 e0")];
        assert_eq!(texts(text), expected.map(|(number, text)| (number, text.to_string())));
        let error = complete_lines(&format!("{text}\nshow int $(WAN)")).unwrap_err();
        assert_eq!(error.to_string(), "line 6: no macro 'WAN' ('define WAN VALUE' makes it, 'show macro' lists them)");
        assert_eq!(joined_lines("show $(X)\ndefine X 1").unwrap().len(), 2);
    }

    #[test]
    fn an_open_block_at_the_end_names_the_line_on_which_it_began() {
        let error = complete_lines("show version\npg {\n name x\n").unwrap_err();
        assert_eq!(error.to_string(), "line 2: '{' is never closed");
    }

    #[test]
    fn a_command_joined_beyond_the_bound_is_refused_and_forgotten() {
        let mut lines = Lines::new();
        assert_eq!(lines.push("{").unwrap(), None);
        let long = "x".repeat(MAXIMUM_LINE);
        assert!(lines.push(&long).is_err());
        assert!(!lines.is_open());
        assert!(lines.push("show").unwrap().is_some());
    }

    #[test]
    fn braces_are_words_and_know_their_partner() {
        let words = split_words("a{b {c}}").unwrap();
        let texts: Vec<&str> = words.iter().map(|w| w.text).collect();
        assert_eq!(texts, ["a", "{", "b", "{", "c", "}", "}"]);
        assert_eq!(words[1].closed_by, 6);
        assert_eq!(words[3].closed_by, 5);
        assert_eq!(words[2].start, 2);
    }

    #[test]
    fn bounds_are_refused_by_name() {
        let message = |line: &str| split_words(line).unwrap_err().message().to_string();
        assert_eq!(message(&"a".repeat(MAXIMUM_LINE + 1)), "command longer than 65536 bytes");
        assert_eq!(message(&"a ".repeat(MAXIMUM_WORDS + 1)), "more than 4096 words in one command");
        assert_eq!(message(&"{".repeat(MAXIMUM_DEPTH + 1)), "braces nested deeper than 32 (word 33)");
        assert_eq!(message("a }"), "'}' without '{' (word 2)");
        assert_eq!(message("a { b"), "'{' is never closed (word 2)");
    }
}
