//! Random operations. After each, the router must behave like a new one with the same settings. When all settings are
//! removed, no object or packet may be left.

use crate::bed::{Bed, Port, host_mac};
use crate::oracle::{Fate, Settings};
use crate::packet::*;
use crate::packet6::{ICMP6, Packet6, ip6};
use crate::routes::snapshot;
use drivers::TxOffloads;
use graph::InterfaceIndex;
use protocols::ip6::Ip6View;
use router::Error;
use router::interface::Interface;
use router::ip::bulk::{Batch, Paths};
use router::ip::control::{Path, PathAction, Source, TableIndex};
use router::neighbour::NeighbourKey;
use router::neighbour::control::REQUESTS;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::Duration;
use tables::Leaf;
use wire::Family;
use wire::{MacAddress, Prefix};

const STEPS: usize = 1000;
const SEEDS: u64 = 3;
/// The identifier of a table that is added and removed again.
const OTHER: u32 = 4_000_000_000;

/// Of paths with the same action the last one counts, in the place of the first.
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

/// The Ethernet address of a host of either family.
fn mac_of(address: IpAddr) -> MacAddress {
    let octets = match address {
        IpAddr::V4(address) => address.octets(),
        IpAddr::V6(address) => {
            let [_, _, a, b, .., c] = address.segments();
            [10, a as u8, b as u8, c as u8]
        }
    };
    host_mac(octets.into())
}

/// Whether a frame is an ARP request or a neighbour solicitation.
fn is_question(frame: &[u8]) -> bool {
    match frame[12..14] {
        [8, 0] => false,
        [0x86, 0xdd] => frame[20] == ICMP6 && frame[54] == 135,
        _ => true,
    }
}

struct Trial {
    family: Family,
    bed: Bed,
    /// The ports where packets come in, by table. They are never changed.
    entries: Vec<(TableIndex, Port)>,
    /// One more table, which is added and removed again.
    other: Option<TableIndex>,
    settings: Settings,
    random: Random,
}

impl Trial {
    fn address(&mut self) -> IpAddr {
        let random = &mut self.random;
        let [a, b, c] = [3, 2, 8].map(|of| random.below(of) as u16);
        match self.family {
            Family::Ip4 => Ipv4Addr::new(10, a as u8, b as u8, c as u8).into(),
            Family::Ip6 => Ipv6Addr::new(0x2001, 0xdb8, a, b, 0, 0, 0, c).into(),
        }
    }

    /// One of `lengths`, given in bits of IPv4; for IPv6, the length that separates the same addresses.
    fn length(&mut self, lengths: &[u8]) -> u8 {
        let length = *self.random.of(lengths);
        match (self.family, length) {
            (Family::Ip4, _) | (_, 0) => length,
            (_, 8) => 32,
            (_, 9..=16) => 32 + length,
            (_, 17..=24) => 40 + length,
            _ => 96 + length,
        }
    }

    fn any_port(&mut self) -> InterfaceIndex {
        let all: Vec<InterfaceIndex> = self.settings.ports.keys().copied().collect();
        // Sometimes an interface that does not exist.
        if all.is_empty() || self.random.one_in(20) { InterfaceIndex(99) } else { *self.random.of(&all) }
    }

    fn any_prefix(&mut self) -> Prefix {
        let length = self.length(&[0, 8, 15, 16, 24, 29, 30, 31, 32]);
        Prefix::new(self.address(), length).unwrap()
    }

    /// An address on none of the networks.
    fn far(&self, number: u16) -> IpAddr {
        match self.family {
            Family::Ip4 => Ipv4Addr::from(u32::from(number)).into(),
            Family::Ip6 => Ipv6Addr::new(0xfd01, 0, 0, 0, 0, 0, 0, number).into(),
        }
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
                    let next_hop = if count > 64 { self.far(paths.len() as u16 + 1) } else { self.address() };
                    let interface = self.random.one_in(3).then(|| self.any_port());
                    PathAction::Via { next_hop, interface }
                }
                4 => [PathAction::Drop, PathAction::Punt][self.random.below(2)].clone(),
                5 => [PathAction::Unreachable, PathAction::Prohibit][self.random.below(2)].clone(),
                6 => PathAction::LocalAnywhere,
                7 => PathAction::Lookup(self.any_table()),
                8 => PathAction::ViaIn { next_hop: self.address(), table: self.any_table() },
                _ => PathAction::Attached(self.any_port()),
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

    /// One operation, on the router and on the settings. An operation that fails must change nothing.
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
            let port = self.bed.port_that_finishes(&name, TxOffloads::default());
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
        let length = self.length(&[16, 24, 29, 29, 30, 31, 32]);
        let prefix = Prefix::new(address, length).unwrap();
        match prefix {
            Prefix::V4(prefix) => self.bed.router.add_address(index, prefix)?,
            Prefix::V6(prefix) => self.bed.router.add_address6(index, prefix)?,
        }
        self.settings.ports.get_mut(&index).unwrap().2.push(prefix);
        Ok(())
    }

    fn remove_address(&mut self) -> Result<(), Error> {
        let index = self.any_port();
        let known = self.settings.ports.get(&index).map(|(_, _, addresses)| addresses.clone()).unwrap_or_default();
        let prefix = if known.is_empty() { self.any_prefix() } else { *self.random.of(&known) };
        match prefix {
            Prefix::V4(prefix) => self.bed.router.remove_address(index, prefix)?,
            Prefix::V6(prefix) => self.bed.router.remove_address6(index, prefix)?,
        }
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

    /// Many routes at once, as a routing daemon changes them.
    fn change_routes(&mut self) -> Result<(), Error> {
        let table = self.any_table();
        let mut batch = Batch::new(self.family, table);
        let lists: Vec<Vec<Path>> = (0..3).map(|_| self.any_paths()).collect();
        let paths: Vec<Paths> = lists.iter().map(|paths| batch.paths(paths.clone())).collect();
        let mut wanted: BTreeMap<Prefix, Option<usize>> = BTreeMap::new();
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
            // A route that would lead through itself is refused and keeps its old paths.
            let is = self.bed.router.ip.routes_in(self.family, table).get(prefix);
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
        let all: Vec<(TableIndex, Prefix)> = self.settings.routes.keys().copied().collect();
        let route = if all.is_empty() || self.random.one_in(4) {
            (self.any_table(), self.any_prefix().network())
        } else {
            *self.random.of(&all)
        };
        let known = self.settings.routes.get(&route).cloned().unwrap_or_default();
        let mut paths = known.clone();
        paths.retain(|_| self.random.one_in(2));
        if self.random.one_in(10) {
            paths.push(Path::new(PathAction::Via { next_hop: self.far(9), interface: None }));
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
        self.bed.router.set_interface_table(index, self.family, table)?;
        self.settings.table_of.insert(index, table);
        Ok(())
    }

    /// Counting must make no difference to packets.
    fn count_route(&mut self) -> Result<(), Error> {
        let (table, prefix, counted) = (self.any_table(), self.any_prefix().network(), !self.random.one_in(3));
        self.bed.router.count_route(table, prefix, counted)
    }

    /// Adds the additional table, or removes it with its routes.
    fn change_other(&mut self) -> Result<(), Error> {
        match self.other {
            None => self.other = Some(self.bed.router.add_table(self.family, OTHER)?),
            Some(table) => {
                self.bed.router.remove_table(self.family, OTHER)?;
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
        let mut mac = mac_of(key.address);
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
        // The smallest MTU of IPv6.
        let least = if self.family == Family::Ip6 { wire::ipv6::MIN_MTU } else { 0 };
        let mtu = least + self.random.below(8_000) as u16;
        self.bed.router.set_mtu(index, mtu)?;
        let mac = MacAddress([2, 7, 7, 7, 7, self.random.next() as u8]);
        self.bed.router.set_mac(index, mac)
    }

    /// Sends an ICMP error: the router must not answer it, and it is not about a packet of the router's.
    fn send(&mut self, entry: usize, destination: IpAddr) {
        let (port, to) = (&self.entries[entry].1, destination.to_string());
        let any = self.random.next();
        match self.family {
            Family::Ip4 => {
                let mut packet = Packet::new("192.168.0.2", &to, ICMP, &icmp(3, 0, 0, &[0; 28]));
                packet.id = any as u16;
                port.receive_packet(&packet);
            }
            Family::Ip6 => {
                let packet = Packet6::icmp("fd00::2", &to, (1, 0), 0, &[]);
                let packet = Packet6 { label: any as u32 & 0xf_ffff, ..packet };
                port.receive(packet.frame(port.mac, mac_of(ip6("fd00::2").into())));
            }
        }
    }

    /// Sends a packet and returns what became of it.
    fn observe(&mut self, entry: usize, destination: IpAddr) -> Fate {
        self.bed.run(); // announcements
        self.settings.ports.values().for_each(|(port, ..)| drop(port.sent()));
        self.send(entry, destination);
        let moved = self.bed.errors_of(|_| {});
        let mut fates: Vec<Fate> = moved
            .keys()
            .map(|(_, reason)| match reason.as_str() {
                "blackholed packets" | "directed broadcast not sent on" | "too many tables in a row" => Fate::Dropped,
                "punted, but no host interface takes it" | "ip6 is not punted" => Fate::Punted,
                "ICMP type not handled" | "ICMPv6 message that asks for nothing" => Fate::Local,
                "no ICMP error about an ICMP error" | "no ICMPv6 error about an ICMPv6 error" => Fate::Refused,
                other => panic!("{other}: {moved:?} {destination}"),
            })
            .collect();
        let mut asked = Vec::new();
        for (port, ..) in self.settings.ports.values() {
            for frame in port.sent() {
                match is_question(&frame) {
                    false => fates.push(Fate::Sent(port.index, MacAddress(frame[..6].try_into().unwrap()))),
                    true => asked.push(port.index),
                }
            }
        }
        if self.bed.held() > 0 {
            fates.extend(asked.into_iter().map(Fate::Held));
            (0..=REQUESTS).for_each(|_| self.bed.advance(Duration::from_millis(1001)));
            // Forget hosts that did not answer, so that they are asked again.
            self.bed.router.flush_learned(None);
            self.bed.run();
        }
        assert_eq!(fates.len(), 1, "{fates:?}");
        assert_eq!((self.bed.held(), self.bed.buffers_in_use()), (0, 0));
        fates[0]
    }

    /// Every object that a route reaches exists once, and no other does.
    fn check_objects(&self) {
        let ip = &self.bed.router.ip;
        let mut reached: BTreeSet<u32> = self.bed.router.neighbours.adjacencies().collect();
        let is_object = |leaf: &Leaf| matches!(leaf.class(), router::ip::class::ADJACENCY | router::ip::class::GLEAN);
        // The objects that interfaces use for their link-local destinations.
        let on_link = |interface: &Interface| Ip6View::new(&interface.ip6).on_link;
        reached.extend(self.bed.router.interfaces.iter().filter_map(on_link));
        for leaf in ip.leaves() {
            match ip.buckets(leaf) {
                Some(buckets) => {
                    reached.insert(leaf.index());
                    reached.extend(buckets.iter().filter(|leaf| is_object(leaf)).map(|leaf| leaf.index()));
                }
                None => reached.extend(Some(leaf).filter(is_object).map(Leaf::index)),
            }
        }
        assert_eq!(ip.objects(), reached.len());
    }

    fn remove_all(&mut self) {
        let (family, router) = (self.family, &mut self.bed.router);
        let routes: Vec<(TableIndex, Prefix)> = self.settings.routes.keys().copied().collect();
        let neighbours: Vec<NeighbourKey> = self.settings.neighbours.keys().copied().collect();
        let remove = |(table, prefix)| router.remove_route_in(table, prefix, Source::Config, &[]).unwrap();
        routes.into_iter().for_each(remove);
        neighbours.into_iter().for_each(|key| router.remove_neighbour(key).unwrap());
        let ports: Vec<InterfaceIndex> = router.interfaces.iter().map(|interface| interface.index).collect();
        ports.into_iter().for_each(|index| router.delete_interface(index).unwrap());
        let counted: Vec<_> = router.ip.counted().collect();
        counted.into_iter().for_each(|(table, prefix)| router.count_route(table, prefix, false).unwrap());
        let tables: Vec<u32> = router.ip.table_ids(family).map(|(_, id)| id).filter(|id| *id != 0).collect();
        tables.into_iter().for_each(|id| router.remove_table(family, id).unwrap());
        self.bed.run();
    }
}

#[test]
fn after_any_operations_the_router_is_what_its_settings_say_and_ends_empty() {
    run_trials(Family::Ip4);
}

#[test]
fn so_it_is_of_ip6() {
    run_trials(Family::Ip6);
}

fn run_trials(family: Family) {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    (1..=SEEDS).for_each(|seed| run_trial(family, seed, &mut seen));
    // The test proves little if all packets meet the same fate.
    for name in ["sent", "held", "dropped", "punted", "local", "refused"] {
        assert!(seen.get(name).is_some_and(|count| *count > SEEDS as usize * STEPS / 80), "{seen:?}");
    }
}

/// Random operations; after each, packets are sent and their fates are counted.
fn run_trial(family: Family, seed: u64, seen: &mut BTreeMap<&'static str, usize>) {
    let mut bed = Bed::new();
    bed.command("set ip6 dad transmits 0").unwrap();
    let nodes = bed.router.graph.nodes().len();
    // The same addresses in each table.
    let entries = [0, 7, 8].map(|id| {
        let table = if id == 0 { TableIndex::DEFAULT } else { bed.router.add_table(family, id).unwrap() };
        let port = bed.port_that_finishes(&format!("entry{id}"), TxOffloads::default());
        bed.router.set_interface_table(port.index, family, table).unwrap();
        match family {
            Family::Ip4 => bed.router.add_address(port.index, "192.168.0.1/30".parse().unwrap()).unwrap(),
            Family::Ip6 => bed.router.add_address6(port.index, "fd00::1/126".parse().unwrap()).unwrap(),
        }
        bed.router.set_admin(port.index, true).unwrap();
        (table, port)
    });
    let (settings, random) = (Settings::default(), Random::new(seed));
    let mut trial = Trial { family, bed, entries: entries.into(), other: None, settings, random };
    for step in 0..STEPS {
        trial.step();
        trial.check_objects();
        assert_eq!(trial.bed.router.ip.audit(), Ok(()), "seed {seed}, step {step}");
        for _ in 0..3 {
            let destination = trial.address();
            let entry = trial.random.below(trial.entries.len());
            let expected = trial.settings.fates(trial.entries[entry].0, destination, 1);
            let fate = trial.observe(entry, destination);
            assert!(
                expected.contains(&fate),
                "{family:?}, seed {seed}, step {step}: {destination}: {fate:?}, not {expected:?}"
            );
            *seen.entry(fate.name()).or_default() += 1;
        }
    }
    trial.remove_all();
    let router = &trial.bed.router;
    assert_eq!(
        (router.ip.routes_in(family, TableIndex::DEFAULT).len(), router.ip.objects(), router.neighbours.len()),
        (0, 0, 0),
        "seed {seed}: {:?}",
        router.ip.routes_in(family, TableIndex::DEFAULT)
    );
    assert_eq!(trial.bed.buffers_in_use(), 0);
    // The input node of the test driver stays.
    assert_eq!(trial.bed.router.graph.nodes().len(), nodes + 1);
    assert_eq!(trial.bed.router.graph.domain().pending(), 0);
}
