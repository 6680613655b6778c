//! What Linux says of the sides of pairs, carried out on the router's interfaces: state, MTU, Ethernet address,
//! addresses, neighbours, and routes.
//!
//! A message says only that something changed. Control then looks at the link as it is, and takes over what differs
//! from the last look. So a message that is late, because the router changed the link itself meanwhile, does nothing.

use crate::follow::{self, Counts, Namespace, Order};
use crate::kernel::Followed;
use crate::netlink::neighbour::Standing;
use crate::netlink::request::Seen;
use crate::params::Param;
use crate::state::{Origin, Pair, Pairs};
use crate::{followed, fpm, sync, vrf, ways};
use graph::InterfaceIndex;
use router::neighbour::NeighbourKey;
use router::{Devices, Error, Router};
use rustix::io::Errno;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use wire::Prefix;

/// Linux is followed on a link that was found, or on a new one.
pub fn begin(router: &mut Router, phy: InterfaceIndex, is_new: bool) {
    if router.devices() == Devices::DryRun {
        return;
    }
    let is_first = router.state::<Pairs>().reader.is_none();
    let followed = if is_first { followed::all(router) } else { Followed::new() };
    let pairs = router.state_mut::<Pairs>();
    let Some(Pair { namespace, link: Some(link), .. }) = pairs.of(phy).cloned() else { return };
    if is_first {
        pairs.followed.clone_from(&followed);
        match follow::start(pairs.startup.follow, pairs.events.clone()) {
            Ok(reader) => {
                reader.order(Order::NoPaths(pairs.params.is_on(Param::RouteNoPaths)));
                reader.order(Order::Tables(pairs.followed.clone()));
                pairs.reader = Some(reader);
            }
            Err(error) => return log::error!("Linux is not followed: {error}"),
        }
    }
    let counts = pairs.counts.entry(namespace.clone()).or_default().clone();
    settle_routes(pairs);
    if let Some(reader) = &pairs.reader {
        reader.order(Order::Follow { namespace: namespace.clone(), link, interface: phy, is_new, counts });
    }
    let default = pairs.default_namespace().map(str::to_string);
    let no_paths = pairs.params.is_on(Param::RouteNoPaths);
    fpm::set_no_paths(router, no_paths);
    if is_first {
        fpm::follow(router, &followed);
    }
    fpm::followed(router, &namespace, &default, link, phy);
}

/// A pair is gone: what came from Linux goes with it, and what operators stated is in force.
pub fn end(router: &mut Router, pair: &Pair) {
    let pairs = router.state_mut::<Pairs>();
    if let (Some(reader), Some(link)) = (&pairs.reader, pair.link) {
        reader.order(Order::Leave { namespace: pair.namespace.clone(), link });
    }
    pairs.refused.remove(&pair.phy);
    if let Some(link) = pair.link {
        fpm::ended(router, &pair.namespace, link);
    }
    let pairs = router.state_mut::<Pairs>();
    // A pair of a sub-interface is in the namespace of its parent's.
    if pair.vlan.is_none() {
        let used: BTreeSet<Namespace> = pairs.by_phy.values().map(|pair| pair.namespace.clone()).collect();
        pairs.counts.retain(|namespace, _| used.contains(namespace));
        settle_routes(pairs);
    }
    if let Err(error) = withdraw(router, pair) {
        log::warn!("interface {} is not as it was before its pair: {error}", pair.phy);
    }
    vrf::sweep(router, &pair.namespace);
    let pairs = router.state_mut::<Pairs>();
    if !pairs.iter().any(|other| other.namespace == pair.namespace) {
        pairs.netlinks.remove(&pair.namespace);
        vrf::found(router, &pair.namespace, BTreeMap::new());
    }
    followed::drop_tables(router);
}

fn withdraw(router: &mut Router, pair: &Pair) -> Result<(), Error> {
    let phy = pair.phy;
    router.remove_found_neighbours(phy, &BTreeSet::new());
    let interface = router.interfaces.get(phy)?;
    let (up, found) = (interface.stated_up, interface.found.intersection(&pair.seen.addresses));
    for address in found.copied().collect::<Vec<Prefix>>() {
        // A DHCP client keeps its own.
        if let Err(error) = router.remove_found_address(phy, address) {
            log::debug!("{address} stays: {error}");
        }
    }
    router.follow_link_local(phy, None)?;
    router.follow_mtu(phy, None)?;
    router.follow_mac(phy, None)?;
    let moved = router.follow_table(phy, None);
    router.follow_admin(phy, up)?;
    moved
}

/// Routes are those of one namespace: the default one, if it has pairs, else that of the first pair.
pub fn settle_routes(pairs: &mut Pairs) {
    let default = pairs.default_namespace().map(str::to_string);
    let has_pairs = |namespace: &Namespace| pairs.by_phy.values().any(|pair| pair.namespace == *namespace);
    let wanted = match has_pairs(&default) {
        true => Some(default),
        false => pairs.by_phy.values().next().map(|pair| pair.namespace.clone()),
    };
    if pairs.routes_of != wanted {
        pairs.routes_of.clone_from(&wanted);
        if let Some(reader) = &pairs.reader {
            reader.order(Order::Routes(wanted));
        }
    }
}

/// A neighbour that Linux is sure of is the router's, too. One that Linux forgets, the router looks after by itself,
/// unless Linux had it for ever.
pub fn neighbour(router: &mut Router, interface: InterfaceIndex, address: IpAddr, standing: Standing) {
    let key = NeighbourKey::new(interface, address);
    let done = match standing {
        Standing::Permanent(mac) => router.add_found_neighbour(key, mac),
        Standing::Reachable(mac) => {
            router.remove_found_neighbour(key);
            router.set_neighbour(key, mac, false)
        }
        Standing::Other => {
            router.remove_found_neighbour(key);
            Ok(())
        }
    };
    if let Err(error) = done {
        log::warn!("neighbour {address} of Linux is not taken over: {error}");
    }
}

/// What messages said of a pair's side in Linux since the last look.
#[derive(Default)]
pub struct Hint {
    pub phy: InterfaceIndex,
    pub was_down: bool,
    /// Addresses that went.
    pub lost: BTreeSet<IpAddr>,
}

/// The interfaces whose VLAN links are gone: their pairs, which nobody stated, end.
#[must_use]
pub struct Gone(pub Vec<InterfaceIndex>);

/// What a look at a pair's side in Linux found.
struct Found {
    pair: Pair,
    /// The name of the router's interface.
    name: String,
    link: u32,
    now: Seen,
    hint: Hint,
}

impl Found {
    /// Says what could not be taken over.
    fn note(&self, what: &str, done: Result<(), Error>) {
        if let Err(error) = done {
            log::warn!("{} does not follow {} in Linux, {what}: {error}", self.name, self.pair.host);
        }
    }
}

/// Looks at sides in Linux of interfaces, and takes over what changed there since the last look. Interfaces lose what
/// they lose before others get it: an address may move.
pub fn look(router: &mut Router, hints: Vec<Hint>) -> Gone {
    let mut gone = Gone(Vec::new());
    let found = hints.into_iter().filter_map(|hint| find(router, hint, &mut gone));
    let found: Vec<Found> = found.collect();
    for found in &found {
        router.state_mut::<Pairs>().set_seen(found.pair.phy, found.now.clone());
        ways::update(router, found.pair.phy);
    }
    for found in &found {
        lose(router, found);
        router.breathe();
    }
    let moved = |found: &&Found| found.now.master != found.pair.seen.master;
    vrf::settle_all(router, found.iter().filter(moved).map(|found| found.pair.phy).collect());
    for found in found.iter().filter(moved) {
        vrf::sweep(router, &found.pair.namespace);
    }
    for found in &found {
        gain(router, found);
        router.breathe();
    }
    gone
}

/// Looks at a side in Linux now.
pub fn look_at(router: &mut Router, phy: InterfaceIndex) -> Gone {
    look(router, vec![Hint { phy, ..Hint::default() }])
}

/// Interfaces that could not have an address of Linux look again: another one has lost an address.
pub fn look_again(router: &mut Router) -> Gone {
    let refused = std::mem::take(&mut router.state_mut::<Pairs>().refused);
    let is_elsewhere =
        |phy: &InterfaceIndex| router.state::<Pairs>().of(*phy).is_some_and(|pair| !vrf::is_settled(router, pair));
    let elsewhere: Vec<InterfaceIndex> = refused.iter().copied().filter(is_elsewhere).collect();
    vrf::settle_all(router, elsewhere);
    look(router, refused.into_iter().map(|phy| Hint { phy, ..Hint::default() }).collect())
}

fn find(router: &mut Router, hint: Hint, gone: &mut Gone) -> Option<Found> {
    let phy = hint.phy;
    let pairs = router.state_mut::<Pairs>();
    let pair = pairs.of(phy).cloned()?;
    let link = pair.link?;
    let now = match pairs.netlink(pair.namespace.as_deref()).ok()?.look(link) {
        Ok(now) => now,
        Err(error) if error.raw_os_error() == Some(Errno::NODEV.raw_os_error()) => {
            deleted(router, &pair);
            gone.0.extend(pair.vlan.filter(|vlan| vlan.origin != Origin::Stated).map(|_| phy));
            return None;
        }
        Err(error) => {
            log::warn!("{} in Linux cannot be looked at: {error}", pair.host);
            return None;
        }
    };
    let name = router.interfaces.get(phy).ok()?.name.clone();
    (now != pair.seen || hint.was_down).then_some(Found { pair, name, link, now, hint })
}

/// Somebody deleted the side in Linux. The pair stays, and the router's interface is as if it had none.
fn deleted(router: &mut Router, pair: &Pair) {
    log::warn!("{} is deleted in Linux: 'lcp delete' and 'lcp create' make it anew", pair.host);
    let pairs = router.state_mut::<Pairs>();
    if let (Some(reader), Some(link)) = (&pairs.reader, pair.link) {
        reader.order(Order::Leave { namespace: pair.namespace.clone(), link });
    }
    pairs.lose_link(pair.phy);
    if let Some(link) = pair.link {
        fpm::ended(router, &pair.namespace, link);
    }
    ways::update(router, pair.phy);
    if let Err(error) = withdraw(router, pair) {
        log::warn!("interface {} is not as it was before its pair: {error}", pair.phy);
    }
    vrf::sweep(router, &pair.namespace);
}

fn lose(router: &mut Router, found: &Found) {
    let (phy, before, now) = (found.pair.phy, &found.pair.seen, &found.now);
    if now.mac != before.mac {
        found.note("its Ethernet address", router.follow_mac(phy, Some(now.mac)));
    }
    let is_up = now.up && !found.hint.was_down;
    for address in before.addresses.difference(&now.addresses) {
        let is_found = router.interfaces.get(phy).is_ok_and(|interface| interface.found.contains(address));
        if !is_found && is_up && !found.hint.lost.contains(&address.address()) {
            // The messages that say why it is not there have not been read yet. They bring another look.
            router.state_mut::<Pairs>().keep_seen(phy, *address);
            continue;
        }
        found.note(&format!("without {address}"), remove_address(router, phy, *address, is_up));
    }
    if now.link_locals != before.link_locals && now.link_locals.is_empty() {
        found.note("its link-local address", router.follow_link_local(phy, None));
    }
}

fn gain(router: &mut Router, found: &Found) {
    let (phy, before, now) = (found.pair.phy, &found.pair.seen, &found.now);
    if now.mtu != before.mtu {
        found.note("its MTU", mtu(router, phy, now, found.link));
    }
    if now.link_locals != before.link_locals && !now.link_locals.is_empty() {
        found.note("its link-local address", link_local(router, phy, &now.link_locals));
    }
    for address in now.addresses.difference(&before.addresses) {
        let done = add_address(router, phy, *address);
        if done.is_err() {
            // The next look finds it new again.
            let pairs = router.state_mut::<Pairs>();
            pairs.refused.insert(phy);
            pairs.forget_seen(phy, *address);
        }
        found.note(&format!("with {address}"), done);
    }
    if now.up != before.up {
        found.note("its state", router.follow_admin(phy, now.up));
    }
    // Linux took the IPv6 addresses when it was down. Those that operators stated it gets again.
    if found.hint.was_down && now.up && router.state::<Pairs>().is_synchronous() {
        sync::all(router, phy);
    }
}

/// A link does not carry more than the router's does: Linux hears what it carries.
fn mtu(router: &mut Router, phy: InterfaceIndex, now: &Seen, link: u32) -> Result<(), Error> {
    let wanted = u16::try_from(now.mtu).unwrap_or(u16::MAX).min(router::interface::control::MAX_MTU);
    router.follow_mtu(phy, Some(wanted))?;
    let carried = router.interfaces.get(phy)?.mtu;
    if u32::from(carried) == now.mtu {
        return Ok(());
    }
    let pairs = router.state_mut::<Pairs>();
    let Some(Pair { host, namespace, .. }) = pairs.of(phy).cloned() else { return Ok(()) };
    log::warn!("{host} in Linux gets the MTU {carried}, not {}: the router's interface carries no more", now.mtu);
    if let Some(pair) = pairs.by_phy.get_mut(&phy) {
        pair.seen.mtu = carried.into();
    }
    let done = pairs.netlink(namespace.as_deref()).and_then(|ask| ask.set_mtu(link, carried).map_err(shown));
    if let Err(error) = done {
        log::warn!("Linux refuses {host} the MTU {carried}: {error}");
    }
    Ok(())
}

/// Whether an address in Linux is one that the router's interface borrows.
pub fn is_borrowed(router: &Router, phy: InterfaceIndex, address: Prefix) -> bool {
    let lender = router.interfaces.get(phy).ok().and_then(|interface| interface.lender);
    let lender = lender.and_then(|lender| router.interfaces.get(lender).ok());
    lender.is_some_and(|lender| lender.networks(address.family()).any(|own| own.address() == address.address()))
}

fn add_address(router: &mut Router, phy: InterfaceIndex, address: Prefix) -> Result<(), Error> {
    if is_borrowed(router, phy, address) {
        return Ok(());
    }
    match router.add_found_address(phy, address) {
        // An operator stated it, too.
        Err(Error::AddressThere { .. }) => Ok(()),
        done => done,
    }
}

/// Linux takes IPv6 addresses from an interface that goes down. Those that operators stated come back with it.
fn remove_address(router: &mut Router, phy: InterfaceIndex, address: Prefix, is_up: bool) -> Result<(), Error> {
    if !is_up && !router.interfaces.get(phy)?.found.contains(&address) {
        return Ok(());
    }
    match router.remove_found_address(phy, address) {
        Err(Error::NoSuchAddress { .. }) => Ok(()),
        done => done,
    }
}

fn link_local(router: &mut Router, phy: InterfaceIndex, all: &BTreeSet<Ipv6Addr>) -> Result<(), Error> {
    let own = router.interfaces.get(phy)?.ip6.link_local;
    let kept = own.filter(|own| all.contains(own));
    router.follow_link_local(phy, kept.or(all.first().copied()))
}

fn shown(error: io::Error) -> String {
    error.to_string()
}

/// Everything is looked at again.
pub fn look_at_all(router: &mut Router) {
    if let Some(reader) = &router.state::<Pairs>().reader {
        reader.order(Order::Look);
    }
}

/// What the reader counted, by namespace.
pub fn counts(pairs: &Pairs) -> impl Iterator<Item = (&Namespace, &Counts)> {
    pairs.counts.iter().map(|(namespace, counts)| (namespace, &**counts))
}
