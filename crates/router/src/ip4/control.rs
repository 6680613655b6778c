//! The IPv4 routing table as control keeps it.
//!
//! A route is a prefix and, from each source, a list of paths. Those of the best source of
//! which one works resolve to one forwarding object: an adjacency, a glean, or a load balance over
//! several. Objects are shared: every route with the same paths names the same one.
//! Adjacencies follow the neighbours; routes follow addresses and interface state
//! ([`super::dependents`] says which).

use super::dependents::{Dependents, insisted};
use crate::arp::NeighbourKey;
use crate::interface::Interface;
use crate::{Error, Router};
use graph::InterfaceIndex;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::Ipv4Addr;
use tables::fib4::Key;
use tables::{Adjacency, Fib4, Leaf, Object, Objects, Replacement, kind};
use wire::ethernet::EtherType;
use wire::{MacAddress, Prefix4};

/// Most paths of a route.
pub const MAX_PATHS: usize = 64;
/// How far a path's share of buckets may be from its weight.
const BUCKET_TOLERANCE: f64 = 0.1;

/// Who wants a route; the first one wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Source {
    /// An address of an interface.
    Interface,
    /// An operator.
    Config,
    /// A lease names a router.
    Dhcp,
    /// A next hop that another route insists is on the link.
    OnLink,
    /// A resolved neighbour.
    Neighbour,
}

impl Source {
    /// As VPP names it.
    pub fn name(self) -> &'static str {
        match self {
            Source::Interface => "interface",
            Source::Config => "CLI",
            Source::Dhcp => "DHCP",
            Source::OnLink => "on-link",
            Source::Neighbour => "adjacency",
        }
    }
}

/// One way on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Way {
    /// Through a neighbour; the interface follows from the attached networks when it is
    /// not given.
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

/// A way with its share of the traffic.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Path {
    pub way: Way,
    /// 1 to 255.
    pub weight: u8,
}

impl Path {
    pub fn new(way: Way) -> Path {
        Path { way, weight: 1 }
    }
}

/// A prefix of the table.
#[derive(Debug, Default)]
pub struct Route {
    /// By source, the best first.
    pub sources: BTreeMap<Source, Vec<Path>>,
    /// What is in the lookup table, when at least one path of a source works.
    pub installed: Option<Leaf>,
}

/// What shares an object: how many routes name it.
struct Shared {
    object: u32,
    users: usize,
}

/// Control's IPv4 state.
pub struct Ip4 {
    fib: Fib4,
    pub(crate) objects: Objects,
    routes: BTreeMap<Prefix4, Route>,
    dependents: Dependents,
    adjacencies: HashMap<NeighbourKey, Shared>,
    balances: HashMap<Vec<Leaf>, Shared>,
    /// The way back from an object to what it stands for.
    adjacency_keys: HashMap<u32, NeighbourKey>,
    balance_keys: HashMap<u32, Vec<Leaf>>,
}

impl Ip4 {
    pub(crate) fn new(fib: Fib4, objects: Objects) -> Ip4 {
        Ip4 {
            fib,
            objects,
            routes: BTreeMap::new(),
            dependents: Dependents::default(),
            adjacencies: HashMap::new(),
            balances: HashMap::new(),
            adjacency_keys: HashMap::new(),
            balance_keys: HashMap::new(),
        }
    }

    pub fn routes(&self) -> &BTreeMap<Prefix4, Route> {
        &self.routes
    }

    /// Puts a source's paths in the place of those that it had, or takes them away; gives
    /// what was there. The lookup table is not touched.
    fn set_paths(&mut self, prefix: Prefix4, source: Source, paths: Option<Vec<Path>>) -> Option<Vec<Path>> {
        let route = self.routes.entry(prefix).or_default();
        self.dependents.remove(prefix, route);
        let before = match paths {
            Some(paths) => route.sources.insert(source, paths),
            None => route.sources.remove(&source),
        };
        self.dependents.add(prefix, route);
        if route.sources.is_empty() && route.installed.is_none() {
            self.routes.remove(&prefix);
        }
        before
    }

    /// Routes around an address of which some may lead onto an interface, the longest first.
    pub(super) fn attached_around(&self, address: Ipv4Addr) -> impl Iterator<Item = &Route> {
        self.dependents.attached_around(address).filter_map(|prefix| self.routes.get(&prefix))
    }

    /// Whether a route insists that a neighbour is on the link.
    pub(super) fn is_insisted(&self, key: &NeighbourKey) -> bool {
        self.dependents.is_on_link(key)
    }

    /// The route that packets to `address` take.
    pub fn longest_match(&self, address: Ipv4Addr) -> Option<(&Prefix4, &Route)> {
        let (key, _) = self.fib.longest_match(address.into())?;
        let prefix = Prefix4::new(key.address().into(), key.length()).ok()?;
        self.routes.get_key_value(&prefix)
    }

    /// The leaves of a load balance, when `leaf` is one.
    pub fn buckets(&self, leaf: Leaf) -> Option<&[Leaf]> {
        let buckets = self.balance_keys.get(&leaf.index()).filter(|_| leaf.kind() == kind::LOAD_BALANCE);
        buckets.map(Vec::as_slice)
    }

    /// The neighbour of an adjacency's leaf.
    pub fn neighbour_of(&self, leaf: Leaf) -> Option<NeighbourKey> {
        let is_one = matches!(leaf.kind(), kind::ADJACENCY | kind::GLEAN);
        self.adjacency_keys.get(&leaf.index()).filter(|_| is_one).copied()
    }

    /// Forwarding objects in use.
    pub fn objects(&self) -> usize {
        self.objects.len()
    }

    pub fn memory(&self) -> usize {
        self.fib.memory()
    }

    /// Gives up a leaf's share of its object.
    pub(super) fn release(&mut self, leaf: Leaf) {
        match leaf.kind() {
            kind::ADJACENCY | kind::GLEAN => {
                let Some(key) = self.neighbour_of(leaf) else { return };
                let shared = self.adjacencies.get_mut(&key).expect("just found");
                shared.users -= 1;
                if shared.users == 0 {
                    self.objects.remove(shared.object);
                    self.adjacencies.remove(&key);
                    self.adjacency_keys.remove(&leaf.index());
                }
            }
            kind::LOAD_BALANCE => {
                let Some(buckets) = self.buckets(leaf).map(<[Leaf]>::to_vec) else { return };
                let shared = self.balances.get_mut(&buckets).expect("just found");
                shared.users -= 1;
                if shared.users == 0 {
                    self.objects.remove(shared.object);
                    self.balances.remove(&buckets);
                    self.balance_keys.remove(&leaf.index());
                    let mut members = buckets;
                    members.sort_by_key(|leaf| leaf.0);
                    members.dedup();
                    members.into_iter().for_each(|leaf| self.release(leaf));
                }
            }
            _ => {}
        }
    }
}

/// The route to a next hop that is on the link.
fn on_link_route(key: NeighbourKey) -> (Prefix4, Path) {
    let prefix = Prefix4::new(key.address, 32).expect("32 is a length");
    (prefix, Path::new(Way::OnLink { next_hop: key.address, interface: key.interface }))
}

/// Spreads `weights` over a power of two of buckets: the fewest that come within the
/// tolerance, largest remainders first. Gives each path's number of buckets.
fn share_buckets(weights: &[u8]) -> Vec<usize> {
    // A weight of 0 counts as the least there is.
    let weights: Vec<u8> = weights.iter().map(|&weight| weight.max(1)).collect();
    let total: f64 = weights.iter().map(|&weight| weight as f64).sum();
    let most = tables::object::MAX_BUCKETS;
    let mut count = weights.len().next_power_of_two();
    loop {
        let exact: Vec<f64> = weights.iter().map(|&weight| weight as f64 / total * count as f64).collect();
        let mut shares: Vec<usize> = exact.iter().map(|share| *share as usize).collect();
        let mut order: Vec<usize> = (0..weights.len()).collect();
        order.sort_by(|&a, &b| (exact[b].fract()).total_cmp(&exact[a].fract()));
        let left = count - shares.iter().sum::<usize>();
        order.into_iter().take(left).for_each(|path| shares[path] += 1);
        let error: f64 = shares.iter().zip(&exact).map(|(share, exact)| (*share as f64 - exact).abs()).sum();
        let is_close = error / count as f64 <= BUCKET_TOLERANCE && !shares.contains(&0);
        if is_close || count >= most {
            // A path that is there gets some, however small its weight.
            while let Some(without) = shares.iter().position(|share| *share == 0) {
                let largest = shares.iter_mut().max().expect("one is without");
                *largest -= 1;
                shares[without] = 1;
            }
            return shares;
        }
        count *= 2;
    }
}

impl Router {
    /// Adds paths to the route that a source has for a prefix; without one it is made.
    /// With `replace` these paths become the route's only ones.
    ///
    /// # Errors
    /// When a path names an interface that does not exist, there are too many paths, or a
    /// table is full; then nothing has changed.
    pub fn add_route(&mut self, prefix: Prefix4, source: Source, paths: Vec<Path>, replace: bool) -> Result<(), Error> {
        let prefix = prefix.network();
        for path in &paths {
            if let Way::Via { interface: Some(index), .. }
            | Way::OnLink { interface: index, .. }
            | Way::Attached(index)
            | Way::Local(index) = path.way
            {
                self.interfaces.get(index)?;
            }
        }
        let before = self.ip4.routes.get(&prefix).and_then(|route| route.sources.get(&source)).cloned();
        let mut all = if replace { Vec::new() } else { before.clone().unwrap_or_default() };
        for path in paths {
            match all.iter_mut().find(|known| known.way == path.way) {
                Some(known) => known.weight = path.weight,
                None => all.push(path),
            }
        }
        if all.len() > MAX_PATHS {
            return Err(Error::TooManyPaths);
        }
        self.change_route(prefix, source, before.as_deref().unwrap_or_default(), Some(all))
    }

    /// Takes paths off a source's route, or the whole route when none are named.
    ///
    /// # Errors
    /// When there is no such route or path.
    pub fn remove_route(&mut self, prefix: Prefix4, source: Source, paths: &[Path]) -> Result<(), Error> {
        let prefix = prefix.network();
        let missing = || Error::NoSuchRoute(prefix);
        let route = self.ip4.routes.get(&prefix).ok_or_else(missing)?;
        let before = route.sources.get(&source).ok_or_else(missing)?.clone();
        let named = |path: &Path| paths.iter().any(|gone| gone.way == path.way);
        if !paths.iter().all(|gone| before.iter().any(|path| path.way == gone.way)) {
            return Err(Error::NoSuchPath(prefix));
        }
        let left: Vec<Path> = before.iter().filter(|path| !(paths.is_empty() || named(path))).cloned().collect();
        self.change_route(prefix, source, &before, (!left.is_empty()).then_some(left))
    }

    /// Gives a source's route other paths, with all that hangs on it, or changes nothing.
    fn change_route(
        &mut self,
        prefix: Prefix4,
        source: Source,
        before: &[Path],
        paths: Option<Vec<Path>>,
    ) -> Result<(), Error> {
        let after = paths.as_deref().unwrap_or_default();
        let is_attached = |path: &Path| matches!(path.way, Way::Attached(_));
        // A route onto an interface makes next hops reachable, and so does a static neighbour.
        let carries_hops = match source {
            Source::Interface => false,
            Source::Neighbour => before.iter().chain(after).any(|path| !self.is_on_own_network(path)),
            _ => before.iter().chain(after).any(is_attached),
        };
        // Routes that hold next hops on the link rest on themselves.
        let keys = |paths: &[Path]| if source == Source::OnLink { BTreeSet::new() } else { insisted(paths) };
        let (had, wants) = (keys(before), keys(after));
        let mut held = Vec::new();
        for key in wants.difference(&had) {
            if let Err(error) = self.hold_on_link(*key) {
                held.into_iter().for_each(|key| self.let_go_on_link(key));
                return Err(error);
            }
            held.push(*key);
        }
        let previous = self.ip4.set_paths(prefix, source, paths);
        if let Err(error) = self.install(prefix) {
            self.ip4.set_paths(prefix, source, previous);
            held.into_iter().for_each(|key| self.let_go_on_link(key));
            return Err(error);
        }
        had.difference(&wants).for_each(|key| self.let_go_on_link(*key));
        if carries_hops {
            self.install_hops_in(prefix);
        }
        Ok(())
    }

    /// Makes a neighbour reachable for a route that insists on it: by a route of its own, which
    /// also tells `arp-input` that it is to be listened to.
    fn hold_on_link(&mut self, key: NeighbourKey) -> Result<(), Error> {
        if !self.ip4.dependents.insist(key) {
            return Ok(());
        }
        let (prefix, path) = on_link_route(key);
        self.add_route(prefix, Source::OnLink, vec![path], false).inspect_err(|_| {
            self.ip4.dependents.relent(key);
        })
    }

    fn let_go_on_link(&mut self, key: NeighbourKey) {
        if !self.ip4.dependents.relent(key) {
            return;
        }
        let (prefix, path) = on_link_route(key);
        if let Err(error) = self.remove_route(prefix, Source::OnLink, &[path]) {
            log::error!("route {prefix} is not up to date: {error}");
        }
    }

    /// Brings the lookup table in line with a prefix's paths: those of the best source of
    /// which one works. Nothing less will do: a known neighbour's route must not be hidden
    /// by one that leads nowhere, or packets would go round between the glean of its network,
    /// which finds it known, and the lookup.
    pub(crate) fn install(&mut self, prefix: Prefix4) -> Result<(), Error> {
        let Some(route) = self.ip4.routes.get(&prefix) else { return Ok(()) };
        let old = route.installed;
        let sources: Vec<Vec<Path>> = route.sources.values().cloned().collect();
        let mut new = None;
        for paths in sources {
            new = self.resolve(prefix, &paths)?;
            if new.is_some() {
                break;
            }
        }
        let key = Key::new(prefix.address().into(), prefix.length());
        if let Some(leaf) = new
            && new != old
            && let Err(full) = self.ip4.fib.insert(key, leaf)
        {
            self.ip4.release(leaf);
            return Err(full.into());
        }
        if new.is_none() && old.is_some() {
            self.ip4.fib.remove(key);
        }
        if let Some(old) = old {
            self.ip4.release(old);
        }
        let route = self.ip4.routes.get_mut(&prefix).expect("looked up above");
        route.installed = new;
        if route.sources.is_empty() {
            self.ip4.routes.remove(&prefix);
        }
        Ok(())
    }

    fn install_each(&mut self, prefixes: BTreeSet<Prefix4>) {
        for prefix in prefixes {
            if let Err(error) = self.install(prefix) {
                log::error!("route {prefix} is not up to date: {error}");
            }
        }
    }

    /// Brings the routes in line whose next hops are in a network that came or went.
    pub(crate) fn install_hops_in(&mut self, network: Prefix4) {
        let prefixes = self.ip4.dependents.of_hops_in(network).collect();
        self.install_each(prefixes);
    }

    /// Brings the routes in line that lead by an interface whose state has changed: those that
    /// name it, and those whose next hops its networks hold.
    pub(crate) fn install_by(&mut self, index: InterfaceIndex) {
        let dependents = &self.ip4.dependents;
        let mut prefixes: BTreeSet<Prefix4> = dependents.of_interface(index).collect();
        let networks: Vec<Prefix4> = match self.interfaces.get(index) {
            Ok(interface) => interface.addresses.clone(),
            Err(_) => Vec::new(),
        };
        let attached = |prefix: &&Prefix4| {
            let paths = self.ip4.routes.get(prefix).into_iter().flat_map(|route| route.sources.values().flatten());
            paths.into_iter().any(|path| path.way == Way::Attached(index))
        };
        let by_route: Vec<Prefix4> = prefixes.iter().filter(attached).copied().collect();
        for network in networks.iter().chain(&by_route) {
            prefixes.extend(dependents.of_hops_in(*network));
        }
        self.install_each(prefixes);
    }

    /// Routes that have no working path, of those with next hops in a network.
    pub(crate) fn unresolved_in(&self, network: Prefix4) -> usize {
        let prefixes: BTreeSet<Prefix4> = self.ip4.dependents.of_hops_in(network).collect();
        let unresolved = |prefix: &&Prefix4| self.ip4.routes.get(prefix).is_some_and(|route| route.installed.is_none());
        prefixes.iter().filter(unresolved).count()
    }

    /// Operators' paths that name an interface, by prefix and source.
    pub(crate) fn paths_by(&self, index: InterfaceIndex) -> Vec<(Prefix4, Source, Vec<Path>)> {
        let names = |path: &&Path| match path.way {
            Way::Via { interface, .. } => interface == Some(index),
            Way::OnLink { interface, .. }
            | Way::Attached(interface)
            | Way::Broadcast(interface)
            | Way::Local(interface) => interface == index,
            Way::LocalAnywhere | Way::Drop | Way::Punt | Way::Unreachable | Way::Prohibit => false,
        };
        let mut found = Vec::new();
        for prefix in self.ip4.dependents.of_interface(index) {
            for (source, paths) in &self.ip4.routes[&prefix].sources {
                let paths: Vec<Path> = paths.iter().filter(names).cloned().collect();
                if !paths.is_empty() && *source != Source::OnLink {
                    found.push((prefix, *source, paths));
                }
            }
        }
        found
    }

    /// The leaf for some paths of a prefix, counted as one more user of its object; none when no path
    /// works.
    fn resolve(&mut self, prefix: Prefix4, paths: &[Path]) -> Result<Option<Leaf>, Error> {
        let mut leaves: Vec<(Leaf, u8)> = Vec::with_capacity(paths.len());
        for path in paths {
            let leaf = match path.way {
                // An attached host is a neighbour, known or not.
                Way::Attached(interface) if prefix.length() == 32 => {
                    self.resolve_way(&Way::OnLink { next_hop: prefix.address(), interface })
                }
                ref way => self.resolve_way(way),
            };
            match leaf {
                Ok(Some(leaf)) => match leaves.iter_mut().find(|(known, _)| *known == leaf) {
                    // The same way twice is one way with both weights.
                    Some((_, weight)) => {
                        *weight = weight.saturating_add(path.weight);
                        self.ip4.release(leaf);
                    }
                    None => leaves.push((leaf, path.weight)),
                },
                Ok(None) => {}
                Err(error) => {
                    leaves.into_iter().for_each(|(leaf, _)| self.ip4.release(leaf));
                    return Err(error);
                }
            }
        }
        match leaves.as_slice() {
            [] => Ok(None),
            [(leaf, _)] => Ok(Some(*leaf)),
            _ => self.balance(leaves).map(Some),
        }
    }

    /// One load balance over some leaves, whose shares it takes over.
    fn balance(&mut self, leaves: Vec<(Leaf, u8)>) -> Result<Leaf, Error> {
        let weights: Vec<u8> = leaves.iter().map(|(_, weight)| *weight).collect();
        let shares = share_buckets(&weights);
        let buckets: Vec<Leaf> =
            leaves.iter().zip(&shares).flat_map(|((leaf, _), share)| std::iter::repeat_n(*leaf, *share)).collect();
        if let Some(shared) = self.ip4.balances.get_mut(&buckets) {
            shared.users += 1;
            let leaf = Leaf::new(kind::LOAD_BALANCE, shared.object);
            leaves.into_iter().for_each(|(leaf, _)| self.ip4.release(leaf));
            return Ok(leaf);
        }
        match self.ip4.objects.insert(&Object::LoadBalance(buckets.clone())) {
            Ok(object) => {
                // A path without a bucket (its weight is too small) is not a member.
                for ((leaf, _), share) in leaves.iter().zip(&shares) {
                    if *share == 0 {
                        self.ip4.release(*leaf);
                    }
                }
                self.ip4.balance_keys.insert(object, buckets.clone());
                self.ip4.balances.insert(buckets, Shared { object, users: 1 });
                Ok(Leaf::new(kind::LOAD_BALANCE, object))
            }
            Err(full) => {
                leaves.into_iter().for_each(|(leaf, _)| self.ip4.release(leaf));
                Err(full.into())
            }
        }
    }

    fn resolve_way(&mut self, way: &Way) -> Result<Option<Leaf>, Error> {
        match *way {
            Way::Drop => Ok(Some(Leaf::new(kind::DROP, 0))),
            Way::Punt => Ok(Some(Leaf::new(kind::PUNT, 0))),
            Way::Unreachable => Ok(Some(Leaf::new(kind::UNREACHABLE, 0))),
            Way::Prohibit => Ok(Some(Leaf::new(kind::PROHIBIT, 0))),
            // No interface has the index 0.
            Way::LocalAnywhere => Ok(Some(Leaf::new(kind::RECEIVE, 0))),
            Way::Local(index) => Ok(self.is_usable(index).then(|| Leaf::new(kind::RECEIVE, index.0))),
            Way::Attached(interface) if self.is_usable(interface) => {
                let key = NeighbourKey { interface, address: Ipv4Addr::UNSPECIFIED };
                // Behind a loopback is nobody to be asked for: its packets go out, and end, at once.
                let is_loopback = self.interfaces.get(interface).is_ok_and(Interface::is_loopback);
                let kind = if is_loopback { kind::ADJACENCY } else { kind::GLEAN };
                self.share_adjacency(key).map(|object| Some(Leaf::new(kind, object)))
            }
            Way::Broadcast(interface) => {
                let sent_on = self.interfaces.get(interface)?.ip4.directed_broadcast;
                if !sent_on || !self.is_usable(interface) {
                    return Ok(Some(Leaf::new(kind::BROADCAST, 0)));
                }
                let key = NeighbourKey { interface, address: Ipv4Addr::BROADCAST };
                self.share_adjacency(key).map(|object| Some(Leaf::new(kind::ADJACENCY, object)))
            }
            Way::Via { next_hop, interface } => {
                let Some(interface) = self.way_to_hop(next_hop, interface) else { return Ok(None) };
                let key = NeighbourKey { interface, address: next_hop };
                self.share_adjacency(key).map(|object| Some(Leaf::new(kind::ADJACENCY, object)))
            }
            Way::OnLink { next_hop, interface } if self.is_usable(interface) => {
                let key = NeighbourKey { interface, address: next_hop };
                self.share_adjacency(key).map(|object| Some(Leaf::new(kind::ADJACENCY, object)))
            }
            Way::OnLink { .. } | Way::Attached(_) => Ok(None),
        }
    }

    /// The adjacency object of a neighbour, with one more user.
    pub(super) fn share_adjacency(&mut self, key: NeighbourKey) -> Result<u32, Error> {
        if let Some(shared) = self.ip4.adjacencies.get_mut(&key) {
            shared.users += 1;
            return Ok(shared.object);
        }
        let object = self.ip4.objects.insert(&Object::Adjacency(self.describe_adjacency(&key)))?;
        self.ip4.adjacencies.insert(key, Shared { object, users: 1 });
        self.ip4.adjacency_keys.insert(object, key);
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
                self.ip4.adjacencies.get(&key).map(|shared| (key, shared.object)).into_iter().collect()
            }
            None => {
                let on_interface = self.ip4.adjacencies.iter().filter(|(key, _)| key.interface == interface);
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
        let object = self.ip4.adjacencies.get(&key)?.object;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_follow_weights() {
        assert_eq!(share_buckets(&[1, 1]), [1, 1]);
        assert_eq!(share_buckets(&[1, 3]), [1, 3]);
        assert_eq!(share_buckets(&[1]), [1]);
        for weights in [vec![1, 1, 1], vec![5, 2, 1], vec![255, 1], vec![1; 64]] {
            let shares = share_buckets(&weights);
            let (count, total) = (shares.iter().sum::<usize>(), weights.iter().map(|w| *w as usize).sum::<usize>());
            assert!(count.is_power_of_two() && count <= 64);
            for (share, weight) in shares.iter().zip(&weights) {
                let exact = *weight as f64 * count as f64 / total as f64;
                assert!(*share > 0 && (*share as f64 - exact).abs() < 1.0, "{weights:?}: {shares:?}");
            }
        }
        assert_eq!(share_buckets(&[20, 1]), [15, 1]);
        assert_eq!(share_buckets(&[255, 1, 1, 1]), [61, 1, 1, 1]);
    }
}
