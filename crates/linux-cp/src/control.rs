//! Operations on pairs.

use crate::error::LcpError;
use crate::netlink::request::Seen;
use crate::pair::{OWN_NAMESPACE, PairConfig};
use crate::state::{Pair, Pairs, Way};
use crate::{from_host, from_linux, sync, to_host};
use graph::InterfaceIndex;
use router::capability::{Change, Notice, Statement};
use router::interface::kind::InterfaceConfig;
use router::{Error, Router};
use std::net::IpAddr;

/// The arcs of [`to_host::NODES`].
const ARCS: [&str; 4] = ["ip4-local", "ip6-local", "arp", "l2-input"];

/// Makes a pair: an interface of this name in Linux, which is down. Its Ethernet address and MTU are those of the
/// router's interface. Without a namespace it is in the default one.
///
/// # Errors
/// When the interface cannot have a pair, or Linux refuses the name; then nothing has changed.
pub fn create(
    router: &mut Router,
    phy: InterfaceIndex,
    host: &str,
    namespace: Option<&str>,
) -> Result<InterfaceIndex, Error> {
    let interface = router.interfaces.get(phy)?;
    let name = || interface.name.clone();
    check_free(router, phy, name())?;
    if interface.sub.is_some() {
        return Err(LcpError::SubInterface(name()).into());
    }
    if router.is_tunnel(phy) {
        return Err(LcpError::NoFrames(name()).into());
    }
    drivers::check_host_name(host)?;
    let pairs = router.state::<Pairs>();
    let config = PairConfig {
        phy,
        phy_name: name(),
        host: host.into(),
        namespace: namespace.or(pairs.default_namespace()).filter(|name| *name != OWN_NAMESPACE).map(str::to_string),
        mac: Some(interface.mac),
        mtu: interface.mtu,
        queues: pairs.startup.queues,
    };
    let namespace = config.namespace.clone();
    let tap_name = config.default_name(router);
    router.operation(|router| {
        let tap = router.create(&tap_name, Box::new(config))?;
        let pair = Pair { phy, tap, host: host.into(), namespace, link: None, seen: Seen::default() };
        let made = connect(router, pair).and_then(|()| router.set_admin(tap, true));
        if let Err(error) = made {
            disconnect(router, phy);
            router.delete_interface(tap)?;
            return Err(error);
        }
        sync::begin(router, phy);
        from_linux::begin(router, phy);
        Ok(tap)
    })
}

/// Makes a pair of two interfaces of the router: `tap` leads to Linux already, where its other end has this name.
///
/// # Errors
/// When one of them does not exist, or is of a pair already; then nothing has changed.
pub fn join(router: &mut Router, phy: InterfaceIndex, tap: InterfaceIndex, host: &str) -> Result<(), Error> {
    for index in [phy, tap] {
        let name = router.interfaces.get(index)?.name.clone();
        check_free(router, index, name)?;
    }
    if phy == tap {
        return Err(LcpError::ToItself(router.interfaces.get(phy)?.name.clone()).into());
    }
    let (namespace, link, seen) = Default::default();
    let joined = connect(router, Pair { phy, tap, host: host.into(), namespace, link, seen });
    joined.inspect_err(|_| disconnect(router, phy))
}

fn check_free(router: &Router, index: InterfaceIndex, name: String) -> Result<(), Error> {
    let pairs = router.state::<Pairs>();
    if let Some(pair) = pairs.of(index) {
        return Err(LcpError::Paired { phy: name, host: pair.host.clone() }.into());
    }
    if pairs.by_tap.contains_key(&index) {
        return Err(LcpError::IsHostSide(name).into());
    }
    Ok(())
}

/// Removes a pair with its interface in Linux.
///
/// # Errors
/// When the interface has none.
pub fn delete(router: &mut Router, phy: InterfaceIndex) -> Result<(), Error> {
    let interface = router.interfaces.get(phy)?;
    let Some(pair) = router.state::<Pairs>().of(phy) else {
        return Err(LcpError::NoPair(interface.name.clone()).into());
    };
    // The pair ends when its TAP leaves.
    router.delete_interface(pair.tap)
}

/// Sets the namespace of pairs that are made from now on and name none; none: that of this process.
pub fn set_default_namespace(router: &mut Router, namespace: Option<String>) {
    let pairs = router.state_mut::<Pairs>();
    pairs.stated_namespace = if namespace == pairs.startup.namespace { None } else { Some(namespace) };
    from_linux::settle_routes(pairs);
}

/// Has the state, the MTU and the addresses of all sides in Linux follow the router's from now on, or no longer.
pub fn set_sync(router: &mut Router, on: bool) {
    let pairs = router.state_mut::<Pairs>();
    let before = pairs.is_synchronous();
    pairs.stated_sync = if on == pairs.startup.sync { None } else { Some(on) };
    if on && !before {
        let all: Vec<InterfaceIndex> = pairs.by_phy.keys().copied().collect();
        all.into_iter().for_each(|phy| sync::all(router, phy));
    }
}

/// Packets take the ways of the pair.
fn connect(router: &mut Router, pair: Pair) -> Result<(), Error> {
    let (phy, tap) = (pair.phy, pair.tap);
    let pairs = router.state_mut::<Pairs>();
    pairs.by_tap.insert(tap, phy);
    pairs.by_phy.insert(phy, pair);
    for (arc, node) in ARCS.into_iter().zip(to_host::NODES) {
        router.graph.set_feature(arc, node, phy, true)?;
    }
    router.graph.set_feature(drivers::input::ARC, from_host::NODE, tap, true)?;
    publish(router, phy)
}

/// Publishes the ways of a pair for nodes. That to Linux is open while the interface there is up. Only then packets to
/// all groups are taken: the router is a member of few.
fn publish(router: &mut Router, phy: InterfaceIndex) -> Result<(), Error> {
    let pairs = router.state::<Pairs>();
    let Some(&Pair { tap, .. }) = pairs.of(phy) else { return Ok(()) };
    let (mac, is_open) = (router.interfaces.get(phy)?.mac, router.interfaces.get(tap)?.is_usable());
    pairs.to_host.set(phy, Some(Way { to: tap, mac, is_open }));
    pairs.from_host.set(tap, Some(Way { to: phy, mac, is_open: true }));
    router.set_all_groups(phy, is_open)
}

/// Takes back what [`connect`] did, as far as it was done.
fn disconnect(router: &mut Router, phy: InterfaceIndex) {
    let pairs = router.state_mut::<Pairs>();
    let Some(pair) = pairs.by_phy.remove(&phy) else { return };
    let Pair { tap, namespace, .. } = pair.clone();
    // A namespace of this name may be another one when the next pair is made there.
    if pairs.by_phy.values().all(|pair| pair.namespace != namespace) {
        pairs.netlinks.remove(&namespace);
    }
    pairs.by_tap.remove(&tap);
    pairs.to_host.set(phy, None);
    pairs.from_host.set(tap, None);
    let ways = ARCS.into_iter().zip(to_host::NODES).map(|(arc, node)| (arc, node, phy));
    for (arc, node, interface) in ways.chain([(drivers::input::ARC, from_host::NODE, tap)]) {
        if let Err(error) = router.graph.set_feature(arc, node, interface, false) {
            log::error!("{node} stays enabled on interface {interface}: {error}");
        }
    }
    if let Err(error) = router.set_all_groups(phy, false) {
        log::error!("interface {phy} receives all groups still: {error}");
    }
    from_linux::end(router, &pair);
}

/// A pair ends with either side.
pub(crate) fn hears(router: &mut Router, notice: &Notice) {
    let changed = match notice {
        Notice::Mac(phy) => Some(*phy),
        Notice::LinkState { interface, .. } | Notice::State { interface, .. } => {
            router.state::<Pairs>().by_tap.get(interface).copied()
        }
        _ => None,
    };
    if let Some(phy) = changed
        && let Err(error) = publish(router, phy)
    {
        log::error!("the pair of interface {phy} is not up to date: {error}");
    }
    if let Notice::Renamed { interface, .. } = notice {
        renamed(router, *interface);
    }
    sync::hears(router, notice);
    // Addresses of links stand in nobody's way.
    if let Notice::AddressRemoved { address, .. } = notice
        && !matches!(address.address(), IpAddr::V6(address) if address.is_unicast_link_local())
        && !router.state::<Pairs>().refused.is_empty()
    {
        from_linux::look_again(router);
    }
    let Notice::Leaving(leaving) = notice else { return };
    if let Some(phy) = router.state::<Pairs>().by_tap.get(leaving).copied() {
        return disconnect(router, phy);
    }
    if router.state::<Pairs>().of(*leaving).is_some()
        && let Err(error) = delete(router, *leaving)
    {
        log::error!("the TAP of a removed interface stays: {error}");
        disconnect(router, *leaving);
    }
}

/// The command that makes the pair has the interface's name in it.
fn renamed(router: &mut Router, phy: InterfaceIndex) {
    let Some(tap) = router.state::<Pairs>().of(phy).map(|pair| pair.tap) else { return };
    let Ok(name) = router.interfaces.get(phy).map(|interface| interface.name.clone()) else { return };
    let Ok(interface) = router.interfaces.get_mut(tap) else { return };
    if let Some(config) = interface.options::<PairConfig>().cloned() {
        interface.creation = Some(Box::new(PairConfig { phy_name: name, ..config }));
    }
}

/// What Linux has on its side is set there.
pub(crate) fn allows(router: &Router, change: &Change) -> Result<(), Error> {
    let Change::Address { interface, .. } = *change else { return Ok(()) };
    match router.state::<Pairs>().by_tap.contains_key(&interface) {
        true => Err(LcpError::OfLinux(router.interfaces.get(interface)?.name.clone()).into()),
        false => Ok(()),
    }
}

pub(crate) fn statements(router: &Router, into: &mut Vec<Statement>) {
    let pairs = router.state::<Pairs>();
    if let Some(on) = pairs.stated_sync {
        let said = |on: bool| format!("lcp lcp-sync {}", if on { "on" } else { "off" });
        into.push(Statement::new(said(on), said(!on)));
    }
    if let Some(stated) = &pairs.stated_namespace {
        let (undo, line) = ("lcp default netns default", stated.as_deref().unwrap_or("clear"));
        into.push(Statement::new(format!("lcp default netns {line}"), undo.into()).replaced_by_itself());
    }
}
