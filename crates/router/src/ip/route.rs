//! What a route says: who wants it, and by which paths.

use crate::mpls::labels::OutLabels;
use graph::InterfaceIndex;
use std::collections::BTreeMap;
use std::net::IpAddr;
use tables::Leaf;
use wire::Family;

/// Most paths of a route.
pub const MAX_PATHS: usize = 64;

/// A routing table, by its place among all. Operators know tables by identifiers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct TableIndex(pub u16);

impl TableIndex {
    /// The table that is always there, of interfaces of which nothing else was said.
    pub const DEFAULT: TableIndex = TableIndex(0);
}

/// A table of MPLS labels, by its place among all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct LabelTableIndex(pub u16);

impl LabelTableIndex {
    /// That of labels which interfaces receive.
    pub const DEFAULT: LabelTableIndex = LabelTableIndex(0);
}

/// A next hop in a table.
pub(crate) type Hop = (IpAddr, TableIndex);

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
    /// A host that is answered for on other links.
    Proxy,
}

impl Source {
    pub const ALL: [Source; 7] = [
        Source::Interface,
        Source::Config,
        Source::Api,
        Source::Dhcp,
        Source::OnLink,
        Source::Neighbour,
        Source::Proxy,
    ];

    /// As VPP names it.
    pub fn name(self) -> &'static str {
        match self {
            Source::Interface => "interface",
            Source::Config => "CLI",
            Source::Api => "API",
            Source::Dhcp => "DHCP",
            Source::OnLink => "on-link",
            Source::Neighbour => "adjacency",
            Source::Proxy => "IP6-proxy-nd",
        }
    }
}

/// One way on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum PathAction {
    /// Through a next hop. Without an interface it follows from attached networks, and where none
    /// has it, from the route to it.
    Via {
        next_hop: IpAddr,
        interface: Option<InterfaceIndex>,
    },
    /// Through a next hop that is looked for in another table.
    ViaIn {
        next_hop: IpAddr,
        table: TableIndex,
    },
    /// To where another table leads.
    Lookup(TableIndex),
    /// Of labels: what is inside goes to where a table of a family leads.
    LookupIn(Family, TableIndex),
    /// Of labels above others: the next one goes to where a table of labels leads.
    LookupLabel(LabelTableIndex),
    /// Through a neighbour that is on the wire of an interface, whatever networks that has:
    /// on point-to-point and unnumbered links.
    OnLink {
        next_hop: IpAddr,
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
    /// Refused with ICMP host unreachable, or with ICMPv6 address unreachable.
    Unreachable,
    /// Refused with ICMP communication administratively prohibited (RFC 1812 5.2.7.1).
    Prohibit,
}

impl PathAction {
    /// The interface that it names.
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
            | PathAction::Unreachable
            | PathAction::Prohibit => None,
        }
    }

    /// The next hop, in the table where it is looked for, of a route in table `own`.
    pub(crate) fn hop(&self, own: TableIndex) -> Option<Hop> {
        match *self {
            PathAction::Via { next_hop, .. } => Some((next_hop, own)),
            PathAction::ViaIn { next_hop, table } => Some((next_hop, table)),
            _ => None,
        }
    }

    /// The same when it is left open by which interface it is reached.
    pub(crate) fn open_hop(&self, own: TableIndex) -> Option<Hop> {
        if matches!(self, PathAction::Via { interface: Some(_), .. }) { None } else { self.hop(own) }
    }

    /// The other table that it names.
    pub fn table(&self) -> Option<TableIndex> {
        match *self {
            PathAction::ViaIn { table, .. } | PathAction::Lookup(table) | PathAction::LookupIn(_, table) => Some(table),
            _ => None,
        }
    }

    /// That table with its family, of a route of table `own` for what is of a family.
    pub(crate) fn table_of(&self, family: Option<Family>, own: TableIndex) -> Option<(Family, TableIndex)> {
        let family = match *self {
            PathAction::LookupIn(family, _) => Some(family),
            // What names no next hop has packets looked up there as they are.
            _ => self.hop(own).map_or(family, |(hop, _)| Some(Family::of(hop))),
        };
        family.zip(self.table())
    }
}

/// A way with its share of the traffic.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Path {
    pub way: PathAction,
    /// 1 to 255.
    pub weight: u8,
    /// Of the paths that work only those with the lowest number are used; the others are backup paths.
    pub preference: u8,
    /// What is put before its packets.
    pub labels: OutLabels,
}

impl Path {
    pub fn new(way: PathAction) -> Path {
        Path { way, weight: 1, preference: 0, labels: None }
    }

    pub fn weighing(way: PathAction, weight: u8) -> Path {
        Path { weight, ..Path::new(way) }
    }

    /// Whether another is the same way: with other labels it is another.
    pub(crate) fn is_same(&self, other: &Path) -> bool {
        self.way == other.way && self.labels == other.labels
    }

    /// Whether an operator who says this means that path: labels that are not said may be any.
    pub(crate) fn means(&self, path: &Path) -> bool {
        self.way == path.way && (self.labels.is_none() || self.labels == path.labels)
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
