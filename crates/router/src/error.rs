//! Why the core refuses an operation, and a capability by it.

use crate::code::Coded;
use graph::GraphError;
use std::io;
use std::net::IpAddr;
use tables::object::ObjectsFull;
use wire::{MacAddress, Prefix};
/// Why an operation was refused.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no memory: the process may not have more ('ulimit -v', LimitAS=); delete something, or raise that limit")]
    NoMemory,
    #[error("no interface named '{0}' (show interface lists them)")]
    NoSuchInterface(String),
    #[error("an interface named '{0}' exists already")]
    NameTaken(String),
    #[error("'{0}' is no interface name: commands take it for something else")]
    ReservedName(String),
    #[error("too many interfaces")]
    TooManyInterfaces,
    #[error("mtu {0}: IPv6 packets may have {min} bytes on every link (RFC 8200 5), set at least that",
        min = wire::ipv6::MIN_MTU)]
    BadIp6Mtu(u16),
    #[error("mtu {mtu}: the device of {name} does not carry packets as long as that: {source}")]
    LinkMtuRefused { mtu: u16, name: String, source: io::Error },
    #[error("{name} has the address {mac} already")]
    MacThere { mac: MacAddress, name: String },
    #[error("a limit of {limit} neighbours: {stated} static ones are there ('ip neighbor ... del' removes one)")]
    MoreNeighboursStated { stated: usize, limit: usize },
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
    #[error("{0} is a loopback interface: it has no neighbours")]
    NoNeighbours(String),
    #[error("{0} is a sub-interface itself")]
    SubInterfaceOfOne(String),
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
    #[error("no route {0}")]
    NoSuchRoute(Prefix),
    #[error("route {0} has no such path")]
    NoSuchPath(Prefix),
    #[error("too many different lists of paths")]
    TooManyPathLists,
    #[error("the next hops of {0} are reached by the route to {0} itself: it would lead nowhere")]
    RouteLoop(Prefix),
    #[error("no neighbour {0}")]
    NoSuchNeighbour(IpAddr),
    #[error("too many neighbours (at most {0}; set ip neighbor-config)")]
    TooManyNeighbours(u32),
    #[error("too many neighbours on one interface (at most {0}; set ip neighbor-config)")]
    TooManyNeighboursHere(u32),
    #[error(transparent)]
    Filter(#[from] wire::filter::FilterError),
    #[error("{name}: {source}")]
    Device { name: String, source: io::Error },
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

crate::codes! { Error, or its own of Capability {
    NoMemory => "no-memory",
    NoSuchInterface => "no-such-interface",
    NameTaken => "name-taken",
    ReservedName => "reserved-name",
    TooManyInterfaces => "too-many-interfaces",
    BadIp6Mtu => "bad-ip6-mtu",
    LinkMtuRefused => "link-mtu-refused",
    MacThere => "mac-there",
    MoreNeighboursStated => "more-neighbours-stated",
    NoSuchWorker => "no-such-worker",
    WorkerStuck => "worker-stuck",
    NothingReceived => "nothing-received",
    NoSuchQueue => "no-such-queue",
    NoInterrupts => "no-interrupts",
    MacIsSecondary => "mac-is-secondary",
    NoSuchMac => "no-such-mac",
    NoDevice => "no-device",
    NoNeighbours => "no-neighbours",
    SubInterfaceOfOne => "sub-interface-of-one",
    NamedAfterParent => "named-after-parent",
    NoLink => "no-link",
    NoSubInterface => "no-sub-interface",
    HostInterfaceTaken => "host-interface-taken",
    BadInterfaceMac => "bad-interface-mac",
    BadNeighbourMac => "bad-neighbour-mac",
    BadNeighbourAddress => "bad-neighbour-address",
    BadAddress => "bad-address",
    AddressTaken => "address-taken",
    AddressThere => "address-there",
    NoSuchAddress => "no-such-address",
    NoSuchRoute => "no-such-route",
    NoSuchPath => "no-such-path",
    TooManyPathLists => "too-many-path-lists",
    RouteLoop => "route-loop",
    NoSuchNeighbour => "no-such-neighbour",
    TooManyNeighbours => "too-many-neighbours",
    TooManyNeighboursHere => "too-many-neighbours-here",
    Filter => "bad-filter",
    Device => "device-failed",
    Objects => "objects-full",
    Graph => "graph-refused",
    Open => "device-not-opened",
    System => "system-refused",
} }

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        match error.kind() {
            io::ErrorKind::OutOfMemory => Error::NoMemory,
            _ => Error::System(error),
        }
    }
}

impl<E: Coded> From<E> for Error {
    fn from(error: E) -> Error {
        Error::Capability(Box::new(error))
    }
}
