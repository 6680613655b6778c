//! The ways of packets through pairs: what nodes read, and where they are enabled.

use crate::state::{BackWay, Pair, Pairs, Way};
use crate::{from_host, to_host};
use graph::InterfaceIndex;
use router::interface::kind::host_claim;
use router::{Error, Router};

/// The arcs of [`to_host::NODES`].
const ARCS: [&str; 4] = ["ip4-local", "ip6-local", "arp", "l2-input"];

/// Packets take the ways of the pair.
pub fn connect(router: &mut Router, pair: Pair) -> Result<(), Error> {
    let (phy, tap, has_tap) = (pair.phy, pair.tap, pair.vlan.is_none());
    let pairs = router.state_mut::<Pairs>();
    pairs.insert(pair);
    if has_tap {
        pairs.by_tap.insert(tap, phy);
    }
    for (arc, node) in ARCS.into_iter().zip(to_host::NODES) {
        router.graph.set_feature(arc, node, phy, true)?;
    }
    if has_tap {
        router.graph.set_feature(drivers::input::ARC, from_host::NODE, tap, true)?;
    }
    publish(router, phy)
}

/// Publishes the ways of a pair for nodes. That to Linux is open while the interface there is up. Only then packets to
/// all groups are taken: the router is a member of few.
pub fn publish(router: &mut Router, phy: InterfaceIndex) -> Result<(), Error> {
    let pairs = router.state::<Pairs>();
    let Some(Pair { tap, vlan, link, seen, .. }) = pairs.of(phy) else { return Ok(()) };
    let (tap, is_there) = (*tap, vlan.is_none() || link.is_some() && seen.up);
    let interface = router.interfaces.get(phy)?;
    let is_open = is_there && router.interfaces.get(tap)?.is_usable();
    pairs.to_host.set(phy, Some(Way { tap, mac: interface.mac, tags: interface.tags, is_open }));
    // Frames of sub-interfaces come by the TAP of their parent.
    if let Some(phy) = pairs.by_tap.get(&tap).copied() {
        let subs = router.interfaces.get(phy)?.sub_interfaces().cloned();
        pairs.from_host.set(tap, Some(BackWay { phy, subs }));
    }
    // Seldom another than before, and all views are published with it.
    match router.interfaces.get(phy)?.all_groups == is_open {
        true => Ok(()),
        false => router.set_all_groups(phy, is_open),
    }
}

/// The same, when there is nobody to hear of a failure.
pub fn update(router: &mut Router, phy: InterfaceIndex) {
    if let Err(error) = publish(router, phy) {
        log::error!("the pair of interface {phy} is not up to date: {error}");
    }
}

/// Publishes the ways of a TAP's pair, and those of the pairs above it.
pub fn publish_all(router: &mut Router, tap: InterfaceIndex) -> Result<(), Error> {
    if !router.state::<Pairs>().by_tap.contains_key(&tap) {
        return Ok(());
    }
    let of_tap = |pair: &&Pair| pair.tap == tap;
    let all: Vec<InterfaceIndex> = router.state::<Pairs>().iter().filter(of_tap).map(|pair| pair.phy).collect();
    all.into_iter().try_for_each(|phy| publish(router, phy))
}

/// Takes back what [`connect`] did, as far as it was done. Gives the pair that was.
pub fn disconnect(router: &mut Router, phy: InterfaceIndex) -> Option<Pair> {
    let pairs = router.state_mut::<Pairs>();
    let pair = pairs.remove(phy)?;
    let Pair { tap, host, namespace, vlan, .. } = pair.clone();
    // A namespace of this name may be another one when the next pair is made there.
    if vlan.is_none() && pairs.by_phy.values().all(|pair| pair.namespace != namespace) {
        pairs.netlinks.remove(&namespace);
    }
    pairs.to_host.set(phy, None);
    let ways = ARCS.into_iter().zip(to_host::NODES).map(|(arc, node)| (arc, node, phy));
    let mut ways: Vec<_> = ways.collect();
    if vlan.is_none() {
        pairs.by_tap.remove(&tap);
        pairs.let_go(&host_claim(namespace.as_deref(), &host));
        pairs.from_host.set(tap, None);
        ways.push((drivers::input::ARC, from_host::NODE, tap));
    }
    for (arc, node, interface) in ways {
        if let Err(error) = router.graph.set_feature(arc, node, interface, false) {
            log::error!("{node} stays enabled on interface {interface}: {error}");
        }
    }
    if let Err(error) = router.set_all_groups(phy, false) {
        log::error!("interface {phy} receives all groups still: {error}");
    }
    Some(pair)
}
