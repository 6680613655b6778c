//! The thread that a routing daemon talks to.

use super::control::Event;
use super::{Settings, frames};
use crate::kernel::{Followed, Kernel, Key, Links, Taken};
use crate::netlink::message::{Message, Messages};
use crate::netlink::next_hop;
use crate::netlink::route::{self, NotFollowed};
use crossbeam_channel::{Receiver, TryRecvError};
use drivers::{OpenError, namespace};
use graph::InterfaceIndex;
use router::events::EventSender;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::net::sockopt::{set_socket_keepalive, set_tcp_keepcnt, set_tcp_keepidle, set_tcp_keepintvl};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use wire::Family;

/// When a socket cannot be opened, or control has no room, it is tried again after this time.
const REOPEN: Duration = Duration::from_secs(1);
const RETRY: Duration = Duration::from_millis(5);
/// In which a batch grows.
const PAUSE: Duration = Duration::from_millis(2);
/// The most routes of one batch.
const BATCH: usize = 1 << 18;
/// Bytes that are read before anything else is done.
const AT_ONCE: usize = 1 << 20;
/// Bytes of answers that wait for the daemon to read them. Beyond that it hears of no more.
const ANSWERS: usize = 64 << 20;

crate::follow::counts! {
    /// Connections of a daemon.
    sessions,
    /// Frames, and messages in them.
    frames,
    messages,
    /// Those that are not as they should be.
    malformed,
    /// Those about routes that the router does not follow.
    not_followed,
    /// Next-hop objects, and prefixes, that the daemon has.
    objects,
    prefixes,
    /// Changes that the router has not heard of yet.
    backlog,
    /// Batches of routes that the router took, and the changes in them.
    batches,
    changes,
    /// Routes that the router refused.
    refused,
    /// Routes that the daemon did not say again.
    stale,
    /// Routes of which the daemon heard that they forward, that they do not, and that found no room.
    offloaded,
    failed,
    unsaid,
    /// Microseconds from a message about a route until the router had it: the latest batch, and the longest.
    lag,
    longest_lag,
}

/// What commands read.
#[derive(Default)]
pub struct Shared {
    pub counts: Counts,
    pub state: Mutex<State>,
}

/// Of the connection.
#[derive(Debug, Clone, Default)]
pub struct State {
    pub listens: bool,
    pub peer: Option<SocketAddr>,
    /// Why nobody can connect.
    pub error: Option<String>,
}

/// What the thread is to do.
pub enum Order {
    /// A link of Linux is, or is no longer, the side of an interface.
    Link(u32, Option<InterfaceIndex>),
    /// A batch is done, but for some prefixes; none: all of it was refused.
    Done { taken: Taken, missing: Option<HashSet<Key>> },
    /// Packets of routes without a way for the router go to Linux, or not.
    NoPaths(bool),
    /// These tables are followed.
    Tables(Followed),
    /// These are the VRFs of the namespace: the table of each, by the number of its device.
    Vrfs(BTreeMap<u32, u32>),
    /// Serve in another namespace.
    Move(Option<String>),
}

/// A daemon that is connected.
struct Client {
    stream: TcpStream,
    /// What was read, and is no whole frame yet.
    read: Vec<u8>,
    /// Answers that wait.
    answers: Vec<u8>,
}

/// What an answer about a route needs of what was said.
#[derive(Clone, Copy)]
struct Said {
    metric: u32,
    protocol: u8,
    /// The number of the message.
    at: u64,
    /// What the daemon heard last: whether it forwards.
    answered: Option<bool>,
}

struct Run<'a> {
    settings: Settings,
    shared: &'a Shared,
    events: &'a EventSender<Event>,
    listener: Option<TcpListener>,
    client: Option<Client>,
    links: Links,
    kernel: Kernel,
    /// What was said on connections before. Until it is said again, it stays.
    before: HashSet<Key>,
    /// When what is not said again goes, and when all goes because no daemon is there.
    sweep_at: Option<Instant>,
    gone_at: Option<Instant>,
    /// So often all was said anew.
    session: u64,
    reopen_at: Option<Instant>,
    /// Routes that the daemon says.
    said: HashMap<Key, Said>,
    /// The number of the last message, and of the last one that the batch underway has, with its session.
    heard: u64,
    underway: Option<(u64, u64)>,
    waits_since: Option<Instant>,
    not_before: Option<Instant>,
    retry: bool,
}

/// Serves until nobody gives orders any more.
pub fn run(settings: Settings, shared: &Shared, events: &EventSender<Event>, orders: &Receiver<Order>, bell: &OwnedFd) {
    let (listener, client, links, kernel, before, said) = Default::default();
    let mut run = Run {
        settings,
        shared,
        events,
        listener,
        client,
        links,
        kernel,
        before,
        sweep_at: None,
        gone_at: None,
        session: 0,
        reopen_at: Some(Instant::now()),
        said,
        heard: 0,
        underway: None,
        waits_since: None,
        not_before: None,
        retry: false,
    };
    loop {
        run.wait(bell);
        loop {
            match orders.try_recv() {
                Ok(Order::Link(link, interface)) => run.link(link, interface),
                Ok(Order::Done { taken, missing }) => run.done(taken, missing),
                Ok(Order::Move(namespace)) => run.move_to(namespace),
                Ok(Order::NoPaths(on)) => run.kernel.set_no_paths(on),
                Ok(Order::Tables(tables)) => run.follow(&tables),
                Ok(Order::Vrfs(vrfs)) => run.set_vrfs(&vrfs),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        run.open();
        run.serve();
        run.accept();
        run.sweep();
        run.pass_on();
        run.note();
    }
}

impl Run<'_> {
    fn wait(&self, bell: &OwnedFd) {
        let times = [self.sweep_at, self.gone_at, self.reopen_at, self.not_before];
        let mut until = times.into_iter().flatten().min().map(|at| at.saturating_duration_since(Instant::now()));
        if self.retry {
            until = Some(RETRY);
        }
        let until = until.map(|time| Timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos() as _ });
        let mut watched = vec![PollFd::new(bell, PollFlags::IN)];
        let listener = self.listener.as_ref().filter(|_| self.reopen_at.is_none());
        watched.extend(listener.map(|listener| PollFd::new(listener, PollFlags::IN)));
        if let Some(client) = &self.client {
            let writes = if client.answers.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            watched.push(PollFd::new(&client.stream, PollFlags::IN | writes));
        }
        // An interrupted call is repeated.
        let _ = poll(&mut watched, until.as_ref());
        let mut rings = [0; 8];
        let _ = rustix::io::read(bell, &mut rings);
    }

    fn link(&mut self, link: u32, interface: Option<InterfaceIndex>) {
        match interface {
            Some(interface) => drop(self.links.insert(link, interface)),
            None => drop(self.links.remove(&link)),
        }
        self.kernel.links_changed(&[link].into());
    }

    /// A table that is followed no longer is empty in the router.
    fn follow(&mut self, tables: &Followed) {
        self.kernel.follow(tables);
        self.before.retain(|(table, prefix)| tables.contains_key(&(*table, prefix.family())));
    }

    fn set_vrfs(&mut self, vrfs: &BTreeMap<u32, u32>) {
        let gone: Vec<u32> = self.kernel.vrfs().keys().filter(|link| !vrfs.contains_key(link)).copied().collect();
        gone.into_iter().for_each(|link| self.kernel.set_vrf(link, None));
        vrfs.iter().for_each(|(link, table)| self.kernel.set_vrf(*link, Some(*table)));
    }

    /// Other pairs than before are the default ones.
    fn move_to(&mut self, namespace: Option<String>) {
        self.settings.namespace = namespace;
        (self.listener, self.reopen_at) = (None, Some(Instant::now()));
        self.links = Links::new();
        if self.client.take().is_some() {
            self.lost("it is in another namespace than pairs are by default");
        }
        let mut state = lock(&self.shared.state);
        (state.listens, state.error) = (false, None);
    }

    /// Opens the listening socket. The namespace may come later.
    fn open(&mut self) {
        if self.reopen_at.is_none_or(|at| at > Instant::now()) {
            return;
        }
        if self.listener.is_some() {
            self.reopen_at = None;
            return;
        }
        let Settings { listen, namespace, .. } = &self.settings;
        let refused = |error: io::Error| OpenError::system(format!("listening on {listen}"), error);
        let open = || {
            let listener = TcpListener::bind(listen).map_err(refused)?;
            listener.set_nonblocking(true).map_err(refused)?;
            Ok(listener)
        };
        let error = match namespace::inside(namespace.as_deref(), open) {
            Ok(listener) => {
                self.listener = Some(listener);
                self.reopen_at = None;
                None
            }
            Err(error) => {
                self.reopen_at = Some(Instant::now() + REOPEN);
                Some(error.to_string())
            }
        };
        let mut state = lock(&self.shared.state);
        if let Some(error) = error.as_ref().filter(|_| state.error.is_none()) {
            log::warn!("no routing daemon can connect yet: {error}");
        }
        (state.listens, state.error) = (self.listener.is_some(), error);
    }

    fn accept(&mut self) {
        let Some(listener) = &self.listener else { return };
        match listener.accept() {
            Ok((stream, peer)) => {
                // One daemon has the routes. Another one is turned away.
                if self.client.is_some() || stream.set_nonblocking(true).is_err() || watch(&stream).is_err() {
                    return log::warn!("{peer} is turned away: a routing daemon is connected");
                }
                log::info!("a routing daemon is connected from {peer}");
                self.client = Some(Client { stream, read: Vec::new(), answers: Vec::new() });
                self.shared.counts.sessions.add(1);
                lock(&self.shared.state).peer = Some(peer);
                self.begin();
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => {
                log::warn!("a connection of a routing daemon fails: {error}");
                self.reopen_at = Some(Instant::now() + REOPEN);
            }
        }
    }

    /// The daemon says all of it anew.
    fn begin(&mut self) {
        self.forget();
        self.gone_at = None;
        if !self.before.is_empty() {
            // A daemon that comes and goes does not put it off.
            self.sweep_at.get_or_insert(Instant::now() + self.settings.hold_time);
        }
    }

    /// What was said is what was said before.
    fn forget(&mut self) {
        let anew = self.kernel.anew();
        let said = std::mem::replace(&mut self.kernel, anew);
        self.before.extend(said.all());
        self.said.clear();
        self.session += 1;
    }

    /// What was not said again goes, and all of it when nobody has come again.
    fn sweep(&mut self) {
        let now = Instant::now();
        let is_over = |at: &mut Instant| *at <= now;
        if self.gone_at.take_if(is_over).is_some() {
            self.forget();
            self.sweep_at = Some(now);
        }
        if self.sweep_at.take_if(is_over).is_none() {
            return;
        }
        let mut stale: Vec<Key> = std::mem::take(&mut self.before).into_iter().collect();
        stale.retain(|prefix| !self.kernel.has(*prefix));
        self.shared.counts.stale.add(stale.len() as u64);
        if !stale.is_empty() {
            log::info!("{} routes that the routing daemon did not say again go", stale.len());
        }
        self.kernel.say_again(&stale);
    }

    fn serve(&mut self) {
        let Some(mut client) = self.client.take() else { return };
        match self.talk(&mut client) {
            Ok(()) => self.client = Some(client),
            Err(error) => self.lost(&error.to_string()),
        }
    }

    fn lost(&mut self, why: &str) {
        log::warn!("the routing daemon is gone ({why}): its routes stay for {:?}", self.settings.hold_time);
        lock(&self.shared.state).peer = None;
        self.gone_at = Some(Instant::now() + self.settings.hold_time);
    }

    fn talk(&mut self, client: &mut Client) -> io::Result<()> {
        let mut some = vec![0; frames::LONGEST];
        let (mut all, mut end) = (0, None);
        while all < AT_ONCE {
            match client.stream.read(&mut some) {
                // What it said before counts.
                Ok(0) => {
                    end = Some(io::Error::from(ErrorKind::UnexpectedEof));
                    break;
                }
                Ok(length) => {
                    all += length;
                    client.read.extend_from_slice(&some[..length]);
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    end = Some(error);
                    break;
                }
            }
        }
        let mut at = 0;
        loop {
            match frames::first(&client.read[at..]) {
                Ok(Some((messages, length))) => {
                    self.shared.counts.frames.add(1);
                    Messages(messages).for_each(|message| match message {
                        Ok(message) => self.hear(&message),
                        Err(_) => self.shared.counts.malformed.add(1),
                    });
                    at += length;
                }
                Ok(None) => break,
                Err(frames::NoFrame) => {
                    self.shared.counts.malformed.add(1);
                    return Err(io::Error::new(ErrorKind::InvalidData, "what it says is no frame of the protocol"));
                }
            }
        }
        client.read.drain(..at);
        if let Some(end) = end {
            return Err(end);
        }
        while !client.answers.is_empty() {
            match client.stream.write(&client.answers) {
                Ok(length) => drop(client.answers.drain(..length)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn hear(&mut self, message: &Message<'_>) {
        let counts = &self.shared.counts;
        counts.messages.add(1);
        self.heard += 1;
        let heard = match message.kind {
            next_hop::NEW | next_hop::DELETE => self.kernel.hear(message, false),
            route::NEW => self.kernel.put_alone(message.payload).map(|prefix| {
                counts.not_followed.add((!self.kernel.follows(prefix.0, prefix.1.family())).into());
                if let Some(said) = said(message.payload, self.heard) {
                    self.said.insert(prefix, said);
                }
            }),
            route::DELETE => self.kernel.remove_all(message.payload).map(|prefix| {
                self.said.remove(&prefix);
                // It may be one of a connection before.
                if self.before.remove(&prefix) {
                    self.kernel.say_again(&[prefix]);
                }
            }),
            _ => Err(NotFollowed::Other),
        };
        match heard {
            Ok(()) => {}
            Err(NotFollowed::Other) => counts.not_followed.add(1),
            Err(NotFollowed::Malformed) => counts.malformed.add(1),
        }
        if self.waits_since.is_none() && self.kernel.backlog() > 0 {
            self.waits_since = Some(Instant::now());
        }
    }

    fn pass_on(&mut self) {
        self.retry = false;
        let now = Instant::now();
        if self.underway.is_some() || self.not_before.is_some_and(|at| at > now) {
            return;
        }
        self.not_before = None;
        if self.kernel.backlog() == 0 {
            return;
        }
        let (batches, taken) = self.kernel.take(&self.links, BATCH);
        if batches.is_empty() {
            return;
        }
        match self.events.try_send(Event { batches, taken: taken.clone() }) {
            Ok(()) => self.underway = Some((self.heard, self.session)),
            Err(_) => {
                self.kernel.give_back(taken);
                self.retry = true;
            }
        }
    }

    fn done(&mut self, taken: Taken, missing: Option<HashSet<Key>>) {
        let (counts, now) = (&self.shared.counts, Instant::now());
        let (until, session) = self.underway.take().unwrap_or((self.heard, self.session));
        self.not_before = Some(now + if missing.is_some() { PAUSE } else { REOPEN });
        let Some(missing) = missing else {
            match session == self.session {
                true => self.kernel.give_back(taken),
                false => self.before.extend(keys_of(taken)),
            }
            return;
        };
        counts.batches.add(1);
        counts.changes.add(taken.iter().map(|(.., prefixes)| prefixes.len() as u64).sum());
        if let Some(since) = self.waits_since.take() {
            let lag = (now - since).as_micros() as u64;
            counts.lag.set(lag);
            counts.longest_lag.set(counts.longest_lag.get().max(lag));
        }
        self.waits_since = (self.kernel.backlog() > 0).then_some(now);
        for prefix in keys_of(taken) {
            // What was said since is for a later batch.
            let Some(said) = self.said.get_mut(&prefix).filter(|said| said.at <= until) else { continue };
            // A route without a way by an interface of the router is not in its table.
            let is_there = !missing.contains(&prefix) && self.kernel.leads(prefix, &self.links);
            if said.answered.replace(is_there) == Some(is_there) {
                continue;
            }
            counts.refused.add((!is_there).into());
            let Some(client) = &mut self.client else { continue };
            if client.answers.len() > ANSWERS {
                counts.unsaid.add(1);
                continue;
            }
            let count = if is_there { &counts.offloaded } else { &counts.failed };
            count.add(1);
            client.answers.extend(frames::frame(&answer(prefix, *said, is_there)));
        }
    }

    fn note(&self) {
        let counts = &self.shared.counts;
        counts.backlog.set(self.kernel.backlog() as u64);
        counts.prefixes.set((self.kernel.len(Family::Ip4) + self.kernel.len(Family::Ip6)) as u64);
        counts.objects.set(self.kernel.objects().len() as u64);
    }
}

fn lock(state: &Mutex<State>) -> std::sync::MutexGuard<'_, State> {
    state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// The prefixes that were taken, with their tables.
pub fn keys_of(taken: Taken) -> impl Iterator<Item = Key> {
    taken.into_iter().flat_map(|(table, _, prefixes)| prefixes.into_iter().map(move |prefix| (table, prefix)))
}

fn said(payload: &[u8], at: u64) -> Option<Said> {
    let (.., metric) = route::key(payload)?;
    Some(Said { metric, protocol: *payload.get(5)?, at, answered: None })
}

/// A daemon whose machine or network is gone without a word is noticed within half a minute.
fn watch(stream: &TcpStream) -> rustix::io::Result<()> {
    set_socket_keepalive(stream, true)?;
    set_tcp_keepidle(stream, Duration::from_secs(10))?;
    set_tcp_keepintvl(stream, Duration::from_secs(5))?;
    set_tcp_keepcnt(stream, 4)
}

/// Flags of a route in hardware (linux/rtnetlink.h `RTM_F_*`): what forwards packets, has it, or could not take it.
const OFFLOADED: u32 = 0x4000;
const OFFLOAD_FAILED: u32 = 0x2000_0000;
const RTA_DST: u16 = 1;
const RTA_PRIORITY: u16 = 6;
const RTA_TABLE: u16 = 15;
const TYPE_UNICAST: u8 = 1;

/// The message that says what became of a route.
fn answer((number, prefix): Key, said: Said, is_there: bool) -> Vec<u8> {
    let family = if prefix.family() == Family::Ip4 { route::AF_INET } else { route::AF_INET6 };
    let flags = if is_there { OFFLOADED } else { OFFLOAD_FAILED };
    // A table of more than a byte is in an attribute.
    let table = u8::try_from(number).unwrap_or(0);
    let mut payload = vec![family, prefix.length(), 0, 0, table, said.protocol, 0, TYPE_UNICAST];
    payload.extend(flags.to_ne_bytes());
    let destination = match prefix.address() {
        std::net::IpAddr::V4(address) => address.octets().to_vec(),
        std::net::IpAddr::V6(address) => address.octets().to_vec(),
    };
    attribute(&mut payload, RTA_DST, &destination);
    attribute(&mut payload, RTA_TABLE, &number.to_ne_bytes());
    attribute(&mut payload, RTA_PRIORITY, &said.metric.to_ne_bytes());
    let length = (16 + payload.len()) as u32;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(route::NEW.to_ne_bytes());
    message.extend([0; 10]);
    message.extend(payload);
    message
}

fn attribute(into: &mut Vec<u8>, kind: u16, value: &[u8]) {
    into.extend((4 + value.len() as u16).to_ne_bytes());
    into.extend(kind.to_ne_bytes());
    into.extend(value);
}
