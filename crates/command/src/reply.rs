//! What a command answers: a typed result that renders as text for eyes and as JSON for
//! programs. A handler returns its own type; whatever has `Display` and `Serialize` is a
//! reply.

use std::fmt;

use serde::Serialize;

use crate::CommandError;

/// How a client wants its answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    #[default]
    Text,
    Json,
}

/// A command's result. `Send`, because it may be rendered by another thread than the one
/// that owns the router.
pub trait Reply: Send {
    fn text(&self) -> String;
    fn json(&self) -> serde_json::Value;

    fn render(&self, format: Format) -> String {
        match format {
            Format::Text => self.text(),
            Format::Json => self.json().to_string(),
        }
    }
}

impl<T: fmt::Display + Serialize + Send> Reply for T {
    fn text(&self) -> String {
        self.to_string()
    }

    /// A value that JSON cannot carry (a map with keys that are no strings) is a mistake
    /// in the type; the client then gets the reason instead of the value.
    fn json(&self) -> serde_json::Value {
        serde_json::to_value(self).unwrap_or_else(|error| serde_json::json!({ "error": error.to_string() }))
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

/// The reply of a command that did its work and has nothing to say: no text, JSON `null`.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Done;

impl fmt::Display for Done {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }
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
        let done = reply(Done).unwrap();
        assert_eq!(done.render(Format::Text), "");
        assert_eq!(done.render(Format::Json), "null");
    }
}
