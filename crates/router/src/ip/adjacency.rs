//! Adjacencies: the objects that hold what a neighbour's packets begin with, shared by all lists of paths that lead
//! there. They follow the neighbours.

use super::control::{Ip, TableIndex};
use crate::neighbour::NeighbourKey;
use crate::{Error, Router};
use graph::InterfaceIndex;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr};
use tables::{Adjacency, Leaf, Object, Replacement, kind};
use wire::ethernet::EtherType;
use wire::{Family, MacAddress};

/// An object and how many hold it.
struct Shared {
    object: u32,
    users: usize,
}

/// All of them, and the way back from an object to its neighbour.
#[derive(Default)]
pub(super) struct Adjacencies {
    by_neighbour: HashMap<NeighbourKey, Shared>,
    by_object: HashMap<u32, NeighbourKey>,
}

impl Ip {
    /// The neighbour of an adjacency's leaf.
    pub fn neighbour_of(&self, leaf: Leaf) -> Option<NeighbourKey> {
        let is_one = matches!(leaf.kind(), kind::ADJACENCY | kind::GLEAN);
        self.adjacencies.by_object.get(&leaf.index()).filter(|_| is_one).copied()
    }

    /// All adjacencies, each with its neighbour.
    pub(super) fn adjacencies(&self) -> impl Iterator<Item = (Leaf, NeighbourKey)> + '_ {
        let of = |(object, key): (&u32, &NeighbourKey)| {
            let kind = if key.address.is_unspecified() { kind::GLEAN } else { kind::ADJACENCY };
            (Leaf::new(kind, *object), *key)
        };
        self.adjacencies.by_object.iter().map(of)
    }

    /// One more holds what a leaf names, if that is shared.
    pub(super) fn hold(&mut self, leaf: Leaf) {
        if let Some(key) = self.neighbour_of(leaf)
            && let Some(shared) = self.adjacencies.by_neighbour.get_mut(&key)
        {
            shared.users += 1;
        }
    }

    /// Gives up a leaf's share of its object.
    pub(crate) fn release(&mut self, leaf: Leaf) {
        let Some(key) = self.neighbour_of(leaf) else { return };
        let shared = self.adjacencies.by_neighbour.get_mut(&key).expect("just found");
        shared.users -= 1;
        if shared.users == 0 {
            self.objects.remove(shared.object);
            self.adjacencies.by_neighbour.remove(&key);
            self.adjacencies.by_object.remove(&leaf.index());
        }
    }
}

impl Router {
    /// The adjacency object of a neighbour, with one more user.
    pub(crate) fn share_adjacency(&mut self, key: NeighbourKey) -> Result<u32, Error> {
        if let Some(shared) = self.ip.adjacencies.by_neighbour.get_mut(&key) {
            shared.users += 1;
            return Ok(shared.object);
        }
        let object = self.ip.objects.insert(&Object::Adjacency(self.describe_adjacency(&key)))?;
        self.ip.adjacencies.by_neighbour.insert(key, Shared { object, users: 1 });
        self.ip.adjacencies.by_object.insert(object, key);
        Ok(object)
    }

    /// What an adjacency is at present: complete when the neighbour's address is known.
    fn describe_adjacency(&self, key: &NeighbourKey) -> Adjacency {
        let interface = self.interfaces.get(key.interface).ok();
        let loopback = interface.filter(|interface| interface.is_loopback());
        let neighbour = match key.address == Ipv4Addr::BROADCAST {
            true => Some(MacAddress::BROADCAST),
            false => loopback.map(|interface| interface.mac).or_else(|| self.neighbours.mac_in_use(key)),
        };
        let (resolving, ethertype) = match key.family() {
            Family::Ip4 => (crate::ip4::ARP_EDGE, EtherType::IPV4),
            Family::Ip6 => (crate::ip6::DISCOVER_EDGE, EtherType::IPV6),
        };
        let mut adjacency = Adjacency {
            edge: resolving,
            complete: false,
            mtu: interface.map_or(0, |interface| interface.ip_mtu(key.family())),
            interface: key.interface.0,
            next_hop: key.address,
            rewrite: Vec::new(),
        };
        if let (Some(interface), Some(mac)) = (interface, neighbour) {
            adjacency.complete = true;
            adjacency.edge = match self.neighbours.is_stale(key) {
                true => crate::ip6::STALE_EDGE,
                false => interface.rewrite_edge(key.family()),
            };
            adjacency.rewrite = interface.link_header(mac, ethertype).to_vec();
        }
        adjacency
    }

    /// Rewrites the objects of adjacencies on an interface (all neighbours, or one) after
    /// something that they are made of has changed.
    pub(crate) fn refresh_adjacencies(&mut self, interface: InterfaceIndex, address: Option<IpAddr>) {
        let keys: Vec<(NeighbourKey, u32)> = match address {
            Some(address) => {
                let key = NeighbourKey { interface, address };
                self.ip.adjacencies.by_neighbour.get(&key).map(|shared| (key, shared.object)).into_iter().collect()
            }
            None => {
                let on_interface =
                    self.ip.adjacencies.by_neighbour.iter().filter(|(key, _)| key.interface == interface);
                on_interface.map(|(key, shared)| (*key, shared.object)).collect()
            }
        };
        for (key, object) in keys {
            let adjacency = self.describe_adjacency(&key);
            if let Err(error) = self.ip.objects.replace(object, &Object::Adjacency(adjacency)) {
                log::error!("adjacency to {} is not up to date: {error}", key.address);
            }
        }
    }

    /// The adjacency to a neighbour as it is from now on, to be carried out by a worker; none
    /// when no route needs it.
    pub(crate) fn prepare_adjacency(&mut self, key: NeighbourKey) -> Option<Replacement> {
        let object = self.ip.adjacencies.by_neighbour.get(&key)?.object;
        let adjacency = self.describe_adjacency(&key);
        let prepared = self.ip.objects.prepare(object, &Object::Adjacency(adjacency));
        prepared.inspect_err(|error| log::error!("adjacency to {} is not up to date: {error}", key.address)).ok()
    }

    /// The adjacency of a leaf of routes of a family, in words: `ipv4 via 10.0.0.1 e0: mtu:1500 next:3 0200...`.
    pub(crate) fn adjacency_text(&self, family: Family, leaf: Leaf) -> String {
        let plain = |word: &str| format!("[@0]: dpo-{word}");
        let (short, long, asking) = match family {
            Family::Ip4 => ("ip4", "ipv4", "arp-ipv4"),
            Family::Ip6 => ("ip6", "ipv6", "arp-ipv6"),
        };
        match leaf.kind() {
            kind::DROP => plain(&format!("drop {short}")),
            kind::PUNT => plain(&format!("punt {short}")),
            // VPP's words for an object that answers.
            kind::UNREACHABLE => format!("[@0]: {short}-null action:send-unreachable"),
            kind::PROHIBIT => format!("[@0]: {short}-null action:send-prohibited"),
            kind::BROADCAST => plain(&format!("drop {short} directed-broadcast")),
            kind::LOOKUP => {
                let table = TableIndex(leaf.index() as u16);
                format!("[@{}]: dst-address,unicast lookup in {long}-VRF:{}", table.0, self.ip.id_of(table))
            }
            kind::RECEIVE => match self.interfaces.get(InterfaceIndex(leaf.index())) {
                Ok(interface) => format!("[@{}]: dpo-receive: on {}", leaf.index(), interface.name),
                Err(_) => plain("receive"),
            },
            _ => match self.ip.neighbour_of(leaf) {
                Some(key) => {
                    let adjacency = self.describe_adjacency(&key);
                    let name =
                        self.interfaces.get(key.interface).map_or("?".into(), |interface| interface.name.clone());
                    let bytes: String = adjacency.rewrite.iter().map(|byte| format!("{byte:02x}")).collect();
                    let what = match (leaf.kind(), adjacency.complete) {
                        (kind::GLEAN, _) => format!("{long}-glean: {name}:"),
                        (_, true) => format!("{long} via {} {name}:", key.address),
                        (_, false) => format!("{asking}: via {} {name}:", key.address),
                    };
                    let tail = format!("mtu:{} next:{} flags:[] {bytes}", adjacency.mtu, adjacency.edge);
                    format!("[@{}]: {what} {}", leaf.index(), tail.trim_end())
                }
                None => plain("unknown"),
            },
        }
    }
}
