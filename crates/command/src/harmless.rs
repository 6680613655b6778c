//! Text that came from outside, such as a file or a peer, as it may be shown.
//!
//! A terminal obeys control characters, a log takes a newline for the end of an entry, and characters of direction
//! make a reader see what is not there. All of them are spelled out, in the manner of JSON: `\u001b`. So JSON stays
//! JSON.

use std::borrow::Cow;
use std::fmt::Write;

/// A text of several lines, in which newlines and tabs stay.
pub fn harmless(text: &str) -> Cow<'_, str> {
    spelled(text, &|c| c != '\n' && c != '\t' && is_harmful(c))
}

/// A text of one line.
pub fn harmless_line(text: &str) -> Cow<'_, str> {
    spelled(text, &is_harmful)
}

fn spelled<'a>(text: &'a str, is_out: &dyn Fn(char) -> bool) -> Cow<'a, str> {
    if !text.contains(is_out) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            c if !is_out(c) => out.push(c),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c => write!(out, "\\u{:04x}", u32::from(c)).expect("strings take all"),
        }
    }
    Cow::Owned(out)
}

/// Control characters, and those that make a terminal show others in another order.
fn is_harmful(c: char) -> bool {
    c.is_control() || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_steer_a_terminal_is_spelled_out() {
        let hostile = "a\x1b]0;PWN\x07\u{202e}\u{9b}é\r\n\tb";
        assert_eq!(harmless(hostile), "a\\u001b]0;PWN\\u0007\\u202e\\u009bé\\r\n\tb");
        assert_eq!(harmless_line(hostile), "a\\u001b]0;PWN\\u0007\\u202e\\u009bé\\r\\n\\tb");
    }

    #[test]
    fn what_is_harmless_stays_and_costs_nothing() {
        for text in ["", "ports 1\n\t2\n", "naïve · µs · 日本"] {
            assert!(matches!(harmless(text), Cow::Borrowed(same) if same == text));
        }
    }

    #[test]
    fn json_stays_json() {
        let json = harmless("\"\u{7f}\u{85}\"");
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), "\u{7f}\u{85}");
    }
}
