//! The thread that reads what Linux says.

use super::space::Space;
use super::{Counts, Event, Namespace, Order, Settings};
use crate::kernel::{Followed, Kernel, Links, Taken};
use crossbeam_channel::{Receiver, TryRecvError};
use router::events::EventSender;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, OwnedFd};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// When control has no room for an event, it is tried again after this time.
const RETRY: Duration = Duration::from_millis(5);
/// When the router refused a whole batch, it gets the next one after this time.
const PAUSE_AFTER_REFUSAL: Duration = Duration::from_secs(1);
/// When Linux says so many messages within so much time, they are left to gather for a while: each of them would wake
/// this thread, and few would make a batch of routes.
const MANY: u64 = 50;
const WINDOW: Duration = Duration::from_millis(10);
const GATHER: Duration = Duration::from_millis(5);
/// The pause after a batch of many routes.
const MANY_ROUTES: usize = 32;
const LONG_PAUSE: Duration = Duration::from_millis(20);
/// With less room for messages than this they do not gather.
const ROOM: usize = 8 << 20;
/// The most neighbours of one event.
const NEIGHBOURS: usize = 1024;

/// A batch that control has.
struct Underway {
    /// None: of routes that are followed no longer.
    namespace: Option<Namespace>,
    taken: Taken,
    since: Option<Instant>,
}

struct Run<'a> {
    settings: Settings,
    events: &'a EventSender<Event>,
    spaces: Vec<Space>,
    /// The namespace whose routes are followed.
    routes: Option<Namespace>,
    /// The tables that are followed; none: as a kernel does by itself.
    tables: Option<Followed>,
    no_paths: bool,
    /// Routes that the router has still, of namespaces whose routes are followed no longer. They go before others come.
    left: Kernel,
    underway: Option<Underway>,
    not_before: Option<Instant>,
    /// When the latest window began, and the messages read before it.
    window: (Instant, u64),
    /// Messages gather.
    is_busy: bool,
    /// Control had no room for an event.
    retry: bool,
}

/// Reads until nobody gives orders any more.
pub fn run(settings: Settings, events: &EventSender<Event>, orders: &Receiver<Order>, bell: &OwnedFd) {
    let (spaces, routes, tables, left, underway) = Default::default();
    let mut run = Run {
        settings,
        events,
        spaces,
        routes,
        tables,
        no_paths: false,
        left,
        underway,
        not_before: None,
        window: (Instant::now(), 0),
        is_busy: false,
        retry: false,
    };
    let mut buffer = vec![0; Space::DATAGRAM];
    let mut more = false;
    loop {
        if !more {
            run.wait(bell);
        }
        loop {
            match orders.try_recv() {
                Ok(order) => run.obey(order),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        more = run.read(&mut buffer);
        run.note_rate();
        run.pass_on();
    }
}

impl Run<'_> {
    fn wait(&self, bell: &OwnedFd) {
        let until = match self.retry || self.spaces.iter().any(|space| space.retry) {
            true => Some(RETRY),
            false => self.not_before.map(|at| at.saturating_duration_since(Instant::now())),
        };
        let until = if self.is_busy { Some(until.map_or(GATHER, |until| until.min(GATHER))) } else { until };
        let until = until.map(|time| Timespec { tv_sec: time.as_secs() as _, tv_nsec: time.subsec_nanos() as _ });
        let mut watched = vec![PollFd::new(bell, PollFlags::IN)];
        if !self.is_busy {
            let sockets = self.spaces.iter().map(|space| space.subscription().as_fd());
            watched.extend(sockets.map(|socket| PollFd::from_borrowed_fd(socket, PollFlags::IN)));
        }
        // An interrupted call is repeated.
        let _ = poll(&mut watched, until.as_ref());
        let mut rings = [0; 8];
        let _ = rustix::io::read(bell, &mut rings);
    }

    /// Whether so much comes that it is better to let some gather.
    fn note_rate(&mut self) {
        let (now, (since, before)) = (Instant::now(), self.window);
        let has_room = self.spaces.iter().all(|space| space.subscription().room() >= ROOM);
        if now - since < WINDOW || !has_room {
            self.is_busy &= has_room;
            return;
        }
        let all: u64 = self.spaces.iter().map(|space| space.counts.messages.get()).sum();
        // In windows that took longer, of as much more.
        let windows = (now - since).as_micros() / WINDOW.as_micros();
        self.is_busy = u128::from(all.saturating_sub(before)) > u128::from(MANY) * windows;
        self.window = (now, all);
    }

    fn obey(&mut self, order: Order) {
        match order {
            Order::Follow { namespace, link, interface, is_new, counts } => {
                if let Some(space) = self.space(namespace, counts) {
                    space.set_link(link, Some(interface), is_new);
                }
            }
            Order::Leave { namespace, link } => {
                if let Some(space) = self.spaces.iter_mut().find(|space| space.namespace == namespace) {
                    space.set_link(link, None, false);
                }
                for space in self.spaces.extract_if(.., |space| space.links.is_empty()) {
                    self.left.forget(&space.kernel);
                }
            }
            Order::Routes(namespace) => self.follow_routes_of(namespace),
            Order::Look => self.spaces.iter_mut().for_each(Space::look_at_all),
            Order::NoPaths(on) => {
                self.no_paths = on;
                self.spaces.iter_mut().for_each(|space| space.set_no_paths(on));
            }
            Order::Tables(tables) => {
                self.spaces.iter_mut().for_each(|space| space.kernel.follow(&tables));
                self.left.follow(&tables);
                self.tables = Some(tables);
            }
            Order::Again { namespace, prefixes } => {
                if let Some(space) = self.spaces.iter_mut().find(|space| space.namespace == namespace) {
                    space.kernel.say_again(&prefixes);
                }
            }
            Order::Done(refused) => self.done(refused),
        }
    }

    /// The followed namespace of a name. A new one is looked at as a whole.
    fn space(&mut self, namespace: Namespace, counts: Arc<Counts>) -> Option<&mut Space> {
        let at = self.spaces.iter().position(|space| space.namespace == namespace);
        let at = at.or_else(|| {
            let routes = self.routes.as_ref() == Some(&namespace);
            match Space::open(namespace.clone(), routes, self.settings, counts) {
                Ok(mut space) => {
                    self.tables.iter().for_each(|tables| space.kernel.follow(tables));
                    space.kernel.set_no_paths(self.no_paths);
                    self.spaces.push(space);
                    Some(self.spaces.len() - 1)
                }
                Err(error) => {
                    log::error!("Linux is not followed in {}: {error}", shown(&namespace));
                    None
                }
            }
        });
        at.and_then(|at| self.spaces.get_mut(at))
    }

    /// The routes of another namespace are followed: those namespaces whose part changes are opened anew.
    fn follow_routes_of(&mut self, namespace: Option<Namespace>) {
        if self.routes == namespace {
            return;
        }
        self.routes = namespace;
        let changes = |space: &&Space| space.follows_routes() != (self.routes.as_ref() == Some(&space.namespace));
        let changed: Vec<Namespace> = self.spaces.iter().filter(changes).map(|space| space.namespace.clone()).collect();
        changed.iter().for_each(|namespace| self.open_anew(namespace));
    }

    fn read(&mut self, buffer: &mut [u8]) -> bool {
        let mut more = false;
        let mut broken: Vec<Namespace> = Vec::new();
        for space in &mut self.spaces {
            match space.read(buffer) {
                Ok(rest) => more |= rest,
                Err(error) => {
                    log::error!("netlink in {}: {error}", shown(&space.namespace));
                    broken.push(space.namespace.clone());
                }
            }
        }
        for namespace in broken {
            self.open_anew(&namespace);
        }
        more
    }

    /// A namespace is followed anew, from a new look on. If it is not there any more, its routes go.
    fn open_anew(&mut self, namespace: &Namespace) {
        let Some(at) = self.spaces.iter().position(|space| space.namespace == *namespace) else { return };
        let space = self.spaces.remove(at);
        self.left.forget(&space.kernel);
        let follows = self.routes.as_ref() == Some(namespace);
        match Space::open(namespace.clone(), follows, self.settings, space.counts.clone()) {
            Ok(mut anew) => {
                anew.links = space.links;
                anew.kernel = space.kernel.anew();
                anew.vrfs_changed = true;
                anew.look_at_all();
                // The look begins with the next reading.
                anew.retry = true;
                self.spaces.push(anew);
            }
            Err(error) => log::error!("Linux is not followed in {} any more: {error}", shown(namespace)),
        }
    }

    /// Passes on what was read, as far as control has room.
    fn pass_on(&mut self) {
        self.retry = false;
        for space in &mut self.spaces {
            if space.vrfs_changed && !self.retry {
                let vrfs = space.kernel.vrfs().clone();
                self.retry = self.events.try_send(Event::Vrfs { namespace: space.namespace.clone(), vrfs }).is_err();
                space.vrfs_changed = self.retry;
            }
            if !space.changed_links.is_empty() && !self.retry {
                let links: BTreeSet<u32> = std::mem::take(&mut space.changed_links);
                let (was_down, lost) = (space.seen_down.clone(), space.lost.clone());
                let event = Event::Links { namespace: space.namespace.clone(), links: links.clone(), was_down, lost };
                if self.events.try_send(event).is_err() {
                    space.changed_links.extend(links);
                    self.retry = true;
                } else {
                    space.seen_down.clear();
                    space.lost.clear();
                }
            }
            if !space.new_vlans.is_empty() && !self.retry {
                let vlans = space.new_vlans.iter().filter_map(|at| Some((*at, space.vlan_of(*at)?.clone()))).collect();
                let event = Event::Vlans { namespace: space.namespace.clone(), vlans };
                match self.events.try_send(event) {
                    Ok(()) => space.new_vlans.clear(),
                    Err(_) => self.retry = true,
                }
            }
            // What messages say since the look is newer.
            if let Some(permanent) = space.permanent.take_if(|_| !self.retry) {
                let interfaces = space.links.values().copied().collect();
                let event = Event::Permanent { interfaces, neighbours: permanent.clone() };
                if self.events.try_send(event).is_err() {
                    space.permanent = Some(permanent);
                    self.retry = true;
                }
            }
            while !space.neighbours.is_empty() && !self.retry {
                let some: Vec<_> = space.neighbours.iter().take(NEIGHBOURS).map(|(key, at)| (*key, *at)).collect();
                self.retry = self.events.try_send(Event::Neighbours(some.clone())).is_err();
                if !self.retry {
                    for (key, _) in &some {
                        space.neighbours.remove(key);
                    }
                }
            }
        }
        self.pass_routes();
    }

    fn pass_routes(&mut self) {
        let now = Instant::now();
        if self.underway.is_some() || self.retry {
            return;
        }
        if self.not_before.is_some_and(|at| at > now) {
            return;
        }
        self.not_before = None;
        let most = self.settings.batch;
        let (namespace, (batches, taken), since) = if self.left.backlog() > 0 {
            (None, self.left.take(&Links::new(), most), None)
        } else if let Some(space) = self.spaces.iter_mut().find(|space| space.kernel.backlog() > 0) {
            (Some(space.namespace.clone()), space.kernel.take(&space.links, most), space.waits_since.take())
        } else {
            return self.pass_audit();
        };
        if batches.is_empty() {
            return;
        }
        match self.events.try_send(Event::Routes(batches)) {
            Ok(()) => self.underway = Some(Underway { namespace, taken, since }),
            Err(_) => {
                self.kernel_of(namespace.as_ref()).give_back(taken);
                self.retry = true;
            }
        }
    }

    /// Nothing is left to be passed on: an audit may be due.
    fn pass_audit(&mut self) {
        let is_due = |space: &&mut Space| space.audit_due && space.is_settled() && space.follows_routes();
        if let Some(space) = self.spaces.iter_mut().find(is_due) {
            space.audit_due = self.events.try_send(Event::Audit).is_err();
            self.retry |= space.audit_due;
        }
    }

    /// The routes of a followed namespace; those that are followed no longer.
    fn kernel_of(&mut self, namespace: Option<&Namespace>) -> &mut Kernel {
        let is_its = |space: &&mut Space| Some(&space.namespace) == namespace && space.follows_routes();
        let space = self.spaces.iter_mut().find(is_its);
        space.map_or(&mut self.left, |space| &mut space.kernel)
    }

    fn done(&mut self, refused: Option<usize>) {
        let Some(Underway { namespace, taken, since }) = self.underway.take() else { return };
        let now = Instant::now();
        let many = taken.iter().map(|(.., prefixes)| prefixes.len()).sum::<usize>() >= MANY_ROUTES;
        // A batch that was cut goes on at once, and so does all where operators want that.
        let all_of_it = taken.iter().map(|(.., prefixes)| prefixes.len()).sum::<usize>() < self.settings.batch;
        let is_long = many && all_of_it && !self.settings.pause.is_zero();
        let pause = if is_long { self.settings.pause.max(LONG_PAUSE) } else { self.settings.pause };
        self.not_before = Some(now + if refused.is_some() { pause } else { PAUSE_AFTER_REFUSAL });
        let Some(refused) = refused else { return self.kernel_of(namespace.as_ref()).give_back(taken) };
        let Some(space) = self.spaces.iter_mut().find(|space| Some(&space.namespace) == namespace.as_ref()) else {
            return;
        };
        let counts = &space.counts;
        counts.batches.add(1);
        counts.routes.add(taken.iter().map(|(.., prefixes)| prefixes.len() as u64).sum());
        counts.refused.add(refused as u64);
        if let Some(since) = since {
            counts.set_lag(now - since);
        }
        counts.backlog.set(space.kernel.backlog() as u64);
        space.waits_since = (space.kernel.backlog() > 0).then(|| space.waits_since.unwrap_or(now));
    }
}

fn shown(namespace: &Namespace) -> String {
    namespace.as_ref().map_or_else(|| "the namespace of the router".into(), |name| format!("namespace {name}"))
}
