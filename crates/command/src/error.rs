//! What a refused or failed command answers: a sentence for the operator.
//!
//! `CommandError` is not itself a `std::error::Error`, so that it can be made from every
//! type that is one: in a handler, `router.add_route(..)?` is enough.

use std::fmt;

/// The message of a command that was refused or failed, without the command's name:
/// [`crate::CommandSet::execute`] puts that in front.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommandError {
    message: String,
}

impl CommandError {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into() }
    }

    /// The whole message; further lines are hints.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// The same error with "`context`: " before it.
    #[must_use]
    pub fn within(self, context: &str) -> Self {
        Self::new(format!("{context}: {}", self.message))
    }
}

impl fmt::Display for CommandError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl<E: std::error::Error> From<E> for CommandError {
    fn from(error: E) -> Self {
        Self::new(error.to_string())
    }
}

/// Ends a handler with a message: `return fail(format!("no interface {name}"))`.
pub fn fail<T>(message: impl Into<String>) -> Result<T, CommandError> {
    Err(CommandError::new(message))
}
