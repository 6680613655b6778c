//! Adjacencies: the objects that hold what a neighbour's packets begin with, shared by all lists of paths that lead
//! there with the same labels. They follow the neighbours.

use super::control::{Ip, TableIndex};
use super::marks::Marks;
use super::table::PART;
use crate::interface::Interface;
use crate::interface::exit::Exit;
use crate::ip::class;
use crate::ip::labels::out::OutLabel;
use crate::neighbour_key::NeighbourKey;
use crate::{Error, Router};
use graph::InterfaceIndex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};
use std::ops::Bound;
use tables::object::{MAX_REWRITE, MIDCHAIN_LINES};
use tables::{Adjacency, Leaf, Object, Replacement};
use wire::ethernet::EtherType;
use wire::mpls::ENTRY_LEN;
use wire::{Family, MacAddress};

/// What is sent by an adjacency.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Inside {
    Ip(Family),
    /// What begins with a label, which is taken off.
    Labelled,
}

/// What makes an adjacency the same as another.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AdjacencyKey {
    pub neighbour: NeighbourKey,
    pub inside: Inside,
    /// Labels that are put on, the top one first.
    pub push: Vec<OutLabel>,
    /// A label that is taken off leaves what it has to the one below.
    pub is_uniform: bool,
    /// The tunnel that its packets are counted for.
    pub tunnel: Option<InterfaceIndex>,
    /// Its interface puts a header in front of packets: the object is a midchain.
    pub is_stacked: bool,
}

impl From<NeighbourKey> for AdjacencyKey {
    fn from(neighbour: NeighbourKey) -> AdjacencyKey {
        AdjacencyKey {
            neighbour,
            inside: Inside::Ip(neighbour.family()),
            push: Vec::new(),
            is_uniform: false,
            tunnel: None,
            is_stacked: false,
        }
    }
}

impl AdjacencyKey {
    /// The same for an interface that puts a header in front of IP packets, whatever the next hop; `None` when labels
    /// would be behind that header.
    pub fn stacked(self) -> Option<AdjacencyKey> {
        let Inside::Ip(family) = self.inside else { return None };
        let neighbour = NeighbourKey { address: family.unspecified(), ..self.neighbour };
        (!self.is_labelled()).then_some(AdjacencyKey { neighbour, is_stacked: true, ..self })
    }

    /// Whether its packets begin with a label on the wire, or with one that is not known here.
    fn is_labelled(&self) -> bool {
        !self.push.is_empty() || self.inside == Inside::Labelled
    }

    /// How many of its labels, from the bottom on, copy what is inside.
    fn copies(&self) -> usize {
        self.push.iter().rev().take_while(|label| label.copies).count()
    }
}

/// An object and how many hold it.
struct Shared {
    object: u32,
    users: usize,
}

/// All of them, and the ways back from an object, and to those of a neighbour.
#[derive(Default)]
pub(super) struct Adjacencies {
    by_key: HashMap<AdjacencyKey, Shared>,
    by_object: HashMap<u32, AdjacencyKey>,
    by_neighbour: BTreeMap<NeighbourKey, BTreeSet<u32>>,
}

impl Adjacencies {
    /// Gives memory back that those had which are gone.
    pub fn trim(&mut self) {
        self.by_key.shrink_to_fit();
        self.by_object.shrink_to_fit();
    }
}

/// The object that a leaf names.
pub fn object_of(leaf: Leaf) -> u32 {
    leaf.index()
}

impl Ip {
    /// What is known of the adjacency of a leaf, when it is of one.
    pub(crate) fn adjacency_of(&self, leaf: Leaf) -> Option<&AdjacencyKey> {
        self.adjacencies.by_object.get(&object_of(leaf)).filter(|_| class::is_adjacency(leaf))
    }

    /// The neighbour of an adjacency's leaf.
    pub fn neighbour_of(&self, leaf: Leaf) -> Option<NeighbourKey> {
        self.adjacency_of(leaf).map(|key| key.neighbour)
    }

    /// All adjacencies, each with its neighbour.
    pub(super) fn adjacencies(&self) -> impl Iterator<Item = (Leaf, NeighbourKey)> + '_ {
        let of = |(object, key): (&u32, &AdjacencyKey)| {
            let class = match key.neighbour.address.is_unspecified() {
                _ if key.is_stacked => class::MIDCHAIN,
                true => class::GLEAN,
                false => class::ADJACENCY,
            };
            (Leaf::new(class, *object), key.neighbour)
        };
        self.adjacencies.by_object.iter().map(of)
    }

    /// Gives up a leaf's share of its object.
    pub fn release(&mut self, leaf: Leaf) {
        let Some(key) = self.adjacency_of(leaf).cloned() else { return };
        let Adjacencies { by_key, by_object, by_neighbour } = &mut self.adjacencies;
        let shared = by_key.get_mut(&key).expect("just found");
        shared.users -= 1;
        if shared.users > 0 {
            return;
        }
        let object = shared.object;
        self.objects.remove(object);
        by_key.remove(&key);
        by_object.remove(&object);
        if let Some(objects) = by_neighbour.get_mut(&key.neighbour) {
            objects.remove(&object);
            if objects.is_empty() {
                by_neighbour.remove(&key.neighbour);
            }
        }
    }
}

impl Router {
    /// The adjacency object of a neighbour, with one more user.
    pub fn share_adjacency(&mut self, key: impl Into<AdjacencyKey>) -> Result<u32, Error> {
        let mut key = key.into();
        // Whoever asks: no packet leaves such an interface without its header.
        if !key.is_stacked
            && self.ip.stacks.is_stacked(key.neighbour.interface)
            && let Some(stacked) = key.clone().stacked()
        {
            key = stacked;
        }
        if let Some(shared) = self.ip.adjacencies.by_key.get_mut(&key) {
            shared.users += 1;
            return Ok(shared.object);
        }
        let lines = if key.is_stacked { MIDCHAIN_LINES } else { 1 };
        let object = self.ip.objects.insert_with_room(&self.describe_object(&key), lines)?;
        self.ip.adjacencies.by_neighbour.entry(key.neighbour).or_default().insert(object);
        self.ip.adjacencies.by_object.insert(object, key.clone());
        self.ip.adjacencies.by_key.insert(key, Shared { object, users: 1 });
        Ok(object)
    }

    /// Whether so many labels fit behind the link header of an interface.
    pub(super) fn has_room_for_labels(&self, interface: InterfaceIndex, labels: usize) -> bool {
        let header = |interface: &Interface| interface.link_header(MacAddress::BROADCAST, EtherType::MPLS).len();
        self.interfaces.get(interface).is_ok_and(|there| header(there) + labels * ENTRY_LEN <= MAX_REWRITE)
    }

    /// The object of an adjacency as it is at present.
    fn describe_object(&self, key: &AdjacencyKey) -> Object {
        let interface = self.interfaces.get(key.neighbour.interface).ok().filter(|_| key.is_stacked);
        let midchain = interface.and_then(|interface| self.midchain_of(interface, key.neighbour.family()));
        midchain.unwrap_or_else(|| Object::Adjacency(self.describe_adjacency(key)))
    }

    /// What an adjacency is at present: complete when the neighbour's address is known.
    fn describe_adjacency(&self, key: &AdjacencyKey) -> Adjacency {
        let AdjacencyKey { neighbour, inside, ref push, is_uniform, tunnel, .. } = *key;
        let tunnel = tunnel.and_then(|tunnel| self.interfaces.get(tunnel).ok());
        let interface = self.interfaces.get(neighbour.interface).ok();
        let alone = interface.filter(|interface| !interface.has_neighbours());
        let mac = match neighbour.address == Ipv4Addr::BROADCAST {
            true => Some(MacAddress::BROADCAST),
            false => alone.map(|interface| interface.mac).or_else(|| self.neighbours.mac_in_use(&neighbour)),
        };
        let exit = match inside {
            Inside::Ip(family) => Exit::Ip(family),
            Inside::Labelled => Exit::Labelled,
        };
        let edges = self.ip.rewrite_edges(exit);
        let resolving = match neighbour.family() {
            Family::Ip4 => edges.arp,
            Family::Ip6 => edges.discover,
        };
        let labels = (push.len() * ENTRY_LEN) as u16;
        let mtu = interface.map_or(0, |interface| match inside {
            Inside::Ip(family) if push.is_empty() => interface.ip_mtu(family),
            Inside::Ip(family) => interface.ip_mtu(family).min(interface.mpls_mtu.saturating_sub(labels)),
            // From the label on that is taken off.
            Inside::Labelled => (interface.mpls_mtu + ENTRY_LEN as u16).saturating_sub(labels),
        });
        let own = |tunnel: &Interface| match inside {
            Inside::Ip(family) => tunnel.ip_mtu(family),
            Inside::Labelled => tunnel.mpls_mtu,
        };
        let mtu = tunnel.map_or(mtu, |tunnel| mtu.min(own(tunnel)));
        let copies = key.copies();
        let is_stale = self.neighbours.is_stale(&neighbour);
        let mut adjacency = Adjacency {
            edge: resolving,
            complete: false,
            mtu,
            interface: neighbour.interface.0,
            next_hop: neighbour.address,
            rewrite: Vec::new(),
            owner: Marks { labels: push.len(), copies, is_uniform, is_stale }.owner(),
        };
        if let (Some(interface), Some(mac)) = (interface, mac) {
            adjacency.complete = true;
            adjacency.edge = match edges.impose {
                Some(impose) if copies > 0 => impose,
                _ if is_stale => edges.stale,
                _ => tunnel.unwrap_or(interface).exit(exit),
            };
            let ethertype = match inside {
                _ if key.is_labelled() => EtherType::MPLS,
                Inside::Ip(Family::Ip4) => EtherType::IPV4,
                _ => EtherType::IPV6,
            };
            adjacency.rewrite = interface.link_header(mac, ethertype).to_vec();
            adjacency.rewrite.extend(push.iter().flat_map(|label| label.entry.to_bytes()));
            if matches!(inside, Inside::Ip(_)) && !push.is_empty() {
                // The bottom of the stack.
                let at = adjacency.rewrite.len() - 2;
                adjacency.rewrite[at] |= 1;
            }
        }
        adjacency
    }

    /// Rewrites the objects of adjacencies on an interface (all neighbours, or one) after something that they are made
    /// of has changed. False: there is no room to change all of them.
    pub(crate) fn refresh_adjacencies(&mut self, interface: InterfaceIndex, address: Option<IpAddr>) -> bool {
        if let Some(address) = address {
            return self.refresh_adjacencies_to(NeighbourKey { interface, address });
        }
        let mut all = true;
        let mut from = Bound::Included(NeighbourKey { interface, address: Ipv4Addr::UNSPECIFIED.into() });
        loop {
            let rest = self.ip.adjacencies.by_neighbour.range((from, Bound::Unbounded));
            let some = rest.map(|(neighbour, _)| *neighbour).take_while(|neighbour| neighbour.interface == interface);
            let some: Vec<NeighbourKey> = some.take(PART).collect();
            let Some(last) = some.last() else { return all };
            from = Bound::Excluded(*last);
            for neighbour in some {
                all &= self.refresh_adjacencies_to(neighbour);
                self.breathe();
            }
        }
    }

    fn refresh_adjacencies_to(&mut self, neighbour: NeighbourKey) -> bool {
        let Adjacencies { by_object, by_neighbour, .. } = &self.ip.adjacencies;
        let objects = by_neighbour.get(&neighbour).into_iter().flatten();
        let keys: Vec<(AdjacencyKey, u32)> = objects.map(|object| (by_object[object].clone(), *object)).collect();
        let mut all = true;
        for (key, object) in keys {
            let described = self.describe_object(&key);
            if let Err(error) = self.ip.objects.replace(object, &described) {
                log::error!("adjacency to {} is not up to date: {error}", key.neighbour.address);
                all = false;
            }
        }
        all
    }

    /// The adjacencies to a neighbour as they are from now on, to be carried out by a worker; none
    /// when no route needs one.
    pub(crate) fn prepare_adjacencies(&mut self, key: NeighbourKey) -> Vec<Replacement> {
        let Adjacencies { by_object, by_neighbour, .. } = &self.ip.adjacencies;
        let objects = by_neighbour.get(&key).into_iter().flatten();
        let all: Vec<(AdjacencyKey, u32)> = objects.map(|object| (by_object[object].clone(), *object)).collect();
        let mut prepared = Vec::with_capacity(all.len());
        for (adjacency, object) in all {
            let described = self.describe_object(&adjacency);
            match self.ip.objects.prepare(object, &described) {
                Ok(replacement) => prepared.push(replacement),
                Err(error) => log::error!("adjacency to {} is not up to date: {error}", key.address),
            }
        }
        prepared
    }

    /// The adjacency of a leaf of routes of a family, in words: `ipv4 via 10.0.0.1 e0: mtu:1500 next:3 0200...`.
    pub fn adjacency_text(&self, family: Family, leaf: Leaf) -> String {
        let plain = |word: &str| format!("[@0]: dpo-{word}");
        let (short, long) = match family {
            Family::Ip4 => ("ip4", "ipv4"),
            Family::Ip6 => ("ip6", "ipv6"),
        };
        match leaf.class() {
            class::DROP => plain(&format!("drop {short}")),
            class::PUNT => plain(&format!("punt {short}")),
            // VPP's words for an object that answers.
            class::UNREACHABLE => format!("[@0]: {short}-null action:send-unreachable"),
            class::PROHIBIT => format!("[@0]: {short}-null action:send-prohibited"),
            class::BROADCAST => plain(&format!("drop {short} directed-broadcast")),
            class::LOOKUP => {
                let table = TableIndex(leaf.index() as u16);
                format!("[@{}]: dst-address,unicast lookup in {long}-VRF:{}", table.0, self.ip.id_of(table))
            }
            class::RECEIVE => match self.interfaces.get(InterfaceIndex(leaf.index())) {
                Ok(interface) => format!("[@{}]: dpo-receive: on {}", leaf.index(), interface.name),
                Err(_) => plain("receive"),
            },
            class::OBJECT => match self.ip.customs.of(leaf) {
                Some((id, name)) => format!("[@{}]: {name} {id}", leaf.index()),
                None => plain("unknown"),
            },
            _ => match self.ip.adjacency_of(leaf) {
                Some(key) => self.describe_in_words(key, leaf),
                None => plain("unknown"),
            },
        }
    }

    fn describe_in_words(&self, key: &AdjacencyKey, leaf: Leaf) -> String {
        let adjacency = self.describe_adjacency(key);
        let name = self.interfaces.get(key.neighbour.interface).map_or("?".into(), |there| there.name.clone());
        let bytes: String = adjacency.rewrite.iter().map(|byte| format!("{byte:02x}")).collect();
        let (long, asking) = match key.neighbour.family() {
            Family::Ip4 => ("ipv4", "arp-ipv4"),
            Family::Ip6 => ("ipv6", "arp-ipv6"),
        };
        let long = if key.is_labelled() { "mpls" } else { long };
        let what = match (leaf.class(), adjacency.complete) {
            (class::GLEAN, _) => format!("{long}-glean: {name}:"),
            (_, true) => format!("{long} via {} {name}:", key.neighbour.address),
            (_, false) => format!("{asking}: via {} {name}:", key.neighbour.address),
        };
        let object = object_of(leaf);
        if key.is_stacked
            && let Some(text) = self.midchain_text(key.neighbour.interface)
        {
            let hop = key.neighbour.address;
            return format!("[@{object}]: {long} via {hop} {name}: mtu:{} {text}", adjacency.mtu);
        }
        let tail = format!("mtu:{} next:{} flags:[] {bytes}", adjacency.mtu, adjacency.edge);
        let itself = format!("[@{object}]: {what} {}", tail.trim_end());
        match self.labels_in_words(key) {
            labels if labels.is_empty() => itself,
            labels => format!("[@{object}]: mpls-label[@{object}]:{labels}\n        {itself}"),
        }
    }

    /// `[17:64:0:eos]`: each label with its time to live and traffic class, or where those come from.
    fn labels_in_words(&self, key: &AdjacencyKey) -> String {
        let mut text = String::new();
        for (at, label) in key.push.iter().enumerate() {
            let is_last = at + 1 == key.push.len();
            let bottom = match key.inside {
                Inside::Ip(_) if is_last => "eos",
                Inside::Labelled if is_last => "copy",
                _ => "neos",
            };
            let entry = label.entry;
            let _ = match label.copies {
                true => write!(text, "[{}:copy:copy:{bottom}]", entry.label()),
                false => write!(text, "[{}:{}:{}:{bottom}]", entry.label(), entry.ttl(), entry.traffic_class()),
            };
        }
        text
    }
}
