//! What a command answers: a typed result that renders as text for people and as JSON for programs. A handler returns
//! its own type; any type with `Display` and `Serialize` is a reply.

use std::fmt::{self, Write as _};
use std::io;

use serde::Serialize;

use crate::CommandError;

/// How a client wants its answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Text,
    Json,
}

/// A command's result. `Send`, because the client's thread renders it and not the thread that owns the router.
///
/// A reply is written piece by piece and never as one string, so that a long reply takes no memory beyond its value. A
/// reply that waits for what it prints (a ping, say) implements this trait by hand, waits in [`write`](Self::write),
/// and calls [`still_wanted`] there.
pub trait Reply: Send {
    /// Writes the whole reply.
    ///
    /// # Errors
    /// The first error of `out`, at which the rendering ends.
    fn write(&self, format: Format, out: &mut dyn io::Write) -> io::Result<()>;

    /// The reply as a value, for programs within this one.
    fn json(&self) -> serde_json::Value;

    fn render(&self, format: Format) -> String {
        let mut bytes = Vec::new();
        // Writing to a vector never fails.
        let _ = self.write(format, &mut bytes);
        String::from_utf8_lossy(&bytes).into_owned()
    }

    fn text(&self) -> String {
        self.render(Format::Text)
    }
}

impl<T: fmt::Display + Serialize + Send> Reply for T {
    fn write(&self, format: Format, out: &mut dyn io::Write) -> io::Result<()> {
        match format {
            Format::Text => write_text(self, out),
            Format::Json => write_json(self, out),
        }
    }

    /// A value that JSON cannot carry (a map whose keys are not strings) is a mistake in the type; the client then gets
    /// the reason instead of the value.
    fn json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_else(|error| serde_json::json!({ "error": error.to_string() }))
    }
}

fn write_text(text: &dyn fmt::Display, out: &mut dyn io::Write) -> io::Result<()> {
    let mut adapter = Adapter { out, error: None };
    let written = write!(adapter, "{text}");
    match (adapter.error, written) {
        (Some(error), _) => Err(error),
        (None, Ok(())) => Ok(()),
        (None, Err(_)) => Err(io::Error::other("the reply cannot be shown")),
    }
}

fn write_json(value: &impl Serialize, out: &mut dyn io::Write) -> io::Result<()> {
    match serde_json::to_writer(&mut *out, value) {
        Err(error) if error.is_io() => Err(error.into()),
        // See `Reply::json`. What was written before the error is not valid JSON any more.
        Err(error) => write!(out, "{}", serde_json::json!({ "error": error.to_string() })),
        Ok(()) => Ok(()),
    }
}

/// Lets a `Display` write to a byte writer, and keeps the error, which `fmt` cannot carry.
struct Adapter<'a> {
    out: &'a mut dyn io::Write,
    error: Option<io::Error>,
}

impl fmt::Write for Adapter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        // `write_all` of an empty text writes nothing: see `still_wanted`.
        self.out.write_all(text.as_bytes()).map_err(|error| {
            self.error = Some(error);
            fmt::Error
        })
    }
}

/// A reply that is only text.
#[derive(Clone, Debug, Serialize)]
#[serde(transparent)]
pub struct Text(pub String);

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The reply of a command that succeeded and prints nothing: no text, JSON `null`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Done;

impl fmt::Display for Done {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
}

/// Checks, within [`Reply::write`], whether a client still reads the reply. A reply that waits calls it a few times a
/// second; nothing is printed.
///
/// It is a write of no bytes. The terminal takes that as the sign of a reply that goes on by itself, and then does not
/// stop for a key between pages. An empty text within a `Display` is no such sign.
///
/// # Errors
/// The client reads no more: the connection is gone, or ^C was pressed.
pub fn still_wanted(out: &mut dyn io::Write) -> io::Result<()> {
    out.write(&[]).map(drop)
}

/// Boxes a reply: the last line of most handlers.
pub fn reply<R: Reply + 'static>(reply: R) -> Result<Box<dyn Reply>, CommandError> {
    Ok(Box::new(reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reply_renders_as_text_and_as_json() {
        let text = reply(Text("three".into())).unwrap();
        assert_eq!(text.render(Format::Text), "three");
        assert_eq!(text.render(Format::Json), "\"three\"");
        assert_eq!(text.json(), serde_json::json!("three"));
        let done = reply(Done).unwrap();
        assert_eq!(done.render(Format::Text), "");
        assert_eq!(done.render(Format::Json), "null");
    }

    /// Accepts a number of writes, then refuses.
    struct Patience(usize);

    impl io::Write for Patience {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(io::ErrorKind::BrokenPipe)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// Counts its writes, and would never end by itself.
    #[derive(Default)]
    struct Endless(std::sync::atomic::AtomicUsize);

    impl fmt::Display for Endless {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            loop {
                f.write_str("row")?;
                self.0.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            }
        }
    }

    impl Serialize for Endless {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_seq(std::iter::repeat_n("row", 1_000_000))
        }
    }

    #[test]
    fn a_reply_ends_where_its_reader_does() {
        let endless = Endless::default();
        for format in [Format::Text, Format::Json] {
            let error = Reply::write(&endless, format, &mut Patience(7)).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
        }
        assert_eq!(endless.0.into_inner(), 7);
    }

    #[test]
    fn only_a_reply_that_waits_asks_whether_it_is_wanted() {
        let mut nobody = Patience(0);
        Reply::write(&Text(String::new()), Format::Text, &mut nobody).expect("an empty text writes nothing");
        assert_eq!(still_wanted(&mut nobody).unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn what_json_cannot_carry_is_said() {
        let map = std::collections::BTreeMap::from([((1, 2), 3)]);
        let mut out = Vec::new();
        write_json(&map, &mut out).unwrap();
        assert!(String::from_utf8(out).unwrap().ends_with("{\"error\":\"key must be a string\"}"));
    }
}
