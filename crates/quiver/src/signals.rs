//! Signals: `TERM` and `INT` end the router cleanly, and at once when they come again, or when the clean end takes too
//! long; `HUP` opens the logs anew.

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

/// Exit code of who was in a hurry.
const IN_A_HURRY: i32 = 1;
/// How long a clean end may take. The unit file's `TimeoutStopSec` is longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Starts to listen; a signal that ends the router is sent to `stop`.
///
/// # Errors
/// What the system refuses.
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
                    // Nobody listens when it stops already.
                    let _ = stop.try_send(format!("signal {signal}"));
                    break;
                }
            }
        }
        // The process has ended by then, unless something holds up the thread that should end it. What asks for
        // more than that is not heard any more: a second signal has ended it already.
        thread::sleep(PATIENCE);
        log::error!("the router does not come to its end within {} s of the signal: it is ended", PATIENCE.as_secs());
        log::logger().flush();
        signal_hook::low_level::exit(IN_A_HURRY);
    })?;
    Ok(())
}
