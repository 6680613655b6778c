//! A line longer than the window, on a terminal that moves its cursor back within a row only.
//!
//! The line editor writes characters and backspaces, as if the line had one endless row. Here
//! the place in that row is kept, and where it crosses the edge of the window, what brings
//! a terminal's cursor along is written (ECMA-48: cursor up, cursor forward).

const BACKSPACE: char = '\x08';

/// Where the cursor is, counted from the beginning of the prompt.
#[derive(Default)]
pub(crate) struct Wrap {
    at: usize,
}

impl Wrap {
    /// A prompt that takes that many columns has been written at the beginning of a row.
    pub fn begin(&mut self, columns: usize) {
        self.at = columns;
    }

    /// Writes what the editor wrote for a window of `width` columns; as it is for one that
    /// does not tell.
    pub fn write(&mut self, edited: &[u8], width: usize, out: &mut Vec<u8>) {
        for character in String::from_utf8_lossy(edited).chars() {
            let at_edge = width > 0 && self.at > 0 && self.at.is_multiple_of(width);
            match character {
                BACKSPACE if at_edge => {
                    out.extend_from_slice(b"\x1b[A");
                    // A window of one column has none to go forward to.
                    if width > 1 {
                        out.extend_from_slice(format!("\x1b[{}C", width - 1).as_bytes());
                    }
                }
                _ => out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
            match character {
                BACKSPACE => self.at = self.at.saturating_sub(1),
                _ if character.is_control() => {}
                _ => {
                    self.at += 1;
                    // Terminals wait at the right edge for the next character: they are
                    // brought over.
                    if width > 0 && self.at.is_multiple_of(width) {
                        out.extend_from_slice(b"\r\n");
                    }
                }
            }
        }
    }

    /// Goes down to the row in which the line ends, `rest` columns on, so that what comes next
    /// does not cover it.
    pub fn leave(&self, rest: usize, width: usize, out: &mut Vec<u8>) {
        let rows = (self.at + rest).checked_div(width).map_or(0, |last| last - self.at / width);
        if rows > 0 {
            out.extend_from_slice(format!("\x1b[{rows}B").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(start: usize, edited: &[u8], width: usize) -> String {
        let (mut wrap, mut out) = (Wrap::default(), Vec::new());
        wrap.begin(start);
        wrap.write(edited, width, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_line_that_fits_is_written_as_it_is() {
        assert_eq!(written(8, b"show\x08\x08x", 80), "show\x08\x08x");
        assert_eq!(written(8, b"show and much more", 0), "show and much more");
    }

    #[test]
    fn the_cursor_goes_over_the_edge_and_back() {
        // The window's fifth column is its last.
        assert_eq!(written(2, b"abcd", 5), "abc\r\nd");
        assert_eq!(written(2, b"abcd\x08\x08x", 5), "abc\r\nd\x08\x1b[A\x1b[4Cx\r\n");
        assert_eq!(written(2, "aé€b".as_bytes(), 4), "aé\r\n€b");
        assert_eq!(written(3, b"\x07", 4), "\x07");
    }

    #[test]
    fn what_comes_next_comes_below_the_line() {
        let (mut wrap, mut out) = (Wrap::default(), Vec::new());
        wrap.begin(8);
        wrap.leave(71, 80, &mut out);
        assert_eq!(out, b"");
        wrap.leave(152, 80, &mut out);
        wrap.leave(200, 0, &mut out);
        assert_eq!(out, b"\x1b[2B");
    }
}
