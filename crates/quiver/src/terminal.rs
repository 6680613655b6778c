//! A person at a terminal: keys go to the router's session unchanged, and its output comes back. The session edits
//! lines, completes and pages, so that this program and `vppctl` behave the same.
//!
//! The terminal is in raw mode meanwhile, and is restored at the end: of the session, by a signal, or by a panic.

use crate::reach::{nobody, settle};
use control::CliClient;
use control::cli_client::Keys;
use rustix::termios::{OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGWINCH};
use signal_hook::iterator::Signals;
use std::io::{self, Read};
use std::path::Path;
use std::thread;

/// Terminal types that a session treats as no terminal.
const NO_TERMINALS: [&str; 4] = ["", "vppctl", "quiver", "quiver-json"];

/// The size of a terminal that does not report one.
const USUAL_WINDOW: (u16, u16) = (80, 24);

/// Runs a session with a router until either side ends it.
///
/// # Errors
/// What failed, as text.
pub fn interact(socket: &Path) -> Result<(), String> {
    let name = std::env::var("TERM").unwrap_or_default();
    let name = if NO_TERMINALS.contains(&name.as_str()) { "dumb" } else { &name };
    let (mut client, keys) =
        CliClient::connect_terminal(socket, name, window()).map_err(|error| nobody(socket, &error))?;
    let failed = |error: io::Error| format!("terminal: {error}");
    // Signals are caught before the terminal is changed.
    let signals = Signals::new([SIGWINCH, SIGTERM, SIGHUP, SIGINT]).map_err(failed)?;
    let raw = Raw::enter().map_err(failed)?;
    let (before, window_keys) = (raw.before.clone(), keys.try_clone().map_err(failed)?);
    thread::spawn(move || watch(signals, &before, &window_keys));
    thread::spawn(move || pass_keys(&keys));
    settle(client.show(io::stdout())).map(drop)
}

/// The window's size in columns and rows.
fn window() -> (u16, u16) {
    tcgetwinsize(io::stdout()).map_or(USUAL_WINDOW, |size| (size.ws_col, size.ws_row))
}

/// Sends the session the window's size when it changes; restores the terminal before a signal ends the program.
fn watch(mut signals: Signals, before: &Termios, keys: &Keys) {
    for signal in signals.forever() {
        if signal != SIGWINCH {
            let _ = tcsetattr(io::stdin(), OptionalActions::Now, before);
            // The exit code by which shells report a program that a signal ended.
            std::process::exit(128 + signal);
        }
        if keys.tell_window_size(window()).is_err() {
            return;
        }
    }
}

/// Passes keys on until there are no more, or the session is gone.
fn pass_keys(keys: &Keys) {
    let mut bytes = [0; 1024];
    loop {
        match io::stdin().read(&mut bytes) {
            Ok(0) => break,
            Ok(count) if keys.press(&bytes[..count]).is_ok() => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) | Err(_) => break,
        }
    }
    // The session may have ended first.
    let _ = keys.end();
}

/// The terminal in raw mode; restored when dropped.
struct Raw {
    before: Termios,
}

impl Raw {
    fn enter() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.make_raw();
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        Ok(Self { before })
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}
