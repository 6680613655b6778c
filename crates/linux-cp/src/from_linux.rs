//! What Linux says of the sides of pairs, carried out on the router's interfaces: state, MTU, Ethernet address, addresses,
//! neighbours, and routes.
//!
//! A message says only that something changed. Control then looks at the link as it is, and takes over what differs from
//! the last look. So a message that is late, because the router changed the link itself meanwhile, does nothing.

use crate::audit;
use crate::follow::{Counts, Event, Namespace, Order, Reader};
use crate::netlink::neighbour::Standing;
use crate::netlink::request::Seen;
use crate::state::{Pair, Pairs};
use graph::InterfaceIndex;
use router::ip::bulk::Batch;
use router::ip::route::Source;
use router::neighbour::NeighbourKey;
use router::{Devices, Error, Router};
use std::collections::BTreeSet;
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use wire::Prefix;

/// Linux is followed on a link that was found.
pub fn begin(router: &mut Router, phy: InterfaceIndex) {
    if router.devices() == Devices::DryRun {
        return;
    }
    let pairs = router.state_mut::<Pairs>();
    let Some(Pair { namespace, link: Some(link), .. }) = pairs.of(phy).cloned() else { return };
    if pairs.reader.is_none() {
        match Reader::start(pairs.startup.follow, pairs.events.clone()) {
            Ok(reader) => pairs.reader = Some(reader),
            Err(error) => return log::error!("Linux is not followed: {error}"),
        }
    }
    let counts = pairs.counts.entry(namespace.clone()).or_default().clone();
    settle_routes(pairs);
    if let Some(reader) = &pairs.reader {
        reader.order(Order::Follow { namespace, link, interface: phy, counts });
    }
}

/// A pair is gone.
pub fn end(pairs: &mut Pairs, pair: &Pair) {
    if let (Some(reader), Some(link)) = (&pairs.reader, pair.link) {
        reader.order(Order::Leave { namespace: pair.namespace.clone(), link });
    }
    let used: BTreeSet<Namespace> = pairs.by_phy.values().map(|pair| pair.namespace.clone()).collect();
    pairs.counts.retain(|namespace, _| used.contains(namespace));
    settle_routes(pairs);
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

/// Control hears of the reader.
pub fn handle(router: &mut Router, event: Event) {
    match event {
        Event::Links { namespace, links } => {
            let is_it =
                |pair: &&Pair| pair.namespace == namespace && pair.link.is_some_and(|link| links.contains(&link));
            let phys: Vec<InterfaceIndex> = router.state::<Pairs>().iter().filter(is_it).map(|pair| pair.phy).collect();
            for phy in phys {
                look(router, phy);
                router.breathe();
            }
        }
        Event::Neighbours(neighbours) => {
            for (interface, address, standing) in neighbours {
                neighbour(router, interface, address, standing);
                router.breathe();
            }
        }
        Event::Routes(batches) => routes(router, batches),
        Event::Audit => confirm(router),
    }
}

fn routes(router: &mut Router, batches: Vec<Batch>) {
    let refused = match router.change_all_routes(Source::Linux, batches) {
        Ok(outcome) => Some(outcome.refused),
        Err(error) => {
            log::error!("routes of Linux are refused, and tried again: {error}");
            None
        }
    };
    if let Some(reader) = &router.state::<Pairs>().reader {
        reader.order(Order::Done(refused));
    }
}

/// After lost messages: what differs still is set right.
fn confirm(router: &mut Router) {
    match audit::audit(router) {
        Ok(found) if found.differences == 0 => log::info!("messages of Linux were lost, and nothing is missing"),
        Ok(found) => {
            log::warn!("messages of Linux were lost: {} differences are set right", found.differences);
            audit::repair(router, &found);
        }
        Err(error) => log::warn!("messages of Linux were lost, and Linux cannot be read: {error}"),
    }
}

/// A neighbour that Linux is sure of is the router's, too. One that Linux forgets, the router looks after by itself,
/// unless Linux had it for ever.
fn neighbour(router: &mut Router, interface: InterfaceIndex, address: IpAddr, standing: Standing) {
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

/// Looks at a pair's side in Linux, and takes over what changed there.
pub fn look(router: &mut Router, phy: InterfaceIndex) {
    let pairs = router.state_mut::<Pairs>();
    let Some(Pair { host, namespace, link: Some(link), seen: before, .. }) = pairs.of(phy).cloned() else { return };
    let now = match pairs.netlink(namespace.as_deref()).and_then(|ask| ask.look(link).map_err(shown)) {
        Ok(now) => now,
        // The TAP says so itself when the link is gone.
        Err(error) => return log::debug!("{host} cannot be looked at: {error}"),
    };
    if now == before {
        return;
    }
    pairs.set_seen(phy, now.clone());
    let Ok(name) = router.interfaces.get(phy).map(|interface| interface.name.clone()) else { return };
    let note = |what: &str, done: Result<(), Error>| {
        if let Err(error) = done {
            log::warn!("{name} does not follow {host} in Linux, {what}: {error}");
        }
    };
    if now.mac != before.mac {
        note("its Ethernet address", router.follow_mac(phy, now.mac));
    }
    if now.mtu != before.mtu {
        note("its MTU", mtu(router, phy, &now, link));
    }
    let gone: Vec<Prefix> = before.addresses.difference(&now.addresses).copied().collect();
    for address in gone {
        note(&format!("without {address}"), remove_address(router, phy, address, now.up));
    }
    if now.link_locals != before.link_locals {
        note("its link-local address", link_local(router, phy, &now.link_locals));
    }
    let new: Vec<Prefix> = now.addresses.difference(&before.addresses).copied().collect();
    for address in new {
        note(&format!("with {address}"), add_address(router, phy, address));
    }
    if now.up != before.up {
        note("its state", router.follow_admin(phy, now.up));
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
    pairs.set_seen(phy, Seen { mtu: carried.into(), ..now.clone() });
    let done = pairs.netlink(namespace.as_deref()).and_then(|ask| ask.set_mtu(link, carried).map_err(shown));
    if let Err(error) = done {
        log::warn!("Linux refuses {host} the MTU {carried}: {error}");
    }
    Ok(())
}

fn add_address(router: &mut Router, phy: InterfaceIndex, address: Prefix) -> Result<(), Error> {
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
