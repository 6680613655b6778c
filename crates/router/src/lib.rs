//! The router: its state and the operations on it, one folder a capability.
//!
//! A capability's folder holds its graph nodes (one file each), `control.rs` (its operations on [`Router`]) and
//! `cli.rs` (its commands). [`Router`] is owned by one control thread, which carries out all operations for clients.
//! Workers never wait for it: they read published tables and report to it by events.
#![forbid(unsafe_code)]

mod absent;
pub mod addresses;
pub mod af_packet;
pub mod af_xdp;
mod agenda;
pub mod arp;
pub mod by_family;
pub mod capability;
pub mod capture;
mod chunks;
pub mod config;
pub mod dhcp;
pub mod ethernet;
mod events;
mod farewell;
pub mod handoff;
mod headers;
pub mod icmp;
pub mod icmp6;
pub mod inspect;
pub mod interface;
pub mod ip;
pub mod ip4;
pub mod ip6;
pub mod listing;
pub mod local;
pub mod logging;
pub mod loopback;
pub mod memif;
pub mod midchain;
pub mod mld;
pub mod mpls;
pub mod nd;
pub mod neighbour;
mod neighbour_key;
mod notice;
pub mod null;
pub mod object;
pub mod pace;
pub mod packet_generator;
pub mod punt;
mod random;
mod rate;
pub mod reassembly;
pub(crate) mod reply;
pub mod router_advertisement;
pub mod span;
mod statement;
mod table_index;
pub mod tap;
pub mod vlan;

pub use events::QUEUE as EVENT_QUEUE;

use capability::start::{Forget, Shared, SharedCore, States};
use capability::{Starting, When};
use chunks::Chunks;
use command::{CommandSet, Files};
use events::Events;
use graph::{Graph, GraphError, Pool};
use inspect::StallWatch;
use interface::exit::Exits;
use interface::link_watch::LinkWatch;
use interface::{InterfaceCounters, Interfaces, SharedViews, ViewTable};
use ip::control::Ip;
use ip::count::CounterSlots;
use ip::fibs::SharedTables;
use ip::labels::table::{LabelTables, SharedLabels};
use ip::{Fibs4, Fibs6};
use logging::Logging;
use neighbour::known::Neighbours;
use neighbour::table::Table;
use notice::Notices;
use rcu::{Domain, Published};
use std::collections::HashSet;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tables::object::ObjectsFull;
use tables::{Fib4, Fib6, Objects};
use wire::{MacAddress, Prefix, Prefix4};

/// Retired objects that are freed before other clients are answered again.
const COLLECTED: usize = 16_384;
/// How often retired objects are checked while there are any.
const RECLAIM_INTERVAL: Duration = Duration::from_millis(20);

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::OutOfMemory => Error::NoMemory,
            _ => Error::System(error),
        }
    }
}

/// Refuses work that takes memory step by step when memory is exhausted.
fn check_memory() -> Result<(), Error> {
    heap::has_room().then_some(()).ok_or(Error::NoMemory)
}

/// Why an operation was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}: there is none")]
    NoSuchObject(object::ObjectId),
    #[error("{0}: routes lead to it, remove these first ('show ip fib')")]
    ObjectInUse(object::ObjectId),
    #[error(transparent)]
    Encapsulation(#[from] midchain::EncapsulationError),
    #[error("no memory: the process may not have more ('ulimit -v', LimitAS=); delete something, or raise that limit")]
    NoMemory,
    #[error("no interface named '{0}' (show interface lists them)")]
    NoSuchInterface(String),
    #[error("an interface named '{0}' exists already")]
    NameTaken(String),
    #[error("'{0}' is no interface name: a letter, then up to {max} in all of letters, digits, - _ . / :",
        max = interface::names::MAX_NAME)]
    BadName(String),
    #[error("'{0}' is no tag: up to {max} letters, digits, - _ . / : @ +", max = interface::names::MAX_TAG)]
    BadTag(String),
    #[error("'{0}' is no interface name: commands take it for something else")]
    ReservedName(String),
    #[error("too many interfaces")]
    TooManyInterfaces,
    #[error("mtu {0}: must be {min} to {max}", min = interface::control::MIN_MTU, max = interface::control::MAX_MTU)]
    BadMtu(u16),
    #[error("mtu {0}: IPv6 packets may have {min} bytes on every link (RFC 8200 5), set at least that",
        min = wire::ipv6::MIN_MTU)]
    BadIp6Mtu(u16),
    #[error("mtu {mtu}: the device of {name} does not carry packets as long as that: {source}")]
    LinkMtuRefused { mtu: u16, name: String, source: io::Error },
    #[error("{name} has the address {mac} already")]
    MacThere { mac: MacAddress, name: String },
    #[error("a limit of {limit} neighbours: {stated} static ones are there ('ip neighbor ... del' removes one)")]
    MoreNeighboursStated { stated: usize, limit: usize },
    #[error("{0} is an address of this router: packets for the host go to a next hop of its own")]
    PuntToOurselves(IpAddr),
    #[error("{address} is where '{word} punt redirect' sends packets for the host: it is the host's")]
    PuntedTo { address: IpAddr, word: &'static str },
    #[error("no worker {worker}: there are {workers}, counted from 0 ('show threads')")]
    NoSuchWorker { worker: usize, workers: usize },
    #[error("worker {0} is stuck ('show threads'): queues stay where they are until it goes on")]
    WorkerStuck(usize),
    #[error("{0} has no receive queue")]
    NothingReceived(String),
    #[error("{name} has no receive queue {number}: there are {queues}, counted from 0 ('show interface rx-placement')")]
    NoSuchQueue { name: String, number: u16, queues: usize },
    #[error("{0} cannot tell when something arrives: it can only be polled")]
    NoInterrupts(String),
    #[error("{mac} is an extra address of {name}: 'set interface secondary-mac-address {name} {mac} del' first")]
    MacIsSecondary { mac: MacAddress, name: String },
    #[error("{name} does not have the extra address {mac}")]
    NoSuchMac { mac: MacAddress, name: String },
    #[error("{name} has no device of its own but {parent}'s: set it for {parent}")]
    NoDevice { name: String, parent: String },
    #[error("too many extra addresses of {0} (at most {max})", max = interface::MAX_SECONDARY_MACS)]
    TooManyMacs(String),
    #[error("{0} is a loopback interface: it has no neighbours")]
    NoNeighbours(String),
    #[error("{0} is a sub-interface itself")]
    SubInterfaceOfOne(String),
    #[error("{wanted}: {name} takes those frames already ({takes})")]
    FramesTaken { wanted: interface::sub::VlanMatch, takes: interface::sub::VlanMatch, name: String },
    #[error(
        "{name} takes frames whose tags are not known beforehand ({takes}): only one that is made with exact-match \
         and VLAN numbers, or untagged, can have an address"
    )]
    NoStation { name: String, takes: interface::sub::VlanMatch },
    #[error("{name} is named after {parent}: that can have another name")]
    NamedAfterParent { name: String, parent: String },
    #[error("{name} has no link of its own but {parent}'s ('set interface mtu packet' limits its packets)")]
    NoLink { name: String, parent: String },
    #[error("{0} is no sub-interface ('delete interface {0}' removes it)")]
    NoSubInterface(String),
    #[error("host interface {host} is {name} already")]
    HostInterfaceTaken { host: String, name: String },
    #[error("{0} is no station's address (it is zero or a group's)")]
    BadInterfaceMac(MacAddress),
    #[error("{0} is no neighbour's address (it is zero or a group's)")]
    BadNeighbourMac(MacAddress),
    #[error("{0} is no neighbour's address (it is no host's)")]
    BadNeighbourAddress(IpAddr),
    #[error("{0} is no address for an interface (RFC 1812 5.3.7: not a host's, or the first or last of its network)")]
    BadAddress(Prefix),
    #[error("{wanted} overlaps with {taken} on {name}")]
    AddressTaken { wanted: Prefix, taken: Prefix, name: String },
    #[error("{name} has the address {prefix} already")]
    AddressThere { prefix: Prefix, name: String },
    #[error("{name} does not have the address {prefix}")]
    NoSuchAddress { prefix: Prefix, name: String },
    #[error(transparent)]
    Ip6(#[from] ip6::Ip6Error),
    #[error(transparent)]
    Proxy(#[from] nd::proxy::ProxyError),
    #[error("too many addresses on one interface (at most {max})", max = addresses::MAX_ADDRESSES)]
    TooManyAddresses,
    #[error("{prefix} on {name} is leased by DHCP ('set dhcp client del intfc {name}' gives it back)")]
    Leased { prefix: Prefix4, name: String },
    #[error("{0} gets its address by DHCP: 'set dhcp client del intfc {0}' first")]
    DhcpClientThere(String),
    #[error("no route {0}")]
    NoSuchRoute(Prefix),
    #[error("route {0} has no such path")]
    NoSuchPath(Prefix),
    #[error("too many paths (at most {max})", max = ip::control::MAX_PATHS)]
    TooManyPaths,
    #[error("too many different lists of paths")]
    TooManyPathLists,
    #[error("the next hops of {0} are reached by the route to {0} itself: it would lead nowhere")]
    RouteLoop(Prefix),
    #[error(transparent)]
    Unnumbered(#[from] interface::unnumbered::UnnumberedError),
    #[error(transparent)]
    NextHop(#[from] ip::next_hop::NextHopError),
    #[error("no neighbour {0}")]
    NoSuchNeighbour(IpAddr),
    #[error("packets of {0} would be punted to where they came from")]
    PuntToItself(String),
    #[error("no such punt redirect (show {word} punt redirect lists them)")]
    NoSuchPunt { word: &'static str },
    #[error("UDP port {port} is listened to already: {description}")]
    PortTaken { port: u16, description: String },
    #[error("too many UDP ports are listened to (at most {max})", max = local::control::MAX_PORTS)]
    TooManyPorts,
    #[error("too many neighbours (at most {0}; set ip neighbor-config)")]
    TooManyNeighbours(u32),
    #[error("too many neighbours on one interface (at most {0}; set ip neighbor-config)")]
    TooManyNeighboursHere(u32),
    #[error("{0} to {1} is no range of addresses: it ends before it starts")]
    EmptyRange(Ipv4Addr, Ipv4Addr),
    #[error("{0} to {1} is there already")]
    RangeThere(Ipv4Addr, Ipv4Addr),
    #[error("no such range: {0} to {1} (show arp proxy lists them)")]
    NoSuchRange(Ipv4Addr, Ipv4Addr),
    #[error("too many ranges (at most {max})", max = neighbour::policy::MAX_RANGES)]
    TooManyRanges,
    #[error(transparent)]
    Filter(#[from] wire::filter::FilterError),
    #[error(transparent)]
    Ping(#[from] icmp::ping::PingError),
    #[error("{name}: {source}")]
    Device { name: String, source: io::Error },
    #[error(transparent)]
    TableFull(#[from] ip::TableFull),
    #[error(transparent)]
    Table(#[from] ip::TableError),
    #[error(transparent)]
    Mpls(#[from] mpls::MplsError),
    #[error("{} routes are counted, which is the most ('show ip route counters' lists them)", ip::count::MAX_COUNTED)]
    TooManyCounted,
    #[error(transparent)]
    Objects(#[from] ObjectsFull),
    #[error(transparent)]
    Graph(#[from] GraphError),
    #[error(transparent)]
    Open(#[from] drivers::OpenError),
    #[error(transparent)]
    System(io::Error),
    #[error("{0}")]
    Capability(Box<dyn Coded>),
}

/// Why a capability refused an operation. Its text is for people; programs compare its code.
pub trait Coded: std::error::Error + Send + Sync + 'static {
    /// Names the reason. It begins with the capability's name, and never changes.
    fn code(&self) -> &'static str;
}

impl<E: Coded> From<E> for Error {
    fn from(error: E) -> Error {
        Error::Capability(Box::new(error))
    }
}

/// All capabilities of this crate.
// A constant: a static item would have all of them compiled into each test program that uses none.
pub const CAPABILITIES: capability::List = &[
    &capability::INTERFACE,
    &null::CAPABILITY,
    &loopback::CAPABILITY,
    &tap::CAPABILITY,
    &af_packet::CAPABILITY,
    &af_xdp::CAPABILITY,
    &vlan::CAPABILITY,
    &memif::CAPABILITY,
    &span::CAPABILITY,
    &handoff::CAPABILITY,
    &ethernet::CAPABILITY,
    &capability::IP,
    &ip4::CAPABILITY,
    &ip6::CAPABILITY,
    &mpls::CAPABILITY,
    &midchain::CAPABILITY,
    &object::CAPABILITY,
    &punt::CAPABILITY,
    &capability::NEIGHBOUR,
    &arp::CAPABILITY,
    &nd::CAPABILITY,
    &router_advertisement::CAPABILITY,
    &mld::CAPABILITY,
    &icmp::CAPABILITY,
    &icmp6::CAPABILITY,
    &reassembly::CAPABILITY,
    &local::CAPABILITY,
    &dhcp::CAPABILITY,
    &packet_generator::CAPABILITY,
    &config::CAPABILITY,
    &capture::CAPABILITY,
    &inspect::CAPABILITY,
    &logging::CAPABILITY,
    &absent::CAPABILITY,
];

/// No two capabilities have a packet flag in common.
const _: () = {
    let (mut at, mut taken) = (0, 0);
    while at < CAPABILITIES.len() {
        assert!(taken & CAPABILITIES[at].flags == 0);
        taken |= CAPABILITIES[at].flags;
        at += 1;
    }
};

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
    /// The log of this router; the program that runs the router feeds it.
    pub log: Arc<Logging>,
    pub(crate) view: SharedViews,
    /// From where packets leave by interfaces.
    exits: Exits,
    pub(crate) clears: inspect::Clears,
    devices: Devices,
    /// See [`Options::commit`].
    pub(crate) commit: &'static str,
    /// What removed devices may still hold until they are closed: host interfaces, numbers on memif sockets.
    pub(crate) closing: HashSet<String>,
    /// The number of interfaces ever created.
    pub(crate) generation: u64,
    pub config: config::control::Configuration,
    /// How a listing that is being written gets its next page.
    pub listings: listing::Listings,
    /// When a long command pauses to answer other clients.
    pub pace: pace::Pace,
    /// The part of the file system that commands may reach.
    pub files: Files,
    pub(crate) links: LinkWatch,
    stalls: StallWatch,
    pub(crate) trace_filter: Option<inspect::TraceFilter>,
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
#[derive(Debug, Clone, Copy)]
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
            commit: "",
        }
    }
}

impl Router {
    /// A router with the capabilities of this crate and without interfaces. The caller takes its workers from
    /// [`Graph::worker`] and runs them.
    ///
    /// # Errors
    /// When the system refuses memory.
    pub fn new(options: Options) -> Result<Router, Error> {
        Router::with(options, CAPABILITIES)
    }

    /// The same with other capabilities, among which are those of this crate. Its commands are [`commands_of`] the same
    /// list.
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
            (capability.start)(&mut Starting { graph, core, events, states, shared, published, exits, rewrites })?;
        }
        let SharedCore { view, counters, .. } = core;
        graph.register_drop()?;
        for spec in capabilities.iter().flat_map(|capability| capability.features) {
            graph.register_feature(spec.feature)?;
        }

        let mut ip = Ip::new((fib4, tables4), (fib6, tables6), LabelTables::new(labels), objects, places);
        ip.rewrite_edges = rewrites;
        Ok(Router {
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
            log: Arc::default(),
            view,
            exits,
            clears: inspect::Clears::default(),
            devices: options.devices,
            commit: options.commit,
            config: config::control::Configuration::default(),
            listings: listing::Listings::default(),
            pace: pace::Pace::default(),
            files: Files::anywhere(),
            links: LinkWatch::default(),
            stalls: StallWatch::default(),
            trace_filter: None,
            events,
            started: Instant::now(),
            _last: LastCollection(domain),
        })
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

/// The commands of all capabilities of this crate.
pub fn commands() -> CommandSet<Router> {
    commands_of(CAPABILITIES)
}

/// The commands of capabilities.
pub fn commands_of(capabilities: capability::List) -> CommandSet<Router> {
    let mut set = CommandSet::new();
    set.guard_paths(config::may_reach);
    capabilities.iter().for_each(|capability| (capability.commands)(&mut set));
    set
}
