//! The last entries, a bounded number of bounded ones.

use super::Level;
use super::timestamp::Timestamp;
use command::harmless_line;
use serde::Serialize;
use std::collections::VecDeque;
use std::time::SystemTime;

/// Longest text of an entry, in characters; the rest is cut off.
const MAXIMUM_TEXT: usize = 1024;

/// A message that was kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Entry {
    pub time: Timestamp,
    #[serde(serialize_with = "name")]
    pub level: Level,
    pub class: String,
    /// One line, without control characters.
    pub text: String,
}

fn name<S: serde::Serializer>(level: &Level, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(level.name())
}

impl Entry {
    pub(super) fn new(time: SystemTime, level: Level, class: &str, text: &str) -> Entry {
        Entry { time: Timestamp::from(time), level, class: class.into(), text: printable(text) }
    }
}

/// What came from outside may be part of a message: nothing of it reaches a terminal as a
/// control sequence, or a file as a line of its own.
fn printable(text: &str) -> String {
    let text = text.trim_end();
    match text.char_indices().nth(MAXIMUM_TEXT) {
        Some((end, _)) => format!("{}...", harmless_line(&text[..end])),
        None => harmless_line(text).into_owned(),
    }
}

/// The last entries.
pub(super) struct Ring {
    entries: VecDeque<Entry>,
    size: usize,
}

impl Ring {
    pub fn new(size: usize) -> Ring {
        Ring { entries: VecDeque::new(), size }
    }

    pub fn push(&mut self, entry: Entry) {
        while self.entries.len() >= self.size {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// Changes how many are kept; the oldest go first.
    pub fn resize(&mut self, size: usize) {
        self.size = size;
        let over = self.entries.len().saturating_sub(size);
        self.entries.drain(..over);
        self.entries.shrink_to(size);
    }

    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_move_a_cursor_is_spelled_out() {
        assert_eq!(printable("a\nb\x1b[2J\u{202e}é\n"), "a\\nb\\u001b[2J\\u202eé");
        let long = printable(&"x".repeat(5000));
        assert_eq!(long.len(), MAXIMUM_TEXT + 3);
        assert!(long.ends_with("x..."));
    }

    #[test]
    fn the_oldest_entries_make_room() {
        let mut ring = Ring::new(3);
        let entry = |text: &str| Entry::new(SystemTime::UNIX_EPOCH, Level::Notice, "a", text);
        for text in ["1", "2", "3", "4"] {
            ring.push(entry(text));
        }
        let texts = |ring: &Ring| ring.entries().map(|entry| entry.text.clone()).collect::<Vec<_>>();
        assert_eq!(texts(&ring), ["2", "3", "4"]);
        ring.resize(2);
        assert_eq!(texts(&ring), ["3", "4"]);
        ring.resize(3);
        ring.push(entry("5"));
        assert_eq!(texts(&ring), ["3", "4", "5"]);
    }
}
