//! Notifications to the service manager (sd_notify(3)): that the router is ready or stops, its status, and regularly
//! that it is alive.
//!
//! The protocol is one datagram to the socket that `NOTIFY_SOCKET` names. Without that variable no manager listens, and
//! all of this does nothing.

use std::env;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

/// Start-up is complete.
pub fn ready(status: &str) {
    tell(&format!("READY=1\nSTATUS={}", one_line(status)));
}

/// Logs are being opened anew. The manager requires the start time, by the monotonic clock.
pub fn reloading() {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let micros = now.tv_sec as i128 * 1_000_000 + i128::from(now.tv_nsec) / 1000;
    tell(&format!("RELOADING=1\nMONOTONIC_USEC={micros}"));
}

/// The work that began with [`reloading`] is complete.
pub fn reloaded() {
    tell("READY=1");
}

pub fn stopping(status: &str) {
    tell(&format!("STOPPING=1\nSTATUS={}", one_line(status)));
}

pub fn alive() {
    tell("WATCHDOG=1");
}

/// How often the manager requires a sign of life; none: it does not.
pub fn watchdog_period() -> Option<Duration> {
    let variable = |name| env::var(name).ok();
    period(variable("WATCHDOG_USEC"), variable("WATCHDOG_PID"), std::process::id())
}

fn period(micros: Option<String>, process: Option<String>, own: u32) -> Option<Duration> {
    // The variable may be meant for the process that started us.
    if process.is_some_and(|process| process.parse() != Ok(own)) {
        return None;
    }
    micros?.parse().ok().filter(|micros| *micros > 0).map(Duration::from_micros)
}

/// A line feed would begin another variable.
fn one_line(text: &str) -> String {
    text.replace('\n', " ")
}

fn tell(state: &str) {
    let Some(socket) = env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(socket.as_bytes(), state) {
        log::warn!("the service manager cannot be told: {error}");
    }
}

fn send(socket: &[u8], state: &str) -> io::Result<()> {
    let address = match socket.strip_prefix(b"@") {
        Some(name) => SocketAddr::from_abstract_name(name)?,
        None => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(socket))?,
    };
    let sender = UnixDatagram::unbound()?;
    // A manager that does not read must not block us.
    sender.set_nonblocking(true)?;
    sender.send_to_addr(state.as_bytes(), &address).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_period_is_that_of_this_process() {
        let period = |micros: &str, process: Option<&str>| period(Some(micros.into()), process.map(String::from), 7);
        assert_eq!(period("2000000", None), Some(Duration::from_secs(2)));
        assert_eq!(period("2000000", Some("7")), Some(Duration::from_secs(2)));
        assert_eq!(period("2000000", Some("8")), None);
        assert_eq!(period("0", None), None);
        assert_eq!(period("soon", None), None);
    }

    #[test]
    fn a_datagram_reaches_sockets_with_and_without_a_file() {
        let name = format!("quiver-notify-{}", std::process::id());
        let path = std::env::temp_dir().join(&name);
        let with_file = UnixDatagram::bind(&path).unwrap();
        let without = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        send(path.as_os_str().as_bytes(), "READY=1").unwrap();
        send(format!("@{name}").as_bytes(), "STOPPING=1").unwrap();
        let read = |socket: &UnixDatagram| {
            let mut bytes = [0; 64];
            let count = socket.recv(&mut bytes).unwrap();
            String::from_utf8_lossy(&bytes[..count]).into_owned()
        };
        assert_eq!((read(&with_file), read(&without)), ("READY=1".into(), "STOPPING=1".into()));
        std::fs::remove_file(&path).unwrap();
        assert!(send(path.as_os_str().as_bytes(), "READY=1").is_err());
    }
}
