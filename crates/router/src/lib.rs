//! The core of the router: what all capabilities share. Interfaces with their addresses, routes, neighbours, notices,
//! and what a capability can say of itself ([`capability`]). All else is a capability in a crate above this one.
//!
//! [`Router`] is owned by one control thread, which carries out all operations for clients. Workers never wait for it:
//! they read published tables and report to it by events.
#![forbid(unsafe_code)]

pub mod addresses;
pub mod agenda;
pub mod by_family;
pub mod capability;
mod chunks;
pub mod code;
mod error;
pub mod events;
mod farewell;
pub mod headers;
pub mod interface;
pub mod ip;
pub mod listing;
pub mod neighbour;
mod neighbour_key;
mod notice;
pub mod pace;
pub mod random;
pub mod rate;
pub mod reach;
pub mod reply;
mod route_source;
mod statement;
pub mod table_index;
mod unsaid;

pub use error::Error;
pub use events::QUEUE as EVENT_QUEUE;

use capability::start::{Forget, Shared, SharedCore, States};
use capability::{Starting, When};
use chunks::Chunks;
use command::{CommandSet, Files};
use events::Events;
use graph::{Graph, Pool};
use interface::exit::Exits;
use interface::link_watch::LinkWatch;
use interface::{InterfaceCounters, Interfaces, SharedViews, ViewTable};
use ip::control::Ip;
use ip::count::CounterSlots;
use ip::fibs::SharedTables;
use ip::labels::table::{LabelTables, SharedLabels};
use ip::{Fibs4, Fibs6};
use neighbour::known::Neighbours;
use neighbour::table::Table;
use notice::Notices;
use rcu::{Domain, Published};
use std::collections::HashSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tables::{Fib4, Fib6, Objects};

/// Retired objects that are freed before other clients are answered again.
const COLLECTED: usize = 16_384;
/// How often retired objects are checked while there are any.
const RECLAIM_INTERVAL: Duration = Duration::from_millis(20);

/// Refuses work that takes memory step by step when memory is exhausted.
pub fn check_memory() -> Result<(), Error> {
    heap::has_room().then_some(()).ok_or(Error::NoMemory)
}

/// The router's state, owned by the control thread.
pub struct Router {
    capabilities: capability::List,
    /// What capabilities own.
    states: States,
    /// What they published of single interfaces.
    published: Vec<Forget>,
    notices: Notices,
    pub graph: Graph,
    pub interfaces: Interfaces,
    pub ip: Ip,
    pub neighbours: Neighbours,
    pub counters: InterfaceCounters,
    pub(crate) view: SharedViews,
    /// From where packets leave by interfaces.
    exits: Exits,
    devices: Devices,
    /// See [`Options::commit`].
    pub commit: &'static str,
    /// What removed devices may still hold until they are closed: host interfaces, numbers on memif sockets.
    pub(crate) closing: HashSet<String>,
    /// The number of interfaces ever created.
    pub(crate) generation: u64,
    /// The file of the saved configuration, which the program looks at when it starts.
    pub startup: Option<PathBuf>,
    /// How a listing that is being written gets its next page.
    pub listings: listing::Listings,
    /// When a long command pauses to answer other clients.
    pub pace: pace::Pace,
    /// What `startup.conf` says in sections of capabilities.
    pub sections: Arc<startup::Sections>,
    /// The part of the file system that commands may reach.
    pub files: Files,
    pub(crate) links: LinkWatch,
    events: Events,
    /// When the process became a router.
    pub started: Instant,
    /// Last, so that it is dropped after all other fields.
    _last: LastCollection,
}

/// Frees the last retired objects when a router ends: some of them hold the domain in which they are pending.
struct LastCollection(Arc<Domain>);

impl Drop for LastCollection {
    fn drop(&mut self) {
        self.0.collect_all();
    }
}

/// The options of a new router.
#[derive(Debug, Clone)]
pub struct Options {
    /// Packet buffers, see [`Pool::new`].
    pub buffers: u32,
    pub huge_pages: bool,
    /// Data threads.
    pub workers: usize,
    /// Makes this router's flow hashes differ from those of other routers.
    pub hash_seed: u32,
    pub devices: Devices,
    /// Most events of each capability that wait for the control thread.
    pub events: usize,
    /// What `startup.conf` says in sections of capabilities.
    pub sections: Arc<startup::Sections>,
    /// The commit that the program is built from, for `show version`; empty: not known.
    pub commit: &'static str,
}

/// Whether commands that create interfaces open devices.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Devices {
    #[default]
    Real,
    /// Devices are only recorded, not opened: for a router that is a plan.
    DryRun,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            buffers: 16384,
            huge_pages: true,
            workers: 1,
            hash_seed: 0,
            devices: Devices::Real,
            events: EVENT_QUEUE,
            sections: Arc::default(),
            commit: "",
        }
    }
}

impl Router {
    /// A router with capabilities, among which are those of this crate, and without interfaces. Its commands are
    /// [`commands_of`] the same list. The caller takes its workers from [`Graph::worker`] and runs them.
    ///
    /// # Errors
    /// When the system refuses memory, or two capabilities want the same packet flags, arcs, nodes or features.
    pub fn with(options: Options, capabilities: capability::List) -> Result<Router, Error> {
        // Measured now, because it takes a while: no worker should wait for it.
        graph::time::ticks_per_second();
        let domain = Domain::new(options.workers);
        let pool = Pool::new(options.buffers, options.huge_pages)?;
        let mut graph = Graph::new(&domain, &pool, options.workers)?;
        for capability in capabilities {
            graph.claim_flags(capability.name, capability.flags)?;
            for (arc, end) in capability.arcs {
                graph.register_arc(arc, end)?;
            }
        }
        let counters = InterfaceCounters::new(&mut graph)?;
        let view: SharedViews = Arc::new(Published::new(&domain, ViewTable::default()));
        let mut events = Events::new(options.events);
        let (fib4, fib6, objects) = (Fib4::new(&domain)?, Fib6::new(&domain)?, Objects::new(&domain)?);
        let tables4: SharedTables<_> = Arc::new(Published::new(&domain, Chunks::default()));
        let tables6: SharedTables<_> = Arc::new(Published::new(&domain, Chunks::default()));
        let places = CounterSlots::new(&mut graph)?;
        let labels: SharedLabels = Arc::new(Published::new(&domain, Vec::new()));
        let (mut states, mut shared, mut published): (_, Shared, _) = Default::default();
        let (mut exits, mut rewrites) = Default::default();
        let table = Table::new(&domain);
        let core = SharedCore {
            fibs: Fibs4::new(tables4.clone(), view.clone(), places.clone()),
            fibs6: Fibs6::new(tables6.clone(), view.clone(), places.clone()),
            view,
            counters,
            objects: objects.handle(),
            labels: labels.clone(),
            places: places.clone(),
            neighbours: table.shared(),
            hash_seed: options.hash_seed,
        };
        for capability in capabilities {
            let (graph, core, events, states) = (&mut graph, &core, &mut events, &mut states);
            let (shared, published, exits, rewrites) = (&mut shared, &mut published, &mut exits, &mut rewrites);
            let sections = &*options.sections;
            let mut starting =
                Starting { graph, core, capabilities, sections, events, states, shared, published, exits, rewrites };
            (capability.start)(&mut starting)?;
        }
        let SharedCore { view, counters, .. } = core;
        graph.register_drop()?;
        for spec in capabilities.iter().flat_map(|capability| capability.features) {
            graph.register_feature(spec.feature)?;
        }

        let mut ip = Ip::new((fib4, tables4), (fib6, tables6), LabelTables::new(labels), objects, places);
        ip.rewrite_edges = rewrites;
        let mut router = Router {
            capabilities,
            states,
            published,
            notices: Notices::default(),
            graph,
            closing: HashSet::new(),
            generation: 0,
            interfaces: Interfaces::default(),
            ip,
            neighbours: Neighbours::new(table, shared.of(&domain)),
            counters,
            view,
            exits,
            devices: options.devices,
            commit: options.commit,
            sections: options.sections,
            startup: None,
            listings: listing::Listings::default(),
            pace: pace::Pace::default(),
            files: Files::anywhere(),
            links: LinkWatch::default(),
            events,
            started: Instant::now(),
            _last: LastCollection(domain),
        };
        router.settle_wants();
        Ok(router)
    }

    /// Whether commands that create interfaces open devices.
    pub fn devices(&self) -> Devices {
        self.devices
    }

    /// What it can do.
    pub fn capabilities(&self) -> capability::List {
        self.capabilities
    }

    /// Does what is due, and returns when to call it again.
    pub fn tick(&mut self) -> Option<Instant> {
        self.tick_at(Instant::now())
    }

    /// [`Router::tick`] at a given time, so that tests need not sleep.
    pub fn tick_at(&mut self, now: Instant) -> Option<Instant> {
        let capabilities = self.capabilities;
        let ticks = || capabilities.iter().flat_map(|capability| capability.ticks);
        for when in [When::BeforeLinks, When::Usual] {
            ticks().filter(|tick| tick.when == when).for_each(|tick| (tick.work)(self, now));
        }
        while self.graph.domain().collect_some(COLLECTED) == COLLECTED {
            self.breathe();
        }
        let pending = self.graph.domain().pending();
        if self.ip.fit_memory(now) {
            self.neighbours.trim();
            tables::trim_heap();
        }
        let reclaim = (pending > 0).then(|| now + RECLAIM_INTERVAL);
        let due = ticks().map(|tick| (tick.next)(self)).chain([self.ip.next_due(), reclaim]);
        due.flatten().min()
    }
}

/// The values that a command's argument of this type may have, for completion.
pub fn values(router: &Router, kind: &str) -> Vec<String> {
    let known = router.capabilities.iter().flat_map(|capability| capability.values).find(|(known, _)| *known == kind);
    known.map_or_else(Vec::new, |(_, values)| values(router))
}

/// The commands of capabilities.
pub fn commands_of(capabilities: capability::List) -> CommandSet<Router> {
    let mut set = CommandSet::new();
    set.guard_paths(reach::may_reach);
    set.when_configured(|router, args| args.texts().into_iter().for_each(|text| router.is_stated_with(text)));
    capabilities.iter().for_each(|capability| (capability.commands)(&mut set));
    set
}
