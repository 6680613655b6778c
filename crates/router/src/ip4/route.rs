//! What a route says: who wants it, and by which paths.

use graph::InterfaceIndex;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use tables::Leaf;

/// Most paths of a route.
pub const MAX_PATHS: usize = 64;

/// Who wants a route; the first one of which a path works wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// An address of an interface.
    Interface,
    /// An operator.
    Config,
    /// A program, or a file of routes.
    Api,
    /// A lease names a router.
    Dhcp,
    /// A next hop that another route insists is on the link.
    OnLink,
    /// A resolved neighbour.
    Neighbour,
}

impl Source {
    pub const ALL: [Source; 6] =
        [Source::Interface, Source::Config, Source::Api, Source::Dhcp, Source::OnLink, Source::Neighbour];

    /// As VPP names it.
    pub fn name(self) -> &'static str {
        match self {
            Source::Interface => "interface",
            Source::Config => "CLI",
            Source::Api => "API",
            Source::Dhcp => "DHCP",
            Source::OnLink => "on-link",
            Source::Neighbour => "adjacency",
        }
    }
}

/// One way on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Way {
    /// Through a next hop. Without an interface it follows from attached networks, and where none
    /// has it, from the route to it.
    Via {
        next_hop: Ipv4Addr,
        interface: Option<InterfaceIndex>,
    },
    /// Through a neighbour that is on the wire of an interface, whatever networks that has:
    /// on point-to-point and unnumbered links.
    OnLink {
        next_hop: Ipv4Addr,
        interface: InterfaceIndex,
    },
    /// Onto an attached network.
    Attached(InterfaceIndex),
    /// To everybody on an attached network, when its interface sends such packets on.
    Broadcast(InterfaceIndex),
    /// To this router.
    Local(InterfaceIndex),
    /// To this router, whatever becomes of its interfaces.
    LocalAnywhere,
    Drop,
    Punt,
    /// Refused with ICMP host unreachable.
    Unreachable,
    /// Refused with ICMP communication administratively prohibited (RFC 1812 5.2.7.1).
    Prohibit,
}

impl Way {
    /// The interface that it names.
    pub fn interface(&self) -> Option<InterfaceIndex> {
        match *self {
            Way::Via { interface, .. } => interface,
            Way::OnLink { interface, .. }
            | Way::Attached(interface)
            | Way::Broadcast(interface)
            | Way::Local(interface) => Some(interface),
            Way::LocalAnywhere | Way::Drop | Way::Punt | Way::Unreachable | Way::Prohibit => None,
        }
    }
}

/// A way with its share of the traffic.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Path {
    pub way: Way,
    /// 1 to 255.
    pub weight: u8,
    /// Of the paths that work only those with the lowest number are used; the others stand by.
    pub preference: u8,
}

impl Path {
    pub fn new(way: Way) -> Path {
        Path { way, weight: 1, preference: 0 }
    }

    pub fn weighing(way: Way, weight: u8) -> Path {
        Path { weight, ..Path::new(way) }
    }
}

/// A prefix of the table, as it is at present.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// By source, the best first.
    pub sources: BTreeMap<Source, Vec<Path>>,
    /// What is in the lookup table, when at least one path of a source works.
    pub installed: Option<Leaf>,
}
