//! The process that keeps interfaces.

use super::{HELD, LONGEST, NOT_HELD, check_peer};
use drivers::passing::{self, Received};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{SocketFlags, accept_with};
use std::collections::HashMap;
use std::io;
use std::time::{Duration, Instant};

/// Most interfaces that are kept.
const MOST: usize = 65_536;

/// After a connection that cannot be taken.
const PAUSE: Duration = Duration::from_millis(100);

struct Kept {
    /// Open, it keeps the interface.
    _queue: OwnedFd,
    /// The router that runs wants it.
    is_wanted: bool,
}

/// Keeps interfaces for routers that come by a listening socket, one at a time, until none has come for `time`.
///
/// # Errors
/// When the socket is of no use.
pub fn run(listener: &OwnedFd, time: Duration) -> io::Result<()> {
    let mut kept: HashMap<Vec<u8>, Kept> = HashMap::new();
    let mut client: Option<OwnedFd> = None;
    let mut had_client = false;
    // When what nobody wants goes.
    let mut deadline = Some(Instant::now() + time);
    loop {
        wait(listener, client.as_ref(), deadline)?;
        if let Some(socket) = &client
            && !serve(socket, &mut kept)
        {
            client = None;
            kept.values_mut().for_each(|kept| kept.is_wanted = false);
            deadline = Some(Instant::now() + time);
        }
        if let Some(new) = accept(listener) {
            // The one that runs is served; another is turned away.
            if client.is_none() && check_peer(&new).is_ok() {
                (client, had_client) = (Some(new), true);
                deadline = Some(Instant::now() + time);
            }
        }
        if deadline.is_some_and(|at| at <= Instant::now()) {
            kept.retain(|_, kept| kept.is_wanted);
            (deadline, had_client) = (None, true);
        }
        if client.is_none() && had_client && kept.is_empty() {
            return Ok(());
        }
    }
}

fn wait(listener: &OwnedFd, client: Option<&OwnedFd>, deadline: Option<Instant>) -> io::Result<()> {
    let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
    let left = left.map(|left| Timespec { tv_sec: left.as_secs() as _, tv_nsec: left.subsec_nanos() as _ });
    let mut watched = vec![PollFd::new(listener, PollFlags::IN)];
    watched.extend(client.map(|client| PollFd::new(client, PollFlags::IN)));
    match poll(&mut watched, left.as_ref()) {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// A connection, if there is one. One that cannot be taken now, as no descriptor is left, waits.
fn accept(listener: &OwnedFd) -> Option<OwnedFd> {
    let mut watched = [PollFd::new(listener, PollFlags::IN)];
    if poll(&mut watched, Some(&Timespec::default())).is_ok_and(|ready| ready > 0) {
        let taken = accept_with(listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK);
        if taken.is_err() {
            std::thread::sleep(PAUSE);
        }
        return taken.ok();
    }
    None
}

/// Does what the router asks for. Whether it is there still.
fn serve(client: &OwnedFd, kept: &mut HashMap<Vec<u8>, Kept>) -> bool {
    loop {
        match passing::receive(client.as_fd(), LONGEST) {
            Ok(Received::Nothing) => return true,
            Ok(Received::End) | Err(_) => return false,
            Ok(Received::Bytes(bytes, queue)) => match (bytes.split_first(), queue) {
                (Some((b'+', key)), Some(queue)) if kept.len() < MOST => {
                    kept.insert(key.to_vec(), Kept { _queue: queue, is_wanted: true });
                }
                (Some((b'-', key)), _) => {
                    let was_held = kept.remove(key).is_some();
                    if !answer(client, was_held, &bytes) {
                        return false;
                    }
                }
                (Some((b'?', key)), _) if answer(client, kept.contains_key(key), &bytes) => {}
                _ => return false,
            },
        }
    }
}

/// Whether the answer was sent.
fn answer(client: &OwnedFd, is_held: bool, to: &[u8]) -> bool {
    let sign = if is_held { HELD } else { NOT_HELD };
    passing::send(client.as_fd(), &[&[sign], to].concat(), None).is_ok()
}

#[cfg(test)]
mod tests {
    use super::super::{Keeper, Settings, socket};
    use super::*;
    use rustix::net::{SocketAddrUnix, bind, connect, listen};

    #[test]
    fn what_is_no_message_ends_the_connection_and_the_next_router_is_served() {
        let name = format!("quiver-test/{}", std::process::id());
        let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
        let listener = socket(SocketFlags::CLOEXEC).unwrap();
        bind(&listener, &address).unwrap();
        listen(&listener, 4).unwrap();
        std::thread::spawn(move || run(&listener, Duration::from_secs(60)));
        // A sign that there is none of, a queue that is missing, nothing that is kept.
        for rubbish in [&b"rubbish"[..], b"+key", b"\xff"] {
            let client = socket(SocketFlags::CLOEXEC).unwrap();
            connect(&client, &address).unwrap();
            // Without anything that is kept it would end.
            passing::send(client.as_fd(), b"+other", Some(client.as_fd())).unwrap();
            passing::send(client.as_fd(), rubbish, None).unwrap();
            let mut watched = [PollFd::new(&client, PollFlags::IN)];
            poll(&mut watched, None).unwrap();
            assert!(!matches!(passing::receive(client.as_fd(), 9), Ok(Received::Bytes(..))), "{rubbish:?}");
        }
        let mut keeper = Keeper::find(&Settings { time: Duration::from_secs(60), name }).unwrap();
        assert!(keeper.holds("other").unwrap() && !keeper.holds("key").unwrap());
        keeper.keep("key", &socket(SocketFlags::CLOEXEC).unwrap()).unwrap();
        assert!(keeper.holds("key").unwrap());
        keeper.let_go("key").unwrap();
        assert!(!keeper.holds("key").unwrap());
    }
}
