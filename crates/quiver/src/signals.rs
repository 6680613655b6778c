//! Signals: `TERM` and `INT` stop the router cleanly, and exit at once when they come again, or when the clean stop
//! takes too long; `HUP` opens the logs anew.

use crate::{log_sink, notify};
use crossbeam_channel::Sender;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

/// Exit code after a second signal.
const IN_A_HURRY: i32 = 1;
/// Timeout for a clean stop. The unit file's `TimeoutStopSec` is longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts to handle signals; one that stops the router is sent to `stop`.
///
/// # Errors
/// When the system refuses.
pub fn listen(stop: Sender<String>) -> io::Result<()> {
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [SIGTERM, SIGINT] {
        // In this order: the first signal finds the flag not set, and sets it.
        flag::register_conditional_shutdown(signal, IN_A_HURRY, asked.clone())?;
        flag::register(signal, asked.clone())?;
    }
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGHUP])?;
    thread::Builder::new().name("signals".into()).spawn(move || {
        for signal in signals.forever() {
            match signal {
                SIGHUP => {
                    notify::reloading();
                    log_sink::reopen();
                    notify::reloaded();
                }
                signal => {
                    log::debug!("signal {signal}: another one ends it at once");
                    // While the router stops, nothing receives this.
                    let _ = stop.try_send(format!("signal {signal}"));
                    break;
                }
            }
        }
        // The process has exited by then, unless something blocks the thread that should stop it. This thread needs no
        // further signals: a second one has ended the process already.
        thread::sleep(PATIENCE);
        log::error!("the router does not come to its end within {} s of the signal: it is ended", PATIENCE.as_secs());
        log::logger().flush();
        signal_hook::low_level::exit(IN_A_HURRY);
    })?;
    Ok(())
}
