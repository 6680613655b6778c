//! Random operations: after each, the router must be what one would be that was made
//! anew of the same settings, and when all is undone nothing may be left.

use crate::bed::{Bed, Port, host_mac};
use crate::packet::*;
use crate::routes::snapshot;
use drivers::Finishes;
use graph::InterfaceIndex;
use quiver_router::Error;
use quiver_router::ip::bulk::{Batch, Paths};
use quiver_router::ip::control::{Path, Source, TableIndex, Way};
use quiver_router::neighbour::NeighbourKey;
use quiver_router::neighbour::control::REQUESTS;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;
use tables::Leaf;
use wire::Family;
use wire::{MacAddress, Prefix4};

const STEPS: usize = 2000;
const SEEDS: u64 = 8;
/// In so many tables a packet is looked up.
const MAX_TABLES: usize = 4;
/// The identifier of a table that comes and goes.
const OTHER: u32 = 4_000_000_000;

/// A next hop in a table.
type Hop = (Ipv4Addr, TableIndex);

/// What becomes of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fate {
    Sent(InterfaceIndex, MacAddress),
    Held(InterfaceIndex),
    Dropped,
    Punted,
    Local,
    /// The sender is told, or would be if it could be.
    Refused,
}

impl Fate {
    fn name(self) -> &'static str {
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

/// The settings, without any consequence of them.
#[derive(Default)]
struct Settings {
    ports: BTreeMap<InterfaceIndex, (Port, bool, Vec<Prefix4>)>,
    /// Of ports that are not in the default one.
    table_of: BTreeMap<InterfaceIndex, TableIndex>,
    routes: BTreeMap<(TableIndex, Prefix4), Vec<Path>>,
    neighbours: BTreeMap<NeighbourKey, MacAddress>,
}

/// All addresses here are.
fn v4(address: IpAddr) -> Ipv4Addr {
    let IpAddr::V4(address) = address else { panic!("{address} is no IPv4 address") };
    address
}

fn host(address: Ipv4Addr) -> Prefix4 {
    Prefix4::new(address, 32).unwrap()
}

impl Settings {
    fn is_up(&self, index: InterfaceIndex) -> bool {
        self.ports.get(&index).is_some_and(|(_, up, _)| *up)
    }

    fn table_of(&self, index: InterfaceIndex) -> TableIndex {
        self.table_of.get(&index).copied().unwrap_or_default()
    }

    fn ports_of(&self, table: TableIndex) -> impl Iterator<Item = &(Port, bool, Vec<Prefix4>)> {
        self.ports.values().filter(move |(port, ..)| self.table_of(port.index) == table)
    }

    fn attached_to(&self, (address, table): Hop) -> Option<InterfaceIndex> {
        let on =
            |(_, up, addresses): &&(Port, bool, Vec<Prefix4>)| *up && addresses.iter().any(|p| p.contains(address));
        self.ports_of(table).find(on).map(|(port, ..)| port.index)
    }

    /// The interface onto which the longest route leads that holds an address.
    fn attached_by_route(&self, (address, table): Hop, wanted: Option<InterfaceIndex>) -> Option<InterfaceIndex> {
        let holds = |(of, prefix): &(TableIndex, Prefix4)| *of == table && prefix.contains(address);
        let mut around: Vec<_> = self.routes.iter().filter(|(route, _)| holds(route)).collect();
        around.sort_by_key(|((_, prefix), _)| std::cmp::Reverse(prefix.length()));
        around.into_iter().flat_map(|(_, paths)| paths).find_map(|path| match path.way {
            Way::Attached(index) if self.is_up(index) && wanted.is_none_or(|wanted| wanted == index) => Some(index),
            _ => None,
        })
    }

    fn is_nobody(&self, (address, table): Hop) -> bool {
        let is_edge = |p: &Prefix4| p.length() < 31 && (p.first() == address || p.last() == address);
        let mut all = self.ports_of(table).flat_map(|(.., addresses)| addresses);
        all.any(|prefix| prefix.address() == address || is_edge(prefix))
    }

    fn is_on_network(&self, address: Ipv4Addr, interface: InterfaceIndex) -> bool {
        self.ports[&interface].2.iter().any(|prefix| prefix.contains(address))
    }

    /// The ways of a prefix by source, the best first.
    fn table(&self, index: TableIndex) -> BTreeMap<Prefix4, BTreeMap<Source, Vec<Way>>> {
        let mut table: BTreeMap<Prefix4, BTreeMap<Source, Vec<Way>>> = BTreeMap::new();
        let mut add = |prefix, source, way| {
            let ways = table.entry(prefix).or_default().entry(source).or_default();
            if !ways.contains(&way) {
                ways.push(way);
            }
        };
        for key in self.neighbours.keys().filter(|key| self.table_of(key.interface) == index) {
            let way = Way::Via { next_hop: key.address, interface: Some(key.interface) };
            add(host(v4(key.address)), Source::Neighbour, way);
        }
        for ((_, prefix), paths) in self.routes.iter().filter(|((of, _), _)| *of == index) {
            paths.iter().for_each(|path| add(*prefix, Source::Config, path.way.clone()));
        }
        for (port, _, addresses) in self.ports_of(index) {
            for prefix in addresses {
                if prefix.length() < 32 {
                    add(prefix.network(), Source::Interface, Way::Attached(port.index));
                }
                if prefix.length() < 31 {
                    add(host(prefix.first()), Source::Interface, Way::Drop);
                    add(host(prefix.last()), Source::Interface, Way::Broadcast(port.index));
                }
                add(host(prefix.address()), Source::Interface, Way::Local(port.index));
            }
        }
        table
    }

    /// The next hop of a way of a route in a table that is open by which interface.
    fn open_hop(way: &Way, table: TableIndex) -> Option<Hop> {
        match *way {
            Way::Via { next_hop, interface: None } => Some((v4(next_hop), table)),
            Way::ViaIn { next_hop, table } => Some((v4(next_hop), table)),
            _ => None,
        }
    }

    /// Whether a next hop is a neighbour, so that no route needs to lead there.
    fn is_direct(&self, way: &Way, table: TableIndex) -> bool {
        self.follow(way, table, Ipv4Addr::UNSPECIFIED).is_some()
    }

    /// Whether next hops may hang on a way.
    fn may_carry(&self, way: &Way, table: TableIndex) -> bool {
        self.is_direct(way, table) || Self::open_hop(way, table).is_some()
    }

    /// The ways of the route that a next hop hangs on.
    fn ways_to_hop(&self, hop: Hop) -> Option<(Prefix4, Vec<Way>)> {
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

    /// Whether ways of a route in a table need a next hop to be reached, by whatever routes.
    fn need(&self, ways: &[Way], table: TableIndex, hop: Hop, seen: &mut BTreeSet<Hop>) -> bool {
        ways.iter().any(|way| {
            Self::open_hop(way, table).is_some_and(|next| {
                next == hop
                    || !self.is_direct(way, table)
                        && seen.insert(next)
                        && self.ways_to_hop(next).is_some_and(|(_, ways)| self.need(&ways, next.1, hop, seen))
            })
        })
    }

    /// All that may become of packets that take a way, next hops that are reached through routes included.
    fn follow_all(&self, way: &Way, table: TableIndex, destination: Ipv4Addr, tables: usize) -> BTreeSet<Fate> {
        if let Way::Lookup(other) = way {
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
        let leads_on = |way: &&Way| match way {
            Way::Attached(_) => prefix.length() == 32,
            Way::Local(_) | Way::LocalAnywhere | Way::Punt | Way::Broadcast(_) | Way::Lookup(_) => false,
            _ => true,
        };
        // A host's own route leads to that host.
        let ways = ways.iter().filter(leads_on);
        ways.flat_map(|way| self.follow_all(way, hop.1, prefix.address(), tables)).collect()
    }

    /// Where a way leads a packet for `destination`, when it works and its next hop is a neighbour.
    fn follow(&self, way: &Way, table: TableIndex, destination: Ipv4Addr) -> Option<Fate> {
        let to = |interface: InterfaceIndex, address: Ipv4Addr| {
            let known = self.neighbours.get(&NeighbourKey::new(interface, address));
            // Who has no address has none to ask from.
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
            Way::Drop | Way::Broadcast(_) => Some(Fate::Dropped),
            Way::Punt => Some(Fate::Punted),
            Way::Unreachable | Way::Prohibit => Some(Fate::Refused),
            Way::Local(index) => self.is_up(index).then_some(Fate::Local),
            Way::LocalAnywhere => Some(Fate::Local),
            Way::Attached(index) => self.is_up(index).then(|| match to(index, destination) {
                // A glean asks; who is known has a route of its own.
                Fate::Sent(interface, mac) => Fate::Sent(interface, mac),
                other => other,
            }),
            // Always somewhere, if only to be told that there is no route; where, `follow_all` says.
            Way::Lookup(_) => Some(Fate::Dropped),
            Way::Via { next_hop, .. } | Way::ViaIn { next_hop, .. } => {
                let (interface, next_hop) = (way.interface(), v4(next_hop));
                let table = interface.map_or(way.table().unwrap_or(table), |index| self.table_of(index));
                let hop = (next_hop, table);
                // It is one of our own, or for all of a network.
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
            Way::OnLink { next_hop, interface } => self.is_up(interface).then(|| to(interface, v4(next_hop))),
        }
    }

    /// What may become of a packet: several things when several paths work.
    fn fates(&self, index: TableIndex, destination: Ipv4Addr, tables: usize) -> BTreeSet<Fate> {
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

/// The last of each way counts, in the place of the first.
fn without_doubles(paths: &[Path]) -> Vec<Path> {
    let mut all: Vec<Path> = Vec::new();
    for path in paths {
        match all.iter_mut().find(|known| known.way == path.way) {
            Some(known) => *known = path.clone(),
            None => all.push(path.clone()),
        }
    }
    all
}

struct Trial {
    bed: Bed,
    /// Where packets come in, by table; they are never changed.
    entries: Vec<(TableIndex, Port)>,
    /// One more, which comes and goes.
    other: Option<TableIndex>,
    settings: Settings,
    random: Random,
}

impl Trial {
    fn address(&mut self) -> Ipv4Addr {
        let random = &mut self.random;
        Ipv4Addr::new(10, random.below(3) as u8, random.below(2) as u8, random.below(8) as u8)
    }

    fn any_port(&mut self) -> InterfaceIndex {
        let all: Vec<InterfaceIndex> = self.settings.ports.keys().copied().collect();
        // Now and then one that does not exist.
        if all.is_empty() || self.random.one_in(20) { InterfaceIndex(99) } else { *self.random.of(&all) }
    }

    fn any_prefix(&mut self) -> Prefix4 {
        let length = *self.random.of(&[0, 8, 15, 16, 24, 29, 30, 31, 32]);
        Prefix4::new(self.address(), length).unwrap()
    }

    fn any_table(&mut self) -> TableIndex {
        let tables: Vec<TableIndex> = self.entries.iter().map(|(table, _)| *table).chain(self.other).collect();
        *self.random.of(&tables)
    }

    fn any_paths(&mut self) -> Vec<Path> {
        let count = if self.random.one_in(40) { 65 } else { 1 + self.random.below(4) };
        let mut paths: Vec<Path> = Vec::new();
        while paths.len() < count {
            let way = match self.random.below(if count > 64 { 1 } else { 10 }) {
                0..=3 => {
                    let next_hop = if count > 64 { (paths.len() as u32 + 1).into() } else { self.address() };
                    let interface = self.random.one_in(3).then(|| self.any_port());
                    Way::Via { next_hop: next_hop.into(), interface }
                }
                4 => [Way::Drop, Way::Punt][self.random.below(2)].clone(),
                5 => [Way::Unreachable, Way::Prohibit][self.random.below(2)].clone(),
                6 => Way::LocalAnywhere,
                7 => Way::Lookup(self.any_table()),
                8 => Way::ViaIn { next_hop: self.address().into(), table: self.any_table() },
                _ => Way::Attached(self.any_port()),
            };
            let weight = *self.random.of(&[1, 1, 2, 7, 255]);
            match paths.iter_mut().find(|path| path.way == way) {
                Some(path) => path.weight = weight,
                None => paths.push(Path::weighing(way, weight)),
            }
            if paths.len() < count && self.random.one_in(10) {
                break;
            }
        }
        paths
    }

    /// One operation, on the router and on the settings. An error must leave all as it was.
    fn step(&mut self) {
        let before = snapshot(&self.bed);
        let result = match self.random.below(16) {
            15 => self.count_route(),
            12 => self.change_routes(),
            13 => self.set_table(),
            14 => self.change_other(),
            0 => self.create(),
            1 => self.delete(),
            2 | 3 => self.set_admin(),
            4 => self.add_address(),
            5 => self.remove_address(),
            6 | 7 => self.add_route(),
            8 => self.remove_route(),
            9 => self.set_neighbour(),
            10 => self.remove_neighbour(),
            _ => self.change_port(),
        };
        if let Err(error) = result {
            assert_eq!(snapshot(&self.bed), before, "{error}");
        }
        self.bed.run();
    }

    fn create(&mut self) -> Result<(), Error> {
        if self.settings.ports.len() < 5 {
            let name = self.bed.router.free_name("p");
            let port = self.bed.port_that_finishes(&name, Finishes::default());
            self.settings.ports.insert(port.index, (port, false, Vec::new()));
        }
        Ok(())
    }

    fn delete(&mut self) -> Result<(), Error> {
        let index = self.any_port();
        self.bed.router.delete_interface(index)?;
        self.settings.ports.remove(&index);
        self.settings.table_of.remove(&index);
        self.settings.neighbours.retain(|key, _| key.interface != index);
        let names = |path: &Path| path.way.interface() == Some(index);
        self.settings.routes.values_mut().for_each(|paths| paths.retain(|path| !names(path)));
        self.settings.routes.retain(|_, paths| !paths.is_empty());
        Ok(())
    }

    fn set_admin(&mut self) -> Result<(), Error> {
        let (index, up) = (self.any_port(), !self.random.one_in(3));
        self.bed.router.set_admin(index, up)?;
        self.settings.ports.get_mut(&index).unwrap().1 = up;
        Ok(())
    }

    fn add_address(&mut self) -> Result<(), Error> {
        let (index, address) = (self.any_port(), self.address());
        let length = *self.random.of(&[16, 24, 29, 29, 30, 31, 32]);
        let prefix = Prefix4::new(address, length).unwrap();
        self.bed.router.add_address(index, prefix)?;
        self.settings.ports.get_mut(&index).unwrap().2.push(prefix);
        Ok(())
    }

    fn remove_address(&mut self) -> Result<(), Error> {
        let index = self.any_port();
        let known = self.settings.ports.get(&index).map(|(_, _, addresses)| addresses.clone()).unwrap_or_default();
        let prefix = if known.is_empty() { self.any_prefix() } else { *self.random.of(&known) };
        self.bed.router.remove_address(index, prefix)?;
        self.settings.ports.get_mut(&index).unwrap().2.retain(|other| *other != prefix);
        Ok(())
    }

    fn add_route(&mut self) -> Result<(), Error> {
        let (prefix, paths, replace) = (self.any_prefix().network(), self.any_paths(), self.random.one_in(2));
        let table = self.any_table();
        self.bed.router.add_route_in(table, prefix, Source::Config, paths.clone(), replace)?;
        let known = self.settings.routes.entry((table, prefix)).or_default();
        if replace {
            known.clear();
        }
        for path in paths {
            match known.iter_mut().find(|known| known.way == path.way) {
                Some(known) => *known = path,
                None => known.push(path),
            }
        }
        Ok(())
    }

    /// Many in one go, as a routing daemon says them.
    fn change_routes(&mut self) -> Result<(), Error> {
        let table = self.any_table();
        let mut batch = Batch::new(Family::Ip4, table);
        let lists: Vec<Vec<Path>> = (0..3).map(|_| self.any_paths()).collect();
        let paths: Vec<Paths> = lists.iter().map(|paths| batch.paths(paths.clone())).collect();
        let mut wanted: BTreeMap<Prefix4, Option<usize>> = BTreeMap::new();
        for _ in 0..self.random.below(30) {
            let prefix = self.any_prefix().network();
            let list = Some(self.random.below(4)).filter(|list| *list < 3);
            if wanted.contains_key(&prefix) {
                continue;
            }
            match list {
                Some(list) => batch.put(prefix, paths[list]),
                None => batch.remove(prefix),
            }
            wanted.insert(prefix, list);
        }
        self.bed.router.change_routes(Source::Config, batch)?;
        for (prefix, list) in wanted {
            // One that would lead through itself stays as it was.
            let is = self.bed.router.ip.routes_in(Family::Ip4, table).get(prefix);
            let route = (table, prefix);
            let is = is.and_then(|route| route.sources.get(&Source::Config).cloned());
            let refused = list.is_some() && is.as_ref() == self.settings.routes.get(&route);
            match list.filter(|_| !refused) {
                Some(list) => drop(self.settings.routes.insert(route, without_doubles(&lists[list]))),
                None if list.is_none() => drop(self.settings.routes.remove(&route)),
                None => {}
            }
            assert_eq!(is.as_ref(), self.settings.routes.get(&route), "{route:?}");
        }
        Ok(())
    }

    fn remove_route(&mut self) -> Result<(), Error> {
        let all: Vec<(TableIndex, Prefix4)> = self.settings.routes.keys().copied().collect();
        let route = if all.is_empty() || self.random.one_in(4) {
            (self.any_table(), self.any_prefix().network())
        } else {
            *self.random.of(&all)
        };
        let known = self.settings.routes.get(&route).cloned().unwrap_or_default();
        let mut paths = known.clone();
        paths.retain(|_| self.random.one_in(2));
        if self.random.one_in(10) {
            paths.push(Path::new(Way::Via { next_hop: Ipv4Addr::new(9, 9, 9, 9).into(), interface: None }));
        }
        self.bed.router.remove_route_in(route.0, route.1, Source::Config, &paths)?;
        let left = self.settings.routes.get_mut(&route).unwrap();
        left.retain(|path| !paths.is_empty() && !paths.contains(path));
        if left.is_empty() {
            self.settings.routes.remove(&route);
        }
        Ok(())
    }

    fn set_table(&mut self) -> Result<(), Error> {
        let (index, table) = (self.any_port(), self.any_table());
        self.bed.router.set_interface_table(index, Family::Ip4, table)?;
        self.settings.table_of.insert(index, table);
        Ok(())
    }

    /// That packets are counted is no difference to them.
    fn count_route(&mut self) -> Result<(), Error> {
        let (table, prefix, counted) = (self.any_table(), self.any_prefix().network(), !self.random.one_in(3));
        self.bed.router.count_route(table, prefix, counted)
    }

    /// Makes the table that comes and goes, or takes it away with its routes.
    fn change_other(&mut self) -> Result<(), Error> {
        match self.other {
            None => self.other = Some(self.bed.router.add_table(Family::Ip4, OTHER)?),
            Some(table) => {
                self.bed.router.remove_table(Family::Ip4, OTHER)?;
                self.other = None;
                self.settings.routes.retain(|(of, _), _| *of != table);
            }
        }
        Ok(())
    }

    fn any_neighbour(&mut self) -> NeighbourKey {
        NeighbourKey::new(self.any_port(), self.address())
    }

    fn set_neighbour(&mut self) -> Result<(), Error> {
        let key = self.any_neighbour();
        let mut mac = host_mac(v4(key.address));
        mac.0[1] = self.random.next() as u8;
        self.bed.router.set_neighbour(key, mac, true)?;
        self.settings.neighbours.insert(key, mac);
        Ok(())
    }

    fn remove_neighbour(&mut self) -> Result<(), Error> {
        let all: Vec<NeighbourKey> = self.settings.neighbours.keys().copied().collect();
        let key = if all.is_empty() { self.any_neighbour() } else { *self.random.of(&all) };
        self.bed.router.remove_neighbour(key)?;
        self.settings.neighbours.remove(&key);
        Ok(())
    }

    fn change_port(&mut self) -> Result<(), Error> {
        let index = self.any_port();
        let mtu = self.random.below(10_000) as u16;
        self.bed.router.set_mtu(index, mtu)?;
        let mac = MacAddress([2, 7, 7, 7, 7, self.random.next() as u8]);
        self.bed.router.set_mac(index, mac)
    }

    /// Sends a packet through and sees what becomes of it.
    fn observe(&mut self, entry: usize, destination: Ipv4Addr) -> Fate {
        self.bed.run(); // announcements
        self.settings.ports.values().for_each(|(port, ..)| drop(port.sent()));
        // An error, so that nobody is told, about nothing that we sent.
        let message = icmp(3, 0, 0, &[0; 28]);
        let mut packet = Packet::new("192.168.0.2", &destination.to_string(), ICMP, &message);
        packet.id = self.random.next() as u16;
        self.entries[entry].1.receive_packet(&packet);
        let moved = self.bed.errors_of(|_| {});
        let mut fates: Vec<Fate> = moved
            .keys()
            .map(|(_, reason)| match reason.as_str() {
                "blackholed packets" | "directed broadcast not sent on" | "too many tables in a row" => Fate::Dropped,
                "punted, but no host interface takes it" => Fate::Punted,
                "ICMP type not handled" => Fate::Local,
                "no ICMP error about an ICMP error" => Fate::Refused,
                other => panic!("{other}: {moved:?} {destination}"),
            })
            .collect();
        let mut asked = Vec::new();
        for (port, ..) in self.settings.ports.values() {
            for frame in port.sent() {
                match frame[12..14] {
                    [8, 0] => fates.push(Fate::Sent(port.index, MacAddress(frame[..6].try_into().unwrap()))),
                    _ => asked.push(port.index),
                }
            }
        }
        if self.bed.held() > 0 {
            fates.extend(asked.into_iter().map(Fate::Held));
            (0..=REQUESTS).for_each(|_| self.bed.advance(Duration::from_millis(1001)));
            // Who was silent is asked again, as if the time for that had passed.
            self.bed.router.flush_learned(None);
            self.bed.run();
        }
        assert_eq!(fates.len(), 1, "{fates:?}");
        assert_eq!((self.bed.held(), self.bed.buffers_in_use()), (0, 0));
        fates[0]
    }

    /// Every object that a route reaches exists once, and no other does.
    fn check_objects(&self) {
        let ip4 = &self.bed.router.ip;
        let mut reached: BTreeSet<u32> = self.bed.router.neighbours.adjacencies().collect();
        let is_object = |leaf: &Leaf| matches!(leaf.kind(), tables::kind::ADJACENCY | tables::kind::GLEAN);
        for leaf in ip4.leaves() {
            match ip4.buckets(leaf) {
                Some(buckets) => {
                    reached.insert(leaf.index());
                    reached.extend(buckets.iter().filter(|leaf| is_object(leaf)).map(|leaf| leaf.index()));
                }
                None => reached.extend(Some(leaf).filter(is_object).map(Leaf::index)),
            }
        }
        assert_eq!(ip4.objects(), reached.len());
    }

    fn remove_all(&mut self) {
        let router = &mut self.bed.router;
        let routes: Vec<(TableIndex, Prefix4)> = self.settings.routes.keys().copied().collect();
        let neighbours: Vec<NeighbourKey> = self.settings.neighbours.keys().copied().collect();
        let remove = |(table, prefix)| router.remove_route_in(table, prefix, Source::Config, &[]).unwrap();
        routes.into_iter().for_each(remove);
        neighbours.into_iter().for_each(|key| router.remove_neighbour(key).unwrap());
        let ports: Vec<InterfaceIndex> = router.interfaces.iter().map(|interface| interface.index).collect();
        ports.into_iter().for_each(|index| router.delete_interface(index).unwrap());
        let counted: Vec<_> = router.ip.counted().collect();
        counted.into_iter().for_each(|(table, prefix)| router.count_route(table, prefix, false).unwrap());
        let tables: Vec<u32> = router.ip.table_ids(Family::Ip4).map(|(_, id)| id).filter(|id| *id != 0).collect();
        tables.into_iter().for_each(|id| router.remove_table(Family::Ip4, id).unwrap());
        self.bed.run();
    }
}

#[test]
fn after_any_operations_the_router_is_what_its_settings_say_and_ends_empty() {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    (1..=SEEDS).for_each(|seed| run_trial(seed, &mut seen));
    // The operations are worth nothing if they all lead to the same.
    for name in ["sent", "held", "dropped", "punted", "local", "refused"] {
        assert!(seen.get(name).is_some_and(|count| *count > STEPS / 10), "{seen:?}");
    }
}

/// Random operations with a look at what packets do after each; counts what they did.
fn run_trial(seed: u64, seen: &mut BTreeMap<&'static str, usize>) {
    let mut bed = Bed::new();
    let nodes = bed.router.graph.nodes().len();
    // The same addresses in each table.
    let entries = [0, 7, 8].map(|id| {
        let table = if id == 0 { TableIndex::DEFAULT } else { bed.router.add_table(Family::Ip4, id).unwrap() };
        let port = bed.port_that_finishes(&format!("entry{id}"), Finishes::default());
        bed.router.set_interface_table(port.index, Family::Ip4, table).unwrap();
        bed.router.add_address(port.index, "192.168.0.1/30".parse().unwrap()).unwrap();
        bed.router.set_admin(port.index, true).unwrap();
        (table, port)
    });
    let (settings, random) = (Settings::default(), Random::new(seed));
    let mut trial = Trial { bed, entries: entries.into(), other: None, settings, random };
    for step in 0..STEPS {
        trial.step();
        trial.check_objects();
        assert_eq!(trial.bed.router.ip.audit(), Ok(()), "seed {seed}, step {step}");
        for _ in 0..3 {
            let destination = trial.address();
            let entry = trial.random.below(trial.entries.len());
            let expected = trial.settings.fates(trial.entries[entry].0, destination, 1);
            let fate = trial.observe(entry, destination);
            assert!(expected.contains(&fate), "seed {seed}, step {step}: {destination}: {fate:?}, not {expected:?}");
            *seen.entry(fate.name()).or_default() += 1;
        }
    }
    trial.remove_all();
    let router = &trial.bed.router;
    assert_eq!(
        (router.ip.routes().len(), router.ip.objects(), router.neighbours.len()),
        (0, 0, 0),
        "seed {seed}: {:?}",
        router.ip.routes()
    );
    assert_eq!(trial.bed.buffers_in_use(), 0);
    // The input node of the test's driver stays.
    assert_eq!(trial.bed.router.graph.nodes().len(), nodes + 1);
    assert_eq!(trial.bed.router.graph.domain().pending(), 0);
}
