//! A thread that keeps the connections of all memifs: it listens, connects, does the handshakes, gives queues their
//! rings, and takes them back when the peer goes. Workers and control never wait for a peer.

use super::channel::{self, Answer, Master, Slave};
use super::lending::Loan;
use super::message::{Message, Nonsense};
use super::queue::{Connection, Role, Way};
use super::slot::{Bell, Slot};
use super::socket::{self, Listening, Received};
use super::{MemifStatus, Options, RegionStatus, RingStatus};
use crate::OpenError;
use graph::Pool;
use rustix::event::Timespec;
use rustix::event::epoll::{self, CreateFlags, Event, EventData, EventFlags};
use rustix::fd::{AsFd, AsRawFd, OwnedFd};
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::io;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often a slave tries to connect.
const RETRY: Duration = Duration::from_millis(500);
/// Timeout of a handshake.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// Most handshakes at a time.
const MAX_HANDSHAKES: usize = 16;
/// Time for a master to learn that the connection has ended, and to stop using our buffers.
const GRACE: Duration = Duration::from_millis(200);
/// How often shared memory is checked while there is a connection.
const LOOK: Duration = Duration::from_secs(1);
/// How long no connection is accepted when the system has no descriptor left.
const SHORTAGE: Duration = Duration::from_millis(100);

/// One interface, shared by the keeper and its queues.
pub struct Interface {
    pub options: Options,
    pub slot: Arc<Slot>,
    /// For each receive queue, the descriptor that its worker waits for.
    pub waiters: Vec<Arc<OwnedFd>>,
    /// The pool whose buffers the peer gets, with zero copy.
    lender: Option<Arc<Pool>>,
    /// Rung when something about the connection changes; registered with all of `waiters`.
    changed: Bell,
    status: Mutex<Status>,
}

#[derive(Default)]
struct Status {
    link: Option<u64>,
    remote_name: String,
    remote_interface: String,
    local_reason: String,
    remote_reason: String,
    connection_descriptor: i32,
    next_try: Option<Instant>,
}

impl Interface {
    pub fn new(options: Options, lender: Option<Arc<Pool>>) -> Result<Interface, OpenError> {
        let failed = |error: io::Error| OpenError::system("a descriptor for a memif", error);
        let changed = Bell::new().map_err(failed)?;
        let mut waiters = Vec::new();
        for _ in 0..options.rx_queues {
            let waiter = epoll::create(CreateFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
            watch_edge(&waiter, &changed).map_err(failed)?;
            waiters.push(Arc::new(waiter));
        }
        Ok(Interface { options, slot: Arc::default(), waiters, lender, changed, status: Mutex::default() })
    }

    fn status(&self) -> MutexGuard<'_, Status> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The status for `show memif`.
    pub fn shown(&self, listener: Option<i32>, with_descriptors: bool) -> MemifStatus {
        let (_, connection) = self.slot.connection();
        let status = self.status();
        let regions = connection.as_ref().map_or(Vec::new(), |it| {
            it.memory.0.iter().map(|region| RegionStatus { size: region.len() as u64 }).collect()
        });
        let rings =
            |ways: Option<&Vec<Way>>| ways.into_iter().flatten().map(|way| shown_ring(way, with_descriptors)).collect();
        MemifStatus {
            options: self.options.clone(),
            connected: connection.is_some(),
            remote_name: status.remote_name.clone(),
            remote_interface: status.remote_interface.clone(),
            local_reason: status.local_reason.clone(),
            remote_reason: status.remote_reason.clone(),
            listener_descriptor: listener.unwrap_or(0),
            connection_descriptor: status.connection_descriptor,
            regions,
            receive: rings(connection.as_deref().map(|it| &it.receive)),
            transmit: rings(connection.as_deref().map(|it| &it.transmit)),
        }
    }
}

fn shown_ring(way: &Way, with_descriptors: bool) -> RingStatus {
    let (ring, size) = (&way.ring, way.ring.size());
    let shown = if with_descriptors { size } else { 0 };
    RingStatus {
        region: way.region,
        offset: way.offset,
        size,
        interrupt_descriptor: way.interrupt.as_raw_fd(),
        head: ring.head(),
        tail: ring.tail(),
        flags: ring.flags(),
        interrupts: way.kicks.load(Ordering::Relaxed),
        descriptors: (0..shown).map(|slot| ring.descriptor(slot)).collect(),
    }
}

fn watch_edge(epoll: &OwnedFd, descriptor: impl AsFd) -> io::Result<()> {
    Ok(epoll::add(epoll, descriptor, EventData::new_u64(0), EventFlags::IN | EventFlags::ET)?)
}

/// A connection that a peer made to us, or we to a peer.
struct Link {
    fd: OwnedFd,
    side: Side,
    since: Instant,
    interface: Option<Arc<Interface>>,
    connection: Option<Arc<Connection>>,
}

enum Side {
    /// We have sent the greeting; the peer has not named an interface yet. With the name of its socket.
    Greeted(String),
    Master(Master),
    Slave(Slave),
}

struct Listener {
    key: u64,
    socket: Listening,
}

#[derive(Default)]
struct State {
    next_key: u64,
    listeners: BTreeMap<String, Listener>,
    links: BTreeMap<u64, Link>,
    interfaces: Vec<Arc<Interface>>,
    /// Old connections that workers may still use: their memory is unmapped when none does.
    parting: Vec<Arc<Connection>>,
    /// Buffers of the pool that a master had, and until when it may still use them.
    loans: Vec<(Instant, Vec<Loan>)>,
    ends: bool,
}

struct Shared {
    state: Mutex<State>,
    epoll: OwnedFd,
    bell: Arc<Bell>,
}

const BELL: u64 = 0;

/// Keeps connections until it is dropped.
pub struct Keeper {
    shared: Arc<Shared>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Keeper {
    /// # Errors
    /// When the system has no thread or descriptor left.
    pub fn start() -> Result<Keeper, OpenError> {
        let failed = |error: io::Error| OpenError::system("a thread for memifs", error);
        let epoll = epoll::create(CreateFlags::CLOEXEC).map_err(|error| failed(error.into()))?;
        let bell = Arc::new(Bell::new().map_err(failed)?);
        epoll::add(&epoll, bell.as_fd(), EventData::new_u64(BELL), EventFlags::IN)
            .map_err(|error| failed(error.into()))?;
        let state = Mutex::new(State { next_key: BELL + 1, ..State::default() });
        let shared = Arc::new(Shared { state, epoll, bell });
        let own = shared.clone();
        let thread = std::thread::Builder::new().name("memif".into()).spawn(move || own.run()).map_err(failed)?;
        Ok(Keeper { shared, thread: Some(thread) })
    }

    /// Keeps the connection of an interface until the handle is dropped.
    ///
    /// # Errors
    /// When its socket cannot be listened on, or another interface of the same role has its number there.
    pub fn add(&self, interface: Arc<Interface>) -> Result<ConnectionHandle, OpenError> {
        let mut state = self.shared.state();
        let options = &interface.options;
        let is_taken = |other: &&Arc<Interface>| {
            let other = &other.options;
            (&other.socket, other.id, other.role) == (&options.socket, options.id, options.role)
        };
        if let Some(other) = state.interfaces.iter().find(is_taken) {
            let other = &other.options.name;
            return Err(OpenError::Refused(format!(
                "{other} has id {} on socket '{}' already",
                options.id, options.socket
            )));
        }
        if options.role == Role::Master && !state.listeners.contains_key(&options.socket) {
            let socket = socket::listen(&options.socket)?;
            let key = state.key();
            let watched = epoll::add(&self.shared.epoll, &socket.fd, EventData::new_u64(key), EventFlags::IN);
            watched.map_err(|error| OpenError::system(format!("listening on '{}'", options.socket), error))?;
            state.listeners.insert(options.socket.clone(), Listener { key, socket });
        }
        state.interfaces.push(interface.clone());
        drop(state);
        self.shared.bell.ring();
        Ok(ConnectionHandle { shared: self.shared.clone(), interface })
    }

    /// The descriptor of the listening socket.
    pub fn listener(&self, filename: &str) -> Option<i32> {
        self.shared.state().listeners.get(filename).map(|listener| listener.socket.fd.as_raw_fd())
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.shared.state().ends = true;
        self.shared.bell.ring();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let mut state = self.shared.state();
        let keys: Vec<u64> = state.links.keys().copied().collect();
        keys.into_iter().for_each(|key| self.shared.close(&mut state, key, Some("the router ends")));
        state.listeners.clear();
    }
}

/// An interface in the keeper's care.
pub struct ConnectionHandle {
    shared: Arc<Shared>,
    pub interface: Arc<Interface>,
}

impl Drop for ConnectionHandle {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.interfaces.retain(|other| !Arc::ptr_eq(other, &self.interface));
        let link = self.interface.status().link;
        if let Some(key) = link {
            self.shared.close(&mut state, key, Some("the interface is deleted"));
        }
        let filename = &self.interface.options.socket;
        let is_used = |other: &Arc<Interface>| other.options.role == Role::Master && other.options.socket == *filename;
        if self.interface.options.role == Role::Master
            && !state.interfaces.iter().any(is_used)
            && let Some(listener) = state.listeners.remove(filename)
        {
            let _ = epoll::delete(&self.shared.epoll, &listener.socket.fd);
        }
    }
}

impl State {
    fn key(&mut self) -> u64 {
        self.next_key += 1;
        self.next_key - 1
    }

    /// How long the keeper may wait if no event comes first; none: for ever.
    fn pause(&self, now: Instant) -> Option<Duration> {
        let tries = self.interfaces.iter().filter(|it| it.options.role == Role::Slave);
        let tries = tries.map(|it| it.status()).filter(|status| status.link.is_none());
        let tries = tries.map(|status| status.next_try.map_or(Duration::ZERO, |at| at.saturating_duration_since(now)));
        let looks = !self.links.is_empty() || !self.parting.is_empty() || !self.loans.is_empty();
        tries.chain(looks.then_some(LOOK)).min()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let mut events = [Event { flags: EventFlags::empty(), data: EventData::new_u64(0) }; 32];
        loop {
            let pause = {
                let mut state = self.state();
                if state.ends {
                    return;
                }
                let now = Instant::now();
                self.tend(&mut state, now);
                state.pause(now)
            };
            // Rounded up, or it would wake too early again and again.
            let pause = pause.map(|pause| pause + Duration::from_millis(1));
            let pause = pause.and_then(|pause| Timespec::try_from(pause).ok());
            let found = epoll::wait(&self.epoll, &mut events, pause.as_ref()).unwrap_or(0);
            let mut state = self.state();
            for event in &events[..found] {
                match event.data.u64() {
                    BELL => self.bell.quiet(),
                    key => self.hear(&mut state, key),
                }
            }
        }
    }

    /// Does what is due, and what workers have asked for.
    fn tend(&self, state: &mut State, now: Instant) {
        for interface in state.interfaces.clone() {
            let mut status = interface.status();
            let is_due = status.next_try.is_none_or(|at| at <= now);
            if interface.options.role == Role::Slave && status.link.is_none() && is_due {
                status.next_try = Some(now + RETRY);
                if let Ok(fd) = socket::connect(&interface.options.socket) {
                    let side = Side::Slave(Slave::new(interface.options.clone(), interface.lender.clone()));
                    let descriptor = fd.as_raw_fd();
                    if let Some(key) = self.watch(state, fd, side, Some(interface.clone())) {
                        (status.link, status.connection_descriptor) = (Some(key), descriptor);
                    }
                }
            }
        }
        let mut ends = Vec::new();
        for (key, link) in &state.links {
            let Some(connection) = &link.connection else {
                if now.duration_since(link.since) > HANDSHAKE {
                    ends.push((*key, "it took too long to agree"));
                }
                continue;
            };
            if connection.broken.load(Ordering::Relaxed) {
                ends.push((*key, "a ring makes no sense"));
            } else if connection.memory.is_torn() {
                ends.push((*key, "shared memory is gone"));
            }
            connection.transmit.iter().for_each(kick);
        }
        ends.into_iter().for_each(|(key, reason)| self.close(state, key, Some(reason)));
        state.parting.retain(|connection| Arc::strong_count(connection) > 1);
        state.loans.retain(|(until, _)| now < *until);
    }

    fn watch(&self, state: &mut State, fd: OwnedFd, side: Side, interface: Option<Arc<Interface>>) -> Option<u64> {
        let key = state.key();
        epoll::add(&self.epoll, &fd, EventData::new_u64(key), EventFlags::IN).ok()?;
        state.links.insert(key, Link { fd, side, since: Instant::now(), interface, connection: None });
        Some(key)
    }

    fn hear(&self, state: &mut State, key: u64) {
        let listener = state.listeners.iter().find(|(_, listener)| listener.key == key);
        if let Some((filename, listener)) = listener {
            let filename = filename.clone();
            let fd = match socket::accept(listener.socket.fd.as_fd()) {
                Ok(Some(fd)) => fd,
                Ok(None) => return,
                Err(error) => {
                    log::warn!("memif: nobody can connect on {filename}: {error}");
                    return std::thread::sleep(SHORTAGE);
                }
            };
            let unsettled = state.links.values().filter(|link| link.connection.is_none()).count();
            if unsettled < MAX_HANDSHAKES && socket::send(fd.as_fd(), &channel::hello(), None).is_ok() {
                self.watch(state, fd, Side::Greeted(filename), None);
            }
            return;
        }
        let Some(link) = state.links.get(&key) else { return };
        match socket::receive(link.fd.as_fd()) {
            Ok(Received::Nothing) => {}
            Ok(Received::End) | Err(_) => self.close(state, key, None),
            Ok(Received::Bytes(bytes, descriptor)) => {
                let outcome = Message::parse(&bytes).map_err(|error: Nonsense| error.to_string());
                let outcome = outcome.and_then(|message| self.take(state, key, message, descriptor));
                if let Err(reason) = outcome {
                    self.close(state, key, Some(&reason));
                }
            }
        }
    }

    /// Handles a message from a peer.
    fn take(&self, state: &mut State, key: u64, message: Message, descriptor: Option<OwnedFd>) -> Result<(), String> {
        let Some(link) = state.links.get_mut(&key) else { return Ok(()) };
        if let (Message::Disconnect { reason, .. }, interface) = (&message, &link.interface) {
            if let Some(interface) = interface {
                interface.status().remote_reason = reason.clone();
            }
            self.close(state, key, None);
            return Ok(());
        }
        if link.connection.is_some() {
            return Err("unexpected message".into());
        }
        let remote = match &message {
            Message::Connect(name) | Message::Connected(name) => Some(name.clone()),
            _ => None,
        };
        let answer = match &mut link.side {
            Side::Greeted(filename) => {
                let Message::Init(init) = message else { return Err("unexpected message".into()) };
                let is_wanted = |it: &&Arc<Interface>| {
                    (&it.options.socket, it.options.id, it.options.role) == (&*filename, init.id, Role::Master)
                };
                let wanted = state.interfaces.iter().find(is_wanted).cloned();
                let Some(interface) = wanted else { return Err(format!("no interface of id {} here", init.id)) };
                let mut status = interface.status();
                channel::admit(&init, &interface.options).inspect_err(|reason| {
                    // The interface has no link to which this refusal belongs, but its operator looks for the reason
                    // here.
                    if status.link.is_none() {
                        (status.local_reason, status.remote_name) = (reason.clone(), init.name.clone());
                    }
                })?;
                if status.link.is_some() {
                    return Err("the interface is connected already".into());
                }
                let descriptor = link.fd.as_raw_fd();
                *status = Status {
                    link: Some(key),
                    remote_name: init.name,
                    connection_descriptor: descriptor,
                    ..Status::default()
                };
                drop(status);
                link.side = Side::Master(Master::new(interface.options.clone()));
                link.interface = Some(interface);
                Answer { send: Some((Message::Ack, None)), connected: None }
            }
            Side::Master(master) => master.take(message, descriptor, &self.bell)?,
            Side::Slave(slave) => {
                if let (Message::Hello(hello), Some(interface)) = (&message, &link.interface) {
                    interface.status().remote_name = hello.name.clone();
                }
                slave.take(message, &self.bell)?
            }
        };
        if let Some((said, descriptor)) = &answer.send {
            socket::send(link.fd.as_fd(), said, descriptor.as_ref()).map_err(|error| error.to_string())?;
        }
        if let (Some(connection), Some(interface)) = (answer.connected, &link.interface) {
            let connection = Arc::new(connection);
            for way in connection.receive.iter().chain(&connection.transmit) {
                let flags = rustix::fs::fcntl_getfl(&way.interrupt).unwrap_or(OFlags::empty());
                let _ = rustix::fs::fcntl_setfl(&way.interrupt, flags | OFlags::NONBLOCK);
            }
            for (waiter, way) in interface.waiters.iter().zip(&connection.receive) {
                let watched = watch_edge(waiter, &way.interrupt);
                watched.map_err(|error| format!("a ring's descriptor: {error}"))?;
            }
            link.connection = Some(connection.clone());
            let mut status = interface.status();
            status.remote_interface = remote.unwrap_or_default();
            (status.local_reason, status.remote_reason) = (String::new(), String::new());
            let (name, remote) = (&interface.options.name, status.remote_interface.clone());
            log::info!("{name}: connected with '{remote}' of {}", status.remote_name);
            drop(status);
            state.parting.extend(interface.slot.set(Some(connection)));
            interface.changed.ring();
        }
        Ok(())
    }

    /// Ends a link; `reason` goes to the peer if we end it.
    fn close(&self, state: &mut State, key: u64, reason: Option<&str>) {
        let Some(link) = state.links.remove(&key) else { return };
        if let Some(reason) = reason {
            let bye = Message::Disconnect { code: 0, reason: reason.into() };
            let _ = socket::send(link.fd.as_fd(), &bye, None);
        }
        let _ = epoll::delete(&self.epoll, &link.fd);
        let Some(interface) = link.interface else {
            if let Some(reason) = reason {
                log::warn!("memif: a connection was refused: {reason}");
            }
            return;
        };
        let mut status = interface.status();
        (status.link, status.connection_descriptor) = (None, 0);
        status.next_try = Some(Instant::now() + RETRY);
        if let Some(reason) = reason {
            status.local_reason = reason.into();
        }
        let told = reason.unwrap_or(&status.remote_reason);
        let told = if told.is_empty() { "the other side is gone" } else { told };
        if link.connection.is_some() {
            log::info!("{}: disconnected: {told}", interface.options.name);
        } else {
            log::warn!("{}: not connected: {told}", interface.options.name);
        }
        drop(status);
        if let Some(connection) = link.connection {
            for (waiter, way) in interface.waiters.iter().zip(&connection.receive) {
                let _ = epoll::delete(&**waiter, &way.interrupt);
            }
            let loans = connection.end_loans();
            if !loans.is_empty() {
                state.loans.push((Instant::now() + GRACE, loans));
            }
            state.parting.extend(interface.slot.set(None));
            interface.changed.ring();
        }
    }
}

/// Wakes the peer that receives by a ring, if a worker has asked for that.
fn kick(way: &Way) {
    if !way.kicked.swap(false, Ordering::Relaxed) {
        return;
    }
    way.kicks.fetch_add(1, Ordering::Relaxed);
    // The peer shares the descriptor, and may have made it blocking.
    let flags = rustix::fs::fcntl_getfl(&way.interrupt).unwrap_or(OFlags::empty());
    if !flags.contains(OFlags::NONBLOCK) {
        let _ = rustix::fs::fcntl_setfl(&way.interrupt, flags | OFlags::NONBLOCK);
    }
    let _ = rustix::io::write(&way.interrupt, &1u64.to_ne_bytes());
}
