//! How the programs that give commands reach a router, and what they say when they do not.

use command::Format;
use control::CliClient;
use control::cli_client::ClientError;
use control::startup::StartupConfig;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

/// Where a router listens unless told otherwise.
pub fn default_socket() -> PathBuf {
    StartupConfig::default().unix.cli_listen
}

/// Connects, or says what to do about it.
pub fn connect(socket: &Path, format: Format) -> Result<CliClient, String> {
    CliClient::connect(socket, format).map_err(|error| nobody(socket, &error))
}

/// Why nobody answers.
pub fn nobody(socket: &Path, error: &io::Error) -> String {
    format!("no router answers on {}: {error} (is `quiver run' running?)", socket.display())
}

/// A reader of our output that has seen enough (a pager, `head`) is no failure.
pub fn settle<T>(outcome: Result<T, ClientError>) -> Result<Option<T>, String> {
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(ClientError::Output(error)) if error.kind() == ErrorKind::BrokenPipe => Ok(None),
        Err(error) => Err(error.to_string()),
    }
}
