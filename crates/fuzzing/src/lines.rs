//! Lines of files and sessions: joined, remarks passed over, macros put in.

use command::{Lines, MAXIMUM_LINE, Macros, complete_lines, joined_lines};
use std::hint::black_box;

pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let macros = Macros::default();
    let mut lines = Lines::with_macros(macros.clone());
    let mut number = 0;
    for line in text.lines() {
        match lines.push(line) {
            Ok(Some(command)) => {
                assert!(command.text.len() <= MAXIMUM_LINE && command.number > number);
                assert!(!lines.is_open(), "a command is given when it is complete");
                number = command.number;
                // As a session does.
                if let Some((name, value)) = command.text.strip_prefix("define ").and_then(|rest| rest.split_once(' '))
                {
                    let _ = macros.define(name, value);
                }
            }
            Ok(None) => {}
            Err(error) => {
                assert!(!lines.is_open() && error.number > 0);
                black_box(error.to_string());
            }
        }
    }
    let _ = lines.finish();
    assert!(lines.finish().is_ok(), "what was open is forgotten");
    let _ = black_box(complete_lines(text));
    let _ = black_box(joined_lines(text));
}
