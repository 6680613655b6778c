//! What a route consists of: its sources and their paths.

pub use crate::route_source::Source;

use super::objects::ObjectId;
use crate::ip::labels::out::OutLabels;
pub use crate::table_index::TableIndex;
use graph::InterfaceIndex;
use std::collections::BTreeMap;
use std::net::IpAddr;
use tables::Leaf;
use wire::{Family, Prefix};

/// The most paths of a route.
pub const MAX_PATHS: usize = 64;

/// A table of MPLS labels, by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LabelTableIndex(pub u16);

impl LabelTableIndex {
    /// The table for labels of received packets.
    pub const DEFAULT: LabelTableIndex = LabelTableIndex(0);
}

/// A next hop in a table.
pub(crate) type Hop = (IpAddr, TableIndex);

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PathAction {
    /// Through a next hop. Without an interface, attached networks determine the interface, and if none contains the
    /// next hop, the route to it does.
    Via {
        next_hop: IpAddr,
        interface: Option<InterfaceIndex>,
    },
    /// Through a next hop that is looked up in another table.
    ViaIn {
        next_hop: IpAddr,
        table: TableIndex,
    },
    /// To where another table leads.
    Lookup(TableIndex),
    /// For labels: the packet inside goes to where a table of a family leads.
    LookupIn(Family, TableIndex),
    /// For labels above others: the next label goes to where a label table leads.
    LookupLabel(LabelTableIndex),
    /// Through a neighbour on the link of an interface, whatever networks the interface has: for point-to-point and
    /// unnumbered links.
    OnLink {
        next_hop: IpAddr,
        interface: InterfaceIndex,
    },
    /// Onto an attached network.
    Attached(InterfaceIndex),
    /// To all hosts on an attached network, if its interface forwards directed broadcasts.
    Broadcast(InterfaceIndex),
    /// To this router.
    Local(InterfaceIndex),
    /// To this router, whatever the state of its interfaces.
    LocalAnywhere,
    Drop,
    Punt,
    /// To the node of an object of another capability.
    Object(ObjectId),
    /// Refused with ICMP host unreachable, or with ICMPv6 address unreachable.
    Unreachable,
    /// Refused with ICMP communication administratively prohibited (RFC 1812 5.2.7.1).
    Prohibit,
}

impl PathAction {
    /// The interface that the path names.
    pub fn interface(&self) -> Option<InterfaceIndex> {
        match *self {
            PathAction::Via { interface, .. } => interface,
            PathAction::OnLink { interface, .. }
            | PathAction::Attached(interface)
            | PathAction::Broadcast(interface)
            | PathAction::Local(interface) => Some(interface),
            PathAction::ViaIn { .. }
            | PathAction::Lookup(_)
            | PathAction::LookupIn(..)
            | PathAction::LookupLabel(_)
            | PathAction::LocalAnywhere
            | PathAction::Drop
            | PathAction::Punt
            | PathAction::Object(_)
            | PathAction::Unreachable
            | PathAction::Prohibit => None,
        }
    }

    /// The next hop that the path names.
    pub fn next_hop(&self) -> Option<IpAddr> {
        match *self {
            PathAction::Via { next_hop, .. }
            | PathAction::ViaIn { next_hop, .. }
            | PathAction::OnLink { next_hop, .. } => Some(next_hop),
            _ => None,
        }
    }

    /// The next hop, with the table in which it is looked up, for a route in table `own`.
    pub(crate) fn hop(&self, own: TableIndex) -> Option<Hop> {
        match *self {
            PathAction::Via { next_hop, .. } => Some((next_hop, own)),
            PathAction::ViaIn { next_hop, table } => Some((next_hop, table)),
            _ => None,
        }
    }

    /// The same, but only when the path does not fix the interface.
    pub fn open_hop(&self, own: TableIndex) -> Option<Hop> {
        if matches!(self, PathAction::Via { interface: Some(_), .. }) { None } else { self.hop(own) }
    }

    /// The other table that the path names.
    pub fn table(&self) -> Option<TableIndex> {
        match *self {
            PathAction::ViaIn { table, .. } | PathAction::Lookup(table) | PathAction::LookupIn(_, table) => Some(table),
            _ => None,
        }
    }

    /// That table with its family, for a route in table `own` for packets of `family`.
    pub(crate) fn table_of(&self, family: Option<Family>, own: TableIndex) -> Option<(Family, TableIndex)> {
        let family = match *self {
            PathAction::LookupIn(family, _) => Some(family),
            // Without a next hop the packets themselves are looked up there.
            _ => self.hop(own).map_or(family, |(hop, _)| Some(Family::of(hop))),
        };
        family.zip(self.table())
    }
}

/// A path with its share of the traffic.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Path {
    pub way: PathAction,
    /// 1 to 255.
    pub weight: u8,
    /// Of the paths that work only those with the lowest number are used; the others are backup paths.
    pub preference: u8,
    /// The labels that are pushed onto its packets.
    pub labels: OutLabels,
}

impl Path {
    pub fn new(way: PathAction) -> Path {
        Path { way, weight: 1, preference: 0, labels: None }
    }

    pub fn weighing(way: PathAction, weight: u8) -> Path {
        Path { weight, ..Path::new(way) }
    }

    /// Whether another path is the same: paths with different labels differ.
    pub(crate) fn is_same(&self, other: &Path) -> bool {
        self.way == other.way && self.labels == other.labels
    }

    /// Whether this path, as an operator gives it, names `path`: without labels it matches any labels.
    pub fn means(&self, path: &Path) -> bool {
        self.way == path.way && (self.labels.is_none() || self.labels == path.labels)
    }
}

/// The route of a prefix in its present state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// The paths of each source, the best source first.
    pub sources: BTreeMap<Source, Vec<Path>>,
    /// The leaf in the lookup table, when at least one path of a source works.
    pub installed: Option<Leaf>,
}

impl PathAction {
    /// Whether it leads to a next hop.
    pub fn has_hop(&self) -> bool {
        matches!(self, PathAction::Via { .. } | PathAction::ViaIn { .. } | PathAction::OnLink { .. })
    }
}

/// Why a route cannot be as wanted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RouteError {
    #[error("{count} prefixes from {first} on are more than there are addresses")]
    TooFewAddresses { first: Prefix, count: u32 },
    #[error("too many paths (at most {max})", max = super::control::MAX_PATHS)]
    TooManyPaths,
    #[error(
        "{} routes are counted, which is the most ('show ip route counters' lists them)",
        super::count::MAX_COUNTED
    )]
    TooManyCounted,
}

crate::codes! { RouteError {
    TooFewAddresses => "route-too-few-addresses",
    TooManyPaths => "route-too-many-paths",
    TooManyCounted => "route-too-many-counted",
} }
