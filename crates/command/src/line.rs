//! From text to command lines to words.
//!
//! A command is one line, or several when it holds a brace block that is still open at
//! the end of the line. [`Lines`] joins them; it is fed by files, by sockets and by
//! terminals alike. Everything here is bounded, because every client can write here.

use crate::CommandError;

/// Longest command in bytes, joined lines included.
pub const MAXIMUM_LINE: usize = 64 * 1024;
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
    /// For `{`: the index of the word that closes it; its own when none does.
    pub closed_by: usize,
}

impl Word<'_> {
    pub fn is_brace(&self) -> bool {
        matches!(self.text, "{" | "}")
    }
}

/// Whether the line is a remark, which no command reads: blank, `# ...` or `comment ...`.
pub(crate) fn is_remark(line: &str) -> bool {
    let line = line.trim_start();
    line.is_empty()
        || line.starts_with('#')
        || line.strip_prefix("comment").is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

/// Splits a complete line into words and pairs its braces.
pub(crate) fn split_words(line: &str) -> Result<Vec<Word<'_>>, CommandError> {
    let (words, open) = split_unfinished(line)?;
    match open {
        Some(index) => Err(CommandError::new(format!("`{{' is never closed (word {})", index + 1))),
        None => Ok(words),
    }
}

/// Splits a line that may go on into words, and says which brace is still open.
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
                    return Err(CommandError::new(format!("`}}' without `{{' (word {})", index + 1)));
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

/// Lines that cannot become a command.
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
/// balance. Blank lines, `#` lines and `comment` lines are dropped.
#[derive(Debug, Default)]
pub struct Lines {
    pending: String,
    began: usize,
    read: usize,
    depth: usize,
}

impl Lines {
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next line (with or without its newline) and returns the command that it
    /// completes, if it does. After an error the command begun is forgotten.
    pub fn push(&mut self, line: &str) -> Result<Option<CommandLine>, LineError> {
        self.read += 1;
        let line = line.trim_end();
        let ignored = if self.is_open() { line.trim_start().starts_with('#') } else { is_remark(line) };
        if ignored {
            return Ok(None);
        }
        if !self.is_open() {
            self.began = self.read;
        }
        if self.pending.len() + line.len() + 1 > MAXIMUM_LINE {
            return Err(self.abandon(format!("command longer than {MAXIMUM_LINE} bytes")));
        }
        for byte in line.bytes() {
            match byte {
                b'{' => self.depth += 1,
                // A brace too many is the parser's to report: it knows the word.
                b'}' => self.depth = self.depth.saturating_sub(1),
                _ => {}
            }
        }
        if !self.pending.is_empty() {
            self.pending.push('\n');
        }
        self.pending.push_str(line);
        if self.is_open() {
            return Ok(None);
        }
        Ok(Some(CommandLine { text: std::mem::take(&mut self.pending), number: self.began }))
    }

    /// Whether a brace block is open, so that more lines are needed.
    pub fn is_open(&self) -> bool {
        self.depth > 0
    }

    /// The lines of a command that was begun.
    pub fn pending(&self) -> &str {
        &self.pending
    }

    /// Forgets a command that was begun.
    pub fn clear(&mut self) {
        self.pending.clear();
        self.depth = 0;
    }

    /// Ends the input: an error when a brace block is still open.
    pub fn finish(&mut self) -> Result<(), LineError> {
        if self.is_open() {
            return Err(self.abandon("`{' is never closed".into()));
        }
        Ok(())
    }

    fn abandon(&mut self, message: String) -> LineError {
        self.clear();
        LineError { number: self.began, message }
    }
}

/// The commands of a text, each with the number of its first line.
pub fn complete_lines(text: &str) -> Result<Vec<CommandLine>, LineError> {
    let mut lines = Lines::new();
    let mut commands = Vec::new();
    for line in text.lines() {
        commands.extend(lines.push(line)?);
    }
    lines.finish()?;
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_brace_block_joins_lines_and_keeps_the_first_number() {
        let text = "# start\nshow version\n\ncomment { not counted\n\
                    packet-generator new {\n  name x\n  # inside\n  data { IP4: 1 -> 2 }\n}\nshow trace";
        let commands = complete_lines(text).unwrap();
        let numbers: Vec<usize> = commands.iter().map(|c| c.number).collect();
        assert_eq!(numbers, [2, 5, 10]);
        assert_eq!(commands[1].text, "packet-generator new {\n  name x\n  data { IP4: 1 -> 2 }\n}");
    }

    #[test]
    fn an_open_block_at_the_end_names_the_line_on_which_it_began() {
        let error = complete_lines("show version\npg {\n name x\n").unwrap_err();
        assert_eq!(error.to_string(), "line 2: `{' is never closed");
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
        assert_eq!(message("a }"), "`}' without `{' (word 2)");
        assert_eq!(message("a { b"), "`{' is never closed (word 2)");
    }
}
