//! Adjacencies: the objects that hold what a neighbour's packets begin with, shared by all lists of paths that lead
//! there. They follow the neighbours.

use super::control::{Ip4, TableIndex};
use crate::arp::NeighbourKey;
use crate::{Error, Router};
use graph::InterfaceIndex;
use std::collections::HashMap;
use std::net::Ipv4Addr;
use tables::{Adjacency, Leaf, Object, Replacement, kind};
use wire::MacAddress;
use wire::ethernet::EtherType;

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

impl Ip4 {
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
        if let Some(shared) = self.ip4.adjacencies.by_neighbour.get_mut(&key) {
            shared.users += 1;
            return Ok(shared.object);
        }
        let object = self.ip4.objects.insert(&Object::Adjacency(self.describe_adjacency(&key)))?;
        self.ip4.adjacencies.by_neighbour.insert(key, Shared { object, users: 1 });
        self.ip4.adjacencies.by_object.insert(object, key);
        Ok(object)
    }

    /// What an adjacency is at present: complete when the neighbour's address is known.
    fn describe_adjacency(&self, key: &NeighbourKey) -> Adjacency {
        let interface = self.interfaces.get(key.interface).ok();
        let loopback = interface.filter(|interface| interface.is_loopback());
        let neighbour = match key.address {
            Ipv4Addr::BROADCAST => Some(MacAddress::BROADCAST),
            _ => loopback.map(|interface| interface.mac).or_else(|| self.neighbours.mac_in_use(key)),
        };
        let mut adjacency = Adjacency {
            edge: super::ARP_EDGE,
            complete: false,
            mtu: interface.map_or(0, |interface| interface.ip4_mtu),
            interface: key.interface.0,
            next_hop: key.address.into(),
            rewrite: Vec::new(),
        };
        if let (Some(interface), Some(mac)) = (interface, neighbour) {
            adjacency.complete = true;
            adjacency.edge = interface.rewrite_edge;
            adjacency.rewrite = interface.link_header(mac, EtherType::IPV4).to_vec();
        }
        adjacency
    }

    /// Rewrites the objects of adjacencies on an interface (all neighbours, or one) after
    /// something that they are made of has changed.
    pub(crate) fn refresh_adjacencies(&mut self, interface: InterfaceIndex, address: Option<Ipv4Addr>) {
        let keys: Vec<(NeighbourKey, u32)> = match address {
            Some(address) => {
                let key = NeighbourKey { interface, address };
                self.ip4.adjacencies.by_neighbour.get(&key).map(|shared| (key, shared.object)).into_iter().collect()
            }
            None => {
                let on_interface =
                    self.ip4.adjacencies.by_neighbour.iter().filter(|(key, _)| key.interface == interface);
                on_interface.map(|(key, shared)| (*key, shared.object)).collect()
            }
        };
        for (key, object) in keys {
            let adjacency = self.describe_adjacency(&key);
            if let Err(error) = self.ip4.objects.replace(object, &Object::Adjacency(adjacency)) {
                log::error!("adjacency to {} is not up to date: {error}", key.address);
            }
        }
    }

    /// The adjacency to a neighbour as it is from now on, to be carried out by a worker; none
    /// when no route needs it.
    pub(crate) fn prepare_adjacency(&mut self, key: NeighbourKey) -> Option<Replacement> {
        let object = self.ip4.adjacencies.by_neighbour.get(&key)?.object;
        let adjacency = self.describe_adjacency(&key);
        let prepared = self.ip4.objects.prepare(object, &Object::Adjacency(adjacency));
        prepared.inspect_err(|error| log::error!("adjacency to {} is not up to date: {error}", key.address)).ok()
    }

    /// The adjacency of a leaf, in words: `ipv4 via 10.0.0.1 e0: mtu:1500 next:3 0200...`.
    pub(crate) fn adjacency_text(&self, leaf: Leaf) -> String {
        let plain = |word: &str| format!("[@0]: dpo-{word}");
        match leaf.kind() {
            kind::DROP => plain("drop ip4"),
            kind::PUNT => plain("punt ip4"),
            // VPP's words for an object that answers.
            kind::UNREACHABLE => "[@0]: ip4-null action:send-unreachable".into(),
            kind::PROHIBIT => "[@0]: ip4-null action:send-prohibited".into(),
            kind::BROADCAST => plain("drop ip4 directed-broadcast"),
            kind::LOOKUP => {
                let table = TableIndex(leaf.index() as u16);
                format!("[@{}]: dst-address,unicast lookup in ipv4-VRF:{}", table.0, self.ip4.id_of(table))
            }
            kind::RECEIVE => match self.interfaces.get(InterfaceIndex(leaf.index())) {
                Ok(interface) => format!("[@{}]: dpo-receive: on {}", leaf.index(), interface.name),
                Err(_) => plain("receive"),
            },
            _ => match self.ip4.neighbour_of(leaf) {
                Some(key) => {
                    let adjacency = self.describe_adjacency(&key);
                    let name =
                        self.interfaces.get(key.interface).map_or("?".into(), |interface| interface.name.clone());
                    let bytes: String = adjacency.rewrite.iter().map(|byte| format!("{byte:02x}")).collect();
                    let what = match (leaf.kind(), adjacency.complete) {
                        (kind::GLEAN, _) => format!("ipv4-glean: {name}:"),
                        (_, true) => format!("ipv4 via {} {name}:", key.address),
                        (_, false) => format!("arp-ipv4: via {} {name}:", key.address),
                    };
                    let tail = format!("mtu:{} next:{} flags:[] {bytes}", adjacency.mtu, adjacency.edge);
                    format!("[@{}]: {what} {}", leaf.index(), tail.trim_end())
                }
                None => plain("unknown"),
            },
        }
    }
}
