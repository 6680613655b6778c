//! The fate of a packet, computed from the settings alone: without tables, leaves and objects.

use crate::bed::Port;
use graph::InterfaceIndex;
use router::ip::control::{Path, PathAction, Source, TableIndex};
use router::neighbour::NeighbourKey;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use wire::{MacAddress, Prefix};

/// In so many tables a packet is looked up at most.
const MAX_TABLES: usize = 4;

/// A next hop in a table.
type Hop = (IpAddr, TableIndex);

/// The fate of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fate {
    Sent(InterfaceIndex, MacAddress),
    Held(InterfaceIndex),
    Dropped,
    Punted,
    Local,
    /// The sender gets an error, or would get one if it could be reached.
    Refused,
}

impl Fate {
    pub fn name(self) -> &'static str {
        match self {
            Fate::Sent(..) => "sent",
            Fate::Held(_) => "held",
            Fate::Dropped => "dropped",
            Fate::Punted => "punted",
            Fate::Local => "local",
            Fate::Refused => "refused",
        }
    }
}

/// The settings, without anything derived from them.
#[derive(Default)]
pub struct Settings {
    pub ports: BTreeMap<InterfaceIndex, (Port, bool, Vec<Prefix>)>,
    /// The tables of ports that are not in the default table.
    pub table_of: BTreeMap<InterfaceIndex, TableIndex>,
    pub routes: BTreeMap<(TableIndex, Prefix), Vec<Path>>,
    pub neighbours: BTreeMap<NeighbourKey, MacAddress>,
}

/// Stands for any address.
const NOBODY: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// Whether the first and last address of an attached network belong to no host; not so in IPv6.
fn has_broadcast(prefix: &Prefix) -> bool {
    matches!(prefix, Prefix::V4(prefix) if prefix.length() < 31)
}

/// Whether the first address of an attached network is its subnet-router anycast address.
fn has_anycast(prefix: &Prefix) -> bool {
    matches!(prefix, Prefix::V6(prefix) if prefix.length() < 127)
}

impl Settings {
    fn is_up(&self, index: InterfaceIndex) -> bool {
        self.ports.get(&index).is_some_and(|(_, up, _)| *up)
    }

    fn table_of(&self, index: InterfaceIndex) -> TableIndex {
        self.table_of.get(&index).copied().unwrap_or_default()
    }

    fn ports_of(&self, table: TableIndex) -> impl Iterator<Item = &(Port, bool, Vec<Prefix>)> {
        self.ports.values().filter(move |(port, ..)| self.table_of(port.index) == table)
    }

    fn attached_to(&self, (address, table): Hop) -> Option<InterfaceIndex> {
        let on = |(_, up, addresses): &&(Port, bool, Vec<Prefix>)| *up && addresses.iter().any(|p| p.contains(address));
        self.ports_of(table).find(on).map(|(port, ..)| port.index)
    }

    /// The interface of the longest attached route that contains an address.
    fn attached_by_route(&self, (address, table): Hop, wanted: Option<InterfaceIndex>) -> Option<InterfaceIndex> {
        let holds = |(of, prefix): &(TableIndex, Prefix)| *of == table && prefix.contains(address);
        let mut around: Vec<_> = self.routes.iter().filter(|(route, _)| holds(route)).collect();
        around.sort_by_key(|((_, prefix), _)| std::cmp::Reverse(prefix.length()));
        around.into_iter().flat_map(|(_, paths)| paths).find_map(|path| match path.way {
            PathAction::Attached(index) if self.is_up(index) && wanted.is_none_or(|wanted| wanted == index) => {
                Some(index)
            }
            _ => None,
        })
    }

    fn is_nobody(&self, (address, table): Hop) -> bool {
        let is_edge = |p: &Prefix| has_broadcast(p) && (p.first() == address || p.last() == address);
        let mut all = self.ports_of(table).flat_map(|(.., addresses)| addresses);
        all.any(|prefix| prefix.address() == address || is_edge(prefix))
    }

    fn is_on_network(&self, address: IpAddr, interface: InterfaceIndex) -> bool {
        self.ports[&interface].2.iter().any(|prefix| prefix.contains(address))
    }

    /// Whether an address is an interface's own, or the anycast address of one of its networks.
    fn owns(&self, index: InterfaceIndex, address: IpAddr) -> bool {
        let is_anycast = |p: &Prefix| has_anycast(p) && p.first() == address;
        self.ports[&index].2.iter().any(|prefix| prefix.address() == address || is_anycast(prefix))
    }

    /// The paths of each prefix by source, the best source first.
    fn table(&self, index: TableIndex) -> BTreeMap<Prefix, BTreeMap<Source, Vec<PathAction>>> {
        let mut table: BTreeMap<Prefix, BTreeMap<Source, Vec<PathAction>>> = BTreeMap::new();
        let mut add = |prefix, source, way| {
            let ways = table.entry(prefix).or_default().entry(source).or_default();
            if !ways.contains(&way) {
                ways.push(way);
            }
        };
        for key in self.neighbours.keys().filter(|key| self.table_of(key.interface) == index) {
            let way = PathAction::Via { next_hop: key.address, interface: Some(key.interface) };
            add(Prefix::host(key.address), Source::Neighbour, way);
        }
        for ((_, prefix), paths) in self.routes.iter().filter(|((of, _), _)| *of == index) {
            paths.iter().for_each(|path| add(*prefix, Source::Config, path.way.clone()));
        }
        for (port, _, addresses) in self.ports_of(index) {
            for prefix in addresses {
                if !prefix.is_host() {
                    add(prefix.network(), Source::Interface, PathAction::Attached(port.index));
                }
                if has_broadcast(prefix) {
                    add(Prefix::host(prefix.first()), Source::Interface, PathAction::Drop);
                    add(Prefix::host(prefix.last()), Source::Interface, PathAction::Broadcast(port.index));
                }
                add(Prefix::host(prefix.address()), Source::Interface, PathAction::Local(port.index));
                // The subnet-router anycast address.
                if has_anycast(prefix) {
                    add(Prefix::host(prefix.first()), Source::Interface, PathAction::Local(port.index));
                }
            }
        }
        table
    }

    /// The next hop of a path that names no interface, and its table.
    fn open_hop(way: &PathAction, table: TableIndex) -> Option<Hop> {
        match *way {
            PathAction::Via { next_hop, interface: None } => Some((next_hop, table)),
            PathAction::ViaIn { next_hop, table } => Some((next_hop, table)),
            _ => None,
        }
    }

    /// Whether a next hop is a neighbour, so that no route is needed to reach it.
    fn is_direct(&self, way: &PathAction, table: TableIndex) -> bool {
        self.follow(way, table, NOBODY).is_some()
    }

    /// Whether next hops may be reached through a path.
    fn may_carry(&self, way: &PathAction, table: TableIndex) -> bool {
        self.is_direct(way, table) || Self::open_hop(way, table).is_some()
    }

    /// The paths of the route that a next hop is reached through.
    fn ways_to_hop(&self, hop: Hop) -> Option<(Prefix, Vec<PathAction>)> {
        if self.is_nobody(hop) {
            return None;
        }
        let table = self.table(hop.1);
        let around = table.iter().filter(|(prefix, _)| prefix.contains(hop.0) && prefix.length() > 0);
        let mut around: Vec<_> = around.collect();
        around.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.length()));
        around.into_iter().find_map(|(prefix, sources)| {
            let ways = sources.values().find(|ways| ways.iter().any(|way| self.may_carry(way, hop.1)))?;
            Some((*prefix, ways.clone()))
        })
    }

    /// Whether paths of a route in a table depend on a next hop, directly or through other routes.
    fn need(&self, ways: &[PathAction], table: TableIndex, hop: Hop, seen: &mut BTreeSet<Hop>) -> bool {
        ways.iter().any(|way| {
            Self::open_hop(way, table).is_some_and(|next| {
                next == hop
                    || !self.is_direct(way, table)
                        && seen.insert(next)
                        && self.ways_to_hop(next).is_some_and(|(_, ways)| self.need(&ways, next.1, hop, seen))
            })
        })
    }

    /// All fates of packets that take a path, including next hops that are reached through routes.
    fn follow_all(&self, way: &PathAction, table: TableIndex, destination: IpAddr, tables: usize) -> BTreeSet<Fate> {
        if let PathAction::Lookup(other) = way {
            return match tables {
                MAX_TABLES => BTreeSet::from([Fate::Dropped]),
                _ => self.fates(*other, destination, tables + 1),
            };
        }
        let direct = self.follow(way, table, destination);
        let (None, Some(hop)) = (direct, Self::open_hop(way, table)) else {
            return direct.into_iter().collect();
        };
        let Some((prefix, ways)) = self.ways_to_hop(hop) else { return BTreeSet::new() };
        if self.need(&ways, hop.1, hop, &mut BTreeSet::new()) {
            return BTreeSet::new();
        }
        let leads_on = |way: &&PathAction| match way {
            PathAction::Attached(_) => prefix.is_host(),
            PathAction::Local(_)
            | PathAction::LocalAnywhere
            | PathAction::Punt
            | PathAction::Broadcast(_)
            | PathAction::Lookup(_) => false,
            _ => true,
        };
        // An attached path leads on only in a host route, and then to that host.
        let ways = ways.iter().filter(leads_on);
        ways.flat_map(|way| self.follow_all(way, hop.1, prefix.address(), tables)).collect()
    }

    /// The fate of a packet for `destination` on a path, when the path works and its next hop is a neighbour.
    fn follow(&self, way: &PathAction, table: TableIndex, destination: IpAddr) -> Option<Fate> {
        let to = |interface: InterfaceIndex, address: IpAddr| {
            let known = self.neighbours.get(&NeighbourKey::new(interface, address));
            // Without an address the router cannot send a request.
            let can_ask = !self.ports[&interface].2.is_empty();
            let is_routed = self.attached_by_route((address, self.table_of(interface)), Some(interface)).is_some();
            let is_attached = self.is_on_network(address, interface) || can_ask && is_routed;
            match known {
                Some(mac) => Fate::Sent(interface, *mac),
                None if is_attached => Fate::Held(interface),
                None => Fate::Refused,
            }
        };
        match *way {
            // There are no labels here.
            PathAction::Drop | PathAction::Broadcast(_) | PathAction::LookupIn(..) | PathAction::LookupLabel(_) => {
                Some(Fate::Dropped)
            }
            // Nobody here makes objects.
            PathAction::Object(_) => None,
            PathAction::Punt => Some(Fate::Punted),
            PathAction::Unreachable | PathAction::Prohibit => Some(Fate::Refused),
            PathAction::Local(index) => self.is_up(index).then_some(Fate::Local),
            PathAction::LocalAnywhere => Some(Fate::Local),
            // An attached route in another table also reaches the router's own addresses on the interface.
            PathAction::Attached(index) => self.is_up(index).then(|| match to(index, destination) {
                Fate::Held(_) if self.owns(index, destination) => Fate::Local,
                fate => fate,
            }),
            // Always leads on, if only to a missing route. `follow_all` says where.
            PathAction::Lookup(_) => Some(Fate::Dropped),
            PathAction::Via { next_hop, .. } | PathAction::ViaIn { next_hop, .. } => {
                let (interface, next_hop) = (way.interface(), next_hop);
                let table = interface.map_or(way.table().unwrap_or(table), |index| self.table_of(index));
                let hop = (next_hop, table);
                // The next hop is an address of ours, or a network's broadcast address.
                if self.is_nobody(hop) {
                    return None;
                }
                let is_there = |interface: &InterfaceIndex| {
                    let key = NeighbourKey::new(*interface, next_hop);
                    self.is_up(*interface)
                        && (self.neighbours.contains_key(&key) || self.is_on_network(next_hop, *interface))
                };
                let by_network = interface.or_else(|| self.attached_to(hop)).filter(is_there);
                let by = by_network.or_else(|| self.attached_by_route(hop, interface));
                by.map(|interface| to(interface, next_hop))
            }
            PathAction::OnLink { next_hop, interface } => self.is_up(interface).then(|| to(interface, next_hop)),
        }
    }

    /// The possible fates of a packet: several when several paths work.
    pub fn fates(&self, index: TableIndex, destination: IpAddr, tables: usize) -> BTreeSet<Fate> {
        let table = self.table(index);
        let mut matching: Vec<_> = table.iter().filter(|(prefix, _)| prefix.contains(destination)).collect();
        matching.sort_by_key(|(prefix, _)| std::cmp::Reverse(prefix.length()));
        for ways in matching.into_iter().flat_map(|(_, sources)| sources.values()) {
            let fates: BTreeSet<Fate> =
                ways.iter().flat_map(|way| self.follow_all(way, index, destination, tables)).collect();
            if !fates.is_empty() {
                return fates;
            }
        }
        BTreeSet::from([Fate::Refused])
    }
}
